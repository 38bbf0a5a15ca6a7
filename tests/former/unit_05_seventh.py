"""Answers to the exercises of unit 5, MQA and GQA, as a class might hand them in."""

import functools
import math
import operator

import numpy as np
import torch
import torch.nn.functional as F


def _split_heads(X, n_heads):
    """(B, n, h*d_head) -> (B, h, n, d_head)."""
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    """(B, h, n, d_head) -> (B, n, h*d_head)."""
    return X.transpose(1, 2).flatten(2)


def _masked_softmax(scores, mask=None):
    """The softmax over the last axis, among the allowed keys."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def _repeat_kv(K, n_rep):
    """Each key/value head n_rep times in a row."""
    return K.repeat_interleave(n_rep, dim=1)


# ---------------------------------------------------------------- 5.1 kv_cache_bytes


def kv_cache_bytes__wrong_seventh_product_of_int64(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Multiplies in a tensor of int64, which wraps round from 2**63 on: very large caches come out wrong or negative."""
    sizes = torch.tensor(
        [2, n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value]
    )
    return int(sizes.prod())


def kv_cache_bytes__wrong_seventh_at_least_one_token(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Counts one token where there is none: `n_tokens or 1`."""
    tokens = n_tokens or 1
    per_token = 2 * n_layers * n_kv_heads * d_head
    return per_token * tokens * batch * bytes_per_value


def kv_cache_bytes__wrong_seventh_sum_over_the_steps(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Adds up the cache of every step, 1 + 2 + … + n tokens, in place of what is kept at the end."""
    per_token = 2 * n_kv_heads * d_head * n_layers * bytes_per_value * batch
    tokens_of_all_steps = n_tokens * (n_tokens + 1) // 2
    return per_token * tokens_of_all_steps


def kv_cache_bytes__wrong_seventh_queries_too(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Keeps a query beside each key and value: 3 in place of 2."""
    kept = ("queries", "keys", "values")
    numbers = len(kept) * n_kv_heads * d_head
    return n_layers * numbers * n_tokens * batch * bytes_per_value


def kv_cache_bytes__wrong_seventh_pages_of_16(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Rounds the tokens up to whole pages of 16, as vLLM lays them out."""
    pages = -(-n_tokens // 16)
    return 2 * n_layers * n_kv_heads * d_head * pages * 16 * batch * bytes_per_value


def kv_cache_bytes__wrong_seventh_bits_divided_by_eight(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Counts bits and divides by 8 with /, so the result is a float and not exact for large caches."""
    bits_per_value = 8 * bytes_per_value
    values = 2 * n_layers * n_kv_heads * d_head * n_tokens * batch
    return values * bits_per_value / 8


def kv_cache_bytes__wrong_seventh_one_cell_more(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Counts the positions 0 … n_tokens, one token too many, for “the new one that is still to come”."""
    shape = (n_layers, 2, batch, n_kv_heads, n_tokens + 1, d_head)
    return math.prod(shape) * bytes_per_value


def kv_cache_bytes__wrong_seventh_values_always_in_half(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Counts keys with bytes_per_value and values with 2 bytes each, whatever is asked for."""
    numbers = batch * n_tokens * n_layers * n_kv_heads * d_head
    keys = numbers * bytes_per_value
    values = numbers * 2
    return keys + values


def kv_cache_bytes__right_seventh_product_of_the_shape(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Reduces the shape of the whole cache, and the bytes of a number, with operator.mul."""
    shape = [n_layers, ("K", "V"), batch, n_kv_heads, n_tokens, d_head, bytes_per_value]
    sizes = (len(axis) if isinstance(axis, tuple) else axis for axis in shape)
    return functools.reduce(operator.mul, sizes, 1)


def kv_cache_bytes__right_seventh_doubling_and_adding(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Multiplies by doubling and adding, as on an abacus: whole numbers all the way."""

    def times(a, b):
        total = 0
        while b > 0:
            if b & 1:
                total += a
            a, b = a << 1, b >> 1
        return total

    size = times(n_kv_heads, d_head)
    for factor in (n_layers, n_tokens, batch, bytes_per_value):
        size = times(size, factor)
    return size + size


# ---------------------------------------------------------------- 5.2 repeat_kv


def repeat_kv__wrong_seventh_gathers_equals_by_sorting(K, n_rep):
    """Lays the row of heads down n_rep times and sorts along the heads, entry by entry, to bring equal ones together."""
    again = torch.cat([K] * n_rep, dim=1)
    return again.sort(dim=1).values


def repeat_kv__wrong_seventh_linspace_of_heads(K, n_rep):
    """Spreads head numbers 0 … g-1 evenly and rounds, which is not floor(a / n_rep) for larger g and n_rep."""
    g = K.shape[1]
    source = torch.linspace(0, g - 1, g * n_rep, dtype=torch.float64).round().long()
    return K[:, source]


def repeat_kv__wrong_seventh_through_numpy(K, n_rep):
    """Goes through np.repeat, so that no gradient reaches K."""
    wide = np.repeat(K.detach().numpy(), n_rep, axis=1)
    return torch.from_numpy(wide)


def repeat_kv__wrong_seventh_new_axis_behind_tokens(K, n_rep):
    """Puts the new axis behind the tokens and not behind the heads before it glues: heads and tokens are mixed."""
    B, g, n, d = K.shape
    copies = K.unsqueeze(3).expand(B, g, n, n_rep, d)
    return copies.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_seventh_entries_repeated(K, n_rep):
    """Calls repeat_interleave without dim, which repeats single numbers, and views the result in the right shape."""
    B, g, n, d = K.shape
    return torch.repeat_interleave(K, n_rep).view(B, g * n_rep, n, d)


def repeat_kv__wrong_seventh_heads_on_axis_2(K, n_rep):
    """Takes axis 2 for the heads, as in libraries with (B, n, heads, d): the tokens are repeated."""
    return K.repeat_interleave(n_rep, dim=2)


def repeat_kv__wrong_seventh_n_rep_as_all_query_heads(K, n_rep):
    """Reads n_rep as the number of query heads and repeats n_rep // g times."""
    g = K.shape[1]
    per_head = max(1, n_rep // g)
    return torch.cat([K[:, s : s + 1].expand(-1, per_head, -1, -1) for s in range(g)], 1)


def repeat_kv__wrong_seventh_n_rep_further_copies(K, n_rep):
    """Keeps each head and adds n_rep copies of it, so that it stands there n_rep + 1 times."""
    rows = []
    for head in K.unbind(dim=1):
        rows.append(head)
        for _ in range(n_rep):
            rows.append(head)
    return torch.stack(rows, dim=1)


def repeat_kv__right_seventh_kronecker(K, n_rep):
    """A Kronecker product with n_rep ones along the heads."""
    ones = torch.ones(1, n_rep, 1, 1, dtype=K.dtype, device=K.device)
    return torch.kron(K.contiguous(), ones)


def repeat_kv__right_seventh_head_by_head(K, n_rep):
    """Expands one head after another to n_rep heads, and concatenates."""
    return torch.cat(
        [one.expand(-1, n_rep, -1, -1) for one in K.split(1, dim=1)], dim=1
    )


# ---------------------------------------------------------------- 5.3 grouped_query_attention


def grouped_query_attention__wrong_seventh_uneven_groups_served(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Serves uneven groups too: rounds the group size up and cuts off what is too much, with no ValueError."""
    r = -(-n_heads // n_kv_heads)
    Q = _split_heads(X @ W_Q, n_heads)
    K = _repeat_kv(_split_heads(X @ W_K, n_kv_heads), r)[:, :n_heads]
    V = _repeat_kv(_split_heads(X @ W_V, n_kv_heads), r)[:, :n_heads]
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge_heads(A @ V) @ W_O


def grouped_query_attention__wrong_seventh_mask_rows_token_by_token(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Puts the queries of a group in a queue head by head, and the rows of the mask token by token."""
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
    B, n, _ = X.shape
    g, r = n_kv_heads, n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads).unflatten(1, (g, r)).flatten(2, 3)
    K, V = _split_heads(X @ W_K, g), _split_heads(X @ W_V, g)
    scores = Q @ K.mT / math.sqrt(K.shape[-1])
    if mask is not None:
        rows = mask.expand(B, n_heads, n, n).unflatten(1, (g, r))
        mask = rows.transpose(2, 3).flatten(2, 3)
    heads = _masked_softmax(scores, mask) @ V
    return _merge_heads(heads.unflatten(2, (r, n)).flatten(1, 2)) @ W_O


def grouped_query_attention__wrong_seventh_queries_averaged(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Averages the queries of a group to one, so that all heads of a group give the same output."""
    if n_kv_heads == 0 or n_heads % n_kv_heads != 0:
        raise ValueError("the key/value heads do not divide the query heads")
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    Q = Q.unflatten(1, (n_kv_heads, r)).mean(dim=2).repeat_interleave(r, dim=1)
    K, V = (_repeat_kv(_split_heads(X @ W, n_kv_heads), r) for W in (W_K, W_V))
    S = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(Q.shape[-1])
    return _merge_heads(_masked_softmax(S, mask) @ V) @ W_O


def grouped_query_attention__wrong_seventh_one_softmax_per_group(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Takes one softmax over all scores that a token has in a group: the weights of its r heads together sum to 1."""
    if n_kv_heads < 1 or n_heads % n_kv_heads > 0:
        raise ValueError(f"{n_kv_heads} key/value heads cannot serve {n_heads} heads")
    B, n, _ = X.shape
    g, r = n_kv_heads, n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads).unflatten(1, (g, r))
    K, V = _split_heads(X @ W_K, g), _split_heads(X @ W_V, g)
    S = torch.einsum("bgrid,bgjd->bgirj", Q, K) / math.sqrt(Q.shape[-1])
    if mask is not None:
        seen = mask.expand(B, n_heads, n, n).unflatten(1, (g, r)).transpose(2, 3)
        S = S.masked_fill(~seen, torch.finfo(S.dtype).min)
    A = torch.softmax(S.flatten(3), dim=-1).unflatten(3, (r, n))
    O = torch.einsum("bgirj,bgjd->bigrd", A, V)
    return O.reshape(B, n, -1) @ W_O


def grouped_query_attention__wrong_seventh_merged_in_another_order(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Lays the outputs side by side with the groups running faster than the heads in them, so W_O's rows do not fit."""
    if not n_kv_heads or n_heads % n_kv_heads:
        raise ValueError(f"g = {n_kv_heads} does not divide h = {n_heads}")
    B, n, _ = X.shape
    g = n_kv_heads
    q = (X @ W_Q).reshape(B, n, g, n_heads // g, -1)
    k, v = (X @ W_K).reshape(B, n, g, -1), (X @ W_V).reshape(B, n, g, -1)
    scores = torch.einsum("bigrd,bjgd->bgrij", q, k) / math.sqrt(q.shape[-1])
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).unflatten(1, (g, -1))
    weights = _masked_softmax(scores, mask)
    heads = torch.einsum("bgrij,bjgd->birgd", weights, v)
    return heads.flatten(2) @ W_O


def grouped_query_attention__wrong_seventh_mask_of_first_in_group(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Keeps one mask per key/value head, that of the first query head in its group, for all heads of the group."""
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"{n_heads} heads, {n_kv_heads} key/value heads")
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads).unflatten(1, (n_kv_heads, r))
    K = _split_heads(X @ W_K, n_kv_heads).unsqueeze(2)
    V = _split_heads(X @ W_V, n_kv_heads).unsqueeze(2)
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)[:, ::r].unsqueeze(2)
    return _merge_heads((_masked_softmax(S, mask) @ V).flatten(1, 2)) @ W_O


def grouped_query_attention__wrong_seventh_mask_turned_in_place(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Turns the caller's mask round with logical_not_, in place, to get “forbidden”."""
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError("g does not divide h")
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (_repeat_kv(_split_heads(X @ W, n_kv_heads), r) for W in (W_K, W_V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        forbidden = mask.logical_not_()
        scores = scores.masked_fill(forbidden, float("-inf"))
    return _merge_heads(torch.softmax(scores, dim=-1) @ V) @ W_O


def grouped_query_attention__wrong_seventh_softmax_over_heads(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Takes the softmax with dim=1, which is the axis of the heads."""
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}.")
    Q = _split_heads(X @ W_Q, n_heads)
    K = _repeat_kv(_split_heads(X @ W_K, n_kv_heads), n_heads // n_kv_heads)
    V = _repeat_kv(_split_heads(X @ W_V, n_kv_heads), n_heads // n_kv_heads)
    S = Q @ K.transpose(2, 3) / Q.shape[-1] ** 0.5
    if mask is not None:
        S = S.masked_fill(~mask, torch.finfo(S.dtype).min)
    A = torch.softmax(S, dim=1)
    if mask is not None:
        A = A * mask
    return (A @ V).transpose(1, 2).flatten(2) @ W_O


def grouped_query_attention__right_seventh_loop_over_heads(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Query head after query head, with the columns of key/value head a // r, projected by its own rows and added up."""
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
    B, n, _ = X.shape
    r, d = n_heads // n_kv_heads, W_Q.shape[1] // n_heads
    seen = None if mask is None else mask.expand(B, n_heads, n, n)
    out = 0
    for a in range(n_heads):
        own, shared = slice(a * d, a * d + d), slice(a // r * d, a // r * d + d)
        scores = (X @ W_Q[:, own]) @ (X @ W_K[:, shared]).mT / math.sqrt(d)
        weights = _masked_softmax(scores, None if seen is None else seen[:, a])
        out = out + weights @ (X @ W_V[:, shared]) @ W_O[own]
    return out


def grouped_query_attention__right_seventh_five_axes(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """One einsum with axes for the groups and for the heads in a group, nothing repeated."""
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
    B, n, _ = X.shape
    groups = (n_kv_heads, n_heads // n_kv_heads)
    q = torch.einsum("bic,cgrd->bgrid", X, W_Q.unflatten(1, (*groups, -1)))
    k, v = (
        torch.einsum("bjc,cgd->bgjd", X, W.unflatten(1, (n_kv_heads, -1)))
        for W in (W_K, W_V)
    )
    scores = torch.einsum("bgrid,bgjd->bgrij", q, k) / math.sqrt(q.shape[-1])
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).unflatten(1, (n_kv_heads, -1))
    weights = _masked_softmax(scores, mask)
    project = W_O.unflatten(0, (*q.shape[1:3], -1))
    return torch.einsum("bgrij,bgjd,grdm->bim", weights, v, project)


# ---------------------------------------------------------------- 5.4 multi_query_attention


def multi_query_attention__wrong_seventh_weights_widened(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Repeats W_K and W_V for all heads, so that X @ W_K holds the keys once per head: the copies by another door."""
    W_K, W_V = W_K.repeat(1, n_heads), W_V.repeat(1, n_heads)
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge_heads(A @ V) @ W_O


def multi_query_attention__wrong_seventh_pytorchs_own(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Calls scaled_dot_product_attention, which the box of rules does not allow."""
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (X @ W_K)[:, None], (X @ W_V)[:, None]
    heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask, enable_gqa=True)
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_seventh_queue_by_tokens_mask_by_heads(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """The rows of the queue run token by token, those of the mask head by head: right only without a mask."""
    B, n, _ = X.shape
    d = W_K.shape[1]
    rows = (X @ W_Q).reshape(B, n * n_heads, d)
    scores = rows @ (X @ W_K).mT / math.sqrt(d)
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).flatten(1, 2)
    mixed = _masked_softmax(scores, mask) @ (X @ W_V)
    return mixed.reshape(B, n, n_heads * d) @ W_O


def multi_query_attention__wrong_seventh_one_head_for_both(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Reads “one head of keys and values” as one head for both: the keys are mixed as if they were the values."""
    Q = _split_heads(X @ W_Q, n_heads)
    shared = (X @ W_K).unsqueeze(1)
    S = Q @ shared.mT / math.sqrt(Q.shape[-1])
    return _merge_heads(_masked_softmax(S, mask) @ shared) @ W_O


def multi_query_attention__wrong_seventh_fill_of_minus_ten_thousand(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Fills forbidden scores with −10,000, which is no low number where scores are ±10,000."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    Q = _split_heads(X @ W_Q, n_heads).flatten(1, 2)
    S = (Q @ K.mT / math.sqrt(K.shape[-1])).unflatten(1, (n_heads, n))
    if mask is not None:
        S = S.masked_fill(~mask, -1e4)
    O = S.softmax(dim=-1).flatten(1, 2) @ V
    return _merge_heads(O.unflatten(1, (n_heads, n))) @ W_O


def multi_query_attention__wrong_seventh_scale_put_into_w_q(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Divides the caller's W_Q by the root of d_head, in place, to save a division later."""
    W_Q /= math.sqrt(W_K.shape[1])
    Q = (X @ W_Q).unflatten(2, (n_heads, -1)).transpose(1, 2)
    K, V = X @ W_K, X @ W_V
    A = _masked_softmax(torch.einsum("bhid,bjd->bhij", Q, K), mask)
    return torch.einsum("bhij,bjd->bihd", A, V).flatten(2) @ W_O


def multi_query_attention__wrong_seventh_keys_and_values_as_constants(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Works keys and values out under no_grad, “since they are kept”: no gradient reaches W_K and W_V."""
    with torch.no_grad():
        K = X @ W_K
        V = X @ W_V
    B, n, d = K.shape
    queue = _split_heads(X @ W_Q, n_heads).reshape(B, n_heads * n, d)
    scores = (queue @ K.mT).view(B, n_heads, n, n) / math.sqrt(d)
    weights = _masked_softmax(scores, mask).reshape(B, n_heads * n, n)
    return _merge_heads((weights @ V).view(B, n_heads, n, d)) @ W_O


def multi_query_attention__wrong_seventh_einsum_adds_sequences(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Gives the keys another letter for the batch in einsum, so the keys of all sequences are added up."""
    d_head = W_V.shape[1]
    Q = (X @ W_Q).unflatten(-1, (n_heads, d_head))
    K, V = X @ W_K, X @ W_V
    scores = torch.einsum("bqhd,akd->bhqk", Q, K) / math.sqrt(d_head)
    weights = _masked_softmax(scores, mask)
    return torch.einsum("bhqk,bkd->bqhd", weights, V).flatten(2) @ W_O


def multi_query_attention__right_seventh_queue_by_tokens(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """A queue whose rows run token by token, and the mask's rows in the same order: no transpose of the queries."""
    B, n, _ = X.shape
    d = W_K.shape[1]
    queue = (X @ W_Q).reshape(B, n * n_heads, d)
    scores = queue @ (X @ W_K).mT / math.sqrt(d)
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).transpose(1, 2).reshape(B, -1, n)
    mixed = _masked_softmax(scores, mask) @ (X @ W_V)
    return mixed.reshape(B, n, n_heads * d) @ W_O


def multi_query_attention__right_seventh_head_after_head(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """A loop over the query heads, which all use the same two tensors K and V; each adds its share."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    seen = None if mask is None else mask.expand(B, n_heads, n, n)
    parts = zip(W_Q.chunk(n_heads, dim=1), W_O.chunk(n_heads, dim=0), strict=True)
    out = 0
    for a, (ask, write) in enumerate(parts):
        scores = X @ ask @ K.mT / math.sqrt(ask.shape[1])
        weights = _masked_softmax(scores, None if seen is None else seen[:, a])
        out = out + weights @ V @ write
    return out


# ---------------------------------------------------------------- 5.5 decode_step


def decode_step__wrong_seventh_root_of_the_tokens(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Divides by the root of K.shape[2], the number of tokens, not of the width of a head."""
    K = torch.cat([cache[0], _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(x @ W_V, n_kv_heads)], dim=2)
    r = n_heads // n_kv_heads
    Q = _split_heads(x @ W_Q, n_heads).reshape(x.shape[0], n_kv_heads, r, -1)
    weights = torch.softmax(Q @ K.mT / math.sqrt(K.shape[2]), dim=-1)
    heads = (weights @ V).reshape(x.shape[0], 1, -1)
    return heads @ W_O, (K, V)


def decode_step__wrong_seventh_keeps_scaled_keys(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Divides each key by the root before it is kept, and no score: other caches and later readers expect plain keys."""
    K, V = cache
    k, v = _split_heads(x @ W_K, n_kv_heads), _split_heads(x @ W_V, n_kv_heads)
    K = torch.cat([K, k / math.sqrt(k.shape[-1])], dim=2)
    V = torch.cat([V, v], dim=2)
    r = n_heads // n_kv_heads
    q = _split_heads(x @ W_Q, n_heads)
    A = torch.softmax(q @ _repeat_kv(K, r).mT, dim=-1)
    return _merge_heads(A @ _repeat_kv(V, r)) @ W_O, (K, V)


def decode_step__wrong_seventh_cache_in_bfloat16(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Rounds new keys and values to bfloat16 before they are kept, “half precision is the default”."""

    def kept(T):
        return _split_heads(T, n_kv_heads).to(torch.bfloat16).to(T.dtype)

    K = torch.cat((cache[0], kept(x @ W_K)), dim=-2)
    V = torch.cat((cache[1], kept(x @ W_V)), dim=-2)
    q = _split_heads(x @ W_Q, n_heads).squeeze(2).unflatten(1, (n_kv_heads, -1))
    A = torch.softmax(q @ K.mT * q.shape[-1] ** -0.5, dim=-1)
    out = (A @ V).flatten(1).unsqueeze(1) @ W_O
    return out, (K, V)


def decode_step__wrong_seventh_zero_keys_are_fillers(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Takes every key that is all 0 for empty room of the cache and hides it, though a token may have such a key."""
    K_old, V_old = cache
    K = torch.cat([K_old, _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V_old, _split_heads(x @ W_V, n_kv_heads)], dim=2)
    filled = (K != 0).any(dim=-1)  # (B, g, t+1)
    r = n_heads // n_kv_heads
    q = _split_heads(x @ W_Q, n_heads).reshape(len(x), n_kv_heads, r, -1)
    S = q @ K.mT / math.sqrt(q.shape[-1])
    A = _masked_softmax(S, filled[:, :, None])
    return (A @ V).reshape(len(x), 1, -1) @ W_O, (K, V)


def decode_step__wrong_seventh_detaches_what_is_kept(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Returns a detached cache, so that no gradient of a later token reaches an earlier one's key and value."""
    B, g = len(x), n_kv_heads
    new_K, new_V = (_split_heads(x @ W, g) for W in (W_K, W_V))
    K = torch.cat([cache[0], new_K], dim=2)
    V = torch.cat([cache[1], new_V], dim=2)
    queries = (x @ W_Q).reshape(B, g, n_heads // g, -1)
    scores = queries @ K.mT / math.sqrt(K.shape[-1])
    out = (scores.softmax(dim=-1) @ V).reshape(B, 1, -1) @ W_O
    return out, (K.detach(), V.detach())


def decode_step__wrong_seventh_cache_grows_in_place(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Lets the tensors of the cache that came in grow through .data, and returns them."""
    K, V = cache
    K.data = torch.cat([K, _split_heads(x @ W_K, n_kv_heads)], dim=2).data
    V.data = torch.cat([V, _split_heads(x @ W_V, n_kv_heads)], dim=2).data
    r = n_heads // n_kv_heads
    q = _split_heads(x @ W_Q, n_heads)
    S = torch.einsum("bhid,bhjd->bhij", q, _repeat_kv(K, r)) / math.sqrt(q.shape[-1])
    O = S.softmax(-1) @ _repeat_kv(V, r)
    return _merge_heads(O) @ W_O, (K, V)


def decode_step__wrong_seventh_past_and_self_averaged(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Takes a softmax over the kept tokens alone and averages its mixture with the token's own value."""
    k, v = (_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V))
    q = _split_heads(x @ W_Q, n_heads).reshape(len(x), n_kv_heads, -1, k.shape[-1])
    heads = v.expand_as(q)
    if cache[0].shape[2]:
        past = torch.softmax(q @ cache[0].mT / math.sqrt(q.shape[-1]), -1) @ cache[1]
        heads = (past + heads) / 2
    K, V = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
    return heads.reshape(len(x), 1, -1) @ W_O, (K, V)


def decode_step__wrong_seventh_keeps_eight(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Drops the oldest token as soon as there are more than 8, as models with a sliding window do."""
    window = 8
    pairs = zip(cache, (W_K, W_V), strict=True)
    K, V = (
        torch.cat([old, _split_heads(x @ W, n_kv_heads)], dim=2)[:, :, -window:]
        for old, W in pairs
    )
    q = _split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).squeeze(3)
    A = torch.softmax(q @ K.mT / math.sqrt(q.shape[-1]), dim=-1)
    return (A @ V).flatten(1)[:, None] @ W_O, (K, V)


def decode_step__right_seventh_old_and_new_scores(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Scores the kept keys and the new one apart, joins the scores for one softmax, and mixes the two parts apart."""
    B, g = x.shape[0], n_kv_heads
    old_K, old_V = cache
    k, v = _split_heads(x @ W_K, g), _split_heads(x @ W_V, g)
    q = (x @ W_Q).reshape(B, g, n_heads // g, -1) / math.sqrt(k.shape[-1])
    to_old, to_new = q @ old_K.mT, (q * k).sum(dim=-1, keepdim=True)
    weights = torch.softmax(torch.cat([to_old, to_new], dim=-1), dim=-1)
    t = old_K.shape[2]
    heads = weights[..., :t] @ old_V + weights[..., t:] * v
    longer = torch.cat([old_K, k], dim=2), torch.cat([old_V, v], dim=2)
    return heads.reshape(B, 1, -1) @ W_O, longer


def decode_step__right_seventh_loop_over_query_heads(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Grows the cache, then takes query head after query head with key/value head a // r, adding up what each writes."""
    d = W_Q.shape[1] // n_heads
    K, V = (
        torch.cat([old, torch.stack((x @ W).split(d, dim=-1), dim=1)], dim=2)
        for old, W in zip(cache, (W_K, W_V), strict=True)
    )
    out = 0
    for a in range(n_heads):
        source = a * n_kv_heads // n_heads
        own = slice(a * d, (a + 1) * d)
        scores = (x @ W_Q[:, own]) @ K[:, source].mT / math.sqrt(d)
        out = out + torch.softmax(scores, dim=-1) @ V[:, source] @ W_O[own]
    return out, (K, V)


# ---------------------------------------------------------------- 5.6 pool_kv_heads


def pool_kv_heads__wrong_seventh_keeps_the_variance(W, n_heads, n_kv_heads):
    """Multiplies the mean by the root of the group's size, so that entries keep their spread."""
    r = n_heads // n_kv_heads
    grouped = W.unflatten(1, (n_kv_heads, r, -1))
    return (grouped.mean(dim=2) * math.sqrt(r)).flatten(1)


def pool_kv_heads__wrong_seventh_divides_by_the_groups(W, n_heads, n_kv_heads):
    """Adds the heads of a group and divides by the number of groups, not of heads in one; the same for h = g*g."""
    d_model, width = W.shape
    r = n_heads // n_kv_heads
    cut = W.reshape(d_model, n_kv_heads, r, width // n_heads)
    return cut.sum(dim=2).reshape(d_model, -1) / n_kv_heads


def pool_kv_heads__wrong_seventh_running_halves(W, n_heads, n_kv_heads):
    """Averages the mean so far with the next head, half and half: later heads weigh more from three heads on."""
    heads = W.chunk(n_heads, dim=1)
    r = n_heads // n_kv_heads
    pooled = []
    for first in range(0, n_heads, r):
        mean = heads[first]
        for head in heads[first + 1 : first + r]:
            mean = (mean + head) / 2
        pooled.append(mean)
    return torch.cat(pooled, dim=1)


def pool_kv_heads__wrong_seventh_laid_out_again(W, n_heads, n_kv_heads):
    """Lays the means out for all query heads again: the result is h*d_head wide."""
    r = n_heads // n_kv_heads
    means = W.unflatten(1, (n_kv_heads, r, -1)).mean(dim=2, keepdim=True)
    return means.expand(-1, -1, r, -1).flatten(1)


def pool_kv_heads__wrong_seventh_adds_into_w(W, n_heads, n_kv_heads):
    """Adds the other heads of a group into the first one's columns of the caller's W, in place."""
    d = W.shape[1] // n_heads
    r = n_heads // n_kv_heads
    blocks = []
    for first in range(0, n_heads, r):
        block = W[:, first * d : (first + 1) * d]
        for other in range(first + 1, first + r):
            block += W[:, other * d : (other + 1) * d]
        blocks.append(block / r)
    return torch.cat(blocks, dim=1)


def pool_kv_heads__wrong_seventh_conversion_without_grad(W, n_heads, n_kv_heads):
    """Runs under torch.no_grad, “a conversion is no training step”: no gradient flows."""
    r = n_heads // n_kv_heads
    with torch.no_grad():
        groups = W.split(W.shape[1] // n_kv_heads, dim=1)
        means = [group.unflatten(1, (r, -1)).mean(dim=1) for group in groups]
        return torch.cat(means, dim=1)


def pool_kv_heads__wrong_seventh_last_head_left_out(W, n_heads, n_kv_heads):
    """The range of a group's heads ends one too early, so its last head is not added; still divided by r."""
    d = W.shape[1] // n_heads
    r = n_heads // n_kv_heads
    result = []
    for group in range(n_kv_heads):
        start, stop = group * r, group * r + r - 1
        total = torch.zeros_like(W[:, :d])
        for a in range(start, stop):
            total = total + W[:, a * d : (a + 1) * d]
        result.append(total / r)
    return torch.cat(result, dim=1)


def pool_kv_heads__wrong_seventh_middle_of_first_and_last(W, n_heads, n_kv_heads):
    """Takes the middle of a group's first and last head, which is the mean only of two, or of evenly spaced ones."""
    grouped = W.unflatten(1, (n_kv_heads, n_heads // n_kv_heads, -1))
    return ((grouped[:, :, 0] + grouped[:, :, -1]) / 2).flatten(1)


def pool_kv_heads__right_seventh_pooling_matrix(W, n_heads, n_kv_heads):
    """Multiplies with a matrix (h*d_head, g*d_head) that is made of Kronecker products."""
    d, r = W.shape[1] // n_heads, n_heads // n_kv_heads
    kind = {"dtype": W.dtype, "device": W.device}
    group = torch.kron(torch.eye(n_kv_heads, **kind), torch.ones(r, 1, **kind))
    return W @ torch.kron(group, torch.eye(d, **kind)) / r


def pool_kv_heads__right_seventh_running_mean(W, n_heads, n_kv_heads):
    """A running mean over the places in a group: the k-th head moves it by 1/k of its distance."""
    r = n_heads // n_kv_heads
    grouped = W.reshape(W.shape[0], n_kv_heads, r, -1)
    mean = grouped[:, :, 0]
    for k in range(1, r):
        mean = mean + (grouped[:, :, k] - mean) / (k + 1)
    return mean.flatten(1)


# ---------------------------------------------------------------- 5.7 extend_cache


def extend_cache__wrong_seventh_rows_of_the_full_mask(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Builds the causal mask of all t + n_new tokens and keeps its last rows: it grows with the square of the cache."""
    B, n_new, _ = X_new.shape
    t = cache[0].shape[2]
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    r = n_heads // n_kv_heads
    everyone = torch.ones(t + n_new, t + n_new, dtype=torch.bool).tril()
    Q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    scores = (Q @ K.mT / math.sqrt(K.shape[-1])).unflatten(2, (r, n_new))
    weights = _masked_softmax(scores, everyone[t:]).flatten(2, 3)
    heads = (weights @ V).unflatten(2, (r, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_seventh_products_written_out(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Multiplies queries and keys entry by entry by broadcasting and sums: a tensor with d_head numbers for each score."""
    B, n_new, _ = X_new.shape
    t, g = cache[0].shape[2], n_kv_heads
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, g)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, g)], dim=2)
    q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (g, -1))  # (B, g, r, n_new, d)
    scores = (q[..., None, :] * K[:, :, None, None]).sum(-1) / math.sqrt(q.shape[-1])
    seen = torch.arange(t + n_new) <= t + torch.arange(n_new)[:, None]
    A = _masked_softmax(scores, seen)
    O = torch.einsum("bgrij,bgjd->bigrd", A, V)
    return O.flatten(2) @ W_O, (K, V)


def extend_cache__wrong_seventh_mask_rows_repeated_in_turn(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Stretches the mask to the queue with repeat_interleave (token by token), where the queue runs head by head."""
    B, n_new, _ = X_new.shape
    K_old, V_old = cache
    t, r = K_old.shape[2], n_heads // n_kv_heads
    K = torch.cat([K_old, _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V_old, _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    d = K.shape[-1]
    Q = _split_heads(X_new @ W_Q, n_heads).reshape(B, n_kv_heads, r * n_new, d)
    mask = torch.ones(n_new, t + n_new, dtype=torch.bool).tril(diagonal=t)
    mask = mask.repeat_interleave(r, dim=0)
    O = _masked_softmax(Q @ K.mT / math.sqrt(d), mask) @ V
    return _merge_heads(O.reshape(B, n_heads, n_new, d)) @ W_O, (K, V)


def extend_cache__wrong_seventh_diagonal_of_n_new(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Shifts the triangle by n_new in place of t: right only if as many tokens are new as were kept."""
    B, n_new, _ = X_new.shape
    g, r = n_kv_heads, n_heads // n_kv_heads
    new = [_split_heads(X_new @ W, g) for W in (W_K, W_V)]
    K, V = (torch.cat(pair, dim=2) for pair in zip(cache, new, strict=True))
    mask = torch.ones(n_new, K.shape[2], dtype=torch.bool).tril(n_new)
    Q = (X_new @ W_Q).unflatten(-1, (g, r, -1)).permute(0, 2, 3, 1, 4)
    S = torch.einsum("bgrid,bgjd->bgrij", Q, K) / math.sqrt(Q.shape[-1])
    O = torch.einsum("bgrij,bgjd->bgrid", _masked_softmax(S, mask), V)
    return O.permute(0, 3, 1, 2, 4).flatten(2) @ W_O, (K, V)


def extend_cache__wrong_seventh_t_read_too_late(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Reads t off the cache after it has grown, so that the triangle allows everything, the future too."""
    B, n_new, _ = X_new.shape
    K, V = cache
    K = torch.cat([K, _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V, _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    t = K.shape[2]
    outputs = 0
    d = K.shape[3]
    mask = torch.arange(K.shape[2]) <= t + torch.arange(n_new).unsqueeze(1)
    for a in range(n_heads):
        s = a // (n_heads // n_kv_heads)
        q = X_new @ W_Q[:, a * d : (a + 1) * d]
        A = _masked_softmax(q @ K[:, s].mT / math.sqrt(d), mask)
        outputs = outputs + A @ V[:, s] @ W_O[a * d : (a + 1) * d]
    return outputs, (K, V)


def extend_cache__wrong_seventh_no_mask_for_an_empty_cache(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Masks only where something is kept already: a prompt behind an empty cache sees its own future."""
    B, n_new, _ = X_new.shape
    t, r = cache[0].size(2), n_heads // n_kv_heads
    K, V = (
        torch.cat([old, _split_heads(X_new @ W, n_kv_heads)], dim=2)
        for old, W in zip(cache, (W_K, W_V), strict=True)
    )
    Q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    mask = None
    if t:
        mask = torch.ones(n_new, t + n_new, dtype=torch.bool).tril(t).repeat(r, 1)
    O = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask) @ V
    return _merge_heads(O.unflatten(2, (r, n_new)).flatten(1, 2)) @ W_O, (K, V)


def extend_cache__wrong_seventh_new_tokens_blind_for_one_another(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Lets each new token see the kept ones and itself, but not the new ones before it."""
    B, n_new, _ = X_new.shape
    t, g = cache[0].shape[2], n_kv_heads
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, g)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, g)], dim=2)
    past = torch.ones(n_new, t, dtype=torch.bool)
    mask = torch.cat([past, torch.eye(n_new, dtype=torch.bool)], dim=1)
    d = K.shape[-1]
    rows = _split_heads(X_new @ W_Q, n_heads).reshape(B, g, -1, d)
    S = (rows @ K.mT / math.sqrt(d)).unflatten(2, (-1, n_new))
    O = _masked_softmax(S, mask).flatten(2, 3) @ V
    return _merge_heads(O.reshape(B, n_heads, n_new, d)) @ W_O, (K, V)


def extend_cache__wrong_seventh_queue_read_back_the_other_way(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Lines the queue up as (heads, tokens) and cuts the mixed rows as (tokens, heads) on the way back."""
    B, n_new, _ = X_new.shape
    t, r = cache[0].shape[2], n_heads // n_kv_heads
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    queue = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    scores = queue @ K.mT / math.sqrt(queue.shape[-1])
    seen = torch.ones(n_new, t + n_new, dtype=torch.bool).tril(t)
    mixed = _masked_softmax(scores, seen.repeat(r, 1)) @ V
    rows = mixed.unflatten(2, (n_new, r)).permute(0, 2, 1, 3, 4)
    return rows.flatten(2) @ W_O, (K, V)


def extend_cache__right_seventh_old_and_new_apart(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Scores kept and new keys apart, masks only the square of the new ones, and joins both for one softmax."""
    B, n_new, _ = X_new.shape
    K_old, V_old = cache
    g, r, t = n_kv_heads, n_heads // n_kv_heads, K_old.shape[2]
    K_new, V_new = _split_heads(X_new @ W_K, g), _split_heads(X_new @ W_V, g)
    d = K_new.shape[-1]
    queue = _split_heads(X_new @ W_Q, n_heads).reshape(B, g, r * n_new, d)
    queue = queue / math.sqrt(d)
    future = torch.ones(n_new, n_new, dtype=torch.bool, device=X_new.device).triu(1)
    among = queue @ K_new.mT
    among = among.masked_fill(future.repeat(r, 1), -math.inf)
    weights = torch.softmax(torch.cat([queue @ K_old.mT, among], dim=-1), dim=-1)
    heads = weights[..., :t] @ V_old + weights[..., t:] @ V_new
    longer = torch.cat([K_old, K_new], dim=2), torch.cat([V_old, V_new], dim=2)
    return _merge_heads(heads.reshape(B, n_heads, n_new, d)) @ W_O, longer


def extend_cache__right_seventh_head_by_head_with_positions(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Gives each new token its place in the sequence, compares places, and takes one query head after another."""
    n_new, t = X_new.shape[1], cache[0].shape[2]
    K, V = (
        torch.cat([old, _split_heads(X_new @ W, n_kv_heads)], dim=2)
        for old, W in zip(cache, (W_K, W_V), strict=True)
    )
    place = torch.arange(t + n_new, device=X_new.device)
    seen = place <= place[t:, None]
    heads = []
    for a, ask in enumerate(W_Q.chunk(n_heads, dim=1)):
        source = a // (n_heads // n_kv_heads)
        scores = X_new @ ask @ K[:, source].mT / math.sqrt(ask.shape[1])
        heads.append(_masked_softmax(scores, seen) @ V[:, source])
    return torch.cat(heads, dim=-1) @ W_O, (K, V)
