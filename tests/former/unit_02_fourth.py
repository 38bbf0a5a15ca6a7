"""Answers to unit 2's functions, written from the notebook alone."""

import math

import numpy as np


def _softmax(z, axis=-1):
    """The stable softmax."""
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def attention_scores__wrong_fourth_as_many_keys_as_queries(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Loops over len(Q) keys, as if there were as many keys as queries: the table is (n, n)."""
    n = len(Q)
    scores = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            scores[i, j] = np.dot(Q[i], K[j])
    return scores


def softmax__wrong_fourth_one_shift_for_all(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Subtracts the largest entry of the whole array: a row far below it becomes 0/0."""
    e = np.exp(z - np.max(z))
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_fourth_axis_put_back_at_the_end(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Puts the lost axis back with [..., None], at the end, whatever `axis` is: right for the last axis only."""
    top = z.max(axis=axis)[..., None]
    powers = np.exp(z - top)
    return powers / powers.sum(axis=axis)[..., None]


def softmax__right_fourth_logaddexp(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Right, unusual: exp(z - log of the sum of exponentials), the latter by a reduction with logaddexp."""
    return np.exp(z - np.logaddexp.reduce(z, axis=axis, keepdims=True))


def derivation_terms__wrong_fourth_covariance_table(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Two slips: the covariance of the terms subtracts their means, and divides by samples - 1."""
    table = np.atleast_2d(np.cov(q * k, rowvar=False))
    diagonal = np.trace(table)
    return diagonal, table.sum() - diagonal


def dot_product_moments__wrong_fourth_variances_squared(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Takes the arguments for standard deviations and squares them once more; right where both are 1."""
    mean = 0.0
    variance = d * var_q**2 * var_k**2
    return mean, variance


def scaled_scores__wrong_fourth_whole_root(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides by the whole part of the root, math.isqrt: right for widths such as 4, 9 and 64 only."""
    return Q @ K.T / math.isqrt(Q.shape[1])


def score_statistics__wrong_fourth_variance_over_the_root(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Scales mean and variance afterwards, both by the root of d; a variance takes the divisor squared, so d."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1)
    divisor = np.sqrt(d) if scaled else 1.0
    return s.mean() / divisor, s.var() / divisor


def score_statistics__wrong_fourth_unbiased_and_divided_by_d(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Two slips: the variance has ddof=1 (NaN for one sample), and scaled divides the scores by d, not its root."""
    q, k = (rng.standard_normal((n_samples, d)) for _ in range(2))
    scores = np.einsum("rd,rd->r", q, k)
    if scaled:
        scores = scores / d
    return scores.mean(), scores.var(ddof=1)


def attention__wrong_fourth_root_of_d_v(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Divides the scores by the root of the width of the values, d_v, in place of d_k."""
    dim = V.shape[-1]
    weights = _softmax(np.einsum("ic,jc->ij", Q, K) / np.sqrt(dim), axis=1)
    return np.einsum("ij,jv->iv", weights, V), weights


def attention__wrong_fourth_keys_reshaped(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reshapes the keys to (d_k, m) where they should be transposed: the shapes fit, the features are shuffled."""
    m, d_k = K.shape
    scores = Q @ K.reshape(d_k, m) / d_k**0.5
    weights = _softmax(scores)
    output = weights @ V
    return output, weights


def softmax_jacobian__wrong_fourth_square_taken_off_twice(p: np.ndarray) -> np.ndarray:
    """Puts p (1 - p) on the diagonal and takes the whole outer product off: the diagonal becomes p - 2 p²."""
    return np.diag(p * (1 - p)) - np.outer(p, p)


def softmax_jacobian__right_fourth_weighted_covariance(p: np.ndarray) -> np.ndarray:
    """Right, unusual: the covariance of a one-hot draw with chances p, sum_l p_l (e_l - p)(e_l - p)^T."""
    away = np.eye(len(p)) - p  # row l: e_l - p
    return away.T @ (p[:, None] * away)


def attention_backward__wrong_fourth_diagonal_only(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Goes back through the softmax by a (1 - a), entry by entry: that a score moves other weights is forgotten."""
    root = np.sqrt(Q.shape[1])
    A = _softmax(Q @ K.T / root)
    dV = A.T @ d_output
    dA = d_output @ V.T
    dS = dA * A * (1 - A) / root
    return dS @ K, dS.T @ Q, dV


def attention_backward__wrong_fourth_sum_over_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two slips: the sum in the softmax's slopes runs over the queries, and dK is not divided by the root of d_k."""
    scale = 1 / math.sqrt(K.shape[-1])
    weights = _softmax(scale * Q @ K.T)
    d_weights = np.einsum("iv,jv->ij", d_output, V)
    shared = (weights * d_weights).sum(axis=0, keepdims=True)
    d_scores = weights * (d_weights - shared)
    return scale * d_scores @ K, d_scores.T @ Q, weights.T @ d_output
