"""One grading run's questions: cases drawn from a secret seed, with what the references and known mistakes answer.

A challenge is drawn once for a whole class, so the references are computed once however many submissions there are.
"""

from __future__ import annotations

import contextlib
import copy
import io
import secrets
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .exercise import Case, Exercise, Rng
from .units import exercises, find_exercise


@dataclass(frozen=True)
class Outcome:
    """What one of our own functions did with one case: a value, or the name of an exception; and if NumPy warned."""

    value: Any = None
    failure: str | None = None
    warned: bool = False


class Posed:
    """One exercise with its cases drawn and its expected outcomes known."""

    def __init__(self, exercise: Exercise, seed: int) -> None:
        self.exercise = exercise
        generator = np.random.default_rng([seed, zlib.crc32(exercise.name.encode())])
        self.cases: list[Case] = _with_twin(list(exercise.draw(generator)))
        self.expected = [outcome(exercise.reference, case, precise=True) for case in self.cases]
        self._mistaken: dict[str, list[Outcome]] = {}
        unknown = {case.criterion for case in self.cases} ^ set(exercise.credit)
        if unknown:
            raise ValueError(f"{exercise.name}: cases and credit disagree about the criteria {sorted(unknown)}")
        for case, expected in zip(self.cases, self.expected, strict=True):
            if (expected.failure is None) != (case.raises is None):
                raise ValueError(f"{exercise.name}, {case.label}: the reference raised {expected.failure}")

    def mistaken(self, slug: str) -> list[Outcome]:
        """What the known mistake `slug` answers to every case."""
        if slug not in self._mistaken:
            wrong = next(mistake.wrong for mistake in self.exercise.mistakes if mistake.slug == slug)
            self._mistaken[slug] = [outcome(wrong, case) for case in self.cases]
        return self._mistaken[slug]


class Challenge:
    """The posed exercises of any unit, all from one seed, each drawn when it is first needed."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = secrets.randbits(128) if seed is None else seed
        self._posed: dict[str, Posed] = {}

    def posed(self, function: str) -> Posed:
        if function not in self._posed:
            self._posed[function] = Posed(find_exercise(function), self.seed)
        return self._posed[function]

    def unit(self, unit: str) -> list[Posed]:
        """The posed exercises of `unit`, in the order of its notebook."""
        return [self.posed(function) for function in exercises(unit)]


def _with_twin(cases: list[Case]) -> list[Case]:
    """Add a second case with the shapes of the first and other numbers, right behind it.

    A function that keeps its answers by shape is right on everything else.
    """
    first = cases[0]
    args = tuple(_reversed(value) for value in first.args)
    if all(one is other for one, other in zip(args, first.args, strict=True)):
        return cases
    twin = replace(first, args=args, label=f"{first.label}, other numbers")
    return [first, twin, *cases[1:]]


def _reversed(value: Any) -> Any:
    if isinstance(value, Rng):
        return Rng(value.seed ^ 1)
    if isinstance(value, np.ndarray) and value.size > 1:
        return np.ascontiguousarray(value.ravel()[::-1].reshape(value.shape))
    return value


def outcome(function: Callable[..., Any], case: Case, precise: bool = False) -> Outcome:
    """Call one of our own functions on fresh inputs; `precise` raises float32 inputs to float64 first."""
    args = [_fresh(value, precise) for value in case.args]
    kwargs = {key: _fresh(value, precise) for key, value in case.kwargs.items()}
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            value = function(*args, **kwargs)
        except Exception as error:
            return Outcome(failure=type(error).__name__)
    return Outcome(copy.deepcopy(value), warned=any(issubclass(item.category, RuntimeWarning) for item in caught))


def _fresh(value: Any, precise: bool) -> Any:
    if isinstance(value, Rng):
        return value.build()
    if isinstance(value, np.ndarray):
        dtype = np.float64 if precise and value.dtype.kind == "f" else value.dtype
        return np.array(value, dtype=dtype, order="K")
    return value
