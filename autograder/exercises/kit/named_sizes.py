"""Reads named sizes from shapes such as "B n h*d_head", and draws them so that no two axes can be confused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

#: Sizes are drawn from this range unless the exercise gives another.
SMALL = range(3, 9)
TRIES = 1_000


def distinct(rng: np.random.Generator, count: int, low: int = 3, high: int = 8) -> list[int]:
    """Return `count` different sizes from low to high, both included."""
    return [int(size) for size in rng.permutation(np.arange(low, high + 1))[:count]]


def factors(axis: str) -> list[str]:
    """Return the named sizes in one axis of a shape: ["h", "d_head"] for "h*d_head", none for "2"."""
    return [factor for factor in axis.split("*") if not factor.isdigit()]


def length(axis: str, sizes: Mapping[str, int]) -> int:
    """Return the length of an axis, which is a size, a number, or a product of them such as "2*n"."""
    return math.prod(int(factor) if factor.isdigit() else sizes[factor] for factor in axis.split("*"))


def draw_sizes(
    rng: np.random.Generator,
    axes: Sequence[str],
    given: Mapping[str, int | str | Sequence[int]],
    ranges: Mapping[str, Sequence[int]],
    usual: Sequence[int] = SMALL,
) -> dict[str, int]:
    """Return every size that `axes` name, as given, or drawn so that it differs from all others.

    axes: such as ["n", "d_model", "h*d_head"]; products also differ from sizes that aren't their factors.
    given: a number, an expression in other sizes ("n", "h*d_head"), or a sequence to choose from.
    ranges, usual: what other sizes are drawn from: `ranges` for the sizes that it names, `usual` for the rest.
    Raises ValueError if no such sizes are found.
    """
    fixed = {name: int(size) for name, size in given.items() if isinstance(size, (int, np.integer))}
    tied = {name: size for name, size in given.items() if isinstance(size, str)}
    names = list(dict.fromkeys(name for axis in (*axes, *tied.values()) for name in factors(axis)))
    free = {name: given.get(name, ranges.get(name, usual)) for name in names if name not in {**fixed, **tied}}
    for _ in range(TRIES):
        sizes = dict(fixed)
        for name, options in free.items():
            left = [size for size in options if size not in sizes.values()]
            if not left:
                break
            sizes[name] = int(left[rng.integers(len(left))])
        else:
            named = [({name}, size) for name, size in sizes.items()]
            sizes |= {name: length(axis, sizes) for name, axis in tied.items()}
            products = [({*factors(axis)}, length(axis, sizes)) for axis in dict.fromkeys(axes) if "*" in axis]
            if not _confusable([*named, *products], {*free}):
                return {name: sizes[name] for name in (*names, *given) if name in sizes}
    raise ValueError(f"found no sizes that all differ for {', '.join(free)}, with {dict(given)} given")


def _confusable(lengths: list[tuple[set[str], int]], drawn: set[str]) -> bool:
    """Return whether two axes without a common size are equally long, though another draw could make them differ."""
    pairs = itertools.combinations(lengths, 2)
    return any(size == other and not parts & rest and (parts | rest) & drawn for (parts, size), (rest, other) in pairs)
