"""Answers to three exercises of unit 3, wrong ones and right ones, as students would write them."""

import math

import numpy as np

# ------- 3.1 causal_mask


def causal_mask__wrong_eleventh_does_not_see_itself(n: int) -> np.ndarray:
    """A token sees only what comes before it, not itself (token 0 alone may, so that no row is empty)."""
    mask = np.zeros((n, n), dtype=bool)
    for i in range(n):
        for j in range(i):
            mask[i, j] = True
    mask[0, 0] = True
    return mask


def causal_mask__wrong_eleventh_slice_in_the_wrong_axis(n: int) -> np.ndarray:
    """The slice of what is allowed stands in the axis of the queries, which gives the upper triangle."""
    mask = np.full((n, n), False)
    for i in range(n):
        mask[: i + 1, i] = True
    return mask


def causal_mask__wrong_eleventh_positions_of_one_byte(n: int) -> np.ndarray:
    """Positions are kept as int8, so beyond 128 tokens they wrap around and the comparison goes wrong."""
    position = np.arange(n).astype(np.int8)  # small, to save memory
    return np.greater_equal.outer(position, position)


def causal_mask__wrong_eleventh_numbers_in_place_of_booleans(n: int) -> np.ndarray:
    """The triangle is right, but it holds the numbers 0.0 and 1.0 and not booleans."""
    return np.cumsum(np.eye(n), axis=0)


def causal_mask__right_eleventh_accumulated_or(n: int) -> np.ndarray:
    """Starts from the diagonal and hands every True down to the rows below by an accumulated “or”."""
    return np.logical_or.accumulate(np.eye(n, dtype=bool), axis=0)


# ------- 3.2 padding_mask


def padding_mask__wrong_eleventh_tokens_at_the_end(lengths: np.ndarray, m: int) -> np.ndarray:
    """Takes the real tokens to stand at the end of each row, behind the filler."""
    first = m - np.asarray(lengths)
    return np.greater_equal(np.arange(m)[None, :], first[:, None])


def padding_mask__wrong_eleventh_runs_not_interleaved(lengths: np.ndarray, m: int) -> np.ndarray:
    """All lengths come first and then all rests, where the runs of True and False should alternate by sequence."""
    B = len(lengths)
    runs = np.concatenate([lengths, m - lengths])
    kinds = np.arange(2 * B) % 2 == 0
    return np.repeat(kinds, runs).reshape(B, m)


def padding_mask__wrong_eleventh_minus_zero_slice(lengths: np.ndarray, m: int) -> np.ndarray:
    """Hides the last m - length places by a negative slice, which is the whole row for a sequence of length m."""
    mask = np.ones((len(lengths), m), dtype=bool)
    for row, length in zip(mask, lengths.tolist()):
        filler = m - length
        row[-filler:] = False
    return mask


def padding_mask__wrong_eleventh_lengths_made_last_places(lengths: np.ndarray, m: int) -> np.ndarray:
    """The mask is right, but the caller's lengths are lowered by one on the way."""
    last = lengths
    last -= 1  # from lengths to the place of the last token
    return np.stack([np.arange(m) <= place for place in last])


def padding_mask__right_eleventh_runs_of_true_and_false(lengths: np.ndarray, m: int) -> np.ndarray:
    """Repeats True and False in turn, by the lengths and by what is left of each row, and folds the result."""
    real = np.asarray(lengths).astype(np.int64)
    runs = np.stack([real, m - real], axis=1).ravel()
    return np.repeat(np.tile([True, False], len(real)), runs).reshape(len(real), m)


# ------- 3.3 masked_softmax


def masked_softmax__wrong_eleventh_lowered_by_ten_thousand(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Hidden scores are lowered by 1e4 and take part: a large one still takes weight from far lower allowed ones."""
    lowered = scores - 1e4 * np.logical_not(mask)
    powers = np.exp(lowered - lowered.max(axis=-1, keepdims=True))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return weights * mask


def masked_softmax__wrong_eleventh_one_maximum_for_all_rows(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The largest allowed score is that of the whole array, so rows far below it underflow and come out as zeros."""
    allowed = np.broadcast_to(mask, scores.shape)
    top = np.max(scores, initial=-np.inf, where=allowed)
    if top == -np.inf:
        return np.zeros(scores.shape, dtype=scores.dtype)
    powers = np.exp(np.where(allowed, scores - top, -np.inf))
    total = np.sum(powers, axis=-1, keepdims=True)
    return np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)


def masked_softmax__wrong_eleventh_table_read_as_sequences(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """A mask (n, m) for scores (B, n, m) is read as one row per sequence, (B, 1, m), where B = n."""
    if mask.ndim == 2 and scores.ndim == 3 and len(mask) == len(scores):
        mask = mask[:, np.newaxis, :]
    hidden = np.where(mask, scores, -np.inf)
    top = hidden.max(axis=-1, keepdims=True)
    top[np.isneginf(top)] = 0
    powers = np.exp(hidden - top)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.maximum(total, np.finfo(total.dtype).tiny)


def masked_softmax__wrong_eleventh_cleans_up_after_a_warning(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The weights are right, but a row with nothing allowed is 0/0 on the way and NumPy warns."""
    masked = np.ma.masked_array(scores, mask=~np.broadcast_to(mask, scores.shape))
    top = masked.max(axis=-1, keepdims=True)
    shift = np.ma.filled(top, 0.0)
    powers = np.exp((masked - shift).filled(-np.inf))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    return np.nan_to_num(weights)


def masked_softmax__right_eleventh_logarithm_of_the_sum(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Subtracts the logarithm of the sum of the allowed exponentials, added up by logaddexp, and takes exponentials."""
    open_scores = np.where(mask, np.asarray(scores, dtype=np.float64), -np.inf)
    log_sum = np.logaddexp.reduce(open_scores, axis=-1, keepdims=True)
    return np.exp(open_scores - np.where(np.isneginf(log_sum), 0.0, log_sum))


def _masked_softmax(scores, mask):
    hidden = np.where(mask, scores, -np.inf)
    top = hidden.max(axis=-1, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    powers = np.exp(hidden - top)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


# ------- 3.4 masked_attention


def masked_attention__wrong_eleventh_empty_query_sees_all(Q, K, V, mask):
    """A query that may attend to nothing is allowed to attend to every key, so that its output is not zero."""
    scores = np.einsum("...id,...jd->...ij", Q, K) / np.sqrt(K.shape[-1])
    mask = np.broadcast_to(mask, scores.shape)
    # a softmax over no keys at all is not defined
    nobody = ~mask.any(axis=-1, keepdims=True)
    usable = mask | nobody
    shifted = np.where(usable, scores, -np.inf)
    shifted = shifted - shifted.max(axis=-1, keepdims=True)
    weights = np.exp(shifted)
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return np.einsum("...ij,...jv->...iv", weights, V), weights


def masked_attention__wrong_eleventh_mask_taken_round_robin(Q, K, V, mask):
    """The flattened leading axes run through the masks by a remainder, which pairs wrongly for a mask (B, 1, n, m)."""
    lead, (n, d_k) = Q.shape[:-2], Q.shape[-2:]
    m, d_v = V.shape[-2:]
    queries, keys, values = Q.reshape(-1, n, d_k), K.reshape(-1, m, d_k), V.reshape(-1, m, d_v)
    mask = np.asarray(mask)
    tables = np.broadcast_to(mask, mask.shape[:-2] + (n, m)).reshape(-1, n, m)
    outputs, weights = [], []
    for s in range(len(queries)):
        table = _masked_softmax(queries[s] @ keys[s].T / d_k**0.5, tables[s % len(tables)])
        weights.append(table)
        outputs.append(table @ values[s])
    return np.array(outputs).reshape(*lead, n, d_v), np.array(weights).reshape(*lead, n, m)


def masked_attention__wrong_eleventh_one_maximum_for_all(Q, K, V, mask):
    """The largest allowed score of the whole array is subtracted, so that rows far below it underflow to zeros."""
    S = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    allowed = np.broadcast_to(mask, S.shape)
    biggest = S[allowed].max() if allowed.any() else 0.0
    E = np.zeros_like(S)
    E[allowed] = np.exp(S[allowed] - biggest)
    Z = E.sum(axis=-1, keepdims=True)
    A = np.divide(E, Z, out=np.zeros_like(E), where=Z > 0)
    return A @ V, A


def masked_attention__wrong_eleventh_scales_the_queries_in_place(Q, K, V, mask):
    """The caller's array of queries is divided by the square root of d_k and stays so."""
    Q /= np.sqrt(Q.shape[-1])
    products = (Q[..., :, None, :] * K[..., None, :, :]).sum(axis=-1)
    weights = _masked_softmax(products, mask)
    output = (weights[..., None] * V[..., None, :, :]).sum(axis=-2)
    return output, weights


def masked_attention__right_eleventh_key_after_key(Q, K, V, mask):
    """Walks through the keys one at a time, with a running maximum, sum and mixture for every query."""
    n, d_k = Q.shape[-2:]
    m, d_v = V.shape[-2:]
    lead = Q.shape[:-2]
    seen = np.broadcast_to(mask, (*lead, n, m))
    kind = np.result_type(Q, K, V)
    top = np.full((*lead, n), -np.inf)
    total = np.zeros((*lead, n))
    mixture = np.zeros((*lead, n, d_v))
    scores = np.full((*lead, n, m), -np.inf)
    for j in range(m):
        s = (Q * K[..., j : j + 1, :]).sum(axis=-1) / np.sqrt(d_k)
        s = np.where(seen[..., j], s, -np.inf)
        scores[..., j] = s
        new_top = np.maximum(top, s)
        level = np.where(np.isneginf(new_top), 0.0, new_top)
        shrink, share = np.exp(top - level), np.exp(s - level)
        total = total * shrink + share
        mixture = mixture * shrink[..., None] + share[..., None] * V[..., j : j + 1, :]
        top = new_top
    level = np.where(np.isneginf(top), 0.0, top)[..., None]
    total = np.where(total == 0, 1.0, total)[..., None]
    return (mixture / total).astype(kind), (np.exp(scores - level) / total).astype(kind)


# ------- 3.5 next_token_pairs


def next_token_pairs__wrong_eleventh_one_long_text(tokens):
    """The rows are chained to one long text and cut anew, so that pairs run over the ends of rows."""
    B, n = tokens.shape
    stream = tokens.reshape(-1)
    many = B * (n - 1)
    inputs = stream[:many].reshape(B, n - 1)
    targets = stream[1 : many + 1].reshape(B, n - 1)
    return inputs, targets


def next_token_pairs__wrong_eleventh_rolled_the_other_way(tokens):
    """The tokens are rolled to the right: a target is the token before its input, and the first one the last."""
    shifted = np.roll(tokens, 1, axis=1)
    pairs = np.stack([tokens, shifted], axis=-1)[:, :-1]
    return pairs[..., 0], pairs[..., 1]


def next_token_pairs__wrong_eleventh_sixteen_bits(tokens):
    """The ids are stored in 16 bits without a sign, so that ids below 0 or from 65,536 on become others."""
    B, n = tokens.shape
    inputs = np.empty((B, n - 1), dtype=np.uint16)  # ids are small
    targets = np.empty((B, n - 1), dtype=np.uint16)
    for i in range(n - 1):
        inputs[:, i] = tokens[:, i].astype(np.uint16)
        targets[:, i] = tokens[:, i + 1].astype(np.uint16)
    return inputs, targets


def next_token_pairs__wrong_eleventh_id_zero_is_left_out(tokens):
    """Id 0 is believed to be the pad, and targets of that id become -100."""
    keep = np.arange(tokens.shape[1] - 1)
    inputs = np.take(tokens, keep, axis=1)
    following = np.take(tokens, keep + 1, axis=1)
    targets = np.where(following == 0, -100, following)
    return inputs, targets


def next_token_pairs__right_eleventh_windows_of_two(tokens):
    """Lays a window of two tokens over each row and takes its two ends."""
    pairs = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    return pairs[:, :, 0].copy(), pairs[:, :, 1].copy()


# ------- 3.6 leaks_future


def leaks_future__wrong_eleventh_absolute_tolerance(attend, Q, K, V):
    """Compares with np.allclose, whose absolute tolerance hides every leak where outputs are very small."""
    rng = np.random.default_rng(0)
    n = len(Q)
    if n == 1:
        return False
    plain = attend(Q, K, V)
    for cut in range(1, n):
        late = (np.arange(n) >= cut)[:, None]
        K_new = np.where(late, np.where(K > 0, -1, 1) * rng.uniform(1, 2, K.shape), K)
        V_new = np.where(late, np.where(V > 0, -1, 1) * rng.uniform(1, 2, V.shape), V)
        row = attend(Q, K_new, V_new)[cut - 1]
        if not np.allclose(row, plain[cut - 1], rtol=1e-5):
            return True
    return False


def leaks_future__wrong_eleventh_later_rows_reversed(attend, Q, K, V):
    """Turns round the order of the later keys and values, which an attention that sees them all does not notice."""
    n = len(K)
    if n == 1:
        return False
    before = np.asarray(attend(Q, K, V))
    for t in range(1, n):
        order = np.concatenate([np.arange(t), np.arange(t, n)[::-1]])
        after = np.asarray(attend(Q, K[order], V[order]))
        change = np.abs(after - before)[:t].max(axis=1)
        size = np.maximum(np.abs(after), np.abs(before))[:t].max(axis=1)
        if (change > 2e-5 * size).any():
            return True
    return False


def leaks_future__wrong_eleventh_values_one_row_late(attend, Q, K, V):
    """Changes the keys from the cut on but the values only behind it, and misses values seen just one step ahead."""
    rng = np.random.default_rng(7)
    n = Q.shape[0]
    base = attend(Q, K, V)
    for t in range(n - 1):
        keys, values = K.copy(), V.copy()
        keys[t + 1 :] += 1 + rng.random(keys[t + 1 :].shape)
        values[t + 2 :] -= 1 + rng.random(values[t + 2 :].shape)
        moved = attend(Q, keys, values)
        for i in range(t + 1):
            scale = max(np.abs(base[i]).max(), np.abs(moved[i]).max())
            if np.abs(moved[i] - base[i]).max() > 1e-5 * scale:
                return True
    return False


def leaks_future__wrong_eleventh_adds_and_subtracts_in_place(attend, Q, K, V):
    """Adds noise to the caller's keys and values and subtracts it again, which rounding does not undo exactly."""
    n = len(Q)
    if n < 2:
        return False
    rng = np.random.default_rng(3)
    reference = np.array(attend(Q, K, V))
    found = False
    for t in range(n - 1, 0, -1):
        noise_K = rng.uniform(1, 2, K[t:].shape) * rng.choice([-1.0, 1.0], K[t:].shape)
        noise_V = rng.uniform(1, 2, V[t:].shape) * rng.choice([-1.0, 1.0], V[t:].shape)
        K[t:] += noise_K
        V[t:] += noise_V
        now = np.array(attend(Q, K, V))
        K[t:] -= noise_K
        V[t:] -= noise_V
        size = np.maximum(np.abs(now[:t]), np.abs(reference[:t])).max(axis=1)
        found = found or bool((np.abs(now[:t] - reference[:t]).max(axis=1) > 3e-5 * size).any())
    return found


def leaks_future__right_eleventh_two_worlds(attend, Q, K, V):
    """Draws two worlds of keys and values and joins, at each cut, the past of one to the future of the other."""
    n = len(Q)
    if n == 1:
        return False
    rng = np.random.default_rng(11)

    def world(like):
        sign = rng.choice([-1.0, 1.0], like.shape)
        return sign * rng.uniform(0.5, 1, like.shape), -sign * rng.uniform(1.5, 2, like.shape)

    (K_here, K_there), (V_here, V_there) = world(K), world(V)
    outputs = []
    for cut in range(1, n + 1):
        past = np.arange(n)[:, None] < cut
        keys, values = np.where(past, K_here, K_there), np.where(past, V_here, V_there)
        outputs.append(np.array(attend(Q, keys.astype(K.dtype), values.astype(V.dtype)), dtype=float))
    for i in range(n - 1):
        same = np.stack([output[i] for output in outputs[i:]])
        if np.ptp(same, axis=0).max() > 3e-5 * np.abs(same).max():
            return True
    return False


# ------- 3.7 packed_causal_mask


def packed_causal_mask__wrong_eleventh_positions_begin_anew_in_each_run(document_ids):
    """The positions begin at 0 again wherever the id changes, also where an interrupted document goes on."""
    B, n = document_ids.shape
    places = np.arange(n)
    mask = (document_ids[:, :, None] == document_ids[:, None, :]) & (places[:, None] >= places)
    begins = np.ones((B, n), dtype=bool)
    begins[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    start = np.maximum.accumulate(np.where(begins, places, 0), axis=1)
    return mask, places - start


def packed_causal_mask__wrong_eleventh_counts_down_the_column(document_ids):
    """The mask is summed over the queries and not over the keys, so that the positions count from the end."""
    n = document_ids.shape[1]
    left = np.expand_dims(document_ids, 2)
    right = np.expand_dims(document_ids, 1)
    mask = np.logical_and(np.equal(left, right), np.tri(n, dtype=bool))
    positions = np.count_nonzero(mask, axis=1) - 1
    return mask, positions


def packed_causal_mask__wrong_eleventh_nearly_equal_ids(document_ids):
    """Ids are compared with np.isclose, which takes large ids that are near each other for the same document."""
    B, n = document_ids.shape
    mask = np.empty((B, n, n), dtype=bool)
    positions = np.empty((B, n), dtype=int)
    for b, ids in enumerate(document_ids):
        mask[b] = np.tril(np.isclose(ids[:, None], ids[None, :]))
        positions[b] = np.tril(mask[b], -1).sum(axis=1)
    return mask, positions


def packed_causal_mask__wrong_eleventh_documents_of_the_whole_batch(document_ids):
    """Counts the tokens of a document through the whole batch: a later row with the same id goes on counting."""
    n = document_ids.shape[1]
    mask = np.zeros((*document_ids.shape, n), dtype=bool)
    positions = np.zeros(document_ids.shape, dtype=np.int64)
    for name in np.unique(document_ids):
        own = document_ids == name
        mask |= own[:, :, None] & own[:, None, :]
        positions[own] = np.arange(own.sum())
    return mask & np.tri(n, dtype=bool), positions


def packed_causal_mask__right_eleventh_by_sorting(document_ids):
    """Sorts each row stably, numbers documents and tokens in the sorted row, and carries both numbers back."""
    B, n = document_ids.shape
    order = np.argsort(document_ids, axis=1, kind="stable")
    ranked = np.take_along_axis(document_ids, order, axis=1)
    new = np.ones((B, n), dtype=bool)
    new[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    places = np.broadcast_to(np.arange(n), (B, n))
    start = np.maximum.accumulate(np.where(new, places, 0), axis=1)
    positions, label = np.empty((B, n), dtype=np.int64), np.empty((B, n), dtype=np.int64)
    np.put_along_axis(positions, order, places - start, axis=1)
    np.put_along_axis(label, order, np.cumsum(new, axis=1), axis=1)
    mask = label[:, :, None] == label[:, None, :]
    return np.tril(mask), positions
