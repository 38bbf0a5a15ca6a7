"""Answers of students to the exercises of unit 10, attention today."""

import math

import torch
import torch.nn.functional as F


# What the notebook gives, and right answers of earlier exercises.
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
    p = torch.arange(half, dtype=torch.float64)
    angles = positions.double()[:, None] * base ** (-2 * p / x.shape[-1])
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def _rms_norm(x, gamma, eps=1e-6):
    return gamma * x / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps)


def _swiglu(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def _sliding_window_mask(n_new, n_total, window):
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j <= i) & (j > i - window)


# 10.1 rotate


def rotate__wrong_sixth_neighbours_are_paired(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0):
    """Pairs columns 2p and 2p + 1, as the paper does, and weaves them together again with stack and flatten."""
    d = x.shape[-1]
    speeds = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    theta = torch.outer(positions.double(), speeds)
    c, s = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * c - odd * s, odd * c + even * s], dim=-1).flatten(-2)


def rotate__wrong_sixth_speeds_by_linspace(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0):
    """Takes the exponents from linspace(0, 1, d/2), which reaches 1 at the last pair, where 2p/d ends at 1 - 2/d."""
    half = x.shape[-1] // 2
    exponents = torch.linspace(0, 1, half, dtype=torch.float64)
    angle = positions[:, None].double() / base**exponents[None, :]
    cosine, sine = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)


def rotate__wrong_sixth_relative_to_the_first_row(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0):
    """Subtracts positions[0] first, since 'only distances count': row 0 is never turned."""
    d = x.size(-1)
    relative = (positions - positions[0]).double()
    frequencies = torch.tensor([base ** (-2 * p / d) for p in range(d // 2)], dtype=torch.float64)
    table = torch.einsum("n,p->np", relative, frequencies)
    cos, sin = table.cos().to(x), table.sin().to(x)
    left, right = x[..., : d // 2], x[..., d // 2 :]
    turned_left = left * cos - right * sin
    turned_right = right * cos + left * sin
    return torch.cat([turned_left, turned_right], dim=-1)


def rotate__wrong_sixth_positions_cut_to_integers(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0):
    """Looks the angles up in a table of whole positions, with positions.long(): 2.5 is turned as 2."""
    half = x.shape[-1] // 2
    index = positions.long()
    longest = int(index.max()) + 1
    speeds = base ** (-2 * torch.arange(half, dtype=torch.float64) / x.shape[-1])
    table = torch.arange(max(longest, 1), dtype=torch.float64)[:, None] * speeds
    cos, sin = table.cos()[index].to(x.dtype), table.sin()[index].to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def rotate__wrong_sixth_angles_repeated_for_neighbours(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
):
    """Swaps halves, but spreads the angles by repeat_interleave(2), as for neighbours: the two columns of a pair get two angles."""

    def rotate_half(z):
        z1, z2 = z.chunk(2, dim=-1)
        return torch.cat([-z2, z1], dim=-1)

    d = x.shape[-1]
    inv_freq = 1.0 / base ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    freqs = positions.double()[:, None] * inv_freq[None]
    emb = freqs.repeat_interleave(2, dim=-1)
    return x * emb.cos().to(x.dtype) + rotate_half(x) * emb.sin().to(x.dtype)


def rotate__wrong_sixth_second_half_from_turned_first(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
):
    """Overwrites the first half and then works the second half out from the overwritten columns."""
    out, h = x.clone(), x.shape[-1] // 2
    angles = positions.to(torch.float64).unsqueeze(-1) * base ** (
        -2 * torch.arange(h, dtype=torch.float64) / x.shape[-1]
    )
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first = out[..., :h]
    second = out[..., h:]
    first = first * cos - second * sin
    second = second * cos + first * sin
    return torch.cat([first, second], dim=-1)


def rotate__wrong_sixth_exponent_by_floor_division(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0):
    """Writes 2 * p // d for the exponent, which is 0 for every p below d/2: all pairs turn at full speed."""
    d = x.shape[-1]
    columns = []
    upper = []
    for p in range(d // 2):
        speed = base ** -(2 * p // d)
        angle = positions.double() * speed
        c, s = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        columns.append(x[..., p] * c - x[..., p + d // 2] * s)
        upper.append(x[..., p + d // 2] * c + x[..., p] * s)
    return torch.stack(columns + upper, dim=-1)


def rotate__wrong_sixth_second_half_keeps_its_sign_of_sine(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
):
    """Swaps the halves with roll and forgets the minus: both halves get + other * sin, a reflection-like mix and no turn."""
    d = x.shape[-1]
    p = torch.arange(d // 2, dtype=torch.float64)
    speeds = base ** (-2 * p / d)
    angles = (positions.double()[:, None] * speeds).repeat(1, 2)
    other = x.roll(d // 2, dims=-1)
    return x * angles.cos().to(x.dtype) + other * angles.sin().to(x.dtype)


def rotate__right_sixth_complex_numbers(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0):
    """Each pair is a complex number, multiplied by exp(i angle)."""
    real, imaginary = x.tensor_split(2, dim=-1)
    d = x.shape[-1]
    speeds = torch.tensor([base ** (-2 * p / d) for p in range(d // 2)], dtype=torch.float64)
    angles = torch.outer(positions.double(), speeds)
    turn = torch.polar(torch.ones_like(angles), angles)
    z = torch.complex(real.double(), imaginary.double()) * turn
    return torch.cat([z.real, z.imag], dim=-1).to(x.dtype)


def rotate__right_sixth_one_matrix_per_row(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0):
    """One turning matrix (d, d) for each position, filled entry by entry, and an einsum."""
    d, half = x.shape[-1], x.shape[-1] // 2
    R = torch.zeros(len(positions), d, d, dtype=torch.float64)
    for p in range(half):
        angle = positions.double() * math.exp(-2 * p / d * math.log(base))
        R[:, p, p] = R[:, p + half, p + half] = torch.cos(angle)
        R[:, p, p + half] = torch.sin(angle)
        R[:, p + half, p] = -torch.sin(angle)
    return torch.einsum("...nc,nce->...ne", x, R.to(x.dtype))


# 10.2 rms_norm


def rms_norm__wrong_sixth_mean_over_the_first_axis(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6):
    """Averages the squares over axis 0, over the sequences, and not over the columns of a token."""
    mean_square = (x * x).mean(0, keepdim=True)
    return gamma * x / (mean_square + eps).sqrt()


def rms_norm__wrong_sixth_mean_of_absolute_values(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6):
    """Takes the root of each square before the mean: divides by the mean absolute value."""
    size = torch.sqrt(x**2 + eps).mean(dim=-1, keepdim=True)
    return gamma * (x / size)


def rms_norm__wrong_sixth_eps_as_lower_bound(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6):
    """Uses eps as the smallest divisor, with clamp(min=eps) on the root, as normalize does, and adds nothing."""
    rms = x.pow(2).mean(-1, keepdim=True).sqrt()
    return gamma * x / rms.clamp(min=eps)


def rms_norm__wrong_sixth_square_of_the_mean(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6):
    """Squares the mean where the mean of the squares is meant."""
    m = x.mean(dim=-1, keepdim=True) ** 2
    return x * torch.rsqrt(m + eps) * gamma


def rms_norm__wrong_sixth_divided_by_d_minus_one(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6):
    """Averages the squares with d - 1, as an unbiased variance has it."""
    d = x.size(-1)
    total = torch.einsum("...i,...i->...", x, x).unsqueeze(-1)
    return gamma * x / torch.sqrt(total / max(d - 1, 1) + eps)


def rms_norm__wrong_sixth_comes_back_in_float32(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6):
    """Works in float32 as Llama's code does, and does not go back: float64 comes out as float32."""
    hidden = x.to(torch.float32)
    variance = hidden.pow(2).mean(-1, keepdim=True)
    hidden = hidden * torch.rsqrt(variance + eps)
    return gamma.to(torch.float32) * hidden


def rms_norm__wrong_sixth_root_without_gradient(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6):
    """Works the root out under no_grad, as if it were a constant: the gradient of x lacks a part."""
    with torch.no_grad():
        scale = 1 / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    return x * scale * gamma


def rms_norm__wrong_sixth_eps_inside_the_mean_once(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6):
    """Adds eps to the sum of the squares and divides both by d: only eps/d is added to the mean square."""
    d = x.shape[-1]
    root = ((x.square().sum(-1, keepdim=True) + eps) / d).sqrt()
    return x.div(root).mul(gamma)


def rms_norm__right_sixth_token_by_token(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6):
    """Flattens all tokens into rows, norms one after another with a dot product, and restores the shape."""
    rows = x.reshape(-1, x.shape[-1])
    done = [gamma * row * (row.dot(row) / row.numel() + eps) ** -0.5 for row in rows]
    return torch.stack(done).reshape(x.shape)


# 10.3 swiglu


def swiglu__wrong_sixth_silu_before_the_gate_weights(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
):
    """Applies silu to x and multiplies by W_gate afterwards: silu(x) W_gate."""
    opened = F.silu(x) @ W_gate
    return (opened * (x @ W_up)) @ W_down


def swiglu__wrong_sixth_gelu_for_silu(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
):
    """Takes GELU in its tanh form for the gate: GEGLU of the same paper."""
    z = x @ W_gate
    gate = 0.5 * z * (1 + torch.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
    hidden = gate * (x @ W_up)
    return hidden @ W_down


def swiglu__wrong_sixth_sigmoid_of_up(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
):
    """Writes silu out as gate * sigmoid(...) but puts up into the sigmoid."""
    gate, up = x @ W_gate, x @ W_up
    silu = gate * torch.sigmoid(up)
    return torch.matmul(silu * up, W_down)


def swiglu__wrong_sixth_silu_after_w_down(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
):
    """Brackets wrongly: multiplies gate and up, goes down, and applies silu to the result."""
    product = torch.mul(x.matmul(W_gate), x.matmul(W_up))
    return F.silu(product.matmul(W_down))


def swiglu__wrong_sixth_sigmoid_overflows(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
):
    """Writes the sigmoid as exp(z) / (1 + exp(z)), which is inf / inf = NaN for large z."""

    def silu(z):
        e = torch.exp(z)
        return z * e / (1 + e)

    return (silu(x @ W_gate) * (x @ W_up)) @ W_down


def swiglu__wrong_sixth_gate_cut_off(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
):
    """Cuts the gate off above 7, as swiglu_limit of gpt-oss says."""
    gate = torch.clamp(x @ W_gate, max=7.0)
    gate = gate * gate.sigmoid()
    up = x @ W_up
    return torch.einsum("...f,fd->...d", gate * up, W_down)


def swiglu__wrong_sixth_rows_left_flat(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
):
    """Flattens the axes before the last for the products and does not restore them: (B*n, d_model) comes back."""
    tokens = x.reshape(-1, x.shape[-1])
    g = F.silu(torch.mm(tokens, W_gate))
    u = torch.mm(tokens, W_up)
    return torch.mm(g * u, W_down)


def swiglu__wrong_sixth_up_taken_from_the_gate(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
):
    """Goes on with W_up from what the gate let through of x W_gate: multiplies silu(gate) by gate, W_up is not read."""
    hidden = x @ W_gate
    hidden = hidden * F.silu(hidden)
    return hidden @ W_down


# 10.4 sliding_window_mask


def sliding_window_mask__wrong_sixth_slice_from_a_negative_start(n_new: int, n_total: int, window: int):
    """Fills mask[r, i - window + 1 : i + 1]; where the start is negative Python counts from the end, and rows stay empty."""
    mask = torch.zeros(n_new, n_total, dtype=torch.bool)
    for r in range(n_new):
        i = n_total - n_new + r
        mask[r, i - window + 1 : i + 1] = True
    return mask


def sliding_window_mask__wrong_sixth_fixed_blocks(n_new: int, n_total: int, window: int):
    """Cuts the text into fixed blocks of `window` tokens: a token sees those before it in its own block only."""
    query = torch.arange(n_total - n_new, n_total).unsqueeze(1)
    key = torch.arange(n_total).unsqueeze(0)
    same_block = query // window == key // window
    return same_block & (key <= query)


def sliding_window_mask__wrong_sixth_last_window_for_every_row(n_new: int, n_total: int, window: int):
    """Keeps the last `window` keys of the whole text for every row, and not the last before each row's own place."""
    keep = torch.arange(n_total) >= n_total - window
    causal = torch.ones(n_new, n_total, dtype=torch.bool).tril(n_total - n_new)
    return causal & keep


def sliding_window_mask__wrong_sixth_numbers_to_add(n_new: int, n_total: int, window: int):
    """Returns a mask to be added to the scores, 0 and -inf in float32, and no booleans."""
    i = torch.arange(n_new)[:, None] + n_total - n_new
    j = torch.arange(n_total)[None, :]
    hidden = (j > i) | (j <= i - window)
    return torch.zeros(n_new, n_total).masked_fill(hidden, float("-inf"))


def sliding_window_mask__wrong_sixth_both_sides(n_new: int, n_total: int, window: int):
    """Compares the absolute distance with the window: as many later tokens are seen as earlier ones."""
    rows = torch.arange(n_total)[-n_new:]
    distance = (rows[:, None] - torch.arange(n_total)[None]).abs()
    return distance < window


def sliding_window_mask__wrong_sixth_cache_seen_whole(n_new: int, n_total: int, window: int):
    """Makes a band among the new tokens and sets all columns of the cache to True: the window is not used there."""
    new = torch.ones(n_new, n_new, dtype=torch.bool)
    band = new.tril() & new.triu(1 - window)
    cached = torch.ones(n_new, n_total - n_new, dtype=torch.bool)
    return torch.cat([cached, band], dim=1)


def sliding_window_mask__wrong_sixth_first_token_always_seen(n_new: int, n_total: int, window: int):
    """Lets every row see key 0 besides its window, as a sink of StreamingLLM."""
    i = torch.arange(n_total - n_new, n_total).view(-1, 1)
    j = torch.arange(n_total).view(1, -1)
    recent = (i - window < j) & (j <= i)
    first = j == 0
    return recent | first


def sliding_window_mask__wrong_sixth_rows_one_place_early(n_new: int, n_total: int, window: int):
    """Puts row r at n_total - n_new + r - 1, as if the last of the text stood at n_total - 2."""
    start = n_total - n_new - 1
    answer = []
    for r in range(n_new):
        i = start + r
        answer.append([i - window < j <= i for j in range(n_total)])
    return torch.tensor(answer)


def sliding_window_mask__right_sixth_last_rows_of_a_band(n_new: int, n_total: int, window: int):
    """The square mask of the whole text by tril and triu, and its last n_new rows."""
    square = torch.ones(n_total, n_total, dtype=torch.bool)
    return square.tril().triu(1 - window)[n_total - n_new :]


def sliding_window_mask__right_sixth_one_diagonal_at_a_time(n_new: int, n_total: int, window: int):
    """Joins the diagonals of 0, 1, 2, ... tokens back, as many as the window and the text have."""
    place = torch.arange(n_total - n_new, n_total).unsqueeze(1)
    keys = torch.arange(n_total)
    seen = torch.zeros(n_new, n_total, dtype=torch.bool)
    for back in range(min(window, n_total)):
        seen = seen | (place - back == keys)
    return seen


# 10.5 modern_block


def modern_block__wrong_sixth_qk_norm_over_all_heads(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
):
    """Norms queries and keys before the split, over all heads' columns at once (gains repeated), and not each head."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    Q = _rms_norm(z @ params["W_Q"], params["gamma_q"].repeat(n_heads))
    K = _rms_norm(z @ params["W_K"], params["gamma_k"].repeat(n_kv_heads))
    Q, K, V = _split_heads(Q, n_heads), _split_heads(K, n_kv_heads), _split_heads(z @ params["W_V"], n_kv_heads)
    Q, K = _rotate(Q, positions), _rotate(K, positions)
    K = K.repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = V.repeat_interleave(n_heads // n_kv_heads, dim=1)
    mask = _sliding_window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + _merge_heads(A @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_sixth_qk_norm_to_length_one(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
):
    """Takes the QK-norm of Henry et al., length 1 and then the gain, where rms_norm gives the length sqrt(d_head)."""
    p = params
    B, n, _ = x.shape
    z = _rms_norm(x, p["gamma_1"])

    def unit(heads, gain):
        return gain * heads / torch.sqrt(heads.square().sum(-1, keepdim=True) + 1e-6)

    q = _rotate(unit(_split_heads(z @ p["W_Q"], n_heads), p["gamma_q"]), positions)
    k = _rotate(unit(_split_heads(z @ p["W_K"], n_kv_heads), p["gamma_k"]), positions)
    v = _split_heads(z @ p["W_V"], n_kv_heads)
    shared = n_heads // n_kv_heads
    k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
    allowed = _sliding_window_mask(n, n, window or n)
    attended = _merge_heads(_masked_softmax(scores, allowed) @ v)
    y = x + attended @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_sixth_residual_adds_the_normed_x(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
):
    """Writes the normed tokens into x itself (the name), so that step 6 adds z and not the x that came in."""
    x = _rms_norm(x, params["gamma_1"])
    Q = _split_heads(x @ params["W_Q"], n_heads)
    K = _split_heads(x @ params["W_K"], n_kv_heads)
    V = _split_heads(x @ params["W_V"], n_kv_heads)
    Q = _rotate(_rms_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, params["gamma_k"]), positions)
    times = n_heads // n_kv_heads
    K, V = K.repeat_interleave(times, dim=1), V.repeat_interleave(times, dim=1)
    n = x.size(1)
    if window is None:
        window = n
    weights = _masked_softmax(Q @ K.transpose(-1, -2) / math.sqrt(K.size(-1)), _sliding_window_mask(n, n, window))
    x = x + _merge_heads(weights @ V) @ params["W_O"]
    x = x + _swiglu(_rms_norm(x, params["gamma_2"]), *(params[f"W_{name}"] for name in ("gate", "up", "down")))
    return x


def modern_block__wrong_sixth_heads_reshaped_without_transpose(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
):
    """Merges the heads by reshape(B, n, -1) straight from (B, h, n, d_head): tokens and heads are mixed up."""
    B, n, d_model = x.shape
    z = _rms_norm(x, params["gamma_1"])
    q, k, v = z @ params["W_Q"], z @ params["W_K"], z @ params["W_V"]
    q = q.view(B, n, n_heads, -1).transpose(1, 2)
    k = k.view(B, n, n_kv_heads, -1).transpose(1, 2)
    v = v.view(B, n, n_kv_heads, -1).transpose(1, 2)
    q = _rotate(_rms_norm(q, params["gamma_q"]), positions)
    k = _rotate(_rms_norm(k, params["gamma_k"]), positions)
    group = n_heads // n_kv_heads
    k, v = (one.repeat_interleave(group, dim=1) for one in (k, v))
    mask = _sliding_window_mask(n, n, window if window is not None else n)
    out = _masked_softmax(q @ k.mT * q.shape[-1] ** -0.5, mask) @ v
    y = x + out.reshape(B, n, -1) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_sixth_gains_before_the_turn_swapped(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
):
    """Norms the queries with gamma_k and the keys with gamma_q: harmless without the turn, but not with it."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    heads = {}
    for letter, count, gain in (("Q", n_heads, "gamma_k"), ("K", n_kv_heads, "gamma_q")):
        projected = _split_heads(z @ params["W_" + letter], count)
        heads[letter] = _rotate(_rms_norm(projected, params[gain]), positions)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    r = n_heads // n_kv_heads
    K, V = heads["K"].repeat_interleave(r, 1), V.repeat_interleave(r, 1)
    scores = heads["Q"] @ K.mT / math.sqrt(K.shape[-1])
    A = _masked_softmax(scores, _sliding_window_mask(n, n, n if window is None else window))
    y = x + _merge_heads(A @ V) @ params["W_O"]
    ffn = _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])
    return y + ffn


def modern_block__wrong_sixth_window_replaces_the_causal_mask(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
):
    """Is causal without a window; with one it only asks i - j < window, so that all later tokens are seen."""
    n = x.shape[1]
    i, j = torch.arange(n).unsqueeze(1), torch.arange(n)
    mask = j <= i if window is None else i - j < window
    z = _rms_norm(x, params["gamma_1"])
    Q = _rotate(_rms_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"]), positions)
    K = _rotate(_rms_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"]), positions)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    owner = torch.arange(n_heads) // (n_heads // n_kv_heads)
    A = _masked_softmax(Q @ K[:, owner].mT / math.sqrt(Q.shape[-1]), mask)
    y = x + _merge_heads(A @ V[:, owner]) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_sixth_x_is_added_to_in_place(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
):
    """Adds the attention's result with x += ..., which changes the tensor that was handed in (the numbers are right)."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    Q = _rms_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"])
    K = _rms_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"])
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    Q, K = _rotate(Q, positions), _rotate(K, positions)
    K = K.repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = V.repeat_interleave(n_heads // n_kv_heads, dim=1)
    mask = _sliding_window_mask(n, n, window or n)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    x += _merge_heads(A @ V) @ params["W_O"]
    return x + _swiglu(_rms_norm(x, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_sixth_values_from_the_raw_x(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
):
    """Projects the values from x, since 'values are not normed'; they come from z, as queries and keys do."""
    n, share = x.shape[1], n_heads // n_kv_heads
    z = _rms_norm(x, params["gamma_1"])
    values = _split_heads(x @ params["W_V"], n_kv_heads)
    queries = _split_heads(z @ params["W_Q"], n_heads)
    keys = _split_heads(z @ params["W_K"], n_kv_heads)
    queries = _rotate(_rms_norm(queries, params["gamma_q"]), positions)
    keys = _rotate(_rms_norm(keys, params["gamma_k"]), positions)
    mask = _sliding_window_mask(n, n, n if window is None else window)
    outs = []
    for a in range(n_heads):
        scores = queries[:, a] @ keys[:, a // share].mT / math.sqrt(queries.shape[-1])
        outs.append(_masked_softmax(scores, mask) @ values[:, a // share])
    y = x + torch.cat(outs, dim=-1) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__right_sixth_groups_as_an_axis(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
):
    """Queries as (B, n, g, h/g, d_head) meet keys (B, n, g, d_head) in an einsum: nothing is repeated or transposed."""
    p, n, g = params, x.shape[1], n_kv_heads
    z = _rms_norm(x, p["gamma_1"])
    Q = _rms_norm((z @ p["W_Q"]).unflatten(-1, (g, n_heads // g, -1)), p["gamma_q"])
    K = _rms_norm((z @ p["W_K"]).unflatten(-1, (g, -1)), p["gamma_k"])
    V = (z @ p["W_V"]).unflatten(-1, (g, -1))
    Q = _rotate(Q.movedim(1, -2), positions)  # (B, g, h/g, n, d_head)
    K = _rotate(K.movedim(1, -2), positions)  # (B, g, n, d_head)
    back = torch.arange(n)[:, None] - torch.arange(n)
    hidden = back < 0
    if window is not None:
        hidden = hidden | (back >= window)
    scores = torch.einsum("bgrid,bgjd->bgrij", Q, K) / math.sqrt(Q.shape[-1])
    A = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
    out = torch.einsum("bgrij,bjgd->bigrd", A, V).flatten(2)
    y = x + out @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__right_sixth_one_query_at_a_time(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
):
    """Head by head and row by row, over the slice of keys that the row may see; each head adds through its rows of W_O."""
    n, d = x.shape[1], params["gamma_q"].shape[0]
    z = _rms_norm(x, params["gamma_1"])
    y = x
    for a in range(n_heads):
        b = a // (n_heads // n_kv_heads)
        mine, shared = slice(a * d, (a + 1) * d), slice(b * d, (b + 1) * d)
        q = _rotate(_rms_norm(z @ params["W_Q"][:, mine], params["gamma_q"]), positions)
        k = _rotate(_rms_norm(z @ params["W_K"][:, shared], params["gamma_k"]), positions)
        v = z @ params["W_V"][:, shared]
        rows = []
        for i in range(n):
            first = 0 if window is None else max(0, i - window + 1)
            s = (k[:, first : i + 1] @ q[:, i, :, None])[..., 0] / math.sqrt(d)
            rows.append((s.softmax(-1)[..., None] * v[:, first : i + 1]).sum(1))
        y = y + torch.stack(rows, dim=1) @ params["W_O"][mine]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


# 10.6 sink_attention


def sink_attention__wrong_sixth_sinks_repeated_in_the_wrong_order(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
):
    """Makes the column by sink.repeat(B * n).view(B, h, n, 1), which gives rows of one head the sinks of all heads in turn."""
    B, h, n, d_k = Q.shape
    scores = Q @ K.mT / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    column = sink.repeat(B * n).view(B, h, n, 1)
    weights = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)
    return weights[..., :-1] @ V


def sink_attention__wrong_sixth_sink_not_shifted_by_the_maximum(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
):
    """Takes the maximum off the scores for safety, but adds exp(sink) to the denominator as it stands."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    top = scores.amax(dim=-1, keepdim=True)
    e = torch.exp(scores - top)
    if mask is not None:
        e = e * mask
    below = e.sum(dim=-1, keepdim=True) + torch.exp(sink)[:, None, None]
    return (e / below) @ V


def sink_attention__wrong_sixth_mask_behind_the_softmax_only(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
):
    """Sets forbidden weights to 0 behind the softmax only: forbidden keys still stand in the denominator."""
    scores = Q @ K.transpose(2, 3) / math.sqrt(Q.size(3))
    extra = sink.view(1, -1, 1, 1).expand(Q.size(0), -1, Q.size(2), 1)
    weights = torch.cat([extra, scores], dim=3).softmax(dim=3)[:, :, :, 1:]
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ V


def sink_attention__wrong_sixth_column_in_front_last_dropped(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
):
    """Puts the sink's column in front of the scores and drops the last one: each value gets the weight of the key before."""
    B, h, n, _ = Q.shape
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = torch.where(mask, S, torch.full_like(S, torch.finfo(S.dtype).min))
    S = torch.cat([sink[None, :, None, None].expand(B, h, n, 1), S], dim=-1)
    A = torch.softmax(S, dim=-1)
    return A[..., :-1] @ V


def sink_attention__wrong_sixth_weights_normed_again(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
):
    """Drops the sink's column and divides the rest by its sum, so that weights sum to 1 again and the sink has no effect."""
    B, h, n, d_k = Q.shape
    m = K.shape[2]
    scores = Q @ K.mT / math.sqrt(d_k)
    column = sink[:, None, None].expand(B, h, n, 1)
    everything = torch.cat([scores, column], dim=-1)
    if mask is not None:
        allowed = F.pad(mask.expand(B, h, n, m), (0, 1), value=True)
        weights = _masked_softmax(everything, allowed)[..., :m]
    else:
        weights = _masked_softmax(everything)[..., :m]
    weights = weights / weights.sum(dim=-1, keepdim=True).clamp_min(1e-30)
    return weights @ V


def sink_attention__wrong_sixth_nan_where_nothing_is_allowed(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
):
    """Plain softmax of scores with -inf, times the share sigmoid(logsumexp - sink): NaN in a row that is all False."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    share = torch.sigmoid(scores.logsumexp(dim=-1, keepdim=True) - sink.view(-1, 1, 1))
    return share * (scores.softmax(dim=-1) @ V)


def sink_attention__wrong_sixth_a_sink_for_every_key(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
):
    """Expands the sink to the shape of the scores: m columns of it, so that m exp(sink) stands in the denominator."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    sinks = sink[None, :, None, None].expand_as(scores)
    weights = torch.softmax(torch.cat([scores, sinks], dim=-1), dim=-1)
    return weights[..., : K.shape[2]] @ V


def sink_attention__wrong_sixth_scaled_by_the_width_of_values(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
):
    """Divides the scores by the root of d_v, the last axis of V, and not of d_k."""
    d = V.shape[-1]
    logits = Q @ K.mT / math.sqrt(d)
    B, h, n, m = logits.shape
    if mask is None:
        mask = torch.ones(n, m, dtype=torch.bool)
    logits = logits.masked_fill(~mask, -torch.inf)
    logits = torch.cat([logits, sink.reshape(1, h, 1, 1).expand(B, h, n, 1)], -1)
    return logits.softmax(-1)[..., :m] @ V


def sink_attention__right_sixth_share_of_the_keys(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
):
    """Ordinary masked attention times the share of the keys, sigmoid(logsumexp of the allowed scores - sink)."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    plain = _masked_softmax(scores, mask) @ V
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    share = torch.sigmoid(torch.logsumexp(scores, dim=-1) - sink[:, None])
    return plain * share.unsqueeze(-1)


# 10.7 linear_attention


def linear_attention__wrong_sixth_state_changed_in_place(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
):
    """Fades and writes with mul_ and add_ on the state that was handed in: the caller's state is changed (the numbers are right)."""
    B, h, n, d_k = K.shape
    if state is None:
        state = torch.zeros(B, h, d_k, V.shape[-1], dtype=V.dtype)
    outs = []
    for t in range(n):
        if decay is not None:
            state.mul_(decay[:, :, t, None, None])
        state.add_(K[:, :, t, :, None] * V[:, :, t, None, :])
        outs.append((Q[:, :, t, None] @ state).squeeze(2))
    return torch.stack(outs, dim=2), state


def linear_attention__wrong_sixth_fades_after_reading(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
):
    """Writes, reads and then fades by a_t: each token's decay comes one step late, and the last state is faded once more."""
    if decay is None:
        decay = torch.ones_like(Q[..., 0])
    S = torch.zeros(*K.shape[:2], K.shape[3], V.shape[3], dtype=K.dtype) if state is None else state
    out = []
    for q, k, v, a in zip(Q.unbind(2), K.unbind(2), V.unbind(2), decay.unbind(2)):
        S = S + torch.einsum("bhd,bhe->bhde", k, v)
        out.append(torch.einsum("bhd,bhde->bhe", q, S))
        S = a[..., None, None] * S
    return torch.stack(out, 2), S


def linear_attention__wrong_sixth_stacked_last_and_reshaped(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
):
    """Stacks the tokens' outputs along the last axis and reshapes to (B, h, n, d_v): tokens and columns are mixed up."""
    B, h, n, d_k = Q.shape
    d_v = V.shape[-1]
    S = Q.new_zeros(B, h, d_k, d_v) if state is None else state
    collected = []
    for t in range(n):
        a = 1.0 if decay is None else decay[..., t].view(B, h, 1, 1)
        S = a * S + K[:, :, t].unsqueeze(-1) * V[:, :, t].unsqueeze(-2)
        collected.append((Q[:, :, t].unsqueeze(-1) * S).sum(dim=-2))
    return torch.stack(collected, dim=-1).reshape(B, h, n, d_v), S


def linear_attention__wrong_sixth_quotients_of_products_underflow(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
):
    """Divides keys by the product of all decays so far, which is 0 behind enough small ones: NaN or inf in longer texts."""
    if decay is None:
        decay = torch.ones(Q.shape[:3], dtype=Q.dtype)
    G = decay.cumprod(dim=-1)[..., None]
    if state is None:
        state = torch.zeros(*Q.shape[:2], Q.shape[-1], V.shape[-1], dtype=Q.dtype)
    faded_Q, lifted_K = Q * G, K / G
    out = (faded_Q @ lifted_K.mT).tril() @ V + faded_Q @ state
    last = G[:, :, -1:] * (state + lifted_K.mT @ V)
    return out, last


def linear_attention__wrong_sixth_decay_taken_for_a_rate(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
):
    """Fades by exp(-decay), as if it were a rate; the factor a_t is handed in as it is."""
    B, h, n, d_k = K.shape
    S = state if state is not None else torch.zeros((B, h, d_k, V.size(-1)), dtype=K.dtype)
    o = []
    for t in range(n):
        k, v, q = K[:, :, t : t + 1], V[:, :, t : t + 1], Q[:, :, t : t + 1]
        if decay is not None:
            S = torch.exp(-decay[:, :, t])[:, :, None, None] * S
        S = S + k.mT @ v
        o.append(q @ S)
    return torch.cat(o, dim=2), S


def linear_attention__wrong_sixth_last_state_of_this_chunk_alone(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
):
    """Keeps what the chunk writes apart from the old state; reads add both, but only the chunk's own part comes back."""
    B, h, n, d_k = K.shape
    written = torch.zeros(B, h, d_k, V.shape[-1], dtype=K.dtype)
    old = torch.zeros_like(written) if state is None else state
    outs = []
    for t in range(n):
        if decay is not None:
            fade = decay[:, :, t, None, None]
            written, old = fade * written, fade * old
        written = written + K[:, :, t, :, None] @ V[:, :, t, None, :]
        outs.append(Q[:, :, t, None, :] @ (written + old))
    return torch.cat(outs, dim=2), written


def linear_attention__wrong_sixth_old_state_spared_by_the_first_decay(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
):
    """Fades from the second token on only (if t > 0): a state that is handed in escapes the first decay."""
    S = state
    if S is None:
        S = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=K.dtype)
    results = []
    for t in range(Q.shape[2]):
        new = torch.einsum("bhi,bhj->bhij", K[:, :, t], V[:, :, t])
        if t > 0 and decay is not None:
            S = S * decay[:, :, t][..., None, None]
        S = S + new
        results.append(torch.einsum("bhi,bhij->bhj", Q[:, :, t], S))
    return torch.stack(results, dim=-2), S


def linear_attention__wrong_sixth_decay_of_the_first_head(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
):
    """Reads the decay as decay[:, 0, t], one number per token: all heads fade as the first does."""
    B, h, n, d_k = Q.shape
    S = torch.zeros(B, h, d_k, V.shape[3], dtype=V.dtype) if state is None else state.clone()
    out = torch.empty(B, h, 0, V.shape[3], dtype=V.dtype)
    for t in range(n):
        fade = torch.ones(B, dtype=V.dtype) if decay is None else decay[:, 0, t]
        S = fade.view(B, 1, 1, 1) * S + K[:, :, t].unsqueeze(3) * V[:, :, t].unsqueeze(2)
        out = torch.cat([out, Q[:, :, t].unsqueeze(2) @ S], dim=2)
    return out, S


def linear_attention__right_sixth_table_of_log_decays(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
):
    """All tokens at once: shares are exponentials of differences of summed logs, later tokens -inf before the exponential."""
    n = Q.shape[2]
    logs = torch.zeros_like(Q[..., 0]) if decay is None else decay.log()
    total = logs.cumsum(dim=-1)
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    shares = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(later, -torch.inf).exp()
    out = ((Q @ K.mT) * shares) @ V
    last = (K * shares[..., -1, :, None]).mT @ V
    if state is not None:
        gone = total.exp().unsqueeze(-1)
        out = out + gone * (Q @ state)
        last = last + gone[..., -1:, :] * state
    return out, last


def linear_attention__right_sixth_half_and_half(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
):
    """Cuts the text in two again and again, and hands the state of the first half on to the second."""
    fades = torch.ones_like(Q[..., 0]) if decay is None else decay
    start = K.new_zeros(*K.shape[:2], K.shape[3], V.shape[3]) if state is None else state

    def read(q, k, v, a, S):
        n = q.shape[2]
        if n == 1:
            S = a[..., None] * S + k.mT @ v
            return q @ S, S
        cut = n // 2
        left, S = read(q[:, :, :cut], k[:, :, :cut], v[:, :, :cut], a[:, :, :cut], S)
        right, S = read(q[:, :, cut:], k[:, :, cut:], v[:, :, cut:], a[:, :, cut:], S)
        return torch.cat([left, right], dim=2), S

    return read(Q, K, V, fades, start)


# 10.8 latent_step


def latent_step__wrong_sixth_keys_built_head_by_head(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
):
    """Builds the keys C W_UK of all cached tokens, one head at a time; only the values are left in the latent."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    Q = (x @ params["W_Q"]).chunk(n_heads, dim=-1)
    up_keys = params["W_UK"].chunk(n_heads, dim=1)
    up_values = params["W_UV"].chunk(n_heads, dim=1)
    heads = []
    for q, W_k, W_v in zip(Q, up_keys, up_values):
        keys = C @ W_k
        weights = torch.softmax(q @ keys.mT / math.sqrt(q.shape[-1]), dim=-1)
        heads.append((weights @ C) @ W_v)
    return torch.cat(heads, dim=-1) @ params["W_O"], C


def latent_step__wrong_sixth_values_built(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
):
    """Moves W_UK to the query, but builds the values C W_UV of all tokens and heads behind the softmax."""
    B, _, d_latent = cache.shape
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).view(B, n_heads, -1)
    W_UK = params["W_UK"].view(d_latent, n_heads, -1)
    moved = torch.einsum("bhd,lhd->bhl", q, W_UK)
    A = torch.softmax(moved @ C.mT / math.sqrt(q.shape[-1]), dim=-1)
    V = _split_heads(C @ params["W_UV"], n_heads)
    out = torch.einsum("bht,bhtv->bhv", A, V).flatten(1).unsqueeze(1)
    return out @ params["W_O"], C


def latent_step__wrong_sixth_causal_mask_from_the_first_row(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
):
    """Lays ones(1, t + 1).tril() over the scores: the row counts as position 0, and sees the oldest latent only."""
    C = torch.cat((cache, x @ params["W_DKV"]), 1)
    q = _split_heads(x @ params["W_Q"], n_heads).squeeze(2)
    W_UK = params["W_UK"].unflatten(1, (n_heads, -1)).permute(1, 2, 0)
    W_UV = params["W_UV"].unflatten(1, (n_heads, -1)).permute(1, 0, 2)
    scores = torch.einsum("bhd,hdl->bhl", q, W_UK) @ C.mT / math.sqrt(q.shape[-1])
    causal = torch.ones(1, C.shape[1], dtype=torch.bool).tril()
    mixed = _masked_softmax(scores, causal) @ C
    out = torch.einsum("bhl,hlv->bhv", mixed, W_UV)
    return out.reshape(len(x), 1, -1) @ params["W_O"], C


def latent_step__wrong_sixth_head_width_from_d_model(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
):
    """Takes d_model / h for the width under the root, which is not d_head where h * d_head differs from d_model."""
    B = x.shape[0]
    d_head = x.shape[-1] / n_heads
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).reshape(B, n_heads, -1)
    in_latent = torch.stack(
        [q[:, a] @ W.T for a, W in enumerate(params["W_UK"].chunk(n_heads, dim=1))], dim=1
    )
    A = torch.softmax(in_latent @ C.mT / math.sqrt(d_head), dim=-1)
    mixed = A @ C
    heads = [mixed[:, a] @ W for a, W in enumerate(params["W_UV"].chunk(n_heads, dim=1))]
    return torch.cat(heads, dim=-1)[:, None] @ params["W_O"], C


def latent_step__wrong_sixth_cache_grows_after_reading(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
):
    """Attends over the old cache and appends the new latent afterwards: the token does not see itself."""
    new = x @ params["W_DKV"]
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1))[:, 0]
    K_up = params["W_UK"].unflatten(-1, (n_heads, -1))
    V_up = params["W_UV"].unflatten(-1, (n_heads, -1))
    q_latent = torch.einsum("bhd,lhd->bhl", q, K_up)
    weights = torch.softmax(torch.einsum("bhl,btl->bht", q_latent, cache) / q.shape[-1] ** 0.5, -1)
    context = torch.einsum("bht,btl->bhl", weights, cache)
    out = torch.einsum("bhl,lhv->bhv", context, V_up).flatten(1)[:, None] @ params["W_O"]
    return out, torch.cat([cache, new], dim=1)


def latent_step__wrong_sixth_new_latent_normed(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
):
    """Norms the new latent by its root mean square before it goes into the cache, as DeepSeek does; here it is x W_DKV."""
    c = x @ params["W_DKV"]
    c = _rms_norm(c, torch.ones_like(c[0, 0]))
    C = torch.cat([cache, c], dim=1)
    B, h = len(x), n_heads
    q = (x @ params["W_Q"]).view(B, h, -1)
    q_c = torch.einsum("bhd,lhd->bhl", q, params["W_UK"].unflatten(1, (h, -1)))
    A = (q_c @ C.mT / math.sqrt(q.shape[2])).softmax(2)
    heads = torch.einsum("bhl,lhv->bhv", A @ C, params["W_UV"].unflatten(1, (h, -1)))
    return heads.reshape(B, 1, -1) @ params["W_O"], C


def latent_step__wrong_sixth_softmax_by_hand_overflows(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
):
    """Writes the softmax as exp over its sum without taking the maximum off: NaN for scores of 1e4."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    out = 0
    d_head = params["W_UK"].shape[1] // n_heads
    d_v = params["W_UV"].shape[1] // n_heads
    for a in range(n_heads):
        ks, vs = slice(a * d_head, (a + 1) * d_head), slice(a * d_v, (a + 1) * d_v)
        q = x @ params["W_Q"][:, ks] @ params["W_UK"][:, ks].T
        e = torch.exp(q @ C.mT / math.sqrt(d_head))
        w = e / e.sum(dim=-1, keepdim=True)
        out = out + w @ C @ params["W_UV"][:, vs] @ params["W_O"][vs]
    return out, C


def latent_step__wrong_sixth_heads_merged_column_first(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
):
    """Lets the einsum return (B, d_v, h) and flattens that: the columns of the heads meet the wrong rows of W_O."""
    C = torch.cat([cache, torch.matmul(x, params["W_DKV"])], dim=-2)
    Wk = params["W_UK"].reshape(C.shape[-1], n_heads, -1)
    Wv = params["W_UV"].reshape(C.shape[-1], n_heads, -1)
    q = torch.matmul(x, params["W_Q"]).reshape(x.shape[0], n_heads, -1)
    s = torch.einsum("bhl,btl->bht", torch.einsum("bhd,lhd->bhl", q, Wk), C)
    a = torch.softmax(s / math.sqrt(Wk.shape[-1]), dim=-1)
    o = torch.einsum("bhl,lhv->bvh", torch.einsum("bht,btl->bhl", a, C), Wv)
    return torch.matmul(o.reshape(x.shape[0], 1, -1), params["W_O"]), C


# 10.9 delta_rule


def delta_rule__wrong_sixth_loop_over_the_tokens(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
):
    """The definition, token after token in a Python loop, which is ruled out (the numbers are right)."""
    S = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=K.dtype) if state is None else state
    out = []
    for t in range(K.shape[2]):
        k, v = K[:, :, t : t + 1], V[:, :, t : t + 1]
        S = S + k.mT @ (beta[:, :, t, None, None] * (v - k @ S))
        out.append(Q[:, :, t : t + 1] @ S)
    return torch.cat(out, dim=2), S


def delta_rule__wrong_sixth_beta_of_the_earlier_token(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
):
    """Multiplies the columns of the table k_t k_s by beta_s, and not its rows by beta_t, the token that writes."""
    n = K.shape[2]
    S = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    table = (K @ K.mT * beta[..., None, :]).tril(-1)
    system = torch.eye(n, dtype=K.dtype) + table
    U = torch.linalg.solve_triangular(system, beta[..., None] * (V - K @ S), upper=False)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_sixth_solved_as_upper_triangular(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
):
    """Calls solve_triangular with upper=True on a lower matrix: it reads the diagonal alone, and no token hears of another."""
    B, h, n, d_k = K.shape
    b = beta.unsqueeze(-1)
    if state is None:
        state = torch.zeros(B, h, d_k, V.shape[-1], dtype=K.dtype)
    lower = torch.tril(b * (K @ K.transpose(-1, -2)), diagonal=-1)
    right_side = b * (V - K @ state)
    U = torch.linalg.solve_triangular(lower, right_side, upper=True, unitriangular=True)
    reads = torch.tril(Q @ K.transpose(-1, -2)) @ U
    return Q @ state + reads, state + K.transpose(-1, -2) @ U


def delta_rule__wrong_sixth_series_stopped_after_one_term(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
):
    """Takes I - A for the inverse of I + A, the first term of the series: right up to two tokens, not from three on."""
    S = 0 * K[:, :, :1].mT * V[:, :, :1] if state is None else state
    rhs = beta[..., None] * (V - K @ S)
    A = (beta[..., None] * K @ K.mT).tril(-1)
    U = rhs - A @ rhs
    out = Q @ S + torch.tril(torch.einsum("bhid,bhjd->bhij", Q, K)) @ U
    return out, S + torch.einsum("bhnd,bhne->bhde", K, U)


def delta_rule__wrong_sixth_table_of_queries_and_keys_solved(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
):
    """Uses one table q_t k_s for both: also in the system, where what the state says to the key asks for k_t k_s."""
    n = Q.shape[2]
    if state is None:
        state = torch.zeros(*Q.shape[:2], Q.shape[3], V.shape[3], dtype=Q.dtype)
    table = Q @ K.mT
    diagonal = torch.eye(n, dtype=Q.dtype)
    system = diagonal + beta[..., None] * table.tril(-1)
    U = torch.linalg.solve(system, beta[..., None] * (V - K @ state))
    return Q @ state + table.tril() @ U, state + K.mT @ U


def delta_rule__wrong_sixth_diagonal_counted_twice(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
):
    """Adds the identity to tril(), which has the diagonal beta_t |k_t|^2 already: each token corrects itself, too."""
    B, h, n, d_k = K.shape
    start = torch.zeros(B, h, d_k, V.shape[3], dtype=V.dtype) if state is None else state
    gram = torch.einsum("bhtd,bhsd->bhts", K, K)
    M = torch.eye(n, dtype=K.dtype) + torch.tril(beta[:, :, :, None] * gram)
    target = beta[:, :, :, None] * (V - torch.einsum("bhtd,bhde->bhte", K, start))
    written = torch.linalg.solve_triangular(M, target, upper=False)
    out = (Q @ K.mT).tril() @ written + Q @ start
    return out, start + K.mT @ written


def delta_rule__wrong_sixth_system_with_a_minus(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
):
    """Brings the u to one side with the wrong sign, I - A: what the tokens between have written is added, not taken off."""
    shape = (*K.shape[:2], K.shape[-1], V.shape[-1])
    S0 = torch.zeros(shape, dtype=K.dtype) if state is None else state
    b = beta[..., None]
    A = torch.tril(b * (K @ K.mT), -1)
    inverse = torch.linalg.inv(torch.eye(A.shape[-1], dtype=A.dtype) - A)
    U = inverse @ (b * (V - K @ S0))
    return (Q @ K.mT).tril() @ U + Q @ S0, S0 + K.mT @ U


def delta_rule__wrong_sixth_state_added_to_in_place(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
):
    """Writes with state += ..., so that the state that was handed in changes under the caller (the numbers are right)."""
    if state is None:
        state = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1])
    strict = (beta[..., None] * (K @ K.mT)).tril(-1)
    rhs = beta[..., None] * (V - K @ state)
    U = torch.linalg.solve_triangular(strict, rhs, upper=False, unitriangular=True)
    out = Q @ state + (Q @ K.mT).tril() @ U
    state += K.mT @ U
    return out, state


def delta_rule__right_sixth_state_as_earlier_tokens(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
):
    """The first state is d_k tokens in front, with unit keys, its rows as values and beta 1; then one system for all, by a full solve."""
    B, h, n, d_k = K.shape
    if state is not None:
        units = torch.eye(d_k, dtype=K.dtype).expand(B, h, d_k, d_k)
        K, V = torch.cat([units, K], dim=2), torch.cat([state, V], dim=2)
        beta = torch.cat([torch.ones(B, h, d_k, dtype=beta.dtype), beta], dim=2)
    rows = beta.unsqueeze(-1)
    system = torch.eye(K.shape[2], dtype=K.dtype) + (rows * K @ K.mT).tril(-1)
    U = torch.linalg.solve(system, rows * V)
    reads = (Q @ K.mT).tril(K.shape[2] - n)
    return reads @ U, K.mT @ U
