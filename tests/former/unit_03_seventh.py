"""Answers to the exercises of unit 3 (masking), as students would write them."""

import math

import numpy as np


def _masked_softmax(scores, mask):
    """A right masked softmax, an earlier exercise."""
    low = np.where(mask, scores, -np.inf)
    top = low.max(axis=-1, keepdims=True)
    powers = np.exp(low - np.where(np.isfinite(top), top, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


def _softmax(z, axis=-1):
    """The stable softmax that the notebook gives."""
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


_TABLE = np.zeros((64, 64), dtype=bool)  # scratch memory of one wrong answer


# 3.1 causal_mask


def causal_mask__wrong_seventh_upper_triangle(n):
    """np.triu in place of np.tril: the query sees itself and the future (j >= i)."""
    everything = np.ones((n, n), dtype=bool)
    return np.triu(everything)


def causal_mask__wrong_seventh_ones_and_zeros(n):
    """Returns np.tril of ones without astype(bool): float64 instead of booleans."""
    lower = np.tril(np.ones((n, n)))
    return lower


def causal_mask__wrong_seventh_additive_minus_inf(n):
    """Returns the additive mask of other libraries: 0 where allowed and -inf where hidden."""
    mask = np.zeros((n, n))
    mask[np.triu_indices(n, k=1)] = -np.inf
    return mask


def causal_mask__wrong_seventh_true_is_hidden(n):
    """Follows nn.MultiheadAttention: True marks what is hidden (j > i)."""
    position = np.arange(n)
    return position[None, :] > position[:, None]


def causal_mask__wrong_seventh_squeezed(n):
    """Builds (1, n, n) for a batch and squeezes all axes of size 1: for n = 1 the shape is ()."""
    query = np.arange(n).reshape(1, n, 1)
    key = np.arange(n).reshape(1, 1, n)
    return np.asarray(key <= query).squeeze()


def causal_mask__wrong_seventh_hides_whole_columns(n):
    """In the loop over i the slice is mask[:, i + 1:] and not mask[i, i + 1:]: only column 0 stays True."""
    mask = np.ones((n, n), dtype=bool)
    for i in range(n):
        mask[:, i + 1 :] = False
    return mask


def causal_mask__wrong_seventh_only_the_previous_token(n):
    """Lets each query see itself and the one token before it, not all of the past."""
    gap = np.subtract.outer(np.arange(n), np.arange(n))
    return (gap == 0) | (gap == 1)


def causal_mask__wrong_seventh_loop_starts_at_one(n):
    """The loop over the rows runs over range(1, n): row 0 stays False throughout."""
    mask = np.zeros((n, n), dtype=bool)
    for i in range(1, n):
        for j in range(i + 1):
            mask[i, j] = True
    return mask


def causal_mask__right_seventh_running_or(n):
    """The identity, and along each column a running "or": once seen, always seen."""
    return np.logical_or.accumulate(np.eye(n, dtype=bool), axis=0)


def causal_mask__right_seventh_fancy_assignment(n):
    """Starts from True and sets the pairs above the diagonal to False, found by divmod of flat numbers."""
    flat = np.full(n * n, True)
    row, column = np.divmod(np.arange(n * n), n)
    flat[column > row] = False
    return flat.reshape(n, n)


# 3.2 padding_mask


def padding_mask__wrong_seventh_minus_zero_slice(lengths, m):
    """Hides the last m - length keys by a negative slice: for a length of m that is [-0:], and all is hidden."""
    mask = np.ones((len(lengths), m), dtype=bool)
    for row, length in zip(mask, lengths):
        filler = m - int(length)
        row[-filler:] = False
    return mask


def padding_mask__wrong_seventh_sorted_by_length(lengths, m):
    """Sorts the sequences by length, longest first, as for pack_padded_sequence: the rows change places."""
    longest_first = np.sort(lengths)[::-1]
    return np.arange(m)[None, :] < longest_first[:, None]


def padding_mask__wrong_seventh_at_least_one_key(lengths, m):
    """Takes every length to be 1 at least, so that no row is empty: an empty sequence shows its key 0."""
    safe = np.maximum(lengths, 1)
    return np.arange(m) < safe.reshape(-1, 1)


def padding_mask__wrong_seventh_counts_down_in_place(lengths, m):
    """Counts the caller's lengths down with -= while it fills the columns: the input is changed."""
    columns = []
    for _ in range(m):
        columns.append(lengths > 0)
        lengths -= 1
    return np.stack(columns, axis=1)


def padding_mask__wrong_seventh_square_of_pairs(lengths, m):
    """Returns pairs (query real and key real) of shape (B, m, m), not one row of keys a sequence."""
    real = np.arange(m) < lengths[:, None]
    return real[:, :, None] & real[:, None, :]


def padding_mask__wrong_seventh_cumulative_starts(lengths, m):
    """Takes the sequences to stand one behind the other: row b is True from the sum of the lengths before it on."""
    ends = np.cumsum(lengths)
    starts = ends - lengths
    j = np.arange(m)
    return (j >= starts[:, None]) & (j < ends[:, None])


def padding_mask__wrong_seventh_one_buffer_for_all_calls(lengths, m):
    """Writes into one array made outside and returns a view of it: the next call changes the earlier result."""
    batch = len(lengths)
    if batch > 64 or m > 64:
        return np.arange(m) < lengths[:, None]
    view = _TABLE[:batch, :m]
    view[:] = np.arange(m) < lengths[:, None]
    return view


def padding_mask__wrong_seventh_pads_in_front(lengths, m):
    """Takes the pads to stand on the left: True for the last `length` keys, j >= m - length."""
    first_real = m - lengths
    return np.greater_equal.outer(np.arange(m), first_real).T


def padding_mask__right_seventh_marks_the_first_pad(lengths, m):
    """Marks the first pad of each row in a table of m + 1 columns; a key is real while the running count of marks is 0."""
    marks = np.zeros((len(lengths), m + 1), dtype=int)
    marks[np.arange(len(lengths)), lengths] = 1
    return marks.cumsum(axis=1)[:, :m] == 0


def padding_mask__right_seventh_rows_of_a_table(lengths, m):
    """Each row is looked up in the table of all m + 1 possible rows, which is made by a comprehension."""
    table = [[True] * k + [False] * (m - k) for k in range(m + 1)]
    table = np.array(table, dtype=bool).reshape(m + 1, m)
    return table[np.asarray(lengths, dtype=int)]


# 3.3 masked_softmax


def masked_softmax__wrong_seventh_minus_1e9_and_no_more(scores, mask):
    """Fills hidden scores with -1e9 and takes a plain softmax: a row with nothing allowed is uniform, not zero."""
    filled = np.where(mask, scores, -1e9)
    filled = filled - filled.max(axis=-1, keepdims=True)
    e = np.exp(filled)
    return e / e.sum(axis=-1, keepdims=True)


def masked_softmax__wrong_seventh_nan_to_num_with_warning(scores, mask):
    """Lets -inf - (-inf) give NaN and repairs it by nan_to_num: the zeros are right, but NumPy warns."""
    hidden_away = np.where(mask, scores, -np.inf)
    return np.nan_to_num(_softmax(hidden_away), nan=0.0)


def masked_softmax__wrong_seventh_max_starts_at_zero(scores, mask):
    """The largest allowed score is taken with initial=0: where all allowed scores are far below 0, all weights vanish."""
    top = np.max(scores, axis=-1, keepdims=True, where=mask, initial=0.0)
    e = np.exp(np.where(mask, scores - top, -np.inf))
    total = e.sum(axis=-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0)


def masked_softmax__wrong_seventh_clips_scores(scores, mask):
    """Keeps exp from overflowing by clipping the scores to ±30, not by subtracting the largest: big scores become equal."""
    tame = np.clip(scores, -30.0, 30.0)
    powers = np.exp(tame) * mask
    norm = powers.sum(axis=-1, keepdims=True)
    norm[norm == 0] = 1
    return powers / norm


def masked_softmax__wrong_seventh_mask_lined_up_from_the_left(scores, mask):
    """Gives a mask with fewer axes its new axes at the end, so (n, m) is read as the first two axes; then a right softmax."""
    missing = scores.ndim - mask.ndim
    mask = np.broadcast_to(mask.reshape(mask.shape + (1,) * missing), scores.shape)
    top = np.where(mask, scores, -np.inf).max(axis=-1, keepdims=True)
    top = np.where(np.isinf(top), 0, top)
    e = np.exp(np.where(mask, scores - top, -np.inf))
    s = e.sum(axis=-1, keepdims=True)
    return e / (s + (s == 0))


def masked_softmax__wrong_seventh_empty_only_if_all_is(scores, mask):
    """Zeros only if nothing is allowed anywhere (`if not mask.any()`): an empty row among others becomes NaN."""
    if not np.any(mask):
        return np.zeros_like(scores)
    x = np.where(mask, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        x = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return x / np.sum(x, axis=-1, keepdims=True)


def masked_softmax__wrong_seventh_writes_into_scores(scores, mask):
    """Puts -inf into the caller's array by scores[~mask] = -np.inf: the weights are right, the input is changed."""
    mask = np.broadcast_to(mask, scores.shape)
    scores[~mask] = -np.inf
    top = scores.max(axis=-1, keepdims=True)
    top[np.isneginf(top)] = 0
    weights = np.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    return weights / total


def masked_softmax__wrong_seventh_score_zero_is_hidden(scores, mask):
    """Multiplies by the mask and then hides all that is 0: an allowed key with a score of 0 gets no weight."""
    product = scores * mask
    allowed = product != 0
    floor = np.where(allowed, product, -np.inf)
    best = floor.max(axis=-1, keepdims=True)
    best = np.where(np.isfinite(best), best, 0)
    e = np.exp(floor - best)
    rows = e.sum(axis=-1, keepdims=True)
    return e / np.maximum(rows, 1e-300)


def masked_softmax__right_seventh_logaddexp(scores, mask):
    """Subtracts the logarithm of the sum, made by logaddexp.reduce over the allowed scores; 0 stands in where it is -inf."""
    inside = np.where(mask, scores, -np.inf)
    log_sum = np.logaddexp.reduce(inside, axis=-1, keepdims=True)
    return np.exp(inside - np.where(np.isneginf(log_sum), 0.0, log_sum))


def masked_softmax__right_seventh_ratios_row_by_row(scores, mask):
    """Row by row, allowed keys cut out: the weight is 1 over the sum of exp of the differences (held below exp(600))."""
    mask = np.broadcast_to(mask, scores.shape)
    weights = np.zeros(scores.shape)
    for at in np.ndindex(scores.shape[:-1]):
        keys = np.flatnonzero(mask[at])
        some = scores[at][keys].astype(float)
        apart = some[None, :] - some[:, None]
        weights[at + (keys,)] = 1 / np.exp(np.minimum(apart, 600)).sum(axis=1)
    return weights


# 3.4 masked_attention


def masked_attention__wrong_seventh_root_of_axis_one(Q, K, V, mask):
    """Takes d_k from Q.shape[1], which is n (or h) as soon as there are leading axes."""
    d_k = Q.shape[1]
    scores = Q @ np.swapaxes(K, -1, -2) / math.sqrt(d_k)
    weights = _masked_softmax(scores, mask)
    return weights @ V, weights


def masked_attention__wrong_seventh_reshaped_keys(Q, K, V, mask):
    """Turns K into (..., d_k, m) by reshape and not by swapping axes: the numbers end up in wrong places."""
    *lead, m, d_k = K.shape
    K_T = K.reshape(*lead, d_k, m)
    A = _masked_softmax(np.matmul(Q, K_T) / np.sqrt(d_k), mask)
    return np.matmul(A, V), A


def masked_attention__wrong_seventh_empty_query_sees_all(Q, K, V, mask):
    """A query that may look at nothing is allowed everything (against NaN), and is not set to zero afterwards."""
    scores = np.einsum("...id,...jd->...ij", Q, K) / Q.shape[-1] ** 0.5
    some = mask.any(axis=-1, keepdims=True)
    weights = _masked_softmax(scores, mask | ~some)
    return np.einsum("...ij,...jv->...iv", weights, V), weights


def masked_attention__wrong_seventh_softmax_then_rescale(Q, K, V, mask):
    """Softmax over all keys, then mask and rescale: a far larger hidden score has rounded the allowed weights to 0."""
    S = Q @ K.swapaxes(-2, -1) / np.sqrt(K.shape[-1])
    A = _softmax(S) * mask
    share = A.sum(axis=-1, keepdims=True)
    A = np.where(share > 0, A / np.where(share > 0, share, 1), 0.0)
    return A @ V, A


def masked_attention__wrong_seventh_scales_q_in_place(Q, K, V, mask):
    """Scales the queries with Q /= sqrt(d_k): the caller's Q is changed."""
    Q /= np.sqrt(Q.shape[-1])
    weights = _masked_softmax(Q @ np.moveaxis(K, -1, -2), mask)
    output = weights @ V
    return output, weights


def masked_attention__wrong_seventh_square_mask_taken_for_padding(Q, K, V, mask):
    """A 2-D mask with as many rows as there are sequences is read as a padding mask (B, m): wrong where B = n."""
    if Q.ndim == 3 and mask.ndim == 2 and len(mask) == len(Q):
        mask = mask[:, None, :]
    scores = (Q @ K.transpose(*range(K.ndim - 2), -1, -2)) * Q.shape[-1] ** -0.5
    A = _masked_softmax(scores, mask)
    return A @ V, A


def masked_attention__wrong_seventh_masks_in_wrong_order(Q, K, V, mask):
    """Flattens the leading axes and repeats the masks in turns (np.resize): (B, 1, n, m) meets the wrong sequences."""
    lead, n, m = Q.shape[:-2], Q.shape[-2], K.shape[-2]
    count = math.prod(lead)
    q, k, v = (x.reshape(count, *x.shape[-2:]) for x in (Q, K, V))
    tables = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, (n, m)))
    tables = np.resize(tables, (count, n, m))
    weights = np.zeros((count, n, m))
    for b in range(count):
        weights[b] = _masked_softmax(q[b] @ k[b].T / np.sqrt(q.shape[-1]), tables[b])
    output = weights @ v
    return output.reshape(*lead, n, -1), weights.reshape(*lead, n, m)


def masked_attention__wrong_seventh_causal_on_top(Q, K, V, mask):
    """Combines the given mask with a causal one of its own, np.tri(n, m), though nobody asked for it."""
    n, m = Q.shape[-2], K.shape[-2]
    both = mask & np.tri(n, m, dtype=bool)
    scores = np.einsum("...nd,...md->...nm", Q, K) / np.sqrt(Q.shape[-1])
    weights = _masked_softmax(scores, both)
    return weights @ V, weights


def masked_attention__right_seventh_cuts_keys_out(Q, K, V, mask):
    """For each query of each sequence the hidden keys are cut out, and a plain softmax is taken of what is left."""
    lead, n, m = Q.shape[:-2], Q.shape[-2], K.shape[-2]
    seen = np.broadcast_to(mask, (*lead, n, m))
    weights = np.zeros((*lead, n, m))
    output = np.zeros((*lead, n, V.shape[-1]))
    for at in np.ndindex(*lead, n):
        keys = np.flatnonzero(seen[at])
        if keys.size:
            where = at[:-1]
            row = K[where][keys] @ Q[at] / math.sqrt(Q.shape[-1])
            row = np.exp(row - row.max())
            row = row / row.sum()
            weights[at + (keys,)] = row
            output[at] = row @ V[where][keys]
    return output, weights


def masked_attention__right_seventh_one_key_after_another(Q, K, V, mask):
    """Online softmax: a running maximum, sum and output are carried from key to key and mended when the maximum grows."""
    lead, n, m = Q.shape[:-2], Q.shape[-2], K.shape[-2]
    seen = np.broadcast_to(mask, (*lead, n, m))
    scores = np.zeros((*lead, n, m))
    top = np.full((*lead, n), -np.inf)
    total = np.zeros((*lead, n))
    output = np.zeros((*lead, n, V.shape[-1]))
    for j in range(m):
        scores[..., j] = (Q * K[..., j : j + 1, :]).sum(axis=-1) / Q.shape[-1] ** 0.5
        may = seen[..., j]
        new = np.where(may, np.maximum(top, scores[..., j]), top)
        base = np.where(np.isfinite(new), new, 0.0)
        shrink = np.exp(top - base)
        gain = np.exp(np.where(may, scores[..., j] - base, -np.inf))
        total = total * shrink + gain
        output = output * shrink[..., None] + gain[..., None] * V[..., j : j + 1, :]
        top = new
    base = np.where(np.isfinite(top), top, 0.0)[..., None]
    safe = np.where(total > 0, total, 1.0)[..., None]
    weights = np.exp(np.where(seen, scores - base, -np.inf)) / safe
    return output / safe, weights


# 3.5 next_token_pairs


def next_token_pairs__wrong_seventh_first_occurrence(tokens):
    """Looks up each token's first place in its row and takes what follows there: repeated tokens get the wrong target."""
    rows = tokens.tolist()
    targets = [[row[row.index(token) + 1] for token in row[:-1]] for row in rows]
    return tokens[:, :-1], np.array(targets)


def next_token_pairs__wrong_seventh_every_other_token(tokens):
    """Cuts the row into separate pairs (0, 1), (2, 3), …: every second question is missing."""
    n = tokens.shape[1] // 2 * 2
    return tokens[:, 0:n:2], tokens[:, 1:n:2]


def next_token_pairs__wrong_seventh_ignores_id_zero(tokens):
    """Writes -100 where a target is 0, taking id 0 for the pad: targets must stay as they are."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:].copy()
    targets[targets == 0] = -100
    return inputs, targets


def next_token_pairs__wrong_seventh_shifts_in_place(tokens):
    """targets is only another name for tokens and is shifted in place: the input and the inputs are changed."""
    targets = tokens
    for t in range(tokens.shape[1] - 1):
        targets[:, t] = tokens[:, t + 1]
    return tokens[:, :-1], targets[:, :-1]


def next_token_pairs__wrong_seventh_start_token_in_front(tokens):
    """Shifts right as T5 does: a made-up 0 stands before the inputs, and targets are tokens[:, :-1]."""
    batch = tokens.shape[0]
    start = np.zeros((batch, 1), dtype=tokens.dtype)
    shifted = np.concatenate([start, tokens[:, :-2]], axis=1)
    return shifted, tokens[:, :-1]


def next_token_pairs__wrong_seventh_id_plus_one(tokens):
    """Takes "next" as the next id: targets = inputs + 1."""
    inputs = tokens[:, :-1]
    targets = inputs + 1
    return inputs, targets


def next_token_pairs__wrong_seventh_one_long_row(tokens):
    """Lays all rows end to end and returns 1-D arrays: the last token of a row predicts the first of the next."""
    stream = tokens.reshape(-1)
    return stream[:-1], stream[1:]


def next_token_pairs__wrong_seventh_float_tables(tokens):
    """Fills tables made by np.zeros without a dtype: the ids come back as float64."""
    B, n = tokens.shape
    inputs, targets = np.zeros((B, n - 1)), np.zeros((B, n - 1))
    for t in range(n - 1):
        inputs[:, t] = tokens[:, t]
        targets[:, t] = tokens[:, t + 1]
    return inputs, targets


def next_token_pairs__right_seventh_windows(tokens):
    """Windows of two tokens along each row: the first of each is the input, the second the target."""
    pairs = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    return pairs[..., 0].copy(), pairs[..., 1].copy()


def next_token_pairs__right_seventh_deletes_a_column(tokens):
    """np.delete takes the last column away for the inputs and the first for the targets."""
    last = tokens.shape[1] - 1
    return np.delete(tokens, last, axis=1), np.delete(tokens, 0, axis=1)


# 3.6 leaks_future


def leaks_future__wrong_seventh_only_values(attend, Q, K, V):
    """Only the later values are redrawn, the keys stay: a leak through the sum of the softmax is not seen."""
    rng = np.random.default_rng(7)
    before = attend(Q, K, V)
    for t in range(1, len(V)):
        other = V.copy()
        other[t:] = rng.standard_normal(other[t:].shape)
        after = attend(Q, K, other)
        size = np.maximum(np.abs(before[:t]), np.abs(after[:t])).max(axis=1)
        if (np.abs(after[:t] - before[:t]).max(axis=1) > 3e-5 * size).any():
            return True
    return False


def leaks_future__wrong_seventh_size_of_whole_output(attend, Q, K, V):
    """Measures moves against the largest entry of the whole output, not of the row: leaks into small rows get by."""
    rng = np.random.default_rng(0)
    plain = attend(Q, K, V)
    scale = np.abs(plain).max()
    found = False
    for cut in range(1, Q.shape[0]):
        K2, V2 = K.copy(), V.copy()
        K2[cut:] += rng.standard_normal(K2[cut:].shape)
        V2[cut:] += rng.standard_normal(V2[cut:].shape)
        move = np.abs(attend(Q, K2, V2)[:cut] - plain[:cut]).max()
        found = found or bool(move > 3e-5 * scale)
    return found


def leaks_future__wrong_seventh_relative_in_each_entry(attend, Q, K, V):
    """np.isclose with rtol = 1e-5 and atol = 0 entry by entry: rounding in an entry that cancels to almost 0 raises an alarm."""
    rng = np.random.default_rng(1)
    n = len(Q)
    reference = attend(Q, K, V)
    for t in range(1, n):
        new_K = np.vstack([K[:t], rng.standard_normal((n - t, K.shape[1]))])
        new_V = np.vstack([V[:t], rng.standard_normal((n - t, V.shape[1]))])
        out = attend(Q, new_K, new_V)
        if not np.isclose(out[:t], reference[:t], rtol=1e-5, atol=0).all():
            return True
    return False


def leaks_future__wrong_seventh_shuffles_the_future(attend, Q, K, V):
    """The later keys and values change places together: attention is a sum over them, so nothing moves."""
    n = len(K)
    base = attend(Q, K, V)
    for t in range(1, n):
        order = np.concatenate([np.arange(t), np.arange(t, n)[::-1]])
        moved = attend(Q, K[order], V[order])
        gap = np.abs(moved - base)[:t].max(axis=1)
        if np.any(gap > 3e-5 * np.abs(base)[:t].max(axis=1)):
            return True
    return False


def leaks_future__wrong_seventh_changes_queries_too(attend, Q, K, V):
    """The later rows of Q are redrawn as well: an attend that depends on later queries alone is accused."""
    rng = np.random.default_rng(0)
    right = attend(Q, K, V)
    for t in range(1, len(Q)):
        changed = [x.copy() for x in (Q, K, V)]
        for x in changed:
            x[t:] = rng.uniform(-2, 2, size=x[t:].shape)
        wrong = attend(*changed)
        for i in range(t):
            size = max(np.abs(right[i]).max(), np.abs(wrong[i]).max())
            if np.abs(right[i] - wrong[i]).max() > 3e-5 * size:
                return True
    return False


def leaks_future__wrong_seventh_reference_each_time(attend, Q, K, V):
    """Asks for the unchanged output anew at every split: 2(n - 1) calls where attend answers n."""
    rng = np.random.default_rng(0)
    answers = []
    for t in range(1, len(Q)):
        K_new, V_new = K.copy(), V.copy()
        K_new[t:] = rng.standard_normal(K_new[t:].shape)
        V_new[t:] = rng.standard_normal(V_new[t:].shape)
        before, after = attend(Q, K, V)[:t], attend(Q, K_new, V_new)[:t]
        rows = np.abs(after - before).max(axis=1)
        answers.append((rows > 3e-5 * np.abs(before).max(axis=1)).any())
    return bool(any(answers))


def leaks_future__wrong_seventh_sum_with_sign(attend, Q, K, V):
    """Adds the differences of a row before it takes the absolute value: ups and downs of equal size cancel."""
    rng = np.random.default_rng(3)
    calm = attend(Q, K, V)
    for t in range(1, len(Q)):
        K_t, V_t = K.copy(), V.copy()
        K_t[t:] += rng.normal(size=K_t[t:].shape)
        V_t[t:] += rng.normal(size=V_t[t:].shape)
        difference = (attend(Q, K_t, V_t) - calm)[:t]
        if (np.abs(difference.sum(axis=1)) > 3e-5 * np.abs(calm[:t]).max(axis=1)).any():
            return True
    return False


def leaks_future__wrong_seventh_first_split_forgotten(attend, Q, K, V):
    """The splits run over range(2, n): row 0 is watched only while key 1 stays, so 0 looking at 1 is not seen."""
    rng = np.random.default_rng(0)
    before = attend(Q, K, V)
    noise_K, noise_V = rng.standard_normal(K.shape), rng.standard_normal(V.shape)
    late = np.arange(len(Q))[:, None]
    for t in range(2, len(Q)):
        after = attend(Q, np.where(late >= t, noise_K, K), np.where(late >= t, noise_V, V))
        step = np.abs(after - before)[:t].max(axis=1)
        if np.any(step > 3e-5 * np.abs(before)[:t].max(axis=1)):
            return True
    return False


def leaks_future__right_seventh_spread_over_all_calls(attend, Q, K, V):
    """n calls, fresh noise behind each split; row i must be the same in all calls whose split lies behind it."""
    rng = np.random.default_rng(11)
    n = len(Q)
    if n == 1:
        return False
    outputs = []
    for t in range(1, n + 1):  # the last one changes nothing
        K_t, V_t = np.array(K, dtype=float), np.array(V, dtype=float)
        K_t[t:] = rng.standard_normal(K_t[t:].shape)
        V_t[t:] = rng.standard_normal(V_t[t:].shape)
        outputs.append(np.array(attend(Q, K_t, V_t)))
    outputs = np.stack(outputs)
    for i in range(n - 1):
        same = outputs[i:, i]  # splits i + 1, …, n
        if np.ptp(same, axis=0).max() > 3e-5 * np.abs(same).max():
            return True
    return False


def leaks_future__right_seventh_from_the_back(attend, Q, K, V):
    """Disturbs one more position from the back in each call, by fixed steps of order 1 and either sign; rows against their size."""
    rng = np.random.default_rng(5)
    n = len(Q)

    def step(shape):
        return rng.choice([-1.0, 1.0], size=shape) * rng.uniform(0.5, 1.5, size=shape)

    other_K, other_V = K + step(K.shape), V + step(V.shape)
    mixed_K, mixed_V = K.copy(), V.copy()
    honest = attend(Q, mixed_K.copy(), mixed_V.copy()) if n > 1 else None
    leak = False
    for t in reversed(range(1, n)):
        mixed_K[t], mixed_V[t] = other_K[t], other_V[t]
        now = attend(Q, mixed_K.copy(), mixed_V.copy())
        a, b = honest[:t], now[:t]
        size = np.maximum(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))
        leak |= bool(np.any(np.linalg.norm(a - b, axis=1) > 3e-5 * size))
    return leak


# 3.7 packed_causal_mask


def packed_causal_mask__wrong_seventh_distance_from_first(document_ids):
    """positions = place minus the place of the document's first token: tokens of an interruption are counted too."""
    n = document_ids.shape[1]
    same = document_ids[:, :, None] == document_ids[:, None, :]
    mask = same & np.tri(n, dtype=bool)
    first = same.argmax(axis=2)
    return mask, np.arange(n) - first


def packed_causal_mask__wrong_seventh_each_run_a_document(document_ids):
    """Numbers the runs of equal ids by a cumulative sum of changes: an interrupted document becomes two."""
    B, n = document_ids.shape
    change = np.ones((B, n), dtype=int)
    change[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    run = change.cumsum(axis=1)
    mask = (run[:, :, None] == run[:, None, :]) & np.tri(n, dtype=bool)
    return mask, mask.sum(axis=2) - 1


def packed_causal_mask__wrong_seventh_positions_from_columns(document_ids):
    """Sums the mask over the queries (axis 1) and not over the keys: positions count back from the document's end."""
    i = np.arange(document_ids.shape[1])
    together = np.equal(document_ids[:, :, None], document_ids[:, None, :])
    mask = np.logical_and(together, i[:, None] >= i[None, :])
    positions = np.count_nonzero(mask, axis=1) - 1
    return mask, positions


def packed_causal_mask__wrong_seventh_positions_in_a_byte(document_ids):
    """Counts in uint8 to save memory: from token 256 of a document on, positions begin again at 0."""
    mask = np.tril(document_ids[..., None] == document_ids[..., None, :])
    counts = mask.sum(axis=-1, dtype=np.uint8)
    return mask, (counts - np.uint8(1)).astype(int)


def packed_causal_mask__wrong_seventh_negative_ids_are_pads(document_ids):
    """Takes ids below 0 for padding and hides them in the mask: ids are names, any integers."""
    n = document_ids.shape[1]
    same = document_ids[:, :, None] == document_ids[:, None, :]
    past = np.arange(n)[None, :] <= np.arange(n)[:, None]
    positions = (same & past).sum(axis=-1) - 1
    real = document_ids >= 0
    return same & past & real[:, None, :], positions


def packed_causal_mask__wrong_seventh_ids_in_float32(document_ids):
    """Compares by a difference in float32: large ids that lie close together become the same document."""
    ids = document_ids.astype(np.float32)
    gap = np.abs(ids[:, :, None] - ids[:, None, :])
    mask = (gap < 0.5) & np.tri(ids.shape[1], dtype=bool)[None]
    return mask, mask.sum(-1) - 1


def packed_causal_mask__wrong_seventh_loop_over_tokens(document_ids):
    """Fills mask and positions token by token in a Python loop, which the docstring forbids."""
    B, n = document_ids.shape
    mask = np.zeros((B, n, n), dtype=bool)
    positions = np.zeros((B, n), dtype=int)
    for i in range(n):
        before = document_ids[:, : i + 1] == document_ids[:, i : i + 1]
        mask[:, i, : i + 1] = before
        positions[:, i] = before.sum(axis=1) - 1
    return mask, positions


def packed_causal_mask__wrong_seventh_counts_on_in_next_row(document_ids):
    """Counts each id through the whole flattened batch: an id that occurs in two rows goes on counting in the second."""
    B, n = document_ids.shape
    mask = (document_ids[:, None, :] == document_ids[:, :, None]) & np.tri(n, dtype=bool)
    flat = document_ids.ravel()
    positions = np.zeros(B * n, dtype=int)
    for name in np.unique(flat):
        mine = flat == name
        positions[mine] = np.arange(mine.sum())
    return mask, positions.reshape(B, n)


def packed_causal_mask__right_seventh_stable_sort(document_ids):
    """A stable sort brings the tokens of a document together; positions are distances from its start there, and are sorted back."""
    B, n = document_ids.shape
    order = np.argsort(document_ids, axis=1, kind="stable")
    ranked = np.take_along_axis(document_ids, order, axis=1)
    place = np.broadcast_to(np.arange(n), (B, n))
    begins = np.ones((B, n), dtype=bool)
    begins[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    start = np.maximum.accumulate(np.where(begins, place, 0), axis=1)
    positions = np.empty((B, n), dtype=int)
    np.put_along_axis(positions, order, place - start, axis=1)
    label = np.empty((B, n), dtype=int)
    np.put_along_axis(label, order, start, axis=1)
    mask = ~((label[:, :, None] != label[:, None, :]) | (place[:, :, None] < place[:, None, :]))
    return mask, positions


def packed_causal_mask__right_seventh_document_by_document(document_ids):
    """Row by row and document by document: a lower triangle is written to the crossings of the document's places."""
    B, n = document_ids.shape
    mask = np.zeros((B, n, n), dtype=bool)
    positions = np.zeros((B, n), dtype=np.int64)
    for b in range(B):
        for name in np.unique(document_ids[b]):
            at = np.flatnonzero(document_ids[b] == name)
            mask[b][np.ix_(at, at)] = np.tri(at.size, dtype=bool)
            positions[b, at] = np.arange(at.size)
    return mask, positions
