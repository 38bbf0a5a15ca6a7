"""Unit 5, MQA and GQA: wrong and right answers to its exercises, as students would write them."""

import functools
import math
import operator

import torch
import torch.nn.functional as F


def _split_heads(X, n_heads):
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    return X.transpose(1, 2).flatten(2)


def _masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def _repeat_kv(K, n_rep):
    return K.repeat_interleave(n_rep, dim=1)


# ---------------------------------------------------------------- 5.1 kv_cache_bytes


def kv_cache_bytes__wrong_sixth_queries_kept_too(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Counts three kept tensors, Q, K and V, where the cache holds K and V only."""
    kept = ("Q", "K", "V")
    numbers = 0
    for _ in kept:
        numbers += n_layers * n_kv_heads * d_head * n_tokens
    return numbers * batch * bytes_per_value


def kv_cache_bytes__wrong_sixth_keys_only(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Takes the 2 of the formula for the 2 bytes of half precision, so that keys alone are counted."""
    per_token = n_layers * n_kv_heads * d_head * bytes_per_value
    return batch * n_tokens * per_token


def kv_cache_bytes__wrong_sixth_always_half_precision(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Writes 4 = 2 (keys and values) times 2 (bytes) as a constant and never uses bytes_per_value."""
    return 4 * n_layers * n_kv_heads * d_head * n_tokens * batch


def kv_cache_bytes__wrong_sixth_batch_for_values_only(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Multiplies the values by batch but forgets the brackets, so the keys count for one sequence only."""
    keys = n_layers * n_kv_heads * d_head * n_tokens * bytes_per_value
    values = n_layers * n_kv_heads * d_head * n_tokens * bytes_per_value
    return keys + values * batch


def kv_cache_bytes__wrong_sixth_all_steps_added_up(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Adds up the cache of every step while it grows (1 + 2 + ... + n tokens) in place of the n tokens at the end."""
    total = 0
    for t in range(1, n_tokens + 1):
        total = total + 2 * t
    return total * n_layers * n_kv_heads * d_head * batch * bytes_per_value


def kv_cache_bytes__wrong_sixth_through_a_float(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Multiplies in floating point and turns the result to int at the end: large caches are rounded, not exact."""
    size = 2.0
    for factor in (n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value):
        size *= factor
    return int(size)


def kv_cache_bytes__wrong_sixth_at_least_one_token(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Reads n_tokens with `or 1`, so that an empty cache takes as much as one token instead of 0 bytes."""
    tokens = (n_tokens or 1) * batch
    return tokens * 2 * n_kv_heads * d_head * n_layers * bytes_per_value


def kv_cache_bytes__wrong_sixth_in_kibibytes(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Returns whole KiB (// 1024) in place of bytes."""
    size = 2 * n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value
    return size // 1024


def kv_cache_bytes__right_sixth_reduce_with_shift(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Multiplies everything by functools.reduce and doubles with a bit shift."""
    factors = [n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value]
    return functools.reduce(operator.mul, factors, 1) << 1


# ---------------------------------------------------------------- 5.2 repeat_kv


def repeat_kv__wrong_sixth_whole_row_again(K, n_rep):
    """Uses `repeat`, which lays the whole row of heads down again and again: 0, 1, 0, 1."""
    return K.repeat(1, n_rep, 1, 1)


def repeat_kv__wrong_sixth_repeats_tokens(K, n_rep):
    """Repeats along axis 2, the tokens, so the result is (B, g, n*n_rep, d)."""
    return torch.repeat_interleave(K, n_rep, dim=2)


def repeat_kv__wrong_sixth_by_numpy(K, n_rep):
    """Goes through numpy after a detach: right numbers, but no gradient reaches K."""
    import numpy as np

    heads = np.repeat(K.detach().cpu().numpy(), n_rep, axis=1)
    return torch.from_numpy(heads)


def repeat_kv__wrong_sixth_cat_of_sequences(K, n_rep):
    """Concatenates the copies along the batch and reshapes: heads of other sequences end up in each sequence."""
    B, g, n, d = K.shape
    copies = torch.cat([K] * n_rep, dim=0)
    return copies.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_sixth_new_axis_after_tokens(K, n_rep):
    """Puts the new axis of copies behind the tokens, (B, g, n, n_rep, d), so that the reshape mixes tokens and heads."""
    B, g, n, d = K.shape
    copies = torch.stack([K for _ in range(n_rep)], dim=3)
    return copies.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_sixth_default_dtype(K, n_rep):
    """Fills a torch.zeros of the default dtype, so float64 comes back as float32."""
    B, g, n, d = K.shape
    wide = torch.zeros(B, g * n_rep, n, d)
    for a in range(g * n_rep):
        wide[:, a] = K[:, a // n_rep]
    return wide


def repeat_kv__wrong_sixth_n_rep_is_the_total(K, n_rep):
    """Takes n_rep for the number of query heads in all and repeats each head n_rep // g times only."""
    g = K.shape[1]
    times = max(1, n_rep // g)
    return K.repeat_interleave(times, dim=1)


def repeat_kv__wrong_sixth_only_the_first_head(K, n_rep):
    """Expands key/value head 0 to all g*n_rep heads, as if g were always 1."""
    B, g, n, d = K.shape
    return K[:, 0][:, None].expand(B, g * n_rep, n, d)


def repeat_kv__right_sixth_index_by_rule(K, n_rep):
    """Picks head a // n_rep for each query head a, with index_select."""
    reads = torch.div(
        torch.arange(K.shape[1] * n_rep, device=K.device), n_rep, rounding_mode="floor"
    )
    return K.index_select(1, reads)


def repeat_kv__right_sixth_unbind_and_stack(K, n_rep):
    """Takes the heads apart, writes each n_rep times into a list, and stacks the list along axis 1."""
    heads = [head for head in K.unbind(1) for _ in range(n_rep)]
    return torch.stack(heads, 1)


# ---------------------------------------------------------------- 5.3 grouped_query_attention


def grouped_query_attention__wrong_sixth_heads_in_turn(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Query head a reads key/value head a % g, in turn, where neighbours should share (a // r)."""
    if n_heads % n_kv_heads:
        raise ValueError("n_kv_heads must divide n_heads")
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_kv_heads)
    V = _split_heads(X @ W_V, n_kv_heads)
    outs = []
    for a in range(n_heads):
        s = Q[:, a] @ K[:, a % n_kv_heads].mT / math.sqrt(Q.shape[-1])
        outs.append((s, V[:, a % n_kv_heads]))
    scores = torch.stack([s for s, _ in outs], dim=1)
    A = _masked_softmax(scores, mask)
    return _merge_heads(A @ torch.stack([v for _, v in outs], dim=1)) @ W_O


def grouped_query_attention__wrong_sixth_width_from_d_model(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Divides the scores by the root of d_model / h, though h*d_head need not be d_model."""
    if n_heads % n_kv_heads != 0:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
    scale = (X.shape[-1] / n_heads) ** -0.5
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (_repeat_kv(_split_heads(X @ W, n_kv_heads), r) for W in (W_K, W_V))
    return _merge_heads(_masked_softmax(Q @ K.mT * scale, mask) @ V) @ W_O


def grouped_query_attention__wrong_sixth_fills_minus_10_000(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Fills forbidden scores with -1e4, which is no lower than allowed scores of -1e4: hidden keys get weight there."""
    if n_heads % n_kv_heads:
        raise ValueError("h must be a multiple of g")
    q = _split_heads(X @ W_Q, n_heads)
    k = _repeat_kv(_split_heads(X @ W_K, n_kv_heads), n_heads // n_kv_heads)
    v = _repeat_kv(_split_heads(X @ W_V, n_kv_heads), n_heads // n_kv_heads)
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.full_like(scores, -1e4))
    return _merge_heads(scores.softmax(-1) @ v) @ W_O


def grouped_query_attention__wrong_sixth_rounds_groups_up(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Rounds h / g up and cuts off the surplus heads, so no ValueError is raised where g does not divide h."""
    r = math.ceil(n_heads / n_kv_heads)
    Q = _split_heads(X @ W_Q, n_heads)
    K = _repeat_kv(_split_heads(X @ W_K, n_kv_heads), r)[:, :n_heads]
    V = _repeat_kv(_split_heads(X @ W_V, n_kv_heads), r)[:, :n_heads]
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge_heads(A @ V) @ W_O


def grouped_query_attention__wrong_sixth_one_mask_for_all_heads(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Uses the mask of head 0 for every head when the mask has an axis of heads."""
    if n_heads % n_kv_heads:
        raise ValueError("g does not divide h")
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    Q = (X @ W_Q).reshape(B, n, n_kv_heads, r, -1)
    K = (X @ W_K).reshape(B, n, n_kv_heads, -1)
    V = (X @ W_V).reshape(B, n, n_kv_heads, -1)
    S = torch.einsum("bigrd,bjgd->bgrij", Q, K) / Q.shape[-1] ** 0.5
    if mask is not None:
        if mask.dim() == 4:
            mask = mask[:, 0][:, None, None]  # (B, 1, 1, n, n)
        elif mask.dim() == 3:
            mask = mask[0]
        S = S.masked_fill(~mask, -torch.inf)
    A = torch.softmax(S, dim=-1)
    return torch.einsum("bgrij,bjgd->bigrd", A, V).reshape(B, n, -1) @ W_O


def grouped_query_attention__wrong_sixth_mask_after_softmax(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Sets forbidden weights to 0 after a softmax over all keys, so the rows no longer sum to 1."""
    if n_heads % n_kv_heads:
        raise ValueError("n_heads is no multiple of n_kv_heads")
    n_rep = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K = _repeat_kv(_split_heads(X @ W_K, n_kv_heads), n_rep)
    V = _repeat_kv(_split_heads(X @ W_V, n_kv_heads), n_rep)
    weights = F.softmax(Q @ K.mT / math.sqrt(K.shape[-1]), dim=-1)
    if mask is not None:
        weights = weights * mask.to(weights.dtype)
    return _merge_heads(weights @ V) @ W_O


def grouped_query_attention__wrong_sixth_one_query_per_group(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Shares the queries as well: the scores of a group are averaged, so all its heads have the same weights."""
    if n_heads % n_kv_heads:
        raise ValueError("groups of unequal size")
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = _split_heads(X @ W_K, n_kv_heads), _split_heads(X @ W_V, n_kv_heads)
    group_query = Q.unflatten(1, (n_kv_heads, r)).mean(dim=2)  # (B, g, n, d_head)
    S = group_query @ K.mT / math.sqrt(Q.shape[-1])
    A = _masked_softmax(_repeat_kv(S, r), mask)
    return _merge_heads(A @ _repeat_kv(V, r)) @ W_O


def grouped_query_attention__wrong_sixth_merged_without_swap(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Merges the heads by a reshape of (B, h, n, d_head) without swapping heads and tokens back first."""
    if n_heads % n_kv_heads:
        raise ValueError("g must divide h")
    B, n = X.shape[:2]
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (
        _repeat_kv(_split_heads(X @ W, n_kv_heads), n_heads // n_kv_heads)
        for W in (W_K, W_V)
    )
    A = _masked_softmax(Q @ K.mT / Q.shape[-1] ** 0.5, mask)
    out = (A @ V).reshape(B, n, -1)
    return out @ W_O


def grouped_query_attention__right_sixth_head_by_head(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Goes through the query heads, cuts columns out of the weights, and adds up what each gives through its rows of W_O."""
    if n_heads % n_kv_heads:
        raise ValueError(f"g = {n_kv_heads} does not divide h = {n_heads}")
    B, n, _ = X.shape
    d, r = W_Q.shape[1] // n_heads, n_heads // n_kv_heads
    allowed = None if mask is None else mask.broadcast_to(B, n_heads, n, n)
    out = 0
    for a in range(n_heads):
        mine, shared = slice(a * d, a * d + d), slice(a // r * d, a // r * d + d)
        q, k, v = X @ W_Q[:, mine], X @ W_K[:, shared], X @ W_V[:, shared]
        s = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(d)
        if allowed is not None:
            s = torch.where(allowed[:, a], s, s.new_tensor(-math.inf))
        out = out + torch.bmm(s.softmax(-1), v) @ W_O[mine]
    return out


# ---------------------------------------------------------------- 5.4 multi_query_attention


def multi_query_attention__wrong_sixth_copies_by_contiguous(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Expands K and V over the heads and calls contiguous: the numbers are right, but there is a copy for each head."""
    B, n, _ = X.shape
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (
        (X @ W)[:, None].expand(B, n_heads, n, W.shape[1]).contiguous()
        for W in (W_K, W_V)
    )
    A = _masked_softmax(Q @ K.mT / math.sqrt(K.shape[-1]), mask)
    return _merge_heads(A @ V) @ W_O


def multi_query_attention__wrong_sixth_queue_of_tokens_read_as_heads(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Queues the queries token by token (no swap of axes) and cuts the queue as if it went head by head."""
    B, n, _ = X.shape
    Q_rows = (X @ W_Q).reshape(B, n * n_heads, -1)
    K, V = X @ W_K, X @ W_V
    S = (Q_rows @ K.mT / math.sqrt(K.shape[-1])).unflatten(1, (n_heads, n))
    A = _masked_softmax(S, mask)
    heads = (A.flatten(1, 2) @ V).unflatten(1, (n_heads, n))
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_sixth_scale_of_all_heads(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Divides by the root of W_Q's whole width h*d_head instead of d_head."""
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (X @ W_K)[:, None], (X @ W_V)[:, None]
    S = Q @ K.transpose(-1, -2) / W_Q.shape[1] ** 0.5
    return _merge_heads(_masked_softmax(S, mask) @ V) @ W_O


def multi_query_attention__wrong_sixth_mask_rows_in_another_order(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Queues the queries head by head, but the rows of the mask token by token."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    Q_rows = _split_heads(X @ W_Q, n_heads).flatten(1, 2)  # row: head * n + token
    S = Q_rows @ K.mT / K.shape[-1] ** 0.5
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).transpose(1, 2).flatten(1, 2)
    A = _masked_softmax(S, mask)
    return _merge_heads((A @ V).unflatten(1, (n_heads, n))) @ W_O


def multi_query_attention__wrong_sixth_softmax_over_queue(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Takes the softmax over axis -2, the queries, so it is the columns that sum to 1 and not the rows."""
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (X @ W_K).unsqueeze(1), (X @ W_V).unsqueeze(1)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-2)
    if mask is not None:
        weights = weights * mask
    return _merge_heads(weights @ V) @ W_O


def multi_query_attention__wrong_sixth_keys_serve_as_values(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Reads "one head of keys and values" as one tensor for both: the weights multiply K, and W_V is never used."""
    B, n, _ = X.shape
    shared = X @ W_K
    Q = _split_heads(X @ W_Q, n_heads).reshape(B, n_heads * n, -1)
    S = torch.bmm(Q, shared.mT).div(math.sqrt(shared.shape[-1])).view(B, n_heads, n, n)
    A = _masked_softmax(S, mask).reshape(B, n_heads * n, n)
    heads = torch.bmm(A, shared).view(B, n_heads, n, -1)
    return heads.transpose(1, 2).reshape(B, n, -1) @ W_O


def multi_query_attention__wrong_sixth_merges_column_by_column(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Merges with d_head before h, so that row c*h + a of W_O meets column c of head a, not row a*d_head + c."""
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = X @ W_K, X @ W_V
    S = torch.einsum("bhid,bjd->bhij", Q, K) / math.sqrt(K.shape[-1])
    heads = torch.einsum("bhij,bjd->bhid", _masked_softmax(S, mask), V)
    return heads.permute(0, 2, 3, 1).flatten(2) @ W_O


def multi_query_attention__wrong_sixth_exponentials_overflow(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Writes the softmax as exp / sum without taking off the largest score: NaN for scores of 1e4."""
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (X @ W_K)[:, None], (X @ W_V)[:, None]
    E = torch.exp(Q @ K.mT / math.sqrt(Q.shape[-1]))
    if mask is not None:
        E = E * mask
    return _merge_heads(E / E.sum(dim=-1, keepdim=True) @ V) @ W_O


def multi_query_attention__right_sixth_queue_token_by_token(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Queues the rows token by token, n*h of them, brings the mask into the same order, and needs no swap to merge."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    rows = (X @ W_Q).reshape(B, n * n_heads, K.shape[-1])
    S = torch.baddbmm(
        rows.new_zeros(1, 1, 1), rows, K.transpose(1, 2), beta=0, alpha=K.shape[-1] ** -0.5
    )
    if mask is not None:
        seen = mask.expand(B, n_heads, n, n).permute(0, 2, 1, 3).reshape(B, n * n_heads, n)
        S = S.masked_fill(~seen, -math.inf)
    return torch.bmm(S.softmax(dim=2), V).reshape(B, n, -1) @ W_O


def multi_query_attention__right_sixth_head_by_head(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """One head after another meets the single K and V; each adds its share through its own rows of W_O."""
    B, n, d_model = X.shape
    d = W_K.shape[1]
    K_T, V = (X @ W_K).mT, X @ W_V
    seen = [None] * n_heads
    if mask is not None:
        seen = mask.expand(B, n_heads, n, n).unbind(1)
    parts = zip(W_Q.split(d, dim=1), W_O.split(d, dim=0), seen, strict=True)
    out = X.new_zeros(B, n, W_O.shape[1])
    for W_q, W_o, allowed in parts:
        out = out + _masked_softmax(X @ W_q @ K_T / math.sqrt(d), allowed) @ V @ W_o
    return out


# ---------------------------------------------------------------- 5.5 decode_step


def decode_step__wrong_sixth_looks_before_it_appends(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """The query looks at the old cache, and the new key and value are appended afterwards: the token misses itself."""
    K, V = cache
    r = n_heads // n_kv_heads
    q = _split_heads(x @ W_Q, n_heads)
    S = q @ _repeat_kv(K, r).mT / math.sqrt(q.shape[-1])
    out = _merge_heads(torch.softmax(S, dim=-1) @ _repeat_kv(V, r)) @ W_O
    K = torch.cat([K, _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V, _split_heads(x @ W_V, n_kv_heads)], dim=2)
    return out, (K, V)


def decode_step__wrong_sixth_newest_first(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Puts the new key and value in front of the kept ones: out is right, but the cache runs from newest to oldest."""
    k, v = (_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V))
    K, V = torch.cat((k, cache[0]), 2), torch.cat((v, cache[1]), 2)
    q = (x @ W_Q).reshape(len(x), n_kv_heads, n_heads // n_kv_heads, -1)
    A = torch.softmax(q @ K.mT * q.shape[-1] ** -0.5, -1)
    return (A @ V).reshape(len(x), 1, -1) @ W_O, (K, V)


def decode_step__wrong_sixth_keeps_scaled_keys(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Divides the new key by the root of d_head and keeps it so; the scores with the old, unscaled keys are not divided."""
    B = x.shape[0]
    d = W_Q.shape[1] // n_heads
    k_new = _split_heads(x @ W_K, n_kv_heads) / math.sqrt(d)
    v_new = _split_heads(x @ W_V, n_kv_heads)
    K = torch.cat([cache[0], k_new], dim=2)
    V = torch.cat([cache[1], v_new], dim=2)
    q = (x @ W_Q).reshape(B, n_kv_heads, n_heads // n_kv_heads, d)
    A = torch.softmax(q @ K.mT, dim=-1)
    return (A @ V).reshape(B, 1, n_heads * d) @ W_O, (K, V)


def decode_step__wrong_sixth_empty_cache_gives_zeros(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Returns zeros when the cache that comes in is empty, as if there were nothing to attend to; the token sees itself."""
    K_old, V_old = cache
    K = torch.cat([K_old, _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V_old, _split_heads(x @ W_V, n_kv_heads)], dim=2)
    if K_old.shape[2] == 0:
        return torch.zeros_like(x), (K, V)
    r = n_heads // n_kv_heads
    Q = _split_heads(x @ W_Q, n_heads)
    A = _masked_softmax(Q @ _repeat_kv(K, r).mT / math.sqrt(Q.shape[-1]))
    return _merge_heads(A @ _repeat_kv(V, r)) @ W_O, (K, V)


def decode_step__wrong_sixth_causal_mask_for_one_row(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Adds a causal mask tril of shape (1, t+1), whose only row allows the oldest token alone."""
    K = torch.cat([cache[0], _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(x @ W_V, n_kv_heads)], dim=2)
    queries = _split_heads(x @ W_Q, n_heads)
    n_rep = n_heads // n_kv_heads
    scores = queries @ _repeat_kv(K, n_rep).mT / queries.shape[-1] ** 0.5
    mask = torch.ones(1, K.shape[2], dtype=torch.bool).tril()
    weights = _masked_softmax(scores, mask)
    return _merge_heads(weights @ _repeat_kv(V, n_rep)) @ W_O, (K, V)


def decode_step__wrong_sixth_softmax_over_the_whole_group(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Takes one softmax over all r*(t+1) scores of a group, so that a group, not each query head, has a weight of 1."""
    (K, V), B = cache, x.shape[0]
    K = torch.cat([K, _split_heads(x @ W_K, n_kv_heads)], dim=-2)
    V = torch.cat([V, _split_heads(x @ W_V, n_kv_heads)], dim=-2)
    q = (x @ W_Q).reshape(B, n_kv_heads, n_heads // n_kv_heads, -1)
    S = q @ K.mT / math.sqrt(K.shape[-1])
    A = S.flatten(2).softmax(dim=-1).reshape(S.shape)
    return (A @ V).reshape(B, 1, -1) @ W_O, (K, V)


def decode_step__wrong_sixth_detaches_the_cache(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Returns K and V detached, to save memory: no gradient of later steps reaches W_K and W_V through the cache."""
    B, r = x.shape[0], n_heads // n_kv_heads
    K, V = (
        torch.cat([kept, _split_heads(x @ W, n_kv_heads)], dim=2)
        for kept, W in zip(cache, (W_K, W_V), strict=True)
    )
    q = (x @ W_Q).reshape(B, n_kv_heads, r, -1)
    A = (q @ K.mT / q.shape[-1] ** 0.5).softmax(-1)
    out = (A @ V).reshape(B, 1, -1) @ W_O
    return out, (K.detach(), V.detach())


def decode_step__wrong_sixth_queues_every_gth_head(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Cuts the query heads as (r, g) and swaps, so that group s gets heads s, s + g, ... and not neighbours."""
    B, g = x.shape[0], n_kv_heads
    r = n_heads // g
    K = torch.cat([cache[0], _split_heads(x @ W_K, g)], dim=2)
    V = torch.cat([cache[1], _split_heads(x @ W_V, g)], dim=2)
    q = (x @ W_Q).reshape(B, r, g, -1).transpose(1, 2)  # (B, g, r, d_head)
    A = torch.softmax(q @ K.mT / math.sqrt(q.shape[-1]), dim=-1)
    merged = (A @ V).transpose(1, 2).reshape(B, 1, -1)
    return merged @ W_O, (K, V)


# ---------------------------------------------------------------- 5.6 pool_kv_heads


def pool_kv_heads__wrong_sixth_every_gth_head(W, n_heads, n_kv_heads):
    """Cuts the heads as (r, g) and means over the first: heads s, s + g, ... are pooled and not neighbours."""
    r = n_heads // n_kv_heads
    return W.unflatten(1, (r, n_kv_heads, -1)).mean(dim=1).flatten(1)


def pool_kv_heads__wrong_sixth_neighbouring_columns(W, n_heads, n_kv_heads):
    """Takes the mean of each r neighbouring columns (average pooling) and not of whole heads."""
    r = n_heads // n_kv_heads
    return F.avg_pool1d(W[None], kernel_size=r, stride=r)[0]


def pool_kv_heads__wrong_sixth_running_mean_of_two(W, n_heads, n_kv_heads):
    """Averages the mean so far with the next head, (m + head) / 2: for three heads or more the last ones weigh most."""
    d_head = W.shape[1] // n_heads
    heads = W.split(d_head, dim=1)
    r = n_heads // n_kv_heads
    pooled = []
    for s in range(n_kv_heads):
        mean = heads[s * r]
        for head in heads[s * r + 1 : s * r + r]:
            mean = (mean + head) / 2
        pooled.append(mean)
    return torch.cat(pooled, dim=1)


def pool_kv_heads__wrong_sixth_adds_into_W(W, n_heads, n_kv_heads):
    """Adds with += into a slice of W, a view: the result is right, but W itself is changed."""
    d, r = W.shape[1] // n_heads, n_heads // n_kv_heads
    means = []
    for first in range(0, n_heads, r):
        total = W[:, first * d : (first + 1) * d]
        for a in range(first + 1, first + r):
            total += W[:, a * d : (a + 1) * d]
        means.append(total / r)
    return torch.cat(means, dim=1)


def pool_kv_heads__wrong_sixth_keeps_the_variance(W, n_heads, n_kv_heads):
    """Divides the sum of a group by the root of r, so that random weights keep their size; it is no mean."""
    group = n_heads // n_kv_heads
    blocks = W.reshape(W.shape[0], n_kv_heads, group, -1)
    return (blocks.sum(dim=2) / math.sqrt(group)).reshape(W.shape[0], -1)


def pool_kv_heads__wrong_sixth_reshape_over_the_rows(W, n_heads, n_kv_heads):
    """Reshapes W to (g, r, d_model, d_head) at once, as if the heads came before the rows in memory: rows and heads mix."""
    d_model, width = W.shape
    stacked = W.reshape(n_kv_heads, n_heads // n_kv_heads, d_model, width // n_heads)
    means = stacked.mean(dim=1)  # (g, d_model, d_head)
    return means.transpose(0, 1).reshape(d_model, -1)


def pool_kv_heads__wrong_sixth_groups_of_g(W, n_heads, n_kv_heads):
    """Takes n_kv_heads for the number of heads in a group: groups of g heads, of which r are left."""
    d_head = W.shape[1] // n_heads
    heads = W.unflatten(1, (-1, n_kv_heads, d_head))  # (d_model, r, g, d_head)
    return heads.mean(2).flatten(1)


def pool_kv_heads__wrong_sixth_result_in_float32(W, n_heads, n_kv_heads):
    """Writes the means into a tensor made with the default dtype: float64 goes in and float32 comes out."""
    d, r = W.shape[1] // n_heads, n_heads // n_kv_heads
    pooled = torch.empty(W.shape[0], n_kv_heads * d)
    for s in range(n_kv_heads):
        columns = [W[:, (s * r + j) * d : (s * r + j + 1) * d] for j in range(r)]
        pooled[:, s * d : (s + 1) * d] = sum(columns) / r
    return pooled


def pool_kv_heads__right_sixth_times_a_matrix(W, n_heads, n_kv_heads):
    """Multiplies W by the Kronecker product of I_g, a column of 1/r, and I_d_head."""
    d, r = W.shape[1] // n_heads, n_heads // n_kv_heads
    eye_g, eye_d = (torch.eye(k, dtype=W.dtype, device=W.device) for k in (n_kv_heads, d))
    column = torch.full((r, 1), 1 / r, dtype=W.dtype, device=W.device)
    return W @ torch.kron(eye_g, torch.kron(column, eye_d))


def pool_kv_heads__right_sixth_strided_pooling(W, n_heads, n_kv_heads):
    """Brings heads onto an axis of their own, last, and lets avg_pool1d with window and stride r pool along it."""
    r = n_heads // n_kv_heads
    by_column = W.reshape(W.shape[0], n_heads, -1).transpose(1, 2)  # (d_model, d, h)
    pooled = F.avg_pool1d(by_column, r, r)  # (d_model, d, g)
    return pooled.transpose(1, 2).reshape(W.shape[0], -1)


# ---------------------------------------------------------------- 5.7 extend_cache


def extend_cache__wrong_sixth_triangle_at_the_top_left(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Takes tril of (n_new, t+n_new) as it is: new token i sees the columns 0 ... i, as if the cache were empty."""
    B, n_new, _ = X_new.shape
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    mask = torch.ones(n_new, K.shape[2], dtype=torch.bool).tril()
    Q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1))
    S = torch.einsum("bgrid,bgjd->bgrij", Q, K) / math.sqrt(K.shape[-1])
    A = _masked_softmax(S, mask)
    out = torch.einsum("bgrij,bgjd->bigrd", A, V).reshape(B, n_new, -1) @ W_O
    return out, (K, V)


def extend_cache__wrong_sixth_mask_repeated_row_by_row(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """The queue goes head by head, but the mask's rows are repeat_interleaved r times, as if it went token by token."""
    B, n_new, _ = X_new.shape
    g, r, t = n_kv_heads, n_heads // n_kv_heads, cache[0].shape[2]
    K, V = (
        torch.cat([old, _split_heads(X_new @ W, g)], dim=2)
        for old, W in zip(cache, (W_K, W_V), strict=True)
    )
    queue = _split_heads(X_new @ W_Q, n_heads).reshape(B, g, r * n_new, -1)
    mask = torch.ones(n_new, t + n_new, dtype=torch.bool).tril(t)
    mask = mask.repeat_interleave(r, dim=0)
    A = _masked_softmax(queue @ K.mT / math.sqrt(queue.shape[-1]), mask)
    heads = (A @ V).reshape(B, n_heads, n_new, -1)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_sixth_repeats_keys_for_each_head(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Calls repeat_kv on the whole cache: right numbers, but tensors of B*h*(t + n_new)*d_head come into being."""
    t, n_new, r = cache[0].shape[2], X_new.shape[1], n_heads // n_kv_heads
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    Q = _split_heads(X_new @ W_Q, n_heads)
    seen = torch.arange(t + n_new) <= torch.arange(t, t + n_new)[:, None]
    A = _masked_softmax(Q @ _repeat_kv(K, r).mT / math.sqrt(Q.shape[-1]), seen)
    return _merge_heads(A @ _repeat_kv(V, r)) @ W_O, (K, V)


def extend_cache__wrong_sixth_square_mask_then_cut(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Makes the causal mask of all t + n_new tokens and cuts out its last rows: it grows with the square of the cache."""
    B, n_new, _ = X_new.shape
    g = n_kv_heads
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, g)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, g)], dim=2)
    n = K.shape[2]
    mask = torch.ones(n, n, dtype=torch.bool).tril()[-n_new:]
    queue = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (g, -1)).flatten(2, 3)
    S = (queue @ K.mT / math.sqrt(K.shape[-1])).unflatten(2, (-1, n_new))
    A = _masked_softmax(S, mask).flatten(2, 3)
    heads = (A @ V).unflatten(2, (-1, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_sixth_a_softmax_for_each_part(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Attends to the cache and to the new tokens with a softmax each and adds the two, so the weights sum to 2."""
    (K_old, V_old), (B, n_new, _) = cache, X_new.shape
    k, v = (_split_heads(X_new @ W, n_kv_heads) for W in (W_K, W_V))
    Q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1))
    scale = Q.shape[-1] ** -0.5

    def look(keys, values, mask=None):
        S = torch.einsum("bgrid,bgjd->bgrij", Q, keys) * scale
        return torch.einsum("bgrij,bgjd->bgrid", _masked_softmax(S, mask), values)

    heads = look(k, v, torch.ones(n_new, n_new, dtype=torch.bool).tril())
    if K_old.shape[2]:
        heads = heads + look(K_old, V_old)
    out = _merge_heads(heads.flatten(1, 2)) @ W_O
    return out, (torch.cat([K_old, k], 2), torch.cat([V_old, v], 2))


def extend_cache__wrong_sixth_t_read_from_the_wrong_axis(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Reads t off axis 1 of the cache, where its g heads are, and so shifts the triangle by g and not by t."""
    K_old, V_old = cache
    t = K_old.shape[1]
    B, n_new = X_new.shape[:2]
    K = torch.cat([K_old, _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V_old, _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    columns = torch.arange(K.shape[2])
    positions = torch.arange(n_new) + t
    Q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).flatten(2, 3)
    S = (Q @ K.mT / math.sqrt(Q.shape[-1])).unflatten(2, (-1, n_new))
    A = _masked_softmax(S, columns <= positions[:, None]).flatten(2, 3)
    heads = (A @ V).reshape(B, n_heads, n_new, -1)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_sixth_no_mask_for_a_first_chunk(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Leaves the mask out when the cache is empty, as decode_step needs none: the first chunk sees its own future."""
    t, (B, n_new, _) = cache[0].shape[2], X_new.shape
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    Q = _split_heads(X_new @ W_Q, n_heads).reshape(B, n_kv_heads, -1, W_Q.shape[1] // n_heads)
    S = (Q @ K.mT / math.sqrt(Q.shape[-1])).reshape(B, n_heads, n_new, t + n_new)
    mask = None
    if t > 0:
        mask = torch.ones(n_new, t + n_new, dtype=torch.bool).tril(diagonal=t)
    A = _masked_softmax(S, mask).reshape(B, n_kv_heads, -1, t + n_new)
    return _merge_heads((A @ V).reshape(B, n_heads, n_new, -1)) @ W_O, (K, V)


def extend_cache__wrong_sixth_returns_the_new_part_only(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """out is right, but the returned cache holds the keys and values of the new tokens only, without the old ones."""
    B, n_new, _ = X_new.shape
    t = cache[0].shape[2]
    k = _split_heads(X_new @ W_K, n_kv_heads)
    v = _split_heads(X_new @ W_V, n_kv_heads)
    seen_k, seen_v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
    Q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1))
    S = torch.einsum("bgrnd,bgmd->bgrnm", Q, seen_k) / math.sqrt(k.shape[-1])
    later = torch.ones(n_new, t + n_new, dtype=torch.bool).triu(t + 1)
    A = S.masked_fill(later, -math.inf).softmax(-1)
    out = torch.einsum("bgrnm,bgmd->bngrd", A, seen_v).reshape(B, n_new, -1) @ W_O
    return out, (k, v)


def extend_cache__right_sixth_past_and_new_apart(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Scores the past without a mask and the new tokens with a triangle, and joins the scores for a single softmax."""
    (K_old, V_old), (B, n_new, _) = cache, X_new.shape
    g, t = n_kv_heads, K_old.shape[2]
    k, v = (_split_heads(X_new @ W, g) for W in (W_K, W_V))
    queue = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (g, -1)).flatten(2, 3)
    queue = queue / math.sqrt(queue.shape[-1])
    future = torch.ones(n_new, n_new, dtype=torch.bool, device=X_new.device).triu(1)
    among = (queue @ k.mT).unflatten(2, (-1, n_new)).masked_fill(future, -math.inf)
    A = torch.cat([queue @ K_old.mT, among.flatten(2, 3)], dim=-1).softmax(-1)
    mixed = A[..., :t] @ V_old + A[..., t:] @ v  # (B, g, r*n_new, d_head)
    heads = mixed.unflatten(2, (-1, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (
        torch.cat([K_old, k], dim=2),
        torch.cat([V_old, v], dim=2),
    )
