"""Answers to unit 05's functions, written from the notebook alone."""

import math

import torch


def _split_heads(X, n_heads):
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    return X.transpose(1, 2).flatten(2)


def _masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


# 5.1


def kv_cache_bytes__wrong_fourth_newest_token_not_kept(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Takes the newest token to be the asker, which is not kept: counts n_tokens - 1 tokens (0 stays 0)."""
    past = max(n_tokens - 1, 0)
    keys = n_layers * n_kv_heads * d_head * past * batch
    return (keys + keys) * bytes_per_value


def kv_cache_bytes__wrong_fourth_by_way_of_kilobytes(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Counts kilobytes as a float on the way and goes back to bytes: an int, but not exact for very large caches."""
    kilobytes_per_token = 2 * n_layers * n_kv_heads * d_head * bytes_per_value / 1024
    return round(kilobytes_per_token * 1024 * n_tokens * batch)


# 5.2


def repeat_kv__wrong_fourth_copies_beside_the_tokens(K, n_rep):
    """Stacks the copies on the axis after the tokens, so the reshape deals each head's tokens out over n_rep heads."""
    B, g, n, d = K.shape
    copies = torch.stack([K] * n_rep, dim=3)
    return copies.reshape(B, g * n_rep, n, d)


# 5.3


def grouped_query_attention__wrong_fourth_mask_meets_grouped_scores(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Scores are (B, g, r, n, n) when the mask comes in: fine for (n, n), not for a mask with axes of B or h."""
    if n_heads % n_kv_heads != 0:
        raise ValueError("n_kv_heads has to divide n_heads")
    q = _split_heads(X @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1))
    k = _split_heads(X @ W_K, n_kv_heads)
    v = _split_heads(X @ W_V, n_kv_heads)
    scores = torch.einsum("bgrid,bgjd->bgrij", q, k) / math.sqrt(q.shape[-1])
    weights = _masked_softmax(scores, mask)
    heads = torch.einsum("bgrij,bgjd->bgrid", weights, v)
    return _merge_heads(heads.flatten(1, 2)) @ W_O


def grouped_query_attention__wrong_fourth_uneven_groups_cut_to_fit(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Raises only for g > h; where g < h does not divide h it rounds r up and lets the last group come up short."""
    if n_kv_heads > n_heads:
        raise ValueError("there are more key/value heads than query heads")
    n_rep = -(-n_heads // n_kv_heads)
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (_split_heads(X @ W, n_kv_heads).repeat_interleave(n_rep, dim=1)[:, :n_heads] for W in (W_K, W_V))
    A = _masked_softmax(Q @ K.mT / Q.shape[-1] ** 0.5, mask)
    return _merge_heads(A @ V) @ W_O


def grouped_query_attention__wrong_fourth_width_of_all_keys_and_plain_merge(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Two slips: divides scores by the root of W_K's whole width, g*d_head, and merges heads without the transpose."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
    B, n, _ = X.shape
    reads = torch.arange(n_heads) // (n_heads // n_kv_heads)
    queries = _split_heads(X @ W_Q, n_heads)
    keys = _split_heads(X @ W_K, n_kv_heads)[:, reads]
    values = _split_heads(X @ W_V, n_kv_heads)[:, reads]
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(W_K.shape[1])
    found = _masked_softmax(scores, mask) @ values
    return found.reshape(B, n, -1) @ W_O


# 5.4


def multi_query_attention__wrong_fourth_values_copied(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Right numbers, and the keys are broadcast, but the values are stacked once per head."""
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = X @ W_K, X @ W_V
    A = _masked_softmax(Q @ K[:, None].mT / K.shape[-1] ** 0.5, mask)
    V_for_all = torch.stack([V] * n_heads, dim=1)
    return _merge_heads(A @ V_for_all) @ W_O


def multi_query_attention__wrong_fourth_token_major_queue_masked_by_heads(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The queue has all heads of token 0 first, yet for the mask its rows are read as (h, n): right without a mask."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d = K.shape[-1]
    queue = (X @ W_Q).reshape(B, n * n_heads, d)
    scores = (queue @ K.mT / math.sqrt(d)).reshape(B, n_heads, n, n)
    weights = _masked_softmax(scores, mask).reshape(B, n * n_heads, n)
    return (weights @ V).reshape(B, n, n_heads * d) @ W_O


def multi_query_attention__right_fourth_token_major_queue(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Right: a queue of all heads of token 0, then of token 1, ...; no split, no merge, and the mask turns."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d = K.shape[-1]
    queue = (X @ W_Q).reshape(B, n * n_heads, d)
    scores = (queue @ K.mT / math.sqrt(d)).reshape(B, n, n_heads, n)
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).transpose(1, 2)
    weights = _masked_softmax(scores, mask).reshape(B, n * n_heads, n)
    return (weights @ V).reshape(B, n, n_heads * d) @ W_O


# 5.5


def decode_step__wrong_fourth_newest_first(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Puts the new key and value in front of the kept ones: out is right, but the cache runs from new to old."""
    K, V = (torch.cat([_split_heads(x @ W, n_kv_heads), old], dim=2) for W, old in zip((W_K, W_V), cache, strict=True))
    q = _split_heads(x @ W_Q, n_heads).reshape(x.shape[0], n_kv_heads, n_heads // n_kv_heads, -1)
    A = torch.softmax(q @ K.mT / q.shape[-1] ** 0.5, dim=-1)
    out = (A @ V).reshape(x.shape[0], 1, -1) @ W_O
    return out, (K, V)


def decode_step__wrong_fourth_root_of_the_length(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Takes K.shape[2] for the width of a head: scores are divided by the root of the number of tokens, t + 1."""
    k_old, v_old = cache
    k_new = _split_heads(x @ W_K, n_kv_heads)
    v_new = _split_heads(x @ W_V, n_kv_heads)
    K = torch.cat((k_old, k_new), dim=2)
    V = torch.cat((v_old, v_new), dim=2)
    width = K.shape[2]
    r = n_heads // n_kv_heads
    heads = []
    for a in range(n_heads):
        q = _split_heads(x @ W_Q, n_heads)[:, a]
        scores = q @ K[:, a // r].mT / math.sqrt(width)
        heads.append(scores.softmax(-1) @ V[:, a // r])
    return torch.cat(heads, dim=-1) @ W_O, (K, V)


# 5.6


def pool_kv_heads__wrong_fourth_heads_read_as_rows(W, n_heads, n_kv_heads):
    """Reshapes W as if its heads lay one below another: right for a W of one row, as in the text's example."""
    d_model = W.shape[0]
    d_head = W.shape[1] // n_heads
    heads = W.reshape(n_kv_heads, n_heads // n_kv_heads, d_model, d_head)
    return torch.cat(list(heads.mean(dim=1)), dim=1)


def pool_kv_heads__wrong_fourth_sum_over_the_root(W, n_heads, n_kv_heads):
    """Divides the sum of a group's heads by the root of their number, to keep the size of random weights."""
    r = n_heads // n_kv_heads
    return W.unflatten(1, (n_kv_heads, r, -1)).sum(2).flatten(1) / math.sqrt(r)


def pool_kv_heads__right_fourth_one_matrix_product(W, n_heads, n_kv_heads):
    """Right: W times one sparse matrix, the Kronecker product of a matrix that averages heads with an identity."""
    r = n_heads // n_kv_heads
    averages = torch.eye(n_kv_heads, dtype=W.dtype).repeat_interleave(r, dim=0) / r
    return W @ torch.kron(averages, torch.eye(W.shape[1] // n_heads, dtype=W.dtype))


# 5.7


def extend_cache__wrong_fourth_mask_rows_interleaved(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The queue runs head by head, the mask's rows are repeated token by token: right for r = 1 or one new token."""
    B, n_new, _ = X_new.shape
    r = n_heads // n_kv_heads
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    total = K.shape[2]
    sees = torch.ones(n_new, total, dtype=torch.bool).tril(total - n_new)
    queue = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    A = _masked_softmax(queue @ K.mT / K.shape[-1] ** 0.5, sees.repeat_interleave(r, dim=0))
    heads = (A @ V).unflatten(2, (r, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_fourth_cut_from_a_square_mask(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Right numbers, but the mask is the last rows of a full (t + n_new, t + n_new) triangle, too much for a long t."""
    n_new = X_new.shape[1]
    K, V = (torch.cat([old, _split_heads(X_new @ W, n_kv_heads)], 2) for old, W in zip(cache, (W_K, W_V), strict=True))
    n = K.shape[2]
    causal = torch.tril(torch.ones(n, n, dtype=torch.bool))
    mask = causal[n - n_new :].repeat(n_heads // n_kv_heads, 1)
    Q = _split_heads(X_new @ W_Q, n_heads)
    rows = Q.reshape(Q.shape[0], n_kv_heads, -1, Q.shape[-1])
    found = _masked_softmax(rows @ K.mT / math.sqrt(Q.shape[-1]), mask) @ V
    return _merge_heads(found.reshape(Q.shape)) @ W_O, (K, V)


def extend_cache__wrong_fourth_new_ones_unseen_and_wide_root(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Two slips: a new token sees the old ones and itself, not the new ones before; the root is of W_Q's width."""
    n_new, t = X_new.shape[1], cache[0].shape[2]
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=-2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=-2)
    Q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1))
    allowed = torch.cat([torch.ones(n_new, t), torch.eye(n_new)], dim=1).bool()
    scores = torch.einsum("bgrid,bgjd->bgrij", Q, K) / math.sqrt(W_Q.shape[1])
    out = torch.einsum("bgrij,bgjd->bigrd", _masked_softmax(scores, allowed), V)
    return out.flatten(2) @ W_O, (K, V)
