"""Makes the cases that every exercise gets in addition to its own: special sizes and other memory layouts.

Exercises don't list these cases. They are left out where an exercise's annotations don't say enough to draw them, or
where its reference refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ...worker.encode_values import leaves, map_leaves, part_of_larger
from .exercise_records import Case

#: The criterion of cases that give no marks.
EQUAL_SIZES = "equal sizes"
#: The criterion of the common cases in an exercise that gives it a share; otherwise they belong to the core.
EDGES = "edge cases"
#: Sizes that count tokens, and sizes that count sequences or heads. All other sizes are widths.
TOKENS = ("n", "m", "t", "n_new", "samples", "rows")
MANY = ("B", "N", "h", "g", "blocks")
#: Each is longer than usual block sizes, a multiple of none of them, and accepted by functions that replace a
#: student's. Widths may have to be even, and the factors of a product are shorter.
LONG, SEVERAL, WIDE, FACTOR = 35, 10, 38, 6


class Maker(Protocol):
    """Describes the part of `Cases` that this module uses."""

    sizes: list[str]
    factors: set[str]
    of_numbers: bool

    def __call__(self, criterion: str, label: str, /, **given: Any) -> Case: ...


def of_equal_sizes(case: Maker) -> list[Case]:
    """Return two ordinary cases in which as many sizes as possible are equal: 4, or 2 for the factors of a product.

    Return none if no two sizes could be confused, or if the function takes nothing but sizes, because many formulas
    agree on equal sizes.
    """
    if len(case.sizes) < 2 or case.of_numbers:
        return []
    sizes = {name: 2 if name in case.factors else 3 if name == "B" else 4 for name in case.sizes}
    return [case(EQUAL_SIZES, "sizes that are equal", **sizes) for _ in range(2)]


def everywhere(case: Maker, plainest: Case, criterion: str, least: Mapping[str, int]) -> Iterator[Case]:
    """Yield the cases that every function gets, with the tolerance of the plainest one.

    plainest: the exercise's first case.
    least: sizes that can't be 1, such as those that must be even.
    """
    yield from _elsewhere_in_memory(plainest, criterion)
    if not case.sizes or case.of_numbers:
        return
    if len(case.sizes) > 1:
        same = {name: 2 if name in case.factors else 4 for name in case.sizes}
        yield case(criterion, "all axes are 4 long", rtol=plainest.rtol, **same)
    but = "".join(f", but {name} = {size}" for name, size in least.items())
    ones = {**dict.fromkeys(case.sizes, 1), **least}
    yield case(criterion, f"all axes are 1 long{but}", rtol=plainest.rtol, **ones)
    small = dict.fromkeys(case.sizes, 2)
    for words, large in (
        ("long", {name: LONG for name in case.sizes if name in TOKENS}),
        *(("many", {name: SEVERAL}) for name in case.sizes if name in MANY),
        ("wide", {name: _width(name, case) for name in case.sizes if name not in (*TOKENS, *MANY)}),
    ):
        label = f"{words}: {', '.join(f'{name} = {length}' for name, length in large.items())}"
        if large:
            yield case(criterion, label, rtol=plainest.rtol, **{**small, **large})


def _width(name: str, case: Maker) -> int:
    return FACTOR if name in case.factors else WIDE


def _elsewhere_in_memory(plainest: Case, criterion: str) -> Iterator[Case]:
    if any(isinstance(leaf, np.ndarray) and leaf.ndim for leaf in leaves((plainest.args, plainest.kwargs))):
        args, kwargs = map_leaves(plainest.args, _part), map_leaves(plainest.kwargs, _part)
        label = "arrays that are parts of larger ones"
        yield replace(plainest, criterion=criterion, label=label, args=args, kwargs=kwargs)


def _part(leaf: Any) -> Any:
    return part_of_larger(leaf) if isinstance(leaf, np.ndarray) and leaf.ndim else leaf
