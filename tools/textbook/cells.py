"""Turns the cells of a notebook into HTML: prose, code, answers, tests, and what the examples displayed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from nbformat import NotebookNode

from autograder.handout.insert_helpers import SUM_UP_CELL
from autograder.reading.predictions import Asked, asked_in, is_prediction
from fold_cells import DEMO, FIGURE, GIVEN, IMPORTS, SLIDER

from .predictions import Revealed, evidence, numbers_in, question, revealed_in, without_guesses
from .prose import Page, code_block, folded, markdown, output

EXERCISE = re.compile(r"<p>(<strong>Exercise [\d.]+ · <code>(\w+)</code></strong> · )([●○]+)")
BEGIN, END = '<section class="exercise"', "</section>\n"
#: First line of a cell that JupyterLab folds -> the summary above its code.
SUMMARIES = {
    IMPORTS: "What this unit imports",
    FIGURE: "The code of this figure",
    SLIDER: "The code of a slider; it moves in JupyterLab",
    GIVEN: "Given, for what follows",
    DEMO: "The code of this measurement",
}
#: The class of folded code that is not printed: imports, and the drawing of figures.
SCREEN_ONLY = "fold screen"
#: The address at which `make lab` shows notebooks.
LAB = "http://localhost:8888/lab/tree"


@dataclass
class Notebook:
    """A unit's two notebooks while they become a page.

    executed: cell of the solutions by its id; only its outputs are ever used.
    figures: what a cell displayed, by its id, if it contains a figure.
    """

    release: NotebookNode
    executed: Mapping[str, NotebookNode]
    page: Page
    figures: dict[str, str] = field(default_factory=dict)
    asked: dict[str, Asked] = field(init=False)
    revealed: dict[str, Revealed] = field(init=False)

    def __post_init__(self) -> None:
        cells = filter(is_prediction, self.release.cells)
        self.asked = dict(zip((cell.id for cell in cells), asked_in(self.release), strict=True))
        self.revealed = revealed_in(self.executed.values())

    def html(self) -> str:
        """Return all cells as HTML. An exercise is a section that ends with its answer or the test after it."""
        parts, is_open, is_answered = [], False, False
        for cell in self.release.cells:
            marks = cell.metadata.get("nbgrader", {})
            if is_answered and not marks.get("grade"):
                parts.append(END)
                is_open = is_answered = False
            parts.append(self.cell(cell))
            is_open |= cell.cell_type == "markdown" and BEGIN in parts[-1]
            is_answered = is_open and bool(marks)
        return "".join([*parts, END] if is_open else parts)

    def cell(self, cell: NotebookNode) -> str:
        """Return one cell of the release as HTML."""
        page, executed = self.page, self.executed.get(cell.id)
        page.cell = cell.id
        if cell.id == SUM_UP_CELL:  # a page runs no tests
            return ""
        if cell.get("attachments") and executed is not None:  # the picture that opens a unit
            return self.displayed(cell, executed.outputs)
        if cell.cell_type == "markdown":
            prose = cell.source.replace("### **Exercise ", "**Exercise ")  # the section has its own line
            return EXERCISE.sub(announced, markdown(prose, page))
        if cell.id in self.asked:
            return question(self.asked[cell.id], self.revealed)
        marks = cell.metadata.get("nbgrader", {})
        if marks.get("solution"):
            return answer(cell, page.name)
        if marks:
            return folded(f"The test of <code>{marks['grade_id'].removeprefix('test_')}</code>", rest_of_code(cell))
        outputs = [] if executed is None or executed.source != cell.source else executed.outputs
        shown = self.displayed(cell, outputs)
        numbers = numbers_in(outputs)
        if numbers:
            shown = evidence(cell.id, shown, numbers)
        first = cell.source.partition("\n")[0]
        if first in SUMMARIES:
            kind = "fold" if first == GIVEN else SCREEN_ONLY
            return folded(SUMMARIES[first], rest_of_code(cell), kind) + shown
        code = code_block(cell.source)
        return (folded(SUMMARIES[FIGURE], code, SCREEN_ONLY) if "<figure" in shown else code) + shown

    def displayed(self, cell: NotebookNode, outputs: list[NotebookNode]) -> str:
        shown = "".join(output(without_guesses(item), self.page) for item in outputs)
        if "<figure" in shown:
            self.figures[cell.id] = shown
        return shown


def answer(cell: NotebookNode, unit: str) -> str:
    """Return an answer cell with a link to its unit in JupyterLab, which has no links into a notebook."""
    return (
        '<div class="answer">\n<div class="head"><p class="label">Your answer goes here</p>\n'
        f'<p class="lab"><a href="{lab(unit)}" target="_blank" rel="noopener">Open the unit in JupyterLab</a> '
        '<a href="#in-jupyterlab">How?<span class="unseen"> What to run for JupyterLab</span></a></p></div>\n'
        f"{code_block(cell.source)}</div>\n"
    )


def lab(unit: str) -> str:
    """Return the address at which JupyterLab shows the notebook of a unit."""
    return f"{LAB}/{unit}/{unit}.ipynb"


def rest_of_code(cell: NotebookNode) -> str:
    """Return a folded cell's code without its first line, which only stands in for the code."""
    return code_block(cell.source.partition("\n")[2].lstrip("\n"))


def announced(found: re.Match[str]) -> str:
    """Open an exercise's section at its first line, with an anchor, and describe its stars in words."""
    words, name, stars = found.groups()
    level = f'<span role="img" aria-label="level {stars.count("●")} of {len(stars)}">{stars}</span>'
    return (
        f'{BEGIN} id="exercise-{name}" aria-labelledby="line-{name}">\n'
        f'<p class="announced" id="line-{name}">{words}{level}'
    )
