"""Defines the exercise `scaled_scores`, which divides the dot products of queries and keys by √d_k."""

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
    """Return the dot products, divided by `divisor(Q, K)`."""
    return lambda Q, K: Q @ K.T / divisor(Q, K)


def over_width(divisor):
    """Return the dot products, divided by `divisor(d_k)`."""
    return lambda Q, K: Q @ K.T / divisor(Q.shape[1])


MISTAKES = (
    ("divides-by-d", over_width(lambda d: d),
     "You divide the scores by d_k, or by √d_k twice. Divide by √d_k once."),
    ("d-minus-one", over_width(lambda d: np.sqrt(max(d - 1, 1))),
     "You take the root of d_k − 1. No correction is needed, because the variance of the sum is d_k."),
    ("whole-root", over_width(lambda d: int(np.sqrt(d))),
     "You round the root to a whole number."),
    ("cosine", cosine,
     "You bring the rows to length 1. Only divide the scores by √d_k."),
    ("with-softmax", lambda Q, K: stable(scaled_scores(Q, K)),
     "You already take the softmax. Return the scores that go into it."),
    ("divides-by-deviation", over(lambda Q, K: (Q @ K.T).std() + 1e-30),
     "You divide the scores by their measured spread. The divisor depends only on d_k."),
    ("half-of-d", over_width(lambda d: d / 2),
     "You divide the scores by half of d_k. Take a root, not a half."),
)  # fmt: skip

EXERCISE = exercise(scaled_scores, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(3, 11))
