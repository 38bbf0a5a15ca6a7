"""Hands verdicts to nbgrader's gradebook and feedback, whoever started the run.

nbgrader converts a submission twice. The first time `SubmissionExporter` reads the student's file and puts its answers
into our release notebook. The second time `RecordVerdicts` writes each verdict into its test cell, as if the cell had
been executed: a text for the student and, last, the score as a plain number. nbgrader's own steps do the rest.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor
from sqlalchemy.exc import SAWarning
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from .challenge import Challenge
from .grading import Course, grade_submission, nothing_to_grade
from .judge import Verdict
from .sandbox import Limits, NoSandbox, Sandbox, open_sandbox
from .submission import Unreadable, read, transplant
from .timestamps import mistrust
from .units import unit_names

#: (unit, student) -> verdicts that were reached before nbgrader's own loop began.
finished: dict[tuple[str, str], list[Verdict]] = {}

MARK = "autograder"

# nbgrader starts `alembic` by name: let it find the one beside this Python, even if the environment is not activated.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
# SQLAlchemy 2.1 remarks on the order in which nbgrader adds things; it does no harm.
warnings.filterwarnings("ignore", message="Object of type <Submitted", category=SAWarning)


def load_config(root: Path) -> Config:
    """The course's nbgrader configuration."""
    return PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()


def record_run(root: Path, seed: int) -> None:
    """Note a run's secret seed, so that a disputed grade can be judged again on the same cases."""
    entry = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "seed": str(seed)}
    with open(root / "grading" / "runs.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


class _Run:
    """What a plain `nbgrader autograde` needs: one challenge and one sandbox, opened when first used."""

    def __init__(self, root: Path) -> None:
        self.course = Course(root)
        self.challenge = Challenge()
        self._sandbox: Sandbox | None = None

    def sandbox(self) -> Sandbox:
        if self._sandbox is None:
            opened = open_sandbox(Limits())
            self._sandbox = opened.__enter__()
            atexit.register(opened.__exit__, None, None, None)
            record_run(self.course.root, self.challenge.seed)
        return self._sandbox


_runs: dict[Path, _Run] = {}


def _run(root: Path) -> _Run:
    return _runs.setdefault(root, _Run(root))


class SubmissionExporter(NotebookExporter):
    """Reads a student's file defensively; everything but the answers comes from our own release notebook."""

    def __init__(self, config: Config | None = None, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        self._coursedir = self.parent.coursedir
        mistrust(self._coursedir, self.log)
        try:
            register_unit(Path(self._coursedir.root), self._coursedir.assignment_id, self._coursedir.db_url)
        except Exception as error:
            self.log.error("%s", error)
            raise NbGraderException(str(error)) from error

    def from_filename(self, filename: str, resources: dict | None = None, **kwargs: Any) -> tuple[str, dict]:
        if not self.parent._sanitizing:
            return super().from_filename(filename, resources=resources, **kwargs)
        unit = resources["nbgrader"]["assignment"]
        course = _run(Path(self._coursedir.root)).course
        try:
            submission = course.open(Path(filename), unit)
            notebook, mark = submission.notebook, {"notes": submission.notes}
        except Unreadable as error:
            self.log.warning("%s", error)
            notebook, mark = nbformat.from_dict(course.release(unit)), {"unreadable": str(error)}
        notebook.metadata[MARK] = mark
        return self.from_notebook_node(notebook, resources=resources)


def register_unit(root: Path, unit: str, db_url: str) -> None:
    """Enter a unit of the course into the gradebook, unless it is there."""
    from .release import build_release

    with Gradebook(db_url, "attention") as gradebook:
        try:
            gradebook.find_assignment(unit)
            return
        except MissingEntry:
            pass
    if unit not in unit_names():
        raise NbGraderException(f"there is no unit {unit!r}; the units are {', '.join(unit_names())}")
    import tempfile

    with tempfile.TemporaryDirectory() as aside:
        build_release(root, unit, Path(aside), database=True)


class RecordVerdicts(NbGraderPreprocessor):
    """Writes the verdicts of one submission into its test cells."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        unit, student = resources["nbgrader"]["assignment"], resources["nbgrader"]["student"]
        verdicts = finished.get((unit, student))
        if verdicts is None:
            verdicts = self._grade(nb, unit)
        by_test = {f"test_{verdict.function}": verdict for verdict in verdicts}
        for cell in nb.cells:
            verdict = by_test.get(cell.metadata.get("nbgrader", {}).get("grade_id"))
            if verdict is not None:
                cell.outputs = outputs_of(verdict)
                cell.execution_count = 1
        nb.metadata.pop(MARK, None)
        return nb, resources

    def _grade(self, nb: NotebookNode, unit: str) -> list[Verdict]:
        run = _run(Path(self.parent.coursedir.root) if hasattr(self.parent, "coursedir") else Path.cwd())
        mark = nb.metadata.get(MARK, {})
        if mark.get("unreadable"):
            return nothing_to_grade(run.challenge, unit, mark["unreadable"])
        cells = [cell for cell in map(_as_handed_in, nb.cells) if cell is not None]
        submission = transplant(cells, run.course.release(unit), unit, unit)
        submission.notes.update(mark.get("notes", {}))
        try:
            return grade_submission(submission, run.challenge, run.sandbox())
        except NoSandbox as error:
            self.log.error("%s", error)
            raise NbGraderException(str(error)) from error


def _as_handed_in(cell: NotebookNode):
    from .submission import CodeCell

    if cell.cell_type != "code":
        return None
    return CodeCell(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.get("id"), cell.source)


def outputs_of(verdict: Verdict) -> list[NotebookNode]:
    """A test cell's outputs: the words for the student, then the score as nbgrader reads it."""
    lines = [f"{verdict.function}: {verdict.verdict}, {verdict.score:g} of {verdict.points:g} points", verdict.message]
    score = nbformat.v4.new_output("execute_result", {"text/plain": repr(float(verdict.score))}, execution_count=1)
    return [nbformat.v4.new_output("stream", name="stdout", text="\n".join(lines) + "\n"), score]


__all__ = ["RecordVerdicts", "SubmissionExporter", "finished", "load_config", "read", "record_run", "register_unit"]
