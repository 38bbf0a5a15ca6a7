"""Answers to the exercises of unit 3 (masking), as students would hand them in: four wrong and one right for each."""

import numpy as np


def _softmax(z, axis=-1):
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _masked_softmax(scores, mask):
    mask = np.broadcast_to(mask, scores.shape)
    filled = np.where(mask, scores, -np.inf)
    top = filled.max(axis=-1, keepdims=True)
    powers = np.exp(filled - np.where(np.isfinite(top), top, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total > 0, total, 1.0)


# 3.1 causal_mask


def causal_mask__wrong_fifth_zero_and_minus_infinity(n: int) -> np.ndarray:
    """Returns the additive mask of many libraries, floats 0 and -inf, in place of booleans."""
    table = np.zeros((n, n))
    table[np.triu_indices(n, k=1)] = -np.inf
    return table


def causal_mask__wrong_fifth_return_inside_the_loop(n: int) -> np.ndarray:
    """The return is indented into the loop over the queries, so that only row 0 is ever filled."""
    seen = np.zeros((n, n), dtype=bool)
    for query in range(n):
        for key in range(query + 1):
            seen[query, key] = True
        return seen


def causal_mask__wrong_fifth_only_itself_and_the_one_before(n: int) -> np.ndarray:
    """Allows a token itself and its direct predecessor only (0 <= i - j <= 1), not all of the past."""
    back = np.arange(n)[:, None] - np.arange(n)[None, :]
    return (back == 0) | (back == 1)


def causal_mask__wrong_fifth_keys_counted_from_the_end(n: int) -> np.ndarray:
    """Numbers the keys from n - 1 down to 0, so that the triangle lies against the right edge."""
    query = np.arange(n).reshape(-1, 1)
    key = np.arange(n)[::-1].reshape(1, -1)
    return key <= query


def causal_mask__right_fifth_running_or_over_the_identity(n: int) -> np.ndarray:
    """Each row is the row above or'ed with its own diagonal entry: np.logical_or accumulated down the identity."""
    return np.logical_or.accumulate(np.eye(n, dtype=bool), axis=0)


# 3.2 padding_mask


def padding_mask__wrong_fifth_negative_slice_of_nothing(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Hides the last m - length keys with the slice [-(m - length):], which is the whole row where length is m."""
    real = np.ones((len(lengths), m), dtype=bool)
    for b, length in enumerate(lengths):
        real[b, -(m - int(length)) :] = False
    return real


def padding_mask__wrong_fifth_lengths_lowered_in_place(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Turns lengths into last positions with lengths -= 1, and so changes the caller's array."""
    lengths -= 1
    return np.arange(m)[None, :] <= lengths[:, None]


def padding_mask__wrong_fifth_no_row_may_be_empty(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Lifts a length of 0 to 1, so that an empty sequence still shows its key 0."""
    at_least_one = np.maximum(lengths, 1)
    return np.arange(m) < at_least_one[:, np.newaxis]


def padding_mask__wrong_fifth_real_tokens_at_the_end(
    lengths: np.ndarray, m: int
) -> np.ndarray:
    """Puts the filler in front, as for left padding: True at the last length columns of a row."""
    rows = [[False] * (m - int(k)) + [True] * int(k) for k in lengths]
    return np.array(rows, dtype=bool).reshape(len(rows), m)


# 3.3 masked_softmax


def masked_softmax__wrong_fifth_one_more_in_the_sum(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Divides by 1 + the sum of the exponentials to avoid 0 / 0, so that rows sum to less than 1."""
    allowed = np.broadcast_to(mask, scores.shape)
    hidden_low = np.where(allowed, scores, -np.inf)
    peak = hidden_low.max(axis=-1, keepdims=True)
    peak = np.where(np.isneginf(peak), 0, peak)
    e = np.exp(hidden_low - peak)
    return e / (1 + e.sum(axis=-1, keepdims=True))


def masked_softmax__wrong_fifth_scores_clipped_at_50(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Clips the scores to -50 ... 50 against overflow in place of subtracting the largest."""
    powers = np.exp(np.clip(scores, -50, 50)) * mask
    sums = powers.sum(axis=-1, keepdims=True)
    return np.divide(powers, sums, out=np.zeros_like(powers), where=sums > 0)


def masked_softmax__wrong_fifth_one_largest_for_all_rows(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Subtracts the largest allowed score of the whole array: rows far below it underflow to zeros."""
    allowed = np.broadcast_to(mask, scores.shape)
    if not allowed.any():
        return np.zeros(scores.shape, dtype=scores.dtype)
    top = scores[allowed].max()
    powers = np.exp(np.where(allowed, scores - top, -np.inf))
    total = powers.sum(axis=-1, keepdims=True)
    total[total == 0] = 1
    return powers / total


def masked_softmax__wrong_fifth_hidden_are_ten_below_the_lowest(
    scores: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Fills hidden places with the row's lowest allowed score less 10: they keep a weight of some e^-10."""
    may = np.broadcast_to(mask, scores.shape)
    any_allowed = may.any(axis=-1, keepdims=True)
    lowest = np.where(may, scores, np.inf).min(axis=-1, keepdims=True)
    lowest = np.where(any_allowed, lowest, 0.0)
    filled = np.where(may, scores, lowest - 10)
    e = np.exp(filled - filled.max(axis=-1, keepdims=True))
    return np.where(any_allowed, e / e.sum(axis=-1, keepdims=True), 0.0)


# 3.4 masked_attention


def masked_attention__wrong_fifth_root_of_the_values_width(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides the scores by the square root of V.shape[-1], d_v, in place of d_k."""
    width = V.shape[-1]
    scores = np.einsum("...nd,...md->...nm", Q, K) / np.sqrt(width)
    weights = _masked_softmax(scores, mask)
    return np.einsum("...nm,...mv->...nv", weights, V), weights


def masked_attention__wrong_fifth_mask_of_the_first_sequence(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Brings the mask down to two axes with mask[0], and so uses that of the first sequence for all."""
    table = mask
    while table.ndim > 2:
        table = table[0]
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    weights = _masked_softmax(scores, table)
    return weights @ V, weights


def masked_attention__wrong_fifth_queries_scaled_in_place(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Scales the queries with Q /= sqrt(d_k), which changes the caller's array."""
    Q /= np.sqrt(Q.shape[-1])
    A = _masked_softmax(np.matmul(Q, np.moveaxis(K, -1, -2)), mask)
    return np.matmul(A, V), A


def masked_attention__wrong_fifth_queries_and_keys_both_scaled(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides the queries by sqrt(d_k) and the keys too, so that the scores are divided by d_k."""
    root = np.sqrt(K.shape[-1])
    queries, keys = Q / root, K / root
    weights = _masked_softmax(queries @ keys.swapaxes(-2, -1), mask)
    output = weights @ V
    return output, weights


def masked_attention__right_fifth_one_query_after_another(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Loops over leading indices and queries, and gives the softmax the allowed keys alone."""
    lead, n, m = Q.shape[:-2], Q.shape[-2], K.shape[-2]
    mask = np.broadcast_to(mask, (*lead, n, m))
    kind = np.result_type(Q, K, V)
    weights = np.zeros((*lead, n, m), dtype=kind)
    output = np.zeros((*lead, n, V.shape[-1]), dtype=kind)
    for at in np.ndindex(*lead, n):
        keys = np.flatnonzero(mask[at])
        if keys.size == 0:
            continue
        s = K[at[:-1]][keys] @ Q[at] / np.sqrt(Q.shape[-1])
        e = np.exp(s - s.max())
        weights[(*at, keys)] = e / e.sum()
        output[at] = e @ V[at[:-1]][keys] / e.sum()
    return output, weights


# 3.5 next_token_pairs


def next_token_pairs__wrong_fifth_zeros_become_minus_100(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes the id 0 for padding and writes PyTorch's ignore_index -100 into the targets."""
    inputs = tokens[:, :-1].copy()
    targets = tokens[:, 1:].copy()
    targets[targets == 0] = -100
    return inputs, targets


def next_token_pairs__wrong_fifth_whole_batch_as_one_stream(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Flattens the batch to one stream, shifts it by one, and cuts it into rows of n - 1, which mix the sequences."""
    B, n = tokens.shape
    stream = tokens.reshape(-1)
    count = B * (n - 1)
    return stream[:count].reshape(B, n - 1), stream[1 : count + 1].reshape(B, n - 1)


def next_token_pairs__wrong_fifth_two_columns_as_in_the_hint(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes over the hint's slices :-2 and 2:, so that targets lie two steps ahead and one column is missing."""
    return tokens[:, :-2], tokens[:, 2:]


def next_token_pairs__wrong_fifth_columns_become_rows(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Zips neighbouring columns together, so that the arrays come out as (n - 1, B)."""
    columns = list(tokens.T)
    pairs = list(zip(columns[:-1], columns[1:], strict=True))
    inputs = np.array([now for now, _ in pairs])
    targets = np.array([then for _, then in pairs])
    return inputs, targets


def next_token_pairs__right_fifth_sliding_windows_of_two(
    tokens: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Slides a window of two along each row: its first entries are the inputs, its second the targets."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    return windows[..., 0], windows[..., 1]


# 3.6 leaks_future


def leaks_future__wrong_fifth_later_rows_reversed(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Changes the later tokens by turning their order round, which no sum over all of them notices."""
    n = len(Q)
    before = attend(Q, K, V)
    for s in range(1, n):
        K_other = np.concatenate([K[:s], K[s:][::-1]])
        V_other = np.concatenate([V[:s], V[s:][::-1]])
        after = attend(Q, K_other, V_other)
        for i in range(s):
            size = np.abs(before[i]).max()
            if np.abs(after[i] - before[i]).max() > 3e-5 * size:
                return True
    return False


def leaks_future__wrong_fifth_later_queries_changed_too(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Draws later queries anew beside keys and values, and so accuses an attention that reads later queries only."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)
    size = np.abs(base).max(axis=1)
    leak = False
    for first in range(1, len(Q)):
        fresh = [x.copy() for x in (Q, K, V)]
        for x in fresh:
            x[first:] = rng.standard_normal(x[first:].shape)
        moved = np.abs(attend(*fresh) - base).max(axis=1)
        leak = leak or bool((moved > 1e-4 * size)[:first].any())
    return leak


def leaks_future__wrong_fifth_signed_sum_of_the_moves(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Adds up how far the columns of a row moved without their absolute values: moves of both signs cancel."""
    rng = np.random.default_rng(0)
    start = attend(Q, K, V)
    for split in range(1, Q.shape[0]):
        K2, V2 = K.copy(), V.copy()
        K2[split:] += rng.standard_normal(K2[split:].shape)
        V2[split:] += rng.standard_normal(V2[split:].shape)
        drift = (attend(Q, K2, V2) - start)[:split].sum(axis=1)
        scale = np.abs(start[:split]).sum(axis=1)
        if np.any(np.abs(drift) > 1e-4 * scale):
            return True
    return False


def leaks_future__wrong_fifth_size_of_the_whole_output(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Measures every move against the largest entry of the whole output, which hides leaks in small rows."""
    rng = np.random.default_rng(0)
    plain = attend(Q, K, V)
    largest = np.abs(plain).max()
    worst = 0.0
    for j in range(1, len(K)):
        noise_K, noise_V = rng.standard_normal(K.shape), rng.standard_normal(V.shape)
        noise_K[:j] = 0
        noise_V[:j] = 0
        moved = np.abs(attend(Q, K + noise_K, V + noise_V) - plain)[:j]
        worst = max(worst, float(moved.max()))
    return bool(worst > 1e-4 * largest)


def leaks_future__right_fifth_spread_over_all_calls(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Call s draws all rows from s on anew; row i must be alike in all calls s > i: the spread against the row's own size."""
    n = len(Q)
    rng = np.random.default_rng(0)
    results = []
    for s in range(1, n + 1):  # s = n leaves everything as it is
        K_s, V_s = K.copy(), V.copy()
        K_s[s:] = 1.5 * rng.standard_normal(K_s[s:].shape)
        V_s[s:] = 1.5 * rng.standard_normal(V_s[s:].shape)
        results.append(np.array(attend(Q, K_s, V_s), dtype=float))
    results = np.stack(results)  # (n, n, d_v)
    for i in range(n - 1):
        row = results[i:, i]
        spread = (row.max(axis=0) - row.min(axis=0)).max()
        if spread > 3e-5 * np.abs(row).max():
            return True
    return False


# 3.7 packed_causal_mask


def packed_causal_mask__wrong_fifth_ids_compared_by_isclose(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Asks with np.isclose whether two ids are equal: large ids that differ by little count as one document."""
    n = document_ids.shape[1]
    same = np.isclose(document_ids[:, :, None], document_ids[:, None, :])
    mask = same & np.tri(n, dtype=bool)
    return mask, mask.sum(axis=2) - 1


def packed_causal_mask__wrong_fifth_zero_taken_for_padding(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes tokens with the id 0 for filler, and hides them as keys."""
    B, n = document_ids.shape
    real = document_ids != 0
    same = document_ids[:, :, None] == document_ids[:, None, :]
    past = np.tri(n, dtype=bool)[None]
    positions = (same & past).sum(axis=-1) - 1
    return same & past & real[:, None, :], positions


def packed_causal_mask__wrong_fifth_positions_go_on_in_the_next_row(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Counts the positions over the flattened batch, so that an id of an earlier row goes on counting in a later one."""
    n = document_ids.shape[1]
    past = np.arange(n)[:, None] >= np.arange(n)
    mask = (document_ids[:, :, None] == document_ids[:, None, :]) & past
    flat = document_ids.ravel()
    positions = np.zeros(flat.shape, dtype=int)
    for name in np.unique(flat):
        here = flat == name
        positions[here] = np.arange(here.sum())
    return mask, positions.reshape(document_ids.shape)


def packed_causal_mask__wrong_fifth_distance_from_the_first_token(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes for the position the distance to the document's first token, which counts the tokens of an interruption too."""
    n = document_ids.shape[1]
    same = document_ids[..., None] == document_ids[:, None]
    mask = np.tril(same)
    first = same.argmax(axis=-1)  # the first True of each row
    return mask, np.arange(n)[None, :] - first
