"""What is wrong with each call of an answer: beside what was expected, and by the rules of its case."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..data import Call
from ..exercises.kit.records import GRADIENTS, Case
from ..running.tensors import as_asked
from .compare import Problem, find_gradient_problem, find_problem, flat
from .posed import Posed

#: A message that names more numbers than this names everything, and so nothing.
NUMBERS_CAP = 20


def in_our_terms(posed: Posed, case: Case, call: Call) -> Call:
    """A call with arrays for tensors, and one flat tuple of results."""
    exercise = posed.exercise

    def plain(value: Any) -> Any:
        value = as_asked(value) if exercise.library == "torch" else value
        return value if case.gradient else flat(exercise.returns, value)

    again = replace(call.again, value=plain(call.again.value)) if call.again is not None else None
    after, made = call.inputs_after, call.made
    if exercise.library == "torch":
        after = as_asked(after)
    return replace(call, value=plain(call.value), later=plain(call.later), again=again, inputs_after=after, made=made)


def all_in_our_terms(posed: Posed, calls: Sequence[Call]) -> list[Call]:
    """The calls of all cases with arrays for tensors."""
    return [in_our_terms(posed, case, call) for case, call in zip(posed.cases, calls, strict=False)]


def problems_of(posed: Posed, calls: list[Call]) -> list[Problem | None]:
    """What is wrong with each call; what is off is looked at again with the tolerance that rounding asks for."""
    cases = posed.cases
    problems = [problem_of(posed, index, calls) for index in range(len(cases))]
    if any(problems):
        posed.weigh()
    if posed.cases is not cases:  # another thread may have been first
        problems = [problem_of(posed, index, calls) for index in range(len(cases))]
    return problems


def problem_of(posed: Posed, index: int, calls: list[Call]) -> Problem | None:
    exercise, case, expected = posed.exercise, posed.cases[index], posed.expected[index]
    if index >= len(calls):
        return Problem("unanswered", "it gave no answer")
    call = calls[index]
    if case.raises is not None:
        if call.failure is None:
            return Problem("not-raised", f"it raised nothing where {case.raises.type_name} was asked for")
        if call.failure.type_name != case.raises.type_name:
            found = call.failure.described(exercise.name)
            return Problem("raised", f"it raised {found} where {case.raises.type_name} was asked for")
        numbers = len(re.findall(r"\d+", call.failure.message))
        if numbers > NUMBERS_CAP or not all(word in call.failure.message for word in case.raises.mentions):
            return Problem("not-raised", f"the message of its {case.raises.type_name} does not name what is wrong")
        return None
    if call.failure is not None:
        return Problem("raised", f"it raised {call.failure.described(exercise.name)}")
    if case.gradient and GRADIENTS not in exercise.credit and _has_no_gradients(call.value):
        return None  # a number may come back
    if case.gradient:
        return find_gradient_problem(_names(posed, case), call.value, expected.value, case)
    if exercise.examine is not None and call.value is not None:
        symptom = exercise.examine(case, call.value)
        return Problem("examined", symptom.text, slug=symptom.slug) if symptom else None
    many = isinstance(exercise.returns, tuple)
    problem = find_problem(exercise.leaves, many, call.value, expected.value, case, exercise.library)
    if problem is None and case.watch and exercise.made is not None:
        text = exercise.made(case, [array for array in call.made if isinstance(array, np.ndarray)])
        problem = Problem("made", text) if text else None
    if problem is None and case.lines and call.lines >= case.lines:
        problem = Problem("made", f"one line of it is run {call.lines} times, where there is to be no Python loop")
    if problem is None and case.quiet and call.numerical_warnings:
        return Problem("warned", f"NumPy warned: {call.numerical_warnings[0]}")
    return problem


def _has_no_gradients(value: Any) -> bool:
    return isinstance(value, tuple) and not value


def _names(posed: Posed, case: Case) -> list[str]:
    """The floating inputs of a case, in order, as the student knows them: X, params["W_Q"]."""
    parameters = list(inspect.signature(posed.exercise.reference).parameters)
    named = {**dict(zip(parameters, case.args, strict=False)), **case.kwargs}
    return [name for key, value in named.items() for name in _paths(key, value)]


def _paths(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(f'{name}["{key}"]', item)
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _paths(f"{name}[{index}]", item)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield name


def all_right(posed: Posed, calls: Sequence[Call]) -> bool:
    """Whether nothing is wrong with any of these calls."""
    told = all_in_our_terms(posed, calls)
    return not any(problem_of(posed, index, told) for index in range(len(told)))
