"""A posed exercise, and an answer to it: all calls beside what was expected, ready to be compared and explained."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data import Call
from ..exercises.kit.records import Case, Exercise
from .compare import Problem, close, flat, tolerance
from .rounding import rounding_tolerance


@dataclass(frozen=True)
class Outcome:
    """What one of our own functions did with one case: a value, or the name of an exception; and if NumPy warned.

    said: the exception's message.
    made: in a case that watches them, the tensors it made on the way, and once looked at what is wrong with them.
    """

    value: Any = None
    failure: str | None = None
    said: str = ""
    warned: bool = False
    made: Any = None


class Posed:
    """One exercise with its cases drawn and its expected outcomes known.

    ask: calls one of our own functions on a case: `ask(function, case, precise)`; precise raises float32 to float64.
    again: calls many functions on the same cases; see `Again`.
    """

    def __init__(self, exercise: Exercise, cases: Sequence[Case], ask: Callable[..., Outcome], again: Any) -> None:
        self.exercise, self.cases, self._ask, self._again = exercise, list(cases), ask, again
        self.expected = [self._outcome(exercise.reference, case, precise=True) for case in self.cases]
        self._mistaken: dict[str, list[Outcome]] = {}
        #: The exercise with cases of equal sizes, where it has any: what else is asked of a wrong answer.
        self.probes: Posed | None = None
        #: The exercise without the cases that every exercise is asked: enough to explain what is wrong in its own.
        self.own: Posed = self
        self._varied: dict[tuple[str, int], Outcome] = {}
        #: What was found out about this posing and is asked for again.
        self.notes: dict[Any, Any] = {}
        self._weighed = False

    def weigh(self) -> None:
        """Give every case at least the tolerance that rounding asks for, once.

        Few answers need it, so it waits for the first that is off: whoever is right within less is right with more.
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

    def part(self, indices: Sequence[int]) -> Posed:
        """The same exercise with some of its cases, each to be asked once."""
        part = self._with([replace(self.cases[index], once=True) for index in indices], indices)
        part.probes, part._mistaken, part._weighed = None, self._mistaken, True
        return part

    def keep_own(self, count: int) -> None:
        """The first cases, so many, are the exercise's own."""
        if count < len(self.cases):
            self.own = self._with(self.cases[:count], range(count))

    def _with(self, cases: list[Case], indices: Sequence[int]) -> Posed:
        part = copy(self)
        part.cases, part.expected = cases, [self.expected[index] for index in indices]
        part.own, part.notes, part._varied, part._mistaken = part, {}, {}, {}
        return part

    def mistaken(self, slug: str) -> list[Outcome]:
        """What the known mistake `slug` answers to every case."""
        if slug not in self._mistaken:
            wrong = next(mistake.wrong for mistake in self.exercise.mistakes if mistake.slug == slug)
            self._mistaken[slug] = [self._outcome(wrong, case) for case in self.cases]
        return self._mistaken[slug]

    def varied(self, name: str, function: Callable[..., Any], index: int) -> Outcome:
        """What another of our functions answers to one case; kept by name, since a class makes the same mistakes."""
        if (name, index) not in self._varied:
            self._varied[name, index] = self.tried(function, index)
        return self._varied[name, index]

    def ask(self, function: Callable[..., Any], case: Case) -> Outcome:
        """What one of our functions answers to a case, as it comes."""
        return self._ask(function, case, precise=True)

    def tried(self, function: Callable[..., Any], index: int) -> Outcome:
        """The same, not kept: what is tried once and fails is needed by nobody."""
        found = self._again.ask(function, self.cases[index])
        if found.failure is None:
            found = replace(found, value=flat(self.exercise.returns, found.value), made=None)
        return found

    def quietly(self) -> AbstractContextManager[None]:
        """Inside, many functions may be tried."""
        return self._again.quietly()

    def reference_on(self, case: Case) -> Outcome:
        """What the reference answers to another case than those that were drawn."""
        return self._outcome(self.exercise.reference, case, precise=True)

    def _outcome(self, function: Callable[..., Any], case: Case, precise: bool = False) -> Outcome:
        found = self._ask(function, case, precise)
        if found.failure is None and not case.gradient:
            found = replace(found, value=flat(self.exercise.returns, found.value))
        if case.watch and self.exercise.made is not None:
            return replace(found, made=self.exercise.made(case, found.made or []))
        return replace(found, made=None)


@dataclass(frozen=True)
class Evidence:
    """All calls of one function, with the problem of each (None where it is right).

    only: the one of several results that is looked at; None: all.
    """

    posed: Posed
    calls: list[Call]
    problems: list[Problem | None]
    only: int | None = None

    def parameters(self) -> list[str]:
        """The arguments by the names that the docstring gives them."""
        return list(inspect.signature(self.posed.exercise.reference).parameters)

    def failing(self) -> list[int]:
        return [index for index, problem in enumerate(self.problems) if problem is not None]

    def all_of_kind(self, *kinds: str) -> bool:
        """Is every failing case of one of these kinds?"""
        return all(self.problems[index].kind in kinds for index in self.failing())

    def first(self) -> tuple[Case, Call, Problem]:
        index = self.failing()[0]
        return self.posed.cases[index], self.calls[index], self.problems[index]

    def pairs(self, only_failing: bool = True) -> Iterator[tuple[Case, int, np.ndarray, np.ndarray]]:
        """(case, leaf, value, expected) of every returned array or number of the right shape, as float64 or bool."""
        for index, (call, problem) in enumerate(zip(self.calls, self.problems, strict=True)):
            if call.failure is not None or (only_failing and problem is None) or self.posed.cases[index].gradient:
                continue
            values, expected = call.value, self.posed.expected[index].value
            if not isinstance(self.posed.exercise.returns, tuple):
                values, expected = (values,), (expected,)
            if not isinstance(values, tuple) or expected is None or len(values) != len(expected):
                continue
            for leaf, (value, wanted) in enumerate(zip(values, expected, strict=True)):
                if isinstance(value, (np.ndarray, int, float)) and self.only in (None, leaf):
                    value, wanted = _plain(np.asarray(value)), _plain(np.asarray(wanted))
                    if value.shape == wanted.shape:
                        yield self.posed.cases[index], leaf, value, wanted

    def results(self, index: int) -> list[tuple[Any, Any]]:
        """Of one case each result beside the one that is due; none where there are more or fewer than are due."""
        values, expected = self.calls[index].value, self.posed.expected[index].value
        if len(self.posed.exercise.leaves) == 1:
            return [(values, expected)]
        if not isinstance(values, tuple) or not isinstance(expected, tuple) or len(values) != len(expected):
            return []
        return list(zip(values, expected, strict=True))

    def misshapen(self) -> set[int]:
        """Which of the results have another shape than is due in a case that fails."""
        found = set()
        for index in self.failing():
            for leaf, (value, due) in enumerate(self.results(index)):
                if isinstance(value, np.ndarray) and isinstance(due, np.ndarray) and value.shape != due.shape:
                    found.add(leaf)
        return found

    def wrong_pairs(self) -> list[tuple[Case, int, np.ndarray, np.ndarray]]:
        """The pairs whose values differ."""
        return [pair for pair in self.pairs() if not close(pair[2], pair[3], tolerance(pair[0]))]


def _plain(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind == "b" else array.astype(np.float64)
