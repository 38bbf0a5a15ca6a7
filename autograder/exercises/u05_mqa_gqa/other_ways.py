"""Unit 5: other right ways than the course's own, so that their steps are known to be right, too."""

import math

import torch
import torch.nn.functional as F

from ..attention_parts import weigh


def kv_cache_bytes__layer_by_layer(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    total = 0
    for _ in range(n_layers):
        keys = values = n_kv_heads * d_head * n_tokens * batch
        total += bytes_per_value * (keys + values)
    return total


def kv_cache_bytes__summed_up(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    row = d_head * bytes_per_value
    total = 0
    for _layer in range(n_layers):
        for _what in ("keys", "values"):
            total += batch * n_kv_heads * n_tokens * row
    return total


def grouped_query_attention__einsum_in_groups(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    if n_heads % n_kv_heads:
        raise ValueError("n_kv_heads does not divide n_heads")
    B, n, _ = X.shape
    g, r = (n_kv_heads, n_heads // n_kv_heads)
    Q = torch.einsum("bnm,mgrd->bgrnd", X, W_Q.reshape(W_Q.shape[0], g, r, -1))
    K = torch.einsum("bnm,mgd->bgnd", X, W_K.reshape(W_K.shape[0], g, -1))
    V = torch.einsum("bnm,mgd->bgnd", X, W_V.reshape(W_V.shape[0], g, -1))
    S = torch.einsum("bgrid,bgjd->bgrij", Q, K) * Q.shape[-1] ** (-0.5)
    if mask is not None:
        S = S.masked_fill(~mask.expand(B, n_heads, n, n).unflatten(1, (g, r)), -math.inf)
    A = (S - S.logsumexp(-1, keepdim=True)).exp()
    heads = torch.einsum("bgrij,bgjd->bgrid", A, V)
    return torch.einsum("bgrid,grdm->bim", heads, W_O.reshape(g, r, -1, W_O.shape[1]))


def multi_query_attention__head_by_head(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    B, n, _ = X.shape
    K, V = (X @ W_K, X @ W_V)
    d_head = K.shape[-1]
    allowed = None if mask is None else mask.broadcast_to(B, n_heads, n, n)
    out = 0
    for a, (columns, rows) in enumerate(zip(W_Q.split(d_head, dim=1), W_O.split(d_head), strict=True)):
        scores = torch.baddbmm(X.new_zeros(()), X @ columns, K.mT, beta=0, alpha=d_head ** (-0.5))
        A = weigh(scores, None if allowed is None else allowed[:, a])
        out = out + A @ (V @ rows)
    return out


def decode_step__new_token_apart(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    K, V = cache
    B, g, t, d = K.shape
    q = (x @ W_Q).reshape(B, g, n_heads // g, d)
    k, v = ((x @ W_K).reshape(B, g, d), (x @ W_V).reshape(B, g, d))
    past = torch.einsum("bgrd,bgtd->bgrt", q, K)
    own = torch.einsum("bgrd,bgd->bgr", q, k)[..., None]
    A = F.softmax(torch.cat([past, own], -1) / math.sqrt(d), dim=-1)
    mix = torch.einsum("bgrt,bgtd->bgrd", A[..., :t], V)
    mix = mix + torch.einsum("bgr,bgd->bgrd", A[..., t], v)
    longer = (torch.cat([K, k[:, :, None]], 2), torch.cat([V, v[:, :, None]], 2))
    return (mix.reshape(B, 1, -1) @ W_O, longer)


def decode_step__one_key_at_a_time(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    B, g, r = (x.shape[0], n_kv_heads, n_heads // n_kv_heads)
    new = [(x @ W).reshape(B, 1, g, -1).transpose(1, 2) for W in (W_K, W_V)]
    K, V = (torch.cat(pair, dim=2) for pair in zip(cache, new, strict=True))
    q = (x @ W_Q).reshape(B, g, r, -1) / math.sqrt(K.shape[-1])
    top = (q * K[:, :, :1]).sum(-1, keepdim=True)
    total = (top - top).exp()
    mix = total * V[:, :, :1]
    for j in range(1, K.shape[2]):
        s = (q * K[:, :, j : j + 1]).sum(-1, keepdim=True)
        higher = torch.maximum(top, s)
        old, now = ((top - higher).exp(), (s - higher).exp())
        total, mix = (total * old + now, mix * old + now * V[:, :, j : j + 1])
        top = higher
    return ((mix / total).reshape(B, 1, -1) @ W_O, (K, V))


def extend_cache__past_and_present(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    B, n_new, _ = X_new.shape
    r = n_heads // n_kv_heads
    K_old, V_old = cache
    t, d_head = K_old.shape[2:]
    Q = torch.einsum("bic,cgrd->bgrid", X_new, W_Q.unflatten(1, (n_kv_heads, r, d_head)))
    queue = Q.reshape(B, n_kv_heads, r * n_new, d_head) * d_head ** (-0.5)
    K_new, V_new = ((X_new @ W).reshape(B, n_new, n_kv_heads, d_head).transpose(1, 2) for W in (W_K, W_V))
    later = torch.arange(n_new) > torch.arange(n_new).repeat(r)[:, None]
    scores = [queue @ K_old.mT, (queue @ K_new.mT).masked_fill(later, -torch.inf)]
    past, present = torch.softmax(torch.cat(scores, dim=-1), dim=-1).split([t, n_new], dim=-1)
    heads = (past @ V_old + present @ V_new).reshape(B, n_heads, n_new, d_head)
    out = torch.einsum("bhid,hdc->bic", heads, W_O.unflatten(0, (n_heads, d_head)))
    return (out, (torch.cat([K_old, K_new], dim=2), torch.cat([V_old, V_new], dim=2)))


def extend_cache__group_by_group_token_rows(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    B, n_new, _ = X_new.shape
    g, r = (n_kv_heads, n_heads // n_kv_heads)
    d, t = (W_Q.shape[1] // n_heads, cache[0].shape[2])
    device = X_new.device
    K = torch.cat([cache[0], (X_new @ W_K).reshape(B, n_new, g, d).transpose(1, 2)], 2)
    V = torch.cat([cache[1], (X_new @ W_V).reshape(B, n_new, g, d).transpose(1, 2)], 2)
    token = torch.arange(n_new * r, device=device) // r
    hidden = torch.arange(t + n_new, device=device) > t + token[:, None]
    columns = []
    for s, own in enumerate((X_new @ W_Q).split(r * d, dim=2)):
        rows = own.reshape(B, n_new * r, d)
        S = torch.bmm(rows, K[:, s].mT).div(d**0.5).masked_fill(hidden, -math.inf)
        columns.append(torch.bmm(S.softmax(2), V[:, s]).reshape(B, n_new, r * d))
    return (torch.cat(columns, dim=2) @ W_O, (K, V))
