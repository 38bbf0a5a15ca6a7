"""Defines the exercise `project_qkv`, which makes the queries, keys and values of all tokens, with tokens as rows."""

import numpy as np

from ..kit import Leaf, by_columns, exercise, normal, strided
from .parts import each


def project_qkv(
    X: normal("n d_model"), W_Q: normal("d_model d_k"), W_K: normal("d_model d_k"), W_V: normal("d_model d_v")
) -> (Leaf("float array", "Q"), Leaf("float array", "K"), Leaf("float array", "V")):
    return tuple(np.einsum("nd,de->ne", X, W) for W in (W_Q, W_K, W_V))


def plain(X, W_Q, W_K, W_V):
    Q = X @ W_Q
    K = X @ W_K
    V = X @ W_V
    return Q, K, V


def cases(case):
    for dtype in (float, np.float32):
        yield case("values", dtype=dtype)
    yield case("values", "values as wide as the keys (d_v = d_k)", d_v="d_k")
    yield case("values", "square weights", d_k="d_model", d_v="d_model")
    yield case("values", "as many tokens as features", n="d_model", d_k="d_model", d_v="d_model")
    slices = {"X": strided, "W_Q": by_columns, "W_K": by_columns, "W_V": by_columns}
    yield case("values", "inputs that are slices", layout=slices)
    yield case("edge cases", "a single token (n = 1)", n=1)
    yield case("edge cases", "keys of width 1 (d_k = 1)", d_k=1)
    drawn = case.draw(n=range(70, 80), d_v=1, X=normal("n d_model", 1e6))
    drawn["X"][3] = 0.0
    yield case("edge cases", "many tokens, large entries, a token of zeros, and values of width 1 (d_v = 1)", **drawn)
    twice = case.draw()
    twice["X"][-1] = twice["X"][0]
    yield case("edge cases", "a token that comes twice", **twice)
    drawn |= {name: drawn[name][::-1] for name in ("W_K", "W_V")}
    yield case("edge cases", "the same tokens and W_Q with other W_K and W_V", **drawn)
    drawn["X"] = 1e-15 * drawn["X"][::-1]
    yield case("edge cases", "the same weights with other tokens, whose entries are tiny", **drawn)


def product(X, W):
    return X @ W


MISTAKES = (
    ("weights-transposed", each(lambda X, W: X @ W.T),
     "You transpose the weights. Tokens are rows here, and the weights act from the right as they are."),
    ("weights-from-the-left", each(lambda X, W: W @ X),
     "You apply the weights from the left. That is the convention with tokens as columns; here tokens are rows."),
    ("keys-and-values-swapped", lambda X, W_Q, W_K, W_V: each(product)(X, W_Q, W_V, W_K),
     "You swap keys and values. The order is queries, keys, values."),
    ("first-token-only", each(lambda X, W: X[0] @ W),
     "You project only the first token. Every row of X gives a row of Q, K and V."),
)  # fmt: skip

EXERCISE = exercise(project_qkv, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(3, 11))
