"""Picks the part of a wrong result that the feedback shows as a picture, without any expected number.

Where only two expected values are possible, as in a mask, a mark for each entry next to the student's number would give
the expected value away. Such a result has one mark for each row: whether anything in it differs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..exercises.kit.exercise_records import Case
from ..records import Call, Where
from .cases_and_expected import Posed
from .compare_results import Problem, differing, tolerance

#: The largest number of rows and columns that are shown.
MOST = 12
#: The letters of `Where.marks`. MISSING, EXTRA and OPEN are for shapes that differ.
RIGHT, WRONG, ODD, IN_ROW, MISSING, EXTRA, OPEN = "=xn~-+."
#: What the feedback calls an axis of this size; the keys are the names of sizes in the cases.
AXES = {"B": "sequence", "batch": "sequence", "h": "head", "g": "key-value head"}
#: The largest number of characters of a shown number.
LONGEST = 8


def first_where(posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None]) -> Where | None:
    """Return where the result of the first failing case differs, or None if a picture would show nothing.

    It never raises, so that a missing picture costs nobody a mark.
    """
    index = next((index for index, problem in enumerate(problems) if problem is not None), None)
    if index is None or problems[index].kind not in ("values", "shape", "nan") or posed.cases[index].gradient:
        return None
    try:
        value, expected, leaf = calls[index].value, posed.expected[index].value, problems[index].leaf
        if isinstance(posed.exercise.returns, tuple):
            value, expected = value[leaf], expected[leaf]
        return where(posed.cases[index], posed.exercise.leaves[leaf].name, value, expected)
    except Exception:
        return None


def where(case: Case, name: str, value: Any, expected: Any) -> Where | None:
    """Compare one wrong result with the expected one. Returns None for single numbers, texts and empty results."""
    if isinstance(value, list):
        value, expected = np.array(value, object), np.array(expected, object)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufO":
        return None
    expected = np.asarray(expected)
    if not value.size or not value.ndim or value.ndim != expected.ndim:
        return None
    if value.shape == expected.shape and value.shape[-1] == 1 and _of_two(expected):
        return None  # each row has one entry, so its mark would give the expected value away
    first: tuple[int, ...] = (0,) * value.ndim
    if value.shape == expected.shape:
        off = _differs(value, expected, tolerance(case))
        first = tuple(map(int, np.unravel_index(int(off.argmax()), off.shape)))
    leading, start = first[:-2], _start((0, *first)[-2:], (1, *value.shape)[-2:])
    own = _window(value, leading, start)
    if value.shape == expected.shape:
        marks = _of_values(value, expected, off, leading, start)
    else:
        marks = _of_shapes((1, *value.shape)[-2:], (1, *expected.shape)[-2:])
    if not set("".join(marks)) - {RIGHT, OPEN}:
        return None
    shown = tuple(tuple(map(_number, row)) for row in own.tolist())
    at = tuple(_axis(case, axis, expected.shape[axis], place) for axis, place in enumerate(leading))
    return Where(case.label, name, value.shape, expected.shape, at, start, shown, marks)


def _differs(value: np.ndarray, expected: np.ndarray, rtol: float) -> np.ndarray:
    """Which entries differ, by the rule of `compare_results.close`."""
    if value.dtype.kind != "f" and expected.dtype.kind != "f":
        return np.asarray(value != expected, bool)
    return differing(value.astype(np.float64), expected.astype(np.float64), rtol)


def _start(first: Sequence[int], sizes: Sequence[int]) -> tuple[int, int]:
    """The first row and column shown: 0, or more if the first wrong entry would not be in the picture otherwise."""
    row, column = (0 if place < MOST else min(place, size - MOST) for place, size in zip(first, sizes, strict=True))
    return row, column


def _table(array: np.ndarray, leading: tuple[int, ...]) -> np.ndarray:
    """The last two axes at one index of the leading ones; a vector becomes one row."""
    return array[leading] if array.ndim > 1 else array[None]


def _window(array: np.ndarray, leading: tuple[int, ...], start: tuple[int, int]) -> np.ndarray:
    row, column = start
    return _table(array, leading)[row : row + MOST, column : column + MOST]


def _of_values(
    value: np.ndarray, expected: np.ndarray, off: np.ndarray, leading: tuple[int, ...], start: tuple[int, int]
) -> tuple[str, ...]:
    if _of_two(expected):
        rows, columns = _table(off, leading)[start[0] : start[0] + MOST], _window(off, leading, start).shape[1]
        return tuple((IN_ROW if row.any() else RIGHT) * columns for row in rows)
    shown, odd = _window(off, leading, start), np.zeros((1, 1), bool)
    if value.dtype.kind == "f":
        odd = ~np.isfinite(_window(value, leading, start))
    letters = np.where(shown, np.where(odd, ODD, WRONG), RIGHT)
    return tuple("".join(row) for row in letters.tolist())


def _of_two(expected: np.ndarray) -> bool:
    """Whether the expected array has at most two distinct values."""
    if expected.dtype.kind == "b":
        return True
    least, most = expected.min(), expected.max()
    return bool(((expected == least) | (expected == most)).all())


def _of_shapes(own: Sequence[int], asked: Sequence[int]) -> tuple[str, ...]:
    rows, columns = (min(max(one, other), MOST) for one, other in zip(own, asked, strict=True))

    def letter(row: int, column: int) -> str:
        here, there = row < own[0] and column < own[1], row < asked[0] and column < asked[1]
        return OPEN if here and there else EXTRA if here else MISSING if there else " "

    return tuple("".join(letter(row, column) for column in range(columns)) for row in range(rows))


def _number(entry: Any) -> str:
    """A student's number in at most LONGEST characters."""
    if isinstance(entry, np.ndarray):
        entry = entry.item()
    if isinstance(entry, bool):
        return "T" if entry else "F"
    if isinstance(entry, int) and abs(entry) < 10**6:
        return str(entry)
    number = float(entry)
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"
    words = next((short for form in ("{:.3g}", "{:.2g}") if len(short := form.format(number)) <= 6), f"{number:.0e}")
    mantissa, e, exponent = words.partition("e")
    return (f"{mantissa}e{int(exponent)}" if e else "0" if number == 0 else mantissa)[:LONGEST]


def _axis(case: Case, axis: int, size: int, place: int) -> str:
    """One index of one axis, in words if the case's sizes tell which axis it is."""
    names = [name for name, number in case.sizes.items() if number == size]
    if len(names) == 1 and names[0] in AXES:
        return f"{AXES[names[0]]} {place}"
    return f"index {place} of axis {axis}"
