"""What can be undone in a result, so that a second slip behind it can be seen: order of results, order of axes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..data import Call
from .compare import Problem, find_problem
from .posed import Posed


@dataclass(frozen=True)
class Repair:
    """A step that gives a result the form that was asked for. words: what is wrong without it, as a sentence."""

    slug: str
    words: str
    undo: Callable[[Any], Any]


def repairs(posed: Posed, calls: Sequence[Call], misshapen: bool) -> Iterator[Repair]:
    """The steps that give every result the shape that is due.

    misshapen: whether some shape is wrong before; else the step changes no shape.
    """
    told = [index for index, call in enumerate(calls) if _says(posed, index, call)]
    if len(told) < 2:
        return
    # Of a square matrix the other way round much can be said, and little of it is what was done.
    for repair in (*_of_order(posed), *(_of_axes(posed) if misshapen else ())):
        wrong_before = any(not _fits(posed, index, calls[index].value) for index in told)
        try:
            fits = all(_fits(posed, index, repair.undo(calls[index].value)) for index in told)
        except (ValueError, IndexError, TypeError, ArithmeticError):
            continue
        if fits and wrong_before == misshapen:
            yield repair


def repaired(posed: Posed, calls: Sequence[Call], repair: Repair) -> tuple[list[Call], list[Problem | None]]:
    """The calls as they would be without that slip, and what is still wrong with each."""
    found, problems = [], []
    exercise, many = posed.exercise, isinstance(posed.exercise.returns, tuple)
    for index, call in enumerate(calls):
        if _says(posed, index, call):
            call = replace(call, value=repair.undo(call.value))
        found.append(call)
        case, expected = posed.cases[index], posed.expected[index]
        if call.failure is not None or case.raises is not None or case.gradient:
            problems.append(None if call.failure is None or case.raises is not None else Problem("raised", "it raised"))
        else:
            problems.append(find_problem(exercise.leaves, many, call.value, expected.value, case, exercise.library))
    return found, problems


def _says(posed: Posed, index: int, call: Call) -> bool:
    case = posed.cases[index]
    return call.failure is None and case.raises is None and not case.gradient and call.value is not None


def _results(posed: Posed, value: Any) -> tuple[Any, ...]:
    return value if isinstance(posed.exercise.returns, tuple) and isinstance(value, tuple) else (value,)


def _fits(posed: Posed, index: int, value: Any) -> bool:
    found, due = _results(posed, value), _results(posed, posed.expected[index].value)
    return len(found) == len(due) and all(
        np.shape(one) == np.shape(other) for one, other in zip(found, due, strict=True) if _is_array(other)
    )


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, int, float))


def _of_order(posed: Posed) -> Iterator[Repair]:
    """Results in another order."""
    names = [leaf.name for leaf in posed.exercise.leaves]
    if not isinstance(posed.exercise.returns, tuple) or not 2 <= len(names) <= 3:
        return
    for order in itertools.permutations(range(len(names))):
        if list(order) != list(range(len(names))):
            words = f"The results come in another order than asked for: {', '.join(names)}."
            yield Repair("swapped-results", words, lambda value, order=order: tuple(value[i] for i in order))


def _of_axes(posed: Posed) -> Iterator[Repair]:
    """One result with two neighbouring axes exchanged, or with one axis of length 1 too many."""
    sample = _results(posed, posed.expected[0].value)
    for leaf, due in enumerate(sample):
        ndim, name = np.ndim(due), posed.exercise.leaves[leaf].name
        for axis in range(ndim - 1):
            what = "rows and columns" if ndim == 2 else f"axes {axis} and {axis + 1} (counted from 0)"
            words = f"In {name} {what} have changed places."
            yield Repair("transposed", words, _on(posed, leaf, partial(np.swapaxes, axis1=axis, axis2=axis + 1)))
        for axis in range(ndim + 1):
            words = f"In {name} there is an axis of length 1 too many."
            yield Repair("axis-too-many", words, _on(posed, leaf, partial(np.squeeze, axis=axis)))


def _on(posed: Posed, leaf: int, step: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], Any]:
    """The step on one of the results, which are arrays of one axis or more wherever it means anything."""

    def undo(value: Any) -> Any:
        found = _results(posed, value)
        if not isinstance(found[leaf], np.ndarray):
            raise TypeError("no array")
        mended = tuple(step(each) if index == leaf else each for index, each in enumerate(found))
        return mended if isinstance(posed.exercise.returns, tuple) else mended[0]

    return undo
