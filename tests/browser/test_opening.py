"""The start page and the first screen of each unit, as `make lab` opens them: a figure answers before any cell is run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from autograder.exercises import unit_names
from autograder.handout.course_map import START_PAGE
from lab_in_browser import PANEL, Lab, server

PAGES = {"start": START_PAGE, **{unit: f"{unit}/{unit}.ipynb" for unit in unit_names()}}
HEIGHT = 900


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with server(folder) as address:
        yield address


@pytest.fixture
def lab(browser: Browser, address: str) -> Iterator[Lab]:
    context = browser.new_context(viewport={"width": 1280, "height": HEIGHT})
    yield Lab(context.new_page(), address)
    context.close()


def answers(figure: Locator) -> str:
    """The first control of a figure that changes what it shows, by its name; "" if none does."""

    def shown() -> str:
        return json.dumps(figure.evaluate("figure => figure.numbers"))

    before = shown()
    for control in figure.locator("input, button").all():
        if control.get_attribute("type") == "range":
            control.press("ArrowRight")
        elif control.is_enabled():
            control.dispatch_event("click")
        if shown() != before:
            return control.evaluate("control => control.outerHTML")
    return ""


@pytest.mark.parametrize("page", PAGES)
def test_a_figure_answers_on_the_first_screen_before_any_cell_is_run(lab: Lab, page: str):
    lab.open(PAGES[page])
    figure = lab.page.locator(f"{PANEL} figure.live")
    expect(figure).to_have_count(1)
    expect(figure).to_have_attribute("data-is", "live")
    stage = figure.locator(".stage")
    assert stage.bounding_box()["y"] < HEIGHT - 200, "the figure begins below the first screen"
    expect(figure.locator("img")).to_be_hidden()
    assert answers(figure), "no control changes what the figure shows"
    assert all(not cell.get("execution_count") for cell in lab.cells())


def test_a_notebook_that_was_changed_since_stands_still(lab: Lab, folder: Path):
    """JupyterLab trusts what was handed out and nothing else: here it shows the picture, and runs no script."""
    path = folder / "notebooks" / PAGES["03_masking"]
    text = path.read_text(encoding="utf-8")
    path.with_name("other.ipynb").write_text(text.replace("# Unit 3", "# Unit three", 1), encoding="utf-8")
    lab.open("03_masking/other.ipynb")
    figure = lab.page.locator(f"{PANEL} figure").first
    expect(figure.locator("img")).to_be_visible()
    expect(figure.locator("figcaption")).to_be_visible()
    assert figure.locator(".stage").count() == 0
