"""The map of the course, read from the notebooks themselves: units, what each builds on, minutes, exercises."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from ..data import EXERCISE as JUDGED
from ..data import Expected, Question
from ..exercises import unit_names
from ..reading.assignment import questions_of

EXERCISE = re.compile(r"\*\*Exercise ([\d.]+) · `(\w+)`\*\* · ([●○]+) · (\d+) min")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


class NoMap(Expected):
    """A notebook that does not say what the map needs: one line with the remedy."""


@dataclass(frozen=True)
class Place:
    """Where an exercise stands: its number, the heading above it, how hard it is, its minutes and its points."""

    function: str
    number: str
    section: str
    level: str
    minutes: int
    points: float


@dataclass(frozen=True)
class UnitOfMap:
    """One unit. builds_on: the units that its first cell names. others: questions of the instructor's own."""

    name: str
    title: str
    minutes: int
    builds_on: tuple[str, ...]
    places: tuple[Place, ...]
    others: tuple[Question, ...] = ()

    @property
    def number(self) -> str:
        return self.name[:2].lstrip("0")

    @property
    def points(self) -> float:
        return sum(asked.points for asked in (*self.places, *self.others))

    @property
    def count(self) -> int:
        return len(self.places) + len(self.others)


def unit_of_map(name: str, release: NotebookNode) -> UnitOfMap:
    """Read one unit's release. Raises NoMap."""
    cells = [cell.source for cell in release.cells if cell.cell_type == "markdown"]
    first = cells[0] if cells else ""
    wanted = {
        "# Unit N · title": re.search(r"^# Unit \d+ · (.+)$", first, re.MULTILINE),
        "**Time**: about N minutes": re.search(r"\*\*Time\*\*[^\d]*(\d+) minutes", first),
        "**Builds on** …": re.search(r"\*\*Builds on\*\*(.*?)(\*\*|Since|\n\n|\Z)", first, re.DOTALL),
    }
    missing = [f"“{words}”" for words, found in wanted.items() if found is None]
    if missing:
        raise NoMap(f"{name}: its first Markdown cell lacks {' and '.join(missing)}")
    title, minutes, builds_on = wanted.values()
    before = tuple(dict.fromkeys(re.findall(r"(\d\d_\w+)\.ipynb", builds_on[1])))
    asked = questions_of(name, release)
    wanted = {question.name: question for question in asked if question.kind == JUDGED}
    others = tuple(question for question in asked if question.kind != JUDGED)
    return UnitOfMap(name, title[1], int(minutes[1]), before, _places(name, cells, wanted), others)


def _places(unit: str, cells: Sequence[str], wanted: Mapping[str, Question]) -> tuple[Place, ...]:
    found = []
    section = ""
    for cell in cells:
        marks = [*HEADING.finditer(cell), *EXERCISE.finditer(cell)]
        for mark in sorted(marks, key=lambda match: match.start()):
            if mark.re is HEADING:
                section = mark[1]
            elif mark[2] in wanted:
                number, function, level, minutes = mark.groups()
                found.append(Place(function, number, section, level, int(minutes), wanted[function].points))
    lines = [place.function for place in found]
    for function in wanted:
        if lines.count(function) != 1:
            wrong = "two lines" if function in lines else "no line"
            raise NoMap(f"{unit}: {function} has {wrong} like “**Exercise N.M · `{function}`** · ●○○ · N min”")
    return tuple(found)


def course_map(root: Path, units: Sequence[str] = ()) -> list[UnitOfMap]:
    """All units of the course folder `root`, or some, read from `notebooks/`. Raises NoMap and FileNotFoundError."""
    paths = {name: root / "notebooks" / name / f"{name}.ipynb" for name in units or unit_names()}
    return [unit_of_map(name, nbformat.read(path, as_version=4)) for name, path in paths.items()]


def table(units: Sequence[UnitOfMap], folder: str = "") -> str:
    """The map as a table in Markdown. folder: what stands before a unit's folder in its link, as in `notebooks/`."""
    lines = ["| unit | what it is about | builds on | minutes | exercises | points |", "|---|---|---|---|---|---|"]
    for unit in units:
        name, _, about = unit.title.partition(": ")
        link = f"[{unit.number} · {name}]({folder}{unit.name}/{unit.name}.ipynb)"
        before = ", ".join(other[:2].lstrip("0") for other in unit.builds_on) or "–"
        lines.append(f"| {link} | {about} | {before} | {unit.minutes} | {unit.count} | {unit.points:g} |")
    minutes, points = sum(unit.minutes for unit in units), sum(unit.points for unit in units)
    count = sum(unit.count for unit in units)
    lines.append(f"| **all** | | | **{minutes}** | **{count}** | **{points:g}** |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(course_map(Path(__file__).resolve().parents[2]), "notebooks/"))
