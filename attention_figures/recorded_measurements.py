"""Reads recorded measurements, for readers without a GPU or without the model.

Each file is written by a tool: `tools/record_gpu_times.py`, `tools/record_model_heads.py`,
`tools/record_real_model.py`, `tools/record_ablation.py`, `tools/record_openings.py`.
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
    """Return the record's parts by name, with `made` (device, versions, date) among them; empty without a record."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}


def model_heads() -> dict[str, Any]:
    """Return what each head of a real model attends to in three short texts: the live figure `model_heads`'s data."""
    return json.loads(HEADS.read_text(encoding="utf-8"))


def model_record() -> dict[str, Any]:
    """Return unit 11's measurements by name, with `made` (versions, date) among them; empty without a record."""
    return json.loads(MODEL.read_text(encoding="utf-8")) if MODEL.is_file() else {}


def ablation_record() -> dict[str, Any]:
    """Return how well unit 7's language model learns without one of its parts: `made` (versions, date) and `runs`."""
    return json.loads(ABLATION.read_text(encoding="utf-8")) if ABLATION.is_file() else {}


def opening_record(unit: str) -> dict[str, Any]:
    """Return the data of the live figure that opens `unit` and shows what the unit trains."""
    return json.loads(OPENINGS.read_text(encoding="utf-8"))[unit]
