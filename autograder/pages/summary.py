"""What a class's verdicts come to: the numbers behind the report page and its CSV files."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

from ..data import FIRST_SEEN, Graded, Verdict
from ..exercises import find_exercise, is_exercise
from ..reading.course import Course
from ..reading.oddities import odd_things
from ..text import printable

#: What an answer can come to, the best first.
OUTCOMES = ("right", "partly", "wrong", "missing", "waiting")
#: How many mistakes are the most common ones.
TOP = 5
NOT_RECOGNISED = "not recognised"


def outcome(verdict: Verdict) -> str:
    """One of OUTCOMES: a crash, a loop without an end and a forbidden call count as wrong."""
    if verdict.verdict in ("missing", "waiting"):
        return verdict.verdict
    if verdict.by_hand or verdict.verdict == "right":
        return "right" if verdict.score >= verdict.points else "partly" if verdict.score > 0 else "wrong"
    return "partly" if verdict.score > 0 else "wrong"


@dataclass(frozen=True)
class MistakeSummary:
    """One mistake of one exercise: who made it, of how many that answered, and what they are told."""

    unit: str
    function: str
    name: str
    students: list[str]
    answers: int
    advice: str

    @property
    def count(self) -> int:
        return len(self.students)


@dataclass(frozen=True)
class ExerciseSummary:
    """One exercise: how many answers came to what, of those who handed in the unit's notebook.

    mistakes: the most frequent first; what has no name comes last, under NOT_RECOGNISED.
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
    """One unit: its exercises, and for each student who handed it in a row, and what it comes to, lateness included."""

    name: str
    exercises: list[ExerciseSummary]
    rows: list[tuple[str, dict[str, Verdict]]]
    scores: dict[str, float] = field(default_factory=dict)

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

    @property
    def most_common(self) -> list[MistakeSummary]:
        """The mistakes with a name that most students made, over all units."""
        named = [
            mistake
            for unit in self.units
            for exercise in unit.exercises
            for mistake in exercise.mistakes
            if mistake.name != NOT_RECOGNISED
        ]
        return sorted(named, key=lambda mistake: -mistake.count)[:TOP]


def summarise(root: Path, graded: Sequence[Graded]) -> Summary:
    """The numbers of a class folder; what was handed in is looked at once more, for what was changed in it."""
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
            made, scores = _mistakes(found), [verdict.score for _, verdict in found]
            parts.append(ExerciseSummary(function, points, {o: counts[o] for o in OUTCOMES}, made, scores))
        result.units.append(UnitSummary(name, parts, rows, {printable(item.student): item.score for item in items}))
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
    """The mistakes in one exercise's verdicts, each with its student."""
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
    """The exercise's own sentence about a mistake; else the words that its students were told most often."""
    function, unit = verdicts[0].function, verdicts[0].unit
    for mistake in find_exercise(function, unit).mistakes if is_exercise(function, unit) else ():
        if mistake.slug == verdicts[0].mistake:
            return mistake.advice
    told = Counter(verdict.advice or verdict.message.partition(f" {FIRST_SEEN}")[0] for verdict in verdicts)
    return told.most_common(1)[0][0]
