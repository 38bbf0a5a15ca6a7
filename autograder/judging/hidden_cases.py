"""Draws the hidden cases of one grading run from a secret seed and computes the expected outcomes.

A challenge is drawn once for a whole class, so each reference runs once, however many submissions there are.
"""

from __future__ import annotations

import inspect
import secrets
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..exercises import exercises, find_exercise
from ..exercises.kit.exercise_records import GRADIENTS, Case, Exercise, Leaf
from ..exercises.kit.special_arguments import Rng
from ..reading.read_assignment import Assignment
from ..worker.encode_values import leaves, map_leaves
from .cases_and_expected import Posed
from .compare_results import tolerance
from .reference_calls import Again, outcome

#: How many cases of each criterion are called twice: side effects show in a few, and each repetition costs two calls.
REPEATED = 2
#: For torch answers in float64, because a constant such as `torch.tensor(d).sqrt()` is float32, which is no mistake.
RTOL_TORCH = 1e-6
#: For a gradient in float64, relative to its largest entry.
RTOL_GRADIENT = 2e-6


def pose(exercise: Exercise, seed: int) -> Posed:
    """Draw an exercise's cases from a seed. Raises ValueError if the exercise's declaration contradicts itself."""
    generator = np.random.default_rng([seed, zlib.crc32(exercise.name.encode())])
    drawn = list(exercise.draw(generator))
    if not drawn:
        raise ValueError(f"{exercise.name}: draw made no case")
    cases, general = _with_twin(drawn, exercise.reference), _asked_everywhere(exercise, seed)
    if exercise.library == "torch":
        cases, general = ([_with_leeway(case) for case in each] for each in (cases, general))
    if GRADIENTS in exercise.credit:
        cases.append(_gradient_case(cases[0]))
    if isinstance(exercise.returns, Leaf) and exercise.returns.kind == "bool":
        # Otherwise an answer that counts its calls could tell from the order alone whether to return True.
        cases = [cases[index] for index in generator.permutation(len(cases))]
    cases, general = _repeated_in_part(cases), [replace(case, once=True) for case in general]
    posed = Posed(exercise, [*cases, *general], partial(outcome, library=exercise.library), Again(exercise.library))
    criteria = {case.criterion for case in cases}
    for criterion in sorted(criteria ^ set(exercise.credit)):
        lacking = "credit gives it no share" if criterion in criteria else "draw made no case of it"
        raise ValueError(f"{exercise.name}: the criterion {criterion!r}: {lacking}")
    for case, expected in zip(posed.cases, posed.expected, strict=True):
        if (expected.failure is None) != (case.raises is None):
            wanted = "nothing (raises=None)" if case.raises is None else "an exception (raises)"
            found = f"raised {expected.failure}" if expected.failure else "returned"
            raise ValueError(f"{exercise.name}, {case.label!r}: the case wants {wanted}; the reference {found}")
    posed.probes = _probes(exercise, seed)
    posed.keep_own(len(cases))
    return posed


def _repeated_in_part(cases: list[Case]) -> list[Case]:
    """The same cases; all but the first few of each criterion are called once."""
    count: Counter[str] = Counter()
    found = []
    for case in cases:
        count[case.criterion] += 1
        found.append(replace(case, once=case.once or count[case.criterion] > REPEATED))
    return found


def _asked_everywhere(exercise: Exercise, seed: int) -> list[Case]:
    """The general cases, which every exercise has, as far as the reference accepts them.

    The first case is drawn again, because the same inputs twice would test for side effects rather than values.
    """
    if exercise.general is None:
        return []
    generators = [np.random.default_rng([seed, zlib.crc32(exercise.name.encode()), n]) for n in (2, 3)]
    drawn = exercise.general(generators[0], exercise.draw(generators[1])[0])
    posed = Posed(exercise, drawn, partial(outcome, library=exercise.library), Again(exercise.library))
    return [case for case, expected in zip(drawn, posed.expected, strict=True) if expected.failure is None]


def _probes(exercise: Exercise, seed: int) -> Posed | None:
    """The exercise with cases of equal sizes, if it declares some and the reference accepts them."""
    generator = np.random.default_rng([seed, zlib.crc32(exercise.name.encode()), 1])
    drawn = list(exercise.probes(generator)) if exercise.probes is not None and exercise.examine is None else []
    cases = [_with_leeway(case) if exercise.library == "torch" else case for case in drawn]
    posed = Posed(exercise, cases, partial(outcome, library=exercise.library), Again(exercise.library))
    return posed if cases and all(expected.failure is None for expected in posed.expected) else None


class Challenge:
    """The posed exercises of any unit, drawn from one seed when they are first needed."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = secrets.randbits(128) if seed is None else seed
        self._posed: dict[str, Posed] = {}

    def posed(self, function: str, unit: str = "") -> Posed:
        """Return one posed exercise; `unit` is searched first."""
        if function not in self._posed:
            self._posed[function] = pose(find_exercise(function, unit), self.seed)
        return self._posed[function]

    def unit(self, unit: str) -> list[Posed]:
        """Return the posed exercises of a unit of the course."""
        return [self.posed(function, unit) for function in exercises(unit)]

    def draw(self, assignment: Assignment) -> None:
        """Draw all exercises of an assignment before any answer runs."""
        for function in assignment.exercises:
            self.posed(function, assignment.name)


def _with_twin(cases: list[Case], reference: Callable[..., Any]) -> list[Case]:
    """Add a second case with the shapes of the first and other numbers, right after it.

    It catches a function that caches its results by shape or by some of its arguments, which passes everything else.
    """
    first = cases[0]
    args = tuple(map_leaves(value, _reversed) for value in first.args)
    kwargs = {key: map_leaves(value, _reversed) for key, value in first.kwargs.items()}
    if len(args) > 1 and all(type(value) is int for value in args):
        return [first, *_neighbours(first, list(inspect.signature(reference).parameters)), *cases[1:]]
    twin = replace(first, args=args, kwargs=kwargs, label=f"{first.label}, other numbers")
    return cases if _same_inputs(first, twin) else [first, twin, *cases[1:]]


def _with_leeway(case: Case) -> Case:
    return case if case.rtol is not None else replace(case, rtol=max(RTOL_TORCH, tolerance(case)))


def _neighbours(first: Case, names: list[str]) -> list[Case]:
    """The first case of a function of counts, with one count at a time increased by 1. names: its parameters."""
    found = []
    sizes_of = list(first.sizes) if len(first.sizes) == len(first.args) else names
    for position, value in enumerate(first.args):
        args = (*first.args[:position], value + 1, *first.args[position + 1 :])
        larger = {sizes_of[position]: value + 1} if sizes_of[position] in first.sizes else {}
        label = ", ".join(f"{name} = {number}" for name, number in zip(names, args, strict=False))
        found.append(replace(first, args=args, sizes={**first.sizes, **larger}, label=label))
    return found


def _same_inputs(one: Case, other: Case) -> bool:
    changed = []
    for value, after in zip(leaves((one.args, one.kwargs)), leaves((other.args, other.kwargs)), strict=True):
        changed.append(value is not after)
    return not any(changed)


def _reversed(value: Any) -> Any:
    if isinstance(value, Rng):
        return replace(value, seed=value.seed ^ 1)
    if isinstance(value, np.ndarray) and value.size > 1:
        return value.ravel()[::-1].reshape(value.shape).copy()
    return value


def _gradient_case(first: Case) -> Case:
    """The case that asks for the gradients with respect to the first case's inputs, in float64."""

    def precise(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            return np.array(value, np.float64, order="K")
        return value

    return replace(
        first,
        criterion=GRADIENTS,
        label="gradients",
        args=tuple(map_leaves(value, precise) for value in first.args),
        kwargs={key: map_leaves(value, precise) for key, value in first.kwargs.items()},
        gradient=True,
        rtol=RTOL_GRADIENT,
    )
