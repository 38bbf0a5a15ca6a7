"""Answers of a class to the exercises of unit 2, scaled scores: wrong and right ones."""

import math

import numpy as np
import torch


# Right answers to earlier exercises, for the answers that call them.
def _attention_scores(Q, K):
    """A right attention_scores."""
    return Q @ K.T


def _softmax(z, axis=-1):
    """A right softmax."""
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _scaled_scores(Q, K):
    """A right scaled_scores."""
    return Q @ K.T / Q.shape[1] ** 0.5


def _attention(Q, K, V):
    """A right attention."""
    weights = _softmax(_scaled_scores(Q, K))
    return weights @ V, weights


def _softmax_jacobian(p):
    """A right softmax_jacobian."""
    return np.diag(p) - np.outer(p, p)


# Exercise 2.1: attention_scores


def attention_scores__wrong_sixth_key_per_row(Q, K):
    """Loops over the keys outside and the queries inside: the table is (m, n), a row per key."""
    table = []
    for key in K:
        table.append([float(np.dot(key, query)) for query in Q])
    return np.array(table)


def attention_scores__wrong_sixth_divided_by_root(Q, K):
    """Divides the dot products by sqrt(d_k), as in the formula at the head of the unit."""
    n, d_k = Q.shape
    products = Q @ K.T
    return products / math.sqrt(d_k)


def attention_scores__wrong_sixth_cosine(Q, K):
    """Brings queries and keys to length 1 first: returns the cosine of the angle, not the dot product."""

    def unit(rows):
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(lengths > 0, lengths, 1)

    return unit(Q) @ unit(K).T


def attention_scores__wrong_sixth_reshaped_keys(Q, K):
    """Gets K into the shape (d_k, m) with reshape, not a transpose: its entries end up with other keys."""
    m, d_k = K.shape
    return np.matmul(Q, K.reshape(d_k, m))


def attention_scores__wrong_sixth_first_feature_lost(Q, K):
    """Adds up the features in a loop that counts from 1: feature 0 is left out."""
    total = np.zeros((Q.shape[0], K.shape[0]))
    for c in range(1, Q.shape[1]):
        total = total + Q[:, c][:, None] * K[:, c][None, :]
    return total


def attention_scores__wrong_sixth_single_precision(Q, K):
    """Turns both into float32 'as models do': float64 goes in and float32 comes out."""
    queries, keys = Q.astype(np.float32), K.astype(np.float32)
    return np.einsum("id,jd->ij", queries, keys)


def attention_scores__wrong_sixth_product_of_sums(Q, K):
    """Sums the features of each vector first and multiplies the sums, in place of summing the products."""
    asked = Q.sum(axis=1)
    offered = K.sum(axis=1)
    return np.outer(asked, offered)


def attention_scores__wrong_sixth_clipped(Q, K):
    """Clips the scores to ±700, so that a later exp cannot overflow."""
    return np.clip(np.dot(Q, np.transpose(K)), -700.0, 700.0)


def attention_scores__right_sixth_outer_products(Q, K):
    """Adds up one outer product per feature."""
    S = np.zeros((len(Q), len(K)))
    for asked, offered in zip(Q.T, K.T, strict=True):
        S += np.multiply.outer(asked, offered)
    return S


# Exercise 2.2: softmax


def softmax__wrong_sixth_no_shift(z, axis=-1):
    """The formula as it is printed, without a shift: large entries give NaN."""
    top = np.exp(z)
    bottom = np.sum(top, axis=axis, keepdims=True)
    return top / bottom


def softmax__wrong_sixth_one_shift_for_all(z, axis=-1):
    """Shifts by the largest entry of the whole array: a row far below it becomes 0/0."""
    e = np.exp(z - z.max())
    return e / e.sum(axis, keepdims=True)


def softmax__wrong_sixth_largest_magnitude(z, axis=-1):
    """Shifts by the largest absolute value of the row: a row of large negative entries becomes 0/0."""
    size = np.max(np.abs(z), axis=axis, keepdims=True)
    powers = np.exp(z - size)
    return powers / powers.sum(axis=axis, keepdims=True)


def softmax__wrong_sixth_in_place(z, axis=-1):
    """Subtracts the maximum with -= and so writes into the caller's array."""
    z -= np.amax(z, axis=axis, keepdims=True)
    powers = np.exp(z)
    return powers / np.sum(powers, axis=axis, keepdims=True)


def softmax__wrong_sixth_epsilon(z, axis=-1):
    """Adds 1e-6 to the sum below the bar 'against 0/0': the weights do not sum to 1."""
    safe = z - z.max(axis=axis, keepdims=True)
    return np.exp(safe) / (np.exp(safe).sum(axis=axis, keepdims=True) + 1e-6)


def softmax__wrong_sixth_clipped_entries(z, axis=-1):
    """Clips the entries to ±500 in place of a shift: entries beyond that come out alike."""
    tame = np.clip(z, -500, 500)
    powers = np.exp(tame)
    return powers / powers.sum(axis=axis, keepdims=True)


def softmax__wrong_sixth_axis_zero_is_falsy(z, axis=-1):
    """Writes `axis = axis or -1` for a default: axis=0 counts as not given and becomes the last one."""
    axis = axis or -1
    shifted = z - np.max(z, axis=axis, keepdims=True)
    powers = np.exp(shifted)
    total = powers.sum(axis=axis, keepdims=True)
    return powers / total


def softmax__wrong_sixth_reshape_for_axis(z, axis=-1):
    """Brings the axis to the end with a reshape to (-1, z.shape[axis]): for other axes that mixes entries."""
    rows = z.reshape(-1, z.shape[axis])
    result = np.empty(rows.shape)
    for number, row in enumerate(rows):
        powers = np.exp(row - row.max())
        result[number] = powers / powers.sum()
    return result.reshape(z.shape)


def softmax__right_sixth_log_domain(z, axis=-1):
    """The logarithm of the sum with np.logaddexp.reduce, and one exp at the end."""
    shifted = z - np.max(z, axis=axis, keepdims=True)
    log_sum = np.logaddexp.reduce(shifted, axis=axis, keepdims=True)
    return np.exp(shifted - log_sum)


# Exercise 2.3: derivation_terms


def derivation_terms__wrong_sixth_each_pair_once(q, k):
    """Takes the products above the diagonal only: each pair counts once, not in both orders."""
    t = q * k
    count, d = t.shape
    i, j = np.triu_indices(d, k=1)
    diagonal = (t**2).sum(axis=1).mean()
    cross = (t[:, i] * t[:, j]).sum(axis=1).mean()
    return diagonal, cross


def derivation_terms__wrong_sixth_cross_of_mean_terms(q, k):
    """Averages the terms over the samples before they meet for the cross part."""
    terms = q * k
    diagonal = np.mean(np.sum(terms * terms, axis=1))
    average = terms.mean(axis=0)
    table = np.outer(average, average)
    return diagonal, table.sum() - np.trace(table)


def derivation_terms__wrong_sixth_features_averaged(q, k):
    """Takes the mean over the features, too, where a sum is due: both parts are d times too small."""
    t = q * k
    diagonal = (t * t).mean()
    square_of_score = t.sum(axis=1) ** 2 / t.shape[1]
    return float(diagonal), float(square_of_score.mean() - diagonal)


def derivation_terms__wrong_sixth_all_with_all(q, k):
    """Lets every row of q meet every row of k, by matrix products, in place of row r with row r."""
    diagonal = ((q**2) @ (k**2).T).mean()
    scores = q @ k.T
    return diagonal, (scores**2).mean() - diagonal


def derivation_terms__wrong_sixth_centred(q, k):
    """Subtracts the measured mean from each term first: variances and covariances, not means of squares."""
    t = q * k
    t = t - t.mean(axis=0)
    table = t.T @ t / len(t)
    diagonal = np.trace(table)
    return diagonal, table.sum() - diagonal


def derivation_terms__wrong_sixth_samples_minus_one(q, k):
    """Divides the sums over the samples by their number less 1."""
    t = q * k
    N = max(len(t) - 1, 1)
    diagonal = np.einsum("ri,ri->", t, t) / N
    everything = np.einsum("ri,rj->", t, t) / N
    return diagonal, everything - diagonal


def derivation_terms__wrong_sixth_lengths_multiplied(q, k):
    """Multiplies the sum of q_i² by the sum of k_i²: squared lengths, not the sum of squared products."""
    length_q = (q**2).sum(axis=1)
    length_k = (k**2).sum(axis=1)
    diagonal = np.mean(length_q * length_k)
    s = (q * k).sum(axis=1)
    return diagonal, np.mean(s**2) - diagonal


def derivation_terms__wrong_sixth_independence_assumed(q, k):
    """Splits each mean of a product into a product of means, as step 3 does for independent features."""
    d = q.shape[1]
    mean_q, mean_k = q.mean(axis=0), k.mean(axis=0)
    diagonal = sum((q[:, i] ** 2).mean() * (k[:, i] ** 2).mean() for i in range(d))
    cross = 0.0
    for i in range(d):
        for j in range(d):
            if i != j:
                cross += mean_q[i] * mean_k[i] * mean_q[j] * mean_k[j]
    return diagonal, cross


def derivation_terms__right_sixth_masked_table(q, k):
    """The table of mean products, split by a mask of the diagonal."""
    t = q * k
    table = np.einsum("ri,rj->ij", t, t) / len(t)
    same = np.eye(t.shape[1], dtype=bool)
    return table[same].sum(), table[~same].sum()


# Exercise 2.4: dot_product_moments


def dot_product_moments__wrong_sixth_mean_is_d(d, var_q=1.0, var_k=1.0):
    """Returns d as the mean, which belongs to q · q and not to q · k (claim 1)."""
    mean = float(d)
    variance = d * var_q * var_k
    return mean, variance


def dot_product_moments__wrong_sixth_standard_deviation(d, var_q=1.0, var_k=1.0):
    """Returns the standard deviation, the root of the variance, as the second result."""
    sigma_q, sigma_k = math.sqrt(var_q), math.sqrt(var_k)
    return 0.0, math.sqrt(d) * sigma_q * sigma_k


def dot_product_moments__wrong_sixth_squared_again(d, var_q=1.0, var_k=1.0):
    """Takes var_q and var_k for standard deviations and squares them."""
    return 0, d * (var_q**2) * (var_k**2)


def dot_product_moments__wrong_sixth_scaled_score(d, var_q=1.0, var_k=1.0):
    """Gives the moments of the score after the division by sqrt(d)."""
    r = np.sqrt(d)
    plain = d * var_q * var_k
    return 0.0, float(plain / r**2)


def dot_product_moments__wrong_sixth_average_of_variances(d, var_q=1.0, var_k=1.0):
    """Takes the average of the two variances in place of their product."""
    one_term = (var_q + var_k) / 2
    return 0.0, d * one_term


def dot_product_moments__wrong_sixth_zero_is_default(d, var_q=1.0, var_k=1.0):
    """Writes `var_q or 1.0` for the default: a variance of 0 is turned into 1."""
    var_q = var_q or 1.0
    var_k = var_k or 1.0
    return 0.0, d * var_q * var_k


def dot_product_moments__wrong_sixth_measured(d, var_q=1.0, var_k=1.0):
    """Draws 2000 pairs and measures mean and variance, where the formula is asked for."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal((2000, d)) * np.sqrt(var_q)
    k = rng.standard_normal((2000, d)) * np.sqrt(var_k)
    s = (q * k).sum(axis=1)
    return s.mean(), s.var()


def dot_product_moments__wrong_sixth_all_pairs_count(d, var_q=1.0, var_k=1.0):
    """Gives every one of the d times d products of the table the size of a square: d² in place of d."""
    total = 0.0
    for i in range(d):
        total += d * var_q * var_k
    return 0.0, total


def dot_product_moments__right_sixth_dot_of_variances(d, var_q=1.0, var_k=1.0):
    """The dot product of a vector of the variances of q with one of those of k."""
    of_q, of_k = np.full(d, float(var_q)), np.full(d, float(var_k))
    return 0.0, of_q @ of_k


def dot_product_moments__right_sixth_general_formula(d, var_q=1.0, var_k=1.0):
    """The variance of a product of independent numbers with any means, with both means 0, d times."""
    mean_q = mean_k = 0.0
    second_moment = (var_q + mean_q**2) * (var_k + mean_k**2)
    term_mean = mean_q * mean_k
    return d * term_mean, d * (second_moment - term_mean**2)


# Exercise 2.5: scaled_scores


def scaled_scores__wrong_sixth_divided_by_width(Q, K):
    """Averages the products over the features: that divides by d_k, not by its root."""
    return np.mean(Q[:, None, :] * K[None, :, :], axis=-1)


def scaled_scores__wrong_sixth_precedence(Q, K):
    """Writes `d ** 1 / 2` for the root: that is d / 2."""
    d = K.shape[-1]
    root = d ** 1 / 2
    return _attention_scores(Q, K) / root


def scaled_scores__wrong_sixth_root_of_size(Q, K):
    """Takes np.sqrt(Q.size): the size counts all the entries, n times d_k."""
    scores = np.dot(Q, K.T)
    scores = scores / np.sqrt(Q.size)
    return scores


def scaled_scores__wrong_sixth_always_eight(Q, K):
    """Divides by 8, the root of the paper's 64, whatever the width is."""
    SCALE = 1 / 8
    return SCALE * (Q @ K.T)


def scaled_scores__wrong_sixth_whole_root(Q, K):
    """Takes math.isqrt, the root rounded down to a whole number."""
    width = Q.shape[1]
    return Q @ K.T / math.isqrt(width)


def scaled_scores__wrong_sixth_length_of_query(Q, K):
    """Divides each row by the length of its query, sqrt(q · q), in place of the root of the width."""
    root = np.sqrt((Q * Q).sum(axis=1, keepdims=True))
    root[root == 0] = 1
    return (Q @ K.T) / root


def scaled_scores__wrong_sixth_measured_spread(Q, K):
    """Divides by the measured standard deviation of the scores, so that their variance is exactly 1."""
    s = _attention_scores(Q, K)
    spread = s.std()
    return s / spread if spread > 0 else s


def scaled_scores__wrong_sixth_query_changed(Q, K):
    """Divides the queries by the root in place: the caller's Q is changed."""
    Q /= np.sqrt(Q.shape[-1])
    return Q @ K.T


def scaled_scores__right_sixth_fourth_roots(Q, K):
    """Divides queries and keys by the fourth root of d_k each, before they meet."""
    share = Q.shape[1] ** 0.25
    return np.einsum("ic,jc->ij", Q / share, K / share)


def scaled_scores__right_sixth_diagonal_metric(Q, K):
    """Puts a diagonal matrix with 1/sqrt(d_k) between the queries and the keys."""
    d_k = K.shape[1]
    metric = np.identity(d_k) / np.linalg.norm(np.ones(d_k))
    return np.linalg.multi_dot([Q, metric, K.T])


# Exercise 2.6: score_statistics


def score_statistics__wrong_sixth_pair_by_pair(d, n_samples, rng, scaled):
    """Draws one query and its key per turn of a loop: the numbers come in another order."""
    scores = []
    for _ in range(n_samples):
        query = rng.standard_normal(d)
        key = rng.standard_normal(d)
        scores.append(query @ key)
    scores = np.array(scores)
    if scaled:
        scores = scores / np.sqrt(d)
    return scores.mean(), scores.var()


def score_statistics__wrong_sixth_features_first(d, n_samples, rng, scaled):
    """Draws arrays of shape (d, n_samples) and sums over axis 0."""
    q = rng.standard_normal((d, n_samples))
    k = rng.standard_normal((d, n_samples))
    s = (q * k).sum(axis=0)
    s = s / d**0.5 if scaled else s
    return float(np.mean(s)), float(np.var(s))


def score_statistics__wrong_sixth_np_cov(d, n_samples, rng, scaled):
    """Takes the variance from np.cov, which divides by n_samples - 1 unless told otherwise."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.einsum("rc,rc->r", q, k) / (np.sqrt(d) if scaled else 1.0)
    return s.mean(), np.cov(s)


def score_statistics__wrong_sixth_own_generator(d, n_samples, rng, scaled):
    """Makes a generator of its own and leaves the one that it was handed unused."""
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((n_samples, d)), rng.standard_normal((n_samples, d))
    s = np.sum(q * k, axis=1)
    if scaled:
        s /= np.sqrt(d)
    return s.mean(), s.var()


def score_statistics__wrong_sixth_root_on_variance(d, n_samples, rng, scaled):
    """Divides the finished mean and variance by sqrt(d) each; the variance should be divided by d."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    scores = (q * k).sum(axis=1)
    mean, variance = scores.mean(), scores.var()
    if scaled:
        root = d**0.5
        return mean / root, variance / root
    return mean, variance


def score_statistics__wrong_sixth_table_of_scores(d, n_samples, rng, scaled):
    """Computes q @ k.T, every query with every key, and takes mean and variance of the whole table."""
    queries = rng.standard_normal((n_samples, d))
    keys = rng.standard_normal((n_samples, d))
    table = _scaled_scores(queries, keys) if scaled else _attention_scores(queries, keys)
    return table.mean(), table.var()


def score_statistics__wrong_sixth_theoretical_mean(d, n_samples, rng, scaled):
    """Takes the variance around the derived mean 0: it returns the mean of s² as the variance."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    r = math.sqrt(d) if scaled else 1
    s = [sum(a * b) / r for a, b in zip(q, k, strict=True)]
    mean = sum(s) / n_samples
    variance = sum(x**2 for x in s) / n_samples
    return mean, variance


def score_statistics__wrong_sixth_root_of_samples(d, n_samples, rng, scaled):
    """Divides the scores by the root of the number of rows, len(q), which is n_samples and not d."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = (q * k).sum(-1)
    if scaled:
        s = s / len(q) ** 0.5
    return s.mean(), s.var()


def score_statistics__right_sixth_welford(d, n_samples, rng, scaled):
    """Goes through the scores once and keeps a running mean and sum of squares (Welford)."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    mean = squares = 0.0
    for count, (query, key) in enumerate(zip(q, k, strict=True), start=1):
        score = math.fsum(query * key)
        if scaled:
            score /= math.sqrt(d)
        step = score - mean
        mean += step / count
        squares += step * (score - mean)
    return mean, squares / n_samples


def score_statistics__right_sixth_batched_product(d, n_samples, rng, scaled):
    """One batched product (1, d) @ (d, 1) per row; scales the two plain moments by 1/sqrt(d) and 1/d."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = (q[:, None, :] @ k[:, :, None]).ravel()
    mean = np.average(s)
    away = s - mean
    variance = away @ away / n_samples
    return (mean / d**0.5, variance / d) if scaled else (mean, variance)


# Exercise 2.7: attention


def attention__wrong_sixth_softmax_over_queries(Q, K, V):
    """Runs the softmax along axis 0: each key shares itself out, and the columns sum to 1."""
    S = _scaled_scores(Q, K)
    A = _softmax(S, axis=0)
    return A @ V, A


def attention__wrong_sixth_plain_scores(Q, K, V):
    """Leaves out the division by the root."""
    weights = _softmax(_attention_scores(Q, K))
    output = np.einsum("ij,jv->iv", weights, V)
    return output, weights


def attention__wrong_sixth_root_of_value_width(Q, K, V):
    """Takes the width from V: divides by the root of d_v."""
    n, m, d = Q.shape[0], K.shape[0], V.shape[1]
    scores = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            scores[i, j] = Q[i] @ K[j] / np.sqrt(d)
    weights = _softmax(scores)
    return weights @ V, weights


def attention__wrong_sixth_root_after_softmax(Q, K, V):
    """Divides by the root behind the softmax: the weights are those of plain scores and do not sum to 1."""
    root = Q.shape[1] ** 0.5
    weights = _softmax(Q @ K.T, axis=1) / root
    return weights @ V, weights


def attention__wrong_sixth_causal(Q, K, V):
    """Masks the keys behind the query's own place, as a GPT does; no mask was asked for."""
    scores = _scaled_scores(Q, K)
    later = np.triu(np.ones(scores.shape, dtype=bool), k=1)
    weights = _softmax(np.where(later, -1e9, scores), axis=-1)
    return weights @ V, weights


def attention__wrong_sixth_shift_of_table(Q, K, V):
    """Writes the softmax anew with one shift for the whole table: a query with far lower scores gets NaN."""
    scores = Q @ K.T / np.sqrt(Q.shape[1])
    powers = np.exp(scores - np.max(scores))
    weights = powers / powers.sum(axis=1)[:, np.newaxis]
    return weights @ V, weights


def attention__wrong_sixth_weights_first(Q, K, V):
    """Returns (weights, output), in the order in which they are computed."""
    weights = _softmax(_scaled_scores(Q, K))
    output = weights @ V
    return weights, output


def attention__wrong_sixth_winner_takes_all(Q, K, V):
    """Hands each query the value of its best key alone; the weights are right, and not used for mixing."""
    weights = _softmax(_scaled_scores(Q, K))
    best = weights.argmax(axis=1)
    return V[best], weights


def attention__right_sixth_query_by_query(Q, K, V):
    """Works on one query at a time and stacks the rows."""
    rows = []
    for query in Q:
        scores = K @ query / math.sqrt(len(query))
        shares = np.exp(scores - max(scores))
        rows.append(shares / math.fsum(shares))
    output = np.array([(row[:, None] * V).sum(axis=0) for row in rows])
    return output, np.array(rows)


# Exercise 2.8: softmax_jacobian


def softmax_jacobian__wrong_sixth_softmax_again(p):
    """Takes p for the scores and runs a softmax over it first."""
    a = _softmax(p)
    return np.diag(a) - np.outer(a, a)


def softmax_jacobian__wrong_sixth_case_j_equals_i_lost(p):
    """Uses -p_i p_j everywhere, on the diagonal, too."""
    m = len(p)
    J = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            J[i, j] = -p[i] * p[j]
    return J


def softmax_jacobian__wrong_sixth_p_overwritten(p):
    """Computes p - p² with -= for the diagonal, which changes the caller's p."""
    J = -np.outer(p, p)
    p -= p**2
    np.fill_diagonal(J, p)
    return J


def softmax_jacobian__wrong_sixth_like_a_sigmoid(p):
    """Lets each weight depend on its own score alone: p (1 - p) on the diagonal, zeros elsewhere."""
    return np.diag(p * (1 - p))


def softmax_jacobian__wrong_sixth_of_the_logarithm(p):
    """The derivative of the logarithm of the softmax: 1 on the diagonal less p_j, without the factor p_i."""
    identity = np.eye(p.shape[0])
    return identity - p[np.newaxis, :]


def softmax_jacobian__wrong_sixth_sign_off_diagonal(p):
    """Loses the minus sign of the case j ≠ i."""
    table = np.outer(p, p)
    own = np.arange(p.size)
    table[own, own] = p * (1 - p)
    return table


def softmax_jacobian__wrong_sixth_forward_difference(p):
    """Takes log p for the scores and divides differences by a step of 0.001, in place of the formula."""
    step = 1e-3
    columns = []
    for j in range(len(p)):
        powers = p.copy()  # e^(log p)
        powers[j] = powers[j] * np.exp(step)
        columns.append((powers / powers.sum() - p) / step)
    return np.stack(columns, axis=1)


def softmax_jacobian__wrong_sixth_zeros_dropped(p):
    """Drops weights that are 0: the table is smaller than (m, m) then."""
    alive = p[p > 0]
    return np.diag(alive) - alive[:, None] * alive[None, :]


def softmax_jacobian__right_sixth_row_times(p):
    """Each row i is p_i times (row i of the identity less p)."""
    m = p.shape[0]
    return np.array([p[i] * (np.eye(m)[i] - p) for i in range(m)])


def softmax_jacobian__right_sixth_projection(p):
    """The matrix diag(p) times the projection I - 1 pᵀ, by matrix products."""
    m = len(p)
    ones = np.ones((m, 1))
    return np.diag(p) @ (np.identity(m) - ones @ p.reshape(1, m))


# Exercise 2.9: attention_backward


def attention_backward__wrong_sixth_root_missing_in_dK(Q, K, V, d_output):
    """Divides dQ by the root, and forgets it for dK."""
    _, A = _attention(Q, K, V)
    dV = A.T @ d_output
    dA = d_output @ V.T
    dS = A * (dA - (dA * A).sum(axis=1, keepdims=True))
    dQ = dS @ K / np.sqrt(K.shape[1])
    dK = dS.T @ Q
    return dQ, dK, dV


def attention_backward__wrong_sixth_own_score_only(Q, K, V, d_output):
    """Goes back through the softmax with a (1 - a), the diagonal of the Jacobian alone."""
    root = Q.shape[1] ** 0.5
    weights = _softmax(Q @ K.T / root)
    d_weights = d_output @ V.T
    d_scores = d_weights * weights * (1 - weights)
    return d_scores @ K / root, d_scores.T @ Q / root, weights.T @ d_output


def attention_backward__wrong_sixth_sum_over_table(Q, K, V, d_output):
    """Sums A * dA over the whole table, in place of each row on its own."""
    A = _softmax(_scaled_scores(Q, K))
    dA = np.einsum("iv,jv->ij", d_output, V)
    dS = A * (dA - (A * dA).sum())
    dS = dS / math.sqrt(Q.shape[1])
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_sixth_denominator_held_fixed(Q, K, V, d_output):
    """Derives the exponentials and takes the sum below the bar for a constant: dS = A * dA."""
    d_k = Q.shape[1]
    output, A = _attention(Q, K, V)
    d_scaled = A * (d_output @ V.T)
    d_plain = d_scaled / d_k**0.5
    return d_plain @ K, d_plain.T @ Q, A.T @ d_output


def attention_backward__wrong_sixth_scores_in_dV(Q, K, V, d_output):
    """Collects dV with the scaled scores in place of the weights."""
    S = _scaled_scores(Q, K)
    A = _softmax(S)
    dA = d_output @ V.T
    inner = np.sum(dA * A, axis=1)
    dS = A * (dA - inner[:, None])
    r = np.sqrt(K.shape[1])
    return (dS @ K) / r, (dS.T @ Q) / r, S.T @ d_output


def attention_backward__wrong_sixth_nudged(Q, K, V, d_output):
    """Nudges each entry by 1e-5 and takes differences, which the task rules out."""
    given = [np.array(X, dtype=float) for X in (Q, K, V)]
    slopes = []
    for X in given:
        slope = np.zeros_like(X)
        for place in np.ndindex(*X.shape):
            kept = X[place]
            sides = []
            for h in (1e-5, -1e-5):
                X[place] = kept + h
                sides.append((_attention(*given)[0] * d_output).sum())
            X[place] = kept
            slope[place] = (sides[0] - sides[1]) / 2e-5
        slopes.append(slope)
    return tuple(slopes)


def attention_backward__wrong_sixth_d_output_as_target(Q, K, V, d_output):
    """Takes d_output for a target and starts from output - d_output, as for a squared error."""
    output, A = _attention(Q, K, V)
    error = output - d_output
    dA = error @ V.T
    dS = np.stack(
        [_softmax_jacobian(a) @ slope for a, slope in zip(A, dA, strict=True)]
    )
    dS /= np.sqrt(Q.shape[1])
    return dS @ K, dS.T @ Q, A.T @ error


def attention_backward__wrong_sixth_pytorch(Q, K, V, d_output):
    """Lets PyTorch derive everything with backward(); the unit allows NumPy alone."""
    q, k, v = (torch.tensor(X, requires_grad=True) for X in (Q, K, V))
    weights = torch.softmax(q @ k.T / q.shape[1] ** 0.5, dim=-1)
    (weights @ v * torch.tensor(d_output)).sum().backward()
    return q.grad.numpy(), k.grad.numpy(), v.grad.numpy()


def attention_backward__right_sixth_query_by_query(Q, K, V, d_output):
    """One query at a time: applies its Jacobian, and adds its shares to dK and dV."""
    scale = Q.shape[1] ** -0.5
    dQ, dK, dV = (np.zeros(X.shape) for X in (Q, K, V))
    for i, (query, slope) in enumerate(zip(Q, d_output, strict=True)):
        scores = K @ query * scale
        a = np.exp(scores - scores.max())
        a /= a.sum()
        # Where all weight lies on one key nothing moves; J is exactly 0 there.
        d_scores = (a[:, None] * (np.eye(len(a)) - a)) @ (V - a @ V) @ slope
        dQ[i] = d_scores @ K * scale
        dK += np.outer(d_scores, query) * scale
        dV += np.outer(a, slope)
    return dQ, dK, dV


def attention_backward__right_sixth_distance_from_output(Q, K, V, d_output):
    """By einsum: the slope of score (i, j) is A_ij times how far value j lies from output i, along d_output."""
    root = np.sqrt(Q.shape[1])
    scores = np.einsum("ic,jc->ij", Q, K) / root
    A = np.exp(scores - scores.max(axis=1, keepdims=True))
    A = A / A.sum(axis=1, keepdims=True)
    output = np.einsum("ij,jv->iv", A, V)
    apart = V[None, :, :] - output[:, None, :]  # (n, m, d_v)
    G = np.einsum("ij,ijv,iv->ij", A, apart, d_output) / root
    return (
        np.einsum("ij,jc->ic", G, K),
        np.einsum("ij,ic->jc", G, Q),
        np.einsum("ij,iv->jv", A, d_output),
    )
