"""Defines the exercise `repeat_kv`, which repeats every key/value head for each query head of its group."""

import numpy as np
import torch

from ..kit import Leaf, by_columns, exercise, normal, strided
from .parts import TILED, first_for_all, tiled


def repeat_kv(K: normal("B g n d"), n_rep: int) -> Leaf("float array", "the result"):
    return torch.repeat_interleave(K, n_rep, dim=1)


def plain(K, n_rep):
    return K.repeat_interleave(n_rep, dim=1)


def cases(case):
    for _ in range(3):
        yield case("values", "{g} heads, each {n_rep} times")
    yield case("values", "float32", dtype=np.float32, n_rep=2)
    yield case("values", "memory that is not contiguous", layout=strided, n_rep=3)
    yield case("values", "float16", dtype=np.float16, n_rep=2)
    yield case("values", "memory in another order", layout=by_columns, n_rep=3)
    yield case("edge cases", "once (n_rep = 1)", n_rep=1)
    yield case("edge cases", "one key/value head", g=1, n_rep=3)
    yield case("edge cases", "B = 1", B=1, n_rep=2)
    drawn = case.draw(n_rep=3)
    drawn["K"] *= 1.1e6
    yield case("edge cases", "numbers around 1,000,000 in float64, each as it was", rtol=1e-12, **drawn)
    yield case("gradients", "gradients of one key/value head, once (n_rep = 1)", gradient=True, g=1, n_rep=1)


MISTAKES = (
    ("tiled-heads", tiled, TILED),
    ("first-head-only", first_for_all, "You give every query head the first key/value head."),
)  # fmt: skip

EXERCISE = exercise(
    repeat_kv,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    library="torch",
    sizes=range(2, 9),
    ranges={"n_rep": range(2, 5)},
)
