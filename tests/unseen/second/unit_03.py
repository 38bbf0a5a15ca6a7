import math

import numpy as np
import torch


# Given in the notebook.


def softmax(z, axis=-1):
    """The stable softmax of unit 2, without any mask."""
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


# Right versions of earlier exercises, for those that come later.


def causal_mask(n):
    return np.arange(n) <= np.arange(n)[:, None]


def masked_softmax(scores, mask):
    hidden = np.where(mask, scores, -np.inf)
    top = hidden.max(axis=-1, keepdims=True)
    powers = np.exp(hidden - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total > 0, total, 1)


# ---- 3.1 causal_mask


def causal_mask__wrong_diagonal_hidden(n):
    """A strict comparison: no token may look at itself, and row 0 is empty."""
    query = np.arange(n).reshape(n, 1)
    key = np.arange(n).reshape(1, n)
    return key < query


def causal_mask__wrong_first_row_skipped(n):
    """The loop over the queries begins at 1, so token 0 sees nothing."""
    mask = np.zeros((n, n), dtype=bool)
    for i in range(1, n):
        mask[i, : i + 1] = True
    return mask


def causal_mask__wrong_additive_mask(n):
    """Returns floats to be added to the scores, 0 and -inf, in place of booleans."""
    mask = np.full((n, n), -np.inf)
    mask[np.tril_indices(n)] = 0.0
    return mask


def causal_mask__wrong_true_means_hidden(n):
    """Marks what must not be seen, as nn.MultiheadAttention has it."""
    future = np.triu(np.ones((n, n), dtype=bool), k=1)
    return future


def causal_mask__wrong_one_step_ahead(n):
    """Each row has one True too many: query i sees key i + 1."""
    return np.array([[j - i < 2 for j in range(n)] for i in range(n)])


def causal_mask__right_spread_downwards(n):
    """Each token's own place, spread to all rows below."""
    return np.logical_or.accumulate(np.eye(n, dtype=bool), axis=0)


# ---- 3.2 padding_mask


def padding_mask__wrong_cut_from_right(lengths, m):
    """Clears the last m - length places by a negative slice, which clears the whole row where nothing is to go."""
    mask = np.ones((len(lengths), m), dtype=bool)
    for b, length in enumerate(lengths):
        filler = m - length
        mask[b, -filler:] = False
    return mask


def padding_mask__wrong_pads_in_front(lengths, m):
    """Puts the real tokens at the end of the row, behind the filler."""
    first = m - lengths[:, None]
    return np.arange(m)[None, :] >= first


def padding_mask__wrong_ones_and_zeros(lengths, m):
    """Builds rows of 1 and 0, which are integers and not booleans."""
    rows = [[1] * int(length) + [0] * (m - int(length)) for length in lengths]
    return np.array(rows)


def padding_mask__wrong_one_key_too_many(lengths, m):
    """Compares with <=, so one pad behind each sequence counts as real."""
    columns = np.broadcast_to(np.arange(m), (lengths.size, m))
    return columns <= lengths.reshape(-1, 1)


def padding_mask__wrong_empty_sequence_forgotten(lengths, m):
    """The first token is always set before the rest is filled in, so an empty sequence has a real token."""
    mask = np.zeros((lengths.shape[0], m), dtype=bool)
    mask[:, 0] = True
    for b in range(lengths.shape[0]):
        j = 1
        while j < lengths[b]:
            mask[b, j] = True
            j += 1
    return mask


def padding_mask__right_running_sum(lengths, m):
    """Marks where the filler begins and carries the mark to the right."""
    begins = np.zeros((len(lengths), m + 1), dtype=int)
    begins[np.arange(len(lengths)), lengths] = 1
    return begins.cumsum(axis=1)[:, :m] == 0


# ---- 3.3 masked_softmax


def masked_softmax__wrong_maximum_from_zero(scores, mask):
    """The largest allowed score is taken with initial=0, so rows that are far below 0 underflow and become zeros."""
    mask = np.broadcast_to(mask, scores.shape)
    top = np.max(scores, axis=-1, keepdims=True, where=mask, initial=0)
    powers = np.where(mask, np.exp(np.where(mask, scores - top, 0)), 0)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)


def masked_softmax__wrong_rescaled_afterwards(scores, mask):
    """A plain softmax, then the mask, then rescaling: a huge hidden score leaves nothing to rescale."""
    weights = softmax(scores) * mask
    total = weights.sum(axis=-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)


def masked_softmax__wrong_minus_ten_thousand(scores, mask):
    """Hidden scores become -10,000, which is a score like any other where the allowed ones are as low."""
    s = np.where(mask, scores, -1e4)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights * np.any(mask, axis=-1, keepdims=True)


def masked_softmax__wrong_uniform_empty_rows(scores, mask):
    """With -1e9 for what is hidden, a row where nothing is allowed gets equal weights and not zeros."""
    masked = np.where(mask, scores, -1e9)
    return softmax(masked, axis=-1)


def masked_softmax__wrong_hidden_score_zero(scores, mask):
    """Multiplies the scores by the mask: a hidden score becomes 0, whose exponential is 1."""
    allowed = scores * mask
    weights = softmax(allowed)
    nothing = ~np.any(np.broadcast_to(mask, scores.shape), axis=-1)
    weights[nothing] = 0
    return weights


def masked_softmax__right_row_by_row(scores, mask):
    """Each row takes out its allowed scores and puts their softmax back in their places."""
    full = np.broadcast_to(mask, scores.shape)
    weights = np.zeros_like(scores)
    for place in np.ndindex(scores.shape[:-1]):
        seen = np.flatnonzero(full[place])
        if seen.size:
            few = scores[place][seen]
            weights[place + (seen,)] = softmax(few)
    return weights


# ---- 3.4 masked_attention


def masked_attention__wrong_reshaped_keys(Q, K, V, mask):
    """Swaps the last two axes of K by a reshape, which mixes the features of different keys."""
    *lead, m, d_k = K.shape
    scores = Q @ K.reshape(*lead, d_k, m) / math.sqrt(d_k)
    weights = masked_softmax(scores, mask)
    return weights @ V, weights


def masked_attention__wrong_axis_one_as_width(Q, K, V, mask):
    """Reads d_k off axis 1, which is the number of queries as soon as there is a batch."""
    d_k = Q.shape[1]
    scores = np.matmul(Q, np.swapaxes(K, -1, -2)) / np.sqrt(d_k)
    weights = masked_softmax(scores, mask)
    output = np.matmul(weights, V)
    return output, weights


def masked_attention__wrong_mask_after_softmax(Q, K, V, mask):
    """Masks the weights after the softmax, so hidden keys have taken their share of the sum."""
    scores = np.einsum("...nd,...md->...nm", Q, K) * Q.shape[-1] ** -0.5
    weights = np.where(mask, softmax(scores), 0.0)
    return np.einsum("...nm,...mv->...nv", weights, V), weights


def masked_attention__wrong_mask_shape_guessed(Q, K, V, mask):
    """A mask of two axes with as many rows as there are sequences is taken for a padding mask (B, m)."""
    if Q.ndim == 3 and mask.ndim == 2 and mask.shape[0] == Q.shape[0]:
        mask = mask[:, None, :]
    S = Q @ np.moveaxis(K, -1, -2) / np.sqrt(K.shape[-1])
    A = masked_softmax(S, mask)
    return A @ V, A


def masked_attention__wrong_first_mask_for_all(Q, K, V, mask):
    """Goes through the batch one by one, but always takes the first of the masks."""
    if Q.ndim == 2:
        weights = masked_softmax(Q @ K.T / np.sqrt(Q.shape[1]), mask)
        return weights @ V, weights
    outputs, tables = [], []
    for q, k, v in zip(Q, K, V):
        own = mask[0] if mask.ndim == Q.ndim else mask
        output, weights = masked_attention__wrong_first_mask_for_all(q, k, v, own)
        outputs.append(output)
        tables.append(weights)
    return np.array(outputs), np.array(tables)


def masked_attention__right_query_by_query(Q, K, V, mask):
    """Serves each query of each sequence by itself, with the keys that it may see and no others."""
    shape = Q.shape[:-1] + (K.shape[-2],)
    full = np.broadcast_to(mask, shape)
    weights = np.zeros(shape, dtype=Q.dtype)
    output = np.zeros(Q.shape[:-1] + (V.shape[-1],), dtype=V.dtype)
    for place in np.ndindex(shape[:-1]):
        text, seen = place[:-1], full[place]
        if not seen.any():
            continue
        scores = K[text][seen] @ Q[place] / math.sqrt(Q.shape[-1])
        weights[place][seen] = softmax(scores)
        output[place] = weights[place][seen] @ V[text][seen]
    return output, weights


# ---- 3.5 next_token_pairs


def next_token_pairs__wrong_rolled_rows(tokens):
    """Rolls the rows and keeps all n columns, so the last target is the first token of the row."""
    inputs = tokens.copy()
    targets = np.roll(tokens, -1, axis=1)
    return inputs, targets


def next_token_pairs__wrong_pairs_without_overlap(tokens):
    """Cuts each row into separate pairs, so only every second token is an input."""
    n = tokens.shape[1] // 2 * 2
    pairs = tokens[:, :n].reshape(len(tokens), -1, 2)
    return pairs[:, :, 0], pairs[:, :, 1]


def next_token_pairs__wrong_small_integers(tokens):
    """Fills arrays of int32, which have no room for large ids."""
    B, n = tokens.shape
    inputs = np.empty((B, n - 1), dtype=np.int32)
    targets = np.empty((B, n - 1), dtype=np.int32)
    inputs[...] = tokens[:, : n - 1].astype(np.int32)
    targets[...] = tokens[:, 1:n].astype(np.int32)
    return inputs, targets


def next_token_pairs__wrong_looks_back(tokens):
    """The target of a token is the one before it, and not the next one."""
    context = tokens[:, 1:]
    before = tokens[:, :-1]
    return context, before


def next_token_pairs__wrong_loop_ends_early(tokens):
    """The loop stops one pair too early."""
    n = tokens.shape[1]
    inputs, targets = [], []
    for row in tokens:
        inputs.append([row[i] for i in range(n - 2)])
        targets.append([row[i + 1] for i in range(n - 2)])
    return np.array(inputs, dtype=tokens.dtype), np.array(targets, dtype=tokens.dtype)


def next_token_pairs__right_sliding_pairs(tokens):
    """All windows of two tokens; the first of each is the input, the second the target."""
    pairs = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    inputs, targets = np.moveaxis(pairs, -1, 0)
    return inputs, targets


# ---- 3.6 leaks_future


def leaks_future__wrong_values_only(attend, Q, K, V):
    """Changes the later values and never the keys, so it misses leaks through the sum of the softmax."""
    rng = np.random.default_rng(0)
    n = len(Q)
    if n == 1:
        return False
    before = attend(Q, K, V)
    for p in range(1, n):
        changed = V.copy()
        changed[p:] = rng.standard_normal(V[p:].shape)
        after = attend(Q, K, changed)
        size = np.maximum(abs(before[:p]).max(axis=1), abs(after[:p]).max(axis=1))
        if (abs(after - before)[:p].max(axis=1) > 1e-5 * size).any():
            return True
    return False


def leaks_future__wrong_features_added_up(attend, Q, K, V):
    """Compares the sums of the rows, in which changes of opposite sign cancel."""
    rng = np.random.default_rng(1)
    n = Q.shape[0]
    plain = attend(Q, K, V).sum(axis=1)
    for start in range(1, n):
        K2, V2 = K.copy(), V.copy()
        K2[start:] += rng.normal(size=K2[start:].shape)
        V2[start:] += rng.normal(size=V2[start:].shape)
        moved = attend(Q, K2, V2).sum(axis=1)[:start]
        size = np.abs(plain[:start]) + np.abs(moved)
        if np.any(np.abs(moved - plain[:start]) > 1e-5 * size):
            return True
    return False


def leaks_future__wrong_neighbour_not_watched(attend, Q, K, V):
    """Watches the rows before p - 1 only, so a look at the very next position goes unseen."""
    n = len(Q)
    rng = np.random.default_rng(42)
    base = attend(Q, K, V)
    found = False
    for p in range(1, n):
        new_K, new_V = K.copy(), V.copy()
        new_K[p:] = rng.standard_normal((n - p, K.shape[1]))
        new_V[p:] = rng.standard_normal((n - p, V.shape[1]))
        out = attend(Q, new_K, new_V)
        for i in range(p - 1):
            change = np.linalg.norm(out[i] - base[i])
            size = max(np.linalg.norm(base[i]), np.linalg.norm(out[i]))
            found = found or bool(change > 1e-5 * size)
    return found


def leaks_future__wrong_later_rows_to_zero(attend, Q, K, V):
    """Sets later keys and values to 0, which changes nothing where they are 0 already."""

    def cut(X, p):
        Y = np.zeros_like(X)
        Y[:p] = X[:p]
        return Y

    outputs = [attend(Q, cut(K, p), cut(V, p)) for p in range(len(Q), 0, -1)]
    whole = outputs[0]
    for p, out in zip(range(len(Q) - 1, 0, -1), outputs[1:]):
        size = np.abs(whole[:p]).max(axis=1, keepdims=True) + np.abs(out[:p]).max(axis=1, keepdims=True)
        if (np.abs(out[:p] - whole[:p]) > 1e-5 * size).any():
            return True
    return False


def leaks_future__wrong_one_size_for_all(attend, Q, K, V):
    """Measures every row against the largest output of all, so a leak in a row of small numbers drowns."""
    n = len(Q)
    if n < 2:
        return False
    rng = np.random.default_rng(7)
    first = attend(Q, K, V)
    for p in range(n - 1):
        later = np.arange(n)[:, None] > p
        K_new = np.where(later, rng.standard_normal(K.shape), K)
        V_new = np.where(later, rng.standard_normal(V.shape), V)
        second = attend(Q, K_new, V_new)
        off = np.abs(second[: p + 1] - first[: p + 1]).max()
        if off > 1e-5 * np.abs(first).max():
            return True
    return False


def leaks_future__right_chain_of_changes(attend, Q, K, V):
    """Keeps every change and adds one from the back in each call; a row's size is its largest over all calls."""
    n = len(Q)
    rng = np.random.default_rng(3)
    keys, values = K.astype(float), V.astype(float)
    answers = [np.array(attend(Q, keys.copy(), values.copy()), dtype=float)]
    for p in range(n - 1, 0, -1):
        keys[p:] = rng.standard_normal(keys[p:].shape)
        values[p:] = rng.standard_normal(values[p:].shape)
        answers.append(np.array(attend(Q, keys.copy(), values.copy()), dtype=float))
    answers = np.stack(answers)
    size = np.abs(answers).max(axis=(0, 2))
    for i in range(n - 1):
        unchanged = answers[: n - i, i]
        if np.ptp(unchanged, axis=0).max() > 2e-5 * size[i]:
            return True
    return False


# ---- 3.7 packed_causal_mask


def packed_causal_mask__wrong_runs_as_documents(document_ids):
    """Numbers the runs of equal ids, so a document that is interrupted counts as two."""
    B, n = document_ids.shape
    new = np.ones((B, n), dtype=bool)
    new[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    run = new.cumsum(axis=1)
    mask = (run[:, :, None] == run[:, None, :]) & causal_mask(n)
    place = np.arange(n)
    start = np.maximum.accumulate(np.where(new, place, 0), axis=1)
    return mask, place - start


def packed_causal_mask__wrong_counted_from_behind(document_ids):
    """Sums the mask over the queries, so positions count the tokens that follow and not those before."""
    n = document_ids.shape[1]
    same = document_ids[:, :, np.newaxis] == document_ids[:, np.newaxis, :]
    mask = same & np.tri(n, dtype=bool)
    positions = mask.sum(axis=1) - 1
    return mask, positions


def packed_causal_mask__wrong_distance_from_first(document_ids):
    """A position is the distance from the document's first token, which counts tokens of others in between."""
    _, n = document_ids.shape
    same = document_ids[:, None, :] == document_ids[:, :, None]
    mask = np.logical_and(same, np.arange(n)[:, None] >= np.arange(n)[None, :])
    first = same.argmax(axis=2)
    return mask, np.arange(n) - first


def packed_causal_mask__wrong_rows_share_documents(document_ids):
    """Counts each document on through the whole batch, as if an id of two rows were one document."""
    B, n = document_ids.shape
    mask = (document_ids[:, :, None] == document_ids[:, None, :]) & causal_mask(n)[None]
    flat = document_ids.ravel()
    positions = np.zeros(flat.size, dtype=int)
    for name in np.unique(flat):
        places = np.flatnonzero(flat == name)
        positions[places] = np.arange(places.size)
    return mask, positions.reshape(B, n)


def packed_causal_mask__wrong_future_of_document(document_ids):
    """The mask lets a token see its whole document, the later tokens too."""
    B, n = document_ids.shape
    same = np.zeros((B, n, n), dtype=bool)
    positions = np.zeros((B, n), dtype=int)
    for b in range(B):
        for name in np.unique(document_ids[b]):
            own = document_ids[b] == name
            same[b] |= np.outer(own, own)
            positions[b, own] = np.arange(own.sum())
    return same, positions


def packed_causal_mask__right_documents_as_columns(document_ids):
    """Marks the documents of a row as columns: running sums count, and a product says what belongs together."""
    masks, positions = [], []
    for ids in document_ids:
        names = np.unique(ids)
        member = ids[:, None] == names[None, :]
        counted = member.cumsum(axis=0) * member
        positions.append(counted.sum(axis=1) - 1)
        masks.append(np.tril(member.astype(int) @ member.T.astype(int)) > 0)
    return np.stack(masks), np.stack(positions)
