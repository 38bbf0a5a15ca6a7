"""Writes nbgrader's gradebook through one database engine, with one commit for each submission.

nbgrader's own steps store units, scores and late penalties, as in a plain `nbgrader autograde`. They would open the
gradebook again for each notebook and commit after each cell; here they share one that is already open.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import nbformat
from nbformat import NotebookNode
from nbgrader.api import (
    Assignment,
    Comment,
    Grade,
    Gradebook,
    MissingEntry,
    Notebook,
    SubmittedAssignment,
    SubmittedNotebook,
)
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties, NbGraderPreprocessor
from sqlalchemy.orm import joinedload, selectinload, undefer
from traitlets import TraitError

from ..grading.results_store import read_kept
from ..grading.submitted_folder import read_said
from ..pages.feedback_page import FeedbackPages
from ..reading.course_contents import Course
from ..records import Expected, Graded
from ..safe_text import composed
from .extensions import read_extensions
from .gradebook_migration import migrate, note_rule, prepare
from .health_check import load_config
from .marks import GetMarks, Marks, marks_of
from .save_marks import SaveMarks
from .submission_times import NAME as TIMESTAMP
from .submission_times import read_timestamp, rule_digest, zone_of

#: Modules that open a gradebook of their own.
BORROWERS = (
    "nbgrader.preprocessors.saveautogrades",
    "nbgrader.preprocessors.latesubmissions",
    "nbgrader.preprocessors.getgrades",
    "autograder.gradebook.save_marks",
)
Entry = TypeVar("Entry", Grade, Comment)


@contextmanager
def lent(gradebook: Gradebook) -> Iterator[Lender]:
    """Make the modules in BORROWERS use `gradebook` instead of opening their own; they cannot close it."""
    modules = [importlib.import_module(name) for name in BORROWERS]
    lender = Lender(gradebook)
    for module in modules:
        module.Gradebook = lambda *args, **kwargs: lender
    try:
        yield lender
    finally:
        for module in modules:
            module.Gradebook = Gradebook


class Lender:
    """Presents the open gradebook to a step, and reads each submission once, with all its grades and comments."""

    def __init__(self, gradebook: Gradebook) -> None:
        self._gradebook = gradebook
        self._read: dict[tuple[str, str, str], SubmittedNotebook] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gradebook, name)

    def __enter__(self) -> Lender:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def forget(self) -> None:
        """Drop what was read, because later changes alter scores, which the database computes."""
        self._read.clear()

    def find_submission_notebook(self, notebook: str, assignment: str, student: str) -> SubmittedNotebook:
        place = (notebook, assignment, student)
        if place not in self._read:
            self._read[place] = _submission(self._gradebook, *place)
        return self._read[place]

    def find_grade(self, grade_cell: str, notebook: str, assignment: str, student: str) -> Grade:
        return self._entry(lambda found: found.grades, grade_cell, notebook, assignment, student)

    def find_comment(self, solution_cell: str, notebook: str, assignment: str, student: str) -> Comment:
        return self._entry(lambda found: found.comments, solution_cell, notebook, assignment, student)

    def _entry(self, kind: Callable[[SubmittedNotebook], list[Entry]], cell: str, *place: str) -> Entry:
        found: Mapping[str, Entry] = {entry.name: entry for entry in kind(self.find_submission_notebook(*place))}
        if cell not in found:
            raise MissingEntry(f"No such entry: {cell} of {place}")
        return found[cell]


def _submission(gradebook: Gradebook, notebook: str, assignment: str, student: str) -> SubmittedNotebook:
    database = gradebook.db
    database.flush()
    query = (
        database.query(SubmittedNotebook)
        .join(Notebook, Notebook.id == SubmittedNotebook.notebook_id)
        .join(SubmittedAssignment, SubmittedAssignment.id == SubmittedNotebook.assignment_id)
        .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
        .filter(Notebook.name == notebook, Assignment.name == assignment, SubmittedAssignment.student_id == student)
        .options(
            selectinload(SubmittedNotebook.grades).options(joinedload(Grade.cell), undefer(Grade.max_score)),
            selectinload(SubmittedNotebook.comments).joinedload(Comment.cell),
        )
        .populate_existing()
    )
    found = query.one_or_none()
    if found is None:
        raise MissingEntry(f"No such submitted notebook: {assignment}/{notebook} for {student}")
    return found


class BadRule(Expected):
    """Raised when the rule for late work cannot be used; the message is one line with the reason."""


class NoPage(Expected):
    """Raised when a feedback page cannot be made; the message is one line with the remedy."""


class Recorder:
    """Writes verdicts, autograded notebooks and feedback pages of one course folder. Use as a context manager.

    The gradebook is opened on first use, and created if it doesn't exist.
    reading: only read, and leave the gradebook's cells as they are.
    changes: lines about cells that were added, removed or renamed.
    remarks: lines about times that cannot be read, and about a changed rule for late work.
    """

    def __init__(self, root: Path, course: Course | None = None, reading: bool = False) -> None:
        self.root, self.course, self._reading = root, course or Course(root), reading
        self._config = load_config(root)
        self._settings = CourseDirectory(config=self._config)
        self._units: dict[str, dict[str, Marks]] = {}
        self._due: dict[str, object] = {}
        self._pages = FeedbackPages()
        self._log = quiet_log()
        self._grades = GetMarks(config=self._config, log=self._log)
        self._extensions = read_extensions(root, self.course.find, zone_of(self._config))
        self.changes: list[str] = []
        self.remarks: list[str] = []

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        if "gradebook" in self.__dict__:
            self.gradebook.close()

    @cached_property
    def gradebook(self) -> Gradebook:
        gradebook = Gradebook(self._settings.db_url, self._settings.course_id)
        if not self._reading:
            prepare(gradebook)
        return gradebook

    @cached_property
    def _steps(self) -> list[NbGraderPreprocessor]:
        try:
            return [kind(config=self._config, log=self._log) for kind in (SaveMarks, AssignLatePenalties)]
        except TraitError as error:
            words = " ".join(re.sub(r"<(\S+) object at \S+>", r"\1", str(error)).split())
            place = self.root / "nbgrader_config.py"
            raise BadRule(f"{place}: the rule for late work cannot be used ({words}); correct or remove it") from None

    @cached_property
    def _rule(self) -> str:
        self.check_rule()
        return rule_digest(self._config)

    def check_rule(self) -> None:
        """Raise BadRule if the rule for late work cannot be used, so that this is known before a class is judged."""
        _ = self._steps

    def register(self, unit: str) -> dict[str, Marks]:
        """Bring the gradebook's cells of a unit up to date, unless reading; return its students' marks."""
        if unit not in self._units:
            gradebook = self.gradebook
            if not self._reading:
                with self._one_commit(), lent(gradebook):
                    self.changes += migrate(gradebook, unit, self.course.assignment(unit).release)
            self._units[unit] = marks_of(gradebook, unit)
            self._due[unit] = due_of(gradebook, unit)
        return self._units[unit]

    def has(self, unit: str, student: str) -> bool:
        """Return whether the gradebook has a submission from this student."""
        return student in self.register(unit)

    def state(self, unit: str, student: str) -> str:
        """Return a digest of what recording depends on besides verdicts: questions, points, dates, the late rule."""
        known, asked = self.register(unit).get(student), self.course.assignment(unit)
        told = [asked.text, repr([(q.cell, q.points) for q in asked.questions]), self._rule]
        told += [str(until)] if (until := self._until(unit, student)) else []
        told += [str(self._handed_in(unit, student)), str(self._due[unit]), str(known.extension if known else None)]
        return hashlib.sha256("\0".join(told).encode()).hexdigest()

    def shown(self, unit: str, student: str) -> str:
        """Return a digest of the marks and comments that a feedback page would show now."""
        known = self.register(unit).get(student)
        return known.digest if known else ""

    def record(self, graded: Graded) -> Path:
        """Write one submission: all of it, or nothing. Returns the folder of the feedback page.

        `graded.notebook` is our release with the student's answers, and with each verdict as the output of its test
        cell. nbgrader's steps only read it, so it is saved unchanged as the autograded notebook.
        """
        unit, student, text = graded.unit, graded.student, graded.notebook
        self.register(unit)
        notebook, resources = nbformat.v4.reads(text), self._resources(unit, student)  # ours: needs no validation
        with self._one_commit(), lent(self.gradebook) as lender:
            self._enter(unit, student)
            for step in self._steps:
                notebook, resources = step.preprocess(notebook, resources)
                lender.forget()
            if note_rule(self.gradebook, unit, student, self._rule):
                line = f"{unit}: the rule for late work is another one than before, and the marks follow it"
                self.remarks += [line] if line not in self.remarks else []
            page = self._page(notebook, resources, graded)
            self._write("autograded", student, unit, f"{unit}.ipynb", text, 0o444)
            folder = self._write("feedback", student, unit, f"{unit}.html", page, 0o644)
        self._units[unit][student] = marks_of(self.gradebook, unit, student)[student]
        return folder

    def show(self, unit: str, student: str, graded: Graded | None = None) -> Path:
        """Make a feedback page again from what was recorded, with the current marks and comments. Raises NoPage.

        graded: the verdicts, and the autograded notebook, if they are not kept yet.
        """
        graded = graded or read_kept(self.root, unit, student) or Graded(student, unit, [])
        self.register(unit)
        path = self.root / "grading" / "autograded" / student / unit / f"{unit}.ipynb"
        try:
            notebook = nbformat.v4.reads(graded.notebook or path.read_text(encoding="utf-8"))
            with lent(self.gradebook):
                page = self._page(notebook, self._resources(unit, student), graded)
        except (OSError, ValueError, KeyError) as error:  # MissingEntry is a ValueError
            words = " ".join(str(error).split())[:200]
            raise NoPage(f"{student}: no page of {unit} can be made ({words}); run `autograder grade {unit}`") from None
        return self._write("feedback", student, unit, f"{unit}.html", page, 0o644)

    def _resources(self, unit: str, student: str) -> dict[str, Any]:
        return {
            "unique_key": unit,
            "output_files_dir": f"{unit}_files",
            "metadata": {"name": unit, "path": str(self.root)},
            "nbgrader": {"assignment": unit, "notebook": unit, "student": student, "db_url": self._settings.db_url},
        }

    def _page(self, notebook: NotebookNode, resources: dict[str, Any], graded: Graded) -> str:
        marked, resources = self._grades.preprocess(notebook, resources)
        student = self.gradebook.find_student(graded.student)
        name = " ".join(filter(None, (student.first_name, student.last_name)))
        who = f"{name} ({student.id})" if name else student.id
        return self._pages.page(marked, resources["nbgrader"], graded, who, f"{datetime.date.today()}")

    def _handed_in(self, unit: str, student: str) -> datetime.datetime | None:
        """Return the time of handing in from the timestamp file; None if the file is missing or unreadable."""
        path = self.root / "grading" / "submitted" / student / unit / TIMESTAMP
        try:
            return read_timestamp(path, zone_of(self._config))
        except ValueError as error:
            remedy = "write it as 2026-03-01 17:59 UTC; until then it counts as in time"
            line = f"{student}, {unit}: {TIMESTAMP} cannot be read ({error}); {remedy}"
            if line not in self.remarks:
                self.remarks.append(line)
            return None

    def _until(self, unit: str, student: str) -> datetime.datetime | None:
        """Return the student's deadline by `extensions.csv`, or else by the learning-management system."""
        own = self._extensions.get((unit, composed(student)))
        if own is not None:
            return own.end(self._due[unit])
        said = read_said(self.root / "grading" / "submitted" / student / unit)
        return datetime.datetime.strptime(said.until, "%Y-%m-%d %H:%M:%S UTC") if said and said.until else None

    def _enter(self, unit: str, student: str) -> None:
        self.gradebook.update_or_create_student(student)
        handed_in = self._handed_in(unit, student)
        # Pass None, too, because an earlier notebook's time would be wrong for this one.
        submission = self.gradebook.update_or_create_submission(unit, student, timestamp=handed_in)
        until, due = self._until(unit, student), self._due[unit]
        own = (unit, composed(student)) in self._extensions
        if until and due and (own or until > due + (submission.extension or datetime.timedelta())):
            submission.extension = max(until - due, datetime.timedelta())
        beside = self.root / "grading" / "autograded" / student / unit / TIMESTAMP
        if handed_in is None:
            beside.unlink(missing_ok=True)
        else:
            self._write("autograded", student, unit, TIMESTAMP, f"{handed_in:%Y-%m-%d %H:%M:%S.%f} UTC\n", 0o444)

    def _write(self, kind: str, student: str, unit: str, name: str, text: str, mode: int) -> Path:
        folder = self.root / "grading" / kind / student / unit
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / f".{name}.{os.getpid()}.part"
        aside.write_text(text, encoding="utf-8")
        os.chmod(aside, mode)
        os.replace(aside, folder / name)
        return folder

    @contextmanager
    def _one_commit(self) -> Iterator[None]:
        session = self.gradebook.db
        commit, session.commit = session.commit, lambda: session.flush() if session.new else None
        try:
            with session.no_autoflush:  # flush only where nbgrader means to commit
                yield
            commit()
        except BaseException:
            session.rollback()
            raise
        finally:
            session.commit = commit
            session.expire_all()


def due_of(gradebook: Gradebook, unit: str) -> datetime.datetime | None:
    """Return the due date of an assignment, or None if the gradebook does not say."""
    try:
        return gradebook.find_assignment(unit).duedate
    except MissingEntry:
        return None


def quiet_log() -> logging.Logger:
    """Return a logger that hides nbgrader's messages, because we report what matters ourselves."""
    log = logging.getLogger("autograder.nbgrader")
    log.setLevel(logging.CRITICAL)
    return log
