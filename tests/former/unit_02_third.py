"""Answers to unit 02's functions, written from the notebook alone."""

import numpy as np


def _soft(z, axis=-1):
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def attention_scores__wrong_third_cosine(Q, K):
    """Divides each query and key by its length first, so the results are cosines and not dot products."""
    q = Q / np.linalg.norm(Q, axis=1, keepdims=True)
    k = K / np.linalg.norm(K, axis=1, keepdims=True)
    return q @ k.T


def attention_scores__right_third_broadcast(Q, K):
    """Multiplies by broadcasting over (n, m, d_k) and sums the last axis."""
    return (Q[:, None, :] * K[None, :, :]).sum(axis=2)


def softmax__wrong_third_max_scale(z, axis=-1):
    """Divides by the largest entry in place of subtracting it, which changes the weights."""
    e = np.exp(z / np.abs(z).max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def derivation_terms__wrong_third_pairs_once(q, k):
    """Counts each unordered pair once (i < j), so cross is half of what it should be."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    cross = (t.sum(axis=1) ** 2 - (t**2).sum(axis=1)).mean() / 2
    return diagonal, cross


def dot_product_moments__wrong_third_sum_of_variances(d, var_q=1.0, var_k=1.0):
    """Adds the two variances, as for a sum of variables, in place of multiplying them."""
    return 0.0, d * (var_q + var_k)


def dot_product_moments__right_third_loop(d, var_q=1.0, var_k=1.0):
    """Adds up the variance of one product for each feature in a loop."""
    variance = 0.0
    for _ in range(d):
        variance += var_q * var_k
    return 0.0, variance


def scaled_scores__wrong_third_key_count(Q, K):
    """Divides by the root of the number of keys (len(K)) in place of the root of d_k."""
    return Q @ K.T / np.sqrt(len(K))


def score_statistics__wrong_third_divides_moments(d, n_samples, rng, scaled):
    """Divides mean and variance both by the root of d when scaled, but the variance needs a division by d."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1)
    mean, variance = s.mean(), s.var()
    if scaled:
        mean, variance = mean / np.sqrt(d), variance / np.sqrt(d)
    return mean, variance


def attention__wrong_third_scale_after(Q, K, V):
    """Divides the output by the root of d_k after the softmax, and leaves the scores unscaled."""
    weights = _soft(Q @ K.T)
    return weights @ V / np.sqrt(Q.shape[1]), weights


def attention__right_third_rows(Q, K, V):
    """Goes query by query in a loop, with the root taken out of the query beforehand."""
    weights = np.zeros((len(Q), len(K)))
    for i, q in enumerate(Q / Q.shape[1] ** 0.5):
        weights[i] = _soft(K @ q)
    return np.einsum("nm,md->nd", weights, V), weights


def softmax_jacobian__wrong_third_softmax_again(p):
    """Takes the softmax of p once more before the formula, as if p were the scores."""
    a = _soft(p)
    return np.diag(a) - np.outer(a, a)


def attention_backward__wrong_third_dk_not_scaled(Q, K, V, d_output):
    """Forgets the root of d_k in dK, dQ has it; and the row sums of the softmax's slopes lack the weights."""
    root = np.sqrt(Q.shape[1])
    w = _soft(Q @ K.T / root)
    dw = d_output @ V.T
    ds = w * (dw - dw.mean(axis=1, keepdims=True))
    return ds @ K / root, ds.T @ Q, w.T @ d_output
