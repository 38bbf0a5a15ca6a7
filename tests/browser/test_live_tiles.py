"""Tiles: what the loop ends with is PyTorch's attention, and what it moves is what unit 9 counts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from live_page import Figure
from playwright.sync_api import Page

from autograder.exercises.u09_gpu_speed import EXERCISES

FLASH_BYTES = next(each.reference for each in EXERCISES if each.name == "flash_bytes")
Q, K, V = (2 * torch.randn(3, 8, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)).round(decimals=1)
DATA = {"Q": Q, "K": K, "V": V, "row": 5, "done": 0, "offers": ["causal", "factor"]}


@pytest.fixture
def tiles(page: Page, tmp_path: Path) -> Figure:
    return Figure.opened(page, tmp_path, "tiles", DATA)


def press(tiles: Figure, name: str) -> None:
    tiles.place.get_by_role("button", name=name).click()


def to_the_end(tiles: Figure) -> None:
    while not tiles.place.get_by_role("button", name="step").is_disabled():
        press(tiles, "step")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("block_q", "block_k"), [(4, 4), (3, 3), (3, 2), (8, 1), (2, 5), (1, 8)])
def test_it_ends_with_attention_and_the_bytes_of_flash_bytes(tiles: Figure, causal: bool, block_q: int, block_k: int):
    if causal:
        tiles.switch("causal mask")
    tiles.slide("queries in a block", block_q)
    tiles.slide("keys in a block", block_k)
    to_the_end(tiles)
    shown = tiles.numbers
    expected = F.scaled_dot_product_attention(Q[None], K[None], V[None], is_causal=causal)[0]
    assert np.allclose(shown["outputs"], expected) and np.allclose(shown["plain"], expected)
    assert shown["moved"]["total"] == FLASH_BYTES(8, 2, block_q, 2, causal)
    assert shown["standard"] == (6 * 64 + 4 * 16) * 2
    assert "all outputs equal" in tiles.place.inner_text()


def test_the_sums_of_a_row_after_each_tile_are_those_of_its_keys(tiles: Figure):
    tiles.slide("keys in a block", 2)
    scores = (Q[5] @ K.T / math.sqrt(2)).numpy()
    old = -math.inf
    press(tiles, "step")
    while tiles.numbers["done"] < 5:
        press(tiles, "step")
    for done in range(5, 9):  # the second block of queries meets keys 0 1, 2 3, …
        shown, met = tiles.numbers, scores[: 2 * (done - 4)]
        terms = np.exp(met - met.max())
        assert shown["m"] == pytest.approx(met.max()) and shown["l"] == pytest.approx(terms.sum())
        assert np.allclose(shown["o"], terms @ V.numpy()[: len(met)])
        assert shown["factor"] == pytest.approx(math.exp(old - met.max()))
        old = met.max()
        if done < 8:
            press(tiles, "step")


def test_without_the_factor_it_goes_wrong_and_says_so(tiles: Figure):
    tiles.slide("keys in a block", 1)
    tiles.switch("leave the factor out")
    to_the_end(tiles)
    assert not np.allclose(tiles.numbers["outputs"], tiles.numbers["plain"])
    assert "Done, and wrong" in tiles.told


def test_back_and_reset_undo(tiles: Figure):
    states = [tiles.numbers]
    for _ in range(3):
        press(tiles, "step")
        states.append(tiles.numbers)
    press(tiles, "back")
    assert tiles.numbers == states[2]
    press(tiles, "reset")
    assert tiles.numbers == states[0]
    assert tiles.place.get_by_role("button", name="back").is_disabled()


def test_causal_tiles_in_the_future_are_skipped(tiles: Figure):
    tiles.switch("causal mask")
    tiles.slide("queries in a block", 2)
    tiles.slide("keys in a block", 2)
    assert (tiles.numbers["tiles"], tiles.numbers["skipped"]) == (10, 6)


def test_play_goes_on_by_itself_and_pause_stops_it(tiles: Figure):
    press(tiles, "play")
    tiles.page.wait_for_function("document.querySelector('figure.live').numbers.done >= 2")
    press(tiles, "pause")
    done = tiles.numbers["done"]
    tiles.page.wait_for_timeout(1300)
    assert tiles.numbers["done"] == done


def test_the_keyboard_steps_and_chooses_a_row(tiles: Figure):
    tiles.place.get_by_role("button", name="step").focus()
    tiles.page.keyboard.press("Enter")
    assert tiles.numbers["done"] == 1 and "queries 0 to 3 meet keys 0 to 3" in tiles.told
    tiles.place.get_by_role("button", name="5", exact=True).focus()
    tiles.page.keyboard.press("ArrowLeft")
    assert tiles.numbers["row"] == 4


def test_what_the_readers_function_gives_is_compared(page: Page, tmp_path: Path):
    right = F.scaled_dot_product_attention(Q[None], K[None], V[None])[0]
    for yours, words in ((right, "So do those of your function."), (right + 0.5, "differ by up to 0.50")):
        tiles = Figure.opened(page, tmp_path, "tiles", {**DATA, "yours": {"full": yours, "causal": None}})
        to_the_end(tiles)
        assert words in tiles.told
    tiles.switch("causal mask")
    to_the_end(tiles)
    assert "your function" not in tiles.told
