"""Bad habits that any answer can have, tried on the right function of every exercise: its cases see each of them.

A habit gets a function, and a list in which it notes that it had something to do.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from autograder.exercises import find_exercise
from autograder.grading.in_process import is_right
from autograder.worker.encode_values import leaves, map_leaves
from conftest import exercise_names

SEED = 1
ARRAYS = (np.ndarray, torch.Tensor)


def overwrites(function: Callable, acted: list, which: int = 0) -> Callable:
    """Answers rightly, and leaves another number in an array that it was given."""

    @functools.wraps(function)
    def answer(*args, **kwargs):
        result = copy.deepcopy(function(*args, **kwargs))
        given = [leaf for leaf in leaves([args, kwargs]) if isinstance(leaf, ARRAYS) and 0 not in leaf.shape]
        if given:
            acted.append(which)
            place, data = (0,) * given[which].ndim, given[which]
            data = data.data if isinstance(data, torch.Tensor) else data
            data[place] = ~data[place] if data.dtype in (bool, torch.bool) else data[place] + 1
        return result

    return answer


def overwrites_the_last(function: Callable, acted: list) -> Callable:
    return overwrites(function, acted, -1)


def remembers(function: Callable, acted: list) -> Callable:
    """Gives what it gave first to arguments of these shapes."""
    seen: dict[str, Any] = {}

    @functools.wraps(function)
    def answer(*args, **kwargs):
        shapes = str(map_leaves([args, kwargs], lambda leaf: tuple(getattr(leaf, "shape", ()))))
        result = function(*args, **kwargs)
        first = seen.setdefault(shapes, result)
        acted.extend([shapes] if repr(first) != repr(result) else [])
        return first

    return answer


def reuses(function: Callable, acted: list) -> Callable:
    """Writes every result of one shape into the same array, so that earlier results change."""
    kept: dict[Any, np.ndarray] = {}

    @functools.wraps(function)
    def answer(*args, **kwargs):
        places = itertools.count()

        def written(leaf: Any) -> Any:
            if not isinstance(leaf, np.ndarray):
                return leaf
            array = kept.setdefault((next(places), leaf.shape, leaf.dtype), leaf.copy())
            acted.extend([leaf.shape] if not np.array_equal(array, leaf) else [])
            array[...] = leaf
            return array

        return map_leaves(function(*args, **kwargs), written)

    return answer


def of_results(concerns: Callable[[Any], bool], change: Callable[[Any], Any]) -> Callable:
    """The habit that changes each array of a result that it concerns."""

    def habit(function: Callable, acted: list) -> Callable:
        def changed(leaf: Any) -> Any:
            if not isinstance(leaf, ARRAYS) or not concerns(leaf):
                return leaf
            acted.append(leaf.shape)
            return change(leaf)

        return functools.wraps(function)(lambda *args, **kwargs: map_leaves(function(*args, **kwargs), changed))

    return habit


HABITS = {
    "overwrites its first array": overwrites,
    "overwrites its last array": overwrites_the_last,
    "remembers": remembers,
    "gives the same array again": reuses,
    "drops axes of length 1": of_results(lambda array: 1 in array.shape, lambda array: array.squeeze()),
    "cuts its result off": of_results(lambda array: getattr(array, "requires_grad", False), torch.Tensor.detach),
    "widens to float64": of_results(lambda array: array.dtype is torch.float32, torch.Tensor.double),
}
#: An exercise that examines its results by itself may well allow it.
IMPRECISE = {
    "is off by a thousandth": of_results(lambda array: "float32" in str(array.dtype), lambda array: 1.001 * array)
}


@pytest.mark.parametrize("name", exercise_names())
def test_the_cases_of_an_exercise_see_bad_habits(name):
    exercise = find_exercise(name)
    right, unseen = exercise.reference if exercise.made is None else exercise.plain, []
    for words, habit in {**HABITS, **({} if exercise.examine else IMPRECISE)}.items():
        acted: list = []
        if is_right(habit(right, acted), name, SEED, watched=False) and acted:
            unseen.append(words)
    assert not unseen, f"the cases of {name} let through a function that {', '.join(unseen)}: add one that shows it"
