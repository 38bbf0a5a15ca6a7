"""Right and wrong answers to unit 02_scaled_scores, written from the contracts of the functions alone, to test the judge with."""

import math
import warnings
from collections import namedtuple
import numpy as np
import torch


_STATE: dict = {}


def _softmax(z, axis=-1):
    """A plain right softmax for the answers that build on one."""
    e = np.exp(z - np.max(z, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _scaled(Q, K):
    """Plain right scaled scores for the answers that build on them."""
    return Q @ K.T / np.sqrt(K.shape[-1])


def softmax__wrong_global_max(z, axis=-1):
    """Subtracts the maximum of the whole array: a row 1e4 below another one is 0 / 0."""
    e = np.exp(z - np.max(z))
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_subtracts_mean(z, axis=-1):
    """Subtracts the mean, not the maximum: (1e4, -1e4) still overflows."""
    e = np.exp(z - np.mean(z, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_subtracts_abs_max(z, axis=-1):
    """Subtracts the largest absolute value: all-negative large rows underflow to 0 / 0."""
    e = np.exp(z - np.max(np.abs(z), axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_subtracts_min(z, axis=-1):
    """Subtracts the minimum, so that the exponents grow."""
    e = np.exp(z - np.min(z, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_clip(z, axis=-1):
    """Clips the scores to ±50 instead of shifting them: 60 and 70 get the same weight."""
    e = np.exp(np.clip(z, -50, 50))
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_in_place(z, axis=-1):
    """Shifts the caller's array in place."""
    z -= np.max(z, axis=axis, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_only_2d(z, axis=-1):
    """Transposes for axis 0, else axis 1: fails on vectors and on 3-d arrays."""
    rows = z.T if axis == 0 else z
    e = np.exp(rows - rows.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    return p.T if axis == 0 else p


def softmax__wrong_not_moved_back(z, axis=-1):
    """Moves `axis` to the end and forgets to move it back."""
    return _softmax(np.moveaxis(z, axis, -1), -1)


def softmax__wrong_abs_axis(z, axis=-1):
    """Takes the absolute value of a negative axis: -1 becomes 1."""
    return _softmax(z, abs(axis) if z.ndim > 1 else 0)


def softmax__wrong_squeezed(z, axis=-1):
    """Squeezes axes of length 1 away."""
    return np.squeeze(_softmax(z, axis))


def softmax__right_logspace_in_the_given_dtype(z, axis=-1):
    """exp(z - logsumexp) in the precision of z: float32 is rough near 10,000, as its numbers are."""
    return np.exp(z - np.logaddexp.reduce(z, axis=axis, keepdims=True))


def softmax__right_python_loops(z, axis=-1):
    """Plain Python loops over every line of numbers, float64 result."""
    z = np.asarray(z)
    out = np.zeros(z.shape)
    lines, results = np.moveaxis(z, axis, -1), np.moveaxis(out, axis, -1)
    for index in np.ndindex(lines.shape[:-1]):
        top = max(float(v) for v in lines[index])
        exps = [math.exp(float(v) - top) for v in lines[index]]
        total = math.fsum(exps)
        for i, e in enumerate(exps):
            results[index + (i,)] = e / total
    return out


def softmax__right_base_two(z, axis=-1):
    """Powers of two with the exponent multiplied by log2(e)."""
    z = np.asarray(z, dtype=np.float64)
    e = np.exp2((z - z.max(axis=axis, keepdims=True)) * np.log2(np.e))
    return np.true_divide(e, np.add.reduce(e, axis=axis, keepdims=True))


def attention_scores__wrong_reshape(Q, K):
    """Reshapes K where it should be transposed: shapes fit, numbers don't."""
    return Q @ K.reshape(K.shape[1], K.shape[0])


def attention_scores__wrong_hard_coded_width(Q, K):
    """Sums the first five features only, the width of the worked example."""
    return Q[:, :5] @ K[:, :5].T


def attention_scores__wrong_n_for_m(Q, K):
    """Loops over n in both directions: too narrow, or an IndexError, when m differs from n."""
    n = len(Q)
    return np.array([[Q[i] @ K[j] for j in range(n)] for i in range(n)])


def attention_scores__wrong_squeezed(Q, K):
    """Squeezes the axis of a single query or key away."""
    return np.squeeze(Q @ K.T)


def attention_scores__wrong_clipped(Q, K):
    """Clips large scores to ±100."""
    return np.clip(Q @ K.T, -100.0, 100.0)


def attention_scores__wrong_normalises_in_place(Q, K):
    """Centres the caller's Q in place before and doesn't put it back."""
    scores = Q @ K.T
    Q -= Q.mean(axis=0)
    return scores


def attention_scores__wrong_resizes_key(Q, K):
    """Scores are right, but the caller's K is overwritten with zeros row by row."""
    out = np.empty((len(Q), len(K)))
    for j in range(len(K)):
        out[:, j] = Q @ K[j]
        K[j] = 0
    return out


def attention_scores__wrong_shared_buffer(Q, K):
    """One buffer per shape: an earlier result changes at the next call."""
    out = _STATE.setdefault(("scores", len(Q), len(K)), np.empty((len(Q), len(K))))
    np.copyto(out, Q @ K.T)
    return out


def attention_scores__wrong_cached(Q, K):
    """Caches by shape and returns the first call's scores."""
    return _STATE.setdefault(("cached_scores", Q.shape, K.shape), Q @ K.T)


def attention_scores__right_other_way_round(Q, K):
    """(K Qᵀ)ᵀ: a Fortran-ordered view."""
    return (K @ Q.T).T


def attention_scores__right_outer_sum(Q, K):
    """A sum of outer products, one per feature."""
    return sum(np.outer(Q[:, c], K[:, c]) for c in range(Q.shape[1]))


def attention_scores__right_vectorize(Q, K):
    """np.vectorize with a signature."""
    dot = np.vectorize(lambda q, k: float(np.dot(q, k)), signature="(d),(d)->()")
    return dot(Q[:, None, :], K[None, :, :])


def attention_scores__right_halves(Q, K):
    """The scores of half of the features and those of the rest, down to single features."""
    width = Q.shape[1]
    if width == 1:
        return Q * K.T
    half = width // 2
    left = attention_scores__right_halves(Q[:, :half], K[:, :half])
    return left + attention_scores__right_halves(Q[:, half:], K[:, half:])


def scaled_scores__wrong_precedence(Q, K):
    """d ** 1 / 2 is d / 2."""
    return Q @ K.T / (K.shape[-1] ** 1 / 2)


def scaled_scores__wrong_int_sqrt(Q, K):
    """Integer square root: right for 4, 16, 64."""
    return Q @ K.T / int(np.sqrt(K.shape[-1]))


def scaled_scores__wrong_in_place_q(Q, K):
    """Scales the caller's Q in place."""
    Q /= np.sqrt(Q.shape[-1])
    return Q @ K.T


def scaled_scores__wrong_in_place_k_view(Q, K):
    """Scales a transpose of K in place: a view, so K changes too."""
    keys = K.T
    keys *= 1.0 / np.sqrt(K.shape[1])
    return Q @ keys


def scaled_scores__wrong_transposed(Q, K):
    """(m, n)."""
    return K @ Q.T / np.sqrt(K.shape[-1])


def scaled_scores__wrong_squeezed(Q, K):
    """Squeezed: a single query loses its axis."""
    return _scaled(Q, K).squeeze()


def scaled_scores__wrong_only_first_row(Q, K):
    """Scales row 0 only."""
    scores = np.array(Q @ K.T)
    scores[0] /= np.sqrt(K.shape[-1])
    return scores


def scaled_scores__right_scales_q_first(Q, K):
    """Scales a copy of Q first."""
    return (Q / math.sqrt(Q.shape[1])) @ K.T


def scaled_scores__right_loops(Q, K):
    """Two loops, float64."""
    out = np.empty((len(Q), len(K)))
    for i in range(len(Q)):
        for j in range(len(K)):
            out[i, j] = sum(float(a) * float(b) for a, b in zip(Q[i], K[j], strict=True)) / len(K[j]) ** 0.5
    return out


def scaled_scores__right_vectorize(Q, K):
    """np.vectorize over pairs of row numbers."""
    pair = np.vectorize(lambda i, j: float(Q[i] @ K[j]) / math.sqrt(Q.shape[1]), otypes=[float])
    return pair(np.arange(len(Q))[:, None], np.arange(len(K))[None, :])


def scaled_scores__right_float32_kept(Q, K):
    """Casts √d to the scores' dtype, so that float32 stays float32."""
    scores = Q @ K.T
    return scores / (scores.dtype.type(np.sqrt(K.shape[-1])) if scores.dtype.kind == "f" else np.sqrt(K.shape[-1]))


def attention__wrong_sqrt_d_v(Q, K, V):
    """√d_v: right only where d_v = d_k."""
    weights = _softmax(Q @ K.T / np.sqrt(V.shape[-1]))
    return weights @ V, weights


def attention__wrong_unstable(Q, K, V):
    """exp of raw scores: NaN at 1e4."""
    e = np.exp(_scaled(Q, K))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def attention__wrong_residual(Q, K, V):
    """Adds the query to the output where the widths allow it."""
    weights = _softmax(_scaled(Q, K))
    output = weights @ V
    return (output + Q if output.shape == Q.shape else output), weights


def attention__wrong_in_place_q(Q, K, V):
    """Scales the caller's Q in place."""
    Q *= 1.0 / np.sqrt(Q.shape[-1])
    weights = _softmax(Q @ K.T)
    return weights @ V, weights


def attention__wrong_squeezed(Q, K, V):
    """A single query loses its axis."""
    weights = _softmax(_scaled(Q, K))
    return np.squeeze(weights @ V), np.squeeze(weights)


def attention__wrong_shared_buffer(Q, K, V):
    """The weights live in one buffer per shape."""
    weights = _STATE.setdefault(("weights", len(Q), len(K)), np.empty((len(Q), len(K))))
    weights[...] = _softmax(_scaled(Q, K))
    return weights @ V, weights


def attention__wrong_threshold(Q, K, V):
    """Sets weights below 0.01 to zero without normalising again."""
    weights = _softmax(_scaled(Q, K))
    weights = np.where(weights < 0.01, 0.0, weights)
    return weights @ V, weights


def attention__wrong_clipped_scores(Q, K, V):
    """Clips scores to ±20 in place of a stable softmax."""
    e = np.exp(np.clip(_scaled(Q, K), -20, 20))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def attention__right_loops(Q, K, V):
    """Loops over queries and keys, float64."""
    n, m = len(Q), len(K)
    output, weights = np.zeros((n, V.shape[1])), np.zeros((n, m))
    for i in range(n):
        scores = [float(np.dot(Q[i], K[j])) / math.sqrt(K.shape[1]) for j in range(m)]
        exps = [math.exp(s - max(scores)) for s in scores]
        for j in range(m):
            weights[i, j] = exps[j] / sum(exps)
            output[i] += weights[i, j] * V[j]
    return output, weights


def attention__right_warns_overflow(Q, K, V):
    """Tries the naive exponential first (a RuntimeWarning for large scores), then returns the stable result."""
    scores = _scaled(Q, K)
    print("largest naive exponential:", np.exp(scores).max())
    weights = _softmax(scores)
    return weights @ V, weights


def attention__right_key_by_key(Q, K, V):
    """Key after key, with a running maximum, sum and output."""
    scores = _scaled(Q, K)
    top, total, output = np.full(len(Q), -np.inf), np.zeros(len(Q)), np.zeros((len(Q), V.shape[1]))
    for column, value in zip(scores.T, V, strict=True):
        new = np.maximum(top, column)
        old, now = np.exp(top - new), np.exp(column - new)
        total, output, top = total * old + now, output * old[:, None] + now[:, None] * value, new
    return output / total[:, None], np.exp(scores - top[:, None]) / total[:, None]


def dot_product_moments__wrong_ignores_var_k(d, var_q=1.0, var_k=1.0):
    """Forgets var_k."""
    return 0.0, d * var_q


def dot_product_moments__wrong_truncated(d, var_q=1.0, var_k=1.0):
    """Cuts the variance to an integer."""
    return 0.0, int(d * var_q * var_k)


def dot_product_moments__wrong_floor_division(d, var_q=1.0, var_k=1.0):
    """Divides by 1 / var with floor division on the way."""
    return 0.0, d * var_q // (1.0 / var_k)


def dot_product_moments__wrong_no_defaults(d, var_q, var_k):
    """The variances have no defaults."""
    return 0.0, d * var_q * var_k


def dot_product_moments__wrong_argument_names(d, sigma_q=1.0, sigma_k=1.0):
    """Other argument names: keywords fail."""
    return 0.0, d * sigma_q * sigma_k


def dot_product_moments__wrong_other_default(d, var_q=1.0, var_k=None):
    """var_k defaults to var_q."""
    return 0.0, d * var_q * (var_q if var_k is None else var_k)


def dot_product_moments__wrong_remembers(d, var_q=1.0, var_k=1.0):
    """Caches by d alone: other variances get the first answer."""
    return _STATE.setdefault(("moments", d), (0.0, d * var_q * var_k))


def dot_product_moments__wrong_larger_variance(d, var_q=1.0, var_k=1.0):
    """d times the larger variance."""
    return 0.0, d * max(var_q, var_k)


def dot_product_moments__wrong_simulated(d, var_q=1.0, var_k=1.0):
    """Measured on 10,000 fresh draws."""
    q, k = (np.random.randn(10_000, d) * math.sqrt(variance) for variance in (var_q, var_k))
    scores = (q * k).sum(axis=1)
    return float(scores.mean()), float(scores.var())


def dot_product_moments__wrong_simulated_with_seed(d, var_q=1.0, var_k=1.0):
    """Measured on 2,000 draws of a fixed seed."""
    rng = np.random.default_rng(7)
    q, k = (rng.normal(0, math.sqrt(variance), (2_000, d)) for variance in (var_q, var_k))
    scores = (q * k).sum(axis=1)
    return float(scores.mean()), float(scores.var())


def dot_product_moments__right_int_zero(d, var_q=1.0, var_k=1.0):
    """The mean is the int 0."""
    return 0, d * var_q * var_k


def dot_product_moments__right_ints_where_exact(d, var_q=1.0, var_k=1.0):
    """Both are ints where the number is whole."""
    variance = d * var_q * var_k
    return 0, int(variance) if variance == int(variance) else variance


def dot_product_moments__right_numpy_scalars(d, var_q=1.0, var_k=1.0):
    """NumPy scalars."""
    return np.float64(0.0), np.prod(np.array([d, var_q, var_k], dtype=np.float64))


def dot_product_moments__right_sum_of_terms(d, var_q=1.0, var_k=1.0):
    """Adds the variance of each product in a loop."""
    mean, variance = 0.0, 0.0
    for _ in range(d):
        mean += 0.0 * 0.0
        variance += var_q * var_k
    return mean, variance


def dot_product_moments__right_negative_zero(d, var_q=1.0, var_k=1.0):
    """The mean is -0.0, which equals 0; the variance is a sum over an array."""
    return -0.0, np.full(d, float(var_q * var_k)).sum()


def derivation_terms__wrong_independent_diagonal(q, k):
    """mean(q²) mean(k²): uses independence before it is shown."""
    diagonal = ((q**2).mean(axis=0) * (k**2).mean(axis=0)).sum()
    return diagonal, ((q * k).sum(axis=1) ** 2).mean() - diagonal


def derivation_terms__wrong_variance_for_square(q, k):
    """Takes the variance of s for the mean of s²."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    return diagonal, t.sum(axis=1).var() - diagonal


def derivation_terms__wrong_neighbours_only(q, k):
    """Only pairs of neighbouring features."""
    t = q * k
    return (t**2).sum(axis=1).mean(), 2 * (t[:, 1:] * t[:, :-1]).sum(axis=1).mean()


def derivation_terms__wrong_absolute_cross(q, k):
    """The absolute value of the cross term."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    return diagonal, abs((t.sum(axis=1) ** 2).mean() - diagonal)


def derivation_terms__wrong_in_place(q, k):
    """Multiplies into the caller's q."""
    q *= k
    diagonal = (q**2).sum(axis=1).mean()
    return diagonal, (q.sum(axis=1) ** 2).mean() - diagonal


def derivation_terms__wrong_features_averaged(q, k):
    """mean(axis=1) for sum(axis=1) in both parts."""
    t = q * k
    squares = (t**2).mean(axis=1)
    return squares.mean(), (t.mean(axis=1) ** 2 - squares).mean()


def derivation_terms__wrong_matrix_averaged(q, k):
    """Means of the entries on and beside the diagonal of E[ttᵀ]."""
    t = q * k
    products = t.T @ t / len(t)
    beside = ~np.eye(len(products), dtype=bool)
    return np.diag(products).mean(), products[beside].mean() if beside.any() else 0.0


def derivation_terms__right_each_pair_once(q, k):
    """Pairs i < j, times two."""
    t = np.asarray(q, dtype=np.float64) * k
    cross = np.zeros(len(t))
    for i in range(1, t.shape[1]):
        cross += t[:, i] * t[:, :i].sum(axis=1)
    return float(np.square(t).sum(axis=1).mean()), float(2 * cross.mean())


def derivation_terms__right_einsum_zero_d(q, k):
    """einsum, 0-d arrays."""
    q, k = np.asarray(q, dtype=np.float64), np.asarray(k, dtype=np.float64)
    diagonal = np.einsum("si,si,si,si->", q, q, k, k) / len(q)
    s = np.einsum("si,si->s", q, k)
    return np.array(diagonal), np.array(s @ s / len(s) - diagonal)


def derivation_terms__right_squares_first(q, k):
    """q² k² with a printed line and a warning."""
    print(q.shape)
    warnings.warn("cross terms need not be zero in a sample", UserWarning, stacklevel=2)
    q, k = q.astype(np.float64), k.astype(np.float64)
    diagonal = np.average((q**2 * k**2).sum(axis=-1))
    return diagonal, np.average(np.sum(q * k, axis=-1) ** 2) - diagonal


def score_statistics__wrong_scaled_ignored(d, n_samples, rng, scaled):
    """Never scales."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    return s.mean(), s.var()


def score_statistics__wrong_always_scaled(d, n_samples, rng, scaled):
    """Always scales."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1) / np.sqrt(d)
    return s.mean(), s.var()


def score_statistics__wrong_variance_by_sqrt_d(d, n_samples, rng, scaled):
    """Divides mean and variance both by √d."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    factor = np.sqrt(d) if scaled else 1.0
    return s.mean() / factor, s.var() / factor


def score_statistics__wrong_scaled_by_sqrt_samples(d, n_samples, rng, scaled):
    """Divides by √n_samples."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    s = s / np.sqrt(n_samples) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_cached(d, n_samples, rng, scaled):
    """Keeps its draws from the first call of a size: a new generator changes nothing."""
    key = ("draws", d, n_samples)
    if key not in _STATE:
        _STATE[key] = (rng.standard_normal((n_samples, d)), rng.standard_normal((n_samples, d)))
    q, k = _STATE[key]
    s = (q * k).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def _statistics_of(rng, d, n_samples, scaled):
    q, k = rng.standard_normal((n_samples, d)), rng.standard_normal((n_samples, d))
    scores = (q * k).sum(axis=1) / (math.sqrt(d) if scaled else 1.0)
    return scores.mean(), scores.var()


def score_statistics__wrong_seed_of_its_own(d, n_samples, rng, scaled):
    """A generator of its own, with the seed 2024."""
    return _statistics_of(np.random.default_rng(2024), d, n_samples, scaled)


def score_statistics__wrong_fresh_generator(d, n_samples, rng, scaled):
    """A generator of its own, without a seed."""
    return _statistics_of(np.random.default_rng(), d, n_samples, scaled)


def score_statistics__wrong_global_seed(d, n_samples, rng, scaled):
    """NumPy's global generator, seeded."""
    return _statistics_of(np.random.RandomState(1), d, n_samples, scaled)


def score_statistics__right_row_loop(d, n_samples, rng, scaled):
    """A loop over samples, Python floats."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    scale = math.sqrt(d) if scaled else 1
    s = [float(a @ b) / scale for a, b in zip(q, k, strict=True)]
    mean = math.fsum(s) / n_samples
    return mean, math.fsum((v - mean) ** 2 for v in s) / n_samples


def score_statistics__right_welford(d, n_samples, rng, scaled):
    """Welford's running mean and variance."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    mean, squares = 0.0, 0.0
    for count, value in enumerate(np.sum(q * k, axis=1) / (d**0.5 if scaled else 1.0), start=1):
        step = value - mean
        mean += step / count
        squares += step * (value - mean)
    return mean, squares / n_samples


def score_statistics__right_scales_q(d, n_samples, rng, scaled):
    """Scales the drawn q in place: it is the function's own array."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    if scaled:
        q /= np.sqrt(d)
    s = np.matmul(q[:, None, :], k[:, :, None]).ravel()
    return np.mean(s, dtype=np.float64), np.cov(s, ddof=0)


def softmax_jacobian__wrong_diagonal_only(p):
    """p (1 - p) on the diagonal, zero elsewhere."""
    return np.diag(p * (1 - p))


def softmax_jacobian__wrong_broadcast(p):
    """diag(p) - p * p: broadcasts to p_j², no outer product."""
    return np.diag(p) - p * p


def softmax_jacobian__wrong_squeezed(p):
    """n = 1 gives a 0-d array."""
    return np.squeeze(np.diag(p) - np.outer(p, p))


def softmax_jacobian__wrong_divides_by_p(p):
    """Divides by p on the way: NaN where a weight is 0."""
    with np.errstate(all="ignore"):
        return np.outer(p, p) * (np.diag(1.0 / p) - 1.0)


def softmax_jacobian__wrong_differences_of_log(p):
    """Central differences at log p: NaN where a weight is 0."""
    h, n = 1e-5, len(p)
    with np.errstate(all="ignore"):
        z = np.log(np.asarray(p, dtype=float))
        z = z - z.max()
        columns = [(_softmax(z + h * e) - _softmax(z - h * e)) / (2 * h) for e in np.eye(n)]
    return np.stack(columns, axis=1) if np.all(p > 0) else np.full((n, n), np.nan)


def softmax_jacobian__wrong_clipped(p):
    """Clips the weights to 0.01 … 0.99 first."""
    p = np.clip(p, 0.01, 0.99)
    return np.diag(p) - np.outer(p, p)


def softmax_jacobian__wrong_in_place(p):
    """The result is right; the caller's p is changed."""
    out = -np.outer(p, p)
    p *= 1 - p
    np.fill_diagonal(out, p)
    return out


def softmax_jacobian__wrong_shared_buffer(p):
    """One buffer per size: an earlier result changes at the next call."""
    out = _STATE.setdefault(("jacobian", len(p)), np.empty((len(p), len(p))))
    out[...] = np.diag(p) - np.outer(p, p)
    return out


def softmax_jacobian__wrong_transposed_vector(p):
    """p.T of a vector is the vector."""
    return p * np.eye(len(p)) - p.T * p.T


def softmax_jacobian__wrong_identity_matrix(p):
    """The identity matrix."""
    return np.eye(len(p))


def softmax_jacobian__right_loops(p):
    """Two loops with the two cases, float64."""
    n = len(p)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            out[i, j] = float(p[i]) * (1 - float(p[i])) if i == j else -float(p[i]) * float(p[j])
    return out


def softmax_jacobian__right_complex_step(p):
    """Complex step on p exp(z) / Σ p exp(z) at z = 0: exact to rounding, zeros are no trouble."""
    p = np.asarray(p, dtype=np.float64)
    e = p[:, None] * np.exp(1e-30j * np.eye(len(p)))
    return (e / e.sum(axis=0)).imag / 1e-30


def softmax_jacobian__right_transposed(p):
    """Built column by column and transposed: the matrix is symmetric anyway."""
    columns = [p * (np.arange(len(p)) == j) - p * p[j] for j in range(len(p))]
    return np.array(columns).T


def _weights(Q, K):
    """Right weights for the backward passes that are wrong elsewhere."""
    return _softmax(_scaled(Q, K))


def attention_backward__wrong_root_forgotten(Q, K, V, d_output):
    """The chain ends at the scaled scores: no √d_k on the way back."""
    A = _weights(Q, K)
    dA = np.einsum("nv,mv->nm", d_output, V)
    dS = A * dA - A * np.einsum("nm,nm->n", A, dA)[:, None]
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_root_for_queries_alone(Q, K, V, d_output):
    """Thinks of the root as part of the query, and so forgets it for the keys."""
    A = _weights(Q, K)
    q = Q / np.sqrt(Q.shape[1])
    dQ, dK = np.zeros_like(Q), np.zeros_like(K)
    for i in range(len(q)):
        J = np.diag(A[i]) - np.outer(A[i], A[i])
        ds = J @ V @ d_output[i]
        dQ[i] = ds @ K / np.sqrt(Q.shape[1])
        dK += np.outer(ds, Q[i])
    return dQ, dK, A.T @ d_output


def attention_backward__wrong_root_of_d_v(Q, K, V, d_output):
    """Divides by the root of the values' width on the way back."""
    A, root = _weights(Q, K), np.sqrt(V.shape[1])
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(1, keepdims=True))
    return dS @ K / root, dS.T @ Q / root, A.T @ d_output


def attention_backward__wrong_like_a_sigmoid(Q, K, V, d_output):
    """a (1 - a), the derivative of a sigmoid, entry by entry."""
    A = _weights(Q, K)
    dS = d_output @ V.T * A * (1 - A) / np.sqrt(Q.shape[1])
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_no_correction(Q, K, V, d_output):
    """The derivative of the exponential alone: its sum is taken for a constant."""
    A = _weights(Q, K)
    dS = d_output @ V.T * A / np.sqrt(Q.shape[1])
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_sum_down_the_columns(Q, K, V, d_output):
    """The correction is summed over the queries."""
    A = _weights(Q, K)
    dA = d_output @ V.T
    dS = A * (dA - np.sum(A * dA, axis=0, keepdims=True)) / np.sqrt(Q.shape[1])
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_one_sum_for_all(Q, K, V, d_output):
    """The correction is summed over the whole table: keepdims and axis forgotten."""
    A = _weights(Q, K)
    dA = d_output @ V.T
    dS = A * (dA - np.sum(A * dA)) / np.sqrt(Q.shape[1])
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_values_not_turned(Q, K, V, d_output):
    """dV = A @ d_output: fits only where n = m."""
    dQ, dK, _ = attention_backward__right_two_lines_a_row(Q, K, V, d_output)
    return dQ, dK, _weights(Q, K) @ d_output


def attention_backward__wrong_values_by_key_softmax(Q, K, V, d_output):
    """To make the shapes fit, dV uses the weights with which keys would look at queries."""
    dQ, dK, _ = attention_backward__right_two_lines_a_row(Q, K, V, d_output)
    return dQ, dK, _weights(K, Q) @ d_output


def attention_backward__wrong_keys_and_queries_exchanged(Q, K, V, d_output):
    """Returns dK, dQ, dV."""
    dQ, dK, dV = attention_backward__right_two_lines_a_row(Q, K, V, d_output)
    return dK, dQ, dV


def attention_backward__wrong_unstable(Q, K, V, d_output):
    """Right, but with powers that overflow."""
    powers = np.exp(_scaled(Q, K))
    A = powers / powers.sum(1, keepdims=True)
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(1, keepdims=True)) / np.sqrt(Q.shape[1])
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_differences(Q, K, V, d_output):
    """Central differences, which the docstring rules out: too few digits where the values are large."""
    found = []
    for place in range(3):
        inputs = [np.array(X, dtype=np.float64) for X in (Q, K, V)]
        slope = np.zeros_like(inputs[place])
        for index in np.ndindex(slope.shape):
            sums = []
            for step in (1e-5, -1e-5):
                moved = [X.copy() for X in inputs]
                moved[place][index] += step
                sums.append(np.sum(_weights(moved[0], moved[1]) @ moved[2] * d_output))
            slope[index] = (sums[0] - sums[1]) / 2e-5
        found.append(slope)
    return tuple(found)


def attention_backward__right_two_lines_a_row(Q, K, V, d_output):
    """Query by query; what is subtracted is the output's own share, d_output · output."""
    root = np.sqrt(Q.shape[1])
    dQ, dK, dV = np.zeros_like(Q), np.zeros_like(K), np.zeros_like(V)
    for i, (a, g) in enumerate(zip(_weights(Q, K), d_output, strict=True)):
        ds = a * (V @ g - (a @ V) @ g) / root
        dQ[i] = ds @ K
        dK += ds[:, None] * Q[i]
        dV += a[:, None] * g
    return dQ, dK, dV


def attention_backward__right_root_shared(Q, K, V, d_output):
    """Queries and keys are both divided by the fourth root, and so are their gradients; float64 throughout."""
    fourth = Q.shape[1] ** 0.25
    q, k, v, g = Q.astype(np.float64) / fourth, K.astype(np.float64) / fourth, V.astype(np.float64), d_output
    A = np.exp(q @ k.T - np.max(q @ k.T, axis=1)[:, None])
    A /= A.sum(axis=1)[:, None]
    output = A @ v
    dS = A * (g @ v.T - (g * output).sum(axis=1)[:, None])
    return (dS @ k) / fourth, (dS.T @ q) / fourth, A.T @ g


def attention_backward__right_pairs_of_keys(Q, K, V, d_output):
    """Key against key: a score's derivative adds up how much its value is worth more than each other's."""
    A = _weights(Q, K)
    worth = d_output @ V.T
    dS = np.empty_like(A)
    for j in range(len(K)):
        dS[:, j] = A[:, j] * (A * (worth[:, [j]] - worth)).sum(axis=1)
    dS = dS / np.sqrt(Q.shape[-1])
    return np.tensordot(dS, K, axes=1), np.tensordot(dS, Q, axes=(0, 0)), np.inner(A.T, d_output.T)


def attention_backward__right_flash_form(Q, K, V, d_output):
    """Row term from output * d_output; weights as exp(score - logsumexp); a loop over keys; dQ as a view."""
    n, m = len(Q), len(K)
    Qs = Q / math.sqrt(Q.shape[-1])
    S = Qs @ K.T
    top = S.max(1)
    lse = top + np.log(np.exp(S - top[:, None]).sum(1))
    out = np.exp(S - lse[:, None]) @ V
    D = np.einsum("nv,nv->n", out, d_output)
    dQt = np.zeros((Q.shape[1], n))
    dK, dV = np.empty((m, K.shape[1])), np.empty((m, V.shape[1]))
    for j in range(m):
        p = np.exp(Qs @ K[j] - lse)
        ds = p * (d_output @ V[j] - D)
        dV[j] = p @ d_output
        dK[j] = ds @ Qs
        dQt += np.outer(K[j] / math.sqrt(Q.shape[-1]), ds)
    return dQt.T, dK, dV


# ---------------------------------------------------------------- unit 4: diagnose
