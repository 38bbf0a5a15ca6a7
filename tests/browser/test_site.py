"""The site in a browser: nobody is shut out, nothing asks the network, and the search finds things."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

import build_site
from lab_in_browser import PANEL, server
from textbook.cells import LAB
from textbook.npm_packages import MODULES

PAGES = ["index.html", "search.html?q=softmax", *(f"{name}.html" for name in build_site.unit_names())]

#: Runs axe-core and says one line for each element that violates a rule. What KaTeX makes inside a formula is no
#: author's to mend; and axe takes a table's heading for empty that holds a formula alone, since it reads no MathML.
AXE = """(options) => axe.run({exclude: ['.katex']}, options).then((found) => found.violations.flatMap((violation) =>
    violation.nodes
        .filter((node) => !(violation.id === 'empty-table-header' && node.element.querySelector('math')))
        .map((node) => `${violation.id}: ${violation.help}: ${node.target} ${node.html.slice(0, 120)}`)))"""

#: What it would fetch beforehand, style sheets, the page's policy refuses; it needs them for no rule that is used here.
AXE_OPTIONS = {"elementRef": True, "preload": False}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, made anew."""
    target = tmp_path_factory.mktemp("site") / "site"
    assert build_site.main([str(target)]) == 0
    return target


@pytest.fixture
def reader(page: Page) -> Page:
    """A page that is offline: what is not a file is refused, and fails the test, as an error on the console does."""
    asked, said = [], []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)

    def refuse(route):
        asked.append(route.request.url)
        route.abort()

    page.route(lambda url: not url.startswith(("file:", "data:")), refuse)
    yield page
    assert not asked, f"asks the network for {asked}"
    assert not said, f"the console has {said}"


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
def test_axe_finds_no_violation(reader: Page, site: Path, name: str, scheme: str, width: int):
    reader.set_viewport_size({"width": width, "height": 900})
    reader.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # a number on its way is not its label yet
    reader.goto(f"{site.as_uri()}/{name}")
    reader.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
    reader.wait_for_timeout(100)  # what opens may need a place in the keyboard's order
    reader.evaluate((MODULES / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))  # as a tag it is refused
    options = AXE_OPTIONS | {"rules": {"color-contrast": {"enabled": width == 1280}}}  # colours know no width
    told = reader.evaluate(AXE, options)
    assert not told, "\n".join(told)
    assert reader.evaluate("document.documentElement.scrollWidth") <= width, "the page is wider than the window"


@pytest.mark.parametrize("name", PAGES)
def test_every_picture_is_there_and_described(reader: Page, site: Path, name: str):
    reader.goto(f"{site.as_uri()}/{name}")
    reader.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
    assert "No description has been provided for this image" not in reader.content()
    for picture in reader.locator("img").all():
        picture.evaluate("(image) => { image.loading = 'eager'; return image.decode(); }")
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
    assert "03_masking.html#exercise-causal_mask" in found
    assert reader.locator("#results mark").count() > 5
    reader.locator("#results a[href^='03_masking.html']").first.click()
    assert "03_masking.html#" in reader.url
    reader.goto(f"{site.as_uri()}/search.html?q=zzzzqqq")
    assert "No sections have" in reader.get_by_role("status").inner_text()


def test_formulas_are_set_in_their_own_fonts(reader: Page, site: Path):
    reader.goto(f"{site.as_uri()}/02_scaled_scores.html")
    assert reader.locator(".katex math").count() > 50
    reader.evaluate("document.fonts.ready")
    assert reader.evaluate("document.fonts.check('16px KaTeX_Math')")


UNIT = "01_projections.html"
#: Two predictions of one measurement.
FIRST, SECOND = "#predict-1-1", "#predict-1-2"


def test_a_prediction_by_mouse_is_shown_beside_what_was_measured_and_stays(reader: Page, site: Path):
    reader.goto(f"{site.as_uri()}/{UNIT}")
    box, evidence = reader.locator(FIRST), reader.locator("#measured-recall-numbers")
    assert not box.locator("dl").is_visible() and not evidence.locator("pre").is_visible()
    box.get_by_role("button", name="in half the cases").click()
    assert box.get_by_role("status").inner_text() == "Not as you predicted. Measured: a, nearly always."
    assert box.locator("dl > div").all_inner_texts() == [
        "You predicted\nb in half the cases",
        "Measured\na nearly always",
    ]
    yours, measured = (box.locator("dl > div").nth(i).bounding_box() for i in (0, 1))
    assert yours["y"] == measured["y"] and yours["x"] < measured["x"], "side by side"
    pressed = box.locator("[aria-pressed=true]")
    assert pressed.inner_text() == "b in half the cases"
    box.get_by_role("button", name="nearly always").click(force=True)
    assert pressed.inner_text() == "b in half the cases", "changed after it was seen"
    assert not evidence.locator("pre").is_visible(), "the other prediction of this cell is not made yet"
    reader.locator(SECOND).get_by_role("button", name="its whole length").click()
    assert reader.locator(SECOND).get_by_role("status").inner_text().startswith("As you predicted.")
    assert "1.1: measured a, “nearly always” (98%)." in evidence.inner_text()
    reader.reload()
    assert reader.locator(".prediction [aria-pressed=true]").count() == 0, "nothing is kept"


def test_a_prediction_by_keyboard_keeps_the_place(reader: Page, site: Path):
    reader.goto(f"{site.as_uri()}/{UNIT}")
    button = reader.locator(FIRST).get_by_role("button").nth(2)
    button.focus()
    reader.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"
    assert button.evaluate("(button) => button === document.activeElement"), "the focus is lost"
    reader.keyboard.press("Tab")
    assert reader.evaluate("document.activeElement.localName") == "summary"
    reader.keyboard.press("Tab")
    reader.keyboard.press("Enter")
    assert reader.url.endswith("#measured-recall-numbers")
    reader.locator("#measured-recall-numbers pre").wait_for()  # a link leads into what is folded


def test_a_number_is_predicted_in_a_field_and_nonsense_is_not(reader: Page, site: Path):
    reader.goto(f"{site.as_uri()}/02_scaled_scores.html")
    box = reader.locator("#predict-2-1")
    field = box.get_by_label("Your prediction, a number")
    box.get_by_role("button", name="Predict").click()
    assert box.get_by_role("status").inner_text() == "", "an empty field is no prediction"
    field.fill("0.5")
    field.press("Enter")
    assert box.get_by_role("status").inner_text() == "You predicted 0.5. Measured: 0.945."
    field.press("9")
    assert field.input_value() == "0.5" and box.locator("dl > div").count() == 2
    assert reader.locator("#measured-fig-puzzle img").is_visible()


def test_whoever_looks_first_predicts_no_more(reader: Page, site: Path):
    reader.goto(f"{site.as_uri()}/{UNIT}")
    reader.locator("#measured-recall-numbers summary").click()
    for place in (FIRST, SECOND):
        box = reader.locator(place)
        reader.locator(f"{place}.closed").wait_for()
        assert box.get_by_role("status").inner_text() == "Measured by now: no prediction was made."
        box.get_by_role("button").first.click(force=True)
        assert box.locator("[aria-pressed=true]").count() == 0
        assert box.locator("dl > div:visible").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_in_predictions_that_were_made(reader: Page, site: Path, scheme: str):
    reader.emulate_media(color_scheme=scheme)
    reader.goto(f"{site.as_uri()}/{UNIT}")
    for box in reader.locator(".prediction").all()[:3]:
        box.get_by_role("button").last.click()
    reader.wait_for_timeout(100)
    reader.evaluate((MODULES / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    told = reader.evaluate(AXE, AXE_OPTIONS)
    assert not told, "\n".join(told)


def test_without_scripts_questions_choices_and_measurements_can_be_read(browser: Browser, site: Path):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.as_uri()}/{UNIT}")
    box = page.locator(FIRST)
    assert "How often" in box.inner_text() and box.locator("li").count() == 3 and not box.get_by_role("button").count()
    box.locator("summary").click()
    assert box.locator("dl").inner_text() == "Measured\na nearly always"
    page.locator("#measured-recall-numbers summary").click()
    assert "measured a" in page.locator("#measured-recall-numbers").inner_text()
    context.close()


def test_the_policy_refuses_scripts_in_the_page_and_from_elsewhere(page: Page, site: Path):
    refused = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(f"{site.as_uri()}/index.html")
    page.evaluate("""() => {
        const script = document.createElement('script');
        script.textContent = 'window.here = 1';
        const other = Object.assign(document.createElement('script'), {src: 'https://example.org/x.js'});
        const image = Object.assign(document.createElement('img'), {src: 'https://example.org/x.png'});
        document.body.append(script, other, image);
        return fetch('https://example.org/').catch(() => 0);
    }""")
    page.wait_for_timeout(200)
    assert page.evaluate("window.here") is None
    for kind in ("script-src", "img-src", "connect"):
        assert any("Content Security Policy" in line and kind in line for line in refused), (kind, refused)


def test_the_contents_mark_the_section_in_view(reader: Page, site: Path):
    reader.goto(f"{site.as_uri()}/03_masking.html")
    marked = reader.locator(".contents [aria-current]")
    heading = reader.locator("main h2").nth(3)
    heading.evaluate("(heading) => heading.scrollIntoView()")
    reader.wait_for_timeout(200)
    assert marked.first.inner_text() == heading.inner_text()
    reader.locator("#exercise-masked_attention .answer").evaluate("(part) => part.scrollIntoView()")
    reader.wait_for_timeout(200)
    assert marked.last.inner_text() == "masked_attention" and marked.count() == 2


def test_on_a_phone_the_contents_stay_in_sight_and_fold_when_followed(reader: Page, site: Path):
    reader.set_viewport_size({"width": 360, "height": 780})
    reader.goto(f"{site.as_uri()}/03_masking.html")
    bar = reader.locator(".contents summary")
    reader.locator("main h2").nth(4).evaluate("(heading) => heading.scrollIntoView()")
    reader.wait_for_timeout(200)
    assert bar.bounding_box()["y"] < 20
    bar.click()
    reader.locator(".contents a", has_text="Check yourself").click()
    reader.wait_for_timeout(200)
    assert not reader.locator(".contents details").evaluate("(part) => part.open")
    heading = reader.locator("#check-yourself").bounding_box()
    assert bar.bounding_box()["height"] <= heading["y"] < 390, "the heading can be seen below the contents"


def test_paper_has_what_is_folded_and_no_buttons_to_go_elsewhere(reader: Page, site: Path):
    reader.goto(f"{site.as_uri()}/03_masking.html")
    reader.emulate_media(media="print", color_scheme="dark")
    reader.evaluate("dispatchEvent(new Event('beforeprint'))")
    reader.wait_for_timeout(100)
    assert reader.locator("main details:not([open])").count() == 0
    assert reader.locator("#measured-fig-masks .stage").is_visible()
    assert not reader.locator("#measured-fig-masks .controls").first.is_visible()
    for unseen in (".top", ".contents", ".neighbours >> nth=0", ".lab >> nth=0", ".screen >> nth=0"):
        assert not reader.locator(unseen).is_visible(), unseen
    assert reader.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    reader.evaluate("dispatchEvent(new Event('afterprint'))")
    reader.wait_for_timeout(100)
    reader.emulate_media(media="screen")
    assert reader.locator("main details[open]").count() == reader.locator(".prediction.closed").count() == 0


def test_the_link_of_an_exercise_opens_its_notebook_in_jupyterlab(reader: Page, site: Path, tmp_path: Path):
    reader.goto(f"{site.as_uri()}/03_masking.html")
    exercise = reader.locator("#exercise-causal_mask")
    link = exercise.get_by_role("link", name="Open the unit in JupyterLab").get_attribute("href")
    assert link.startswith(f"{LAB}/")
    with server(tmp_path) as address:
        lab = reader.context.new_page()
        lab.goto(address.format(f"lab/tree{link.removeprefix(LAB)}"))
        lab.locator(f"{PANEL} h1", has_text="Unit 3").wait_for(timeout=60_000)
