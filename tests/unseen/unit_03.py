import math

import numpy as np


# ---------------------------------------------------------------- helpers


def _softmax(z, axis=-1):
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _masked_softmax(scores, mask):
    """A right masked softmax, for the answers that build on it."""
    hidden = np.where(mask, scores, -np.inf)
    top = hidden.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    powers = np.exp(hidden - top)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


# ---------------------------------------------------------------- 3.1 causal_mask


def causal_mask__wrong_sixteenth_only_earlier_tokens(n: int) -> np.ndarray:
    """Only strictly earlier tokens may be seen: the diagonal is False."""
    position = np.arange(n)
    return position[None, :] < position[:, None]


def causal_mask__wrong_sixteenth_rows_are_keys(n: int) -> np.ndarray:
    """Takes rows for keys and columns for queries, so the triangle lies on the wrong side."""
    mask = np.zeros((n, n), dtype=bool)
    for key in range(n):
        for query in range(n):
            if key <= query:
                mask[key, query] = True
    return mask


def causal_mask__wrong_sixteenth_true_means_hidden(n: int) -> np.ndarray:
    """Marks what is hidden with True, as nn.MultiheadAttention does."""
    return np.triu(np.ones((n, n), dtype=bool), k=1)


def causal_mask__wrong_sixteenth_slice_one_too_far(n: int) -> np.ndarray:
    """The slice of each row ends one token too late: the next token is seen."""
    mask = np.full((n, n), False)
    for i in range(n):
        mask[i, : i + 2] = True
    return mask


def causal_mask__wrong_sixteenth_loop_starts_at_one(n: int) -> np.ndarray:
    """The loop over the rows starts at 1, so row 0 stays empty."""
    mask = np.zeros((n, n), dtype=bool)
    for i in range(1, n):
        mask[i, : i + 1] = True
    return mask


def causal_mask__wrong_sixteenth_additive_floats(n: int) -> np.ndarray:
    """Returns the additive mask of 0 and -inf in place of booleans."""
    allowed = np.tril(np.ones((n, n)))
    return np.where(allowed == 1, 0.0, -np.inf)


def causal_mask__wrong_sixteenth_single_token_squeezed(n: int) -> np.ndarray:
    """A squeeze loses both axes when there is a single token."""
    query = np.arange(n).reshape(n, 1)
    key = np.arange(n).reshape(1, n)
    return np.squeeze(key <= query)


_TABLE = np.zeros((1024, 1024), dtype=bool)


def causal_mask__wrong_sixteenth_shared_table(n: int) -> np.ndarray:
    """Every call returns a view of one table and clears it: earlier results change."""
    _TABLE[:] = False
    for i in range(n):
        _TABLE[i, : i + 1] = True
    return _TABLE[:n, :n]


def causal_mask__right_sixteenth_running_sum_of_eye(n: int) -> np.ndarray:
    """Unusual: a running sum down the identity; a key stays open once it has been."""
    return np.cumsum(np.eye(n, dtype=int), axis=0) > 0


# ---------------------------------------------------------------- 3.2 padding_mask


def padding_mask__wrong_sixteenth_length_as_last_index(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Takes the length for the index of the last real token: one key too many."""
    return np.arange(m)[None, :] <= lengths[:, None]


def padding_mask__wrong_sixteenth_pads_in_front(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Thinks that the filler stands in front and the real tokens last."""
    first_real = m - lengths
    return np.arange(m) >= first_real[:, np.newaxis]


def padding_mask__wrong_sixteenth_marks_the_filler(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """True stands at the pads: marks what is filler."""
    mask = np.zeros((len(lengths), m), dtype=bool)
    for b, length in enumerate(lengths):
        mask[b, length:] = True
    return mask


def padding_mask__wrong_sixteenth_counts_keys_from_one(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Numbers the keys 1 … m but keeps the strict comparison: one key too few."""
    keys = np.arange(1, m + 1)
    return keys < lengths.reshape(-1, 1)


def padding_mask__wrong_sixteenth_first_length_for_all(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Wrong index in the loop: every row gets the length of sequence 0."""
    rows = []
    for b in range(len(lengths)):
        rows.append([j < lengths[0] for j in range(m)])
    return np.array(rows, dtype=bool)


def padding_mask__wrong_sixteenth_as_wide_as_longest(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """The mask is as wide as the longest sequence; m is not looked at."""
    longest = int(lengths.max())
    return np.arange(longest) < lengths[:, None]


def padding_mask__wrong_sixteenth_full_row_cleared(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Clears the last m - length keys; for a full sequence [-0:] clears them all."""
    mask = np.ones((len(lengths), m), dtype=bool)
    for b, length in enumerate(lengths):
        pads = m - int(length)
        mask[b, -pads:] = False
    return mask


def padding_mask__wrong_sixteenth_counts_lengths_down(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Right values, but the caller's lengths are counted down on the way."""
    mask = np.zeros((len(lengths), m), dtype=bool)
    for j in range(m):
        mask[:, j] = lengths > 0
        lengths -= 1
    return mask


def padding_mask__right_sixteenth_repeat_runs(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Unusual: writes the runs of True and False of the whole batch with np.repeat."""
    real = np.asarray(lengths).astype(int)
    runs = np.stack([real, m - real], axis=1).ravel()
    values = np.tile([True, False], len(real))
    return np.repeat(values, runs).reshape(len(real), m)


# ---------------------------------------------------------------- 3.3 masked_softmax


def masked_softmax__wrong_sixteenth_hidden_score_zero(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Sets hidden scores to 0, which is a score like any other; empty rows are zeroed."""
    kept = scores * mask
    powers = np.exp(kept - kept.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    some = np.any(mask & np.ones(scores.shape, bool), axis=-1, keepdims=True)
    return np.where(some, weights, 0.0)


def masked_softmax__wrong_sixteenth_mask_after_softmax(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Takes the softmax of all keys and then deletes the hidden weights."""
    shifted = scores - np.max(scores, axis=-1, keepdims=True)
    e = np.exp(shifted)
    return np.where(mask, e / e.sum(axis=-1, keepdims=True), 0.0)


def masked_softmax__wrong_sixteenth_hidden_share_split_evenly(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """What the hidden keys had is split evenly among the allowed, not in proportion."""
    allowed = np.broadcast_to(mask, scores.shape)
    weights = _softmax(scores)
    lost = (weights * ~allowed).sum(axis=-1, keepdims=True)
    count = allowed.sum(axis=-1, keepdims=True)
    return np.where(allowed, weights + lost / np.maximum(count, 1), 0.0)


def masked_softmax__wrong_sixteenth_axis_one(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Sums along axis 1 instead of the last: right for a table, wrong for a batch."""
    hidden = np.where(mask, scores, -np.inf)
    top = hidden.max(axis=1, keepdims=True)
    top[np.isinf(top)] = 0
    powers = np.exp(hidden - top)
    total = powers.sum(axis=1, keepdims=True)
    return powers / np.where(total > 0, total, 1)


def masked_softmax__wrong_sixteenth_largest_at_least_zero(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """initial=0 makes the largest score at least 0: very negative rows vanish."""
    allowed = np.broadcast_to(mask, scores.shape)
    top = scores.max(axis=-1, keepdims=True, where=allowed, initial=0.0)
    powers = np.exp(np.where(allowed, scores - top, -np.inf))
    total = powers.sum(axis=-1, keepdims=True)
    return np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)


def masked_softmax__wrong_sixteenth_empty_row_uniform(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """A row with nothing allowed comes out uniform, not zero (all its scores are -1e9)."""
    filled = np.where(mask, scores, -1e9)
    filled = filled - filled.max(axis=-1, keepdims=True)
    powers = np.exp(filled)
    return powers / powers.sum(axis=-1, keepdims=True)


def masked_softmax__wrong_sixteenth_subtracts_hidden_maximum(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """The largest score subtracted may be a hidden one: a huge one empties the row."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    powers = np.where(mask, powers, 0.0)
    total = powers.sum(axis=-1, keepdims=True)
    total = np.where(total == 0, 1.0, total)
    return powers / total


def masked_softmax__wrong_sixteenth_warns_on_empty_rows(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Right values, but NumPy warns at rows with nothing allowed; NaN is swept up later."""
    z = np.where(mask, scores, -np.inf)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return np.nan_to_num(weights, nan=0.0)


def masked_softmax__right_sixteenth_row_by_row_log_sum(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Unusual: row by row, on the allowed scores alone, with the logarithm of the sum."""
    allowed = np.broadcast_to(mask, scores.shape)
    weights = np.zeros_like(scores)
    for at in np.ndindex(scores.shape[:-1]):
        here = np.flatnonzero(allowed[at])
        if here.size:
            z = scores[at][here]
            z = z - z.max()
            weights[(*at, here)] = np.exp(z - np.log(np.exp(z).sum()))
    return weights


# ---------------------------------------------------------------- 3.4 masked_attention


def masked_attention__wrong_sixteenth_scaled_by_number_of_keys(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides by the root of the number of keys m, in place of the width d_k."""
    m = K.shape[-2]
    S = np.einsum("...id,...jd->...ij", Q, K) / np.sqrt(m)
    A = _masked_softmax(S, mask)
    return A @ V, A


def masked_attention__wrong_sixteenth_each_key_shares_itself(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The softmax runs over the queries: every column sums to 1, not every row."""
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    seen = np.broadcast_to(mask, scores.shape)
    turned = _masked_softmax(scores.swapaxes(-1, -2), seen.swapaxes(-1, -2))
    weights = turned.swapaxes(-1, -2)
    return weights @ V, weights


def masked_attention__wrong_sixteenth_true_is_hidden(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reads the mask the other way round: True is taken for hidden."""
    d_k = Q.shape[-1]
    scores = Q @ np.swapaxes(K, -2, -1) / math.sqrt(d_k)
    weights = _masked_softmax(scores, np.logical_not(mask))
    return weights @ V, weights


def masked_attention__wrong_sixteenth_width_from_axis_one(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes d_k from axis 1 of K, which in a batch is the number of keys."""
    d_k = K.shape[1]
    scores = Q @ np.swapaxes(K, -1, -2)
    scores = scores / d_k**0.5
    weights = _masked_softmax(scores, mask)
    output = weights @ V
    return output, weights


def masked_attention__wrong_sixteenth_scaled_twice(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Both the queries and the scores are divided by the root: in all by d_k."""
    root = np.sqrt(Q.shape[-1])
    queries = Q / root
    scores = np.matmul(queries, np.moveaxis(K, -1, -2)) / root
    weights = _masked_softmax(scores, mask)
    return np.matmul(weights, V), weights


def masked_attention__wrong_sixteenth_returns_unmasked_weights(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The output is right, but the weights returned are those without the mask."""
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    weights = _softmax(scores)
    output = _masked_softmax(scores, mask) @ V
    return output, weights


def masked_attention__wrong_sixteenth_table_taken_for_padding(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """With B = n, an (n, m) mask is taken for a (B, m) padding mask and gets a new axis."""
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    if Q.ndim == 3 and mask.ndim == 2 and len(mask) == len(Q):
        mask = mask[:, None, :]
    weights = _masked_softmax(scores, mask)
    return weights @ V, weights


def masked_attention__wrong_sixteenth_scales_q_in_place(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Right values, but /= divides the caller's Q."""
    Q /= np.sqrt(Q.shape[-1])
    weights = _masked_softmax(Q @ np.swapaxes(K, -1, -2), mask)
    return weights @ V, weights


def masked_attention__right_sixteenth_only_the_allowed_keys(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Unusual: one query at a time; cuts out the keys and values that it may see."""
    n, m = Q.shape[-2], K.shape[-2]
    seen = np.broadcast_to(mask, (*Q.shape[:-1], m))
    weights = np.zeros((*Q.shape[:-1], m), dtype=Q.dtype)
    output = np.zeros((*Q.shape[:-1], V.shape[-1]), dtype=V.dtype)
    for at in np.ndindex(Q.shape[:-2]):
        for i in range(n):
            keys = np.flatnonzero(seen[at][i])
            if len(keys) == 0:
                continue
            s = K[at][keys] @ Q[at][i] / math.sqrt(Q.shape[-1])
            w = np.exp(s - s.max())
            w = w / w.sum()
            weights[(*at, i, keys)] = w
            output[(*at, i)] = w @ V[at][keys]
    return output, weights


# ---------------------------------------------------------------- 3.5 next_token_pairs


def next_token_pairs__wrong_sixteenth_guesses_the_token_before(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets have changed roles: the target is the token before."""
    without_first = tokens[:, 1:]
    without_last = tokens[:, :-1]
    return without_first, without_last


def next_token_pairs__wrong_sixteenth_pairs_do_not_overlap(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Cuts each row into separate pairs (0, 1), (2, 3), …: half of the questions are lost."""
    n = tokens.shape[1] // 2 * 2
    pairs = tokens[:, :n].reshape(len(tokens), -1, 2)
    return pairs[:, :, 0], pairs[:, :, 1]


def next_token_pairs__wrong_sixteenth_last_predicts_first(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Rolls the row round: the last token gets the first as its target, n columns."""
    return tokens.copy(), np.roll(tokens, -1, axis=1)


def next_token_pairs__wrong_sixteenth_cuts_the_batch(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The slices cut the axis of the batch, not that of the tokens."""
    inputs, targets = tokens[:-1], tokens[1:]
    return inputs, targets


def next_token_pairs__wrong_sixteenth_loop_ends_too_early(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The loop ends one column too early: the last pair of each row stays 0, 0."""
    B, n = tokens.shape
    inputs = np.zeros((B, n - 1), dtype=tokens.dtype)
    targets = np.zeros((B, n - 1), dtype=tokens.dtype)
    for i in range(n - 2):
        inputs[:, i] = tokens[:, i]
        targets[:, i] = tokens[:, i + 1]
    return inputs, targets


def next_token_pairs__wrong_sixteenth_drops_targets_that_are_zero(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes id 0 for a pad and marks such targets with -100 already here."""
    inputs = tokens[:, :-1]
    targets = tokens[:, 1:]
    targets = np.where(targets == 0, -100, targets)
    return inputs, targets


def next_token_pairs__wrong_sixteenth_ids_in_sixteen_bits(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Saves memory with int16: ids above 32767, usual in large vocabularies, wrap round."""
    small = tokens.astype(np.int16)
    return small[:, :-1], small[:, 1:]


def next_token_pairs__wrong_sixteenth_shifts_in_place(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Right values, but the caller's tokens are shifted in place."""
    n = tokens.shape[1]
    inputs = tokens[:, : n - 1].copy()
    for i in range(n - 1):
        tokens[:, i] = tokens[:, i + 1]
    return inputs, tokens[:, : n - 1]


def next_token_pairs__right_sixteenth_sliding_windows(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Unusual: windows of two tokens along each row, taken apart."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    inputs, targets = np.moveaxis(windows, -1, 0)
    return inputs, targets


# ---------------------------------------------------------------- 3.6 leaks_future


def _moves(before, after):
    """Which rows moved by more than rounding, each measured by its own size."""
    size = np.maximum(np.abs(before), np.abs(after)).max(axis=1)
    return np.abs(after - before).max(axis=1) > 2e-5 * size


def leaks_future__wrong_sixteenth_changes_values_only(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Changes the later values only: a leak through the keys alone is not seen."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)
    for t in range(1, len(Q)):
        other = V.copy()
        other[t:] = rng.standard_normal(V[t:].shape)
        if _moves(base[:t], attend(Q, K, other)[:t]).any():
            return True
    return False


def leaks_future__wrong_sixteenth_own_position_counts(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Counts it as a leak if a position depends on its own key and value."""
    rng = np.random.default_rng(3)
    base, n = attend(Q, K, V), len(K)
    leak = False
    for j in range(1, n):
        K2, V2 = K.copy(), V.copy()
        K2[j:] += rng.normal(size=K2[j:].shape)
        V2[j:] += rng.normal(size=V2[j:].shape)
        moved = _moves(base, attend(Q, K2, V2))
        leak = leak or bool(moved[: j + 1].any())
    return leak


def leaks_future__wrong_sixteenth_later_queries_count(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Changes the later queries as well, although only keys and values are judged."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)
    for t in range(1, len(Q)):
        later = []
        for array in (Q, K, V):
            other = array.copy()
            other[t:] = rng.standard_normal(array[t:].shape)
            later.append(other)
        if _moves(base[:t], attend(*later)[:t]).any():
            return True
    return False


def leaks_future__wrong_sixteenth_last_split_missing(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """The loop ends one split too early: the last but one row is never watched."""
    n = Q.shape[0]
    rng = np.random.default_rng(1)
    new_K, new_V = rng.standard_normal(K.shape), rng.standard_normal(V.shape)
    plain = attend(Q, K, V)
    for t in range(1, n - 1):
        later = (np.arange(n) >= t)[:, None]
        out = attend(Q, np.where(later, new_K, K), np.where(later, new_V, V))
        if _moves(plain[:t], out[:t]).any():
            return True
    return False


def leaks_future__wrong_sixteenth_sign_forgotten(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """No absolute value: rows that only become smaller go unnoticed."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)
    for t in range(1, len(Q)):
        K2, V2 = K.copy(), V.copy()
        K2[t:] = rng.standard_normal(K[t:].shape)
        V2[t:] = rng.standard_normal(V[t:].shape)
        out = attend(Q, K2, V2)
        size = np.maximum(np.abs(base), np.abs(out)).max(axis=1)[:t]
        if ((out - base)[:t].max(axis=1) > 1e-5 * size).any():
            return True
    return False


def leaks_future__wrong_sixteenth_one_size_for_all_rows(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Measures each row by the largest entry of all outputs: small rows may leak."""
    rng = np.random.default_rng(0)
    n = len(Q)
    base = attend(Q, K, V)
    size = np.abs(base).max()
    for t in range(1, n):
        K2, V2 = K.copy(), V.copy()
        K2[t:] += rng.standard_normal((n - t, K.shape[1]))
        V2[t:] += rng.standard_normal((n - t, V.shape[1]))
        gap = np.abs(attend(Q, K2, V2) - base)[:t].max()
        if gap > 1e-5 * size:
            return True
    return False


def leaks_future__wrong_sixteenth_doubles_what_is_there(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Multiplies the later rows: where they are 0, nothing changes and no leak shows."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)
    for t in range(1, len(Q)):
        factor = np.ones((len(Q), 1))
        factor[t:] = rng.uniform(-3, -2, size=(len(Q) - t, 1))
        out = attend(Q, K * factor, V * factor)
        if _moves(base[:t], out[:t]).any():
            return True
    return False


def leaks_future__wrong_sixteenth_draws_without_seed(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Draws with np.random.randn: no seed of its own, other experiments in each run."""
    base = attend(Q, K, V)
    for t in range(1, len(Q)):
        K2, V2 = K.copy(), V.copy()
        K2[t:] = np.random.randn(*K[t:].shape)
        V2[t:] = np.random.randn(*V[t:].shape)
        if _moves(base[:t], attend(Q, K2, V2)[:t]).any():
            return True
    return False


def leaks_future__right_sixteenth_walks_back_and_compares_all(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Unusual: changes one more token from the end each time; compares every two runs."""
    rng = np.random.default_rng(16)
    n, K, V = len(Q), K.copy(), V.copy()
    runs = [np.array(attend(Q, K.copy(), V.copy()))]
    for t in range(n - 1, 0, -1):
        K[t] = rng.standard_normal(K.shape[1])
        V[t] = rng.standard_normal(V.shape[1])
        runs.append(np.array(attend(Q, K.copy(), V.copy())))
    # A row that cancels out is measured by what it is in the other runs.
    usual = np.abs(runs).max(axis=(0, 2))
    for later in range(1, n):
        rows = slice(0, n - later)  # neither run has changed these tokens
        for run in runs[:later]:
            gap = np.abs(runs[later][rows] - run[rows]).max(axis=1)
            real = gap > 1e-11 * usual[rows]
            if (_moves(run[rows], runs[later][rows]) & real).any():
                return True
    return False


# ---------------------------------------------------------------- 3.7 packed_causal_mask


def packed_causal_mask__wrong_sixteenth_earlier_documents_too(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compares ids by size: a token also sees documents with a smaller id."""
    n = document_ids.shape[1]
    same = document_ids[:, :, None] == document_ids[:, None, :]
    not_newer = document_ids[:, :, None] >= document_ids[:, None, :]
    past = np.tri(n, dtype=bool)
    return not_newer & past, (same & past).sum(axis=-1) - 1


def packed_causal_mask__wrong_sixteenth_interruption_ends_document(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Every run of equal ids is a document: after an interruption a new one begins."""
    B, n = document_ids.shape
    new = np.zeros((B, n), dtype=int)
    new[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    run = new.cumsum(axis=1)
    mask = (run[:, :, None] == run[:, None, :]) & np.tri(n, dtype=bool)
    return mask, mask.sum(axis=2) - 1


def packed_causal_mask__wrong_sixteenth_distance_from_first(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The position is the distance from the document's first token: interruptions count."""
    n = document_ids.shape[1]
    place = np.arange(n)
    same = document_ids[..., None] == document_ids[..., None, :]
    mask = same & (place <= place[:, None])
    first = mask.argmax(axis=-1)
    return mask, place - first


def packed_causal_mask__wrong_sixteenth_counts_from_one(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Forgets that the token counts itself in its row of the mask: positions begin at 1."""
    B, n = document_ids.shape
    mask = np.equal(document_ids.reshape(B, n, 1), document_ids.reshape(B, 1, n))
    mask = mask & np.tril(np.ones((n, n), dtype=bool))
    positions = mask.sum(axis=-1)
    return mask, positions


def packed_causal_mask__wrong_sixteenth_sums_the_columns(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Sums the mask along the wrong axis: counts the tokens that still follow."""
    n = document_ids.shape[1]
    mask = np.tri(n, dtype=bool) & (
        document_ids[:, :, None] == document_ids[:, None, :]
    )
    positions = mask.sum(axis=1) - 1
    return mask, positions


def packed_causal_mask__wrong_sixteenth_goes_on_in_next_row(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """An id in two rows is taken for one document: its positions go on in the next row."""
    B, n = document_ids.shape
    mask = (document_ids[:, :, None] == document_ids[:, None, :]) & np.tri(
        n, dtype=bool
    )
    flat = document_ids.ravel()
    before = (flat[:, None] == flat) & np.tri(B * n, k=-1, dtype=bool)
    positions = before.sum(axis=1).reshape(B, n)
    return mask, positions


def packed_causal_mask__wrong_sixteenth_ids_in_32_bits(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Casts the ids to int32: ids that differ by a multiple of 2**32 become equal."""
    ids = document_ids.astype(np.int32)
    n = ids.shape[1]
    order = np.arange(n)
    mask = (ids[:, :, None] == ids[:, None, :]) & (order[None, :] <= order[:, None])
    return mask, np.count_nonzero(mask, axis=2) - 1


def packed_causal_mask__wrong_sixteenth_counts_in_a_loop(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Right values, but the positions are counted in a Python loop over tokens."""
    B, n = document_ids.shape
    mask = document_ids[:, :, None] == document_ids[:, None, :]
    mask &= np.tri(n, dtype=bool)
    positions = np.zeros((B, n), dtype=int)
    for b in range(B):
        seen = {}
        for i, name in enumerate(document_ids[b].tolist()):
            positions[b, i] = seen.get(name, 0)
            seen[name] = positions[b, i] + 1
    return mask, positions


def packed_causal_mask__right_sixteenth_stable_sort(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Unusual: a stable sort brings each document together; its places there are counted."""
    B, n = document_ids.shape
    order = np.argsort(document_ids, axis=1, kind="stable")
    ids = np.take_along_axis(document_ids, order, axis=1)
    new = np.ones((B, n), dtype=bool)
    new[:, 1:] = ids[:, 1:] != ids[:, :-1]
    start = np.maximum.accumulate(np.where(new, np.arange(n), 0), axis=1)
    positions = np.empty((B, n), dtype=int)
    np.put_along_axis(positions, order, np.arange(n) - start, axis=1)
    differ = np.bitwise_xor(document_ids[:, :, None], document_ids[:, None, :])
    differ[:, ~np.tri(n, dtype=bool)] = 1
    return differ == 0, positions
