"""Plain records that pass from room to room, and the errors that a person must mend. Nothing here does any work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import IntEnum
from typing import Any

from .safe_text import printable

# -------------------------------------------------------------------------------------------------------------- errors


class Expected(Exception):
    """Arguments, input or a machine that a person must mend: one line with the remedy, and no fault of ours."""


class UnknownUnit(Expected):
    """A unit that this course does not have, or not in full: one line with what is missing."""


class BadAssignment(Expected):
    """A notebook whose questions cannot be graded as they stand: one line that names the file and the remedy."""


class Unreadable(Expected):
    """A submission that cannot be read: one line that names the file and the remedy."""

    def __init__(self, line: str) -> None:
        super().__init__(printable(line))


class NoSandbox(Expected):
    """Strangers' work cannot be run safely here: one line that says why and what mends it."""


class NotUsable(Expected):
    """Something about the class folder or the gradebook that a person must mend: one line with the remedy."""


# ------------------------------------------------------------------------------------------------------ what is asked

EXERCISE, TESTS, MANUAL, TASK = "exercise", "tests", "manual", "task"
#: What a person marks.
BY_HAND = (MANUAL, TASK)


@dataclass(frozen=True)
class Question:
    """One thing that earns points.

    name: the word for it: the function of an exercise, else the answer's cell, or the cell's own `grade_id`.
    cell: the `grade_id` of the cell that carries the points. kind: EXERCISE, TESTS, MANUAL or TASK.
    source: of TESTS, the whole test as it is to be run, with what is hidden from students where that is known.
    excluded: taken out of the marks for everybody; `points` is 0 then, and `worth` is what it was.
    """

    name: str
    cell: str
    kind: str
    points: float
    source: str = ""
    excluded: bool = False
    worth: float = 0.0


# -------------------------------------------------------------------------------------------- cells, and how they went


@dataclass(frozen=True)
class CellSource:
    """A cell to run. kind: "given" (ours), "answer" or "extra" (the student's).

    tested: the function whose test stands next in the notebook: as this cell leaves it, so it is judged.
    tests: the same for tests of the instructor's own.
    """

    name: str
    kind: str
    source: str
    tested: str = ""
    tests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """An exception in the student's function: type, message, and where known the line and the cell it was raised in.

    deliberate: whether a `raise` statement of the student's raised it, and no library.
    """

    type_name: str
    message: str
    line: int | None = None
    cell: str = ""
    deliberate: bool = False

    def is_stub(self, function: str) -> bool:
        """Whether it says that `function` is not written yet: its cell raises NotImplementedError itself."""
        return self.type_name == "NotImplementedError" and self.deliberate and self.cell in ("", function)

    def described(self, function: str) -> str:
        """The failure in one line, for the student whose `function` was asked."""
        where = ""
        if self.line:
            own = {"": "the cell", function: "the cell"}
            where = f" (line {self.line} of {own.get(self.cell, f'the cell {self.cell}')})"
        said = f": {self.message[:300].rstrip('. ')}" if self.message else ""
        return f"{self.type_name}{said}{where}"


@dataclass(frozen=True)
class CellOutcome:
    """How a cell went. status: "ran", "failed", "timeout", "died", or "skipped" when it was never reached.

    defined: whether it gave its name to a function all the same, by the word of the student's process.
    """

    name: str
    status: str
    failure: Failure | None = None
    defined: bool = False


@dataclass
class Transplanted:
    """The answers in our notebook.

    notebook: the release notebook with the student's answers and extra cells, to be recorded.
    cells: what is to be run, in order: given cells of ours, answers and extra cells of the student's.
    answers: function -> the student's source; a function that was left as it came, or is gone, is absent.
    words: the same for answers in Markdown. below: tasks that something was written below.
    notes: function -> a sentence for the student, about a missing or doubled cell.
    """

    unit: str
    notebook: Any
    cells: list[CellSource] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    below: set[str] = field(default_factory=set)
    notes: dict[str, str] = field(default_factory=dict)


# ------------------------------------------------------------------------------------------------- what was answered


@dataclass(frozen=True)
class HostCall:
    """A function that was handed in, called by a student's: which argument it is, with what, and if it was refused.

    allowed: where it was refused because it answers so many calls, how many.
    """

    place: int | str
    args: tuple[Any, ...] = ()
    refusal: str = ""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    allowed: int | None = None


@dataclass
class Call:
    """One call: a value or a failure, and what else could be seen.

    randomness: of the last call, whose global generator this one and those before moved.
    drew: whether it drew from the generators that it was handed; None where there are none.
    left: a mark of the state in which it left them.
    lines: where they are counted, how often the line of it was run that was run most often.
    noted: where its steps were noted, the number of each and its value, in the order in which they came.
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

    status: "answered"; or "missing" (no such function), "crashed" (its process died), "timeout", "forbidden".
    reason: for all but "answered", one sentence for the student; for "forbidden", what was used.
    calls: one per case; shorter than the cases where the process ended early.
    asked: how often each of the functions that the cases hand over was called, by case and place in the arguments.
    questions: by case, these calls one by one, the first time that the case was asked.
    """

    status: str = "answered"
    reason: str = ""
    calls: list[Call] = field(default_factory=list)
    asked: dict[tuple[int, int | str], int] = field(default_factory=dict)
    questions: dict[int, list[HostCall]] = field(default_factory=dict)


# -------------------------------------------------------------------------------------------------- what it is worth

#: The criterion of good conduct, which every exercise has.
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

    slug: the name of the mistake, None if it has none. text: the words for the student. certainty: how much it
    explains. facts: sentences on what was observed, such as which cases fail if the ordinary ones pass. named: the
    words with names of the model solution in them. names: these names, which the student may not know.
    """

    slug: str | None
    text: str
    certainty: Certainty = Certainty.RELATION
    facts: str = ""
    named: str = ""
    names: frozenset[str] = frozenset()

    @property
    def is_weak(self) -> bool:
        """Whether it says where the answer is wrong and not why."""
        return self.slug is None or self.certainty <= Certainty.SYMPTOM

    @property
    def message(self) -> str:
        """All that the student reads: what the code does, then what was observed; where it is not known, the latter."""
        parts = (self.facts, self.text) if self.is_weak else (self.text, self.facts)
        return " ".join(filter(None, parts))


@dataclass(frozen=True)
class Criterion:
    """A named part of the credit: how many of its cases were right."""

    name: str
    passed: int
    total: int

    @property
    def met(self) -> bool:
        return self.passed == self.total


@dataclass(frozen=True)
class Where:
    """Where a wrong answer differs, as far as a small picture shows it; never with a number that was expected.

    case: the label of the case. name: of the result. shape: of the answer. asked: the shape that was asked for.
    at: of more than two axes what is shown, in words such as "sequence 1". start: the first row and column shown.
    own: the student's own numbers, rounded, row by row. marks: a letter for each of them.
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
        """From JSON; None where that holds none."""
        if not isinstance(told, dict):
            return None
        own = tuple(map(tuple, told["own"]))
        return cls(**{**{name: _as_tuple(value) for name, value in told.items()}, "own": own})


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Verdict:
    """What one question of one submission earned, and the words that the student reads.

    function: its name. verdict: "right", "wrong", "missing", "crashed", "timeout", "forbidden", or "waiting" for a
        person's mark.
    mistake: a slug, or None when the mistake is not recognised (or there is none).
    advice: the message without its first case, counts and what else is told of this one notebook.
    borrowed: earlier functions for which the course's stood in when it was asked.
    raised: the exception that it ends in, where that is the first thing to mend: a sentence with the student's words.
    share: what was earned of the points, from 0 to 1. The judge knows no points: `worth` says what they come to.
    cell: the `grade_id` of the cell that carries the points.
    by_hand: whether somebody changed the score in the gradebook. outdated: whether for another answer than this one.
    where: of the case that is told of in the message, where its result differs.
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
        """The same verdict on a question of an assignment, in its points."""
        score = round(question.points * self.share, 2)
        return replace(self, unit=unit, points=question.points, score=score, cell=question.cell)

    def as_json(self, student: str | None) -> dict[str, Any]:
        """The object that `check --json` and `grade --json` print."""
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

    fault: what of ours failed, where something did: there may be no verdicts then, or none in the gradebook.
    fingerprint: of the job. seed: of the run that judged it. notebook: what is to be recorded, as text; dropped once it
        is. recorded: a digest of all that recording depended on, "" where the gradebook does not have it.
    page: a digest of what the feedback page shows.
    penalty: what lateness costs.
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
        """What counts: never below 0."""
        return max(0.0, round(sum(verdict.score for verdict in self.verdicts) - self.penalty, 2))

    def as_json(self) -> list[dict[str, Any]]:
        return [verdict.as_json(self.student) for verdict in self.verdicts]


@dataclass(frozen=True)
class PointInTime:
    """A point of a time line, such as the end of a grading run: unit -> how many answers there were, how many right."""

    time: datetime
    units: Mapping[str, tuple[int, int]]
