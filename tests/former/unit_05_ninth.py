"""Unit 5, MQA and GQA: answers as students would write them, wrong ones and right ones (ninth set)."""

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


def _repeat_kv(K, n_rep):
    return K.repeat_interleave(n_rep, dim=1)


# ------- 5.1 kv_cache_bytes


def kv_cache_bytes__wrong_ninth_sums_every_step(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Adds up the cache of every step, 1 + 2 + … + n_tokens, instead of taking its size after the last token."""
    per_token = 2 * n_kv_heads * d_head * bytes_per_value
    total = 0
    for _layer in range(n_layers):
        # the cache holds 1 token after the first step, 2 after the second, ...
        total += per_token * (n_tokens * (n_tokens + 1) // 2)
    return total * batch


def kv_cache_bytes__wrong_ninth_layers_bind_to_values(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Brackets are missing around keys + values, so the keys are counted in one layer only."""
    keys = batch * n_kv_heads * n_tokens * d_head
    values = batch * n_kv_heads * n_tokens * d_head
    numbers = keys + values * n_layers
    return numbers * bytes_per_value


def kv_cache_bytes__wrong_ninth_int64_product(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """The product is taken in a 64-bit tensor, which wraps around silently from 2**63 bytes on."""
    factors = torch.tensor([2, n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value])
    return int(factors.prod())


def kv_cache_bytes__wrong_ninth_bits_to_float(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Counts in bits and divides by 8 with a single slash, so the result is a float and not an exact int."""
    bits_per_value = 8 * bytes_per_value
    bits = math.prod([2, n_layers, n_kv_heads, d_head, n_tokens, batch, bits_per_value])
    return bits / 8


def kv_cache_bytes__right_ninth_double_and_add(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Multiplies by doubling and adding (Russian peasants), in Python's own integers all the way."""

    def times(a, b):
        total = 0
        while b > 0:
            if b & 1:
                total += a
            a, b = a << 1, b >> 1
        return total

    size = bytes_per_value
    for factor in (d_head, n_tokens, n_kv_heads, batch, n_layers):
        size = times(size, factor)
    return size + size


# ------- 5.2 repeat_kv


def repeat_kv__wrong_ninth_modulo_index(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Query head a is given key/value head a % g, so the heads come in turn instead of neighbours sharing."""
    g = K.shape[1]
    which = torch.arange(g * n_rep) % g
    return K.index_select(1, which)


def repeat_kv__wrong_ninth_interleaves_tokens(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Repeats along the tokens' axis and then reads the result as more heads, which mixes up the tokens."""
    B, g, n, d = K.shape
    longer = torch.repeat_interleave(K, n_rep, dim=2)
    return longer.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_ninth_strides_by_hand(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Takes strides for granted that only a contiguous K has, so other memory layouts give other numbers."""
    B, g, n, d = K.shape
    # a new axis that does not move in memory: each head is read n_rep times
    walk = torch.as_strided(K, (B, g, n_rep, n, d), (g * n * d, n * d, 0, d, 1))
    return walk.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_ninth_default_dtype(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Fills a tensor made with torch.zeros, so float64 comes out as float32."""
    B, g, n, d = K.shape
    wide = torch.zeros(B, g * n_rep, n, d)
    for head in range(g):
        for copy in range(n_rep):
            wide[:, head * n_rep + copy] = K[:, head]
    return wide


def repeat_kv__right_ninth_kron(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Takes the Kronecker product with a column of n_rep ones along the heads' axis."""
    ones = torch.ones(1, n_rep, 1, 1, dtype=K.dtype, device=K.device)
    return torch.kron(K.contiguous(), ones)


# ------- 5.3 grouped_query_attention


def grouped_query_attention__wrong_ninth_looks_into_all_groups(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Every query head attends to the keys of all g heads at once, in one softmax over g*n, not to its group's."""
    if n_heads % n_kv_heads != 0:
        raise ValueError("n_kv_heads must divide n_heads")
    n = X.shape[1]
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_kv_heads).flatten(1, 2).unsqueeze(1)  # (B, 1, g*n, d_head)
    V = _split_heads(X @ W_V, n_kv_heads).flatten(1, 2).unsqueeze(1)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is not None:
        mask = mask.expand(X.shape[0], n_heads, n, n).repeat(1, 1, 1, n_kv_heads)
    return _merge_heads(_masked_softmax(scores, mask) @ V) @ W_O


def grouped_query_attention__wrong_ninth_heads_stacked_last(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """The heads are stacked behind the columns, so that their columns interleave when they are merged."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    d = W_Q.shape[1] // n_heads
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    outputs = []
    for a in range(n_heads):
        s = a // r
        q = X @ W_Q[:, a * d : (a + 1) * d]
        k = X @ W_K[:, s * d : (s + 1) * d]
        v = X @ W_V[:, s * d : (s + 1) * d]
        weights = _masked_softmax(q @ k.mT / math.sqrt(d), None if mask is None else mask[:, a])
        outputs.append(weights @ v)
    return torch.stack(outputs, dim=-1).reshape(B, n, n_heads * d) @ W_O


def grouped_query_attention__wrong_ninth_three_axis_mask(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """A mask with three axes, (h, n, n), is taken for one with an axis of sequences, (B, n, n)."""
    if n_heads % n_kv_heads != 0:
        raise ValueError("the query heads cannot be shared out evenly")
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads).reshape(B, n_kv_heads, r * n, -1)
    K = _split_heads(X @ W_K, n_kv_heads)
    V = _split_heads(X @ W_V, n_kv_heads)
    scores = torch.matmul(Q, K.transpose(-1, -2)).view(B, n_heads, n, n) / Q.shape[-1] ** 0.5
    if mask is not None:
        if mask.dim() == 3:
            mask = mask.unsqueeze(1)
        scores = scores.masked_fill(~mask, float("-inf"))
    A = scores.softmax(dim=-1).view(B, n_kv_heads, r * n, n)
    heads = torch.matmul(A, V).view(B, n_heads, n, -1)
    return heads.permute(0, 2, 1, 3).reshape(B, n, -1) @ W_O


def grouped_query_attention__wrong_ninth_shares_out_unevenly(
    X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None
):
    """Where g does not divide h the heads are shared out unevenly, and no ValueError is raised."""
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = _split_heads(X @ W_K, n_kv_heads), _split_heads(X @ W_V, n_kv_heads)
    reads = [head * n_kv_heads // n_heads for head in range(n_heads)]
    scores = torch.einsum("bhid,bhjd->bhij", Q, K[:, reads]) * Q.shape[-1] ** -0.5
    weights = _masked_softmax(scores, mask)
    return torch.einsum("bhij,bhjd->bihd", weights, V[:, reads]).flatten(2) @ W_O


def grouped_query_attention__right_ninth_qk_and_ov_circuits(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Builds each head's W_Q W_K^T and W_V W_O first and adds up the heads, with no queries, keys or values at all."""
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"{n_heads} query heads cannot share {n_kv_heads} key/value heads evenly")
    B, n, _ = X.shape
    r, d_head = n_heads // n_kv_heads, W_Q.shape[1] // n_heads
    asks, gives = W_Q.split(d_head, dim=1), W_O.split(d_head, dim=0)
    keys, values = W_K.split(d_head, dim=1), W_V.split(d_head, dim=1)
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    total = torch.zeros_like(X)
    for head in range(n_heads):
        meets = asks[head] @ keys[head // r].mT / d_head**0.5  # (d_model, d_model)
        moves = values[head // r] @ gives[head]
        scores = X @ meets @ X.mT
        if mask is not None:
            scores = scores.masked_fill(~mask[:, head], -math.inf)
        total = total + scores.softmax(dim=-1) @ (X @ moves)
    return total


# ------- 5.4 multi_query_attention


def multi_query_attention__wrong_ninth_heads_compete(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """One softmax runs over the keys and the heads together, so that only all heads in sum have weight 1."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d_head = K.shape[-1]
    Q = (X @ W_Q).reshape(B, n, n_heads, d_head)
    scores = torch.einsum("bihd,bjd->bihj", Q, K) / d_head**0.5
    if mask is not None:
        allowed = mask.expand(B, n_heads, n, n).transpose(1, 2)
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    # the heads share the keys, so they also share the softmax
    A = torch.softmax(scores.flatten(2), dim=-1).unflatten(2, (n_heads, n))
    heads = torch.einsum("bihj,bjd->bihd", A, V)
    return heads.reshape(B, n, n_heads * d_head) @ W_O


def multi_query_attention__wrong_ninth_queue_of_tokens_mask(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The queue holds the heads of a token side by side, but for the mask it is read as the tokens of a head."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d_head = K.shape[2]
    queue = (X @ W_Q).reshape(B, n * n_heads, d_head)
    scores = torch.bmm(queue, K.mT) / d_head**0.5  # (B, h*n, n)
    weights = _masked_softmax(scores.reshape(B, n_heads, n, n), mask)
    heads = torch.bmm(weights.reshape(B, n_heads * n, n), V)
    return heads.reshape(B, n, n_heads * d_head) @ W_O


def multi_query_attention__wrong_ninth_one_maximum_for_all(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Subtracts one maximum of the whole tensor, so rows whose scores lie far below it underflow to zeros."""
    K = (X @ W_K)[:, None]
    V = (X @ W_V)[:, None]
    Q = _split_heads(X @ W_Q, n_heads)
    scores = Q @ K.mT / math.sqrt(K.shape[-1])
    e = torch.exp(scores - scores.max())
    if mask is not None:
        e = e * mask
    A = e / e.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(e.dtype).tiny)
    return _merge_heads(A @ V) @ W_O


def multi_query_attention__wrong_ninth_wide_value_weights(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Repeats W_V for all heads, so that X @ W_V holds the values once per head, which is forbidden."""
    B, n, _ = X.shape
    Q = _split_heads(X @ W_Q, n_heads)
    K = X @ W_K
    V = _split_heads(X @ W_V.repeat(1, n_heads), n_heads)
    d_head = K.shape[-1]
    scores = (Q.flatten(1, 2) @ K.mT).unflatten(1, (n_heads, n)) / d_head**0.5
    weights = _masked_softmax(scores, mask)
    return _merge_heads(weights @ V) @ W_O


def multi_query_attention__right_ninth_absorbed_weights(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Turns the queries by W_K^T and the mixed X by W_V, so that no keys or values ever come into being."""
    B, n, d_model = X.shape
    d_head = W_K.shape[1]
    asked = (X @ W_Q).reshape(B, n * n_heads, d_head) @ W_K.mT / d_head**0.5  # rows: token, then head
    scores = torch.bmm(asked, X.mT).unflatten(1, (n, n_heads))
    if mask is not None:
        allowed = mask.expand(B, n_heads, n, n).transpose(1, 2)
        scores = scores.masked_fill(~allowed, -math.inf)
    mixed = torch.bmm(scores.softmax(dim=-1).flatten(1, 2), X)  # (B, n*h, d_model)
    return (mixed @ W_V).reshape(B, n, n_heads * d_head) @ W_O


# ------- 5.5 decode_step


def decode_step__wrong_ninth_looks_before_growing(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The query looks at the old cache only, and the token enters it afterwards; so it does not see itself."""
    kept_K, kept_V = cache
    r = n_heads // n_kv_heads
    k, v = _split_heads(x @ W_K, n_kv_heads), _split_heads(x @ W_V, n_kv_heads)
    q = _split_heads(x @ W_Q, n_heads)
    # the very first token has nothing to look back at but itself
    seen_K, seen_V = (kept_K, kept_V) if kept_K.shape[2] > 0 else (k, v)
    scores = q @ _repeat_kv(seen_K, r).mT / q.shape[-1] ** 0.5
    out = _merge_heads(torch.softmax(scores, dim=-1) @ _repeat_kv(seen_V, r)) @ W_O
    return out, (torch.cat([kept_K, k], dim=2), torch.cat([kept_V, v], dim=2))


def decode_step__wrong_ninth_queue_merged_across(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """On the way back from the queue the two axes of heads are swapped, so the heads are merged in a wrong order."""
    B = x.shape[0]
    d_head = W_K.shape[1] // n_kv_heads
    r = n_heads // n_kv_heads
    q = (x @ W_Q).view(B, n_kv_heads, r, d_head)
    K = torch.cat([cache[0], (x @ W_K).view(B, n_kv_heads, 1, d_head)], dim=2)
    V = torch.cat([cache[1], (x @ W_V).view(B, n_kv_heads, 1, d_head)], dim=2)
    weights = torch.softmax(q @ K.transpose(2, 3) / d_head**0.5, dim=-1)  # (B, g, r, t+1)
    heads = (weights @ V).transpose(1, 2).reshape(B, 1, n_heads * d_head)
    return heads @ W_O, (K, V)


def decode_step__wrong_ninth_clamped_exponent(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Scores are clamped to ±60 before the exponential, so large scores become equal instead of deciding."""
    new = [_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V)]
    K, V = (torch.cat([old, one], dim=2) for old, one in zip(cache, new, strict=True))
    q = _split_heads(x @ W_Q, n_heads).reshape(K.shape[0], n_kv_heads, -1, K.shape[-1])
    scores = torch.einsum("bgrd,bgtd->bgrt", q, K) / math.sqrt(K.shape[-1])
    e = torch.exp(scores.clamp(-60.0, 60.0))  # no overflow
    A = e / e.sum(dim=-1, keepdim=True)
    out = torch.einsum("bgrt,bgtd->bgrd", A, V).reshape(x.shape[0], 1, -1) @ W_O
    return out, (K, V)


def decode_step__wrong_ninth_room_is_shared(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Writes the new token into the room behind the cache it was given, which another returned cache may be using."""
    t, r = cache[0].shape[2], n_heads // n_kv_heads

    def put_behind(kept, new):
        room = kept._base
        if room is None or room.dim() != 4 or room.shape[2] <= t or room.shape[:2] != kept.shape[:2]:
            room = kept.new_zeros(*kept.shape[:2], 2 * t + 4, kept.shape[3])
            room[:, :, :t] = kept
        room[:, :, t : t + 1] = new
        return room[:, :, : t + 1]

    K = put_behind(cache[0], _split_heads(x @ W_K, n_kv_heads))
    V = put_behind(cache[1], _split_heads(x @ W_V, n_kv_heads))
    q = _split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    A = torch.softmax(q @ K.mT / q.shape[-1] ** 0.5, dim=-1)
    return (A @ V).reshape(x.shape[0], 1, -1) @ W_O, (K, V)


def decode_step__right_ninth_streamed_chunks(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Reads the grown cache in chunks of 32 tokens and keeps a running maximum, sum and mix of the softmax."""
    B, d_head = x.shape[0], W_K.shape[1] // n_kv_heads
    K, V = (
        torch.cat([kept, (x @ W).reshape(B, n_kv_heads, 1, d_head)], dim=2)
        for kept, W in zip(cache, (W_K, W_V), strict=True)
    )
    q = (x @ W_Q).reshape(B, n_kv_heads, n_heads // n_kv_heads, d_head) / d_head**0.5
    top = total = mix = None
    for keys, values in zip(K.split(32, dim=2), V.split(32, dim=2), strict=True):
        scores = q @ keys.mT
        highest = scores.amax(dim=-1, keepdim=True)
        if top is not None:
            highest = torch.maximum(highest, top)
        e = torch.exp(scores - highest)
        now, now_mix = e.sum(dim=-1, keepdim=True), e @ values
        if top is not None:
            shrink = torch.exp(top - highest)
            now, now_mix = now + shrink * total, now_mix + shrink * mix
        top, total, mix = highest, now, now_mix
    return (mix / total).reshape(B, 1, n_heads * d_head) @ W_O, (K, V)


# ------- 5.6 pool_kv_heads


def pool_kv_heads__wrong_ninth_keeps_the_variance(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Rescales each mean by the root of the group's size, to keep the spread of the weights; a mean is asked for."""
    r = n_heads // n_kv_heads
    heads = W.unflatten(1, (n_kv_heads, r, -1))
    # a mean of r independent heads would be smaller by sqrt(r)
    return heads.sum(dim=2).flatten(1) / r**0.5


def pool_kv_heads__wrong_ninth_every_gth_head(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Head a is added to group a % g, so heads far apart are pooled and not neighbours."""
    r = n_heads // n_kv_heads
    groups = [0] * n_kv_heads
    for a, head in enumerate(W.chunk(n_heads, dim=1)):
        groups[a % n_kv_heads] = groups[a % n_kv_heads] + head / r
    return torch.cat(groups, dim=1)


def pool_kv_heads__wrong_ninth_halves_again_and_again(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Takes the mean of the mean so far and the next head, which favours late heads in groups of three or more."""
    d_head = W.shape[1] // n_heads
    heads = list(W.split(d_head, dim=1))
    size = n_heads // n_kv_heads
    pooled = []
    for start in range(0, n_heads, size):
        mean = heads[start]
        for other in heads[start + 1 : start + size]:
            mean = (mean + other) / 2
        pooled.append(mean)
    return torch.cat(pooled, dim=1)


def pool_kv_heads__wrong_ninth_adds_into_W(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Adds up the heads in place in a view of W, so the first head of each group in W itself is overwritten."""
    r = n_heads // n_kv_heads
    heads = W.unflatten(1, (n_kv_heads, r, W.shape[1] // n_heads))
    total = heads[:, :, 0]
    for j in range(1, r):
        total += heads[:, :, j]
    return (total / r).flatten(1)


def pool_kv_heads__right_ninth_pooling_matrix(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Multiplies W by a matrix, a Kronecker product that sends each column to its place with the share 1/r."""
    r, d_head = n_heads // n_kv_heads, W.shape[1] // n_heads
    like = {"dtype": W.dtype, "device": W.device}
    joins = torch.kron(torch.eye(n_kv_heads, **like), torch.full((r, 1), 1 / r, **like))  # (h, g)
    return W @ torch.kron(joins, torch.eye(d_head, **like))


# ------- 5.7 extend_cache


def extend_cache__wrong_ninth_top_left_corner(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The causal triangle sits in the top left corner, so new token i sees columns 0 … i as if the cache were empty."""
    B, n_new, _ = X_new.shape
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    n, d_head = K.shape[2], K.shape[3]
    queue = _split_heads(X_new @ W_Q, n_heads).reshape(B, n_kv_heads, -1, d_head)
    scores = (queue @ K.mT).reshape(B, n_heads, n_new, n) / d_head**0.5
    mask = torch.ones(n_new, n, dtype=torch.bool, device=K.device).tril()
    weights = _masked_softmax(scores, mask).reshape(B, n_kv_heads, -1, n)
    heads = (weights @ V).reshape(B, n_heads, n_new, d_head)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_ninth_queue_row_to_token(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """For the mask, row i of the queue is taken for token i // r, but the queue holds one head after another."""
    B, n_new, _ = X_new.shape
    r, t = n_heads // n_kv_heads, cache[0].shape[2]
    K, V = (
        torch.cat((old, _split_heads(X_new @ W, n_kv_heads)), dim=2) for old, W in zip(cache, (W_K, W_V), strict=True)
    )
    queue = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    scores = torch.einsum("bgqd,bgkd->bgqk", queue, K) / K.shape[-1] ** 0.5
    position = t + torch.arange(r * n_new, device=K.device) // r
    late = torch.arange(t + n_new, device=K.device) > position[:, None]
    A = scores.masked_fill(late, -torch.inf).softmax(-1)
    heads = torch.einsum("bgqk,bgkd->bgqd", A, V).unflatten(2, (r, n_new)).flatten(1, 2)
    return heads.transpose(1, 2).reshape(B, n_new, -1) @ W_O, (K, V)


def extend_cache__wrong_ninth_fills_with_ten_thousand(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The future is filled with -1e4, which is not lower than the lowest scores, so tokens with such scores see it."""
    d_head = W_Q.shape[1] // n_heads
    t, n_new = cache[0].shape[2], X_new.shape[1]
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    Q = _split_heads(X_new @ W_Q, n_heads)
    future = torch.ones(n_new, n_new, dtype=torch.bool, device=K.device).triu(1)
    columns = []
    for head in range(n_heads):
        group = head // (n_heads // n_kv_heads)
        scores = Q[:, head] @ K[:, group].mT / d_head**0.5
        old, new = scores[..., :t], scores[..., t:].masked_fill(future, -1e4)
        columns.append(torch.cat([old, new], dim=-1).softmax(dim=-1) @ V[:, group])
    return torch.cat(columns, dim=-1) @ W_O, (K, V)


def extend_cache__wrong_ninth_cuts_a_square_mask(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Builds the whole square causal mask and cuts off its last rows: right numbers, but (t + n_new)**2 booleans."""
    B, n_new, _ = X_new.shape
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    n = K.shape[2]
    causal = torch.ones(n, n, dtype=torch.bool, device=K.device).tril()[-n_new:]
    q = _split_heads(X_new @ W_Q, n_heads).flatten(1, 2).unflatten(1, (n_kv_heads, -1))
    scores = q @ K.mT * K.shape[-1] ** -0.5
    weights = _masked_softmax(scores.unflatten(2, (-1, n_new)), causal).flatten(2, 3)
    heads = (weights @ V).reshape(B, n_heads, n_new, -1)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__right_ninth_past_and_present_apart(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Attends to the cache (no mask) and to the new tokens (a small triangle) apart, and joins the two softmax sums."""
    B, n_new, _ = X_new.shape
    r, d_head, t = n_heads // n_kv_heads, W_Q.shape[1] // n_heads, cache[0].shape[2]
    k, v = (_split_heads(X_new @ W, n_kv_heads) for W in (W_K, W_V))
    queue = (_split_heads(X_new @ W_Q, n_heads) / d_head**0.5).reshape(B, n_kv_heads, r * n_new, d_head)
    token = torch.arange(n_new, device=X_new.device)
    future = (token > token[:, None]).repeat(r, 1)  # the queue: one head after another
    present = (queue @ k.mT).masked_fill(future, -math.inf)
    top = present.amax(dim=-1, keepdim=True)
    past = queue @ cache[0].mT
    if t > 0:
        top = torch.maximum(top, past.amax(dim=-1, keepdim=True))
    e_present, e_past = torch.exp(present - top), torch.exp(past - top)
    total = e_present.sum(dim=-1, keepdim=True) + e_past.sum(dim=-1, keepdim=True)
    heads = (e_present @ v + e_past @ cache[1]) / total
    out = _merge_heads(heads.reshape(B, n_heads, n_new, d_head)) @ W_O
    return out, (torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2))
