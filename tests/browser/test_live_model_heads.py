"""The heads of a real model: the numbers shown are those that NumPy reads from the record, by mouse and by keyboard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from live_page import Figure
from playwright.sync_api import Locator, Page

from heads_record import RECORD, patterns, scores

NAME, PLAIN, WORDS = range(3)
COLOURS = {"previous": "the previous token", "followed": "what came next last time", "first": "the first token"}


@pytest.fixture
def figure(page: Page, tmp_path: Path) -> Figure:
    return Figure.opened(page, tmp_path, "model_heads", RECORD)


def cell(figure: Figure, layer: int, head: int) -> Locator:
    return figure.place.get_by_role("row").nth(head).get_by_role("gridcell").nth(layer)


def token(figure: Figure, i: int) -> Locator:
    return figure.place.locator(".tokens .pick").nth(i)


@pytest.mark.parametrize("text", range(3))
def test_patterns_and_averages_are_those_of_the_record(figure: Figure, text: int):
    figure.choose(RECORD["texts"][text]["name"])
    shown, wanted = figure.numbers, patterns(text)
    for colour, means in scores(text).items():
        assert np.allclose(shown["scores"][colour], means)
    layer, head = shown["chosen"]
    assert shown["pattern"] == [row[: i + 1].tolist() for i, row in enumerate(wanted[layer, head])]
    cell(figure, 3, 2).click()
    figure.page.mouse.move(1, 1)
    assert figure.numbers["head"] == [3, 2]
    assert figure.numbers["row"] == wanted[3, 2][figure.numbers["token"]][: figure.numbers["token"] + 1].tolist()


@pytest.mark.parametrize("stop", RECORD["stops"], ids=lambda stop: stop["name"])
def test_a_stop_sets_the_figure_in_one_click(figure: Figure, stop: dict):
    figure.place.get_by_role("button", name=RECORD["stops"][1]["name"]).click()
    figure.place.get_by_role("button", name=stop["name"]).click()
    shown, (layer, head) = figure.numbers, stop["head"]
    assert {part: shown[part] for part in stop if part in shown} == {part: stop[part] for part in stop if part in shown}
    assert shown["stop"] == stop["name"]
    row = patterns(stop["text"])[layer, head, stop["token"]]
    most = RECORD["texts"][stop["text"]]["tokens"][row.argmax()].strip()
    assert f"gives {row.max()} % of its attention to “{most}”" in figure.place.inner_text()
    assert stop["why"] in figure.place.inner_text()


def test_words_have_the_shares_of_the_token_that_reads(figure: Figure):
    figure.choose("a name returns")
    cell(figure, 16, 0).click()
    token(figure, 12).hover()
    row = patterns(NAME)[16, 0, 12]
    assert figure.numbers["token"] == 12
    written = figure.place.locator(".tokens small").all_inner_texts()
    assert [int(share or 0) for share in written] == row.tolist()
    assert token(figure, 13).get_attribute("class").split().count("later") == 1
    assert f"gives {row.max()} %" in figure.told
    expected = RECORD["texts"][NAME]["next"][12]
    assert f"Next comes “there”. The model, with all its heads, gives it a probability of {expected} %." in figure.told
    token(figure, 1).hover()
    assert RECORD["texts"][NAME]["next"][1] == 0 and "a probability of less than 1 %." in figure.told
    token(figure, 24).hover()
    assert "The text ends here." in figure.told


def test_the_keyboard_reaches_every_head_and_every_token(figure: Figure):
    cell(figure, *figure.numbers["chosen"]).focus()
    layer, head = figure.numbers["chosen"]
    for key, step in (("ArrowLeft", (-1, 0)), ("ArrowUp", (0, -1)), ("ArrowRight", (1, 0)), ("ArrowDown", (0, 1))):
        figure.page.keyboard.press(key)
        layer, head = layer + step[0], head + step[1]
        assert figure.numbers["chosen"] == [layer, head] and f"Head {layer}.{head}:" in figure.told
    figure.page.keyboard.press("End")
    figure.page.keyboard.press("ArrowRight")
    assert figure.numbers["chosen"] == [29, head], "there is nothing beyond the last layer"
    figure.page.keyboard.press("Home")
    assert figure.numbers["chosen"] == [0, head]
    token(figure, figure.numbers["token"]).press("ArrowLeft")
    assert figure.numbers["token"] == RECORD["stops"][0]["token"] - 1
    in_order = figure.place.locator('[role="gridcell"][tabindex="0"]')
    assert in_order.count() == 1, "one stop of the Tab key for 270 heads"


def test_a_mouse_above_a_head_shows_it_and_a_click_keeps_it(figure: Figure):
    before = figure.numbers["chosen"]
    cell(figure, 5, 4).hover()
    assert figure.numbers["head"] == [5, 4] and figure.numbers["chosen"] == before
    figure.page.mouse.move(1, 1)
    assert figure.numbers["head"] == before
    cell(figure, 5, 4).click()
    figure.page.mouse.move(1, 1)
    assert figure.numbers["head"] == [5, 4] and figure.numbers["stop"] is None


@pytest.mark.parametrize("colour", COLOURS)
def test_the_largest_heads_are_named_and_one_click_away(figure: Figure, colour: str):
    figure.choose("random words, twice")
    figure.choose(COLOURS[colour])
    means = scores(WORDS)[colour]
    best = np.unravel_index(means.argmax(), means.shape)
    name = f"{best[0]}.{best[1]}, {means.max():.0f} %"
    figure.place.get_by_role("button", name=name, exact=True).click()
    assert figure.numbers["chosen"] == list(best)
    assert f"{means.max():.0f} per cent to {COLOURS[colour]}" in figure.told
    assert cell(figure, *best).get_attribute("aria-label") == f"head {best[0]}.{best[1]}: {means.max():.0f} per cent"


def test_it_says_that_nothing_returns_in_a_plain_sentence(figure: Figure):
    figure.choose("nothing returns")
    figure.choose("what came next last time")
    assert "No token of this text occurs twice" in figure.place.inner_text()
    assert np.max(figure.numbers["scores"]["followed"]) == 0


def test_a_longer_text_does_not_leave_the_token_behind(figure: Figure):
    figure.choose("a name returns")
    token(figure, 24).click()
    figure.choose("nothing returns")
    assert figure.numbers["token"] == len(RECORD["texts"][PLAIN]["tokens"]) - 1


def test_the_whole_pattern_chooses_a_token(figure: Figure):
    figure.place.locator("svg.whole rect").first.hover()
    assert figure.numbers["token"] == 0 and "can read nothing but itself" in figure.place.inner_text()
