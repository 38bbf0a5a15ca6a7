"""Answers to unit 05's functions, written from the notebook alone."""

import functools
import math
import operator

import torch


def _split(X, n_heads):
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge(X):
    return X.transpose(1, 2).flatten(2)


def _softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def _repeat(K, n_rep):
    return K.repeat_interleave(n_rep, dim=1)


def _check(n_heads, n_kv_heads):
    if n_heads % n_kv_heads != 0:
        raise ValueError(f"{n_kv_heads} key/value heads do not divide {n_heads} query heads")


# ---------------------------------------------------------------- kv_cache_bytes


def kv_cache_bytes__wrong_keys_only(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """The factor 2 for keys and values is missing: only one of the two is counted."""
    return n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value


def kv_cache_bytes__wrong_default_float32(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=4):
    """The default is 4 bytes for a number, float32, instead of the 2 of half precision."""
    return 2 * n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value


def kv_cache_bytes__wrong_one_layer(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Only a single layer is counted; the number of layers is left out."""
    per_token = 2 * n_kv_heads * d_head * bytes_per_value
    return per_token * n_tokens * batch


def kv_cache_bytes__wrong_by_bits(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """The size is worked out in bits and divided by 8 with `/`, so a float comes back and not an exact int."""
    bits_per_token = 2 * n_layers * n_kv_heads * d_head * bytes_per_value * 8
    return bits_per_token * n_tokens * batch / 8


def kv_cache_bytes__wrong_all_steps_added(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """The caches of all steps, with 1, 2, … n tokens, are added up, as if each step kept a cache of its own."""
    kept = n_tokens * (n_tokens + 1) // 2
    return 2 * n_layers * n_kv_heads * d_head * kept * batch * bytes_per_value


def kv_cache_bytes__wrong_queries_too_and_no_batch(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Two slips: queries are counted as kept, a factor 3, and the number of sequences is left out."""
    return 3 * n_layers * n_kv_heads * d_head * n_tokens * bytes_per_value


def kv_cache_bytes__right_reduce(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Unusual: functools.reduce multiplies a list of factors."""
    factors = [n_tokens, batch, n_layers, n_kv_heads, d_head, bytes_per_value, 2]
    return functools.reduce(operator.mul, factors)


def kv_cache_bytes__right_added_layer_by_layer(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Unusual: the bytes of keys and of values are added, layer after layer."""
    total = 0
    for _ in range(n_layers):
        keys = batch * n_kv_heads * n_tokens * d_head * bytes_per_value
        values = keys
        total += keys + values
    return total


# ---------------------------------------------------------------- repeat_kv


def repeat_kv__wrong_row_again_and_again(K, n_rep):
    """`repeat` lays the whole row of heads down again and again: a, b, a, b and not a, a, b, b."""
    return K.repeat(1, n_rep, 1, 1)


def repeat_kv__wrong_along_tokens(K, n_rep):
    """The tokens are repeated, axis 2, and not the heads."""
    return K.repeat_interleave(n_rep, dim=2)


def repeat_kv__wrong_total_heads(K, n_rep):
    """n_rep is taken for the number of query heads, so that each head is laid out n_rep // g times."""
    return K.repeat_interleave(n_rep // K.shape[1], dim=1)


def repeat_kv__wrong_new_axis_behind_tokens(K, n_rep):
    """The new axis is put behind the tokens and not the heads, so that the reshape mixes tokens and copies."""
    B, g, n, d = K.shape
    return K[:, :, :, None, :].expand(B, g, n, n_rep, d).reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_single_head_only(K, n_rep):
    """`expand` stretches the head axis, which works only where there is a single key/value head."""
    B, g, n, d = K.shape
    return K.expand(B, g * n_rep, n, d)


def repeat_kv__wrong_tiled_and_detached(K, n_rep):
    """Two slips: the heads are laid out in turn (a, b, a, b), and the copies are cut off from the gradient."""
    return torch.cat([K.detach()] * n_rep, dim=1)


def repeat_kv__right_list_of_heads(K, n_rep):
    """Unusual: the head axis is indexed with a list, a // n_rep for each output head a."""
    return K[:, [a // n_rep for a in range(K.shape[1] * n_rep)]]


def repeat_kv__right_stack_behind_heads(K, n_rep):
    """Unusual: n_rep references to K are stacked on a new axis behind the heads, and the two axes glued."""
    return torch.stack([K] * n_rep, dim=2).flatten(1, 2)


# ---------------------------------------------------------------- grouped_query_attention


def grouped_query_attention__wrong_groups_in_turn(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Query head a reads key/value head a % g, in turn, because the heads are laid out with `repeat`."""
    _check(n_heads, n_kv_heads)
    Q, K, V = _split(X @ W_Q, n_heads), _split(X @ W_K, n_kv_heads), _split(X @ W_V, n_kv_heads)
    n_rep = n_heads // n_kv_heads
    K, V = K.repeat(1, n_rep, 1, 1), V.repeat(1, n_rep, 1, 1)
    weights = _softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge(weights @ V) @ W_O


def grouped_query_attention__wrong_scale_from_d_model(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """The scores are divided by the root of d_model / h, which is d_head only where h*d_head is d_model."""
    if n_heads % n_kv_heads:
        raise ValueError("n_kv_heads must divide n_heads")
    r = n_heads // n_kv_heads
    Q = _split(X @ W_Q, n_heads)
    K = _repeat(_split(X @ W_K, n_kv_heads), r)
    V = _repeat(_split(X @ W_V, n_kv_heads), r)
    d_head = X.shape[-1] / n_heads
    return _merge(_softmax(Q @ K.mT / math.sqrt(d_head), mask) @ V) @ W_O


def grouped_query_attention__wrong_width_checked(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """It is checked whether g divides the columns of W_Q and not h, so a g that does not fit gives no ValueError."""
    if W_Q.shape[1] % n_kv_heads != 0:
        raise ValueError(f"{n_kv_heads} does not divide {W_Q.shape[1]}")
    r = n_heads // n_kv_heads
    Q = _split(X @ W_Q, n_heads)
    K = _repeat(_split(X @ W_K, n_kv_heads), r)
    V = _repeat(_split(X @ W_V, n_kv_heads), r)
    return _merge(_softmax(Q @ K.mT / Q.shape[-1] ** 0.5, mask) @ V) @ W_O


def grouped_query_attention__wrong_mask_of_first_head(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """All query heads of a group get the mask of the group's first head."""
    _check(n_heads, n_kv_heads)
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    Q = _split(X @ W_Q, n_heads).unflatten(1, (n_kv_heads, r))
    K, V = _split(X @ W_K, n_kv_heads)[:, :, None], _split(X @ W_V, n_kv_heads)[:, :, None]
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)[:, ::r, None]
    heads = (_softmax(scores, mask) @ V).flatten(1, 2)
    return _merge(heads) @ W_O


def grouped_query_attention__wrong_filled_with_tiny_number(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Forbidden scores are filled with 1e-9, next to nothing, instead of a very low number, and keep a weight."""
    _check(n_heads, n_kv_heads)
    r = n_heads // n_kv_heads
    Q = _split(X @ W_Q, n_heads)
    K = _repeat(_split(X @ W_K, n_kv_heads), r)
    V = _repeat(_split(X @ W_V, n_kv_heads), r)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, 1e-9)
    return _merge(torch.softmax(scores, dim=-1) @ V) @ W_O


def grouped_query_attention__wrong_query_axis_and_glue(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Two slips: the softmax runs over the queries, and the heads are glued by a reshape without a transpose."""
    _check(n_heads, n_kv_heads)
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    Q = _split(X @ W_Q, n_heads)
    K = _repeat(_split(X @ W_K, n_kv_heads), r)
    V = _repeat(_split(X @ W_V, n_kv_heads), r)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-2)
    if mask is not None:
        weights = weights * mask
    return (weights @ V).reshape(B, n, -1) @ W_O


def grouped_query_attention__right_head_after_head(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Unusual: a loop over the query heads works on blocks of columns and sums what each head writes."""
    _check(n_heads, n_kv_heads)
    B, n, _ = X.shape
    d, r = W_Q.shape[1] // n_heads, n_heads // n_kv_heads
    allowed = None if mask is None else mask.expand(B, n_heads, n, n)
    out = X.new_zeros(B, n, W_O.shape[1])
    for a in range(n_heads):
        own, shared = slice(a * d, (a + 1) * d), slice(a // r * d, (a // r + 1) * d)
        scores = (X @ W_Q[:, own]) @ (X @ W_K[:, shared]).mT / d**0.5
        weights = _softmax(scores, None if allowed is None else allowed[:, a])
        out = out + weights @ (X @ W_V[:, shared]) @ W_O[own]
    return out


def grouped_query_attention__right_einsum_groups(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Unusual: axes for group and member of a group, and einsum for every product, without copies."""
    r, left = divmod(n_heads, n_kv_heads)
    if left:
        raise ValueError(f"{n_heads} query heads cannot share {n_kv_heads} key/value heads evenly")
    B, n, _ = X.shape
    Q = (X @ W_Q).unflatten(-1, (n_kv_heads, r, -1))
    K, V = ((X @ W).unflatten(-1, (n_kv_heads, -1)) for W in (W_K, W_V))
    scores = torch.einsum("bigrd,bjgd->bgrij", Q, K) / math.sqrt(Q.shape[-1])
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).unflatten(1, (n_kv_heads, r))
    heads = torch.einsum("bgrij,bjgd->bigrd", _softmax(scores, mask), V)
    return heads.flatten(2) @ W_O


# ---------------------------------------------------------------- multi_query_attention


def multi_query_attention__wrong_copied_for_each_head(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Keys and values are copied once per head with `repeat`, which the contract forbids; the numbers are right."""
    Q = _split(X @ W_Q, n_heads)
    K = (X @ W_K)[:, None].repeat(1, n_heads, 1, 1)
    V = (X @ W_V)[:, None].repeat(1, n_heads, 1, 1)
    return _merge(_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask) @ V) @ W_O


def multi_query_attention__wrong_scaled_by_all_queries(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The scores are divided by the root of h*d_head, all columns of W_Q, and not of d_head."""
    n = X.shape[1]
    Q, K, V = _split(X @ W_Q, n_heads), X @ W_K, X @ W_V
    scores = (Q.flatten(1, 2) @ K.mT).unflatten(1, (n_heads, n)) / math.sqrt(W_Q.shape[1])
    heads = (_softmax(scores, mask).flatten(1, 2) @ V).unflatten(1, (n_heads, n))
    return _merge(heads) @ W_O


def multi_query_attention__wrong_queue_by_reshape(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The queue is a reshape of X W_Q, so it stands token by token, but it is read as head by head."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d_head = K.shape[-1]
    queue = (X @ W_Q).reshape(B, n_heads * n, d_head)
    scores = (queue @ K.mT).reshape(B, n_heads, n, n) / math.sqrt(d_head)
    weights = _softmax(scores, mask).reshape(B, n_heads * n, n)
    return _merge((weights @ V).reshape(B, n_heads, n, d_head)) @ W_O


def multi_query_attention__wrong_no_axis_for_heads(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Keys and values (B, n, d_head) get no axis for the heads, so their sequences are paired with the heads of Q."""
    Q, K, V = _split(X @ W_Q, n_heads), X @ W_K, X @ W_V
    weights = _softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge(weights @ V) @ W_O


def multi_query_attention__wrong_mask_of_first_sequence(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Of a mask with four axes the part of the first sequence and first head is used for everything."""
    Q, K, V = _split(X @ W_Q, n_heads), (X @ W_K)[:, None], (X @ W_V)[:, None]
    if mask is not None and mask.dim() == 4:
        mask = mask[0, 0]
    weights = _softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge(weights @ V) @ W_O


def multi_query_attention__wrong_keys_as_values_unscaled(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Two slips: the one shared head serves as keys and as values, W_V is not used, and nothing is divided."""
    Q = _split(X @ W_Q, n_heads)
    shared = (X @ W_K).unsqueeze(1)
    weights = _softmax(Q @ shared.mT, mask)
    return _merge(weights @ shared) @ W_O


def multi_query_attention__right_queue_by_tokens(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Unusual: the queue stands token by token, (B, n*h, d_head), and the mask is turned to fit it."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d = K.shape[-1]
    queue = (X @ W_Q).reshape(B, n * n_heads, d)
    scores = torch.bmm(queue, K.transpose(1, 2)) / math.sqrt(d)
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).transpose(1, 2).reshape(B, n * n_heads, n)
    return torch.bmm(_softmax(scores, mask), V).reshape(B, n, n_heads * d) @ W_O


def multi_query_attention__right_one_head_at_a_time(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Unusual: a loop over the query heads; each meets the same keys and values, and the shares are summed."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    out = 0
    for r, (W_q, W_o) in enumerate(zip(W_Q.chunk(n_heads, dim=1), W_O.chunk(n_heads, dim=0), strict=True)):
        allowed = None if mask is None else mask.expand(B, n_heads, n, n)[:, r]
        scores = torch.einsum("bid,bjd->bij", X @ W_q, K) * K.shape[-1] ** -0.5
        out = out + _softmax(scores, allowed) @ V @ W_o
    return out


# ---------------------------------------------------------------- decode_step


def decode_step__wrong_looks_before_it_grows(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The query looks at the kept keys only, and the cache grows afterwards, so the token does not see itself."""
    K, V = cache
    B, r = x.shape[0], n_heads // n_kv_heads
    Q = _split(x @ W_Q, n_heads).reshape(B, n_kv_heads, r, -1)
    weights = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    out = (weights @ V).reshape(B, 1, -1) @ W_O
    K = torch.cat([K, _split(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V, _split(x @ W_V, n_kv_heads)], dim=2)
    return out, (K, V)


def decode_step__wrong_new_token_in_front(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The new key and value are put in front of the kept ones, so the returned cache begins with the newest."""
    K = torch.cat([_split(x @ W_K, n_kv_heads), cache[0]], dim=2)
    V = torch.cat([_split(x @ W_V, n_kv_heads), cache[1]], dim=2)
    Q = _split(x @ W_Q, n_heads)
    r = n_heads // n_kv_heads
    weights = torch.softmax(Q @ _repeat(K, r).mT / math.sqrt(Q.shape[-1]), dim=-1)
    return _merge(weights @ _repeat(V, r)) @ W_O, (K, V)


def decode_step__wrong_cache_for_every_head(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """What comes back as the cache are the keys and values laid out for all h query heads, not g heads."""
    K = torch.cat([cache[0], _split(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split(x @ W_V, n_kv_heads)], dim=2)
    Q = _split(x @ W_Q, n_heads)
    K, V = _repeat(K, n_heads // n_kv_heads), _repeat(V, n_heads // n_kv_heads)
    weights = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    return _merge(weights @ V) @ W_O, (K, V)


def decode_step__wrong_heads_grouped_in_turn(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The queries are cut to (r, g) and not (g, r), so query head a reads key/value head a % g."""
    B, r = x.shape[0], n_heads // n_kv_heads
    K = torch.cat([cache[0], _split(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split(x @ W_V, n_kv_heads)], dim=2)
    Q = (x @ W_Q).reshape(B, r, n_kv_heads, -1).transpose(1, 2)
    weights = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    return (weights @ V).transpose(1, 2).reshape(B, 1, -1) @ W_O, (K, V)


def decode_step__wrong_triangle_over_one_row(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """A causal triangle is laid over the single row of scores, whose row 0 then sees the oldest key alone."""
    K = torch.cat([cache[0], _split(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split(x @ W_V, n_kv_heads)], dim=2)
    Q = _split(x @ W_Q, n_heads)
    r = n_heads // n_kv_heads
    scores = Q @ _repeat(K, r).mT / math.sqrt(Q.shape[-1])
    causal = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return _merge(_softmax(scores, causal) @ _repeat(V, r)) @ W_O, (K, V)


def decode_step__wrong_unscaled_and_cache_swapped(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Two slips: the scores are not divided by the root of d_head, and the cache comes back as (V, K)."""
    B, r = x.shape[0], n_heads // n_kv_heads
    K = torch.cat([cache[0], _split(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split(x @ W_V, n_kv_heads)], dim=2)
    Q = (x @ W_Q).reshape(B, n_kv_heads, r, -1)
    out = (torch.softmax(Q @ K.mT, dim=-1) @ V).reshape(B, 1, -1) @ W_O
    return out, (V, K)


def decode_step__right_head_after_head(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Unusual: a loop over the query heads, each as a weighted sum over the tokens of its key/value head."""
    d, r = W_Q.shape[1] // n_heads, n_heads // n_kv_heads
    new_K, new_V = ((x @ W).unflatten(-1, (n_kv_heads, d)).movedim(2, 1) for W in (W_K, W_V))
    K, V = torch.cat((cache[0], new_K), dim=-2), torch.cat((cache[1], new_V), dim=-2)
    found = []
    for a in range(n_heads):
        q = x @ W_Q[:, a * d : (a + 1) * d]
        scores = (q * K[:, a // r]).sum(dim=-1) / d**0.5
        weights = torch.softmax(scores, dim=-1)
        found.append((weights[..., None] * V[:, a // r]).sum(dim=1, keepdim=True))
    return torch.cat(found, dim=-1) @ W_O, (K, V)


def decode_step__right_room_and_einsum(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Unusual: room for t + 1 tokens is made and filled by slices, and einsum does the products."""
    B, g, t, d = cache[0].shape
    grown = []
    for kept, W in zip(cache, (W_K, W_V), strict=True):
        room = kept.new_zeros(B, g, t + 1, d)
        room[:, :, :t] = kept
        room[:, :, t] = (x @ W).reshape(B, g, d)
        grown.append(room)
    K, V = grown
    Q = (x @ W_Q).reshape(B, g, n_heads // n_kv_heads, d)
    weights = torch.softmax(torch.einsum("bgrd,bgtd->bgrt", Q, K) / math.sqrt(d), dim=-1)
    heads = torch.einsum("bgrt,bgtd->bgrd", weights, V)
    return heads.reshape(B, 1, n_heads * d) @ W_O, (K, V)


# ---------------------------------------------------------------- pool_kv_heads


def pool_kv_heads__wrong_sum(W, n_heads, n_kv_heads):
    """The heads of a group are added up and not divided by their number."""
    return W.unflatten(1, (n_kv_heads, n_heads // n_kv_heads, -1)).sum(dim=2).flatten(1)


def pool_kv_heads__wrong_heads_far_apart(W, n_heads, n_kv_heads):
    """A group is made of the heads a, a + g, a + 2g, … and not of neighbours."""
    return W.unflatten(1, (n_heads // n_kv_heads, n_kv_heads, -1)).mean(dim=1).flatten(1)


def pool_kv_heads__wrong_columns_within_head(W, n_heads, n_kv_heads):
    """The last of the three axes is averaged, neighbouring columns, as if the member of the group ran fastest."""
    n_rep = n_heads // n_kv_heads
    d_head = W.shape[1] // n_heads
    return W.reshape(W.shape[0], n_kv_heads, d_head, n_rep).mean(dim=-1).flatten(1)


def pool_kv_heads__wrong_pairs_only(W, n_heads, n_kv_heads):
    """Always two neighbouring heads are averaged, as in the example, which is right only for h = 2g."""
    heads = W.unflatten(1, (n_heads, -1))
    return ((heads[:, 0::2] + heads[:, 1::2]) / 2).flatten(1)


def pool_kv_heads__wrong_g_as_group_size(W, n_heads, n_kv_heads):
    """g is taken for the size of a group, so that h / g heads come out and not g."""
    d_head = W.shape[1] // n_heads
    groups = W.reshape(W.shape[0], n_heads // n_kv_heads, n_kv_heads, d_head)
    return groups.mean(dim=2).reshape(W.shape[0], -1)


def pool_kv_heads__wrong_divided_by_h_far_apart(W, n_heads, n_kv_heads):
    """Two slips: the heads a, a + g, … are put together and not neighbours, and the sum is divided by h."""
    heads = W.unflatten(1, (n_heads, -1))
    pooled = [heads[:, a::n_kv_heads].sum(dim=1) / n_heads for a in range(n_kv_heads)]
    return torch.cat(pooled, dim=1)


def pool_kv_heads__right_loop_over_blocks(W, n_heads, n_kv_heads):
    """Unusual: the blocks of columns are cut, added up group by group in a loop, divided and concatenated."""
    blocks = W.chunk(n_heads, dim=1)
    r = n_heads // n_kv_heads
    return torch.cat([sum(blocks[a * r : (a + 1) * r]) / r for a in range(n_kv_heads)], dim=1)


def pool_kv_heads__right_pooling_matrix(W, n_heads, n_kv_heads):
    """Unusual: one product with a (h*d_head, g*d_head) matrix, made with Kronecker products, takes the means."""
    r, d = n_heads // n_kv_heads, W.shape[1] // n_heads
    one = {"dtype": W.dtype}
    mean = torch.kron(torch.eye(n_kv_heads, **one), torch.full((r, 1), 1 / r, **one))
    return W @ torch.kron(mean, torch.eye(d, **one))


# ---------------------------------------------------------------- extend_cache


def _grown(X_new, cache, W_K, W_V, g):
    K = torch.cat([cache[0], _split(X_new @ W_K, g)], dim=2)
    V = torch.cat([cache[1], _split(X_new @ W_V, g)], dim=2)
    return K, V


def extend_cache__wrong_triangle_top_left(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The causal triangle sits at the top left: new token i sees the keys 0 … i, as if nothing were in the cache."""
    K, V = _grown(X_new, cache, W_K, W_V, n_kv_heads)
    n, r = X_new.shape[1], n_heads // n_kv_heads
    Q = _split(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    mask = torch.ones(n, K.shape[2], dtype=torch.bool).tril().repeat(r, 1)
    heads = (_softmax(scores, mask) @ V).unflatten(2, (r, n)).flatten(1, 2)
    return _merge(heads) @ W_O, (K, V)


def extend_cache__wrong_no_mask(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """There is no mask, as in a step with one token, so new tokens see the new ones behind them."""
    K, V = _grown(X_new, cache, W_K, W_V, n_kv_heads)
    n, r = X_new.shape[1], n_heads // n_kv_heads
    Q = _split(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    weights = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    heads = (weights @ V).unflatten(2, (r, n)).flatten(1, 2)
    return _merge(heads) @ W_O, (K, V)


def extend_cache__wrong_mask_not_in_queue_order(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Each row of the mask is repeated r times in a row, but the queue holds all tokens of a head, then the next."""
    K, V = _grown(X_new, cache, W_K, W_V, n_kv_heads)
    n, t, r = X_new.shape[1], cache[0].shape[2], n_heads // n_kv_heads
    Q = _split(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    mask = torch.ones(n, t + n, dtype=torch.bool).tril(t).repeat_interleave(r, dim=0)
    heads = (_softmax(scores, mask) @ V).unflatten(2, (r, n)).flatten(1, 2)
    return _merge(heads) @ W_O, (K, V)


def extend_cache__wrong_copy_for_each_head(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Keys and values are laid out for every query head, larger than the contract allows; the numbers are right."""
    K, V = _grown(X_new, cache, W_K, W_V, n_kv_heads)
    n, t, r = X_new.shape[1], cache[0].shape[2], n_heads // n_kv_heads
    Q = _split(X_new @ W_Q, n_heads)
    scores = Q @ _repeat(K, r).mT / math.sqrt(Q.shape[-1])
    mask = torch.ones(n, t + n, dtype=torch.bool).tril(t)
    return _merge(_softmax(scores, mask) @ _repeat(V, r)) @ W_O, (K, V)


def extend_cache__wrong_sees_one_ahead(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The triangle's diagonal is t + 1 and not t, so that every new token sees the one behind it."""
    K, V = _grown(X_new, cache, W_K, W_V, n_kv_heads)
    n, t, r = X_new.shape[1], cache[0].shape[2], n_heads // n_kv_heads
    Q = _split(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    mask = torch.tril(torch.ones(n, t + n, dtype=torch.bool), diagonal=t + 1).repeat(r, 1)
    heads = (_softmax(scores, mask) @ V).unflatten(2, (r, n)).flatten(1, 2)
    return _merge(heads) @ W_O, (K, V)


def extend_cache__wrong_groups_in_turn_unscaled(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Two slips: query head a reads key/value head a % g, and the scores are not divided by the root of d_head."""
    K, V = _grown(X_new, cache, W_K, W_V, n_kv_heads)
    B, n, _ = X_new.shape
    t, r = cache[0].shape[2], n_heads // n_kv_heads
    Q = (X_new @ W_Q).reshape(B, n, r, n_kv_heads, -1).permute(0, 3, 2, 1, 4).flatten(2, 3)
    mask = torch.ones(n, t + n, dtype=torch.bool).tril(t).repeat(r, 1)
    heads = _softmax(Q @ K.mT, mask) @ V
    heads = heads.unflatten(2, (r, n)).permute(0, 3, 2, 1, 4)
    return heads.reshape(B, n, -1) @ W_O, (K, V)


def extend_cache__right_slices_without_mask(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Unusual: no mask at all; a loop over the new tokens cuts the keys behind each of them off."""
    B, n, _ = X_new.shape
    t, r = cache[0].shape[2], n_heads // n_kv_heads
    K, V = _grown(X_new, cache, W_K, W_V, n_kv_heads)
    Q = (X_new @ W_Q).reshape(B, n, n_kv_heads, r, -1) / math.sqrt(K.shape[-1])
    rows = []
    for i in range(n):
        seen = slice(0, t + i + 1)
        weights = torch.softmax(Q[:, i] @ K[:, :, seen].transpose(2, 3), dim=-1)
        rows.append((weights @ V[:, :, seen]).flatten(1))
    return torch.stack(rows, dim=1) @ W_O, (K, V)


def extend_cache__right_old_and_new_apart(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Unusual: scores with kept and with new keys are computed apart, by group in a loop, and share one softmax."""
    n, r = X_new.shape[1], n_heads // n_kv_heads
    d = W_Q.shape[1] // n_heads
    new = [(X_new @ W).unflatten(-1, (n_kv_heads, d)).permute(0, 2, 1, 3) for W in (W_K, W_V)]
    place = torch.arange(n).repeat(r)
    future = torch.arange(n)[None, :] > place[:, None]
    out = 0
    for a in range(n_kv_heads):
        block = slice(a * r * d, (a + 1) * r * d)
        queue = (X_new @ W_Q[:, block]).unflatten(-1, (r, d)).transpose(1, 2).flatten(1, 2)
        old_scores = queue @ cache[0][:, a].mT
        new_scores = (queue @ new[0][:, a].mT).masked_fill(future, -torch.inf)
        weights = torch.softmax(torch.cat([old_scores, new_scores], dim=-1) / d**0.5, dim=-1)
        old, own = weights.split([old_scores.shape[-1], n], dim=-1)
        heads = (old @ cache[1][:, a] + own @ new[1][:, a]).unflatten(1, (r, n))
        out = out + heads.transpose(1, 2).flatten(2) @ W_O[block]
    K, V = (torch.cat([kept, more], dim=2) for kept, more in zip(cache, new, strict=True))
    return out, (K, V)
