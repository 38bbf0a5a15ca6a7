import math

import torch
import torch.nn.functional as F

# ---------------------------------------------------------------- given by the notebook


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


# ---------------------------------------------------------------- earlier exercises, right


def rotate(x, positions, base=10000.0):
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.double()[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def rms_norm(x, gamma, eps=1e-6):
    return gamma * x / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps)


def swiglu(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def sliding_window_mask(n_new, n_total, window):
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j <= i) & (j > i - window)


# ================================================================ rotate


def rotate__wrong_b_by_number_of_row(x, positions, base=10000.0):
    """The rows are turned by their number 0, 1, 2, …: the positions that are handed in are not used."""
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.split(half, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def rotate__wrong_b_first_half_overwritten(x, positions, base=10000.0):
    """The second half is worked out from the first half that is already turned, and not from the old one."""
    half = x.shape[-1] // 2
    speeds = base ** (-2 * torch.arange(half, dtype=torch.float64) / x.shape[-1])
    angles = (positions[:, None] * speeds).double()
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    a = a * cos - b * sin
    b = a * sin + b * cos
    return torch.cat([a, b], dim=-1)


def rotate__wrong_b_positions_put_in_order(x, positions, base=10000.0):
    """The positions are sorted first, so rows that come in another order are turned by positions of other rows."""
    positions, _ = torch.sort(positions)
    half = x.shape[-1] // 2
    angles = positions.double()[:, None] / base ** (torch.arange(half).double() / half)
    z = torch.complex(x[..., :half].double(), x[..., half:].double())
    z = z * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([z.real, z.imag], dim=-1).to(x.dtype)


def rotate__wrong_b_base_written_as_number(x, positions, base=10000.0):
    """The base is not used: 10,000 stands in the formula, whatever is handed in."""
    half = x.shape[-1] // 2
    log_speed = -math.log(10000.0) * torch.arange(half, dtype=torch.float64) / half
    angles = torch.einsum("n,p->np", positions.double(), log_speed.exp())
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.tensor_split(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def rotate__wrong_b_slowest_pair_left_out(x, positions, base=10000.0):
    """The loop over the pairs ends one too soon: the last, slowest pair is not turned."""
    d = x.shape[-1]
    columns = list(x.unbind(dim=-1))
    for p in range(d // 2 - 1):
        angle = positions.double() * base ** (-2 * p / d)
        c, s = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        u, v = columns[p], columns[p + d // 2]
        columns[p], columns[p + d // 2] = u * c - v * s, u * s + v * c
    return torch.stack(columns, dim=-1)


def rotate__right_b_complex_numbers(x, positions, base=10000.0):
    """The halves as real and imaginary parts, times numbers of length 1."""
    half = x.shape[-1] // 2
    angle = torch.outer(positions.double(), torch.logspace(0, -1, half + 1, base=float(base), dtype=torch.float64)[:-1])
    a, b = x.double().split(half, dim=-1)
    z = torch.complex(a, b) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat(torch.view_as_real(z).unbind(dim=-1), dim=-1).to(x.dtype)


# ================================================================ rms_norm


def rms_norm__wrong_b_eps_outside_the_root(x, gamma, eps=1e-6):
    """eps is added to the root and not to the mean square under it."""
    return gamma * x / (x.square().mean(dim=-1, keepdim=True).sqrt() + eps)


def rms_norm__wrong_b_eps_as_a_floor(x, gamma, eps=1e-6):
    """eps is a lower bound of the mean square and is not added to it."""
    ms = x.square().mean(dim=-1, keepdim=True)
    return gamma * x / ms.clamp(min=eps).sqrt()


def rms_norm__wrong_b_x_divided_in_place(x, gamma, eps=1e-6):
    """x is divided in place, so the caller's tensor is changed."""
    x /= torch.sqrt((x**2).mean(-1, keepdim=True) + eps)
    return gamma * x


def rms_norm__wrong_b_axis_one_for_the_last(x, gamma, eps=1e-6):
    """The mean runs over axis 1, which is the last one only for (n, d); in (B, n, d) that is the axis of the tokens."""
    ms = (x * x).mean(dim=1, keepdim=True)
    return gamma * x / (ms + eps) ** 0.5


def rms_norm__wrong_b_root_is_detached(x, gamma, eps=1e-6):
    """The root is detached and counts as a constant, so the gradient of x is wrong."""
    rms = torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps).detach()
    return gamma / rms * x


def rms_norm__right_b_inner_product(x, gamma, eps=1e-6):
    """The mean square as an inner product of x with itself."""
    d = x.shape[-1]
    scale = (torch.einsum("...i,...i->...", x, x) / d + eps).rsqrt()
    return torch.einsum("...i,...,i->...i", x, scale, gamma)


# ================================================================ swiglu


def swiglu__wrong_b_silu_on_the_wrong_branch(x, W_gate, W_up, W_down):
    """silu is applied to x W_up and not to x W_gate."""
    gate, up = x @ W_gate, x @ W_up
    return (gate * F.silu(up)) @ W_down


def swiglu__wrong_b_gelu_for_silu(x, W_gate, W_up, W_down):
    """GELU stands in the place of silu."""
    return torch.matmul(F.gelu(torch.matmul(x, W_gate)) * torch.matmul(x, W_up), W_down)


def swiglu__wrong_b_branches_added(x, W_gate, W_up, W_down):
    """The two branches are added and not multiplied."""
    z = x @ W_gate
    hidden = z * torch.sigmoid(z)
    hidden = hidden + x @ W_up
    return hidden @ W_down


def swiglu__wrong_b_three_axes_only(x, W_gate, W_up, W_down):
    """The einsum names exactly three axes for x, so one token (d_model,) or a single text (n, d_model) fails."""
    gate = torch.einsum("bnm,mf->bnf", x, W_gate)
    up = torch.einsum("bnm,mf->bnf", x, W_up)
    return torch.einsum("bnf,fm->bnm", F.silu(gate) * up, W_down)


def swiglu__wrong_b_silu_on_both(x, W_gate, W_up, W_down):
    """silu is applied to both branches; the branch of W_up stays as it is."""
    hidden = 1
    for W in (W_gate, W_up):
        hidden = hidden * F.silu(x @ W)
    return hidden @ W_down


def swiglu__right_b_in_slices_of_hidden_units(x, W_gate, W_up, W_down):
    """The sum over slices of four hidden units."""
    slices = zip(W_gate.split(4, dim=1), W_up.split(4, dim=1), W_down.split(4, dim=0), strict=True)
    return sum((torch.sigmoid(x @ g) * (x @ g) * (x @ u)) @ d for g, u, d in slices)


# ================================================================ sliding_window_mask


def sliding_window_mask__wrong_b_future_left_open(n_new, n_total, window):
    """Only the lower bound is tested, so the tokens see all that come behind them."""
    i = torch.arange(n_new)[:, None] + (n_total - n_new)
    return torch.arange(n_total).expand(n_new, n_total) > i - window


def sliding_window_mask__wrong_b_slice_begins_below_zero(n_new, n_total, window):
    """Where the window reaches beyond the start, the slice begins at a negative index, which counts from the end."""
    mask = torch.zeros(n_new, n_total, dtype=torch.bool)
    for r in range(n_new):
        i = n_total - n_new + r
        mask[r, i - window + 1 : i + 1] = True
    return mask


def sliding_window_mask__wrong_b_last_rows_window_for_all(n_new, n_total, window):
    """The window's lower bound is that of the last token in every row and does not move along with i."""
    j = torch.arange(n_total)
    i = torch.arange(n_total - n_new, n_total)[:, None]
    return (j <= i) & (j >= n_total - window)


def sliding_window_mask__wrong_b_blocks_for_windows(n_new, n_total, window):
    """The text is cut into blocks of `window` tokens, and a token sees its own block: the window does not slide."""
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j <= i) & (i // window == j // window)


def sliding_window_mask__wrong_b_all_rows_returned(n_new, n_total, window):
    """The mask of all n_total tokens is returned and not cut down to the last n_new rows."""
    full = torch.ones(n_total, n_total, dtype=torch.bool)
    return full.tril() & full.triu(1 - window)


def sliding_window_mask__right_b_two_triangles_apart(n_new, n_total, window):
    """What lies in one triangle and not in the other."""
    past, ones = n_total - n_new, torch.ones(n_new, n_total, dtype=torch.bool)
    return ones.tril(past) ^ ones.tril(past - window)


# ================================================================ modern_block


def modern_block__wrong_b_norm_across_all_heads(x, params, n_heads, n_kv_heads, positions, window=None):
    """QK-norm takes the mean square over the whole row of all heads, before they are cut, and not for each head."""
    B, n, _ = x.shape
    r = n_heads // n_kv_heads
    z = rms_norm(x, params["gamma_1"])
    q = rms_norm(z @ params["W_Q"], params["gamma_q"].repeat(n_heads))
    k = rms_norm(z @ params["W_K"], params["gamma_k"].repeat(n_kv_heads))
    Q, K, V = split_heads(q, n_heads), split_heads(k, n_kv_heads), split_heads(z @ params["W_V"], n_kv_heads)
    Q, K = rotate(Q, positions), rotate(K, positions)
    K, V = K.repeat_interleave(r, 1), V.repeat_interleave(r, 1)
    mask = sliding_window_mask(n, n, window or n)
    A = masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + merge_heads(A @ V) @ params["W_O"]
    return y + swiglu(rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_b_queries_take_the_keys_gain(x, params, n_heads, n_kv_heads, positions, window=None):
    """The queries are normed with gamma_k and the keys with gamma_q: the gains have changed places."""
    p = params
    z = rms_norm(x, p["gamma_1"])
    Q, K, V = (split_heads(z @ p[w], h) for w, h in (("W_Q", n_heads), ("W_K", n_kv_heads), ("W_V", n_kv_heads)))
    K, Q = (rotate(rms_norm(t, p[g]), positions) for t, g in ((K, "gamma_q"), (Q, "gamma_k")))
    K, V = (t.repeat_interleave(n_heads // n_kv_heads, dim=1) for t in (K, V))
    n = x.shape[1]
    A = masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), sliding_window_mask(n, n, window or n))
    y = x + merge_heads(A @ V) @ p["W_O"]
    return y + swiglu(rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_b_no_window_no_mask(x, params, n_heads, n_kv_heads, positions, window=None):
    """Without a window there is no mask at all, so tokens see later ones; the block is causal all the same."""
    n = x.shape[1]
    mask = None if window is None else sliding_window_mask(n, n, window)
    z = rms_norm(x, params["gamma_1"])
    Q = rotate(rms_norm(split_heads(z @ params["W_Q"], n_heads), params["gamma_q"]), positions)
    K = rotate(rms_norm(split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"]), positions)
    V = split_heads(z @ params["W_V"], n_kv_heads)
    rep = n_heads // n_kv_heads
    A = masked_softmax(Q @ K.repeat_interleave(rep, 1).mT / math.sqrt(Q.shape[-1]), mask)
    y = x + merge_heads(A @ V.repeat_interleave(rep, 1)) @ params["W_O"]
    return y + swiglu(rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_b_window_one_too_wide(x, params, n_heads, n_kv_heads, positions, window=None):
    """The window lets i - j = window through, so each token sees one more than it should."""
    n = x.shape[1]
    i, j = torch.arange(n)[:, None], torch.arange(n)
    mask = (j <= i) if window is None else (j <= i) & (i - j <= window)
    z = rms_norm(x, params["gamma_1"])
    Q = rotate(rms_norm(split_heads(z @ params["W_Q"], n_heads), params["gamma_q"]), positions)
    K = rotate(rms_norm(split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"]), positions)
    V = split_heads(z @ params["W_V"], n_kv_heads)
    K, V = (t.repeat_interleave(n_heads // n_kv_heads, dim=1) for t in (K, V))
    A = masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + merge_heads(A @ V) @ params["W_O"]
    return y + swiglu(rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_b_norm_behind_the_attention(x, params, n_heads, n_kv_heads, positions, window=None):
    """gamma_1's norm is taken of the attention's result and not of the tokens that go into it."""
    n, r, p = x.shape[1], n_heads // n_kv_heads, params
    Q = rotate(rms_norm(split_heads(x @ p["W_Q"], n_heads), p["gamma_q"]), positions)
    K = rotate(rms_norm(split_heads(x @ p["W_K"], n_kv_heads), p["gamma_k"]), positions)
    V = split_heads(x @ p["W_V"], n_kv_heads)
    mask = sliding_window_mask(n, n, window or n)
    A = masked_softmax(Q @ K.repeat_interleave(r, dim=1).mT / math.sqrt(Q.shape[-1]), mask)
    y = x + rms_norm(merge_heads(A @ V.repeat_interleave(r, dim=1)) @ p["W_O"], p["gamma_1"])
    return y + swiglu(rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__right_b_named_axes(x, params, n_heads, n_kv_heads, positions, window=None):
    """Everything by einsum with the axes g and r, the mask as numbers that are added."""
    p, n, g = params, x.shape[1], n_kv_heads
    z = rms_norm(x, p["gamma_1"])
    q = torch.einsum("bim,mgrd->bgrid", z, p["W_Q"].unflatten(1, (g, n_heads // g, -1)))
    k, v = (torch.einsum("bjm,mgd->bgjd", z, p[name].unflatten(1, (g, -1))) for name in ("W_K", "W_V"))
    q, k = rotate(rms_norm(q, p["gamma_q"]), positions), rotate(rms_norm(k, p["gamma_k"]), positions)
    back = torch.arange(n)[:, None] - torch.arange(n)
    hidden = (back < 0) | (back >= (n if window is None else window))
    added = torch.zeros(n, n, dtype=x.dtype).masked_fill(hidden, -torch.inf)
    a = (torch.einsum("bgrid,bgjd->bgrij", q, k) * q.shape[-1] ** -0.5 + added).softmax(dim=-1)
    heads = torch.einsum("bgrij,bgjd,grdm->bim", a, v, p["W_O"].unflatten(0, (g, n_heads // g, -1)))
    y = x + heads
    return torch.add(swiglu(rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"]), y)


# ================================================================ sink_attention


def sink_attention__wrong_b_sink_without_exp(Q, K, V, sink, mask=None):
    """The sink itself is added to the denominator and not exp(sink)."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    top = scores.amax(dim=-1, keepdim=True).clamp(min=0)
    e = torch.exp(scores - top)
    return e @ V / (e.sum(dim=-1, keepdim=True) + sink[:, None, None] * torch.exp(-top))


def sink_attention__wrong_b_first_sink_for_all(Q, K, V, sink, mask=None):
    """All heads get the sink of the first one."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    column = torch.ones_like(scores[..., :1]) * sink[0]
    w = torch.cat([column, scores], dim=-1).softmax(dim=-1)
    return torch.einsum("bhij,bhjd->bhid", w[..., 1:], V)


def sink_attention__wrong_b_weights_filled_up_again(Q, K, V, sink, mask=None):
    """Without the sink's column the weights are normed to sum 1 again, which takes back all that the sink does."""
    B, h, n, _ = Q.shape
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    with_sink = torch.cat([scores, sink.view(h, 1, 1).expand(B, h, n, 1)], dim=-1)
    weights = torch.softmax(with_sink, dim=-1)[..., :-1]
    total = weights.sum(dim=-1, keepdim=True)
    return weights / total.clamp(min=torch.finfo(total.dtype).tiny) @ V


def sink_attention__wrong_b_exponentials_without_maximum(Q, K, V, sink, mask=None):
    """The exponentials are taken without subtracting a maximum, so large scores overflow to NaN."""
    e = torch.exp(Q @ K.mT / math.sqrt(Q.shape[-1]))
    if mask is not None:
        e = torch.where(mask, e, 0.0)
    denominator = e.sum(dim=-1, keepdim=True) + torch.exp(sink).view(1, -1, 1, 1)
    return (e / denominator) @ V


def sink_attention__wrong_b_sink_masked_out(Q, K, V, sink, mask=None):
    """A mask is extended by False for the sink's column, so with a mask the sink does nothing."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    column = sink.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
    scores = torch.cat([scores, column], dim=-1)
    if mask is not None:
        mask = F.pad(mask, (0, 1), value=False)
    return masked_softmax(scores, mask)[..., :-1] @ V


def sink_attention__right_b_gate_on_plain_attention(Q, K, V, sink, mask=None):
    """Plain attention times the share of the keys in the denominator, a sigmoid of logsumexp minus sink."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    lowest = torch.finfo(scores.dtype).min
    held = scores if mask is None else scores.masked_fill(~mask, lowest)
    share = torch.sigmoid(held.logsumexp(dim=-1) - sink[:, None])
    return share.unsqueeze(-1) * (masked_softmax(scores, mask) @ V)


# ================================================================ linear_attention


def linear_attention__wrong_b_scaled_like_softmax(Q, K, V, decay=None, state=None):
    """The outputs are divided by the root of d_k: this attention has no scale."""
    n = Q.shape[2]
    S = torch.zeros_like(K[:, :, 0, :, None] * V[:, :, 0, None, :]) if state is None else state
    outs = []
    for t in range(n):
        if decay is not None:
            S = S * decay[:, :, t].unsqueeze(-1).unsqueeze(-1)
        S = S + torch.einsum("bhk,bhv->bhkv", K[:, :, t], V[:, :, t])
        outs.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S) / Q.shape[-1] ** 0.5)
    return torch.stack(outs, dim=2), S


def linear_attention__wrong_b_quotients_of_products(Q, K, V, decay=None, state=None):
    """The fading is a quotient of cumulative products; over many tokens these underflow to 0, and 0/0 is NaN."""
    n = Q.shape[2]
    P = torch.ones_like(Q[..., 0]) if decay is None else decay.cumprod(dim=-1)
    D = (P[..., :, None] / P[..., None, :]).tril()
    out = (Q @ K.mT * D) @ V
    S = (K * (P[..., n - 1 :] / P)[..., None]).mT @ V
    if state is not None:
        out = out + P[..., None] * (Q @ state)
        S = S + P[..., -1, None, None] * state
    return out, S


def linear_attention__wrong_b_handed_in_state_grows(Q, K, V, decay=None, state=None):
    """The state that was handed in is updated in place, so the caller's state changes."""
    if state is None:
        state = Q.new_zeros(Q.shape[0], Q.shape[1], Q.shape[3], V.shape[3])
    out = torch.empty_like(V)
    for t in range(Q.shape[2]):
        if decay is not None:
            state *= decay[:, :, t, None, None]
        state += K[:, :, t, :, None] * V[:, :, t, None, :]
        out[:, :, t] = (Q[:, :, t, None, :] @ state).squeeze(2)
    return out, state


def linear_attention__wrong_b_old_state_never_fades(Q, K, V, decay=None, state=None):
    """The part of what is read that comes from the old state does not fade with the decays of the new tokens."""
    B, h, n, _ = Q.shape
    logs = Q.new_zeros(B, h, n) if decay is None else decay.log().cumsum(dim=2)
    gap = logs[:, :, :, None] - logs[:, :, None, :]
    keep = torch.ones(n, n, dtype=torch.bool).tril()
    A = torch.einsum("bhik,bhjk->bhij", Q, K) * gap.masked_fill(~keep, -torch.inf).exp()
    out = A @ V
    S = torch.einsum("bhj,bhjk,bhjv->bhkv", (logs[:, :, -1:] - logs).exp(), K, V)
    if state is not None:
        out = out + Q @ state
        S = S + logs[:, :, -1].exp()[:, :, None, None] * state
    return out, S


def linear_attention__wrong_b_out_in_default_dtype(Q, K, V, decay=None, state=None):
    """out is a torch.zeros of the default dtype, so float64 comes out as float32."""
    B, h, n, d_k = Q.shape
    d_v = V.shape[-1]
    S = torch.zeros(B, h, d_k, d_v, dtype=Q.dtype) if state is None else state.clone()
    out = torch.zeros(B, h, n, d_v)
    for t in range(n):
        k, v = K[:, :, t], V[:, :, t]
        S = (S if decay is None else decay[:, :, t].view(B, h, 1, 1) * S) + k.view(B, h, d_k, 1) * v.view(B, h, 1, d_v)
        out[:, :, t] = (Q[:, :, t].view(B, h, 1, d_k) @ S).view(B, h, d_v)
    return out, S


def linear_attention__right_b_five_tokens_at_once(Q, K, V, decay=None, state=None):
    """Chunks of five tokens: inside by weights, between them by the state."""
    B, h, n, d_k = Q.shape
    S = Q.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    decay = torch.ones_like(Q[..., 0]) if decay is None else decay
    pieces = []
    for q, k, v, a in zip(*(x.split(5, dim=2) for x in (Q, K, V, decay)), strict=True):
        c = a.log().cumsum(dim=2)
        size = c.shape[2]
        D = (c[..., None] - c[:, :, None]).masked_fill(torch.ones(size, size).triu(1).bool(), -torch.inf).exp()
        pieces.append((q @ k.mT * D) @ v + c.exp()[..., None] * q @ S)
        S = c[:, :, -1, None, None].exp() * S + (k * D[:, :, -1, :, None]).mT @ v
    return torch.cat(pieces, dim=2), S


# ================================================================ latent_step


def latent_step__wrong_b_values_are_built(x, cache, params, n_heads):
    """The scores come from the latents, but the values C W_UV of all tokens are built before they are averaged."""
    p, h = params, n_heads
    C = torch.cat((cache, x @ p["W_DKV"]), dim=1)
    q = torch.einsum("bhd,lhd->bhl", (x @ p["W_Q"]).unflatten(2, (h, -1))[:, 0], p["W_UK"].unflatten(1, (h, -1)))
    w = torch.softmax(q @ C.mT / math.sqrt(p["W_UK"].shape[1] // h), dim=-1)
    V = (C @ p["W_UV"]).unflatten(-1, (h, -1))
    return torch.einsum("bht,bthv->bhv", w, V).reshape(len(x), 1, -1) @ p["W_O"], C


def latent_step__wrong_b_heads_in_every_hth_column(x, cache, params, n_heads):
    """In W_UK a head is taken to be every h-th column, not a block of columns as in the queries."""
    d_latent = cache.shape[2]
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).view(x.shape[0], n_heads, -1)
    W_UK = params["W_UK"].reshape(d_latent, -1, n_heads)
    q = torch.einsum("bhd,ldh->bhl", q, W_UK)
    w = torch.softmax(torch.einsum("bhl,btl->bht", q, C) / math.sqrt(W_UK.shape[1]), dim=2)
    ctx = torch.einsum("bht,btl->bhl", w, C)
    heads = torch.einsum("bhl,lhv->bhv", ctx, params["W_UV"].reshape(d_latent, n_heads, -1))
    return heads.reshape(x.shape[0], 1, -1) @ params["W_O"], C


def latent_step__wrong_b_values_as_wide_as_keys(x, cache, params, n_heads):
    """W_UV is cut into heads of width d_head; its heads have the width d_v, which need not be the same."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    B, T, L = C.shape
    d = params["W_Q"].shape[1] // n_heads
    q = (x @ params["W_Q"]).view(B, n_heads, d)
    q = torch.einsum("bhd,lhd->bhl", q, params["W_UK"].view(L, n_heads, d))
    w = torch.softmax(torch.bmm(q, C.mT) / math.sqrt(d), dim=-1)
    heads = torch.einsum("bhl,lhv->bhv", torch.bmm(w, C), params["W_UV"].view(L, n_heads, d))
    return heads.view(B, 1, n_heads * d) @ params["W_O"], C


def latent_step__wrong_b_new_latent_detached(x, cache, params, n_heads):
    """The new latent is detached before it joins the cache, so no gradient reaches W_DKV."""
    with torch.no_grad():
        c = x @ params["W_DKV"]
    C = torch.cat([cache, c], dim=1)
    q = (x @ params["W_Q"]).unflatten(2, (n_heads, -1))[:, 0]
    q_lat = torch.einsum("bhd,lhd->bhl", q, params["W_UK"].unflatten(1, (n_heads, -1)))
    w = torch.softmax(q_lat @ C.mT / math.sqrt(q.shape[-1]), dim=-1)
    heads = torch.einsum("bhl,lhv->bhv", w @ C, params["W_UV"].unflatten(1, (n_heads, -1)))
    return heads.flatten(1)[:, None] @ params["W_O"], C


def latent_step__wrong_b_first_text_for_all(x, cache, params, n_heads):
    """All queries of a batch look at the latents of the first text: the others' latents are not read."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).unflatten(2, (n_heads, -1))[:, 0]
    q_lat = torch.einsum("bhd,lhd->bhl", q, params["W_UK"].unflatten(1, (n_heads, -1)))
    latents = C[0]
    w = torch.softmax(q_lat @ latents.T / math.sqrt(q.shape[-1]), dim=-1)
    heads = torch.einsum("bhl,lhv->bhv", w @ latents, params["W_UV"].unflatten(1, (n_heads, -1)))
    return heads.reshape(-1, 1, params["W_UV"].shape[1]) @ params["W_O"], C


def latent_step__right_b_old_and_new_latents_apart(x, cache, params, n_heads):
    """The heads in a queue; old latents and the new one are scored apart and meet in the softmax."""
    new = x @ params["W_DKV"]
    W_UK, W_UV = (split_heads(params[k].unsqueeze(0), n_heads) for k in ("W_UK", "W_UV"))
    q = split_heads(x @ params["W_Q"], n_heads)
    q = (q / math.sqrt(q.shape[-1]) @ W_UK.mT).flatten(1, 2)  # (B, h, d_latent)
    w = torch.cat([q @ cache.mT, q @ new.mT], dim=-1).softmax(dim=-1)
    mixed = w[..., :-1] @ cache + w[..., -1:] * new
    heads = mixed.unsqueeze(2) @ W_UV  # (B, h, 1, d_v)
    return merge_heads(heads) @ params["W_O"], torch.cat([cache, new], dim=1)


# ================================================================ delta_rule


def delta_rule__wrong_b_beta_of_the_other_token(Q, K, V, beta, state=None):
    """In the system beta stands at the columns, so token i takes off earlier ones with their beta_j and not its own."""
    B, h, n, d = K.shape
    eye = torch.eye(n, dtype=K.dtype)
    A = eye + (K @ K.mT * beta[:, :, None, :]).tril(-1)
    R = V if state is None else V - K @ state
    U = torch.linalg.solve_triangular(A, beta[..., None] * R, upper=False)
    out = (Q @ K.mT).tril() @ U
    S = K.mT @ U
    return (out, S) if state is None else (out + Q @ state, S + state)


def delta_rule__wrong_b_sign_of_the_correction(Q, K, V, beta, state=None):
    """The system is I - A and not I + A, so what earlier tokens wrote is added again and not taken off."""
    n = K.shape[2]
    A = beta[..., None] * torch.tril(K @ K.mT, diagonal=-1)
    start = K.new_zeros(*K.shape[:2], K.shape[3], V.shape[3]) if state is None else state
    right_side = beta[..., None] * (V - K @ start)
    U = torch.linalg.solve(torch.eye(n, dtype=K.dtype) - A, right_side)
    return Q @ start + torch.tril(Q @ K.mT) @ U, start + K.mT @ U


def delta_rule__wrong_b_seven_powers_only(Q, K, V, beta, state=None):
    """The inverse is a sum of the powers 0 to 7 of A, which is complete for eight tokens; longer texts need more."""
    B, h, n, d_k = K.shape
    S = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    A = -beta.unsqueeze(-1) * (K @ K.mT).tril(-1)
    inverse = torch.eye(n, dtype=K.dtype).expand(B, h, n, n)
    power = A
    for _ in range(3):
        inverse = inverse + power @ inverse
        power = power @ power
    U = inverse @ (beta.unsqueeze(-1) * (V - K @ S))
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_b_chunks_forget_the_state(Q, K, V, beta, state=None):
    """In chunks of 16, but each begins with the state that was handed in and not with that behind the chunk before."""
    B, h, n, d_k = K.shape
    start = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    outs, S = [], start
    for c in range(0, n, 16):
        q, k, v, b = (x[:, :, c : c + 16] for x in (Q, K, V, beta))
        T = torch.eye(k.shape[2], dtype=K.dtype) + (b[..., None] * (k @ k.mT)).tril(-1)
        u = torch.linalg.solve_triangular(T, b[..., None] * (v - k @ start), upper=False)
        outs.append(q @ start + (q @ k.mT).tril() @ u)
        S = start + k.mT @ u
    return torch.cat(outs, dim=2), S


def delta_rule__wrong_b_state_collected_in_place(Q, K, V, beta, state=None):
    """In chunks of 32 the state is added up in place, so the state that was handed in is changed."""
    if state is None:
        state = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1])
    S, outs = state, []
    for q, k, v, b in zip(*(x.split(32, dim=2) for x in (Q, K, V, beta)), strict=True):
        T = torch.eye(k.shape[2], dtype=k.dtype) + b[..., None] * (k @ k.mT).tril(-1)
        u = torch.linalg.solve_triangular(T, b[..., None] * (v - k @ S), upper=False)
        outs.append(q @ S + (q @ k.mT).tril() @ u)
        S += k.mT @ u
    return torch.cat(outs, dim=2), S


def delta_rule__right_b_halves_of_halves(Q, K, V, beta, state=None):
    """A text is handed on in two halves until a piece has at most 32 tokens; those are solved at once."""

    def piece(q, k, v, b, S):
        n = k.shape[2]
        if n > 32:
            first, S = piece(*(x[:, :, : n // 2] for x in (q, k, v, b)), S)
            second, S = piece(*(x[:, :, n // 2 :] for x in (q, k, v, b)), S)
            return torch.cat([first, second], dim=2), S
        system = (b.unsqueeze(-1) * (k @ k.mT)).tril(-1)
        u = torch.linalg.solve_triangular(system, b.unsqueeze(-1) * (v - k @ S), upper=False, unitriangular=True)
        return q @ S + (q @ k.mT).tril() @ u, S + k.mT @ u

    B, h, _, d_k = K.shape
    return piece(Q, K, V, beta, V.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state)
