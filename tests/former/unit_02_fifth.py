"""Answers to the exercises of unit 2, scaled scores, as students would hand them in."""

import math

import numpy as np


def _softmax(z, axis=-1):
    powers = np.exp(z - np.max(z, axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _attention(Q, K, V):
    weights = _softmax(Q @ K.T / math.sqrt(Q.shape[1]))
    return weights @ V, weights


# ---- attention_scores


def attention_scores__wrong_fifth_scaled(Q, K):
    """Divides by the root of d_k at once, where the plain scores are asked for."""
    return np.dot(Q, K.transpose()) / np.sqrt(Q.shape[-1])


def attention_scores__wrong_fifth_reshaped_keys(Q, K):
    """Makes the shapes fit by reshaping K to (d_k, m) where it should be transposed."""
    m, d_k = K.shape
    return Q @ K.reshape(d_k, m)


def attention_scores__wrong_fifth_keys_as_rows(Q, K):
    """Writes one row per key and one column per query, (m, n)."""
    table = []
    for key in K:
        table.append([float(query @ key) for query in Q])
    return np.array(table)


def attention_scores__wrong_fifth_symmetric(Q, K):
    """Believes the table to be symmetric: computes the entries with j >= i alone and mirrors them."""
    n, m = len(Q), len(K)
    S = np.zeros((n, m))
    for i in range(n):
        for j in range(i, m):
            S[i, j] = np.sum(Q[i] * K[j])
            if j < n and i < m:
                S[j, i] = S[i, j]
    return S


def attention_scores__right_fifth_outer_products(Q, K):
    """Adds up one outer product per feature."""
    S = np.zeros((Q.shape[0], K.shape[0]), dtype=np.result_type(Q, K))
    for asked, offered in zip(Q.T, K.T):
        S = S + asked[:, np.newaxis] * offered[np.newaxis, :]
    return S


# ---- softmax


def softmax__wrong_fifth_one_shift_for_all(z, axis=-1):
    """Subtracts the largest entry of the whole array: a row far below it has exponentials that are all 0."""
    e = np.exp(z - z.max())
    return e / np.sum(e, axis=axis, keepdims=True)


def softmax__wrong_fifth_in_place(z, axis=-1):
    """Subtracts the maximum with -=, which writes into the caller's array."""
    z -= z.max(axis=axis, keepdims=True)
    out = np.exp(z)
    out /= out.sum(axis=axis, keepdims=True)
    return out


def softmax__wrong_fifth_sum_over_last_axis(z, axis=-1):
    """Takes the maximum along axis, and the sum always along the last axis."""
    top = np.amax(z, axis=axis, keepdims=True)
    exps = np.exp(z - top)
    norm = exps.sum(-1, keepdims=True)
    return exps / norm


def softmax__wrong_fifth_clipped(z, axis=-1):
    """Clips the entries to -100 … 100 against the overflow and shifts nothing."""
    bounded = np.minimum(np.maximum(z, -100.0), 100.0)
    e = np.exp(bounded)
    return e / e.sum(axis=axis, keepdims=True)


# ---- derivation_terms


def derivation_terms__wrong_fifth_each_pair_once(q, k):
    """Sums the cross terms over i < j alone, so each pair counts once and not twice."""
    t = q * k
    samples, d = t.shape
    diagonal = (t**2).sum() / samples
    cross = 0.0
    for i in range(d):
        for j in range(i + 1, d):
            cross += (t[:, i] * t[:, j]).mean()
    return diagonal, cross


def derivation_terms__wrong_fifth_averaged_first(q, k):
    """Averages the terms over the samples before the cross products are formed."""
    t = q * k
    diagonal = np.mean(np.sum(t**2, axis=1))
    m = t.mean(axis=0)
    pairs = np.outer(m, m)
    return diagonal, pairs.sum() - np.trace(pairs)


def derivation_terms__wrong_fifth_features_averaged(q, k):
    """Takes .mean() of all the squares: the features are averaged, where they should be summed."""
    terms = q * k
    scores = terms.sum(axis=1)
    diagonal = np.mean(terms**2)
    cross = np.mean(scores**2 - (terms**2).sum(axis=1))
    return diagonal, cross


def derivation_terms__wrong_fifth_variance_for_square(q, k):
    """Makes cross the rest of the variance of s, where the mean of s² should be split."""
    s = np.einsum("rd,rd->r", q, k)
    diagonal = np.einsum("rd,rd->", q * k, q * k) / len(s)
    return diagonal, np.var(s) - diagonal


# ---- dot_product_moments


def dot_product_moments__wrong_fifth_variances_squared(d: int, var_q=1.0, var_k=1.0):
    """Takes var_q and var_k for standard deviations and squares them."""
    variance = d * var_q**2 * var_k**2
    return 0.0, variance


def dot_product_moments__wrong_fifth_mean_d(d: int, var_q=1.0, var_k=1.0):
    """Gives the mean of q · q, that is d (claim 1), in place of 0."""
    mean = d * math.sqrt(var_q * var_k)
    variance = d * var_q * var_k
    return mean, variance


def dot_product_moments__wrong_fifth_variances_added(d: int, var_q=1.0, var_k=1.0):
    """Adds the two variances, the rule for a sum, where a product of independent numbers multiplies them."""
    one_term = var_q + var_k
    return 0.0, d * one_term


def dot_product_moments__wrong_fifth_scaled(d: int, var_q=1.0, var_k=1.0):
    """Gives the variance of the score divided by the root of d."""
    var_s = d * var_q * var_k
    return 0.0, var_s / np.sqrt(d) ** 2


def dot_product_moments__right_fifth_term_by_term(d: int, var_q=1.0, var_k=1.0):
    """Adds up mean and variance over the d independent terms, each with mean 0 and variance E[q²] E[k²]."""
    means = [0.0 * 0.0 for _ in range(d)]
    spreads = [var_q * var_k - mean**2 for mean in means]
    return math.fsum(means), math.fsum(spreads)


# ---- scaled_scores


def scaled_scores__wrong_fifth_half_of_power_one(Q, K):
    """Writes d ** 1/2 after the division, which divides by d and then by 2."""
    d = Q.shape[1]
    return Q @ K.T / d ** 1 / 2


def scaled_scores__wrong_fifth_root_of_m(Q, K):
    """Divides by the root of len(K), the number of keys, and not of their width."""
    scores = Q @ K.T
    return scores / math.sqrt(len(K))


def scaled_scores__wrong_fifth_both_divided(Q, K):
    """Divides the queries and the keys each by the root of d_k: together by d_k."""
    root = np.sqrt(Q.shape[-1])
    Q_small, K_small = Q / root, K / root
    return np.einsum("ic,jc->ij", Q_small, K_small)


def scaled_scores__wrong_fifth_whole_root(Q, K):
    """Uses math.isqrt, which rounds the root down to a whole number: wrong unless d_k is a square."""
    root = math.isqrt(Q.shape[1])
    return np.array([[np.dot(q, k) / root for k in K] for q in Q])


# ---- score_statistics


def score_statistics__wrong_fifth_pair_by_pair(d, n_samples, rng, scaled):
    """Draws a query and its key in turns, so the numbers come in another order than the task says."""
    s = []
    for _ in range(n_samples):
        q = rng.standard_normal(d)
        k = rng.standard_normal(d)
        s.append(q @ k)
    s = np.array(s)
    if scaled:
        s = s / np.sqrt(d)
    return s.mean(), s.var()


def score_statistics__wrong_fifth_root_on_results(d, n_samples, rng, scaled):
    """Divides the mean and the variance by the root of d, where the scores should be: the variance needs d."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    scores = np.sum(q * k, axis=1)
    mean, variance = np.mean(scores), np.var(scores)
    if scaled:
        mean, variance = mean / d**0.5, variance / d**0.5
    return mean, variance


def score_statistics__wrong_fifth_sample_variance(d, n_samples, rng, scaled):
    """Divides the squared distances by n_samples - 1 (only a single sample gets 0)."""
    shape = (n_samples, d)
    q, k = rng.standard_normal(shape), rng.standard_normal(shape)
    s = np.einsum("ij,ij->i", q, k) * (1 / math.sqrt(d) if scaled else 1)
    centre = s.sum() / n_samples
    return centre, ((s - centre) ** 2).sum() / max(n_samples - 1, 1)


def score_statistics__wrong_fifth_around_zero(d, n_samples, rng, scaled):
    """Takes the mean of s² for the variance, since the derived mean is 0, in place of the distance from the measured one."""
    q = rng.standard_normal(size=(n_samples, d))
    k = rng.standard_normal(size=(n_samples, d))
    factor = np.sqrt(d) if scaled else 1.0
    s = (q * k).sum(-1) / factor
    return float(np.mean(s)), float(np.mean(s * s))


# ---- attention


def attention__wrong_fifth_columns_sum_to_one(Q, K, V):
    """Runs the softmax along axis 0, over the queries, so the columns sum to 1."""
    S = Q @ K.T / np.sqrt(K.shape[1])
    S = S - S.max(axis=0)
    A = np.exp(S) / np.exp(S).sum(axis=0)
    return A @ V, A


def attention__wrong_fifth_width_of_values(Q, K, V):
    """Divides by the root of d_v, the width of the values."""
    d = V.shape[-1]
    weights = _softmax(Q @ K.T / d**0.5)
    output = weights @ V
    return output, weights


def attention__wrong_fifth_root_after_softmax(Q, K, V):
    """Takes the softmax of the plain scores and divides the weights by the root."""
    plain = np.einsum("id,jd->ij", Q, K)
    weights = _softmax(plain, axis=-1) / math.sqrt(Q.shape[1])
    return weights @ V, weights


def attention__wrong_fifth_no_shift(Q, K, V):
    """Takes the exponentials of the scores as they are: large ones overflow to inf / inf."""
    scores = Q @ K.T / math.sqrt(Q.shape[1])
    powers = np.exp(scores)
    weights = powers / powers.sum(axis=1, keepdims=True)
    return np.dot(weights, V), weights


def attention__right_fifth_query_by_query(Q, K, V):
    """One query at a time: sorts out its weights by its best key, and adds up the values key by key."""
    n, m = len(Q), len(K)
    kind = np.result_type(Q, K, V)
    output, weights = np.zeros((n, V.shape[1]), kind), np.zeros((n, m), kind)
    for i, q in enumerate(Q):
        s = [float(np.dot(k, q)) / math.sqrt(len(q)) for k in K]
        best = max(s)
        powers = [math.exp(x - best) for x in s]
        whole = math.fsum(powers)
        for j, power in enumerate(powers):
            weights[i, j] = power / whole
            output[i] += power / whole * V[j]
    return output, weights


# ---- softmax_jacobian


def softmax_jacobian__wrong_fifth_diagonal_alone(p):
    """Gives p (1 - p) on the diagonal and 0 elsewhere, as for the logistic function."""
    return np.diag(p * (1 - p))


def softmax_jacobian__wrong_fifth_softmax_again(p):
    """Takes p for scores and runs the softmax on it before the formula."""
    a = np.exp(p) / np.exp(p).sum()
    return np.diag(a) - np.outer(a, a)


def softmax_jacobian__wrong_fifth_of_the_logarithm(p):
    """Gives the derivative of the logarithm of the weights, 1 - p_j and -p_j."""
    m = p.shape[0]
    J = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            J[i, j] = (1.0 if i == j else 0.0) - p[j]
    return J


def softmax_jacobian__wrong_fifth_one_case_for_all(p):
    """Uses the case j = i everywhere, p_i (1 - p_j), so the other entries have the wrong sign."""
    return p[:, None] * (1 - p)[None, :]


def softmax_jacobian__right_fifth_rows_scaled(p):
    """Scales row i of the identity less p by p_i."""
    p = np.asarray(p)
    unmoved = np.eye(len(p), dtype=p.dtype) - np.broadcast_to(p, (len(p), len(p)))
    return unmoved * p.reshape(-1, 1)


# ---- attention_backward


def attention_backward__wrong_fifth_root_forgotten(Q, K, V, d_output):
    """Goes back through the softmax rightly and forgets the divisor: dQ and dK are too large by the root of d_k."""
    _, A = _attention(Q, K, V)
    dV = A.T @ d_output
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(axis=1, keepdims=True))
    return dS @ K, dS.T @ Q, dV


def attention_backward__wrong_fifth_diagonal_of_jacobian(Q, K, V, d_output):
    """Goes back through the softmax with a (1 - a) alone: what one score does to the other weights is left out."""
    root = np.sqrt(K.shape[1])
    A = _softmax(Q @ K.T / root)
    d_weights = d_output @ V.T
    d_scores = d_weights * A * (1 - A) / root
    return d_scores @ K, d_scores.T @ Q, A.T @ d_output


def attention_backward__wrong_fifth_sum_over_queries(Q, K, V, d_output):
    """Subtracts the sum over axis 0, the queries, where the softmax runs along the keys."""
    scale = 1 / math.sqrt(Q.shape[1])
    weights = _softmax(scale * (Q @ K.T))
    G = np.einsum("nv,mv->nm", d_output, V)
    inner = np.sum(weights * G, axis=0, keepdims=True)
    dS = scale * weights * (G - inner)
    return dS @ K, dS.T @ Q, weights.T @ d_output


def attention_backward__wrong_fifth_one_sided_differences(Q, K, V, d_output):
    """Nudges every entry up by 1e-3 and divides the difference by it, where a formula is asked for."""
    step = 1e-3

    def number(inputs):
        return (_attention(*inputs)[0] * d_output).sum()

    base = number((Q, K, V))
    slopes = []
    for which in range(3):
        slope = np.zeros((Q, K, V)[which].shape)
        for place in np.ndindex(slope.shape):
            moved = [np.array(x, dtype=float) for x in (Q, K, V)]
            moved[which][place] += step
            slope[place] = (number(moved) - base) / step
        slopes.append(slope)
    return tuple(slopes)
