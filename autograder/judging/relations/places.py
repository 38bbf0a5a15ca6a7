"""Where in a result it is right and where it is wrong: along which axis, in which rows, behind which mask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...data import Finding
from ...exercises.kit.records import Case
from ...worker.values import leaves
from ..compare import FLOOR, tolerance
from ..posed import Evidence
from . import sizes

#: What one entry along an axis of this size is called.
ENTRIES = {
    **dict.fromkeys(("B", "batch"), "sequence"),
    **dict.fromkeys(("h", "n_heads"), "head"),
    **dict.fromkeys(("n", "m", "n_new", "n_past"), "position"),
    "g": "key/value head",
}


@dataclass(frozen=True)
class Beside:
    """One wrong result beside the right one. off: where they differ."""

    case: Case
    value: np.ndarray
    expected: np.ndarray
    off: np.ndarray


def partly_right(evidence: Evidence) -> Finding | None:
    """Right in one part of every wrong result and wrong in another, in the words of the exercise."""
    for found in _by_leaf(evidence).values():
        if not all(_speaks(each) for each in found):
            continue
        told = next(_parts(found), None)
        if told is not None:
            return Finding(*told)
    return None


def _by_leaf(evidence: Evidence) -> dict[int, list[Beside]]:
    if not evidence.all_of_kind("values"):
        return {}
    by_leaf: dict[int, list[Beside]] = {}
    for case, leaf, value, expected in evidence.wrong_pairs():
        if value.dtype.kind == "f":
            off = np.abs(value - expected) > tolerance(case) * np.abs(expected).max(initial=0.0) + FLOOR
        else:
            off = value != expected
        by_leaf.setdefault(leaf, []).append(Beside(case, value, expected, np.asarray(off)))
    return {leaf: found for leaf, found in by_leaf.items() if len({each.value.ndim for each in found}) == 1}


def _speaks(each: Beside) -> bool:
    """Of a single entry nothing can be said, and where half of it agrees by chance, as of a mask, little."""
    return each.value.ndim > 0 and each.value.size > 1 and not each.off.all()


def _parts(found: Sequence[Beside]) -> Iterator[tuple[str, str]]:
    yield from _of_masks(found)
    if found[0].value.ndim >= 2:
        yield from _of_diagonals(found)
    for axis in range(found[0].value.ndim):
        yield from _along(found, axis)


def _along(found: Sequence[Beside], axis: int) -> Iterator[tuple[str, str]]:
    """The entries along one axis: which are right throughout, and which are not?"""
    told = [each for each in found if each.value.shape[axis] > 1]
    if len(told) < 2:
        return
    wrong = [each.off.any(axis=tuple(a for a in range(each.off.ndim) if a != axis)) for each in told]
    size = sizes.name_of([(each.case, each.value.shape[axis]) for each in found])
    if size not in ENTRIES:
        return  # of features, that the first is right may come of a reshape, and leads nowhere
    word = ENTRIES[size]
    slug = word.replace(" ", "-").replace("/", "-")
    long = [w for w in wrong if len(w) > 2] or wrong
    if all(not w[0] and w[1:].all() for w in wrong):
        yield f"first-{slug}-only", f"Only the first {word} of each result is right."
    if all(w[0] and not w[1:].any() for w in wrong):
        yield f"first-{slug}-wrong", f"Right but for the first {word} of each result."
    if all(w[-1] and not w[:-1].any() for w in wrong):
        yield f"last-{slug}-wrong", f"Right but for the last {word} of each result."
    if all(not w[-1] and w[:-1].all() for w in wrong) and len(long[0]) > 2:
        yield f"last-{slug}-only", f"Only the last {word} of each result is right."
    starts = [(each.case, int(np.argmax(w))) for each, w in zip(told, wrong, strict=True)]
    if all(start > 0 and w[start:].all() for (_, start), w in zip(starts, wrong, strict=True)):
        edge = sizes.name_of(starts)
        if edge and not edge.isdigit():
            yield f"right-up-to-{edge}".replace(" ", "-"), f"Each {word} is right up to number {edge}, then none is."


def _of_diagonals(found: Sequence[Beside]) -> Iterator[tuple[str, str]]:
    square = [each for each in found if each.value.shape[-1] == each.value.shape[-2] > 1]
    if len(square) < len(found) or len(square) < 2:
        return
    rows = [np.subtract.outer(np.arange(n), np.arange(n)) for each in square if (n := each.value.shape[-1])]
    for slug, words, part in (
        ("diagonal-wrong", "on the diagonal", lambda d: d == 0),
        ("above-the-diagonal-wrong", "above the diagonal", lambda d: d < 0),
        ("below-the-diagonal-wrong", "below the diagonal", lambda d: d > 0),
    ):
        inside = [part(difference) for difference in rows]
        pairs = list(zip(square, inside, strict=True))
        if all(not each.off[..., ~there].any() and each.off[..., there].all() for each, there in pairs):
            yield slug, f"Right everywhere but {words}."
        if all(each.off[..., ~there].all() and not each.off[..., there].any() for each, there in pairs):
            yield f"not-{slug}", f"Right {words} alone."


def _of_masks(found: Sequence[Beside]) -> Iterator[tuple[str, str]]:
    """A mask that is handed in: are entries, or rows, wrong where it forbids something?"""
    entries, rows = [], []
    for each in found:
        masks = [m for m in leaves((each.case.args, dict(each.case.kwargs))) if _is_mask(m)]
        if len(masks) != 1 or masks[0].all():
            return
        entries.append(_broadcast(masks[0], each.off.shape))
        full = masks[0].all(axis=-1)
        rows.append(_broadcast(full[..., None], each.off.shape) if full.ndim else None)
    if all(there is not None and there.any() for there in entries):
        pairs = list(zip(found, entries, strict=True))
        if all(not each.off[there].any() for each, there in pairs):
            yield "wrong-where-forbidden", "Right where the mask allows, wrong where it forbids: what stands there?"
        if all(not each.off[~there].any() for each, there in pairs):
            yield "wrong-where-allowed", "Right where the mask forbids, wrong where it allows."
    if all(there is not None and there.any() and not there.all() for there in rows):
        right = all(not each.off[there].any() for each, there in zip(found, rows, strict=True))
        if right:
            yield "right-where-nothing-is-forbidden", "Right in rows where the mask forbids nothing, wrong in others."


def _is_mask(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == bool and value.ndim >= 2


def _broadcast(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        return None
