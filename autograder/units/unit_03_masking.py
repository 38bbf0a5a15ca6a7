"""Unit 3, who may look at whom: masks, masked attention, a leak detector and the pairs to train on."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.special
import torch
import torch.nn.functional as F

from ..exercise import Case, Exercise, HostFunction, Leaf, Mistake

UNIT = "03_masking"
Array = np.ndarray


def _distinct(rng: np.random.Generator, count: int, low: int = 3, high: int = 9) -> list[int]:
    """`count` sizes in low … high, all different, so that no two axes can be taken for each other."""
    return [int(size) for size in rng.permutation(np.arange(low, high + 1))[:count]]


# ---------------------------------------------------------------------------------------------------------------------
# causal_mask


def _causal_mask(n: int) -> Array:
    rows, columns = np.indices((n, n))
    return columns <= rows


def _draw_causal_mask(rng: np.random.Generator) -> list[Case]:
    sizes = [*_distinct(rng, 4, 3, 12), int(rng.integers(20, 40))]
    cases = [Case("values", f"n = {n}", (n,), sizes={"n": n}) for n in sizes]
    cases += [
        Case("edge cases", label, (n,), sizes={"n": n}) for n, label in ((1, "a single token (n = 1)"), (2, "n = 2"))
    ]
    return cases


_CAUSAL_MASK = Exercise(
    name="causal_mask",
    unit=UNIT,
    returns=Leaf("bool array", "the mask"),
    reference=_causal_mask,
    draw=_draw_causal_mask,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "upper-triangle",
            "Rows and columns have changed places: here a token may look at itself and the future. Row i belongs to "
            "the query.",
            lambda n: np.triu(np.ones((n, n), bool)),
        ),
        Mistake(
            "inverted",
            "True and False have changed places: in this course True means “may attend”.",
            lambda n: np.triu(np.ones((n, n), bool), 1),
        ),
        Mistake(
            "excludes-itself",
            "The diagonal is missing: a token may look at itself, and without that the first token would see nothing.",
            lambda n: np.tri(n, k=-1, dtype=bool),
        ),
        Mistake(
            "sees-next",
            "One diagonal too many: every token sees the one after it, which is the very token it has to predict.",
            lambda n: np.tri(n, k=1, dtype=bool),
        ),
        Mistake(
            "float-mask",
            "The triangle is right, but it holds floats. A mask is an array of booleans: look at its dtype.",
            lambda n: np.tri(n),
        ),
        Mistake(
            "int-mask",
            "The triangle is right, but it holds integers. As an index, 0 and 1 mean something else than False and "
            "True.",
            lambda n: np.tri(n, dtype=int),
        ),
        Mistake(
            "additive-mask",
            "This is an additive mask, to be added to the scores. The exercise asks for booleans, True for “may "
            "attend”.",
            lambda n: np.where(np.tri(n, dtype=bool), 0.0, -np.inf),
        ),
        Mistake(
            "additive-upside-down",
            "This mask holds -inf where the token may look. And the exercise asks for booleans, not for numbers to "
            "add.",
            lambda n: np.where(np.tri(n, dtype=bool), -np.inf, 0.0),
        ),
        Mistake(
            "list-of-lists",
            "The pattern is right, but it is a list. Return a NumPy array of booleans.",
            lambda n: np.tri(n, dtype=bool).tolist(),
        ),
        Mistake(
            "flipped",
            "The staircase runs the wrong way: the first row must allow the first column only, the last row all "
            "columns.",
            lambda n: np.tri(n, dtype=bool)[::-1],
        ),
        Mistake(
            "mirrored",
            "The staircase starts at the last column. Row i may look at columns 0 to i, counted from the left.",
            lambda n: np.tri(n, dtype=bool)[:, ::-1],
        ),
        Mistake(
            "only-itself",
            "Here a token may look at itself alone. It may also look at all tokens before it.",
            lambda n: np.eye(n, dtype=bool),
        ),
        Mistake(
            "only-neighbour",
            "Here a token sees itself and one token back. A causal mask lets it see all tokens before it.",
            lambda n: np.eye(n, dtype=bool) | np.eye(n, k=-1, dtype=bool),
        ),
        Mistake(
            "both-neighbours",
            "Here a token sees its two neighbours, one of them in the future. It may see all tokens before it and "
            "none after.",
            lambda n: np.eye(n, k=1, dtype=bool) | np.eye(n, dtype=bool) | np.eye(n, k=-1, dtype=bool),
        ),
        Mistake(
            "only-recent",
            "Here a token sees itself and the last two before it. A causal mask lets it see all tokens before it.",
            lambda n: np.tri(n, dtype=bool) & ~np.tri(n, k=-3, dtype=bool),
        ),
        Mistake(
            "all-allowed",
            "Everything is allowed: nothing hides the future.",
            lambda n: np.ones((n, n), bool),
        ),
        Mistake(
            "extra-axis",
            "The pattern is right, with an axis too many: the result is (n, n).",
            lambda n: np.tri(n, dtype=bool)[None],
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# padding_mask


def _padding_mask(lengths: Array, m: int) -> Array:
    _, columns = np.indices((len(lengths), m))
    return columns < np.repeat(np.asarray(lengths), m).reshape(len(lengths), m)


def _draw_padding_mask(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, lengths: Array, m: int) -> None:
        cases.append(Case(criterion, label, (lengths, m), sizes={"m": m}))

    def some(batch: int, m: int, dtype: type = np.int64) -> Array:
        """Lengths of 1 to m - 1: at least two of them differ, they are not sorted, and the first is not the longest."""
        lengths = rng.integers(1, m, batch)
        lengths[:3] = rng.permutation(np.arange(1, m - 1))[:3]  # m is 5 or more
        lengths[1] = m - 1
        if lengths[2] < lengths[0]:
            lengths[0], lengths[2] = lengths[2], lengths[0]
        return lengths.astype(dtype)

    for dtype in (np.int64, np.int64, np.int32):
        batch, m = _distinct(rng, 2, 5, 10)
        add("values", f"B = {batch}, m = {m}", some(batch, m, dtype), m)
    batch, m = _distinct(rng, 2, 5, 10)
    add("values", "lengths that are a strided slice", np.repeat(some(batch, m), 2)[::2], m)
    batch, m = _distinct(rng, 2, 5, 10)
    lengths = some(batch, m)
    lengths[rng.integers(0, batch)] = 0
    add("edge cases", "an empty sequence (length 0)", lengths, m)
    batch, m = _distinct(rng, 2, 5, 10)
    lengths = some(batch, m)
    lengths[rng.integers(0, batch)] = m
    add("edge cases", "a sequence without padding (length m)", lengths, m)
    batch, m = _distinct(rng, 2, 3, 8)
    add("edge cases", "all lengths 0", np.zeros(batch, np.int64), m)
    add("edge cases", "one sequence (B = 1)", rng.integers(1, m, 1), m)
    add("edge cases", "one key (m = 1)", np.array([1, 0, 1]), 1)
    return cases


def _cumulative_padding(lengths: Array, m: int) -> Array:
    """Marks the last real token and fills leftwards: at length 0 the index -1 is the last column."""
    marks = np.zeros((len(lengths), m), bool)
    marks[np.arange(len(lengths)), lengths - 1] = True
    return np.logical_or.accumulate(marks[:, ::-1], axis=1)[:, ::-1]


_PADDING_MASK = Exercise(
    name="padding_mask",
    unit=UNIT,
    returns=Leaf("bool array", "the mask"),
    reference=_padding_mask,
    draw=_draw_padding_mask,
    credit={"values": 0.75, "edge cases": 0.25},
    mistakes=(
        Mistake(
            "inverted",
            "True and False have changed places: True marks the real tokens, which may be attended to, not the "
            "padding.",
            lambda lengths, m: np.arange(m) >= lengths[:, None],
        ),
        Mistake(
            "one-too-many",
            "One key too many is allowed in each row: columns are counted from 0, so the first `length` of them end "
            "before column `length`.",
            lambda lengths, m: np.arange(m) <= lengths[:, None],
        ),
        Mistake(
            "one-too-few",
            "One key too few is allowed in each row: the last real token of each sequence is hidden.",
            lambda lengths, m: np.arange(m) < lengths[:, None] - 1,
        ),
        Mistake(
            "transposed",
            "The result is (m, B): sequences are rows and keys are columns, so it should be (B, m).",
            lambda lengths, m: np.arange(m)[:, None] < lengths,
        ),
        Mistake(
            "counts-from-the-end",
            "The real tokens stand at the front of a sequence and the padding behind them; here it is the other way "
            "round.",
            lambda lengths, m: np.arange(m) >= m - lengths[:, None],
        ),
        Mistake(
            "longest-not-m",
            "The mask is as wide as the longest sequence. It should be m wide, however long the sequences are.",
            lambda lengths, m: np.arange(int(max(lengths))) < lengths[:, None],
        ),
        Mistake(
            "length-0",
            "An empty sequence comes out wrong: is an index like `length - 1` used, which is -1, the last column, "
            "for length 0?",
            _cumulative_padding,
        ),
        Mistake(
            "int-mask",
            "The pattern is right, but it holds integers. A mask is an array of booleans.",
            lambda lengths, m: (np.arange(m) < lengths[:, None]).astype(int),
        ),
        Mistake(
            "float-mask",
            "The pattern is right, but it holds floats. A mask is an array of booleans.",
            lambda lengths, m: (np.arange(m) < lengths[:, None]).astype(float),
        ),
        Mistake(
            "additive-mask",
            "This is an additive mask, to be added to the scores. The exercise asks for booleans, True for “may "
            "attend”.",
            lambda lengths, m: np.where(np.arange(m) < lengths[:, None], 0.0, -np.inf),
        ),
        Mistake(
            "query-axis",
            "The pattern is right, with an axis too many: the result is (B, m). The axis of the queries comes later.",
            lambda lengths, m: (np.arange(m) < lengths[:, None])[:, None, :],
        ),
        Mistake(
            "one-length-for-all",
            "Every row uses the length of the first sequence. Each row has a length of its own.",
            lambda lengths, m: np.arange(m) < np.full((len(lengths), 1), lengths[0]),
        ),
        Mistake(
            "longest-for-all",
            "Every row uses the longest length. Each row has a length of its own.",
            lambda lengths, m: np.arange(m) < np.full((len(lengths), 1), max(lengths)),
        ),
        Mistake(
            "shortest-for-all",
            "Every row uses the shortest length. Each row has a length of its own.",
            lambda lengths, m: np.arange(m) < np.full((len(lengths), 1), min(lengths)),
        ),
        Mistake(
            "rows-reversed",
            "The rows stand in reverse order. Row b belongs to sequence b.",
            lambda lengths, m: np.arange(m) < lengths[::-1, None],
        ),
        Mistake(
            "at-least-one",
            "An empty sequence gets one key. A length of 0 is a row of False.",
            lambda lengths, m: np.arange(m) < np.maximum(lengths, 1)[:, None],
        ),
        Mistake(
            "full-length",
            "A sequence without padding loses its last key. A length of m is a row of True.",
            lambda lengths, m: np.arange(m) < np.minimum(lengths, m - 1)[:, None],
        ),
        Mistake(
            "last-token-only",
            "Only one key per row is allowed, the last real one. All keys before it are real too.",
            lambda lengths, m: np.arange(m) == lengths[:, None] - 1,
        ),
        Mistake(
            "sorted-lengths",
            "The rows come sorted by length. Row b belongs to sequence b: keep the order of `lengths`.",
            lambda lengths, m: np.arange(m) < np.sort(lengths)[:, None],
        ),
        Mistake(
            "list-of-lists",
            "The pattern is right, but it is a list. Return a NumPy array of booleans.",
            lambda lengths, m: [[j < length for j in range(m)] for length in lengths.tolist()],
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# masked_softmax


def _masked_softmax(scores: Array, mask: Array) -> Array:
    allowed = np.broadcast_to(mask, scores.shape)
    width = scores.shape[-1]
    rows, allowed_rows = scores.reshape(-1, width), allowed.reshape(-1, width)
    weights = np.zeros(rows.shape)
    for row, choice, result in zip(rows, allowed_rows, weights, strict=True):
        if choice.any():
            result[choice] = scipy.special.softmax(row[choice])
    return weights.reshape(scores.shape)


def _some_allowed(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """A random mask: every row allows at least one key and hides at least one (where there are two)."""
    mask = rng.random(shape) < 0.55
    rows = mask.reshape(-1, shape[-1])
    for row in rows:
        if shape[-1] > 1 and (row.all() or not row.any()):
            row[:] = rng.permutation(np.arange(shape[-1]) < max(1, shape[-1] // 2))
    return mask


def _with_zeros(rng: np.random.Generator, scores: Array, mask: Array) -> Array:
    """Exact zeros among the allowed and among the hidden scores: neither means “masked”."""
    rows, allowed = scores.reshape(-1, scores.shape[-1]), np.broadcast_to(mask, scores.shape)
    for row, choice in zip(rows, allowed.reshape(rows.shape), strict=True):
        row[rng.choice(np.flatnonzero(choice))] = 0
        row[rng.choice(np.flatnonzero(~choice))] = 0
    return scores


def _extreme(rng: np.random.Generator, mask: Array, dtype: type = np.float64) -> Array:
    """Scores up to ±1e4; in every row a hidden one is +1e4, far above all that are allowed."""
    scores = rng.choice([-1e4, -5e3, 5e3], mask.shape) + np.round(4 * rng.standard_normal(mask.shape)) / 4
    for row, choice in zip(scores.reshape(-1, mask.shape[-1]), mask.reshape(-1, mask.shape[-1]), strict=True):
        row[rng.choice(np.flatnonzero(~choice))] = 1e4
    return scores.astype(dtype)


def _draw_masked_softmax(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, scores: Array, mask: Array, quiet: bool = False) -> None:
        sizes = dict(zip(("m", "n", "h", "B"), scores.shape[::-1], strict=False))
        if scores.ndim == 3:
            sizes = {"m": scores.shape[2], "n": scores.shape[1], "B": scores.shape[0]}
        cases.append(Case(criterion, label, (scores, mask), sizes=sizes, quiet=quiet))

    n, m = _distinct(rng, 2, 4, 9)
    mask = _some_allowed(rng, (n, m))
    add("values", "a matrix of scores", rng.standard_normal((n, m)), mask)
    add("values", "exact zeros among the scores", _with_zeros(rng, rng.standard_normal((n, m)), mask), mask)
    batch, n, m = _distinct(rng, 3)
    scores = rng.standard_normal((batch, n, m)).astype(np.float32)
    add("values", "a batch of scores, float32", scores, _some_allowed(rng, scores.shape))
    n, m = _distinct(rng, 2, 4, 9)
    add("values", "scores in column order", np.asfortranarray(rng.standard_normal((n, m))), _some_allowed(rng, (n, m)))
    n, m = _distinct(rng, 2, 4, 9)
    add("values", "nothing hidden", rng.standard_normal((n, m)), np.ones((n, m), bool))

    heads, batch, n, m = _distinct(rng, 4, 3, 7)
    add(
        "broadcasting",
        "a mask (n, m) for scores (B, n, m)",
        rng.standard_normal((batch, n, m)),
        _some_allowed(rng, (n, m)),
    )
    add(
        "broadcasting",
        "a padding mask (B, 1, m) for scores (B, n, m)",
        rng.standard_normal((batch, n, m)),
        _some_allowed(rng, (batch, 1, m)),
    )
    add(
        "broadcasting",
        "a mask (B, 1, 1, m) for scores (B, h, n, m), float32",
        rng.standard_normal((batch, heads, n, m)).astype(np.float32),
        _some_allowed(rng, (batch, 1, 1, m)),
    )
    add("broadcasting", "a mask (m,) for scores (n, m)", rng.standard_normal((n, m)), _some_allowed(rng, (m,)))
    column = rng.permutation(np.arange(n) < 2)[:, None]
    add("broadcasting", "a mask (n, 1) for scores (n, m)", rng.standard_normal((n, m)), column)

    n, m = _distinct(rng, 2, 4, 9)
    mask = _some_allowed(rng, (n, m))
    mask[rng.permutation(n)[:2]] = False
    add("nothing allowed", "rows where nothing is allowed", rng.standard_normal((n, m)), mask, quiet=True)
    batch, n, m = _distinct(rng, 3)
    mask = np.arange(m) < rng.permutation([0, 2, *rng.integers(1, m, batch - 2)])[:, None, None]
    add("nothing allowed", "a batch with an empty sequence", rng.standard_normal((batch, n, m)), mask, quiet=True)
    add("nothing allowed", "nothing allowed anywhere", rng.standard_normal((n, m)), np.zeros((n, m), bool), quiet=True)

    n, m = _distinct(rng, 2, 4, 9)
    mask = _some_allowed(rng, (n, m))
    add("extreme scores", "scores of ±1e4, the largest of them hidden", _extreme(rng, mask), mask)
    add("extreme scores", "scores of ±1e4, float32", _extreme(rng, mask, np.float32), mask)
    base = np.where(np.arange(n) % 2 == 0, -1e4, 0)[:, None]
    low = np.where(mask, base, 0) + rng.standard_normal(mask.shape)
    add("extreme scores", "rows of allowed scores near -1e4 beside rows near 0", low, mask)
    high = 1e4 + np.round(4 * rng.standard_normal(mask.shape)) / 4
    add("extreme scores", "all scores near +1e4", high, mask)
    add("extreme scores", "a single row (m,)", rng.standard_normal(m), _some_allowed(rng, (m,)))
    add("extreme scores", "a single key (m = 1)", rng.standard_normal((n, 1)), np.ones((n, 1), bool))
    return cases


def _softmax(z: Array, axis: int | None = -1) -> Array:
    """A plain stable softmax, for the wrong implementations to build on."""
    with np.errstate(all="ignore"):
        powers = np.exp(z - z.max(axis=axis, keepdims=True))
        return powers / powers.sum(axis=axis, keepdims=True)


def _filled(scores: Array, mask: Array, fill: float, axis: int | None = -1) -> Array:
    return _softmax(np.where(mask, scores, fill), axis)


def _silent(weights: Array, mask: Array) -> Array:
    """Rows with nothing allowed set to zero: for mistakes that lie elsewhere."""
    return np.where(np.broadcast_to(mask, weights.shape).any(axis=-1, keepdims=True), weights, 0)


def _renormalised(scores: Array, mask: Array) -> Array:
    kept = _softmax(scores) * mask
    with np.errstate(all="ignore"):
        return kept / kept.sum(axis=-1, keepdims=True)


def _unstable(scores: Array, mask: Array) -> Array:
    with np.errstate(all="ignore"):
        powers = np.where(mask, np.exp(scores), 0)
        total = powers.sum(axis=-1, keepdims=True)
        return powers / np.where(total == 0, 1, total)


def _zero_means_masked(scores: Array, mask: Array) -> Array:
    product = scores * mask
    return _silent(_filled(scores, product != 0, -np.inf), product != 0)


def _largest_of_all(scores: Array, mask: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True)) * mask
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)


def _one_largest(scores: Array, mask: Array) -> Array:
    kept = np.where(mask, scores, -np.inf)
    powers = np.exp(kept - max(kept.max(), -1e5))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)


def _unbroadcast(scores: Array, mask: Array) -> Array:
    scores = scores.copy()
    scores[~mask] = -np.inf
    return _silent(_softmax(scores), mask)


def _with_epsilon(scores: Array, mask: Array) -> Array:
    kept = np.where(mask, scores, -np.inf)
    largest = kept.max(axis=-1, keepdims=True)
    powers = np.exp(kept - np.where(np.isfinite(largest), largest, 0))
    return powers / (powers.sum(axis=-1, keepdims=True) + 1e-5)


_MASKED_SOFTMAX = Exercise(
    name="masked_softmax",
    unit=UNIT,
    returns=Leaf("float array", "the weights", rows_sum_to_one=True),
    reference=_masked_softmax,
    draw=_draw_masked_softmax,
    credit={"values": 0.4, "broadcasting": 0.2, "nothing allowed": 0.2, "extreme scores": 0.2},
    mistakes=(
        Mistake(
            "nan-when-nothing-allowed",
            "Rows in which nothing is allowed become NaN: the largest of no scores is -inf, and -inf minus -inf is "
            "not a number. "
            "Such a row should be all zeros.",
            lambda scores, mask: _filled(scores, mask, -np.inf),
        ),
        Mistake(
            "large-negative-fill",
            "Hidden scores are replaced by one large negative number. In a row where everything is hidden that "
            "number cancels, "
            "and the weights come out as if all keys were allowed alike; they should be zero.",
            lambda scores, mask: _filled(scores, mask, -1e9),
        ),
        Mistake(
            "fill-not-low-enough",
            "Hidden scores are replaced by a negative number that real scores can reach: at scores near -1e4 the "
            "hidden keys win weight.",
            lambda scores, mask: _filled(scores, mask, -1e4),
        ),
        Mistake(
            "inverted-mask",
            "Exactly the keys that may be attended to are hidden: True means “may attend”.",
            lambda scores, mask: _silent(_filled(scores, ~mask, -np.inf), ~mask),
        ),
        Mistake(
            "inverted-mask-fill",
            "Exactly the keys that may be attended to are hidden: True means “may attend”. Rows where nothing is "
            "allowed need care too.",
            lambda scores, mask: _filled(scores, ~mask, -1e9),
        ),
        Mistake(
            "score-zero-is-not-masked",
            "Hidden scores are set to 0. But a score of 0 is an ordinary score, and exp(0) is 1: hidden keys still "
            "get weight.",
            lambda scores, mask: _softmax(scores * mask),
        ),
        Mistake(
            "not-renormalised",
            "The mask comes after the softmax, so the rows no longer sum to 1: the hidden keys still took their share.",
            lambda scores, mask: _softmax(scores) * mask,
        ),
        Mistake(
            "masked-after-softmax",
            "The softmax runs over all keys, then the mask and a division mend the sums. If a hidden score is far "
            "larger than the "
            "allowed ones, nothing is left to divide. Decide who may take part before the softmax.",
            _renormalised,
        ),
        Mistake(
            "largest-of-all-scores",
            "The largest score that is subtracted may be a hidden one. If that is 1e4, all allowed exponentials "
            "vanish. Whose largest should it be?",
            _largest_of_all,
        ),
        Mistake(
            "one-largest-for-all-rows",
            "The largest score of the whole array is subtracted. In a row that lies far below it all exponentials "
            "vanish: "
            "each row needs its own largest.",
            _one_largest,
        ),
        Mistake(
            "unstable",
            "The exponential overflows for large scores. Subtract the largest allowed score of each row first.",
            _unstable,
        ),
        Mistake(
            "zero-score-taken-as-masked",
            "A score that happens to be exactly 0 is treated as hidden. Let the mask alone say who is hidden.",
            _zero_means_masked,
        ),
        Mistake(
            "mask-not-broadcast",
            "It works only for a mask of the scores' own shape. Indexing with a mask does not broadcast it: bring "
            "it to the scores' shape.",
            _unbroadcast,
        ),
        Mistake(
            "wrong-axis",
            "The softmax runs over the queries, not the keys: each row, along the last axis, should sum to 1.",
            lambda scores, mask: _silent(np.nan_to_num(_filled(scores, mask, -np.inf, axis=0)), mask),
        ),
        Mistake(
            "axis-before-last",
            "The softmax runs along the last axis but one, over the queries. It should run along the last axis, "
            "over the keys.",
            lambda scores, mask: np.nan_to_num(_filled(scores, mask, -np.inf, axis=-2 if scores.ndim > 1 else -1)),
        ),
        Mistake(
            "all-entries-together",
            "One softmax runs over all entries together. Every row needs its own: give `max` and `sum` an axis.",
            lambda scores, mask: np.nan_to_num(_filled(scores, mask, -np.inf, axis=None)),
        ),
        Mistake(
            "ignores-mask",
            "The mask has no effect: hidden keys keep the weight of a plain softmax.",
            lambda scores, mask: _softmax(scores),
        ),
        Mistake(
            "adds-the-mask",
            "True counts as 1 when it is added to a score: that favours the allowed keys a little and hides none.",
            lambda scores, mask: _softmax(scores + mask),
        ),
        Mistake(
            "scaled-again",
            "The scores are divided by the root of their width on the way. This function takes them as they are.",
            lambda scores, mask: _filled_zero(scores / math.sqrt(scores.shape[-1]), mask),
        ),
        Mistake(
            "wrong-sign",
            "The smallest score wins the largest weight: look at the sign in the exponential.",
            lambda scores, mask: _filled_zero(-scores, mask),
        ),
        Mistake(
            "epsilon-in-the-sum",
            "A small number is added to the sum, so that no row sums to exactly 1. Treat the rows with nothing "
            "allowed apart.",
            _with_epsilon,
        ),
        Mistake(
            "no-softmax",
            "The allowed scores are divided by their sum, without exponentials. Weights are a softmax.",
            lambda scores, mask: (scores * mask) / (np.abs(scores * mask).sum(axis=-1, keepdims=True) + 1e-12),
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# masked_attention


def _masked_attention(Q: Array, K: Array, V: Array, mask: Array) -> tuple[Array, Array]:
    queries, keys, values = (torch.tensor(np.ascontiguousarray(a), dtype=torch.float64) for a in (Q, K, V))
    shape = (*Q.shape[:-1], K.shape[-2])
    allowed = torch.tensor(np.broadcast_to(mask, shape).copy())
    # The weights are the output for values that are the unit vectors.
    units = torch.eye(K.shape[-2], dtype=torch.float64).expand(*K.shape[:-2], -1, -1)
    heard = allowed.any(dim=-1, keepdim=True)
    output = F.scaled_dot_product_attention(queries, keys, values, attn_mask=allowed | ~heard)
    weights = F.scaled_dot_product_attention(queries, keys, units, attn_mask=allowed | ~heard)
    zero = torch.zeros((), dtype=torch.float64)
    return torch.where(heard, output, zero).numpy(), torch.where(heard, weights, zero).numpy()


def _qkv(
    rng: np.random.Generator, lead: tuple[int, ...], n: int, m: int, d_k: int, d_v: int, dtype: type = np.float64
) -> tuple[Array, Array, Array]:
    shapes = ((*lead, n, d_k), (*lead, m, d_k), (*lead, m, d_v))
    Q, K, V = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    return Q, K, V


def _draw_masked_attention(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, arrays: tuple[Array, Array, Array], mask: Array, quiet: bool = False) -> None:
        Q, K, V = arrays
        sizes = {"d_k": Q.shape[-1], "d_v": V.shape[-1], "n": Q.shape[-2], "m": K.shape[-2]}
        if Q.ndim > 2:
            sizes["B"] = Q.shape[0]
        cases.append(Case(criterion, label, (Q, K, V, mask), sizes=sizes, quiet=quiet))

    n, m, d_k, d_v = _distinct(rng, 4)
    add("values", "one sequence", _qkv(rng, (), n, m, d_k, d_v), _some_allowed(rng, (n, m)))
    n, d_k, d_v = _distinct(rng, 3)
    add("values", "one sequence with a causal mask", _qkv(rng, (), n, n, d_k, d_v), np.tri(n, dtype=bool))
    n, m, d_k, d_v = _distinct(rng, 4)
    arrays = _qkv(rng, (), n, m, d_k, d_v, np.float32)
    add("values", "one sequence, float32", arrays, _some_allowed(rng, (n, m)))
    n, m, d_k, d_v = _distinct(rng, 4)
    Q, K, V = _qkv(rng, (), n, m, 2 * d_k, d_v)
    arrays = (np.asfortranarray(Q[:, ::2]), K[:, ::2], np.asfortranarray(V))
    add("values", "arrays that are slices of larger ones", arrays, _some_allowed(rng, (n, m)))

    batch, n, m, d_k, d_v = _distinct(rng, 5)
    add(
        "batches",
        "a batch, each with its own mask",
        _qkv(rng, (batch,), n, m, d_k, d_v),
        _some_allowed(rng, (batch, n, m)),
    )
    add("batches", "a batch with a mask (n, m)", _qkv(rng, (batch,), n, m, d_k, d_v), _some_allowed(rng, (n, m)))
    batch, n, m, d_k, d_v = _distinct(rng, 5)
    lengths = rng.permutation([1, m - 1, *rng.integers(1, m, batch - 2)])
    padding = np.arange(m) < lengths[:, None, None]
    add("batches", "a batch with padding, mask (B, 1, m)", _qkv(rng, (batch,), n, m, d_k, d_v), padding)
    heads, batch, n, m, d_k, d_v = _distinct(rng, 6, 2, 8)
    m = max(m, 3)
    arrays = _qkv(rng, (batch, heads), n, m, d_k, d_v)
    add("batches", "two leading axes (B, h, n, d)", arrays, _some_allowed(rng, (batch, 1, n, m)))

    n, m, d_k, d_v = _distinct(rng, 4)
    mask = _some_allowed(rng, (n, m))
    mask[rng.permutation(n)[:2]] = False
    add("edge cases", "queries that may attend to nothing", _qkv(rng, (), n, m, d_k, d_v), mask, quiet=True)
    batch, n, m, d_k, d_v = _distinct(rng, 5)
    lengths = rng.permutation([0, m, *rng.integers(1, m, batch - 2)])
    padding = np.arange(m) < lengths[:, None, None]
    add("edge cases", "a batch with an empty sequence", _qkv(rng, (batch,), n, m, d_k, d_v), padding, quiet=True)
    n, m, d_k, d_v = _distinct(rng, 4)
    Q, K, V = _qkv(rng, (), n, m, d_k, d_v)
    scores = Q @ K.T / math.sqrt(d_k)
    mask = scores < scores.max(axis=-1, keepdims=True)
    Q *= 1e4 / np.abs(scores).max(axis=-1, keepdims=True)
    add("edge cases", "scores of ±1e4, the largest of each row hidden", (Q, K, V), mask)
    n, m, d_k, d_v = _distinct(rng, 4)
    Q, K, V = _qkv(rng, (), n, m, d_k, d_v)
    scores = Q @ K.T / math.sqrt(d_k)
    low, high = scores.min(axis=-1, keepdims=True), scores.max(axis=-1, keepdims=True)
    Q *= np.where(-low < high, -1, 1) * 1e4 / np.abs(scores).max(axis=-1, keepdims=True)
    rank = np.argsort(np.argsort(Q @ K.T, axis=-1), axis=-1)
    mask = rank < 1 + np.arange(n)[:, None] % 2
    add("edge cases", "allowed scores down to -1e4, all larger ones hidden", (Q, K, V), mask)
    m, d_k, d_v = _distinct(rng, 3)
    add("edge cases", "a single query (n = 1)", _qkv(rng, (), 1, m, d_k, d_v), _some_allowed(rng, (1, m)))
    n, d_k, d_v = _distinct(rng, 3)
    mask = rng.permutation(np.arange(n) < 2)[:, None]
    add("edge cases", "a single key (m = 1)", _qkv(rng, (), n, 1, d_k, d_v), mask, quiet=True)
    return cases


def _attend(
    Q: Array, K: Array, V: Array, mask: Array, scale: float | None = None, weigh: Callable | None = None
) -> tuple[Array, Array]:
    """Masked attention with one part exchanged, for the wrong implementations."""
    scores = Q @ np.swapaxes(K, -1, -2) * (1 / math.sqrt(Q.shape[-1]) if scale is None else scale)
    weights = _filled_zero(scores, mask) if weigh is None else weigh(scores, mask)
    return weights @ V, weights


def _filled_zero(scores: Array, mask: Array) -> Array:
    return _silent(_filled(scores, mask, -np.inf), mask)


def _all_axes_transposed(Q: Array, K: Array, V: Array, mask: Array) -> tuple[Array, Array]:
    weights = _filled_zero(Q @ K.T / math.sqrt(Q.shape[-1]), mask)
    return weights @ V, weights


def _three_axes_only(Q: Array, K: Array, V: Array, mask: Array) -> tuple[Array, Array]:
    weights = _filled_zero(Q @ K.transpose(0, 2, 1) / math.sqrt(Q.shape[-1]), mask)
    return weights @ V, weights


def _masked_then_scaled(Q: Array, K: Array, V: Array, mask: Array) -> tuple[Array, Array]:
    output, weights = _attend(Q, K, V, mask, scale=1.0)
    root = math.sqrt(Q.shape[-1])
    return output / root, weights / root


def _keys_as_values(Q: Array, K: Array, V: Array, mask: Array) -> tuple[Array, Array]:
    weights = _attend(Q, K, V, mask)[1]
    return weights @ K, weights


def _reshaped_keys(Q: Array, K: Array, V: Array, mask: Array) -> tuple[Array, Array]:
    turned = K.reshape(*K.shape[:-2], K.shape[-1], K.shape[-2])
    weights = _filled_zero(Q @ turned / math.sqrt(Q.shape[-1]), mask)
    return weights @ V, weights


def _first_mask_only(Q: Array, K: Array, V: Array, mask: Array) -> tuple[Array, Array]:
    return _attend(Q, K, V, mask[0] if mask.ndim > 2 else mask)


_MASKED_ATTENTION = Exercise(
    name="masked_attention",
    unit=UNIT,
    returns=(Leaf("float array", "the output"), Leaf("float array", "the weights", rows_sum_to_one=True)),
    reference=_masked_attention,
    draw=_draw_masked_attention,
    credit={"values": 0.5, "batches": 0.25, "edge cases": 0.25},
    mistakes=(
        Mistake(
            "all-axes-transposed",
            "`K.T` reverses all axes. That is right for one sequence; for a batch only the last two axes should "
            "change places.",
            _all_axes_transposed,
        ),
        Mistake(
            "three-axes-only",
            "It works for arrays with exactly three axes. Change the last two axes, however many stand before them.",
            _three_axes_only,
        ),
        Mistake(
            "not-scaled",
            "The scores are not divided by the square root of d_k.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, scale=1.0),
        ),
        Mistake(
            "divided-by-d",
            "The scores are divided by d_k, not by its square root.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, scale=1 / Q.shape[-1]),
        ),
        Mistake(
            "scaled-by-d-v",
            "The scores are divided by √d_v, the width of the values. They are dot products of d_k entries.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, scale=1 / math.sqrt(V.shape[-1])),
        ),
        Mistake(
            "scaled-by-m",
            "The scores are divided by the square root of the number of keys, not of their width d_k.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, scale=1 / math.sqrt(K.shape[-2])),
        ),
        Mistake(
            "scaled-by-n",
            "The scores are divided by the square root of the number of queries, not of their width d_k.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, scale=1 / math.sqrt(Q.shape[-2])),
        ),
        Mistake(
            "scaled-by-first-axis",
            "The scores are divided by the root of `Q.shape[0]`, which is no width. The width d_k is the last axis.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, scale=1 / math.sqrt(Q.shape[0])),
        ),
        Mistake(
            "scaled-by-second-axis",
            "The scores are divided by the root of `Q.shape[1]`, which is the width for one sequence, but not for a "
            "batch. "
            "The width d_k is the last axis.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, scale=1 / math.sqrt(Q.shape[1])),
        ),
        Mistake(
            "divided-by-8",
            "The scores are divided by 8, which is the root of 64. The width d_k is another one here: read it off `Q`.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, scale=1 / 8),
        ),
        Mistake(
            "divided-by-2",
            "The scores are always divided by 2, which is the root of 4. The width d_k differs: read it off `Q`.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, scale=1 / 2),
        ),
        Mistake(
            "scaled-up",
            "The scores are multiplied by √d_k where they should be divided by it.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, scale=math.sqrt(Q.shape[-1])),
        ),
        Mistake(
            "scaled-after-softmax",
            "The weights are divided by √d_k after the softmax, so that no row sums to 1. Scale the scores before it.",
            _masked_then_scaled,
        ),
        Mistake(
            "nan-when-nothing-allowed",
            "A query that may attend to nothing gets NaN. Its weights should be zeros, and so its output.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, weigh=lambda s, k: _filled(s, k, -np.inf)),
        ),
        Mistake(
            "large-negative-fill",
            "A query that may attend to nothing gets the mean of all values: one large negative number cancels in "
            "the softmax. "
            "Its weights should be zeros.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, weigh=lambda s, k: _filled(s, k, -1e9)),
        ),
        Mistake(
            "fill-not-low-enough",
            "Hidden scores are replaced by a negative number that real scores can reach: at scores near -1e4 hidden "
            "keys "
            "win weight.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, weigh=lambda s, k: _silent(_filled(s, k, -1e4), k)),
        ),
        Mistake(
            "ignores-mask",
            "The mask has no effect: hidden keys keep their weight.",
            lambda Q, K, V, mask: _attend(Q, K, V, np.ones((), bool)),
        ),
        Mistake(
            "inverted-mask",
            "Exactly the keys that may be attended to are hidden: True means “may attend”.",
            lambda Q, K, V, mask: _attend(Q, K, V, ~mask),
        ),
        Mistake(
            "output-not-masked",
            "The weights are masked, but the output is mixed from weights that are not: use the same weights for both.",
            lambda Q, K, V, mask: (_attend(Q, K, V, np.ones((), bool))[0], _attend(Q, K, V, mask)[1]),
        ),
        Mistake(
            "weights-not-masked",
            "The output is right, but the weights that are returned are not masked: return those that made the output.",
            lambda Q, K, V, mask: (_attend(Q, K, V, mask)[0], _attend(Q, K, V, np.ones((), bool))[1]),
        ),
        Mistake(
            "always-causal",
            "It uses a causal mask of its own, whatever mask it is given.",
            lambda Q, K, V, mask: _attend(Q, K, V, np.tri(Q.shape[-2], K.shape[-2], dtype=bool)),
        ),
        Mistake(
            "also-causal",
            "It adds a causal mask to the mask that it is given. The caller decides who may look at whom.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask & np.tri(Q.shape[-2], K.shape[-2], dtype=bool)),
        ),
        Mistake(
            "not-renormalised",
            "The mask comes after the softmax: the rows of the weights no longer sum to 1.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, weigh=lambda s, k: _softmax(s) * k),
        ),
        Mistake(
            "masked-after-softmax",
            "The softmax runs over all keys, and the mask and a division come after it. Where a hidden score is far "
            "above the "
            "allowed ones, or nothing is allowed, that is zero divided by zero.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, weigh=_renormalised),
        ),
        Mistake(
            "score-zero-is-not-masked",
            "Hidden scores are set to 0, which is an ordinary score: hidden keys still get weight.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, weigh=lambda s, k: _softmax(s * k)),
        ),
        Mistake(
            "softmax-over-queries",
            "The softmax runs over the queries: the columns of the weights sum to 1, but the rows should.",
            lambda Q, K, V, mask: _attend(
                Q, K, V, mask, weigh=lambda s, k: np.nan_to_num(_filled(s, k, -np.inf, axis=-2))
            ),
        ),
        Mistake(
            "unstable",
            "The exponential overflows for large scores. Subtract the largest allowed score of each row first.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask, weigh=_unstable),
        ),
        Mistake(
            "returns-scores",
            "The second result holds the scores, not the weights: the softmax is missing from it.",
            lambda Q, K, V, mask: (
                _attend(Q, K, V, mask)[0],
                Q @ np.swapaxes(K, -1, -2) / math.sqrt(Q.shape[-1]),
            ),
        ),
        Mistake(
            "swapped-results",
            "The two results come in the wrong order: first the output, then the weights.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask)[::-1],
        ),
        Mistake(
            "output-only",
            "Only the output is returned. The function returns two arrays, the output and the weights.",
            lambda Q, K, V, mask: _attend(Q, K, V, mask)[0],
        ),
        Mistake(
            "keys-as-values",
            "The weights mix the keys. The output is a mixture of the values.",
            _keys_as_values,
        ),
        Mistake(
            "keys-reshaped",
            "The keys were reshaped where they should be transposed: a reshape keeps the entries in reading order.",
            _reshaped_keys,
        ),
        Mistake(
            "no-values",
            "The output is missing: the weights must still be multiplied with the values.",
            lambda Q, K, V, mask: (_attend(Q, K, V, mask)[1],) * 2,
        ),
        Mistake(
            "first-mask-only",
            "All sequences of the batch use the mask of the first one.",
            _first_mask_only,
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# leaks_future


def _rows_attention(Q: Array, K: Array, V: Array, seen: Callable[[int], list[int]]) -> Array:
    """Attention in which query i looks at the positions `seen(i)` and at nothing else, not even in rounding."""
    output = np.empty((len(Q), V.shape[-1]))
    for i, query in enumerate(Q):
        positions = seen(i)
        if not positions:
            output[i] = 0
            continue
        weights = scipy.special.softmax(K[positions] @ query / math.sqrt(len(query)))
        output[i] = weights @ V[positions]
    return output


def _causal(Q: Array, K: Array, V: Array) -> Array:
    return _rows_attention(Q, K, V, lambda i: list(range(i + 1)))


def _everything(Q: Array, K: Array, V: Array) -> Array:
    return _rows_attention(Q, K, V, lambda i: list(range(len(K))))


def _one_ahead(Q: Array, K: Array, V: Array) -> Array:
    return _rows_attention(Q, K, V, lambda i: list(range(min(i + 2, len(K)))))


def _first_sees_second(Q: Array, K: Array, V: Array) -> Array:
    return _rows_attention(Q, K, V, lambda i: list(range(max(i + 1, 2))))


def _last_but_one_sees_last(Q: Array, K: Array, V: Array) -> Array:
    return _rows_attention(Q, K, V, lambda i: list(range(len(K) if i == len(K) - 2 else i + 1)))


def _first_sees_last(Q: Array, K: Array, V: Array) -> Array:
    return _rows_attention(Q, K, V, lambda i: [0, len(K) - 1] if i == 0 else list(range(i + 1)))


def _window(Q: Array, K: Array, V: Array) -> Array:
    return _rows_attention(Q, K, V, lambda i: list(range(max(0, i - 1), i + 1)))


def _smeared_values(Q: Array, K: Array, V: Array) -> Array:
    """Every value is mixed with the one behind it; the weights are causal."""
    behind = np.concatenate([V[1:], np.zeros_like(V[:1])])
    return _causal(Q, K, V + 0.5 * behind)


def _masked_after(Q: Array, K: Array, V: Array) -> Array:
    """Masked after the softmax: later keys change the weights' sum, later values change nothing."""
    weights = scipy.special.softmax(Q @ K.T / math.sqrt(Q.shape[-1]), axis=-1)
    return _rows_of_products(weights, V)


def _rows_of_products(weights: Array, V: Array) -> Array:
    return np.stack([weights[i, : i + 1] @ V[: i + 1] for i in range(len(V))])


def _later_queries(Q: Array, K: Array, V: Array) -> Array:
    return _causal(Q + Q[::-1] + Q.mean(axis=0), K, V)


def _itself(Q: Array, K: Array, V: Array) -> Array:
    return _rows_attention(Q, K, V, lambda i: [i])


def _strict_past(Q: Array, K: Array, V: Array) -> Array:
    """Attention to the positions before, without the position itself; the first one gets zeros."""
    return _rows_attention(Q, K, V, lambda i: list(range(i)))


def _rounding(Q: Array, K: Array, V: Array) -> Array:
    """Causal up to relative differences of about 1e-12, as another order of summation makes them."""
    output = _causal(Q, K, V)
    ripple = np.sin(1e3 * (K.sum() + V.sum()) + np.arange(output.size)).reshape(output.shape)
    return output * (1 + 3e-12 * ripple)


def _faint(Q: Array, K: Array, V: Array) -> Array:
    """Causal but for one part in a thousand of the values to come."""
    output = _causal(Q, K, V)
    for i in range(len(V) - 1):
        output[i] += 1e-3 * np.tanh(V[i + 1 :]).sum(axis=0)
    return output


def _lowering(V_0: Array) -> Callable[..., Array]:
    """Every position loses by how much the next value differs from that of `V_0`: its output only ever falls."""

    def attend(Q: Array, K: Array, V: Array) -> Array:
        change = np.abs(V - V_0)
        return _causal(Q, K, V) - np.concatenate([change[1:], np.zeros_like(change[:1])])

    return attend


def _cancelling(V_0: Array) -> Callable[..., Array]:
    """What the next value adds to the first feature it takes from the second: the mean stays."""

    def attend(Q: Array, K: Array, V: Array) -> Array:
        output = _causal(Q, K, V)
        change = np.abs(V - V_0).sum(axis=1)[1:]
        output[:-1, 0] += change
        output[:-1, 1] -= change
        return output

    return attend


def _negative(Q: Array, K: Array, V: Array) -> Array:
    """Causal but for rounding, and every output far below 0."""
    output = _causal(Q, K, V) - 50
    ripple = np.sin(1e3 * (K.sum() + V.sum()) + np.arange(output.size)).reshape(output.shape)
    return output * (1 + 3e-12 * ripple)


def _times(factor: float, attend: Callable[..., Array]) -> Callable[..., Array]:
    return lambda Q, K, V: factor * attend(Q, K, V)


def _guarded(attend: Callable[..., Array], *arrays: Array) -> HostFunction:
    """`attend` as the exercise promises it: it refuses all but finite arrays of the given shapes."""
    shapes = [array.shape for array in arrays]

    def function(Q: Array, K: Array, V: Array) -> Array:
        for name, array, shape in zip("QKV", (Q, K, V), shapes, strict=True):
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "iuf":
                raise ValueError(f"attend takes three arrays of numbers; {name} is none")
            if array.shape != shape:
                raise ValueError(f"attend holds a mask: {name} must keep its shape {shape}")
            if not np.isfinite(array).all():
                raise ValueError(f"attend takes finite numbers: {name} holds NaN or infinity")
        return attend(*(array.astype(np.float64) for array in (Q, K, V)))

    return HostFunction(function)


def _leaks_future(attend: Callable[..., Array], Q: Array, K: Array, V: Array) -> bool:
    """Large random changes of all later keys, values or both, behind every position, several times."""
    rng = np.random.default_rng(0)
    before = np.asarray(attend(Q, K, V))
    limit = 1e-6 * np.abs(before).max()
    for seen in range(1, len(Q)):
        for changed in ("K", "V", "KV") * 3:
            keys, values = np.array(K, dtype=np.float64), np.array(V, dtype=np.float64)
            if "K" in changed:
                keys[seen:] += 3 * rng.standard_normal(keys[seen:].shape)
            if "V" in changed:
                values[seen:] += 3 * rng.standard_normal(values[seen:].shape)
            after = np.asarray(attend(Q, keys, values))
            if np.abs(after - before)[:seen].max() > limit:
                return True
    return False


def _draw_leaks_future(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(
        criterion: str, label: str, attend: Callable[..., Array], n: int | None = None, dtype: type = float
    ) -> None:
        size, d_k, d_v = _distinct(rng, 3, 2, 7)
        size = max(size, 4) if n is None else n
        while size in (d_k, d_v) or d_k == d_v:
            d_k, d_v = _distinct(rng, 2, 2, 7)
        Q, K, V = _qkv(rng, (), size, size, d_k, d_v, dtype)
        if len(cases) % 3 == 2:
            K, V = np.asfortranarray(K), np.asfortranarray(V)
        call = (_guarded(attend, Q, K, V), Q, K, V)
        cases.append(Case(criterion, label, call, sizes={"n": size, "d_k": d_k, "d_v": d_v}))

    def add_same_shapes(attend: Callable[..., Array]) -> None:
        """The last case again with other numbers: whoever keeps an earlier output now sees a change."""
        last = cases[-1]
        Q, K, V = (np.ascontiguousarray(array[::-1]) for array in last.args[1:])
        call = (_guarded(attend, Q, K, V), Q, K, V)
        cases.append(Case(last.criterion, f"{last.label}, other numbers", call, sizes=last.sizes))

    add("values", "attention without a mask", _everything)
    add("values", "causal attention", _causal)
    add_same_shapes(_causal)
    add("values", "a leak through the values alone", _smeared_values)
    add("values", "attention to a window of the past", _window)
    add("values", "a leak through the keys alone", _masked_after)
    add("values", "causal attention that mixes in later queries", _later_queries)
    add("values", "every position sees one step ahead", _one_ahead)
    add("values", "attention to the positions before, without the position itself", _strict_past)
    add("values", "attention of every position to itself alone", _itself)

    add("hidden leaks", "only the first position leaks, from the second", _first_sees_second)
    add("hidden leaks", "only the last position leaks, into the one before it", _last_but_one_sees_last)
    add("hidden leaks", "only the first position leaks, from the last", _first_sees_last)

    add("sizes of change", "causal but for rounding", _rounding)
    add("sizes of change", "a small leak", _faint)
    add("sizes of change", "a small leak, all outputs tiny", _times(1e-6, _faint))
    add("sizes of change", "causal but for rounding, all outputs huge", _times(1e7, _rounding))
    add("sizes of change", "causal but for rounding, all outputs negative", _negative)
    for label, made in (
        ("a leak that only ever lowers the output", _lowering),
        ("a leak that leaves the mean", _cancelling),
    ):
        Q, K, V = _qkv(rng, (), 5, 5, 3, 4, float)
        call = (_guarded(made(V), Q, K, V), Q, K, V)
        cases.append(Case("hidden leaks", label, call, sizes={"n": 5, "d_k": 3, "d_v": 4}))
    Q, K, V = _qkv(rng, (), 5, 5, 3, 4, float)
    K[1:] = V[1:] = 0
    call = (_guarded(_everything, Q, K, V), Q, K, V)
    cases.append(Case("hidden leaks", "a leak, and all later keys and values are 0", call, sizes={"n": 5}))
    add("edge cases", "a single token (n = 1)", _everything, n=1)
    add("edge cases", "two tokens, a leak (n = 2)", _everything, n=2)
    add("edge cases", "two tokens, causal, float32 inputs", _causal, n=2, dtype=np.float32)
    return cases


def _exceeds(after: Array, before: Array, limit: float) -> bool:
    return float(np.abs(after - before).max(initial=0)) > limit


def _detector(
    change: str = "KV",
    differs: Callable[[Array, Array, float], bool] = _exceeds,
    splits: Callable[[int], list[int]] = lambda n: list(range(1, n)),
    changed: Callable[[int], slice] = lambda seen: slice(seen, None),
    compared: Callable[[int], slice] = lambda seen: slice(0, seen),
) -> Callable[..., bool]:
    """A leak detector with one part exchanged, for the wrong implementations.

    For every `seen` in splits(n) it changes the rows changed(seen) of the named arrays and looks whether the rows
    compared(seen) of the output differ.
    """

    def detector(attend: Callable[..., Array], Q: Array, K: Array, V: Array) -> bool:
        rng = np.random.default_rng(7)
        before = np.asarray(attend(Q, K, V))
        limit = 1e-6 * float(np.abs(before).max())
        for seen in splits(len(Q)):
            arrays = {name: np.array(array, dtype=np.float64) for name, array in (("Q", Q), ("K", K), ("V", V))}
            for name in change:
                part = arrays[name][changed(seen)]
                part += 3 * rng.standard_normal(part.shape)
            after = np.asarray(attend(*arrays.values()))
            if differs(after[compared(seen)], before[compared(seen)], limit):
                return True
        return False

    return detector


def _truncates(attend: Callable[..., Array], Q: Array, K: Array, V: Array) -> bool:
    before = attend(Q, K, V)
    return any(_exceeds(attend(Q[:seen], K[:seen], V[:seen]), before[:seen], 1e-6) for seen in range(1, len(Q)))


_LEAKS_FUTURE = Exercise(
    name="leaks_future",
    unit=UNIT,
    returns=Leaf("bool", "the answer"),
    reference=_leaks_future,
    draw=_draw_leaks_future,
    credit={"values": 0.5, "hidden leaks": 0.2, "sizes of change": 0.2, "edge cases": 0.1},
    mistakes=(
        Mistake(
            "always-false",
            "It never finds a leak. Change the later keys and values and look at the outputs before them.",
            lambda attend, Q, K, V: False,
        ),
        Mistake("always-true", "It finds a leak everywhere, even in causal attention.", lambda attend, Q, K, V: True),
        Mistake(
            "keys-only",
            "Only keys are changed. A leak can also run through the values alone.",
            _detector(change="K"),
        ),
        Mistake(
            "values-only",
            "Only values are changed. A leak can also run through the keys alone.",
            _detector(change="V"),
        ),
        Mistake(
            "queries-too",
            "Later queries are changed as well. They do not count: leave Q as it is.",
            _detector(change="QKV"),
        ),
        Mistake(
            "changes-the-present",
            "The key and value of the position itself are changed too. A position may look at itself; change what "
            "comes after it.",
            _detector(splits=lambda n: list(range(n)), compared=lambda seen: slice(0, seen + 1)),
        ),
        Mistake(
            "compares-all-rows",
            "All outputs are compared, also those at and after the change, which may well depend on it. Compare the "
            "earlier ones.",
            _detector(compared=lambda seen: slice(None)),
        ),
        Mistake(
            "last-position-only",
            "Only the last key and value are changed. A leak from an earlier position stays unseen.",
            _detector(splits=lambda n: [n - 1] if n > 1 else []),
        ),
        Mistake(
            "first-output-only",
            "Only the first output is compared. Later positions can leak while the first does not.",
            _detector(compared=lambda seen: slice(0, 1)),
        ),
        Mistake(
            "one-step-only",
            "Each output is compared only after a change of the very next position. A leak can come from further "
            "ahead.",
            _detector(compared=lambda seen: slice(seen - 1, seen), changed=lambda seen: slice(seen, seen + 1)),
        ),
        Mistake(
            "absolute-tolerance",
            "The change is held against a fixed number. Outputs can be tiny or huge: hold it against their own size.",
            _detector(differs=lambda after, before, limit: _exceeds(after, before, 1e-6)),
        ),
        Mistake(
            "allclose-defaults",
            "`np.allclose` has an absolute tolerance of 1e-8 unless told otherwise: on tiny outputs it sees no "
            "change at all.",
            _detector(differs=lambda after, before, limit: not np.allclose(after, before)),
        ),
        Mistake(
            "no-tolerance",
            "Any difference counts as a leak, even one of rounding. Allow for a relative difference of 1e-6.",
            _detector(differs=lambda after, before, limit: not np.array_equal(after, before)),
        ),
        Mistake(
            "loose-tolerance",
            "The tolerance is so wide that a small but real leak slips through. Count every change above 1e-6 of "
            "the outputs' size.",
            _detector(differs=lambda after, before, limit: _exceeds(after, before, 2e4 * limit)),
        ),
        Mistake(
            "refused-arrays",
            "`attend` refused its arrays: it may hold a mask for exactly n positions. Call it only with finite "
            "arrays of the given shapes.",
            _truncates,
        ),
        Mistake(
            "inverted",
            "The answers are upside down: True means that the future leaks.",
            lambda attend, Q, K, V: not _detector()(attend, Q, K, V),
        ),
        Mistake(
            "changes-the-past",
            "It changes the past and looks at the present. Every attention depends on its past: change what comes "
            "after.",
            _detector(changed=lambda seen: slice(0, seen), compared=lambda seen: slice(seen, None)),
        ),
        Mistake(
            "single-token-leaks",
            "With a single token there is no future, so nothing can leak: n = 1 is False.",
            lambda attend, Q, K, V: len(Q) == 1 or _detector()(attend, Q, K, V),
        ),
    ),
)


# ---------------------------------------------------------------------------------------------------------------------
# next_token_pairs


def _next_token_pairs(tokens: Array) -> tuple[Array, Array]:
    pairs = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    return pairs[..., 0].copy(), pairs[..., 1].copy()


def _draw_next_token_pairs(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(criterion: str, label: str, tokens: Array) -> None:
        cases.append(Case(criterion, label, (tokens,), sizes={"B": tokens.shape[0], "n": tokens.shape[1]}))

    def some(batch: int, n: int, dtype: type = np.int64) -> Array:
        """Rows of different tokens, so that no shift looks like another."""
        return np.stack([rng.permutation(50)[:n] for _ in range(batch)]).astype(dtype)

    for dtype in (np.int64, np.int64, np.int32):
        batch, n = _distinct(rng, 2, 4, 9)
        add("values", f"tokens of shape ({batch}, {n})", some(batch, n, dtype))
    batch, n = _distinct(rng, 2, 4, 9)
    add("values", "tokens in column order", np.asfortranarray(some(batch, n)))
    batch, n = _distinct(rng, 2, 4, 9)
    add("values", "tokens that repeat", rng.integers(0, 3, (batch, n)))
    batch, n = _distinct(rng, 2, 4, 9)
    add("values", "ids of a large vocabulary", 300 + 997 * some(batch, n))
    add("edge cases", "two tokens (n = 2)", some(int(rng.integers(3, 7)), 2))
    add("edge cases", "one sequence (B = 1)", some(1, int(rng.integers(4, 9))))
    return cases


_NEXT_TOKEN_PAIRS = Exercise(
    name="next_token_pairs",
    unit=UNIT,
    returns=(Leaf("int array", "the inputs"), Leaf("int array", "the targets")),
    reference=_next_token_pairs,
    draw=_draw_next_token_pairs,
    credit={"values": 0.8, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "swapped",
            "Inputs and targets have changed places: the target is the token that comes after the input.",
            lambda tokens: (tokens[:, 1:], tokens[:, :-1]),
        ),
        Mistake(
            "wraps-around",
            "The last token is asked to predict the first one of the sequence. The last token has no next one: "
            "leave it out.",
            lambda tokens: (tokens, np.roll(tokens, -1, axis=1)),
        ),
        Mistake(
            "wraps-backwards",
            "The targets are the previous tokens, and the first one comes from the end. The target is the token "
            "after the input.",
            lambda tokens: (tokens, np.roll(tokens, 1, axis=1)),
        ),
        Mistake(
            "previous-token",
            "The targets are the tokens before the inputs, the first of them from the end of the sequence.",
            lambda tokens: (tokens[:, :-1], np.roll(tokens, 1, axis=1)[:, :-1]),
        ),
        Mistake(
            "shifts-the-batch",
            "The shift runs along the batch: each sequence gets another sequence as target. Shift along the tokens.",
            lambda tokens: (tokens[:-1], tokens[1:]),
        ),
        Mistake(
            "inputs-too-long",
            "The inputs still hold the last token, which has no target.",
            lambda tokens: (tokens, tokens[:, 1:]),
        ),
        Mistake(
            "two-steps",
            "The targets lie two steps ahead. The next token is one step ahead.",
            lambda tokens: (tokens[:, :-2], tokens[:, 2:]),
        ),
        Mistake(
            "padded",
            "The targets are filled up to length n. Both results have n - 1 tokens per sequence.",
            lambda tokens: (tokens, np.concatenate([tokens[:, 1:], np.zeros_like(tokens[:, :1])], axis=1)),
        ),
        Mistake(
            "same-twice",
            "Inputs and targets are the same tokens: a model would only learn to copy.",
            lambda tokens: (tokens[:, :-1], tokens[:, :-1]),
        ),
        Mistake(
            "last-target-only",
            "Only the last token of each sequence is a target. Every position has a next token to predict.",
            lambda tokens: (tokens[:, :-1], tokens[:, -1:]),
        ),
        Mistake(
            "last-target-only-flat",
            "Only the last token of each sequence is a target. Every position has a next token to predict.",
            lambda tokens: (tokens[:, :-1], tokens[:, -1]),
        ),
        Mistake(
            "flattened",
            "The sequences are strung together, so that the last token of one predicts the first of the next.",
            lambda tokens: (tokens.ravel()[:-1], tokens.ravel()[1:]),
        ),
        Mistake(
            "adds-one-to-ids",
            "One is added to the ids. The next token is the one at the next place, not the next id.",
            lambda tokens: (tokens[:, :-1], tokens[:, :-1] + 1),
        ),
        Mistake(
            "reversed",
            "The order of the tokens is reversed.",
            lambda tokens: (tokens[:, ::-1][:, :-1], tokens[:, ::-1][:, 1:]),
        ),
        Mistake(
            "stacked",
            "Return a tuple of two arrays, not one array that holds both.",
            lambda tokens: np.stack([tokens[:, :-1], tokens[:, 1:]]),
        ),
        Mistake(
            "list-for-tuple",
            "Return a tuple, `return inputs, targets`, not a list.",
            lambda tokens: [tokens[:, :-1], tokens[:, 1:]],
        ),
        Mistake(
            "floats",
            "The ids have become floats. Tokens are integers.",
            lambda tokens: (tokens[:, :-1] * 1.0, tokens[:, 1:] * 1.0),
        ),
    ),
)

EXERCISES = (_CAUSAL_MASK, _PADDING_MASK, _MASKED_SOFTMAX, _MASKED_ATTENTION, _LEAKS_FUTURE, _NEXT_TOKEN_PAIRS)
