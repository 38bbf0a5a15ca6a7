"""Cases that every exercise is asked beside its own: special sizes, and the same numbers elsewhere in memory.

An exercise says nothing of them. Those that it cannot be asked, as its own cases say more than its annotations do, or
as its reference refuses them, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ...worker.encode_values import leaves, map_leaves, part_of_larger
from .exercise_records import Case

#: The criterion of cases that are asked for no marks.
EQUAL_SIZES = "equal sizes"
#: Where an exercise gives shares to it, what is asked everywhere belongs there; else to the core.
EDGES = "edge cases"
#: What counts tokens, and what counts sequences or heads. All other sizes are widths.
TOKENS = ("n", "m", "t", "n_new", "samples", "rows")
MANY = ("B", "N", "h", "g", "blocks")
#: Longer than the blocks that people choose and a multiple of none; a function that stands in takes no more. Widths may
#: have to be even, and the factors of a product are shorter.
LONG, SEVERAL, WIDE, FACTOR = 35, 10, 38, 6


class Maker(Protocol):
    """What is used of `Cases` here."""

    sizes: list[str]
    factors: set[str]
    of_numbers: bool

    def __call__(self, criterion: str, label: str, /, **given: Any) -> Case: ...


def of_equal_sizes(case: Maker) -> list[Case]:
    """Two ordinary cases in which all sizes coincide that can: 4, and 2 for the factors of a product.

    None where there are no two sizes that could be taken for each other, and none of a function that is handed
    nothing but sizes: of equal ones, many a formula gives the same.
    """
    if len(case.sizes) < 2 or case.of_numbers:
        return []
    sizes = {name: 2 if name in case.factors else 3 if name == "B" else 4 for name in case.sizes}
    return [case(EQUAL_SIZES, "sizes that are equal", **sizes) for _ in range(2)]


def everywhere(case: Maker, plainest: Case, criterion: str, least: Mapping[str, int]) -> Iterator[Case]:
    """The cases that any function is asked, as exactly as the plainest one.

    plainest: the exercise's first case.
    least: sizes that cannot be 1, such as those that must be even.
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
