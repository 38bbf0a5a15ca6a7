"""Our part in `nbgrader generate_assignment`, which `autograder release` goes through as well.

A notebook that cannot be graded is refused, the lines above the exercises say what those are worth, the gradebook
follows the notebook whoever has been graded already, and a release that fails leaves the old one as it was.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import ClearOutput, NbGraderPreprocessor, SaveCells
from traitlets.config import Config

from ..gradebook.migration import migrate, prepare
from ..reading.assignment import questions_of, take_out
from ..reading.course import Course
from ..reading.solution_check import lone_notebook, refuse

#: As in "**Exercise 3.1 · `causal_mask`** · ●○○ · 5 min · 2 points".
WORTH = re.compile(r"^(\*\*Exercise [^`\n]*`(\w+)`\*\*.*) · [\d.]+ points?\b", re.MULTILINE)

#: The tag of a cell whose output a release keeps.
PICTURE = "picture"


class CheckQuestions(NbGraderPreprocessor):
    """Refuses a notebook with a test that would not be run as it stands."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        unit = resources["nbgrader"]["assignment"]
        lone_notebook(_root(self) / "solutions" / unit)
        refuse(unit, nb)
        return nb, resources


class PointsInProse(NbGraderPreprocessor):
    """Has the line above each exercise say the points of its cell, which are the ones that count."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        points = {question.name: question.points for question in questions_of(resources["nbgrader"]["assignment"], nb)}

        def worth(found: re.Match[str]) -> str:
            if found[2] not in points:
                return found[0]
            number = points[found[2]]
            return f"{found[1]} · {number:g} point{'' if number == 1 else 's'}"

        for cell in nb.cells:
            if cell.cell_type == "markdown":
                cell.source = WORTH.sub(worth, cell.source)
        return nb, resources


class ClearAllButPictures(ClearOutput):
    """In the place of nbgrader's ClearOutput: the figure that opens a unit is there before anything has been run."""

    def preprocess_cell(self, cell: NotebookNode, resources: dict, index: int) -> tuple[NotebookNode, dict]:
        kept = cell.outputs if PICTURE in cell.metadata.get("tags", []) else []
        cell, resources = super().preprocess_cell(cell, resources, index)
        if kept:
            cell.outputs = kept
        return cell, resources


class MigrateCells(SaveCells):
    """In the place of nbgrader's SaveCells, which refuses to add or remove a cell once anybody has been graded."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        told = resources["nbgrader"]
        unit, dropped = told["assignment"], Course(_root(self)).dropped().get(told["assignment"], [])
        asked = nbformat.from_dict(nb)
        take_out(asked, [question.cell for question in questions_of(unit, asked) if question.name in dropped])
        with Gradebook(told["db_url"], self.parent.parent.coursedir.course_id) as gradebook:
            prepare(gradebook)
            for line in migrate(gradebook, unit, asked):
                self.log.warning("%s", line)
        return nb, resources


class ReleaseExporter(NotebookExporter):
    """Made when a conversion begins; from then on a failure leaves the releases that were there."""

    def __init__(self, config: Config | None = None, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        # nbgrader removes the old release before it begins and once more when it fails, and asks nobody.
        self.parent.convert_notebooks = _careful(self.parent, self.parent.convert_notebooks)


def _careful(converter: Any, convert: Callable[[], None]) -> Callable[[], None]:
    def convert_or_restore() -> None:
        names = [Path(source).name for source in converter.assignments]
        folders = [Path(converter.coursedir.root, converter._format_dest(name, ".")).resolve() for name in names]
        with tempfile.TemporaryDirectory() as aside:
            copies = {folder: Path(aside) / str(number) for number, folder in enumerate(folders) if folder.is_dir()}
            for folder, copy in copies.items():
                shutil.copytree(folder, copy)
            try:
                convert()
            except BaseException:
                for folder, copy in copies.items():
                    shutil.rmtree(folder, ignore_errors=True)
                    shutil.copytree(copy, folder)
                raise

    return convert_or_restore


def _root(step: NbGraderPreprocessor) -> Path:
    """The course folder: a step belongs to an exporter, and that to nbgrader's converter."""
    return Path(step.parent.parent.coursedir.root)


__all__ = ["CheckQuestions", "ClearAllButPictures", "MigrateCells", "PointsInProse", "ReleaseExporter"]
