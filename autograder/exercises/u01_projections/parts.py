"""What several exercises of the unit share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def softmax(z: Array, axis: int = -1) -> Array:
    """The stable softmax, for mistakes that lie elsewhere."""
    shifted = np.exp(z - z.max(axis=axis, keepdims=True))
    return shifted / shifted.sum(axis=axis, keepdims=True)


def each(act: Callable[[Array, Array], Array]) -> Callable[..., tuple[Array, ...]]:
    """A projection in which every weight matrix acts on the tokens by `act(tokens, W)`."""
    return lambda tokens, *weights: tuple(act(tokens, W) for W in weights)
