"""The figure that opens a unit: the release has it as a picture, be it live or still."""

from __future__ import annotations

import nbformat
import pytest

from attention_figures import live
from autograder.handout.release_steps import PictureAsText

PICTURE = '<img alt="two [square] heads" src="data:image/png;base64,iVBORw0K" style="max-width:100%">'
STILL = f"<figure>{PICTURE}<figcaption>What &lt;they&gt; read.</figcaption></figure>"
LIVE = live("mask", {"words": ["a", "</b>"]}, PICTURE, "What <they> read.")


@pytest.mark.parametrize("shown", [STILL, LIVE], ids=["still", "live"])
def test_the_release_has_its_picture_words_and_caption(shown: str):
    cell = nbformat.v4.new_code_cell("draw()", id="opening", metadata={"tags": ["picture"]})
    cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": shown})]
    notebook, _ = PictureAsText().preprocess(nbformat.v4.new_notebook(cells=[cell]), {})
    (opening,) = notebook.cells
    assert opening.cell_type == "markdown" and opening.id == "opening"
    assert opening.source == "![two (square) heads](attachment:picture.png)\n\nWhat <they> read."
    assert opening.attachments == {"picture.png": {"image/png": "iVBORw0K"}}
