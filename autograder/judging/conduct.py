"""Good conduct: inputs stay as they were, asking twice gives the same, functions are called as often as is said."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..data import Answer, Call, Finding, HostCall
from ..worker.values import is_list_of_numbers, leaves, map_leaves
from .compare import same
from .draws import misdrawn, why_not_repeatable
from .posed import Posed


def misconduct(posed: Posed, calls: Sequence[Call]) -> Finding | None:
    """Does the function change its inputs, answer differently when asked again, or change an earlier result?"""
    for case, call in zip(posed.cases, calls, strict=False):
        given = leaves((*case.args, *case.kwargs.values()))
        inputs: list[Any] = [value for value in given if isinstance(value, np.ndarray) and value.ndim]
        inputs += [value for value in (*case.args, *case.kwargs.values()) if is_list_of_numbers(value)]
        after = call.inputs_after
        if len(after) != len(inputs) or not all(map(_unchanged, inputs, after)):
            text = "The function changes its input. Work on a copy, or write the result into a new array."
            return Finding("input-changed", text)
    for case, call in zip(posed.cases, calls, strict=False):
        if call.failure is None and call.again is not None and not _repeats(call.value, call.again):
            text = "Asked twice with the same inputs, it answers differently: "
            return Finding("not-repeatable", text + why_not_repeatable(posed, calls))
        if call.later is None and case.once:
            continue
        if call.failure is None and not same(call.later, call.value, 0.0) and not _odd(call.value):
            text = "A later call changes what an earlier one returned. Does it hand out the same array each time?"
            return Finding("earlier-result-changed", text)
    return misdrawn(posed, calls)


def _unchanged(before: Any, after: Any) -> bool:
    if isinstance(before, list):
        return isinstance(after, list) and same(after, before, 0.0)
    return isinstance(after, np.ndarray) and before.shape == after.shape and np.array_equal(before, after)


def _repeats(value: Any, again: Call) -> bool:
    return again.failure is None and (same(again.value, value, 1e-9) or _odd(value))


def _odd(value: Any) -> bool:
    """Is it a value that cannot be compared with itself, such as an object of a foreign type?"""
    return not same(value, value, 0.0)


def names_of(posed: Posed) -> list[str]:
    """The names of the arguments."""
    return list(inspect.signature(posed.exercise.reference).parameters)


def name_of(posed: Posed, place: int | str) -> str:
    """The name of the argument at a place."""
    names = names_of(posed)
    return names[place] if isinstance(place, int) and place < len(names) else str(place)


# ------------------------------------------------------------------------------------------------- functions handed in


#: By case, the calls of a function that was handed in.
Seen = dict[int, list[HostCall]]


def miscounted(posed: Posed, answer: Answer, calls: Sequence[Call]) -> Finding | None:
    """Of an answer that is right: a function is called more often, or less, than the docstring says."""
    for place in sorted({place for _, place in answer.asked}, key=str):
        asked = {i: [each for each in answer.questions.get(i, ()) if each.place == place] for i in range(len(calls))}
        found = wrong_count(posed, place, asked, calls, range(len(calls)))
        if found is not None:
            return found
    return None


def wrong_count(
    posed: Posed, place: int | str, asked: Seen, calls: Sequence[Call], wrong: Sequence[int]
) -> Finding | None:
    """Called once too often or too seldom, where the contract says how often."""
    name = name_of(posed, place)
    if name not in posed.exercise.counted:
        return None
    for index in wrong:
        count, due = len(asked[index]), len(calls_due(posed, index, name))
        if count != due and calls[index].failure is None:
            text = f"`{name}` is called {_times(count)} in the case “{posed.cases[index].label}”; {due} "
            text += "is due." if due == 1 else "are due."
            often = "too-often" if count > due else "too-seldom"
            return Finding(f"calls-{name}-{often}".replace("_", "-"), text)
    return None


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def calls_due(posed: Posed, index: int, name: str) -> list[tuple[Any, ...]]:
    """The arguments with which the reference calls a function that is handed to it."""
    noted: list[tuple[Any, ...]] = []

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            noted.append(tuple(map_leaves(args, _copied)))
            return function(*args, **kwargs)

        return call

    parameters = names_of(posed)

    def reference(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(parameters, args, strict=False)) | kwargs
        return posed.exercise.reference(**given | {name: noting(given[name])})

    posed.ask(reference, posed.cases[index])
    return noted


def _copied(value: Any) -> Any:
    return np.array(value) if hasattr(value, "shape") else value
