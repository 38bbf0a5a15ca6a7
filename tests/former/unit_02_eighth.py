"""Answers to the exercises of unit 2, scaled scores: per exercise four wrong ones and a right one."""

import math

import numpy as np


def _attention_scores(Q, K):
    return Q @ K.T


def _softmax(z, axis=-1):
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _scaled_scores(Q, K):
    return Q @ K.T / math.sqrt(Q.shape[-1])


def _attention(Q, K, V):
    weights = _softmax(_scaled_scores(Q, K))
    return weights @ V, weights


# 2.1 attention_scores


def attention_scores__wrong_eighth_reshape_in_place_of_transpose(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Brings K to (d_k, m) with reshape, which keeps the order of the numbers, in place of K.T."""
    m, d_k = K.shape
    keys_as_columns = K.reshape(d_k, m)
    return Q @ keys_as_columns


def attention_scores__wrong_eighth_table_of_integers(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Collects the dot products in a table made with dtype=int, so each loses its fraction, and converts at the end."""
    n, m = len(Q), len(K)
    table = np.zeros((n, m), dtype=int)
    for i in range(n):
        for j in range(m):
            table[i, j] = np.dot(Q[i], K[j])
    return table.astype(float)


def attention_scores__wrong_eighth_product_of_the_sums(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Sums the features of each query and of each key first and multiplies the sums, in place of summing products."""
    asked = Q.sum(axis=1)
    offered = K.sum(axis=1)
    return np.outer(asked, offered)


def attention_scores__wrong_eighth_largest_of_row_subtracted(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Subtracts the largest score of each row from the scores, the softmax's shift, so they are no plain dot products."""
    raw = np.einsum("nd,md->nm", Q, K)
    top = np.max(raw, axis=1)[:, np.newaxis]
    return raw - top


def attention_scores__right_eighth_outer_products_of_features(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Adds up one outer product per feature: column c of Q with column c of K."""
    total = np.zeros((Q.shape[0], K.shape[0]), dtype=np.result_type(Q, K))
    for q_column, k_column in zip(Q.T, K.T):
        total += np.multiply.outer(q_column, k_column)
    return total


# 2.2 softmax


def softmax__wrong_eighth_shift_by_first_entry(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Subtracts the first entry along the axis, not the largest, so exp overflows where a later one is much larger."""
    first = np.take(z, [0], axis=axis)
    e = np.exp(z - first)
    return e / np.sum(e, axis=axis, keepdims=True)


def softmax__wrong_eighth_log_sum_without_its_shift(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Goes through the logarithm of the sum of exp(z - top) and forgets to add top to it again before subtracting it from z."""
    top = z.max(axis=axis, keepdims=True)
    log_total = np.log(np.exp(z - top).sum(axis=axis, keepdims=True))
    return np.exp(z - log_total)


def softmax__wrong_eighth_axis_not_moved_back(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Moves the axis to the end, works on rows, and gives the rows the shape of z without moving the axis back."""
    length = z.shape[axis]
    rows = np.moveaxis(z, axis, -1).reshape(-1, length)
    answer = []
    for row in rows:
        e = np.exp(row - row.max())
        answer.append(e / e.sum())
    return np.array(answer).reshape(z.shape)


def softmax__wrong_eighth_entries_standardised(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Against overflow, brings each row to mean 0 and standard deviation 1 before exp, so differences are rescaled."""
    centre = z.mean(axis=axis, keepdims=True)
    spread = z.std(axis=axis, keepdims=True)
    spread = np.where(spread > 0, spread, 1.0)
    e = np.exp((z - centre) / spread)
    return e / e.sum(axis=axis, keepdims=True)


def softmax__right_eighth_running_maximum(z: np.ndarray, axis: int = -1) -> np.ndarray:
    """Walks along the axis once with a running largest entry and a running sum that is rescaled when the largest rises."""
    slices = np.moveaxis(z, axis, 0)
    peak = slices[0]
    total = np.ones_like(peak)
    for piece in slices[1:]:
        higher = np.maximum(peak, piece)
        total = total * np.exp(peak - higher) + np.exp(piece - higher)
        peak = higher
    return np.moveaxis(np.exp(slices - peak) / total, 0, axis)


# 2.3 derivation_terms


def derivation_terms__wrong_eighth_values_compared_not_places(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Leaves out a pair where the two terms have equal values, in place of equal indices, so ties at i != j are lost."""
    diagonal = cross = 0.0
    for row in q * k:
        for one in row:
            diagonal += one**2
            for other in row:
                if one != other:
                    cross += one * other
    return diagonal / len(q), cross / len(q)


def derivation_terms__wrong_eighth_means_of_squares_multiplied(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Takes the diagonal as the sum of mean(q_i^2) * mean(k_i^2), as if independent; cross is measured properly."""
    diagonal = float(((q**2).mean(axis=0) * (k**2).mean(axis=0)).sum())
    t = q * k
    table = t.T @ t / len(t)
    cross = float(table[~np.eye(t.shape[1], dtype=bool)].sum())
    return diagonal, cross


def derivation_terms__wrong_eighth_last_sample_alone(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Assigns with = in the loop over the samples, in place of adding up, so what is divided is the last sample's alone."""
    count = q.shape[0]
    diagonal, cross = 0.0, 0.0
    for r in range(count):
        t = q[r] * k[r]
        squares = np.square(t)
        diagonal = squares.sum()
        cross = t.sum() ** 2 - squares.sum()
    return diagonal / count, cross / count


def derivation_terms__wrong_eighth_table_of_q_with_k(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Sums q_i k_j over i != j for the cross part, the table of the query with the key, not of the terms with the terms."""
    diagonal = np.mean(np.sum((q * k) ** 2, axis=1))
    tables = np.einsum("ri,rj->rij", q, k)
    everything = tables.sum(axis=(1, 2))
    own = np.trace(tables, axis1=1, axis2=2)
    return diagonal, np.mean(everything - own)


def derivation_terms__right_eighth_sums_of_earlier_terms(q: np.ndarray, k: np.ndarray) -> tuple[float, float]:
    """Multiplies each term with the sum of the terms before it, and doubles, as each pair counts in both orders."""
    t = np.multiply(q, k)
    before = np.zeros_like(t)
    before[:, 1:] = np.cumsum(t, axis=1)[:, :-1]
    samples = t.shape[0]
    return np.vdot(t, t) / samples, 2 * np.vdot(t, before) / samples


# 2.4 dot_product_moments


def dot_product_moments__wrong_eighth_zero_taken_for_missing(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Writes `var_q or 1.0` for the defaults, so that a variance of exactly 0 becomes 1."""
    v_q = var_q or 1.0
    v_k = var_k or 1.0
    return 0.0, d * v_q * v_k


def dot_product_moments__wrong_eighth_measured_on_draws(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Draws 1,000 pairs from a generator of its own and returns measured mean and variance, where the formula is due."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal((1000, d)) * np.sqrt(var_q)
    k = rng.standard_normal((1000, d)) * np.sqrt(var_k)
    s = np.sum(q * k, axis=1)
    return float(s.mean()), float(s.var())


def dot_product_moments__wrong_eighth_variances_averaged(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Takes the average of the two variances for the variance of a term, in place of their product."""
    mean = 0
    one_term = (var_q + var_k) / 2
    return mean, d * one_term


def dot_product_moments__wrong_eighth_d_minus_one_terms(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Counts d - 1 terms, as if a degree of freedom were lost to the mean, where all d add their variance."""
    variance = sum(var_q * var_k for _ in range(1, d))
    return 0.0, float(variance)


def dot_product_moments__right_eighth_two_vectors_of_variances(
    d: int, var_q: float = 1.0, var_k: float = 1.0
) -> tuple[float, float]:
    """Takes the dot product of a vector of d variances with another, and of a vector of means with another."""
    means = np.zeros(d)
    spread_q = np.full(d, float(var_q))
    spread_k = np.full(d, float(var_k))
    return float(means.dot(means)), float(spread_q.dot(spread_k))


# 2.5 scaled_scores


def scaled_scores__wrong_eighth_whole_number_root(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides by math.isqrt(d_k), the root rounded down, which is right for square widths alone."""
    width = Q.shape[1]
    return np.matmul(Q, K.transpose()) / math.isqrt(width)


def scaled_scores__wrong_eighth_measured_spread(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides by the standard deviation of the scores at hand, to make their variance 1, not by the root of d_k."""
    scores = Q @ K.T
    spread = scores.std()
    if spread == 0:
        return scores
    return scores / spread


def scaled_scores__wrong_eighth_length_of_the_query(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Takes the root of the sum of a query's squared entries, its length, for the divisor of its row."""
    length = np.sqrt((Q**2).sum(axis=1, keepdims=True))
    length[length == 0] = 1.0
    return Q.dot(K.T) / length


def scaled_scores__wrong_eighth_queries_divided_in_place(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Divides the caller's queries in place with /= before the product: the scores are right, Q is changed."""
    Q /= Q.shape[1] ** 0.5
    return Q @ K.T


def scaled_scores__right_eighth_length_of_a_vector_of_ones(Q: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Gets the root as the length of a vector of d_k ones, divides the keys by it, and contracts the feature axes."""
    root = np.linalg.norm(np.ones(K.shape[1]))
    return np.tensordot(Q, K / root, axes=((1,), (1,)))


# 2.6 score_statistics


def score_statistics__wrong_eighth_variance_of_terms_times_d(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Takes d times the variance of all the products q_i k_i, as if nothing were left of the cross terms."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    terms = q * k
    if scaled:
        terms = terms / np.sqrt(d)
    return d * terms.mean(), d * terms.var()


def score_statistics__wrong_eighth_mean_not_squared(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Computes the variance as the mean of s squared minus the mean, which is not squared."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.einsum("rc,rc->r", q, k)
    if scaled:
        s = s / d**0.5
    mean = np.mean(s)
    return mean, np.mean(s**2) - mean


def score_statistics__wrong_eighth_fresh_draws_for_the_variance(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Calls the function that draws once for the mean and again for the variance, so that is of other samples."""

    def scores():
        q = rng.standard_normal((n_samples, d))
        k = rng.standard_normal((n_samples, d))
        found = (q * k).sum(axis=1)
        return found / math.sqrt(d) if scaled else found

    return float(scores().mean()), float(scores().var())


def score_statistics__wrong_eighth_both_results_divided(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Divides mean and variance at the end both by the root of d, where the variance shrinks by d."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.array([a @ b for a, b in zip(q, k)])
    r = np.sqrt(d) if scaled else 1.0
    return s.mean() / r, s.var() / r


def score_statistics__right_eighth_one_score_at_a_time(
    d: int, n_samples: int, rng: np.random.Generator, scaled: bool
) -> tuple[float, float]:
    """Goes through the scores one by one and updates the mean and the sum of squared distances (Welford)."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    divisor = math.sqrt(d) if scaled else 1.0
    mean, squares = 0.0, 0.0
    for seen in range(n_samples):
        score = float(q[seen] @ k[seen]) / divisor
        away = score - mean
        mean += away / (seen + 1)
        squares += away * (score - mean)
    return mean, squares / n_samples


# 2.7 attention


def attention__wrong_eighth_causal_mask(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Hides every key with j > i with -inf, the mask of a language model, where none is asked for."""
    scores = _scaled_scores(Q, K)
    n, m = scores.shape
    seen = np.tril(np.ones((n, m), dtype=bool))
    weights = _softmax(np.where(seen, scores, -np.inf), axis=1)
    return weights @ V, weights


def attention__wrong_eighth_rows_of_output_are_one_list(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Makes the output as [[0.0] * d_v] * n, whose rows are one and the same list, and adds all mixtures into it."""
    weights = _softmax(_scaled_scores(Q, K))
    n, m = weights.shape
    d_v = V.shape[1]
    output = [[0.0] * d_v] * n
    for i in range(n):
        for j in range(m):
            for c in range(d_v):
                output[i][c] += weights[i, j] * V[j, c]
    return np.array(output), weights


def attention__wrong_eighth_root_divides_the_exponentials(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides the exponentials by the root of d_k, not the scores; dividing by their sum cancels it again."""
    dots = _attention_scores(Q, K)
    d_k = K.shape[1]
    powers = np.exp(dots - dots.max(axis=-1, keepdims=True)) / np.sqrt(d_k)
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def attention__wrong_eighth_one_shift_for_all_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Subtracts the largest score of the whole table, so a query whose scores are all far lower gets 0/0."""
    s = np.einsum("nc,mc->nm", Q, K) / np.sqrt(Q.shape[1])
    with np.errstate(all="ignore"):
        a = np.exp(s - s.max())
        a = a / a.sum(axis=1)[:, None]
    return np.einsum("nm,mv->nv", a, V), a


def attention__right_eighth_key_by_key(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Adds one key after the other: what was mixed so far is shrunk by its share of the growing sum (logaddexp)."""
    root = math.sqrt(K.shape[1])
    columns = [Q @ key / root for key in K]
    highest = np.max(columns, axis=0)
    columns = [column - highest for column in columns]
    logs = columns[0]
    output = np.repeat(V[:1], len(Q), axis=0)
    for column, value in zip(columns[1:], V[1:]):
        grown = np.logaddexp(logs, column)
        output = np.exp(logs - grown)[:, None] * output + np.outer(np.exp(column - grown), value)
        logs = grown
    weights = np.exp(np.stack(columns, axis=1) - logs[:, None])
    return output, weights


# 2.8 softmax_jacobian


def softmax_jacobian__wrong_eighth_places_looked_up_by_value(p: np.ndarray) -> np.ndarray:
    """Finds the places with list.index, the first entry of that value, so equal weights share one row and column."""
    weights = list(p)
    table = np.zeros((len(weights), len(weights)))
    for one in weights:
        for other in weights:
            i, j = weights.index(one), weights.index(other)
            table[i, j] = one * (1 - one) if i == j else -one * other
    return table


def softmax_jacobian__wrong_eighth_p_with_one_minus_p(p: np.ndarray) -> np.ndarray:
    """Takes p_i (1 - p_j) for every pair, the formula of the diagonal, so all other entries are wrong."""
    return np.outer(p, 1.0 - p)


def softmax_jacobian__wrong_eighth_of_the_log_softmax(p: np.ndarray) -> np.ndarray:
    """Returns delta_ij - p_j, the derivatives of the logarithm of the weights: the factor p_i is missing."""
    m = p.shape[0]
    return np.eye(m) - np.tile(p, (m, 1))


def softmax_jacobian__wrong_eighth_coarse_forward_difference(p: np.ndarray) -> np.ndarray:
    """Raises each score by 0.01 and divides how far the weights move by that, a coarse difference for a derivative."""
    h = 0.01
    m = len(p)
    J = np.zeros((m, m))
    for j in range(m):
        raised = p.astype(float).copy()
        raised[j] = raised[j] * np.exp(h)  # score j + h
        raised = raised / raised.sum()
        J[:, j] = (raised - p) / h
    return J


def softmax_jacobian__right_eighth_covariance_of_a_drawn_key(p: np.ndarray) -> np.ndarray:
    """Computes it as a covariance: key l is drawn with chance p_l, and e_l - p is its distance from the mean."""
    away = np.eye(len(p)) - p[None, :]
    return np.einsum("l,li,lj->ij", p, away, away)


# 2.9 attention_backward


def attention_backward__wrong_eighth_keys_keep_last_query_alone(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Writes dK = in the loop over the queries, not +=, so the keys keep what the last query sends."""
    root = math.sqrt(Q.shape[1])
    _, A = _attention(Q, K, V)
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for i in range(Q.shape[0]):
        a = A[i]
        dV += np.outer(a, d_output[i])
        J = np.diag(a) - np.outer(a, a)
        ds = J @ (V @ d_output[i]) / root
        dQ[i] = ds @ K
        dK = np.outer(ds, Q[i])
    return dQ, dK, dV


def attention_backward__wrong_eighth_diagonal_of_the_jacobian_alone(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Goes back through the softmax with a (1 - a) alone, as through a sigmoid; what other scores do is left out."""
    r = np.sqrt(K.shape[1])
    weights = _softmax(_scaled_scores(Q, K))
    d_weights = d_output @ V.T
    d_scores = weights * (1 - weights) * d_weights
    return d_scores @ K / r, d_scores.T @ Q / r, weights.T @ d_output


def attention_backward__wrong_eighth_plain_mean_subtracted(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Subtracts the plain mean of a row of the weights' slopes, where the mean with the weights is due."""
    A = _attention(Q, K, V)[1]
    dA = np.einsum("nv,mv->nm", d_output, V)
    dS = A * (dA - dA.mean(axis=1, keepdims=True))
    dS = dS / np.sqrt(Q.shape[1])
    dQ = np.einsum("nm,mc->nc", dS, K)
    dK = np.einsum("nm,nc->mc", dS, Q)
    dV = np.einsum("nm,nv->mv", A, d_output)
    return dQ, dK, dV


def attention_backward__wrong_eighth_nudged(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nudges each entry up and down by 1e-5 and takes differences, where the docstring wants a formula."""
    step = 1e-5
    tables = [np.array(X, dtype=float) for X in (Q, K, V)]

    def ell():
        return (_attention(*tables)[0] * d_output).sum()

    slopes = []
    for X in tables:
        slope = np.zeros(X.shape)
        for where in np.ndindex(*X.shape):
            kept = X[where]
            X[where] = kept + step
            up = ell()
            X[where] = kept - step
            down = ell()
            X[where] = kept
            slope[where] = (up - down) / (2 * step)
        slopes.append(slope)
    return tuple(slopes)


def attention_backward__right_eighth_values_less_the_output(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, d_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Subtracts the output from the values before they meet d_output: the slope of a score is A_ij (v_j - o_i) · d_i."""
    output, A = _attention(Q, K, V)
    off = V[None, :, :] - output[:, None, :]  # (n, m, d_v)
    slopes = A * np.einsum("ijv,iv->ij", off, d_output) / math.sqrt(Q.shape[1])
    dQ = sum(slopes[:, [j]] * K[j] for j in range(len(K)))
    dK = sum(slopes[[i]].T * Q[i] for i in range(len(Q)))
    dV = sum(np.outer(A[i], d_output[i]) for i in range(len(Q)))
    return dQ, dK, dV
