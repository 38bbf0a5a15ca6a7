"""Makes a plain `nbgrader autograde` and `nbgrader export` give the same scores as `autograder grade`.

nbgrader converts a submission twice. The first time, `SubmissionExporter` reads the student's file and puts its answers
into our release notebook. The second time, `RecordVerdicts` writes each verdict into its test cell, as if the cell had
been executed: a text for the student and, last, the score as a plain number. nbgrader's own steps do the rest.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.api import Assignment, Gradebook, MissingEntry, Student
from nbgrader.converters.base import NbGraderException
from nbgrader.plugins import CsvExportPlugin
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets.config import Config

from ..grading.one_submission import grade_submission, nothing_to_grade
from ..grading.results_store import begun, keep
from ..grading.submission_jobs import with_outputs
from ..grading.submitted_folder import HandedIn
from ..grading.whole_class import job_of
from ..judging.hidden_cases import Challenge
from ..reading.course_contents import Course
from ..reading.insert_answers import transplant
from ..reading.read_submission import Cell, for_the_student
from ..records import Graded, NoSandbox, Unreadable, Verdict
from ..running.limits import Limits
from ..running.sandbox import Sandbox, open_sandbox, unseen
from ..safe_text import NO_ID, csv_line, is_student_id, spelt, spreadsheet_safe
from .gradebook_migration import migrate, prepare
from .gradebook_writer import Recorder
from .submission_times import mistrust

#: Key in the notebook's metadata by which the first conversion tells the second what it found, because nbgrader passes
#: nothing else on. It is removed before the notebook is recorded.
MARK = "autograder"


class _Run:
    """Holds what a plain `nbgrader autograde` needs: one challenge, and one sandbox that is opened on first use."""

    def __init__(self, root: Path) -> None:
        self.course = Course(root)
        self.challenge = Challenge()
        self._sandbox: Sandbox | None = None

    def sandbox(self) -> Sandbox:
        if self._sandbox is None:
            opened = open_sandbox(Limits.from_course(self.course.root), hidden=unseen(self.course.root))
            self._sandbox = opened.__enter__()
            atexit.register(opened.__exit__, None, None, None)
            begun(self.course.root, self.challenge.seed, "nbgrader autograde")
        return self._sandbox


_runs: dict[Path, _Run] = {}


def _run(root: Path) -> _Run:
    if root not in _runs:
        _runs[root] = _Run(root)
    return _runs[root]


class SubmissionExporter(NotebookExporter):
    """Reads a student's file defensively, and takes everything but the answers from our own release notebook."""

    def __init__(self, config: Config | None = None, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        self._coursedir = self.parent.coursedir
        for folder in [name for name in self.parent.assignments if not is_student_id(Path(name).parent.name)]:
            self.log.error("%s: not graded, %s", spelt(folder), NO_ID)  # nbgrader prints names unescaped
            del self.parent.assignments[folder]
        mistrust(self._coursedir, self.log)
        try:
            course = _run(Path(self._coursedir.root)).course
            for line in register_unit(course, self._coursedir.assignment_id, self._coursedir.db_url):
                self.log.warning("%s", line)
        except Exception as error:
            self.log.error("%s", error)
            raise NbGraderException(str(error)) from error

    def from_filename(self, filename: str, resources: dict | None = None, **kwargs: Any) -> tuple[str, dict]:
        if not self.parent._sanitizing:
            return super().from_filename(filename, resources=resources, **kwargs)
        unit, student = resources["nbgrader"]["assignment"], resources["nbgrader"]["student"]
        run = _run(Path(self._coursedir.root))
        course = run.course
        try:
            submission = course.open(Path(filename), unit)
            notebook, mark = submission.notebook, {"notes": submission.notes}
        except Unreadable as error:
            self.log.warning("%s", error)
            notebook = nbformat.from_dict(course.release(unit))
            mark = {"unreadable": for_the_student(str(error), filename), "problem": str(error)}
        job = job_of(course, HandedIn(student, unit, Path(filename)), 0, Limits.from_course(course.root))
        notebook.metadata[MARK] = {**mark, "fingerprint": job.fingerprint}
        return self.from_notebook_node(notebook, resources=resources)


def register_unit(course: Course, unit: str, db_url: str) -> list[str]:
    """Bring the gradebook's cells of a unit up to date; return lines about changes for students already graded."""
    if unit not in course.units():
        raise NbGraderException(f"there is no unit {unit!r}; the units are {', '.join(course.units())}")
    with Gradebook(db_url, "attention") as gradebook:
        prepare(gradebook)
        return migrate(gradebook, unit, course.assignment(unit).release)


class RecordVerdicts(NbGraderPreprocessor):
    """Writes the verdicts of one submission into its test cells."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        told = resources["nbgrader"]
        verdicts = self._grade(nb, told["assignment"])
        mark = nb.metadata.pop(MARK, {})
        resources["autograder"] = Graded(
            told["student"], told["assignment"], verdicts, mark.get("problem"), fingerprint=mark.get("fingerprint", "")
        )
        return with_outputs(nb, verdicts), resources

    def _grade(self, nb: NotebookNode, unit: str) -> list[Verdict]:
        run = _run(Path(self.parent.coursedir.root) if hasattr(self.parent, "coursedir") else Path.cwd())
        mark = nb.metadata.get(MARK, {})
        if mark.get("unreadable"):
            return nothing_to_grade(run.course.assignment(unit), mark["unreadable"])
        cells = [_as_handed_in(cell) for cell in nb.cells]
        submission = transplant(cells, run.course.release(unit), unit, unit)
        submission.notes.update(mark.get("notes", {}))
        try:
            return grade_submission(submission, run.course.assignment(unit), run.challenge, run.sandbox())
        except NoSandbox as error:
            self.log.error("%s", error)
            raise NbGraderException(str(error)) from error


class KeepResult(NbGraderPreprocessor):
    """Keeps the verdicts and makes the feedback page, as `autograder grade` does; it runs last."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        graded = resources.pop("autograder")
        root = Path(self.parent.coursedir.root) if hasattr(self.parent, "coursedir") else Path.cwd()
        with Recorder(root, _run(root).course) as recorder:
            graded.notebook = nbformat.writes(nb)
            recorder.show(graded.unit, graded.student, graded)
            graded.recorded = recorder.state(graded.unit, graded.student)
            graded.page = recorder.shown(graded.unit, graded.student)
        keep(root, graded)
        return nb, resources


def _as_handed_in(cell: NotebookNode) -> Cell:
    grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
    return Cell(grade_id, cell.get("id"), cell.source, cell.cell_type)


COLUMNS = (
    "assignment",
    "duedate",
    "timestamp",
    "student_id",
    "last_name",
    "first_name",
    "email",
    "raw_score",
    "late_submission_penalty",
    "score",
    "max_score",
)


class SafeCsvExport(CsvExportPlugin):
    """Exports the same columns and numbers as `nbgrader export`, but quotes texts and lets none begin as a formula."""

    def export(self, gradebook: Gradebook) -> None:
        path = self.to or "grades.csv"
        rows = (COLUMNS, *self._rows(gradebook))
        safe = ([spreadsheet_safe("" if cell is None else str(cell)) for cell in row] for row in rows)
        try:
            with open(path, "w", newline="", encoding="utf-8") as file:
                file.writelines(csv_line(row, "\n") for row in safe)
        except OSError as error:
            self.log.error("%s: cannot be written (%s); name another place with --to", path, error.strerror)
            sys.exit(1)

    def _rows(self, gradebook: Gradebook) -> Iterator[tuple[Any, ...]]:
        wanted, units = {str(student) for student in self.student}, set(map(str, self.assignment))
        for assignment in gradebook.assignments:
            for student in gradebook.students:
                if (not units or assignment.name in units) and (not wanted or student.id in wanted):
                    yield _row(gradebook, assignment, student)


def _row(gradebook: Gradebook, assignment: Assignment, student: Student) -> tuple[Any, ...]:
    timestamp, raw, penalty = "", 0.0, 0.0
    try:
        submission = gradebook.find_submission(assignment.name, student.id)
        timestamp, raw, penalty = submission.timestamp, submission.score, submission.late_submission_penalty or 0.0
    except MissingEntry:
        pass
    person = (student.id, student.last_name, student.first_name, student.email)
    marks = (raw, penalty, max(0.0, raw - penalty), assignment.max_score)
    return (assignment.name, assignment.duedate, timestamp, *person, *marks)
