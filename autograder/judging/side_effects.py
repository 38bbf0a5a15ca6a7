"""Checks for side effects: changed inputs, results that don't repeat, wrong use of given functions and generators."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..exercises.kit.special_arguments import DevicePart, HostFunction, Rng
from ..records import Answer, Call, Finding, HostCall
from ..worker.encode_values import is_plain_container, leaves, map_leaves
from ..worker.random_draws import mark_of
from .cases_and_expected import Posed
from .compare_results import same

#: What the feedback calls each global generator.
GLOBAL = {
    "NumPy": "NumPy's global generator",
    "torch": "torch's global generator",
    "torch's seed": "torch's global generator",
    "Python": "Python's `random`",
}


def misdrawn(posed: Posed, calls: Sequence[Call]) -> Finding | None:
    """Return a finding if the function draws from the wrong generator, or moves the given one wrongly."""
    if generator_of(posed):
        found = _draws_needlessly(posed, calls) or _draws_from_a_copy(posed, calls) or _draws_more(posed, calls)
        return found or _moves_others(posed, calls)
    return _moves_others(posed, calls) if posed.exercise.own_draws else _draws_at_all(posed, calls)


def _moves_others(posed: Posed, calls: Sequence[Call]) -> Finding | None:
    """The function draws from a generator that all code shares, or seeds it."""
    shared = next((GLOBAL[name] for call in calls for name in call.randomness), None)
    if shared is None or (_hands_over(posed) and not posed.exercise.own_draws):
        return None
    generator = generator_of(posed)
    instead = f"Draw from `{generator}`, which you are given." if generator else "Make a generator of your own."
    return Finding("shared-generator-moved", f"{_shares(shared)} {instead}")


def _shares(generator: str) -> str:
    return f"Your function draws from {generator} or seeds it, which changes what other code draws next."


def _draws_at_all(posed: Posed, calls: Sequence[Call]) -> Finding | None:
    """The function draws where nothing is random; torch is exempt, because creating a PyTorch layer draws."""
    shared = next((GLOBAL[name] for call in calls for name in call.randomness if name != "torch"), None)
    if shared is None or _hands_over(posed):
        return None
    return Finding("shared-generator-moved", f"{_shares(shared)} This exercise needs no random numbers.")


def _draws_needlessly(posed: Posed, calls: Sequence[Call]) -> Finding | None:
    """The function draws from the given generator in a case whose result needs no random number."""
    for index, call in enumerate(calls):
        if call.drew and call.failure is None and not _is_drawn_from(posed, index):
            case, generator = posed.cases[index].label, generator_of(posed)
            text = (
                f"In the case “{case}”, your function draws from `{generator}`, but the result needs no random number."
            )
            return Finding("draws-needlessly", f"{text} Code that draws next then gets different numbers.")
    return None


def _draws_from_a_copy(posed: Posed, calls: Sequence[Call]) -> Finding | None:
    """Wherever numbers are drawn the results are right, but the given generator has not moved."""
    drawn = _drawn_rightly(posed, calls)
    if not drawn or any(calls[index].drew is not False for index in drawn):
        return None
    name = generator_of(posed)
    text = f"Your function leaves `{name}` as it was, so the next draw gives the same numbers. Do you draw from a copy?"
    return Finding("generator-not-moved", text)


def _draws_more(posed: Posed, calls: Sequence[Call]) -> Finding | None:
    """Wherever numbers are drawn the results are right, but the given generator never ends in the right state."""
    drawn = _drawn_rightly(posed, calls)
    if not drawn or any(calls[index].left in (None, posed.notes.get(("left", index))) for index in drawn):
        return None
    text = f"Your function draws more from `{generator_of(posed)}` than the result needs."
    text += " Code that draws next then gets different numbers."
    return Finding("draws-more", text)


def _drawn_rightly(posed: Posed, calls: Sequence[Call]) -> list[int]:
    """The cases in which the reference draws, if there are at least two and all their results are right; else none."""
    drawn = [index for index, call in enumerate(calls) if call.failure is None and _is_drawn_from(posed, index)]
    right = all(same(calls[index].value, posed.expected[index].value, 1e-9) for index in drawn)
    return drawn if right and len(drawn) > 1 else []


def _is_drawn_from(posed: Posed, index: int) -> bool:
    """Whether the reference draws from a case's generator; the generator's final state is noted, too."""
    key = ("draws", index)
    if key not in posed.notes:
        moved: list[bool] = []

        def reference(*args: Any, **kwargs: Any) -> Any:
            sources = [
                each
                for each in (*args, *kwargs.values())
                if hasattr(each, "get_state") or hasattr(each, "bit_generator")
            ]
            before = [_state(each) for each in sources]
            value = posed.exercise.reference(*args, **kwargs)
            moved.append([_state(each) for each in sources] != before)
            posed.notes["left", index] = mark_of(sources)
            return value

        posed.ask(reference, posed.cases[index])
        posed.notes[key] = any(moved) or not moved
    return posed.notes[key]


def _state(source: Any) -> str:
    return str(source.get_state().tolist() if hasattr(source, "get_state") else source.bit_generator.state)


def why_not_repeatable(posed: Posed, calls: Sequence[Call]) -> str:
    drawn = [] if _hands_over(posed) else [GLOBAL[name] for call in calls for name in call.randomness]
    generator = generator_of(posed)
    if drawn:
        instead = f" Draw from `{generator}`, which you are given." if generator else ""
        return f"It draws from {' and '.join(drawn)}.{instead}"
    if generator and not any(call.drew for call in calls):
        return f"It never draws from `{generator}`, which you are given."
    return "Does it keep something between calls, or draw random numbers of its own?"


def generator_of(posed: Posed) -> str:
    """Return the name of the argument that is a generator, or ""."""
    places = [place for place, value in enumerate(posed.cases[0].args) if isinstance(value, Rng)]
    return list(inspect.signature(posed.exercise.reference).parameters)[places[0]] if places else ""


def _hands_over(posed: Posed) -> bool:
    """Whether the cases pass functions that may run in the same process, as in a notebook, and draw there."""
    return any(isinstance(value, (DevicePart, HostFunction)) for case in posed.cases for value in case.args)


def misconduct(posed: Posed, calls: Sequence[Call]) -> Finding | None:
    """Return a finding if the function changes its inputs, doesn't repeat its result, or changes an earlier result."""
    names = names_of(posed)
    for case, call in zip(posed.cases, calls, strict=False):
        given = [*itertools.zip_longest(names[: len(case.args)], case.args), *case.kwargs.items()]
        inputs: list[tuple[str | None, Any]] = [
            (name, leaf)
            for name, value in given
            for leaf in leaves(value)
            if isinstance(leaf, np.ndarray) and leaf.ndim
        ]
        inputs += [(name, value) for name, value in given if is_plain_container(value)]
        after = call.inputs_after
        alike = len(after) == len(inputs)
        changed = [name for (name, one), other in zip(inputs, after, strict=False) if not _unchanged(one, other)]
        if changed or not alike:
            called = f" `{changed[0]}`" if alike and changed[0] else ""
            new = "tensor" if posed.exercise.library == "torch" else "array"
            text = f"Your function changes its input{called}. Work on a copy, or write the result into a new {new}."
            return Finding("input-changed", text)
    for case, call in zip(posed.cases, calls, strict=False):
        if call.failure is None and call.again is not None and not _repeats(call.value, call.again):
            text = "Your function returns different results when it is called twice with the same inputs. "
            return Finding("not-repeatable", text + why_not_repeatable(posed, calls))
        if call.later is None and case.once:
            continue
        if call.failure is None and not same(call.later, call.value, 0.0) and not _odd(call.value):
            text = "A later call of your function changes an earlier result. Do you return the same array each time?"
            return Finding("earlier-result-changed", text)
    return misdrawn(posed, calls)


def _unchanged(before: Any, after: Any) -> bool:
    if isinstance(before, (list, dict)):
        return same(after, before, 0.0)
    return isinstance(after, np.ndarray) and before.shape == after.shape and np.array_equal(before, after)


def _repeats(value: Any, again: Call) -> bool:
    return again.failure is None and (same(again.value, value, 1e-9) or _odd(value))


def _odd(value: Any) -> bool:
    """Whether a value does not equal itself, such as an object of a foreign type."""
    return not same(value, value, 0.0)


def names_of(posed: Posed) -> list[str]:
    """Return the names of the arguments."""
    return list(inspect.signature(posed.exercise.reference).parameters)


def name_of(posed: Posed, place: int | str) -> str:
    """Return the name of the argument at a position."""
    names = names_of(posed)
    return names[place] if isinstance(place, int) and place < len(names) else str(place)


# ----------------------------------------------------------------------------------------------------- given functions


#: By case, the calls of a function that was passed in.
Seen = dict[int, list[HostCall]]


def miscounted(posed: Posed, answer: Answer, calls: Sequence[Call]) -> Finding | None:
    """Return a finding if a correct answer calls a given function more or less often than the docstring says."""
    for place in sorted({place for _, place in answer.asked}, key=str):
        asked = {i: [each for each in answer.questions.get(i, ()) if each.place == place] for i in range(len(calls))}
        found = wrong_count(posed, place, asked, calls, range(len(calls)))
        if found is not None:
            return found
    return None


def wrong_count(
    posed: Posed, place: int | str, asked: Seen, calls: Sequence[Call], wrong: Sequence[int]
) -> Finding | None:
    """Return a finding if a case calls `name` more or less often than the reference does."""
    name = name_of(posed, place)
    if name not in posed.exercise.counted:
        return None
    for index in wrong:
        count, due = len(asked[index]), len(calls_due(posed, index, name))
        if count != due and calls[index].failure is None:
            text = f"In the case “{posed.cases[index].label}”, your function calls `{name}` {_times(count)}"
            text += f" instead of {due}."
            often = "too-often" if count > due else "too-seldom"
            return Finding(f"calls-{name}-{often}".replace("_", "-"), text)
    return None


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def calls_due(posed: Posed, index: int, name: str) -> list[tuple[Any, ...]]:
    """Return the arguments of each call that the reference makes of the function `name`."""
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
