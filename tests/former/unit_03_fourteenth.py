"""Answers to the exercises of unit 3, wrong ones and right ones, as students would write them."""

import numpy as np

_room = {}


def _softmax(z, axis=-1):
    """The stable softmax of unit 2."""
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _masked_softmax(scores, mask):
    """The softmax over the last axis among the allowed keys; zeros where nothing is allowed."""
    hidden = np.where(mask, scores, -np.inf)
    top = hidden.max(axis=-1, keepdims=True)
    powers = np.exp(hidden - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total > 0, total, 1)


# ------- 3.1 causal_mask


def causal_mask__wrong_fourteenth_true_means_hidden(n: int) -> np.ndarray:
    """Marks the future with True, as what is to be hidden; due is True where a query may attend."""
    query = np.arange(n).reshape(n, 1)
    key = np.arange(n).reshape(1, n)
    future = key > query
    return future


def causal_mask__wrong_fourteenth_itself_not_known(n):
    """Thinks that a token may see only those before it, and lets token 0 alone see itself; the diagonal is due."""
    mask = np.tri(n, k=-1).astype(bool)
    mask[0, 0] = True  # no row is empty
    return mask


def causal_mask__wrong_fourteenth_only_one_step_back(n):
    """Lets a query see itself and its neighbour before it; due is all of the past."""
    allowed = np.zeros((n, n), dtype=bool)
    for i in range(n):
        for j in range(n):
            if i - j == 0 or i - j == 1:
                allowed[i, j] = True
    return allowed


def causal_mask__wrong_fourteenth_diagonal_too_many(n):
    """Takes k=1 for the main diagonal of tril, so that each query also sees the next key."""
    everything = np.ones((n, n), dtype=bool)
    return np.tril(everything, k=1)


def causal_mask__wrong_fourteenth_row_zero_left_out(n):
    """Fills the rows from 1 on and forgets row 0, which should see itself."""
    M = np.full((n, n), False)
    for i in range(1, n):
        M[i, : i + 1] = True
    return M


def causal_mask__wrong_fourteenth_rows_taken_for_keys(n):
    """Reads entry [i, j] as key i and query j and returns the upper triangle; rows are queries."""
    keys, queries = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    return keys <= queries


def causal_mask__wrong_fourteenth_short_integers_wrap(n):
    """Numbers the positions in uint8 to save memory; from n = 257 on they wrap, and the future is seen."""
    positions = np.arange(n).astype(np.uint8)
    return positions[None, :] <= positions[:, None]


def causal_mask__wrong_fourteenth_same_memory_again(n):
    """Writes each mask into one array that it keeps, so that a mask returned before changes in the next call."""
    store = _room.get("causal")
    if store is None or store.size < n * n:
        store = _room["causal"] = np.empty(max(n * n, 4096), dtype=bool)
    mask = store[: n * n].reshape(n, n)
    places = np.arange(n)
    np.greater_equal(places[:, None], places, out=mask)
    return mask


def causal_mask__right_fourteenth_what_was_seen_stays(n):
    """Runs an "or" down the columns of the identity: who has come once may be seen from then on."""
    return np.logical_or.accumulate(np.eye(n, dtype=bool), axis=0)


# ------- 3.2 padding_mask


def padding_mask__wrong_fourteenth_true_is_filler(lengths: np.ndarray, m: int) -> np.ndarray:
    """Understands the padding mask as one that marks the padding; True is due where a key is real."""
    columns = np.arange(m)
    return columns[np.newaxis, :] >= lengths[:, np.newaxis]


def padding_mask__wrong_fourteenth_length_as_last_place(lengths, m):
    """Takes the length for the place of the last real token, so that one pad of each sequence counts as real."""
    return np.array([[j <= length for j in range(m)] for length in lengths], dtype=bool).reshape(len(lengths), m)


def padding_mask__wrong_fourteenth_pads_in_front(lengths, m):
    """Thinks of pads on the left and marks the last places of each row; the real tokens come first."""
    n_pads = m - np.asarray(lengths)
    return np.arange(m) >= n_pads[:, None]


def padding_mask__wrong_fourteenth_counts_from_one(lengths, m):
    """Numbers the keys 1 to m and keeps the strict comparison, so that the last real token is hidden."""
    j = np.arange(1, m + 1)
    limit = np.expand_dims(lengths, 1)
    return np.less(j, limit)


def padding_mask__wrong_fourteenth_reshape_for_transpose(lengths, m):
    """Builds the (m, B) table and reshapes it to (B, m) where it should be transposed."""
    B = lengths.shape[0]
    table = np.arange(m)[:, None] < lengths
    return table.reshape(B, m)


def padding_mask__wrong_fourteenth_as_wide_as_longest(lengths, m):
    """Takes the longest sequence for the width of the batch; due are m columns."""
    width = int(lengths.max())
    mask = np.zeros((len(lengths), width), dtype=bool)
    for b, length in enumerate(lengths):
        mask[b, :length] = True
    return mask


def padding_mask__wrong_fourteenth_full_row_goes_empty(lengths, m):
    """Blanks the last m - length places with a negative slice, which at length m is [-0:] and blanks the whole row."""
    mask = np.ones((len(lengths), m), dtype=bool)
    for row, length in zip(mask, lengths):
        filler = m - length
        row[-filler:] = False
    return mask


def padding_mask__wrong_fourteenth_uses_lengths_up(lengths, m):
    """Counts the lengths down column by column in the caller's own array, which should stay as it is."""
    columns = []
    for _ in range(m):
        columns.append(lengths > 0)
        lengths -= 1
    return np.stack(columns, axis=1)


def padding_mask__right_fourteenth_marks_the_ends(lengths, m):
    """Puts a mark behind the last token of each row and keeps what no mark has come before."""
    B = len(lengths)
    over = np.zeros((B, m + 1), dtype=bool)
    over[np.arange(B), lengths] = True
    over = np.logical_or.accumulate(over, axis=1)
    return ~over[:, :m]


# ------- 3.3 masked_softmax


def masked_softmax__wrong_fourteenth_hidden_score_zero(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Thinks that a score of 0 means absent; a hidden key then still gets exp(0), where 0 is due."""
    s = np.where(mask, scores, 0.0)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def masked_softmax__wrong_fourteenth_mask_after_softmax(scores, mask):
    """Takes the softmax over all keys and then blanks the hidden ones; the rows no longer sum to 1."""
    largest = np.max(scores, axis=-1, keepdims=True)
    exponentials = np.exp(scores - largest)
    weights = exponentials / np.sum(exponentials, axis=-1, keepdims=True)
    return weights * mask


def masked_softmax__wrong_fourteenth_empty_row_spread_evenly(scores, mask):
    """Believes that weights always sum to 1 and spreads an empty row evenly; zeros are due there."""
    mask = np.broadcast_to(mask, scores.shape)
    shifted = np.where(mask, scores, -np.inf)
    best = shifted.max(axis=-1, keepdims=True)
    best[best == -np.inf] = 0
    e = np.exp(shifted - best)
    total = e.sum(axis=-1, keepdims=True)
    m = scores.shape[-1]
    return np.where(total == 0, 1 / m, e / np.where(total == 0, 1, total))


def masked_softmax__wrong_fourteenth_largest_of_all_keys(scores, mask):
    """Subtracts the largest score of the row, hidden ones included, so that a huge hidden score drowns the others."""
    top = scores.max(axis=-1, keepdims=True)
    powers = np.where(mask, np.exp(scores - top), 0)
    total = powers.sum(axis=-1, keepdims=True)
    out = np.zeros_like(powers)
    np.divide(powers, total, out=out, where=total > 0)
    return out


def masked_softmax__wrong_fourteenth_one_maximum_for_all(scores, mask):
    """Subtracts one largest allowed score from all rows, so that rows far below it come out as zeros."""
    allowed = np.where(mask, scores, -np.inf)
    peak = allowed.max()
    if peak == -np.inf:
        return np.zeros(scores.shape, dtype=scores.dtype)
    expo = np.exp(allowed - peak)
    norm = expo.sum(-1)[..., None]
    norm = np.where(norm == 0, 1, norm)
    return expo / norm


def masked_softmax__wrong_fourteenth_axis_one_for_last(scores, mask):
    """Reads "last axis" as axis 1, which is the last for a table alone, not for a batch of tables."""
    where_allowed = np.where(mask, scores, -np.inf)
    high = where_allowed.max(axis=1, keepdims=True)
    high = np.where(high == -np.inf, 0, high)
    p = np.exp(where_allowed - high)
    s = p.sum(axis=1, keepdims=True)
    return p / (s + (s == 0))


def masked_softmax__wrong_fourteenth_fill_not_low_enough(scores, mask):
    """Fills hidden places with -1e4, which ties with an allowed score of -1e4; the hidden key then takes a share."""
    filled = np.where(mask, scores, -1e4)
    weights = _softmax(filled)
    some = np.broadcast_to(mask, scores.shape).any(axis=-1, keepdims=True)
    return np.where(some, weights, 0.0)


def masked_softmax__wrong_fourteenth_warns_on_empty_rows(scores, mask):
    """Lets an empty row become NaN and mends it afterwards; right numbers, but with the warning it should not raise."""
    minus = np.where(mask, scores, -np.inf)
    e = np.exp(minus - minus.max(axis=-1, keepdims=True))
    return np.nan_to_num(e / e.sum(axis=-1, keepdims=True))


def masked_softmax__right_fourteenth_logarithm_of_the_sum(scores, mask):
    """Takes the logarithm of each row's sum with logaddexp and never divides."""
    z = np.where(mask, np.asarray(scores, dtype=np.float64), -np.inf)
    log_total = np.logaddexp.reduce(z, axis=-1, keepdims=True)
    log_total = np.where(np.isneginf(log_total), 0.0, log_total)
    return np.exp(z - log_total)


# ------- 3.4 masked_attention


def masked_attention__wrong_fourteenth_rescales_after_masking(Q, K, V, mask):
    """Takes the softmax first, blanks and rescales; a large hidden score leaves nothing to rescale."""
    d_k = Q.shape[-1]
    S = Q @ K.swapaxes(-1, -2) / np.sqrt(d_k)
    A = _softmax(S) * mask
    rest = A.sum(axis=-1, keepdims=True)
    A = A / np.where(rest == 0, 1, rest)
    return A @ V, A


def masked_attention__wrong_fourteenth_scales_the_weights(Q, K, V, mask):
    """Divides the weights by the root of d_k, not the scores; they no longer sum to 1."""
    products = np.einsum("...id,...jd->...ij", Q, K)
    weights = _masked_softmax(products, mask) / np.sqrt(K.shape[-1])
    output = np.einsum("...ij,...jc->...ic", weights, V)
    return output, weights


def masked_attention__wrong_fourteenth_shares_among_queries(Q, K, V, mask):
    """Lets each key share itself out among the queries; the softmax of a query over its keys is due."""
    scores = np.matmul(Q, np.swapaxes(K, -2, -1)) / np.sqrt(Q.shape[-1])
    full = np.broadcast_to(mask, scores.shape)
    by_key = _masked_softmax(np.swapaxes(scores, -2, -1), np.swapaxes(full, -2, -1))
    weights = np.swapaxes(by_key, -2, -1)
    return np.matmul(weights, V), weights


def masked_attention__wrong_fourteenth_width_from_axis_one(Q, K, V, mask):
    """Takes axis 1 of Q for d_k; in a batch that is the number of queries."""
    scale = 1.0 / np.sqrt(Q.shape[1])
    A = _masked_softmax((Q @ np.moveaxis(K, -1, -2)) * scale, mask)
    return (A @ V, A)


def masked_attention__wrong_fourteenth_keys_reshaped(Q, K, V, mask):
    """Reshapes K to (..., d_k, m) where its last two axes should be swapped."""
    *lead, m, d_k = K.shape
    K_turned = K.reshape(*lead, d_k, m)
    scores = Q @ K_turned / d_k**0.5
    attn = _masked_softmax(scores, mask)
    return attn @ V, attn


def masked_attention__wrong_fourteenth_other_mask_convention(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reads the mask as nn.MultiheadAttention does, True = hidden; True = may attend is due."""
    scores = (Q / np.sqrt(Q.shape[-1])) @ np.swapaxes(K, -1, -2)
    scores = np.where(mask, -np.inf, scores)
    row_max = scores.max(axis=-1, keepdims=True)
    row_max = np.where(row_max == -np.inf, 0.0, row_max)
    powers = np.exp(scores - row_max)
    sums = powers.sum(axis=-1, keepdims=True)
    weights = powers / np.where(sums == 0, 1.0, sums)
    return weights @ V, weights


def masked_attention__wrong_fourteenth_guesses_a_padding_mask(Q, K, V, mask):
    """Takes a flat mask with B rows for a padding mask; where B = n it was one of shape (n, m), the same for all."""
    if Q.ndim == 3 and mask.ndim == 2 and mask.shape[0] == Q.shape[0]:
        mask = mask[:, None, :]
    S = Q @ np.transpose(K, (*range(K.ndim - 2), K.ndim - 1, K.ndim - 2)) / np.sqrt(Q.shape[-1])
    weights = _masked_softmax(S, mask)
    return weights @ V, weights


def masked_attention__wrong_fourteenth_centres_callers_keys(Q, K, V, mask):
    """Takes the mean off the keys, which changes no weight, but does so in the caller's array."""
    K -= K.mean(axis=-2, keepdims=True)  # smaller scores, same softmax
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(K.shape[-1])
    weights = _masked_softmax(scores, mask)
    output = weights @ V
    return output, weights


def masked_attention__right_fourteenth_each_query_by_itself(Q, K, V, mask):
    """Goes through all queries one by one and works with nothing but the keys that each may see."""
    n, m = Q.shape[-2], K.shape[-2]
    lead = Q.shape[:-2]
    allowed = np.broadcast_to(mask, (*lead, n, m))
    output = np.zeros((*lead, n, V.shape[-1]), dtype=np.result_type(Q, K, V, np.float32))
    weights = np.zeros((*lead, n, m), dtype=output.dtype)
    for at in np.ndindex(*lead, n):
        b, seen = at[:-1], np.flatnonzero(allowed[at])
        if seen.size == 0:
            continue
        s = K[b][seen] @ Q[at] / np.sqrt(Q.shape[-1])
        e = np.exp(s - s.max())
        a = e / e.sum()
        weights[at][seen] = a
        output[at] = a @ V[b][seen]
    return output, weights


# ------- 3.5 next_token_pairs


def next_token_pairs__wrong_fourteenth_target_is_itself(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lets each position say its own token; the token that follows is due."""
    inputs = tokens[:, :-1]
    targets = inputs.copy()
    return inputs, targets


def next_token_pairs__wrong_fourteenth_always_the_last_word(tokens):
    """Thinks that every beginning is to predict the last token of its row; the next one is due."""
    x = tokens[:, :-1]
    last = tokens[:, -1:]
    return x, np.broadcast_to(last, x.shape).copy()


def next_token_pairs__wrong_fourteenth_goes_round_in_circles(tokens):
    """Keeps all n columns and lets the last token predict the first; n - 1 pairs are due."""
    following = np.roll(tokens, -1, axis=1)
    return tokens.copy(), following


def next_token_pairs__wrong_fourteenth_forgets_the_comma(tokens):
    """Slices the batch where the columns are meant, so that sequence b + 1 is the target of sequence b."""
    return tokens[:-1], tokens[1:]


def next_token_pairs__wrong_fourteenth_rolls_other_way(tokens):
    """Rolls to the right where left is due, so that the target is the token before the input."""
    n = tokens.shape[1]
    shifted = np.roll(tokens, 1, axis=1)
    return tokens[:, : n - 1], shifted[:, : n - 1]


def next_token_pairs__wrong_fourteenth_targets_come_first(tokens):
    """Returns (targets, inputs) where the tuple (inputs, targets) is asked for."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    return targets, inputs


def next_token_pairs__wrong_fourteenth_loses_single_axes(tokens):
    """Splits off columns and squeezes, so that a batch of one sequence, or of two tokens, loses an axis."""
    columns = np.split(tokens, tokens.shape[1], axis=1)
    inputs = np.concatenate(columns[:-1], axis=1)
    targets = np.concatenate(columns[1:], axis=1)
    return np.squeeze(inputs), np.squeeze(targets)


def next_token_pairs__wrong_fourteenth_ids_become_floats(tokens):
    """Fills arrays of np.zeros, which are float64; integers are due."""
    B, n = tokens.shape
    inputs = np.zeros((B, n - 1))
    targets = np.zeros((B, n - 1))
    for b in range(B):
        for i in range(n - 1):
            inputs[b, i] = tokens[b, i]
            targets[b, i] = tokens[b, i + 1]
    return inputs, targets


def next_token_pairs__right_fourteenth_windows_of_two(tokens):
    """Lays a window of two tokens over each row and takes its first and its second entry."""
    pairs = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    return pairs[..., 0], pairs[..., 1]


# ------- 3.6 leaks_future


def leaks_future__wrong_fourteenth_only_last_token_changed(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Does the one experiment of section 5, with the last token; a look at a token in the middle goes unseen."""
    if len(Q) == 1:
        return False
    rng = np.random.default_rng(0)
    before = attend(Q, K, V)
    K2, V2 = K.copy(), V.copy()
    K2[-1] += rng.standard_normal(K.shape[1])
    V2[-1] += rng.standard_normal(V.shape[1])
    after = attend(Q, K2, V2)
    size = np.maximum(np.abs(before), np.abs(after)).max(axis=1)
    moved = np.abs(after - before).max(axis=1)
    return bool((moved[:-1] > 1e-5 * size[:-1]).any())


def leaks_future__wrong_fourteenth_values_only(attend, Q, K, V):
    """Believes that a leak must come through the values and leaves the keys alone; a leak through keys is missed."""
    n = Q.shape[0]
    rng = np.random.default_rng(1)
    reference = np.array(attend(Q, K, V))
    for cut in range(1, n):
        other = V.copy()
        other[cut:] = rng.normal(size=other[cut:].shape)
        result = np.array(attend(Q, K, other))
        for i in range(cut):
            scale = max(np.abs(reference[i]).max(), np.abs(result[i]).max())
            if np.abs(result[i] - reference[i]).max() > 1e-5 * scale:
                return True
    return False


def leaks_future__wrong_fourteenth_queries_count_too(attend, Q, K, V):
    """Takes a later query for future as well and changes it; an attention may be causal in keys and values alone."""
    g = np.random.default_rng(7)
    base = attend(Q, K, V)
    found = False
    for t in range(1, len(K)):
        Qc, Kc, Vc = Q.copy(), K.copy(), V.copy()
        for array in (Qc, Kc, Vc):
            array[t:] += g.uniform(0.5, 1.5, array[t:].shape)
        now = attend(Qc, Kc, Vc)
        step = np.abs(now[:t] - base[:t]).max(axis=1)
        height = np.abs(base[:t]).max(axis=1) + np.abs(now[:t]).max(axis=1)
        found = found or bool((step > 1e-5 * height).any())
    return found


def leaks_future__wrong_fourteenth_sign_not_dropped(attend, Q, K, V):
    """Forgets the absolute value of the difference, so that a leak that only lowers outputs is missed."""
    rng = np.random.default_rng(0)
    plain = attend(Q, K, V)
    for k in range(1, len(Q)):
        K_new = np.vstack([K[:k], rng.standard_normal(K[k:].shape)])
        V_new = np.vstack([V[:k], rng.standard_normal(V[k:].shape)])
        diff = attend(Q, K_new, V_new)[:k] - plain[:k]
        size = np.abs(plain[:k]).max(axis=1, keepdims=True)
        if np.any(diff > 1e-5 * size):
            return True
    return False


def leaks_future__wrong_fourteenth_last_cut_missing(attend, Q, K, V):
    """Stops the cuts one too early, so that what only the last but one row sees of the last token is missed."""
    n, rng = len(K), np.random.default_rng(3)
    first = attend(Q, K, V)
    verdicts = []
    for cut in range(1, n - 1):
        later = np.arange(n)[:, None] >= cut
        changed = attend(
            Q,
            np.where(later, rng.standard_normal(K.shape), K),
            np.where(later, rng.standard_normal(V.shape), V),
        )
        gap = np.abs(changed - first)[:cut].max(axis=1)
        size = np.maximum(np.abs(changed), np.abs(first))[:cut].max(axis=1)
        verdicts.append((gap > 1e-5 * size).any())
    return bool(np.any(verdicts))


def leaks_future__wrong_fourteenth_tolerance_without_size(attend, Q, K, V):
    """Reads the tolerance as a millionth in itself; it is meant as a share of the row's size, whatever the unit."""
    rng = np.random.default_rng(0)
    normal = attend(Q, K, V)
    for i in range(len(Q) - 1):
        K_, V_ = K.copy(), V.copy()
        K_[i + 1 :] = rng.standard_normal((len(K) - i - 1, K.shape[1]))
        V_[i + 1 :] = rng.standard_normal((len(V) - i - 1, V.shape[1]))
        if not np.allclose(attend(Q, K_, V_)[: i + 1], normal[: i + 1], rtol=0, atol=1e-6):
            return True
    return False


def leaks_future__wrong_fourteenth_zeros_stay_zeros(attend, Q, K, V):
    """Changes later keys and values by factors, which does nothing where they are 0."""
    factors = np.random.default_rng(5).uniform(1.5, 3.0, size=(len(K), 1)) * -1
    start = attend(Q, K, V)

    def moved(cut):
        scale = np.ones((len(K), 1))
        scale[cut:] = factors[cut:]
        end = attend(Q, K * scale, V * scale)
        top = np.maximum(abs(start[:cut]).max(1), abs(end[:cut]).max(1))
        return (abs(end[:cut] - start[:cut]).max(1) > 1e-5 * top).any()

    return any([bool(moved(cut)) for cut in range(1, len(K))])


def leaks_future__wrong_fourteenth_asks_too_often(attend, Q, K, V):
    """Right in what it finds, but measures the unchanged outputs anew at each cut: 2(n - 1) calls, n are allowed."""
    rng = np.random.default_rng(0)
    for position in range(1, len(Q)):
        later_K, later_V = K.copy(), V.copy()
        later_K[position:] = rng.standard_normal(K[position:].shape)
        later_V[position:] = rng.standard_normal(V[position:].shape)
        a = np.asarray(attend(Q, K, V))[:position]
        b = np.asarray(attend(Q, later_K, later_V))[:position]
        size = np.maximum(np.abs(a), np.abs(b)).max(axis=1)
        if (np.abs(a - b).max(axis=1) > 1e-5 * size).any():
            return True
    return False


def leaks_future__right_fourteenth_drawn_tokens_and_spread(attend, Q, K, V):
    """Draws all keys and values anew, swaps the later ones call by call, and looks at the spread of each row."""
    n = len(Q)
    if n == 1:
        return False
    rng = np.random.default_rng(0)

    def drawn(shape, low, high):
        return rng.uniform(low, high, shape), rng.choice([-1.0, 1.0], shape)

    size_K, sign_K = drawn(K.shape, 0.5, 1.0)
    size_V, sign_V = drawn(V.shape, 0.5, 1.0)
    answers = [np.array(attend(Q.copy(), sign_K * size_K, sign_V * size_V))]
    for cut in range(1, n):  # opposite signs and other sizes from the cut on
        K_now, V_now = sign_K * size_K, sign_V * size_V
        K_now[cut:] = -sign_K[cut:] * rng.uniform(1.2, 2.0, K[cut:].shape)
        V_now[cut:] = -sign_V[cut:] * rng.uniform(1.2, 2.0, V[cut:].shape)
        answers.append(np.array(attend(Q.copy(), K_now, V_now)))
    for i in range(n - 1):
        rows = np.stack([answers[0][i]] + [answers[cut][i] for cut in range(i + 1, n)])
        if np.ptp(rows, axis=0).max() > 3e-5 * np.abs(rows).max():
            return True
    return False


# ------- 3.7 packed_causal_mask


def packed_causal_mask__wrong_fourteenth_interruption_ends_document(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes each run of equal ids for a document; one that is interrupted should go on behind the interruption."""
    B, n = document_ids.shape
    begins = np.ones((B, n), dtype=int)
    begins[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    run = np.cumsum(begins, axis=1)
    mask = (run[:, :, None] == run[:, None, :]) & np.tri(n, dtype=bool)
    return mask, mask.sum(axis=-1) - 1


def packed_causal_mask__wrong_fourteenth_ids_as_order(document_ids):
    """Takes ids for numbers in order and lets a token see documents of smaller ids before it; only equal ones count."""
    n = document_ids.shape[1]
    places = np.arange(n)
    past = places[None, :] <= places[:, None]
    not_later = document_ids[:, None, :] <= document_ids[:, :, None]
    same = document_ids[:, None, :] == document_ids[:, :, None]
    positions = (past & same).sum(axis=2) - 1
    return past & not_later, positions


def packed_causal_mask__wrong_fourteenth_positions_of_the_row(document_ids):
    """Gives each token its place in the row; its number within its own document is due."""
    B, n = document_ids.shape
    same = np.equal(document_ids[..., :, None], document_ids[..., None, :])
    mask = np.tril(same)
    positions = np.tile(np.arange(n), (B, 1))
    return mask, positions


def packed_causal_mask__wrong_fourteenth_counts_itself(document_ids):
    """Counts the keys that a token sees, itself included, so that positions begin at 1; from 0 is due."""
    causal = np.tri(document_ids.shape[-1], dtype=bool)
    together = document_ids[:, :, None] == document_ids[:, None, :]
    mask = causal[None] & together
    positions = np.count_nonzero(mask, axis=-1)
    return mask, positions


def packed_causal_mask__wrong_fourteenth_sums_over_queries(document_ids):
    """Sums the mask over the queries, not over the keys, and so counts each document from its end."""
    n = document_ids.shape[1]
    i, j = np.indices((n, n))
    mask = np.logical_and(document_ids[:, i] == document_ids[:, j], j <= i)
    return mask, mask.sum(axis=1) - 1


def packed_causal_mask__wrong_fourteenth_numbered_across_rows(document_ids):
    """Goes on numbering a document where its id occurs in a later row; each row should stand for itself."""
    B, n = document_ids.shape
    mask = np.zeros((B, n, n), dtype=bool)
    positions = np.zeros((B, n), dtype=int)
    seen_before = {}
    for b in range(B):
        mask[b] = np.tri(n, dtype=bool) & (document_ids[b][:, None] == document_ids[b])
        for name, count in zip(*np.unique(document_ids[b], return_counts=True)):
            here = document_ids[b] == name
            first = seen_before.get(int(name), 0)
            positions[b, here] = first + np.arange(count)
            seen_before[int(name)] = first + int(count)
    return mask, positions


def packed_causal_mask__wrong_fourteenth_nearly_equal_ids(document_ids):
    """Compares ids with isclose, so that large ids that lie side by side pass for one document."""
    ids = document_ids
    n = ids.shape[1]
    mask = np.isclose(ids[:, :, None], ids[:, None, :]) & np.tri(n, dtype=bool)
    positions = mask.sum(-1) - 1
    return mask, positions


def packed_causal_mask__wrong_fourteenth_loop_over_tokens(document_ids):
    """Right numbers, but the positions are counted token by token in Python, which is forbidden."""
    B, n = document_ids.shape
    positions = np.empty((B, n), dtype=int)
    for b in range(B):
        count = {}
        for i, name in enumerate(document_ids[b].tolist()):
            positions[b, i] = count.get(name, 0)
            count[name] = positions[b, i] + 1
    same = document_ids[:, :, None] == document_ids[:, None, :]
    return same & np.tri(n, dtype=bool), positions


def packed_causal_mask__right_fourteenth_sorted_by_document(document_ids):
    """Sorts each row by document, numbers the sorted tokens, carries that back, and builds the mask from both."""
    B, n = document_ids.shape
    order = np.argsort(document_ids, axis=1, kind="stable")
    lined_up = np.take_along_axis(document_ids, order, axis=1)
    new = np.ones((B, n), dtype=bool)
    new[:, 1:] = lined_up[:, 1:] != lined_up[:, :-1]
    places = np.arange(n)
    first = np.maximum.accumulate(np.where(new, places, 0), axis=1)  # where the document begins
    names, positions = np.empty((B, n), dtype=int), np.empty((B, n), dtype=int)
    np.put_along_axis(names, order, np.cumsum(new, axis=1), axis=1)
    np.put_along_axis(positions, order, places - first, axis=1)
    same = names[:, :, None] == names[:, None, :]
    mask = same & (positions[:, :, None] >= positions[:, None, :])
    return mask, positions
