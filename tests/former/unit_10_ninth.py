"""Answers to the exercises of unit 10, attention today, as students would write them: four wrong and one right each."""

import math

import torch
import torch.nn.functional as F


# ------- helpers: what the notebook gives, and right versions of earlier answers
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
    angles = positions.to(torch.float64)[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def _rms_norm(x, gamma, eps=1e-6):
    return gamma * x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)


def _swiglu(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def _sliding_window_mask(n_new, n_total, window):
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j <= i) & (j > i - window)


# ------- 10.1 rotate
def rotate__wrong_ninth_speeds_reach_one_over_base(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """The exponents run from 0 to 1 inclusive (p / (d/2 - 1)), so that the slowest pair has the speed 1/base."""
    half = x.shape[-1] // 2
    speeds = base ** -torch.linspace(0, 1, half, dtype=torch.float64)
    angles = torch.outer(positions.to(torch.float64), speeds)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def rotate__wrong_ninth_columns_come_back_interleaved(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """The pairs are taken as halves and turned rightly, but the results are put back side by side, as neighbours."""
    d = x.shape[-1]
    p = torch.arange(d // 2, dtype=torch.float64)
    theta = positions.double().unsqueeze(-1) * torch.pow(torch.tensor(base, dtype=torch.float64), -2 * p / d)
    c = torch.cos(theta).to(x.dtype)
    s = torch.sin(theta).to(x.dtype)
    left = x[..., : d // 2]
    right = x[..., d // 2 :]
    turned = torch.stack([left * c - right * s, right * c + left * s], dim=-1)
    return turned.flatten(-2)


def rotate__wrong_ninth_table_has_no_negative_positions(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Integer positions index a table that begins at 0, so that negative ones fail or read a row from its end."""
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)

    def angles_at(places):
        return places.to(torch.float64)[:, None] * speeds

    if positions.is_floating_point():
        theta = angles_at(positions)
    else:
        # the usual table: one row for each position up to the last
        table = angles_at(torch.arange(int(positions.max()) + 1))
        theta = table[positions]
    cos = torch.cat([theta.cos(), theta.cos()], dim=-1).to(x.dtype)
    sin = torch.cat([theta.sin(), theta.sin()], dim=-1).to(x.dtype)
    swapped = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos + swapped * sin


def rotate__wrong_ninth_positions_are_overwritten(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """The angles are slowed down in place, which writes into positions that are handed in as float64."""
    d = x.shape[-1]
    half = d // 2
    angle = positions.to(torch.float64)
    slower = base ** (-2.0 / d)
    first, second = [], []
    for p in range(half):
        c, s = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
        a, b = x[..., p], x[..., p + half]
        first.append(a * c - b * s)
        second.append(b * c + a * s)
        angle *= slower
    return torch.stack(first + second, dim=-1)


def rotate__right_ninth_complex_numbers(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Each pair is one complex number, and a turn is the product with a number of length 1."""
    half = x.shape[-1] // 2
    speeds = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(base) / half))
    angles = torch.einsum("n,p->np", positions.to(torch.float64), speeds)
    turn = torch.polar(torch.ones_like(angles), angles)
    z = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous())
    z = z * turn.to(z.dtype)
    return torch.cat([z.real, z.imag], dim=-1)


# ------- 10.2 rms_norm
def rms_norm__wrong_ninth_eps_is_averaged_too(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """eps is added to the sum of the squares before the division by d, so that only eps/d stands under the root."""
    d = x.shape[-1]
    squares = torch.einsum("...d,...d->...", x, x)
    scale = math.sqrt(d) / torch.sqrt(squares + eps)
    return x * scale[..., None] * gamma


def rms_norm__wrong_ninth_eps_as_a_floor(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """eps is only the least value that the mean square may have, and is not added to it."""
    mean_square = (x * x).mean(dim=-1, keepdim=True)
    return gamma * x / torch.sqrt(mean_square.clamp(min=eps))


def rms_norm__wrong_ninth_mean_over_axis_one(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """The mean is taken over axis 1, which is the last one only for x of two axes."""
    inverse = torch.rsqrt(x.pow(2).mean(1, keepdim=True) + eps)
    return inverse * x * gamma


def rms_norm__wrong_ninth_no_gradient_through_the_root(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """The divisor is worked out without gradients, as if it were a constant, so that the gradient of x is wrong."""
    with torch.no_grad():
        size = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        rms = (size**2 / x.shape[-1] + eps) ** 0.5
    return x / rms * gamma


def rms_norm__right_ninth_hypotenuse(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """The divisor is the hypotenuse over |x| / sqrt(d) and sqrt(eps)."""
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True) / math.sqrt(x.shape[-1])
    return torch.mul(gamma, x) / torch.hypot(length, torch.full_like(length, math.sqrt(eps)))


# ------- 10.3 swiglu
def swiglu__wrong_ninth_sigmoid_gets_1_702_z(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """The gate is z * sigmoid(1.702 z), as gpt-oss has it, and not silu."""
    gate = torch.einsum("...d,df->...f", x, W_gate)
    up = torch.einsum("...d,df->...f", x, W_up)
    opened = gate * torch.sigmoid(1.702 * gate)
    return torch.einsum("...f,fd->...d", opened * up, W_down)


def swiglu__wrong_ninth_chunks_named_the_wrong_way_round(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """One product with both weights is cut in two, and the halves get each other's names: silu falls on up."""
    both = x @ torch.cat([W_up, W_gate], dim=1)
    gate, up = both.chunk(2, dim=-1)
    return torch.mul(F.silu(gate), up) @ W_down


def swiglu__wrong_ninth_own_silu_overflows(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """The sigmoid is written as e^z / (1 + e^z), which is inf / inf = NaN for a large z."""

    def silu(z):
        e = torch.exp(z)
        return z * (e / (1 + e))

    return (silu(x @ W_gate) * (x @ W_up)) @ W_down


def swiglu__wrong_ninth_sums_into_float32(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Blocks of columns are added up in a tensor of the default dtype, so that float64 comes back as float32."""
    out = torch.zeros(x.shape)
    d_ff, block = W_gate.shape[1], 4
    for start in range(0, d_ff, block):
        cut = slice(start, start + block)
        gate, up = x @ W_gate[:, cut], x @ W_up[:, cut]
        out += gate * torch.sigmoid(gate) * up @ W_down[cut]
    return out


def swiglu__right_ninth_tanh_of_the_half(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """silu(z) is z/2 * (1 + tanh(z/2)), with one product for both weights."""
    halved, up = (x @ torch.cat([0.5 * W_gate, W_up], dim=-1)).split(W_gate.shape[-1], dim=-1)
    opened = torch.addcmul(halved, halved, torch.tanh(halved))
    return torch.einsum("...f,...f,fd->...d", opened, up, W_down)


# ------- 10.4 sliding_window_mask
def sliding_window_mask__wrong_ninth_blocks_instead_of_a_sliding_window(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """The text is cut into fixed blocks of `window` tokens, and a token sees only those before it in its own block."""
    query = torch.arange(n_total - n_new, n_total).unsqueeze(1)
    key = torch.arange(n_total).unsqueeze(0)
    return (query >= key) & (query // window == key // window)


def sliding_window_mask__wrong_ninth_diagonal_one_too_low(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """The lower diagonal is one too far down, so that a token sees the `window` tokens before it and itself."""
    shift = n_total - n_new
    everything = torch.ones(n_new, n_total, dtype=torch.bool)
    return everything.tril(shift).triu(shift - window)


def sliding_window_mask__wrong_ninth_slice_begins_below_zero(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """Rows are filled by slices whose start is below 0 for early tokens, which Python counts from the end."""
    mask = torch.zeros(n_new, n_total, dtype=torch.bool)
    for r in range(n_new):
        i = n_total - n_new + r
        mask[r, i - window + 1 : i + 1] = True
    return mask


def sliding_window_mask__wrong_ninth_ones_and_zeros(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """What comes back is a table of integers, 1 and 0, and not of booleans."""
    rows = []
    for i in range(n_total - n_new, n_total):
        rows.append([int(0 <= i - j < window) for j in range(n_total)])
    return torch.tensor(rows, dtype=torch.long).reshape(n_new, n_total)


def sliding_window_mask__right_ninth_floor_division(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """A key is seen where the distance, divided by the window and rounded down, is 0."""
    row = torch.arange(n_new).view(-1, 1) + (n_total - n_new)
    distance = row - torch.arange(n_total).view(1, -1)
    return torch.div(distance, window, rounding_mode="floor").eq(0)


# ------- 10.5 modern_block
def modern_block__wrong_ninth_qk_norm_over_all_heads(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Queries and keys are normed before the split, over the width of all heads together."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    q = _rms_norm(z @ params["W_Q"], params["gamma_q"].repeat(n_heads))
    k = _rms_norm(z @ params["W_K"], params["gamma_k"].repeat(n_kv_heads))
    q, k = _split_heads(q, n_heads), _split_heads(k, n_kv_heads)
    v = _split_heads(z @ params["W_V"], n_kv_heads)
    q, k = _rotate(q, positions), _rotate(k, positions)
    share = n_heads // n_kv_heads
    k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
    mask = _sliding_window_mask(n, n, n if window is None else window)
    weights = _masked_softmax(q @ k.mT / math.sqrt(q.shape[-1]), mask)
    y = x + _merge_heads(weights @ v) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_ninth_first_gain_twice(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """The norm before the feed-forward layer takes gamma_1 again, and gamma_2 is not used."""
    p, n = params, x.shape[1]

    def pre_norm(tokens):
        return _rms_norm(tokens, p["gamma_1"])

    z = pre_norm(x)
    Q = _rotate(_rms_norm(_split_heads(z @ p["W_Q"], n_heads), p["gamma_q"]), positions)
    K = _rotate(_rms_norm(_split_heads(z @ p["W_K"], n_kv_heads), p["gamma_k"]), positions)
    V = _split_heads(z @ p["W_V"], n_kv_heads)
    Q = Q.unflatten(1, (n_kv_heads, n_heads // n_kv_heads))
    scores = torch.einsum("bgrid,bgjd->bgrij", Q, K) * Q.shape[-1] ** -0.5
    far = torch.arange(n)[:, None] - torch.arange(n)
    allowed = far >= 0
    if window is not None:
        allowed = allowed & (far < window)
    A = _masked_softmax(scores, allowed)
    heads = torch.einsum("bgrij,bgjd->bigrd", A, V).flatten(2)
    y = x + heads @ p["W_O"]
    return y + _swiglu(pre_norm(y), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_ninth_window_goes_by_positions(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """The causal mask goes by row, but the window is measured by `positions`, which is wrong where these have gaps."""
    W_Q, W_K, W_V, W_O = (params["W_" + name] for name in "QKVO")
    z = _rms_norm(x, params["gamma_1"])
    q, k, v = _split_heads(z @ W_Q, n_heads), _split_heads(z @ W_K, n_kv_heads), _split_heads(z @ W_V, n_kv_heads)
    q = _rotate(_rms_norm(q, params["gamma_q"]), positions)
    k = _rotate(_rms_norm(k, params["gamma_k"]), positions)
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    if window is not None:
        distance = positions[:, None] - positions[None, :]
        mask = mask & (distance < window)
    outs = []
    for head in range(n_heads):
        kv = head * n_kv_heads // n_heads
        scores = q[:, head] @ k[:, kv].transpose(1, 2) / math.sqrt(q.shape[-1])
        outs.append(_masked_softmax(scores, mask) @ v[:, kv])
    y = x + torch.cat(outs, dim=-1) @ W_O
    z = _rms_norm(y, params["gamma_2"])
    return y + _swiglu(z, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_ninth_wider_weights_put_into_params(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """W_K and W_V are repeated for all query heads and put back into the caller's params."""
    copies = n_heads // n_kv_heads
    for name in ("W_K", "W_V"):
        blocks = params[name].unflatten(1, (n_kv_heads, -1))
        params[name] = blocks.repeat_interleave(copies, dim=1).flatten(1)
    n = x.shape[1]
    normed = _rms_norm(x, params["gamma_1"])
    Q, K, V = (_split_heads(normed @ params[name], n_heads) for name in ("W_Q", "W_K", "W_V"))
    Q = _rotate(_rms_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, params["gamma_k"]), positions)
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(Q.shape[-1])
    weights = _masked_softmax(scores, _sliding_window_mask(n, n, window or n))
    y = x + _merge_heads(torch.einsum("bhij,bhjd->bhid", weights, V)) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__right_ninth_complex_heads_one_by_one(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Head by head, with pairs as complex numbers, and each head's own rows of W_O added to the stream."""
    n, width = x.shape[1], params["gamma_q"].shape[0]
    half = width // 2
    speeds = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.to(torch.float64)[:, None] * speeds
    clock = torch.polar(torch.ones_like(angles), angles)

    def norm(t, gain):
        return gain * t / (t.pow(2).sum(-1, keepdim=True) / t.shape[-1] + 1e-6).sqrt()

    def hands(t):
        pairs = torch.complex(t[..., :half].contiguous(), t[..., half:].contiguous())
        return pairs * clock.to(pairs.dtype)

    hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
    if window is not None:
        hidden = hidden | torch.ones(n, n, dtype=torch.bool).tril(-window)
    z, y = norm(x, params["gamma_1"]), x
    for a in range(n_heads):
        group = a // (n_heads // n_kv_heads)
        own, shared = slice(a * width, (a + 1) * width), slice(group * width, (group + 1) * width)
        q = hands(norm(z @ params["W_Q"][:, own], params["gamma_q"]))
        k = hands(norm(z @ params["W_K"][:, shared], params["gamma_k"]))
        scores = (q @ k.conj().transpose(1, 2)).real / math.sqrt(width)
        scores = scores.masked_fill(hidden, -torch.inf)
        weights = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))
        y = y + weights @ (z @ params["W_V"][:, shared]) @ params["W_O"][own]
    z = norm(y, params["gamma_2"])
    gate = z @ params["W_gate"]
    return y + (gate * torch.sigmoid(gate) * (z @ params["W_up"])) @ params["W_down"]


# ------- 10.6 sink_attention
def sink_attention__wrong_ninth_sink_reads_the_first_value(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The sink's weight goes to the first token's value, where it should bring no value."""
    B, h, n, d_k = Q.shape
    scores = Q @ K.mT / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    column = sink.view(1, h, 1, 1).expand(B, h, n, 1)
    weights = torch.softmax(torch.cat([column, scores], dim=-1), dim=-1)
    return weights @ torch.cat([V[:, :, :1], V], dim=2)


def sink_attention__wrong_ninth_maximum_not_taken_off_the_sink(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The row's maximum is subtracted from the scores, but exp(sink) is added without it."""
    s = torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5
    if mask is not None:
        s = s.masked_fill(~mask, torch.finfo(s.dtype).min)
    e = torch.exp(s - s.amax(dim=-1, keepdim=True))
    if mask is not None:
        e = e * mask
    total = e.sum(dim=-1, keepdim=True) + torch.exp(sink)[:, None, None]
    return (e / total) @ V


def sink_attention__wrong_ninth_masked_scores_are_minus_1e4(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Masked scores become -10,000, so that hidden keys are read where allowed scores and sink are as low as that."""
    B, h, n, d_k = Q.shape
    scores = (Q / d_k**0.5) @ K.transpose(-2, -1)
    if mask is not None:
        scores = torch.where(mask, scores, torch.full_like(scores, -1e4))
    with_sink = torch.cat([scores, sink[None, :, None, None].expand(B, -1, n, -1)], dim=-1)
    return with_sink.softmax(dim=-1)[..., :-1] @ V


def sink_attention__wrong_ninth_sink_as_a_python_number(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Head by head, with each sink made a Python number, so that no gradient reaches it."""
    B, h, n, d_k = Q.shape
    m = K.shape[2]
    hidden = None if mask is None else ~mask.expand(B, h, n, m)
    outs = []
    for a in range(h):
        scores = Q[:, a] @ K[:, a].mT / math.sqrt(d_k)
        if hidden is not None:
            scores = scores.masked_fill(hidden[:, a], -torch.inf)
        column = torch.full((B, n, 1), float(sink[a]), dtype=scores.dtype)
        weights = torch.softmax(torch.cat([scores, column], dim=2), dim=2)
        outs.append(weights[:, :, :m] @ V[:, a])
    return torch.stack(outs, dim=1)


def sink_attention__right_ninth_sigmoid_behind_the_softmax(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Ordinary attention, multiplied by the share that is left for the keys, sigmoid(logsumexp(scores) - sink)."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), torch.finfo(scores.dtype).min)
    level = torch.logsumexp(scores, dim=-1)
    share = torch.sigmoid(level - sink[:, None])
    return share[..., None] * (torch.softmax(scores, dim=-1) @ V)


# ------- 10.7 linear_attention
def linear_attention__wrong_ninth_fades_after_reading(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """A token writes and reads first, and its decay falls on the state afterwards, its own pair included."""
    B, h, n, d_k = K.shape
    S = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    outs = []
    for t in range(n):
        S = S + K[:, :, t, :, None] * V[:, :, t, None, :]
        outs.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S))
        if decay is not None:
            S = decay[:, :, t, None, None] * S
    return torch.stack(outs, dim=2), S


def linear_attention__wrong_ninth_old_state_fades_one_step_late(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What token t reads of the state handed in has faded by the decays of the tokens before t only."""
    B, h, n, d_k = K.shape
    start = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    log = K.new_zeros(B, h, n) if decay is None else decay.log()
    total = log.cumsum(dim=-1)
    between = total[..., :, None] - total[..., None, :]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    table = (Q @ K.mT) * between.masked_fill(later, -torch.inf).exp()
    faded = (total - log).exp()
    out = table @ V + faded[..., None] * (Q @ start)
    rest = (total[..., -1:] - total).exp()
    last = total[..., -1].exp()[..., None, None] * start + (K * rest[..., None]).mT @ V
    return out, last


def linear_attention__wrong_ninth_ratio_of_vanishing_products(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The fading between two tokens is a ratio of products from the start, 0 / 0 where these have become 0."""
    B, h, n, d_k = K.shape
    if decay is None:
        decay = K.new_ones(B, h, n)
    if state is None:
        state = K.new_zeros(B, h, d_k, V.shape[-1])
    P = decay.cumprod(dim=2)
    fading = (P.unsqueeze(3) / P.unsqueeze(2)).tril()
    out = (Q @ K.mT * fading) @ V + P.unsqueeze(3) * (Q @ state)
    left = P[:, :, -1:] / P
    last = P[:, :, -1, None, None] * state + torch.einsum("bhn,bhnk,bhnv->bhkv", left, K, V)
    return out, last


def linear_attention__wrong_ninth_adds_into_the_callers_state(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Without a decay the new pairs are added in place to the state that was handed in."""
    if decay is None:
        out = (Q @ K.mT).tril() @ V
        written = K.mT @ V
    else:
        total = decay.log().cumsum(dim=-1)
        gap = total[..., :, None] - total[..., None, :]
        n = gap.shape[-1]
        gap = gap.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf)
        out = (Q @ K.mT * gap.exp()) @ V
        written = (K * gap.exp()[..., -1, :, None]).mT @ V
    if state is None:
        return out, written
    if decay is None:
        out = out + Q @ state
        last = state
    else:
        fade = total.exp()[..., None]
        out = out + fade * (Q @ state)
        last = fade[..., -1:, :] * state
    last += written
    return out, last


def linear_attention__right_ninth_scan_by_doubling(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """All states at once, by a prefix scan in which each step reaches twice as far back; the first state is token 0."""
    B, h, n, d_k = K.shape
    pairs = K.unsqueeze(-1) * V.unsqueeze(-2)
    first = pairs.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    S = torch.cat([first.unsqueeze(2), pairs], dim=2)
    fade = K.new_ones(B, h, n + 1)
    if decay is not None:
        fade = torch.cat([fade[:, :, :1], decay], dim=2)
    reach = 1
    while reach <= n:
        S = torch.cat([S[:, :, :reach], S[:, :, reach:] + fade[:, :, reach:, None, None] * S[:, :, :-reach]], dim=2)
        fade = torch.cat([fade[:, :, :reach], fade[:, :, reach:] * fade[:, :, :-reach]], dim=2)
        reach *= 2
    return torch.einsum("bhtk,bhtkv->bhtv", Q, S[:, :, 1:]), S[:, :, -1].clone()


# ------- 10.8 latent_step
def latent_step__wrong_ninth_one_query_for_all_heads(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """All heads together are moved into the latent as one query, so that they share one row of weights."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_head = params["W_Q"].shape[1] // n_heads
    query = (x @ params["W_Q"]) @ params["W_UK"].T
    weights = torch.softmax(query @ C.mT / math.sqrt(d_head), dim=-1)
    mixed = weights @ C
    return mixed @ params["W_UV"] @ params["W_O"], C


def latent_step__wrong_ninth_heads_merged_in_turn(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Before W_O the columns of the heads come in turn, and not head after head."""
    new = torch.einsum("bnm,ml->bnl", x, params["W_DKV"])
    C = torch.cat((cache, new), dim=1)
    up_k = params["W_UK"].unflatten(1, (n_heads, -1))
    up_v = params["W_UV"].unflatten(1, (n_heads, -1))
    q = (x[:, 0] @ params["W_Q"]).unflatten(1, (n_heads, -1))
    scores = torch.einsum("bhd,lhd->bhl", q, up_k) @ C.mT
    A = torch.softmax(scores / q.shape[-1] ** 0.5, dim=-1)
    heads = torch.einsum("bhl,lhv->bvh", A @ C, up_v)
    return (heads.flatten(1) @ params["W_O"]).unsqueeze(1), C


def latent_step__wrong_ninth_one_maximum_for_everything(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest score of the whole batch is subtracted in every row, so that rows far below it become 0 / 0."""
    p, B = params, x.shape[0]
    longer = torch.cat([cache, x @ p["W_DKV"]], dim=1)
    Q = (x @ p["W_Q"]).view(B, n_heads, -1)
    blocks = p["W_UK"].view(p["W_UK"].shape[0], n_heads, -1)
    moved = torch.einsum("bhd,lhd->bhl", Q, blocks) / math.sqrt(Q.shape[-1])
    scores = torch.einsum("bhl,btl->bht", moved, longer)
    e = torch.exp(scores - scores.max())
    read = torch.einsum("bht,btl->bhl", e, longer) / e.sum(dim=-1, keepdim=True)
    heads = torch.einsum("bhl,lhv->bhv", read, p["W_UV"].view(read.shape[-1], n_heads, -1))
    return heads.reshape(B, 1, -1) @ p["W_O"], longer


def latent_step__wrong_ninth_values_of_one_head_after_another(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The scores come from the latents, but the values of all tokens are built, one head at a time."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    W_Qs = params["W_Q"].chunk(n_heads, dim=1)
    W_UKs = params["W_UK"].chunk(n_heads, dim=1)
    W_UVs = params["W_UV"].chunk(n_heads, dim=1)
    W_Os = params["W_O"].chunk(n_heads, dim=0)
    out = torch.zeros_like(x)
    for W_Q, W_UK, W_UV, W_O in zip(W_Qs, W_UKs, W_UVs, W_Os, strict=True):
        query = x @ W_Q @ W_UK.T
        weights = torch.softmax(query @ C.mT / math.sqrt(W_Q.shape[1]), dim=-1)
        out = out + weights @ (C @ W_UV) @ W_O
    return out, C


def latent_step__right_ninth_running_softmax_over_latents(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Heads as rows of one matrix, and a softmax that runs over pieces of the cache with a maximum and a sum."""
    longer = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x[:, 0] @ params["W_Q"]).unflatten(-1, (n_heads, -1))
    rows = torch.einsum("bhd,lhd->bhl", q, params["W_UK"].unflatten(-1, (n_heads, -1)))
    rows = rows / math.sqrt(q.shape[-1])
    top = total = mixed = None
    for piece in longer.split(32, dim=1):
        scores = torch.bmm(rows, piece.mT)
        peak = scores.amax(dim=-1, keepdim=True)
        if top is None:
            top = peak
            e = torch.exp(scores - top)
            total, mixed = e.sum(dim=-1, keepdim=True), torch.bmm(e, piece)
            continue
        higher = torch.maximum(top, peak)
        e, shrink = torch.exp(scores - higher), torch.exp(top - higher)
        total = shrink * total + e.sum(dim=-1, keepdim=True)
        mixed = shrink * mixed + torch.bmm(e, piece)
        top = higher
    heads = torch.einsum("bhl,lhv->bhv", mixed / total, params["W_UV"].unflatten(-1, (n_heads, -1)))
    return (heads.flatten(1) @ params["W_O"])[:, None], longer


# ------- 10.9 delta_rule
def delta_rule__wrong_ninth_corrections_of_first_order(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The system is multiplied by I - A in place of the inverse of I + A: right for two tokens, wrong from three on."""
    B, h, n, d_k = K.shape
    S = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    b = beta[..., None]
    alone = b * (V - K @ S)
    overlap = (b * (K @ K.mT)).tril(-1)
    U = alone - overlap @ alone
    out = Q @ S + (Q @ K.mT).tril() @ U
    return out, S + K.mT @ U


def delta_rule__wrong_ninth_beta_on_the_columns(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """beta stands on the columns of the system, with the token that was read, and not on the rows."""
    n = K.shape[2]
    if state is None:
        state = torch.zeros(*K.shape[:2], K.shape[3], V.shape[3], dtype=K.dtype)
    gram = torch.einsum("bhik,bhjk,bhj->bhij", K, K, beta)
    system = torch.eye(n, dtype=K.dtype) + torch.tril(gram, diagonal=-1)
    right_side = torch.einsum("bhn,bhnv->bhnv", beta, V - K @ state)
    U = torch.linalg.solve_triangular(system, right_side, upper=False)
    reads = torch.einsum("bhik,bhjk->bhij", Q, K).tril()
    return reads @ U + Q @ state, state + torch.einsum("bhnk,bhnv->bhkv", K, U)


def delta_rule__wrong_ninth_later_chunks_read_the_first_state(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """In chunks of 128, of which all read from the state before the first token: wrong for more than 128 tokens."""
    B, h, n, d_k = K.shape
    if state is None:
        state = K.new_zeros(B, h, d_k, V.shape[-1])
    S, outs = state, []
    for start in range(0, n, 128):
        q, k, v = (x[:, :, start : start + 128] for x in (Q, K, V))
        b = beta[:, :, start : start + 128, None]
        A = torch.tril(b * (k @ k.mT), -1)
        u = torch.linalg.solve_triangular(A, b * (v - k @ S), upper=False, unitriangular=True)
        outs.append(q @ state + torch.tril(q @ k.mT) @ u)
        S = S + k.mT @ u
    return torch.cat(outs, dim=2), S


def delta_rule__wrong_ninth_inverse_row_by_row(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The inverse of the system is found row after row, which is a Python loop over the tokens."""
    B, h, n, d_k = K.shape
    S = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    scaled = beta.unsqueeze(-1) * K
    A = scaled @ K.mT
    unit = torch.eye(n, dtype=K.dtype).expand(B, h, n, n)
    T = unit[:, :, :1]
    for i in range(1, n):
        row = unit[:, :, i : i + 1] - A[:, :, i : i + 1, :i] @ T
        T = torch.cat([T, row], dim=2)
    U = T @ (beta.unsqueeze(-1) * V) - T @ scaled @ S
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__right_ninth_scan_over_maps_of_the_state(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each token maps S to M S + N; all products of these maps come from a prefix scan with doubling steps."""
    B, h, n, d_k = K.shape
    eye = torch.eye(d_k, dtype=K.dtype)
    first = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    keys = beta[..., None] * K
    M = eye - keys[..., :, None] * K[..., None, :]
    M = torch.cat([eye.expand(B, h, 1, d_k, d_k), M], dim=2)
    N = torch.cat([first.unsqueeze(2), keys[..., :, None] * V[..., None, :]], dim=2)
    step = 1
    while step <= n:
        N = torch.cat([N[:, :, :step], N[:, :, step:] + M[:, :, step:] @ N[:, :, :-step]], dim=2)
        M = torch.cat([M[:, :, :step], M[:, :, step:] @ M[:, :, :-step]], dim=2)
        step *= 2
    out = (Q.unsqueeze(-2) @ N[:, :, 1:]).squeeze(-2)
    return out, N[:, :, -1].clone()
