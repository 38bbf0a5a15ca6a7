"""Defines the exercise `score_statistics`, which measures mean and variance of random dot products."""

import itertools
import math

import numpy as np

from ..kit import Leaf, Rng, exercise, seed
from .parts import DIGITS


def score_statistics(
    d: int, n_samples: int, rng: seed(), scaled
) -> (
    Leaf("float", "the mean"),
    Leaf("float", "the variance"),
):
    q, k = rng.standard_normal((n_samples, d)), rng.standard_normal((n_samples, d))
    scores = np.einsum("sd,sd->s", q, k) / (math.sqrt(d) if scaled else 1.0)
    mean = math.fsum(scores) / n_samples
    return mean, math.fsum((scores - mean) ** 2) / n_samples


def plain(d, n_samples, rng, scaled):
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    products = q * k
    scores = products.sum(axis=1)
    if scaled:
        scores = scores / np.sqrt(d)
    mean = scores.mean()
    variance = scores.var()
    return mean, variance


def cases(case):
    for scaled, words in ((False, "not scaled"), (True, "scaled")) * 2:
        last = case("values", f"d = {{d}}, {{n_samples}} samples, {words}", scaled=scaled)
        yield last
    yield case("values", "the sizes of the last case, and another generator", scaled=scaled, **last.sizes)
    few = range(3, 9)
    sizes = {"d": 3, "n_samples": int(case.rng.integers(4, 9))}
    generator = negative(case.rng, **sizes)
    yield case("values", "a negative mean", rng=generator, scaled=False, **sizes)
    yield case("values", "1,000 samples, not scaled", d=few, n_samples=1_000, scaled=False)
    yield case("values", "1,000 samples, scaled", d=few, n_samples=1_000, scaled=True)
    yield case("edge cases", "d = 1, scaled", d=1, n_samples=range(5, 15), scaled=True)
    yield case("edge cases", "one sample", d=few, n_samples=1, scaled=False)
    yield case("edge cases", "as many samples as features", d=7, n_samples=7, scaled=True)
    yield case("edge cases", "one sample, scaled", d=few, n_samples=1, scaled=True)
    used = Rng(int(case.rng.integers(2**31)), used=True)
    label = "two samples, from a generator that has been drawn from before"
    yield case("edge cases", label, d=few, n_samples=2, rng=used, scaled=False)
    yield case("edge cases", "over 100 features (d = {d}), scaled", d=range(131, 140), n_samples=few, scaled=True)
    # A table of all pairs must still fit into memory, or code that makes one runs out of it and gets no diagnosis.
    samples = range(4_110, 4_140)
    yield case("edge cases", "over 4,100 samples, scaled", d=3, n_samples=samples, scaled=True, rtol=DIGITS)


def negative(rng, d, n_samples):
    """Return a generator whose draws have a mean below 0, so that a lost sign shows."""
    numbers = itertools.count(int(rng.integers(2**31)))
    return next(Rng(n) for n in numbers if score_statistics(d, n_samples, np.random.default_rng(n), False)[0] < -0.05)


def one_after_the_other(rng, n, d):
    return rng.standard_normal((n, d)), rng.standard_normal((n, d))


def dot_products(q, k):
    return (q * k).sum(axis=1)


def mean_and_variance(scores):
    return scores.mean(), scores.var()


def measured(d, n_samples, rng, scaled, draw=one_after_the_other, meet=dot_products, result=mean_and_variance):
    """Return `result` of the scores that `draw` and `meet` give."""
    return result(meet(*draw(rng, n_samples, d)) / (math.sqrt(d) if scaled else 1.0))


def variance_over_root(d, n_samples, rng, scaled):
    mean, variance = measured(d, n_samples, rng, False)
    return (mean / math.sqrt(d), variance / math.sqrt(d)) if scaled else (mean, variance)


def row_by_row(rng, n, d):
    pairs = [(rng.standard_normal(d), rng.standard_normal(d)) for _ in range(n)]
    return np.array([q for q, _ in pairs]), np.array([k for _, k in pairs])


def transposed(rng, n, d):
    return rng.standard_normal((d, n)).T, rng.standard_normal((d, n)).T


def alternating(rng, n, d):
    both = rng.standard_normal((n, d, 2))
    return both[..., 0], both[..., 1]


def one_more_between(rng, n, d):
    return rng.standard_normal((3, n, d))[::2]


def one_more_before(rng, n, d):
    rng.standard_normal()
    return one_after_the_other(rng, n, d)


def unbiased(scores):
    return ((scores - scores.mean()) ** 2).sum() / max(len(scores) - 1, 1)


MISTAKES = (
    ("unbiased-variance", {"result": lambda s: (s.mean(), unbiased(s))},
     "For the variance, you divide by n_samples − 1. The docstring asks for the biased variance."),
    ("one-pair-at-a-time", {"draw": row_by_row},
     "You draw the numbers pair by pair. Draw all of q first, then all of k, each with one call."),
    ("draws-transposed", {"draw": transposed},
     "You draw with the shape (d, n_samples). The docstring says (n_samples, d)."),
    ("all-pairs", {"meet": lambda q, k: q @ k.T},
     "You let every q meet every k. Sample i of q meets only sample i of k, so that the scores are independent."),
    ("mean-square", {"result": lambda s: (s.mean(), (s**2).mean())},
     "You take the mean of the squares. The variance subtracts the measured mean first."),
    ("theory-in-place-of-measurement", lambda d, n_samples, rng, scaled: (0.0, 1.0 if scaled else float(d)),
     "You return the derived values. Measure them on draws."),
    ("variance-over-root", variance_over_root,
     "You divide the variance by √d. Divide the scores. What does that do to the variance?"),
    ("alternating-draws", {"draw": alternating},
     "You cut q and k out of one draw in another order. Draw all of q first, then all of k."),
    ("draw-too-many", {"draw": one_more_between},
     "You draw something more from `rng` before or between q and k, which shifts the numbers."),
    ("draw-before", {"draw": one_more_before},
     "You draw a number before q, which shifts the numbers."),
)  # fmt: skip

EXERCISE = exercise(score_statistics, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(4, 17), slipped=measured)
