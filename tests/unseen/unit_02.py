"""Answers to unit 2, sixteenth set: mostly wrong ones."""

import functools
import math

import numpy as np
import torch


# ------------------------------------------------------------------ helpers
def _softmax(z, axis=-1):
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _attention(Q, K, V):
    weights = _softmax(Q @ K.T / K.shape[1] ** 0.5)
    return weights @ V, weights


# --------------------------------------------------------- attention_scores
def attention_scores__wrong_sixteenth_cosine_similarity(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Compares directions only: both vectors are brought to length 1 before the dot product."""
    len_q = np.sqrt((Q**2).sum(axis=1, keepdims=True))
    len_k = np.sqrt((K**2).sum(axis=1, keepdims=True))
    return (Q / len_q) @ (K / len_k).T


def attention_scores__wrong_sixteenth_keys_in_rows(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Roles swapped: one row per key and one column per query."""
    table = np.zeros((len(K), len(Q)))
    for j, key in enumerate(K):
        table[j] = Q @ key
    return table


def attention_scores__wrong_sixteenth_transpose_only_if_needed(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Thinks the transpose is only there to make shapes fit; with m = d_k it meets columns of K."""
    if Q.shape[1] == K.shape[0]:
        return np.matmul(Q, K)
    return np.matmul(Q, K.T)


def attention_scores__wrong_sixteenth_last_feature_lost(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Off by one: the loop over the features stops before the last one."""
    n, d = Q.shape
    m = K.shape[0]
    S = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            for c in range(0, d - 1):
                S[i, j] += Q[i, c] * K[j, c]
    return S


def attention_scores__wrong_sixteenth_loops_in_wrong_order(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """The list runs key by key, but is reshaped as if it ran query by query."""
    numbers = [np.dot(q, k) for k in K for q in Q]
    return np.array(numbers).reshape(len(Q), len(K))


def attention_scores__wrong_sixteenth_already_scaled(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Reads past 'not scaled': divides by the root of the width."""
    d_k = Q.shape[-1]
    return np.einsum("ic,jc->ij", Q, K) / np.sqrt(d_k)


def attention_scores__wrong_sixteenth_squeezed(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """With a single query or a single key an axis of the result is lost."""
    products = Q[:, np.newaxis, :] * K[np.newaxis, :, :]
    return np.squeeze(products.sum(axis=2))


def attention_scores__wrong_sixteenth_table_of_float32(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Collects the scores in a float32 table though the inputs are float64."""
    S = np.empty((Q.shape[0], K.shape[0]), dtype="float32")
    for i, query in enumerate(Q):
        S[i] = K.dot(query)
    return S


def attention_scores__right_sixteenth_sum_of_outer_products(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Unusual: adds up one outer product per feature."""
    total = np.zeros((Q.shape[0], K.shape[0]))
    for asked, offered in zip(Q.T, K.T):
        total = total + np.outer(asked, offered)
    return total


# ------------------------------------------------------------------ softmax
def softmax__wrong_sixteenth_clipped_exponents(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Takes 'safe' to mean clipping: large entries become equal, and far ones merge."""
    safe = np.clip(z, -300.0, 300.0)
    powers = np.exp(safe)
    return powers / np.sum(powers, axis=axis, keepdims=True)


def softmax__wrong_sixteenth_sum_of_everything(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """One softmax over all entries together: the whole array sums to 1, not each slice."""
    e = np.exp(z - np.max(z))
    return e / np.sum(e)


def softmax__wrong_sixteenth_shift_by_largest_size(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Shifts by the largest absolute value, so a row near -10,000 is pushed to 0/0."""
    size = np.abs(z).max(axis=axis, keepdims=True)
    e = np.exp(z - size)
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_sixteenth_sum_over_last_axis(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """The maximum runs along `axis`, the sum always along the last axis."""
    top = np.max(z, axis=axis, keepdims=True)
    powers = np.exp(z - top)
    return powers / np.sum(powers, axis=-1, keepdims=True)


def softmax__wrong_sixteenth_difference_turned_round(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """The shift is min - z, the difference turned round: small entries get the largest weights."""
    lowest = z.min(axis=axis, keepdims=True)
    e = np.exp(lowest - z)
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_sixteenth_rows_or_columns_only(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Knows axis=0 and 'otherwise the last': -2, or a middle axis, are treated as the last."""
    if axis == 0:
        moved = np.swapaxes(z, 0, -1)
        return np.swapaxes(_softmax(moved), 0, -1)
    return _softmax(z)


def softmax__wrong_sixteenth_one_shift_for_all(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Shifts by the largest entry of the whole array; rows far below it become 0/0."""
    numerators = np.exp(z - np.amax(z))
    denominators = numerators.sum(axis=axis, keepdims=True)
    return numerators / denominators


def softmax__wrong_sixteenth_shift_in_place(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Right weights, but `-=` writes the shift into the caller's array."""
    z -= z.max(axis=axis, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


def softmax__right_sixteenth_slices_in_plain_python(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Unusual: brings the axis to the front, then folds over its slices with Python's tools."""
    slices = list(np.moveaxis(z, axis, 0))
    top = functools.reduce(np.maximum, slices)
    powers = [np.exp(one - top) for one in slices]
    total = sum(powers)
    return np.stack([power / total for power in powers], axis=axis)


# --------------------------------------------------------- derivation_terms
def derivation_terms__wrong_sixteenth_each_pair_once(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Thinks of unordered pairs: only those above the diagonal of the table are added."""
    t = q * k
    table = t.T @ t / len(t)
    diagonal = np.diag(table).sum()
    cross = np.triu(table, k=1).sum()
    return float(diagonal), float(cross)


def derivation_terms__wrong_sixteenth_every_query_every_key(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Takes the scores of all queries with all keys, as in attention, and not row by row."""
    diagonal = np.mean(np.sum((q * k) ** 2, axis=1))
    all_scores = q @ k.T
    cross = np.mean(all_scores**2) - diagonal
    return diagonal, cross


def derivation_terms__wrong_sixteenth_covariances(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Takes variances and covariances of the terms: their measured means are subtracted first."""
    t = q * k
    t = t - t.mean(axis=0)
    table = np.einsum("ri,rj->ij", t, t) / t.shape[0]
    diagonal = np.trace(table)
    return diagonal, table.sum() - diagonal


def derivation_terms__wrong_sixteenth_only_k_squared(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Brackets forgotten in the diagonal: only k is squared."""
    s = (q * k).sum(axis=1)
    diagonal = (q * k**2).sum(axis=1).mean()
    cross = (s**2).mean() - ((q * k) ** 2).sum(axis=1).mean()
    return diagonal, cross


def derivation_terms__wrong_sixteenth_squares_left_in(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Index slip: the inner loop starts at i, so squares slip into the cross sum."""
    samples, d = q.shape
    diagonal = cross = 0.0
    for a, b in zip(q, k):
        t = a * b
        for i in range(d):
            diagonal += t[i] ** 2
            for j in range(i, d):
                cross += 2 * t[i] * t[j]
    return diagonal / samples, cross / samples


def derivation_terms__wrong_sixteenth_divided_by_one_less(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Divides by samples - 1 as for an unbiased variance; the text says the plain average."""
    terms = q * k
    count = max(len(terms) - 1, 1)
    squares = (terms**2).sum() / count
    whole = (terms.sum(axis=1) ** 2).sum() / count
    return squares, whole - squares


def derivation_terms__wrong_sixteenth_equal_terms_dropped(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Compares the terms, not their indices: a pair of equal terms is missing from cross."""
    diagonal, cross = 0.0, 0.0
    for t in q * k:
        diagonal += sum(x * x for x in t)
        cross += sum(x * y for x in t for y in t if x != y)
    return diagonal / len(q), cross / len(q)


def derivation_terms__wrong_sixteenth_one_array_of_two(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Right numbers, but one array of length two is returned, and a tuple is due."""
    t = q * k
    diagonal = (t**2).sum(axis=1)
    cross = t.sum(axis=1) ** 2 - diagonal
    return np.stack([diagonal, cross]).mean(axis=1)


def derivation_terms__right_sixteenth_rolled_terms(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Unusual: meets every term with the one 1, 2, ..., d-1 places on, by rolling the features."""
    t = q * k
    d = t.shape[1]
    parts = [(t * np.roll(t, shift, axis=1)).sum(axis=1).mean() for shift in range(d)]
    return float(parts[0]), float(sum(parts[1:]))


# ------------------------------------------------------ dot_product_moments
def dot_product_moments__wrong_sixteenth_mean_is_d(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Believes claim 1: every term is expected to give the product of the two spreads."""
    one_term = math.sqrt(var_q) * math.sqrt(var_k)
    return d * one_term, d * var_q * var_k


def dot_product_moments__wrong_sixteenth_variances_added(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Thinks that the variances of two independent factors add up, as those of terms do."""
    var_term = var_q + var_k
    return 0.0, d * var_term


def dot_product_moments__wrong_sixteenth_variances_squared(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Takes var_q and var_k for the sigmas of the formula and squares them once more."""
    variance = d * var_q**2 * var_k**2
    return 0.0, variance


def dot_product_moments__wrong_sixteenth_power_for_product(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """One star too many: var_q is raised to the power var_k."""
    mean = 0.0
    variance = d * var_q**var_k
    return mean, variance


def dot_product_moments__wrong_sixteenth_var_k_forgotten(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Wrong variable: the variance of the query enters twice, that of the key never."""
    variance = 0.0
    for _ in range(d):
        variance += var_q * var_q
    return 0.0, variance


def dot_product_moments__wrong_sixteenth_measured_by_drawing(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Measures on random draws, though the formula is asked for and nothing may be drawn."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal((2000, d)) * var_q**0.5
    k = rng.standard_normal((2000, d)) * var_k**0.5
    s = (q * k).sum(axis=1)
    return s.mean(), s.var()


def dot_product_moments__wrong_sixteenth_zero_means_default(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """A variance of exactly 0 is taken for 'not given' and replaced by 1."""
    var_q = var_q or 1.0
    var_k = var_k or 1.0
    return 0.0, d * var_q * var_k


def dot_product_moments__wrong_sixteenth_arrays_of_one(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Right values, but as arrays of shape (1,), and a number has no axis."""
    mean = np.zeros(1)
    variance = np.array([d * var_q * var_k])
    return mean, variance


def dot_product_moments__right_sixteenth_dot_of_variances(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Unusual: the variance as a dot product of the d variances of q with the d of k."""
    variances_q = np.full(d, var_q, dtype=float)
    variances_k = np.full(d, var_k, dtype=float)
    return np.float64(0), np.dot(variances_q, variances_k)


# ------------------------------------------------------------ scaled_scores
def scaled_scores__wrong_sixteenth_divided_by_width(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Claim 2: averages the products over the features, that is, divides by d_k itself."""
    return (Q[:, None, :] * K[None, :, :]).mean(axis=-1)


def scaled_scores__wrong_sixteenth_root_of_number_of_keys(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Believes that the root tames the number of keys that compete, and divides by its root."""
    S = Q @ K.T
    return S / np.sqrt(S.shape[1])


def scaled_scores__wrong_sixteenth_measured_spread(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Makes the variance 1 by force: divides by the measured spread of the scores."""
    scores = np.einsum("id,jd->ij", Q, K)
    spread = scores.std()
    return scores / spread if spread > 0 else scores


def scaled_scores__wrong_sixteenth_half_of_the_width(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Operator precedence: `** 1/2` divides the width by two, no root is taken."""
    d_k = K.shape[1]
    root = d_k ** 1/2
    return (Q @ K.T) / root


def scaled_scores__wrong_sixteenth_fourth_root_on_one_side(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Shares the root between Q and K, but forgets the share of K."""
    share = Q.shape[1] ** 0.25
    small_Q = Q / share
    small_K = K / share
    return small_Q @ K.T


def scaled_scores__wrong_sixteenth_softmax_on_top(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Reads past 'no softmax yet' and returns weights."""
    scores = Q @ K.T / Q.shape[1] ** 0.5
    return _softmax(scores, axis=1)


def scaled_scores__wrong_sixteenth_whole_root_only(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Takes the integer root: right for widths 1, 4, 9, 64, and not for those between."""
    root = math.isqrt(Q.shape[1])
    return np.matmul(Q, np.transpose(K)) / root


_buffers = {}


def scaled_scores__wrong_sixteenth_table_used_again(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Saves memory by keeping one table per shape: a second call changes the first result."""
    shape = (len(Q), len(K))
    if shape not in _buffers:
        _buffers[shape] = np.empty(shape)
    table = _buffers[shape]
    table[:] = Q @ K.T
    table /= np.sqrt(Q.shape[1])
    return table


def scaled_scores__right_sixteenth_mean_times_root(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Unusual: the mean over the features, times the root, which is the sum over the root."""
    d_k = Q.shape[1]
    columns = [np.mean(Q * key, axis=1) * math.sqrt(d_k) for key in K]
    return np.stack(columns, axis=1)


# --------------------------------------------------------- score_statistics
def score_statistics__wrong_sixteenth_all_pairs(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Lets every query meet every key, as in attention, and takes statistics of the table."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    S = q @ k.T
    if scaled:
        S = S / d**0.5
    return S.mean(), S.var()


def score_statistics__wrong_sixteenth_statistics_divided(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Divides mean and variance by the root; a variance falls by the square of the divisor."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.einsum("rd,rd->r", q, k)
    mean, variance = s.mean(), s.var()
    if scaled:
        mean, variance = mean / np.sqrt(d), variance / np.sqrt(d)
    return mean, variance


def score_statistics__wrong_sixteenth_mean_taken_as_zero(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Uses E[s] = 0 from the derivation: the variance is the mean of s², nothing subtracted."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1) / (math.sqrt(d) if scaled else 1)
    return float(s.mean()), float((s**2).mean())


def score_statistics__wrong_sixteenth_sum_over_samples(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Wrong axis: sums over the samples, so there is one score per feature."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    scores = np.sum(q * k, axis=0)
    if scaled:
        scores /= np.sqrt(d)
    return np.mean(scores), np.var(scores)


def score_statistics__wrong_sixteenth_root_of_samples(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Wrong variable under the root: the number of samples in place of the width."""
    shape = n_samples, d
    q, k = rng.standard_normal(shape), rng.standard_normal(shape)
    scores = np.array([row_q @ row_k for row_q, row_k in zip(q, k)])
    if scaled:
        scores = scores / n_samples**0.5
    return scores.mean(), scores.var()


def score_statistics__wrong_sixteenth_unbiased_variance(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Divides by n_samples - 1, though the docstring asks for the biased variance."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1)
    if scaled:
        s = s / d**0.5
    mean = s.sum() / n_samples
    return mean, ((s - mean) ** 2).sum() / max(n_samples - 1, 1)


def score_statistics__wrong_sixteenth_drawn_in_portions(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws q and k in portions of 4096 rows: beyond that k no longer comes after all of q."""
    scores = []
    for start in range(0, n_samples, 4096):
        rows = min(4096, n_samples - start)
        q = rng.standard_normal((rows, d))
        k = rng.standard_normal((rows, d))
        scores.append((q * k).sum(axis=1))
    s = np.concatenate(scores)
    if scaled:
        s = s / d**0.5
    return s.mean(), s.var()


def score_statistics__wrong_sixteenth_third_table_drawn(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Right numbers, but it draws values, too, which nobody asked for and nothing needs."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    v = rng.standard_normal((n_samples, d))
    scores = (q * k).sum(axis=1)
    if scaled:
        scores = scores / np.sqrt(d)
    return scores.mean(), scores.var()


def score_statistics__right_sixteenth_running_statistics(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Unusual: mean and squared distances are kept up to date score by score (Welford)."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    root = math.sqrt(d) if scaled else 1.0
    mean, distances = 0.0, 0.0
    for r in range(n_samples):
        score = float(np.dot(q[r], k[r])) / root
        before = score - mean
        mean += before / (r + 1)
        distances += before * (score - mean)
    return mean, distances / n_samples


# ---------------------------------------------------------------- attention
def attention__wrong_sixteenth_keys_share_out(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lets each key share itself out among the queries: the columns sum to 1."""
    scores = Q @ K.T / np.sqrt(Q.shape[1])
    e = np.exp(scores - scores.max(axis=0))
    weights = e / e.sum(axis=0)
    return weights @ V, weights


def attention__wrong_sixteenth_root_after_softmax(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides the weights by the root, then makes rows sum to 1 again: the root has no effect."""
    weights = _softmax(Q @ K.T) / Q.shape[1] ** 0.5
    weights = weights / weights.sum(axis=1, keepdims=True)
    return weights @ V, weights


def attention__wrong_sixteenth_root_of_value_width(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes the width of the values under the root: thinks that the output is what is scaled."""
    width = V.shape[1]
    A = _softmax(np.einsum("ic,jc->ij", Q, K) / math.sqrt(width), axis=-1)
    return np.einsum("ij,jv->iv", A, V), A


def attention__wrong_sixteenth_output_of_plain_scores(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Wrong variable: the returned weights are scaled, the output is mixed from plain scores."""
    scores = Q @ K.T
    scaled = scores / K.shape[1] ** 0.5
    weights = _softmax(scaled)
    output = _softmax(scores) @ V
    return output, weights


def attention__wrong_sixteenth_width_from_wrong_axis(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Unpacks the shape of K the wrong way round, so the root is that of the number of keys."""
    d_k, m = K.shape
    weights = _softmax(np.matmul(Q, K.T) / np.sqrt(d_k))
    return np.matmul(weights, V), weights


def attention__wrong_sixteenth_causal_mask(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Hides later keys, as language models do, though there should be no mask."""
    scores = Q @ K.T / Q.shape[1] ** 0.5
    seen = np.tril(np.ones(scores.shape, dtype=bool))
    weights = _softmax(np.where(seen, scores, -np.inf))
    return weights @ V, weights


def attention__wrong_sixteenth_nan_made_zero(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """No shift: large scores overflow, and the NaN are painted over with zeros."""
    with np.errstate(all="ignore"):
        powers = np.exp(Q @ K.T / np.sqrt(Q.shape[1]))
        weights = powers / powers.sum(axis=1, keepdims=True)
    weights = np.nan_to_num(weights)
    return weights @ V, weights


def attention__wrong_sixteenth_written_in_torch(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Right numbers, but computed by PyTorch, and the unit allows NumPy alone."""
    q, k, v = (torch.tensor(X) for X in (Q, K, V))
    weights = torch.softmax(q @ k.T / k.shape[1] ** 0.5, dim=-1)
    return (weights @ v).numpy(), weights.numpy()


def attention__right_sixteenth_streaming(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Unusual: goes through the keys one by one and corrects sum and mixture as the maximum grows."""
    scores = Q @ K.T / math.sqrt(Q.shape[1])
    top = scores[:, 0]
    total, mixture = np.ones(len(Q)), np.outer(np.ones(len(Q)), V[0])
    for j in range(1, len(K)):
        new_top = np.maximum(top, scores[:, j])
        fade, power = np.exp(top - new_top), np.exp(scores[:, j] - new_top)
        total = total * fade + power
        mixture = mixture * fade[:, None] + np.outer(power, V[j])
        top = new_top
    weights = np.exp(scores - top[:, None]) / total[:, None]
    return mixture / total[:, None], weights


# --------------------------------------------------------- softmax_jacobian
def softmax_jacobian__wrong_sixteenth_softmax_of_weights(p: np.ndarray) -> np.ndarray:
    """Takes p for the scores and sends the weights through a softmax once more."""
    a = _softmax(p)
    return np.diag(a) - np.outer(a, a)


def softmax_jacobian__wrong_sixteenth_each_weight_alone(p: np.ndarray) -> np.ndarray:
    """Treats each weight as a function of its own score alone: zeros off the diagonal."""
    return np.diag(p * (1 - p))


def softmax_jacobian__wrong_sixteenth_of_log_weights(p: np.ndarray) -> np.ndarray:
    """Differentiates the logarithm of the weights: the factor p_i is missing."""
    m = p.shape[0]
    J = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            J[i, j] = (1.0 if i == j else 0.0) - p[j]
    return J


def softmax_jacobian__wrong_sixteenth_squares_from_each_row(p: np.ndarray) -> np.ndarray:
    """Writes p * p for the table of products: the same squares are taken from each row."""
    return np.diag(p) - p * p


def softmax_jacobian__wrong_sixteenth_same_index_twice(p: np.ndarray) -> np.ndarray:
    """Index slip off the diagonal: -p_i p_i in place of -p_i p_j."""
    size = len(p)
    table = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            table[i, j] = p[i] * (1 - p[i]) if i == j else -p[i] * p[i]
    return table


def softmax_jacobian__wrong_sixteenth_sizes_without_sign(p: np.ndarray) -> np.ndarray:
    """Returns how far each weight moves, without the sign that says in which direction."""
    return np.abs(np.eye(len(p)) * p - p[:, None] * p)


def softmax_jacobian__wrong_sixteenth_divided_by_weight(p: np.ndarray) -> np.ndarray:
    """Writes the diagonal as p² (1/p - 1): a weight of exactly 0 gives NaN."""
    J = -np.outer(p, p)
    with np.errstate(all="ignore"):
        J[np.diag_indices(len(p))] = p**2 * (1 / p - 1)
    return J


def softmax_jacobian__wrong_sixteenth_weights_overwritten(p: np.ndarray) -> np.ndarray:
    """Right table, but the diagonal is prepared in p itself: the caller's weights are changed."""
    J = -np.multiply.outer(p, p)
    p *= 1 - p
    np.fill_diagonal(J, p)
    return J


def softmax_jacobian__right_sixteenth_sum_over_pairs(p: np.ndarray) -> np.ndarray:
    """Unusual: adds p_i p_j (e_i - e_j)(e_i - e_j)^T for each pair: what one gains, the other loses."""
    m = len(p)
    J = np.zeros((m, m))
    for i in range(m):
        for j in range(i + 1, m):
            flow = p[i] * p[j]
            J[i, i] += flow
            J[j, j] += flow
            J[i, j] -= flow
            J[j, i] -= flow
    return J


# ------------------------------------------------------- attention_backward
def attention_backward__wrong_sixteenth_each_weight_alone(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Softmax taken entry by entry, like a sigmoid: a score moves only its own weight."""
    _, A = _attention(Q, K, V)
    root = Q.shape[1] ** 0.5
    dA = d_output @ V.T
    dS = dA * A * (1 - A)
    return dS @ K / root, dS.T @ Q / root, A.T @ d_output


def attention_backward__wrong_sixteenth_balance_per_key(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Balances the slopes among the queries of a key, not among the keys of a query."""
    weights = _attention(Q, K, V)[1]
    d_weights = np.einsum("iv,jv->ij", d_output, V)
    gain = weights * d_weights
    d_scores = gain - weights * gain.sum(axis=0)
    d_scores /= math.sqrt(K.shape[1])
    return d_scores @ K, d_scores.T @ Q, weights.T @ d_output


def attention_backward__wrong_sixteenth_averaged_over_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Averages what the queries report to keys and values; shares of several users add up."""
    n, d_k = Q.shape
    A = _softmax(Q @ K.T / d_k**0.5)
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(axis=1, keepdims=True)) / d_k**0.5
    dQ = dS @ K
    dK = (dS[:, :, None] * Q[:, None, :]).mean(axis=0)
    dV = (A[:, :, None] * d_output[:, None, :]).mean(axis=0)
    return dQ, dK, dV


def attention_backward__wrong_sixteenth_no_root_for_keys(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The root is lost on the way to the keys only."""
    output, A = _attention(Q, K, V)
    root = np.sqrt(Q.shape[-1])
    mean_slope = (d_output * output).sum(axis=-1, keepdims=True)
    dS = A * (d_output @ V.T - mean_slope)
    dQ = (dS @ K) / root
    dK = dS.T @ Q
    dV = A.T @ d_output
    return dQ, dK, dV


def attention_backward__wrong_sixteenth_last_query_only(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`=` for `+=` in the loop over the queries: each overwrites what earlier ones gave to dK."""
    root = Q.shape[1] ** 0.5
    A = _softmax(Q @ K.T / root)
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for i in range(len(Q)):
        J = np.diag(A[i]) - np.outer(A[i], A[i])
        ds = J @ (V @ d_output[i]) / root
        dQ[i] = ds @ K
        dK = np.outer(ds, Q[i])
        dV += np.outer(A[i], d_output[i])
    return dQ, dK, dV


def attention_backward__wrong_sixteenth_downhill(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the changes that make the loss fall, minus the slopes, and not the slopes."""
    root = Q.shape[1] ** 0.5
    A = _softmax(Q @ K.T / root)
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(axis=1, keepdims=True)) / root
    return -dS @ K, -dS.T @ Q, -A.T @ d_output


def attention_backward__wrong_sixteenth_shifted_by_mean(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shifts the scores by the mean of the row: large scores still overflow and give NaN."""
    root = math.sqrt(Q.shape[1])
    S = Q @ K.T / root
    with np.errstate(all="ignore"):
        A = np.exp(S - S.mean(axis=1, keepdims=True))
        A = A / A.sum(axis=1, keepdims=True)
        dA = d_output @ V.T
        dS = A * (dA - np.sum(A * dA, axis=1)[:, None]) / root
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_sixteenth_measured_by_nudging(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nudges every entry instead of deriving a formula, which the task rules out."""
    inputs = [np.array(X, dtype=float) for X in (Q, K, V)]
    slopes = [np.zeros(X.shape) for X in inputs]
    step = 1e-5
    for X, slope in zip(inputs, slopes):
        for place in np.ndindex(X.shape):
            kept = X[place]
            X[place] = kept + step
            up = (_attention(*inputs)[0] * d_output).sum()
            X[place] = kept - step
            down = (_attention(*inputs)[0] * d_output).sum()
            X[place] = kept
            slope[place] = (up - down) / (2 * step)
    return tuple(slopes)


def attention_backward__right_sixteenth_differences_of_values(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unusual: a score's slope as a sum over rivals of both weights times the gap of their values."""
    root = K.shape[1] ** 0.5
    A = _softmax(Q @ K.T / root)
    gaps = V[:, None, :] - V[None, :, :]  # (m, m, d_v): how value j differs from value l
    dS = np.zeros(A.shape)
    for i in range(len(Q)):
        dS[i] = A[i] * ((gaps @ d_output[i]) @ A[i])
    dQ = np.einsum("ij,jc->ic", dS, K) / root
    dK = np.einsum("ij,ic->jc", dS, Q) / root
    dV = np.einsum("ij,iv->jv", A, d_output)
    return dQ, dK, dV
