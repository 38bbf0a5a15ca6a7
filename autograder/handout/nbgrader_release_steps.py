"""Adds our steps to `nbgrader generate_assignment`, which `autograder release` uses as well."""

from __future__ import annotations

import html
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
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import ClearOutput, NbGraderPreprocessor, SaveCells
from traitlets.config import Config

from attention_figures import with_code

from ..gradebook.gradebook_migration import migrate, prepare
from ..reading.cell_roles import KEY, must_be_the_code_of, stamp_for
from ..reading.course_contents import Course
from ..reading.predictions import is_prediction, without_truth
from ..reading.read_assignment import questions_of, take_out
from ..reading.solution_check import lone_notebook, refuse
from ..records import Expected
from .insert_helpers import follow_progress, put_helpers
from .keep_learner_work import keep_work, write_note


class StampRelease(NbGraderPreprocessor):
    """Writes into the metadata for which version of the exercises the notebook is made."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        try:
            must_be_the_code_of(Path(self.parent.parent.coursedir.root))  # the exporter's converter
            stamp = stamp_for(resources["nbgrader"]["assignment"], nb)
        except Expected as error:
            self.log.error("%s", error)
            raise NbGraderException(str(error)) from error
        nb.metadata.pop(KEY, None)
        if stamp.contracts:
            nb.metadata[KEY] = stamp.as_metadata()
        return nb, resources


#: As in "### **Exercise 3.1 · `causal_mask`** · ●○○ · 5 min · 2 points".
WORTH = re.compile(r"^((?:### )?\*\*Exercise [^`\n]*`(\w+)`\*\*.*) · [\d.]+ points?\b", re.MULTILINE)

#: Tag of a cell whose figure a release shows before any cell has run: a live figure as it is, any other as a picture.
PICTURE = "picture"
#: The name of a live figure in a cell's output.
LIVE = re.compile(r'<figure class="live" data-live="(\w+)">')
#: Output of a notebook's `show`: alternative text, picture, the data of a live figure, caption.
FIGURE = re.compile(
    r'<img alt="([^"]*)" src="data:image/png;base64,([^"]+)"[^>]*>'
    r'(?:<script type="application/json">[^<]*</script>)?<figcaption>(.*?)</figcaption>',
    re.DOTALL,
)


class CheckQuestions(NbGraderPreprocessor):
    """Refuses a notebook with a test that would not be run as it is written."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        unit = resources["nbgrader"]["assignment"]
        lone_notebook(_root(self) / "solutions" / unit)
        refuse(unit, nb)
        return nb, resources


class PutHelpers(NbGraderPreprocessor):
    """Replaces a solution's imports of helpers by their code, because a notebook without the course lacks them."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        put_helpers(resources["nbgrader"]["assignment"], nb)
        follow_progress(nb)
        return nb, resources


class PointsInProse(NbGraderPreprocessor):
    """Writes into the line above each exercise the points of its cell, which are the ones that count."""

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


class HidePredictions(NbGraderPreprocessor):
    """Puts dots in place of a measured result where a reader should guess it."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        for cell in filter(is_prediction, nb.cells):
            cell.source = without_truth(cell.source)
        return nb, resources


class GoOn(NbGraderPreprocessor):
    """Lets *Run All* reach the end: JupyterLab stops at an error, such as an exercise that is not written yet."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        for cell in nb.cells:
            if cell.cell_type == "code":
                tags = cell.metadata.get("tags", [])
                cell.metadata["tags"] = [*tags, *({"raises-exception"} - set(tags))]
        return nb, resources


class PictureAsText(NbGraderPreprocessor):
    """Puts a still figure at the opening of a unit into its text, so that it is visible before any cell has run."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        nb.cells = [_as_text(cell) if PICTURE in cell.metadata.get("tags", []) else cell for cell in nb.cells]
        return nb, resources


class KeepOpening(ClearOutput):
    """Clears all outputs but the live figure that opens a unit, which works before any cell has run."""

    def preprocess_cell(self, cell: NotebookNode, resources: dict, cell_index: int) -> tuple[NotebookNode, dict]:
        shown, tags = _html(cell), cell.metadata.get("tags", [])
        cell, resources = super().preprocess_cell(cell, resources, cell_index)
        if PICTURE in tags and cell.cell_type == "code" and (found := LIVE.search(shown)):
            alt, png, _ = FIGURE.search(shown).groups()
            data = {"image/png": png, "text/html": with_code(found[1], shown)}  # the picture is a fallback
            told = {"image/png": {"alt": html.unescape(alt)}}
            cell.outputs = [nbformat.v4.new_output("display_data", data, metadata=told)]
        return cell, resources


def _html(cell: NotebookNode) -> str:
    return "".join(output.get("data", {}).get("text/html", "") for output in cell.get("outputs", []))


def _as_text(cell: NotebookNode) -> NotebookNode:
    """Return a drawing cell as its figure, with alternative text and caption; a live one stays a cell."""
    shown = _html(cell)
    found = FIGURE.search(shown)
    if found is None or LIVE.search(shown):
        return cell
    alt, png, caption = found.groups()
    words = html.unescape(alt).replace("[", "(").replace("]", ")")
    text = nbformat.v4.new_markdown_cell(f"![{words}](attachment:picture.png)\n\n{html.unescape(caption)}", id=cell.id)
    text.attachments = {"picture.png": {"image/png": png}}
    text.metadata = cell.metadata
    text.metadata.pop("jupyter", None)
    return text


class MigrateCells(SaveCells):
    """Replaces nbgrader's SaveCells, which refuses to add or remove a cell once anybody has been graded."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        told = resources["nbgrader"]
        unit, excluded = told["assignment"], Course(_root(self)).excluded().get(told["assignment"], [])
        asked = nbformat.from_dict(nb)
        take_out(asked, [question.cell for question in questions_of(unit, asked) if question.name in excluded])
        with Gradebook(told["db_url"], self.parent.parent.coursedir.course_id) as gradebook:
            prepare(gradebook)
            for line in migrate(gradebook, unit, asked):
                self.log.warning("%s", line)
        return nb, resources


class ReleaseExporter(NotebookExporter):
    """Makes a conversion that fails leave the old releases as they were. It is created when a conversion begins."""

    def __init__(self, config: Config | None = None, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        # nbgrader removes the old release before it begins and again when it fails, without asking.
        self.parent.convert_notebooks = _careful(self.parent, self.parent.convert_notebooks)


def _careful(converter: Any, convert: Callable[[], None]) -> Callable[[], None]:
    def convert_or_restore() -> None:
        names, root = [Path(source).name for source in converter.assignments], Path(converter.coursedir.root)
        folders = [Path(root, converter._format_dest(name, ".")).resolve() for name in names]
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
            for folder, copy in copies.items():
                if kept := keep_work(root, folder.name, copy, folder):
                    converter.log.warning("%s", kept)
            write_note(root, [folder.name for folder in folders if folder == root / "notebooks" / folder.name])

    return convert_or_restore


def _root(step: NbGraderPreprocessor) -> Path:
    """Return the course folder: a step's parent is an exporter, and that one's parent is nbgrader's converter."""
    return Path(step.parent.parent.coursedir.root)
