"""Provides sizes, padding masks and a cross-attention with slips that several exercises of unit 6 share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import attention_parts
from ..kit import Drawn

#: Settings of `exercise` for both layers: few heads, and widths larger than all other sizes.
LAYER: dict[str, Any] = {
    "library": "torch",
    "sizes": range(2, 8),
    "ranges": {"h": range(2, 5), "d_model": range(8, 14), "d_source": range(8, 14)},
}


def _padding(rng: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
    B, m = shape
    lengths = 1 + rng.permutation(max(m, B))[:B] % m
    lengths[-1], lengths[0] = m, max(1, m - 2)
    return np.arange(m) < lengths[:, None]


#: Padding at the end, of different length in each sequence; the first loses a token if m > 1, and the last none.
PADDED = Drawn("B m", _padding)
#: The same, but the last sequence consists of padding.
PADDING_ALONE = Drawn("B m", lambda rng, s, sizes: _padding(rng, s, sizes) & (np.arange(s[0]) < s[0] - 1)[:, None])
#: Four sequences of four tokens with different lengths, so that rows and columns can't be confused.
FOUR_LENGTHS = np.arange(4) < np.array([2, 4, 1, 3])[:, None]


def attention(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return every head's output and weights, written as a student would, for the plain programs."""
    d_head = Q.shape[-1]
    scores = Q @ K.transpose(-1, -2) / math.sqrt(d_head)
    if mask is None:
        mask = torch.ones(scores.shape, dtype=torch.bool)
    hidden = ~mask
    scores = scores.masked_fill(hidden, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    weights = weights.masked_fill(hidden, 0.0)
    return weights @ V, weights


def multi_head_attention(
    X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, n_heads: int, mask: Tensor
) -> Tensor:
    """Apply the self-attention that the notebook provides, for the plain programs."""
    B, n, _ = X.shape
    Q = (X @ W_Q).reshape(B, n, n_heads, -1).transpose(1, 2)
    K = (X @ W_K).reshape(B, n, n_heads, -1).transpose(1, 2)
    V = (X @ W_V).reshape(B, n, n_heads, -1).transpose(1, 2)
    d_head = Q.shape[-1]
    scores = Q @ K.transpose(-1, -2) / math.sqrt(d_head)
    hidden = ~mask
    scores = scores.masked_fill(hidden, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    weights = weights.masked_fill(hidden, 0.0)
    heads = weights @ V
    return heads.transpose(1, 2).reshape(B, n, -1) @ W_O


def crossed(
    X: Tensor,
    Y: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    n_heads: int,
    source_mask: Tensor | None = None,
    *,
    split: attention_parts.Split = attention_parts.split,
    merge: attention_parts.Merge = attention_parts.merge,
    mask_of: Callable[[Tensor], Tensor] = lambda mask: mask[:, None, None],
    after: Callable[[Tensor, Tensor, Tensor], Any] = lambda out, weights, X: (out, weights),
    always_causal: bool = False,
    **slips: Any,
) -> Any:
    """Apply cross-attention with an option for each slip; `slips` are those of `attend`."""
    Q = split(X @ W_Q, n_heads)
    K, V = (split(Y @ W, n_heads) for W in (W_K, W_V))
    mask = None if source_mask is None else mask_of(source_mask)
    if always_causal:
        causal = torch.ones(X.shape[1], Y.shape[1], dtype=torch.bool).tril()
        mask = causal if mask is None else mask & causal
    heads, weights = attention_parts.attend(Q, K, V, mask, sizes={"d_model": X.shape[-1], "h": n_heads}, **slips)
    return after(merge(heads) @ W_O, weights, X)


def first_mask(mask: Tensor) -> Tensor:
    """Use the padding of the first sequence for all."""
    return mask[:1, None, None]
