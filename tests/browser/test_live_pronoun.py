"""The figure of the start page: the end of the sentence decides where “it” looks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from live_page import Figure
from playwright.sync_api import Page
from scipy.special import softmax

from attention_figures.opening_figure import DATA


@pytest.fixture
def pronoun(page: Page, tmp_path: Path) -> Figure:
    return Figure.opened(page, tmp_path, "pronoun", DATA)


def agrees(pronoun: Figure, ending: str, strength: float) -> None:
    expected = softmax(strength * np.array(DATA["keys"]) @ DATA["queries"][ending])
    assert pronoun.numbers["ending"] == ending and np.allclose(pronoun.numbers["weights"], expected)
    words = pronoun.place.locator(".said-word").all_inner_texts()
    assert [float(text.split()[-1]) for text in words] == pytest.approx(expected, abs=0.006)
    assert words[DATA["end"]].startswith(ending)


def test_another_end_leads_to_another_word(pronoun: Figure):
    agrees(pronoun, "big", 1)
    pronoun.choose("too small")
    agrees(pronoun, "small", 1)
    assert "what holds the other?" in pronoun.told and "“the suitcase”" in pronoun.told
    pronoun.choose("too big")
    assert "“the trophy”" in pronoun.told


def test_the_more_strongly_it_asks_the_less_the_others_get(pronoun: Figure):
    pronoun.slide("how strongly", 2)
    agrees(pronoun, "big", 2)
    pronoun.slide("how strongly", 0)
    agrees(pronoun, "big", 0)
    assert "all words alike" in pronoun.told
