"""Summarises a class's verdicts: the numbers on the report page, and how hard each exercise was."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import correlation, fmean, median
from typing import Any

from ..exercises import find_exercise, is_exercise, title_of_mistake
from ..reading.course_contents import Course
from ..reading.tamper_flags import odd_things
from ..records import FIRST_SEEN, Graded, Verdict
from ..safe_text import printable

#: Fewest students for whom a correlation says anything.
FEWEST = 10
#: A discrimination below this is worth a look.
LOW = 0.1
TOO_FEW, ALIKE = "too few", "no variance"


@dataclass(frozen=True)
class Item:
    """Describes one exercise, for those who handed in its unit and wait for no mark of it.

    right: the share whose answer is right. points: the mean share of the points. discrimination: the point-biserial
    correlation of being right with the points of the unit's other exercises; None if `why` says why there is none.
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
    """Return all exercises that count, in the order of the course."""
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
    """Return the point-biserial correlation, which is Pearson's with two values on one side, or why there is none."""
    if len(solved) < FEWEST:
        return None, TOO_FEW
    if len(set(solved)) < 2 or len({round(score, 6) for score in rest}) < 2:
        return None, ALIKE
    return correlation(solved, rest), ""


#: Outcomes of an answer, the best first.
OUTCOMES = ("right", "partly", "wrong", "missing", "waiting")
#: How many of the most common mistakes are shown.
TOP = 5
NOT_RECOGNISED = "not recognised"


def outcome(verdict: Verdict) -> str:
    """Return one of OUTCOMES: a crash, an endless loop and a forbidden call count as wrong."""
    if verdict.verdict in ("missing", "waiting"):
        return verdict.verdict
    if verdict.by_hand or verdict.verdict == "right":
        return "right" if verdict.score >= verdict.points else "partly" if verdict.score > 0 else "wrong"
    return "partly" if verdict.score > 0 else "wrong"


@dataclass(frozen=True)
class MistakeSummary:
    """Describes one mistake of one exercise: who made it, how many answered, and the advice they got."""

    unit: str
    function: str
    name: str
    students: list[str]
    answers: int
    advice: str

    @property
    def count(self) -> int:
        return len(self.students)

    @property
    def title(self) -> str:
        """Return the mistake's name as people read it."""
        if self.name == NOT_RECOGNISED:
            return self.name
        return title_of_mistake(self.name, self.function, self.unit)


@dataclass(frozen=True)
class ExerciseSummary:
    """Counts the outcomes of one exercise, for those who handed in the unit's notebook.

    mistakes: the most frequent first; those without a name come last, under NOT_RECOGNISED.
    """

    function: str
    points: float
    counts: dict[str, int]
    mistakes: list[MistakeSummary]
    scores: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        return fmean(self.scores)

    @property
    def median(self) -> float:
        return median(self.scores)

    @property
    def handed_in(self) -> int:
        return sum(self.counts.values())

    @property
    def answered(self) -> int:
        return self.handed_in - self.counts["missing"] - self.counts["waiting"]


@dataclass(frozen=True)
class UnitSummary:
    """Describes one unit: its exercises, and the verdicts and the final score of each student who handed it in.

    penalties: the late penalties of those who have one.
    """

    name: str
    exercises: list[ExerciseSummary]
    rows: list[tuple[str, dict[str, Verdict]]]
    scores: dict[str, float] = field(default_factory=dict)
    penalties: dict[str, float] = field(default_factory=dict)

    @property
    def points(self) -> float:
        return sum(exercise.points for exercise in self.exercises)

    @property
    def sums(self) -> list[float]:
        return list(self.scores.values())

    @property
    def mean(self) -> float:
        return fmean(self.sums or [0.0])

    @property
    def median(self) -> float:
        return median(self.sums or [0.0])


@dataclass(frozen=True)
class Remark:
    """Holds a remark about one student's work that a person should know; `about` is a function or ""."""

    student: str
    unit: str
    about: str
    words: str


@dataclass
class Summary:
    """Summarises the whole class."""

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

    @property
    def most_common(self) -> list[MistakeSummary]:
        """Return the named mistakes that most students made, over all units."""
        named = [
            mistake
            for unit in self.units
            for exercise in unit.exercises
            for mistake in exercise.mistakes
            if mistake.name != NOT_RECOGNISED
        ]
        return sorted(named, key=lambda mistake: -mistake.count)[:TOP]


def summarise(root: Path, graded: Sequence[Graded]) -> Summary:
    """Return the summary of a class folder; submissions are read once more to find what was changed in them."""
    result = Summary()
    course = Course(root)
    for name in dict.fromkeys(item.unit for item in graded):
        items = [item for item in graded if item.unit == name and item.verdicts]
        rows = [(printable(item.student), {verdict.function: verdict for verdict in item.verdicts}) for item in items]
        functions = {verdict.function: verdict.points for item in items for verdict in item.verdicts}
        parts = []
        for function, points in functions.items():
            found = [(student, row[function]) for student, row in rows if function in row]
            counts = Counter(outcome(verdict) for _, verdict in found)
            made, each = _mistakes(found), [verdict.score for _, verdict in found]
            parts.append(ExerciseSummary(function, points, {o: counts[o] for o in OUTCOMES}, made, each))
        scores = {printable(item.student): item.score for item in items}
        penalties = {printable(item.student): item.penalty for item in items if item.penalty}
        result.units.append(UnitSummary(name, parts, rows, scores, penalties))
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


def _mistakes(found: Sequence[tuple[str, Verdict]]) -> list[MistakeSummary]:
    """Return the mistakes in one exercise's verdicts, each with its students."""
    made: dict[str, list[tuple[str, Verdict]]] = defaultdict(list)
    for student, verdict in found:
        if verdict.mistake is not None:
            made[verdict.mistake].append((student, verdict))
        elif verdict.verdict in ("wrong", "crashed", "timeout"):
            made[NOT_RECOGNISED].append((student, verdict))
    answers = sum(verdict.verdict not in ("missing", "waiting") for _, verdict in found)
    ranked = sorted(made.items(), key=lambda entry: (entry[0] == NOT_RECOGNISED, -len(entry[1]), entry[0]))
    return [
        MistakeSummary(
            verdicts[0][1].unit,
            verdicts[0][1].function,
            name,
            sorted(student for student, _ in verdicts),
            answers,
            "" if name == NOT_RECOGNISED else _advice([verdict for _, verdict in verdicts]),
        )
        for name, verdicts in ranked
    ]


def _advice(verdicts: Sequence[Verdict]) -> str:
    """Return the exercise's own advice on a mistake, or else the words that its students got most often."""
    function, unit = verdicts[0].function, verdicts[0].unit
    for mistake in find_exercise(function, unit).mistakes if is_exercise(function, unit) else ():
        if mistake.slug == verdicts[0].mistake:
            return mistake.advice
    told = Counter(verdict.advice or verdict.message.partition(f" {FIRST_SEEN}")[0] for verdict in verdicts)
    return told.most_common(1)[0][0]
