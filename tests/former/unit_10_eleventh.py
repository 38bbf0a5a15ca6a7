"""Unit 10: answers to the exercises on attention today, wrong ones and right ones, as students might write them."""

import math

import torch
import torch.nn.functional as F


def _split_heads(X, n_heads):
    """(B, n, h*d) -> (B, h, n, d)."""
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _merge_heads(X):
    """(B, h, n, d) -> (B, n, h*d)."""
    return X.transpose(1, 2).flatten(2)


def _masked_softmax(scores, mask=None):
    """Softmax over the last axis, among the allowed keys."""
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


def _window_mask(n_new, n_total, window):
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j <= i) & (j > i - window)


# ------- 10.1 rotate
def rotate__wrong_eleventh_only_distances_matter(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Counts the positions from the first of them, so a row behind a cache is turned as if it stood at 0."""
    d = x.shape[-1]
    p = torch.arange(d // 2, dtype=torch.float64)
    steps = (positions - positions[0]).double()
    theta = torch.outer(steps, base ** (-2 * p / d))
    c, s = torch.cos(theta).to(x.dtype), torch.sin(theta).to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * c - right * s, left * s + right * c), dim=-1)


def rotate__wrong_eleventh_first_half_already_turned(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """The second half is turned with the first half as it is after the turn."""
    d = x.shape[-1]
    half = d // 2
    angles = positions.double()[:, None] * base ** (-2 * torch.arange(half).double() / d)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    first = first * cos - second * sin
    second = first * sin + second * cos
    return torch.cat([first, second], dim=-1)


def rotate__wrong_eleventh_row_of_a_table(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Looks the angles up in a table by whole position, so fractions are cut off and negative ones wrap around."""
    d = x.shape[-1]
    index = positions.long()
    speeds = torch.tensor([base ** (-2 * p / d) for p in range(d // 2)], dtype=torch.float64)
    table = torch.arange(int(index.abs().max()) + 1)[:, None] * speeds
    turn = torch.cat([table, table], dim=-1)[index]
    swapped = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1)
    return x * turn.cos().to(x.dtype) + swapped * turn.sin().to(x.dtype)


def rotate__wrong_eleventh_always_four_axes(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """The table of angles has four axes, so an x of fewer axes comes back with axes of size 1 in front."""
    d = x.size(-1)
    speeds = torch.pow(torch.tensor(base, dtype=torch.float64), torch.arange(0, d, 2, dtype=torch.float64) / -d)
    angles = torch.einsum("n,p->np", positions.double(), speeds)[None, None]
    cos, sin = (f(angles).to(x.dtype) for f in (torch.cos, torch.sin))
    top, low = x.split(d // 2, dim=-1)
    return torch.cat([top * cos - low * sin, low * cos + top * sin], dim=-1)


def rotate__right_eleventh_complex_numbers(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """Each pair is a complex number with its halves as real and imaginary part, times one of size 1."""
    half = x.shape[-1] // 2
    p = torch.arange(half, dtype=torch.float64, device=x.device)
    angles = torch.outer(positions.to(torch.float64), base ** (-p / half))
    turn = torch.complex(angles.cos().to(x.dtype), angles.sin().to(x.dtype))
    z = torch.complex(x[..., :half], x[..., half:]) * turn
    return torch.cat([z.real, z.imag], dim=-1)


# ------- 10.2 rms_norm
def rms_norm__wrong_eleventh_hypotenuse(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Adds the square of eps to the mean square, by a hypotenuse of root and eps."""
    root = x.norm(dim=-1, keepdim=True) / math.sqrt(x.shape[-1])
    size = torch.hypot(root, torch.full_like(root, eps))
    return gamma * (x / size)


def rms_norm__wrong_eleventh_mean_over_the_sequence(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """The mean runs over all axes but the first, so tokens of a sequence share it where x has three axes or more."""
    axes = tuple(range(1, x.dim())) or (0,)
    mean_square = torch.mean(x * x, dim=axes, keepdim=True)
    return x * torch.rsqrt(mean_square + eps) * gamma


def rms_norm__wrong_eleventh_root_as_a_constant(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """The root is computed without gradients, so the gradient for x is wrong."""
    with torch.no_grad():
        inverse = (x.pow(2).mean(dim=-1, keepdim=True) + eps).pow(-0.5)
    return x * inverse * gamma


def rms_norm__wrong_eleventh_one_number_less(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Divides the sum of squares by d - 1, as for an unbiased variance, and not by d."""
    d = x.shape[-1]
    total = torch.einsum("...d,...d->...", x, x)
    scale = 1 / torch.sqrt(total / max(d - 1, 1) + eps)
    return torch.einsum("...d,...,d->...d", x, scale, gamma)


def rms_norm__right_eleventh_dot_product(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """The sum of squares as a product of a row with itself as a column; the inverse root as a power."""
    squares = (x.unsqueeze(-2) @ x.unsqueeze(-1)).squeeze(-1)
    return x * gamma * torch.pow(squares / gamma.numel() + eps, -0.5)


# ------- 10.3 swiglu
def swiglu__wrong_eleventh_faster_sigmoid(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """The sigmoid gets 1.702 z, which is an approximation of gelu and not silu."""
    gate, up = (torch.matmul(x, W) for W in (W_gate, W_up))
    opened = gate * torch.sigmoid(1.702 * gate)
    return torch.matmul(opened * up, W_down)


def swiglu__wrong_eleventh_quotient_that_overflows(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """The sigmoid is exp(z) / (1 + exp(z)), which is infinite over infinite for large z."""
    z = x @ W_gate
    power = torch.exp(z)
    silu = z * power / (1 + power)
    return (silu * (x @ W_up)) @ W_down


def swiglu__wrong_eleventh_tokens_by_view(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Lays all tokens in one axis by view, which fails for an x that is not contiguous."""
    tokens = x.view(-1, x.shape[-1])
    hidden = F.silu(tokens.mm(W_gate)).mul(tokens.mm(W_up))
    return hidden.mm(W_down).view(x.shape)


def swiglu__wrong_eleventh_columns_in_turn(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """Both weights are joined with their columns in turn but cut apart as halves."""
    both = torch.stack([W_gate, W_up], dim=-1).flatten(1)
    gate, up = (x @ both).chunk(2, dim=-1)
    return F.silu(gate) * up @ W_down


def swiglu__right_eleventh_logsigmoid(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """One product with both weights side by side; the sigmoid as the exponential of logsigmoid."""
    both = F.linear(x, torch.cat([W_gate.T, W_up.T]))
    gate, up = both.split(W_gate.shape[1], dim=-1)
    open_share = torch.exp(F.logsigmoid(gate))
    return torch.einsum("...f,...f,...f,fd->...d", gate, open_share, up, W_down)


# ------- 10.4 sliding_window_mask
def sliding_window_mask__wrong_eleventh_chunks(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Cuts the text into fixed chunks of `window` tokens; a token sees only what came before in its chunk."""
    places = torch.arange(n_total)
    queries = places[n_total - n_new :, None]
    same = queries // window == places // window
    return same & (places <= queries)


def sliding_window_mask__wrong_eleventh_lower_border_by_row(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """The lower border is counted from the row's number, without the tokens in the cache."""
    ones = torch.ones(n_new, n_total, dtype=torch.bool)
    past = ones.tril(diagonal=n_total - n_new)
    too_old = ones.tril(diagonal=-window)
    return past & ~too_old


def sliding_window_mask__wrong_eleventh_slice_below_zero(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Slices from i - window + 1, which counts from the end where it is negative."""
    mask = torch.zeros(n_new, n_total, dtype=torch.bool)
    for r in range(n_new):
        i = n_total - n_new + r
        mask[r, i - window + 1 : i + 1] = True
    return mask


def sliding_window_mask__wrong_eleventh_zeros_and_ones(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """Returns whole numbers 0 and 1, not booleans, on which ~ and masked_fill do something else or fail."""
    rows = []
    for i in range(n_total - n_new, n_total):
        rows.append([int(i - window < j <= i) for j in range(n_total)])
    return torch.tensor(rows).reshape(n_new, n_total)


def sliding_window_mask__right_eleventh_clamped_distance(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """A pair is allowed where clamping its distance to 0 ... window - 1 changes nothing."""
    here = torch.arange(n_new).unsqueeze(1) + (n_total - n_new)
    distance = here - torch.arange(n_total)
    return distance.clamp(min=0, max=window - 1).eq(distance)


# ------- 10.5 modern_block
def modern_block__wrong_eleventh_norm_of_all_heads(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Norms queries and keys before the split: one mean square for all heads and not one for each."""
    p, n = params, x.shape[1]
    z = _rms_norm(x, p["gamma_1"])
    Q = _rms_norm(z @ p["W_Q"], p["gamma_q"].repeat(n_heads))
    K = _rms_norm(z @ p["W_K"], p["gamma_k"].repeat(n_kv_heads))
    Q = _rotate(_split_heads(Q, n_heads), positions)
    K = _rotate(_split_heads(K, n_kv_heads), positions)
    V = _split_heads(z @ p["W_V"], n_kv_heads)
    K, V = (one.repeat_interleave(n_heads // n_kv_heads, dim=1) for one in (K, V))
    mask = _window_mask(n, n, window or n).to(x.device)
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + _merge_heads(weights @ V) @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_eleventh_ffn_added_to_x(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """The second residual connection starts from x again, so what attention brought is lost but for the FFN."""

    def heads(name, count):
        return _split_heads(_rms_norm(x, params["gamma_1"]) @ params[name], count)

    def turned(name, count, gain):
        return _rotate(_rms_norm(heads(name, count), params[gain]), positions)

    n, share = x.size(1), n_heads // n_kv_heads
    queries = turned("W_Q", n_heads, "gamma_q")
    keys = turned("W_K", n_kv_heads, "gamma_k").repeat_interleave(share, 1)
    values = heads("W_V", n_kv_heads).repeat_interleave(share, 1)
    scores = torch.einsum("bhid,bhjd->bhij", queries, keys) * queries.shape[-1] ** -0.5
    allowed = _window_mask(n, n, n if window is None else window).to(x.device)
    mixed = torch.einsum("bhij,bhjd->bhid", _masked_softmax(scores, allowed), values)
    y = x + _merge_heads(mixed) @ params["W_O"]
    ffn = _swiglu(_rms_norm(y, params["gamma_2"]), *(params[w] for w in ("W_gate", "W_up", "W_down")))
    return x + ffn


def modern_block__wrong_eleventh_width_from_the_model(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Takes d_model / h for the width of a head under the root; d_head may be another number."""
    B, n, d_model = x.shape
    p = params
    z = _rms_norm(x, p["gamma_1"])
    Q, K, V = (
        _split_heads(z @ p[name], count)
        for name, count in (("W_Q", n_heads), ("W_K", n_kv_heads), ("W_V", n_kv_heads))
    )
    Q = _rotate(_rms_norm(Q, p["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, p["gamma_k"]), positions)
    mask = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
    if window is not None:
        mask = mask.triu(1 - window)
    group = n_heads // n_kv_heads
    outs = []
    for a in range(n_heads):
        scores = Q[:, a] @ K[:, a // group].mT / math.sqrt(d_model / n_heads)
        outs.append(_masked_softmax(scores, mask) @ V[:, a // group])
    y = x + torch.cat(outs, dim=-1) @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_eleventh_weights_widened_in_params(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Writes key and value weights widened to all heads into the caller's params, which a second call then misreads."""
    p = params
    for name in ("W_K", "W_V"):
        blocks = p[name].unflatten(1, (n_kv_heads, -1))
        p[name] = blocks.repeat_interleave(n_heads // n_kv_heads, dim=1).flatten(1)
    z = _rms_norm(x, p["gamma_1"])
    Q, K, V = (_split_heads(z @ p[name], n_heads) for name in ("W_Q", "W_K", "W_V"))
    Q = _rotate(_rms_norm(Q, p["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, p["gamma_k"]), positions)
    n = x.shape[1]
    mask = _window_mask(n, n, window if window else n).to(x.device)
    heads = _masked_softmax(Q @ K.mT / Q.shape[-1] ** 0.5, mask) @ V
    y = x + _merge_heads(heads) @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__right_eleventh_groups_as_an_axis(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """The heads of a group get an axis of their own, so nothing is repeated; W_O is applied head by head."""
    B, n, _ = x.shape
    share = n_heads // n_kv_heads
    z = _rms_norm(x, params["gamma_1"])
    Q = (z @ params["W_Q"]).unflatten(-1, (n_kv_heads, share, -1))  # B n g s d
    K = (z @ params["W_K"]).unflatten(-1, (n_kv_heads, -1))  # B n g d
    V = (z @ params["W_V"]).unflatten(-1, (n_kv_heads, -1))
    Q = _rotate(_rms_norm(Q, params["gamma_q"]).permute(0, 2, 3, 1, 4), positions)
    K = _rotate(_rms_norm(K, params["gamma_k"]).transpose(1, 2), positions)
    scores = torch.einsum("bgsid,bgjd->bgsij", Q, K) / math.sqrt(Q.shape[-1])
    steps = torch.arange(n, device=x.device)
    back = steps[:, None] - steps
    hidden = (back < 0) | (back >= (n if window is None else window))
    weights = torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)
    W_O = params["W_O"].unflatten(0, (n_kv_heads, share, -1))
    y = x + torch.einsum("bgsij,bjgd,gsdm->bim", weights, V, W_O)
    t = _rms_norm(y, params["gamma_2"])
    return y + (F.silu(t @ params["W_gate"]) * (t @ params["W_up"])) @ params["W_down"]


# ------- 10.6 sink_attention
def sink_attention__wrong_eleventh_sink_on_the_first_key(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds exp(sink) to the first key's share, value included, as if the sink were the first token."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    first = torch.logaddexp(scores[..., :1], sink[:, None, None])
    scores = torch.cat([first, scores[..., 1:]], dim=-1)
    return _masked_softmax(scores, mask) @ V


def sink_attention__wrong_eleventh_drops_the_wrong_column(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The sink's column is put last, but the first column is dropped behind the softmax."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) * Q.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
    column = sink.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
    weights = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)
    return torch.einsum("bhij,bhjv->bhiv", weights[..., 1:], V)


def sink_attention__wrong_eleventh_mask_with_a_column(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Gives the mask a column for the sink without broadcasting it first: one that is 1 wide no longer fits."""
    B, h, n, d = Q.shape
    scores = torch.cat([Q @ K.mT / d**0.5, sink.view(h, 1, 1).expand(B, h, n, 1)], dim=-1)
    if mask is not None:
        free = torch.ones_like(mask[..., :1])
        mask = torch.cat([mask, free], dim=-1)
    weights = _masked_softmax(scores, mask)
    return weights[..., :-1] @ V


def sink_attention__wrong_eleventh_share_from_plain_sums(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Shrinks an ordinary result by l / (l + exp(sink)) with exponentials that overflow for large scores."""
    scores = torch.matmul(Q, K.transpose(-1, -2)) / math.sqrt(K.shape[-1])
    powers = scores.exp()
    if mask is not None:
        powers = powers * mask
    total = powers.sum(dim=-1, keepdim=True)
    share = total / (total + sink.exp()[:, None, None])
    return share * (_masked_softmax(scores, mask) @ V)


def sink_attention__right_eleventh_denominator_by_hand(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Numerator and denominator by hand, both measured against the larger of the sink and the largest score."""
    own = sink[:, None, None]
    scores = torch.einsum("bhid,bhjd->bhij", Q / Q.shape[-1] ** 0.5, K)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    top = torch.maximum(scores.amax(dim=-1, keepdim=True), own)
    terms = torch.exp(scores - top)
    below = terms.sum(dim=-1, keepdim=True) + torch.exp(own - top)
    return torch.einsum("bhij,bhjv->bhiv", terms, V) / below


# ------- 10.7 linear_attention
def linear_attention__wrong_eleventh_moving_average(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The new pair is weighted with 1 - a, as in a moving average, where it should come in full."""
    S = Q.new_zeros(*K.shape[:2], K.shape[3], V.shape[3]) if state is None else state
    rows = []
    for t in range(Q.shape[2]):
        pair = torch.einsum("bhk,bhv->bhkv", K[:, :, t], V[:, :, t])
        if decay is None:
            S = S + pair
        else:
            a = decay[:, :, t, None, None]
            S = a * S + (1 - a) * pair
        rows.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S))
    return torch.stack(rows, dim=2), S


def linear_attention__wrong_eleventh_decay_of_the_token_before(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fades with the decay of the token before, and at the first token with that of the last."""
    B, h, n, d_k = K.shape
    S = torch.zeros(B, h, d_k, V.shape[-1], dtype=Q.dtype, device=Q.device)
    if state is not None:
        S = S + state
    if decay is None:
        decay = torch.ones(B, h, n, dtype=Q.dtype, device=Q.device)
    out = []
    for t in range(n):
        S = decay[:, :, t - 1].reshape(B, h, 1, 1) * S
        S = S + K[:, :, t].unsqueeze(-1) @ V[:, :, t].unsqueeze(-2)
        out.append(Q[:, :, t].unsqueeze(-2) @ S)
    return torch.cat(out, dim=2), S


def linear_attention__wrong_eleventh_quotient_of_products(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Divides the keys by the running product of the decays, which becomes 0 in a long text."""
    B, h, n, d_k = K.shape
    start = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    faded = torch.ones_like(K[..., :1]) if decay is None else decay.cumprod(dim=-1).unsqueeze(-1)
    queries, keys = Q * faded, K / faded
    out = (queries @ keys.mT).tril() @ V + queries @ start
    last = faded[:, :, -1:] * (start + keys.mT @ V)
    return out, last


def linear_attention__wrong_eleventh_state_written_over(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fades and writes in the state that was handed in, so the caller's tensor is changed."""
    if state is None:
        state = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=K.dtype, device=K.device)
    seen = []
    for t, (q, k, v) in enumerate(zip(*(x.unbind(dim=2) for x in (Q, K, V)), strict=True)):
        if decay is not None:
            state *= decay[:, :, t, None, None]
        state += k[..., :, None] * v[..., None, :]
        seen.append((q[..., None] * state).sum(dim=-2))
    return torch.stack(seen, dim=2), state


def linear_attention__right_eleventh_doubling_scan(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """All states at once by a scan that doubles its reach: each span of tokens is a factor and a sum."""
    B, h, n, d_k = K.shape
    start = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    sums = torch.einsum("bhtk,bhtv->bhtkv", K, V)
    factors = (K.new_ones(B, h, n) if decay is None else decay)[..., None, None]
    reach = 1
    while reach < n:
        ahead_sums = sums[:, :, reach:] + factors[:, :, reach:] * sums[:, :, :-reach]
        ahead_factors = factors[:, :, reach:] * factors[:, :, :-reach]
        sums = torch.cat([sums[:, :, :reach], ahead_sums], dim=2)
        factors = torch.cat([factors[:, :, :reach], ahead_factors], dim=2)
        reach *= 2
    states = torch.cat([start[:, :, None], sums + factors * start[:, :, None]], dim=2)
    return torch.einsum("bhtk,bhtkv->bhtv", Q, states[:, :, 1:]), states[:, :, -1].clone()


# ------- 10.8 latent_step
def latent_step__wrong_eleventh_one_query_for_all_heads(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Moves the queries of all heads into the latent at once, so their scores are added and all heads agree."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_head = params["W_Q"].shape[1] // n_heads
    query = x @ params["W_Q"] @ params["W_UK"].T
    weights = torch.softmax(query @ C.mT / math.sqrt(d_head), dim=-1)
    mixed = weights @ C
    return mixed @ params["W_UV"] @ params["W_O"], C


def latent_step__wrong_eleventh_weights_cut_by_rows(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reshapes W_UK straight to (h, d_latent, d_head), so a head gets rows in place of its block of columns."""
    B, d_latent = x.shape[0], cache.shape[-1]
    longer = torch.cat((cache, x @ params["W_DKV"]), dim=1)
    q = (x @ params["W_Q"]).reshape(B, n_heads, -1)
    W_UK = params["W_UK"].reshape(n_heads, d_latent, -1)
    W_UV = params["W_UV"].reshape(d_latent, n_heads, -1)
    absorbed = torch.einsum("bhd,hld->bhl", q, W_UK)
    scores = torch.einsum("bhl,btl->bht", absorbed, longer) / q.shape[-1] ** 0.5
    latent = torch.einsum("bht,btl->bhl", torch.softmax(scores, dim=-1), longer)
    heads = torch.einsum("bhl,lhv->bhv", latent, W_UV)
    return heads.reshape(B, 1, -1) @ params["W_O"], longer


def latent_step__wrong_eleventh_one_maximum_for_all(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Subtracts the largest score of all heads and sequences, so a head far below it becomes 0/0."""
    new = torch.matmul(x, params["W_DKV"])
    C = torch.cat([cache, new], dim=1)
    Q = _split_heads(x @ params["W_Q"], n_heads)[:, :, 0]  # (B, h, d_head)
    up_k = params["W_UK"].unflatten(1, (n_heads, -1)).permute(1, 2, 0)  # (h, d_head, d_latent)
    up_v = params["W_UV"].unflatten(1, (n_heads, -1)).transpose(0, 1)  # (h, d_latent, d_v)
    wide = torch.einsum("bhd,hdl->bhl", Q, up_k) / math.sqrt(Q.shape[-1])
    scores = wide @ C.mT
    powers = torch.exp(scores - scores.max())
    read = powers @ C / powers.sum(dim=-1, keepdim=True)
    out = torch.einsum("bhl,hlv->bhv", read, up_v).flatten(1) @ params["W_O"]
    return out[:, None], C


def latent_step__wrong_eleventh_keys_head_by_head(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Builds keys and values of all cached tokens, if only of one head at a time."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    parts = zip(*(params[name].chunk(n_heads, dim=1) for name in ("W_Q", "W_UK", "W_UV")), strict=True)
    heads = []
    for W_Q, W_UK, W_UV in parts:
        query, keys, values = x @ W_Q, C @ W_UK, C @ W_UV
        weights = torch.softmax(query @ keys.mT / math.sqrt(W_Q.shape[1]), dim=-1)
        heads.append(weights @ values)
    return torch.cat(heads, dim=-1) @ params["W_O"], C


def latent_step__right_eleventh_sum_over_heads(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Head by head with columns: W_UK times the query meets the latents; each head's share of W_O is added up."""
    longer = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    columns = [params[name].chunk(n_heads, dim=1) for name in ("W_Q", "W_UK", "W_UV")]
    out = torch.zeros_like(x)
    for W_Q, W_UK, W_UV, W_O in zip(*columns, params["W_O"].chunk(n_heads, dim=0), strict=True):
        column = W_UK @ (x @ W_Q).mT  # (B, d_latent, 1)
        weights = torch.softmax(longer @ column / math.sqrt(W_Q.shape[1]), dim=1)
        out = out + ((longer.mT @ weights).mT @ W_UV) @ W_O
    return out, longer


# ------- 10.9 delta_rule
def delta_rule__wrong_eleventh_error_read_by_the_query(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes off what the state gives for the query, where it should be what it holds for the key."""
    B, h, n, d_k = K.shape
    S = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    table = Q @ K.mT
    b = beta[..., None]
    system = torch.eye(n, dtype=K.dtype, device=K.device) + b * table.tril(-1)
    written = torch.linalg.solve_triangular(system, b * (V - Q @ S), upper=False)
    return Q @ S + table.tril() @ written, S + K.mT @ written


def delta_rule__wrong_eleventh_beta_of_the_column(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """In the system beta multiplies the columns, the earlier token, and not the row of the token that writes."""
    n = K.shape[2]
    start = torch.zeros(*K.shape[:2], K.shape[3], V.shape[3], dtype=K.dtype, device=K.device)
    if state is not None:
        start = start + state
    likeness = torch.einsum("bhtk,bhsk->bhts", K, K)
    lower = torch.tril(likeness * beta.unsqueeze(-2), diagonal=-1)
    inverse = torch.linalg.inv(torch.eye(n, dtype=K.dtype, device=K.device) + lower)
    wanted = (V - torch.einsum("bhtk,bhkv->bhtv", K, start)) * beta.unsqueeze(-1)
    u = inverse @ wanted
    read = torch.einsum("bhtk,bhsk->bhts", Q, K).tril()
    return Q @ start + read @ u, start + torch.einsum("bhtk,bhtv->bhkv", K, u)


def delta_rule__wrong_eleventh_series_cut_short(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Solves the system by a product of powers with four factors, which is exact for up to 16 tokens only."""
    if state is None:
        state = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=K.dtype, device=K.device)
    power = -(beta[..., None] * (K @ K.mT)).tril(-1)
    u = beta[..., None] * (V - K @ state)
    for _ in range(4):
        u = u + power @ u
        power = power @ power
    out = Q @ state + torch.tril(Q @ K.mT) @ u
    return out, state + K.mT @ u


def delta_rule__wrong_eleventh_state_written_over(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Adds what was written to the state that was handed in, so the caller's tensor is changed."""
    B, h, n, d_k = Q.shape
    S = state if state is not None else V.new_zeros(B, h, d_k, V.shape[-1])
    A = (K * beta.unsqueeze(-1)) @ K.transpose(-1, -2)
    right = beta.unsqueeze(-1) * (V - K @ S)
    u = torch.linalg.solve_triangular(A.tril(-1), right, upper=False, unitriangular=True)
    out = Q @ S + (Q @ K.transpose(-1, -2)).tril() @ u
    S += K.transpose(-1, -2) @ u
    return out, S


def delta_rule__right_eleventh_chunks_of_thirty_two(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """In chunks of 32: one solve for keys and values side by side, before the chunk's state is known."""
    B, h, n, d_k = K.shape
    d_v = V.shape[-1]
    S = K.new_zeros(B, h, d_k, d_v) if state is None else state.clone()
    pieces = []
    for first in range(0, n, 32):
        q, k, v, b = (x[:, :, first : first + 32] for x in (Q, K, V, beta))
        b = b[..., None]
        system = (b * k) @ k.mT
        both = torch.linalg.solve_triangular(
            system.tril(-1), b * torch.cat([v, k], dim=-1), upper=False, unitriangular=True
        )
        fresh, erased = both.split([d_v, d_k], dim=-1)
        u = fresh - erased @ S
        pieces.append(q @ S + (q @ k.mT).tril() @ u)
        S = S + k.mT @ u
    out = torch.cat(pieces, dim=2) if pieces else V.new_zeros(B, h, 0, d_v)
    return out, S
