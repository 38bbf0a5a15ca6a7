"""Provides masks for cases, and wrong softmaxes, that both exercises with masked scores share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..kit import Drawn

Array = np.ndarray
#: Maps (scores, mask) to weights.
Weigh = Callable[[Array, Array], Array]


# ---------------------------------------------------------------------------------------------------------------------
# Masks

#: A mask (n, 1) that blocks all queries but two.
TWO_QUERIES = Drawn("n 1", lambda rng, shape, sizes: rng.permutation(np.arange(shape[0]) < 2)[:, None])


def padding(shortest: int, spare: int) -> Drawn:
    """Draw a padding mask (B, 1, m) with one sequence of length `shortest` and one with `spare` tokens of padding."""

    def make(rng: np.random.Generator, shape: tuple[int, ...], sizes: object) -> Array:
        batch, _, m = shape
        lengths = rng.permutation([shortest, m - spare, *rng.integers(1, m, batch - 2)])
        return np.arange(m) < lengths[:, None, None]

    return Drawn("B 1 m", make)


# ---------------------------------------------------------------------------------------------------------------------
# Weights from scores


def softmax(z: Array) -> Array:
    """Return the stable softmax without a mask."""
    with np.errstate(all="ignore"):
        powers = np.exp(z - z.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)


def filled(fill: float) -> Weigh:
    """Return a softmax of the scores with the hidden ones replaced by `fill`."""
    return lambda scores, mask: softmax(np.where(mask, scores, fill))


def silent(weigh: Weigh) -> Weigh:
    """Return `weigh` with zeros in rows where nothing is allowed."""
    return lambda scores, mask: np.where(np.any(mask, axis=-1, keepdims=True), weigh(scores, mask), 0)


#: The correct weights, for mistakes in other steps.
over_allowed = silent(filled(-np.inf))


def not_renormalised(scores: Array, mask: Array) -> Array:
    return softmax(scores) * mask


def renormalised(scores: Array, mask: Array) -> Array:
    kept = softmax(scores) * mask
    with np.errstate(all="ignore"):
        return kept / kept.sum(axis=-1, keepdims=True)


def over_own_sum(powers: Array) -> Array:
    """Divide rows by their sums, except rows of zeros."""
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)


def unstable(scores: Array, mask: Array) -> Array:
    with np.errstate(all="ignore"):
        return over_own_sum(np.where(mask, np.exp(scores), 0))
