"""Answers to the exercises of unit 10 as students would hand them in: eight wrong and two right for each."""

import math

import torch
import torch.nn.functional as F


# What the notebook gives, and earlier exercises solved rightly, for the answers that call them.


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
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.double()[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def _rms_norm(x, gamma, eps=1e-6):
    return gamma * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def _swiglu(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def _sliding_window_mask(n_new, n_total, window):
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j <= i) & (j > i - window)


# ---------------------------------------------------------------- 10.1 rotate


def rotate__wrong_seventh_writes_into_x(x, positions, base=10000.0):
    """The turned halves are right, but they are assigned to slices of x itself, so the argument is changed in place."""
    half = x.shape[-1] // 2
    exponents = 2 * torch.arange(half, dtype=torch.float64) / x.shape[-1]
    theta = positions.double().unsqueeze(1) / base**exponents
    c, s = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
    left = x[..., :half] * c - x[..., half:] * s
    right = x[..., half:] * c + x[..., :half] * s
    x[..., :half] = left
    x[..., half:] = right
    return x


def rotate__wrong_seventh_interleaved_angles(x, positions, base=10000.0):
    """Pairs are halves (rotate_half), but the angles are spread by repeat_interleave(2), as if the pairs were neighbours."""

    def rotate_half(t):
        first, second = t.chunk(2, dim=-1)
        return torch.cat((-second, first), dim=-1)

    d = x.shape[-1]
    inv_freq = 1.0 / base ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    freqs = torch.outer(positions.double(), inv_freq)
    emb = freqs.repeat_interleave(2, dim=-1)
    return x * emb.cos().to(x.dtype) + rotate_half(x) * emb.sin().to(x.dtype)


def rotate__wrong_seventh_second_half_from_the_new_first(x, positions, base=10000.0):
    """Reuses the name of the first half: the second line multiplies the sine by the half that is turned already."""
    d = x.shape[-1]
    a, b = x.split(d // 2, dim=-1)
    p = torch.arange(d // 2, dtype=torch.float64)
    angles = positions[:, None].double() * base ** (-2 * p / d)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a = a * cos - b * sin
    b = b * cos + a * sin
    return torch.cat([a, b], dim=-1)


def rotate__wrong_seventh_whole_positions_only(x, positions, base=10000.0):
    """Casts the positions with .long() to look them up in a table of angles, so 2.5 is turned as 2."""
    d = x.shape[-1]
    where = positions.long()
    low, high = int(where.min()), int(where.max())
    every = torch.arange(low, high + 1, dtype=torch.float64)
    table = every[:, None] * torch.tensor([base ** (-2 * p / d) for p in range(d // 2)]).double()
    angles = table[where - low]
    c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    u, v = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([u * c - v * s, v * c + u * s], -1)


def rotate__wrong_seventh_counts_on_from_the_first(x, positions, base=10000.0):
    """Reads only positions[0] as the offset of a cache and counts on from there, so rows in another order or with gaps are turned wrongly."""
    n, d = x.shape[-2:]
    start = positions[0].double()
    running = start + torch.arange(n, dtype=torch.float64)
    speed = torch.pow(torch.tensor(base, dtype=torch.float64), -2 * torch.arange(d // 2) / d)
    ang = running.view(n, 1) * speed.view(1, -1)
    cos, sin = torch.cos(ang).to(x), torch.sin(ang).to(x)
    one, two = x.tensor_split(2, dim=-1)
    return torch.cat((one * cos - two * sin, two * cos + one * sin), dim=-1)


def rotate__wrong_seventh_takes_neighbours_returns_halves(x, positions, base=10000.0):
    """Takes the pairs as x[..., 0::2] and x[..., 1::2] and glues the results together as halves with cat."""
    d = x.shape[-1]
    even, odd = x[..., 0::2], x[..., 1::2]
    freq = base ** -(torch.arange(0, d, 2).double() / d)
    theta = torch.einsum("n,p->np", positions.double(), freq)
    cos, sin = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
    return torch.cat([even * cos - odd * sin, odd * cos + even * sin], dim=-1)


def rotate__wrong_seventh_speeds_by_linspace(x, positions, base=10000.0):
    """Speeds are base ** -linspace(0, 1, d/2), whose last exponent is 1 and not (d - 2)/d."""
    half = x.shape[-1] // 2
    speeds = base ** -torch.linspace(0, 1, half, dtype=torch.float64)
    angles = positions.double().reshape(-1, 1) * speeds
    cos, sin = (f(angles).to(x.dtype) for f in (torch.cos, torch.sin))
    front, back = x[..., :half], x[..., half:]
    return torch.cat([front * cos - back * sin, front * sin + back * cos], dim=-1)


def rotate__wrong_seventh_float64_comes_out(x, positions, base=10000.0):
    """Cosine and sine stay in float64, so a float32 x comes back as float64."""
    d = x.size(-1)
    powers = torch.arange(0, d, 2, dtype=torch.float64).neg() / d
    angles = positions.to(torch.float64)[:, None] * base**powers
    cos = torch.cat([angles.cos()] * 2, dim=-1)
    sin = torch.cat([-angles.sin(), angles.sin()], dim=-1)
    return x * cos + x.roll(d // 2, dims=-1) * sin


def rotate__right_seventh_complex_numbers(x, positions, base=10000.0):
    """Column p and column p + d/2 are one complex number, multiplied by e^(i theta)."""
    half = x.shape[-1] // 2
    p = torch.arange(half, dtype=torch.float64)
    theta = positions.double()[:, None] * base ** (-p / half)
    phase = torch.complex(theta.cos().to(x.dtype), theta.sin().to(x.dtype))
    z = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous()) * phase
    return torch.cat([z.real, z.imag], dim=-1)


def rotate__right_seventh_one_matrix_per_row(x, positions, base=10000.0):
    """Fills a (d, d) turning matrix for each position and multiplies each row by its own with einsum."""
    n, d = x.shape[-2:]
    half = d // 2
    R = torch.zeros(n, d, d, dtype=torch.float64)
    for p in range(half):
        angle = positions.double() * base ** (-2 * p / d)
        R[:, p, p] = R[:, p + half, p + half] = angle.cos()
        R[:, p, p + half] = angle.sin()
        R[:, p + half, p] = -angle.sin()
    return torch.einsum("...nd,nde->...ne", x, R.to(x.dtype))


# ---------------------------------------------------------------- 10.2 rms_norm


def rms_norm__wrong_seventh_eps_as_a_floor(x, gamma, eps=1e-6):
    """Takes eps as the smallest mean square allowed, clamp(min=eps), and adds it nowhere."""
    mean_square = (x * x).mean(dim=-1, keepdim=True)
    return x * mean_square.clamp(min=eps).rsqrt() * gamma


def rms_norm__wrong_seventh_all_axes_but_the_first(x, gamma, eps=1e-6):
    """The mean runs over all axes behind the batch axis, so the tokens of one sequence share a mean square."""
    axes = list(range(1, x.dim())) or [0]
    power = x.pow(2).mean(dim=axes, keepdim=True)
    return gamma * (x / torch.sqrt(power + eps))


def rms_norm__wrong_seventh_eps_squared(x, gamma, eps=1e-6):
    """Writes the root of a sum as hypot(rms, eps), which adds eps**2 and not eps to the mean square."""
    rms = x.square().mean(-1, keepdim=True).sqrt()
    return gamma * x / torch.hypot(rms, torch.full_like(rms, eps))


def rms_norm__wrong_seventh_norm_over_d(x, gamma, eps=1e-6):
    """Takes vector norm / d for the root mean square; it is norm / sqrt(d)."""
    d = x.shape[-1]
    length = torch.sqrt((x**2).sum(dim=-1, keepdim=True) + d * eps)
    rms = length / d
    return x / rms * gamma


def rms_norm__wrong_seventh_x_scaled_in_place(x, gamma, eps=1e-6):
    """Divides with x.div_(), so the caller's x is normed too."""
    scale = torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    return x.div_(scale) * gamma


def rms_norm__wrong_seventh_square_of_the_mean(x, gamma, eps=1e-6):
    """Squares the mean, mean(x)**2, where the mean of the squares is wanted."""
    denominator = (x.mean(dim=-1, keepdim=True) ** 2 + eps) ** 0.5
    return gamma * x / denominator


def rms_norm__wrong_seventh_divided_by_the_gain(x, gamma, eps=1e-6):
    """The gain lands below the fraction: x / (gamma * rms)."""
    below = gamma * torch.sqrt(torch.mean(x * x, -1, keepdim=True) + eps)
    return x / below


def rms_norm__wrong_seventh_root_without_gradient(x, gamma, eps=1e-6):
    """Works the root mean square out under no_grad, as if it were a constant, so the gradient for x is wrong."""
    with torch.no_grad():
        inverse = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return gamma * (x * inverse)


def rms_norm__right_seventh_one_more_entry(x, gamma, eps=1e-6):
    """The vector norm of x with one more entry sqrt(d * eps), over sqrt(d), is the root."""
    d = x.shape[-1]
    extra = torch.full_like(x[..., :1], math.sqrt(d * eps))
    root = torch.linalg.vector_norm(torch.cat([x, extra], dim=-1), dim=-1, keepdim=True) / math.sqrt(d)
    return x / root * gamma


def rms_norm__right_seventh_token_by_token(x, gamma, eps=1e-6):
    """Flattens to rows, works each out with a dot product in a loop, and restores the shape."""
    tokens = x.reshape(-1, x.shape[-1])
    done = []
    for token in tokens:
        mean_square = torch.dot(token, token) / len(token)
        done.append(token * gamma * (mean_square + eps) ** -0.5)
    return torch.stack(done).reshape(x.shape)


# ---------------------------------------------------------------- 10.3 swiglu


def swiglu__wrong_seventh_silu_before_the_gate_product(x, W_gate, W_up, W_down):
    """Applies silu to x and multiplies by W_gate afterwards: silu(x) W_gate."""
    gate = F.silu(x) @ W_gate
    return (gate * (x @ W_up)) @ W_down


def swiglu__wrong_seventh_silu_at_the_end(x, W_gate, W_up, W_down):
    """Multiplies gate and up as they are and sends the output behind W_down through silu."""
    hidden = torch.mul(x @ W_gate, x @ W_up)
    out = hidden @ W_down
    return out * torch.sigmoid(out)


def swiglu__wrong_seventh_each_branch_down(x, W_gate, W_up, W_down):
    """Brings both branches down to d_model first and multiplies there: (silu(gate) W_down) * (up W_down)."""
    opened = F.silu(x @ W_gate) @ W_down
    brought = x @ W_up @ W_down
    return opened * brought


def swiglu__wrong_seventh_exp_over_one_plus_exp(x, W_gate, W_up, W_down):
    """Writes the sigmoid as exp(z) / (1 + exp(z)), which is inf / inf for a large gate."""

    def silu(z):
        e = torch.exp(z)
        return z * e / (1 + e)

    return (silu(x @ W_gate) * (x @ W_up)) @ W_down


def swiglu__wrong_seventh_hardswish(x, W_gate, W_up, W_down):
    """Takes F.hardswish for swish: z * relu6(z + 3) / 6 in place of z * sigmoid(z)."""
    gate, up = (x @ W for W in (W_gate, W_up))
    return F.hardswish(gate) * up @ W_down


def swiglu__wrong_seventh_every_second_column(x, W_gate, W_up, W_down):
    """Multiplies by [W_gate, W_up] at once and then takes even columns as gate and odd ones as up; they are halves."""
    both = x @ torch.cat([W_gate, W_up], dim=1)
    gate, up = both[..., ::2], both[..., 1::2]
    return (F.silu(gate) * up) @ W_down


def swiglu__wrong_seventh_limit_of_seven(x, W_gate, W_up, W_down):
    """Cuts the gate off above 7 and up beyond +-7, gpt-oss's swiglu_limit of section 11, which this layer has not."""
    limit = 7.0
    gate = torch.clamp(x @ W_gate, max=limit)
    up = torch.clamp(x @ W_up, min=-limit, max=limit)
    hidden = gate * torch.sigmoid(gate) * up
    return hidden @ W_down


def swiglu__wrong_seventh_axes_stay_flat(x, W_gate, W_up, W_down):
    """Flattens all tokens to rows with view(-1, d_model) and returns the rows, without the axes of x."""
    rows = x.reshape(-1, x.shape[-1])
    z = rows.mm(W_gate)
    hidden = z.mul(z.sigmoid()).mul(rows.mm(W_up))
    return hidden.mm(W_down)


def swiglu__right_seventh_tanh_and_einsum(x, W_gate, W_up, W_down):
    """Uses silu(z) = z (1 + tanh(z/2)) / 2, and einsum for the three products."""
    z = torch.einsum("...d,df->...f", x, W_gate)
    opened = z * (1 + torch.tanh(z / 2)) / 2
    return torch.einsum("...f,...f,fd->...d", opened, torch.einsum("...d,df->...f", x, W_up), W_down)


def swiglu__right_seventh_sum_over_hidden_units(x, W_gate, W_up, W_down):
    """Adds up what each hidden unit contributes: a number per token times its row of W_down."""
    out = torch.zeros_like(x)
    for gate_column, up_column, down_row in zip(W_gate.unbind(1), W_up.unbind(1), W_down.unbind(0)):
        z = (x * gate_column).sum(-1, keepdim=True)
        amount = z * torch.sigmoid(z) * (x * up_column).sum(-1, keepdim=True)
        out = out + amount * down_row
    return out


# ---------------------------------------------------------------- 10.4 sliding_window_mask


def sliding_window_mask__wrong_seventh_both_sides(n_new, n_total, window):
    """Asks for |i - j| < window, a window to both sides, so up to window - 1 later tokens are seen."""
    i = torch.arange(n_new).unsqueeze(1) + (n_total - n_new)
    j = torch.arange(n_total).unsqueeze(0)
    return (i - j).abs() < window


def sliding_window_mask__wrong_seventh_zeros_and_ones(n_new, n_total, window):
    """The right places, but as a float matrix of 0 and 1 and not as booleans."""
    mask = torch.zeros(n_new, n_total)
    for r in range(n_new):
        i = n_total - n_new + r
        mask[r, max(0, i - window + 1) : i + 1] = 1
    return mask


def sliding_window_mask__wrong_seventh_fixed_blocks(n_new, n_total, window):
    """Cuts the text into fixed blocks of `window` tokens, i // window == j // window; the window does not slide."""
    rows = torch.arange(n_total - n_new, n_total)[:, None]
    columns = torch.arange(n_total)[None]
    same_block = rows.div(window, rounding_mode="floor") == columns.div(window, rounding_mode="floor")
    return same_block & (columns <= rows)


def sliding_window_mask__wrong_seventh_first_token_always(n_new, n_total, window):
    """Keeps column 0 visible for every row, as a sink of StreamingLLM, also where it is out of the window."""
    i = torch.arange(n_total - n_new, n_total).view(-1, 1)
    j = torch.arange(n_total)
    near = (j <= i) & (i - j < window)
    return near | (j == 0)


def sliding_window_mask__wrong_seventh_lower_diagonal_not_moved(n_new, n_total, window):
    """tril is moved by n_total - n_new and triu is not, so behind a cache the window is wider by the cached tokens."""
    offset = n_total - n_new
    everything = torch.ones(n_new, n_total, dtype=torch.bool)
    return everything.tril(diagonal=offset).triu(diagonal=1 - window)


def sliding_window_mask__wrong_seventh_negative_slice(n_new, n_total, window):
    """Slices from i - window + 1 without max(0, ...): a negative start counts from the end, and early rows come out empty or wrong."""
    mask = torch.zeros((n_new, n_total), dtype=torch.bool)
    first = n_total - n_new
    for row in range(n_new):
        here = first + row
        mask[row][here - window + 1 : here + 1] = True
    return mask


def sliding_window_mask__wrong_seventh_window_always_full(n_new, n_total, window):
    """Gives each row `window` columns from max(0, i - window + 1) on, so early rows see later tokens."""
    rows = []
    for i in range(n_total - n_new, n_total):
        begin = max(0, i - window + 1)
        rows.append([begin <= j < begin + window for j in range(n_total)])
    return torch.tensor(rows, dtype=torch.bool)


def sliding_window_mask__wrong_seventh_last_tokens_of_all(n_new, n_total, window):
    """All rows share one lower bound, that of the last token, as if the cache were cut to `window` tokens first."""
    position = torch.arange(n_total - n_new, n_total)[:, None]
    column = torch.arange(n_total)
    kept = column >= n_total - window
    causal = column <= position
    return kept & causal


def sliding_window_mask__right_seventh_two_triangles(n_new, n_total, window):
    """A table of ones cut by tril at n_total - n_new and by triu at window - 1 diagonals below it."""
    offset = n_total - n_new
    ones = torch.ones(n_new, n_total)
    return ones.tril(offset).triu(offset - window + 1).bool()


def sliding_window_mask__right_seventh_membership_lists(n_new, n_total, window):
    """Asks for each column whether it is in range(i - window + 1, i + 1), in plain Python lists."""
    positions = range(n_total - n_new, n_total)
    table = [j in range(i - window + 1, i + 1) for i in positions for j in range(n_total)]
    return torch.tensor(table, dtype=torch.bool).reshape(n_new, n_total)


# ---------------------------------------------------------------- 10.5 modern_block


def modern_block__wrong_seventh_gains_of_q_and_k_swapped(x, params, n_heads, n_kv_heads, positions, window=None):
    """Norms the query heads with gamma_k and the key heads with gamma_q."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    Q = _split_heads(z @ params["W_Q"], n_heads)
    K = _split_heads(z @ params["W_K"], n_kv_heads)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    Q = _rotate(_rms_norm(Q, params["gamma_k"]), positions)
    K = _rotate(_rms_norm(K, params["gamma_q"]), positions)
    K, V = (t.repeat_interleave(n_heads // n_kv_heads, dim=1) for t in (K, V))
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), _sliding_window_mask(n, n, window or n))
    y = x + _merge_heads(A @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_seventh_qk_norm_over_all_heads(x, params, n_heads, n_kv_heads, positions, window=None):
    """QK-norm before the split, over all columns of zW_Q and of zW_K with the gain repeated per head; one mean square for all heads."""
    p = params
    length = x.shape[1]
    z = _rms_norm(x, p["gamma_1"])
    q = _rms_norm(z @ p["W_Q"], p["gamma_q"].repeat(n_heads))
    k = _rms_norm(z @ p["W_K"], p["gamma_k"].repeat(n_kv_heads))
    q, k = _split_heads(q, n_heads), _split_heads(k, n_kv_heads)
    v = _split_heads(z @ p["W_V"], n_kv_heads)
    q, k = _rotate(q, positions), _rotate(k, positions)
    share = n_heads // n_kv_heads
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    mask = _sliding_window_mask(length, length, length if window is None else window)
    weights = _masked_softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, mask)
    y = x + _merge_heads(weights @ v) @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_seventh_merged_without_transpose(x, params, n_heads, n_kv_heads, positions, window=None):
    """Merges the heads with reshape(B, n, -1) straight from (B, h, n, d_head), without moving the heads behind the tokens."""
    B, n, _ = x.shape
    normed = _rms_norm(x, params["gamma_1"])
    heads = {}
    for name, count in (("Q", n_heads), ("K", n_kv_heads), ("V", n_kv_heads)):
        heads[name] = _split_heads(normed @ params["W_" + name], count)
    for name in "QK":
        heads[name] = _rotate(_rms_norm(heads[name], params["gamma_" + name.lower()]), positions)
    for name in "KV":
        heads[name] = heads[name].repeat_interleave(n_heads // n_kv_heads, dim=1)
    scores = torch.einsum("bhid,bhjd->bhij", heads["Q"], heads["K"]) / math.sqrt(heads["Q"].size(-1))
    A = _masked_softmax(scores, _sliding_window_mask(n, n, window if window is not None else n))
    attended = (A @ heads["V"]).reshape(B, n, -1)
    y = x + attended @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_seventh_scale_from_d_model_over_h(x, params, n_heads, n_kv_heads, positions, window=None):
    """Divides the scores by the root of d_model // h, as if d_head were that; d_head stands in the shape of gamma_q."""
    B, n, d_model = x.shape
    d_head = d_model // n_heads
    z = _rms_norm(x, params["gamma_1"])
    Q = _rms_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"])
    K = _rms_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"])
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    Q, K = _rotate(Q, positions), _rotate(K, positions)
    group = n_heads // n_kv_heads
    K = torch.repeat_interleave(K, group, dim=1)
    V = torch.repeat_interleave(V, group, dim=1)
    if window is None:
        window = n
    A = _masked_softmax(Q @ K.mT / max(d_head, 1) ** 0.5, _sliding_window_mask(n, n, window))
    y = x + _merge_heads(A @ V) @ params["W_O"]
    ffn_in = _rms_norm(y, params["gamma_2"])
    return y + _swiglu(ffn_in, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_seventh_turned_before_the_split(x, params, n_heads, n_kv_heads, positions, window=None):
    """Turns the whole width h*d_head (and g*d_head) before it is split into heads, so pairs lie in different heads."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])

    def project(name, count, gamma):
        by_head = (z @ params[name]).unflatten(-1, (count, -1))
        flat = _rms_norm(by_head, params[gamma]).flatten(-2)
        return _split_heads(_rotate(flat, positions), count)

    Q = project("W_Q", n_heads, "gamma_q")
    K = project("W_K", n_kv_heads, "gamma_k")
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    K = K.repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = V.repeat_interleave(n_heads // n_kv_heads, dim=1)
    mask = _sliding_window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + _merge_heads(A @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_seventh_no_mask_without_a_window(x, params, n_heads, n_kv_heads, positions, window=None):
    """With window None it passes no mask at all, so the attention is not causal then."""
    n = x.shape[1]
    mask = None if window is None else _sliding_window_mask(n, n, window)
    z = _rms_norm(x, params["gamma_1"])
    q, k, v = z @ params["W_Q"], z @ params["W_K"], z @ params["W_V"]
    q = _rotate(_rms_norm(_split_heads(q, n_heads), params["gamma_q"]), positions)
    k = _rotate(_rms_norm(_split_heads(k, n_kv_heads), params["gamma_k"]), positions)
    v = _split_heads(v, n_kv_heads)
    k = k.repeat_interleave(n_heads // n_kv_heads, dim=1)
    v = v.repeat_interleave(n_heads // n_kv_heads, dim=1)
    attention = _masked_softmax(q @ k.mT * q.shape[-1] ** -0.5, mask) @ v
    y = x + _merge_heads(attention) @ params["W_O"]
    z = _rms_norm(y, params["gamma_2"])
    return y + _swiglu(z, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_seventh_x_plus_equals(x, params, n_heads, n_kv_heads, positions, window=None):
    """Writes the residual of step 6 as x += ..., which changes the caller's x."""
    n = x.size(1)
    z = _rms_norm(x, params["gamma_1"])
    Q, K, V = (
        _split_heads(z @ params[w], c) for w, c in (("W_Q", n_heads), ("W_K", n_kv_heads), ("W_V", n_kv_heads))
    )
    Q, K = _rms_norm(Q, params["gamma_q"]), _rms_norm(K, params["gamma_k"])
    Q, K = _rotate(Q, positions), _rotate(K, positions)
    K, V = (T.repeat_interleave(n_heads // n_kv_heads, 1) for T in (K, V))
    A = _masked_softmax(Q @ K.mT / math.sqrt(K.shape[-1]), _sliding_window_mask(n, n, window or n))
    x += _merge_heads(A @ V) @ params["W_O"]
    return x + _swiglu(_rms_norm(x, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_seventh_adds_to_the_normed(x, params, n_heads, n_kv_heads, positions, window=None):
    """x is overwritten by its norm in step 1, so step 6 adds the attention to rms_norm(x) and not to x."""
    n = x.shape[1]
    x = _rms_norm(x, params["gamma_1"])
    Q = _split_heads(x @ params["W_Q"], n_heads)
    K = _split_heads(x @ params["W_K"], n_kv_heads)
    V = _split_heads(x @ params["W_V"], n_kv_heads)
    Q = _rotate(_rms_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, params["gamma_k"]), positions)
    times = n_heads // n_kv_heads
    K, V = K.repeat_interleave(times, dim=1), V.repeat_interleave(times, dim=1)
    scores = Q @ K.transpose(2, 3) / math.sqrt(Q.shape[3])
    A = _masked_softmax(scores, _sliding_window_mask(n, n, window if window else n))
    x = x + _merge_heads(A @ V) @ params["W_O"]
    return x + _swiglu(_rms_norm(x, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__right_seventh_grouped_einsum(x, params, n_heads, n_kv_heads, positions, window=None):
    """Queries get an axis for the group and one for the head in it; einsum shares keys and values without a copy."""
    B, n, _ = x.shape
    per_group = n_heads // n_kv_heads
    z = _rms_norm(x, params["gamma_1"])
    Q = _rotate(_rms_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"]), positions)
    K = _rotate(_rms_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"]), positions)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    Q = Q.unflatten(1, (n_kv_heads, per_group))
    scores = torch.einsum("bgsid,bgjd->bgsij", Q, K) / math.sqrt(K.shape[-1])
    far = torch.arange(n)[:, None] - torch.arange(n)
    allowed = (far >= 0) & (far < (n if window is None else window))
    A = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
    heads = torch.einsum("bgsij,bgjd->bigsd", A, V).reshape(B, n, -1)
    y = x + heads @ params["W_O"]
    u = _rms_norm(y, params["gamma_2"])
    return y + (F.silu(u @ params["W_gate"]) * (u @ params["W_up"])) @ params["W_down"]


def modern_block__right_seventh_loop_over_heads_and_rows(x, params, n_heads, n_kv_heads, positions, window=None):
    """Loops over heads and rows: slices the head's columns, and for each row only the keys that it may see; no mask."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    d_head = params["gamma_q"].shape[0]
    y = x
    for head in range(n_heads):
        mine = slice(head * d_head, (head + 1) * d_head)
        shared = head // (n_heads // n_kv_heads)
        theirs = slice(shared * d_head, (shared + 1) * d_head)
        q = _rotate(_rms_norm(z @ params["W_Q"][:, mine], params["gamma_q"]), positions)
        k = _rotate(_rms_norm(z @ params["W_K"][:, theirs], params["gamma_k"]), positions)
        v = z @ params["W_V"][:, theirs]
        rows = []
        for i in range(n):
            begin = 0 if window is None else max(0, i + 1 - window)
            s = (k[:, begin : i + 1] * q[:, i : i + 1]).sum(-1, keepdim=True) / math.sqrt(d_head)
            rows.append((torch.softmax(s, dim=1) * v[:, begin : i + 1]).sum(1))
        y = y + torch.stack(rows, dim=1) @ params["W_O"][mine]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


# ---------------------------------------------------------------- 10.6 sink_attention


def sink_attention__wrong_seventh_sink_without_the_maximum(Q, K, V, sink, mask=None):
    """Takes the row's largest score off the scores but not off the sink, so exp(sink) is too large or too small by exp(max)."""
    s = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        s = s.masked_fill(~mask, torch.finfo(s.dtype).min)
    e = torch.exp(s - s.amax(dim=-1, keepdim=True))
    if mask is not None:
        e = e * mask
    below = e.sum(-1, keepdim=True) + sink.view(1, -1, 1, 1).exp()
    return (e / below) @ V


def sink_attention__wrong_seventh_all_sinks_for_every_head(Q, K, V, sink, mask=None):
    """Expands sink along the last axis, so every head gets h more columns with the sinks of all heads."""
    B, h, n, d_k = Q.shape
    m = K.shape[2]
    scores = torch.einsum("bhnd,bhmd->bhnm", Q, K) / d_k**0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    columns = sink.expand(B, h, n, len(sink))
    weights = torch.softmax(torch.cat([scores, columns], dim=-1), dim=-1)
    return weights[..., :m] @ V


def sink_attention__wrong_seventh_column_in_front_cut_behind(Q, K, V, sink, mask=None):
    """Puts the sink's column before the scores and drops the last column, [..., :-1], so each value has its neighbour's weight."""
    logits = Q @ K.transpose(-2, -1) / math.sqrt(K.shape[-1])
    if mask is not None:
        logits = logits.masked_fill(~mask, -torch.inf)
    column = sink[None, :, None, None].expand(*logits.shape[:-1], 1)
    together = torch.cat([column, logits], dim=-1).softmax(dim=-1)
    return together[..., :-1] @ V


def sink_attention__wrong_seventh_mask_behind_the_softmax(Q, K, V, sink, mask=None):
    """Multiplies the finished weights by the mask, so forbidden keys still stand in the denominator."""
    B, h, n, d = Q.shape
    s = Q @ K.mT * d**-0.5
    s = torch.cat([s, sink.reshape(1, h, 1, 1).expand(B, h, n, 1)], dim=3)
    a = torch.softmax(s, dim=3)[:, :, :, :-1]
    if mask is not None:
        a = a * mask
    return a @ V


def sink_attention__wrong_seventh_scaled_up_to_one_again(Q, K, V, sink, mask=None):
    """Drops the sink's column and divides what is left by its sum, so the weights sum to 1 and the sink does nothing."""
    scores = Q @ K.mT / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    column = sink.unsqueeze(-1).unsqueeze(-1).expand(scores.size(0), -1, scores.size(2), 1)
    A = torch.softmax(torch.cat((scores, column), -1), -1)[..., : K.size(2)]
    total = A.sum(dim=-1, keepdim=True)
    A = A / total.clamp_min(torch.finfo(A.dtype).tiny)
    return A @ V


def sink_attention__wrong_seventh_one_plus_exp_sink(Q, K, V, sink, mask=None):
    """Divides the weights of the ordinary softmax by 1 + exp(sink), as if the sum of exponentials were 1."""
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    share = torch.sigmoid(-sink)  # 1 / (1 + exp(sink))
    return share[:, None, None] * (weights @ V)


def sink_attention__wrong_seventh_share_from_unmasked_scores(Q, K, V, sink, mask=None):
    """Works out the keys' share sigmoid(logsumexp - sink) from all scores, before the mask, and applies it to masked weights."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    level = scores.logsumexp(dim=-1, keepdim=True)
    share = torch.sigmoid(level - sink[:, None, None])
    return share * (_masked_softmax(scores, mask) @ V)


def sink_attention__wrong_seventh_masked_to_minus_ten_thousand(Q, K, V, sink, mask=None):
    """Fills forbidden scores with -1e4, which is no lower than scores or a sink of -1e4: forbidden keys get weight then."""
    B, h, n, d_k = Q.shape
    scores = torch.matmul(Q, K.permute(0, 1, 3, 2)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(torch.logical_not(mask), -1e4)
    extra = sink.view(1, h, 1, 1).repeat(B, 1, n, 1)
    weights = F.softmax(torch.cat([scores, extra], dim=-1), dim=-1)
    return torch.matmul(weights[..., :-1], V)


def sink_attention__right_seventh_share_by_sigmoid(Q, K, V, sink, mask=None):
    """Ordinary masked attention times the share of the keys, sigmoid(logsumexp of the allowed scores - sink)."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    allowed = scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    share = torch.sigmoid(allowed.logsumexp(-1, keepdim=True) - sink[:, None, None])
    return share * (_masked_softmax(scores, mask) @ V)


def sink_attention__right_seventh_key_after_key(Q, K, V, sink, mask=None):
    """Online softmax: starts with the sink as maximum, 1 as total and no output, and takes one key after another."""
    B, h, n, d_k = Q.shape
    m = K.shape[2]
    allowed = torch.ones(B, h, n, m, dtype=torch.bool) if mask is None else mask.expand(B, h, n, m)
    top = sink.view(1, h, 1, 1).expand(B, h, n, 1)
    total = torch.ones_like(top)
    out = torch.zeros(B, h, n, V.shape[-1], dtype=V.dtype)
    for j in range(m):
        s = (Q * K[:, :, j : j + 1]).sum(-1, keepdim=True) / math.sqrt(d_k)
        s = s.masked_fill(~allowed[..., j : j + 1], torch.finfo(s.dtype).min)
        higher = torch.maximum(top, s)
        new = torch.exp(s - higher) * allowed[..., j : j + 1]
        shrink = torch.exp(top - higher)
        total = total * shrink + new
        out = out * shrink + new * V[:, :, j : j + 1]
        top = higher
    return out / total


# ---------------------------------------------------------------- 10.7 linear_attention


def linear_attention__wrong_seventh_state_changed_in_place(Q, K, V, decay=None, state=None):
    """Fades and writes with state.mul_ and state.add_ into the very tensor that was handed in."""
    B, h, n, d_k = Q.shape
    if state is None:
        state = torch.zeros(B, h, d_k, V.shape[-1], dtype=V.dtype)
    outs = []
    for t in range(n):
        if decay is not None:
            state.mul_(decay[:, :, t, None, None])
        state.add_(K[:, :, t, :, None] * V[:, :, t, None, :])
        outs.append((Q[:, :, t, None, :] @ state).squeeze(-2))
    return torch.stack(outs, dim=2), state


def linear_attention__wrong_seventh_own_decay_to_the_distance(Q, K, V, decay=None, state=None):
    """Weights token s in token t by decay_t ** (t - s), the reader's own decay for each step; it is the product of those between."""
    B, h, n, d_k = Q.shape
    a = torch.ones(B, h, n, dtype=Q.dtype) if decay is None else decay
    S0 = Q.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    t = torch.arange(n)
    steps = (t[:, None] - t).clamp(min=0)
    fade = (a[..., None] ** steps).tril()
    out = (Q @ K.mT * fade) @ V + (a ** (t + 1))[..., None] * (Q @ S0)
    last = a[..., -1, None]
    S = (last**n)[..., None] * S0 + (K * (last ** (n - 1 - t))[..., None]).mT @ V
    return out, S


def linear_attention__wrong_seventh_quotient_of_cumprods(Q, K, V, decay=None, state=None):
    """Divides cumulative products, cumprod[t] / cumprod[s], which is 0 / 0 once small decays have made the product 0."""
    B, h, n, d_k = K.shape
    c = torch.ones(B, h, n).to(Q) if decay is None else torch.cumprod(decay, dim=-1)
    S = torch.zeros(B, h, d_k, V.shape[-1]).to(Q) if state is None else state
    ratio = c[..., :, None] / c[..., None, :]
    ratio = ratio.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), 0)
    out = (Q @ K.mT * ratio) @ V + c[..., None] * (Q @ S)
    new = c[..., -1, None, None] * S + torch.einsum("bhn,bhnk,bhnv->bhkv", ratio[..., -1, :], K, V)
    return out, new


def linear_attention__wrong_seventh_stacked_then_reshaped(Q, K, V, decay=None, state=None):
    """Stacks the outputs along a new first axis and forces them to (B, h, n, d_v) with reshape, which mixes tokens and heads."""
    B, h, n, d_k = Q.shape
    d_v = V.size(-1)
    S = torch.zeros(B, h, d_k, d_v, dtype=Q.dtype) if state is None else state
    rows = []
    for t in range(n):
        fade = 1 if decay is None else decay[..., t, None, None]
        S = fade * S + torch.einsum("bhk,bhv->bhkv", K[:, :, t], V[:, :, t])
        rows.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S))
    return torch.stack(rows).reshape(B, h, n, d_v), S


def linear_attention__wrong_seventh_moving_average(Q, K, V, decay=None, state=None):
    """With a decay it keeps a moving average, a S + (1 - a) k^T v; the new pair should come in whole."""
    keep = decay
    S = state if state is not None else torch.zeros_like(K[:, :, :1].mT @ V[:, :, :1])
    out = []
    for t, (q, k, v) in enumerate(zip(Q.unbind(2), K.unbind(2), V.unbind(2))):
        pair = k.unsqueeze(-1) * v.unsqueeze(-2)
        if keep is None:
            S = S + pair
        else:
            a = keep[:, :, t].unsqueeze(-1).unsqueeze(-1)
            S = a * S + (1 - a) * pair
        out.append((q.unsqueeze(-1) * S).sum(-2))
    return torch.stack(out, 2), S


def linear_attention__wrong_seventh_first_token_does_not_fade(Q, K, V, decay=None, state=None):
    """Fades from the second token on (if t > 0), so a state that is handed in escapes the first token's decay."""
    B, h, n, d_k = Q.shape
    S = Q.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state.clone()
    collected = []
    for t in range(n):
        if decay is not None and t > 0:
            S = decay[:, :, t].reshape(B, h, 1, 1) * S
        S = S + K[:, :, t : t + 1].transpose(-1, -2) @ V[:, :, t : t + 1]
        collected.append(Q[:, :, t : t + 1] @ S)
    return torch.cat(collected, dim=2), S


def linear_attention__wrong_seventh_fades_after_reading(Q, K, V, decay=None, state=None):
    """The order is write, read, fade: a_t shrinks the state behind token t, with its own pair in it."""
    S = 0 if state is None else state
    outputs = []
    for t in range(Q.shape[2]):
        q, k, v = Q[:, :, t], K[:, :, t], V[:, :, t]
        S = S + k[..., :, None] * v[..., None, :]
        outputs.append((q[..., None, :] @ S)[..., 0, :])
        if decay is not None:
            S = S * decay[:, :, t][..., None, None]
    return torch.stack(outputs, dim=2), S


def linear_attention__wrong_seventh_state_comes_back_transposed(Q, K, V, decay=None, state=None):
    """Works with the state as (d_v, d_k), v^T k, and returns it like that, without turning it back."""
    B, h, n, d_k = K.shape
    M = V.new_zeros(B, h, V.shape[-1], d_k) if state is None else state.mT
    out = []
    for t in range(n):
        if decay is not None:
            M = M * decay[:, :, t, None, None]
        M = M + V[:, :, t, :, None] * K[:, :, t, None, :]
        out.append((M @ Q[:, :, t, :, None])[..., 0])
    return torch.stack(out, dim=-2), M


def linear_attention__right_seventh_halves_recursively(Q, K, V, decay=None, state=None):
    """Reads the text by halves: each half from the state that the half before it leaves."""
    B, h, n, d_k = Q.shape
    a = Q.new_ones(B, h, n) if decay is None else decay
    start = Q.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state

    def read(lo, hi, S):
        if hi - lo == 1:
            S = a[:, :, lo, None, None] * S + K[:, :, lo:hi].mT @ V[:, :, lo:hi]
            return Q[:, :, lo:hi] @ S, S
        middle = (lo + hi) // 2
        first, S = read(lo, middle, S)
        second, S = read(middle, hi, S)
        return torch.cat([first, second], dim=2), S

    return read(0, n, start)


def linear_attention__right_seventh_table_grown_row_by_row(Q, K, V, decay=None, state=None):
    """Keeps no state on the way but how much of each token is left: each step shrinks these numbers and appends a 1."""
    B, h, n, d_k = Q.shape
    first = Q.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    left = Q.new_zeros(B, h, 0)  # what is left of each token so far
    old = Q.new_ones(B, h, 1)  # what is left of the first state
    outs = []
    for t in range(n):
        if decay is not None:
            left, old = left * decay[:, :, t : t + 1], old * decay[:, :, t : t + 1]
        left = torch.cat([left, torch.ones_like(old)], dim=-1)
        q = Q[:, :, t]
        shares = left * torch.einsum("bhk,bhsk->bhs", q, K[:, :, : t + 1])
        read = torch.einsum("bhs,bhsv->bhv", shares, V[:, :, : t + 1])
        outs.append(read + old * torch.einsum("bhk,bhkv->bhv", q, first))
    last = old[..., None] * first + torch.einsum("bhs,bhsk,bhsv->bhkv", left, K, V)
    return torch.stack(outs, dim=2), last


# ---------------------------------------------------------------- 10.8 latent_step


def latent_step__wrong_seventh_values_are_built(x, cache, params, n_heads):
    """Moves the brackets for the scores only: behind the softmax it builds V = C W_UV for all tokens and heads."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"])[:, 0].unflatten(-1, (n_heads, -1))
    W_UK = params["W_UK"].unflatten(-1, (n_heads, -1))
    q_latent = torch.einsum("bhd,lhd->bhl", q, W_UK)
    weights = (q_latent @ C.mT / math.sqrt(q.shape[-1])).softmax(-1)
    V = _split_heads(C @ params["W_UV"], n_heads)
    heads = weights[:, :, None] @ V
    return _merge_heads(heads) @ params["W_O"], C


def latent_step__wrong_seventh_keys_of_one_head_at_a_time(x, cache, params, n_heads):
    """Loops over the heads and builds keys and values of one head at a time, C W_UK[:, block] and C W_UV[:, block]."""
    C = torch.cat((cache, x @ params["W_DKV"]), 1)
    Wq = params["W_Q"].chunk(n_heads, dim=1)
    Wk = params["W_UK"].chunk(n_heads, dim=1)
    Wv = params["W_UV"].chunk(n_heads, dim=1)
    pieces = []
    for wq, wk, wv in zip(Wq, Wk, Wv):
        q, k, v = x @ wq, C @ wk, C @ wv
        a = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(wq.shape[1]), dim=-1)
        pieces.append(a @ v)
    return torch.cat(pieces, dim=-1) @ params["W_O"], C


def latent_step__wrong_seventh_w_uk_viewed_as_heads_first(x, cache, params, n_heads):
    """Cuts W_UK into heads by reshape(h, d_latent, d_head), which takes blocks of rows; a head owns a block of columns."""
    longer = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_latent = longer.shape[-1]
    q = (x @ params["W_Q"]).reshape(x.shape[0], n_heads, -1)
    up_k = params["W_UK"].reshape(n_heads, d_latent, -1)
    up_v = params["W_UV"].unflatten(1, (n_heads, -1))
    moved = torch.einsum("bhd,hld->bhl", q, up_k)
    scores = torch.einsum("bhl,btl->bht", moved, longer) / q.shape[-1] ** 0.5
    mixed = torch.einsum("bht,btl->bhl", torch.softmax(scores, -1), longer)
    heads = torch.einsum("bhl,lhv->bhv", mixed, up_v)
    return heads.flatten(1).unsqueeze(1) @ params["W_O"], longer


def latent_step__wrong_seventh_one_softmax_for_all_heads(x, cache, params, n_heads):
    """Never splits into heads: x W_Q W_UK^T C^T is the sum of all heads' scores, and one softmax serves all of them."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_head = params["W_Q"].shape[1] // n_heads
    scores = x @ params["W_Q"] @ params["W_UK"].T @ C.mT / math.sqrt(d_head)
    mixed = scores.softmax(dim=-1) @ C
    return mixed @ params["W_UV"] @ params["W_O"], C


def latent_step__wrong_seventh_root_of_the_whole_width(x, cache, params, n_heads):
    """Reads the width under the root off W_Q's columns, h * d_head, where one head's d_head belongs."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    Q = x @ params["W_Q"]
    scale = 1 / math.sqrt(Q.shape[-1])
    Q = _split_heads(Q, n_heads)[:, :, 0]
    K_up = params["W_UK"].unflatten(-1, (n_heads, -1)).permute(1, 0, 2)
    V_up = params["W_UV"].unflatten(-1, (n_heads, -1)).permute(1, 0, 2)
    asked = torch.einsum("bhd,hld->bhl", Q, K_up)
    A = torch.softmax(asked @ C.mT * scale, dim=-1)
    heads = torch.einsum("bhl,hlv->bhv", A @ C, V_up)
    return heads.reshape(len(x), 1, -1) @ params["W_O"], C


def latent_step__wrong_seventh_causal_mask_from_row_zero(x, cache, params, n_heads):
    """Masks the one row of scores with tril of (1, t + 1), row 0 of a square mask, so the new token sees the oldest latent only."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).view(x.shape[0], n_heads, -1)
    d_head = q.shape[-1]
    qc = torch.stack([q[:, a] @ params["W_UK"][:, a * d_head : (a + 1) * d_head].T for a in range(n_heads)], 1)
    causal = torch.ones(1, C.shape[1], dtype=torch.bool).tril()
    A = _masked_softmax(qc @ C.mT / math.sqrt(d_head), causal)
    mixed = A @ C
    W_UV = params["W_UV"].chunk(n_heads, dim=1)
    heads = torch.cat([mixed[:, a] @ W_UV[a] for a in range(n_heads)], dim=-1)
    return heads[:, None] @ params["W_O"], C


def latent_step__wrong_seventh_heads_merged_in_turn(x, cache, params, n_heads):
    """Lays the heads' outputs out as (d_v, h) before flattening, so column v*h + a meets W_O's rows of another head."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = torch.einsum("bod,dhe->bhe", x, params["W_Q"].unflatten(1, (n_heads, -1)))
    asked = torch.einsum("bhe,lhe->bhl", q, params["W_UK"].unflatten(1, (n_heads, -1)))
    A = torch.einsum("bhl,btl->bht", asked, C).div(math.sqrt(q.shape[-1])).softmax(dim=-1)
    mixed = torch.einsum("bht,btl->bhl", A, C)
    heads = torch.einsum("bhl,lhv->bvh", mixed, params["W_UV"].unflatten(1, (n_heads, -1)))
    return heads.flatten(1)[:, None, :] @ params["W_O"], C


def latent_step__wrong_seventh_new_latent_in_front(x, cache, params, n_heads):
    """Concatenates the new latent before the old ones, so the cache that comes back begins with the newest token."""
    latents = torch.cat([x @ params["W_DKV"], cache], dim=1)
    B = x.shape[0]
    query = (x @ params["W_Q"]).reshape(B, n_heads, -1)
    W_UK = params["W_UK"].reshape(-1, n_heads, query.shape[-1])
    W_UV = params["W_UV"].reshape(W_UK.shape[0], n_heads, -1)
    scores = torch.einsum("bhl,btl->bht", torch.einsum("bhd,lhd->bhl", query, W_UK), latents)
    weights = torch.softmax(scores / math.sqrt(query.shape[-1]), dim=2)
    context = torch.einsum("bhl,lhv->bhv", torch.bmm(weights, latents), W_UV)
    return context.reshape(B, 1, -1) @ params["W_O"], latents


def latent_step__right_seventh_heads_as_rows(x, cache, params, n_heads):
    """All heads' queries, moved into the latent, are the rows of one (B, h, d_latent) matrix: two batched products with C."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    Q = (x @ params["W_Q"]).squeeze(1).chunk(n_heads, dim=-1)
    keys_up = params["W_UK"].chunk(n_heads, dim=-1)
    values_up = params["W_UV"].chunk(n_heads, dim=-1)
    rows = torch.stack([q @ up.T for q, up in zip(Q, keys_up)], dim=1) / math.sqrt(Q[0].shape[-1])
    mixed = torch.bmm(torch.softmax(torch.bmm(rows, C.mT), dim=-1), C)
    heads = [row @ up for row, up in zip(mixed.unbind(1), values_up)]
    return torch.cat(heads, dim=-1).unsqueeze(1) @ params["W_O"], C


def latent_step__right_seventh_two_products_per_head(x, cache, params, n_heads):
    """Per head W_Q W_UK^T and W_UV W_O are multiplied first; the outputs of the heads are added up."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_head = params["W_Q"].shape[1] // n_heads
    d_v = params["W_UV"].shape[1] // n_heads
    out = torch.zeros_like(x)
    for a in range(n_heads):
        k, v = slice(a * d_head, (a + 1) * d_head), slice(a * d_v, (a + 1) * d_v)
        ask = params["W_Q"][:, k] @ params["W_UK"][:, k].T
        tell = params["W_UV"][:, v] @ params["W_O"][v]
        weights = torch.softmax(x @ ask @ C.mT / math.sqrt(d_head), dim=-1)
        out = out + weights @ C @ tell
    return out, C


# ---------------------------------------------------------------- 10.9 delta_rule


def delta_rule__wrong_seventh_loop_over_tokens(Q, K, V, beta, state=None):
    """The numbers are right, but it goes through the tokens in a Python loop, which the docstring rules out."""
    S = Q.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    out = []
    for t in range(K.shape[2]):
        k, v, b = K[:, :, t, None], V[:, :, t, None], beta[:, :, t, None, None]
        S = S + b * k.mT @ (v - k @ S)
        out.append(Q[:, :, t, None] @ S)
    return torch.cat(out, dim=2), S


def delta_rule__wrong_seventh_diagonal_twice(Q, K, V, beta, state=None):
    """The system is I + tril(beta K K^T) with the diagonal left in it, so each token also corrects what it writes itself."""
    B, h, n, d_k = K.shape
    S0 = torch.zeros(B, h, d_k, V.shape[-1], dtype=V.dtype) if state is None else state
    b = beta.unsqueeze(-1)
    system = torch.eye(n, dtype=V.dtype) + torch.tril(b * (K @ K.mT))
    U = torch.linalg.solve_triangular(system, b * (V - K @ S0), upper=False)
    out = Q @ S0 + torch.tril(Q @ K.mT) @ U
    return out, S0 + K.mT @ U


def delta_rule__wrong_seventh_beta_on_the_columns(Q, K, V, beta, state=None):
    """Scales the columns of K K^T by beta_s of the earlier token; in the system beta belongs to the row of the one that writes."""
    n = K.shape[2]
    start = torch.zeros_like(K[:, :, :1].mT @ V[:, :, :1]) if state is None else state
    L = (K @ K.transpose(-1, -2) * beta[..., None, :]).tril(-1)
    right_side = beta[..., :, None] * (V - K @ start)
    u = torch.linalg.solve_triangular(L + torch.eye(n).to(L), right_side, upper=False, unitriangular=True)
    return Q @ start + (Q @ K.transpose(-1, -2)).tril() @ u, start + K.transpose(-1, -2) @ u


def delta_rule__wrong_seventh_eight_rounds_are_enough(Q, K, V, beta, state=None):
    """Solves U = R - L U by eight rounds of putting U in again, which is exact for nine tokens and not for more."""
    B, h, n, d_k = K.shape
    S = Q.new_zeros(B, h, d_k, V.size(-1)) if state is None else state
    L = torch.tril(beta[..., None] * torch.einsum("bhik,bhjk->bhij", K, K), diagonal=-1)
    R = beta[..., None] * (V - K @ S)
    U = R
    for _ in range(8):
        U = R - L @ U
    reads = torch.tril(torch.einsum("bhik,bhjk->bhij", Q, K))
    return Q @ S + reads @ U, S + torch.einsum("bhnk,bhnv->bhkv", K, U)


def delta_rule__wrong_seventh_every_chunk_from_the_first_state(Q, K, V, beta, state=None):
    """Works in chunks of 8 tokens but begins each at the state that was handed in; the written parts are only added up."""
    S0 = K.new_zeros(K.shape[0], K.shape[1], K.shape[3], V.shape[3]) if state is None else state
    outs, S = [], S0
    for q, k, v, b in zip(*(T.split(8, dim=2) for T in (Q, K, V, beta))):
        b = b[..., None]
        L = (b * (k @ k.mT)).tril(-1)
        u = torch.linalg.solve_triangular(L, b * (v - k @ S0), upper=False, unitriangular=True)
        outs.append(q @ S0 + (q @ k.mT).tril() @ u)
        S = S + k.mT @ u
    return torch.cat(outs, dim=2), S


def delta_rule__wrong_seventh_beta_once_more_when_writing(Q, K, V, beta, state=None):
    """The solved rows U hold beta already; it multiplies them by beta again before they are read and written."""
    B, h, n, d_k = K.shape
    S = torch.zeros(B, h, d_k, V.shape[-1], dtype=K.dtype) if state is None else state
    b = beta[..., None]
    A = torch.eye(n, dtype=K.dtype) + (b * K @ K.mT).tril(diagonal=-1)
    corrections = torch.linalg.solve(A, b * (V - K @ S))
    written = b * corrections
    out = Q @ S + (Q @ K.mT).tril() @ written
    return out, S + K.mT @ written


def delta_rule__wrong_seventh_queries_in_the_system(Q, K, V, beta, state=None):
    """The strictly lower part of the system is Q K^T where K K^T belongs: what the state says to the key, not to the query."""
    n = Q.shape[-2]
    first = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=Q.dtype) if state is None else state
    table = (Q @ K.mT).tril()
    system = beta.unsqueeze(-1) * table.tril(-1) + torch.eye(n, dtype=Q.dtype)
    U = torch.linalg.inv(system) @ (beta.unsqueeze(-1) * (V - K @ first))
    return Q @ first + table @ U, first + K.mT @ U


def delta_rule__wrong_seventh_whole_state_fades(Q, K, V, beta, state=None):
    """Takes the rule for S = (1 - beta) S + beta k^T v: the whole state shrinks, not just what it holds for the key."""
    B, h, n, d_k = K.shape
    S0 = Q.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    keep = 1 - beta
    later = torch.ones(n, n, dtype=torch.bool).triu(1)  # [s, r]: r behind s
    left = torch.where(later, keep[..., None, :], torch.ones_like(keep)[..., None, :]).cumprod(-1)
    left = left.mT.tril()  # [t, s]: what is left of s at t
    start = keep.cumprod(-1)
    bV = beta[..., None] * V
    out = (Q @ K.mT * left) @ bV + start[..., None] * (Q @ S0)
    S = start[..., -1, None, None] * S0 + (K * left[..., -1, :, None]).mT @ bV
    return out, S


def delta_rule__right_seventh_before_the_state_is_known(Q, K, V, beta, state=None):
    """Solves once for the columns of beta K and beta V side by side (W and Y), and puts the state in afterwards: U = Y - W S."""
    d_k = K.shape[-1]
    S = Q.new_zeros(*K.shape[:2], d_k, V.shape[-1]) if state is None else state
    b = beta[..., None]
    L = (b * (K @ K.mT)).tril(-1)
    both = torch.linalg.solve_triangular(L, b * torch.cat([K, V], dim=-1), upper=False, unitriangular=True)
    W, Y = both.split([d_k, V.shape[-1]], dim=-1)
    U = Y - W @ S
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__right_seventh_chunks_and_doubling(Q, K, V, beta, state=None):
    """Chunks of 8 tokens; inside, L^8 = 0, so the inverse of I + L is (I - L)(I + L^2)(I + L^4)."""
    S = Q.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    outs = []
    for begin in range(0, K.shape[2], 8):
        q, k, v, b = (T[:, :, begin : begin + 8] for T in (Q, K, V, beta.unsqueeze(-1)))
        one = torch.eye(k.shape[2], dtype=k.dtype)
        L = (b * k @ k.mT).tril(-1)
        square = L @ L
        inverse = (one - L) @ (one + square) @ (one + square @ square)
        u = inverse @ (b * (v - k @ S))
        outs.append(q @ S + (q @ k.mT).tril() @ u)
        S = S + k.mT @ u
    return torch.cat(outs, dim=2), S
