"""Answers to the exercises of unit 10, wrong ones and right ones, as students would write them."""

import math

import numpy as np
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
    speeds = base ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
    angles = positions.to(torch.float64)[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def _rms_norm(x, gamma, eps=1e-6):
    return gamma * x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)


def _swiglu(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def _sliding_window_mask(n_new, n_total, window):
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)[None, :]
    return (j <= i) & (j > i - window)


# ------- 10.1 rotate


def rotate__wrong_twelfth_waves_added(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Adds sines and cosines of the angles to the row, where the row is to be turned by them."""
    d = x.shape[-1]
    p = torch.arange(d // 2, dtype=torch.float64)
    theta = positions.double()[:, None] * base ** (-2 * p / d)
    encoding = torch.cat([torch.sin(theta), torch.cos(theta)], dim=-1)
    return x + encoding.to(x.dtype)


def rotate__wrong_twelfth_from_the_first_position(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Turns by the distance from the first row's position, since only distances count."""
    half = x.size(-1) // 2
    inverse = torch.tensor([base ** (-2 * p / x.size(-1)) for p in range(half)], dtype=torch.float64)
    distance = (positions - positions[0]).to(torch.float64)
    angle = torch.outer(distance, inverse)
    c, s = torch.cos(angle).to(x.dtype), torch.sin(angle).to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * c - second * s, second * c + first * s), dim=-1)


def rotate__wrong_twelfth_each_half_by_its_own_wave(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Multiplies one half by the cosine and the other by the sine, so that no column meets its partner."""
    n, d = x.shape[-2:]
    factors = torch.ones(n, d, dtype=torch.float64)
    for p in range(d // 2):
        angle = positions.double() * base ** (-2 * p / d)
        factors[:, p] = angle.cos()
        factors[:, p + d // 2] = angle.sin()
    return x * factors.to(x.dtype)


def rotate__wrong_twelfth_signs(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Has the signs of the two sines exchanged, so turns clockwise."""
    d = x.shape[-1]
    speed = torch.pow(torch.tensor(base, dtype=torch.float64), -torch.arange(0, d, 2, dtype=torch.float64) / d)
    angle = (positions[:, None] * speed[None, :]).repeat(1, 2)
    other = torch.cat([x[..., d // 2 :], -x[..., : d // 2]], dim=-1)
    return x * angle.cos().to(x.dtype) + other * angle.sin().to(x.dtype)


def rotate__wrong_twelfth_second_half_from_the_turned_first(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Works out the second half from the first half that has already been turned."""
    half = x.shape[-1] // 2
    y = x.clone()
    for p in range(half):
        theta = positions.to(torch.float64) * base ** (-p / half)
        cos, sin = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
        y[..., p] = y[..., p] * cos - y[..., p + half] * sin
        y[..., p + half] = y[..., p + half] * cos + y[..., p] * sin
    return y


def rotate__wrong_twelfth_neighbours(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Pairs the neighbours 2p and 2p + 1, as the paper does, where the halves are asked for."""
    d = x.shape[-1]
    angles = torch.einsum("n,p->np", positions.double(), base ** (-2 * torch.arange(d // 2).double() / d))
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = (wave(angles).to(x.dtype) for wave in (torch.cos, torch.sin))
    turned = torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1)
    return turned.flatten(-2)


def rotate__wrong_twelfth_looked_up_in_a_table(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Looks angles up in a table by whole positions, so that the fraction of a float position is lost."""
    d = x.shape[-1]
    places = positions.long()
    longest = int(places.max()) + 1
    frequencies = 1.0 / base ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    table = torch.outer(torch.arange(longest, dtype=torch.float64), frequencies)
    cos_table, sin_table = table.cos().to(x.dtype), table.sin().to(x.dtype)
    cos, sin = cos_table[places], sin_table[places]
    x1, x2 = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)


def rotate__wrong_twelfth_in_its_place(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Writes the turned halves into the tensor that was handed in."""
    h = x.shape[-1] // 2
    w = base ** -(torch.arange(h, dtype=torch.float64) / h)
    t = positions.unsqueeze(-1) * w
    c, s = t.cos().to(x.dtype), t.sin().to(x.dtype)
    left, right = x[..., :h].clone(), x[..., h:].clone()
    x[..., :h] = left * c - right * s
    x[..., h:] = right * c + left * s
    return x


def rotate__right_twelfth_complex_numbers(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Takes each pair for a complex number and multiplies it by a number of length 1."""
    a, b = x.double().tensor_split(2, dim=-1)
    p = torch.arange(a.shape[-1], device=x.device, dtype=torch.float64)
    angle = positions.double().unsqueeze(-1) * torch.exp(-p / max(a.shape[-1], 1) * math.log(base))
    z = torch.complex(a, b) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([z.real, z.imag], dim=-1).to(x.dtype)


# ------- 10.2 rms_norm


def rms_norm__wrong_twelfth_around_the_mean(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Subtracts the mean first, as layer norm does."""
    centred = x - x.mean(dim=-1, keepdim=True)
    mean_square = (centred**2).mean(dim=-1, keepdim=True)
    return gamma * centred / torch.sqrt(mean_square + eps)


def rms_norm__wrong_twelfth_length_one(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Brings each token to length 1, so sums the squares where their mean is meant."""
    length = torch.sqrt(torch.einsum("...d,...d->...", x, x) + eps)
    return x / length.unsqueeze(-1) * gamma


def rms_norm__wrong_twelfth_one_scale_for_all(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Takes one mean square over all tokens of the tensor."""
    size = x.pow(2).mean()
    rms = (size + eps).sqrt()
    out = x / rms
    out = out * gamma
    return out


def rms_norm__wrong_twelfth_behind_the_root(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Adds eps to the root, not under it."""
    d = x.shape[-1]
    root = torch.linalg.vector_norm(x, dim=-1, keepdim=True) / math.sqrt(d)
    return gamma * (x / (root + eps))


def rms_norm__wrong_twelfth_gain_first(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Multiplies by the gain first, so that the gain is in the mean square."""
    x = x * gamma
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def rms_norm__wrong_twelfth_gain_around_one(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Multiplies by 1 + gamma, as some published models store their gains."""
    variance = torch.mean(x * x, dim=-1, keepdim=True)
    normed = x * (variance + eps) ** -0.5
    return normed + gamma * normed


def rms_norm__wrong_twelfth_a_table_of_tokens(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Gives a single vector (d,) back as a table (1, d)."""
    tokens = x.reshape(-1, x.shape[-1])
    squares = (tokens * tokens).sum(1) / tokens.shape[1]
    scaled = tokens / torch.sqrt(squares + eps)[:, None] * gamma[None, :]
    return scaled.reshape(*x.shape[:-1], -1) if x.dim() > 1 else scaled


def rms_norm__wrong_twelfth_divisor_held_fixed(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Works the divisor out without gradients, as if it were a constant."""
    with torch.no_grad():
        divisor = x.square().mean(dim=-1, keepdim=True).add(eps).sqrt()
    return gamma * x / divisor


def rms_norm__right_twelfth_hypotenuse(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Has the divisor as the hypotenuse of two roots, and divides before it has a mean."""
    small = x / math.sqrt(x.shape[-1])
    side = torch.linalg.vector_norm(small, dim=-1, keepdim=True)
    return (x / torch.hypot(side, side.new_full((), math.sqrt(eps)))).mul(gamma)


# ------- 10.3 swiglu


def swiglu__wrong_twelfth_sigmoid_alone(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Sends the gate through the sigmoid alone, so that it only opens and shuts."""
    gate = torch.sigmoid(torch.matmul(x, W_gate))
    up = torch.matmul(x, W_up)
    return torch.matmul(gate * up, W_down)


def swiglu__wrong_twelfth_after_the_product(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Applies silu to the product of gate and up, not to the gate."""
    hidden = torch.einsum("...d,df->...f", x, W_gate) * torch.einsum("...d,df->...f", x, W_up)
    hidden = hidden * torch.sigmoid(hidden)
    return torch.einsum("...f,fd->...d", hidden, W_down)


def swiglu__wrong_twelfth_open_or_shut(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Lets the gate pass what comes up or stop it, without a part of its own in between."""
    g = x @ W_gate
    passed = torch.where(g > 0, x @ W_up, torch.zeros_like(g))
    return passed @ W_down


def swiglu__wrong_twelfth_the_other_one_gated(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Has gate and up exchanged after a product with both weights side by side."""
    both = x @ torch.cat([W_gate, W_up], dim=1)
    up, gate = both.chunk(2, dim=-1)
    return (F.silu(gate) * up) @ W_down


def swiglu__wrong_twelfth_the_same_weight_twice(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Makes both products with `W_gate`."""

    def silu(z):
        return z * torch.sigmoid(z)

    gate, up = (x @ W for W in (W_gate, W_gate))
    return silu(gate).mul(up).matmul(W_down)


def swiglu__wrong_twelfth_with_the_residual(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Adds x, which is the block's work and not the layer's."""
    branch = F.silu(x @ W_gate)
    branch = branch * (x @ W_up)
    branch = branch @ W_down
    return x + branch


def swiglu__wrong_twelfth_growing_exponentials(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Writes the sigmoid as e^z / (1 + e^z), which is NaN for large z."""
    z = x @ W_gate
    ez = torch.exp(z)
    silu = z * ez / (1 + ez)
    return (silu * (x @ W_up)) @ W_down


def swiglu__wrong_twelfth_sigmoid_in_numpy(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Takes the sigmoid in numpy, where gradients do not follow."""
    z = x @ W_gate
    numbers = z.detach().cpu().numpy()
    opening = torch.from_numpy(0.5 * (1 + np.tanh(0.5 * numbers))).to(z)
    return (z * opening * (x @ W_up)) @ W_down


def swiglu__right_twelfth_half_a_tangent(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Writes silu by the hyperbolic tangent of the half, and sums over all features in the end."""
    half = (x @ W_gate).div(2)
    gate = torch.addcmul(half, half, half.tanh())
    return F.linear(gate * F.linear(x, W_up.mT), W_down.mT)


# ------- 10.4 sliding_window_mask


def sliding_window_mask__wrong_twelfth_blocks_of_the_text(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Cuts the text into blocks of `window` tokens and lets a token see its own block only."""
    places = torch.arange(n_total)
    mine = places[n_total - n_new :, None]
    return (places <= mine) & (places // window == mine // window)


def sliding_window_mask__wrong_twelfth_both_sides(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Opens the window to both sides, so that later tokens are seen too."""
    i = torch.arange(n_total - n_new, n_total).unsqueeze(1)
    j = torch.arange(n_total).unsqueeze(0)
    return (i - j).abs() < window


def sliding_window_mask__wrong_twelfth_new_tokens_from_zero(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Takes row r for position r, as if the new tokens stood at the beginning."""
    mask = torch.zeros(n_new, n_total, dtype=torch.bool)
    for r in range(n_new):
        for j in range(n_total):
            if r - window < j <= r:
                mask[r, j] = True
    return mask


def sliding_window_mask__wrong_twelfth_one_more(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Lets a token see `window` tokens before itself, so one too many."""
    rows = [n_total - n_new + r for r in range(n_new)]
    return torch.tensor([[i - window <= j <= i for j in range(n_total)] for i in rows])


def sliding_window_mask__wrong_twelfth_diagonal_the_other_way(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Has the shift of the diagonals with the wrong sign, so that it is right only without a cache."""
    shift = n_new - n_total
    everything = torch.ones(n_new, n_total, dtype=torch.bool)
    return everything.tril(shift).triu(shift - window + 1)


def sliding_window_mask__wrong_twelfth_what_is_hidden(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Returns True for what is hidden, ready for `masked_fill`."""
    i = torch.arange(n_new)[:, None] + (n_total - n_new)
    j = torch.arange(n_total)[None, :]
    too_late = j > i
    too_old = j <= i - window
    return too_late | too_old


def sliding_window_mask__wrong_twelfth_slice_from_the_end(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Cuts slices that begin below 0 where the window is wider than what came before, and so count from the end."""
    mask = torch.zeros((n_new, n_total), dtype=torch.bool)
    for r, row in enumerate(mask):
        i = n_total - n_new + r
        row[i - window + 1 : i + 1] = True
    return mask


def sliding_window_mask__wrong_twelfth_not_itself(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Leaves out the token itself."""
    back = torch.arange(n_total - n_new, n_total)[:, None] - torch.arange(n_total)
    return torch.logical_and(back > 0, back < window)


def sliding_window_mask__right_twelfth_which_window_back(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Asks how many whole windows lie between two tokens: none, so the quotient, rounded down, is 0."""
    places = torch.arange(n_total)
    back = places[n_total - n_new :].unsqueeze(-1) - places
    return torch.div(back, window, rounding_mode="floor").eq(0)


# ------- 10.5 modern_block


def modern_block__wrong_twelfth_values_turned_too(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Turns the values as well as queries and keys."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    Q = _rms_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"])
    K = _rms_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"])
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    Q, K, V = (_rotate(one, positions) for one in (Q, K, V))
    K, V = (one.repeat_interleave(n_heads // n_kv_heads, dim=1) for one in (K, V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    mask = _sliding_window_mask(n, n, window if window is not None else n)
    heads = _masked_softmax(scores, mask) @ V
    y = x + _merge_heads(heads) @ params["W_O"]
    z = _rms_norm(y, params["gamma_2"])
    return y + _swiglu(z, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_twelfth_norm_in_place_of_the_root(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Does not divide the scores by the root of d_head, as if the norm of queries and keys took its place."""
    B, n, _ = x.shape
    h, g, p = n_heads, n_kv_heads, params

    def attention(z):
        q = (z @ p["W_Q"]).view(B, n, g, h // g, -1).permute(0, 2, 3, 1, 4)
        k = (z @ p["W_K"]).view(B, n, g, 1, -1).permute(0, 2, 3, 1, 4)
        v = (z @ p["W_V"]).view(B, n, g, 1, -1).permute(0, 2, 3, 1, 4)
        q = _rotate(_rms_norm(q, p["gamma_q"]), positions)
        k = _rotate(_rms_norm(k, p["gamma_k"]), positions)
        s = q @ k.mT
        far = torch.ones(n, n, dtype=torch.bool).triu(1)
        if window is not None:
            far |= torch.ones(n, n, dtype=torch.bool).tril(-window)
        a = torch.softmax(s.masked_fill(far, -torch.inf), -1)
        return (a @ v).permute(0, 3, 1, 2, 4).reshape(B, n, -1) @ p["W_O"]

    y = x + attention(_rms_norm(x, p["gamma_1"]))
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_twelfth_side_by_side(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Lets attention and feed-forward layer work side by side on x, where the second reads what the first has added."""
    W = params
    length = x.size(1)
    reach = window or length
    group = n_heads // n_kv_heads
    normed = _rms_norm(x, W["gamma_1"])
    queries = _split_heads(normed @ W["W_Q"], n_heads)
    keys = _split_heads(normed @ W["W_K"], n_kv_heads)
    values = _split_heads(normed @ W["W_V"], n_kv_heads)
    queries = _rotate(_rms_norm(queries, W["gamma_q"]), positions)
    keys = _rotate(_rms_norm(keys, W["gamma_k"]), positions)
    scale = queries.size(-1) ** -0.5
    mask = _sliding_window_mask(length, length, reach)
    outputs = []
    for a in range(n_heads):
        weights = _masked_softmax(scale * queries[:, a] @ keys[:, a // group].mT, mask)
        outputs.append(weights @ values[:, a // group])
    from_attention = torch.cat(outputs, dim=-1) @ W["W_O"]
    from_ffn = _swiglu(_rms_norm(x, W["gamma_2"]), W["W_gate"], W["W_up"], W["W_down"])
    return x + from_attention + from_ffn


def modern_block__wrong_twelfth_heads_in_turn(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Repeats the key/value heads in turn, 0, 1, 0, 1, where neighbours share."""
    n_tokens = x.shape[-2]
    copies = n_heads // n_kv_heads
    z = _rms_norm(x, params["gamma_1"])
    q = _split_heads(z @ params["W_Q"], n_heads)
    k = _split_heads(z @ params["W_K"], n_kv_heads)
    v = _split_heads(z @ params["W_V"], n_kv_heads)
    q = _rotate(_rms_norm(q, params["gamma_q"]), positions)
    k = _rotate(_rms_norm(k, params["gamma_k"]), positions)
    k = torch.cat([k] * copies, dim=1)
    v = torch.cat([v] * copies, dim=1)
    mask = _sliding_window_mask(n_tokens, n_tokens, n_tokens if window is None else window)
    a = _masked_softmax(torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5, mask)
    y = x + _merge_heads(torch.einsum("bhij,bhjd->bhid", a, v)) @ params["W_O"]
    ffn = _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])
    return y + ffn


def modern_block__wrong_twelfth_normed_x_goes_on(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Calls the normed x again x, so that it is the normed one to which the attention's result is added."""
    n = x.shape[1]
    gamma_1, gamma_2 = params["gamma_1"], params["gamma_2"]
    x = _rms_norm(x, gamma_1)
    Q, K, V = (_split_heads(x @ params[w], c) for w, c in (("W_Q", n_heads), ("W_K", n_kv_heads), ("W_V", n_kv_heads)))
    Q, K = _rms_norm(Q, params["gamma_q"]), _rms_norm(K, params["gamma_k"])
    Q, K = _rotate(Q, positions), _rotate(K, positions)
    which = torch.arange(n_heads) // (n_heads // n_kv_heads)
    scores = Q @ K[:, which].transpose(-1, -2) * Q.shape[-1] ** -0.5
    weights = _masked_softmax(scores, _sliding_window_mask(n, n, window or n))
    x = x + _merge_heads(weights @ V[:, which]) @ params["W_O"]
    return x + _swiglu(_rms_norm(x, gamma_2), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_twelfth_who_stands_later(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Makes the mask from `positions`, which serve the rotation alone."""
    z = _rms_norm(x, params["gamma_1"])

    def project(name, count, gain=None):
        H = _split_heads(z @ params[name], count)
        if gain is not None:
            H = _rotate(_rms_norm(H, params[gain]), positions)
        return H if count == n_heads else H.repeat_interleave(n_heads // count, 1)

    Q = project("W_Q", n_heads, "gamma_q")
    K = project("W_K", n_kv_heads, "gamma_k")
    V = project("W_V", n_kv_heads)
    distance = positions[:, None] - positions[None, :]
    visible = distance >= 0
    if window:
        visible = visible & (distance < window)
    A = _masked_softmax((Q @ K.mT) / math.sqrt(Q.shape[-1]), visible)
    y = x + _merge_heads(A @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), *(params[w] for w in ("W_gate", "W_up", "W_down")))


def modern_block__wrong_twelfth_window_up_to_the_last_position(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Without a window takes the last position + 1 for one, which is too narrow where positions do not rise."""
    if window is None:
        window = int(positions[-1]) + 1
    n = len(positions)
    W_Q, W_K, W_V, W_O = (params["W_" + letter] for letter in "QKVO")
    normed = _rms_norm(x, params["gamma_1"])
    q = _rotate(_rms_norm(_split_heads(normed @ W_Q, n_heads), params["gamma_q"]), positions)
    k = _rotate(_rms_norm(_split_heads(normed @ W_K, n_kv_heads), params["gamma_k"]), positions)
    v = _split_heads(normed @ W_V, n_kv_heads)
    shared = q.unflatten(1, (n_kv_heads, -1))
    scores = torch.einsum("bgrid,bgjd->bgrij", shared, k) / math.sqrt(q.shape[-1])
    weights = _masked_softmax(scores, _sliding_window_mask(n, n, window))
    mixed = torch.einsum("bgrij,bgjd->bgrid", weights, v).flatten(1, 2)
    y = x + _merge_heads(mixed) @ W_O
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_twelfth_added_in_place(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Adds both results to x in place, so that the input is changed."""
    n = x.shape[1]
    if window is None:
        window = n
    z = _rms_norm(x, params["gamma_1"])
    Q = _split_heads(z @ params["W_Q"], n_heads)
    K = _split_heads(z @ params["W_K"], n_kv_heads).repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = _split_heads(z @ params["W_V"], n_kv_heads).repeat_interleave(n_heads // n_kv_heads, dim=1)
    Q = _rotate(_rms_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, params["gamma_k"]), positions)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), _sliding_window_mask(n, n, window))
    x += _merge_heads(A @ V) @ params["W_O"]
    x += _swiglu(_rms_norm(x, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])
    return x


def modern_block__right_twelfth_one_query_at_a_time(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Needs no mask: each row meets a slice of the keys, and each head's result goes through its own rows of W_O."""

    def norm(z, gain):
        return z * gain * (z.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()

    z = norm(x, params["gamma_1"])
    B, n, _ = z.shape
    width = params["gamma_q"].shape[0]
    q = norm((z @ params["W_Q"]).view(B, n, n_heads, width), params["gamma_q"])
    k = norm((z @ params["W_K"]).view(B, n, n_kv_heads, width), params["gamma_k"])
    v = (z @ params["W_V"]).view(B, n, n_kv_heads, width)
    q = _rotate(q.transpose(1, 2), positions).reshape(B, n_kv_heads, -1, n, width)
    k = _rotate(k.transpose(1, 2), positions)
    W_O = params["W_O"].view(n_kv_heads, n_heads // n_kv_heads, width, -1)
    rows = []
    for i in range(n):
        first = 0 if window is None else max(0, i + 1 - window)
        s = torch.einsum("bgrd,bgjd->bgrj", q[..., i, :], k[:, :, first : i + 1]) * width**-0.5
        rows.append(torch.einsum("bgrj,bjgd,grdm->bm", s.softmax(-1), v[:, first : i + 1], W_O))
    y = torch.stack(rows, dim=1) + x
    t = norm(y, params["gamma_2"])
    gate = t @ params["W_gate"]
    return torch.addmm(
        y.flatten(0, 1), (gate * gate.sigmoid() * (t @ params["W_up"])).flatten(0, 1), params["W_down"]
    ).view(x.shape)


# ------- 10.6 sink_attention


def sink_attention__wrong_twelfth_on_the_first_key(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds the sink to the first key's score, as trained models put their spare weight on the first token."""
    scores = Q @ K.transpose(-1, -2) / math.sqrt(Q.shape[-1])
    h, m = scores.shape[1], scores.shape[-1]
    is_first = (torch.arange(m, device=Q.device) == 0).to(Q.dtype)
    scores = scores + sink.view(1, h, 1, 1) * is_first
    return _masked_softmax(scores, mask) @ V


def sink_attention__wrong_twelfth_all_scores_raised(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds the sink to every score of its head, which the softmax does not notice."""
    logits = torch.einsum("bhid,bhjd->bhij", Q, K) * Q.shape[-1] ** -0.5
    logits = logits + sink[:, None, None]
    weights = _masked_softmax(logits, mask)
    return torch.einsum("bhij,bhjd->bhid", weights, V)


def sink_attention__wrong_twelfth_a_gate_per_head(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Lets a fixed share of each head's output go, whatever the scores are."""
    S = Q @ K.mT / Q.shape[-1] ** 0.5
    plain = _masked_softmax(S, mask) @ V
    kept = 1 - torch.sigmoid(sink)
    return plain * kept[None, :, None, None]


def sink_attention__wrong_twelfth_maximum_taken_from_the_scores_only(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Subtracts the largest score from the scores and not from the sink."""
    scores = Q @ K.mT / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    top = scores.max(dim=-1, keepdim=True).values
    e = torch.exp(scores - top)
    if mask is not None:
        e = e * mask
    denominator = e.sum(dim=-1, keepdim=True) + sink.exp().reshape(-1, 1, 1)
    return (e / denominator) @ V


def sink_attention__wrong_twelfth_column_divided_too(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides by the root of d_k after the sink has been put beside the products."""
    B, h, n, d_k = Q.shape
    raw = Q @ K.mT
    if mask is not None:
        raw = raw.masked_fill(~mask, -math.inf)
    column = sink.view(1, h, 1, 1).expand(B, h, n, 1)
    logits = torch.cat([column, raw], dim=-1) / math.sqrt(d_k)
    return logits.softmax(dim=-1)[..., 1:] @ V


def sink_attention__wrong_twelfth_true_is_hidden(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reads True in the mask as hidden."""
    scores = torch.matmul(Q, K.transpose(2, 3)) / Q.shape[3] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    extra = torch.zeros_like(scores[..., :1]) + sink[None, :, None, None]
    weights = torch.softmax(torch.cat((scores, extra), dim=3), dim=3)
    return torch.matmul(weights[..., :-1], V)


def sink_attention__wrong_twelfth_nothing_to_subtract(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Subtracts the largest allowed score, which is -inf in a row where nothing is allowed, and gives NaN there."""
    s = torch.einsum("bhnd,bhmd->bhnm", Q, K).div(Q.shape[-1] ** 0.5)
    s = s if mask is None else torch.where(mask, s, -torch.inf)
    peak = s.amax(-1, keepdim=True)
    numerator = torch.exp(s - peak)
    rest = torch.exp(sink.view(-1, 1, 1) - peak)
    return torch.einsum("bhnm,bhmd->bhnd", numerator / (numerator.sum(-1, keepdim=True) + rest), V)


def sink_attention__wrong_twelfth_sinks_as_numbers(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the sinks out of their tensor as Python numbers, so that they get no gradient."""
    B, h, n, d_k = Q.shape
    scores = Q @ K.mT / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    heads = []
    for a, number in enumerate(sink.tolist()):
        padded = F.pad(scores[:, a], (0, 1), value=number)
        heads.append(padded.softmax(-1)[..., :-1] @ V[:, a])
    return torch.stack(heads, dim=1)


def sink_attention__right_twelfth_log_of_the_denominator(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Works out the log of the denominator, and lets a padded key of zeros carry the sink as its bias."""
    root = math.sqrt(Q.shape[-1])
    s = F.pad(Q @ K.mT, (1, 0)) / root
    s = s + F.pad(sink[:, None, None], (0, K.shape[2]))
    if mask is not None:
        allowed = F.pad(mask.expand(*s.shape[:-1], K.shape[2]), (1, 0), value=True)
        s = torch.where(allowed, s, torch.full_like(s, -torch.inf))
    log_weights = s - torch.logsumexp(s, dim=-1, keepdim=True)
    return torch.exp(log_weights.narrow(-1, 1, K.shape[2])) @ V


# ------- 10.7 linear_attention


def linear_attention__wrong_twelfth_shares_of_one(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Divides what is read by the sum of the weights, so that they sum to 1 as in a softmax."""
    B, h, n, d_k = K.shape
    S = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    total = K.new_zeros(B, h, d_k)
    out = []
    for t in range(n):
        k, v, q = K[:, :, t], V[:, :, t], Q[:, :, t]
        a = 1.0 if decay is None else decay[:, :, t, None]
        S = (a[..., None] if decay is not None else 1.0) * S + k[..., :, None] * v[..., None, :]
        total = a * total + k
        read = (q[..., None, :] @ S).squeeze(-2)
        out.append(read / (q * total).sum(-1, keepdim=True))
    return torch.stack(out, dim=2), S


def linear_attention__wrong_twelfth_the_last_state_for_all(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads the whole text first and answers every token from the last state."""
    shape = (*K.shape[:2], K.shape[-1], V.shape[-1])
    S = torch.zeros(shape, dtype=K.dtype, device=K.device) if state is None else state
    for t in range(K.shape[2]):
        if decay is not None:
            S = S * decay[:, :, t].reshape(*shape[:2], 1, 1)
        S = S + torch.einsum("bhk,bhv->bhkv", K[:, :, t], V[:, :, t])
    return torch.einsum("bhnk,bhkv->bhnv", Q, S), S


def linear_attention__wrong_twelfth_a_running_mean(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Writes the new pair with the share 1 - a, as a running mean does."""
    memory = 0 if state is None else state
    answers = []
    for t, (q, k, v) in enumerate(zip(Q.unbind(2), K.unbind(2), V.unbind(2), strict=True)):
        pair = k.unsqueeze(-1) * v.unsqueeze(-2)
        if decay is None:
            memory = memory + pair
        else:
            a = decay[:, :, t, None, None]
            memory = a * memory + (1 - a) * pair
        answers.append(torch.einsum("bhk,bhkv->bhv", q, memory))
    return torch.stack(answers, 2), memory


def linear_attention__wrong_twelfth_reads_first(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads the faded state before the token has written its own pair."""
    B, h, n, d_v = V.shape
    if decay is None:
        decay = torch.ones(B, h, n, dtype=V.dtype)
    if state is None:
        state = torch.zeros(B, h, K.shape[3], d_v, dtype=V.dtype)
    out = torch.zeros(B, h, n, d_v, dtype=V.dtype)
    for t in range(n):
        state = decay[:, :, t, None, None] * state
        out[:, :, t] = (Q[:, :, t, :, None] * state).sum(dim=2)
        state = state + K[:, :, t, :, None] * V[:, :, t, None, :]
    return out, state


def linear_attention__wrong_twelfth_new_pair_fades_too(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lets the decay fall on the sum of the old state and the new pair."""

    def step(S, q, k, v, a):
        S = a[..., None, None] * (S + torch.einsum("...k,...v->...kv", k, v))
        return S, torch.einsum("...k,...kv->...v", q, S)

    S = torch.zeros_like(K[:, :, :1].mT @ V[:, :, :1]) if state is None else state
    a = torch.ones_like(K[..., 0]) if decay is None else decay
    rows = []
    for t in range(Q.shape[2]):
        S, o = step(S, Q[:, :, t], K[:, :, t], V[:, :, t], a[:, :, t])
        rows.append(o[:, :, None])
    return torch.cat(rows, dim=2), S


def linear_attention__wrong_twelfth_all_the_states(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the states behind all tokens, (B, h, n, d_k, d_v), not the last alone."""
    pairs = K[..., :, None] * V[..., None, :]
    S = torch.zeros_like(pairs[:, :, 0]) if state is None else state
    states = []
    for t in range(pairs.shape[2]):
        S = S + pairs[:, :, t] if decay is None else decay[:, :, t, None, None] * S + pairs[:, :, t]
        states.append(S)
    states = torch.stack(states, dim=2)
    out = (Q[..., None, :] @ states)[..., 0, :]
    return out, states


def linear_attention__wrong_twelfth_divided_by_the_fading(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Divides each key by the product of all decays so far, which is 0 after a long or a quick fading."""
    B, h, n, d_k = K.shape
    faded = torch.ones(B, h, n, dtype=K.dtype) if decay is None else torch.cumprod(decay, dim=-1)
    queries = Q * faded[..., None]
    keys = K / faded[..., None]
    table = torch.tril(queries @ keys.mT)
    out = table @ V
    last = faded[..., -1, None, None] * (keys.mT @ V)
    if state is not None:
        out = out + queries @ state
        last = last + faded[..., -1, None, None] * state
    return out, last


def linear_attention__wrong_twelfth_written_into_the_state(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Writes each pair into the state that was handed in."""
    if state is None:
        state = Q.new_zeros(*Q.shape[:2], Q.shape[-1], V.shape[-1])
    outputs = []
    for t in range(Q.shape[2]):
        if decay is not None:
            state *= decay[:, :, t, None, None]
        state += K[:, :, t].unsqueeze(-1) @ V[:, :, t].unsqueeze(-2)
        outputs.append(Q[:, :, t].unsqueeze(-2) @ state)
    return torch.cat(outputs, dim=-2), state


def linear_attention__right_twelfth_halves(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cuts the text in two, and each half again, until a single token is left."""

    def read(q, k, v, a, S):
        n = q.shape[2]
        if n == 1:
            S = a[..., None] * S + k.mT @ v
            return q @ S, S
        parts = [x.tensor_split([n // 2], dim=2) for x in (q, k, v, a)]
        before, S = read(*(part[0] for part in parts), S)
        after, S = read(*(part[1] for part in parts), S)
        return torch.cat([before, after], dim=2), S

    fades = torch.ones_like(K[..., 0]) if decay is None else decay
    start = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    return read(Q, K, V, fades, start)


# ------- 10.8 latent_step


def latent_step__wrong_twelfth_root_of_the_latent_width(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Divides the scores by the root of d_latent, over which the products run, not of d_head."""
    B = x.shape[0]
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_latent = C.shape[-1]
    W_UK = params["W_UK"].view(d_latent, n_heads, -1)
    W_UV = params["W_UV"].view(d_latent, n_heads, -1)
    q = (x[:, 0] @ params["W_Q"]).view(B, n_heads, -1)
    q_latent = torch.einsum("bhd,lhd->bhl", q, W_UK)
    scores = torch.einsum("bhl,btl->bht", q_latent, C) / math.sqrt(d_latent)
    mixed = torch.einsum("bht,btl->bhl", torch.softmax(scores, -1), C)
    heads = torch.einsum("bhl,lhv->bhv", mixed, W_UV)
    return heads.reshape(B, 1, -1) @ params["W_O"], C


def latent_step__wrong_twelfth_one_look_for_all_heads(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums the heads' scores, so that all heads share one row of weights over the latents."""
    W_Q, W_DKV, W_UK, W_UV, W_O = (params[name] for name in ("W_Q", "W_DKV", "W_UK", "W_UV", "W_O"))
    longer = torch.cat((cache, x @ W_DKV), dim=1)
    d_head = W_Q.shape[1] // n_heads
    query = x @ W_Q @ W_UK.T
    scores = query @ longer.mT / math.sqrt(d_head)
    weights = torch.softmax(scores, dim=-1)
    return weights @ longer @ W_UV @ W_O, longer


def latent_step__wrong_twelfth_new_one_only_for_later(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keeps the new latent for the next step only, so that the token does not see itself unless it is the first."""
    new = x @ params["W_DKV"]
    longer = torch.cat([cache, new], dim=1)
    seen = cache if cache.shape[1] else longer
    q = params["W_Q"].chunk(n_heads, 1)
    up_k = params["W_UK"].chunk(n_heads, 1)
    up_v = params["W_UV"].chunk(n_heads, 1)
    down = params["W_O"].chunk(n_heads, 0)
    out = 0
    for a in range(n_heads):
        moved = (x @ q[a]) @ up_k[a].T
        weights = (moved @ seen.mT / q[a].shape[1] ** 0.5).softmax(-1)
        out = out + (weights @ seen) @ up_v[a] @ down[a]
    return out, longer


def latent_step__wrong_twelfth_every_hth_column(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cuts W_UK so that a head owns every h-th column, not a block."""
    B, _, d_model = x.shape
    C = torch.cat([cache, x @ params["W_DKV"]], 1)
    Q = (x @ params["W_Q"]).reshape(B, n_heads, -1)
    d_head = Q.shape[-1]
    UK = params["W_UK"].reshape(-1, d_head, n_heads).permute(2, 1, 0)
    UV = params["W_UV"].reshape(C.shape[-1], n_heads, -1).permute(1, 0, 2)
    absorbed = (Q.transpose(0, 1) @ UK).transpose(0, 1)
    weights = torch.softmax(absorbed @ C.mT / math.sqrt(d_head), dim=-1)
    values = ((weights @ C).transpose(0, 1) @ UV).transpose(0, 1)
    return values.reshape(B, 1, -1) @ params["W_O"], C


def latent_step__wrong_twelfth_the_new_one_in_front(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Puts the new latent in front of the old ones."""
    latents = torch.cat([x @ params["W_DKV"], cache], dim=1)
    q = _split_heads(x @ params["W_Q"], n_heads).squeeze(2)
    to_latent = params["W_UK"].unflatten(1, (n_heads, -1))
    from_latent = params["W_UV"].unflatten(1, (n_heads, -1))
    q_c = torch.einsum("bhe,che->bhc", q, to_latent)
    a = torch.softmax(torch.bmm(q_c, latents.mT) * q.shape[-1] ** -0.5, dim=2)
    o = torch.einsum("bhc,chv->bhv", torch.bmm(a, latents), from_latent)
    return o.flatten(1).unsqueeze(1) @ params["W_O"], latents


def latent_step__wrong_twelfth_the_new_latent_alone(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the latent of the new token as the cache, without the old ones."""
    p = params
    c_new = x @ p["W_DKV"]
    C = torch.cat([cache, c_new], dim=1)
    d_head = p["W_UK"].shape[1] // n_heads
    d_v = p["W_UV"].shape[1] // n_heads
    heads = []
    for a in range(n_heads):
        columns = slice(a * d_head, (a + 1) * d_head)
        score = x @ (p["W_Q"][:, columns] @ p["W_UK"][:, columns].T) @ C.mT
        weight = torch.softmax(score / math.sqrt(d_head), dim=-1)
        heads.append(weight @ C @ p["W_UV"][:, a * d_v : (a + 1) * d_v])
    return torch.cat(heads, dim=-1) @ p["W_O"], c_new


def latent_step__wrong_twelfth_old_ones_and_then_itself(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Begins with the largest score among the old latents, of which an empty cache has none."""
    B = x.shape[0]
    new = x @ params["W_DKV"]
    width = params["W_DKV"].shape[1]
    UK, UV = (params[name].reshape(width, n_heads, -1) for name in ("W_UK", "W_UV"))
    q = (x @ params["W_Q"]).reshape(B, n_heads, -1)
    q = torch.einsum("bhd,lhd->bhl", q / math.sqrt(q.shape[-1]), UK)
    old_scores = q @ cache.mT
    own_score = q @ new.mT
    top = torch.maximum(old_scores.max(dim=-1, keepdim=True).values, own_score)
    old_terms, own_term = torch.exp(old_scores - top), torch.exp(own_score - top)
    mixed = (old_terms @ cache + own_term * new) / (old_terms.sum(-1, keepdim=True) + own_term)
    out = torch.einsum("bhl,lhv->bhv", mixed, UV).reshape(B, 1, -1) @ params["W_O"]
    return out, torch.cat([cache, new], dim=1)


def latent_step__wrong_twelfth_keys_head_by_head(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Builds keys and values of all tokens, one head after the other."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    outputs = []
    for W_q, W_k, W_v in zip(*(params[name].chunk(n_heads, dim=1) for name in ("W_Q", "W_UK", "W_UV")), strict=True):
        q, k, v = x @ W_q, C @ W_k, C @ W_v
        weights = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1)
        outputs.append(weights @ v)
    return torch.cat(outputs, dim=-1) @ params["W_O"], C


def latent_step__right_twelfth_one_bilinear_form_per_head(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Multiplies W_Q with W_UK, and W_UV with W_O, to one form for each head before any token comes in."""
    latent = params["W_UK"].shape[0]
    Wq, Wk, Wv = (params[name].unflatten(1, (n_heads, -1)).movedim(1, 0) for name in ("W_Q", "W_UK", "W_UV"))
    Wo = params["W_O"].unflatten(0, (n_heads, -1))
    ask = (Wq @ Wk.mT / math.sqrt(Wq.shape[-1])).movedim(0, 1).flatten(1)
    tell = (Wv @ Wo).flatten(0, 1)
    longer = torch.cat([cache, (x.flatten(1) @ params["W_DKV"]).unsqueeze(1)], dim=1)
    questions = (x.flatten(1) @ ask).unflatten(1, (n_heads, latent))
    scores = torch.bmm(questions, longer.mT)
    weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
    return torch.bmm(weights, longer).flatten(1).matmul(tell).unsqueeze(1), longer


# ------- 10.9 delta_rule


def delta_rule__wrong_twelfth_only_added(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Adds beta times the pair and takes nothing off, as plain linear attention does."""
    written = beta[..., None] * V
    out = torch.tril(Q @ K.mT) @ written
    last = K.mT @ written
    if state is not None:
        out = out + Q @ state
        last = last + state
    return out, last


def delta_rule__wrong_twelfth_against_the_first_state(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sets each token right against the state handed in, not against what the tokens between have written."""
    S0 = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=K.dtype) if state is None else state
    held = torch.einsum("bhnk,bhkv->bhnv", K, S0)
    U = torch.einsum("bhn,bhnv->bhnv", beta, V - held)
    causal = torch.ones(K.shape[2], K.shape[2], dtype=K.dtype).tril()
    out = torch.einsum("bhnk,bhkv->bhnv", Q, S0) + (torch.einsum("bhik,bhjk->bhij", Q, K) * causal) @ U
    return out, S0 + torch.einsum("bhnk,bhnv->bhkv", K, U)


def delta_rule__wrong_twelfth_all_correct_each_other(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lets every token be set right by all others, later ones too: the whole table stands in the system."""
    B, h, n, d_k = K.shape
    S = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    others = (K @ K.mT) * (1 - torch.eye(n, dtype=K.dtype))
    system = torch.eye(n, dtype=K.dtype) + beta.unsqueeze(-1) * others
    u = torch.linalg.solve(system, beta.unsqueeze(-1) * (V - K @ S))
    return Q @ S + (Q @ K.mT).tril() @ u, S + K.mT @ u


def delta_rule__wrong_twelfth_strength_of_the_other_token(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Multiplies the columns of the system by beta, where it belongs to the rows."""
    n = K.shape[-2]
    first = torch.zeros_like(K.mT @ V) if state is None else state
    A = torch.matmul(K, K.transpose(-1, -2)) * beta[..., None, :]
    A = A.tril(diagonal=-1) + torch.eye(n, dtype=K.dtype, device=K.device)
    right_side = beta[..., :, None] * (V - torch.matmul(K, first))
    U = torch.linalg.solve_triangular(A, right_side, upper=False)
    reads = torch.matmul(Q, K.transpose(-1, -2)).tril()
    return torch.matmul(Q, first) + torch.matmul(reads, U), first + torch.matmul(K.transpose(-1, -2), U)


def delta_rule__wrong_twelfth_reads_what_is_new(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Forgets the first state in what the tokens read, though it is in what they write."""
    b = beta.unsqueeze(-1)
    target = V if state is None else V - K @ state
    lower = torch.tril(b * (K @ K.mT), -1)
    u = torch.linalg.solve_triangular(lower, b * target, upper=False, unitriangular=True)
    out = torch.tril(Q @ K.mT) @ u
    end = K.mT @ u
    if state is not None:
        end = end + state
    return out, end


def delta_rule__wrong_twelfth_before_its_own_line(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads o_t from S_(t-1), before the token has written."""
    n = Q.shape[2]
    i = torch.arange(n, device=Q.device)
    earlier = i[:, None] > i[None, :]
    start = Q.new_zeros(*Q.shape[:2], Q.shape[3], V.shape[3]) if state is None else state
    among_keys = torch.einsum("bhid,bhjd->bhij", K, K)
    L = torch.where(earlier, beta[..., None] * among_keys, torch.zeros_like(among_keys))
    W = torch.linalg.inv(torch.eye(n, dtype=Q.dtype, device=Q.device) + L)
    U = W @ (beta[..., None] * (V - K @ start))
    asked = torch.einsum("bhid,bhjd->bhij", Q, K).masked_fill(~earlier, 0.0)
    return asked @ U + Q @ start, K.mT @ U + start


def delta_rule__wrong_twelfth_every_chunk_from_the_start(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Works in chunks of 64 tokens and begins each with the first state, so that texts longer than a chunk go wrong."""
    if state is None:
        state = K.new_zeros(K.shape[0], K.shape[1], K.shape[3], V.shape[3])

    def chunk(q, k, v, b, S):
        b = b[..., None]
        T = torch.tril(b * (k @ k.mT), diagonal=-1)
        u = torch.linalg.solve_triangular(T, b * (v - k @ S), upper=False, unitriangular=True)
        return q @ S + torch.tril(q @ k.mT) @ u, S + k.mT @ u

    outputs = []
    for start in range(0, K.shape[2], 64):
        here = slice(start, start + 64)
        out, last = chunk(Q[:, :, here], K[:, :, here], V[:, :, here], beta[:, :, here], state)
        outputs.append(out)
    return torch.cat(outputs, dim=2), last


def delta_rule__wrong_twelfth_token_after_token(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Finds the corrections one after the other in a Python loop over the tokens."""
    B, h, n, d_k = K.shape
    S0 = torch.zeros(B, h, d_k, V.shape[-1], dtype=V.dtype) if state is None else state
    wanted = V - K @ S0
    overlap = K @ K.mT
    u = beta[:, :, :1, None] * wanted[:, :, :1]
    for t in range(1, n):
        held = overlap[:, :, t : t + 1, :t] @ u
        u = torch.cat([u, beta[:, :, t, None, None] * (wanted[:, :, t : t + 1] - held)], dim=2)
    return Q @ S0 + (Q @ K.mT).tril() @ u, S0 + K.mT @ u


def delta_rule__right_twelfth_steps_joined_in_pairs(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes each step for a map S -> A S + C and joins the maps of 1, 2, 4, ... tokens, for all tokens at once."""
    n, d_k = K.shape[-2:]
    pushed = beta[..., None, None] * K[..., :, None]
    A = torch.eye(d_k, dtype=K.dtype, device=K.device) - pushed * K[..., None, :]
    C = pushed * V[..., None, :]
    reach = 1
    while reach < n:
        late, early = slice(reach, None), slice(None, n - reach)
        C = torch.cat([C[:, :, :reach], C[:, :, late] + A[:, :, late] @ C[:, :, early]], dim=2)
        A = torch.cat([A[:, :, :reach], A[:, :, late] @ A[:, :, early]], dim=2)
        reach *= 2
    states = C if state is None else C + A @ state.unsqueeze(2)
    return (Q.unsqueeze(-2) @ states).squeeze(-2), states[:, :, -1].clone()
