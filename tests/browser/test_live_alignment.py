"""The translator's alignment: what the figure shows is what it was given, by mouse and by keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_page import Figure
from playwright.sync_api import Locator, Page

SOURCE, TARGET = ["red", "mole", "digs"], ["akai", "mogura", "horu", "<end>"]
LOGITS = np.random.default_rng(6).normal(size=(2, 4, 3), scale=3)  # of two translators


def weights(model: int, hidden: int | None = None) -> np.ndarray:
    """(4, 3): the softmax of a row's scores over the source words that can be seen."""
    powers = np.exp(LOGITS[model]) * (np.arange(3) != hidden)
    return powers / powers.sum(axis=1, keepdims=True)


def said(model: int, hidden: int | None = None) -> list:
    """Made up: the right word gets as much as the diagonal of the weights has, another word the rest."""
    found = []
    for t, right in enumerate(TARGET):
        share = round(100 * weights(model, hidden)[t, min(t, 2)])
        pairs = sorted([(share, right), (100 - share, "neko"), (0, "o")], reverse=True)
        found.append([[word for _, word in pairs], [x for x, _ in pairs], share])
    return found


def reading(model: int, name: str) -> dict[str, Any]:
    keys = {"": None, "0": 0, "1": 1, "2": 2}
    return {
        "name": name,
        "looks": {key: (100 * weights(model, hidden)).round().astype(int) for key, hidden in keys.items()},
        "says": {key: said(model, hidden) for key, hidden in keys.items()},
    }


DATA = {"source": SOURCE, "target": TARGET, "models": [reading(0, "quiet"), reading(1, "loud")], "hides": True}
WRITES = {"source": SOURCE, "target": TARGET, "models": [reading(0, "quiet")], "writes": True}


@pytest.fixture
def both(page: Page, tmp_path: Path) -> Figure:
    return Figure.opened(page, tmp_path, "alignment", DATA)


def written(figure: Figure, t: int) -> Locator:
    return figure.place.get_by_role("group", name="Which written word?").get_by_role("button").nth(t)


def expect(figure: Figure, model: int, chosen: int, hidden: int | None = None) -> None:
    shown = figure.numbers
    assert (shown["model"], shown["chosen"]) == (model, chosen)
    assert np.allclose(shown["weights"], weights(model, hidden), atol=0.0051)
    assert np.allclose(shown["row"], weights(model, hidden)[chosen], atol=0.0051)
    assert [shown["says"], shown["shares"], shown["right"]] == said(model, hidden)[chosen]


def test_a_word_is_hidden_and_shown_again(both: Figure):
    expect(both, 0, 3)
    both.choose("loud")
    expect(both, 1, 3)
    both.place.get_by_role("button", name="digs", exact=True).click()
    expect(both, 1, 3, hidden=2)
    assert both.place.locator("td.no").count() == len(TARGET), "the hidden column is crossed out"
    both.place.get_by_role("button", name="red", exact=True).focus()
    both.page.keyboard.press("Enter")
    expect(both, 1, 3, hidden=0)
    both.page.keyboard.press("Enter")
    expect(both, 1, 3)


def test_mouse_and_keyboard_choose_a_written_word(both: Figure):
    written(both, 1).hover()
    expect(both, 0, 1)
    both.page.keyboard.press("Tab")
    written(both, 1).focus()
    both.page.keyboard.press("ArrowRight")
    expect(both, 0, 2)
    most = SOURCE[int(weights(0)[2].argmax())]
    assert both.told.startswith(f"mogura asks and looks most at {most}, {weights(0)[2].max():.2f}")
    both.place.get_by_role("button", name="akai, mole").click()
    expect(both, 0, 0)


def test_it_is_written_word_by_word(page: Page, tmp_path: Path):
    writes = Figure.opened(page, tmp_path, "alignment", WRITES)
    assert writes.place.locator(".later").count() == 3
    assert writes.place.get_by_role("button", name="back").is_disabled()
    writes.place.get_by_role("button", name="write a word").click()
    expect(writes, 0, 1)
    assert writes.place.locator(".later").count() == 2
    writes.slide("step t", 3)
    expect(writes, 0, 3)
    assert writes.place.get_by_role("button", name="write a word").is_disabled()
    page.keyboard.press("ArrowLeft")
    expect(writes, 0, 2)
    assert "mogura asks" in writes.told
