"""Unit 10: other right ways than the course's own, so that their steps are known to be right, too."""

import math

import torch
import torch.nn.functional as F

from ..attention_parts import weigh
from .rms_norm import plain as rms_norm
from .rotate import plain as rotate
from .swiglu import plain as swiglu


def rotate__complex_numbers(x, positions, base=10000.0):
    d = x.shape[-1]
    z = torch.complex(x[..., : d // 2].contiguous(), x[..., d // 2 :].contiguous())
    speeds = torch.exp(-math.log(base) * torch.arange(0, d, 2, dtype=torch.float64, device=x.device) / d)
    angles = positions.to(torch.float64).unsqueeze(-1) * speeds
    turn = torch.polar(torch.ones_like(angles), angles).to(z.dtype)
    z = z * turn
    return torch.cat([z.real, z.imag], dim=-1)


def rms_norm__product_with_a_column(x, gamma, eps=1e-06):
    d = x.shape[-1]
    column = x.new_full((d, 1), 1 / d)
    inverse_root = (x * x @ column + eps) ** (-0.5)
    return x * inverse_root * gamma


def rms_norm__dot_with_itself(x, gamma, eps=1e-06):
    d = x.shape[-1]
    square = torch.einsum("...i,...i->...", x, x).unsqueeze(-1)
    return x * (gamma * math.sqrt(d)) * torch.rsqrt(square + d * eps)


def rms_norm__length_with_one_more_column(x, gamma, eps=1e-06):
    d = x.shape[-1]
    last = torch.full_like(x[..., :1], math.sqrt(eps))
    longer = torch.cat([x / math.sqrt(d), last], dim=-1)
    return x / torch.linalg.vector_norm(longer, dim=-1, keepdim=True) * gamma


def swiglu__one_product_and_glu(x, W_gate, W_up, W_down):
    gate, up = (x @ torch.cat([W_gate, W_up], dim=1)).chunk(2, dim=-1)
    opened = 0.5 * (1 + torch.tanh(gate / 2))
    return up * gate * opened @ W_down


def swiglu__half_tangent(x, W_gate, W_up, W_down):
    both = x @ torch.cat([W_up, W_gate], dim=1)
    up, z = both.chunk(2, dim=-1)
    half = z / 2
    return (half * up + half * up * torch.tanh(half)) @ W_down


def swiglu__unit_by_unit(x, W_gate, W_up, W_down):
    out = torch.zeros_like(x)
    for f in range(W_down.shape[0]):
        z = (x * W_gate[:, f]).sum(-1, keepdim=True)
        up = (x * W_up[:, f]).sum(-1, keepdim=True)
        out = out + F.silu(z) * up * W_down[f]
    return out


def sliding_window_mask__triangles(n_new, n_total, window):
    full = torch.ones(n_total, n_total).tril() - torch.ones(n_total, n_total).tril(-window)
    return full[n_total - n_new :] > 0.5


def modern_block__heads_one_by_one(x, params, n_heads, n_kv_heads, positions, window=None):
    n = x.shape[1]
    d = params["gamma_q"].shape[0]
    z = rms_norm(x, params["gamma_1"])
    row = torch.arange(n, device=x.device)
    back = row[:, None] - row
    seen = (back >= 0) & (back < (n if window is None else window))
    y = x
    for head in range(n_heads):
        group = head * n_kv_heads // n_heads
        own, shared = (slice(head * d, (head + 1) * d), slice(group * d, (group + 1) * d))
        q = rotate(rms_norm(z @ params["W_Q"][:, own], params["gamma_q"]), positions)
        k = rotate(rms_norm(z @ params["W_K"][:, shared], params["gamma_k"]), positions)
        scores = torch.einsum("bid,bjd->bij", q, k) / math.sqrt(d)
        weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
        y = y + weights @ (z @ params["W_V"][:, shared]) @ params["W_O"][own]
    u = rms_norm(y, params["gamma_2"])
    return y + swiglu(u, params["W_gate"], params["W_up"], params["W_down"])


def sink_attention__gate_behind_plain_attention(Q, K, V, sink, mask=None):
    scores = Q @ K.mT * Q.shape[-1] ** (-0.5)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(Q.dtype).min / 4)
    share = torch.sigmoid(scores.logsumexp(dim=-1, keepdim=True) - sink.reshape(-1, 1, 1))
    return share * (scores.softmax(dim=-1) @ V)


def sink_attention__one_more_key_in_one_more_column(Q, K, V, sink, mask=None):
    B, h, n, d = Q.shape
    m = K.shape[2]
    Q1 = torch.cat([Q / math.sqrt(d), torch.ones_like(Q[..., :1])], dim=-1)
    K1 = F.pad(K, (0, 1))
    last = torch.cat([torch.zeros(h, d, dtype=K.dtype), sink[:, None]], dim=1)
    K1 = torch.cat([K1, last[None, :, None].expand(B, h, 1, d + 1)], dim=2)
    V1 = F.pad(V, (0, 0, 0, 1))
    allowed = torch.ones(B, h, n, m + 1, dtype=torch.bool)
    if mask is not None:
        allowed[..., :m] = mask
    return weigh(torch.einsum("bhid,bhjd->bhij", Q1, K1), allowed) @ V1


def linear_attention__table_of_decays_grown_by_rows(Q, K, V, decay=None, state=None):
    B, h, n, d_k = K.shape
    start = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    a = K.new_ones(B, h, n) if decay is None else decay
    shares = [K.new_ones(B, h, 1)]
    rows = []
    for t in range(n):
        row = torch.cat([shares[-1] * a[:, :, t : t + 1], K.new_ones(B, h, 1)], dim=-1)
        shares.append(row)
        rows.append(F.pad(row, (0, n - 1 - t)))
    table = torch.stack(rows, dim=2)
    first, among = (table[..., :1], table[..., 1:])
    out = Q @ K.mT * among @ V + first * (Q @ start)
    end = first[:, :, -1:] * start + (K * among[:, :, -1, :, None]).mT @ V
    return (out, end)


def latent_step__folded_weights(x, cache, params, n_heads):
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    blocks = [
        params["W_Q"].chunk(n_heads, dim=1),
        params["W_UK"].chunk(n_heads, dim=1),
        params["W_UV"].chunk(n_heads, dim=1),
        params["W_O"].chunk(n_heads, dim=0),
    ]
    out = torch.zeros_like(x)
    for W_Q, W_UK, W_UV, W_O in zip(*blocks, strict=True):
        ask = x @ (W_Q @ W_UK.T)
        scores = (C @ ask.mT).squeeze(-1) / math.sqrt(W_Q.shape[1])
        weights = (scores - scores.logsumexp(dim=1, keepdim=True)).exp()
        read = torch.einsum("bt,btl->bl", weights, C)
        out = out + (read @ (W_UV @ W_O))[:, None]
    return (out, C)


def latent_step__block_diagonal_weights(x, cache, params, n_heads):
    B, h = (len(x), n_heads)
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    own = torch.eye(h, dtype=x.dtype)
    Q = (x @ params["W_Q"]).view(B, 1, h, -1)
    d_head = Q.shape[-1]
    spread = (own[:, :, None] * Q).flatten(2)
    A = torch.softmax(spread @ params["W_UK"].T @ C.mT / math.sqrt(d_head), dim=-1)
    every = (A @ C @ params["W_UV"]).view(B, h, h, -1)
    heads = every.diagonal(dim1=1, dim2=2).transpose(1, 2)
    return (heads.flatten(1).unsqueeze(1) @ params["W_O"], C)


def latent_step__two_parts_of_the_softmax(x, cache, params, n_heads):
    new = x @ params["W_DKV"]
    heads = []
    for W_Q, W_UK, W_UV in zip(*(params[name].chunk(n_heads, dim=1) for name in ("W_Q", "W_UK", "W_UV")), strict=False):
        asked = x @ W_Q @ W_UK.T / math.sqrt(W_Q.shape[1])
        own = (asked * new).sum(-1, keepdim=True)
        old = asked @ cache.mT
        top = torch.cat([old, own], dim=-1).amax(dim=-1, keepdim=True)
        e_old, e_own = ((old - top).exp(), (own - top).exp())
        latent = (e_old @ cache + e_own * new) / (e_old.sum(-1, keepdim=True) + e_own)
        heads.append(latent @ W_UV)
    return (torch.cat(heads, dim=-1) @ params["W_O"], torch.cat([cache, new], dim=1))


def delta_rule__chunks_of_sixteen(Q, K, V, beta, state=None):
    S = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    outs = []
    for q, k, v, b in zip(Q.split(16, 2), K.split(16, 2), V.split(16, 2), beta.split(16, 2), strict=False):
        size = k.shape[2]
        earlier = torch.ones(size, size, dtype=k.dtype, device=k.device).tril(-1)
        system = torch.eye(size, dtype=k.dtype, device=k.device) + b.unsqueeze(-1) * (k @ k.mT) * earlier
        both = torch.cat([b.unsqueeze(-1) * v, b.unsqueeze(-1) * k], dim=-1)
        solved = torch.linalg.solve_triangular(system, both, upper=False)
        u = solved[..., : v.shape[-1]] - solved[..., v.shape[-1] :] @ S
        outs.append(q @ S + (q @ k.mT * earlier + torch.diag_embed((q * k).sum(-1))) @ u)
        S = S + k.mT @ u
    return (torch.cat(outs, dim=2), S)


def delta_rule__chunks_by_powers(Q, K, V, beta, state=None):
    S = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    outs = []
    for q, k, v, b in zip(*(x.split(16, dim=2) for x in (Q, K, V, beta)), strict=True):
        power = -b[..., None] * torch.einsum("bhid,bhjd->bhij", k, k).tril(-1)
        U = b[..., None] * (v - k @ S)
        for _ in range(4):
            U = U + power @ U
            power = power @ power
        outs.append(q @ S + (q @ k.mT).tril() @ U)
        S = S + k.mT @ U
    return (torch.cat(outs, dim=2), S)


def delta_rule__chunks_of_eight_by_doubling(Q, K, V, beta, state=None):
    S = K.new_zeros(*K.shape[:2], K.shape[3], V.shape[3]) if state is None else state
    outs = []
    for q, k, v, b in zip(*(one.split(8, dim=2) for one in (Q, K, V, beta[..., None])), strict=False):
        A = (b * (k @ k.mT)).tril(-1)
        A2 = A @ A
        U = b * (v - k @ S)
        U = U + A2 @ (A2 @ U)
        U = U + A2 @ U
        U = U - A @ U
        outs.append(q @ S + (q @ k.mT).tril() @ U)
        S = S + k.mT @ U
    return (torch.cat(outs, dim=2), S)
