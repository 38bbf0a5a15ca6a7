"""The units in a real JupyterLab: open, read, run, fill in, fail, read the hint, pass, validate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, expect

from autograder.exercises import unit_names
from autograder.handout.course_map import START_PAGE as START
from lab_in_browser import FRONT, PANEL, ROOT, Lab, said, server
from textbook.npm_packages import MODULES

SHOW = re.compile(r"^show\(", re.MULTILINE)


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server(tmp_path_factory.mktemp("lab")) as address:
        yield address


@pytest.fixture
def lab(browser: Browser, address: str) -> Iterator[Lab]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield Lab(context.new_page(), address)
    context.close()


def solutions(unit: str) -> dict[str, str]:
    """Cell id -> source of the answer cells as the course solves them."""
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    answers = (cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution"))
    return {cell.id: re.sub(r"^ *### (BEGIN|END) SOLUTION\n?", "", cell.source, flags=re.M) for cell in answers}


def marked(lab: Lab, name: str) -> str:
    """The id of the cell whose grade_id this is."""
    return next(cell["id"] for cell in lab.cells() if cell["metadata"].get("nbgrader", {}).get("grade_id") == name)


def test_the_map_opens_first_leads_to_the_units_and_says_how_far_one_is(lab: Lab):
    lab.open()
    assert START in lab.page.url
    table = lab.page.locator(f"{PANEL} table").first
    assert table.locator("tbody tr").count() == len(unit_names()) + 1
    lab.page.locator(f"{PANEL} h2 a", has_text="Begin with unit 1").wait_for()
    told = lab.run("how_far")
    assert all(name in told for name in unit_names()) and "core 0/" in told and "Next: " in told
    lab.go_to("map")
    for unit in unit_names():
        expect(table.locator(f"a[href*='{unit}.ipynb']")).to_have_count(1)
    table.locator("a").first.click()
    lab.page.locator(f"{PANEL} h1", has_text="Unit 1").wait_for()


@pytest.mark.parametrize("unit", unit_names())
def test_a_unit_opens_and_its_first_part_runs(lab: Lab, unit: str, tmp_path: Path):
    """From the top to the first figure, with the answers before it filled in; formulas, hints and figures are there."""
    lab.open(f"{unit}/{unit}.ipynb")
    cells = lab.cells()
    place = next(index for index, cell in enumerate(cells) if SHOW.search(cell["source"]))
    for name, source in solutions(unit).items():
        if name in [cell["id"] for cell in cells[:place]]:
            lab.write(name, source)
    lab.run_before(cells[place + 1]["id"])
    for cell in lab.cells()[: place + 1]:
        if cell["cell_type"] == "code":
            errors = [output for output in cell["outputs"] if output["output_type"] == "error"]
            assert not errors, f"{cell['id']}: {said(cell)}"
            assert cell["execution_count"], f"{cell['id']} did not run"
    figure = lab.go_to(cells[place]["id"]).locator(".jp-OutputArea figure").first
    figure.scroll_into_view_if_needed()
    still = figure.locator("img").first
    assert still.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 300
    assert len(still.get_attribute("alt") or "") >= 20
    expect(still).to_be_visible(visible=figure.get_attribute("data-is") != "live")
    look_at_the_prose(lab)
    for theme in ("Light", "Dark"):
        lab.command("apputils:change-theme", theme=f"JupyterLab {theme}")
        is_light = str(theme == "Light").lower()  # a busy machine takes its time to fetch a theme's style
        expect(lab.page.locator("body")).to_have_attribute("data-jp-theme-light", is_light, timeout=60_000)
        lab.page.screenshot(path=tmp_path / f"{unit}_{theme}.png")


def look_at_the_prose(lab: Lab) -> None:
    """Every formula is set, every hint opens and shows its text, and no Markdown is left as it was typed."""
    formulas = hints = 0
    for cell in (cell for cell in lab.cells() if cell["cell_type"] == "markdown"):
        prose = lab.go_to(cell["id"]).locator(".jp-MarkdownOutput")
        if "$" in cell["source"]:
            expect(prose.locator("mjx-container"), f"the formulas of {cell['id']}").not_to_have_count(0, timeout=20_000)
        assert prose.locator("mjx-merror").count() == 0, f"{cell['id']}: a formula that cannot be set"
        formulas += prose.locator("mjx-container").count()
        for hint in prose.locator("details").all():
            assert not hint.evaluate("(part) => part.open"), f"{cell['id']}: a hint that stands open"
            hint.locator("summary").click()
            assert len(hint.inner_text().strip()) > len(hint.locator("summary").inner_text()) + 10, cell["id"]
            hints += 1
        left = re.search(r"\*\*|```|</?(details|div)|\$[^$\n]{1,80}\$", prose.inner_text())
        assert not left or "`" in cell["source"], f"{cell['id']}: {left[0]} is left in the text"
    assert formulas > 10 and hints > 4


def test_a_student_fails_reads_the_hint_passes_and_validates(lab: Lab):
    unit = "02_scaled_scores"
    lab.open(f"{unit}/{unit}.ipynb")
    answer, test = marked(lab, "attention_scores"), marked(lab, "test_attention_scores")
    lab.run_before(answer)
    assert "NotImplementedError" in f"{lab.run(answer)} {lab.run(test)}"
    right = solutions(unit)
    wrong = right[answer].replace("Q @ K.T", "K @ Q.T")
    assert wrong != right[answer]
    lab.write(answer, wrong)
    assert lab.run(answer) == ""
    told = lab.run(test)
    assert "AssertionError" in told and "A row should belong to a query" in told
    order = [cell["id"] for cell in lab.cells()]
    hint = lab.go_to(order[order.index(answer) - 1]).locator("details").first
    hint.locator("summary").click()
    expect(hint.locator("p").first).to_be_visible()
    lab.write(answer, right[answer])
    assert lab.run(answer) == ""
    assert lab.run(test).strip() == "attention_scores: all visible tests passed."
    told = lab.validate()
    assert "cell failed" in told and "NotImplementedError" in told
    for name, source in right.items():
        lab.write(name, source)
    assert "Success! Your notebook passes all the tests." in lab.validate()


def test_boxes_can_be_read_in_the_dark_and_the_slider_redraws(lab: Lab):
    """The course's own style is there, and so is the optional slider of unit 2."""
    lab.open("02_scaled_scores/02_scaled_scores.ipynb")
    lab.command("apputils:change-theme", theme="JupyterLab Dark")
    box = lab.page.locator(f"{PANEL} .alert-info").first
    expect(box).to_have_css("color", "rgb(0, 54, 58)")
    names = [cell["id"] for cell in lab.cells() if cell["cell_type"] == "code"]
    for name in (names[0], "naive-softmax", "fig-width", "slide-width"):
        assert lab.run(name) == ""
    slider = lab.page.locator(".jupyter-widgets .noUi-handle").first
    slider.focus()
    for width in (256, 1024):
        lab.page.keyboard.press("ArrowRight")
        picture = lab.page.locator(".jupyter-widgets img")
        expect(picture).to_have_attribute("alt", re.compile(rf"sixteen weights for d = {width}\. Without the root .*"))


def test_a_live_figure_answers_in_both_themes(lab: Lab):
    lab.open("03_masking/03_masking.ipynb")
    for name in ("imports", "sentence", "unmasked-weights", "fig-causal"):
        lab.run(name)
    figure = lab.go_to("fig-causal").locator("figure.live")
    expect(figure).to_have_attribute("data-is", "live")
    figure.get_by_role("button", name="hole", exact=True).click()
    figure.get_by_label("causal mask").uncheck()
    lab.page.keyboard.press("Tab")
    shown = figure.evaluate("figure => figure.numbers")
    assert shown["chosen"] == 4 and shown["weights"][0][4] > 0
    lab.page.add_script_tag(path=MODULES / "axe-core" / "axe.min.js")
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        lab.command("apputils:change-theme", theme=theme)
        lab.page.wait_for_function(
            "light => document.body.dataset.jpThemeLight === light", arg=str("Light" in theme).lower()
        )
        lab.page.wait_for_timeout(500)  # what glides has come to rest
        told = lab.page.evaluate(
            """() => axe.run('figure.live').then((found) => found.violations.map(
                (each) => `${each.id}: ${each.nodes[0].html}`))"""
        )
        assert not told, "\n".join(told)


def test_keys_on_a_live_figure_are_the_figures(lab: Lab):
    """Arrows, letters and Shift+Enter on a control move no cell, make none and run none."""
    lab.open("03_masking/03_masking.ipynb")
    for name in ("imports", "sentence", "unmasked-weights", "fig-causal"):
        lab.run(name)
    before = [(cell["id"], cell.get("execution_count")) for cell in lab.cells()]
    figure = lab.go_to("fig-causal").locator("figure.live")
    expect(figure).to_have_attribute("data-is", "live")
    controls = figure.locator("button, input, [tabindex='0']")
    assert controls.count() > 5
    for control in controls.all()[:12]:
        control.focus()
        for key in ("ArrowDown", "ArrowUp", "a", "b", "m", "Shift+Enter"):
            lab.page.keyboard.press(key)
    assert [(cell["id"], cell.get("execution_count")) for cell in lab.cells()] == before
    assert figure.evaluate("figure => figure.contains(document.activeElement)")


def test_a_folded_cell_stays_folded_runs_and_unfolds_by_its_dots(lab: Lab):
    lab.open("02_scaled_scores/02_scaled_scores.ipynb")
    test = marked(lab, "test_attention_scores")
    cell = lab.go_to(test)
    folded = cell.locator(".jp-InputPlaceholder")
    expect(folded).to_be_visible()
    box = folded.bounding_box()
    lab.page.mouse.click(box["x"] + 0.8 * box["width"], box["y"] + box["height"] / 2)
    expect(folded).to_be_visible()
    assert "Error" in lab.run(test)
    expect(folded).to_be_visible()
    folded.locator(".jp-MoreHorizIcon").click()
    expect(folded).to_have_count(0)


@pytest.mark.parametrize("solved", [False, True])
def test_run_all_reaches_the_end(lab: Lab, solved: bool):
    """Of a notebook as it was handed out, and of one in which the first exercise is written."""
    lab.open("03_masking/03_masking.ipynb")
    if solved:
        name, source = next(iter(solutions("03_masking").items()))
        lab.write(name, source)
    lab.command("notebook:run-all-cells")
    ran = "cell.cell_type !== 'code' || !cell.source.trim() || cell.execution_count"
    lab.page.wait_for_function(f"() => {FRONT}.content.model.sharedModel.toJSON().cells.every((cell) => {ran})")
    lab.rest()
    code = [cell for cell in lab.cells() if cell["cell_type"] == "code" and cell["source"].strip()]
    assert all(cell["execution_count"] for cell in code)
    failed = [cell for cell in code if any(output["output_type"] == "error" for output in cell["outputs"])]
    assert 3 < len(failed) < len(code) / 2
