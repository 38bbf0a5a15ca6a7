"""Unit 2, why the scores are divided by √d: softmax, scores, variance and its measurement, attention, saturation."""

from __future__ import annotations

import math

import numpy as np
import scipy.special
import torch
import torch.nn.functional as F

from ..exercise import Case, Exercise, Leaf, Mistake, Rng

UNIT = "02_scaled_scores"
Array = np.ndarray
Pair = tuple[Array, Array]


def _distinct(rng: np.random.Generator, count: int, low: int = 3, high: int = 10) -> list[int]:
    """`count` sizes in low … high, all different, so that no two axes can be taken for each other."""
    return [int(size) for size in rng.permutation(np.arange(low, high + 1))[:count]]


def _normal(rng: np.random.Generator, *shape: int, dtype: type = np.float64) -> Array:
    return rng.standard_normal(shape).astype(dtype)


def _right_softmax(z: Array, axis: int = -1) -> Array:
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


# ---------------------------------------------------------------------------------------------------------------------
# softmax


def _softmax(z: Array, axis: int = -1) -> Array:
    return scipy.special.softmax(z, axis=axis)


def _draw_softmax(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, z: Array, **axis: int) -> None:
        cases.append(Case(criterion, label, (z,), axis, sizes={"size": z.shape[axis.get("axis", -1)]}, quiet=True))

    n, m, k = _distinct(rng, 3)
    add("values", "a matrix", _normal(rng, n, m))
    add("values", "a matrix of float32", _normal(rng, m, k, dtype=np.float32))
    add("values", "a vector", _normal(rng, k) * 2)
    add("values", "a square matrix", _normal(rng, n, n))
    add("values", "a matrix of negative numbers", -np.abs(_normal(rng, k, n)) - 1)
    add("axes", "axis=0 of a matrix", _normal(rng, n, m), axis=0)
    add("axes", "axis=1 of an array of three axes", _normal(rng, k, n, m), axis=1)
    add("axes", "axis=-2 of an array of three axes", np.asfortranarray(_normal(rng, n, k, m)), axis=-2)
    add("axes", "the last axis of four", _normal(rng, 2, n, 3, m))
    cases.append(Case("axes", "the axis given by position", (_normal(rng, n, k), 0), sizes={"size": n}, quiet=True))
    big = _normal(rng, n, m)
    big[rng.integers(0, n)] += 1e4
    big[(rng.integers(0, n - 1) + 1) % n] -= 1e4
    add("stability", "rows of scores near 10,000 beside rows near -10,000", big)
    shift = np.where(np.arange(n) % 2, 1e4, -1e4)[:, None]
    add("stability", "one row near 10,000, the next near -10,000", _normal(rng, n, m) + shift)
    wide = _normal(rng, k, m)
    wide[:, 0], wide[:, 1] = -1e4, 1e4
    add("stability", "10,000 and -10,000 in one row", wide)
    low = _normal(rng, k, m)
    low[:, -1] -= 1e3
    add("stability", "a far smaller entry at the end of each row", low)
    add("stability", "all entries -10,000", np.full((2, m), -1e4))
    add("stability", "float32 with entries of ±10,000", np.float32([[1e4, -1e4, 0], [-1e4, -1e4, -1e4]]))
    add("edge cases", "a single entry per row", _normal(rng, n, 1))
    add("edge cases", "equal entries", np.full((n, m), 0.75))
    return cases


def _no_shift(z: Array, axis: int = -1) -> Array:
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


def _global_shift(z: Array, axis: int = -1) -> Array:
    e = np.exp(z - z.max())
    return e / e.sum(axis=axis, keepdims=True)


def _guarded(z: Array, epsilon: float, axis: int) -> Array:
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / (e.sum(axis=axis, keepdims=True) + epsilon)


def _power(base: float):
    def softmax(z: Array, axis: int = -1) -> Array:
        e = base ** (z - z.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)

    return softmax


def _squared(z: Array, axis: int = -1) -> Array:
    e = _right_softmax(z, axis) ** 2
    return np.sqrt(e) / np.sqrt(e.sum(axis=axis, keepdims=True))


def _without_keepdims(z: Array, axis: int = -1) -> Array:
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis)


def _shift_without_keepdims(z: Array, axis: int = -1) -> Array:
    e = np.exp(z - z.max(axis=axis))
    return e / e.sum(axis=axis, keepdims=True)


def _min_shift(z: Array, axis: int = -1) -> Array:
    e = np.exp(z - z.min(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _mean_shift(z: Array, axis: int = -1) -> Array:
    e = np.exp(z - z.mean(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _linear(z: Array, axis: int = -1) -> Array:
    return z / z.sum(axis=axis, keepdims=True)


def _positive_part(z: Array, axis: int = -1) -> Array:
    e = np.maximum(z, 0)
    return e / (e.sum(axis=axis, keepdims=True) + 1e-30)


def _unstable_logarithm(z: Array, axis: int = -1) -> Array:
    return np.exp(z - np.log(np.exp(z).sum(axis=axis, keepdims=True)))


def _divided_by_maximum(z: Array, axis: int = -1) -> Array:
    return _no_shift(z / z.max(axis=axis, keepdims=True), axis)


def _standardised(z: Array, axis: int = -1) -> Array:
    centred = z - z.mean(axis=axis, keepdims=True)
    return _right_softmax(centred / (z.std(axis=axis, keepdims=True) + 1e-12), axis)


_SOFTMAX = Exercise(
    name="softmax",
    unit=UNIT,
    returns=Leaf("float array", "the weights"),
    reference=_softmax,
    draw=_draw_softmax,
    credit={"values": 0.4, "axes": 0.25, "stability": 0.25, "edge cases": 0.1},
    mistakes=(
        Mistake(
            "no-shift",
            "The exponentials overflow or vanish for large entries. A softmax does not change when all entries of a "
            "row "
            "are shifted by the same number: which shift keeps them harmless?",
            _no_shift,
        ),
        Mistake(
            "global-shift",
            "The largest entry of the whole array was subtracted, so a row of much smaller numbers vanishes. "
            "Each row needs the maximum of its own.",
            _global_shift,
        ),
        Mistake(
            "shift-by-minimum",
            "The smallest entry was subtracted, which leaves large exponents that overflow. No exponent should be "
            "above 0.",
            _min_shift,
        ),
        Mistake(
            "shift-by-mean",
            "The mean was subtracted, which leaves large exponents that overflow. No exponent should be above 0.",
            _mean_shift,
        ),
        Mistake(
            "axis-ignored",
            "The `axis` argument is not used: the softmax always runs over the last axis.",
            lambda z, axis=-1: _right_softmax(z, -1),
        ),
        Mistake(
            "always-axis-0",
            "The softmax always runs over the first axis. The default is the last one, and `axis` may name any.",
            lambda z, axis=-1: _right_softmax(z, 0),
        ),
        Mistake(
            "always-axis-1",
            "The softmax always runs over axis 1. The default is the last one, and `axis` may name any.",
            lambda z, axis=-1: _right_softmax(z, 1),
        ),
        Mistake(
            "default-axis-0",
            "Without an `axis` the softmax runs over the first axis. The default is the last one.",
            lambda z, axis=0: _right_softmax(z, axis),
        ),
        Mistake(
            "over-everything",
            "The exponentials were divided by the sum of the whole array. The sum runs along one axis.",
            lambda z, axis=-1: np.exp(z - z.max()) / np.exp(z - z.max()).sum(),
        ),
        Mistake(
            "sum-without-keepdims",
            "The sum lost its axis, and broadcasting divides by the sums of other rows, or fails: look at `keepdims`.",
            _without_keepdims,
        ),
        Mistake(
            "max-without-keepdims",
            "The maximum lost its axis, and broadcasting subtracts the maxima of other rows, or fails: look at "
            "`keepdims`.",
            _shift_without_keepdims,
        ),
        Mistake(
            "not-normalised",
            "These are exponentials that were not divided by their sum.",
            lambda z, axis=-1: np.exp(z - z.max(axis=axis, keepdims=True)),
        ),
        Mistake(
            "log-softmax",
            "This is the logarithm of the softmax.",
            lambda z, axis=-1: z - scipy.special.logsumexp(z, axis=axis, keepdims=True),
        ),
        Mistake(
            "linear",
            "The entries were divided by their sum, without an exponential: negative weights are possible that way.",
            _linear,
        ),
        Mistake("positive-part", "Negative entries were cut off in place of taking the exponential.", _positive_part),
        Mistake("base-two", "Powers of 2 were taken. The softmax takes powers of e.", _power(2.0)),
        Mistake("base-ten", "Powers of 10 were taken. The softmax takes powers of e.", _power(10.0)),
        Mistake(
            "wrong-sign",
            "The exponents have the wrong sign: the smallest entry weighs most.",
            lambda z, axis=-1: _right_softmax(-z, axis),
        ),
        Mistake(
            "length-one",
            "The weights have length 1, as a vector has. They must have the sum 1.",
            _squared,
        ),
        Mistake(
            "epsilon-added",
            "A small number was added to the sum, so the weights no longer add up to 1. A sum that holds e⁰ needs "
            "no guard.",
            lambda z, axis=-1: _guarded(z, 1e-3, axis),
        ),
        Mistake(
            "sigmoid",
            "This is the logistic function of each entry. The weights of a row depend on one another.",
            lambda z, axis=-1: scipy.special.expit(z),
        ),
        Mistake(
            "hard-max",
            "The largest entry gets all the weight. The softmax gives every entry its share.",
            lambda z, axis=-1: (z == z.max(axis=axis, keepdims=True)).astype(z.dtype),
        ),
        Mistake(
            "clipped",
            "The entries were clipped. That avoids overflow and changes the result where entries beyond the clip "
            "differ.",
            lambda z, axis=-1: _no_shift(np.clip(z, -20, 20), axis),
        ),
        Mistake(
            "nan-replaced",
            "Overflow was covered up: NaN was replaced by zeros afterwards. Avoid the overflow in place of its traces.",
            lambda z, axis=-1: np.nan_to_num(_no_shift(z, axis)),
        ),
        Mistake(
            "clipped-far-out",
            "The entries were clipped. Beyond the clip all entries become equal, and so do their weights.",
            lambda z, axis=-1: _no_shift(np.clip(z, -500, 500), axis),
        ),
        Mistake(
            "unstable-logarithm",
            "The logarithm of the sum was subtracted, and the sum itself overflows or vanishes for large entries.",
            _unstable_logarithm,
        ),
        Mistake(
            "shift-by-first",
            "The first entry of each row was subtracted. Others may be far above it: no exponent should be above 0.",
            lambda z, axis=-1: _no_shift(z - np.take(z, [0], axis=axis), axis),
        ),
        Mistake(
            "shift-by-last",
            "The last entry of each row was subtracted. Others may be far above it: no exponent should be above 0.",
            lambda z, axis=-1: _no_shift(z - np.take(z, [-1], axis=axis), axis),
        ),
        Mistake(
            "shift-by-size",
            "The largest absolute value was subtracted. In a row of large negative entries everything vanishes.",
            lambda z, axis=-1: _no_shift(z - np.abs(z).max(axis=axis, keepdims=True), axis),
        ),
        Mistake(
            "shift-along-last-axis",
            "The maximum is always taken along the last axis. It belongs to the same axis as the sum.",
            lambda z, axis=-1: _no_shift(z - z.max(axis=-1, keepdims=True), axis),
        ),
        Mistake(
            "sum-along-last-axis",
            "The sum is always taken along the last axis. It belongs to the axis that `axis` names.",
            lambda z, axis=-1: _no_shift(z - z.max(axis=axis, keepdims=True), -1),
        ),
        Mistake(
            "axis-by-keyword-only",
            "`axis` cannot be given by position. The docstring allows both.",
            lambda z, *, axis=-1: _right_softmax(z, axis),
        ),
        Mistake(
            "divided-by-maximum",
            "The entries were divided by the largest one. A softmax does not change under a shift; a division "
            "changes it.",
            _divided_by_maximum,
        ),
        Mistake(
            "absolute",
            "The signs are lost: a large negative entry gets little weight, not much.",
            lambda z, axis=-1: _right_softmax(np.abs(z), axis),
        ),
        Mistake(
            "scaled",
            "The entries were divided by a root first. This function is the plain softmax.",
            lambda z, axis=-1: _right_softmax(z / np.sqrt(z.shape[axis]), axis),
        ),
        Mistake(
            "halved",
            "The entries were halved first. This function is the plain softmax.",
            lambda z, axis=-1: _right_softmax(z / 2, axis),
        ),
        Mistake(
            "standardised",
            "The entries were brought to unit variance. Only a shift leaves the softmax as it is.",
            _standardised,
        ),
        Mistake(
            "twice",
            "The softmax was taken twice.",
            lambda z, axis=-1: _right_softmax(_right_softmax(z, axis), axis),
        ),
        Mistake(
            "squares",
            "Squares were taken in place of exponentials: a large negative entry gets much weight.",
            lambda z, axis=-1: z**2 / ((z**2).sum(axis=axis, keepdims=True) + 1e-300),
        ),
        Mistake(
            "shifted-linear",
            "The shifted entries were divided by their sum: the exponential is missing.",
            lambda z, axis=-1: (
                (z - z.max(axis=axis, keepdims=True))
                / ((z - z.max(axis=axis, keepdims=True)).sum(axis=axis, keepdims=True) - 1e-300)
            ),
        ),
        Mistake(
            "divided-twice",
            "The exponentials were divided by their sum twice.",
            lambda z, axis=-1: (
                _right_softmax(z, axis) / np.exp(z - z.max(axis=axis, keepdims=True)).sum(axis=axis, keepdims=True)
            ),
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# attention_scores and scaled_scores


def _draw_pairs(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, n: int, m: int, d: int, dtype: type = np.float64) -> None:
        Q, K = _normal(rng, n, d, dtype=dtype), _normal(rng, m, d, dtype=dtype)
        if "slices" in label:
            Q, K = _normal(rng, 2 * n, d)[::2], np.asfortranarray(K)
        if "large" in label:
            Q, K = 100 * Q, 100 * K
        cases.append(Case(criterion, label, (Q, K), sizes={"n": n, "m": m, "d_k": d}))

    for dtype in (np.float64, np.float64, np.float32):
        n, m, d = _distinct(rng, 3)
        add("values", f"n = {n}, m = {m}, d_k = {d}", n, m, d, dtype)
    n, d = _distinct(rng, 2)
    add("values", "as many keys as queries", n, n, d)
    add("values", "n = m = d_k", d, d, d)
    add("values", "many features (d_k = 64)", n, d, 64)
    add("values", "d_k = 6, whose root is no whole number", n, n + 3, 6)
    add("values", "d_k = 7, whose root is no whole number", d, d + 2, 7)
    add("values", "inputs that are slices", *_distinct(rng, 3))
    m, d = _distinct(rng, 2)
    add("edge cases", "a single query (n = 1)", 1, m, d)
    add("edge cases", "a single key (m = 1)", m, 1, d)
    add("edge cases", "one feature (d_k = 1)", m, d, 1)
    add("edge cases", "large entries, scores of about 10,000", *_distinct(rng, 3))
    return cases


def _attention_scores(Q: Array, K: Array) -> Array:
    return np.einsum("id,jd->ij", Q, K)


def _cosine(Q: Array, K: Array) -> Array:
    return (Q @ K.T) / (np.linalg.norm(Q, axis=1)[:, None] * np.linalg.norm(K, axis=1))


def _raise_alike(*_: Array) -> Array:
    raise ValueError("operands could not be broadcast together")


def _looped_diagonal(Q: Array, K: Array) -> Array:
    S = np.zeros((len(Q), len(K)), Q.dtype)
    for i in range(min(len(Q), len(K))):
        S[i, i] = Q[i] @ K[i]
    return S


def _positive_scores(Q: Array, K: Array) -> Array:
    return np.maximum(Q @ K.T, 0)


def _square_table(Q: Array, K: Array) -> Array:
    S = np.zeros((len(Q), len(Q)), Q.dtype)
    for i in range(len(Q)):
        for j in range(len(Q)):
            S[i, j] = Q[i] @ K[j]
    return S


_ATTENTION_SCORES = Exercise(
    name="attention_scores",
    unit=UNIT,
    returns=Leaf("float array", "the scores"),
    reference=_attention_scores,
    draw=_draw_pairs,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "queries-and-keys-swapped",
            "The scores are transposed: a row belongs to a query, a column to a key.",
            lambda Q, K: K @ Q.T,
        ),
        Mistake(
            "not-transposed",
            "Q was multiplied by K as it stands. Every query meets every key: which side of K must face the "
            "features of Q?",
            lambda Q, K: Q @ K,
        ),
        Mistake(
            "elementwise",
            "Q and K were multiplied entry by entry. A score is a sum over the features.",
            lambda Q, K: Q * K,
        ),
        Mistake(
            "scaled",
            "The scores were divided by √d_k. Here they are plain dot products; the next exercise divides.",
            lambda Q, K: Q @ K.T / np.sqrt(Q.shape[1]),
        ),
        Mistake(
            "divides-by-d",
            "The scores were divided by d_k. Here they are plain dot products.",
            lambda Q, K: Q @ K.T / Q.shape[1],
        ),
        Mistake("cosine", "Rows were brought to length 1 first. A score is a plain dot product.", _cosine),
        Mistake(
            "with-softmax",
            "The softmax was taken already. Scores are what goes into it.",
            lambda Q, K: _right_softmax(Q @ K.T),
        ),
        Mistake(
            "distance",
            "These are distances between queries and keys, not dot products.",
            lambda Q, K: np.linalg.norm(Q[:, None] - K, axis=-1),
        ),
        Mistake(
            "squared-distance",
            "These are squared distances between queries and keys, not dot products.",
            lambda Q, K: ((Q[:, None] - K) ** 2).sum(axis=-1),
        ),
        Mistake(
            "pairs-only",
            "Query i met key i alone. Every query meets every key, so the scores are (n, m).",
            lambda Q, K: (Q * K).sum(axis=1),
        ),
        Mistake("diagonal-only", "Only the diagonal is filled. Every query meets every key.", _looped_diagonal),
        Mistake(
            "queries-only",
            "The queries met themselves: K is not used.",
            lambda Q, K: Q @ Q.T,
        ),
        Mistake("keys-only", "The keys met themselves: Q is not used.", lambda Q, K: K @ K.T),
        Mistake(
            "features-with-features",
            "The product sums over the tokens. It must sum over the features.",
            lambda Q, K: Q.T @ K,
        ),
        Mistake("absolute", "The signs are lost: a score may be negative.", lambda Q, K: np.abs(Q @ K.T)),
        Mistake(
            "outer", "Every number met every other number: nothing was summed.", lambda Q, K: np.multiply.outer(Q, K)
        ),
        Mistake(
            "not-summed",
            "The products were not summed over the features: the scores are (n, m).",
            lambda Q, K: Q[:, None] * K,
        ),
        Mistake(
            "future-hidden",
            "Part of the table is empty. Here every query meets every key; masks come in unit 3.",
            lambda Q, K: np.tril(Q @ K.T),
        ),
        Mistake(
            "past-hidden",
            "Part of the table is empty, below the diagonal. Every query meets every key.",
            lambda Q, K: np.triu(Q @ K.T),
        ),
        Mistake("positive-part", "Negative scores were cut off. A score may be negative.", _positive_scores),
        Mistake(
            "keys-normalised",
            "The keys were brought to length 1 first. A score is a plain dot product.",
            lambda Q, K: Q @ (K / np.linalg.norm(K, axis=1, keepdims=True)).T,
        ),
        Mistake(
            "queries-normalised",
            "The queries were brought to length 1 first. A score is a plain dot product.",
            lambda Q, K: (Q / np.linalg.norm(Q, axis=1, keepdims=True)) @ K.T,
        ),
        Mistake(
            "keys-centred",
            "The mean of the keys was subtracted. A score is a plain dot product.",
            lambda Q, K: Q @ (K - K.mean(axis=0)).T,
        ),
        Mistake(
            "reshaped-keys",
            "K was brought into the shape (d_k, m) by a reshape, which mixes the keys. Transpose it.",
            lambda Q, K: Q @ K.reshape(K.shape[1], K.shape[0]),
        ),
        Mistake(
            "reshaped-scores",
            "The transposed scores were forced into the shape (n, m) by a reshape, which mixes queries and keys.",
            lambda Q, K: (K @ Q.T).reshape(len(Q), len(K)),
        ),
        Mistake(
            "keys-as-many-as-queries",
            "The table is (n, n): there may be more or fewer keys than queries.",
            _square_table,
        ),
        Mistake(
            "feature-left-out",
            "The sum leaves out the last feature.",
            lambda Q, K: Q[:, :-1] @ K[:, :-1].T,
        ),
        Mistake(
            "negative-distance",
            "These are distances with the sign changed, not dot products.",
            lambda Q, K: -np.linalg.norm(Q[:, None] - K, axis=-1),
        ),
        Mistake(
            "sums-multiplied",
            "The sum of the query was multiplied by the sum of the key. Multiply entry by entry first, then sum.",
            lambda Q, K: np.einsum("ia,jb->ij", Q, K),
        ),
        Mistake(
            "first-five-features",
            "The sum runs over five features, the width of the worked example.",
            lambda Q, K: Q[:, :5] @ K[:, :5].T,
        ),
    ),
)


def _scaled_scores(Q: Array, K: Array) -> Array:
    return _attention_scores(Q, K) / math.sqrt(Q.shape[-1])


def _over_scale(scale):
    return lambda Q, K: Q @ K.T / scale(Q, K)


_SCALED_SCORES = Exercise(
    name="scaled_scores",
    unit=UNIT,
    returns=Leaf("float array", "the scores"),
    reference=_scaled_scores,
    draw=_draw_pairs,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "divides-by-d",
            "The scores were divided by d_k, or by √d_k twice, where its square root is due once.",
            _over_scale(lambda Q, K: Q.shape[1]),
        ),
        Mistake("no-scale", "The scores were not divided at all.", lambda Q, K: Q @ K.T),
        Mistake(
            "multiplies",
            "The scores were multiplied by √d_k. Scaling is to make them smaller.",
            lambda Q, K: Q @ K.T * np.sqrt(Q.shape[1]),
        ),
        Mistake(
            "root-of-queries",
            "The root of the number of queries was taken. The width of queries and keys counts.",
            _over_scale(lambda Q, K: np.sqrt(len(Q))),
        ),
        Mistake(
            "root-of-keys",
            "The root of the number of keys was taken. The width of queries and keys counts.",
            _over_scale(lambda Q, K: np.sqrt(len(K))),
        ),
        Mistake(
            "hard-coded",
            "The scores were divided by a fixed number, 8, which is right for d_k = 64 alone.",
            _over_scale(lambda Q, K: 8.0),
        ),
        Mistake(
            "fourth-root",
            "The fourth root of d_k was taken. Both factors need it, or the product needs the square root.",
            _over_scale(lambda Q, K: Q.shape[1] ** 0.25),
        ),
        Mistake(
            "square-of-d",
            "The scores were divided by the square of d_k, not by its square root.",
            _over_scale(lambda Q, K: Q.shape[1] ** 2),
        ),
        Mistake(
            "whole-root",
            "The root was rounded to a whole number.",
            _over_scale(lambda Q, K: int(np.sqrt(Q.shape[1]))),
        ),
        Mistake(
            "logarithm",
            "The scores were divided by a logarithm of d_k, not by its square root.",
            _over_scale(lambda Q, K: np.log(Q.shape[1] + 1)),
        ),
        Mistake(
            "adds-root",
            "The root was subtracted. The scores are divided by it.",
            lambda Q, K: Q @ K.T - np.sqrt(Q.shape[1]),
        ),
        Mistake(
            "queries-and-keys-swapped",
            "The scores are transposed: a row belongs to a query, a column to a key.",
            lambda Q, K: K @ Q.T / np.sqrt(Q.shape[1]),
        ),
        Mistake("cosine", "Rows were brought to length 1. The scores are to be divided by √d_k alone.", _cosine),
        Mistake(
            "with-softmax",
            "The softmax was taken already. Scores are what goes into it.",
            lambda Q, K: _right_softmax(Q @ K.T / np.sqrt(Q.shape[1])),
        ),
        Mistake(
            "not-transposed",
            "Q was multiplied by K as it stands. Every query meets every key.",
            lambda Q, K: Q @ K / np.sqrt(Q.shape[1]),
        ),
        Mistake(
            "divides-by-deviation",
            "The scores were divided by their measured spread. The divisor depends on d_k alone.",
            _over_scale(lambda Q, K: (Q @ K.T).std() + 1e-30),
        ),
        Mistake(
            "root-of-both-lengths",
            "The root of n times m was taken. The width of queries and keys counts.",
            _over_scale(lambda Q, K: np.sqrt(len(Q) * len(K))),
        ),
        Mistake(
            "number-of-queries",
            "The scores were divided by the number of queries. The root of the width is due.",
            _over_scale(lambda Q, K: len(Q)),
        ),
        Mistake(
            "number-of-keys",
            "The scores were divided by the number of keys. The root of the width is due.",
            _over_scale(lambda Q, K: len(K)),
        ),
        Mistake(
            "d-minus-one",
            "The root of d_k - 1 was taken. No correction is due: the variance of the sum is d_k.",
            _over_scale(lambda Q, K: np.sqrt(max(Q.shape[1] - 1, 1))),
        ),
        Mistake(
            "d-plus-one",
            "The root of d_k + 1 was taken. Nothing is added under the root.",
            _over_scale(lambda Q, K: np.sqrt(Q.shape[1] + 1)),
        ),
        Mistake(
            "cube-root",
            "The third root of d_k was taken, not the second.",
            _over_scale(lambda Q, K: np.cbrt(Q.shape[1])),
        ),
        Mistake(
            "half-of-d",
            "The scores were divided by half of d_k. A root is due, not a half.",
            _over_scale(lambda Q, K: Q.shape[1] / 2),
        ),
        Mistake(
            "rounded-root",
            "The root was rounded to a whole number.",
            _over_scale(lambda Q, K: round(np.sqrt(Q.shape[1]))),
        ),
        Mistake(
            "rounded-up-root",
            "The root was rounded up to a whole number.",
            _over_scale(lambda Q, K: math.ceil(np.sqrt(Q.shape[1]))),
        ),
        Mistake(
            "hard-coded-512",
            "The scores were divided by a fixed number, the root of 512. Any width must be served.",
            _over_scale(lambda Q, K: math.sqrt(512)),
        ),
        Mistake(
            "multiplies-by-d",
            "The scores were multiplied by d_k. Scaling is to make them smaller.",
            _over_scale(lambda Q, K: 1 / Q.shape[1]),
        ),
        Mistake(
            "length-of-query",
            "Each score was divided by the length of its query. The divisor depends on d_k alone.",
            _over_scale(lambda Q, K: np.linalg.norm(Q, axis=1, keepdims=True)),
        ),
        Mistake(
            "length-of-key",
            "Each score was divided by the length of its key. The divisor depends on d_k alone.",
            _over_scale(lambda Q, K: np.linalg.norm(K, axis=1)),
        ),
        Mistake(
            "norm-of-queries",
            "The scores were divided by the norm of the whole Q. The divisor depends on d_k alone.",
            _over_scale(lambda Q, K: np.linalg.norm(Q)),
        ),
        Mistake(
            "largest-score",
            "The scores were divided by the largest of them. The divisor depends on d_k alone.",
            _over_scale(lambda Q, K: np.abs(Q @ K.T).max() + 1e-30),
        ),
        Mistake(
            "elementwise",
            "Q and K were multiplied entry by entry. A score is a sum over the features.",
            lambda Q, K: Q * K / np.sqrt(Q.shape[1]),
        ),
        Mistake(
            "queries-only",
            "The queries met themselves: K is not used.",
            lambda Q, K: Q @ Q.T / np.sqrt(Q.shape[1]),
        ),
        Mistake(
            "centred",
            "The mean of each row was subtracted. Only a division is asked for.",
            lambda Q, K: (Q @ K.T - (Q @ K.T).mean(axis=1, keepdims=True)) / np.sqrt(Q.shape[1]),
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# attention


def _attention(Q: Array, K: Array, V: Array) -> Pair:
    q, k, v = (torch.from_numpy(np.ascontiguousarray(A)) for A in (Q, K, V))
    output = F.scaled_dot_product_attention(q[None], k[None], v[None])[0].numpy()
    return output, scipy.special.softmax(_scaled_scores(Q, K), axis=-1)


def _draw_attention(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, n: int, m: int, d: int, d_v: int, dtype: type = np.float64, gain=1.0) -> None:
        Q, K, V = (_normal(rng, *shape, dtype=dtype) for shape in ((n, d), (m, d), (m, d_v)))
        if "slices" in label:
            Q, K, V = _normal(rng, 2 * n, d)[::2], np.asfortranarray(K), _normal(rng, m, 2 * d_v)[:, ::2]
        sizes = {"n": n, "m": m, "d_k": d, "d_v": d_v}
        cases.append(Case(criterion, label, (gain * Q, gain * K, V), sizes=sizes))

    for dtype in (np.float64, np.float32):
        n, m, d, d_v = _distinct(rng, 4)
        add("values", f"n = {n}, m = {m}, d_k = {d}, d_v = {d_v}", n, m, d, d_v, dtype)
    n, d, d_v = _distinct(rng, 3)
    add("values", "self-attention sizes (m = n)", n, n, d, d_v)
    add("values", "n = m = d_k = d_v", n, n, n, n)
    add("values", "many features (d_k = 64)", n, d, 64, d_v)
    add("values", "inputs that are slices", *_distinct(rng, 4))
    n, m, d, d_v = _distinct(rng, 4)
    add("edge cases", "a single query (n = 1)", 1, m, d, d_v)
    add("edge cases", "a single key (m = 1)", n, 1, d, d_v)
    add("edge cases", "values one wide (d_v = 1)", n, m, d, 1)
    add("stability", "scores of the size of 10,000", n, m, d, d_v, gain=100.0)
    add("stability", "scores far above 10,000", m, n, d_v, d, gain=300.0)
    return cases


def _attend(weigh):
    def attention(Q: Array, K: Array, V: Array) -> Pair:
        weights = weigh(Q @ K.T, Q, K, V)
        return weights @ V, weights

    return attention


def _silent(weigh):
    def quiet(*args: Array) -> Array:
        with np.errstate(all="ignore"):
            return weigh(*args)

    return quiet


def _right_weights(Q: Array, K: Array) -> Array:
    return _right_softmax(Q @ K.T / np.sqrt(Q.shape[1]))


def _scaled_output(Q: Array, K: Array, V: Array) -> Pair:
    weights = _right_softmax(Q @ K.T)
    return weights @ V / np.sqrt(Q.shape[1]), weights


def _unnormalised(Q: Array, K: Array) -> Array:
    S = Q @ K.T / np.sqrt(Q.shape[1])
    return np.exp(S - S.max(axis=1, keepdims=True))


_ATTENTION = Exercise(
    name="attention",
    unit=UNIT,
    returns=(Leaf("float array", "the output"), Leaf("float array", "the weights", rows_sum_to_one=True)),
    reference=_attention,
    draw=_draw_attention,
    credit={"values": 0.6, "edge cases": 0.2, "stability": 0.2},
    mistakes=(
        Mistake(
            "unstable-softmax",
            "The exponentials overflow or vanish for large scores: the softmax needs its shift.",
            _attend(_silent(lambda S, Q, K, V: _no_shift(S / np.sqrt(Q.shape[1])))),
        ),
        Mistake(
            "global-shift",
            "The largest score of the whole matrix was subtracted: rows of much smaller scores vanish.",
            _attend(_silent(lambda S, Q, K, V: _global_shift(S / np.sqrt(Q.shape[1])))),
        ),
        Mistake("no-scale", "The scores were not divided by √d_k.", _attend(lambda S, Q, K, V: _right_softmax(S))),
        Mistake(
            "divides-by-d",
            "The scores were divided by d_k, or by √d_k twice, where its square root is due once.",
            _attend(lambda S, Q, K, V: _right_softmax(S / Q.shape[1])),
        ),
        Mistake(
            "multiplies",
            "The scores were multiplied by √d_k in place of being divided.",
            _attend(lambda S, Q, K, V: _right_softmax(S * np.sqrt(Q.shape[1]))),
        ),
        Mistake(
            "root-of-d_v",
            "The root of the values' width was taken. The width of queries and keys counts.",
            _attend(lambda S, Q, K, V: _right_softmax(S / np.sqrt(V.shape[1]))),
        ),
        Mistake(
            "root-of-queries",
            "The root of the number of queries was taken. The width of queries and keys counts.",
            _attend(lambda S, Q, K, V: _right_softmax(S / np.sqrt(len(Q)))),
        ),
        Mistake(
            "root-of-keys",
            "The root of the number of keys was taken. The width of queries and keys counts.",
            _attend(lambda S, Q, K, V: _right_softmax(S / np.sqrt(len(K)))),
        ),
        Mistake(
            "hard-coded",
            "The scores were divided by a fixed number, 8, which is right for d_k = 64 alone.",
            _attend(lambda S, Q, K, V: _right_softmax(S / 8.0)),
        ),
        Mistake(
            "softmax-over-queries",
            "The softmax runs over the queries. Each query shares out its attention among the keys.",
            _attend(lambda S, Q, K, V: _right_softmax(S / np.sqrt(Q.shape[1]), axis=0)),
        ),
        Mistake(
            "softmax-over-everything",
            "All weights together have the sum 1. Each row has.",
            _attend(lambda S, Q, K, V: _right_softmax((S / np.sqrt(Q.shape[1])).ravel(), axis=0).reshape(S.shape)),
        ),
        Mistake(
            "no-softmax",
            "The scores themselves were used as weights: the softmax is missing.",
            _attend(lambda S, Q, K, V: S / np.sqrt(Q.shape[1])),
        ),
        Mistake(
            "returns-scores",
            "The output is right; beside it stand the scores. The weights are what the softmax makes of them.",
            lambda Q, K, V: (_right_weights(Q, K) @ V, Q @ K.T / np.sqrt(Q.shape[1])),
        ),
        Mistake(
            "results-swapped",
            "Output and weights have changed places: `return output, weights`.",
            lambda Q, K, V: (_right_weights(Q, K), _right_weights(Q, K) @ V),
        ),
        Mistake(
            "output-only",
            "Only the output comes back. Return the weights too.",
            lambda Q, K, V: _right_weights(Q, K) @ V,
        ),
        Mistake(
            "scaled-output",
            "The output was scaled, not the scores: the root belongs inside the softmax.",
            _scaled_output,
        ),
        Mistake(
            "scaled-after-softmax",
            "The weights were divided by √d_k after the softmax, not the scores before it.",
            _attend(lambda S, Q, K, V: _right_softmax(S) / np.sqrt(Q.shape[1])),
        ),
        Mistake(
            "values-are-keys",
            "The keys were mixed. What is passed on are the values.",
            lambda Q, K, V: (_right_weights(Q, K) @ K, _right_weights(Q, K)),
        ),
        Mistake(
            "queries-and-keys-swapped",
            "Queries and keys have changed places: a row of the weights belongs to a query.",
            lambda Q, K, V: (
                _right_weights(K, Q) @ V[: len(Q)] if len(V) >= len(Q) else _raise_alike(),
                _right_weights(K, Q),
            ),
        ),
        Mistake(
            "weights-transposed-for-output",
            "The weights were transposed before they met the values.",
            lambda Q, K, V: (_right_weights(Q, K).T @ V, _right_weights(Q, K)),
        ),
        Mistake(
            "plain-average",
            "All keys weigh the same: the scores are not used.",
            _attend(lambda S, Q, K, V: np.full(S.shape, 1 / S.shape[1])),
        ),
        Mistake(
            "hard-attention",
            "Each query takes one key alone. The softmax shares the attention out.",
            _attend(lambda S, Q, K, V: np.equal(S, S.max(axis=1, keepdims=True)).astype(float)),
        ),
        Mistake(
            "epsilon-added",
            "A small number was added to the sum of the softmax, so the weights no longer add up to 1.",
            _attend(lambda S, Q, K, V: _guarded(S / np.sqrt(Q.shape[1]), 1e-3, -1)),
        ),
        Mistake(
            "list-for-tuple",
            "The function returns a list. Return a tuple: `return output, weights`.",
            lambda Q, K, V: [_right_weights(Q, K) @ V, _right_weights(Q, K)],
        ),
        Mistake(
            "causal",
            "The future is hidden. Here every query may attend to every key; masks come in unit 3.",
            _attend(
                lambda S, Q, K, V: _right_softmax(
                    np.where(np.tri(*S.shape, dtype=bool), S / np.sqrt(Q.shape[1]), -1e30)
                )
            ),
        ),
        Mistake(
            "clipped",
            "The scores were clipped. Beyond the clip all scores become equal, and so do their weights.",
            _attend(lambda S, Q, K, V: _no_shift(np.clip(S / np.sqrt(Q.shape[1]), -500, 500))),
        ),
        Mistake(
            "nan-replaced",
            "Overflow was covered up: NaN was replaced by zeros afterwards. Avoid the overflow in place of its traces.",
            _attend(_silent(lambda S, Q, K, V: np.nan_to_num(_no_shift(S / np.sqrt(Q.shape[1]))))),
        ),
        Mistake(
            "square-of-d",
            "The scores were divided by the square of d_k, not by its square root.",
            _attend(lambda S, Q, K, V: _right_softmax(S / Q.shape[1] ** 2)),
        ),
        Mistake(
            "fourth-root",
            "The fourth root of d_k was taken.",
            _attend(lambda S, Q, K, V: _right_softmax(S / Q.shape[1] ** 0.25)),
        ),
        Mistake(
            "hard-coded-512",
            "The scores were divided by a fixed number, the root of 512. Any width must be served.",
            _attend(lambda S, Q, K, V: _right_softmax(S / math.sqrt(512))),
        ),
        Mistake(
            "hard-coded-2",
            "The scores were divided by a fixed number, 2, which is right for d_k = 4 alone.",
            _attend(lambda S, Q, K, V: _right_softmax(S / 2)),
        ),
        Mistake(
            "wrong-sign",
            "The scores have the wrong sign: the worst match weighs most.",
            _attend(lambda S, Q, K, V: _right_softmax(-S / np.sqrt(Q.shape[1]))),
        ),
        Mistake(
            "absolute",
            "The signs of the scores are lost: a key that points the other way gets much weight.",
            _attend(lambda S, Q, K, V: _right_softmax(np.abs(S) / np.sqrt(Q.shape[1]))),
        ),
        Mistake(
            "positive-part",
            "Negative scores were cut off before the softmax.",
            _attend(lambda S, Q, K, V: _right_softmax(np.maximum(S, 0) / np.sqrt(Q.shape[1]))),
        ),
        Mistake(
            "base-two",
            "Powers of 2 were taken. The softmax takes powers of e.",
            _attend(lambda S, Q, K, V: _power(2.0)(S / np.sqrt(Q.shape[1]))),
        ),
        Mistake(
            "softmax-twice",
            "The softmax was taken twice.",
            _attend(lambda S, Q, K, V: _right_softmax(_right_softmax(S / np.sqrt(Q.shape[1])))),
        ),
        Mistake(
            "cosine",
            "Queries and keys were brought to length 1. The scores are dot products, divided by √d_k.",
            _attend(lambda S, Q, K, V: _right_softmax(_cosine(Q, K))),
        ),
        Mistake(
            "weights-not-scaled",
            "The output is right; the weights beside it are those of the plain scores. Return the weights that you "
            "used.",
            lambda Q, K, V: (_right_weights(Q, K) @ V, _right_softmax(Q @ K.T)),
        ),
        Mistake(
            "powers-as-weights",
            "The output is right; the weights beside it are not divided by their sum. Return the weights that you "
            "used.",
            lambda Q, K, V: (_right_weights(Q, K) @ V, _unnormalised(Q, K)),
        ),
        Mistake(
            "never-divided-by-sum",
            "The exponentials were not divided by their sum.",
            lambda Q, K, V: (_unnormalised(Q, K) @ V, _unnormalised(Q, K)),
        ),
        Mistake(
            "values-summed",
            "The weights are right, and the output does not use them: all values were added up.",
            lambda Q, K, V: (np.tile(V.sum(axis=0), (len(Q), 1)), _right_weights(Q, K)),
        ),
        Mistake(
            "values-averaged",
            "The weights are right, and the output does not use them: all values were averaged.",
            lambda Q, K, V: (np.tile(V.mean(axis=0), (len(Q), 1)), _right_weights(Q, K)),
        ),
        Mistake(
            "best-value-only",
            "The weights are right, and the output takes the value of the best key alone. It is a mixture.",
            lambda Q, K, V: (V[(Q @ K.T).argmax(axis=1)], _right_weights(Q, K)),
        ),
        Mistake(
            "not-itself",
            "The diagonal is hidden. Here every query may attend to every key, and no two belong together.",
            _attend(
                lambda S, Q, K, V: _right_softmax(
                    np.where(np.eye(*S.shape, dtype=bool), -1e30, S / np.sqrt(Q.shape[1]))
                )
            ),
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# dot_product_moments, derivation_terms, score_statistics


def _moments(d: int, var_q: float = 1.0, var_k: float = 1.0) -> tuple[float, float]:
    return 0.0, float(sum(var_q * var_k for _ in range(d)))


def _draw_moments(rng: np.random.Generator) -> list[Case]:
    def sizes(d: int) -> dict[str, int]:
        return {"d": d}

    cases = [Case("values", f"d = {d}, unit variances", (d,), sizes=sizes(d)) for d in _distinct(rng, 2, 3, 60)]
    for d in _distinct(rng, 3, 3, 40):
        var_q, var_k = (float(v) for v in rng.uniform(0.2, 0.8, 2) * [1, 4])
        cases.append(Case("values", f"d = {d}, other variances", (d, var_q, var_k), sizes=sizes(d)))
    d = int(rng.integers(3, 30))
    cases.append(Case("values", "var_q larger than var_k", (d, float(rng.uniform(2, 3)), 0.6), sizes=sizes(d)))
    cases.append(Case("values", "variances by keyword", (d,), {"var_k": 3.0, "var_q": 0.25}, sizes=sizes(d)))
    cases.append(Case("values", "only var_q given", (d, float(rng.uniform(2, 3))), sizes=sizes(d)))
    cases.append(Case("values", "only var_k given", (d,), {"var_k": float(rng.uniform(2, 3))}, sizes=sizes(d)))
    cases.append(Case("edge cases", "d = 1", (1, 0.5, 3.0), sizes=sizes(1)))
    cases.append(Case("edge cases", "entries that never vary (variance 0)", (7, 0.0, 2.0), sizes=sizes(7)))
    return cases


_DOT_PRODUCT_MOMENTS = Exercise(
    name="dot_product_moments",
    unit=UNIT,
    returns=(Leaf("float", "the mean"), Leaf("float", "the variance")),
    reference=_moments,
    draw=_draw_moments,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "mean-is-d",
            "The mean is given as d. Every term qᵢkᵢ has mean E[qᵢ] · E[kᵢ]: what is that, and what is the sum?",
            lambda d, var_q=1.0, var_k=1.0: (float(d), d * var_q * var_k),
        ),
        Mistake(
            "mean-grows-with-variance",
            "The mean is given as the variance. For entries with mean 0, what is E[qᵢ] · E[kᵢ]?",
            lambda d, var_q=1.0, var_k=1.0: (d * var_q * var_k, d * var_q * var_k),
        ),
        Mistake(
            "variances-ignored",
            "The variances of the entries are not used.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, float(d)),
        ),
        Mistake(
            "standard-deviation",
            "This is the standard deviation. The variance is its square.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, math.sqrt(d * var_q * var_k)),
        ),
        Mistake(
            "root-of-d",
            "The variance grows with d itself. Its root, the standard deviation, grows with √d.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, math.sqrt(d) * var_q * var_k),
        ),
        Mistake(
            "square-of-d",
            "The variance grows with d, not with its square: the cross terms vanish.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, d**2 * var_q * var_k),
        ),
        Mistake(
            "variances-added",
            "The variances were added. For independent entries with mean 0, what is E[qᵢ²kᵢ²]?",
            lambda d, var_q=1.0, var_k=1.0: (0.0, d * (var_q + var_k)),
        ),
        Mistake(
            "variances-averaged",
            "The variances were averaged. For independent entries with mean 0, what is E[qᵢ²kᵢ²]?",
            lambda d, var_q=1.0, var_k=1.0: (0.0, d * (var_q + var_k) / 2),
        ),
        Mistake(
            "variances-squared",
            "The variances were squared. E[qᵢ²] already is a variance, since the mean is 0.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, d * var_q**2 * var_k**2),
        ),
        Mistake(
            "roots-of-variances",
            "The roots of the variances were multiplied. `var_q` and `var_k` are variances, not standard deviations.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, d * math.sqrt(var_q * var_k)),
        ),
        Mistake(
            "one-term",
            "This is the variance of one term qᵢkᵢ. The score is a sum of d of them.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, var_q * var_k),
        ),
        Mistake(
            "divided-by-d",
            "The variance was divided by d. It grows with every further term.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, var_q * var_k / d),
        ),
        Mistake(
            "only-var-q",
            "The variance of the keys' entries is not used.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, d * var_q),
        ),
        Mistake(
            "only-var-k",
            "The variance of the queries' entries is not used.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, d * var_k),
        ),
        Mistake(
            "results-swapped",
            "Mean and variance have changed places: `return mean, variance`.",
            lambda d, var_q=1.0, var_k=1.0: (d * var_q * var_k, 0.0),
        ),
        Mistake(
            "unbiased-correction",
            "There is a d - 1. That correction belongs to samples; here nothing is sampled.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, (d - 1) * var_q * var_k),
        ),
        Mistake(
            "already-scaled",
            "This is the variance of a scaled score with unit variances. s is the plain sum, and `var_q` and "
            "`var_k` count.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, 1.0),
        ),
        Mistake(
            "divided-by-d-alone",
            "This is what division by d leaves. s is the plain sum.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, 1 / d),
        ),
        Mistake(
            "mean-of-variances",
            "The mean is given as var_q · var_k. For entries with mean 0, what is E[qᵢ] · E[kᵢ]?",
            lambda d, var_q=1.0, var_k=1.0: (var_q * var_k, d * var_q * var_k),
        ),
        Mistake(
            "mean-of-deviations",
            "The mean is given as d times the standard deviations. For entries with mean 0, what is E[qᵢ] · E[kᵢ]?",
            lambda d, var_q=1.0, var_k=1.0: (d * math.sqrt(var_q * var_k), d * var_q * var_k),
        ),
        Mistake(
            "mean-is-root",
            "The mean is given as the standard deviation. For entries with mean 0, what is E[qᵢ] · E[kᵢ]?",
            lambda d, var_q=1.0, var_k=1.0: (math.sqrt(d * var_q * var_k), d * var_q * var_k),
        ),
        Mistake(
            "mean-is-one",
            "The mean is given as 1. For entries with mean 0, what is E[qᵢ] · E[kᵢ]?",
            lambda d, var_q=1.0, var_k=1.0: (1.0, d * var_q * var_k),
        ),
        Mistake(
            "squared-mean-subtracted",
            "A squared mean of d² was subtracted from E[s²]. What is the mean of s?",
            lambda d, var_q=1.0, var_k=1.0: (0.0, d * var_q * var_k - d**2),
        ),
        Mistake(
            "var-q-squared",
            "`var_q` was squared. It is a variance already.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, d * var_q**2 * var_k),
        ),
        Mistake(
            "var-k-squared",
            "`var_k` was squared. It is a variance already.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, d * var_q * var_k**2),
        ),
        Mistake(
            "cross-terms-only",
            "The d(d - 1) cross terms were counted. They vanish; the d squares are left.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, d * (d - 1) * var_q * var_k),
        ),
        Mistake(
            "whole-number",
            "The variance was cut to a whole number.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, int(d * var_q * var_k)),
        ),
        Mistake(
            "ratio-of-variances",
            "The variances were divided by one another. For independent entries, what is E[qᵢ²kᵢ²]?",
            lambda d, var_q=1.0, var_k=1.0: (0.0, d * var_q / var_k),
        ),
        Mistake(
            "larger-variance",
            "Only the larger of the two variances was used.",
            lambda d, var_q=1.0, var_k=1.0: (0.0, d * max(var_q, var_k)),
        ),
    ),
)


def _terms(q: Array, k: Array) -> Pair:
    t = q * k
    outer = np.einsum("si,sj->ij", t, t) / len(t)
    return np.trace(outer), outer.sum() - np.trace(outer)


def _draw_terms(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, samples: int, d: int, dtype: type = np.float64) -> None:
        # A common part in q and k makes the cross terms large: with independent draws they would be nearly 0.
        shared = _normal(rng, samples, 1)
        q, k = (_normal(rng, samples, d) + sign * shared + 0.4 for sign in (1, 0.7))
        q, k = q.astype(dtype), k.astype(dtype)
        if "opposite" in label:
            q, k = 2 + 0.1 * q, (2 + 0.1 * k) * (-1.0) ** np.arange(d)
        if "slices" in label:
            q, k = np.asfortranarray(q), np.repeat(k, 2, axis=0)[::2]
        cases.append(Case(criterion, label, (q, k), sizes={"samples": samples, "d": d}))

    for dtype in (np.float64, np.float64, np.float32):
        samples, d = _distinct(rng, 2, 4, 12)
        add("values", f"{samples} samples, d = {d}", samples, d, dtype)
    samples, d = _distinct(rng, 2, 4, 12)
    shared = 1 + rng.random((samples, 1))
    signs = np.where(np.arange(d) % 2, 1.0, -1.0)
    q, k = (_normal(rng, samples, d) * 0.1 + shared * sign for sign in (1.0, signs))
    cases.append(Case("values", "terms that cancel one another", (q, k), sizes={"samples": samples, "d": d}))
    add("values", "as many samples as features", 6, 6)
    add("values", "features of opposite sign, so that the cross part is negative", *_distinct(rng, 2, 4, 9))
    add("values", "many samples", 200, int(rng.integers(3, 9)))
    add("values", "inputs that are slices", *_distinct(rng, 2, 4, 12))
    add("edge cases", "one sample", 1, int(rng.integers(3, 9)))
    add("edge cases", "d = 1, where there are no cross terms", int(rng.integers(3, 9)), 1)
    add("edge cases", "d = 2", int(rng.integers(3, 9)), 2)
    return cases


def _from_terms(diagonal, cross):
    def derivation_terms(q: Array, k: Array) -> Pair:
        t = q * k
        return diagonal(t, q, k), cross(t, q, k)

    return derivation_terms


def _diagonal(t: Array, *_: Array) -> float:
    return (t**2).sum(axis=1).mean()


def _cross(t: Array, *_: Array) -> float:
    return (t.sum(axis=1) ** 2).mean() - (t**2).sum(axis=1).mean()


def _neighbours(t: Array, *_: Array) -> float:
    return 2 * (t[:, 1:] * t[:, :-1]).sum(axis=1).mean()


FEATURES_AVERAGED = (
    "Both parts were averaged over the features. Over i, and over i and j, the sums are plain: the mean runs over the "
    "samples alone."
)

_DERIVATION_TERMS = Exercise(
    name="derivation_terms",
    unit=UNIT,
    returns=(Leaf("float", "the diagonal part"), Leaf("float", "the cross part")),
    reference=_terms,
    draw=_draw_terms,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "each-pair-once",
            "Each pair of features was counted once. The sum over i ≠ j holds (i, j) and (j, i).",
            _from_terms(_diagonal, lambda t, q, k: _cross(t) / 2),
        ),
        Mistake(
            "pairs-twice",
            "Each pair of features was counted four times: the sum over i ≠ j already holds (i, j) and (j, i).",
            _from_terms(_diagonal, lambda t, q, k: _cross(t) * 2),
        ),
        Mistake(
            "cross-holds-diagonal",
            "The cross part still holds the diagonal: there i and j are different.",
            _from_terms(_diagonal, lambda t, q, k: (t.sum(axis=1) ** 2).mean()),
        ),
        Mistake(
            "sums-in-place-of-means",
            "The samples were added up. Both parts are means over the samples.",
            _from_terms(lambda t, q, k: (t**2).sum(), lambda t, q, k: _cross(t) * len(t)),
        ),
        Mistake(
            "mean-over-features-too",
            "The mean runs over the features too. They are summed; the mean runs over the samples.",
            _from_terms(lambda t, q, k: (t**2).mean(), lambda t, q, k: _cross(t) / t.shape[1]),
        ),
        Mistake(
            "features-averaged",
            FEATURES_AVERAGED,
            _from_terms(lambda t, *_: (t**2).mean(), lambda t, *_: (t.mean(axis=1) ** 2).mean() - (t**2).mean()),
        ),
        Mistake(
            "averaged-over-features-and-over-pairs",
            FEATURES_AVERAGED,
            _from_terms(lambda t, *_: (t**2).mean(), lambda t, *_: _cross(t) / max(t.shape[1] * (t.shape[1] - 1), 1)),
        ),
        Mistake(
            "diagonal-mean-over-features",
            "In the diagonal part the mean runs over the features too. They are summed; the mean runs over the "
            "samples.",
            _from_terms(lambda t, q, k: (t**2).mean(), _cross),
        ),
        Mistake(
            "square-of-mean",
            "The square was taken after the mean over the samples. First square, then average.",
            _from_terms(
                lambda t, q, k: (t.mean(axis=0) ** 2).sum(),
                lambda t, q, k: t.mean(axis=0).sum() ** 2 - (t.mean(axis=0) ** 2).sum(),
            ),
        ),
        Mistake(
            "unbiased",
            "The mean was taken with samples - 1. It is a plain mean over all samples.",
            _from_terms(
                lambda t, q, k: _diagonal(t) * len(t) / max(len(t) - 1, 1),
                lambda t, q, k: _cross(t) * len(t) / max(len(t) - 1, 1),
            ),
        ),
        Mistake(
            "not-squared",
            "The terms of the diagonal part were not squared.",
            _from_terms(lambda t, q, k: t.sum(axis=1).mean(), _cross),
        ),
        Mistake(
            "square-of-the-sum",
            "The diagonal part is the mean of s², the square of the sum. It is the sum of the squares.",
            _from_terms(lambda t, q, k: (t.sum(axis=1) ** 2).mean(), _cross),
        ),
        Mistake(
            "variance-in-place-of-square",
            "The variance of the terms was taken. Here nothing is subtracted before squaring.",
            _from_terms(lambda t, q, k: t.var(axis=0).sum(), lambda t, q, k: t.sum(axis=1).var() - t.var(axis=0).sum()),
        ),
        Mistake(
            "wrong-sign",
            "The cross part has the wrong sign.",
            _from_terms(_diagonal, lambda t, q, k: -_cross(t)),
        ),
        Mistake(
            "results-swapped",
            "The two parts have changed places: `return diagonal, cross`.",
            _from_terms(_cross, _diagonal),
        ),
        Mistake(
            "cross-is-zero",
            "The cross part is given as 0. That is its expected value for independent entries; here it is measured.",
            _from_terms(_diagonal, lambda t, q, k: 0.0),
        ),
        Mistake(
            "axes-confused",
            "Samples and features have changed places: the sum over i runs over the features, axis 1.",
            _from_terms(
                lambda t, q, k: (t**2).sum(axis=0).mean(),
                lambda t, q, k: (t.sum(axis=0) ** 2).mean() - (t**2).sum(axis=0).mean(),
            ),
        ),
        Mistake(
            "neighbours-only",
            "The cross part holds neighbouring features alone. Every feature meets every other.",
            _from_terms(_diagonal, _neighbours),
        ),
        Mistake(
            "squares-separately",
            "Queries and keys were squared and averaged each for itself. The product comes first, then the mean.",
            _from_terms(lambda t, q, k: ((q**2).mean(axis=0) * (k**2).mean(axis=0)).sum(), _cross),
        ),
        Mistake(
            "per-sample",
            "The mean over the samples is missing: both parts are single numbers.",
            _from_terms(lambda t, q, k: (t**2).sum(axis=1), lambda t, q, k: t.sum(axis=1) ** 2 - (t**2).sum(axis=1)),
        ),
        Mistake(
            "cross-without-sign",
            "The sign of the cross part is lost. It may be negative.",
            _from_terms(_diagonal, lambda t, q, k: abs(_cross(t))),
        ),
        Mistake(
            "cross-averaged-over-pairs",
            "The cross part was divided by the number of pairs. Pairs are summed; the mean runs over the samples.",
            _from_terms(_diagonal, lambda t, q, k: _cross(t) / max(t.shape[1] * (t.shape[1] - 1), 1)),
        ),
        Mistake(
            "cross-is-variance",
            "The cross part is given as the variance of s. It is what the squares leave of the mean of s².",
            _from_terms(_diagonal, lambda t, q, k: t.sum(axis=1).var()),
        ),
        Mistake(
            "mean-of-s-subtracted",
            "The variance of s was split. The two parts make up the mean of s²: nothing is subtracted before squaring.",
            _from_terms(_diagonal, lambda t, q, k: t.sum(axis=1).var() - _diagonal(t)),
        ),
        Mistake(
            "cross-of-covariances",
            "The cross part holds covariances. Nothing is subtracted before the products are taken.",
            _from_terms(_diagonal, lambda t, q, k: t.sum(axis=1).var() - t.var(axis=0).sum()),
        ),
        Mistake(
            "cross-square-of-mean",
            "In the cross part the square was taken after the mean over the samples. First square, then average.",
            _from_terms(_diagonal, lambda t, q, k: t.sum(axis=1).mean() ** 2 - _diagonal(t)),
        ),
        Mistake(
            "cross-of-means",
            "In the cross part the terms were averaged over the samples before they were multiplied.",
            _from_terms(_diagonal, lambda t, q, k: t.mean(axis=0).sum() ** 2 - (t.mean(axis=0) ** 2).sum()),
        ),
        Mistake(
            "cross-of-q-and-k",
            "The cross part multiplies qᵢ by kⱼ. Each product holds four factors, qᵢkᵢ times qⱼkⱼ.",
            _from_terms(_diagonal, lambda t, q, k: (q.sum(axis=1) * k.sum(axis=1) - t.sum(axis=1)).mean()),
        ),
        Mistake(
            "cross-over-samples",
            "The cross part multiplies samples with one another. i and j are features of one sample.",
            _from_terms(_diagonal, lambda t, q, k: ((t @ t.T).sum() - np.trace(t @ t.T)) / len(t)),
        ),
        Mistake(
            "cross-over-everything",
            "In the cross part all samples were added up before squaring. Each sample has its own s.",
            _from_terms(_diagonal, lambda t, q, k: (t.sum() ** 2 - (t**2).sum()) / len(t)),
        ),
        Mistake(
            "cyclic-neighbours",
            "The cross part holds neighbouring features alone. Every feature meets every other.",
            _from_terms(_diagonal, lambda t, q, k: 2 * (t * np.roll(t, 1, axis=1)).sum(axis=1).mean()),
        ),
        Mistake(
            "cross-summed-over-samples",
            "The cross part was added up over the samples. It is a mean over the samples.",
            _from_terms(_diagonal, lambda t, q, k: _cross(t) * len(t)),
        ),
        Mistake(
            "diagonal-summed-over-samples",
            "The diagonal part was added up over the samples. It is a mean over the samples.",
            _from_terms(lambda t, q, k: (t**2).sum(), _cross),
        ),
        Mistake(
            "diagonal-unbiased",
            "The mean of the diagonal part was taken with samples - 1. It is a plain mean.",
            _from_terms(lambda t, q, k: _diagonal(t) * len(t) / max(len(t) - 1, 1), _cross),
        ),
        Mistake(
            "first-sample-only",
            "Only the first sample is used. Both parts are means over all samples.",
            _from_terms(
                lambda t, q, k: (t[0] ** 2).sum(),
                lambda t, q, k: t[0].sum() ** 2 - (t[0] ** 2).sum(),
            ),
        ),
        Mistake(
            "median",
            "The median over the samples was taken. The plain mean is asked for.",
            _from_terms(
                lambda t, q, k: np.median((t**2).sum(axis=1)),
                lambda t, q, k: np.median(t.sum(axis=1) ** 2 - (t**2).sum(axis=1)),
            ),
        ),
        Mistake(
            "queries-only",
            "Only q is used. Each term is a product of an entry of q and an entry of k.",
            _from_terms(lambda t, q, k: _diagonal(q), lambda t, q, k: _cross(q)),
        ),
        Mistake(
            "lengths-multiplied",
            "The diagonal part multiplies the squared lengths of q and k. Each entry of q meets its own entry of k "
            "alone.",
            _from_terms(lambda t, q, k: ((q**2).sum(axis=1) * (k**2).sum(axis=1)).mean(), _cross),
        ),
        Mistake(
            "theory-in-place-of-measurement",
            "These are the expected values for independent entries. The function measures both parts on the draws.",
            _from_terms(lambda t, q, k: float(t.shape[1]), lambda t, q, k: 0.0),
        ),
        Mistake(
            "roots",
            "Roots were taken at the end. The two parts are means of squares and products.",
            _from_terms(lambda t, q, k: math.sqrt(_diagonal(t)), lambda t, q, k: math.sqrt(abs(_cross(t)))),
        ),
        Mistake(
            "centred-first",
            "The mean of each feature was subtracted first. The parts are computed from the draws as they are.",
            lambda q, k: _from_terms(_diagonal, _cross)(q - q.mean(axis=0), k - k.mean(axis=0)),
        ),
        Mistake(
            "first-features-only",
            "Only the first three features are used.",
            lambda q, k: _from_terms(_diagonal, _cross)(q[:, :3], k[:, :3]),
        ),
    ),
)


def _statistics(d: int, n_samples: int, rng: np.random.Generator, scaled: bool) -> tuple[float, float]:
    q, k = rng.standard_normal((n_samples, d)), rng.standard_normal((n_samples, d))
    scores = np.einsum("sd,sd->s", q, k) / (math.sqrt(d) if scaled else 1.0)
    mean = math.fsum(scores) / n_samples
    return mean, math.fsum((scores - mean) ** 2) / n_samples


def _draw_statistics(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, d: int, n_samples: int, scaled: bool, negative: bool = False) -> None:
        seed = int(rng.integers(0, 2**31))
        while negative and _statistics(d, n_samples, np.random.default_rng(seed), scaled)[0] > -0.05:
            seed += 1
        args = (d, n_samples, Rng(seed), scaled)
        cases.append(Case(criterion, label, args, sizes={"d": d, "n_samples": n_samples}))

    for scaled in (False, True, False, True):
        d, n_samples = _distinct(rng, 2, 4, 16)
        words = "scaled" if scaled else "not scaled"
        add("values", f"d = {d}, {n_samples} samples, {words}", d, n_samples, scaled)
    add("values", "the sizes of the last case, and another generator", d, n_samples, scaled)
    add("values", "a negative mean", 3, int(rng.integers(4, 9)), False, negative=True)
    add("values", "1,000 samples, not scaled", int(rng.integers(3, 9)), 1_000, False)
    add("values", "1,000 samples, scaled", int(rng.integers(3, 9)), 1_000, True)
    add("edge cases", "d = 1, scaled", 1, int(rng.integers(5, 15)), True)
    add("edge cases", "one sample", int(rng.integers(3, 9)), 1, False)
    add("edge cases", "as many samples as features", 7, 7, True)
    return cases


def _measure(draw=None, scale=None, summarise=None):
    def default_draw(rng: np.random.Generator, n: int, d: int) -> Pair:
        q = rng.standard_normal((n, d))
        return q, rng.standard_normal((n, d))

    draw = draw or default_draw
    scale = scale or (lambda d, scaled: math.sqrt(d) if scaled else 1.0)
    summarise = summarise or (lambda s: (s.mean(), s.var()))

    def score_statistics(d: int, n_samples: int, rng: np.random.Generator, scaled: bool) -> tuple[float, float]:
        q, k = draw(rng, n_samples, d)
        return summarise((q * k).sum(axis=1) / scale(d, scaled))

    return score_statistics


def _keys_first(rng: np.random.Generator, n: int, d: int) -> Pair:
    """k before q alone makes no difference to q · k, so k is drawn in the transposed shape by the same slip."""
    k = rng.standard_normal((d, n)).T
    return rng.standard_normal((n, d)), k


def _row_by_row(rng: np.random.Generator, n: int, d: int) -> Pair:
    pairs = [(rng.standard_normal(d), rng.standard_normal(d)) for _ in range(n)]
    return np.array([q for q, _ in pairs]), np.array([k for _, k in pairs])


def _transposed_draws(rng: np.random.Generator, n: int, d: int) -> Pair:
    q = rng.standard_normal((d, n))
    return q.T, rng.standard_normal((d, n)).T


def _same_draw(rng: np.random.Generator, n: int, d: int) -> Pair:
    q = rng.standard_normal((n, d))
    return q, q


def _own_rng(rng: np.random.Generator, n: int, d: int) -> Pair:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.standard_normal((n, d))


def _uniform(rng: np.random.Generator, n: int, d: int) -> Pair:
    return rng.random((n, d)), rng.random((n, d))


def _normal_method(rng: np.random.Generator, n: int, d: int) -> Pair:
    return rng.uniform(-1, 1, (n, d)), rng.uniform(-1, 1, (n, d))


def _crossed(d: int, n_samples: int, rng: np.random.Generator, scaled: bool) -> tuple[float, float]:
    q, k = rng.standard_normal((n_samples, d)), rng.standard_normal((n_samples, d))
    scores = q @ k.T / (math.sqrt(d) if scaled else 1.0)
    return scores.mean(), scores.var()


def _unsummed(d: int, n_samples: int, rng: np.random.Generator, scaled: bool) -> tuple[float, float]:
    q, k = rng.standard_normal((n_samples, d)), rng.standard_normal((n_samples, d))
    scores = q * k / (math.sqrt(d) if scaled else 1.0)
    return scores.mean(), scores.var()


def _summed_over_samples(d: int, n_samples: int, rng: np.random.Generator, scaled: bool) -> tuple[float, float]:
    q, k = rng.standard_normal((n_samples, d)), rng.standard_normal((n_samples, d))
    scores = (q * k).sum(axis=0) / (math.sqrt(d) if scaled else 1.0)
    return scores.mean(), scores.var()


def _alternating(rng: np.random.Generator, n: int, d: int) -> Pair:
    both = rng.standard_normal((n, d, 2))
    return both[..., 0], both[..., 1]


def _extra_between(rng: np.random.Generator, n: int, d: int) -> Pair:
    q = rng.standard_normal((n, d))
    rng.standard_normal((n, d))
    return q, rng.standard_normal((n, d))


def _extra_before(rng: np.random.Generator, n: int, d: int) -> Pair:
    rng.standard_normal()
    return rng.standard_normal((n, d)), rng.standard_normal((n, d))


def _float32(rng: np.random.Generator, n: int, d: int) -> Pair:
    draws = [rng.standard_normal((n, d), dtype=np.float32) for _ in range(2)]
    return draws[0].astype(float), draws[1].astype(float)


def _unbiased(scores: Array) -> tuple[float, float]:
    return scores.mean(), ((scores - scores.mean()) ** 2).sum() / max(len(scores) - 1, 1)


def _after(change):
    """Plain scores; where `scaled` is true, mean and variance are changed afterwards."""

    def score_statistics(d: int, n_samples: int, rng: np.random.Generator, scaled: bool) -> tuple[float, float]:
        mean, variance = _statistics(d, n_samples, rng, False)
        return change(mean, variance, d) if scaled else (mean, variance)

    return score_statistics


def _with_median(scores: Array) -> tuple[float, float]:
    return np.median(scores), scores.var()


def _float32_draw(rng: np.random.Generator, n: int, d: int) -> Pair:
    return rng.standard_normal((n, d), dtype=np.float32), rng.standard_normal((n, d), dtype=np.float32)


_SCORE_STATISTICS = Exercise(
    name="score_statistics",
    unit=UNIT,
    returns=(Leaf("float", "the mean"), Leaf("float", "the variance")),
    reference=_statistics,
    draw=_draw_statistics,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "unbiased-variance",
            "The variance was divided by n_samples - 1. The biased one is asked for (`ddof=0`).",
            _measure(summarise=_unbiased),
        ),
        Mistake(
            "standard-deviation",
            "This is the standard deviation. The variance is asked for.",
            _measure(summarise=lambda s: (s.mean(), s.std())),
        ),
        Mistake(
            "never-scaled",
            "`scaled` is not used: the scores are never divided.",
            _measure(scale=lambda d, scaled: 1.0),
        ),
        Mistake(
            "always-scaled",
            "`scaled` is not used: the scores are always divided.",
            _measure(scale=lambda d, scaled: math.sqrt(d)),
        ),
        Mistake(
            "scaled-inverted",
            "`scaled` is understood the wrong way round.",
            _measure(scale=lambda d, scaled: 1.0 if scaled else math.sqrt(d)),
        ),
        Mistake(
            "divides-by-d",
            "The scaled scores were divided by d, not by its square root.",
            _measure(scale=lambda d, scaled: d if scaled else 1.0),
        ),
        Mistake(
            "multiplies",
            "The scaled scores were multiplied by √d.",
            _measure(scale=lambda d, scaled: 1 / math.sqrt(d) if scaled else 1.0),
        ),
        Mistake(
            "root-of-samples",
            "The root of the number of samples was taken. The width d counts.",
            lambda d, n_samples, rng, scaled: _measure(scale=lambda _, s: math.sqrt(n_samples) if s else 1.0)(
                d, n_samples, rng, scaled
            ),
        ),
        Mistake(
            "one-pair-at-a-time",
            "The numbers were drawn pair by pair. Draw all of q first, then all of k, each with one call.",
            _measure(draw=_row_by_row),
        ),
        Mistake(
            "draws-transposed",
            "The draws have the shape (d, n_samples). The docstring asks for (n_samples, d).",
            _measure(draw=_transposed_draws),
        ),
        Mistake(
            "keys-transposed",
            "q and k were drawn in different shapes or order than the docstring says.",
            _measure(draw=_keys_first),
        ),
        Mistake("same-draw", "q and k are the same numbers: k needs a draw of its own.", _measure(draw=_same_draw)),
        Mistake(
            "own-generator",
            "The function makes a generator of its own. Use the `rng` that it is handed.",
            _measure(draw=_own_rng),
        ),
        Mistake(
            "uniform",
            "The numbers were drawn evenly from 0 to 1, not from a normal distribution.",
            _measure(draw=_uniform),
        ),
        Mistake(
            "uniform-around-zero",
            "The numbers were drawn evenly, not from a normal distribution.",
            _measure(draw=_normal_method),
        ),
        Mistake(
            "all-pairs",
            "Every q met every k. Sample i of q meets sample i of k alone, so that the scores are independent.",
            _crossed,
        ),
        Mistake(
            "not-summed", "The products were not summed over the features: a score is a sum of d products.", _unsummed
        ),
        Mistake(
            "mean-square",
            "This is the mean of the squares. The variance subtracts the measured mean first.",
            _measure(summarise=lambda s: (s.mean(), (s**2).mean())),
        ),
        Mistake(
            "results-swapped",
            "Mean and variance have changed places: `return mean, variance`.",
            _measure(summarise=lambda s: (s.var(), s.mean())),
        ),
        Mistake(
            "theory-in-place-of-measurement",
            "These are the derived values. The function measures them on draws.",
            lambda d, n_samples, rng, scaled: (0.0, 1.0 if scaled else float(d)),
        ),
        Mistake(
            "variance-over-root",
            "The variance was divided by √d. Divide the scores: what does that do to the variance?",
            _after(lambda mean, variance, d: (mean / math.sqrt(d), variance / math.sqrt(d))),
        ),
        Mistake(
            "only-variance-scaled",
            "The mean is that of the plain scores. Divide the scores, before mean and variance are taken.",
            _after(lambda mean, variance, d: (mean, variance / d)),
        ),
        Mistake(
            "only-mean-scaled",
            "The variance is that of the plain scores. Divide the scores, before mean and variance are taken.",
            _after(lambda mean, variance, d: (mean / math.sqrt(d), variance)),
        ),
        Mistake(
            "fourth-root",
            "The scaled scores were divided by the fourth root of d.",
            _measure(scale=lambda d, scaled: d**0.25 if scaled else 1.0),
        ),
        Mistake(
            "hard-coded",
            "The scaled scores were divided by a fixed number, 8, which is right for d = 64 alone.",
            _measure(scale=lambda d, scaled: 8.0 if scaled else 1.0),
        ),
        Mistake(
            "other-generator",
            "The function makes a generator of its own. Use the `rng` that it is handed.",
            _measure(draw=lambda rng, n, d: tuple(np.random.default_rng(42).standard_normal((2, n, d)))),
        ),
        Mistake(
            "standard-deviation-unbiased",
            "This is the standard deviation, with n_samples - 1. The biased variance is asked for.",
            _measure(summarise=lambda s: (s.mean(), math.sqrt(_unbiased(s)[1]))),
        ),
        Mistake("median", "The median was taken. The mean is asked for.", _measure(summarise=_with_median)),
        Mistake(
            "mean-without-sign",
            "The sign of the mean is lost.",
            _measure(summarise=lambda s: (abs(s.mean()), s.var())),
        ),
        Mistake(
            "mean-of-sizes",
            "The mean of the absolute scores was taken. Scores may be negative.",
            _measure(summarise=lambda s: (np.abs(s).mean(), s.var())),
        ),
        Mistake(
            "mean-is-zero",
            "The mean is given as 0. That is its expected value; here it is measured.",
            _measure(summarise=lambda s: (0.0, s.var())),
        ),
        Mistake(
            "variance-of-sizes",
            "The absolute scores were used for the variance.",
            _measure(summarise=lambda s: (s.mean(), np.abs(s).var())),
        ),
        Mistake(
            "sums",
            "Sums over the samples were returned. Mean and variance divide by n_samples.",
            _measure(summarise=lambda s: (s.sum(), ((s - s.mean()) ** 2).sum())),
        ),
        Mistake(
            "draws-rounded-to-float32",
            "The numbers were drawn as float32, which is another stream of numbers. Draw with the defaults.",
            _measure(draw=_float32_draw),
        ),
        Mistake(
            "one-query",
            "A single query was drawn for all keys. Each sample has a query of its own.",
            _measure(draw=lambda rng, n, d: (rng.standard_normal(d)[None], rng.standard_normal((n, d)))),
        ),
        Mistake(
            "keys-not-drawn",
            "The keys were not drawn.",
            _measure(draw=lambda rng, n, d: (rng.standard_normal((n, d)), np.ones((n, d)))),
        ),
        Mistake(
            "drawn-around-d",
            "The numbers were drawn with a mean other than 0.",
            _measure(draw=lambda rng, n, d: (rng.normal(d, 1, (n, d)), rng.normal(d, 1, (n, d)))),
        ),
        Mistake(
            "mean-of-products",
            "The products were averaged over the features. A score is their sum.",
            lambda d, n_samples, rng, scaled: _measure(scale=lambda d, s: d * (math.sqrt(d) if s else 1.0))(
                d, n_samples, rng, scaled
            ),
        ),
        Mistake(
            "sums-over-samples",
            "The products were summed over the samples. They are summed over the features.",
            _summed_over_samples,
        ),
        Mistake(
            "alternating-draws",
            "q and k were cut out of one draw in another order. Draw all of q first, then all of k.",
            _measure(draw=_alternating),
        ),
        Mistake(
            "draw-too-many",
            "Something more was drawn from `rng` before or between q and k: the numbers are shifted.",
            _measure(draw=_extra_between),
        ),
        Mistake("draw-before", "A number was drawn before q: the numbers are shifted.", _measure(draw=_extra_before)),
        Mistake(
            "float32-draws",
            "The draws are float32, which are other numbers: use `rng.standard_normal` with the shape alone.",
            _measure(draw=_float32),
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# softmax_jacobian


def _jacobian(p: Array) -> Array:
    # d softmax_i / d z_j, by automatic differentiation at logits that give p
    return torch.autograd.functional.jacobian(lambda z: torch.softmax(z, 0), torch.from_numpy(np.log(p))).numpy()


def _safe_jacobian(p: Array) -> Array:
    """Weights of exactly 0 have no logit; there every derivative in row and column is 0."""
    live = np.flatnonzero(p > 0)
    result = np.zeros((len(p), len(p)))
    result[np.ix_(live, live)] = _jacobian(np.asarray(p, np.float64)[live])
    return result


def _draw_jacobian(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, p: Array) -> None:
        cases.append(Case(criterion, label, (p,), sizes={"n": len(p)}))

    for n in _distinct(rng, 3, 3, 9):
        add("values", f"n = {n}", _right_softmax(_normal(rng, n)))
    n = int(rng.integers(4, 9))
    add("values", "float32", _right_softmax(_normal(rng, n)).astype(np.float32))
    add("values", "weights that are a slice", np.repeat(_right_softmax(_normal(rng, n)), 2)[::2])
    add("edge cases", "equal weights", np.full(n, 1 / n))
    add("edge cases", "two weights", _right_softmax(_normal(rng, 2)))
    add("edge cases", "a single weight", np.ones(1))
    add("edge cases", "one weight that has it all", np.eye(n)[int(rng.integers(n))])
    return cases


def _outer(p: Array) -> Array:
    return p[:, None] * p[None, :]


_SOFTMAX_JACOBIAN = Exercise(
    name="softmax_jacobian",
    unit=UNIT,
    returns=Leaf("float array", "the Jacobian"),
    reference=_safe_jacobian,
    draw=_draw_jacobian,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "squares-in-every-row",
            "Beside the diagonal stand squares of one weight, where two different ones meet. Is it an outer product? "
            "`p * p` and `p.T * p.T` have the shape (n,): broadcasting repeats them, or a factor p, in every row.",
            lambda p: np.diag(p) - p * p,
        ),
        Mistake(
            "identity-alone",
            "This is the identity matrix, as if each output were its own input. Raising one input raises one output "
            "and lowers the others, each by an amount that depends on the weights.",
            lambda p: np.eye(len(p)),
        ),
        Mistake(
            "diagonal-only",
            "Only the diagonal is there. Raising one input also lowers all other outputs.",
            lambda p: np.diag(p * (1 - p)),
        ),
        Mistake(
            "vector",
            "Only the derivatives of each output by its own input are there. The Jacobian is (n, n).",
            lambda p: p * (1 - p),
        ),
        Mistake(
            "wrong-sign",
            "Every entry has the wrong sign: raising an input raises its own output.",
            lambda p: _outer(p) - np.diag(p),
        ),
        Mistake(
            "sum-for-difference",
            "The two parts were added. One of them is subtracted.",
            lambda p: np.diag(p) + _outer(p),
        ),
        Mistake(
            "no-diagonal",
            "The part that stands on the diagonal alone is missing.",
            lambda p: -_outer(p),
        ),
        Mistake("outer-only", "This is pᵢpⱼ alone: sign and diagonal are missing.", _outer),
        Mistake(
            "diagonal-of-squares",
            "On the diagonal stands -pᵢ². What do you get for i = j, by the quotient rule?",
            lambda p: -np.diag(p**2) - _outer(p),
        ),
        Mistake(
            "off-diagonal-sign",
            "The entries beside the diagonal have the wrong sign.",
            lambda p: np.diag(p) + _outer(p) - 2 * np.diag(p**2),
        ),
        Mistake(
            "softmax-again",
            "`p` already holds the weights. A softmax was taken of them once more.",
            lambda p: np.diag(_right_softmax(p)) - _outer(_right_softmax(p)),
        ),
        Mistake(
            "identity",
            "There is an identity matrix where the weights belong on the diagonal.",
            lambda p: np.eye(len(p)) - _outer(p),
        ),
        Mistake(
            "rows-scaled-once",
            "The entry is missing a factor: δᵢⱼ - pⱼ must be multiplied by the weight of the output.",
            lambda p: np.eye(len(p)) - np.broadcast_to(p, (len(p), len(p))),
        ),
        Mistake(
            "weights-beside-diagonal",
            "Beside the diagonal stands -pⱼ. The weight of the output is missing as a factor.",
            lambda p: np.diag(p * (1 - p)) - np.broadcast_to(p, (len(p), len(p))) * (1 - np.eye(len(p))),
        ),
        Mistake(
            "one-minus-everywhere",
            "pᵢ(1 - pⱼ) stands everywhere. The 1 belongs to the diagonal alone.",
            lambda p: p[:, None] * (1 - p[None, :]),
        ),
        Mistake("diagonal-of-weights", "Only the weights stand on the diagonal. The part -pᵢpⱼ is missing.", np.diag),
        Mistake(
            "single-number",
            "p @ p was taken for the outer product: it is one number.",
            lambda p: np.diag(p) - p @ p,
        ),
        Mistake(
            "squared-diagonal",
            "The diagonal part was squared.",
            lambda p: np.diag(p**2) - _outer(p),
        ),
        Mistake(
            "one-minus-on-diagonal",
            "1 - pᵢ stands in place of pᵢ in the diagonal part.",
            lambda p: np.diag(1 - p) - _outer(p),
        ),
        Mistake(
            "diagonal-added",
            "p(1 - p) was put on the diagonal, and pᵢpⱼ was added everywhere. Beside the diagonal the sign is "
            "negative.",
            lambda p: np.diag(p * (1 - p)) + _outer(p),
        ),
        Mistake(
            "subtracted-twice",
            "On the diagonal pᵢ² was subtracted twice.",
            lambda p: np.diag(p * (1 - p)) - _outer(p),
        ),
        Mistake(
            "softmax-in-products",
            "A softmax of p was taken for the products. `p` already holds the weights.",
            lambda p: np.diag(p) - _outer(_right_softmax(p)),
        ),
        Mistake(
            "row-subtracted",
            "p was subtracted from every row. The weight of the output is missing as a factor.",
            lambda p: np.diag(p) - np.broadcast_to(p, (len(p), len(p))),
        ),
        Mistake(
            "squares-multiplied",
            "The weights were squared before they were multiplied.",
            lambda p: np.diag(p) - _outer(p**2),
        ),
        Mistake(
            "roots-multiplied",
            "Roots of the weights were multiplied. The quotient rule gives the products themselves.",
            lambda p: np.diag(p) - np.sqrt(_outer(p)),
        ),
        Mistake(
            "normalised-products",
            "The products were divided by their largest or their sum of squares. Nothing is divided.",
            lambda p: np.diag(p) - _outer(p) / (p @ p),
        ),
        Mistake(
            "one-size-for-all",
            "The part beside the diagonal is an average. Each entry has its own product.",
            lambda p: np.diag(p) - np.repeat(p[:, None], len(p), axis=1) / len(p),
        ),
        Mistake(
            "single-number-returned",
            "The sum or size of the Jacobian was returned. All (n, n) derivatives are asked for.",
            lambda p: np.linalg.norm(np.diag(p) - _outer(p)),
        ),
        Mistake(
            "diagonal-not-reduced",
            "On the diagonal stands pᵢ alone. By the quotient rule something is subtracted there too.",
            lambda p: np.diag(p + p**2) - _outer(p),
        ),
        Mistake(
            "off-diagonal-halved",
            "The entries beside the diagonal are half of what they should be.",
            lambda p: np.diag(p - p**2 / 2) - _outer(p) / 2,
        ),
        Mistake(
            "log-softmax-transposed",
            "This is the derivative of the logarithm of the softmax, transposed.",
            lambda p: np.eye(len(p)) - p[:, None],
        ),
        Mistake(
            "epsilon-added",
            "Something small was added to the diagonal. Nothing needs a guard here.",
            lambda p: np.diag(p) - _outer(p) + 1e-3 * np.eye(len(p)),
        ),
    ),
)

EXERCISES = (
    _ATTENTION_SCORES,
    _SOFTMAX,
    _DERIVATION_TERMS,
    _DOT_PRODUCT_MOMENTS,
    _SCALED_SCORES,
    _SCORE_STATISTICS,
    _ATTENTION,
    _SOFTMAX_JACOBIAN,
)
