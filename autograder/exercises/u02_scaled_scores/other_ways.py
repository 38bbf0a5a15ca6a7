"""Unit 2: other right ways than the course's own, so that their steps are known to be right, too."""

import math

import numpy as np

from .softmax import plain as softmax


def attention_scores__broadcast(Q, K):
    pairs = np.expand_dims(Q, 1) * np.expand_dims(K, 0)
    return np.add.reduce(pairs, axis=2)


def softmax__by_logarithm(z, axis=-1):
    last = np.moveaxis(np.asarray(z), axis, -1)
    shifted = last - np.max(last, axis=-1, keepdims=True)
    logarithm = np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
    return np.moveaxis(np.exp(shifted - logarithm), -1, axis)


def softmax__running_maximum(z, axis=-1):
    slices = np.moveaxis(z, axis, 0)
    highest = np.full(slices.shape[1:], -np.inf)
    total = np.zeros(slices.shape[1:])
    for part in slices:
        new = np.maximum(highest, part)
        total = total * np.exp(highest - new) + np.exp(part - new)
        highest = new
    return np.moveaxis(np.exp(slices - highest) / total, 0, axis)


def softmax__ratios(z, axis=-1):
    z = np.asarray(z)
    last = np.moveaxis(z, axis, -1).astype(np.float64)
    gaps = last[..., np.newaxis, :] - last[..., :, np.newaxis]
    with np.errstate(all="ignore"):
        weights = 1.0 / np.exp(gaps).sum(axis=-1)
    kind = z.dtype if np.issubdtype(z.dtype, np.floating) else np.float64
    return np.moveaxis(weights, -1, axis).astype(kind)


def derivation_terms__table_of_products(q, k):
    t = q * k
    table = t.T @ t / t.shape[0]
    same = np.eye(t.shape[1], dtype=bool)
    return (float(table[same].sum()), float(table[~same].sum()))


def derivation_terms__rolled(q, k):
    t = np.multiply(q, k)
    parts = [(t * np.roll(t, shift, axis=1)).sum(axis=1).mean() for shift in range(t.shape[1])]
    return (float(parts[0]), float(sum(parts[1:])))


def scaled_scores__fourth_roots(Q, K):
    d_k = Q.shape[1]
    small = float(d_k) ** (-0.25)
    products = (small * Q)[:, None, :] * (small * K)[None, :, :]
    return products.sum(axis=2)


def score_statistics__running(d, n_samples, rng, scaled):
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    divisor = math.sqrt(d) if scaled else 1.0
    mean, squares = (0.0, 0.0)
    for count, (a, b) in enumerate(zip(q, k, strict=False), start=1):
        score = math.fsum(a * b) / divisor
        before = score - mean
        mean += before / count
        squares += before * (score - mean)
    return (mean, squares / n_samples)


def attention__column_of_ones(Q, K, V):
    scores = Q @ K.T * Q.shape[1] ** (-0.5)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    both = powers @ np.hstack([V, np.ones((len(V), 1))])
    return (both[:, :-1] / both[:, -1:], powers / both[:, -1:])


def attention__keys_stacked(Q, K, V):
    scores = np.stack([(Q * key).sum(axis=1) for key in K], axis=1) / float(K.shape[1]) ** 0.5
    highest = np.max(scores, axis=1)
    powers = np.exp((scores.T - highest).T)
    weights = powers / np.add.reduce(powers, axis=1)[:, None]
    output = np.zeros((len(Q), V.shape[1]))
    for j in range(len(K)):
        output += np.outer(weights[:, j], V[j])
    return (output, weights)


def softmax_jacobian__projection(p):
    m = len(p)
    centre = np.identity(m) - np.broadcast_to(p, (m, m))
    return np.einsum("i,ij->ij", p, centre)


def attention_backward__query_by_query(Q, K, V, d_output):
    d_k = Q.shape[1]
    dQ, dK, dV = (np.zeros(X.shape, np.result_type(X, d_output)) for X in (Q, K, V))
    for i in range(len(Q)):
        a = softmax(K @ Q[i] / math.sqrt(d_k))
        jacobian = np.diag(a) - np.outer(a, a)
        heard = (V - a @ V) @ d_output[i]
        d_dots = jacobian @ heard / math.sqrt(d_k)
        dQ[i] = d_dots @ K
        dK += np.outer(d_dots, Q[i])
        dV += np.outer(a, d_output[i])
    return (dQ, dK, dV)
