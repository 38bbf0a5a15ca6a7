"""Defines the exercise `low_rank_value`, which applies a value map in two factors, down to d_head and up to d_model."""

import numpy as np

from ..kit import Leaf, by_columns, every_second_row, exercise, normal
from .parts import softmax


def low_rank_value(
    X: normal("n d_model"), W_V_down: normal("d_model d_head"), W_V_up: normal("d_head d_model")
) -> Leaf("float array", "the result"):
    return np.einsum("nd,dh,he->ne", X, W_V_down, W_V_up)


def plain(X, W_V_down, W_V_up):
    low = X @ W_V_down
    result = low @ W_V_up
    return result


def cases(case):
    for dtype in (float, float, np.float32):
        yield case("values", dtype=dtype)
    yield case("values", "d_head = d_model", d_head="d_model")
    yield case("values", "n = d_head = d_model", n="d_model", d_head="d_model")
    slices = {"X": every_second_row, "W_V_down": by_columns, "W_V_up": by_columns}
    yield case("values", "inputs that are slices", layout=slices)
    yield case("edge cases", "a single token (n = 1)", n=1)
    yield case("edge cases", "rank one (d_head = 1)", d_head=1)
    drawn = case.draw(n=range(70, 80), d_model=range(3, 5), d_head=range(9, 11), X=normal("n d_model", 1e6))
    drawn["X"][3] = 0.0
    label = "d_head = {d_head}, more than d_model = {d_model}; many tokens, large entries, a token of zeros"
    yield case("edge cases", label, **drawn)
    drawn["W_V_up"] = drawn["W_V_up"][::-1]
    yield case("edge cases", "the same tokens and W_V_down with another W_V_up", **drawn)
    drawn["X"] = 1e-13 * drawn["X"][::-1]
    yield case("edge cases", "the same weights with other tokens, whose entries are tiny", **drawn)


MISTAKES = (
    ("up-before-down", lambda X, down, up: X @ up @ down,
     "You apply the two weights in the wrong order. Map down to d_head first, then up to d_model."),
    ("weights-transposed", lambda X, down, up: X @ up.T @ down.T,
     "You transpose the weights, which swaps their roles. Use W_V_down first, as it is."),
    ("uses-down-twice", lambda X, down, up: X @ down @ down.T,
     "You map up with W_V_down. The map up has weights of its own, W_V_up."),
    ("uses-up-twice", lambda X, down, up: X @ up.T @ up,
     "You map down with W_V_up. The map down has weights of its own, W_V_down."),
    ("relu-between", lambda X, down, up: np.maximum(X @ down, 0) @ up,
     "You put a ReLU between the two weights. The value map is linear, just two plain products."),
    ("softmax-between", lambda X, down, up: softmax(X @ down) @ up,
     "You put a softmax between the two weights. The value map is linear, just two plain products."),
    ("residual", lambda X, down, up: X + X @ down @ up,
     "You add X to the result. The residual connection comes later; return only the value map here."),
)  # fmt: skip

EXERCISE = exercise(low_rank_value, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(3, 11))
