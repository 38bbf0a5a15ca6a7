"""The site in a browser: nobody is shut out, nothing asks the network, and the search finds things."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

import website

PAGES = ["index.html", "search.html?q=softmax", *(f"{name}.html" for name in website.unit_names())]

#: Runs axe-core and says one line for each element that violates a rule. What KaTeX makes inside a formula is no
#: author's to mend; and axe takes a table's heading for empty that holds a formula alone, since it reads no MathML.
AXE = """(options) => axe.run({exclude: ['.katex']}, options).then((found) => found.violations.flatMap((violation) =>
    violation.nodes
        .filter((node) => !(violation.id === 'empty-table-header' && node.element.querySelector('math')))
        .map((node) => `${violation.id}: ${violation.help}: ${node.target} ${node.html.slice(0, 120)}`)))"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, made anew."""
    target = tmp_path_factory.mktemp("site") / "site"
    assert website.main([str(target)]) == 0
    return target


@pytest.fixture
def reader(page: Page) -> Page:
    """A page that is offline: whatever is not a file is refused, and fails the test."""
    asked = []

    def refuse(route):
        asked.append(route.request.url)
        route.abort()

    page.route(lambda url: not url.startswith(("file:", "data:")), refuse)
    yield page
    assert not asked, f"asks the network for {asked}"


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 400)])
def test_axe_finds_no_violation(reader: Page, site: Path, name: str, scheme: str, width: int):
    reader.set_viewport_size({"width": width, "height": 900})
    reader.emulate_media(color_scheme=scheme)
    reader.goto(f"{site.as_uri()}/{name}")
    reader.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
    reader.wait_for_timeout(100)  # what opens may need a place in the keyboard's order
    reader.add_script_tag(path=website.MODULES / "axe-core" / "axe.min.js")
    options = {"elementRef": True, "rules": {"color-contrast": {"enabled": width == 1280}}}  # colours know no width
    told = reader.evaluate(AXE, options)
    assert not told, "\n".join(told)
    assert reader.evaluate("document.documentElement.scrollWidth") <= width, "the page is wider than the window"


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_is_there_and_described(reader: Page, site: Path, name: str):
    reader.goto(f"{site.as_uri()}/{name}")
    reader.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
    assert "No description has been provided for this image" not in reader.content()
    for picture in reader.locator("img").all():
        picture.scroll_into_view_if_needed()
        picture.evaluate("(image) => image.decode()")
        assert len(picture.get_attribute("alt") or "") >= 20
        assert picture.evaluate("(image) => image.naturalWidth") == int(picture.get_attribute("width"))


@pytest.mark.parametrize("width", [1280, 1010, 400])
def test_a_narrow_window_folds_the_contents_code_scrolls_and_the_footer_stands_below_the_text(
    reader: Page, site: Path, width: int
):
    reader.set_viewport_size({"width": width, "height": 900})
    reader.goto(f"{site.as_uri()}/03_masking.html")
    assert reader.locator(".contents details").evaluate("(part) => part.open") == (width > 1000)
    assert reader.locator("h1").bounding_box()["y"] < 300, "the title can be seen at once"
    text, foot = (reader.locator(place).first.bounding_box()["x"] for place in ("main > h1", ".bottom p"))
    assert text == foot
    height, lines, line = reader.locator("main > pre.code > code").first.evaluate(
        "(code) => [code.parentElement.clientHeight, code.innerText.trimEnd().split('\\n').length,"
        " parseFloat(getComputedStyle(code).lineHeight)]"
    )
    assert height < (lines + 2) * line, "a line of code is wrapped"


def test_the_keyboard_skips_to_the_content_and_the_search_finds_an_exercise(reader: Page, site: Path):
    reader.goto(f"{site.as_uri()}/index.html")
    reader.keyboard.press("Tab")
    assert reader.evaluate("document.activeElement.className") == "skip"
    reader.keyboard.press("Enter")
    assert reader.evaluate("document.activeElement.id") == "content"
    reader.get_by_role("searchbox").fill("causal_mask")
    reader.keyboard.press("Enter")
    reader.locator("#results a").first.wait_for()
    assert "causal_mask" in reader.get_by_role("status").inner_text()
    found = [link.get_attribute("href") for link in reader.locator("#results a").all()]
    assert any(target.startswith("03_masking.html#") for target in found)
    reader.locator("#results a[href^='03_masking.html']").first.click()
    assert "03_masking.html#" in reader.url
    reader.goto(f"{site.as_uri()}/search.html?q=zzzzqqq")
    assert "No sections have" in reader.get_by_role("status").inner_text()


def test_formulas_are_set_in_their_own_fonts(reader: Page, site: Path):
    reader.goto(f"{site.as_uri()}/02_scaled_scores.html")
    assert reader.locator(".katex math").count() > 50
    reader.evaluate("document.fonts.ready")
    assert reader.evaluate("document.fonts.check('16px KaTeX_Math')")
