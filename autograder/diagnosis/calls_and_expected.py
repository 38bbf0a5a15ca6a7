"""Pairs the calls of one function with the expected results, for the symptoms to inspect."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..exercises.kit.exercise_records import Case
from ..judging.cases_and_expected import Posed
from ..judging.compare_results import Problem, close, tolerance
from ..records import Call


@dataclass(frozen=True)
class Evidence:
    """All calls of one function, with the problem of each (None if it is right).

    only: the index of the only result to inspect, or None for all.
    """

    posed: Posed
    calls: list[Call]
    problems: list[Problem | None]
    only: int | None = None

    def parameters(self) -> list[str]:
        """Return the names of the arguments, as in the docstring."""
        return list(inspect.signature(self.posed.exercise.reference).parameters)

    def failing(self) -> list[int]:
        return [index for index, problem in enumerate(self.problems) if problem is not None]

    def all_of_kind(self, *kinds: str) -> bool:
        """Return whether every failing case is of one of these kinds."""
        return all(self.problems[index].kind in kinds for index in self.failing())

    def first(self) -> tuple[Case, Call, Problem]:
        index = self.failing()[0]
        return self.posed.cases[index], self.calls[index], self.problems[index]

    def pairs(self, only_failing: bool = True) -> Iterator[tuple[Case, int, np.ndarray, np.ndarray]]:
        """Yield (case, leaf, value, expected) for each array or number of the right shape, as float64 or bool."""
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
        """Return each result of a case with the expected one; none if their numbers differ."""
        values, expected = self.calls[index].value, self.posed.expected[index].value
        if len(self.posed.exercise.leaves) == 1:
            return [(values, expected)]
        if not isinstance(values, tuple) or not isinstance(expected, tuple) or len(values) != len(expected):
            return []
        return list(zip(values, expected, strict=True))

    def misshapen(self) -> set[int]:
        """Return the indices of results whose shape is wrong in a failing case."""
        found = set()
        for index in self.failing():
            for leaf, (value, due) in enumerate(self.results(index)):
                if isinstance(value, np.ndarray) and isinstance(due, np.ndarray) and value.shape != due.shape:
                    found.add(leaf)
        return found

    def wrong_pairs(self) -> list[tuple[Case, int, np.ndarray, np.ndarray]]:
        """Return the pairs whose values differ."""
        return [pair for pair in self.pairs() if not close(pair[2], pair[3], tolerance(pair[0]))]


def _plain(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind == "b" else array.astype(np.float64)
