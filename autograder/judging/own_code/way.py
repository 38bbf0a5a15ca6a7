"""The numbers that occur on the course's own way to a result, and whether others are among them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ...exercises import other_ways
from ...running.tensors import to_numpy
from ...worker.notes import NOTED, Notes
from ...worker.values import leaves
from ..compare import FLOOR, RTOL_FLOAT32, tolerance
from ..posed import Posed
from ..variants.helpers import sizes_of_case
from ..variants.likeness import near
from ..variants.programs import called_by, tree_of
from .inner import steps_within
from .noting import noted

#: Larger arrays are not looked for as parts of others.
LARGEST = 40_000
#: A number beyond this stands for no end: it is written down, and not worked out.
ENDLESS = 1e30
#: A whole number up to this may be a size, a place or a step of a loop; larger ones are worked out.
SMALL = 16
#: So many numbers of all arrays together are sorted.
POOL = 500_000
#: So many truths say something together.
TRUTHS = 8
#: Where a block may begin: so many places are looked at.
PLACES = 16


class Way:
    """All arrays and numbers that the plain program makes in one case, its inputs and its results among them.

    in_whole: whether whole numbers and truths are what is asked for; else they stand for places and conditions.
    counts: whether one whole number is.
    """

    def __init__(self, values: Sequence[Any], rtol: float, in_whole: bool = False, counts: bool = False) -> None:
        self._rtol, self._in_whole, self.counts = rtol, in_whole, counts
        self._numbers: set[float] = set()
        found: dict[tuple[tuple[int, ...], bytes], np.ndarray] = {}
        for value in values:
            array = as_array(value)
            if array is None or not array.size:
                continue
            if array.size == 1:
                self._numbers.add(float(array.flat[0]))
            for turned in _orders(np.squeeze(array.astype(np.float64))):
                found.setdefault((turned.shape, turned.tobytes()), np.ascontiguousarray(turned))
        self._arrays = list(found.values())
        self._pool = self._drawn_together()
        self._known: dict[tuple[tuple[int, ...], str, bytes], bool | None] = {}

    def _drawn_together(self) -> np.ndarray | None:
        """All numbers of all arrays, sorted; None where there are too many to be worth it."""
        if sum(array.size for array in self._arrays) > POOL:
            return None
        numbers = np.unique(np.concatenate([np.zeros(0), *(array.ravel() for array in self._arrays)]))
        return numbers[np.isfinite(numbers)]

    def holds(self, array: np.ndarray) -> bool | None:
        """Whether these numbers occur on the way, as they are or as a part; None for what says nothing either way."""
        if not array.size or array.dtype.kind not in "biuf":
            return None
        key = (array.shape, array.dtype.str, array.tobytes())
        if key not in self._known:
            self._known[key] = self._is_held(array)
        return self._known[key]

    def _is_held(self, array: np.ndarray) -> bool | None:
        if array.size == 1:
            return self._holds_number(array)
        plain = np.squeeze(array.astype(np.float64))
        if array.dtype.kind == "b" and not self._in_whole:  # a mask: a part of it is a part of many others
            if plain.size < TRUTHS or plain.all() or not plain.any():  # such a one is met by chance
                return None
            alike = (other for other in self._arrays if other.size == plain.size)
            return True if any(_same(plain.ravel(), other.ravel()[None], 0.0) for other in alike) else None
        if self._says_nothing(array, plain):  # such a one is met by chance
            return None
        rtol = self._rtol_of(array)
        if not self._is_met(plain, rtol):
            return False
        if any(self._fits(plain, other, rtol) for other in self._arrays):
            return True if array.dtype.kind != "b" or self.holds_whole(array) else None
        return None if self._may_be_a_part(plain) else False

    def _may_be_a_part(self, plain: np.ndarray) -> bool:
        """Is there an array of which it may be a part, and that is too large to be gone through?"""
        return any(other.size > max(LARGEST, plain.size) and other.ndim >= plain.ndim for other in self._arrays)

    def _is_met(self, plain: np.ndarray, rtol: float) -> bool:
        """Whether a few of these numbers occur anywhere: most that are off the way do not."""
        if self._pool is None:
            return True
        finite = plain[np.isfinite(plain)]
        if not finite.size:
            return True
        room = rtol * float(np.abs(finite).max()) + FLOOR
        some = finite[[0, finite.size // 3, finite.size // 2, -1]]
        places = np.searchsorted(self._pool, some - room)
        inside = places < self._pool.size
        return bool(inside.all() and (self._pool[places[inside]] <= some[inside] + room).all())

    def holds_whole(self, array: np.ndarray) -> bool:
        """Whether these numbers are all of an array of the way: of some of them anything may have been chosen."""
        plain = np.squeeze(array.astype(np.float64))
        alike = (other for other in self._arrays if other.size == plain.size)
        return any(_same(plain.ravel(), other.ravel()[None], self._rtol_of(array)) for other in alike)

    def kin(self, array: np.ndarray) -> str:
        """What else is known of numbers that do not occur: "sign", "order" or ""."""
        plain, rtol = np.squeeze(array.astype(np.float64)), self._rtol_of(array)
        if plain.size < 3 or not np.isfinite(plain).all() or self._says_nothing(array, plain):
            return ""
        alike = [other for other in self._arrays if other.size == plain.size and np.isfinite(other).all()]
        if any(self._fits(-plain, other, rtol) for other in alike):
            return "sign"
        ordered = np.sort(plain.ravel())
        return "order" if any(_same(ordered, np.sort(other.ravel())[None], rtol) for other in alike) else ""

    def like(self, array: np.ndarray) -> list[np.ndarray]:
        """What may be due in its place: all of its size and form, the most alike first, each once."""
        plain = np.squeeze(array.astype(np.float64))
        if array.size == 1:
            found = [np.asarray(number) for number in self._numbers if abs(number) < ENDLESS]
        else:
            sized = (other for other in self._arrays if other.size == plain.size)
            found = [other for other in sized if np.isfinite(other).all() and _regrouped(plain.shape, other.shape)]
        ordered = sorted(found, key=lambda other: -near(plain.ravel(), other.ravel()))
        return [
            other
            for place, other in enumerate(ordered)
            if not any(np.allclose(other.ravel(), each.ravel(), 1e-9, 0.0) for each in ordered[:place])
        ]

    def _says_nothing(self, array: np.ndarray, plain: np.ndarray) -> bool:
        """Arrays of one number, of two truths, or that count: they stand for nothing that is worked out."""
        if self._in_whole:
            return len(np.unique(plain)) < 2 or bool(np.array_equal(np.unique(plain), np.arange(plain.size)))
        if array.dtype.kind in "biu" or np.isnan(plain).any():
            return True
        return len(np.unique(plain)) <= 2 or (plain.ndim == 1 and bool(np.array_equal(plain, np.arange(plain.size))))

    def _holds_number(self, array: np.ndarray) -> bool | None:
        number = float(array.flat[0])
        if array.dtype.kind in "biu" and not (self.counts and abs(number) > SMALL):
            return None
        if number in (0.0, 0.5, 1.0, 2.0, -1.0) or not abs(number) < ENDLESS:
            return None
        if number.is_integer() and abs(number) <= SMALL and not self.counts:
            return None
        room = self._rtol_of(array) * abs(number) + FLOOR
        if any(abs(number - other) <= room for other in self._numbers):
            return True
        return any((np.abs(other - number) <= room).any() for other in self._arrays)

    def _rtol_of(self, array: np.ndarray) -> float:
        return max(self._rtol, RTOL_FLOAT32) if array.dtype == np.float32 else self._rtol

    @staticmethod
    def _fits(array: np.ndarray, other: np.ndarray, rtol: float) -> bool:
        if array.size == other.size:
            return _regrouped(array.shape, other.shape) and _same(array.ravel(), other.ravel()[None], rtol)
        if array.ndim < other.ndim and other.shape[other.ndim - array.ndim :] == array.shape and other.size <= LARGEST:
            return _same(array.ravel(), other.reshape(-1, array.size), rtol)
        if array.ndim + 1 == other.ndim and array.ndim >= 2 and other.size <= LARGEST:
            for axis, length in enumerate(other.shape):
                if other.shape[:axis] + other.shape[axis + 1 :] == array.shape:
                    apart = np.moveaxis(other, axis, 0).reshape(length, -1)
                    if _same(array.ravel(), apart, rtol):
                        return True
        if array.ndim == 2 and other.ndim >= 2 and array.shape[-1] == other.shape[-1] and array.size < other.size:
            rows = other.reshape(-1, other.shape[-1])
            if len(rows) <= LARGEST // len(array) and all(_same(row, rows, rtol) for row in array):
                return True
        return _is_block(array, other, rtol) or _is_of_windows(array, other, rtol)


def _is_of_windows(array: np.ndarray, other: np.ndarray, rtol: float) -> bool:
    """Is it a piece of each of another's rows, as scores of some of the keys are? The axes before may be regrouped."""
    width, whole = array.shape[-1] if array.ndim else 0, other.shape[-1] if other.ndim else 0
    if not 2 <= width < whole or array.size * whole != other.size * width or other.size > LARGEST:
        return False
    if not _regrouped(array.shape[:-1], other.shape[:-1]):
        return False
    rows, pieces = array.reshape(-1, width), other.reshape(-1, whole)
    return any(_same(rows.ravel(), pieces[:, at : at + width].reshape(1, -1), rtol) for at in range(whole - width + 1))


def _same(row: np.ndarray, rows: np.ndarray, rtol: float) -> bool:
    """Is it one of these rows?"""
    finite = np.isfinite(row)
    room = rtol * np.abs(row[finite]).max(initial=0.0) + FLOOR
    with np.errstate(all="ignore"):
        near = np.where(finite, np.abs(rows - row) <= room, rows == row)
    return bool(near.all(axis=1).any())


def as_array(value: Any) -> np.ndarray | None:
    """A number, an array or what stands in a tensor that came over the wire; None for all else."""
    value = getattr(value, "array", value)
    if isinstance(value, (bool, int, float, np.generic)):
        try:
            return np.asarray(value) if np.asarray(value).dtype.kind in "biuf" else None
        except OverflowError:
            return None
    return value if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" else None


def _orders(array: np.ndarray) -> Iterator[np.ndarray]:
    """With its axes in the orders in which they are commonly kept."""
    yield array
    if array.ndim >= 2:
        yield np.swapaxes(array, -1, -2)
    if array.ndim >= 3:
        yield np.swapaxes(array, -2, -3)
        yield np.moveaxis(array, -1, 0)
        yield np.moveaxis(array, 0, -1)


def _is_block(array: np.ndarray, other: np.ndarray, rtol: float) -> bool:
    """Is it a block of neighbours of a larger array, which may have more axes in front?"""
    if array.ndim > other.ndim or array.size < 2 or other.size > LARGEST:
        return False
    array = array.reshape((1,) * (other.ndim - array.ndim) + array.shape)
    largest = np.nanargmax(np.where(np.isfinite(array), np.abs(array), -1.0))  # zeros are met everywhere
    number, inside = array.flat[largest], np.unravel_index(largest, array.shape)
    with np.errstate(all="ignore"):
        starts = np.argwhere(np.abs(other - number) <= rtol * abs(number) + FLOOR)[:PLACES] - np.array(inside)
    for start in starts[(starts >= 0).all(axis=1)]:
        block = other[tuple(slice(at, at + size) for at, size in zip(start, array.shape, strict=True))]
        if block.shape == array.shape and _same(array.ravel(), block.reshape(1, -1), rtol):
            return True
    return False


def _regrouped(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Can one shape be had from the other by splitting axes, or by joining neighbouring ones?"""
    ends, others = ({*np.cumprod(shape[::-1]).tolist(), 1} for shape in (one, other))
    return ends <= others or others <= ends


def way_of(posed: Posed, index: int) -> Way:
    """The ways to the results of one case, our own and others that are right; drawn up once for a class."""
    key = ("way", index)
    if key not in posed.notes:
        case, kept = posed.cases[index], []
        token = sizes_of_case.set(case.sizes)
        try:
            ours = (posed.exercise.plain, posed.exercise.reference)
            for route in (*ours, *other_ways(posed.exercise.name, posed.exercise.unit)):
                if _is_plain(route):
                    posed.ask(_noting(route, kept, 0), case)
        finally:
            sizes_of_case.reset(token)
        inputs = [value for value in leaves((case.args, case.kwargs)) if as_array(value) is not None]
        results = list(leaves(posed.expected[index].value))
        made = [(tree, [(number, _in_numpy(value)) for number, value in notes.kept]) for tree, notes in kept]
        values = [value for _, noted_values in made for _, value in noted_values]
        values += [value for tree, noted_values in made for value in steps_within(tree, noted_values)]
        in_whole = any(isinstance(each, np.ndarray) and each.dtype.kind in "biu" for each in results)
        counts = type(posed.expected[index].value) is int
        posed.notes[key] = Way([*values, *inputs, *results], tolerance(case), in_whole, counts)
    return posed.notes[key]


def _in_numpy(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else to_numpy(value)


def _is_plain(function: Any) -> bool:
    """Can it be written anew from its text?"""
    if type(function) is not FunctionType or function.__closure__ or function.__name__ == "<lambda>":
        return False
    return isinstance(tree_of(function), ast.FunctionDef)


def _noting(function: FunctionType, kept: list[tuple[ast.FunctionDef, Notes]], depth: int) -> Any:
    """A function, and those of the course that it is made of, with each step noted; each has notes of its own."""
    parts = {
        name: _noting(part, kept, depth + 1)
        for name, part in called_by(function)
        if part is not function and depth < 3 and _is_plain(part)
    }
    notes, tree = Notes(), noted(tree_of(function))
    kept.append((tree_of(function), notes))
    space = {**function.__globals__, **parts, NOTED: notes}
    exec(compile(ast.Module([tree], []), "<plain>", "exec", dont_inherit=True), space)
    return space[tree.name]
