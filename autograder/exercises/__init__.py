"""The course's exercises, unit by unit, found by the names of units and functions.

A unit is a package beside this file: u01_projections holds "01_projections". It is imported when first asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ..expected import Expected
from .kit import Exercise

#: Units that are still one module each, in autograder/units; goes when the last one has become a package.
_MODULES = {
    "02_scaled_scores": "unit_02_scaled_scores",
    "03_masking": "unit_03_masking",
    "04_multi_head": "unit_04_multi_head",
    "07_transformer_block": "unit_07_transformer_block",
    "08_induction_heads": "unit_08_induction_heads",
    "09_gpu_speed": "unit_09_gpu_speed",
}


class UnknownUnit(Expected):
    """A unit that this course does not have, or not in full: one line with what is missing."""


@cache
def _packages() -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in Path(__file__).parent.glob("u[0-9][0-9]_*/__init__.py")))


def unit_names() -> list[str]:
    """All units, in the order of the course."""
    return sorted({*(package.removeprefix("u") for package in _packages()), *_MODULES})


def find_unit(name: str, units: Sequence[str]) -> str:
    """One of `units` by its name, its number or the start of its name. Raises UnknownUnit."""
    if name in units:
        return name
    found = [unit for unit in unit_names() if unit.partition("_")[0].lstrip("0") == name.lstrip("0")]
    found = found or [unit for unit in units if name and unit.startswith(name)]
    if len(found) > 1:
        raise UnknownUnit(f"{name!r} is the start of several units: {', '.join(found)}")
    if not found:
        raise UnknownUnit(f"there is no unit {name!r}; the units are {', '.join(units)}")
    return found[0]


def exercises(unit: str) -> dict[str, Exercise]:
    """The exercises of one unit, function name -> exercise, in the order of its notebook."""
    if unit not in unit_names():
        raise UnknownUnit(f"there is no unit {unit!r}; the units are {', '.join(unit_names())}")
    place, listed = place_of(unit), getattr(_load(unit), "EXERCISES", None)
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
    """The file, from the course folder, that lists a unit's exercises."""
    if f"u{unit}" in _packages():
        return f"autograder/exercises/u{unit}/__init__.py"
    return f"autograder/units/{_MODULES[unit]}.py"


def _load(unit: str) -> ModuleType:
    if f"u{unit}" in _packages():
        return import_module(f".u{unit}", __name__)
    return import_module(f"..units.{_MODULES[unit]}", __name__)


def digest(functions: Sequence[str], unit: str = "") -> str:
    """Of the code that judges these functions: another one may judge the same answer otherwise.

    unit: where to look for them first.
    """
    return _digest(frozenset(find_exercise(function, unit).unit for function in functions))


@cache
def _digest(units: frozenset[str]) -> str:
    here = Path(__file__).parent
    others = {f"{start}{unit}" for unit in unit_names() if unit not in units for start in ("u", "unit_")}
    files = sorted(here.parent.rglob("*.py"))
    used = [path for path in files if path.stem not in others and path.parent.name not in others]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in used)).hexdigest()


def find_exercise(function: str, unit: str = "") -> Exercise:
    """The exercise of one function, whatever its unit; `unit` is where to look first. Raises KeyError."""
    for name in sorted(unit_names(), key=lambda other: other != unit):
        found = exercises(name).get(function)
        if found is not None:
            return found
    raise KeyError(f"no unit grades a function named {function!r}")


def is_exercise(function: str, unit: str = "") -> bool:
    """Whether the course grades a function of this name; `unit` is where to look first."""
    try:
        find_exercise(function, unit)
    except KeyError:
        return False
    return True
