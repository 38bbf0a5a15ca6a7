"""Draws the pictures of the README again, into docs/pictures/, from what the course shows today.

.venv/bin/python tools/readme_pictures.py [notebook] [explorer] [feedback] [report]

`notebook` is a unit in JupyterLab, `explorer` a live figure in motion; `feedback` and `report` are pages of the sample
class, so `make demo` comes first. `make pictures` installs the browser.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import nbformat
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from attention_figures import live
from chromium import find_chromium, options
from lab_in_browser import Lab, server

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
DEMO = ROOT / "demo" / "grading"
#: The unit in the pictures of JupyterLab and of a live figure.
UNIT = "03_masking"
#: A student of the sample class with mistakes, and the unit that has them.
STUDENT, LEARNS = "quinn", "04_multi_head"


class NoPicture(Exception):
    """A picture cannot be drawn; the message is one line with the remedy."""


def draw_notebook(browser: Browser) -> None:
    """Draw unit 3 in JupyterLab, with a figure after a click and the exercise that follows it."""
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as address:
        lab = Lab(browser.new_page(viewport={"width": 1180, "height": 980}), address)
        lab.open(f"{UNIT}/{UNIT}.ipynb")
        for name in ("imports", "sentence", "unmasked-weights", "fig-causal"):
            lab.run(name)
        figure = lab.go_to("fig-causal").locator("figure.live")
        figure.locator(".pick").nth(2).click()
        figure.locator(".stage").evaluate("stage => stage.scrollIntoView({block: 'end'})")
        lab.page.wait_for_timeout(800)
        save(lab.page.screenshot(), "notebook.png")


def draw_feedback(browser: Browser) -> None:
    path = DEMO / "feedback" / STUDENT / LEARNS / f"{LEARNS}.html"
    page = opened(browser, path, 1000, 760)
    page.locator(".verdict").first.evaluate("verdict => verdict.scrollIntoView({block: 'center'})")
    save(page.screenshot(), "feedback.png")


def draw_report(browser: Browser) -> None:
    page = opened(browser, DEMO / "report" / "index.html", 1000, 760)
    page.locator("#map").evaluate("heading => heading.scrollIntoView()")
    save(page.screenshot(), "report.png")


def draw_explorer(browser: Browser) -> None:
    """Draw unit 3's figure as the chosen word, the mask and the sharpness of the weights change."""
    name, data = live_data(UNIT, "fig-causal")
    page = browser.new_page(viewport={"width": 820, "height": 900})
    still = '<img alt="" src="data:,">'
    offered = {**data, "causal": False, "offers": ["causal", "temperature"]}
    page.set_content(f"<body style='margin:0;width:820px'>{live(name, offered, still, '')}")
    stage = page.locator(".stage")
    words, causal, heat = (
        page.locator(".pick"),
        page.get_by_label("causal mask"),
        page.get_by_role("slider", name="temperature"),
    )
    scene: list[tuple[Callable[[], object], int]] = [
        (lambda: words.nth(1).click(), 1400),
        (lambda: words.nth(2).click(), 1400),
        (lambda: heat.fill("-0.5"), 1200),
        (lambda: heat.fill("0.5"), 1200),
        (lambda: heat.fill("0"), 900),
        (causal.check, 1600),
        (lambda: words.nth(1).click(), 1400),
        (lambda: words.nth(4).click(), 1400),
        (causal.uncheck, 1200),
    ]
    frames, times = [], []
    for act, rest in scene:
        act()
        for _ in range(4):
            frames.append(frame(stage.screenshot()))
            times.append(70)
        page.wait_for_timeout(400)
        frames.append(frame(stage.screenshot()))
        times.append(rest)
    frames[0].save(
        FOLDER / "explorer.gif",
        save_all=True,
        append_images=frames[1:],
        duration=times,
        loop=0,
        optimize=True,
        disposal=1,
    )


def live_data(unit: str, cell: str) -> tuple[str, dict]:
    """Return name and data of a cell's live figure, from the executed solution."""
    notebook = nbformat.read(ROOT / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    shown = next(each for each in notebook.cells if each.id == cell).outputs[0].data["text/html"]
    known = shown.partition('<script type="application/json">')[2].partition("</script>")[0]
    return shown.partition('data-live="')[2].partition('"')[0], json.loads(known)


def opened(browser: Browser, path: Path, width: int, height: int) -> Page:
    if not path.is_file():
        raise NoPicture(f"{path.relative_to(ROOT)} is not there; run `make demo` first")
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
    page.goto(path.as_uri())
    return page


def frame(png: bytes) -> Image.Image:
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    small = picture.resize((600, round(600 * picture.height / picture.width)), Image.Resampling.LANCZOS)
    return small.quantize(48, dither=Image.Dither.NONE)


def save(png: bytes, name: str) -> None:
    """Save a picture with 256 colours, which takes a fifth of the bytes."""
    Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
        FOLDER / name, optimize=True
    )


DRAWN = {
    "explorer": draw_explorer,
    "notebook": draw_notebook,
    "feedback": draw_feedback,
    "report": draw_report,
}


def main(wanted: list[str]) -> int:
    unknown = [name for name in wanted if name not in DRAWN]
    if unknown:
        print(f"pictures: there is no {unknown[0]!r}; there are {', '.join(DRAWN)}", file=sys.stderr)
        return 2
    place = find_chromium()
    if place is None:
        print("pictures: no Chromium here; run `make pictures`, which installs it", file=sys.stderr)
        return 2
    FOLDER.mkdir(parents=True, exist_ok=True)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=place, args=options())
            for name in wanted or DRAWN:
                DRAWN[name](browser)
                print(f"pictures: {name}", flush=True)
    except NoPicture as error:
        print(f"pictures: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
