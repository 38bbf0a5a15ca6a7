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


def repeat_kv__right_kron(K, n_rep):
    """Kronecker product with ones on the head axis."""
    return torch.kron(K.contiguous(), torch.ones(1, n_rep, 1, 1, dtype=K.dtype, device=K.device))


def repeat_kv__right_one_head_after_another(K, n_rep):
    """Recursion over the heads; a single head is only expanded, a view without copies."""
    if K.shape[1] == 1:
        return K.expand(-1, n_rep, -1, -1)
    return torch.cat([repeat_kv__right_one_head_after_another(part, n_rep) for part in (K[:, :1], K[:, 1:])], dim=1)


def repeat_kv__wrong_two_only(K, n_rep):
    """Always two copies."""
    return torch.stack([K, K], dim=2).flatten(1, 2)


_CACHE_05: dict = {}


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


def grouped_query_attention__wrong_assertion(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """assert: an AssertionError and no ValueError."""
    assert n_heads % n_kv_heads == 0, "g must divide h"
    return _gqa(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask)


def grouped_query_attention__wrong_detached_keys(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Cuts the gradient of keys and values ("it's a cache")."""
    return _gqa(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask, repeat=lambda K, r: _repeat(K, r).detach())


def multi_query_attention__right_broadcast(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The shared head with a head axis of 1, broadcast by matmul."""
    Q = _split(X @ W_Q, n_heads)
    K, V = (X @ W_K).unsqueeze(1), (X @ W_V).unsqueeze(1)
    A = _softmax(Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1]), mask)
    return _merge(A @ V) @ W_O


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


def multi_query_attention__right_lowest_number(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The lowest number for forbidden scores."""

    def attend(Q, K, V, m):
        S = Q @ K.mT / math.sqrt(Q.shape[-1])
        return (S if m is None else S.masked_fill(~m, torch.finfo(S.dtype).min)).softmax(-1) @ V

    return _mqa(X, W_Q, W_K, W_V, W_O, n_heads, mask, attend)


def multi_query_attention__wrong_library(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """scaled_dot_product_attention."""
    Q, K, V = _split(X @ W_Q, n_heads), (X @ W_K)[:, None], (X @ W_V)[:, None]
    return _merge(torch.nn.functional.scaled_dot_product_attention(Q, K, V, attn_mask=mask)) @ W_O


def multi_query_attention__wrong_detached(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """No gradient through the shared head."""
    Q, K, V = _split(X @ W_Q, n_heads), (X @ W_K)[:, None].detach(), (X @ W_V)[:, None].detach()
    return _merge(_attend(Q, K, V, mask)) @ W_O


def kv_cache_bytes__right_math_prod(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """math.prod of the parts."""
    return math.prod((batch, n_layers, 2, n_kv_heads, n_tokens, d_head, bytes_per_value))


def kv_cache_bytes__right_numpy_int64(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """np.int64: enough below 2**63."""
    return np.prod(np.array([2, n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value], dtype=np.int64))


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


def pool_kv_heads__wrong_not_flattened(W, n_heads, n_kv_heads):
    """(d_model, g, d_head)."""
    return W.reshape(W.shape[0], n_kv_heads, n_heads // n_kv_heads, -1).mean(2)


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


def extend_cache__wrong_copies_by_expand(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """expand and reshape: the reshape copies."""
    K, V = _longer(X_new, cache, W_K, W_V, n_kv_heads)
    wide = [
        T[:, :, None].expand(-1, -1, n_heads // n_kv_heads, -1, -1).reshape(len(T), n_heads, *T.shape[2:])
        for T in (K, V)
    ]
    mask = _lower_right(X_new.shape[1], K.shape[2])
    return _merge(_attend(_split(X_new @ W_Q, n_heads), *wide, mask)) @ W_O, (K, V)


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
