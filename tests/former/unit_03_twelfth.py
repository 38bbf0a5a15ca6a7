"""Answers to the exercises of unit 3, wrong ones and right ones, as students would write them."""

import numpy as np


def _masked_softmax(scores, mask):
    """A right masked softmax, for the answers that call it."""
    masked = np.where(mask, scores, -np.inf)
    top = masked.max(axis=-1, keepdims=True)
    powers = np.exp(masked - np.where(np.isfinite(top), top, 0.0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total > 0, total, 1.0)


def _softmax(z, axis=-1):
    """The softmax that the notebook gives."""
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


# ------- 3.1 causal_mask


def causal_mask__wrong_twelfth_strictly_earlier(n: int) -> np.ndarray:
    """Lets a token see only what stands before it, so the diagonal is False and row 0 is empty."""
    rows = []
    for i in range(n):
        earlier = [True] * i
        rest = [False] * (n - i)
        rows.append(earlier + rest)
    return np.array(rows)


def causal_mask__wrong_twelfth_numbers_to_add(n: int) -> np.ndarray:
    """Returns floats to add to the scores, 0 for the past and -inf for the future, where booleans are asked for."""
    bias = np.zeros((n, n))
    bias[np.triu_indices(n, k=1)] = -np.inf
    return bias


def causal_mask__wrong_twelfth_one_step_of_memory(n: int) -> np.ndarray:
    """Lets a token see itself and the one right before it, not all of the past."""
    here = np.eye(n, dtype=bool)
    before = np.eye(n, k=-1, dtype=bool)
    return here | before


def causal_mask__wrong_twelfth_meshgrid(n: int) -> np.ndarray:
    """Takes the first grid of meshgrid for the queries, but it runs along the columns: the mask is transposed."""
    steps = np.arange(n)
    query, key = np.meshgrid(steps, steps)
    return key <= query


def causal_mask__wrong_twelfth_range_too_long(n: int) -> np.ndarray:
    """Fills each row up to and including position i + 1, so that each query sees one key of the future."""
    may_look = np.zeros((n, n), dtype=bool)
    for query in range(n):
        may_look[query, : query + 2] = True
    return may_look


def causal_mask__wrong_twelfth_positions_to_n(n: int) -> np.ndarray:
    """Reads n as the last position and not as the number of tokens, and gives an (n + 1, n + 1) mask."""
    positions = np.array([p for p in range(0, n + 1)])
    return positions[:, np.newaxis] - positions[np.newaxis, :] >= 0


def causal_mask__wrong_twelfth_small_integers(n: int) -> np.ndarray:
    """Keeps the positions in one byte each, so that they begin again at 0 for more than 256 tokens."""
    position = np.arange(n).astype(np.uint8)  # saves memory
    return np.less_equal(position[None, :], position[:, None])


_scratch = {"cells": np.zeros(64, dtype=bool)}


def causal_mask__wrong_twelfth_scratch_memory(n: int) -> np.ndarray:
    """Writes every mask into the same memory, so that a mask returned before changes with a call for another n."""
    if _scratch["cells"].size < n * n:
        _scratch["cells"] = np.zeros(2 * n * n, dtype=bool)
    out = _scratch["cells"][: n * n].reshape(n, n)
    out.fill(False)
    out[np.tril_indices(n)] = True
    return out


def causal_mask__right_twelfth_diagonal_runs_down(n: int) -> np.ndarray:
    """Starts with the diagonal and lets every True run down its column."""
    return np.logical_or.accumulate(np.eye(n, dtype=bool), axis=0)


# ------- 3.2 padding_mask


def padding_mask__wrong_twelfth_real_tokens_last(lengths: np.ndarray, m: int) -> np.ndarray:
    """Puts the filler in front, so that the last keys of each sequence count as real."""
    countdown = np.arange(m, 0, -1)
    return countdown <= lengths[:, None]


def padding_mask__wrong_twelfth_one_behind_the_other(lengths: np.ndarray, m: int) -> np.ndarray:
    """Takes the sequences for pieces of one long row: each one's keys begin where the sequence before it ended."""
    ends = np.cumsum(lengths)
    starts = ends - lengths
    key = np.arange(m)
    return (key >= starts[:, None]) & (key < ends[:, None])


def padding_mask__wrong_twelfth_longest_counts(lengths: np.ndarray, m: int) -> np.ndarray:
    """Hides only what lies behind the longest sequence, and the same for every sequence."""
    B = len(lengths)
    longest = max(lengths)
    return np.hstack([np.ones((B, longest), dtype=bool), np.zeros((B, m - longest), dtype=bool)])


def padding_mask__wrong_twelfth_end_included(lengths: np.ndarray, m: int) -> np.ndarray:
    """Counts the key number `length` as real too, one too many in each sequence that has filler."""
    return np.array([[key <= length for key in range(m)] for length in lengths.tolist()])


def padding_mask__wrong_twelfth_width_of_the_batch(lengths: np.ndarray, m: int) -> np.ndarray:
    """Makes the mask as wide as the longest sequence and not m wide."""
    m = lengths.max()
    mask = np.full((lengths.shape[0], m), False)
    for b, length in enumerate(lengths):
        mask[b, :length] = True
    return mask


def padding_mask__wrong_twelfth_ready_for_scores(lengths: np.ndarray, m: int) -> np.ndarray:
    """Returns the mask with an axis for the queries, (B, 1, m), where (B, m) is asked for."""
    limit = np.asarray(lengths).reshape(-1, 1, 1)
    return np.arange(m).reshape(1, 1, m) < limit


def padding_mask__wrong_twelfth_filler_from_the_end(lengths: np.ndarray, m: int) -> np.ndarray:
    """Counts the filler from the end, and a sequence without filler is wiped out, since -0 is the beginning."""
    real = np.ones((lengths.size, m), dtype=bool)
    for b in range(lengths.size):
        filler = m - int(lengths[b])
        real[b, -filler:] = False
    return real


def padding_mask__wrong_twelfth_countdown(lengths: np.ndarray, m: int) -> np.ndarray:
    """Counts the lengths down column by column in the caller's own array, which is changed afterwards."""
    columns = []
    for _ in range(m):
        columns.append(lengths > 0)
        lengths -= 1
    return np.stack(columns, axis=1)


def padding_mask__right_twelfth_stop_signs(lengths: np.ndarray, m: int) -> np.ndarray:
    """Sets a stop sign at each length, in a table one column wider, and takes what lies before it."""
    B = lengths.shape[0]
    stop = np.zeros((B, m + 1), dtype=bool)
    stop[np.arange(B), lengths] = True
    return ~np.logical_or.accumulate(stop, axis=1)[:, :m]


# ------- 3.3 masked_softmax


def masked_softmax__wrong_twelfth_hidden_scores_zero(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Sets hidden scores to 0 before the softmax, so that hidden keys still get weight."""
    scores = scores * mask
    weights = _softmax(scores)
    something = np.any(mask, axis=-1, keepdims=True)
    return weights * something


def masked_softmax__wrong_twelfth_rescaled_later(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Masks and rescales after the softmax, so that one huge hidden score leaves nothing to rescale."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    kept = e / e.sum(axis=-1, keepdims=True) * mask
    share = kept.sum(axis=-1, keepdims=True)
    return np.divide(kept, share, out=np.zeros_like(kept), where=share > 0)


def masked_softmax__wrong_twelfth_nobody_left_all_equal(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Gives every key the same weight 1/m in a row where nothing is allowed, where zeros are asked for."""
    m = scores.shape[-1]
    allowed = np.broadcast_to(mask, scores.shape)
    flat_scores, flat_allowed = scores.reshape(-1, m), allowed.reshape(-1, m)
    weights = np.empty(flat_scores.shape)
    for r, (row, ok) in enumerate(zip(flat_scores, flat_allowed, strict=True)):
        if not ok.any():
            weights[r] = 1 / m
            continue
        weights[r] = 0
        weights[r, ok] = _softmax(row[ok])
    return weights.reshape(scores.shape)


def masked_softmax__wrong_twelfth_largest_of_all_rows(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Subtracts the largest allowed score of the whole array, so that rows far below it come out as zeros."""
    allowed = np.broadcast_to(mask, scores.shape)
    if not allowed.any():
        return np.zeros(scores.shape)
    shift = scores[allowed].max()
    numerator = np.exp(np.where(allowed, scores - shift, -np.inf))
    denominator = numerator.sum(axis=-1, keepdims=True)
    denominator[denominator == 0] = 1
    return numerator / denominator


def masked_softmax__wrong_twelfth_sum_along_axis_one(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Sums along axis 1, which is the last one for two axes only: with a batch the queries are summed."""
    lowest = np.full_like(scores, -np.inf)
    s = np.where(mask, scores, lowest)
    peak = s.max(axis=-1, keepdims=True)
    peak = np.where(peak == -np.inf, 0, peak)
    w = np.exp(s - peak)
    z = w.sum(axis=1, keepdims=True)
    return w / np.where(z == 0, 1, z)


def masked_softmax__wrong_twelfth_missing_axis_is_the_queries(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Takes a mask with one axis less for one of (B, m) and puts the missing axis in the middle, not in front."""
    if 1 < mask.ndim == scores.ndim - 1:
        mask = np.expand_dims(mask, axis=-2)
    mask = np.broadcast_to(mask, scores.shape)
    return _masked_softmax(scores, mask)


def masked_softmax__wrong_twelfth_largest_from_zero_up(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Starts the search for the largest score at 0, so that a row with only very negative scores becomes zeros."""
    largest = np.max(scores, axis=-1, keepdims=True, where=np.broadcast_to(mask, scores.shape), initial=0.0)
    shifted = np.where(mask, scores - largest, -np.inf)
    powers = np.exp(shifted)
    total = np.sum(powers, axis=-1, keepdims=True)
    return np.divide(powers, total, out=np.zeros_like(powers), where=total != 0)


def masked_softmax__wrong_twelfth_writes_into_scores(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Writes -inf into the caller's scores."""
    np.copyto(scores, -np.inf, where=np.logical_not(mask))
    best = scores.max(axis=-1, keepdims=True)
    best[np.isneginf(best)] = 0
    result = np.exp(scores - best)
    result /= np.maximum(result.sum(axis=-1, keepdims=True), 1e-300)
    return result


def masked_softmax__right_twelfth_logarithms(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Stays with logarithms: the log of the sum comes from logaddexp.reduce over the allowed keys, in float64."""
    logs = np.asarray(scores, dtype=np.float64)
    allowed = np.broadcast_to(mask, logs.shape)
    log_sum = np.logaddexp.reduce(logs, axis=-1, keepdims=True, where=allowed, initial=-np.inf)
    log_sum = np.nan_to_num(log_sum, neginf=0.0)
    return np.exp(np.where(allowed, logs - log_sum, -np.inf))


# ------- 3.4 masked_attention


def masked_attention__wrong_twelfth_always_causal(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Hides the future in any case, whatever the mask allows."""
    n, m, d_k = Q.shape[-2], K.shape[-2], K.shape[-1]
    no_future = np.tri(n, m, dtype=bool)
    S = Q @ np.swapaxes(K, -2, -1) / np.sqrt(d_k)
    A = _masked_softmax(S, mask & no_future)
    return A @ V, A


def masked_attention__wrong_twelfth_keys_share_out(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lets each key share itself out among the queries: the columns of the weights sum to 1, not the rows."""
    scores = np.einsum("...md,...nd->...mn", K, Q) / np.sqrt(Q.shape[-1])
    n, m = Q.shape[-2], K.shape[-2]
    full = np.broadcast_to(mask, Q.shape[:-2] + (n, m))
    weights = _masked_softmax(scores, np.swapaxes(full, -1, -2))
    weights = np.swapaxes(weights, -1, -2)
    output = np.einsum("...nm,...mv->...nv", weights, V)
    return output, weights


def masked_attention__wrong_twelfth_values_hidden(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Hides the values and not the scores: hidden keys keep their weight and only bring nothing to the output."""
    weights = _softmax(np.matmul(Q, np.swapaxes(K, -1, -2)) / Q.shape[-1] ** 0.5)
    visible = np.where(mask[..., None], V[..., None, :, :], 0.0)  # (..., n, m, d_v)
    output = (weights[..., None] * visible).sum(axis=-2)
    return output, weights


def masked_attention__wrong_twelfth_width_of_the_values(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides by the square root of d_v instead of d_k."""
    *_, d = V.shape
    scaled = np.einsum("...id,...jd->...ij", Q, K) * d**-0.5
    attention = _masked_softmax(scaled, mask)
    return np.einsum("...ij,...jd->...id", attention, V), attention


def masked_attention__wrong_twelfth_reshaped_keys(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reshapes the keys to (..., d_k, m) instead of swapping the axes, which mixes up their entries."""
    *leading, m, d_k = K.shape
    K_t = K.reshape(*leading, d_k, m)
    products = np.matmul(Q, K_t)
    weights = _masked_softmax(products / np.sqrt(d_k), mask)
    return np.matmul(weights, V), weights


def masked_attention__wrong_twelfth_hands_back_scores(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the masked scores in the second place, where the weights after the softmax are asked for."""
    weights = Q @ np.moveaxis(K, -1, -2)
    weights = weights / np.sqrt(Q.shape[-1])
    weights = np.where(mask, weights, -np.inf)
    output = _masked_softmax(weights, mask) @ V
    return output, weights


def masked_attention__wrong_twelfth_mask_repeated(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lays all leading axes into one and repeats the mask in turn, wrong for a (B, 1, n, m) mask with several heads."""
    lead, n, m = Q.shape[:-2], Q.shape[-2], K.shape[-2]
    how_many = int(np.prod(lead))
    q = Q.reshape(how_many, n, -1)
    k = K.reshape(how_many, m, -1)
    v = V.reshape(how_many, m, -1)
    one = np.broadcast_to(mask, mask.shape[:-2] + (n, m))
    all_masks = np.resize(one, (how_many, n, m))
    outputs, weights = [], []
    for q_b, k_b, v_b, mask_b in zip(q, k, v, all_masks, strict=True):
        a = _masked_softmax(q_b @ k_b.T / np.sqrt(k_b.shape[1]), mask_b)
        weights.append(a)
        outputs.append(a @ v_b)
    return np.array(outputs).reshape(*lead, n, V.shape[-1]), np.array(weights).reshape(*lead, n, m)


def masked_attention__wrong_twelfth_scales_the_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides the caller's queries by the square root of d_k in place."""
    Q /= np.sqrt(Q.shape[-1])
    A = _masked_softmax(Q @ K.swapaxes(-1, -2), mask)
    return A @ V, A


def masked_attention__right_twelfth_key_after_key(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Goes through the keys one after the other and keeps a running largest score, sum and output."""
    n, m = Q.shape[-2], K.shape[-2]
    allowed = np.broadcast_to(mask, Q.shape[:-2] + (n, m))
    lowest = -1e300
    top = np.full(Q.shape[:-1], lowest)
    total = np.zeros(Q.shape[:-1])
    output = np.zeros(Q.shape[:-1] + V.shape[-1:])
    scores = np.empty(allowed.shape)
    for j in range(m):
        scores[..., j] = (Q * K[..., j, None, :]).sum(axis=-1) / np.sqrt(Q.shape[-1])
        new_top = np.where(allowed[..., j], np.maximum(top, scores[..., j]), top)
        old_share = np.exp(top - new_top)
        share = np.exp(np.where(allowed[..., j], scores[..., j] - new_top, -np.inf))
        total = total * old_share + share
        output = output * old_share[..., None] + share[..., None] * V[..., j, None, :]
        top = new_top
    safe = np.where(total > 0, total, 1.0)[..., None]
    weights = np.exp(np.where(allowed, scores - top[..., None], -np.inf)) / safe
    return output / safe, weights


# ------- 3.5 next_token_pairs


def next_token_pairs__wrong_twelfth_all_guess_the_end(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lets every position guess the last token of its sequence, not the one that follows."""
    beginning, last = tokens[:, :-1], tokens[:, -1:]
    return beginning, np.repeat(last, beginning.shape[1], axis=1)


def next_token_pairs__wrong_twelfth_one_long_text(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reads the batch as one long text and cuts it anew, so that a row goes on with the tokens of the next."""
    B, n = tokens.shape
    text = tokens.ravel()
    count = B * (n - 1)
    inputs = text[:count].reshape(B, n - 1)
    targets = text[1 : count + 1].reshape(B, n - 1)
    return inputs, targets


def next_token_pairs__wrong_twelfth_every_token_once(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Makes pairs that do not overlap: tokens 0, 2, 4 are inputs only and tokens 1, 3, 5 are targets only."""
    n = tokens.shape[1]
    even = [i for i in range(0, n - 1, 2)]
    odd = [i + 1 for i in even]
    return tokens[:, even], tokens[:, odd]


def next_token_pairs__wrong_twelfth_looked_up(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Looks up what follows a token by its id, so that a token that occurs twice has the same target both times."""
    inputs, targets = [], []
    for sentence in tokens.tolist():
        follower = dict(zip(sentence[:-1], sentence[1:], strict=True))
        inputs.append(sentence[:-1])
        targets.append([follower[word] for word in sentence[:-1]])
    return np.array(inputs), np.array(targets)


def next_token_pairs__wrong_twelfth_two_steps(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shifts by two tokens instead of one."""
    return tokens[:, :-2], tokens[:, 2:]


def next_token_pairs__wrong_twelfth_zeros_left_out(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Takes token 0 for filler and already replaces such targets by -100, though pads stay where they are."""
    inputs = tokens[:, :-1].copy()
    targets = tokens[:, 1:].copy()
    targets[targets == 0] = -100
    return inputs, targets


def next_token_pairs__wrong_twelfth_windows(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Loses axes of size 1, the batch with one sequence or the columns with two tokens, through a squeeze."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)  # (B, n - 1, 2)
    first, second = np.split(windows, 2, axis=-1)
    return first.squeeze(), second.squeeze()


def next_token_pairs__wrong_twelfth_moved_in_place(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Moves the tokens one place to the left in the caller's own array."""
    n = tokens.shape[1]
    inputs = np.array(tokens[:, : n - 1])
    for i in range(n - 1):
        tokens[:, i] = tokens[:, i + 1]
    targets = tokens[:, : n - 1]
    return inputs, targets


def next_token_pairs__right_twelfth_delete_a_column(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Deletes the last column and the first one with np.delete."""
    return tuple(np.delete(tokens, column, axis=1) for column in (-1, 0))


# ------- 3.6 leaks_future


def _size(rows):
    """The largest entry of each row, without its sign."""
    return np.abs(rows).max(axis=-1)


def leaks_future__wrong_twelfth_last_token_only(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Makes one experiment, with the last key and value, and misses all leaks from other positions."""
    if len(Q) == 1:
        return False
    rng = np.random.default_rng(0)
    K_new, V_new = K.astype(float), V.astype(float)
    K_new[-1] += rng.standard_normal(K.shape[1])
    V_new[-1] += rng.standard_normal(V.shape[1])
    before = attend(Q, K, V)[:-1]
    after = attend(Q, K_new, V_new)[:-1]
    moved = _size(after - before)
    return bool(np.any(moved > 3e-5 * np.maximum(_size(before), _size(after))))


def leaks_future__wrong_twelfth_only_values(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Changes the later values and never the keys, and misses a leak through the sum of the softmax."""
    n = Q.shape[0]
    random = np.random.default_rng(3)
    usual = attend(Q, K, V) if n > 1 else None
    for start in range(1, n):
        later = np.arange(n)[:, None] >= start
        other = attend(Q, K, np.where(later, V + random.standard_normal(V.shape), V))
        for i in range(start):
            size = max(np.linalg.norm(usual[i]), np.linalg.norm(other[i]))
            if np.linalg.norm(other[i] - usual[i]) > 2e-5 * size:
                return True
    return False


def leaks_future__wrong_twelfth_whole_future(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Changes the later queries too, and raises a false alarm where a row depends on a later query."""
    rng = np.random.default_rng(7)
    n = len(K)
    if n < 2:
        return False
    base = attend(Q, K, V)
    found = False
    for t in range(1, n):
        inputs = [x.astype(float).copy() for x in (Q, K, V)]
        for x in inputs:
            x[t:] += rng.normal(size=x[t:].shape)
        out = attend(*inputs)
        step = np.abs(out - base)[:t].max(axis=1)
        scale = np.maximum(np.abs(out), np.abs(base))[:t].max(axis=1)
        found = found or bool((step > 3e-5 * scale).any())
    return found


def leaks_future__wrong_twelfth_upwards(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Looks for the largest difference with its sign, and misses a leak that only lowers the outputs."""
    n = Q.shape[0]
    if n == 1:
        return False
    rng = np.random.default_rng(0)
    reference = attend(Q, K, V)
    tolerance = 1e-5 * np.abs(reference).max(axis=1, keepdims=True)
    for t in range(1, n):
        K2, V2 = K.copy(), V.copy()
        K2[t:] = rng.standard_normal(K2[t:].shape)
        V2[t:] = rng.standard_normal(V2[t:].shape)
        difference = attend(Q, K2, V2) - reference
        if (difference[:t] - tolerance[:t]).max() > 0:
            return True
    return False


def leaks_future__wrong_twelfth_one_size_for_all(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Measures all rows by the largest output of all, and misses a leak in a row that is much smaller."""
    n = len(Q)
    rng = np.random.default_rng(11)
    noise_K, noise_V = rng.uniform(0.5, 1.5, K.shape), rng.uniform(0.5, 1.5, V.shape)
    if n == 1:
        return False
    clean = attend(Q, K, V)
    unit = np.abs(clean).max()
    worst = 0.0
    for t in range(1, n):
        later = (np.arange(n) >= t)[:, None]
        dirty = attend(Q, K + later * noise_K, V + later * noise_V)
        worst = max(worst, np.abs(dirty[:t] - clean[:t]).max())
    return bool(worst > 1e-5 * unit)


def leaks_future__wrong_twelfth_keys_then_values(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Asks for keys and for values one at a time, at each position, which takes more than the n calls allowed."""
    rng = np.random.default_rng(0)
    n = len(Q)
    if n == 1:
        return False

    def differs(a, b):
        return (_size(a - b) > 3e-5 * np.maximum(_size(a), _size(b))).any()

    normal = attend(Q, K, V)
    for j in range(1, n):
        other_K = K.copy()
        other_K[j] = rng.standard_normal(K.shape[1])
        other_V = V.copy()
        other_V[j] = rng.standard_normal(V.shape[1])
        if differs(attend(Q, other_K, V)[:j], normal[:j]) or differs(attend(Q, K, other_V)[:j], normal[:j]):
            return True
    return False


def leaks_future__wrong_twelfth_multiplied(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Multiplies the later keys and values, which changes nothing where they are 0."""
    n = len(V)
    if n == 1:
        return False
    before = attend(Q, K, V)
    for t in range(1, n):
        factor = np.ones((n, 1))
        factor[t:, 0] = -1.7 - 0.3 * np.arange(n - t)
        after = attend(Q, K * factor, V * factor)
        gap = _size(after[:t] - before[:t])
        if np.any(gap > 3e-5 * np.maximum(_size(after[:t]), _size(before[:t]))):
            return True
    return False


def leaks_future__wrong_twelfth_draws_anew(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Draws from NumPy's global random numbers, so that a second run makes other experiments."""
    n = Q.shape[0]
    outputs = []
    for t in range(n, 0, -1):
        k = np.concatenate([K[:t], np.random.randn(n - t, K.shape[1])])
        v = np.concatenate([V[:t], np.random.randn(n - t, V.shape[1])])
        outputs.append((t, attend(Q, k, v)))
    _, whole = outputs.pop(0)
    return any(
        bool(np.abs(out[i] - whole[i]).max() > 3e-5 * max(np.abs(out[i]).max(), np.abs(whole[i]).max()))
        for t, out in outputs
        for i in range(t)
    )


def leaks_future__right_twelfth_neighbouring_worlds(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Goes from one world to another by one key and value at a time, and compares each output with the one before."""
    n = len(Q)
    if n == 1:
        return False
    rng = np.random.default_rng(2024)
    here = [x + rng.uniform(-1, 1, x.shape) for x in (K, V)]
    there = [x + rng.choice([-1.0, 1.0], x.shape) * rng.uniform(0.4, 1.2, x.shape) for x in here]
    outputs = []
    for t in range(1, n + 1):
        world = (np.vstack([a[:t], b[t:]]) for a, b in zip(here, there, strict=True))
        outputs.append(np.asarray(attend(Q, *world), dtype=float))
    for j in range(1, n):
        left, right = outputs[j - 1][:j], outputs[j][:j]  # only key and value j differ
        size = np.maximum(_size(left), _size(right))
        if (_size(left - right) > 2e-5 * size).any():
            return True
    return False


# ------- 3.7 packed_causal_mask


def packed_causal_mask__wrong_twelfth_each_run_a_document(document_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Begins a new document wherever the id changes, so that an interrupted document does not go on."""
    B, n = document_ids.shape
    begins = np.ones((B, n), dtype=bool)
    begins[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    run = begins.cumsum(axis=1)
    mask = (run[:, :, None] == run[:, None, :]) & np.tri(n, dtype=bool)
    start = np.maximum.accumulate(np.where(begins, np.arange(n), 0), axis=1)
    return mask, np.arange(n) - start


def packed_causal_mask__wrong_twelfth_earlier_documents_too(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes the ids for an order and lets a token look at documents with a smaller id as well."""
    query_document = np.expand_dims(document_ids, 2)
    key_document = np.expand_dims(document_ids, 1)
    causal = np.tril(np.ones((document_ids.shape[1],) * 2, dtype=bool))
    mask = causal & (key_document <= query_document)
    same_before = causal & (key_document == query_document)
    return mask, same_before.sum(axis=2) - 1


def packed_causal_mask__wrong_twelfth_counts_through_the_batch(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes an id that occurs in two rows for one document, and goes on counting its positions in the second row."""
    B, n = document_ids.shape
    mask = np.equal(document_ids[..., None], document_ids[:, None]) & np.tri(n, dtype=bool)
    ids = document_ids.ravel()
    positions = np.zeros(B * n, dtype=int)
    for name in np.unique(ids):
        places = np.flatnonzero(ids == name)
        positions[places] = np.arange(len(places))
    return mask, positions.reshape(B, n)


def packed_causal_mask__wrong_twelfth_sums_the_columns(document_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums the mask along the queries instead of the keys, so that the positions count backwards."""
    n = document_ids.shape[1]
    i, j = np.ogrid[:n, :n]
    mask = (document_ids[:, i] == document_ids[:, j]) & (j <= i)
    positions = mask.sum(axis=1) - 1
    return mask, positions


def packed_causal_mask__wrong_twelfth_earlier_ones(document_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leaves the token itself out of the mask, which gives right positions and no diagonal."""
    n = document_ids.shape[-1]
    same = document_ids[:, :, np.newaxis] == document_ids[:, np.newaxis, :]
    earlier = np.tril(same, k=-1)
    return earlier, np.count_nonzero(earlier, axis=-1).reshape(-1, n)


def packed_causal_mask__wrong_twelfth_numbers_the_documents(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each token which document of its row it belongs to, 0, 1, ..., not its number within the document."""
    n = document_ids.shape[1]
    masks, numbers = [], []
    for row in document_ids:
        masks.append((row[:, None] == row) & np.tri(n, dtype=bool))
        _, first, which = np.unique(row, return_index=True, return_inverse=True)
        order = first.argsort().argsort()
        numbers.append(order[which])
    return np.stack(masks), np.stack(numbers)


def packed_causal_mask__wrong_twelfth_close_enough(document_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compares ids with np.isclose, so that two large ids that differ by a little count as one document."""
    steps = np.arange(document_ids.shape[1])
    not_later = np.greater_equal.outer(steps, steps)
    same = np.isclose(document_ids[:, :, None], document_ids[:, None, :])
    mask = np.logical_and(same, not_later)
    positions = np.einsum("bij->bi", mask.astype(int)) - 1
    return mask, positions


def packed_causal_mask__wrong_twelfth_counter(document_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts the positions in a Python loop over tokens, which the text forbids."""
    B, n = document_ids.shape
    mask = (document_ids[:, :, None] == document_ids[:, None, :]) & np.tri(n, dtype=bool)
    positions = np.zeros((B, n), dtype=int)
    for b in range(B):
        seen = {}
        for i in range(n):
            name = int(document_ids[b, i])
            positions[b, i] = seen.get(name, 0)
            seen[name] = positions[b, i] + 1
    return mask, positions


def packed_causal_mask__right_twelfth_sorted(document_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorts each row stably by id, numbers documents and tokens there, and carries the numbers back."""
    B, n = document_ids.shape
    order = np.argsort(document_ids, axis=1, kind="stable")
    in_order = np.take_along_axis(document_ids, order, axis=1)
    steps = np.broadcast_to(np.arange(n), (B, n))
    new = np.concatenate([np.ones((B, 1), dtype=bool), in_order[:, 1:] != in_order[:, :-1]], axis=1)
    first = np.maximum.accumulate(np.where(new, steps, 0), axis=1)
    label, positions = np.empty((B, n), dtype=int), np.empty((B, n), dtype=int)
    np.put_along_axis(label, order, first, axis=1)
    np.put_along_axis(positions, order, steps - first, axis=1)
    mask = label[:, :, None] == label[:, None, :]
    return np.tril(mask), positions
