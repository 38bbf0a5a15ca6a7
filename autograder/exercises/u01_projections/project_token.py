"""project_token: query, key and value of one token, with the token as a column."""

import numpy as np

from ..kit import Leaf, by_columns, exercise, normal, strided
from .parts import each


def project_token(
    x: normal("d_model"), W_Q: normal("d_head d_model"), W_K: normal("d_head d_model"), W_V: normal("d_v d_model")
) -> (Leaf("float array", "q"), Leaf("float array", "k"), Leaf("float array", "v")):
    return tuple(np.einsum("ed,d->e", W, x) for W in (W_Q, W_K, W_V))


def cases(case):
    for dtype in (float, np.float32):
        yield case("values", dtype=dtype)
    yield case("values", "values as wide as the keys (d_v = d_head)", d_v="d_head")
    yield case("values", "square weights", d_head="d_model", d_v="d_model")
    slices = {"x": strided, "W_Q": by_columns, "W_K": by_columns, "W_V": by_columns}
    yield case("values", "inputs that are slices", layout=slices)
    yield case("edge cases", "keys one wide (d_head = 1)", d_head=1)
    yield case("edge cases", "one feature (d_model = 1)", d_model=1)


def product(x, W):
    return W @ x


MISTAKES = (
    ("weights-transposed", each(lambda x, W: x @ W),
     "The weights act from the right, or transposed, as in the rows convention. Here x is a column and "
     "W_Q is (d_head, d_model)."),
    ("keys-and-values-swapped", lambda x, W_Q, W_K, W_V: each(product)(x, W_Q, W_V, W_K),
     "Keys and values have changed places. The order is query, key, value."),
    ("queries-and-keys-swapped", lambda x, W_Q, W_K, W_V: each(product)(x, W_K, W_Q, W_V),
     "Query and key have changed places. The order is query, key, value."),
    ("same-weights", lambda x, W_Q, W_K, W_V: each(product)(x, W_Q, W_Q, W_V),
     "Query and key came out equal: both were made with W_Q."),
    ("values-from-keys", lambda x, W_Q, W_K, W_V: each(product)(x, W_Q, W_K, W_K),
     "The value was made from the key's weights. It has weights of its own, W_V."),
    ("values-not-projected", lambda x, W_Q, W_K, W_V: (W_Q @ x, W_K @ x, x),
     "The value is x itself. It has weights of its own, W_V."),
    ("elementwise", each(lambda x, W: W * x),
     "The weights were multiplied entry by entry and never summed. A projection is a matrix product."),
    ("column-out", each(lambda x, W: W @ x[:, None]),
     "The numbers are right and have an axis too many: q is (d_head,), not (d_head, 1)."),
    ("row-out", each(lambda x, W: (W @ x)[None]),
     "The numbers are right and have an axis too many: q is (d_head,), not (1, d_head)."),
    ("list-for-tuple", lambda x, *W: [*each(product)(x, *W)],
     "The function returns a list. Return a tuple: `return q, k, v`."),
    ("stacked", lambda x, *W: np.concatenate(each(product)(x, *W)),
     "One array holds all three. Return a tuple of three arrays, since v may have another width."),
    ("scaled-query", lambda x, W_Q, W_K, W_V: (W_Q @ x / np.sqrt(len(W_Q)), W_K @ x, W_V @ x),
     "The query was divided by √d_head. A projection is a plain product; the root comes in unit 2."),
    ("chained", lambda x, W_Q, W_K, W_V: (W_Q @ x, W_K @ (W_Q @ x), W_V @ x),
     "The key was made from the query. All three are made from x."),
    ("drops-values", lambda x, W_Q, W_K, W_V: (W_Q @ x, W_K @ x),
     "Only two results come back. The function returns query, key and value."),
)  # fmt: skip

EXERCISE = exercise(
    project_token,
    cases,
    MISTAKES,
    credit={"values": 0.8, "edge cases": 0.2},
    core="values",
    sizes=range(3, 11),
)
