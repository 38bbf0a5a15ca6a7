import math

import torch
import torch.nn.functional as F


def split_heads(X, n_heads):
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(X):
    return X.transpose(1, 2).flatten(2)


def masked_softmax(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def _rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    speeds = base ** (-2 * torch.arange(d // 2, dtype=torch.float64) / d)
    angles = positions.to(torch.float64)[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def _rms_norm(x, gamma, eps=1e-6):
    return gamma * x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)


def _swiglu(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def _sliding_window_mask(n_new, n_total, window):
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j <= i) & (j > i - window)


_masks_made = {}


# ---------------------------------------------------------------- rotate


def rotate__wrong_fifteenth_angles_repeated_for_neighbours(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Repeats each angle for two neighbours, beside halves that change places; due: the table of angles twice over."""
    d = x.shape[-1]
    inv_freq = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = torch.outer(positions.double(), inv_freq).repeat_interleave(2, dim=-1)
    x1, x2 = x.chunk(2, dim=-1)
    rotated_half = torch.cat((-x2, x1), dim=-1)
    return x * angles.cos().to(x.dtype) + rotated_half * angles.sin().to(x.dtype)


def rotate__wrong_fifteenth_speeds_down_to_one_over_base(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Spreads the exponents from 0 to 1 inclusive; due: 2p/d, which stops short of 1."""
    half = x.shape[-1] // 2
    speeds = base ** -torch.linspace(0, 1, half, dtype=torch.float64)
    theta = positions.double().unsqueeze(-1) * speeds
    c, s = torch.cos(theta).to(x.dtype), torch.sin(theta).to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * c - second * s, second * c + first * s], -1)


def rotate__wrong_fifteenth_positions_relative_to_first(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Counts distances from the first row, as only distances matter to a score; due: the positions themselves."""
    d = x.shape[-1]
    p = torch.arange(d // 2, dtype=torch.float64)
    distance = (positions - positions[:1]).double()
    angle = distance[:, None] * base ** (-2 * p / d)
    cos = torch.cos(angle).to(x.dtype)
    sin = torch.sin(angle).to(x.dtype)
    lo, hi = x.split(d // 2, dim=-1)
    return torch.cat([lo * cos - hi * sin, hi * cos + lo * sin], dim=-1)


def rotate__wrong_fifteenth_second_half_from_turned_first(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Turns the second half with the first half's new values; due: both from the old ones."""
    half = x.shape[-1] // 2
    freqs = 1.0 / base ** (torch.arange(half).double() / half)
    angles = positions.double()[:, None] * freqs[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    a = a * cos - b * sin
    b = b * cos + a * sin
    return torch.cat([a, b], dim=-1)


def rotate__wrong_fifteenth_power_binds_before_product(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Takes base**-2 times p/d for the speed; due: base to the power -2p/d."""
    d = x.shape[-1]
    p = torch.arange(d // 2).double()
    speed = base**-2 * p / d
    angles = positions.double()[:, None] * speed
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


def rotate__wrong_fifteenth_full_turns_for_radians(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Takes position * speed as a count of full turns; due: as an angle in radians."""
    d = x.shape[-1]
    turns = positions.double()[:, None] * base ** (-torch.arange(0, d, 2).double() / d)
    theta = 2 * math.pi * turns
    C, S = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
    u, v = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat((u * C - v * S, v * C + u * S), dim=-1)


def rotate__wrong_fifteenth_speeds_by_running_product_in_float32(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Multiplies up the speeds in the dtype of x, too coarse for wide float32 heads; due: right to 1e-4 below 1,000."""
    half = x.shape[-1] // 2
    step = torch.full((half,), base ** (-1 / half), dtype=x.dtype)
    step[0] = 1.0
    speeds = step.cumprod(0)
    angles = positions.to(x.dtype)[:, None] * speeds
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def rotate__wrong_fifteenth_positions_get_an_axis_in_place(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Gives positions that are float64 already a second axis in place; due: inputs are left as they are."""
    d = x.shape[-1]
    column = positions.to(torch.float64).unsqueeze_(1)
    speeds = torch.tensor([base ** (-2 * p / d) for p in range(d // 2)], dtype=torch.float64)
    angles = column * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def rotate__right_fifteenth_product_of_complex_numbers(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Takes each pair as one complex number and multiplies it by exp(i theta): right."""
    half = x.shape[-1] // 2
    log_speed = torch.arange(half, dtype=torch.float64) * (-math.log(base) / half)
    theta = positions.to(torch.float64).unsqueeze(-1) * log_speed.exp()
    spin = torch.complex(theta.cos().to(x.dtype), theta.sin().to(x.dtype))
    z = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous()) * spin
    return torch.cat([z.real, z.imag], dim=-1)


# ---------------------------------------------------------------- rms_norm


def rms_norm__wrong_fifteenth_mean_of_roots(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Takes the mean of the roots of the squares; due: the root of the mean of the squares."""
    size = torch.sqrt(x**2 + eps).mean(dim=-1, keepdim=True)
    return gamma * (x / size)


def rms_norm__wrong_fifteenth_divides_by_d_minus_one(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Averages the squares over d - 1, as an unbiased variance does; due: over d."""
    d = x.shape[-1]
    power = torch.einsum("...d,...d->...", x, x) / max(d - 1, 1)
    return gamma * x * torch.rsqrt(power + eps)[..., None]


def rms_norm__wrong_fifteenth_eps_as_a_lower_bound(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Uses eps as the least mean square that is allowed; due: eps is added to it."""
    mean_square = x.square().mean(-1, keepdim=True)
    return gamma * x / mean_square.clamp_min(eps).sqrt()


def rms_norm__wrong_fifteenth_eps_gets_squared(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Adds the square of eps under the root; due: eps itself."""
    rms_squared = (x * x).mean(dim=-1, keepdim=True)
    length = torch.sqrt(rms_squared + eps**2)
    return x / length * gamma


def rms_norm__wrong_fifteenth_power_minus_one_halved(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Halves the power -1, for want of a bracket; due: the power -1/2."""
    ms = x.pow(2).mean(-1, keepdim=True) + eps
    factor = ms**-1 / 2
    return gamma * x * factor


def rms_norm__wrong_fifteenth_returns_the_factor(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Gives what each entry is to be multiplied by; due: the product with x."""
    root = (x.square().sum(-1, keepdim=True) / x.shape[-1] + eps).sqrt()
    return gamma / root


def rms_norm__wrong_fifteenth_no_slope_at_a_row_of_zeros(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Takes a root before eps is there, so that a token of zeros has NaN for a gradient; due: gradients flow."""
    rms = x.square().mean(dim=-1, keepdim=True).sqrt()
    bottom = torch.sqrt(rms * rms + eps)
    return gamma * x / bottom


def rms_norm__wrong_fifteenth_float32_inside(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Works in float32 and converts back, which costs float64 its digits; due: the dtype is kept throughout."""
    dtype = x.dtype
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return gamma * h.to(dtype)


def rms_norm__right_fifteenth_length_and_hypotenuse(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """sqrt(d) x / hypot(|x|, sqrt(d eps)), which is the same: right."""
    d = x.shape[-1]
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    whole = torch.hypot(length, length.new_tensor(math.sqrt(d * eps)))
    return x * (gamma * math.sqrt(d)) / whole


# ---------------------------------------------------------------- swiglu


def swiglu__wrong_fifteenth_sigmoid_of_up_opens_the_gate(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Uses F.glu on gate and up: gate * sigmoid(up); due: gate * sigmoid(gate) * up."""
    both = torch.cat([x @ W_gate, x @ W_up], dim=-1)
    return F.glu(both, dim=-1) @ W_down


def swiglu__wrong_fifteenth_silu_before_the_gate_matrix(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Applies silu to x and multiplies by W_gate then; due: silu of x W_gate."""
    gate = F.silu(x) @ W_gate
    up = x @ W_up
    return (gate * up) @ W_down


def swiglu__wrong_fifteenth_gated_behind_w_down(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Takes both products down first and multiplies them there; due: they meet in d_ff."""
    opened = F.silu(torch.matmul(x, W_gate)) @ W_down
    content = torch.matmul(x, W_up) @ W_down
    return opened * content


def swiglu__wrong_fifteenth_sigmoid_with_a_minus(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Has z * sigmoid(-z) for silu; due: z * sigmoid(z)."""
    z = x @ W_gate
    silu = z / (1 + torch.exp(z))
    return silu * (x @ W_up) @ W_down


def swiglu__wrong_fifteenth_gate_product_used_twice(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Takes W_gate for both products; due: up is x W_up."""
    gate = x @ W_gate
    up = x @ W_gate
    opened = gate * torch.sigmoid(gate)
    return (opened * up) @ W_down


def swiglu__wrong_fifteenth_norms_its_input(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Norms x first, which is the block's step 7; due: x goes in as it is."""
    z = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    return (F.silu(z @ W_gate) * (z @ W_up)) @ W_down


def swiglu__wrong_fifteenth_exponent_clamped_at_ten(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Clamps the exponent to ±10 against overflow, so very negative gates leak; due: silu for all numbers."""

    def silu(z):
        return z / (1 + torch.exp(-z.clamp(-10, 10)))

    return (silu(x @ W_gate) * (x @ W_up)) @ W_down


def swiglu__wrong_fifteenth_single_token_gets_an_axis_in_place(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Gives a lone token a second axis in place and leaves it there; due: inputs are left as they are."""
    alone = x.dim() == 1
    if alone:
        x.unsqueeze_(0)
    hidden = F.silu(F.linear(x, W_gate.T)) * F.linear(x, W_up.T)
    out = F.linear(hidden, W_down.T)
    return out[0] if alone else out


def swiglu__right_fifteenth_one_product_and_tanh(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """One product for both, and sigmoid(z) = (1 + tanh(z/2)) / 2: right."""
    half_gate, up = (x @ torch.cat([W_gate / 2, W_up], dim=1)).tensor_split([W_gate.shape[1]], dim=-1)
    return torch.addcmul(half_gate, half_gate, half_gate.tanh()).mul(up) @ W_down


# ---------------------------------------------------------------- sliding_window_mask


def sliding_window_mask__wrong_fifteenth_one_window_for_all_rows(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Keeps the last tokens of the whole text for every row; due: a window that moves with the row."""
    i = torch.arange(n_total - n_new, n_total).unsqueeze(1)
    j = torch.arange(n_total).unsqueeze(0)
    recent = j >= n_total - window
    return recent & (j <= i)


def sliding_window_mask__wrong_fifteenth_blocks_for_windows(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Cuts the text into blocks of the window's size, each seeing itself; due: a window that slides."""
    rows = n_total - n_new + torch.arange(n_new)
    cols = torch.arange(n_total)
    same_block = (rows // window)[:, None] == (cols // window)[None]
    causal = cols[None] <= rows[:, None]
    return same_block & causal


def sliding_window_mask__wrong_fifteenth_cache_always_seen(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Windows the new tokens only and lets all see the whole cache; due: the window holds for cached keys, too."""
    old = n_total - n_new
    r = torch.arange(n_new)
    among_new = (r[None, :] <= r[:, None]) & (r[:, None] - r[None, :] < window)
    return torch.cat([torch.ones(n_new, old, dtype=torch.bool), among_new], dim=1)


def sliding_window_mask__wrong_fifteenth_row_position_one_too_high(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """Puts row r at n_total - n_new + r + 1; due: without the 1."""
    i = torch.arange(1, n_total + 1)[-n_new:, None]
    j = torch.arange(n_total)[None, :]
    return (j <= i) & (i - j < window)


def sliding_window_mask__wrong_fifteenth_or_for_and(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Joins the two comparisons with or; due: with and."""
    i = torch.arange(n_new)[:, None] + (n_total - n_new)
    j = torch.arange(n_total)
    not_later = j <= i
    near_enough = j > i - window
    return not_later | near_enough


def sliding_window_mask__wrong_fifteenth_zeros_and_minus_infinity(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """Gives numbers to be added to the scores; due: booleans, True for may attend."""
    mask = torch.full((n_new, n_total), float("-inf"))
    for r in range(n_new):
        i = n_total - n_new + r
        mask[r, max(0, i - window + 1) : i + 1] = 0.0
    return mask


def sliding_window_mask__wrong_fifteenth_wide_window_sees_later(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Lets everyone see everything where the window covers the text; due: causal all the same."""
    if window >= n_total:
        return torch.ones(n_new, n_total, dtype=torch.bool)
    i = torch.arange(n_total - n_new, n_total)[:, None]
    distance = i - torch.arange(n_total)
    return (distance >= 0) & (distance < window)


def sliding_window_mask__wrong_fifteenth_same_tensor_every_time(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Keeps each mask and hands out the very same tensor again; due: what comes back is a new tensor."""
    key = n_new, n_total, window
    if key not in _masks_made:
        i = torch.arange(n_total - n_new, n_total)[:, None]
        j = torch.arange(n_total)[None, :]
        _masks_made[key] = (i - window < j) & (j <= i)
    return _masks_made[key]


def sliding_window_mask__right_fifteenth_two_triangles_xor(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """What is not later, less what is too far back, as two triangles that differ: right."""
    everything = torch.ones(n_new, n_total, dtype=torch.bool)
    here = n_total - n_new
    return everything.tril(here) ^ everything.tril(here - window)


# ---------------------------------------------------------------- modern_block


def modern_block__wrong_fifteenth_qk_norm_over_all_heads(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Norms queries and keys over all heads together, before the split; due: over each head."""
    p, n = params, x.shape[1]
    d_head = p["gamma_q"].numel()
    z = _rms_norm(x, p["gamma_1"])
    q = _rms_norm(z @ p["W_Q"], p["gamma_q"].repeat(n_heads))
    k = _rms_norm(z @ p["W_K"], p["gamma_k"].repeat(n_kv_heads))
    Q, K, V = split_heads(q, n_heads), split_heads(k, n_kv_heads), split_heads(z @ p["W_V"], n_kv_heads)
    Q, K = _rotate(Q, positions), _rotate(K, positions)
    K, V = (t.repeat_interleave(n_heads // n_kv_heads, dim=1) for t in (K, V))
    A = masked_softmax(Q @ K.mT / math.sqrt(d_head), _sliding_window_mask(n, n, window or n))
    y = x + merge_heads(A @ V) @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_fifteenth_normed_x_in_the_residual(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Adds the attention's result to the normed x; due: to x itself."""
    n = x.shape[1]
    x = _rms_norm(x, params["gamma_1"])
    Q = split_heads(x @ params["W_Q"], n_heads)
    K = split_heads(x @ params["W_K"], n_kv_heads)
    V = split_heads(x @ params["W_V"], n_kv_heads)
    Q = _rotate(_rms_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, params["gamma_k"]), positions)
    share = n_heads // n_kv_heads
    K, V = K.repeat_interleave(share, 1), V.repeat_interleave(share, 1)
    mask = _sliding_window_mask(n, n, n if window is None else window)
    weights = masked_softmax(Q @ K.transpose(-1, -2) / math.sqrt(Q.shape[-1]), mask)
    y = x + merge_heads(weights @ V) @ params["W_O"]
    z = _rms_norm(y, params["gamma_2"])
    return y + _swiglu(z, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_fifteenth_second_norm_behind_the_ffn(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Norms what comes out of the feed-forward layer; due: what goes in."""
    B, n, _ = x.shape
    window = n if window is None else window
    z = _rms_norm(x, params["gamma_1"])
    heads = {}
    for c, count in (("Q", n_heads), ("K", n_kv_heads), ("V", n_kv_heads)):
        heads[c] = split_heads(z @ params[f"W_{c}"], count)
    for c in "QK":
        heads[c] = _rotate(_rms_norm(heads[c], params[f"gamma_{c.lower()}"]), positions)
    for c in "KV":
        heads[c] = heads[c].repeat_interleave(n_heads // n_kv_heads, dim=1)
    scores = heads["Q"] @ heads["K"].mT / heads["Q"].shape[-1] ** 0.5
    attended = masked_softmax(scores, _sliding_window_mask(n, n, window)) @ heads["V"]
    y = x + merge_heads(attended) @ params["W_O"]
    return y + _rms_norm(_swiglu(y, params["W_gate"], params["W_up"], params["W_down"]), params["gamma_2"])


def modern_block__wrong_fifteenth_query_gain_for_the_keys(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Norms the keys with the query heads' gain, too; due: with gamma_k."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])

    def ready(W, count):
        return _rotate(_rms_norm(split_heads(z @ W, count), params["gamma_q"]), positions)

    Q, K = ready(params["W_Q"], n_heads), ready(params["W_K"], n_kv_heads)
    V = split_heads(z @ params["W_V"], n_kv_heads)
    K = K.repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = V.repeat_interleave(n_heads // n_kv_heads, dim=1)
    mask = _sliding_window_mask(n, n, window or n)
    A = masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + merge_heads(A @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_fifteenth_heads_merged_without_transpose(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Reshapes (B, h, n, d_head) to rows as it stands; due: heads and tokens change places first."""
    B, n, d_model = x.shape
    p = params
    z = _rms_norm(x, p["gamma_1"])
    q = (z @ p["W_Q"]).view(B, n, n_heads, -1).permute(0, 2, 1, 3)
    k = (z @ p["W_K"]).view(B, n, n_kv_heads, -1).permute(0, 2, 1, 3)
    v = (z @ p["W_V"]).view(B, n, n_kv_heads, -1).permute(0, 2, 1, 3)
    q = _rotate(_rms_norm(q, p["gamma_q"]), positions)
    k = _rotate(_rms_norm(k, p["gamma_k"]), positions)
    k = k.repeat_interleave(n_heads // n_kv_heads, dim=1)
    v = v.repeat_interleave(n_heads // n_kv_heads, dim=1)
    mask = _sliding_window_mask(n, n, n if window is None else window)
    att = masked_softmax(q @ k.mT / math.sqrt(q.size(-1)), mask) @ v
    y = x + att.reshape(B, n, -1) @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_fifteenth_window_without_the_token_itself(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Counts the window's tokens before the token and lets it see itself besides; due: it is one of them."""
    n, group = x.shape[1], n_heads // n_kv_heads
    z = _rms_norm(x, params["gamma_1"])
    Q = _rotate(_rms_norm(split_heads(z @ params["W_Q"], n_heads), params["gamma_q"]), positions)
    K = _rotate(_rms_norm(split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"]), positions)
    V = split_heads(z @ params["W_V"], n_kv_heads)
    K, V = K.repeat_interleave(group, dim=1), V.repeat_interleave(group, dim=1)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    if window is not None:
        mask = mask.triu(-window)
    out = masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask) @ V
    y = x + merge_heads(out) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_fifteenth_fractional_positions_cut_off(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Makes whole numbers of the positions; due: the rotation takes fractions, as interpolated positions are."""
    n = x.shape[1]
    where = positions.to(torch.long)
    z = _rms_norm(x, params["gamma_1"])
    Q, K, V = (
        split_heads(z @ params[name], count)
        for name, count in (("W_Q", n_heads), ("W_K", n_kv_heads), ("W_V", n_kv_heads))
    )
    Q = _rotate(_rms_norm(Q, params["gamma_q"]), where)
    K = _rotate(_rms_norm(K, params["gamma_k"]), where)
    K, V = (one.repeat_interleave(n_heads // n_kv_heads, dim=1) for one in (K, V))
    mask = _sliding_window_mask(n, n, n if window is None else window)
    A = masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + merge_heads(A @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_fifteenth_keeps_its_mask_in_params(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Stores the mask in the dict that was handed in, for the next call; due: inputs are left as they are."""
    n = x.shape[1]
    name = f"mask_{n}_{window}"
    if name not in params:
        params[name] = _sliding_window_mask(n, n, window or n)
    z = _rms_norm(x, params["gamma_1"])
    Q = _rms_norm(split_heads(z @ params["W_Q"], n_heads), params["gamma_q"])
    K = _rms_norm(split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"])
    V = split_heads(z @ params["W_V"], n_kv_heads)
    Q, K = _rotate(Q, positions), _rotate(K, positions)
    K = K.repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = V.repeat_interleave(n_heads // n_kv_heads, dim=1)
    A = masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), params[name])
    y = x + merge_heads(A @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__right_fifteenth_groups_as_an_axis(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Gives the query heads of a group an axis of their own, and no key is repeated: right."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    q = (z @ params["W_Q"]).unflatten(-1, (n_kv_heads, n_heads // n_kv_heads, -1))
    k = (z @ params["W_K"]).unflatten(-1, (n_kv_heads, -1))
    v = (z @ params["W_V"]).unflatten(-1, (n_kv_heads, -1))
    q = _rotate(_rms_norm(q, params["gamma_q"]).permute(0, 2, 3, 1, 4), positions)
    k = _rotate(_rms_norm(k, params["gamma_k"]).transpose(1, 2), positions)
    scores = torch.einsum("bgrnd,bgmd->bgrnm", q, k) * q.shape[-1] ** -0.5
    far = torch.arange(n)[:, None] - torch.arange(n)
    seen = (far >= 0) if window is None else (far >= 0) & (far < window)
    weights = scores.masked_fill(seen.logical_not(), -math.inf).log_softmax(-1).exp()
    heads = torch.einsum("bgrnm,bmgd->bngrd", weights, v).flatten(2)
    y = torch.baddbmm(x, heads, params["W_O"].expand(x.shape[0], -1, -1))
    u = _rms_norm(y, params["gamma_2"])
    return y + (F.silu(u @ params["W_gate"]) * (u @ params["W_up"])) @ params["W_down"]


# ---------------------------------------------------------------- sink_attention


def sink_attention__wrong_fifteenth_sink_added_to_first_key(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Raises the first key's score by the sink; due: the sink is a place of its own, without a value."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    first = torch.zeros(K.shape[2], dtype=Q.dtype)
    first[0] = 1.0
    scores = scores + sink[:, None, None] * first
    return masked_softmax(scores, mask) @ V


def sink_attention__wrong_fifteenth_fixed_gate_per_head(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Dims each head's output by a share that the sink alone fixes; due: the share depends on the scores."""
    weights = masked_softmax(Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5, mask)
    share = 1 / (1 + torch.exp(sink))
    return (weights @ V) * share.view(1, -1, 1, 1)


def sink_attention__wrong_fifteenth_sink_not_shifted_by_the_maximum(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the maximum off the scores and not off the sink; due: off both."""
    scores = Q @ K.mT / math.sqrt(K.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    top = scores.amax(dim=-1, keepdim=True)
    e = torch.exp(scores - top)
    if mask is not None:
        e = e * mask
    total = e.sum(-1, keepdim=True) + torch.exp(sink)[:, None, None]
    return (e / total) @ V


def sink_attention__wrong_fifteenth_drops_the_first_column(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Puts the sink's column last and drops the first one; due: the last."""
    B, h, n, _ = Q.shape
    scores = torch.einsum("bhnd,bhmd->bhnm", Q, K) / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    column = sink.view(1, h, 1, 1).expand(B, h, n, 1)
    weights = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)
    return weights[..., 1:] @ V


def sink_attention__wrong_fifteenth_root_of_the_values_width(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides the scores by the root of d_v; due: of d_k."""
    B, h, n, d = *Q.shape[:3], V.shape[-1]
    scores = Q @ K.mT / math.sqrt(d)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    column = sink[None, :, None, None].expand(B, h, n, 1)
    return torch.softmax(torch.cat([column, scores], -1), -1)[..., 1:] @ V


def sink_attention__wrong_fifteenth_true_means_hidden(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Hides the keys where the mask is True; due: True means may attend."""
    B, h, n = Q.shape[:3]
    scores = Q @ K.mT * Q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -torch.inf)
    scores = torch.cat([scores, sink[:, None, None].expand(B, h, n, 1)], dim=3)
    return scores.softmax(dim=3)[..., :-1] @ V


def sink_attention__wrong_fifteenth_hidden_scores_of_minus_ten_thousand(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sets hidden scores to -1e4, where scores and sinks can be as well; due: a hidden key has the weight 0."""
    B, h, n = Q.shape[:3]
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e4)
    column = sink[:, None, None].expand(B, h, n, 1)
    weights = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)
    return weights[..., :-1] @ V


def sink_attention__wrong_fifteenth_inverts_the_mask_in_place(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Turns the caller's mask round in place; due: inputs are left as they are."""
    B, h, n, d_k = Q.shape
    scores = Q @ K.mT / math.sqrt(d_k)
    if mask is not None:
        hidden = mask.logical_not_()
        scores = torch.where(hidden, torch.finfo(scores.dtype).min, scores)
    column = sink.reshape(h, 1, 1).expand(B, h, n, 1)
    return torch.cat([scores, column], dim=-1).softmax(dim=-1)[..., :-1] @ V


def sink_attention__right_fifteenth_softmax_times_sigmoid(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """A softmax among the keys, times what is left to all of them, sigmoid(logsumexp - sink): right."""
    scores = (Q * Q.shape[-1] ** -0.5) @ K.mT
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), torch.finfo(scores.dtype).min)
    level = scores.logsumexp(dim=-1, keepdim=True)
    share = torch.sigmoid(level - sink.view(-1, 1, 1))
    return share * (torch.softmax(scores, dim=-1) @ V)


# ---------------------------------------------------------------- linear_attention


def linear_attention__wrong_fifteenth_each_pair_fades_by_its_own_decay(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fades pair s by its own a_s to the power of its age; due: by the decays of the tokens that came after it."""
    B, h, n, d_k = K.shape
    if decay is None:
        decay = torch.ones_like(K[..., 0])
    if state is None:
        state = torch.zeros_like(K[:, :, 0, :, None] * V[:, :, 0, None, :])
    age = torch.arange(n)[:, None] - torch.arange(n)
    faded = (decay[:, :, None, :] ** age.clamp_min(0)).tril()
    gone = decay.cumprod(dim=-1)[..., None]
    out = (Q @ K.mT * faded) @ V + gone * (Q @ state)
    last = gone[:, :, -1:] * state + (K * faded[:, :, -1, :, None]).mT @ V
    return out, last


def linear_attention__wrong_fifteenth_running_mean(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Writes the new pair with the weight 1 - a, as a running mean does; due: in full."""
    B, h, n, d_k = Q.shape
    S = torch.zeros(B, h, d_k, V.shape[-1], dtype=Q.dtype) if state is None else state
    outs = []
    for t in range(n):
        pair = K[:, :, t, :, None] * V[:, :, t, None, :]
        if decay is None:
            S = S + pair
        else:
            a = decay[:, :, t, None, None]
            S = a * S + (1 - a) * pair
        outs.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S))
    return torch.stack(outs, dim=2), S


def linear_attention__wrong_fifteenth_fades_after_reading(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Writes, reads, and fades at the end of each token; due: fading comes first."""
    B, h, n, _ = K.shape
    S = state
    if S is None:
        S = torch.zeros(B, h, K.shape[-1], V.shape[-1], dtype=V.dtype)
    rows = []
    for t in range(n):
        q, k, v = Q[:, :, t : t + 1], K[:, :, t : t + 1], V[:, :, t : t + 1]
        S = S + k.mT @ v
        rows.append(q @ S)
        if decay is not None:
            S = S * decay[:, :, t].unsqueeze(-1).unsqueeze(-1)
    return torch.cat(rows, dim=2), S


def linear_attention__wrong_fifteenth_reads_with_the_key(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads the state with the token's key; due: with its query."""
    B, h, n, d_k = Q.shape
    S = torch.zeros(B, h, d_k, V.shape[-1], dtype=V.dtype) if state is None else state
    out = []
    for t, (q, k, v) in enumerate(zip(Q.unbind(2), K.unbind(2), V.unbind(2), strict=True)):
        if decay is not None:
            S = decay[:, :, t, None, None] * S
        S = S + k.unsqueeze(-1) * v.unsqueeze(-2)
        out.append((k.unsqueeze(-2) @ S).squeeze(-2))
    return torch.stack(out, dim=2), S


def linear_attention__wrong_fifteenth_decay_of_the_token_before(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Has t - 1 in the index of the decay, at the first token the last one's; due: t."""
    B, h, n, d_k = Q.shape
    a = torch.ones(B, h, n, dtype=Q.dtype) if decay is None else decay
    S = Q.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    out = []
    for t in range(n):
        S = a[:, :, t - 1, None, None] * S + torch.einsum("bhk,bhv->bhkv", K[:, :, t], V[:, :, t])
        out.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S))
    return torch.stack(out, dim=2), S


def linear_attention__wrong_fifteenth_returns_every_state(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gives the states behind all tokens, (B, h, n, d_k, d_v); due: the one behind the last token."""
    S = torch.zeros_like(K[:, :, 0, :, None] * V[:, :, 0, None, :]) if state is None else state
    states = []
    for t in range(K.shape[2]):
        if decay is not None:
            S = S * decay[:, :, t, None, None]
        S = S + K[:, :, t, :, None] * V[:, :, t, None, :]
        states.append(S)
    states = torch.stack(states, dim=2)
    out = (Q.unsqueeze(-2) @ states).squeeze(-2)
    return out, states


def linear_attention__wrong_fifteenth_quotients_of_running_products(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Divides running products of the decays, which underflow in a long text; due: right for any length."""
    B, h, n, d_k = K.shape
    d_v = V.shape[-1]
    if decay is None:
        decay = torch.ones(B, h, n, dtype=K.dtype)
    if state is None:
        state = torch.zeros(B, h, d_k, d_v, dtype=K.dtype)
    total = decay.cumprod(dim=2)
    between = (total[..., :, None] / total[..., None, :]).tril()
    out = (Q @ K.mT * between) @ V + total[..., None] * (Q @ state)
    left = (total[..., -1:] / total)[..., None]
    last = total[..., -1, None, None] * state + (K * left).mT @ V
    return out, last


def linear_attention__wrong_fifteenth_writes_into_the_state_without_decay(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Adds in place, to the very state that was handed in where nothing fades; due: it is left as it is."""
    B, h, n, d_k = Q.shape
    S = torch.zeros(B, h, d_k, V.shape[-1], dtype=Q.dtype) if state is None else state
    outs = []
    for t in range(n):
        if decay is not None:
            S = S * decay[:, :, t, None, None]
        S += K[:, :, t, :, None] * V[:, :, t, None, :]
        outs.append((Q[:, :, t, None, :] @ S)[:, :, 0])
    return torch.stack(outs, dim=2), S


def linear_attention__right_fifteenth_halves_of_the_text(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cuts the text in two until one token is left, and hands the state on: right."""
    a = K.new_ones(K.shape[:3]) if decay is None else decay
    start = K.new_zeros(*K.shape[:2], K.shape[3], V.shape[3]) if state is None else state

    def read(low, high, S):
        if high - low == 0:
            return V[:, :, low:high] + 0, S + 0
        if high - low == 1:
            one = slice(low, high)
            S = S * a[:, :, one, None] + K[:, :, one].mT @ V[:, :, one]
            return Q[:, :, one] @ S, S
        middle = (low + high) // 2
        first, S = read(low, middle, S)
        second, S = read(middle, high, S)
        return torch.cat([first, second], dim=2), S

    return read(0, K.shape[2], start)


# ---------------------------------------------------------------- latent_step


def latent_step__wrong_fifteenth_one_score_for_all_heads(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Multiplies the whole query by the whole W_UK, so that all heads share one score; due: one for each head."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_head = params["W_Q"].shape[1] // n_heads
    asked = (x @ params["W_Q"]) @ params["W_UK"].T
    weights = torch.softmax(asked @ C.mT / math.sqrt(d_head), dim=-1)
    read = weights @ C
    return read @ params["W_UV"] @ params["W_O"], C


def latent_step__wrong_fifteenth_mean_of_the_heads_weights(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads the latents once, with the mean of the heads' weights; due: each head reads with its own."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1))[:, 0]
    W_UK = params["W_UK"].unflatten(-1, (n_heads, -1))
    asked = torch.einsum("bhd,lhd->bhl", q, W_UK)
    A = torch.softmax(asked @ C.mT / q.shape[-1] ** 0.5, dim=-1)
    read = A.mean(dim=1, keepdim=True) @ C
    return read @ params["W_UV"] @ params["W_O"], C


def latent_step__wrong_fifteenth_causal_mask_of_row_zero(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lays a causal mask with the new token as row 0 over the scores; due: it stands last and sees all."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    Q = split_heads(x @ params["W_Q"], n_heads)
    W_UK = params["W_UK"].unflatten(1, (n_heads, -1))
    W_UV = params["W_UV"].unflatten(1, (n_heads, -1))
    moved = torch.einsum("bhnd,lhd->bhnl", Q, W_UK)
    scores = torch.einsum("bhnl,btl->bhnt", moved, C) / math.sqrt(Q.shape[-1])
    mask = torch.ones(x.shape[1], C.shape[1], dtype=torch.bool).tril()
    read = torch.einsum("bhnt,btl->bhnl", masked_softmax(scores, mask), C)
    heads = torch.einsum("bhnl,lhd->bhnd", read, W_UV)
    return merge_heads(heads) @ params["W_O"], C


def latent_step__wrong_fifteenth_head_width_from_d_model(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Divides by the root of d_model / h; due: of d_head, which is the width of W_Q / h."""
    B, _, d_model = x.shape
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_latent = C.shape[-1]
    q = (x @ params["W_Q"]).view(B, n_heads, -1)
    asked = torch.einsum("bhd,lhd->bhl", q, params["W_UK"].view(d_latent, n_heads, -1))
    scores = asked @ C.mT / math.sqrt(d_model / n_heads)
    read = torch.softmax(scores, dim=-1) @ C
    heads = torch.einsum("bhl,lhv->bhv", read, params["W_UV"].view(d_latent, n_heads, -1))
    return heads.reshape(B, 1, -1) @ params["W_O"], C


def latent_step__wrong_fifteenth_heads_cut_from_rows(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Views W_UK and W_UV as (h, d_latent, width) straight away, which mixes rows; due: blocks of columns."""
    B = x.shape[0]
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).reshape(B, n_heads, -1)
    W_UK = params["W_UK"].reshape(n_heads, C.shape[-1], -1)
    W_UV = params["W_UV"].reshape(n_heads, C.shape[-1], -1)
    asked = torch.einsum("bhd,hld->bhl", q, W_UK)
    A = (asked @ C.mT / math.sqrt(q.shape[-1])).softmax(-1)
    heads = torch.einsum("bhl,hlv->bhv", A @ C, W_UV)
    return heads.reshape(B, 1, -1) @ params["W_O"], C


def latent_step__wrong_fifteenth_returns_the_new_latent_only(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gives the new token's latent back, for the caller to append; due: the whole longer cache."""
    new = x @ params["W_DKV"]
    C = torch.cat([cache, new], dim=1)
    q = split_heads(x @ params["W_Q"], n_heads).squeeze(2)
    asked = torch.einsum("bhd,lhd->bhl", q, params["W_UK"].unflatten(-1, (n_heads, -1)))
    weights = torch.softmax(torch.bmm(asked, C.mT) / math.sqrt(q.shape[-1]), dim=-1)
    read = torch.bmm(weights, C)
    heads = torch.einsum("bhl,lhv->bhv", read, params["W_UV"].unflatten(-1, (n_heads, -1)))
    return heads.flatten(1).unsqueeze(1) @ params["W_O"], new


def latent_step__wrong_fifteenth_blocks_joined_without_rescaling(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Adds up blocks of 256 latents, each against its own maximum; due: one softmax, however long the cache is."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1)).squeeze(1)
    asked = torch.einsum("bhd,lhd->bhl", q, params["W_UK"].unflatten(-1, (n_heads, -1)))
    asked = asked / math.sqrt(q.shape[-1])
    top, bottom = 0.0, 0.0
    for block in C.split(256, dim=1):
        scores = asked @ block.mT
        e = torch.exp(scores - scores.amax(-1, keepdim=True))
        top = top + e @ block
        bottom = bottom + e.sum(-1, keepdim=True)
    heads = torch.einsum("bhl,lhv->bhv", top / bottom, params["W_UV"].unflatten(-1, (n_heads, -1)))
    return heads.flatten(1)[:, None] @ params["W_O"], C


def latent_step__wrong_fifteenth_keys_of_one_head_at_a_time(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Builds the keys of the cached tokens head after head; due: not of one head either."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    out = 0
    parts = (params["W_Q"].chunk(n_heads, 1), params["W_UK"].chunk(n_heads, 1))
    parts += (params["W_UV"].chunk(n_heads, 1), params["W_O"].chunk(n_heads, 0))
    for W_q, W_uk, W_uv, W_o in zip(*parts, strict=True):
        keys = C @ W_uk
        scores = (x @ W_q) @ keys.mT / math.sqrt(W_q.shape[1])
        read = torch.softmax(scores, dim=-1) @ C
        out = out + read @ W_uv @ W_o
    return out, C


def latent_step__right_fifteenth_heads_as_a_batch_and_a_sum(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Heads are the batch of the small products, and their shares through W_O are summed: right."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    W_Q, W_UK, W_UV = (torch.stack(params[name].chunk(n_heads, dim=1)) for name in ("W_Q", "W_UK", "W_UV"))
    W_O = torch.stack(params["W_O"].chunk(n_heads, dim=0))
    token = x[:, 0].expand(n_heads, -1, -1)
    asked = torch.bmm(torch.bmm(token, W_Q), W_UK.mT).transpose(0, 1)
    log_weights = torch.log_softmax(torch.bmm(asked, C.mT) * W_Q.shape[-1] ** -0.5, dim=-1)
    read = torch.bmm(log_weights.exp(), C).transpose(0, 1)
    return torch.bmm(torch.bmm(read, W_UV), W_O).sum(dim=0).unsqueeze(1), C


# ---------------------------------------------------------------- delta_rule


def delta_rule__wrong_fifteenth_beta_of_the_earlier_token(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Has the beta of the earlier token in the system, a column's; due: that of the token that writes, a row's."""
    B, h, n, d_k = K.shape
    S = torch.zeros(B, h, d_k, V.shape[-1], dtype=K.dtype) if state is None else state
    system = torch.eye(n, dtype=K.dtype) + (K @ K.mT).tril(-1) * beta[..., None, :]
    right = beta[..., :, None] * (V - K @ S)
    U = torch.linalg.solve_triangular(system, right, upper=False)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_fifteenth_one_round_of_correction(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes off what the tokens before would have written uncorrected, once; due: what they do write."""
    S = torch.zeros_like(K[:, :, 0, :, None] * V[:, :, 0, None, :]) if state is None else state
    b = beta.unsqueeze(-1)
    U = b * (V - K @ S)
    overlap = torch.tril(K @ K.mT, diagonal=-1)
    U = U - b * (overlap @ U)
    out = Q @ S + torch.tril(Q @ K.mT) @ U
    return out, S + K.mT @ U


def delta_rule__wrong_fifteenth_system_with_later_tokens(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lets each token allow for what all others write, later ones, too; due: for the earlier ones alone."""
    n = K.shape[2]
    S = K.new_zeros(*K.shape[:2], K.shape[3], V.shape[3]) if state is None else state
    eye = torch.eye(n, dtype=K.dtype)
    others = (K @ K.mT) * (1 - eye)
    U = torch.linalg.lstsq(eye + beta[..., None] * others, beta[..., None] * (V - K @ S)).solution
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_fifteenth_sign_of_the_system(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Brings all u to one side and forgets to turn the sign; due: I plus the table."""
    B, h, n, d_k = K.shape
    if state is None:
        state = torch.zeros(B, h, d_k, V.shape[-1], dtype=V.dtype)
    table = (beta[..., None] * (K @ K.mT)).tril(-1)
    system = torch.eye(n, dtype=V.dtype) - table
    written = torch.linalg.solve_triangular(system, beta[..., None] * (V - K @ state), upper=False)
    out = Q @ state + (Q @ K.mT).tril() @ written
    return out, state + K.mT @ written


def delta_rule__wrong_fifteenth_reading_table_transposed(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Has k_t q_s in the table for reading; due: q_t k_s."""
    B, h, n, d_k = K.shape
    S = torch.zeros(B, h, d_k, V.shape[3], dtype=K.dtype) if state is None else state
    among_keys = torch.einsum("bhtd,bhsd->bhts", K, K).tril(-1)
    system = torch.eye(n, dtype=K.dtype) + beta[:, :, :, None] * among_keys
    U = torch.linalg.solve_triangular(system, beta[:, :, :, None] * (V - K @ S), upper=False)
    reading = torch.einsum("bhsd,bhtd->bhts", Q, K).tril()
    return Q @ S + reading @ U, S + torch.einsum("bhtk,bhtv->bhkv", K, U)


def delta_rule__wrong_fifteenth_state_with_values_first(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gives the last state as (B, h, d_v, d_k); due: (B, h, d_k, d_v), as it is handed in."""
    S = torch.zeros_like(K[:, :, :1].mT @ V[:, :, :1]) if state is None else state
    b = beta[..., None]
    system = torch.eye(K.shape[2], dtype=K.dtype) + (b * K @ K.mT).tril(-1)
    U = torch.linalg.solve_triangular(system, b * (V - K @ S), upper=False)
    out = Q @ S + (Q @ K.mT).tril() @ U
    return out, S.mT + U.mT @ K


def delta_rule__wrong_fifteenth_chunks_start_from_the_first_state(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Solves chunks of 128 tokens, and a later chunk's tokens read the first state; due: the chunk's own."""
    B, h, n, d_k = K.shape
    if state is None:
        state = torch.zeros(B, h, d_k, V.shape[-1], dtype=K.dtype)
    S, outs = state, []
    for q, k, v, b in zip(*(one.split(128, dim=2) for one in (Q, K, V, beta)), strict=True):
        system = torch.eye(k.shape[2], dtype=k.dtype) + (b[..., None] * (k @ k.mT)).tril(-1)
        u = torch.linalg.solve_triangular(system, b[..., None] * (v - k @ S), upper=False)
        outs.append(q @ state + (q @ k.mT).tril() @ u)
        S = S + k.mT @ u
    return torch.cat(outs, dim=2), S


def delta_rule__wrong_fifteenth_inverse_row_after_row(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Finds the inverse of the system in a loop over its rows, one for each token; due: no loop over the tokens."""
    B, h, n, d_k = K.shape
    S = torch.zeros(B, h, d_k, V.shape[-1], dtype=K.dtype) if state is None else state
    T = -(beta[..., None] * (K @ K.mT)).tril(-1)
    for i in range(1, n):
        row = T[..., i, :].clone()
        new = row[..., :i] + (row[..., :, None] * T[..., :, :i].clone()).sum(-2)
        T[..., i, :i] = new
    T = T + torch.eye(n, dtype=K.dtype)
    U = T @ (beta[..., None] * (V - K @ S))
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__right_fifteenth_prefixes_of_affine_maps(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each token maps S to (I - b k^T k) S + b k^T v; all prefixes of these maps in about log n doublings: right."""
    n, d_k = K.shape[2:]
    written = (beta[..., None] * K)[..., None]
    A = torch.eye(d_k, dtype=K.dtype) - written * K[..., None, :]
    C = written * V[..., None, :]
    step = 1
    while step < n:
        later, earlier = A[:, :, step:], A[:, :, :-step]
        C = torch.cat([C[:, :, :step], later @ C[:, :, :-step] + C[:, :, step:]], dim=2)
        A = torch.cat([A[:, :, :step], later @ earlier], dim=2)
        step *= 2
    first = torch.zeros_like(K[:, :, :1].mT @ V[:, :, :1]) if state is None else state
    states = torch.cat([first[:, :, None], A @ first[:, :, None] + C], dim=2)
    return torch.einsum("bhtk,bhtkv->bhtv", Q, states[:, :, 1:]), states[:, :, -1].clone()
