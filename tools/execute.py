"""Executes the solution notebooks in place, so that their outputs can be read and compared; new cells get names.

.venv/bin/python tools/execute.py [UNIT ...]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from folding import fold

ROOT = Path(__file__).resolve().parents[1]
WIDGET = "application/vnd.jupyter.widget-view+json"


def name_cells(notebook: nbformat.NotebookNode) -> None:
    """Give every cell whose id an editor invented one that can be read: its grade_id or its first words."""
    taken = {cell.id for cell in notebook.cells}
    for cell in notebook.cells:
        if not re.fullmatch(r"(cell-)?(?=.*\d)[0-9a-f-]{8,}", cell.id):
            continue
        exercise = re.search(r"\*\*Exercise [\d.]+ · `(\w+)`", cell.source)
        words = re.findall(r"[a-z][a-z0-9]*", re.sub(r"<[^>]+>|\$[^$]*\$", " ", cell.source.lower()))
        name = cell.metadata.get("nbgrader", {}).get("grade_id") or (
            f"ex-{exercise[1].replace('_', '-')}" if exercise else "-".join(words[:4]) or cell.cell_type
        )
        unique = next(name + more for more in ("", *(f"-{n}" for n in range(2, 99))) if name + more not in taken)
        taken.add(unique)
        cell.id = unique


def execute(path: Path) -> None:
    """Run one notebook from the top; nothing about this machine or the time of day stays in the file."""
    notebook = nbformat.read(path, as_version=4)
    name_cells(notebook)
    resources = {"metadata": {"path": path.parent}}
    NotebookClient(notebook, timeout=180, record_timing=False, store_widget_state=False, resources=resources).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":  # a slider lives with its kernel alone, and has another name in every run
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    notebook.metadata["language_info"] = {"name": "python"}
    fold(notebook)
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for path in sorted((ROOT / "solutions").glob("*/*.ipynb")):
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            print(f"executing {path.relative_to(ROOT)}", flush=True)
            execute(path)
