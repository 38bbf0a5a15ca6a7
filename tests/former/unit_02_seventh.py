"""Answers to the exercises of unit 2 as students would hand them in: eight wrong and two right for each."""

import itertools
import math

import numpy as np


# What the notebook gives, or an earlier exercise asks for, written rightly.


def _attention_scores(Q, K):
    return Q @ K.T


def _softmax(z, axis=-1):
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _scaled_scores(Q, K):
    return Q @ K.T / Q.shape[1] ** 0.5


def _attention(Q, K, V):
    weights = _softmax(_scaled_scores(Q, K))
    return weights @ V, weights


def _softmax_jacobian(p):
    return np.diag(p) - np.outer(p, p)


# ---------------------------------------------------------------- 2.1 attention_scores


def attention_scores__wrong_seventh_cosine(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides every query and every key by its length first, so the entries are cosines and not dot products."""
    length_q = np.sqrt((Q**2).sum(axis=1, keepdims=True))
    length_k = np.sqrt((K**2).sum(axis=1, keepdims=True))
    unit_q = Q / np.where(length_q > 0, length_q, 1)
    unit_k = K / np.where(length_k > 0, length_k, 1)
    return unit_q @ unit_k.T


def attention_scores__wrong_seventh_reshaped_keys(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Makes (d_k, m) of the keys by `reshape`, which keeps the reading order and mixes the keys, in place of transposing."""
    m, d_k = K.shape
    keys_as_columns = np.reshape(K, (d_k, m))
    return np.matmul(Q, keys_as_columns)


def attention_scores__wrong_seventh_table_of_integers(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Fills a table made with dtype=int, so every score is cut to a whole number, and turns it into floats too late."""
    n, m = len(Q), len(K)
    table = np.zeros((n, m), dtype=int)
    for row in range(n):
        for column in range(m):
            table[row, column] = np.dot(Q[row], K[column])
    return table.astype(np.float64)


def attention_scores__wrong_seventh_last_feature_left_out(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Runs the sum over features to range(d_k - 1), so the last feature of query and key never counts."""
    d_k = Q.shape[1]
    scores = np.zeros((Q.shape[0], K.shape[0]))
    for c in range(d_k - 1):
        scores += Q[:, c][:, None] * K[:, c][None, :]
    return scores


def attention_scores__wrong_seventh_minus_squared_distance(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Takes minus the squared distance of query and key as the measure of fit, not their dot product."""
    gap = Q[:, np.newaxis, :] - K[np.newaxis, :, :]  # (n, m, d_k)
    return -np.einsum("nmc,nmc->nm", gap, gap)


def attention_scores__wrong_seventh_mirrored_half(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Computes [i, j] for j >= i alone and copies it to [j, i], as if q_i · k_j were q_j · k_i."""
    n, m = Q.shape[0], K.shape[0]
    S = np.zeros((n, m))
    for i in range(n):
        for j in range(i, m):
            S[i, j] = (Q[i] * K[j]).sum()
            if j < n and i < m:
                S[j, i] = S[i, j]
    return S


def attention_scores__wrong_seventh_mean_over_features(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Averages the products over the features with `.mean`, so every score is the dot product divided by d_k."""
    return (Q[:, None] * K[None]).mean(axis=2)


def attention_scores__wrong_seventh_negative_to_zero(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Sets every negative score to 0 because a key that does not fit “gets no score”."""

    def fit(query, key):
        product = sum(a * b for a, b in zip(query, key))
        return float(product) if product > 0 else 0.0

    return np.array([[fit(query, key) for key in K] for query in Q])


def attention_scores__right_seventh_sum_of_outer_products(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Adds up one outer product (n, m) per feature."""
    total = np.zeros((len(Q), len(K)))
    for asked, offered in zip(Q.T, K.T):
        total = total + np.outer(asked, offered)
    return total


def attention_scores__right_seventh_corner_of_gram_table(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Stacks queries and keys, multiplies the stack with its transpose, and copies the corner where queries meet keys."""
    n = Q.shape[0]
    everyone = np.concatenate([Q, K], axis=0)
    gram = everyone @ everyone.T  # (n + m, n + m)
    return gram[:n, n:].copy()


# ---------------------------------------------------------------- 2.2 softmax


def softmax__wrong_seventh_one_shift_for_all(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Shifts by the largest entry of the whole array, so a row that lies far below it has only zeros, and 0/0."""
    powers = np.exp(z - np.max(z))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def softmax__wrong_seventh_nan_made_zero(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Uses the plain formula without a shift and turns the NaN of inf/inf and 0/0 into 0 with nan_to_num."""
    with np.errstate(all="ignore"):
        e = np.exp(z)
        w = e / e.sum(axis=axis, keepdims=True)
    return np.nan_to_num(w)


def softmax__wrong_seventh_axis_not_moved_back(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Moves `axis` to the end to work on the last axis, and never moves it back."""
    rows = np.moveaxis(z, axis, -1)
    highest = rows.max(axis=-1)[..., None]
    rows = np.exp(rows - highest)
    return rows / rows.sum(axis=-1)[..., None]


def softmax__wrong_seventh_matrices_alone(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Knows “axis 0” and “the last axis” alone, so a middle axis and a first axis named by a negative number count as the last."""

    def along_last(x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    if axis == 0:
        return along_last(z.swapaxes(0, -1)).swapaxes(0, -1)
    return along_last(z)


def softmax__wrong_seventh_divided_by_largest(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Divides each row by its largest absolute entry in place of shifting it: nothing overflows, but the weights are others."""
    size = np.abs(z).max(axis=axis, keepdims=True)
    size = np.where(size == 0, 1.0, size)
    small = np.exp(z / size)
    return small / small.sum(axis=axis, keepdims=True)


def softmax__wrong_seventh_shift_only_if_positive(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Shifts by max(0, largest) because only overflow is feared, so a row of entries near -10,000 becomes 0/0."""
    largest = z.max(axis=axis, keepdims=True)
    shift = np.maximum(largest, 0.0)
    powers = np.exp(z - shift)
    total = powers.sum(axis=axis, keepdims=True)
    return powers / total


def softmax__wrong_seventh_works_in_callers_array(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Shifts with `z -= ...`, which writes the shifted numbers into the caller's array."""
    z -= np.amax(z, axis=axis, keepdims=True)
    result = np.exp(z)
    result /= result.sum(axis=axis, keepdims=True)
    return result


def softmax__wrong_seventh_small_number_in_denominator(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Adds 1e-6 to the sum “against division by zero”, so the weights do not sum to 1."""
    epsilon = 1e-6
    stable = z - z.max(axis=axis, keepdims=True)
    numerator = np.exp(stable)
    denominator = numerator.sum(axis=axis, keepdims=True) + epsilon
    return numerator / denominator


def softmax__right_seventh_running_maximum(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Goes along the axis once, keeping the largest entry so far and the sum in its terms, rescaled whenever it rises."""
    slices = np.moveaxis(z, axis, 0)
    highest = np.full(slices.shape[1:], -np.inf)
    total = np.zeros(slices.shape[1:])
    for part in slices:
        higher = np.maximum(highest, part)
        total = total * np.exp(highest - higher) + np.exp(part - higher)
        highest = higher
    return np.moveaxis(np.exp(slices - highest) / total, 0, axis)


def softmax__right_seventh_row_by_row_in_python(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Hands each one-dimensional slice along the axis to a Python function with math.exp and math.fsum."""

    def of_vector(row):
        row = [float(x) for x in row]
        top = max(row)
        powers = [math.exp(x - top) for x in row]
        total = math.fsum(powers)
        return np.array([x / total for x in powers])

    return np.apply_along_axis(of_vector, axis, z)


# ---------------------------------------------------------------- 2.3 derivation_terms


def derivation_terms__wrong_seventh_queries_and_keys_averaged_apart(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Averages q_i q_j and k_i k_j over the samples separately and multiplies the two tables, as if q and k were independent."""
    count, width = q.shape
    of_queries = q.T @ q / count
    of_keys = k.T @ k / count
    table = of_queries * of_keys  # (d, d)
    diagonal = sum(table[i, i] for i in range(width))
    return float(diagonal), float(table.sum() - diagonal)


def derivation_terms__wrong_seventh_table_of_samples(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Builds the table as t @ t.T, (samples, samples): its trace is right, but the rest are pairs of samples, not of features."""
    t = q * k
    N = len(t)
    table = t @ t.T
    diagonal = np.trace(table) / N
    cross = (table.sum() - np.trace(table)) / N
    return diagonal, cross


def derivation_terms__wrong_seventh_sums_restart_per_sample(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Sets both sums to 0 inside the loop over the samples, so only the last sample counts, divided by the number of samples."""
    samples, d = q.shape
    for r in range(samples):
        diagonal = 0.0
        cross = 0.0
        for i in range(d):
            for j in range(d):
                product = q[r, i] * k[r, i] * q[r, j] * k[r, j]
                if i == j:
                    diagonal += product
                else:
                    cross += product
    return diagonal / samples, cross / samples


def derivation_terms__wrong_seventh_diagonal_is_a_view(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Takes np.einsum("ii->i", table), a view, and then fills the diagonal of the table with 0, so the diagonal sums to 0."""
    terms = np.multiply(q, k)
    table = np.dot(terms.T, terms) / terms.shape[0]
    squares = np.einsum("ii->i", table)
    np.fill_diagonal(table, 0.0)
    return squares.sum(), table.sum()


def derivation_terms__wrong_seventh_covariances(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Takes the table from np.cov(bias=True), which subtracts the mean of each term, where the plain average is asked for."""
    terms = q * k
    table = np.atleast_2d(np.cov(terms, rowvar=False, bias=True))
    on_diagonal = np.eye(len(table), dtype=bool)
    return table[on_diagonal].sum(), table[~on_diagonal].sum()


def derivation_terms__wrong_seventh_neighbours_alone(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Pairs each feature only with the next one (and back, hence the 2), so pairs that stand further apart are left out."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    beside = (t[:, :-1] * t[:, 1:]).sum(axis=1)
    return diagonal, (2 * beside).mean()


def derivation_terms__wrong_seventh_terms_written_into_q(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Makes the terms with `terms = q; terms *= k`, which writes them into the caller's q."""
    terms = q
    terms *= k
    diagonal = np.sum(terms**2, axis=1).mean()
    whole = np.mean(np.sum(terms, axis=1) ** 2)
    return float(diagonal), float(whole - diagonal)


def derivation_terms__wrong_seventh_compares_values_not_places(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Tells i ≠ j by comparing the terms (`a != b`), so two different features with equal terms are left out of the cross part."""
    squares, products = [], []
    for row in (q * k).tolist():
        squares.append(sum(a * a for a in row))
        products.append(sum(a * b for a in row for b in row if a != b))
    return sum(squares) / len(squares), sum(products) / len(products)


def derivation_terms__right_seventh_einsum_and_mask(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Makes the (d, d) table of averaged products with one einsum and adds up where i = j and where i ≠ j."""
    samples, d = q.shape
    t = q * k
    table = np.einsum("ri,rj->ij", t, t) / samples
    same = np.eye(d, dtype=bool)
    return float(table[same].sum()), float(np.where(same, 0.0, table).sum())


def derivation_terms__right_seventh_permutations(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Goes through all ordered pairs of places of each sample with itertools.permutations and adds with math.fsum."""
    on, off = [], []
    for query, key in zip(q.tolist(), k.tolist()):
        terms = [a * b for a, b in zip(query, key)]
        on.extend(term**2 for term in terms)
        off.extend(left * right for left, right in itertools.permutations(terms, 2))
    return math.fsum(on) / len(q), math.fsum(off) / len(q)


# ---------------------------------------------------------------- 2.4 dot_product_moments


def dot_product_moments__wrong_seventh_variances_squared(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Takes var_q and var_k for standard deviations and squares them."""
    sigma_q, sigma_k = var_q, var_k
    return 0.0, d * sigma_q**2 * sigma_k**2


def dot_product_moments__wrong_seventh_variances_added(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Adds the variances of the two factors as for a sum (halved, to have 1 for unit variances), and does not multiply them."""
    variance_of_term = (var_q + var_k) / 2
    return 0.0, d * variance_of_term


def dot_product_moments__wrong_seventh_mean_of_q_with_itself(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Gives the mean of a vector's product with itself, d times a variance, where q and k are independent and the mean is 0."""
    mean = d * math.sqrt(var_q * var_k)
    variance = d * var_q * var_k
    return mean, variance


def dot_product_moments__wrong_seventh_zero_taken_for_missing(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Fills in defaults with `or 1.0`, so a variance of 0 counts as 1."""
    var_q = var_q or 1.0
    var_k = var_k or 1.0
    return 0.0, float(d * var_q * var_k)


def dot_product_moments__wrong_seventh_measured_on_draws(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Draws 500 pairs from a generator of its own and measures, where nothing may be drawn."""
    rng = np.random.default_rng(0)
    q = rng.normal(0, np.sqrt(var_q), (500, d))
    k = rng.normal(0, np.sqrt(var_k), (500, d))
    s = np.sum(q * k, axis=1)
    return s.mean(), s.var()


def dot_product_moments__wrong_seventh_one_variance_for_both(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Uses var_q for the keys, too, and never reads var_k."""
    square_of_query_entry = var_q
    square_of_key_entry = var_q
    return 0.0, sum(square_of_query_entry * square_of_key_entry for _ in range(d))


def dot_product_moments__wrong_seventh_features_from_one(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Adds up the terms for i in range(1, d), which are only d - 1."""
    variance = 0.0
    for i in range(1, d):
        variance += var_q * var_k
    return 0.0, variance


def dot_product_moments__wrong_seventh_all_of_the_table(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Gives all d·d entries of the table of products the value var_q var_k, cross terms too, so the variance grows like d²."""
    table = np.full((d, d), var_q * var_k)
    return 0.0, table.sum()


def dot_product_moments__right_seventh_added_term_by_term(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Adds up mean and variance of d independent terms, one by one."""
    mean_q = mean_k = 0.0
    means, variances = [], []
    for _ in range(d):
        mean_of_term = mean_q * mean_k
        means.append(mean_of_term)
        variances.append(var_q * var_k - mean_of_term**2)
    return math.fsum(means), math.fsum(variances)


def dot_product_moments__right_seventh_product_of_diagonals(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Var(s) is the trace of the product of both covariance matrices, taken from their diagonals as a dot product."""
    covariance_q = np.full(d, float(var_q))
    covariance_k = np.full(d, float(var_k))
    return 0.0, covariance_q @ covariance_k


# ---------------------------------------------------------------- 2.5 scaled_scores


def scaled_scores__wrong_seventh_whole_root(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Takes math.isqrt(d_k), the root rounded down, which is right only for square widths."""
    root = math.isqrt(Q.shape[1])
    return _attention_scores(Q, K) / root


def scaled_scores__wrong_seventh_power_minus_one_halved(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Writes `d_k ** -1 / 2`, which Python reads as (d_k ** -1) / 2, so the factor is 1 / (2 d_k)."""
    d_k = K.shape[-1]
    factor = d_k ** -1 / 2
    return factor * (Q @ K.T)


def scaled_scores__wrong_seventh_keys_divided_in_place(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides the keys with `K /= ...`, which changes the caller's keys."""
    width = K.shape[1]
    K /= np.sqrt(width)
    return np.einsum("ic,jc->ij", Q, K)


def scaled_scores__wrong_seventh_measured_deviation(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides by the standard deviation of the scores at hand, to make their variance 1, and not by the root of d_k."""
    scores = Q @ K.transpose()
    spread = scores.std()
    if spread == 0:
        return scores
    return scores / spread


def scaled_scores__wrong_seventh_root_on_both_sides(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides queries and keys by the root each, so the scores are divided by d_k."""

    def shrink(X):
        return X / math.sqrt(X.shape[1])

    return shrink(Q) @ shrink(K).T


def scaled_scores__wrong_seventh_floor_division(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides with `//`, so every scaled score is rounded down to a whole number."""
    scores = _attention_scores(Q, K)
    return scores // Q.shape[1] ** 0.5


def scaled_scores__wrong_seventh_root_of_all_entries(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Takes `Q.size`, the number of all entries of Q (n times d_k), for the width."""
    out = np.empty((len(Q), len(K)))
    root = np.sqrt(Q.size)
    for i, query in enumerate(Q):
        out[i] = K @ query / root
    return out


def scaled_scores__wrong_seventh_divided_by_inverse_root(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Computes the factor d_k ** -0.5 and divides by it, which multiplies the scores by the root."""
    scale = Q.shape[1] ** -0.5
    return np.tensordot(Q, K, axes=([1], [1])) / scale


def scaled_scores__right_seventh_fourth_root_each(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides queries and keys by the fourth root of d_k each, before they meet."""
    fourth = math.sqrt(math.sqrt(Q.shape[1]))
    return np.inner(Q / fourth, K / fourth)


def scaled_scores__right_seventh_mean_times_root(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Averages the products over the features and multiplies by the root, since d_k / √d_k is √d_k."""
    products = Q[:, None, :] * K[None, :, :]
    return products.mean(axis=-1) * products.shape[-1] ** 0.5


# ---------------------------------------------------------------- 2.6 score_statistics


def score_statistics__wrong_seventh_drawn_pair_by_pair(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws one query and one key in turn for each sample, not first all of q and then all of k."""
    scores = []
    for _ in range(n_samples):
        query = rng.standard_normal(d)
        key = rng.standard_normal(d)
        scores.append(query @ key)
    scores = np.array(scores) / (np.sqrt(d) if scaled else 1)
    return scores.mean(), scores.var()


def score_statistics__wrong_seventh_mean_not_scaled(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Divides only the finished variance by d when scaled, and returns the mean of the plain scores."""
    q, k = (rng.standard_normal((n_samples, d)) for _ in range(2))
    s = np.einsum("rc,rc->r", q, k)
    mean, variance = s.mean(), s.var()
    if scaled:
        variance = variance / d
    return mean, variance


def score_statistics__wrong_seventh_root_on_finished_variance(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Divides mean and variance of the plain scores by the root of d, where a constant leaves a variance squared."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    scores = (q * k).sum(axis=1)
    results = np.array([scores.mean(), scores.var()])
    if scaled:
        results = results / d**0.5
    return tuple(results.tolist())


def score_statistics__wrong_seventh_variances_of_terms_added(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Adds up the measured variances of the d terms, so the measured cross terms are missing from the variance of the score."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    terms = q * k
    if scaled:
        terms = terms / np.sqrt(d)
    return float(terms.mean(axis=0).sum()), float(terms.var(axis=0).sum())


def score_statistics__wrong_seventh_values_drawn_too(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws values besides queries and keys, out of habit: a third array that nobody needs, where nothing else may be drawn."""
    size = (n_samples, d)
    Q, K, V = rng.standard_normal(size), rng.standard_normal(size), rng.standard_normal(size)
    divisor = math.sqrt(d) if scaled else 1.0
    dots = np.array([query @ key for query, key in zip(Q, K)]) / divisor
    return np.mean(dots), np.var(dots)


def score_statistics__wrong_seventh_float32_draws(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws with dtype=np.float32, to save memory, which makes other numbers of the same generator."""
    q = rng.standard_normal((n_samples, d), dtype=np.float32)
    k = rng.standard_normal((n_samples, d), dtype=np.float32)
    s = (q * k).sum(axis=1).astype(np.float64)
    s = s / d**0.5 if scaled else s
    return float(s.mean()), float(s.var())


def score_statistics__wrong_seventh_root_of_sample_count(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Divides by the root of `len(q)`, the number of samples, not of the width."""
    q = rng.standard_normal(size=(n_samples, d))
    k = rng.standard_normal(size=(n_samples, d))
    s = np.sum(q * k, axis=-1)
    if scaled:
        s = s / np.sqrt(len(q))
    return s.mean(), s.var(ddof=0)


def score_statistics__wrong_seventh_distance_from_derived_mean(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Takes the mean squared distance from 0, the mean that was derived, and not from the measured mean."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    expected_mean = 0.0
    scores = np.sum(q * k, axis=1)
    if scaled:
        scores = scores / d**0.5
    variance = ((scores - expected_mean) ** 2).sum() / n_samples
    return scores.sum() / n_samples, variance


def score_statistics__right_seventh_one_pass(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws both arrays, then updates mean and sum of squared distances sample by sample (Welford)."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    factor = 1 / math.sqrt(d) if scaled else 1.0
    mean = squares = 0.0
    for count, (query, key) in enumerate(zip(q, k), start=1):
        score = factor * float(query @ key)
        before = score - mean
        mean += before / count
        squares += before * (score - mean)
    return mean, squares / n_samples


def score_statistics__right_seventh_small_products_and_cov(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Multiplies a stack of (1, d) by (d, 1) matrices, scales the queries before, and takes np.cov with bias=True."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    if scaled:
        q = q / math.sqrt(d)
    s = (q[:, None, :] @ k[:, :, None]).reshape(n_samples)
    return float(np.average(s)), float(np.cov(s, bias=True))


# ---------------------------------------------------------------- 2.7 attention


def attention__wrong_seventh_softmax_of_each_factor(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes a softmax of Q over its features and of K over the keys and multiplies these (“efficient attention”), not one of the scores."""
    fourth = Q.shape[1] ** 0.25
    soft_queries = _softmax(Q / fourth, axis=1)
    soft_keys = _softmax(K / fourth, axis=0)
    weights = soft_queries @ soft_keys.T
    return weights @ V, weights


def attention__wrong_seventh_one_more_in_the_sum(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Adds the exponential of a score 0 to each row's sum, so that a query may look nowhere: the rows sum to less than 1."""
    scores = Q @ K.T / np.sqrt(Q.shape[1])
    top = np.maximum(scores.max(axis=1, keepdims=True), 0)
    powers = np.exp(scores - top)
    weights = powers / (powers.sum(axis=1, keepdims=True) + np.exp(-top))
    return weights @ V, weights


def attention__wrong_seventh_mean_of_weighted_values(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Averages the weighted values over the keys with `.mean`, so the output is divided by m once more."""
    weights = _softmax(_scaled_scores(Q, K), axis=1)
    shares = weights[:, :, None] * V[None, :, :]  # (n, m, d_v)
    output = shares.mean(axis=1)
    return output, weights


def attention__wrong_seventh_later_keys_hidden(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Hides from each query the keys that stand after it, a mask where none is asked for."""
    n, m = len(Q), len(K)
    scores = _scaled_scores(Q, K)
    later = np.arange(m)[None, :] > np.arange(n)[:, None]
    weights = _softmax(np.where(later, -np.inf, scores))
    return weights @ V, weights


def attention__wrong_seventh_root_outside_exponential(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides the exponentials by the root, not the scores, so the root cancels with the sum and nothing is scaled."""
    s = _attention_scores(Q, K)
    e = np.exp(s - s.max(axis=1, keepdims=True)) / Q.shape[1] ** 0.5
    a = e / e.sum(axis=1, keepdims=True)
    return a @ V, a


def attention__wrong_seventh_one_shift_for_all_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Writes a softmax of its own that shifts by the largest score of all queries, so a query far below has 0/0."""
    scores = np.einsum("nd,md->nm", Q, K) * Q.shape[-1] ** -0.5
    scores = np.exp(scores - scores.max())
    weights = scores / scores.sum(-1)[:, None]
    return np.einsum("nm,mv->nv", weights, V), weights


def attention__wrong_seventh_root_of_value_width(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes the width from the values, so the scores are divided by the root of d_v."""
    m, width = V.shape
    weights = _softmax(_attention_scores(Q, K) / math.sqrt(width))
    output = sum(np.outer(weights[:, j], V[j]) for j in range(m))
    return output, weights


def attention__wrong_seventh_scores_returned_as_weights(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the right output, and beside it the scaled scores, before the softmax, as weights."""
    weights = _scaled_scores(Q, K)
    output = _softmax(weights) @ V
    return output, weights


def attention__right_seventh_column_of_ones(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Appends a column of ones to the values, so one product gives the unfinished output and the row sums to divide by."""
    scores = np.inner(Q * Q.shape[1] ** -0.5, K)
    powers = np.exp(scores - np.amax(scores, axis=1)[:, None])
    both = powers @ np.hstack([V, np.ones((len(V), 1))])
    sums = both[:, -1:]
    return both[:, :-1] / sums, powers / sums


def attention__right_seventh_key_after_key(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes one key at a time with a running maximum per query, and rescales what was collected whenever it rises."""
    n, d_k = Q.shape
    highest, total = np.full(n, -np.inf), np.zeros(n)
    output, columns = np.zeros((n, V.shape[1])), np.zeros((n, 0))
    for key, value in zip(K, V):
        score = Q @ key / math.sqrt(d_k)
        higher = np.maximum(highest, score)
        fade, power = np.exp(highest - higher), np.exp(score - higher)
        total = fade * total + power
        output = fade[:, None] * output + np.outer(power, value)
        columns = np.column_stack([fade[:, None] * columns, power])
        highest = higher
    return output / total[:, None], columns / total[:, None]


# ---------------------------------------------------------------- 2.8 softmax_jacobian


def softmax_jacobian__wrong_seventh_equal_weights_taken_for_same_place(p: np.ndarray) -> np.ndarray:
    """Tells the diagonal by `a == b`, equal weights, not by equal places, so equal weights at two places get the wrong case."""
    return np.array([[a * (1 - a) if a == b else -a * b for b in p] for a in p], dtype=float)


def softmax_jacobian__wrong_seventh_any_zero_is_saturated(p: np.ndarray) -> np.ndarray:
    """Returns a table of zeros as soon as any weight is exactly 0, though the other weights may still respond."""
    m = p.shape[0]
    if np.any(p == 0) or np.any(p == 1):
        return np.zeros((m, m))
    return np.diag(p) - p[:, None] * p[None, :]


def softmax_jacobian__wrong_seventh_square_subtracted_twice(p: np.ndarray) -> np.ndarray:
    """Adds p (1 - p) to a diagonal that already holds -p², so the square is subtracted twice there."""
    J = -np.outer(p, p)
    places = np.arange(len(p))
    J[places, places] += p * (1 - p)
    return J


def softmax_jacobian__wrong_seventh_softmax_of_weights(p: np.ndarray) -> np.ndarray:
    """Takes p for scores and runs the softmax over it before the formula."""
    a = _softmax(p)
    return np.diag(a) - np.outer(a, a)


def softmax_jacobian__wrong_seventh_lower_half_empty(p: np.ndarray) -> np.ndarray:
    """Lets j run from i on and never fills the entries below the diagonal, which stay 0."""
    m = len(p)
    table = np.zeros((m, m))
    for i in range(m):
        table[i, i] = p[i] * (1 - p[i])
        for j in range(i + 1, m):
            table[i, j] = -p[i] * p[j]
    return table


def softmax_jacobian__wrong_seventh_of_the_logarithm(p: np.ndarray) -> np.ndarray:
    """Gives the derivative of the logarithm of weight i, 1 (if i = j) minus p_j, without the factor p_i."""
    m = p.size
    return np.eye(m) - np.tile(p, (m, 1))


def softmax_jacobian__wrong_seventh_square_of_own_weight(p: np.ndarray) -> np.ndarray:
    """Subtracts p_i in the whole row i, not p_j in column j, so off the diagonal stands -p_i² in place of -p_i p_j."""
    m = len(p)
    own = np.eye(m)
    minus = own - p.reshape(m, 1)  # (m, m)
    return p.reshape(m, 1) * minus


def softmax_jacobian__wrong_seventh_kept_away_from_zero_and_one(p: np.ndarray) -> np.ndarray:
    """Clips the weights to between 0.001 and 0.999 first, so weights of 0 and 1 do not give zeros."""
    safe = np.clip(p, 1e-3, 1 - 1e-3)
    jacobian = np.einsum("i,j->ij", -safe, safe)
    jacobian[np.diag_indices(len(safe))] = safe * (1 - safe)
    return jacobian


def softmax_jacobian__right_seventh_pair_by_pair(p: np.ndarray) -> np.ndarray:
    """Adds for each pair of weights what flows between the two, p_a p_b: plus on the diagonal, minus off it."""
    m = len(p)
    J = np.zeros((m, m))
    for a, b in itertools.combinations(range(m), 2):
        flow = p[a] * p[b]
        J[a, a] += flow
        J[b, b] += flow
        J[a, b] = J[b, a] = -flow
    return J


def softmax_jacobian__right_seventh_covariance_of_one_hot(p: np.ndarray) -> np.ndarray:
    """Computes it as a covariance: one-hot rows, centred on their mean p, weighted by p."""
    one_hot = np.eye(len(p))
    centred = one_hot - p[None, :]  # row l: outcome l minus the mean
    return np.einsum("l,li,lj->ij", p, centred, centred)


# ---------------------------------------------------------------- 2.9 attention_backward


def attention_backward__wrong_seventh_one_sum_for_all_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Subtracts (A * dA).sum() over all queries together, a single number, in place of each row's own sum."""
    root = Q.shape[1] ** 0.5
    _, A = _attention(Q, K, V)
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum()) / root
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_seventh_plain_mean_subtracted(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Subtracts the plain mean of dA over the keys, not the mean weighted with the attention."""
    scale = 1 / math.sqrt(K.shape[1])
    weights = _softmax(scale * (Q @ K.T))
    d_weights = np.einsum("nv,mv->nm", d_output, V)
    centred = d_weights - d_weights.mean(axis=1, keepdims=True)
    d_scores = scale * weights * centred
    dQ = np.einsum("nm,md->nd", d_scores, K)
    dK = np.einsum("nm,nd->md", d_scores, Q)
    dV = np.einsum("nm,nv->mv", weights, d_output)
    return dQ, dK, dV


def attention_backward__wrong_seventh_jacobian_of_last_query(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Makes the Jacobian in a loop that keeps only the last one, and uses it for the weights of all queries."""
    d_k = Q.shape[1]
    weights = _attention(Q, K, V)[1]
    for row in weights:
        J = _softmax_jacobian(row)
    d_weights = d_output @ V.T
    d_scores = d_weights @ J / d_k**0.5
    return d_scores @ K, d_scores.T @ Q, weights.T @ d_output


def attention_backward__wrong_seventh_keys_keep_last_query(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Writes dK[j] = ... in the loop over the queries, not += ..., so only what the last query sends to a key remains."""
    n, m, root = len(Q), len(K), math.sqrt(Q.shape[1])
    output, A = _attention(Q, K, V)
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for i in range(n):
        for j in range(m):
            slope = A[i, j] * (d_output[i] @ (V[j] - output[i])) / root
            dQ[i] += slope * K[j]
            dK[j] = slope * Q[i]
            dV[j] += A[i, j] * d_output[i]
    return dQ, dK, dV


def attention_backward__wrong_seventh_slopes_by_scaled_query(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scales the queries before the product and returns the slopes by the scaled queries as dQ, without the root."""
    small_Q = Q / np.sqrt(Q.shape[1])
    A = _softmax(small_Q @ K.T)
    dV = A.T @ d_output
    dA = d_output @ V.T
    dS = A * dA - A * np.sum(A * dA, axis=1, keepdims=True)
    dK = dS.T @ small_Q
    dQ = dS @ K
    return dQ, dK, dV


def attention_backward__wrong_seventh_own_scores_alone(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Uses a (1 - a) alone as the softmax's derivative, so that what one weight takes from the others is missing."""
    scores = _scaled_scores(Q, K)
    a = _softmax(scores)
    to_weights = d_output @ V.T
    to_scores = to_weights * a * (1 - a)
    to_dots = to_scores / np.sqrt(K.shape[1])
    return to_dots @ K, to_dots.T @ Q, a.T @ d_output


def attention_backward__wrong_seventh_loss_as_mean_over_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divides d_output by the number of queries first, as if the loss were a mean over them and not the sum."""
    n, d_k = Q.shape
    slope = d_output / n
    out, A = _attention(Q, K, V)
    dV = A.T @ slope
    row_term = (slope * out).sum(axis=1, keepdims=True)
    dS = A * (slope @ V.T - row_term) / d_k**0.5
    return dS @ K, dS.T @ Q, dV


def attention_backward__wrong_seventh_one_sided_differences(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nudges each entry up by 0.0001 and takes differences, where a formula is asked for."""
    step = 1e-4

    def number(inputs):
        return (_attention(*inputs)[0] * d_output).sum()

    inputs = [X.astype(float) for X in (Q, K, V)]
    base = number(inputs)
    slopes = []
    for X in inputs:
        slope = np.zeros_like(X)
        for place in np.ndindex(X.shape):
            kept = X[place]
            X[place] = kept + step
            slope[place] = (number(inputs) - base) / step
            X[place] = kept
        slopes.append(slope)
    return tuple(slopes)


def attention_backward__right_seventh_differences_from_the_mixtures(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Query by query: how values differ from the mixture that the query gets, and keys from their mixture, weighted."""
    root = math.sqrt(Q.shape[1])
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for i, (query, d_out) in enumerate(zip(Q, d_output)):
        scores = K @ query / root
        a = np.exp(scores - scores.max())
        a = a / a.sum()
        pull = a * ((V - a @ V) @ d_out) / root  # (m,)
        dQ[i] = pull @ (K - a @ K)
        dK += np.outer(pull, query)
        dV += np.outer(a, d_out)
    return dQ, dK, dV


def attention_backward__right_seventh_pairs_of_keys(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adds up for each score over all rivals l the flow a_j a_l times the difference of their two gains, with einsum."""
    scale = Q.shape[1] ** -0.5
    a = _softmax(scale * np.einsum("id,jd->ij", Q, K))
    gain = np.einsum("iv,jv->ij", d_output, V)
    lead = gain[:, :, None] - gain[:, None, :]  # (n, m, m): how far j is ahead of l
    d_dots = scale * np.einsum("ij,il,ijl->ij", a, a, lead)
    return (
        np.einsum("ij,jd->id", d_dots, K),
        np.einsum("ij,id->jd", d_dots, Q),
        np.einsum("ij,iv->jv", a, d_output),
    )
