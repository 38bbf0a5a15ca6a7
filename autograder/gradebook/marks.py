"""The marks that count, as the gradebook has them: judged, changed by hand, late, or waiting for a person."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.api import (
    Assignment,
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    GradeCell,
    SubmittedAssignment,
    SubmittedNotebook,
    TaskCell,
)
from nbgrader.preprocessors import GetGrades
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError

from ..data import Expected


class GetMarks(GetGrades):
    """nbgrader's GetGrades, which gives 0 to what nobody has marked yet, and says no more than that."""

    def _get_score(self, cell: NotebookNode, resources: dict) -> None:
        super()._get_score(cell, resources)
        told = cell.metadata.nbgrader
        grade = self.gradebook.find_grade(told["grade_id"], self.notebook_id, self.assignment_id, self.student_id)
        told["marked"] = grade.manual_score is not None
        told["waits"] = grade.needs_manual_grade and grade.manual_score is None and grade.auto_score is None


class NoGradebook(Expected):
    """There are no marks yet, or the gradebook cannot be read: one line with the remedy."""


@dataclass(frozen=True)
class Mark:
    """One graded cell of one submission. `score` is what counts, extra credit included."""

    cell: str
    points: float
    auto: float | None
    manual: float | None
    extra: float
    waiting: bool

    @property
    def score(self) -> float:
        return (self.manual if self.manual is not None else self.auto or 0.0) + self.extra

    @property
    def by_hand(self) -> bool:
        """Whether somebody changed what the judge said, or marked what it does not."""
        return (self.manual is not None and self.manual != self.auto) or self.extra != 0

    @property
    def outdated(self) -> bool:
        """Whether the mark by hand was given for another answer than the one recorded."""
        return self.waiting and (self.manual is not None or self.extra != 0)


@dataclass
class Marks:
    """One student's marks of one assignment, by cell."""

    student: str
    unit: str
    penalty: float = 0.0
    extension: str = ""
    by_cell: dict[str, Mark] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)

    @property
    def raw(self) -> float:
        return sum(mark.score for mark in self.by_cell.values())

    @property
    def score(self) -> float:
        """What counts: less what lateness costs, and never below 0."""
        return max(0.0, self.raw - self.penalty)

    @property
    def points(self) -> float:
        return sum(mark.points for mark in self.by_cell.values())

    @property
    def digest(self) -> str:
        """Of all that a feedback page shows of them."""
        told = [(m.cell, m.score, m.points, m.waiting, m.by_hand) for m in self.by_cell.values()]
        comments = [entry for entry in self.comments.items() if entry[1]]
        return hashlib.sha256(repr((sorted(told), sorted(comments), self.penalty)).encode()).hexdigest()


def marks_of(gradebook: Gradebook, unit: str = "", student: str = "") -> dict[str, Marks]:
    """Student -> marks of one unit, for all students or one."""
    return {marks.student: marks for marks in all_marks(gradebook, unit, student)}


def all_marks(gradebook: Gradebook, unit: str = "", student: str = "") -> Iterator[Marks]:
    """All marks of the gradebook, of one unit or all of them, by unit and student."""
    database = gradebook.db
    wanted = []
    if unit:
        wanted.append(Assignment.name == unit)
    if student:
        wanted.append(SubmittedAssignment.student_id == student)

    def rows(*columns, of):
        query = database.query(SubmittedNotebook.id, *columns).select_from(of)
        if of is SubmittedNotebook:
            query = query.join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        else:
            query = query.join(SubmittedNotebook, of.notebook_id == SubmittedNotebook.id)
            query = query.join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
            query = query.join(BaseCell, of.cell_id == BaseCell.id)
        return query.join(Assignment, SubmittedAssignment.assignment_id == Assignment.id).filter(*wanted)

    found: dict[str, Marks] = {}
    who = (Assignment.name, SubmittedAssignment.student_id, SubmittedAssignment.extension)
    heads = rows(*who, SubmittedNotebook.late_submission_penalty, of=SubmittedNotebook)
    for key, name, person, extension, penalty in heads.order_by(Assignment.name, SubmittedAssignment.student_id):
        found[key] = Marks(person, name, penalty or 0.0, str(extension or ""))
    worth = {cell: points for kind in (GradeCell, TaskCell) for cell, points in _worth(database, kind)}
    columns = (Grade.cell_id, BaseCell.name, Grade.auto_score, Grade.manual_score, Grade.extra_credit)
    for key, cell, name, auto, manual, extra, waits in rows(*columns, Grade.needs_manual_grade, of=Grade):
        mark = Mark(name, float(worth.get(cell, 0.0)), auto, manual, extra or 0.0, bool(waits))
        found[key].by_cell[name] = mark
    for key, name, by_hand, auto in rows(BaseCell.name, Comment.manual_comment, Comment.auto_comment, of=Comment):
        found[key].comments[name] = by_hand if by_hand is not None else auto or ""
    yield from found.values()


def _worth(database, kind):
    return database.query(kind.id, kind.max_score)


def read_marks(root: Path) -> dict[tuple[str, str], Marks]:
    """(unit, student) -> marks, of a course folder's gradebook; empty where there is none. Raises NoGradebook."""
    with opened(root) as gradebook:
        found = all_marks(gradebook) if gradebook is not None else ()
        return {(marks.unit, marks.student): marks for marks in found}


def read_names(root: Path) -> dict[str, tuple[str, str, str, str]]:
    """Student -> first name, last name, e-mail address and number, as far as they are known. Raises NoGradebook."""
    with opened(root) as gradebook:
        people = gradebook.students if gradebook is not None else ()
        return {
            each.id: (each.first_name or "", each.last_name or "", each.email or "", each.lms_user_id or "")
            for each in people
        }


@contextmanager
def opened(root: Path) -> Iterator[Gradebook | None]:
    """The gradebook, or None where there is none: nbgrader would make one."""
    from nbgrader.coursedir import CourseDirectory

    from .health_check import load_config

    course = CourseDirectory(config=load_config(root))
    address = make_url(course.db_url)
    if address.drivername.startswith("sqlite") and not Path(address.database or "").is_file():
        yield None
        return
    try:
        with Gradebook(course.db_url, course.course_id) as gradebook:
            yield gradebook
    except DatabaseError as error:
        words = " ".join(str(error.orig).split())[:200]
        raise NoGradebook(f"{address.render_as_string()}: the gradebook cannot be read ({words})") from None
