"""Answers to the exercises of unit 5 as students would write them: per exercise four wrong ones and a right one."""

import math

import numpy as np
import torch


def _split_heads(X, n_heads):
    """(B, n, h*d_head) -> (B, h, n, d_head)."""
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    """(B, h, n, d_head) -> (B, n, h*d_head)."""
    return X.transpose(1, 2).flatten(2)


def _masked_softmax(scores, mask=None):
    """Softmax over the last axis, among the allowed keys."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def _repeat_kv(K, n_rep):
    """Each key/value head n_rep times in a row."""
    return K.repeat_interleave(n_rep, dim=1)


# ------- 5.1 kv_cache_bytes
def kv_cache_bytes__wrong_eleventh_int64_product(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Wrong: the product is taken in int64 and wraps around from 2**63 on, so very large caches are not exact."""
    factors = np.array([2, n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value], dtype=np.int64)
    return int(factors.prod())


def kv_cache_bytes__wrong_eleventh_batch_for_keys_only(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Wrong: the batch is counted for the keys and forgotten for the values."""
    numbers_per_token = n_layers * n_kv_heads * d_head
    keys = numbers_per_token * n_tokens * batch
    values = numbers_per_token * n_tokens
    return (keys + values) * bytes_per_value


def kv_cache_bytes__wrong_eleventh_two_means_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Wrong: the 2 of the formula is taken for the bytes of a number, so only one of keys and values is counted."""
    total = bytes_per_value
    for factor in (n_layers, n_kv_heads, d_head, n_tokens, batch):
        total *= factor
    return total


def kv_cache_bytes__wrong_eleventh_no_token_as_one(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Wrong: a cache without a token is given the size of one with a single token."""
    of_one_head = d_head * bytes_per_value
    of_first_token = 2 * of_one_head * n_kv_heads * n_layers
    later = max(n_tokens - 1, 0)
    return (of_first_token + of_first_token * later) * batch


def kv_cache_bytes__right_eleventh_doubling(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Right: multiplies by doubling and adding whole numbers, bit after bit of each factor."""

    def times(a, b):
        total = 0
        while b:
            if b & 1:
                total += a
            a, b = a << 1, b >> 1
        return total

    size = times(int(n_layers), int(n_kv_heads)) << 1
    for factor in (d_head, n_tokens, batch, bytes_per_value):
        size = times(size, int(factor))
    return size


# ------- 5.2 repeat_kv
def repeat_kv__wrong_eleventh_whole_row_again(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Wrong: the row of heads is repeated as a whole, 0, 1, 0, 1, …, so that neighbours do not share."""
    copies = [K for _ in range(n_rep)]
    return torch.cat(copies, dim=1)


def repeat_kv__wrong_eleventh_rounded_index(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Wrong: the head is found by multiplying with the float32 number 1/n_rep, which for some n_rep falls below a
    whole number, so that the first head of a group reads the group before it."""
    g = K.shape[1]
    share = 1 / n_rep
    source = (torch.arange(g * n_rep, dtype=torch.float32) * share).floor().long()
    return K.index_select(1, source)


def repeat_kv__wrong_eleventh_axis_after_tokens(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Wrong: the new axis stands behind the tokens' axis, and the reshape mixes tokens and copies."""
    B, g, n, d = K.shape
    wide = K[:, :, :, None, :].expand(B, g, n, n_rep, d)
    return wide.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_eleventh_gradient_of_first_copy(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Wrong: the copies are written through `.data`, so only the first head of each group passes a gradient on."""
    heads = []
    for head in K.unbind(1):
        heads.append(head)
        heads.extend(head.data.clone() for _ in range(n_rep - 1))
    return torch.stack(heads, dim=1)


def repeat_kv__right_eleventh_gather(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Right: gathers along the axis of heads with an index that is built by whole division."""
    B, g, n, d = K.shape
    index = torch.div(torch.arange(g * n_rep, device=K.device), n_rep, rounding_mode="floor")
    return torch.gather(K, 1, index.view(1, -1, 1, 1).expand(B, g * n_rep, n, d))


# ------- 5.3 grouped_query_attention
def grouped_query_attention__wrong_eleventh_zeroed_weights(
    X, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int, mask=None
) -> torch.Tensor:
    """Wrong: forbidden keys take part in the softmax and only then get weight 0, so the rows do not sum to 1."""
    if n_heads % n_kv_heads:
        raise ValueError("the key/value heads must divide the query heads")
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    Q = (X @ W_Q).view(B, n, n_kv_heads, r, -1)
    K = (X @ W_K).view(B, n, n_kv_heads, -1)
    V = (X @ W_V).view(B, n, n_kv_heads, -1)
    scores = torch.einsum("bigrd,bjgd->bgrij", Q, K) / math.sqrt(K.shape[-1])
    weights = scores.softmax(dim=-1)
    if mask is not None:
        allowed = torch.broadcast_to(mask, (B, n_heads, n, n)).unflatten(1, (n_kv_heads, r))
        weights = weights * allowed
    return torch.einsum("bgrij,bjgd->bigrd", weights, V).reshape(B, n, -1) @ W_O


def grouped_query_attention__wrong_eleventh_heads_appended_in_turn(
    X, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int, mask=None
) -> torch.Tensor:
    """Wrong: the two loops are nested the wrong way round, so the heads' results are laid side by side in the order
    first of each group, second of each group, …"""
    if n_heads % n_kv_heads != 0:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
    B, n, _ = X.shape
    d = W_Q.shape[1] // n_heads
    per_group = n_heads // n_kv_heads
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    results = []
    for member in range(per_group):
        for group in range(n_kv_heads):
            a = group * per_group + member
            q = X @ W_Q[:, a * d : (a + 1) * d]
            k = X @ W_K[:, group * d : (group + 1) * d]
            v = X @ W_V[:, group * d : (group + 1) * d]
            seen = None if mask is None else mask[:, a]
            results.append(_masked_softmax(q @ k.mT / d**0.5, seen) @ v)
    return torch.cat(results, dim=-1) @ W_O


def grouped_query_attention__wrong_eleventh_three_axes_mask(
    X, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int, mask=None
) -> torch.Tensor:
    """Wrong: a mask with three axes is read as one per sequence, where broadcasting makes it one per head."""
    if n_heads % n_kv_heads:
        raise ValueError("n_kv_heads has to divide n_heads")
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (_repeat_kv(_split_heads(X @ W, n_kv_heads), n_heads // n_kv_heads) for W in (W_K, W_V))
    scores = Q @ K.mT * Q.shape[-1] ** -0.5
    if mask is not None:
        if mask.dim() == 3:
            mask = mask.unsqueeze(1)
        scores = scores.masked_fill(~mask, float("-inf"))
    return _merge_heads(scores.softmax(-1) @ V) @ W_O


def grouped_query_attention__wrong_eleventh_uneven_groups_accepted(
    X, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int, mask=None
) -> torch.Tensor:
    """Wrong: raises a ValueError for more key/value heads than query heads only, and lets the last head serve the rest
    where g < h does not divide h."""
    if n_kv_heads > n_heads:
        raise ValueError("there are more key/value heads than query heads")
    per_group = n_heads // n_kv_heads
    reads = torch.tensor([min(a // per_group, n_kv_heads - 1) for a in range(n_heads)])
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_kv_heads)[:, reads]
    V = _split_heads(X @ W_V, n_kv_heads)[:, reads]
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(Q.size(-1))
    return _merge_heads(_masked_softmax(scores, mask) @ V) @ W_O


def grouped_query_attention__right_eleventh_bilinear_forms(
    X, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int, mask=None
) -> torch.Tensor:
    """Right: each head is a bilinear form of X, made from the weights alone, and adds its own share to the result."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads cannot be shared evenly by {n_heads} query heads")
    B, n, _ = X.shape
    d = W_Q.shape[1] // n_heads
    ask, write = W_Q.split(d, dim=1), W_O.split(d, dim=0)
    keys, values = W_K.split(d, dim=1), W_V.split(d, dim=1)
    allowed = None if mask is None else torch.broadcast_to(mask, (B, n_heads, n, n))
    total = 0
    for a in range(n_heads):
        s = a * n_kv_heads // n_heads
        scores = X @ (ask[a] @ keys[s].T) @ X.mT / math.sqrt(d)
        if allowed is not None:
            scores = torch.where(allowed[:, a], scores, torch.full_like(scores, -math.inf))
        weights = (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()
        total = total + weights @ X @ (values[s] @ write[a])
    return total


# ------- 5.4 multi_query_attention
def multi_query_attention__wrong_eleventh_root_of_all_columns(
    X, W_Q, W_K, W_V, W_O, n_heads: int, mask=None
) -> torch.Tensor:
    """Wrong: the scores are divided by the root of h*d_head, the width of all query heads together."""
    B, n, _ = X.shape
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    scale = Q.shape[-1] ** -0.5
    queue = (Q * scale).unflatten(-1, (n_heads, -1)).transpose(1, 2).flatten(1, 2)
    scores = torch.bmm(queue, K.transpose(1, 2)).unflatten(1, (n_heads, n))
    weights = _masked_softmax(scores, mask).flatten(1, 2)
    return _merge_heads(torch.bmm(weights, V).unflatten(1, (n_heads, n))) @ W_O


def multi_query_attention__wrong_eleventh_queue_by_tokens(
    X, W_Q, W_K, W_V, W_O, n_heads: int, mask=None
) -> torch.Tensor:
    """Wrong: the queue goes in token after token, and its scores are masked as if it had gone in head after head."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d = K.shape[-1]
    rows = (X @ W_Q).reshape(B, n * n_heads, d)
    scores = rows @ K.mT / math.sqrt(d)
    weights = _masked_softmax(scores.reshape(B, n_heads, n, n), mask)
    heads = weights.reshape(B, n * n_heads, n) @ V
    return heads.reshape(B, n, n_heads * d) @ W_O


def multi_query_attention__wrong_eleventh_largest_of_sequence(
    X, W_Q, W_K, W_V, W_O, n_heads: int, mask=None
) -> torch.Tensor:
    """Wrong: the exponentials are taken relative to the largest score of the whole sequence, so a row that lies far
    below it has only zeros to divide by."""
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (X @ W_K).unsqueeze(1), (X @ W_V).unsqueeze(1)
    scores = Q @ K.mT / K.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    powers = torch.exp(scores - scores.amax(dim=(1, 2, 3), keepdim=True))
    heads = (powers @ V) / powers.sum(dim=-1, keepdim=True)
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_eleventh_values_with_ones(
    X, W_Q, W_K, W_V, W_O, n_heads: int, mask=None
) -> torch.Tensor:
    """Wrong: the values, with a column of ones behind them, are written out once for each head."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d = K.shape[-1]
    Q = _split_heads(X @ W_Q, n_heads).reshape(B, n_heads * n, d)
    scores = (Q @ K.mT / math.sqrt(d)).view(B, n_heads, n, n)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    with_ones = torch.cat([V, V.new_ones(B, n, 1)], dim=-1)
    with_ones = with_ones[:, None].expand(B, n_heads, n, d + 1).reshape(B * n_heads, n, d + 1)
    sums = torch.bmm(powers.reshape(B * n_heads, n, n), with_ones).view(B, n_heads, n, d + 1)
    return _merge_heads(sums[..., :d] / sums[..., d:]) @ W_O


def multi_query_attention__right_eleventh_keys_never_made(
    X, W_Q, W_K, W_V, W_O, n_heads: int, mask=None
) -> torch.Tensor:
    """Right: W_K is drawn into the queries and W_V is applied after mixing, so a queue of heads reads X itself."""
    B, n, _ = X.shape
    d = W_K.shape[1]
    asks = (X @ W_Q).unflatten(-1, (n_heads, d)) @ W_K.T
    queue = asks.permute(0, 2, 1, 3).flatten(1, 2)
    scores = (queue @ X.mT).unflatten(1, (n_heads, n)) / math.sqrt(d)
    weights = _masked_softmax(scores, mask)
    mixed = (weights.flatten(1, 2) @ X @ W_V).unflatten(1, (n_heads, n))
    return _merge_heads(mixed) @ W_O


# ------- 5.5 decode_step
def decode_step__wrong_eleventh_looks_before_growing(
    x, cache, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int
):
    """Wrong: unless the cache is empty, the query looks at the kept tokens only, and the new token misses itself."""
    K_old, V_old = cache
    k, v = (_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V))
    K_seen, V_seen = (K_old, V_old) if K_old.shape[2] > 0 else (k, v)
    q = _split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).squeeze(3)
    weights = torch.softmax(q @ K_seen.mT / math.sqrt(q.shape[-1]), dim=-1)
    heads = (weights @ V_seen).flatten(1, 2).unsqueeze(2)
    grown = torch.cat([K_old, k], dim=2), torch.cat([V_old, v], dim=2)
    return _merge_heads(heads) @ W_O, grown


def decode_step__wrong_eleventh_members_before_groups(
    x, cache, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int
):
    """Wrong: on the way back the axes of groups and members are swapped, so W_O meets the heads in another order."""
    B = x.shape[0]
    d = W_K.shape[1] // n_kv_heads
    r = n_heads // n_kv_heads
    q = (x @ W_Q).reshape(B, n_kv_heads, r, d)
    k = (x @ W_K).reshape(B, n_kv_heads, 1, d)
    v = (x @ W_V).reshape(B, n_kv_heads, 1, d)
    K = torch.cat((cache[0], k), dim=-2)
    V = torch.cat((cache[1], v), dim=-2)
    weights = torch.einsum("bgrd,bgtd->bgrt", q, K).div(d**0.5).softmax(-1)
    mixed = torch.einsum("bgrt,bgtd->brgd", weights, V)
    return mixed.reshape(B, 1, n_heads * d) @ W_O, (K, V)


def decode_step__wrong_eleventh_first_token_tiled(
    x, cache, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int
):
    """Wrong: the first token, which can see only itself, is answered by a short cut that lays the value heads out in
    turn, 0, 1, 0, 1, …"""
    kept_k, kept_v = cache
    k, v = _split_heads(x @ W_K, n_kv_heads), _split_heads(x @ W_V, n_kv_heads)
    r = n_heads // n_kv_heads
    if kept_k.shape[2] == 0:
        return (x @ W_V).repeat(1, 1, r) @ W_O, (k, v)
    K, V = torch.cat([kept_k, k], 2), torch.cat([kept_v, v], 2)
    q = _split_heads(x @ W_Q, n_heads)
    scores = (q * _repeat_kv(K, r)).sum(-1, keepdim=True) / math.sqrt(q.shape[-1])
    weights = torch.softmax(scores, dim=2)
    heads = (weights * _repeat_kv(V, r)).sum(2, keepdim=True)
    return _merge_heads(heads) @ W_O, (K, V)


def decode_step__wrong_eleventh_spare_room(
    x, cache, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int
):
    """Wrong: keeps the cache in a roomier tensor and writes the new token behind the old ones there, which changes
    another cache that was grown from the same one, or the tensor that the given cache is a part of."""

    def grown(kept, new):
        t = kept.shape[2]
        room = kept._base
        fits = room is not None and room.dim() == 4 and room.shape[:2] == kept.shape[:2] and room.shape[2] > t
        if not fits or room.shape[3] != kept.shape[3] or room.data_ptr() != kept.data_ptr():
            room = kept.new_zeros(*kept.shape[:2], 2 * t + 4, kept.shape[3])
            room[:, :, :t] = kept
        room[:, :, t : t + 1] = new
        return room[:, :, : t + 1]

    K = grown(cache[0], _split_heads(x @ W_K, n_kv_heads))
    V = grown(cache[1], _split_heads(x @ W_V, n_kv_heads))
    q = _split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).flatten(2, 3)
    weights = _masked_softmax(q @ K.mT / math.sqrt(q.shape[-1]))
    return _merge_heads((weights @ V).flatten(1, 2).unsqueeze(2)) @ W_O, (K, V)


def decode_step__right_eleventh_two_softmaxes_joined(
    x, cache, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int
):
    """Right: the kept tokens have a softmax of their own, and the new token is let in by a sigmoid of the difference."""
    K_old, V_old = cache
    B, g, t, d = K_old.shape
    k, v = (x @ W_K).view(B, g, 1, d), (x @ W_V).view(B, g, 1, d)
    q = (x @ W_Q).view(B, g, n_heads // g, d) / math.sqrt(d)
    if t == 0:
        heads = v.expand(B, g, n_heads // g, d) + 0 * q
    else:
        old = torch.matmul(q, K_old.transpose(-1, -2))
        own = (q * k).sum(dim=-1, keepdim=True)
        share = torch.sigmoid(own - old.logsumexp(dim=-1, keepdim=True))
        heads = (1 - share) * torch.matmul(old.softmax(dim=-1), V_old) + share * v
    longer = tuple(torch.cat(pair, dim=2) for pair in ((K_old, k), (V_old, v)))
    return heads.reshape(B, 1, n_heads * d) @ W_O, longer


# ------- 5.6 pool_kv_heads
def pool_kv_heads__wrong_eleventh_every_gth_head(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Wrong: pools the heads s, s + g, s + 2g, … in place of neighbours."""
    heads = W.tensor_split(n_heads, dim=1)
    pooled = [torch.stack(heads[s::n_kv_heads]).mean(dim=0) for s in range(n_kv_heads)]
    return torch.cat(pooled, dim=1)


def pool_kv_heads__wrong_eleventh_columns_fastest(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Wrong: inside a group the columns are cut as if the heads ran fastest, so neighbouring columns are averaged."""
    d_head = W.shape[1] // n_heads
    r = n_heads // n_kv_heads
    return torch.cat([group.reshape(-1, d_head, r).mean(2) for group in W.chunk(n_kv_heads, dim=1)], dim=1)


def pool_kv_heads__wrong_eleventh_halving(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Wrong: takes the mean of the mean so far and the next head, which weighs the last ones most from three heads
    in a group on."""
    d = W.shape[1] // n_heads
    r = n_heads // n_kv_heads
    columns = []
    for s in range(n_kv_heads):
        mean = W[:, s * r * d : (s * r + 1) * d]
        for a in range(s * r + 1, (s + 1) * r):
            mean = (mean + W[:, a * d : (a + 1) * d]) / 2
        columns.append(mean)
    return torch.hstack(columns)


def pool_kv_heads__wrong_eleventh_adds_up_in_place(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Wrong: the heads of a group are added up in a view of W itself, so the argument is changed."""
    d_model, width = W.shape
    d_head, r = width // n_heads, n_heads // n_kv_heads
    blocks = W.unflatten(1, (n_kv_heads, r, d_head))
    sums = blocks[:, :, 0]
    for member in range(1, r):
        sums += blocks[:, :, member]
    return (sums / r).reshape(d_model, n_kv_heads * d_head)


def pool_kv_heads__right_eleventh_index_add(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Right: each column is added to the column of the result that its number works out to, then all are divided."""
    d_head, r = W.shape[1] // n_heads, n_heads // n_kv_heads
    column = torch.arange(W.shape[1], device=W.device)
    goes_to = column // (r * d_head) * d_head + column % d_head
    return W.new_zeros(W.shape[0], n_kv_heads * d_head).index_add(1, goes_to, W) / r


# ------- 5.7 extend_cache
def extend_cache__wrong_eleventh_no_mask_needed(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int
):
    """Wrong: takes over from the single step that no mask is needed, so new tokens see the ones behind them."""
    n_new = X_new.shape[1]
    K, V = (
        torch.cat([kept, _split_heads(X_new @ W, n_kv_heads)], dim=2)
        for kept, W in zip(cache, (W_K, W_V), strict=True)
    )
    r = n_heads // n_kv_heads
    queue = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    weights = _masked_softmax(queue @ K.mT / math.sqrt(queue.shape[-1]))
    heads = (weights @ V).unflatten(2, (r, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_eleventh_mask_rows_interleaved(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int
):
    """Wrong: the queue holds head after head, but each row of the mask is repeated r times in a row as if it held
    token after token."""
    B, n_new, _ = X_new.shape
    _, g, t, d = cache[0].shape
    r = n_heads // n_kv_heads
    k = (X_new @ W_K).view(B, n_new, g, d).transpose(1, 2)
    v = (X_new @ W_V).view(B, n_new, g, d).transpose(1, 2)
    K, V = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
    queue = (X_new @ W_Q).view(B, n_new, g, r, d).permute(0, 2, 3, 1, 4).reshape(B, g, r * n_new, d)
    seen = torch.arange(t + n_new) <= t + torch.arange(n_new)[:, None]
    seen = seen.repeat_interleave(r, dim=0)
    scores = (queue @ K.transpose(2, 3) / d**0.5).masked_fill(~seen, -torch.inf)
    heads = (scores.softmax(-1) @ V).view(B, g, r, n_new, d)
    return heads.permute(0, 3, 1, 2, 4).reshape(B, n_new, -1) @ W_O, (K, V)


def extend_cache__wrong_eleventh_later_chunks(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int
):
    """Wrong: goes through the new tokens in chunks of eight, and from the second chunk on counts positions as if the
    chunk began right behind the old cache."""
    K_old, V_old = cache
    t = K_old.shape[2]
    K = torch.cat([K_old, _split_heads(X_new @ W_K, n_kv_heads)], dim=-2)
    V = torch.cat([V_old, _split_heads(X_new @ W_V, n_kv_heads)], dim=-2)
    Q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1))
    place = torch.arange(K.shape[2])
    pieces = []
    for chunk in Q.split(8, dim=3):
        r, length = chunk.shape[2:4]
        allowed = (place <= t + torch.arange(length)[:, None]).repeat(r, 1)
        scores = chunk.flatten(2, 3) @ K.mT * K.shape[-1] ** -0.5
        mixed = _masked_softmax(scores, allowed) @ V
        pieces.append(mixed.unflatten(2, (r, length)))
    heads = torch.cat(pieces, dim=3).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_eleventh_whole_triangle(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int
):
    """Wrong: cuts its mask out of the triangle of all tokens, which grows with the square of the cache."""
    B, n_new, _ = X_new.shape
    old_k, old_v = cache
    g, d = n_kv_heads, W_K.shape[1] // n_kv_heads
    K = torch.cat((old_k, _split_heads(X_new @ W_K, g)), dim=2)
    V = torch.cat((old_v, _split_heads(X_new @ W_V, g)), dim=2)
    n = K.shape[2]
    future = torch.ones(n, n, dtype=torch.bool).triu(1)[n - n_new :]
    out = []
    for s in range(g):
        columns = slice(s * (n_heads // g) * d, (s + 1) * (n_heads // g) * d)
        q = (X_new @ W_Q[:, columns]).unflatten(-1, (-1, d)).transpose(1, 2)
        scores = q.flatten(1, 2) @ K[:, s].mT / math.sqrt(d)
        scores = scores.unflatten(1, (-1, n_new)).masked_fill(future, -torch.inf)
        mixed = scores.softmax(dim=-1).flatten(1, 2) @ V[:, s]
        out.append(mixed.unflatten(1, (-1, n_new)).transpose(1, 2).flatten(2))
    return torch.cat(out, dim=-1) @ W_O, (K, V)


def extend_cache__right_eleventh_old_and_new_apart(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads: int, n_kv_heads: int
):
    """Right: scores with the old tokens and with the new ones are made apart, only the latter get a square mask, and
    they meet in one softmax."""
    B, n_new, _ = X_new.shape
    g, t, d = cache[0].shape[1:]
    r = n_heads // n_kv_heads
    k, v = (torch.movedim((X_new @ W).reshape(B, n_new, g, d), 1, 2) for W in (W_K, W_V))
    by_token = (X_new @ W_Q).reshape(B, n_new, g, r, d).transpose(1, 2).reshape(B, g, n_new * r, d)
    token = torch.arange(n_new, device=X_new.device)
    later = token[None, :] > token.repeat_interleave(r)[:, None]
    with_old = by_token @ cache[0].mT
    with_new = (by_token @ k.mT).masked_fill(later, -torch.inf)
    weights = (torch.cat([with_old, with_new], dim=-1) / math.sqrt(d)).softmax(dim=-1)
    mixed = weights[..., :t] @ cache[1] + weights[..., t:] @ v
    out = mixed.reshape(B, g, n_new, r * d).transpose(1, 2).reshape(B, n_new, n_heads * d) @ W_O
    return out, (torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2))
