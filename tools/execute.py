"""Executes the solution notebooks in place, so that their outputs can be read and compared.

.venv/bin/python tools/execute.py [UNIT ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]


def execute(path: Path) -> None:
    """Run one notebook from the top; nothing about this machine or the time of day stays in the file."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=180, record_timing=False, resources={"metadata": {"path": path.parent}}).execute()
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for path in sorted((ROOT / "solutions").glob("*/*.ipynb")):
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            print(f"executing {path.relative_to(ROOT)}", flush=True)
            execute(path)
