"""score_statistics: mean and variance of dot products, measured on random draws."""

import itertools
import math

import numpy as np

from ..kit import Leaf, Rng, exercise, seed


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


def negative(rng, d, n_samples):
    """A generator whose draws have a mean below 0, so that a lost sign is seen."""
    numbers = itertools.count(int(rng.integers(2**31)))
    return next(Rng(n) for n in numbers if score_statistics(d, n_samples, np.random.default_rng(n), False)[0] < -0.05)


def one_after_the_other(rng, n, d):
    return rng.standard_normal((n, d)), rng.standard_normal((n, d))


def dot_products(q, k):
    return (q * k).sum(axis=1)


def mean_and_variance(scores):
    return scores.mean(), scores.var()


def measured(
    d, n_samples, rng, scaled, draw=one_after_the_other, meet=dot_products, divisor=math.sqrt, result=mean_and_variance
):
    """`result` of the scores that come of `draw` and `meet`; scaled ones are divided by `divisor(d)`."""
    return result(meet(*draw(rng, n_samples, d)) / (divisor(d) if scaled else 1.0))


def afterwards(change):
    """Plain scores; where `scaled` is true, mean and variance are changed by `change(mean, variance, d)`."""

    def wrong(d, n_samples, rng, scaled):
        mean, variance = measured(d, n_samples, rng, False)
        return change(mean, variance, d) if scaled else (mean, variance)

    return wrong


def root_of_samples(d, n_samples, rng, scaled):
    return measured(d, n_samples, rng, scaled, divisor=lambda d: math.sqrt(n_samples))


def row_by_row(rng, n, d):
    pairs = [(rng.standard_normal(d), rng.standard_normal(d)) for _ in range(n)]
    return np.array([q for q, _ in pairs]), np.array([k for _, k in pairs])


def transposed(rng, n, d):
    return rng.standard_normal((d, n)).T, rng.standard_normal((d, n)).T


def keys_transposed(rng, n, d):
    # the scores don't show which of the two was drawn first, only in which shape
    return rng.standard_normal((d, n)).T, rng.standard_normal((n, d))


def same(rng, n, d):
    return [rng.standard_normal((n, d))] * 2


def of_its_own(number):
    return lambda rng, n, d: one_after_the_other(np.random.default_rng(number), n, d)


def alternating(rng, n, d):
    both = rng.standard_normal((n, d, 2))
    return both[..., 0], both[..., 1]


def one_more_between(rng, n, d):
    return rng.standard_normal((3, n, d))[::2]


def one_more_before(rng, n, d):
    rng.standard_normal()
    return one_after_the_other(rng, n, d)


def single(rng, n, d):
    return [rng.standard_normal((n, d), dtype=np.float32) for _ in range(2)]


def unbiased(scores):
    return ((scores - scores.mean()) ** 2).sum() / max(len(scores) - 1, 1)


OWN_GENERATOR = "The function makes a generator of its own. Use the `rng` that it is handed."
MISTAKES = (
    ("unbiased-variance", {"result": lambda s: (s.mean(), unbiased(s))},
     "The variance was divided by n_samples - 1. The biased one is asked for (`ddof=0`)."),
    ("standard-deviation", {"result": lambda s: (s.mean(), s.std())},
     "This is the standard deviation. The variance is asked for."),
    ("never-scaled", lambda d, n_samples, rng, scaled: measured(d, n_samples, rng, False),
     "`scaled` is not used: the scores are never divided."),
    ("always-scaled", lambda d, n_samples, rng, scaled: measured(d, n_samples, rng, True),
     "`scaled` is not used: the scores are always divided."),
    ("scaled-inverted", lambda d, n_samples, rng, scaled: measured(d, n_samples, rng, not scaled),
     "`scaled` is understood the wrong way round."),
    ("divides-by-d", {"divisor": lambda d: d},
     "The scaled scores were divided by d, not by its square root."),
    ("multiplies", {"divisor": lambda d: 1 / math.sqrt(d)},
     "The scaled scores were multiplied by √d."),
    ("root-of-samples", root_of_samples,
     "The root of the number of samples was taken. The width d counts."),
    ("one-pair-at-a-time", {"draw": row_by_row},
     "The numbers were drawn pair by pair. Draw all of q first, then all of k, each with one call."),
    ("draws-transposed", {"draw": transposed},
     "The draws have the shape (d, n_samples). The docstring asks for (n_samples, d)."),
    ("keys-transposed", {"draw": keys_transposed},
     "q and k were drawn in different shapes or order than the docstring says."),
    ("same-draw", {"draw": same},
     "q and k are the same numbers: k needs a draw of its own."),
    ("own-generator", {"draw": of_its_own(0)},
     OWN_GENERATOR),
    ("uniform", {"draw": lambda rng, n, d: (rng.random((n, d)), rng.random((n, d)))},
     "The numbers were drawn evenly from 0 to 1, not from a normal distribution."),
    ("uniform-around-zero", {"draw": lambda rng, n, d: rng.uniform(-1, 1, (2, n, d))},
     "The numbers were drawn evenly, not from a normal distribution."),
    ("all-pairs", {"meet": lambda q, k: q @ k.T},
     "Every q met every k. Sample i of q meets sample i of k alone, so that the scores are independent."),
    ("not-summed", {"meet": lambda q, k: q * k},
     "The products were not summed over the features: a score is a sum of d products."),
    ("mean-square", {"result": lambda s: (s.mean(), (s**2).mean())},
     "This is the mean of the squares. The variance subtracts the measured mean first."),
    ("results-swapped", {"result": lambda s: (s.var(), s.mean())},
     "Mean and variance have changed places: `return mean, variance`."),
    ("theory-in-place-of-measurement", lambda d, n_samples, rng, scaled: (0.0, 1.0 if scaled else float(d)),
     "These are the derived values. The function measures them on draws."),
    ("variance-over-root", afterwards(lambda mean, variance, d: (mean / math.sqrt(d), variance / math.sqrt(d))),
     "The variance was divided by √d. Divide the scores: what does that do to the variance?"),
    ("only-variance-scaled", afterwards(lambda mean, variance, d: (mean, variance / d)),
     "The mean is that of the plain scores. Divide the scores, before mean and variance are taken."),
    ("only-mean-scaled", afterwards(lambda mean, variance, d: (mean / math.sqrt(d), variance)),
     "The variance is that of the plain scores. Divide the scores, before mean and variance are taken."),
    ("fourth-root", {"divisor": lambda d: d**0.25},
     "The scaled scores were divided by the fourth root of d."),
    ("hard-coded", {"divisor": lambda d: 8.0},
     "The scaled scores were divided by a fixed number, 8, which is right for d = 64 alone."),
    ("other-generator", {"draw": of_its_own(42)},
     OWN_GENERATOR),
    ("standard-deviation-unbiased", {"result": lambda s: (s.mean(), math.sqrt(unbiased(s)))},
     "This is the standard deviation, with n_samples - 1. The biased variance is asked for."),
    ("median", {"result": lambda s: (np.median(s), s.var())},
     "The median was taken. The mean is asked for."),
    ("mean-without-sign", {"result": lambda s: (abs(s.mean()), s.var())},
     "The sign of the mean is lost."),
    ("mean-of-sizes", {"result": lambda s: (np.abs(s).mean(), s.var())},
     "The mean of the absolute scores was taken. Scores may be negative."),
    ("mean-is-zero", {"result": lambda s: (0.0, s.var())},
     "The mean is given as 0. That is its expected value; here it is measured."),
    ("variance-of-sizes", {"result": lambda s: (s.mean(), np.abs(s).var())},
     "The absolute scores were used for the variance."),
    ("sums", {"result": lambda s: (s.sum(), ((s - s.mean()) ** 2).sum())},
     "Sums over the samples were returned. Mean and variance divide by n_samples."),
    ("draws-rounded-to-float32", {"draw": single},
     "The numbers were drawn as float32, which is another stream of numbers. Draw with the defaults."),
    ("one-query", {"draw": lambda rng, n, d: (rng.standard_normal(d)[None], rng.standard_normal((n, d)))},
     "A single query was drawn for all keys. Each sample has a query of its own."),
    ("keys-not-drawn", {"draw": lambda rng, n, d: (rng.standard_normal((n, d)), np.ones((n, d)))},
     "The keys were not drawn."),
    ("drawn-around-d", {"draw": lambda rng, n, d: rng.normal(d, 1, (2, n, d))},
     "The numbers were drawn with a mean other than 0."),
    ("mean-of-products", {"meet": lambda q, k: (q * k).mean(axis=1)},
     "The products were averaged over the features. A score is their sum."),
    ("sums-over-samples", {"meet": lambda q, k: (q * k).sum(axis=0)},
     "The products were summed over the samples. They are summed over the features."),
    ("alternating-draws", {"draw": alternating},
     "q and k were cut out of one draw in another order. Draw all of q first, then all of k."),
    ("draw-too-many", {"draw": one_more_between},
     "Something more was drawn from `rng` before or between q and k: the numbers are shifted."),
    ("draw-before", {"draw": one_more_before},
     "A number was drawn before q: the numbers are shifted."),
    ("float32-draws", {"draw": lambda rng, n, d: [draws.astype(float) for draws in single(rng, n, d)]},
     "The draws are float32, which are other numbers: use `rng.standard_normal` with the shape alone."),
)  # fmt: skip

EXERCISE = exercise(
    score_statistics,
    cases,
    MISTAKES,
    credit={"values": 0.8, "edge cases": 0.2},
    core="values",
    sizes=range(4, 17),
    slipped=measured,
)
