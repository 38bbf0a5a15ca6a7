"""Answers to unit 10's functions, written from the notebook alone."""

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
    d = x.shape[-1]
    speeds = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = positions.to(torch.float64)[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def _norm(x, gamma, eps=1e-6):
    return gamma * x / torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps)


def _ffn(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def _window_mask(n_new, n_total, window):
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)[None, :]
    return (j <= i) & (j > i - window)


# ---------------------------------------------------------------- rotate


def rotate__wrong_neighbours(x, positions, base=10000.0):
    """The pairs are neighbouring columns 2p and 2p + 1 (as in the paper), not the halves p and p + d/2."""
    d = x.shape[-1]
    speeds = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = positions.double()[:, None] * speeds[None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(-2)


def rotate__wrong_clockwise(x, positions, base=10000.0):
    """Both signs of the sine are swapped, so that each pair is turned clockwise, by minus the angle."""
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
    theta = positions[:, None].double() * speeds
    cos, sin = torch.cos(theta).to(x.dtype), torch.sin(theta).to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos + b * sin, b * cos - a * sin), dim=-1)


def rotate__wrong_uses_new_half(x, positions, base=10000.0):
    """The second half is computed with the first half that is turned already, instead of the original one."""
    d = x.shape[-1]
    speeds = base ** (-2 * torch.arange(d // 2, dtype=torch.float64) / d)
    angles = positions.double()[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    x1, x2 = x.chunk(2, dim=-1)
    x1 = x1 * cos - x2 * sin
    x2 = x2 * cos + x1 * sin
    return torch.cat([x1, x2], dim=-1)


def rotate__wrong_exponent(x, positions, base=10000.0):
    """The exponent is -p/d in place of -2p/d: the factor 2 is missing, and the speeds fall half as fast."""
    d = x.shape[-1]
    p = torch.arange(d // 2, dtype=torch.float64)
    angles = positions.double()[:, None] * base ** (-p / d)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


def rotate__wrong_row_number(x, positions, base=10000.0):
    """The angle comes from the row's number in the tensor, 0 to n - 1; `positions` is not used."""
    n, d = x.shape[-2:]
    speeds = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = torch.arange(n, dtype=torch.float64)[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def rotate__wrong_in_place(x, positions, base=10000.0):
    """The turned halves are written back into the tensor x that was handed in, so the caller's input changes."""
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.double()[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first = x[..., :half] * cos - x[..., half:] * sin
    second = x[..., half:] * cos + x[..., :half] * sin
    x[..., :half] = first
    x[..., half:] = second
    return x


def rotate__wrong_heads_behind_tokens(x, positions, base=10000.0):
    """The table of angles is laid out for x of shape (B, n, h, d), so it meets the axis before n, not n itself."""
    d = x.shape[-1]
    speeds = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = (positions.double()[:, None] * speeds)[:, None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def rotate__wrong_whole_positions(x, positions, base=10000.0):
    """Positions are cut to whole numbers with .long(), so positions like 2.5 are turned as 2."""
    d = x.shape[-1]
    speeds = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = torch.outer(positions.long().double(), speeds)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.split(d // 2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def rotate__wrong_two_base_and_count(x, positions, base=10000.0):
    """Two slips: 10,000 is hard-coded where `base` belongs, and positions are counted from 1 (1 is added)."""
    d = x.shape[-1]
    speeds = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = (positions.double() + 1)[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def rotate__right_complex(x, positions, base=10000.0):
    """Each pair is one complex number, multiplied by exp(i angle)."""
    first, second = x.chunk(2, dim=-1)
    half = first.shape[-1]
    speeds = torch.exp(-math.log(base) * torch.arange(half, dtype=torch.float64) / half)
    angles = torch.outer(positions.double(), speeds)
    turn = torch.complex(angles.cos().to(x.dtype), angles.sin().to(x.dtype))
    turned = torch.complex(first, second) * turn
    return torch.cat([turned.real, turned.imag], dim=-1)


def rotate__right_rotate_half(x, positions, base=10000.0):
    """As in the libraries: cosine and sine for the full width, and a swapped copy of x with one half negated."""
    d = x.shape[-1]
    column = torch.arange(d) % (d // 2)
    angles = positions.double().unsqueeze(-1) / base ** (2 * column.double() / d)
    swapped = x.roll(d // 2, dims=-1)
    sign = torch.where(torch.arange(d) < d // 2, -1.0, 1.0).to(x.dtype)
    return x * angles.cos().to(x.dtype) + sign * swapped * angles.sin().to(x.dtype)


def rotate__right_matrices(x, positions, base=10000.0):
    """A table of 2 x 2 turning matrices for each row and pair, applied by one einsum."""
    d = x.shape[-1]
    speeds = base ** (torch.arange(0, -d, -2, dtype=torch.float64) / d)
    angles = torch.einsum("n,p->np", positions.double(), speeds)
    c, s = angles.cos(), angles.sin()
    R = torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2).to(x.dtype)
    pairs = x.unflatten(-1, (2, d // 2))
    return torch.einsum("npab,...nbp->...nap", R, pairs).flatten(-2)


def rotate__right_loops(x, positions, base=10000.0):
    """Python loops over the pairs and the rows, with the columns collected in a list and stacked at the end."""
    d = x.shape[-1]
    columns = [None] * d
    places = positions.tolist()
    for p in range(d // 2):
        speed = base ** (-2 * p / d)
        low, high = [], []
        for row, place in enumerate(places):
            c, s = math.cos(place * speed), math.sin(place * speed)
            low.append(c * x[..., row, p] - s * x[..., row, p + d // 2])
            high.append(s * x[..., row, p] + c * x[..., row, p + d // 2])
        columns[p], columns[p + d // 2] = torch.stack(low, -1), torch.stack(high, -1)
    return torch.stack(columns, dim=-1)


# ---------------------------------------------------------------- rms_norm


def rms_norm__wrong_layer_norm(x, gamma, eps=1e-6):
    """The mean is subtracted first and the variance divides: layer norm without shift, not RMSNorm."""
    centred = x - x.mean(dim=-1, keepdim=True)
    return gamma * centred / torch.sqrt(centred.square().mean(dim=-1, keepdim=True) + eps)


def rms_norm__wrong_sum(x, gamma, eps=1e-6):
    """The squares are summed over the last axis and not averaged, so each token gets length 1."""
    return gamma * x / torch.sqrt((x**2).sum(dim=-1, keepdim=True) + eps)


def rms_norm__wrong_eps_outside(x, gamma, eps=1e-6):
    """eps is added to the root and not to the mean square under the root."""
    rms = x.pow(2).mean(dim=-1, keepdim=True).sqrt()
    return gamma * x / (rms + eps)


def rms_norm__wrong_no_root(x, gamma, eps=1e-6):
    """It divides by the mean square itself: the square root is missing."""
    mean_square = x.pow(2).mean(-1, keepdim=True)
    return gamma * (x / (mean_square + eps))


def rms_norm__wrong_axis_one(x, gamma, eps=1e-6):
    """The mean runs over axis 1, which is the last axis only for a matrix; with a batch it is the tokens' axis."""
    axis = min(1, x.dim() - 1)
    return gamma * x * torch.rsqrt(x.square().mean(dim=axis, keepdim=True) + eps)


def rms_norm__wrong_no_keepdim(x, gamma, eps=1e-6):
    """The mean square loses its axis (no keepdim), so tokens' norms are laid along the columns or do not fit."""
    return gamma * x / torch.sqrt(x.square().mean(dim=-1) + eps)


def rms_norm__wrong_eps_fixed(x, gamma, eps=1e-6):
    """1e-6 is hard-coded under the root; the argument eps is not used."""
    return x / (x.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt() * gamma


def rms_norm__wrong_one_plus_gamma(x, gamma, eps=1e-6):
    """The gain is taken to be 1 + gamma, as if gamma were stored as a deviation from 1."""
    normed = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
    return normed * (1 + gamma)


def rms_norm__wrong_two_gain_first(x, gamma, eps=1e-6):
    """Two slips: gamma multiplies x before the norm instead of behind it, and eps is left out."""
    scaled = gamma * x
    return scaled / scaled.square().mean(dim=-1, keepdim=True).sqrt()


def rms_norm__right_hypot(x, gamma, eps=1e-6):
    """The root as the hypotenuse of the root mean square and the root of eps."""
    rms = torch.linalg.vector_norm(x, dim=-1, keepdim=True) / math.sqrt(x.shape[-1])
    return x / torch.hypot(rms, torch.full_like(rms, math.sqrt(eps))) * gamma


def rms_norm__right_einsum(x, gamma, eps=1e-6):
    """The sum of squares by einsum, a power of -1/2, and the gain by einsum as well."""
    mean_square = torch.einsum("...d,...d->...", x, x) / x.shape[-1]
    return torch.einsum("...d,d,...->...d", x, gamma, (mean_square + eps) ** -0.5)


def rms_norm__right_row_loop(x, gamma, eps=1e-6):
    """A Python loop over the tokens of the flattened tensor, each normed by a dot product with itself."""
    rows = []
    for token in x.reshape(-1, x.shape[-1]):
        rows.append(token * (torch.dot(token, token) / len(token) + eps).rsqrt())
    return torch.stack(rows).reshape(x.shape).mul(gamma)


def rms_norm__right_extra_column(x, gamma, eps=1e-6):
    """eps enters as one more column, the root of d * eps, before the length of the row is taken."""
    d = x.shape[-1]
    extra = torch.full_like(x[..., :1], math.sqrt(d * eps))
    length = torch.cat([x, extra], dim=-1).square().sum(dim=-1, keepdim=True).sqrt()
    return math.sqrt(d) * gamma * x / length


# ---------------------------------------------------------------- swiglu


def swiglu__wrong_silu_on_up(x, W_gate, W_up, W_down):
    """Gate and up have changed places: silu is applied to x W_up, and x W_gate goes through as it is."""
    return ((x @ W_gate) * F.silu(x @ W_up)) @ W_down


def swiglu__wrong_sigmoid_only(x, W_gate, W_up, W_down):
    """The gate goes through the sigmoid alone: the factor z of silu(z) = z * sigmoid(z) is missing."""
    gate = torch.sigmoid(x @ W_gate)
    return (gate * (x @ W_up)) @ W_down


def swiglu__wrong_silu_of_product(x, W_gate, W_up, W_down):
    """silu is applied to the product of gate and up, not to the gate alone."""
    hidden = F.silu((x @ W_gate) * (x @ W_up))
    return hidden @ W_down


def swiglu__wrong_sum(x, W_gate, W_up, W_down):
    """The opened gate and up are added and not multiplied entry by entry."""
    gate, up = F.silu(x @ W_gate), x @ W_up
    return (gate + up) @ W_down


def swiglu__wrong_no_up(x, W_gate, W_up, W_down):
    """The feed-forward layer of unit 7 with two weights: W_up is never used, nothing is gated."""
    return F.silu(x @ W_gate) @ W_down


def swiglu__wrong_residual(x, W_gate, W_up, W_down):
    """x is added to the result: the residual connection belongs to the block, not to this layer."""
    return x + (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def swiglu__wrong_way_back_by_up(x, W_gate, W_up, W_down):
    """The way back to d_model is taken with the transposed W_up, so W_down is not used."""
    hidden = F.silu(x @ W_gate) * (x @ W_up)
    return hidden @ W_up.T


def swiglu__wrong_one_token_axis(x, W_gate, W_up, W_down):
    """Written for x of shape (B, n, d_model) only: with fewer or more axes before the last the einsum does not fit."""
    gate = F.silu(torch.einsum("bnd,df->bnf", x, W_gate))
    up = torch.einsum("bnd,df->bnf", x, W_up)
    return torch.einsum("bnf,fd->bnd", gate * up, W_down)


def swiglu__wrong_two_gelu_on_up(x, W_gate, W_up, W_down):
    """Two slips: gelu stands in place of silu, and it is applied to up instead of the gate."""
    return ((x @ W_gate) * F.gelu(x @ W_up)) @ W_down


def swiglu__right_tanh(x, W_gate, W_up, W_down):
    """silu written as z/2 * (1 + tanh(z/2)), with F.linear for the products."""
    half = F.linear(x, W_gate.T) / 2
    opened = half + half * torch.tanh(half)
    return F.linear(opened * F.linear(x, W_up.T), W_down.T)


def swiglu__right_one_product(x, W_gate, W_up, W_down):
    """Gate and up come out of a single product with both weights side by side, then are cut apart."""
    both = x @ torch.cat([W_up, W_gate], dim=1)
    up, gate = both.chunk(2, dim=-1)
    return up.mul(gate).mul(gate.sigmoid()).matmul(W_down)


def swiglu__right_unit_loop(x, W_gate, W_up, W_down):
    """A loop over the d_ff hidden units: each adds its number times its row of W_down."""
    out = torch.zeros_like(x)
    for f in range(W_down.shape[0]):
        gate, up = x @ W_gate[:, f], x @ W_up[:, f]
        out = out + (F.silu(gate) * up)[..., None] * W_down[f]
    return out


def swiglu__right_einsum(x, W_gate, W_up, W_down):
    """One einsum with three factors joins gate, up and the way back."""
    gate = torch.einsum("...d,df->...f", x, W_gate)
    gate = gate * torch.special.expit(gate)
    up = torch.einsum("...d,df->...f", x, W_up)
    return torch.einsum("...f,...f,fd->...d", gate, up, W_down)


# ---------------------------------------------------------------- sliding_window_mask


def sliding_window_mask__wrong_one_more(n_new, n_total, window):
    """The lower limit is i - window <= j: the window holds one token too many, its own does not count."""
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)[None, :]
    return (j <= i) & (j >= i - window)


def sliding_window_mask__wrong_no_window(n_new, n_total, window):
    """Only the causal mask behind a cache: `window` is not used."""
    return torch.ones(n_new, n_total, dtype=torch.bool).tril(n_total - n_new)


def sliding_window_mask__wrong_no_offset(n_new, n_total, window):
    """Row r is taken for position r: the n_total - n_new tokens of the cache before it are forgotten."""
    i = torch.arange(n_new).unsqueeze(1)
    j = torch.arange(n_total).unsqueeze(0)
    return (i - window < j) & (j <= i)


def sliding_window_mask__wrong_inverted(n_new, n_total, window):
    """True marks the keys that are hidden: the mask is the wrong way round."""
    i = torch.arange(n_new)[:, None] + n_total - n_new
    j = torch.arange(n_total)
    return (j > i) | (j <= i - window)


def sliding_window_mask__wrong_both_sides(n_new, n_total, window):
    """The distance is taken without its sign, so tokens up to window - 1 places later are seen, too."""
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (i - j).abs() < window


def sliding_window_mask__wrong_blocks(n_new, n_total, window):
    """The text is cut into fixed blocks of `window` tokens, and each token sees only those of its own block."""
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)[None, :]
    return (j <= i) & (j // window == i // window)


def sliding_window_mask__wrong_window_at_end(n_new, n_total, window):
    """All rows have the window of the last token, the last `window` columns; it does not slide with the row."""
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)[None, :]
    return (j <= i) & (j > n_total - 1 - window)


def sliding_window_mask__wrong_transposed(n_new, n_total, window):
    """Keys run along the rows and queries along the columns: the shape is (n_total, n_new)."""
    i = torch.arange(n_total - n_new, n_total)[None, :]
    j = torch.arange(n_total)[:, None]
    return (i - window < j) & (j <= i)


def sliding_window_mask__wrong_two_itself_and_offset(n_new, n_total, window):
    """Two slips: a token does not see itself (j < i), and the offset is n_total alone and not n_total - n_new."""
    i = torch.arange(n_new)[:, None] + n_total
    j = torch.arange(n_total)[None, :]
    return (j < i) & (j > i - window)


def sliding_window_mask__right_xor_of_triangles(n_new, n_total, window):
    """The difference of two lower triangles: all up to the token, exclusive-or all that fell out of the window."""
    ones = torch.ones(n_new, n_total, dtype=torch.bool)
    offset = n_total - n_new
    return ones.tril(offset) ^ ones.tril(offset - window)


def sliding_window_mask__right_slices(n_new, n_total, window):
    """A loop over the rows that fills one slice of each with True."""
    mask = torch.zeros(n_new, n_total, dtype=torch.bool)
    for row, i in enumerate(range(n_total - n_new, n_total)):
        mask[row, max(0, i - window + 1) : i + 1] = True
    return mask


def sliding_window_mask__right_clamp(n_new, n_total, window):
    """A key is seen where cutting its distance off at 0 and window - 1 does not change it."""
    back = torch.arange(n_total - n_new, n_total).view(-1, 1) - torch.arange(n_total).view(1, -1)
    return torch.eq(back, back.clamp(0, window - 1))


def sliding_window_mask__right_one_row_shifted(n_new, n_total, window):
    """One long row with a stretch of True is read at n_new shifted places, by unfold, the last row first."""
    w = min(window, n_total)
    line = torch.zeros(n_total + n_new - 1, dtype=torch.bool)
    line[n_total - w : n_total] = True
    return line.unfold(0, n_total, 1).flip(0)


# ---------------------------------------------------------------- modern_block


def modern_block__wrong_turned_then_normed(x, params, n_heads, n_kv_heads, positions, window=None):
    """Heads are turned first and normed with gamma_q and gamma_k afterwards: steps 3 and 4 have changed places."""
    n = x.shape[1]
    z = _norm(x, params["gamma_1"])
    Q = _split_heads(z @ params["W_Q"], n_heads)
    K = _split_heads(z @ params["W_K"], n_kv_heads)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    Q = _norm(_rotate(Q, positions), params["gamma_q"])
    K = _norm(_rotate(K, positions), params["gamma_k"])
    K = K.repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = V.repeat_interleave(n_heads // n_kv_heads, dim=1)
    mask = _window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + _merge_heads(A @ V) @ params["W_O"]
    return y + _ffn(_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_heads_in_turn(x, params, n_heads, n_kv_heads, positions, window=None):
    """Key/value heads are repeated as 0, 1, 0, 1, ... by repeat, so query heads that are neighbours do not share."""
    n = x.shape[1]
    z = _norm(x, params["gamma_1"])
    Q = _split_heads(z @ params["W_Q"], n_heads)
    K = _split_heads(z @ params["W_K"], n_kv_heads)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    Q = _rotate(_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_norm(K, params["gamma_k"]), positions)
    times = n_heads // n_kv_heads
    K, V = K.repeat(1, times, 1, 1), V.repeat(1, times, 1, 1)
    mask = _window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K.mT / Q.shape[-1] ** 0.5, mask)
    y = x + _merge_heads(A @ V) @ params["W_O"]
    return y + _ffn(_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_adds_x_again(x, params, n_heads, n_kv_heads, positions, window=None):
    """The last step adds the feed-forward layer to x and not to y, so the attention's result is not passed on."""
    n = x.shape[1]
    z = _norm(x, params["gamma_1"])
    Q = _split_heads(z @ params["W_Q"], n_heads)
    K = _split_heads(z @ params["W_K"], n_kv_heads)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    Q = _rotate(_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_norm(K, params["gamma_k"]), positions)
    K = K.repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = V.repeat_interleave(n_heads // n_kv_heads, dim=1)
    mask = _window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + _merge_heads(A @ V) @ params["W_O"]
    z = _norm(y, params["gamma_2"])
    return x + _ffn(z, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_root_of_d_model(x, params, n_heads, n_kv_heads, positions, window=None):
    """The scores are divided by the root of d_model, the width of x, and not of d_head."""
    B, n, d = x.shape
    z = _norm(x, params["gamma_1"])
    Q = _rotate(_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"]), positions)
    K = _rotate(_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"]), positions)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    K = K.repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = V.repeat_interleave(n_heads // n_kv_heads, dim=1)
    mask = _window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K.transpose(-2, -1) / math.sqrt(d), mask)
    y = x + _merge_heads(A @ V) @ params["W_O"]
    return y + _ffn(_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_mask_by_positions(x, params, n_heads, n_kv_heads, positions, window=None):
    """Who sees whom is decided by `positions`, which serve the rotation alone; it should go by row."""
    z = _norm(x, params["gamma_1"])
    Q = _rotate(_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"]), positions)
    K = _rotate(_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"]), positions)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    K = K.repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = V.repeat_interleave(n_heads // n_kv_heads, dim=1)
    distance = positions[:, None] - positions[None, :]
    mask = distance >= 0
    if window is not None:
        mask = mask & (distance < window)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + _merge_heads(A @ V) @ params["W_O"]
    return y + _ffn(_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_norm_over_all_heads(x, params, n_heads, n_kv_heads, positions, window=None):
    """QK-norm is done before the split, over the columns of all heads together, so heads share one mean square."""
    n = x.shape[1]
    z = _norm(x, params["gamma_1"])
    Q = _norm(z @ params["W_Q"], params["gamma_q"].repeat(n_heads))
    K = _norm(z @ params["W_K"], params["gamma_k"].repeat(n_kv_heads))
    Q = _rotate(_split_heads(Q, n_heads), positions)
    K = _rotate(_split_heads(K, n_kv_heads), positions)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    K = K.repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = V.repeat_interleave(n_heads // n_kv_heads, dim=1)
    mask = _window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + _merge_heads(A @ V) @ params["W_O"]
    return y + _ffn(_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_split_by_reshape(x, params, n_heads, n_kv_heads, positions, window=None):
    """Heads are made by reshape to (B, heads, n, d_head) without a transpose, which mixes tokens and heads."""
    B, n, _ = x.shape
    z = _norm(x, params["gamma_1"])
    Q = (z @ params["W_Q"]).reshape(B, n_heads, n, -1)
    K = (z @ params["W_K"]).reshape(B, n_kv_heads, n, -1)
    V = (z @ params["W_V"]).reshape(B, n_kv_heads, n, -1)
    Q = _rotate(_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_norm(K, params["gamma_k"]), positions)
    K = K.repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = V.repeat_interleave(n_heads // n_kv_heads, dim=1)
    mask = _window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + _merge_heads(A @ V) @ params["W_O"]
    return y + _ffn(_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_adds_into_x(x, params, n_heads, n_kv_heads, positions, window=None):
    """Both residual connections add in place (x += ...), so the tensor x that was handed in is changed."""
    n = x.shape[1]
    z = _norm(x, params["gamma_1"])
    Q = _rotate(_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"]), positions)
    K = _rotate(_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"]), positions)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    K = K.repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = V.repeat_interleave(n_heads // n_kv_heads, dim=1)
    mask = _window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    x += _merge_heads(A @ V) @ params["W_O"]
    x += _ffn(_norm(x, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])
    return x


def modern_block__wrong_two_window_and_values(x, params, n_heads, n_kv_heads, positions, window=None):
    """Two slips: the window is not used (the mask is causal only), and the values are turned along with the keys."""
    n = x.shape[1]
    z = _norm(x, params["gamma_1"])
    Q = _norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"])
    K = _norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"])
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    Q, K, V = (_rotate(one, positions) for one in (Q, K, V))
    K = K.repeat_interleave(n_heads // n_kv_heads, dim=1)
    V = V.repeat_interleave(n_heads // n_kv_heads, dim=1)
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), causal)
    y = x + _merge_heads(A @ V) @ params["W_O"]
    return y + _ffn(_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__right_head_loop(x, params, n_heads, n_kv_heads, positions, window=None):
    """A loop over query heads with column slices; each head adds its own product with its rows of W_O."""
    n = x.shape[1]
    z = _norm(x, params["gamma_1"])
    d_head = params["gamma_q"].shape[0]
    back = torch.arange(n)[:, None] - torch.arange(n)
    hidden = (back < 0) | (back >= (n if window is None else window))
    y = x
    for a in range(n_heads):
        b = a // (n_heads // n_kv_heads)
        own, shared = slice(a * d_head, (a + 1) * d_head), slice(b * d_head, (b + 1) * d_head)
        q = _rotate(_norm(z @ params["W_Q"][:, own], params["gamma_q"]), positions)
        k = _rotate(_norm(z @ params["W_K"][:, shared], params["gamma_k"]), positions)
        scores = (q / math.sqrt(d_head)) @ k.transpose(1, 2)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(dim=-1)
        y = y + weights @ (z @ params["W_V"][:, shared]) @ params["W_O"][own]
    return y + _ffn(_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__right_grouped_einsum(x, params, n_heads, n_kv_heads, positions, window=None):
    """Query heads get two axes, group and member, and einsum lets the group share: nothing is repeated."""
    n, g, r = x.shape[1], n_kv_heads, n_heads // n_kv_heads
    z = _norm(x, params["gamma_1"])
    Q = torch.einsum("bnd,dgre->bgrne", z, params["W_Q"].unflatten(1, (g, r, -1)))
    K = torch.einsum("bnd,dge->bgne", z, params["W_K"].unflatten(1, (g, -1)))
    V = torch.einsum("bnd,dge->bgne", z, params["W_V"].unflatten(1, (g, -1)))
    Q = _rotate(_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_norm(K, params["gamma_k"]), positions)
    scores = torch.einsum("bgrne,bgme->bgrnm", Q, K) * Q.shape[-1] ** -0.5
    A = _masked_softmax(scores, _window_mask(n, n, window or n))
    heads = torch.einsum("bgrnm,bgme->bngre", A, V)
    y = x + torch.einsum("bngre,gred->bnd", heads, params["W_O"].unflatten(0, (g, r, -1)))
    return y + _ffn(_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__right_token_by_token(x, params, n_heads, n_kv_heads, positions, window=None):
    """Decoding: token after token, with a list of kept keys and values from which the window takes the last ones."""
    keys, values, rows = [], [], []
    times = n_heads // n_kv_heads
    for t in range(x.shape[1]):
        token, place = x[:, t : t + 1], positions[t : t + 1]
        z = _norm(token, params["gamma_1"])
        q = _rotate(_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"]), place)
        k = _rotate(_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"]), place)
        keys.append(k)
        values.append(_split_heads(z @ params["W_V"], n_kv_heads))
        first = 0 if window is None else max(0, t + 1 - window)
        K = torch.cat(keys[first:], dim=2).repeat_interleave(times, dim=1)
        V = torch.cat(values[first:], dim=2).repeat_interleave(times, dim=1)
        A = torch.softmax(q @ K.mT / math.sqrt(q.shape[-1]), dim=-1)
        y = token + _merge_heads(A @ V) @ params["W_O"]
        z = _norm(y, params["gamma_2"])
        rows.append(y + _ffn(z, params["W_gate"], params["W_up"], params["W_down"]))
    return torch.cat(rows, dim=1)


def modern_block__right_group_as_rows(x, params, n_heads, n_kv_heads, positions, window=None):
    """The query heads of a group are put below one another as rows of one table, with the mask repeated for them."""
    B, n, _ = x.shape
    members = n_heads // n_kv_heads
    z = _norm(x, params["gamma_1"])
    turned = []
    for name, gain, count in (("W_Q", "gamma_q", n_heads), ("W_K", "gamma_k", n_kv_heads)):
        heads = (z @ params[name]).view(B, n, count, -1).permute(0, 2, 1, 3)
        turned.append(_rotate(_norm(heads, params[gain]), positions))
    Q, K = turned
    V = (z @ params["W_V"]).view(B, n, n_kv_heads, -1).permute(0, 2, 1, 3)
    rows = Q.reshape(B, n_kv_heads, members * n, -1)
    far = n if window is None else window
    allowed = torch.ones(n, n, dtype=torch.bool).tril().triu(1 - far).repeat(members, 1)
    scores = torch.where(allowed, rows @ K.mT / math.sqrt(K.shape[-1]), -torch.inf)
    heads = (scores.softmax(dim=-1) @ V).reshape(B, n_heads, n, -1)
    y = torch.add(x, heads.permute(0, 2, 1, 3).reshape(B, n, -1) @ params["W_O"])
    return y + _ffn(_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


# ---------------------------------------------------------------- sink_attention


def sink_attention__wrong_sink_scaled(Q, K, V, sink, mask=None):
    """The division by the root of d_k comes after the sink's column was added, so the sink is divided as well."""
    B, h, n, d_k = Q.shape
    scores = Q @ K.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    column = sink[:, None, None].expand(B, h, n, 1)
    A = torch.softmax(torch.cat([scores, column], dim=-1) / math.sqrt(d_k), dim=-1)
    return A[..., :-1] @ V


def sink_attention__wrong_drops_first_key(Q, K, V, sink, mask=None):
    """The sink's column is put last, but the first one is cut off, so weights meet the values of their neighbours."""
    B, h, n, d_k = Q.shape
    scores = Q @ K.mT / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    column = sink[:, None, None].expand(B, h, n, 1)
    A = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)
    return A[..., 1:] @ V


def sink_attention__wrong_renormalised(Q, K, V, sink, mask=None):
    """Behind the softmax the keys' weights are divided by their sum again, which takes the sink's effect away."""
    B, h, n, d_k = Q.shape
    scores = Q @ K.mT / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    column = sink[:, None, None].expand(B, h, n, 1)
    A = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)[..., :-1]
    A = A / A.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(A.dtype).tiny)
    return A @ V


def sink_attention__wrong_sink_without_exp(Q, K, V, sink, mask=None):
    """The size of the sink itself is added to the denominator where exp(sink) belongs."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    highest = scores.amax(dim=-1, keepdim=True).clamp_min(0)
    top = torch.exp(scores - highest)
    bottom = sink.abs()[:, None, None] * torch.exp(-highest) + top.sum(dim=-1, keepdim=True)
    return top / bottom @ V


def sink_attention__wrong_sink_per_query(Q, K, V, sink, mask=None):
    """The sinks are laid along the queries' axis, (1, 1, h, 1): they fit only where h equals n, one for each token."""
    B, h, n, d_k = Q.shape
    scores = Q @ K.mT / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    column = sink.view(1, 1, -1, 1).expand(B, h, n, 1)
    A = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)
    return A[..., :-1] @ V


def sink_attention__wrong_first_sink(Q, K, V, sink, mask=None):
    """All heads take the sink of head 0; it works with one head or equal sinks only."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    column = sink[0].expand(*scores.shape[:-1], 1)
    A = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)
    return A[..., :-1] @ V


def sink_attention__wrong_mask_behind_softmax(Q, K, V, sink, mask=None):
    """The mask sets weights to 0 only behind the softmax, so forbidden keys still stand in the denominator."""
    B, h, n, d_k = Q.shape
    scores = Q @ K.mT / math.sqrt(d_k)
    column = sink[:, None, None].expand(B, h, n, 1)
    A = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)[..., :-1]
    if mask is not None:
        A = A * mask
    return A @ V


def sink_attention__wrong_softmax_over_queries(Q, K, V, sink, mask=None):
    """The softmax runs over the queries' axis (-2), so the weights of a query and its sink do not sum to 1."""
    B, h, n, d_k = Q.shape
    scores = Q @ K.mT / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    column = sink[:, None, None].expand(B, h, n, 1)
    A = torch.softmax(torch.cat([scores, column], dim=-1), dim=-2)[..., :-1]
    return (A if mask is None else A * mask) @ V


def sink_attention__wrong_two_sign_and_scale(Q, K, V, sink, mask=None):
    """Two slips: the sink enters as exp(-sink), and the scores are divided by d_k and not by its root."""
    B, h, n, d_k = Q.shape
    scores = Q @ K.mT / d_k
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    column = -sink[:, None, None].expand(B, h, n, 1)
    A = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)
    return A[..., :-1] @ V


def sink_attention__right_sigmoid(Q, K, V, sink, mask=None):
    """Ordinary masked attention, times the keys' share: the sigmoid of logsumexp of the scores minus the sink."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    level = torch.logsumexp(scores, dim=-1, keepdim=True)
    return torch.softmax(scores, dim=-1) @ V * torch.sigmoid(level - sink[:, None, None])


def sink_attention__right_key_loop(Q, K, V, sink, mask=None):
    """Keys are read one after another with a running maximum and sum, which begin with the sink."""
    B, h, n, d_k = Q.shape
    highest = sink[:, None, None].expand(B, h, n, 1)
    total, out = torch.ones_like(highest), torch.zeros_like(Q[..., :1] * V[:, :, :1])
    allowed = None if mask is None else mask.expand(B, h, n, K.shape[2])
    for j in range(K.shape[2]):
        score = (Q * K[:, :, j : j + 1]).sum(dim=-1, keepdim=True) / d_k**0.5
        if allowed is not None:
            score = score.masked_fill(~allowed[..., j : j + 1], torch.finfo(score.dtype).min)
        above = torch.maximum(highest, score)
        old, new = torch.exp(highest - above), torch.exp(score - above)
        total, out = total * old + new, out * old + new * V[:, :, j : j + 1]
        highest = above
    return out / total


def sink_attention__right_zero_value(Q, K, V, sink, mask=None):
    """A loop over heads in which the sink stands in front, as a first key that brings a value of zeros."""
    B, h, n, d_k = Q.shape
    heads = []
    for a in range(h):
        scores = torch.einsum("bnd,bmd->bnm", Q[:, a], K[:, a]) * d_k**-0.5
        if mask is not None:
            seen = torch.broadcast_to(mask, (B, h, n, K.shape[2]))[:, a]
            scores = torch.where(seen, scores, -torch.inf)
        weights = torch.cat([sink[a].expand(B, n, 1), scores], dim=2).softmax(dim=2)
        heads.append(weights @ F.pad(V[:, a], (0, 0, 1, 0)))
    return torch.stack(heads, dim=1)


def sink_attention__right_log_denominator(Q, K, V, sink, mask=None):
    """The denominator in logarithms: logaddexp of the sink and the scores' logsumexp, subtracted before exp."""
    scores = torch.einsum("bhnd,bhmd->bhnm", Q, K) / math.sqrt(K.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), torch.finfo(scores.dtype).min)
    below = torch.logaddexp(scores.logsumexp(dim=-1), sink[None, :, None])
    return torch.einsum("bhnm,bhmv->bhnv", (scores - below[..., None]).exp(), V)


# ---------------------------------------------------------------- linear_attention


def _start(K, V, state):
    if state is not None:
        return state
    return torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=K.dtype)


def linear_attention__wrong_new_pair_fades(Q, K, V, decay=None, state=None):
    """The decay falls on the sum with the new pair in it, so a token's own pair fades before it is read."""
    S, outs = _start(K, V, state), []
    for t in range(K.shape[2]):
        S = S + K[:, :, t, :, None] * V[:, :, t, None, :]
        if decay is not None:
            S = decay[:, :, t, None, None] * S
        outs.append(Q[:, :, t : t + 1] @ S)
    return torch.cat(outs, dim=2), S


def linear_attention__wrong_reads_first(Q, K, V, decay=None, state=None):
    """A token reads the state before its own pair is written (and before it fades): o_t = q_t S_(t-1)."""
    S, outs = _start(K, V, state), []
    for t in range(K.shape[2]):
        outs.append(Q[:, :, t : t + 1] @ S)
        if decay is not None:
            S = decay[:, :, t, None, None] * S
        S = S + K[:, :, t, :, None] * V[:, :, t, None, :]
    return torch.cat(outs, dim=2), S


def linear_attention__wrong_writes_into_state(Q, K, V, decay=None, state=None):
    """Fading and writing are done in place (*= and +=), so the state that was handed in is changed."""
    if state is None:
        state = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=K.dtype)
    outs = []
    for t in range(K.shape[2]):
        if decay is not None:
            state *= decay[:, :, t, None, None]
        state += K[:, :, t, :, None] * V[:, :, t, None, :]
        outs.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], state.clone()))
    return torch.stack(outs, dim=2), state


def linear_attention__wrong_first_decay_for_all(Q, K, V, decay=None, state=None):
    """All sequences and heads fade by the decays of the first head of the first sequence, decay[0, 0]."""
    S, outs = _start(K, V, state), []
    for t in range(K.shape[2]):
        fade = 1.0 if decay is None else decay[0, 0, t]
        S = fade * S + K[:, :, t, :, None] * V[:, :, t, None, :]
        outs.append((Q[:, :, t, None, :] @ S)[:, :, 0])
    return torch.stack(outs, dim=2), S


def linear_attention__wrong_scaled(Q, K, V, decay=None, state=None):
    """What is read is divided by the root of d_k, as with a softmax; here there is no scale."""
    S, outs = _start(K, V, state), []
    scale = math.sqrt(Q.shape[-1])
    for t in range(K.shape[2]):
        if decay is not None:
            S = decay[:, :, t, None, None] * S
        S = S + K[:, :, t, :, None] * V[:, :, t, None, :]
        outs.append(Q[:, :, t : t + 1] @ S / scale)
    return torch.cat(outs, dim=2), S


def linear_attention__wrong_reads_last_state(Q, K, V, decay=None, state=None):
    """All tokens read the last state, behind the loop, so each sees the pairs of later tokens."""
    S = _start(K, V, state)
    for t in range(K.shape[2]):
        if decay is not None:
            S = S * decay[:, :, t, None, None]
        S = S + K[:, :, t].unsqueeze(-1) * V[:, :, t].unsqueeze(-2)
    return Q @ S, S


def linear_attention__wrong_state_transposed(Q, K, V, decay=None, state=None):
    """The state is built as v^T k, of shape (d_v, d_k): outputs fit, but the state that comes in or out is turned."""
    B, h, n, d_k = K.shape
    S = torch.zeros(B, h, V.shape[-1], d_k, dtype=K.dtype) if state is None else state
    outs = []
    for t in range(n):
        if decay is not None:
            S = decay[:, :, t, None, None] * S
        S = S + V[:, :, t, :, None] * K[:, :, t, None, :]
        outs.append((S @ Q[:, :, t, :, None])[..., 0])
    return torch.stack(outs, dim=2), S


def linear_attention__wrong_start_does_not_fade(Q, K, V, decay=None, state=None):
    """In the outputs the state that was handed in is read at full strength: the decays are not applied to it."""
    n = K.shape[2]
    logs = torch.zeros(K.shape[:3], dtype=K.dtype) if decay is None else decay.log()
    sums = logs.cumsum(dim=-1)
    between = sums[..., :, None] - sums[..., None, :]
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    faded = between.masked_fill(later, -torch.inf).exp()
    S = _start(K, V, state)
    out = (Q @ K.mT * faded) @ V + Q @ S
    left = (sums[..., -1:] - sums).exp()[..., None]
    return out, sums[..., -1, None, None].exp() * S + (left * K).mT @ V


def linear_attention__wrong_two_normalised_from_zero(Q, K, V, decay=None, state=None):
    """Two slips: it begins with zeros even if a state is handed in, and divides by the sum of the weights."""
    B, h, n, d_k = K.shape
    S, total = torch.zeros(B, h, d_k, V.shape[-1], dtype=K.dtype), torch.zeros(B, h, d_k, dtype=K.dtype)
    outs = []
    for t in range(n):
        fade = torch.ones(B, h, dtype=K.dtype) if decay is None else decay[:, :, t]
        S = fade[..., None, None] * S + K[:, :, t, :, None] * V[:, :, t, None, :]
        total = fade[..., None] * total + K[:, :, t]
        weight = (Q[:, :, t] * total).sum(dim=-1, keepdim=True)
        outs.append((Q[:, :, t, None, :] @ S)[:, :, 0] / weight)
    return torch.stack(outs, dim=2), S


def linear_attention__right_table(Q, K, V, decay=None, state=None):
    """No loop: a causal table of q k times the product of the decays between, by sums of logarithms."""
    n = K.shape[2]
    logs = torch.zeros(K.shape[:3], dtype=K.dtype) if decay is None else decay.log()
    sums = logs.cumsum(dim=-1)
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    faded = (sums[..., :, None] - sums[..., None, :]).masked_fill(later, -torch.inf).exp()
    out = (Q @ K.mT * faded) @ V
    last = torch.einsum("bhs,bhsk,bhsv->bhkv", faded[..., -1, :], K, V)
    if state is not None:
        out = out + sums.exp()[..., None] * (Q @ state)
        last = last + sums[..., -1:, None].exp() * state
    return out, last


def _by_halves(Q, K, V, decay, state):
    n = K.shape[2]
    if n == 1:
        S = K.mT @ V
        if state is not None:
            S = S + (state if decay is None else decay[..., None] * state)
        return Q @ S, S
    cut, outs, S = n // 2, [], state
    for part in (slice(0, cut), slice(cut, n)):
        fades = None if decay is None else decay[:, :, part]
        out, S = _by_halves(Q[:, :, part], K[:, :, part], V[:, :, part], fades, S)
        outs.append(out)
    return torch.cat(outs, dim=2), S


def linear_attention__right_halves(Q, K, V, decay=None, state=None):
    """Divide and conquer: the text is halved, and the state of the first half is handed to the second."""
    return _by_halves(Q, K, V, decay, state)


def linear_attention__right_per_head(Q, K, V, decay=None, state=None):
    """Loops over sequences, heads and tokens with plain outer products, stacked together at the end."""
    B, h, n, d_k = K.shape
    outs, ends = [], []
    for b in range(B):
        for a in range(h):
            S = torch.zeros(d_k, V.shape[-1], dtype=K.dtype) if state is None else state[b, a]
            rows = []
            for t in range(n):
                old = S if decay is None else decay[b, a, t] * S
                S = old + torch.outer(K[b, a, t], V[b, a, t])
                rows.append(Q[b, a, t] @ S)
            outs.append(torch.stack(rows))
            ends.append(S)
    return torch.stack(outs).unflatten(0, (B, h)), torch.stack(ends).unflatten(0, (B, h))


def linear_attention__right_doubling(Q, K, V, decay=None, state=None):
    """All states at once by doubling: each takes in the one 1, 2, 4, ... tokens before, with the decays between."""
    n = K.shape[2]
    S = torch.einsum("bhtk,bhtv->bhtkv", K, V)
    fade = torch.ones(K.shape[:3], dtype=K.dtype) if decay is None else decay
    step = 1
    while step < n:
        reached = S[:, :, step:] + fade[:, :, step:, None, None] * S[:, :, :-step]
        S = torch.cat([S[:, :, :step], reached], dim=2)
        fade = torch.cat([fade[:, :, :step], fade[:, :, step:] * fade[:, :, :-step]], dim=2)
        step *= 2
    if state is not None:
        S = S + fade[..., None, None] * state[:, :, None]
    return torch.einsum("bhtk,bhtkv->bhtv", Q, S), S[:, :, -1].clone()


# ---------------------------------------------------------------- latent_step


def latent_step__wrong_builds_keys(x, cache, params, n_heads):
    """Keys and values of all cached tokens are built as C W_UK and C W_UV, which the step is to avoid."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    Q = _split_heads(x @ params["W_Q"], n_heads)
    K = _split_heads(C @ params["W_UK"], n_heads)
    V = _split_heads(C @ params["W_UV"], n_heads)
    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    return _merge_heads(A @ V) @ params["W_O"], C


def latent_step__wrong_root_of_latent(x, cache, params, n_heads):
    """The scores are divided by the root of d_latent, over which the product runs, and not by that of d_head."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1))[:, 0]
    W_UK = params["W_UK"].unflatten(-1, (n_heads, -1))
    W_UV = params["W_UV"].unflatten(-1, (n_heads, -1))
    wide = torch.einsum("bhe,lhe->bhl", q, W_UK)
    A = torch.softmax(wide @ C.mT / math.sqrt(wide.shape[-1]), dim=-1)
    heads = torch.einsum("bhl,lhv->bhv", A @ C, W_UV)
    return heads.flatten(1)[:, None] @ params["W_O"], C


def latent_step__wrong_not_itself(x, cache, params, n_heads):
    """The new token attends to the old latents only; its own is put into the cache behind the attention."""
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1))[:, 0]
    W_UK = params["W_UK"].unflatten(-1, (n_heads, -1))
    W_UV = params["W_UV"].unflatten(-1, (n_heads, -1))
    wide = torch.einsum("bhe,lhe->bhl", q, W_UK)
    A = torch.softmax(wide @ cache.mT / math.sqrt(q.shape[-1]), dim=-1)
    heads = torch.einsum("bhl,lhv->bhv", A @ cache, W_UV)
    out = heads.flatten(1)[:, None] @ params["W_O"]
    return out, torch.cat([cache, x @ params["W_DKV"]], dim=1)


def latent_step__wrong_new_latent_first(x, cache, params, n_heads):
    """The new latent is put in front of the old ones, so the cache that comes back is in the wrong order."""
    C = torch.cat([x @ params["W_DKV"], cache], dim=1)
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1))[:, 0]
    W_UK = params["W_UK"].unflatten(-1, (n_heads, -1))
    W_UV = params["W_UV"].unflatten(-1, (n_heads, -1))
    wide = torch.einsum("bhe,lhe->bhl", q, W_UK)
    A = torch.softmax(wide @ C.mT / math.sqrt(q.shape[-1]), dim=-1)
    heads = torch.einsum("bhl,lhv->bhv", A @ C, W_UV)
    return heads.flatten(1)[:, None] @ params["W_O"], C


def latent_step__wrong_every_hth_column(x, cache, params, n_heads):
    """Head a takes every h-th column of W_UK and W_UV, beginning with a, and not a block of neighbouring columns."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1))[:, 0]
    W_UK = params["W_UK"].unflatten(-1, (-1, n_heads))
    W_UV = params["W_UV"].unflatten(-1, (-1, n_heads))
    wide = torch.einsum("bhe,leh->bhl", q, W_UK)
    A = torch.softmax(wide @ C.mT / math.sqrt(q.shape[-1]), dim=-1)
    heads = torch.einsum("bhl,lvh->bhv", A @ C, W_UV)
    return heads.flatten(1)[:, None] @ params["W_O"], C


def latent_step__wrong_values_by_key_weight(x, cache, params, n_heads):
    """The mixed latents are brought back with W_UK in place of W_UV; it does not fit W_O unless d_v = d_head."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1))[:, 0]
    W_UK = params["W_UK"].unflatten(-1, (n_heads, -1))
    wide = torch.einsum("bhe,lhe->bhl", q, W_UK)
    A = torch.softmax(wide @ C.mT / math.sqrt(q.shape[-1]), dim=-1)
    heads = torch.einsum("bhl,lhe->bhe", A @ C, W_UK)
    return heads.flatten(1)[:, None] @ params["W_O"], C


def latent_step__wrong_one_softmax(x, cache, params, n_heads):
    """There is no split into heads: the whole query goes into the latent at once, and all share one row of weights."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = x @ params["W_Q"]
    wide = q @ params["W_UK"].T
    A = torch.softmax(wide @ C.mT / math.sqrt(q.shape[-1] // n_heads), dim=-1)
    return A @ C @ params["W_UV"] @ params["W_O"], C


def latent_step__wrong_softmax_over_heads(x, cache, params, n_heads):
    """The softmax of the scores (B, h, t + 1) runs over the heads' axis and not over the tokens."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1))[:, 0]
    W_UK = params["W_UK"].unflatten(-1, (n_heads, -1))
    W_UV = params["W_UV"].unflatten(-1, (n_heads, -1))
    wide = torch.einsum("bhe,lhe->bhl", q, W_UK)
    A = torch.softmax(wide @ C.mT / math.sqrt(q.shape[-1]), dim=1)
    heads = torch.einsum("bhl,lhv->bhv", A @ C, W_UV)
    return heads.flatten(1)[:, None] @ params["W_O"], C


def latent_step__wrong_two_unscaled_old_cache(x, cache, params, n_heads):
    """Two slips: the scores are not divided by anything, and the cache comes back without the new latent."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1))[:, 0]
    W_UK = params["W_UK"].unflatten(-1, (n_heads, -1))
    W_UV = params["W_UV"].unflatten(-1, (n_heads, -1))
    wide = torch.einsum("bhe,lhe->bhl", q, W_UK)
    A = torch.softmax(wide @ C.mT, dim=-1)
    heads = torch.einsum("bhl,lhv->bhv", A @ C, W_UV)
    return heads.flatten(1)[:, None] @ params["W_O"], cache.clone()


def latent_step__right_einsum(x, cache, params, n_heads):
    """Everything by einsum, with the weights cut into heads as three-dimensional tensors, the token's axis kept."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    W_Q, W_UK, W_UV = (params[name].unflatten(1, (n_heads, -1)) for name in ("W_Q", "W_UK", "W_UV"))
    Q = torch.einsum("bnd,dhe->bnhe", x, W_Q) * W_Q.shape[-1] ** -0.5
    wide = torch.einsum("bnhe,lhe->bnhl", Q, W_UK)
    A = torch.einsum("bnhl,btl->bnht", wide, C).softmax(dim=-1)
    mixed = torch.einsum("bnht,btl->bnhl", A, C)
    heads = torch.einsum("bnhl,lhv->bnhv", mixed, W_UV)
    return torch.einsum("bnhv,hvd->bnd", heads, params["W_O"].unflatten(0, (n_heads, -1))), C


def latent_step__right_head_loop(x, cache, params, n_heads):
    """A loop over heads with slices of columns; each head adds its product with its own rows of W_O."""
    C = torch.cat((cache, x @ params["W_DKV"]), dim=1)
    d_head, d_v = params["W_Q"].shape[1] // n_heads, params["W_UV"].shape[1] // n_heads
    out = torch.zeros_like(x)
    for a in range(n_heads):
        own, wide = slice(a * d_head, (a + 1) * d_head), slice(a * d_v, (a + 1) * d_v)
        q = x @ params["W_Q"][:, own] @ params["W_UK"][:, own].T
        weights = (q @ C.transpose(1, 2) / math.sqrt(d_head)).softmax(dim=2)
        out = out + weights @ C @ params["W_UV"][:, wide] @ params["W_O"][wide]
    return out, C


def latent_step__right_joined_weights(x, cache, params, n_heads):
    """W_Q with W_UK and W_UV with W_O are multiplied beforehand, to one matrix per head each."""
    heads = {name: params[name].unflatten(1, (n_heads, -1)).transpose(0, 1) for name in ("W_Q", "W_UK", "W_UV")}
    look = heads["W_Q"] @ heads["W_UK"].mT / math.sqrt(heads["W_Q"].shape[-1])
    bring = heads["W_UV"] @ params["W_O"].unflatten(0, (n_heads, -1))
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    asked = torch.einsum("bd,hdl->bhl", x[:, 0], look)
    mixed = torch.softmax(torch.bmm(asked, C.mT), dim=-1).bmm(C)
    return torch.einsum("bhl,hld->bd", mixed, bring).unsqueeze(1), C


def latent_step__right_latent_loop(x, cache, params, n_heads):
    """Latents are read one after another, the new one first, with a running maximum and sum per head."""
    new = x @ params["W_DKV"]
    q = (x @ params["W_Q"]).view(x.shape[0], n_heads, -1)
    W_UK = params["W_UK"].view(-1, n_heads, q.shape[-1])
    wide = torch.einsum("bhe,lhe->bhl", q, W_UK) / math.sqrt(q.shape[-1])
    highest = (wide * new).sum(dim=-1, keepdim=True)
    total, mixed = torch.ones_like(highest), new.expand_as(wide)
    for c in cache.unbind(dim=1):
        score = (wide * c[:, None]).sum(dim=-1, keepdim=True)
        above = torch.maximum(highest, score)
        old, fresh = torch.exp(highest - above), torch.exp(score - above)
        total, mixed = old * total + fresh, old * mixed + fresh * c[:, None]
        highest = above
    values = torch.einsum("bhl,lhv->bhv", mixed / total, params["W_UV"].unflatten(1, (n_heads, -1)))
    return values.reshape(x.shape[0], 1, -1) @ params["W_O"], torch.cat([cache, new], dim=1)


# ---------------------------------------------------------------- delta_rule


def delta_rule__wrong_token_loop(Q, K, V, beta, state=None):
    """A Python loop goes over the tokens one by one, which the contract rules out."""
    S, outs = _start(K, V, state), []
    for t in range(K.shape[2]):
        k, v = K[:, :, t : t + 1], V[:, :, t : t + 1]
        S = S + beta[:, :, t, None, None] * k.mT @ (v - k @ S)
        outs.append(Q[:, :, t : t + 1] @ S)
    return torch.cat(outs, dim=2), S


def delta_rule__wrong_beta_on_columns(Q, K, V, beta, state=None):
    """In the matrix of the system beta multiplies the columns, the tokens read of, and not the writing tokens' rows."""
    n, S = K.shape[2], _start(K, V, state)
    system = torch.eye(n, dtype=K.dtype) + (K @ K.mT * beta[..., None, :]).tril(-1)
    right = beta[..., None] * (V - K @ S)
    U = torch.linalg.solve_triangular(system, right, upper=False)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_diagonal_twice(Q, K, V, beta, state=None):
    """The triangle of k k keeps its diagonal besides the identity, so each token is corrected by what it writes."""
    n, S = K.shape[2], _start(K, V, state)
    system = torch.eye(n, dtype=K.dtype) + beta[..., None] * (K @ K.mT).tril()
    U = torch.linalg.solve_triangular(system, beta[..., None] * (V - K @ S), upper=False)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_state_not_taken_off(Q, K, V, beta, state=None):
    """The right side is beta V: what the first state already says to each key is not taken off."""
    n, S = K.shape[2], _start(K, V, state)
    system = torch.eye(n, dtype=K.dtype) + beta[..., None] * (K @ K.mT).tril(-1)
    U = torch.linalg.solve_triangular(system, beta[..., None] * V, upper=False)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_only_adds(Q, K, V, beta, state=None):
    """It is linear attention with values beta V: nothing that a key already holds is taken off before writing."""
    S = _start(K, V, state)
    written = beta[..., None] * V
    return Q @ S + (Q @ K.mT).tril() @ written, S + K.mT @ written


def delta_rule__wrong_one_correction(Q, K, V, beta, state=None):
    """Each token takes off the uncorrected writes beta V of those before; the system is not solved for them."""
    S = _start(K, V, state)
    plain = beta[..., None] * (V - K @ S)
    U = plain - beta[..., None] * ((K @ K.mT).tril(-1) @ plain)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_table_of_columns(Q, K, V, beta, state=None):
    """The table in the system is K^T K, of shape (d_k, d_k), in place of K K^T, (n, n): it fits only if n = d_k."""
    n, S = K.shape[2], _start(K, V, state)
    overlap = (K.mT @ K).tril(-1)
    system = torch.eye(n, dtype=K.dtype) + beta[..., None] * overlap
    U = torch.linalg.solve_triangular(system, beta[..., None] * (V - K @ S), upper=False)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_adds_into_state(Q, K, V, beta, state=None):
    """The writes are added into the state that was handed in (+=), so the caller's tensor is changed."""
    n = K.shape[2]
    if state is None:
        state = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=K.dtype)
    system = torch.eye(n, dtype=K.dtype) + beta[..., None] * (K @ K.mT).tril(-1)
    U = torch.linalg.solve_triangular(system, beta[..., None] * (V - K @ state), upper=False)
    out = Q @ state + (Q @ K.mT).tril() @ U
    state += K.mT @ U
    return out, state


def delta_rule__wrong_two_reads_before_and_state(Q, K, V, beta, state=None):
    """Two slips: a token does not read its own write (strict triangle), and the state returned lacks the first one."""
    n, S = K.shape[2], _start(K, V, state)
    system = torch.eye(n, dtype=K.dtype) + beta[..., None] * (K @ K.mT).tril(-1)
    U = torch.linalg.solve_triangular(system, beta[..., None] * (V - K @ S), upper=False)
    return Q @ S + (Q @ K.mT).tril(-1) @ U, K.mT @ U


def delta_rule__right_keys_and_values(Q, K, V, beta, state=None):
    """The system is solved for beta V and beta K side by side; the first state enters only behind the solution."""
    d_v = V.shape[-1]
    below = torch.einsum("bht,bhtk,bhsk->bhts", beta, K, K).tril(-1)
    right = torch.cat([V, K], dim=-1) * beta[..., None]
    both = torch.linalg.solve_triangular(below, right, upper=False, unitriangular=True)
    U = both[..., :d_v]
    if state is not None:
        U = U - both[..., d_v:] @ state
    out, last = (Q @ K.mT).tril() @ U, K.mT @ U
    return (out, last) if state is None else (out + Q @ state, last + state)


def delta_rule__right_chunks(Q, K, V, beta, state=None):
    """Chunks of 16 tokens, each solved by the general solver and scaled by beta from the right, hand the state on."""
    S, outs = _start(K, V, state), []
    for q, k, v, b in zip(*(one.split(16, dim=2) for one in (Q, K, V, beta)), strict=True):
        system = torch.eye(k.shape[2], dtype=k.dtype) + (k @ k.mT).tril(-1) * b[..., None, :]
        wanted = torch.linalg.solve(system, v - k @ S)
        U = b[..., None] * wanted
        outs.append(q @ S + (q @ k.mT).tril() @ U)
        S = S + k.mT @ U
    return torch.cat(outs, dim=2), S


def delta_rule__right_doubling(Q, K, V, beta, state=None):
    """Each token is an affine map of the state, S -> A S + B; all maps are composed by doubling, and then applied."""
    n, d_k = K.shape[2:]
    keys = beta[..., None] * K
    A = torch.eye(d_k, dtype=K.dtype) - keys[..., :, None] * K[..., None, :]
    B = keys[..., :, None] * V[..., None, :]
    step = 1
    while step < n:
        A_late, B_late = A[:, :, step:], B[:, :, step:]
        B = torch.cat([B[:, :, :step], A_late @ B[:, :, :-step] + B_late], dim=2)
        A = torch.cat([A[:, :, :step], A_late @ A[:, :, :-step]], dim=2)
        step *= 2
    S = B if state is None else A @ state[:, :, None] + B
    return (Q[..., None, :] @ S)[..., 0, :], S[:, :, -1].clone()


def delta_rule__right_from_the_left(Q, K, V, beta, state=None):
    """The readers, queries and state, are solved through the transposed system; the writes never appear themselves."""
    n = K.shape[2]
    system = torch.eye(n, dtype=K.dtype) + beta[..., None] * torch.tril(K @ K.mT, -1)
    readers = torch.cat([(Q @ K.mT).tril(), K.mT], dim=2)
    shares = torch.linalg.solve_triangular(system, readers, upper=False, left=False) * beta[..., None, :]
    held = V if state is None else V - K @ state
    out, last = (shares @ held).split([n, K.shape[-1]], dim=2)
    if state is None:
        return out.clone(), last.clone()
    return out + Q @ state, last + state
