"""Defines the exercise `loop_attention`, which handles every query of every head separately."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from ..attention_parts import UNSTABLE
from ..kit import Leaf, exercise, normal, strided
from .parts import HALF, SLIPS, attention, large_scores, low_scores, zeros_and_twins
from .parts import MISTAKES as ANY_ATTENTION


def loop_attention(Q: normal("B h n d"), K: normal("B h n d"), V: normal("B h n d")) -> Leaf(
    "float array", "the output"
):
    return F.scaled_dot_product_attention(Q, K, V)


def plain(Q, K, V):
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                keys, values = K[b, head], V[b, head]
                query = Q[b, head, i]
                scores = keys @ query / math.sqrt(d)
                weights = torch.softmax(scores, 0)
                out[b, head, i] = weights @ values
    return out


def cases(case):
    sharp = normal("B h n d", 2.0)
    yield case("values")
    yield case("values", "float32", dtype=np.float32)
    yield case("values", "float16", dtype=np.float16, rtol=HALF)
    yield case("values", "not contiguous", layout=strided)
    yield case("values", "sharper weights", Q=sharp, K=sharp)
    yield case("edge cases", "B = 1", B=1)
    yield case("edge cases", "one head", h=1)
    yield case("edge cases", "a single token (n = 1)", n=1)
    yield case("edge cases", "d = 1", d=1)
    yield case("one query at a time", "n = {n}, one head", B=1, h=1, n=range(30, 40), d=3, watch="n*n")
    yield case("large scores", "scores of ±10,000", **large_scores(case, n=range(3, 8)))
    yield case("large scores", "all scores near −10,000", **low_scores(case))
    yield case("edge cases", "two equal keys, and zeros as a key, a value and a query", **zeros_and_twins(case, n=6))
    yield case("one query at a time", "n = {n}, d = 1", B=1, h=1, n=range(50, 60), d=1, watch="3*n")


def all_queries_at_once(case, arrays):
    """Return a message if the scores of many queries are computed at once."""
    if not any(array.size >= case.watch for array in arrays):
        return None
    return "your code computes the scores of many queries of a head at once, but it should take the queries one by one"


MISTAKES = (
    *SLIPS,
    ("unstable", {"stable": False}, UNSTABLE),
    ("causal", {"always": True}, "You hide later keys. There is no mask here."),
    ("first-heads-keys", lambda Q, K, V: attention(Q, K[:, :1].expand_as(K), V[:, :1].expand_as(V)),
     "You let all heads read the keys and values of the first one."),
    ("last-key-missing", lambda Q, K, V: attention(Q, K[..., :-1, :], V[..., :-1, :]),
     "You never look at the last key. Where does your loop end?"),
    *ANY_ATTENTION,
    ("last-head-everywhere", lambda Q, K, V: attention(Q, K, V)[:, -1:].expand_as(V),
     "All your heads hold the answer of the last one. Do you write the result to the place of its head?"),
)  # fmt: skip

EXERCISE = exercise(
    loop_attention,
    credit={"values": 0.5, "one query at a time": 0.1, "edge cases": 0.15, "large scores": 0.15, "gradients": 0.1},
    made=all_queries_at_once,
    sizes=range(2, 7),
    slipped=attention,
    library="torch",
)
