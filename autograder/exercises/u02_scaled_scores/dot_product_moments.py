"""Defines the exercise `dot_product_moments`, which gives mean and variance of q · k by the derived formulas."""

import math

from ..kit import Leaf, exercise


def dot_product_moments(d: int, var_q=1.0, var_k=1.0) -> (Leaf("float", "the mean"), Leaf("float", "the variance")):
    return 0.0, float(sum(var_q * var_k for _ in range(d)))


def plain(d, var_q=1.0, var_k=1.0):
    mean = 0.0
    term = var_q * var_k
    variance = d * term
    return mean, variance


def cases(case):
    for _ in range(2):
        yield case("values", "d = {d}, unit variances", d=range(3, 61))
    for _ in range(3):
        var_q, var_k = case.rng.uniform(0.2, 0.8, 2) * [1, 4]
        yield case("values", "d = {d}, other variances", var_q=float(var_q), var_k=float(var_k))
    d = int(case.rng.integers(3, 30))  # the same for several cases, so that results stored by d alone fail
    large = float(case.rng.uniform(2, 3))
    yield case("values", "var_q larger than var_k", d=d, var_q=large, var_k=0.6)
    yield case("values", "variances by keyword", d=d, var_q=0.25, var_k=3.0, by_name="var_q var_k")
    yield case("values", "only var_q given", d=d, var_q=float(case.rng.uniform(2, 3)))
    yield case("values", "only var_k given", d=d, var_k=float(case.rng.uniform(2, 3)))
    yield case("edge cases", "d = 1", d=1, var_q=0.5, var_k=3.0)
    yield case("edge cases", "entries that never vary (variance 0)", d=7, var_q=0.0, var_k=2.0)
    yield case("edge cases", "keys that never vary (variance 0)", d=7, var_q=2.0, var_k=0.0)
    yield case("edge cases", "nothing ever varies (both variances 0)", d=7, var_q=0.0, var_k=0.0)
    yield case("values", "equal variances above 1", d=d, var_q=3.0, var_k=3.0)
    yield case("edge cases", "a small variance", d=d, var_q=0.25, var_k=float(case.rng.uniform(0.1, 0.2)) / d)
    wide, var_k = range(1_900, 2_000), float(case.rng.uniform(4e-3, 5e-3))
    yield case("edge cases", "d = {d}, queries that vary much and keys that hardly do", d=wide, var_q=3e4, var_k=var_k)


def variance(of):
    """Return the correct mean, and `of(d, var_q, var_k)` as the variance."""
    return lambda d, var_q=1.0, var_k=1.0: (0.0, of(d, var_q, var_k))


def mean(of):
    """Return the correct variance, and `of(d, var_q, var_k)` as the mean."""
    return lambda d, var_q=1.0, var_k=1.0: (of(d, var_q, var_k), d * var_q * var_k)


MISTAKES = (
    ("mean-is-d", mean(lambda d, q, k: float(d)),
     "You give the mean as d. Every term qᵢkᵢ has mean E[qᵢ] · E[kᵢ]. What is that, and what is the sum?"),
    ("variances-ignored", variance(lambda d, q, k: float(d)),
     "You don't use the variances of the entries."),
    ("variances-added", variance(lambda d, q, k: d * (q + k)),
     "You add the variances. For independent entries with mean 0, what is E[qᵢ²kᵢ²]?"),
    ("variances-averaged", variance(lambda d, q, k: d * (q + k) / 2),
     "You average the variances. For independent entries with mean 0, what is E[qᵢ²kᵢ²]?"),
    ("roots-of-variances", variance(lambda d, q, k: d * math.sqrt(q * k)),
     "You multiply the roots of the variances. `var_q` and `var_k` are variances, not standard deviations."),
    ("results-swapped", lambda d, var_q=1.0, var_k=1.0: (d * var_q * var_k, 0.0),
     "You swap mean and variance. Return them as `return mean, variance`."),
    ("mean-of-deviations", mean(lambda d, q, k: d * math.sqrt(q * k)),
     "You give the mean as d times the standard deviations. For entries with mean 0, what is E[qᵢ] · E[kᵢ]?"),
    ("larger-variance", variance(lambda d, q, k: d * max(q, k)),
     "You use only the larger of the two variances."),
)  # fmt: skip

EXERCISE = exercise(dot_product_moments, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(3, 41))
