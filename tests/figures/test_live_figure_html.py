"""Live figures as HTML: what they hold, what they refuse, and that a notebook does without them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib
import nbformat
import numpy as np
import pytest
import torch

import attention_figures
from attention_figures import appearance, figure, live, names
from autograder.exercises import unit_names

ROOT = Path(__file__).resolve().parents[2]
STILL = '<img alt="a picture" src="data:,">'


def imports(unit: str) -> str:
    """The cell of a notebook that says how a figure is shown."""
    notebook = nbformat.read(ROOT / "notebooks" / unit / f"{unit}.ipynb", as_version=4)
    return next(cell.source for cell in notebook.cells if cell.id == "imports")


def test_a_figure_holds_its_data_its_picture_and_its_caption():
    data = {"words": ["a", "</script>"], "Q": np.array([[1.0, 1 / 3]]), "K": torch.eye(2), "n": np.int64(3)}
    shown = figure("explorer", data, STILL, "A < B")
    assert shown.count("</script>") == 1 and STILL in shown and "A &lt; B" in shown
    known = json.loads(shown.partition('"application/json">')[2].partition("</script>")[0])
    assert known == {"words": ["a", "</script>"], "Q": [[1, 0.333333]], "K": [[1, 0], [0, 1]], "n": 3}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), np.array([-np.inf])])
def test_numbers_that_json_has_not_are_refused(number):
    with pytest.raises(ValueError, match="finite"):
        live("explorer", {"Q": number}, STILL, "")


def test_an_unknown_figure_is_one_line_with_those_that_there_are():
    with pytest.raises(ValueError, match="explorer"):
        live("exploder", {}, STILL, "")


def test_every_colour_is_one_and_matplotlib_takes_the_settings():
    for pair in appearance.colours().values():
        assert all(matplotlib.colors.is_color_like(colour) for colour in pair)
    with matplotlib.rc_context(appearance.for_matplotlib()):
        assert matplotlib.rcParams["axes.prop_cycle"].by_key()["color"][0] == appearance.colours()["key"][0]


@pytest.mark.parametrize("name", names())
def test_a_figure_asks_for_nothing_from_outside(name):
    text = attention_figures.script(name) + attention_figures.script("kit")
    for word in ("http:", "https:", "import(", "eval(", "innerHTML", "localStorage", "XMLHttpRequest"):
        assert word not in text.replace("http://www.w3.org/2000/svg", "")


def shown_by(unit: str, monkeypatch: pytest.MonkeyPatch, with_kit: bool) -> str:
    """What `show` of a notebook displays for a figure that can be touched."""
    if not with_kit:
        monkeypatch.setitem(sys.modules, "attention_figures", None)
    told: list[str] = []
    space: dict = {}
    with matplotlib.rc_context():
        exec(compile(imports(unit), "imports", "exec"), space)
        space["display"] = lambda item: told.append(item.data)
        fig, _ = space["plt"].subplots()
        space["show"](fig, alt="four bars", caption="What to see.", touch=("window", {"n": 8}))
    return told[0]


@pytest.mark.parametrize("unit", unit_names())
def test_without_the_package_a_notebook_shows_the_picture(monkeypatch, unit):
    shown = shown_by(unit, monkeypatch, with_kit=False)
    assert "data-live" not in shown and "<script" not in shown
    assert 'alt="four bars"' in shown and "What to see." in shown


def test_with_it_the_figure_comes_with_all_it_needs(monkeypatch):
    shown = shown_by("03_masking", monkeypatch, with_kit=True)
    assert 'data-live="window"' in shown and 'alt="four bars"' in shown
    assert "live.define" in shown and "live.start()" in shown and "--query:" in shown
