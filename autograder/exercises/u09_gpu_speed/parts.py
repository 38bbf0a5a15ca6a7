"""Provides inputs, checks of intermediate tensors, and known mistakes that several exercises of unit 9 share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..attention_parts import OVER_HEADS, OVER_QUERIES, attend
from ..kit import Case, Cases, Row

#: The error that float16 may cause in a sum of a few dozen terms.
HALF = 0.02

# ---------------------------------------------------------------------------------------------------------------------
# Inputs


def large_scores(case: Cases, **given: Any) -> dict[str, Any]:
    """Draw scores of about ±10,000 that rise or fall along the keys, so that the running maximum changes."""
    drawn = case.draw(**given)
    B, h, n, d = drawn["K"].shape
    drawn["K"] += np.linspace(-3, 3, n)[:, None] * case.rng.choice([-1.0, 1.0], (B, h, 1, 1))
    scores = drawn["Q"] @ drawn["K"].swapaxes(-1, -2) / math.sqrt(d)
    drawn["Q"] = _rounded(drawn["Q"] * 1e4 / np.abs(scores).max())
    return drawn


def low_scores(case: Cases, **given: Any) -> dict[str, Any]:
    """Draw scores between −10,010 and −9,990."""
    drawn = case.draw(**given)
    drawn["Q"][:] = 100.0
    drawn["K"] = _rounded(-(100.0 + 0.02 * drawn["K"]) / math.sqrt(drawn["d"]))
    return drawn


def zeros_and_twins(case: Cases, **given: Any) -> dict[str, Any]:
    """Repeat the first key as the second; set the third key, the fourth value and the fifth query to zeros."""
    drawn = case.draw(**given)
    drawn["K"][..., 1, :] = drawn["K"][..., 0, :]
    for name, row in (("K", 2), ("V", 3), ("Q", 4)):
        drawn[name][..., row, :] = 0.0
    return drawn


def last_key_on_top(case: Cases, **given: Any) -> dict[str, Any]:
    """Raise the scores with the last key, which most queries may not see, by 1,000 above all others."""
    drawn = case.draw(**given)
    drawn["Q"] = np.abs(drawn["Q"]) + 0.5
    drawn["K"][..., -1, :] = 3000.0
    return drawn


def equal_queries(drawn: dict[str, Any]) -> dict[str, Any]:
    """Replace all queries of a head by its first one."""
    drawn["Q"][:] = drawn["Q"][:, :, :1]
    return drawn


def _rounded(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32).astype(np.float64)


# ---------------------------------------------------------------------------------------------------------------------
# Intermediate tensors

#: The words after the sizes in the label of a case that checks how many keys a block contains.
BLOCKS = "the blocks themselves"


def other_blocks(case: Case, arrays: list[np.ndarray]) -> str | None:
    """Return a message if the keys that meet a query at once aren't one block. Needs one head with equal queries."""
    Q, K = case.args[:2]
    scores, size = K[0, 0] @ Q[0, 0, 0], case.sizes["block_size"]
    lengths = {
        len(row)
        for array in arrays
        for row in _rows(np.squeeze(array))
        if any(_alike(row, scores[start : start + len(row)]) for start in range(len(scores) - len(row) + 1))
    }
    if lengths and max(lengths) > size:
        return f"your code computes the scores of a query with {max(lengths)} keys at once, but a block holds {size}"
    return None if size in lengths else f"your code never computes the scores of a whole block of {size} keys"


def _rows(array: np.ndarray) -> list[np.ndarray]:
    rows = [array] if array.ndim == 1 else [array[0], array[:, 0]] if array.ndim == 2 and array.size else []
    return [row for row in rows if row.dtype.kind == "f" and len(row) > 2]


def _alike(row: np.ndarray, scores: np.ndarray) -> bool:
    """Return whether these are the scores, scaled and shifted."""
    return bool(np.isfinite(row).all() and np.ptp(row) > 0 and np.corrcoef(row, scores)[0, 1] > 1 - 1e-9)


# ---------------------------------------------------------------------------------------------------------------------
# Known mistakes of any attention


def attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    causal: bool = False,
    *,
    always: bool | None = None,
    shifted: int = 0,
    keys: Callable[[Tensor], Tensor] = lambda K: K,
    after: Callable[[Tensor], Any] = lambda out: out,
    residual: bool = False,
    **options: Any,
) -> Any:
    """Compute any attention with an option for each slip.

    always: replaces `causal`, unless None. options: slips of `attend`.
    """
    n, h = Q.shape[-2], Q.shape[1]
    K = keys(K)
    mask = torch.ones(n, n, dtype=torch.bool).tril(shifted) if (causal if always is None else always) else None
    out, _ = attend(Q, K, V, mask, sizes={"h": h}, **options)
    out = out + Q if residual else out
    return after(out)


def _best_key_only(Q: Tensor, K: Tensor, V: Tensor, causal: bool = False) -> Tensor:
    scores = Q @ K.mT
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf)
    return F.one_hot(scores.argmax(-1), K.shape[-2]).to(V.dtype) @ V


def _heads_as_tokens(Q: Tensor, K: Tensor, V: Tensor, causal: bool = False) -> Tensor:
    return attention(*(array.transpose(1, 2) for array in (Q, K, V)), causal).transpose(1, 2)


#: Slips of `attention`.
SLIPS: tuple[Row, ...] = (
    ("softmax-over-queries", {"dim": -2}, OVER_QUERIES),
    ("softmax-over-heads", {"dim": 1}, OVER_HEADS),
    ("weights-scaled", {"scaling": "none", "after": lambda out: out / math.sqrt(out.shape[-1])},
     "You divide by √d after the softmax. Divide the scores, before it."),
    ("keys-reshaped", {"keys": lambda K: K.reshape(*K.shape[:-2], K.shape[-1], K.shape[-2]).mT},
     "You reshape the keys to (d, n), which mixes keys and features. Swap the two axes."),
    ("queries-added", {"residual": True},
     "You add the queries to the output. A residual belongs to the block, not to the attention."),
)  # fmt: skip

#: More mistakes of any attention, which aren't slips of one step.
MISTAKES: tuple[Row, ...] = (
    ("best-key-only", _best_key_only,
     "You let each query take only the value of its best key. Attention averages all values with softmax weights."),
    ("heads-as-tokens", _heads_as_tokens,
     "You read the inputs as (B, n, h, d), so that the heads of one token attend to each other."),
)  # fmt: skip
