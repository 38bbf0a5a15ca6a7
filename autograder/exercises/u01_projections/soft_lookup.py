"""Defines the exercise `soft_lookup`, which averages the values with softmax weights of the query's scores."""

import numpy as np
import scipy.special

from ..kit import Leaf, by_columns, every_second_row, exercise, normal, strided
from .parts import softmax


def soft_lookup(query: normal("d_k"), keys: normal("n d_k"), values: normal("n d_v")) -> Leaf(
    "float array", "the result"
):
    return np.einsum("i,ij->j", scipy.special.softmax(np.einsum("k,ik->i", query, keys)), values)


def plain(query, keys, values):
    scores = keys @ query
    weights = softmax(scores)
    result = weights @ values
    return result


def cases(case):
    for dtype in (float, float, np.float32):
        yield case("values", dtype=dtype)
    slices = {"query": strided, "keys": every_second_row, "values": by_columns}
    yield case("values", "keys and values that are slices", layout=slices)
    yield case("values", "values as wide as the keys", d_v="d_k")
    yield case("values", "as many keys as features", n="d_k")
    yield case("edge cases", "a single pair (n = 1)", n=1)
    yield case("edge cases", "a query of zeros", query=np.zeros(case.rng.integers(3, 9)))
    drawn = case.draw()
    drawn["keys"][1:3] = drawn["keys"][0]
    yield case("edge cases", "three equal keys with different values", **drawn)
    yield case("edge cases", "values of width 1 (d_v = 1)", d_v=1)
    for sign, words in ((1, "large"), (-1, "large negative")):
        drawn = aimed(case, lambda n, sign=sign: np.full(n, sign * 1e4))
        yield case("stability", f"{words} scores (about {sign * 10_000})", **drawn)
    for turn in range(3):  # subtracting any score but the largest would overflow in one of these
        drawn = aimed(case, lambda n, turn=turn: np.roll([1e4, -1e4, *np.zeros(n - 2)], turn))
        yield case("stability", "scores of −10,000 and 10,000 in one row", **drawn)
    drawn = case.draw(n=range(140, 160), d_k=3, d_v=2)
    drawn["keys"][4] = drawn["values"][7] = 0.0
    drawn["keys"] = drawn["keys"][np.argsort(drawn["keys"] @ drawn["query"])]
    yield case("edge cases", "a long list, the best key last; a key of zeros and a value of zeros", **drawn)
    drawn["values"] = 1e-6 * drawn["values"][::-1]
    yield case("edge cases", "the same query and keys with different, small values", **drawn)
    drawn = aimed(case, lambda n: np.linspace(100, 400, n), query=case.rng.choice((-2.0, -1.0, 1.0, 2.0), 4))
    drawn["keys"] = np.round(8 * drawn["keys"]) / 8  # so that the scores are exact in float32, too
    yield case("stability", "scores between 100 and 400 in float32", dtype=np.float32, **drawn)
    drawn = aimed(case, lambda n: np.array([0.0, 800.0, -800.0, 0.0, 800.0]), n=5)
    yield case("stability", "scores of −800 and 800", **drawn)
    aims = np.array([-400.0, -400.0, -460.0, -9e3, -600.0])
    drawn = aimed(case, lambda n: aims, query=drawn["query"], n=5)
    drawn["values"] *= np.array([0.0, 1.0, np.exp(60.0), 1.0, np.exp(200.0)])[:, None]
    label = "the same query; all scores are negative, and where weights are small, values are enormous"
    yield case("stability", label, **drawn)


def aimed(case, aims, **given):
    """Draw arguments whose n scores are about `aims(n)`."""
    drawn = case.draw(**given)
    query, keys = drawn["query"], drawn["keys"]
    keys += (aims(len(keys)) - keys @ query)[:, None] * query / (query @ query)
    keys += 0.3 * case.rng.standard_normal(keys.shape)
    return drawn


def lookup(weigh):
    """Return a lookup whose weights are `weigh(query, keys)`."""
    return lambda query, keys, values: weigh(query, keys) @ values


def over_sum(positive):
    """Return a lookup whose weights are `positive(scores)` divided by their sum."""

    def weigh(query, keys):
        with np.errstate(all="ignore"):
            found = positive(keys @ query)
            return found / found.sum()

    return lookup(weigh)


def without_last(query, keys, values):
    return soft_lookup(query, keys[:-1], values[:-1]) if len(keys) > 1 else values[0] * 1.0


def sigmoid(s):
    return 1 / (1 + np.exp(-np.clip(s, -500, 500)))


MISTAKES = (
    ("unstable-softmax", over_sum(np.exp),
     "Your exponentials overflow or vanish for large scores. A softmax does not change when all scores are shifted "
     "by the same number. Which shift keeps them harmless?"),
    ("linear-weights", lookup(lambda q, k: (k @ q) / (k @ q).sum() if (k @ q).sum() else np.zeros(len(k))),
     "You divide the scores by their sum without an exponential, so weights can be negative or explode."),
    ("shifted-by-another", over_sum(lambda s: np.exp(s - s.mean())),
     "You shift the softmax by a number that need not be near the largest score, so it overflows where one score is "
     "far above that number."),
    ("sigmoid-weights", over_sum(sigmoid),
     "You take a sigmoid of each score as its weight. The softmax takes powers of e."),
    ("softmax-of-every-product", lookup(lambda q, k: softmax((k * q).ravel()).reshape(k.shape).sum(axis=1)),
     "You take the softmax over all single products at once. Sum over the features first, so that there is one score "
     "per key."),
    ("last-key-left-out", without_last,
     "You leave out the last pair. Does a loop or slice end one too early?"),
    ("hard-lookup", lambda query, keys, values: values[np.argmax(keys @ query)],
     "You use only the best key. A soft lookup mixes all values by their weights."),
    ("plain-average", lambda query, keys, values: values.mean(axis=0),
     "You weigh all values alike, so the query is not used."),
    ("cosine", lookup(lambda q, k: softmax(k @ q / np.maximum(np.linalg.norm(k, axis=1) * np.linalg.norm(q), 1e-300))),
     "You bring query and keys to length 1 first. The scores are plain dot products."),
    ("squared-distance", lookup(lambda q, k: softmax(-((k - q) ** 2).sum(axis=1))),
     "Your scores are squared distances between query and keys, not dot products."),
)  # fmt: skip

EXERCISE = exercise(soft_lookup, credit={"values": 0.6, "edge cases": 0.2, "stability": 0.2})
