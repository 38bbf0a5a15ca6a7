"""A student's own notebook in place of our release, where there is none beside it: what it asks stands in its cells."""

from __future__ import annotations

import nbformat

from ..data import Unreadable

#: Tags of the code cells that come with the course; without one, and without nbgrader's marks, a cell is the student's.
OURS = {"given", "demo"}
#: nbgrader's own, in the place of an answer in words.
STUB = "YOUR ANSWER HERE"


def own_release(text: str, name: str) -> str:
    """The text of a release, made of a notebook that somebody works in. Raises Unreadable.

    What is the student's own, or was doubled, is no part of it: a submission brings that along. name: for messages.
    """
    try:
        notebook = nbformat.reads(text, as_version=4)
        kept, seen = [], set()
        for cell in notebook.cells:
            mark = cell.metadata.get("nbgrader", {}).get("grade_id")
            if cell.cell_type == "code" and not mark and not OURS & set(cell.metadata.get("tags", ())):
                continue
            if cell.cell_type == "markdown" and cell.metadata.get("nbgrader", {}).get("solution"):
                cell.source = STUB  # what was handed out is not known; anything else is an answer
            if not mark or mark not in seen:
                kept.append(cell)
                seen.add(mark)
        notebook.cells = kept
        return nbformat.writes(notebook)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        words = " ".join(str(error).split())[:100]
        raise Unreadable(f"{name}: no notebook that can be read ({words}); open it in JupyterLab and save it") from None
