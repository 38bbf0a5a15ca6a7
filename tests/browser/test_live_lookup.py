"""The look-up: words are swapped, the query is dragged, and what is shown is what NumPy computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from live_page import Figure
from playwright.sync_api import Page
from scipy.special import softmax

KEYS = {
    "the": [0, 0],
    "pink": [0, 0.1],
    "elephant": [1, 0.2],
    "sloth": [1.1, 0.3],
    "car": [0.3, 0.9],
    "pool": [0.2, 1.2],
}
VALUES = {
    "the": [0, 0, 0],
    "pink": [0, 0, 0.1],
    "elephant": [0.9, 0.2, 0.1],
    "sloth": [0.1, 0.9, 0.1],
    "car": [0.8, 0.1, 0],
    "pool": [0, 0.1, 0.9],
}
CANDIDATES = {"big": [1, 0, 0], "slow": [0, 1, 0], "scared": [0, 0, 1], "small": [-1, 0, 0]}
DATA = {
    "slots": ["the", "pink", {"ask": "who", "words": ["elephant", "sloth"]}, {"ask": "into", "words": ["car", "pool"]}],
    "asker": "too",
    "query": [3, 3],
    "keys": KEYS,
    "values": VALUES,
    "questions": {"like?": "what is it like?", "into?": "into what?"},
    "features": ["big", "slow", "scared"],
    "candidates": CANDIDATES,
}


@pytest.fixture
def lookup(page: Page, tmp_path: Path) -> Figure:
    return Figure.opened(page, tmp_path, "lookup", DATA)


def agrees(lookup: Figure, words: list[str], query: list[float]) -> None:
    """What the figure shows is the look-up of this query in these words."""
    shown = lookup.numbers
    weights = softmax(np.array([KEYS[word] for word in words]) @ np.array(query))
    mixture = weights @ np.array([VALUES[word] for word in words])
    fits = {word: mixture @ np.array(way) for word, way in CANDIDATES.items()}
    assert shown["words"] == words and np.allclose(shown["query"], query)
    assert np.allclose(shown["weights"], weights) and np.allclose(shown["mixture"], mixture)
    assert shown["fits"] == pytest.approx(fits)
    assert shown["best"] == max(fits, key=lambda word: fits[word]) == lookup.place.locator(".blank").inner_text()


def test_other_words_bring_their_keys_and_values(lookup: Figure):
    agrees(lookup, ["the", "pink", "elephant", "car"], [3, 3])
    lookup.place.get_by_role("radio", name="sloth").check()
    agrees(lookup, ["the", "pink", "sloth", "car"], [3, 3])
    assert "“slow” fits best" in lookup.told
    lookup.place.get_by_role("radio", name="pool").check()
    agrees(lookup, ["the", "pink", "sloth", "pool"], [3, 3])


def test_the_keyboard_swaps_words_and_changes_the_query(lookup: Figure):
    keys = lookup.page.keyboard
    lookup.place.get_by_role("radio", name="car").focus()
    keys.press("ArrowRight")
    agrees(lookup, ["the", "pink", "elephant", "pool"], [3, 3])
    lookup.place.get_by_role("spinbutton", name="what is it like?").focus()
    keys.press("PageDown")
    keys.press("ArrowUp")
    agrees(lookup, ["the", "pink", "elephant", "pool"], [2.1, 3])


def test_the_query_is_dragged_and_goes_back(lookup: Figure):
    place = lookup.place.get_by_role("spinbutton", name="into what?").bounding_box()
    mouse = lookup.page.mouse
    mouse.move(place["x"] + 10, place["y"] + 10)
    mouse.down()
    mouse.move(place["x"] + 10, place["y"] + 10 + 60, steps=4)
    mouse.up()
    agrees(lookup, ["the", "pink", "elephant", "car"], [3, 2])
    lookup.place.get_by_role("button", name="as at first").click()
    agrees(lookup, ["the", "pink", "elephant", "car"], [3, 3])


def test_a_query_that_asks_nothing_hears_all_alike(page: Page, tmp_path: Path):
    lookup = Figure.opened(page, tmp_path, "lookup", DATA | {"query": [0, 0]})
    agrees(lookup, ["the", "pink", "elephant", "car"], [0, 0])
    assert lookup.place.get_by_text("All words are heard alike.").is_visible()
