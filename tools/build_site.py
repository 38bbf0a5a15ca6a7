"""Builds the course as a static site in `site/`, which can be read without a network.

    .venv/bin/python tools/build_site.py [FOLDER]

Text and code come from `notebooks/`, the student's version. What the examples print and draw comes from `solutions/`,
cell by cell; answer cells and test cells take nothing from there. KaTeX sets the formulas when the site is built, and
MiniSearch searches it; both are downloaded from npm once. `tools/textbook/` has the parts of this program.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import attention_figures
from attention_figures import appearance
from autograder.exercises import unit_names
from textbook import SiteFailed
from textbook.home_page import front_of
from textbook.live_figures import copy_code
from textbook.npm_packages import Setter, copy_packages, install_packages, set_formulas
from textbook.prose import fill_in
from textbook.templates import WEB, filled, style
from textbook.unit_pages import ROOT, Unit, read_unit

#: Files of `tools/web/` that are copied to the site unchanged.
SCRIPTS = ("contents.js", "page.js", "predict.js", "search.js")
#: The folder with the scripts of live figures.
LIVE = attention_figures.FOLDER


def build(target: Path, setter: Setter = set_formulas, root: Path = ROOT) -> None:
    """Write the pages to the empty folder `target`. setter: turns formulas into HTML."""
    units = [read_unit(name, root) for name in unit_names()]
    front = front_of(units)

    def write(template: str, name: str, **values: object) -> None:
        (target / name).write_text(filled(template, units=units, **values), encoding="utf-8")

    for position, unit in enumerate(units):
        neighbours = {"before": units[position - 1] if position else None, "after": (*units, None)[position + 1]}
        title, _, text = fill_in(unit.content, setter(unit.page.formulas)).partition("</h1>")
        write("unit.html", f"{unit.name}.html", unit=unit, title=f"{title}</h1>", text=text, **neighbours)
        write_files(unit, target, root)
    write("front.html", "index.html", front=front)
    write("search.html", "search.html")
    copy_code({name for unit in units for name in unit.page.live}, LIVE, target / "live")
    if (target / "live").is_dir():  # it includes the colours, so that it works without the page's style
        (target / "live" / "kit.css").write_text(attention_figures.style(), encoding="utf-8")
    documents = json.dumps([section for unit in units for section in unit.sections], ensure_ascii=False)
    (target / "sections.js").write_text(f"const SECTIONS = {documents};\n", encoding="utf-8")
    (target / "style.css").write_text(style(), encoding="utf-8")
    (target / "mark.svg").write_text(appearance.mark(), encoding="utf-8")
    for name in SCRIPTS:
        shutil.copyfile(WEB / name, target / name)


def write_files(unit: Unit, target: Path, root: Path) -> None:
    """Write a unit's pictures and its notebook for download."""
    for name, content in unit.page.pictures.items():
        place = target / "figures" / unit.name / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    place = target / "notebooks" / unit.name / f"{unit.name}.ipynb"
    place.parent.mkdir(parents=True)
    shutil.copyfile(root / "notebooks" / unit.name / f"{unit.name}.ipynb", place)


def check_target(target: Path) -> None:
    """Raise SiteFailed for a folder that holds something else, because building the site replaces its contents."""
    ours = all((target / name).is_file() for name in ("index.html", "search.html", "sections.js"))
    if target.exists() and not ours and not (target.is_dir() and not any(target.iterdir())):
        raise SiteFailed(f"{target} is no site of ours; name a new folder")


def main(arguments: list[str]) -> int:
    target = Path(arguments[0]).resolve() if arguments else ROOT / "site"
    try:
        check_target(target)
        install_packages()
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{target.name}.", suffix=".part", dir=target.parent) as folder:
            aside = Path(folder) / target.name
            aside.mkdir()
            build(aside)
            copy_packages(aside)
            shutil.rmtree(target, ignore_errors=True)
            aside.rename(target)
    except SiteFailed as error:
        print(f"site: {error}", file=sys.stderr)
        return 2
    print(f"site: open {target / 'index.html'} in a browser")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
