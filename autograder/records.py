"""Defines the plain records that the packages exchange, and the errors that a person can fix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntEnum
from typing import Any

from .safe_text import printable

# -------------------------------------------------------------------------------------------------------------- errors


class Expected(Exception):
    """An error that a person can fix, in one line with the remedy: wrong arguments, input or a missing tool."""


class UnknownUnit(Expected):
    """A unit that this course lacks, or has only in part: one line says what is missing."""


class BadAssignment(Expected):
    """A notebook whose questions cannot be graded: one line names the file and the remedy."""


class Unreadable(Expected):
    """A submission that cannot be read: one line names the file and the remedy."""

    def __init__(self, line: str) -> None:
        super().__init__(printable(line))


class NoSandbox(Expected):
    """Students' code cannot be run safely on this machine: one line says why and how to fix it."""


class NotUsable(Expected):
    """A problem of the class folder or the gradebook that a person can fix: one line gives the remedy."""


# ---------------------------------------------------------------------------------------------------------- questions

EXERCISE, TESTS, MANUAL, TASK = "exercise", "tests", "manual", "task"
#: The kinds of question that a person marks.
BY_HAND = (MANUAL, TASK)


@dataclass(frozen=True)
class Question:
    """One thing that earns points.

    name: for an exercise, the name of its function; otherwise the `grade_id` of the cell with the answer or, failing
    that, of the cell that carries the points.
    cell: the `grade_id` of the cell that carries the points. kind: EXERCISE, TESTS, MANUAL or TASK.
    source: for TESTS, the whole test as it runs, including what is hidden from students if that is known.
    excluded: whether the question counts for nobody; `points` is then 0, and `worth` holds the points from before.
    """

    name: str
    cell: str
    kind: str
    points: float
    source: str = ""
    excluded: bool = False
    worth: float = 0.0


# -------------------------------------------------------------------------------------------- cells and their outcomes


@dataclass(frozen=True)
class CellSource:
    """A cell to run. kind: "given" (the course's), "answer" or "extra" (the student's).

    tested: the function whose test is next in the notebook; it is graded as this cell leaves it.
    tests: the same for the instructor's own tests.
    """

    name: str
    kind: str
    source: str
    tested: str = ""
    tests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """An exception in the student's function: its type and message and, if known, the line and cell that raised it.

    deliberate: whether a `raise` statement in the student's code raised it, not a library.
    """

    type_name: str
    message: str
    line: int | None = None
    cell: str = ""
    deliberate: bool = False

    def is_stub(self, function: str) -> bool:
        """Return whether `function` is not written yet: its cell itself raises NotImplementedError."""
        return self.type_name == "NotImplementedError" and self.deliberate and self.cell in ("", function)

    def described(self, function: str) -> str:
        """Return the failure in one line for the student who wrote `function`."""
        where = ""
        if self.line:
            own = {"": "the cell", function: "the cell"}
            where = f" (line {self.line} of {own.get(self.cell, f'the cell {self.cell}')})"
        said = f": {self.message[:300].rstrip('. ')}" if self.message else ""
        return f"{self.type_name}{said}{where}"


@dataclass(frozen=True)
class CellOutcome:
    """How a cell ended. status: "ran", "failed", "timeout", "died", or "skipped" if it was never reached.

    defined: whether it defined the function of its name all the same, as the student's process reports.
    """

    name: str
    status: str
    failure: Failure | None = None
    defined: bool = False


@dataclass
class Transplanted:
    """A student's answers in the course's notebook.

    notebook: the release notebook with the student's answers and extra cells, to be recorded.
    cells: what runs, in order: the course's given cells, and the student's answers and extra cells.
    answers: function -> the student's source; functions that are unchanged or deleted are absent.
    words: the same for answers in Markdown. below: tasks under which the student wrote something.
    notes: function -> a sentence for the student about a missing or duplicated cell.
    """

    unit: str
    notebook: Any
    cells: list[CellSource] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    below: set[str] = field(default_factory=set)
    notes: dict[str, str] = field(default_factory=dict)


# ----------------------------------------------------------------------------------------------------------- answers


@dataclass(frozen=True)
class HostCall:
    """A student's call of a function that was passed in: which argument it is, its arguments, and any refusal.

    allowed: the number of calls allowed, if it was refused for exceeding that.
    """

    place: int | str
    args: tuple[Any, ...] = ()
    refusal: str = ""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    allowed: int | None = None


@dataclass
class Call:
    """One call of an answer: a value or a failure, and what else was observed.

    inputs_after: the inputs after the call. made: the large tensors that it made, if they are watched.
    lines: if lines are counted, how often the most frequent line ran.
    randomness: in the last call, the global generators that this call and all before it moved.
    drew: whether it drew from the generators that it was given; None if there are none.
    left: a digest of the state in which it left them.
    noted: if its steps were recorded, each step's number and value, in the order in which they ran.
    again, later: the second call with the same inputs, and the value as it is after later calls.
    """

    value: Any = None
    failure: Failure | None = None
    numerical_warnings: tuple[str, ...] = ()
    inputs_after: tuple[Any, ...] = ()
    made: tuple[Any, ...] = ()
    lines: int = 0
    randomness: tuple[str, ...] = ()
    drew: bool | None = None
    left: str | None = None
    noted: tuple[tuple[int, Any], ...] = ()
    again: Call | None = None
    later: Any = None


@dataclass
class Answer:
    """Everything that one function answered.

    status: "answered", "missing" (no such function), "crashed" (its process died), "timeout" or "forbidden".
    reason: unless "answered", one sentence for the student; for "forbidden", what was used.
    calls: one per case; shorter than the cases if the process ended early.
    asked: (case, argument) -> how often the function passed as that argument was called.
    questions: case -> these calls one by one, from the first call of the case.
    """

    status: str = "answered"
    reason: str = ""
    calls: list[Call] = field(default_factory=list)
    asked: dict[tuple[int, int | str], int] = field(default_factory=dict)
    questions: dict[int, list[HostCall]] = field(default_factory=dict)


# ---------------------------------------------------------------------------------------------------------- verdicts

#: The criterion for side effects, which every exercise has.
CONDUCT = "no side effects"
FIRST_SEEN = "Your function first fails in the case"


class Certainty(IntEnum):
    """How much a finding explains, from the least to the most.

    PLACE: it says which cases or results are wrong. SYMPTOM: it says how they are wrong. RELATION: it relates the
    results to the expected ones. ALIKE: a changed model solution gives all the student's results. KNOWN: a known
    mistake does. REPAIR: a single change of the student's function passes every case.
    """

    PLACE, SYMPTOM, RELATION, ALIKE, KNOWN, REPAIR = range(6)


@dataclass(frozen=True)
class Finding:
    """What a diagnosis found.

    slug: the name of the mistake, None if it has none. text: the words for the student.
    certainty: how much it explains.
    facts: sentences on what was observed, such as which cases fail if the ordinary ones pass.
    named: the text with names of the model solution in it. names: these names, which the student may not know.
    """

    slug: str | None
    text: str
    certainty: Certainty = Certainty.RELATION
    facts: str = ""
    named: str = ""
    names: frozenset[str] = frozenset()

    @property
    def is_weak(self) -> bool:
        """Whether it says where the answer is wrong but not why."""
        return self.slug is None or self.certainty <= Certainty.SYMPTOM

    @property
    def message(self) -> str:
        """What the student reads: the cause, then what was observed; in the other order if the finding is weak."""
        parts = (self.facts, self.text) if self.is_weak else (self.text, self.facts)
        return " ".join(filter(None, parts))


@dataclass(frozen=True)
class Criterion:
    """A named part of the credit, with how many of its cases passed."""

    name: str
    passed: int
    total: int

    @property
    def met(self) -> bool:
        return self.passed == self.total


@dataclass(frozen=True)
class Where:
    """The entries in which a wrong result differs, as far as a small picture shows them, without any expected number.

    case: the label of the case. name: of the result. shape: of the answer. asked: the expected shape.
    at: the index of each leading axis that is shown, in words such as "sequence 1".
    start: the first row and column shown. own: the student's own numbers, rounded, row by row.
    marks: a letter for each of them.
    """

    case: str
    name: str
    shape: tuple[int, ...]
    asked: tuple[int, ...]
    at: tuple[str, ...]
    start: tuple[int, int]
    own: tuple[tuple[str, ...], ...]
    marks: tuple[str, ...]

    @classmethod
    def read(cls, told: Any) -> Where | None:
        """Build it from JSON, or return None if the JSON holds none."""
        if not isinstance(told, dict):
            return None
        own = tuple(map(tuple, told["own"]))
        return cls(**{**{name: _as_tuple(value) for name, value in told.items()}, "own": own})


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Verdict:
    """What one question of one submission earned, and the words that the student reads.

    function: its name.
    verdict: "right", "wrong", "missing", "crashed", "timeout", "forbidden", or "waiting" for a person's mark.
    mistake: a slug, or None if no mistake is recognised or there is none.
    advice: the message without the first failing case, the counts and other parts that hold only for this notebook.
    borrowed: earlier functions for which the course's own were used.
    raised: a sentence on the exception that the answer ends in, if that is the first thing to fix.
    share: the share of the points earned, from 0 to 1. The grader knows no points: `worth` converts it.
    cell: the `grade_id` of the cell that carries the points.
    by_hand: whether somebody changed the score in the gradebook. outdated: whether it was changed for an earlier
    answer.
    where: where the result differs in the case that the message names.
    """

    unit: str
    function: str
    points: float
    score: float
    verdict: str
    mistake: str | None
    message: str
    criteria: tuple[Criterion, ...] = ()
    advice: str = ""
    share: float | None = None
    cell: str = ""
    by_hand: bool = False
    outdated: bool = False
    raised: str = ""
    borrowed: tuple[str, ...] = ()
    where: Where | None = None

    def __post_init__(self) -> None:
        if self.share is None:
            object.__setattr__(self, "share", self.score / self.points if self.points else 0.0)
        object.__setattr__(self, "cell", self.cell or f"test_{self.function}")
        for words in ("message", "advice", "raised"):  # they may hold a student's words
            object.__setattr__(self, words, printable(getattr(self, words)))

    def worth(self, question: Question, unit: str) -> Verdict:
        """Return the same verdict for a question of an assignment, in that question's points."""
        score = round(question.points * self.share, 2)
        return replace(self, unit=unit, points=question.points, score=score, cell=question.cell)

    def as_json(self, student: str | None) -> dict[str, Any]:
        """Return the object that `check --json` and `grade --json` print."""
        return {
            "student": student,
            "unit": self.unit,
            "function": self.function,
            "points": self.points,
            "score": self.score,
            "verdict": self.verdict,
            "mistake": self.mistake,
            "message": self.message,
        }


@dataclass
class Graded:
    """One student's verdicts on one unit, and whether the notebook could be read.

    problem: why it could not be read.
    fault: an internal error, if there was one; there may then be no verdicts, or none in the gradebook.
    fingerprint: of the job. seed: of the run that graded it.
    notebook: the text to be recorded; dropped once it is.
    recorded: a digest of everything that the record depends on; "" if the gradebook does not have it.
    page: a digest of what the feedback page shows.
    penalty: the points lost for lateness.
    """

    student: str
    unit: str
    verdicts: list[Verdict]
    problem: str | None = None
    fault: str | None = None
    fingerprint: str = ""
    seed: str = ""
    notebook: str | None = None
    recorded: str = ""
    page: str = ""
    penalty: float = 0.0

    @property
    def score(self) -> float:
        """The score that counts, never below 0."""
        return max(0.0, round(sum(verdict.score for verdict in self.verdicts) - self.penalty, 2))

    def as_json(self) -> list[dict[str, Any]]:
        return [verdict.as_json(self.student) for verdict in self.verdicts]


@dataclass(frozen=True)
class PointInTime:
    """A point in time, such as the end of a grading run. units: unit -> (number of answers, number of right ones)."""

    time: datetime
    units: Mapping[str, tuple[int, int]]
