"""Answers to unit 10, as students would hand them in: four wrong and one right for each exercise."""

import math

import torch
import torch.nn.functional as F


def _split_heads(X, n_heads):
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    return X.transpose(1, 2).flatten(2)


def _masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def _rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    p = torch.arange(d // 2, dtype=torch.float64, device=x.device)
    angles = positions.to(torch.float64)[:, None] * base ** (-2 * p / d)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def _rms_norm(x, gamma, eps=1e-6):
    return gamma * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def _swiglu(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def _sliding_window_mask(n_new, n_total, window):
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j <= i) & (j > i - window)


# 10.1 rotate


def rotate__wrong_fifth_second_half_from_turned_first(x, positions, base=10000.0):
    """The first half is overwritten by its turned value before the second half is computed from it."""
    half = x.shape[-1] // 2
    speeds = base ** (-2 * torch.arange(half, dtype=torch.float64) / x.shape[-1])
    theta = positions.double()[:, None] * speeds
    c, s = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    first = first * c - second * s
    second = second * c + first * s
    return torch.cat((first, second), dim=-1)


def rotate__wrong_fifth_counted_from_first_position(x, positions, base=10000.0):
    """The first position is subtracted from all, so that a text behind a cache begins at 0 again."""
    d = x.size(-1)
    where = (positions - positions[0]).to(torch.float64)
    angle = torch.outer(where, base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d))
    cos = torch.cat([angle.cos()] * 2, -1).to(x.dtype)
    sin = torch.cat([angle.sin()] * 2, -1).to(x.dtype)
    left, right = x.split(d // 2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin


def rotate__wrong_fifth_pairs_counted_from_one(x, positions, base=10000.0):
    """p runs from 1 to d/2 in the exponent, so the first pair does not turn by one radian per token."""
    d = x.shape[-1]
    p = torch.arange(1, d // 2 + 1).double()
    table = positions.double().unsqueeze(1) / base ** (2 * p / d)
    co, si = torch.cos(table).to(x.dtype), torch.sin(table).to(x.dtype)
    u, v = torch.chunk(x, 2, dim=-1)
    return torch.cat([co * u - si * v, co * v + si * u], -1)


def rotate__wrong_fifth_result_interleaved(x, positions, base=10000.0):
    """The pairs are taken as halves, but the turned ones are stacked and flattened into neighbours 2p, 2p + 1."""
    d = x.shape[-1]
    a, b = x[..., : d // 2], x[..., d // 2 :]
    angles = positions.to(torch.float64)[:, None] * torch.pow(
        torch.tensor(base, dtype=torch.float64), -2 * torch.arange(d // 2).double() / d
    )
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    turned = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1)
    return turned.flatten(-2)


# 10.2 rms_norm


def rms_norm__wrong_fifth_eps_as_a_floor(x, gamma, eps=1e-6):
    """eps is no summand: the root mean square is clamped from below at eps, as F.normalize does."""
    rms = torch.sqrt(torch.mean(x * x, dim=-1, keepdim=True))
    return gamma * x / rms.clamp(min=eps)


def rms_norm__wrong_fifth_mean_over_axis_one(x, gamma, eps=1e-6):
    """The mean runs over axis 1, which with (B, n, d) is the tokens and not the last axis."""
    ms = x.pow(2).mean(1, keepdim=True)
    return x * torch.rsqrt(ms + eps) * gamma


def rms_norm__wrong_fifth_divides_by_d_minus_one(x, gamma, eps=1e-6):
    """The squares are summed and divided by d - 1, as in an unbiased variance."""
    d = x.shape[-1]
    power = torch.einsum("...d,...d->...", x, x) / max(d - 1, 1)
    return gamma * (x / (power + eps).sqrt().unsqueeze(-1))


def rms_norm__wrong_fifth_mean_absolute_value(x, gamma, eps=1e-6):
    """The root is taken of each square before the mean: mean(sqrt(x**2 + eps)), about the mean size of the entries."""
    size = torch.sqrt(x**2 + eps).mean(dim=-1, keepdim=True)
    return gamma * (x / size)


# 10.3 swiglu


def swiglu__wrong_fifth_silu_on_x(x, W_gate, W_up, W_down):
    """silu is applied to x before the product with W_gate, not to the product."""
    gate = F.silu(x) @ W_gate
    up = x @ W_up
    return (gate * up) @ W_down


def swiglu__wrong_fifth_one_added_to_up(x, W_gate, W_up, W_down):
    """1 is added to up before it is gated, as gpt-oss does."""
    gate, up = x @ W_gate, x @ W_up
    return (gate * torch.sigmoid(gate) * (up + 1)) @ W_down


def swiglu__wrong_fifth_normed_inside(x, W_gate, W_up, W_down):
    """x goes through an RMSNorm without a gain first, which belongs to the block."""
    z = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)
    hidden = F.silu(torch.matmul(z, W_gate)) * torch.matmul(z, W_up)
    return torch.matmul(hidden, W_down)


def swiglu__wrong_fifth_sigmoid_of_1702(x, W_gate, W_up, W_down):
    """The gate is z * sigmoid(1.702 z), the fast gelu, and not silu."""

    def act(z):
        return z / (1 + torch.exp(-1.702 * z.clamp(-40, 40)))

    return torch.einsum("...f,fd->...d", act(x @ W_gate) * (x @ W_up), W_down)


# 10.4 sliding_window_mask


def sliding_window_mask__wrong_fifth_fixed_chunks(n_new, n_total, window):
    """A token sees the tokens of its own chunk of `window` tokens (i // window == j // window), no sliding window."""
    i = torch.arange(n_total - n_new, n_total).unsqueeze(1)
    j = torch.arange(n_total).unsqueeze(0)
    return (i // window == j // window) & (j <= i)


def sliding_window_mask__wrong_fifth_both_sides(n_new, n_total, window):
    """The distance is taken without its sign, abs(i - j) < window, so later tokens are seen."""
    rows = []
    for r in range(n_new):
        i = n_total - n_new + r
        rows.append([abs(i - j) < window for j in range(n_total)])
    return torch.tensor(rows, dtype=torch.bool)


def sliding_window_mask__wrong_fifth_additive(n_new, n_total, window):
    """Returns 0 and -inf as floats, to be added to the scores, not booleans."""
    i = torch.arange(n_new)[:, None] + (n_total - n_new)
    j = torch.arange(n_total)[None]
    allowed = (j <= i) & (i - j < window)
    return torch.zeros(n_new, n_total).masked_fill(~allowed, -math.inf)


def sliding_window_mask__wrong_fifth_window_of_the_first_row(n_new, n_total, window):
    """The lower end is that of the first new token for all rows; it does not move along."""
    first = n_total - n_new
    mask = torch.ones(n_new, n_total, dtype=torch.bool).tril(diagonal=first)
    mask[:, : max(0, first - window + 1)] = False
    return mask


def sliding_window_mask__right_fifth_band_of_the_square(n_new, n_total, window):
    """The band of the whole square by tril and triu, of which the last n_new rows are taken."""
    square = torch.ones(n_total, n_total, dtype=torch.bool)
    return square.tril().triu(1 - window)[n_total - n_new :]


# 10.5 modern_block


def modern_block__wrong_fifth_mask_by_positions(x, params, n_heads, n_kv_heads, positions, window=None):
    """Who sees whom is decided by comparing `positions`, not by row."""
    z = _rms_norm(x, params["gamma_1"])
    q = _split_heads(z @ params["W_Q"], n_heads)
    k = _split_heads(z @ params["W_K"], n_kv_heads)
    v = _split_heads(z @ params["W_V"], n_kv_heads)
    q = _rotate(_rms_norm(q, params["gamma_q"]), positions)
    k = _rotate(_rms_norm(k, params["gamma_k"]), positions)
    share = n_heads // n_kv_heads
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    i, j = positions[:, None], positions[None, :]
    mask = j <= i
    if window is not None:
        mask = mask & (j > i - window)
    a = _masked_softmax(q @ k.mT / math.sqrt(q.shape[-1]), mask)
    y = x + _merge_heads(a @ v) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_fifth_ffn_beside_attention(x, params, n_heads, n_kv_heads, positions, window=None):
    """The FFN reads the norm of x and not of y, as in a parallel block; both results are added."""
    B, n, _ = x.shape
    p = params
    z = _rms_norm(x, p["gamma_1"])
    Q = _rotate(_rms_norm(_split_heads(z @ p["W_Q"], n_heads), p["gamma_q"]), positions)
    K = _rotate(_rms_norm(_split_heads(z @ p["W_K"], n_kv_heads), p["gamma_k"]), positions)
    V = _split_heads(z @ p["W_V"], n_kv_heads)
    K = torch.repeat_interleave(K, n_heads // n_kv_heads, dim=1)
    V = torch.repeat_interleave(V, n_heads // n_kv_heads, dim=1)
    mask = _sliding_window_mask(n, n, n if window is None else window)
    A = _masked_softmax(torch.einsum("bhid,bhjd->bhij", Q, K) * Q.shape[-1] ** -0.5, mask)
    attended = _merge_heads(torch.einsum("bhij,bhjd->bhid", A, V)) @ p["W_O"]
    fed = _swiglu(_rms_norm(x, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])
    return x + attended + fed


def modern_block__wrong_fifth_values_from_plain_x(x, params, n_heads, n_kv_heads, positions, window=None):
    """Queries and keys are projected from z, the values from x, which no norm has seen."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    heads = {}
    for name, source, count in (("Q", z, n_heads), ("K", z, n_kv_heads), ("V", x, n_kv_heads)):
        heads[name] = _split_heads(source @ params["W_" + name], count)
    for name, gain in (("Q", "gamma_q"), ("K", "gamma_k")):
        heads[name] = _rotate(_rms_norm(heads[name], params[gain]), positions)
    for name in "KV":
        heads[name] = heads[name].repeat_interleave(n_heads // n_kv_heads, dim=1)
    scores = heads["Q"] @ heads["K"].transpose(2, 3) / heads["Q"].shape[-1] ** 0.5
    weights = _masked_softmax(scores, _sliding_window_mask(n, n, window or n))
    y = x + _merge_heads(weights @ heads["V"]) @ params["W_O"]
    u = _rms_norm(y, params["gamma_2"])
    return y + _swiglu(u, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_fifth_no_mask_without_window(x, params, n_heads, n_kv_heads, positions, window=None):
    """Without a window no mask is used at all, so tokens see later ones."""
    n = x.size(1)
    z = _rms_norm(x, params["gamma_1"])
    Q, K, V = (
        _split_heads(z @ params[w], c)
        for w, c in (("W_Q", n_heads), ("W_K", n_kv_heads), ("W_V", n_kv_heads))
    )
    Q = _rotate(_rms_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, params["gamma_k"]), positions)
    K, V = (t.repeat_interleave(n_heads // n_kv_heads, dim=1) for t in (K, V))
    mask = None
    if window is not None:
        mask = _sliding_window_mask(n, n, window)
    A = _masked_softmax(Q @ K.mT / math.sqrt(K.size(-1)), mask)
    y = x + _merge_heads(A @ V) @ params["W_O"]
    return y + _swiglu(
        _rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"]
    )


# 10.6 sink_attention


def sink_attention__wrong_fifth_column_in_front_last_one_dropped(Q, K, V, sink, mask=None):
    """The sink is put in front of the scores, but behind the softmax the last column is dropped."""
    B, h, n, _ = Q.shape
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -math.inf)
    S = torch.cat([sink.view(1, h, 1, 1).expand(B, h, n, 1), S], dim=-1)
    return torch.softmax(S, dim=-1)[..., :-1] @ V


def sink_attention__wrong_fifth_sink_scaled_too(Q, K, V, sink, mask=None):
    """The division by sqrt(d_k) comes after the cat, so the sink is divided as well."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K)
    extra = sink[None, :, None, None] + torch.zeros_like(scores[..., :1])
    if mask is not None:
        scores = scores.masked_fill(torch.logical_not(mask), float("-inf"))
    wide = torch.cat((scores, extra), dim=-1) / Q.size(-1) ** 0.5
    weights = wide.softmax(dim=-1)
    return torch.einsum("bhij,bhjd->bhid", weights[..., : K.size(2)], V)


def sink_attention__wrong_fifth_mask_behind_softmax(Q, K, V, sink, mask=None):
    """The mask multiplies the weights only behind the softmax, so hidden keys still stand in the denominator."""
    m = K.shape[2]
    scores = Q @ K.transpose(-1, -2) * Q.shape[-1] ** -0.5
    column = sink.reshape(-1, 1, 1).expand(*scores.shape[:3], 1)
    A = torch.softmax(torch.cat([scores, column], -1), -1)[..., :m]
    if mask is not None:
        A = A * mask
    return A @ V


def sink_attention__wrong_fifth_unstable_exponentials(Q, K, V, sink, mask=None):
    """The formula as it stands, with exp of the scores and of the sink: large scores overflow to NaN."""
    e = torch.exp(Q @ K.mT / math.sqrt(Q.shape[-1]))
    if mask is not None:
        e = e.masked_fill(~mask, 0.0)
    below = e.sum(dim=-1, keepdim=True) + torch.exp(sink)[:, None, None]
    return (e / below) @ V


def sink_attention__right_fifth_share_by_sigmoid(Q, K, V, sink, mask=None):
    """Ordinary masked attention, times sigmoid(logsumexp of the allowed scores - sink), the keys' share."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    lowest = torch.finfo(scores.dtype).min / 4
    if mask is not None:
        scores = torch.where(mask, scores, torch.full_like(scores, lowest))
    mixed = torch.softmax(scores, dim=-1) @ V
    share = torch.sigmoid(scores.logsumexp(-1) - sink.unsqueeze(-1))
    return mixed * share.unsqueeze(-1)


# 10.7 linear_attention


def linear_attention__wrong_fifth_moving_average(Q, K, V, decay=None, state=None):
    """What is new is written with the weight 1 - a_t, as in a moving average, and not with 1."""
    B, h, n, d_k = K.shape
    S = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    outs = []
    for t in range(n):
        new = K[:, :, t, :, None] * V[:, :, t, None, :]
        if decay is None:
            S = S + new
        else:
            a = decay[:, :, t, None, None]
            S = a * S + (1 - a) * new
        outs.append((Q[:, :, t, None, :] @ S).squeeze(2))
    return torch.stack(outs, dim=2), S


def linear_attention__wrong_fifth_state_written_in_place(Q, K, V, decay=None, state=None):
    """The state that was handed in is faded and added to in place."""
    if state is None:
        state = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=Q.dtype, device=Q.device)
    rows = []
    S = state
    for t in range(Q.shape[2]):
        if decay is not None:
            S *= decay[:, :, t].unsqueeze(-1).unsqueeze(-1)
        S += torch.einsum("bhk,bhv->bhkv", K[:, :, t], V[:, :, t])
        rows.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S.clone()))
    return torch.stack(rows, 2), S


def linear_attention__wrong_fifth_keys_divided_by_products(Q, K, V, decay=None, state=None):
    """Keys are divided by the product of all decays so far, which underflows for strong decays: NaN."""
    B, h, n, d_k = K.shape
    if state is None:
        state = K.new_zeros(B, h, d_k, V.shape[-1])
    a = K.new_ones(B, h, n) if decay is None else decay
    faded = a.cumprod(dim=-1).unsqueeze(-1)
    queries, keys = Q * faded, K / faded
    out = (queries @ keys.mT).tril() @ V + queries @ state
    last = faded[:, :, -1:] * (state + keys.mT @ V)
    return out, last


def linear_attention__wrong_fifth_fades_after_reading(Q, K, V, decay=None, state=None):
    """In each step it writes and reads first and fades by a_t afterwards."""
    d_v = V.shape[-1]
    S = 0 * (K[:, :, 0, :, None] * V[:, :, 0, None, :]) if state is None else state
    out = []
    for t, (q, k, v) in enumerate(zip(Q.unbind(2), K.unbind(2), V.unbind(2))):
        S = S + k.unsqueeze(-1) * v.unsqueeze(-2).expand(*k.shape, d_v)
        out.append((q.unsqueeze(-2) @ S).squeeze(-2))
        if decay is not None:
            S = decay[:, :, t].reshape(*k.shape[:2], 1, 1) * S
    return torch.stack(out, dim=2), S


# 10.8 latent_step


def latent_step__wrong_fifth_values_are_built(x, cache, params, n_heads):
    """The keys are absorbed into the query, but the values C W_UV of all cached tokens are built."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = _split_heads(x @ params["W_Q"], n_heads)
    W_UK = params["W_UK"].unflatten(-1, (n_heads, -1))
    q_latent = torch.einsum("bhqd,lhd->bhql", q, W_UK)
    scores = torch.einsum("bhql,btl->bhqt", q_latent, C) / math.sqrt(q.shape[-1])
    values = _split_heads(C @ params["W_UV"], n_heads)
    out = _merge_heads(torch.softmax(scores, dim=-1) @ values)
    return out @ params["W_O"], C


def latent_step__wrong_fifth_width_from_d_model(x, cache, params, n_heads):
    """d_head under the root is taken as d_model // h, though h * d_head need not be d_model."""
    B, _, d_model = x.shape
    d_head = d_model // n_heads
    C = torch.cat((cache, x @ params["W_DKV"]), 1)
    q = (x @ params["W_Q"]).view(B, n_heads, -1)
    up_k = params["W_UK"].view(C.shape[-1], n_heads, -1)
    up_v = params["W_UV"].view(C.shape[-1], n_heads, -1)
    moved = torch.einsum("bhd,lhd->bhl", q, up_k)
    a = torch.softmax(moved @ C.mT / math.sqrt(d_head), dim=-1)
    read = torch.einsum("bhl,lhv->bhv", a @ C, up_v)
    return read.reshape(B, 1, -1) @ params["W_O"], C


def latent_step__wrong_fifth_heads_merged_by_columns(x, cache, params, n_heads):
    """The outputs are flattened with the width before the heads, (d_v, h), so W_O meets them in a wrong order."""
    new = x @ params["W_DKV"]
    C = torch.cat([cache, new], dim=1)
    Q = _split_heads(x @ params["W_Q"], n_heads)[:, :, 0]
    K_up = torch.stack(params["W_UK"].chunk(n_heads, dim=1))
    V_up = torch.stack(params["W_UV"].chunk(n_heads, dim=1))
    query = torch.einsum("bhd,hld->bhl", Q, K_up)
    s = torch.einsum("bhl,btl->bht", query, C) * Q.shape[-1] ** -0.5
    latent = torch.einsum("bht,btl->bhl", s.softmax(-1), C)
    o = torch.einsum("bhl,hlv->bvh", latent, V_up)
    return o.flatten(1).unsqueeze(1) @ params["W_O"], C


def latent_step__wrong_fifth_new_latent_in_front(x, cache, params, n_heads):
    """The latent of the new token is put in front of the cache and not behind it."""
    longer = torch.cat([x @ params["W_DKV"], cache], dim=1)
    d_latent = longer.size(-1)
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1)).squeeze(1)
    d_head = q.size(-1)
    W_UK = params["W_UK"].reshape(d_latent, n_heads, d_head).permute(1, 2, 0)
    W_UV = params["W_UV"].reshape(d_latent, n_heads, -1).permute(1, 0, 2)
    absorbed = (q.transpose(0, 1) @ W_UK).transpose(0, 1)
    weights = torch.softmax(absorbed @ longer.transpose(1, 2) / d_head**0.5, -1)
    mixed = (weights @ longer).transpose(0, 1) @ W_UV
    return mixed.transpose(0, 1).flatten(1)[:, None] @ params["W_O"], longer


def latent_step__right_fifth_head_by_head_into_w_o(x, cache, params, n_heads):
    """A loop over heads on slices of columns; each head's mix goes up and through its rows of W_O, and is added."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_head = params["W_Q"].shape[1] // n_heads
    d_v = params["W_O"].shape[0] // n_heads
    out = 0
    for a in range(n_heads):
        cols, rows = slice(a * d_head, (a + 1) * d_head), slice(a * d_v, (a + 1) * d_v)
        query = (x @ params["W_Q"][:, cols]) @ params["W_UK"][:, cols].T
        scores = torch.bmm(query, C.transpose(1, 2)) / math.sqrt(d_head)
        mix = torch.bmm(torch.softmax(scores, dim=-1), C)
        out = out + (mix @ params["W_UV"][:, rows]) @ params["W_O"][rows]
    return out, C


# 10.9 delta_rule


def delta_rule__wrong_fifth_one_correction_only(Q, K, V, beta, state=None):
    """The system (I + L) u = r is not solved: u = r - L r, the first two terms of its series."""
    B, h, n, d_k = K.shape
    S0 = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    b = beta.unsqueeze(-1)
    r = b * (V - K @ S0)
    L = (b * (K @ K.mT)).tril(-1)
    u = r - L @ r
    return Q @ S0 + (Q @ K.mT).tril() @ u, S0 + K.mT @ u


def delta_rule__wrong_fifth_beta_of_the_earlier_token(Q, K, V, beta, state=None):
    """In the system beta multiplies the columns, that of the token read from, not the rows, that of the token that writes."""
    n = K.shape[2]
    if state is None:
        state = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=K.dtype, device=K.device)
    table = torch.einsum("bhtd,bhsd->bhts", K, K) * beta[:, :, None, :]
    system = torch.eye(n, dtype=K.dtype, device=K.device) + torch.tril(table, diagonal=-1)
    right = beta[..., None] * (V - K @ state)
    u = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    out = Q @ state + torch.tril(Q @ K.transpose(2, 3)) @ u
    return out, state + K.transpose(2, 3) @ u


def delta_rule__wrong_fifth_token_after_token(Q, K, V, beta, state=None):
    """A Python loop over the tokens, one step of the definition each."""
    S = K.new_zeros(*K.shape[:2], K.shape[3], V.shape[3]) if state is None else state
    outs = []
    for t in range(K.shape[2]):
        k = K[:, :, t : t + 1]
        miss = V[:, :, t : t + 1] - k @ S
        S = S + k.mT @ (beta[:, :, t, None, None] * miss)
        outs.append(Q[:, :, t : t + 1] @ S)
    return torch.cat(outs, dim=2), S


def delta_rule__wrong_fifth_first_state_not_taken_off(Q, K, V, beta, state=None):
    """The right-hand side is beta V: what the first state says to the keys is not subtracted."""
    d_k, d_v, n = K.size(-1), V.size(-1), K.size(-2)
    S = state if state is not None else Q.new_zeros(Q.size(0), Q.size(1), d_k, d_v)
    diag = torch.diag_embed(beta)
    A = torch.eye(n, dtype=Q.dtype, device=Q.device) + diag @ (K @ K.mT).tril(-1)
    U = torch.linalg.solve(A, diag @ V)
    out = Q @ S + (Q @ K.mT).tril() @ U
    return out, S + K.mT @ U
