import math

import numpy as np
import torch
import torch.nn.functional as F


# What the notebook gives, and earlier answers, as private helpers.
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
    speeds = base ** (-2 * torch.arange(d // 2, dtype=torch.float64) / d)
    angles = positions.to(torch.float64)[:, None] * speeds
    c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


def _rms_norm(x, gamma, eps=1e-6):
    return gamma * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def _swiglu(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def _window_mask(n_new, n_total, window):
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j <= i) & (i - j < window)


# ---------------------------------------------------------------- 10.1 rotate
def rotate__wrong_sixteenth_complex_neighbours(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Takes neighbours 2p and 2p + 1 for a pair (as complex numbers), not the halves."""
    d = x.shape[-1]
    speeds = base ** (-2 * torch.arange(d // 2, dtype=torch.float64) / d)
    angles = torch.outer(positions.double(), speeds)
    z = torch.view_as_complex(x.unflatten(-1, (d // 2, 2)).contiguous())
    turn = torch.polar(torch.ones_like(angles), angles).to(z.dtype)
    return torch.view_as_real(z * turn).flatten(-2)


def rotate__wrong_sixteenth_from_smallest(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Thinks that only distances count, and measures positions from the smallest one handed in."""
    half = x.shape[-1] // 2
    where = (positions - positions.min()).double()
    p = torch.arange(half, dtype=torch.float64)
    theta = where[:, None] * base ** (-p / half)
    cos, sin = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def rotate__wrong_sixteenth_mixed_layouts(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Pairs are halves, but the angles are laid out for neighbours: each speed twice in a row."""
    d = x.shape[-1]
    speeds = 1.0 / base ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = positions.double()[:, None] * speeds
    angles = angles.repeat_interleave(2, dim=-1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    x1, x2 = x.chunk(2, dim=-1)
    rotated_half = torch.cat([-x2, x1], dim=-1)
    return x * cos + rotated_half * sin


def rotate__wrong_sixteenth_overwritten_half(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """The second half is computed from the first half that has been turned already."""
    d = x.shape[-1]
    p = torch.arange(d // 2, dtype=torch.float64)
    theta = positions.double()[:, None] * base ** (-2 * p / d)
    c, s = torch.cos(theta).to(x.dtype), torch.sin(theta).to(x.dtype)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    a = a * c - b * s
    b = b * c + a * s
    return torch.cat([a, b], dim=-1)


def rotate__wrong_sixteenth_pairs_from_one(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Pairs are counted from 1, so the fastest does not turn by one radian per token."""
    d = x.shape[-1]
    p = torch.arange(1, d // 2 + 1, dtype=torch.float64)
    theta = torch.einsum("n,p->np", positions.double(), base ** (-2 * p / d))
    c, s = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
    a, b = x.tensor_split(2, dim=-1)
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


def rotate__wrong_sixteenth_mirrored_pairs(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Column p is paired with column d - 1 - p, and not with p + d/2."""
    d = x.shape[-1]
    places = positions.double()
    left, right = [], []
    for p in range(d // 2):
        theta = places * base ** (-2 * p / d)
        c, s = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
        a, b = x[..., p], x[..., d - 1 - p]
        left.append(a * c - b * s)
        right.insert(0, b * c + a * s)
    return torch.stack(left + right, dim=-1)


def rotate__wrong_sixteenth_whole_positions(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Cuts positions down to whole numbers: wrong where they are floats such as 2.5."""
    d, n = x.shape[-1], x.shape[-2]
    table = torch.zeros(n, d // 2, dtype=torch.float64)
    for r in range(n):
        for p in range(d // 2):
            table[r, p] = int(positions[r]) * base ** (-2 * p / d)
    c, s = table.cos().to(x.dtype), table.sin().to(x.dtype)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


def rotate__wrong_sixteenth_float64_out(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Cosine and sine stay in float64, so float32 comes back as float64."""
    d = x.shape[-1]
    speeds = base ** (-2 * torch.arange(d // 2).double() / d)
    angles = positions[:, None] * speeds
    a, b = x[..., : d // 2], x[..., d // 2 :]
    first = a * angles.cos() - b * angles.sin()
    second = b * angles.cos() + a * angles.sin()
    return torch.cat([first, second], dim=-1)


def rotate__right_sixteenth_roll_and_sign(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Right: the other column of each pair comes by rolling the columns by d/2, with a row of signs."""
    d = x.shape[-1]
    column = torch.arange(d)
    speeds = torch.exp(-math.log(base) * 2 * (column % (d // 2)).double() / d)
    angles = torch.outer(positions.double(), speeds)
    sign = torch.where(column < d // 2, -1.0, 1.0).double()
    cos, sin = angles.cos().to(x.dtype), (sign * angles.sin()).to(x.dtype)
    return x * cos + x.roll(d // 2, dims=-1) * sin


# -------------------------------------------------------------- 10.2 rms_norm
def rms_norm__wrong_sixteenth_mean_of_sizes(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Takes the root of each square and then the mean: a mean of absolute values."""
    sizes = torch.sqrt(x**2 + eps)
    rms = sizes.mean(dim=-1, keepdim=True)
    return gamma * (x / rms)


def rms_norm__wrong_sixteenth_per_text(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """One mean square per text: the mean runs over all axes but the first."""
    axes = tuple(range(1, x.dim())) or (0,)
    power = x.pow(2).mean(dim=axes, keepdim=True)
    return x * torch.rsqrt(power + eps) * gamma


def rms_norm__wrong_sixteenth_divided_by_d_minus_one(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Divides the sum of squares by d - 1, as for a sample's variance, and not by d."""
    d = x.shape[-1]
    total = torch.einsum("...d,...d->...", x, x)[..., None]
    return gamma * x / torch.sqrt(total / max(d - 1, 1) + eps)


def rms_norm__wrong_sixteenth_axis_one(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Takes the mean over axis 1, which is the last one for two axes only."""
    axis = 1 if x.dim() > 1 else 0
    mean_square = (x * x).mean(axis, keepdim=True)
    return gamma * x / (mean_square + eps).sqrt()


def rms_norm__wrong_sixteenth_eps_outside_rsqrt(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """A bracket closes too early: eps is added to the reciprocal root."""
    ms = x.square().mean(-1, keepdim=True)
    scale = torch.rsqrt(ms) + eps
    return gamma * (x * scale)


def rms_norm__wrong_sixteenth_eps_as_floor(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """eps is a lower bound of the mean square here; it should be added to it."""
    ms = torch.mean(x * x, dim=-1, keepdim=True)
    return gamma * x / ms.clamp_min(eps).sqrt()


def rms_norm__wrong_sixteenth_single_token(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Wrong for x of shape (d,): the first axis is taken for a batch, each number is normed alone."""
    rows = x.reshape(x.shape[0], -1)
    if x.dim() > 2:
        rows = x.reshape(-1, x.shape[-1])
    rms = (rows.square().mean(1, keepdim=True) + eps).sqrt()
    return gamma * (rows / rms).reshape(x.shape)


def rms_norm__wrong_sixteenth_root_without_gradient(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """The root is worked out under no_grad: values are right, the gradient of x is wrong."""
    with torch.no_grad():
        rms = (x.square().mean(-1, keepdim=True) + eps).sqrt()
    return gamma * x / rms


def rms_norm__right_sixteenth_length_with_extra_column(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Right: the length of x with one more column sqrt(d eps), over sqrt(d), is the root."""
    d = x.shape[-1]
    extra = torch.full_like(x[..., :1], math.sqrt(d * eps))
    longer = torch.cat([x, extra], dim=-1)
    length = torch.linalg.vector_norm(longer, dim=-1, keepdim=True)
    return x / length * (math.sqrt(d) * gamma)


# ---------------------------------------------------------------- 10.3 swiglu
def swiglu__wrong_sixteenth_silu_before_weights(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """silu is applied to x itself, before the product with W_gate."""
    gate = F.silu(x) @ W_gate
    up = x @ W_up
    return (gate * up) @ W_down


def swiglu__wrong_sixteenth_gate_after_down(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Brings gate and up down one by one, and lets the gate work in the width d_model."""

    def down(hidden):
        return torch.einsum("...f,fd->...d", hidden, W_down)

    gate = down(F.silu(x @ W_gate))
    return gate * down(x @ W_up)


def swiglu__wrong_sixteenth_mixing_gate(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """The gate mixes the two products, g * gate + (1 - g) * up; it should multiply up."""
    z, up = x @ W_gate, x @ W_up
    open_ = torch.sigmoid(z)
    hidden = open_ * z + (1 - open_) * up
    return hidden @ W_down


def swiglu__wrong_sixteenth_up_from_gate_weights(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Copied line: up is made with W_gate, and W_up is never used."""
    gate = torch.matmul(x, W_gate)
    up = torch.matmul(x, W_gate)
    return torch.matmul(F.silu(gate) * up, W_down)


def swiglu__wrong_sixteenth_sigmoid_sign(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """The sigmoid has lost its minus, 1 / (1 + exp(z)): the gate shuts for large z."""
    z = x @ W_gate
    silu = z / (1 + torch.exp(z))
    return (silu * (x @ W_up)) @ W_down


def swiglu__wrong_sixteenth_gate_of_gpt_oss(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Takes the sigmoid of 1.702 z, as in gpt-oss; silu is z * sigmoid(z)."""
    z = x @ W_gate
    gate = z * torch.sigmoid(1.702 * z)
    return gate * (x @ W_up) @ W_down


def swiglu__wrong_sixteenth_exp_over_exp(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """The sigmoid is exp(z) / (1 + exp(z)), which is NaN for large z."""
    z = x @ W_gate
    grown = z.exp()
    sigma = grown / (1 + grown)
    return (z * sigma * (x @ W_up)) @ W_down


def swiglu__wrong_sixteenth_numpy_sigmoid(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """The sigmoid goes through NumPy: right values, but its part of the gradient is lost."""
    z = x @ W_gate
    half = 0.5 * z.detach().numpy()
    sigma = torch.from_numpy(np.asarray(0.5 * (1 + np.tanh(half)))).to(z.dtype)
    return (z * sigma * (x @ W_up)) @ W_down


def swiglu__right_sixteenth_one_product_and_tanh(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Right: one product for both, and the sigmoid written as (1 + tanh(z/2)) / 2."""
    both = x @ torch.cat([W_gate, W_up], dim=1)
    z, up = both.tensor_split(2, dim=-1)
    half = z / 2
    return torch.addcmul(half, half, half.tanh()).mul(up) @ W_down


# --------------------------------------------------- 10.4 sliding_window_mask
def sliding_window_mask__wrong_sixteenth_blocks(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """Cuts the text into fixed blocks of `window` tokens; the window does not slide."""
    i = torch.arange(n_total - n_new, n_total).unsqueeze(1)
    j = torch.arange(n_total).unsqueeze(0)
    same_block = i // window == j // window
    return same_block & (j <= i)


def sliding_window_mask__wrong_sixteenth_both_sides(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """The window reaches to both sides: tokens see later ones, too."""
    i = torch.arange(n_new)[:, None] + (n_total - n_new)
    distance = (i - torch.arange(n_total)).abs()
    return distance < window


def sliding_window_mask__wrong_sixteenth_cache_always_seen(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """All that is in the cache stays visible: the window is put on the new tokens alone."""
    cached = n_total - n_new
    r = torch.arange(n_new)
    among_new = (r[None] <= r[:, None]) & (r[:, None] - r[None] < window)
    old = torch.ones(n_new, cached, dtype=torch.bool)
    return torch.cat([old, among_new], dim=1)


def sliding_window_mask__wrong_sixteenth_band_one_wider(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """The band cut by tril and triu is one diagonal too wide: window + 1 tokens are seen."""
    shift = n_total - n_new
    ones = torch.ones(n_new, n_total, dtype=torch.bool)
    return ones.tril(shift).triu(shift - window)


def sliding_window_mask__wrong_sixteenth_rows_and_columns(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """i and j have changed places in the comparisons: a token sees itself and later ones."""
    rows = torch.arange(n_total - n_new, n_total)
    i, j = torch.meshgrid(rows, torch.arange(n_total), indexing="ij")
    return (j - window < i) & (i <= j)


def sliding_window_mask__wrong_sixteenth_total_as_cached(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """Reads n_total as the number of cached tokens: n_total + n_new columns come back."""
    everything = n_total + n_new
    i = torch.arange(n_total, everything)[:, None]
    j = torch.arange(everything)[None, :]
    return (i - window < j) & (j <= i)


def sliding_window_mask__wrong_sixteenth_negative_start(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """Fills slices from i - window + 1: where that is negative it counts from the end."""
    mask = torch.zeros(n_new, n_total, dtype=torch.bool)
    for r in range(n_new):
        i = n_total - n_new + r
        mask[r, i - window + 1 : i + 1] = True
    return mask


def sliding_window_mask__wrong_sixteenth_additive(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """Returns numbers to be added to scores, 0 and -inf; a mask is boolean here."""
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    seen = (j <= i) & (j > i - window)
    return torch.zeros(n_new, n_total).masked_fill(~seen, -torch.inf)


def sliding_window_mask__right_sixteenth_difference_of_two_causal(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """Right: the causal mask, without the causal mask of `window` tokens earlier."""
    shift = n_total - n_new
    everything = torch.full((n_new, n_total), True)
    causal, too_old = everything.tril(shift), everything.tril(shift - window)
    return causal ^ too_old


# ---------------------------------------------------------- 10.5 modern_block
def modern_block__wrong_sixteenth_norm_across_heads(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """QK-norm takes one mean square over all heads of a token; each head has its own."""
    p, n = params, x.shape[1]
    z = _rms_norm(x, p["gamma_1"])
    Q = _split_heads(z @ p["W_Q"], n_heads)
    K, V = (_split_heads(z @ p[w], n_kv_heads) for w in ("W_K", "W_V"))
    Q = p["gamma_q"] * Q / (Q.square().mean((1, 3), keepdim=True) + 1e-6).sqrt()
    K = p["gamma_k"] * K / (K.square().mean((1, 3), keepdim=True) + 1e-6).sqrt()
    Q, K = _rotate(Q, positions), _rotate(K, positions)
    K, V = (t.repeat_interleave(n_heads // n_kv_heads, dim=1) for t in (K, V))
    mask = _window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + _merge_heads(A @ V) @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_sixteenth_post_norm(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Norms behind each sum, as in 2017, and not in front of attention and feed-forward layer."""
    p, n, share = params, x.shape[1], n_heads // n_kv_heads
    Q = _rms_norm(_split_heads(x @ p["W_Q"], n_heads), p["gamma_q"])
    K = _rms_norm(_split_heads(x @ p["W_K"], n_kv_heads), p["gamma_k"])
    V = _split_heads(x @ p["W_V"], n_kv_heads).repeat_interleave(share, 1)
    Q, K = _rotate(Q, positions), _rotate(K, positions).repeat_interleave(share, 1)
    mask = _window_mask(n, n, window or n)
    A = _masked_softmax(Q @ K.mT / Q.shape[-1] ** 0.5, mask)
    y = _rms_norm(x + _merge_heads(A @ V) @ p["W_O"], p["gamma_1"])
    ffn = _swiglu(y, p["W_gate"], p["W_up"], p["W_down"])
    return _rms_norm(y + ffn, p["gamma_2"])


def modern_block__wrong_sixteenth_normed_residual(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """The residual connection of step 6 adds the normed z and not x."""
    n = x.shape[1]
    x = _rms_norm(x, params["gamma_1"])
    Q, K, V = (
        _split_heads(x @ params["W_" + name], heads)
        for name, heads in zip("QKV", (n_heads, n_kv_heads, n_kv_heads))
    )
    Q = _rotate(_rms_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, params["gamma_k"]), positions)
    Q = Q.unflatten(1, (n_kv_heads, -1))
    scores = torch.einsum("bgrid,bgjd->bgrij", Q, K) / math.sqrt(Q.shape[-1])
    A = _masked_softmax(scores, _window_mask(n, n, window if window else n))
    heads = torch.einsum("bgrij,bgjd->bgrid", A, V).flatten(1, 2)
    y = x + _merge_heads(heads) @ params["W_O"]
    z = _rms_norm(y, params["gamma_2"])
    return y + _swiglu(z, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_sixteenth_query_gain_for_keys(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Copied line: the key heads are normed with gamma_q, and gamma_k is never used."""
    p, n = params, x.shape[1]
    z = _rms_norm(x, p["gamma_1"])
    Q = _split_heads(z @ p["W_Q"], n_heads)
    K = _split_heads(z @ p["W_K"], n_kv_heads)
    V = _split_heads(z @ p["W_V"], n_kv_heads)
    Q = _rotate(_rms_norm(Q, p["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, p["gamma_q"]), positions)
    K = K.repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = V.repeat_interleave(n_heads // n_kv_heads, dim=1)
    A = _masked_softmax(Q @ K.mT * Q.shape[-1] ** -0.5, _window_mask(n, n, window or n))
    y = x + _merge_heads(A @ V) @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_sixteenth_merge_without_transpose(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """The heads are merged by a reshape without the transpose: tokens and heads get mixed."""
    p, (B, n, _) = params, x.shape
    z = _rms_norm(x, p["gamma_1"])
    Q = (z @ p["W_Q"]).view(B, n, n_heads, -1).transpose(1, 2)
    K = (z @ p["W_K"]).view(B, n, n_kv_heads, -1).transpose(1, 2)
    V = (z @ p["W_V"]).view(B, n, n_kv_heads, -1).transpose(1, 2)
    Q = _rotate(_rms_norm(Q, p["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, p["gamma_k"]), positions)
    owner = torch.arange(n_heads) // (n_heads // n_kv_heads)
    mask = _window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K[:, owner].mT / math.sqrt(Q.shape[-1]), mask)
    y = x + (A @ V[:, owner]).reshape(B, n, -1) @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_sixteenth_base_of_qwen3(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Turns with Qwen3's base of 1,000,000; the docstring says: the default base."""
    p, n = params, x.shape[1]
    base = 1_000_000.0
    z = _rms_norm(x, p["gamma_1"])
    Q = _rms_norm(_split_heads(z @ p["W_Q"], n_heads), p["gamma_q"])
    K = _rms_norm(_split_heads(z @ p["W_K"], n_kv_heads), p["gamma_k"])
    V = _split_heads(z @ p["W_V"], n_kv_heads)
    Q, K = _rotate(Q, positions, base), _rotate(K, positions, base)
    K, V = (t.repeat_interleave(n_heads // n_kv_heads, 1) for t in (K, V))
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), _window_mask(n, n, window or n))
    y = x + _merge_heads(A @ V) @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_sixteenth_scale_from_d_model(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Scales by the root of d_model / h: right only where that is d_head."""
    p, (_, n, d_model) = params, x.shape
    scale = 1 / math.sqrt(d_model / n_heads)
    z = _rms_norm(x, p["gamma_1"])
    Q = _rms_norm(_split_heads(z @ p["W_Q"], n_heads), p["gamma_q"])
    K = _rms_norm(_split_heads(z @ p["W_K"], n_kv_heads), p["gamma_k"])
    V = _split_heads(z @ p["W_V"], n_kv_heads)
    Q, K = _rotate(Q, positions), _rotate(K, positions)
    K, V = (t.repeat_interleave(n_heads // n_kv_heads, dim=1) for t in (K, V))
    A = _masked_softmax(scale * (Q @ K.mT), _window_mask(n, n, window or n))
    y = x + _merge_heads(A @ V) @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_sixteenth_repeats_weights_in_params(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Right once, but it stores the repeated W_K and W_V in the params that were handed in."""
    n, r = x.shape[1], n_heads // n_kv_heads
    for name in ("W_K", "W_V"):
        blocks = params[name].unflatten(1, (n_kv_heads, -1))
        params[name] = blocks.repeat_interleave(r, dim=1).flatten(1)
    z = _rms_norm(x, params["gamma_1"])
    Q, K, V = (_split_heads(z @ params[w], n_heads) for w in ("W_Q", "W_K", "W_V"))
    Q = _rotate(_rms_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, params["gamma_k"]), positions)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), _window_mask(n, n, window or n))
    y = x + _merge_heads(A @ V) @ params["W_O"]
    z = _rms_norm(y, params["gamma_2"])
    return y + _swiglu(z, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__right_sixteenth_head_by_head(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Right: head after head with its block of columns; each adds its own part through W_O."""
    p, n = params, x.shape[1]
    d = p["gamma_q"].shape[0]
    mask = _window_mask(n, n, n if window is None else window)
    z, y = _rms_norm(x, p["gamma_1"]), x
    for a in range(n_heads):
        own = slice(a * d, (a + 1) * d)
        b = a * n_kv_heads // n_heads
        shared = slice(b * d, (b + 1) * d)
        q = _rotate(_rms_norm(z @ p["W_Q"][:, own], p["gamma_q"]), positions)
        k = _rotate(_rms_norm(z @ p["W_K"][:, shared], p["gamma_k"]), positions)
        weights = _masked_softmax(q @ k.mT / d**0.5, mask)
        y = y + weights @ (z @ p["W_V"][:, shared]) @ p["W_O"][own]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


# -------------------------------------------------------- 10.6 sink_attention
def sink_attention__wrong_sixteenth_fixed_gate(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The sink takes a fixed share sigmoid(sink) of each head, whatever the scores are."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    keep = 1 - torch.sigmoid(sink)
    return _masked_softmax(scores, mask) @ V * keep[:, None, None]


def sink_attention__wrong_sixteenth_threshold(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The sink is a threshold: keys with lower scores are masked, the others share a weight of 1."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5
    above = scores >= sink.view(1, -1, 1, 1)
    allowed = above if mask is None else above & mask
    return _masked_softmax(scores, allowed) @ V


def sink_attention__wrong_sixteenth_sink_not_shifted(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The scores are shifted by their maximum before exp, but the sink is not."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    shifted = (scores - scores.amax(-1, keepdim=True)).exp()
    if mask is not None:
        shifted = shifted * mask
    bottom = sink.clamp(max=80).exp()[:, None, None] + shifted.sum(-1, keepdim=True)
    return shifted / bottom @ V


def sink_attention__wrong_sixteenth_drops_last_column(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The sink's column stands in front, but the last column is dropped: weights move by one key."""
    B, h, n, _ = Q.shape
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    column = sink.view(1, h, 1, 1).expand(B, h, n, 1)
    weights = torch.softmax(torch.cat([column, scores], dim=-1), dim=-1)
    return weights[..., :-1] @ V


def sink_attention__wrong_sixteenth_sinks_in_turn(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """repeat and view fill the column in the wrong order: the sinks alternate along the queries."""
    B, h, n, d_k = Q.shape
    scores = (Q @ K.transpose(-2, -1)) / d_k**0.5
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), float("-inf"))
    column = sink.repeat(B * n).view(B, h, n, 1)
    weights = torch.cat([scores, column], dim=-1).softmax(dim=-1)
    return weights[..., :-1] @ V


def sink_attention__wrong_sixteenth_first_key_is_sink(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Makes the first key the sink: its score is replaced, and its value is lost."""
    B, h, n, _ = Q.shape
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    first = sink[None, :, None, None].expand(B, h, n, 1)
    weights = torch.softmax(torch.cat([first, scores[..., 1:]], dim=-1), dim=-1)
    return weights[..., 1:] @ V[:, :, 1:]


def sink_attention__wrong_sixteenth_maximum_of_masked(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The maximum runs over masked keys, too: a huge masked score makes 0/0 or 0 of all weights."""
    s = Q @ K.mT / math.sqrt(Q.shape[-1])
    place = sink.view(-1, 1, 1)
    top = torch.maximum(s.amax(dim=-1, keepdim=True), place)
    e = torch.exp(s - top)
    if mask is not None:
        e = e * mask
    return (e / (torch.exp(place - top) + e.sum(-1, keepdim=True))) @ V


def sink_attention__wrong_sixteenth_sink_as_number(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes each sink out with .item(): right values, but no gradient reaches the sinks."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    heads = []
    for a in range(Q.shape[1]):
        one = F.pad(scores[:, a], (0, 1), value=sink[a].item())
        heads.append(torch.softmax(one, dim=-1)[..., :-1] @ V[:, a])
    return torch.stack(heads, dim=1)


def sink_attention__right_sixteenth_sigmoid_of_logsumexp(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Right: usual attention times the keys' share, the sigmoid of logsumexp(scores) - sink."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    plain = _masked_softmax(scores, mask) @ V
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    level = torch.logsumexp(scores, dim=-1, keepdim=True)
    return torch.sigmoid(level - sink[:, None, None]) * plain


# ------------------------------------------------------ 10.7 linear_attention
def linear_attention__wrong_sixteenth_moving_average(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """With a decay it is a moving average: the new pair is multiplied by 1 - a_t."""
    B, h, n, d_k = K.shape
    S = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    rows = []
    for t in range(n):
        pair = K[:, :, t, :, None] * V[:, :, t, None, :]
        if decay is None:
            S = S + pair
        else:
            a = decay[:, :, t, None, None]
            S = a * S + (1 - a) * pair
        rows.append((Q[:, :, t, None] @ S).squeeze(2))
    return torch.stack(rows, dim=2), S


def linear_attention__wrong_sixteenth_decay_on_output(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The decay is multiplied to what is read; the state itself never fades."""
    pairs = torch.einsum("bhnk,bhnv->bhnkv", K, V)
    states = pairs.cumsum(dim=2)
    if state is not None:
        states = states + state[:, :, None]
    out = torch.einsum("bhnk,bhnkv->bhnv", Q, states)
    if decay is not None:
        out = out * decay[..., None]
    return out, states[:, :, -1]


def linear_attention__wrong_sixteenth_power_of_distance(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token s fades by a_t ** (t - s), as if all tokens between had the decay of the reader."""
    B, h, n, d_k = K.shape
    a = K.new_ones(B, h, n) if decay is None else decay
    S = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    t = torch.arange(n, device=K.device)
    steps = (t[:, None] - t).clamp_min(0)
    faded = (a[..., None] ** steps).tril()
    out = (Q @ K.mT * faded) @ V + (a ** (t + 1))[..., None] * (Q @ S)
    last = a[:, :, -1, None, None]
    return out, last**n * S + (faded[:, :, -1, :, None] * K).mT @ V


def linear_attention__wrong_sixteenth_decay_of_token_before(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Uses decay t - 1 at token t; at the first token that is the last one's."""
    B, h, n, d_k = Q.shape
    if decay is None:
        decay = torch.ones_like(Q[..., 0])
    if state is None:
        state = torch.zeros(B, h, d_k, V.shape[-1], dtype=Q.dtype)
    outs = []
    for t in range(n):
        fade = decay[:, :, t - 1].view(B, h, 1, 1)
        state = fade * state + K[:, :, t].unsqueeze(-1) @ V[:, :, t].unsqueeze(-2)
        outs.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], state))
    return torch.stack(outs, dim=2), state


def linear_attention__wrong_sixteenth_state_one_token_old(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The outputs are right, but the state that comes back lacks the last token."""
    S_new = Q.new_zeros(*Q.shape[:2], Q.shape[-1], V.shape[-1])
    S_new = S_new if state is None else S_new + state
    out = []
    for t in range(Q.shape[2]):
        S = S_new
        a = 1.0 if decay is None else decay[:, :, t, None, None]
        S_new = a * S + K[:, :, t, :, None] * V[:, :, t, None]
        out.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S_new))
    return torch.stack(out, 2), S


def linear_attention__wrong_sixteenth_share_forgotten(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads decay as the share that is lost: the state is multiplied by 1 - a_t."""
    B, h, n, d_k = K.shape
    keep = torch.ones_like(K[..., 0]) if decay is None else 1 - decay
    S = K.new_zeros(B, h, d_k, V.shape[3]) if state is None else state
    out = []
    for q, k, v, a in zip(Q.unbind(2), K.unbind(2), V.unbind(2), keep.unbind(2)):
        S = a[..., None, None] * S + k.unsqueeze(3) * v.unsqueeze(2)
        out.append((q.unsqueeze(2) @ S).squeeze(2))
    return torch.stack(out, dim=2), S


def linear_attention__wrong_sixteenth_short_cut_without_state(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Without a decay it takes a short cut in which a state that was handed in is forgotten."""
    if decay is None:
        return (Q @ K.mT).tril() @ V, K.mT @ V
    S = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    out = []
    for t in range(Q.shape[2]):
        write = K[:, :, t, :, None] * V[:, :, t, None, :]
        S = decay[:, :, t, None, None] * S + write
        out.append((Q[:, :, t : t + 1] @ S)[:, :, 0])
    return torch.stack(out, dim=2), S


def linear_attention__wrong_sixteenth_writes_into_state(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Right numbers, but the state that was handed in is changed in place and handed back."""
    if state is None:
        state = Q.new_zeros(*Q.shape[:2], Q.shape[-1], V.shape[-1])
    out = []
    for t in range(Q.shape[2]):
        if decay is not None:
            state *= decay[:, :, t, None, None]
        state += K[:, :, t, :, None] * V[:, :, t, None, :]
        out.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], state))
    return torch.stack(out, dim=2), state


def linear_attention__right_sixteenth_halves_of_the_text(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Right: the text is cut into halves, again and again; the first hands its state to the second."""

    def read(S, start, end):
        if end - start == 1:
            fade = 1 if decay is None else decay[:, :, start, None, None]
            S = fade * S + K[:, :, start:end].mT @ V[:, :, start:end]
            return Q[:, :, start:end] @ S, S
        middle = (start + end) // 2
        left, S = read(S, start, middle)
        right, S = read(S, middle, end)
        return torch.cat([left, right], dim=2), S

    if state is None:
        state = Q.new_zeros(*Q.shape[:2], Q.shape[-1], V.shape[-1])
    return read(state, 0, Q.shape[2]) if Q.shape[2] else (V.clone(), state.clone())


# ----------------------------------------------------------- 10.8 latent_step
def latent_step__wrong_sixteenth_one_query_for_all(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """All heads are moved into the latent together and share one query: their scores are summed."""
    p = params
    C = torch.cat([cache, x @ p["W_DKV"]], dim=1)
    d_head = p["W_Q"].shape[1] // n_heads
    moved = x @ p["W_Q"] @ p["W_UK"].T
    A = torch.softmax(moved @ C.mT / math.sqrt(d_head), dim=-1)
    return A @ C @ p["W_UV"] @ p["W_O"], C


def latent_step__wrong_sixteenth_heads_averaged(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the heads read is averaged in the latent before W_UV; each head should keep its own."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1))
    up_k = params["W_UK"].unflatten(-1, (n_heads, -1))
    moved = torch.einsum("bnhd,lhd->bhl", q, up_k)
    weights = torch.softmax(moved @ C.mT / math.sqrt(q.shape[-1]), dim=-1)
    read = (weights @ C).mean(dim=1, keepdim=True)
    return read @ params["W_UV"] @ params["W_O"], C


def latent_step__wrong_sixteenth_causal_from_row_zero(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Puts a causal mask on the only row as if it stood at position 0: only the first key is seen."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1))[:, 0]
    W_UK, W_UV = (params[w].unflatten(1, (n_heads, -1)) for w in ("W_UK", "W_UV"))
    scores = torch.einsum("bhd,lhd,btl->bht", q, W_UK, C) / q.shape[-1] ** 0.5
    causal = torch.ones(x.shape[1], C.shape[1], dtype=torch.bool).tril()
    read = _masked_softmax(scores, causal) @ C
    heads = torch.einsum("bhl,lhv->bhv", read, W_UV)
    return heads.flatten(1)[:, None] @ params["W_O"], C


def latent_step__wrong_sixteenth_new_latent_first(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The new latent comes first in the cache; out does not show it."""
    W_Q, W_DKV, W_UK, W_UV, W_O = (
        params[name] for name in ("W_Q", "W_DKV", "W_UK", "W_UV", "W_O")
    )
    cache = torch.cat((x @ W_DKV, cache), dim=1)
    q = (x @ W_Q).squeeze(1).unflatten(-1, (n_heads, -1))
    q_latent = torch.einsum("bhd,lhd->bhl", q, W_UK.unflatten(1, (n_heads, -1)))
    A = torch.softmax(q_latent @ cache.mT / math.sqrt(q.shape[-1]), dim=-1)
    heads = torch.einsum("bhl,lhv->bhv", A @ cache, W_UV.unflatten(1, (n_heads, -1)))
    return (heads.flatten(1) @ W_O).unsqueeze(1), cache


def latent_step__wrong_sixteenth_value_columns_interleaved(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """W_UV is viewed as (d_latent, d_v, h): a head takes every h-th column and not its block."""
    B, _, d_model = x.shape
    d_latent = cache.shape[-1]
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).reshape(B, n_heads, -1)
    W_UK = params["W_UK"].reshape(d_latent, n_heads, -1)
    W_UV = params["W_UV"].reshape(d_latent, -1, n_heads)
    scores = torch.einsum("bhd,lhd->bhl", q, W_UK) @ C.mT / math.sqrt(q.shape[-1])
    read = scores.softmax(dim=-1) @ C
    heads = torch.einsum("bhl,lvh->bhv", read, W_UV)
    return heads.reshape(B, 1, -1) @ params["W_O"], C


def latent_step__wrong_sixteenth_does_not_see_itself(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The new token reads the old cache only, and is put into it afterwards."""
    new = x @ params["W_DKV"]
    seen = cache if cache.shape[1] > 0 else new
    q = (x @ params["W_Q"]).unflatten(2, (n_heads, -1)).squeeze(1)
    W_UK = params["W_UK"].unflatten(1, (n_heads, -1)).permute(1, 2, 0)
    W_UV = params["W_UV"].unflatten(1, (n_heads, -1)).transpose(0, 1)
    moved = torch.einsum("bhd,hdl->bhl", q, W_UK) / math.sqrt(q.shape[-1])
    read = torch.softmax(moved @ seen.mT, dim=-1) @ seen
    out = torch.einsum("bhl,hlv->bhv", read, W_UV).flatten(1) @ params["W_O"]
    return out[:, None], torch.cat([cache, new], dim=1)


def latent_step__wrong_sixteenth_exp_without_maximum(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The softmax is written with a bare exp: NaN for large scores."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x[:, 0] @ params["W_Q"]).unflatten(-1, (n_heads, -1))
    W_UK = params["W_UK"].unflatten(1, (n_heads, -1))
    W_UV = params["W_UV"].unflatten(1, (n_heads, -1))
    moved = torch.einsum("bhd,lhd->bhl", q, W_UK)
    e = torch.exp(torch.einsum("bhl,btl->bht", moved, C) / math.sqrt(q.shape[-1]))
    read = torch.einsum("bht,btl->bhl", e, C) / e.sum(-1, keepdim=True)
    heads = torch.einsum("bhl,lhv->bhv", read, W_UV)
    return (heads.flatten(1) @ params["W_O"])[:, None], C


def latent_step__wrong_sixteenth_keys_head_by_head(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Right numbers, but keys and values of all cached tokens are built, one head at a time."""
    p = params
    C = torch.cat([cache, x @ p["W_DKV"]], dim=1)
    Q = (x @ p["W_Q"]).chunk(n_heads, dim=-1)
    heads = []
    for q, up_k, up_v in zip(Q, p["W_UK"].chunk(n_heads, 1), p["W_UV"].chunk(n_heads, 1)):
        K, V = C @ up_k, C @ up_v
        A = torch.softmax(q @ K.mT / math.sqrt(q.shape[-1]), dim=-1)
        heads.append(A @ V)
    return torch.cat(heads, dim=-1) @ p["W_O"], C


def latent_step__right_sixteenth_bilinear_forms(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Right: per head one matrix W_Q W_UK^T for the scores, and one W_UV W_O behind the weights."""
    p = params
    C = torch.cat([cache, x @ p["W_DKV"]], dim=1)
    d_head, d_v = p["W_UK"].shape[1] // n_heads, p["W_UV"].shape[1] // n_heads
    out = torch.zeros_like(x)
    for a in range(n_heads):
        qk = slice(a * d_head, (a + 1) * d_head)
        vo = slice(a * d_v, (a + 1) * d_v)
        look = p["W_Q"][:, qk] @ p["W_UK"][:, qk].T / math.sqrt(d_head)
        weights = torch.softmax(x @ look @ C.mT, dim=-1)
        out = out + weights @ C @ (p["W_UV"][:, vo] @ p["W_O"][vo])
    return out, C


# ------------------------------------------------------------ 10.9 delta_rule
def delta_rule__wrong_sixteenth_one_correction(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Corrects once for what earlier tokens wrote, and forgets that these were corrected, too."""
    S = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    b = beta[..., None]
    plain = b * (V - K @ S)
    earlier = (K @ K.mT).tril(-1)
    U = plain - b * (earlier @ plain)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_sixteenth_beta_of_the_older(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """In the system beta stands by the columns, the older tokens; it belongs to the row that writes."""
    B, h, n, d_k = K.shape
    if state is None:
        state = torch.zeros(B, h, d_k, V.shape[-1], dtype=K.dtype)
    table = torch.tril(K @ K.mT * beta[..., None, :], diagonal=-1)
    system = torch.eye(n, dtype=K.dtype) + table
    right_side = beta[..., :, None] * (V - K @ state)
    U = torch.linalg.solve_triangular(system, right_side, upper=False)
    out = Q @ state + torch.tril(Q @ K.mT) @ U
    return out, state + K.mT @ U


def delta_rule__wrong_sixteenth_asks_with_query(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The difference is taken to what the state says to the query, v - q S; it should be the key."""
    S0 = torch.zeros_like(K.mT @ V) if state is None else state
    attend = torch.einsum("bhtd,bhsd->bhts", Q, K)
    eye = torch.eye(K.shape[2], dtype=K.dtype)
    system = eye + beta[..., None] * attend.tril(-1)
    U = torch.linalg.solve(system, beta[..., None] * (V - Q @ S0))
    return Q @ S0 + attend.tril() @ U, S0 + torch.einsum("bhtk,bhtv->bhkv", K, U)


def delta_rule__wrong_sixteenth_diagonal_twice(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """tril keeps the diagonal of K K^T, and 1 is added to it: a token corrects for itself."""
    n = K.shape[2]
    S = K.new_zeros(*K.shape[:2], K.shape[3], V.shape[3]) if state is None else state
    L = beta.unsqueeze(-1) * (K @ K.mT).tril()
    M = L + torch.eye(n, dtype=K.dtype, device=K.device)
    U = torch.linalg.solve_triangular(M, beta.unsqueeze(-1) * (V - K @ S), upper=False)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_sixteenth_bracket_lost(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """A bracket is lost, beta * V - K S: beta does not reach what the first state held."""
    b = beta[..., None]
    rhs = b * V
    if state is not None:
        rhs = b * V - K @ state
    T = torch.eye(K.shape[-2], dtype=K.dtype) + b * (K @ K.mT).tril(-1)
    U = torch.linalg.solve_triangular(T, rhs, upper=False, unitriangular=True)
    out, last = (Q @ K.mT).tril() @ U, K.mT @ U
    if state is not None:
        out, last = out + Q @ state, last + state
    return out, last


def delta_rule__wrong_sixteenth_queries_of_length_one(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Brings the queries to length 1, too; only keys have it, and queries are used as they are."""
    Q = Q / Q.norm(dim=-1, keepdim=True)
    if state is None:
        state = K.new_zeros(K.shape[0], K.shape[1], K.shape[3], V.shape[3])
    W = beta[..., None] * K
    M = torch.eye(K.shape[2], dtype=K.dtype) + (W @ K.mT).tril(-1)
    U = torch.linalg.solve(M, beta[..., None] * V - W @ state)
    return Q @ state + (Q @ K.mT).tril() @ U, state + K.mT @ U


def delta_rule__wrong_sixteenth_chunks_from_first_state(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Chunks of 64: each is set right against the first state, so texts beyond 64 tokens are wrong."""
    first = torch.zeros_like(K.mT @ V) if state is None else state
    S, out = first, []
    for start in range(0, K.shape[2], 64):
        q, k, v, b = (x[:, :, start : start + 64] for x in (Q, K, V, beta[..., None]))
        M = torch.eye(k.shape[2], dtype=K.dtype) + b * (k @ k.mT).tril(-1)
        u = torch.linalg.solve_triangular(M, b * (v - k @ first), upper=False)
        out.append(q @ S + (q @ k.mT).tril() @ u)
        S = S + k.mT @ u
    return torch.cat(out, dim=2), S


def delta_rule__wrong_sixteenth_loop_over_tokens(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Right numbers, but the system is solved row by row: a Python loop over the tokens."""
    S = torch.zeros_like(K.mT @ V) if state is None else state
    table = (beta[..., None] * (K @ K.mT)).tril(-1)
    start = beta[..., None] * (V - K @ S)
    U = start[:, :, :1]
    for t in range(1, K.shape[2]):
        u = start[:, :, t : t + 1] - table[:, :, t : t + 1, :t] @ U
        U = torch.cat([U, u], dim=2)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__right_sixteenth_inverse_for_any_state(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Right: solves for rows W and U at once, so that what is written is U - W S for any first state."""
    d_k = K.shape[-1]
    system = torch.eye(K.shape[2], dtype=K.dtype) + (beta[..., None] * K @ K.mT).tril(-1)
    both = torch.linalg.inv(system) @ (beta[..., None] * torch.cat([K, V], dim=-1))
    W, U = both[..., :d_k], both[..., d_k:]
    table = (Q @ K.mT).tril()
    if state is None:
        return table @ U, K.mT @ U
    turn = torch.eye(d_k, dtype=K.dtype) - K.mT @ W
    return (Q - table @ W) @ state + table @ U, turn @ state + K.mT @ U
