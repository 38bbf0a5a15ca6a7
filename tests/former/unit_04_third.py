"""Answers to unit 04's functions, written from the notebook alone."""

import torch


def _attend(Q, K, V, mask=None):
    s = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is None:
        return s.softmax(-1) @ V
    w = s.masked_fill(~mask, torch.finfo(s.dtype).min).softmax(-1)
    return w.masked_fill(~mask, 0.0) @ V


def _split(X, h):
    return X.unflatten(-1, (h, X.shape[-1] // h)).transpose(1, 2)


def split_heads__wrong_third_interleaved(X, n_heads):
    """Gives head r every n_heads-th column (r, r + h, ...) and not a contiguous block."""
    if X.shape[-1] % n_heads:
        raise ValueError(f"{n_heads} heads do not divide {X.shape[-1]}")
    return X.unflatten(-1, (X.shape[-1] // n_heads, n_heads)).permute(0, 3, 1, 2)


def split_heads__right_third_slices(X, n_heads):
    """Cuts out each head's columns by a slice and stacks the slices on a new axis 1."""
    width = X.shape[-1]
    if width % n_heads != 0:
        raise ValueError(f"n_heads = {n_heads} does not divide the width {width}")
    d = width // n_heads
    return torch.stack([X[:, :, r * d : (r + 1) * d] for r in range(n_heads)], dim=1)


def merge_heads__wrong_third_mean(X):
    """Averages the heads in place of putting them side by side, so the result is d_head wide."""
    return X.mean(dim=1)


def bmm_attention__wrong_third_in_place(Q, K, V, mask=None):
    """Writes the root into the caller's queries by an in-place division (Q /= ...)."""
    Q /= Q.shape[-1] ** 0.5
    scores = torch.bmm(Q, K.mT)
    if mask is None:
        return torch.bmm(scores.softmax(-1), V)
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)
    return torch.bmm(weights.masked_fill(~mask, 0.0), V)


def multi_head_attention__wrong_third_bias_per_head(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Adds the output bias once for every head, so it counts n_heads times."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    heads = _attend(Q, K, V, mask)
    blocks = W_O.unflatten(0, (n_heads, W_O.shape[0] // n_heads))
    return (heads @ blocks + b_O).sum(dim=1)


def multi_head_attention__right_third_head_loop(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Loops over the heads and adds each head's share of the output."""
    B, n, _ = X.shape
    d = W_Q.shape[1] // n_heads
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    out = b_O
    for r in range(n_heads):
        c = slice(r * d, (r + 1) * d)
        part = None if mask is None else mask[:, r]
        out = out + _attend(X @ W_Q[:, c], X @ W_K[:, c], X @ W_V[:, c], part) @ W_O[c]
    return out


def head_contributions__wrong_third_divided(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Divides each head's share by the number of heads, so their sum is the mean and not the layer."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    blocks = W_O.unflatten(0, (n_heads, W_O.shape[0] // n_heads))
    return _attend(Q, K, V, mask) @ blocks / n_heads


def from_torch_weights__wrong_third_out_not_turned(in_proj_weight, out_proj_weight):
    """Transposes queries, keys and values, but returns the output weight as PyTorch keeps it."""
    W_Q, W_K, W_V = (block.T for block in in_proj_weight.chunk(3))
    return W_Q, W_K, W_V, out_proj_weight


def from_torch_weights__right_third_turn_first(in_proj_weight, out_proj_weight):
    """Turns the tall matrix round first and then cuts its columns by slices."""
    wide = in_proj_weight.t()
    d = wide.shape[0]
    return wide[:, :d], wide[:, d : 2 * d], wide[:, 2 * d :], out_proj_weight.t()


def diagnose__wrong_third_one_key(attend):
    """Sends a single token, where every weight is 1, so scale, mask and softmax axis cannot be told apart."""
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(1, 1, 6, generator=generator, dtype=torch.float64)
    W_Q, W_K, W_V = torch.randn(3, 6, 8, generator=generator, dtype=torch.float64)
    W_O = torch.randn(8, 6, generator=generator, dtype=torch.float64)
    out = attend(X, W_Q, W_K, W_V, W_O, 2, True)
    if torch.isnan(out).any():
        return "causal_off_by_one"
    if torch.allclose(out, X @ W_V @ W_O):
        return "right"
    if torch.allclose(out, X @ W_K @ W_O):
        return "keys_and_values_swapped"
    return "heads_not_by_columns"
