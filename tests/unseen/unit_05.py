import math

import numpy as np
import torch
import torch.nn.functional as F


# ---------------------------------------------------------------- given, or right parts
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


def _check_groups(n_heads, n_kv_heads):
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads do not divide {n_heads} heads")


# ---------------------------------------------------------------- 5.1 kv_cache_bytes
def kv_cache_bytes__wrong_sixteenth_queries_kept_too (
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Counts queries, keys and values: three tensors, though queries are not kept."""
    per_token = 3 * n_kv_heads * d_head
    return n_layers * per_token * n_tokens * batch * bytes_per_value


def kv_cache_bytes__wrong_sixteenth_one_tensor_for_both (
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Takes the keys to serve as values as well: the 2 is missing."""
    numbers = 1
    for size in (n_layers, n_kv_heads, d_head, n_tokens, batch):
        numbers *= size
    return numbers * bytes_per_value


def kv_cache_bytes__wrong_sixteenth_weights_of_all_pairs (
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Thinks that a cache holds something for each pair of tokens: n_tokens squared."""
    pairs = n_tokens**2
    per_layer = 2 * n_kv_heads * d_head * pairs
    return per_layer * n_layers * batch * bytes_per_value


def kv_cache_bytes__wrong_sixteenth_layers_from_one (
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """The loop over the layers starts at 1, so that one layer is left out."""
    total = 0
    one_layer = 2 * n_kv_heads * d_head * n_tokens * batch
    for _layer in range(1, n_layers):
        total += one_layer * bytes_per_value
    return total


def kv_cache_bytes__wrong_sixteenth_always_two_bytes (
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """The 2 bytes of half precision are written down; bytes_per_value is not used."""
    keys = n_layers * n_kv_heads * d_head * n_tokens * batch
    values = keys
    return 2 * (keys + values)


def kv_cache_bytes__wrong_sixteenth_tokens_of_the_whole_batch (
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Reads n_tokens as the tokens of all sequences together, and leaves out batch."""
    per_token = 2 * n_layers * n_kv_heads * d_head * bytes_per_value
    return per_token * n_tokens


def kv_cache_bytes__wrong_sixteenth_through_a_float (
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Goes through megabytes, a float: whole at the end, but inexact where numbers are large."""
    megabytes = 2 * n_layers * n_kv_heads * d_head * bytes_per_value / 2**20
    return int(round(megabytes * n_tokens * batch * 2**20))


def kv_cache_bytes__wrong_sixteenth_returns_a_float (
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """The right number as a float: 960.0 and not 960."""
    bits = 2 * n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value * 8
    return bits / 8


def kv_cache_bytes__right_sixteenth_array_of_python_ints (
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Right: a NumPy product, of dtype object so that Python's exact integers do the work."""
    factors = np.array([2, n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value], dtype=object)
    return int(np.multiply.reduce(factors))


# ---------------------------------------------------------------- 5.2 repeat_kv
def repeat_kv__wrong_sixteenth_whole_row_again (K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """repeat lays the whole row of heads down again: a, b, a, b in place of a, a, b, b."""
    return K.repeat(1, n_rep, 1, 1)


def repeat_kv__wrong_sixteenth_tokens_repeated (K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Repeats every token and not every head: (B, g, n*n_rep, d)."""
    return torch.repeat_interleave(K, n_rep, dim=-2)


def repeat_kv__wrong_sixteenth_n_rep_taken_as_h (K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Takes n_rep for the number of query heads, and repeats n_rep // g times."""
    g = K.shape[1]
    times = max(n_rep // g, 1)
    return K.repeat_interleave(times, dim=1)


def repeat_kv__wrong_sixteenth_each_token_in_a_row (K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Repeats tokens one by one and then cuts heads: token 0 of a head fills its first copies."""
    B, g, n, d = K.shape
    wide = K.repeat_interleave(n_rep, dim=2)
    return wide.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_sixteenth_index_overwritten (K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Writes to place s + c and not s * n_rep + c: the blocks overwrite one another."""
    B, g, n, d = K.shape
    source = [g - 1] * (g * n_rep)
    for s in range(g):
        for c in range(n_rep):
            source[s + c] = s
    return K[:, source]


def repeat_kv__wrong_sixteenth_five_axes (K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Leaves the copies on an axis of their own: (B, g, n_rep, n, d)."""
    copies = [K for _ in range(n_rep)]
    return torch.stack(copies, dim=2)


def repeat_kv__wrong_sixteenth_strides_of_a_fresh_tensor (K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Walks memory by strides of a contiguous tensor: wrong for K as split_heads leaves it."""
    B, g, n, d = K.shape
    copies = torch.as_strided(K, (B, g, n_rep, n, d), (g * n * d, n * d, 0, d, 1))
    return copies.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_sixteenth_through_numpy (K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Right numbers by np.repeat: the gradient is cut off."""
    wide = np.repeat(K.detach().numpy(), n_rep, axis=1)
    return torch.from_numpy(wide)


def repeat_kv__right_sixteenth_rows_repeated_then_cut (K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Right: lays each head's tokens down n_rep times below one another, then cuts into heads."""
    B, g, n, d = K.shape
    return K.repeat(1, 1, n_rep, 1).reshape(B, g * n_rep, n, d)


# ---------------------------------------------------------------- 5.3 grouped_query_attention
def grouped_query_attention__wrong_sixteenth_heads_take_turns (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Query head a reads key/value head a % g: heads take turns, neighbours do not share."""
    _check_groups(n_heads, n_kv_heads)
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = _split_heads(X @ W_K, n_kv_heads), _split_heads(X @ W_V, n_kv_heads)
    reads = torch.arange(n_heads, device=X.device) % n_kv_heads
    A = _masked_softmax(Q @ K[:, reads].mT / math.sqrt(Q.shape[-1]), mask)
    return _merge_heads(A @ V[:, reads]) @ W_O


def grouped_query_attention__wrong_sixteenth_mean_of_kv_heads (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Every query head reads the mean of all key/value heads, not the head of its group."""
    if n_heads % n_kv_heads != 0:
        raise ValueError("n_kv_heads must divide n_heads")
    d = W_Q.shape[1] // n_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_kv_heads).mean(dim=1, keepdim=True)
    V = _split_heads(X @ W_V, n_kv_heads).mean(dim=1, keepdim=True)
    weights = _masked_softmax(Q @ K.mT / d**0.5, mask)
    return _merge_heads(weights @ V) @ W_O


def grouped_query_attention__wrong_sixteenth_root_of_all_key_columns (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides by the root of g*d_head, the width of all keys together."""
    B, n, _ = X.shape
    _check_groups(n_heads, n_kv_heads)
    r = n_heads // n_kv_heads
    keys = X @ W_K
    Q = (X @ W_Q).view(B, n, n_kv_heads, r, -1)
    K = keys.view(B, n, n_kv_heads, -1)
    V = (X @ W_V).view(B, n, n_kv_heads, -1)
    scores = torch.einsum("bigrd,bjgd->bgrij", Q, K).flatten(1, 2) / math.sqrt(keys.shape[-1])
    A = _masked_softmax(scores, mask).unflatten(1, (n_kv_heads, r))
    return torch.einsum("bgrij,bjgd->bigrd", A, V).flatten(2) @ W_O


def grouped_query_attention__wrong_sixteenth_values_by_repeat (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Keys by repeat_interleave, but values by repeat: a head reads values of another group."""
    _check_groups(n_heads, n_kv_heads)
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_kv_heads).repeat_interleave(r, dim=1)
    V = _split_heads(X @ W_V, n_kv_heads).repeat(1, r, 1, 1)
    scores = Q @ K.transpose(-1, -2) / math.sqrt(Q.size(-1))
    return _merge_heads(_masked_softmax(scores, mask) @ V) @ W_O


def grouped_query_attention__wrong_sixteenth_merged_without_transpose (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The transpose before the gluing is lost: the heads are merged by a reshape alone."""
    _check_groups(n_heads, n_kv_heads)
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    q = _split_heads(X @ W_Q, n_heads)
    k = _repeat_kv(_split_heads(X @ W_K, n_kv_heads), r)
    v = _repeat_kv(_split_heads(X @ W_V, n_kv_heads), r)
    context = _masked_softmax(q @ k.mT / math.sqrt(q.shape[-1]), mask) @ v
    return context.contiguous().view(B, n, -1) @ W_O


def grouped_query_attention__wrong_sixteenth_refuses_odd_d_model (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Also raises a ValueError where h does not divide d_model, which the layer allows."""
    d_model = X.shape[-1]
    if d_model % n_heads != 0 or n_heads % n_kv_heads != 0:
        raise ValueError(f"{n_heads} heads, {n_kv_heads} key/value heads and width {d_model} do not fit")
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (_repeat_kv(_split_heads(X @ W, n_kv_heads), r) for W in (W_K, W_V))
    A = _masked_softmax(Q @ K.mT / math.sqrt(K.shape[-1]), mask)
    return _merge_heads(A @ V) @ W_O


def grouped_query_attention__wrong_sixteenth_last_group_comes_up_short (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """No ValueError where g does not divide h: the last group silently gets fewer heads."""
    per_group = math.ceil(n_heads / n_kv_heads)
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (_split_heads(X @ W, n_kv_heads) for W in (W_K, W_V))
    heads = []
    for a in range(n_heads):
        s = a // per_group
        scores = Q[:, a] @ K[:, s].mT / math.sqrt(Q.shape[-1])
        seen = None
        if mask is not None:
            seen = mask.expand(X.shape[0], n_heads, *scores.shape[1:])[:, a]
        heads.append(_masked_softmax(scores, seen) @ V[:, s])
    return torch.cat(heads, dim=-1) @ W_O


def grouped_query_attention__wrong_sixteenth_by_pytorchs_own (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Right numbers from scaled_dot_product_attention, which is not allowed in an answer."""
    _check_groups(n_heads, n_kv_heads)
    Q = _split_heads(X @ W_Q, n_heads)
    K = _repeat_kv(_split_heads(X @ W_K, n_kv_heads), n_heads // n_kv_heads)
    V = _repeat_kv(_split_heads(X @ W_V, n_kv_heads), n_heads // n_kv_heads)
    heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask)
    return _merge_heads(heads) @ W_O


def grouped_query_attention__right_sixteenth_sum_over_groups (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Right: group after group, each with its columns of the weights and rows of W_O; no merging."""
    _check_groups(n_heads, n_kv_heads)
    B, n, _ = X.shape
    r, d = n_heads // n_kv_heads, W_K.shape[1] // n_kv_heads
    seen = None if mask is None else mask.expand(B, n_heads, n, n).unflatten(1, (n_kv_heads, r))
    out = torch.zeros_like(X)
    parts = zip(W_Q.split(r * d, 1), W_K.split(d, 1), W_V.split(d, 1), W_O.split(r * d, 0))
    for s, (Wq, Wk, Wv, Wo) in enumerate(parts):
        q = torch.einsum("bim,mrd->brid", X, Wq.unflatten(1, (r, d))) / math.sqrt(d)
        A = _masked_softmax(torch.einsum("brid,bjd->brij", q, X @ Wk), None if seen is None else seen[:, s])
        out = out + torch.einsum("brij,bjd,rdm->bim", A, X @ Wv, Wo.unflatten(0, (r, d)))
    return out


# ---------------------------------------------------------------- 5.4 multi_query_attention
def multi_query_attention__wrong_sixteenth_queue_token_by_token (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The queue is made token by token by a reshape alone, and cut as if it were head by head."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d = K.shape[-1]
    rows = (X @ W_Q).reshape(B, n_heads * n, d)
    scores = (rows @ K.mT / math.sqrt(d)).unflatten(1, (n_heads, n))
    A = _masked_softmax(scores, mask).flatten(1, 2)
    return _merge_heads((A @ V).unflatten(1, (n_heads, n))) @ W_O


def multi_query_attention__wrong_sixteenth_one_attention_for_all_heads (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Shares the weights as well: the scores of all heads are averaged before the softmax."""
    K, V = (X @ W_K).unsqueeze(1), (X @ W_V).unsqueeze(1)
    Q = _split_heads(X @ W_Q, n_heads)
    scores = (Q @ K.mT).mean(dim=1, keepdim=True) / math.sqrt(Q.shape[-1])
    scores = scores.expand(-1, n_heads, -1, -1)
    A = _masked_softmax(scores, mask)
    return _merge_heads(A @ V) @ W_O


def multi_query_attention__wrong_sixteenth_root_of_all_query_columns (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides by the root of h*d_head, the width of all queries together."""
    queries = X @ W_Q
    scale = queries.shape[-1] ** -0.5
    Q = queries.unflatten(2, (n_heads, -1))
    scores = torch.einsum("bihd,bjd->bhij", Q, X @ W_K) * scale
    weights = _masked_softmax(scores, mask)
    context = torch.einsum("bhij,bjd->bihd", weights, X @ W_V)
    return context.flatten(2) @ W_O


def multi_query_attention__wrong_sixteenth_mask_queued_in_other_order (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The queue stands head by head, its mask token by token: rows get the mask of another token."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    rows = _split_heads(X @ W_Q, n_heads).flatten(1, 2)
    scores = rows @ K.transpose(1, 2) / math.sqrt(K.shape[-1])
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).transpose(1, 2).flatten(1, 2)
    heads = _masked_softmax(scores, mask) @ V
    return _merge_heads(heads.unflatten(1, (n_heads, n))) @ W_O


def multi_query_attention__wrong_sixteenth_mixes_the_keys (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The wrong variable in the second product: the weights mix keys in place of values."""
    k = (X @ W_K)[:, None]
    v = (X @ W_V)[:, None]
    q = _split_heads(X @ W_Q, n_heads)
    scores = q @ k.mT / math.sqrt(v.shape[-1])
    attention = _masked_softmax(scores, mask)
    return _merge_heads(attention @ k) @ W_O


def multi_query_attention__wrong_sixteenth_width_from_d_model (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the root of d_model // h for the scale, though h*d_head need not be d_model."""
    B, n, d_model = X.shape
    d_head = d_model // n_heads
    K, V = X @ W_K, X @ W_V
    Q = _split_heads(X @ W_Q, n_heads).reshape(B, n_heads * n, -1)
    S = torch.bmm(Q, K.mT).reshape(B, n_heads, n, n) / math.sqrt(max(d_head, 1))
    A = _masked_softmax(S, mask).reshape(B, n_heads * n, n)
    return _merge_heads(torch.bmm(A, V).reshape(B, n_heads, n, -1)) @ W_O


def multi_query_attention__wrong_sixteenth_first_heads_mask_for_all (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """A mask that differs from head to head: all heads get that of head 0."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    seen = None if mask is None else mask.expand(B, n_heads, n, n)[:, 0]
    heads = []
    for W in W_Q.chunk(n_heads, dim=1):
        scores = (X @ W) @ K.mT / math.sqrt(K.shape[-1])
        heads.append(_masked_softmax(scores, seen) @ V)
    return torch.cat(heads, dim=-1) @ W_O


def multi_query_attention__wrong_sixteenth_a_copy_for_each_head (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Right numbers, but keys and values are written down once for each head."""
    Q = _split_heads(X @ W_Q, n_heads)
    K = torch.stack([X @ W_K] * n_heads, dim=1)
    V = torch.stack([X @ W_V] * n_heads, dim=1)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge_heads(A @ V) @ W_O


def multi_query_attention__right_sixteenth_sum_of_single_heads (
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Right: head after head looks at the one K, and what each writes through W_O is added up."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d = K.shape[-1]
    out = torch.zeros_like(X)
    for a in range(n_heads):
        own = slice(a * d, (a + 1) * d)
        scores = (X @ W_Q[:, own] / math.sqrt(d)) @ K.mT
        seen = None if mask is None else mask.expand(B, n_heads, n, n)[:, a]
        out = out + (_masked_softmax(scores, seen) @ V) @ W_O[own]
    return out


# ---------------------------------------------------------------- 5.5 decode_step
def _queue_step(x, K, V, W_Q, W_O, n_heads, n_kv_heads):
    """The output of one token that looks at all of K and V, (B, g, t+1, d_head)."""
    d = K.shape[-1]
    rows = (x @ W_Q).reshape(x.shape[0], n_kv_heads, n_heads // n_kv_heads, d)
    A = torch.softmax(rows @ K.mT / math.sqrt(d), dim=-1)
    return (A @ V).reshape(x.shape[0], 1, n_heads * d) @ W_O


def decode_step__wrong_sixteenth_does_not_see_itself (
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The query looks at the old cache: a token does not see itself (but for the very first)."""
    K_old, V_old = cache
    k, v = (_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V))
    longer = (torch.cat([K_old, k], dim=2), torch.cat([V_old, v], dim=2))
    K, V = longer if K_old.shape[2] == 0 else (K_old, V_old)
    return _queue_step(x, K, V, W_Q, W_O, n_heads, n_kv_heads), longer


def decode_step__wrong_sixteenth_keeps_h_heads (
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Returns the cache with a copy for each query head: h heads are kept where g should be."""
    r = n_heads // n_kv_heads
    K_old, V_old = cache
    if K_old.shape[1] != n_heads:
        K_old, V_old = _repeat_kv(K_old, r), _repeat_kv(V_old, r)
    K = torch.cat([K_old, _repeat_kv(_split_heads(x @ W_K, n_kv_heads), r)], dim=2)
    V = torch.cat([V_old, _repeat_kv(_split_heads(x @ W_V, n_kv_heads), r)], dim=2)
    Q = _split_heads(x @ W_Q, n_heads)
    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    return _merge_heads(A @ V) @ W_O, (K, V)


def decode_step__wrong_sixteenth_causal_mask_for_one_query (
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Puts a causal triangle on the single query, row 0: it sees the oldest token only."""
    r = n_heads // n_kv_heads
    K = torch.cat([cache[0], _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(x @ W_V, n_kv_heads)], dim=2)
    Q = _split_heads(x @ W_Q, n_heads)
    scores = Q @ _repeat_kv(K, r).mT / math.sqrt(Q.shape[-1])
    causal = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).tril()
    A = _masked_softmax(scores, causal)
    return _merge_heads(A @ _repeat_kv(V, r)) @ W_O, (K, V)


def decode_step__wrong_sixteenth_newest_in_front (
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """cat in the wrong order: the new key and value stand in front of the kept ones."""
    K, V = cache
    new_k = (x @ W_K).unflatten(-1, (n_kv_heads, -1)).transpose(1, 2)
    new_v = (x @ W_V).unflatten(-1, (n_kv_heads, -1)).transpose(1, 2)
    K = torch.cat((new_k, K), dim=2)
    V = torch.cat((new_v, V), dim=2)
    out = _queue_step(x, K, V, W_Q, W_O, n_heads, n_kv_heads)
    return out, (K, V)


def decode_step__wrong_sixteenth_queue_cut_r_by_g (
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The queries are cut into (r, g) and turned, not into (g, r): heads read another group."""
    B, r = x.shape[0], n_heads // n_kv_heads
    K = torch.cat([cache[0], _split_heads(x @ W_K, n_kv_heads)], dim=-2)
    V = torch.cat([cache[1], _split_heads(x @ W_V, n_kv_heads)], dim=-2)
    d = K.shape[-1]
    q = (x @ W_Q).view(B, r, n_kv_heads, d).transpose(1, 2)
    A = torch.softmax(torch.einsum("bgrd,bgtd->bgrt", q, K) / math.sqrt(d), dim=-1)
    heads = torch.einsum("bgrt,bgtd->brgd", A, V)
    return heads.reshape(B, 1, n_heads * d) @ W_O, (K, V)


def decode_step__wrong_sixteenth_three_things (
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Returns out, K and V: three things, where the cache should be a tuple of its own."""
    K, V = cache
    K = torch.cat([K, _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V, _split_heads(x @ W_V, n_kv_heads)], dim=2)
    out = _queue_step(x, K, V, W_Q, W_O, n_heads, n_kv_heads)
    return out, K, V


def decode_step__wrong_sixteenth_first_token_gets_zeros (
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """With an empty cache there is said to be nothing to look at: out is 0 for the first token."""
    k, v = _split_heads(x @ W_K, n_kv_heads), _split_heads(x @ W_V, n_kv_heads)
    if cache[0].shape[2] == 0:
        return torch.zeros_like(x), (k, v)
    K, V = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
    return _queue_step(x, K, V, W_Q, W_O, n_heads, n_kv_heads), (K, V)


def decode_step__wrong_sixteenth_kept_without_gradient (
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Right numbers, but what is kept is detached: no gradient reaches W_K and W_V."""
    K = torch.cat([cache[0], _split_heads(x @ W_K, n_kv_heads).detach()], dim=2)
    V = torch.cat([cache[1], _split_heads(x @ W_V, n_kv_heads).detach()], dim=2)
    return _queue_step(x, K, V, W_Q, W_O, n_heads, n_kv_heads), (K, V)


def decode_step__right_sixteenth_old_and_new_apart (
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Right: scores with the kept keys and with the own key apart, joined in one softmax only."""
    (K_old, V_old), B, t = cache, x.shape[0], cache[0].shape[2]
    k, v = (_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V))
    d = k.shape[-1]
    q = (x @ W_Q).reshape(B, n_kv_heads, n_heads // n_kv_heads, d) / math.sqrt(d)
    itself = (q * k).sum(dim=-1, keepdim=True)
    A = torch.softmax(torch.cat([q @ K_old.mT, itself], dim=-1), dim=-1)
    heads = A[..., :t] @ V_old + A[..., t:] * v
    longer = tuple(torch.cat(pair, dim=2) for pair in ((K_old, k), (V_old, v)))
    return heads.reshape(B, 1, n_heads * d) @ W_O, longer


# ---------------------------------------------------------------- 5.6 pool_kv_heads
def pool_kv_heads__wrong_sixteenth_heads_take_turns (W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Pools the heads s, s+g, s+2g, ...: a group is made of every g-th head, not of neighbours."""
    r = n_heads // n_kv_heads
    cut = W.unflatten(1, (r, n_kv_heads, -1))
    return cut.mean(dim=1).flatten(1)


def pool_kv_heads__wrong_sixteenth_sum_of_the_group (W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Adds the heads of a group, and does not take their mean."""
    d = W.shape[1] // n_heads
    r = n_heads // n_kv_heads
    pooled = []
    for s in range(n_kv_heads):
        heads = W[:, s * r * d : (s + 1) * r * d].split(d, dim=1)
        pooled.append(sum(heads))
    return torch.cat(pooled, dim=1)


def pool_kv_heads__wrong_sixteenth_neighbouring_columns (W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Takes the mean of r columns that stand side by side, not of whole heads."""
    r = n_heads // n_kv_heads
    return W.unflatten(1, (-1, r)).mean(dim=-1)


def pool_kv_heads__wrong_sixteenth_running_average (W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Averages step by step, (mean + next) / 2: later heads weigh more once r is over 2."""
    heads = W.chunk(n_heads, dim=1)
    r = n_heads // n_kv_heads
    pooled = []
    for s in range(n_kv_heads):
        mean = heads[s * r]
        for head in heads[s * r + 1 : (s + 1) * r]:
            mean = (mean + head) / 2
        pooled.append(mean)
    return torch.cat(pooled, dim=1)


def pool_kv_heads__wrong_sixteenth_divided_by_g (W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """The sum of a group is divided by g, the number of groups, and not by r."""
    r = n_heads // n_kv_heads
    heads = W.unflatten(1, (n_kv_heads, r, -1))
    return (heads.sum(dim=2) / n_kv_heads).flatten(1)


def pool_kv_heads__wrong_sixteenth_as_wide_as_before (W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Writes the mean back for each head of the group: (d_model, h*d_head), nothing gets smaller."""
    r = n_heads // n_kv_heads
    heads = W.unflatten(1, (n_kv_heads, r, -1))
    means = heads.mean(dim=2, keepdim=True)
    return means.expand_as(heads).flatten(1)


def pool_kv_heads__wrong_sixteenth_one_group_keeps_first_head (W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """With g = 1 the first head is kept as it is; only for more groups the mean is taken."""
    d = W.shape[1] // n_heads
    if n_kv_heads == 1:
        return W[:, :d]
    r = n_heads // n_kv_heads
    return torch.einsum("mgrd->mgd", W.reshape(-1, n_kv_heads, r, d)).div(r).reshape(-1, n_kv_heads * d)


def pool_kv_heads__wrong_sixteenth_adds_into_w (W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Right means, but += works on a view: the first head of each group in W is changed."""
    heads = W.tensor_split(n_heads, dim=1)
    r = n_heads // n_kv_heads
    pooled = []
    for s in range(0, n_heads, r):
        total = heads[s]
        for other in heads[s + 1 : s + r]:
            total += other
        pooled.append(total / r)
    return torch.cat(pooled, dim=1)


def pool_kv_heads__right_sixteenth_a_matrix_of_ones (W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Right: one product with a matrix of zeros and ones that adds up the heads, divided by r."""
    r, d = n_heads // n_kv_heads, W.shape[1] // n_heads
    groups = torch.eye(n_kv_heads, dtype=W.dtype, device=W.device).repeat_interleave(r, dim=0)
    columns = torch.eye(d, dtype=W.dtype, device=W.device)
    return (W / r) @ torch.kron(groups, columns)


# ---------------------------------------------------------------- 5.7 extend_cache
def _longer(X_new, cache, W_K, W_V, g):
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, g)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, g)], dim=2)
    return K, V


def _queued(X_new, K, V, W_Q, W_O, h, g, seen):
    """New queries in queues of g groups, with a mask (n_new, t + n_new) or None."""
    n_new, d, r = X_new.shape[1], K.shape[-1], h // g
    rows = _split_heads(X_new @ W_Q, h).unflatten(1, (g, r)).flatten(2, 3)
    scores = (rows @ K.mT / math.sqrt(d)).unflatten(2, (r, n_new))
    A = _masked_softmax(scores, seen).flatten(2, 3)
    heads = (A @ V).unflatten(2, (r, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O


def extend_cache__wrong_sixteenth_triangle_at_top_left (
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The triangle sits at the top left: new token i sees the columns 0 to i, as if t were 0."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    n_new, total = X_new.shape[1], K.shape[2]
    causal = torch.tril(torch.ones(n_new, total, dtype=torch.bool, device=X_new.device))
    out = _queued(X_new, K, V, W_Q, W_O, n_heads, n_kv_heads, causal)
    return out, (K, V)


def extend_cache__wrong_sixteenth_no_mask_needed (
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Takes no mask, as in decode_step: new tokens see the new ones behind them."""
    B, n_new, _ = X_new.shape
    g, r = n_kv_heads, n_heads // n_kv_heads
    K, V = _longer(X_new, cache, W_K, W_V, g)
    Q = (X_new @ W_Q).unflatten(-1, (g, r, -1))
    scores = torch.einsum("bigrd,bgjd->bgrij", Q, K) / math.sqrt(K.shape[-1])
    A = torch.softmax(scores, dim=-1)
    out = torch.einsum("bgrij,bgjd->bigrd", A, V)
    return out.flatten(2) @ W_O, (K, V)


def extend_cache__wrong_sixteenth_new_tokens_do_not_meet (
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Each new token sees the cache and itself, but none of the new ones before it."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    t, n_new = cache[0].shape[2], X_new.shape[1]
    old = torch.ones(n_new, t, dtype=torch.bool, device=X_new.device)
    itself = torch.eye(n_new, dtype=torch.bool, device=X_new.device)
    seen = torch.cat([old, itself], dim=1)
    return _queued(X_new, K, V, W_Q, W_O, n_heads, n_kv_heads, seen), (K, V)


def extend_cache__wrong_sixteenth_one_column_too_many (
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Off by one: new token i sees the columns 0 to t+i+1, the next token too."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    t, total = cache[0].shape[2], K.shape[2]
    row = torch.arange(X_new.shape[1], device=X_new.device).unsqueeze(1)
    column = torch.arange(total, device=X_new.device)
    seen = column <= t + row + 1
    return _queued(X_new, K, V, W_Q, W_O, n_heads, n_kv_heads, seen), (K, V)


def extend_cache__wrong_sixteenth_mask_of_queue_in_other_order (
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The queue stands head by head, its mask repeats token by token (repeat_interleave for repeat)."""
    B, n_new, _ = X_new.shape
    g, r = n_kv_heads, n_heads // n_kv_heads
    K, V = _longer(X_new, cache, W_K, W_V, g)
    t, d = cache[0].shape[2], K.shape[-1]
    rows = _split_heads(X_new @ W_Q, n_heads).reshape(B, g, r * n_new, d)
    seen = torch.ones(n_new, t + n_new, dtype=torch.bool, device=X_new.device).tril(t)
    A = _masked_softmax(rows @ K.mT / math.sqrt(d), seen.repeat_interleave(r, dim=0))
    heads = (A @ V).reshape(B, n_heads, n_new, d)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_sixteenth_last_token_only (
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Returns the output of the last new token only, (B, 1, d_model), as a step of decoding does."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    newest = X_new[:, -1:]
    out = _queued(newest, K, V, W_Q, W_O, n_heads, n_kv_heads, None)
    return out, (K, V)


def extend_cache__wrong_sixteenth_no_mask_on_an_empty_cache (
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """With an empty cache the mask is left out: the tokens of a prompt see their future."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    t, n_new = cache[0].shape[2], X_new.shape[1]
    seen = None
    if t > 0:
        seen = torch.ones(n_new, t + n_new, dtype=torch.bool, device=X_new.device).tril(diagonal=t)
    return _queued(X_new, K, V, W_Q, W_O, n_heads, n_kv_heads, seen), (K, V)


def extend_cache__wrong_sixteenth_a_copy_for_each_head (
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Right numbers, but repeat_interleave writes the keys and values down for each query head."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    r, n_new, t = n_heads // n_kv_heads, X_new.shape[1], cache[0].shape[2]
    Q = _split_heads(X_new @ W_Q, n_heads)
    scores = Q @ K.repeat_interleave(r, dim=1).mT / math.sqrt(K.shape[-1])
    seen = torch.ones(n_new, t + n_new, dtype=torch.bool, device=X_new.device).tril(t)
    heads = _masked_softmax(scores, seen) @ V.repeat_interleave(r, dim=1)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__right_sixteenth_past_and_present_apart (
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Right: kept and new keys are met apart; only the square of new tokens needs a mask."""
    (K_old, V_old), n_new, g = cache, X_new.shape[1], n_kv_heads
    K_new, V_new = (_split_heads(X_new @ W, g) for W in (W_K, W_V))
    t, d = K_old.shape[2], K_new.shape[-1]
    Q = (X_new @ W_Q).unflatten(-1, (g, n_heads // g, d)) / math.sqrt(d)
    past = torch.einsum("bigrd,bgjd->bgrij", Q, K_old)
    present = torch.einsum("bigrd,bgjd->bgrij", Q, K_new)
    later = torch.ones(n_new, n_new, dtype=torch.bool, device=X_new.device).triu(1)
    present = present.masked_fill(later, -math.inf)
    A = torch.softmax(torch.cat([past, present], dim=-1), dim=-1)
    heads = torch.einsum("bgrij,bgjd->bigrd", A[..., :t], V_old)
    heads = heads + torch.einsum("bgrij,bgjd->bigrd", A[..., t:], V_new)
    longer = torch.cat([K_old, K_new], dim=2), torch.cat([V_old, V_new], dim=2)
    return heads.flatten(2) @ W_O, longer
