"""Defines the exercise `attention_backward`, which returns the gradients for queries, keys and values."""

import math

import numpy as np

from ..kit import Leaf, by_columns, every_second_row, exercise, normal, strided
from .attention import plain as attention
from .parts import alike, for_scores, near, stable

#: An imaginary step this small gives the exact derivative as a difference, without rounding (complex-step method).
STEP = 1e-20j


def loss(Q, K, V, d_output):
    """Return the number whose gradients are wanted, or, for a stack of any of the three, a vector of such numbers."""
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(K.shape[-1])
    powers = np.exp(scores - scores.real.max(axis=-1, keepdims=True))
    return ((powers / powers.sum(axis=-1, keepdims=True) @ V) * d_output).sum(axis=(-1, -2))


def slopes(of, X):
    """Return the derivative of `of` with respect to each entry of X.

    It moves one entry at a time instead of deriving a formula.
    """
    moved = X + STEP * np.eye(X.size).reshape(X.size, *X.shape)
    return (of(moved).imag / STEP.imag).reshape(X.shape).astype(X.dtype)


def attention_backward(
    Q: normal("n d_k"), K: normal("m d_k"), V: normal("m d_v"), d_output: normal("n d_v")
) -> (Leaf("float array", "dQ"), Leaf("float array", "dK"), Leaf("float array", "dV")):
    return (
        slopes(lambda Q: loss(Q, K, V, d_output), Q),
        slopes(lambda K: loss(Q, K, V, d_output), K),
        slopes(lambda V: loss(Q, K, V, d_output), V),
    )


def plain(Q, K, V, d_output):
    d_k = Q.shape[-1]
    _, weights = attention(Q, K, V)
    d_weights = d_output @ V.T
    shared = (weights * d_weights).sum(axis=1, keepdims=True)
    d_scores = weights * (d_weights - shared)
    d_products = d_scores / np.sqrt(d_k)
    dQ = d_products @ K
    dK = d_products.T @ Q
    dV = weights.T @ d_output
    return dQ, dK, dV


def cases(case):
    sizes = "n = {n}, m = {m}, d_k = {d_k}, d_v = {d_v}"
    for _ in range(2):  # dQ and dK are 0 here, whatever their steps do, so only dV is tested
        drawn = case.draw()
        drawn["V"] *= 0
        yield case("dV", f"values of 0, so that dQ = dK = 0: {sizes}", **drawn)
    for dtype in (float, float, np.float32):
        yield case("all three", sizes, dtype=dtype)
    yield case("all three", "as many keys as queries", m="n")
    yield case("all three", "n = m = d_k = d_v", m="n", d_k="n", d_v="n")
    yield case("all three", "many features (d_k = 64)", d_k=64)
    layout = {"Q": every_second_row, "K": by_columns, "V": strided, "d_output": by_columns}
    yield case("all three", "inputs that are slices", layout=layout)
    drawn = case.draw()
    drawn["V"] += 1e4  # subtraction loses digits here, but a good formula keeps most
    yield case("all three", "values far from 0", **drawn)
    drawn = case.draw()
    drawn["Q"][0] = 0.0
    below, highest = np.sort(drawn["K"] @ drawn["Q"][1])[-2:]
    drawn["Q"][1] *= 7 * math.sqrt(drawn["d_k"]) / (highest - below)
    yield case("all three", "one query with nearly all its weight on one key, and one without", **drawn)
    drawn = case.draw(d_v=range(3, 7))
    drawn["d_output"][0] = 0.0
    drawn["d_output"][0, :2] = 1.0, -1.0
    yield case("all three", "a row of d_output that sums to 0", **drawn)
    yield case("edge cases", "a single query (n = 1)", n=1)
    yield case("edge cases", "a single key (m = 1)", m=1)
    yield case("edge cases", "one feature, values of width 1", d_k=1, d_v=1)
    drawn = case.draw(Q=normal("n d_k", 50), K=normal("m d_k", 50))
    drawn["K"] = with_a_rival(drawn["Q"][0], drawn["K"], np.sqrt(drawn["d_k"]))
    yield case("stability", "scores of several thousand", **drawn)
    yield case("stability", "one query's scores near 10,000, the next one's near -10,000", **near(1e4, case.draw()))
    rows = alike(case.rng.standard_normal((5, 4)))
    drawn = case.draw(n=5, m=5, d_k=4, d_v=3) | {"Q": rows, "K": rows.copy()}
    drawn["d_output"][2] = 0
    drawn["V"][:, 2] = case.rng.permutation(5)  # no slope of this column is nearly 0
    yield case("edge cases", "queries and keys that are the same, one is zeros and two are equal", **drawn)
    label = "queries, keys and values of the case before, a large d_output"
    yield case("edge cases", label, **drawn | {"d_output": normal("n d_v", 1e3)})
    label = "the same queries, keys of which one gets a weight of about a millionth; d_output is 0 but for one entry"
    keys = for_scores(rows[0], case.rng.permutation(np.linspace(-14.5, 0, 5)))
    one = np.zeros((5, 3))
    one[0, 2] = 1
    yield case("edge cases", label, **drawn | {"K": keys, "d_output": one})
    yield case("edge cases", "d_output of zeros", **drawn | {"d_output": 0 * one})
    long = case.draw(n=range(45, 50), m=range(41, 44), d_k=2, d_v=2)
    label = "float32, n = {n}, m = {m}, one query's scores near 120, the next one's near -120"
    yield case("stability", label, dtype=np.float32, rtol=5e-4, **near(120, long))


def with_a_rival(q, K, root):
    """Return keys of which two share the weight of a query.

    Otherwise all derivatives may be almost 0, and rounding decides. The last of the other keys is moved along the
    query, until its score is 0.7 below the best.
    """
    K, products = K.copy(), K @ q
    best = int(products.argmax())
    rival = len(K) - 1 - int(best == len(K) - 1)
    K[rival] += q * (products[best] - 0.7 * root - products[rival]) / (q @ q)
    return K


def right(A, dA):
    """Turn derivatives with respect to the weights into derivatives with respect to the scores."""
    return A * (dA - (A * dA).sum(axis=1, keepdims=True))


def log_softmax(A, dA):
    return dA - A * dA.sum(axis=1, keepdims=True)


def over_queries(A, dA):
    return A * (dA - (A * dA).sum(axis=0))


def backward(Q, K, V, d_output, to_scores=right, by_key=0.5):
    """Compute all gradients. by_key: the power of d_k by which the derivatives with respect to the keys are divided."""
    A = stable(Q @ K.T / np.sqrt(Q.shape[1]))
    dS = to_scores(A, d_output @ V.T)
    return dS @ K / np.sqrt(Q.shape[1]), dS.T @ Q / Q.shape[1] ** by_key, A.T @ d_output


def of_the_last_query(Q, K, V, d_output):
    return backward(Q, K, V, d_output)[0], *backward(Q[-1:], K, V, d_output[-1:])[1:]


MISTAKES = (
    ("scale-of-dK-forgotten", {"by_key": 0},
     "Only dK is √d_k times too large. dQ comes from the same scores, so what does it have that dK lacks?"),
    ("row-sum-missing", {"to_scores": lambda A, dA: A * dA},
     "Your way back through the softmax lacks its second part. Raising one score also lowers the other weights of "
     "the row, and raising all scores of a row alike must change nothing."),
    ("row-sum-added", {"to_scores": lambda A, dA: A * (dA + (A * dA).sum(axis=1, keepdims=True))},
     "In your way back through the softmax one sign is wrong. Raising one score lowers the other weights of the row."),
    ("diagonal-only", {"to_scores": lambda A, dA: A * (1 - A) * dA},
     "You include only the effect of a score on its own weight, but each score changes all the weights of its "
     "row."),
    ("jacobian-over-queries", {"to_scores": over_queries},
     "You take the softmax's Jacobian along the wrong axis, as if the queries shared out one key's attention. Each "
     "query has a softmax of its own, over the keys."),
    ("plain-mean", {"to_scores": lambda A, dA: A * (dA - dA.mean(axis=1, keepdims=True))},
     "In the backward pass through the softmax, you subtract the plain mean over the keys. Weight each key's term by "
     "its attention weight."),
    ("log-softmax", {"to_scores": log_softmax},
     "You go back through the logarithm of a softmax, as for a cross-entropy. Here the weights themselves mix the "
     "values."),
    ("results-exchanged", lambda *inputs: (backward(*inputs)[1], backward(*inputs)[0], backward(*inputs)[2]),
     "You swap dQ and dK. Each has the shape of what it belongs to: `return dQ, dK, dV`."),
    ("last-query-alone", of_the_last_query,
     "Your dK and dV hold only the last query's contribution. All queries use the same keys and values, so what "
     "should you do with their contributions?"),
)  # fmt: skip

EXERCISE = exercise(
    attention_backward, credit={"dV": 0.25, "all three": 0.55, "edge cases": 0.1, "stability": 0.1}, slipped=backward
)
