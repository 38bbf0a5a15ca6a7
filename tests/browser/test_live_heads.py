"""The wiring of heads: who reads what, as unit 5 lays heads out, and the cache's bytes to the last one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from live_page import Figure
from playwright.sync_api import Page

from autograder.exercises.u05_mqa_gqa import EXERCISES

MODELS = {
    "Llama 2 7B": {"layers": 32, "h": 32, "g": 32, "d_head": 128, "n": 4096},
    "Falcon-7B": {"layers": 32, "h": 71, "g": 1, "d_head": 64, "n": 2048},
    "Llama 3 405B": {"layers": 126, "h": 128, "g": 8, "d_head": 128, "n": 131_072},
    "DeepSeek-V3": {"layers": 61, "d_latent": 512, "d_rope": 64, "n": 131_072},
}
DATA = {"h": 6, "g": 2, "models": MODELS, "offers": ["repeat"]}
CACHE = next(each.reference for each in EXERCISES if each.name == "kv_cache_bytes")


@pytest.fixture
def heads(page: Page, tmp_path: Path) -> Figure:
    return Figure.opened(page, tmp_path, "heads", DATA)


def wiring(h: int, g: int, interleaved: bool = True) -> list[int]:
    """Which key/value head PyTorch's two ways of repeating put before each query head."""
    kv = torch.arange(g)
    return (kv.repeat_interleave(h // g) if interleaved else kv.repeat(h // g)).tolist()


def test_query_heads_read_what_repeat_interleave_lays_out(heads: Figure):
    assert heads.numbers["reads"] == wiring(6, 2) and heads.numbers["kind"] == "GQA"
    heads.choose("MQA: shared by all")
    assert heads.numbers["reads"] == wiring(6, 1)
    heads.choose("MHA: own")
    assert heads.numbers["reads"] == wiring(6, 6)
    heads.slide("query heads h", 6)  # the seventh size: 16
    heads.slide("key/value heads g", 2)  # the third divisor: 4
    assert heads.numbers["reads"] == wiring(16, 4)
    heads.switch("wired by repeat")
    assert heads.numbers["reads"] == wiring(16, 4, interleaved=False)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "DeepSeek-V3"])
def test_the_bytes_of_known_models_are_those_of_the_reference(heads: Figure, name: str):
    heads.place.get_by_role("button", name=name).click()
    layers, h, g, d_head, n = MODELS[name].values()
    assert heads.numbers["kept"] == CACHE(layers, g, d_head, n)
    assert heads.numbers["full"] == CACHE(layers, h, d_head, n)
    assert f"{CACHE(layers, g, d_head, n):,} bytes" in heads.place.inner_text()


def test_a_latent_is_counted_as_in_unit_10(heads: Figure):
    heads.place.get_by_role("button", name="DeepSeek-V3").click()
    assert heads.numbers["kept"] == 131_072 * 70_272 and heads.numbers["kind"] == "latent"
    heads.slide("width of the turned key", 0)
    heads.choose("4")
    assert heads.numbers["kept"] == 61 * 512 * 131_072 * 4
    assert heads.numbers["model"] == "", "the sizes are no longer those of the model"


def test_g_divides_h_whatever_is_chosen(heads: Figure):
    for place in range(14):
        heads.slide("query heads h", place)
        shown = heads.numbers
        assert shown["h"] % shown["g"] == 0 and shown["reads"] == wiring(shown["h"], shown["g"])
    heads.slide("query heads h", 11)  # 71 heads, a prime number, cannot be shared by groups
    heads.choose("GQA: shared by groups")
    assert heads.numbers["kind"] == "GQA" and 1 < heads.numbers["g"] < heads.numbers["h"]


def test_the_keyboard_and_the_mouse_choose_a_head(heads: Figure):
    heads.place.get_by_role("slider", name="look at query head").press("End")
    assert "Query head 5 reads key/value head ⌊5 / 3⌋ = 1, together with heads 3, 4" in heads.told
    circle = heads.place.locator("svg circle[cx]").first.bounding_box()
    heads.page.mouse.move(circle["x"] + 3, circle["y"] + 40)
    assert heads.numbers["chosen"] in range(6) and heads.numbers["source"] == heads.numbers["chosen"] // 3
    assert heads.numbers["chosen"] != 5


@pytest.mark.parametrize(("yours", "words"), [(2_147_483_648, "the same"), (1_073_741_824, "another number")])
def test_what_the_readers_function_counts_is_compared(page: Page, tmp_path: Path, yours: int, words: str):
    models = {"Llama 2 7B": {**MODELS["Llama 2 7B"], "yours": yours}}
    heads = Figure.opened(page, tmp_path, "heads", {"models": models})
    heads.place.get_by_role("button", name="Llama 2 7B").click()
    assert f"Your function counts {yours:,}: {words}." in heads.place.inner_text()
    heads.slide("layers", 31)
    assert "Your function" not in heads.place.inner_text()
