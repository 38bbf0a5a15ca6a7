"""Calls the reference and other functions of the course on a case, once or many times."""

from __future__ import annotations

import contextlib
import copy
import io
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..exercises.kit.exercise_records import Case
from ..exercises.kit.special_arguments import Activation, Device, DevicePart, HostFunction, Rng
from ..running import torch_functions
from ..worker.call_function import generator
from ..worker.encode_values import leaves, map_leaves
from ..worker.torch_calls import Watch, activation
from .cases_and_expected import Outcome

#: Printing, warnings and torch's number of threads belong to the whole process, so only one thread may use them.
one_at_a_time = threading.RLock()


def outcome(function: Callable[..., Any], case: Case, precise: bool = False, library: str = "numpy") -> Outcome:
    """Call one of the course's functions on fresh inputs; `precise` first raises float32 inputs to float64.

    It is safe to call from any thread, such as those of a Dask worker.
    """
    with one_at_a_time:
        return _call_ours(function, case, precise, library)


def _call_ours(function: Callable[..., Any], case: Case, precise: bool, library: str) -> Outcome:
    devices: dict[Device, Any] = {}

    def fresh(value: Any) -> Any:
        if isinstance(value, DevicePart):
            if value.device not in devices:
                devices[value.device] = value.device.make()
            part = devices[value.device][value.name]
            return _takes_tensors(part) if library == "torch" else part
        return _fresh(value, precise, library)

    args = [map_leaves(value, fresh) for value in case.args]
    kwargs = {key: map_leaves(value, fresh) for key, value in case.kwargs.items()}
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        try:
            if library == "torch":
                with torch_functions.one_thread():
                    return _outcome_in_torch(
                        function, case, torch_functions.to_torch(args), torch_functions.to_torch(kwargs)
                    )
            value = copy.deepcopy(function(*args, **kwargs))
        except Exception as error:
            return Outcome(failure=type(error).__name__, said=str(error))
    return Outcome(value, warned=any(issubclass(item.category, RuntimeWarning) for item in caught))


def _outcome_in_torch(function: Callable[..., Any], case: Case, args: list[Any], kwargs: dict[str, Any]) -> Outcome:
    if case.gradient:
        return Outcome(torch_functions.to_numpy(torch_functions.gradients(function, args, kwargs)))
    if not case.watch:
        return Outcome(torch_functions.to_numpy(function(*args, **kwargs)))
    with Watch(case.watch) as watch:
        value = function(*args, **kwargs)
    return Outcome(torch_functions.to_numpy(value), made=watch.made)


def _fresh(value: Any, precise: bool, library: str) -> Any:
    if isinstance(value, Rng):
        return generator({"seed": value.seed, "used": value.used, "lib": library})
    if isinstance(value, Activation):
        return activation(value.name, value.scale)
    if isinstance(value, HostFunction) and library == "torch":
        return _takes_tensors(value)
    if isinstance(value, np.ndarray):
        dtype = np.float64 if precise and value.dtype.kind == "f" else value.dtype
        return np.array(value, dtype=dtype, order="K")
    return value


def _takes_tensors(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a torch answer sees it: it takes and returns tensors."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return torch_functions.to_torch(function(*torch_functions.to_numpy(args), **torch_functions.to_numpy(kwargs)))

    return call


#: Arguments of other types record their calls, so each call needs its own.
_PLAIN = (np.ndarray, np.generic, int, float, str, type(None))


@dataclass(frozen=True)
class _Ready:
    """A case's inputs, to be used many times. case: kept so that no other object gets the id of its arguments."""

    case: Case
    args: list[Any]
    kwargs: dict[str, Any]
    tensors: tuple[Any, ...]

    def written(self) -> int:
        """Return how often the input tensors were written to; the arrays are read-only."""
        return sum(tensor._version for tensor in self.tensors)


class Again:
    """Calls the course's functions on cases, as `outcome` does, without copying the inputs for each call."""

    def __init__(self, library: str) -> None:
        self._library = library
        self._ready: dict[int, _Ready | None] = {}

    @contextlib.contextmanager
    def quietly(self) -> Iterator[None]:
        """Return a context for many calls, in which printing, warnings and torch's threads are set once."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(one_at_a_time)
            stack.enter_context(warnings.catch_warnings())
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            if self._library == "torch":
                stack.enter_context(torch_functions.one_thread())
                stack.enter_context(torch_functions.finite_eigenvalues())
            warnings.simplefilter("ignore")
            yield

    def ask(self, function: Callable[..., Any], case: Case) -> Outcome:
        """Return a function's outcome on a case. Call it inside `quietly`."""
        key = id(case.args)
        if key not in self._ready:
            self._ready[key] = self._made(case)
        ready = self._ready[key]
        if ready is None:
            return outcome(function, case, library=self._library)
        before = ready.written()
        try:
            value = function(*map_leaves(ready.args, _same), **map_leaves(ready.kwargs, _same))
            value = torch_functions.to_numpy(value) if self._library == "torch" else copy.deepcopy(value)
            found = Outcome(value)
        except ValueError as error:
            if "read-only" in str(error):
                return outcome(function, case, library=self._library)
            found = Outcome(failure="ValueError", said=str(error))
        except Exception as error:
            found = Outcome(failure=type(error).__name__, said=str(error))
        if ready.written() != before:  # the function wrote into its input
            del self._ready[key]
        return found

    def _made(self, case: Case) -> _Ready | None:
        """A case's inputs, to be used many times; None if each call needs its own."""
        given = list(leaves((*case.args, *case.kwargs.values())))
        if case.gradient or case.watch or any(not isinstance(leaf, _PLAIN) for leaf in given):
            return None
        args, kwargs = map_leaves(list(case.args), _locked), map_leaves(dict(case.kwargs), _locked)
        if self._library == "torch":
            args, kwargs = torch_functions.to_torch(args), torch_functions.to_torch(kwargs)
        tensors_in = tuple(leaf for leaf in leaves((args, kwargs)) if hasattr(leaf, "_version"))
        return _Ready(case, args, kwargs, tensors_in)


def _same(leaf: Any) -> Any:
    return leaf


def _locked(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        leaf = np.array(leaf, order="K")
        leaf.flags.writeable = False
    return leaf
