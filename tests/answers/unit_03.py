"""Right and wrong answers to unit 03_masking, written from the contracts of the functions alone, to test the judge with."""  # noqa: E501

import collections
import itertools
import warnings

import numpy as np

# ---------------------------------------------------------------- causal_mask


def causal_mask__right_loops(n):
    """Two Python loops, cell by cell."""
    mask = np.zeros((n, n), dtype=bool)
    for i in range(n):
        for j in range(n):
            mask[i, j] = j <= i
    return mask


def causal_mask__right_not_triu(n):
    """The complement of the strictly upper triangle, with a print."""
    print("building a mask of size", n)
    return ~np.triu(np.ones((n, n), dtype=bool), k=1)


def causal_mask__right_outer(n):
    """Outer comparison of positions, transposed: not C-contiguous."""
    return np.less_equal.outer(np.arange(n), np.arange(n)).T


def causal_mask__right_cumsum(n):
    """A running maximum over the identity down the columns."""
    return np.cumsum(np.eye(n), axis=0) > 0


def causal_mask__right_flip(n):
    """The upper triangle turned by 180 degrees twice over: a view with negative strides."""
    return np.triu(np.ones((n, n), dtype=bool))[::-1, ::-1].T[::-1, ::-1]


def causal_mask__right_slices(n):
    """Row slices, with a warning that costs nothing."""
    warnings.warn("a teaching implementation", stacklevel=2)
    mask = np.full((n, n), False)
    for i, row in enumerate(mask):
        row[: i + 1] = True
    return mask


def causal_mask__right_tril_indices(n):
    """Fancy indexing with the indices of the lower triangle."""
    mask = np.zeros((n, n), dtype=np.bool_)
    mask[np.tril_indices(n)] = True
    return mask


def causal_mask__right_flat_divmod(n):
    """Row and column from one flat index."""
    flat = np.arange(n * n)
    return (flat % max(n, 1) <= flat // max(n, 1)).reshape(n, n)


def causal_mask__right_sign(n):
    """The sign of position differences."""
    position = np.arange(n)[:, None]
    return np.sign(position - position.T) != -1


def causal_mask__right_grown(n):
    """By recursion: the mask of one token fewer, a hidden column and a row that sees all."""
    if n == 1:
        return np.array([[True]])
    mask = np.zeros((n, n), dtype=bool)
    mask[:-1, :-1] = causal_mask__right_grown(n - 1)
    mask[-1] = True
    return mask


def causal_mask__right_windows(n):
    """Windows that slide over one line of n times True and n - 1 times False: a read-only view."""
    return np.lib.stride_tricks.sliding_window_view(np.arange(2 * n - 1) < n, n)[::-1]


def causal_mask__wrong_strict(n):
    """Excludes the diagonal: a token may not attend to itself."""
    return np.tri(n, k=-1, dtype=bool)


def causal_mask__wrong_upper(n):
    """The upper triangle: transposed, a token sees only the future."""
    return np.triu(np.ones((n, n), dtype=bool))


def causal_mask__wrong_true_means_blocked(n):
    """True where attending is forbidden: the mask the wrong way round."""
    return np.triu(np.ones((n, n), dtype=bool), k=1)


def causal_mask__wrong_one_ahead(n):
    """Off by one: row i may also attend to column i + 1."""
    return np.tri(n, k=1, dtype=bool)


def causal_mask__wrong_float(n):
    """Zeros and ones as floats, not a boolean mask."""
    return np.tril(np.ones((n, n)))


def causal_mask__wrong_int(n):
    """Zeros and ones as integers, not a boolean mask."""
    return np.tri(n, dtype=int)


def causal_mask__wrong_additive(n):
    """The additive mask: 0 where allowed and -inf where not."""
    return np.where(np.tri(n, dtype=bool), 0.0, -np.inf)


def causal_mask__wrong_additive_as_bool(n):
    """Converts the additive mask to bool, which makes the blocked cells True."""
    return np.where(np.tri(n) == 1, 0.0, -1e9).astype(bool)


def causal_mask__wrong_hard_coded_size(n):
    """Cuts the mask out of a fixed one of 4 x 4."""
    return np.tri(4, dtype=bool)[:n, :n]


def causal_mask__wrong_window_of_two(n):
    """Only the token itself and its predecessor: a band."""
    difference = np.arange(n)[:, None] - np.arange(n)
    return (difference >= 0) & (difference < 2)


def causal_mask__wrong_antidiagonal(n):
    """The triangle flipped left to right."""
    return np.fliplr(np.tri(n, dtype=bool))


def causal_mask__wrong_list(n):
    """A list of lists, not an array."""
    return [[j <= i for j in range(n)] for i in range(n)]


def causal_mask__wrong_prints(n):
    """Prints the mask and returns None."""
    print(np.tri(n, dtype=bool))


def causal_mask__wrong_leading_axis(n):
    """Adds a batch axis: (1, n, n)."""
    return np.tri(n, dtype=bool)[None]


def causal_mask__wrong_all_true(n):
    """Everybody may look at everybody."""
    return np.ones((n, n), dtype=bool)


def causal_mask__wrong_diagonal_only(n):
    """Every token may attend to itself alone."""
    return np.eye(n, dtype=bool)


def causal_mask__wrong_extra_token(n):
    """Off by one in the size: (n + 1, n + 1)."""
    return np.tri(n + 1, dtype=bool)


def causal_mask__wrong_remembers_first(n):
    """Keeps the first mask it ever built and returns it for every n."""
    me = causal_mask__wrong_remembers_first
    if not hasattr(me, "mask"):
        me.mask = np.tri(n, dtype=bool)
    return me.mask


def causal_mask__wrong_loop_stops_early(n):
    """The row loop runs to n - 1: the last row stays empty."""
    mask = np.zeros((n, n), dtype=bool)
    for i in range(n - 1):
        mask[i, : i + 1] = True
    return mask


def causal_mask__wrong_counts_from_one(n):
    """The row loop starts at 1: the first row stays empty."""
    mask = np.zeros((n, n), dtype=bool)
    for i in range(1, n):
        mask[i, : i + 1] = True
    return mask


def causal_mask__wrong_never_first_column(n):
    """Columns 1 ... i: the first token is left out, but for row 0."""
    mask = np.tri(n, dtype=bool)
    mask[1:, 0] = False
    return mask


def causal_mask__wrong_squeezed(n):
    """Squeezes: for n = 1 the result is 0-d."""
    return np.squeeze(np.tri(n, dtype=bool))


def causal_mask__wrong_object(n):
    """An array of Python objects, not of booleans."""
    return np.array([[j <= i for j in range(n)] for i in range(n)], dtype=object)


def causal_mask__wrong_vector(n):
    """One row of n values, meant for the last token."""
    return np.arange(n) <= n - 1


def causal_mask__wrong_column_sums(n):
    """Sum of the positions at most n - 1: an anti-triangle, symmetric."""
    return np.add.outer(np.arange(n), np.arange(n)) <= n - 1


# --------------------------------------------------------------- padding_mask


def padding_mask__right_loops(lengths, m):
    """A Python loop with slices."""
    mask = np.zeros((len(lengths), m), dtype=bool)
    for b, length in enumerate(lengths):
        mask[b, : int(length)] = True
    return mask


def padding_mask__right_outer(lengths, m):
    """Outer comparison, greater than."""
    return np.greater.outer(np.asarray(lengths), np.arange(m))


def padding_mask__right_transposed(lengths, m):
    """Built keys first and transposed: not C-contiguous."""
    return (np.arange(m)[:, None] < np.asarray(lengths)).T


def padding_mask__right_table(lengths, m):
    """A table of all m + 1 possible rows, indexed by the lengths."""
    return np.tri(m + 1, m, k=-1, dtype=bool)[np.asarray(lengths, dtype=int)]


def padding_mask__right_not_padding(lengths, m):
    """The complement of the padding, with a print."""
    padding = np.arange(m)[None, :] >= np.asarray(lengths).reshape(-1, 1)
    print(int(padding.sum()), "padded keys")
    return np.logical_not(padding)


def padding_mask__right_counts_from_one(lengths, m):
    """Counts the keys from 1 to m."""
    return np.arange(1, m + 1) <= np.asarray(lengths)[:, np.newaxis]


def padding_mask__right_rows_joined(lengths, m):
    """Every row joined from ones and zeros, converted to bool at the end."""
    rows = [np.r_[np.ones(int(k)), np.zeros(m - int(k))] for k in lengths]
    return np.array(rows).reshape(len(rows), m).astype(bool)


def padding_mask__right_marked_ends(lengths, m):
    """A mark where each sequence ends; what stands behind a mark is filler."""
    ends = np.zeros((len(lengths), m + 1), dtype=int)
    ends[np.arange(len(lengths)), lengths] = 1
    return ends.cumsum(axis=1)[:, :-1] == 0


def padding_mask__right_rows_of_causal(lengths, m):
    """Rows of a triangle, and for length 0 the last row, which index -1 finds."""
    triangle = np.vstack([np.tri(m, dtype=bool), np.zeros((1, m), dtype=bool)])
    return triangle[lengths - 1]


def padding_mask__wrong_one_too_many(lengths, m):
    """Off by one: lengths[b] + 1 keys are True."""
    return np.arange(m) <= lengths[:, None]


def padding_mask__wrong_one_too_few(lengths, m):
    """Off by one: lengths[b] - 1 keys are True."""
    return np.arange(m) + 1 < lengths[:, None]


def padding_mask__wrong_true_means_padding(lengths, m):
    """True at the padding: the mask the wrong way round."""
    return np.arange(m) >= lengths[:, None]


def padding_mask__wrong_transposed(lengths, m):
    """Shape (m, B)."""
    return np.arange(m)[:, None] < lengths[None, :]


def padding_mask__wrong_left_padding(lengths, m):
    """True for the last lengths[b] keys instead of the first."""
    return np.arange(m)[::-1] < lengths[:, None]


def padding_mask__wrong_int(lengths, m):
    """Ones and zeros as integers."""
    return (np.arange(m) < lengths[:, None]).astype(int)


def padding_mask__wrong_float(lengths, m):
    """Ones and zeros as floats."""
    mask = np.zeros((len(lengths), m))
    for b in range(len(lengths)):
        mask[b, : lengths[b]] = 1
    return mask


def padding_mask__wrong_longest(lengths, m):
    """As wide as the longest sequence, not m."""
    return np.arange(lengths.max()) < lengths[:, None]


def padding_mask__wrong_at_least_one(lengths, m):
    """Treats length 0 as 1, so that no row is empty."""
    return np.arange(m) < np.maximum(lengths, 1)[:, None]


def padding_mask__wrong_negative_slice(lengths, m):
    """Cuts with [-padding:], which for padding 0 blanks the whole row."""
    mask = np.ones((len(lengths), m), dtype=bool)
    for b, length in enumerate(lengths):
        mask[b, -(m - length) :] = False
    return mask


def padding_mask__wrong_extra_axis(lengths, m):
    """Shape (B, 1, m), ready to broadcast."""
    return (np.arange(m) < lengths[:, None])[:, None, :]


def padding_mask__wrong_list(lengths, m):
    """A list of lists, not an array."""
    return [[j < length for j in range(m)] for length in lengths]


def padding_mask__wrong_no_new_axis(lengths, m):
    """Compares without a new axis: works for B = 1 and B = m only, and wrongly."""
    return np.arange(m) < lengths


def padding_mask__wrong_first_length(lengths, m):
    """Uses the first length for the whole batch."""
    return np.tile(np.arange(m) < lengths[0], (len(lengths), 1))


def padding_mask__wrong_batch_of_one(lengths, m):
    """Works for B = 1 only: int() of the whole array."""
    return (np.arange(m) < int(lengths.item()))[None, :]


def padding_mask__wrong_last_key_only(lengths, m):
    """True only at the last valid key."""
    return np.arange(m) == lengths[:, None] - 1


def padding_mask__wrong_never_full(lengths, m):
    """Clips the lengths to m - 1: a full sequence loses its last key."""
    return np.arange(m) < np.minimum(lengths, m - 1)[:, None]


def padding_mask__wrong_additive(lengths, m):
    """0 where allowed and -inf at the padding."""
    return np.where(np.arange(m) < lengths[:, None], 0.0, -np.inf)


def padding_mask__wrong_sorts_lengths(lengths, m):
    """Sorts the lengths: the rows come in another order."""
    return np.arange(m) < np.sort(lengths)[:, None]


def padding_mask__wrong_changes_lengths(lengths, m):
    """Counts the caller's lengths down to zero in place."""
    mask = np.zeros((len(lengths), m), dtype=bool)
    for b in range(len(lengths)):
        while lengths[b] > 0:
            lengths[b] -= 1
            mask[b, lengths[b]] = True
    return mask


def padding_mask__wrong_prints(lengths, m):
    """Prints the mask and returns None."""
    print(np.arange(m) < np.asarray(lengths)[:, None])


def padding_mask__wrong_pairwise(lengths, m):
    """Shape (B, m, m): query and key must both be valid."""
    valid = np.arange(m) < lengths[:, None]
    return valid[:, :, None] & valid[:, None, :]


def padding_mask__wrong_stops_at_empty(lengths, m):
    """Leaves the loop at the first empty sequence."""
    mask = np.zeros((len(lengths), m), dtype=bool)
    for b, length in enumerate(lengths):
        if length == 0:
            break
        mask[b, :length] = True
    return mask


def padding_mask__wrong_hard_coded_width(lengths, m):
    """Always ten keys wide."""
    return np.arange(10) < lengths[:, None]


def padding_mask__wrong_cumulative(lengths, m):
    """Reads the lengths as steps: adds them up along the batch."""
    return np.arange(m) < np.cumsum(lengths)[:, None]


def padding_mask__wrong_drops_empty(lengths, m):
    """Leaves out the rows of empty sequences."""
    mask = np.arange(m) < lengths[:, None]
    return mask[lengths > 0]


def padding_mask__wrong_flat(lengths, m):
    """A flat array of B * m values."""
    return (np.arange(m) < lengths[:, None]).ravel()


# ------------------------------------------------------------- masked_softmax


def masked_softmax__right_where(scores, mask):
    """-inf, the maximum made finite, a safe denominator."""
    z = np.where(mask, scores, -np.inf)
    top = z.max(axis=-1, keepdims=True)
    e = np.exp(z - np.where(np.isfinite(top), top, 0.0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__right_loops(scores, mask):
    """Row by row in Python, over the allowed keys alone."""
    allowed = np.broadcast_to(mask, scores.shape)
    out = np.zeros(scores.shape, dtype=np.float64)
    for index in np.ndindex(*scores.shape[:-1]):
        keep = np.flatnonzero(allowed[index])
        if keep.size:
            row = scores[index][keep].astype(np.float64)
            e = np.exp(row - row.max())
            out[index][keep] = e / e.sum()
    return out


def masked_softmax__right_log_space(scores, mask):
    """In log space: exp(score - log-sum-exp), with logaddexp."""
    keep = np.broadcast_to(np.asarray(mask, dtype=bool), scores.shape)
    z = np.where(keep, np.asarray(scores, dtype=np.float64), -np.inf)
    log_total = np.logaddexp.reduce(z, axis=-1, keepdims=True)
    log_total = np.where(keep.any(axis=-1, keepdims=True), log_total, 0.0)
    return np.exp(z - log_total)


def masked_softmax__right_apply_along_axis(scores, mask):
    """NaN as a marker inside, nanmax avoided, one row at a time, printing its shape."""
    print("softmax of", scores.shape)

    def one_row(row):
        seen = ~np.isnan(row)
        out = np.zeros_like(row)
        if seen.any():
            e = np.exp(row[seen] - row[seen].max())
            out[seen] = e / e.sum()
        return out

    return np.apply_along_axis(one_row, -1, np.where(mask, np.asarray(scores, dtype=np.float64), np.nan))


def masked_softmax__right_pairwise(scores, mask):
    """One over the sum of exp(z_j - z_i), clipped: no maximum anywhere."""
    keep = np.broadcast_to(mask, scores.shape)
    z = scores.astype(np.float64)
    difference = np.minimum(z[..., None, :] - z[..., :, None], 700.0)
    total = np.where(keep[..., None, :], np.exp(difference), 0.0).sum(axis=-1)
    return np.where(keep & (total > 0), 1.0 / np.where(total > 0, total, 1.0), 0.0) * (total < 1e300)


def masked_softmax__right_errstate(scores, mask):
    """Divides 0 by 0 under errstate and repairs it; works on a copy with the keys first."""
    z = np.moveaxis(np.where(mask, scores, -np.inf), -1, 0)
    with np.errstate(all="ignore"):
        e = np.exp(z - z.max(axis=0))
        p = e / e.sum(axis=0)
    p[np.isnan(p)] = 0
    return np.moveaxis(p, 0, -1)


def masked_softmax__right_divide_where(scores, mask):
    """The ufunc arguments where= and initial=."""
    scores = np.asarray(scores, dtype=np.float64)
    keep = np.broadcast_to(mask, scores.shape)
    top = np.max(scores, axis=-1, keepdims=True, where=keep, initial=-1e300)
    e = np.exp(scores - top, where=keep, out=np.zeros_like(scores))
    total = e.sum(axis=-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def masked_softmax__right_finite_fill(scores, mask):
    """A huge finite fill and a final multiplication by the mask."""
    z = np.where(mask, np.asarray(scores, dtype=np.float64), -1e30)
    z = z - z.max(axis=-1, keepdims=True)
    p = np.exp(z) / np.einsum("...m->...", np.exp(z))[..., None]
    return p * mask


def masked_softmax__right_running(scores, mask):
    """The online algorithm: running maximum and running sum, key by key."""
    keep = np.broadcast_to(mask, scores.shape)
    top = np.full(scores.shape[:-1], -1e30)
    total = np.zeros(scores.shape[:-1])
    for j in range(scores.shape[-1]):
        new = np.where(keep[..., j], np.maximum(top, scores[..., j]), top)
        step = np.where(keep[..., j], np.exp(np.minimum(scores[..., j] - new, 0.0)), 0.0)
        total = total * np.exp(top - new) + step
        top = new
    z = np.where(keep, scores - top[..., None], -np.inf)
    return np.exp(z) / np.where(total == 0, 1.0, total)[..., None]


def masked_softmax__right_sink(scores, mask):
    """One more column, which takes all the weight of a row where nothing is allowed, and is cut off."""
    mask = np.broadcast_to(mask, scores.shape)
    sink = np.where(mask.any(axis=-1, keepdims=True), -np.inf, 0.0)
    padded = np.concatenate([np.where(mask, scores, -np.inf), sink], axis=-1)
    powers = np.exp(padded - padded.max(axis=-1, keepdims=True))
    return (powers / powers.sum(axis=-1, keepdims=True))[..., :-1]


def masked_softmax__right_masked_array(scores, mask):
    """NumPy's masked arrays, filled with zeros in the end."""
    kept = np.ma.masked_array(scores, ~np.broadcast_to(mask, scores.shape))
    top = kept.max(axis=-1, keepdims=True).filled(0)
    powers = np.ma.exp(kept - top).filled(0)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / (total + (total == 0))


def masked_softmax__wrong_mask_inverted(scores, mask):
    """True is read as "blocked": the mask the wrong way round."""
    z = np.where(mask, -np.inf, scores)
    top = z.max(axis=-1, keepdims=True)
    e = np.exp(z - np.where(np.isfinite(top), top, 0.0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_scores_times_mask(scores, mask):
    """Multiplies the scores by the mask: a blocked score becomes 0, not -inf."""
    z = scores * mask
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def masked_softmax__wrong_not_renormalised(scores, mask):
    """Softmax over all keys, then masked: the rows do not sum to 1."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) * mask


def masked_softmax__wrong_uniform_when_empty(scores, mask):
    """Fills with -1e9: a row with nothing allowed gets uniform weights."""
    z = np.where(mask, scores, -1e9)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def masked_softmax__wrong_small_fill(scores, mask):
    """Fills with -100: leaks when the allowed scores are as low as that or lower."""
    z = np.where(mask, scores, -100.0)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return np.where(np.broadcast_to(mask, p.shape).any(axis=-1, keepdims=True), p, 0.0)


def masked_softmax__wrong_nan_when_empty(scores, mask):
    """Fills with -inf and gives NaN where nothing is allowed."""
    z = np.where(mask, scores, -np.inf)
    with np.errstate(all="ignore"):
        e = np.exp(z - z.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)


def masked_softmax__wrong_warns_when_empty(scores, mask):
    """Right values, but an invalid-value warning where nothing is allowed."""
    z = np.where(mask, scores, -np.inf)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.nan_to_num(e / e.sum(axis=-1, keepdims=True))


def masked_softmax__wrong_no_maximum(scores, mask):
    """Does not subtract the maximum: overflows at 1e4 and underflows at -1e4."""
    e = np.exp(scores) * mask
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_first_axis(scores, mask):
    """Normalises over the first axis."""
    z = np.where(mask, scores, -1e30)
    e = np.exp(z - z.max(axis=0, keepdims=True)) * mask
    total = e.sum(axis=0, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_axis_one(scores, mask):
    """Normalises over axis 1: right for two axes, wrong for three."""
    z = np.where(mask, scores, -1e30)
    e = np.exp(z - z.max(axis=1, keepdims=True)) * mask
    total = e.sum(axis=1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_global_maximum(scores, mask):
    """Subtracts one maximum for all rows: rows far below it underflow to zero."""
    e = np.exp(scores - scores.max()) * mask
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_maximum_of_blocked(scores, mask):
    """The maximum includes blocked keys: underflows when a blocked score is huge."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True)) * mask
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_in_place(scores, mask):
    """Writes the fill into the caller's scores."""
    keep = np.broadcast_to(mask, scores.shape)
    scores[~keep] = -1e30
    e = np.exp(scores - scores.max(axis=-1, keepdims=True)) * keep
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_one_in_denominator(scores, mask):
    """Adds 1 to the denominator to avoid dividing by zero."""
    z = np.where(mask, scores, -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    return e / (1.0 + e.sum(axis=-1, keepdims=True))


def masked_softmax__wrong_total_over_everything(scores, mask):
    """Divides by the sum over all rows."""
    z = np.where(mask, scores, -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    return e / max(e.sum(), 1e-300)


def masked_softmax__wrong_no_broadcast(scores, mask):
    """Indexes with the mask: fails when the mask has to broadcast."""
    z = np.full(scores.shape, -1e30)
    z[mask] = scores[mask]
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_zero_if_any_empty(scores, mask):
    """One empty row makes the whole result zero."""
    keep = np.broadcast_to(mask, scores.shape)
    if not keep.any(axis=-1).all():
        return np.zeros_like(scores)
    z = np.where(keep, scores, -np.inf)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def masked_softmax__wrong_first_key_when_empty(scores, mask):
    """Gives all the weight to the first key where nothing is allowed."""
    z = np.where(mask, scores, -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    total = e.sum(axis=-1, keepdims=True)
    out = e / np.where(total == 0, 1.0, total)
    out[..., 0] = np.where(total[..., 0] == 0, 1.0, out[..., 0])
    return out


def masked_softmax__wrong_logarithm(scores, mask):
    """Returns the logarithm of the weights."""
    z = np.where(mask, scores, -1e30)
    z = z - z.max(axis=-1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


def masked_softmax__wrong_base_two(scores, mask):
    """Uses powers of 2 instead of e."""
    z = np.where(mask, scores, -1e30)
    e = np.exp2(z - z.max(axis=-1, keepdims=True)) * mask
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_scaled(scores, mask):
    """Divides the scores by the root of the number of keys first."""
    z = np.where(mask, scores / np.sqrt(scores.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_rounded(scores, mask):
    """Rounds the weights to three decimals."""
    z = np.where(mask, scores, -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    total = e.sum(axis=-1, keepdims=True)
    return np.round(e / np.where(total == 0, 1.0, total), 3)


def masked_softmax__wrong_clipped(scores, mask):
    """Clips the scores to -50 ... 50 to be "stable"."""
    e = np.exp(np.clip(scores, -50.0, 50.0)) * mask
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_no_keepdims(scores, mask):
    """Divides by the row sums without keepdims: fails, or divides the columns of a square."""
    z = np.where(mask, scores, -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    total = e.sum(axis=-1)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_no_softmax(scores, mask):
    """Divides the plain scores by their sum: no exponential."""
    e = np.abs(scores) * mask
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_doubled(scores, mask):
    """Applies the softmax twice."""
    out = scores
    for _ in range(2):
        z = np.where(mask, out, -1e30)
        e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
        total = e.sum(axis=-1, keepdims=True)
        out = e / np.where(total == 0, 1.0, total)
    return out


def masked_softmax__wrong_mask_added(scores, mask):
    """Adds the boolean mask to the scores, as if it were additive."""
    z = scores + mask
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def masked_softmax__wrong_mean_subtracted(scores, mask):
    """Subtracts the mean instead of the maximum: overflows for spread scores."""
    with np.errstate(all="ignore"):
        e = np.where(mask, np.exp(scores - scores.mean(axis=-1, keepdims=True)), 0.0)
        total = e.sum(axis=-1, keepdims=True)
        return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_half_precision(scores, mask):
    """Computes in float16."""
    z = np.where(mask, scores.astype(np.float16), np.float16(-60000))
    top = z.max(axis=-1, keepdims=True)
    e = np.exp((z.astype(np.float32) - top).astype(np.float16)) * mask
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, np.float16(1), total)


def masked_softmax__wrong_blocked_left_over(scores, mask):
    """Leaves the raw scores at the blocked keys of the result."""
    z = np.where(mask, scores, -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    total = e.sum(axis=-1, keepdims=True)
    return np.where(mask, e / np.where(total == 0, 1.0, total), scores)


def masked_softmax__wrong_prints(scores, mask):
    """Prints the weights and returns None."""
    z = np.where(mask, scores, -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    print(e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300))


# ----------------------------------------------------------- masked_attention


def masked_attention__right_matmul(Q, K, V, mask):
    """matmul and swapaxes, rows with nothing allowed made safe."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -np.inf)
    top = z.max(axis=-1, keepdims=True)
    e = np.exp(z - np.where(np.isfinite(top), top, 0.0))
    total = e.sum(axis=-1, keepdims=True)
    weights = e / np.where(total == 0, 1.0, total)
    return weights @ V, weights


def masked_attention__right_einsum(Q, K, V, mask):
    """einsum, the scale put on the queries, a finite fill and the mask once more."""
    scores = np.einsum("...nd,...md->...nm", Q * Q.shape[-1] ** -0.5, K)
    z = np.where(mask, scores.astype(np.float64), -1e30)
    e = np.exp(z - np.amax(z, axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return np.einsum("...nm,...mv->...nv", weights, V), weights


def masked_attention__right_loops(Q, K, V, mask):
    """Query by query and key by key, in Python loops."""
    lead, n, m = Q.shape[:-2], Q.shape[-2], K.shape[-2]
    keep = np.broadcast_to(mask, (*lead, n, m))
    output = np.zeros((*lead, n, V.shape[-1]))
    weights = np.zeros((*lead, n, m))
    for index in np.ndindex(*lead, n):
        b = index[:-1]
        allowed = [j for j in range(m) if keep[index][j]]
        if not allowed:
            continue
        s = np.array([float(Q[index] @ K[b][j]) / Q.shape[-1] ** 0.5 for j in allowed])
        p = np.exp(s - s.max())
        p /= p.sum()
        for j, weight in zip(allowed, p, strict=True):
            weights[index][j] = weight
            output[index] += weight * V[b][j]
    return output, weights


def masked_attention__right_streaming(Q, K, V, mask):
    """Online softmax over the keys; the weights from the final maximum and sum."""
    scores = Q @ np.moveaxis(K, -1, -2) / np.sqrt(K.shape[-1])
    keep = np.broadcast_to(mask, scores.shape)
    top = np.full(scores.shape[:-1], -1e30)
    total = np.zeros(scores.shape[:-1])
    output = np.zeros((*scores.shape[:-1], V.shape[-1]))
    for j in range(K.shape[-2]):
        new = np.where(keep[..., j], np.maximum(top, scores[..., j]), top)
        shrink = np.exp(top - new)
        p = np.where(keep[..., j], np.exp(np.minimum(scores[..., j] - new, 0.0)), 0.0)
        total = total * shrink + p
        output = output * shrink[..., None] + p[..., None] * V[..., None, j, :]
        top = new
    total = np.where(total == 0, 1.0, total)[..., None]
    weights = np.where(keep, np.exp(np.where(keep, scores - top[..., None], 0.0)), 0.0) / total
    return output / total, weights


def masked_attention__right_helper(Q, K, V, mask):
    """A helper in log space; both inputs scaled by the fourth root."""

    def weigh(scores, keep):
        z = np.where(keep, scores, -np.inf)
        log_total = np.logaddexp.reduce(z, axis=-1, keepdims=True)
        return np.exp(z - np.where(np.isneginf(log_total), 0.0, log_total))

    root = np.sqrt(np.sqrt(Q.shape[-1]))
    weights = weigh((Q / root) @ (K / root).swapaxes(-2, -1), mask)
    print("weights of shape", weights.shape)
    return np.matmul(weights, V), weights


def masked_attention__right_float64_transposed(Q, K, V, mask):
    """In float64 with keys before queries; returns transposed, non-contiguous views."""
    Q, K, V = (np.array(x, dtype=np.float64) for x in (Q, K, V))
    z = np.swapaxes(K @ np.swapaxes(Q, -1, -2), -1, -2) / Q.shape[-1] ** 0.5
    z = np.where(mask, z, -np.inf)
    with np.errstate(all="ignore"):
        e = np.exp(z - z.max(axis=-1, keepdims=True))
        weights = np.nan_to_num(e / e.sum(axis=-1, keepdims=True))
    weights_t = np.ascontiguousarray(np.swapaxes(weights, -1, -2))
    output_t = np.swapaxes(V, -1, -2) @ weights_t
    return np.swapaxes(output_t, -1, -2), np.swapaxes(weights_t, -1, -2)


def masked_attention__right_flat_batch(Q, K, V, mask):
    """All leading axes flattened to one, a loop over it, and back."""
    lead, n, m = Q.shape[:-2], Q.shape[-2], K.shape[-2]
    keep = np.broadcast_to(mask, (*lead, n, m)).reshape(-1, n, m)
    weights = []
    for q, k, allowed in zip(Q.reshape(-1, n, Q.shape[-1]), K.reshape(-1, m, K.shape[-1]), keep, strict=True):
        z = np.where(allowed, np.inner(q, k) / np.sqrt(len(q[0])), -1e30).astype(np.float64)
        p = np.exp(z - z.max(axis=1, keepdims=True)) * allowed
        weights.append(p / (p.sum(axis=1, keepdims=True) + (~allowed.any(axis=1, keepdims=True))))
    weights = np.array(weights).reshape(*lead, n, m)
    return weights @ V, weights


def masked_attention__right_fourth_roots(Q, K, V, mask):
    """Queries and keys are both divided by the fourth root of d_k, before they meet."""
    queries, keys = (x / Q.shape[-1] ** 0.25 for x in (Q, K))
    weights = masked_softmax__right_sink(np.matmul(queries, np.moveaxis(keys, -1, -2)), mask)
    return np.matmul(weights, V), weights


def masked_attention__right_recursion(Q, K, V, mask):
    """One leading axis at a time, down to a single sequence, whose products are turned over."""
    if Q.ndim > 2:
        mask = np.broadcast_to(mask, Q.shape[:-1] + K.shape[-2:-1])
        outputs, weights = zip(*map(masked_attention__right_recursion, Q, K, V, mask), strict=True)
        return np.stack(outputs), np.stack(weights)
    weights = masked_softmax__right_masked_array((K @ Q.T).T / np.sqrt(K.shape[1]), mask)
    return (V.T @ weights.T).T, weights


def masked_attention__wrong_not_scaled(Q, K, V, mask):
    """Plain scores: no division by the root of d_k."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_divided_by_d(Q, K, V, mask):
    """Divides by d_k, not by its root."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / Q.shape[-1], -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_root_of_d_v(Q, K, V, mask):
    """Divides by the root of d_v."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(V.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_root_of_keys(Q, K, V, mask):
    """Divides by the root of the number of keys."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(K.shape[-2]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_root_of_axis_one(Q, K, V, mask):
    """Takes d_k from axis 1: with leading axes that is another size."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_scaled_after_softmax(Q, K, V, mask):
    """Divides the weights, not the scores."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300) / np.sqrt(Q.shape[-1])
    return weights @ V, weights


def masked_attention__wrong_precedence(Q, K, V, mask):
    """Multiplies by the root: a division written without parentheses."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / 1 * np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_plain_transpose(Q, K, V, mask):
    """K.T turns round all axes: right without leading axes only."""
    z = np.where(mask, Q @ K.T / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_one_batch_axis(Q, K, V, mask):
    """transpose(0, 2, 1): exactly one leading axis, no more and no fewer."""
    z = np.where(mask, Q @ K.transpose(0, 2, 1) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_mask_inverted(Q, K, V, mask):
    """Reads True as "blocked"."""
    z = np.where(mask, -1e30, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]))
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * ~mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_mask_transposed(Q, K, V, mask):
    """Transposes the mask: queries and keys swapped in it."""
    if mask.ndim > 1:
        mask = np.swapaxes(mask, -1, -2)
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_mask_forgotten(Q, K, V, mask):
    """Never uses the mask."""
    z = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def masked_attention__wrong_masked_after(Q, K, V, mask):
    """Masks the finished weights: the rows do not sum to 1."""
    z = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True) * mask
    return weights @ V, weights


def masked_attention__wrong_weights_unmasked(Q, K, V, mask):
    """The output is right, but the weights returned are those without the mask."""
    z = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    plain = np.exp(z - z.max(axis=-1, keepdims=True))
    z = np.where(mask, z, -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, plain / plain.sum(axis=-1, keepdims=True)


def masked_attention__wrong_order_swapped(Q, K, V, mask):
    """Returns (weights, output)."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights, weights @ V


def masked_attention__wrong_output_only(Q, K, V, mask):
    """Returns the output without the weights."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    return e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300) @ V


def masked_attention__wrong_list(Q, K, V, mask):
    """A list in place of the tuple."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return [weights @ V, weights]


def masked_attention__wrong_scores_returned(Q, K, V, mask):
    """Returns the masked scores in the place of the weights."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, z


def masked_attention__wrong_query_axis(Q, K, V, mask):
    """Softmax over the queries (axis -2), not over the keys."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-2, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-2, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_nan_when_empty(Q, K, V, mask):
    """-inf everywhere in a row with nothing allowed: NaN."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -np.inf)
    with np.errstate(all="ignore"):
        e = np.exp(z - z.max(axis=-1, keepdims=True))
        weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def masked_attention__wrong_uniform_when_empty(Q, K, V, mask):
    """A query with nothing allowed gets the mean of all values."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e9)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def masked_attention__wrong_in_place(Q, K, V, mask):
    """Scales the caller's queries in place."""
    Q /= np.asarray(np.sqrt(Q.shape[-1]), dtype=Q.dtype)
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_blanks_values(Q, K, V, mask):
    """Writes zeros over the values of keys that nobody may attend to, in the caller's array."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    keep = np.broadcast_to(mask, z.shape)
    V[~keep.any(axis=-2)] = 0
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_hard_coded_width(Q, K, V, mask):
    """Divides by 8, the root of 64, whatever d_k is."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / 8.0, -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_unstable(Q, K, V, mask):
    """Exponentials without subtracting the maximum."""
    e = np.exp(Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_always_causal(Q, K, V, mask):
    """Adds a causal mask of its own to the one given."""
    keep = mask & np.tri(Q.shape[-2], K.shape[-2], dtype=bool)
    z = np.where(keep, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * keep
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_first_batch_mask(Q, K, V, mask):
    """Uses the mask of the first batch element for all."""
    while mask.ndim > 2:
        mask = mask[0]
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_masked_scores_zero(Q, K, V, mask):
    """Multiplies the scores by the mask: blocked scores are 0 and still count."""
    z = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]) * mask
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def masked_attention__wrong_squeezed(Q, K, V, mask):
    """Squeezes axes of size 1 out of both results."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return np.squeeze(weights @ V), np.squeeze(weights)


def masked_attention__wrong_keys_and_queries_swapped(Q, K, V, mask):
    """Scores K Q^T: fails for n != m, else transposed."""
    z = np.where(mask, K @ np.swapaxes(Q, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_keys_as_values(Q, K, V, mask):
    """Averages the keys instead of the values."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ K, weights


def masked_attention__wrong_scaled_twice(Q, K, V, mask):
    """Scales queries and scores: divides by d_k in all."""
    q = Q / np.sqrt(Q.shape[-1])
    z = np.where(mask, q @ np.swapaxes(K, -1, -2) / np.sqrt(K.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_values_mixed_over_batch(Q, K, V, mask):
    """An einsum that sums the values over the first axis, too, if there are three."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    if weights.ndim == 3:
        return np.einsum("bnm,cmv->bnv", weights, V), weights
    return weights @ V, weights


# --------------------------------------------------------------- leaks_future


def _rows_move(now, base, share=1e-6):
    """Whether any row changes by more than this share of its size."""
    size = np.maximum(np.abs(now), np.abs(base)).max(axis=1)
    return bool((np.abs(now - base).max(axis=1) > share * size).any())


def leaks_future__right_every_cut(attend, Q, K, V):
    """For every cut, a wave in place of later keys and values."""
    Q, K, V = (np.array(x, dtype=np.float64) for x in (Q, K, V))
    base = np.array(attend(Q.copy(), K.copy(), V.copy()), dtype=np.float64)

    def wave(shape, phase):
        return np.cos(1.7 * np.arange(1, np.prod(shape) + 1) ** 1.1 + phase).reshape(shape)

    for cut in range(1, len(Q)):
        k, v = K.copy(), V.copy()
        k[cut:] = 1.9 * wave(k[cut:].shape, 1.9)
        v[cut:] = wave(v[cut:].shape, 2.9)
        now = np.asarray(attend(Q.copy(), k, v), dtype=np.float64)
        if _rows_move(now[:cut], base[:cut]):
            return True
    return False


def leaks_future__right_token_by_token(attend, Q, K, V):
    """One later token at a time, key and value together, the latest first."""
    Q, K, V = (np.array(x, dtype=float) for x in (Q, K, V))
    base = np.array(attend(Q.copy(), K.copy(), V.copy()))
    found = 0
    for j in reversed(range(1, len(Q))):
        k, v = K.copy(), V.copy()
        k[j] = 0.75 - k[j] + np.linspace(1.0, 0.5, k.shape[1])
        v[j] = -1.25 - 2 * v[j]
        now = np.array(attend(Q.copy(), k, v))
        for i in range(j):
            size = max(np.linalg.norm(now[i]), np.linalg.norm(base[i]))
            found += int(np.linalg.norm(now[i] - base[i]) > 1e-6 * size)
    print("leaks found:", found)
    return found > 0


def leaks_future__right_in_a_chain(attend, Q, K, V):
    """Each call changes what the one before left, and is held against that one; an np.bool_."""
    rng, n = np.random.default_rng(11), len(Q)
    K, V = (np.array(x, dtype=float) for x in (K, V))
    last, moved = np.asarray(attend(Q, K.copy(), V.copy())), []
    for cut in range(n - 1, 0, -1):
        K[cut:] = rng.uniform(-2, 2, K[cut:].shape)
        V[cut:] = rng.uniform(-2, 2, V[cut:].shape)
        now = np.asarray(attend(Q, K.copy(), V.copy()))
        moved.append(_rows_move(now[:cut], last[:cut]))
        last = now
    return np.any(moved)


def leaks_future__right_any_generator(attend, Q, K, V):
    """any() over a generator of trials, with numbers from a hash by sine instead of random ones."""
    Q, K, V = (np.array(x, dtype=float) for x in (Q, K, V))
    n = len(Q)
    before = np.array(attend(Q.copy(), K.copy(), V.copy()))

    def trial(cut):
        chaos = np.modf(np.sin(np.arange(1.0, n * (K.shape[1] + V.shape[1]) + 1.0) * 12.9898) * 43758.5453)[0]
        k = np.concatenate([K[:cut], 3 * chaos[: K.size].reshape(K.shape)[cut:]])
        v = np.concatenate([V[:cut], 3 * chaos[K.size :].reshape(V.shape)[cut:]])
        return _rows_move(np.array(attend(Q.copy(), k, v))[:cut], before[:cut])

    return any(trial(cut) for cut in range(n - 1, 0, -1))


def leaks_future__right_influence_matrix(attend, Q, K, V):
    """Measures the (n, n) matrix of influence, the first column left out, and looks above its diagonal."""
    Q, K, V = (np.array(x, dtype=float) for x in (Q, K, V))
    n = len(Q)
    base = np.array(attend(Q.copy(), K.copy(), V.copy()))
    influence = np.zeros((n, n))
    for j in range(1, n):
        k, v = K.copy(), V.copy()
        k[j] -= 2.5 * np.cos(np.arange(K.shape[1]) + j)
        v[j] += 1.5 * np.cos(0.5 * np.arange(V.shape[1]))
        now = np.array(attend(Q.copy(), k, v))
        size = np.maximum(np.abs(now).max(axis=1), np.abs(base).max(axis=1))
        influence[:, j] = np.abs(now - base).max(axis=1) / np.where(size == 0, 1.0, size)
    return bool((np.triu(influence, k=1) > 1e-6).any())


def leaks_future__right_one_probe(attend, Q, K, V):
    """np.allclose row by row, with no absolute tolerance but one of the row's own size."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)
    for split in range(1, len(Q)):
        k, v = K.copy(), V.copy()
        k[split:] = rng.standard_normal(k[split:].shape)
        v[split:] = rng.standard_normal(v[split:].shape)
        for now, then in zip(attend(Q, k, v)[:split], base[:split], strict=True):
            if not np.allclose(now, then, rtol=0, atol=1e-6 * np.abs(then).max()):
                return True
    return False


def leaks_future__right_coarse(attend, Q, K, V):
    """Changes by 2, and a tolerance of one part in ten thousand of each row."""
    base = attend(Q, K, V)
    for split in range(1, len(Q)):
        later = 2.0 * (np.arange(len(Q)) >= split)[:, None]
        slope_k, slope_v = (1 + np.arange(x.shape[1]) / x.shape[1] for x in (K, V))
        now = attend(Q, K - later * slope_k, V + later * slope_v)
        if _rows_move(now[:split], base[:split], 1e-4):
            return True
    return False


def leaks_future__right_fine(attend, Q, K, V):
    """A tolerance of 1e-12 of the row: above rounding, far below any leak."""
    base = attend(Q, K, V)
    for split in range(1, len(Q)):
        k, v = K.copy(), V.copy()
        k[split:] = 1.5 - k[split:]
        v[split:] = -1.5 - v[split:]
        if _rows_move(attend(Q, k, v)[:split], base[:split], 1e-12):
            return True
    return False


def leaks_future__right_recursion(attend, Q, K, V):
    """A recursion over the cut; later rows replaced by reversed, turned and shifted ones."""
    q, k, v = (np.array(x, dtype=float) for x in (Q, K, V))
    base = np.array(attend(q.copy(), k.copy(), v.copy()))
    warnings.warn("this detector calls attend for every position", stacklevel=2)

    def other(x):
        size = np.abs(x).max() or 1.0
        return size * np.linspace(0.3, 0.9, x.size).reshape(x.shape) - x[::-1]

    def search(cut):
        if cut >= len(q):
            return False
        late = np.arange(len(q))[:, None] >= cut
        now = np.array(attend(q.copy(), np.where(late, other(k), k), np.where(late, other(v), v)))
        return _rows_move(now[:cut], base[:cut]) or search(cut + 1)

    return search(1)


def leaks_future__right_slope(attend, Q, K, V):
    """Small steps in random directions: it judges the slope, the change divided by the step."""
    rng = np.random.default_rng(0)
    base, step = attend(Q, K, V), 1e-3
    size = np.abs(base).max(axis=1, keepdims=True)
    for split in range(1, len(Q)):
        late = np.arange(len(Q))[:, None] >= split
        k, v = (x + step * late * rng.standard_normal(x.shape) for x in (K, V))
        change = np.abs(attend(Q, k, v) - base) / step
        if (change > 1e-6 * size)[:split].any():
            return True
    return False


def leaks_future__right_two_futures(attend, Q, K, V):
    """None of the futures that are compared is the given one."""
    rng = np.random.RandomState(3)
    k, v = (rng.normal(size=x.shape) for x in (K, V))
    k[0], v[0] = K[0], V[0]
    futures = [attend(Q, k, v)]
    for split in range(1, len(Q)):
        k, v = (np.concatenate([x[:split], rng.normal(size=x[split:].shape)]) for x in (k, v))
        futures.append(attend(Q, k, v))
    return any(_rows_move(new[:cut], old[:cut], 1e-5) for cut, (old, new) in enumerate(zip(futures, futures[1:]), 1))


def leaks_future__wrong_too_many_calls(attend, Q, K, V):
    """Keys alone, then values alone, then both, behind every position."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)
    for split in range(1, len(Q)):
        for a, b in ((1, 0), (0, 1), (1, 1)):
            k, v = K.copy(), V.copy()
            k[split:] += a * rng.standard_normal(k[split:].shape)
            v[split:] += b * rng.standard_normal(v[split:].shape)
            if _rows_move(attend(Q, k, v)[:split], base[:split]):
                return True
    return False


def leaks_future__wrong_default_tolerances(attend, Q, K, V):
    """np.allclose as it comes: everything below 1e-8 is alike."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)
    for split in range(1, len(Q)):
        k, v = K.copy(), V.copy()
        k[split:] = rng.standard_normal(k[split:].shape)
        v[split:] = rng.standard_normal(v[split:].shape)
        if not np.allclose(attend(Q, k, v)[:split], base[:split]):
            return True
    return False


def leaks_future__wrong_opposite(attend, Q, K, V):
    """Returns True when there is no leak."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return False
    return True


def leaks_future__wrong_keys_only(attend, Q, K, V):
    """Changes the later keys only: a leak through values with fixed weights is missed."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        k = K.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        if np.abs(attend(Q, k, V)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_values_only(attend, Q, K, V):
    """Changes the later values only: a leak through the denominator is missed."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        v = V.copy()
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        if np.abs(attend(Q, K, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_last_token_only(attend, Q, K, V):
    """Changes the last token only: a leak from a token in the middle is missed."""
    if len(Q) == 1:
        return False
    base = attend(Q, K, V)
    k, v = K.copy(), V.copy()
    k[-1] = -k[-1] + 0.5
    v[-1] = -2 * v[-1] + np.abs(V).max()
    now = attend(Q, k, v)
    return bool(np.abs(now[:-1] - base[:-1]).max() > 1e-6 * np.abs(base).max())


def leaks_future__wrong_first_row_only(attend, Q, K, V):
    """Looks at position 0 only."""
    base = attend(Q, K, V)
    k, v = K.copy(), V.copy()
    k[1:] = -k[1:] + 0.5
    v[1:] = -2 * v[1:] + np.abs(V).max()
    return bool(np.abs(attend(Q, k, v)[0] - base[0]).max() > 1e-6 * np.abs(base[0]).max())


def leaks_future__wrong_returns_in_loop(attend, Q, K, V):
    """Returns the verdict on the middle position, the first that its loop meets."""
    base = attend(Q, K, V)
    for i in range((len(Q) - 1) // 2, len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        return bool(np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max())
    return False


def leaks_future__wrong_next_token_only(attend, Q, K, V):
    """Changes token i + 1 only: a leak from two steps ahead is missed."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1] = -k[i + 1] + 0.5
        v[i + 1] = -2 * v[i + 1] + np.abs(V).max()
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_skips_next_token(attend, Q, K, V):
    """Off by one: changes tokens from i + 2 on."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 2):
        k, v = K.copy(), V.copy()
        k[i + 2 :] = -k[i + 2 :] + 0.5
        v[i + 2 :] = -2 * v[i + 2 :] + np.abs(V).max()
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_includes_itself(attend, Q, K, V):
    """Off by one: changes tokens from i on, so that every attention leaks."""
    base = attend(Q, K, V)
    for i in range(len(Q)):
        k, v = K.copy(), V.copy()
        k[i:] = -k[i:] + 0.5
        v[i:] = -2 * v[i:] + np.abs(V).max()
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_past_changed(attend, Q, K, V):
    """Changes the earlier keys and values: looks for leaks the wrong way in time."""
    base = attend(Q, K, V)
    for i in range(1, len(Q)):
        k, v = K.copy(), V.copy()
        k[:i] = -k[:i] + 0.5
        v[:i] = -2 * v[:i] + np.abs(V).max()
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_truncates(attend, Q, K, V):
    """Calls attend with the first i + 1 tokens: fails for an attend that holds an (n, n) mask."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        now = attend(Q[: i + 1], K[: i + 1], V[: i + 1])
        if np.abs(now[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_nan_probe(attend, Q, K, V):
    """Puts NaN in the later tokens: 0 * NaN is NaN, so a clean attention looks leaky."""
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = np.nan
        v[i + 1 :] = np.nan
        if np.isnan(attend(Q, k, v)[: i + 1]).any():
            return True
    return False


def leaks_future__wrong_infinity_probe(attend, Q, K, V):
    """Puts infinity in the later values and looks for what is not finite."""
    for i in range(len(Q) - 1):
        v = V.copy()
        v[i + 1 :] = np.inf
        with np.errstate(all="ignore"):
            if not np.isfinite(attend(Q, K, v)[: i + 1]).all():
                return True
    return False


def leaks_future__wrong_queries_changed(attend, Q, K, V):
    """Changes all queries from i on, too, so that every attention leaks."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        q, k, v = Q.copy(), K.copy(), V.copy()
        q[i:] = -q[i:] + 1.5
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        if np.abs(attend(q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_later_queries_count(attend, Q, K, V):
    """Changes later queries, too: an output that reads a later query counts as a leak."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        q, k, v = Q.copy(), K.copy(), V.copy()
        q[i + 1 :] = -q[i + 1 :] + 1.5
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        if np.abs(attend(q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_exact(attend, Q, K, V):
    """Compares exactly: rounding counts as a leak."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        if not np.array_equal(attend(Q, k, v)[i], base[i]):
            return True
    return False


def leaks_future__wrong_loose(attend, Q, K, V):
    """A tolerance of 5 per cent: a small leak is missed."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 0.05 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_absolute(attend, Q, K, V):
    """An absolute tolerance of 1e-6: right only where outputs are of ordinary size."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6:
            return True
    return False


def leaks_future__wrong_tiny_step(attend, Q, K, V):
    """Moves the later tokens by 1e-9 only: no leak exceeds the tolerance."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] += 1e-9
        v[i + 1 :] += 1e-9
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_reorders(attend, Q, K, V):
    """Only reverses the order of the later tokens: attention without a mask does not notice."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        k = np.concatenate([K[: i + 1], K[i + 1 :][::-1]])
        v = np.concatenate([V[: i + 1], V[i + 1 :][::-1]])
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_in_place(attend, Q, K, V):
    """Writes the changes into the caller's keys and values."""
    base = np.array(attend(Q, K, V))
    for i in range(len(Q) - 2, -1, -1):
        K[i + 1 :] = -K[i + 1 :] + 0.5
        V[i + 1 :] = -2 * V[i + 1 :] + np.abs(V).max()
        if np.abs(attend(Q, K, V)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_all_rows(attend, Q, K, V):
    """Compares all rows, those of the changed tokens, too."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        if np.abs(attend(Q, k, v) - base).max() > 1e-6 * np.abs(base).max():
            return True
    return False


def leaks_future__wrong_needs_all_rows(attend, Q, K, V):
    """all() for any(): says True only if every position leaks."""
    base = attend(Q, K, V)
    verdicts = []
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        verdicts.append(np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max())
    return bool(verdicts) and all(verdicts)


def leaks_future__wrong_one_is_true(attend, Q, K, V):
    """all() over no positions: n = 1 gives True, and one clean row hides all leaks."""
    base = attend(Q, K, V)
    verdicts = []
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        verdicts.append(np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max())
    return all(verdicts)


def leaks_future__wrong_fails_for_one(attend, Q, K, V):
    """Takes the maximum over the positions: fails for n = 1, where there are none."""
    base = attend(Q, K, V)
    gaps = []
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        gaps.append(np.abs(attend(Q, k, v)[i] - base[i]).max() / np.abs(base[i]).max())
    return max(gaps) > 1e-6


def leaks_future__wrong_compares_with_causal(attend, Q, K, V):
    """Asks whether attend equals scaled causal attention: every other causal attention "leaks"."""
    n = len(Q)
    z = np.where(np.tri(n, dtype=bool), Q @ K.T / np.sqrt(Q.shape[1]), -1e30)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return not np.allclose(attend(Q, K, V), e / e.sum(axis=1, keepdims=True) @ V, rtol=1e-6)


def leaks_future__wrong_list_of_rows(attend, Q, K, V):
    """A list with one verdict per position instead of one bool."""
    base = attend(Q, K, V)
    verdicts = []
    for i in range(len(Q)):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        verdicts.append(bool(np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max()))
    return verdicts


def leaks_future__wrong_none_when_clean(attend, Q, K, V):
    """Forgets the last return: None, not False, when nothing leaks."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True


def leaks_future__wrong_one_cut(attend, Q, K, V):
    """Cuts in the middle only: a leak within either half is missed."""
    half = len(Q) // 2
    if half == 0:
        return False
    base = attend(Q, K, V)
    k, v = K.copy(), V.copy()
    k[half:] = -k[half:] + 0.5
    v[half:] = -2 * v[half:] + np.abs(V).max()
    now = attend(Q, k, v)
    return bool(np.abs(now[:half] - base[:half]).max() > 1e-6 * np.abs(base[:half]).max())


def leaks_future__wrong_remembers_base(attend, Q, K, V):
    """Keeps the first base output it ever saw of a shape: later calls compare with another attention."""
    seen = leaks_future__wrong_remembers_base.__dict__
    base = seen.setdefault(f"{Q.shape}{V.shape}", np.array(attend(Q, K, V)))
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_signed_gap(attend, Q, K, V):
    """Tests the signed difference, without abs: a leak that lowers the output is missed."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = v[i + 1 :] - 100 * np.abs(V).max()
        if (attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_feature_columns(attend, Q, K, V):
    """Changes feature columns instead of token rows."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[:, i + 1 :] = -k[:, i + 1 :] + 0.5
        v[:, i + 1 :] = -2 * v[:, i + 1 :] + np.abs(V).max()
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


# ----------------------------------------------------------- next_token_pairs


def next_token_pairs__right_slices(tokens):
    """Two views, shifted by one."""
    return tokens[:, :-1], tokens[:, 1:]


def next_token_pairs__right_loops(tokens):
    """Token by token in Python loops."""
    B, n = tokens.shape
    inputs = np.zeros((B, n - 1), dtype=tokens.dtype)
    targets = np.zeros((B, n - 1), dtype=tokens.dtype)
    for b in range(B):
        for t in range(n - 1):
            inputs[b, t] = tokens[b, t]
            targets[b, t] = tokens[b, t + 1]
    return inputs, targets


def next_token_pairs__right_delete(tokens):
    """np.delete of the last and of the first column."""
    return np.delete(tokens, -1, axis=1), np.delete(tokens, 0, axis=1)


def next_token_pairs__right_windows(tokens):
    """Sliding windows of two tokens, the two halves taken apart."""
    pairs = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    print("pairs per sequence:", pairs.shape[1])
    return pairs[..., 0], pairs[..., 1]


def next_token_pairs__right_roll(tokens):
    """Rolled by one, the wrapped column cut off."""
    n = tokens.shape[-1]
    return tokens[..., : n - 1].copy(), np.roll(tokens, -1, axis=-1)[..., : n - 1]


def next_token_pairs__right_take(tokens):
    """Index arrays; int64 whatever came in, targets as a transposed array."""
    where = np.arange(tokens.shape[1] - 1)
    inputs = np.take(tokens, where, axis=1).astype(np.int64)
    return inputs, np.ascontiguousarray(tokens.T[where + 1]).astype(np.int64).T


def next_token_pairs__right_split(tokens):
    """np.split at the ends, with a warning that costs nothing."""
    warnings.warn("the last input is never fed to the model", stacklevel=2)
    _, targets = np.split(tokens, [1], axis=1)
    inputs, _ = np.split(tokens, [tokens.shape[1] - 1], axis=1)
    return (inputs, targets)


def next_token_pairs__right_shift_matrices(tokens):
    """Multiplication with shifted identity matrices."""
    n = tokens.shape[1]
    wide = tokens.astype(np.int64)
    return wide @ np.eye(n, n - 1, dtype=np.int64), wide @ np.eye(n, n - 1, k=-1, dtype=np.int64)


def next_token_pairs__right_named_tuple(tokens):
    """A tuple whose parts have names."""
    pair = collections.namedtuple("pair", "inputs targets")
    return pair(*np.stack([tokens[:, :-1], tokens[:, 1:]]))


def next_token_pairs__wrong_order_swapped(tokens):
    """Returns (targets, inputs): predicts the previous token."""
    return tokens[:, 1:], tokens[:, :-1]


def next_token_pairs__wrong_last_target_only(tokens):
    """The last token is the only target: shape (B,)."""
    return tokens[:, :-1], tokens[:, -1]


def next_token_pairs__wrong_last_target_column(tokens):
    """The last token is the only target: shape (B, 1)."""
    return tokens[:, :-1], tokens[:, -1:]


def next_token_pairs__wrong_batch_axis(tokens):
    """Shifts along the batch, not along the sequence."""
    return tokens[:-1], tokens[1:]


def next_token_pairs__wrong_full_inputs(tokens):
    """Keeps all n tokens as inputs."""
    return tokens, tokens[:, 1:]


def next_token_pairs__wrong_wraps(tokens):
    """np.roll: n pairs, the last target is the first token."""
    return tokens, np.roll(tokens, -1, axis=1)


def next_token_pairs__wrong_same(tokens):
    """The targets are the inputs, not shifted."""
    return tokens[:, :-1], tokens[:, :-1]


def next_token_pairs__wrong_two_ahead(tokens):
    """Off by one: the targets are two tokens ahead."""
    return tokens[:, :-2], tokens[:, 2:]


def next_token_pairs__wrong_list(tokens):
    """A list of the two arrays, not a tuple."""
    return [tokens[:, :-1], tokens[:, 1:]]


def next_token_pairs__wrong_stacked(tokens):
    """One array of shape (2, B, n - 1), not a tuple."""
    return np.stack([tokens[:, :-1], tokens[:, 1:]])


def next_token_pairs__wrong_pairs_last(tokens):
    """One array of (input, target) pairs: (B, n - 1, 2)."""
    return np.stack([tokens[:, :-1], tokens[:, 1:]], axis=-1)


def next_token_pairs__wrong_in_place(tokens):
    """Shifts the caller's tokens in place to get the targets."""
    inputs = tokens[:, :-1].copy()
    tokens[:, :-1] = tokens[:, 1:]
    return inputs, tokens[:, :-1]


def next_token_pairs__wrong_first_sequence(tokens):
    """Handles the first sequence only."""
    return tokens[:1, :-1], tokens[:1, 1:]


def next_token_pairs__wrong_padded(tokens):
    """Pads the targets with 0 to length n."""
    return tokens, np.pad(tokens[:, 1:], ((0, 0), (0, 1)))


def next_token_pairs__wrong_flat(tokens):
    """Flattens the batch: B * (n - 1) values each."""
    return tokens[:, :-1].reshape(-1), tokens[:, 1:].reshape(-1)


def next_token_pairs__wrong_flattened_before(tokens):
    """Flattens first: pairs the end of one sequence with the start of the next."""
    flat = tokens.reshape(-1)
    return flat[:-1], flat[1:]


def next_token_pairs__wrong_squeezed(tokens):
    """Squeezes: loses the batch axis for B = 1 and the time axis for n = 2."""
    return np.squeeze(tokens[:, :-1]), np.squeeze(tokens[:, 1:])


def next_token_pairs__wrong_byte(tokens):
    """Stores the tokens as uint8: ids above 255 wrap."""
    return tokens[:, :-1].astype(np.uint8), tokens[:, 1:].astype(np.uint8)


def next_token_pairs__wrong_both_cut_twice(tokens):
    """Drops the last token from the targets as well: n - 2 pairs."""
    tokens = tokens[:, :-1]
    return tokens[:, :-1], tokens[:, 1:]


def next_token_pairs__wrong_difference(tokens):
    """The targets are differences of neighbouring ids."""
    return tokens[:, :-1], np.diff(tokens, axis=1)


def next_token_pairs__wrong_nested_lists(tokens):
    """A tuple of nested lists, not of arrays."""
    return tokens[:, :-1].tolist(), tokens[:, 1:].tolist()


def next_token_pairs__wrong_disjoint_pairs(tokens):
    """Every second token is an input, every other one a target."""
    return tokens[:, 0:-1:2], tokens[:, 1::2]


def next_token_pairs__wrong_transposed(tokens):
    """Time first: shape (n - 1, B)."""
    return tokens[:, :-1].T, tokens[:, 1:].T


def next_token_pairs__wrong_triple(tokens):
    """Returns a mask as a third result."""
    return tokens[:, :-1], tokens[:, 1:], np.tri(tokens.shape[1] - 1, dtype=bool)


def next_token_pairs__wrong_prints(tokens):
    """Prints the pairs and returns None."""
    print(tokens[:, :-1], tokens[:, 1:])


def next_token_pairs__wrong_generator(tokens):
    """A generator over positions, one column of inputs and of targets at a time."""
    for t in range(tokens.shape[1] - 1):
        yield tokens[:, t], tokens[:, t + 1]


def next_token_pairs__wrong_halves(tokens):
    """Reads "pairs" as prompt and answer: first and second half."""
    half = tokens.shape[1] // 2
    return tokens[:, :half], tokens[:, half:]


def next_token_pairs__wrong_reversed_targets(tokens):
    """Reversed targets: the last token is predicted first."""
    return tokens[:, :-1], tokens[:, :0:-1]


def next_token_pairs__wrong_hard_coded_length(tokens):
    """Cuts at seven, as if every sequence had eight tokens."""
    return tokens[:, :7], tokens[:, 1:8]


# ---------------------------------------------------------------- packed_causal_mask


def _same(ids):
    """Which pairs of tokens have the same id: (B, n, n)."""
    return ids[:, :, None] == ids[:, None, :]


def _numbers(ids):
    """The number of each token within its document."""
    return np.tril(_same(ids)).sum(axis=2) - 1


def packed_causal_mask__right_pairs(document_ids):
    """All pairs at once; a token's number is how many of its own it sees, less itself."""
    mask = np.tril(document_ids[:, :, None] == document_ids[:, None, :])
    return mask, mask.sum(axis=-1) - 1


def packed_causal_mask__right_one_hot(document_ids):
    """One-hot documents: their products are the mask, their running sums the numbers."""
    names, codes = np.unique(document_ids, return_inverse=True)
    hot = np.eye(len(names))[codes.reshape(document_ids.shape)]
    running = hot.cumsum(axis=1)
    n = document_ids.shape[1]
    mask = (hot @ hot.transpose(0, 2, 1) > 0.5) & np.tri(n, dtype=bool)
    return mask, ((running * hot).sum(axis=2) - 1).round().astype(int)


def packed_causal_mask__right_loop_over_documents(document_ids):
    """A loop over documents, as there are fewer of them than tokens."""
    B, n = document_ids.shape
    mask = np.zeros((B, n, n), dtype=bool)
    positions = np.zeros((B, n), dtype=np.int32)
    for document in np.unique(document_ids):
        mine = document_ids == document
        mask |= mine[:, :, None] & mine[:, None, :]
        positions += np.where(mine, np.cumsum(mine, axis=1) - 1, 0).astype(np.int32)
    mask &= np.arange(n)[:, None] >= np.arange(n)
    return mask, positions


def packed_causal_mask__right_sorted_runs(document_ids):
    """Row by row: a stable sort brings each document together, numbers are given there and carried back."""
    print("packing", document_ids.shape)
    B, n = document_ids.shape
    positions = np.empty((B, n), dtype=int)
    for row, out in zip(document_ids, positions, strict=True):
        order = np.argsort(row, kind="stable")
        starts = np.r_[True, np.diff(row[order]) != 0]
        out[order] = np.arange(n) - np.maximum.accumulate(np.where(starts, np.arange(n), 0))
    return np.less_equal.outer(np.arange(n), np.arange(n)).T & ~(
        document_ids[..., None] != document_ids[:, None]
    ), positions


def packed_causal_mask__right_einsum(document_ids):
    """Differences that vanish, a triangle by einsum, and the numbers as unsigned integers."""
    n = document_ids.shape[1]
    same = np.subtract(document_ids[:, :, None], document_ids[:, None, :]) == 0
    triangle = np.tri(n, dtype=np.int64)
    seen = np.einsum("ij,bij->bij", triangle, same.astype(np.int64))
    return seen.astype(bool), np.einsum("bij->bi", seen).astype(np.uint16) - np.uint16(1)


def packed_causal_mask__right_views(document_ids):
    """Both results are views of larger arrays, in column order."""
    roomy = np.asfortranarray(np.repeat(np.tril(_same(document_ids)), 2, axis=0))
    return roomy[::2], (np.cumsum(_same(document_ids), axis=1).diagonal(axis1=1, axis2=2) - 1)[:, :]


def packed_causal_mask__wrong_plain_causal(document_ids):
    """A causal mask for each row, and plain positions: packing is forgotten."""
    B, n = document_ids.shape
    return np.tile(np.tri(n, dtype=bool), (B, 1, 1)), np.tile(np.arange(n), (B, 1))


def packed_causal_mask__wrong_block_diagonal(document_ids):
    """Documents apart, but each is open in both directions."""
    return _same(document_ids), _numbers(document_ids)


def packed_causal_mask__wrong_positions_of_the_row(document_ids):
    """The right mask with the place in the row."""
    n = document_ids.shape[1]
    return np.tril(_same(document_ids)), np.broadcast_to(np.arange(n), document_ids.shape).copy()


def packed_causal_mask__wrong_boundaries(document_ids):
    """A new document wherever the id changes, as with end-of-text marks: what comes back is new."""
    starts = np.diff(document_ids, axis=1, prepend=document_ids[:, :1]) != 0
    segments = np.cumsum(starts, axis=1)
    return np.tril(_same(segments)), _numbers(segments)


def packed_causal_mask__wrong_reset_at_boundary(document_ids):
    """The mask by ids, the positions since the last change of the id."""
    n = document_ids.shape[1]
    starts = np.diff(document_ids, axis=1, prepend=document_ids[:, :1]) != 0
    last = np.maximum.accumulate(np.where(starts, np.arange(n), 0), axis=1)
    return np.tril(_same(document_ids)), np.arange(n) - last


def packed_causal_mask__wrong_since_first_token(document_ids):
    """The distance to the document's first token, whatever lies between."""
    same = _same(document_ids)
    return np.tril(same), np.arange(document_ids.shape[1]) - same.argmax(axis=2)


def packed_causal_mask__wrong_counts_from_one(document_ids):
    """How many tokens of its own a token sees: one too many."""
    mask = np.tril(_same(document_ids))
    return mask, mask.sum(axis=2)


def packed_causal_mask__wrong_strictly_before(document_ids):
    """A token doesn't see itself, and its number is how many it sees: the numbers are right."""
    mask = np.tril(_same(document_ids), k=-1)
    return mask, mask.sum(axis=2)


def packed_causal_mask__wrong_earlier_documents_too(document_ids):
    """Ids taken for the order of the documents: earlier ones stay open."""
    return np.tril(document_ids[:, :, None] >= document_ids[:, None, :]), _numbers(document_ids)


def packed_causal_mask__wrong_counted_by_id(document_ids):
    """One counter an id for the whole batch."""
    B, n = document_ids.shape
    flat = document_ids.reshape(1, -1)
    return np.tril(_same(document_ids)), _numbers(flat).reshape(B, n)


def packed_causal_mask__wrong_not_carried_back(document_ids):
    """Numbers given after sorting stay in the sorted order."""
    return np.tril(_same(document_ids)), _numbers(np.sort(document_ids, axis=1))


def packed_causal_mask__wrong_upper(document_ids):
    """triu for tril: the future of the own document."""
    return np.triu(_same(document_ids)), _numbers(document_ids)


def packed_causal_mask__wrong_first_row(document_ids):
    """One mask (n, n), that of the first row, for all."""
    mask = np.tril(_same(document_ids))[:1]
    return np.repeat(mask, len(document_ids), axis=0), np.repeat(_numbers(document_ids)[:1], len(document_ids), axis=0)


def packed_causal_mask__wrong_additive(document_ids):
    """A mask to be added: 0 and -inf."""
    return np.where(np.tril(_same(document_ids)), 0.0, -np.inf), _numbers(document_ids)


def packed_causal_mask__wrong_mask_alone(document_ids):
    """Only the mask."""
    return np.tril(_same(document_ids))


def packed_causal_mask__wrong_ids_as_indices(document_ids):
    """Counts with ids as indices into an array of n: fails for larger ids."""
    B, n = document_ids.shape
    counts = np.zeros((B, n), dtype=int)
    positions = np.zeros((B, n), dtype=int)
    for i in range(n):
        positions[:, i] = counts[np.arange(B), document_ids[:, i]]
        counts[np.arange(B), document_ids[:, i]] += 1
    return np.tril(_same(document_ids)), positions
