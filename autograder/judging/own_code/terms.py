"""Counts that are sums of products: which term of a student's is not due, or comes another number of times."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...data import Finding
from ...exercises.kit.records import Case
from ..posed import Posed
from .program import OwnProgram

#: The sizes that are tried for each argument: a polynomial of degree 2 in each is known by three.
TRIED = (3, 5, 11)
#: Where it is tried whether it is one at all.
BEYOND = (7, 13)
MOST = 6

#: How often each argument is a factor -> how often the product is added.
Terms = Mapping[tuple[int, ...], Fraction]


def terms_apart(posed: Posed, wrong: Sequence[int], own: OwnProgram) -> Finding | None:
    """What is found where every argument is a whole number or a flag, and both programs only add and multiply them."""
    returns = posed.exercise.leaves
    if len(returns) != 1 or returns[0].kind not in ("int", "float"):
        return None
    case = posed.cases[wrong[0]]
    names = [*case.kwargs, *range(len(case.args))]
    given = {**case.kwargs, **dict(enumerate(case.args))}
    if not all(isinstance(given[name], (bool, int, type(None))) for name in names):
        return None
    sizes = [name for name in names if type(given[name]) is int]
    if not 1 <= len(sizes) <= MOST:
        return None
    points = [*itertools.product(TRIED, repeat=len(sizes)), *_beyond(len(sizes))]
    cases = [_with(case, dict(zip(sizes, point, strict=True))) for point in points]
    key = ("terms", *(value for value in given.values() if type(value) is not int), *sizes)
    if key not in posed.notes:
        posed.notes[key] = _terms([posed.reference_on(each).value for each in cases], len(sizes))
    ours = posed.notes[key]
    if ours is None:
        return None
    asked = posed.part([wrong[0]])
    asked.cases, asked.expected = cases, [asked.expected[0]] * len(cases)
    (calls,) = own.calls([own.text()], asked) or ([],)
    found = [call.value if call.failure is None else None for call in calls]
    parameters = list(inspect.signature(posed.exercise.reference).parameters)
    words = [name if isinstance(name, str) else parameters[name] for name in sizes]
    theirs = _terms(found, len(sizes))
    return _told(theirs, ours, words) if theirs else None


def _beyond(count: int) -> Iterator[tuple[int, ...]]:
    for first in range(2):
        yield tuple(BEYOND[(first + index) % 2] + index for index in range(count))


def _with(case: Case, sizes: Mapping[Any, int]) -> Case:
    args = tuple(sizes.get(place, value) for place, value in enumerate(case.args))
    kwargs = {name: sizes.get(name, value) for name, value in case.kwargs.items()}
    return replace(case, args=args, kwargs=kwargs, once=True)


def _terms(values: Sequence[Any], count: int) -> Terms | None:
    """The terms of the polynomial that has these values; None where it is none."""
    if len(values) < len(TRIED) ** count or not all(_is_whole(value) for value in values):
        return None
    grid = np.array([Fraction(int(value)) for value in values[: len(TRIED) ** count]], dtype=object)
    grid = grid.reshape((len(TRIED),) * count)
    for axis in range(count):
        grid = np.moveaxis(np.tensordot(INVERSE, np.moveaxis(grid, axis, 0), axes=1), 0, axis)
    terms = {powers: grid[powers] for powers in np.ndindex(grid.shape) if grid[powers]}
    for point, value in zip(_beyond(count), values[len(TRIED) ** count :], strict=True):
        if sum(often * _product(point, powers) for powers, often in terms.items()) != int(value):
            return None
    return terms


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and np.isfinite(value) and value == int(value)


def _product(point: Sequence[int], powers: Sequence[int]) -> int:
    product = 1
    for size, power in zip(point, powers, strict=True):
        product *= size**power
    return product


def _inverse() -> np.ndarray:
    """From values at the three sizes to the coefficients of 1, x and x²."""
    a, b, c = (Fraction(size) for size in TRIED)
    rows = []
    for one, other, last in ((a, b, c), (b, c, a), (c, a, b)):
        scale = (one - other) * (one - last)
        rows.append([other * last / scale, -(other + last) / scale, 1 / scale])
    return np.array(rows, dtype=object).T


INVERSE = _inverse()


def _told(theirs: Terms, ours: Terms, names: Sequence[str]) -> Finding | None:
    odd = {powers: often for powers, often in theirs.items() if powers not in ours}
    missing = [powers for powers in ours if powers not in theirs]
    other = [powers for powers in theirs if powers in ours and theirs[powers] != ours[powers]]
    if len(odd) > 2 or len(missing) > 2 or len(other) > 1:
        return None
    rest = "All else is right." if any(theirs.get(each) == often for each, often in ours.items()) else ""
    lead = "Multiplied out, your count "
    parts = []
    if odd:
        shown = " and ".join(_shown(powers, often, names) for powers, often in odd.items())
        parts.append(f"has {shown}, where something else is due" if missing else f"has {shown}, which is not due")
    elif missing:
        parts.append(f"lacks {'a term' if len(missing) == 1 else 'two terms'}")
    for powers in other:
        parts.append(f"has {_shown(powers, theirs[powers], names)}: that product is due another number of times")
    return Finding("own-terms", f"{lead}{', and '.join(parts)}. {rest}".strip()) if parts else None


def _shown(powers: Sequence[int], often: Fraction, names: Sequence[str]) -> str:
    squares = {1: "", 2: "²"}
    factors = [f"{name}{squares[power]}" for name, power in zip(names, powers, strict=True) if power]
    number = [] if often == 1 and factors else [str(often)]
    return f"`{'·'.join([*number, *factors])}`"
