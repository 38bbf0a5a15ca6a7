"""Reads a unit for the site: its entry in the map of the course, its page, and its sections for the search."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from autograder.exercises import unit_names
from autograder.handout.course_map import NoMap, unit_of_map
from autograder.records import BadAssignment

from . import SiteFailed
from .cells import Notebook, lab
from .prose import Page, words

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Unit:
    """A unit's entry in the map of the course, and its page.

    exercises: the functions as (number, name, stars, minutes), in the order of the notebook.
    figures: what a cell displayed, by its id, if it contains a figure.
    """

    name: str
    title: str
    minutes: int
    builds_on: list[str]
    exercises: list[tuple[str, str, str, int]]
    page: Page
    content: str = ""
    sections: list[dict[str, str]] = field(default_factory=list)
    figures: dict[str, str] = field(default_factory=dict)

    @property
    def number(self) -> str:
        return self.name[:2].lstrip("0")

    @property
    def lab(self) -> str:
        """Return the address at which JupyterLab shows its notebook."""
        return lab(self.name)


def read_unit(name: str, root: Path = ROOT) -> Unit:
    """Read one unit and render everything but its formulas. Raises SiteFailed."""
    release, solution = (
        nbformat.read(root / folder / name / f"{name}.ipynb", as_version=4) for folder in ("notebooks", "solutions")
    )
    try:
        place = unit_of_map(name, release)
        page = Page(name, link_of(name))
        notebook = Notebook(release, {cell.id: cell for cell in solution.cells}, page)
    except (NoMap, BadAssignment) as error:
        raise SiteFailed(str(error)) from None
    title = f"Unit {place.number} · {place.title}"
    found = [(entry.number, entry.function, entry.level, entry.minutes) for entry in place.places]
    unit = Unit(name, title, place.minutes, list(place.builds_on), found, page)
    unit.content, unit.figures = notebook.html(), notebook.figures
    unit.sections = [*sections(unit), *announcements(unit)]
    return unit


def link_of(name: str) -> Callable[[str, str], str]:
    """Return a function that turns links between notebooks into links between pages; others must be full addresses."""

    def link(target: str, cell: str) -> str:
        path, hash_, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return target
        stem = path.rpartition("/")[2].removesuffix(".ipynb")
        if path.endswith(".ipynb"):
            return f"{stem if stem in unit_names() else 'index'}.html{hash_}{anchor}"
        raise SiteFailed(f"{name}, cell {cell}: the site has nothing for the link {target}")

    return link


def sections(unit: Unit) -> list[dict[str, str]]:
    """Split the unit at its headings, for the search."""
    parts = re.split(r'(?=<h[1-6] id=")', unit.content)[1:]
    found = []
    for heading, part in zip(unit.page.headings, parts, strict=True):
        body = part.partition(f"</h{heading.level}>")[2]
        names = " ".join(re.findall(r'id="exercise-(\w+)"', body))
        found.append(
            {
                "id": f"{unit.name}.html#{heading.anchor}",
                "title": words(heading.text, unit.page),
                "unit": unit.title if heading.level > 1 else "",
                "text": f"{words(body, unit.page)} {names}".strip(),
            }
        )
    return found


def announcements(unit: Unit) -> list[dict[str, str]]:
    """Return the exercises as separate entries, so that a search for a function's name leads to its exercise."""
    found = []
    for number, name, _, _ in unit.exercises:
        text = re.split(r'<details|<div class="answer"', unit.content.partition(f'id="line-{name}">')[2])[0]
        found.append(
            {
                "id": f"{unit.name}.html#exercise-{name}",
                "title": f"Exercise {number} · {name}",
                "unit": unit.title,
                "text": words(text.partition("</p>")[2], unit.page),
            }
        )
    return found
