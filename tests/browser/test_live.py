"""Every live figure of the course, as its notebook has it: nobody is shut out, nothing is asked of the network."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from live_page import PAGE
from playwright.sync_api import Page
from test_site import AXE, reader  # noqa: F401 (a fixture)

from attention_figures import script, style
from attention_figures.appearance import css
from autograder.handout.course_map import START_PAGE
from textbook.npm_packages import MODULES

ROOT = Path(__file__).resolve().parents[2]
FIGURE = re.compile(r'<figure class="live" data-live="(\w+)">.*?</figure>', re.DOTALL)


def figures() -> dict[str, tuple[str, str]]:
    """unit/cell -> (name, HTML) of each live figure that the start page and the solutions show."""
    found = {}
    for path in (ROOT / "notebooks" / START_PAGE, *sorted((ROOT / "solutions").glob("*/*.ipynb"))):
        for cell in nbformat.read(path, as_version=4).cells:
            for item in cell.get("outputs", []):
                for figure in FIGURE.finditer(item.get("data", {}).get("text/html", "")):
                    found[f"{path.stem}/{cell.id}"] = figure[1], figure[0]
    return found


FIGURES = figures()


@pytest.mark.parametrize("place", FIGURES)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
def test_it_starts_and_axe_finds_no_violation(reader: Page, tmp_path: Path, place: str, scheme: str, width: int):  # noqa: F811
    name, html = FIGURES[place]
    errors: list[str] = []
    reader.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    reader.set_viewport_size({"width": width, "height": 900})
    reader.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    programs = "\n".join(script(part) for part in ("kit", name))
    head = f"<style>{css()}body{{background:var(--page);color:var(--ink)}}{style()}</style>"
    page = tmp_path / "page.html"
    page.write_text(
        PAGE.format(name, head, f"<h1>{name}</h1>{html}<script>{programs}\nlive.start()</script>"), encoding="utf-8"
    )
    reader.goto(page.as_uri())
    assert reader.locator("figure.live").get_attribute("data-is") == "live" and not errors, errors
    assert not reader.locator("figure.live img").is_visible(), "the still picture stays"
    reader.wait_for_timeout(100)  # what overflows gets its place in the keyboard's order
    reader.add_script_tag(path=MODULES / "axe-core" / "axe.min.js")
    told = reader.evaluate(AXE, {"elementRef": True})
    assert not told, "\n".join(told)
    assert reader.evaluate("document.documentElement.scrollWidth") <= width, "the page is wider than the window"


def test_without_scripts_the_still_picture_stays(browser, tmp_path: Path):
    context = browser.new_context(java_script_enabled=False)
    try:
        page = context.new_page()
        _, html = next(iter(FIGURES.values()))
        (tmp_path / "page.html").write_text(PAGE.format("still", f"<style>{style()}</style>", html), encoding="utf-8")
        page.goto((tmp_path / "page.html").as_uri())
        assert page.locator("figure.live img").is_visible() and page.locator("figcaption").is_visible()
    finally:
        context.close()
