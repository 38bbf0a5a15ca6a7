"""Defines the exercise `project_token`, which makes the query, key and value of one token, a column."""

import numpy as np

from ..kit import Leaf, by_columns, exercise, normal, strided
from .parts import each


def project_token(
    x: normal("d_model"), W_Q: normal("d_head d_model"), W_K: normal("d_head d_model"), W_V: normal("d_v d_model")
) -> (Leaf("float array", "q"), Leaf("float array", "k"), Leaf("float array", "v")):
    return tuple(np.einsum("ed,d->e", W, x) for W in (W_Q, W_K, W_V))


def plain(x, W_Q, W_K, W_V):
    q = W_Q @ x
    k = W_K @ x
    v = W_V @ x
    return q, k, v


def cases(case):
    for dtype in (float, np.float32):
        yield case("values", dtype=dtype)
    yield case("values", "values as wide as the keys (d_v = d_head)", d_v="d_head")
    yield case("values", "square weights", d_head="d_model", d_v="d_model")
    slices = {"x": strided, "W_Q": by_columns, "W_K": by_columns, "W_V": by_columns}
    yield case("values", "inputs that are slices", layout=slices)
    yield case("edge cases", "keys of width 1 (d_head = 1)", d_head=1)
    yield case("edge cases", "one feature (d_model = 1)", d_model=1)
    drawn = case.draw(d_v="d_model", x=normal("d_model", 1e6))
    yield case("edge cases", "W_V alone is square (d_v = d_model), and the token has large entries", **drawn)
    drawn |= {name: drawn[name][::-1] for name in ("W_K", "W_V")}
    yield case("edge cases", "the same token and W_Q with other W_K and W_V", **drawn)
    drawn["x"] = np.zeros(drawn["d_model"])
    yield case("edge cases", "the same weights with a token of zeros", **drawn)
    yield case("edge cases", "W_Q and W_K square, values of width 1 (d_v = 1)", d_head="d_model", d_v=1)
    tiny = normal("d_model", 1e-9)
    yield case("edge cases", "many features (d_model = {d_model}) with tiny entries", d_model=range(70, 80), x=tiny)


def product(x, W):
    return W @ x


MISTAKES = (
    ("weights-transposed", each(lambda x, W: x @ W),
     "You apply the weights from the right, or transposed, as in the rows convention. Here x is a column and W_Q is "
     "(d_head, d_model)."),
    ("keys-and-values-swapped", lambda x, W_Q, W_K, W_V: each(product)(x, W_Q, W_V, W_K),
     "You swap keys and values. The order is query, key, value."),
    ("elementwise", each(lambda x, W: W * x),
     "You multiply the weights entry by entry and never sum. A projection is a matrix product."),
)  # fmt: skip

EXERCISE = exercise(project_token, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(3, 11))
