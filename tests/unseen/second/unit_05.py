import math

import numpy as np
import torch
import torch.nn.functional as F

# ---------------------------------------------------------------- given by the notebook


def split_heads(X, n_heads):
    """(B, n, h*d_head) -> (B, h, n, d_head). Each head is a block of columns."""
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(X):
    """(B, h, n, d_head) -> (B, n, h*d_head), the way back."""
    return X.transpose(1, 2).flatten(2)


def masked_softmax(scores, mask=None):
    """Weights: the softmax over the last axis, among the allowed keys."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def causal_mask(n):
    """(n, n) booleans: row i may attend to the columns 0 … i."""
    return torch.ones(n, n, dtype=torch.bool).tril()


# ---------------------------------------------------------------- earlier exercises, right


def repeat_kv(K, n_rep):
    return K.repeat_interleave(n_rep, dim=1)


def grouped_query_attention(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads do not divide {n_heads} heads.")
    n_rep = n_heads // n_kv_heads
    Q = split_heads(X @ W_Q, n_heads)
    K = repeat_kv(split_heads(X @ W_K, n_kv_heads), n_rep)
    V = repeat_kv(split_heads(X @ W_V, n_kv_heads), n_rep)
    return merge_heads(masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask) @ V) @ W_O


# ================================================================ kv_cache_bytes


def kv_cache_bytes__wrong_b_keys_without_values(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Only the keys are counted, the values are forgotten: the factor 2 for keys and values is missing."""
    return n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value


def kv_cache_bytes__wrong_b_first_layer_skipped(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """The loop over the layers begins at 1 and so counts one layer too few."""
    total = 0
    for layer in range(1, n_layers):
        keys = n_kv_heads * d_head * n_tokens
        values = n_kv_heads * d_head * n_tokens
        total = total + (keys + values) * batch * bytes_per_value
    return total


def kv_cache_bytes__wrong_b_at_least_one_token(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """An empty context is counted as one token, so n_tokens = 0 does not give 0 bytes."""
    n_tokens = max(1, n_tokens)
    numbers = math.prod([n_layers, n_kv_heads, d_head, n_tokens, batch])
    return 2 * numbers * bytes_per_value


def kv_cache_bytes__wrong_b_all_steps_summed(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """The cache sizes of all steps 1 … n_tokens are added up, instead of the size of the cache with n_tokens."""
    seen = n_tokens * (n_tokens + 1) // 2
    return 2 * n_layers * n_kv_heads * d_head * seen * batch * bytes_per_value


def kv_cache_bytes__wrong_b_there_and_back_to_gigabytes(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """The size goes through gigabytes as a float and is cut off by int, so that bytes get lost in the rounding."""
    gigabytes = 2 * n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value / 1e9
    return int(gigabytes * 1e9)


def kv_cache_bytes__right_b_prod_of_tuple(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """The product over a tuple of all sizes, with "K" and "V" counted by len."""
    return math.prod((len("KV"), *(n_layers, n_kv_heads), *(d_head, n_tokens), *(batch, bytes_per_value)))


# ================================================================ repeat_kv


def repeat_kv__wrong_b_copies_before_heads(K, n_rep):
    """The axis of the copies is put before that of the heads, so flattening gives 0, 1, 0, 1 instead of 0, 0, 1, 1."""
    B, g, n, d = K.shape
    wide = K[:, None].expand(B, n_rep, g, n, d)
    return wide.reshape(B, n_rep * g, n, d)


def repeat_kv__wrong_b_default_dtype_buffer(K, n_rep):
    """The result is laid out in a torch.zeros of the default dtype, so float64 keys come back as float32."""
    B, g, n, d = K.shape
    result = torch.zeros(B, g * n_rep, n, d)
    for head in range(g):
        for copy in range(n_rep):
            result[:, head * n_rep + copy] = K[:, head]
    return result


def repeat_kv__wrong_b_first_sequence_for_all(K, n_rep):
    """Only the first sequence of the batch is taken, and all the others get its heads."""
    heads = []
    for s in range(K.size(1)):
        for _ in range(n_rep):
            heads.append(K[0, s])
    return torch.stack(heads).expand(K.size(0), -1, -1, -1)


def repeat_kv__wrong_b_squeeze_at_the_end(K, n_rep):
    """A squeeze at the end also removes axes of size 1 that belong there, such as a batch of one or one token."""
    stacked = torch.stack([K for _ in range(n_rep)], dim=2)
    return stacked.flatten(1, 2).squeeze()


def repeat_kv__wrong_b_copies_share_the_sum(K, n_rep):
    """Every copy is divided by n_rep, although each query head is to have the head as it is."""
    B, g, n, d = K.shape
    ones = torch.full((n_rep,), 1 / n_rep, dtype=K.dtype)
    return torch.einsum("bgnd,r->bgrnd", K, ones).reshape(B, g * n_rep, n, d)


def repeat_kv__right_b_chunks_in_order(K, n_rep):
    """Cuts the heads apart and lines each one up n_rep times."""
    return torch.cat([head for head in K.split(1, dim=1) for _ in range(n_rep)], dim=1)


# ================================================================ grouped_query_attention


def grouped_query_attention__wrong_b_root_from_model_width(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """d_head in the scale is worked out as d_model // h; it is W_Q.shape[1] // h, and the two need not be the same."""
    if n_heads % n_kv_heads:
        raise ValueError("g does not divide h")
    r = n_heads // n_kv_heads
    Q = split_heads(X @ W_Q, n_heads)
    K, V = (repeat_kv(split_heads(X @ W, n_kv_heads), r) for W in (W_K, W_V))
    d_head = X.shape[-1] // n_heads
    A = masked_softmax(Q @ K.mT / math.sqrt(d_head), mask)
    return merge_heads(A @ V) @ W_O


def grouped_query_attention__wrong_b_root_of_kv_width(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """The scores are divided by the root of the width of W_K, which is g*d_head, and not by that of one head."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_heads} heads cannot be cut into {n_kv_heads} groups")
    Q = split_heads(X @ W_Q, n_heads)
    K = split_heads(X @ W_K, n_kv_heads).repeat_interleave(n_heads // n_kv_heads, 1)
    V = split_heads(X @ W_V, n_kv_heads).repeat_interleave(n_heads // n_kv_heads, 1)
    scores = Q @ K.transpose(-2, -1) / W_K.shape[1] ** 0.5
    return merge_heads(masked_softmax(scores, mask) @ V) @ W_O


def grouped_query_attention__wrong_b_width_checked_for_groups(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """The check asks whether g divides the width of W_K, not whether it divides h, so no ValueError comes."""
    if W_K.shape[1] % n_kv_heads != 0:
        raise ValueError("n_kv_heads does not fit")
    d = W_K.shape[1] // n_kv_heads
    B, n = X.shape[:2]
    q = (X @ W_Q).reshape(B, n, n_heads, d).permute(0, 2, 1, 3)
    k = (X @ W_K).reshape(B, n, n_kv_heads, d).permute(0, 2, 1, 3)
    v = (X @ W_V).reshape(B, n, n_kv_heads, d).permute(0, 2, 1, 3)
    source = [a * n_kv_heads // n_heads for a in range(n_heads)]
    w = masked_softmax(q @ k[:, source].mT / math.sqrt(d), mask)
    return (w @ v[:, source]).permute(0, 2, 1, 3).reshape(B, n, n_heads * d) @ W_O


def grouped_query_attention__wrong_b_one_maximum_for_everything(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """The softmax subtracts the maximum of the whole tensor, so in rows far below it all exponentials are 0: NaN."""
    if n_heads % n_kv_heads:
        raise ValueError("g must divide h")
    rep = n_heads // n_kv_heads
    Q = split_heads(X @ W_Q, n_heads)
    K = repeat_kv(split_heads(X @ W_K, n_kv_heads), rep)
    V = repeat_kv(split_heads(X @ W_V, n_kv_heads), rep)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    e = torch.exp(scores - scores.max())
    if mask is not None:
        e = e * mask
    return merge_heads(e / e.sum(dim=-1, keepdim=True) @ V) @ W_O


def grouped_query_attention__wrong_b_softmax_down_the_queries(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """The scores are laid out as (keys, queries), and the softmax runs over the last axis, that of the queries."""
    if n_heads % n_kv_heads:
        raise ValueError("g does not divide h")
    r, d = n_heads // n_kv_heads, W_Q.shape[1] // n_heads
    Q = split_heads(X @ W_Q, n_heads)
    K = split_heads(X @ W_K, n_kv_heads).repeat_interleave(r, dim=1)
    V = split_heads(X @ W_V, n_kv_heads).repeat_interleave(r, dim=1)
    S = torch.einsum("bhjd,bhid->bhji", K, Q) / math.sqrt(d)
    if mask is not None:
        mask = mask.expand(len(X), n_heads, X.shape[1], X.shape[1]).mT
    A = masked_softmax(S, mask)
    return merge_heads(torch.einsum("bhji,bhjd->bhid", A, V)) @ W_O


def grouped_query_attention__right_b_sum_over_output_blocks(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Head by head, each through its own rows of W_O, and the results added."""
    size, rest = divmod(n_heads, n_kv_heads)
    if rest:
        raise ValueError(f"n_kv_heads = {n_kv_heads} does not divide n_heads = {n_heads}.")
    B, n, _ = X.shape
    d = W_Q.shape[1] // n_heads
    masks = [None] * n_heads if mask is None else mask.expand(B, n_heads, n, n).unbind(1)
    parts = []
    for a, (w_q, w_o) in enumerate(zip(W_Q.split(d, dim=1), W_O.split(d, dim=0), strict=True)):
        columns = slice(a // size * d, (a // size + 1) * d)
        keys, values = X @ W_K[:, columns], X @ W_V[:, columns]
        parts.append(masked_softmax(X @ w_q @ keys.mT / math.sqrt(d), masks[a]) @ values @ w_o)
    return sum(parts)


# ================================================================ multi_query_attention


def multi_query_attention__wrong_b_weights_made_wide(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """W_K and W_V are repeated for each head before the projection, so the keys and values come out once per head."""
    K = split_heads(X @ W_K.repeat(1, n_heads), n_heads)
    V = split_heads(X @ W_V.repeat(1, n_heads), n_heads)
    Q = split_heads(X @ W_Q, n_heads)
    return merge_heads(masked_softmax(Q @ K.mT / math.sqrt(W_K.shape[1]), mask) @ V) @ W_O


def multi_query_attention__wrong_b_queue_without_swap(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """X W_Q is reshaped to (B, h, n, d_head) without swapping axes, so heads and tokens get mixed up on the way in."""
    B, n, _ = X.shape
    d_head = W_K.shape[1]
    K, V = X @ W_K, X @ W_V
    Q = (X @ W_Q).reshape(B, n_heads * n, d_head)
    scores = (Q @ K.mT / d_head**0.5).reshape(B, n_heads, n, n)
    A = masked_softmax(scores, mask)
    heads = (A.reshape(B, n_heads * n, n) @ V).reshape(B, n_heads, n, d_head)
    return merge_heads(heads) @ W_O


def multi_query_attention__wrong_b_root_of_all_query_columns(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The scores are divided by the root of W_Q's width, h*d_head, instead of that of one head."""
    Q, K, V = split_heads(X @ W_Q, n_heads), X @ W_K, X @ W_V
    scores = torch.einsum("bhqc,bkc->bhqk", Q, K) / math.sqrt(W_Q.shape[1])
    heads = torch.einsum("bhqk,bkc->bhqc", masked_softmax(scores, mask), V)
    return merge_heads(heads) @ W_O


def multi_query_attention__wrong_b_mask_rows_doubled_in_place(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Each row of the mask is repeated h times in place; in the queue (h, n) the whole mask has to come h times."""
    B, n, _ = X.shape
    d = W_K.shape[1]
    K, V = X @ W_K, X @ W_V
    queue = split_heads(X @ W_Q, n_heads).reshape(B, n_heads * n, d)
    allowed = None
    if mask is not None:
        full = mask.expand(B, n_heads, n, n)
        if bool((full == full[:, :1]).all()):  # the same for all heads
            allowed = full[:, 0].repeat_interleave(n_heads, dim=1)
        else:
            allowed = full.flatten(1, 2)
    heads = masked_softmax(queue @ K.mT / d**0.5, allowed) @ V
    return merge_heads(heads.reshape(B, n_heads, n, d)) @ W_O


def multi_query_attention__wrong_b_causal_when_no_mask(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Without a mask a causal one is put in, although None stands for no mask at all."""
    if mask is None:
        mask = causal_mask(X.shape[1])
    Q = split_heads(X @ W_Q, n_heads)
    K, V = X @ W_K, X @ W_V
    n, d = Q.shape[2:]
    scores = (Q.flatten(1, 2) @ K.mT).unflatten(1, (n_heads, n)) / math.sqrt(d)
    weights = masked_softmax(scores, mask)
    return merge_heads((weights.flatten(1, 2) @ V).unflatten(1, (n_heads, n))) @ W_O


def multi_query_attention__right_b_keys_never_made(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """W_K goes to the side of the queries and W_V behind the weights: the tokens themselves are compared and summed."""
    B, n, d_model = X.shape
    d = W_Q.shape[1] // n_heads
    asked = split_heads(X @ W_Q, n_heads) @ W_K.mT / math.sqrt(d)  # (B, h, n, d_model)
    scores = (asked.flatten(1, 2) @ X.mT).unflatten(1, (n_heads, n))
    weights = masked_softmax(scores, mask)
    mixed = (weights.flatten(1, 2) @ X).unflatten(1, (n_heads, n))
    return merge_heads(mixed @ W_V) @ W_O


# ================================================================ decode_step


def decode_step__wrong_b_new_token_in_front(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The new key and value are put before the old ones, but the oldest token comes first in the cache."""
    k = split_heads(x @ W_K, n_kv_heads)
    v = split_heads(x @ W_V, n_kv_heads)
    K = torch.cat([k, cache[0]], dim=2)
    V = torch.cat([v, cache[1]], dim=2)
    rep = n_heads // n_kv_heads
    q = split_heads(x @ W_Q, n_heads)
    w = torch.softmax(q @ repeat_kv(K, rep).mT / math.sqrt(q.shape[-1]), dim=-1)
    return merge_heads(w @ repeat_kv(V, rep)) @ W_O, (K, V)


def decode_step__wrong_b_cache_as_a_list(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The new cache comes back as a list, but a tuple (K, V) is asked for."""
    cache = [
        torch.cat([old, split_heads(x @ W, n_kv_heads)], dim=2) for old, W in zip(cache, (W_K, W_V), strict=True)
    ]
    Q = split_heads(x @ W_Q, n_heads)
    K, V = (repeat_kv(part, n_heads // n_kv_heads) for part in cache)
    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    return merge_heads(A @ V) @ W_O, cache


def decode_step__wrong_b_groups_and_members_swapped(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The query heads are laid out as (h/g, g), so every g-th head shares a key/value head and not neighbours."""
    B, g, t, d = cache[0].shape
    K = torch.cat([cache[0], split_heads(x @ W_K, g)], dim=2)
    V = torch.cat([cache[1], split_heads(x @ W_V, g)], dim=2)
    Q = (x @ W_Q).reshape(B, n_heads // g, g, d)
    S = torch.einsum("brgd,bgjd->brgj", Q, K) / math.sqrt(d)
    out = torch.einsum("brgj,bgjd->brgd", S.softmax(dim=-1), V)
    return out.reshape(B, 1, -1) @ W_O, (K, V)


def decode_step__wrong_b_softmax_over_the_one_query(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The softmax runs over the axis of the single query, so every weight is 1 and the values are just added up."""
    rep = n_heads // n_kv_heads
    K = torch.cat([cache[0], split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], split_heads(x @ W_V, n_kv_heads)], dim=2)
    q = split_heads(x @ W_Q, n_heads)
    scores = repeat_kv(K, rep) @ q.mT / math.sqrt(q.shape[-1])  # (B, h, t+1, 1)
    weights = torch.softmax(scores, dim=-1)
    heads = weights.mT @ repeat_kv(V, rep)
    return merge_heads(heads) @ W_O, (K, V)


def decode_step__wrong_b_scaled_keys_are_stored(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The root of d_head is taken off the new key before it is stored, so the cache does not hold the keys themselves
    (and old keys that come unscaled stay so)."""
    d_head = W_K.shape[1] // n_kv_heads
    k = split_heads(x @ W_K, n_kv_heads) / math.sqrt(d_head)
    v = split_heads(x @ W_V, n_kv_heads)
    K, V = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
    Q = split_heads(x @ W_Q, n_heads)
    A = torch.softmax(Q @ repeat_kv(K, n_heads // n_kv_heads).mT, -1)
    return merge_heads(A @ repeat_kv(V, n_heads // n_kv_heads)) @ W_O, (K, V)


def decode_step__right_b_old_and_new_apart(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Scores with the old keys and with the new one are computed apart and joined only for the softmax."""
    q = split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).flatten(2, 3)
    k, v = split_heads(x @ W_K, n_kv_heads), split_heads(x @ W_V, n_kv_heads)
    scores = torch.cat([q @ cache[0].mT, (q * k).sum(dim=-1, keepdim=True)], dim=-1)
    w = torch.softmax(scores / math.sqrt(q.shape[-1]), dim=-1)
    heads = w[..., :-1] @ cache[1] + w[..., -1:] * v
    out = heads.flatten(1, 2).flatten(1)[:, None] @ W_O
    return out, (torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2))


# ================================================================ pool_kv_heads


def pool_kv_heads__wrong_b_every_gth_head(W, n_heads, n_kv_heads):
    """Heads a, a + g, a + 2g … are averaged: the heads are cut as (h/g, g), so those of a group are not neighbours."""
    d_model = W.shape[0]
    heads = W.reshape(d_model, n_heads // n_kv_heads, n_kv_heads, -1)
    return heads.mean(dim=1).reshape(d_model, -1)


def pool_kv_heads__wrong_b_running_halves(W, n_heads, n_kv_heads):
    """The mean is taken pairwise on the way, (mean + next) / 2, so from three heads on the last ones weigh more."""
    r = n_heads // n_kv_heads
    heads = W.chunk(n_heads, dim=1)
    groups = []
    for s in range(0, n_heads, r):
        mean = heads[s]
        for other in heads[s + 1 : s + r]:
            mean = (mean + other) / 2
        groups.append(mean)
    return torch.cat(groups, dim=1)


def pool_kv_heads__wrong_b_summed_up_inside_w(W, n_heads, n_kv_heads):
    """The sums are collected in the first head of each group in place, so the caller's W is changed."""
    heads = W.unflatten(1, (n_kv_heads, n_heads // n_kv_heads, -1))
    first = heads[:, :, 0]
    for member in range(1, heads.shape[2]):
        first += heads[:, :, member]
    return (first / heads.shape[2]).flatten(1)


def pool_kv_heads__wrong_b_view_merges_rows(W, n_heads, n_kv_heads):
    """view joins the rows with the groups, which fails for a W that is not contiguous in memory."""
    d_head = W.shape[1] // n_heads
    means = W.view(-1, n_heads // n_kv_heads, d_head).mean(1)
    return means.view(-1, n_kv_heads * d_head)


def pool_kv_heads__wrong_b_float32_room(W, n_heads, n_kv_heads):
    """The means are written into a torch.empty of the default dtype, so a float64 W comes back as float32."""
    d = W.shape[1] // n_heads
    out = torch.empty(W.shape[0], n_kv_heads * d)
    for s, group in enumerate(W.chunk(n_kv_heads, dim=1)):
        out[:, s * d : (s + 1) * d] = torch.stack(group.split(d, dim=1)).mean(dim=0)
    return out


def pool_kv_heads__right_b_matrix_of_shares(W, n_heads, n_kv_heads):
    """A product from the right with a matrix that holds g/h where a column goes to a column of its group."""
    d = W.shape[1] // n_heads
    kind = {"dtype": W.dtype, "device": W.device}
    share = torch.full((n_heads // n_kv_heads, 1), n_kv_heads / n_heads, **kind)
    groups = torch.kron(torch.eye(n_kv_heads, **kind), share)  # (h, g)
    return W @ torch.kron(groups, torch.eye(d, **kind))


# ================================================================ extend_cache


def extend_cache__wrong_b_new_ones_see_ahead(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """There is no mask: the new tokens see those that come behind them in the same call."""
    B, n_new, _ = X_new.shape
    k, v = split_heads(X_new @ W_K, n_kv_heads), split_heads(X_new @ W_V, n_kv_heads)
    K, V = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
    Q = split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).flatten(2, 3)
    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)  # all keys in K are in the past
    heads = (A @ V).unflatten(2, (-1, n_new)).flatten(1, 2)
    return merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_b_square_mask_cut_down(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The causal mask of all t + n_new tokens is built and cut down to its last rows: a tensor of (t + n_new)**2."""
    n_new = X_new.shape[1]
    K = torch.cat([cache[0], split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    mask = causal_mask(K.shape[2])[-n_new:]
    Q = split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1))
    S = torch.einsum("bgrid,bgjd->bgrij", Q, K) / math.sqrt(Q.shape[-1])
    O = torch.einsum("bgrij,bgjd->bgrid", masked_softmax(S, mask), V)
    return merge_heads(O.flatten(1, 2)) @ W_O, (K, V)


def extend_cache__wrong_b_offset_from_wrong_axis(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The mask's offset is read from axis 1 of the cache, the number of key/value heads, and not from its length."""
    n_new, past = X_new.shape[1], cache[0].shape[1]
    K = torch.cat([cache[0], split_heads(X_new @ W_K, n_kv_heads)], dim=-2)
    V = torch.cat([cache[1], split_heads(X_new @ W_V, n_kv_heads)], dim=-2)
    i = past + torch.arange(n_new).unsqueeze(1)
    j = torch.arange(K.shape[-2]).unsqueeze(0)
    Q = split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1))
    S = torch.einsum("bgrid,bgjd->bgrij", Q, K) * K.shape[-1] ** -0.5
    O = torch.einsum("bgrij,bgjd->bgrid", masked_softmax(S, j <= i), V)
    return merge_heads(O.flatten(1, 2)) @ W_O, (K, V)


def extend_cache__wrong_b_bare_exponentials(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The softmax is made of bare exponentials without taking off the maximum, so large scores overflow to NaN."""
    n_new, t = X_new.shape[1], cache[0].shape[2]
    K = torch.cat([cache[0], split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    Q = split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1))
    E = torch.exp(torch.einsum("bgrid,bgjd->bgrij", Q, K) / math.sqrt(Q.shape[-1]))
    E = E.tril(t)  # zeros for what lies ahead
    O = torch.einsum("bgrij,bgjd->bgrid", E, V) / E.sum(-1, keepdim=True)
    return merge_heads(O.flatten(1, 2)) @ W_O, (K, V)


def extend_cache__wrong_b_newest_first_among_the_new(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The loop puts each new token before those already added, so the new part of the returned cache is reversed."""
    n_new, r = X_new.shape[1], n_heads // n_kv_heads
    K_old, V_old = cache
    new_K = new_V = None
    rows = []
    for i in range(n_new):
        x = X_new[:, i : i + 1]
        k, v = split_heads(x @ W_K, n_kv_heads), split_heads(x @ W_V, n_kv_heads)
        new_K = k if new_K is None else torch.cat([k, new_K], dim=2)
        new_V = v if new_V is None else torch.cat([v, new_V], dim=2)
        K, V = torch.cat([K_old, new_K], dim=2), torch.cat([V_old, new_V], dim=2)
        q = (x @ W_Q).reshape(len(x), n_kv_heads, r, -1)
        rows.append((torch.softmax(q @ K.mT / q.shape[-1] ** 0.5, dim=-1) @ V).flatten(1))
    return torch.stack(rows, dim=1) @ W_O, (K, V)


def extend_cache__right_b_past_and_present_apart(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The past needs no mask, the present a small triangle; both meet in one maximum and one denominator."""
    n_new = X_new.shape[1]
    q = split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).flatten(2, 3)
    q = q / math.sqrt(q.shape[-1])
    k, v = split_heads(X_new @ W_K, n_kv_heads), split_heads(X_new @ W_V, n_kv_heads)
    ahead = torch.ones(n_new, n_new, dtype=torch.bool, device=q.device).triu(1)
    now = (q @ k.mT).unflatten(2, (-1, n_new)).masked_fill(ahead, -torch.inf).flatten(2, 3)
    past = q @ cache[0].mT
    top = now.amax(dim=-1, keepdim=True)
    if past.shape[-1]:
        top = torch.maximum(top, past.amax(dim=-1, keepdim=True))
    past, now = (past - top).exp(), (now - top).exp()
    heads = (past @ cache[1] + now @ v) / (past.sum(-1, keepdim=True) + now.sum(-1, keepdim=True))
    out = merge_heads(heads.unflatten(2, (-1, n_new)).flatten(1, 2)) @ W_O
    return out, tuple(torch.cat(pair, dim=2) for pair in ((cache[0], k), (cache[1], v)))
