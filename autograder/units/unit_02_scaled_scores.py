"""Unit 2, why the scores are divided by √d: softmax, scores, attention, the variance and its measurement, saturation."""

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
    wide[:, 0], wide[:, 1] = 1e4, -1e4
    add("stability", "10,000 and -10,000 in one row", wide)
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


_SOFTMAX = Exercise(
    name="softmax",
    unit=UNIT,
    points=3,
    returns=Leaf("float array", "the weights"),
    reference=_softmax,
    draw=_draw_softmax,
    credit={"values": 0.4, "axes": 0.25, "stability": 0.25, "edge cases": 0.1},
    mistakes=(
        Mistake(
            "no-shift",
            "The exponentials overflow or vanish for large entries. A softmax does not change when all entries of a row "
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
            "The smallest entry was subtracted, which leaves large exponents that overflow. No exponent should be above 0.",
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
            "The maximum lost its axis, and broadcasting subtracts the maxima of other rows, or fails: look at `keepdims`.",
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
            "A small number was added to the sum, so the weights no longer add up to 1. A sum that holds e⁰ needs no guard.",
            lambda z, axis=-1: _guarded(z, 1e-6, axis),
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
            "The entries were clipped. That avoids overflow and changes the result where entries beyond the clip differ.",
            lambda z, axis=-1: _no_shift(np.clip(z, -20, 20), axis),
        ),
        Mistake(
            "nan-replaced",
            "Overflow was covered up: NaN was replaced by zeros afterwards. Avoid the overflow in place of its traces.",
            lambda z, axis=-1: np.nan_to_num(_no_shift(z, axis)),
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
        cases.append(Case(criterion, label, (Q, K), sizes={"n": n, "m": m, "d_k": d}))

    for dtype in (np.float64, np.float64, np.float32):
        n, m, d = _distinct(rng, 3)
        add("values", f"n = {n}, m = {m}, d_k = {d}", n, m, d, dtype)
    n, d = _distinct(rng, 2)
    add("values", "as many keys as queries", n, n, d)
    add("values", "n = m = d_k", d, d, d)
    add("values", "many features (d_k = 64)", n, d, 64)
    add("values", "inputs that are slices", *_distinct(rng, 3))
    m, d = _distinct(rng, 2)
    add("edge cases", "a single query (n = 1)", 1, m, d)
    add("edge cases", "a single key (m = 1)", m, 1, d)
    add("edge cases", "one feature (d_k = 1)", m, d, 1)
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


_ATTENTION_SCORES = Exercise(
    name="attention_scores",
    unit=UNIT,
    points=2,
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
            "Q was multiplied by K as it stands. Every query meets every key: which side of K must face the features of Q?",
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
    ),
)


def _scaled_scores(Q: Array, K: Array) -> Array:
    return _attention_scores(Q, K) / math.sqrt(Q.shape[-1])


def _over_scale(scale):
    return lambda Q, K: Q @ K.T / scale(Q, K)


_SCALED_SCORES = Exercise(
    name="scaled_scores",
    unit=UNIT,
    points=2,
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


_ATTENTION = Exercise(
    name="attention",
    unit=UNIT,
    points=4,
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
            _attend(lambda S, Q, K, V: (S == S.max(axis=1, keepdims=True)).astype(float)),
        ),
        Mistake(
            "epsilon-added",
            "A small number was added to the sum of the softmax, so the weights no longer add up to 1.",
            _attend(lambda S, Q, K, V: _guarded(S / np.sqrt(Q.shape[1]), 1e-6, -1)),
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
    cases.append(Case("values", "variances by keyword", (d,), {"var_k": 3.0, "var_q": 0.25}, sizes=sizes(d)))
    cases.append(Case("values", "only var_k given", (d,), {"var_k": float(rng.uniform(2, 3))}, sizes=sizes(d)))
    cases.append(Case("edge cases", "d = 1", (1, 0.5, 3.0), sizes=sizes(1)))
    cases.append(Case("edge cases", "entries that never vary (variance 0)", (7, 0.0, 2.0), sizes=sizes(7)))
    return cases


_DOT_PRODUCT_MOMENTS = Exercise(
    name="dot_product_moments",
    unit=UNIT,
    points=2,
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
        if "slices" in label:
            q, k = np.asfortranarray(q), np.repeat(k, 2, axis=0)[::2]
        cases.append(Case(criterion, label, (q, k), sizes={"samples": samples, "d": d}))

    for dtype in (np.float64, np.float64, np.float32):
        samples, d = _distinct(rng, 2, 4, 12)
        add("values", f"{samples} samples, d = {d}", samples, d, dtype)
    add("values", "as many samples as features", 6, 6)
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


_DERIVATION_TERMS = Exercise(
    name="derivation_terms",
    unit=UNIT,
    points=4,
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
            "diagonal-mean-over-features",
            "In the diagonal part the mean runs over the features too. They are summed; the mean runs over the samples.",
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
    ),
)


def _statistics(d: int, n_samples: int, rng: np.random.Generator, scaled: bool) -> tuple[float, float]:
    q, k = rng.standard_normal((n_samples, d)), rng.standard_normal((n_samples, d))
    scores = np.einsum("sd,sd->s", q, k) / (math.sqrt(d) if scaled else 1.0)
    mean = math.fsum(scores) / n_samples
    return mean, math.fsum((scores - mean) ** 2) / n_samples


def _draw_statistics(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, d: int, n_samples: int, scaled: bool) -> None:
        args = (d, n_samples, Rng(int(rng.integers(0, 2**31))), scaled)
        cases.append(Case(criterion, label, args, sizes={"d": d, "n_samples": n_samples}))

    for scaled in (False, True, False, True):
        d, n_samples = _distinct(rng, 2, 4, 16)
        words = "scaled" if scaled else "not scaled"
        add("values", f"d = {d}, {n_samples} samples, {words}", d, n_samples, scaled)
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


def _unbiased(scores: Array) -> tuple[float, float]:
    return scores.mean(), ((scores - scores.mean()) ** 2).sum() / max(len(scores) - 1, 1)


_SCORE_STATISTICS = Exercise(
    name="score_statistics",
    unit=UNIT,
    points=3,
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
    points=3,
    returns=Leaf("float array", "the Jacobian"),
    reference=_safe_jacobian,
    draw=_draw_jacobian,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
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
            "column-scaled",
            "δᵢⱼ - pⱼ was multiplied by the weight of the input, not of the output.",
            lambda p: (np.eye(len(p)) - p[None, :]) * p[None, :],
        ),
    ),
)

EXERCISES = (
    _SOFTMAX,
    _ATTENTION_SCORES,
    _SCALED_SCORES,
    _ATTENTION,
    _DOT_PRODUCT_MOMENTS,
    _DERIVATION_TERMS,
    _SCORE_STATISTICS,
    _SOFTMAX_JACOBIAN,
)
