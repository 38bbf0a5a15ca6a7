"""nbgrader's gradebook, written by one writer with one engine: one commit for each submission.

nbgrader's own steps store units, scores and late penalties, as they do in a plain `nbgrader autograde`. They open the
gradebook anew for each notebook and commit after each cell; here they are lent the open one.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Assignment, Grade, Gradebook, MissingEntry, SubmittedAssignment, SubmittedNotebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties, GetGrades, SaveAutoGrades
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError

from .feedback import FeedbackPages
from .jobs import Graded
from .nbgrader_plugin import load_config, register_unit
from .timestamps import NAME as TIMESTAMP
from .timestamps import read_timestamp

#: The modules that open a gradebook of their own.
BORROWERS = (
    "nbgrader.preprocessors.saveautogrades",
    "nbgrader.preprocessors.latesubmissions",
    "nbgrader.preprocessors.getgrades",
    "nbgrader.preprocessors.savecells",
    "nbgrader.converters.generate_assignment",
    "autograder.nbgrader_plugin",
)


class Recorder:
    """Writes verdicts, autograded notebooks and feedback pages of one course folder. Use as a context manager.

    The gradebook is opened, and made where there is none, when it is first needed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._config = load_config(root)
        self._course = CourseDirectory(config=self._config)
        self._units: set[str] = set()
        self._pages = FeedbackPages()
        log = quiet_log()
        self._steps = [kind(config=self._config, log=log) for kind in (SaveAutoGrades, AssignLatePenalties)]
        self._grades = GetGrades(config=self._config, log=log)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        if "gradebook" in self.__dict__:
            self.gradebook.close()

    @cached_property
    def gradebook(self) -> Gradebook:
        return Gradebook(self._course.db_url, self._course.course_id)

    def register(self, units: Iterable[str]) -> None:
        """Enter units of the course into the gradebook, unless they are there."""
        for unit in units:
            if unit not in self._units:
                gradebook = self.gradebook
                with self._one_commit(), lent(gradebook):
                    register_unit(self.root, unit, self._course.db_url)
                self._units.add(unit)

    def has(self, unit: str, student: str) -> bool:
        """Whether the gradebook holds a submission of this student."""
        try:
            return bool(self.gradebook.find_submission(unit, student).notebooks)
        except MissingEntry:
            return False

    def record(self, unit: str, student: str, text: str) -> Path:
        """Write one submission: all of it, or nothing. Returns the folder of the feedback page.

        text: a notebook file of ours: the release with the student's answers, and each verdict as the output of its
            test cell. nbgrader's steps read it and change nothing in it, so it is the autograded notebook as it stands.
        """
        self.register([unit])
        notebook = nbformat.v4.reads(text)  # ours: it need not be validated
        resources = {
            "unique_key": unit,
            "output_files_dir": f"{unit}_files",
            "metadata": {"name": unit, "path": str(self.root)},
            "nbgrader": {"assignment": unit, "notebook": unit, "student": student, "db_url": self._course.db_url},
        }
        with self._one_commit(), lent(self.gradebook):
            self._enter(unit, student)
            for step in self._steps:
                notebook, resources = step.preprocess(notebook, resources)
            graded, resources = self._grades.preprocess(notebook, resources)
            page = self._pages.page(graded, resources["nbgrader"])
            self._write("autograded", student, unit, f"{unit}.ipynb", text, 0o444)
            folder = self._write("feedback", student, unit, f"{unit}.html", page, 0o644)
        return folder

    def _enter(self, unit: str, student: str) -> None:
        self.gradebook.update_or_create_student(student)
        source = self.root / "grading" / "submitted" / student / unit / TIMESTAMP
        try:
            handed_in = read_timestamp(source)
        except ValueError:
            handed_in = None
        if handed_in is None:
            self.gradebook.update_or_create_submission(unit, student)
        else:
            self.gradebook.update_or_create_submission(unit, student, timestamp=handed_in)
            self._write("autograded", student, unit, TIMESTAMP, source.read_text(encoding="utf-8"), 0o444)

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
        commit, session.commit = session.commit, session.flush
        try:
            with session.no_autoflush:  # nbgrader says itself when, where it means to commit
                yield
            commit()
        except BaseException:
            session.rollback()
            raise
        finally:
            session.commit = commit
            session.expire_all()


def changed_by_hand(root: Path, graded: Iterable[Graded]) -> int:
    """How many marks of these notebooks somebody has changed in the gradebook; 0 where it cannot be read."""
    course = CourseDirectory(config=load_config(root))
    address = make_url(course.db_url)
    if address.drivername.startswith("sqlite") and not Path(address.database or "").is_file():
        return 0  # nbgrader would make one
    ours = {(item.unit, item.student) for item in graded}
    by_hand = Grade.manual_score.is_not(None) & Grade.manual_score.is_distinct_from(Grade.auto_score)
    try:
        with Gradebook(course.db_url, course.course_id) as gradebook:
            query = gradebook.db.query(Assignment.name, SubmittedAssignment.student_id).select_from(Grade)
            query = query.join(Grade.notebook).join(SubmittedNotebook.assignment).join(SubmittedAssignment.assignment)
            return sum(tuple(row) in ours for row in query.filter(by_hand | (Grade.extra_credit != 0)))
    except DatabaseError:
        return 0


class _Lent:
    """An open gradebook in the hands of somebody who would open and close it."""

    def __init__(self, gradebook: Gradebook) -> None:
        self._gradebook = gradebook

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gradebook, name)

    def __enter__(self) -> _Lent:
        return self

    def __exit__(self, *error: object) -> None:
        pass


@contextmanager
def lent(gradebook: Gradebook) -> Iterator[None]:
    """Whoever would open a gradebook of their own is given `gradebook`, and cannot close it."""
    modules = [importlib.import_module(name) for name in BORROWERS]
    for module in modules:
        module.Gradebook = lambda *args, **kwargs: _Lent(gradebook)
    try:
        yield
    finally:
        for module in modules:
            module.Gradebook = Gradebook


def quiet_log() -> logging.Logger:
    """nbgrader's messages go nowhere: what matters is said once, by us."""
    log = logging.getLogger("autograder.nbgrader")
    log.setLevel(logging.CRITICAL)
    return log
