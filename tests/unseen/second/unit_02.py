import math
from functools import reduce

import numpy as np
import torch


# Right versions of earlier exercises, for those that come later.


def attention_scores(Q, K):
    return Q @ K.T


def softmax(z, axis=-1):
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def scaled_scores(Q, K):
    return attention_scores(Q, K) / Q.shape[1] ** 0.5


def softmax_jacobian(p):
    return np.diag(p) - np.outer(p, p)


# ---- 2.1 attention_scores


def attention_scores__wrong_reshaped_keys(Q, K):
    """Turns K into (d_k, m) by a reshape in place of a transpose, so features of different keys mix."""
    m, d_k = K.shape
    return Q @ K.reshape(d_k, m)


def attention_scores__wrong_unit_vectors(Q, K):
    """Normalises queries and keys to length 1: cosines in place of dot products."""

    def unit(X):
        return X / np.linalg.norm(X, axis=1, keepdims=True)

    return unit(Q) @ unit(K).T


def attention_scores__wrong_mean_over_features(Q, K):
    """Takes the mean of the products over the features, where a dot product is their sum."""
    products = Q[:, None, :] * K[None, :, :]
    return products.mean(axis=-1)


def attention_scores__wrong_single_precision(Q, K):
    """Fills a float32 table in a loop, so float64 inputs come back rounded."""
    scores = np.zeros((len(Q), len(K)), dtype=np.float32)
    for i in range(len(Q)):
        for j in range(len(K)):
            scores[i, j] = np.dot(Q[i], K[j])
    return scores


def attention_scores__wrong_keys_as_rows(Q, K):
    """The table has one row per key and one column per query."""
    scores = [[sum(q_c * k_c for q_c, k_c in zip(q, k)) for q in Q] for k in K]
    return np.array(scores)


def attention_scores__right_feature_by_feature(Q, K):
    """Adds up one outer product for each feature."""
    return reduce(np.add, (np.multiply.outer(Q[:, c], K[:, c]) for c in range(Q.shape[1])))


# ---- 2.2 softmax


def softmax__wrong_axis_not_moved_back(z, axis=-1):
    """Moves the axis to the end to work on it and does not move it back."""
    z = np.moveaxis(z, axis, -1)
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


def softmax__wrong_works_in_place(z, axis=-1):
    """Writes the weights into the caller's array."""
    z -= np.max(z, axis=axis, keepdims=True)
    np.exp(z, out=z)
    z /= np.sum(z, axis=axis, keepdims=True)
    return z


def softmax__wrong_clipped_entries(z, axis=-1):
    """Clips the entries to ±500 in place of a shift, so large entries that differ get equal weights."""
    powers = np.exp(np.clip(z, -500, 500))
    return powers / powers.sum(axis=axis, keepdims=True)


def softmax__wrong_one_shift_for_all(z, axis=-1):
    """Subtracts the largest entry of the whole array, so a row far below it becomes 0/0."""
    c = z.max()
    e = np.exp(z - c)
    total = np.expand_dims(e.sum(axis=axis), axis)
    return e / total


def softmax__wrong_epsilon_in_sum(z, axis=-1):
    """Adds 1e-6 to the sum against a division by zero, so the weights sum to less than 1."""
    top = np.amax(z, axis=axis, keepdims=True)
    powers = np.exp(z - top)
    return powers / (powers.sum(axis=axis, keepdims=True) + 1e-6)


def softmax__right_vector_by_vector(z, axis=-1):
    """A softmax of one vector, applied along the axis."""

    def of_vector(vector):
        top = max(vector)
        shares = np.array([math.exp(entry - top) for entry in vector])
        return shares / math.fsum(shares)

    return np.apply_along_axis(of_vector, axis, z)


# ---- 2.3 derivation_terms


def derivation_terms__wrong_pairs_counted_once(q, k):
    """Sums the cross terms over i < j only: each pair counts once and not twice."""
    n, d = q.shape
    diagonal, cross = 0.0, 0.0
    for r in range(n):
        t = q[r] * k[r]
        for i in range(d):
            diagonal += t[i] ** 2
            for j in range(i + 1, d):
                cross += t[i] * t[j]
    return diagonal / n, cross / n


def derivation_terms__wrong_cross_from_variance(q, k):
    """Makes cross from the variance of s, which subtracts the squared mean, and not from the mean of s²."""
    terms = q * k
    diagonal = (terms**2).sum(axis=1).mean()
    s = terms.sum(axis=1)
    return diagonal, s.var() - diagonal


def derivation_terms__wrong_terms_averaged_first(q, k):
    """Averages the terms over the samples before they are multiplied with one another."""
    t = (q * k).mean(axis=0)
    table = np.outer(t, t)
    diagonal = np.trace(table)
    cross = table.sum() - diagonal
    return diagonal, cross


def derivation_terms__wrong_lengths_multiplied(q, k):
    """Takes the squared length of q times that of k for the diagonal, where each q_i meets its own k_i."""
    diagonal = np.mean(np.sum(q**2, axis=1) * np.sum(k**2, axis=1))
    total = np.mean(np.einsum("ri,ri->r", q, k) ** 2)
    return diagonal, total - diagonal


def derivation_terms__wrong_diagonal_left_in(q, k):
    """Cross is the mean of the whole s², with the diagonal still in it."""
    t = q * k
    pairs = np.einsum("ri,rj->rij", t, t)
    diagonal = np.einsum("rii->r", pairs).mean()
    cross = pairs.sum(axis=(1, 2)).mean()
    return diagonal, cross


def derivation_terms__right_mean_table(q, k):
    """The table of all products, averaged over the samples; then its trace and the rest."""
    t = q * k
    table = t.T @ t / len(t)
    off = ~np.eye(len(table), dtype=bool)
    return float(np.trace(table)), float(table[off].sum())


# ---- 2.4 dot_product_moments


def dot_product_moments__wrong_variances_squared(d, var_q=1.0, var_k=1.0):
    """Squares the variances, as if they were standard deviations."""
    variance_of_term = var_q**2 * var_k**2
    return 0.0, d * variance_of_term


def dot_product_moments__wrong_mean_of_square(d, var_q=1.0, var_k=1.0):
    """Gives the mean that a vector's dot product with itself has, d times a variance, where it is 0."""
    mean = d * math.sqrt(var_q * var_k)
    variance = d * var_q * var_k
    return mean, variance


def dot_product_moments__wrong_key_variance_ignored(d, var_q=1.0, var_k=1.0):
    """Uses the variance of the queries for the keys too."""
    sigma_q, sigma_k = math.sqrt(var_q), math.sqrt(var_q)
    return 0.0, d * sigma_q**2 * sigma_k**2


def dot_product_moments__wrong_all_pairs_count(d, var_q=1.0, var_k=1.0):
    """Adds a term for every pair of features, d² of them: the cross terms do not vanish."""
    variance = 0.0
    for _ in range(d):
        variance += d * var_q * var_k
    return 0.0, variance


def dot_product_moments__wrong_simulated(d, var_q=1.0, var_k=1.0):
    """Draws 2,000 pairs and measures, where the formula is asked for."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal((2000, d)) * np.sqrt(var_q)
    k = rng.standard_normal((2000, d)) * np.sqrt(var_k)
    s = (q * k).sum(axis=1)
    return s.mean(), s.var()


def dot_product_moments__right_term_by_term(d, var_q=1.0, var_k=1.0):
    """Means and variances of d independent terms, added up exactly."""
    means = (0.0 * 0.0 for _ in range(d))
    variances = (var_q * var_k for _ in range(d))
    return math.fsum(means), math.fsum(variances)


# ---- 2.5 scaled_scores


def scaled_scores__wrong_power_before_half(Q, K):
    """`** 1/2` is read as (d ** 1) / 2, so the scores are divided by half of d_k."""
    d_k = Q.shape[-1]
    divisor = d_k ** 1/2
    return attention_scores(Q, K) / divisor


def scaled_scores__wrong_root_on_both(Q, K):
    """Divides the queries and the keys by the root each, so the scores are divided by d_k."""

    def scaled(X):
        return X / math.sqrt(X.shape[1])

    return scaled(Q) @ scaled(K).T


def scaled_scores__wrong_fourth_root_once(Q, K):
    """Splits the root between both factors, but applies the fourth root to the queries alone."""
    share = Q.shape[1] ** -0.25
    Q_small = Q * share
    return np.einsum("nc,mc->nm", Q_small, K)


def scaled_scores__wrong_whole_number_root(Q, K):
    """Rounds the root down to a whole number, which is right for widths like 4 and 64 only."""
    d_k = K.shape[1]
    root = math.isqrt(d_k)
    return np.dot(Q, K.T) / root


def scaled_scores__wrong_root_of_queries(Q, K):
    """len(Q) is the number of queries, not the width."""
    scores = np.empty((len(Q), len(K)))
    for i, q in enumerate(Q):
        scores[i] = K @ q
    return scores / np.sqrt(len(Q))


def scaled_scores__right_key_by_key(Q, K):
    """One column per key, with the root taken as a logarithm's half."""
    root = math.exp(math.log(K.shape[1]) / 2)
    return np.stack([(Q * key).sum(axis=1) / root for key in K], axis=1)


# ---- 2.6 score_statistics


def score_statistics__wrong_drawn_pair_by_pair(d, n_samples, rng, scaled):
    """Draws a query, then its key, then the next query: not all of q first."""
    scores = []
    for _ in range(n_samples):
        q = rng.standard_normal(d)
        k = rng.standard_normal(d)
        scores.append(q @ k)
    scores = np.array(scores)
    if scaled:
        scores = scores / np.sqrt(d)
    return scores.mean(), scores.var()


def score_statistics__wrong_variance_by_root(d, n_samples, rng, scaled):
    """Divides mean and variance by the root of d at the end, but a variance shrinks by d."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.einsum("rc,rc->r", q, k)
    mean, variance = s.mean(), s.var()
    if scaled:
        mean, variance = mean / d**0.5, variance / d**0.5
    return mean, variance


def score_statistics__wrong_mean_not_subtracted(d, n_samples, rng, scaled):
    """Returns the mean of s², since the mean should be 0 anyway; the measured one is not."""
    q, k = (rng.standard_normal((n_samples, d)) for _ in range(2))
    s = (q * k).sum(axis=1)
    if scaled:
        s /= math.sqrt(d)
    return float(np.mean(s)), float(np.mean(s**2))


def score_statistics__wrong_all_pairs(d, n_samples, rng, scaled):
    """Multiplies all queries with all keys: row r of q meets every row of k."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    scores = scaled_scores(q, k) if scaled else attention_scores(q, k)
    return np.mean(scores), np.var(scores)


def score_statistics__wrong_both_divided(d, n_samples, rng, scaled):
    """Where scaled, q and k are both divided by the root of d, so the scores are divided by d."""
    shape = (n_samples, d)
    factor = d**-0.5 if scaled else 1.0
    q = factor * rng.standard_normal(shape)
    k = factor * rng.standard_normal(shape)
    s = np.sum(np.multiply(q, k), axis=-1)
    return s.mean(), s.var(ddof=0)


def score_statistics__right_running_moments(d, n_samples, rng, scaled):
    """Mean and sum of squared distances are carried along, score by score."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    mean = squares = 0.0
    for count, (one_q, one_k) in enumerate(zip(q, k), start=1):
        score = float(one_q @ one_k)
        if scaled:
            score /= math.sqrt(d)
        step = score - mean
        mean += step / count
        squares += step * (score - mean)
    return mean, squares / n_samples


# ---- 2.7 attention


def attention__wrong_root_of_value_width(Q, K, V):
    """Divides by the root of the width of the values, d_v."""
    _, d = V.shape
    weights = softmax(attention_scores(Q, K) / math.sqrt(d), axis=1)
    return weights @ V, weights


def attention__wrong_scaled_twice(Q, K, V):
    """scaled_scores has divided by the root already, and here it is done again."""
    d_k = K.shape[1]
    S = scaled_scores(Q, K)
    A = softmax(S / np.sqrt(d_k))
    return A @ V, A


def attention__wrong_only_past_keys(Q, K, V):
    """Query i mixes the keys 0 ... i only: a causal mask that nobody asked for."""
    n, m = len(Q), len(K)
    weights = np.zeros((n, m))
    output = np.zeros((n, V.shape[1]))
    for i in range(n):
        seen = min(i + 1, m)
        s = K[:seen] @ Q[i] / np.sqrt(Q.shape[1])
        weights[i, :seen] = softmax(s)
        output[i] = weights[i] @ V
    return output, weights


def attention__wrong_root_after_softmax(Q, K, V):
    """Divides the weights by the root and renormalises them, which undoes the division: plain scores decide."""
    weights = softmax(Q @ K.T)
    weights = weights / np.sqrt(Q.shape[1])
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return np.einsum("nm,mv->nv", weights, V), weights


def attention__wrong_mean_of_values(Q, K, V):
    """The weighted values are averaged over the keys: the output is m times too small."""
    weights = softmax(scaled_scores(Q, K))
    output = np.array([np.mean([a * v for a, v in zip(row, V)], axis=0) for row in weights])
    return output, weights


def attention__right_keys_one_by_one(Q, K, V):
    """Meets the keys one after the other with a running maximum for each query."""
    root = Q.shape[1] ** 0.5
    top = np.full((len(Q), 1), -np.inf)
    powers = np.zeros((len(Q), 0))
    mix = np.zeros((len(Q), V.shape[1]))
    for key, value in zip(K, V):
        score = (Q @ key)[:, None] / root
        new_top = np.maximum(top, score)
        shrink = np.exp(top - new_top)
        own = np.exp(score - new_top)
        powers = np.hstack([powers * shrink, own])
        mix = mix * shrink + own * value
        top = new_top
    total = powers.sum(axis=1, keepdims=True)
    return mix / total, powers / total


# ---- 2.8 softmax_jacobian


def softmax_jacobian__wrong_softmax_again(p):
    """Takes p for scores and sends it through the softmax once more."""
    a = softmax(p)
    return np.diag(a) - np.outer(a, a)


def softmax_jacobian__wrong_factor_along_row(p):
    """p broadcasts along the row: off the diagonal entry [i, j] becomes -p_j² where -p_i p_j is due."""
    m = len(p)
    return p * (np.eye(m) - p)


def softmax_jacobian__wrong_lower_half_only(p):
    """The inner loop ends at the diagonal, so the entries above it stay 0."""
    m = p.size
    J = np.zeros((m, m))
    for i in range(m):
        for j in range(i + 1):
            J[i, j] = p[i] * (1 - p[i]) if i == j else -p[i] * p[j]
    return J


def softmax_jacobian__wrong_of_log_weights(p):
    """These are the derivatives of the logarithms of the weights; the factor p_i is missing."""
    identity = np.eye(len(p))
    return identity - np.tile(p, (len(p), 1))


def softmax_jacobian__wrong_kept_from_zero(p):
    """Keeps the weights away from 0 and 1 by 1e-4, so a saturated softmax still seems to move."""
    a = np.clip(p, 1e-4, 1 - 1e-4)
    J = -a[:, None] * a[None, :]
    J[np.diag_indices(len(a))] = a * (1 - a)
    return J


def softmax_jacobian__right_centred_unit_vectors(p):
    """Column j: how far a unit vector lies from the mean p, times the weight of key j."""
    columns = [weight * (unit - p) for weight, unit in zip(p, np.eye(len(p)))]
    return np.column_stack(columns)


# ---- 2.9 attention_backward


def attention_backward__wrong_own_score_only(Q, K, V, d_output):
    """Back through the softmax each weight feels its own score alone: a (1 - a), without the cross terms."""
    root = np.sqrt(Q.shape[1])
    A = softmax(Q @ K.T / root)
    dV = A.T @ d_output
    dA = d_output @ V.T
    dS = dA * A * (1 - A) / root
    return dS @ K, dS.T @ Q, dV


def attention_backward__wrong_last_query_wins(Q, K, V, d_output):
    """The loop over queries writes dK anew each time, where the shares of all queries add up."""
    dQ, dK, dV = np.zeros_like(Q), np.zeros_like(K), np.zeros_like(V)
    scale = Q.shape[1] ** -0.5
    for i in range(len(Q)):
        a = softmax(K @ Q[i] * scale)
        ds = softmax_jacobian(a) @ (V @ d_output[i])
        dQ[i] = ds @ K * scale
        dK = np.outer(ds, Q[i]) * scale
        dV += np.outer(a, d_output[i])
    return dQ, dK, dV


def attention_backward__wrong_keys_not_scaled(Q, K, V, d_output):
    """The queries are scaled before the product and dQ is scaled back, but dK is made from the unscaled queries."""
    r = math.sqrt(Q.shape[1])
    scaled_Q = Q / r
    weights = softmax(scaled_Q @ K.T, axis=1)
    d_weights = d_output @ V.T
    mean = np.sum(weights * d_weights, axis=1, keepdims=True)
    d_scores = weights * (d_weights - mean)
    return (d_scores @ K) / r, d_scores.T @ Q, weights.T @ d_output


def attention_backward__wrong_plain_mean_subtracted(Q, K, V, d_output):
    """Subtracts the plain mean of the slopes over the keys, where their mean weighted by the weights is due."""
    root = K.shape[1] ** 0.5
    A = softmax(scaled_scores(Q, K))
    G = np.einsum("nv,mv->nm", d_output, V)
    dS = A * (G - G.mean(axis=1, keepdims=True))
    dQ = np.einsum("nm,mc->nc", dS, K) / root
    dK = np.einsum("nm,nc->mc", dS, Q) / root
    return dQ, dK, np.einsum("nm,nv->mv", A, d_output)


def attention_backward__wrong_output_gradient_lost(Q, K, V, d_output):
    """dV is the plain sum of the weights that a value gets, so the slopes of the output do not come in."""
    scale = 1 / np.sqrt(Q.shape[1])
    A = softmax(Q @ K.T * scale)
    dV = np.repeat(A.sum(axis=0)[:, None], V.shape[1], axis=1)
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(axis=1, keepdims=True))
    return dS @ K * scale, dS.T @ Q * scale, dV


def attention_backward__right_pair_by_pair(Q, K, V, d_output):
    """Every pair of query and key collects its share by itself, from differences between values."""
    root = math.sqrt(Q.shape[1])
    dQ, dK, dV = (np.zeros(X.shape) for X in (Q, K, V))
    for i, (q, slope) in enumerate(zip(Q, d_output)):
        a = softmax(np.array([k @ q for k in K]) / root)
        for j, weight in enumerate(a):
            dV[j] += weight * slope
            gain = sum(other * ((V[j] - v) @ slope) for other, v in zip(a, V))
            dQ[i] += weight * gain * K[j] / root
            dK[j] += weight * gain * q / root
    return dQ, dK, dV
