"""Arguments of a call that are no plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rng:
    """An argument that is a seeded generator, built freshly for every call: NumPy's, or torch's in torch units.

    used: whether something was drawn from it before, so that its seed does not say what comes next.
    """

    seed: int
    used: bool = False


@dataclass(frozen=True)
class HostFunction:
    """An argument that is a function. It runs outside the student's process, so nothing in it can be read there.

    function: takes and returns NumPy arrays or numbers; a ValueError it raises reaches the student's code.
    """

    function: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


@dataclass(frozen=True)
class Device:
    """Functions that share a state, such as a clock and the work that moves it, made afresh for every call.

    make: returns the functions by name; they run outside the student's process, as a `HostFunction` does.
    pace: where not 0, their answers come after so many seconds or a multiple of them, so that time tells nothing.
    """

    make: Callable[[], Mapping[str, Callable[..., Any]]]
    pace: float = 0.0

    def part(self, name: str) -> DevicePart:
        """An argument that is one of the functions."""
        return DevicePart(self, name)


@dataclass(frozen=True)
class DevicePart:
    """An argument that is one function of a `Device`. Parts of one device in the same call share its state."""

    device: Device
    name: str


@dataclass(frozen=True)
class Activation:
    """An argument that is a differentiable elementwise function, built in the worker: `name` of `scale * x`.

    name: "tanh", "relu", "silu", "softplus", "square" or "sin".
    """

    name: str
    scale: float = 1.0
