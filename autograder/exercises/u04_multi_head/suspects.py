"""Computes the thirteen layers that a box of `diagnose` may contain, one of them correct, each in many disguises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kit import refuse_unlike

#: Maps each name to the words that a student reads if the suspect wasn't found.
SUSPECTS = {
    "right": "a correct layer",
    "not_scaled": "scores that are not divided",
    "scaled_by_d": "scores divided by d_head, not by its root",
    "scaled_by_d_model": "scores divided by the root of d_model",
    "softmax_over_queries": "a softmax over the queries",
    "causal_off_by_one": "a causal mask that is one step too wide",
    "mask_after_softmax": "forbidden weights zeroed after the softmax",
    "heads_not_by_columns": "heads that are not blocks of columns",
    "keys_and_values_swapped": "keys and values that are swapped",
    "one_head_for_all": "one wide head instead of several",
    "not_stabilised": "exponentials of the scores without a shift",
    "masked_by_a_number": "forbidden scores of -10,000",
    "window_of_8": "a window of eight keys",
}
#: The scores of forbidden pairs in `masked_by_a_number`, and the number of keys that a query sees in `window_of_8`.
FORBIDDEN_SCORE, WINDOW = -1e4, 8
#: A box takes numbers up to LARGEST, at most ENTRIES of them in X, and at most MOST products of queries and keys.
LARGEST, ENTRIES, MOST = 1e6, 20_000, 200_000


@dataclass(frozen=True)
class Disguise:
    """Chooses ways to compute that change only the rounding.

    alone: process one sequence of the batch after another.
    scales: which of "scores", "queries", "keys" and "weights" is divided.
    summed: project each head and add the results instead of concatenating the heads.
    by_sums: use sums of products instead of matrix products.
    keys_first: store scores as (…, keys, queries).
    backwards: process the tokens in reverse order.
    """

    alone: bool = False
    scales: str = "scores"
    summed: bool = False
    by_sums: bool = False
    keys_first: bool = False
    backwards: bool = False


def disguise(rng: np.random.Generator) -> Disguise:
    alone, summed, by_sums, keys_first, backwards = (rng.random(5) < 0.5).tolist()
    scales = ("scores", "queries", "keys", "weights")[rng.integers(4)]
    return Disguise(alone, scales, summed, by_sums, keys_first, backwards)


def line_up(name: str, rng: np.random.Generator) -> Callable[..., np.ndarray]:
    """Return the layer `name`, disguised. Every call computes all layers, so that its time doesn't depend on the name.

    The last digits are perturbed, so that picking the nearest of several suspects that agree to rounding doesn't help.
    """
    worn = {suspect: disguise(rng) for suspect in SUSPECTS}
    phase = rng.uniform(0, 7)

    def attend(*args: Any, **kwargs: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            found = {suspect: layer(*args, **kwargs, name=suspect, worn=worn[suspect]) for suspect in SUSPECTS}
            out = np.ascontiguousarray(found[name])
            ripple = 1e-13 * np.sin(phase + np.arange(out.size)).reshape(out.shape)
            return (out * (1 + ripple)).astype(out.dtype)

    return attend


def layer(X, W_Q, W_K, W_V, W_O, n_heads, causal, *, name="right", worn=Disguise()) -> np.ndarray:
    """Return the output (B, n, d_model) as the suspect of this name computes it."""
    if worn.alone and len(X) > 1:
        return np.concatenate([layer(x[None], W_Q, W_K, W_V, W_O, n_heads, causal, name=name, worn=worn) for x in X])
    B, n, d_model = X.shape
    h = 1 if name == "one_head_for_all" else n_heads
    d = W_Q.shape[1] // h
    if name == "keys_and_values_swapped":
        W_K, W_V = W_V, W_K
    root = {"not_scaled": 1.0, "scaled_by_d": d, "scaled_by_d_model": d_model**0.5}.get(name, d**0.5)
    by = {part: root if part == worn.scales else 1.0 for part in ("scores", "queries", "keys", "weights")}

    def heads(table):
        if name == "heads_not_by_columns":
            return table.reshape(B, h, n, d)
        return table.reshape(B, n, h, d).transpose(0, 2, 1, 3)

    Q, K, V = heads(X @ (W_Q / by["weights"])) / by["queries"], heads(X @ W_K) / by["keys"], heads(X @ W_V)
    seen = np.tri(n, k=int(name == "causal_off_by_one"), dtype=bool) if causal else np.ones((n, n), bool)
    if name == "window_of_8" and causal:
        seen &= ~np.tri(n, k=-WINDOW, dtype=bool)
    if worn.backwards:
        Q, K, V, seen = Q[..., ::-1, :], K[..., ::-1, :], V[..., ::-1, :], seen[::-1, ::-1]
    weights = weigh(scores_of(Q, K, worn) / by["scores"], seen, name, worn)
    out = mixed(weights, V, worn)
    if worn.backwards:
        out = out[..., ::-1, :]
    if name == "heads_not_by_columns":
        return out.reshape(B, n, h * d) @ W_O
    if worn.summed:
        return sum(out[:, r] @ W_O[r * d : (r + 1) * d] for r in range(h))
    return out.transpose(0, 2, 1, 3).reshape(B, n, h * d) @ W_O


def scores_of(Q, K, worn: Disguise) -> np.ndarray:
    """Return scores (B, h, queries, keys), or (B, h, keys, queries) if `worn.keys_first`."""
    first, second = (K, Q) if worn.keys_first else (Q, K)
    if worn.by_sums:
        return (first[..., :, None, :] * second[..., None, :, :]).sum(-1)
    return first @ np.swapaxes(second, -1, -2)


def weigh(scores, seen, name: str, worn: Disguise) -> np.ndarray:
    """Return weights in the layout of the scores."""
    keys = -2 if worn.keys_first else -1
    over = -3 - keys if name == "softmax_over_queries" else keys
    seen = seen.T if worn.keys_first else seen
    forbidden = FORBIDDEN_SCORE if name == "masked_by_a_number" else -np.inf
    kept = scores if name == "mask_after_softmax" else np.where(seen, scores, forbidden)
    power = np.exp(kept - (0.0 if name == "not_stabilised" else kept.max(over, keepdims=True)))
    weights = power / power.sum(over, keepdims=True)
    return weights if name == "masked_by_a_number" else np.where(seen, weights, 0.0)


def mixed(weights, V, worn: Disguise) -> np.ndarray:
    """Return the weighted sums of the values."""
    weights = np.swapaxes(weights, -1, -2) if worn.keys_first else weights
    return (weights[..., None] * V[..., None, :, :]).sum(-2) if worn.by_sums else weights @ V


def check(X: Any, W_Q: Any, W_K: Any, W_V: Any, W_O: Any, n_heads: Any, causal: Any) -> None:
    """Raise ValueError, in the same words for every box, for invalid inputs of a layer."""
    refuse_unlike("X", X, (-1, -1, -1), ENTRIES)
    refuse_unlike("W_Q", W_Q, (X.shape[-1], -1))
    width = W_Q.shape[1]
    refuse_unlike("W_K", W_K, (X.shape[-1], width))
    refuse_unlike("W_V", W_V, (X.shape[-1], width))
    refuse_unlike("W_O", W_O, (width, -1))
    if type(n_heads) is not int or n_heads < 1 or width % n_heads:
        raise ValueError(f"n_heads must be an int that divides the {width} columns of W_Q")
    if type(causal) is not bool:
        raise ValueError("causal must be True or False")
    if max(float(np.abs(given).max()) for given in (X, W_Q, W_K, W_V, W_O)) > LARGEST:
        raise ValueError(f"a box takes numbers up to {LARGEST:,.0f}")
    B, n, _ = X.shape
    if B * n * n * width > MOST:
        raise ValueError(
            f"this is too much for a box: B * n * n * h*d_head may be {MOST:,} and is {B * n * n * width:,}"
        )
