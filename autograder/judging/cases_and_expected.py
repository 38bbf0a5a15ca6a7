"""Holds the cases of an exercise with their expected outcomes, and finds what is wrong with each call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..exercises.kit.exercise_records import GRADIENTS, Case, Exercise
from ..records import Call
from ..running.torch_functions import as_asked
from .compare_results import Problem, find_gradient_problem, find_problem, flat, rounding_tolerance, tolerance


@dataclass(frozen=True)
class Outcome:
    """What one of the course's own functions did with one case: a value, or the name of an exception.

    said: the exception's message.
    warned: whether NumPy warned.
    made: in a case with `watch`, the tensors that it made; once `Exercise.made` has seen them, what is wrong with them.
    """

    value: Any = None
    failure: str | None = None
    said: str = ""
    warned: bool = False
    made: Any = None


class Posed:
    """One exercise with its cases drawn and its expected outcomes known.

    ask: calls one of the course's functions on a case: `ask(function, case, precise)`; precise raises float32 to
        float64.
    again: calls many functions on the same cases; see `Again`.
    """

    def __init__(self, exercise: Exercise, cases: Sequence[Case], ask: Callable[..., Outcome], again: Any) -> None:
        self.exercise, self.cases, self._ask, self._again = exercise, list(cases), ask, again
        self.expected = [self._outcome(exercise.reference, case, precise=True) for case in self.cases]
        self._mistaken: dict[tuple[str, int], Outcome] = {}
        #: The exercise with cases of equal sizes, or None where it has none; a repair must pass these, too.
        self.probes: Posed | None = None
        #: The exercise without the general cases: the diagnosis uses it if one of the exercise's own cases fails.
        self.own: Posed = self
        self._varied: dict[tuple[Hashable, int], Outcome] = {}
        #: Caches what is found out about this posed exercise.
        self.notes: dict[Any, Any] = {}
        self._weighed = False

    def weigh(self) -> None:
        """Raise the tolerance of each case to what rounding needs, once.

        It runs only after a call has failed, because few answers need it. What passes with less tolerance passes with
        more.
        """
        if self._weighed or self.exercise.examine is not None:
            return

        def ask(case: Case, precise: bool) -> Any:
            return self._outcome(self.exercise.reference, case, precise).value

        cases = []
        for case, expected in zip(self.cases, self.expected, strict=True):
            enough = tolerance(case)
            asked = rounding_tolerance(ask, case, expected.value, enough) if case.raises is None else 0.0
            cases.append(replace(case, rtol=asked) if asked > enough else case)
        self.cases, self._weighed = cases, True
        if self.own is not self:
            self.own.cases, self.own._weighed = cases[: len(self.own.cases)], True

    def part(self, indices: Sequence[int]) -> Posed:
        """Return the same exercise with some of its cases, each to be called once."""
        part = self._with([replace(self.cases[index], once=True) for index in indices], indices)
        part.probes, part._weighed = None, True
        return part

    def keep_own(self, count: int) -> None:
        """Set `own` to the exercise with only its first `count` cases."""
        if count < len(self.cases):
            self.own = self._with(self.cases[:count], range(count))

    def _with(self, cases: list[Case], indices: Sequence[int]) -> Posed:
        part = copy(self)
        part.cases, part.expected = cases, [self.expected[index] for index in indices]
        part.own, part.notes, part._varied, part._mistaken = part, {}, {}, {}
        return part

    def mistaken(self, slug: str, index: int) -> Outcome:
        """Return the outcome of the known mistake `slug` on one case."""
        if (slug, index) not in self._mistaken:
            wrong = next(mistake.wrong for mistake in self.exercise.mistakes if mistake.slug == slug)
            self._mistaken[slug, index] = self._outcome(wrong, self.cases[index])
        return self._mistaken[slug, index]

    def varied(self, name: Hashable, function: Callable[..., Any], index: int) -> Outcome:
        """Return a mutant's outcome on one case, cached by name because many students make the same mistake."""
        if (name, index) not in self._varied:
            self._varied[name, index] = self.tried(function, index)
        return self._varied[name, index]

    def ask(self, function: Callable[..., Any], case: Case) -> Outcome:
        """Return the outcome of one of the course's functions on a case, with its results as they are."""
        return self._ask(function, case, precise=True)

    def tried(self, function: Callable[..., Any], index: int) -> Outcome:
        """Return a function's outcome on one case without caching it."""
        found = self._again.ask(function, self.cases[index])
        if found.failure is None:
            found = replace(found, value=flat(self.exercise.returns, found.value), made=None)
        return found

    def quietly(self) -> AbstractContextManager[None]:
        """Return a context in which many functions may be tried."""
        return self._again.quietly()

    def reference_on(self, case: Case) -> Outcome:
        """Return the reference's outcome on a case that was not drawn."""
        return self._outcome(self.exercise.reference, case, precise=True)

    def _outcome(self, function: Callable[..., Any], case: Case, precise: bool = False) -> Outcome:
        found = self._ask(function, case, precise)
        if found.failure is None and not case.gradient:
            found = replace(found, value=flat(self.exercise.returns, found.value))
        if case.watch and self.exercise.made is not None:
            return replace(found, made=self.exercise.made(case, found.made or []))
        return replace(found, made=None)


#: An error message with more numbers than this names everything, so it doesn't show that the student knows the cause.
NUMBERS_CAP = 20


def in_our_terms(posed: Posed, case: Case, call: Call) -> Call:
    """Return a call with tensors as arrays and nested results as one flat tuple."""
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
    """Return the calls of all cases with tensors as arrays."""
    return [in_our_terms(posed, case, call) for case, call in zip(posed.cases, calls, strict=False)]


def problems_of(posed: Posed, calls: list[Call]) -> list[Problem | None]:
    """Return each call's problem or None. If any call fails, all are compared again with tolerance for rounding."""
    cases = posed.cases
    problems = [problem_of(posed, index, calls) for index in range(len(cases))]
    if any(problems):
        posed.weigh()
    if posed.cases is not cases:  # another thread may have called `weigh` first
        problems = [problem_of(posed, index, calls) for index in range(len(cases))]
    return problems


def latest_is_off(posed: Posed, calls: list[Call]) -> bool:
    """Return whether the last of these calls is wrong by more than rounding."""
    index = len(calls) - 1
    told = [*calls[:index], in_our_terms(posed, posed.cases[index], calls[index])]
    if problem_of(posed, index, told) is None:
        return False
    posed.weigh()
    return problem_of(posed, index, told) is not None


def problem_of(posed: Posed, index: int, calls: list[Call]) -> Problem | None:
    exercise, case, expected = posed.exercise, posed.cases[index], posed.expected[index]
    if index >= len(calls):
        return Problem("unanswered", "it gave no answer")
    call = calls[index]
    if case.raises is not None:
        if call.failure is None:
            return Problem("not-raised", f"it raises no {case.raises.type_name}")
        if call.failure.type_name != case.raises.type_name:
            found = call.failure.described(exercise.name)
            return Problem("raised", f"it raises {found} instead of a {case.raises.type_name}")
        numbers = len(re.findall(r"\d+", call.failure.message))
        if numbers > NUMBERS_CAP or not all(word in call.failure.message for word in case.raises.mentions):
            return Problem("not-raised", f"the message of its {case.raises.type_name} does not name what is wrong")
        return None
    if call.failure is not None:
        return Problem("raised", f"it raises {call.failure.described(exercise.name)}")
    if case.gradient and GRADIENTS not in exercise.credit and _has_no_gradients(call.value):
        return None  # the result may be a plain number
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
        problem = Problem("made", f"one of your lines runs {call.lines} times, and this exercise allows no such loop")
    if problem is None and case.quiet and call.numerical_warnings:
        return Problem("warned", f"NumPy warned: {call.numerical_warnings[0]}")
    return problem


def _has_no_gradients(value: Any) -> bool:
    return isinstance(value, tuple) and not value


def _names(posed: Posed, case: Case) -> list[str]:
    """The names of a case's floating inputs, in order, as the student knows them: X, params["W_Q"]."""
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
    """Return whether all of these calls are right."""
    told = all_in_our_terms(posed, calls)
    return not any(problem_of(posed, index, told) for index in range(len(told)))
