"""What a class's verdicts come to: the numbers behind the report page and its CSV files."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .grading import Course
from .jobs import Graded
from .judge import Verdict
from .oddities import odd_things
from .report import mistakes
from .text import printable
from .units import exercises

#: What an answer can come to, the best first.
OUTCOMES = ("right", "partly", "wrong", "missing")


def outcome(verdict: Verdict) -> str:
    """One of OUTCOMES: a crash, a loop without an end and a forbidden call count as wrong."""
    if verdict.verdict in ("right", "missing"):
        return verdict.verdict
    return "partly" if verdict.score > 0 else "wrong"


@dataclass(frozen=True)
class ExerciseSummary:
    """One exercise: how many answers came to what, of those who handed in the unit's notebook."""

    function: str
    points: float
    counts: dict[str, int]
    mistakes: list[dict[str, Any]]

    @property
    def handed_in(self) -> int:
        return sum(self.counts.values())

    @property
    def answered(self) -> int:
        return self.handed_in - self.counts["missing"]


@dataclass(frozen=True)
class UnitSummary:
    """One unit: its exercises, and a row for each student who handed it in."""

    name: str
    exercises: list[ExerciseSummary]
    rows: list[tuple[str, dict[str, Verdict]]]

    @property
    def points(self) -> float:
        return sum(exercise.points for exercise in self.exercises)


@dataclass(frozen=True)
class Remark:
    """Something about one student's work that a person should know; `about` is a function or ""."""

    student: str
    unit: str
    about: str
    words: str


@dataclass
class Summary:
    """The whole class."""

    units: list[UnitSummary] = field(default_factory=list)
    unsolved: list[tuple[str, str]] = field(default_factory=list)
    forbidden: list[Remark] = field(default_factory=list)
    cells: list[Remark] = field(default_factory=list)
    code: list[Remark] = field(default_factory=list)
    stopped: list[Remark] = field(default_factory=list)
    unreadable: list[Remark] = field(default_factory=list)

    @property
    def students(self) -> list[str]:
        return sorted({student for unit in self.units for student, _ in unit.rows})


def summarise(root: Path, graded: Sequence[Graded]) -> Summary:
    """The numbers of a class folder; what was handed in is looked at once more, for what was changed in it."""
    result = Summary()
    course = Course(root)
    made: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for entry in mistakes(graded):
        made[entry["unit"], entry["function"]].append({**entry, "advice": _advice(entry, graded)})
    for name in dict.fromkeys(item.unit for item in graded):
        items = [item for item in graded if item.unit == name and item.verdicts]
        rows = [(printable(item.student), {verdict.function: verdict for verdict in item.verdicts}) for item in items]
        functions = {verdict.function: verdict.points for item in items for verdict in item.verdicts}
        parts = []
        for function, points in functions.items():
            counts = Counter(outcome(row[function]) for _, row in rows if function in row)
            parts.append(ExerciseSummary(function, points, {o: counts[o] for o in OUTCOMES}, made[name, function]))
        result.units.append(UnitSummary(name, parts, rows))
        result.unsolved += [(name, part.function) for part in parts if part.answered and not part.counts["right"]]
        for item in items:
            _remark(result, root, course, item)
    return result


def _remark(result: Summary, root: Path, course: Course, item: Graded) -> None:
    student = printable(item.student)
    if item.problem:
        place = f"{root}/grading/submitted/{item.student}/{item.unit}/"
        words = printable(item.problem).replace(printable(place), "")
        result.unreadable.append(Remark(student, item.unit, "", words))
        return
    for verdict in item.verdicts:
        remark = Remark(student, item.unit, verdict.function, verdict.message)
        if verdict.verdict == "forbidden":
            result.forbidden.append(remark)
        elif verdict.verdict in ("crashed", "timeout"):
            result.stopped.append(remark)
    if course.has(item.unit):
        path = root / "grading" / "submitted" / item.student / item.unit / f"{item.unit}.ipynb"
        for kind, words in odd_things(path, course.release(item.unit)):
            remark = Remark(student, item.unit, "", printable(words))
            (result.cells if kind == "cells" else result.code).append(remark)


def _advice(entry: dict[str, Any], graded: Sequence[Graded]) -> str:
    """The exercise's own sentence about a mistake; else the words that its students were told most often."""
    exercise = exercises(entry["unit"]).get(entry["function"])
    for mistake in exercise.mistakes if exercise else ():
        if mistake.slug == entry["mistake"]:
            return mistake.advice
    told = Counter(
        verdict.message.partition(" First seen in")[0]
        for item in graded
        if item.unit == entry["unit"]
        for verdict in item.verdicts
        if (verdict.function, verdict.mistake) == (entry["function"], entry["mistake"])
    )
    return told.most_common(1)[0][0]
