"""Unit 2, scaled scores: answers to the exercises as students would write them, four wrong and one right for each."""

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


_TABLES: dict = {}


def _table(shape):
    if shape not in _TABLES:
        _TABLES[shape] = np.empty(shape)
    return _TABLES[shape]


# ------- 2.1 attention_scores


def attention_scores__wrong_tenth_cosine(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Returns the cosine of the angle between query and key, so the lengths of both are lost."""

    def length(v):
        return np.sqrt((v * v).sum()) or 1.0

    out = np.zeros((len(Q), len(K)))
    for i, q in enumerate(Q):
        for j, k in enumerate(K):
            out[i, j] = (q * k).sum() / (length(q) * length(k))
    return out


def attention_scores__wrong_tenth_polarisation_half(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Takes half of |q + k|² - |q - k|², where a quarter is due, so all scores are twice too large."""
    plus = Q[:, None, :] + K[None, :, :]
    minus = Q[:, None, :] - K[None, :, :]
    return ((plus**2).sum(axis=2) - (minus**2).sum(axis=2)) / 2


def attention_scores__wrong_tenth_last_block_lost(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Works in blocks of 16 queries and leaves zeros for the incomplete last block when n is above 16."""
    size = 16
    n, m = Q.shape[0], K.shape[0]
    out = np.zeros((n, m))
    for block in range(max(1, n // size)):
        rows = slice(block * size, (block + 1) * size)
        out[rows] = np.einsum("ic,jc->ij", Q[rows], K)
    return out


def attention_scores__wrong_tenth_matrix_type(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Returns an np.matrix and not a plain array, so that * and indexing mean something else for the caller."""
    left = np.asmatrix(Q)
    right = np.asmatrix(K)
    return left * right.T


def attention_scores__right_tenth_gram_block(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Stacks queries and keys, takes all dot products of all rows, and cuts out the block of queries with keys."""
    everybody = np.concatenate([Q, K], axis=0)
    gram = np.inner(everybody, everybody)
    n = Q.shape[0]
    return gram[:n, n:].copy()


# ------- 2.2 softmax


def softmax__wrong_tenth_clips_entries(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Clips the entries to ±500 in place of shifting them, so entries beyond that become equal."""
    z = np.asarray(z, dtype=float)
    safe = np.clip(z, -500.0, 500.0)
    e = np.exp(safe)
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_tenth_axis_moved_back_wrongly(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Moves the axis to the end and back with source and target swapped, which goes wrong from three axes on."""
    w = np.moveaxis(z, axis, -1)
    w = np.exp(w - w.max(axis=-1)[..., None])
    w = w / w.sum(axis=-1)[..., None]
    return np.moveaxis(w, axis, -1)


def softmax__wrong_tenth_running_maximum_from_zero(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Starts the running maximum at 0, so a row of very negative entries gives 0/0."""
    shape = list(z.shape)
    del shape[axis]
    top, total = np.zeros(shape), np.zeros(shape)
    for j in range(z.shape[axis]):
        s = np.take(z, j, axis=axis)
        higher = np.maximum(top, s)
        total = total * np.exp(top - higher) + np.exp(s - higher)
        top = higher
    return np.exp(z - np.expand_dims(top, axis)) / np.expand_dims(total, axis)


def softmax__wrong_tenth_pairwise_overflow_warning(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Sums the exponentials of all differences, which is right in value but lets NumPy warn of overflow."""
    w = np.moveaxis(z, axis, -1)
    gaps = w[..., None, :] - w[..., :, None]  # [..., j, l]: z_l - z_j
    weights = 1.0 / np.exp(gaps).sum(axis=-1)
    return np.moveaxis(weights, -1, axis)


def softmax__right_tenth_divide_and_conquer(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Splits the axis into halves, treats each alone, and joins them with the factors for the common maximum."""

    def solve(rows):
        """(maximum, sum, exponentials), all relative to the maximum of these rows."""
        m = rows.shape[0]
        if m == 1:
            return rows[0], np.ones_like(rows[0]), np.ones_like(rows)
        top_a, sum_a, e_a = solve(rows[: m // 2])
        top_b, sum_b, e_b = solve(rows[m // 2 :])
        top = np.maximum(top_a, top_b)
        f_a, f_b = np.exp(top_a - top), np.exp(top_b - top)
        return top, f_a * sum_a + f_b * sum_b, np.concatenate([f_a * e_a, f_b * e_b])

    _, total, powers = solve(np.moveaxis(z, axis, 0))
    return np.moveaxis(powers / total, 0, axis)


# ------- 2.3 derivation_terms


def derivation_terms__wrong_tenth_assumes_independence(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Takes the mean of q_i² times the mean of k_i² for the diagonal, which holds for independent draws only."""
    d = q.shape[1]
    diagonal = float(np.dot((q**2).mean(axis=0), (k**2).mean(axis=0)))
    cross = 0.0
    for i in range(d):
        for j in range(d):
            if i != j:
                cross += float(np.mean(q[:, i] * k[:, i] * q[:, j] * k[:, j]))
    return diagonal, cross


def derivation_terms__wrong_tenth_half_turn_twice(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Doubles the products at distances 1 to d // 2, so for an even d the distance d/2 is counted twice."""
    t = q * k
    d = t.shape[1]
    diagonal = np.einsum("ri,ri->", t, t) / len(t)
    cross = 0.0
    for shift in range(1, d // 2 + 1):
        cross += 2 * np.einsum("ri,ri->", t, np.roll(t, shift, axis=1)) / len(t)
    return diagonal, cross


def derivation_terms__wrong_tenth_mean_of_chunk_means(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Averages the means of chunks of 100 samples, so the samples of a shorter last chunk count too much."""
    diagonals, crosses = [], []
    for start in range(0, len(q), 100):
        t = q[start : start + 100] * k[start : start + 100]
        squares = (t**2).sum(axis=1)
        diagonals.append(squares.mean())
        crosses.append((t.sum(axis=1) ** 2 - squares).mean())
    return float(np.mean(diagonals)), float(np.mean(crosses))


def derivation_terms__wrong_tenth_covariance_table(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Takes the cross part from a table of covariances, where the means of the terms are subtracted."""
    t = q * k
    diagonal = (t * t).sum(axis=1).mean()
    table = np.atleast_2d(np.cov(t, rowvar=False, bias=True))
    off = ~np.eye(t.shape[1], dtype=bool)
    return diagonal, table[off].sum()


def derivation_terms__right_tenth_running_sums(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Lets each term meet the running sum of all terms before it, twice, so no square of a sum is formed."""
    t = np.multiply(q, k)
    samples = t.shape[0]
    diagonal = np.vdot(t, t) / samples
    before = np.cumsum(t, axis=1)[:, :-1]
    cross = 2 * (t[:, 1:] * before).sum() / samples
    return float(diagonal), float(cross)


# ------- 2.4 dot_product_moments


def dot_product_moments__wrong_tenth_squares_variances(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Takes the variances for standard deviations and squares them."""
    second_moment_q = var_q**2
    second_moment_k = var_k**2
    one_term = second_moment_q * second_moment_k
    return 0.0, d * one_term


def dot_product_moments__wrong_tenth_same_variance_twice(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Uses the variance of q for both vectors, and never that of k."""
    mean = variance = 0.0
    covariance_q = np.full(d, var_q)
    covariance_k = np.full(d, var_q)
    for a, b in zip(covariance_q, covariance_k):
        mean += 0.0 * 0.0
        variance += a * b
    return mean, variance


def dot_product_moments__wrong_tenth_logarithm_of_zero(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Adds logarithms and guards only a variance of 0 in q, so a variance of 0 in k stops with an error."""
    if var_q == 0:
        return 0.0, 0.0
    return 0.0, math.exp(math.log(d) + math.log(var_q) + math.log(var_k))


def dot_product_moments__wrong_tenth_rounds_to_cents(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Rounds the variance to two decimals, so small ones become 0."""
    variance = sum(var_q * var_k for _ in range(d))
    return 0.0, round(float(variance), 2)


def dot_product_moments__right_tenth_table_of_second_moments(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Sums the products of the diagonals of both covariance tables, and of the means for the mean."""
    mean_q, mean_k = np.zeros(d), np.zeros(d)
    diagonal_q, diagonal_k = np.full(d, float(var_q)), np.full(d, float(var_k))
    return float(mean_q @ mean_k), float(np.einsum("i,i->", diagonal_q, diagonal_k))


# ------- 2.5 scaled_scores


def scaled_scores__wrong_tenth_measured_deviation(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides by the standard deviation measured in the table, not by the root of d_k."""
    scores = np.einsum("ic,jc->ij", Q, K)
    spread = np.sqrt(((scores - scores.mean()) ** 2).mean())
    if spread > 0:
        scores = scores / spread
    return scores


def scaled_scores__wrong_tenth_fourth_root_once(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides the queries by the fourth root of d_k and forgets to do so with the keys."""
    share = Q.shape[1] ** 0.25
    small_Q, small_K = Q / share, K / share
    out = np.zeros((len(small_Q), len(small_K)))
    for i, j in np.ndindex(out.shape):
        out[i, j] = np.dot(small_Q[i], K[j])
    return out


def scaled_scores__wrong_tenth_too_few_newton_steps(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Finds the root by seven Newton steps from d_k, which are too few once d_k is in the hundreds."""
    d = K.shape[1]
    root = float(d)
    for _ in range(7):
        root = (root + d / root) / 2
    return (Q @ K.T) / root


def scaled_scores__wrong_tenth_shared_table(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Keeps one table per shape and hands it out again, so a second call changes the first result."""
    out = _table((Q.shape[0], K.shape[0]))
    np.matmul(Q, K.T, out=out)
    np.divide(out, np.sqrt(Q.shape[1]), out=out)
    return out


def scaled_scores__right_tenth_fourth_roots(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides queries and keys by the fourth root of d_k each, before they meet."""
    share = math.sqrt(math.sqrt(Q.shape[-1]))
    return np.tensordot(Q / share, K / share, axes=([1], [1]))


# ------- 2.6 score_statistics


def score_statistics__wrong_tenth_mean_not_scaled(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Divides the variance by d when scaled, and leaves the mean as that of the plain scores."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.einsum("rc,rc->r", q, k)
    mean, variance = s.mean(), s.var()
    if scaled:
        variance = variance / d
    return mean, variance


def score_statistics__wrong_tenth_running_update_slip(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Updates the running sum of squares with the distance from the new mean twice, not from old and new mean."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    root = d**0.5 if scaled else 1.0
    mean, squares = 0.0, 0.0
    for count, (a, b) in enumerate(zip(q, k), start=1):
        score = float(a @ b) / root
        mean += (score - mean) / count
        distance = score - mean
        squares += distance * distance
    return mean, squares / n_samples


def score_statistics__wrong_tenth_draws_in_chunks(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws q and k alternately in chunks of 4096 rows, so above that the order of the draws is another."""
    scores = np.empty(n_samples)
    for start in range(0, n_samples, 4096):
        stop = min(start + 4096, n_samples)
        q = rng.standard_normal((stop - start, d))
        k = rng.standard_normal((stop - start, d))
        scores[start:stop] = (q * k).sum(axis=1)
    if scaled:
        scores /= np.sqrt(d)
    return scores.mean(), scores.var()


def score_statistics__wrong_tenth_draws_from_a_copy(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Draws from a copy of the generator, so the one that was handed over never moves on."""
    source = copy.deepcopy(rng)  # inputs stay as they are
    q = source.standard_normal((n_samples, d))
    k = source.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1)
    if scaled:
        s = s / d**0.5
    return float(np.mean(s)), float(np.mean((s - np.mean(s)) ** 2))


def score_statistics__right_tenth_joining_halves(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Joins count, mean and squared distances of halves pair by pair, and scales the two results at the end."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))

    def moments(rows):
        if len(rows) == 1:
            return 1, float(np.dot(q[rows[0]], k[rows[0]])), 0.0
        middle = len(rows) // 2
        n_a, mean_a, far_a = moments(rows[:middle])
        n_b, mean_b, far_b = moments(rows[middle:])
        n, gap = n_a + n_b, mean_b - mean_a
        return n, mean_a + gap * n_b / n, far_a + far_b + gap * gap * n_a * n_b / n

    count, mean, far = moments(range(n_samples))
    variance = far / count
    return (mean / math.sqrt(d), variance / d) if scaled else (mean, variance)


# ------- 2.7 attention


def attention__wrong_tenth_root_cancels(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Divides the exponentials by the root, where it cancels, so the weights are those of plain scores."""
    scores = Q @ K.T
    powers = np.exp(scores - scores.max(axis=1, keepdims=True)) / np.sqrt(K.shape[1])
    weights = powers / powers.sum(axis=1, keepdims=True)
    return weights @ V, weights


def attention__wrong_tenth_stale_running_output(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Goes key by key and rescales the running sum, but not the running output, when the maximum rises."""
    n, root = len(Q), Q.shape[1] ** 0.5
    top, total = np.full(n, -np.inf), np.zeros(n)
    mixed = np.zeros((n, V.shape[1]))
    scores = np.empty((n, len(K)))
    for j in range(len(K)):
        scores[:, j] = Q @ K[j] / root
        higher = np.maximum(top, scores[:, j])
        share = np.exp(scores[:, j] - higher)
        total = total * np.exp(top - higher) + share
        mixed = mixed + share[:, None] * V[j]
        top = higher
    weights = np.exp(scores - top[:, None]) / total[:, None]
    return mixed / total[:, None], weights


def attention__wrong_tenth_shift_by_a_bound(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Shifts by the product of the lengths, a bound for the scores, so long vectors that do not fit give 0/0."""
    scores = _scaled_scores(Q, K)
    bound = np.linalg.norm(Q, axis=1) * np.linalg.norm(K, axis=1).max() / np.sqrt(Q.shape[1])
    e = np.exp(scores - bound[:, None])
    weights = e / e.sum(axis=1, keepdims=True)
    return np.einsum("ij,jc->ic", weights, V), weights


def attention__wrong_tenth_single_precision_scores(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Computes the scores in float32 and only then returns to float64, so digits are lost, many for large scores."""
    queries, keys = Q.astype(np.float32), K.astype(np.float32)
    scores = (queries @ keys.T) / np.float32(math.sqrt(Q.shape[1]))
    weights = _softmax(scores.astype(np.float64), axis=1)
    return weights @ V, weights


def attention__right_tenth_column_of_ones(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Appends a column of ones to the values, so one product gives mixture and sum of the exponentials."""
    scores = np.inner(Q * Q.shape[1] ** -0.5, K)
    powers = np.exp(scores - np.maximum.reduce(scores, axis=1)[:, np.newaxis])
    both = powers @ np.hstack([V, np.ones((V.shape[0], 1), dtype=V.dtype)])
    sums = both[:, -1:]
    return both[:, :-1] / sums, powers / sums


# ------- 2.8 softmax_jacobian


def softmax_jacobian__wrong_tenth_of_the_logarithm(p: np.ndarray) -> np.ndarray:
    """Returns the derivatives of the logarithms of the weights, without the factor of the weight itself."""
    m = len(p)
    table = np.empty((m, m))
    for i in range(m):
        for j in range(m):
            table[i, j] = 1 - p[j] if i == j else -p[j]
    return table


def softmax_jacobian__wrong_tenth_index_twice(p: np.ndarray) -> np.ndarray:
    """Multiplies the weight of the row with itself off the diagonal, where the weight of the column is due."""
    m = p.size
    return np.array([[p[i] * ((i == j) - p[i]) for j in range(m)] for i in range(m)])


def softmax_jacobian__wrong_tenth_skips_small_weights(p: np.ndarray) -> np.ndarray:
    """Leaves zeros for all weights below 0.001, so with many keys most or all of the table is missing."""
    table = np.zeros((len(p), len(p)))
    alive = np.flatnonzero(p > 1e-3)
    for i in alive:
        table[i, alive] = -p[i] * p[alive]
        table[i, i] += p[i]
    return table


def softmax_jacobian__wrong_tenth_reshapes_the_argument(p: np.ndarray) -> np.ndarray:
    """Turns the caller's own vector into a column by setting its shape."""
    m = len(p)
    p.shape = (m, 1)
    return np.eye(m) * p - p @ p.T


def softmax_jacobian__right_tenth_what_one_gains(p: np.ndarray) -> np.ndarray:
    """Builds what each pair of weights exchanges, and sets the diagonal so that each column sums to 0."""
    table = -np.multiply.outer(p, p)
    np.fill_diagonal(table, 0)
    np.fill_diagonal(table, -table.sum(axis=0))
    return table


# ------- 2.9 attention_backward


def attention_backward__wrong_tenth_own_score_only(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Uses only the diagonal of the softmax's Jacobian, a(1 - a), as if weights did not compete."""
    root = np.sqrt(Q.shape[1])
    A = _softmax(Q @ K.T / root)
    dV = A.T @ d_output
    dA = d_output @ V.T
    dS = dA * A * (1 - A)
    return dS @ K / root, dS.T @ Q / root, dV


def attention_backward__wrong_tenth_root_missing_in_one(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Goes query by query and divides the slopes of the keys by the root, but not those of the queries."""
    root = Q.shape[1] ** 0.5
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for i in range(Q.shape[0]):
        a = _softmax(K @ Q[i] / root)
        dV += np.outer(a, d_output[i])
        J = np.diag(a) - np.outer(a, a)
        ds = J @ ((V - V[0]) @ d_output[i])
        dQ[i] = ds @ K
        dK += np.outer(ds, Q[i]) / root
    return dQ, dK, dV


def attention_backward__wrong_tenth_one_shift_for_all(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shifts all scores by the largest of the whole table, so a query far below the others gives 0/0."""
    scale = 1 / np.sqrt(K.shape[1])
    S = np.einsum("ic,jc->ij", Q, K) * scale
    E = np.exp(S - S.max())
    A = E / E.sum(axis=1, keepdims=True)
    centred = V - V.mean(axis=0)
    dA = np.einsum("iv,jv->ij", d_output, centred)
    dS = A * (dA - np.einsum("ij,ij->i", A, dA)[:, None])
    return (
        scale * np.einsum("ij,jc->ic", dS, K),
        scale * np.einsum("ij,ic->jc", dS, Q),
        np.einsum("ij,iv->jv", A, d_output),
    )


def attention_backward__wrong_tenth_centres_values_in_place(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Subtracts the mean from the caller's own values to save digits, so V is changed."""
    V -= V.mean(axis=0)  # a common part of the values moves no weight
    output, A = _attention(Q, K, V)
    delta = (d_output * output).sum(axis=1, keepdims=True)
    dS = A * (d_output @ V.T - delta) / K.shape[1] ** 0.5
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__right_tenth_values_seen_from_the_output(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Measures for each query how far every value lies from its own output, and needs no Jacobian."""
    factor = K.shape[1] ** -0.5
    relative = V - V[:1]
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for i, (q, slope) in enumerate(zip(Q, d_output, strict=True)):
        scores = factor * (K @ q)
        a = np.exp(scores - scores.max())
        a = a / a.sum()
        away = relative - a @ relative
        pull = factor * a * (away @ slope)
        dQ[i] = pull @ K
        dK += pull[:, None] * q
        dV += a[:, None] * slope
    return dQ, dK, dV
