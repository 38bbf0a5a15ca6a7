"""What was measured beforehand, for the figures of whoever has no GPU or no model.

A tool makes each file: `tools/record_gpu_times.py`, `tools/record_model_heads.py`, `tools/record_real_model.py`,
`tools/record_ablation.py`, `tools/record_openings.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("gpu_record.json")
HEADS = Path(__file__).with_name("model_heads.json")
MODEL = Path(__file__).with_name("model_record.json")
ABLATION = Path(__file__).with_name("ablation_record.json")
OPENINGS = Path(__file__).with_name("opening_record.json")


def gpu_record() -> dict[str, Any]:
    """The parts of the record by name, `made` with device, versions and date among them; empty where there is none."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}


def model_heads() -> dict[str, Any]:
    """What each head of a real model reads in three short texts: the data of the live figure `model_heads`."""
    return json.loads(HEADS.read_text(encoding="utf-8"))


def model_record() -> dict[str, Any]:
    """What unit 11 measures with a real model, by name, `made` with versions and date; empty where there is none."""
    return json.loads(MODEL.read_text(encoding="utf-8")) if MODEL.is_file() else {}


def ablation_record() -> dict[str, Any]:
    """What unit 7's language model learns without one of its parts, `made` with versions and date, and all `runs`."""
    return json.loads(ABLATION.read_text(encoding="utf-8")) if ABLATION.is_file() else {}


def opening_record(unit: str) -> dict[str, Any]:
    """The data of the live figure that opens a unit and shows what the unit trains."""
    return json.loads(OPENINGS.read_text(encoding="utf-8"))[unit]
