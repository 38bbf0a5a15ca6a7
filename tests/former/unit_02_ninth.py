"""Unit 2, scaled scores: wrong and right answers to its nine exercises, as students might write them."""

import copy
import itertools
import math

import numpy as np


def _softmax(z, axis=-1):
    z = z - z.max(axis=axis, keepdims=True)
    powers = np.exp(z)
    return powers / powers.sum(axis=axis, keepdims=True)


def _attention_scores(Q, K):
    return Q @ K.T


def _scaled_scores(Q, K):
    return _attention_scores(Q, K) / float(Q.shape[1]) ** 0.5


def _attention(Q, K, V):
    weights = _softmax(_scaled_scores(Q, K), axis=1)
    return weights @ V, weights


# ------- 2.1 attention_scores
def attention_scores__wrong_ninth_cosine_similarity(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Compares directions only: each query and each key is divided by its length before the dot product."""

    def unit(rows):
        length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        return rows / np.where(length > 0, length, 1.0)

    # how well does each query fit each key
    return np.einsum("ic,jc->ij", unit(Q), unit(K))


def attention_scores__wrong_ninth_polarization_factor(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Uses q·k = (|q + k|² - |q - k|²) / 4 with the divisor 2, so that all scores are twice too large."""
    plus = Q[:, np.newaxis, :] + K[np.newaxis, :, :]
    minus = Q[:, np.newaxis, :] - K[np.newaxis, :, :]
    return ((plus**2).sum(axis=-1) - (minus**2).sum(axis=-1)) / 2


def attention_scores__wrong_ninth_leftover_features(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Adds up the features in slices of 64 and forgets the last, shorter slice if d_k is above 64 and no multiple."""
    n, width = Q.shape
    step = min(width, 64)
    total = np.zeros((n, len(K)))
    for block in range(width // step):
        part = slice(block * step, (block + 1) * step)
        total += Q[:, part] @ K[:, part].T
    return total


def attention_scores__wrong_ninth_matrix_object(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Returns an np.matrix, whose * and indexing behave otherwise, in place of a plain array."""
    queries = np.asmatrix(Q)
    keys = np.asmatrix(K)
    return queries * keys.T


def attention_scores__right_ninth_gram_block(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Stacks queries and keys, makes the table of all rows with all rows, and cuts out the corner queries × keys."""
    n = Q.shape[0]
    everybody = np.vstack((Q, K))
    table = np.inner(everybody, everybody)
    return table[:n, n:].copy()


# ------- 2.2 softmax
def softmax__wrong_ninth_mean_and_clip(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Shifts by the mean and clips at ±700, so that different entries more than 700 above the mean become equal."""
    centered = np.asarray(z, dtype=np.float64)
    centered = centered - centered.mean(axis=axis, keepdims=True)
    # e^710 would be too large for a float
    powers = np.exp(np.clip(centered, -700.0, 700.0))
    return powers / powers.sum(axis=axis, keepdims=True)


def softmax__wrong_ninth_swap_after_move(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Moves the axis to the end but swaps it back, which mixes up the other axes if three or more are concerned."""
    rows = np.moveaxis(z, axis, -1)
    shape = rows.shape
    rows = rows.reshape(-1, shape[-1])
    weights = np.empty(rows.shape, dtype=rows.dtype)
    for r, row in enumerate(rows):
        e = np.exp(row - row.max())
        weights[r] = e / e.sum()
    return np.swapaxes(weights.reshape(shape), axis, -1)


def softmax__wrong_ninth_repairs_nan_only(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Shifts only if the plain formula gave a NaN, so a sum that overflows gives zeros and tiny powers lose digits."""

    def share(values):
        e = np.exp(values)
        return e / np.sum(e, axis=axis, keepdims=True)

    with np.errstate(all="ignore"):
        weights = share(z)
        if np.isnan(weights).any():
            weights = share(z - np.max(z, axis=axis, keepdims=True))
    return weights


def softmax__wrong_ninth_asarray_is_no_copy(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Takes np.asarray for a copy and works in place, so the caller's float64 array is overwritten."""
    result = np.asarray(z, dtype=float)
    result -= np.amax(result, axis=axis, keepdims=True)
    np.exp(result, out=result)
    result /= np.sum(result, axis=axis, keepdims=True)
    return result


def softmax__right_ninth_logaddexp(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Subtracts the logarithm of the sum, folded up pair by pair with np.logaddexp, and takes one exponential."""
    below = np.asarray(z, dtype=np.float64)
    below = below - np.max(below, axis=axis, keepdims=True)
    log_sum = np.logaddexp.reduce(below, axis=axis, keepdims=True)
    return np.exp(below - log_sum)


# ------- 2.3 derivation_terms
def derivation_terms__wrong_ninth_covariance_table(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Takes cross from the covariances of the terms: the mean of each term is subtracted before terms meet."""
    t = q * k
    count = t.shape[0]
    diagonal = np.sum(t**2) / count
    away = t - t.mean(axis=0)
    table = away.T @ away / count  # (d, d)
    cross = table.sum() - np.trace(table)
    return float(diagonal), float(cross)


def derivation_terms__wrong_ninth_roll_without_axis(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Rolls the table of terms without naming the axis, so terms of one sample meet terms of its neighbour."""
    terms = np.multiply(q, k)
    samples, d = terms.shape
    diagonal = np.vdot(terms, terms) / samples
    cross = 0.0
    for shift in range(1, d):
        # every feature meets the one `shift` places further
        cross += np.sum(terms * np.roll(terms, shift)) / samples
    return diagonal, cross


def derivation_terms__wrong_ninth_mean_of_batch_means(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Averages the means of batches of 1000 samples, so a shorter last batch counts as much as a full one."""
    batch = 1000
    diagonals, crosses = [], []
    for start in range(0, len(q), batch):
        t = q[start : start + batch] * k[start : start + batch]
        squares = (t * t).sum(axis=1)
        diagonals.append(squares.mean())
        crosses.append((t.sum(axis=1) ** 2 - squares).mean())
    return np.mean(diagonals), np.mean(crosses)


def derivation_terms__wrong_ninth_assumes_independence(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Splits the mean of q_i² k_i² into the product of two means, which holds for independent q and k only."""
    q_squares = (q**2).mean(axis=0)
    k_squares = (k**2).mean(axis=0)
    diagonal = float(q_squares @ k_squares)
    s = np.einsum("rd,rd->r", q, k)
    return diagonal, float(np.mean(s**2)) - diagonal


def derivation_terms__right_ninth_running_sums(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Lets each term meet the running sum of the terms before it, twice, and takes the squares as one dot product."""
    t = np.multiply(q, k, dtype=np.float64)
    samples = t.shape[0]
    before = np.cumsum(t, axis=1)[:, :-1]  # sums of features 0 .. i-1, for i = 1 .. d-1
    pairs = np.einsum("ri,ri->", t[:, 1:], before)
    diagonal = np.einsum("ri,ri->", t, t) / samples
    return float(diagonal), float(2 * pairs / samples)


# ------- 2.4 dot_product_moments
def dot_product_moments__wrong_ninth_variances_squared(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Takes var_q and var_k for standard deviations and squares them once more."""
    spread_of_term = var_q * var_k
    variance = sum(spread_of_term**2 for _ in range(d))
    return 0.0, float(variance)


def dot_product_moments__wrong_ninth_same_vector_twice(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Multiplies the list of the query's variances with itself: var_k does not enter."""
    of_q = np.full(d, float(var_q))
    of_k = np.full(d, float(var_q))
    return 0.0, float(of_q @ of_k)


def dot_product_moments__wrong_ninth_zero_means_not_given(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Takes a var_k of 0 for one that was not given, and uses var_q in its place."""
    var_k = var_k or var_q
    mean = 0.0
    sigma = math.sqrt(d * var_q) * math.sqrt(var_k)
    return mean, sigma**2


def dot_product_moments__wrong_ninth_simulated(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Draws a thousand pairs and returns what it measures, instead of the derived values."""
    rng = np.random.default_rng(0)
    q = math.sqrt(var_q) * rng.standard_normal((1000, d))
    k = math.sqrt(var_k) * rng.standard_normal((1000, d))
    s = (q * k).sum(axis=1)
    # every draw once more with the opposite sign, so that the mean is exact
    s = np.concatenate([s, -s])
    return math.fsum(s) / len(s), float(s.var())


def dot_product_moments__right_ninth_adds_terms(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Adds up mean and second moment term by term, with sums that do not round on the way."""
    mean_of_factor = 0.0
    mean = math.fsum(itertools.repeat(mean_of_factor * mean_of_factor, d))
    second_moment_of_term = float(var_q) * float(var_k)
    variance = math.fsum(itertools.repeat(second_moment_of_term, d)) - mean**2
    return mean, variance


# ------- 2.5 scaled_scores
def scaled_scores__wrong_ninth_measured_spread(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides by the root of d times the measured mean squares of the entries, to make the variance 1 for all sizes."""
    d_k = Q.shape[1]
    sigma_q = np.sqrt(np.mean(Q**2)) or 1.0
    sigma_k = np.sqrt(np.mean(K**2)) or 1.0
    return np.dot(Q, K.T) / (np.sqrt(d_k) * sigma_q * sigma_k)


def scaled_scores__wrong_ninth_root_on_both_sides(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides the queries and the keys each by the root, so the scores are divided by d_k itself."""
    scale = Q.shape[-1] ** -0.5
    small_q = np.multiply(Q, scale)
    small_k = np.multiply(K, scale)
    return np.inner(small_q, small_k)


def scaled_scores__wrong_ninth_clipped(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Clips the dot products at ±1000 before it divides, so large scores come out too small and alike."""
    dots = np.array([[np.dot(query, key) for key in K] for query in Q])
    # nobody's exponential should overflow later
    dots = np.clip(dots, -1e3, 1e3)
    return dots / math.sqrt(len(Q[0]))


def scaled_scores__wrong_ninth_half_the_memory(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Computes and returns float32 for float64 inputs."""
    queries, keys = Q.astype(np.float32), K.astype(np.float32)
    return queries @ keys.T / K.shape[1] ** 0.5


def scaled_scores__right_ninth_fourth_roots(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Multiplies both sides by d_k to the power of -1/4 and adds up one outer product per feature."""
    (n, d_k), m = Q.shape, K.shape[0]
    quarter = float(d_k) ** -0.25
    table = np.zeros((n, m))
    for of_queries, of_keys in zip(Q.T, K.T, strict=True):
        table += np.multiply.outer(quarter * of_queries, quarter * of_keys)
    return table


# ------- 2.6 score_statistics
def score_statistics__wrong_ninth_variance_by_root(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Scales mean and variance afterwards by the same root, though the variance must be divided by its square."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    scores = np.einsum("rc,rc->r", q, k)
    divisor = np.sqrt(d) if scaled else 1.0
    return scores.mean() / divisor, scores.var() / divisor


def score_statistics__wrong_ninth_unscaled_mean_subtracted(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Subtracts the square of the mean of the plain scores from the mean square of the scaled ones."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.array([row_q @ row_k for row_q, row_k in zip(q, k)])
    mean = s.mean()
    small = s / d**0.5 if scaled else s
    variance = np.mean(small * small) - mean**2
    return small.mean(), variance


def score_statistics__wrong_ninth_draws_in_batches(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws q and k in turns for batches of 4096, so above that number the order of the draws is not the asked one."""
    scores = np.empty(n_samples)
    for start in range(0, n_samples, 4096):
        stop = min(start + 4096, n_samples)
        q = rng.standard_normal((stop - start, d))
        k = rng.standard_normal((stop - start, d))
        scores[start:stop] = (q * k).sum(axis=1)
    if scaled:
        scores /= np.sqrt(d)
    return scores.mean(), scores.var()


def score_statistics__wrong_ninth_draws_from_a_copy(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws from a copy of the generator to leave the input as it is, so the next call gets the same numbers again."""
    own = copy.deepcopy(rng)
    q, k = (own.standard_normal((n_samples, d)) for _ in range(2))
    scores = np.sum(q * k, axis=-1)
    scores = scores * d**-0.5 if scaled else scores
    return float(np.mean(scores)), float(np.var(scores))


def score_statistics__right_ninth_running_update(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Scales the queries before they meet the keys, and updates mean and squared distances score by score (Welford)."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    if scaled:
        q = q / math.sqrt(d)
    scores = (q[:, None, :] @ k[:, :, None]).reshape(n_samples)
    mean, squares = 0.0, 0.0
    for count, score in enumerate(scores.tolist(), start=1):
        off = score - mean
        mean += off / count
        squares += off * (score - mean)
    return mean, squares / n_samples


# ------- 2.7 attention
def attention__wrong_ninth_unit_length_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Brings queries and keys to the length of the fourth root of d first, so their own lengths no longer count."""
    d_k = Q.shape[1]

    def normed(rows):
        size = np.sqrt(np.mean(rows**2, axis=1, keepdims=True))
        return rows / np.where(size == 0, 1.0, size)

    scores = normed(Q) @ normed(K).T / d_k**0.5
    weights = _softmax(scores, axis=1)
    return weights @ V, weights


def attention__wrong_ninth_reshape_for_transpose(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Turns the keys round with reshape, which keeps the order of the numbers, in place of a transpose."""
    n, d_k = Q.shape
    m = K.shape[0]
    keys = K.reshape(d_k, m)
    scores = np.matmul(Q, keys) / math.sqrt(d_k)
    weights = np.stack([_softmax(row) for row in scores])
    output = np.zeros((n, V.shape[1]))
    for i in range(n):
        for j in range(m):
            output[i] += weights[i, j] * V[j]
    return output, weights


def attention__wrong_ninth_shift_by_a_bound(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Shifts each row by |q| times the largest |k| instead of its largest score, so long rows far below it give 0/0."""
    root = Q.shape[1] ** 0.5
    scores = Q @ K.T / root
    # no dot product is larger than the product of the lengths
    bound = np.linalg.norm(Q, axis=1) * np.linalg.norm(K, axis=1).max() / root
    powers = np.exp(scores - bound[:, None])
    weights = powers / powers.sum(axis=1)[:, None]
    return weights @ V, weights


def attention__wrong_ninth_torch_inside(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lets PyTorch do the softmax, in a function nested inside, where NumPy alone is allowed."""

    def shares(scores):
        import torch

        return torch.softmax(torch.from_numpy(scores), dim=-1).numpy()

    weights = shares(_scaled_scores(Q, K))
    return np.einsum("nm,mv->nv", weights, V), weights


def attention__right_ninth_column_of_ones(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Appends a column of ones to the values, mixes with the unnormalised powers, and divides by that column last."""
    keys = K * (1.0 / math.sqrt(K.shape[1]))
    table = np.inner(keys, Q)  # (m, n): one column per query
    powers = np.exp(table - np.max(table, axis=0))
    with_ones = np.column_stack((V, np.ones(len(V))))
    mixed = powers.T @ with_ones
    total = mixed[:, -1:]
    return mixed[:, :-1] / total, powers.T / total


# ------- 2.8 softmax_jacobian
def softmax_jacobian__wrong_ninth_of_the_logarithms(p: np.ndarray) -> np.ndarray:
    """Returns the derivatives of the logarithms of the weights, 1[i = j] - p_j, not of the weights."""
    m = p.shape[0]
    table = np.tile(-p, (m, 1))
    table[range(m), range(m)] += 1.0
    return table


def softmax_jacobian__wrong_ninth_diagonal_twice(p: np.ndarray) -> np.ndarray:
    """Adds p (1 - p) to a diagonal that holds -p² already, so the diagonal is p - 2p²."""
    J = -np.multiply.outer(p, p)
    own = np.diag_indices(len(p))
    J[own] += p * (1 - p)
    return J


def softmax_jacobian__wrong_ninth_a_zero_means_saturated(p: np.ndarray) -> np.ndarray:
    """Returns zeros as soon as one weight is exactly 0, although the other weights may still be moving."""
    m = len(p)
    J = np.zeros((m, m))
    if p.min() == 0:  # saturated: nothing moves
        return J
    for i in range(m):
        for j in range(m):
            J[i, j] = p[i] * (1 - p[i]) if i == j else -p[i] * p[j]
    return J


def softmax_jacobian__wrong_ninth_turns_the_argument(p: np.ndarray) -> np.ndarray:
    """Makes a column of the weights by reshaping the caller's own array, which stays a column."""
    m = p.size
    p.shape = (m, 1)
    return np.diagflat(p) - p @ p.T


def softmax_jacobian__right_ninth_exchange_between_pairs(p: np.ndarray) -> np.ndarray:
    """Lets every pair of weights exchange p_i p_j, so a diagonal entry is the sum of what its row exchanges."""
    exchange = np.outer(p, p)
    np.fill_diagonal(exchange, 0.0)
    return np.diag(exchange.sum(axis=1)) - exchange


# ------- 2.9 attention_backward
def attention_backward__wrong_ninth_plain_mean_subtracted(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Subtracts the plain mean over the keys, and not the mean with the weights, on the way through the softmax."""
    _, A = _attention(Q, K, V)
    root = Q.shape[1] ** 0.5
    dV = A.T @ d_output
    dA = d_output @ V.T
    # what all keys share does not count
    dS = A * (dA - dA.mean(axis=1, keepdims=True)) / root
    return dS @ K, dS.T @ Q, dV


def attention_backward__wrong_ninth_root_lost_on_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scales the queries on the way forward and forgets to scale what comes back to them."""
    queries = Q / float(Q.shape[1]) ** 0.5
    A = _softmax(queries @ K.T)
    dA = np.einsum("iv,jv->ij", d_output, V)
    dS = A * dA - A * np.einsum("ij,ij->i", A, dA)[:, None]
    dQ = np.einsum("ij,jc->ic", dS, K)
    dK = np.einsum("ij,ic->jc", dS, queries)
    dV = np.einsum("ij,iv->jv", A, d_output)
    return dQ, dK, dV


def attention_backward__wrong_ninth_sure_queries_skipped(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes queries with a weight above 0.98 for saturated and gives them and their keys no slope at all."""
    root = K.shape[1] ** 0.5
    _, weights = _attention(Q, K, V)
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for i, a in enumerate(weights):
        dV += np.outer(a, d_output[i])
        if a.max() > 0.98:  # J is all zeros there
            continue
        J = np.diag(a) - np.outer(a, a)
        ds = J @ (V @ d_output[i]) / root
        dQ[i] = ds @ K
        dK += np.outer(ds, Q[i])
    return dQ, dK, dV


def attention_backward__wrong_ninth_by_nudging(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Measures the slopes of queries and keys by differences, which the task rules out and which lose digits."""
    step = 1e-5

    def ell(queries, keys):
        return float(np.sum(_attention(queries, keys, V)[0] * d_output))

    dQ, dK = np.zeros(Q.shape), np.zeros(K.shape)
    for place in np.ndindex(*Q.shape):
        bump = np.zeros(Q.shape)
        bump[place] = step
        dQ[place] = (ell(Q + bump, K) - ell(Q - bump, K)) / (2 * step)
    for place in np.ndindex(*K.shape):
        bump = np.zeros(K.shape)
        bump[place] = step
        dK[place] = (ell(Q, K + bump) - ell(Q, K - bump)) / (2 * step)
    return dQ, dK, _attention(Q, K, V)[1].T @ d_output


def attention_backward__right_ninth_distances_from_the_output(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Query by query: a score pulls the output towards its value, so its slope is a_j (v_j - output) · d_output."""
    scale = 1.0 / math.sqrt(Q.shape[1])
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    middle = V.mean(axis=0)  # a shift of all values moves no weight
    values = V - middle
    for i, (query, wanted) in enumerate(zip(Q, d_output, strict=True)):
        a = _softmax(K @ query * scale)
        pull = a * ((values - a @ values) @ wanted) * scale
        dQ[i] = pull @ K
        dK += pull[:, None] * query
        dV += a[:, None] * wanted
    return dQ, dK, dV
