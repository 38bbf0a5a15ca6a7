"""Answers to unit 03's functions, written from the notebook alone."""

import numpy as np


def _softmax(z, axis=-1):
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _masked_softmax(scores, mask):
    shown = np.where(mask, scores, -np.inf)
    largest = shown.max(axis=-1, keepdims=True)
    powers = np.exp(shown - np.where(np.isfinite(largest), largest, 0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total > 0, total, 1)


# causal_mask


def causal_mask__wrong_transposed(n):
    """Swaps queries and keys: the upper triangle, so each token sees itself and the future."""
    places = np.arange(n)
    return places[:, None] <= places


def causal_mask__wrong_true_is_hidden(n):
    """Marks what is hidden: True stands exactly where a query may not look."""
    places = np.arange(n)
    return places > places[:, None]


def causal_mask__wrong_without_itself(n):
    """Leaves out the diagonal, so no token sees itself and row 0 is empty."""
    places = np.arange(n)
    return places < places[:, None]


def causal_mask__wrong_five_tokens(n):
    """Makes the mask of the example's five tokens, whatever n is."""
    return np.tri(5, dtype=bool)


def causal_mask__wrong_minus_infinity(n):
    """Returns numbers to add to the scores, 0 and -inf, in place of booleans."""
    return np.where(np.tri(n) > 0, 0.0, -np.inf)


def causal_mask__wrong_step_ahead_numbers(n):
    """Two slips: one diagonal too many, so each token sees the next one, and integers 0 and 1 in place of booleans."""
    return np.tril(np.ones((n, n), dtype=int), k=1)


def causal_mask__right_accumulated(n):
    """Passes the identity on from row to row: what one query may see, all later ones may see."""
    return np.logical_or.accumulate(np.eye(n, dtype=bool), axis=0)


def causal_mask__right_row_by_row(n):
    """Fills the rows in a loop with growing slices."""
    mask = np.zeros((n, n), dtype=bool)
    for i in range(n):
        mask[i, : i + 1] = True
    return mask


# padding_mask


def padding_mask__wrong_one_too_many(lengths, m):
    """Compares by `<=`, so the first filler of each sequence counts as real."""
    return np.arange(m) <= lengths[:, None]


def padding_mask__wrong_true_is_filler(lengths, m):
    """Marks the filler: True where the key is not real."""
    return np.arange(m) >= lengths[:, None]


def padding_mask__wrong_longest_width(lengths, m):
    """Makes the mask as wide as the longest sequence in place of m."""
    return np.arange(lengths.max()) < lengths[:, None]


def padding_mask__wrong_both_along_a_row(lengths, m):
    """Compares the key numbers with the lengths along one row: that fits only if B is m or 1, and an axis is lost."""
    return np.arange(m) < lengths


def padding_mask__wrong_filler_first(lengths, m):
    """Puts the filler on the left: the last tokens of each row count as real in place of the first."""
    return np.arange(m) >= m - lengths[:, None]


def padding_mask__wrong_first_length_numbers(lengths, m):
    """Two slips: uses the length of the first sequence for all of them, and returns integers in place of booleans."""
    mask = np.zeros((len(lengths), m), dtype=int)
    mask[:, : lengths[0]] = 1
    return mask


def padding_mask__right_rows_of_a_triangle(lengths, m):
    """Picks row number `length` of a strict lower triangle for each sequence."""
    return np.tri(m + 1, m, k=-1, dtype=bool)[lengths]


def padding_mask__right_stretched_lists(lengths, m):
    """Joins as many True and False as each sequence needs to one list per row, without any comparison."""
    rows = [[True] * int(length) + [False] * (m - int(length)) for length in lengths]
    return np.array(rows, dtype=bool).reshape(len(lengths), m)


# masked_softmax


def masked_softmax__wrong_score_zero(scores, mask):
    """Sets hidden scores to 0 before the softmax, so hidden keys still get weight."""
    return _softmax(scores * mask)


def masked_softmax__wrong_after_softmax(scores, mask):
    """Sets the hidden weights to 0 after the softmax and does not rescale, so rows do not sum to 1."""
    return _softmax(scores) * mask


def masked_softmax__wrong_true_is_hidden(scores, mask):
    """Reads True as hidden: the allowed keys get no weight and the hidden ones all of it."""
    return _masked_softmax(scores, ~mask)


def masked_softmax__wrong_uniform_when_empty(scores, mask):
    """Sets hidden scores to -1e9 and leaves it at that, so a row with nothing allowed gets equal weights, not zeros."""
    return _softmax(np.where(mask, scores, -1e9))


def masked_softmax__wrong_sum_over_queries(scores, mask):
    """Divides by the sums along the queries, the last axis but one, so the rows do not sum to 1."""
    shown = np.where(mask, scores, -np.inf)
    largest = shown.max(axis=-1, keepdims=True)
    powers = np.exp(shown - np.where(np.isfinite(largest), largest, 0))
    total = powers.sum(axis=-2, keepdims=True)
    return powers / np.where(total > 0, total, 1)


def masked_softmax__wrong_in_place_and_nan(scores, mask):
    """Two slips: writes -inf into the caller's scores, and gives NaN in a row with nothing allowed."""
    np.copyto(scores, -np.inf, where=~mask)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def masked_softmax__right_row_by_row(scores, mask):
    """Goes through the rows in a loop and computes with the allowed entries alone, cut out of the row."""
    mask = np.broadcast_to(mask, scores.shape)
    weights = np.zeros(scores.shape)
    for place in np.ndindex(scores.shape[:-1]):
        allowed = np.flatnonzero(mask[place])
        if allowed.size:
            powers = np.exp(scores[place][allowed] - scores[place][allowed].max())
            weights[place][allowed] = powers / powers.sum()
    return weights


def masked_softmax__right_log_sum(scores, mask):
    """Subtracts the logarithm of the sum over the allowed keys, with 0 in its place where nothing is allowed."""
    shown = np.where(mask, scores, -np.inf)
    total = np.logaddexp.reduce(shown, axis=-1)[..., None]
    return np.exp(shown - np.where(np.isneginf(total), 0, total))


# masked_attention


def masked_attention__wrong_all_axes_turned(Q, K, V, mask):
    """Writes K.T, which reverses all axes, so it is right only without leading axes."""
    scores = Q @ K.T / np.sqrt(Q.shape[-1])
    weights = _masked_softmax(scores, mask)
    return weights @ V, weights


def masked_attention__wrong_root_of_axis_one(Q, K, V, mask):
    """Divides by the root of the size of axis 1 of Q, which is d_k for one sequence and n in a batch."""
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[1])
    weights = _masked_softmax(scores, mask)
    return weights @ V, weights


def masked_attention__wrong_weights_masked(Q, K, V, mask):
    """Masks the weights after the softmax and not the scores before it, so hidden keys still take their share."""
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    weights = np.where(mask, _softmax(scores), 0.0)
    return weights @ V, weights


def masked_attention__wrong_true_is_hidden(Q, K, V, mask):
    """Reads True as hidden, as nn.MultiheadAttention does."""
    scores = np.einsum("...nd,...md->...nm", Q, K) / Q.shape[-1] ** 0.5
    weights = _masked_softmax(scores, np.logical_not(mask))
    return weights @ V, weights


def masked_attention__wrong_first_mask(Q, K, V, mask):
    """Takes the mask of the first sequence for all sequences of a batch."""
    while mask.ndim > 2:
        mask = mask[0]
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(K.shape[-1])
    weights = _masked_softmax(scores, mask)
    return weights @ V, weights


def masked_attention__wrong_plain_and_swapped(Q, K, V, mask):
    """Two slips: does not scale the scores, and returns (weights, output)."""
    weights = _masked_softmax(Q @ np.swapaxes(K, -1, -2), mask)
    return weights, weights @ V


def masked_attention__right_sequence_by_sequence(Q, K, V, mask):
    """Goes through the leading axes in a loop and computes one sequence at a time."""
    lead, n, m = Q.shape[:-2], Q.shape[-2], K.shape[-2]
    mask = np.broadcast_to(mask, (*lead, n, m))
    output, weights = np.zeros((*lead, n, V.shape[-1])), np.zeros((*lead, n, m))
    for place in np.ndindex(lead):
        scores = Q[place] @ K[place].T / K.shape[-1] ** 0.5
        weights[place] = _masked_softmax(scores, mask[place])
        output[place] = weights[place] @ V[place]
    return output, weights


def masked_attention__right_division_last(Q, K, V, mask):
    """Adds up values and powers by einsum first and divides both at the end, by 1 where nothing is allowed."""
    scores = np.einsum("...nd,...md->...nm", Q * Q.shape[-1] ** -0.5, K)
    mask = np.broadcast_to(mask, scores.shape)
    largest = np.max(scores, axis=-1, keepdims=True, where=mask, initial=-np.inf)
    largest = np.where(mask.any(axis=-1, keepdims=True), largest, 0)
    powers = np.exp(scores - largest, where=mask, out=np.zeros_like(scores))
    total = np.maximum(powers.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
    return np.einsum("...nm,...mv->...nv", powers, V) / total, powers / total


# next_token_pairs


def next_token_pairs__wrong_swapped(tokens):
    """Returns the targets first and the inputs second."""
    return tokens[:, 1:], tokens[:, :-1]


def next_token_pairs__wrong_along_the_batch(tokens):
    """Shifts along the batch: the next sequence in place of the next token."""
    return tokens[:-1], tokens[1:]


def next_token_pairs__wrong_rolled(tokens):
    """Keeps all n columns and rolls the targets, so the last token is asked to predict the first of its row."""
    return tokens.copy(), np.roll(tokens, -1, axis=1)


def next_token_pairs__wrong_two_ahead(tokens):
    """Leaves out two columns, so each target is the token after the next."""
    return tokens[:, :-2], tokens[:, 2:]


def next_token_pairs__wrong_pads_marked(tokens):
    """Replaces the targets that are `<pad>`, number 4 in the example, by -100, though pads stay where they are."""
    targets = tokens[:, 1:].copy()
    targets[targets == 4] = -100
    return tokens[:, :-1], targets


def next_token_pairs__wrong_one_long_row_of_floats(tokens):
    """Two slips: joins all rows to one, so the last token of one predicts the first of the next, and returns floats."""
    flat = tokens.reshape(-1).astype(float)
    return flat[:-1], flat[1:]


def next_token_pairs__right_windows(tokens):
    """Lays a sliding window of two tokens over each row and takes the two ends of all windows."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    return windows[..., 0].copy(), windows[..., 1].copy()


def next_token_pairs__right_deleted_columns(tokens):
    """Deletes the last and the first column by np.delete."""
    last = tokens.shape[1] - 1
    return np.delete(tokens, last, axis=1), np.delete(tokens, 0, axis=1)


# leaks_future


def leaks_future__wrong_last_position_only(attend, Q, K, V):
    """Changes key and value of the last position alone, so a leak from any other later position is missed."""
    if len(Q) == 1:
        return False
    rng = np.random.default_rng(0)
    before = attend(Q, K, V)
    K_new, V_new = K.copy(), V.copy()
    K_new[-1] += rng.standard_normal(K.shape[1])
    V_new[-1] += rng.standard_normal(V.shape[1])
    after = attend(Q, K_new, V_new)
    return bool(np.abs(after - before)[:-1].max() > 1e-6)


def leaks_future__wrong_values_only(attend, Q, K, V):
    """Changes later values and never a key, so a leak through the keys alone is missed."""
    rng = np.random.default_rng(0)
    before = attend(Q, K, V)
    for split in range(1, len(Q)):
        V_new = V.copy()
        V_new[split:] = rng.standard_normal(V[split:].shape)
        after = attend(Q, K, V_new)
        if np.abs(after - before)[:split].max() > 1e-6:
            return True
    return False


def leaks_future__wrong_coarse_tolerance(attend, Q, K, V):
    """Tolerates changes up to 0.1, so a leak of some thousandths is missed."""
    rng = np.random.default_rng(0)
    before = attend(Q, K, V)
    for split in range(1, len(Q)):
        K_new, V_new = K.copy(), V.copy()
        K_new[split:] = rng.standard_normal(K[split:].shape)
        V_new[split:] = rng.standard_normal(V[split:].shape)
        after = attend(Q, K_new, V_new)
        if not np.allclose(after[:split], before[:split], rtol=0, atol=0.1):
            return True
    return False


def leaks_future__wrong_watches_changed_row(attend, Q, K, V):
    """Looks at the changed position, too, so every position that sees itself raises a false alarm."""
    rng = np.random.default_rng(0)
    before = attend(Q, K, V)
    for j in range(1, len(Q)):
        K_new, V_new = K.copy(), V.copy()
        K_new[j] += rng.standard_normal(K.shape[1])
        V_new[j] += rng.standard_normal(V.shape[1])
        after = attend(Q, K_new, V_new)
        if np.abs(after - before)[: j + 1].max() > 1e-6:
            return True
    return False


def leaks_future__wrong_changes_inputs(attend, Q, K, V):
    """Writes the experiments into the caller's K and V in place of copies, and leaves them changed."""
    rng = np.random.default_rng(0)
    before = attend(Q, K, V)
    for split in range(len(Q) - 1, 0, -1):
        K[split:] += rng.standard_normal(K[split:].shape)
        V[split:] += rng.standard_normal(V[split:].shape)
        after = attend(Q, K, V)
        if np.abs(after[:split] - before[:split]).max() > 1e-6:
            return True
    return False


def leaks_future__wrong_first_row_set_to_zero(attend, Q, K, V):
    """Two slips: watches the output of position 0 alone, and sets later keys and values to 0, which they may be."""
    K_new, V_new = K.copy(), V.copy()
    K_new[1:] = 0
    V_new[1:] = 0
    moved = np.abs(attend(Q, K_new, V_new) - attend(Q, K, V))
    return bool(moved[0].max() > 1e-6)


def leaks_future__right_every_split_several_draws(attend, Q, K, V):
    """At every split draws later keys alone, later values alone and both anew, several times, with a seed."""
    rng = np.random.default_rng(7)
    before = np.array(attend(Q.copy(), K.copy(), V.copy()))
    for split in range(1, len(Q)):
        for round_number in range(9):
            K_new, V_new = K.copy(), V.copy()
            if round_number % 3 != 1:
                K_new[split:] += rng.standard_normal(K[split:].shape)
            if round_number % 3 != 0:
                V_new[split:] += rng.standard_normal(V[split:].shape)
            after = np.asarray(attend(Q.copy(), K_new, V_new))
            if np.abs(after[:split] - before[:split]).max() > 1e-7:
                return True
    return False


def leaks_future__right_one_position_at_a_time(attend, Q, K, V):
    """Nudges one position at a time up and down by fixed uneven numbers, and draws nothing at all."""
    n = len(Q)
    moved = np.zeros((n, n))  # row: whose output, column: whose key or value
    before = np.array(attend(Q, K, V))
    for j in range(n):
        for sign in (1, -1):
            for which in ("key", "value", "both"):
                K_new, V_new = K.copy(), V.copy()
                if which != "value":
                    K_new[j] += sign * (1 + 0.3 * np.cos(np.arange(K.shape[1])))
                if which != "key":
                    V_new[j] += sign * (1 + 0.3 * np.sin(np.arange(V.shape[1])))
                size = np.abs(attend(Q, K_new, V_new) - before).max(axis=1)
                moved[:, j] = np.maximum(moved[:, j], size)
    return bool((np.triu(moved, k=1) > 1e-7).any())


# packed_causal_mask


def packed_causal_mask__wrong_interrupted_is_new(document_ids):
    """Takes every change of the id as a new document, so a document that was interrupted starts again."""
    B, n = document_ids.shape
    starts = np.zeros((B, n), dtype=int)
    starts[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    number = starts.cumsum(axis=1)
    mask = (number[:, :, None] == number[:, None, :]) & np.tri(n, dtype=bool)
    return mask, mask.sum(axis=-1) - 1


def packed_causal_mask__wrong_ids_by_size(document_ids):
    """Compares ids by size, so a token also sees earlier tokens of documents with a smaller id."""
    n = document_ids.shape[1]
    past = np.tri(n, dtype=bool)
    same = document_ids[:, :, None] == document_ids[:, None, :]
    mask = (document_ids[:, :, None] >= document_ids[:, None, :]) & past
    positions = (same & past).sum(axis=2) - 1
    return mask, positions


def packed_causal_mask__wrong_positions_of_the_row(document_ids):
    """Counts the positions along the row in place of within each document."""
    B, n = document_ids.shape
    same = document_ids[:, :, None] == document_ids[:, None, :]
    mask = same & np.tri(n, dtype=bool)
    positions = np.tile(np.arange(n), (B, 1))
    return mask, positions


def packed_causal_mask__wrong_batch_axis(document_ids):
    """Puts the new axis before the tokens only, so ids of different rows of the batch meet: (B, B, n) in place of
    (B, n, n)."""
    n = document_ids.shape[1]
    same = document_ids[:, None] == document_ids
    mask = same & np.tri(n, dtype=bool)
    return mask, mask.sum(axis=-1) - 1


def packed_causal_mask__wrong_counts_columns(document_ids):
    """Sums the mask over the queries in place of the keys, so the positions count from the end of each document."""
    n = document_ids.shape[1]
    same = document_ids[:, :, None] == document_ids[:, None, :]
    mask = same & np.tri(n, dtype=bool)
    positions = mask.sum(axis=1) - 1
    return mask, positions


def packed_causal_mask__wrong_not_causal_from_one(document_ids):
    """Two slips: the mask lets a token see later tokens of its document, too, and the positions count from 1."""
    n = document_ids.shape[1]
    mask = document_ids[:, :, None] == document_ids[:, None, :]
    positions = (mask & np.tri(n, dtype=bool)).sum(axis=2)
    return mask, positions


def packed_causal_mask__right_document_by_document(document_ids):
    """Loops over rows and documents: finds the places of each and fills mask and positions there."""
    B, n = document_ids.shape
    mask = np.zeros((B, n, n), dtype=bool)
    positions = np.zeros((B, n), dtype=int)
    for b in range(B):
        for name in np.unique(document_ids[b]):
            places = np.flatnonzero(document_ids[b] == name)
            mask[b][np.ix_(places, places)] = np.tri(len(places), dtype=bool)
            positions[b, places] = np.arange(len(places))
    return mask, positions


def packed_causal_mask__right_sorted(document_ids):
    """Sorts each row stably by id and counts the positions from the start of each run; the mask forbids the rest."""
    B, n = document_ids.shape
    order = np.argsort(document_ids, axis=1, kind="stable")
    ranked = np.take_along_axis(document_ids, order, axis=1)
    begins = np.ones((B, n), dtype=bool)
    begins[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    start = np.maximum.accumulate(np.where(begins, np.arange(n), 0), axis=1)
    positions = np.empty((B, n), dtype=int)
    np.put_along_axis(positions, order, np.arange(n) - start, axis=1)
    other = np.not_equal(document_ids[:, :, None], document_ids[:, None, :])
    ahead = np.triu(np.ones((n, n), dtype=bool), k=1)
    return ~(other | ahead), positions
