"""Feedback pages, the class report and the page of predictions in a browser: nobody is shut out, nothing is asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nbformat
import numpy as np
import pytest
from playwright.sync_api import ConsoleMessage, Page
from test_site import AXE

from asked import points_of
from autograder.grading.in_process import judge_function
from autograder.grading.submission_jobs import with_outputs
from autograder.pages.class_predictions import Belief
from autograder.pages.class_summary import summarise
from autograder.pages.feedback_page import FeedbackPages
from autograder.pages.report import write_report
from autograder.reading.predictions import Asked
from autograder.records import Graded, PointInTime, Verdict
from textbook.npm_packages import MODULES

ROOT = Path(__file__).parents[2]
UNIT = "03_masking"
EVIL = "<img src=x onerror=alert(1)>\"'</td></svg><script>alert(2)</script>"
PAGES = ["feedback.html", "index.html", "predictions.html"]


def upside_down(n):
    return np.triu(np.ones((n, n), bool))


def unscaled(scores, mask):
    weights = np.where(mask, np.exp(scores), 0)
    return weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-9) * 2


def feedback() -> str:
    """A page with both kinds of picture, and a student's own words in it."""
    points = points_of(UNIT)
    found = {name: Verdict(UNIT, name, worth, worth, "right", None, "Right.") for name, worth in points.items()}
    for name, answer in {"causal_mask": upside_down, "masked_softmax": unscaled}.items():
        verdict = judge_function(answer, name, seed=5)
        assert verdict.where is not None
        found[name] = replace(verdict, points=points[name])
    found["leaks_future"] = replace(found["leaks_future"], verdict="crashed", score=0, message=EVIL, raised=EVIL)
    notebook = nbformat.read(ROOT / "notebooks" / UNIT / f"{UNIT}.ipynb", as_version=4)
    notebook = with_outputs(notebook, list(found.values()))
    for cell in notebook.cells:
        told = cell.metadata.get("nbgrader", {})
        if told.get("grade"):
            told["score"] = found[told["grade_id"].removeprefix("test_")].score
    grades = {"notebook": UNIT, "score": 1, "max_score": 19, "late_penalty": 0}
    return FeedbackPages().page(notebook, grades, Graded("anna", UNIT, list(found.values())))


def a_class(size: int) -> list[Graded]:
    chance, items = np.random.default_rng(1), []
    for unit in (UNIT, "04_multi_head"):
        for place in range(size):
            verdicts = []
            for name, worth in points_of(unit).items():
                kind = chance.choice(
                    ["right", "wrong", "crashed", "missing", "forbidden", "waiting"],
                    p=[0.6, 0.2, 0.1, 0.05, 0.03, 0.02],
                )
                slip = f"slip-{chance.integers(3)}" if kind == "wrong" else None
                score = worth if kind == "right" else worth / 2 * (chance.random() < 0.3)
                verdicts.append(Verdict(unit, name, worth, score, str(kind), slip, "What went wrong."))
            items.append(Graded(f"student-{place:03}" if place else EVIL, unit, verdicts))
    return items


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All three pages, of a class of sixty."""
    folder = tmp_path_factory.mktemp("pages")
    start = datetime(2026, 3, 1, tzinfo=UTC)
    runs = [
        PointInTime(start + timedelta(days=7 * n), {UNIT: (60, 30 + n), "04_multi_head": (50, 20 + 4 * n)})
        for n in range(5)
    ]
    asked = Asked("3.1", "Does it grow?", {"a": "it grows", "b": "it falls"}, "b")
    believed = [Belief(UNIT, asked, ("a", "b", "b"), 1, 2)]
    write_report(summarise(folder, a_class(60)), folder, folder, believed, runs, runs)
    (folder / "feedback.html").write_text(feedback(), encoding="utf-8")
    return folder


@pytest.fixture
def reader(page: Page) -> Page:
    """A page of which whatever is asked for but files, and whatever the console reports, fails the test."""
    told: list[str] = []

    def refuse(route):
        told.append(f"asks for {route.request.url}")
        route.abort()

    def report(message: ConsoleMessage):
        if message.type in ("error", "warning"):
            told.append(message.text)

    page.route(lambda url: not url.startswith("file:"), refuse)
    page.on("console", report)
    yield page
    assert not told, told


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 1440), ("light", 360), ("dark", 360)])
def test_axe_finds_no_violation_and_no_page_is_wider_than_the_window(
    reader: Page, pages: Path, name: str, scheme: str, width: int
):
    reader.set_viewport_size({"width": width, "height": 900})
    reader.emulate_media(color_scheme=scheme)
    reader.goto((pages / name).as_uri())
    reader.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
    assert reader.evaluate("document.documentElement.scrollWidth") <= width
    reader.evaluate((MODULES / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))  # past the page's policy
    told = reader.evaluate(AXE, {"elementRef": True})
    assert not told, "\n".join(told)


@pytest.mark.parametrize("name", PAGES)
def test_nothing_a_student_wrote_becomes_a_part_of_the_page(reader: Page, pages: Path, name: str):
    reader.goto((pages / name).as_uri())
    assert reader.locator("script, img, iframe, object, embed, link, form, base").count() == 0
    assert name == "predictions.html" or "alert(2)" in reader.locator("body").inner_text()


def test_a_mistake_in_the_map_leads_to_its_words_by_the_keyboard(reader: Page, pages: Path):
    reader.goto((pages / "index.html").as_uri())
    link = reader.locator(".heat thead a").first
    link.focus()
    reader.keyboard.press("Enter")
    place = reader.evaluate("decodeURIComponent(location.hash)")
    assert reader.locator(place).is_visible() and "slip-" in reader.locator(place).locator("..").inner_text()


@pytest.mark.parametrize("width", [360, 1440])
def test_the_map_scrolls_in_its_own_box_and_keeps_names_and_exercises_in_sight(reader: Page, pages: Path, width: int):
    reader.set_viewport_size({"width": width, "height": 900})
    reader.goto((pages / "index.html").as_uri())
    box = reader.locator(".scroll:has(> .heat)")
    box.focus()
    for _ in range(20):
        reader.keyboard.press("ArrowDown")
    reader.wait_for_function("(box) => box.scrollTop > 200", arg=box.element_handle())
    frame, head = box.bounding_box(), reader.locator(".heat thead").bounding_box()
    assert abs(head["y"] - frame["y"]) < 3
    if width == 360:
        box.evaluate("(box) => box.scrollTo(300, box.scrollTop)")
        assert abs(reader.locator(".heat tbody th").nth(30).bounding_box()["x"] - frame["x"]) < 3


def test_a_picture_is_told_in_words_and_keeps_within_its_box(reader: Page, pages: Path):
    reader.set_viewport_size({"width": 360, "height": 900})
    reader.goto((pages / "feedback.html").as_uri())
    assert reader.locator(".picture").count() == 2
    for picture in reader.locator(".picture").all():
        for drawing in picture.locator("svg").all():
            assert len(drawing.get_attribute("aria-label")) > 15
        assert "differ" in picture.locator("> p").inner_text()
        assert picture.evaluate("(figure) => figure.scrollWidth <= figure.clientWidth")


@pytest.mark.parametrize("name", PAGES)
def test_on_paper_it_is_light(reader: Page, pages: Path, name: str):
    reader.emulate_media(color_scheme="dark", media="print")
    reader.goto((pages / name).as_uri())
    assert reader.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
