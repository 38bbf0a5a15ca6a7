"""A posed exercise, and an answer to it: all calls beside what was expected, ready to be compared and explained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from ..exercises.kit.records import Case, Exercise
from .compare import flat, tolerance
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
