"""Answers to unit 03's functions, written from the notebook alone."""

import numpy as np

_TABLE = np.tri(8, dtype=bool)


def _softmax(z, axis=-1):
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _masked(scores, mask):
    full = np.broadcast_to(mask, scores.shape)
    kept = np.where(full, scores, -np.inf)
    largest = np.where(full.any(axis=-1, keepdims=True), kept.max(axis=-1, keepdims=True), 0.0)
    powers = np.exp(kept - largest)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total > 0, total, 1.0)


def causal_mask__wrong_own_and_previous(n):
    """Only the token itself and the one just before it are allowed, not all of the past."""
    places = np.arange(n)
    gap = places[:, None] - places
    return (gap == 0) | (gap == 1)


def causal_mask__wrong_other_diagonal(n):
    """The sum of the two positions is compared with n, so the staircase runs along the other diagonal."""
    return np.fromfunction(lambda i, j: i + j < n, (n, n))


def causal_mask__wrong_two_rows_compared(n):
    """Queries and keys both lie along a row, so each position is compared with itself alone and n booleans come out."""
    queries, keys = np.arange(n), np.arange(n)
    return keys <= queries


def causal_mask__wrong_cut_from_a_table(n):
    """The mask is cut from a table made for 8 tokens, so it stays 8 by 8 for longer sentences."""
    return _TABLE[:n, :n].copy()


def causal_mask__wrong_numbers_without_self(n):
    """The inner loop ends before the token itself, and the table holds the numbers 0.0 and 1.0, not booleans."""
    mask = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            mask[i, j] = True
    return mask


def padding_mask__wrong_pads_in_front(lengths, m):
    """The real tokens are taken to stand at the end of each row, with the filler before them."""
    return np.arange(m) >= m - lengths[:, None]


def padding_mask__wrong_minus_zero(lengths, m):
    """The filler is hidden by a slice that counts from the end, which for no filler at all hides the whole row."""
    mask = np.ones((len(lengths), m), dtype=bool)
    for b, length in enumerate(lengths):
        mask[b, -(m - length) :] = False
    return mask


def padding_mask__wrong_last_row_for_empty(lengths, m):
    """Row length - 1 of a triangle is picked, so a length of 0 picks the last row, in which all is allowed."""
    return np.tri(m, dtype=bool)[lengths - 1]


def padding_mask__wrong_lengths_lowered(lengths, m):
    """The lengths are lowered by 1 in the caller's array to get the last real places."""
    lengths -= 1
    return np.arange(m)[None, :] <= lengths[:, None]


def padding_mask__wrong_widest_and_one_more(lengths, m):
    """The mask is as wide as the longest sequence in place of m, and the first filler token is allowed too."""
    return np.arange(lengths.max()) <= lengths[:, None]


def padding_mask__right_counted_down(lengths, m):
    """Adds a one to a row of zeros for each real token, all rows in one step per column."""
    left = np.array(lengths, dtype=np.int64)
    columns = []
    for _ in range(m):
        columns.append(left > 0)
        left = left - 1
    return np.stack(columns, axis=1)


def masked_softmax__wrong_zero_marks_hidden(scores, mask):
    """After the shift a 0 is taken for hidden, but the largest allowed score of each row is 0 as well."""
    full = np.broadcast_to(mask, scores.shape)
    largest = np.where(full, scores, -np.inf).max(axis=-1, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    shifted = np.where(full, scores - largest, 0.0)
    powers = np.where(shifted == 0, 0.0, np.exp(shifted))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_only_if_all_empty(scores, mask):
    """Empty rows are looked for in the mask as a whole, so one empty row beside others still becomes NaN."""
    if not np.any(mask):
        return np.zeros(scores.shape)
    kept = np.where(mask, scores, -np.inf)
    powers = np.exp(kept - kept.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def masked_softmax__wrong_lowest_score(scores, mask):
    """Hidden scores are replaced by the lowest score there is, which still gets weight."""
    full = np.broadcast_to(mask, scores.shape)
    weights = _softmax(np.where(full, scores, scores.min()))
    return np.where(full.any(axis=-1, keepdims=True), weights, 0.0)


def masked_softmax__wrong_axis_one(scores, mask):
    """Largest score and sum run along axis 1, which is the last axis only if there are two."""
    full = np.broadcast_to(mask, scores.shape)
    kept = np.where(full, scores, -np.inf)
    largest = kept.max(axis=1, keepdims=True)
    powers = np.exp(kept - np.where(np.isfinite(largest), largest, 0.0))
    total = powers.sum(axis=1, keepdims=True)
    return powers / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_shared_shift_and_even_rows(scores, mask):
    """All rows are shifted by the largest allowed score of all, and rows with nothing allowed get even weights."""
    full = np.broadcast_to(mask, scores.shape)
    largest = scores[full].max() if full.any() else 0.0
    powers = np.where(full, np.exp(np.where(full, scores - largest, 0.0)), 0.0)
    powers = np.where(full.any(axis=-1, keepdims=True), powers, 1.0)
    return powers / powers.sum(axis=-1, keepdims=True)


def masked_softmax__right_row_by_row(scores, mask):
    """Goes through all rows and writes a softmax of the allowed scores alone into a table of zeros."""
    weights = np.zeros(scores.shape, dtype=scores.dtype)
    full = np.broadcast_to(mask, scores.shape)
    for place in np.ndindex(*scores.shape[:-1]):
        seen = np.flatnonzero(full[place])
        if seen.size == 0:
            continue
        some = scores[place][seen]
        powers = np.exp(some - some.max())
        weights[place + (seen,)] = powers / powers.sum()
    return weights


def masked_attention__wrong_hidden_keys_zeroed(Q, K, V, mask):
    """Hidden keys are hidden by a product with the mask, which gives them a score of 0 and so a weight."""
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])
    full = np.broadcast_to(mask, scores.shape)
    weights = _softmax(scores * full)
    weights = np.where(full.any(axis=-1, keepdims=True), weights, 0.0)
    return weights @ V, weights


def masked_attention__wrong_root_of_axis_one(Q, K, V, mask):
    """The width is read from axis 1 of Q, which with a batch is the number of queries or heads."""
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[1])
    weights = _masked(scores, mask)
    return weights @ V, weights


def masked_attention__wrong_keys_reshaped(Q, K, V, mask):
    """The last two axes of the keys are swapped by a reshape, which mixes the entries of different keys."""
    turned = K.reshape(*K.shape[:-2], K.shape[-1], K.shape[-2])
    weights = _masked(Q @ turned / np.sqrt(Q.shape[-1]), mask)
    return weights @ V, weights


def masked_attention__wrong_weights_without_mask(Q, K, V, mask):
    """The output is right, but the weights that are returned with it are those before the mask."""
    scores = np.einsum("...id,...jd->...ij", Q, K) / np.sqrt(Q.shape[-1])
    weights = _softmax(scores)
    output = _masked(scores, mask) @ V
    return output, weights


def masked_attention__wrong_weights_cut_root_of_keys(Q, K, V, mask):
    """The mask cuts weights after the softmax, which then do not sum to 1, and the divisor is the root of m."""
    scores = Q @ np.swapaxes(K, -1, -2) / np.sqrt(K.shape[-2])
    weights = _softmax(scores) * mask
    return weights @ V, weights


def masked_attention__right_one_query_at_a_time(Q, K, V, mask):
    """Goes through every query of every leading place and lets it meet its allowed keys alone."""
    lead, n, m = Q.shape[:-2], Q.shape[-2], K.shape[-2]
    full = np.broadcast_to(mask, (*lead, n, m))
    weights = np.zeros((*lead, n, m))
    output = np.zeros((*lead, n, V.shape[-1]))
    for place in np.ndindex(*lead, n):
        sequence, seen = place[:-1], full[place]
        if seen.any():
            scores = K[sequence][seen] @ (Q[place] / Q.shape[-1] ** 0.5)
            powers = np.exp(scores - scores.max())
            weights[place][seen] = powers / powers.sum()
            output[place] = weights[place][seen] @ V[sequence][seen]
    return output, weights


def next_token_pairs__wrong_written_over(tokens):
    """The targets are shifted inside the caller's array, so tokens and with them the inputs change."""
    targets = tokens
    targets[:, :-1] = tokens[:, 1:].copy()
    return tokens[:, :-1], targets[:, :-1]


def next_token_pairs__wrong_disjoint_pairs(tokens):
    """The tokens are dealt out in disjoint pairs, first and second, third and fourth, not one pair per place."""
    return tokens[:, 0::2], tokens[:, 1::2]


def next_token_pairs__wrong_pads_taken_out(tokens):
    """Targets that are number 4, the pad of the notebook's vocabulary, are replaced by -1 already here."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    return inputs, np.where(targets == 4, -1, targets)


def next_token_pairs__wrong_five_words(tokens):
    """The slices are made for sentences of five tokens, so what comes later in a longer one is left out."""
    return tokens[:, :4], tokens[:, 1:5]


def next_token_pairs__wrong_one_stream_swapped(tokens):
    """All rows are read as one text, so a row's last token predicts the next, and inputs and targets are swapped."""
    stream = tokens.reshape(1, -1)
    return stream[:, 1:], stream[:, :-1]


def next_token_pairs__right_windows(tokens):
    """Makes all windows of two tokens and takes their first and second entries."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    inputs, targets = np.moveaxis(windows, -1, 0)
    return inputs.copy(), targets.copy()


def leaks_future__wrong_later_rows_shuffled(attend, Q, K, V):
    """The later keys and values only change places, which moves no sum over them and does nothing to the last one."""
    rng = np.random.default_rng(0)
    n = len(Q)
    before = attend(Q, K, V)
    for t in range(1, n):
        order = np.arange(n)
        order[t:] = t + rng.permutation(n - t)
        after = attend(Q, K[order], V[order])
        size = np.abs(before[:t]).max(axis=1, keepdims=True) + 1e-300
        if (np.abs(after[:t] - before[:t]) / size > 3e-5).any():
            return True
    return False


def leaks_future__wrong_own_row_counts(attend, Q, K, V):
    """The row of the first changed position is compared too, though a position may depend on itself."""
    rng = np.random.default_rng(0)
    n = len(Q)
    before = attend(Q, K, V)
    for t in range(1, n):
        K_t, V_t = K.copy(), V.copy()
        K_t[t:] += rng.standard_normal(K[t:].shape)
        V_t[t:] += rng.standard_normal(V[t:].shape)
        after = attend(Q, K_t, V_t)
        size = np.abs(before[: t + 1]).max(axis=1, keepdims=True) + 1e-300
        if (np.abs(after[: t + 1] - before[: t + 1]) / size > 3e-5).any():
            return True
    return False


def leaks_future__wrong_size_of_the_largest_row(attend, Q, K, V):
    """A row's move is measured by the largest entry of the whole output, so leaks in rows of small size are missed."""
    rng = np.random.default_rng(0)
    n = len(Q)
    before = attend(Q, K, V)
    size = np.abs(before).max() + 1e-300
    for t in range(1, n):
        K_t, V_t = K.copy(), V.copy()
        K_t[t:] += rng.standard_normal(K[t:].shape)
        V_t[t:] += rng.standard_normal(V[t:].shape)
        after = attend(Q, K_t, V_t)
        if np.abs(after[:t] - before[:t]).max() > 3e-5 * size:
            return True
    return False


def leaks_future__wrong_sum_of_the_row(attend, Q, K, V):
    """The features of each output row are added up before they are compared, so moves up and down may cancel."""
    rng = np.random.default_rng(0)
    n = len(Q)
    before = attend(Q, K, V)
    for t in range(1, n):
        K_t, V_t = K.copy(), V.copy()
        K_t[t:] += rng.standard_normal(K[t:].shape)
        V_t[t:] += rng.standard_normal(V[t:].shape)
        moved = np.abs((attend(Q, K_t, V_t)[:t] - before[:t]).sum(axis=1))
        size = np.abs(before[:t]).max(axis=1) + 1e-300
        if (moved / size > 3e-5).any():
            return True
    return False


def leaks_future__wrong_values_only_default_tolerance(attend, Q, K, V):
    """Only the values are changed and no key, and outputs are compared with an absolute tolerance of 1e-8."""
    rng = np.random.default_rng(0)
    n = len(Q)
    before = attend(Q, K, V)
    for t in range(1, n):
        V_t = V.copy()
        V_t[t:] = rng.standard_normal(V[t:].shape)
        if np.abs(attend(Q, K, V_t)[:t] - before[:t]).max() > 1e-8:
            return True
    return False


def leaks_future__right_spread_of_all_calls(attend, Q, K, V):
    """Makes all experiments first, and then asks for each row how far the calls that left its past alone are apart."""
    rng = np.random.default_rng(0)
    n = len(Q)
    outputs = [np.array(attend(Q.copy(), K.copy(), V.copy()), dtype=float)]
    for t in range(1, n):
        changed = []
        for X in (K, V):
            step = rng.uniform(1, 2, X.shape) * rng.choice([-1.0, 1.0], X.shape)
            step[:t] = 0
            changed.append(X + step)
        outputs.append(np.array(attend(Q.copy(), *changed), dtype=float))
    for i in range(n - 1):
        rows = np.stack([outputs[0][i], *(outputs[t][i] for t in range(i + 1, n))])
        if np.ptp(rows, axis=0).max() > 1e-5 * np.abs(rows).max():
            return True
    return False


def packed_causal_mask__wrong_runs_are_documents(document_ids):
    """Each run of equal ids is taken for a document, so one that is interrupted begins anew."""
    runs = np.zeros(document_ids.shape, dtype=int)
    runs[:, 1:] = np.cumsum(document_ids[:, 1:] != document_ids[:, :-1], axis=1)
    n = document_ids.shape[1]
    mask = (runs[:, :, None] == runs[:, None, :]) & np.tri(n, dtype=bool)
    return mask, mask.sum(axis=2) - 1


def packed_causal_mask__wrong_distance_from_first(document_ids):
    """The position is the distance from the document's first token, so tokens of an interruption are counted too."""
    n = document_ids.shape[1]
    mask = (document_ids[:, :, None] == document_ids[:, None, :]) & np.tri(n, dtype=bool)
    return mask, np.arange(n) - mask.argmax(axis=2)


def packed_causal_mask__wrong_zero_is_filler(document_ids):
    """The id 0 is taken for padding, and its tokens are hidden from everybody."""
    n = document_ids.shape[1]
    same = document_ids[:, :, None] == document_ids[:, None, :]
    real = (document_ids != 0)[:, None, :]
    positions = (same & np.tri(n, dtype=bool)).sum(axis=2) - 1
    return same & real & np.tri(n, dtype=bool), positions


def packed_causal_mask__wrong_counting_goes_on(document_ids):
    """The positions are counted through the whole batch, so an id that occurs in a row before does not begin at 0."""
    batch, n = document_ids.shape
    mask = (document_ids[:, :, None] == document_ids[:, None, :]) & np.tri(n, dtype=bool)
    flat = document_ids.reshape(-1)
    positions = np.zeros(flat.shape, dtype=int)
    for name in np.unique(flat):
        own = flat == name
        positions[own] = np.arange(own.sum())
    return mask, positions.reshape(batch, n)


def packed_causal_mask__wrong_larger_ids_count_over_queries(document_ids):
    """Ids are compared by size, so later documents see earlier ones, and positions are counted along the queries."""
    n = document_ids.shape[1]
    mask = (document_ids[:, :, None] >= document_ids[:, None, :]) & np.tri(n, dtype=bool)
    return mask, mask.sum(axis=1) - 1


def packed_causal_mask__right_sorted_by_document(document_ids):
    """Sorts each row by document, keeping the order, and numbers the tokens from where their document begins."""
    batch, n = document_ids.shape
    mask = np.zeros((batch, n, n), dtype=bool)
    positions = np.zeros((batch, n), dtype=np.int64)
    for b in range(batch):
        order = np.argsort(document_ids[b], kind="stable")
        ordered = document_ids[b][order]
        begins = np.searchsorted(ordered, ordered, side="left")
        positions[b, order] = np.arange(n) - begins
        mask[b] = np.tril(np.equal.outer(document_ids[b], document_ids[b]))
    return mask, positions
