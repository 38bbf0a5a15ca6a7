"""Answers to unit 10's functions, written from the notebook alone."""

import torch


def _rotate(x, positions, base=10000.0):
    half = x.shape[-1] // 2
    w = base ** (-torch.arange(half, dtype=torch.float64) / half)
    a = positions.double()[:, None] * w
    c, s = a.cos().to(x.dtype), a.sin().to(x.dtype)
    u, v = x[..., :half], x[..., half:]
    return torch.cat([u * c - v * s, u * s + v * c], -1)


def _rms(x, gamma, eps=1e-6):
    return gamma * x * torch.rsqrt((x**2).mean(-1, keepdim=True) + eps)


def rotate__wrong_third_arange(x, positions, base=10000.0):
    """Counts the rows from 0 and never looks at the positions that were handed in."""
    return _rotate(x, torch.arange(x.shape[-2]), base)


def rotate__right_third_complex(x, positions, base=10000.0):
    """Turns the pairs as complex numbers by multiplying them with a phase."""
    half = x.shape[-1] // 2
    freq = base ** (-2 * torch.arange(half, dtype=torch.float64) / (2 * half))
    angle = torch.outer(positions.double(), freq)
    z = torch.complex(x[..., :half].double(), x[..., half:].double())
    z = z * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([z.real, z.imag], -1).to(x.dtype)


def rms_norm__wrong_third_whole_norm(x, gamma, eps=1e-6):
    """Divides by the length of the token, the root of the sum of squares instead of their mean."""
    return gamma * x / torch.sqrt((x**2).sum(-1, keepdim=True) + eps)


def swiglu__wrong_third_gate_only_sigmoid(x, W_gate, W_up, W_down):
    """Gates with the sigmoid alone, as in a GLU, without the factor z of silu."""
    return (torch.sigmoid(x @ W_gate) * (x @ W_up)) @ W_down


def sliding_window_mask__wrong_third_no_offset(n_new, n_total, window):
    """Numbers the new tokens from 0 instead of from n_total - n_new."""
    i = torch.arange(n_new)[:, None]
    j = torch.arange(n_total)[None, :]
    return (j <= i) & (j > i - window)


def modern_block__wrong_third_tiled_groups(x, params, n_heads, n_kv_heads, positions, window=None):
    """Hands out the key and value heads in turn (0 1 0 1) instead of in groups (0 0 1 1)."""
    B, n, _ = x.shape
    z = _rms(x, params["gamma_1"])
    q = (z @ params["W_Q"]).reshape(B, n, n_heads, -1).transpose(1, 2)
    k = (z @ params["W_K"]).reshape(B, n, n_kv_heads, -1).transpose(1, 2)
    v = (z @ params["W_V"]).reshape(B, n, n_kv_heads, -1).transpose(1, 2)
    q = _rotate(_rms(q, params["gamma_q"]), positions)
    k = _rotate(_rms(k, params["gamma_k"]), positions)
    k = k.repeat(1, n_heads // n_kv_heads, 1, 1)
    v = v.repeat(1, n_heads // n_kv_heads, 1, 1)
    i = torch.arange(n)
    mask = i[None, :] <= i[:, None]
    if window is not None:
        mask = mask & (i[None, :] > i[:, None] - window)
    S = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
    x = x + (torch.softmax(S, -1) @ v).transpose(1, 2).reshape(B, n, -1) @ params["W_O"]
    z = _rms(x, params["gamma_2"])
    return x + (torch.nn.functional.silu(z @ params["W_gate"]) * (z @ params["W_up"])) @ params["W_down"]


def sink_attention__wrong_third_added_to_scores(Q, K, V, sink, mask=None):
    """Adds the sink to every score of its head, where the softmax cancels it, not to the denominator."""
    S = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5 + sink[:, None, None]
    if mask is not None:
        S = S.masked_fill(~mask, -1e30)
    A = torch.softmax(S, -1)
    return (A if mask is None else A * mask) @ V


def linear_attention__wrong_third_read_before_write(Q, K, V, decay=None, state=None):
    """Reads the output before the token's own key and value are written; the fresh state is d_k by d_k."""
    B, h, n, d = Q.shape
    S = Q.new_zeros(B, h, d, d) if state is None else state
    out = []
    for t in range(n):
        out.append(Q[:, :, t, None] @ S)
        if decay is not None:
            S = decay[:, :, t, None, None] * S
        S = S + K[:, :, t, :, None] * V[:, :, t, None, :]
    return torch.cat(out, 2), S


def linear_attention__right_third_einsum_steps(Q, K, V, decay=None, state=None):
    """Adds up all earlier writes anew for each token with einsum, weighed with products of the decays."""
    B, h, n, d = Q.shape
    a = torch.ones_like(Q[..., 0]) if decay is None else decay
    start = Q.new_zeros(B, h, d, V.shape[-1]) if state is None else state
    S, outs = start, []
    for t in range(n):
        S = start * a[..., : t + 1].prod(-1)[..., None, None]
        for j in range(t + 1):
            keep = a[..., j + 1 : t + 1].prod(-1)
            S = S + torch.einsum("bh,bhk,bhv->bhkv", keep, K[:, :, j], V[:, :, j])
        outs.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S))
    return torch.stack(outs, 2), S


def latent_step__wrong_third_latent_scale(x, cache, params, n_heads):
    """Divides the scores by the root of d_latent, the width they are taken in, instead of d_head."""
    B = x.shape[0]
    C = torch.cat([cache, x @ params["W_DKV"]], 1)
    L = C.shape[-1]
    q = (x @ params["W_Q"]).reshape(B, n_heads, -1)
    UK = params["W_UK"].reshape(L, n_heads, -1)
    UV = params["W_UV"].reshape(L, n_heads, -1)
    S = torch.einsum("bhl,btl->bht", torch.einsum("bhd,lhd->bhl", q, UK), C) / L**0.5
    z = torch.einsum("bht,btl->bhl", torch.softmax(S, -1), C)
    return torch.einsum("bhl,lhv->bhv", z, UV).reshape(B, 1, -1) @ params["W_O"], C


def delta_rule__wrong_third_beta_on_value(Q, K, V, beta, state=None):
    """Multiplies only the value by beta, so what is erased is erased in full; it loops over the tokens, too."""
    B, h, n, d = Q.shape
    S = Q.new_zeros(B, h, d, V.shape[-1]) if state is None else state
    out = []
    for t in range(n):
        k = K[:, :, t, None]
        new = beta[:, :, t, None, None] * V[:, :, t, None] - k @ S
        S = S + k.transpose(-1, -2) @ new
        out.append(Q[:, :, t, None] @ S)
    return torch.cat(out, 2), S
