"""Right and wrong answers to unit 03_masking, written from the contracts of the functions alone, to test the judge with."""  # noqa: E501

import collections
import numpy as np


def causal_mask__right_not_triu(n):
    """The complement of the strictly upper triangle, with a print."""
    print("building a mask of size", n)
    return ~np.triu(np.ones((n, n), dtype=bool), k=1)


def causal_mask__right_windows(n):
    """Windows that slide over one line of n times True and n - 1 times False: a read-only view."""
    return np.lib.stride_tricks.sliding_window_view(np.arange(2 * n - 1) < n, n)[::-1]


def causal_mask__wrong_upper(n):
    """The upper triangle: transposed, a token sees only the future."""
    return np.triu(np.ones((n, n), dtype=bool))


def causal_mask__wrong_hard_coded_size(n):
    """Cuts the mask out of a fixed one of 4 x 4."""
    return np.tri(4, dtype=bool)[:n, :n]


def causal_mask__wrong_window_of_two(n):
    """Only the token itself and its predecessor: a band."""
    difference = np.arange(n)[:, None] - np.arange(n)
    return (difference >= 0) & (difference < 2)


def padding_mask__right_not_padding(lengths, m):
    """The complement of the padding, with a print."""
    padding = np.arange(m)[None, :] >= np.asarray(lengths).reshape(-1, 1)
    print(int(padding.sum()), "padded keys")
    return np.logical_not(padding)


def padding_mask__right_rows_joined(lengths, m):
    """Every row joined from ones and zeros, converted to bool at the end."""
    rows = [np.r_[np.ones(int(k)), np.zeros(m - int(k))] for k in lengths]
    return np.array(rows).reshape(len(rows), m).astype(bool)


def padding_mask__wrong_longest(lengths, m):
    """As wide as the longest sequence, not m."""
    return np.arange(lengths.max()) < lengths[:, None]


def padding_mask__wrong_at_least_one(lengths, m):
    """Treats length 0 as 1, so that no row is empty."""
    return np.arange(m) < np.maximum(lengths, 1)[:, None]


def padding_mask__wrong_negative_slice(lengths, m):
    """Cuts with [-padding:], which for padding 0 blanks the whole row."""
    mask = np.ones((len(lengths), m), dtype=bool)
    for b, length in enumerate(lengths):
        mask[b, -(m - length) :] = False
    return mask


def padding_mask__wrong_never_full(lengths, m):
    """Clips the lengths to m - 1: a full sequence loses its last key."""
    return np.arange(m) < np.minimum(lengths, m - 1)[:, None]


def padding_mask__wrong_stops_at_empty(lengths, m):
    """Leaves the loop at the first empty sequence."""
    mask = np.zeros((len(lengths), m), dtype=bool)
    for b, length in enumerate(lengths):
        if length == 0:
            break
        mask[b, :length] = True
    return mask


def masked_softmax__right_apply_along_axis(scores, mask):
    """NaN as a marker inside, nanmax avoided, one row at a time, printing its shape."""
    print("softmax of", scores.shape)

    def one_row(row):
        seen = ~np.isnan(row)
        out = np.zeros_like(row)
        if seen.any():
            e = np.exp(row[seen] - row[seen].max())
            out[seen] = e / e.sum()
        return out

    return np.apply_along_axis(one_row, -1, np.where(mask, np.asarray(scores, dtype=np.float64), np.nan))


def masked_softmax__right_pairwise(scores, mask):
    """One over the sum of exp(z_j - z_i), clipped: no maximum anywhere."""
    keep = np.broadcast_to(mask, scores.shape)
    z = scores.astype(np.float64)
    difference = np.minimum(z[..., None, :] - z[..., :, None], 700.0)
    total = np.where(keep[..., None, :], np.exp(difference), 0.0).sum(axis=-1)
    return np.where(keep & (total > 0), 1.0 / np.where(total > 0, total, 1.0), 0.0) * (total < 1e300)


def masked_softmax__right_sink(scores, mask):
    """One more column, which takes all the weight of a row where nothing is allowed, and is cut off."""
    mask = np.broadcast_to(mask, scores.shape)
    sink = np.where(mask.any(axis=-1, keepdims=True), -np.inf, 0.0)
    padded = np.concatenate([np.where(mask, scores, -np.inf), sink], axis=-1)
    powers = np.exp(padded - padded.max(axis=-1, keepdims=True))
    return (powers / powers.sum(axis=-1, keepdims=True))[..., :-1]


def masked_softmax__right_masked_array(scores, mask):
    """NumPy's masked arrays, filled with zeros in the end."""
    kept = np.ma.masked_array(scores, ~np.broadcast_to(mask, scores.shape))
    top = kept.max(axis=-1, keepdims=True).filled(0)
    powers = np.ma.exp(kept - top).filled(0)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / (total + (total == 0))


def masked_softmax__wrong_small_fill(scores, mask):
    """Fills with -100: leaks when the allowed scores are as low as that or lower."""
    z = np.where(mask, scores, -100.0)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return np.where(np.broadcast_to(mask, p.shape).any(axis=-1, keepdims=True), p, 0.0)


def masked_softmax__wrong_warns_when_empty(scores, mask):
    """Right values, but an invalid-value warning where nothing is allowed."""
    z = np.where(mask, scores, -np.inf)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.nan_to_num(e / e.sum(axis=-1, keepdims=True))


def masked_softmax__wrong_global_maximum(scores, mask):
    """Subtracts one maximum for all rows: rows far below it underflow to zero."""
    e = np.exp(scores - scores.max()) * mask
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_no_broadcast(scores, mask):
    """Indexes with the mask: fails when the mask has to broadcast."""
    z = np.full(scores.shape, -1e30)
    z[mask] = scores[mask]
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_softmax__wrong_zero_if_any_empty(scores, mask):
    """One empty row makes the whole result zero."""
    keep = np.broadcast_to(mask, scores.shape)
    if not keep.any(axis=-1).all():
        return np.zeros_like(scores)
    z = np.where(keep, scores, -np.inf)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def masked_softmax__wrong_clipped(scores, mask):
    """Clips the scores to -50 ... 50 to be "stable"."""
    e = np.exp(np.clip(scores, -50.0, 50.0)) * mask
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1.0, total)


def masked_attention__right_fourth_roots(Q, K, V, mask):
    """Queries and keys are both divided by the fourth root of d_k, before they meet."""
    queries, keys = (x / Q.shape[-1] ** 0.25 for x in (Q, K))
    weights = masked_softmax__right_sink(np.matmul(queries, np.moveaxis(keys, -1, -2)), mask)
    return np.matmul(weights, V), weights


def masked_attention__right_recursion(Q, K, V, mask):
    """One leading axis at a time, down to a single sequence, whose products are turned over."""
    if Q.ndim > 2:
        mask = np.broadcast_to(mask, Q.shape[:-1] + K.shape[-2:-1])
        outputs, weights = zip(*map(masked_attention__right_recursion, Q, K, V, mask), strict=True)
        return np.stack(outputs), np.stack(weights)
    weights = masked_softmax__right_masked_array((K @ Q.T).T / np.sqrt(K.shape[1]), mask)
    return (V.T @ weights.T).T, weights


def masked_attention__wrong_root_of_axis_one(Q, K, V, mask):
    """Takes d_k from axis 1: with leading axes that is another size."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_uniform_when_empty(Q, K, V, mask):
    """A query with nothing allowed gets the mean of all values."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e9)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return weights @ V, weights


def masked_attention__wrong_unstable(Q, K, V, mask):
    """Exponentials without subtracting the maximum."""
    e = np.exp(Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1])) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_first_batch_mask(Q, K, V, mask):
    """Uses the mask of the first batch element for all."""
    while mask.ndim > 2:
        mask = mask[0]
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    return weights @ V, weights


def masked_attention__wrong_values_mixed_over_batch(Q, K, V, mask):
    """An einsum that sums the values over the first axis, too, if there are three."""
    z = np.where(mask, Q @ np.swapaxes(K, -1, -2) / np.sqrt(Q.shape[-1]), -1e30)
    e = np.exp(z - z.max(axis=-1, keepdims=True)) * mask
    weights = e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)
    if weights.ndim == 3:
        return np.einsum("bnm,cmv->bnv", weights, V), weights
    return weights @ V, weights


def _rows_move(now, base, share=1e-6):
    """Whether any row changes by more than this share of its size."""
    size = np.maximum(np.abs(now), np.abs(base)).max(axis=1)
    return bool((np.abs(now - base).max(axis=1) > share * size).any())


def leaks_future__right_every_cut(attend, Q, K, V):
    """For every cut, a wave in place of later keys and values."""
    Q, K, V = (np.array(x, dtype=np.float64) for x in (Q, K, V))
    base = np.array(attend(Q.copy(), K.copy(), V.copy()), dtype=np.float64)

    def wave(shape, phase):
        return np.cos(1.7 * np.arange(1, np.prod(shape) + 1) ** 1.1 + phase).reshape(shape)

    for cut in range(1, len(Q)):
        k, v = K.copy(), V.copy()
        k[cut:] = 1.9 * wave(k[cut:].shape, 1.9)
        v[cut:] = wave(v[cut:].shape, 2.9)
        now = np.asarray(attend(Q.copy(), k, v), dtype=np.float64)
        if _rows_move(now[:cut], base[:cut]):
            return True
    return False


def leaks_future__right_worst_row(attend, Q, K, V):
    """Compares what moves the most with the size of its row; a 0-d array."""
    before = attend(Q, K, V)
    size, worst = np.abs(before).max(axis=1) + 1e-300, 0.0
    for i in range(1, len(Q)):
        noise, keys, values = np.random.default_rng(i), K.copy(), V.copy()
        keys[i:] = noise.uniform(-2, 2, keys[i:].shape)
        values[i:] = noise.uniform(-2, 2, values[i:].shape)
        moved = np.abs(attend(Q, keys, values) - before).max(axis=1)
        worst = max(worst, (moved / size)[:i].max())
    return np.array(worst > 1e-6)


def leaks_future__right_two_futures(attend, Q, K, V):
    """None of the futures that are compared is the given one."""
    rng = np.random.RandomState(3)
    k, v = (rng.normal(size=x.shape) for x in (K, V))
    k[0], v[0] = K[0], V[0]
    futures = [attend(Q, k, v)]
    for split in range(1, len(Q)):
        k, v = (np.concatenate([x[:split], rng.normal(size=x[split:].shape)]) for x in (k, v))
        futures.append(attend(Q, k, v))
    return any(_rows_move(new[:cut], old[:cut], 1e-5) for cut, (old, new) in enumerate(zip(futures, futures[1:]), 1))


def leaks_future__wrong_values_only(attend, Q, K, V):
    """Changes the later values only: a leak through the denominator is missed."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        v = V.copy()
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        if np.abs(attend(Q, K, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_next_token_only(attend, Q, K, V):
    """Changes token i + 1 only: a leak from two steps ahead is missed."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1] = -k[i + 1] + 0.5
        v[i + 1] = -2 * v[i + 1] + np.abs(V).max()
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_loose(attend, Q, K, V):
    """A tolerance of 5 per cent: a small leak is missed."""
    base = attend(Q, K, V)
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 0.05 * np.abs(base[i]).max():
            return True
    return False


def leaks_future__wrong_remembers_base(attend, Q, K, V):
    """Keeps the first base output it ever saw of a shape: later calls compare with another attention."""
    seen = leaks_future__wrong_remembers_base.__dict__
    base = seen.setdefault(f"{Q.shape}{V.shape}", np.array(attend(Q, K, V)))
    for i in range(len(Q) - 1):
        k, v = K.copy(), V.copy()
        k[i + 1 :] = -k[i + 1 :] + 0.5
        v[i + 1 :] = -2 * v[i + 1 :] + np.abs(V).max()
        if np.abs(attend(Q, k, v)[i] - base[i]).max() > 1e-6 * np.abs(base[i]).max():
            return True
    return False


def next_token_pairs__right_windows(tokens):
    """Sliding windows of two tokens, the two halves taken apart."""
    pairs = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    print("pairs per sequence:", pairs.shape[1])
    return pairs[..., 0], pairs[..., 1]


def next_token_pairs__right_take(tokens):
    """Index arrays; int64 whatever came in, targets as a transposed array."""
    where = np.arange(tokens.shape[1] - 1)
    inputs = np.take(tokens, where, axis=1).astype(np.int64)
    return inputs, np.ascontiguousarray(tokens.T[where + 1]).astype(np.int64).T


def next_token_pairs__right_named_tuple(tokens):
    """A tuple whose parts have names."""
    pair = collections.namedtuple("pair", "inputs targets")
    return pair(*np.stack([tokens[:, :-1], tokens[:, 1:]]))


def next_token_pairs__wrong_last_target_column(tokens):
    """The last token is the only target: shape (B, 1)."""
    return tokens[:, :-1], tokens[:, -1:]


def next_token_pairs__wrong_byte(tokens):
    """Stores the tokens as uint8: ids above 255 wrap."""
    return tokens[:, :-1].astype(np.uint8), tokens[:, 1:].astype(np.uint8)


def next_token_pairs__wrong_hard_coded_length(tokens):
    """Cuts at seven, as if every sequence had eight tokens."""
    return tokens[:, :7], tokens[:, 1:8]


def _same(ids):
    """Which pairs of tokens have the same id: (B, n, n)."""
    return ids[:, :, None] == ids[:, None, :]


def _numbers(ids):
    """The number of each token within its document."""
    return np.tril(_same(ids)).sum(axis=2) - 1


def packed_causal_mask__right_one_hot(document_ids):
    """One-hot documents: their products are the mask, their running sums the numbers."""
    names, codes = np.unique(document_ids, return_inverse=True)
    hot = np.eye(len(names))[codes.reshape(document_ids.shape)]
    running = hot.cumsum(axis=1)
    n = document_ids.shape[1]
    mask = (hot @ hot.transpose(0, 2, 1) > 0.5) & np.tri(n, dtype=bool)
    return mask, ((running * hot).sum(axis=2) - 1).round().astype(int)


def packed_causal_mask__right_sorted_runs(document_ids):
    """Row by row: a stable sort brings each document together, numbers are given there and carried back."""
    print("packing", document_ids.shape)
    B, n = document_ids.shape
    positions = np.empty((B, n), dtype=int)
    for row, out in zip(document_ids, positions, strict=True):
        order = np.argsort(row, kind="stable")
        starts = np.r_[True, np.diff(row[order]) != 0]
        out[order] = np.arange(n) - np.maximum.accumulate(np.where(starts, np.arange(n), 0))
    return np.less_equal.outer(np.arange(n), np.arange(n)).T & ~(
        document_ids[..., None] != document_ids[:, None]
    ), positions


def packed_causal_mask__wrong_block_diagonal(document_ids):
    """Documents apart, but each is open in both directions."""
    return _same(document_ids), _numbers(document_ids)


def packed_causal_mask__wrong_since_first_token(document_ids):
    """The distance to the document's first token, whatever lies between."""
    same = _same(document_ids)
    return np.tril(same), np.arange(document_ids.shape[1]) - same.argmax(axis=2)


def packed_causal_mask__wrong_earlier_documents_too(document_ids):
    """Ids taken for the order of the documents: earlier ones stay open."""
    return np.tril(document_ids[:, :, None] >= document_ids[:, None, :]), _numbers(document_ids)


def packed_causal_mask__wrong_counted_by_id(document_ids):
    """One counter an id for the whole batch."""
    B, n = document_ids.shape
    flat = document_ids.reshape(1, -1)
    return np.tril(_same(document_ids)), _numbers(flat).reshape(B, n)


def packed_causal_mask__wrong_not_carried_back(document_ids):
    """Numbers given after sorting stay in the sorted order."""
    return np.tril(_same(document_ids)), _numbers(np.sort(document_ids, axis=1))


def packed_causal_mask__wrong_first_row(document_ids):
    """One mask (n, n), that of the first row, for all."""
    mask = np.tril(_same(document_ids))[:1]
    return np.repeat(mask, len(document_ids), axis=0), np.repeat(_numbers(document_ids)[:1], len(document_ids), axis=0)


def packed_causal_mask__wrong_ids_as_indices(document_ids):
    """Counts with ids as indices into an array of n: fails for larger ids."""
    B, n = document_ids.shape
    counts = np.zeros((B, n), dtype=int)
    positions = np.zeros((B, n), dtype=int)
    for i in range(n):
        positions[:, i] = counts[np.arange(B), document_ids[:, i]]
        counts[np.arange(B), document_ids[:, i]] += 1
    return np.tril(_same(document_ids)), positions


def packed_causal_mask__wrong_zero_is_padding(document_ids):
    """Takes id 0 for padding that sees nothing and gets position 0."""
    n = document_ids.shape[1]
    real = document_ids != 0
    mask = np.tri(n, dtype=bool) & (document_ids[:, :, None] == document_ids[:, None, :]) & real[:, :, None]
    return mask, np.maximum(mask.sum(-1) - 1, 0)
