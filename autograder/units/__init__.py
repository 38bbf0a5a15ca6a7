"""The course's exercises, unit by unit, found by the names of units and functions."""

from __future__ import annotations

from importlib import import_module

from ..exercise import Exercise

#: Unit folder -> the module that holds its exercises.
MODULES = {
    "01_projections": "unit_01_projections",
    "02_scaled_scores": "unit_02_scaled_scores",
    "03_masking": "unit_03_masking",
    "04_multi_head": "unit_04_multi_head",
    "05_mqa_gqa": "unit_05_mqa_gqa",
    "06_cross_attention": "unit_06_cross_attention",
    "07_transformer_block": "unit_07_transformer_block",
    "08_induction_heads": "unit_08_induction_heads",
    "09_gpu_speed": "unit_09_gpu_speed",
}


class UnknownUnit(ValueError):
    """A unit that this course does not have."""


def unit_names() -> list[str]:
    """All units, in the order of the course."""
    return list(MODULES)


def exercises(unit: str) -> dict[str, Exercise]:
    """The exercises of one unit, function name -> exercise, in the order of its notebook."""
    if unit not in MODULES:
        raise UnknownUnit(f"there is no unit {unit!r}; the units are {', '.join(MODULES)}")
    module = import_module(f".{MODULES[unit]}", __name__)
    return {exercise.name: exercise for exercise in module.EXERCISES}


def find_exercise(function: str) -> Exercise:
    """The exercise of one function, whatever its unit."""
    for unit in MODULES:
        found = exercises(unit).get(function)
        if found is not None:
            return found
    raise KeyError(f"no unit grades a function named {function!r}")
