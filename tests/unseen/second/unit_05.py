import functools
import math
import operator

import numpy as np
import torch
import torch.nn.functional as F


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


def repeat_kv(K, n_rep):
    return K.repeat_interleave(n_rep, dim=1)


def grouped_query_attention(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads do not divide {n_heads} heads")
    Q = split_heads(X @ W_Q, n_heads)
    K, V = (repeat_kv(split_heads(X @ W, n_kv_heads), n_heads // n_kv_heads) for W in (W_K, W_V))
    weights = masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return merge_heads(weights @ V) @ W_O


# kv_cache_bytes


def kv_cache_bytes__wrong_keys_only(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Only one number is counted for a key and its value together: the 2 is taken for that of half precision."""
    per_token = n_kv_heads * d_head * bytes_per_value
    return n_layers * per_token * n_tokens * batch


def kv_cache_bytes__wrong_counts_bits_first(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Bits divided by 8 with a slash: a float, and not exact for large caches."""
    values = 2 * n_layers * n_kv_heads * d_head * n_tokens * batch
    bits = values * bytes_per_value * 8
    return bits / 8


def kv_cache_bytes__wrong_numpy_overflows(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """A NumPy product of 64 bits: for very large caches it wraps around silently."""
    sizes = np.array([2, n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value], dtype=np.int64)
    return int(np.prod(sizes))


def kv_cache_bytes__wrong_all_steps_summed(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Adds up the cache after every step, so the bytes grow with the square of the tokens."""
    one_token = 2 * n_layers * n_kv_heads * d_head * bytes_per_value
    return batch * one_token * n_tokens * (n_tokens + 1) // 2


def kv_cache_bytes__wrong_last_token_left_out(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """The newest token is not counted, as if only those before it were kept."""
    total = 0
    for _ in range(n_layers):
        keys = n_kv_heads * d_head * max(n_tokens - 1, 0)
        values = keys
        total += (keys + values) * batch * bytes_per_value
    return total


def kv_cache_bytes__right_reduce(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Keys and values are sized apart, as products of the axes of their tensors, and added."""
    shape = (n_layers, batch, n_kv_heads, n_tokens, d_head)
    numbers = functools.reduce(operator.mul, shape, 1)
    return sum(numbers * bytes_per_value for _ in ("K", "V"))


# repeat_kv


def repeat_kv__wrong_heads_in_turn(K, n_rep):
    """The new axis goes in front of the heads: 0, 1, 0, 1, … and not 0, 0, 1, 1, …"""
    B, g, n, d = K.shape
    K = K.unsqueeze(1).expand(B, n_rep, g, n, d)
    return K.reshape(B, n_rep * g, n, d)


def repeat_kv__wrong_repeats_tokens(K, n_rep):
    """The tokens are repeated, not the heads: dim is counted wrongly from the end."""
    return torch.repeat_interleave(K, n_rep, dim=-2)


def repeat_kv__wrong_single_numbers_repeated(K, n_rep):
    """Flattens first, so that each number is repeated n_rep times in a row, not each head."""
    B, g, n, d = K.shape
    wide = K.reshape(B, -1).repeat_interleave(n_rep, dim=1)
    return wide.view(B, g * n_rep, n, d)


def repeat_kv__wrong_copies_along_batch(K, n_rep):
    """The copies are put along the batch, and the reshape hands heads of other sequences out."""
    B, g, n, d = K.shape
    copies = torch.cat([K] * n_rep, dim=0)
    return copies.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_by_numpy(K, n_rep):
    """Goes through NumPy, where the gradient is cut off."""
    wide = np.repeat(K.detach().numpy(), n_rep, axis=1)
    return torch.from_numpy(wide)


def repeat_kv__right_by_ones(K, n_rep):
    """An outer product with n_rep ones, then the two axes are joined."""
    return torch.einsum("bgnd,r->bgrnd", K, K.new_ones(n_rep)).flatten(1, 2)


# grouped_query_attention


def grouped_query_attention__wrong_no_error(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Where g does not divide h, groups of unequal size are served and no ValueError comes."""
    d_head = W_Q.shape[1] // n_heads
    K, V = split_heads(X @ W_K, n_kv_heads), split_heads(X @ W_V, n_kv_heads)
    B, n = X.shape[:2]
    outs = []
    for a in range(n_heads):
        kv = a * n_kv_heads // n_heads
        q = X @ W_Q[:, a * d_head : (a + 1) * d_head]
        scores = q @ K[:, kv].mT / math.sqrt(d_head)
        see = None if mask is None else mask.expand(B, n_heads, n, n)[:, a]
        outs.append(masked_softmax(scores, see) @ V[:, kv])
    return torch.cat(outs, dim=-1) @ W_O


def grouped_query_attention__wrong_root_of_kv_width(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Divides by the root of the width of W_K, which holds all g heads, not of one head."""
    if n_heads % n_kv_heads != 0:
        raise ValueError("n_kv_heads must divide n_heads")
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    d_k = K.shape[-1]
    Q = split_heads(Q, n_heads)
    K = repeat_kv(split_heads(K, n_kv_heads), n_heads // n_kv_heads)
    V = repeat_kv(split_heads(V, n_kv_heads), n_heads // n_kv_heads)
    weights = masked_softmax(Q @ K.transpose(-2, -1) / math.sqrt(d_k), mask)
    return merge_heads(weights @ V) @ W_O


def grouped_query_attention__wrong_values_in_turn(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """The keys are shared by neighbours, the values are laid out in turn."""
    rep, rest = divmod(n_heads, n_kv_heads)
    if rest:
        raise ValueError(f"g = {n_kv_heads} does not divide h = {n_heads}")
    Q = split_heads(X @ W_Q, n_heads)
    K = torch.repeat_interleave(split_heads(X @ W_K, n_kv_heads), rep, dim=1)
    V = split_heads(X @ W_V, n_kv_heads).repeat(1, rep, 1, 1)
    S = torch.einsum("bhid,bhjd->bhij", Q, K) * Q.shape[-1] ** -0.5
    return torch.einsum("bhij,bhjd->bihd", masked_softmax(S, mask), V).flatten(2) @ W_O


def grouped_query_attention__wrong_hidden_scores_are_zero(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Forbidden scores are multiplied to 0, so their keys still take part in the softmax."""
    if n_heads % n_kv_heads:
        raise ValueError("g has to divide h")
    rep = n_heads // n_kv_heads
    Q = split_heads(X @ W_Q, n_heads)
    K, V = (repeat_kv(split_heads(X @ W, n_kv_heads), rep) for W in (W_K, W_V))
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores * mask
    return merge_heads(scores.softmax(dim=-1) @ V) @ W_O


def grouped_query_attention__wrong_queue_by_reshape(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """The queues of the groups are cut from X W_Q by a reshape alone, which mixes tokens and heads."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_heads} heads cannot share {n_kv_heads} evenly")
    B, n, _ = X.shape
    g, r = n_kv_heads, n_heads // n_kv_heads
    d_head = W_Q.shape[1] // n_heads
    Q = (X @ W_Q).reshape(B, g, r * n, d_head)
    K, V = split_heads(X @ W_K, g), split_heads(X @ W_V, g)
    scores = (Q @ K.mT / math.sqrt(d_head)).reshape(B, n_heads, n, n)
    weights = masked_softmax(scores, mask).reshape(B, g, r * n, n)
    return merge_heads((weights @ V).reshape(B, n_heads, n, d_head)) @ W_O


def grouped_query_attention__right_five_axes(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Groups and heads in a group have axes of their own, by einsum; W_O is cut in blocks as well."""
    g, (r, rest) = n_kv_heads, divmod(n_heads, n_kv_heads)
    if rest:
        raise ValueError(f"{g} key/value heads do not divide {n_heads} query heads")
    Q = (X @ W_Q).unflatten(-1, (g, r, -1))
    K, V = (X @ W_K).unflatten(-1, (g, -1)), (X @ W_V).unflatten(-1, (g, -1))
    S = torch.einsum("bigrd,bjgd->bgrij", Q / math.sqrt(Q.shape[-1]), K)
    A = masked_softmax(S.flatten(1, 2), mask).unflatten(1, (g, r))
    return torch.einsum("bgrij,bjgd,grdm->bim", A, V, W_O.unflatten(0, (g, r, -1)))


# multi_query_attention


def multi_query_attention__wrong_copies_for_heads(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The numbers are right, but keys and values are written down once per head."""
    Q = split_heads(X @ W_Q, n_heads)
    K = (X @ W_K).unsqueeze(1).repeat(1, n_heads, 1, 1)
    V = (X @ W_V).unsqueeze(1).repeat(1, n_heads, 1, 1)
    weights = masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return merge_heads(weights @ V) @ W_O


def multi_query_attention__wrong_queue_read_back(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The queue has the heads of token 0 first, and is read back as if it had the tokens of head 0 first."""
    B, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads
    Q = (X @ W_Q).reshape(B, n * n_heads, d_head)
    K, V = X @ W_K, X @ W_V
    scores = torch.bmm(Q, K.mT) / math.sqrt(d_head)
    weights = masked_softmax(scores.view(B, n_heads, n, n), mask)
    heads = torch.bmm(weights.flatten(1, 2), V).view(B, n_heads, n, d_head)
    return merge_heads(heads) @ W_O


def multi_query_attention__wrong_mask_rows_interleaved(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The mask is brought into a queue with the heads of a token side by side; the scores have head after head."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    queue = split_heads(X @ W_Q, n_heads).flatten(1, 2)
    scores = queue @ K.mT / math.sqrt(K.shape[-1])
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).transpose(1, 2).flatten(1, 2)
    out = masked_softmax(scores, mask) @ V
    return merge_heads(out.unflatten(1, (n_heads, n))) @ W_O


def multi_query_attention__wrong_values_from_w_k(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """A line was copied and not changed: the values are made with W_K."""
    q = split_heads(X @ W_Q, n_heads)
    k = (X @ W_K)[:, None]
    v = (X @ W_K)[:, None]
    a = masked_softmax(q @ k.mT / k.shape[-1] ** 0.5, mask)
    return merge_heads(a @ v) @ W_O


def multi_query_attention__wrong_root_of_all_heads(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The root is taken of the width of all queries together, before they are cut into heads."""
    B, n, _ = X.shape
    Q = X @ W_Q
    Q = Q / math.sqrt(Q.shape[-1])
    K = X @ W_K
    V = X @ W_V
    S = torch.einsum("bnhd,bmd->bhnm", Q.view(B, n, n_heads, -1), K)
    O = torch.einsum("bhnm,bmd->bnhd", masked_softmax(S, mask), V)
    return O.reshape(B, n, -1) @ W_O


def multi_query_attention__right_sum_of_heads(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Head after head with the same K and V; each goes through its rows of W_O, and the shares are added."""
    B, n, _ = X.shape
    d_head = W_K.shape[1]
    K_T, V = (X @ W_K).mT / math.sqrt(d_head), X @ W_V
    see = None if mask is None else mask.expand(B, n_heads, n, n).unbind(1)
    out = torch.zeros_like(X)
    for a, (w_q, w_o) in enumerate(zip(W_Q.split(d_head, 1), W_O.split(d_head, 0))):
        weights = masked_softmax(X @ w_q @ K_T, None if see is None else see[a])
        out = out + weights @ V @ w_o
    return out


# decode_step


def decode_step__wrong_does_not_see_itself(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The query looks before the cache grows, so the new token is not among its keys."""
    K, V = cache
    r = n_heads // n_kv_heads
    q = split_heads(x @ W_Q, n_heads)
    scores = q @ repeat_kv(K, r).mT / math.sqrt(q.shape[-1])
    out = merge_heads(torch.softmax(scores, dim=-1) @ repeat_kv(V, r)) @ W_O
    K = torch.cat([K, split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V, split_heads(x @ W_V, n_kv_heads)], dim=2)
    return out, (K, V)


def decode_step__wrong_newest_first(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The new key and value are put in front of the kept ones."""
    k, v = (split_heads(x @ W, n_kv_heads) for W in (W_K, W_V))
    K, V = (torch.cat([new, old], dim=2) for new, old in zip((k, v), cache))
    Q = split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).flatten(2, 3)
    weights = torch.softmax(Q @ K.mT / math.sqrt(K.shape[-1]), dim=-1)
    heads = (weights @ V).flatten(1, 2).unsqueeze(2)
    return merge_heads(heads) @ W_O, (K, V)


def decode_step__wrong_cache_of_all_heads(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """What comes back is laid out for all query heads, h heads and not g."""
    n_rep = n_heads // n_kv_heads
    K, V = cache
    K = torch.cat((K, split_heads(x @ W_K, n_kv_heads)), dim=2)
    V = torch.cat((V, split_heads(x @ W_V, n_kv_heads)), dim=2)
    K, V = repeat_kv(K, n_rep), repeat_kv(V, n_rep)
    q = split_heads(x @ W_Q, n_heads)
    scores = torch.einsum("bhqd,bhkd->bhqk", q, K) / q.shape[-1] ** 0.5
    heads = torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), V)
    return merge_heads(heads) @ W_O, (K, V)


def decode_step__wrong_triangle_for_one_query(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """A causal triangle is laid over the single row of scores, and leaves it the oldest key alone."""
    d_head = W_Q.shape[1] // n_heads
    K = torch.cat([cache[0], split_heads(x @ W_K, n_kv_heads)], dim=-2)
    V = torch.cat([cache[1], split_heads(x @ W_V, n_kv_heads)], dim=-2)
    Q = split_heads(x @ W_Q, n_heads)
    rep = n_heads // n_kv_heads
    scores = Q @ repeat_kv(K, rep).mT / math.sqrt(d_head)
    mask = torch.tril(torch.ones(scores.shape[-2:], dtype=torch.bool))
    heads = masked_softmax(scores, mask) @ repeat_kv(V, rep)
    return merge_heads(heads) @ W_O, (K, V)


def decode_step__wrong_heads_grouped_in_turn(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Query head a is sent to key/value head a % g: neighbours do not share."""
    g, B = n_kv_heads, x.shape[0]
    K = torch.cat([cache[0], (x @ W_K).view(B, 1, g, -1).transpose(1, 2)], 2)
    V = torch.cat([cache[1], (x @ W_V).view(B, 1, g, -1).transpose(1, 2)], 2)
    q = (x @ W_Q).view(B, n_heads, -1)
    out = torch.zeros_like(q)
    for a in range(n_heads):
        s = torch.einsum("bd,btd->bt", q[:, a], K[:, a % g]) / math.sqrt(q.shape[-1])
        out[:, a] = torch.einsum("bt,btd->bd", torch.softmax(s, dim=1), V[:, a % g])
    return out.view(B, 1, -1) @ W_O, (K, V)


def decode_step__right_old_and_new_apart(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The queue meets the kept keys and its own key apart; the scores are joined for the softmax."""
    K, V = cache
    t, g = K.shape[2], n_kv_heads
    queue = (x @ W_Q).unflatten(2, (g, n_heads // g, -1)).squeeze(1)
    k, v = ((x @ W).unflatten(2, (g, -1)).transpose(1, 2) for W in (W_K, W_V))
    queue = queue / math.sqrt(k.shape[-1])
    weights = torch.softmax(torch.cat([queue @ K.mT, queue @ k.mT], dim=-1), dim=-1)
    heads = weights[..., :t] @ V + weights[..., t:] * v
    return heads.flatten(1).unsqueeze(1) @ W_O, (torch.cat([K, k], dim=2), torch.cat([V, v], dim=2))


# pool_kv_heads


def pool_kv_heads__wrong_far_heads_pooled(W, n_heads, n_kv_heads):
    """Cuts into (h/g, g) and not (g, h/g): heads a, a + g, a + 2g, … are pooled, not neighbours."""
    groups = W.unflatten(1, (n_heads // n_kv_heads, n_kv_heads, -1))
    return groups.mean(dim=1).flatten(1)


def pool_kv_heads__wrong_neighbouring_columns(W, n_heads, n_kv_heads):
    """Neighbouring columns are averaged, not the same column of neighbouring heads."""
    r = n_heads // n_kv_heads
    return F.avg_pool1d(W.unsqueeze(0), kernel_size=r, stride=r).squeeze(0)


def pool_kv_heads__wrong_mean_of_means(W, n_heads, n_kv_heads):
    """Averages pair by pair: from three heads on, the last one weighs a half."""
    heads = W.chunk(n_heads, dim=1)
    r = n_heads // n_kv_heads
    pooled = []
    for s in range(n_kv_heads):
        mean = heads[s * r]
        for head in heads[s * r + 1 : (s + 1) * r]:
            mean = (mean + head) / 2
        pooled.append(mean)
    return torch.cat(pooled, dim=1)


def pool_kv_heads__wrong_divides_by_g(W, n_heads, n_kv_heads):
    """The sum over a group is divided by the number of groups, not of the heads in one."""
    d_head = W.shape[1] // n_heads
    W = W.reshape(W.shape[0], n_kv_heads, -1, d_head)
    return (W.sum(dim=2) / n_kv_heads).reshape(W.shape[0], n_kv_heads * d_head)


def pool_kv_heads__wrong_adds_into_w(W, n_heads, n_kv_heads):
    """The other heads are added into the first block of W itself, which changes the weights handed in."""
    d_head = W.shape[1] // n_heads
    r = n_heads // n_kv_heads
    means = []
    for s in range(n_kv_heads):
        total = W[:, s * r * d_head : (s * r + 1) * d_head]
        for a in range(s * r + 1, (s + 1) * r):
            total += W[:, a * d_head : (a + 1) * d_head]
        means.append(total / r)
    return torch.cat(means, dim=1)


def pool_kv_heads__right_sum_over_slices(W, n_heads, n_kv_heads):
    """Heads go to the front; each group is a slice of them, and its mean is the sum over the slice over h/g."""
    r = n_heads // n_kv_heads
    heads = torch.stack(W.tensor_split(n_heads, dim=1))
    return torch.cat([sum(heads[s : s + r].unbind()) / r for s in range(0, n_heads, r)], dim=-1)


# extend_cache


def extend_cache__wrong_triangle_top_left(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """New token r sees the keys 0 … r, as if the cache were empty."""
    g, r, n_new = n_kv_heads, n_heads // n_kv_heads, X_new.shape[1]
    K = torch.cat([cache[0], split_heads(X_new @ W_K, g)], dim=2)
    V = torch.cat([cache[1], split_heads(X_new @ W_V, g)], dim=2)
    Q = split_heads(X_new @ W_Q, n_heads).unflatten(1, (g, r)).flatten(2, 3)
    scores = (Q @ K.mT / math.sqrt(K.shape[-1])).unflatten(2, (r, n_new)).flatten(1, 2)
    mask = torch.ones(n_new, K.shape[2], dtype=torch.bool).tril()
    weights = masked_softmax(scores, mask).unflatten(1, (g, r)).flatten(2, 3)
    heads = (weights @ V).unflatten(2, (r, n_new)).flatten(1, 2)
    return merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_mask_repeated_by_rows(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Each row of the mask is repeated for the heads, but the queue has all tokens of a head together."""
    K, V = cache
    t, n_new, rep = K.shape[2], X_new.shape[1], n_heads // n_kv_heads
    K = torch.cat([K, split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V, split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    Q = split_heads(X_new @ W_Q, n_heads)
    d_head = Q.shape[-1]
    Q = Q.reshape(-1, n_kv_heads, rep * n_new, d_head)
    mask = torch.ones(n_new, t + n_new, dtype=torch.bool).tril(diagonal=t)
    mask = mask.repeat_interleave(rep, dim=0)
    weights = masked_softmax(Q @ K.mT / d_head**0.5, mask)
    heads = (weights @ V).reshape(-1, n_heads, n_new, d_head)
    return merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_square_mask(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The numbers are right, but the causal mask of all tokens is made first, a square of the cache's length."""
    k_old, v_old = cache
    n_new, g = X_new.shape[1], n_kv_heads
    K = torch.cat([k_old, split_heads(X_new @ W_K, g)], dim=2)
    V = torch.cat([v_old, split_heads(X_new @ W_V, g)], dim=2)
    mask = causal_mask(K.shape[2])[-n_new:]
    Q = split_heads(X_new @ W_Q, n_heads).unflatten(1, (g, -1))
    scores = torch.einsum("bgrid,bgjd->bgrij", Q, K) / math.sqrt(Q.shape[-1])
    heads = torch.einsum("bgrij,bgjd->bgrid", masked_softmax(scores, mask), V)
    return merge_heads(heads.flatten(1, 2)) @ W_O, (K, V)


def extend_cache__wrong_keys_copied_per_head(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The numbers are right, but keys and values are copied for every query head."""
    K = torch.cat([cache[0], split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    rep, t = n_heads // n_kv_heads, cache[0].shape[2]
    Q = split_heads(X_new @ W_Q, n_heads)
    positions = t + torch.arange(X_new.shape[1])
    mask = torch.arange(K.shape[2])[None, :] <= positions[:, None]
    weights = masked_softmax(Q @ repeat_kv(K, rep).mT / math.sqrt(Q.shape[-1]), mask)
    return merge_heads(weights @ repeat_kv(V, rep)) @ W_O, (K, V)


def extend_cache__wrong_new_tokens_unmasked(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """No mask, as in a single step: a new token sees the new ones behind it."""
    B, n_new, _ = X_new.shape
    g = n_kv_heads
    d_head = W_K.shape[1] // g
    K, V = (
        torch.cat([old, (X_new @ W).reshape(B, n_new, g, d_head).transpose(1, 2)], dim=2)
        for old, W in zip(cache, (W_K, W_V))
    )
    heads = []
    for s, W in enumerate(W_Q.chunk(g, dim=1)):
        q = (X_new @ W).reshape(B, -1, d_head)
        a = torch.softmax(q @ K[:, s].mT / math.sqrt(d_head), dim=-1)
        heads.append((a @ V[:, s]).reshape(B, n_new, -1))
    return torch.cat(heads, dim=-1) @ W_O, (K, V)


def extend_cache__right_old_and_new_apart(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Scores with the kept keys need no mask; those with the new keys get a small triangle; one softmax over both."""
    g, t, n_new = n_kv_heads, cache[0].shape[2], X_new.shape[1]
    Q = (X_new @ W_Q).unflatten(2, (g, n_heads // g, -1))
    Q = Q / math.sqrt(Q.shape[-1])
    new = [(X_new @ W).unflatten(2, (g, -1)).transpose(1, 2) for W in (W_K, W_V)]
    past = torch.einsum("bigrd,bgjd->bgirj", Q, cache[0])
    among = torch.einsum("bigrd,bgjd->bgirj", Q, new[0])
    later = torch.arange(n_new) > torch.arange(n_new)[:, None, None]
    weights = torch.cat([past, among.masked_fill(later, -math.inf)], dim=-1).softmax(dim=-1)
    heads = torch.einsum("bgirj,bgjd->bigrd", weights[..., :t], cache[1])
    heads = heads + torch.einsum("bgirj,bgjd->bigrd", weights[..., t:], new[1])
    return heads.flatten(2) @ W_O, tuple(torch.cat(pair, dim=2) for pair in zip(cache, new))
