"""repeat_kv: every key/value head once for each query head of its group."""

import numpy as np
import torch

from ..kit import Leaf, exercise, normal, strided
from .parts import TILED, averaged, first_for_all, tiled


def repeat_kv(K: normal("B g n d"), n_rep: int) -> Leaf("float array", "the result"):
    return torch.repeat_interleave(K, n_rep, dim=1)


def plain(K, n_rep):
    return K.repeat_interleave(n_rep, dim=1)


def cases(case):
    for _ in range(3):
        yield case("values", "{g} heads, each {n_rep} times")
    yield case("values", "float32", dtype=np.float32, n_rep=2)
    yield case("values", "memory that is not contiguous", layout=strided, n_rep=3)
    yield case("edge cases", "once (n_rep = 1)", n_rep=1)
    yield case("edge cases", "one key/value head", g=1, n_rep=3)
    yield case("edge cases", "B = 1", B=1, n_rep=2)


MISTAKES = (
    ("tiled-heads", tiled, TILED),
    ("repeats-batch", lambda K, r: K.repeat_interleave(r, 0), "The batch is repeated; it is the heads' axis."),
    ("repeats-tokens", lambda K, r: K.repeat_interleave(r, 2), "The tokens are repeated; it is the heads' axis."),
    ("repeats-features", lambda K, r: K.repeat_interleave(r, 3), "The features are repeated; it is the heads' axis."),
    ("extra-axis", lambda K, r: K[:, :, None].expand(-1, -1, r, -1, -1),
     "The copies have an axis of their own. Merge it with the heads' axis."),
    ("not-repeated", lambda K, r: K.clone(), "Nothing is repeated."),
    ("first-head-only", first_for_all, "Every query head gets the first key/value head."),
    ("averaged", averaged, "Every query head gets the mean of all key/value heads."),
    ("one-too-many", lambda K, r: K.repeat_interleave(r + 1, 1), "Every head is there once too often."),
    ("heads-reversed", lambda K, r: K.repeat_interleave(r, 1).flip(1), "The heads come in reverse order."),
    ("padded", lambda K, r: torch.cat([K, torch.zeros_like(K).repeat(1, r - 1, 1, 1)], 1),
     "The further copies are zeros."),
    ("heads-behind-tokens", lambda K, r: K.repeat_interleave(r, 1).transpose(1, 2),
     "The heads have moved behind the tokens."),
)  # fmt: skip

EXERCISE = exercise(
    repeat_kv,
    cases,
    MISTAKES,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    core="values",
    plain=plain,
    library="torch",
    sizes=range(2, 9),
    ranges={"n_rep": range(2, 5)},
)
