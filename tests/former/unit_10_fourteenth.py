"""Answers to the exercises of unit 10, wrong ones and right ones, as students would write them."""

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
    half = x.shape[-1] // 2
    speeds = base ** (-2.0 * torch.arange(half, dtype=torch.float64) / x.shape[-1])
    angles = positions.double()[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def _rms_norm(x, gamma, eps=1e-6):
    return gamma * x / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps)


def _swiglu(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def _sliding_window_mask(n_new, n_total, window):
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)[None, :]
    return (j <= i) & (j > i - window)


# ------- 10.1 rotate


def rotate__wrong_fourteenth_adds_the_sines(x, positions, base=10000.0):
    """Adds sines and cosines of the angles to x, as in 2017; due is to turn the pairs of columns of x."""
    d = x.shape[-1]
    frequencies = 1.0 / base ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = torch.outer(positions.double(), frequencies)
    encoding = torch.cat([angles.sin(), angles.cos()], dim=-1)
    return x + encoding.to(x.dtype)


def rotate__wrong_fourteenth_angles_of_neighbours(x, positions, base=10000.0):
    """Pairs are halves, but the table gives neighbouring columns one angle; due is one angle for p and p + d/2."""
    d = x.shape[-1]
    p = torch.arange(d // 2, dtype=torch.float64)
    theta = positions.double().unsqueeze(-1) * torch.pow(torch.tensor(base, dtype=torch.float64), -2 * p / d)
    theta = theta.repeat_interleave(2, dim=-1)
    first, second = x.chunk(2, dim=-1)
    quarter_turn = torch.cat((-second, first), dim=-1)
    return x * theta.cos().to(x.dtype) + quarter_turn * theta.sin().to(x.dtype)


def rotate__wrong_fourteenth_starts_at_first_row(x, positions, base=10000.0):
    """Counts positions from that of the first row, as only distances matter; due is to turn by the position itself."""
    relative = (positions - positions[0]).to(torch.float64)  # a score knows the distance only
    n_pairs = x.shape[-1] // 2
    speeds = torch.tensor([base ** (-2 * p / x.shape[-1]) for p in range(n_pairs)], dtype=torch.float64)
    angles = torch.einsum("n,p->np", relative, speeds)
    c, s = torch.cos(angles).to(x.dtype), torch.sin(angles).to(x.dtype)
    left, right = x[..., :n_pairs], x[..., n_pairs:]
    return torch.cat([left * c - right * s, right * c + left * s], -1)


def rotate__wrong_fourteenth_reads_what_is_turned(x, positions, base=10000.0):
    """The second half is made from the first half that is turned already; due is the first half of x."""
    d = x.shape[-1]
    half = d // 2
    exponents = -2 * torch.arange(half, dtype=torch.float64) / d
    angles = positions.to(torch.float64)[:, None] * base**exponents
    cos = angles.cos().to(x.dtype)
    sin = angles.sin().to(x.dtype)
    y = x.clone()
    y[..., :half] = y[..., :half] * cos - y[..., half:] * sin
    y[..., half:] = y[..., half:] * cos + y[..., :half] * sin
    return y


def rotate__wrong_fourteenth_exponents_run_to_one(x, positions, base=10000.0):
    """linspace brings the exponents up to 1 at the last pair; due is to stop at 1 - 2/d."""
    x1, x2 = torch.tensor_split(x, 2, dim=-1)
    steps = torch.linspace(0, 1, x1.shape[-1], dtype=torch.float64)
    angle = positions.double().view(-1, 1) / base**steps
    turn = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat([x1 * turn[0] - x2 * turn[1], x1 * turn[1] + x2 * turn[0]], dim=-1)


def rotate__wrong_fourteenth_pairs_counted_from_one(x, positions, base=10000.0):
    """Reads p as 1 to d/2, so that the first pair has the speed base**(-2/d); due is p from 0, the first speed 1."""
    d = x.shape[-1]
    out_first, out_second = [], []
    for p in range(1, d // 2 + 1):
        theta = positions.double() * base ** (-2 * p / d)
        c, s = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
        u, w = x[..., p - 1], x[..., p - 1 + d // 2]
        out_first.append(u * c - w * s)
        out_second.append(w * c + u * s)
    return torch.stack(out_first + out_second, dim=-1)


def rotate__wrong_fourteenth_table_of_whole_places(x, positions, base=10000.0):
    """Looks the angles up in a table of whole positions, so 2.5 becomes 2; due is that positions may be fractions."""
    half = x.shape[-1] // 2
    places = torch.arange(int(positions.max()) + 1, dtype=torch.float64)
    table = places[:, None] * (base ** (-torch.arange(half, dtype=torch.float64) / half))[None, :]
    angles = table[positions.long()]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x[..., :half], x[..., half:]
    return torch.cat([even * cos - odd * sin, odd * cos + even * sin], dim=-1)


def rotate__wrong_fourteenth_float64_comes_out(x, positions, base=10000.0):
    """Cosine and sine stay in float64, and float32 comes out as float64; due is the dtype of x."""
    d = x.shape[-1]
    inverse = base ** (-torch.arange(0, d, 2).double() / d)
    angles = positions[:, None].double() @ inverse[None, :]
    a, b = x.split(d // 2, dim=-1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1)


def rotate__right_fourteenth_by_complex_numbers(x, positions, base=10000.0):
    """Each pair is one complex number, which is multiplied by exp(i angle)."""
    half = x.shape[-1] // 2
    p = torch.arange(half, dtype=torch.float64)
    angles = positions.to(torch.float64)[:, None] * torch.exp(-p / half * math.log(base))
    z = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous())
    phase = torch.polar(torch.ones_like(angles), angles).to(z.dtype)
    z = z * phase
    return torch.cat([z.real, z.imag], dim=-1)


# ------- 10.2 rms_norm


def rms_norm__wrong_fourteenth_mean_of_the_roots(x, gamma, eps=1e-6):
    """Takes the root first and the mean afterwards, a mean of sizes; due is the root of the mean of the squares."""
    sizes = torch.sqrt(x**2 + eps)
    return gamma * x / sizes.mean(dim=-1, keepdim=True)


def rms_norm__wrong_fourteenth_mean_over_tokens(x, gamma, eps=1e-6):
    """Norms each column over all tokens, like batch norm; due is each token over its own columns."""
    rows = x.reshape(-1, x.shape[-1])
    mean_square = (rows * rows).mean(dim=0)
    normed = x * torch.rsqrt(mean_square + eps)
    return normed * gamma


def rms_norm__wrong_fourteenth_eps_as_a_floor(x, gamma, eps=1e-6):
    """Takes eps for the least mean square that is allowed; due is to add it always."""
    ms = x.square().mean(-1, keepdim=True)
    ms = ms.clamp(min=eps)  # never divide by zero
    return x / ms.sqrt() * gamma


def rms_norm__wrong_fourteenth_bracket_before_eps(x, gamma, eps=1e-6):
    """The bracket shuts too early: eps is added to 1/root; due is to add it to the mean square under the root."""
    ms = torch.mean(x * x, dim=-1, keepdim=True)
    return gamma * (x * (torch.rsqrt(ms) + eps))


def rms_norm__wrong_fourteenth_divides_by_one_less(x, gamma, eps=1e-6):
    """The sum of squares is divided by d - 1, as for a sample variance; due is the mean, over d."""
    d = x.shape[-1]
    total = torch.einsum("...d,...d->...", x, x)
    root = (total / (d - 1) + eps) ** 0.5
    return gamma * x / root[..., None]


def rms_norm__wrong_fourteenth_eps_in_the_sum(x, gamma, eps=1e-6):
    """Reads that eps is added to the sum of squares, before the division by d; due is to the mean square."""
    width = x.size(-1)
    sum_of_squares = x.pow(2).sum(dim=-1, keepdim=True)
    rms = ((sum_of_squares + eps) / width).sqrt()
    return torch.div(x, rms).mul(gamma)


def rms_norm__wrong_fourteenth_three_axes_taken(x, gamma, eps=1e-6):
    """Takes it that x is (B, n, d) and averages over all behind n; due is the last axis alone, also of four axes."""
    B, n = x.shape[0], x.shape[1]
    per_token = x.reshape(B, n, -1)
    ms = per_token.square().mean(dim=2)
    scale = 1 / torch.sqrt(ms + eps)
    scale = scale.reshape(B, n, *[1] * (x.dim() - 2))
    return gamma * (x * scale)


def rms_norm__wrong_fourteenth_scale_without_gradient(x, gamma, eps=1e-6):
    """Treats the root as a constant, so that no gradient flows through it; due are gradients all the way."""
    with torch.no_grad():
        scale = (x.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    return gamma * (scale * x)


def rms_norm__right_fourteenth_as_a_longer_vector(x, gamma, eps=1e-6):
    """The root is the length of x / sqrt(d) with one more entry, the root of eps."""
    shrunk = x / math.sqrt(x.shape[-1])
    extra = x.new_full((*x.shape[:-1], 1), math.sqrt(eps))
    length = torch.linalg.vector_norm(torch.cat([shrunk, extra], dim=-1), dim=-1, keepdim=True)
    return x / length * gamma


# ------- 10.3 swiglu


def swiglu__wrong_fourteenth_gate_open_or_shut(x, W_gate, W_up, W_down):
    """The gate lets up through where it is positive and nothing elsewhere; due is silu of the gate as the factor."""
    gate = x @ W_gate
    up = x @ W_up
    opened = torch.where(gate > 0, up, torch.zeros_like(up))
    return opened @ W_down


def swiglu__wrong_fourteenth_sigmoid_of_1702(x, W_gate, W_up, W_down):
    """Takes the gate of gpt-oss, z sigmoid(1.702 z), for silu; due is z sigmoid(z)."""

    def act(z):
        return z * torch.sigmoid(1.702 * z)

    return (act(x @ W_gate) * (x @ W_up)) @ W_down


def swiglu__wrong_fourteenth_one_gate_per_token(x, W_gate, W_up, W_down):
    """The gate is averaged to one number per token, which opens or shuts all of it; due is a gate per entry."""
    how_open = F.silu(torch.matmul(x, W_gate)).mean(dim=-1, keepdim=True)
    brought = torch.matmul(x, W_up)
    return torch.matmul(how_open * brought, W_down)


def swiglu__wrong_fourteenth_sigmoid_of_up(x, W_gate, W_up, W_down):
    """A wrong variable: the sigmoid gets up; due is the gate times its own sigmoid."""
    g, u = x @ W_gate, x @ W_up
    silu = g * torch.sigmoid(u)
    hidden = silu * u
    return hidden @ W_down


def swiglu__wrong_fourteenth_minus_in_exp_lost(x, W_gate, W_up, W_down):
    """The minus in the exponential is missing, which gives z sigmoid(-z); due is z / (1 + exp(-z))."""
    z = torch.einsum("...d,df->...f", x, W_gate)
    gated = z / (1 + torch.exp(z)) * torch.einsum("...d,df->...f", x, W_up)
    return torch.einsum("...f,fd->...d", gated, W_down)


def swiglu__wrong_fourteenth_silu_before_w_gate(x, W_gate, W_up, W_down):
    """Reads silu(x) W_gate; due is silu of the product x W_gate."""
    return ((F.silu(x) @ W_gate) * (x @ W_up)) @ W_down


def swiglu__wrong_fourteenth_overflow_of_large_gates(x, W_gate, W_up, W_down):
    """Writes the sigmoid as exp(z) / (1 + exp(z)), NaN for large z; due is a number for large inputs, too."""
    gate = x @ W_gate
    e = gate.exp()
    sigmoid = e / (1 + e)
    return (gate * sigmoid * (x @ W_up)) @ W_down


def swiglu__wrong_fourteenth_default_dtype_comes_out(x, W_gate, W_up, W_down):
    """Fills a tensor of the default dtype, so float64 comes out as float32; due is the dtype of x."""
    d = x.shape[-1]
    rows = x.reshape(-1, d)
    out = torch.zeros(rows.shape)
    for r in range(rows.shape[0]):
        hidden = F.silu(rows[r] @ W_gate) * (rows[r] @ W_up)
        out[r] = hidden @ W_down
    return out.reshape(x.shape)


def swiglu__right_fourteenth_unit_after_unit(x, W_gate, W_up, W_down):
    """Each hidden unit adds its row of W_down; silu is written with tanh."""
    out = torch.zeros_like(x)
    for gate_column, up_column, down_row in zip(W_gate.unbind(1), W_up.unbind(1), W_down.unbind(0), strict=True):
        z = (x * gate_column).sum(dim=-1, keepdim=True)
        strength = 0.5 * z * (1 + torch.tanh(0.5 * z)) * (x * up_column).sum(dim=-1, keepdim=True)
        out = out + strength * down_row
    return out


# ------- 10.4 sliding_window_mask


def sliding_window_mask__wrong_fourteenth_window_to_both_sides(n_new, n_total, window):
    """The window reaches to both sides of the token, later ones too; due is itself and those before it."""
    here = torch.arange(n_total - n_new, n_total).unsqueeze(1)
    distance = (here - torch.arange(n_total)).abs()
    return distance < window


def sliding_window_mask__wrong_fourteenth_blocks_that_stand(n_new, n_total, window):
    """The text is cut into blocks of `window`, and one sees its block so far; due is a window that moves along."""
    i = torch.arange(n_total)[-n_new:, None] if n_new else torch.zeros(0, 1, dtype=torch.long)
    j = torch.arange(n_total)[None]
    same_block = torch.div(i, window, rounding_mode="floor") == torch.div(j, window, rounding_mode="floor")
    return same_block & (j <= i)


def sliding_window_mask__wrong_fourteenth_window_of_newest_token(n_new, n_total, window):
    """All rows share the last `window` columns, as if the cache were cut once; due is each row's own window."""
    columns = torch.arange(n_total)
    kept = columns >= n_total - window
    causal = torch.ones(n_new, n_total, dtype=torch.bool).tril(diagonal=n_total - n_new)
    return causal & kept


def sliding_window_mask__wrong_fourteenth_one_place_too_early(n_new, n_total, window):
    """Rows stand one place too early, at n_total - n_new - 1 + r; due is n_total - n_new + r."""
    mask = torch.zeros(n_new, n_total, dtype=torch.bool)
    for r in range(n_new):
        i = n_total - n_new - 1 + r
        for j in range(n_total):
            mask[r, j] = i - window < j <= i
    return mask


def sliding_window_mask__wrong_fourteenth_triu_lacks_offset(n_new, n_total, window):
    """The upper edge knows of the cache and the lower edge does not; due is the offset in both diagonals."""
    offset = n_total - n_new
    ones = torch.ones(n_new, n_total, dtype=torch.bool)
    return torch.tril(ones, diagonal=offset) & torch.triu(ones, diagonal=1 - window)


def sliding_window_mask__wrong_fourteenth_itself_and_w_before(n_new, n_total, window):
    """Reads the window as itself and `window` tokens before it; due is `window` tokens with itself."""
    positions = torch.arange(n_total)
    queries = positions[n_total - n_new :]
    ago = queries[:, None] - positions[None, :]
    return torch.logical_and(ago >= 0, ago <= window)


def sliding_window_mask__wrong_fourteenth_slice_starts_below_zero(n_new, n_total, window):
    """A window that begins before the text gives a negative start, counted from the end; due is to start at 0."""
    mask = torch.zeros((n_new, n_total), dtype=torch.bool)
    for r in range(n_new):
        i = n_total - n_new + r
        mask[r, i - window + 1 : i + 1] = True
    return mask


def sliding_window_mask__wrong_fourteenth_ones_and_zeros(n_new, n_total, window):
    """Gives numbers, 1.0 and 0.0, in the right places; due are booleans."""
    past = n_total - n_new
    band = torch.ones(n_new, n_total).tril(past)
    return band - band.tril(past - window)


def sliding_window_mask__right_fourteenth_shifts_of_one_line(n_new, n_total, window):
    """All rows are pieces of one line of booleans, which is shifted by one from row to row."""
    distance = n_total - 1 - torch.arange(n_total + n_new)
    line = (distance >= 0) & (distance < window)
    starts = torch.arange(n_new - 1, -1, -1)
    return line[starts[:, None] + torch.arange(n_total)]


# ------- 10.5 modern_block


def modern_block__wrong_fourteenth_qk_norm_over_all_heads(x, params, n_heads, n_kv_heads, positions, window=None):
    """Norms queries and keys over all heads together, before the split; due is each head over d_head."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    q = _rms_norm(z @ params["W_Q"], params["gamma_q"].repeat(n_heads))
    k = _rms_norm(z @ params["W_K"], params["gamma_k"].repeat(n_kv_heads))
    Q = _rotate(_split_heads(q, n_heads), positions)
    K = _rotate(_split_heads(k, n_kv_heads), positions)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    group = n_heads // n_kv_heads
    K, V = K.repeat_interleave(group, dim=1), V.repeat_interleave(group, dim=1)
    mask = _sliding_window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + _merge_heads(A @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_fourteenth_norms_behind_the_sums(x, params, n_heads, n_kv_heads, positions, window=None):
    """Norms behind each sum, as the block of 2017; due is to norm what goes into attention and feed-forward."""
    p = params
    B, n, _ = x.shape

    def attention(z):
        Q = _rms_norm((z @ p["W_Q"]).view(B, n, n_heads, -1), p["gamma_q"]).transpose(1, 2)
        K = _rms_norm((z @ p["W_K"]).view(B, n, n_kv_heads, -1), p["gamma_k"]).transpose(1, 2)
        V = (z @ p["W_V"]).view(B, n, n_kv_heads, -1).transpose(1, 2)
        Q, K = _rotate(Q, positions), _rotate(K, positions)
        K = K.repeat_interleave(n_heads // n_kv_heads, 1)
        V = V.repeat_interleave(n_heads // n_kv_heads, 1)
        scores = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
        weights = _masked_softmax(scores, _sliding_window_mask(n, n, window or n))
        return (weights @ V).transpose(1, 2).reshape(B, n, -1) @ p["W_O"]

    y = _rms_norm(x + attention(x), p["gamma_1"])
    return _rms_norm(y + _swiglu(y, p["W_gate"], p["W_up"], p["W_down"]), p["gamma_2"])


def modern_block__wrong_fourteenth_window_in_positions(x, params, n_heads, n_kv_heads, positions, window=None):
    """Measures the window by the distance of positions; due is by rows, positions serve the rotation alone."""
    rows = torch.arange(x.shape[1])
    allowed = rows[None, :] <= rows[:, None]
    if window is not None:
        allowed = allowed & (positions[:, None] - positions[None, :] < window)
    z = _rms_norm(x, params["gamma_1"])
    Q, K, V = (_split_heads(z @ params[f"W_{c}"], n_kv_heads if c != "Q" else n_heads) for c in "QKV")
    Q = _rotate(_rms_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, params["gamma_k"]), positions)
    # queries as (B, g, h/g, n, d_head): neighbours share
    Q = Q.unflatten(1, (n_kv_heads, -1))
    scores = torch.einsum("bgrid,bgjd->bgrij", Q, K) / math.sqrt(K.shape[-1])
    heads = torch.einsum("bgrij,bgjd->bgrid", _masked_softmax(scores, allowed), V).flatten(1, 2)
    y = x + _merge_heads(heads) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_fourteenth_normed_x_is_added(x, params, n_heads, n_kv_heads, positions, window=None):
    """The name x is given to the normed x, which is then added in step 6; due is to add the x that came in."""
    x = _rms_norm(x, params["gamma_1"])
    q = _split_heads(x @ params["W_Q"], n_heads)
    k = _split_heads(x @ params["W_K"], n_kv_heads)
    v = _split_heads(x @ params["W_V"], n_kv_heads)
    q = _rotate(_rms_norm(q, params["gamma_q"]), positions)
    k = _rotate(_rms_norm(k, params["gamma_k"]), positions)
    share = n_heads // n_kv_heads
    k = k.repeat_interleave(share, dim=1)
    v = v.repeat_interleave(share, dim=1)
    n = x.shape[1]
    if window is None:
        mask = torch.ones(n, n, dtype=torch.bool).tril()
    else:
        mask = _sliding_window_mask(n, n, window)
    weights = _masked_softmax(q @ k.mT / math.sqrt(q.shape[-1]), mask)
    x = x + _merge_heads(weights @ v) @ params["W_O"]
    h = _rms_norm(x, params["gamma_2"])
    return x + _swiglu(h, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_fourteenth_merge_without_transpose(x, params, n_heads, n_kv_heads, positions, window=None):
    """The heads are put together by a reshape of (B, h, n, d) alone; due is to swap heads and tokens first."""
    W_Q, W_K, W_V, W_O = (params[name] for name in ("W_Q", "W_K", "W_V", "W_O"))
    B, n, _ = x.shape
    z = _rms_norm(x, params["gamma_1"])
    queries = _rotate(_rms_norm(_split_heads(z @ W_Q, n_heads), params["gamma_q"]), positions)
    keys = _rotate(_rms_norm(_split_heads(z @ W_K, n_kv_heads), params["gamma_k"]), positions)
    values = _split_heads(z @ W_V, n_kv_heads)
    owner = torch.arange(n_heads) // (n_heads // n_kv_heads)
    keys, values = keys[:, owner], values[:, owner]
    scores = torch.einsum("bhid,bhjd->bhij", queries, keys) * queries.shape[-1] ** -0.5
    mask = _sliding_window_mask(n, n, window if window is not None else n)
    heads = torch.einsum("bhij,bhjd->bhid", _masked_softmax(scores, mask), values)
    y = x + heads.reshape(B, n, -1) @ W_O
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_fourteenth_base_of_a_million(x, params, n_heads, n_kv_heads, positions, window=None):
    """Reads `as Qwen3 has it` as the base 1,000,000; due is the default base of rotate, 10,000."""
    z = _rms_norm(x, params["gamma_1"])
    n, group = x.size(1), n_heads // n_kv_heads

    def turned(W, gamma, heads):
        return _rotate(_rms_norm(_split_heads(z @ W, heads), gamma), positions, base=1_000_000.0)

    Q = turned(params["W_Q"], params["gamma_q"], n_heads)
    K = turned(params["W_K"], params["gamma_k"], n_kv_heads).repeat_interleave(group, dim=1)
    V = _split_heads(z @ params["W_V"], n_kv_heads).repeat_interleave(group, dim=1)
    mask = _sliding_window_mask(n, n, window or n)
    attended = _masked_softmax(Q @ K.mT / math.sqrt(K.size(-1)), mask) @ V
    y = x + _merge_heads(attended) @ params["W_O"]
    z2 = _rms_norm(y, params["gamma_2"])
    return y + _swiglu(z2, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_fourteenth_d_head_from_d_model(x, params, n_heads, n_kv_heads, positions, window=None):
    """Divides the scores by the root of d_model / h; due is that of d_head, which need not be d_model / h."""
    B, n, d_model = x.shape
    d_head = d_model / n_heads
    p = params
    z = _rms_norm(x, p["gamma_1"])
    Q = _rotate(_rms_norm(_split_heads(z @ p["W_Q"], n_heads), p["gamma_q"]), positions)
    K = _rotate(_rms_norm(_split_heads(z @ p["W_K"], n_kv_heads), p["gamma_k"]), positions)
    V = _split_heads(z @ p["W_V"], n_kv_heads)
    times = n_heads // n_kv_heads
    K = torch.stack([K] * times, dim=2).flatten(1, 2)
    V = torch.stack([V] * times, dim=2).flatten(1, 2)
    ago = torch.arange(n)[:, None] - torch.arange(n)
    mask = ago >= 0
    if window is not None:
        mask = mask & (ago < window)
    A = _masked_softmax(Q @ K.mT / math.sqrt(d_head), mask)
    y = x + _merge_heads(A @ V) @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_fourteenth_adds_into_x(x, params, n_heads, n_kv_heads, positions, window=None):
    """Adds both results into x itself, so that the input is changed; due is a new tensor."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    Q = _split_heads(z @ params["W_Q"], n_heads)
    K = _split_heads(z @ params["W_K"], n_kv_heads).repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = _split_heads(z @ params["W_V"], n_kv_heads).repeat_interleave(n_heads // n_kv_heads, dim=1)
    Q = _rotate(_rms_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, params["gamma_k"]), positions)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), _sliding_window_mask(n, n, window or n))
    x += _merge_heads(A @ V) @ params["W_O"]
    x += _swiglu(_rms_norm(x, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])
    return x


def modern_block__right_fourteenth_head_after_head(x, params, n_heads, n_kv_heads, positions, window=None):
    """Head after head with blocks of columns; each adds its part through its rows of W_O."""
    n = x.shape[1]
    d_head = params["W_Q"].shape[1] // n_heads
    z = _rms_norm(x, params["gamma_1"])
    ago = torch.arange(n)[:, None] - torch.arange(n)[None, :]
    hidden = (ago < 0) | (ago >= (window if window is not None else n))

    def block(a):
        return slice(a * d_head, (a + 1) * d_head)

    y = x
    for a in range(n_heads):
        c = a * n_kv_heads // n_heads
        q = _rotate(_rms_norm(z @ params["W_Q"][:, block(a)], params["gamma_q"]), positions)
        k = _rotate(_rms_norm(z @ params["W_K"][:, block(c)], params["gamma_k"]), positions)
        scores = torch.einsum("bid,bjd->bij", q, k) * d_head**-0.5
        scores = scores.masked_fill(hidden, -torch.inf)
        weights = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))
        y = y + weights @ (z @ (params["W_V"][:, block(c)] @ params["W_O"][block(a)]))
    z = _rms_norm(y, params["gamma_2"])
    gate = z @ params["W_gate"]
    return y + (gate * torch.sigmoid(gate) * (z @ params["W_up"])) @ params["W_down"]


# ------- 10.6 sink_attention


def sink_attention__wrong_fourteenth_first_key_is_the_sink(Q, K, V, sink, mask=None):
    """The first key becomes the sink: its score is replaced and its value dropped; due is one more place."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    is_first = torch.arange(K.shape[2]) == 0
    allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
    scores = torch.where(is_first, sink[:, None, None], scores)
    weights = _masked_softmax(scores, allowed | is_first)
    return weights[..., 1:] @ V[:, :, 1:]


def sink_attention__wrong_fourteenth_sink_as_threshold(Q, K, V, sink, mask=None):
    """Keys that score below the sink get no weight, the others an ordinary softmax; due is exp(sink) below the line."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5
    good_enough = scores >= sink.view(1, -1, 1, 1)
    if mask is not None:
        good_enough = good_enough & mask
    return _masked_softmax(scores, good_enough) @ V


def sink_attention__wrong_fourteenth_share_fixed_per_head(Q, K, V, sink, mask=None):
    """The sink takes the fixed share sigmoid(sink) of each row; due is a share that depends on the scores."""
    weights = _masked_softmax(Q @ K.transpose(2, 3) / math.sqrt(K.shape[-1]), mask)
    share_of_keys = 1 - torch.sigmoid(sink)
    weights = weights * share_of_keys[None, :, None, None]
    return weights @ V


def sink_attention__wrong_fourteenth_sink_not_shifted(Q, K, V, sink, mask=None):
    """The largest score is taken off the scores and not off the sink; due is exp(sink - largest) beside them."""
    d_k = Q.shape[-1]
    s = Q @ K.mT / d_k**0.5
    if mask is not None:
        s = s.masked_fill(~mask, torch.finfo(s.dtype).min)
    top = s.amax(dim=-1, keepdim=True)
    e = torch.exp(s - top)
    if mask is not None:
        e = e * mask
    denominator = e.sum(dim=-1, keepdim=True) + torch.exp(sink)[:, None, None]
    return (e / denominator) @ V


def sink_attention__wrong_fourteenth_drops_the_last_column(Q, K, V, sink, mask=None):
    """The sink stands in front, but the last column is dropped; due is to drop the first."""
    B, h, n, _ = Q.shape
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    column = sink.view(1, h, 1, 1).expand(B, h, n, 1)
    weights = torch.softmax(torch.cat([column, scores], dim=-1), dim=-1)
    return weights[..., :-1] @ V


def sink_attention__wrong_fourteenth_true_means_hidden(Q, K, V, sink, mask=None):
    """Reads True in the mask as hidden; due is True for `may attend`."""
    logits = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(Q.size(-1))
    if mask is not None:
        logits = logits.masked_fill(mask, float("-inf"))
    place = torch.zeros_like(logits[..., :1]) + sink[:, None, None]
    probabilities = torch.cat([logits, place], dim=-1).softmax(dim=-1)
    return torch.matmul(probabilities[..., : K.size(2)], V)


def sink_attention__wrong_fourteenth_pads_a_mask_of_rows(Q, K, V, sink, mask=None):
    """Pads the mask by one column as if it had m, which fails on (B, 1, n, 1); due are all masks that broadcast."""
    scores = Q @ K.mT * Q.shape[-1] ** -0.5
    with_sink = torch.cat([scores, sink[None, :, None, None].expand(*scores.shape[:3], 1)], dim=3)
    if mask is not None:
        with_sink = with_sink.masked_fill(~F.pad(mask, (0, 1), value=True), -torch.inf)
    return torch.softmax(with_sink, dim=3)[:, :, :, :-1] @ V


def sink_attention__wrong_fourteenth_sink_as_a_plain_number(Q, K, V, sink, mask=None):
    """Takes each sink out of its tensor as a number, which cuts its gradient off; due is that gradients flow."""
    B, h, n, d_k = Q.shape
    m = K.shape[2]
    outs = []
    for a in range(h):
        s = Q[:, a] @ K[:, a].mT / math.sqrt(d_k)
        if mask is not None:
            s = s.masked_fill(~mask.expand(B, h, n, m)[:, a], -torch.inf)
        s = F.pad(s, (0, 1), value=sink[a].item())
        outs.append(s.softmax(-1)[..., :-1] @ V[:, a])
    return torch.stack(outs, dim=1)


def sink_attention__right_fourteenth_softmax_times_a_sigmoid(Q, K, V, sink, mask=None):
    """An ordinary softmax, times the share of the keys: sigmoid(logsumexp of the scores - sink)."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask
    share = torch.sigmoid(torch.logsumexp(scores, dim=-1) - sink[:, None])
    return (weights @ V) * share[..., None]


# ------- 10.7 linear_attention


def linear_attention__wrong_fourteenth_decay_is_what_goes(Q, K, V, decay=None, state=None):
    """Takes the decay for the part that is forgotten, and keeps 1 - a; due is to keep a."""
    B, h, n, d_k = Q.shape
    S = Q.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    out = []
    for t in range(n):
        if decay is not None:
            S = (1 - decay[:, :, t, None, None]) * S
        S = S + K[:, :, t, :, None] * V[:, :, t, None, :]
        out.append((Q[:, :, t, None, :] @ S).squeeze(-2))
    return torch.stack(out, dim=2), S


def linear_attention__wrong_fourteenth_moving_average(Q, K, V, decay=None, state=None):
    """Mixes old and new as a moving average, with 1 - a for the new pair; due is the new pair with the factor 1."""
    if state is None:
        state = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=K.dtype)
    outputs = []
    for t in range(K.shape[2]):
        new = torch.einsum("bhk,bhv->bhkv", K[:, :, t], V[:, :, t])
        if decay is None:
            state = state + new
        else:
            a = decay[:, :, t].unsqueeze(-1).unsqueeze(-1)
            state = a * state + (1 - a) * new
        outputs.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], state))
    return torch.stack(outputs, dim=2), state


def linear_attention__wrong_fourteenth_powers_of_own_decay(Q, K, V, decay=None, state=None):
    """Fades by the reader's decay to the power of the distance; due is the product of all decays in between."""
    B, h, n, d_k = Q.shape
    a = torch.ones(B, h, n, dtype=Q.dtype) if decay is None else decay
    S0 = torch.zeros(B, h, d_k, V.shape[-1], dtype=Q.dtype) if state is None else state
    t = torch.arange(n)
    distance = (t[:, None] - t[None, :]).clamp(min=0)
    fade = (a[..., :, None] ** distance).tril()
    out = (Q @ K.mT * fade) @ V + (a ** (t + 1))[..., None] * (Q @ S0)
    last = a[..., -1:]
    S = (last**n)[..., None] * S0 + ((last ** (n - 1 - t))[..., None] * K).mT @ V
    return out, S


def linear_attention__wrong_fourteenth_first_state_unfaded_at_end(Q, K, V, decay=None, state=None):
    """The state that comes back holds the first state without its fading; due is it times all decays."""
    B, h, n, d_k = K.shape
    d_v = V.shape[-1]
    start = torch.zeros(B, h, d_k, d_v, dtype=K.dtype) if state is None else state
    logs = torch.zeros(B, h, n, dtype=K.dtype) if decay is None else torch.log(decay)
    total = logs.cumsum(dim=-1)
    between = (total[..., :, None] - total[..., None, :]).tril().exp().tril()
    out = ((Q @ K.mT) * between) @ V + total.exp().unsqueeze(-1) * (Q @ start)
    left = (total[..., -1:] - total).exp()
    end = start + torch.einsum("bhn,bhnk,bhnv->bhkv", left, K, V)
    return out, end


def linear_attention__wrong_fourteenth_rows_of_heads_mixed(Q, K, V, decay=None, state=None):
    """Stacks the tokens before the heads and only reshapes; due is the tokens' axis behind that of the heads."""
    B, h, n, d_k = Q.shape
    d_v = V.shape[3]
    memory = torch.zeros(B, h, d_k, d_v, dtype=V.dtype) if state is None else state.clone()
    read = []
    for t in range(n):
        fade = 1.0 if decay is None else decay[:, :, t].reshape(B, h, 1, 1)
        memory = fade * memory + K[:, :, t].reshape(B, h, d_k, 1) @ V[:, :, t].reshape(B, h, 1, d_v)
        read.append((Q[:, :, t].reshape(B, h, 1, d_k) @ memory).reshape(B, h, d_v))
    return torch.stack(read, dim=1).reshape(B, h, n, d_v), memory


def linear_attention__wrong_fourteenth_decay_behind_the_token(Q, K, V, decay=None, state=None):
    """Reads a_t as what fades after token t, so the next one feels it; due is to fade before token t writes."""
    S = K.new_zeros(K.shape[0], K.shape[1], K.shape[3], V.shape[3]) if state is None else state
    previous = None
    rows = []
    for t, (q, k, v) in enumerate(zip(Q.unbind(2), K.unbind(2), V.unbind(2), strict=True)):
        if previous is not None:
            S = previous[..., None, None] * S
        S = S + k[..., None] * v[..., None, :]
        rows.append((q[..., None] * S).sum(dim=-2))
        previous = None if decay is None else decay[:, :, t]
    return torch.stack(rows, 2), S


def linear_attention__wrong_fourteenth_divides_by_the_product(Q, K, V, decay=None, state=None):
    """Divides keys by the product of decays so far, which comes to 0 in long texts: NaN; due is a number there, too."""
    B, h, n, d_k = Q.shape
    gamma = Q.new_ones(B, h, n) if decay is None else decay
    S0 = Q.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    product = gamma.cumprod(dim=-1)[..., None]
    queries, keys = Q * product, K / product
    out = (queries @ keys.transpose(-1, -2)).tril() @ V + queries @ S0
    S = product[:, :, -1:] * (S0 + keys.transpose(-1, -2) @ V)
    return out, S


def linear_attention__wrong_fourteenth_writes_into_the_state(Q, K, V, decay=None, state=None):
    """Fades and writes in place, so that the state handed in is changed; due is a new tensor."""
    B, h, n, d_k = Q.shape
    if state is None:
        state = torch.zeros(B, h, d_k, V.shape[-1], dtype=Q.dtype)
    outs = []
    for t in range(n):
        if decay is not None:
            state *= decay[:, :, t, None, None]
        state += K[:, :, t].unsqueeze(-1) * V[:, :, t].unsqueeze(-2)
        outs.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], state))
    return torch.stack(outs, dim=2), state


def linear_attention__right_fourteenth_scan_by_doubling(Q, K, V, decay=None, state=None):
    """All states at once, by a scan in which the reach doubles from step to step."""
    B, h, n, d_k = Q.shape
    d_v = V.shape[-1]
    a = torch.ones(B, h, n, dtype=Q.dtype) if decay is None else decay
    start = torch.zeros(B, h, d_k, d_v, dtype=Q.dtype) if state is None else state
    S = torch.cat([start[:, :, None], K[..., :, None] * V[..., None, :]], dim=2)
    a = torch.cat([torch.ones_like(a[:, :, :1]) if n else a.new_ones(B, h, 1), a], dim=2)[..., None, None]
    reach = 1
    while reach <= n:
        S = torch.cat([S[:, :, :reach], S[:, :, reach:] + a[:, :, reach:] * S[:, :, :-reach]], dim=2)
        a = torch.cat([a[:, :, :reach], a[:, :, reach:] * a[:, :, :-reach]], dim=2)
        reach *= 2
    out = (Q[..., None, :] @ S[:, :, 1:]).squeeze(-2)
    return out, S[:, :, -1].clone()


# ------- 10.8 latent_step


def latent_step__wrong_fourteenth_one_pattern_for_all(x, cache, params, n_heads):
    """As all heads share one key they share one pattern, from the sum of their queries; due is one per head."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = x @ params["W_Q"]
    d_head = q.shape[-1] // n_heads
    q_latent = q @ params["W_UK"].T  # the sum over the heads of their queries in the latent
    weights = torch.softmax(q_latent @ C.mT / math.sqrt(d_head), dim=-1)
    read = weights @ C
    return read @ params["W_UV"] @ params["W_O"], C


def latent_step__wrong_fourteenth_root_of_all_heads(x, cache, params, n_heads):
    """Divides by the root of h * d_head, the width of all heads as one; due is the root of d_head."""
    p = params
    C = torch.cat((cache, x @ p["W_DKV"]), 1)
    q = x[:, 0] @ p["W_Q"]
    scale = math.sqrt(q.shape[-1])
    W_UK = p["W_UK"].unflatten(1, (n_heads, -1))
    W_UV = p["W_UV"].unflatten(1, (n_heads, -1))
    wide = torch.einsum("bhd,lhd->bhl", q.unflatten(1, (n_heads, -1)), W_UK)
    A = torch.softmax(torch.einsum("bhl,btl->bht", wide, C) / scale, dim=-1)
    mixed = torch.einsum("bht,btl->bhl", A, C)
    out = torch.einsum("bhl,lhv->bhv", mixed, W_UV).flatten(1) @ p["W_O"]
    return out[:, None], C


def latent_step__wrong_fourteenth_causal_mask_of_row_zero(x, cache, params, n_heads):
    """Lays a causal mask over the one row as if it stood at position 0; due is that it sees all t + 1 latents."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    B, total, d_latent = C.shape
    Q = _split_heads(x @ params["W_Q"], n_heads)
    d_head = Q.shape[-1]
    up_k = params["W_UK"].view(d_latent, n_heads, d_head).permute(1, 2, 0)
    latent_q = (Q @ up_k).squeeze(2)
    scores = latent_q @ C.mT / d_head**0.5
    mask = torch.ones(1, total, dtype=torch.bool).tril()
    latent_out = _masked_softmax(scores, mask) @ C
    up_v = params["W_UV"].view(d_latent, n_heads, -1).transpose(0, 1)
    heads = latent_out[:, :, None] @ up_v
    return _merge_heads(heads) @ params["W_O"], C


def latent_step__wrong_fourteenth_heads_and_columns_swapped(x, cache, params, n_heads):
    """At the end the columns of a head come before the heads, and so meet wrong rows of W_O; due is head by head."""
    new = torch.einsum("bnd,dl->bnl", x, params["W_DKV"])
    C = torch.cat([cache, new], dim=1)
    d_latent = C.shape[-1]
    K_up = params["W_UK"].reshape(d_latent, n_heads, -1)
    V_up = params["W_UV"].reshape(d_latent, n_heads, -1)
    q = torch.einsum("bnd,de->be", x, params["W_Q"]).reshape(x.shape[0], n_heads, -1)
    s = torch.einsum("bhe,lhe,btl->bht", q, K_up, C) / math.sqrt(q.shape[-1])
    context = torch.einsum("bht,btl->bhl", s.softmax(dim=-1), C)
    heads = torch.einsum("bhl,lhv->bvh", context, V_up)
    out = heads.flatten(1).unsqueeze(1) @ params["W_O"]
    return out, C


def latent_step__wrong_fourteenth_new_latent_in_front(x, cache, params, n_heads):
    """Puts the new latent in front of the old ones; due is x W_DKV last in the cache."""
    longer = torch.cat([x @ params["W_DKV"], cache], dim=1)
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1))[:, 0]
    into = params["W_UK"].unflatten(-1, (n_heads, -1)).transpose(0, 1)
    back = params["W_UV"].unflatten(-1, (n_heads, -1)).transpose(0, 1)
    moved = torch.stack([q[:, a] @ into[a].T for a in range(n_heads)], dim=1)
    A = torch.softmax(moved @ longer.mT / math.sqrt(q.shape[-1]), dim=-1)
    mix = A @ longer
    heads = torch.cat([mix[:, a] @ back[a] for a in range(n_heads)], dim=-1)
    return (heads @ params["W_O"])[:, None], longer


def latent_step__wrong_fourteenth_adds_x_to_out(x, cache, params, n_heads):
    """Reads a step as a layer with its residual connection, and adds x; due is what attention gives alone."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    h = n_heads
    W_UK = params["W_UK"].unflatten(1, (h, -1))
    W_UV = params["W_UV"].unflatten(1, (h, -1))
    q = (x @ params["W_Q"]).reshape(x.shape[0], h, -1)
    weights = torch.softmax(torch.einsum("bhd,lhd->bhl", q, W_UK) @ C.mT / q.shape[-1] ** 0.5, dim=-1)
    heads = torch.einsum("bhl,lhv->bhv", weights @ C, W_UV)
    return x + heads.reshape(x.shape[0], 1, -1) @ params["W_O"], C


def latent_step__wrong_fourteenth_empty_cache_gives_zeros(x, cache, params, n_heads):
    """With an empty cache it says that there is nothing to read; due is that the token sees itself."""
    new = x @ params["W_DKV"]
    if cache.shape[1] == 0:
        return torch.zeros_like(x), new
    C = torch.cat([cache, new], dim=1)
    W_UK = torch.stack(params["W_UK"].chunk(n_heads, dim=1))
    W_UV = torch.stack(params["W_UV"].chunk(n_heads, dim=1))
    q = torch.stack((x[:, 0] @ params["W_Q"]).chunk(n_heads, dim=1))
    q_latent = (q @ W_UK.mT).transpose(0, 1)
    A = torch.softmax(q_latent @ C.mT / math.sqrt(W_UK.shape[-1]), dim=-1)
    z = (A @ C).transpose(0, 1) @ W_UV
    return torch.cat(list(z), dim=-1).unsqueeze(1) @ params["W_O"], C


def latent_step__wrong_fourteenth_builds_keys_per_head(x, cache, params, n_heads):
    """Builds keys and values of the cached tokens, head after head; due is never to build them, not of one head."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = x @ params["W_Q"]
    d_head = q.shape[-1] // n_heads
    d_v = params["W_UV"].shape[1] // n_heads
    out = torch.zeros_like(x)
    for a in range(n_heads):
        k_cols, v_cols = slice(a * d_head, (a + 1) * d_head), slice(a * d_v, (a + 1) * d_v)
        keys = C @ params["W_UK"][:, k_cols]
        weights = torch.softmax(q[..., k_cols] @ keys.mT / math.sqrt(d_head), dim=-1)
        values = C @ params["W_UV"][:, v_cols]
        out = out + weights @ values @ params["W_O"][v_cols]
    return out, C


def latent_step__right_fourteenth_queries_on_a_diagonal(x, cache, params, n_heads):
    """Heads as rows of one matrix: queries stand in blocks on a diagonal, and values are picked from one."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"])[:, 0].unflatten(-1, (n_heads, -1))
    eye = torch.eye(n_heads, dtype=x.dtype)
    spread = (eye[None, :, :, None] * q[:, None]).flatten(2)
    scores = spread @ params["W_UK"].T @ C.mT / math.sqrt(q.shape[-1])
    read = torch.softmax(scores, dim=-1) @ C
    everyone = (read @ params["W_UV"]).unflatten(-1, (n_heads, -1))
    own = (everyone * eye[None, :, :, None]).sum(dim=1)
    return own.flatten(1)[:, None] @ params["W_O"], C


# ------- 10.9 delta_rule


def delta_rule__wrong_fourteenth_corrected_only_once(Q, K, V, beta, state=None):
    """Takes off what earlier tokens would have written uncorrected; due are their own corrected rows, a system."""
    S0 = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    b = beta[..., None]
    first_guess = b * (V - K @ S0)
    overlap = (K @ K.mT).tril(-1)
    U = first_guess - b * (overlap @ first_guess)
    out = Q @ S0 + (Q @ K.mT).tril() @ U
    return out, S0 + K.mT @ U


def delta_rule__wrong_fourteenth_beta_fades_the_state(Q, K, V, beta, state=None):
    """Fades the whole state by 1 - beta and writes beta v; due is to change what the state says to this key alone."""
    B, h, n, d_k = K.shape
    S0 = torch.zeros(B, h, d_k, V.shape[-1], dtype=K.dtype) if state is None else state
    keep = 1 - beta
    later = torch.ones(n, n, dtype=torch.bool).tril(-1)
    steps = torch.where(later, keep[..., :, None], torch.ones((), dtype=K.dtype))
    between = steps.cumprod(dim=-2).tril()  # [t, s]: what is left at t of what s wrote
    from_start = keep.cumprod(dim=-1)[..., None]
    new = beta[..., None] * V
    out = (Q @ K.mT * between) @ new + from_start * (Q @ S0)
    S = from_start[:, :, -1:] * S0 + (between[:, :, -1, :, None] * K).mT @ new
    return out, S


def delta_rule__wrong_fourteenth_corrected_for_later_ones(Q, K, V, beta, state=None):
    """Sets each token right against all others, later ones too; due is a system of the earlier tokens alone."""
    n = K.shape[2]
    eye = torch.eye(n, dtype=K.dtype)
    start = torch.zeros(K.shape[0], K.shape[1], K.shape[3], V.shape[3], dtype=K.dtype) if state is None else state
    others = (K @ K.mT) * (1 - eye)
    matrix = eye + beta.unsqueeze(-1) * others
    U = torch.linalg.pinv(matrix) @ (beta.unsqueeze(-1) * (V - K @ start))
    out = Q @ start + torch.tril(Q @ K.mT) @ U
    return out, start + torch.einsum("bhnk,bhnv->bhkv", K, U)


def delta_rule__wrong_fourteenth_beta_of_the_earlier(Q, K, V, beta, state=None):
    """In the matrix beta belongs to the column, the earlier token; due is to the row, the token that writes."""
    S = torch.zeros(*K.shape[:2], K.shape[3], V.shape[3], dtype=K.dtype) if state is None else state
    L = torch.tril(K @ K.transpose(2, 3), diagonal=-1) * beta[:, :, None, :]
    L = L + torch.eye(K.shape[2], dtype=K.dtype)
    rhs = beta[..., None] * (V - K @ S)
    U = torch.linalg.solve_triangular(L, rhs, upper=False)
    scores = torch.tril(Q @ K.transpose(2, 3))
    return Q @ S + scores @ U, S + K.transpose(2, 3) @ U


def delta_rule__wrong_fourteenth_first_state_not_asked(Q, K, V, beta, state=None):
    """The differences leave out what the first state says to the keys; due is v - k S with that state in it."""
    n = K.shape[2]
    A = torch.einsum("bht,bhtd,bhsd->bhts", beta, K, K).tril(diagonal=-1) + torch.eye(n, dtype=K.dtype)
    written = torch.linalg.solve_triangular(A, beta[..., None] * V, upper=False, unitriangular=True)
    out = torch.einsum("bhtd,bhsd->bhts", Q, K).tril() @ written
    last = torch.einsum("bhsd,bhsv->bhdv", K, written)
    if state is not None:
        out = out + Q @ state
        last = last + state
    return out, last


def delta_rule__wrong_fourteenth_beta_on_the_value_alone(Q, K, V, beta, state=None):
    """Reads beta v - k S, beta for the value alone; due is beta times the whole difference."""
    n, d_k, d_v = K.shape[-2], K.shape[-1], V.shape[-1]
    if state is None:
        state = torch.zeros(*K.shape[:2], d_k, d_v, dtype=K.dtype)
    system = torch.eye(n, dtype=K.dtype) + (K @ K.mT).tril(-1)
    right_side = beta.unsqueeze(-1) * V - K @ state
    rows = torch.linalg.solve(system, right_side)
    reading = (Q @ K.mT).tril()
    return reading @ rows + Q @ state, K.mT @ rows + state


def delta_rule__wrong_fourteenth_divides_by_beta(Q, K, V, beta, state=None):
    """Divides both sides by beta, which gives 0/0 and NaN where a beta is 0; due is a token that writes nothing."""
    B, h, n, d_k = K.shape
    S0 = torch.zeros(B, h, d_k, V.shape[-1], dtype=K.dtype) if state is None else state
    b = beta.unsqueeze(-1)
    left = torch.eye(n, dtype=K.dtype) + (b * (K @ K.mT)).tril(-1)
    missing = V - K @ S0
    U = torch.linalg.inv(left / b) @ missing
    out = Q @ S0 + (Q @ K.mT).tril() @ U
    S = S0 + K.mT @ U
    return out, S


def delta_rule__wrong_fourteenth_loop_over_the_rows(Q, K, V, beta, state=None):
    """Finds the inverse of the system row by row, a Python loop over the tokens; due is to do without one."""
    B, h, n, d_k = K.shape
    S0 = torch.zeros(B, h, d_k, V.shape[-1], dtype=K.dtype) if state is None else state
    A = beta[..., None] * (K @ K.mT)
    eye = torch.eye(n, dtype=K.dtype).expand(B, h, n, n)
    inverse = eye[:, :, :1]
    for t in range(1, n):
        row = eye[:, :, t : t + 1] - A[:, :, t : t + 1, :t] @ inverse
        inverse = torch.cat([inverse, row], dim=2)
    U = inverse @ (beta[..., None] * (V - K @ S0))
    return Q @ S0 + (Q @ K.mT).tril() @ U, S0 + K.mT @ U


def delta_rule__right_fourteenth_state_as_first_tokens(Q, K, V, beta, state=None):
    """The first state is written by d_k more tokens with unit keys and beta 1; then one triangular system."""
    B, h, n, d_k = K.shape
    extra = 0
    if state is not None:
        extra = d_k
        unit_keys = torch.eye(d_k, dtype=K.dtype).expand(B, h, d_k, d_k)
        K = torch.cat([unit_keys, K], dim=2)
        V = torch.cat([state, V], dim=2)
        beta = torch.cat([torch.ones(B, h, d_k, dtype=K.dtype), beta], dim=2)
    matrix = (beta[..., None] * (K @ K.mT)).tril(-1) + torch.eye(n + extra, dtype=K.dtype)
    U = torch.linalg.solve_triangular(matrix, beta[..., None] * V, upper=False, unitriangular=True)
    out = (Q @ K.mT).tril(extra) @ U
    return out, K.mT @ U
