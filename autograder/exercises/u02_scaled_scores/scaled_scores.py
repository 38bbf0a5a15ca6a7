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
    ("d-minus-one", over_width(lambda d: np.sqrt(max(d - 1, 1))),
     "The root of d_k - 1 was taken. No correction is due: the variance of the sum is d_k."),
    ("whole-root", over_width(lambda d: int(np.sqrt(d))),
     "The root was rounded to a whole number."),
    ("cosine", cosine,
     "Rows were brought to length 1. The scores are to be divided by √d_k alone."),
    ("with-softmax", lambda Q, K: stable(scaled_scores(Q, K)),
     "The softmax was taken already. Scores are what goes into it."),
    ("divides-by-deviation", over(lambda Q, K: (Q @ K.T).std() + 1e-30),
     "The scores were divided by their measured spread. The divisor depends on d_k alone."),
    ("half-of-d", over_width(lambda d: d / 2),
     "The scores were divided by half of d_k. A root is due, not a half."),
)  # fmt: skip

EXERCISE = exercise(scaled_scores, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(3, 11))
