"""Cutting into heads and gluing: the numbers lie where PyTorch puts them, the right way and by a reshape alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from live_page import Figure
from playwright.sync_api import Page

DATA = {"n": 3, "h": 2, "d_head": 4}


@pytest.fixture
def split(page: Page, tmp_path: Path) -> Figure:
    return Figure.opened(page, tmp_path, "split", DATA)


def expected(n: int, h: int, d: int, cut: bool, glue: bool) -> tuple[list, list]:
    """The heads and what they make together; cut, glue: with a transpose."""
    table = torch.arange(n * h * d).view(n, h * d)
    heads = table.view(n, h, d).transpose(0, 1) if cut else table.reshape(h, n, d)
    merged = heads.transpose(0, 1).reshape(n, h * d) if glue else heads.reshape(n, h * d)
    return heads.tolist(), merged.tolist()


def shown(split: Figure) -> tuple[list, list]:
    return split.numbers["heads"], split.numbers["merged"]


def on_page(split: Figure) -> list[list[int]]:
    """The numbers of the last table, as they can be read."""
    rows = split.place.locator("table.cut").last.locator("tbody tr").all()
    return [[int(x) for x in row.locator("td").all_inner_texts()] for row in rows]


def test_the_four_ways_are_those_of_pytorch(split: Figure):
    cuts = split.place.get_by_role("group", name="cut by").get_by_role("radio")
    glues = split.place.get_by_role("group", name="glued by").get_by_role("radio")
    for cut in (True, False):
        cuts.nth(int(not cut)).click()
        for glue in (True, False):
            glues.nth(int(not glue)).click()
            assert shown(split) == expected(3, 2, 4, cut, glue)
            assert on_page(split) == expected(3, 2, 4, cut, glue)[1]
    assert "there and back again shows no mistake" in split.told


@pytest.mark.parametrize(("n", "h", "d"), [(2, 3, 2), (4, 4, 4), (3, 1, 1)])
def test_sizes_by_the_sliders(split: Figure, n: int, h: int, d: int):
    for label, size in (("heads h", h), ("width d_head", d), ("tokens n", n)):
        split.slide(label, size)
    assert shown(split) == expected(n, h, d, cut=True, glue=True)


def test_the_keyboard_and_the_mouse_choose_a_head(split: Figure):
    split.place.get_by_role("button", name="head 0").focus()
    split.page.keyboard.press("ArrowRight")
    assert split.numbers["chosen"] == 1 and "Head 1 owns the columns 4 to 7" in split.told
    split.place.get_by_role("button", name="head 0").hover()
    assert split.numbers["chosen"] == 0
    mine = split.place.locator("td.mine").all_inner_texts()
    assert [int(x) for x in mine[:12]] == [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19]
