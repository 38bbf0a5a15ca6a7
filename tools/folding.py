"""Folds in JupyterLab what a reader need not read to go on: tests, the drawing of figures, imports.

.venv/bin/python tools/folding.py [UNIT ...]

A folded cell shows its first line and three dots, which open it; it runs like any other. So the first line says what
the cell is for.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
IMPORTS = "# What this unit imports, and how it shows a figure."
FIGURE = "# Draws the figure below."
SLIDER = "# Gives a slider: run this cell. The dots open it."
GIVEN = "# Given, for what follows: run this cell. The dots open it."
#: So many lines do not stand in the way: of a drawing, and of what is given for the tests.
SHORT, MEDIUM = 12, 40


def first_line(cell: NotebookNode) -> str | None:
    """What the first line of a cell says if it is to be folded, else None."""
    marks = cell.metadata.get("nbgrader", {})
    if cell.cell_type != "code" or marks.get("solution"):
        return None
    if marks.get("grade"):
        return f"# The test of {marks['grade_id'].removeprefix('test_')}: run this cell. The dots open it."
    if re.match(r"(# [^\n]*\n)?(import|from) ", cell.source) and "import show" in cell.source:
        return IMPORTS
    lines = len(cell.source.splitlines())
    if "given" in cell.metadata.get("tags", []):
        return GIVEN if lines > MEDIUM else None
    if re.search(r"^ *(import|from) ipywidgets", cell.source, re.MULTILINE):
        return SLIDER
    shown = any("<figure" in output.get("data", {}).get("text/html", "") for output in cell.outputs)
    return FIGURE if shown and lines > SHORT else None


def fold(notebook: NotebookNode) -> None:
    """Fold the cells of a notebook that are to be folded, and no others."""
    for cell in notebook.cells:
        line = first_line(cell)
        hidden = cell.metadata.get("jupyter", {})
        hidden.pop("source_hidden", None)
        if line is not None:
            hidden["source_hidden"] = True
            said = cell.source.partition("\n")[0]
            if said != line:
                if said in (IMPORTS, FIGURE, SLIDER, GIVEN):
                    cell.source = cell.source.removeprefix(f"{said}\n")
                cell.source = f"{line}\n{cell.source}"
        if hidden:
            cell.metadata["jupyter"] = hidden
        else:
            cell.metadata.pop("jupyter", None)


def main(units: list[str]) -> None:
    for path in sorted((ROOT / "solutions").glob("*/*.ipynb")):
        if not units or path.stem in units:
            notebook = nbformat.read(path, as_version=4)
            fold(notebook)
            nbformat.write(notebook, path)


if __name__ == "__main__":
    main(sys.argv[1:])
