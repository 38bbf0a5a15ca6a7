"""Computes attention in small steps with an option for each slip; the torch units build their known mistakes from it.

Every step is correct with its defaults. The references of the units don't use this file; they call torch's own code.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .kit import Row

Split = Callable[[Tensor, int], Tensor]
Merge = Callable[[Tensor], Tensor]


# ---------------------------------------------------------------------------------------------------------------------
# Heads


def split(X: Tensor, n_heads: int) -> Tensor:
    """Split (B, n, h*d) into (B, h, n, d), where each head is a contiguous block of columns."""
    return X.unflatten(-1, (n_heads, X.shape[-1] // n_heads)).transpose(1, 2)


def split_interleaved(X: Tensor, n_heads: int) -> Tensor:
    return X.unflatten(-1, (X.shape[-1] // n_heads, n_heads)).permute(0, 3, 1, 2)


def split_reshaped(X: Tensor, n_heads: int) -> Tensor:
    B, n, width = X.shape
    return X.reshape(B, n_heads, n, width // n_heads)


def merge(X: Tensor) -> Tensor:
    """Merge (B, h, n, d) into (B, n, h*d)."""
    return X.transpose(1, 2).flatten(2)


def merge_reshaped(X: Tensor) -> Tensor:
    B, h, n, d = X.shape
    return X.reshape(B, n, h * d)


# ---------------------------------------------------------------------------------------------------------------------
# Weights from scores


def weigh(scores: Tensor, mask: Tensor | None, masking: str = "right", dim: int = -1) -> Tensor:
    """Return the masked softmax of the scores; `masking` names the slip, if any."""
    if mask is None or masking == "ignored":
        return torch.softmax(scores, dim)
    if masking == "inverted":
        mask, masking = ~mask, "right"
    if masking == "after":
        return torch.softmax(scores, dim) * mask
    if masking == "multiplied":
        return torch.softmax(scores * mask, dim)
    if masking == "added":
        return torch.softmax(scores + mask, dim)
    if masking == "nan":
        return torch.softmax(scores.masked_fill(~mask, -math.inf), dim)
    if masking == "uniform":
        return torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim)
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(filled, dim) * mask


def scale_of(scaling: str, Q: Tensor, sizes: dict[str, int]) -> float:
    """Return the factor that multiplies the scores; "root of d_head" is correct."""
    d = Q.shape[-1]
    return {
        "root of d_head": d**-0.5,
        "none": 1.0,
        "d_head": 1 / d,
        "times": d**0.5,
        "root of d_model": sizes.get("d_model", 1) ** -0.5,
        "root of d_model per head": (sizes.get("d_model", 1) // sizes.get("h", 1) or 1) ** -0.5,
        "root of width per key head": (sizes.get("h", 1) * d / sizes.get("g", 1)) ** -0.5,
    }[scaling]


def attend(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    mask: Tensor | None = None,
    *,
    scaling: str = "root of d_head",
    masking: str = "right",
    dim: int = -1,
    sizes: dict[str, int] | None = None,
    stable: bool = True,
) -> tuple[Tensor, Tensor]:
    """Return (output, weights) of attention over the last two axes."""
    scores = Q @ K.transpose(-1, -2) * scale_of(scaling, Q, sizes or {})
    if stable:
        weights = weigh(scores, mask, masking, dim)
    else:
        exponents = scores.exp() if mask is None else scores.exp() * mask
        weights = exponents / exponents.sum(dim, keepdim=True).clamp_min(1e-30)
    return weights @ V, weights


# ---------------------------------------------------------------------------------------------------------------------
# Advice for every exercise with scores, masks and heads

UNSCALED = "You don't divide the scores by √d_head. Compare the size of your scores with those of unit 2."
BY_D_MODEL = "You divide the scores by √d_model. Each head's dot products run over only d_head entries."
INVERTED = "You read the mask the wrong way round. In this course True means “may attend”."
AFTER = "You apply the mask after the softmax, so the rows no longer sum to 1. Hide the keys before you normalise."
ADDED = "You add the mask to the scores as a number. A hidden key must get no weight at all."
NAN = (
    "A query that may attend to nothing gives NaN in your function. Its weights should be all zeros, so correct "
    "that row after the softmax."
)
UNIFORM = (
    "A query that may attend to nothing spreads its weight over all keys in your function. Its weights should be all "
    "zeros."
)
OVER_QUERIES = "Your softmax runs over the queries. Each query's weights over the keys should sum to 1."
OVER_HEADS = "Your softmax runs over the heads. Each query's weights over the keys should sum to 1."
INTERLEAVED = (
    "Your heads take every h-th column. A head owns a contiguous block, so head i has i·d_head … (i+1)·d_head − 1."
)
BY_SHARE = (
    "You divide the scores by √(d_model / h). d_head need not be d_model / h, so read it off the heads themselves."
)
ALWAYS_CAUSAL = "You hide later tokens even where no mask says so. The mask decides what may be seen."
RESHAPED = (
    "You only reshape, which moves no axis, so a head gets the features of other tokens. Split the last axis first, "
    "then swap two axes."
)
MERGED_RESHAPED = "You merge the heads only by a reshape, which mixes tokens and heads. Swap two axes first."
UNSTABLE = (
    "Large scores give NaN in your code. Subtract each row's own maximum before the exponential, or let "
    "torch.softmax do it."
)

#: Wrong uses of a mask that no small change of a plain program makes, as rows with slips of `attend`.
FULL_ROW_SLIPS: tuple[Row, ...] = (
    ("mask-after-softmax", {"masking": "after"}, AFTER),
    ("mask-added", {"masking": "added"}, ADDED),
)
#: Slips that show only in a row where nothing is allowed.
EMPTY_ROW_SLIPS: tuple[Row, ...] = (
    ("nan-rows", {"masking": "nan"}, NAN),
    ("uniform-rows", {"masking": "uniform"}, UNIFORM),
)
#: Both kinds, for exercises that test such rows.
MASK_SLIPS: tuple[Row, ...] = (*FULL_ROW_SLIPS, *EMPTY_ROW_SLIPS)
