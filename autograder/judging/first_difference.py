"""Where a wrong result differs, small enough for a picture, and without a number that was expected.

A mark for each entry, beside the student's own number, would say what was asked for where only two values are
possible, as in a mask. There a whole row has one mark: whether anything in it differs.
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

#: Rows and columns that are shown at most.
MOST = 12
#: What a letter of `Where.marks` says of an entry. MISSING, EXTRA and OPEN are for shapes that differ.
RIGHT, WRONG, ODD, IN_ROW, MISSING, EXTRA, OPEN = "=xn~-+."
#: The sizes that are counted in words, as cases name them.
AXES = {"B": "sequence", "batch": "sequence", "h": "head", "g": "key-value head"}
#: Letters of a number that is shown.
LONGEST = 8


def first_where(posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None]) -> Where | None:
    """Of the first case that fails: where its result differs. None where a picture would show nothing.

    That none can be made costs nobody a mark.
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
    """One result beside the expected one, which it differs from. None for single numbers, texts and what is empty."""
    if isinstance(value, list):
        value, expected = np.array(value, object), np.array(expected, object)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufO":
        return None
    expected = np.asarray(expected)
    if not value.size or not value.ndim or value.ndim != expected.ndim:
        return None
    if value.shape == expected.shape and value.shape[-1] == 1 and _of_two(expected):
        return None  # a row's mark would be that of its only entry
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
    """Which entries differ, as `compare.close` has it."""
    if value.dtype.kind != "f" and expected.dtype.kind != "f":
        return np.asarray(value != expected, bool)
    return differing(value.astype(np.float64), expected.astype(np.float64), rtol)


def _start(first: Sequence[int], sizes: Sequence[int]) -> tuple[int, int]:
    """The first row and column shown: those of index 0, unless the first entry that differs lies too far from them."""
    row, column = (0 if place < MOST else min(place, size - MOST) for place, size in zip(first, sizes, strict=True))
    return row, column


def _table(array: np.ndarray, leading: tuple[int, ...]) -> np.ndarray:
    """The last two axes at one place of the others; a vector is one row."""
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
    """Whether no more than two values occur in what was expected."""
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
    """A student's number in a few letters."""
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
    """One place of one axis, in words where the sizes of the case tell what it counts."""
    names = [name for name, number in case.sizes.items() if number == size]
    if len(names) == 1 and names[0] in AXES:
        return f"{AXES[names[0]]} {place}"
    return f"index {place} of axis {axis}"
