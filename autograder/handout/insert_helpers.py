"""Puts the code of the notebooks' helpers into a release, replacing the line by which a solution imports them."""

from __future__ import annotations

import ast
import re

import nbformat
from nbformat import NotebookNode

import attention_figures

from ..reading.cell_syntax import bound_names
from ..records import BadAssignment

FOLDER = attention_figures.FOLDER / "helpers"
#: An import as the formatter leaves it; many names are in parentheses.
LINE = re.compile(r"^from attention_figures\.helpers\.(\w+) import (\([^)]*\)|[^(\n]*)$\n*", re.MULTILINE)
#: What must not be left, because a notebook without the course finds no such package.
LEFT = re.compile(r"attention_figures(\.| import )helpers")
#: As in "**Exercise 3.1 · `causal_mask`**".
ANNOUNCED = re.compile(r"\*\*Exercise ([\d.]+) · `(\w+)`\*\*")
#: Code that a release runs once its figures can be shown, and the code of its last cell.
FOLLOW = """half_solved = globals().get("half_solved") or HalfSolved({{
{numbers}
}})
show = half_solved.credited(show)"""
SUM_UP_CELL, SUM_UP = "sum-up", "half_solved.sum_up()  # what has passed, and what is left"


def put_helpers(unit: str, solution: NotebookNode) -> None:
    """Replace every import of helpers by their code. Raises BadAssignment if one cannot be replaced."""
    for cell in solution.cells:
        if cell.cell_type == "code" and LEFT.search(cell.source):
            try:
                cell.source = with_helpers(cell.source)
            except ValueError as error:
                raise BadAssignment(f"solutions/{unit}/{unit}.ipynb: cell {cell.get('id', '')!r}: {error}") from None


def follow_progress(notebook: NotebookNode) -> None:
    """Make a unit say in one line what is not written yet, and add a last cell that says what has passed."""
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    numbers = [f'    "{name}": "{number}",' for number, name in ANNOUNCED.findall(prose)]
    showing = (cell for cell in notebook.cells if cell.cell_type == "code" and "\ndef show(" in cell.source)
    if numbers and (opening := next(showing, None)):
        follow = FOLLOW.format(numbers="\n".join(numbers))
        opening.source += f"\n\n\n{_code('exercise_status', 'HalfSolved')}\n\n\n{follow}"
        notebook.cells.append(nbformat.v4.new_code_cell(SUM_UP, id=SUM_UP_CELL, metadata={"tags": ["demo"]}))


def with_helpers(source: str) -> str:
    """Return the source of a cell with the code of the helpers that it imports. Raises ValueError with the remedy."""
    source = LINE.sub(lambda found: f"{_code(found[1], found[2])}\n\n\n", source).rstrip("\n")
    if LEFT.search(source):
        remedy = "write `from attention_figures.helpers.FILE import NAME` at the start of a line"
        raise ValueError(f"imports helpers in a way that the release cannot replace; {remedy}")
    return source


def _code(file: str, imported: str) -> str:
    """Return the code of a file of helpers, with the file's docstring as a comment above it."""
    path = FOLDER / f"{file}.py"
    if not path.is_file():
        there = ", ".join(sorted(each.stem for each in FOLDER.glob("*.py") if each.stem != "__init__"))
        raise ValueError(f"imports from attention_figures/helpers/{file}.py, which is not there; there are {there}")
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    names = [name.strip() for name in imported.strip("()").split(",") if name.strip()]
    defined = {name for node in tree.body for name in bound_names(node)}
    missing = [name for name in names if name not in defined]
    if missing:
        where = f"attention_figures/helpers/{file}.py"
        raise ValueError(f"imports {missing[0]!r}, which {where} does not define; write a name that it defines, alone")
    code = "\n".join(text.splitlines()[tree.body[0].end_lineno :]).strip("\n")
    return f"# {ast.get_docstring(tree)}\n{code}"
