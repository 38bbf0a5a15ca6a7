"""dot_product_moments: mean and variance of q · k as the derivation gives them."""

import math

from ..kit import Leaf, exercise


def dot_product_moments(d: int, var_q=1.0, var_k=1.0) -> (Leaf("float", "the mean"), Leaf("float", "the variance")):
    return 0.0, float(sum(var_q * var_k for _ in range(d)))


def cases(case):
    for _ in range(2):
        yield case("values", "d = {d}, unit variances", d=range(3, 61))
    for _ in range(3):
        var_q, var_k = case.rng.uniform(0.2, 0.8, 2) * [1, 4]
        yield case("values", "d = {d}, other variances", var_q=float(var_q), var_k=float(var_k))
    d = int(case.rng.integers(3, 30))  # one for four cases, so that nothing is to be remembered by d alone
    large = float(case.rng.uniform(2, 3))
    yield case("values", "var_q larger than var_k", d=d, var_q=large, var_k=0.6)
    yield case("values", "variances by keyword", d=d, var_q=0.25, var_k=3.0, by_name="var_q var_k")
    yield case("values", "only var_q given", d=d, var_q=float(case.rng.uniform(2, 3)))
    yield case("values", "only var_k given", d=d, var_k=float(case.rng.uniform(2, 3)))
    yield case("edge cases", "d = 1", d=1, var_q=0.5, var_k=3.0)
    yield case("edge cases", "entries that never vary (variance 0)", d=7, var_q=0.0, var_k=2.0)


def variance(of):
    """The right mean, and `of(d, var_q, var_k)` for the variance."""
    return lambda d, var_q=1.0, var_k=1.0: (0.0, of(d, var_q, var_k))


def mean(of):
    """The right variance, and `of(d, var_q, var_k)` for the mean."""
    return lambda d, var_q=1.0, var_k=1.0: (of(d, var_q, var_k), d * var_q * var_k)


MISTAKES = (
    ("mean-is-d", mean(lambda d, q, k: float(d)),
     "The mean is given as d. Every term qᵢkᵢ has mean E[qᵢ] · E[kᵢ]: what is that, and what is the sum?"),
    ("mean-grows-with-variance", mean(lambda d, q, k: d * q * k),
     "The mean is given as the variance. For entries with mean 0, what is E[qᵢ] · E[kᵢ]?"),
    ("variances-ignored", variance(lambda d, q, k: float(d)),
     "The variances of the entries are not used."),
    ("standard-deviation", variance(lambda d, q, k: math.sqrt(d * q * k)),
     "This is the standard deviation. The variance is its square."),
    ("root-of-d", variance(lambda d, q, k: math.sqrt(d) * q * k),
     "The variance grows with d itself. Its root, the standard deviation, grows with √d."),
    ("square-of-d", variance(lambda d, q, k: d**2 * q * k),
     "The variance grows with d, not with its square: the cross terms vanish."),
    ("variances-added", variance(lambda d, q, k: d * (q + k)),
     "The variances were added. For independent entries with mean 0, what is E[qᵢ²kᵢ²]?"),
    ("variances-averaged", variance(lambda d, q, k: d * (q + k) / 2),
     "The variances were averaged. For independent entries with mean 0, what is E[qᵢ²kᵢ²]?"),
    ("variances-squared", variance(lambda d, q, k: d * q**2 * k**2),
     "The variances were squared. E[qᵢ²] already is a variance, since the mean is 0."),
    ("roots-of-variances", variance(lambda d, q, k: d * math.sqrt(q * k)),
     "The roots of the variances were multiplied. `var_q` and `var_k` are variances, not standard deviations."),
    ("one-term", variance(lambda d, q, k: q * k),
     "This is the variance of one term qᵢkᵢ. The score is a sum of d of them."),
    ("divided-by-d", variance(lambda d, q, k: q * k / d),
     "The variance was divided by d. It grows with every further term."),
    ("only-var-q", variance(lambda d, q, k: d * q),
     "The variance of the keys' entries is not used."),
    ("only-var-k", variance(lambda d, q, k: d * k),
     "The variance of the queries' entries is not used."),
    ("results-swapped", lambda d, var_q=1.0, var_k=1.0: (d * var_q * var_k, 0.0),
     "Mean and variance have changed places: `return mean, variance`."),
    ("unbiased-correction", variance(lambda d, q, k: (d - 1) * q * k),
     "There is a d - 1. That correction belongs to samples; here nothing is sampled."),
    ("already-scaled", variance(lambda d, q, k: 1.0),
     "This is the variance of a scaled score with unit variances. s is the plain sum, and `var_q` and `var_k` count."),
    ("divided-by-d-alone", variance(lambda d, q, k: 1 / d),
     "This is what division by d leaves. s is the plain sum."),
    ("mean-of-variances", mean(lambda d, q, k: q * k),
     "The mean is given as var_q · var_k. For entries with mean 0, what is E[qᵢ] · E[kᵢ]?"),
    ("mean-of-deviations", mean(lambda d, q, k: d * math.sqrt(q * k)),
     "The mean is given as d times the standard deviations. For entries with mean 0, what is E[qᵢ] · E[kᵢ]?"),
    ("mean-is-root", mean(lambda d, q, k: math.sqrt(d * q * k)),
     "The mean is given as the standard deviation. For entries with mean 0, what is E[qᵢ] · E[kᵢ]?"),
    ("mean-is-one", mean(lambda d, q, k: 1.0),
     "The mean is given as 1. For entries with mean 0, what is E[qᵢ] · E[kᵢ]?"),
    ("squared-mean-subtracted", variance(lambda d, q, k: d * q * k - d**2),
     "A squared mean of d² was subtracted from E[s²]. What is the mean of s?"),
    ("var-q-squared", variance(lambda d, q, k: d * q**2 * k),
     "`var_q` was squared. It is a variance already."),
    ("var-k-squared", variance(lambda d, q, k: d * q * k**2),
     "`var_k` was squared. It is a variance already."),
    ("cross-terms-only", variance(lambda d, q, k: d * (d - 1) * q * k),
     "The d(d - 1) cross terms were counted. They vanish; the d squares are left."),
    ("whole-number", variance(lambda d, q, k: int(d * q * k)),
     "The variance was cut to a whole number."),
    ("ratio-of-variances", variance(lambda d, q, k: d * q / k),
     "The variances were divided by one another. For independent entries, what is E[qᵢ²kᵢ²]?"),
    ("larger-variance", variance(lambda d, q, k: d * max(q, k)),
     "Only the larger of the two variances was used."),
)  # fmt: skip

EXERCISE = exercise(
    dot_product_moments,
    cases,
    MISTAKES,
    credit={"values": 0.8, "edge cases": 0.2},
    core="values",
    sizes=range(3, 41),
)
