"""Answers to the exercises of unit 3, wrong ones and right ones, as students would write them."""

import numpy as np


def _softmax(z, axis=-1):
    """The stable softmax of unit 2, without any mask (given by the notebook)."""
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _masked_softmax(scores, mask):
    """A right answer to exercise 3.3, for the later ones."""
    hidden_away = np.where(mask, scores, -np.inf)
    top = hidden_away.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    powers = np.exp(hidden_away - top)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


# ------- 3.1 causal_mask


def causal_mask__wrong_thirteenth_token_hidden_from_itself(n: int) -> np.ndarray:
    """Lets a query see only strictly earlier keys (j < i), since it "cannot look at itself"; due is j <= i."""
    query = np.arange(n)[:, np.newaxis]
    key = np.arange(n)[np.newaxis, :]
    return key < query


def causal_mask__wrong_thirteenth_true_means_hidden(n: int) -> np.ndarray:
    """Marks with True what is forbidden (the future), as nn.MultiheadAttention does; due is True = may attend."""
    forbidden = np.zeros((n, n), dtype=bool)
    for i in range(n):
        forbidden[i, i + 1 :] = True  # the future of token i
    return forbidden


def causal_mask__wrong_thirteenth_only_itself_and_predecessor(n: int) -> np.ndarray:
    """Thinks that the next word hangs on the present and the one before alone: a band of two, not all of the past."""
    itself = np.eye(n, dtype=bool)
    one_before = np.eye(n, k=-1, dtype=bool)
    return itself | one_before


def causal_mask__wrong_thirteenth_loop_skips_row_zero(n: int) -> np.ndarray:
    """Fills the rows from 1 on, so that row 0 stays empty, where token 0 should see itself."""
    M = np.full((n, n), False)
    for row in range(1, n):
        M[row, : row + 1] = True
    return M


def causal_mask__wrong_thirteenth_floats_not_booleans(n: int) -> np.ndarray:
    """Forgets the conversion: the lower triangle is right, but of float64 ones and zeros, where booleans are due."""
    return np.tril(np.ones((n, n)))


def causal_mask__wrong_thirteenth_rows_are_keys(n: int) -> np.ndarray:
    """Reads entry [i, j] as key i and query j, which gives the upper triangle; due is row = query, column = key."""
    table = [[key <= query for query in range(n)] for key in range(n)]
    return np.array(table, dtype=bool)


def causal_mask__wrong_thirteenth_single_token_loses_axes(n: int) -> np.ndarray:
    """Squeezes the result: right from n = 2 on, but n = 1 gives shape () and not (1, 1)."""
    distance = np.subtract.outer(np.arange(n), np.arange(n))
    return np.squeeze(distance >= 0)


_ROOM = np.zeros(0, dtype=bool)


def causal_mask__wrong_thirteenth_results_share_one_room(n: int) -> np.ndarray:
    """Writes each mask into one store that is used again, so a call with another n spoils masks returned before."""
    global _ROOM
    if _ROOM.size < n * n:
        _ROOM = np.empty(max(n * n, 4096), dtype=bool)
    mask = _ROOM[: n * n].reshape(n, n)
    np.greater_equal(np.arange(n)[:, None], np.arange(n), out=mask)
    return mask


def causal_mask__right_thirteenth_running_sum_of_identity(n: int) -> np.ndarray:
    """Sums the identity down its columns: from row j on, column j holds a 1."""
    becomes_known = np.eye(n, dtype=int)  # at time i, token i becomes known
    known = np.cumsum(becomes_known, axis=0)
    return known.astype(bool)


# ------- 3.2 padding_mask


def padding_mask__wrong_thirteenth_real_tokens_at_end(lengths: np.ndarray, m: int) -> np.ndarray:
    """Thinks that padding stands in front and makes the last `length` keys real; due are the first ones."""
    first_real = m - lengths
    return np.arange(m)[None, :] >= first_real[:, None]


def padding_mask__wrong_thirteenth_marks_the_filler(lengths: np.ndarray, m: int) -> np.ndarray:
    """A padding mask says, so this student, where the padding is: True at the filler; due is True at real tokens."""
    is_pad = []
    for length in lengths:
        is_pad.append([False] * int(length) + [True] * (m - int(length)))
    return np.array(is_pad, dtype=bool).reshape(len(lengths), m)


def padding_mask__wrong_thirteenth_with_axis_of_queries(lengths: np.ndarray, m: int) -> np.ndarray:
    """Adds the axis of the queries at once, for it to fit the scores: shape (B, 1, m) where (B, m) is due."""
    columns = np.arange(m)
    return columns < np.asarray(lengths)[:, None, None]


def padding_mask__wrong_thirteenth_one_pad_too_many(lengths: np.ndarray, m: int) -> np.ndarray:
    """Compares with <= in place of <, so the first pad counts as real."""
    limit = lengths.reshape(-1, 1)
    key = np.arange(m).reshape(1, -1)
    return np.less_equal(key, limit)


def padding_mask__wrong_thirteenth_axes_the_wrong_way(lengths: np.ndarray, m: int) -> np.ndarray:
    """Stands the keys in the column and lays the lengths along the row: shape (m, B), where (B, m) is due."""
    return np.arange(m)[:, None] < lengths


def padding_mask__wrong_thirteenth_wide_as_longest_sentence(lengths: np.ndarray, m: int) -> np.ndarray:
    """Reads m as the largest length and takes that as the width; due are m columns, even if no sentence needs them."""
    B = lengths.shape[0]
    longest = int(lengths.max())
    real = np.zeros((B, longest), dtype=bool)
    for b in range(B):
        real[b, : lengths[b]] = True
    return real


def padding_mask__wrong_thirteenth_empty_sequence_becomes_full(lengths: np.ndarray, m: int) -> np.ndarray:
    """Marks the last real token and fills to its left; with length 0 the index -1 marks the last key: a full row."""
    B = len(lengths)
    flag = np.zeros((B, m), dtype=bool)
    flag[np.arange(B), lengths - 1] = True
    # all that stands at or before the flag is real
    return np.logical_or.accumulate(flag[:, ::-1], axis=1)[:, ::-1]


def padding_mask__wrong_thirteenth_counts_lengths_down(lengths: np.ndarray, m: int) -> np.ndarray:
    """Takes 1 off the lengths in place for each column: the mask is right, but the caller's lengths are changed."""
    mask = np.empty((len(lengths), m), dtype=bool)
    for j in range(m):
        mask[:, j] = lengths > 0
        lengths[lengths > 0] -= 1
    return mask


def padding_mask__right_thirteenth_switch_then_accumulate(lengths: np.ndarray, m: int) -> np.ndarray:
    """Sets a switch at the first pad of each row, in an extra column m if there is none, and lets it act rightwards."""
    B = len(lengths)
    filler_from_here = np.zeros((B, m + 1), dtype=bool)
    filler_from_here[np.arange(B), lengths] = True
    filler = np.logical_or.accumulate(filler_from_here, axis=1)
    return ~filler[:, :m]


# ------- 3.3 masked_softmax


def masked_softmax__wrong_thirteenth_hidden_scores_become_zero(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Sets hidden scores to 0, as if that meant absent: exp(0) = 1, and hidden keys get weight; due is -inf."""
    z = scores * mask
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    weights = e / e.sum(axis=-1, keepdims=True)
    sees_something = np.any(np.broadcast_to(mask, scores.shape), axis=-1, keepdims=True)
    return weights * sees_something


def masked_softmax__wrong_thirteenth_weights_hidden_not_scores(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Masks the weights after the softmax and leaves it at that: allowed weights should sum to 1, and do not."""
    return _softmax(scores) * mask


def masked_softmax__wrong_thirteenth_empty_row_spreads_evenly(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Thinks that who may see nothing has no preference: 1/m for each key in an empty row; due are zeros."""
    allowed = np.broadcast_to(mask, scores.shape)
    nothing = ~allowed.any(axis=-1, keepdims=True)
    hidden = np.where(allowed, scores, -np.inf)
    hidden = np.where(nothing, 0.0, hidden)  # no preference at all
    return _softmax(hidden)


def masked_softmax__wrong_thirteenth_one_maximum_for_all(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Forgets the axis of the maximum: rows far below the largest score of the whole array underflow to zeros."""
    allowed = np.broadcast_to(mask, scores.shape)
    if not allowed.any():
        return np.zeros_like(scores)
    biggest = scores[allowed].max()
    shifted = np.where(allowed, scores - biggest, -np.inf)
    numerator = np.exp(shifted)
    denominator = numerator.sum(axis=-1, keepdims=True)
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def masked_softmax__wrong_thirteenth_sum_along_axis_one(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Sums along axis 1 in place of the last: right for (n, m), wrong for a batch (B, n, m) and for one row (m,)."""
    S = np.where(mask, scores, -np.inf)
    top = S.max(axis=-1, keepdims=True)
    top[top == -np.inf] = 0
    E = np.exp(S - top)
    total = E.sum(axis=1, keepdims=True)
    total[total == 0] = 1
    return E / total


def masked_softmax__wrong_thirteenth_hides_where_true(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Reads the mask as "True = masked out" and computes the softmax among the keys with False."""
    blocked = np.broadcast_to(mask, scores.shape)
    result = np.zeros(scores.shape)
    for place in np.ndindex(*scores.shape[:-1]):
        free = ~blocked[place]
        if free.any():
            result[place + (free,)] = _softmax(scores[place][free])
    return result


def masked_softmax__wrong_thirteenth_fill_of_minus_10000(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Fills hidden places with -1e4: fine for small scores, but where allowed ones lie there too, hidden ones win."""
    LOW = -1e4
    filled = np.where(mask, scores, LOW)
    weights = _softmax(filled, axis=-1)
    empty = ~np.broadcast_to(mask, scores.shape).any(axis=-1)
    weights[empty] = 0.0
    return weights


def masked_softmax__wrong_thirteenth_warns_on_empty_rows(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Lets empty rows become NaN and turns that into 0: the numbers are right, but NumPy warns, which it must not."""
    weights = _softmax(np.where(mask, scores, -np.inf))
    return np.nan_to_num(weights, nan=0.0)


def masked_softmax__right_thirteenth_by_logaddexp(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Takes the logarithm of the sum over the allowed keys with logaddexp, and weights as exp(score - logarithm)."""
    s = np.where(mask, np.asarray(scores, dtype=np.float64), -np.inf)
    log_total = np.logaddexp.reduce(s, axis=-1, keepdims=True)
    log_total = np.where(np.isneginf(log_total), 0.0, log_total)
    return np.exp(s - log_total)


# ------- 3.4 masked_attention


def masked_attention__wrong_thirteenth_divides_by_d_k(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes the mean of the products over the features, that is, divides by d_k; due is the square root of d_k."""
    d_k = Q.shape[-1]
    similarity = Q @ np.swapaxes(K, -2, -1) / d_k
    A = _masked_softmax(similarity, mask)
    return A @ V, A


def masked_attention__wrong_thirteenth_mask_added_to_scores(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Adds the boolean mask to the scores, as one adds a mask of 0 and -inf: allowed ones gain 1, none is hidden."""
    scores = np.einsum("...nd,...md->...nm", Q, K) / np.sqrt(K.shape[-1])
    scores = scores + mask
    weights = _softmax(scores, axis=-1)
    # who sees nothing gets zeros
    weights = weights * np.broadcast_to(mask, scores.shape).any(axis=-1, keepdims=True)
    output = np.einsum("...nm,...mv->...nv", weights, V)
    return output, weights


def masked_attention__wrong_thirteenth_keys_share_out_queries(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lets each key share 1 among the queries (softmax down the columns); due: each query shares 1 among keys."""
    scores = Q @ K.swapaxes(-1, -2) / Q.shape[-1] ** 0.5
    full = np.broadcast_to(mask, scores.shape)
    by_key = _masked_softmax(scores.swapaxes(-1, -2), full.swapaxes(-1, -2))
    weights = by_key.swapaxes(-1, -2)
    return weights @ V, weights


def masked_attention__wrong_thirteenth_scale_from_axis_one(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Takes d_k from Q.shape[1], which in a batch is not d_k; it is the last axis, whatever stands before."""
    scale = 1.0 / np.sqrt(Q.shape[1])
    Kt = np.moveaxis(K, -1, -2)
    weights = _masked_softmax(np.matmul(Q, Kt) * scale, mask)
    output = np.matmul(weights, V)
    return (output, weights)


def masked_attention__wrong_thirteenth_root_of_d_v(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Divides the scores by the square root of d_v, the width of V, in place of that of d_k."""
    *_, m, d = V.shape
    S = (Q[..., :, None, :] * K[..., None, :, :]).sum(axis=-1)
    S = S / np.sqrt(d)
    A = _masked_softmax(S, mask)
    return A @ V, A


def masked_attention__wrong_thirteenth_weights_come_first(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reads the order of the tuple wrongly and returns (weights, output); due is (output, weights)."""
    axes = list(range(K.ndim))
    axes[-1], axes[-2] = axes[-2], axes[-1]
    scores = Q @ K.transpose(axes)
    scores = scores / np.sqrt(Q.shape[-1])
    attention_weights = _masked_softmax(scores, mask)
    mixture = attention_weights @ V
    return attention_weights, mixture


def masked_attention__wrong_thirteenth_blind_query_sees_all(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fills with -1e9 and uses the plain softmax: a query that may see nothing gets even weights; due are zeros."""
    d_k = K.shape[-1]
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(d_k)
    weights = _softmax(np.where(mask, scores, -1e9))
    return weights @ V, weights


def masked_attention__wrong_thirteenth_works_in_float32(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Computes in float32 to save memory and returns float32, where float64 that comes in has to stay float64."""
    q, k, v = (np.asarray(a, dtype=np.float32) for a in (Q, K, V))
    s = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
    w = _masked_softmax(s, mask).astype(np.float32)
    return w @ v, w


def masked_attention__right_thirteenth_cuts_hidden_keys_out(
    Q: np.ndarray, K: np.ndarray, V: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Goes through all queries one by one and works with the keys that it may see alone, the others cut out."""
    n, m = Q.shape[-2], K.shape[-2]
    front = Q.shape[:-2]
    seen = np.broadcast_to(mask, (*front, n, m))
    kind = np.result_type(Q, K, V)
    weights = np.zeros((*front, n, m), dtype=kind)
    output = np.zeros((*front, n, V.shape[-1]), dtype=kind)
    for where in np.ndindex(*front):
        for i in range(n):
            at = np.flatnonzero(seen[where][i])
            if at.size == 0:
                continue
            s = K[where][at] @ Q[where][i] / np.sqrt(Q.shape[-1])
            powers = np.exp(s - s.max())
            share = powers / powers.sum()
            weights[where][i, at] = share
            output[where][i] = share @ V[where][at]
    return output, weights


# ------- 3.5 next_token_pairs


def next_token_pairs__wrong_thirteenth_target_is_the_input(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Thinks that each position is to say its own token, as in filling gaps: targets equal inputs, not the next."""
    inputs = tokens[:, :-1]
    targets = inputs.copy()
    return inputs, targets


def next_token_pairs__wrong_thirteenth_rows_form_one_stream(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Takes the batch for one long text and cuts it anew, so rows run into each other; each row stands alone."""
    B, n = tokens.shape
    stream = tokens.ravel()
    needed = B * (n - 1)
    x = stream[:needed].reshape(B, n - 1)
    y = stream[1 : needed + 1].reshape(B, n - 1)
    return x, y


def next_token_pairs__wrong_thirteenth_zeros_taken_for_pads(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Takes id 0 for a pad and marks such targets with -100 for the loss; pads stay, and 0 is a token like any."""
    inputs, targets = tokens[:, :-1].copy(), tokens[:, 1:].copy()
    PAD = 0
    targets[targets == PAD] = -100
    return inputs, targets


def next_token_pairs__wrong_thirteenth_two_steps_ahead(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Takes over the slices of the hint, by two: n - 2 columns, and targets two steps ahead in place of one."""
    return tokens[:, :-2], tokens[:, 2:]


def next_token_pairs__wrong_thirteenth_targets_one_behind(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exchanges the two slices, so that the target is the token before the input, not the one after."""
    without_first = tokens[:, 1:]
    without_last = tokens[:, : tokens.shape[1] - 1]
    return without_first, without_last


def next_token_pairs__wrong_thirteenth_keeps_last_column(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Overlooks n - 1 and rolls: (B, n), and the last token gets the first of its row as its successor."""
    following = np.roll(tokens, shift=-1, axis=1)
    return tokens.copy(), following


def next_token_pairs__wrong_thirteenth_repeated_tokens_looked_up(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Looks up each token by its value: where it occurs twice in a row, what follows its first place is taken."""
    inputs, targets = [], []
    for sentence in tokens.tolist():
        known = sentence[:-1]
        inputs.append(known)
        targets.append([sentence[sentence.index(token) + 1] for token in known])
    return np.array(inputs, dtype=tokens.dtype), np.array(targets, dtype=tokens.dtype)


def next_token_pairs__wrong_thirteenth_shifts_tokens_in_place(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Moves the tokens one place to the left within the caller's array: right pairs, but the input is changed."""
    n = tokens.shape[1]
    inputs = tokens[:, : n - 1].copy()
    for i in range(n - 1):
        tokens[:, i] = tokens[:, i + 1]
    return inputs, tokens[:, : n - 1]


def next_token_pairs__right_thirteenth_windows_of_two(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slides a window of two along each row: its first entries are the inputs, its second ones the targets."""
    pairs = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)  # (B, n - 1, 2)
    return pairs[..., 0], pairs[..., 1]


# ------- 3.6 leaks_future


def leaks_future__wrong_thirteenth_last_token_only(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Holds the one experiment of section 5 for enough: the last token changes; leaks of other places stay unseen."""
    n = len(Q)
    if n == 1:
        return False
    rng = np.random.default_rng(3)
    K2, V2 = K.copy(), V.copy()
    K2[-1] += rng.standard_normal(K.shape[1])
    V2[-1] += rng.standard_normal(V.shape[1])
    old, new = attend(Q, K, V)[:-1], attend(Q, K2, V2)[:-1]
    moved = np.abs(new - old).max(axis=1)
    size = np.abs(old).max(axis=1)
    return bool((moved > 3e-5 * size).any())


def leaks_future__wrong_thirteenth_values_alone_change(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Thinks that only values carry anything and leaves the keys alone: a leak through later keys stays unseen."""
    rng = np.random.default_rng(0)
    reference = attend(Q, K, V)
    size = np.abs(reference).max(axis=-1)
    for start in range(1, len(Q)):
        changed = V.copy()
        changed[start:] = V[start:] + rng.uniform(0.5, 2.0, V[start:].shape)
        difference = np.abs(attend(Q, K, changed) - reference).max(axis=-1)
        if np.any(difference[:start] > 2e-5 * size[:start]):
            return True
    return False


def leaks_future__wrong_thirteenth_later_queries_changed_too(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Changes the whole later token, query included: who depends on a later query is accused, which does not count."""
    rng = np.random.default_rng(1)

    def from_here_on(array, place):
        other = array.copy()
        other[place:] += rng.standard_normal(other[place:].shape)
        return other

    before = attend(Q, K, V)
    for place in range(1, len(K)):
        after = attend(*(from_here_on(array, place) for array in (Q, K, V)))
        for i in range(place):
            if np.abs(after[i] - before[i]).max() > 3e-5 * np.abs(before[i]).max():
                return True
    return False


def leaks_future__wrong_thirteenth_no_absolute_value(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Forgets the absolute value of the difference: a leak that only lowers the outputs stays unseen."""
    generator = np.random.default_rng(7)
    n = Q.shape[0]
    out = attend(Q, K, V)
    tolerance = 3e-5 * np.abs(out).max(axis=1, keepdims=True)
    leaky = False
    for s in range(n - 1, 0, -1):
        future = (np.arange(n) >= s)[:, None]
        K_s = np.where(future, generator.standard_normal(K.shape) + K, K)
        V_s = np.where(future, generator.standard_normal(V.shape) + V, V)
        moved = attend(Q, K_s, V_s) - out
        leaky = leaky or bool((moved > tolerance)[:s].any())
    return leaky


def leaks_future__wrong_thirteenth_size_of_whole_output(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Forgets the axis of the size: each row is held against the largest entry of all, so small rows may leak."""
    rng = np.random.default_rng(11)
    base = attend(Q, K, V)
    size = np.abs(base).max()
    for t in range(1, len(Q)):
        K_new = np.concatenate([K[:t], K[t:] + rng.standard_normal(K[t:].shape)])
        V_new = np.concatenate([V[:t], V[t:] + rng.standard_normal(V[t:].shape)])
        gap = np.abs(attend(Q, K_new, V_new)[:t] - base[:t])
        if gap.max() > 3e-5 * size:
            return True
    return False


def leaks_future__wrong_thirteenth_millionth_taken_as_absolute(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Reads "a millionth of its size" as 1e-6 outright: rounding of huge outputs counts, tiny outputs may leak."""
    rng = np.random.default_rng(0)
    honest = attend(Q, K, V)
    for cut in range(1, len(V)):
        K_cut, V_cut = np.array(K), np.array(V)
        K_cut[cut:] = rng.standard_normal((len(K) - cut, K.shape[1]))
        V_cut[cut:] = rng.standard_normal((len(V) - cut, V.shape[1]))
        if not np.allclose(attend(Q, K_cut, V_cut)[:cut], honest[:cut], rtol=0, atol=1e-6):
            return True
    return False


def leaks_future__wrong_thirteenth_zeros_only_multiplied(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Changes later keys and values by factors: where they are 0 nothing changes, and a leak stays unseen."""
    n = len(Q)
    rng = np.random.default_rng(5)
    first = attend(Q, K, V)
    size = np.max(np.abs(first), axis=1)
    for j in range(1, n):
        factor_K, factor_V = np.ones(K.shape), np.ones(V.shape)
        factor_K[j:] = rng.uniform(-3, -1, K[j:].shape)
        factor_V[j:] = rng.uniform(-3, -1, V[j:].shape)
        second = attend(Q, K * factor_K, V * factor_V)
        moved = np.max(np.abs(second - first), axis=1)
        if (moved[:j] > 3e-5 * size[:j]).any():
            return True
    return False


def leaks_future__wrong_thirteenth_asks_twice_per_place(attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> bool:
    """Asks for the unchanged outputs again at each place: the verdict is right, but 2(n - 1) calls, not at most n."""
    rng = np.random.default_rng(2)

    def leaks_at(place):
        K_other, V_other = K.copy(), V.copy()
        K_other[place:] += rng.standard_normal(K[place:].shape)
        V_other[place:] += rng.standard_normal(V[place:].shape)
        plain = attend(Q, K, V)[:place]
        moved = np.abs(attend(Q, K_other, V_other)[:place] - plain)
        return bool((moved.max(axis=1) > 3e-5 * np.abs(plain).max(axis=1)).any())

    return any(leaks_at(place) for place in range(1, len(Q)))


def leaks_future__right_thirteenth_futures_redrawn_backwards(
    attend, Q: np.ndarray, K: np.ndarray, V: np.ndarray
) -> bool:
    """Draws ever longer futures anew, n calls in all, and asks of each row how far its outputs lie apart.

    The base is moved a little at random, so that no sum happens to vanish.
    """
    n = len(Q)
    rng = np.random.default_rng(20)
    keys = K + 0.3 * rng.standard_normal(K.shape)
    values = V + 0.3 * rng.standard_normal(V.shape)
    answers = []
    for begin in range(n, 0, -1):  # begin = n: nothing is drawn anew
        keys, values = keys.copy(), values.copy()
        keys[begin:] = 1.5 * rng.standard_normal(keys[begin:].shape)
        values[begin:] = 1.5 * rng.standard_normal(values[begin:].shape)
        answers.append(np.array(attend(Q, keys, values), dtype=float))
    for i in range(n - 1):
        same_past = np.stack([answer[i] for answer in answers[: n - i]])
        apart = np.ptp(same_past, axis=0).max()
        if apart > 3e-5 * np.abs(same_past[0]).max():
            return True
    return False


# ------- 3.7 packed_causal_mask


def packed_causal_mask__wrong_thirteenth_new_run_new_document(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Thinks that each change of id begins a document: one that is interrupted falls apart into two."""
    B, n = document_ids.shape
    begins = np.ones((B, n), dtype=bool)
    begins[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    number = np.cumsum(begins, axis=1)
    at = np.arange(n)
    mask = (number[:, :, None] == number[:, None, :]) & (at <= at[:, None])
    first = np.maximum.accumulate(np.where(begins, at, 0), axis=1)
    return mask, at - first


def packed_causal_mask__wrong_thirteenth_larger_ids_read_smaller(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes ids for an order and lets a document read those with smaller ids; due is that they are equal."""
    ids = document_ids
    n = ids.shape[1]
    allowed = (ids[:, :, None] >= ids[:, None, :]) & np.tri(n, dtype=bool)
    own = (ids[:, :, None] == ids[:, None, :]) & np.tri(n, dtype=bool)
    return allowed, own.sum(axis=2) - 1


def packed_causal_mask__wrong_thirteenth_counting_goes_on_below(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Takes an id of two rows for one document: its positions go on counting in the next row; each begins at 0."""
    B, n = document_ids.shape
    same = np.equal(document_ids[:, :, None], document_ids[:, None, :])
    mask = np.logical_and(same, np.tri(n, dtype=bool)[None])
    positions = mask.sum(axis=-1) - 1
    for b in range(1, B):  # a loop over rows is allowed
        rows_above = document_ids[:b].reshape(-1)
        positions[b] += (document_ids[b][:, None] == rows_above).sum(axis=1)
    return mask, positions


def packed_causal_mask__wrong_thirteenth_positions_begin_at_one(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Counts for each token what it sees, itself too, and forgets to take 1 off: positions begin at 1, not at 0."""
    q = document_ids[:, :, np.newaxis]
    k = document_ids[:, np.newaxis, :]
    mask = np.tril(q == k)
    return mask, np.count_nonzero(mask, axis=-1)


def packed_causal_mask__wrong_thirteenth_positions_summed_down_columns(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Sums the mask along the queries, not the keys: a token's number is how many come after it, counted backwards."""
    place = np.arange(document_ids.shape[1])
    not_later = place[None, :] <= place[:, None]
    mask = (document_ids[..., None] == document_ids[:, None]) & not_later
    positions = mask.sum(axis=1) - 1
    return mask, positions


def packed_causal_mask__wrong_thirteenth_positions_along_the_row(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Reads "in the order of the row" as the place in the row, 0 to n - 1; due is that within the document."""
    batch, n = document_ids.shape
    mask = np.zeros((batch, n, n), dtype=bool)
    for b, ids in enumerate(document_ids):
        mask[b] = np.tri(n, dtype=bool) & (ids[:, None] == ids[None, :])
    positions = np.tile(np.arange(n), (batch, 1))
    return mask, positions


def packed_causal_mask__wrong_thirteenth_large_ids_almost_equal(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compares ids with isclose: right for small ones, but 10**6 and 10**6 + 1 count as the same document."""
    n = document_ids.shape[1]
    same_document = np.isclose(document_ids[:, :, None], document_ids[:, None, :])
    causal = np.arange(n)[:, None] >= np.arange(n)[None, :]
    mask = same_document & causal
    return mask, mask.sum(axis=-1) - 1


def packed_causal_mask__wrong_thirteenth_loop_over_tokens(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Gives the right mask and positions, but goes through the tokens in a Python loop, which is forbidden."""
    B, n = document_ids.shape
    mask = np.zeros((B, n, n), dtype=bool)
    positions = np.zeros((B, n), dtype=int)
    for i in range(n):
        mine = document_ids[:, : i + 1] == document_ids[:, i : i + 1]
        mask[:, i, : i + 1] = mine
        positions[:, i] = mine.sum(axis=1) - 1
    return mask, positions


def packed_causal_mask__right_thirteenth_one_line_per_document(
    document_ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Lists the documents of each row with unique, marks their tokens line by line and counts along the lines."""
    B, n = document_ids.shape
    mask = np.empty((B, n, n), dtype=bool)
    positions = np.empty((B, n), dtype=np.int64)
    for b in range(B):
        names, which = np.unique(document_ids[b], return_inverse=True)
        which = which.reshape(-1)
        belongs = which == np.arange(len(names))[:, None]  # (documents, n)
        so_far = np.cumsum(belongs, axis=1)
        positions[b] = so_far[which, np.arange(n)] - 1
        mask[b] = np.tril(belongs[which])
    return mask, positions
