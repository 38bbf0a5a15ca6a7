"""Heads of a trained model: what the figure shows is what PyTorch computes, by mouse and by keyboard."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from live_page import Figure
from playwright.sync_api import Locator, Page

SIGNS = "abcdef"
TEXT = [0, 3, 1, 5, 0, 3, 1]
TWO, FOUR = ((0, "below"), (1, "above")), ((0, "one"), (0, "two"), (1, "three"), (1, "four"))


def run(step: int, heads: tuple, out: tuple[int, ...]) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Patterns of a made model of attention alone, and what it expects, when the outputs of some heads are silent."""
    g = torch.Generator().manual_seed(step)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    x, unembed = draw(6, 8)[TEXT] + draw(7, 8), draw(8, 6)
    allowed, patterns = torch.ones(7, 7, dtype=torch.bool).tril(), []
    for layer in (0, 1):
        added = torch.zeros_like(x)
        for head, (of, _) in enumerate(heads):
            if of != layer:
                continue
            Q, K, V = draw(8, 4), draw(8, 4), draw(8, 8)
            A = torch.softmax(((x @ Q) @ (x @ K).T / 2).masked_fill(~allowed, -torch.inf), dim=-1)
            patterns.append(A)
            if head not in out:
                added = added + A @ x @ V
        x = x + added
    return patterns, torch.softmax(x @ unembed / 8, dim=-1)


def percent(values: torch.Tensor) -> list:
    return (100 * values).round().int().tolist()


def made(heads: tuple, steps: tuple[int, ...], together: bool) -> dict[str, Any]:
    """The figure's data. together: all sets of silent heads, else one at a time."""
    most = len(heads) if together else 1
    sets = [out for size in range(most + 1) for out in combinations(range(len(heads)), size)]
    moments = []
    for step in steps:
        moment: dict[str, Any] = {"step": step, "looks": {}, "facts": {}, "says": {}, "right": {}}
        for out in sets:
            key = ",".join(map(str, out))
            patterns, shares = run(step, heads, out)
            if all(heads[head][0] == 0 for head in out):
                shown = [head for head, (layer, _) in enumerate(heads) if layer or not out]
                moment["looks"][key] = {h: [row[: i + 1] for i, row in enumerate(percent(patterns[h]))] for h in shown}
                moment["facts"][key] = {h: [round(float(patterns[h].diagonal(-1).mean()), 3)] for h in shown}
            best = shares.topk(3)
            moment["says"][key] = [
                ["".join(SIGNS[k] for k in ids), *percent(row)]
                for ids, row in zip(best.indices.tolist(), best.values, strict=True)
            ]
            moment["right"][key] = [*percent(shares[range(6), TEXT[1:]]), None]
        moments.append(moment)
    words = [SIGNS[token] for token in TEXT]
    data = {
        "words": words,
        "next": [*words[1:], ""],
        "heads": [{"layer": layer, "name": name} for layer, name in heads],
        "facts": ["the token before"],
        "moments": moments,
        "counts": {"words": "in the repeat", "places": [4, 5]},
        "chosen": 5,
    }
    if len(steps) > 1:
        data["curves"] = [{"name": "loss", "colour": "key", "panel": 0, "values": [3, 2, 2, 1, 0.5]}]
        data |= {"every": 10, "panels": [{"name": "loss", "low": 0, "high": 4}]}
    return data


@pytest.fixture
def training(page: Page, tmp_path: Path) -> Figure:
    return Figure.opened(page, tmp_path, "circuits", made(TWO, (0, 20, 40), together=True))


def token(figure: Figure, place: int) -> Locator:
    return figure.place.get_by_role("group", name="From which token?").get_by_role("button").nth(place)


def expect(figure: Figure, heads: tuple, step: int, out: tuple[int, ...]) -> None:
    """What is shown is what the model does, to the whole per cent that is stored."""
    shown, (patterns, shares) = figure.numbers, run(step, heads, out)
    assert shown["step"] == step and shown["out"] == ",".join(map(str, out))
    i = shown["chosen"]
    for looks, rows, A in zip(shown["looks"], shown["maps"], patterns, strict=True):
        assert torch.allclose(torch.tensor(looks).double(), A[i, : i + 1], atol=0.0051)
        assert rows == [row[: k + 1] for k, row in enumerate(percent(A))]
    best = shares[i].topk(3)
    assert shown["says"] == ["".join(SIGNS[k] for k in best.indices.tolist()), *percent(best.values)]
    right = shares[range(6), TEXT[1:]]
    assert shown["right"] == [*percent(right), None]
    assert shown["mean"] == pytest.approx(float(right[4:6].mean()), abs=0.0051)


def test_the_slider_goes_through_the_training(training: Figure):
    expect(training, TWO, 40, ())
    training.slide("training", 1)
    expect(training, TWO, 20, ())
    training.page.keyboard.press("ArrowLeft")
    expect(training, TWO, 0, ())
    assert training.told.startswith("Step 0. From “d”, place 5: below: most at")


def test_a_mouse_on_the_curves_goes_to_that_step(training: Figure):
    box = training.place.locator("svg.plot").bounding_box()
    training.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 50)
    expect(training, TWO, 20, ())


def test_play_goes_on_to_the_end(training: Figure):
    training.place.get_by_role("button", name="play").click()
    assert training.numbers["step"] == 0
    training.page.wait_for_function("document.querySelector('figure').numbers.step === 40")
    training.place.get_by_role("button", name="play").wait_for()


@pytest.mark.parametrize("out", [(0,), (1,), (0, 1)])
def test_heads_are_taken_out(training: Figure, out: tuple[int, ...]):
    for head in out:
        training.place.get_by_role("checkbox", name=f"take it out: {TWO[head][1]}").check()
    expect(training, TWO, 40, out)
    named = "without " + " and ".join(TWO[head][1] for head in out)
    assert training.place.get_by_text(named, exact=True).is_visible()
    for head in out:
        training.page.keyboard.press("Space") if len(out) == 1 else training.place.get_by_role(
            "checkbox", name=f"take it out: {TWO[head][1]}"
        ).uncheck()
    expect(training, TWO, 40, ())
    assert not training.place.get_by_text(named, exact=True).is_visible()


def test_mouse_and_keyboard_choose_a_token(training: Figure):
    token(training, 2).focus()
    training.page.keyboard.press("ArrowRight")
    assert training.numbers["chosen"] == 3
    expect(training, TWO, 40, ())
    token(training, 4).hover()
    assert training.numbers["chosen"] == 4
    looks = training.place.locator("svg.look").nth(1).bounding_box()
    training.page.mouse.move(looks["x"] + 30, looks["y"] + looks["height"] - 12)
    assert training.numbers["chosen"] == 6, "the last row of the map"
    expect(training, TWO, 40, ())


def test_of_many_heads_one_at_a_time_is_out(page: Page, tmp_path: Path):
    heads = Figure.opened(page, tmp_path, "circuits", made(FOUR, (7,), together=False))
    expect(heads, FOUR, 7, ())
    assert heads.place.get_by_role("slider").count() == 0, "one moment, nothing to go through"
    for head in (0, 3):
        heads.place.get_by_role("checkbox", name=f"take it out: {FOUR[head][1]}").check()
        expect(heads, FOUR, 7, (head,))
    heads.place.get_by_role("button", name="three", exact=True).click()
    assert heads.numbers["head"] == 2 and "Orange: where three looks" in heads.place.inner_text()
    tokens = heads.place.locator(".token")
    shaded = tokens.evaluate_all("tokens => tokens.map((token) => token.style.background !== '')")
    assert shaded == [share > 0 for share in heads.numbers["looks"][2] + [0]]
