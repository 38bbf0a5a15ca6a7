"""The figures that open the course and its units show what their captions say."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
from scipy.special import softmax

from attention_figures import opening_figure
from attention_figures.recorded_measurements import OPENINGS
from record_openings import CELLS, DATA, record

SOLUTIONS = Path(__file__).parents[2] / "solutions"


def test_the_record_is_what_the_units_train():
    recorded = json.loads(OPENINGS.read_text(encoding="utf-8"))
    assert recorded == record(), "run tools/record_openings.py, then `make notebooks` once more for units 6 to 8"


@pytest.mark.parametrize("unit", CELLS)
def test_a_unit_opens_with_its_record(unit: str):
    notebook = nbformat.read(SOLUTIONS / unit / f"{unit}.ipynb", as_version=4)
    (cell,) = (cell for cell in notebook.cells if cell.id == "opening-live")
    shown = json.loads(DATA.search(cell.outputs[0].data["text/html"])[1])
    recorded = json.loads(OPENINGS.read_text(encoding="utf-8"))[unit]
    assert shown == recorded | ({"moment": 0} if "moment" in recorded else {}), f"run `make notebooks ARGS={unit}`"


@pytest.mark.parametrize(("ending", "most"), [("big", "the trophy"), ("small", "the suitcase")])
def test_the_start_page_looks_where_its_numbers_say(ending: str, most: str):
    expected = softmax(np.array(opening_figure.DATA["keys"]) @ opening_figure.DATA["queries"][ending])
    assert np.allclose(opening_figure.weights(ending), expected)
    assert opening_figure.DATA["words"][expected.argmax()] == most
    assert f"{expected.max():.2f}" in opening_figure.opening_figure().partition('src="')[0], "its alternative text"


def test_the_still_picture_has_every_word_with_its_weight():
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", opening_figure.still())
    assert texts[::2] == opening_figure.DATA["words"]
    assert [float(text) for text in texts[1::2]] == pytest.approx(opening_figure.weights("big"), abs=0.005)
    widths = [float(width) for width in re.findall(r'stroke-width="([\d.]+)"', opening_figure.still())]
    assert math.isclose(max(widths), 1 + 9 * max(opening_figure.weights("big")), abs_tol=0.05)
