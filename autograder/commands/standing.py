"""How far one has come: the verdicts on one's own notebooks for a terminal, what is next, and the course so far."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..data import Expected, Verdict
from ..exercises import unit_names
from ..handout.course_map import NoMap, Place, unit_of_map
from ..reading.course import Course
from ..text import printable
from .own_notebooks import Checked

SIGNS = {"right": ("✓", "green"), "missing": ("·", "dim"), "waiting": ("…", "cyan")}
#: Nothing more is to be done about these: what a person marks waits for that alone.
DONE = ("right", "waiting")
WIDTH = 20


def print_standing(root: Path | None, checked: Sequence[Checked], console: Console | None = None) -> None:
    """Print the exercises of each notebook that was begun, how far the course is, and what comes next."""
    console = console or Console(highlight=False)
    for item in checked:
        if len(checked) == 1 or any(verdict.verdict != "missing" for verdict in item.verdicts):
            _print_notebook(console, item)
            console.print()
    if checked:
        best = _best(checked)
        _print_course(console, _points(Course(root) if root else None, checked), best)
        _print_next(console, checked, best)


def _print_notebook(console: Console, item: Checked) -> None:
    """One line per exercise, and the words for those that are not right."""
    score, points = (sum(getattr(verdict, name) for verdict in item.verdicts) for name in ("score", "points"))
    console.print(Text.assemble((item.unit, "bold"), f"  {score:g} of {points:g} points"))
    for verdict in item.verdicts:
        sign, colour = SIGNS.get(verdict.verdict, ("!", "yellow"))
        named = f" ({verdict.mistake})" if verdict.mistake else ""
        line = f" {verdict.function}  {verdict.score:g}/{verdict.points:g}{named}"
        console.print(Text.assemble((f"  {sign} {verdict.verdict:9}", colour), printable(line)), soft_wrap=True)
        if verdict.verdict not in SIGNS:
            console.print(Padding(Text(printable(verdict.message)), (0, 0, 0, 14)))


def _best(checked: Sequence[Checked]) -> dict[str, dict[str, Verdict]]:
    """Unit -> function -> verdict; of several notebooks of one unit, the better verdict counts."""
    best: dict[str, dict[str, Verdict]] = {}
    for item in checked:
        kept = best.setdefault(item.unit, {})
        for verdict in item.verdicts:
            other = kept.get(verdict.function)
            if other is None or (verdict.verdict in DONE, verdict.score) > (other.verdict in DONE, other.score):
                kept[verdict.function] = verdict
    return best


def _points(course: Course | None, checked: Sequence[Checked]) -> dict[str, dict[str, float]]:
    """Unit -> question -> points, of what was checked and of all else that the course has, in its order."""
    found = {item.unit: item.asked.points for item in checked}
    if course is None:
        return {unit: found[unit] for unit in sorted(found)}
    for unit in course.units():
        if unit not in found and course.has(unit):
            with suppress(Expected):  # a unit that cannot be judged here is said when it is asked for
                found[unit] = course.points(unit)
    return {unit: found[unit] for unit in course.units() if unit in found}


def _print_course(console: Console, wanted: Mapping[str, Mapping[str, float]], best: dict) -> None:
    counts, scores = [0, 0], [0.0, 0.0]
    for unit in wanted:
        verdicts = best.get(unit, {}).values()
        right = sum(verdict.verdict in DONE for verdict in verdicts)
        count, points = len(wanted[unit]), sum(wanted[unit].values())
        score = sum(verdict.score for verdict in verdicts)
        counts, scores = [counts[0] + right, counts[1] + count], [scores[0] + score, scores[1] + points]
        if unit in best:
            console.print(_bar(console, unit, right, count, score, points))
    if len(best) > 1:
        console.print(_bar(console, "the course", *counts, *scores), style="bold")


def _bar(console: Console, name: str, right: int, count: int, score: float, points: float) -> Text:
    filled = right * WIDTH // max(count, 1)
    signs = "#." if console.options.ascii_only else "█░"
    return Text.assemble(
        f"{name:20} ",
        (signs[0] * filled, "green"),
        (signs[1] * (WIDTH - filled), "dim"),
        f" {right:2} of {count:2} done  {score:6.4g} of {points:3g} points",
    )


def _print_next(console: Console, checked: Sequence[Checked], best: dict[str, dict[str, Verdict]]) -> None:
    """The first exercise that is not right, and where to open it."""
    console.print()
    own = [unit for unit in best if unit not in unit_names()]
    for unit in (unit for unit in [*unit_names(), *own] if unit in best):
        open_ones = [verdict for verdict in best[unit].values() if verdict.verdict not in DONE]
        if open_ones:
            function = open_ones[0].function
            item = next(item for item in checked if item.unit == unit)
            asked = f"`def {function}(…)`" if function in item.asked.exercises else function
            place = _places(item).get(function)
            console.print(Text.assemble(("Next: ", "bold"), _words(function, place)), soft_wrap=True)
            console.print(Text(f"      open {_short(item.path)}, the cell {asked}"), soft_wrap=True)
            return
    if set(best) >= set(unit_names()):
        console.print(Text("All exercises of the course are done.", "bold green"))
        return
    last = max((unit for unit in best if unit in unit_names()), default="99")
    following = next((unit for unit in unit_names() if unit not in best and unit > last), None)
    console.print(Text("All of this is done." + (f" Next: unit {following}." if following else ""), "bold"))


def _places(item: Checked) -> dict[str, Place]:
    try:
        return {place.function: place for place in unit_of_map(item.unit, item.asked.release).places}
    except NoMap:  # a unit that somebody is writing
        return {}


def _words(function: str, place: Place | None) -> str:
    if place is None:
        return function
    return f"exercise {place.number}, {function}, about {place.minutes} minutes, in “{place.section}”"


def _short(path: Path) -> str:
    """The path as one would type it here, and nothing in it that a terminal would act on."""
    relative = os.path.relpath(path)
    return printable(str(path) if relative.startswith("..") else relative)
