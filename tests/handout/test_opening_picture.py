"""The figure that opens a unit: the release has a live one as it is, and another as a picture."""

from __future__ import annotations

import nbformat
import pytest
from nbformat import NotebookNode

from attention_figures import live
from autograder.handout.nbgrader_release_steps import KeepOpening, PictureAsText

PICTURE = '<img alt="two [square] heads" src="data:image/png;base64,iVBORw0K" style="max-width:100%">'
STILL = f"<figure>{PICTURE}<figcaption>What &lt;they&gt; read.</figcaption></figure>"
LIVE = live("mask", {"words": ["a", "</b>"]}, PICTURE, "What <they> read.")
#: As `solutions/` keeps it, without its programs.
STORED = LIVE[LIVE.index("<figure") : LIVE.index("</figure>") + len("</figure>")]


def released(shown: str, *tags: str) -> NotebookNode:
    """The cell of a release that shows this in the solution."""
    cell = nbformat.v4.new_code_cell("draw()", id="opening", metadata={"tags": list(tags)}, execution_count=1)
    cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": shown})]
    notebook = nbformat.v4.new_notebook(cells=[cell])
    for step in (PictureAsText(), KeepOpening()):
        notebook, _ = step.preprocess(notebook, {})
    (opening,) = notebook.cells
    assert opening.id == "opening"
    return opening


def test_a_still_figure_becomes_a_picture_with_its_words_and_caption():
    opening = released(STILL, "picture")
    assert opening.cell_type == "markdown"
    assert opening.source == "![two (square) heads](attachment:picture.png)\n\nWhat <they> read."
    assert opening.attachments == {"picture.png": {"image/png": "iVBORw0K"}}


def test_a_live_figure_stays_with_its_programs_and_its_picture_beside_it():
    opening = released(STORED, "picture")
    assert (opening.cell_type, opening.source, opening.execution_count) == ("code", "draw()", None)
    (output,) = opening.outputs
    assert output.data["text/html"] == LIVE, "what the cell shows when it is run"
    assert output.data["image/png"] == "iVBORw0K"
    assert output.metadata["image/png"]["alt"] == "two [square] heads"


@pytest.mark.parametrize("shown", [STILL, STORED])
def test_no_other_cell_keeps_what_it_shows(shown: str):
    opening = released(shown, "demo")
    assert (opening.outputs, opening.execution_count) == ([], None)
