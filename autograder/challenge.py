"""One grading run's questions: cases drawn from a secret seed, with what the references and known mistakes answer.

A challenge is drawn once for a whole class, so the references are computed once however many submissions there are.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import secrets
import threading
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import tensors
from .assignment import Assignment
from .compare import flat, tolerance
from .exercise import GRADIENTS, Activation, Case, Device, DevicePart, Exercise, HostFunction, Leaf, Rng
from .rounding import rounding_tolerance
from .units import exercises, find_exercise
from .worker.tensors import Watch, activation
from .worker.values import leaves, map_leaves

#: Of torch answers in float64: a constant such as `torch.tensor(d).sqrt()` is a float32, and that is no mistake.
RTOL_TORCH = 1e-6
#: Of a gradient in float64, relative to its largest entry.
RTOL_GRADIENT = 2e-6
#: Where our own functions print, what they warn of and torch's number of threads belong to the whole process.
_one_at_a_time = threading.RLock()


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
    """One exercise with its cases drawn and its expected outcomes known."""

    def __init__(self, exercise: Exercise, seed: int) -> None:
        self.exercise = exercise
        generator = np.random.default_rng([seed, zlib.crc32(exercise.name.encode())])
        drawn = list(exercise.draw(generator))
        if not drawn:
            raise ValueError(f"{exercise.name}: draw made no case")
        self.cases: list[Case] = _with_twin(drawn, exercise.reference)
        if exercise.library == "torch":
            self.cases = [_with_leeway(case) for case in self.cases]
        if GRADIENTS in exercise.credit:
            self.cases.append(_gradient_case(self.cases[0]))
        if isinstance(exercise.returns, Leaf) and exercise.returns.kind == "bool":
            # Whoever counts the calls could else answer yes or no by the place alone.
            self.cases = [self.cases[index] for index in generator.permutation(len(self.cases))]
        self.expected = [self._outcome(exercise.reference, case, precise=True) for case in self.cases]
        self._mistaken: dict[str, list[Outcome]] = {}
        self._weighed = False
        criteria = {case.criterion for case in self.cases}
        for criterion in sorted(criteria ^ set(exercise.credit)):
            lacking = "credit gives it no share" if criterion in criteria else "draw made no case of it"
            raise ValueError(f"{exercise.name}: the criterion {criterion!r}: {lacking}")
        for case, expected in zip(self.cases, self.expected, strict=True):
            if (expected.failure is None) != (case.raises is None):
                wanted = "nothing (raises=None)" if case.raises is None else "an exception (raises)"
                found = f"raised {expected.failure}" if expected.failure else "returned"
                raise ValueError(f"{exercise.name}, {case.label!r}: the case wants {wanted}; the reference {found}")

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

    def mistaken(self, slug: str) -> list[Outcome]:
        """What the known mistake `slug` answers to every case."""
        if slug not in self._mistaken:
            wrong = next(mistake.wrong for mistake in self.exercise.mistakes if mistake.slug == slug)
            self._mistaken[slug] = [self._outcome(wrong, case) for case in self.cases]
        return self._mistaken[slug]

    def _outcome(self, function: Callable[..., Any], case: Case, precise: bool = False) -> Outcome:
        found = outcome(function, case, precise, self.exercise.library)
        if found.failure is None and not case.gradient:
            found = replace(found, value=flat(self.exercise.returns, found.value))
        if case.watch and self.exercise.made is not None:
            return replace(found, made=self.exercise.made(case, found.made or []))
        return replace(found, made=None)


class Challenge:
    """The posed exercises of any unit, all from one seed, each drawn when it is first needed."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = secrets.randbits(128) if seed is None else seed
        self._posed: dict[str, Posed] = {}

    def posed(self, function: str, unit: str = "") -> Posed:
        """One exercise; `unit` is where to look for it first."""
        if function not in self._posed:
            self._posed[function] = Posed(find_exercise(function, unit), self.seed)
        return self._posed[function]

    def unit(self, unit: str) -> list[Posed]:
        """The posed exercises of a unit of the course."""
        return [self.posed(function, unit) for function in exercises(unit)]

    def draw(self, assignment: Assignment) -> None:
        """Draw whatever an assignment asks, before anything is asked."""
        for function in assignment.exercises:
            self.posed(function, assignment.name)


def _with_twin(cases: list[Case], reference: Callable[..., Any]) -> list[Case]:
    """Add a second case with the shapes of the first and other numbers, right behind it.

    A function that keeps its answers by shape, or by some of its arguments, is right on everything else.
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
    """The first case of a function of counts, with one count after the other larger by 1. names: its parameters'."""
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
        return Rng(value.seed ^ 1)
    if isinstance(value, np.ndarray) and value.size > 1:
        return value.ravel()[::-1].reshape(value.shape).copy()
    return value


def _gradient_case(first: Case) -> Case:
    """The case that asks for the gradients of the first one's inputs, in float64."""

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


def outcome(function: Callable[..., Any], case: Case, precise: bool = False, library: str = "numpy") -> Outcome:
    """Call one of our own functions on fresh inputs; `precise` raises float32 inputs to float64 first.

    Any thread may ask: a worker of a Dask cluster has several.
    """
    with _one_at_a_time:
        return _call_ours(function, case, precise, library)


def _call_ours(function: Callable[..., Any], case: Case, precise: bool, library: str) -> Outcome:
    devices: dict[Device, Any] = {}

    def fresh(value: Any) -> Any:
        if isinstance(value, DevicePart):
            if value.device not in devices:
                devices[value.device] = value.device.make()
            return devices[value.device][value.name]
        return _fresh(value, precise, library)

    args = [map_leaves(value, fresh) for value in case.args]
    kwargs = {key: map_leaves(value, fresh) for key, value in case.kwargs.items()}
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            if library == "torch":
                with tensors.one_thread():
                    return _outcome_in_torch(function, case, tensors.to_torch(args), tensors.to_torch(kwargs))
            value = copy.deepcopy(function(*args, **kwargs))
        except Exception as error:
            return Outcome(failure=type(error).__name__, said=str(error))
    return Outcome(value, warned=any(issubclass(item.category, RuntimeWarning) for item in caught))


def _outcome_in_torch(function: Callable[..., Any], case: Case, args: list[Any], kwargs: dict[str, Any]) -> Outcome:
    if case.gradient:
        return Outcome(tensors.to_numpy(tensors.gradients(function, args, kwargs)))
    if not case.watch:
        return Outcome(tensors.to_numpy(function(*args, **kwargs)))
    with Watch(case.watch) as watch:
        value = function(*args, **kwargs)
    return Outcome(tensors.to_numpy(value), made=watch.made)


def _fresh(value: Any, precise: bool, library: str) -> Any:
    if isinstance(value, Rng):
        return _generator(value.seed, library)
    if isinstance(value, Activation):
        return activation(value.name, value.scale)
    if isinstance(value, HostFunction) and library == "torch":
        return _takes_tensors(value)
    if isinstance(value, np.ndarray):
        dtype = np.float64 if precise and value.dtype.kind == "f" else value.dtype
        return np.array(value, dtype=dtype, order="K")
    return value


def _generator(seed: int, library: str) -> Any:
    if library == "torch":
        import torch

        return torch.Generator().manual_seed(seed)
    return np.random.default_rng(seed)


def _takes_tensors(function: HostFunction) -> Callable[..., Any]:
    """The function as a torch answer sees it: tensors in, tensors out."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return tensors.to_torch(function(*tensors.to_numpy(args), **tensors.to_numpy(kwargs)))

    return call
