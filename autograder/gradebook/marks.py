"""Reads the marks that count from the gradebook, and carries out what instructors decide about them.

A mark may be judged, changed by hand, late, or waiting for a person. A question may be excluded for everybody, and a
manual mark may have been given for an earlier answer.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
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
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import GetGrades
from sqlalchemy import inspect, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError

from ..grading.results_store import kept
from ..reading.course_contents import EXCLUDED, Course
from ..records import Expected, Graded, Question, Verdict
from ..safe_text import composed
from .gradebook_migration import ANSWERS, RULES, prepare
from .health_check import load_config


class GetMarks(GetGrades):
    """Adds to nbgrader's GetGrades, which shows 0 for an unmarked cell, whether each cell is marked or still waits."""

    def _get_score(self, cell: NotebookNode, resources: dict) -> None:
        super()._get_score(cell, resources)
        told = cell.metadata.nbgrader
        grade = self.gradebook.find_grade(told["grade_id"], self.notebook_id, self.assignment_id, self.student_id)
        by_program, by_hand, extra = grade.auto_score, grade.manual_score, grade.extra_credit or 0.0
        told["marked"] = by_hand is not None
        told["waits"] = grade.needs_manual_grade and by_hand is None and by_program is None
        told["by_hand"] = Mark(told["grade_id"], 0.0, by_program, by_hand, extra, told["waits"]).by_hand


class NoGradebook(Expected):
    """Raised when the gradebook cannot be read; the message is one line."""


@dataclass(frozen=True)
class Mark:
    """Holds the mark of one graded cell of one submission. `score` is what counts, with extra credit."""

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
        """Return whether somebody changed the judge's mark, or marked something that the judge does not mark."""
        return (self.manual is not None and self.manual != self.auto) or self.extra != 0

    @property
    def outdated(self) -> bool:
        """Return whether the manual mark was given for another answer than the recorded one."""
        return self.waiting and (self.manual is not None or self.extra != 0)


@dataclass
class Marks:
    """Holds one student's marks of one assignment, by cell."""

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
        """Return what counts: the sum minus the late penalty, but never below 0."""
        return max(0.0, self.raw - self.penalty)

    @property
    def points(self) -> float:
        return sum(mark.points for mark in self.by_cell.values())

    @property
    def digest(self) -> str:
        """Return a digest of everything that a feedback page shows of the marks."""
        told = [(m.cell, m.score, m.points, m.waiting, m.by_hand) for m in self.by_cell.values()]
        comments = [entry for entry in self.comments.items() if entry[1]]
        return hashlib.sha256(repr((sorted(told), sorted(comments), self.penalty)).encode()).hexdigest()


def marks_of(gradebook: Gradebook, unit: str = "", student: str = "") -> dict[str, Marks]:
    """Return student -> marks of one unit, for all students or one."""
    return {marks.student: marks for marks in all_marks(gradebook, unit, student)}


def all_marks(gradebook: Gradebook, unit: str = "", student: str = "") -> Iterator[Marks]:
    """Yield all marks of the gradebook, or those of one unit or student, by unit and student."""
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
    """Return (unit, student) -> marks from a course folder's gradebook; empty if there is none. Raises NoGradebook."""
    with opened(root) as gradebook:
        found = all_marks(gradebook) if gradebook is not None else ()
        return {(marks.unit, marks.student): marks for marks in found}


def read_names(root: Path) -> dict[str, tuple[str, str, str, str]]:
    """Return student -> first name, last name, e-mail address and number, as far as known. Raises NoGradebook."""
    with opened(root) as gradebook:
        people = gradebook.students if gradebook is not None else ()
        return {
            each.id: (each.first_name or "", each.last_name or "", each.email or "", each.lms_user_id or "")
            for each in people
        }


@contextmanager
def opened(root: Path) -> Iterator[Gradebook | None]:
    """Open the gradebook, or yield None if there is none, because nbgrader would create one."""
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


Found = Mapping[tuple[str, str], Marks]


def class_now(root: Path, units: Sequence[str] = ()) -> list[Graded]:
    """Return every graded submission, unit by unit, with the marks that count. Raises NoGradebook."""
    course, marks = Course(root), read_marks(root)
    found: list[Graded] = []
    for unit in units or course.units():
        judged = {item.student: item for item in kept(root, [unit])}
        students = {student for name, student in marks if name == unit and marks[name, student].by_cell}
        students |= {student for student, item in judged.items() if not item.recorded}
        items = [judged.get(student) or Graded(student, unit, []) for student in sorted(students)]
        found += follow(course, items, marks) if items else []
    return found


def follow(course: Course, graded: Iterable[Graded], marks: Found) -> list[Graded]:
    """Return the same submissions with the marks that count."""
    return [_followed(course, item, marks.get((item.unit, item.student))) for item in graded]


def _followed(course: Course, item: Graded, marks: Marks | None) -> Graded:
    if item.fault and not item.verdicts:
        return item
    judged, asked = {verdict.function: verdict for verdict in item.verdicts}, course.assignment(item.unit).questions
    if marks is None:  # not recorded yet
        found = [judged[each.name].worth(each, item.unit) for each in asked if each.name in judged]
        return replace(item, verdicts=found)
    verdicts = [_verdict(item.unit, each, judged.get(each.name), marks.by_cell.get(each.cell)) for each in asked]
    return replace(item, verdicts=verdicts, penalty=marks.penalty)


def _verdict(unit: str, question: Question, judged: Verdict | None, mark: Mark | None) -> Verdict:
    if judged is None:
        words = "Not graded yet." if mark is None or mark.waiting else "Marked in the gradebook."
        judged = Verdict(unit, question.name, 1.0, 0.0, "waiting", None, words)
    if question.excluded:
        return replace(judged.worth(question, unit), message=f"Taken out of the marks. {judged.message}")
    if mark is None:
        return replace(judged.worth(question, unit), score=0.0, verdict="waiting")
    verdict = judged.verdict
    if verdict == "waiting" and not mark.waiting:  # a person has marked it, or there was nothing to mark
        verdict = "right" if mark.score >= mark.points else "wrong"
    return replace(
        judged.worth(question, unit),
        points=mark.points,
        score=round(mark.score, 2),
        verdict=verdict,
        by_hand=mark.by_hand,
        outdated=mark.outdated,
    )


def disagreements(course: Course, marks: Found, units: Sequence[str] = ()) -> Iterator[str]:
    """Yield a line with the remedy for each unit whose questions or points differ between gradebook and course."""
    for unit in dict.fromkeys(unit for unit, _ in marks if not units or unit in units):
        if unit not in course.units():
            remedy = f"put solutions/{unit} back and run `autograder release {unit}`"
            yield f"{unit}: in the gradebook, and no assignment of this course any more; {remedy}"
            continue
        asked = {
            question.cell: question.points for question in course.assignment(unit).questions if not question.excluded
        }
        behind = [
            student
            for (name, student), found in marks.items()
            if name == unit and {cell: mark.points for cell, mark in found.by_cell.items()} != asked
        ]
        if behind:
            remedy = f"run `autograder grade {unit}`"
            yield f"{unit}: the gradebook has other questions or points than the notebook; {remedy}"


def by_another_rule(root: Path, rule: str) -> set[tuple[str, str]]:
    """Return (unit, student) of each submission that was recorded under another late-work rule than this one."""
    with opened(root) as gradebook:
        if gradebook is None or not inspect(gradebook.engine).has_table(RULES.name):
            return set()
        rows = gradebook.db.execute(select(RULES.c.unit, RULES.c.student).where(RULES.c.rule != rule)).all()
        return {(unit, student) for unit, student in rows}


class NoDecision(Expected):
    """Raised when the thing to decide about is missing or ambiguous; the message is one line with the remedy."""


def find_question(course: Course, name: str) -> tuple[str, str]:
    """Return (assignment, question) for a question's name or for UNIT/NAME. Raises NoDecision."""
    unit, _, short = name.rpartition("/")
    units = [course.find(unit)] if unit else [each for each in course.units() if course.has(each)]
    found = [each for each in units if short in course.assignment(each).points]
    if len(found) > 1:
        raise NoDecision(f"{short!r} is a question of {' and '.join(found)}; name it as {found[0]}/{short}")
    if not found:
        every = [question for each in units for question in course.assignment(each).points]
        near = get_close_matches(short, every, 3, 0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "`autograder report` lists all of them"
        raise NoDecision(f"no question is called {short!r}; {hint}")
    return found[0], short


def exclude(course: Course, unit: str, name: str, undo: bool = False) -> bool:
    """Exclude a question from everybody's marks, or restore it; return whether that changes anything."""
    excluded = course.excluded()
    names = excluded.setdefault(unit, [])
    if (name in names) != undo:
        return False
    if undo:
        names.remove(name)
    else:
        names.append(name)
    path = course.root / EXCLUDED
    path.parent.mkdir(exist_ok=True)
    aside = path.with_suffix(f".{os.getpid()}.part")
    aside.write_text(json.dumps({each: found for each, found in excluded.items() if found}, indent=1) + "\n")
    os.replace(aside, path)
    return True


@dataclass(frozen=True)
class ByHand:
    """Holds a manual mark with its student, unit and question."""

    student: str
    unit: str
    name: str
    mark: Mark

    def line(self) -> str:
        judged = "not judged" if self.mark.auto is None else f"judged {self.mark.auto:g}"
        extra = f", {self.mark.extra:+g} extra" if self.mark.extra else ""
        given = f"by hand {self.mark.manual:g}" if self.mark.manual is not None else "not marked by hand"
        words = "; given for ANOTHER answer than the one handed in now" if self.mark.outdated else ""
        return f"{self.student}, {self.unit}, {self.name}: {given}{extra}, {judged}, of {self.mark.points:g}{words}"


def by_hand(course: Course, units: Sequence[str] = (), student: str = "", name: str = "") -> Iterator[ByHand]:
    """Yield all manual marks, by unit and student."""
    for (unit, who), marks in read_marks(course.root).items():
        if (units and unit not in units) or (student and composed(who) != composed(student)):
            continue
        names = {q.cell: q.name for q in course.assignment(unit).questions} if unit in course.units() else {}
        for cell, mark in marks.by_cell.items():
            short = names.get(cell, cell)
            if (mark.by_hand or mark.outdated) and name in ("", short):
                yield ByHand(who, unit, short, mark)


def decide(root: Path, found: Sequence[ByHand], keep: bool) -> None:
    """Keep manual marks that were given for another answer, or remove them so that the judge's marks count."""
    settings = CourseDirectory(config=load_config(root))
    with Gradebook(settings.db_url, settings.course_id) as gradebook:
        prepare(gradebook)
        for entry in found:
            place = (
                ANSWERS.c.unit == entry.unit,
                ANSWERS.c.student == entry.student,
                ANSWERS.c.cell == entry.mark.cell,
            )
            grade = gradebook.find_grade(entry.mark.cell, entry.unit, entry.unit, entry.student)
            if keep:
                grade.needs_manual_grade = False
                recorded = gradebook.db.execute(select(ANSWERS.c.recorded).where(*place)).scalar()
                gradebook.db.execute(update(ANSWERS).where(*place).values(marked=recorded))
            else:
                grade.manual_score = grade.extra_credit = None
                grade.needs_manual_grade = grade.auto_score is None
                gradebook.db.execute(update(ANSWERS).where(*place).values(marked=None))
        gradebook.db.commit()
