"""Relations of order: the right numbers in other places, by an axis turned, merged or read in another order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from ...data import Finding
from ...exercises.kit.records import Case
from ...judging.compare import close, tolerance
from ..evidence import Evidence
from . import sizes

Pair = tuple[Case, int, np.ndarray, np.ndarray]


def transposed(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    if pairs and all(
        value.ndim >= 2
        and value.shape[-1] == value.shape[-2]
        and close(np.swapaxes(value, -1, -2), expected, tolerance(case))
        for case, _, value, expected in pairs
    ):
        leaves, wrong = evidence.posed.exercise.leaves, {leaf for _, leaf, _, _ in pairs}
        which = leaves[wrong.pop()].name if len(leaves) > 1 and len(wrong) == 1 else "the result"
        return Finding(
            "transposed", f"{which[0].upper()}{which[1:]} is transposed: rows and columns have changed places."
        )
    return None


def permuted(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    if not pairs:
        return None
    for axis in range(pairs[0][2].ndim):
        if all(_permuted_along(pair, axis) for pair in pairs):
            size = sizes.name_of([(case, value.shape[axis]) for case, _, value, _ in pairs])
            along = f"along {size}" if size and not size.isdigit() else f"along axis {axis} of the result"
            return Finding("permuted", f"The right entries stand in the wrong order {along}.")
    return None


def _permuted_along(pair: Pair, axis: int) -> bool:
    case, _, value, expected = pair
    if axis >= value.ndim or value.shape[axis] < 2 or value.dtype.kind != "f":
        return False
    rows_value = np.moveaxis(value, axis, 0).reshape(value.shape[axis], -1)
    rows_expected = np.moveaxis(expected, axis, 0).reshape(value.shape[axis], -1)
    mix = np.random.default_rng(0).standard_normal(rows_value.shape[1])
    order_value, order_expected = np.argsort(rows_value @ mix), np.argsort(rows_expected @ mix)
    return close(rows_value[order_value], rows_expected[order_expected], tolerance(case))


def read_in_another_order(evidence: Evidence) -> Finding | None:
    """The entries of merged axes as a reshape gives them that comes before the axes are exchanged, or without it."""
    pairs = evidence.wrong_pairs()
    if len(pairs) < 2 or len({value.ndim for _, _, value, _ in pairs}) != 1:
        return None
    if any(value.dtype.kind != "f" or not value.size for _, _, value, _ in pairs):
        return None
    for parts in _split_axes(pairs):
        if len(parts) > 5:
            continue
        for order in itertools.permutations(range(len(parts))):
            if list(order) != sorted(order) and all(_read(pair, parts, order) for pair in pairs):
                there, due = (", ".join(parts[i] for i in some) for some in (order, range(len(parts))))
                text = f"The entries are read in the order ({there}) where ({due}) is due: a reshape exchanges no axes."
                return Finding("read-in-another-order", text)
    return None


def _split_axes(pairs: Sequence[Pair]) -> Iterator[list[str]]:
    """The sizes of all axes one by one, with both orders of each product."""
    names = []
    for axis in range(pairs[0][3].ndim):
        name = sizes.name_of([(case, expected.shape[axis]) for case, _, _, expected in pairs])
        if not name or not all(part.isidentifier() for part in name.split("·")):
            return
        names.append(name.split("·"))
    if sum(map(len, names)) < 2:
        return
    for chosen in itertools.product(*(list(itertools.permutations(name)) for name in names)):
        yield [part for name in chosen for part in name]


def _read(pair: Pair, parts: Sequence[str], order: Sequence[int]) -> bool:
    case, _, value, expected = pair
    lengths = [case.sizes.get(part, 0) for part in parts]
    if int(np.prod(lengths)) != expected.size:
        return False
    return close(expected.reshape(lengths).transpose(order).reshape(value.shape), value, tolerance(case))
