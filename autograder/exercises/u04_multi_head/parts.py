"""Provides cases and head outputs with slips for `multi_head_attention` and `head_contributions`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from .. import attention_parts as parts
from ..kit import (
    IN_FLOAT64,
    RTOL_FLOAT64,
    Case,
    Cases,
    Drawn,
    Row,
    by_columns,
    mask,
    random_mask,
    strided,
    with_a_row_of_zeros,
)

CAUSAL = Drawn("n n", lambda rng, shape, sizes: np.tri(*shape, dtype=bool))

#: Sizes are drawn from these; h·d_head is never d_model.
SIZES = range(2, 7)
RANGES = {"d_model": range(7, 13)}


def layer_cases(case: Cases) -> Iterator[Case]:
    """Yield cases for a function of X, W_Q, W_K, W_V, W_O, maybe b_O, n_heads and a mask without empty rows."""
    for _ in range(2):
        yield case("values", "{h} heads of {d_head}, d_model = {d_model}, no mask")
    yield case("values", "float32", dtype=np.float32)
    yield case("masks", "a causal mask (n, n)", mask=CAUSAL)
    yield case("masks", "a causal mask (n, n), and as many sequences as tokens", B="n", mask=CAUSAL)
    yield case("masks", "a mask (n, n) that is not causal", mask=mask("n n"))
    yield case("masks", "a mask of keys (B, 1, 1, n)", mask=mask("B 1 1 n"))
    yield case("masks", "a mask for each head (B, h, n, n)", mask=mask("B h n n"))
    yield case("masks", "a mask for each sequence (B, 1, n, n)", mask=mask("B 1 n n"))
    yield case("masks", "a mask for each head (h, n, n)", mask=mask("h n n"))
    yield case("masks", "a mask of keys for all (1, 1, 1, n)", mask=mask("1 1 1 n"))
    yield case("edge cases", "a token of zeros", layout={"X": with_a_row_of_zeros})
    yield case("edge cases", "a single token (n = 1)", n=1)
    yield case("edge cases", "a single sequence (B = 1)", B=1)
    yield case("edge cases", "one head", h=1)
    for label, masked in (("scores around ±30,000", {}), ("scores around ±30,000 and a mask", {"mask": CAUSAL})):
        drawn = case.draw()
        drawn["W_Q"] *= 100
        drawn["W_K"] *= 300
        yield case("edge cases", label, **drawn, **masked, rtol=1e-6)
    apart = {"X": strided, "W_Q": by_columns, "W_K": strided, "W_V": by_columns, "W_O": by_columns}
    yield case("edge cases", "memory that is not contiguous", layout=apart)
    yield case("masks", "a mask for each head (h, n, n), and as many sequences as heads", B="h", mask=mask("h n n"))
    by_key, zero = mask("B h 1 n"), {"X": with_a_row_of_zeros}
    yield case("masks", "a mask of keys for each head (B, h, 1, n), and a token of zeros", mask=by_key, layout=zero)
    yield case("masks", "heads one number wide, and a mask of keys (n,)", d_head=1, mask=mask("n"))
    yield case("edge cases", f"{IN_FLOAT64} (d_head = 4)", d_head=4, rtol=RTOL_FLOAT64)
    drawn = case.draw()
    drawn["W_Q"] /= 4  # in float16 the exponential of a score above 11 is infinite
    yield case("values", "float16", **drawn, dtype=np.float16, rtol=0.05)
    drawn = case.draw(B="h", mask=mask("1 h n n"))
    yield case("masks", "float32, and a mask (1, h, n, n) with as many sequences as heads", **drawn, dtype=np.float32)
    drawn["mask"] = random_mask(case.rng, *drawn["mask"].shape)  # another mask of the same shape
    yield case("gradients", "gradients under a mask", **drawn, gradient=True)


def each_head(
    X: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    n_heads: int,
    mask: Tensor | None = None,
    *,
    one_mask: bool = False,
    **slips: Any,
) -> Tensor:
    """Return every head's output (B, h, n, d_head), before W_O, with slips."""
    Q, K, V = (parts.split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    if mask is not None and one_mask:
        mask = mask.broadcast_to(X.shape[0], n_heads, X.shape[1], X.shape[1])[:, :1]
    return parts.attend(Q, K, V, mask, sizes={"d_model": X.shape[-1], "h": n_heads}, **slips)[0]


HEAD_SLIPS: tuple[Row, ...] = (
    ("whole-root-of-d-model-per-head", {"scaling": "root of d_model per head"}, parts.BY_SHARE),
    ("softmax-over-queries", {"dim": -2}, parts.OVER_QUERIES),
    ("softmax-over-heads", {"dim": 1}, parts.OVER_HEADS),
    *parts.FULL_ROW_SLIPS,
    ("unstable", {"stable": False}, parts.UNSTABLE),
    ("first-mask-only", {"one_mask": True}, "You give every head the mask of the first head."),
)
