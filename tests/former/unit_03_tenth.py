"""Unit 3, masking (the first three exercises): wrong and right answers as students would write them."""

import math

import numpy as np


# ------- 3.1 causal_mask
def causal_mask__wrong_tenth_only_the_first_sees_itself(n: int) -> np.ndarray:
    """Wrong: a token sees only earlier ones and not itself; token 0 alone may look at itself."""
    position = np.arange(n)
    mask = np.less(position[None, :], position[:, None])
    mask[0, 0] = True  # no row is empty
    return mask


def causal_mask__wrong_tenth_meshgrid_swaps_axes(n: int) -> np.ndarray:
    """Wrong: meshgrid gives the column numbers first, so queries and keys are swapped: the upper triangle."""
    query, key = np.meshgrid(np.arange(n), np.arange(n))
    return key <= query


def causal_mask__wrong_tenth_rows_as_64_bits(n: int) -> np.ndarray:
    """Wrong: each row is kept as the bits of a 64-bit integer, so with more than 64 tokens the future is seen."""
    number = np.arange(n, dtype=np.int64)
    rows = (np.int64(2) << number) - 1  # row i: the lowest i + 1 bits
    bits = (rows[:, None] >> number) & 1
    return bits == 1


def causal_mask__wrong_tenth_numbers_not_booleans(n: int) -> np.ndarray:
    """Wrong: the mask holds the integers 0 and 1 in place of booleans."""
    return np.cumsum(np.eye(n, dtype=int), axis=0)


def causal_mask__right_tenth_diagonal_flows_down(n: int) -> np.ndarray:
    """Right: begins with the diagonal and lets each True flow down its column by an accumulated “or”."""
    return np.logical_or.accumulate(np.eye(n, dtype=bool), axis=0)


# ------- 3.2 padding_mask
def padding_mask__wrong_tenth_true_means_filler(lengths: np.ndarray, m: int) -> np.ndarray:
    """Wrong: True stands at the filler, as in nn.MultiheadAttention, and not at the real tokens."""
    mask = np.zeros((len(lengths), m), dtype=bool)
    for row, length in zip(mask, lengths):
        row[length:] = True
    return mask


def padding_mask__wrong_tenth_folded_along_the_wrong_axis(lengths: np.ndarray, m: int) -> np.ndarray:
    """Wrong: the row of all entries is folded as (m, B) and transposed, which mixes the sequences."""
    pieces = []
    for length in lengths:
        pieces += [True] * int(length) + [False] * (m - int(length))
    return np.array(pieces, dtype=bool).reshape(m, len(lengths)).T


def padding_mask__wrong_tenth_unsigned_length_below_zero(lengths: np.ndarray, m: int) -> np.ndarray:
    """Wrong: compares with lengths - 1, which wraps around for a length of 0 in an unsigned dtype: all True."""
    last = lengths - 1
    return np.less_equal.outer(np.arange(m), last).T


def padding_mask__wrong_tenth_lengths_counted_down(lengths: np.ndarray, m: int) -> np.ndarray:
    """Wrong: counts the caller's lengths down in place while it fills the columns."""
    columns = []
    for _ in range(m):
        columns.append(lengths > 0)
        lengths -= lengths > 0
    return np.stack(columns, axis=1)


def padding_mask__right_tenth_ends_marked_and_summed(lengths: np.ndarray, m: int) -> np.ndarray:
    """Right: marks the end of each sequence; a key is real as long as the running sum of marks is 0."""
    batch = lengths.shape[0]
    ends = np.zeros((batch, m + 1), dtype=int)
    ends[np.arange(batch), lengths] = 1
    return ends.cumsum(axis=1)[:, :m] == 0


# ------- 3.3 masked_softmax
def masked_softmax__wrong_tenth_masked_after_and_rescaled(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Wrong: softmax over all keys, then mask and rescale: a far larger hidden score leaves a row of zeros."""
    weights = np.exp(scores - np.amax(scores, axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    weights = np.where(mask, weights, 0.0)
    left = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(left > 0, left, 1.0)


def masked_softmax__wrong_tenth_mask_repeated_not_broadcast(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Wrong: the mask is brought to size by np.resize, which repeats its entries in order and does not broadcast."""
    m = scores.shape[-1]
    rows = scores.reshape(-1, m)
    may = np.resize(mask, scores.shape).reshape(-1, m)
    out = np.zeros(rows.shape)
    for i in range(len(rows)):
        if not may[i].any():
            continue
        seen = rows[i][may[i]]
        powers = np.exp(seen - seen.max())
        out[i, may[i]] = powers / powers.sum()
    return out.reshape(scores.shape)


def masked_softmax__wrong_tenth_a_billion_subtracted(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Wrong: 1e9 is subtracted from hidden scores, so a hidden score above that still takes part."""
    bias = np.where(mask, 0.0, -1e9)
    z = scores + bias
    z = z - z.max(axis=-1, keepdims=True)
    powers = np.exp(z)
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return weights * mask


def masked_softmax__wrong_tenth_nan_mended_with_warnings(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Wrong: a row with nothing allowed becomes NaN first and is mended afterwards, with warnings of NumPy."""
    visible = np.where(mask, scores, -np.inf).swapaxes(-1, 0)  # keys in front
    powers = np.exp(visible - visible.max(axis=0))
    weights = powers / powers.sum(axis=0)
    return np.nan_to_num(weights, nan=0.0).swapaxes(0, -1)


def masked_softmax__right_tenth_log_of_the_allowed_sum(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Right: logaddexp adds up the allowed keys only, by its `where`; weights are exp(score - log of the sum)."""
    scores = np.asarray(scores, dtype=np.float64)
    allowed = np.broadcast_to(mask, scores.shape)
    log_sum = np.logaddexp.reduce(scores, axis=-1, keepdims=True, where=allowed, initial=-np.inf)
    logs = np.full(scores.shape, -np.inf)
    np.subtract(scores, log_sum, out=logs, where=allowed)
    return np.exp(logs)


_WORKSPACE = {}


def _masked_softmax(scores, mask):
    """Softmax over the last axis among the allowed keys; an empty row is all zeros."""
    mask = np.broadcast_to(mask, scores.shape)
    hidden = np.where(mask, scores, -np.inf)
    top = hidden.max(axis=-1, keepdims=True)
    powers = np.exp(hidden - np.where(np.isfinite(top), top, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total > 0, total, 1.0)


# ------- 3.4 masked_attention
def masked_attention__wrong_tenth_flat_mask_cycles(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """With two leading axes a mask (B, 1, n, m) is dealt out in turn to the flattened attentions, not by sequence."""
    lead, n, d_k = Q.shape[:-2], Q.shape[-2], Q.shape[-1]
    m, d_v = V.shape[-2], V.shape[-1]
    queries = Q.reshape(-1, n, d_k)
    keys = K.reshape(-1, m, d_k)
    values = V.reshape(-1, m, d_v)
    sheets = np.atleast_2d(mask)
    sheets = sheets.reshape((-1,) + sheets.shape[-2:])

    outputs, tables = [], []
    for s in range(len(queries)):
        allowed = sheets[s % len(sheets)]
        table = _masked_softmax(queries[s] @ keys[s].T / np.sqrt(d_k), allowed)
        tables.append(table)
        outputs.append(table @ values[s])
    return np.reshape(outputs, lead + (n, d_v)), np.reshape(tables, lead + (n, m))


def masked_attention__wrong_tenth_scores_clipped(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Scores are clipped to ±300 in place of subtracting the largest, so that larger allowed scores become equal."""
    scores = np.einsum("...id,...jd->...ij", Q, K) / np.sqrt(Q.shape[-1])
    powers = np.exp(np.clip(scores, -300, 300)) * mask
    total = powers.sum(axis=-1, keepdims=True)
    weights = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
    return np.einsum("...ij,...jv->...iv", weights, V), weights


def masked_attention__wrong_tenth_reuses_its_arrays(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The arrays it returns are kept by shape and overwritten by the next call of the same shape."""
    shapes = (Q.shape[:-1] + (K.shape[-2],), Q.shape[:-1] + (V.shape[-1],))
    key = shapes + (np.result_type(Q, K, V).str,)
    if key not in _WORKSPACE:
        kind = np.result_type(Q, K, V)
        _WORKSPACE[key] = np.empty(shapes[0], kind), np.empty(shapes[1], kind)
    weights, output = _WORKSPACE[key]

    np.matmul(Q, np.swapaxes(K, -1, -2), out=weights)
    weights /= np.sqrt(Q.shape[-1])
    weights[...] = _masked_softmax(weights, mask)
    np.matmul(weights, V, out=output)
    return output, weights


def masked_attention__wrong_tenth_root_by_precedence(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The root is written as d_k ** 1 / 2, which is half of d_k."""
    *_, n, d_k = Q.shape
    scale = d_k**1 / 2
    dots = (Q[..., :, None, :] * K[..., None, :, :]).sum(axis=-1)
    weights = _masked_softmax(dots / scale, mask)
    output = (weights[..., None] * V[..., None, :, :]).sum(axis=-2)
    return output, weights


def masked_attention__right_tenth_logaddexp(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes the logarithm of each row's sum by a running logaddexp, and the exponentials of the differences."""
    queries, keys = (np.asarray(array, dtype=np.float64) for array in (Q, K))
    scores = np.einsum("...id,...jd->...ij", queries, keys) * queries.shape[-1] ** -0.5
    scores = np.where(mask, scores, -np.inf)
    log_total = np.logaddexp.reduce(scores, axis=-1, keepdims=True)
    log_total = np.where(np.isneginf(log_total), 0.0, log_total)
    weights = np.exp(scores - log_total)
    return np.einsum("...ij,...jv->...iv", weights, V), weights


# ------- 3.5 next_token_pairs
def next_token_pairs__wrong_tenth_zero_is_filler(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Targets of id 0 are taken for filler and replaced by -100, though they should stay as they are."""
    inputs, targets = np.delete(tokens, -1, axis=1), np.delete(tokens, 0, axis=1)
    return inputs, np.where(targets == 0, -100, targets)


def next_token_pairs__wrong_tenth_rolled_the_other_way(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The roll has the wrong sign: a target is the token before the input (round the end for the first)."""
    ahead = np.roll(tokens, 1, axis=1)
    pairs = np.stack([tokens, ahead], axis=-1)[:, :-1]
    return pairs[..., 0], pairs[..., 1]


def next_token_pairs__wrong_tenth_short_integers(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ids are stored as 16-bit integers, so that an id of 32,768 or more comes out as another number."""
    B, n = tokens.shape
    pairs = np.zeros((2, B, n - 1), dtype=np.int16)
    for t in range(n - 1):
        pairs[0, :, t] = tokens[:, t].astype(np.int16)
        pairs[1, :, t] = tokens[:, t + 1].astype(np.int16)
    return pairs[0], pairs[1]


def next_token_pairs__wrong_tenth_tall_batch_is_turned(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A batch with more sequences than tokens is taken for (n, B) and transposed."""
    B, n = tokens.shape
    if B > n:
        tokens = tokens.T
    windows = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    return windows[:, :, 0].copy(), windows[:, :, 1].copy()


def next_token_pairs__right_tenth_flat_places(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers all places of the batch, strikes the last one of each row, and takes each place and the next."""
    B, n = tokens.shape
    places = np.flatnonzero(np.arange(B * n) % n != n - 1).reshape(B, n - 1)
    return np.take(tokens, places), np.take(tokens, places + 1)


# ------- 3.6 leaks_future
def leaks_future__wrong_tenth_shifted_by_one(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """All later keys and values are raised by the same 1, which a leak of their differences does not notice."""
    quiet = attend(Q, K.copy(), V.copy())
    for first_changed in range(1, len(Q)):
        step = (np.arange(len(Q)) >= first_changed)[:, None] * 1.0
        moved = np.abs(attend(Q, K + step, V + step) - quiet)[:first_changed]
        size = np.abs(quiet[:first_changed])
        if (moved.max(axis=1) > 2e-5 * size.max(axis=1)).any():
            return True
    return False


def leaks_future__wrong_tenth_difference_of_norms(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """The lengths of the rows are compared and not the rows, so a leak that turns or flips a row is missed."""
    rng = np.random.default_rng(0)
    n = Q.shape[0]
    if n == 1:
        return False
    before = np.linalg.norm(attend(Q, K, V), axis=1)
    suspicious = []
    for i in range(n - 1):
        K_new, V_new = np.array(K, dtype=float), np.array(V, dtype=float)
        K_new[i + 1 :] = rng.standard_normal(K_new[i + 1 :].shape)
        V_new[i + 1 :] = rng.standard_normal(V_new[i + 1 :].shape)
        after = np.linalg.norm(attend(Q, K_new, V_new), axis=1)
        change = np.abs(after - before)[: i + 1]
        larger = np.maximum(after, before)[: i + 1]
        suspicious.append(np.any(change > 1e-5 * larger))
    return bool(any(suspicious))


def leaks_future__wrong_tenth_one_size_for_all_rows(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """The tolerance goes by the largest row of the output, so a leak into a row that is far smaller is missed."""
    rng = np.random.default_rng(7)
    other_K, other_V = rng.normal(size=K.shape), rng.normal(size=V.shape)
    reference = attend(Q, K, V)
    tolerance = 1e-5 * np.abs(reference).max()

    def tells(split):
        later = np.arange(len(K))[:, None] >= split
        changed = attend(Q, np.where(later, other_K, K), np.where(later, other_V, V))
        return np.abs(changed - reference)[:split].max() > tolerance

    return bool(any(tells(split) for split in range(1, len(K))))


def leaks_future__wrong_tenth_every_second_split(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Each experiment spends two calls, so only every second place to split is tried."""
    rng = np.random.default_rng(3)
    n, leak = len(Q), False
    for s in range(1, n, 2):
        past_K, past_V = K[:s] + rng.uniform(-1, 1, K[:s].shape), V[:s] + rng.uniform(-1, 1, V[:s].shape)
        results = []
        for _ in range(2):
            tail_K, tail_V = rng.uniform(-2, 2, K[s:].shape), rng.uniform(-2, 2, V[s:].shape)
            results.append(attend(Q, np.vstack([past_K, tail_K]), np.vstack([past_V, tail_V]))[:s])
        first, second = results
        gap = np.abs(first - second).max(axis=1)
        size = np.maximum(np.abs(first), np.abs(second)).max(axis=1)
        leak = leak or bool((gap > 3e-5 * size).any())
    return leak


def leaks_future__right_tenth_chain_of_redraws(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Makes a chain of n calls, each of which redraws a shorter tail, and compares neighbours in the chain."""
    rng = np.random.default_rng(0)
    n = len(Q)
    if n < 2:
        return False
    keys = K + rng.standard_normal(K.shape)
    values = V + rng.standard_normal(V.shape)
    last = np.array(attend(Q.copy(), keys.copy(), values.copy()), dtype=float)
    found = False
    for s in range(1, n):
        keys = np.concatenate([keys[:s], rng.standard_normal((n - s, K.shape[1]))])
        values = np.concatenate([values[:s], rng.standard_normal((n - s, V.shape[1]))])
        now = np.array(attend(Q.copy(), keys.copy(), values.copy()), dtype=float)
        size = np.maximum(np.abs(now[:s]).max(axis=1), np.abs(last[:s]).max(axis=1))
        found |= bool((np.abs(now[:s] - last[:s]).max(axis=1) > 3e-5 * size).any())
        last = now
    return found


# ------- 3.7 packed_causal_mask
def packed_causal_mask__wrong_tenth_runs_are_documents(document_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each run of equal ids is a document of its own, so an interrupted document begins anew."""
    B, n = document_ids.shape
    begins = np.ones((B, n), dtype=bool)
    begins[:, 1:] = np.diff(document_ids, axis=1) != 0
    run = begins.cumsum(axis=1)
    mask = (run[:, :, None] == run[:, None, :]) & np.tri(n, dtype=bool)
    places = np.arange(n)
    positions = places - np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    return mask, positions


def packed_causal_mask__wrong_tenth_rows_share_numbers(document_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows are kept apart by steps of max + 1, so ids below 0 meet ids of the row before and count on there."""
    B, n = document_ids.shape
    step = document_ids.max() + 1
    labels = (document_ids + step * np.arange(B)[:, None]).ravel()
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    first = np.searchsorted(ordered, ordered, side="left")
    positions = np.empty(B * n, dtype=np.int64)
    positions[order] = np.arange(B * n) - first
    mask = np.equal(document_ids[:, :, None], document_ids[:, None, :])
    return np.tril(mask), positions.reshape(B, n)


def packed_causal_mask__wrong_tenth_byte_counter(document_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions are counted in 8-bit integers, which turn negative behind 127."""
    n = document_ids.shape[1]
    i, j = np.ogrid[:n, :n]
    mask = (j <= i) & (document_ids[:, i] == document_ids[:, j])
    return mask, mask.sum(axis=2, dtype=np.int8) - np.int8(1)


def packed_causal_mask__wrong_tenth_minus_one_is_filler(document_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The id -1 is taken for filler: its tokens see nothing and have position 0."""
    real = document_ids != -1
    same = document_ids[:, None, :] == document_ids[:, :, None]
    mask = np.tril(same & real[:, None, :] & real[:, :, None])
    positions = np.count_nonzero(mask, axis=-1) - 1
    return mask, np.maximum(positions, 0)


def packed_causal_mask__right_tenth_sorted_groups(document_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorts each row stably, numbers the groups and their members there, and puts both back in place."""
    B, n = document_ids.shape
    order = np.argsort(document_ids, axis=1, kind="stable")
    ordered = np.take_along_axis(document_ids, order, axis=1)
    begins = np.ones((B, n), dtype=bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    places = np.broadcast_to(np.arange(n), (B, n))
    member = places - np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    positions, groups = np.empty((B, n), dtype=np.int64), np.empty((B, n), dtype=np.int64)
    np.put_along_axis(positions, order, member, axis=1)
    np.put_along_axis(groups, order, begins.cumsum(axis=1), axis=1)
    mask = (groups[:, :, None] == groups[:, None, :]) & (np.arange(n) <= np.arange(n)[:, None])
    return mask, positions
