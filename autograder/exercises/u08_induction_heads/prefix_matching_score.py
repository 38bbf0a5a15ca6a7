"""Defines the exercise `prefix_matching_score`, the attention to what followed the current token a period ago."""

import numpy as np
import torch

from ..kit import IN_FLOAT64, RTOL_FLOAT64, Leaf, by_columns, exercise, normal, strided
from .parts import attention, heads_looking_back, mean_of_band, one_token_each


def prefix_matching_score(weights: attention("B h n n"), period: int) -> Leaf("float array", "the score"):
    n = weights.shape[-1]
    rows = torch.arange(min(period, n), n)
    return weights[..., rows, rows - period + 1].sum(-1) / max(len(rows), 1)


def plain(weights, period):
    n = weights.shape[-1]
    i = torch.arange(n)[period:]
    found = weights[..., i, i - (period - 1)]
    return found.mean(-1).nan_to_num(0.0)


def cases(case):
    yield case("values", "n = {n}, period {period}", n="3*period")
    heads = heads_looking_back(lambda period: (period - 1, period, 1, 0))
    yield case("values", "an induction head, and three other heads", weights=heads, n="3*period")
    yield case("values", "float32", n="2*period", dtype=np.float32)
    yield case("values", "not contiguous", weights=attention("B n n"), n="4*period", layout=strided)
    later = attention("B h n n", causal=False)
    yield case("values", "memory in another order", n="2*period", layout={"weights": by_columns})
    yield case("not causal", "weights on later tokens", weights=later, n="3*period")
    period = int(case.rng.integers(3, 6))
    broken = {"period": period, "n": range(2 * period + 1, 3 * period)}
    yield case("broken blocks", "n = {n} is no multiple of {period}", **broken)
    yield case("broken blocks", "one token more than a period", weights=attention("B n n"), n=6, period=5)
    yield case("axes", "one map", weights=attention("n n"), n="3*period")
    yield case("axes", "three leading axes", weights=attention("2 B h n n"), **broken)
    yield case("edge cases", "a period of one token", n=7, period=1)
    yield case("edge cases", "a period of two tokens", n=7, period=2)
    yield case("edge cases", "as many tokens as the period", n=6, period=6)
    yield case("edge cases", "fewer tokens than the period", n=4, period=6)
    one = one_token_each("B h n n")
    yield case("not causal", "all weight on one token, 0 on all others", weights=one, n=11, period=3)
    yield case("not causal", "numbers of any sign and size", weights=normal("B h n n", 10.0), n="3*period")
    small = normal("n n", 1e-6)
    yield case("not causal", "very small numbers, in a long text (n = {n})", weights=small, n=range(66, 80))
    yield case("axes", "five leading axes", weights=attention("2 1 B 2 h n n"), B=3, n=7, period=4)
    alone = {"weights": attention("n n"), "dtype": np.float32}
    yield case("edge cases", "one map, fewer tokens than the period, float32", n=4, period=6, **alone)
    yield case("values", "float16", n="3*period", dtype=np.float16, rtol=0.02)
    yield case("edge cases", IN_FLOAT64, n="2*period", rtol=RTOL_FLOAT64)
    uneven = attention("n n", causal=False)
    yield case("gradients", "gradients of one map, n = {n}, period {period}", weights=uneven, **broken, gradient=True)


def score(weights, period, *, offset=lambda p: p - 1, first=lambda p: p, **slips):
    return mean_of_band(weights, offset(period), first(period), **slips)


def cut(length):
    """Return the score of the first `length(n, period)` tokens only."""

    def wrong(weights, period):
        kept = length(weights.shape[-1], period)
        return prefix_matching_score(weights[..., :kept, :kept], period)

    return wrong


def any_repeat(weights, period):
    n, total = weights.shape[-1], weights.new_zeros(weights.shape[:-2])
    for i in range(period, n):
        total = total + weights[..., i, (i - period + 1) % period : i : period].sum(-1)
    return total / max(n - period, 1)


def share_of_peaks(weights, period):
    peaks = weights.argmax(-1, keepdim=True) == torch.arange(weights.shape[-1])
    return prefix_matching_score(peaks.to(weights.dtype), period)


MISTAKES = (
    ("attends-to-the-match", {"offset": lambda p: p},
     "You average the weights on the earlier occurrence of the current token. An induction head looks at the token "
     "right after that occurrence."),
    ("one-too-far", {"offset": lambda p: p + 1},
     "You average the weights on the token before the match. An induction head looks at the token after the match."),
    ("first-repeat-counted", {"first": lambda p: 0},
     "You count the first block, where nothing has been seen before. Count from position `period` on."),
    ("starts-one-late", {"first": lambda p: p + 1},
     "You leave out position `period`, where the first token comes back."),
    ("starts-a-period-late", {"first": lambda p: 2 * p},
     "You leave out the second block."),
    ("two-less-than-a-period", {"offset": lambda p: p - 2},
     "You read the weights two short of a period back. Count the offset once more."),
    ("divided-by-n", {"by": lambda band, n: band.sum(-1) / n},
     "You divide the sum by n. Over how many positions does it run?"),
    ("whole-blocks-only", cut(lambda n, p: n // p * p),
     "You leave out a last block that is not whole. Every position from `period` on counts."),
    ("second-block-only", cut(lambda n, p: 2 * p),
     "You count only the second block. Every position from `period` on counts."),
    ("last-position-left-out", cut(lambda n, p: n - 1),
     "You leave out the last position, though it has a token one period ago."),
    ("all-earlier-matches", any_repeat,
     "You add the weights on all earlier occurrences. Only the one of a period ago counts."),
    ("share-of-peaks", share_of_peaks,
     "You count the positions at which the match gets most. Take the mean of the weights."),
    ("repeats-for-period", lambda w, period: prefix_matching_score(w, max(w.shape[-1] // period, 1)),
     "You use the number of blocks where their length belongs. By how many positions does a token come back?"),
)  # fmt: skip

EXERCISE = exercise(
    prefix_matching_score,
    slipped=score,
    library="torch",
    credit={"values": 0.45, "not causal": 0.1, "broken blocks": 0.15, "axes": 0.1, "edge cases": 0.1, "gradients": 0.1},
    ranges={"B": range(2, 5), "h": range(2, 5), "period": range(3, 6)},
)
