"""Right and wrong answers to unit 02_scaled_scores, written from the contracts of the functions alone, to test the judge with."""

import math
import warnings
from collections import namedtuple

import numpy as np

_STATE: dict = {}
_Attention = namedtuple("_Attention", ["output", "weights"])


def _softmax(z, axis=-1):
    """A plain right softmax for the answers that build on one."""
    e = np.exp(z - np.max(z, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _scaled(Q, K):
    """Plain right scaled scores for the answers that build on them."""
    return Q @ K.T / np.sqrt(K.shape[-1])


# ---------------------------------------------------------------------------------------------------- softmax, wrong


def softmax__wrong_axis0_default(z, axis=0):
    """The default axis is 0, not -1."""
    e = np.exp(z - np.max(z, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_axis_ignored(z, axis=-1):
    """Takes `axis` but always works on the last one."""
    e = np.exp(z - np.max(z, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax__wrong_no_axis_argument(z):
    """Has no `axis` argument at all."""
    e = np.exp(z - np.max(z, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax__wrong_sum_over_last_only(z, axis=-1):
    """The maximum follows `axis`, the sum is always over the last axis."""
    e = np.exp(z - np.max(z, axis=axis, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax__wrong_unstable(z, axis=-1):
    """No maximum subtracted: overflows at 1e4."""
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_unstable_eps(z, axis=-1):
    """No maximum subtracted, 1e-8 in the denominator: a row of -1e4 becomes zeros."""
    e = np.exp(z)
    return e / (e.sum(axis=axis, keepdims=True) + 1e-8)


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


def softmax__wrong_nan_to_num(z, axis=-1):
    """Hides the overflow: inf / inf is silently turned into 0."""
    with np.errstate(all="ignore"):
        e = np.exp(z)
        return np.nan_to_num(e / e.sum(axis=axis, keepdims=True))


def softmax__wrong_warns_then_repairs(z, axis=-1):
    """The values are right, but large entries raise a RuntimeWarning before the stable second try."""
    naive = np.exp(z)
    naive = naive / naive.sum(axis=axis, keepdims=True)
    return naive if np.all(np.isfinite(naive)) and np.max(np.abs(z)) < 100 else _softmax(z, axis)


def softmax__wrong_pairwise_overflow(z, axis=-1):
    """1 / Σ exp(z_j - z_i): right values, but exp overflows with a RuntimeWarning at ±1e4."""
    rows = np.moveaxis(np.asarray(z, dtype=float), axis, -1)
    out = 1.0 / np.exp(rows[..., None, :] - rows[..., :, None]).sum(axis=-1)
    return np.moveaxis(out, -1, axis)


def softmax__wrong_in_place(z, axis=-1):
    """Shifts the caller's array in place."""
    z -= np.max(z, axis=axis, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_out_is_input(z, axis=-1):
    """Writes the result into the input and returns it."""
    np.subtract(z, np.max(z, axis=axis, keepdims=True), out=z)
    np.exp(z, out=z)
    z /= z.sum(axis=axis, keepdims=True)
    return z


def softmax__wrong_no_keepdims(z, axis=-1):
    """Without keepdims: fine in 1-d, wrong or an error for matrices."""
    e = np.exp(z - np.max(z, axis=axis))
    return e / e.sum(axis=axis)


def softmax__wrong_whole_array(z, axis=-1):
    """Normalises over the whole array: right for vectors only."""
    e = np.exp(z - np.max(z))
    return e / e.sum()


def softmax__wrong_newaxis_last(z, axis=-1):
    """Puts the reduced axis back at the end, whatever `axis` was."""
    e = np.exp(z - np.max(z, axis=axis)[..., None])
    return e / e.sum(axis=axis)[..., None]


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


def softmax__wrong_large_eps(z, axis=-1):
    """1e-3 in the denominator: the weights do not sum to 1."""
    e = np.exp(z - np.max(z, axis=axis, keepdims=True))
    return e / (e.sum(axis=axis, keepdims=True) + 1e-3)


def softmax__wrong_eps_added_to_weights(z, axis=-1):
    """Adds 1e-4 to every weight, "to avoid log 0"."""
    return _softmax(z, axis) + 1e-4


def softmax__wrong_base_two(z, axis=-1):
    """Powers of 2 in place of e."""
    e = np.exp2(z - np.max(z, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def softmax__wrong_no_exp(z, axis=-1):
    """Shifted scores divided by their sum, no exponential."""
    shifted = z - np.min(z, axis=axis, keepdims=True) + 1.0
    return shifted / shifted.sum(axis=axis, keepdims=True)


def softmax__wrong_log_softmax(z, axis=-1):
    """Returns the log of the weights."""
    shifted = z - np.max(z, axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def softmax__wrong_not_normalised(z, axis=-1):
    """Never divides by the sum."""
    return np.exp(z - np.max(z, axis=axis, keepdims=True))


def softmax__wrong_mean_in_place_of_sum(z, axis=-1):
    """Divides by the mean of the exponentials: weights sum to n."""
    e = np.exp(z - np.max(z, axis=axis, keepdims=True))
    return e / e.mean(axis=axis, keepdims=True)


def softmax__wrong_negative(z, axis=-1):
    """A sign error: the smallest score gets the largest weight."""
    return _softmax(-np.asarray(z), axis)


def softmax__wrong_scaled(z, axis=-1):
    """Divides by √n inside the softmax."""
    return _softmax(z / np.sqrt(z.shape[axis]), axis)


def softmax__wrong_float16(z, axis=-1):
    """Computes in half precision."""
    return _softmax(np.asarray(z).astype(np.float16), axis)


def softmax__wrong_rounded(z, axis=-1):
    """Rounds the weights to three decimals."""
    return np.round(_softmax(z, axis), 3)


def softmax__wrong_divided_twice(z, axis=-1):
    """Divides by the sum of the exponentials twice."""
    e = np.exp(z - np.max(z, axis=axis, keepdims=True))
    total = e.sum(axis=axis, keepdims=True)
    return e / total / total


def softmax__wrong_shared_buffer(z, axis=-1):
    """Writes into one buffer per shape: an earlier result changes at the next call."""
    z = np.asarray(z)
    out = _STATE.setdefault(("softmax", z.shape), np.empty(z.shape))
    out[...] = _softmax(z, axis)
    return out


def softmax__wrong_squeezed(z, axis=-1):
    """Squeezes axes of length 1 away."""
    return np.squeeze(_softmax(z, axis))


def softmax__wrong_max_of_first_call(z, axis=-1):
    """Keeps the shift of the first call for later calls."""
    shift = _STATE.setdefault("softmax_shift", np.max(z))
    e = np.exp(z - shift)
    return e / e.sum(axis=axis, keepdims=True)


# ---------------------------------------------------------------------------------------------------- softmax, right


def softmax__right_logspace(z, axis=-1):
    """exp(z - logsumexp), in float64."""
    z = np.asarray(z, dtype=np.float64)
    return np.exp(z - np.logaddexp.reduce(z, axis=axis, keepdims=True))


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


def softmax__right_apply_along_axis(z, axis=-1):
    """np.apply_along_axis of a vector softmax."""
    return np.apply_along_axis(lambda row: _softmax(row), axis, z)


def softmax__right_moveaxis_view(z, axis=-1):
    """Works on a moved axis and returns a non-contiguous view of a fresh array."""
    return np.moveaxis(_softmax(np.moveaxis(z, axis, -1)), -1, axis)


def softmax__right_swapaxes_einsum(z, axis=-1):
    """The normaliser by einsum after swapaxes."""
    rows = np.swapaxes(np.asarray(z, dtype=np.float64), axis, -1)
    e = np.exp(rows - rows.max(axis=-1)[..., None])
    return np.swapaxes(np.einsum("...i,...->...i", e, 1.0 / np.einsum("...i->...", e)), axis, -1)


def softmax__right_prints(z, axis=-1):
    """Prints a line of debugging."""
    print("softmax over axis", axis, "of shape", np.shape(z))
    return _softmax(z, axis)


def softmax__right_online(z, axis=-1):
    """Running maximum and running sum, one entry after the other, as FlashAttention does."""
    rows = np.moveaxis(np.asarray(z, dtype=np.float64), axis, 0)
    top, total = rows[0].copy(), np.ones_like(rows[0])
    for row in rows[1:]:
        new_top = np.maximum(top, row)
        total = total * np.exp(top - new_top) + np.exp(row - new_top)
        top = new_top
    return np.moveaxis(np.exp(rows - top) / total, 0, axis)


def softmax__right_pairwise_clipped(z, axis=-1):
    """1 / Σ_j exp(z_j - z_i) with the difference cut at 600, where the weight is below 1e-260 anyway."""
    rows = np.moveaxis(np.asarray(z, dtype=np.float64), axis, -1)
    out = 1.0 / np.exp(np.minimum(rows[..., None, :] - rows[..., :, None], 600.0)).sum(axis=-1)
    return np.moveaxis(out, -1, axis)


def softmax__right_base_two(z, axis=-1):
    """Powers of two with the exponent multiplied by log2(e)."""
    z = np.asarray(z, dtype=np.float64)
    e = np.exp2((z - z.max(axis=axis, keepdims=True)) * np.log2(np.e))
    return np.true_divide(e, np.add.reduce(e, axis=axis, keepdims=True))


def softmax__right_copy_then_in_place(z, axis=-1):
    """Copies first, then every step in place on the copy."""
    out = np.array(z, dtype=np.float64, copy=True)
    out -= out.max(axis=axis, keepdims=True)
    np.exp(out, out=out)
    out /= out.sum(axis=axis, keepdims=True)
    return out


def softmax__right_extra_shift(z, axis=-1):
    """Shifts by maximum + 3: any shift near the maximum will do."""
    e = np.exp(np.asarray(z, dtype=np.float64) - (np.max(z, axis=axis, keepdims=True) + 3.0))
    return e / e.sum(axis=axis, keepdims=True)


def softmax__right_normalised_twice(z, axis=-1):
    """Divides by the sum a second time: harmless, the sum is 1."""
    p = _softmax(z, axis)
    return p / p.sum(axis=axis, keepdims=True)


# ------------------------------------------------------------------------------------------- attention_scores, wrong


def attention_scores__wrong_transposed(Q, K):
    """K Qᵀ: shape (m, n)."""
    return K @ Q.T


def attention_scores__wrong_no_transpose(Q, K):
    """Q @ K without the transpose: an error unless the shapes happen to fit."""
    return Q @ K


def attention_scores__wrong_scaled(Q, K):
    """Divides by √d_k already here."""
    return Q @ K.T / np.sqrt(Q.shape[-1])


def attention_scores__wrong_divided_by_d(Q, K):
    """Mean of the products in place of their sum."""
    return np.mean(Q[:, None, :] * K[None, :, :], axis=-1)


def attention_scores__wrong_softmaxed(Q, K):
    """Returns weights, not scores."""
    return _softmax(Q @ K.T)


def attention_scores__wrong_rowwise(Q, K):
    """Multiplies row i with row i only: a vector."""
    return np.sum(Q * K, axis=-1)


def attention_scores__wrong_elementwise(Q, K):
    """Elementwise product in place of the matrix product."""
    return Q * K


def attention_scores__wrong_features(Q, K):
    """Qᵀ K: feature by feature, (d, d)."""
    return Q.T @ K


def attention_scores__wrong_reshape(Q, K):
    """Reshapes K where it should be transposed: shapes fit, numbers don't."""
    return Q @ K.reshape(K.shape[1], K.shape[0])


def attention_scores__wrong_cosine(Q, K):
    """Cosine similarity."""
    return Q @ K.T / (np.linalg.norm(Q, axis=1)[:, None] * np.linalg.norm(K, axis=1)[None, :] + 1e-12)


def attention_scores__wrong_distance(Q, K):
    """Negative Euclidean distances."""
    return -np.linalg.norm(Q[:, None, :] - K[None, :, :], axis=-1)


def attention_scores__wrong_self_only(Q, K):
    """Ignores K."""
    return Q @ Q.T


def attention_scores__wrong_hard_coded_eight(Q, K):
    """Always an 8 × 8 table, as in the worked example."""
    out = np.zeros((8, 8))
    for i in range(8):
        for j in range(8):
            out[i, j] = Q[i] @ K[j]
    return out


def attention_scores__wrong_worked_example(Q, K):
    """Writes down the answer of the worked example."""
    out = np.full((Q.shape[0], K.shape[0]), 0.2)
    out[2 % Q.shape[0], 6 % K.shape[0]] = 0.8125
    return out


def attention_scores__wrong_hard_coded_width(Q, K):
    """Sums the first five features only, the width of the worked example."""
    return Q[:, :5] @ K[:, :5].T


def attention_scores__wrong_n_for_m(Q, K):
    """Loops over n in both directions: too narrow, or an IndexError, when m differs from n."""
    n = len(Q)
    return np.array([[Q[i] @ K[j] for j in range(n)] for i in range(n)])


def attention_scores__wrong_last_feature(Q, K):
    """Off by one: leaves the last feature out."""
    return Q[:, :-1] @ K[:, :-1].T


def attention_scores__wrong_last_key(Q, K):
    """Off by one: the last column stays zero."""
    out = np.zeros((Q.shape[0], K.shape[0]))
    for i in range(Q.shape[0]):
        for j in range(K.shape[0] - 1):
            out[i, j] = Q[i] @ K[j]
    return out


def attention_scores__wrong_int_table(Q, K):
    """The table is made of integers, so that every score is cut."""
    out = np.zeros((Q.shape[0], K.shape[0]), dtype=int)
    for i, q in enumerate(Q):
        for j, k in enumerate(K):
            out[i, j] = q @ k
    return out


def attention_scores__wrong_float16(Q, K):
    """Half precision."""
    return Q.astype(np.float16) @ K.astype(np.float16).T


def attention_scores__wrong_rounded(Q, K):
    """Rounded to four decimals: the worked example still looks right."""
    return np.round(Q @ K.T, 4)


def attention_scores__wrong_symmetric(Q, K):
    """Computes the upper triangle and mirrors it, as if scores were symmetric."""
    upper = np.triu(Q @ K.T)
    size = min(upper.shape)
    upper[:size, :size] += np.triu(upper[:size, :size], 1).T
    return upper


def attention_scores__wrong_squeezed(Q, K):
    """Squeezes the axis of a single query or key away."""
    return np.squeeze(Q @ K.T)


def attention_scores__wrong_einsum(Q, K):
    """einsum with two different feature letters: product of the row sums."""
    return np.einsum("id,je->ij", Q, K)


def attention_scores__wrong_clipped(Q, K):
    """Clips large scores to ±100."""
    return np.clip(Q @ K.T, -100.0, 100.0)


def attention_scores__wrong_abs(Q, K):
    """Absolute values."""
    return np.abs(Q @ K.T)


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


def attention_scores__wrong_causal(Q, K):
    """Sets scores of later keys to zero."""
    return np.tril(Q @ K.T)


# ------------------------------------------------------------------------------------------- attention_scores, right


def attention_scores__right_loops(Q, K):
    """Three explicit loops, float64 whatever came in."""
    out = np.zeros((Q.shape[0], K.shape[0]))
    for i in range(Q.shape[0]):
        for j in range(K.shape[0]):
            for c in range(Q.shape[1]):
                out[i, j] += float(Q[i, c]) * float(K[j, c])
    return out


def attention_scores__right_einsum(Q, K):
    """einsum."""
    return np.einsum("id,jd->ij", Q, K)


def attention_scores__right_other_way_round(Q, K):
    """(K Qᵀ)ᵀ: a Fortran-ordered view."""
    return (K @ Q.T).T


def attention_scores__right_inner(Q, K):
    """np.inner contracts the last axes."""
    return np.inner(Q, K)


def attention_scores__right_broadcast(Q, K):
    """Broadcast product, summed over the features."""
    return (Q[:, np.newaxis, :] * K).sum(axis=2)


def attention_scores__right_outer_sum(Q, K):
    """A sum of outer products, one per feature."""
    return sum(np.outer(Q[:, c], K[:, c]) for c in range(Q.shape[1]))


def attention_scores__right_vectorize(Q, K):
    """np.vectorize with a signature."""
    dot = np.vectorize(lambda q, k: float(np.dot(q, k)), signature="(d),(d)->()")
    return dot(Q[:, None, :], K[None, :, :])


def attention_scores__right_list_of_rows(Q, K):
    """An array made of a list of rows, with a printed line."""
    print("scores", len(Q), len(K))
    return np.array([[np.dot(q, k) for k in K] for q in Q])


def attention_scores__right_warns(Q, K):
    """Warns on every call."""
    warnings.warn("scores are not scaled yet", UserWarning, stacklevel=2)
    return np.tensordot(Q, K, axes=([1], [1]))


def attention_scores__right_polarisation(Q, K):
    """Through the blocks of one big Gram matrix of the stacked rows."""
    both = np.concatenate([Q, K], axis=0).astype(np.float64)
    return (both @ both.T)[: len(Q), len(Q) :]


def attention_scores__right_halves(Q, K):
    """The scores of half of the features and those of the rest, down to single features."""
    width = Q.shape[1]
    if width == 1:
        return Q * K.T
    half = width // 2
    left = attention_scores__right_halves(Q[:, :half], K[:, :half])
    return left + attention_scores__right_halves(Q[:, half:], K[:, half:])


# ---------------------------------------------------------------------------------------------- scaled_scores, wrong


def scaled_scores__wrong_not_scaled(Q, K):
    """No scale."""
    return Q @ K.T


def scaled_scores__wrong_by_d(Q, K):
    """Divided by d_k."""
    return Q @ K.T / K.shape[-1]


def scaled_scores__wrong_by_d_squared(Q, K):
    """Divided by d_k squared."""
    return Q @ K.T / K.shape[-1] ** 2


def scaled_scores__wrong_multiplied(Q, K):
    """Multiplied by √d_k."""
    return Q @ K.T * np.sqrt(K.shape[-1])


def scaled_scores__wrong_by_sqrt_n(Q, K):
    """√n, the number of queries."""
    return Q @ K.T / np.sqrt(Q.shape[0])


def scaled_scores__wrong_by_sqrt_m(Q, K):
    """√m, the number of keys."""
    return Q @ K.T / np.sqrt(len(K))


def scaled_scores__wrong_both_sides(Q, K):
    """Q and K each divided by √d_k: d_k in all."""
    d = Q.shape[-1]
    return (Q / np.sqrt(d)) @ (K / np.sqrt(d)).T


def scaled_scores__wrong_precedence(Q, K):
    """d ** 1 / 2 is d / 2."""
    return Q @ K.T / (K.shape[-1] ** 1 / 2)


def scaled_scores__wrong_precedence_no_brackets(Q, K):
    """scores / d ** 1 / 2: divides by 2 d."""
    return Q @ K.T / K.shape[-1] ** 1 / 2


def scaled_scores__wrong_int_sqrt(Q, K):
    """Integer square root: right for 4, 16, 64."""
    return Q @ K.T / int(np.sqrt(K.shape[-1]))


def scaled_scores__wrong_floor_division(Q, K):
    """Floor division."""
    return Q @ K.T // np.sqrt(K.shape[-1])


def scaled_scores__wrong_hard_coded_eight(Q, K):
    """Divides by 8, as for d_k = 64."""
    return Q @ K.T / 8.0


def scaled_scores__wrong_hard_coded_five(Q, K):
    """Divides by √5, the width of the worked example."""
    return Q @ K.T / np.sqrt(5)


def scaled_scores__wrong_d_minus_one(Q, K):
    """√(d - 1), guarded for d = 1."""
    return Q @ K.T / np.sqrt(max(K.shape[-1] - 1, 1))


def scaled_scores__wrong_eps(Q, K):
    """√(d + 1e-3)."""
    return Q @ K.T / np.sqrt(K.shape[-1] + 1e-3)


def scaled_scores__wrong_d_plus_eps_outside(Q, K):
    """√d + 1e-3."""
    return Q @ K.T / (np.sqrt(K.shape[-1]) + 1e-3)


def scaled_scores__wrong_sqrt_size(Q, K):
    """√ of the number of entries of K."""
    return Q @ K.T / np.sqrt(K.size)


def scaled_scores__wrong_sqrt_ndim(Q, K):
    """√ of the number of axes, always √2."""
    return Q @ K.T / np.sqrt(K.ndim)


def scaled_scores__wrong_measured_std(Q, K):
    """Divides by the measured standard deviation of the scores."""
    scores = Q @ K.T
    return scores / (scores.std() + 1e-12)


def scaled_scores__wrong_sqrt_of_scores(Q, K):
    """The square root of the scores, with the sign put back, in place of the scale."""
    scores = Q @ K.T
    return np.sign(scores) * np.sqrt(np.abs(scores))


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


def scaled_scores__wrong_softmaxed(Q, K):
    """Returns weights."""
    return _softmax(_scaled(Q, K))


def scaled_scores__wrong_squeezed(Q, K):
    """Squeezed: a single query loses its axis."""
    return _scaled(Q, K).squeeze()


def scaled_scores__wrong_scale_kept(Q, K):
    """The scale of the first call is kept for later widths."""
    return Q @ K.T / _STATE.setdefault("scale", np.sqrt(K.shape[-1]))


def scaled_scores__wrong_returns_pair(Q, K):
    """Returns the scores and the scale."""
    scale = np.sqrt(K.shape[-1])
    return Q @ K.T / scale, scale


def scaled_scores__wrong_float16(Q, K):
    """Half precision: large scores become inf."""
    with np.errstate(over="ignore"):
        return _scaled(Q, K).astype(np.float16)


def scaled_scores__wrong_centred(Q, K):
    """Subtracts each row's maximum, "for stability"."""
    scores = _scaled(Q, K)
    return scores - scores.max(axis=-1, keepdims=True)


def scaled_scores__wrong_log_scale(Q, K):
    """Divides by 1 + log d_k."""
    return Q @ K.T / (1.0 + np.log(K.shape[-1]))


def scaled_scores__wrong_only_first_row(Q, K):
    """Scales row 0 only."""
    scores = np.array(Q @ K.T)
    scores[0] /= np.sqrt(K.shape[-1])
    return scores


# ---------------------------------------------------------------------------------------------- scaled_scores, right


def scaled_scores__right_scales_q_first(Q, K):
    """Scales a copy of Q first."""
    return (Q / math.sqrt(Q.shape[1])) @ K.T


def scaled_scores__right_fourth_roots(Q, K):
    """d^(-1/4) on both sides."""
    factor = Q.shape[-1] ** -0.25
    return (Q * factor) @ np.transpose(K * factor)


def scaled_scores__right_loops(Q, K):
    """Two loops, float64."""
    out = np.empty((len(Q), len(K)))
    for i in range(len(Q)):
        for j in range(len(K)):
            out[i, j] = sum(float(a) * float(b) for a, b in zip(Q[i], K[j], strict=True)) / len(K[j]) ** 0.5
    return out


def scaled_scores__right_einsum(Q, K):
    """einsum with the scale as a third operand, 0-d."""
    return np.einsum("id,jd,->ij", Q, K, np.array(1.0 / np.sqrt(K.shape[1])))


def scaled_scores__right_log_scale(Q, K):
    """The scale through exp(-log(d) / 2)."""
    return np.inner(Q, K) * np.exp(-0.5 * np.log(K.shape[-1]))


def scaled_scores__right_norm_of_ones(Q, K):
    """√d as the length of the vector of ones."""
    return Q.dot(K.T) / np.linalg.norm(np.ones(K.shape[1]))


def scaled_scores__right_warns(Q, K):
    """Warns and prints."""
    warnings.warn("dividing by the square root of d", UserWarning, stacklevel=2)
    print("d =", K.shape[-1])
    return np.divide(Q @ K.T, np.sqrt(K.shape[-1], dtype=np.float64))


def scaled_scores__right_mean_times_sqrt(Q, K):
    """Mean of the products times √d: Σ / d · √d."""
    return np.mean(np.asarray(Q)[:, None] * np.asarray(K)[None], axis=-1, dtype=np.float64) * np.sqrt(Q.shape[-1])


def scaled_scores__right_vectorize(Q, K):
    """np.vectorize over pairs of row numbers."""
    pair = np.vectorize(lambda i, j: float(Q[i] @ K[j]) / math.sqrt(Q.shape[1]), otypes=[float])
    return pair(np.arange(len(Q))[:, None], np.arange(len(K))[None, :])


def scaled_scores__right_float32_kept(Q, K):
    """Casts √d to the scores' dtype, so that float32 stays float32."""
    scores = Q @ K.T
    return scores / (scores.dtype.type(np.sqrt(K.shape[-1])) if scores.dtype.kind == "f" else np.sqrt(K.shape[-1]))


# -------------------------------------------------------------------------------------------------- attention, wrong


def attention__wrong_order(Q, K, V):
    """(weights, output)."""
    weights = _softmax(_scaled(Q, K))
    return weights, weights @ V


def attention__wrong_output_only(Q, K, V):
    """Returns the output alone."""
    return _softmax(_scaled(Q, K)) @ V


def attention__wrong_list(Q, K, V):
    """A list in place of a tuple."""
    weights = _softmax(_scaled(Q, K))
    return [weights @ V, weights]


def attention__wrong_dict(Q, K, V):
    """A dict in place of a tuple."""
    weights = _softmax(_scaled(Q, K))
    return {"output": weights @ V, "weights": weights}


def attention__wrong_three_results(Q, K, V):
    """Returns the scores as a third result."""
    scores = _scaled(Q, K)
    weights = _softmax(scores)
    return weights @ V, weights, scores


def attention__wrong_scores_for_weights(Q, K, V):
    """The second result is the scores before the softmax."""
    scores = _scaled(Q, K)
    return _softmax(scores) @ V, scores


def attention__wrong_not_scaled(Q, K, V):
    """Plain scores."""
    weights = _softmax(Q @ K.T)
    return weights @ V, weights


def attention__wrong_scaled_by_d(Q, K, V):
    """Divided by d_k."""
    weights = _softmax(Q @ K.T / K.shape[-1])
    return weights @ V, weights


def attention__wrong_sqrt_d_v(Q, K, V):
    """√d_v: right only where d_v = d_k."""
    weights = _softmax(Q @ K.T / np.sqrt(V.shape[-1]))
    return weights @ V, weights


def attention__wrong_sqrt_n(Q, K, V):
    """√n."""
    weights = _softmax(Q @ K.T / np.sqrt(Q.shape[0]))
    return weights @ V, weights


def attention__wrong_scaled_after_softmax(Q, K, V):
    """Divides the weights, not the scores."""
    weights = _softmax(Q @ K.T) / np.sqrt(K.shape[-1])
    return weights @ V, weights


def attention__wrong_scaled_twice(Q, K, V):
    """Divides scaled scores by √d_k again."""
    weights = _softmax(_scaled(Q, K) / np.sqrt(K.shape[-1]))
    return weights @ V, weights


def attention__wrong_softmax_axis0(Q, K, V):
    """Softmax over the queries."""
    weights = _softmax(_scaled(Q, K), axis=0)
    return weights @ V, weights


def attention__wrong_softmax_whole(Q, K, V):
    """Softmax over the whole matrix: right for n = 1."""
    weights = _softmax(_scaled(Q, K), axis=None)
    return weights @ V, weights


def attention__wrong_softmax_twice(Q, K, V):
    """Softmax of the softmax."""
    weights = _softmax(_softmax(_scaled(Q, K)))
    return weights @ V, weights


def attention__wrong_unstable(Q, K, V):
    """exp of raw scores: NaN at 1e4."""
    e = np.exp(_scaled(Q, K))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def attention__wrong_global_max(Q, K, V):
    """One maximum for all rows: a row far below it is 0 / 0."""
    scores = _scaled(Q, K)
    e = np.exp(scores - scores.max())
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def attention__wrong_causal(Q, K, V):
    """Masks later keys, which nobody asked for."""
    scores = _scaled(Q, K)
    weights = _softmax(np.where(np.tri(*scores.shape, dtype=bool), scores, -1e9))
    return weights @ V, weights


def attention__wrong_weights_transposed(Q, K, V):
    """Returns the weights as (m, n)."""
    weights = _softmax(_scaled(Q, K))
    return weights @ V, weights.T


def attention__wrong_output_from_transpose(Q, K, V):
    """weightsᵀ @ V: fits only if n = m."""
    weights = _softmax(_scaled(Q, K))
    return weights.T @ V, weights


def attention__wrong_keys_for_values(Q, K, V):
    """Averages the keys."""
    weights = _softmax(_scaled(Q, K))
    return weights @ K, weights


def attention__wrong_residual(Q, K, V):
    """Adds the query to the output where the widths allow it."""
    weights = _softmax(_scaled(Q, K))
    output = weights @ V
    return (output + Q if output.shape == Q.shape else output), weights


def attention__wrong_output_width_d_k(Q, K, V):
    """The output is made as wide as Q: an error or zero columns where d_v differs from d_k."""
    weights = _softmax(_scaled(Q, K))
    output = np.zeros(Q.shape)
    for c in range(Q.shape[1]):
        output[:, c] = weights @ V[:, c]
    return output, weights


def attention__wrong_output_from_scores(Q, K, V):
    """The output is made of the scores, the weights are right."""
    scores = _scaled(Q, K)
    return scores @ V, _softmax(scores)


def attention__wrong_hard_argmax(Q, K, V):
    """Each query takes its best key's value only; the weights are right."""
    weights = _softmax(_scaled(Q, K))
    return V[weights.argmax(axis=-1)], weights


def attention__wrong_no_self(Q, K, V):
    """A token may not attend to itself, except alone."""
    scores = _scaled(Q, K)
    if min(scores.shape) > 1:
        np.fill_diagonal(scores, -1e9)
    weights = _softmax(scores)
    return weights @ V, weights


def attention__wrong_dropout(Q, K, V):
    """Drops a tenth of the weights, with its own random numbers."""
    weights = _softmax(_scaled(Q, K))
    weights = weights * (np.random.default_rng().random(weights.shape) > 0.1) / 0.9
    return weights @ V, weights


def attention__wrong_eps(Q, K, V):
    """1e-3 in the denominator."""
    scores = _scaled(Q, K)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / (e.sum(axis=-1, keepdims=True) + 1e-3)
    return weights @ V, weights


def attention__wrong_in_place_q(Q, K, V):
    """Scales the caller's Q in place."""
    Q *= 1.0 / np.sqrt(Q.shape[-1])
    weights = _softmax(Q @ K.T)
    return weights @ V, weights


def attention__wrong_in_place_v(Q, K, V):
    """Writes the output into V when the shapes agree."""
    weights = _softmax(_scaled(Q, K))
    output = weights @ V
    if output.shape == V.shape:
        V[...] = output
        output = V
    return output, weights


def attention__wrong_squeezed(Q, K, V):
    """A single query loses its axis."""
    weights = _softmax(_scaled(Q, K))
    return np.squeeze(weights @ V), np.squeeze(weights)


def attention__wrong_shared_buffer(Q, K, V):
    """The weights live in one buffer per shape."""
    weights = _STATE.setdefault(("weights", len(Q), len(K)), np.empty((len(Q), len(K))))
    weights[...] = _softmax(_scaled(Q, K))
    return weights @ V, weights


def attention__wrong_mean_of_values(Q, K, V):
    """Divides the output by the number of keys again."""
    weights = _softmax(_scaled(Q, K))
    return weights @ V / len(V), weights


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


# -------------------------------------------------------------------------------------------------- attention, right


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


def attention__right_einsum(Q, K, V):
    """einsum throughout."""
    weights = _softmax(np.einsum("id,jd->ij", Q, K) / Q.shape[1] ** 0.5)
    return np.einsum("ij,jc->ic", weights, V), weights


def attention__right_warns_overflow(Q, K, V):
    """Tries the naive exponential first (a RuntimeWarning for large scores), then returns the stable result."""
    scores = _scaled(Q, K)
    print("largest naive exponential:", np.exp(scores).max())
    weights = _softmax(scores)
    return weights @ V, weights


def attention__right_warns(Q, K, V):
    """Warns and prints on every call."""
    warnings.warn("attention is not masked", UserWarning, stacklevel=2)
    weights = _softmax(_scaled(Q, K))
    print(weights.sum(axis=-1))
    return np.dot(weights, V), weights


def attention__right_logspace(Q, K, V):
    """Weights by exp(score - logsumexp), in float64."""
    scores = np.asarray(Q, dtype=np.float64) @ np.asarray(K, dtype=np.float64).T / np.sqrt(K.shape[-1])
    weights = np.exp(scores - np.logaddexp.reduce(scores, axis=1)[:, None])
    return weights @ V, weights


def attention__right_divide_last(Q, K, V):
    """Averages unnormalised exponentials and divides the output at the end."""
    scores = _scaled(Q, K)
    e = np.exp(scores - scores.max(axis=1)[:, None])
    total = e.sum(axis=1, keepdims=True)
    return (e @ V) / total, e / total


def attention__right_query_by_query(Q, K, V):
    """One query after the other, results stacked."""
    weights = np.stack([_softmax(K @ q / np.sqrt(len(q))) for q in Q])
    return np.stack([V.T @ w for w in weights]), weights


def attention__right_transposed_world(Q, K, V):
    """Works with columns and transposes at the end: Fortran-ordered results."""
    weights = _softmax(K @ Q.T / np.sqrt(Q.shape[-1]), axis=0)
    return (V.T @ weights).T, weights.T


def attention__right_named_tuple(Q, K, V):
    """A namedtuple, which is a tuple."""
    weights = _softmax(_scaled(Q, K))
    return _Attention(weights @ V, weights)


def attention__right_one_more_key(Q, K, V):
    """Pads with a dead key of score -inf and cuts it off again."""
    scores = np.concatenate([_scaled(Q, K), np.full((len(Q), 1), -np.inf)], axis=1)
    weights = _softmax(scores)[:, :-1]
    return weights @ V, weights


def attention__right_one_more_feature(Q, K, V):
    """The values get a column of ones: it sums the exponentials, and the division comes last."""
    scores = _scaled(Q, K)
    powers = np.exp(scores - scores.max(axis=1)[:, None])
    both = powers @ np.hstack([V, np.ones((len(V), 1))])
    return both[:, :-1] / both[:, -1:], powers / both[:, -1:]


def attention__right_key_by_key(Q, K, V):
    """Key after key, with a running maximum, sum and output."""
    scores = _scaled(Q, K)
    top, total, output = np.full(len(Q), -np.inf), np.zeros(len(Q)), np.zeros((len(Q), V.shape[1]))
    for column, value in zip(scores.T, V, strict=True):
        new = np.maximum(top, column)
        old, now = np.exp(top - new), np.exp(column - new)
        total, output, top = total * old + now, output * old[:, None] + now[:, None] * value, new
    return output / total[:, None], np.exp(scores - top[:, None]) / total[:, None]


# ---------------------------------------------------------------------------------------- dot_product_moments, wrong


def dot_product_moments__wrong_mean_d(d, var_q=1.0, var_k=1.0):
    """Believes the note: the mean is d."""
    return float(d), d * var_q * var_k


def dot_product_moments__wrong_swapped(d, var_q=1.0, var_k=1.0):
    """(variance, mean)."""
    return d * var_q * var_k, 0.0


def dot_product_moments__wrong_std(d, var_q=1.0, var_k=1.0):
    """The standard deviation in place of the variance."""
    return 0.0, math.sqrt(d * var_q * var_k)


def dot_product_moments__wrong_ignores_variances(d, var_q=1.0, var_k=1.0):
    """Always d."""
    return 0.0, float(d)


def dot_product_moments__wrong_ignores_var_k(d, var_q=1.0, var_k=1.0):
    """Forgets var_k."""
    return 0.0, d * var_q


def dot_product_moments__wrong_squares_var_q(d, var_q=1.0, var_k=1.0):
    """var_q twice."""
    return 0.0, d * var_q * var_q


def dot_product_moments__wrong_sum_of_variances(d, var_q=1.0, var_k=1.0):
    """Adds the variances."""
    return 0.0, d * (var_q + var_k)


def dot_product_moments__wrong_mean_of_variances(d, var_q=1.0, var_k=1.0):
    """Averages the variances: right for the defaults."""
    return 0.0, d * (var_q + var_k) / 2


def dot_product_moments__wrong_arguments_are_std(d, var_q=1.0, var_k=1.0):
    """Takes the arguments as standard deviations."""
    return 0.0, d * var_q**2 * var_k**2


def dot_product_moments__wrong_geometric_mean(d, var_q=1.0, var_k=1.0):
    """√(var_q var_k)."""
    return 0.0, d * math.sqrt(var_q * var_k)


def dot_product_moments__wrong_scaled(d, var_q=1.0, var_k=1.0):
    """The moments of the scaled score."""
    return 0.0, var_q * var_k


def dot_product_moments__wrong_scaled_by_d(d, var_q=1.0, var_k=1.0):
    """The variance after dividing by d."""
    return 0.0, var_q * var_k / d


def dot_product_moments__wrong_d_squared(d, var_q=1.0, var_k=1.0):
    """d squared."""
    return 0.0, d**2 * var_q * var_k


def dot_product_moments__wrong_unbiased(d, var_q=1.0, var_k=1.0):
    """d - 1 in place of d."""
    return 0.0, (d - 1) * var_q * var_k


def dot_product_moments__wrong_hard_coded_64(d, var_q=1.0, var_k=1.0):
    """Always d = 64."""
    return 0.0, 64.0 * var_q * var_k


def dot_product_moments__wrong_sampled(d, var_q=1.0, var_k=1.0):
    """Samples in place of deriving."""
    rng = np.random.default_rng(0)
    s = (rng.normal(0, var_q**0.5, (2000, d)) * rng.normal(0, var_k**0.5, (2000, d))).sum(axis=1)
    return float(s.mean()), float(s.var())


def dot_product_moments__wrong_mean_of_stds(d, var_q=1.0, var_k=1.0):
    """The mean is d times the two standard deviations."""
    return d * math.sqrt(var_q) * math.sqrt(var_k), d * var_q * var_k


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


def dot_product_moments__wrong_variance_only(d, var_q=1.0, var_k=1.0):
    """Returns the variance alone."""
    return d * var_q * var_k


def dot_product_moments__wrong_list(d, var_q=1.0, var_k=1.0):
    """A list in place of a tuple."""
    return [0.0, d * var_q * var_k]


def dot_product_moments__wrong_dict(d, var_q=1.0, var_k=1.0):
    """A dict in place of a tuple."""
    return {"mean": 0.0, "variance": d * var_q * var_k}


def dot_product_moments__wrong_remembers(d, var_q=1.0, var_k=1.0):
    """Caches by d alone: other variances get the first answer."""
    return _STATE.setdefault(("moments", d), (0.0, d * var_q * var_k))


def dot_product_moments__wrong_second_moment_of_sum(d, var_q=1.0, var_k=1.0):
    """Counts the cross terms too: d + d (d - 1)."""
    return 0.0, (d + d * (d - 1) / 2) * var_q * var_k


def dot_product_moments__wrong_larger_variance(d, var_q=1.0, var_k=1.0):
    """d times the larger variance."""
    return 0.0, d * max(var_q, var_k)


def dot_product_moments__wrong_vectors(d, var_q=1.0, var_k=1.0):
    """One mean and one variance per feature, not summed."""
    return np.zeros(d), np.full(d, var_q * var_k)


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


# ---------------------------------------------------------------------------------------- dot_product_moments, right


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


def dot_product_moments__right_zero_d_arrays(d, var_q=1.0, var_k=1.0):
    """0-d arrays."""
    return np.array(0.0), np.array(float(d * var_q * var_k))


def dot_product_moments__right_sum_of_terms(d, var_q=1.0, var_k=1.0):
    """Adds the variance of each product in a loop."""
    mean, variance = 0.0, 0.0
    for _ in range(d):
        mean += 0.0 * 0.0
        variance += var_q * var_k
    return mean, variance


def dot_product_moments__right_prints_and_warns(d, var_q=1.0, var_k=1.0):
    """Prints and warns."""
    print("d =", d)
    warnings.warn("assuming independent entries", UserWarning, stacklevel=2)
    return 0.0, math.prod((float(d), float(var_q), float(var_k)))


def dot_product_moments__right_negative_zero(d, var_q=1.0, var_k=1.0):
    """The mean is -0.0, which equals 0; the variance is a sum over an array."""
    return -0.0, np.full(d, float(var_q * var_k)).sum()


def dot_product_moments__right_vectorize(d, var_q=1.0, var_k=1.0):
    """np.vectorize: the results are 0-d arrays or NumPy scalars."""
    return np.vectorize(lambda a, b, c: (0.0, float(a) * b * c), otypes=[float, float])(d, var_q, var_k)


# ------------------------------------------------------------------------------------------- derivation_terms, wrong


def derivation_terms__wrong_cross_halved(q, k):
    """Counts every pair once, i < j."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    return diagonal, ((t.sum(axis=1) ** 2).mean() - diagonal) / 2


def derivation_terms__wrong_cross_doubled(q, k):
    """Takes 2 Σ over i ≠ j, counting each pair four times in all."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    return diagonal, 2 * ((t.sum(axis=1) ** 2).mean() - diagonal)


def derivation_terms__wrong_swapped(q, k):
    """(cross, diagonal)."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    return (t.sum(axis=1) ** 2).mean() - diagonal, diagonal


def derivation_terms__wrong_sum_over_samples(q, k):
    """Sums over the samples in place of averaging."""
    t = q * k
    diagonal = (t**2).sum()
    return diagonal, (t.sum(axis=1) ** 2).sum() - diagonal


def derivation_terms__wrong_mean_over_features(q, k):
    """The diagonal is averaged over the features too."""
    t = q * k
    diagonal = (t**2).mean()
    return diagonal, (t.sum(axis=1) ** 2).mean() - diagonal


def derivation_terms__wrong_cross_is_whole(q, k):
    """The cross term still holds the diagonal: it is the mean of s²."""
    t = q * k
    return (t**2).sum(axis=1).mean(), (t.sum(axis=1) ** 2).mean()


def derivation_terms__wrong_diagonal_is_whole(q, k):
    """The diagonal is the mean of s²."""
    t = q * k
    whole = (t.sum(axis=1) ** 2).mean()
    return whole, whole - (t**2).sum(axis=1).mean()


def derivation_terms__wrong_theory(q, k):
    """Returns what the expectation would be: (d, 0)."""
    return float(q.shape[1]), 0.0


def derivation_terms__wrong_cross_zero(q, k):
    """The diagonal is measured, the cross term taken for zero."""
    return ((q * k) ** 2).sum(axis=1).mean(), 0.0


def derivation_terms__wrong_square_of_mean(q, k):
    """Squares the mean over samples: no expectation inside, as in the note."""
    t = (q * k).mean(axis=0)
    return (t**2).sum(), t.sum() ** 2 - (t**2).sum()


def derivation_terms__wrong_cross_of_means(q, k):
    """Cross terms from products of means, as if the entries were independent."""
    t = q * k
    means = t.mean(axis=0)
    return (t**2).sum(axis=1).mean(), means.sum() ** 2 - (means**2).sum()


def derivation_terms__wrong_independent_diagonal(q, k):
    """mean(q²) mean(k²): uses independence before it is shown."""
    diagonal = ((q**2).mean(axis=0) * (k**2).mean(axis=0)).sum()
    return diagonal, ((q * k).sum(axis=1) ** 2).mean() - diagonal


def derivation_terms__wrong_not_squared(q, k):
    """The diagonal is Σ qᵢkᵢ, not squared."""
    t = q * k
    diagonal = t.sum(axis=1).mean()
    return diagonal, (t.sum(axis=1) ** 2).mean() - (t**2).sum(axis=1).mean()


def derivation_terms__wrong_axes(q, k):
    """Sums over the samples and averages over the features."""
    t = q * k
    diagonal = (t**2).sum(axis=0).mean()
    return diagonal, (t.sum(axis=0) ** 2).mean() - diagonal


def derivation_terms__wrong_pairs_of_samples(q, k):
    """Cross terms over pairs of samples, not of features."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    return diagonal, ((t.sum(axis=0) ** 2).sum() - (t**2).sum()) / len(q)


def derivation_terms__wrong_unbiased(q, k):
    """Divides by samples - 1."""
    t = q * k
    count = max(len(q) - 1, 1)
    diagonal = (t**2).sum() / count
    return diagonal, (t.sum(axis=1) ** 2).sum() / count - diagonal


def derivation_terms__wrong_variance_for_square(q, k):
    """Takes the variance of s for the mean of s²."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    return diagonal, t.sum(axis=1).var() - diagonal


def derivation_terms__wrong_centred(q, k):
    """Centres the samples first."""
    t = (q - q.mean(axis=0)) * (k - k.mean(axis=0))
    diagonal = (t**2).sum(axis=1).mean()
    return diagonal, (t.sum(axis=1) ** 2).mean() - diagonal


def derivation_terms__wrong_neighbours_only(q, k):
    """Only pairs of neighbouring features."""
    t = q * k
    return (t**2).sum(axis=1).mean(), 2 * (t[:, 1:] * t[:, :-1]).sum(axis=1).mean()


def derivation_terms__wrong_last_feature(q, k):
    """Off by one: pairs with the last feature are left out."""
    t = q * k
    head = t[:, :-1]
    return (t**2).sum(axis=1).mean(), (head.sum(axis=1) ** 2).mean() - (head**2).sum(axis=1).mean()


def derivation_terms__wrong_mean_of_pairs(q, k):
    """The cross term is divided by the number of pairs: NaN for d = 1."""
    t = np.asarray(q * k, dtype=float)
    diagonal = (t**2).sum(axis=1).mean()
    return diagonal, ((t.sum(axis=1) ** 2).mean() - diagonal) / np.float64(t.shape[1] * (t.shape[1] - 1))


def derivation_terms__wrong_absolute_cross(q, k):
    """The absolute value of the cross term."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    return diagonal, abs((t.sum(axis=1) ** 2).mean() - diagonal)


def derivation_terms__wrong_arrays_per_sample(q, k):
    """One number per sample, no mean."""
    t = q * k
    diagonal = (t**2).sum(axis=1)
    return diagonal, t.sum(axis=1) ** 2 - diagonal


def derivation_terms__wrong_list(q, k):
    """A list in place of a tuple."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    return [diagonal, (t.sum(axis=1) ** 2).mean() - diagonal]


def derivation_terms__wrong_array(q, k):
    """One array of two numbers in place of a tuple."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    return np.array([diagonal, (t.sum(axis=1) ** 2).mean() - diagonal])


def derivation_terms__wrong_three_results(q, k):
    """Returns the mean of s² as a third number."""
    t = q * k
    diagonal, whole = (t**2).sum(axis=1).mean(), (t.sum(axis=1) ** 2).mean()
    return diagonal, whole - diagonal, whole


def derivation_terms__wrong_in_place(q, k):
    """Multiplies into the caller's q."""
    q *= k
    diagonal = (q**2).sum(axis=1).mean()
    return diagonal, (q.sum(axis=1) ** 2).mean() - diagonal


def derivation_terms__wrong_first_sample(q, k):
    """Looks at the first sample only."""
    t = q[0] * k[0]
    return (t**2).sum(), t.sum() ** 2 - (t**2).sum()


def derivation_terms__wrong_sign(q, k):
    """The cross term with the wrong sign."""
    t = q * k
    diagonal = (t**2).sum(axis=1).mean()
    return diagonal, diagonal - (t.sum(axis=1) ** 2).mean()


def derivation_terms__wrong_cross_of_q_and_k(q, k):
    """Σ_{i≠j} (qᵢkⱼ)²: pairs of q and k in place of pairs of products."""
    diagonal = ((q * k) ** 2).sum(axis=1).mean()
    return diagonal, ((q**2).sum(axis=1) * (k**2).sum(axis=1)).mean() - diagonal


def derivation_terms__wrong_draws_its_own(q, k):
    """Uses the shape of q and k only and draws fresh samples."""
    t = np.random.default_rng(0).standard_normal(q.shape) * np.random.default_rng(1).standard_normal(k.shape)
    diagonal = (t**2).sum(axis=1).mean()
    return diagonal, (t.sum(axis=1) ** 2).mean() - diagonal


def derivation_terms__wrong_hard_coded_three(q, k):
    """Pairs of the first three features only."""
    t = (q * k)[:, :3]
    diagonal = (t**2).sum(axis=1).mean()
    return diagonal, (t.sum(axis=1) ** 2).mean() - diagonal


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


# ------------------------------------------------------------------------------------------- derivation_terms, right


def derivation_terms__right_gram(q, k):
    """Trace and off-diagonal sum of the second-moment matrix of the products."""
    t = np.asarray(q, dtype=np.float64) * k
    second = t.T @ t / len(t)
    return np.trace(second), second[~np.eye(len(second), dtype=bool)].sum()


def derivation_terms__right_pair_loop(q, k):
    """Explicit loops over i and j ≠ i."""
    t = np.asarray(q, dtype=np.float64) * k
    diagonal, cross = 0.0, 0.0
    for i in range(t.shape[1]):
        for j in range(t.shape[1]):
            term = float(np.mean(t[:, i] * t[:, j]))
            if i == j:
                diagonal += term
            else:
                cross += term
    return diagonal, cross


def derivation_terms__right_each_pair_once(q, k):
    """Pairs i < j, times two."""
    t = np.asarray(q, dtype=np.float64) * k
    cross = np.zeros(len(t))
    for i in range(1, t.shape[1]):
        cross += t[:, i] * t[:, :i].sum(axis=1)
    return float(np.square(t).sum(axis=1).mean()), float(2 * cross.mean())


def derivation_terms__right_rest_of_the_sum(q, k):
    """Σᵢ tᵢ (s - tᵢ)."""
    t = np.asarray(q, dtype=np.float64) * k
    s = t.sum(axis=1, keepdims=True)
    return (t * t).sum() / len(t), (t * (s - t)).sum() / len(t)


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


def derivation_terms__right_sample_loop(q, k):
    """One sample at a time, Python floats."""
    diagonal, cross = [], []
    for a, b in zip(q, k, strict=True):
        t = a.astype(float) * b.astype(float)
        diagonal.append(float(t @ t))
        cross.append(float(t.sum() ** 2 - t @ t))
    return math.fsum(diagonal) / len(diagonal), math.fsum(cross) / len(cross)


def derivation_terms__right_rolled(q, k):
    """Pairs at every cyclic distance, by np.roll."""
    t = np.asarray(q, dtype=np.float64) * k
    by_distance = [(t * np.roll(t, shift, axis=1)).sum(axis=1).mean() for shift in range(t.shape[1])]
    return by_distance[0], sum(by_distance[1:], 0.0)


# ------------------------------------------------------------------------------------------- score_statistics, wrong


def score_statistics__wrong_extra_draw(d, n_samples, rng, scaled):
    """Throws an extra draw away between q and k."""
    q = rng.standard_normal((n_samples, d))
    rng.standard_normal((n_samples, d))
    s = (q * rng.standard_normal((n_samples, d))).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_shape_transposed(d, n_samples, rng, scaled):
    """Draws (d, n_samples) and sums over axis 0."""
    s = (rng.standard_normal((d, n_samples)) * rng.standard_normal((d, n_samples))).sum(axis=0)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_interleaved(d, n_samples, rng, scaled):
    """Draws q and k sample by sample, taking turns."""
    s = np.array([rng.standard_normal(d) @ rng.standard_normal(d) for _ in range(n_samples)])
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_one_draw_last_axis(d, n_samples, rng, scaled):
    """One draw of shape (n_samples, d, 2): q and k alternate in the stream."""
    both = rng.standard_normal((n_samples, d, 2))
    s = both.prod(axis=-1).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_one_wide_draw(d, n_samples, rng, scaled):
    """One draw of shape (n_samples, 2 d), cut in two."""
    both = rng.standard_normal((n_samples, 2 * d))
    s = (both[:, :d] * both[:, d:]).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_own_generator(d, n_samples, rng, scaled):
    """Ignores `rng` and makes its own."""
    rng = np.random.default_rng(0)
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_global_random(d, n_samples, rng, scaled):
    """Ignores `rng` and uses np.random."""
    s = (np.random.randn(n_samples, d) * np.random.randn(n_samples, d)).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_uniform(d, n_samples, rng, scaled):
    """Uniform draws of variance 1."""
    q = rng.uniform(-np.sqrt(3), np.sqrt(3), (n_samples, d))
    s = (q * rng.uniform(-np.sqrt(3), np.sqrt(3), (n_samples, d))).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_same_q_and_k(d, n_samples, rng, scaled):
    """k is q: the mean becomes d."""
    q = rng.standard_normal((n_samples, d))
    s = (q * q).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_same_query_for_all(d, n_samples, rng, scaled):
    """One query for all samples."""
    s = rng.standard_normal((n_samples, d)) @ rng.standard_normal(d)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_ddof1(d, n_samples, rng, scaled):
    """Unbiased variance."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var(ddof=1) if n_samples > 1 else 0.0


def score_statistics__wrong_std(d, n_samples, rng, scaled):
    """Standard deviation in place of variance."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.std()


def score_statistics__wrong_second_moment(d, n_samples, rng, scaled):
    """Mean of s², without taking the mean off."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), (s**2).mean()


def score_statistics__wrong_scaled_ignored(d, n_samples, rng, scaled):
    """Never scales."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    return s.mean(), s.var()


def score_statistics__wrong_always_scaled(d, n_samples, rng, scaled):
    """Always scales."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1) / np.sqrt(d)
    return s.mean(), s.var()


def score_statistics__wrong_scaled_inverted(d, n_samples, rng, scaled):
    """Scales when it should not."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    s = s if scaled else s / np.sqrt(d)
    return s.mean(), s.var()


def score_statistics__wrong_scaled_by_d(d, n_samples, rng, scaled):
    """Divides by d."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    s = s / d if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_variance_by_sqrt_d(d, n_samples, rng, scaled):
    """Divides mean and variance both by √d."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    factor = np.sqrt(d) if scaled else 1.0
    return s.mean() / factor, s.var() / factor


def score_statistics__wrong_mean_not_scaled(d, n_samples, rng, scaled):
    """Scales the variance, forgets the mean."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    return s.mean(), s.var() / (d if scaled else 1)


def score_statistics__wrong_swapped(d, n_samples, rng, scaled):
    """(variance, mean)."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.var(), s.mean()


def score_statistics__wrong_products_not_summed(d, n_samples, rng, scaled):
    """Statistics of the single products."""
    s = rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_mean_of_products(d, n_samples, rng, scaled):
    """Mean over the features in place of the sum."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).mean(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_axis(d, n_samples, rng, scaled):
    """Sums over the samples."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=0)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_all_pairs(d, n_samples, rng, scaled):
    """Every q with every k."""
    s = rng.standard_normal((n_samples, d)) @ rng.standard_normal((n_samples, d)).T
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_derived(d, n_samples, rng, scaled):
    """Returns the derived result, draws nothing."""
    return 0.0, 1.0 if scaled else float(d)


def score_statistics__wrong_scaled_by_sqrt_samples(d, n_samples, rng, scaled):
    """Divides by √n_samples."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    s = s / np.sqrt(n_samples) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_float32_draws(d, n_samples, rng, scaled):
    """Draws float32, which is another stream."""
    q = rng.standard_normal((n_samples, d), dtype=np.float32)
    s = (q * rng.standard_normal((n_samples, d), dtype=np.float32)).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_list(d, n_samples, rng, scaled):
    """A list in place of a tuple."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return [s.mean(), s.var()]


def score_statistics__wrong_cached(d, n_samples, rng, scaled):
    """Keeps its draws from the first call of a size: a new generator changes nothing."""
    key = ("draws", d, n_samples)
    if key not in _STATE:
        _STATE[key] = (rng.standard_normal((n_samples, d)), rng.standard_normal((n_samples, d)))
    q, k = _STATE[key]
    s = (q * k).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_no_scaled_argument(d, n_samples, rng):
    """Has no `scaled` argument."""
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1) / np.sqrt(d)
    return s.mean(), s.var()


def score_statistics__wrong_warm_up_draw(d, n_samples, rng, scaled):
    """Draws one number before, "to warm up"."""
    rng.standard_normal()
    s = (rng.standard_normal((n_samples, d)) * rng.standard_normal((n_samples, d))).sum(axis=1)
    s = s / np.sqrt(d) if scaled else s
    return s.mean(), s.var()


def score_statistics__wrong_normalised_draws(d, n_samples, rng, scaled):
    """Standardises the draws first, so that the numbers come out nicer."""
    q, k = rng.standard_normal((n_samples, d)), rng.standard_normal((n_samples, d))
    s = ((q - q.mean()) / q.std() * (k - k.mean()) / k.std()).sum(axis=1)
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


# ------------------------------------------------------------------------------------------- score_statistics, right


def score_statistics__right_moments_scaled_after(d, n_samples, rng, scaled):
    """Scales the moments: mean / √d, variance / d."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.einsum("sd,sd->s", q, k)
    return (s.mean() / math.sqrt(d), s.var() / d) if scaled else (s.mean(), s.var())


def score_statistics__right_row_loop(d, n_samples, rng, scaled):
    """A loop over samples, Python floats."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    scale = math.sqrt(d) if scaled else 1
    s = [float(a @ b) / scale for a, b in zip(q, k, strict=True)]
    mean = math.fsum(s) / n_samples
    return mean, math.fsum((v - mean) ** 2 for v in s) / n_samples


def score_statistics__right_keyword_size(d, n_samples, rng, scaled):
    """`size=` as a keyword and a list; 0-d arrays."""
    q = rng.standard_normal(size=[n_samples, d])
    k = rng.standard_normal(size=[n_samples, d])
    s = np.sum(np.multiply(q, k), axis=-1) * (d**-0.5 if scaled else 1.0)
    return np.asarray(np.mean(s)), np.asarray(np.var(s, ddof=0))


def score_statistics__right_second_moment_minus_square(d, n_samples, rng, scaled):
    """Variance as E[s²] - E[s]², never below zero."""
    q, k = (rng.standard_normal((n_samples, d)) for _ in range(2))
    s = (q * k).sum(axis=1) / (np.sqrt(d) if scaled else 1.0)
    return s.mean(), max(float((s**2).mean() - s.mean() ** 2), 0.0)


def score_statistics__right_prints_and_warns(d, n_samples, rng, scaled):
    """Prints and warns."""
    q, k = rng.standard_normal((n_samples, d)), rng.standard_normal((n_samples, d))
    warnings.warn("a sample is not the population", UserWarning, stacklevel=2)
    s = (q * k) @ np.ones(d) / np.sqrt(d if scaled else 1)
    print(s[:3])
    return np.average(s), np.average((s - np.average(s)) ** 2)


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


def score_statistics__right_feature_loop(d, n_samples, rng, scaled):
    """Adds up one feature after the other."""
    q = rng.standard_normal((n_samples, d))
    k = rng.standard_normal((n_samples, d))
    s = np.zeros(n_samples)
    for i in range(d):
        s += q[:, i] * k[:, i]
    s = np.where(scaled, s / np.sqrt(d), s)
    return s.sum() / n_samples, np.linalg.norm(s - s.sum() / n_samples) ** 2 / n_samples


def score_statistics__right_fourth_roots(d, n_samples, rng, scaled):
    """q and k each divided by d to the ¼, a batch of (1, d) @ (d, 1), and the variance as a squared deviation."""
    q, k = rng.standard_normal((n_samples, d)), rng.standard_normal((n_samples, d))
    root = d**0.25 if scaled else 1
    scores = ((q / root)[:, None, :] @ (k / root)[:, :, None]).squeeze(axis=(1, 2))
    return float(scores.mean()), float(np.std(scores)) ** 2


# ------------------------------------------------------------------------------------------- softmax_jacobian, wrong


def softmax_jacobian__wrong_diagonal_only(p):
    """p (1 - p) on the diagonal, zero elsewhere."""
    return np.diag(p * (1 - p))


def softmax_jacobian__wrong_vector(p):
    """The diagonal as a vector."""
    return p * (1 - p)


def softmax_jacobian__wrong_sign(p):
    """Sign error."""
    return np.outer(p, p) - np.diag(p)


def softmax_jacobian__wrong_plus(p):
    """diag(p) + p pᵀ."""
    return np.diag(p) + np.outer(p, p)


def softmax_jacobian__wrong_off_diagonal_only(p):
    """-p pᵀ, the diagonal forgotten."""
    return -np.outer(p, p)


def softmax_jacobian__wrong_identity(p):
    """1 in place of p on the diagonal."""
    return np.eye(len(p)) - np.outer(p, p)


def softmax_jacobian__wrong_broadcast(p):
    """diag(p) - p * p: broadcasts to p_j², no outer product."""
    return np.diag(p) - p * p


def softmax_jacobian__wrong_inner(p):
    """diag(p) - p @ p: a scalar is taken off everywhere."""
    return np.diag(p) - p @ p


def softmax_jacobian__wrong_transpose_of_vector(p):
    """diag(p) - p @ p.T on a vector: .T does nothing in 1-d, taken with its own shape."""
    return np.diag(p) - np.dot(p.T, p) * np.eye(len(p))


def softmax_jacobian__wrong_row_product(p):
    """p * (I - p): weights the columns, p_j (δ - p_j)."""
    return p * (np.eye(len(p)) - p)


def softmax_jacobian__wrong_one_minus_everywhere(p):
    """pᵢ (1 - pⱼ) everywhere."""
    return np.outer(p, 1 - p)


def softmax_jacobian__wrong_log_softmax(p):
    """The derivative of the log-softmax."""
    return np.eye(len(p)) - p[None, :]


def softmax_jacobian__wrong_log_softmax_transposed(p):
    """The derivative of the log-softmax, transposed."""
    return np.eye(len(p)) - p[:, None]


def softmax_jacobian__wrong_softmax_again(p):
    """Takes `p` for scores and softmaxes it first."""
    s = _softmax(p)
    return np.diag(s) - np.outer(s, s)


def softmax_jacobian__wrong_hard_coded_three(p):
    """Always 3 × 3."""
    out = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            out[i, j] = p[i] * ((i == j) - p[j])
    return out


def softmax_jacobian__wrong_off_by_one(p):
    """The last row stays zero."""
    out = np.zeros((len(p), len(p)))
    for i in range(len(p) - 1):
        out[i] = -p[i] * p
        out[i, i] += p[i]
    return out


def softmax_jacobian__wrong_upper_only(p):
    """The upper triangle only."""
    return np.triu(np.diag(p) - np.outer(p, p))


def softmax_jacobian__wrong_squared_diagonal(p):
    """p² on the diagonal first: diag(p²) - p pᵀ has a zero diagonal."""
    return np.diag(p**2) - np.outer(p, p)


def softmax_jacobian__wrong_diagonal_p(p):
    """The diagonal is p, not p - p²."""
    out = -np.outer(p, p)
    np.fill_diagonal(out, p)
    return out


def softmax_jacobian__wrong_squeezed(p):
    """n = 1 gives a 0-d array."""
    return np.squeeze(np.diag(p) - np.outer(p, p))


def softmax_jacobian__wrong_flat(p):
    """Flat, n² long."""
    return (np.diag(p) - np.outer(p, p)).ravel()


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


def softmax_jacobian__wrong_coarse_difference(p):
    """Forward differences with a step of 0.1: not accurate."""
    h = 0.1
    columns = [(p * np.exp(h * e) / (p * np.exp(h * e)).sum() - p) / h for e in np.eye(len(p))]
    return np.stack(columns, axis=1)


def softmax_jacobian__wrong_eps(p):
    """1e-3 added to the diagonal."""
    return np.diag(p) - np.outer(p, p) + 1e-3 * np.eye(len(p))


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


def softmax_jacobian__wrong_mean(p):
    """Divided by n."""
    return (np.diag(p) - np.outer(p, p)) / len(p)


def softmax_jacobian__wrong_float16(p):
    """Half precision."""
    return (np.diag(p) - np.outer(p, p)).astype(np.float16)


def softmax_jacobian__wrong_int_table(p):
    """The table is made of integers."""
    out = np.zeros((len(p), len(p)), dtype=int)
    for i in range(len(p)):
        for j in range(len(p)):
            out[i, j] = p[i] * ((i == j) - p[j])
    return out


def softmax_jacobian__wrong_shared_buffer(p):
    """One buffer per size: an earlier result changes at the next call."""
    out = _STATE.setdefault(("jacobian", len(p)), np.empty((len(p), len(p))))
    out[...] = np.diag(p) - np.outer(p, p)
    return out


def softmax_jacobian__wrong_gradient_of_sum(p):
    """Sums the outputs: the derivative of a sum that is always 1."""
    return (np.diag(p) - np.outer(p, p)).sum(axis=0)


def softmax_jacobian__wrong_halved_cross(p):
    """The off-diagonal entries are halved."""
    out = -0.5 * np.outer(p, p)
    np.fill_diagonal(out, p * (1 - p))
    return out


def softmax_jacobian__wrong_transposed_vector(p):
    """p.T of a vector is the vector."""
    return p * np.eye(len(p)) - p.T * p.T


def softmax_jacobian__wrong_identity_matrix(p):
    """The identity matrix."""
    return np.eye(len(p))


# ------------------------------------------------------------------------------------------- softmax_jacobian, right


def softmax_jacobian__right_loops(p):
    """Two loops with the two cases, float64."""
    n = len(p)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            out[i, j] = float(p[i]) * (1 - float(p[i])) if i == j else -float(p[i]) * float(p[j])
    return out


def softmax_jacobian__right_einsum(p):
    """einsum with the identity."""
    eye = np.eye(len(p))
    return np.einsum("i,ij->ij", p, eye) - np.einsum("i,j->ij", p, p)


def softmax_jacobian__right_rows(p):
    """pᵢ (δ - pⱼ), the rows weighted."""
    return p[:, np.newaxis] * (np.identity(len(p)) - p)


def softmax_jacobian__right_complex_step(p):
    """Complex step on p exp(z) / Σ p exp(z) at z = 0: exact to rounding, zeros are no trouble."""
    p = np.asarray(p, dtype=np.float64)
    e = p[:, None] * np.exp(1e-30j * np.eye(len(p)))
    return (e / e.sum(axis=0)).imag / 1e-30


def softmax_jacobian__right_fill_diagonal(p):
    """-p pᵀ with the diagonal filled, plus a printed line."""
    out = -np.multiply.outer(p, p)
    np.fill_diagonal(out, p * (1 - p))
    print(out.shape)
    return out


def softmax_jacobian__right_warns(p):
    """Warns; np.kron for the outer product."""
    warnings.warn("the rows sum to zero", UserWarning, stacklevel=2)
    return np.diagflat(p) - np.kron(p[:, None], p[None, :])


def softmax_jacobian__right_transposed(p):
    """Built column by column and transposed: the matrix is symmetric anyway."""
    columns = [p * (np.arange(len(p)) == j) - p * p[j] for j in range(len(p))]
    return np.array(columns).T


def softmax_jacobian__right_where(p):
    """np.where with the two cases, Fortran-ordered."""
    p = np.asarray(p)
    same = np.arange(p.size)[:, None] == np.arange(p.size)
    return np.asfortranarray(np.where(same, p * (1 - p), -p[:, None] * p[None, :]))


def softmax_jacobian__right_covariance(p):
    """The covariance matrix of a one-hot draw with probabilities p: Σ p (e - p)(e - p)ᵀ."""
    p = np.asarray(p, dtype=np.float64) / np.sum(p, dtype=np.float64)
    centred = np.eye(len(p)) - p
    return centred.T @ np.diag(p) @ centred


def softmax_jacobian__right_vectorize(p):
    """np.vectorize over the two numbers i and j."""
    entry = np.vectorize(lambda i, j: float(p[i]) * (float(i == j) - float(p[j])), otypes=[float])
    return np.fromfunction(entry, (len(p), len(p)), dtype=int)


def softmax_jacobian__right_diagonal_from_sums(p):
    """The products beside the diagonal; the diagonal is what makes each row sum to 0."""
    out = -p[:, None] * p
    np.fill_diagonal(out, 0)
    return out - np.diag(out.sum(axis=1))


# ------------------------------------------------------------------------------------------- attention_backward, wrong


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


def attention_backward__wrong_root_multiplies(Q, K, V, d_output):
    """Multiplies by √d_k on the way back, as if to undo the division."""
    A, root = _weights(Q, K), np.sqrt(Q.shape[1])
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(1, keepdims=True))
    return dS @ K * root, dS.T @ Q * root, A.T @ d_output


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


def attention_backward__wrong_correction_added(Q, K, V, d_output):
    """The two parts of the softmax's derivative are added."""
    A = _weights(Q, K)
    dA = d_output @ V.T
    dS = A * (dA + np.sum(A * dA, axis=1, keepdims=True)) / np.sqrt(Q.shape[1])
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_through_log_softmax(Q, K, V, d_output):
    """Takes the backward pass of a log-softmax, as in a cross-entropy."""
    A = _weights(Q, K)
    dA = d_output @ V.T
    dS = (dA - A * dA.sum(axis=1, keepdims=True)) / np.sqrt(Q.shape[1])
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_linear_attention(Q, K, V, d_output):
    """The softmax is taken for a constant factor 1."""
    dS = d_output @ V.T / np.sqrt(Q.shape[1])
    return dS @ K, dS.T @ Q, _weights(Q, K).T @ d_output


def attention_backward__wrong_scores_for_weights(Q, K, V, d_output):
    """Uses the scores where the weights belong, in dV as well."""
    S = _scaled(Q, K)
    dA = d_output @ V.T
    dS = S * (dA - np.sum(S * dA, axis=1, keepdims=True)) / np.sqrt(Q.shape[1])
    return dS @ K, dS.T @ Q, S.T @ d_output


def attention_backward__wrong_plain_weights(Q, K, V, d_output):
    """The weights are recomputed without the root; the way back has it."""
    A = _softmax(Q @ K.T)
    dA = d_output @ V.T
    dS = A * (dA - (A * dA).sum(1, keepdims=True)) / np.sqrt(Q.shape[1])
    return dS @ K, dS.T @ Q, A.T @ d_output


def attention_backward__wrong_values_not_turned(Q, K, V, d_output):
    """dV = A @ d_output: fits only where n = m."""
    dQ, dK, _ = attention_backward__right_two_lines_a_row(Q, K, V, d_output)
    return dQ, dK, _weights(Q, K) @ d_output


def attention_backward__wrong_values_by_key_softmax(Q, K, V, d_output):
    """To make the shapes fit, dV uses the weights with which keys would look at queries."""
    dQ, dK, _ = attention_backward__right_two_lines_a_row(Q, K, V, d_output)
    return dQ, dK, _weights(K, Q) @ d_output


def attention_backward__wrong_values_all_alike(Q, K, V, d_output):
    """dV gives each key the same share of d_output."""
    dQ, dK, dV = attention_backward__right_two_lines_a_row(Q, K, V, d_output)
    return dQ, dK, np.broadcast_to(d_output.sum(0) / len(K), dV.shape).copy()


def attention_backward__wrong_order_of_results(Q, K, V, d_output):
    """Returns dV first."""
    return attention_backward__right_two_lines_a_row(Q, K, V, d_output)[::-1]


def attention_backward__wrong_keys_and_queries_exchanged(Q, K, V, d_output):
    """Returns dK, dQ, dV."""
    dQ, dK, dV = attention_backward__right_two_lines_a_row(Q, K, V, d_output)
    return dK, dQ, dV


def attention_backward__wrong_downhill(Q, K, V, d_output):
    """Returns the directions in which the number falls."""
    return tuple(-dX for dX in attention_backward__right_two_lines_a_row(Q, K, V, d_output))


def attention_backward__wrong_last_query_alone(Q, K, V, d_output):
    """In the loop over the queries dK and dV are set, not added up."""
    dQ, dK, dV = np.zeros_like(Q), np.zeros_like(K), np.zeros_like(V)
    for i, (a, g) in enumerate(zip(_weights(Q, K), d_output, strict=True)):
        ds = a * (V @ g - a @ V @ g) / np.sqrt(Q.shape[1])
        dQ[i], dK, dV = ds @ K, np.outer(ds, Q[i]), np.outer(a, g)
    return dQ, dK, dV


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


# ------------------------------------------------------------------------------------------- attention_backward, right


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


def attention_backward__right_all_jacobians(Q, K, V, d_output):
    """All Jacobians at once, (n, m, m), and one einsum a result."""
    A = _weights(Q, K)
    J = np.einsum("ij,jk->ijk", A, np.eye(len(K))) - np.einsum("ij,ik->ijk", A, A)
    back = np.einsum("iv,jv,ijk->ik", d_output, V, J) * Q.shape[1] ** -0.5
    return np.einsum("ik,kd->id", back, K), np.einsum("ik,id->kd", back, Q), np.einsum("ij,iv->jv", A, d_output)


def attention_backward__right_centred_values(Q, K, V, d_output):
    """The softmax's derivative as a covariance of keys and values: each query's own mean key is subtracted."""
    A = _weights(Q, K)
    root = math.sqrt(K.shape[1])
    away = K[None] - (A @ K)[:, None]  # (n, m, d_k): how far each key is from the query's mean key
    gains = A * (d_output @ V.T)
    dQ = (gains[:, :, None] * away).sum(axis=1) / root
    dS = gains - A * gains.sum(axis=1, keepdims=True)
    return dQ, (Q.T @ dS).T / root, np.swapaxes(np.swapaxes(d_output, 0, 1) @ A, 0, 1)


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
