"""Defines the exercise `attention_scores`, which takes the dot product of every query with every key."""

import numpy as np

from ..kit import Leaf, exercise, normal
from .parts import cosine, pair_cases, stable


def attention_scores(Q: normal("n d_k"), K: normal("m d_k")) -> Leaf("float array", "the scores"):
    return np.einsum("id,jd->ij", Q, K)


def plain(Q, K):
    scores = Q @ K.T
    return scores


def cases(case):
    yield from pair_cases(case)


def square_table(Q, K):
    return np.array([[q @ K[j] for j in range(len(Q))] for q in Q])


def unit(rows):
    """Scale rows to length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


MISTAKES = (
    ("elementwise", lambda Q, K: Q * K,
     "You multiply Q and K entry by entry. A score is a sum over the features."),
    ("cosine", cosine,
     "You bring the rows to length 1 first. A score is a plain dot product."),
    ("with-softmax", lambda Q, K: stable(Q @ K.T),
     "You already take the softmax. Return the scores that go into it."),
    ("pairs-only", lambda Q, K: (Q * K).sum(axis=1),
     "You let query i meet only key i. Every query meets every key, so the scores are (n, m)."),
    ("features-with-features", lambda Q, K: Q.T @ K,
     "Your product sums over the tokens. It must sum over the features."),
    ("keys-as-many-as-queries", square_table,
     "Your table is (n, n), but there may be more or fewer keys than queries."),
    ("negative-distance", lambda Q, K: -np.linalg.norm(Q[:, None] - K, axis=-1),
     "You take distances with the sign changed, not dot products."),
    ("sums-multiplied", lambda Q, K: np.einsum("ia,jb->ij", Q, K),
     "You multiply the sum of the query by the sum of the key. Multiply entry by entry first, then sum."),
    ("first-five-features", lambda Q, K: Q[:, :5] @ K[:, :5].T,
     "You sum over five features, the width of the worked example."),
)  # fmt: skip

EXERCISE = exercise(attention_scores, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(3, 11))
