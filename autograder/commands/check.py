"""Implements `autograder check`: judges one's own notebooks without a gradebook, shows progress and what is next."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from nbformat import NotebookNode
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..exercises import find_exercise, is_exercise, title_of_mistake, unit_names
from ..handout.course_map import Place, unit_of_map
from ..reading.course_contents import Course
from ..reading.read_assignment import our_notebook
from ..records import Expected, Verdict
from ..safe_text import printable
from .command_helpers import GRADED, UNUSABLE, course_if_any
from .grade_own_notebooks import Checked, check_notebooks, chosen, whose_judge


def run(options: argparse.Namespace) -> int:
    """Judge the notebooks, and show what is next."""
    root = course_if_any(options)
    paths = chosen(root, options.notebooks, Path.cwd())
    if sys.stderr.isatty():  # a terminal, or a cell of a notebook: somebody is waiting
        what = paths[0].stem if len(paths) == 1 else f"{len(paths)} notebooks"
        print(f"autograder: judging {printable(what)} …", file=sys.stderr, flush=True)
    found = check_notebooks(root, paths)
    if options.json:
        print(json.dumps([verdict.as_json(None) for item in found.checked for verdict in item.verdicts], indent=1))
    else:
        print_standing(root, found.checked)
    judge = whose_judge(root, found.checked)
    options.said = bool(judge) or not found.checked  # a refusal names its file
    for line in [*found.problems, *found.remarks, *filter(None, [judge])]:
        print(f"autograder: {line}", file=sys.stderr)
    return UNUSABLE if found.problems else GRADED


SIGNS = {"right": ("✓", "green"), "missing": ("·", "dim"), "waiting": ("…", "cyan")}
#: These need no more work: an answer that a person marks waits only for the mark.
DONE = ("right", "waiting")
WIDTH = 10


def print_standing(root: Path | None, checked: Sequence[Checked]) -> None:
    """Print the exercises of each notebook that was begun, the progress in the course, and what comes next."""
    console = Console(highlight=False)
    for item in checked:
        if len(checked) == 1 or any(verdict.verdict != "missing" for verdict in item.verdicts):
            _print_notebook(console, item)
            console.print()
    if checked:
        best, course = _best(checked), Course(root) if root else None
        challenges = _challenges(course, checked)
        _print_course(console, _points(course, checked), best, challenges)
        _print_next(console, checked, best, challenges)


def _print_notebook(console: Console, item: Checked) -> None:
    """Print one line per exercise, and the message for those that are not right."""
    score, points = (sum(getattr(verdict, name) for verdict in item.verdicts) for name in ("score", "points"))
    console.print(Text.assemble((item.unit, "bold"), f"  {score:g} of {points:g} points"))
    by_name = {verdict.function: verdict for verdict in item.verdicts}
    for verdict in item.verdicts:
        sign, colour = SIGNS.get(verdict.verdict, ("!", "yellow"))
        named = f" ({title_of_mistake(verdict.mistake, verdict.function, item.unit)})" if verdict.mistake else ""
        within = _container(verdict, by_name)
        done = f": done within {within}" if within else ""
        line = f" {verdict.function}  {verdict.score:g}/{verdict.points:g}{named}{done}"
        console.print(Text.assemble((f"  {sign} {verdict.verdict:9}", colour), printable(line)), soft_wrap=True)
        if verdict.verdict not in SIGNS:
            console.print(Padding(Text(printable(verdict.message)), (0, 0, 0, 14)))


def _best(checked: Sequence[Checked]) -> dict[str, dict[str, Verdict]]:
    """Return unit -> function -> verdict; of several notebooks of one unit, the better verdict counts."""
    best: dict[str, dict[str, Verdict]] = {}
    for item in checked:
        kept = best.setdefault(item.unit, {})
        for verdict in item.verdicts:
            other = kept.get(verdict.function)
            if other is None or (verdict.verdict in DONE, verdict.score) > (other.verdict in DONE, other.score):
                kept[verdict.function] = verdict
    return best


def _points(course: Course | None, checked: Sequence[Checked]) -> dict[str, dict[str, float]]:
    """Return unit -> question -> points, of what was checked and of the course's other units, in the course's order."""
    found = {item.unit: item.asked.points for item in checked}
    if course is None:
        return {unit: found[unit] for unit in sorted(found)}
    for unit in course.units():
        if unit not in found and course.has(unit):
            with suppress(Expected):  # `check` reports a unit that cannot be judged here when it is named
                found[unit] = course.points(unit)
    return {unit: found[unit] for unit in course.units() if unit in found}


def _print_course(
    console: Console,
    wanted: Mapping[str, Mapping[str, float]],
    best: Mapping[str, Mapping[str, Verdict]],
    challenges: Collection[str],
) -> None:
    everything = _Tally()
    for unit in wanted:
        tally = _Tally.of(wanted[unit], best.get(unit, {}), challenges)
        everything = everything.with_(tally)
        if unit in best:
            console.print(_bar(console, unit, tally))
    if len(best) > 1:
        console.print(_bar(console, "the course", everything), style="bold")


@dataclass(frozen=True)
class _Tally:
    """Counts how many exercises are done, of how many, and the points."""

    core: int = 0
    cores: int = 0
    challenge: int = 0
    challenges: int = 0
    score: float = 0.0
    points: float = 0.0

    @classmethod
    def of(cls, wanted: Mapping[str, float], verdicts: Mapping[str, Verdict], challenges: Collection[str]) -> _Tally:
        done = [name for name, verdict in verdicts.items() if verdict.verdict in DONE or _container(verdict, verdicts)]
        return cls(
            sum(name not in challenges for name in done),
            sum(name not in challenges for name in wanted),
            sum(name in challenges for name in done),
            sum(name in challenges for name in wanted),
            sum(verdict.score for verdict in verdicts.values()),
            sum(wanted.values()),
        )

    def with_(self, other: _Tally) -> _Tally:
        return _Tally(*(one + more for one, more in zip(astuple(self), astuple(other), strict=True)))


def _container(verdict: Verdict, others: Mapping[str, Verdict]) -> str:
    """Return a right answer that contains a missing exercise and borrows no such part from the course; "" if none."""
    if verdict.verdict != "missing":
        return ""
    for name, other in others.items():
        found = find_exercise(name, other.unit) if is_exercise(name, other.unit) else None
        within = found is not None and verdict.function in found.contains
        if within and other.verdict == "right" and not set(found.contains) & set(other.borrowed):
            return name
    return ""


def _bar(console: Console, name: str, tally: _Tally) -> Text:
    done, count = tally.core + tally.challenge, tally.cores + tally.challenges
    filled = done * WIDTH // max(count, 1)
    signs = "#." if console.options.ascii_only else "█░"
    more = f"  challenges {tally.challenge}/{tally.challenges}" if tally.challenges else ""
    return Text.assemble(
        f"{name:20} ",
        (signs[0] * filled, "green"),
        (signs[1] * (WIDTH - filled), "dim"),
        f" core {tally.core}/{tally.cores}{more}  {tally.score:.4g} of {tally.points:g} points",
    )


def _print_next(
    console: Console,
    checked: Sequence[Checked],
    best: Mapping[str, Mapping[str, Verdict]],
    challenges: Collection[str],
) -> None:
    """Print the first exercise that is not right, and where to open it: core exercises come before challenges."""
    console.print()
    own = [unit for unit in best if unit not in unit_names()]
    left = [
        (unit, verdict.function)
        for unit in (unit for unit in [*unit_names(), *own] if unit in best)
        for verdict in best[unit].values()
        if verdict.verdict not in DONE and not _container(verdict, best[unit])
    ]
    for unit, function in sorted(left, key=lambda entry: entry[1] in challenges)[:1]:
        item = next(item for item in checked if item.unit == unit)
        asked = f"`def {function}(…)`" if function in item.asked.exercises else function
        place = _places(item.unit, item.asked.release).get(function)
        if function in challenges:
            console.print(Text("All of the core is done; challenges are left.", "bold green"))
        console.print(Text.assemble(("Next: ", "bold"), _words(function, place)), soft_wrap=True)
        console.print(Text(f"      open {_short(item.path)}, the cell {asked}"), soft_wrap=True)
        return
    if set(best) >= set(unit_names()):
        console.print(Text("All exercises of the course are done.", "bold green"))
        return
    last = max((unit for unit in best if unit in unit_names()), default="99")
    following = next((unit for unit in unit_names() if unit not in best and unit > last), None)
    console.print(Text("All of this is done." + (f" Next: unit {following}." if following else ""), "bold"))


def _challenges(course: Course | None, checked: Sequence[Checked]) -> set[str]:
    """Return the functions that the notebooks call challenges, of what was checked and of the course's other units."""
    releases = {item.unit: item.asked.release for item in checked}
    for unit in course.units() if course else ():
        if unit not in releases and course.has(unit):
            with suppress(ValueError, OSError):
                releases[unit] = our_notebook(course.path(unit).read_text(encoding="utf-8"))
    return {name for unit in releases for name, place in _places(unit, releases[unit]).items() if place.challenge}


def _places(unit: str, release: NotebookNode) -> dict[str, Place]:
    try:
        return {place.function: place for place in unit_of_map(unit, release).places}
    except Expected:  # somebody may still be writing the unit
        return {}


def _words(function: str, place: Place | None) -> str:
    if place is None:
        return function
    return f"exercise {place.number}, {function}, about {place.minutes} minutes, in “{place.section}”"


def _short(path: Path) -> str:
    """Return the path as one would type it here, without anything that a terminal would act on."""
    relative = os.path.relpath(path)
    return printable(str(path) if relative.startswith("..") else relative)
