"""Defines the exercise `masked_attention`, which applies a masked softmax for any number of leading axes."""

import math

import numpy as np

from ..kit import Drawn, Leaf, by_columns, exercise, mask, normal, strided, with_a_row_of_zeros
from .masked_softmax import masked_softmax
from .masked_softmax import plain as plain_masked_softmax
from .parts import (
    TWO_QUERIES,
    filled,
    not_renormalised,
    over_allowed,
    padding,
    renormalised,
    silent,
)


def masked_attention(
    Q: normal("n d_k"), K: normal("m d_k"), V: normal("m d_v"), mask: mask("n m")
) -> (
    Leaf("float array", "the output"),
    Leaf("float array", "the weights", rows_sum_to_one=True),
):
    weights = masked_softmax(np.einsum("...id,...jd->...ij", Q, K) / math.sqrt(Q.shape[-1]), mask)
    return np.einsum("...ij,...jv->...iv", weights, V), weights


def plain(Q, K, V, mask):
    d_k = Q.shape[-1]
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(d_k)
    weights = plain_masked_softmax(scores, mask)
    output = weights @ V
    return output, weights


def cases(case):
    yield case("values", "one sequence")
    causal = Drawn("n m", lambda rng, shape, sizes: np.tri(*shape, dtype=bool))
    yield case("values", "one sequence with a causal mask", m="n", mask=causal)
    yield case("values", "one sequence, float32", dtype=np.float32)
    slices = {"Q": by_columns, "K": strided, "V": by_columns}
    yield case("values", "arrays that are slices of larger ones", layout=slices)

    drawn = case.draw(m="n", n=range(4, 8))
    drawn["mask"][:, drawn["n"] // 2] = False
    drawn["mask"][drawn["n"] // 2, 0] = True
    drawn["mask"][~drawn["mask"].any(axis=-1), 0] = True
    yield case("values", "as many queries as keys, and a key that nobody may see", **drawn)

    batch = {"Q": normal("B n d_k"), "K": normal("B m d_k"), "V": normal("B m d_v")}
    heads = {"Q": normal("B h n d_k"), "K": normal("B h m d_k"), "V": normal("B h m d_v")}
    yield case("batches", "a batch, each with its own mask", **batch, mask=mask("B n m"))
    yield case("batches", "a batch with a mask (n, m)", **batch)
    yield case("batches", "a mask (n, m), and as many sequences as queries", B="n", **batch)
    yield case("batches", "a batch with padding, mask (B, 1, m)", **batch, mask=padding(1, spare=1))
    yield case("batches", "two leading axes (B, h, n, d)", **heads, mask=mask("B 1 n m"))

    empty = mask("n m", empty_rows=True)
    yield case("edge cases", "queries that may attend to nothing", mask=empty, quiet=True)
    yield case("edge cases", "a batch with an empty sequence", **batch, mask=padding(0, spare=0), quiet=True)
    drawn, scores = extreme(case)
    drawn["mask"] = scores < scores.max(axis=-1, keepdims=True)
    yield case("edge cases", "scores of ±1e4, the largest of each row hidden", **drawn)
    drawn, scores = extreme(case)
    highest, lowest = scores.max(axis=-1, keepdims=True), scores.min(axis=-1, keepdims=True)
    turned = np.where(-lowest < highest, -1, 1)
    drawn["Q"] *= turned
    rank = np.argsort(np.argsort(scores * turned, axis=-1), axis=-1)
    drawn["mask"] = rank < 1 + np.arange(drawn["n"])[:, None] % 2
    yield case("edge cases", "allowed scores down to -1e4, all larger ones hidden", **drawn)
    yield case("edge cases", "a key of zeros", layout={"K": with_a_row_of_zeros}, **batch)
    yield case("edge cases", "a single query (n = 1)", n=1)
    yield case("edge cases", "a single key (m = 1)", m=1, mask=TWO_QUERIES, quiet=True)

    yield case("batches", "one sequence (B = 1), a mask (m,)", **batch, B=1, mask=mask("m"))
    yield case("batches", "a mask (n, m) for Q (B, h, n, d_k), and B = h = n", **heads, B="n", h="n", n=[3, 4])
    yield case(
        "batches", "a mask (h, n, m) for Q (B, h, n, d_k), and B = h", **heads, B="h", h=[3, 4], mask=mask("h n m")
    )
    more = {"Q": normal("B 1 h n d_k"), "K": normal("B 1 h m d_k"), "V": normal("B 1 h m d_v")}
    small = dict.fromkeys(("B", "h", "n", "m", "d_k", "d_v"), range(2, 8))
    yield case("batches", "three leading axes, one of them 1 long, a mask (n, m)", **more, **small)
    yield case("edge cases", "three leading axes, one of them 1 long, a mask (n, 1)", **more, **small, mask=TWO_QUERIES)
    drawn = case.draw(n=3, m=200, d_k=2, d_v=4)
    drawn["mask"][:, 20:150] = False
    drawn["K"][20:150] *= 1e10
    drawn["V"][20:150] *= 1e10
    yield case("edge cases", "200 keys, and numbers of 1e10 in those that nobody may see", **drawn)


def extreme(case):
    """Return arguments with one score of 1e4 or -1e4 in each row and smaller others, and these scores."""
    drawn = case.draw()
    scores = drawn["Q"] @ drawn["K"].T / math.sqrt(drawn["d_k"])
    stretch = 1e4 / np.abs(scores).max(axis=-1, keepdims=True)
    drawn["Q"] *= stretch
    return drawn, scores * stretch


def attend(Q, K, V, mask, *, over=lambda Q, K, V: Q.shape[-1], weigh=over_allowed):
    """Apply masked attention with scores over the root of `over(Q, K, V)` and weights `weigh(scores, mask)`."""
    weights = weigh(Q @ np.swapaxes(K, -1, -2) / math.sqrt(over(Q, K, V)), mask)
    return weights @ V, weights


def with_keys(turn):
    """Return an attention whose keys are transposed by `turn`."""

    def whole(Q, K, V, mask):
        weights = over_allowed(Q @ turn(K) / math.sqrt(Q.shape[-1]), mask)
        return weights @ V, weights

    return whole


def masked_as(change):
    """Return an attention that uses the mask `change(causal, mask)`."""
    return lambda Q, K, V, mask: attend(Q, K, V, change(np.tri(Q.shape[-2], K.shape[-2], dtype=bool), mask))


def from_results(change):
    """Return the tuple `change(output, weights, unmasked output, unmasked weights)`, made from correct results."""
    return lambda Q, K, V, mask: change(*attend(Q, K, V, mask), *attend(Q, K, V, np.ones((), bool)))


def scaled_late(Q, K, V, mask):
    return tuple(result / math.sqrt(Q.shape[-1]) for result in attend(Q, K, V, mask, over=lambda Q, K, V: 1))


MISTAKES = (
    ("all-axes-transposed", with_keys(lambda K: K.T),
     "`K.T` reverses all axes. That is right for one sequence; for a batch swap only the last two axes."),
    ("three-axes-only", with_keys(lambda K: K.transpose(0, 2, 1)),
     "Your function works only for arrays with exactly three axes. Swap the last two axes, however many there are "
     "before them."),
    ("divided-by-d", {"over": lambda Q, K, V: Q.shape[-1] ** 2},
     "You divide the scores by d_k, not by its square root."),
    ("scaled-by-second-axis", {"over": lambda Q, K, V: Q.shape[1]},
     "You divide the scores by the root of `Q.shape[1]`, which is the width for one sequence, but not for a batch. "
     "The width d_k is the last axis."),
    ("scaled-after-softmax", scaled_late,
     "You divide the weights by √d_k after the softmax, so no row sums to 1. Scale the scores before it."),
    ("nan-when-nothing-allowed", {"weigh": filled(-np.inf)},
     "A query that may attend to nothing gets NaN. Its weights should be zeros, and so should its output."),
    ("large-negative-fill", {"weigh": filled(-1e9)},
     "You give a query that may attend to nothing the mean of all values, because one large negative number cancels "
     "in the softmax. Its weights should be zeros."),
    ("fill-not-low-enough", {"weigh": silent(filled(-1e4))},
     "You replace hidden scores by a negative number that real scores can reach. At scores near -1e4 hidden keys win "
     "weight."),
    ("ignores-mask", masked_as(lambda causal, mask: np.ones((), bool)),
     "Your mask has no effect. Hidden keys keep their weight."),
    ("inverted-mask", masked_as(lambda causal, mask: ~mask),
     "You hide exactly the keys that may be attended to. True means “may attend”."),
    ("output-not-masked", from_results(lambda output, weights, free_output, free: (free_output, weights)),
     "Your weights are masked, but you mix the output from weights that are not. Use the same weights for both."),
    ("weights-not-masked", from_results(lambda output, weights, free_output, free: (output, free)),
     "Your output is right, but the weights that you return are not masked. Return those that made the output."),
    ("also-causal", masked_as(lambda causal, mask: mask & causal),
     "You add a causal mask to the mask that you get. The caller decides who may look at whom."),
    ("not-renormalised", {"weigh": not_renormalised},
     "You apply the mask after the softmax, so the rows of the weights no longer sum to 1."),
    ("masked-after-softmax", {"weigh": renormalised},
     "You take the softmax over all keys, then mask and divide. Where a hidden score is far above the allowed ones, "
     "or nothing is allowed, that is zero divided by zero."),
    ("swapped-results", from_results(lambda output, weights, *free: (weights, output)),
     "You return the two results in the wrong order. The output comes first, then the weights."),
    ("first-mask-only", masked_as(lambda causal, mask: mask[0] if mask.ndim > 2 else mask),
     "You use the mask of the first sequence for the whole batch."),
)  # fmt: skip

EXERCISE = exercise(masked_attention, credit={"values": 0.5, "batches": 0.25, "edge cases": 0.25}, slipped=attend)
