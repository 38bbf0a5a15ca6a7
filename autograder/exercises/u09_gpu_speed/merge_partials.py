"""Defines the exercise `merge_partials`, which combines attention over two disjoint sets of keys from their results."""

import math

import numpy as np
import torch

from ..attention_parts import UNSTABLE
from ..kit import IN_FLOAT64, RTOL_FLOAT64, Leaf, exercise, normal, strided
from .parts import HALF


def merge_partials(
    out_1: normal("B h n d"), lse_1: normal("B h n"), out_2: normal("B h n d"), lse_2: normal("B h n")
) -> (Leaf("float array", "out"), Leaf("float array", "lse")):
    """Take a softmax of the two logs as scores, with the two outputs as values."""
    scores = torch.stack([lse_1, lse_2], -1)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)  # two parts without keys have no weights
    out = weights[..., None, :] @ torch.stack([out_1, out_2], -2)
    return out.squeeze(-2), torch.logsumexp(scores, -1)


def plain(out_1, lse_1, out_2, lse_2):
    lse = torch.logaddexp(lse_1, lse_2)
    base = lse.masked_fill(lse == -math.inf, 0.0)
    share_1 = torch.exp(lse_1 - base)
    share_2 = torch.exp(lse_2 - base)
    out = share_1[..., None] * out_1 + share_2[..., None] * out_2
    return out, lse


def cases(case):
    def apart(criterion, label, low, high, **given):
        """Move all logs between low and high, with differences of order 1 between the parts."""
        drawn = case.draw()
        shape = drawn["lse_1"].shape
        drawn["lse_1"] += case.rng.integers(low, high, shape, endpoint=True)
        drawn["lse_2"] += drawn["lse_1"]
        return case(criterion, label, **given, **drawn)

    def without_keys(label, *parts, dtype=None):
        """Remove all keys from these parts for about half of the queries, but never for all."""
        drawn = case.draw(n=4)
        for part in parts:
            empty = case.rng.random(drawn[f"lse_{part}"].shape) < 0.4
            empty[..., 0], empty[..., 1] = True, False
            drawn[f"lse_{part}"][empty], drawn[f"out_{part}"][empty] = -np.inf, 0.0
        return case("parts without keys", label, dtype=dtype, **drawn)

    for dtype in (np.float64, np.float64, np.float32):
        yield case("values", dtype=dtype)
    yield case("values", "float16", dtype=np.float16, rtol=HALF)
    drawn = case.draw()
    drawn["lse_2"] = drawn["lse_1"].copy()
    yield case("values", "two parts of equal weight", **drawn)
    drawn = case.draw()
    drawn["lse_2"] = drawn["lse_1"] + np.where(case.rng.random(drawn["lse_1"].shape) < 0.5, 3.0, -3.0)
    yield case("values", "one part has about 20 times the weight of the other", **drawn)
    yield case("values", "memory that is not contiguous", layout=strided)
    yield apart("large logs", "both logs near 10,000", 9990, 10_000)
    yield apart("large logs", "both logs near −10,000", -10_000, -9990)
    drawn = case.draw()
    drawn["lse_1"] += 1e4 * np.resize([1.0, -1.0], drawn["n"])
    drawn["lse_2"] += drawn["lse_1"]
    yield case("large logs", "one query's logs near 10,000, the next one's near −10,000", **drawn)
    drawn = case.draw()
    drawn["lse_1"] += 1e4 * np.resize([1.0, -1.0], drawn["n"])
    drawn["lse_2"] -= drawn["lse_1"]
    yield case("large logs", "one part's logs near 10,000, the other's near −10,000", **drawn)
    yield without_keys("the first part has no keys for some queries", 1)
    yield without_keys("the second part has no keys for some queries", 2)
    yield without_keys("neither part has keys for some queries", 1, 2)
    yield without_keys("neither part has keys for some queries, float32", 1, 2, dtype=np.float32)
    drawn = case.draw()
    for name in drawn.keys() & {"out_1", "lse_1", "out_2", "lse_2"}:
        drawn[name] = np.full_like(drawn[name], -np.inf if name.startswith("lse") else 0.0)
    yield case("parts without keys", "no part has any key", **drawn)
    yield case("values", IN_FLOAT64, rtol=RTOL_FLOAT64)


def merged(out_1, lse_1, out_2, lse_2, *, shares="right", lse="right", base="right", empty="right"):
    """Merge with slips; every default is correct.

    shares: "right", "mean", "added", "of the logs", "swapped", "not divided" or "by the larger".
    lse: "right", "added", "mean", "larger" or "in base 2"; base: "right", "none" or "one for all".
    empty: the log where no part has keys: "right" or a number.
    """
    larger = torch.maximum(lse_1, lse_2)
    finite = larger.masked_fill(larger == -math.inf, 0.0)
    base = {"right": finite, "none": torch.zeros_like(finite), "one for all": torch.full_like(finite, finite.max())}[
        base
    ]
    one, two = torch.exp(lse_1 - base), torch.exp(lse_2 - base)
    total = one + two
    share_1, share_2 = {
        "right": lambda: (one / total, two / total),
        "mean": lambda: (torch.full_like(one, 0.5),) * 2,
        "added": lambda: (torch.ones_like(one),) * 2,
        "of the logs": lambda: (lse_1 / (lse_1 + lse_2), lse_2 / (lse_1 + lse_2)),
        "swapped": lambda: (two / total, one / total),
        "not divided": lambda: (one, two),
        "by the larger": lambda: ((lse_1 >= lse_2).to(one.dtype), (lse_1 < lse_2).to(one.dtype)),
    }[shares]()
    out = share_1[..., None] * out_1 + share_2[..., None] * out_2
    logs = {
        "right": base + torch.log(total),
        "added": lse_1 + lse_2,
        "mean": (lse_1 + lse_2) / 2,
        "larger": larger,
        "in base 2": base + torch.log2(total),
    }[lse]
    if empty != "nan":
        none = (larger == -math.inf) & (shares not in ("mean", "added"))
        out = out.masked_fill(none[..., None], 0.0)
        logs = logs.masked_fill(larger == -math.inf, -math.inf if empty == "right" else empty)
    return out, logs


MISTAKES = (
    ("mean-of-the-outputs", {"shares": "mean"},
     "You average the two outputs. A part whose keys have larger scores must count for more. What says by how much?"),
    ("outputs-added", {"shares": "added"},
     "You add the two outputs. Each is divided by the sum of its own exponentials, so weigh them before you add."),
    ("shares-of-the-logs", {"shares": "of the logs"},
     "You weigh the parts by their logs. A part's weight is the sum of its exponentials, and lse is its logarithm."),
    ("shares-swapped", {"shares": "swapped"},
     "You give each output the other part's share. The part with the larger lse has the larger weight."),
    ("only-the-larger-part", {"shares": "by the larger"},
     "You keep only the part with the larger lse. The other one has a share, too, as long as it has keys."),
    ("shares-do-not-sum-to-one", {"shares": "not divided"},
     "Your two shares do not sum to 1. Divide by the sum of both parts' exponentials, not just by the larger one."),
    ("logs-added", {"lse": "added"},
     "You add the two logs, which multiplies the sums. Add the sums; lse is the logarithm of the result."),
    ("logs-averaged", {"lse": "mean"},
     "You return the mean of the two logs as lse. It is the logarithm of the sum of both parts' exponentials."),
    ("larger-log", {"lse": "larger"},
     "You return the larger of the two logs as lse. The other part's exponentials belong in the sum as well."),
    ("base-2", {"lse": "in base 2"}, "You take a logarithm to base 2. All logs of this exercise are natural."),
    ("unstable", {"base": "none"}, UNSTABLE),
    ("one-maximum-for-all", {"base": "one for all"},
     "You subtract one maximum for all queries. A query far below it is left with 0 / 0, so each needs its own."),
    ("nan-without-keys", {"empty": "nan"},
     "Where neither part has keys you return NaN, from −inf − (−inf) or 0 / 0. There out is 0 and lse is −inf."),
    ("finite-log-without-keys", {"empty": -1e4},
     "Where neither part has keys you return a finite lse. It is −inf, the logarithm of 0, so that a later merge "
     "gives this part no share."),
)  # fmt: skip

EXERCISE = exercise(
    merge_partials,
    credit={"values": 0.45, "large logs": 0.2, "parts without keys": 0.25, "gradients": 0.1},
    slipped=merged,
    library="torch",
)
