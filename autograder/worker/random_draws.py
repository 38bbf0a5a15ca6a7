"""Detects whether a function draws random numbers, from a global generator or from those that it is given."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from random import getstate, setstate
from random import seed as seed_python
from typing import Any

import numpy as np
from numpy.random import get_state, set_state
from numpy.random import seed as seed_numpy

#: The global generators that are compared, and torch's seed on its own, because making a layer draws numbers as well.
RANDOMNESS = ("NumPy", "torch", "torch's seed", "Python")


def global_states() -> dict[str, Any]:
    """Return the state of each global generator, to be compared with a later one."""
    numpy = get_state(legacy=False)["state"]
    states: dict[str, Any] = {"NumPy": (numpy["pos"], numpy["key"].tobytes()), "Python": getstate()}
    if "torch" in sys.modules:
        shared = sys.modules["torch"].default_generator
        states |= {"torch": _of_torch(shared), "torch's seed": shared.initial_seed()}
    return states


def set_apart() -> Callable[[], None]:
    """Give the global generators an unpredictable seed; returns a function that restores their states.

    Without it, code that sets a seed already used in this process could leave a generator's state unchanged.
    """
    numpy, python, nobodys = get_state(), getstate(), int.from_bytes(os.urandom(4), "little")
    seed_numpy(nobodys)
    seed_python(nobodys)
    shared = sys.modules["torch"].default_generator if "torch" in sys.modules else None
    torch = shared.get_state() if shared is not None else None
    if shared is not None:
        shared.manual_seed(nobodys)

    def put_back() -> None:
        set_state(numpy)
        setstate(python)
        if shared is not None:
            shared.set_state(torch)

    return put_back


def moved(before: dict[str, Any]) -> list[str]:
    """Return the names of the generators whose state has changed."""
    after = global_states()
    return [name for name in RANDOMNESS if name in before and before[name] != after[name]]


class Handed:
    """Makes the generators that are passed to a call, and says whether it drew from any."""

    def __init__(self, make: Callable[[dict[str, Any]], Any]) -> None:
        self._make, self._made = make, []

    def __call__(self, node: dict[str, Any]) -> Any:
        generator = self._make(node)
        self._made.append((generator, _state(generator)))
        return generator

    @property
    def drew(self) -> bool | None:
        """Return whether the call drew from any; None if none was passed."""
        return any(_state(generator) != before for generator, before in self._made) if self._made else None

    @property
    def left(self) -> str | None:
        """Return a digest of the states in which they were left; None if none was passed."""
        return mark_of([generator for generator, _ in self._made]) if self._made else None


def mark_of(generators: list[Any]) -> str:
    """Return a digest that is the same for generators that will produce the same numbers."""
    return hashlib.sha256(repr([_state(generator) for generator in generators]).encode()).hexdigest()[:16]


def _state(generator: Any) -> Any:
    try:
        return generator.bit_generator.state if isinstance(generator, np.random.Generator) else _of_torch(generator)
    except Exception:  # untrusted code may have changed it
        return None


def _of_torch(generator: Any) -> bytes:
    return generator.get_state().numpy().tobytes()
