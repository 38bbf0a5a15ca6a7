"""Answers to the exercises of unit 10, attention today: four wrong ones and one right one each."""

import math

import torch
import torch.nn.functional as F


# What the notebook gives, and right answers to earlier exercises.
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
    return gamma * x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()


def _swiglu(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def _sliding_window_mask(n_new, n_total, window):
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j <= i) & (j > i - window)


# 10.1 rotate


def rotate__wrong_eighth_neighbours_in_halves_out(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Takes columns 2p and 2p + 1 as pair p, but puts the turned pairs down as two halves."""
    d = x.shape[-1]
    freqs = 1.0 / base ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = torch.outer(positions.double(), freqs)
    cos = angles.cos().to(x.dtype)
    sin = angles.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.cat((even * cos - odd * sin, odd * cos + even * sin), dim=-1)


def rotate__wrong_eighth_table_of_whole_positions(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Looks the angles up in a table with positions.long() as index: fractions of a position are cut off."""
    half = x.shape[-1] // 2
    index = positions.long()
    speed = base ** (-2 * torch.arange(half, dtype=torch.float64) / x.shape[-1])
    lowest, highest = int(index.min()), int(index.max())
    table = torch.arange(lowest, highest + 1, dtype=torch.float64)[:, None] * speed[None]
    theta = table[index - lowest]
    c, s = torch.cos(theta).to(x.dtype), torch.sin(theta).to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * c - right * s, right * c + left * s], -1)


def rotate__wrong_eighth_second_half_from_turned_first(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Overwrites the first half, then makes the second half from the overwritten first half."""
    out = x.clone()
    d = x.shape[-1]
    half = d // 2
    p = torch.arange(half, dtype=torch.float64)
    theta = positions[:, None].double() * base ** (-2 * p / d)
    cosine, sine = theta.cos().to(x.dtype), theta.sin().to(x.dtype)
    out[..., :half] = out[..., :half] * cosine - out[..., half:] * sine
    out[..., half:] = out[..., half:] * cosine + out[..., :half] * sine
    return out


def rotate__wrong_eighth_linspace_reaches_the_base(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Takes the exponents from linspace(0, 1, d/2), which ends at 1 and not at (d - 2)/d."""

    def swap(y):
        first, second = y.split(y.shape[-1] // 2, dim=-1)
        return torch.cat([-second, first], dim=-1)

    exponents = torch.linspace(0, 1, x.shape[-1] // 2, dtype=torch.float64)
    angles = positions.double().unsqueeze(-1) / base**exponents
    angles = torch.cat([angles, angles], dim=-1)
    return x * angles.cos().to(x.dtype) + swap(x) * angles.sin().to(x.dtype)


def rotate__right_eighth_complex(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Takes each pair as a complex number, multiplies by exp(i angle) in complex128, and takes the two parts apart."""
    d = x.shape[-1]
    p = torch.arange(d // 2, dtype=torch.float64)
    angles = torch.outer(positions.to(torch.float64), torch.exp(-2 * p / d * math.log(base)))
    turns = torch.polar(torch.ones_like(angles), angles)
    z = torch.complex(x[..., : d // 2].double(), x[..., d // 2 :].double()) * turns
    return torch.cat([z.real, z.imag], dim=-1).to(x.dtype)


# 10.2 rms_norm


def rms_norm__wrong_eighth_multiplies_by_the_root(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Divides by torch.rsqrt, which is one over the root already, and so multiplies by the root."""
    mean_square = torch.mean(x**2, dim=-1, keepdim=True)
    return gamma * (x / torch.rsqrt(mean_square + eps))


def rms_norm__wrong_eighth_mean_over_all_but_the_batch(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Takes the mean square over all axes but the first, so that the tokens of a text share one root."""
    axes = tuple(range(1, x.dim())) if x.dim() > 1 else (0,)
    root = (x.pow(2).mean(dim=axes, keepdim=True) + eps).sqrt()
    return x / root * gamma


def rms_norm__wrong_eighth_eps_in_the_sum(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Adds eps to the sum of the squares, before the division by d, so only eps/d is added to the mean."""
    total = (x * x).sum(-1, keepdim=True) + eps
    d = x.size(-1)
    length = total.sqrt()
    return gamma * x * math.sqrt(d) / length


def rms_norm__wrong_eighth_scales_x_in_place(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Divides with `x /= ...`, which changes the tensor that was handed in."""
    rms = torch.sqrt(x.square().mean(-1, keepdim=True) + eps)
    x /= rms
    return x * gamma


def rms_norm__right_eighth_einsum_and_power(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """Gets the mean square as an einsum of x with itself over d, and the factor as its power -1/2; gain last, by einsum."""
    d = gamma.shape[0]
    mean_square = torch.einsum("...i,...i->...", x, x) / d
    factor = (mean_square + eps) ** -0.5
    return torch.einsum("...i,...,i->...i", x, factor, gamma)


# 10.3 swiglu


def swiglu__wrong_eighth_sigmoid_of_1702_z(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Writes silu(z) as z * sigmoid(1.702 z), the gate of gpt-oss."""
    z = x @ W_gate
    opened = z * torch.sigmoid(1.702 * z)
    return (opened * (x @ W_up)) @ W_down


def swiglu__wrong_eighth_each_goes_down_first(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Multiplies gate and up by W_down one by one, and takes their product only afterwards, in d_model columns."""
    gate = torch.matmul(F.silu(torch.matmul(x, W_gate)), W_down)
    up = torch.matmul(torch.matmul(x, W_up), W_down)
    return gate * up


def swiglu__wrong_eighth_norms_x_first(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Divides x by its root mean square before the products: the norm of the block is done here, too."""
    z = _rms_norm(x, torch.ones(x.shape[-1], dtype=x.dtype))
    return (F.silu(z @ W_gate) * (z @ W_up)) @ W_down


def swiglu__wrong_eighth_sign_in_the_sigmoid(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Writes the sigmoid by hand as 1 / (1 + exp(z)), without the minus: silu becomes z * sigmoid(-z)."""

    def silu(z):
        return z / (1 + torch.exp(z))

    hidden = silu(x @ W_gate) * (x @ W_up)
    return hidden @ W_down


def swiglu__right_eighth_one_product_and_tanh(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Makes gate and up in one product with the weights side by side; the sigmoid is (1 + tanh(z/2)) / 2."""
    both = x @ torch.cat([W_gate, W_up], dim=1)
    gate, up = both.tensor_split(2, dim=-1)
    hidden = 0.5 * gate * up
    return (hidden + hidden * torch.tanh(gate / 2)) @ W_down


# 10.4 sliding_window_mask


def sliding_window_mask__wrong_eighth_lower_edge_not_shifted(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """Shifts the upper edge by n_total - n_new (tril) but not the lower one (triu), so the window begins too early."""
    everything = torch.ones(n_new, n_total, dtype=torch.bool)
    return everything.tril(n_total - n_new).triu(1 - window)


def sliding_window_mask__wrong_eighth_both_sides(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """Compares |i - j| with the window, so that a token also sees the window - 1 tokens behind it."""
    i = torch.arange(n_new).unsqueeze(1) + (n_total - n_new)
    j = torch.arange(n_total).unsqueeze(0)
    return (i - j).abs() < window


def sliding_window_mask__wrong_eighth_fixed_blocks(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """Cuts the text into fixed blocks of `window` tokens: a token sees its own block up to itself."""
    positions = torch.arange(n_total)
    block = torch.div(positions, window, rounding_mode="floor")
    same = block[:, None] == block[None, :]
    causal = positions[None, :] <= positions[:, None]
    return (same & causal)[n_total - n_new :]


def sliding_window_mask__wrong_eighth_window_of_the_last_row(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """Takes the last `window` columns of the text for all rows: the window's start does not move with the row."""
    mask = torch.zeros(n_new, n_total, dtype=torch.bool)
    start = max(0, n_total - window)
    for r in range(n_new):
        i = n_total - n_new + r
        mask[r, start : i + 1] = True
    return mask


def sliding_window_mask__right_eighth_lists(
    n_new: int, n_total: int, window: int
) -> torch.Tensor:
    """Writes each row as a slice of True between two stretches of False, and stacks the rows in a table."""
    mask = torch.full((n_new, n_total), False)
    for r in range(n_new):
        end = n_total - n_new + r + 1
        begin = end - window if end > window else 0
        mask[r, begin:end] = True
    return mask


# 10.5 modern_block


def modern_block__wrong_eighth_adds_to_the_normed(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Calls rms_norm(x) again x, so that the first residual connection adds to the normed tokens."""
    p, n = params, x.shape[1]
    x = _rms_norm(x, p["gamma_1"])
    Q = _split_heads(x @ p["W_Q"], n_heads)
    K = _split_heads(x @ p["W_K"], n_kv_heads)
    V = _split_heads(x @ p["W_V"], n_kv_heads)
    Q = _rotate(_rms_norm(Q, p["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, p["gamma_k"]), positions)
    times = n_heads // n_kv_heads
    K, V = K.repeat_interleave(times, dim=1), V.repeat_interleave(times, dim=1)
    mask = _sliding_window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    x = x + _merge_heads(A @ V) @ p["W_O"]
    return x + _swiglu(_rms_norm(x, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_eighth_root_of_d_model_over_h(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Divides the scores by the root of d_model / h, which is not d_head here."""
    B, n, d_model = x.shape
    d_head = d_model / n_heads
    z = _rms_norm(x, params["gamma_1"])
    queries = _rms_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"])
    keys = _rms_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"])
    values = _split_heads(z @ params["W_V"], n_kv_heads)
    queries, keys = _rotate(queries, positions), _rotate(keys, positions)
    queries = queries.unflatten(1, (n_kv_heads, -1))  # (B, g, h/g, n, d)
    scores = torch.einsum("bgrid,bgjd->bgrij", queries, keys) / d_head**0.5
    mask = _sliding_window_mask(n, n, window or n)
    heads = torch.einsum("bgrij,bgjd->bgrid", _masked_softmax(scores, mask), values)
    y = x + _merge_heads(heads.flatten(1, 2)) @ params["W_O"]
    z = _rms_norm(y, params["gamma_2"])
    return y + _swiglu(z, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_eighth_qk_norm_over_all_heads(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Norms queries and keys before the split, over the columns of all heads together, with the gains repeated."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    Q = _rms_norm(z @ params["W_Q"], params["gamma_q"].repeat(n_heads))
    K = _rms_norm(z @ params["W_K"], params["gamma_k"].repeat(n_kv_heads))
    Q, K, V = _split_heads(Q, n_heads), _split_heads(K, n_kv_heads), z @ params["W_V"]
    V = _split_heads(V, n_kv_heads)
    Q, K = _rotate(Q, positions), _rotate(K, positions)
    group = n_heads // n_kv_heads
    K = K.repeat_interleave(group, 1)
    V = V.repeat_interleave(group, 1)
    if window is None:
        window = n
    weights = _masked_softmax(
        Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5, _sliding_window_mask(n, n, window)
    )
    y = x + _merge_heads(weights @ V) @ params["W_O"]
    ffn = [params[name] for name in ("W_gate", "W_up", "W_down")]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), *ffn)


def modern_block__wrong_eighth_merges_by_reshape(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Merges the heads with a reshape of (B, h, n, d_head) to (B, n, h*d_head), without changing the axes back."""

    def project(name, heads):
        return _split_heads(normed @ params[name], heads)

    B, n, _ = x.shape
    normed = _rms_norm(x, params["gamma_1"])
    Q, K, V = project("W_Q", n_heads), project("W_K", n_kv_heads), project("W_V", n_kv_heads)
    Q = _rotate(_rms_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, params["gamma_k"]), positions)
    owner = torch.arange(n_heads) // (n_heads // n_kv_heads)
    scores = Q @ K[:, owner].mT / math.sqrt(Q.shape[-1])
    mask = _sliding_window_mask(n, n, window if window is not None else n)
    heads = _masked_softmax(scores, mask) @ V[:, owner]
    y = x + heads.reshape(B, n, -1) @ params["W_O"]
    return y + _swiglu(
        _rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"]
    )


def modern_block__right_eighth_token_by_token(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Head after head and token after token: each query meets a slice of the keys, so there is no mask; W_O by its rows."""
    n = x.shape[1]
    width = params["gamma_q"].shape[0]
    z = _rms_norm(x, params["gamma_1"])
    y = x
    for head in range(n_heads):
        shared = head * n_kv_heads // n_heads
        own = slice(head * width, (head + 1) * width)
        theirs = slice(shared * width, (shared + 1) * width)
        q = _rotate(_rms_norm(z @ params["W_Q"][:, own], params["gamma_q"]), positions)
        k = _rotate(_rms_norm(z @ params["W_K"][:, theirs], params["gamma_k"]), positions)
        v = z @ params["W_V"][:, theirs]
        read = []
        for i in range(n):
            first = 0 if window is None else max(0, i - window + 1)
            scores = torch.einsum("bd,bjd->bj", q[:, i], k[:, first : i + 1])
            weights = torch.softmax(scores / math.sqrt(width), dim=1)
            read.append(torch.einsum("bj,bjd->bd", weights, v[:, first : i + 1]))
        y = y + torch.stack(read, dim=1) @ params["W_O"][own]
    z = _rms_norm(y, params["gamma_2"])
    return y + _swiglu(z, params["W_gate"], params["W_up"], params["W_down"])


# 10.6 sink_attention


def sink_attention__wrong_eighth_bare_exponentials(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Writes the formula with torch.exp of the scores as they are: large scores or sinks give inf / inf."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    exps = torch.exp(scores)
    if mask is not None:
        exps = exps * mask
    below = torch.exp(sink)[None, :, None, None] + exps.sum(dim=-1, keepdim=True)
    return (exps / below) @ V


def sink_attention__wrong_eighth_maximum_not_off_the_sink(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the row's maximum off the scores, but adds exp(sink) to the denominator without taking it off there."""
    s = torch.einsum("bhid,bhjd->bhij", Q, K) * Q.size(-1) ** -0.5
    if mask is not None:
        s = s.masked_fill(~mask, torch.finfo(s.dtype).min)
    top = s.amax(dim=-1, keepdim=True)
    numerator = (s - top).exp()
    if mask is not None:
        numerator = numerator * mask
    denominator = numerator.sum(-1, keepdim=True) + sink.exp().view(1, -1, 1, 1)
    return torch.einsum("bhij,bhjd->bhid", numerator / denominator, V)


def sink_attention__wrong_eighth_masks_the_weights(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sets the weights of forbidden keys to 0 after the softmax, so their scores still stand in the denominator."""
    B, h, n, _ = Q.shape
    scores = Q @ K.transpose(2, 3) / Q.shape[3] ** 0.5
    column = sink.reshape(1, h, 1, 1).expand(B, h, n, 1)
    weights = torch.softmax(torch.cat([scores, column], dim=3), dim=3)[..., :-1]
    if mask is not None:
        weights = torch.where(mask, weights, torch.zeros_like(weights))
    return weights @ V


def sink_attention__wrong_eighth_drops_the_last_key(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Puts the sink in front of the scores, but drops the last column afterwards: each weight falls on the next value."""
    scores = Q @ K.mT / math.sqrt(K.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    with_sink = torch.cat([sink.view(-1, 1, 1) + torch.zeros_like(scores[..., :1]), scores], -1)
    with_sink = with_sink.softmax(-1)
    return with_sink[..., :-1] @ V


def sink_attention__right_eighth_share_by_sigmoid(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention without a sink, times the keys' share of the weight, sigmoid(logsumexp of the scores - sink)."""
    scores = torch.einsum("bhnd,bhmd->bhnm", Q / math.sqrt(Q.shape[-1]), K)
    if mask is not None:
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    level = torch.logsumexp(scores, dim=-1, keepdim=True)
    share = torch.sigmoid(level - sink[:, None, None])
    return share * (torch.softmax(scores, dim=-1) @ V)


# 10.7 linear_attention


def linear_attention__wrong_eighth_writes_into_the_given_state(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fades and adds with `*=` and `+=`, which changes the state that was handed in."""
    B, h, n, d_k = Q.shape
    if state is None:
        state = torch.zeros(B, h, d_k, V.shape[-1], dtype=V.dtype)
    outs = []
    for t in range(n):
        if decay is not None:
            state *= decay[:, :, t, None, None]
        state += K[:, :, t, :, None] * V[:, :, t, None, :]
        outs.append((Q[:, :, t, None, :] @ state).squeeze(2))
    return torch.stack(outs, dim=2), state


def linear_attention__wrong_eighth_moving_average(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Writes a S + (1 - a) k^T v, a moving average: the new pair is multiplied by 1 - a where there is a decay."""
    S = torch.zeros_like(K[:, :, 0, :, None] * V[:, :, 0, None, :]) if state is None else state
    rows = []
    for t, (q, k, v) in enumerate(zip(Q.unbind(2), K.unbind(2), V.unbind(2), strict=True)):
        pair = torch.einsum("bhk,bhv->bhkv", k, v)
        if decay is None:
            S = S + pair
        else:
            a = decay[:, :, t].unsqueeze(-1).unsqueeze(-1)
            S = a * S + (1 - a) * pair
        rows.append(torch.einsum("bhk,bhkv->bhv", q, S))
    return torch.stack(rows, 2), S


def linear_attention__wrong_eighth_state_as_values_by_keys(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keeps, takes and returns the state as (d_v, d_k), v k^T, the transpose of what is asked for."""
    B, h, n, _ = V.shape
    a = torch.ones(B, h, n, dtype=V.dtype) if decay is None else decay
    S = V.new_zeros(B, h, V.shape[3], K.shape[3]) if state is None else state
    out = []
    for t in range(n):
        S = a[:, :, t].view(B, h, 1, 1) * S + V[:, :, t].unsqueeze(3) @ K[:, :, t].unsqueeze(2)
        out += [S @ Q[:, :, t].unsqueeze(3)]
    return torch.cat(out, dim=3).transpose(2, 3), S


def linear_attention__wrong_eighth_last_state_does_not_fade(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Makes the outputs from a table with the decays, but returns the plain sum of state and pairs, without decay."""
    n = Q.shape[2]
    if state is None:
        state = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=K.dtype)
    logs = torch.zeros_like(K[..., 0]) if decay is None else decay.log()
    total = logs.cumsum(dim=-1)
    seen = torch.ones(n, n, dtype=torch.bool).tril()
    between = (total[..., :, None] - total[..., None, :]).masked_fill(~seen, -math.inf).exp()
    out = (Q @ K.mT * between) @ V + total.exp()[..., None] * (Q @ state)
    return out, state + K.mT @ V


def linear_attention__right_eighth_halves(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """By recursion: the first half of the text, then the second from the state of the first; one token is the formula."""
    if decay is None:
        decay = torch.ones_like(Q[..., 0])
    if state is None:
        state = torch.einsum("bhnk,bhnv->bhkv", torch.zeros_like(K), torch.zeros_like(V))

    def read(begin, end, S):
        if end - begin == 0:
            return Q[:, :, begin:end] @ S, S + 0
        if end - begin == 1:
            one = slice(begin, end)
            S = decay[:, :, one, None] * S + K[:, :, one].mT @ V[:, :, one]
            return Q[:, :, one] @ S, S
        middle = (begin + end) // 2
        early, S = read(begin, middle, S)
        late, S = read(middle, end, S)
        return torch.cat([early, late], dim=2), S

    return read(0, Q.shape[2], state)


# 10.8 latent_step


def latent_step__wrong_eighth_builds_each_heads_keys_and_values(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Builds C W_UK and C W_UV of all cached tokens, head after head, which the contract forbids."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_head = params["W_Q"].shape[1] // n_heads
    d_v = params["W_UV"].shape[1] // n_heads
    heads = []
    for a in range(n_heads):
        columns = slice(a * d_head, (a + 1) * d_head)
        q = x @ params["W_Q"][:, columns]
        keys = C @ params["W_UK"][:, columns]
        values = C @ params["W_UV"][:, a * d_v : (a + 1) * d_v]
        heads.append(torch.softmax(q @ keys.mT / math.sqrt(d_head), dim=-1) @ values)
    return torch.cat(heads, dim=-1) @ params["W_O"], C


def latent_step__wrong_eighth_new_latent_in_front(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Puts the latent of the new token in front of the cache and not behind it."""
    C = torch.cat([x @ params["W_DKV"], cache], dim=1)
    q = (x @ params["W_Q"]).squeeze(1).unflatten(-1, (n_heads, -1))
    W_UK = params["W_UK"].unflatten(-1, (n_heads, -1))
    W_UV = params["W_UV"].unflatten(-1, (n_heads, -1))
    moved = torch.einsum("bhd,lhd->bhl", q, W_UK)
    weights = torch.softmax(moved @ C.mT / math.sqrt(q.shape[-1]), dim=-1)
    mixed = weights @ C
    heads = torch.einsum("bhl,lhv->bhv", mixed, W_UV)
    return heads.flatten(1).unsqueeze(1) @ params["W_O"], C


def latent_step__wrong_eighth_weights_viewed_as_heads_first(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reshapes W_UK and W_UV straight to (h, d_latent, width), which cuts rows and not blocks of columns."""
    B = x.shape[0]
    d_latent = cache.shape[-1]
    C = torch.cat((cache, x @ params["W_DKV"]), 1)
    Q = (x @ params["W_Q"]).reshape(B, n_heads, 1, -1)
    up_k = params["W_UK"].reshape(n_heads, d_latent, -1)
    up_v = params["W_UV"].reshape(n_heads, d_latent, -1)
    latent_q = (Q @ up_k.mT).squeeze(2)
    scores = latent_q @ C.mT / Q.shape[-1] ** 0.5
    context = scores.softmax(-1) @ C
    out = (context.unsqueeze(2) @ up_v).reshape(B, 1, -1)
    return out @ params["W_O"], C


def latent_step__wrong_eighth_softmax_over_heads(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Has the scores as (B, t + 1, h), tokens first, and takes the softmax over the last axis, the heads."""
    d_latent, total = params["W_UK"].shape
    d_head = total // n_heads
    C = torch.cat([cache, torch.einsum("bod,dl->bol", x, params["W_DKV"])], dim=1)
    q = torch.einsum("bod,dk->bk", x, params["W_Q"]).view(-1, n_heads, d_head)
    q = torch.einsum("bhk,lhk->blh", q, params["W_UK"].view(d_latent, n_heads, d_head))
    A = torch.softmax(torch.bmm(C, q) / math.sqrt(d_head), dim=-1)
    mixed = torch.bmm(A.mT, C)
    W_UV = params["W_UV"].view(d_latent, n_heads, -1)
    heads = torch.einsum("bhl,lhv->bhv", mixed, W_UV).reshape(x.shape[0], 1, -1)
    return heads @ params["W_O"], C


def latent_step__right_eighth_circuits(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Head after head as one matrix where to look, W_Q W_UK^T, and one what to bring, W_UV W_O, both applied to latents."""
    longer = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    looks = zip(params["W_Q"].chunk(n_heads, 1), params["W_UK"].chunk(n_heads, 1), strict=True)
    brings = zip(params["W_UV"].chunk(n_heads, 1), params["W_O"].chunk(n_heads, 0), strict=True)
    out = torch.zeros_like(x)
    for (to_query, to_key), (to_value, to_out) in zip(looks, brings, strict=True):
        asked = x @ (to_query @ to_key.T)
        scores = torch.bmm(longer, asked.mT) / to_query.shape[1] ** 0.5
        mixed = torch.bmm(torch.softmax(scores, dim=1).mT, longer)
        out = out + mixed @ (to_value @ to_out)
    return out, longer


# 10.9 delta_rule


def delta_rule__wrong_eighth_loops_over_tokens(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Goes token after token in a Python loop, as delta_by_steps does, which the contract forbids."""
    B, h, n, d_k = K.shape
    S = torch.zeros(B, h, d_k, V.shape[-1], dtype=V.dtype) if state is None else state
    out = []
    for t in range(n):
        k, v, b = K[:, :, t : t + 1], V[:, :, t : t + 1], beta[:, :, t, None, None]
        S = S + b * k.mT @ (v - k @ S)
        out.append(Q[:, :, t : t + 1] @ S)
    return torch.cat(out, dim=2), S


def delta_rule__wrong_eighth_beta_on_the_columns(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Multiplies column s of the system by beta_s, and not row t by beta_t."""
    if state is None:
        state = torch.zeros(*K.shape[:2], K.shape[3], V.shape[3], dtype=K.dtype)
    A = torch.tril(K @ K.transpose(-1, -2), diagonal=-1) * beta.unsqueeze(-2)
    right_side = beta.unsqueeze(-1) * (V - K @ state)
    U = torch.linalg.solve_triangular(
        A + torch.eye(K.shape[2], dtype=K.dtype), right_side, upper=False
    )
    out = Q @ state + torch.tril(Q @ K.transpose(-1, -2)) @ U
    return out, state + K.transpose(-1, -2) @ U


def delta_rule__wrong_eighth_one_correction_only(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes I - A for the inverse of I + A: corrected once by what the others write, exact for two tokens only."""
    first = K.new_zeros(K.shape[0], K.shape[1], K.shape[3], V.shape[3]) if state is None else state
    alone = beta[..., None] * (V - K @ first)
    overlap = (K @ K.mT).tril(-1)
    written = alone - beta[..., None] * (overlap @ alone)
    out, last = Q @ first + (Q @ K.mT).tril() @ written, first + K.mT @ written
    return out, last


def delta_rule__wrong_eighth_diagonal_twice(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keeps the diagonal of K K^T in the system, beside that of the identity: a token corrects itself as well."""
    n, b = K.shape[2], beta.unsqueeze(-1)
    S = 0 * K[:, :, :1].mT @ V[:, :, :1] if state is None else state
    overlaps = torch.einsum("bhtk,bhsk->bhts", K, K)
    system = torch.eye(n, dtype=K.dtype) + b * overlaps.tril()
    U = torch.linalg.solve(system, b * (V - K @ S))
    reads = torch.einsum("bhtk,bhsk->bhts", Q, K).tril()
    return Q @ S + reads @ U, S + torch.einsum("bhsk,bhsv->bhkv", K, U)


def delta_rule__right_eighth_chunks_and_squares(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Chunks of 8 tokens; in each the inverse of I + A is the product (I - A)(I + A^2)(I + A^4), as A^8 is 0."""
    if state is None:
        state = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=K.dtype)
    pieces = []
    parts = (x.split(8, dim=2) for x in (Q, K, V, beta[..., None]))
    for q, k, v, b in zip(*parts, strict=True):
        A = (b * (k @ k.mT)).tril(-1)
        u = b * (v - k @ state)
        u = u - A @ u
        square = A @ A
        u = u + square @ u
        u = u + square @ (square @ u)
        pieces.append(q @ state + (q @ k.mT).tril() @ u)
        state = state + k.mT @ u
    return torch.cat(pieces, dim=2), state
