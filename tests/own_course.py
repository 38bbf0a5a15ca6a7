"""A course that an instructor has changed, for tests: a unit with questions of every kind, and an own assignment."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import warm

ROOT = Path(__file__).resolve().parents[1]
UNIT, LAB = "03_masking", "lab"
#: Stands in hidden tests alone: no page, notebook or message may hold it.
SECRET = "hidden_canary_7c1e"

BANDED = """\
def banded_mask(n, width):
    ### BEGIN SOLUTION
    rows = np.arange(n)
    return (rows[:, None] >= rows) & (rows[:, None] - rows < width)
    ### END SOLUTION"""
BANDED_TEST = f"""\
assert banded_mask(3, 1).shape == (3, 3), "The mask should be n by n."
assert banded_mask(4, 2)[1, 1]
### BEGIN HIDDEN TESTS
{SECRET} = banded_mask(5, 2)
assert {SECRET}.sum() == 9, "{SECRET}: nine entries"
assert not {SECRET}[4, 2]
### END HIDDEN TESTS"""
SHARES = """\
def shares(numbers):
    ### BEGIN SOLUTION
    return [number / sum(numbers) for number in numbers]
    ### END SOLUTION"""
SHARES_TEST = f"""\
credit = 0
credit += 1 if shares([1, 1]) == [0.5, 0.5] else 0
### BEGIN HIDDEN TESTS
credit += 2 if shares([1, 3]) == [0.25, 0.75] else 0  # {SECRET}
### END HIDDEN TESTS
credit"""


def marks(name: str, **told: object) -> dict:
    plain = {"grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3, "grade_id": name}
    return {"nbgrader": {**plain, **told}}


def answer(name: str, source: str) -> NotebookNode:
    return new_code_cell(source, id=name, metadata=marks(name, solution=True))


def test_cell(name: str, source: str, points: float) -> NotebookNode:
    return new_code_cell(source, id=name, metadata=marks(name, grade=True, locked=True, points=points))


test_cell.__test__ = False


def words(name: str, points: float, source: str = "### BEGIN SOLUTION\nBecause.\n### END SOLUTION") -> NotebookNode:
    return new_markdown_cell(source, id=name, metadata=marks(name, grade=True, solution=True, points=points))


def code_by_hand(name: str, points: float, source: str = "### BEGIN SOLUTION\nx = 1\n### END SOLUTION") -> NotebookNode:
    return new_code_cell(source, id=name, metadata=marks(name, grade=True, solution=True, points=points))


def task(name: str, points: float, source: str = "Draw a mask of your own, and describe it.") -> NotebookNode:
    return new_markdown_cell(source, id=name, metadata=marks(name, task=True, locked=True, points=points))


def own_questions() -> list[NotebookNode]:
    """An autograded question, one with partial credit, two answers that a person marks, and a task."""
    return [
        new_markdown_cell("**Exercise 3.8 · `banded_mask`** · ●○○ · 5 min · 1 points", id="about_banded"),
        answer("banded_mask", BANDED),
        test_cell("test_banded_mask", BANDED_TEST, 4),
        answer("cell-shares", SHARES),
        test_cell("cell-shares-test", SHARES_TEST, 3),
        words("why", 3),
        code_by_hand("sketch", 2),
        task("draw", 5),
        new_markdown_cell("That was all.", id="behind_the_task"),
    ]


def lab() -> NotebookNode:
    """An assignment of the instructor's own, without the course's tags, with an exercise of the course in it."""
    solution = nbformat.read(ROOT / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4)
    wanted = ("causal_mask", "test_causal_mask")
    course = [cell for cell in solution.cells if cell.metadata.get("nbgrader", {}).get("grade_id") in wanted]
    cells = [
        new_markdown_cell("# A lab of our own", id="top"),
        new_code_cell("import numpy as np", id="imports"),
        *course,
        *own_questions(),
    ]
    return new_notebook(cells=cells, metadata=solution.metadata)


def make_course(folder: Path, unit: bool = True, own: bool = False) -> Path:
    """A course folder with a changed unit, an own assignment, or both; its releases are not made yet."""
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    if unit:
        solution = nbformat.read(ROOT / "solutions" / UNIT / f"{UNIT}.ipynb", as_version=4)
        solution.cells += own_questions()
        write(folder, UNIT, solution)
    if own:
        write(folder, LAB, lab())
    return folder


def write(folder: Path, unit: str, notebook: NotebookNode, kind: str = "solutions") -> Path:
    path = folder / kind / unit / f"{unit}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def read(folder: Path, unit: str, kind: str = "notebooks") -> NotebookNode:
    return nbformat.read(folder / kind / unit / f"{unit}.ipynb", as_version=4)


def hand_in(folder: Path, student: str, unit: str, answers: dict[str, str], below: list[NotebookNode] = ()) -> Path:
    """Hand in the release with some cells filled in; `below` stands behind the task."""
    notebook = read(folder, unit)
    cells = []
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in answers:
            cell.source = answers[name]
        cells.append(cell)
        if name == "draw":
            cells += below
    notebook.cells = cells
    return write(folder / "grading" / "submitted" / student, unit, notebook, "")


def solved(folder: Path, unit: str) -> dict[str, str]:
    """Answer cell -> the instructor's solution."""
    return {
        cell.metadata.nbgrader.grade_id: cell.source
        for cell in read(folder, unit, "solutions").cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }


def run(folder: Path, *command: str) -> subprocess.CompletedProcess:
    return warm.command(folder, *command)
