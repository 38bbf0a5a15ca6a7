"""Answers to unit 05's functions, written from the notebook alone."""

import torch


def _split(X, h):
    return X.unflatten(-1, (h, X.shape[-1] // h)).transpose(1, 2)


def _attend(Q, K, V, mask=None):
    s = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is not None:
        s = s.masked_fill(~mask, torch.finfo(s.dtype).min)
    return s.softmax(-1) @ V


def _merge(X):
    return X.transpose(1, 2).flatten(2)


def kv_cache_bytes__wrong_third_bits(n_layers, n_kv_heads, d_head, n_tokens, batch=1, bytes_per_value=2):
    """Divides by 8 at the end, as if bytes_per_value were given in bits."""
    return 2 * n_layers * n_kv_heads * d_head * n_tokens * batch * bytes_per_value // 8


def repeat_kv__wrong_third_tokens(K, n_rep):
    """Repeats along axis 2, the tokens, and leaves the number of heads as it was."""
    return K.repeat_interleave(n_rep, dim=2)


def repeat_kv__right_third_index(K, n_rep):
    """Picks head a // n_rep for every output head a with a list of indices."""
    return K[:, [a // n_rep for a in range(K.shape[1] * n_rep)]]


def grouped_query_attention__wrong_third_values_tiled(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    """Repeats the keys head by head but tiles the values (0, 1, 0, 1), so they belong to other groups."""
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} does not divide {n_heads}")
    r = n_heads // n_kv_heads
    K = _split(X @ W_K, n_kv_heads).repeat_interleave(r, dim=1)
    V = _split(X @ W_V, n_kv_heads).repeat(1, r, 1, 1)
    return _merge(_attend(_split(X @ W_Q, n_heads), K, V, mask)) @ W_O


def multi_query_attention__wrong_third_mean_query(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Shares one attention pattern too: averages the scores of all heads before the softmax."""
    Q = _split(X @ W_Q, n_heads)
    K, V = (X @ W_K)[:, None], (X @ W_V)[:, None]
    s = (Q @ K.mT / Q.shape[-1] ** 0.5).mean(dim=1, keepdim=True).expand(-1, n_heads, -1, -1)
    if mask is not None:
        s = s.masked_fill(~mask, torch.finfo(s.dtype).min)
    return _merge(s.softmax(-1) @ V) @ W_O


def multi_query_attention__right_third_head_loop(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Head by head in a loop, with the one matrix of keys and of values used for each."""
    B, n, _ = X.shape
    K, V = X @ W_K, X @ W_V
    d = K.shape[-1]
    full = None if mask is None else mask.expand(B, n_heads, n, n)
    out = 0.0
    for r in range(n_heads):
        c = slice(r * d, (r + 1) * d)
        out = out + _attend(X @ W_Q[:, c], K, V, None if full is None else full[:, r]) @ W_O[c]
    return out


def decode_step__wrong_third_new_in_front(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Puts the new keys and values in front of the older ones, so the cache is in the wrong order."""
    r = n_heads // n_kv_heads
    K = torch.cat([_split(x @ W_K, n_kv_heads), cache[0]], dim=2)
    V = torch.cat([_split(x @ W_V, n_kv_heads), cache[1]], dim=2)
    Q = _split(x @ W_Q, n_heads)
    out = _attend(Q, K.repeat_interleave(r, dim=1), V.repeat_interleave(r, dim=1))
    return _merge(out) @ W_O, (K, V)


def pool_kv_heads__wrong_third_first_head(W, n_heads, n_kv_heads):
    """Keeps the first head of each group in place of the mean of its heads."""
    r = n_heads // n_kv_heads
    return W.unflatten(1, (n_kv_heads, r, W.shape[1] // n_heads))[:, :, 0].flatten(1)


def pool_kv_heads__right_third_matrix(W, n_heads, n_kv_heads):
    """Multiplies W with a pooling matrix, a Kronecker product with the identity of a head."""
    r = n_heads // n_kv_heads
    groups = torch.eye(n_kv_heads, dtype=W.dtype).repeat_interleave(r, dim=0) / r
    return W @ torch.kron(groups, torch.eye(W.shape[1] // n_heads, dtype=W.dtype))


def extend_cache__wrong_third_no_offset(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Counts the new tokens from position 0 in the causal mask, so most of the kept tokens are hidden."""
    B, n, _ = X_new.shape
    r = n_heads // n_kv_heads
    K = torch.cat([cache[0], _split(X_new @ W_K, n_kv_heads)], dim=2)
    V = torch.cat([cache[1], _split(X_new @ W_V, n_kv_heads)], dim=2)
    Q = _split(X_new @ W_Q, n_heads).unflatten(1, (n_kv_heads, r))
    mask = torch.ones(n, K.shape[2], dtype=torch.bool).tril()
    out = _attend(Q, K[:, :, None], V[:, :, None], mask).flatten(1, 2)
    return _merge(out) @ W_O, (K, V)
