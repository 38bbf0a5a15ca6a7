"""Finds the course's exercises by the names of units and functions.

A unit is a package in this folder: u01_projections holds "01_projections". It is imported when it is first needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path

from ..records import UnknownUnit
from .kit.exercise_records import Exercise
from .kit.mistake_titles import title_of


@cache
def _units() -> tuple[str, ...]:
    packages = sorted(path.parent.name for path in Path(__file__).parent.glob("u[0-9][0-9]_*/__init__.py"))
    return tuple(package.removeprefix("u") for package in packages)


def unit_names() -> list[str]:
    """Return the names of all units in course order."""
    return list(_units())


def find_unit(name: str, units: Sequence[str]) -> str:
    """Return the unit of `units` with this name, number or start of a name. Raise UnknownUnit if there is none."""
    if name in units:
        return name
    found = [unit for unit in unit_names() if unit.partition("_")[0].lstrip("0") == name.lstrip("0")]
    found = found or [unit for unit in units if name and unit.startswith(name)]
    if len(found) > 1:
        raise UnknownUnit(f"{name!r} is the start of several units: {', '.join(found)}")
    if not found:
        last = unit_names()[-1].partition("_")[0]
        own = [unit for unit in units if unit not in unit_names()]
        more = f", and your own are {', '.join(own)}" if own else ""
        near = get_close_matches(name, units, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; units are 1 to {int(last)}{more}"
        raise UnknownUnit(f"there is no unit {name!r}{hint}")
    return found[0]


def exercises(unit: str) -> dict[str, Exercise]:
    """Return the exercises of a unit as function name -> exercise, in the order of its notebook."""
    if unit not in unit_names():
        raise UnknownUnit(f"there is no unit {unit!r}; the units are {', '.join(unit_names())}")
    place, listed = place_of(unit), getattr(import_module(f".u{unit}", __name__), "EXERCISES", None)
    if not listed:
        raise UnknownUnit(f"{place} lacks EXERCISES, a tuple of its exercises in the order of the notebook")
    found = {exercise.name: exercise for exercise in listed}
    if len(found) < len(listed):
        raise UnknownUnit(f"{place}: two of EXERCISES share a name")
    for exercise in listed:
        if exercise.unit != unit:
            raise UnknownUnit(f"{place}: {exercise.name} says that its unit is {exercise.unit!r}, not {unit!r}")
    return found


def place_of(unit: str) -> str:
    """Return the path, relative to the course folder, of the file that lists a unit's exercises."""
    return f"autograder/exercises/u{unit}/__init__.py"


def digest(functions: Sequence[str], unit: str = "") -> str:
    """Return a digest of the code that grades these functions; other code may grade the same answer differently.

    unit: where to look for the functions first.
    """
    return _digest(frozenset(find_exercise(function, unit).unit for function in functions))


@cache
def _digest(units: frozenset[str]) -> str:
    here = Path(__file__).parent
    others = {f"u{unit}" for unit in unit_names() if unit not in units}
    used = [path for path in sorted(here.parent.rglob("*.py")) if path.parent.name not in others]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in used)).hexdigest()


def find_exercise(function: str, unit: str = "") -> Exercise:
    """Return the exercise of a function; look in `unit` first. Raise KeyError if no unit has it."""
    for name in sorted(unit_names(), key=lambda other: other != unit):
        if _declares(name, function):
            return exercises(name)[function]
    raise KeyError(f"no unit grades a function named {function!r}")


def is_exercise(function: str, unit: str = "") -> bool:
    """Return whether the course grades a function of this name; look in `unit` first."""
    return any(_declares(name, function) for name in sorted(unit_names(), key=lambda other: other != unit))


def title_of_mistake(slug: str, function: str, unit: str = "") -> str:
    """Return the title that people read for a mistake in the answer to a function."""
    known = find_exercise(function, unit).mistakes if is_exercise(function, unit) else ()
    return title_of(slug, function, any(mistake.slug == slug for mistake in known))


@cache
def _declares(unit: str, function: str) -> bool:
    """Return whether a unit has a file for this exercise, without loading it, because loading may need much more."""
    path = Path(__file__).parent / f"u{unit}" / f"{function}.py"
    return function.isidentifier() and path.is_file() and "\nEXERCISE = " in path.read_text(encoding="utf-8")
