"""Answers to unit 02's functions, written from the notebook alone."""

import numpy as np


def _softmax(z, axis=-1):
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def attention_scores__wrong_reshaped_keys(Q, K):
    """The keys are reshaped to (d_k, m) in place of transposed, so that entries of several keys are mixed."""
    n_keys, width = K.shape
    return Q @ K.reshape(width, n_keys)


def attention_scores__wrong_features_summed_first(Q, K):
    """The features of a query and of a key are added up before they are multiplied with each other."""
    return np.outer(Q.sum(axis=1), K.sum(axis=1))


def attention_scores__wrong_square_table(Q, K):
    """The table has as many columns as there are queries, as if there were one key per query."""
    n = len(Q)
    scores = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            scores[i, j] = Q[i] @ K[j]
    return scores


def attention_scores__wrong_mean_over_features(Q, K):
    """The products are averaged over the features in place of added up, which divides all scores by d_k."""
    return (Q[:, None, :] * K[None, :, :]).mean(axis=-1)


def attention_scores__wrong_unit_queries_keys_down(Q, K):
    """Queries are brought to length 1 first, and the table has a row per key and a column per query."""
    lengths = np.sqrt((Q**2).sum(axis=1, keepdims=True))
    return K @ (Q / lengths).T


def attention_scores__right_feature_by_feature(Q, K):
    """Adds up one outer product for each feature, the last feature first."""
    scores = np.zeros((len(Q), len(K)))
    for c in range(Q.shape[1] - 1, -1, -1):
        scores += np.multiply.outer(Q[:, c], K[:, c])
    return scores


def softmax__wrong_not_turned_back(z, axis=-1):
    """The axis is swapped to the end for the softmax and is not swapped back afterwards."""
    last = np.swapaxes(z, axis, -1)
    powers = np.exp(last - last.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def softmax__wrong_clipped(z, axis=-1):
    """Against overflow the entries are clipped to ±700 in place of shifted, so large ones become equal."""
    powers = np.exp(np.clip(z, -700, 700))
    return powers / powers.sum(axis=axis, keepdims=True)


def softmax__wrong_sum_along_last(z, axis=-1):
    """The largest entry is taken along `axis`, but the sum always runs along the last axis."""
    powers = np.exp(z - np.max(z, axis=axis, keepdims=True))
    return powers / np.sum(powers, axis=-1, keepdims=True)


def softmax__wrong_scaled_by_count(z, axis=-1):
    """The entries are divided by the square root of their number along the axis before the exponential."""
    z = z / z.shape[axis] ** 0.5
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def softmax__wrong_in_place_and_rows_only(z, axis=-1):
    """The shift is written into the caller's array, and maximum and sum run along the last axis whatever `axis` is."""
    z -= z.max(axis=-1)[..., None]
    powers = np.exp(z)
    return powers / powers.sum(axis=-1)[..., None]


def derivation_terms__wrong_mean_of_product_split(q, k):
    """In the diagonal the mean of q_i² k_i² is taken for the mean of q_i² times that of k_i²."""
    diagonal = ((q**2).mean(axis=0) * (k**2).mean(axis=0)).sum()
    total = ((q * k).sum(axis=1) ** 2).mean()
    return diagonal, total - diagonal


def derivation_terms__wrong_neighbours_only(q, k):
    """Only pairs of features next to each other count as cross terms, not all pairs."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    cross = 2 * (t[:, :-1] * t[:, 1:]).sum(axis=1).mean()
    return diagonal, cross


def derivation_terms__wrong_cross_expected_zero(q, k):
    """The whole mean of s² is returned as the diagonal and 0 as cross, as step 3 expects it of independent features."""
    s = (q * k).sum(axis=1)
    return (s**2).mean(), 0.0


def derivation_terms__wrong_diagonal_in_triangle(q, k):
    """Cross is twice the sum over a triangle that includes the diagonal, so i = j is counted twice."""
    t = q * k
    table = t[:, :, None] * t[:, None, :]
    diagonal = np.trace(table, axis1=1, axis2=2).mean()
    cross = 2 * np.triu(table).sum(axis=(1, 2)).mean()
    return diagonal, cross


def derivation_terms__wrong_half_pairs_and_one_less(q, k):
    """Each pair of features counts once and not twice, and both sums are divided by the number of samples less 1."""
    samples, width = q.shape
    t = q * k
    diagonal = (t**2).sum() / max(samples - 1, 1)
    cross = 0.0
    for i in range(width):
        for j in range(i + 1, width):
            cross += (t[:, i] * t[:, j]).sum()
    return diagonal, cross / max(samples - 1, 1)


def derivation_terms__right_feature_table(q, k):
    """Makes the d × d table of means of t_i t_j as one product over the samples and splits it at its diagonal."""
    t = q * k
    table = t.T @ t / len(t)
    return np.trace(table), table[~np.eye(len(table), dtype=bool)].sum()


def dot_product_moments__wrong_variances_added(d, var_q=1.0, var_k=1.0):
    """The variances of query and key are added in each term in place of multiplied."""
    return 0.0, d * (var_q + var_k)


def dot_product_moments__wrong_keys_like_queries(d, var_q=1.0, var_k=1.0):
    """The keys are taken to have the variance of the queries, and var_k is not used."""
    return 0.0, d * var_q * var_q


def dot_product_moments__wrong_measured(d, var_q=1.0, var_k=1.0):
    """Mean and variance are measured on 20,000 random draws in place of taken from the formula."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal((20_000, d)) * var_q**0.5
    k = rng.standard_normal((20_000, d)) * var_k**0.5
    s = (q * k).sum(axis=1)
    return s.mean(), s.var()


def dot_product_moments__wrong_of_scaled_score(d, var_q=1.0, var_k=1.0):
    """The variance is that of the score divided by the root of d, in which d no longer stands."""
    return 0.0, d * var_q * var_k / d


def dot_product_moments__wrong_self_product_and_deviation(d, var_q=1.0, var_k=1.0):
    """The mean is d as for a vector with itself, and the second result is the standard deviation."""
    return float(d), (d * var_q * var_k) ** 0.5


def dot_product_moments__right_term_by_term(d, var_q=1.0, var_k=1.0):
    """Adds mean and variance of one term of the dot product after the other."""
    mean = variance = 0.0
    for _ in range(d):
        mean += 0.0 * 0.0
        variance += float(var_q) * float(var_k)
    return mean, variance


def scaled_scores__wrong_both_factors_rooted(Q, K):
    """Queries and keys are each divided by the root of d_k, so a score is divided by d_k."""
    root = Q.shape[1] ** 0.5
    return (Q / root) @ (K / root).T


def scaled_scores__wrong_measured_spread(Q, K):
    """The scores are divided by the standard deviation that they happen to have, not by the root of d_k."""
    scores = Q @ K.T
    spread = scores.std()
    return scores / (spread if spread > 0 else 1)


def scaled_scores__wrong_whole_root(Q, K):
    """The root of d_k is cut to a whole number, which is right for widths such as 4 and 64 alone."""
    root = int(np.sqrt(Q.shape[1]))
    return Q @ K.T / root


def scaled_scores__wrong_number_of_keys(Q, K):
    """The divisor is the root of the number of keys and not of their width."""
    return Q @ K.T / np.sqrt(len(K))


def scaled_scores__wrong_times_root_turned(Q, K):
    """The scores are multiplied by the root of d_k, and the rows of the table belong to the keys."""
    return K @ Q.T * np.sqrt(Q.shape[1])


def scaled_scores__right_mean_times_root(Q, K):
    """Averages the products over the features and multiplies the mean by the root of d_k."""
    products = np.expand_dims(Q, 1) * np.expand_dims(K, 0)
    return products.mean(axis=2) * Q.shape[1] ** 0.5


def score_statistics__wrong_variance_by_root(d, n_samples, rng, scaled):
    """With `scaled` the measured variance is divided by the root of d like the mean, and not by d."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1)
    root = d**0.5 if scaled else 1.0
    return s.mean() / root, s.var() / root


def score_statistics__wrong_new_generator(d, n_samples, rng, scaled):
    """A seed is drawn from the generator, and queries and keys come from a new one made with it."""
    own = np.random.default_rng(rng.integers(2**32))
    q = own.standard_normal((n_samples, d))
    k = own.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1)
    if scaled:
        s = s / np.sqrt(d)
    return s.mean(), s.var()


def score_statistics__wrong_mean_taken_as_zero(d, n_samples, rng, scaled):
    """The mean of the squares is returned as the variance, as if the measured mean were exactly 0."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.einsum("rd,rd->r", q, k)
    if scaled:
        s = s / np.sqrt(d)
    return s.mean(), (s**2).mean()


def score_statistics__wrong_pair_by_pair(d, n_samples, rng, scaled):
    """A query and its key are drawn in turn, sample by sample, not all queries before all keys."""
    s = np.zeros(n_samples)
    for r in range(n_samples):
        q = rng.standard_normal(d)
        k = rng.standard_normal(d)
        s[r] = q @ k
    if scaled:
        s = s / np.sqrt(d)
    return s.mean(), s.var()


def score_statistics__wrong_all_pairs_one_less(d, n_samples, rng, scaled):
    """Every query meets every key, and the variance is divided by the number of scores less 1."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = q @ k.T
    if scaled:
        s = s / np.sqrt(d)
    return s.mean(), s.var(ddof=1) if s.size > 1 else 0.0


def score_statistics__right_trace_and_loop(d, n_samples, rng, scaled):
    """Scales the queries before the products, and averages score and squared distance one sample at a time."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    if scaled:
        q = q / d**0.5
    scores = [float(np.dot(one, other)) for one, other in zip(q, k)]
    mean = sum(scores) / n_samples
    return mean, sum((s - mean) ** 2 for s in scores) / n_samples


def attention__wrong_future_hidden(Q, K, V):
    """A causal mask hides the keys behind each query's own place, though no mask is asked for."""
    scores = Q @ K.T / K.shape[1] ** 0.5
    scores = np.where(np.tri(*scores.shape, dtype=bool), scores, -np.inf)
    weights = _softmax(scores)
    return weights @ V, weights


def attention__wrong_sum_runs_on(Q, K, V):
    """The sum below the softmax is not set back for the next query, so later rows sum to less than 1."""
    weights = np.zeros((len(Q), len(K)))
    total = 0.0
    for i, query in enumerate(Q):
        scores = K @ query / K.shape[1] ** 0.5
        powers = np.exp(scores - scores.max())
        total = total + powers.sum()
        weights[i] = powers / total
    return weights @ V, weights


def attention__wrong_queries_divided_in_place(Q, K, V):
    """The root of d_k is divided out of the caller's queries in place, so they are changed."""
    Q /= K.shape[1] ** 0.5
    weights = _softmax(Q @ K.T)
    return weights @ V, weights


def attention__wrong_width_of_values(Q, K, V):
    """The scores are divided by the root of the width of the values, not of the keys."""
    weights = _softmax(Q @ K.T / V.shape[1] ** 0.5)
    return weights @ V, weights


def attention__wrong_shared_by_queries_and_d(Q, K, V):
    """The softmax runs along the queries, so that columns sum to 1, and the scores are divided by d_k itself."""
    weights = _softmax(Q @ K.T / K.shape[1], axis=0)
    return weights @ V, weights


def softmax_jacobian__wrong_vector_by_itself(p):
    """For a vector p @ p.T is one number, the sum of the squares, and it is subtracted everywhere."""
    return np.diag(p) - p @ p.T


def softmax_jacobian__wrong_weights_as_scores(p):
    """The weights are taken for scores and go through a softmax once more before the formula."""
    a = _softmax(p)
    return np.diag(a) - np.outer(a, a)


def softmax_jacobian__wrong_of_logarithm(p):
    """These are the derivatives of the logarithms of the weights, 1 less p_j on the diagonal and -p_j beside it."""
    return np.eye(len(p)) - p[None, :].repeat(len(p), axis=0)


def softmax_jacobian__wrong_one_triangle(p):
    """The inner loop begins at i, so the entries below the diagonal stay 0."""
    m = len(p)
    J = np.zeros((m, m))
    for i in range(m):
        for j in range(i, m):
            J[i, j] = p[i] * (1 - p[i]) if i == j else -p[i] * p[j]
    return J


def softmax_jacobian__wrong_no_square_own_weight(p):
    """The diagonal lacks -p_i², and beside it stands the square of the row's own weight in place of p_i p_j."""
    m = len(p)
    J = -(p[:, None] ** 2) * np.ones((m, m))
    J[np.arange(m), np.arange(m)] = p
    return J


def attention_backward__wrong_own_score_only(Q, K, V, d_output):
    """Of the softmax's derivative only the diagonal p (1 - p) is used: a score moves no other weight."""
    root = K.shape[1] ** 0.5
    weights = _softmax(Q @ K.T / root)
    d_weights = d_output @ V.T
    d_scores = weights * (1 - weights) * d_weights / root
    return d_scores @ K, d_scores.T @ Q, weights.T @ d_output


def attention_backward__wrong_plain_mean(Q, K, V, d_output):
    """From the slopes of the weights their plain mean over the keys is subtracted, not the one by the weights."""
    root = K.shape[1] ** 0.5
    weights = _softmax(Q @ K.T / root)
    d_weights = d_output @ V.T
    d_scores = weights * (d_weights - d_weights.mean(axis=1, keepdims=True)) / root
    return d_scores @ K, d_scores.T @ Q, weights.T @ d_output


def attention_backward__wrong_root_for_queries_only(Q, K, V, d_output):
    """The root of d_k is divided out of dQ but not out of dK."""
    root = K.shape[1] ** 0.5
    weights = _softmax(Q @ K.T / root)
    d_weights = d_output @ V.T
    d_scores = weights * (d_weights - (weights * d_weights).sum(axis=1, keepdims=True))
    return d_scores @ K / root, d_scores.T @ Q, weights.T @ d_output


def attention_backward__wrong_last_query_stays(Q, K, V, d_output):
    """In the loop over the queries the slopes of keys and values are overwritten, so only the last query counts."""
    root = K.shape[1] ** 0.5
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for i in range(len(Q)):
        weights = _softmax(K @ Q[i] / root)
        d_weights = V @ d_output[i]
        d_scores = weights * (d_weights - weights @ d_weights) / root
        dQ[i] = d_scores @ K
        dK = np.outer(d_scores, Q[i])
        dV = np.outer(weights, d_output[i])
    return dQ, dK, dV


def attention_backward__wrong_over_queries_and_root_twice(Q, K, V, d_output):
    """The weighted mean is taken over the queries and not over the keys, and the root of d_k is divided out twice."""
    root = K.shape[1] ** 0.5
    weights = _softmax(Q @ K.T / root)
    d_weights = d_output @ V.T
    d_scores = weights * (d_weights - (weights * d_weights).sum(axis=0, keepdims=True)) / root
    return d_scores @ K / root, d_scores.T @ Q / root, weights.T @ d_output


def attention_backward__right_pairs_of_keys(Q, K, V, d_output):
    """Moves weight between pairs of keys: a score gains by each difference of two values' slopes, query by query."""
    root = float(K.shape[1]) ** 0.5
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for query, slope, row in zip(Q, d_output, dQ):
        scores = K @ query / root
        powers = np.exp(scores - scores.max())
        a = powers / powers.sum()
        gains = (V[:, None, :] - V[None, :, :]) @ slope
        d_scores = np.einsum("i,j,ij->i", a, a, gains) / root
        row += d_scores @ K
        dK += d_scores[:, None] * query
        dV += a[:, None] * slope
    return dQ, dK, dV
