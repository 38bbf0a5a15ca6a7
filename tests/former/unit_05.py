"""Answers to unit 05's functions, written from the notebook alone."""

import math

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


# kv_cache_bytes


def kv_cache_bytes__wrong_sum_over_steps(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Adds up the sizes that the cache has after each token, 1 + 2 + … + n_tokens, instead of taking its last size."""
    written = 0
    for kept in range(1, n_tokens + 1):
        written += kept
    return 2 * n_layers * n_kv_heads * d_head * written * batch * bytes_per_value


def kv_cache_bytes__wrong_always_half_precision(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Writes 2 bytes for each number into the formula and takes no notice of bytes_per_value."""
    numbers = 2 * n_layers * n_kv_heads * d_head * n_tokens * batch
    return numbers * 2


def kv_cache_bytes__wrong_width_of_all_heads(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Takes d_head for the width of all key/value heads together, so that n_kv_heads cancels out."""
    per_head = d_head / n_kv_heads
    per_token = 2 * n_layers * n_kv_heads * per_head * bytes_per_value
    return round(per_token) * n_tokens * batch


def kv_cache_bytes__wrong_one_layer(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Counts a single layer, as if one layer after the other used the same room."""
    keys = batch * n_kv_heads * n_tokens * d_head
    values = batch * n_kv_heads * n_tokens * d_head
    return (keys + values) * bytes_per_value


def kv_cache_bytes__wrong_keys_of_the_past(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Leaves out the values (the factor 2 is missing), and does not count the newest token."""
    past = max(n_tokens - 1, 0)
    return n_layers * n_kv_heads * d_head * past * batch * bytes_per_value


def kv_cache_bytes__right_layer_by_layer(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Adds up the layers one by one, each with the product of the shape of its keys and of its values."""
    total = 0
    for _ in range(n_layers):
        for _kept in ("keys", "values"):
            total += math.prod((batch, n_kv_heads, n_tokens, d_head)) * bytes_per_value
    return total


# repeat_kv


def repeat_kv__wrong_copies_side_by_side(K, n_rep):
    """Puts the copies side by side along the features and then reshapes, which cuts the rows of a head apart."""
    B, g, n, d = K.shape
    side_by_side = torch.cat([K] * n_rep, dim=-1)
    return side_by_side.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_n_rep_as_n_heads(K, n_rep):
    """Takes n_rep for the number of query heads, and repeats each head n_rep // g times."""
    g = K.shape[1]
    return K.repeat_interleave(n_rep // g, dim=1)


def repeat_kv__wrong_room_of_default_dtype(K, n_rep):
    """Fills a tensor that torch.zeros made in the default dtype, so that float64 becomes float32."""
    B, g, n, d = K.shape
    out = torch.zeros(B, g * n_rep, n, d)
    for a in range(g * n_rep):
        out[:, a] = K[:, a // n_rep]
    return out


def repeat_kv__wrong_first_head_for_all(K, n_rep):
    """Gives every query head the key/value head 0, as if there were only one."""
    B, g, n, d = K.shape
    return K[:, 0].unsqueeze(1).expand(B, g * n_rep, n, d).clone()


def repeat_kv__wrong_shared_out_in_turn(K, n_rep):
    """Lays the whole row of heads down again and again, and divides each copy by n_rep."""
    return torch.cat([K / n_rep for _ in range(n_rep)], dim=1)


def repeat_kv__right_by_index(K, n_rep):
    """Picks the heads with a list of numbers in place of a call that repeats."""
    source = [a // n_rep for a in range(K.shape[1] * n_rep)]
    return K[:, source]


# grouped_query_attention


def grouped_query_attention__wrong_mean_of_queries(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Averages the queries of a group into one, so that all heads of the group get the same weights."""
    if n_heads % n_kv_heads != 0:
        raise ValueError("n_kv_heads must divide n_heads")
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).mean(2)
    Q = Q.repeat_interleave(r, dim=1)
    K = _split_heads(X @ W_K, n_kv_heads).repeat_interleave(r, dim=1)
    V = _split_heads(X @ W_V, n_kv_heads).repeat_interleave(r, dim=1)
    A = _masked_softmax(Q @ K.mT / Q.shape[-1] ** 0.5, mask)
    return _merge_heads(A @ V) @ W_O


def grouped_query_attention__wrong_width_of_narrow_keys(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Works d_head for the scale out as W_K.shape[1] // n_heads, though W_K has only n_kv_heads heads."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads do not divide {n_heads} heads")
    r = n_heads // n_kv_heads
    d_head = W_K.shape[1] / n_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_kv_heads).repeat_interleave(r, dim=1)
    V = _split_heads(X @ W_V, n_kv_heads).repeat_interleave(r, dim=1)
    scores = Q @ K.mT / math.sqrt(d_head)
    return _merge_heads(_masked_softmax(scores, mask) @ V) @ W_O


def grouped_query_attention__wrong_tiny_not_low(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Fills the forbidden scores with 1e-9, a number near 0, in place of a very low one."""
    if n_heads % n_kv_heads != 0:
        raise ValueError("g does not divide h")
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_kv_heads).repeat_interleave(r, dim=1)
    V = _split_heads(X @ W_V, n_kv_heads).repeat_interleave(r, dim=1)
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, 1e-9)
    return _merge_heads(torch.softmax(scores, dim=-1) @ V) @ W_O


def grouped_query_attention__wrong_way_out_of_queue(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Stands the queries in a queue head after head, but cuts the mixed values up as if it went token after token."""
    if n_heads % n_kv_heads != 0:
        raise ValueError("n_kv_heads must divide n_heads")
    n, r = X.shape[1], n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = _split_heads(X @ W_K, n_kv_heads), _split_heads(X @ W_V, n_kv_heads)
    queue = Q.unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    scores = (queue @ K.mT / Q.shape[-1] ** 0.5).unflatten(2, (r, n)).flatten(1, 2)
    A = _masked_softmax(scores, mask)
    mixed = A.unflatten(1, (n_kv_heads, r)).flatten(2, 3) @ V
    tokens = mixed.unflatten(2, (n, r)).permute(0, 2, 1, 3, 4)
    return tokens.flatten(2) @ W_O


def grouped_query_attention__wrong_columns_and_turns(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Runs the softmax over the queries in place of the keys, and lays the values out in turn, not as neighbours."""
    if n_heads % n_kv_heads != 0:
        raise ValueError("n_kv_heads must divide n_heads")
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_kv_heads).repeat_interleave(r, dim=1)
    V = _split_heads(X @ W_V, n_kv_heads).repeat(1, r, 1, 1)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return _merge_heads(torch.softmax(scores, dim=-2) @ V) @ W_O


def grouped_query_attention__right_five_axes(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Keeps groups and the heads in them as two axes in einsum from first to last, W_O included."""
    r, left = divmod(n_heads, n_kv_heads)
    if left:
        raise ValueError(f"{n_kv_heads} key/value heads cannot serve {n_heads} query heads evenly")
    B, n, _ = X.shape
    W_Q, W_K, W_V = (
        W.unflatten(1, parts)
        for W, parts in ((W_Q, (n_kv_heads, r, -1)), (W_K, (n_kv_heads, -1)), (W_V, (n_kv_heads, -1)))
    )
    Q = torch.einsum("bnc,cgrd->bgrnd", X, W_Q)
    K, V = (torch.einsum("bnc,cgd->bgnd", X, W) for W in (W_K, W_V))
    scores = torch.einsum("bgrid,bgjd->bgrij", Q, K) / Q.shape[-1] ** 0.5
    if mask is not None:
        allowed = mask.broadcast_to(B, n_heads, n, n).unflatten(1, (n_kv_heads, r))
        scores = torch.where(allowed, scores, torch.full_like(scores, -torch.inf))
    A = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))
    heads = torch.einsum("bgrij,bgjd->bgrid", A, V)
    return torch.einsum("bgrid,grdc->bic", heads, W_O.unflatten(0, (n_kv_heads, r, -1)))


# multi_query_attention


def multi_query_attention__wrong_expanded_for_bmm(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Expands keys and values to all heads and reshapes them for bmm, which writes a copy of them for each head."""
    B, n, _ = X.shape
    Q = _split_heads(X @ W_Q, n_heads)
    d_head = Q.shape[-1]
    K = (X @ W_K)[:, None].expand(B, n_heads, n, d_head).reshape(B * n_heads, n, d_head)
    V = (X @ W_V)[:, None].expand(B, n_heads, n, d_head).reshape(B * n_heads, n, d_head)
    scores = torch.bmm(Q.reshape(B * n_heads, n, d_head), K.transpose(1, 2)) / d_head**0.5
    A = _masked_softmax(scores.reshape(B, n_heads, n, n), mask)
    heads = torch.bmm(A.reshape(B * n_heads, n, n), V).reshape(B, n_heads, n, d_head)
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_queue_of_tokens(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Queues the queries token after token, but gives the scores to the mask as if the queue went head after head."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d_head = K.shape[-1]
    queue = (X @ W_Q).reshape(B, n * n_heads, d_head)
    scores = queue @ K.mT / d_head**0.5
    A = _masked_softmax(scores.unflatten(1, (n_heads, n)), mask).flatten(1, 2)
    return (A @ V).reshape(B, n, n_heads * d_head) @ W_O


def multi_query_attention__wrong_one_pattern(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Averages the weights over the heads and mixes the values with this one mean, the same for every head."""
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (X @ W_K).unsqueeze(1), (X @ W_V).unsqueeze(1)
    A = _masked_softmax(Q @ K.mT / Q.shape[-1] ** 0.5, mask)
    A = A.mean(dim=1, keepdim=True)
    mixed = (A @ V).squeeze(1)
    d_head = Q.shape[-1]
    return sum(mixed @ W_O[a * d_head : (a + 1) * d_head] for a in range(n_heads))


def multi_query_attention__wrong_scaled_twice(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Divides the queries by the root of d_head, and then the scores once more."""
    B, n, _ = X.shape
    d_head = W_K.shape[1]
    Q = _split_heads(X @ W_Q / math.sqrt(d_head), n_heads)
    K, V = X @ W_K, X @ W_V
    scores = (Q.flatten(1, 2) @ K.mT).unflatten(1, (n_heads, n)) / math.sqrt(d_head)
    A = _masked_softmax(scores, mask)
    heads = (A.flatten(1, 2) @ V).unflatten(1, (n_heads, n))
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_zeros_and_bypass(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Sets forbidden scores to 0 before the softmax, and adds X to what comes out."""
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (X @ W_K).unsqueeze(1), (X @ W_V).unsqueeze(1)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores * mask
    heads = torch.softmax(scores, dim=-1) @ V
    return X + _merge_heads(heads) @ W_O


# decode_step


def decode_step__wrong_keeps_all_heads(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Returns the keys and values as laid out for all query heads, so that the cache has h heads and not g."""
    r = n_heads // n_kv_heads
    K_kept, V_kept = cache
    Q = _split_heads(x @ W_Q, n_heads)
    K = torch.cat([K_kept, _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V_kept, _split_heads(x @ W_V, n_kv_heads)], dim=2)
    K, V = K.repeat_interleave(r, dim=1), V.repeat_interleave(r, dim=1)
    A = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1)
    return _merge_heads(A @ V) @ W_O, (K, V)


def decode_step__wrong_first_row_of_triangle(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Uses a causal mask that counts the one query as row 0, so that it sees the oldest token only."""
    r = n_heads // n_kv_heads
    K = torch.cat([cache[0], _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(x @ W_V, n_kv_heads)], dim=2)
    Q = _split_heads(x @ W_Q, n_heads).reshape(x.shape[0], n_kv_heads, r, -1)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    mask = torch.ones(x.shape[1], K.shape[2], dtype=torch.bool).tril()
    heads = _masked_softmax(scores, mask) @ V
    return heads.reshape(x.shape[0], 1, -1) @ W_O, (K, V)


def decode_step__wrong_newest_in_front(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Puts the new key and value in front of the kept ones, so that the cache has the newest token first."""
    B, r = x.shape[0], n_heads // n_kv_heads
    K_kept, V_kept = cache
    K = torch.cat([_split_heads(x @ W_K, n_kv_heads), K_kept], dim=2)
    V = torch.cat([_split_heads(x @ W_V, n_kv_heads), V_kept], dim=2)
    Q = (x @ W_Q).reshape(B, n_kv_heads, r, -1)
    A = torch.softmax(Q @ K.transpose(2, 3) / math.sqrt(Q.shape[-1]), dim=-1)
    return (A @ V).reshape(B, 1, -1) @ W_O, (K, V)


def decode_step__wrong_past_detached(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Detaches the kept keys and values because the past never changes, so that no gradient reaches them."""
    B, r = x.shape[0], n_heads // n_kv_heads
    K_kept, V_kept = (kept.detach() for kept in cache)
    K = torch.cat([K_kept, _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V_kept, _split_heads(x @ W_V, n_kv_heads)], dim=2)
    Q = (x @ W_Q).reshape(B, n_kv_heads, r, -1)
    A = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1)
    return (A @ V).reshape(B, 1, -1) @ W_O, (K, V)


def decode_step__wrong_looks_before_it_grows(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Lets the query look at the cache before the new token is in it, and divides by the root of W_Q.shape[1] // g."""
    B, r = x.shape[0], n_heads // n_kv_heads
    K_kept, V_kept = cache
    d_head = W_Q.shape[1] // n_kv_heads
    Q = (x @ W_Q).reshape(B, n_kv_heads, r, -1)
    A = torch.softmax(Q @ K_kept.mT / math.sqrt(d_head), dim=-1)
    out = (A @ V_kept).reshape(B, 1, -1) @ W_O
    K = torch.cat([K_kept, _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V_kept, _split_heads(x @ W_V, n_kv_heads)], dim=2)
    return out, (K, V)


def decode_step__right_padded_sum(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Grows the cache by adding two tensors padded with zeros, and attends in a loop over the groups."""
    t = cache[0].shape[2]
    grown = tuple(
        F.pad(kept, (0, 0, 0, 1))
        + F.pad(torch.einsum("bic,cgd->bgid", x, W.unflatten(1, (n_kv_heads, -1))), (0, 0, t, 0))
        for kept, W in zip(cache, (W_K, W_V), strict=True)
    )
    d_head = grown[0].shape[-1]
    per_group = W_Q.shape[1] // n_kv_heads
    said = []
    for K, V, W in zip(grown[0].unbind(1), grown[1].unbind(1), W_Q.split(per_group, dim=1), strict=True):
        queue = (x @ W).reshape(len(x), -1, d_head)
        said.append((torch.softmax(queue @ K.mT * d_head**-0.5, dim=-1) @ V).flatten(1))
    return (torch.cat(said, dim=1) @ W_O).unsqueeze(1), grown


# pool_kv_heads


def pool_kv_heads__wrong_neighbouring_columns(W, n_heads, n_kv_heads):
    """Averages neighbouring columns inside of the heads, because the place in a head and the head are exchanged."""
    r = n_heads // n_kv_heads
    d_head = W.shape[1] // n_heads
    return W.unflatten(1, (n_kv_heads, d_head, r)).mean(-1).flatten(1)


def pool_kv_heads__wrong_keeps_the_size(W, n_heads, n_kv_heads):
    """Multiplies the mean by the root of h // g, so that a mean of independent heads keeps the size of one head."""
    r = n_heads // n_kv_heads
    means = W.unflatten(1, (n_kv_heads, r, -1)).mean(2)
    return (means * r**0.5).flatten(1)


def pool_kv_heads__wrong_divided_by_groups(W, n_heads, n_kv_heads):
    """Divides the sum of a group by the number of groups and not by the number of heads in a group."""
    d_head = W.shape[1] // n_heads
    r = n_heads // n_kv_heads
    pooled = []
    for group in range(n_kv_heads):
        first = group * r * d_head
        blocks = [W[:, first + a * d_head : first + (a + 1) * d_head] for a in range(r)]
        pooled.append(sum(blocks) / n_kv_heads)
    return torch.cat(pooled, dim=1)


def pool_kv_heads__wrong_width_from_d_model(W, n_heads, n_kv_heads):
    """Works the width of a head out from the rows of W, which is right only where h*d_head is d_model."""
    d_head = W.shape[0] // n_heads
    r = n_heads // n_kv_heads
    return W.reshape(W.shape[0], n_kv_heads, r, d_head).mean(dim=2).reshape(W.shape[0], n_kv_heads * d_head)


def pool_kv_heads__wrong_sum_in_turn(W, n_heads, n_kv_heads):
    """Puts the heads a, a + g, a + 2g … into one group in place of neighbours, and adds them without a mean."""
    r = n_heads // n_kv_heads
    return W.unflatten(1, (r, n_kv_heads, -1)).sum(1).flatten(1)


def pool_kv_heads__right_as_a_product(W, n_heads, n_kv_heads):
    """Multiplies W by a matrix of means, a Kronecker product of three small ones."""
    r = n_heads // n_kv_heads
    groups = torch.eye(n_kv_heads, dtype=W.dtype)
    share = torch.full((r, 1), 1 / r, dtype=W.dtype)
    places = torch.eye(W.shape[1] // n_heads, dtype=W.dtype)
    return W @ torch.kron(groups, torch.kron(share, places))


# extend_cache


def extend_cache__wrong_mask_row_by_row(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Repeats each row of the mask r times in a row, though in the queue all tokens of a head come first."""
    n_new, r = X_new.shape[1], n_heads // n_kv_heads
    t = cache[0].shape[2]
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    Q = _split_heads(X_new @ W_Q, n_heads)
    queue = Q.unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    mask = torch.ones(n_new, t + n_new, dtype=torch.bool).tril(diagonal=t)
    A = _masked_softmax(queue @ K.mT / Q.shape[-1] ** 0.5, mask.repeat_interleave(r, dim=0))
    heads = (A @ V).unflatten(2, (r, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_whole_triangle(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Makes the causal mask of all t + n_new tokens and takes its last rows: right, but it grows with the square."""
    n_new, r = X_new.shape[1], n_heads // n_kv_heads
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    n = K.shape[2]
    Q = _split_heads(X_new @ W_Q, n_heads)
    queue = Q.unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    mask = torch.ones(n, n, dtype=torch.bool).tril()[-n_new:]
    scores = (queue @ K.mT / Q.shape[-1] ** 0.5).unflatten(2, (r, n_new))
    A = _masked_softmax(scores, mask)
    heads = (A.flatten(2, 3) @ V).unflatten(2, (r, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_two_softmaxes(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Gives the kept tokens and the new ones a softmax each and adds the results, so that weights sum to 2."""
    n_new, r = X_new.shape[1], n_heads // n_kv_heads
    K_old, V_old = cache
    K_new, V_new = _split_heads(X_new @ W_K, n_kv_heads), _split_heads(X_new @ W_V, n_kv_heads)
    Q = _split_heads(X_new @ W_Q, n_heads)
    queue = Q.unflatten(1, (n_kv_heads, r)).flatten(2, 3) / Q.shape[-1] ** 0.5
    from_old = torch.softmax(queue @ K_old.mT, dim=-1) @ V_old
    triangle = torch.ones(n_new, n_new, dtype=torch.bool).tril()
    A_new = _masked_softmax(queue @ K_new.mT, triangle.repeat(r, 1))
    heads = (from_old + A_new @ V_new).unflatten(2, (r, n_new)).flatten(1, 2)
    grown = torch.cat([K_old, K_new], dim=2), torch.cat([V_old, V_new], dim=2)
    return _merge_heads(heads) @ W_O, grown


def extend_cache__wrong_one_too_far(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Moves the triangle of the mask by t + 1 in place of t, so that each new token sees the one after it."""
    n_new, r = X_new.shape[1], n_heads // n_kv_heads
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    t = cache[0].shape[2]
    Q = _split_heads(X_new @ W_Q, n_heads)
    queue = Q.unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    mask = torch.ones(n_new, t + n_new, dtype=torch.bool).tril(diagonal=t + 1)
    A = _masked_softmax(queue @ K.mT / Q.shape[-1] ** 0.5, mask.repeat(r, 1))
    heads = (A @ V).unflatten(2, (r, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_heads_for_tokens(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Reads t off the cache's axis of heads, and divides the scores by d_head and not by its root."""
    n_new, r = X_new.shape[1], n_heads // n_kv_heads
    t = cache[0].shape[1]
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    Q = _split_heads(X_new @ W_Q, n_heads)
    queue = Q.unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    scores = (queue @ K.mT / Q.shape[-1]).unflatten(2, (r, n_new))
    positions = torch.arange(K.shape[2])
    mask = positions <= t + torch.arange(n_new)[:, None]
    A = _masked_softmax(scores, mask)
    heads = (A.flatten(2, 3) @ V).unflatten(2, (r, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)
