"""Every live figure of the course where people meet it, on the site and in JupyterLab: it answers by every way in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser, Locator, Page
from test_live import FIGURES
from test_site import reader, site  # noqa: F401 (fixtures)

from autograder.exercises import unit_names
from lab_in_browser import PANEL, Lab, server

UNITS = sorted({place.partition("/")[0] for place in FIGURES} & set(unit_names()))
#: What a hand may touch, from what shows soonest that a figure lives.
TOUCHED = "input[type=radio]:not(:checked), input[type=checkbox], .stage button:not(:disabled)"
#: What a key moves, and which key: sliders, numbers to drag, words in a row.
MOVED = {
    "input[type=range]": "ArrowLeft",
    "[role=spinbutton]": "ArrowUp",
    ".picks .pick[tabindex='0']": "ArrowRight",
    TOUCHED: "Space",
}
#: A figure that gives a prediction away is folded until one has predicted.
UNFOLD = "document.querySelectorAll('details').forEach((part) => (part.open = true))"
#: A cell of a notebook that shows a figure from its data, as `show` does.
CELL = """\
from IPython.display import HTML, display
from attention_figures import live
import json
still = '<img alt="a still picture of the figure" src="data:,">'
display(HTML(live({name!r}, json.loads({data!r}), still, "What to see.")))
"""


def answers(figure: Locator, finger: bool = False) -> set[str]:
    """Touch the figure in every way; which ones changed what it shows."""
    ways = set()

    def numbers() -> str:
        return figure.evaluate("figure => JSON.stringify(figure.numbers)")

    for control in figure.locator(TOUCHED).all()[:6]:
        before = numbers()
        if not control.is_visible():
            continue
        control.tap() if finger else control.click()
        if numbers() != before:
            ways.add("finger" if finger else "mouse")
            break
    for place, key in MOVED.items():
        for control in figure.locator(place).all()[:4]:
            before = numbers()
            control.focus()
            control.press(key)
            if numbers() != before:
                ways.add("keyboard")
                break
    return ways


def test_every_figure_of_the_package_is_in_a_notebook():
    from attention_figures import names

    assert {name for name, _ in FIGURES.values()} == set(names())


@pytest.mark.parametrize("unit", UNITS)
def test_on_the_site_they_answer_to_mouse_and_keyboard(reader: Page, site: Path, unit: str):  # noqa: F811
    errors: list[str] = []
    reader.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    reader.emulate_media(reduced_motion="reduce")
    reader.goto(f"{site.as_uri()}/{unit}.html")
    reader.evaluate(UNFOLD)
    found = reader.locator("figure.live").all()
    assert len(found) == sum(place.startswith(f"{unit}/") for place in FIGURES)
    for figure in found:
        assert figure.get_attribute("data-is") == "live"
        assert answers(figure) == {"mouse", "keyboard"}, figure.get_attribute("data-live")
    assert not errors


@pytest.mark.parametrize("unit", UNITS)
def test_on_the_site_they_answer_to_a_finger(phone: Page, site: Path, unit: str):  # noqa: F811
    phone.emulate_media(reduced_motion="reduce")
    phone.goto(f"{site.as_uri()}/{unit}.html")
    phone.evaluate(UNFOLD)
    for figure in phone.locator("figure.live").all():
        assert "finger" in answers(figure, finger=True), figure.get_attribute("data-live")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("lab")
    with server(folder) as address:
        cells = []
        for place, (name, html) in FIGURES.items():
            data = re.search(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)[1]
            json.loads(data)
            cells.append(new_code_cell(CELL.format(name=name, data=data), id=place.replace("/", "-").replace("_", "-")))
        kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
        notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})
        nbformat.write(notebook, folder / "notebooks" / "figures.ipynb")
        yield address


def test_in_jupyterlab_they_answer_to_mouse_and_keyboard(browser: Browser, address: str):
    context = browser.new_context(viewport={"width": 1280, "height": 1000}, reduced_motion="reduce")
    try:
        page, errors = context.new_page(), []
        page.on("pageerror", lambda error: errors.append(str(error)))
        lab = Lab(page, address)
        lab.open("figures.ipynb")
        for cell in [cell["id"] for cell in lab.cells()]:
            lab.run(cell)
            figure = lab.go_to(cell).locator("figure.live")
            figure.locator(".stage").wait_for()
            assert figure.get_attribute("data-is") == "live", cell
            assert answers(figure) == {"mouse", "keyboard"}, cell
        assert page.locator(f"{PANEL} figure.live").count() > 3
        assert not errors
    finally:
        context.close()
