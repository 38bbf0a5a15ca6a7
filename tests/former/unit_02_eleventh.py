"""Unit 2, scaled scores: wrong and right answers, as students might write them (eleventh set)."""

import copy
import math

import numpy as np


# Right versions of earlier functions, which later answers may call.
def _attention_scores(Q, K):
    return Q @ K.T


def _softmax(z, axis=-1):
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _scaled_scores(Q, K):
    return _attention_scores(Q, K) / Q.shape[1] ** 0.5


def _attention(Q, K, V):
    weights = _softmax(_scaled_scores(Q, K))
    return weights @ V, weights


def _softmax_jacobian(p):
    return np.diag(p) - np.outer(p, p)


# ------- 2.1 attention_scores
def attention_scores__wrong_eleventh_negative_means_no_fit(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Cuts negative scores off at 0, as if a key could fit a query no worse than not at all."""
    fit = np.zeros((len(Q), len(K)), dtype=np.result_type(Q, K))
    for feature in range(Q.shape[1]):
        fit += np.multiply.outer(Q[:, feature], K[:, feature])
    return np.where(fit > 0, fit, 0.0)


def attention_scores__wrong_eleventh_loops_in_other_order(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Collects the dot products key by key and reshapes them as if they came query by query: scrambled."""
    n, m = Q.shape[0], K.shape[0]
    products = []
    for key in K:
        for query in Q:
            products.append(query.dot(key))
    return np.array(products).reshape(n, m)


def attention_scores__wrong_eleventh_one_by_one_is_a_number(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Returns a bare number, not an array (1, 1), when there is one query and one key only."""
    if Q.shape[0] == K.shape[0] == 1:
        return np.vdot(Q, K)
    return np.einsum("nc,mc->nm", Q, K)


def attention_scores__wrong_eleventh_matrix_class(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Returns a np.matrix, for which * means the matrix product, and not a plain array."""
    queries = np.asmatrix(Q)
    keys = np.asmatrix(K)
    return queries * keys.T


def attention_scores__right_eleventh_corner_of_gram_table(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Stacks queries on keys, makes the table of all with all, and cuts out the corner queries with keys."""
    everyone = np.concatenate([Q, K], axis=0)
    gram = np.inner(everyone, everyone)
    n = Q.shape[0]
    return gram[:n, n:].copy()


# ------- 2.2 softmax
def softmax__wrong_eleventh_shift_by_mean(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Shifts each row by its mean, not its largest entry, so that far entries overflow and give NaN."""

    def one_row(row):
        centred = row - np.mean(row)
        grown = np.exp(centred)
        return grown / np.sum(grown)

    return np.apply_along_axis(one_row, axis, z)


def softmax__wrong_eleventh_sum_not_rescaled(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Keeps a running maximum and sum, and does not rescale the old sum when a new maximum comes."""
    layers = np.moveaxis(z, axis, 0)
    top = layers[0]
    total = np.ones_like(top)
    for layer in layers[1:]:
        top = np.maximum(top, layer)
        total = total + np.exp(layer - top)
    return np.moveaxis(np.exp(layers - top) / total, 0, axis)


def softmax__wrong_eleventh_shift_only_beyond_500(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Shifts only if some entry exceeds 500 in size, so float32 entries between 89 and 500 overflow."""
    shift = 0
    if np.abs(z).max() > 500:
        shift = np.amax(z, axis=axis, keepdims=True)
    e = np.exp(z - shift)
    return e / np.sum(e, axis=axis, keepdims=True)


def softmax__wrong_eleventh_asarray_is_no_copy(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Works in place on np.asarray(z), which for float64 is the caller's own array."""
    work = np.asarray(z, dtype=np.float64)
    work -= work.max(axis=axis, keepdims=True)
    np.exp(work, out=work)
    work /= work.sum(axis=axis, keepdims=True)
    return work


def softmax__right_eleventh_logaddexp(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Subtracts the logarithm of the sum of exponentials, gathered by np.logaddexp.reduce, and takes exp once."""
    logs = np.array(z, dtype=np.float64)
    logs = logs - np.maximum.reduce(logs, axis=axis, keepdims=True)
    return np.exp(logs - np.logaddexp.reduce(logs, axis=axis, keepdims=True))


# ------- 2.3 derivation_terms
def derivation_terms__wrong_eleventh_averages_multiplied(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Averages q_i q_j and k_i k_j apart and multiplies the averages, as if q and k were independent in the draws."""
    samples, d = q.shape
    diagonal = np.mean(np.sum(np.square(q * k), axis=1))
    table_q = q.T @ q / samples
    table_k = k.T @ k / samples
    together = table_q * table_k
    cross = together.sum() - np.trace(together)
    return diagonal, cross


def derivation_terms__wrong_eleventh_half_way_round_twice(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Goes through distances up to d // 2 and doubles each, which counts the distance d / 2 twice if d is even."""
    terms = q * k
    d = terms.shape[1]
    diagonal = (terms**2).sum() / len(terms)
    cross = 0.0
    for distance in range(1, d // 2 + 1):
        partner = np.roll(terms, distance, axis=1)
        cross += 2 * np.einsum("ri,ri->", terms, partner) / len(terms)
    return diagonal, cross


def derivation_terms__wrong_eleventh_compares_values(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Takes as cross terms the pairs whose values differ, not whose indices do: equal terms are lost."""
    diagonal = cross = 0.0
    for t in q * k:
        column, row = np.meshgrid(t, t)
        diagonal += t @ t
        cross += (column * row)[column != row].sum()
    return diagonal / len(q), cross / len(q)


def derivation_terms__wrong_eleventh_mean_of_block_means(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Averages the averages of blocks of 256 samples, though the last block is mostly shorter."""
    diagonals, crosses = [], []
    for start in range(0, len(q), 256):
        block = q[start : start + 256] * k[start : start + 256]
        squares = (block * block).sum(axis=1)
        whole = block.sum(axis=1) ** 2
        diagonals.append(squares.mean())
        crosses.append((whole - squares).mean())
    return float(np.mean(diagonals)), float(np.mean(crosses))


def derivation_terms__right_eleventh_running_sum(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Goes through the features once and lets each term meet, twice, the sum of all terms before it."""
    samples = len(q)
    before = np.zeros(samples)
    squares = np.zeros(samples)
    pairs = np.zeros(samples)
    for q_i, k_i in zip(q.T, k.T, strict=True):
        t_i = q_i * k_i
        pairs += 2 * t_i * before
        squares += t_i * t_i
        before += t_i
    return squares.mean(), pairs.mean()


# ------- 2.4 dot_product_moments
def dot_product_moments__wrong_eleventh_average_of_variances(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Gives each term the average of the two variances, where their product is due."""
    variance = 0.0
    for _ in range(d):
        variance += 0.5 * (var_q + var_k)
    return 0.0, variance


def dot_product_moments__wrong_eleventh_var_q_twice(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Takes the deviation of the key from var_q, so var_k is never used."""
    sigma_q, sigma_k = math.sqrt(var_q), math.sqrt(var_q)
    deviation = math.sqrt(d) * sigma_q * sigma_k
    return 0.0, deviation**2


def dot_product_moments__wrong_eleventh_zero_var_k_is_missing(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Takes a var_k of 0 for a missing one and puts var_q in its place."""
    per_term = var_q * (var_k or var_q)
    return 0.0, d * per_term


def dot_product_moments__wrong_eleventh_simulated(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Draws numbers from NumPy's global generator and measures, where the exact formula without draws is due."""
    np.random.seed(0)
    scores = np.zeros(5000)
    for _ in range(d):
        scores += np.random.normal(0, var_q**0.5, 5000) * np.random.normal(0, var_k**0.5, 5000)
    return round(float(scores.mean())), float(scores.var())


def dot_product_moments__right_eleventh_four_outcomes(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Enumerates the four outcomes of a term made of two coins with these variances, and adds up d such terms."""
    heads_q, heads_k = float(var_q) ** 0.5, float(var_k) ** 0.5
    outcomes = [x * y for x in (heads_q, -heads_q) for y in (heads_k, -heads_k)]
    centre = math.fsum(outcomes) / 4
    spread = math.fsum((t - centre) ** 2 for t in outcomes) / 4
    return d * centre, d * spread


# ------- 2.5 scaled_scores
def scaled_scores__wrong_eleventh_measured_deviation(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides by the measured standard deviation of this table, not by the root of d_k."""
    table = np.tensordot(Q, K, axes=([1], [1]))
    spread = np.sqrt(np.mean((table - table.mean()) ** 2))
    return table / spread if spread > 0 else table


def scaled_scores__wrong_eleventh_width_from_size(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Finds the width as the number of entries of Q by the number of keys, where the number of queries is due."""
    n, m = len(Q), len(K)
    width = Q.size / m
    result = np.empty((n, m))
    for i in range(n):
        result[i] = K @ Q[i] / math.sqrt(width)
    return result


def scaled_scores__wrong_eleventh_own_root_stops_early(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Finds the root by six steps of Newton's rule from d_k, which do not suffice for wide queries."""
    d_k = Q.shape[-1]
    root = float(d_k)
    for _ in range(6):
        root = (root + d_k / root) / 2
    return _attention_scores(Q, K) / root


def scaled_scores__wrong_eleventh_keys_shrunk_in_place(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides the caller's keys themselves, row by row, by the root."""
    root = math.sqrt(K.shape[1])
    columns = []
    for key in K:
        key /= root
        columns.append(Q @ key)
    return np.stack(columns, axis=1)


def scaled_scores__right_eleventh_fourth_root_on_each_side(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides queries and keys by the fourth root of d_k each, before they meet."""
    share = Q.shape[1] ** -0.25
    return np.inner(share * Q, share * K)


# ------- 2.6 score_statistics
def score_statistics__wrong_eleventh_variance_by_root(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Divides the variance by the root of d as it does the mean, where the variance is divided by d."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    scores = np.einsum("rc,rc->r", q, k)
    moments = np.array([scores.mean(), scores.var()])
    if scaled:
        moments /= d**0.5
    return moments[0], moments[1]


def score_statistics__wrong_eleventh_running_variance_slip(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Updates the running sum of squares with the old distance twice, not the old times the new one."""
    q = rng.standard_normal(size=(n_samples, d))
    k = rng.standard_normal(size=(n_samples, d))
    divisor = math.sqrt(d) if scaled else 1.0
    mean = squares = 0.0
    for count, (query, key) in enumerate(zip(q, k, strict=True), start=1):
        away = query @ key / divisor - mean
        mean += away / count
        if count > 1:
            squares += away * away
    return mean, squares / n_samples


def score_statistics__wrong_eleventh_blocks_of_4096(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws q and k in turns in blocks of 4096 rows, so beyond 4096 samples the draws come in another order."""
    pieces = []
    left = n_samples
    while left > 0:
        rows = min(left, 4096)
        q = rng.standard_normal((rows, d))
        k = rng.standard_normal((rows, d))
        pieces.append((q * k).sum(axis=1))
        left -= rows
    s = np.concatenate(pieces)
    if scaled:
        s = s / np.sqrt(d)
    return s.mean(), s.var()


def score_statistics__wrong_eleventh_draws_from_a_copy(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws from a copy of the generator, so the one that it is handed stays where it was."""
    own = copy.deepcopy(rng)
    q, k = (own.standard_normal((n_samples, d)) for _ in range(2))
    s = np.sum(q * k, axis=-1)
    s = s / math.sqrt(d) if scaled else s
    average = s.sum() / n_samples
    return average, np.square(s - average).sum() / n_samples


def score_statistics__right_eleventh_merged_halves(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Halves the scores again and again, and merges counts, means and sums of squared distances of the halves."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    if scaled:
        q *= d**-0.5
    scores = [float(query @ key) for query, key in zip(q, k, strict=True)]

    def moments(low, high):
        if high - low == 1:
            return scores[low], 0.0
        middle = (low + high) // 2
        left_mean, left_squares = moments(low, middle)
        right_mean, right_squares = moments(middle, high)
        left, right, both = middle - low, high - middle, high - low
        gap = right_mean - left_mean
        mean = left_mean + gap * right / both
        return mean, left_squares + right_squares + gap * gap * left * right / both

    mean, squares = moments(0, n_samples)
    return mean, squares / n_samples


# ------- 2.7 attention
def attention__wrong_eleventh_keys_share_themselves_out(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lets each key share itself out among the queries: the columns of the weights sum to 1, not the rows."""
    by_key = _scaled_scores(K, Q)
    weights = _softmax(by_key, axis=1).T
    return weights @ V, weights


def attention__wrong_eleventh_root_of_value_width(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes the width under the root from the values, where that of the queries is due."""
    (n, _), (m, width) = Q.shape, V.shape
    weights = np.empty((n, m))
    output = np.empty((n, width))
    for i, query in enumerate(Q):
        scores = K @ query / math.sqrt(width)
        powers = np.exp(scores - scores.max())
        weights[i] = powers / powers.sum()
        output[i] = weights[i] @ V
    return output, weights


def attention__wrong_eleventh_old_blocks_not_rescaled(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes keys in blocks of 32 and rescales the sum, but not the mixture, when a later block has a larger score."""
    scores = Q @ K.T * Q.shape[1] ** -0.5
    n, m = scores.shape
    top = np.full((n, 1), -np.inf)
    total = np.zeros((n, 1))
    mixture = np.zeros((n, V.shape[1]))
    for start in range(0, m, 32):
        part = scores[:, start : start + 32]
        higher = np.maximum(top, part.max(axis=1, keepdims=True))
        powers = np.exp(part - higher)
        total = total * np.exp(top - higher) + powers.sum(axis=1, keepdims=True)
        mixture = mixture + powers @ V[start : start + 32]
        top = higher
    return mixture / total, np.exp(scores - top) / total


def attention__wrong_eleventh_weights_not_normalised(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides only the output by the sums of the exponentials and returns the exponentials as weights."""
    scores = np.einsum("ic,jc->ij", Q, K) / math.sqrt(K.shape[1])
    weights = np.exp(scores - np.max(scores, axis=1)[:, None])
    output = np.einsum("ij,jv->iv", weights, V) / np.sum(weights, axis=1)[:, None]
    return output, weights


def attention__right_eleventh_column_of_ones(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Appends a column of ones to the values, so that one product gives mixture and sum, and divides last."""
    scores = (Q * Q.shape[1] ** -0.5) @ K.T
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    ones = np.ones((V.shape[0], 1), dtype=V.dtype)
    both = powers @ np.hstack([ones, V])
    total = both[:, :1]
    return both[:, 1:] / total, powers / total


# ------- 2.8 softmax_jacobian
def softmax_jacobian__wrong_eleventh_loss_shared_evenly(p: np.ndarray) -> np.ndarray:
    """Lets all other weights lose equal parts of what one gains, where they lose in proportion to their size."""
    m = len(p)
    gain = p * (1 - p)
    if m == 1:
        return gain.reshape(1, 1)
    table = np.tile(-gain / (m - 1), (m, 1))
    np.fill_diagonal(table, gain)
    return table


def softmax_jacobian__wrong_eleventh_transposed_vector(p: np.ndarray) -> np.ndarray:
    """Writes p @ p.T for the table of products, which for a vector is one number, taken off every entry."""
    on_diagonal = np.diag(p)
    products = p @ p.T
    return on_diagonal - products


def softmax_jacobian__wrong_eleventh_nearly_sure_is_sure(p: np.ndarray) -> np.ndarray:
    """Returns zeros as soon as one weight exceeds 0.999, where small derivatives are left."""
    m = p.shape[0]
    table = np.zeros((m, m))
    if p.max() > 0.999:
        return table
    for i, j in np.ndindex(m, m):
        table[i, j] = p[i] * ((i == j) - p[j])
    return table


_TABLES = {}


def softmax_jacobian__wrong_eleventh_table_kept(p: np.ndarray) -> np.ndarray:
    """Keeps one table per size and fills it anew in each call, so an earlier result changes."""
    m = p.size
    if m not in _TABLES:
        _TABLES[m] = np.empty((m, m))
    table = _TABLES[m]
    np.multiply(-p[:, np.newaxis], p, out=table)
    table.flat[:: m + 1] += p
    return table


def softmax_jacobian__right_eleventh_covariance_of_choice(p: np.ndarray) -> np.ndarray:
    """Takes the covariance of a one-hot choice that falls on key l with probability p_l."""
    away = np.eye(p.size) - p
    return np.einsum("l,li,lj->ij", p, away, away)


# ------- 2.9 attention_backward
def attention_backward__wrong_eleventh_only_own_score(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lets each weight depend on its own score alone: only the diagonal of the softmax's Jacobian is used."""
    root = Q.shape[1] ** 0.5
    _, weights = _attention(Q, K, V)
    d_weights = d_output @ V.T
    d_scores = d_weights * weights * (1 - weights)
    return d_scores @ K / root, d_scores.T @ Q / root, weights.T @ d_output


def attention_backward__wrong_eleventh_keys_without_root(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Divides the slopes of the queries by the root, and forgets it for those of the keys."""
    root = math.sqrt(Q.shape[1])
    dQ, dK, dV = (np.zeros(X.shape) for X in (Q, K, V))
    for i, (query, slope) in enumerate(zip(Q, d_output, strict=True)):
        p = _softmax(K @ query / root)
        by_score = _softmax_jacobian(p).T @ (V @ slope)
        dQ[i] = by_score @ K / root
        dK += np.outer(by_score, query)
        dV += np.outer(p, slope)
    return dQ, dK, dV


def attention_backward__wrong_eleventh_one_shift_for_all(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shifts all scores by the largest of the whole table, so a query with far lower scores gets 0/0."""
    factor = 1 / np.sqrt(K.shape[1])
    S = np.einsum("ik,jk->ij", Q, K) * factor
    E = np.exp(S - S.max())
    A = E / E.sum(axis=1, keepdims=True)
    G = np.einsum("iv,jv->ij", d_output, V)
    G = A * (G - np.einsum("ij,ij->i", A, G)[:, None]) * factor
    return np.einsum("ij,jk->ik", G, K), np.einsum("ij,ik->jk", G, Q), np.einsum("ij,iv->jv", A, d_output)


def attention_backward__wrong_eleventh_scores_nudged(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Measures the slopes of the scores by differences, column by column, where a formula is asked for."""
    scores, step = _scaled_scores(Q, K), 1e-5
    weights = _softmax(scores)

    def losses(table):
        return (_softmax(table) @ V * d_output).sum(axis=1)

    at_rest = losses(scores)
    d_scores = np.zeros(scores.shape)
    for j in range(len(K)):
        moved = scores.copy()
        moved[:, j] += step
        d_scores[:, j] = (losses(moved) - at_rest) / step
    d_scores /= math.sqrt(Q.shape[1])
    return d_scores @ K, d_scores.T @ Q, weights.T @ d_output


def attention_backward__right_eleventh_values_around_their_mixture(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Goes query by query and weighs how far each value lies from the mixture, so that nothing must cancel."""
    shrink = Q.shape[1] ** -0.5
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for i in range(len(Q)):
        scores = K @ Q[i] * shrink
        p = np.exp(scores - scores.max())
        p /= p.sum()
        around = V - V[0]
        around = around - p @ around
        pull = shrink * p * (around @ d_output[i])
        dQ[i] = pull @ K
        dK += pull[:, None] * Q[i]
        dV += p[:, None] * d_output[i]
    return dQ, dK, dV
