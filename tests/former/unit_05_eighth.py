"""Answers to the exercises of unit 5, shared keys and values, as a class of students would write them (eighth)."""

import math

import torch
import torch.nn.functional as F


def _split_heads(X, n_heads):
    """Given: (B, n, h*d_head) -> (B, h, n, d_head)."""
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    """Given: (B, h, n, d_head) -> (B, n, h*d_head)."""
    return X.transpose(1, 2).flatten(2)


def _masked_softmax(scores, mask=None):
    """Given: the softmax over the last axis, among the allowed keys."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


# ---------------------------------------------------------------- 5.1 kv_cache_bytes


def kv_cache_bytes__wrong_eighth_float_turned_back_into_int(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Counts in floats and rounds at the end with int(), which is not exact for very large caches."""
    per_token = 2.0 * n_layers * n_kv_heads * d_head
    values = per_token * n_tokens * batch
    return int(values * bytes_per_value)


def kv_cache_bytes__wrong_eighth_shift_for_the_bytes(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Shifts by bytes_per_value - 1 bits, which multiplies by 1, 2, 4, 8 for 1, 2, 3, 4 bytes: wrong from 3 bytes on."""
    numbers = 2 * n_layers * n_kv_heads * d_head * n_tokens * batch
    return numbers << (bytes_per_value - 1)


def kv_cache_bytes__wrong_eighth_keys_once_for_the_batch(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Counts the values for each sequence, but the keys only once for the whole batch."""
    one = n_layers * n_kv_heads * d_head * n_tokens
    keys = one * bytes_per_value
    values = one * batch * bytes_per_value
    return keys + values


def kv_cache_bytes__wrong_eighth_added_up_over_all_steps(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Adds up the cache of every step from 1 to n_tokens, which is what is read in all, and not what is kept at the end."""
    per_token = 2 * n_layers * n_kv_heads * d_head * bytes_per_value * batch
    return sum(per_token for t in range(n_tokens) for _ in range(t + 1))


def kv_cache_bytes__right_eighth_products_by_doubling(
    n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2
):
    """Multiplies by doubling and halving whole numbers (peasant multiplication), which is exact at any size."""

    def times(a, b):
        total = 0
        while b:
            if b & 1:
                total += a
            a, b = a + a, b >> 1
        return total

    size = 2  # keys and values
    for factor in (n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value):
        size = times(size, factor)
    return size


# ---------------------------------------------------------------- 5.2 repeat_kv


def repeat_kv__wrong_eighth_tokens_repeated_then_reshaped(K, n_rep):
    """Repeats along axis 2, the tokens, and reshapes to the wanted shape, so that a head holds runs of the same token."""
    B, g, n, d = K.shape
    longer = torch.repeat_interleave(K, n_rep, dim=2)  # (B, g, n*n_rep, d)
    return longer.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_eighth_n_rep_copies_more(K, n_rep):
    """Keeps each head and adds n_rep copies behind it, so that there are n_rep + 1 of each."""
    rows = []
    for s in range(K.shape[1]):
        rows.append(K[:, s])
        for _ in range(n_rep):
            rows.append(K[:, s])
    return torch.stack(rows, dim=1)


def repeat_kv__wrong_eighth_by_numpy(K, n_rep):
    """Uses numpy's repeat on the detached tensor, so that no gradient flows back."""
    wide = K.detach().cpu().numpy().repeat(n_rep, axis=1)
    return torch.from_numpy(wide)


def repeat_kv__wrong_eighth_whole_row_again_and_again(K, n_rep):
    """Puts the whole row of heads n_rep times behind itself, 0, 1, 0, 1, …, so neighbours do not share."""
    wide = K
    for _ in range(n_rep - 1):
        wide = torch.cat((wide, K), dim=1)
    return wide


def repeat_kv__right_eighth_sorted_head_numbers(K, n_rep):
    """Repeats the numbers of the heads, sorts them and selects the heads by that list."""
    g = K.shape[1]
    numbers = torch.arange(g, device=K.device).repeat(n_rep).sort().values
    return K.index_select(1, numbers)


# ---------------------------------------------------------------- 5.3 grouped_query_attention


def grouped_query_attention__wrong_eighth_uneven_groups_allowed(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Deals the query heads out as evenly as can be, a*g//h, and raises no ValueError where g does not divide h."""
    source = [a * n_kv_heads // n_heads for a in range(n_heads)]
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_kv_heads)[:, source]
    V = _split_heads(X @ W_V, n_kv_heads)[:, source]
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge_heads(weights @ V) @ W_O


def grouped_query_attention__wrong_eighth_mask_rows_in_another_order_than_the_queue(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """The queue of a group stands head after head, but the mask's rows are laid out token after token."""
    if n_heads % n_kv_heads != 0:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    queue = _split_heads(X @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    K, V = _split_heads(X @ W_K, n_kv_heads), _split_heads(X @ W_V, n_kv_heads)
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).unflatten(1, (n_kv_heads, r))
        mask = mask.transpose(2, 3).flatten(2, 3)  # (B, g, n*r, n)
    weights = _masked_softmax(queue @ K.mT / math.sqrt(K.shape[-1]), mask)
    heads = (weights @ V).unflatten(2, (r, n)).flatten(1, 2)
    return _merge_heads(heads) @ W_O


def grouped_query_attention__wrong_eighth_members_before_groups_in_the_merge(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Merges the outputs (B, g, r, n, d_head) in the order member, group, so that they meet the rows of other heads in W_O."""
    g, r = n_kv_heads, n_heads // n_kv_heads
    if g * r != n_heads:
        raise ValueError("n_kv_heads must divide n_heads")
    B, n = X.shape[:2]
    Q = (X @ W_Q).reshape(B, n, g, r, -1)
    K, V = ((X @ W).reshape(B, n, g, -1) for W in (W_K, W_V))
    S = torch.einsum("bigrd,bjgd->bgrij", Q, K) / math.sqrt(K.shape[-1])
    see = None if mask is None else mask.expand(B, n_heads, n, n).unflatten(1, (g, r))
    A = _masked_softmax(S, see)
    beside = torch.einsum("bgrij,bjgd->birgd", A, V).flatten(2)
    return beside @ W_O


def grouped_query_attention__wrong_eighth_root_of_the_width_of_W_K(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Divides the scores by the root of W_K.shape[1] = g*d_head, all heads of keys together, and not of d_head."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_heads} query heads cannot share {n_kv_heads}")
    d_k = W_K.shape[1]
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (
        _split_heads(X @ W, n_kv_heads).repeat_interleave(n_heads // n_kv_heads, dim=1)
        for W in (W_K, W_V)
    )
    scores = torch.matmul(Q, K.transpose(-1, -2)) / d_k**0.5
    return _merge_heads(_masked_softmax(scores, mask) @ V) @ W_O


def grouped_query_attention__right_eighth_group_after_group_added_up(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Works group after group: the group's queries in one queue, one product with its keys, and its rows of W_O added to the sum."""
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"g = {n_kv_heads} does not divide h = {n_heads}")
    B, n, _ = X.shape
    r, d = n_heads // n_kv_heads, W_Q.shape[1] // n_heads
    see = None if mask is None else mask.expand(B, n_heads, n, n)
    out = 0
    for s in range(n_kv_heads):
        wide, own = slice(s * r * d, (s + 1) * r * d), slice(s * d, (s + 1) * d)
        q = (X @ W_Q[:, wide]).reshape(B, n * r, d)  # row i*r + member
        k, v = X @ W_K[:, own], X @ W_V[:, own]
        scores = torch.bmm(q, k.mT) / math.sqrt(d)
        if see is not None:
            rows = see[:, s * r : (s + 1) * r].transpose(1, 2).reshape(B, n * r, n)
            scores = scores.masked_fill(~rows, torch.finfo(scores.dtype).min)
        found = torch.bmm(torch.softmax(scores, dim=-1), v)
        out = out + found.reshape(B, n, r * d) @ W_O[wide]
    return out


# ---------------------------------------------------------------- 5.4 multi_query_attention


def multi_query_attention__wrong_eighth_keys_repeated_per_head(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Right numbers, but .repeat writes the keys and the values down once per head."""
    Q = _split_heads(X @ W_Q, n_heads)
    K = (X @ W_K).unsqueeze(1).repeat(1, n_heads, 1, 1)
    V = (X @ W_V).unsqueeze(1).repeat(1, n_heads, 1, 1)
    scores = Q @ K.mT / math.sqrt(W_K.shape[1])
    return _merge_heads(_masked_softmax(scores, mask) @ V) @ W_O


def multi_query_attention__wrong_eighth_heads_interleaved_before_W_O(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Merges with the head axis last, column k*h + a, so that the columns meet the wrong rows of W_O."""
    B, n, _ = X.shape
    Q = (X @ W_Q).reshape(B, n, n_heads, -1)
    K, V = X @ W_K, X @ W_V
    scores = torch.einsum("bqhd,bkd->bhqk", Q, K) / math.sqrt(K.shape[-1])
    weights = _masked_softmax(scores, mask)
    heads = torch.einsum("bhqk,bkd->bqdh", weights, V)
    return heads.reshape(B, n, -1) @ W_O


def multi_query_attention__wrong_eighth_mask_of_head_0_for_all(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Takes the mask of head 0 for all heads, since there is only one head of keys."""
    B, n, _ = X.shape
    d_head = W_K.shape[1]
    queue = _split_heads(X @ W_Q, n_heads).flatten(1, 2)  # (B, h*n, d_head)
    scores = (queue @ (X @ W_K).mT / math.sqrt(d_head)).unflatten(1, (n_heads, n))
    if mask is not None and mask.dim() == 4:
        mask = mask[:, :1]
    weights = _masked_softmax(scores, mask).flatten(1, 2)
    heads = (weights @ (X @ W_V)).unflatten(1, (n_heads, n))
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_eighth_one_table_of_weights_for_all(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Averages the scores of all heads, so that the heads share their weights too, and not only keys and values."""
    K, V = X @ W_K, X @ W_V
    Q = _split_heads(X @ W_Q, n_heads)
    scores = Q @ K.unsqueeze(1).mT / math.sqrt(K.shape[-1])
    scores = scores.mean(dim=1, keepdim=True).expand_as(scores)
    weights = _masked_softmax(scores, mask)
    return _merge_heads(weights @ V.unsqueeze(1)) @ W_O


def multi_query_attention__right_eighth_queries_sent_back_through_W_K(
    X, W_Q, W_K, W_V, W_O, n_heads, mask=None
):
    """Never forms keys or values: sends the queries through W_K.T, meets the tokens themselves, mixes tokens, and applies W_V last."""
    B, n, _ = X.shape
    d_head = W_K.shape[1]
    queue = _split_heads(X @ W_Q, n_heads).reshape(B, n_heads * n, d_head)
    reads = queue @ W_K.mT  # (B, h*n, d_model)
    scores = torch.bmm(reads, X.mT) / math.sqrt(d_head)
    weights = _masked_softmax(scores.reshape(B, n_heads, n, n), mask)
    tokens = torch.bmm(weights.reshape(B, n_heads * n, n), X)
    heads = (tokens @ W_V).reshape(B, n_heads, n, d_head)
    return _merge_heads(heads) @ W_O


# ---------------------------------------------------------------- 5.5 decode_step


def decode_step__wrong_eighth_shortcut_for_the_first_token(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """With an empty cache it hands the value straight on, but lays the value heads out in turn, 0, 1, 0, 1, …."""
    K, V = cache
    r = n_heads // n_kv_heads
    k, v = _split_heads(x @ W_K, n_kv_heads), _split_heads(x @ W_V, n_kv_heads)
    if K.shape[2] == 0:  # a single key gets all the weight
        return _merge_heads(v.repeat(1, r, 1, 1)) @ W_O, (k, v)
    K, V = torch.cat([K, k], dim=2), torch.cat([V, v], dim=2)
    q = _split_heads(x @ W_Q, n_heads).reshape(-1, n_kv_heads, r, k.shape[-1])
    weights = torch.softmax(q @ K.mT / math.sqrt(k.shape[-1]), dim=-1)
    out = (weights @ V).reshape(x.shape[0], 1, -1)
    return out @ W_O, (K, V)


def decode_step__wrong_eighth_scaled_keys_are_kept(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Divides the new key by the root of d_head and keeps it like that, in place of scaling the scores, though the kept keys are not scaled."""
    d_head = W_Q.shape[1] // n_heads
    new_key = _split_heads(x @ W_K, n_kv_heads) / math.sqrt(d_head)
    new_value = _split_heads(x @ W_V, n_kv_heads)
    K = torch.cat((cache[0], new_key), dim=2)
    V = torch.cat((cache[1], new_value), dim=2)
    r = n_heads // n_kv_heads
    Q = _split_heads(x @ W_Q, n_heads)
    S = Q @ K.repeat_interleave(r, dim=1).mT
    heads = S.softmax(dim=-1) @ V.repeat_interleave(r, dim=1)
    return _merge_heads(heads) @ W_O, (K, V)


def decode_step__wrong_eighth_cache_overwritten_by_data(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Puts the longer keys and values into the tensors that came in, by .data, so that the caller's cache and all earlier ones change."""
    K, V = cache
    new_K, new_V = (_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V))
    K.data = torch.cat([K, new_K], dim=2)
    V.data = torch.cat([V, new_V], dim=2)
    queue = _split_heads(x @ W_Q, n_heads).squeeze(2)
    queue = queue.unflatten(1, (n_kv_heads, -1))  # (B, g, r, d_head)
    weights = torch.softmax(queue @ K.mT / K.shape[-1] ** 0.5, dim=-1)
    return (weights @ V).flatten(1)[:, None] @ W_O, (K, V)


def decode_step__wrong_eighth_new_key_behind_the_values(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """A slip of copying: the new key is put behind the kept values too, and the new value is never made."""
    r = n_heads // n_kv_heads
    fresh = _split_heads(x @ W_K, n_kv_heads)
    kept = []
    for old in cache:
        kept.append(torch.cat([old, fresh], dim=2))
    K, V = kept
    Q = _split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, r))[..., 0, :]
    A = torch.softmax(torch.einsum("bgrd,bgtd->bgrt", Q, K) / math.sqrt(Q.size(-1)), 3)
    out = torch.einsum("bgrt,bgtd->bgrd", A, V).flatten(1).unsqueeze(1)
    return out @ W_O, (K, V)


def decode_step__right_eighth_past_and_present_weighed_against_each_other(
    x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Attends to the kept tokens alone, and weighs that mixture against the new value by a sigmoid of the new score less the log-sum-exp of the old."""
    K, V = cache
    B, d = x.shape[0], W_Q.shape[1] // n_heads
    r = n_heads // n_kv_heads
    k = (x @ W_K).reshape(B, n_kv_heads, 1, d)
    v = (x @ W_V).reshape(B, n_kv_heads, 1, d)
    q = (x @ W_Q).reshape(B, n_kv_heads, r, d) / math.sqrt(d)
    now = q @ k.mT  # (B, g, r, 1)
    out = v.expand(B, n_kv_heads, r, d)
    if K.shape[2] > 0:
        scores = q @ K.mT  # (B, g, r, t)
        past = torch.softmax(scores, dim=-1) @ V
        share = torch.sigmoid(now - torch.logsumexp(scores, dim=-1, keepdim=True))
        out = share * out + (1 - share) * past
    out = out.reshape(B, 1, n_heads * d) @ W_O
    return out, (torch.cat([K, k], dim=2), torch.cat([V, v], dim=2))


# ---------------------------------------------------------------- 5.6 pool_kv_heads


def pool_kv_heads__wrong_eighth_sum_divided_by_the_number_of_groups(
    W, n_heads, n_kv_heads
):
    """Divides the sum of a group by g, the number of groups, in place of h/g, the number of its heads."""
    d_head = W.shape[1] // n_heads
    per_group = n_heads // n_kv_heads
    cut = W.reshape(W.shape[0], n_kv_heads, per_group, d_head)
    return (cut.sum(dim=2) / n_kv_heads).reshape(W.shape[0], -1)


def pool_kv_heads__wrong_eighth_mean_of_mean_and_next(W, n_heads, n_kv_heads):
    """Takes the mean of the mean so far and the next head, so that in groups of three and more the later heads count more."""
    heads = W.chunk(n_heads, dim=1)
    size = n_heads // n_kv_heads
    pooled = []
    for start in range(0, n_heads, size):
        mean = heads[start]
        for head in heads[start + 1 : start + size]:
            mean = (mean + head) / 2
        pooled.append(mean)
    return torch.cat(pooled, dim=1)


def pool_kv_heads__wrong_eighth_added_up_inside_of_W(W, n_heads, n_kv_heads):
    """Adds the heads of a group into the columns of its first head in W itself, so that the caller's weights change."""
    d_head, r = W.shape[1] // n_heads, n_heads // n_kv_heads
    with_heads = W.unflatten(1, (n_kv_heads, r, d_head))
    first = with_heads[:, :, 0]
    for member in range(1, r):
        first += with_heads[:, :, member]
    return (first / r).flatten(1)


def pool_kv_heads__wrong_eighth_scaled_to_keep_the_variance(W, n_heads, n_kv_heads):
    """Multiplies the mean by the root of the size of the group, so that the spread of random weights stays as it was."""
    group = n_heads // n_kv_heads
    blocks = W.unflatten(1, (n_kv_heads, group, -1))
    pooled = blocks.mean(dim=2) * math.sqrt(group)
    return pooled.flatten(start_dim=1)


def pool_kv_heads__right_eighth_average_pooling_along_the_heads(W, n_heads, n_kv_heads):
    """Lays the heads out as the last axis and runs avg_pool1d over them with a window and a step of h/g."""
    r = n_heads // n_kv_heads
    by_place = W.unflatten(1, (n_heads, -1)).mT  # (d_model, d_head, h)
    pooled = F.avg_pool1d(by_place, kernel_size=r, stride=r)  # (d_model, d_head, g)
    return pooled.mT.flatten(1)


# ---------------------------------------------------------------- 5.7 extend_cache


def extend_cache__wrong_eighth_mask_token_by_token_on_a_queue_head_by_head(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """The queue of a group stands head after head, but each row of the mask is repeated r times in a row, token after token."""
    B, n, _ = X_new.shape
    r, t = n_heads // n_kv_heads, cache[0].shape[2]
    K, V = (
        torch.cat([old, _split_heads(X_new @ W, n_kv_heads)], dim=2)
        for old, W in zip(cache, (W_K, W_V), strict=True)
    )
    d = K.shape[-1]
    queue = _split_heads(X_new @ W_Q, n_heads).reshape(B, n_kv_heads, r * n, d)
    see = torch.arange(t + n) <= t + torch.arange(n)[:, None]
    see = see.repeat_interleave(r, dim=0)  # (r*n, t + n)
    weights = _masked_softmax(queue @ K.mT / math.sqrt(d), see)
    heads = (weights @ V).reshape(B, n_heads, n, d)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_eighth_rows_cut_from_a_square_mask(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Right numbers, but it makes the causal mask of all t + n_new tokens, whose square grows with the cache, and cuts its last rows."""
    B, n_new, _ = X_new.shape
    old_K, old_V = cache
    K = torch.cat([old_K, _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([old_V, _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    total, d = K.shape[2:]
    mask = torch.tril(torch.ones(total, total, dtype=torch.bool))[-n_new:]
    r = n_heads // n_kv_heads
    Q = _split_heads(X_new @ W_Q, n_heads).reshape(B, n_kv_heads, r * n_new, d)
    scores = (Q @ K.mT / math.sqrt(d)).unflatten(2, (r, n_new))
    weights = _masked_softmax(scores, mask).flatten(2, 3)
    heads = (weights @ V).reshape(B, n_heads, n_new, d)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_eighth_no_mask_for_an_empty_cache(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Makes no mask where the cache is empty, as in the first decoding step, so that new tokens see those behind them."""
    K, V = cache
    t, n = K.size(2), X_new.size(1)
    g, r = n_kv_heads, n_heads // n_kv_heads
    mask = None
    if t > 0:
        mask = torch.ones(n, t + n, dtype=torch.bool).tril(diagonal=t)
    K = torch.cat((K, _split_heads(X_new @ W_K, g)), 2)
    V = torch.cat((V, _split_heads(X_new @ W_V, g)), 2)
    Q = (X_new @ W_Q).unflatten(2, (g, r, -1))
    scores = torch.einsum("bngrd,bgmd->bgrnm", Q, K) / math.sqrt(K.size(3))
    weights = _masked_softmax(scores, mask)
    out = torch.einsum("bgrnm,bgmd->bngrd", weights, V).flatten(2) @ W_O
    return out, (K, V)


def extend_cache__wrong_eighth_new_tokens_in_front(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """Puts the new tokens in front of the old ones, with a mask that fits, so out is right and the returned cache is in the wrong order."""
    B, n, _ = X_new.shape
    t, r = cache[0].shape[2], n_heads // n_kv_heads
    new_K, new_V = (_split_heads(X_new @ W, n_kv_heads) for W in (W_K, W_V))
    K, V = torch.cat([new_K, cache[0]], dim=2), torch.cat([new_V, cache[1]], dim=2)
    among_new = torch.ones(n, n, dtype=torch.bool).tril()
    see = torch.cat([among_new, torch.ones(n, t, dtype=torch.bool)], dim=1)
    queue = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r))
    scores = queue.flatten(2, 3) @ K.mT / math.sqrt(K.shape[3])
    weights = _masked_softmax(scores, see.repeat(r, 1))
    heads = (weights @ V).unflatten(2, (r, n)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__right_eighth_group_by_group_with_row_numbers(
    X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
):
    """One group after another, its queue token after token: row number // r says which token, and so which keys it may see."""
    B, n, _ = X_new.shape
    g, r, d = n_kv_heads, n_heads // n_kv_heads, W_Q.shape[1] // n_heads
    t = cache[0].shape[2]
    new_K = (X_new @ W_K).reshape(B, n, g, d).movedim(2, 1)
    new_V = (X_new @ W_V).reshape(B, n, g, d).movedim(2, 1)
    K = torch.cat([cache[0], new_K], dim=2)
    V = torch.cat([cache[1], new_V], dim=2)
    queries = X_new @ W_Q  # (B, n, g*r*d)
    row = torch.arange(n * r, device=X_new.device)[:, None] // r
    hidden = torch.arange(t + n, device=X_new.device) > t + row  # (n*r, t + n)
    found = []
    for s in range(g):
        queue = queries[:, :, s * r * d : (s + 1) * r * d].reshape(B, n * r, d)
        scores = torch.bmm(queue, K[:, s].mT) / math.sqrt(d)
        scores = scores.masked_fill(hidden, -math.inf)  # each row sees itself at least
        mixed = torch.bmm(torch.softmax(scores, dim=-1), V[:, s])
        found.append(mixed.reshape(B, n, r * d))
    return torch.cat(found, dim=2) @ W_O, (K, V)
