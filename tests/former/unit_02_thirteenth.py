"""Answers to the exercises of unit 2, wrong ones and right ones, as students would write them."""

import math

import numpy as np


def _softmax(z, axis=-1):
    """The safe softmax along one axis (exercise 2.2)."""
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _scaled_scores(Q, K):
    """All dot products divided by the root of d_k (exercise 2.5)."""
    return Q @ K.T / Q.shape[1] ** 0.5


def _attention(Q, K, V):
    """Output and weights of scaled dot-product attention (exercise 2.7)."""
    weights = _softmax(_scaled_scores(Q, K))
    return weights @ V, weights


_tables = {}  # belongs to the one answer to 2.7 that reuses its arrays


# ------- 2.1 attention_scores


def attention_scores__wrong_thirteenth_cosine_similarity(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Takes the fit of two vectors for the cosine of their angle and divides by both lengths; the plain dot is due."""
    lengths_q = np.linalg.norm(Q, axis=1, keepdims=True)
    lengths_k = np.linalg.norm(K, axis=1, keepdims=True)
    # a vector of zeros fits nothing
    directions_q = Q / np.where(lengths_q == 0, 1, lengths_q)
    directions_k = K / np.where(lengths_k == 0, 1, lengths_k)
    return directions_q @ directions_k.T


def attention_scores__wrong_thirteenth_negative_distance(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Thinks that close vectors fit: minus half the squared distance; the dot product is due."""
    difference = Q[:, None, :] - K[None, :, :]  # (n, m, d_k)
    return -0.5 * (difference**2).sum(axis=2)


def attention_scores__wrong_thirteenth_no_negative_scores(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Believes that a key cannot fit worse than not at all, and lifts negative scores to 0; they should stay."""
    fits = Q.dot(K.T)
    return np.maximum(fits, 0.0)


def attention_scores__wrong_thirteenth_keys_counted_by_queries(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """The loop over the keys runs to the number of queries n, not to m: columns stay 0, or an index is too large."""
    n = len(Q)
    m = len(K)
    S = np.zeros((n, m))
    for i in range(n):
        for j in range(n):
            S[i, j] = np.dot(Q[i], K[j])
    return S


def attention_scores__wrong_thirteenth_first_feature_left_out(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """The sum over the features starts at 1 and so leaves out feature 0; they are counted from 0."""
    d_k = Q.shape[1]
    result = np.zeros((Q.shape[0], K.shape[0]))
    for c in range(1, d_k):
        result += Q[:, c : c + 1] * K[:, c]
    return result


def attention_scores__wrong_thirteenth_rows_are_keys(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Gives each key a row and each query a column, (m, n); the table should be (n, m)."""
    return np.einsum("jc,ic->ji", K, Q)


def attention_scores__wrong_thirteenth_transposes_if_needed(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Transposes K only where the shapes do not fit already: with m = d_k queries meet columns of K, not rows."""
    features = Q.shape[1]
    if K.shape[0] != features:
        K = K.T
    return Q @ K


def attention_scores__wrong_thirteenth_table_of_float32(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Collects the scores in a table of float32 to save memory; float64 in should give float64 out."""
    table = np.empty((Q.shape[0], K.shape[0]), dtype=np.float32)
    for row, query in enumerate(Q):
        table[row] = K @ query
    return table


def attention_scores__right_thirteenth_sum_of_outer_products(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Adds up one table of products for each feature."""
    total = np.zeros((len(Q), len(K)))
    for asked, offered in zip(Q.T, K.T):
        total = total + np.multiply.outer(asked, offered)
    return total


# ------- 2.2 softmax


def softmax__wrong_thirteenth_one_shift_for_all(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Subtracts the largest entry of the whole array; each row needs its own, or a low row becomes 0/0."""
    biggest = np.max(z)
    e = np.exp(z - biggest)
    return e / np.sum(e, axis=axis, keepdims=True)


def softmax__wrong_thirteenth_divides_by_largest(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Makes entries small by dividing by the largest size along the axis; only a shift leaves the weights alone."""
    size = np.abs(z).max(axis=axis, keepdims=True)
    size = np.where(size > 1, size, 1.0)
    small = z / size  # now between -1 and 1
    powers = np.exp(small)
    return powers / powers.sum(axis=axis, keepdims=True)


def softmax__wrong_thirteenth_clips_the_entries(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Thinks it enough to cut the entries off at +-600: beyond, unequal entries become equal. A shift is due."""
    safe = np.clip(z, -600, 600)
    numerator = np.exp(safe)
    denominator = numerator.sum(axis=axis, keepdims=True)
    return numerator / denominator


def softmax__wrong_thirteenth_sum_always_over_last_axis(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """The maximum runs along `axis`, but the sum always along the last axis; both should run along `axis`."""
    highest = z.max(axis, keepdims=True)
    unnormalised = np.exp(z - highest)
    return unnormalised / unnormalised.sum(-1, keepdims=True)


def softmax__wrong_thirteenth_axis_moved_back_the_wrong_way(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Moves the axis to the end, then back with source and target mixed up: wrong order from three axes on."""
    moved = np.moveaxis(z, axis, -1)
    top = moved.max(axis=-1)
    powers = np.exp(moved - top[..., np.newaxis])
    weights = powers / powers.sum(axis=-1)[..., np.newaxis]
    return np.moveaxis(weights, axis, -1)


def softmax__wrong_thirteenth_sums_over_the_other_axes(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Reads `axis` as the one that numbers the distributions and sums over all others; it is the one summed over."""
    others = tuple(a for a in range(z.ndim) if a != axis % z.ndim)
    shifted = z - np.max(z, axis=others, keepdims=True)
    return np.exp(shifted) / np.exp(shifted).sum(axis=others, keepdims=True)


def softmax__wrong_thirteenth_every_negative_axis_is_last(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Treats each negative axis as the last one; -2 is the last but one."""
    if axis < 0:
        axis = z.ndim - 1
    largest = np.expand_dims(np.amax(z, axis=axis), axis)
    exponentials = np.exp(z - largest)
    total = np.expand_dims(np.sum(exponentials, axis=axis), axis)
    return exponentials / total


def softmax__wrong_thirteenth_warns_before_it_repairs(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Tries the plain formula first and repairs afterwards: NumPy warns of large entries, and should not."""
    powers = np.exp(z)
    sums = powers.sum(axis=axis, keepdims=True)
    answer = powers / sums
    trouble = ~np.isfinite(sums) | (sums < 1e-200)
    if trouble.any():
        shifted = np.exp(z - z.max(axis=axis, keepdims=True))
        careful = shifted / shifted.sum(axis=axis, keepdims=True)
        answer = np.where(trouble, careful, answer)
    return answer


def softmax__right_thirteenth_one_over_sum_of_ratios(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Divides through by its own power: each weight is 1 / sum of e^(z_l - z_j), where an infinite sum gives 0."""
    last = np.moveaxis(z, axis, -1)
    differences = last[..., np.newaxis, :] - last[..., :, np.newaxis]  # [..., j, l] = z_l - z_j
    with np.errstate(over="ignore", under="ignore"):
        weights = 1.0 / np.exp(differences).sum(axis=-1)
    return np.ascontiguousarray(np.moveaxis(weights, -1, axis))


# ------- 2.3 derivation_terms


def derivation_terms__wrong_thirteenth_cross_is_zero(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Returns 0 for the cross part because its expected value vanishes; it is to be measured on these draws."""
    squares = (q * k) ** 2
    diagonal = squares.sum(axis=1).mean()
    cross = 0.0  # E[q_i] E[k_i] E[q_j] E[k_j] = 0
    return diagonal, cross


def derivation_terms__wrong_thirteenth_averages_terms_first(
    q: np.ndarray, k: np.ndarray
) -> tuple[float, float]:
    """Averages each term over the samples before the terms meet in the cross part; products are averaged, not terms."""
    t = q * k
    diagonal = np.mean(np.sum(t * t, axis=1))
    mean_terms = t.mean(axis=0)
    d = len(mean_terms)
    cross = 0.0
    for i in range(d):
        for j in range(d):
            if i != j:
                cross += mean_terms[i] * mean_terms[j]
    return diagonal, cross


def derivation_terms__wrong_thirteenth_every_query_every_key(
    q: np.ndarray, k: np.ndarray
) -> tuple[float, float]:
    """Lets every query meet every key as in attention; row r of q should meet row r of k alone."""
    terms = q[:, None, :] * k[None, :, :]  # (samples, samples, d)
    scores = terms.sum(axis=-1)
    diagonal = (terms**2).sum(axis=-1).mean()
    total = (scores**2).mean()
    return float(diagonal), float(total - diagonal)


def derivation_terms__wrong_thirteenth_shape_unpacked_in_wrong_order(
    q: np.ndarray, k: np.ndarray
) -> tuple[float, float]:
    """Unpacks the shape as (d, samples) and so divides both sums by the width, not by the number of samples."""
    d, samples = q.shape
    t = q * k
    sum_of_squares = np.sum(t**2)
    square_of_sums = np.sum(np.sum(t, axis=1) ** 2)
    diagonal = sum_of_squares / samples
    cross = (square_of_sums - sum_of_squares) / samples
    return diagonal, cross


def derivation_terms__wrong_thirteenth_key_missing_in_second_factor(
    q: np.ndarray, k: np.ndarray
) -> tuple[float, float]:
    """The table is made of q_i k_i q_j: in the second factor k_j was forgotten."""
    samples = q.shape[0]
    products = q * k
    table = products.T @ q / samples  # (d, d)
    diagonal = np.trace(table)
    return diagonal, table.sum() - diagonal


def derivation_terms__wrong_thirteenth_pairs_counted_once(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Counts each pair once, with i below j; ordered pairs count (i, j) and (j, i), which is twice as much."""
    diagonals, crosses = [], []
    for query, key in zip(q, k):
        t = query * key
        diagonals.append(t @ t)
        crosses.append(np.triu(np.outer(t, t), k=1).sum())
    return np.mean(diagonals), np.mean(crosses)


def derivation_terms__wrong_thirteenth_compares_the_values(
    q: np.ndarray, k: np.ndarray
) -> tuple[float, float]:
    """Leaves out pairs whose terms are equal in value, not in index: wrong if two terms of a sample are alike."""
    terms = q * k
    diagonal = 0.0
    cross = 0.0
    for t in terms:
        diagonal += sum(x**2 for x in t)
        cross += sum(x * y for x in t for y in t if x != y)
    return diagonal / len(terms), cross / len(terms)


def derivation_terms__wrong_thirteenth_multiplies_in_place(
    q: np.ndarray, k: np.ndarray
) -> tuple[float, float]:
    """Multiplies k into q in place: the numbers are right, but the caller's q is changed."""
    q *= k
    per_sample = np.einsum("rc,rc->r", q, q)
    diagonal = per_sample.mean()
    cross = (q.sum(axis=1) ** 2 - per_sample).mean()
    return diagonal, cross


def derivation_terms__right_thirteenth_sums_of_earlier_terms(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Multiplies each term with the sum of all earlier ones, and counts that twice."""
    t = np.multiply(q, k)
    earlier = np.zeros_like(t)
    earlier[:, 1:] = np.cumsum(t, axis=1)[:, :-1]
    cross = 2 * np.mean((t * earlier).sum(axis=1))
    diagonal = np.mean(np.linalg.norm(t, axis=1) ** 2)
    return float(diagonal), float(cross)


# ------- 2.4 dot_product_moments


def dot_product_moments__wrong_thirteenth_variances_add(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Adds the variances of q_i and k_i in each term; for a product of independent factors they multiply."""
    variance_of_one_term = var_q + var_k
    return 0.0, d * variance_of_one_term


def dot_product_moments__wrong_thirteenth_mean_is_d(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Takes q . k for q . q and gives a mean that grows with d (claim 1); the mean is 0."""
    sigma_q, sigma_k = math.sqrt(var_q), math.sqrt(var_k)
    mean = d * sigma_q * sigma_k
    variance = d * var_q * var_k
    return mean, variance


def dot_product_moments__wrong_thirteenth_cross_terms_counted(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Lets all d^2 products of the table count; the d (d - 1) cross terms vanish on average."""
    squares = d
    cross_terms = d * (d - 1)
    return 0, (squares + cross_terms) * var_q * var_k


def dot_product_moments__wrong_thirteenth_root_not_squared(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Computes the standard deviation from the box and forgets to square it; the variance is due."""
    mean = 0.0
    spread = np.sqrt(d) * np.sqrt(var_q) * np.sqrt(var_k)
    return mean, spread


def dot_product_moments__wrong_thirteenth_var_q_used_twice(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Writes var_q twice, and var_k never."""
    return 0.0, d * (var_q * var_q)


def dot_product_moments__wrong_thirteenth_deviations_not_variances(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Reads var_q and var_k as standard deviations and squares them; they are variances already."""
    variance = 0.0
    for _ in range(d):
        variance += var_q**2 * var_k**2
    return 0.0, variance


def dot_product_moments__wrong_thirteenth_zero_variance_becomes_one(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Takes a variance of 0 for one that was not given and puts 1 in its place; then all scores are 0."""
    sq = var_q or 1.0
    sk = var_k or 1.0
    return 0.0, d * sq * sk


def dot_product_moments__wrong_thirteenth_draws_samples(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Measures the moments on drawn numbers, so they are only nearly right; a formula without draws is asked for."""
    rng = np.random.default_rng(2)
    q = math.sqrt(var_q) * rng.standard_normal((4_000, d))
    k = math.sqrt(var_k) * rng.standard_normal((4_000, d))
    s = (q * k).sum(axis=1)
    return s.mean(), s.var()


def dot_product_moments__right_thirteenth_one_entry_per_feature(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Writes down both variances once per feature, and takes the dot product of the two lists."""
    second_moments_q = np.full(d, float(var_q))
    second_moments_k = np.full(d, float(var_k))
    first_moments = np.zeros(d)
    return first_moments @ first_moments, second_moments_q @ second_moments_k


# ------- 2.5 scaled_scores


def scaled_scores__wrong_thirteenth_divides_by_measured_spread(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides by the measured standard deviation, so that these scores have variance 1; the root of d_k is due."""
    S = Q @ K.T
    spread = S.std()
    if spread == 0:
        return S
    return S / spread


def scaled_scores__wrong_thirteenth_divides_by_width(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Takes the mean over the features, that is, divides by d_k itself (claim 2); its root is due."""
    return np.mean(Q[:, np.newaxis, :] * K[np.newaxis, :, :], axis=-1)


def scaled_scores__wrong_thirteenth_shift_belongs_to_scores(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Shifts each row by its largest score already here; that belongs to the softmax, the scores stay as they are."""
    root = Q.shape[1] ** 0.5
    scores = Q @ K.T / root
    row_max = scores.max(axis=1, keepdims=True)
    return scores - row_max


def scaled_scores__wrong_thirteenth_half_after_power(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Writes the root as ** 1/2 without brackets, which is half of d_k."""
    d_k = K.shape[1]
    divisor = d_k ** 1 / 2
    return np.matmul(Q, K.transpose()) / divisor


def scaled_scores__wrong_thirteenth_wrong_entry_of_shape(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Takes shape[0] of Q, the number of queries, where shape[1], the width, is meant."""
    width = Q.shape[0]
    out = np.zeros((Q.shape[0], K.shape[0]))
    for i, query in enumerate(Q):
        for j, key in enumerate(K):
            out[i, j] = (query * key).sum() / math.sqrt(width)
    return out


def scaled_scores__wrong_thirteenth_softmax_as_well(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Overlooks 'no softmax yet' and returns the weights; the scores themselves are due."""
    scores = np.einsum("ic,jc->ij", Q, K) / np.sqrt(Q.shape[-1])
    return _softmax(scores)


def scaled_scores__wrong_thirteenth_root_of_whole_numbers(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Takes the whole-number root: right for 4, 16, 64, but 2 in place of 2.83 for a width of 8."""
    root_of_width = math.isqrt(Q.shape[1])
    return (Q / root_of_width) @ K.T


def scaled_scores__wrong_thirteenth_scales_queries_in_place(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides the caller's queries in place: the scores are right, but the input is changed."""
    Q /= np.sqrt(Q.shape[1])
    return Q @ K.T


def scaled_scores__right_thirteenth_fourth_roots_on_both(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Shares the root out: queries and keys are each divided by the fourth root of d_k."""
    fourth = Q.shape[1] ** 0.25
    small_queries, small_keys = Q / fourth, K / fourth
    return np.inner(small_queries, small_keys)


# ------- 2.6 score_statistics


def score_statistics__wrong_thirteenth_all_pairs(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Computes the score of every query with every key; only the n_samples pairs of equal rows count."""
    Q = rng.standard_normal((n_samples, d))
    K = rng.standard_normal((n_samples, d))
    S = Q @ K.T
    if scaled:
        S = S / d**0.5
    return S.mean(), S.var()


def score_statistics__wrong_thirteenth_root_on_variance_too(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Divides mean and variance both by the root of d; a divisor comes out of the variance squared."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1)
    divisor = math.sqrt(d) if scaled else 1.0
    mean, variance = s.mean() / divisor, s.var() / divisor
    return mean, variance


def score_statistics__wrong_thirteenth_mean_assumed_zero(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Uses the derived mean 0 for the variance and averages the squares; the measured mean is to be subtracted."""
    shape = (n_samples, d)
    first, second = rng.standard_normal(shape), rng.standard_normal(shape)
    scores = np.einsum("ri,ri->r", first, second)
    if scaled:
        scores /= np.sqrt(d)
    average = scores.sum() / n_samples
    variance = (scores @ scores) / n_samples
    return average, variance


def score_statistics__wrong_thirteenth_summed_over_samples(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Sums along axis 0, over the samples, and gets one number per feature; features should be summed."""
    queries = rng.standard_normal(size=(n_samples, d))
    keys = rng.standard_normal(size=(n_samples, d))
    products = queries * keys
    scores = np.sum(products, axis=0)
    if scaled:
        scores = scores / np.sqrt(d)
    return np.mean(scores), np.var(scores)


def score_statistics__wrong_thirteenth_root_of_samples(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Divides by the root of n_samples in place of the root of d: the wrong variable."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.array([q_row @ k_row for q_row, k_row in zip(q, k)])
    factor = n_samples**-0.5 if scaled else 1
    s = s * factor
    return float(s.mean()), float(s.var())


def score_statistics__wrong_thirteenth_unbiased_variance(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Divides by n_samples - 1 as in statistics lessons; the biased variance, by n_samples, is asked for."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    scores = (q * k) @ np.ones(d)
    if scaled:
        scores = scores / d**0.5
    mean = scores.mean()
    if n_samples == 1:
        return mean, 0.0
    return mean, ((scores - mean) ** 2).sum() / (n_samples - 1)


def score_statistics__wrong_thirteenth_width_one_squeezed(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Squeezes axes of length 1 away: at d = 1 the sum over the last axis then runs over the samples."""
    q = rng.standard_normal((n_samples, d)).squeeze()
    k = rng.standard_normal((n_samples, d)).squeeze()
    s = (q * k).sum(axis=-1)
    if scaled:
        s = s / math.sqrt(d)
    return np.mean(s), np.var(s)


def score_statistics__wrong_thirteenth_one_call_per_row(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws row by row, 2 n_samples calls with the same numbers; two calls are asked for, one for q and one for k."""

    def rows():
        return np.array([rng.standard_normal(d) for _ in range(n_samples)])

    q = rows()
    k = rows()
    scores = np.sum(q * k, axis=1)
    if scaled:
        scores = scores / d**0.5
    return scores.mean(), scores.var(ddof=0)


def score_statistics__right_thirteenth_running_mean_and_spread(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Goes through the pairs once, and keeps a running mean and a running sum of squared distances."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    mean = distances = 0.0
    for seen, (query, key) in enumerate(zip(q, k), start=1):
        score = float(query @ key)
        away = score - mean
        mean += away / seen
        distances += away * (score - mean)
    variance = distances / n_samples
    if scaled:
        return mean / math.sqrt(d), variance / d
    return mean, variance


# ------- 2.7 attention


def attention__wrong_thirteenth_softmax_over_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lets each key share itself out among the queries (axis 0); each query should, among the keys."""
    scores = _scaled_scores(Q, K)  # (n, m)
    weights = _softmax(scores, axis=0)
    output = weights @ V
    return output, weights


def attention__wrong_thirteenth_root_after_the_softmax(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides the weights by the root and makes the sum 1 again, which undoes it; the root stands in the softmax."""
    A = _softmax(Q @ K.T)
    A = A / np.sqrt(K.shape[1])
    A = A / A.sum(axis=1, keepdims=True)
    return A @ V, A


def attention__wrong_thirteenth_root_of_number_of_keys(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides by the root of m, because the softmax runs over m scores; the root of the width d_k is due."""
    m = K.shape[0]
    logits = np.einsum("nd,md->nm", Q, K) / math.sqrt(m)
    logits = logits - logits.max(axis=-1, keepdims=True)
    probs = np.exp(logits)
    probs = probs / probs.sum(axis=-1, keepdims=True)
    return np.einsum("nm,mv->nv", probs, V), probs


def attention__wrong_thirteenth_root_of_value_width(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes the width from V in place of K: the root of d_v, right only where d_v = d_k."""
    d = V.shape[-1]
    weights = _softmax((Q @ K.T) / d**0.5, axis=-1)
    return weights @ V, weights


def attention__wrong_thirteenth_total_not_reset(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sets the sum of the powers to 0 once, before the loop over the queries; it should start anew for each query."""
    n, m = len(Q), len(K)
    weights = np.zeros((n, m))
    output = np.zeros((n, V.shape[1]))
    total = 0.0
    for i in range(n):
        s = [float(Q[i] @ K[j]) / len(Q[i]) ** 0.5 for j in range(m)]
        top = max(s)
        for j in range(m):
            weights[i, j] = math.exp(s[j] - top)
            total += weights[i, j]
        weights[i] /= total
        for j in range(m):
            output[i] += weights[i, j] * V[j]
    return output, weights


def attention__wrong_thirteenth_weights_first(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the weights first, in the order in which they are computed; first the output, then the weights."""
    weights = _softmax(_scaled_scores(Q, K))
    return weights, np.dot(weights, V)


def attention__wrong_thirteenth_shift_shared_by_all_rows(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Shifts all rows by the largest score of the table: NaN where the scores of a query lie a thousand lower."""
    d_k = Q.shape[1]
    table = Q.dot(K.T) / np.sqrt(d_k)
    table = np.exp(table - table.max())
    row_sums = table.sum(axis=1).reshape(-1, 1)
    weights = table / row_sums
    return weights.dot(V), weights


def attention__wrong_thirteenth_results_overwritten_later(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reuses its arrays for equal sizes: a second call overwrites what the first returned; new results are due."""
    sizes = len(Q), len(K), V.shape[1]
    if sizes not in _tables:
        _tables[sizes] = np.empty(sizes[:2]), np.empty((sizes[0], sizes[2]))
    weights, output = _tables[sizes]
    np.matmul(Q, K.T, out=weights)
    weights /= math.sqrt(Q.shape[1])
    weights -= weights.max(axis=1, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=1, keepdims=True)
    np.matmul(weights, V, out=output)
    return output, weights


def attention__right_thirteenth_key_by_key(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes in one key after the other, with a running maximum, a running sum and a running mixture."""
    n, root = len(Q), Q.shape[1] ** 0.5
    top = np.full((n, 1), -np.inf)
    total = np.zeros((n, 1))
    mixture = np.zeros((n, V.shape[1]))
    columns = []
    for key, value in zip(K, V):
        score = (Q @ key / root)[:, None]
        columns.append(score)
        new_top = np.maximum(top, score)
        fade, power = np.exp(top - new_top), np.exp(score - new_top)
        total = total * fade + power
        mixture = mixture * fade + power * value
        top = new_top
    weights = np.exp(np.hstack(columns) - top) / total
    return mixture / total, weights


# ------- 2.8 softmax_jacobian


def softmax_jacobian__wrong_thirteenth_softmax_once_more(p: np.ndarray) -> np.ndarray:
    """Takes p for the scores and puts them through a softmax first; p holds the weights already."""
    a = _softmax(p)
    return np.diag(a) - np.outer(a, a)


def softmax_jacobian__wrong_thirteenth_only_own_score(p: np.ndarray) -> np.ndarray:
    """Believes that a score moves its own weight alone and leaves zeros beside the diagonal; -p_i p_j stands there."""
    slope = p * (1 - p)
    return np.diag(slope)


def softmax_jacobian__wrong_thirteenth_others_lose_evenly(p: np.ndarray) -> np.ndarray:
    """Lets all other weights lose the same when one gains; each loses in proportion to its own size."""
    m = len(p)
    J = np.zeros((m, m))
    for j in range(m):
        gain = p[j] * (1 - p[j])
        for i in range(m):
            J[i, j] = gain if i == j else -gain / (m - 1)
    return J


def softmax_jacobian__wrong_thirteenth_sign_turned(p: np.ndarray) -> np.ndarray:
    """Subtracts the wrong way round: products minus diagonal, so all signs are turned."""
    column = p.reshape(-1, 1)
    products = column @ column.T
    return products - np.diagflat(p)


def softmax_jacobian__wrong_thirteenth_square_subtracted_twice(p: np.ndarray) -> np.ndarray:
    """Puts p (1 - p) on the diagonal and then subtracts all products, so p_i^2 is subtracted twice there."""
    table = np.diag(p * (1.0 - p))
    table = table - p[:, None] * p[None, :]
    return table


def softmax_jacobian__wrong_thirteenth_derivative_of_log_weight(p: np.ndarray) -> np.ndarray:
    """Gives the derivative of the logarithm of weight i, its relative change; the weight itself is asked for."""
    m = p.size
    return np.eye(m) - np.tile(p, (m, 1))


def softmax_jacobian__wrong_thirteenth_divides_by_weight(p: np.ndarray) -> np.ndarray:
    """Goes through the ratios p_j / p_i: right for positive weights, NaN where a weight is exactly 0."""
    ratios = p[np.newaxis, :] / p[:, np.newaxis]  # e^(s_j - s_i)
    jacobian = -(p[:, np.newaxis] ** 2) * ratios
    own = p - p**2
    jacobian[np.arange(len(p)), np.arange(len(p))] = own
    return jacobian


def softmax_jacobian__wrong_thirteenth_weights_changed(p: np.ndarray) -> np.ndarray:
    """Makes p (1 - p) in place for the diagonal: the table is right, but the caller's weights are changed."""
    result = -np.outer(p, p)
    p -= p**2
    np.fill_diagonal(result, p)
    return result


def softmax_jacobian__right_thirteenth_pair_by_pair(p: np.ndarray) -> np.ndarray:
    """Adds up what each pair of weights exchanges: p_i p_j goes to both diagonal entries, and away beside it."""
    m = p.shape[0]
    J = np.zeros((m, m), dtype=p.dtype)
    for i in range(m):
        for j in range(i):
            flow = p[i] * p[j]
            J[i, i] += flow
            J[j, j] += flow
            J[i, j] -= flow
            J[j, i] -= flow
    return J


# ------- 2.9 attention_backward


def attention_backward__wrong_thirteenth_softmax_passed_over(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hands the slopes of the weights on as slopes of the scores; the derivative of the softmax is missing."""
    _, A = _attention(Q, K, V)
    root = math.sqrt(Q.shape[1])
    dV = A.T @ d_output
    dA = d_output @ V.T
    dS = dA / root
    return dS @ K, dS.T @ Q, dV


def attention_backward__wrong_thirteenth_softmax_as_sigmoid(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Multiplies by a (1 - a) alone, as if each score moved only its own weight; the cross terms are missing."""
    d_k = K.shape[1]
    weights = _softmax(Q @ K.T / d_k**0.5)
    d_weights = np.einsum("iv,jv->ij", d_output, V)
    d_scores = d_weights * weights * (1 - weights)
    dQ = np.einsum("ij,jc->ic", d_scores, K) / d_k**0.5
    dK = np.einsum("ij,ic->jc", d_scores, Q) / d_k**0.5
    dV = np.einsum("ij,iv->jv", weights, d_output)
    return dQ, dK, dV


def attention_backward__wrong_thirteenth_averaged_over_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Averages over the queries what keys and values collect from them; the shares should add up."""
    n, d_k = Q.shape
    output, weights = _attention(Q, K, V)
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for i in range(n):
        a = weights[i]
        J = np.diag(a) - np.outer(a, a)
        d_score = J @ (V @ d_output[i]) / d_k**0.5
        dQ[i] = d_score @ K
        dK += np.outer(d_score, Q[i]) / n
        dV += np.outer(a, d_output[i]) / n
    return dQ, dK, dV


def attention_backward__wrong_thirteenth_root_missing_in_keys(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divides dQ by the root of d_k and forgets it in dK; both need it."""
    P = _softmax(_scaled_scores(Q, K))
    dV = P.T @ d_output
    dP = d_output @ V.T
    dS = P * (dP - (P * dP).sum(axis=1, keepdims=True))
    dQ = dS @ K / np.sqrt(Q.shape[1])
    dK = dS.T @ Q
    return dQ, dK, dV


def attention_backward__wrong_thirteenth_softmax_sum_over_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums along axis 0, over the queries, in the derivative of the softmax; the sum runs over the keys."""
    scale = 1 / Q.shape[-1] ** 0.5
    weights = _softmax(scale * Q @ K.T)
    slope_weights = d_output @ V.T
    weighted = weights * slope_weights
    slope_scores = weighted - weights * np.sum(weighted, axis=0, keepdims=True)
    slope_products = slope_scores * scale
    return slope_products @ K, slope_products.T @ Q, weights.T @ d_output


def attention_backward__wrong_thirteenth_downhill_steps(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns how to change the inputs so that the loss falls, minus the slopes; the slopes themselves are due."""

    def slopes():
        output, weights = _attention(Q, K, V)
        per_query = (output * d_output).sum(axis=1)
        d_scores = weights * (d_output @ V.T - per_query[:, None])
        d_scores = d_scores / Q.shape[1] ** 0.5
        yield d_scores @ K
        yield d_scores.T @ Q
        yield weights.T @ d_output

    dQ, dK, dV = (-slope for slope in slopes())
    return dQ, dK, dV


def attention_backward__wrong_thirteenth_scores_clipped(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cuts scores off at +-300 before the exponentials: two large unequal scores then share the weight evenly."""
    c = 1.0 / np.sqrt(K.shape[1])
    scores = np.clip(Q @ K.T * c, -300.0, 300.0)
    E = np.exp(scores)
    A = E / E.sum(axis=1, keepdims=True)
    G = d_output @ V.T
    G = G - G.mean(axis=1, keepdims=True)  # a shift of the values changes nothing
    T = A * G
    dS = (T - A * T.sum(axis=1, keepdims=True)) * c
    return np.dot(dS, K), np.dot(dS.T, Q), np.dot(A.T, d_output)


def attention_backward__wrong_thirteenth_differences(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Measures the slopes by nudging each entry, nearly right; a formula is asked for, differences lose digits."""
    step = 1e-5
    inputs = [Q.astype(float), K.astype(float), V.astype(float)]
    found = []
    for X in inputs:
        slope = np.zeros(X.shape)
        for place in np.ndindex(*X.shape):
            kept = X[place]
            X[place] = kept + step
            up = (_attention(*inputs)[0] * d_output).sum()
            X[place] = kept - step
            down = (_attention(*inputs)[0] * d_output).sum()
            X[place] = kept
            slope[place] = (up - down) / (2 * step)
        found.append(slope)
    return tuple(found)


def attention_backward__right_thirteenth_values_beside_their_mixture(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A score pulls the output from where it is towards its value: the slope is a_ij (v_j - output_i) . d_output_i."""
    output, weights = _attention(Q, K, V)
    pull = V[None, :, :] - output[:, None, :]  # (n, m, d_v)
    d_scores = weights * np.einsum("ijv,iv->ij", pull, d_output)
    d_products = d_scores / K.shape[1] ** 0.5
    dQ = np.tensordot(d_products, K, axes=1)
    dK = np.tensordot(d_products, Q, axes=(0, 0))
    dV = np.tensordot(weights, d_output, axes=(0, 0))
    return dQ, dK, dV
