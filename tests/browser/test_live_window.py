"""Windows: how far a token hears is what masks give, multiplied layer by layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from live_page import Figure
from playwright.sync_api import Page

N = 16


@pytest.fixture
def window(page: Page, tmp_path: Path) -> Figure:
    return Figure.opened(page, tmp_path, "window", {"n": N, "window": 4, "layers": 3})


def heard(widths: list[int], token: int = N - 1, sink: bool = False) -> list[bool]:
    """From the product of the layers' masks. widths: of the windows, the first layer first."""
    i, j = np.arange(N)[:, None], np.arange(N)
    ways = np.eye(N, dtype=int)
    for width in widths:
        ways = ((j <= i) & ((i - j < width) | (sink & (j == 0)))).astype(int) @ ways
    return (ways[token] > 0).tolist()


def test_layers_reach_as_far_as_the_masks_say(window: Figure):
    assert window.numbers["heard"] == heard([4, 4, 4]) and window.numbers["reach"] == 9
    assert window.numbers["held"] == 3 * 4
    window.slide("window", 6)
    window.slide("layers", 2)
    assert window.numbers["heard"] == heard([6, 6]) and window.numbers["held"] == 12
    window.slide("the token that asks", 4)
    assert window.numbers["heard"] == heard([6, 6], 4) and window.numbers["held"] == 2 * 5


def test_a_layer_that_sees_all_and_a_first_token_that_stays(window: Figure):
    window.choose("every 2nd")
    assert window.numbers["heard"] == heard([4, N, 4]) and window.numbers["held"] == 4 + N + 4
    window.choose("none")
    window.switch("keep the first token")
    assert window.numbers["heard"] == heard([4, 4, 4], sink=True) and window.numbers["held"] == 3 * 5
    assert "hears from 15 positions back" in window.told
