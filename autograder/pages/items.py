"""Item analysis: how hard each exercise was, and whether those who solved it did well on the rest of its unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import correlation, fmean
from typing import Any

from .summary import Summary, UnitSummary, outcome

#: Students below whom a correlation says nothing.
FEWEST = 10
#: A discrimination below this is worth a look.
LOW = 0.1
TOO_FEW, ALIKE = "too few", "no variance"


@dataclass(frozen=True)
class Item:
    """One exercise, by those who handed in its unit and wait for no mark of it.

    right: the share whose answer is right. points: the mean share of the points. discrimination: the point-biserial
    correlation of being right with the points of the unit's other exercises; None where `why` says why there is none.
    """

    unit: str
    function: str
    students: int
    right: float
    points: float
    discrimination: float | None
    why: str = ""

    @property
    def is_low(self) -> bool:
        return self.discrimination is not None and self.discrimination < LOW

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def items(summary: Summary) -> list[Item]:
    """All exercises that count, in the order of the course."""
    return [item for unit in summary.units for item in _of_unit(unit)]


def _of_unit(unit: UnitSummary) -> list[Item]:
    waited = {name for _, row in unit.rows for name, verdict in row.items() if verdict.verdict == "waiting"}
    found = []
    for exercise in unit.exercises:
        name, points = exercise.function, exercise.points
        rows = [row for _, row in unit.rows if name in row and row[name].verdict != "waiting"]
        if not rows or not points:
            continue
        others = [other.function for other in unit.exercises if other.function != name and other.function not in waited]
        solved = [float(outcome(row[name]) == "right") for row in rows]
        rest = [sum(row[other].score for other in others if other in row) for row in rows]
        told, why = _discrimination(solved, rest)
        shares = fmean(row[name].score / points for row in rows)
        found.append(Item(unit.name, name, len(rows), fmean(solved), shares, told, why))
    return found


def _discrimination(solved: Sequence[float], rest: Sequence[float]) -> tuple[float | None, str]:
    """With one of two values on one side, the point-biserial correlation is Pearson's."""
    if len(solved) < FEWEST:
        return None, TOO_FEW
    if len(set(solved)) < 2 or len({round(score, 6) for score in rest}) < 2:
        return None, ALIKE
    return correlation(solved, rest), ""


__all__ = ["FEWEST", "LOW", "Item", "items"]
