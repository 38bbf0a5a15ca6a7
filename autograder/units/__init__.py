"""Old place of `exercises`; goes when nothing imports it any more."""

from ..exercises import (
    UnknownUnit,
    _digest,
    digest,
    exercises,
    find_exercise,
    find_unit,
    is_exercise,
    place_of,
    unit_names,
)

__all__ = [
    "MODULES",
    "UnknownUnit",
    "_digest",
    "digest",
    "exercises",
    "find_exercise",
    "find_unit",
    "is_exercise",
    "unit_names",
]
MODULES = {unit: place_of(unit).removeprefix("autograder/").removesuffix(".py") for unit in unit_names()}
