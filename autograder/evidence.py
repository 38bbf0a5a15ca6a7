"""What is known of a wrong answer: all its calls beside what was expected, ready for the relations to look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .challenge import Posed
from .compare import Problem, close, tolerance
from .dialogue import Call
from .exercise import Case


@dataclass(frozen=True)
class Finding:
    """A slug (None when the mistake has no name) and the words for the student."""

    slug: str | None
    text: str


@dataclass(frozen=True)
class Evidence:
    """All calls of one function, with the problem of each (None where it is right)."""

    posed: Posed
    calls: list[Call]
    problems: list[Problem | None]

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
                if isinstance(value, (np.ndarray, int, float)):
                    value, wanted = _plain(np.asarray(value)), _plain(np.asarray(wanted))
                    if value.shape == wanted.shape:
                        yield self.posed.cases[index], leaf, value, wanted

    def wrong_pairs(self) -> list[tuple[Case, int, np.ndarray, np.ndarray]]:
        """The pairs whose values differ."""
        return [pair for pair in self.pairs() if not close(pair[2], pair[3], tolerance(pair[0]))]


def _plain(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind == "b" else array.astype(np.float64)
