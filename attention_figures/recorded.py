"""What was measured once on a GPU, for the figures of whoever has none. `tools/gpu_record.py` makes the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("gpu_record.json")


def gpu_record() -> dict[str, Any]:
    """The parts of the record by name, `made` with device, versions and date among them; empty where there is none."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
