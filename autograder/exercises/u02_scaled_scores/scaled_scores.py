"""scaled_scores: the dot products of queries and keys, divided by √d_k."""

import math

import numpy as np

from ..kit import Leaf, exercise, normal
from .parts import cosine, pair_cases, stable


def scaled_scores(Q: normal("n d_k"), K: normal("m d_k")) -> Leaf("float array", "the scores"):
    return np.einsum("id,jd->ij", Q, K) / math.sqrt(Q.shape[-1])


def plain(Q, K):
    d_k = Q.shape[-1]
    return Q @ K.T / np.sqrt(d_k)


def cases(case):
    yield from pair_cases(case)


def over(divisor):
    """The dot products, divided by `divisor(Q, K)`."""
    return lambda Q, K: Q @ K.T / divisor(Q, K)


def over_width(divisor):
    """The dot products, divided by `divisor(d_k)`."""
    return lambda Q, K: Q @ K.T / divisor(Q.shape[1])


MISTAKES = (
    ("divides-by-d", over_width(lambda d: d),
     "The scores were divided by d_k, or by √d_k twice, where its square root is due once."),
    ("no-scale", lambda Q, K: Q @ K.T,
     "The scores were not divided at all."),
    ("multiplies", over_width(lambda d: 1 / np.sqrt(d)),
     "The scores were multiplied by √d_k. Scaling is to make them smaller."),
    ("root-of-queries", over(lambda Q, K: np.sqrt(len(Q))),
     "The root of the number of queries was taken. The width of queries and keys counts."),
    ("root-of-keys", over(lambda Q, K: np.sqrt(len(K))),
     "The root of the number of keys was taken. The width of queries and keys counts."),
    ("hard-coded", over_width(lambda d: 8.0),
     "The scores were divided by a fixed number, 8, which is right for d_k = 64 alone."),
    ("fourth-root", over_width(lambda d: d**0.25),
     "The fourth root of d_k was taken. Both factors need it, or the product needs the square root."),
    ("square-of-d", over_width(lambda d: d**2),
     "The scores were divided by the square of d_k, not by its square root."),
    ("whole-root", over_width(lambda d: int(np.sqrt(d))),
     "The root was rounded to a whole number."),
    ("logarithm", over_width(lambda d: np.log(d + 1)),
     "The scores were divided by a logarithm of d_k, not by its square root."),
    ("adds-root", lambda Q, K: Q @ K.T - np.sqrt(Q.shape[1]),
     "The root was subtracted. The scores are divided by it."),
    ("queries-and-keys-swapped", lambda Q, K: scaled_scores(K, Q),
     "The scores are transposed: a row belongs to a query, a column to a key."),
    ("cosine", cosine,
     "Rows were brought to length 1. The scores are to be divided by √d_k alone."),
    ("with-softmax", lambda Q, K: stable(scaled_scores(Q, K)),
     "The softmax was taken already. Scores are what goes into it."),
    ("not-transposed", lambda Q, K: Q @ K / np.sqrt(Q.shape[1]),
     "Q was multiplied by K as it stands. Every query meets every key."),
    ("divides-by-deviation", over(lambda Q, K: (Q @ K.T).std() + 1e-30),
     "The scores were divided by their measured spread. The divisor depends on d_k alone."),
    ("root-of-both-lengths", over(lambda Q, K: np.sqrt(len(Q) * len(K))),
     "The root of n times m was taken. The width of queries and keys counts."),
    ("number-of-queries", over(lambda Q, K: len(Q)),
     "The scores were divided by the number of queries. The root of the width is due."),
    ("number-of-keys", over(lambda Q, K: len(K)),
     "The scores were divided by the number of keys. The root of the width is due."),
    ("d-minus-one", over_width(lambda d: np.sqrt(max(d - 1, 1))),
     "The root of d_k - 1 was taken. No correction is due: the variance of the sum is d_k."),
    ("d-plus-one", over_width(lambda d: np.sqrt(d + 1)),
     "The root of d_k + 1 was taken. Nothing is added under the root."),
    ("cube-root", over_width(np.cbrt),
     "The third root of d_k was taken, not the second."),
    ("half-of-d", over_width(lambda d: d / 2),
     "The scores were divided by half of d_k. A root is due, not a half."),
    ("rounded-root", over_width(lambda d: round(np.sqrt(d))),
     "The root was rounded to a whole number."),
    ("rounded-up-root", over_width(lambda d: math.ceil(np.sqrt(d))),
     "The root was rounded up to a whole number."),
    ("hard-coded-512", over_width(lambda d: math.sqrt(512)),
     "The scores were divided by a fixed number, the root of 512. Any width must be served."),
    ("multiplies-by-d", over_width(lambda d: 1 / d),
     "The scores were multiplied by d_k. Scaling is to make them smaller."),
    ("length-of-query", over(lambda Q, K: np.linalg.norm(Q, axis=1, keepdims=True)),
     "Each score was divided by the length of its query. The divisor depends on d_k alone."),
    ("length-of-key", over(lambda Q, K: np.linalg.norm(K, axis=1)),
     "Each score was divided by the length of its key. The divisor depends on d_k alone."),
    ("norm-of-queries", over(lambda Q, K: np.linalg.norm(Q)),
     "The scores were divided by the norm of the whole Q. The divisor depends on d_k alone."),
    ("largest-score", over(lambda Q, K: np.abs(Q @ K.T).max() + 1e-30),
     "The scores were divided by the largest of them. The divisor depends on d_k alone."),
    ("elementwise", lambda Q, K: Q * K / np.sqrt(Q.shape[1]),
     "Q and K were multiplied entry by entry. A score is a sum over the features."),
    ("queries-only", lambda Q, K: scaled_scores(Q, Q),
     "The queries met themselves: K is not used."),
    ("centred", lambda Q, K: scaled_scores(Q, K - K.mean(axis=0)),
     "The mean of each row was subtracted. Only a division is asked for."),
)  # fmt: skip

EXERCISE = exercise(
    scaled_scores,
    cases,
    MISTAKES,
    credit={"values": 0.8, "edge cases": 0.2},
    core="values",
    plain=plain,
    sizes=range(3, 11),
)
