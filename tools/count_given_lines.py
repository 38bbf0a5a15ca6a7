"""Prints for each unit how many lines of given code a student sees, next to the number of lines in the answers.

.venv/bin/python tools/count_given_lines.py [FOLDER]

FOLDER: the course, by default this one. Tests, folded cells and predictions do not count as seen.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def code_lines(text: str) -> int:
    """Return the lines that are not empty."""
    return sum(bool(line.strip()) for line in text.splitlines())


def given_in_view(release: NotebookNode) -> int:
    """Return the lines of code that a student sees without unfolding a cell, except stubs and predictions."""
    cells = (cell for cell in release.cells if cell.cell_type == "code" and "nbgrader" not in cell.metadata)
    seen = (cell for cell in cells if not cell.metadata.get("jupyter", {}).get("source_hidden"))
    return sum(code_lines(cell.source) for cell in seen if "predict" not in cell.metadata.get("tags", []))


def answer_lines(solution: NotebookNode) -> int:
    """Return the lines of all answers."""
    answers = (cell.source for cell in solution.cells if cell.metadata.get("nbgrader", {}).get("solution"))
    return sum(code_lines(source.partition(BEGIN)[2].partition(END)[0]) for source in answers)


def main(root: Path = ROOT) -> None:
    print("unit                  given in view   answers   ratio")
    for path in sorted((root / "solutions").glob("*/*.ipynb")):
        release = root / "notebooks" / path.stem / path.name
        given = given_in_view(nbformat.read(release, as_version=4))
        answers = answer_lines(nbformat.read(path, as_version=4))
        print(f"{path.stem:22}{given:12}{answers:10}{given / answers:8.1f}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
