"""Defines the exercise `previous_token_score`, the average attention to the previous token."""

import numpy as np
import torch

from ..kit import IN_FLOAT64, RTOL_FLOAT64, Leaf, by_columns, exercise, normal, strided
from .parts import attention, heads_looking_back, mean_of_band, one_token_each


def previous_token_score(weights: attention("B h n n")) -> Leaf("float array", "the score"):
    rows = torch.arange(1, weights.shape[-1])
    return weights[..., rows, rows - 1].sum(-1) / max(len(rows), 1)


def plain(weights):
    n = weights.shape[-1]
    i = torch.arange(n)[1:]
    found = weights[..., i, i - 1]
    return found.mean(-1).nan_to_num(0.0)


def cases(case):
    yield case("values", "{B} sequences, {h} heads, n = {n}")
    yield case("values", "float32", dtype=np.float32)
    yield case("values", "a head that looks at the token before", weights=heads_looking_back((1, 3)), n=range(5, 10))
    yield case("values", "not contiguous", weights=attention("B n n"), layout=strided)
    yield case("values", "memory in another order", layout=by_columns)
    yield case("not causal", "weights on later tokens", weights=attention("B h n n", causal=False))
    yield case("axes", "one map", weights=attention("n n"))
    yield case("axes", "three leading axes", weights=attention("2 B h n n"))
    yield case("edge cases", "two tokens (n = 2)", n=2)
    yield case("edge cases", "a single token (n = 1)", n=1)
    yield case("not causal", "all weight on one token, 0 on all others", weights=one_token_each("B h n n"), n=8)
    yield case("not causal", "numbers of any sign and size", weights=normal("B h n n", 10.0))
    small = normal("n n", 1e-6)
    yield case("not causal", "very small numbers, in a long text (n = {n})", weights=small, n=range(66, 80))
    yield case("axes", "five leading axes", weights=attention("2 1 B 2 h n n"), B=3, n=4)
    yield case("edge cases", "one map of a single token, float32", weights=attention("n n"), n=1, dtype=np.float32)
    yield case("values", "float16", dtype=np.float16, rtol=0.02)
    yield case("edge cases", IN_FLOAT64, rtol=RTOL_FLOAT64)
    yield case("gradients", "gradients of one map", weights=attention("n n", causal=False), gradient=True)


def score(weights, *, offset=1, first=1, **slips):
    return mean_of_band(weights, offset, first, **slips)


def mean_of_rest(total):
    """Return a mean over the positions that have a previous token. total: weights -> the sum over them."""
    return lambda w: total(w) / max(w.shape[-1] - 1, 1)


MISTAKES = (
    ("looks-at-itself", {"offset": 0, "first": 0},
     "You average the diagonal, which is the attention of each token to itself."),
    ("two-back", {"offset": 2},
     "You average the weights two tokens back."),
    ("divided-by-n", {"by": lambda band, n: band.sum(-1) / n},
     "You divide the sum by n. How many positions have a token before them?"),
    ("wraps-around", lambda w: w.roll(1, -1).diagonal(0, -2, -1).mean(-1),
     "You count the first position with its weight on the last token. It has no token before it."),
    ("median", {"by": lambda band, n: band.median(-1).values},
     "You take the median. Take the mean."),
    ("share-of-peaks", mean_of_rest(lambda w: (w.argmax(-1)[..., 1:] == torch.arange(w.shape[-1] - 1)).to(w).sum(-1)),
     "You count the positions whose largest weight is on the previous token. Take the mean of the weights on it "
     "instead."),
    ("all-earlier-tokens", mean_of_rest(lambda w: w.tril(-1).sum((-1, -2))),
     "You sum all weights before the diagonal. Take only those just before it."),
    ("wrong-axes", lambda w: torch.diagonal(w, -1).mean(-1),
     "You take the diagonal of the first two axes. The maps are on the last two."),
    ("last-position-only", {"by": lambda band, n: band[..., -1]},
     "You look only at the last position. Average over all that have a token before them."),
    ("first-position-counted", lambda w: (w.diagonal(-1, -2, -1).sum(-1) + w[..., 0, 0]) / w.shape[-1],
     "You count the first position with its weight on itself. It has no token before it."),
)  # fmt: skip

EXERCISE = exercise(
    previous_token_score,
    slipped=score,
    library="torch",
    credit={"values": 0.5, "not causal": 0.1, "axes": 0.2, "edge cases": 0.1, "gradients": 0.1},
    sizes=range(3, 10),
)
