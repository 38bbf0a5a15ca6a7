"""Answers to the exercises of unit 2, wrong ones and right ones, as students would write them."""

import math

import numpy as np

_TABLES = {}  # only for the one wrong answer that keeps its result


def _softmax(z, axis=-1):
    """A right softmax, from exercise 2.2."""
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _attention_scores(Q, K):
    """Right plain scores, from exercise 2.1."""
    return Q @ K.T


def _scaled_scores(Q, K):
    """Right scaled scores, from exercise 2.5."""
    return Q @ K.T / Q.shape[1] ** 0.5


def _softmax_jacobian(p):
    """A right Jacobian of the softmax, from exercise 2.8."""
    return np.diag(p) - np.outer(p, p)


# ------- 2.1 attention_scores


def attention_scores__wrong_fourteenth_cosine_of_the_angle(Q, K):
    """Takes the cosine between query and key, rows brought to length 1; the plain dot product is due."""
    length_q = np.sqrt((Q**2).sum(axis=1, keepdims=True))
    length_k = np.sqrt((K**2).sum(axis=1, keepdims=True))
    length_q = np.where(length_q == 0, 1.0, length_q)
    length_k = np.where(length_k == 0, 1.0, length_k)
    return (Q / length_q) @ (K / length_k).T


def attention_scores__wrong_fourteenth_misfits_count_as_zero(Q, K):
    """Believes that a fit cannot be negative and lifts negative scores to 0; they should stay negative."""
    return np.maximum(np.matmul(Q, np.transpose(K)), 0.0)


def attention_scores__wrong_fourteenth_average_over_features(Q, K):
    """Takes the mean agreement per feature, so the dot product divided by d_k; the sum is due."""
    agreement = Q[:, np.newaxis, :] * K[np.newaxis, :, :]  # (n, m, d_k)
    return agreement.mean(axis=2)


def attention_scores__wrong_fourteenth_overwrites_the_sum(Q, K):
    """Writes = for += in the loop over features, so that only the last feature is left; their sum is due."""
    n, d_k = Q.shape
    m = K.shape[0]
    S = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            for c in range(d_k):
                S[i, j] = Q[i, c] * K[j, c]
    return S


def attention_scores__wrong_fourteenth_first_feature_left_out(Q, K):
    """The loop over features starts at 1, so feature 0 is missing from every score."""
    scores = np.zeros((len(Q), len(K)))
    for feature in range(1, Q.shape[1]):
        scores += np.outer(Q[:, feature], K[:, feature])
    return scores


def attention_scores__wrong_fourteenth_keys_in_the_rows(Q, K):
    """Reads row = key, column = query and returns (m, n); (n, m) is due."""
    return np.einsum("jc,ic->ji", K, Q)


def attention_scores__wrong_fourteenth_single_row_squeezed(Q, K):
    """Drops axes of length 1, so one query or one key gives a vector; the shape should stay (n, m)."""
    table = [[np.dot(query, key) for key in K] for query in Q]
    return np.array(table).squeeze()


def attention_scores__wrong_fourteenth_one_table_kept(Q, K):
    """Keeps one table per shape and writes into it again in the next call; each call should make a new one."""
    shape = (Q.shape[0], K.shape[0])
    if shape not in _TABLES:
        _TABLES[shape] = np.empty(shape)
    np.matmul(Q, K.T, out=_TABLES[shape])
    return _TABLES[shape]


def attention_scores__right_fourteenth_one_column_per_key(Q, K):
    """Multiplies the table of queries with one key after the other and puts the columns side by side."""
    columns = []
    for key in K:
        columns.append(Q @ key)  # (n,)
    return np.stack(columns, axis=1)


# ------- 2.2 softmax


def softmax__wrong_fourteenth_one_shift_for_all(z, axis=-1):
    """Thinks one shift may serve the whole array and takes its largest entry; each row needs its own."""
    powers = np.exp(z - np.max(z))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def softmax__wrong_fourteenth_shift_by_the_mean(z, axis=-1):
    """Takes any shift for safe and subtracts the mean; exponents stay positive and overflow, the maximum is due."""
    centred = z - z.mean(axis=axis, keepdims=True)
    e = np.exp(centred)
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_fourteenth_large_scores_clipped(z, axis=-1):
    """Clips scores to +-700 against the overflow, so larger ones become equal; they should stay different."""
    safe = np.clip(z, -700.0, 700.0)
    top = safe.max(axis=axis, keepdims=True)
    weights = np.exp(safe - top)
    total = weights.sum(axis=axis, keepdims=True)
    return weights / total


def softmax__wrong_fourteenth_sum_along_last_axis(z, axis=-1):
    """The maximum runs along axis, the sum always along the last one; both should run along axis."""
    shifted = z - np.max(z, axis=axis, keepdims=True)
    exponentials = np.exp(shifted)
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def softmax__wrong_fourteenth_sign_of_the_exponent(z, axis=-1):
    """Turns the difference round and shifts by the minimum: the smallest score gets the largest weight."""
    lowest = np.amin(z, axis=axis, keepdims=True)
    p = np.exp(lowest - z)
    p = p / p.sum(axis=axis, keepdims=True)
    return p


def softmax__wrong_fourteenth_axis_that_is_kept(z, axis=-1):
    """Reads axis as the one that is kept and sums over all the others; the sum should run along axis itself."""
    keep = axis % z.ndim
    others = tuple(a for a in range(z.ndim) if a != keep)
    powers = np.exp(z - z.max(axis=others, keepdims=True))
    return powers / powers.sum(axis=others, keepdims=True)


def softmax__wrong_fourteenth_negative_axis_means_last(z, axis=-1):
    """Takes each negative axis for the last one; -2 should be the last but one, and so on."""
    if axis < 0:
        axis = z.ndim - 1
    moved = np.moveaxis(z, axis, 0)
    result = np.exp(moved - moved.max(axis=0))
    result = result / result.sum(axis=0)
    return np.moveaxis(result, 0, axis)


def softmax__wrong_fourteenth_repairs_after_the_overflow(z, axis=-1):
    """Tries the plain formula and repairs rows that overflowed: right numbers, but NumPy warns; it should not."""

    def one_row(row):
        powers = np.exp(row)
        total = powers.sum()
        if not np.isfinite(total) or total < 1e-200:
            powers = np.exp(row - row.max())
            total = powers.sum()
        return powers / total

    return np.apply_along_axis(one_row, axis, z)


def softmax__right_fourteenth_logarithm_of_the_sum(z, axis=-1):
    """Subtracts the logarithm of the sum of exponentials, which np.logaddexp collects without overflow."""
    log_total = np.logaddexp.reduce(z, axis=axis, keepdims=True)
    return np.exp(z - log_total)


# ------- 2.3 derivation_terms


def derivation_terms__wrong_fourteenth_products_of_average_terms(q, k):
    """Averages the terms over the samples before they are multiplied; in each sample multiply first, average last."""
    terms = q * k
    diagonal = (terms**2).sum(axis=1).mean()
    average = terms.mean(axis=0)  # (d,)
    cross = average.sum() ** 2 - (average**2).sum()
    return diagonal, cross


def derivation_terms__wrong_fourteenth_diagonal_split_in_factors(q, k):
    """Splits E[q_i^2 k_i^2] into E[q_i^2] E[k_i^2] although q and k may depend; the product is to be averaged."""
    size_q = np.mean(q**2, axis=0)
    size_k = np.mean(k**2, axis=0)
    diagonal = np.dot(size_q, size_k)
    s = np.sum(q * k, axis=1)
    return diagonal, np.mean(s**2) - diagonal


def derivation_terms__wrong_fourteenth_variances_of_the_terms(q, k):
    """Takes variances, so the means are subtracted before squaring; plain means of squares are due."""
    t = q * k
    diagonal = t.var(axis=0).sum()
    everything = t.sum(axis=1).var()
    return diagonal, everything - diagonal


def derivation_terms__wrong_fourteenth_each_pair_once(q, k):
    """Counts each pair once, with j above i; ordered pairs are due, so each counts twice."""
    n, d = q.shape
    diagonal = 0.0
    cross = 0.0
    for r in range(n):
        for i in range(d):
            diagonal += (q[r, i] * k[r, i]) ** 2
            for j in range(i + 1, d):
                cross += q[r, i] * k[r, i] * q[r, j] * k[r, j]
    return diagonal / n, cross / n


def derivation_terms__wrong_fourteenth_table_of_the_samples(q, k):
    """Multiplies t @ t.T, so sample meets sample off the diagonal; t.T @ t, feature with feature, is due."""
    t = q * k
    table = t @ t.T / len(t)
    diagonal = np.trace(table)
    cross = table.sum() - diagonal
    return diagonal, cross


def derivation_terms__wrong_fourteenth_mean_over_the_pairs(q, k):
    """Reads the cross part as the mean over samples and pairs; over the pairs the sum is due."""
    terms = np.multiply(q, k)
    width = terms.shape[1]
    squares = np.einsum("ri,ri->r", terms, terms)
    pairs = np.einsum("ri,rj->r", terms, terms) - squares
    number = max(width * (width - 1), 1)
    return squares.mean(), (pairs / number).mean()


def derivation_terms__wrong_fourteenth_width_one_squeezed(q, k):
    """Squeezes the terms, so with d = 1 the sum runs over the samples; it should run over the one feature."""
    terms = (q * k).squeeze()
    squares_first = (terms**2).sum(axis=-1)
    square_last = terms.sum(axis=-1) ** 2
    diagonal = np.mean(squares_first)
    return diagonal, np.mean(square_last) - diagonal


def derivation_terms__wrong_fourteenth_reckons_in_float32(q, k):
    """Reckons in float32 to save memory and returns float32 numbers; float64 in, float64 out is the rule."""
    small = q.astype(np.float32) * k.astype(np.float32)
    sum_of_squares = np.square(small).sum(axis=1)
    square_of_sum = np.square(small.sum(axis=1))
    return sum_of_squares.mean(), (square_of_sum - sum_of_squares).mean()


def derivation_terms__right_fourteenth_each_term_meets_rest(q, k):
    """Lets each term meet the sum of all others in its sample, feature by feature."""
    samples, d = q.shape
    t = q * k
    diagonal, cross = 0.0, 0.0
    for i in range(d):
        others = np.delete(t, i, axis=1).sum(axis=1)  # (samples,)
        diagonal += float(t[:, i] @ t[:, i]) / samples
        cross += float(t[:, i] @ others) / samples
    return diagonal, cross


# ------- 2.4 dot_product_moments


def dot_product_moments__wrong_fourteenth_mean_grows_with_width(d, var_q=1.0, var_k=1.0):
    """Believes claim 1, that each term has the mean of a square, so the mean is d; it is 0."""
    mean = d * math.sqrt(var_q * var_k)
    return mean, d * var_q * var_k


def dot_product_moments__wrong_fourteenth_cross_terms_count_too(d, var_q=1.0, var_k=1.0):
    """Lets all d^2 products of the table count alike; the cross terms vanish and d squares are left."""
    one_product = var_q * var_k
    number_of_products = d + d * (d - 1)
    return 0.0, number_of_products * one_product


def dot_product_moments__wrong_fourteenth_variances_added_up(d, var_q=1.0, var_k=1.0):
    """Adds the variances of q_i and k_i as if the term were a sum; for a product they are multiplied."""
    variance = 0.0
    for _ in range(d):
        variance += var_q + var_k
    return 0.0, variance


def dot_product_moments__wrong_fourteenth_var_q_taken_twice(d, var_q=1.0, var_k=1.0):
    """Types var_q twice; var_q * var_k is due."""
    term = var_q * var_q
    return 0.0, term * d


def dot_product_moments__wrong_fourteenth_results_swapped(d, var_q=1.0, var_k=1.0):
    """Returns (variance, mean); (mean, variance) is due."""
    mean, variance = 0.0, d * var_q * var_k
    return variance, mean


def dot_product_moments__wrong_fourteenth_deviations_for_variances(d, var_q=1.0, var_k=1.0):
    """Reads var_q and var_k as standard deviations and squares them; they are variances already."""
    return 0.0, float(d) * var_q**2 * var_k**2


def dot_product_moments__wrong_fourteenth_zero_counts_as_missing(d, var_q=1.0, var_k=1.0):
    """Takes a variance of 0 for "not given" and puts 1 in its place; the result should be 0."""
    var_q = var_q or 1.0
    var_k = var_k or 1.0
    return 0.0, d * (var_q * var_k)


def dot_product_moments__wrong_fourteenth_tosses_coins(d, var_q=1.0, var_k=1.0):
    """Tosses coins and measures the diagonal, which comes out right; but nothing may be drawn here."""
    q = np.sqrt(var_q) * np.random.choice([-1.0, 1.0], (50, d))
    k = np.sqrt(var_k) * np.random.choice([-1.0, 1.0], (50, d))
    variance = ((q * k) ** 2).sum(axis=1).mean()
    return 0.0, float(variance)


def dot_product_moments__right_fourteenth_sum_of_equal_features(d, var_q=1.0, var_k=1.0):
    """Lists the variances of all d features and lets the two lists meet in a dot product; means likewise."""
    means = np.zeros(d)
    of_query = np.full(d, var_q, dtype=float)
    of_key = np.full(d, var_k, dtype=float)
    return float(means @ means), float(of_query @ of_key)


# ------- 2.5 scaled_scores


def scaled_scores__wrong_fourteenth_divided_by_width(Q, K):
    """Believes claim 2 and divides by d_k; its root is due."""
    d_k = Q.shape[-1]
    return Q @ K.T / d_k


def scaled_scores__wrong_fourteenth_root_of_the_keys(Q, K):
    """Thinks the more keys the larger the scores and divides by the root of m; the root of d_k is due."""
    number_of_keys = len(K)
    dots = np.tensordot(Q, K, axes=(1, 1))
    return dots / math.sqrt(number_of_keys)


def scaled_scores__wrong_fourteenth_measured_spread_as_divisor(Q, K):
    """Divides by the standard deviation measured in the table, to get variance 1; the root of d_k is due."""
    scores = _attention_scores(Q, K)
    spread = scores.std()
    if spread == 0:
        return scores
    return scores / spread


def scaled_scores__wrong_fourteenth_half_by_precedence(Q, K):
    """Writes d ** 1/2, which divides by d / 2; brackets are missing for the root."""
    d = K.shape[1]
    r = d ** 1/2  # fmt: skip
    return np.einsum("ic,jc->ij", Q, K) / r


def scaled_scores__wrong_fourteenth_floor_division(Q, K):
    """Types // for /, so all scores are rounded down to whole numbers."""
    dot_products = np.dot(Q, K.T)
    root = np.sqrt(Q.shape[1])
    return dot_products // root


def scaled_scores__wrong_fourteenth_softmax_already(Q, K):
    """Reads on to the formula of attention and returns weights; plain scaled scores without softmax are due."""
    s = (Q @ K.T) / np.sqrt(K.shape[1])
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def scaled_scores__wrong_fourteenth_whole_root(Q, K):
    """Takes the root as a whole number: right for widths 4, 16, 64, wrong for 2, 5, 8 or 128."""
    n, m = Q.shape[0], K.shape[0]
    root = math.isqrt(Q.shape[1])
    result = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            result[i, j] = (Q[i] * K[j]).sum() / root
    return result


def scaled_scores__wrong_fourteenth_queries_scaled_in_place(Q, K):
    """Scales the queries with /=, which changes the caller's Q; inputs should stay as they are."""
    Q /= K.shape[1] ** 0.5
    return Q @ K.T


def scaled_scores__right_fourteenth_fourth_root_on_both(Q, K):
    """Divides queries and keys each by the fourth root of the width, and multiplies afterwards."""
    share = math.sqrt(math.sqrt(Q.shape[1]))
    small_queries = Q / share
    small_keys = K / share
    return small_queries @ small_keys.T


# ------- 2.6 score_statistics


def score_statistics__wrong_fourteenth_every_query_every_key(d, n_samples, rng, scaled):
    """Lets every query meet every key and measures the whole table; row r of q meets row r of k alone."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    scores = q @ k.T
    if scaled:
        scores = scores / np.sqrt(d)
    return scores.mean(), scores.var()


def score_statistics__wrong_fourteenth_root_on_the_variance(d, n_samples, rng, scaled):
    """Divides mean and variance both by the root of d at the end; the variance falls by d."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1)
    mean, variance = np.mean(s), np.var(s)
    divisor = d**0.5 if scaled else 1.0
    return mean / divisor, variance / divisor


def score_statistics__wrong_fourteenth_expected_mean_subtracted(d, n_samples, rng, scaled):
    """Takes the mean of s^2 for the variance, since E[s] is 0; the measured mean is to be subtracted."""
    first = rng.standard_normal((n_samples, d))
    second = rng.standard_normal((n_samples, d))
    scores = np.einsum("rc,rc->r", first, second)
    if scaled:
        scores /= math.sqrt(d)
    return scores.mean(), np.square(scores).mean()


def score_statistics__wrong_fourteenth_summed_over_samples(d, n_samples, rng, scaled):
    """Sums along axis 0, over the samples, which leaves d scores; the sum runs over the features."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    products = q * k
    scores = np.sum(products, axis=0)
    scores = scores / np.sqrt(d) if scaled else scores
    return float(np.mean(scores)), float(np.var(scores))


def score_statistics__wrong_fourteenth_root_of_the_samples(d, n_samples, rng, scaled):
    """Takes the root of n_samples when scaled; the root of d is due."""
    shape = n_samples, d
    q, k = rng.standard_normal(shape), rng.standard_normal(shape)
    root = shape[0] ** 0.5
    scores = np.array([row_q @ row_k for row_q, row_k in zip(q, k, strict=True)])
    if scaled:
        scores = scores / root
    average = scores.sum() / n_samples
    return average, ((scores - average) ** 2).sum() / n_samples


def score_statistics__wrong_fourteenth_drawn_pair_by_pair(d, n_samples, rng, scaled):
    """Draws one query and its key, then the next pair; all of q should be drawn first, then all of k."""
    scores = []
    for _ in range(n_samples):
        query = rng.standard_normal(d)
        key = rng.standard_normal(d)
        score = float(query @ key)
        if scaled:
            score /= d**0.5
        scores.append(score)
    return np.mean(scores), np.var(scores)


def score_statistics__wrong_fourteenth_single_sample_nan(d, n_samples, rng, scaled):
    """Corrects the unbiased variance by (n - 1) / n: right, but NaN for a single sample, where 0 is due."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.sum(q * k, axis=-1)
    if scaled:
        s = s / d**0.5
    unbiased = np.var(s, ddof=1)
    return s.mean(), unbiased * (n_samples - 1) / n_samples


def score_statistics__wrong_fourteenth_values_drawn_as_well(d, n_samples, rng, scaled):
    """Draws values after queries and keys, though nothing needs them; nothing else should be drawn."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    v = rng.standard_normal((n_samples, d))
    assert q.shape == k.shape == v.shape
    s = (q * k) @ np.ones(d)
    if scaled:
        s = s / np.sqrt(d)
    return s.mean(), s.var()


def score_statistics__right_fourteenth_running_mean_and_spread(d, n_samples, rng, scaled):
    """Goes through the scores one by one and carries mean and summed squares along (Welford)."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    mean, squares = 0.0, 0.0
    for count, score in enumerate((q * k).sum(axis=1).tolist(), start=1):
        if scaled:
            score = score / math.sqrt(d)
        distance = score - mean
        mean += distance / count
        squares += distance * (score - mean)
    return mean, squares / n_samples


# ------- 2.7 attention


def attention__wrong_fourteenth_queries_compete_for_keys(Q, K, V):
    """Runs the softmax along the queries, so each column sums to 1; each row should, along the keys."""
    scores = Q @ K.T / np.sqrt(Q.shape[1])
    weights = _softmax(scores, axis=0)
    return weights @ V, weights


def attention__wrong_fourteenth_root_outside_the_softmax(Q, K, V):
    """Makes weights of plain scores and divides the output by the root; the root stands inside the softmax."""
    weights = _softmax(_attention_scores(Q, K))
    output = weights @ V
    return output / math.sqrt(Q.shape[1]), weights


def attention__wrong_fourteenth_looks_only_back(Q, K, V):
    """Thinks that a word may look at itself and earlier ones only; there is no mask, all keys count."""
    n, m = len(Q), len(K)
    scores = _scaled_scores(Q, K)
    later = np.arange(m)[None, :] > np.arange(n)[:, None]
    scores = np.where(later, -np.inf, scores)
    A = np.exp(scores - scores.max(axis=1, keepdims=True))
    A /= A.sum(axis=1, keepdims=True)
    return A @ V, A


def attention__wrong_fourteenth_width_of_the_values(Q, K, V):
    """Takes the root of d_v, from V.shape; that of d_k is due."""
    d = V.shape[1]
    logits = np.einsum("nd,md->nm", Q, K) / d**0.5
    logits = logits - logits.max(axis=-1, keepdims=True)
    weights = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return np.einsum("nm,mv->nv", weights, V), weights


def attention__wrong_fourteenth_last_key_not_mixed(Q, K, V):
    """The loop that mixes the values stops one key short; all m values belong to the mixture."""
    n, m = Q.shape[0], K.shape[0]
    weights = _softmax(_scaled_scores(Q, K))
    output = np.zeros((n, V.shape[1]))
    for i in range(n):
        for j in range(m - 1):
            output[i] += weights[i, j] * V[j]
    return output, weights


def attention__wrong_fourteenth_weights_come_first(Q, K, V):
    """Returns (weights, output); (output, weights) is due."""
    scores = _scaled_scores(Q, K)
    weights = _softmax(scores, axis=1)
    mixed = np.matmul(weights, V)
    return weights, mixed


def attention__wrong_fourteenth_far_rows_get_nothing(Q, K, V):
    """Shifts by the table's maximum and puts 1 for sums of 0, so a row far below gets weights 0, not sum 1."""
    scaled = Q @ K.T / Q.shape[1] ** 0.5
    powers = np.exp(scaled - scaled.max())
    total = powers.sum(axis=1, keepdims=True)
    total[total == 0] = 1.0  # no division by zero
    weights = powers / total
    return weights @ V, weights


def attention__wrong_fourteenth_weights_in_float32(Q, K, V):
    """Stores weights and output as float32 to halve the memory; float64 in, float64 out is the rule."""
    n, m, width = Q.shape[0], K.shape[0], Q.shape[1]
    weights = np.empty((n, m), dtype=np.float32)
    output = np.empty((n, V.shape[1]), dtype=np.float32)
    for row, query in enumerate(Q):
        a = _softmax(K @ query / math.sqrt(width))
        weights[row] = a
        output[row] = a @ V
    return output, weights


def attention__right_fourteenth_one_key_after_another(Q, K, V):
    """Takes in one key at a time, with a running maximum and sum per query, and rescales when the maximum rises."""
    n, d_k = Q.shape
    root = d_k**0.5
    top = np.full(n, -np.inf)
    total = np.zeros(n)
    output = np.zeros((n, V.shape[1]))
    columns = []
    for key, value in zip(K, V, strict=True):
        score = Q @ key / root  # (n,)
        higher = np.maximum(top, score)
        shrink, share = np.exp(top - higher), np.exp(score - higher)
        total = total * shrink + share
        output = output * shrink[:, None] + share[:, None] * value
        top = higher
        columns.append(score)
    scores = np.stack(columns, axis=1)
    weights = np.exp(scores - top[:, None]) / total[:, None]
    return output / total[:, None], weights


# ------- 2.8 softmax_jacobian


def softmax_jacobian__wrong_fourteenth_only_its_own_score(p):
    """Thinks that a weight answers to its own score alone and leaves 0 off the diagonal; -p_i p_j is due there."""
    return np.diag(p * (1 - p))


def softmax_jacobian__wrong_fourteenth_score_raised_by_one(p):
    """Takes the derivative for the change when a score is raised by a full 1; the slope at the point is due."""
    m = len(p)
    J = np.zeros((m, m))
    for j in range(m):
        parts = p.copy()
        parts[j] = parts[j] * np.e
        J[:, j] = parts / parts.sum() - p
    return J


def softmax_jacobian__wrong_fourteenth_derivative_of_the_logarithm(p):
    """Derives the logarithm of the weights, 1 - p_j or -p_j; the factor p_i is missing."""
    return np.eye(p.size) - np.tile(p, (p.size, 1))


def softmax_jacobian__wrong_fourteenth_square_subtracted_twice(p):
    """Puts p (1 - p) on the diagonal and subtracts the outer product there once more: p - 2 p^2, not p - p^2."""
    own = p * (1.0 - p)
    return np.diag(own) - np.outer(p, p)


def softmax_jacobian__wrong_fourteenth_lower_half_empty(p):
    """The inner loop starts at i and nothing is mirrored, so all entries below the diagonal stay 0."""
    m = p.shape[0]
    table = np.zeros((m, m))
    for i in range(m):
        for j in range(i, m):
            if i == j:
                table[i, j] = p[i] * (1 - p[i])
            else:
                table[i, j] = -p[i] * p[j]
    return table


def softmax_jacobian__wrong_fourteenth_weights_taken_for_scores(p):
    """Reads p as scores and applies the softmax first; p holds the weights already."""
    a = np.exp(p - p.max())
    a = a / a.sum()
    return np.diag(a) - a[:, None] * a[None, :]


def softmax_jacobian__wrong_fourteenth_divides_by_the_weights(p):
    """Writes p_i p_j (1 / p_i - 1) on the diagonal: right for positive weights, NaN where a weight is exactly 0."""
    products = np.outer(p, p)
    factor = np.diag(1.0 / p) - np.ones((len(p), len(p)))
    return products * factor


def softmax_jacobian__wrong_fourteenth_diagonal_made_in_place(p):
    """Makes the diagonal with *= in a view of p, so the caller's weights change; inputs should stay as they are."""
    column = p.reshape(-1, 1)
    J = -(column @ column.T)
    column *= 1 - column
    np.fill_diagonal(J, column)
    return J


def softmax_jacobian__right_fourteenth_covariance_of_a_choice(p):
    """Takes the Jacobian as the covariance of a key drawn with chances p: mean of (e_k - p)(e_k - p)^T."""
    m = len(p)
    J = np.zeros((m, m))
    for chance, chosen in zip(p, np.eye(m), strict=True):
        away = chosen - p
        J += chance * np.outer(away, away)
    return J


# ------- 2.9 attention_backward


def attention_backward__wrong_fourteenth_each_weight_by_itself(Q, K, V, d_output):
    """Takes A (1 - A) for the softmax's derivative, so other scores have no influence; the full Jacobian is due."""
    r = np.sqrt(Q.shape[1])
    A = _softmax(Q @ K.T / r)
    dV = A.T @ d_output
    dA = d_output @ V.T
    dS = dA * A * (1 - A)
    return dS @ K / r, dS.T @ Q / r, dV


def attention_backward__wrong_fourteenth_denominator_held_fixed(Q, K, V, d_output):
    """Derives only the exponential and holds the sum below it fixed, dS = A dA; the row's mean must be subtracted."""
    root = Q.shape[1] ** 0.5
    weights = _softmax(_scaled_scores(Q, K))
    by_weights = np.einsum("iv,jv->ij", d_output, V)
    by_scores = weights * by_weights
    dQ = np.einsum("ij,jc->ic", by_scores, K) / root
    dK = np.einsum("ij,ic->jc", by_scores, Q) / root
    dV = np.einsum("ij,iv->jv", weights, d_output)
    return dQ, dK, dV


def attention_backward__wrong_fourteenth_root_undone_going_back(Q, K, V, d_output):
    """Thinks that going back undoes the division and multiplies by the root; the slopes are divided, too."""
    d_k = K.shape[1]
    a = _softmax(_scaled_scores(Q, K))
    da = d_output @ V.T
    ds = a * (da - (a * da).sum(axis=1, keepdims=True))
    ds = ds * math.sqrt(d_k)
    return ds @ K, ds.T @ Q, a.T @ d_output


def attention_backward__wrong_fourteenth_root_missing_for_keys(Q, K, V, d_output):
    """Divides dQ by the root and forgets it in dK; both pass through the scaling."""
    root = math.sqrt(Q.shape[1])
    weights = _softmax(Q @ K.T / root)
    dQ = np.zeros_like(Q)
    dK = np.zeros_like(K)
    dV = np.zeros_like(V)
    for i in range(len(Q)):
        jacobian = _softmax_jacobian(weights[i])
        slope = jacobian @ (V @ d_output[i])  # (m,)
        dQ[i] = slope @ K / root
        dK += np.outer(slope, Q[i])
        dV += np.outer(weights[i], d_output[i])
    return dQ, dK, dV


def attention_backward__wrong_fourteenth_average_over_the_queries(Q, K, V, d_output):
    """Sums A dA along axis 0, over the queries, before it subtracts; the sum runs over the keys of a query."""
    scale = 1 / Q.shape[1] ** 0.5
    P = _softmax(scale * (Q @ K.T))
    dP = np.matmul(d_output, V.T)
    inner = np.sum(P * dP, axis=0, keepdims=True)
    dS = scale * P * (dP - inner)
    dQ = np.matmul(dS, K)
    dK = np.matmul(dS.T, Q)
    return dQ, dK, np.matmul(P.T, d_output)


def attention_backward__wrong_fourteenth_direction_of_descent(Q, K, V, d_output):
    """Reads that the loss is to fall and returns the steps downhill, with a minus; the slopes themselves are due."""
    r = Q.shape[1] ** 0.5
    A = _softmax(Q @ K.T / r)
    G = d_output @ V.T
    S = A * (G - np.sum(A * G, axis=1)[:, None])
    uphill = (S @ K / r, S.T @ Q / r, A.T @ d_output)
    return tuple(-slope for slope in uphill)


def attention_backward__wrong_fourteenth_exponentials_not_shifted(Q, K, V, d_output):
    """Takes the exponentials without a shift: right for small scores, NaN for +-10000, where it should be safe."""
    root = np.sqrt(K.shape[1])
    E = np.exp(Q @ K.T / root)
    A = E / E.sum(axis=1, keepdims=True)
    output = A @ V
    D = (d_output * output).sum(axis=1, keepdims=True)
    dS = A * (d_output @ V.T - D) / root
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_fourteenth_measured_by_nudging(Q, K, V, d_output):
    """Nudges each entry up and down and takes differences; a formula is asked for, differences are not exact."""

    def loss(Q, K, V):
        return (_softmax(_scaled_scores(Q, K)) @ V * d_output).sum()

    h = 1e-5
    slopes = []
    for which in range(3):
        parts = [Q.copy(), K.copy(), V.copy()]
        slope = np.zeros(parts[which].shape)
        for place in np.ndindex(slope.shape):
            old = parts[which][place]
            parts[which][place] = old + h
            up = loss(*parts)
            parts[which][place] = old - h
            down = loss(*parts)
            parts[which][place] = old
            slope[place] = (up - down) / (2 * h)
        slopes.append(slope)
    return tuple(slopes)


def attention_backward__right_fourteenth_values_seen_from_output(Q, K, V, d_output):
    """Goes query by query and measures each value from the output, so that the mean is subtracted before all else."""
    n, d_k = Q.shape
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for i in range(n):
        a = _softmax(K @ Q[i] / d_k**0.5)  # (m,)
        away = V - a @ V  # (m, d_v): how far each value lies from the output
        gain = a * (away @ d_output[i]) / d_k**0.5  # (m,)
        dQ[i] = gain @ K
        dK += gain[:, None] * Q[i]
        dV += a[:, None] * d_output[i]
    return dQ, dK, dV
