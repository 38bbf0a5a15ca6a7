"""Rotary dials: the turns and the score are those of `rotate`, and only the distance counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from live_page import Figure
from playwright.sync_api import Page

D = 8


def turned(position: float, base: float = 10_000.0) -> np.ndarray:
    """The row of (1, 0) in each pair, turned: halves as pairs, worked out in NumPy."""
    angles = position * base ** (-2 * np.arange(D // 2) / D)
    return np.concatenate([np.cos(angles), np.sin(angles)])


def score(query: float, key: float, asks: float = 0, base: float = 10_000.0) -> float:
    """Over the lengths, which are √(d/2) each."""
    return float(turned(query - asks, base) @ turned(key, base)) / (D / 2)


@pytest.fixture
def dials(page: Page, tmp_path: Path) -> Figure:
    return Figure.opened(page, tmp_path, "dials", {"d": D, "query": 7, "key": 5})


def test_the_score_is_that_of_turned_rows(dials: Figure):
    assert dials.numbers["score"] == pytest.approx(score(7, 5))
    dials.slide("the query's position", 150)
    dials.slide("the key's position", 30)
    assert dials.numbers["score"] == pytest.approx(score(150, 30)) and "Distance 120" in dials.told
    dials.slide("the query asks for a distance of", 100)
    assert dials.numbers["score"] == pytest.approx(score(150, 30, 100))
    dials.choose("1,000,000")
    assert dials.numbers["score"] == pytest.approx(score(150, 30, 100, 1e6))


def test_moving_both_changes_the_hands_and_not_the_score(dials: Figure):
    before = dials.numbers
    dials.place.get_by_role("button", name="both 10 on").click()
    after = dials.numbers
    assert after["score"] == before["score"] and after["angles"] != before["angles"]
    assert dials.place.get_by_role("slider", name="the key's position").input_value() == "15"


def test_positions_before_the_first_cannot_be_had(dials: Figure):
    assert dials.place.get_by_role("button", name="both 10 back").is_disabled()
    for _ in range(5):
        dials.place.get_by_role("button", name="both 1 back").press("Enter")
    assert dials.place.get_by_role("button", name="both 1 back").is_disabled()
    assert dials.numbers["distance"] == 2
