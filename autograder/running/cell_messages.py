"""The messages about cells to and from a student's process; what comes back is made safe to pass on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..data import CellOutcome, CellSource, Failure
from ..worker.frames import BadFrame


def read_failure(error: Any) -> Failure:
    """The failure that a stranger's frame describes; what is not text or a line number in it is dropped."""
    error = error if isinstance(error, dict) else {}
    line = error.get("line")
    known = type(line) is int and 0 < line < 10**6
    cell = words(error.get("cell"), 100)
    return Failure(
        words(error.get("type"), 200) or "Exception",
        words(error.get("message"), 2_000),
        line if known else None,
        cell if re.fullmatch(r"[\w-]+", cell) else "",
        error.get("deliberate") is True,
    )


def words(value: Any, cap: int) -> str:
    """Text from a stranger, cut short, without lone surrogates, which would break whoever writes it down."""
    return value[:cap].encode("utf-8", "replace").decode() if isinstance(value, str) else ""


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
        source = IMPORT.sub("from worker.lazy_matplotlib import plt", source)
    told = {"name": cell.name, "source": source, "tested": cell.tested, "tests": cell.tests}
    return {**told, "own": cell.kind == "extra", "given": cell.kind == "given"}


def outcome_of(name: str, header: dict[str, Any]) -> CellOutcome:
    status = header.get("status")
    if status not in ("ran", "failed", "timeout"):
        raise BadFrame("status")
    failure = read_failure(header.get("error")) if status == "failed" else None
    return CellOutcome(name, status, failure, header.get("defined") is True)
