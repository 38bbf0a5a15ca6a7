"""Defines the exercise `batched_attention`, which uses two products for all queries of all heads, causal or not."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from ..attention_parts import AFTER
from ..kit import Leaf, by_columns, exercise, normal, strided
from .parts import HALF, SLIPS, attention, large_scores, last_key_on_top, low_scores, zeros_and_twins
from .parts import MISTAKES as ANY_ATTENTION


def batched_attention(Q: normal("B h n d"), K: normal("B h n d"), V: normal("B h n d"), causal: bool = False) -> Leaf(
    "float array", "the output"
):
    return F.scaled_dot_product_attention(Q, K, V, is_causal=causal)


def plain(Q, K, V, causal=False):
    n, d = Q.shape[-2], Q.shape[-1]
    scores = Q @ K.mT / math.sqrt(d)
    if causal:
        everything = torch.ones(n, n, dtype=torch.bool)
        mask = everything.tril(0)
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, -1)
    return weights @ V


def cases(case):
    yield case("values")
    yield case("values", "float32", dtype=np.float32)
    yield case("values", "float16", dtype=np.float16, rtol=HALF)
    yield case("values", "not contiguous", layout=strided, causal=False, by_name="causal")
    causal = {"causal": True, "by_name": "causal"}
    yield case("causal", "causal", **causal)
    yield case("causal", "causal, float32", dtype=np.float32, n=range(5, 11), **causal)
    yield case("causal", "causal, scores of ±10,000", **large_scores(case), **causal)
    yield case("causal", "causal, all scores near −10,000", **low_scores(case), **causal)
    yield case("edge cases", "heads that were split off", layout=by_columns, **causal)
    yield case("edge cases", "many tokens", B=1, h=2, n=30, lines=20, **causal)
    drawn = case.draw(B=25, h=24, n=2, d=3)
    key = drawn["K"][0, 0, 0]
    drawn["Q"][0, 0, 0] = 50 * key / (key @ key)
    yield case("edge cases", "many sequences of many heads, one score far above all others", **drawn, lines=20)
    yield case("edge cases", "B = 1", B=1)
    yield case("edge cases", "one head, causal", h=1, **causal)
    yield case("edge cases", "a single token (n = 1)", n=1, **causal)
    yield case("edge cases", "d = 1", d=1)
    yield case("large scores", "scores of ±10,000", **large_scores(case))
    yield case("large scores", "all scores near −10,000", **low_scores(case))
    yield case("causal", "causal, float16", dtype=np.float16, rtol=HALF, **causal)
    yield case("causal", "causal, {n} tokens, d = {d}", B=1, h=1, n=range(66, 76), d=24, lines=20, **causal)
    zeros = "causal, two equal keys, and zeros as a key, a value and a query"
    yield case("edge cases", zeros, **zeros_and_twins(case, n=6), **causal)
    top = last_key_on_top(case)
    yield case("gradients", "gradients, causal, the last key far above the others", gradient=True, **top, **causal)


def heads_in_a_row(Q, K, V, causal=False):
    rows = (array.flatten(1, 2).unsqueeze(1) for array in (Q, K, V))
    return attention(*rows, causal).view(Q.shape)


MISTAKES = (
    *SLIPS,
    ("always-causal", {"always": True}, "You hide later keys even without `causal`."),
    ("causal-diagonal-out", {"shifted": -1}, "With `causal`, your query can't see its own key. It should."),
    ("mask-inverted", {"masking": "inverted"}, "With `causal`, your queries see just the later keys. They should see "
                                               "the earlier ones."),
    ("mask-after-softmax", {"masking": "after"}, AFTER),
    *ANY_ATTENTION,
    ("heads-see-each-other", heads_in_a_row,
     "You put the tokens of all heads in one long row, so the heads see each other. Each should attend by itself."),
)  # fmt: skip

EXERCISE = exercise(
    batched_attention,
    credit={"values": 0.5, "causal": 0.2, "edge cases": 0.1, "large scores": 0.1, "gradients": 0.1},
    slipped=attention,
    library="torch",
    not_from=("loop_attention",),
)
