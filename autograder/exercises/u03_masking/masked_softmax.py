"""Defines the exercise `masked_softmax`, which takes the softmax of the allowed keys along the last axis."""

import numpy as np
import scipy.special

from ..kit import Leaf, by_columns, exercise, mask, normal
from .parts import (
    TWO_QUERIES,
    filled,
    not_renormalised,
    over_allowed,
    over_own_sum,
    padding,
    renormalised,
    silent,
    softmax,
    unstable,
)


def masked_softmax(scores: normal("n m"), mask: mask("n m")) -> Leaf(
    "float array", "the weights", rows_sum_to_one=True
):
    allowed = np.broadcast_to(mask, scores.shape)
    width = scores.shape[-1]
    rows, allowed_rows = scores.reshape(-1, width), allowed.reshape(-1, width)
    weights = np.zeros(rows.shape)
    for row, choice, result in zip(rows, allowed_rows, weights, strict=True):
        if choice.any():
            result[choice] = scipy.special.softmax(row[choice])
    return weights.reshape(scores.shape)


def plain(scores, mask):
    allowed = np.where(mask, scores, -np.inf)
    largest = allowed.max(axis=-1, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0)
    exponentials = np.exp(allowed - largest)
    total = exponentials.sum(axis=-1, keepdims=True)
    total = np.where(total == 0, 1, total)
    weights = exponentials / total
    empty = ~mask.any(axis=-1, keepdims=True)
    return np.where(empty, 0, weights)


def cases(case):
    rng = case.rng
    yield case("values", "a matrix of scores")
    drawn = case.draw()
    for row, allowed in zip(drawn["scores"], drawn["mask"], strict=True):  # 0 doesn't mean “masked”
        row[[rng.choice(np.flatnonzero(allowed)), rng.choice(np.flatnonzero(~allowed))]] = 0
    yield case("values", "exact zeros among the scores", **drawn)
    batch = {"scores": normal("B n m")}
    yield case("values", "a batch of scores, float32", **batch, mask=mask("B n m"), dtype=np.float32)
    yield case("values", "scores in column order", layout={"scores": by_columns})
    drawn = case.draw()
    drawn["mask"][:] = True
    yield case("values", "nothing hidden", **drawn)

    yield case("broadcasting", "a mask (n, m) for scores (B, n, m)", **batch)
    yield case("broadcasting", "a padding mask (B, 1, m) for scores (B, n, m)", **batch, mask=mask("B 1 m"))
    label, heads = "a mask (B, 1, 1, m) for scores (B, h, n, m), float32", normal("B h n m")
    yield case("broadcasting", label, scores=heads, mask=mask("B 1 1 m"), dtype=np.float32)
    yield case("broadcasting", "a mask (m,) for scores (n, m)", mask=mask("m"))
    yield case("broadcasting", "a mask (n, 1) for scores (n, m)", mask=TWO_QUERIES)

    empty = mask("n m", empty_rows=True)
    yield case("nothing allowed", "rows where nothing is allowed", mask=empty, quiet=True)
    yield case("nothing allowed", "a batch with an empty sequence", **batch, mask=padding(0, spare=1), quiet=True)
    drawn = case.draw()
    drawn["mask"][:] = False
    yield case("nothing allowed", "nothing allowed anywhere", **drawn, quiet=True)

    for label, dtype in (
        ("scores of ±1e4, the largest of them hidden", float),
        ("scores of ±1e4, float32", np.float32),
    ):
        drawn = case.draw()
        scores = drawn["scores"]
        scores[:] = rng.choice([-1e4, -5e3, 5e3], scores.shape) + quarters(scores)
        for row, allowed in zip(scores, drawn["mask"], strict=True):
            row[rng.choice(np.flatnonzero(~allowed))] = 1e4
        yield case("extreme scores", label, **drawn, dtype=dtype)
    drawn = case.draw()
    drawn["scores"][~drawn["mask"]] = 1e12
    yield case("extreme scores", "hidden scores of a million millions", **drawn)
    drawn = case.draw()
    drawn["scores"] += np.where(drawn["mask"], np.resize([[-1e4], [0]], (drawn["n"], 1)), 0)
    yield case("extreme scores", "rows of allowed scores near -1e4 next to rows near 0", **drawn)
    drawn = case.draw()
    drawn["scores"] = 1e4 + quarters(drawn["scores"])
    yield case("extreme scores", "all scores near +1e4", **drawn)
    yield case("extreme scores", "a single row (m,)", scores=normal("m"), mask=mask("m"))
    yield case("extreme scores", "a single key (m = 1)", m=1)

    yield case("broadcasting", "a mask (n, m) for scores (B, n, m), and B = n", **batch, B="n")
    yield case(
        "broadcasting", "a mask (n, m) for scores (B, h, n, m), and B = h = n", scores=heads, B="n", h="n", n=[4, 5]
    )
    yield case("broadcasting", "a mask (n, m) for scores with five axes", scores=normal("2 B 1 n m"))
    own = {"scores": heads, "mask": mask("h n m", empty_rows=True), "B": "h", "h": [4, 5]}
    yield case(
        "nothing allowed", "a mask (h, n, m) for scores (B, h, n, m), rows that allow nothing", **own, quiet=True
    )
    nothing = np.zeros(5, bool)
    yield case(
        "nothing allowed", "a single row (m,), nothing allowed", scores=normal("m"), mask=nothing, m=5, quiet=True
    )
    many = np.zeros((2, 600), bool)
    many[0, 300:556] = many[1, rng.integers(256, 600)] = True
    yield case(
        "extreme scores", "one sequence (B = 1) of 600 keys, most of them hidden", scores=normal("1 2 600"), mask=many
    )


def quarters(numbers):
    """Round to whole quarters, so that float32 represents them exactly even next to 1e4."""
    return np.round(4 * numbers) / 4


def unbroadcast(scores, mask):
    kept = scores.copy()
    kept[~mask] = -np.inf
    return silent(lambda scores, mask: softmax(scores))(kept, mask)


MISTAKES = (
    ("nan-when-nothing-allowed", filled(-np.inf),
     "Your rows in which nothing is allowed become NaN, because the largest of no scores is -inf, and -inf minus "
     "-inf is not a number. Such a row should be all zeros."),
    ("large-negative-fill", filled(-1e9),
     "In a row where everything is hidden, your keys still get weight, as when one large negative number replaces "
     "all the scores and cancels. The weights of such a row should be zero."),
    ("fill-not-low-enough", silent(filled(-1e4)),
     "You replace hidden scores by a negative number that real scores can reach. At scores near -1e4 the hidden keys "
     "win weight."),
    ("inverted-mask", lambda scores, mask: over_allowed(scores, ~mask),
     "You hide exactly the keys that may be attended to. True means “may attend”."),
    ("not-renormalised", not_renormalised,
     "You apply the mask after the softmax, so the rows no longer sum to 1, because the hidden keys still took their "
     "share."),
    ("masked-after-softmax", renormalised,
     "You take the softmax over all keys, then mask and divide. If a hidden score is far larger than the allowed "
     "ones, nothing is left to divide. Decide who may take part before the softmax."),
    ("largest-of-all-scores", lambda s, mask: over_own_sum(np.exp(s - s.max(axis=-1, keepdims=True)) * mask),
     "The largest score that you subtract may be a hidden one. If that is 1e4, all allowed exponentials vanish. "
     "Which scores may the maximum come from?"),
    ("unstable", unstable,
     "Your exponential overflows for large scores. Subtract the largest allowed score of each row first."),
    ("zero-score-taken-as-masked", lambda scores, mask: over_allowed(scores, scores * mask != 0),
     "You treat a score that happens to be exactly 0 as hidden. Only the mask should say what is hidden."),
    ("mask-not-broadcast", unbroadcast,
     "Your function works only for a mask of the scores' own shape. Indexing with a mask does not broadcast it, so "
     "bring it to the scores' shape."),
    ("ignores-mask", lambda scores, mask: softmax(scores),
     "Your mask has no effect. Hidden keys keep the weight of a plain softmax."),
    ("adds-the-mask", lambda scores, mask: softmax(scores + mask),
     "You add the mask to the scores, where True counts as 1. That favours the allowed keys a little and hides none."),
)  # fmt: skip

EXERCISE = exercise(
    masked_softmax,
    credit={"values": 0.4, "broadcasting": 0.2, "nothing allowed": 0.2, "extreme scores": 0.2},
    sizes=range(4, 10),
)
