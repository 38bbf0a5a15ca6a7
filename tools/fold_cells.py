"""Folds cells that a reader can skip: tests, measurements, the drawing of figures, imports.

.venv/bin/python tools/fold_cells.py [UNIT ...]

In JupyterLab a folded cell shows its first line and three dots, which open it; it runs like any other. So the first
line says what the cell is for.
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
DEMO = "# Computes the output below: run this cell. The dots open it."
#: Longer cells are folded: SHORT lines for an example, MEDIUM for code that is given for the answers.
SHORT, MEDIUM = 10, 12
#: Matches "TEN_SEEDS = False  # True: train twenty models", a switch for the reader.
SWITCH = re.compile(r"[A-Z_]+ = (True|False)  # ")


def first_line(cell: NotebookNode) -> str | None:
    """Return the first line that a cell gets if it is to be folded, else None."""
    marks = cell.metadata.get("nbgrader", {})
    if cell.cell_type != "code" or marks.get("solution"):
        return None
    if marks.get("grade"):
        return f"# The test of {marks['grade_id'].removeprefix('test_')}: run this cell. The dots open it."
    if re.match(r"(# [^\n]*\n)?(import|from) ", cell.source) and "import show" in cell.source:
        return IMPORTS
    lines, tags = len(cell.source.splitlines()), cell.metadata.get("tags", [])
    long, checks = lines > SHORT, re.search(r"^ *assert ", cell.source, re.MULTILINE)
    if "given" in tags:
        return GIVEN if lines > MEDIUM or "attention_figures.helpers" in cell.source else None
    if re.search(r"^ *(import|from) ipywidgets", cell.source, re.MULTILINE):
        return SLIDER
    shown = any("<figure" in output.get("data", {}).get("text/html", "") for output in cell.outputs)
    if not (long or checks) or "predict" in tags or SWITCH.match(cell.source):
        return None
    return FIGURE if shown else DEMO if cell.outputs else GIVEN


def fold(notebook: NotebookNode) -> None:
    """Fold exactly those cells of a notebook that are to be folded."""
    for cell in notebook.cells:
        said, _, rest = cell.source.partition("\n")
        if cell.cell_type == "code" and said in (IMPORTS, FIGURE, SLIDER, GIVEN, DEMO):
            cell.source = rest
        line = first_line(cell)
        hidden = cell.metadata.get("jupyter", {})
        hidden.pop("source_hidden", None)
        if line is not None:
            hidden["source_hidden"] = True
            if cell.source.partition("\n")[0] != line:
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
