"""Answers to the exercises of unit 5, wrong ones and right ones, as students would write them."""

import functools
import math
import operator

import numpy as np
import torch
import torch.nn.functional as F
from torch import einsum


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


def kv_cache_bytes__wrong_twelfth_queries_are_kept_as_well(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Counts three vectors for each token, with a query beside the key and the value, though queries are not kept."""
    vectors = ("query", "key", "value")
    per_token = sum(n_kv_heads * d_head for _ in vectors)
    return per_token * n_layers * n_tokens * batch * bytes_per_value


def kv_cache_bytes__wrong_twelfth_every_step_its_own_cache(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Adds up the caches of all steps, 1 + 2 + ... + n tokens, as if each step left a cache of its own behind."""
    one_token = 2 * n_kv_heads * d_head * bytes_per_value
    total = 0
    for step in range(1, n_tokens + 1):
        total += step * one_token
    return total * n_layers * batch


def kv_cache_bytes__wrong_twelfth_newest_token_not_kept(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Leaves out the newest token, in the belief that only those before it stand in the cache."""
    past = max(n_tokens - 1, 0)
    keys = n_layers * batch * n_kv_heads * past * d_head
    values = keys
    return (keys + values) * bytes_per_value


def kv_cache_bytes__wrong_twelfth_always_half_precision(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Takes 2 bytes for every number and never looks at bytes_per_value."""
    numbers = functools.reduce(operator.mul, [n_layers, n_kv_heads, d_head, n_tokens, batch])
    both = 2 * numbers
    return both * 2


def kv_cache_bytes__wrong_twelfth_doubled_in_every_layer(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Doubles the running total in each round of the loop over layers and not once, after it."""
    total = 0
    for _layer in range(n_layers):
        total += n_kv_heads * d_head * n_tokens
        total *= 2
    return total * batch * bytes_per_value


def kv_cache_bytes__wrong_twelfth_gigabytes(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Returns gigabytes as a float, where the bytes are asked for."""
    size = 2 * n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value
    return size / 1e9


def kv_cache_bytes__wrong_twelfth_empty_cache_of_one_token(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Gives the bytes of one token where there is none yet."""
    shape = (2, n_layers, batch or 1, n_kv_heads, n_tokens or 1, d_head)
    return math.prod(shape) * bytes_per_value


def kv_cache_bytes__wrong_twelfth_rounded_by_floats(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Works in gigabytes and goes back at the end, so that a very large cache is not exact."""
    gb_per_token = 2 * n_layers * n_kv_heads * d_head * bytes_per_value / 1e9
    gb = gb_per_token * n_tokens * batch
    return round(gb * 1e9)


def kv_cache_bytes__right_twelfth_product_of_all_arguments(
    n_layers: int,
    n_kv_heads: int,
    d_head: int,
    n_tokens: int,
    batch: int = 1,
    bytes_per_value: int = 2,
) -> int:
    """Multiplies whatever was handed in, by `locals`, and doubles with a shift."""
    return math.prod(locals().values()) << 1


# ------- 5.2 repeat_kv


def repeat_kv__wrong_twelfth_whole_row_again(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Lays the whole row of heads down again and again, 0, 1, 0, 1, so that neighbours do not share."""
    out = K
    for _ in range(n_rep - 1):
        out = torch.cat((out, K), dim=1)
    return out


def repeat_kv__wrong_twelfth_first_head_for_all(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Gives head 0 to all query heads, as if all shared a single one."""
    B, g, n, d = K.shape
    return K[:, :1].expand(B, g * n_rep, n, d)


def repeat_kv__wrong_twelfth_shared_out_in_parts(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Divides each copy by n_rep, as if the readers had to share the size of a head among them."""
    portion = K / n_rep
    heads = []
    for head in portion.unbind(dim=1):
        heads.extend([head] * n_rep)
    return torch.stack(heads, dim=1)


def repeat_kv__wrong_twelfth_tokens_repeated(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Repeats along the axis of the tokens and cuts the result to the right shape."""
    B, g, n, d = K.shape
    long = torch.repeat_interleave(K, n_rep, dim=2)
    return long.reshape(B, g * n_rep, n, d)


def repeat_kv__wrong_twelfth_index_divided_by_g(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Divides the number of a query head by g in place of n_rep, and fails where that is past the last head."""
    g = K.shape[1]
    source = [head // g for head in range(g * n_rep)]
    return K[:, source]


def repeat_kv__wrong_twelfth_n_rep_as_all_heads(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Reads n_rep as the number of all query heads and returns n_rep heads."""
    per_group = n_rep // K.size(1)
    return K.repeat_interleave(per_group, dim=1)


def repeat_kv__wrong_twelfth_strides_assumed(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Walks through the memory as if the input lay there in order, which is wrong for one that is not contiguous."""
    B, g, n, d = K.shape
    walk = torch.as_strided(K, (B, g, n_rep, n, d), (g * n * d, n * d, 0, d, 1))
    return walk.flatten(1, 2)


def repeat_kv__wrong_twelfth_by_numpy(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Goes through NumPy, and no gradient reaches K."""
    array = np.repeat(K.detach().numpy(), n_rep, axis=1)
    return torch.from_numpy(array)


def repeat_kv__right_twelfth_gathered(K: torch.Tensor, n_rep: int) -> torch.Tensor:
    """Gathers each head by an index that is as large as the result."""
    B, g, n, d = K.shape
    where = torch.arange(g).tile((n_rep, 1)).T.flatten()
    return K.gather(1, where[None, :, None, None].expand(B, g * n_rep, n, d))


# ------- 5.3 grouped_query_attention


def grouped_query_attention__wrong_twelfth_heads_in_turn(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Lets query head a read key/value head a mod g, so that heads far apart share and neighbours do not."""
    if n_heads % n_kv_heads:
        raise ValueError("the key/value heads must divide the heads")
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads).reshape(B, r, n_kv_heads, n, -1)
    K = _split_heads(X @ W_K, n_kv_heads)[:, None]
    V = _split_heads(X @ W_V, n_kv_heads)[:, None]
    scores = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
    A = _masked_softmax(scores.flatten(1, 2), mask)
    out = A.reshape(B, r, n_kv_heads, n, n) @ V
    return _merge_heads(out.flatten(1, 2)) @ W_O


def grouped_query_attention__wrong_twelfth_group_asks_as_one(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the mean of the queries of a group, so that all heads of a group have the same weights."""
    if n_heads % n_kv_heads != 0:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
    r = n_heads // n_kv_heads
    queries = _split_heads(X @ W_Q, n_heads)
    per_group = queries.unflatten(1, (n_kv_heads, r)).mean(dim=2)
    queries = _repeat_kv(per_group, r)
    keys = _repeat_kv(_split_heads(X @ W_K, n_kv_heads), r)
    values = _repeat_kv(_split_heads(X @ W_V, n_kv_heads), r)
    weights = _masked_softmax(queries @ keys.mT / math.sqrt(queries.shape[-1]), mask)
    return _merge_heads(weights @ values) @ W_O


def grouped_query_attention__wrong_twelfth_one_softmax_per_group(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Normalises a token's weights over all heads of a group together, so that they sum to 1 for the group only."""
    if n_heads % n_kv_heads:
        raise ValueError("heads cannot be grouped")
    B, n, d_model = X.shape
    d = W_Q.shape[1] // n_heads
    q = (X @ W_Q).reshape(B, n, n_kv_heads, -1, d)
    k = (X @ W_K).reshape(B, n, n_kv_heads, d)
    v = (X @ W_V).reshape(B, n, n_kv_heads, d)
    s = einsum("bigrd,bjgd->bgirj", q, k) / d**0.5
    if mask is not None:
        allowed = mask.expand(B, n_heads, n, n).unflatten(1, (n_kv_heads, -1)).transpose(2, 3)
        s = s.masked_fill(~allowed, torch.finfo(s.dtype).min)
    a = s.flatten(3).softmax(dim=-1).reshape(s.shape)
    heads = einsum("bgirj,bjgd->bigrd", a, v)
    return heads.reshape(B, n, n_heads * d) @ W_O


def grouped_query_attention__wrong_twelfth_width_from_d_model(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides the scores by the root of d_model / h, which need not be d_head."""
    if n_heads % n_kv_heads:
        raise ValueError("n_kv_heads must divide n_heads")
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = (_repeat_kv(_split_heads(X @ W, n_kv_heads), n_heads // n_kv_heads) for W in (W_K, W_V))
    d_head = X.shape[-1] / n_heads
    A = _masked_softmax(Q @ K.mT / d_head**0.5, mask)
    return _merge_heads(A @ V) @ W_O


def grouped_query_attention__wrong_twelfth_merged_without_swapping(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reshapes the heads to rows without swapping the axes of heads and tokens back."""
    n_rep, rest = divmod(n_heads, n_kv_heads)
    if rest:
        raise ValueError("not divisible")
    B, n, _ = X.shape
    d_head = W_Q.shape[-1] // n_heads
    q = (X @ W_Q).reshape(B, n, n_heads, d_head).permute(0, 2, 1, 3)
    k = (X @ W_K).reshape(B, n, n_kv_heads, d_head).permute(0, 2, 1, 3)
    v = (X @ W_V).reshape(B, n, n_kv_heads, d_head).permute(0, 2, 1, 3)
    k = k.repeat_interleave(n_rep, 1)
    v = v.repeat_interleave(n_rep, 1)
    s = torch.matmul(q, k.permute(0, 1, 3, 2)) / math.sqrt(d_head)
    o = torch.matmul(_masked_softmax(s, mask), v)
    o = o.reshape(B, n, n_heads * d_head)
    return torch.matmul(o, W_O)


def grouped_query_attention__wrong_twelfth_true_is_forbidden(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Hides the keys at which the mask is True, the convention of other libraries."""
    if n_heads % n_kv_heads > 0:
        raise ValueError(f"h = {n_heads}, g = {n_kv_heads}")
    B, n = X.shape[:2]
    d = W_Q.shape[1] // n_heads
    queue = _split_heads(X @ W_Q, n_heads).reshape(B, n_kv_heads, -1, d)
    K = _split_heads(X @ W_K, n_kv_heads)
    V = _split_heads(X @ W_V, n_kv_heads)
    S = (queue @ K.mT).reshape(B, n_heads, n, n) / d**0.5
    if mask is not None:
        S = torch.where(mask, torch.finfo(S.dtype).min, S)
    A = S.softmax(-1).reshape(B, n_kv_heads, -1, n)
    heads = (A @ V).reshape(B, n_heads, n, d)
    return _merge_heads(heads) @ W_O


def grouped_query_attention__wrong_twelfth_only_too_many_refused(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Raises the ValueError for g > h only, and stops with another error where g < h does not divide h."""
    if n_kv_heads > n_heads:
        raise ValueError("more key/value heads than query heads")
    share = n_heads // n_kv_heads
    Q = _split_heads(X @ W_Q, n_heads)
    K = _repeat_kv(_split_heads(X @ W_K, n_kv_heads), share)
    V = _repeat_kv(_split_heads(X @ W_V, n_kv_heads), share)
    S = einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5
    return einsum("bhij,bhjd->bihd", _masked_softmax(S, mask), V).flatten(2) @ W_O


def grouped_query_attention__wrong_twelfth_weights_scaled_in_place(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides W_Q itself by the root of d_head, so that the input is another one after the call."""
    if n_heads % n_kv_heads:
        raise ValueError("g has to divide h")
    W_Q /= (W_Q.shape[1] // n_heads) ** 0.5
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(X @ W_K, n_kv_heads)
    V = _split_heads(X @ W_V, n_kv_heads)
    n_rep = n_heads // n_kv_heads
    weights = _masked_softmax(Q @ _repeat_kv(K, n_rep).mT, mask)
    return _merge_heads(weights @ _repeat_kv(V, n_rep)) @ W_O


def grouped_query_attention__right_twelfth_products_of_weights(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Never makes queries, keys or values: W_Q meets W_K, and W_V meets W_O, one head after another."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_heads} heads cannot share {n_kv_heads}")
    B, n, _ = X.shape
    d = W_Q.shape[1] // n_heads
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    total = torch.zeros_like(X)
    for a in range(n_heads):
        mine = slice(a * d, (a + 1) * d)
        kv = a * n_kv_heads // n_heads
        shared = slice(kv * d, (kv + 1) * d)
        meet = W_Q[:, mine] @ W_K[:, shared].T / d**0.5
        hand_over = W_V[:, shared] @ W_O[mine]
        S = X @ meet @ X.mT
        if mask is not None:
            S = S.masked_fill(mask[:, a].logical_not(), float("-inf"))
        total = total + (S - S.logsumexp(-1, keepdim=True)).exp() @ (X @ hand_over)
    return total


# ------- 5.4 multi_query_attention


def multi_query_attention__wrong_twelfth_weights_averaged(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Averages the attention weights over the heads, so that all heads hand over the same mixture of values."""
    Q = _split_heads(X @ W_Q, n_heads)
    K, V = X @ W_K, X @ W_V
    S = einsum("bhid,bjd->bhij", Q, K) / K.shape[-1] ** 0.5
    shared = _masked_softmax(S, mask).mean(dim=1)
    mixed = shared @ V
    return torch.cat([mixed for _ in range(n_heads)], dim=-1) @ W_O


def multi_query_attention__wrong_twelfth_keys_are_the_values(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes one head of keys and values to be one tensor that serves as both, and mixes the keys."""
    shared = X @ W_K
    B, n, d = shared.shape
    queue = _split_heads(X @ W_Q, n_heads).reshape(B, n_heads * n, d)
    scores = torch.bmm(queue, shared.mT) / math.sqrt(d)
    weights = _masked_softmax(scores.reshape(B, n_heads, n, n), mask)
    heads = torch.bmm(weights.flatten(1, 2), shared).reshape(B, n_heads, n, d)
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_twelfth_always_causal(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Hides later tokens whatever the mask says, and also where there is none."""
    n, d = X.shape[1], W_K.shape[1]
    past = torch.arange(n)[:, None] >= torch.arange(n)
    allowed = past if mask is None else mask & past
    q = (X @ W_Q).unflatten(2, (n_heads, d)).permute(0, 2, 1, 3)
    k = (X @ W_K).unsqueeze(1)
    v = (X @ W_V).unsqueeze(1)
    a = _masked_softmax(q @ k.transpose(2, 3) * d**-0.5, allowed)
    return (a @ v).permute(0, 2, 1, 3).flatten(2) @ W_O


def multi_query_attention__wrong_twelfth_queue_in_another_order(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Queues the queries token by token and takes the rows back as if they stood head by head."""
    B, n, _ = X.shape
    Q = (X @ W_Q).unflatten(-1, (n_heads, -1)).flatten(1, 2)
    K = X @ W_K
    V = X @ W_V
    S = (Q @ K.mT / K.shape[-1] ** 0.5).unflatten(1, (n_heads, n))
    A = _masked_softmax(S, mask)
    heads = (A.flatten(1, 2) @ V).unflatten(1, (n_heads, n))
    return _merge_heads(heads) @ W_O


def multi_query_attention__wrong_twelfth_scaled_twice(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides by the root of d_head when the queries are made and once more when they have met the keys."""
    B, n = X.shape[:2]
    d_head = W_K.shape[1]
    root = math.sqrt(d_head)
    keys, values = X @ W_K, X @ W_V
    outputs = []
    for a, W in enumerate(W_Q.split(d_head, dim=1)):
        query = X @ W / root
        allowed = None if mask is None else mask.expand(B, n_heads, n, n)[:, a]
        weights = _masked_softmax(query @ keys.mT / root, allowed)
        outputs.append(weights @ values)
    return torch.cat(outputs, dim=-1) @ W_O


def multi_query_attention__wrong_twelfth_mask_added(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds the mask to the scores, as one of numbers, so that True counts 1 more and nothing is hidden."""
    Q = (X @ W_Q).unflatten(-1, (n_heads, -1))
    K = X @ W_K
    S = einsum("bihd,bjd->bhij", Q, K).div(math.sqrt(K.size(-1)))
    if mask is not None:
        S = S + mask.to(S.dtype)
    out = einsum("bhij,bjd->bihd", S.softmax(dim=-1), X @ W_V)
    return out.reshape(*X.shape[:2], -1) @ W_O


def multi_query_attention__wrong_twelfth_bare_exponentials(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides exponentials by their sum without taking the largest score away, and gives NaN for large scores."""
    d = W_K.shape[-1]
    queries = _split_heads(X @ W_Q, n_heads)
    keys = (X @ W_K)[:, None]
    values = (X @ W_V)[:, None]
    e = torch.exp(queries @ keys.mT / d**0.5)
    if mask is not None:
        e = e * mask
    weights = e / e.sum(dim=-1, keepdim=True)
    return _merge_heads(weights @ values) @ W_O


def multi_query_attention__wrong_twelfth_keys_once_per_head(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Has the right numbers and writes keys and values down once for each head."""
    B, n, _ = X.shape
    Q = _split_heads(X @ W_Q, n_heads)
    K = (X @ W_K)[:, None].expand(B, n_heads, n, -1).contiguous()
    V = (X @ W_V)[:, None].expand(B, n_heads, n, -1).contiguous()
    A = _masked_softmax(Q @ K.mT / K.shape[-1] ** 0.5, mask)
    return _merge_heads(A @ V) @ W_O


def multi_query_attention__right_twelfth_key_by_key(
    X: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reads one key after another with a running maximum and a running sum, and never has a table of weights."""
    B, n, _ = X.shape
    d = W_K.shape[1]
    Q = (X @ W_Q).unflatten(-1, (n_heads, d)) / d**0.5  # (B, n, h, d)
    keys, values = (X @ W_K).split(1, dim=1), (X @ W_V).split(1, dim=1)
    allowed = torch.ones(1, dtype=torch.bool) if mask is None else mask
    allowed = allowed.expand(B, n_heads, n, n).transpose(1, 2)
    top = X.new_full((B, n, n_heads, 1), -1e30)
    norm, mixed = torch.zeros_like(top), torch.zeros_like(Q)
    for j, (k, v) in enumerate(zip(keys, values, strict=True)):
        may = allowed[..., j, None]
        s = torch.where(may, Q @ k[:, None].mT, -1e30)
        new_top = torch.maximum(top, s)
        shrink, p = (top - new_top).exp(), (s - new_top).exp() * may
        norm, mixed, top = norm * shrink + p, mixed * shrink + p * v[:, None], new_top
    return (mixed / norm).flatten(2) @ W_O


# ------- 5.5 decode_step


def decode_step__wrong_twelfth_not_itself(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Looks at the tokens that were kept before, and puts the new token in only after it has looked."""
    K, V = cache
    r = n_heads // n_kv_heads
    q = _split_heads(x @ W_Q, n_heads).reshape(len(x), n_kv_heads, r, -1)
    weights = torch.softmax(q @ K.mT / math.sqrt(q.shape[-1]), dim=-1)
    heads = (weights @ V).reshape(len(x), n_heads, 1, -1)
    out = _merge_heads(heads) @ W_O
    K = torch.cat([K, _split_heads(x @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([V, _split_heads(x @ W_V, n_kv_heads)], dim=2)
    return out, (K, V)


def decode_step__wrong_twelfth_triangle_of_one_row(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Puts a causal triangle over the single row of scores, which leaves the oldest token alone."""
    Q = _split_heads(x @ W_Q, n_heads)
    K, V = (torch.cat((old, _split_heads(x @ W, n_kv_heads)), dim=-2) for old, W in zip(cache, (W_K, W_V), strict=True))
    n_rep = n_heads // n_kv_heads
    S = Q @ _repeat_kv(K, n_rep).mT / Q.shape[-1] ** 0.5
    causal = torch.ones(S.shape[-2:], dtype=torch.bool).tril()
    A = _masked_softmax(S, causal)
    return _merge_heads(A @ _repeat_kv(V, n_rep)) @ W_O, (K, V)


def decode_step__wrong_twelfth_own_value_added_whole(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Mixes the values of the past by a softmax over the past and adds the token's own value with weight 1."""
    past_K, past_V = cache
    B, g, t, d = past_K.shape
    q = (x @ W_Q).reshape(B, g, n_heads // g, d)
    k = (x @ W_K).reshape(B, g, 1, d)
    v = (x @ W_V).reshape(B, g, 1, d)
    scores = einsum("bgrd,bgtd->bgrt", q, past_K) / math.sqrt(d)
    from_past = einsum("bgrt,bgtd->bgrd", scores.softmax(dim=-1), past_V)
    heads = from_past + v
    out = heads.reshape(B, 1, n_heads * d) @ W_O
    return out, (torch.cat([past_K, k], dim=2), torch.cat([past_V, v], dim=2))


def decode_step__wrong_twelfth_newest_first(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Puts the new token in front of the kept ones; the output is right and the order of the cache is not."""
    K = torch.cat([_split_heads(x @ W_K, n_kv_heads), cache[0]], 2)
    V = torch.cat([_split_heads(x @ W_V, n_kv_heads), cache[1]], 2)
    Q = _split_heads(x @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).squeeze(3)
    A = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, -1)
    return (A @ V).flatten(1)[:, None] @ W_O, (K, V)


def decode_step__wrong_twelfth_unpacked_the_other_way_round(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Takes the first tensor of the cache for the values and the second for the keys."""
    values, keys = cache
    new_key = _split_heads(x @ W_K, n_kv_heads)
    new_value = _split_heads(x @ W_V, n_kv_heads)
    keys = torch.cat([keys, new_key], dim=2)
    values = torch.cat([values, new_value], dim=2)
    group = n_heads // n_kv_heads
    query = _split_heads(x @ W_Q, n_heads)
    parts = []
    for a in range(n_heads):
        s = (query[:, a] * keys[:, a // group]).sum(-1) / math.sqrt(query.shape[-1])
        w = torch.softmax(s, dim=1)
        parts.append((w.unsqueeze(-1) * values[:, a // group]).sum(1))
    out = torch.cat(parts, dim=1).unsqueeze(1) @ W_O
    return out, (keys, values)


def decode_step__wrong_twelfth_next_input_returned(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Returns the vector that enters the next layer, x plus what the attention says, and not the latter alone."""
    B, g, t, d = cache[0].shape
    K, V = [torch.cat([old, (x @ W).view(B, g, 1, d)], dim=2) for old, W in zip(cache, (W_K, W_V), strict=True)]
    queue = (x @ W_Q).view(B, g, -1, d) * d**-0.5
    read = (queue @ K.mT).softmax(dim=-1) @ V
    y = x + read.reshape(B, 1, -1) @ W_O
    return y, (K, V)


def decode_step__wrong_twelfth_first_token_finds_nothing(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Gives an output of zeros where the cache is empty, though the token may see itself."""
    old_K, old_V = cache
    new_K, new_V = _split_heads(x @ W_K, n_kv_heads), _split_heads(x @ W_V, n_kv_heads)
    if old_K.numel() == 0:
        return 0 * x, (new_K, new_V)
    K, V = torch.cat([old_K, new_K], 2), torch.cat([old_V, new_V], 2)
    r = n_heads // n_kv_heads
    Q = _split_heads(x @ W_Q, n_heads)
    S = Q.unflatten(1, (n_kv_heads, r)).flatten(2, 3) @ K.mT
    A = torch.softmax(S / Q.shape[-1] ** 0.5, dim=-1)
    heads = (A @ V).unflatten(2, (r, 1)).flatten(1, 2)
    return _merge_heads(heads) @ W_O, (K, V)


def decode_step__wrong_twelfth_past_cut_off(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Copies the kept keys and values into fresh room by their data, so that no gradient reaches earlier tokens."""
    B, g, t, d = cache[0].shape
    rooms = []
    for old, W in ((cache[0], W_K), (cache[1], W_V)):
        room = torch.empty(B, g, t + 1, d, dtype=x.dtype)
        room[:, :, :t] = old.data
        room[:, :, t:] = _split_heads(x @ W, g)
        rooms.append(room)
    K, V = rooms
    q = _split_heads(x @ W_Q, n_heads).reshape(B, g, n_heads // g, d)
    scores = torch.matmul(q, K.transpose(2, 3)) / math.sqrt(d)
    mixed = torch.matmul(torch.softmax(scores, -1), V)
    out = torch.matmul(mixed.reshape(B, 1, n_heads * d), W_O)
    return out, (K, V)


def decode_step__right_twelfth_blend_of_past_and_itself(
    x: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Attends to the kept tokens alone and blends in the token's own value, by a sigmoid of the two scores."""
    K, V = cache
    B, g, _, d = K.shape
    q, k, v = ((x @ W).reshape(B, g, -1, d) for W in (W_Q, W_K, W_V))
    q = q / d**0.5
    past = q @ K.mT
    own = torch.sigmoid(q @ k.mT - past.logsumexp(-1, keepdim=True))
    heads = (1 - own) * (past.softmax(-1) @ V) + own * v
    longer = tuple(torch.cat(pair, dim=2) for pair in ((K, k), (V, v)))
    return heads.reshape(B, 1, -1) @ W_O, longer


# ------- 5.6 pool_kv_heads


def pool_kv_heads__wrong_twelfth_every_gth_head(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Pools the heads whose numbers are equal modulo g, which are not neighbours."""
    d_head = W.shape[1] // n_heads
    heads = W.split(d_head, dim=1)
    pooled = []
    for s in range(n_kv_heads):
        members = heads[s::n_kv_heads]
        pooled.append(sum(members) / len(members))
    return torch.cat(pooled, dim=1)


def pool_kv_heads__wrong_twelfth_neighbouring_columns(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Takes the mean of neighbouring columns and not of the same column in neighbouring heads."""
    r = n_heads // n_kv_heads
    return F.avg_pool1d(W[:, None], r).squeeze(1)


def pool_kv_heads__wrong_twelfth_divided_by_the_root(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Divides the sum of a group by the root of its size, to keep the size of the numbers, and so gives no mean."""
    per_group = n_heads // n_kv_heads
    blocks = W.unflatten(1, (n_kv_heads, per_group, -1))
    return blocks.sum(dim=2).flatten(1) / math.sqrt(per_group)


def pool_kv_heads__wrong_twelfth_divided_by_g(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Divides the sum of a group by the number of groups and not by the number of heads in it."""
    d_head = W.shape[1] // n_heads
    r = n_heads // n_kv_heads
    out = W.new_zeros(W.shape[0], n_kv_heads * d_head)
    for a in range(n_heads):
        s = a // r
        out[:, s * d_head : (s + 1) * d_head] += W[:, a * d_head : (a + 1) * d_head]
    return out / n_kv_heads


def pool_kv_heads__wrong_twelfth_groups_that_overlap(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Begins group s at head s and not at head s * r, so that the groups overlap."""
    heads = W.reshape(W.shape[0], n_heads, -1)
    r = n_heads // n_kv_heads
    means = [heads[:, s : s + r].mean(dim=1) for s in range(n_kv_heads)]
    return torch.cat(means, dim=-1)


def pool_kv_heads__wrong_twelfth_mean_in_every_head(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Puts the mean of the group in the place of each of its heads, and returns the width that came in."""
    groups = W.unflatten(1, (n_kv_heads, n_heads // n_kv_heads, -1))
    mean = groups.mean(dim=2, keepdim=True)
    return mean.expand_as(groups).flatten(1)


def pool_kv_heads__wrong_twelfth_first_and_last_of_a_group(
    W: torch.Tensor, n_heads: int, n_kv_heads: int
) -> torch.Tensor:
    """Takes the mean of the first and the last head of a group, which is the mean of all for at most two heads."""
    r = n_heads // n_kv_heads
    heads = torch.stack(W.tensor_split(n_heads, dim=1))
    first, last = heads[::r], heads[r - 1 :: r]
    return torch.cat([*((first + last) / 2)], dim=1)


def pool_kv_heads__wrong_twelfth_added_up_in_place(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Adds the heads of a group up in the first of them, inside W, and so changes its input."""
    r = n_heads // n_kv_heads
    heads = W.chunk(n_heads, dim=1)
    kept = []
    for first in range(0, n_heads, r):
        mean = heads[first]
        for other in heads[first + 1 : first + r]:
            mean += other
        kept.append(mean / r)
    return torch.cat(kept, dim=1)


def pool_kv_heads__right_twelfth_by_a_pooling_matrix(W: torch.Tensor, n_heads: int, n_kv_heads: int) -> torch.Tensor:
    """Multiplies W by a Kronecker product of three small matrices, for the groups, their heads and the columns."""
    r, d_head = n_heads // n_kv_heads, W.shape[1] // n_heads
    groups = torch.eye(n_kv_heads, dtype=W.dtype)
    mean = torch.full((r, 1), 1 / r, dtype=W.dtype)
    columns = torch.eye(d_head, dtype=W.dtype)
    return W @ torch.kron(torch.kron(groups, mean), columns)


# ------- 5.7 extend_cache


def _longer(X_new, cache, W_K, W_V, g):
    """The keys and values of the cache, with those of the new tokens behind them."""
    K = torch.cat([cache[0], _split_heads(X_new @ W_K, g)], dim=2)
    V = torch.cat([cache[1], _split_heads(X_new @ W_V, g)], dim=2)
    return K, V


def extend_cache__wrong_twelfth_triangle_at_the_top_left(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Counts the new tokens from 0, so that new token i sees the columns 0 to i whatever is in the cache."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    B, n_new, _ = X_new.shape
    total = K.shape[2]
    Q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1)).flatten(2, 3)
    S = (Q @ K.mT / Q.shape[-1] ** 0.5).reshape(B, n_heads, n_new, total)
    causal = torch.ones(n_new, total, dtype=torch.bool).tril()
    A = _masked_softmax(S, causal).reshape(B, n_kv_heads, -1, total)
    heads = (A @ V).reshape(B, n_heads, n_new, -1)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_twelfth_no_mask_needed(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Uses no mask, as decode_step does, so that new tokens see those behind them."""
    g, r = n_kv_heads, n_heads // n_kv_heads
    keys, values = _longer(X_new, cache, W_K, W_V, g)
    d = keys.size(-1)
    q = (X_new @ W_Q).unflatten(-1, (g, r, d))
    a = einsum("bigrd,bgjd->bgrij", q, keys).div(math.sqrt(d)).softmax(-1)
    out = einsum("bgrij,bgjd->bigrd", a, values).flatten(2) @ W_O
    return out, (keys, values)


def extend_cache__wrong_twelfth_each_new_one_by_itself(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Lets a new token see the cache and itself, and not the new tokens before it."""
    old_K, old_V = cache
    B, g, t, d = old_K.shape
    n_new = X_new.shape[1]
    r = n_heads // g
    new_K, new_V = _split_heads(X_new @ W_K, g), _split_heads(X_new @ W_V, g)
    Q = _split_heads(X_new @ W_Q, n_heads).reshape(B, g, r * n_new, d) / math.sqrt(d)
    to_past = (Q @ old_K.mT).reshape(B, g, r, n_new, t)
    own = (Q.reshape(B, g, r, n_new, d) * new_K[:, :, None]).sum(-1, keepdim=True)
    A = torch.softmax(torch.cat([to_past, own], dim=-1), dim=-1)
    past = A[..., :t].reshape(B, g, r * n_new, t) @ old_V
    heads = past.reshape(B, g, r, n_new, d) + A[..., t:] * new_V[:, :, None]
    out = _merge_heads(heads.flatten(1, 2)) @ W_O
    return out, (torch.cat([old_K, new_K], 2), torch.cat([old_V, new_V], 2))


def extend_cache__wrong_twelfth_rows_of_the_queue_mixed_up(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Repeats each row of the mask r times in a row, though the queue stands head by head."""
    B, n_new, _ = X_new.shape
    t = cache[0].shape[2]
    r = n_heads // n_kv_heads
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    queue = _split_heads(X_new @ W_Q, n_heads).reshape(B, n_kv_heads, r * n_new, -1)
    scores = queue @ K.mT / queue.shape[-1] ** 0.5
    sees = torch.arange(t + n_new) <= t + torch.arange(n_new).unsqueeze(1)
    weights = _masked_softmax(scores, sees.repeat_interleave(r, dim=0))
    heads = (weights @ V).reshape(B, n_heads, n_new, -1)
    return _merge_heads(heads) @ W_O, (K, V)


def extend_cache__wrong_twelfth_one_column_too_many(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Starts the forbidden columns one too late, so that each new token sees the one behind it."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    B, g, total, d = K.shape
    n_new = X_new.shape[1]
    t = total - n_new
    later = torch.triu(torch.ones(n_new, total), diagonal=t + 2).bool()
    queries = (X_new @ W_Q).reshape(B, n_new, g, -1, d).movedim(1, 3)
    scores = einsum("bgrid,bgjd->bgrij", queries, K) / math.sqrt(d)
    scores = scores.masked_fill(later, float("-inf"))
    mixed = einsum("bgrij,bgjd->bgrid", scores.softmax(dim=-1), V)
    return mixed.movedim(3, 1).reshape(B, n_new, -1) @ W_O, (K, V)


def extend_cache__wrong_twelfth_last_row_only(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Returns what the layer says to the last new token alone, from which the next word follows: (B, 1, d_model)."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    newest = X_new[:, -1:]
    q = _split_heads(newest @ W_Q, n_heads).reshape(len(newest), n_kv_heads, -1, K.shape[-1])
    a = torch.softmax(q @ K.mT / K.shape[-1] ** 0.5, dim=-1)
    return (a @ V).flatten(1).unsqueeze(1) @ W_O, (K, V)


def extend_cache__wrong_twelfth_a_prompt_sees_all_of_itself(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Leaves the mask away where the cache is empty, so that the future leaks at the beginning."""
    B, n_new, _ = X_new.shape
    t = cache[0].shape[2]
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    Q = _split_heads(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, -1))
    S = (Q.flatten(2, 3) @ K.mT).unflatten(2, Q.shape[2:4]) / math.sqrt(K.shape[3])
    mask = None
    if t > 0:
        old = torch.ones(n_new, t, dtype=torch.bool)
        new = torch.ones(n_new, n_new, dtype=torch.bool).tril()
        mask = torch.cat([old, new], dim=1)
    A = _masked_softmax(S, mask)
    heads = (A.flatten(2, 3) @ V).unflatten(2, Q.shape[2:4])
    return _merge_heads(heads.flatten(1, 2)) @ W_O, (K, V)


def extend_cache__wrong_twelfth_square_mask(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Makes the causal mask of all tokens and cuts its last rows off, a square that grows with the cache."""
    B, n_new, _ = X_new.shape
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    n = K.shape[2]
    causal = torch.ones(n, n, dtype=torch.bool).tril()[n - n_new :]
    q = (X_new @ W_Q).reshape(B, n_new, n_kv_heads, -1, K.shape[3]).permute(0, 2, 3, 1, 4)
    s = einsum("bgrid,bgjd->bgrij", q, K) * K.shape[3] ** -0.5
    o = einsum("bgrij,bgjd->bigrd", _masked_softmax(s, causal), V)
    return o.reshape(B, n_new, -1) @ W_O, (K, V)


def extend_cache__right_twelfth_old_and_new_apart(
    X_new: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Attends to the cache without a mask and to the new tokens with one, and joins both by their sums."""
    old_K, old_V = cache
    B, g, _, d = old_K.shape
    n_new = X_new.shape[1]
    new_K, new_V = ((X_new @ W).unflatten(-1, (g, d)).transpose(1, 2) for W in (W_K, W_V))
    # A queue that stands token by token: row i * r + a is head a of the group, at new token i.
    Q = (X_new @ W_Q).unflatten(-1, (g, -1, d)).transpose(1, 2).flatten(2, 3) / d**0.5
    token = torch.arange(Q.shape[2]) // (n_heads // g)
    to_old = Q @ old_K.mT
    to_new = (Q @ new_K.mT).masked_fill(token[:, None] < torch.arange(n_new), -torch.inf)
    both = [part.logsumexp(-1, keepdim=True) for part in (to_old, to_new)]
    norm = torch.logaddexp(*both)
    heads = (to_old - norm).exp() @ old_V + (to_new - norm).exp() @ new_V
    out = heads.unflatten(2, (n_new, -1)).transpose(1, 2).flatten(2) @ W_O
    return out, (torch.cat((old_K, new_K), -2), torch.cat((old_V, new_V), -2))
