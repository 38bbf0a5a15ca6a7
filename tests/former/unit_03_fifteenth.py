import numpy as np


def _softmax(z, axis=-1):
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _masked_softmax(scores, mask):
    hidden = np.where(mask, scores, -np.inf)
    top = hidden.max(axis=-1, keepdims=True)
    powers = np.exp(hidden - np.where(np.isfinite(top), top, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total > 0, total, 1.0)


_work = {"flat": np.empty(0, dtype=bool)}


# ---------------------------------------------------------------- 3.1 causal_mask


def causal_mask__wrong_fifteenth_may_see_what_it_predicts(n: int) -> np.ndarray:
    """Query i sees keys up to i + 1, the token it works on; due is j <= i."""
    return np.tri(n, k=1, dtype=bool)


def causal_mask__wrong_fifteenth_counts_from_the_end(n: int) -> np.ndarray:
    """Row i sees the first n - i keys; due is the first i + 1 keys."""
    i, j = np.indices((n, n))
    return i + j < n


def causal_mask__wrong_fifteenth_true_hides_the_future(n: int) -> np.ndarray:
    """True where the future is to be masked out; due is True where one may attend."""
    return np.triu(np.ones((n, n), dtype=bool), k=1)


def causal_mask__wrong_fifteenth_last_row_left_empty(n: int) -> np.ndarray:
    """The loop ends one row early, so the last token sees nothing; due are n filled rows."""
    mask = np.zeros((n, n), dtype=bool)
    for i in range(n - 1):
        mask[i, : i + 1] = True
    return mask


def causal_mask__wrong_fifteenth_tril_indices_unpacked_swapped(n: int) -> np.ndarray:
    """Rows and columns of the lower triangle change names, giving the upper one; due is the lower."""
    keys, queries = np.tril_indices(n)
    mask = np.full((n, n), False)
    mask[queries, keys] = True
    return mask


def causal_mask__wrong_fifteenth_with_axes_for_batch_and_heads(n: int) -> np.ndarray:
    """Returns (1, 1, n, n), ready to broadcast over batch and heads; due is (n, n)."""
    steps = np.arange(n)
    return (steps[None, :] <= steps[:, None])[None, None]


def causal_mask__wrong_fifteenth_positions_in_one_byte(n: int) -> np.ndarray:
    """Positions are kept in 8 bits, which wrap around beyond 256 tokens; due is any n."""
    place = np.arange(n).astype(np.uint8)
    return np.greater_equal.outer(place, place)


def causal_mask__wrong_fifteenth_view_of_a_reused_buffer(n: int) -> np.ndarray:
    """Right values in memory that the next call overwrites; due is a result that stays as it is."""
    if _work["flat"].size < n * n:
        _work["flat"] = np.empty(n * n, dtype=bool)
    mask = _work["flat"][: n * n].reshape(n, n)
    mask[...] = np.arange(n) <= np.arange(n)[:, None]
    return mask


def causal_mask__right_fifteenth_identity_accumulated_downwards(n: int) -> np.ndarray:
    """Once a key has been met on the diagonal, all later queries see it: an accumulated or of the identity."""
    return np.logical_or.accumulate(np.eye(n, dtype=bool), axis=0)


# ---------------------------------------------------------------- 3.2 padding_mask


def padding_mask__wrong_fifteenth_real_tokens_at_the_right(lengths: np.ndarray, m: int) -> np.ndarray:
    """The last `length` keys are taken as real; due are the first ones."""
    return np.arange(m) >= m - lengths[:, None]


def padding_mask__wrong_fifteenth_lengths_count_the_pads(lengths: np.ndarray, m: int) -> np.ndarray:
    """Takes `lengths` as the number of pads behind; due is the number of real tokens."""
    mask = np.ones((len(lengths), m), dtype=bool)
    for row, pads in zip(mask, lengths):
        row[m - pads :] = False
    return mask


def padding_mask__wrong_fifteenth_only_the_last_real_token(lengths: np.ndarray, m: int) -> np.ndarray:
    """Marks the one key at length - 1 as readable; due are all keys before the length."""
    return np.arange(m)[None, :] == np.asarray(lengths)[:, None] - 1


def padding_mask__wrong_fifteenth_reshape_for_a_transpose(lengths: np.ndarray, m: int) -> np.ndarray:
    """The (m, B) comparison is reshaped to (B, m), which scrambles it; due is its transpose."""
    table = np.arange(m)[:, None] < lengths
    return table.reshape(len(lengths), m)


def padding_mask__wrong_fifteenth_slice_ends_one_early(lengths: np.ndarray, m: int) -> np.ndarray:
    """Each row is filled up to length - 1, exclusive; due is up to length."""
    mask = np.zeros((lengths.shape[0], m), dtype=bool)
    for b, length in enumerate(lengths):
        mask[b, : int(length) - 1] = True
    return mask


def padding_mask__wrong_fifteenth_with_an_axis_for_queries(lengths: np.ndarray, m: int) -> np.ndarray:
    """Returns (B, 1, m), which fits the scores at once; due is (B, m)."""
    real = np.less.outer(np.arange(m), lengths).T
    return real[:, None, :]


def padding_mask__wrong_fifteenth_no_pads_hides_all(lengths: np.ndarray, m: int) -> np.ndarray:
    """Hides the last m - length keys by a negative slice, which is everything where no pad is; due is nothing there."""
    mask = np.full((len(lengths), m), True)
    for b in range(len(lengths)):
        n_pads = m - int(lengths[b])
        mask[b, -n_pads:] = False
    return mask


def padding_mask__wrong_fifteenth_lowers_the_callers_lengths(lengths: np.ndarray, m: int) -> np.ndarray:
    """Turns lengths into last positions in place, through a view; due is an untouched input."""
    last = lengths.reshape(-1, 1)
    last -= 1
    return np.arange(m) <= last


def padding_mask__right_fifteenth_stop_mark_and_running_sum(lengths: np.ndarray, m: int) -> np.ndarray:
    """Puts a stop at place `length` of a row with one place more; real is what no stop precedes."""
    stops = np.zeros((len(lengths), m + 1), dtype=int)
    np.put_along_axis(stops, np.asarray(lengths)[:, None], 1, axis=1)
    return stops.cumsum(axis=1)[:, :m] == 0


# ---------------------------------------------------------------- 3.3 masked_softmax


def masked_softmax__wrong_fifteenth_log_of_mask_plus_epsilon(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Adds log(mask + 1e-9), so hidden keys keep a trace; due is that they take no part at all."""
    biased = scores + np.log(mask.astype(float) + 1e-9)
    powers = np.exp(biased - biased.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return weights * mask.any(axis=-1, keepdims=True)


def masked_softmax__wrong_fifteenth_hidden_share_spread_evenly(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Softmax over all, then the hidden weight is shared out evenly; due is a softmax among the allowed."""
    mask = np.broadcast_to(mask, scores.shape)
    kept = np.where(mask, _softmax(scores), 0.0)
    count = mask.sum(axis=-1, keepdims=True)
    lost = 1 - kept.sum(axis=-1, keepdims=True)
    return np.where(mask, kept + lost / np.maximum(count, 1), 0.0)


def masked_softmax__wrong_fifteenth_hidden_gets_the_lowest_allowed_score(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Hidden keys get the lowest allowed score in the sum and are zeroed after; due is that they leave the sum."""
    lowest = np.where(mask, scores, np.inf).min(axis=-1, keepdims=True)
    lowest = np.where(np.isfinite(lowest), lowest, 0.0)
    weights = _softmax(np.where(mask, scores, lowest))
    return np.where(mask, weights, 0.0)


def masked_softmax__wrong_fifteenth_asks_whether_anything_anywhere_is_allowed(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """The check for nothing allowed lacks an axis, so one empty row among others is NaN; due is a check per row."""
    if not mask.any():
        return np.zeros_like(scores)
    hidden = np.where(mask, scores, -np.inf)
    powers = np.exp(hidden - hidden.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def masked_softmax__wrong_fifteenth_largest_of_the_whole_array(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Subtracts the largest allowed score of all rows, so that low rows vanish; due is each row's own."""
    hidden = np.where(mask, scores, -np.inf)
    top = hidden.max()
    powers = np.exp(hidden - (top if np.isfinite(top) else 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    return np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)


def masked_softmax__wrong_fifteenth_empty_rows_become_uniform(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """A row with nothing allowed gets 1/m each, so that all rows sum to 1; due are zeros."""
    empty = ~np.broadcast_to(mask, scores.shape).any(axis=-1, keepdims=True)
    opened = np.where(empty, 0.0, np.where(mask, scores, -np.inf))
    return _softmax(opened)


def masked_softmax__wrong_fifteenth_largest_never_below_zero(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The largest is taken with zeros for hidden keys, so very low scores vanish; due is the largest allowed."""
    top = np.where(mask, scores, 0.0).max(axis=-1, keepdims=True)
    powers = np.where(mask, np.exp(np.minimum(scores - top, 0.0)), 0.0)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_fifteenth_warns_and_repairs_nan(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Right values, but an empty row passes through inf - inf and is repaired after; due is no warning."""
    weights = _softmax(np.where(mask, scores, -np.inf))
    return np.nan_to_num(weights, nan=0.0)


def masked_softmax__right_fifteenth_log_sum_exp_by_logaddexp(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """exp(score - logsumexp), the latter by reducing with logaddexp in float64; an empty row has none to subtract."""
    logs = np.where(mask, scores.astype(np.float64), -np.inf)
    total = np.logaddexp.reduce(logs, axis=-1, keepdims=True)
    return np.exp(logs - np.where(total == -np.inf, 0.0, total))


# ---------------------------------------------------------------- 3.4 masked_attention


def masked_attention__wrong_fifteenth_adds_a_causal_mask_of_its_own(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Joins the given mask with a causal one; due is the given mask alone."""
    n, m = Q.shape[-2], K.shape[-2]
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    weights = _masked_softmax(scores, mask & np.tri(n, m, dtype=bool))
    return weights @ V, weights


def masked_attention__wrong_fifteenth_weights_sum_to_one_per_key(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Each key shares itself out among the queries; due is that each query shares out among the keys."""
    scores = np.einsum("...nd,...md->...nm", Q, K) / Q.shape[-1] ** 0.5
    full = np.broadcast_to(mask, scores.shape)
    weights = _masked_softmax(scores.swapaxes(-1, -2), full.swapaxes(-1, -2)).swapaxes(-1, -2)
    return weights @ V, weights


def masked_attention__wrong_fifteenth_hides_the_values_alone(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Softmax over all keys, and only what the hidden values would add is left out; due is hiding the scores."""
    scores = Q @ K.swapaxes(-2, -1) / np.sqrt(Q.shape[-1])
    weights = _softmax(scores) * mask
    return np.einsum("...nm,...md->...nd", weights, V), weights


def masked_attention__wrong_fifteenth_root_lost_to_precedence(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Writes d_k ** 1 / 2, which divides the scores by d_k and by 2; due is the square root."""
    d_k = K.shape[-1]
    scores = Q @ np.swapaxes(K, -2, -1) / d_k**1 / 2
    weights = _masked_softmax(scores, mask)
    return weights @ V, weights


def masked_attention__wrong_fifteenth_width_read_from_axis_one(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """d_k is taken from axis 1, which is n in a batch; due is the last axis."""
    scale = 1 / np.sqrt(Q.shape[1])
    scores = np.matmul(Q, np.swapaxes(K, -1, -2)) * scale
    weights = _masked_softmax(scores, mask)
    return np.matmul(weights, V), weights


def masked_attention__wrong_fifteenth_returns_the_hidden_scores(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The second result is the scores with the mask in them; due are the weights after the softmax."""
    scores = Q @ np.moveaxis(K, -1, -2) / np.sqrt(Q.shape[-1])
    output = _masked_softmax(scores, mask) @ V
    return output, np.where(mask, scores, -1e9)


def masked_attention__wrong_fifteenth_scores_clipped_at_fifty(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Scores are clipped to ±50 against overflow, so larger ones become equal; due is a shift by the largest."""
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    powers = np.where(mask, np.exp(np.clip(scores, -50, 50)), 0.0)
    total = powers.sum(axis=-1, keepdims=True)
    weights = powers / np.where(total > 0, total, 1.0)
    return weights @ V, weights


def masked_attention__wrong_fifteenth_scales_the_callers_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Right values, but the queries are divided in the caller's array; due are inputs that stay as they are."""
    Q /= np.sqrt(Q.shape[-1])
    weights = _masked_softmax(Q @ np.swapaxes(K, -1, -2), mask)
    return weights @ V, weights


def masked_attention__right_fifteenth_weights_from_pairs_of_keys(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A weight is 1 over the sum of exp(other score - own score), the sum over the allowed keys."""
    scores = np.einsum("...nd,...md->...nm", Q, K).astype(np.float64) / np.sqrt(K.shape[-1])
    mask = np.broadcast_to(mask, scores.shape)
    gaps = np.clip(scores[..., None, :] - scores[..., :, None], -600, 600)
    rivals = np.where(mask[..., None, :], np.exp(gaps), 0.0).sum(axis=-1)
    weights = np.where(mask, 1 / np.where(mask, rivals, 1.0), 0.0)
    return weights @ V, weights


# ---------------------------------------------------------------- 3.5 next_token_pairs


def next_token_pairs__wrong_fifteenth_disjoint_pairs(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tokens 0, 2, 4 … are inputs and 1, 3, 5 … their targets; due is each token with its next."""
    even = tokens.shape[1] // 2 * 2
    return tokens[:, 0:even:2], tokens[:, 1:even:2]


def next_token_pairs__wrong_fifteenth_every_input_predicts_the_last(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The target of every input is the last token of its row; due is the one right behind it."""
    inputs = tokens[:, :-1]
    targets = np.repeat(tokens[:, -1:], inputs.shape[1], axis=1)
    return inputs, targets


def next_token_pairs__wrong_fifteenth_looks_back_instead_of_ahead(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs are all but the first, targets what stood before each; due is what follows."""
    targets, inputs = tokens[:, :-1], tokens[:, 1:]
    return inputs, targets


def next_token_pairs__wrong_fifteenth_rolls_the_batch_axis(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rolls along the batch, so targets come from the next row; due is a shift along the tokens."""
    shifted = np.roll(tokens, -1, axis=0)
    return tokens[:, :-1], shifted[:, :-1]


def next_token_pairs__wrong_fifteenth_target_index_without_plus_one(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The loop copies token i as target i; due is token i + 1."""
    inputs = np.empty_like(tokens[:, 1:])
    targets = np.empty_like(inputs)
    for i in range(tokens.shape[1] - 1):
        inputs[:, i] = tokens[:, i]
        targets[:, i] = tokens[:, i]
    return inputs, targets


def next_token_pairs__wrong_fifteenth_full_width_with_ignore_index(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Keeps all n inputs and gives the last the target -100, to be ignored; due are n - 1 columns."""
    targets = np.full_like(tokens, -100, dtype=np.int64)
    targets[:, :-1] = tokens[:, 1:]
    return tokens, targets


def next_token_pairs__wrong_fifteenth_takes_id_zero_for_a_pad(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Targets of id 0 become -1 as if they were pads; due is the token itself, which here is a word like any."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    return inputs, np.where(targets == 0, -1, targets.astype(np.int64))


def next_token_pairs__wrong_fifteenth_shifts_in_the_callers_array(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Right values, but the tokens are moved up inside the caller's array; due is an untouched input."""
    inputs = tokens[:, :-1].copy()
    tokens[:, :-1] = tokens[:, 1:].copy()
    return inputs, tokens[:, :-1]


def next_token_pairs__right_fifteenth_windows_of_two(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slides a window of two tokens along each row: its first entries and its second ones."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    return windows[..., 0], windows[..., 1]


# ---------------------------------------------------------------- 3.6 leaks_future


def leaks_future__wrong_fifteenth_new_later_values_only(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Changes the later values and leaves the keys, so leaks through keys alone get by; due is both."""
    rng = np.random.default_rng(0)
    before = attend(Q, K, V)
    size = np.abs(before).max(axis=1)
    for t in range(1, len(Q)):
        other = V.copy()
        other[t:] += rng.standard_normal(V[t:].shape)
        moved = np.abs(attend(Q, K, other) - before).max(axis=1)
        if (moved[:t] > 1e-5 * size[:t]).any():
            return True
    return False


def leaks_future__wrong_fifteenth_watches_only_the_neighbour(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Changes one position at a time and watches the one right before it; due are all earlier ones."""
    rng = np.random.default_rng(1)
    base = attend(Q, K, V)
    for j in range(1, len(Q)):
        K_j, V_j = K.copy(), V.copy()
        K_j[j] = rng.standard_normal(K.shape[1])
        V_j[j] = rng.standard_normal(V.shape[1])
        row = attend(Q, K_j, V_j)[j - 1]
        if np.abs(row - base[j - 1]).max() > 1e-5 * np.abs(base[j - 1]).max():
            return True
    return False


def leaks_future__wrong_fifteenth_one_cut_in_the_middle(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Changes the second half and watches the first, one experiment; due is a cut before every position."""
    n = len(Q)
    if n == 1:
        return False
    half = n // 2
    rng = np.random.default_rng(0)
    later = (np.arange(n) >= half)[:, None]
    K_new = np.where(later, rng.normal(size=K.shape), K)
    V_new = np.where(later, rng.normal(size=V.shape), V)
    old, new = attend(Q, K, V)[:half], attend(Q, K_new, V_new)[:half]
    size = np.maximum(np.abs(old), np.abs(new)).max(axis=1)
    return bool((np.abs(new - old).max(axis=1) > 1e-5 * size).any())


def leaks_future__wrong_fifteenth_difference_without_abs(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Compares the signed difference with the tolerance, so what only sinks is not seen; due is its size."""
    rng = np.random.default_rng(3)
    out = attend(Q, K, V)
    scale = np.abs(out).max(axis=1, keepdims=True)
    for t in range(1, Q.shape[0]):
        K2, V2 = K.copy(), V.copy()
        K2[t:] += rng.standard_normal(K2[t:].shape)
        V2[t:] += rng.standard_normal(V2[t:].shape)
        change = attend(Q, K2, V2) - out
        if np.any(change[:t] > 1e-5 * scale[:t]):
            return True
    return False


def leaks_future__wrong_fifteenth_last_cut_left_out(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """The cuts end at n - 2, so a look from the last but one at the last gets by; due is the cut before n - 1 too."""
    n, rng = len(Q), np.random.default_rng(0)
    noise_K, noise_V = rng.uniform(1, 2, K.shape), rng.uniform(1, 2, V.shape)
    out = attend(Q, K, V)
    for t in range(1, n - 1):
        later = (np.arange(n) >= t)[:, None]
        new = attend(Q, K + later * noise_K, V - later * noise_V)
        size = np.maximum(np.abs(out), np.abs(new)).max(axis=1)
        if (np.abs(new - out).max(axis=1) > 1e-5 * size)[:t].any():
            return True
    return False


def leaks_future__wrong_fifteenth_counts_the_position_itself(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Watches the changed position as well and calls it a leak if it moves; due are the earlier ones alone."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)
    for t in range(1, len(Q)):
        K_t, V_t = K.copy(), V.copy()
        K_t[t:] += rng.standard_normal(K_t[t:].shape)
        V_t[t:] += rng.standard_normal(V_t[t:].shape)
        moved = np.abs(attend(Q, K_t, V_t) - base)[: t + 1].max(axis=1)
        if (moved > 1e-5 * np.abs(base[: t + 1]).max(axis=1)).any():
            return True
    return False


def leaks_future__wrong_fifteenth_one_size_for_all_rows(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Measures against the largest output of all, so a leak in a small row drowns; due is each row's own size."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)
    tolerance = 1e-5 * np.abs(base).max()
    for t in range(1, len(Q)):
        K_t = np.concatenate([K[:t], K[t:] + rng.standard_normal(K[t:].shape)])
        V_t = np.concatenate([V[:t], V[t:] + rng.standard_normal(V[t:].shape)])
        if np.abs(attend(Q, K_t, V_t)[:t] - base[:t]).max() > tolerance:
            return True
    return False


def leaks_future__wrong_fifteenth_adds_and_takes_away_in_place(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Right verdicts, but the caller's K and V are changed and come back only up to rounding; due are copies."""
    rng = np.random.default_rng(0)
    base = np.array(attend(Q, K, V))
    found = False
    for t in range(1, len(Q)):
        dK, dV = rng.standard_normal(K[t:].shape), rng.standard_normal(V[t:].shape)
        K[t:] += dK
        V[t:] += dV
        new = np.array(attend(Q, K, V))
        K[t:] -= dK
        V[t:] -= dV
        size = np.maximum(np.abs(base), np.abs(new)).max(axis=1)
        found |= bool((np.abs(new - base).max(axis=1) > 1e-5 * size)[:t].any())
    return found


def leaks_future__right_fifteenth_spread_over_all_futures(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """n runs, each with another future from place t on; a row must agree in all runs whose future begins behind it."""
    n, rng = len(Q), np.random.default_rng(15)

    def push(shape):
        return rng.uniform(0.7, 1.6, shape) * rng.choice([-1.0, 1.0], shape)

    runs = []
    for t in range(1, n + 1):
        K_t = np.concatenate([K[:t], K[t:] + push(K[t:].shape)])
        V_t = np.concatenate([V[:t], V[t:] + push(V[t:].shape)])
        runs.append(np.array(attend(Q, K_t, V_t), dtype=float))
    for i in range(n - 1):
        rows = np.stack([run[i] for run in runs[i:]])
        if np.ptp(rows, axis=0).max() > 3e-5 * np.abs(rows).max():
            return True
    return False


# ---------------------------------------------------------------- 3.7 packed_causal_mask


def packed_causal_mask__wrong_fifteenth_ids_taken_as_ascending(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes the ids of a row as ascending and searches for each document's start by size; due is equality alone."""
    B, n = document_ids.shape
    starts = np.stack([np.searchsorted(row, row) for row in document_ids])
    key = np.arange(n)
    mask = (key >= starts[:, :, None]) & (key <= key[:, None])
    return mask, key - starts


def packed_causal_mask__wrong_fifteenth_an_interruption_begins_anew(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Each unbroken run is a document of its own; due is that equal ids of a row are one document."""
    fresh = np.ones(document_ids.shape, dtype=bool)
    fresh[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    run = fresh.cumsum(axis=1)
    n = run.shape[1]
    mask = (run[:, :, None] == run[:, None, :]) & np.tri(n, dtype=bool)
    return mask, mask.sum(axis=2) - 1


def packed_causal_mask__wrong_fifteenth_counts_on_in_the_next_row(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """A document that occurs in two rows goes on counting in the second; due is that each row stands for itself."""
    n = document_ids.shape[1]
    same = document_ids[:, :, None] == document_ids[:, None, :]
    mask = same & np.tri(n, dtype=bool)
    flat = document_ids.reshape(-1)
    positions = np.zeros(flat.shape, dtype=int)
    for name in np.unique(flat):
        where = np.flatnonzero(flat == name)
        positions[where] = np.arange(len(where))
    return mask, positions.reshape(document_ids.shape)


def packed_causal_mask__wrong_fifteenth_sums_the_column_for_the_position(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Counts how many queries see a token, so positions run backwards; due is how many keys a token sees."""
    ids = np.asarray(document_ids)
    n = ids.shape[1]
    mask = np.logical_and(ids[:, :, None] == ids[:, None, :], np.tri(n, dtype=bool)[None])
    return mask, mask.sum(axis=1) - 1


def packed_causal_mask__wrong_fifteenth_strictly_earlier_keys(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Only earlier keys are allowed, so that their number is the position; due is that a token sees itself too."""
    place = np.arange(document_ids.shape[1])
    earlier = place[None, :] < place[:, None]
    mask = earlier & np.equal(document_ids[:, :, None], document_ids[:, None, :])
    return mask, mask.sum(axis=-1)


def packed_causal_mask__wrong_fifteenth_numbers_of_the_documents(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The second result says the how-manieth document of its row a token is in; due is its place in the document."""
    n = document_ids.shape[1]
    same = document_ids[:, :, None] == document_ids[:, None, :]
    mask = np.tril(same)
    first = same.argmax(axis=2)
    begins = (first == np.arange(n)).cumsum(axis=1) - 1
    return mask, np.take_along_axis(begins, first, axis=1)


def packed_causal_mask__wrong_fifteenth_large_ids_melt_in_float32(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compares ids in float32, where large neighbours become one document; due are any integers."""
    ids = document_ids.astype(np.float32)
    n = ids.shape[1]
    close = np.abs(ids[:, :, None] - ids[:, None, :]) < 0.5
    mask = close & (np.arange(n)[:, None] >= np.arange(n))
    positions = np.count_nonzero(mask, axis=2) - 1
    return mask, positions


def packed_causal_mask__wrong_fifteenth_counter_for_each_token(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Right values, but positions are counted token by token in Python; due is no loop over tokens."""
    n = document_ids.shape[1]
    mask = (document_ids[:, :, None] == document_ids[:, None, :]) & np.tri(n, dtype=bool)
    positions = np.zeros(document_ids.shape, dtype=int)
    for b, row in enumerate(document_ids.tolist()):
        seen = {}
        for i, name in enumerate(row):
            positions[b, i] = seen.get(name, 0)
            seen[name] = positions[b, i] + 1
    return mask, positions


def packed_causal_mask__right_fifteenth_stable_sort_and_scatter(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """A stable sort brings each document together; places since its start are scattered back, and ranks compared."""
    B, n = document_ids.shape
    order = np.argsort(document_ids, axis=1, kind="stable")
    together = np.take_along_axis(document_ids, order, axis=1)
    begins = np.ones((B, n), dtype=bool)
    begins[:, 1:] = together[:, 1:] != together[:, :-1]
    place = np.broadcast_to(np.arange(n), (B, n))
    start = np.maximum.accumulate(np.where(begins, place, 0), axis=1)
    positions, group = np.empty((B, n), dtype=int), np.empty((B, n), dtype=int)
    np.put_along_axis(positions, order, place - start, axis=1)
    np.put_along_axis(group, order, start, axis=1)
    return np.tril(group[:, :, None] == group[:, None, :]), positions
