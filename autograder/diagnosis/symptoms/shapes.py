"""Relations of shapes: which axis is missing, merged with another or left over, in the names of the sizes."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from ...data import Finding
from ...exercises.kit.records import Case
from ...judging.compare import close, tolerance
from ...judging.posed import Posed
from ...text import begun
from ..evidence import Evidence
from . import sizes

#: What an axis of this size is called; of others the size itself is said.
AXES = {"B": "the batch", "batch": "the batch", "h": "the heads", "n_heads": "the heads", "g": "the key/value heads"}
#: What becomes of an axis that is no longer there: in words, and how.
REDUCTIONS: tuple[tuple[str, Callable[[np.ndarray, int], np.ndarray]], ...] = (
    ("summed", lambda array, axis: array.sum(axis=axis)),
    ("averaged", lambda array, axis: array.mean(axis=axis)),
    ("the first alone is there", lambda array, axis: array.take(0, axis=axis)),
    ("the last alone is there", lambda array, axis: array.take(-1, axis=axis)),
    ("the largest alone is there", lambda array, axis: array.max(axis=axis)),
)


@dataclass(frozen=True)
class Misshapen:
    """One result of wrong shape, beside the one that is due."""

    case: Case
    value: np.ndarray
    expected: np.ndarray

    def fits(self, found: np.ndarray) -> bool:
        return found.shape == self.value.shape and close(self.value, found, tolerance(self.case))


def _begin_alike(one: list[Any], other: list[Any]) -> bool:
    """Is one of them the other, cut off?"""
    return all(a == b for a, b in zip(one, other, strict=False))


def wrong_shape(evidence: Evidence) -> Finding | None:
    failing = [index for index in evidence.failing() if evidence.problems[index].kind == "shape"]
    if 2 * len(failing) <= len(evidence.failing()):
        return None
    lists = [evidence.calls[index].value for index in failing if isinstance(evidence.calls[index].value, list)]
    if len(lists) == len(failing):
        due = [evidence.posed.expected[index].value for index in failing]
        if not all(_begin_alike(*pair) for pair in zip(lists, due, strict=True)):
            return None
        text = "The list is too long or too short. Which entries belong to it, and when is it done?"
        return Finding("wrong-length", text)
    leaf = evidence.problems[failing[0]].leaf
    if evidence.posed.exercise.leaves[leaf].kind == "pair list":  # it has no shape to whoever wrote it
        return None
    found = [_of_leaf(evidence, index, leaf) for index in failing if evidence.problems[index].leaf == leaf]
    if any(each.value.dtype.kind not in "biuf" for each in found):
        return None
    name = evidence.posed.exercise.leaves[leaf].name
    whole = len(found) == len(failing)
    if whole and all(map(_is_turned, found)):
        return Finding("transposed", "The result is transposed: rows and columns have changed places.")
    shape = _in_words(name, found)
    told = (_merged_with_another(found) or _lost_axis(found) or _kept_factor(found)) if whole else None
    if told is not None:
        return Finding("wrong-shape", f"{shape} {told}")
    if whole and all(each.value.size == each.expected.size and _same_in_order(each) for each in found):
        return Finding("wrong-shape", f"The numbers are right, the shape is not. {shape} Is an axis too many or few?")
    like = _like_another(evidence, found)
    return Finding("wrong-shape", f"{shape} {like or 'Write down the shape of every step beside the code.'}")


def _of_leaf(evidence: Evidence, index: int, leaf: int) -> Misshapen:
    value, expected = evidence.calls[index].value, evidence.posed.expected[index].value
    if isinstance(value, tuple):
        value, expected = value[leaf], expected[leaf]
    return Misshapen(evidence.posed.cases[index], np.asarray(value), np.asarray(expected))


def _is_turned(each: Misshapen) -> bool:
    return min(each.value.ndim, each.expected.ndim) >= 2 and each.fits(np.swapaxes(each.expected, -1, -2))


def _same_in_order(each: Misshapen) -> bool:
    return close(each.value.ravel(), each.expected.ravel(), tolerance(each.case))


def _names(found: Sequence[Misshapen], due: bool) -> list[str]:
    """The name of each axis, of the shapes that are there or due; its length in the first case where it has none."""
    arrays = [each.expected if due else each.value for each in found]
    if len({array.ndim for array in arrays}) != 1:
        return []
    cases = [each.case for each in found]
    names = []
    for axis in range(arrays[0].ndim):
        lengths = [(case, array.shape[axis]) for case, array in zip(cases, arrays, strict=True)]
        names.append(sizes.name_of(lengths) or str(lengths[0][1]))
    return names


def _in_words(name: str, found: Sequence[Misshapen]) -> str:
    """ "The shape of the output is (n, d_k) where (n, d_v) is due." """
    now, due = _names(found, due=False), _names(found, due=True)
    if not now and found[0].value.ndim:
        now = [str(length) for length in found[0].value.shape]
    if not due and found[0].expected.ndim:
        due = [str(length) for length in found[0].expected.shape]
    if found[0].value.ndim and now == due:  # the same names for other lengths: the numbers tell more
        now, due = ([str(length) for length in array.shape] for array in (found[0].value, found[0].expected))
    return f"The shape of {name} is {_listed(now)} where {_listed(due)} is due."


def _listed(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})" if names else "that of a single number"


def _called(size: str) -> str:
    return f"{AXES[size]} ({size})" if size in AXES else f"the axis {size}"


def _lost_axis(found: Sequence[Misshapen]) -> str | None:
    """One axis is missing: which one, and what became of its entries, as far as that can be seen."""
    due = _names(found, due=True)
    if all(each.value.ndim == 0 < each.expected.ndim for each in found):
        return "One number came back for all of them: over which axes is a mean or a sum due, over which not?"
    if not due or any(each.value.ndim != each.expected.ndim - 1 for each in found):
        return None
    for axis, size in enumerate(due):
        for words, reduce in REDUCTIONS:
            if all(each.expected.size and each.fits(reduce(each.expected, axis)) for each in found):
                return _became(words, size)
    for axis, size in enumerate(due):
        if all(each.value.shape == _without(each.expected.shape, axis) for each in found):
            return f"{begun(_called(size))} got lost."
    return None


def _became(words: str, size: str) -> str:
    return f"Of {_called(size)} {words}." if "alone" in words else f"It is {words} over {_called(size)}."


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _kept_factor(found: Sequence[Misshapen]) -> str | None:
    """An axis of h·d_head came back d_head long: what became of the heads?"""
    now, due = _names(found, due=False), _names(found, due=True)
    if len(now) != len(due):
        return None
    for axis, (one, other) in enumerate(zip(now, due, strict=True)):
        parts = other.split("·")
        if len(parts) != 2 or one not in parts:
            continue
        lost = parts[1 - parts.index(one)]
        for outer in (True, False):
            for words, reduce in REDUCTIONS:
                if all(each.fits(_reduced(each, axis, lost, outer, reduce)) for each in found):
                    return _became(words, lost)
        return f"{begun(_called(lost))} got lost in that axis."
    return None


def _reduced(each: Misshapen, axis: int, lost: str, outer: bool, reduce: Callable) -> np.ndarray:
    count, shape = each.case.sizes.get(lost, 1), each.expected.shape
    if not count or shape[axis] % count:
        return each.expected
    parts = (count, shape[axis] // count) if outer else (shape[axis] // count, count)
    return reduce(each.expected.reshape(*shape[:axis], *parts, *shape[axis + 1 :]), axis + (0 if outer else 1))


def _merged_with_another(found: Sequence[Misshapen]) -> str | None:
    """The heads are joined with the tokens where they are to be joined with the columns, say."""
    now, due = _names(found, due=False), _names(found, due=True)
    if len(now) != len(due) or any(each.value.size != each.expected.size for each in found):
        return None
    for there, wanted in itertools.product(_products(now), _products(due)):
        common = set(there) & set(wanted)
        if len(common) == 1 and set(there) != set(wanted):
            joined = common.pop()
            other, right = (next(n for n in pair if n != joined) for pair in (there, wanted))
            return f"{begun(_called(joined))}: joined with {_called(other)}, to be joined with {_called(right)}."
    return None


def _products(names: Sequence[str]) -> Iterator[list[str]]:
    return (name.split("·") for name in names if name.count("·") == 1)


def _like_another(evidence: Evidence, found: Sequence[Misshapen]) -> str | None:
    """The shape there is in every case that of an argument, or of a step on the way."""
    if len({each.value.shape for each in found}) < 2:
        return None
    posed, names = evidence.posed, evidence.parameters()
    shapes = [_shapes(names, each.case) | shapes_of_steps(posed, each.case) for each in found]
    for name in shapes[0]:
        if all(each.value.shape == known.get(name) for each, known in zip(found, shapes, strict=True)):
            return f"That is the shape of `{name}`."
    return None


def _shapes(names: Sequence[str], case: Case) -> dict[str, tuple[int, ...]]:
    given = zip(names, case.args, strict=False)
    return {name: value.shape for name, value in given if isinstance(value, np.ndarray) and value.ndim}


def shapes_of_steps(posed: Posed, case: Case) -> dict[str, tuple[int, ...]]:
    """The shapes of what the plain program works out on the way, by the names that it has there."""
    program, found = posed.exercise.plain, {}
    if program is None:
        return {}

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code is program.__code__:
            named = {name: value for name, value in frame.f_locals.items() if len(name) > 3}
            found.update({name: tuple(value.shape) for name, value in named.items() if hasattr(value, "shape")})

    def watched(*args: object, **kwargs: object) -> object:
        before = sys.getprofile()
        sys.setprofile(look)
        try:
            return program(*args, **kwargs)
        finally:
            sys.setprofile(before)

    posed.ask(watched, case)
    return {name: shape for name, shape in found.items() if shape}
