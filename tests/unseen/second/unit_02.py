"""Answers to unit 2, scaled scores: wrong ones with their cause, and right ones of unusual form."""

import math
import statistics

import numpy as np


# Earlier exercises' right versions, for answers that call them.
def attention_scores(Q, K):
    return Q @ K.T


def softmax(z, axis=-1):
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def scaled_scores(Q, K):
    return Q @ K.T / Q.shape[1] ** 0.5


def attention(Q, K, V):
    weights = softmax(scaled_scores(Q, K))
    return weights @ V, weights


def softmax_jacobian(p):
    return np.diag(p) - np.outer(p, p)


# ---------------------------------------------------------------- attention_scores


def attention_scores__wrong_b_scaled_by_root(Q, K):
    """The scores are divided by the root of d_k, although plain dot products are asked for."""
    d_k = Q.shape[-1]
    return np.matmul(Q, K.T) / np.sqrt(d_k)


def attention_scores__wrong_b_keys_as_rows(Q, K):
    """Keys make the rows and queries the columns, so the table of scores is transposed: (m, n)."""
    table = []
    for k in K:
        table.append([np.dot(k, q) for q in Q])
    return np.array(table)


def attention_scores__wrong_b_last_feature_lost(Q, K):
    """The loop over the features ends one too early: the last feature never enters the dot product."""
    n, d_k = Q.shape
    m = K.shape[0]
    S = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            for f in range(d_k - 1):
                S[i, j] += Q[i, f] * K[j, f]
    return S


def attention_scores__wrong_b_view_multiplied_in_place(Q, K):
    """row is a view of Q, and *= multiplies the query itself: Q changes, and later keys meet the changed query."""
    result = np.empty((Q.shape[0], K.shape[0]))
    for i in range(Q.shape[0]):
        row = Q[i]
        for j in range(K.shape[0]):
            row *= K[j]
            result[i, j] = row.sum()
    return result


def attention_scores__wrong_b_negatives_cut_off(Q, K):
    """Negative dot products are replaced by 0; scores may be negative."""
    dots = Q @ np.transpose(K)
    dots[dots < 0] = 0
    return dots


def attention_scores__right_b_sum_of_outer_products(Q, K):
    """One table per feature, all of them added up."""
    total = np.outer(Q[:, 0], K[:, 0])
    for f in range(1, K.shape[1]):
        total = total + np.outer(Q[:, f], K[:, f])
    return total


# ------------------------------------------------------------------------- softmax


def softmax__wrong_b_no_shift_at_all(z, axis=-1):
    """The exponentials are taken of the entries as they are, without the largest subtracted: large ones overflow."""
    numerator = np.exp(z)
    denominator = np.sum(numerator, axis=axis, keepdims=True)
    return numerator / denominator


def softmax__wrong_b_one_maximum_for_all(z, axis=-1):
    """The largest entry of the whole array is subtracted, so a row far below it becomes 0 throughout, and 0 / 0."""
    e = np.exp(z - np.max(z))
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_b_lost_axis_put_last(z, axis=-1):
    """Maximum and sum lose their axis and get it back at the end, which is its place only if axis is the last."""
    top = z.max(axis=axis)[..., np.newaxis]
    e = np.exp(z - top)
    total = e.sum(axis=axis)[..., np.newaxis]
    return e / total


def softmax__wrong_b_nan_made_zero(z, axis=-1):
    """The overflow is hushed up: NaN are replaced by 0 and warnings switched off, so large entries get no weight."""
    with np.errstate(all="ignore"):
        e = np.exp(z)
        return np.nan_to_num(e / e.sum(axis=axis, keepdims=True))


def softmax__wrong_b_axis_not_moved_back(z, axis=-1):
    """The axis is moved to the end and never moved back, so the axes of the result are in another order."""
    moved = np.moveaxis(z, axis, -1)
    e = np.exp(moved - moved.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax__right_b_row_by_row_helper(z, axis=-1):
    """A helper for one vector, applied along the axis."""

    def of_vector(v):
        lead = v - max(v)
        e = np.exp(lead)
        return e / e.sum()

    return np.apply_along_axis(of_vector, axis, z)


# ---------------------------------------------------------------- derivation_terms


def derivation_terms__wrong_b_each_pair_once(q, k):
    """Each pair of features is counted once (i < j); ordered pairs are asked for, (i, j) and (j, i)."""
    samples, d = q.shape
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    cross = 0.0
    for i in range(d):
        for j in range(i + 1, d):
            cross += (t[:, i] * t[:, j]).mean()
    return diagonal, cross


def derivation_terms__wrong_b_samples_minus_one(q, k):
    """The sums over the samples are divided by their number minus 1: a plain mean is asked for."""
    t = q * k
    count = len(t)
    squares = (t**2).sum()
    everything = (t.sum(axis=1) ** 2).sum()
    return squares / (count - 1), (everything - squares) / (count - 1)


def derivation_terms__wrong_b_mean_over_features(q, k):
    """The diagonal is averaged over the features, too; over i the squares are to be summed."""
    t = q * k
    diagonal = (t**2).mean()
    s2 = (t.sum(axis=1) ** 2).mean()
    return diagonal, s2 - (t**2).sum(axis=1).mean()


def derivation_terms__wrong_b_cross_taken_as_zero(q, k):
    """Cross is set to 0, its value for independent features, instead of being measured on the draws."""
    t = np.multiply(q, k)
    diagonal = np.square(t).sum(axis=-1).mean()
    return diagonal, 0.0


def derivation_terms__wrong_b_only_last_sample_kept(q, k):
    """cross is assigned and not added to in the loop over the samples, so only the last sample is in it."""
    diagonal = 0.0
    cross = 0.0
    for a, b in zip(q, k):
        t = a * b
        diagonal += (t**2).sum()
        cross = t.sum() ** 2 - (t**2).sum()
    return diagonal / len(q), cross / len(q)


def derivation_terms__right_b_table_and_mask(q, k):
    """The table of the means of all t_i t_j, split by a mask."""
    terms = q * k
    table = np.einsum("ri,rj->rij", terms, terms).mean(axis=0)
    same = np.eye(len(table), dtype=bool)
    return table[same].sum(), table[~same].sum()


# ------------------------------------------------------------- dot_product_moments


def dot_product_moments__wrong_b_all_pairs_counted(d, var_q=1.0, var_k=1.0):
    """All d · d products are counted; the cross terms have mean 0, and only the d squares are left."""
    return 0.0, sum(var_q * var_k for i in range(d) for j in range(d))


def dot_product_moments__wrong_b_root_of_product(d, var_q=1.0, var_k=1.0):
    """The standard deviation of a term, √(var_q · var_k), is added up d times in place of its variance."""
    sigma_q, sigma_k = np.sqrt(var_q), np.sqrt(var_k)
    return 0.0, float(d * sigma_q * sigma_k)


def dot_product_moments__wrong_b_var_k_forgotten(d, var_q=1.0, var_k=1.0):
    """var_k does not enter: only the variance of the queries counts."""
    mean = 0.0
    variance = var_q * d
    return mean, variance


def dot_product_moments__wrong_b_measured_on_draws(d, var_q=1.0, var_k=1.0):
    """Mean and variance are measured on random draws; they are to be those of the derivation, without drawing."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal((4000, d)) * np.sqrt(var_q)
    k = rng.standard_normal((4000, d)) * np.sqrt(var_k)
    s = (q * k).sum(axis=1)
    return s.mean(), s.var()


def dot_product_moments__wrong_b_one_term_too_few(d, var_q=1.0, var_k=1.0):
    """Only d - 1 terms are added: the loop begins at 1 and ends before d."""
    total = 0.0
    for _ in range(1, d):
        total = total + var_q * var_k
    return 0.0, total


def dot_product_moments__right_b_fsum_of_terms(d, var_q=1.0, var_k=1.0):
    """E[s²] - E[s]², both written as sums of terms."""
    mean_q = mean_k = 0.0
    first = math.fsum([mean_q * mean_k] * d)
    second = math.fsum([(var_q + mean_q**2) * (var_k + mean_k**2)] * d) + d * (d - 1) * (mean_q * mean_k) ** 2
    return first, second - first**2


# ------------------------------------------------------------------- scaled_scores


def scaled_scores__wrong_b_root_of_keys(Q, K):
    """The root is taken of the number of keys, K.shape[0], instead of their width d_k."""
    return Q @ K.T / np.sqrt(K.shape[0])


def scaled_scores__wrong_b_power_before_division(Q, K):
    """d_k ** 1 / 2 is (d_k ** 1) / 2, half the width and not its root: the brackets around 1/2 are missing."""
    root = Q.shape[1] ** 1 / 2
    return Q.dot(K.T) / root


def scaled_scores__wrong_b_eight_for_all_widths(Q, K):
    """The divisor is always 8, the root of 64; it must be the root of the width at hand."""
    d_k = 64
    return (Q @ K.T) / d_k**0.5


def scaled_scores__wrong_b_transposed_only_if_needed(Q, K):
    """K is transposed only where the shapes would not fit otherwise: with m = d_k rows of Q meet columns of K."""
    other = K
    if Q.shape[1] != K.shape[0]:
        other = K.T
    return Q @ other / np.sqrt(Q.shape[1])


def scaled_scores__wrong_b_row_per_key(Q, K):
    """The table has a row per key and a column per query: it is transposed."""
    root = Q.shape[1] ** 0.5
    return np.array([[float(np.dot(q, k)) / root for q in Q] for k in K])


def scaled_scores__right_b_root_as_sum_of_ones(Q, K):
    """The width is the squared length of a vector of ones, and keys are met one by one."""
    ones = np.ones(K.shape[1])
    length = float(np.linalg.norm(ones))
    return np.stack([(Q * key).sum(axis=1) for key in K], axis=1) / length


# ---------------------------------------------------------------- score_statistics


def score_statistics__wrong_b_drawn_pair_by_pair(d, n_samples, rng, scaled):
    """q and k are drawn pair by pair; all of q is to be drawn first in one call, then all of k."""
    scores = []
    for _ in range(n_samples):
        q = rng.standard_normal(d)
        k = rng.standard_normal(d)
        s = q @ k
        scores.append(s / d**0.5 if scaled else s)
    return np.mean(scores), np.var(scores)


def score_statistics__wrong_b_variance_by_root(d, n_samples, rng, scaled):
    """The variance of the plain scores is divided by √d; scores divided by √d have the variance divided by d."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1)
    mean, variance = s.mean(), s.var()
    if scaled:
        mean = mean / np.sqrt(d)
        variance = variance / np.sqrt(d)
    return mean, variance


def score_statistics__wrong_b_scaled_by_width(d, n_samples, rng, scaled):
    """Scaled scores are divided by d instead of by its root."""
    q = rng.standard_normal(size=(n_samples, d))
    k = rng.standard_normal(size=(n_samples, d))
    divisor = d if scaled else 1
    scores = np.array([np.dot(a, b) / divisor for a, b in zip(q, k)])
    return scores.mean(), scores.var()


def score_statistics__wrong_b_mean_before_scaling(d, n_samples, rng, scaled):
    """The mean is taken before the scores are divided, so with scaled=True it is still that of the plain scores."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = (q * k).sum(axis=1)
    mean = s.sum() / n_samples
    if scaled:
        s = s / math.sqrt(d)
    return mean, s.var()


def score_statistics__wrong_b_drawn_anew_if_scaled(d, n_samples, rng, scaled):
    """With scaled=True two more arrays are drawn and used; only the first two are to be drawn."""

    def draw():
        q = rng.standard_normal((n_samples, d))
        k = rng.standard_normal((n_samples, d))
        return (q * k).sum(axis=1)

    scores = draw()
    if scaled:
        scores = draw() / np.sqrt(d)
    return scores.mean(), scores.var()


def score_statistics__right_b_from_the_library(d, n_samples, rng, scaled):
    """The scores as the diagonal of the table of all, and the library of statistics for the rest."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    scores = np.einsum("ij,ij->i", q, k / np.sqrt(d) if scaled else k).tolist()
    return statistics.fmean(scores), statistics.pvariance(scores)


# ----------------------------------------------------------------------- attention


def attention__wrong_b_scaling_forgotten(Q, K, V):
    """The scores are not divided by the root of d_k."""
    weights = softmax(attention_scores(Q, K), axis=1)
    output = weights @ V
    return output, weights


def attention__wrong_b_weights_scaled_after(Q, K, V):
    """The root of d_k divides the weights after the softmax, not the scores before it: rows do not sum to 1."""
    weights = softmax(Q @ K.T) / np.sqrt(K.shape[1])
    return weights @ V, weights


def attention__wrong_b_one_shift_for_all_rows(Q, K, V):
    """One maximum, that of all scores, shifts every row: a row far below it has only zeros left, and gives NaN."""
    s = Q @ K.T / math.sqrt(Q.shape[1])
    top = s.max()
    e = np.exp(s - top)
    w = e / np.sum(e, axis=1, keepdims=True)
    return w @ V, w


def attention__wrong_b_largest_in_size(Q, K, V):
    """The shift is the largest score in absolute size: a row of very negative scores sinks lower still, to 0 / 0."""
    scores = scaled_scores(Q, K)
    shift = np.abs(scores).max(axis=-1, keepdims=True)
    e = np.exp(scores - shift)
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def attention__wrong_b_weights_turned_for_output(Q, K, V):
    """The output is made with the transposed weights: row i mixes by how much each query looks at key i."""
    A = softmax(scaled_scores(Q, K), axis=-1)
    return A.T @ V, A


def attention__right_b_key_by_key(Q, K, V):
    """The keys come one by one; maximum, sum and output are corrected as they come."""
    n, d_k = Q.shape
    scores = np.empty((n, len(K)), dtype=np.result_type(Q, K))
    top = np.full(n, -np.inf)
    total = np.zeros(n)
    output = np.zeros((n, V.shape[1]))
    for j, (key, value) in enumerate(zip(K, V, strict=True)):
        scores[:, j] = Q @ key / float(d_k) ** 0.5
        higher = np.maximum(top, scores[:, j])
        shrink, gain = np.exp(top - higher), np.exp(scores[:, j] - higher)
        total = total * shrink + gain
        output = output * shrink[:, None] + gain[:, None] * value
        top = higher
    weights = np.exp(scores - top[:, None]) / total[:, None]
    return (output / total[:, None]).astype(V.dtype), weights.astype(scores.dtype)


# ---------------------------------------------------------------- softmax_jacobian


def softmax_jacobian__wrong_b_signs_turned_round(p):
    """All signs are turned round: raising a score would lower its own weight and raise the others."""
    return np.outer(p, p) - np.diag(p)


def softmax_jacobian__wrong_b_inner_for_outer(p):
    """p.T @ p of a vector is one number, the sum of the squares, and not the table of all p_i p_j."""
    return np.diag(p) - p.T @ p


def softmax_jacobian__wrong_b_weights_lifted_above_zero(p):
    """Weights of 0 are lifted to 0.000001 first, though p may hold an exact 0, and its derivatives are 0."""
    p = np.maximum(p, 1e-6)
    return np.diag(p) - np.outer(p, p)


def softmax_jacobian__wrong_b_one_minus_everywhere(p):
    """p_i (1 - p_j) stands in every entry; the 1 belongs on the diagonal alone."""
    return p[:, np.newaxis] * (1 - p[np.newaxis, :])


def softmax_jacobian__wrong_b_p_changed_in_place(p):
    """p itself is changed in place to p (1 - p) on the way: the caller's weights are lost."""
    J = -np.outer(p, p)
    p *= 1 - p
    np.fill_diagonal(J, p)
    return J


def softmax_jacobian__right_b_covariance_of_one_hot(p):
    """The covariance of one-hot vectors drawn with the probabilities p."""
    away = np.eye(p.size, dtype=p.dtype) - p  # row k: one-hot k minus the mean
    return np.einsum("k,ki,kj->ij", p, away, away)


# -------------------------------------------------------------- attention_backward


def attention_backward__wrong_b_root_left_out(Q, K, V, d_output):
    """On the way back the division by the root of d_k is forgotten: dQ and dK are √d_k times too large."""
    A = softmax(Q @ K.T / np.sqrt(Q.shape[1]))
    dV = A.T @ d_output
    dA = d_output @ V.T
    dS = A * (dA - (dA * A).sum(axis=1, keepdims=True))
    return dS @ K, dS.T @ Q, dV


def attention_backward__wrong_b_root_only_in_dq(Q, K, V, d_output):
    """dQ is divided by the root of d_k and dK is not; both come from the same scaled scores."""
    root = Q.shape[1] ** 0.5
    output, A = attention(Q, K, V)
    dA = d_output @ V.T
    inner = np.sum(A * dA, axis=1, keepdims=True)
    dS = A * (dA - inner)
    dQ = dS @ K / root
    dK = dS.T @ Q
    return dQ, dK, A.T @ d_output


def attention_backward__wrong_b_forward_not_scaled(Q, K, V, d_output):
    """The weights are recomputed from scores that are not divided by the root of d_k."""
    root = np.sqrt(Q.shape[1])
    A = softmax(Q @ K.T)
    dV = A.T @ d_output
    dA = d_output @ V.T
    dS = A * (dA - np.sum(dA * A, axis=1, keepdims=True))
    return dS @ K / root, dS.T @ Q / root, dV


def attention_backward__wrong_b_q_overwritten(Q, K, V, d_output):
    """Q is overwritten by its slopes before dK is made, so dK is made from dQ instead of from the queries."""
    scale = Q.shape[1] ** -0.5
    A = softmax(Q @ K.T * scale)
    V_slopes = A.T @ d_output
    S = d_output @ V.T
    S = scale * A * (S - (S * A).sum(axis=1, keepdims=True))
    Q = S @ K
    K = S.T @ Q
    return Q, K, V_slopes


def attention_backward__wrong_b_by_differences(Q, K, V, d_output):
    """The slopes are measured by nudging each entry instead of by formula, which is not exact enough."""
    step = 1e-4
    slopes = []
    parts = [Q.copy(), K.copy(), V.copy()]
    base = (attention(*parts)[0] * d_output).sum()
    for X in parts:
        slope = np.zeros(X.shape)
        for place in np.ndindex(*X.shape):
            X[place] += step
            slope[place] = ((attention(*parts)[0] * d_output).sum() - base) / step
            X[place] -= step
        slopes.append(slope)
    return tuple(slopes)


def attention_backward__right_b_values_around_output(Q, K, V, d_output):
    """Each value counts by how far it lies from the output that it is part of."""
    output, A = attention(Q, K, V)
    away = V[None, :, :] - output[:, None, :]  # (n, m, d_v)
    dS = A * np.einsum("nmv,nv->nm", away, d_output) / float(Q.shape[1]) ** 0.5
    return np.einsum("nm,md->nd", dS, K), np.einsum("nm,nd->md", dS, Q), np.einsum("nm,nv->mv", A, d_output)
