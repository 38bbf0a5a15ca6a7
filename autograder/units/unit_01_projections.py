"""Unit 1, from words to queries, keys and values: embedding, lookup, projections in both conventions, and counting."""

from __future__ import annotations

import numpy as np
import scipy.special
import torch

from ..exercise import Case, Exercise, Leaf, Mistake

UNIT = "01_projections"
Array = np.ndarray
Three = tuple[Array, Array, Array]


def _distinct(rng: np.random.Generator, count: int, low: int = 3, high: int = 10) -> list[int]:
    """`count` sizes in low … high, all different, so that no two axes can be taken for each other."""
    return [int(size) for size in rng.permutation(np.arange(low, high + 1))[:count]]


def _normal(rng: np.random.Generator, *shape: int, dtype: type = np.float64) -> Array:
    return rng.standard_normal(shape).astype(dtype)


def _softmax(z: Array, axis: int = -1) -> Array:
    shifted = np.exp(z - z.max(axis=axis, keepdims=True))
    return shifted / shifted.sum(axis=axis, keepdims=True)


# ---------------------------------------------------------------------------------------------------------------------
# embed


def _embed(tokens: Array, E: Array) -> Array:
    weight = torch.from_numpy(np.ascontiguousarray(E.T))
    return torch.nn.functional.embedding(torch.from_numpy(np.asarray(tokens, np.int64)), weight).numpy()


def _draw_embed(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, tokens: Array, E: Array) -> None:
        sizes = {"n": len(tokens), "d_model": E.shape[0], "vocab": E.shape[1]}
        cases.append(Case(criterion, label, (tokens, E), sizes=sizes))

    for dtype, integer in (
        (np.float64, np.int64),
        (np.float64, np.int32),
        (np.float32, np.int64),
        (np.float64, np.uint8),
    ):
        n, d_model, vocab = _distinct(rng, 3, 4, 9)
        tokens = rng.integers(0, vocab, n).astype(integer)
        tokens[0], tokens[1] = tokens[2], vocab - 1  # a word that occurs twice, and the last word of the vocabulary
        add(
            "values",
            f"n = {n}, d_model = {d_model}, vocab = {vocab}",
            tokens,
            _normal(rng, d_model, vocab, dtype=dtype),
        )
    n, d_model, vocab = _distinct(rng, 3, 4, 9)
    E = np.asfortranarray(_normal(rng, d_model, vocab))
    add("values", "an E that is stored column by column", rng.integers(0, vocab, n), E)
    size, n = _distinct(rng, 2, 4, 9)
    add("values", "as many features as words (d_model = vocab)", rng.integers(0, size, n), _normal(rng, size, size))
    d_model, vocab = _distinct(rng, 2, 4, 9)
    add("edge cases", "a single token (n = 1)", rng.integers(1, vocab, 1), _normal(rng, d_model, vocab))
    n, vocab = _distinct(rng, 2, 4, 9)
    add("edge cases", "one feature (d_model = 1)", rng.integers(0, vocab, n), _normal(rng, 1, vocab))
    d_model, vocab = _distinct(rng, 2, 4, 9)
    add("edge cases", "one word said over and over", np.full(3, vocab - 1), _normal(rng, d_model, vocab))
    return cases


def _one_hot_from_one(tokens: Array, E: Array) -> Array:
    return E.T[(np.asarray(tokens, np.int64) - 1) % E.shape[1]]


_EMBED = Exercise(
    name="embed",
    unit=UNIT,
    returns=Leaf("float array", "the embeddings"),
    reference=_embed,
    draw=_draw_embed,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "rows-of-E",
            "Rows of E were taken. E is (d_model, vocab): a word's embedding is a column.",
            lambda tokens, E: E[tokens],
        ),
        Mistake(
            "not-transposed",
            "The right columns were picked, and they were left standing. Tokens are rows: the result is (n, d_model).",
            lambda tokens, E: E[:, tokens],
        ),
        Mistake(
            "reshaped",
            "The columns were forced into the shape (n, d_model) by a reshape, which mixes the words.",
            lambda tokens, E: E[:, tokens].reshape(len(tokens), len(E)),
        ),
        Mistake(
            "first-rows-of-E",
            "The tokens are not used: the first n columns of E are returned, whatever the sentence says.",
            lambda tokens, E: E.T[np.arange(len(tokens)) % E.shape[1]],
        ),
        Mistake(
            "one-hot-only",
            "This is the one-hot matrix. It still has to be multiplied by E.",
            lambda tokens, E: np.eye(E.shape[1])[tokens],
        ),
        Mistake(
            "counts-from-one",
            "Every word gets the embedding of the word before it in the vocabulary: tokens are counted from 0.",
            _one_hot_from_one,
        ),
        Mistake(
            "off-by-one",
            "Every word gets the embedding of the next word in the vocabulary: tokens are counted from 0.",
            lambda tokens, E: E.T[(np.asarray(tokens, np.int64) + 1) % E.shape[1]],
        ),
        Mistake(
            "bag-of-words",
            "The words were added up into one vector. Every token keeps a row of its own.",
            lambda tokens, E: E.T[tokens].sum(axis=0),
        ),
        Mistake(
            "averaged",
            "The words were averaged into one vector. Every token keeps a row of its own.",
            lambda tokens, E: E.T[tokens].mean(axis=0),
        ),
        Mistake(
            "unique-words",
            "Each word appears once. A word that occurs twice in the sentence needs two rows, in the sentence's order.",
            lambda tokens, E: E.T[np.unique(tokens)],
        ),
        Mistake(
            "sorted-words",
            "The rows come in the order of the vocabulary, not of the sentence.",
            lambda tokens, E: E.T[np.sort(tokens)],
        ),
        Mistake(
            "scaled",
            "The embeddings are multiplied by a factor of √d_model. Some models do that; this function does not.",
            lambda tokens, E: E.T[tokens] * np.sqrt(len(E)),
        ),
        Mistake(
            "normalised",
            "The embeddings were brought to length 1. They are to be returned as they stand in E.",
            lambda tokens, E: E.T[tokens] / np.linalg.norm(E.T[tokens], axis=-1, keepdims=True),
        ),
        Mistake(
            "first-token-only",
            "Only the first token is embedded. There is one row for each of the n tokens.",
            lambda tokens, E: E[:, tokens[0]],
        ),
        Mistake(
            "last-token-everywhere",
            "All rows are equal: the loop overwrites what it wrote before.",
            lambda tokens, E: np.repeat(E[:, tokens[-1]][None], len(tokens), axis=0) + 0.0,
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# soft_lookup


def _soft_lookup(query: Array, keys: Array, values: Array) -> Array:
    return np.einsum("i,ij->j", scipy.special.softmax(np.einsum("k,ik->i", query, keys)), values)


def _draw_soft_lookup(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, query: Array, keys: Array, values: Array) -> None:
        sizes = {"n": len(keys), "d_k": len(query), "d_v": values.shape[1]}
        cases.append(Case(criterion, label, (query, keys, values), sizes=sizes))

    for dtype in (np.float64, np.float64, np.float32):
        n, d_k, d_v = _distinct(rng, 3, 3, 8)
        parts = _normal(rng, d_k, dtype=dtype), _normal(rng, n, d_k, dtype=dtype), _normal(rng, n, d_v, dtype=dtype)
        add("values", f"n = {n}, d_k = {d_k}, d_v = {d_v}", *parts)
    n, d_k, d_v = _distinct(rng, 3, 3, 8)
    keys, values = _normal(rng, 2 * n, d_k)[::2], np.asfortranarray(_normal(rng, n, d_v))
    add("values", "keys and values that are slices", _normal(rng, 2 * d_k)[::2], keys, values)
    n, d = _distinct(rng, 2, 3, 8)
    add("values", "values as wide as the keys", _normal(rng, d), _normal(rng, n, d), _normal(rng, n, d))
    n, d_v = _distinct(rng, 2, 3, 8)
    add("values", "as many keys as features", _normal(rng, n), _normal(rng, n, n), _normal(rng, n, d_v))
    d_k, d_v = _distinct(rng, 2, 3, 8)
    add("edge cases", "a single pair (n = 1)", _normal(rng, d_k), _normal(rng, 1, d_k), _normal(rng, 1, d_v))
    n, d_k, d_v = _distinct(rng, 3, 3, 8)
    add("edge cases", "a query of zeros", np.zeros(d_k), _normal(rng, n, d_k), _normal(rng, n, d_v))
    add("edge cases", "values one wide (d_v = 1)", _normal(rng, d_k), _normal(rng, n, d_k), _normal(rng, n, 1))
    for sign, words in ((1, "large"), (-1, "large negative")):
        n, d_k, d_v = _distinct(rng, 3, 3, 8)
        query, keys = _normal(rng, d_k), _normal(rng, n, d_k)
        keys += (sign * 1e4 - keys @ query)[:, None] * query / (query @ query) + 0.3 * _normal(rng, n, d_k)
        add("stability", f"{words} scores (about {sign * 10_000})", query, keys, _normal(rng, n, d_v))
    for turn in range(3):  # whichever score is taken off, only the largest is safe
        n, d_k, d_v = _distinct(rng, 3, 3, 8)
        query, keys = _normal(rng, d_k), _normal(rng, n, d_k)
        aims = np.roll(np.array([1e4, -1e4, *np.zeros(n - 2)]), turn)
        keys += (aims - keys @ query)[:, None] * query / (query @ query) + 0.3 * _normal(rng, n, d_k)
        add("stability", "scores of −10,000 and 10,000 in one row", query, keys, _normal(rng, n, d_v))
    return cases


def _lookup(weigh):
    """A lookup whose weights are `weigh(query, keys)`."""
    return lambda query, keys, values: weigh(query, keys) @ values


def _quiet_naive(query: Array, keys: Array) -> Array:
    with np.errstate(all="ignore"):
        e = np.exp(keys @ query)
        return e / e.sum()


def _shifted(shift):
    """A softmax that takes `shift(scores)` off in place of the largest score."""

    def weigh(query: Array, keys: Array) -> Array:
        with np.errstate(all="ignore"):
            scores = keys @ query
            e = np.exp(scores - shift(scores))
            return e / e.sum()

    return weigh


def _maximum_outside(query: Array, keys: Array) -> Array:
    with np.errstate(all="ignore"):
        scores = keys @ query
        e = np.exp(scores) - scores.max()
        return e / e.sum()


def _hard(query: Array, keys: Array, values: Array) -> Array:
    return values[np.argmax(keys @ query)]


def _softmax_over_features(query: Array, keys: Array, values: Array) -> Array:
    return (_softmax(keys * query, axis=0) * 1.0).sum(axis=1) @ values


_SOFT_LOOKUP = Exercise(
    name="soft_lookup",
    unit=UNIT,
    returns=Leaf("float array", "the result"),
    reference=_soft_lookup,
    draw=_draw_soft_lookup,
    credit={"values": 0.6, "edge cases": 0.2, "stability": 0.2},
    mistakes=(
        Mistake(
            "unstable-softmax",
            "The exponentials overflow or vanish for large scores. A softmax does not change when all scores are "
            "shifted by the same number: which shift keeps them harmless?",
            _lookup(_quiet_naive),
        ),
        Mistake(
            "no-softmax",
            "The raw scores were used as weights. They must be made positive, with a sum of 1, by a softmax.",
            _lookup(lambda q, k: k @ q),
        ),
        Mistake(
            "scaled",
            "The scores were divided by √d_k. In this lookup they are plain dot products; the root comes in unit 2.",
            _lookup(lambda q, k: _softmax(k @ q / np.sqrt(len(q)))),
        ),
        Mistake(
            "divides-by-d",
            "The scores were divided by d_k. In this lookup they are plain dot products.",
            _lookup(lambda q, k: _softmax(k @ q / len(q))),
        ),
        Mistake(
            "multiplied-by-root",
            "The scores were multiplied by √d_k. In this lookup they are plain dot products.",
            _lookup(lambda q, k: _softmax(k @ q * np.sqrt(len(q)))),
        ),
        Mistake(
            "not-normalised",
            "The exponentials were not divided by their sum: the weights must add up to 1.",
            _lookup(lambda q, k: np.exp(k @ q - (k @ q).max())),
        ),
        Mistake(
            "normalised-by-n",
            "The exponentials were divided by the number of keys, not by their sum.",
            _lookup(lambda q, k: np.exp(k @ q - (k @ q).max()) / len(k)),
        ),
        Mistake(
            "linear-weights",
            "The scores were divided by their sum without an exponential, so weights can be negative or explode.",
            _lookup(lambda q, k: (k @ q) / (k @ q).sum() if (k @ q).sum() else np.zeros(len(k))),
        ),
        Mistake(
            "shifted-by-the-wrong-score",
            "The softmax is shifted by a score that need not be the largest, and overflows where another is far above.",
            _lookup(_shifted(lambda s: s[0])),
        ),
        Mistake(
            "shifted-by-the-mean",
            "The softmax is shifted by the mean score, and overflows where one is far above it.",
            _lookup(_shifted(np.mean)),
        ),
        Mistake(
            "sigmoid-weights",
            "Each weight is a sigmoid of its score. The softmax takes powers of e.",
            _lookup(
                lambda q, k: (
                    1 / (1 + np.exp(-np.clip(k @ q, -500, 500))) / (1 / (1 + np.exp(-np.clip(k @ q, -500, 500)))).sum()
                )
            ),
        ),
        Mistake(
            "absolute-scores",
            "The signs of the scores are lost: a key that points the other way matches worst.",
            _lookup(lambda q, k: _softmax(np.abs(k @ q))),
        ),
        Mistake(
            "maximum-outside-exponential",
            "The maximum is subtracted from the exponentials; it belongs inside: exp(s − max).",
            _lookup(_maximum_outside),
        ),
        Mistake(
            "softmax-of-every-product",
            "The softmax ran over all single products at once. Sum over the features first: one score per key.",
            lambda query, keys, values: _softmax((keys * query).ravel()).reshape(keys.shape).sum(axis=1) @ values,
        ),
        Mistake(
            "last-key-left-out",
            "The last pair does not take part: does a loop or slice end one too early?",
            lambda query, keys, values: (
                _soft_lookup(query, keys[:-1], values[:-1]) if len(keys) > 1 else values[0] * 1.0
            ),
        ),
        Mistake(
            "hard-lookup", "Only the best key counts here. A soft lookup mixes all values by their weights.", _hard
        ),
        Mistake(
            "plain-average",
            "All values weigh the same: the query is not used.",
            lambda query, keys, values: values.mean(axis=0),
        ),
        Mistake(
            "cosine",
            "Query and keys were brought to length 1 first. The scores are plain dot products.",
            _lookup(lambda q, k: _softmax(k @ q / np.maximum(np.linalg.norm(k, axis=1) * np.linalg.norm(q), 1e-300))),
        ),
        Mistake(
            "distance",
            "The scores are distances between query and keys, not dot products.",
            _lookup(lambda q, k: _softmax(-np.linalg.norm(k - q, axis=1))),
        ),
        Mistake(
            "squared-distance",
            "The scores are squared distances between query and keys, not dot products.",
            _lookup(lambda q, k: _softmax(-((k - q) ** 2).sum(axis=1))),
        ),
        Mistake(
            "wrong-sign",
            "The softmax got the scores with the wrong sign: the worst match weighs most.",
            _lookup(lambda q, k: _softmax(-(k @ q))),
        ),
        Mistake(
            "softmax-over-features",
            "The softmax ran before the products were summed over the features. First one score per key.",
            _softmax_over_features,
        ),
        Mistake(
            "returns-weights",
            "These are the weights. The result is the sum of the values, each times its weight.",
            lambda query, keys, values: _softmax(keys @ query),
        ),
        Mistake(
            "averages-after-weighing",
            "The weighted values were averaged. The weights already sum to 1: add the weighted values up.",
            lambda query, keys, values: (_softmax(keys @ query)[:, None] * values).mean(axis=0),
        ),
        Mistake(
            "not-summed",
            "The weighted values were not added up: the result is one vector of d_v numbers.",
            lambda query, keys, values: _softmax(keys @ query)[:, None] * values,
        ),
        Mistake(
            "base-two",
            "The weights are powers of 2. The softmax takes powers of e: `np.exp`.",
            _lookup(lambda q, k: np.exp2(k @ q - (k @ q).max()) / np.exp2(k @ q - (k @ q).max()).sum()),
        ),
        Mistake(
            "softmax-twice",
            "The softmax was applied twice, which flattens the weights.",
            _lookup(lambda q, k: _softmax(_softmax(k @ q))),
        ),
        Mistake(
            "extra-axis",
            "The numbers are right, with an axis too many: the result is (d_v,).",
            lambda query, keys, values: _softmax(keys @ query)[None] @ values,
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# project_qkv and project_token

_QKV = (Leaf("float array", "Q"), Leaf("float array", "K"), Leaf("float array", "V"))
_qkv = (Leaf("float array", "q"), Leaf("float array", "k"), Leaf("float array", "v"))


def _project_qkv(X: Array, W_Q: Array, W_K: Array, W_V: Array) -> Three:
    return tuple(np.einsum("nd,de->ne", X, W) for W in (W_Q, W_K, W_V))


def _draw_project_qkv(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, n: int, d_model: int, d_k: int, d_v: int, dtype: type = np.float64) -> None:
        shapes = (n, d_model), (d_model, d_k), (d_model, d_k), (d_model, d_v)
        args = tuple(_normal(rng, *shape, dtype=dtype) for shape in shapes)
        if "slices" in label:
            args = (_normal(rng, n, 2 * d_model)[:, ::2], *(np.asfortranarray(W) for W in args[1:]))
        cases.append(Case(criterion, label, args, sizes={"n": n, "d_model": d_model, "d_k": d_k, "d_v": d_v}))

    for dtype in (np.float64, np.float32):
        sizes = _distinct(rng, 4)
        add("values", f"n = {sizes[0]}, d_model = {sizes[1]}, d_k = {sizes[2]}, d_v = {sizes[3]}", *sizes, dtype)
    n, d_model, d = _distinct(rng, 3)
    add("values", "values as wide as the keys (d_v = d_k)", n, d_model, d, d)
    n, d = _distinct(rng, 2)
    add("values", "square weights", n, d, d, d)
    add("values", "as many tokens as features", d, d, d, d)
    add("values", "inputs that are slices", *_distinct(rng, 4))
    add("edge cases", "a single token (n = 1)", 1, *_distinct(rng, 3))
    n, d_model, d_v = _distinct(rng, 3)
    add("edge cases", "keys one wide (d_k = 1)", n, d_model, 1, d_v)
    return cases


def _fit(A: Array, W: Array) -> Array:
    """A @ W.T where the shapes allow it, as a student's code with a stray transpose would raise otherwise."""
    return A @ W.T


_PROJECT_QKV = Exercise(
    name="project_qkv",
    unit=UNIT,
    returns=_QKV,
    reference=_project_qkv,
    draw=_draw_project_qkv,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "weights-transposed",
            "The weights were transposed. Tokens are rows here, and the weights act from the right as they are.",
            lambda X, W_Q, W_K, W_V: (_fit(X, W_Q), _fit(X, W_K), _fit(X, W_V)),
        ),
        Mistake(
            "weights-from-the-left",
            "The weights act from the left. That is the convention with tokens as columns; here tokens are rows.",
            lambda X, W_Q, W_K, W_V: (W_Q @ X, W_K @ X, W_V @ X),
        ),
        Mistake(
            "columns-out",
            "The projections are right and stand as columns. Tokens stay rows: Q is (n, d_k).",
            lambda X, W_Q, W_K, W_V: (W_Q.T @ X.T, W_K.T @ X.T, W_V.T @ X.T),
        ),
        Mistake(
            "keys-and-values-swapped",
            "Keys and values have changed places. The order is queries, keys, values.",
            lambda X, W_Q, W_K, W_V: (X @ W_Q, X @ W_V, X @ W_K),
        ),
        Mistake(
            "queries-and-keys-swapped",
            "Queries and keys have changed places. The order is queries, keys, values.",
            lambda X, W_Q, W_K, W_V: (X @ W_K, X @ W_Q, X @ W_V),
        ),
        Mistake(
            "same-weights",
            "Queries and keys came out equal: both were made with W_Q.",
            lambda X, W_Q, W_K, W_V: (X @ W_Q, X @ W_Q, X @ W_V),
        ),
        Mistake(
            "keys-weights-twice",
            "Queries and keys came out equal: both were made with W_K.",
            lambda X, W_Q, W_K, W_V: (X @ W_K, X @ W_K, X @ W_V),
        ),
        Mistake(
            "values-from-keys",
            "The values were made from the keys' weights. They have weights of their own, W_V.",
            lambda X, W_Q, W_K, W_V: (X @ W_Q, X @ W_K, X @ W_K),
        ),
        Mistake(
            "values-not-projected",
            "The values are X itself. They have weights of their own, W_V.",
            lambda X, W_Q, W_K, W_V: (X @ W_Q, X @ W_K, X),
        ),
        Mistake(
            "chained",
            "The keys were made from the queries. All three are made from X.",
            lambda X, W_Q, W_K, W_V: (X @ W_Q, (X @ W_Q) @ W_K, X @ W_V),
        ),
        Mistake(
            "list-for-tuple",
            "The function returns a list. Return a tuple: `return Q, K, V`.",
            lambda X, W_Q, W_K, W_V: [X @ W_Q, X @ W_K, X @ W_V],
        ),
        Mistake(
            "stacked",
            "One array holds all three. Return a tuple of three arrays, since V may have another width.",
            lambda X, W_Q, W_K, W_V: np.concatenate([X @ W_Q, X @ W_K, X @ W_V], axis=-1),
        ),
        Mistake(
            "scaled-queries",
            "The queries were divided by √d_k. A projection is a plain product; the root comes in unit 2.",
            lambda X, W_Q, W_K, W_V: (X @ W_Q / np.sqrt(W_Q.shape[1]), X @ W_K, X @ W_V),
        ),
        Mistake(
            "first-token-only",
            "Only the first token is projected. Every row of X gives a row of Q, K and V.",
            lambda X, W_Q, W_K, W_V: (X[0] @ W_Q, X[0] @ W_K, X[0] @ W_V),
        ),
        Mistake(
            "softmax-on-values",
            "A softmax stands where a plain product is asked for: projections are linear.",
            lambda X, W_Q, W_K, W_V: (_softmax(X @ W_Q), _softmax(X @ W_K), _softmax(X @ W_V)),
        ),
        Mistake(
            "drops-values",
            "Only two results come back. The function returns queries, keys and values.",
            lambda X, W_Q, W_K, W_V: (X @ W_Q, X @ W_K),
        ),
    ),
)


def _project_token(x: Array, W_Q: Array, W_K: Array, W_V: Array) -> Three:
    return tuple(np.einsum("ed,d->e", W, x) for W in (W_Q, W_K, W_V))


def _draw_project_token(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, d_model: int, d_head: int, d_v: int, dtype: type = np.float64) -> None:
        shapes = (d_model,), (d_head, d_model), (d_head, d_model), (d_v, d_model)
        args = tuple(_normal(rng, *shape, dtype=dtype) for shape in shapes)
        if "slices" in label:
            args = (_normal(rng, 2 * d_model)[::2], *(np.asfortranarray(W) for W in args[1:]))
        cases.append(Case(criterion, label, args, sizes={"d_model": d_model, "d_head": d_head, "d_v": d_v}))

    for dtype in (np.float64, np.float32):
        sizes = _distinct(rng, 3)
        add("values", f"d_model = {sizes[0]}, d_head = {sizes[1]}, d_v = {sizes[2]}", *sizes, dtype)
    d_model, d = _distinct(rng, 2)
    add("values", "values as wide as the keys (d_v = d_head)", d_model, d, d)
    add("values", "square weights", d, d, d)
    add("values", "inputs that are slices", *_distinct(rng, 3))
    d_model, d_v = _distinct(rng, 2)
    add("edge cases", "keys one wide (d_head = 1)", d_model, 1, d_v)
    add("edge cases", "one feature (d_model = 1)", 1, *_distinct(rng, 2))
    return cases


_PROJECT_TOKEN = Exercise(
    name="project_token",
    unit=UNIT,
    returns=_qkv,
    reference=_project_token,
    draw=_draw_project_token,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "weights-transposed",
            "The weights act from the right, or transposed, as in the rows convention. Here x is a column and "
            "W_Q is (d_head, d_model).",
            lambda x, W_Q, W_K, W_V: (x @ W_Q, x @ W_K, x @ W_V),
        ),
        Mistake(
            "keys-and-values-swapped",
            "Keys and values have changed places. The order is query, key, value.",
            lambda x, W_Q, W_K, W_V: (W_Q @ x, W_V @ x, W_K @ x),
        ),
        Mistake(
            "queries-and-keys-swapped",
            "Query and key have changed places. The order is query, key, value.",
            lambda x, W_Q, W_K, W_V: (W_K @ x, W_Q @ x, W_V @ x),
        ),
        Mistake(
            "same-weights",
            "Query and key came out equal: both were made with W_Q.",
            lambda x, W_Q, W_K, W_V: (W_Q @ x, W_Q @ x, W_V @ x),
        ),
        Mistake(
            "values-from-keys",
            "The value was made from the key's weights. It has weights of its own, W_V.",
            lambda x, W_Q, W_K, W_V: (W_Q @ x, W_K @ x, W_K @ x),
        ),
        Mistake(
            "values-not-projected",
            "The value is x itself. It has weights of its own, W_V.",
            lambda x, W_Q, W_K, W_V: (W_Q @ x, W_K @ x, x),
        ),
        Mistake(
            "elementwise",
            "The weights were multiplied entry by entry and never summed. A projection is a matrix product.",
            lambda x, W_Q, W_K, W_V: (W_Q * x, W_K * x, W_V * x),
        ),
        Mistake(
            "column-out",
            "The numbers are right and have an axis too many: q is (d_head,), not (d_head, 1).",
            lambda x, W_Q, W_K, W_V: (W_Q @ x[:, None], W_K @ x[:, None], W_V @ x[:, None]),
        ),
        Mistake(
            "row-out",
            "The numbers are right and have an axis too many: q is (d_head,), not (1, d_head).",
            lambda x, W_Q, W_K, W_V: ((W_Q @ x)[None], (W_K @ x)[None], (W_V @ x)[None]),
        ),
        Mistake(
            "list-for-tuple",
            "The function returns a list. Return a tuple: `return q, k, v`.",
            lambda x, W_Q, W_K, W_V: [W_Q @ x, W_K @ x, W_V @ x],
        ),
        Mistake(
            "stacked",
            "One array holds all three. Return a tuple of three arrays, since v may have another width.",
            lambda x, W_Q, W_K, W_V: np.concatenate([W_Q @ x, W_K @ x, W_V @ x]),
        ),
        Mistake(
            "scaled-query",
            "The query was divided by √d_head. A projection is a plain product; the root comes in unit 2.",
            lambda x, W_Q, W_K, W_V: (W_Q @ x / np.sqrt(len(W_Q)), W_K @ x, W_V @ x),
        ),
        Mistake(
            "chained",
            "The key was made from the query. All three are made from x.",
            lambda x, W_Q, W_K, W_V: (W_Q @ x, W_K @ (W_Q @ x), W_V @ x),
        ),
        Mistake(
            "drops-values",
            "Only two results come back. The function returns query, key and value.",
            lambda x, W_Q, W_K, W_V: (W_Q @ x, W_K @ x),
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# low_rank_value


def _low_rank_value(X: Array, W_V_down: Array, W_V_up: Array) -> Array:
    return np.einsum("nd,dh,he->ne", X, W_V_down, W_V_up)


def _draw_low_rank(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, n: int, d_model: int, d_head: int, dtype: type = np.float64) -> None:
        shapes = (n, d_model), (d_model, d_head), (d_head, d_model)
        args = tuple(_normal(rng, *shape, dtype=dtype) for shape in shapes)
        if "slices" in label:
            args = (_normal(rng, 2 * n, d_model)[::2], *(np.asfortranarray(W) for W in args[1:]))
        cases.append(Case(criterion, label, args, sizes={"n": n, "d_model": d_model, "d_head": d_head}))

    for dtype in (np.float64, np.float64, np.float32):
        sizes = _distinct(rng, 3)
        add("values", f"n = {sizes[0]}, d_model = {sizes[1]}, d_head = {sizes[2]}", *sizes, dtype)
    n, d = _distinct(rng, 2)
    add("values", "d_head = d_model", n, d, d)
    add("values", "n = d_head = d_model", d, d, d)
    add("values", "inputs that are slices", *_distinct(rng, 3))
    add("edge cases", "a single token (n = 1)", 1, *_distinct(rng, 2))
    add("edge cases", "rank one (d_head = 1)", *_distinct(rng, 2), 1)
    return cases


_LOW_RANK_VALUE = Exercise(
    name="low_rank_value",
    unit=UNIT,
    returns=Leaf("float array", "the result"),
    reference=_low_rank_value,
    draw=_draw_low_rank,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "down-only",
            "The values went down to d_head and not up again: W_V_up is not used.",
            lambda X, down, up: X @ down,
        ),
        Mistake(
            "up-before-down",
            "The two weights act in the wrong order: first down to d_head, then up to d_model.",
            lambda X, down, up: X @ up @ down,
        ),
        Mistake(
            "weights-transposed",
            "The weights were transposed and have changed roles: W_V_down comes first, as it is.",
            lambda X, down, up: X @ up.T @ down.T,
        ),
        Mistake(
            "down-transposed",
            "W_V_down was transposed. It is (d_model, d_head) and acts from the right as it is.",
            lambda X, down, up: X @ down.T @ up,
        ),
        Mistake(
            "up-transposed",
            "W_V_up was transposed. It is (d_head, d_model) and acts from the right as it is.",
            lambda X, down, up: X @ down @ up.T,
        ),
        Mistake(
            "uses-down-twice",
            "The way up was made from W_V_down. It has weights of its own, W_V_up.",
            lambda X, down, up: X @ down @ down.T,
        ),
        Mistake(
            "uses-up-twice",
            "The way down was made from W_V_up. It has weights of its own, W_V_down.",
            lambda X, down, up: X @ up.T @ up,
        ),
        Mistake(
            "relu-between",
            "There is a ReLU between the two weights. The value map is linear: two plain products.",
            lambda X, down, up: np.maximum(X @ down, 0) @ up,
        ),
        Mistake(
            "softmax-between",
            "There is a softmax between the two weights. The value map is linear: two plain products.",
            lambda X, down, up: _softmax(X @ down) @ up,
        ),
        Mistake(
            "tanh-between",
            "There is a tanh between the two weights. The value map is linear: two plain products.",
            lambda X, down, up: np.tanh(X @ down) @ up,
        ),
        Mistake(
            "residual",
            "X was added to the result. The residual connection comes later; here is the value map alone.",
            lambda X, down, up: X + X @ down @ up,
        ),
        Mistake(
            "returns-weights",
            "This is the product of the weights. It still has to act on X.",
            lambda X, down, up: down @ up,
        ),
        Mistake(
            "columns-out",
            "The result stands as columns. Tokens stay rows: it is (n, d_model).",
            lambda X, down, up: (X @ down @ up).T,
        ),
        Mistake(
            "scaled",
            "The result was divided by √d_head. The value map is two plain products.",
            lambda X, down, up: X @ down @ up / np.sqrt(down.shape[1]),
        ),
        Mistake(
            "divided-by-rank",
            "The result was divided by d_head. The value map is two plain products.",
            lambda X, down, up: X @ down @ up / down.shape[1],
        ),
        Mistake(
            "factor-pair",
            "Two results come back. The function returns one array, (n, d_model).",
            lambda X, down, up: (X @ down, X @ down @ up),
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# attention_parameters


def _attention_parameters(d_model: int, d_head: int, n_heads: int, n_layers: int) -> int:
    shapes = [(d_model, d_head), (d_model, d_head), (d_model, d_head), (d_head, d_model)]
    return sum(rows * columns for rows, columns in shapes) * n_heads * n_layers


def _draw_parameters(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, *sizes: int) -> Case:
        return Case(
            criterion, label, sizes, sizes=dict(zip(("d_model", "d_head", "n_heads", "n_layers"), sizes, strict=True))
        )

    cases = []
    for _ in range(4):
        d_head, n_heads, n_layers = _distinct(rng, 3, 3, 12)
        d_model = int(
            rng.choice([size for size in range(13, 40) if size not in (d_head * n_heads, n_layers * n_heads)])
        )
        sizes = (d_model, d_head, n_heads, n_layers)
        cases.append(case("values", "d_model = {}, d_head = {}, n_heads = {}, n_layers = {}".format(*sizes), *sizes))
    heads, width = _distinct(rng, 2, 3, 9)
    cases.append(case("values", "d_model = n_heads · d_head", heads * width, width, heads, 2))
    cases.append(case("values", "GPT-3's sizes", 12_288, 128, 96, 96))
    cases.append(case("edge cases", "one head, one layer", int(rng.integers(5, 20)), 3, 1, 1))
    cases.append(case("edge cases", "very large sizes", 10**6 + int(rng.integers(100)), 10**5 + 3, 1_001, 999))
    return cases


_ATTENTION_PARAMETERS = Exercise(
    name="attention_parameters",
    unit=UNIT,
    returns=Leaf("int", "the count"),
    reference=_attention_parameters,
    draw=_draw_parameters,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "three-matrices",
            "Three matrices were counted. The value map has two factors, down and up: four matrices in all.",
            lambda d_model, d_head, n_heads, n_layers: 3 * d_model * d_head * n_heads * n_layers,
        ),
        Mistake(
            "two-matrices",
            "Two matrices were counted. Each head has Q, K, V-down and V-up.",
            lambda d_model, d_head, n_heads, n_layers: 2 * d_model * d_head * n_heads * n_layers,
        ),
        Mistake(
            "one-matrix",
            "One matrix was counted. Each head has Q, K, V-down and V-up.",
            lambda d_model, d_head, n_heads, n_layers: d_model * d_head * n_heads * n_layers,
        ),
        Mistake(
            "five-matrices",
            "Five matrices were counted: V-up already leads back to d_model, there is no output matrix besides.",
            lambda d_model, d_head, n_heads, n_layers: 5 * d_model * d_head * n_heads * n_layers,
        ),
        Mistake(
            "one-layer",
            "One layer was counted. Every layer has heads of its own.",
            lambda d_model, d_head, n_heads, n_layers: 4 * d_model * d_head * n_heads,
        ),
        Mistake(
            "one-head",
            "One head per layer was counted. Every head has matrices of its own.",
            lambda d_model, d_head, n_heads, n_layers: 4 * d_model * d_head * n_layers,
        ),
        Mistake(
            "one-head-one-layer",
            "One head of one layer was counted. How many heads are there in all?",
            lambda d_model, d_head, n_heads, n_layers: 4 * d_model * d_head,
        ),
        Mistake(
            "square-value-map",
            "The value map was counted as one square matrix. It is factored into two thin ones.",
            lambda d_model, d_head, n_heads, n_layers: (2 * d_model * d_head + d_model**2) * n_heads * n_layers,
        ),
        Mistake(
            "square-matrices",
            "Matrices of d_model × d_model were counted. A head is narrower: d_model × d_head.",
            lambda d_model, d_head, n_heads, n_layers: 4 * d_model**2 * n_heads * n_layers,
        ),
        Mistake(
            "up-shared",
            "V-up was counted once per layer. Every head has one of its own.",
            lambda d_model, d_head, n_heads, n_layers: d_model * d_head * n_layers * (3 * n_heads + 1),
        ),
        Mistake(
            "keys-and-values-shared",
            "Keys and values were counted once per layer. Here every head has its own.",
            lambda d_model, d_head, n_heads, n_layers: d_model * d_head * n_layers * (2 * n_heads + 2),
        ),
        Mistake(
            "heads-plus-layers",
            "Heads and layers were added. Every layer has all the heads: multiply.",
            lambda d_model, d_head, n_heads, n_layers: 4 * d_model * d_head * (n_heads + n_layers),
        ),
        Mistake(
            "brackets",
            "Only the last matrix is multiplied by the number of heads and layers: brackets are missing.",
            lambda d_model, d_head, n_heads, n_layers: d_model * d_head * (3 + n_heads * n_layers),
        ),
        Mistake(
            "feed-forward-too",
            "The feed-forward layers were counted, too; only the attention is asked for.",
            lambda d_model, d_head, n_heads, n_layers: (4 * d_model * d_head * n_heads + 8 * d_model**2) * n_layers,
        ),
        Mistake(
            "square-per-layer",
            "Four matrices of d_model × d_model per layer is right only where n_heads · d_head = d_model.",
            lambda d_model, d_head, n_heads, n_layers: 4 * d_model**2 * n_layers,
        ),
        Mistake(
            "narrow-square",
            "Matrices of d_head × d_head were counted. They act on tokens of width d_model.",
            lambda d_model, d_head, n_heads, n_layers: 4 * d_head**2 * n_heads * n_layers,
        ),
        Mistake(
            "with-biases",
            "Biases were counted. The question is about the weights in the matrices alone.",
            lambda d_model, d_head, n_heads, n_layers: (
                (4 * d_model * d_head + 3 * d_head + d_model) * n_heads * n_layers
            ),
        ),
        Mistake(
            "with-head-biases",
            "Biases were counted. The question is about the weights in the matrices alone.",
            lambda d_model, d_head, n_heads, n_layers: (4 * d_model * d_head + 3 * d_head) * n_heads * n_layers,
        ),
        Mistake(
            "adds-sizes",
            "The sizes were added. A matrix of a rows and b columns holds a · b weights.",
            lambda d_model, d_head, n_heads, n_layers: 4 * (d_model + d_head) * n_heads * n_layers,
        ),
        Mistake(
            "splits-width",
            "d_head was divided by the number of heads. It already is the width of one head.",
            lambda d_model, d_head, n_heads, n_layers: 4 * d_model * (d_head // n_heads) * n_heads * n_layers,
        ),
        Mistake(
            "float-count",
            "The count is a float. Large counts lose their last digits that way: use whole numbers throughout.",
            lambda d_model, d_head, n_heads, n_layers: 4.0 * d_model * d_head * n_heads * n_layers,
        ),
        Mistake(
            "int32-overflow",
            "The count overflowed 32 bits. Python's own integers have no such limit.",
            lambda d_model, d_head, n_heads, n_layers: (
                (4 * d_model * d_head * n_heads * n_layers + 2**31) % 2**32 - 2**31
            ),
        ),
    ),
)

EXERCISES = (_EMBED, _SOFT_LOOKUP, _PROJECT_QKV, _PROJECT_TOKEN, _LOW_RANK_VALUE, _ATTENTION_PARAMETERS)
