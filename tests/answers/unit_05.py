"""Right and wrong answers to unit 05_mqa_gqa, written from the contracts of the functions alone, to test the judge with."""

import math
import warnings
from collections import namedtuple
import numpy as np
import torch


def _split(X, n_heads):
    """(B, n, h*d) -> (B, h, n, d)."""
    B, n, d = X.shape
    return X.reshape(B, n, n_heads, d // n_heads).transpose(1, 2)


def _merge(X):
    """(B, h, n, d) -> (B, n, h*d)."""
    B, h, n, d = X.shape
    return X.transpose(1, 2).reshape(B, n, h * d)


def _softmax(scores, mask=None):
    """Weights over the keys, all zero where nothing may be attended to."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1).masked_fill(~mask, 0.0)


def _attend(Q, K, V, mask=None):
    """Scaled attention over the last two axes."""
    return _softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask) @ V


def _repeat(K, n_rep):
    """Consecutive query heads share a key/value head."""
    return K.repeat_interleave(n_rep, dim=1)


def _check(n_heads, n_kv_heads):
    """ValueError where the groups are not equal."""
    if n_heads % n_kv_heads:
        raise ValueError(f"n_kv_heads = {n_kv_heads} does not divide n_heads = {n_heads}")


def _gqa(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None, repeat=_repeat, attend=_attend):
    """Grouped attention with exchangeable parts."""
    _check(n_heads, n_kv_heads)
    Q, K, V = _split(X @ W_Q, n_heads), _split(X @ W_K, n_kv_heads), _split(X @ W_V, n_kv_heads)
    n_rep = n_heads // n_kv_heads
    return _merge(attend(Q, repeat(K, n_rep), repeat(V, n_rep), mask)) @ W_O


def repeat_kv__right_interleave(K, n_rep):
    """The plain one: repeat_interleave on the head axis."""
    return torch.repeat_interleave(K, n_rep, dim=1)


def repeat_kv__right_loop_cat(K, n_rep):
    """Two loops, concatenated; prints."""
    parts = []
    for j in range(K.shape[1]):
        for _ in range(n_rep):
            parts.append(K[:, j : j + 1])
    print("heads:", len(parts))
    return torch.cat(parts, dim=1)


def repeat_kv__right_kron(K, n_rep):
    """Kronecker product with ones on the head axis."""
    return torch.kron(K.contiguous(), torch.ones(1, n_rep, 1, 1, dtype=K.dtype, device=K.device))


def repeat_kv__right_one_head_after_another(K, n_rep):
    """Recursion over the heads; a single head is only expanded, a view without copies."""
    if K.shape[1] == 1:
        return K.expand(-1, n_rep, -1, -1)
    return torch.cat([repeat_kv__right_one_head_after_another(part, n_rep) for part in (K[:, :1], K[:, 1:])], dim=1)


def repeat_kv__wrong_repeat_tiles(K, n_rep):
    """repeat on the head axis: heads 0, 1, 0, 1 and not 0, 0, 1, 1."""
    return K.repeat(1, n_rep, 1, 1)


def repeat_kv__wrong_two_only(K, n_rep):
    """Always two copies."""
    return torch.stack([K, K], dim=2).flatten(1, 2)


def repeat_kv__wrong_detach(K, n_rep):
    """Cuts the gradient."""
    return K.detach().repeat_interleave(n_rep, dim=1)


def repeat_kv__wrong_tensor_copy(K, n_rep):
    """torch.tensor of a NumPy repeat: no gradient."""
    return torch.tensor(np.repeat(K.detach().numpy(), n_rep, axis=1))


def repeat_kv__wrong_float64(K, n_rep):
    """Multiplies with ones in float64."""
    return (K[:, :, None] * torch.ones(n_rep, 1, 1, dtype=torch.float64)).flatten(1, 2)


_CACHE_05: dict = {}


def repeat_kv__wrong_cached_by_shape(K, n_rep):
    """Keeps the answer of the first call of a shape."""
    key = (tuple(K.shape), n_rep)
    if key not in _CACHE_05:
        _CACHE_05[key] = K.repeat_interleave(n_rep, dim=1)
    return _CACHE_05[key]


def repeat_kv__wrong_resize_in_place(K, n_rep):
    """Scales K in place on the way and does not undo it."""
    K.data.mul_(1 / n_rep)
    return K.repeat_interleave(n_rep, dim=1) * n_rep


def grouped_query_attention__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Projects, repeats keys and values, attends, merges, projects."""
    if n_heads % n_kv_heads != 0:
        raise ValueError(f"n_heads={n_heads} is not a multiple of n_kv_heads={n_kv_heads}")
    Q = _split(X @ W_Q, n_heads)
    K = _split(X @ W_K, n_kv_heads).repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = _split(X @ W_V, n_kv_heads).repeat_interleave(n_heads // n_kv_heads, dim=1)
    return _merge(_attend(Q, K, V, mask)) @ W_O


def grouped_query_attention__right_batch_loop(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """A loop over the sequences and groups, in float64 and cast back; prints."""
    _check(n_heads, n_kv_heads)
    B, n, _ = X.shape
    r = n_heads // n_kv_heads
    rows = []
    for b in range(B):
        x = X[b].double()
        heads = []
        for i in range(n_heads):
            q = (x @ W_Q.double()).chunk(n_heads, dim=-1)[i]
            k = (x @ W_K.double()).chunk(n_kv_heads, dim=-1)[i // r]
            v = (x @ W_V.double()).chunk(n_kv_heads, dim=-1)[i // r]
            heads.append(_attend(q, k, v, None if mask is None else mask.expand(B, n_heads, n, n)[b, i]))
        rows.append(torch.cat(heads, dim=-1) @ W_O.double())
    print("sequences:", len(rows))
    return torch.stack(rows).to(X.dtype)


def grouped_query_attention__right_stable_exp(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Own softmax: subtract the largest allowed score, exp, divide by the sum (1 for empty rows)."""
    _check(n_heads, n_kv_heads)
    Q, K, V = _split(X @ W_Q, n_heads), _split(X @ W_K, n_kv_heads), _split(X @ W_V, n_kv_heads)
    K, V = _repeat(K, n_heads // n_kv_heads), _repeat(V, n_heads // n_kv_heads)
    S = (Q / math.sqrt(Q.shape[-1])) @ K.mT
    keep = torch.ones_like(S, dtype=torch.bool) if mask is None else mask.expand_as(S)
    top = S.masked_fill(~keep, torch.finfo(S.dtype).min).amax(dim=-1, keepdim=True)
    E = torch.exp((S - top).masked_fill(~keep, 0.0)) * keep
    total = E.sum(dim=-1, keepdim=True)
    return _merge(E / torch.where(total == 0, torch.ones_like(total), total) @ V) @ W_O


def grouped_query_attention__wrong_assertion(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """assert: an AssertionError and no ValueError."""
    assert n_heads % n_kv_heads == 0, "g must divide h"
    return _gqa(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask)


def grouped_query_attention__wrong_refuses_mqa(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """A ValueError for g = 1 too."""
    if n_heads % n_kv_heads or n_kv_heads < 2:
        raise ValueError("need at least two groups")
    return _gqa(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask)


def grouped_query_attention__wrong_sqrt_group(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Divides by sqrt(h*d_head / g): wrong d_head unless g = h."""

    def attend(Q, K, V, m):
        return _softmax(Q @ K.mT / math.sqrt(W_Q.shape[1] / n_kv_heads), m) @ V

    return _gqa(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask, attend=attend)


def grouped_query_attention__wrong_mask_inverted(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """The mask the wrong way round."""
    return _gqa(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, None if mask is None else ~mask)


def grouped_query_attention__wrong_mask_by_group(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Every query head of a group takes the mask of the group's first head."""
    if mask is not None:
        B, n, _ = X.shape
        r = n_heads // n_kv_heads
        mask = mask.expand(B, n_heads, n, n)[:, ::r].repeat_interleave(r, dim=1)
    return _gqa(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask)


def grouped_query_attention__wrong_unstable(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """exp without subtracting the maximum."""

    def attend(Q, K, V, m):
        E = torch.exp(Q @ K.mT / math.sqrt(Q.shape[-1]))
        E = E if m is None else E * m
        return E / E.sum(-1, keepdim=True).clamp_min(1e-30) @ V

    return _gqa(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask, attend=attend)


def grouped_query_attention__wrong_library(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """torch's scaled_dot_product_attention does the exercise (and enable_gqa the rest)."""
    _check(n_heads, n_kv_heads)
    Q, K, V = _split(X @ W_Q, n_heads), _split(X @ W_K, n_kv_heads), _split(X @ W_V, n_kv_heads)
    out = torch.nn.functional.scaled_dot_product_attention(Q, K, V, attn_mask=mask, enable_gqa=True)
    return _merge(out) @ W_O


def grouped_query_attention__wrong_detached_keys(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Cuts the gradient of keys and values ("it's a cache")."""
    return _gqa(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask, repeat=lambda K, r: _repeat(K, r).detach())


def multi_query_attention__right_broadcast(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The shared head with a head axis of 1, broadcast by matmul."""
    Q = _split(X @ W_Q, n_heads)
    K, V = (X @ W_K).unsqueeze(1), (X @ W_V).unsqueeze(1)
    A = _softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1]), mask)
    return _merge(A @ V) @ W_O


def multi_query_attention__right_head_loop(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """A loop over query heads that all use the same K and V; the results are stacked."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    results = []
    for i, q in enumerate((X @ W_Q).chunk(n_heads, dim=-1)):
        results.append(_attend(q, K, V, None if mask is None else mask.expand(B, n_heads, n, n)[:, i]))
    print("heads", len(results))
    return _merge(torch.stack(results, dim=1)) @ W_O


def _mqa(X, W_Q, W_K, W_V, W_O, n_heads, mask=None, attend=_attend):
    """Multi-query attention by broadcasting, with an exchangeable attention."""
    Q, K, V = _split(X @ W_Q, n_heads), (X @ W_K)[:, None], (X @ W_V)[:, None]
    return _merge(attend(Q, K, V, mask)) @ W_O


def multi_query_attention__wrong_expand_reshape(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """expand + reshape for a bmm over B*h."""
    B, n, _ = X.shape
    K, V = ((X @ W)[:, None].expand(B, n_heads, n, W.shape[1]).reshape(B * n_heads, n, -1) for W in (W_K, W_V))
    Q = _split(X @ W_Q, n_heads).reshape(B * n_heads, n, -1)
    S = torch.bmm(Q, K.mT).view(B, n_heads, n, n) / math.sqrt(Q.shape[-1])
    out = torch.bmm(_softmax(S, mask).reshape(B * n_heads, n, n), V)
    return _merge(out.view(B, n_heads, n, -1)) @ W_O


def multi_query_attention__wrong_calls_grouped(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Calls the grouped attention, which repeats."""
    return grouped_query_attention__right_plain(X, W_Q, W_K, W_V, W_O, n_heads, 1, mask)


def multi_query_attention__wrong_sqrt_all_heads(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Divides by sqrt(h*d_head)."""
    scale = math.sqrt(W_Q.shape[1])
    return _mqa(X, W_Q, W_K, W_V, W_O, n_heads, mask, lambda Q, K, V, m: _softmax(Q @ K.mT / scale, m) @ V)


def multi_query_attention__wrong_mask_inverted(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The mask the wrong way round."""
    return _mqa(X, W_Q, W_K, W_V, W_O, n_heads, None if mask is None else mask.logical_not())


def multi_query_attention__wrong_mask_first_head(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """One mask for all heads ("keys are shared, so is the mask"): that of head 0."""
    if mask is not None:
        B, n, _ = X.shape
        mask = mask.expand(B, n_heads, n, n)[:, :1]
    return _mqa(X, W_Q, W_K, W_V, W_O, n_heads, mask)


def multi_query_attention__right_lowest_number(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The lowest number for forbidden scores."""

    def attend(Q, K, V, m):
        S = Q @ K.mT / math.sqrt(Q.shape[-1])
        return (S if m is None else S.masked_fill(~m, torch.finfo(S.dtype).min)).softmax(-1) @ V

    return _mqa(X, W_Q, W_K, W_V, W_O, n_heads, mask, attend)


def multi_query_attention__wrong_unstable(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """exp without subtracting the maximum."""

    def attend(Q, K, V, m):
        E = (Q @ K.mT / math.sqrt(Q.shape[-1])).exp()
        E = E if m is None else E * m
        return E @ V / (E.sum(-1, keepdim=True) + 1e-12)

    return _mqa(X, W_Q, W_K, W_V, W_O, n_heads, mask, attend)


def multi_query_attention__wrong_library(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """scaled_dot_product_attention."""
    Q, K, V = _split(X @ W_Q, n_heads), (X @ W_K)[:, None], (X @ W_V)[:, None]
    return _merge(torch.nn.functional.scaled_dot_product_attention(Q, K, V, attn_mask=mask)) @ W_O


def multi_query_attention__wrong_detached(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """No gradient through the shared head."""
    Q, K, V = _split(X @ W_Q, n_heads), (X @ W_K)[:, None].detach(), (X @ W_V)[:, None].detach()
    return _merge(_attend(Q, K, V, mask)) @ W_O


def kv_cache_bytes__right_product(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """One product."""
    return 2 * n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value


def kv_cache_bytes__right_math_prod(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """math.prod of the parts."""
    return math.prod((batch, n_layers, 2, n_kv_heads, n_tokens, d_head, bytes_per_value))


def kv_cache_bytes__right_layer_loop(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Adds keys and values layer by layer; prints."""
    total = 0
    for _ in range(n_layers):
        keys = batch * n_kv_heads * n_tokens * d_head
        values = batch * n_kv_heads * n_tokens * d_head
        total += (keys + values) * bytes_per_value
    print(f"{total / 2**20:.1f} MiB")
    return total


def kv_cache_bytes__right_numpy_int64(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """np.int64: enough below 2**63."""
    return np.prod(np.array([2, n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value], dtype=np.int64))


def kv_cache_bytes__right_shift(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """The factor 2 as a shift."""
    per_token = (n_layers * n_kv_heads * d_head * bytes_per_value) << 1
    return per_token * (batch * n_tokens)


def kv_cache_bytes__wrong_two_is_the_bytes(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Takes the 2 for the bytes: bytes_per_value is ignored."""
    return 2 * 2 * n_layers * n_kv_heads * d_head * n_tokens * batch


def kv_cache_bytes__wrong_weights(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """The weights W_K, W_V instead of the cache."""
    return 2 * n_layers * (n_kv_heads * d_head) ** 2 * bytes_per_value


def kv_cache_bytes__wrong_int32(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """32 bits: overflows from 2 GiB on."""
    parts = np.array([2, n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value], dtype=np.int32)
    return np.prod(parts, dtype=np.int32)


def kv_cache_bytes__wrong_default_bytes(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=4):
    """Default of 4 bytes."""
    return 2 * n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value


def kv_cache_bytes__wrong_defaults_swapped(n_layers, n_kv_heads, d_head, n_tokens, bytes_per_value=2, batch=2):
    """Default batch of 2."""
    return 2 * n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value


def _new(x, W, g):
    """The new token's key or value: (B, g, 1, d_head)."""
    return _split(x @ W, g)


def _read(x, K, V, W_Q, W_O, n_heads, attend=_attend):
    """The new token asks the cache."""
    r = n_heads // K.shape[1]
    return _merge(attend(_split(x @ W_Q, n_heads), _repeat(K, r), _repeat(V, r))) @ W_O


def decode_step__right_head_loop(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """One query head after the other."""
    K, V = (torch.cat([c, _new(x, W, n_kv_heads)], dim=2) for c, W in zip(cache, (W_K, W_V), strict=True))
    d = W_Q.shape[1] // n_heads
    out = 0
    for i in range(n_heads):
        j = i * n_kv_heads // n_heads
        q = x @ W_Q[:, i * d : (i + 1) * d]
        out = out + _attend(q, K[:, j], V[:, j]) @ W_O[i * d : (i + 1) * d]
    return out, (K, V)


def decode_step__right_online_softmax(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Runs over the tokens with a running maximum, as flash attention does."""
    r = n_heads // n_kv_heads
    K, V = torch.cat([cache[0], _new(x, W_K, n_kv_heads)], 2), torch.cat([cache[1], _new(x, W_V, n_kv_heads)], 2)
    Q = _split(x @ W_Q, n_heads)[:, :, 0]
    KK, VV = _repeat(K, r), _repeat(V, r)
    S = (Q[:, :, None] * KK).sum(-1) / math.sqrt(Q.shape[-1])
    top, total, acc = S[..., 0], torch.ones_like(S[..., 0]), VV[:, :, 0]
    for t in range(1, S.shape[-1]):
        new_top = torch.maximum(top, S[..., t])
        a, b = torch.exp(top - new_top), torch.exp(S[..., t] - new_top)
        total, acc, top = total * a + b, acc * a[..., None] + VV[:, :, t] * b[..., None], new_top
    return (acc / total[..., None]).flatten(1)[:, None] @ W_O, (K, V)


Kept = namedtuple("Kept", "K V")


def decode_step__right_padded_and_named(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Pads old and new with zeros and adds them; the cache is a named tuple, einsum does the rest."""
    g, t = n_kv_heads, cache[0].shape[2]
    new = (torch.einsum("bom,mgd->bgod", x, W.unflatten(1, (g, -1))) for W in (W_K, W_V))
    pad = torch.nn.functional.pad
    kept = Kept(*(pad(old, (0, 0, 0, 1)) + pad(row, (0, 0, t, 0)) for old, row in zip(cache, new, strict=True)))
    Q = torch.einsum("bom,mgrd->bgrd", x, W_Q.unflatten(1, (g, n_heads // g, -1)))
    weights = torch.softmax(torch.einsum("bgrd,bgtd->bgrt", Q, kept.K) / math.sqrt(Q.shape[-1]), dim=-1)
    out = torch.einsum("bgrt,bgtd,grdm->bm", weights, kept.V, W_O.unflatten(0, Q.shape[1:]))
    return out[:, None], kept


def _grow(x, cache, W_K, W_V, g):
    """The cache with the new token at the end."""
    return torch.cat([cache[0], _new(x, W_K, g)], 2), torch.cat([cache[1], _new(x, W_V, g)], 2)


def decode_step__wrong_repeated_cache(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Returns the repeated heads: the cache has h heads."""
    K, V = _grow(x, cache, W_K, W_V, n_kv_heads)
    r = n_heads // n_kv_heads
    return _read(x, K, V, W_Q, W_O, n_heads), (_repeat(K, r), _repeat(V, r))


def decode_step__wrong_tiled(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Query head i uses head i % g."""
    K, V = _grow(x, cache, W_K, W_V, n_kv_heads)
    r = n_heads // n_kv_heads
    out = _attend(_split(x @ W_Q, n_heads), K.repeat(1, r, 1, 1), V.repeat(1, r, 1, 1))
    return _merge(out) @ W_O, (K, V)


def decode_step__wrong_empty_cache(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Looks at the last cached token (for the shape) and fails for t = 0."""
    last = cache[0][:, :, -1]
    K, V = _grow(x, cache, W_K, W_V, n_kv_heads)
    assert last.shape[-1] == K.shape[-1]
    return _read(x, K, V, W_Q, W_O, n_heads), (K, V)


def decode_step__wrong_window(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Keeps the last three tokens only."""
    K, V = (T[:, :, -3:] for T in _grow(x, cache, W_K, W_V, n_kv_heads))
    return _read(x, K, V, W_Q, W_O, n_heads), (K, V)


def decode_step__wrong_detached_cache(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Stores detached keys and values: no gradient from the cache, and none to W_K, W_V."""
    K, V = (T.detach() for T in _grow(x, cache, W_K, W_V, n_kv_heads))
    return _read(x, K, V, W_Q, W_O, n_heads), (K, V)


_BUFFERS_05: dict = {}


def decode_step__wrong_shared_buffer(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """A buffer that lives on and is written over: caches returned earlier change at a new decoding."""
    B, g, t, d = cache[0].shape
    key = (B, g, d, x.dtype)
    if key not in _BUFFERS_05:
        _BUFFERS_05[key] = torch.zeros(2, B, g, 256, d, dtype=x.dtype)
    buf = _BUFFERS_05[key].detach()
    with torch.no_grad():
        buf[0, :, :, :t], buf[1, :, :, :t] = cache[0].clone(), cache[1].clone()
        buf[0, :, :, t : t + 1], buf[1, :, :, t : t + 1] = _new(x, W_K, n_kv_heads), _new(x, W_V, n_kv_heads)
    K, V = _grow(x, cache, W_K, W_V, n_kv_heads)
    return _read(x, K, V, W_Q, W_O, n_heads), (buf[0, :, :, : t + 1], buf[1, :, :, : t + 1])


_GROWN_05: list = []


def decode_step__wrong_global_cache(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Keeps the cache itself, continues with it while the shapes fit and ignores the argument."""
    if cache[0].shape[2] > 0 and _GROWN_05 and _GROWN_05[0][0].shape == cache[0].shape:
        cache = _GROWN_05[0]
    K, V = _grow(x, cache, W_K, W_V, n_kv_heads)
    _GROWN_05[:] = [(K.detach(), V.detach())]
    return _read(x, K, V, W_Q, W_O, n_heads), (K, V)


def pool_kv_heads__right_reshape_mean(W, n_heads, n_kv_heads):
    """(d_model, g, r, d_head), mean over r."""
    d_head = W.shape[1] // n_heads
    return W.reshape(W.shape[0], n_kv_heads, n_heads // n_kv_heads, d_head).mean(dim=2).reshape(W.shape[0], -1)


def pool_kv_heads__right_loop_cat(W, n_heads, n_kv_heads):
    """A loop over the groups, one over their heads."""
    d, r = W.shape[1] // n_heads, n_heads // n_kv_heads
    groups = []
    for j in range(n_kv_heads):
        total = torch.zeros_like(W[:, :d])
        for i in range(j * r, (j + 1) * r):
            total = total + W[:, i * d : (i + 1) * d]
        groups.append(total / r)
    return torch.cat(groups, dim=1)


def pool_kv_heads__right_strided_sum(W, n_heads, n_kv_heads):
    """Sum of the r-th heads of all groups, in float64; warns."""
    warnings.warn("pooling", stacklevel=2)
    r = n_heads // n_kv_heads
    heads = W.double().reshape(W.shape[0], n_heads, -1)
    return (sum(heads[:, s::r] for s in range(r)) / r).reshape(W.shape[0], -1).to(W.dtype)


def pool_kv_heads__right_avg_pool(W, n_heads, n_kv_heads):
    """Average pooling along the heads."""
    heads = W.unflatten(1, (n_heads, -1)).mT
    return torch.nn.functional.avg_pool1d(heads, n_heads // n_kv_heads).mT.flatten(1)


def pool_kv_heads__wrong_interleaved_groups(W, n_heads, n_kv_heads):
    """Averages the heads i, i + g, ...: groups of every g-th head."""
    return W.reshape(W.shape[0], n_heads // n_kv_heads, n_kv_heads, -1).mean(dim=1).reshape(W.shape[0], -1)


def pool_kv_heads__wrong_divided_by_g(W, n_heads, n_kv_heads):
    """Divides the sum by the number of groups."""
    return W.reshape(W.shape[0], n_kv_heads, n_heads // n_kv_heads, -1).sum(2).flatten(1) / n_kv_heads


def pool_kv_heads__wrong_not_flattened(W, n_heads, n_kv_heads):
    """(d_model, g, d_head)."""
    return W.reshape(W.shape[0], n_kv_heads, n_heads // n_kv_heads, -1).mean(2)


def pool_kv_heads__wrong_pairs_only(W, n_heads, n_kv_heads):
    """Averages the first two heads of a group only (halves W, right for r = 2)."""
    P = W.reshape(W.shape[0], n_kv_heads, n_heads // n_kv_heads, -1)
    return ((P[:, :, 0] + P[:, :, -1]) / 2).flatten(1)


def pool_kv_heads__wrong_in_place(W, n_heads, n_kv_heads):
    """Collects the sums in W itself."""
    P = W.data.view(W.shape[0], n_kv_heads, n_heads // n_kv_heads, -1)
    first = P[:, :, 0]
    for s in range(1, P.shape[2]):
        first += P[:, :, s]
    first /= P.shape[2]
    return first.reshape(W.shape[0], -1)


def pool_kv_heads__wrong_parameter(W, n_heads, n_kv_heads):
    """A new nn.Parameter: no gradient to W."""
    return torch.nn.Parameter(pool_kv_heads__right_reshape_mean(W, n_heads, n_kv_heads))


def _longer(X_new, cache, W_K, W_V, g):
    """The cache with the new tokens behind it."""
    return tuple(torch.cat([kept, _split(X_new @ W, g)], dim=2) for kept, W in zip(cache, (W_K, W_V), strict=True))


def _lower_right(n_new, m, shift=0):
    """Row r sees the columns up to m - n_new + r + shift."""
    return torch.arange(m) <= torch.arange(n_new)[:, None] + (m - n_new) + shift


def _in_queues(X_new, K, V, W_Q, W_O, h, g, mask, weigh=_softmax):
    """The heads of a group in one queue; K and V stay (B, g, m, d_head)."""
    B, n_new, _ = X_new.shape
    Q = _split(X_new @ W_Q, h).reshape(B, g, (h // g) * n_new, -1)
    scores = (Q @ K.mT / math.sqrt(K.shape[-1])).unflatten(2, (-1, n_new))
    heads = (weigh(scores, mask).flatten(2, 3) @ V).reshape(B, h, n_new, -1)
    return _merge(heads) @ W_O


def extend_cache__right_queue(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """One queue a group, the mask at the bottom right."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    mask = torch.ones(X_new.shape[1], K.shape[2], dtype=torch.bool).tril(cache[0].shape[2])
    return _in_queues(X_new, K, V, W_Q, W_O, n_heads, n_kv_heads, mask), (K, V)


def extend_cache__right_two_blocks(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Scores with the past need no mask, those among the new tokens a square one; one softmax over both."""
    r, n_new, t = n_heads // n_kv_heads, X_new.shape[1], cache[0].shape[2]
    new = [_split(X_new @ W, n_kv_heads) for W in (W_K, W_V)]
    Q = _split(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r)) / math.sqrt(new[0].shape[-1])
    ahead = torch.ones(n_new, n_new, dtype=torch.bool).triu(1)
    among = (Q @ new[0][:, :, None].mT).masked_fill(ahead, -torch.inf)
    A = torch.softmax(torch.cat([Q @ cache[0][:, :, None].mT, among], dim=-1), dim=-1)
    heads = A[..., :t] @ cache[1][:, :, None] + A[..., t:] @ new[1][:, :, None]
    kept = tuple(torch.cat(pair, dim=-2) for pair in zip(cache, new, strict=True))
    return _merge(heads.flatten(1, 2)) @ W_O, kept


def extend_cache__wrong_square_mask(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The last rows of a mask of all tokens by all tokens."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    n_new, m = X_new.shape[1], K.shape[2]
    mask = torch.tril(torch.ones(m, m, dtype=torch.bool))[m - n_new :]
    return _in_queues(X_new, K, V, W_Q, W_O, n_heads, n_kv_heads, mask), (K, V)


def extend_cache__wrong_copies(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """repeat_interleave: right numbers, one copy for each head."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    r = n_heads // n_kv_heads
    mask = _lower_right(X_new.shape[1], K.shape[2])
    return _merge(_attend(_split(X_new @ W_Q, n_heads), _repeat(K, r), _repeat(V, r), mask)) @ W_O, (K, V)


def extend_cache__wrong_copies_by_expand(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """expand and reshape: the reshape copies."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    wide = [
        T[:, :, None].expand(-1, -1, n_heads // n_kv_heads, -1, -1).reshape(len(T), n_heads, *T.shape[2:])
        for T in (K, V)
    ]
    mask = _lower_right(X_new.shape[1], K.shape[2])
    return _merge(_attend(_split(X_new @ W_Q, n_heads), *wide, mask)) @ W_O, (K, V)


def extend_cache__wrong_mask_for_queue_rows(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The rows of the mask are repeated one by one, while the queue repeats the tokens as a whole."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    B, n_new, _ = X_new.shape
    r = n_heads // n_kv_heads
    Q = _split(X_new @ W_Q, n_heads).reshape(B, n_kv_heads, r * n_new, -1)
    mask = _lower_right(n_new, K.shape[2]).repeat_interleave(r, dim=0)
    return _merge(_attend(Q, K, V, mask).reshape(B, n_heads, n_new, -1)) @ W_O, (K, V)


def extend_cache__wrong_writes_into_cache(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Makes room in the tensors that came in."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    mask = _lower_right(X_new.shape[1], K.shape[2])
    out = _in_queues(X_new, K, V, W_Q, W_O, n_heads, n_kv_heads, mask)
    with torch.no_grad():
        for old in cache:
            old[:, :, :1] *= 1.5
    return out, (K, V)


def extend_cache__wrong_detached(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The cache is taken out of the graph."""
    out, kept = extend_cache__right_queue(
        X_new, tuple(one.detach() for one in cache), W_Q, W_K, W_V, W_O, n_heads, n_kv_heads
    )
    return out, kept


# ---------------------------------------------------------------- unit 4: diagnose


def extend_cache__right_head_loop_summed(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """A loop over heads that adds each head's part through its rows of W_O; an additive 0/-inf bias as mask."""
    t, r = cache[0].size(2), X_new.size(1)
    d = W_Q.size(1) // n_heads
    keys, values, out = [], [], torch.zeros_like(X_new)
    bias = torch.full((r, t + r), float("-inf"), dtype=X_new.dtype, device=X_new.device).triu(t + 1)
    for a in range(n_heads):
        group = a // (n_heads // n_kv_heads)
        if group == len(keys):
            c = slice(group * d, (group + 1) * d)
            keys.append(torch.cat([cache[0][:, group], X_new @ W_K[:, c]], 1))
            values.append(torch.cat([cache[1][:, group], X_new @ W_V[:, c]], 1))
        q = X_new @ W_Q[:, a * d : (a + 1) * d]
        weights = torch.softmax(
            torch.baddbmm(bias.expand(len(q), r, t + r), q, keys[group].transpose(1, 2), alpha=d**-0.5), -1
        )
        out = out + (weights @ values[group]) @ W_O[a * d : (a + 1) * d]
    return out, (torch.stack(keys, 1), torch.stack(values, 1))


def extend_cache__right_buffers_as_views(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Token-major buffers filled by slices, the cache returned as transposed views; a loop over new rows without mask."""
    B, r, _ = X_new.shape
    t, g, d = cache[0].shape[2], n_kv_heads, W_K.shape[1] // n_kv_heads
    K, V = X_new.new_zeros(B, t + r, g, d), X_new.new_zeros(B, t + r, g, d)
    K[:, :t], K[:, t:] = cache[0].transpose(1, 2), (X_new @ W_K).unflatten(-1, (g, d))
    V[:, :t], V[:, t:] = cache[1].transpose(1, 2), (X_new @ W_V).unflatten(-1, (g, d))
    q = (X_new @ W_Q).unflatten(-1, (g, n_heads // g, d))
    rows = []
    for i in range(r):
        seen = t + i + 1
        s = torch.einsum("bgrd,bmgd->bgrm", q[:, i], K[:, :seen]).div(d**0.5)
        p = (s - torch.logsumexp(s, -1, keepdim=True)).exp()
        rows.append(torch.einsum("bgrm,bmgd->bgrd", p, V[:, :seen]).flatten(1))
    return torch.stack(rows, 1) @ W_O, (K.transpose(1, 2), V.transpose(1, 2))
