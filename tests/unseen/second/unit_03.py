import numpy as np

# Given by the notebook, and right versions of earlier exercises that answers call.


def softmax(z, axis=-1):
    """The stable softmax of unit 2, without any mask."""
    powers = np.exp(z - z.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def masked_softmax(scores, mask):
    """A right version, for masked_attention."""
    kept = np.where(mask, scores, -np.inf)
    top = kept.max(axis=-1, keepdims=True)
    powers = np.exp(kept - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / np.where(total > 0, total, 1)


def _noise(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


# causal_mask


def causal_mask__wrong_b_keys_in_rows(n):
    """Rows and columns are swapped: row 0 sees everything, since the rows are taken for keys, not for queries."""
    key, query = np.indices((n, n))
    return key <= query


def causal_mask__wrong_b_minus_infinity(n):
    """It returns numbers to add to the scores (0 and -inf), not booleans."""
    table = np.zeros((n, n))
    table[np.triu_indices(n, k=1)] = -np.inf
    return table


def causal_mask__wrong_b_loop_starts_at_one(n):
    """The loop over the queries begins at 1, so row 0 stays empty: token 0 may not even look at itself."""
    mask = np.full((n, n), False)
    for i in range(1, n):
        for j in range(i + 1):
            mask[i, j] = True
    return mask


def causal_mask__wrong_b_only_the_last_two(n):
    """Each query sees only itself and the one token before: the rest of the past is hidden."""
    own = np.eye(n, dtype=bool)
    before = np.eye(n, k=-1, dtype=bool)
    return own | before


def causal_mask__wrong_b_single_token_shape(n):
    """For n = 1 the result has the shape (1,), not (1, 1)."""
    if n == 1:  # nothing to hide
        return np.array([True])
    ones = np.ones((n, n), dtype=bool)
    return np.tril(ones)


def causal_mask__right_b_cumulative_or(n):
    """Runs a logical or along the columns of the identity."""
    return np.logical_or.accumulate(np.eye(n, dtype=bool), axis=0)


# padding_mask


def padding_mask__wrong_b_pads_in_front(lengths, m):
    """The real tokens are marked at the end of each row, as if the filler came first."""
    mask = np.zeros((len(lengths), m), dtype=bool)
    for b, length in enumerate(lengths):
        mask[b, m - length :] = True
    return mask


def padding_mask__wrong_b_length_zero_all_true(lengths, m):
    """A sequence of length 0 has a row of True: counting back from key length - 1 starts at -1, the last key."""
    result = np.zeros((lengths.size, m), dtype=bool)
    for row, last in zip(result, lengths - 1):
        row[last::-1] = True
    return result


def padding_mask__wrong_b_width_of_longest(lengths, m):
    """The mask is as wide as the longest sequence: m is ignored."""
    wide = max(lengths)
    return np.array([[j < length for j in range(wide)] for length in lengths], dtype=bool).reshape(len(lengths), wide)


def padding_mask__wrong_b_sorted_lengths(lengths, m):
    """The lengths are sorted first, so the rows no longer belong to their sequences."""
    ordered = np.sort(lengths)[::-1]
    return np.arange(m)[None, :] < ordered[:, None]


def padding_mask__wrong_b_integers_returned(lengths, m):
    """The mask holds the integers 1 and 0, not booleans."""
    out = []
    for length in lengths:
        out.append([1] * int(length) + [0] * (m - int(length)))
    return np.array(out)


def padding_mask__right_b_rows_of_a_triangle(lengths, m):
    """Row L of a strict lower triangle has L times True: picks a row for each length."""
    stairs = np.tri(m + 1, m, k=-1, dtype=bool)
    return stairs[np.asarray(lengths)]


# masked_softmax


def masked_softmax__wrong_b_rescaled_after(scores, mask):
    """Masks after the softmax and rescales: a large hidden score takes all the weight, and the allowed keys get 0."""
    weights = softmax(scores) * mask
    total = weights.sum(axis=-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)


def masked_softmax__wrong_b_nan_cleaned_up(scores, mask):
    """An empty row first becomes NaN (-inf minus -inf), which NumPy warns of; the NaN are only cleaned up after."""
    z = np.where(mask, scores, -np.inf)
    weights = softmax(z, axis=-1)
    return np.nan_to_num(weights, nan=0.0)


def masked_softmax__wrong_b_empty_only_if_all(scores, mask):
    """The empty case is caught only where the whole mask is empty; one empty row among others still gives NaN."""
    if not np.any(mask):
        return np.zeros_like(scores)
    return softmax(np.where(mask, scores, -np.inf))


def masked_softmax__wrong_b_zero_score_hidden(scores, mask):
    """Allowed keys whose score is 0 are hidden as well: what is hidden is read off the zeros of scores * mask."""
    products = scores * mask
    products = np.where(products == 0, -np.inf, products)
    highest = products.max(axis=-1, keepdims=True)
    highest = np.where(highest == -np.inf, 0, highest)
    numerator = np.exp(products - highest)
    denominator = numerator.sum(axis=-1, keepdims=True)
    return numerator / np.where(denominator == 0, 1, denominator)


def masked_softmax__wrong_b_first_axis(scores, mask):
    """The softmax runs along axis 0, over the queries, not along the last axis."""
    z = np.where(mask, scores, -np.inf)
    top = z.max(axis=0, keepdims=True)
    e = np.exp(z - np.where(np.isinf(top), 0, top))
    total = e.sum(axis=0, keepdims=True)
    return e / np.where(total == 0, 1, total)


def masked_softmax__right_b_row_by_row(scores, mask):
    """Goes through the rows one by one and looks only at the allowed scores."""
    mask = np.broadcast_to(mask, scores.shape)
    weights = np.zeros(scores.shape, dtype=scores.dtype)
    for where in np.ndindex(scores.shape[:-1]):
        allowed = np.flatnonzero(mask[where])
        if allowed.size:
            weights[where][allowed] = softmax(scores[where][allowed])
    return weights


# masked_attention


def masked_attention__wrong_b_root_of_key_count(Q, K, V, mask):
    """The scores are divided by the root of the number of keys, not of d_k."""
    m = K.shape[-2]
    scores = np.matmul(Q, K.swapaxes(-2, -1)) / np.sqrt(m)
    A = masked_softmax(scores, mask)
    return np.matmul(A, V), A


def masked_attention__wrong_b_no_root(Q, K, V, mask):
    """The scores are divided by d_k itself; the square root is forgotten."""
    scale = 1 / Q.shape[-1]
    A = masked_softmax(scale * (Q @ np.moveaxis(K, -1, -2)), mask)
    return A @ V, A


def masked_attention__wrong_b_axes_one_and_two(Q, K, V, mask):
    """In K the axes 1 and 2 are swapped, which are the last two only if there is a single leading axis."""
    flipped = K.T if K.ndim == 2 else np.swapaxes(K, 1, 2)
    weights = masked_softmax(Q @ flipped / np.sqrt(Q.shape[-1]), mask)
    return weights @ V, weights


def masked_attention__wrong_b_one_leading_axis_only(Q, K, V, mask):
    """The einsum names exactly one leading axis, so a single sequence or two leading axes fail."""
    scores = np.einsum("bnd,bmd->bnm", Q, K) / np.sqrt(K.shape[-1])
    weights = masked_softmax(scores, mask)
    return np.einsum("bnm,bmv->bnv", weights, V), weights


def masked_attention__wrong_b_mask_after_softmax(Q, K, V, mask):
    """The mask multiplies the weights after the softmax, so the allowed weights do not sum to 1."""
    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])
    weights = softmax(scores) * mask
    return weights @ V, weights


def masked_attention__right_b_flattened_loop(Q, K, V, mask):
    """Lays all leading axes into one and goes through the sequences in a loop."""
    lead, n, m = Q.shape[:-2], Q.shape[-2], K.shape[-2]
    everywhere = np.broadcast_to(mask, (*lead, n, m)).reshape(-1, n, m)
    parts = [array.reshape(-1, *array.shape[-2:]) for array in (Q, K, V)]
    outs, ws = [], []
    for q, k, v, allowed in zip(*parts, everywhere, strict=True):
        w = masked_softmax((k @ q.T).T / np.sqrt(q.shape[1]), allowed)
        ws.append(w)
        outs.append((v.T @ w.T).T)
    return np.array(outs).reshape(*lead, n, V.shape[-1]), np.array(ws).reshape(*lead, n, m)


# next_token_pairs


def next_token_pairs__wrong_b_view_overwritten(tokens):
    """The tokens are shifted in place: the caller's array changes, and so do the inputs, which are a view of it."""
    inputs = tokens[:, :-1]
    tokens[:, :-1] = tokens[:, 1:].copy()
    targets = tokens[:, :-1]
    return inputs, targets


def next_token_pairs__wrong_b_squeezed(tokens):
    """squeeze() removes axes of size 1, so a single row or a single pair loses an axis."""
    return tokens[:, :-1].squeeze(), tokens[:, 1:].squeeze()


def next_token_pairs__wrong_b_loop_too_short(tokens):
    """The loop leaves out the last pair of each row, which stays 0."""
    n = tokens.shape[1]
    x = np.zeros((tokens.shape[0], n - 1), dtype=tokens.dtype)
    y = np.zeros_like(x)
    for i in range(n - 2):
        x[:, i] = tokens[:, i]
        y[:, i] = tokens[:, i + 1]
    return x, y


def next_token_pairs__wrong_b_floats(tokens):
    """The result is filled into arrays of zeros, which are floats, not integers."""
    inputs = np.zeros((len(tokens), len(tokens[0]) - 1))
    targets = np.zeros((len(tokens), len(tokens[0]) - 1))
    for b, row in enumerate(tokens):
        for i, (now, after) in enumerate(zip(row[:-1], row[1:])):
            inputs[b, i] = now
            targets[b, i] = after
    return inputs, targets


def next_token_pairs__wrong_b_rows_run_on(tokens):
    """The batch is laid out as one long text, and pairs of the last token of a row with the next row's first arise."""
    text = tokens.ravel()
    return text[:-1], text[1:]


def next_token_pairs__right_b_one_long_roll(tokens):
    """Rolls the flattened text; what crosses from row to row is in the column that is cut off."""
    after = np.roll(tokens, -1)
    keep = tokens.shape[1] - 1
    return tokens[:, :keep], after[:, :keep]


# leaks_future


def leaks_future__wrong_b_values_never_changed(attend, Q, K, V):
    """Only the keys are changed, never the values: a leak of later values alone is missed."""
    rng = np.random.default_rng(42)
    base = attend(Q, K, V)
    found = []
    for j in range(1, len(K)):
        keys = np.vstack([K[:j], K[j:] + rng.normal(size=K[j:].shape)])
        d = abs(attend(Q, keys, V) - base)[:j]
        found.append(np.any(d.max(1) > 5e-5 * abs(base[:j]).max(1)))
    return any(map(bool, found))


def leaks_future__wrong_b_row_sums_compared(attend, Q, K, V):
    """Only the sums of the rows are compared: changes that cancel out within a row are missed."""
    rng = np.random.default_rng(0)
    y = attend(Q, K, V)
    for cut in range(1, len(Q)):
        K2, V2 = K.copy(), V.copy()
        K2[cut:] += rng.standard_normal(K2[cut:].shape)
        V2[cut:] += rng.standard_normal(V2[cut:].shape)
        y2 = attend(Q, K2, V2)
        difference = abs(y2[:cut].sum(axis=1) - y[:cut].sum(axis=1))
        if any(difference > 1e-4 * abs(y[:cut]).sum(axis=1)):
            return True
    return False


def leaks_future__wrong_b_decides_after_first_position(attend, Q, K, V):
    """The return False stands inside the loop, so only the first row is ever examined."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)
    for j in range(1, len(Q)):
        K_j, V_j = K.copy(), V.copy()
        K_j[j:] += rng.standard_normal(K_j[j:].shape)
        V_j[j:] += rng.standard_normal(V_j[j:].shape)
        out = attend(Q, K_j, V_j)
        size = np.maximum(np.abs(out), np.abs(base))[:j].max(axis=1)
        if (np.abs(out - base)[:j].max(axis=1) > 1e-4 * size).any():
            return True
        return False
    return False


def leaks_future__wrong_b_one_percent(attend, Q, K, V):
    """Only changes above a hundredth of a row's size count, but a thousandth is a leak."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)
    sizes = np.abs(base).max(axis=1)
    for j in range(1, len(Q)):
        k, v = K.copy(), V.copy()
        k[j:] += rng.standard_normal(k[j:].shape)
        v[j:] += rng.standard_normal(v[j:].shape)
        if (np.abs(attend(Q, k, v) - base)[:j].max(axis=1) > 0.01 * sizes[:j]).any():
            return True
    return False


def leaks_future__wrong_b_inputs_left_changed(attend, Q, K, V):
    """K and V are changed in place and not put back: the caller's arrays are other ones afterwards."""
    rng = np.random.default_rng(0)
    base = attend(Q, K, V)
    for j in reversed(range(1, len(Q))):
        K[j] += rng.standard_normal(K.shape[1])
        V[j] += rng.standard_normal(V.shape[1])
        out = attend(Q, K, V)
        scale = np.maximum(np.abs(out[:j]), np.abs(base[:j])).max(axis=1)
        if (np.abs(out[:j] - base[:j]).max(axis=1) > 1e-4 * scale).any():
            return True
    return False


def leaks_future__right_b_growing_future(attend, Q, K, V):
    """Goes from the end to the beginning; one pair of copies in which ever more of the future is new."""
    rng = np.random.default_rng(0)
    keys, values, plain = np.array(K), np.array(V), np.array(attend(Q, K, V))
    verdict = False
    for j in range(len(Q) - 1, 0, -1):
        keys[j] = K[j] + rng.standard_normal(K.shape[1])
        values[j] = V[j] + rng.standard_normal(V.shape[1])
        now = np.array(attend(Q.copy(), keys.copy(), values.copy()))[:j]
        step = np.abs(now - plain[:j]).max(axis=1)
        size = np.maximum(np.abs(now), np.abs(plain[:j])).max(axis=1)
        verdict |= bool((step > 3e-5 * size).any())
    return verdict


# packed_causal_mask


def packed_causal_mask__wrong_b_future_of_document(document_ids):
    """The mask is not causal: a token also sees the later ones of its document."""
    same = document_ids[:, :, None] == document_ids[:, None, :]
    positions = np.tril(same).sum(axis=-1) - 1
    return same, positions


def packed_causal_mask__wrong_b_positions_restart(document_ids):
    """After an interruption a document's positions begin at 0 again: they are counted from the start of the run."""
    B, n = document_ids.shape
    mask = (document_ids[..., None] == document_ids[:, None]) & np.tri(n, dtype=bool)
    starts = np.ones((B, n), dtype=bool)
    starts[:, 1:] = document_ids[:, 1:] != document_ids[:, :-1]
    place = np.arange(n)
    last_start = np.maximum.accumulate(np.where(starts, place, 0), axis=1)
    return mask, place - last_start


def packed_causal_mask__wrong_b_ids_cut_to_32_bits(document_ids):
    """The ids are cast to 32 bits first, so that some very large ids become equal to others."""
    ids = document_ids.astype(np.int32)
    mask = np.tril(ids[:, :, None] == ids[:, None, :])
    return mask, mask.sum(axis=-1) - 1


def packed_causal_mask__wrong_b_first_row_for_all(document_ids):
    """The documents of the first row are used for every row of the batch."""
    B, n = document_ids.shape
    ids = document_ids[0]
    one = (ids[:, None] == ids) & np.tri(n, dtype=bool)
    mask = np.stack([one] * B)
    return mask, mask.sum(axis=2) - 1


def packed_causal_mask__wrong_b_negative_ids_merged(document_ids):
    """The absolute values of the ids are compared, so that the documents -3 and 3 become one."""
    ids = np.abs(document_ids)
    n = ids.shape[1]
    mask = np.logical_and(ids[:, :, None] == ids[:, None, :], np.tri(n) > 0)
    positions = np.einsum("bij->bi", mask.astype(int)) - 1
    return mask, positions


def packed_causal_mask__right_b_stable_sort(document_ids):
    """Sorts each row by document and numbers the tokens within the sorted groups."""
    B, n = document_ids.shape
    order = np.argsort(document_ids, axis=1, kind="stable")
    ordered = np.take_along_axis(document_ids, order, axis=1)
    begins = np.ones((B, n), dtype=bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    place = np.arange(n)
    number = place - np.maximum.accumulate(np.where(begins, place, 0), axis=1)
    positions = np.empty((B, n), dtype=int)
    np.put_along_axis(positions, order, number, axis=1)
    later = place[None, :] > place[:, None]
    mask = ~((document_ids[:, :, None] != document_ids[:, None, :]) | later)
    return mask, positions
