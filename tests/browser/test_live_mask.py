"""The mask that is built by hand: what it hides, what leaks, and the weights that PyTorch gives for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from live_page import Figure
from playwright.sync_api import Page

RNG = np.random.default_rng(4)
Q, K = RNG.normal(size=(5, 2)).round(1), RNG.normal(size=(5, 2)).round(1)
CAUSAL, ALL = np.tri(5, dtype=bool), np.ones((5, 5), dtype=bool)


def row(words: str, document: tuple[int, ...] = (0, 0, 0, 0, 0)) -> dict:
    names = words.split()
    return {"words": names, "Q": Q, "K": K, "pad": [name == "<pad>" for name in names], "document": document}


DATA = {
    "rows": {
        "one text": row("the mole dug the hole"),
        "pads behind": row("the mole dug <pad> <pad>"),
        "pads in front": row("<pad> <pad> the mole dug"),
        "two texts": row("the mole dug it slept", (0, 0, 0, 1, 1)),
    },
    "yours": {"your causal_mask": CAUSAL},
}
FRONT, BEHIND = np.arange(5) > 1, np.arange(5) < 3
SAME = np.equal.outer([0, 0, 0, 1, 1], [0, 0, 0, 1, 1])
PRESETS = {  # the row and the button -> the mask
    ("one text", "none"): ALL,
    ("one text", "causal"): CAUSAL,
    ("one text", "causal, no diagonal"): np.tri(5, k=-1, dtype=bool),
    ("pads behind", "padding"): ALL & BEHIND,
    ("pads in front", "causal & padding"): CAUSAL & FRONT,
    ("two texts", "packed"): CAUSAL & SAME,
    ("one text", "window of 2"): CAUSAL & ~np.tri(5, k=-2, dtype=bool),
    ("one text", "prefix of 2"): CAUSAL | (np.arange(5) < 2),
    ("one text", "your causal_mask"): CAUSAL,
}
#: For each row and task the mask that hides what leaks and nothing else: the button.
RIGHT = [
    ("one text", "guess each next token", "causal"),
    ("pads behind", "guess each next token", "causal"),
    ("pads in front", "guess each next token", "causal & padding"),
    ("two texts", "guess each next token", "packed"),
    ("one text", "guess what follows the first 2", "prefix of 2"),
    ("one text", "read the whole text", "none"),
    ("pads behind", "read the whole text", "padding"),
]


@pytest.fixture
def figure(page: Page, tmp_path: Path) -> Figure:
    return Figure.opened(page, tmp_path, "mask", DATA)


def choose(figure: Figure, name: str) -> None:
    figure.place.get_by_role("radio", name=name, exact=True).check()


def press(figure: Figure, name: str) -> None:
    figure.place.get_by_role("button", name=name, exact=True).click()


def cell(figure: Figure, i: int, j: int):
    return figure.place.locator(".cells tbody tr").nth(i).locator("button").nth(j)


def agrees(figure: Figure, mask: np.ndarray) -> None:
    """The figure shows this mask, and PyTorch's weights for it."""
    assert np.array_equal(figure.numbers["mask"], mask)
    queries, keys = (torch.tensor(table)[None] for table in (Q, K))
    weights = torch.nn.functional.scaled_dot_product_attention(
        queries, keys, torch.eye(5, dtype=torch.float64)[None], attn_mask=torch.tensor(mask)[None]
    )
    weights = np.where(mask.any(axis=1)[:, None], weights[0].numpy(), 0)
    assert np.allclose(figure.numbers["weights"], weights)


@pytest.mark.parametrize(("place", "name"), PRESETS)
def test_each_preset_is_its_mask(figure: Figure, place: str, name: str):
    choose(figure, place)
    press(figure, name)
    agrees(figure, PRESETS[place, name])
    assert figure.place.get_by_role("button", name=name, exact=True).get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize(("place", "task", "name"), RIGHT)
def test_a_mask_that_is_right_is_called_right(figure: Figure, place: str, task: str, name: str):
    choose(figure, place)
    choose(figure, task)
    press(figure, name)
    assert figure.numbers["leaks"] == figure.numbers["spare"] == []
    assert "just right" in figure.told


def test_what_leaks_is_red_and_said(figure: Figure):
    later = [[i, j] for i in range(5) for j in range(i + 1, 5)]
    assert figure.numbers["leaks"] == later
    assert figure.place.locator(".cells td.leak").count() == 10
    assert figure.place.get_by_text("A later token is seen").is_visible()
    assert cell(figure, 0, 1).inner_text() == "!"
    choose(figure, "pads in front")
    press(figure, "causal")
    assert figure.numbers["leaks"] == [[i, j] for i in (2, 3, 4) for j in (0, 1)]
    assert figure.place.get_by_text("A pad is seen").is_visible()
    choose(figure, "two texts")
    assert figure.numbers["leaks"] == [[i, j] for i in (3, 4) for j in (0, 1, 2)]
    assert figure.place.get_by_text("Another text is seen").is_visible()
    choose(figure, "one text")
    press(figure, "prefix of 2")
    assert figure.numbers["leaks"] == [[0, 1]]


def test_rows_that_see_nothing_are_named(figure: Figure):
    press(figure, "causal, no diagonal")
    assert figure.numbers["empty"] == [0] and figure.numbers["selfless"] == [0, 1, 2, 3, 4]
    assert figure.place.get_by_text("Nothing to see for “the” (0)").is_visible()
    assert figure.place.get_by_text("Not even itself is seen by “mole” (1)").is_visible()
    choose(figure, "pads in front")
    press(figure, "causal & padding")
    assert figure.numbers["empty"] == [0, 1]
    assert figure.place.get_by_text("Nothing to see for “<pad>” (0), “<pad>” (1)").is_visible()


def test_a_click_opens_and_closes_a_cell(figure: Figure):
    press(figure, "causal")
    cell(figure, 1, 3).click()
    expected = CAUSAL.copy()
    expected[1, 3] = True
    agrees(figure, expected)
    assert figure.told == "“mole” (1) sees, which leaks: “the” (3)." and figure.numbers["preset"] == ""
    cell(figure, 1, 3).click()
    agrees(figure, CAUSAL)


def test_two_texts_to_be_read_are_built_by_hand(figure: Figure):
    choose(figure, "two texts")
    choose(figure, "read the whole text")
    for i, j in np.argwhere(~SAME):
        cell(figure, i, j).click()
    agrees(figure, SAME)
    assert figure.place.get_by_text("just right").is_visible()


def test_the_keyboard_goes_from_cell_to_cell(figure: Figure):
    keys = figure.page.keyboard
    cell(figure, 0, 0).focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowUp", "Space"):
        keys.press(key)
    expected = ALL.copy()
    expected[0, 2] = False
    agrees(figure, expected)
    assert figure.place.locator(".cells button[tabindex='0']").count() == 1
