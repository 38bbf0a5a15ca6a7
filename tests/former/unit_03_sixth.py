"""Answers of a class to unit 3, masking: eight wrong and two right ones for each exercise."""

import math

import numpy as np


def _softmax(z, axis=-1):
    """The stable softmax that the notebook gives."""
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _masked_softmax(scores, mask):
    """A right answer to exercise 3.3."""
    hidden = np.where(mask, scores, -np.inf)
    top = hidden.max(axis=-1, keepdims=True)
    powers = np.exp(hidden - np.where(np.isfinite(top), top, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


# ---------------------------------------------------------------- 3.1 causal_mask


def causal_mask__wrong_sixth_np_tri_default_dtype(n: int) -> np.ndarray:
    """Uses np.tri with its default dtype: an array of floats 0.0 and 1.0, no booleans."""
    return np.tri(n)


def causal_mask__wrong_sixth_queries_along_the_columns(n: int) -> np.ndarray:
    """Numbers the queries along the row and the keys down the column: the transpose, row 0 sees everything."""
    query = np.arange(n)
    key = np.arange(n).reshape(n, 1)
    return key <= query


def causal_mask__wrong_sixth_not_itself(n: int) -> np.ndarray:
    """Compares with < instead of <=: a token may not look at itself, row 0 is empty."""
    rows, columns = np.indices((n, n))
    return columns < rows


def causal_mask__wrong_sixth_sees_the_next(n: int) -> np.ndarray:
    """Fills row i up to and with column i + 1: each query sees the key that it has to guess."""
    mask = np.zeros((n, n), dtype=bool)
    for i in range(n):
        last = i + 1
        mask[i, : last + 1] = True
    return mask


def causal_mask__wrong_sixth_true_means_hidden(n: int) -> np.ndarray:
    """Marks the future with True, as nn.MultiheadAttention wants it: True means hidden."""
    everything = np.ones((n, n), dtype=bool)
    return np.triu(everything, k=1)


def causal_mask__wrong_sixth_numbers_to_add(n: int) -> np.ndarray:
    """Returns a mask to be added to the scores, 0 in the past and -inf in the future, in place of booleans."""
    mask = np.zeros((n, n))
    mask[np.triu_indices(n, k=1)] = -np.inf
    return mask


def causal_mask__wrong_sixth_loop_begins_at_row_one(n: int) -> np.ndarray:
    """The loop over queries begins at 1, so that row 0 stays empty and token 0 does not see itself."""
    mask = np.full((n, n), False)
    for i in range(1, n):
        for j in range(n):
            if j <= i:
                mask[i, j] = True
    return mask


def causal_mask__wrong_sixth_only_itself_and_the_one_before(n: int) -> np.ndarray:
    """Takes “may look back” as “at the token just before”: only the diagonal and the one below are True."""
    itself = np.eye(n, dtype=bool)
    before = np.eye(n, k=-1, dtype=bool)
    return itself | before


def causal_mask__right_sixth_accumulated_identity(n: int) -> np.ndarray:
    """Runs “or” down the columns of the identity: once a key has come it stays visible."""
    return np.logical_or.accumulate(np.eye(n, dtype=bool), axis=0)


def causal_mask__right_sixth_flat_numbers(n: int) -> np.ndarray:
    """Numbers all n*n places, and takes quotient and remainder by n as query and key."""
    query, key = np.divmod(np.arange(n * n), n)
    return (query - key >= 0).reshape(n, n)


# ---------------------------------------------------------------- 3.2 padding_mask


def padding_mask__wrong_sixth_one_too_generous(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Compares with <=, so that the first filler of each sequence counts as real."""
    return np.arange(m)[None, :] <= lengths[:, None]


def padding_mask__wrong_sixth_rows_are_keys(lengths: np.ndarray, m: int) -> np.ndarray:
    """Stands the keys in the column and leaves the lengths along the row: the result is (m, B)."""
    keys = np.arange(m)[:, np.newaxis]
    return keys < lengths


def padding_mask__wrong_sixth_as_wide_as_the_longest(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Takes the longest length as the width and never looks at m."""
    width = int(np.max(lengths))
    mask = np.zeros((len(lengths), width), dtype=bool)
    for b, length in enumerate(lengths):
        mask[b, :length] = True
    return mask


def padding_mask__wrong_sixth_marks_the_pads(lengths: np.ndarray, m: int) -> np.ndarray:
    """Is True at the filler and False at the real tokens, as key_padding_mask of PyTorch's layer."""
    positions = np.broadcast_to(np.arange(m), (lengths.shape[0], m))
    return positions >= np.reshape(lengths, (-1, 1))


def padding_mask__wrong_sixth_pads_in_front(lengths: np.ndarray, m: int) -> np.ndarray:
    """Puts the filler on the left: the last `length` places of a row are True."""
    first_real = m - lengths
    return np.array([[j >= start for j in range(m)] for start in first_real])


def padding_mask__wrong_sixth_slice_from_the_end(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Clears the last m - length places by a slice from the end; for a full row, -0 clears the whole row."""
    mask = np.ones((len(lengths), m), dtype=bool)
    for row, length in zip(mask, lengths):
        fillers = m - length
        row[-fillers:] = False
    return mask


def padding_mask__wrong_sixth_at_least_one_key(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Raises lengths of 0 to 1 “against NaN later”, so that an empty sequence has a real token."""
    safe = np.maximum(lengths, 1)
    return np.arange(m) < safe[:, None]


def padding_mask__wrong_sixth_with_a_query_axis(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Returns (B, 1, m), ready to broadcast over the queries, where (B, m) is asked for."""
    limit = lengths[:, None, None]
    return np.arange(m)[None, None, :] < limit


def padding_mask__right_sixth_step_by_cumsum(lengths: np.ndarray, m: int) -> np.ndarray:
    """Puts a 1 where the filler begins, sums along the row, and takes what is still 0."""
    begins = np.zeros((len(lengths), m + 1), dtype=int)
    begins[np.arange(len(lengths)), lengths] = 1
    return begins.cumsum(axis=1)[:, :m] == 0


def padding_mask__right_sixth_lists(lengths: np.ndarray, m: int) -> np.ndarray:
    """Glues lists of True and False for each sequence."""
    rows = [[True] * int(k) + [False] * (m - int(k)) for k in lengths]
    return np.array(rows, dtype=bool).reshape(len(rows), m)


# ---------------------------------------------------------------- 3.3 masked_softmax


def masked_softmax__wrong_sixth_weights_hidden_afterwards(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Softmax over all scores, then the hidden weights become 0: the rest does not sum to 1."""
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights = e / np.sum(e, axis=-1, keepdims=True)
    return np.where(mask, weights, 0.0)


def masked_softmax__wrong_sixth_hidden_and_rescaled(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Softmax over all, hidden ones to 0, rescaled: a huge hidden score has pressed the allowed ones to 0 before."""
    kept = _softmax(scores) * mask
    total = kept.sum(axis=-1, keepdims=True)
    return np.divide(kept, total, out=np.zeros_like(kept), where=total > 0)


def masked_softmax__wrong_sixth_minus_1e9_and_nothing_more(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Fills hidden scores with -1e9 and leaves it there: a row with nothing allowed comes out uniform."""
    filled = np.where(mask, scores, -1e9)
    shifted = filled - filled.max(axis=-1, keepdims=True)
    powers = np.exp(shifted)
    return powers / powers.sum(axis=-1, keepdims=True)


def masked_softmax__wrong_sixth_one_maximum_for_all_rows(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Subtracts the largest allowed score of the whole array: rows far below it underflow to zeros."""
    allowed = np.broadcast_to(mask, scores.shape)
    top = scores[allowed].max() if allowed.any() else 0.0
    powers = np.zeros(scores.shape)
    powers[allowed] = np.exp(scores[allowed] - top)
    sums = powers.sum(axis=-1, keepdims=True)
    sums[sums == 0] = 1.0
    return powers / sums


def masked_softmax__wrong_sixth_axis_one(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Writes axis=1 for the last axis: right for (n, m) only; over the queries in a batch, an error for one row."""
    s = np.where(mask, scores, -np.inf)
    biggest = s.max(axis=1, keepdims=True)
    biggest = np.where(biggest == -np.inf, 0, biggest)
    e = np.exp(s - biggest)
    total = e.sum(axis=1, keepdims=True)
    return e / np.where(total > 0, total, 1)


def masked_softmax__wrong_sixth_writes_into_the_scores(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Puts -inf at the hidden places of the caller's own array: the result is right, the input is changed."""
    np.copyto(scores, -np.inf, where=np.logical_not(mask))
    top = scores.max(axis=-1, keepdims=True)
    top = np.where(np.isinf(top), 0.0, top)
    powers = np.exp(scores - top)
    norm = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(norm == 0.0, 1.0, norm)


def masked_softmax__wrong_sixth_zero_scores_count_as_hidden(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Multiplies by the mask and turns every 0 into -inf: an allowed score of 0 is hidden too."""
    s = scores * mask
    s[s == 0] = -np.inf
    top = s.max(axis=-1, keepdims=True)
    top[np.isneginf(top)] = 0
    e = np.exp(s - top)
    z = e.sum(axis=-1, keepdims=True)
    z[z == 0] = 1
    return e / z


def masked_softmax__wrong_sixth_mends_nan_after_a_warning(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Lets -inf - (-inf) happen in an empty row and replaces the NaN at the end: NumPy warns each time."""
    hidden = np.where(mask, scores, -np.inf)
    weights = _softmax(hidden, axis=-1)
    return np.nan_to_num(weights, nan=0.0)


def masked_softmax__right_sixth_row_by_row(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Goes through the rows, takes out the allowed scores, and puts their softmax back."""
    mask = np.broadcast_to(mask, scores.shape)
    weights = np.zeros(scores.shape, dtype=scores.dtype)
    for at in np.ndindex(scores.shape[:-1]):
        see = np.flatnonzero(mask[at])
        if see.size:
            powers = np.exp(scores[at][see] - scores[at][see].max())
            weights[at][see] = powers / powers.sum()
    return weights


def masked_softmax__right_sixth_logarithm_of_the_sum(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Reduces the allowed scores with logaddexp, and takes exp(score - logarithm of the sum)."""
    allowed = np.where(mask, scores, -np.inf)
    log_sum = np.logaddexp.reduce(allowed, axis=-1, keepdims=True)
    log_sum = np.where(np.isneginf(log_sum), 0.0, log_sum)
    weights = np.exp(allowed - log_sum)
    total = weights.sum(axis=-1, keepdims=True)  # 1 up to rounding, or 0
    return weights / np.where(total == 0, 1.0, total)


# ---------------------------------------------------------------- 3.4 masked_attention


def masked_attention__wrong_sixth_root_of_d_v(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides the scores by the square root of d_v, the width of the values, instead of d_k."""
    width = V.shape[-1]
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(width)
    weights = _masked_softmax(scores, mask)
    return weights @ V, weights


def masked_attention__wrong_sixth_d_k_from_axis_one(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reads d_k off axis 1 of Q, which in a batch is the number of queries."""
    d_k = Q.shape[1]
    scores = np.einsum("...id,...jd->...ij", Q, K) / math.sqrt(d_k)
    weights = _masked_softmax(scores, mask)
    return np.einsum("...ij,...jv->...iv", weights, V), weights


def masked_attention__wrong_sixth_keys_reshaped(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reshapes K to (..., d_k, m) instead of swapping the two axes: right shape, scrambled keys."""
    *lead, m, d_k = K.shape
    K_turned = K.reshape(*lead, d_k, m)
    weights = _masked_softmax(Q @ K_turned / d_k**0.5, mask)
    output = weights @ V
    return output, weights


def masked_attention__wrong_sixth_blind_query_sees_all(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Hides with -1e9 and the plain softmax: a query that sees nothing gets the mean of all values."""
    scores = np.matmul(Q, K.swapaxes(-2, -1)) / np.sqrt(K.shape[-1])
    scores = np.where(mask, scores, -1e9)
    weights = _softmax(scores)
    return np.matmul(weights, V), weights


def masked_attention__wrong_sixth_mask_the_other_way(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes True as “hidden”, as nn.MultiheadAttention does, and hands on the inverted mask."""
    scores = (Q / np.sqrt(Q.shape[-1])) @ np.swapaxes(K, -1, -2)
    may_see = np.logical_not(mask)
    weights = _masked_softmax(scores, may_see)
    return weights @ V, weights


def masked_attention__wrong_sixth_softmax_over_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The masked softmax runs down axis -2, over the queries, so that columns sum to 1."""
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    full = np.broadcast_to(mask, scores.shape)
    turned = _masked_softmax(np.swapaxes(scores, -1, -2), np.swapaxes(full, -1, -2))
    weights = np.ascontiguousarray(np.swapaxes(turned, -1, -2))
    return weights @ V, weights


def masked_attention__wrong_sixth_mask_of_row_b_for_sequence_b(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Loops over the batch and takes mask[b] even of an (n, m) mask: all of sequence b gets the mask of query b."""

    def attend(q, k, v, may):
        if q.ndim == 2:
            table = _masked_softmax(q @ k.T / np.sqrt(q.shape[1]), may)
            return table @ v, table
        parts = []
        for b in range(len(q)):
            own = may[b] if len(may) > 1 else may[0]
            parts.append(attend(q[b], k[b], v[b], own))
        outputs, tables = zip(*parts, strict=True)
        return np.stack(outputs), np.stack(tables)

    return attend(Q, K, V, mask)


def masked_attention__wrong_sixth_scaled_after_the_softmax(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides the weights by the square root of d_k, behind the softmax, and not the scores before it."""
    products = Q @ np.moveaxis(K, -1, -2)
    weights = _masked_softmax(products, mask) / np.sqrt(K.shape[-1])
    return weights @ V, weights


def masked_attention__right_sixth_query_by_query(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Goes through all queries of all leading axes and gives each only the keys that it may see."""
    shape = (*Q.shape[:-1], K.shape[-2])
    mask = np.broadcast_to(mask, shape)
    weights = np.zeros(shape, dtype=np.result_type(Q, K))
    output = np.zeros((*Q.shape[:-1], V.shape[-1]), dtype=np.result_type(Q, K, V))
    for at in np.ndindex(Q.shape[:-1]):
        lead, see = at[:-1], mask[at]
        if not see.any():
            continue
        scores = K[lead][see] @ Q[at] / math.sqrt(Q.shape[-1])
        powers = np.exp(scores - scores.max())
        weights[at][see] = powers / powers.sum()
        output[at] = weights[at][see] @ V[lead][see]
    return output, weights


# ---------------------------------------------------------------- 3.5 next_token_pairs


def next_token_pairs__wrong_sixth_swapped(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the later tokens as inputs and the earlier ones as targets."""
    targets = tokens[:, :-1]
    inputs = tokens[:, 1:]
    return inputs, targets


def next_token_pairs__wrong_sixth_along_the_batch(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Slices axis 0, so that the target is the same place of the next sequence."""
    return tokens[:-1], tokens[1:]


def next_token_pairs__wrong_sixth_one_long_stream(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Flattens the batch to one stream first: the last token of a row predicts the first of the next, no batch axis."""
    stream = tokens.ravel()
    return stream[:-1], stream[1:]


def next_token_pairs__wrong_sixth_zeros_ignored(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Replaces targets with id 0 by -100, as the losses of libraries ignore them: the pads should stay."""
    inputs = tokens[:, :-1].copy()
    targets = np.where(tokens[:, 1:] == 0, -100, tokens[:, 1:])
    return inputs, targets


def next_token_pairs__wrong_sixth_only_the_last_is_a_target(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes the whole beginning as input and the last token alone as its target, (B, 1)."""
    beginning, last = np.split(tokens, [tokens.shape[1] - 1], axis=1)
    return beginning, last


def next_token_pairs__wrong_sixth_shifts_the_callers_array(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Moves the tokens one place to the left inside the argument: right numbers, but the caller's array is changed."""
    n = tokens.shape[1]
    inputs = tokens[:, : n - 1].copy()
    shifted = tokens
    for i in range(n - 1):
        shifted[:, i] = shifted[:, i + 1]
    return inputs, shifted[:, : n - 1].copy()


def next_token_pairs__wrong_sixth_squeezed(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Squeezes both results, so that a batch of one sequence, or a single pair, loses an axis."""
    pairs = np.stack([tokens[:, :-1], tokens[:, 1:]])
    inputs, targets = (np.squeeze(part) for part in pairs)
    return inputs, targets


def next_token_pairs__wrong_sixth_pairs_without_overlap(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Cuts each row into pairs side by side, tokens 0 1, 2 3, …: only every second next token is asked for."""
    even = tokens.shape[1] // 2 * 2
    pairs = tokens[:, :even].reshape(len(tokens), -1, 2)
    return pairs[..., 0], pairs[..., 1]


def next_token_pairs__right_sixth_windows_of_two(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Slides a window of two tokens along each row: its first is the input, its second the target."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    return windows[..., 0].copy(), windows[..., 1].copy()


def next_token_pairs__right_sixth_deletes_a_column(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Deletes the last column for the inputs and the first for the targets."""
    return np.delete(tokens, -1, axis=1), np.delete(tokens, 0, axis=1)


# ---------------------------------------------------------------- 3.6 leaks_future


def leaks_future__wrong_sixth_values_alone(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Changes the later values but never the keys: a mask after the softmax is not noticed if values do not tell."""
    noise = np.random.default_rng(0).standard_normal(V.shape)
    before = attend(Q, K, V)
    for t in range(1, len(Q)):
        other = V.copy()
        other[t:] = noise[t:]
        after = attend(Q, K, other)
        size = np.maximum(np.abs(before), np.abs(after))[:t].max(axis=1)
        moved = np.abs(after - before)[:t].max(axis=1)
        if (moved > 3e-5 * size).any():
            return True
    return False


def leaks_future__wrong_sixth_tolerance_of_the_largest_row(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Measures every row by the largest number of the whole output: a leak into a row of small numbers is lost."""
    rng = np.random.default_rng(0)
    new_K, new_V = rng.standard_normal(K.shape), rng.standard_normal(V.shape)
    base = attend(Q, K, V)
    scale = np.abs(base).max()
    found = False
    for t in range(1, len(Q)):
        K_t = np.concatenate([K[:t], new_K[t:]])
        V_t = np.concatenate([V[:t], new_V[t:]])
        gap = np.abs(attend(Q, K_t, V_t)[:t] - base[:t]).max()
        found = found or bool(gap > 3e-5 * scale)
    return found


def leaks_future__wrong_sixth_skips_the_row_just_before(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Watches the rows up to t - 2 when the tokens from t on change: a look one step ahead is never seen."""
    rng = np.random.default_rng(0)
    first = attend(Q, K, V)
    for t in range(2, len(Q)):
        K2, V2 = K.copy(), V.copy()
        K2[t:] += rng.standard_normal(K2[t:].shape)
        V2[t:] += rng.standard_normal(V2[t:].shape)
        second = attend(Q, K2, V2)
        for i in range(t - 1):
            size = max(np.abs(first[i]).max(), np.abs(second[i]).max())
            if np.abs(first[i] - second[i]).max() > 3e-5 * size:
                return True
    return False


def leaks_future__wrong_sixth_all_rows_must_move(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Reports a leak only if all earlier rows move at once: a single row that looks ahead is overlooked."""
    rng = np.random.default_rng(0)
    dK, dV = rng.standard_normal(K.shape), rng.standard_normal(V.shape)
    base = attend(Q, K, V)
    verdicts = []
    for t in range(1, Q.shape[0]):
        later = (np.arange(len(Q)) >= t)[:, None]
        out = attend(Q, K + dK * later, V + dV * later)
        moved = np.abs(out - base)[:t].max(axis=1)
        size = np.abs(base)[:t].max(axis=1) + np.abs(out)[:t].max(axis=1)
        verdicts.append(np.all(moved > 1e-5 * size))
    return bool(np.any(verdicts))


def leaks_future__wrong_sixth_only_upwards(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Forgets the absolute value: only outputs that grow count, a leak that lowers them passes."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)
    answer = False
    for t in range(1, len(K)):
        K_new, V_new = K.copy(), V.copy()
        K_new[t:] = rng.standard_normal(K[t:].shape)
        V_new[t:] = rng.standard_normal(V[t:].shape)
        out = attend(Q, K_new, V_new)
        growth = (out - base)[:t].max(axis=1)
        size = np.maximum(np.abs(out), np.abs(base))[:t].max(axis=1)
        answer |= bool((growth > 3e-5 * size).any())
    return answer


def leaks_future__wrong_sixth_allclose_as_it_is(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Compares with np.allclose and its absolute tolerance of 1e-8: where outputs are that small no leak is found."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)

    def still_the_same(t):
        K2, V2 = K.copy(), V.copy()
        K2[t:] = rng.standard_normal(K2[t:].shape)
        V2[t:] = rng.standard_normal(V2[t:].shape)
        return np.allclose(attend(Q, K2, V2)[:t], base[:t])

    return not all([still_the_same(t) for t in range(1, len(Q))])


def leaks_future__wrong_sixth_works_on_the_callers_arrays(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Writes the random rows into K and V themselves, from the end on: the verdict is right, the inputs are spoilt."""
    rng = np.random.default_rng(0)
    base = np.array(attend(Q, K, V))
    leak = False
    for t in reversed(range(1, len(Q))):
        K[t] = rng.standard_normal(K.shape[1])
        V[t] = rng.standard_normal(V.shape[1])
        out = np.array(attend(Q, K, V))
        size = np.maximum(np.abs(base), np.abs(out))[:t].max(axis=1)
        if np.any(np.abs(base - out)[:t].max(axis=1) > 3e-5 * size):
            leak = True
    return leak


def leaks_future__wrong_sixth_changes_the_queries_too(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Changes later queries along with keys and values: an attend that reads later queries is accused."""
    rng = np.random.default_rng(0)
    new = [rng.standard_normal(x.shape) for x in (Q, K, V)]
    base = attend(Q, K, V)
    for t in range(1, len(Q)):
        changed = [np.vstack([x[:t], y[t:]]) for x, y in zip((Q, K, V), new)]
        out = attend(*changed)
        gap = np.abs(out[:t] - base[:t]).max(axis=1)
        size = np.maximum(np.abs(out[:t]), np.abs(base[:t])).max(axis=1)
        if np.any(gap > 3e-5 * size):
            return True
    return False


def leaks_future__right_sixth_size_over_all_experiments(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Gives token 0 random numbers in all runs, and holds a row's spread over the runs that share its past to its size in all runs."""
    n = len(Q)
    if n == 1:
        return False
    rng = np.random.default_rng(0)
    new_K, new_V = rng.standard_normal(K.shape), rng.standard_normal(V.shape)
    runs = []
    for t in range(n, 0, -1):  # t = n changes token 0 alone
        new = np.arange(n)[:, None] >= t
        new[0] = True
        inputs = Q.copy(), np.where(new, new_K, K), np.where(new, new_V, V)
        runs.append(np.array(attend(*inputs), dtype=float))
    for i in range(n - 1):
        same = np.stack([run[i] for run in runs[: n - i]])  # t = n … i + 1
        size = max(np.abs(run[i]).max() for run in runs)
        if (same.max(axis=0) - same.min(axis=0)).max() > 5e-6 * size:
            return True
    return False


def leaks_future__right_sixth_adds_wavy_numbers(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Adds sines of order 1, no two alike and not drawn, to token 0 once and to all later tokens, a split after the other."""
    n = len(Q)
    wave_K = 1.7 * np.sin(1.0 + 2.3 * np.arange(K.size) ** 1.1).reshape(K.shape)
    wave_V = 1.7 * np.cos(0.4 + 1.9 * np.arange(V.size) ** 1.2).reshape(V.shape)
    outputs = {}
    for t in range(1, n + 1) if n > 1 else ():
        wavy = ((np.arange(n) >= t) | (np.arange(n) == 0))[:, None]
        moved = K + wavy * wave_K, V + wavy * wave_V
        outputs[t] = np.array(attend(Q.copy(), *moved))
    sizes = [max(np.abs(out[i]).max() for out in outputs.values()) for i in range(n - 1)]
    gaps = [
        max(np.abs(outputs[t][i] - outputs[n][i]).max() for t in range(i + 1, n))
        for i in range(n - 1)
    ]
    return any(bool(gap > 5e-6 * size) for gap, size in zip(gaps, sizes, strict=True))


# ---------------------------------------------------------------- 3.7 packed_causal_mask


def packed_causal_mask__wrong_sixth_new_document_at_every_change(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Counts the places where the id changes and takes runs as documents: an interrupted one begins anew."""
    n = document_ids.shape[1]
    changes = np.zeros(document_ids.shape, dtype=int)
    changes[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    run = changes.cumsum(axis=1)
    mask = (run[:, :, None] == run[:, None, :]) & np.tri(n, dtype=bool)
    return mask, mask.sum(axis=2) - 1


def packed_causal_mask__wrong_sixth_distance_to_the_first(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The position is the distance to the document's first token: behind an interruption others' tokens count too."""
    B, n = document_ids.shape
    same = document_ids[:, :, None] == document_ids[:, None, :]
    mask = same & (np.arange(n)[:, None] >= np.arange(n))
    first = same.argmax(axis=2)
    positions = np.arange(n) - first
    return mask, positions


def packed_causal_mask__wrong_sixth_loops_over_tokens(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Right numbers, but from Python loops over the tokens of each row, which the docstring forbids."""
    B, n = document_ids.shape
    mask = np.zeros((B, n, n), dtype=bool)
    positions = np.zeros((B, n), dtype=int)
    for b in range(B):
        seen = {}
        for i in range(n):
            name = int(document_ids[b, i])
            positions[b, i] = seen.get(name, 0)
            seen[name] = positions[b, i] + 1
            mask[b, i, : i + 1] = document_ids[b, : i + 1] == name
    return mask, positions


def packed_causal_mask__wrong_sixth_counts_on_into_the_next_row(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers the tokens of an id through the whole batch, so that an id of an earlier row goes on counting."""
    n = document_ids.shape[1]
    flat = document_ids.ravel()
    numbers = np.zeros(flat.size, dtype=int)
    for name in np.unique(flat):
        hit = flat == name
        numbers[hit] = np.arange(hit.sum())
    same = document_ids[:, None, :] == document_ids[:, :, None]
    return same & np.tri(n, dtype=bool), numbers.reshape(document_ids.shape)


def packed_causal_mask__wrong_sixth_zero_is_a_pad(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes id 0 for filler and hides its tokens from everybody, themselves included."""
    n = document_ids.shape[-1]
    real = document_ids != 0
    same = np.equal(document_ids[:, :, None], document_ids[:, None, :])
    together = np.tril(same)
    positions = together.sum(axis=-1) - 1
    return together & real[:, None, :], positions


def packed_causal_mask__wrong_sixth_without_the_diagonal(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Leaves out the diagonal, whose sums are then the positions without a - 1: no token sees itself."""
    same = document_ids[:, :, None] == document_ids[:, None, :]
    mask = np.tril(same, k=-1)
    positions = np.count_nonzero(mask, axis=2)
    return mask, positions


def packed_causal_mask__wrong_sixth_ids_by_size(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Hides only documents of larger id (“later ones”) with >=: earlier texts of smaller id are seen."""
    n = document_ids.shape[1]
    query, key = document_ids[:, :, None], document_ids[:, None, :]
    past = np.tri(n, dtype=bool)
    mask = past & (query >= key)
    positions = (past & (query == key)).sum(axis=2) - 1
    return mask, positions


def packed_causal_mask__wrong_sixth_whole_document_visible(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The mask asks only for the same document; the causal half is used for the positions and then forgotten."""
    mask = np.stack([np.equal.outer(row, row) for row in document_ids])
    before = np.cumsum(mask, axis=2)
    at = np.arange(document_ids.shape[1])
    positions = before[:, at, at] - 1
    return mask, positions


def packed_causal_mask__right_sixth_stable_sort(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Sorts each row stably, counts from the start of each group of equal ids, and carries the counts back."""
    B, n = document_ids.shape
    order = np.argsort(document_ids, axis=1, kind="stable")
    in_order = np.take_along_axis(document_ids, order, axis=1)
    starts = np.ones((B, n), dtype=bool)
    starts[:, 1:] = in_order[:, 1:] != in_order[:, :-1]
    place = np.broadcast_to(np.arange(n), (B, n))
    start = np.maximum.accumulate(np.where(starts, place, 0), axis=1)
    positions = np.empty((B, n), dtype=np.int64)
    np.put_along_axis(positions, order, place - start, axis=1)
    same = document_ids[:, :, None] == document_ids[:, None, :]
    return np.tril(same), positions


def packed_causal_mask__right_sixth_document_by_document(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Loops over rows and documents; the tokens of one document get a small triangle and the numbers 0, 1, …"""
    B, n = document_ids.shape
    mask = np.zeros((B, n, n), dtype=bool)
    positions = np.zeros((B, n), dtype=int)
    for b, row in enumerate(document_ids):
        for name in np.unique(row):
            at = np.flatnonzero(row == name)
            mask[b][np.ix_(at, at)] = np.tri(at.size, dtype=bool)
            positions[b, at] = np.arange(at.size)
    return mask, positions
