"""Answers to unit 10's functions, written from the notebook alone."""

import math

import torch
import torch.nn.functional as F


def _split(X, heads):
    """(B, n, heads * width) -> (B, heads, n, width)."""
    return X.unflatten(-1, (heads, -1)).transpose(1, 2)


def _norm(x, gamma, eps=1e-6):
    return gamma * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def _turn(x, positions, base=10000.0):
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.to(torch.float64)[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def _ffn(x, params):
    return (F.silu(x @ params["W_gate"]) * (x @ params["W_up"])) @ params["W_down"]


def _attend(Q, K, V, window):
    """Causal attention of heads, with a window or None; merged, (B, n, h * width)."""
    n = Q.shape[-2]
    back = torch.arange(n)[:, None] - torch.arange(n)
    mask = (back >= 0) & (back < (n if window is None else window))
    scores = (Q @ K.mT / math.sqrt(Q.shape[-1])).masked_fill(~mask, -torch.inf)
    return (scores.softmax(-1) @ V).transpose(1, 2).flatten(2)


# 10.1


def rotate__wrong_fourth_angles_of_neighbours_pairs_of_halves(x, positions, base=10000.0):
    """Each angle is laid out twice in a row, as for neighbours, while the columns are paired as halves: right for
    d = 2 only.
    """
    d = x.shape[-1]
    speeds = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = torch.outer(positions.double(), speeds).repeat_interleave(2, dim=-1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def rotate__wrong_fourth_whole_positions(x, positions, base=10000.0):
    """Positions are cut off to whole numbers; they may be floats, such as 2.5 (position interpolation)."""
    d = x.shape[-1]
    p = torch.arange(d // 2).double()
    theta = positions.long()[:, None] * base ** (-2 * p / d)
    c, s = torch.cos(theta).to(x.dtype), torch.sin(theta).to(x.dtype)
    x1, x2 = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), dim=-1)


def rotate__right_fourth_complex_numbers(x, positions, base=10000.0):
    """Right: a pair is one complex number, and to turn it is to multiply it by a number of length 1."""
    real, imaginary = x.unflatten(-1, (2, -1)).unbind(-2)
    arrows = torch.complex(real.contiguous(), imaginary.contiguous())
    pairs = torch.arange(arrows.shape[-1], dtype=torch.float64)
    angles = positions.double().unsqueeze(-1) * torch.exp(-pairs / len(pairs) * math.log(base))
    arrows = arrows * torch.polar(torch.ones_like(angles), angles).to(arrows.dtype)
    return torch.cat([arrows.real, arrows.imag], dim=-1)


# 10.2


def rms_norm__wrong_fourth_eps_into_the_sum(x, gamma, eps=1e-6):
    """eps is added to the sum of the squares before it is divided by d: it counts only for eps / d."""
    d = x.shape[-1]
    squares = (x * x).sum(dim=-1, keepdim=True)
    return gamma * x / torch.sqrt((squares + eps) / d)


# 10.3


def swiglu__wrong_fourth_silu_before_the_product(x, W_gate, W_up, W_down):
    """silu is applied to x and not to the product x W_gate."""
    gate = F.silu(x) @ W_gate
    up = x @ W_up
    return (gate * up) @ W_down


# 10.4


def sliding_window_mask__wrong_fourth_window_to_both_sides(n_new, n_total, window):
    """The window reaches forward as far as it reaches back: later keys within it are seen."""
    i = torch.arange(n_total - n_new, n_total).unsqueeze(1)
    j = torch.arange(n_total).unsqueeze(0)
    return (i - j).abs() < window


# 10.5


def modern_block__wrong_fourth_norms_all_heads_together(x, params, n_heads, n_kv_heads, positions, window=None):
    """QK-norm is done before the heads are split: one mean square for all heads of a token, not one for each."""
    p = params
    z = _norm(x, p["gamma_1"])
    q = _norm(z @ p["W_Q"], p["gamma_q"].repeat(n_heads))
    k = _norm(z @ p["W_K"], p["gamma_k"].repeat(n_kv_heads))
    Q, K = _turn(_split(q, n_heads), positions), _turn(_split(k, n_kv_heads), positions)
    V = _split(z @ p["W_V"], n_kv_heads)
    K, V = (heads.repeat_interleave(n_heads // n_kv_heads, dim=1) for heads in (K, V))
    y = x + _attend(Q, K, V, window) @ p["W_O"]
    return y + _ffn(_norm(y, p["gamma_2"]), p)


def modern_block__wrong_fourth_turned_first_and_heads_in_turn(x, params, n_heads, n_kv_heads, positions, window=None):
    """Two slips: heads are turned before they are normed, and the key/value heads are repeated as 0, 1, 0, 1."""
    z = _norm(x, params["gamma_1"])
    Q = _split(z @ params["W_Q"], n_heads)
    K = _split(z @ params["W_K"], n_kv_heads)
    V = _split(z @ params["W_V"], n_kv_heads)
    Q = _norm(_turn(Q, positions), params["gamma_q"])
    K = _norm(_turn(K, positions), params["gamma_k"])
    copies = n_heads // n_kv_heads
    K, V = K.repeat(1, copies, 1, 1), V.repeat(1, copies, 1, 1)
    y = x + _attend(Q, K, V, window) @ params["W_O"]
    return y + _ffn(_norm(y, params["gamma_2"]), params)


# 10.6


def sink_attention__wrong_fourth_nothing_allowed_gives_nan(Q, K, V, sink, mask=None):
    """The maximum is taken over the allowed keys alone: where a query may attend to none it is -inf, and NaN follows.
    The output should be 0 there.
    """
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    top = scores.amax(dim=-1, keepdim=True)
    terms = torch.exp(scores - top)
    below = terms.sum(dim=-1, keepdim=True) + torch.exp(sink[:, None, None] - top)
    return terms / below @ V


def sink_attention__wrong_fourth_a_sink_beside_every_key(Q, K, V, sink, mask=None):
    """The sink is broadcast along the keys: exp(sink) stands m times in the denominator, not once."""
    B, h, n, d_k = Q.shape
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / d_k**0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    sinks = sink.view(1, h, 1, 1).expand_as(scores)
    both = torch.softmax(torch.cat([scores, sinks], dim=-1), dim=-1)
    return both[..., : K.shape[2]] @ V


# 10.7


def linear_attention__wrong_fourth_writes_into_the_state_handed_in(Q, K, V, decay=None, state=None):
    """The numbers are right, but the state that was handed in is overwritten: its owner finds another one."""
    B, h, n, d_k = Q.shape
    S = torch.zeros(B, h, d_k, V.shape[-1], dtype=V.dtype) if state is None else state
    outputs = []
    for t in range(n):
        if decay is not None:
            S *= decay[:, :, t, None, None]
        S += K[:, :, t, :, None] * V[:, :, t, None, :]
        outputs.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S))
    return torch.stack(outputs, dim=2), S.clone()


def linear_attention__wrong_fourth_fades_after_reading(Q, K, V, decay=None, state=None):
    """A token's decay is applied behind its reading: it fades its own pair, and the old is read unfaded."""
    a = torch.ones_like(Q[..., 0]) if decay is None else decay
    S = Q.new_zeros(*Q.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    read = []
    for q, k, v, fade in zip(Q.unbind(2), K.unbind(2), V.unbind(2), a.unbind(2), strict=True):
        S = S + k.unsqueeze(-1) @ v.unsqueeze(-2)
        read.append((q.unsqueeze(-2) @ S).squeeze(-2))
        S = fade[..., None, None] * S
    return torch.stack(read, 2), S


# 10.8


def latent_step__wrong_fourth_heads_as_rows_and_latent_root(x, cache, params, n_heads):
    """Two slips: W_UK and W_UV are reshaped to (h, d_latent, width) straight away, which mixes rows and columns
    (a head owns a block of columns), and the scores are divided by the root of d_latent.
    """
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_latent = C.shape[-1]
    W_UK = params["W_UK"].reshape(n_heads, d_latent, -1)
    W_UV = params["W_UV"].reshape(n_heads, d_latent, -1)
    q = (x @ params["W_Q"]).reshape(len(x), n_heads, -1)
    wide = torch.einsum("bhk,hck->bhc", q, W_UK)
    weights = torch.softmax(wide @ C.mT / math.sqrt(d_latent), dim=-1)
    heads = torch.einsum("bhc,hcv->bhv", weights @ C, W_UV)
    return heads.reshape(len(x), 1, -1) @ params["W_O"], C


def latent_step__wrong_fourth_values_are_built(x, cache, params, n_heads):
    """Right numbers, and the keys are absorbed; but the values of all cached tokens are built, which is forbidden."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    Q = _split(x @ params["W_Q"], n_heads)
    up = params["W_UK"].unflatten(1, (n_heads, -1)).permute(1, 2, 0)
    absorbed = (Q @ up).squeeze(2)
    weights = torch.softmax(absorbed @ C.mT / math.sqrt(Q.shape[-1]), dim=-1)
    values = _split(C @ params["W_UV"], n_heads)
    mixed = (weights[:, :, None] @ values).transpose(1, 2).flatten(2)
    return mixed @ params["W_O"], C


# 10.9


def delta_rule__wrong_fourth_beta_of_the_earlier_token(Q, K, V, beta, state=None):
    """In the system beta stands on the columns, with the token that has written, not on the rows of the one that
    writes: right for beta = 1, or where all betas are equal.
    """
    n = K.shape[2]
    S = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    overlap = (K @ K.mT).tril(-1)
    system = torch.eye(n, dtype=K.dtype) + overlap * beta[..., None, :]
    wanted = beta[..., None] * (V - K @ S)
    U = torch.linalg.solve_triangular(system, wanted, upper=False, unitriangular=True)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_fourth_first_state_taken_off_in_full(Q, K, V, beta, state=None):
    """What the first state holds for a key is taken off in full, not beta times; right without a state or beta = 1."""
    b = beta.unsqueeze(-1)
    right_side = b * V
    if state is not None:
        right_side = right_side - K @ state
    table = b * torch.einsum("bhtk,bhsk->bhts", K, K)
    matrix = table.tril(-1) + torch.eye(K.shape[2], dtype=K.dtype)
    U = torch.linalg.solve_triangular(matrix, right_side, upper=False)
    out = torch.einsum("bhtk,bhsk->bhts", Q, K).tril() @ U
    end = torch.einsum("bhtk,bhtv->bhkv", K, U)
    if state is not None:
        out, end = out + Q @ state, end + state
    return out, end
