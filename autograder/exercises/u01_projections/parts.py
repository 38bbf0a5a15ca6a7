"""Provides the softmax and the projections that several exercises of unit 1 share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def softmax(z: Array, axis: int = -1) -> Array:
    """Return the stable softmax, for plain programs and for mistakes in other steps."""
    largest = z.max(axis=axis, keepdims=True)
    exponentials = np.exp(z - largest)
    total = exponentials.sum(axis=axis, keepdims=True)
    return exponentials / total


def each(act: Callable[[Array, Array], Array]) -> Callable[..., tuple[Array, ...]]:
    """Return a projection in which every weight matrix acts on the tokens by `act(tokens, W)`."""
    return lambda tokens, *weights: tuple(act(tokens, W) for W in weights)
