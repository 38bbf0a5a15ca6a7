"""How arguments are drawn, and how arrays may lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...worker.encode_values import part_of_larger
from .named_sizes import length
from .special_arguments import Rng

Make = Callable[[np.random.Generator, tuple[int, ...], Mapping[str, int]], Any]


@dataclass(frozen=True)
class Drawn:
    """An argument that is drawn anew for every case. It annotates a parameter, or stands for one in a single case.

    shape: named sizes, numbers and products of them, such as "B n h*d_head".
    make: (generator, shape as numbers, all sizes by name) -> the argument.
    also: further sizes that `make` asks for, such as "h d_head".
    number: True where the argument is the size itself.
    """

    shape: str
    make: Make
    also: str = ""
    number: bool = False

    @property
    def axes(self) -> list[str]:
        """Everything that must have a length."""
        return [*self.shape.split(), *self.also.split()]

    def draw(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> Any:
        return self.make(rng, tuple(length(axis, sizes) for axis in self.shape.split()), sizes)


def normal(shape: str, scale: float = 1.0) -> Drawn:
    """Normal numbers of standard deviation `scale`."""
    return Drawn(shape, lambda rng, shape, sizes: scale * rng.standard_normal(shape))


def weights(shape: str, gain: float = 1.0) -> Drawn:
    """Weights that act from the right: what they make of normal numbers has the standard deviation `gain`."""
    return Drawn(shape, lambda rng, shape, sizes: gain * shape[-2] ** -0.5 * rng.standard_normal(shape))


def ids(shape: str, below: str) -> Drawn:
    """Whole numbers from 0 to below the size that is named `below`, such as tokens of a vocabulary."""
    return Drawn(shape, lambda rng, shape, sizes: rng.integers(0, sizes[below], shape), also=below)


def mask(shape: str, empty_rows: bool = False) -> Drawn:
    """True with probability 0.6; every row allows a key and, with more than two, forbids one, unless rows may be empty.

    With `empty_rows` about a third of the rows, and always the first and never the last, allow nothing.
    """
    return Drawn(shape, lambda rng, shape, sizes: random_mask(rng, *shape, empty_rows=empty_rows))


def random_mask(rng: np.random.Generator, *shape: int, empty_rows: bool = False) -> np.ndarray:
    """The array that `mask` draws."""
    allowed = rng.random(shape) < 0.6
    width = shape[-1]
    rows = allowed.reshape(-1, width)
    for row in rows:
        if width > 2:
            row[int(rng.integers(width))] = False
        if not row.any():
            row[int(rng.integers(width))] = True
    if empty_rows:
        empty = rng.random(len(rows)) < 0.35
        empty[0], empty[-1] = True, len(rows) == 1
        rows[empty] = False
    return allowed


def size(name: str) -> Drawn:
    """One of the sizes itself, as a number: `n_heads: size("h")`. Plain `int` is the size of the parameter's name."""
    return Drawn(name, lambda rng, shape, sizes: shape[0], number=True)


def seed() -> Drawn:
    """A seeded generator: NumPy's, or torch's in a torch exercise."""
    return Drawn("", lambda rng, shape, sizes: Rng(int(rng.integers(2**31))))


def other_order(drawn: dict[str, Any]) -> dict[str, Any]:
    """What was drawn, with `params` in another order: an answer goes by its names."""
    return {**drawn, "params": dict(reversed(drawn["params"].items()))}


# ---------------------------------------------------------------------------------------------------------------------
# Layouts: the same numbers, elsewhere in memory


def strided(array: np.ndarray) -> np.ndarray:
    """A part of a larger array: it begins further on in memory, and has every second place of the last axis."""
    return part_of_larger(array)


def with_a_row_of_zeros(array: np.ndarray) -> np.ndarray:
    """Other numbers for once: a token, or its key, is 0 in the middle of each sequence, and no padding for that."""
    array = np.array(array)
    array[..., array.shape[-2] // 2, :] = 0.0
    return array


def every_second_row(array: np.ndarray) -> np.ndarray:
    """Every second place of the first axis of a larger array."""
    roomy = np.zeros((2 * array.shape[0], *array.shape[1:]), array.dtype)
    roomy[::2] = array
    return roomy[::2]


def by_columns(array: np.ndarray) -> np.ndarray:
    """Column after column, as Fortran keeps them."""
    return np.asfortranarray(array)
