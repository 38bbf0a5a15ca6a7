"""Our part in a plain `nbgrader autograde`: the same scores as `autograder grade` gives, through the same judge.

nbgrader converts a submission twice. The first time `SubmissionExporter` reads the student's file and puts its answers
into our release notebook. The second time `RecordVerdicts` writes each verdict into its test cell, as if the cell had
been executed: a text for the student and, last, the score as a plain number. nbgrader's own steps do the rest.
"""

from __future__ import annotations

import atexit
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets.config import Config

from ..data import MARK, Graded, NoSandbox, Unreadable, Verdict
from ..grading.classroom import job_of
from ..grading.jobs import with_outputs
from ..grading.one_submission import grade_submission, nothing_to_grade
from ..grading.results_store import begun, keep
from ..grading.sandbox_start import unseen
from ..grading.submitted_files import HandedIn
from ..judging.challenge import Challenge
from ..reading.course import Course
from ..reading.submission import Cell, for_the_student
from ..reading.transplant import transplant
from ..running.limits import Limits
from ..running.sandbox import Sandbox, open_sandbox
from ..text import NO_ID, is_student_id, spelt
from .migration import migrate, prepare
from .recorder import Recorder
from .submission_times import mistrust


class _Run:
    """What a plain `nbgrader autograde` needs: one challenge and one sandbox, opened when first used."""

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
    """Reads a student's file defensively; everything but the answers comes from our own release notebook."""

    def __init__(self, config: Config | None = None, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        self._coursedir = self.parent.coursedir
        for folder in [name for name in self.parent.assignments if not is_student_id(Path(name).parent.name)]:
            self.log.error("%s: not graded, %s", spelt(folder), NO_ID)  # nbgrader shows names as they are
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
    """Have the gradebook hold what a unit asks; returns lines about what changed for those graded already."""
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
        return with_outputs(nb, verdicts, bool(mark.get("unreadable"))), resources

    def _grade(self, nb: NotebookNode, unit: str) -> list[Verdict]:
        run = _run(Path(self.parent.coursedir.root) if hasattr(self.parent, "coursedir") else Path.cwd())
        mark = nb.metadata.get(MARK, {})
        if mark.get("unreadable"):
            return nothing_to_grade(run.course.assignment(unit), mark["unreadable"])
        cells = [_as_handed_in(cell) for cell in nb.cells if cell.cell_type in ("code", "markdown")]
        submission = transplant(cells, run.course.release(unit), unit, unit)
        submission.notes.update(mark.get("notes", {}))
        try:
            return grade_submission(submission, run.course.assignment(unit), run.challenge, run.sandbox())
        except NoSandbox as error:
            self.log.error("%s", error)
            raise NbGraderException(str(error)) from error


class KeepResult(NbGraderPreprocessor):
    """Keeps the verdicts and makes the feedback page, as `autograder grade` does: the last step."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        graded = resources.pop("autograder")
        root = Path(self.parent.coursedir.root) if hasattr(self.parent, "coursedir") else Path.cwd()
        with Recorder(root, _run(root).course) as recorder:
            recorder.show(graded.unit, graded.student, nbformat.writes(nb))
            graded.recorded = recorder.state(graded.unit, graded.student)
            graded.page = recorder.shown(graded.unit, graded.student)
        keep(root, graded)
        return nb, resources


def _as_handed_in(cell: NotebookNode) -> Cell:
    grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
    return Cell(grade_id, cell.get("id"), cell.source, cell.cell_type)


__all__ = ["KeepResult", "RecordVerdicts", "SubmissionExporter"]
