"""Right and wrong answers to unit 02_scaled_scores, written from the contracts of the functions alone, to test the judge with."""

import math
import warnings
import numpy as np


_STATE: dict = {}


def _softmax(z, axis=-1):
    """A plain right softmax for the answers that build on one."""
    e = np.exp(z - np.max(z, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _scaled(Q, K):
    """Plain right scaled scores for the answers that build on them."""
    return Q @ K.T / np.sqrt(K.shape[-1])


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


def softmax__right_in_place_on_a_copy(z, axis=-1):
    """Every step overwrites the copy."""
    z = np.array(z, order="K")
    z -= z.max(axis=axis, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis=axis, keepdims=True)
    return z


def softmax__right_base_two(z, axis=-1):
    """Powers of two with the exponent multiplied by log2(e)."""
    z = np.asarray(z, dtype=np.float64)
    e = np.exp2((z - z.max(axis=axis, keepdims=True)) * np.log2(np.e))
    return np.true_divide(e, np.add.reduce(e, axis=axis, keepdims=True))


def attention_scores__wrong_clipped(Q, K):
    """Clips large scores to ±100."""
    return np.clip(Q @ K.T, -100.0, 100.0)


def attention_scores__right_other_way_round(Q, K):
    """(K Qᵀ)ᵀ: a Fortran-ordered view."""
    return (K @ Q.T).T


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


def scaled_scores__wrong_transposed(Q, K):
    """(m, n)."""
    return K @ Q.T / np.sqrt(K.shape[-1])


def scaled_scores__wrong_only_first_row(Q, K):
    """Scales row 0 only."""
    scores = np.array(Q @ K.T)
    scores[0] /= np.sqrt(K.shape[-1])
    return scores


def scaled_scores__right_vectorize(Q, K):
    """np.vectorize over pairs of row numbers."""
    pair = np.vectorize(lambda i, j: float(Q[i] @ K[j]) / math.sqrt(Q.shape[1]), otypes=[float])
    return pair(np.arange(len(Q))[:, None], np.arange(len(K))[None, :])


def scaled_scores__right_float32_kept(Q, K):
    """Casts √d to the scores' dtype, so that float32 stays float32."""
    scores = Q @ K.T
    return scores / (scores.dtype.type(np.sqrt(K.shape[-1])) if scores.dtype.kind == "f" else np.sqrt(K.shape[-1]))


def attention__wrong_residual(Q, K, V):
    """Adds the query to the output where the widths allow it."""
    weights = _softmax(_scaled(Q, K))
    output = weights @ V
    return (output + Q if output.shape == Q.shape else output), weights


def attention__wrong_threshold(Q, K, V):
    """Sets weights below 0.01 to zero without normalising again."""
    weights = _softmax(_scaled(Q, K))
    weights = np.where(weights < 0.01, 0.0, weights)
    return weights @ V, weights


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


def dot_product_moments__right_ints_where_exact(d, var_q=1.0, var_k=1.0):
    """Both are ints where the number is whole."""
    variance = d * var_q * var_k
    return 0, int(variance) if variance == int(variance) else variance


def dot_product_moments__right_numpy_scalars(d, var_q=1.0, var_k=1.0):
    """NumPy scalars."""
    return np.float64(0.0), np.prod(np.array([d, var_q, var_k], dtype=np.float64))


def dot_product_moments__right_negative_zero(d, var_q=1.0, var_k=1.0):
    """The mean is -0.0, which equals 0; the variance is a sum over an array."""
    return -0.0, np.full(d, float(var_q * var_k)).sum()


def derivation_terms__wrong_independent_diagonal(q, k):
    """mean(q²) mean(k²): uses independence before it is shown."""
    diagonal = ((q**2).mean(axis=0) * (k**2).mean(axis=0)).sum()
    return diagonal, ((q * k).sum(axis=1) ** 2).mean() - diagonal


def derivation_terms__wrong_absolute_cross(q, k):
    """The absolute value of the cross term."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    return diagonal, abs((t.sum(axis=1) ** 2).mean() - diagonal)


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


def score_statistics__wrong_always_scaled(d, n_samples, rng, scaled):
    """Always scales."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1) / np.sqrt(d)
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


def score_statistics__right_one_draw(d, n_samples, rng, scaled):
    """Queries and keys in one draw; 0-d arrays."""
    q, k = rng.standard_normal((2, n_samples, d))
    scores = np.einsum("sd,sd->s", q / np.sqrt(d) if scaled else q, k)
    return np.array(scores.mean()), np.array(scores.var())


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


def softmax_jacobian__wrong_clipped(p):
    """Clips the weights to 0.01 … 0.99 first."""
    p = np.clip(p, 0.01, 0.99)
    return np.diag(p) - np.outer(p, p)


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


def attention_backward__wrong_root_of_d_v(Q, K, V, d_output):
    """Divides by the root of the values' width on the way back."""
    A, root = _weights(Q, K), np.sqrt(V.shape[1])
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(1, keepdims=True))
    return dS @ K / root, dS.T @ Q / root, A.T @ d_output


def attention_backward__wrong_values_not_turned(Q, K, V, d_output):
    """dV = A @ d_output: fits only where n = m."""
    dQ, dK, _ = attention_backward__right_two_lines_a_row(Q, K, V, d_output)
    return dQ, dK, _weights(Q, K) @ d_output


def attention_backward__wrong_values_by_key_softmax(Q, K, V, d_output):
    """To make the shapes fit, dV uses the weights with which keys would look at queries."""
    dQ, dK, _ = attention_backward__right_two_lines_a_row(Q, K, V, d_output)
    return dQ, dK, _weights(K, Q) @ d_output


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
