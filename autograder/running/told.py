"""What a student's process is told of the cells that it is to run, and what it tells of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..data import CellOutcome, CellSource
from ..worker.frames import BadFrame
from .failures import read_failure

PLOTS = re.compile(r"\bplt\b|matplotlib|pylab")
IMPORT = re.compile(r"^import matplotlib\.pyplot as plt$", re.MULTILINE)


def slow_libraries(cells: Sequence[CellSource]) -> frozenset[str]:
    """What takes long to import, and is to be there already: of matplotlib only what students use themselves."""
    found = {"torch"} if any("torch" in cell.source for cell in cells) else set()
    if any(PLOTS.search(cell.source) for cell in cells if cell.kind != "given"):
        found.add("matplotlib")
    return frozenset(found)


def order_of(cell: CellSource, libraries: frozenset[str]) -> dict[str, Any]:
    """What is sent of a cell. Where no student draws, ours import matplotlib when something is drawn."""
    source = cell.source
    if cell.kind == "given" and "matplotlib" not in libraries:
        source = IMPORT.sub("from worker.later import plt", source)
    told = {"name": cell.name, "source": source, "tested": cell.tested, "tests": cell.tests}
    return {**told, "own": cell.kind == "extra", "given": cell.kind == "given"}


def outcome_of(name: str, header: dict[str, Any]) -> CellOutcome:
    status = header.get("status")
    if status not in ("ran", "failed", "timeout"):
        raise BadFrame("status")
    failure = read_failure(header.get("error")) if status == "failed" else None
    return CellOutcome(name, status, failure, header.get("defined") is True)
