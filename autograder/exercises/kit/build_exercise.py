"""Builds an `Exercise` from the parts in an exercise's file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from typing import Any

import numpy as np

from .common_cases import EDGES, everywhere, of_equal_sizes
from .draw_cases import Cases
from .exercise_records import Case, Exercise, Leaf
from .forbidden_names import NOT_IN_NUMPY_UNITS, NOT_IN_TORCH_UNITS
from .known_mistake import Row, read_rows
from .named_sizes import SMALL


def exercise(
    reference: Callable[..., Any],
    cases: Callable[[Cases], Iterable[Case]] | None = None,
    mistakes: Iterable[Row] | None = None,
    *,
    credit: Mapping[str, float],
    sizes: Sequence[int] = SMALL,
    ranges: Mapping[str, Sequence[int]] | None = None,
    least: Mapping[str, int] | None = None,
    slipped: Callable[..., Any] | None = None,
    library: str = "numpy",
    **fields: Any,
) -> Exercise:
    """Build the exercise named after `reference`, for the unit whose package contains it.

    By default it uses `cases`, `MISTAKES` and `plain` from the file of the reference.

    reference: its annotations say how arguments are drawn and, after the arrow, what it returns.
    cases: yields what `case(…)` returns, the plainest first; see the guide in `kit`.
    mistakes: rows (slug, how, advice), the most typical first; the first that explains an answer is reported.
    sizes, ranges: what sizes are drawn from: `ranges` for the sizes that it names, `sizes` for the others.
    least: sizes that can't be 1 when all others are, such as those that must be even.
    slipped: does the whole exercise and takes the keyword arguments of rows whose `how` is a dict.
    credit, library and all other fields: as in `Exercise`; `forbidden` defaults to the usual names of the library.
    Raises TypeError or ValueError if a part is not valid.
    """

    cases = _of_file(reference, "cases") if cases is None else cases
    mistakes = _of_file(reference, "MISTAKES") if mistakes is None else mistakes

    @wraps(cases)
    def draw(rng: np.random.Generator) -> list[Case]:
        return list(cases(case(rng)))

    def case(rng: np.random.Generator) -> Cases:
        return Cases(reference, rng, sizes, ranges or {}, library)

    def probes(rng: np.random.Generator) -> list[Case]:
        try:
            return of_equal_sizes(case(rng))
        except (TypeError, ValueError):  # its cases draw arguments that the annotations don't describe
            return []

    def general(rng: np.random.Generator, plainest: Case) -> list[Case]:
        found = []
        with contextlib.suppress(TypeError, ValueError):
            for each in everywhere(case(rng), plainest, EDGES if EDGES in credit else next(iter(credit)), least or {}):
                found.append(each)
        return found

    fields.setdefault("plain", reference.__globals__.get("plain"))
    fields.setdefault("forbidden", NOT_IN_TORCH_UNITS if library == "torch" else NOT_IN_NUMPY_UNITS)
    return Exercise(
        name=reference.__name__,
        unit=_unit_of(reference),
        returns=_returns(reference),
        reference=reference,
        draw=draw,
        probes=probes,
        general=None if {"examine", "experiment"} & fields.keys() else general,
        credit=credit,
        mistakes=read_rows(mistakes, slipped),
        library=library,
        **fields,
    )


def in_order(package: str, *files: str) -> tuple[Exercise, ...]:
    """Return the exercises in these files of a unit's package, in the order of its notebook."""
    return tuple(import_module(f".{file}", package).EXERCISE for file in files)


def _of_file(reference: Callable[..., Any], name: str) -> Any:
    """Return the object called `name` in the file of the reference. Raise TypeError if there isn't one."""
    if name not in reference.__globals__:
        raise TypeError(f"{reference.__name__}: its file has no {name}, and `exercise` is given none")
    return reference.__globals__[name]


def _unit_of(reference: Callable[..., Any]) -> str:
    """Return "01_projections" for a function in the package u01_projections."""
    return reference.__module__.split(".")[-2].removeprefix("u")


def _returns(reference: Callable[..., Any]) -> Leaf | tuple[Any, ...]:
    found = reference.__annotations__.get("return")
    if not isinstance(found, (Leaf, tuple)):
        raise TypeError(f"{reference.__name__}: behind the arrow stands a Leaf, or a tuple of them, not {found!r}")
    return found
