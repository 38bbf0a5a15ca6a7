"""Provides numbers of heads, cases and a layer with slips that several exercises of unit 5 share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import attention_parts
from ..kit import (
    IN_FLOAT64,
    NOT_IN_TORCH_UNITS,
    RTOL_FLOAT64,
    Case,
    Cases,
    Drawn,
    Row,
    by_columns,
    mask,
    strided,
    with_a_row_of_zeros,
)

#: Settings of `exercise` for every layer of this unit. Each case gives numbers of heads that fit.
LAYER: dict[str, Any] = {
    "library": "torch",
    "sizes": range(2, 8),
    "ranges": {"d_model": range(7, 13), "t": range(7, 11)},
    "forbidden": (*NOT_IN_TORCH_UNITS, "multi_head_layer", "widen"),
}
TILED = (
    "You repeat the key/value heads in turn (0, 1, 0, 1, …), but consecutive query heads should share one (0, 0, "
    "1, 1, …). Compare `repeat` with `repeat_interleave`."
)

FLOAT64 = f"{IN_FLOAT64} (d_head = 4)"
#: The error that float16 may cause in the sums of a layer.
HALF = 0.05
#: At least three tokens, so that a mask forbids one.
SEVERAL = range(3, 8)

CAUSAL = Drawn("n n", lambda rng, shape, sizes: np.tril(np.ones(shape, bool)))

Share = Callable[[Tensor, int], Tensor]


def groups(rng: np.random.Generator) -> list[dict[str, int]]:
    """Return three different pairs of sizes h and g with 1 < g < h and several query heads in each group."""
    pairs = rng.choice([(4, 2), (6, 2), (6, 3), (8, 2), (9, 3), (8, 4)], 3, replace=False)
    return [{"h": h, "g": g} for h, g in pairs]


def layer_cases(case: Cases, heads: Sequence[dict[str, int]], words: str) -> Iterator[Case]:
    """Yield the first cases of every layer of this unit. heads: the numbers of heads h and g, three times."""
    first, second, third = heads
    yield case("values", words, **first)
    yield case("values", words, **second)
    yield case("values", "float32", dtype=np.float32, **third)
    yield case("masks", "a causal mask (n, n)", mask=CAUSAL, **first)
    yield case("masks", "a mask (n, n) that is not causal", mask=mask("n n"), **first)
    yield case("masks", "a mask of keys (B, 1, 1, n)", mask=mask("B 1 1 n"), **second)
    yield case("masks", "a mask for each head (B, h, n, n)", mask=mask("B h n n"), **third)
    yield case("masks", "a mask for each sequence (B, 1, n, n)", mask=mask("B 1 n n"), **first)
    yield case("masks", "a mask for each head (h, n, n)", mask=mask("h n n"), **second)
    yield case("edge cases", "a token of zeros", layout={"X": with_a_row_of_zeros}, **second)
    yield case("edge cases", "a single token (n = 1)", n=1, **first)
    yield case("edge cases", "a single sequence (B = 1)", B=1, **first)
    for label, masked in (("scores around ±30,000", {}), ("scores around ±30,000 and a mask", {"mask": CAUSAL})):
        drawn = case.draw(**first, **masked)
        drawn["W_Q"] *= 100
        drawn["W_K"] *= 300
        yield case("edge cases", label, rtol=1e-6, **drawn)
    places = {"X": strided, "W_Q": by_columns, "W_K": strided, "W_V": by_columns, "W_O": by_columns}
    yield case("edge cases", "memory that is not contiguous", layout=places, **second)


def more_layer_cases(
    case: Cases, some: Mapping[str, int], one: Mapping[str, int], many: Mapping[str, int]
) -> Iterator[Case]:
    """Yield the last cases of every layer of this unit. some, one, many: the numbers of heads h and g."""
    yield case(
        "masks", "float32 and a mask (n, n), where n = B", dtype=np.float32, mask=mask("n n"), n="B", B=SEVERAL, **some
    )
    yield case(
        "masks", "a mask of keys for each head (h, 1, n), where h = B", mask=mask("h 1 n"), B="h", n=SEVERAL, **some
    )
    yield case("masks", "a mask of keys (n,)", mask=mask("n"), n=SEVERAL, **some)
    words = "a mask of keys for each head (1, h, 1, n), not contiguous, for {h} heads"
    yield case("masks", words, mask=mask("1 h 1 n"), n=SEVERAL, layout={"mask": by_columns}, **many)
    yield case("masks", "a causal mask and one head", mask=CAUSAL, **one)
    yield case("edge cases", FLOAT64, d_head=4, rtol=RTOL_FLOAT64, **some)
    yield case("gradients", "gradients with a causal mask and one head", gradient=True, mask=CAUSAL, **one)


def attention(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return every head's attention, written as a student would, for the plain programs."""
    d_head = Q.shape[-1]
    scores = Q @ K.transpose(-1, -2) / math.sqrt(d_head)
    if mask is None:
        mask = torch.ones(scores.shape, dtype=torch.bool)
    hidden = ~mask
    scores = scores.masked_fill(hidden, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    weights = weights.masked_fill(hidden, 0.0)
    return weights @ V


# ---------------------------------------------------------------------------------------------------------------------
# How query heads share key/value heads: (B, g, n, d) -> (B, g * rep, n, d)


def in_groups(K: Tensor, rep: int) -> Tensor:
    """Share each key/value head among consecutive query heads, which is correct."""
    return K.repeat_interleave(rep, 1)


def tiled(K: Tensor, rep: int) -> Tensor:
    return K.repeat(1, rep, 1, 1)


def first_for_all(K: Tensor, rep: int) -> Tensor:
    return K[:, :1].expand(-1, K.shape[1] * rep, -1, -1)


def averaged(K: Tensor, rep: int) -> Tensor:
    return K.mean(1, keepdim=True).expand(-1, K.shape[1] * rep, -1, -1)


def grouped(
    X: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: Tensor | None = None,
    *,
    refuses: Callable[[int, int], bool] = lambda h, g: h % g > 0,
    keys: Share = in_groups,
    values: Share = in_groups,
    split: attention_parts.Split = attention_parts.split,
    merge: attention_parts.Merge = attention_parts.merge,
    one_mask: bool = False,
    always_causal: bool = False,
    queries: Share = lambda Q, g: Q,
    **slips: Any,
) -> Tensor:
    """Apply a grouped layer with an option for each slip; `slips` are those of `attend`."""
    if refuses(n_heads, n_kv_heads):
        raise ValueError("these key/value heads do not go with the heads")
    n, rep = X.shape[1], -(-n_heads // n_kv_heads)
    Q = queries(split(X @ W_Q, n_heads), n_kv_heads)
    K, V = (split(X @ W, n_kv_heads) for W in (W_K, W_V))
    if always_causal:
        causal = torch.ones(n, n, dtype=torch.bool).tril()
        mask = causal if mask is None else mask & causal
    if mask is not None and one_mask:
        mask = mask.broadcast_to(len(X), n_heads, n, n)[:, :1]
    sizes = {"d_model": X.shape[-1], "h": n_heads, "g": n_kv_heads}
    K, V = keys(K, rep)[:, :n_heads], values(V, rep)[:, :n_heads]
    heads, _ = attention_parts.attend(Q, K, V, mask, sizes=sizes, **slips)
    return merge(heads) @ W_O


LAYER_SLIPS: tuple[Row, ...] = (
    ("always-causal", {"always_causal": True}, attention_parts.ALWAYS_CAUSAL),
    ("queries-averaged", {"queries": lambda Q, g: Q.mean(1, keepdim=True).expand_as(Q)},
     "You average the queries, so all heads use the same query. Share only keys and values."),
    ("softmax-over-queries", {"dim": -2}, attention_parts.OVER_QUERIES),
    ("softmax-over-heads", {"dim": 1}, attention_parts.OVER_HEADS),
    *attention_parts.FULL_ROW_SLIPS,
    ("unstable", {"stable": False}, attention_parts.UNSTABLE),
    ("first-mask-only", {"one_mask": True}, "You give every head the mask of the first head."),
)  # fmt: skip
