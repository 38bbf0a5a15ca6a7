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
    speeds = base ** (-2 * torch.arange(half, dtype=torch.float64) / x.shape[-1])
    angles = positions.to(torch.float64)[:, None] * speeds
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


# ------- 10.1 rotate


def rotate__wrong_thirteenth_relative_to_first(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Counts positions from that of the first row, as only distances matter; each row turns by its own position."""
    d = x.shape[-1]
    steps = (positions - positions[0]).double()
    speed = base ** (-torch.arange(0, d, 2).double() / d)
    angle = torch.outer(steps, speed)
    c = torch.cos(angle).to(x.dtype)
    s = torch.sin(angle).to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * c - right * s, right * c + left * s), dim=-1)


def rotate__wrong_thirteenth_adds_sinusoids(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Adds the sines and cosines of the angles to x, as in 2017; pairs of columns have to be turned by the angle."""
    width = x.shape[-1]
    p = torch.arange(width // 2, dtype=torch.float64)
    theta = positions[:, None].double() * base ** (-2 * p / width)
    table = torch.cat([theta.sin(), theta.cos()], dim=1).to(x.dtype)
    return x + table


def rotate__wrong_thirteenth_last_speed_one_over_base(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Spreads the speeds from 1 down to exactly 1/base; the exponent is -2p/d, so the last is base**(2/d) / base."""
    n_pairs = x.shape[-1] // 2
    exponents = torch.linspace(0, -1, n_pairs, dtype=torch.float64)
    omegas = torch.pow(torch.tensor(base, dtype=torch.float64), exponents)
    angles = positions.to(torch.float64).unsqueeze(1) * omegas.unsqueeze(0)
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    out = torch.empty_like(x)
    out[..., :n_pairs] = x[..., :n_pairs] * cosine - x[..., n_pairs:] * sine
    out[..., n_pairs:] = x[..., n_pairs:] * cosine + x[..., :n_pairs] * sine
    return out


def rotate__wrong_thirteenth_uses_turned_first_half(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Computes the second half from the first half that is turned already; both need the first half as it came in."""
    d = x.shape[-1]
    first, second = x[..., : d // 2], x[..., d // 2 :]
    speeds = torch.tensor([base ** (-2 * p / d) for p in range(d // 2)], dtype=torch.float64)
    theta = positions[:, None] * speeds
    cos = theta.cos().to(x.dtype)
    sin = theta.sin().to(x.dtype)
    first = first * cos - second * sin
    second = second * cos + first * sin
    return torch.cat([first, second], -1)


def rotate__wrong_thirteenth_angles_interleaved(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Repeats each angle for neighbouring columns while the halves are paired; angles belong to p and to p + d/2."""

    def rotate_half(z):
        z1, z2 = z.chunk(2, dim=-1)
        return torch.cat([-z2, z1], dim=-1)

    d = x.shape[-1]
    inv_freq = 1.0 / base ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    freqs = torch.einsum("n,p->np", positions.double(), inv_freq)
    emb = freqs.repeat_interleave(2, dim=-1)
    return x * emb.cos().to(x.dtype) + rotate_half(x) * emb.sin().to(x.dtype)


def rotate__wrong_thirteenth_neighbours_as_pairs(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Turns neighbouring columns 2p and 2p + 1 as complex numbers, as the paper does; here pairs are p and p + d/2."""
    d = x.shape[-1]
    z = torch.view_as_complex(x.reshape(*x.shape[:-1], d // 2, 2))
    angles = positions.double()[:, None] * base ** (-2 * torch.arange(d // 2).double() / d)
    turns = torch.polar(torch.ones_like(angles), angles).to(z.dtype)
    return torch.view_as_real(z * turns).flatten(-2)


def rotate__wrong_thirteenth_table_of_whole_positions(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Looks the angles up in a table of whole positions; a position may also be a fraction, or below 0."""
    d = x.shape[-1]
    half = d // 2
    longest = int(positions.max()) + 1
    rows = torch.arange(longest, dtype=torch.float64)
    table = rows[:, None] * base ** (-2 * torch.arange(half, dtype=torch.float64) / d)
    angles = table[positions.long()]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    x1, x2 = x.split(half, dim=-1)
    y1 = x1 * cos - x2 * sin
    y2 = x2 * cos + x1 * sin
    return torch.cat([y1, y2], dim=-1)


def rotate__wrong_thirteenth_float64_comes_back(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Leaves cosine and sine in float64, so that float32 comes back as float64; the dtype of x has to be kept."""
    D = x.size(-1)
    w = base ** (-2.0 * torch.arange(D // 2, dtype=torch.float64) / D)
    t = positions.view(-1, 1) * w
    a, b = torch.tensor_split(x, 2, dim=-1)
    return torch.cat([a * t.cos() - b * t.sin(), a * t.sin() + b * t.cos()], dim=-1)


def rotate__right_thirteenth_complex_halves(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Makes each pair p, p + d/2 one complex number and multiplies it by exp(i theta), worked out in complex128."""
    half = x.shape[-1] // 2
    z = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous())
    speeds = torch.exp(-math.log(base) * torch.arange(half, dtype=torch.float64) / half)
    unit = torch.exp(1j * positions.to(torch.float64)[:, None] * speeds).to(z.dtype)
    z = z * unit
    return torch.cat([z.real, z.imag], dim=-1)


# ------- 10.2 rms_norm


def rms_norm__wrong_thirteenth_spread_around_mean(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Divides by the standard deviation around the mean, as layer norm does; the mean square takes no mean off."""
    variance = torch.var(x, dim=-1, keepdim=True, unbiased=False)
    return gamma * x / torch.sqrt(variance + eps)


def rms_norm__wrong_thirteenth_mean_of_sizes(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Takes the root of each square and then the mean, which is the mean size; the root comes after the mean."""
    sizes = torch.sqrt(x * x + eps)
    typical = sizes.mean(dim=-1, keepdim=True)
    return x / typical * gamma


def rms_norm__wrong_thirteenth_gain_before_norm(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Multiplies by the gain first and norms the product, which undoes much; the gain comes after the division."""
    scaled = gamma * x
    ms = scaled.pow(2).mean(-1).unsqueeze(-1)
    return scaled * torch.rsqrt(ms + eps)


def rms_norm__wrong_thirteenth_eps_behind_root(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Adds eps to the root; it belongs under the root, to the mean square."""
    d = x.shape[-1]
    root_mean_square = ((x**2).sum(-1, keepdim=True) / d) ** 0.5
    return gamma * (x / (root_mean_square + eps))


def rms_norm__wrong_thirteenth_axis_one(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Averages over axis 1, in (B, n, d) the tokens; the mean is over the last axis."""
    axis = 1 if x.dim() > 1 else 0
    mean_square = torch.mean(x.square(), dim=axis, keepdim=True)
    normed = x / (mean_square + eps).sqrt()
    return normed * gamma


def rms_norm__wrong_thirteenth_eps_as_floor(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Reads eps as a lower bound of the mean square; it is added to it."""
    mean_square = (x * x).mean(dim=-1, keepdim=True).clamp(min=eps)
    return gamma * x / mean_square.sqrt()


def rms_norm__wrong_thirteenth_axis_two_of_four(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Takes axis 2 for the width as in (B, n, d), which fails for heads (B, h, n, d); it is always the last axis."""
    # tokens are (d,), (n, d) or (B, n, d)
    width_axis = 2 if x.ndim > 2 else x.ndim - 1
    power = x.pow(2).mean(dim=width_axis, keepdim=True)
    return x * gamma * (power + eps).rsqrt()


def rms_norm__wrong_thirteenth_calls_library_norm(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Lets F.rms_norm do it, which is not allowed in an answer; the formula has to be written."""
    return F.rms_norm(x, (x.shape[-1],), weight=gamma, eps=eps)


def rms_norm__right_thirteenth_hypotenuse(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Takes the root as a hypotenuse of length / sqrt(d) and sqrt(eps), which is the root of their squares' sum."""
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    floor = torch.full_like(length, math.sqrt(eps))
    return torch.einsum("...d,d->...d", x / torch.hypot(length / math.sqrt(x.shape[-1]), floor), gamma)


# ------- 10.3 swiglu


def swiglu__wrong_thirteenth_sigmoid_as_gate(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Takes the gate for a share between 0 and 1, a sigmoid alone; silu is z times sigmoid(z)."""
    share = torch.sigmoid(x @ W_gate)
    content = x @ W_up
    return (share * content) @ W_down


def swiglu__wrong_thirteenth_residual_added(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Adds x to the result as a block does; the layer itself has no residual connection."""
    hidden = F.silu(x @ W_gate) * (x @ W_up)
    return x + hidden @ W_down


def swiglu__wrong_thirteenth_silu_of_product(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Multiplies gate and up and sends the product through silu; only the gate goes through silu."""
    g = torch.matmul(x, W_gate)
    u = torch.matmul(x, W_up)
    z = g * u
    z = z * torch.sigmoid(z)
    return torch.matmul(z, W_down)


def swiglu__wrong_thirteenth_gate_and_up_swapped(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Has the two halves of one wide product in the wrong order, so that silu is on up; it belongs on the gate."""
    up, gate = (x @ torch.cat([W_gate, W_up], dim=1)).chunk(2, dim=-1)
    return F.silu(gate) * up @ W_down


def swiglu__wrong_thirteenth_exponent_sign(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Writes the sigmoid as 1 / (1 + exp(z)), with a minus lost; it is 1 / (1 + exp(-z))."""

    def silu(z):
        return z / (1 + torch.exp(z))

    return (silu(x @ W_gate) * (x @ W_up)) @ W_down


def swiglu__wrong_thirteenth_slope_of_gpt_oss(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Gives the sigmoid 1.702 z, as section 11 tells of gpt-oss; here silu is z * sigmoid(z)."""
    gate = x @ W_gate
    opened = gate * torch.sigmoid(1.702 * gate)
    up = x @ W_up
    return torch.einsum("...f,fd->...d", opened * up, W_down)


def swiglu__wrong_thirteenth_overflow_of_exp(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Writes the sigmoid as exp(z) / (1 + exp(z)), which is NaN for large z; there silu(z) is about z."""
    a = x @ W_gate
    e = a.exp()
    silu_a = a * e / (1 + e)
    b = x @ W_up
    return (silu_a * b) @ W_down


def swiglu__wrong_thirteenth_gate_detached(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Takes the sigmoid of the gate without gradients, as if it were a mask; gradients have to flow through it."""
    gate = x @ W_gate
    with torch.no_grad():
        openness = gate.sigmoid()
    return (gate * openness * (x @ W_up)) @ W_down


def swiglu__right_thirteenth_logsigmoid_and_einsum(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Takes the sigmoid as the exponential of logsigmoid and sums over the hidden entries in one einsum."""
    gate = torch.einsum("...d,df->...f", x, W_gate)
    opened = gate * F.logsigmoid(gate).exp()
    return torch.einsum("...f,...f,fd->...d", opened, x @ W_up, W_down)


# ------- 10.4 sliding_window_mask


def sliding_window_mask__wrong_thirteenth_both_sides(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Lets a token see its neighbours on both sides at a distance below the window; later ones must not be seen."""
    i = torch.arange(n_new)[:, None] + (n_total - n_new)
    j = torch.arange(n_total)[None, :]
    return (i - j).abs() < window


def sliding_window_mask__wrong_thirteenth_blocks(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Cuts the text into blocks of the window's length and looks inside its own; the window slides with each token."""
    i = torch.arange(n_total - n_new, n_total).unsqueeze(1)
    j = torch.arange(n_total).unsqueeze(0)
    same_block = torch.div(i, window, rounding_mode="floor") == torch.div(j, window, rounding_mode="floor")
    causal = j <= i
    return same_block & causal


def sliding_window_mask__wrong_thirteenth_one_window_for_all(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Places one window at the end of the text, for all rows; each row has its own, which ends at its position."""
    mask = torch.ones(n_new, n_total, dtype=torch.bool).tril(n_total - n_new)
    kept = torch.zeros(n_total, dtype=torch.bool)
    kept[max(0, n_total - window) :] = True
    return mask & kept


def sliding_window_mask__wrong_thirteenth_one_too_many(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Has <= at the lower bound, so that window + 1 tokens are seen; it is i - window < j."""
    first = n_total - n_new
    rows = []
    for r in range(n_new):
        i = first + r
        rows.append([i - window <= j <= i for j in range(n_total)])
    return torch.tensor(rows, dtype=torch.bool).reshape(n_new, n_total)


def sliding_window_mask__wrong_thirteenth_offset_in_one_bound(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Moves the upper diagonal by the length of the cache but not the lower one; both bounds go by position i."""
    ones = torch.ones((n_new, n_total), dtype=torch.bool)
    not_later = torch.tril(ones, diagonal=n_total - n_new)
    not_too_old = torch.triu(ones, diagonal=1 - window)
    return not_later & not_too_old


def sliding_window_mask__wrong_thirteenth_true_is_hidden(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Marks with True what is hidden; True means that a token may attend."""
    query_pos = torch.arange(n_total - n_new, n_total)
    key_pos = torch.arange(n_total)
    distance = query_pos[:, None] - key_pos[None, :]
    return (distance < 0) | (distance >= window)


def sliding_window_mask__wrong_thirteenth_negative_slice(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Fills a slice whose start is below 0 near the beginning and then counts from the end; it must stop at 0."""
    mask = torch.zeros(n_new, n_total, dtype=torch.bool)
    for r in range(n_new):
        i = n_total - n_new + r
        mask[r, i - window + 1 : i + 1] = True
    return mask


def sliding_window_mask__wrong_thirteenth_numbers_not_booleans(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Multiplies two masks of floats and gives back 0.0 and 1.0; booleans are asked for."""
    shift = n_total - n_new
    return torch.ones(n_new, n_total).tril(shift) * torch.ones(n_new, n_total).triu(shift - window + 1)


def sliding_window_mask__right_thirteenth_floor_division(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Divides the distance by the window, rounded down: the quotient is 0 exactly for distances 0 to window - 1."""
    distance = torch.arange(n_total - n_new, n_total)[:, None] - torch.arange(n_total)
    return distance // window == 0


# ------- 10.5 modern_block


def modern_block__wrong_thirteenth_norm_across_heads(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Norms queries and keys over all heads together before the split; each head is normed for itself, over d_head."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    q = _rms_norm(z @ params["W_Q"], params["gamma_q"].repeat(n_heads))
    k = _rms_norm(z @ params["W_K"], params["gamma_k"].repeat(n_kv_heads))
    q, k, v = _split_heads(q, n_heads), _split_heads(k, n_kv_heads), _split_heads(z @ params["W_V"], n_kv_heads)
    q, k = _rotate(q, positions), _rotate(k, positions)
    group = n_heads // n_kv_heads
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    mask = _sliding_window_mask(n, n, n if window is None else window)
    weights = _masked_softmax(q @ k.mT / math.sqrt(q.shape[-1]), mask)
    y = x + _merge_heads(weights @ v) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_thirteenth_values_turned(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Turns the values as well, since they stand at the same place as the keys; only queries and keys are turned."""
    p = params
    z = _rms_norm(x, p["gamma_1"])
    Q = _rms_norm(_split_heads(z @ p["W_Q"], n_heads), p["gamma_q"])
    K = _rms_norm(_split_heads(z @ p["W_K"], n_kv_heads), p["gamma_k"])
    V = _split_heads(z @ p["W_V"], n_kv_heads)
    Q, K, V = (_rotate(one, positions) for one in (Q, K, V))
    share = n_heads // n_kv_heads
    K = K.repeat_interleave(share, 1)
    V = V.repeat_interleave(share, 1)
    n = x.shape[1]
    allowed = _sliding_window_mask(n, n, window or n)
    A = _masked_softmax(torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5, allowed)
    y = x + _merge_heads(torch.einsum("bhij,bhjd->bhid", A, V)) @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_thirteenth_norms_behind_the_parts(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Norms what attention and the feed-forward layer give; the norms come before, on what these two read."""

    def attention(z):
        n = z.shape[1]
        q = _rotate(_rms_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"]), positions)
        k = _rotate(_rms_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"]), positions)
        v = _split_heads(z @ params["W_V"], n_kv_heads)
        k, v = (t.repeat_interleave(n_heads // n_kv_heads, dim=1) for t in (k, v))
        seen = _sliding_window_mask(n, n, window if window is not None else n)
        a = _masked_softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), seen)
        return _merge_heads(a @ v) @ params["W_O"]

    y = x + _rms_norm(attention(x), params["gamma_1"])
    return y + _rms_norm(_swiglu(y, params["W_gate"], params["W_up"], params["W_down"]), params["gamma_2"])


def modern_block__wrong_thirteenth_heads_shared_in_turn(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Repeats the key/value heads in turn, 0, 1, 0, 1; neighbouring query heads share one, 0, 0, 1, 1."""
    B, n, _ = x.shape
    z = _rms_norm(x, params["gamma_1"])
    queries = (z @ params["W_Q"]).view(B, n, n_heads, -1).transpose(1, 2)
    keys = (z @ params["W_K"]).view(B, n, n_kv_heads, -1).transpose(1, 2)
    values = (z @ params["W_V"]).view(B, n, n_kv_heads, -1).transpose(1, 2)
    queries = _rotate(_rms_norm(queries, params["gamma_q"]), positions)
    keys = _rotate(_rms_norm(keys, params["gamma_k"]), positions)
    times = n_heads // n_kv_heads
    keys = keys.repeat(1, times, 1, 1)
    values = values.repeat(1, times, 1, 1)
    scores = queries @ keys.transpose(2, 3) / math.sqrt(queries.shape[-1])
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    if window is not None:
        mask = mask & torch.ones(n, n, dtype=torch.bool).triu(1 - window)
    heads = _masked_softmax(scores, mask) @ values
    y = x + heads.transpose(1, 2).reshape(B, n, -1) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_thirteenth_gain_of_queries_for_keys(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Norms the keys with gamma_q as well; they have gamma_k."""
    (n, d_head), group = (x.shape[1], params["gamma_q"].numel()), n_heads // n_kv_heads
    z = _rms_norm(x, params["gamma_1"])
    made = []
    for name, heads in (("W_Q", n_heads), ("W_K", n_kv_heads)):
        head = _split_heads(z @ params[name], heads)
        made.append(_rotate(_rms_norm(head, params["gamma_q"]), positions))
    Q, K = made[0], made[1].repeat_interleave(group, dim=1)
    V = _split_heads(z @ params["W_V"], n_kv_heads).repeat_interleave(group, dim=1)
    mask = _sliding_window_mask(n, n, window or n)
    y = x + _merge_heads(_masked_softmax(Q @ K.mT * d_head**-0.5, mask) @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), *(params[w] for w in ("W_gate", "W_up", "W_down")))


def modern_block__wrong_thirteenth_mask_by_positions(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Compares positions to say who sees whom; they serve the rotation alone, and the mask goes by row."""
    z = _rms_norm(x, params["gamma_1"])
    q = _split_heads(z @ params["W_Q"], n_heads)
    k = _split_heads(z @ params["W_K"], n_kv_heads)
    v = _split_heads(z @ params["W_V"], n_kv_heads)
    q = _rotate(_rms_norm(q, params["gamma_q"]), positions)
    k = _rotate(_rms_norm(k, params["gamma_k"]), positions)
    k = torch.repeat_interleave(k, n_heads // n_kv_heads, dim=1)
    v = torch.repeat_interleave(v, n_heads // n_kv_heads, dim=1)
    ago = positions[:, None] - positions[None, :]
    mask = ago >= 0
    if window is not None:
        mask &= ago < window
    weights = _masked_softmax(q @ k.mT / math.sqrt(k.shape[-1]), mask)
    attended = _merge_heads(weights @ v) @ params["W_O"]
    y = x + attended
    z = _rms_norm(y, params["gamma_2"])
    return y + _swiglu(z, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_thirteenth_positions_taken_as_run(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Counts on from the first position; positions may leave gaps or come in any order, each row has its own."""
    n = x.shape[1]
    start = positions[0]
    places = start + torch.arange(n)
    z = _rms_norm(x, params["gamma_1"])
    Q = _rotate(_rms_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"]), places)
    K = _rotate(_rms_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"]), places)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    owner = torch.arange(n_heads) // (n_heads // n_kv_heads)
    mask = _sliding_window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K[:, owner].mT / math.sqrt(Q.shape[-1]), mask)
    y = x + _merge_heads(A @ V[:, owner]) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_thirteenth_adds_into_x(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Adds the attention's result to x in place and so changes the input; y has to be a new tensor."""
    n, per_group = x.shape[1], n_heads // n_kv_heads
    normed = _rms_norm(x, params["gamma_1"])
    Q = _split_heads(normed @ params["W_Q"], n_heads)
    K, V = _split_heads(normed @ params["W_K"], n_kv_heads), _split_heads(normed @ params["W_V"], n_kv_heads)
    Q = _rotate(_rms_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, params["gamma_k"]), positions)
    K, V = K.repeat_interleave(per_group, dim=1), V.repeat_interleave(per_group, dim=1)
    A = _masked_softmax(Q @ K.mT / Q.shape[-1] ** 0.5, _sliding_window_mask(n, n, window or n))
    x += _merge_heads(A @ V) @ params["W_O"]
    ffn_in = _rms_norm(x, params["gamma_2"])
    return x + _swiglu(ffn_in, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__right_thirteenth_head_by_head(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Goes head by head with columns cut by hand, the softmax by logsumexp, and sums the heads' parts of W_O."""
    n, d_head = x.shape[1], params["gamma_q"].shape[0]
    z = _rms_norm(x, params["gamma_1"])
    d_v = params["W_V"].shape[1] // n_kv_heads
    distance = torch.arange(n)[:, None] - torch.arange(n)
    hidden = (distance < 0) | (distance >= (n if window is None else window))
    y = x
    for head in range(n_heads):
        group = head * n_kv_heads // n_heads
        own, shared = slice(head * d_head, (head + 1) * d_head), slice(group * d_head, (group + 1) * d_head)
        q = _rotate(_rms_norm(z @ params["W_Q"][:, own], params["gamma_q"]), positions)
        k = _rotate(_rms_norm(z @ params["W_K"][:, shared], params["gamma_k"]), positions)
        v = z @ params["W_V"][:, group * d_v : (group + 1) * d_v]
        scores = (q @ k.mT / math.sqrt(d_head)).masked_fill(hidden, -torch.inf)
        weights = (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()
        y = y + weights @ v @ params["W_O"][head * d_v : (head + 1) * d_v]
    inner = _rms_norm(y, params["gamma_2"])
    return y + _swiglu(inner, params["W_gate"], params["W_up"], params["W_down"])


# ------- 10.6 sink_attention


def sink_attention__wrong_thirteenth_first_key_gets_it(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, sink: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Gives the sink's weight to the first key, as trained models without one do; the sink brings no value."""
    B, h, n, _ = Q.shape
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    column = sink.view(1, h, 1, 1).expand(B, h, n, 1)
    weights = torch.softmax(torch.cat([column, scores], dim=-1), dim=-1)
    spare, weights = weights[..., :1], weights[..., 1:]
    return weights @ V + spare * V[:, :, :1]


def sink_attention__wrong_thirteenth_bias_on_all_scores(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, sink: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Adds the sink to all scores of its head, where it drops out; it is a term of its own in the denominator."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5
    scores = scores + sink[:, None, None]
    return _masked_softmax(scores, mask) @ V


def sink_attention__wrong_thirteenth_fixed_share_of_head(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, sink: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Lets the sink take a fixed share sigmoid(sink) of each head's weight; the share depends on the scores."""
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    left_for_keys = 1 - torch.sigmoid(sink)
    return (A * left_for_keys.view(-1, 1, 1)) @ V


def sink_attention__wrong_thirteenth_column_filled_across_heads(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, sink: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Repeats the sinks and views them as (B, h, n, 1), which spreads the heads' sinks over rows; each head has one."""
    B, h, n, d_k = Q.shape
    s = (Q @ K.transpose(2, 3)) / math.sqrt(d_k)
    if mask is not None:
        s = torch.where(mask, s, torch.full_like(s, -torch.inf))
    extra = sink.repeat(B * n).view(B, h, n, 1)
    a = torch.cat((s, extra), dim=3).softmax(dim=3)
    return a[:, :, :, :-1] @ V


def sink_attention__wrong_thirteenth_drops_first_column(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, sink: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Puts the sink's column last and takes off the first one; the column of the sink has to go."""
    scores = Q @ K.mT * K.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    with_sink = torch.cat([scores, sink[:, None, None].expand(*scores.shape[:-1], 1)], dim=-1)
    weights = torch.softmax(with_sink, dim=-1)
    return torch.matmul(weights[..., 1:], V)


def sink_attention__wrong_thirteenth_sink_scaled_too(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, sink: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Divides scores and sink together by the root of d_k; the sink is a score as it stands."""
    B, h, n, d_k = Q.shape
    m = K.shape[2]
    raw = torch.cat([Q @ K.mT, sink.reshape(h, 1, 1).expand(B, h, n, 1)], dim=-1)
    scores = raw / math.sqrt(d_k)
    if mask is not None:
        seen = torch.cat([mask.expand(B, h, n, m), torch.ones(B, h, n, 1, dtype=torch.bool)], dim=-1)
        scores = scores.masked_fill(~seen, -torch.inf)
    return scores.softmax(-1)[..., :m] @ V


def sink_attention__wrong_thirteenth_nan_in_empty_row(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, sink: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Scales a softmax over the keys, which is NaN in a row with nothing allowed; there the output is 0."""
    scores = Q @ K.mT / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    total = torch.logsumexp(scores, dim=-1, keepdim=True)
    share_of_keys = torch.sigmoid(total - sink.view(1, -1, 1, 1))
    return share_of_keys * (torch.softmax(scores, dim=-1) @ V)


def sink_attention__wrong_thirteenth_plain_exponentials(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, sink: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Writes the fraction with plain exponentials, which overflow; scores of 1e4 must give no NaN."""
    e = torch.exp(Q @ K.mT / math.sqrt(Q.shape[-1]))
    if mask is not None:
        e = e * mask
    denominator = sink.exp()[None, :, None, None] + e.sum(dim=-1, keepdim=True)
    return (e / denominator) @ V


def sink_attention__right_thirteenth_one_more_key(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, sink: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Adds one more column to queries and keys and one more key whose product is the sink, with a value of zeros."""
    B, h, n, d_k = Q.shape
    m, root = K.shape[2], math.sqrt(d_k)
    queries = torch.cat([Q / root, Q.new_ones(B, h, n, 1)], dim=3)
    keys = F.pad(K, (0, 1))
    last = F.pad(sink.view(1, h, 1, 1).expand(B, h, 1, 1), (d_k, 0))
    keys = torch.cat([keys, last], dim=2)
    values = F.pad(V, (0, 0, 0, 1))
    allowed = torch.ones(B, h, n, m, dtype=torch.bool) if mask is None else mask.expand(B, h, n, m)
    return _masked_softmax(queries @ keys.mT, F.pad(allowed, (0, 1), value=True)) @ values


# ------- 10.7 linear_attention


def linear_attention__wrong_thirteenth_decay_on_reading(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Multiplies what a token reads by its decay and keeps the plain sum; the state itself has to fade."""
    B, h, n, d_k = K.shape
    S = torch.zeros(B, h, d_k, V.shape[-1], dtype=V.dtype) if state is None else state
    outs = []
    for t in range(n):
        S = S + K[:, :, t, :, None] * V[:, :, t, None, :]
        read = (Q[:, :, t, None, :] @ S).squeeze(-2)
        if decay is not None:
            read = decay[:, :, t, None] * read
        outs.append(read)
    return torch.stack(outs, dim=2), S


def linear_attention__wrong_thirteenth_power_of_own_decay(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fades the past by the reader's decay to the power of the distance; it is the product of all decays in between."""
    B, h, n, d_k = Q.shape
    a = torch.ones(B, h, n, dtype=Q.dtype) if decay is None else decay
    S0 = torch.zeros(B, h, d_k, V.shape[-1], dtype=V.dtype) if state is None else state
    t = torch.arange(n)
    distance = (t[:, None] - t).clamp(min=0)
    faded = (a[..., :, None] ** distance).tril()
    out = (Q @ K.mT * faded) @ V + a[..., None] ** (t[:, None] + 1) * (Q @ S0)
    last = a[..., -1, None]
    left = last ** (n - 1 - t)
    return out, (last[..., None] ** n) * S0 + (K * left[..., None]).mT @ V


def linear_attention__wrong_thirteenth_moving_average(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Writes each pair with the weight 1 - a, as a moving average does; the new pair is added in full."""
    S = Q.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    rows = []
    for t in range(K.shape[2]):
        new = torch.einsum("bhk,bhv->bhkv", K[:, :, t], V[:, :, t])
        if decay is None:
            S = S + new
        else:
            a = decay[:, :, t][..., None, None]
            S = a * S + (1 - a) * new
        rows.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S))
    return torch.stack(rows, 2), S


def linear_attention__wrong_thirteenth_stacked_then_viewed(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Stacks the outputs along axis 1 and views them as (B, h, n, d_v), which mixes heads and tokens; axis 2 is due."""
    B, h, n, d_k = Q.shape
    d_v = V.size(3)
    memory = torch.zeros((B, h, d_k, d_v), dtype=Q.dtype) if state is None else state.clone()
    collected = []
    for q, k, v, i in zip(Q.unbind(2), K.unbind(2), V.unbind(2), range(n)):
        if decay is not None:
            memory = memory * decay[:, :, i].reshape(B, h, 1, 1)
        memory = memory + k.unsqueeze(-1) @ v.unsqueeze(-2)
        collected.append((q.unsqueeze(-2) @ memory).squeeze(-2))
    return torch.stack(collected, dim=1).view(B, h, n, d_v), memory


def linear_attention__wrong_thirteenth_state_misses_first_fade(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fades the state that came in by the decays from the second token on; the first one's decay counts, too."""
    n = Q.shape[2]
    logs = torch.zeros_like(Q[..., 0]) if decay is None else decay.log()
    total = logs.cumsum(dim=-1)
    table = (total.unsqueeze(-1) - total.unsqueeze(-2)).exp().tril()
    out = (table * (Q @ K.mT)) @ V
    rest = (total[..., -1:] - total).exp()
    last = K.mT @ (rest.unsqueeze(-1) * V)
    if state is not None:
        since_start = (total - total[..., :1]).exp()
        out = out + since_start.unsqueeze(-1) * (Q @ state)
        last = last + since_start[..., n - 1, None, None] * state
    return out, last


def linear_attention__wrong_thirteenth_decay_is_what_goes(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads the decay as the share that is lost and keeps 1 - a; a is the factor that stays."""
    B, h, n, d_k = K.shape
    S = state
    if S is None:
        S = torch.zeros(B, h, d_k, V.shape[3], dtype=K.dtype)
    out = []
    for t in range(n):
        k_t, v_t, q_t = K[:, :, t], V[:, :, t], Q[:, :, t]
        kept = 1.0 if decay is None else (1 - decay[:, :, t])[:, :, None, None]
        S = kept * S + k_t[..., None] * v_t[..., None, :]
        out += [(q_t[..., None] * S).sum(dim=-2)]
    return torch.stack(out, dim=2), S


def linear_attention__wrong_thirteenth_divides_by_faded_product(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Divides keys by the product of all decays so far, 0 in long texts, which gives NaN; shares stay finite."""
    S0 = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=K.dtype) if state is None else state
    a = torch.ones_like(K[..., 0]) if decay is None else decay
    product = a.cumprod(dim=-1)[..., None]
    q, k = Q * product, K / product
    out = torch.tril(q @ k.mT) @ V + q @ S0
    last = product[:, :, -1:] * (S0 + k.mT @ V)
    return out, last


def linear_attention__wrong_thirteenth_changes_given_state(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fades and writes in place, so that the state that was handed in is changed; a new tensor has to come back."""
    batch, heads, n, d_k = Q.shape
    if state is None:
        state = torch.zeros(batch, heads, d_k, V.shape[-1], dtype=Q.dtype)
    read = []
    for t in range(n):
        if decay is not None:
            state *= decay[:, :, t, None, None]
        state += K[:, :, t].unsqueeze(3) * V[:, :, t].unsqueeze(2)
        read.append(torch.matmul(Q[:, :, t].unsqueeze(2), state))
    return torch.cat(read, dim=2), state


def linear_attention__right_thirteenth_halves_by_recursion(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads the first half of the text, hands its state to the second half, and so on down to single tokens."""
    decay = torch.ones_like(K[..., 0]) if decay is None else decay

    def read(q, k, v, a, S):
        half = q.shape[2] // 2
        if half == 0:
            S = a[..., None] * S + k.mT @ v
            return q @ S, S
        early, S = read(q[:, :, :half], k[:, :, :half], v[:, :, :half], a[:, :, :half], S)
        late, S = read(q[:, :, half:], k[:, :, half:], v[:, :, half:], a[:, :, half:], S)
        return torch.cat([early, late], dim=2), S

    if state is None:
        state = torch.zeros(*K.shape[:2], K.shape[3], V.shape[3], dtype=V.dtype)
    return read(Q, K, V, decay, state)


# ------- 10.8 latent_step


def latent_step__wrong_thirteenth_one_query_for_all_heads(
    x: torch.Tensor, cache: torch.Tensor, params: dict[str, torch.Tensor], n_heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Multiplies x W_Q W_UK^T whole, which sums the queries of all heads into one; each head has its own weights."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_head = params["W_Q"].shape[1] // n_heads
    query = x @ params["W_Q"] @ params["W_UK"].T
    weights = torch.softmax(query @ C.mT / math.sqrt(d_head), dim=-1)
    return weights @ C @ params["W_UV"] @ params["W_O"], C


def latent_step__wrong_thirteenth_root_of_d_latent(
    x: torch.Tensor, cache: torch.Tensor, params: dict[str, torch.Tensor], n_heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Divides the scores by the root of d_latent, over which the product now runs; it stands for one over d_head."""
    B, t, d_latent = cache.shape
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).view(B, n_heads, -1)
    up_k = params["W_UK"].view(d_latent, n_heads, -1)
    up_v = params["W_UV"].view(d_latent, n_heads, -1)
    q_latent = torch.einsum("bhd,chd->bhc", q, up_k)
    a = torch.softmax(torch.einsum("bhc,btc->bht", q_latent, C) / d_latent**0.5, dim=-1)
    mixed = torch.einsum("bht,btc->bhc", a, C)
    heads = torch.einsum("bhc,chd->bhd", mixed, up_v)
    return heads.reshape(B, 1, -1) @ params["W_O"], C


def latent_step__wrong_thirteenth_no_softmax(
    x: torch.Tensor, cache: torch.Tensor, params: dict[str, torch.Tensor], n_heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Moves the brackets through the whole chain without the softmax; between scores and values it has to stay."""
    C = torch.cat((cache, x @ params["W_DKV"]), dim=1)
    gram = C.mT @ C
    W_Q, W_UK = params["W_Q"].chunk(n_heads, dim=1), params["W_UK"].chunk(n_heads, dim=1)
    W_UV = params["W_UV"].chunk(n_heads, dim=1)
    heads = []
    for w_q, w_uk, w_uv in zip(W_Q, W_UK, W_UV):
        query = x @ w_q @ w_uk.T / math.sqrt(w_q.shape[1])
        heads.append(query @ gram @ w_uv)
    return torch.cat(heads, dim=-1) @ params["W_O"], C


def latent_step__wrong_thirteenth_new_latent_first(
    x: torch.Tensor, cache: torch.Tensor, params: dict[str, torch.Tensor], n_heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Puts the new latent in front of the old ones in the cache; it comes last."""
    newest = x @ params["W_DKV"]
    C = torch.cat([newest, cache], dim=1)
    h = n_heads
    q = (x @ params["W_Q"]).unflatten(-1, (h, -1))[:, 0]
    W_UK = params["W_UK"].unflatten(1, (h, -1))
    W_UV = params["W_UV"].unflatten(1, (h, -1))
    scores = torch.einsum("bhd,lhd,btl->bht", q, W_UK, C) / math.sqrt(q.shape[-1])
    read = torch.softmax(scores, dim=-1) @ C
    out = torch.einsum("bhl,lhv->bhv", read, W_UV).flatten(1)
    return (out @ params["W_O"])[:, None], C


def latent_step__wrong_thirteenth_value_matrix_viewed(
    x: torch.Tensor, cache: torch.Tensor, params: dict[str, torch.Tensor], n_heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Views W_UV as (h, d_latent, d_v), which cuts it by rows; a head owns a block of columns."""
    B, _, d_latent = cache.shape
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_head = params["W_UK"].shape[1] // n_heads
    q = (x @ params["W_Q"]).reshape(B, n_heads, d_head)
    q = torch.einsum("bhd,lhd->bhl", q, params["W_UK"].reshape(d_latent, n_heads, d_head))
    weights = (q @ C.transpose(1, 2) / math.sqrt(d_head)).softmax(dim=-1)
    latent_out = weights @ C
    W_UV = params["W_UV"].reshape(n_heads, d_latent, -1)
    values = torch.einsum("bhl,hlv->bhv", latent_out, W_UV)
    return values.reshape(B, 1, -1) @ params["W_O"], C


def latent_step__wrong_thirteenth_d_head_from_d_model(
    x: torch.Tensor, cache: torch.Tensor, params: dict[str, torch.Tensor], n_heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes d_model / h for d_head in the scale; d_head is the width of W_Q by h, which may be another number."""
    d_model = x.shape[-1]
    scale = 1 / math.sqrt(d_model / n_heads)
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    Q = _split_heads(x @ params["W_Q"], n_heads).squeeze(2)
    UK = params["W_UK"].unflatten(1, (n_heads, -1)).permute(1, 2, 0)
    UV = params["W_UV"].unflatten(1, (n_heads, -1)).transpose(0, 1)
    latent_queries = (Q.transpose(0, 1) @ UK).transpose(0, 1)
    A = torch.softmax(scale * latent_queries @ C.mT, dim=-1)
    heads = (A @ C).transpose(0, 1) @ UV
    return heads.transpose(0, 1).flatten(1).unsqueeze(1) @ params["W_O"], C


def latent_step__wrong_thirteenth_silent_on_empty_cache(
    x: torch.Tensor, cache: torch.Tensor, params: dict[str, torch.Tensor], n_heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gives zeros for the first token, as there is nothing to read in the cache; a token sees itself, too."""
    new = x @ params["W_DKV"]
    longer = torch.cat([cache, new], dim=1)
    if cache.shape[1] == 0:
        return torch.zeros_like(x), longer
    width_k = params["W_UK"].shape[1] // n_heads
    width_v = params["W_UV"].shape[1] // n_heads
    q = x @ params["W_Q"]
    heads = []
    for a in range(n_heads):
        cols_k = slice(a * width_k, (a + 1) * width_k)
        cols_v = slice(a * width_v, (a + 1) * width_v)
        moved = q[..., cols_k] @ params["W_UK"][:, cols_k].T
        weights = torch.softmax(moved @ longer.mT / width_k**0.5, dim=-1)
        heads.append((weights @ longer) @ params["W_UV"][:, cols_v])
    return torch.cat(heads, dim=-1) @ params["W_O"], longer


def latent_step__wrong_thirteenth_builds_keys_and_values(
    x: torch.Tensor, cache: torch.Tensor, params: dict[str, torch.Tensor], n_heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Builds keys and values of each head from the latents; the result is right, but they must never be built."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    Q = (x @ params["W_Q"]).chunk(n_heads, dim=-1)
    out = 0
    for q, w_k, w_v, w_o in zip(
        Q,
        params["W_UK"].chunk(n_heads, dim=1),
        params["W_UV"].chunk(n_heads, dim=1),
        params["W_O"].chunk(n_heads, dim=0),
    ):
        keys, values = C @ w_k, C @ w_v
        weights = torch.softmax(q @ keys.mT / math.sqrt(q.shape[-1]), dim=-1)
        out = out + weights @ values @ w_o
    return out, C


def latent_step__right_thirteenth_matrices_joined_first(
    x: torch.Tensor, cache: torch.Tensor, params: dict[str, torch.Tensor], n_heads: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Joins W_Q with W_UK and W_UV with W_O for each head first, and sums over the heads at the end."""
    h = n_heads
    d_head = params["W_Q"].shape[1] // h
    into = torch.einsum("mhd,lhd->hml", params["W_Q"].unflatten(1, (h, -1)), params["W_UK"].unflatten(1, (h, -1)))
    back = torch.einsum("lhv,hvm->hlm", params["W_UV"].unflatten(1, (h, -1)), params["W_O"].unflatten(0, (h, -1)))
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    asked = torch.einsum("bm,hml->bhl", x[:, 0], into)
    weights = torch.softmax(asked @ C.mT / math.sqrt(d_head), dim=-1)
    return torch.einsum("bhl,hlm->bm", weights @ C, back)[:, None], C


# ------- 10.9 delta_rule


def delta_rule__wrong_thirteenth_takes_off_plain_values(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, beta: torch.Tensor, state: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes off what earlier tokens would have written without correction; what they wrote is corrected itself."""
    S0 = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=V.dtype) if state is None else state
    b = beta[..., None]
    plain = b * (V - K @ S0)
    held = (K @ K.mT).tril(-1) @ plain
    U = plain - b * held
    out = Q @ S0 + (Q @ K.mT).tril() @ U
    return out, S0 + K.mT @ U


def delta_rule__wrong_thirteenth_erases_in_full(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, beta: torch.Tensor, state: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lets beta weigh the new value only and erases the old one in full; beta multiplies the whole difference."""
    B, h, n, d_k = K.shape
    start = torch.zeros(B, h, d_k, V.shape[-1], dtype=V.dtype) if state is None else state
    system = torch.eye(n, dtype=K.dtype) + torch.tril(K @ K.mT, diagonal=-1)
    right_side = beta.unsqueeze(-1) * V - K @ start
    U = torch.linalg.solve_triangular(system, right_side, upper=False, unitriangular=True)
    reads = torch.tril(Q @ K.mT)
    return reads @ U + Q @ start, start + K.mT @ U


def delta_rule__wrong_thirteenth_later_tokens_count(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, beta: torch.Tensor, state: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sets all tokens right against all others at once, later ones too; a token knows only what was written before."""
    if state is None:
        state = K.new_zeros(K.shape[0], K.shape[1], K.shape[3], V.shape[3])
    n = K.shape[2]
    others = (K @ K.mT) * (1 - torch.eye(n, dtype=K.dtype))
    A = torch.eye(n, dtype=K.dtype) + beta[..., :, None] * others
    u = torch.linalg.solve(A, beta[..., None] * (V - K @ state))
    out = Q @ state + torch.tril(Q @ K.mT) @ u
    return out, state + torch.einsum("bhnk,bhnv->bhkv", K, u)


def delta_rule__wrong_thirteenth_beta_of_columns(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, beta: torch.Tensor, state: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Multiplies the columns of the system by beta; it belongs to the token that writes, so to the rows."""
    n = K.size(2)
    past = torch.ones(n, n, dtype=K.dtype).tril(-1)
    M = torch.eye(n, dtype=K.dtype) + past * torch.einsum("bhid,bhjd,bhj->bhij", K, K, beta)
    target = V if state is None else V - K @ state
    U = torch.linalg.solve_triangular(M, beta[..., None] * target, upper=False)
    S = K.mT @ U if state is None else state + K.mT @ U
    out = (Q @ K.mT * (past + torch.eye(n, dtype=K.dtype))) @ U
    if state is not None:
        out = out + Q @ state
    return out, S


def delta_rule__wrong_thirteenth_diagonal_twice(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, beta: torch.Tensor, state: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keeps the diagonal of the key products and adds the identity to it; the products begin below the diagonal."""
    B, h, n, d_k = Q.shape
    S0 = torch.zeros(B, h, d_k, V.size(-1), dtype=Q.dtype) if state is None else state
    kk = torch.matmul(K, K.transpose(-1, -2))
    lower = torch.tril(kk * beta.unsqueeze(-1))
    system = lower + torch.eye(n, dtype=Q.dtype)
    rhs = (V - torch.matmul(K, S0)) * beta.unsqueeze(-1)
    U = torch.linalg.solve_triangular(system, rhs, upper=False)
    qk = torch.tril(torch.matmul(Q, K.transpose(-1, -2)))
    return torch.matmul(Q, S0) + torch.matmul(qk, U), S0 + torch.matmul(K.transpose(-1, -2), U)


def delta_rule__wrong_thirteenth_reads_before_writing(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, beta: torch.Tensor, state: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lets each token read the state before its own pair is written, q_t S_(t-1); it is o_t = q_t S_t."""
    before = 0 * (K[:, :, :1].mT @ V[:, :, :1]) if state is None else state
    b = beta[..., None]
    T = torch.linalg.inv(torch.eye(K.shape[2], dtype=K.dtype) + (b * K @ K.mT).tril(-1))
    written = T @ (b * (V - K @ before))
    out = Q @ before + (Q @ K.mT).tril(-1) @ written
    return out, before + K.mT @ written


def delta_rule__wrong_thirteenth_series_of_sixteen(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, beta: torch.Tensor, state: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums the series of the inverse up to the 15th power, exact for 16 tokens at most; a text may be longer."""
    S0 = torch.zeros(*K.shape[:2], K.shape[3], V.shape[3], dtype=K.dtype) if state is None else state
    power = -(beta[..., None] * (K @ K.mT)).tril(-1)
    U = beta[..., None] * (V - K @ S0)
    for _ in range(4):  # (1 + M)(1 + M^2)(1 + M^4)(1 + M^8)
        U = U + power @ U
        power = power @ power
    return Q @ S0 + (Q @ K.mT).tril() @ U, S0 + K.mT @ U


def delta_rule__wrong_thirteenth_loop_over_tokens(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, beta: torch.Tensor, state: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Goes token after token in a Python loop, as the definition says; no loop over the tokens is allowed."""
    B, h, n, d_k = K.shape
    S = torch.zeros(B, h, d_k, V.shape[-1], dtype=V.dtype) if state is None else state
    out = []
    for t in range(n):
        k, v, q = K[:, :, t : t + 1], V[:, :, t : t + 1], Q[:, :, t : t + 1]
        S = S + beta[:, :, t, None, None] * k.mT @ (v - k @ S)
        out.append(q @ S)
    return torch.cat(out, dim=2), S


def delta_rule__right_thirteenth_chunks_with_two_solutions(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, beta: torch.Tensor, state: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Solves chunks of 32 for values and keys together, so that what is written is U - W S with the chunk's first S."""
    n, d_v = K.shape[2], V.shape[3]
    S = torch.zeros(*K.shape[:2], K.shape[3], d_v, dtype=V.dtype) if state is None else state
    outs = []
    for first in range(0, max(n, 1), 32):
        part = slice(first, first + 32)
        q, k, v, b = Q[:, :, part], K[:, :, part], V[:, :, part], beta[:, :, part, None]
        both = b * torch.cat([v, k], dim=-1)
        solved = torch.linalg.solve_triangular((b * k @ k.mT).tril(-1), both, upper=False, unitriangular=True)
        written = solved[..., :d_v] - solved[..., d_v:] @ S
        outs.append(q @ S + (q @ k.mT).tril() @ written)
        S = S + k.mT @ written
    return torch.cat(outs, dim=2), S
