import functools
import math
import operator

import numpy as np
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


# ------------------------------------------------------------- kv_cache_bytes


def kv_cache_bytes__wrong_fifteenth_one_cache_for_the_whole_batch(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Counts one cache that all sequences share, as they share the weights; due is one for each sequence."""
    per_token_and_layer = 2 * n_kv_heads * d_head * bytes_per_value
    return n_layers * n_tokens * per_token_and_layer


def kv_cache_bytes__wrong_fifteenth_queries_kept_too(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Counts queries, keys and values; due are keys and values."""
    kept = ("query", "key", "value")
    numbers = len(kept) * n_layers * n_kv_heads * d_head * n_tokens * batch
    return numbers * bytes_per_value


def kv_cache_bytes__wrong_fifteenth_d_head_as_the_width_of_all_heads(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Takes d_head for the width of all key/value heads together; due is d_head for each of them."""
    keys = n_layers * d_head * n_tokens
    values = keys
    return (keys + values) * batch * bytes_per_value


def kv_cache_bytes__wrong_fifteenth_always_two_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Writes 2 bytes for a number whatever was asked; due is bytes_per_value."""
    bytes_of_keys = 2 * n_layers * n_kv_heads * d_head * n_tokens * batch
    return 2 * bytes_of_keys


def kv_cache_bytes__wrong_fifteenth_range_begins_at_one(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Adds up one layer too few; due is the sum over all n_layers."""
    one_layer = 2 * n_kv_heads * d_head * n_tokens * batch * bytes_per_value
    total = 0
    for _ in range(1, n_layers):
        total += one_layer
    return total


def kv_cache_bytes__wrong_fifteenth_in_kibibytes(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Returns whole KiB; due are bytes."""
    size = 2 * n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value
    return size // 1024


def kv_cache_bytes__wrong_fifteenth_product_in_64_bits(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Multiplies in int64, which wraps round from 2**63 on; due is exact at any size."""
    factors = np.array([2, n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value], dtype=np.int64)
    return int(factors.prod())


def kv_cache_bytes__wrong_fifteenth_counted_in_bits_and_divided(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Counts bits and divides by 8, which makes a float; due is an int."""
    bits_per_value = 8 * bytes_per_value
    values = 2 * n_layers * n_kv_heads * d_head * n_tokens * batch
    return values * bits_per_value / 8


def kv_cache_bytes__right_fifteenth_folded_over_the_factors(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Folds a multiplication over the sizes, beginning with one number, and doubles by a shift for keys and values."""
    sizes = (n_layers, n_kv_heads, d_head, n_tokens, batch)
    return functools.reduce(operator.mul, sizes, bytes_per_value) << 1


# ------------------------------------------------------------------ repeat_kv


def repeat_kv__wrong_fifteenth_whole_row_again_and_again(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Puts the axis of copies in front of the heads, [a, b, a, b]; due is [a, a, b, b]."""
    B, g, n, d = K.shape
    return K.unsqueeze(1).expand(B, n_rep, g, n, d).reshape(B, n_rep * g, n, d)


def repeat_kv__wrong_fifteenth_tokens_repeated_and_recut(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Repeats each token and cuts the longer axis into heads; due is to repeat whole heads."""
    B, g, n, d = K.shape
    longer = K.repeat_interleave(n_rep, dim=2)  # (B, g, n*n_rep, d)
    return longer.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_fifteenth_shared_out_among_the_readers(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Divides each copy by the number of its readers, so that gradients do not add up; due are unchanged copies."""
    share = K / n_rep
    return torch.cat([share[:, s : s + 1].expand(-1, n_rep, -1, -1) for s in range(K.shape[1])], dim=1)


def repeat_kv__wrong_fifteenth_groups_begin_one_head_apart(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Writes group s to the heads from s on; due is from s*n_rep on."""
    B, g, n, d = K.shape
    wide = K.new_zeros(B, g * n_rep, n, d)
    for s in range(g):
        wide[:, s : s + n_rep] = K[:, s : s + 1]
    return wide


def repeat_kv__wrong_fifteenth_sequences_repeated_in_its_place(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Takes heads and sequences for one axis and comes back with them swapped; due is (B, g) in that order."""
    B, g, n, d = K.shape
    rows = K.flatten(0, 1).repeat_interleave(n_rep, dim=0)  # (B*g*n_rep, n, d)
    return rows.reshape(g * n_rep, B, n, d).transpose(0, 1)


def repeat_kv__wrong_fifteenth_n_rep_as_the_number_wanted(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Takes n_rep for the number of query heads in all; due is the number for each key/value head."""
    g = K.shape[1]
    return torch.repeat_interleave(K, n_rep // g, dim=1)


def repeat_kv__wrong_fifteenth_nearest_of_evenly_spaced_places(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Rounds evenly spaced places to a head, which miscounts for many heads or readers; due is a // n_rep."""
    g = K.shape[1]
    source = torch.linspace(0, g - 1, g * n_rep, dtype=torch.float64).round().long()
    return K[:, source]


def repeat_kv__wrong_fifteenth_by_way_of_numpy(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Repeats in NumPy, where the gradient ends; due is a gradient that reaches K."""
    wide = np.repeat(K.detach().cpu().numpy(), n_rep, axis=1)
    return torch.from_numpy(wide).to(K.device)


def repeat_kv__right_fifteenth_kronecker_product_with_ones(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """The Kronecker product with (1, n_rep, 1, 1) ones puts each head n_rep times in a row."""
    return torch.kron(K.contiguous(), torch.ones(1, n_rep, 1, 1, dtype=K.dtype, device=K.device))


# ---------------------------------------------------- grouped_query_attention


def grouped_query_attention__wrong_fifteenth_one_mean_query_for_each_group(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Averages the queries of a group, which then asks once; due is a query for each head."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    Q = _repeat_kv(Q.unflatten(1, (n_kv_heads, r)).mean(dim=2), r)
    K, V = (_repeat_kv(_split_heads(X @ W, n_kv_heads), r) for W in (W_K, W_V))
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge_heads(weights @ V) @ W_O


def grouped_query_attention__wrong_fifteenth_one_softmax_for_the_group(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The heads of a group share one softmax over all their keys; due is a softmax for each head."""
    if n_heads % n_kv_heads != 0:
        raise ValueError("n_kv_heads must divide n_heads")
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    d_head = W_Q.shape[1] // n_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K = _repeat_kv(_split_heads(X @ W_K, n_kv_heads), r)
    V = _repeat_kv(_split_heads(X @ W_V, n_kv_heads), r)
    scores = Q @ K.mT / math.sqrt(d_head)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    in_group = scores.unflatten(1, (n_kv_heads, r)).transpose(2, 3).flatten(3)  # (B, g, n, r*n)
    weights = in_group.softmax(dim=-1).unflatten(3, (r, n)).transpose(2, 3).flatten(1, 2)
    return _merge_heads(weights @ V) @ W_O


def grouped_query_attention__wrong_fifteenth_every_head_sees_all_groups_keys(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Lays the keys of all key/value heads in one long row for every query head; due are those of its group."""
    if n_heads % n_kv_heads:
        raise ValueError("the key/value heads do not divide the query heads")
    B, n, _ = X.shape
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (_split_heads(X @ W, n_kv_heads).flatten(1, 2)[:, None] for W in (W_K, W_V))  # (B, 1, g*n, d_head)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).repeat(1, 1, 1, n_kv_heads)
    return _merge_heads(_masked_softmax(scores, mask) @ V) @ W_O


def grouped_query_attention__wrong_fifteenth_sign_of_the_exponent(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides by d_head to the power of −1/2, and so multiplies by the root; due is to divide by it."""
    if n_heads % n_kv_heads:
        raise ValueError(f"g = {n_kv_heads} does not divide h = {n_heads}")
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads).unflatten(1, (n_kv_heads, r))  # (B, g, r, n, d_head)
    K = _split_heads(X @ W_K, n_kv_heads)
    V = _split_heads(X @ W_V, n_kv_heads)
    scores = torch.einsum("bgrid,bgjd->bgrij", Q, K) / Q.shape[-1] ** -0.5
    weights = _masked_softmax(scores.flatten(1, 2), mask).unflatten(1, (n_kv_heads, r))
    return torch.einsum("bgrij,bgjd->bigrd", weights, V).flatten(2) @ W_O


def grouped_query_attention__wrong_fifteenth_groups_of_queries_overlap(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Group s takes the query heads from s on; due is from s*r on."""
    if n_heads % n_kv_heads:
        raise ValueError(f"g = {n_kv_heads} does not divide h = {n_heads}")
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    Q, K, V = _split_heads(X @ W_Q, n_heads), _split_heads(X @ W_K, n_kv_heads), _split_heads(X @ W_V, n_kv_heads)
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    found = []
    for s in range(n_kv_heads):
        scores = Q[:, s : s + r] @ K[:, s : s + 1].mT / math.sqrt(Q.shape[-1])
        seen = None if mask is None else mask[:, s * r : (s + 1) * r]
        found.append(_masked_softmax(scores, seen) @ V[:, s : s + 1])
    return _merge_heads(torch.cat(found, dim=1)) @ W_O


def grouped_query_attention__wrong_fifteenth_hands_back_keys_and_values_too(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the output and the (K, V) to keep; due is the output alone."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads do not divide {n_heads} heads")
    Q = _split_heads(X @ W_Q, n_heads)
    kept = tuple(_split_heads(X @ W, n_kv_heads) for W in (W_K, W_V))
    K, V = (_repeat_kv(T, n_heads // n_kv_heads) for T in kept)
    weights = _masked_softmax(Q @ K.mT / math.sqrt(K.shape[-1]), mask)
    return _merge_heads(weights @ V) @ W_O, kept


def grouped_query_attention__wrong_fifteenth_one_mask_for_each_group(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """All heads of a group take the mask of its first head; due is each head's own."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads do not divide {n_heads} heads")
    B, n, _ = X.shape
    r, d_head = n_heads // n_kv_heads, W_Q.shape[1] // n_heads
    Q = (X @ W_Q).reshape(B, n, n_kv_heads, r, d_head).permute(0, 2, 3, 1, 4)
    K, V = ((X @ W).reshape(B, n, n_kv_heads, 1, d_head).permute(0, 2, 3, 1, 4) for W in (W_K, W_V))
    scores = Q @ K.mT / math.sqrt(d_head)  # (B, g, r, n, n)
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)[:, ::r].unsqueeze(2)
    heads = _masked_softmax(scores, mask) @ V
    return heads.permute(0, 3, 1, 2, 4).reshape(B, n, -1) @ W_O


def grouped_query_attention__wrong_fifteenth_scales_the_weights_it_was_given(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides the caller's W_Q in place; due is to leave the inputs as they are."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads do not divide {n_heads} heads")
    d_head = W_Q.shape[1] // n_heads
    with torch.no_grad():
        W_Q /= math.sqrt(d_head)
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (_repeat_kv(_split_heads(X @ W, n_kv_heads), n_heads // n_kv_heads) for W in (W_K, W_V))
    return _merge_heads(_masked_softmax(Q @ K.mT, mask) @ V) @ W_O


def grouped_query_attention__right_fifteenth_key_after_key_with_a_running_maximum(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Walks over the keys one by one and keeps a maximum, a sum and a mixture for each query, rescaled as it goes."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads cannot serve {n_heads} query heads evenly")
    B, n, _ = X.shape
    r, d_head = n_heads // n_kv_heads, W_Q.shape[1] // n_heads
    Q = (X @ W_Q).reshape(B, n, n_kv_heads, r, d_head) / math.sqrt(d_head)
    K, V = ((X @ W).reshape(B, n, n_kv_heads, 1, d_head) for W in (W_K, W_V))
    seen = torch.ones((), dtype=torch.bool, device=X.device) if mask is None else mask
    seen = seen.expand(B, n_heads, n, n).permute(0, 2, 1, 3).reshape(B, n, n_kv_heads, r, n)
    lowest = torch.finfo(X.dtype).min
    top = torch.full_like(Q[..., 0], lowest)
    total, mixture = torch.zeros_like(top), torch.zeros_like(Q)
    for j in range(n):
        scores = (Q * K[:, j : j + 1]).sum(dim=-1).masked_fill(~seen[..., j], lowest)
        higher = torch.maximum(top, scores)
        fade, e = torch.exp(top - higher), torch.exp(scores - higher) * seen[..., j]
        total = total * fade + e
        mixture = mixture * fade[..., None] + e[..., None] * V[:, j : j + 1]
        top = higher
    return (mixture / total[..., None]).flatten(2) @ W_O


# ------------------------------------------------------ multi_query_attention


def multi_query_attention__wrong_fifteenth_one_table_of_summed_scores(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds the scores of all heads to one table of weights; due is a table for each head."""
    B, n, _ = X.shape
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = X @ W_K, X @ W_V
    scores = torch.einsum("bhid,bjd->bij", Q, K) / math.sqrt(K.shape[-1])
    weights = _masked_softmax(scores[:, None].expand(B, n_heads, n, n), mask)
    return torch.einsum("bhij,bjd->bihd", weights, V).flatten(2) @ W_O


def multi_query_attention__wrong_fifteenth_mask_queued_token_by_token(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The queue goes head after head, its mask token after token; due is one order for both."""
    B, n, _ = X.shape
    queue = _split_heads(X @ W_Q, n_heads).flatten(1, 2)  # (B, h*n, d_head)
    K, V = X @ W_K, X @ W_V
    scores = queue @ K.mT / math.sqrt(K.shape[-1])
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).transpose(1, 2).reshape(B, n * n_heads, n)
    heads = (_masked_softmax(scores, mask) @ V).unflatten(1, (n_heads, n))
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_fifteenth_heads_compete_for_the_keys(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The softmax runs over the heads, which share each key out; due is a softmax over the keys."""
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (X @ W_K).unsqueeze(1), (X @ W_V).unsqueeze(1)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=1)
    if mask is not None:
        weights = weights * mask
    return _merge_heads(weights @ V) @ W_O


def multi_query_attention__wrong_fifteenth_first_head_counted_twice(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The sum begins with head 0, and the loop adds it again; due is each head once."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d = K.shape[-1]
    seen = None if mask is None else mask.expand(B, n_heads, n, n)

    def written_by(a):
        block = slice(a * d, (a + 1) * d)
        scores = X @ W_Q[:, block] @ K.mT / math.sqrt(d)
        return _masked_softmax(scores, None if seen is None else seen[:, a]) @ V @ W_O[block]

    out = written_by(0)
    for a in range(n_heads):
        out = out + written_by(a)
    return out


def multi_query_attention__wrong_fifteenth_halved_and_not_rooted(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides by half of d_head, as d_head**1/2 reads without a parenthesis; due is its root."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d_head = K.shape[2]
    scale = d_head**1 / 2
    queue = _split_heads(X @ W_Q, n_heads).reshape(B, n_heads * n, d_head)
    scores = (queue @ K.mT / scale).reshape(B, n_heads, n, n)
    weights = _masked_softmax(scores, mask).reshape(B, n_heads * n, n)
    return _merge_heads((weights @ V).reshape(B, n_heads, n, d_head)) @ W_O


def multi_query_attention__wrong_fifteenth_shares_of_the_heads_not_summed(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns what each head writes, (B, h, n, d_model), as in unit 4; due is their sum."""
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (X @ W_K)[:, None], (X @ W_V)[:, None]
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return (weights @ V) @ W_O.unflatten(0, (n_heads, -1))


def multi_query_attention__wrong_fifteenth_scores_clipped_at_fifty(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Clips scores to ±50 so that no exponential overflows; due are scores of any size, unclipped."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    Q = _split_heads(X @ W_Q, n_heads).flatten(1, 2)
    scores = (Q @ K.transpose(1, 2) / K.shape[-1] ** 0.5).unflatten(1, (n_heads, n))
    e = scores.clamp(-50, 50).exp()
    if mask is not None:
        e = e * mask
    weights = e / e.sum(dim=-1, keepdim=True)
    heads = (weights.flatten(1, 2) @ V).unflatten(1, (n_heads, n))
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_fifteenth_expanded_keys_divided(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides the expanded keys by the root, which writes them once per head; due is a single head in memory."""
    Q = _split_heads(X @ W_Q, n_heads)
    K = (X @ W_K).unsqueeze(1).expand_as(Q)
    V = (X @ W_V).unsqueeze(1)
    scores = Q @ (K / math.sqrt(K.shape[-1])).mT
    return _merge_heads(_masked_softmax(scores, mask) @ V) @ W_O


def multi_query_attention__right_fifteenth_queue_of_tokens_without_split_or_merge(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The rows of X W_Q are cut where they lie, token after token; only the mask has its axes swapped."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    queue = (X @ W_Q).reshape(B, n * n_heads, -1)
    scores = torch.baddbmm(X.new_zeros(1, 1, 1), queue, K.mT, alpha=1 / math.sqrt(K.shape[-1]))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).transpose(1, 2).reshape(B, n * n_heads, n)
    return torch.bmm(_masked_softmax(scores, mask), V).reshape(B, n, -1) @ W_O


# ---------------------------------------------------------------- decode_step


def decode_step__wrong_fifteenth_past_and_self_averaged_by_count(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Attends to the kept tokens and mixes the new value in as one of t + 1; due is one softmax over all."""
    r, (K, V) = n_heads // n_kv_heads, cache
    t = K.shape[2]
    Q = _split_heads(x @ W_Q, n_heads)
    k, v = (_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V))
    past = _masked_softmax(Q @ _repeat_kv(K, r).mT / math.sqrt(Q.shape[-1])) @ _repeat_kv(V, r)
    heads = (t * past + _repeat_kv(v, r)) / (t + 1)
    return _merge_heads(heads) @ W_O, (torch.cat([K, k], dim=2), torch.cat([V, v], dim=2))


def decode_step__wrong_fifteenth_query_heads_dealt_out_in_turn(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Cuts the query heads to (r, g), so that they read the groups in turn; due is (g, r), neighbours together."""
    K = torch.cat([cache[0], _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(x @ W_V, n_kv_heads)], dim=2)
    q = (x @ W_Q)[:, 0].unflatten(-1, (n_heads // n_kv_heads, n_kv_heads, -1))  # (B, r, g, d_head)
    scores = torch.einsum("brgd,bgtd->brgt", q, K) / math.sqrt(K.shape[-1])
    heads = torch.einsum("brgt,bgtd->brgd", torch.softmax(scores, dim=-1), V)
    return heads.flatten(1)[:, None] @ W_O, (K, V)


def decode_step__wrong_fifteenth_scaled_by_the_number_of_keys(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Divides by the root of the number of kept tokens; due is the root of d_head."""
    r = n_heads // n_kv_heads
    K, V = (torch.cat([old, _split_heads(x @ W, n_kv_heads)], dim=2) for old, W in zip(cache, (W_K, W_V)))
    queue = _split_heads(x @ W_Q, n_heads).reshape(len(x), n_kv_heads, r, -1)
    weights = _masked_softmax(queue @ K.mT / math.sqrt(K.shape[2]))
    heads = (weights @ V).reshape(len(x), n_heads, 1, -1)
    return _merge_heads(heads) @ W_O, (K, V)


def decode_step__wrong_fifteenth_swaps_heads_of_the_queue_on_the_way_back(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Swaps group and place in the group before the merging; due is the order in which they stand."""
    r = n_heads // n_kv_heads
    K = torch.cat([cache[0], _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(x @ W_V, n_kv_heads)], dim=2)
    queue = _split_heads(x @ W_Q, n_heads).squeeze(2).unflatten(1, (n_kv_heads, r))
    weights = torch.softmax(queue @ K.mT / math.sqrt(queue.shape[-1]), dim=-1)
    heads = weights @ V  # (B, g, r, d_head)
    return heads.transpose(1, 2).flatten(1).unsqueeze(1) @ W_O, (K, V)


def decode_step__wrong_fifteenth_softmax_along_the_queue(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The softmax runs over the r heads in the queue; due is over the tokens."""
    B = x.shape[0]
    d_head = W_Q.shape[1] // n_heads
    k = (x @ W_K).reshape(B, n_kv_heads, 1, d_head)
    v = (x @ W_V).reshape(B, n_kv_heads, 1, d_head)
    K, V = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
    queue = (x @ W_Q).reshape(B, n_kv_heads, -1, d_head)
    weights = torch.softmax(queue @ K.mT / math.sqrt(d_head), dim=2)
    return (weights @ V).reshape(B, 1, -1) @ W_O, (K, V)


def decode_step__wrong_fifteenth_returns_the_new_token_for_the_cache(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Returns the keys and values of the new token alone, to be appended outside; due is the longer cache."""
    r = n_heads // n_kv_heads
    new = tuple(_split_heads(x @ W, n_kv_heads) for W in (W_K, W_V))
    K, V = (_repeat_kv(torch.cat([old, one], dim=2), r) for old, one in zip(cache, new, strict=True))
    Q = _split_heads(x @ W_Q, n_heads)
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]))
    return _merge_heads(weights @ V) @ W_O, new


def decode_step__wrong_fifteenth_first_token_tiles_its_values(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """With an empty cache the values are dealt to the query heads in turn; due is neighbours together there too."""
    r = n_heads // n_kv_heads
    k, v = _split_heads(x @ W_K, n_kv_heads), _split_heads(x @ W_V, n_kv_heads)
    if cache[0].shape[2] == 0:  # a single token gives itself all its attention
        return (x @ W_V).repeat(1, 1, r) @ W_O, (k, v)
    K, V = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
    queue = _split_heads(x @ W_Q, n_heads).flatten(1, 2).unflatten(1, (n_kv_heads, r))
    weights = _masked_softmax(queue @ K.mT / math.sqrt(K.shape[-1]))
    return (weights @ V).flatten(1).unsqueeze(1) @ W_O, (K, V)


def decode_step__wrong_fifteenth_writes_into_room_that_caches_share(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Returns views of room made beforehand, where a later step may write; due is that none changes."""

    def grown(kept, new):
        B, g, t, d = kept.shape
        room = getattr(kept, "room", None)
        if room is None or room.shape[2] == t:
            room = kept.new_zeros(B, g, t + 64, d)
            room[:, :, :t] = kept
        room[:, :, t : t + 1] = new
        longer = room[:, :, : t + 1]
        longer.room = room
        return longer

    r = n_heads // n_kv_heads
    K, V = (grown(old, _split_heads(x @ W, n_kv_heads)) for old, W in zip(cache, (W_K, W_V)))
    queue = _split_heads(x @ W_Q, n_heads).reshape(len(x), n_kv_heads, r, -1)
    weights = _masked_softmax(queue @ K.mT / math.sqrt(K.shape[-1]))
    return (weights @ V).reshape(len(x), 1, -1) @ W_O, (K, V)


def decode_step__right_fifteenth_padded_on_both_sides_and_added(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Pads the old with a row of zeros and the new with t of them, adds the two, and attends by products and sums."""
    B, t = x.shape[0], cache[0].shape[2]
    pad = torch.nn.functional.pad
    longer = []
    for kept, W in zip(cache, (W_K, W_V), strict=True):
        new = (x @ W).reshape(B, n_kv_heads, 1, -1)
        longer.append(pad(kept, (0, 0, 0, 1)) + pad(new, (0, 0, t, 0)))
    K, V = longer
    queue = (x @ W_Q).reshape(B, n_kv_heads, -1, K.shape[-1]).mT  # (B, g, d_head, r): the queries as columns
    weights = torch.softmax(K @ queue / math.sqrt(K.shape[-1]), dim=2)  # (B, g, t+1, r)
    return (V.mT @ weights).mT.reshape(B, 1, -1) @ W_O, (K, V)


# -------------------------------------------------------------- pool_kv_heads


def pool_kv_heads__wrong_fifteenth_sum_over_the_root_of_the_group(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Divides the sum of a group by the root of its size, to keep the spread; due is the mean."""
    r = n_heads // n_kv_heads
    heads = W.unflatten(1, (n_kv_heads, r, -1))
    return (heads.sum(dim=2) / math.sqrt(r)).flatten(1)


def pool_kv_heads__wrong_fifteenth_median_of_the_group(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Takes the median of the heads, entry by entry; due is the mean."""
    heads = W.reshape(W.shape[0], n_kv_heads, n_heads // n_kv_heads, -1)
    middle = heads.quantile(0.5, dim=2)
    return middle.reshape(W.shape[0], -1)


def pool_kv_heads__wrong_fifteenth_every_gth_head_pooled(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Pools the heads s, s + g, s + 2g, …; due are neighbours."""
    blocks = W.split(W.shape[1] // n_heads, dim=1)
    pooled = [torch.stack(blocks[s::n_kv_heads]).mean(dim=0) for s in range(n_kv_heads)]
    return torch.cat(pooled, dim=1)


def pool_kv_heads__wrong_fifteenth_divided_by_the_number_of_groups(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Divides the sum of a group by g; due is by the r = h/g heads in it."""
    d_head = W.shape[1] // n_heads
    total = W.reshape(W.shape[0], n_kv_heads, -1, d_head).sum(dim=2)
    return total.flatten(1) / n_kv_heads


def pool_kv_heads__wrong_fifteenth_groups_begin_one_head_apart(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Group s pools the heads s … s + r - 1; due is s*r … s*r + r - 1."""
    d_head = W.shape[1] // n_heads
    r = n_heads // n_kv_heads
    heads = W.unflatten(1, (n_heads, d_head))
    return torch.cat([heads[:, s : s + r].mean(dim=1) for s in range(n_kv_heads)], dim=1)


def pool_kv_heads__wrong_fifteenth_mean_written_back_to_every_head(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Returns h heads, each the mean of its group, (d_model, h*d_head); due are g heads."""
    r = n_heads // n_kv_heads
    heads = W.unflatten(1, (n_kv_heads, r, -1))
    return heads.mean(dim=2, keepdim=True).expand_as(heads).flatten(1)


def pool_kv_heads__wrong_fifteenth_halfway_to_each_next_head(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Goes halfway to each next head, a mean for pairs only; due are equal shares in groups of any size."""
    r = n_heads // n_kv_heads
    heads = W.unflatten(1, (n_kv_heads, r, -1))
    pooled = heads[:, :, 0]
    for a in range(1, r):
        pooled = (pooled + heads[:, :, a]) / 2
    return pooled.flatten(1)


def pool_kv_heads__wrong_fifteenth_adds_up_in_the_first_heads_place(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Adds the heads of a group into a view of W itself; due is to leave W as it is."""
    r = n_heads // n_kv_heads
    heads = W.unflatten(1, (n_kv_heads, r, -1))
    total = heads[:, :, 0]
    for a in range(1, r):
        total += heads[:, :, a]
    return (total / r).flatten(1)


def pool_kv_heads__right_fifteenth_product_with_a_pooling_matrix(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Multiplies by an (h*d_head, g*d_head) matrix that holds 1/r where a column flows into a group."""
    r, d_head = n_heads // n_kv_heads, W.shape[1] // n_heads
    column = torch.arange(W.shape[1], device=W.device)
    goes_to = column // (r * d_head) * d_head + column % d_head
    pooling = torch.zeros(W.shape[1], n_kv_heads * d_head, dtype=W.dtype, device=W.device)
    pooling[column, goes_to] = 1.0 / r
    return W @ pooling


# --------------------------------------------------------------- extend_cache


def extend_cache__wrong_fifteenth_triangle_at_the_top_left(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """New token r sees the columns 0 … r, as if the cache were empty; due are 0 … t + r."""
    B, n_new, _ = X_new.shape
    r = n_heads // n_kv_heads
    K, V = (torch.cat([old, _split_heads(X_new @ W, n_kv_heads)], dim=2) for old, W in zip(cache, (W_K, W_V)))
    Q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    scores = (Q @ K.mT / math.sqrt(Q.shape[-1])).unflatten(2, (r, n_new))
    seen = torch.ones(n_new, K.shape[2], dtype=torch.bool).tril()
    heads = _masked_softmax(scores, seen).flatten(2, 3) @ V
    heads = heads.unflatten(2, (r, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_fifteenth_old_and_new_in_two_softmaxes(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Attends to the cache and to the new tokens apart and adds the results; due is one softmax over both."""
    B, n_new, _ = X_new.shape
    r = n_heads // n_kv_heads
    K_new, V_new = (_split_heads(X_new @ W, n_kv_heads) for W in (W_K, W_V))
    queue = _split_heads(X_new @ W_Q, n_heads).reshape(B, n_kv_heads, r * n_new, -1)
    queue = queue / math.sqrt(queue.shape[-1])
    stairs = torch.ones(n_new, n_new, dtype=torch.bool).tril().repeat(r, 1)
    heads = _masked_softmax(queue @ K_new.mT, stairs) @ V_new
    heads = heads + _masked_softmax(queue @ cache[0].mT) @ cache[1]
    out = _merge_heads(heads.reshape(B, n_heads, n_new, -1)) @ W_O
    return out, (torch.cat([cache[0], K_new], dim=2), torch.cat([cache[1], V_new], dim=2))


def extend_cache__wrong_fifteenth_rows_of_the_mask_repeated_one_by_one(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The queue goes head after head, the rows of its mask come each r times; due is the whole mask r times."""
    B, n_new, _ = X_new.shape
    r, t = n_heads // n_kv_heads, cache[0].shape[2]
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    queue = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    mask = torch.ones(n_new, t + n_new, dtype=torch.bool).tril(diagonal=t)
    mask = mask.repeat_interleave(r, dim=0)  # (r*n_new, t + n_new)
    heads = _masked_softmax(queue @ K.mT / math.sqrt(K.shape[-1]), mask) @ V
    return _merge_heads(heads.unflatten(2, (r, n_new)).flatten(1, 2)) @ W_O, (K, V)


def extend_cache__wrong_fifteenth_diagonal_moved_by_n_new(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Moves the triangle to the right by the number of new tokens; due is by that of the kept ones."""
    B, n_new, _ = X_new.shape
    d_head = W_Q.shape[1] // n_heads
    new = [(X_new @ W).unflatten(-1, (n_kv_heads, d_head)).transpose(1, 2) for W in (W_K, W_V)]
    K, V = (torch.cat(pair, dim=2) for pair in zip(cache, new))
    Q = (X_new @ W_Q).unflatten(-1, (n_kv_heads, -1, d_head))  # (B, n_new, g, r, d_head)
    scores = torch.einsum("bigrd,bgjd->bgrij", Q, K) / math.sqrt(d_head)
    seen = torch.ones(n_new, K.shape[2], dtype=torch.bool).tril(n_new)
    weights = _masked_softmax(scores, seen)
    return torch.einsum("bgrij,bgjd->bigrd", weights, V).flatten(2) @ W_O, (K, V)


def extend_cache__wrong_fifteenth_new_values_before_the_old(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Puts the new values in front of the kept ones, the new keys behind; due are both behind."""
    K_old, V_old = cache
    B, n_new, _ = X_new.shape
    r, t = n_heads // n_kv_heads, K_old.shape[2]
    k, v = _split_heads(X_new @ W_K, n_kv_heads), _split_heads(X_new @ W_V, n_kv_heads)
    K = torch.cat((K_old, k), dim=2)
    V = torch.cat((v, V_old), dim=2)
    Q = _split_heads(X_new @ W_Q, n_heads).reshape(B, n_kv_heads, r * n_new, -1)
    scores = (Q @ K.mT / math.sqrt(Q.shape[-1])).reshape(B, n_heads, n_new, -1)
    row, column = torch.arange(n_new)[:, None], torch.arange(t + n_new)
    weights = _masked_softmax(scores, column <= row + t).reshape(B, n_kv_heads, r * n_new, -1)
    return _merge_heads((weights @ V).reshape(B, n_heads, n_new, -1)) @ W_O, (K, V)


def extend_cache__wrong_fifteenth_only_the_last_row_comes_out(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Returns the row of the newest token, all that the next word needs; due are n_new rows."""
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, n_kv_heads)], dim=2)
    newest = X_new[:, -1:]
    queue = _split_heads(newest @ W_Q, n_heads).reshape(len(X_new), n_kv_heads, n_heads // n_kv_heads, -1)
    weights = torch.softmax(queue @ K.mT / math.sqrt(queue.shape[-1]), dim=-1)
    return (weights @ V).reshape(len(X_new), 1, -1) @ W_O, (K, V)


def extend_cache__wrong_fifteenth_no_mask_behind_an_empty_cache(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Leaves the mask out where the cache is empty; due is that new tokens do not see later ones there either."""
    B, n_new, _ = X_new.shape
    r, t = n_heads // n_kv_heads, cache[0].shape[2]
    K, V = (torch.cat([old, _split_heads(X_new @ W, n_kv_heads)], dim=2) for old, W in zip(cache, (W_K, W_V)))
    mask = None
    if t > 0:
        old = torch.ones(n_new, t, dtype=torch.bool)
        new = torch.ones(n_new, n_new, dtype=torch.bool).tril()
        mask = torch.cat([old, new], dim=1).repeat(r, 1)
    queue = _split_heads(X_new @ W_Q, n_heads).reshape(B, n_kv_heads, r * n_new, -1)
    heads = _masked_softmax(queue @ K.mT / math.sqrt(K.shape[-1]), mask) @ V
    return _merge_heads(heads.reshape(B, n_heads, n_new, -1)) @ W_O, (K, V)


def extend_cache__wrong_fifteenth_rows_cut_from_the_full_causal_mask(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Makes the causal mask of all t + n_new tokens for its last rows; due is nothing that grows with the square."""
    B, n_new, _ = X_new.shape
    r = n_heads // n_kv_heads
    K, V = (torch.cat([old, _split_heads(X_new @ W, n_kv_heads)], dim=2) for old, W in zip(cache, (W_K, W_V)))
    n = K.shape[2]
    mask = torch.tril(torch.ones(n, n, dtype=torch.bool))[-n_new:]
    queue = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)).flatten(2, 3)
    weights = _masked_softmax(queue @ K.mT / math.sqrt(K.shape[-1]), mask.repeat(r, 1))
    heads = (weights @ V).unflatten(2, (r, n_new)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__right_fifteenth_scores_of_old_and_new_side_by_side(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Scores old and new keys apart, masks the new ones alone, and lets one softmax run over both; queue by tokens."""
    B, n_new, _ = X_new.shape
    K_old, V_old = cache
    t, r = K_old.shape[2], n_heads // n_kv_heads
    K_new, V_new = (_split_heads(X_new @ W, n_kv_heads) for W in (W_K, W_V))
    queue = (X_new @ W_Q).reshape(B, n_new, n_kv_heads, r, -1).transpose(1, 2).flatten(2, 3)  # token after token
    queue = queue / math.sqrt(queue.shape[-1])
    token = torch.arange(n_new * r, device=X_new.device) // r  # whose row it is
    later = torch.arange(n_new, device=X_new.device) > token[:, None]
    among_new = (queue @ K_new.mT).masked_fill(later, -math.inf)
    weights = torch.softmax(torch.cat([queue @ K_old.mT, among_new], dim=-1), dim=-1)
    heads = weights[..., :t] @ V_old + weights[..., t:] @ V_new  # (B, g, n_new*r, d_head)
    merged = heads.unflatten(2, (n_new, r)).transpose(1, 2).flatten(2)
    return merged @ W_O, (torch.cat([K_old, K_new], dim=2), torch.cat([V_old, V_new], dim=2))
