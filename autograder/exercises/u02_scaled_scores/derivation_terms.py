"""Defines the exercise `derivation_terms`, which splits the mean of s² into its squares and its cross terms."""

import numpy as np

from ..kit import Leaf, by_columns, every_second_row, exercise, normal


def derivation_terms(
    q: normal("samples d"), k: normal("samples d")
) -> (
    Leaf("float", "the diagonal part"),
    Leaf("float", "the cross part"),
):
    t = q * k
    outer = np.einsum("si,sj->ij", t, t) / len(t)
    return np.trace(outer), outer.sum() - np.trace(outer)


def plain(q, k):
    t = q * k
    s = t.sum(axis=1)
    squares = t**2
    diagonal = squares.sum(axis=1)
    cross = s**2 - diagonal
    return diagonal.mean(), cross.mean()


def cases(case):
    for dtype in (float, float, np.float32):
        yield case("values", "{samples} samples, d = {d}", dtype=dtype, **related(case))
    drawn = case.draw()
    shared = 1 + case.rng.random((drawn["samples"], 1))
    q, k = (0.1 * drawn[name] + shared * sign for name, sign in (("q", 1), ("k", alternating(drawn["d"]))))
    yield case("values", "terms that cancel one another", q=q, k=k)
    yield case("values", "as many samples as features", **related(case, samples=6, d=6))
    few = range(4, 10)
    opposite = related(case, samples=few, d=few)
    opposite["q"] = 2 + 0.1 * opposite["q"]
    opposite["k"] = (2 + 0.1 * opposite["k"]) * alternating(opposite["d"])
    yield case("values", "features of opposite sign, so that the cross part is negative", **opposite)
    signs = {name: case.rng.choice((-1.0, 1.0), (7, 6)) for name in ("q", "k")}
    yield case("values", "terms that are equal", **signs)
    few = range(3, 9)
    yield case("values", "many samples", **related(case, samples=1_130, d=few))
    yield case("values", "inputs that are slices", layout={"q": by_columns, "k": every_second_row}, **related(case))
    yield case("edge cases", "one sample", **related(case, samples=1, d=few))
    yield case("edge cases", "d = 1, where there are no cross terms", **related(case, samples=few, d=1))
    yield case("edge cases", "d = 2", **related(case, samples=few, d=2))
    yield case("values", "over 4,100 samples (samples = {samples})", **related(case, samples=range(4_110, 4_140), d=2))
    yield case("values", "over 100 features (d = {d})", **related(case, samples=3, d=range(131, 140)))
    q = 100 * case.rng.standard_normal((5, 4))
    yield case("edge cases", "k equal to q, entries of about 100", q=q, k=q.copy())
    k = np.repeat(2.0 ** case.rng.integers(-19, -16, (5, 1)), 4, axis=1)
    k[-1] = k[-2]
    yield case("edge cases", "the q of the case before and a tiny k", q=q, k=k)
    q = 100.0 * case.rng.integers(1, 9, (5, 2))
    q = np.concatenate([q, -q], axis=1)
    q[1], q[-1] = 0, q[-2]
    label = "the k of the case before; all scores are exactly 0, one row of q is zeros, two are equal"
    yield case("edge cases", label, q=q, k=k)


def related(case, **sizes):
    """Add a common part to q and k, which makes the cross terms large; for independent draws they would be nearly 0."""
    drawn = case.draw(**sizes)
    shared = case.rng.standard_normal((drawn["samples"], 1))
    drawn["q"] += shared + 0.4
    drawn["k"] += 0.7 * shared + 0.4
    return drawn


def alternating(d):
    return (-1.0) ** np.arange(d)


def diagonal_of(t):
    return (t**2).sum(axis=1).mean()


def cross_of(t):
    return (t.sum(axis=1) ** 2).mean() - diagonal_of(t)


def parts(q, k, diagonal=diagonal_of, cross=cross_of):
    """Return both parts, each computed from the terms t = q * k."""
    return diagonal(q * k), cross(q * k)


def unbiased(part):
    return lambda t: part(t) * len(t) / max(len(t) - 1, 1)


def over_pairs(t):
    return cross_of(t) / max(t.shape[1] * (t.shape[1] - 1), 1)


FEATURES_AVERAGED = (
    "You average both parts over the features. Sum over i, or over i and j, and average only over the samples."
)
MISTAKES = (
    ("cross-holds-diagonal", {"cross": lambda t: (t.sum(axis=1) ** 2).mean()},
     "Your cross part still holds the diagonal. In the cross part, i and j differ."),
    ("sums-in-place-of-means", {"diagonal": lambda t: (t**2).sum(), "cross": lambda t: cross_of(t) * len(t)},
     "You add up the samples. Both parts are means over the samples."),
    ("features-averaged",
     {"diagonal": lambda t: (t**2).mean(), "cross": lambda t: (t.mean(axis=1) ** 2).mean() - (t**2).mean()},
     FEATURES_AVERAGED),
    ("averaged-over-features-and-over-pairs", {"diagonal": lambda t: (t**2).mean(), "cross": over_pairs},
     FEATURES_AVERAGED),
    ("square-of-mean", lambda q, k: parts((q * k).mean(axis=0)[None], 1),
     "You take the square after the mean over the samples. Square first, then average."),
    ("unbiased", {"diagonal": unbiased(diagonal_of), "cross": unbiased(cross_of)},
     "You divide by samples − 1. Take the plain mean over all samples."),
    ("square-of-the-sum", {"diagonal": lambda t: (t.sum(axis=1) ** 2).mean()},
     "Your diagonal part is the mean of s², the square of the sum. It should be the sum of the squares."),
    ("cross-is-zero", {"cross": lambda t: 0.0},
     "You return 0 for the cross part. That is its expected value for independent entries; measure it on the "
     "draws."),
    ("neighbours-only", {"cross": lambda t: 2 * (t[:, 1:] * t[:, :-1]).sum(axis=1).mean()},
     "Your cross part holds only neighbouring features. Every feature meets every other."),
    ("cross-averaged-over-pairs", {"cross": over_pairs},
     "You divide the cross part by the number of pairs. Sum over the pairs, and average only over the samples."),
    ("mean-of-s-subtracted", {"cross": lambda t: t.sum(axis=1).var() - diagonal_of(t)},
     "You split the variance of s. The two parts make up the mean of s², so subtract nothing before you square."),
    ("cross-of-means", {"cross": lambda t: cross_of(t.mean(axis=0)[None])},
     "In the cross part you average the terms over the samples before you multiply them."),
    ("cross-of-q-and-k",
     lambda q, k: (diagonal_of(q * k), (q.sum(axis=1) * k.sum(axis=1) - (q * k).sum(axis=1)).mean()),
     "Your cross part multiplies qᵢ by kⱼ. Each product holds four factors, qᵢkᵢ times qⱼkⱼ."),
    ("cross-over-samples", {"cross": lambda t: ((t @ t.T).sum() - np.trace(t @ t.T)) / len(t)},
     "Your cross part multiplies samples with one another. i and j are features of one sample."),
    ("first-sample-only", lambda q, k: parts(q[:1], k[:1]),
     "You use only the first sample. Both parts are means over all samples."),
    ("theory-in-place-of-measurement", {"diagonal": lambda t: float(t.shape[1]), "cross": lambda t: 0.0},
     "You return the expected values for independent entries. Measure both parts on the draws."),
    ("centred-first", lambda q, k: parts(q - q.mean(axis=0), k - k.mean(axis=0)),
     "You subtract the mean of each feature first. Compute the parts from the draws as they are."),
    ("first-features-only", lambda q, k: parts(q[:, :3], k[:, :3]),
     "You use only the first three features."),
)  # fmt: skip

EXERCISE = exercise(derivation_terms, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(4, 13), slipped=parts)
