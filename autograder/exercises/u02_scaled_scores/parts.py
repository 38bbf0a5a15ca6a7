"""Provides softmax variants, drawn inputs and cases that several exercises of unit 2 share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..kit import Case, Cases, by_columns, every_second_row, normal

Array = np.ndarray
#: A relative tolerance for cases without large numbers, strict enough to notice an ε in a sum.
DIGITS = 1e-11


def alike(rows: Array) -> Array:
    """Sort the rows, longest first, then replace the second by zeros and the last by a copy of the one before it.

    With the keys of `for_scores` for the first row, no row has larger scores than the first.
    """
    rows = rows[np.argsort(-np.linalg.norm(rows, axis=1))]
    rows[1], rows[-1] = 0, rows[-2]
    return rows


def stable(z: Array, axis: int = -1, epsilon: float = 0.0) -> Array:
    """Return the shifted softmax, for mistakes in other steps or with an epsilon in its sum."""
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / (powers.sum(axis=axis, keepdims=True) + epsilon)


def unstable(z: Array, axis: int = -1) -> Array:
    """Return the softmax without a shift."""
    powers = np.exp(z)
    return powers / powers.sum(axis=axis, keepdims=True)


def for_scores(query: Array, scores: Array) -> Array:
    """Return keys that have these scaled scores with one query."""
    return scores[:, None] * query * (math.sqrt(len(query)) / (query @ query))


def near(score: float, drawn: dict[str, Any]) -> dict[str, Any]:
    """Change what was drawn so that every second query's scores are near `score`, and the others near -`score`."""
    drawn["K"][:, 0] = 1
    drawn["Q"][:, 0] = score * math.sqrt(drawn["d_k"]) * np.where(np.arange(drawn["n"]) % 2, 1, -1)
    return drawn


def cosine(Q: Array, K: Array) -> Array:
    """Return the scores of rows scaled to length 1."""
    return (Q @ K.T) / (np.linalg.norm(Q, axis=1)[:, None] * np.linalg.norm(K, axis=1))


def pair_cases(case: Cases) -> Iterator[Case]:
    """Yield cases for a function of Q (n, d_k) and K (m, d_k)."""
    for dtype in (float, float, np.float32):
        yield case("values", "n = {n}, m = {m}, d_k = {d_k}", dtype=dtype)
    yield case("values", "as many keys as queries", m="n")
    yield case("values", "n = m = d_k", n="d_k", m="d_k")
    yield case("values", "many features (d_k = 64)", d_k=64)
    yield case("values", "many queries and keys (n = {n}, m = {m})", n=range(33, 38), m=range(41, 46), d_k=range(5, 9))
    yield case("values", "hundreds of features (d_k = {d_k})", n=2, m=3, d_k=range(390, 410))
    yield case("values", "d_k = 6, whose root is no whole number", d_k=6)
    yield case("values", "d_k = 7, whose root is no whole number", d_k=7)
    yield case("values", "inputs that are slices", layout={"Q": every_second_row, "K": by_columns})
    yield case("edge cases", "a single query (n = 1)", n=1)
    yield case("edge cases", "a single key (m = 1)", m=1)
    yield case("edge cases", "one feature (d_k = 1)", d_k=1)
    large = {"Q": normal("n d_k", scale=100), "K": normal("m d_k", scale=100)}
    yield case("edge cases", "large entries, scores of about 10,000", **large)
    yield case("values", "over 100 queries and keys (n = {n}, m = {m})", n=range(121, 125), m=range(131, 140), d_k=3)
    yield case("values", "a thousand features (d_k = {d_k})", n=1, m=1, d_k=range(1_030, 1_060))
    rows = case.rng.standard_normal((5, 4))
    rows[:, 2] = 0
    label = "queries and keys that are the same, one feature 0 in all of them"
    yield case("edge cases", label, Q=rows, K=rows.copy(), rtol=DIGITS)
    keys = alike(rows)
    yield case("edge cases", "the queries of the case before, a key of zeros, two equal keys", Q=rows, K=keys)
    small = normal("n d_k", scale=1e-6)
    yield case("edge cases", "the keys of the case before, scores of about 0.000001", Q=small, K=keys, n=5)
    yield case("edge cases", "queries of zeros", Q=np.zeros((3, 4)), d_k=4)
