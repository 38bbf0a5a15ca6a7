"""The attention explorer: what it computes is what NumPy does, by mouse and by keyboard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from live_page import Figure
from playwright.sync_api import Page
from scipy.special import softmax

WORDS = ["the", "mole", "dug", "the", "hole"]
RNG = np.random.default_rng(3)
Q, K, V = RNG.normal(size=(5, 2)).round(1), RNG.normal(size=(5, 2)).round(1), RNG.normal(size=(5, 3)).round(1)
DATA = {
    "words": WORDS,
    "Q": Q,
    "K": K,
    "V": V,
    "chosen": 2,
    "pad": [False, False, False, False, True],
    "offers": ["root", "causal", "padding", "after", "temperature"],
}


@pytest.fixture
def explorer(page: Page, tmp_path: Path) -> Figure:
    return Figure.opened(page, tmp_path, "explorer", DATA)


def weights(scores: np.ndarray, may: np.ndarray | None = None) -> np.ndarray:
    return softmax(scores if may is None else np.where(may, scores, -np.inf), axis=1)


def test_it_shows_what_numpy_computes(explorer: Figure):
    expected = weights(Q @ K.T / np.sqrt(2))
    assert np.allclose(explorer.numbers["weights"], expected)
    assert np.allclose(explorer.numbers["outputs"], expected @ V)
    explorer.switch("divide by")
    assert np.allclose(explorer.numbers["weights"], weights(Q @ K.T))
    explorer.slide("temperature", 1)
    assert np.allclose(explorer.numbers["weights"], weights(Q @ K.T / 10))


def test_masks_hide_and_after_the_softmax_they_take_from_the_sum(explorer: Figure):
    scores, causal, real = Q @ K.T / np.sqrt(2), np.tri(5, dtype=bool), np.arange(5) < 4
    explorer.switch("causal")
    assert np.allclose(explorer.numbers["weights"], weights(scores, causal))
    explorer.switch("padding")
    assert np.allclose(explorer.numbers["weights"], weights(scores, causal & real))
    explorer.switch("after")
    assert np.allclose(explorer.numbers["weights"], weights(scores) * (causal & real))


def test_the_keyboard_reaches_everything(explorer: Figure):
    keys = explorer.page.keyboard
    explorer.place.get_by_role("button", name="dug", exact=True).focus()
    keys.press("ArrowRight")
    assert explorer.numbers["chosen"] == 3 and "“the” gives the largest weight" in explorer.told
    keys.press("ArrowLeft")
    explorer.place.get_by_role("spinbutton", name="key of mole, number 0").focus()
    keys.press("ArrowUp")
    keys.press("PageDown")
    changed = K.copy()
    changed[1, 0] -= 0.9
    assert np.allclose(explorer.numbers["weights"], weights(Q @ changed.T / np.sqrt(2)))


def test_a_number_is_dragged_with_the_mouse(explorer: Figure):
    place = explorer.place.get_by_role("spinbutton", name="value of mole, number 1").bounding_box()
    x, y = place["x"] + 10, place["y"] + 10
    mouse = explorer.page.mouse
    mouse.move(x, y)
    mouse.down()
    mouse.move(x, y - 60, steps=4)
    mouse.up()
    changed = V.copy()
    changed[1, 1] += 1
    assert np.allclose(explorer.numbers["outputs"], weights(Q @ K.T / np.sqrt(2)) @ changed)


def test_numbers_glide_and_end_at_the_right_one(page: Page, tmp_path: Path):
    explorer = Figure.opened(page, tmp_path, "explorer", DATA, reduced=False)
    explorer.switch("causal")
    expected = explorer.numbers["weights"][2][1]
    cell = explorer.place.get_by_role("button", name="dug, mole")
    page.wait_for_function(
        "([cell, words]) => cell.textContent === words", arg=[cell.element_handle(), f"{expected:.2f}"]
    )
