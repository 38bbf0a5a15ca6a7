"""Answers to the exercises of unit 5, wrong ones and right ones, as students would write them."""

import math

import torch
import torch.nn.functional as F


def _split_heads(X, n_heads):
    """(B, n, h*d_head) -> (B, h, n, d_head). Each head is a block of columns."""
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    """(B, h, n, d_head) -> (B, n, h*d_head), the way back."""
    return X.transpose(1, 2).flatten(2)


def _masked_softmax(scores, mask=None):
    """Weights: the softmax over the last axis, among the allowed keys."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def _repeat_kv(K, n_rep):
    """(B, g, n, d) -> (B, g*n_rep, n, d), each head n_rep times in a row."""
    return K.repeat_interleave(n_rep, dim=1)


# ------- 5.1 kv_cache_bytes


def kv_cache_bytes__wrong_thirteenth_one_table_for_both(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Thinks a head keeps a single row per token for key and value together; there are two, so the 2 is missing."""
    per_token = n_kv_heads * d_head * bytes_per_value
    return n_layers * per_token * n_tokens * batch


def kv_cache_bytes__wrong_thirteenth_queries_kept_too(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Keeps queries, keys and values, three of each; old queries are never asked again and are not kept."""
    kept = ("Q", "K", "V")
    total = 0
    for _ in kept:
        total += n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value
    return total


def kv_cache_bytes__wrong_thirteenth_each_step_keeps_all(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Adds up a whole cache for every step, 1 + 2 + ... + n tokens; what was kept stays and is kept once."""
    numbers_per_token = 2 * n_layers * n_kv_heads * d_head
    tokens = n_tokens * (n_tokens + 1) // 2
    return numbers_per_token * tokens * batch * bytes_per_value


def kv_cache_bytes__wrong_thirteenth_numbers_not_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Counts the numbers and forgets to multiply by bytes_per_value."""
    return math.prod([2, n_layers, n_kv_heads, d_head, n_tokens, batch])


def kv_cache_bytes__wrong_thirteenth_batch_for_keys_only(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """The batch slips into the line of the keys alone; the values of each sequence count as well."""
    one = n_layers * n_kv_heads * d_head * n_tokens
    keys = one * batch
    values = one
    return (keys + values) * bytes_per_value


def kv_cache_bytes__wrong_thirteenth_in_gigabytes(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Returns gigabytes, as the tables of the unit print them; asked for are whole bytes."""
    size = 2 * n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value
    return size / 1e9


def kv_cache_bytes__wrong_thirteenth_at_least_one_token(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Puts one token where there is none yet; for n_tokens 0 the cache takes 0 bytes."""
    tokens = n_tokens or 1
    per_layer = 2 * n_kv_heads * d_head * tokens
    return sum(per_layer for _ in range(n_layers)) * batch * bytes_per_value


def kv_cache_bytes__wrong_thirteenth_rounded_by_floats(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Multiplies floats and makes an int at the end; beyond 2**53 the result is no longer exact, as it should be."""
    size = 2.0
    for factor in (n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value):
        size *= factor
    return int(size)


def kv_cache_bytes__right_thirteenth_by_doubling_and_adding(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Multiplies by doubling and adding whole numbers only, and starts with two numbers, a key's and a value's."""

    def times(a, b):
        total = 0
        while b:
            if b & 1:
                total += a
            a, b = a << 1, b >> 1
        return total

    size = 2
    for factor in (d_head, n_kv_heads, n_layers, n_tokens, batch, bytes_per_value):
        size = times(size, factor)
    return size


# ------- 5.2 repeat_kv


def repeat_kv__wrong_thirteenth_whole_row_again(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Lays the whole row of heads down again and again, 0, 1, 0, 1; each head should come n_rep times in a row."""
    return K.repeat(1, n_rep, 1, 1)


def repeat_kv__wrong_thirteenth_tokens_repeated(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Repeats each token n_rep times and lets the shape follow; whole heads should be repeated, not their rows."""
    B, g, n, d = K.shape
    longer = torch.repeat_interleave(K, n_rep, dim=2)
    return longer.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_thirteenth_divided_among_readers(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Gives each reader the n_rep-th part, so that together they have one; each should have the head as it is."""
    B, g, n, d = K.shape
    shares = (K / n_rep).unsqueeze(2).expand(B, g, n_rep, n, d)
    return shares.flatten(1, 2)


def repeat_kv__wrong_thirteenth_dim_forgotten(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Forgets dim=1: each single number is repeated, and the reshape after it hides that."""
    B, g, n, d = K.shape
    return K.repeat_interleave(n_rep).reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_thirteenth_evenly_spaced_and_rounded(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Spreads 0 ... g-1 evenly over the query heads and rounds; the outer groups get too few, a // n_rep is due."""
    g = K.shape[1]
    sources = torch.linspace(0, g - 1, g * n_rep).round().long()
    return K[:, sources]


def repeat_kv__wrong_thirteenth_n_rep_as_total(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Reads n_rep as the number of query heads and repeats n_rep // g times; it is how many share one head."""
    g = K.size(1)
    each = n_rep // g
    heads = []
    for s in range(g):
        heads += [K[:, s : s + 1]] * each
    return torch.cat(heads, dim=1) if heads else K[:, :0]


def repeat_kv__wrong_thirteenth_view_needs_order(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Glues heads by view, which refuses a K that does not lie in memory in order, as split_heads leaves it."""
    B, g, n, d = K.shape
    rows = K.view(B * g, n * d)
    rows = rows[:, None].expand(B * g, n_rep, n * d)
    return rows.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_thirteenth_copies_detached(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Detaches all copies but the first, so that one reader's gradient arrives; those of all should add up."""
    copies = [K] + [K.detach() for _ in range(n_rep - 1)]
    return torch.stack(copies, dim=2).flatten(1, 2)


def repeat_kv__right_thirteenth_outer_product_with_ones(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """The outer product with n_rep ones gives the readers an axis behind the heads, and the two are glued."""
    readers = torch.ones(n_rep, dtype=K.dtype, device=K.device)
    return torch.einsum("bgnd,r->bgrnd", K, readers).flatten(1, 2)


# ------- 5.3 grouped_query_attention


def grouped_query_attention__wrong_thirteenth_heads_in_turn(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Query head a reads key/value head a % g, one after the other in turn; neighbours share, so a // r is due."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads do not divide {n_heads} heads")
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = _split_heads(X @ W_K, n_kv_heads), _split_heads(X @ W_V, n_kv_heads)
    heads = []
    for a in range(n_heads):
        source = a % n_kv_heads
        scores = Q[:, a] @ K[:, source].mT / math.sqrt(Q.shape[-1])
        own = None if mask is None else mask.expand(X.shape[0], n_heads, X.shape[1], X.shape[1])[:, a]
        heads.append(_masked_softmax(scores, own) @ V[:, source])
    return torch.cat(heads, dim=-1) @ W_O


def grouped_query_attention__wrong_thirteenth_one_table_per_group(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Thinks a group shares its query too, the mean of its heads' queries; each head asks with a query of its own."""
    if n_heads % n_kv_heads != 0:
        raise ValueError("n_kv_heads has to divide n_heads")
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K = _repeat_kv(_split_heads(X @ W_K, n_kv_heads), r)
    V = _repeat_kv(_split_heads(X @ W_V, n_kv_heads), r)
    group_query = Q.unflatten(1, (n_kv_heads, r)).mean(dim=2)
    Q = _repeat_kv(group_query, r)
    A = _masked_softmax(Q @ K.mT / Q.shape[-1] ** 0.5, mask)
    return _merge_heads(A @ V) @ W_O


def grouped_query_attention__wrong_thirteenth_scaled_for_the_group(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides by the root of r*d_head, since a key serves r heads; a dot product still has d_head terms."""
    groups, left_over = divmod(n_heads, n_kv_heads)
    if left_over:
        raise ValueError(f"cannot share {n_kv_heads} heads among {n_heads}")
    Q, K, V = _split_heads(X @ W_Q, n_heads), _split_heads(X @ W_K, n_kv_heads), _split_heads(X @ W_V, n_kv_heads)
    K, V = K.repeat_interleave(groups, 1), V.repeat_interleave(groups, 1)
    width_of_group = W_Q.shape[1] // n_kv_heads
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(width_of_group)
    return _merge_heads(torch.einsum("bhij,bhjd->bhid", _masked_softmax(scores, mask), V)) @ W_O


def grouped_query_attention__wrong_thirteenth_values_in_turn(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The keys are laid out by neighbours, the values by repeat, in turn; both should go by neighbours."""
    if n_heads % n_kv_heads:
        raise ValueError("uneven groups")
    r = n_heads // n_kv_heads
    q = _split_heads(X @ W_Q, n_heads)
    k = _split_heads(X @ W_K, n_kv_heads).repeat_interleave(r, dim=1)
    v = _split_heads(X @ W_V, n_kv_heads).repeat(1, r, 1, 1)
    weights = _masked_softmax(q @ k.mT / math.sqrt(q.size(-1)), mask)
    return _merge_heads(weights @ v) @ W_O


def grouped_query_attention__wrong_thirteenth_queue_cut_as_r_g(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Goes by groups, (B, g, r, n, d), but glues the outputs back with r before g, so that heads change places."""
    if n_heads % n_kv_heads:
        raise ValueError(f"g = {n_kv_heads} does not divide h = {n_heads}")
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads).reshape(B, n_kv_heads, r, n, -1)
    K = _split_heads(X @ W_K, n_kv_heads)[:, :, None]
    V = _split_heads(X @ W_V, n_kv_heads)[:, :, None]
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).reshape(B, n_kv_heads, r, n, n)
    out = _masked_softmax(S, mask) @ V  # (B, g, r, n, d_head)
    return out.permute(0, 3, 2, 1, 4).reshape(B, n, -1) @ W_O


def grouped_query_attention__wrong_thirteenth_causal_by_default(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reads mask=None as the causal mask that the unit speaks of; None allows all keys."""
    if n_heads % n_kv_heads != 0:
        raise ValueError(f"{n_heads} heads, {n_kv_heads} key/value heads: not divisible")
    if mask is None:
        n = X.shape[1]
        mask = torch.tril(torch.ones(n, n, dtype=torch.bool))
    r = n_heads // n_kv_heads
    queries = _split_heads(X @ W_Q, n_heads)
    keys, values = (_repeat_kv(_split_heads(X @ W, n_kv_heads), r) for W in (W_K, W_V))
    weights = _masked_softmax(queries @ keys.mT / math.sqrt(queries.shape[-1]), mask)
    return _merge_heads(weights @ values) @ W_O


def grouped_query_attention__wrong_thirteenth_uneven_groups_allowed(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Where g does not divide h, some groups become larger without a word; a ValueError is due."""
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_kv_heads)
    V = _split_heads(X @ W_V, n_kv_heads)
    per_group = max(1, n_heads // n_kv_heads)
    reads = [min(a // per_group, n_kv_heads - 1) for a in range(n_heads)]
    scores = Q @ K[:, reads].mT / math.sqrt(Q.shape[-1])
    return _merge_heads(_masked_softmax(scores, mask) @ V[:, reads]) @ W_O


def grouped_query_attention__wrong_thirteenth_pytorch_does_it(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Right numbers, but by scaled_dot_product_attention with enable_gqa, which is not allowed in an answer."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (_split_heads(X @ W, n_kv_heads) for W in (W_K, W_V))
    out = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask, enable_gqa=True)
    return _merge_heads(out) @ W_O


def grouped_query_attention__right_thirteenth_five_axes_in_einsum(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Names the axes group g and reader r, and lets einsum pair them; no head is laid out or transposed."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads do not divide {n_heads} query heads")
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    Q = (X @ W_Q).unflatten(-1, (n_kv_heads, r, -1))
    K = (X @ W_K).unflatten(-1, (n_kv_heads, -1))
    V = (X @ W_V).unflatten(-1, (n_kv_heads, -1))
    S = torch.einsum("bigrd,bjgd->bgrij", Q, K) / math.sqrt(Q.shape[-1])
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).unflatten(1, (n_kv_heads, r))
        S = S.masked_fill(~mask, -math.inf)
    A = torch.exp(S - torch.logsumexp(S, dim=-1, keepdim=True))
    return torch.einsum("bgrij,bjgd->bigrd", A, V).flatten(2) @ W_O


# ------- 5.4 multi_query_attention


def multi_query_attention__wrong_thirteenth_key_shares_itself_out(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Lets the shared keys share themselves out among all rows of the queue, dim=1; each row sums to 1 over keys."""
    B, n, _ = X.shape
    Q = _split_heads(X @ W_Q, n_heads).flatten(1, 2)  # (B, h*n, d_head)
    K, V = X @ W_K, X @ W_V
    scores = Q @ K.mT / math.sqrt(K.shape[-1])
    if mask is not None:
        allowed = mask.expand(B, n_heads, n, n).flatten(1, 2)
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=1)
    return _merge_heads((weights @ V).unflatten(1, (n_heads, n))) @ W_O


def multi_query_attention__wrong_thirteenth_scaled_by_all_heads(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides by the root of h*d_head, because all heads meet one key; each product has d_head terms only."""
    Q = _split_heads(X @ W_Q, n_heads)
    K = (X @ W_K)[:, None]
    V = (X @ W_V)[:, None]
    A = _masked_softmax(torch.matmul(Q, K.mT) / math.sqrt(W_Q.shape[1]), mask)
    return _merge_heads(torch.matmul(A, V)) @ W_O


def multi_query_attention__wrong_thirteenth_all_heads_write_the_mean(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Thinks with one head of values all heads mix the same, and averages their weights; each mixes for itself."""
    d_head = W_K.shape[1]
    Q = (X @ W_Q).unflatten(-1, (n_heads, d_head))
    S = torch.einsum("bihd,bjd->bhij", Q, X @ W_K) / math.sqrt(d_head)
    weights = _masked_softmax(S, mask).mean(dim=1)  # (B, n, n)
    mixed = weights @ (X @ W_V)
    blocks = W_O.unflatten(0, (n_heads, d_head)).sum(dim=0)  # the same d_head numbers meet every head's rows
    return mixed @ blocks


def multi_query_attention__wrong_thirteenth_queue_without_swap(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Makes the queue by a reshape, token after token, and takes it apart head after head; one order is due."""
    B, n, _ = X.shape
    d = W_K.shape[1]
    queue = (X @ W_Q).reshape(B, n_heads * n, d)
    keys, values = X @ W_K, X @ W_V
    scores = torch.bmm(queue, keys.transpose(1, 2)) / math.sqrt(d)
    scores = scores.view(B, n_heads, n, n)
    weights = _masked_softmax(scores, mask).flatten(1, 2)
    found = torch.bmm(weights, values).view(B, n_heads, n, d)
    return _merge_heads(found) @ W_O


def multi_query_attention__wrong_thirteenth_mask_rows_by_token(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Queues the queries head after head and the rows of the mask token after token; the orders must agree."""
    (B, n, _), h = X.shape, n_heads
    rows = _split_heads(X @ W_Q, h).flatten(1, 2)
    if mask is not None:
        mask = mask.expand(B, h, n, n).transpose(1, 2).flatten(1, 2)
    k, v = X @ W_K, X @ W_V
    out = _masked_softmax(rows @ k.mT / math.sqrt(k.shape[-1]), mask) @ v
    return _merge_heads(out.unflatten(1, (h, n))) @ W_O


def multi_query_attention__wrong_thirteenth_true_hides(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reads True in the mask as hidden; True means may attend."""
    K, V = (X @ W_K).unsqueeze(1), (X @ W_V).unsqueeze(1)
    Q = _split_heads(X @ W_Q, n_heads)
    scores = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
    if mask is not None:
        scores = torch.where(mask, torch.finfo(scores.dtype).min, scores)
    heads = scores.softmax(dim=-1) @ V
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_thirteenth_exponentials_overflow(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Writes the softmax as e^s over the sum, without taking off the maximum: NaN for scores of some thousands."""
    d_head = W_K.size(1)
    Q = (X @ W_Q).unflatten(-1, (n_heads, d_head))
    scores = torch.einsum("bihd,bjd->bhij", Q, X @ W_K) / math.sqrt(d_head)
    e = torch.exp(scores)
    if mask is not None:
        e = e * mask
    weights = e / e.sum(dim=-1, keepdim=True)
    return torch.einsum("bhij,bjd->bihd", weights, X @ W_V).flatten(2) @ W_O


def multi_query_attention__wrong_thirteenth_a_copy_per_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Right numbers, but repeat writes keys and values down once per head, which no call may return."""
    Q = _split_heads(X @ W_Q, n_heads)
    K = (X @ W_K)[:, None].repeat(1, n_heads, 1, 1)
    V = (X @ W_V)[:, None].repeat(1, n_heads, 1, 1)
    weights = _masked_softmax(Q @ K.mT / math.sqrt(K.shape[-1]), mask)
    return _merge_heads(weights @ V) @ W_O


def multi_query_attention__right_thirteenth_without_keys_or_values(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the queries back to the tokens through W_K, mixes tokens, and applies W_V at the end, head by head."""
    B, n, _ = X.shape
    d_head = W_K.shape[1]
    out = 0
    for a in range(n_heads):
        own = slice(a * d_head, (a + 1) * d_head)
        asked = X @ W_Q[:, own] @ W_K.mT  # (B, n, d_model)
        scores = asked @ X.mT / math.sqrt(d_head)
        see = None if mask is None else mask.expand(B, n_heads, n, n)[:, a]
        out = out + _masked_softmax(scores, see) @ X @ W_V @ W_O[own]
    return out


# ------- 5.5 decode_step


def decode_step__wrong_thirteenth_looks_before_it_keeps(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Lets the query look at the past alone and extends the cache afterwards; a token sees itself too."""
    K, V = cache
    r = n_heads // n_kv_heads
    q = _split_heads(x @ W_Q, n_heads)
    scores = q @ _repeat_kv(K, r).mT / math.sqrt(q.shape[-1])
    out = _merge_heads(torch.softmax(scores, dim=-1) @ _repeat_kv(V, r)) @ W_O
    K = torch.cat([K, _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V, _split_heads(x @ W_V, n_kv_heads)], dim=2)
    return out, (K, V)


def decode_step__wrong_thirteenth_causal_mask_on_one_row(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Puts tril on the one row of scores, since decoding is causal; the new token then sees the oldest alone."""
    new_k, new_v = (_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V))
    K, V = torch.cat((cache[0], new_k), dim=-2), torch.cat((cache[1], new_v), dim=-2)
    Q = _split_heads(x @ W_Q, n_heads)
    causal = torch.ones(1, K.shape[2], dtype=torch.bool).tril()
    wide_K, wide_V = (_repeat_kv(T, n_heads // n_kv_heads) for T in (K, V))
    weights = _masked_softmax(Q @ wide_K.mT / math.sqrt(K.shape[-1]), causal)
    return _merge_heads(weights @ wide_V) @ W_O, (K, V)


def decode_step__wrong_thirteenth_scaled_keys_are_kept(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Divides each key once, before it is kept, to save work later; kept are the keys themselves, as they came in."""
    r = n_heads // n_kv_heads
    d_head = W_K.shape[1] // n_kv_heads
    k = _split_heads(x @ W_K / math.sqrt(d_head), n_kv_heads)
    v = _split_heads(x @ W_V, n_kv_heads)
    K, V = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
    q = (x @ W_Q).reshape(x.shape[0], n_kv_heads, r, d_head)
    heads = torch.softmax(q @ K.mT, dim=-1) @ V
    return heads.flatten(1)[:, None] @ W_O, (K, V)


def decode_step__wrong_thirteenth_group_and_reader_swapped(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Sends heads off by groups, (B, g, r, d), and merges them reader by reader, (B, r, g, d): heads change places."""
    B = x.shape[0]
    K, V = (
        torch.cat([old, _split_heads(x @ W, n_kv_heads)], dim=2) for old, W in zip(cache, (W_K, W_V), strict=True)
    )
    Q = _split_heads(x @ W_Q, n_heads).reshape(B, n_kv_heads, n_heads // n_kv_heads, -1)
    A = torch.softmax(torch.einsum("bgrd,bgtd->bgrt", Q, K) / math.sqrt(K.shape[-1]), dim=-1)
    out = torch.einsum("bgrt,bgtd->brgd", A, V).reshape(B, 1, -1)
    return out @ W_O, (K, V)


def decode_step__wrong_thirteenth_values_and_keys_returned(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Names the two the wrong way round in the returned cache, (V, K); it is (K, V), as it came in."""
    past_keys, past_values = cache
    keys = torch.cat([past_keys, _split_heads(x @ W_K, n_kv_heads)], dim=2)
    values = torch.cat([past_values, _split_heads(x @ W_V, n_kv_heads)], dim=2)
    query = _split_heads(x @ W_Q, n_heads)
    shared = n_heads // n_kv_heads
    weights = torch.softmax(query @ _repeat_kv(keys, shared).mT / math.sqrt(query.size(-1)), dim=-1)
    out = _merge_heads(weights @ _repeat_kv(values, shared)) @ W_O
    return out, (values, keys)


def decode_step__wrong_thirteenth_newest_token_first(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Reads the order as newest first and puts the new token in front; the oldest comes first. out does not notice."""
    K = torch.cat([_split_heads(x @ W_K, n_kv_heads), cache[0]], dim=2)
    V = torch.cat([_split_heads(x @ W_V, n_kv_heads), cache[1]], dim=2)
    Q = _split_heads(x @ W_Q, n_heads)
    heads = []
    for a in range(n_heads):
        s = a // (n_heads // n_kv_heads)
        weights = torch.softmax(Q[:, a] @ K[:, s].mT / math.sqrt(Q.shape[-1]), dim=-1)
        heads.append(weights @ V[:, s])
    return torch.cat(heads, dim=-1) @ W_O, (K, V)


def decode_step__wrong_thirteenth_first_token_by_shortcut(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Takes a shortcut for the first token and tiles its values in turn there; neighbours share also for t = 0."""
    r = n_heads // n_kv_heads
    k, v = _split_heads(x @ W_K, n_kv_heads), _split_heads(x @ W_V, n_kv_heads)
    if cache[0].shape[2] == 0:  # a single token attends to itself: no scores needed
        return (x @ W_V).repeat(1, 1, r) @ W_O, (k, v)
    K, V = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
    Q = _split_heads(x @ W_Q, n_heads).reshape(len(x), n_kv_heads, r, -1)
    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    return (A @ V).reshape(len(x), 1, -1) @ W_O, (K, V)


def decode_step__wrong_thirteenth_old_cache_grows_too(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Grows the tensors that came in, through .data (which cuts gradients too); the old cache should stay as it was."""
    K, V = cache
    K.data = torch.cat([K.data, _split_heads(x @ W_K, n_kv_heads).data], dim=2)
    V.data = torch.cat([V.data, _split_heads(x @ W_V, n_kv_heads).data], dim=2)
    B, _, _, d = K.shape
    queue = (x @ W_Q).view(B, n_kv_heads, -1, d)
    weights = torch.softmax(queue @ K.transpose(2, 3) / math.sqrt(d), dim=3)
    return (weights @ V).reshape(B, 1, n_heads * d) @ W_O, (K, V)


def decode_step__right_thirteenth_scores_joined_not_keys(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Scores past and new token apart, joins the scores for one softmax, and adds the two shares of the output."""
    K_old, V_old = cache
    B, g, t, d_head = K_old.shape
    k, v = (_split_heads(x @ W, g) for W in (W_K, W_V))
    q = (x @ W_Q).reshape(B, g, n_heads // n_kv_heads, d_head) / math.sqrt(d_head)
    past = torch.einsum("bgrd,bgtd->bgrt", q, K_old)
    itself = (q * k).sum(dim=-1, keepdim=True)
    weights = torch.softmax(torch.cat([past, itself], dim=-1), dim=-1)
    heads = torch.einsum("bgrt,bgtd->bgrd", weights[..., :t], V_old) + weights[..., t:] * v
    return heads.reshape(B, 1, -1) @ W_O, (torch.cat([K_old, k], dim=2), torch.cat([V_old, v], dim=2))


# ------- 5.6 pool_kv_heads


def pool_kv_heads__wrong_thirteenth_every_gth_head(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Pools the heads a, a+g, a+2g, ...; those of a group are neighbours."""
    r = n_heads // n_kv_heads
    return W.unflatten(1, (r, n_kv_heads, -1)).mean(dim=1).flatten(1)


def pool_kv_heads__wrong_thirteenth_neighbouring_columns(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Averages r columns that lie side by side; it is whole heads, column 0 with column 0, that are averaged."""
    r = n_heads // n_kv_heads
    d_model, width = W.shape
    return W.reshape(d_model, width // r, r).sum(dim=2) / r


def pool_kv_heads__wrong_thirteenth_halfway_between_extremes(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Takes halfway between the smallest and the largest entry for the mean; so it is for two heads, not for more."""
    heads = W.unflatten(1, (n_kv_heads, n_heads // n_kv_heads, -1))
    middle = (heads.amin(dim=2) + heads.amax(dim=2)) / 2
    return middle.flatten(1)


def pool_kv_heads__wrong_thirteenth_divided_by_g(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Adds the heads of a group and divides by the number of groups, g; a group has r = h / g heads."""
    d_head = W.shape[1] // n_heads
    size = n_heads // n_kv_heads
    blocks = W.split(d_head, dim=1)
    groups = [blocks[i : i + size] for i in range(0, n_heads, size)]
    return torch.cat([sum(group) / len(groups) for group in groups], dim=1)


def pool_kv_heads__wrong_thirteenth_groups_overlap(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Starts group s at head s instead of head s*r, so that groups overlap."""
    d_head = W.shape[1] // n_heads
    r = n_heads // n_kv_heads
    pooled = []
    for s in range(n_kv_heads):
        members = [W[:, a * d_head : (a + 1) * d_head] for a in range(s, s + r)]
        pooled.append(torch.stack(members).mean(dim=0))
    return torch.hstack(pooled)


def pool_kv_heads__wrong_thirteenth_laid_out_for_all(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Reads that the shape stays and writes each mean down for every head, (d_model, h*d_head); g heads are due."""
    grouped = W.unflatten(1, (n_kv_heads, n_heads // n_kv_heads, W.shape[1] // n_heads))
    mean = grouped.mean(dim=2, keepdim=True)
    return mean.expand_as(grouped).flatten(1)


def pool_kv_heads__wrong_thirteenth_halved_again_and_again(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Averages pairs of heads until too few are left; right for groups of 2, 4, 8, wrong for 3, 5, 6 and others."""
    heads = W.unflatten(1, (n_heads, -1))
    while heads.shape[1] >= 2 * n_kv_heads and heads.shape[1] % 2 == 0:
        heads = (heads[:, 0::2] + heads[:, 1::2]) / 2
    return heads.flatten(1)


def pool_kv_heads__wrong_thirteenth_means_written_into_input(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Gathers the sum of a group in its first head, inside of W; the input should be left as it is."""
    d_head, r = W.shape[1] // n_heads, n_heads // n_kv_heads
    kept = []
    for s in range(n_kv_heads):
        first = W[:, s * r * d_head : (s * r + 1) * d_head]
        for a in range(s * r + 1, (s + 1) * r):
            first += W[:, a * d_head : (a + 1) * d_head]
        first /= r
        kept.append(first)
    return torch.cat(kept, dim=1)


def pool_kv_heads__right_thirteenth_times_a_pooling_matrix(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Multiplies by a matrix of zeros and 1/r that sends each column to its place in its group."""
    d_head = W.shape[1] // n_heads
    r = n_heads // n_kv_heads
    columns = torch.arange(W.shape[1])
    target = columns // (r * d_head) * d_head + columns % d_head
    pooling = W.new_zeros(W.shape[1], n_kv_heads * d_head)
    pooling[columns, target] = 1 / r
    return W @ pooling


# ------- 5.7 extend_cache


def extend_cache__wrong_thirteenth_triangle_at_top_left(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Counts rows and columns of the table at hand: new token r sees columns 0 ... r; it stands at position t + r."""
    K, V = (
        torch.cat([kept, _split_heads(X_new @ W, n_kv_heads)], dim=2) for kept, W in zip(cache, (W_K, W_V), strict=True)
    )
    Q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1))  # (B, g, r, n_new, d_head)
    causal = torch.ones(X_new.shape[1], K.shape[2], dtype=torch.bool).tril()
    scores = torch.einsum("bgrid,bgjd->bgrij", Q, K) / math.sqrt(Q.shape[-1])
    heads = torch.einsum("bgrij,bgjd->bgrid", _masked_softmax(scores, causal), V)
    return _merge_heads(heads.flatten(1, 2)) @ W_O, (K, V)


def extend_cache__wrong_thirteenth_future_needs_no_mask(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Thinks a cache makes the mask needless, as for one token; here later new tokens are among the keys."""
    B, n_new, _ = X_new.shape
    r = n_heads // n_kv_heads
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    queue = _split_heads(X_new @ W_Q, n_heads).reshape(B, n_kv_heads, r * n_new, -1)
    weights = torch.softmax(queue @ K.mT / math.sqrt(queue.shape[-1]), dim=-1)
    heads = (weights @ V).reshape(B, n_heads, n_new, -1)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_thirteenth_new_tokens_ignore_each_other(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Lets each new token see the cache and itself, as if each came alone; it also sees the new ones before it."""
    B, n_new, _ = X_new.shape
    K_old, V_old = cache
    t, g, d = K_old.shape[2], n_kv_heads, K_old.shape[3]
    k, v = _split_heads(X_new @ W_K, g), _split_heads(X_new @ W_V, g)
    K, V = torch.cat([K_old, k], dim=2), torch.cat([V_old, v], dim=2)
    q = _split_heads(X_new @ W_Q, n_heads).reshape(B, g, -1, n_new, d)
    see = torch.cat([torch.ones(n_new, t, dtype=torch.bool), torch.eye(n_new, dtype=torch.bool)], dim=1)
    scores = (q.flatten(2, 3) @ K.mT / math.sqrt(d)).unflatten(2, (-1, n_new))
    weights = _masked_softmax(scores, see)
    out = (weights.flatten(2, 3) @ V).reshape(B, n_heads, n_new, d)
    return _merge_heads(out) @ W_O, (K, V)


def extend_cache__wrong_thirteenth_one_column_too_many(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Sets the diagonal at t + 1, so that each new token sees the one behind it; new token r sees up to t + r."""
    keys, values = cache
    t = keys.shape[2]
    keys = torch.cat((keys, _split_heads(X_new @ W_K, n_kv_heads)), 2)
    values = torch.cat((values, _split_heads(X_new @ W_V, n_kv_heads)), 2)
    queries = _split_heads(X_new @ W_Q, n_heads)
    n_new, total = X_new.shape[1], keys.shape[2]
    allowed = torch.tril(torch.ones(n_new, total, dtype=torch.bool), diagonal=t + 1)
    r = n_heads // n_kv_heads
    heads = []
    for a in range(n_heads):
        s = queries[:, a] @ keys[:, a // r].mT / math.sqrt(queries.shape[-1])
        heads.append(_masked_softmax(s, allowed) @ values[:, a // r])
    return torch.cat(heads, dim=-1) @ W_O, (keys, values)


def extend_cache__wrong_thirteenth_mask_rows_repeated_in_place(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Repeats each row of the mask r times, token after token; the queue stands head after head."""
    B, n_new, _ = X_new.shape
    r, d_head = n_heads // n_kv_heads, W_K.shape[1] // n_kv_heads
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    positions = cache[0].shape[2] + torch.arange(n_new)
    mask = torch.arange(K.shape[2]) <= positions[:, None]
    queue_mask = mask.repeat_interleave(r, dim=0)  # (r*n_new, t + n_new)
    queue = _split_heads(X_new @ W_Q, n_heads).reshape(B, n_kv_heads, r * n_new, d_head)
    found = _masked_softmax(queue @ K.mT / math.sqrt(d_head), queue_mask) @ V
    return _merge_heads(found.reshape(B, n_heads, n_new, d_head)) @ W_O, (K, V)


def extend_cache__wrong_thirteenth_only_new_ones_returned(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Reads a new tuple as one of the new tokens alone, (B, g, n_new, d_head); the cache returned holds all."""
    k_new, v_new = _split_heads(X_new @ W_K, n_kv_heads), _split_heads(X_new @ W_V, n_kv_heads)
    K, V = torch.cat([cache[0], k_new], 2), torch.cat([cache[1], v_new], 2)
    (B, g, total, d), n_new = K.shape, X_new.shape[1]
    Q = (X_new @ W_Q).unflatten(-1, (g, n_heads // g, d))  # (B, n_new, g, r, d)
    S = torch.einsum("bigrd,bgjd->bgrij", Q, K) / math.sqrt(d)
    see = torch.arange(total) <= torch.arange(total - n_new, total)[:, None]
    out = torch.einsum("bgrij,bgjd->bigrd", _masked_softmax(S, see), V).flatten(2) @ W_O
    return out, (k_new, v_new)


def extend_cache__wrong_thirteenth_no_mask_while_empty(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Makes the mask only where something is cached; behind an empty cache the new tokens see their future."""
    B, n_new, _ = X_new.shape
    t, r = cache[0].shape[2], n_heads // n_kv_heads
    K, V = (torch.cat([c, _split_heads(X_new @ W, n_kv_heads)], dim=2) for c, W in zip(cache, (W_K, W_V), strict=True))
    mask = None
    if t > 0:
        mask = torch.ones(n_new, t + n_new, dtype=torch.bool).tril(t).repeat(r, 1)
    rows = _split_heads(X_new @ W_Q, n_heads).reshape(B, n_kv_heads, r * n_new, -1)
    weights = _masked_softmax(rows @ K.mT / math.sqrt(rows.shape[-1]), mask)
    heads = (weights @ V).unflatten(2, (r, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_thirteenth_whole_square_of_mask(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Right numbers, but cuts the mask from the whole (t + n_new, t + n_new) triangle, too large for a long cache."""
    B, n_new, _ = X_new.shape
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    total, d = K.shape[2], K.shape[3]
    mask = torch.ones(total, total, dtype=torch.bool).tril()[-n_new:]
    q = _split_heads(X_new @ W_Q, n_heads).reshape(B, n_kv_heads, -1, d)
    scores = (q @ K.mT / math.sqrt(d)).unflatten(2, (-1, n_new))
    heads = _masked_softmax(scores, mask).flatten(2, 3) @ V
    return _merge_heads(heads.reshape(B, n_heads, n_new, d)) @ W_O, (K, V)


def extend_cache__right_thirteenth_old_and_new_apart(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Scores the old keys without any mask and the new ones under a small triangle, joined in one softmax."""
    K_old, V_old = cache
    (B, g, t, d), n_new = K_old.shape, X_new.shape[1]
    k, v = (_split_heads(X_new @ W, g) for W in (W_K, W_V))
    q = _split_heads(X_new @ W_Q, n_heads).reshape(B, g, -1, d) / math.sqrt(d)  # (B, g, r*n_new, d)
    row = torch.arange(q.shape[2]) % n_new
    future = torch.arange(n_new) > row[:, None]
    scores = torch.cat([q @ K_old.mT, (q @ k.mT).masked_fill(future, -math.inf)], dim=-1)
    weights = torch.softmax(scores, dim=-1)
    heads = weights[..., :t] @ V_old + weights[..., t:] @ v
    out = _merge_heads(heads.reshape(B, n_heads, n_new, d)) @ W_O
    return out, (torch.cat([K_old, k], dim=2), torch.cat([V_old, v], dim=2))
