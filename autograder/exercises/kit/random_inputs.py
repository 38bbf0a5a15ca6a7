"""Draws random arguments and changes the memory layout of arrays."""

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
    """Describes an argument that is drawn for every case, as a parameter's annotation or for a single case.

    shape: named sizes, numbers and products of them, such as "B n h*d_head".
    make: (generator, shape as numbers, all sizes by name) -> the argument.
    also: further sizes that `make` needs, such as "h d_head".
    number: True if the argument is the size itself.
    """

    shape: str
    make: Make
    also: str = ""
    number: bool = False

    @property
    def axes(self) -> list[str]:
        """Return every axis that must have a length."""
        return [*self.shape.split(), *self.also.split()]

    def draw(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> Any:
        return self.make(rng, tuple(length(axis, sizes) for axis in self.shape.split()), sizes)


def normal(shape: str, scale: float = 1.0) -> Drawn:
    """Draw normal numbers of standard deviation `scale`."""
    return Drawn(shape, lambda rng, shape, sizes: scale * rng.standard_normal(shape))


def weights(shape: str, gain: float = 1.0) -> Drawn:
    """Draw weights whose product with standard normal rows, `x @ W`, has standard deviation `gain`."""
    return Drawn(shape, lambda rng, shape, sizes: gain * shape[-2] ** -0.5 * rng.standard_normal(shape))


def ids(shape: str, below: str) -> Drawn:
    """Draw whole numbers from 0 up to, but not including, the size named `below`, such as tokens of a vocabulary."""
    return Drawn(shape, lambda rng, shape, sizes: rng.integers(0, sizes[below], shape), also=below)


def mask(shape: str, empty_rows: bool = False) -> Drawn:
    """Draw a mask that is True with probability 0.6.

    Every row allows a key and, if it is longer than two, forbids one. With `empty_rows` about a third of the rows allow
    nothing, always including the first and, unless it is the only one, never the last.
    """
    return Drawn(shape, lambda rng, shape, sizes: random_mask(rng, *shape, empty_rows=empty_rows))


def random_mask(rng: np.random.Generator, *shape: int, empty_rows: bool = False) -> np.ndarray:
    """Return the array that `mask` draws."""
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
    """Draw one of the sizes as a number: `n_heads: size("h")`. Plain `int` is the size with the parameter's name."""
    return Drawn(name, lambda rng, shape, sizes: shape[0], number=True)


def seed() -> Drawn:
    """Draw a seeded generator, NumPy's or, in a torch exercise, torch's."""
    return Drawn("", lambda rng, shape, sizes: Rng(int(rng.integers(2**31))))


def other_order(drawn: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with `params` in another order, because an answer should look its entries up by name."""
    return {**drawn, "params": dict(reversed(drawn["params"].items()))}


# ---------------------------------------------------------------------------------------------------------------------
# Layouts: the same numbers in other places in memory


def strided(array: np.ndarray) -> np.ndarray:
    """Return the array as a part of a larger one, with an offset and every second entry of the last axis."""
    return part_of_larger(array)


def with_a_row_of_zeros(array: np.ndarray) -> np.ndarray:
    """Return other numbers: the middle token, or key, of each sequence is 0, and it isn't padding."""
    array = np.array(array)
    array[..., array.shape[-2] // 2, :] = 0.0
    return array


def every_second_row(array: np.ndarray) -> np.ndarray:
    """Return the array as every second row of a larger one."""
    roomy = np.zeros((2 * array.shape[0], *array.shape[1:]), array.dtype)
    roomy[::2] = array
    return roomy[::2]


def by_columns(array: np.ndarray) -> np.ndarray:
    """Return the array in Fortran order, column after column."""
    return np.asfortranarray(array)
