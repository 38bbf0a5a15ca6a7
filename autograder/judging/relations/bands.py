"""Masks whose rows allow neighbouring keys: which end of the row is wrong, and whether it moves with the row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...data import Finding
from ..posed import Evidence

#: (first allowed column, last one) of each row of a mask that has any.
Ends = tuple[np.ndarray, np.ndarray]


def ends_of_rows(evidence: Evidence) -> Finding | None:
    """One end of each row is right and the other is not: too early or too late, by how much."""
    if not evidence.all_of_kind("values"):
        return None
    found: list[tuple[Ends, Ends]] = []
    for _, _, value, expected in evidence.wrong_pairs():
        if value.dtype.kind != "b" or value.ndim < 2:
            return None
        for one, other in zip(_matrices(value), _matrices(expected), strict=True):
            now, due = _ends(one), _ends(other)
            if now is None or due is None or len(now[0]) != len(due[0]):
                return None
            found.append((now, due))
    if not found:
        return None
    for side, words in ((0, "first"), (1, "last")):
        apart = [now[side] - due[side] for now, due in found]
        if any((now[1 - side] != due[1 - side]).any() for now, due in found) or not any(gap.any() for gap in apart):
            continue
        text = f"In every row the {('last', 'first')[side]} key that is allowed is right, and the {words} one is not:"
        return Finding(f"{words}-of-row", f"{text} {_how(apart, [now[side] for now, _ in found])}")
    return None


def _how(apart: Sequence[np.ndarray], now: Sequence[np.ndarray]) -> str:
    gaps = np.unique(np.concatenate(apart))
    if len(gaps) == 1:
        return f"it is {abs(gaps[0])} too {'far' if gaps[0] > 0 else 'near'} from the left."
    if all((ends == ends[0]).all() for ends in now):
        return "it is the same in all rows, where it is to move from row to row."
    early, late = bool((gaps < 0).any()), bool((gaps > 0).any())
    return (
        "too far to the left in some rows."
        if early and not late
        else (
            "too far to the right in some rows."
            if late and not early
            else "too far to the left in some rows and to the right in others."
        )
    )


def _matrices(array: np.ndarray) -> Iterator[np.ndarray]:
    yield from array.reshape(-1, *array.shape[-2:])


def _ends(mask: np.ndarray) -> Ends | None:
    """None where a row allows nothing, or keys that are no neighbours."""
    if not mask.any(axis=1).all():
        return None
    first, last = mask.argmax(axis=1), mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)
    return (first, last) if (mask.sum(axis=1) == last - first + 1).all() else None
