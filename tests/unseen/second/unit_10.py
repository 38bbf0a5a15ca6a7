import math

import numpy as np
import torch
import torch.nn.functional as F


# Given by the notebook.
def split_heads(X, n_heads):
    """(B, n, h*d_head) -> (B, h, n, d_head). Each head is a block of columns."""
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(X):
    """(B, h, n, d_head) -> (B, n, h*d_head), the way back."""
    return X.transpose(1, 2).flatten(2)


def masked_softmax(scores, mask=None):
    """Weights: the softmax over the last axis, among the allowed keys."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


# Right versions of earlier exercises.
def rotate(x, positions, base=10000.0):
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.to(torch.float64)[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def rms_norm(x, gamma, eps=1e-6):
    return gamma * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def swiglu(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def sliding_window_mask(n_new, n_total, window):
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j <= i) & (j > i - window)


# 10.1 -----------------------------------------------------------------------------------------------------------------


def rotate__wrong_first_half_overwritten(x, positions, base=10000.0):
    """The first half is overwritten before the second half reads it."""
    half = x.shape[-1] // 2
    theta = positions.double()[:, None] * base ** (-2 * torch.arange(half).double() / x.shape[-1])
    cos, sin = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
    out = x.clone()
    out[..., :half] = out[..., :half] * cos - out[..., half:] * sin
    out[..., half:] = out[..., half:] * cos + out[..., :half].clone() * sin
    return out


def rotate__wrong_fractions_cut_off(x, positions, base=10000.0):
    """Positions are turned into integers, though they may be floats."""
    d = x.shape[-1]
    table_positions = positions.long().tolist()
    p = torch.arange(d // 2, dtype=torch.float64)
    angles = torch.stack([i * torch.pow(torch.tensor(base, dtype=torch.float64), -2 * p / d) for i in table_positions])
    x1, x2 = x.chunk(2, dim=-1)
    c, s = torch.cos(angles).to(x.dtype), torch.sin(angles).to(x.dtype)
    return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), dim=-1)


def rotate__wrong_angles_interleaved(x, positions, base=10000.0):
    """The table of angles repeats each speed twice in a row, as for neighbours; the columns are paired as halves."""
    d = x.shape[-1]
    inv_freq = 1.0 / (base ** (torch.arange(0, d, 2, dtype=torch.float64) / d))
    angles = torch.outer(positions.to(torch.float64), inv_freq)
    angles = angles.repeat_interleave(2, dim=-1)

    def rotate_half(y):
        return torch.cat([-y[..., d // 2 :], y[..., : d // 2]], dim=-1)

    return x * angles.cos().to(x.dtype) + rotate_half(x) * angles.sin().to(x.dtype)


def rotate__wrong_linspace_speeds(x, positions, base=10000.0):
    """The exponents run evenly from 0 to 1 inclusive, p / (d/2 - 1), and not 2p / d."""
    half = x.shape[-1] // 2
    exponents = torch.linspace(0, 1, half, dtype=torch.float64)
    angle = torch.einsum("n,p->np", positions.double(), base**-exponents)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)


def rotate__wrong_angles_start_at_one(x, positions, base=10000.0):
    """Pairs are counted from 1, so the fastest pair turns too slowly."""
    d = x.shape[-1]
    half = d // 2
    columns = [None] * d
    for p in range(1, half + 1):
        theta = positions.double() * base ** (-2 * p / d)
        c, s = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
        a, b = x[..., p - 1], x[..., p - 1 + half]
        columns[p - 1] = a * c - b * s
        columns[p - 1 + half] = b * c + a * s
    return torch.stack(columns, dim=-1)


def rotate__right_complex_numbers(x, positions, base=10000.0):
    """Each pair is a complex number, multiplied by one of length 1."""
    half = x.shape[-1] // 2
    pairs = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous())
    logs = -math.log(base) * torch.arange(half, dtype=torch.float64) / half
    angles = positions.to(torch.float64)[:, None] * logs.exp()
    turns = torch.polar(torch.ones_like(angles), angles).to(pairs.dtype)
    turned = pairs * turns
    return torch.cat([turned.real, turned.imag], dim=-1)


# 10.2 -----------------------------------------------------------------------------------------------------------------


def rms_norm__wrong_gain_is_one_plus_gamma(x, gamma, eps=1e-6):
    """The gain is 1 + gamma, as in Gemma."""
    rms = torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (1.0 + gamma) * (x / rms)


def rms_norm__wrong_rounded_to_float32(x, gamma, eps=1e-6):
    """Computes in float32, as many published models do, which loses digits of a float64 input."""
    input_dtype = x.dtype
    hidden = x.to(torch.float32)
    variance = hidden.pow(2).mean(-1, keepdim=True)
    hidden = hidden * torch.rsqrt(variance + eps)
    return gamma * hidden.to(input_dtype)


def rms_norm__wrong_eps_is_a_floor(x, gamma, eps=1e-6):
    """eps is only a lower limit for the mean square and is not added to it."""
    mean_square = (x * x).mean(-1, keepdim=True)
    return gamma * x * mean_square.clamp(min=eps).rsqrt()


def rms_norm__wrong_squares_summed(x, gamma, eps=1e-6):
    """Divides by the length of the token: the squares are summed and not averaged."""
    length = torch.einsum("...d,...d->...", x, x)
    return torch.einsum("...d,...,d->...d", x, (length + eps) ** -0.5, gamma)


def rms_norm__wrong_unbiased_variance(x, gamma, eps=1e-6):
    """Divides by the standard deviation around the mean, of torch.var."""
    spread = torch.var(x, dim=-1, keepdim=True)
    normed = x / torch.sqrt(spread + eps)
    return normed * gamma


def rms_norm__right_length_over_root_d(x, gamma, eps=1e-6):
    """x times the root of d, over the root of the squared length plus d * eps."""
    d = x.shape[-1]
    squared_length = (x.unsqueeze(-2) @ x.unsqueeze(-1)).squeeze(-1)
    return x * (gamma * math.sqrt(d)) * torch.rsqrt(squared_length + d * eps)


# 10.3 -----------------------------------------------------------------------------------------------------------------


def swiglu__wrong_gate_of_gpt_oss(x, W_gate, W_up, W_down):
    """The variant of gpt-oss: clamped, sigmoid of 1.702 z, and 1 added to up."""
    gate = (x @ W_gate).clamp(max=7.0)
    up = (x @ W_up).clamp(-7.0, 7.0)
    return (gate * torch.sigmoid(1.702 * gate) * (up + 1)) @ W_down


def swiglu__wrong_fast_gelu(x, W_gate, W_up, W_down):
    """The gate is z * sigmoid(1.702 z), the fast form of gelu."""

    def activation(z):
        return z * torch.sigmoid(1.702 * z)

    return (activation(x @ W_gate) * (x @ W_up)) @ W_down


def swiglu__wrong_plain_glu(x, W_gate, W_up, W_down):
    """The gate is the sigmoid alone, the older GLU: z itself is missing."""
    both = torch.cat([x @ W_up, x @ W_gate], dim=-1)
    return F.glu(both, dim=-1) @ W_down


def swiglu__wrong_down_before_product(x, W_gate, W_up, W_down):
    """Both ways are brought down to d_model first, and multiplied there."""
    gate = F.silu(x @ W_gate) @ W_down
    up = (x @ W_up) @ W_down
    return gate * up


def swiglu__wrong_gate_not_activated(x, W_gate, W_up, W_down):
    """silu is on up in place of the gate."""
    hidden = torch.einsum("...m,mf->...f", x, W_gate)
    hidden = hidden * F.silu(torch.einsum("...m,mf->...f", x, W_up))
    return torch.einsum("...f,fm->...m", hidden, W_down)


def swiglu__right_one_wide_product(x, W_gate, W_up, W_down):
    """One product with both matrices side by side, and glu of (gate * up, gate)."""
    gate, up = (x @ torch.cat([W_gate, W_up], dim=1)).tensor_split(2, dim=-1)
    opened = torch.sigmoid(gate).mul(gate).mul(up)
    return F.linear(opened, W_down.T)


# 10.4 -----------------------------------------------------------------------------------------------------------------


def sliding_window_mask__wrong_first_rows_kept(n_new, n_total, window):
    """Builds the square mask and keeps its first n_new rows in place of the last."""
    i = torch.arange(n_total).unsqueeze(1)
    j = torch.arange(n_total).unsqueeze(0)
    full = (j <= i) & (i - j < window)
    return full[:n_new]


def sliding_window_mask__wrong_fixed_blocks(n_new, n_total, window):
    """Cuts the text into blocks of `window` tokens; a token sees its own block only."""
    i = torch.arange(n_total - n_new, n_total)
    j = torch.arange(n_total)
    same_block = (i // window)[:, None] == (j // window)[None, :]
    return same_block & (j[None, :] <= i[:, None])


def sliding_window_mask__wrong_negative_slice_start(n_new, n_total, window):
    """Where the window begins before the text, the slice starts at a negative index, counted from the end."""
    mask = torch.zeros(n_new, n_total, dtype=torch.bool)
    for r in range(n_new):
        i = n_total - n_new + r
        mask[r, i - window + 1 : i + 1] = True
    return mask


def sliding_window_mask__wrong_both_sides(n_new, n_total, window):
    """The window reaches to both sides: later tokens are seen."""
    offset = n_total - n_new
    distance = torch.arange(n_new)[:, None] + offset - torch.arange(n_total)[None, :]
    return distance.abs() < window


def sliding_window_mask__wrong_first_token_stays(n_new, n_total, window):
    """Keeps the first token visible besides the window, as a sink."""
    rows = []
    for i in range(n_total - n_new, n_total):
        rows.append([i - window < j <= i or j == 0 for j in range(n_total)])
    return torch.tensor(rows)


def sliding_window_mask__right_two_triangles(n_new, n_total, window):
    """What one triangle allows and a second, `window` further left, does not."""
    before = n_total - n_new
    ones = torch.ones(n_new, n_total, dtype=torch.bool)
    return torch.tril(ones, before) ^ torch.tril(ones, before - window)


# 10.5 -----------------------------------------------------------------------------------------------------------------


def modern_block__wrong_qk_norm_over_all_heads(x, params, n_heads, n_kv_heads, positions, window=None):
    """Queries and keys are normed before the split, over all heads together, with the gains repeated."""
    n = x.shape[1]
    z = rms_norm(x, params["gamma_1"])
    Q = rms_norm(z @ params["W_Q"], params["gamma_q"].repeat(n_heads))
    K = rms_norm(z @ params["W_K"], params["gamma_k"].repeat(n_kv_heads))
    Q, K, V = split_heads(Q, n_heads), split_heads(K, n_kv_heads), split_heads(z @ params["W_V"], n_kv_heads)
    Q, K = rotate(Q, positions), rotate(K, positions)
    group = n_heads // n_kv_heads
    K, V = K.repeat_interleave(group, dim=1), V.repeat_interleave(group, dim=1)
    mask = sliding_window_mask(n, n, n if window is None else window)
    A = masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + merge_heads(A @ V) @ params["W_O"]
    return y + swiglu(rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_values_of_unnormed_x(x, params, n_heads, n_kv_heads, positions, window=None):
    """The values are projected from x and not from its norm."""
    p, h, g = params, n_heads, n_kv_heads
    B, n, _ = x.shape
    z = rms_norm(x, p["gamma_1"])
    q = rotate(rms_norm(split_heads(z @ p["W_Q"], h), p["gamma_q"]), positions)
    k = rotate(rms_norm(split_heads(z @ p["W_K"], g), p["gamma_k"]), positions)
    v = split_heads(x @ p["W_V"], g)
    q = q.unflatten(1, (g, h // g))
    scores = torch.einsum("bgrid,bgjd->bgrij", q, k) / q.shape[-1] ** 0.5
    A = masked_softmax(scores, sliding_window_mask(n, n, window or n))
    heads = torch.einsum("bgrij,bgjd->bgrid", A, v).flatten(1, 2)
    y = x + merge_heads(heads) @ p["W_O"]
    return y + swiglu(rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_scale_from_d_model(x, params, n_heads, n_kv_heads, positions, window=None):
    """The head's width in the scale is taken as d_model // n_heads, which need not be d_head."""
    B, n, d_model = x.shape
    d_head = d_model // n_heads
    normed = rms_norm(x, params["gamma_1"])
    parts = {}
    for name, heads in (("Q", n_heads), ("K", n_kv_heads), ("V", n_kv_heads)):
        parts[name] = split_heads(normed @ params[f"W_{name}"], heads)
    for name in "QK":
        parts[name] = rotate(rms_norm(parts[name], params["gamma_" + name.lower()]), positions)
    for name in "KV":
        parts[name] = parts[name].repeat_interleave(n_heads // n_kv_heads, dim=1)
    scores = parts["Q"] @ parts["K"].transpose(-2, -1) / math.sqrt(max(d_head, 1))
    mask = sliding_window_mask(n, n, window if window is not None else n)
    attended = merge_heads(masked_softmax(scores, mask) @ parts["V"])
    y = x + attended @ params["W_O"]
    ffn_in = rms_norm(y, params["gamma_2"])
    return y + swiglu(ffn_in, *(params[name] for name in ("W_gate", "W_up", "W_down")))


def modern_block__wrong_heads_merged_by_reshape(x, params, n_heads, n_kv_heads, positions, window=None):
    """The heads are merged by a reshape without swapping the axes back: tokens and heads get mixed."""
    B, n, _ = x.shape
    z = rms_norm(x, params["gamma_1"])
    Q = (z @ params["W_Q"]).view(B, n, n_heads, -1).permute(0, 2, 1, 3)
    K = (z @ params["W_K"]).view(B, n, n_kv_heads, -1).permute(0, 2, 1, 3)
    V = (z @ params["W_V"]).view(B, n, n_kv_heads, -1).permute(0, 2, 1, 3)
    Q = rotate(rms_norm(Q, params["gamma_q"]), positions)
    K = rotate(rms_norm(K, params["gamma_k"]), positions)
    shared = n_heads // n_kv_heads
    K = K[:, :, None].expand(-1, -1, shared, -1, -1).reshape(B, n_heads, n, -1)
    V = V[:, :, None].expand(-1, -1, shared, -1, -1).reshape(B, n_heads, n, -1)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    i, j = torch.arange(n)[:, None], torch.arange(n)
    mask = j <= i
    if window is not None:
        mask = mask & (i - j < window)
    out = (masked_softmax(scores, mask) @ V).reshape(B, n, -1)
    y = x + out @ params["W_O"]
    return y + swiglu(rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_normed_y_added(x, params, n_heads, n_kv_heads, positions, window=None):
    """Step 7 adds the FFN to the normed y, not to y itself."""

    def attention(z):
        Q = rms_norm(split_heads(z @ params["W_Q"], n_heads), params["gamma_q"])
        K = rms_norm(split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"])
        V = split_heads(z @ params["W_V"], n_kv_heads)
        K = rotate(K, positions).repeat_interleave(n_heads // n_kv_heads, 1)
        V = V.repeat_interleave(n_heads // n_kv_heads, 1)
        n = z.shape[1]
        mask = sliding_window_mask(n, n, window or n)
        return merge_heads(masked_softmax(rotate(Q, positions) @ K.mT / Q.shape[-1] ** 0.5, mask) @ V) @ params["W_O"]

    x = x + attention(rms_norm(x, params["gamma_1"]))
    x = rms_norm(x, params["gamma_2"])
    return x + swiglu(x, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__right_head_after_head(x, params, n_heads, n_kv_heads, positions, window=None):
    """One head at a time, cut out of the weights; each adds its own rows of W_O to the stream."""
    n = x.shape[1]
    d_head = params["gamma_q"].shape[0]
    z = rms_norm(x, params["gamma_1"])
    lag = torch.arange(n)[:, None] - torch.arange(n)
    hidden = (lag < 0) if window is None else (lag < 0) | (lag >= window)
    y = x
    for head in range(n_heads):
        mine = slice(head * d_head, (head + 1) * d_head)
        group = head * n_kv_heads // n_heads
        shared = slice(group * d_head, (group + 1) * d_head)
        q = rotate(rms_norm(z @ params["W_Q"][:, mine], params["gamma_q"]), positions)
        k = rotate(rms_norm(z @ params["W_K"][:, shared], params["gamma_k"]), positions)
        scores = torch.einsum("bid,bjd->bij", q, k) * d_head**-0.5
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        y = y + weights @ (z @ params["W_V"][:, shared]) @ params["W_O"][mine]
    return y + swiglu(rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


# 10.6 -----------------------------------------------------------------------------------------------------------------


def sink_attention__wrong_mask_after_softmax(Q, K, V, sink, mask=None):
    """The mask sets weights to zero after the softmax: hidden keys stay in the denominator."""
    B, h, n, d_k = Q.shape
    scores = Q @ K.mT / math.sqrt(d_k)
    column = sink.view(1, h, 1, 1).expand(B, h, n, 1)
    weights = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)[..., :-1]
    if mask is not None:
        weights = weights * mask
    return weights @ V


def sink_attention__wrong_mask_padded_at_end(Q, K, V, sink, mask=None):
    """The sink's column stands in front, but the mask gets its extra True at the end: all shifts by one key."""
    B, h, n, d_k = Q.shape
    scores = Q @ K.transpose(-1, -2) * d_k**-0.5
    scores = torch.cat([sink[None, :, None, None].expand(B, h, n, 1), scores], dim=-1)
    if mask is not None:
        mask = F.pad(mask, (0, 1), value=True)
    weights = masked_softmax(scores, mask)
    return weights[..., 1:] @ V


def sink_attention__wrong_hidden_keys_in_maximum(Q, K, V, sink, mask=None):
    """The maximum that is subtracted is taken over hidden keys, too: allowed weights can underflow to 0."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5
    sink = sink[:, None, None]
    top = torch.maximum(scores.amax(dim=-1, keepdim=True), sink).detach()
    numerators = torch.exp(scores - top)
    if mask is not None:
        numerators = numerators * mask
    denominator = numerators.sum(dim=-1, keepdim=True) + torch.exp(sink - top)
    return (numerators / denominator.clamp_min(torch.finfo(Q.dtype).tiny)) @ V


def sink_attention__wrong_sink_added_to_scores(Q, K, V, sink, mask=None):
    """The sink is added to every score of its head, where a softmax does not notice it."""
    scores = Q @ K.mT / math.sqrt(Q.size(-1)) + sink.reshape(-1, 1, 1)
    weights = masked_softmax(scores, mask)
    return weights @ V


def sink_attention__wrong_gate_from_best_score(Q, K, V, sink, mask=None):
    """The head is scaled by the sigmoid of its best score minus the sink, in place of log-sum-exp minus the sink."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    gate = torch.sigmoid(scores.max(dim=-1, keepdim=True).values - sink[None, :, None, None])
    return gate * (scores.softmax(dim=-1) @ V)


def sink_attention__right_log_of_denominator(Q, K, V, sink, mask=None):
    """The weights are exp(score - log of the denominator), which logaddexp joins from keys and sink."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) * Q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    total = torch.logaddexp(scores.logsumexp(dim=-1), sink[:, None])
    return (scores - total.unsqueeze(-1)).exp() @ V


# 10.7 -----------------------------------------------------------------------------------------------------------------


def linear_attention__wrong_given_state_changed(Q, K, V, decay=None, state=None):
    """The state that is handed in is updated in place."""
    B, h, n, d_k = K.shape
    S = torch.zeros(B, h, d_k, V.shape[-1], dtype=Q.dtype) if state is None else state
    rows = []
    for t in range(n):
        if decay is not None:
            S *= decay[:, :, t, None, None]
        S += K[:, :, t, :, None] * V[:, :, t, None, :]
        rows.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S))
    return torch.stack(rows, dim=2), S


def linear_attention__wrong_first_state_not_faded(Q, K, V, decay=None, state=None):
    """The table version adds Q S_0 as it was: the decays do not touch the state that was handed in."""
    n = Q.shape[2]
    logs = Q.new_zeros(Q.shape[:3]) if decay is None else torch.log(decay)
    sums = torch.cumsum(logs, dim=-1)
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    fade = (sums[..., :, None] - sums[..., None, :]).masked_fill(~causal, -torch.inf).exp()
    out = (Q @ K.mT * fade) @ V
    last = torch.einsum("bhnk,bhnv,bhn->bhkv", K, V, fade[..., -1, :])
    if state is not None:
        out = out + Q @ state
        last = last + state
    return out, last


def linear_attention__wrong_last_pair_not_in_state(Q, K, V, decay=None, state=None):
    """The state that comes back is the one before the last token."""
    B, h, n, d_k = Q.shape
    d_v = V.shape[-1]
    states = [state if state is not None else torch.zeros(B, h, d_k, d_v, dtype=Q.dtype)]
    outs = []
    for t in range(n):
        a = 1.0 if decay is None else decay[:, :, t][..., None, None]
        states.append(a * states[t] + K[:, :, t].unsqueeze(-1) @ V[:, :, t].unsqueeze(-2))
        outs.append((Q[:, :, t].unsqueeze(-2) @ states[t + 1]).squeeze(-2))
    return torch.stack(outs, dim=2), states[n - 1]


def linear_attention__wrong_what_is_read_fades(Q, K, V, decay=None, state=None):
    """What a token reads is multiplied by its decay once more."""
    if decay is None:
        decay = torch.ones_like(Q[..., 0])
    S = state if state is not None else (0 * K[:, :, 0]).unsqueeze(-1) * V[:, :, :1]
    read = []
    for q, k, v, a in zip(Q.unbind(2), K.unbind(2), V.unbind(2), decay.unbind(2)):
        S = a[..., None, None] * S + torch.einsum("bhk,bhv->bhkv", k, v)
        read.append(a[..., None] * torch.einsum("bhk,bhkv->bhv", q, S))
    return torch.stack(read, 2), S


def linear_attention__wrong_mean_of_what_was_read(Q, K, V, decay=None, state=None):
    """Divides what a token reads by the number of tokens so far: a mean in place of the sum."""
    B, h, n, d_k = Q.shape
    S = Q.new_zeros(B, h, d_k, V.shape[3])
    if state is not None:
        S = S + state
    out = Q.new_zeros(B, h, n, V.shape[3])
    for t in range(n):
        if decay is not None:
            S = S * decay[:, :, t].reshape(B, h, 1, 1)
        S = S + K[:, :, t : t + 1].mT @ V[:, :, t : t + 1]
        out[:, :, t : t + 1] = Q[:, :, t : t + 1] @ S / (t + 1)
    return out, S


def linear_attention__right_halves_by_recursion(Q, K, V, decay=None, state=None):
    """Reads the first half of the text, hands the state on, and reads the second half."""

    def read(q, k, v, a, S):
        n = q.shape[2]
        if n > 1:
            cut = n // 2
            first, S = read(q[:, :, :cut], k[:, :, :cut], v[:, :, :cut], a[:, :, :cut], S)
            second, S = read(q[:, :, cut:], k[:, :, cut:], v[:, :, cut:], a[:, :, cut:], S)
            return torch.cat([first, second], dim=2), S
        if n == 1:
            S = a.unsqueeze(-1) * S + k.mT @ v
        return q @ S, S

    if decay is None:
        decay = Q.new_ones(Q.shape[:-1])
    if state is None:
        state = Q.new_zeros(*Q.shape[:2], K.shape[-1], V.shape[-1])
    return read(Q, K, V, decay, state)


# 10.8 -----------------------------------------------------------------------------------------------------------------


def latent_step__wrong_value_heads_in_turn(x, cache, params, n_heads):
    """W_UV is cut so that a head gets every h-th column, not a block of columns."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_latent = C.shape[-1]
    W_UK = params["W_UK"].view(d_latent, n_heads, -1)
    W_UV = params["W_UV"].reshape(d_latent, -1, n_heads)
    q = (x @ params["W_Q"]).view(x.shape[0], n_heads, -1)
    in_latent = torch.einsum("bhd,lhd->bhl", q, W_UK)
    scores = torch.einsum("bhl,bnl->bhn", in_latent, C) / math.sqrt(q.shape[-1])
    mixed = torch.einsum("bhn,bnl->bhl", scores.softmax(-1), C)
    heads = torch.einsum("bhl,lvh->bhv", mixed, W_UV)
    return heads.flatten(1)[:, None] @ params["W_O"], C


def latent_step__wrong_softmax_over_heads(x, cache, params, n_heads):
    """The softmax runs over the heads in place of the tokens."""
    new = torch.einsum("bsd,dl->bsl", x, params["W_DKV"])
    longer = torch.cat((cache, new), dim=1)
    Q = split_heads(x @ params["W_Q"], n_heads)[:, :, 0]
    W_UK = params["W_UK"].unflatten(1, (n_heads, -1))
    W_UV = params["W_UV"].unflatten(1, (n_heads, -1))
    absorbed = torch.einsum("bhd,lhd->bhl", Q, W_UK) / Q.shape[-1] ** 0.5
    weights = torch.softmax(absorbed @ longer.mT, dim=1)
    out = torch.einsum("bhl,lhv->bhv", weights @ longer, W_UV)
    return (out.reshape(out.shape[0], 1, -1)) @ params["W_O"], longer


def latent_step__wrong_exp_overflows(x, cache, params, n_heads):
    """Exponentials without subtracting the maximum: large scores give NaN."""
    B = x.shape[0]
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_head = params["W_UK"].shape[1] // n_heads
    d_v = params["W_UV"].shape[1] // n_heads
    heads = []
    for a in range(n_heads):
        keys = slice(a * d_head, (a + 1) * d_head)
        values = slice(a * d_v, (a + 1) * d_v)
        query = x @ params["W_Q"][:, keys] @ params["W_UK"][:, keys].T
        raw = torch.exp(query @ C.transpose(1, 2) / math.sqrt(d_head))
        weights = raw / raw.sum(dim=-1, keepdim=True)
        heads.append(weights @ C @ params["W_UV"][:, values])
    return torch.cat(heads, dim=-1) @ params["W_O"], C


def latent_step__wrong_new_latent_in_front(x, cache, params, n_heads):
    """The new token's latent is put before the old ones in the cache."""
    p = params
    C = torch.cat([x @ p["W_DKV"], cache], dim=1)
    q = (x @ p["W_Q"]).unflatten(-1, (n_heads, -1)).squeeze(1)
    d_head = q.shape[-1]
    q = torch.stack([q[:, a] @ p["W_UK"][:, a * d_head : (a + 1) * d_head].mT for a in range(n_heads)], dim=1)
    A = (q @ C.mT / d_head**0.5).softmax(dim=-1)
    mixed = A @ C
    out = torch.stack([m @ W for m, W in zip(mixed.unbind(1), p["W_UV"].chunk(n_heads, dim=1))], dim=1)
    return out.flatten(1).unsqueeze(1) @ p["W_O"], C


def latent_step__wrong_only_old_tokens_seen(x, cache, params, n_heads):
    """The weights are worked out over the old cache; the new token sees itself only when the cache is empty."""
    new = x @ params["W_DKV"]
    seen = cache if cache.shape[1] > 0 else new
    q = (x[:, 0] @ params["W_Q"]).unflatten(-1, (n_heads, -1))
    up_keys = params["W_UK"].unflatten(-1, (n_heads, -1)).transpose(0, 1)
    up_values = params["W_UV"].unflatten(-1, (n_heads, -1)).transpose(0, 1)
    latent_queries = torch.einsum("bhd,hld->bhl", q, up_keys)
    weights = masked_softmax(torch.einsum("bhl,btl->bht", latent_queries, seen) / math.sqrt(q.shape[-1]))
    latents = torch.einsum("bht,btl->bhl", weights, seen)
    heads = torch.einsum("bhl,hlv->bhv", latents, up_values)
    return (heads.flatten(1) @ params["W_O"])[:, None], torch.cat([cache, new], dim=1)


def latent_step__right_absorbed_head_by_head(x, cache, params, n_heads):
    """For each head: the query goes into the latent, and the mean latent goes out through W_UV and W_O."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    out = torch.zeros_like(x)
    pieces = zip(
        params["W_Q"].chunk(n_heads, dim=1),
        params["W_UK"].chunk(n_heads, dim=1),
        params["W_UV"].chunk(n_heads, dim=1),
        params["W_O"].chunk(n_heads, dim=0),
    )
    for W_Q, W_UK, W_UV, W_O in pieces:
        asked = (x @ W_Q) @ W_UK.T / math.sqrt(W_UK.shape[1])
        weights = torch.bmm(asked, C.mT).softmax(dim=-1)
        out = out + torch.bmm(weights, C) @ W_UV @ W_O
    return out, C


# 10.9 -----------------------------------------------------------------------------------------------------------------


def delta_rule__wrong_first_order_only(Q, K, V, beta, state=None):
    """The system is not solved: the earlier tokens' corrections are taken off once, uncorrected themselves."""
    if state is None:
        state = Q.new_zeros(*Q.shape[:2], K.shape[-1], V.shape[-1])
    b = beta[..., None]
    plain = b * (V - K @ state)
    A = (b * (K @ K.mT)).tril(-1)
    U = plain - A @ plain
    out = Q @ state + (Q @ K.mT).tril() @ U
    return out, state + K.mT @ U


def delta_rule__wrong_beta_missing_in_system(Q, K, V, beta, state=None):
    """beta stands on the right-hand side only, and not in the matrix."""
    n = Q.shape[2]
    S0 = torch.zeros(*K.shape[:2], K.shape[3], V.shape[3], dtype=K.dtype) if state is None else state
    right = beta.unsqueeze(-1) * (V - torch.einsum("bhnk,bhkv->bhnv", K, S0))
    system = torch.eye(n, dtype=K.dtype) + torch.tril(K @ K.transpose(-1, -2), diagonal=-1)
    U = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    scores = torch.tril(Q @ K.transpose(-1, -2))
    return scores @ U + Q @ S0, S0 + K.transpose(-1, -2) @ U


def delta_rule__wrong_sign_of_the_matrix(Q, K, V, beta, state=None):
    """All u come to one side with the wrong sign: I - A in place of I + A."""
    B, h, n, d_k = K.shape
    if state is None:
        state = torch.zeros(B, h, d_k, V.shape[-1], dtype=V.dtype)
    A = torch.tril(beta[..., :, None] * torch.einsum("bhik,bhjk->bhij", K, K), -1)
    T = torch.linalg.inv(torch.eye(n, dtype=K.dtype) - A)
    U = T @ (beta[..., None] * (V - K @ state))
    last = state + torch.einsum("bhnk,bhnv->bhkv", K, U)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    reads = torch.einsum("bhik,bhjk->bhij", Q, K).masked_fill(~mask, 0)
    return Q @ state + reads @ U, last


def delta_rule__wrong_chunks_restart(Q, K, V, beta, state=None):
    """Works in chunks of four, but each chunk begins with the state that was handed in."""
    start = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    size = 4
    outs, S = [], start
    for q, k, v, b in zip(*(x.split(size, dim=2) for x in (Q, K, V, beta))):
        b = b.unsqueeze(-1)
        L = (b * (k @ k.mT)).tril(-1) + torch.eye(k.shape[2], dtype=k.dtype)
        u = torch.linalg.solve_triangular(L, b * (v - k @ start), upper=False)
        outs.append(q @ start + (q @ k.mT).tril() @ u)
        S = S + k.mT @ u
    return torch.cat(outs, dim=2), S


def delta_rule__wrong_values_into_last_state(Q, K, V, beta, state=None):
    """The outputs use the corrections u, but the last state is built of beta times the values."""
    n = K.shape[-2]
    S = 0.0 if state is None else state
    held = 0.0 if state is None else K @ state
    b = beta[..., None]
    system = torch.eye(n, dtype=K.dtype) + (b * (K @ K.mT)).tril(-1)
    U = torch.linalg.solve(system, b * (V - held))
    out = (Q @ K.mT).tril() @ U
    if state is not None:
        out = out + Q @ state
    return out, S + K.mT @ (b * V)


def delta_rule__right_recursive_halves(Q, K, V, beta, state=None):
    """Long texts are cut in two; pieces of at most 16 tokens are one triangular system with beta moved out of it."""

    def solve(q, k, v, b, S):
        n = q.shape[2]
        if n > 16:
            cut = n // 2
            out, S = solve(q[:, :, :cut], k[:, :, :cut], v[:, :, :cut], b[:, :, :cut], S)
            more, S = solve(q[:, :, cut:], k[:, :, cut:], v[:, :, cut:], b[:, :, cut:], S)
            return torch.cat([out, more], dim=2), S
        joint = torch.cat([q, k], dim=2) @ k.mT
        reads, overlap = joint[:, :, :n].tril(), joint[:, :, n:].tril(-1)
        # the differences e = v - k S obey e + overlap (b e) = v - k S_0
        system = torch.eye(n, dtype=k.dtype) + overlap * b[:, :, None, :]
        e = torch.linalg.solve_triangular(system, v - k @ S, upper=False)
        u = b[..., None] * e
        return q @ S + reads @ u, S + k.mT @ u

    if state is None:
        state = Q.new_zeros(*Q.shape[:2], K.shape[-1], V.shape[-1])
    return solve(Q, K, V, beta, state)
