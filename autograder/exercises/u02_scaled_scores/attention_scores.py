"""attention_scores: the plain dot product of every query with every key."""

import numpy as np

from ..kit import Leaf, exercise, normal
from .parts import cosine, pair_cases, stable


def attention_scores(Q: normal("n d_k"), K: normal("m d_k")) -> Leaf("float array", "the scores"):
    return np.einsum("id,jd->ij", Q, K)


def cases(case):
    yield from pair_cases(case)


def diagonal_only(Q, K):
    S = np.zeros((len(Q), len(K)), Q.dtype)
    for i in range(min(len(Q), len(K))):
        S[i, i] = Q[i] @ K[i]
    return S


def square_table(Q, K):
    return np.array([[q @ K[j] for j in range(len(Q))] for q in Q])


def unit(rows):
    """Rows brought to length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


MISTAKES = (
    ("queries-and-keys-swapped", lambda Q, K: K @ Q.T,
     "The scores are transposed: a row belongs to a query, a column to a key."),
    ("not-transposed", lambda Q, K: Q @ K,
     "Q was multiplied by K as it stands. Every query meets every key: which side of K must face the features of Q?"),
    ("elementwise", lambda Q, K: Q * K,
     "Q and K were multiplied entry by entry. A score is a sum over the features."),
    ("scaled", lambda Q, K: Q @ K.T / np.sqrt(Q.shape[1]),
     "The scores were divided by √d_k. Here they are plain dot products; the next exercise divides."),
    ("divides-by-d", lambda Q, K: Q @ K.T / Q.shape[1],
     "The scores were divided by d_k. Here they are plain dot products."),
    ("cosine", cosine,
     "Rows were brought to length 1 first. A score is a plain dot product."),
    ("with-softmax", lambda Q, K: stable(Q @ K.T),
     "The softmax was taken already. Scores are what goes into it."),
    ("distance", lambda Q, K: np.linalg.norm(Q[:, None] - K, axis=-1),
     "These are distances between queries and keys, not dot products."),
    ("squared-distance", lambda Q, K: ((Q[:, None] - K) ** 2).sum(axis=-1),
     "These are squared distances between queries and keys, not dot products."),
    ("pairs-only", lambda Q, K: (Q * K).sum(axis=1),
     "Query i met key i alone. Every query meets every key, so the scores are (n, m)."),
    ("diagonal-only", diagonal_only,
     "Only the diagonal is filled. Every query meets every key."),
    ("queries-only", lambda Q, K: Q @ Q.T,
     "The queries met themselves: K is not used."),
    ("keys-only", lambda Q, K: K @ K.T,
     "The keys met themselves: Q is not used."),
    ("features-with-features", lambda Q, K: Q.T @ K,
     "The product sums over the tokens. It must sum over the features."),
    ("absolute", lambda Q, K: np.abs(Q @ K.T),
     "The signs are lost: a score may be negative."),
    ("outer", np.multiply.outer,
     "Every number met every other number: nothing was summed."),
    ("not-summed", lambda Q, K: Q[:, None] * K,
     "The products were not summed over the features: the scores are (n, m)."),
    ("future-hidden", lambda Q, K: np.tril(Q @ K.T),
     "Part of the table is empty. Here every query meets every key; masks come in unit 3."),
    ("past-hidden", lambda Q, K: np.triu(Q @ K.T),
     "Part of the table is empty, below the diagonal. Every query meets every key."),
    ("positive-part", lambda Q, K: np.maximum(Q @ K.T, 0),
     "Negative scores were cut off. A score may be negative."),
    ("keys-normalised", lambda Q, K: Q @ unit(K).T,
     "The keys were brought to length 1 first. A score is a plain dot product."),
    ("queries-normalised", lambda Q, K: unit(Q) @ K.T,
     "The queries were brought to length 1 first. A score is a plain dot product."),
    ("keys-centred", lambda Q, K: Q @ (K - K.mean(axis=0)).T,
     "The mean of the keys was subtracted. A score is a plain dot product."),
    ("reshaped-keys", lambda Q, K: Q @ K.reshape(K.shape[1], K.shape[0]),
     "K was brought into the shape (d_k, m) by a reshape, which mixes the keys. Transpose it."),
    ("reshaped-scores", lambda Q, K: (K @ Q.T).reshape(len(Q), len(K)),
     "The transposed scores were forced into the shape (n, m) by a reshape, which mixes queries and keys."),
    ("keys-as-many-as-queries", square_table,
     "The table is (n, n): there may be more or fewer keys than queries."),
    ("feature-left-out", lambda Q, K: Q[:, :-1] @ K[:, :-1].T,
     "The sum leaves out the last feature."),
    ("negative-distance", lambda Q, K: -np.linalg.norm(Q[:, None] - K, axis=-1),
     "These are distances with the sign changed, not dot products."),
    ("sums-multiplied", lambda Q, K: np.einsum("ia,jb->ij", Q, K),
     "The sum of the query was multiplied by the sum of the key. Multiply entry by entry first, then sum."),
    ("first-five-features", lambda Q, K: Q[:, :5] @ K[:, :5].T,
     "The sum runs over five features, the width of the worked example."),
)  # fmt: skip

EXERCISE = exercise(
    attention_scores,
    cases,
    MISTAKES,
    credit={"values": 0.8, "edge cases": 0.2},
    core="values",
    sizes=range(3, 11),
)
