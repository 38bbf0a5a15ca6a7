"""Answers to the exercises of unit 2, wrong ones and right ones, as students would write them."""

import copy
import math

import numpy as np


def _softmax(z, axis=-1):
    powers = np.exp(z - np.max(z, axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _scaled_scores(Q, K):
    return Q @ K.T / Q.shape[1] ** 0.5


def _attention(Q, K, V):
    weights = _softmax(_scaled_scores(Q, K))
    return weights @ V, weights


def _safe_length(rows):
    return np.sqrt((rows**2).sum(axis=1, keepdims=True))


_tables = {}


# ------- 2.1 attention_scores


def attention_scores__wrong_twelfth_cosine(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides queries and keys by their lengths, so that only the angle between them counts."""
    unit_Q = Q / np.maximum(_safe_length(Q), 1e-12)
    unit_K = K / np.maximum(_safe_length(K), 1e-12)
    return unit_Q @ unit_K.T


def attention_scores__wrong_twelfth_strongest_feature(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Takes the largest of the products of the features as the fit of a pair, where their sum is due."""
    pairs = Q[:, np.newaxis, :] * K[np.newaxis, :, :]  # (n, m, d_k)
    return np.max(pairs, axis=2)


def attention_scores__wrong_twelfth_no_opposites(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Takes a key that is the opposite of what is asked for as one that does not fit at all, with the score 0."""
    n, m = len(Q), len(K)
    table = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            fit = float(np.dot(Q[i], K[j]))
            if fit > 0:
                table[i, j] = fit
    return table


def attention_scores__wrong_twelfth_reshaped_keys(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Gives K the shape (d_k, m) with reshape, which deals its entries out anew where a transpose is due."""
    m, d_k = K.shape
    K_T = K.reshape(d_k, m)
    return np.matmul(Q, K_T)


def attention_scores__wrong_twelfth_first_feature_lost(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Adds up the products feature by feature, beginning with feature 1, so feature 0 is never counted."""
    (n, d_k), m = Q.shape, K.shape[0]
    S = np.zeros((n, m))
    feature = 0
    while feature < d_k - 1:
        feature += 1
        S += np.outer(Q[:, feature], K[:, feature])
    return S


def attention_scores__wrong_twelfth_row_per_key(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Returns one row per key and one column per query, the transpose of what is described."""
    return np.array([[sum(a * b for a, b in zip(query, key, strict=True)) for query in Q] for key in K])


def attention_scores__wrong_twelfth_single_row_lost(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Removes axes of length 1, so a single query or a single key gives a vector or a number and no table."""
    products = Q[:, None, :] @ K.T[None, :, :]  # (n, 1, m)
    return products.squeeze()


def attention_scores__wrong_twelfth_same_table_again(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Keeps one table per shape between calls, so a second call overwrites what the first one returned."""
    shape = (Q.shape[0], K.shape[0])
    if shape not in _tables:
        _tables[shape] = np.empty(shape)
    np.matmul(Q, K.T, out=_tables[shape])
    return _tables[shape]


def attention_scores__right_twelfth_outer_products(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Adds up outer products, one per feature, with a generator."""
    start = np.zeros((len(Q), len(K)))
    return sum((np.multiply.outer(asked, offered) for asked, offered in zip(Q.T, K.T, strict=True)), start)


# ------- 2.2 softmax


def softmax__wrong_twelfth_plain_shares(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Makes the entries positive with a shift and returns each one's share, without any exponential."""
    lowest = z.min(axis=axis, keepdims=True)
    lifted = z - lowest + 1.0
    return lifted / lifted.sum(axis=axis, keepdims=True)


def softmax__wrong_twelfth_one_total(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Divides by the sum of the whole array, so all entries together, and not each line, sum to 1."""
    top = np.amax(z, axis=axis, keepdims=True)
    e = np.exp(z - top)
    total = np.sum(e)
    return e / total


def softmax__wrong_twelfth_divided_by_largest(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Makes large entries harmless by dividing them by the largest size, which changes their differences."""
    biggest = np.abs(z).max(axis=axis, keepdims=True)
    biggest = np.where(biggest > 1, biggest, 1.0)
    tame = z / biggest
    powers = np.exp(tame)
    return powers / np.sum(powers, axis=axis, keepdims=True)


def softmax__wrong_twelfth_maximum_of_last_axis(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Takes the maximum always along the last axis, so for another axis the shift differs within one sum."""
    shift = z.max(-1, keepdims=True)
    numerator = np.exp(z - shift)
    denominator = numerator.sum(axis, keepdims=True)
    with np.errstate(invalid="ignore"):
        return numerator / denominator


def softmax__wrong_twelfth_axis_moved_back_wrongly(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Moves the axis to the end and then once more from there, where it should go back to its place."""

    def of_rows(rows):
        flat = rows.reshape(-1, rows.shape[-1])
        out = np.stack([np.exp(row - row.max()) for row in flat])
        out = out / out.sum(axis=1)[:, None]
        return out.reshape(rows.shape)

    return np.moveaxis(of_rows(np.moveaxis(z, axis, -1)), axis, -1)


def softmax__wrong_twelfth_axis_that_stays(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Reads `axis` as the one that is kept, and lets the weights sum to 1 over all the others."""
    others = tuple(a for a in range(z.ndim) if a != axis % z.ndim) or (0,)
    e = np.exp(z - z.max(axis=others, keepdims=True))
    return e / e.sum(axis=others, keepdims=True)


def softmax__wrong_twelfth_clipped(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Cuts entries off at ±500 to avoid overflow, so two different entries beyond that get equal weights."""
    limit = 80.0 if z.dtype == np.float32 else 500.0
    bounded = np.minimum(np.maximum(z, -limit), limit)
    exps = np.exp(bounded)
    return exps / exps.sum(axis=axis, keepdims=True)


def softmax__wrong_twelfth_shift_through_a_view(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Subtracts the maximum in place in a view of z, so the caller's array is changed."""
    lines = np.swapaxes(z, axis, -1)
    lines -= lines.max(axis=-1, keepdims=True)
    powers = np.exp(lines)
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return np.swapaxes(weights, -1, axis)


def softmax__right_twelfth_logaddexp(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Subtracts the logarithm of the sum, gathered pair by pair with logaddexp, and exponentiates once."""
    below = z - np.maximum.reduce(z, axis=axis, keepdims=True)
    return np.exp(below - np.logaddexp.reduce(below, axis=axis, keepdims=True))


# ------- 2.3 derivation_terms


def derivation_terms__wrong_twelfth_cross_of_the_means(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Averages each term over the samples before the terms meet, so cross is made of products of averages."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    typical = t.mean(axis=0)
    table = np.outer(typical, typical)
    cross = table.sum() - np.trace(table)
    return diagonal, cross


def derivation_terms__wrong_twelfth_all_queries_all_keys(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Lets every query meet every key for the scores, where row r of q meets row r of k alone."""
    scores = q @ k.T
    squares = (q * k) ** 2
    diagonal = squares.sum() / len(q)
    return float(diagonal), float(np.mean(scores**2) - diagonal)


def derivation_terms__wrong_twelfth_covariances(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Uses the covariance matrix of the terms, so their means are subtracted before they are multiplied."""
    C = np.atleast_2d(np.cov(q * k, rowvar=False, bias=True))
    on = np.eye(len(C), dtype=bool)
    return C[on].sum(), C[~on].sum()


def derivation_terms__wrong_twelfth_each_pair_once(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Lets j start behind i, so each pair is counted once where both orders count."""
    samples, d = q.shape
    diagonal, cross = 0.0, 0.0
    for r in range(samples):
        for i in range(d):
            diagonal += (q[r, i] * k[r, i]) ** 2
            for j in range(i + 1, d):
                cross += q[r, i] * k[r, i] * q[r, j] * k[r, j]
    return diagonal / samples, cross / samples


def derivation_terms__wrong_twelfth_view_of_the_diagonal(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Empties the diagonal of the table before it is added up: `diagonal` of NumPy is a view, so it gives 0."""
    terms = np.multiply(q, k)
    table = terms.T @ terms / terms.shape[0]
    squares = table.diagonal()
    np.fill_diagonal(table, 0.0)
    return squares.sum(), table.sum()


def derivation_terms__wrong_twelfth_whole_square_second(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Returns the mean of s² as the second number, with the pairs i = j included."""
    t = np.einsum("rc,rc->rc", q, k)
    diagonal = np.einsum("rc,rc->", t, t) / len(t)
    pairs = np.einsum("ri,rj->", t, t) / len(t)
    return diagonal, pairs


def derivation_terms__wrong_twelfth_compares_values(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Tells the pairs i ≠ j by the values of their terms, so two equal terms of a sample do not count as a pair."""
    rows = [[a * b for a, b in zip(u, v, strict=True)] for u, v in zip(q.tolist(), k.tolist(), strict=True)]
    diagonal = sum(x * x for row in rows for x in row) / len(rows)
    cross = sum(x * y for row in rows for x in row for y in row if x != y) / len(rows)
    return diagonal, cross


def derivation_terms__wrong_twelfth_random_subset(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Measures on 1,000 rows picked at random with NumPy's global generator where there are more."""
    if len(q) > 1_000:
        rows = np.random.choice(len(q), 1_000, replace=False)
        q, k = q[rows], k[rows]
    t = q * k
    per_sample_squares = np.square(t).sum(axis=1)
    per_sample_all = np.square(t.sum(axis=1))
    return per_sample_squares.mean(), (per_sample_all - per_sample_squares).mean()


def derivation_terms__right_twelfth_turned_terms(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Turns the terms around by 1, 2, ... places, so that each meets every other one once in each order."""
    t = q * k
    samples, d = t.shape
    meets = [np.vdot(t, np.roll(t, places, axis=1)) / samples for places in range(d)]
    return meets[0], float(sum(meets[1:]))


# ------- 2.4 dot_product_moments


def dot_product_moments__wrong_twelfth_mean_of_d(d: int, var_q: float = 1.0, var_k: float = 1.0) -> tuple[float, float]:
    """Gives the mean of a vector's dot product with itself, as if queries and keys were not independent."""
    sigma_q, sigma_k = math.sqrt(var_q), math.sqrt(var_k)
    mean_of_a_term = sigma_q * sigma_k
    variance_of_a_term = var_q * var_k
    return d * mean_of_a_term, d * variance_of_a_term


def dot_product_moments__wrong_twelfth_cross_terms_stay(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Counts all d² entries of the table of products, as if the cross terms did not vanish."""
    table = np.full((d, d), var_q * var_k)
    return 0.0, float(table.sum())


def dot_product_moments__wrong_twelfth_variances_added(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Adds the variances of the two factors of a term, which is right for a sum and not for a product."""
    mean = variance = 0.0
    for _ in range(d):
        variance += var_q + var_k
    return mean, variance


def dot_product_moments__wrong_twelfth_squared_again(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Squares the two numbers as if they were standard deviations."""
    term_spread = var_q * var_k
    score_spread = np.linalg.norm(np.full(d, term_spread))
    return 0.0, float(score_spread) ** 2


def dot_product_moments__wrong_twelfth_same_variance_twice(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Takes the variance of the query for both factors, so that of the key has no effect."""
    entries_q = [var_q] * d
    entries_k = [var_q] * d
    return 0.0, sum(a * b for a, b in zip(entries_q, entries_k, strict=True))


def dot_product_moments__wrong_twelfth_standard_deviation(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Returns the standard deviation beside the mean, where the variance is described."""
    mean, spread = 0.0, np.sqrt(d) * np.sqrt(var_q) * np.sqrt(var_k)
    return mean, spread


def dot_product_moments__wrong_twelfth_zero_is_missing(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Treats a variance of 0 like one that was not given, and puts 1 in its place."""
    q_squared = var_q or 1.0
    k_squared = var_k or 1.0
    return 0.0, d * q_squared * k_squared


def dot_product_moments__wrong_twelfth_draws(d: int, var_q: float = 1.0, var_k: float = 1.0) -> tuple[float, float]:
    """Draws queries and keys and measures, where the derived numbers are due and nothing may be drawn."""
    q = np.random.normal(0.0, math.sqrt(var_q), (1_000, d))
    k = np.random.normal(0.0, math.sqrt(var_k), (1_000, d))
    s = (q * k).sum(axis=1)
    return 0.0, float((s**2).mean())


def dot_product_moments__right_twelfth_given_the_query(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Takes the variance of s for a fixed query, var_k times its squared length, and averages over the queries."""
    expected_squared_length = float(np.trace(var_q * np.identity(d)))
    mean_given_query = np.zeros(d) @ np.ones(d)
    return float(mean_given_query), var_k * expected_squared_length


# ------- 2.5 scaled_scores


def scaled_scores__wrong_twelfth_by_the_width(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Averages the products over the features, which divides by d_k and not by its root."""
    return np.mean(Q[:, None] * K[None], axis=-1)


def scaled_scores__wrong_twelfth_measured_spread(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides by the measured spread of these very scores, so that their variance is 1 in each call."""
    scores = np.dot(Q, K.T)
    spread = scores.std()
    if spread == 0:
        spread = 1.0
    return scores / spread


def scaled_scores__wrong_twelfth_number_of_keys(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides by the root of the number of keys, as if the spread grew with the length of the text."""
    how_many = K.shape[0]
    out = np.empty((Q.shape[0], how_many))
    for j, key in enumerate(K):
        out[:, j] = Q @ key / math.sqrt(how_many)
    return out


def scaled_scores__wrong_twelfth_power_before_division(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides by d_k and then by 2, because `** 1 / 2` is not a root."""
    d_k = Q.shape[-1]
    return np.einsum("ic,jc->ij", Q, K) / d_k**1 / 2


def scaled_scores__wrong_twelfth_queries_alone_shrunk(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Shares the root out to both factors and applies its half to the queries alone."""
    fourth_root = Q.shape[1] ** 0.25
    small = [X / fourth_root for X in (Q, K)]
    return small[0] @ np.transpose(K)


def scaled_scores__wrong_twelfth_already_weights(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Applies the softmax, where the scores themselves are described."""
    root = np.sqrt(K.shape[1])
    scores = (Q / root) @ K.T
    return _softmax(scores, axis=1)


def scaled_scores__wrong_twelfth_angle_times_lengths(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Goes by way of the cosine, so a query or a key of zeros alone gives NaN and not 0."""
    lengths_q = np.linalg.norm(Q, axis=1, keepdims=True)
    lengths_k = np.linalg.norm(K, axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = (Q / lengths_q) @ (K / lengths_k).T
    return cosines * (lengths_q @ lengths_k.T) / np.sqrt(Q.shape[1])


def scaled_scores__wrong_twelfth_keys_in_place(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides the keys in the caller's own array, so its inputs are changed."""
    K /= K.shape[1] ** 0.5
    return Q @ K.T


def scaled_scores__right_twelfth_tensordot(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Contracts the features with tensordot after a vector of the entries 1/√d has been multiplied in."""
    weights = np.full(Q.shape[1], np.exp(-0.5 * np.log(Q.shape[1])))
    return np.tensordot(Q * weights, K, axes=([1], [1]))


# ------- 2.6 score_statistics


def score_statistics__wrong_twelfth_whole_table(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Takes the scores of every query with every key, where row r meets row r alone."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    S = q @ k.T
    if scaled:
        S = S / np.sqrt(d)
    return S.mean(), S.var()


def score_statistics__wrong_twelfth_root_on_the_results(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Divides mean and variance by the root of d, where the variance of scaled scores is smaller by d."""
    queries = rng.standard_normal((n_samples, d))
    keys = rng.standard_normal((n_samples, d))
    scores = np.einsum("rc,rc->r", queries, keys)
    results = np.array([scores.mean(), scores.var()])
    mean, variance = results / d**0.5 if scaled else results
    return mean, variance


def score_statistics__wrong_twelfth_average_feature(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Averages the products of a pair over the features, where a score is their sum."""
    q, k = (rng.standard_normal((n_samples, d)) for _ in "qk")
    s = np.average(q * k, axis=1)
    divisor = math.sqrt(d) if scaled else 1
    s = s / divisor
    return float(np.mean(s)), float(np.mean((s - np.mean(s)) ** 2))


def score_statistics__wrong_twelfth_pair_by_pair(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws a query and then its key, pair by pair, so the numbers come in another order."""
    scores = []
    for _ in range(n_samples):
        query = rng.standard_normal(d)
        key = rng.standard_normal(d)
        score = query @ key
        scores.append(score / d**0.5 if scaled else score)
    return np.mean(scores), np.var(scores)


def score_statistics__wrong_twelfth_one_fewer(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Keeps running sums and divides the squared distances by n_samples - 1 at the end."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    mean, distances = 0.0, 0.0
    for count, (a, b) in enumerate(zip(q, k, strict=True), start=1):
        s = float(a @ b) / (math.sqrt(d) if scaled else 1.0)
        before = s - mean
        mean += before / count
        distances += before * (s - mean)
    return mean, distances / max(n_samples - 1, 1)


def score_statistics__wrong_twelfth_distance_from_zero(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Takes the squared distance from the derived mean 0, where that from the measured mean is described."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    terms = q * k
    s = terms @ np.ones(d)
    s = s * d**-0.5 if scaled else s
    return s.sum() / n_samples, (s @ s) / n_samples


def score_statistics__wrong_twelfth_width_one(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Removes axes of length 1 before the sum, so at d = 1 all samples are added up to one score."""
    q = np.squeeze(rng.standard_normal((n_samples, d)))
    k = np.squeeze(rng.standard_normal((n_samples, d)))
    scores = np.sum(q * k, axis=-1)
    if scaled:
        scores = scores / np.sqrt(d)
    return np.mean(scores), np.var(scores)


def score_statistics__wrong_twelfth_copied_generator(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws from a copy of the generator, so the one that is handed in never moves on."""
    source = copy.deepcopy(rng)
    q, k = source.standard_normal((n_samples, d)), source.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1)
    if scaled:
        s /= d**0.5
    return s.mean(), s.var(ddof=0)


def score_statistics__right_twelfth_stacks(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Shrinks the queries, multiplies in stacks of 1 × d by d × 1, and measures the distance as a length."""
    q = rng.standard_normal((n_samples, d)) / (d**0.5 if scaled else 1.0)
    k = rng.standard_normal((n_samples, d))
    s = (q[:, None, :] @ k[:, :, None]).ravel()
    mean = s @ np.full(n_samples, 1 / n_samples)
    return float(mean), float(np.linalg.norm(s - mean) ** 2 / n_samples)


# ------- 2.7 attention


def attention__wrong_twelfth_shared_among_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lets each key share itself out among the queries, so columns and not rows of the weights sum to 1."""
    scores = _scaled_scores(Q, K)
    powers = np.exp(scores - scores.max(axis=0))
    weights = powers / powers.sum(axis=0)
    return weights @ V, weights


def attention__wrong_twelfth_root_behind_the_softmax(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes the softmax of the plain scores and divides the output by the root."""
    d_k = K.shape[1]
    weights = _softmax(Q @ K.T)
    mixture = weights @ V
    return mixture / np.sqrt(d_k), weights


def attention__wrong_twelfth_winner_takes_all(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gives the whole weight to the key with the largest score, and hands on its value alone."""
    scores = _scaled_scores(Q, K)
    found = scores.argmax(axis=1)
    weights = np.eye(len(K))[found]
    return V[found].astype(float), weights


def attention__wrong_twelfth_width_of_the_values(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides by the root of the width of the values."""
    outputs, rows = [], []
    for query in Q:
        s = np.array([query @ key for key in K]) / V.shape[1] ** 0.5
        a = np.exp(s - s.max())
        a = a / a.sum()
        rows.append(a)
        outputs.append(sum(share * value for share, value in zip(a, V, strict=True)))
    return np.array(outputs), np.array(rows)


def attention__wrong_twelfth_root_twice(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Divides the queries by the root and then computes scores that are scaled already."""
    queries = Q / math.sqrt(Q.shape[-1])
    weights = _softmax(_scaled_scores(queries, K), axis=-1)
    output = np.einsum("nm,mv->nv", weights, V)
    return output, weights


def attention__wrong_twelfth_scores_returned(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the scaled scores beside the output, where the weights are described."""
    weights = _scaled_scores(Q, K)
    output = _softmax(weights) @ V
    return output, weights


def attention__wrong_twelfth_one_shift_for_all(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Shifts all rows by the largest score of the table, so a query far below the others gets NaN."""
    logits = (Q @ K.T) / np.sqrt(Q.shape[1])
    with np.errstate(invalid="ignore"):
        e = np.exp(logits - logits.max())
        attn = e / e.sum(axis=-1, keepdims=True)
    return attn @ V, attn


def attention__wrong_twelfth_with_torch(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes everything with PyTorch, which is not allowed in this unit."""
    import torch

    q, k, v = (torch.tensor(x) for x in (Q, K, V))
    a = torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=-1)
    return (a @ v).numpy(), a.numpy()


def attention__right_twelfth_key_by_key(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reads one key after the other and corrects what is gathered whenever a larger score turns up."""
    n, m = len(Q), len(K)
    top = np.full(n, -np.inf)
    total, gathered, scores = np.zeros(n), np.zeros((n, V.shape[1])), np.empty((n, m))
    for j in range(m):
        scores[:, j] = Q @ K[j] * Q.shape[1] ** -0.5
        higher = np.maximum(top, scores[:, j])
        fade, new = np.exp(top - higher), np.exp(scores[:, j] - higher)
        total = total * fade + new
        gathered = gathered * fade[:, None] + np.outer(new, V[j])
        top = higher
    return gathered / total[:, None], np.exp(scores - top[:, None]) / total[:, None]


# ------- 2.8 softmax_jacobian


def softmax_jacobian__wrong_twelfth_each_weight_alone(p: np.ndarray) -> np.ndarray:
    """Lets each weight respond to its own score alone, with zeros off the diagonal."""
    return np.diag(p * (1 - p))


def softmax_jacobian__wrong_twelfth_weights_as_scores(p: np.ndarray) -> np.ndarray:
    """Takes p for the scores and applies the softmax to it first."""
    e = np.exp(p - p.max())
    a = e / e.sum()
    return np.diag(a) - np.outer(a, a)


def softmax_jacobian__wrong_twelfth_constant_sum(p: np.ndarray) -> np.ndarray:
    """Takes the sum in the denominator for a constant, so the derivative of a weight is the weight itself."""
    m = p.size
    J = np.zeros((m, m))
    for i in range(m):
        J[i][i] = p[i]
    return J


def softmax_jacobian__wrong_twelfth_upper_half(p: np.ndarray) -> np.ndarray:
    """Fills the diagonal and what stands above it, and leaves zeros below."""
    m = len(p)
    table = np.zeros((m, m))
    for i in range(m):
        table[i, i] = p[i] * (1 - p[i])
        for j in range(i + 1, m):
            table[i, j] = -p[i] * p[j]
    return table


def softmax_jacobian__wrong_twelfth_diagonal_replaced(p: np.ndarray) -> np.ndarray:
    """Replaces the diagonal of the products by p, where p is to be added to it."""
    jacobian = -p[:, None] * p[None, :]
    np.fill_diagonal(jacobian, p)
    return jacobian


def softmax_jacobian__wrong_twelfth_logarithms(p: np.ndarray) -> np.ndarray:
    """Returns the derivatives of the logarithms of the weights, another quantity."""
    kronecker = np.identity(p.shape[0])
    return np.array([[kronecker[i, j] - p[j] for j in range(len(p))] for i in range(len(p))])


def softmax_jacobian__wrong_twelfth_divides_by_weights(p: np.ndarray) -> np.ndarray:
    """Takes the products of the weights as a factor out of everything, so a weight of 0 gives NaN."""
    products = np.multiply.outer(p, p)
    with np.errstate(divide="ignore", invalid="ignore"):
        return products * (np.eye(len(p)) / p - 1)


def softmax_jacobian__wrong_twelfth_complement_in_place(p: np.ndarray) -> np.ndarray:
    """Writes the complement 1 - p into the caller's array on the way, so the input is changed."""
    m = p.shape[0]
    weights = p.copy()
    rest = np.subtract(1, p, out=p)
    own = np.eye(m, dtype=bool)
    return np.where(own, weights * rest, -weights[:, None] * weights)


def softmax_jacobian__right_twelfth_covariance(p: np.ndarray) -> np.ndarray:
    """Computes the covariance of a one-hot vector that is drawn with the probabilities p."""
    apart = np.eye(len(p)) - p  # row l: the one-hot vector of l, minus its mean
    return np.einsum("l,li,lj->ij", p, apart, apart)


# ------- 2.9 attention_backward


def attention_backward__wrong_twelfth_own_score_only(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes a(1 - a) for the whole derivative of the softmax, so a score moves its own weight alone."""
    root = np.sqrt(Q.shape[1])
    A = _softmax(Q @ K.T / root)
    dV = A.T @ d_output
    dA = d_output @ V.T
    dS = dA * A * (1 - A)
    return dS @ K / root, dS.T @ Q / root, dV


def attention_backward__wrong_twelfth_sum_held_fixed(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Holds the sum of the exponentials fixed, so the weights of a query need not keep the sum 1."""
    n, m = Q.shape[0], K.shape[0]
    divisor = Q.shape[1] ** 0.5
    weights = _attention(Q, K, V)[1]
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for i in range(n):
        for j in range(m):
            slope = weights[i, j] * (d_output[i] @ V[j]) / divisor
            dQ[i] += slope * K[j]
            dK[j] += slope * Q[i]
            dV[j] += weights[i, j] * d_output[i]
    return dQ, dK, dV


def attention_backward__wrong_twelfth_plain_average(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Subtracts the plain average over the keys in the softmax's derivative, where the weighted one belongs."""
    _, weights = _attention(Q, K, V)
    d_weights = np.einsum("nv,mv->nm", d_output, V)
    centred = d_weights - d_weights.mean(axis=1, keepdims=True)
    d_scores = weights * centred / math.sqrt(K.shape[1])
    dQ = np.einsum("nm,mc->nc", d_scores, K)
    dK = np.einsum("nm,nc->mc", d_scores, Q)
    dV = np.einsum("nm,nv->mv", weights, d_output)
    return dQ, dK, dV


def attention_backward__wrong_twelfth_sum_over_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums over the queries in the softmax's derivative, where each query sums over its keys."""
    d_k = Q.shape[1]
    S = Q @ K.T / d_k**0.5
    P = np.exp(S - S.max(axis=1, keepdims=True))
    P = P / P.sum(axis=1, keepdims=True)
    dP = d_output @ V.T
    dS = P * dP - P * (P * dP).sum(axis=0)
    dS = dS / d_k**0.5
    return dS @ K, dS.T @ Q, P.T @ d_output


def attention_backward__wrong_twelfth_back_to_small_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divides the queries at the start and returns the slopes of the divided ones, without the last step back."""
    small = Q / np.sqrt(Q.shape[1])
    A = _softmax(small @ K.T)
    out = A @ V
    # backwards
    dV = A.T @ d_output
    dA = d_output @ V.T
    dS = A * (dA - (out * d_output).sum(axis=1)[:, None])
    dK = dS.T @ small
    dQ = dS @ K
    return dQ, dK, dV


def attention_backward__wrong_twelfth_mean_of_the_outputs(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes the loss as a mean over the queries, so all slopes are too small by the factor n."""
    r, n = Q.shape[1] ** 0.5, len(Q)
    dQ, dK, dV = [], np.zeros_like(K), np.zeros_like(V)
    for q, g in zip(Q, d_output, strict=True):
        a = _softmax(K @ q / r)
        J = np.diag(a) - np.outer(a, a)
        ds = J @ (V - V[0]) @ g / r / n
        dQ.append(K.T @ ds)
        dK += np.outer(ds, q)
        dV += np.outer(a, g) / n
    return np.array(dQ), dK, dV


def attention_backward__wrong_twelfth_unshifted_powers(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes the exponentials of the scores as they are, so large scores give NaN."""
    c = K.shape[-1] ** -0.5
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        E = np.exp(c * (Q @ K.T))
        Z = E.sum(-1, keepdims=True)
        A = E / Z
    G = d_output @ V.T
    G = A * (G - np.sum(A * G, axis=-1, keepdims=True)) * c
    return G @ K, np.transpose(G) @ Q, np.transpose(A) @ d_output


def attention_backward__wrong_twelfth_nudges(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nudges one entry after the other, where a formula is asked for and differences are not exact enough."""

    def loss_at(which, place, by):
        moved = [np.array(x, dtype=float) for x in (Q, K, V)]
        moved[which][place] += by
        return (_attention(*moved)[0] * d_output).sum()

    h = 1e-5
    slopes = []
    for which, x in enumerate((Q, K, V)):
        slope = np.empty(x.shape)
        for place in np.ndindex(*x.shape):
            slope[place] = (loss_at(which, place, h) - loss_at(which, place, -h)) / (2 * h)
        slopes.append(slope)
    return tuple(slopes)


def attention_backward__right_twelfth_value_minus_output(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Needs no slopes of the weights: a score counts by how far its value lies from the output of the query."""
    output, weights = _attention(Q, K, V)
    away = V[None, :, :] - output[:, None, :]  # (n, m, d_v)
    d_dots = np.einsum("nm,nmv,nv->nm", weights, away, d_output) / Q.shape[1] ** 0.5
    dK = sum(np.outer(row, query) for row, query in zip(d_dots, Q, strict=True))
    dV = sum(np.outer(row, slope) for row, slope in zip(weights, d_output, strict=True))
    return np.stack([row @ K for row in d_dots]), dK, dV
