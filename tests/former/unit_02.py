"""Answers to unit 02's functions, written from the notebook alone."""

import numpy as np


def _softmax(z, axis=-1):
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


# attention_scores


def attention_scores__wrong_scaled(Q, K):
    """Divides the scores by √d_k, though plain ones are asked for."""
    return Q @ K.T / np.sqrt(Q.shape[1])


def attention_scores__wrong_as_many_keys(Q, K):
    """Takes for granted that there are as many keys as queries: keys are left out, or an index runs beyond them."""
    n = len(Q)
    scores = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            scores[i, j] = Q[i] @ K[j]
    return scores


def attention_scores__wrong_not_transposed(Q, K):
    """Multiplies Q by K itself, so rows of Q meet columns of K, which fits only if m = d_k."""
    return Q @ K


def attention_scores__wrong_cosine(Q, K):
    """Divides by the lengths of query and key: cosines in place of dot products."""
    q = Q / np.linalg.norm(Q, axis=1, keepdims=True)
    k = K / np.linalg.norm(K, axis=1, keepdims=True)
    return q @ k.T


def attention_scores__wrong_mean(Q, K):
    """Averages the products over the features in place of adding them up."""
    return (Q[:, None, :] * K[None, :, :]).mean(axis=-1)


def attention_scores__wrong_keys_as_rows_scaled(Q, K):
    """Two slips: a row per key and a column per query, (m, n), and divided by the root of the number of keys."""
    return K @ Q.T / np.sqrt(len(K))


def attention_scores__right_inner(Q, K):
    """Calls np.inner, which sums over the last axis of both."""
    return np.inner(Q, K)


def attention_scores__right_feature_by_feature(Q, K):
    """Adds up one outer product per feature in a loop."""
    scores = np.zeros((Q.shape[0], K.shape[0]))
    for c in range(Q.shape[1]):
        scores += np.multiply.outer(Q[:, c], K[:, c])
    return scores


# softmax


def softmax__wrong_axis_ignored(z, axis=-1):
    """Always runs along the last axis, whatever `axis` says."""
    powers = np.exp(z - z.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def softmax__wrong_sum_of_everything(z, axis=-1):
    """Divides by the sum of all exponentials of the array in place of the sum along the axis."""
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum()


def softmax__wrong_axis_lost(z, axis=-1):
    """Leaves out keepdims in the sum, so it does not fit the array or is lined up with another axis."""
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis)


def softmax__wrong_sign(z, axis=-1):
    """Subtracts the entries from the smallest, so that the smallest entry gets the largest weight."""
    powers = np.exp(z.min(axis=axis, keepdims=True) - z)
    return powers / powers.sum(axis=axis, keepdims=True)


def softmax__wrong_in_place(z, axis=-1):
    """Subtracts the largest entry in place and so changes the caller's array."""
    z -= z.max(axis=axis, keepdims=True)
    powers = np.exp(z)
    return powers / powers.sum(axis=axis, keepdims=True)


def softmax__wrong_powers_of_two_length_one(z, axis=-1):
    """Two slips: powers of 2 in place of e, and divided by their Euclidean length in place of their sum."""
    powers = np.exp2(z - z.max(axis=axis, keepdims=True))
    return powers / np.sqrt((powers**2).sum(axis=axis, keepdims=True))


def softmax__right_log_sum(z, axis=-1):
    """Subtracts the logarithm of the sum, from logaddexp.reduce, and takes one exponential without a division."""
    total = np.expand_dims(np.logaddexp.reduce(z, axis=axis), axis)
    return np.exp(z - total)


def softmax__right_row_by_row(z, axis=-1):
    """Moves the axis to the end and fills the weights row by row in a loop."""
    rows = np.moveaxis(z, axis, -1)
    weights = np.empty(rows.shape, dtype=z.dtype)
    for place in np.ndindex(rows.shape[:-1]):
        powers = np.exp(rows[place] - max(rows[place]))
        weights[place] = powers / sum(powers)
    return np.moveaxis(weights, -1, axis)


# derivation_terms


def derivation_terms__wrong_pairs_once(q, k):
    """Counts each pair i < j once in the cross part, which is half of what all ordered pairs give."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    d = t.shape[1]
    cross = 0.0
    for i in range(d):
        for j in range(i + 1, d):
            cross += (t[:, i] * t[:, j]).mean()
    return diagonal, cross


def derivation_terms__wrong_from_variance(q, k):
    """Makes the cross part from the variance of the scores in place of the mean of their squares."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    cross = t.sum(axis=1).var() - diagonal
    return diagonal, cross


def derivation_terms__wrong_averaged_first(q, k):
    """Averages the terms over the samples before they meet in the cross part."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    middle = t.mean(axis=0)
    cross = middle.sum() ** 2 - (middle**2).sum()
    return diagonal, cross


def derivation_terms__wrong_mean_over_features(q, k):
    """Averages the squares over the features, too, so the diagonal is d times too small."""
    t = q * k
    diagonal = (t**2).mean()
    cross = (t.sum(axis=1) ** 2 - (t**2).sum(axis=1)).mean()
    return diagonal, cross


def derivation_terms__wrong_all_meet(q, k):
    """Lets every query meet every key in the cross part, in place of row r of q and row r of k."""
    diagonal = ((q * k) ** 2).sum(axis=1).mean()
    scores = q @ k.T
    cross = (scores**2).mean() - diagonal
    return diagonal, cross


def derivation_terms__wrong_swapped_and_unbiased(q, k):
    """Two slips: returns (cross, diagonal), and divides by the number of samples minus 1."""
    t = q * k
    count = len(t) - 1
    diagonal = (t**2).sum() / count
    cross = ((t.sum(axis=1) ** 2).sum() - (t**2).sum()) / count
    return cross, diagonal


def derivation_terms__right_table(q, k):
    """Averages the whole table of products of two terms over the samples, and splits it into trace and the rest."""
    t = q * k
    table = np.einsum("ri,rj->ij", t, t) / len(t)
    outside = ~np.eye(len(table), dtype=bool)
    return np.trace(table), table[outside].sum()


def derivation_terms__right_rolled(q, k):
    """Makes the ordered pairs by rolling the features by 1 … d-1 places and adds up the products."""
    t = q * k
    samples, d = t.shape
    diagonal = np.vdot(t, t) / samples
    cross = sum((np.vdot(t, np.roll(t, shift, axis=1)) for shift in range(1, d)), 0.0) / samples
    return float(diagonal), float(cross)


# dot_product_moments


def dot_product_moments__wrong_standard_deviation(d, var_q=1.0, var_k=1.0):
    """Returns the standard deviation in place of the variance."""
    return 0.0, (d * var_q * var_k) ** 0.5


def dot_product_moments__wrong_d_squared(d, var_q=1.0, var_k=1.0):
    """Takes the cross terms as if they counted like the squares: d² in place of d."""
    return 0.0, d**2 * var_q * var_k


def dot_product_moments__wrong_variances_squared(d, var_q=1.0, var_k=1.0):
    """Squares the two variances once more, as if they were standard deviations."""
    return 0.0, d * var_q**2 * var_k**2


def dot_product_moments__wrong_mean_d(d, var_q=1.0, var_k=1.0):
    """Gives the mean of a vector's dot product with itself, d, in place of 0."""
    return d * (var_q * var_k) ** 0.5, d * var_q * var_k


def dot_product_moments__wrong_variances_added(d, var_q=1.0, var_k=1.0):
    """Adds the variances of the factors in place of multiplying them."""
    return 0.0, d * (var_q + var_k)


def dot_product_moments__wrong_scaled_without_var_k(d, var_q=1.0, var_k=1.0):
    """Two slips: gives the variance of the scores divided by √d, and leaves out var_k."""
    variance = d * var_q
    return 0.0, variance / np.sqrt(d) ** 2


def dot_product_moments__right_covariance_tables(d, var_q=1.0, var_k=1.0):
    """Sums the products of the entries of two d × d covariance tables, both diagonal."""
    of_q, of_k = var_q * np.eye(d), var_k * np.eye(d)
    return 0.0, (of_q * of_k).sum()


def dot_product_moments__right_term_by_term(d, var_q=1.0, var_k=1.0):
    """Adds up mean and variance of one term after the other."""
    mean, variance = 0.0, 0.0
    for _ in range(d):
        mean += 0.0 * 0.0
        variance += var_q * var_k
    return mean, variance


# scaled_scores


def scaled_scores__wrong_by_d(Q, K):
    """Divides by d_k in place of its root."""
    d_k = Q.shape[-1]
    return Q @ K.T / d_k


def scaled_scores__wrong_root_of_queries(Q, K):
    """Divides by the root of the number of queries, the first axis, in place of the width."""
    return Q @ K.T / np.sqrt(len(Q))


def scaled_scores__wrong_fixed_eight(Q, K):
    """Divides by 8, the root of a width of 64, whatever the width is."""
    return Q @ K.T / 8.0


def scaled_scores__wrong_power_precedence(Q, K):
    """Writes the root as `** 1 / 2`, which divides by d_k and then by 2."""
    d_k = Q.shape[1]
    return Q @ K.T / d_k**1 / 2


def scaled_scores__wrong_reshaped(Q, K):
    """Reshapes K to (d_k, m) in place of transposing it, so the features of different keys are mixed up."""
    m, d_k = K.shape
    return Q @ K.reshape(d_k, m) / np.sqrt(d_k)


def scaled_scores__wrong_multiplied_keys_as_rows(Q, K):
    """Two slips: multiplies by the root in place of dividing, and gives a row per key, (m, n)."""
    return K @ Q.T * np.sqrt(K.shape[1])


def scaled_scores__right_fourth_roots(Q, K):
    """Divides queries and keys each by the fourth root of d_k before they meet."""
    d_k = Q.shape[1]
    return np.einsum("nd,md->nm", Q * d_k**-0.25, K * d_k**-0.25)


def scaled_scores__right_query_by_query(Q, K):
    """Computes one row per query in a loop, with queries that were divided first."""
    root = K.shape[1] ** 0.5
    return np.stack([(K * (query / root)).sum(axis=1) for query in Q])


# score_statistics


def score_statistics__wrong_own_generator(d, n_samples, rng, scaled):
    """Draws from a generator of its own with a fixed seed in place of the one it is handed."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1)
    if scaled:
        s = s / np.sqrt(d)
    return s.mean(), s.var()


def score_statistics__wrong_pair_by_pair(d, n_samples, rng, scaled):
    """Draws a query and a key in turn, pair by pair, in place of all queries first."""
    s = np.zeros(n_samples)
    for r in range(n_samples):
        q = rng.standard_normal(d)
        k = rng.standard_normal(d)
        s[r] = q @ k
    if scaled:
        s = s / np.sqrt(d)
    return s.mean(), s.var()


def score_statistics__wrong_unbiased(d, n_samples, rng, scaled):
    """Divides the variance by n_samples - 1 (ddof=1)."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.einsum("rd,rd->r", q, k)
    if scaled:
        s = s / d**0.5
    return s.mean(), s.var(ddof=1)


def score_statistics__wrong_root_of_variance(d, n_samples, rng, scaled):
    """Divides mean and variance afterwards, both by √d, though the variance should be divided by d."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1)
    mean, variance = s.mean(), s.var()
    if scaled:
        mean, variance = mean / np.sqrt(d), variance / np.sqrt(d)
    return mean, variance


def score_statistics__wrong_all_meet(d, n_samples, rng, scaled):
    """Takes mean and variance over all n_samples² scores of every query with every key."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = q @ k.T
    if scaled:
        s = s / np.sqrt(d)
    return s.mean(), s.var()


def score_statistics__wrong_drawn_across_and_deviation(d, n_samples, rng, scaled):
    """Two slips: draws arrays of shape (d, n_samples), and returns the standard deviation in place of the variance."""
    q = rng.standard_normal((d, n_samples))
    k = rng.standard_normal((d, n_samples))
    s = (q * k).sum(axis=0)
    if scaled:
        s = s / np.sqrt(d)
    return s.mean(), s.std()


def score_statistics__right_running(d, n_samples, rng, scaled):
    """Goes through the scores one by one with a running mean and a running sum of squared distances."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    divisor = d**0.5 if scaled else 1.0
    mean, squares = 0.0, 0.0
    for r in range(n_samples):
        s = float(q[r] @ k[r]) / divisor
        step = s - mean
        mean += step / (r + 1)
        squares += step * (s - mean)
    return mean, squares / n_samples


def score_statistics__right_einsum_scaled_after(d, n_samples, rng, scaled):
    """Pairs the rows by einsum and divides mean and variance afterwards, by √d and by d."""
    q = rng.standard_normal(size=(n_samples, d))
    k = rng.standard_normal(size=(n_samples, d))
    s = np.einsum("rc,rc->r", q, k)
    mean = np.average(s)
    variance = np.average((s - mean) ** 2)
    return (mean / d**0.5, variance / d) if scaled else (mean, variance)


# attention


def attention__wrong_softmax_over_queries(Q, K, V):
    """Runs the softmax along the queries, so the columns of the weights sum to 1."""
    weights = _softmax(Q @ K.T / np.sqrt(K.shape[1]), axis=0)
    return weights @ V, weights


def attention__wrong_root_of_d_v(Q, K, V):
    """Divides the scores by the root of d_v, the width of the values, in place of d_k."""
    weights = _softmax(Q @ K.T / np.sqrt(V.shape[1]))
    return weights @ V, weights


def attention__wrong_swapped_results(Q, K, V):
    """Returns (weights, output) in place of (output, weights)."""
    weights = _softmax(Q @ K.T / np.sqrt(Q.shape[1]))
    output = weights @ V
    return weights, output


def attention__wrong_scaled_after(Q, K, V):
    """Divides the weights by √d_k after a softmax of the plain scores, so they do not sum to 1."""
    weights = _softmax(Q @ K.T) / np.sqrt(Q.shape[1])
    return weights @ V, weights


def attention__wrong_weights_transposed(Q, K, V):
    """Mixes the values with the transposed weights, which fits only if there are as many queries as keys."""
    weights = _softmax(Q @ K.T / np.sqrt(Q.shape[1]))
    return weights.T @ V, weights


def attention__wrong_plain_and_averaged(Q, K, V):
    """Two slips: does not scale the scores, and averages the weighted values in place of adding them up."""
    weights = _softmax(Q @ K.T)
    output = (weights[:, :, None] * V).mean(axis=1)
    return output, weights


def attention__right_streaming_keys(Q, K, V):
    """Goes through the keys one by one with a running largest score per query, and makes the weights at the end."""
    root = K.shape[1] ** 0.5
    largest = np.full(len(Q), -np.inf)
    total = np.zeros(len(Q))
    mixture = np.zeros((len(Q), V.shape[1]))
    for key, value in zip(K, V):
        scores = Q @ key / root
        new_largest = np.maximum(largest, scores)
        old, new = np.exp(largest - new_largest), np.exp(scores - new_largest)
        total = total * old + new
        mixture = mixture * old[:, None] + new[:, None] * value
        largest = new_largest
    weights = np.exp(Q @ K.T / root - largest[:, None]) / total[:, None]
    return mixture / total[:, None], weights


def attention__right_columns(Q, K, V):
    """Works with queries as columns throughout and transposes both results at the end."""
    scores = np.einsum("md,nd->mn", K, Q) / K.shape[1] ** 0.5
    weights = np.exp(scores - np.logaddexp.reduce(scores, axis=0))
    return (V.T @ weights).T, weights.T


# softmax_jacobian


def softmax_jacobian__wrong_sign(p):
    """Subtracts the diagonal from the products, so every entry has the wrong sign."""
    return np.outer(p, p) - np.diag(p)


def softmax_jacobian__wrong_own_scores_only(p):
    """Holds only the derivatives by the own score, with zeros beside the diagonal."""
    return np.diag(p * (1 - p))


def softmax_jacobian__wrong_of_the_logarithm(p):
    """Gives the derivatives of the logarithms of the weights, 1 - p_j and -p_j: the factor p_i is missing."""
    return np.eye(len(p)) - p


def softmax_jacobian__wrong_softmax_again(p):
    """Takes p for scores and puts it through a softmax once more."""
    a = _softmax(p)
    return np.diag(a) - np.outer(a, a)


def softmax_jacobian__wrong_same_index(p):
    """Uses p_i twice, -p_i p_i in place of -p_i p_j: both factors run down the rows."""
    column = p[:, None]
    return column * (np.eye(len(p)) - column)


def softmax_jacobian__wrong_positive_and_bare_diagonal(p):
    """Two slips: the products of different weights have a plus sign, and p_i stands on the diagonal without -p_i²."""
    J = np.outer(p, p)
    np.fill_diagonal(J, p)
    return J


def softmax_jacobian__right_two_cases(p):
    """Fills the table by two nested loops with the two cases of the derivation."""
    m = len(p)
    J = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            J[i, j] = p[i] * (1 - p[i]) if i == j else -p[i] * p[j]
    return J


def softmax_jacobian__right_roots(p):
    """Writes the table symmetrically with the roots of the weights: the identity minus a projection, scaled twice."""
    root = np.sqrt(p)
    inner = np.identity(p.size) - root[:, None] * root
    return root[:, None] * inner * root


# attention_backward


def attention_backward__wrong_keys_not_scaled(Q, K, V, d_output):
    """Leaves out the division by √d_k in dK, while dQ has it."""
    root = np.sqrt(K.shape[1])
    A = _softmax(Q @ K.T / root)
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(axis=1, keepdims=True))
    return dS @ K / root, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_plain_sum_loss(Q, K, V, d_output):
    """Takes the plain sum of the output as the loss: puts ones in place of d_output."""
    root = np.sqrt(K.shape[1])
    A = _softmax(Q @ K.T / root)
    ones = np.ones((len(Q), V.shape[1]))
    dA = ones @ V.T
    dS = A * (dA - (A * dA).sum(axis=1, keepdims=True))
    return dS @ K / root, dS.T @ Q / root, A.T @ ones


def attention_backward__wrong_sum_over_queries(Q, K, V, d_output):
    """Sums over the queries in place of the keys in the derivative of the softmax."""
    root = np.sqrt(K.shape[1])
    A = _softmax(Q @ K.T / root)
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(axis=0, keepdims=True))
    return dS @ K / root, dS.T @ Q / root, A.T @ d_output


def attention_backward__wrong_values_not_transposed(Q, K, V, d_output):
    """Multiplies d_output by the weights without transposing them in dV, which fits only if n = m."""
    root = np.sqrt(K.shape[1])
    A = _softmax(Q @ K.T / root)
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(axis=1, keepdims=True))
    return dS @ K / root, dS.T @ Q / root, A @ d_output


def attention_backward__wrong_own_scores_only(Q, K, V, d_output):
    """Lets each score move its own weight only: a(1 - a), without what the other weights lose."""
    root = np.sqrt(K.shape[1])
    A = _softmax(Q @ K.T / root)
    dA = d_output @ V.T
    dS = A * (1 - A) * dA
    return dS @ K / root, dS.T @ Q / root, A.T @ d_output


def attention_backward__wrong_plain_forward_and_swapped(Q, K, V, d_output):
    """Two slips: makes the weights from plain scores in the forward pass, and returns (dK, dQ, dV)."""
    root = np.sqrt(K.shape[1])
    A = _softmax(Q @ K.T)
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(axis=1, keepdims=True))
    dQ, dK = dS @ K / root, dS.T @ Q / root
    return dK, dQ, A.T @ d_output


def attention_backward__right_query_by_query(Q, K, V, d_output):
    """Goes through the queries one by one with the whole Jacobian of each and collects what keys and values get."""
    root = K.shape[1] ** 0.5
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for i, (query, slope) in enumerate(zip(Q, d_output)):
        a = _softmax(K @ query / root)
        d_score = (np.diag(a) - np.outer(a, a)) @ (V @ slope) / root
        dQ[i] = d_score @ K
        dK += np.outer(d_score, query)
        dV += np.outer(a, slope)
    return dQ, dK, dV


def attention_backward__right_from_output(Q, K, V, d_output):
    """Mixes the values' distances from the output, one per pair, by einsum, so that no sum has to cancel."""
    scale = K.shape[1] ** -0.5
    A = _softmax(np.einsum("nd,md->nm", Q, K) * scale)
    away = V[None, :, :] - (A @ V)[:, None, :]
    dS = A * np.einsum("nv,nmv->nm", d_output, away) * scale
    dQ = np.einsum("nm,md->nd", dS, K)
    dK = np.einsum("nm,nd->md", dS, Q)
    dV = np.einsum("nm,nv->mv", A, d_output)
    return dQ, dK, dV
