"""low_rank_value: the value map in two thin factors, down to d_head and up again to d_model."""

import numpy as np

from ..kit import Leaf, by_columns, every_second_row, exercise, normal
from .parts import softmax


def low_rank_value(
    X: normal("n d_model"), W_V_down: normal("d_model d_head"), W_V_up: normal("d_head d_model")
) -> Leaf("float array", "the result"):
    return np.einsum("nd,dh,he->ne", X, W_V_down, W_V_up)


def cases(case):
    for dtype in (float, float, np.float32):
        yield case("values", dtype=dtype)
    yield case("values", "d_head = d_model", d_head="d_model")
    yield case("values", "n = d_head = d_model", n="d_model", d_head="d_model")
    slices = {"X": every_second_row, "W_V_down": by_columns, "W_V_up": by_columns}
    yield case("values", "inputs that are slices", layout=slices)
    yield case("edge cases", "a single token (n = 1)", n=1)
    yield case("edge cases", "rank one (d_head = 1)", d_head=1)


MISTAKES = (
    ("down-only", lambda X, down, up: X @ down,
     "The values went down to d_head and not up again: W_V_up is not used."),
    ("up-before-down", lambda X, down, up: X @ up @ down,
     "The two weights act in the wrong order: first down to d_head, then up to d_model."),
    ("weights-transposed", lambda X, down, up: X @ up.T @ down.T,
     "The weights were transposed and have changed roles: W_V_down comes first, as it is."),
    ("down-transposed", lambda X, down, up: X @ down.T @ up,
     "W_V_down was transposed. It is (d_model, d_head) and acts from the right as it is."),
    ("up-transposed", lambda X, down, up: X @ down @ up.T,
     "W_V_up was transposed. It is (d_head, d_model) and acts from the right as it is."),
    ("uses-down-twice", lambda X, down, up: X @ down @ down.T,
     "The way up was made from W_V_down. It has weights of its own, W_V_up."),
    ("uses-up-twice", lambda X, down, up: X @ up.T @ up,
     "The way down was made from W_V_up. It has weights of its own, W_V_down."),
    ("relu-between", lambda X, down, up: np.maximum(X @ down, 0) @ up,
     "There is a ReLU between the two weights. The value map is linear: two plain products."),
    ("softmax-between", lambda X, down, up: softmax(X @ down) @ up,
     "There is a softmax between the two weights. The value map is linear: two plain products."),
    ("tanh-between", lambda X, down, up: np.tanh(X @ down) @ up,
     "There is a tanh between the two weights. The value map is linear: two plain products."),
    ("residual", lambda X, down, up: X + X @ down @ up,
     "X was added to the result. The residual connection comes later; here is the value map alone."),
    ("returns-weights", lambda X, down, up: down @ up,
     "This is the product of the weights. It still has to act on X."),
    ("columns-out", lambda X, down, up: (X @ down @ up).T,
     "The result stands as columns. Tokens stay rows: it is (n, d_model)."),
    ("scaled", lambda X, down, up: X @ down @ up / np.sqrt(down.shape[1]),
     "The result was divided by √d_head. The value map is two plain products."),
    ("divided-by-rank", lambda X, down, up: X @ down @ up / down.shape[1],
     "The result was divided by d_head. The value map is two plain products."),
    ("factor-pair", lambda X, down, up: (X @ down, X @ down @ up),
     "Two results come back. The function returns one array, (n, d_model)."),
)  # fmt: skip

EXERCISE = exercise(
    low_rank_value,
    cases,
    MISTAKES,
    credit={"values": 0.8, "edge cases": 0.2},
    core="values",
    sizes=range(3, 11),
)
