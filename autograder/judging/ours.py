"""Calls our own functions, references and known mistakes alike, as a student's would be called, on fresh inputs."""

from __future__ import annotations

import contextlib
import copy
import io
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..exercises.kit.arguments import Activation, Device, DevicePart, HostFunction, Rng
from ..exercises.kit.records import Case
from ..running import tensors
from ..worker.calls import generator
from ..worker.tensors import Watch, activation
from ..worker.values import map_leaves
from .posed import Outcome

#: Where our own functions print, what they warn of and torch's number of threads belong to the whole process.
one_at_a_time = threading.RLock()


def outcome(function: Callable[..., Any], case: Case, precise: bool = False, library: str = "numpy") -> Outcome:
    """Call one of our own functions on fresh inputs; `precise` raises float32 inputs to float64 first.

    Any thread may ask: a worker of a Dask cluster has several.
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
    """The function as a torch answer sees it: tensors in, tensors out."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return tensors.to_torch(function(*tensors.to_numpy(args), **tensors.to_numpy(kwargs)))

    return call
