"""Defines arguments of a call that aren't plain values, such as functions and generators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rng:
    """Represents a seeded generator that is built for every call: NumPy's or, in torch units, torch's.

    used: whether the generator has been drawn from before the call, so that its seed doesn't predict its numbers.
    """

    seed: int
    used: bool = False


@dataclass(frozen=True)
class HostFunction:
    """Wraps a function as an argument. It runs outside the student's process, so the student's code can't read it.

    function: takes and returns NumPy arrays or numbers; a ValueError it raises reaches the student's code.
    """

    function: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


@dataclass(frozen=True)
class Device:
    """Groups functions that share a state, such as a clock and the work that advances it, made again for every call.

    make: returns the functions by name; they run outside the student's process, as a `HostFunction` does.
    pace: unless 0, every answer takes this many seconds or a multiple of it, so that its time reveals nothing.
    """

    make: Callable[[], Mapping[str, Callable[..., Any]]]
    pace: float = 0.0

    def part(self, name: str) -> DevicePart:
        """Return an argument that is one of the functions."""
        return DevicePart(self, name)


@dataclass(frozen=True)
class DevicePart:
    """Names one function of a `Device` as an argument. Parts of one device in the same call share its state."""

    device: Device
    name: str


@dataclass(frozen=True)
class Activation:
    """Describes an argument that is a differentiable elementwise function, built in the worker: `name` of `scale * x`.

    name: "tanh", "relu", "silu", "softplus", "square" or "sin".
    """

    name: str
    scale: float = 1.0
