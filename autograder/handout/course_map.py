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

EXERCISE = re.compile(r"\*\*Exercise ([\d.]+) · `(\w+)`\*\* · ([●○]+) · (\d+) min([^\n]*)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


class NoMap(Expected):
    """A notebook that does not say what the map needs: one line with the remedy."""


@dataclass(frozen=True)
class Place:
    """Where an exercise stands: its number, the heading above it, how hard it is, its minutes and its points.

    challenge: whether it is one, which nothing later needs.
    """

    function: str
    number: str
    section: str
    level: str
    minutes: int
    points: float
    challenge: bool = False


@dataclass(frozen=True)
class UnitOfMap:
    """One unit. builds_on: the units that its first cell names. others: questions of the instructor's own.

    minutes: of its core, which the next units need. challenge_minutes: of what asks for more thought.
    """

    name: str
    title: str
    minutes: int
    builds_on: tuple[str, ...]
    places: tuple[Place, ...]
    others: tuple[Question, ...] = ()
    challenge_minutes: int = 0

    @property
    def number(self) -> str:
        return self.name[:2].lstrip("0")

    @property
    def points(self) -> float:
        return sum(asked.points for asked in (*self.places, *self.others))

    @property
    def challenges(self) -> tuple[Place, ...]:
        return tuple(place for place in self.places if place.challenge)

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
    challenging = re.search(r"\*\*Time\*\*[^\n]*?challenges?[^\d\n]*(\d+)", first)
    before = tuple(dict.fromkeys(re.findall(r"(\d\d_\w+)\.ipynb", builds_on[1])))
    asked = questions_of(name, release)
    wanted = {question.name: question for question in asked if question.kind == JUDGED}
    others = tuple(question for question in asked if question.kind != JUDGED)
    places, more = _places(name, cells, wanted), int(challenging[1]) if challenging else 0
    return UnitOfMap(name, title[1], int(minutes[1]), before, places, others, more)


def _places(unit: str, cells: Sequence[str], wanted: Mapping[str, Question]) -> tuple[Place, ...]:
    found = []
    section = ""
    for cell in cells:
        marks = [*HEADING.finditer(cell), *EXERCISE.finditer(cell)]
        for mark in sorted(marks, key=lambda match: match.start()):
            if mark.re is HEADING:
                section = mark[1]
            elif mark[2] in wanted:
                number, function, level, minutes, rest = mark.groups()
                points, challenge = wanted[function].points, "challenge" in rest
                found.append(Place(function, number, section, level, int(minutes), points, challenge))
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
    lines = ["| unit | what it is about | builds on | core | challenges |", "|---|---|---|---|---|"]
    for unit in units:
        name, _, about = unit.title.partition(": ")
        link = f"[{unit.number} · {name}]({folder}{unit.name}/{unit.name}.ipynb)"
        before = ", ".join(other[:2].lstrip("0") for other in unit.builds_on) or "–"
        lines.append(f"| {link} | {about} | {before} | {' | '.join(_sums([unit]))} |")
    lines.append(f"| **all** | | | {' | '.join(f'**{each}**' for each in _sums(units))} |")
    return "\n".join(lines)


def _sums(units: Sequence[UnitOfMap]) -> tuple[str, str]:
    """Exercises, minutes and points of the core and of the challenges, in words."""
    hard = [place for unit in units for place in unit.challenges]
    count, points = sum(unit.count for unit in units), sum(unit.points for unit in units)
    worth = sum(place.points for place in hard)
    minutes, more = sum(unit.minutes for unit in units), sum(unit.challenge_minutes for unit in units)
    core = f"{count - len(hard)} exercises, {minutes} min, {points - worth:g} points"
    return core, f"{len(hard)}, {more} min, {worth:g} points" if hard else "–"
