"""Draws attention patterns for both pattern scores, and averages a diagonal of them with an option for each slip."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from ..kit import Drawn


def attention(shape: str, causal: bool = True) -> Drawn:
    """Draw attention weights whose rows sum to 1; later tokens get none unless `causal` is False."""
    return Drawn(shape, lambda rng, shape, sizes: _attention(rng, shape, causal))


def _attention(rng: np.random.Generator, shape: tuple[int, ...], causal: bool = True) -> np.ndarray:
    logits = 1.5 * rng.standard_normal(shape)
    if causal:
        logits[..., ~np.tri(shape[-1], dtype=bool)] = -np.inf
    raised = np.exp(logits - logits.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def one_token_each(shape: str) -> Drawn:
    """Draw maps that give all weight to one token, earlier or later, and 0 to all others."""
    return Drawn(shape, lambda rng, shape, sizes: np.eye(shape[-1])[rng.integers(shape[-1], size=shape[:-1])])


def heads_looking_back(offsets: Callable[[int], Sequence[int]] | Sequence[int]) -> Drawn:
    """Draw one causal map "n n" for each offset, with most of its weight that many positions back.

    offsets: may be a function of the size `period`.
    """

    def make(rng: np.random.Generator, shape: tuple[int, ...], sizes: dict[str, int]) -> np.ndarray:
        found = offsets(sizes["period"]) if callable(offsets) else offsets
        return np.stack([_looking_back(rng, shape, offset) for offset in found])

    return Drawn("n n", make)


def _looking_back(rng: np.random.Generator, shape: tuple[int, ...], offset: int) -> np.ndarray:
    found = 0.2 * _attention(rng, shape)
    rows = np.arange(offset, shape[-1])
    found[rows, rows - offset] += 0.8
    found[:offset] *= 5
    return found


def mean_of_band(
    weights: Tensor,
    offset: int,
    first: int,
    *,
    by: Callable[[Tensor, int], Tensor] = lambda band, n: band.mean(-1),
) -> Tensor:
    """Average the weight `offset` columns to the left over rows from `first` on, (…, n, n) -> (…).

    by: combines the weights of these rows, given n.
    """
    n = weights.shape[-1]
    last = n + min(offset, 0)
    rows = torch.arange(min(max(first, offset, 0), last), last)
    return by(weights[..., rows, rows - offset], n) if len(rows) else weights.new_zeros(weights.shape[:-2])
