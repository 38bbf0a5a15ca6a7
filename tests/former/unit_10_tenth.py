"""Unit 10, attention today: four wrong answers and one right answer to each exercise, as students would write them."""

import math

import torch
import torch.nn.functional as F


# Right versions of earlier functions, which the notebook lets one use.
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
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def _rms_norm(x, gamma, eps=1e-6):
    return gamma * x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)


def _swiglu(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def _sliding_window_mask(n_new, n_total, window):
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j <= i) & (j > i - window)


# ------- 10.1 rotate
def rotate__wrong_tenth_counts_from_the_first_row(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """The first position is subtracted from all positions, as if only distances within one tensor mattered."""
    d = x.shape[-1]
    steps = positions.to(torch.float64)
    steps = steps - steps[0]  # only distances count, and small angles are exact
    speeds = torch.exp(-math.log(base) * torch.arange(0, d, 2, dtype=torch.float64) / d)
    turn = torch.polar(torch.ones(len(steps), d // 2, dtype=torch.float64), torch.outer(steps, speeds))
    left, right = x.chunk(2, dim=-1)
    turned = torch.complex(left.double(), right.double()) * turn
    return torch.cat([turned.real, turned.imag], dim=-1).to(x.dtype)


def rotate__wrong_tenth_second_half_reads_new_first(x, positions, base=10000.0):
    """The second half is worked out from the first half as already turned, and not from the one before the turn."""
    half = x.shape[-1] // 2
    freq = 1.0 / base ** (torch.arange(half).double() * 2 / x.shape[-1])
    theta = torch.einsum("n,p->np", positions.double(), freq)
    c = torch.cos(theta).to(x.dtype)
    s = torch.sin(theta).to(x.dtype)
    a, b = torch.split(x, half, dim=-1)
    a = a * c - b * s
    b = b * c + a * s
    return torch.cat((a, b), dim=-1)


def rotate__wrong_tenth_table_with_whole_positions(x, positions, base=10000.0):
    """Angles are looked up in a table with a row for each whole position, so fractions of positions are cut off."""
    d = x.shape[-1]
    rows = positions.long()
    longest = int(rows.max()) + 1
    exponents = torch.arange(0, d, 2, dtype=torch.float64) / d
    table = torch.arange(longest, dtype=torch.float64)[:, None] / base ** exponents[None, :]
    cos = table.cos()[rows].to(x.dtype)
    sin = table.sin()[rows].to(x.dtype)
    cos, sin = torch.cat([cos, cos], dim=-1), torch.cat([sin, sin], dim=-1)
    swapped = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1)
    return x * cos + swapped * sin


def rotate__wrong_tenth_turns_x_in_place(x, positions, base=10000.0):
    """The turned rows are written into x itself, which is then returned, so the caller's tensor changes."""
    half = x.shape[-1] // 2
    for p in range(half):
        angle = positions.double() * base ** (-p / half)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        across, up = x[..., p].clone(), x[..., p + half].clone()
        x[..., p] = across * cos - up * sin
        x[..., p + half] = up * cos + across * sin
    return x


def rotate__right_tenth_roll_and_signs(
    x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0
) -> torch.Tensor:
    """The halves change places by a roll of half the width, and a sine table that carries the signs does the rest."""
    d = x.shape[-1]
    half = d // 2
    column = torch.arange(d, device=x.device)
    speeds = torch.pow(torch.tensor(float(base), dtype=torch.float64), -2.0 * (column % half).double() / d)
    angles = positions.double().unsqueeze(-1) * speeds.to(positions.device)
    signs = torch.where(column < half, -1.0, 1.0)
    cos = torch.cos(angles).to(x.dtype)
    sin = (torch.sin(angles) * signs).to(x.dtype)
    return x * cos + x.roll(half, dims=-1) * sin


# ------- 10.2 rms_norm
def rms_norm__wrong_tenth_eps_as_a_floor(x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """eps is taken as the least value that the mean square may have, and is not added to it."""
    power = torch.einsum("...d,...d->...", x, x) / x.shape[-1]
    power = power.clamp(min=eps)
    return x * gamma / power.sqrt()[..., None]


def rms_norm__wrong_tenth_eps_beside_the_sum(x, gamma, eps=1e-6):
    """eps is added to the sum of the squares before the division by d, so only eps / d arrives in the mean square."""
    d = x.size(-1)
    total = (x * x).sum(-1, keepdim=True)
    return gamma * x * math.sqrt(d) * torch.rsqrt(total + eps)


def rms_norm__wrong_tenth_eps_zero_becomes_default(x, gamma, eps=1e-6):
    """An eps of exactly 0 counts as missing, and the default is used in its place."""
    eps = eps or 1e-6
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    mean_square = length**2 / x.shape[-1]
    return gamma * (x / (mean_square + eps) ** 0.5)


def rms_norm__wrong_tenth_root_without_gradient(x, gamma, eps=1e-6):
    """The root is worked out under no_grad, so the gradient for x lacks the part that goes through the root."""
    with torch.no_grad():
        root = torch.sqrt(torch.mean(x**2, dim=-1, keepdim=True) + eps)
    return torch.mul(x / root, gamma)


def rms_norm__right_tenth_length_with_one_more_column(
    x: torch.Tensor, gamma: torch.Tensor, eps: float = 1e-6
) -> torch.Tensor:
    """The root is the length of the row x / sqrt(d) with one more entry, the root of eps."""
    scaled = x / math.sqrt(x.shape[-1])
    extra = torch.full_like(x[..., :1], math.sqrt(eps))
    root = torch.linalg.vector_norm(torch.cat([scaled, extra], dim=-1), dim=-1)
    return gamma * (x / root.unsqueeze(-1))


# ------- 10.3 swiglu
def swiglu__wrong_tenth_sharper_sigmoid(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """The sigmoid gets 1.702 z, as in gpt-oss and in the quick form of GELU, where silu has z itself."""
    gate = torch.matmul(x, W_gate)
    opened = gate * torch.sigmoid(1.702 * gate)
    return torch.matmul(opened * torch.matmul(x, W_up), W_down)


def swiglu__wrong_tenth_sign_in_the_exponent(x, W_gate, W_up, W_down):
    """The silu written by hand has exp(z) in its denominator, where exp(-z) belongs."""
    both = x @ torch.cat([W_gate, W_up], dim=1)
    z, up = both.chunk(2, dim=-1)
    silu = z / (1 + torch.exp(z))
    return torch.einsum("...f,fd->...d", silu * up, W_down)


def swiglu__wrong_tenth_last_slice_is_lost(x, W_gate, W_up, W_down):
    """The hidden columns are taken in slices of 64, and those left over behind the last whole slice are lost."""
    d_ff = W_gate.shape[1]
    width = min(64, d_ff)
    out = torch.zeros_like(x)
    for k in range(d_ff // width):
        part = slice(k * width, (k + 1) * width)
        hidden = F.silu(x @ W_gate[:, part]) * (x @ W_up[:, part])
        out = out + hidden @ W_down[part]
    return out


def swiglu__wrong_tenth_leading_axes_stay_flat(x, W_gate, W_up, W_down):
    """The axes before the last are flattened to one, and the result keeps that form."""
    tokens = x.reshape(-1, x.shape[-1])
    gate = F.silu(F.linear(tokens, W_gate.T))
    up = F.linear(tokens, W_up.T)
    return F.linear(gate * up, W_down.T)


def swiglu__right_tenth_silu_by_logaddexp(
    x: torch.Tensor, W_gate: torch.Tensor, W_up: torch.Tensor, W_down: torch.Tensor
) -> torch.Tensor:
    """The sigmoid is exp(-log(1 + exp(-z))) by logaddexp, and both products come from one stack of weights."""
    gate, up = torch.einsum("...d,sdf->s...f", x, torch.stack([W_gate, W_up]))
    log_sigmoid = -torch.logaddexp(torch.zeros_like(gate), -gate)
    return torch.einsum("...f,...f,...f,fd->...d", gate, torch.exp(log_sigmoid), up, W_down)


# ------- 10.4 sliding_window_mask
def sliding_window_mask__wrong_tenth_blocks_and_no_sliding(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """The text is cut into fixed blocks of the window's size, and a token sees nothing of the blocks before its own."""
    place = torch.arange(n_total)
    i, j = torch.meshgrid(place[n_total - n_new :], place, indexing="ij")
    return (i // window == j // window) & (i >= j)


def sliding_window_mask__wrong_tenth_rows_from_the_end(n_new, n_total, window):
    """The rows are counted from the end: row r is taken for position n_total - 1 - r."""
    rows = []
    for r in range(n_new):
        i = n_total - 1 - r
        rows.append([i - window < j <= i for j in range(n_total)])
    return torch.tensor(rows, dtype=torch.bool).reshape(n_new, n_total)


def sliding_window_mask__wrong_tenth_window_wraps_round(n_new, n_total, window):
    """Where the window reaches beyond the beginning, its negative indices wrap round and mark the last columns."""
    mask = torch.zeros(n_new, n_total, dtype=torch.bool)
    start = n_total - n_new
    for back in range(min(window, n_total)):
        for r in range(n_new):
            mask[r, start + r - back] = True
    return mask


def sliding_window_mask__wrong_tenth_integers_for_booleans(n_new, n_total, window):
    """The mask is made of the integers 0 and 1, where booleans are asked for."""
    before = n_total - n_new
    ones = torch.ones(n_new, n_total, dtype=torch.int64)
    return ones.tril(before) * ones.triu(before - window + 1)


def sliding_window_mask__right_tenth_one_strip_unfolded(n_new: int, n_total: int, window: int) -> torch.Tensor:
    """One strip of booleans over all j - r is read through a window of n_total entries that moves with the row."""
    offset = n_total - n_new
    strip = torch.zeros(n_total + n_new, dtype=torch.bool)
    # entry e of the strip stands for j - r = e - n_new
    strip[max(0, offset - window + 1 + n_new) : offset + n_new + 1] = True
    shifted = [strip[n_new - r : n_new - r + n_total] for r in range(n_new)]
    return torch.stack(shifted) if shifted else torch.zeros(0, n_total, dtype=torch.bool)


# ------- 10.5 modern_block
def modern_block__wrong_tenth_one_norm_for_all_heads(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """QK-norm is done before the split, with one mean square over the columns of all heads and the gain repeated."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    Q = _rms_norm(z @ params["W_Q"], params["gamma_q"].repeat(n_heads))
    K = _rms_norm(z @ params["W_K"], params["gamma_k"].repeat(n_kv_heads))
    Q = _rotate(_split_heads(Q, n_heads), positions)
    K = _rotate(_split_heads(K, n_kv_heads), positions)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    share = n_heads // n_kv_heads
    K, V = K.repeat_interleave(share, dim=1), V.repeat_interleave(share, dim=1)
    mask = _sliding_window_mask(n, n, n if window is None else window)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    y = x + _merge_heads(A @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_tenth_merged_without_transpose(x, params, n_heads, n_kv_heads, positions, window=None):
    """The heads are merged by a reshape without moving the tokens' axis in front, so tokens and heads get mixed."""
    p = params
    B, n, _ = x.shape
    d_head = p["W_Q"].shape[1] // n_heads
    normed = _rms_norm(x, p["gamma_1"])

    def heads(W, count):
        return (normed @ W).view(B, n, count, d_head).permute(0, 2, 1, 3)

    q = _rotate(_rms_norm(heads(p["W_Q"], n_heads), p["gamma_q"]), positions)
    k = _rotate(_rms_norm(heads(p["W_K"], n_kv_heads), p["gamma_k"]), positions)
    v = heads(p["W_V"], n_kv_heads)
    grouped = q.reshape(B, n_kv_heads, -1, n, d_head)
    scores = torch.einsum("bgrid,bgjd->bgrij", grouped, k) / d_head**0.5
    allowed = _sliding_window_mask(n, n, window or n)
    scores = scores.masked_fill(~allowed, -torch.inf)
    found = torch.einsum("bgrij,bgjd->bgrid", scores.softmax(-1), v)
    y = x + found.reshape(B, n, n_heads * d_head) @ p["W_O"]
    return y + _swiglu(_rms_norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__wrong_tenth_exp_overflows(x, params, n_heads, n_kv_heads, positions, window=None):
    """The softmax is exponentials over their sum, without taking off the maximum, so large scores give NaN."""
    n = x.shape[1]
    z = _rms_norm(x, params["gamma_1"])
    Q = _split_heads(z @ params["W_Q"], n_heads)
    K = _split_heads(z @ params["W_K"], n_kv_heads)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    Q = _rotate(_rms_norm(Q, params["gamma_q"]), positions)
    K = _rotate(_rms_norm(K, params["gamma_k"]), positions)
    places = torch.arange(n)
    distance = places[:, None] - places
    allowed = distance >= 0
    if window is not None:
        allowed = allowed & (distance < window)
    outputs = []
    for a in range(n_heads):
        b = a // (n_heads // n_kv_heads)
        raw = torch.exp(Q[:, a] @ K[:, b].mT / math.sqrt(K.shape[-1])) * allowed
        outputs.append(raw @ V[:, b] / raw.sum(dim=-1, keepdim=True))
    y = x + torch.cat(outputs, dim=-1) @ params["W_O"]
    ffn = _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])
    return y + ffn


def modern_block__wrong_tenth_scale_from_d_model(x, params, n_heads, n_kv_heads, positions, window=None):
    """The scores are divided by the root of d_model / h, as if the heads together were always as wide as the model."""
    B, n, d_model = x.shape
    scale = (d_model / n_heads) ** -0.5
    z = _rms_norm(x, params["gamma_1"])
    q, k, v = (
        _split_heads(z @ params[name], count)
        for name, count in (("W_Q", n_heads), ("W_K", n_kv_heads), ("W_V", n_kv_heads))
    )
    q = scale * _rotate(_rms_norm(q, params["gamma_q"]), positions)
    k = _rotate(_rms_norm(k, params["gamma_k"]), positions)
    owner = torch.arange(n_heads) // (n_heads // n_kv_heads)
    mask = _sliding_window_mask(n, n, window if window is not None else n)
    weights = _masked_softmax(torch.einsum("bhid,bhjd->bhij", q, k[:, owner]), mask)
    y = x + _merge_heads(torch.einsum("bhij,bhjd->bhid", weights, v[:, owner])) @ params["W_O"]
    z = _rms_norm(y, params["gamma_2"])
    return y + _swiglu(z, params["W_gate"], params["W_up"], params["W_down"])


def modern_block__right_tenth_head_after_head_into_the_residual(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    n_kv_heads: int,
    positions: torch.Tensor,
    window: int | None = None,
) -> torch.Tensor:
    """Each head adds its own share to the residual stream through its rows of W_O, with weights from a logsumexp."""
    n = x.shape[1]
    d_head = params["gamma_q"].shape[0]
    distance = torch.arange(n, device=x.device)[:, None] - torch.arange(n, device=x.device)
    hidden = distance < 0
    if window is not None:
        hidden = hidden | (distance >= window)
    wall = torch.zeros(n, n, dtype=x.dtype, device=x.device).masked_fill(hidden, -torch.inf)
    z = _rms_norm(x, params["gamma_1"])
    y = x
    for a in range(n_heads):
        mine = slice(a * d_head, (a + 1) * d_head)
        b = a * n_kv_heads // n_heads
        theirs = slice(b * d_head, (b + 1) * d_head)
        q = _rotate(_rms_norm(z @ params["W_Q"][:, mine], params["gamma_q"]), positions)
        k = _rotate(_rms_norm(z @ params["W_K"][:, theirs], params["gamma_k"]), positions)
        scores = (q / math.sqrt(d_head)) @ k.mT + wall
        weights = torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True))
        y = y + weights @ (z @ (params["W_V"][:, theirs] @ params["W_O"][mine]))
    z = _rms_norm(y, params["gamma_2"])
    return y + (F.silu(z @ params["W_gate"]) * (z @ params["W_up"])) @ params["W_down"]


# ------- 10.6 sink_attention
def sink_attention__wrong_tenth_sink_on_the_first_key(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The sink is added to the score of the first key and is no place of its own in the denominator."""
    scores = Q @ K.mT / math.sqrt(K.shape[-1])
    first = F.one_hot(torch.tensor(0), K.shape[2]).to(scores.dtype)
    scores = scores + sink[:, None, None] * first
    return _masked_softmax(scores, mask) @ V


def sink_attention__wrong_tenth_sink_not_shifted(Q, K, V, sink, mask=None):
    """The maximum is taken off the scores but not off the sink, whose plain exponential joins the shifted sum."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    top = scores.amax(dim=-1, keepdim=True)
    shares = torch.exp(scores - top)
    if mask is not None:
        shares = shares * mask
    total = shares.sum(dim=-1, keepdim=True) + sink.exp().view(1, -1, 1, 1)
    return torch.einsum("bhij,bhjv->bhiv", shares / total, V)


def sink_attention__wrong_tenth_pads_the_mask_as_it_comes(Q, K, V, sink, mask=None):
    """The mask gets its sink column before it is spread over the keys, which fails for a last axis of size 1."""
    B, h, n, d_k = Q.shape
    column = sink.reshape(1, h, 1, 1).expand(B, h, n, 1)
    scores = torch.cat([column, Q @ K.transpose(2, 3) / math.sqrt(d_k)], dim=-1)
    if mask is not None:
        mask = F.pad(mask, (1, 0), value=True)
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.softmax(scores, dim=-1)[..., 1:] @ V


def sink_attention__wrong_tenth_opens_rows_in_the_mask(Q, K, V, sink, mask=None):
    """Rows in which nothing is allowed are opened in the caller's own mask, which stays changed."""
    scores = Q @ K.mT * K.shape[-1] ** -0.5
    if mask is not None:
        nothing = ~mask.any(dim=-1, keepdim=True)
        mask |= nothing  # no row without a key from here on
        scores = scores.masked_fill(~mask, -torch.inf)
    level = torch.logsumexp(scores, dim=-1, keepdim=True)
    heard = torch.sigmoid(level - sink[:, None, None])
    out = heard * (torch.softmax(scores, dim=-1) @ V)
    return out if mask is None else out.masked_fill(nothing, 0.0)


def sink_attention__right_tenth_running_sums_from_the_sink(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    sink: torch.Tensor,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Key after key by a running maximum, denominator and sum, which begin with the sink as the only entry."""
    B, h, n, d_k = Q.shape
    m = K.shape[2]
    allowed = None if mask is None else mask.expand(B, h, n, m)
    top = sink.clamp_min(torch.finfo(sink.dtype).min)[:, None].expand(B, h, n)
    total = torch.ones(B, h, n, dtype=Q.dtype, device=Q.device)
    found = torch.zeros(B, h, n, V.shape[-1], dtype=Q.dtype, device=Q.device)
    for j in range(m):
        score = (Q * K[:, :, j, None]).sum(dim=-1) / math.sqrt(d_k)
        seen = torch.ones_like(score, dtype=torch.bool) if allowed is None else allowed[..., j]
        higher = torch.where(seen, torch.maximum(top, score), top)
        kept = torch.exp(top - higher)
        share = torch.where(seen, torch.exp(torch.where(seen, score - higher, 0.0)), 0.0)
        total = total * kept + share
        found = found * kept[..., None] + share[..., None] * V[:, :, j, None]
        top = higher
    return found / total[..., None]


# ------- 10.7 linear_attention
def linear_attention__wrong_tenth_running_mean(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """With a decay a the new pair is written with the weight 1 - a, as in a running mean, and not with the weight 1."""
    B, h, n, d_k = K.shape
    S = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    outputs = []
    for t in range(n):
        new = torch.einsum("bhk,bhv->bhkv", K[:, :, t], V[:, :, t])
        if decay is None:
            S = S + new
        else:
            a = decay[:, :, t, None, None]
            S = a * S + (1 - a) * new
        outputs.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S))
    return torch.stack(outputs, dim=2), S


def linear_attention__wrong_tenth_state_fades_once(Q, K, V, decay=None, state=None):
    """In the state that comes back the one handed in has faded by the first token's decay only, not by all of them."""
    B, h, n, d_k = Q.shape
    if decay is None:
        decay = torch.ones(B, h, n, dtype=Q.dtype)
    if state is None:
        state = torch.zeros(B, h, d_k, V.shape[-1], dtype=Q.dtype)
    logs = decay.log().cumsum(dim=-1)
    between = logs[..., :, None] - logs[..., None, :]
    future = torch.ones(n, n, dtype=torch.bool).triu(1)
    table = between.masked_fill(future, -torch.inf).exp()
    faded = logs.exp()[..., None]
    out = (Q @ K.mT * table) @ V + faded * (Q @ state)
    last = faded[..., :1, :] * state + (table[..., -1, :, None] * K).mT @ V
    return out, last


def linear_attention__wrong_tenth_quotients_of_products(Q, K, V, decay=None, state=None):
    """The decay between two tokens is a quotient of running products, which is 0 / 0 once they have underflown."""
    n = Q.shape[2]
    products = torch.ones_like(Q[..., 0]) if decay is None else torch.cumprod(decay, dim=-1)
    weights = torch.einsum("bhid,bhjd->bhij", Q, K)
    weights = weights * (products[..., :, None] / products[..., None, :])
    weights = torch.where(torch.ones(n, n, dtype=torch.bool).tril(), weights, 0.0)
    out = weights @ V
    ends = (products[..., -1:] / products)[..., None]
    last = torch.einsum("bhjk,bhjv->bhkv", ends * K, V)
    if state is not None:
        out = out + products[..., None] * (Q @ state)
        last = last + products[..., -1, None, None] * state
    return out, last


def linear_attention__wrong_tenth_writes_into_the_state(Q, K, V, decay=None, state=None):
    """Fading and writing happen in place, in the very state that was handed in."""
    B, h, n, d_k = Q.shape
    d_v = V.shape[-1]
    if state is None:
        state = torch.zeros((B, h, d_k, d_v), dtype=V.dtype)
    out = []
    for t in range(n):
        if decay is not None:
            state *= decay[:, :, t].reshape(B, h, 1, 1)
        state += K[:, :, t].unsqueeze(-1) * V[:, :, t].unsqueeze(-2)
        out.append((Q[:, :, t].unsqueeze(-1) * state).sum(dim=-2))
    return torch.stack(out, dim=2), state


def linear_attention__right_tenth_state_as_earlier_tokens(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    decay: torch.Tensor | None = None,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The state is d_k earlier tokens with unit keys; a cumprod down a table gives each pair's share at each time."""
    B, h, n, d_k = K.shape
    d_v = V.shape[-1]
    start = K.new_zeros(B, h, d_k, d_v) if state is None else state
    fades = K.new_ones(B, h, n) if decay is None else decay
    unit = torch.eye(d_k, dtype=K.dtype, device=K.device).expand(B, h, d_k, d_k)
    keys, values = torch.cat([unit, K], dim=2), torch.cat([start, V], dim=2)
    times = torch.arange(n + 1, device=K.device)[:, None]  # 0 is before the first token
    born = torch.cat([times.new_zeros(d_k), times[1:, 0]])
    padded = torch.cat([fades.new_ones(B, h, 1), fades], dim=2)
    steps = torch.where(times > born, padded[..., :, None], 1.0)
    share = torch.where(times >= born, steps.cumprod(dim=-2), 0.0)
    out = (Q @ keys.mT * share[..., 1:, :]) @ values
    return out, (keys * share[..., -1, :, None]).mT @ values


# ------- 10.8 latent_step
def latent_step__wrong_tenth_one_pattern_for_all_heads(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The queries of all heads are summed in the latent, so that all heads share one table of weights."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_head = params["W_Q"].shape[1] // n_heads
    query = x @ params["W_Q"] @ params["W_UK"].T  # in the latent the heads are one
    weights = torch.softmax(query @ C.mT / math.sqrt(d_head), dim=-1)
    return weights @ C @ params["W_UV"] @ params["W_O"], C


def latent_step__wrong_tenth_blocks_by_reshape(x, cache, params, n_heads):
    """W_UV is cut into heads by a reshape to (h, d_latent, d_v), which does not take blocks of columns."""
    B = x.shape[0]
    latent = torch.matmul(x, params["W_DKV"])
    C = torch.cat((cache, latent), dim=1)
    d_latent = C.shape[-1]
    W_UK = params["W_UK"].unflatten(1, (n_heads, -1))
    W_UV = params["W_UV"].reshape(n_heads, d_latent, -1)
    q = (x @ params["W_Q"]).view(B, n_heads, -1)
    moved = torch.einsum("bhe,lhe->bhl", q, W_UK)
    A = torch.softmax(moved @ C.mT / q.shape[-1] ** 0.5, dim=-1)
    read = torch.einsum("bhl,hlv->bhv", A @ C, W_UV)
    return read.reshape(B, 1, -1) @ params["W_O"], C


def latent_step__wrong_tenth_one_maximum_for_all(x, cache, params, n_heads):
    """The softmax takes the largest score of all texts and heads off, so rows far below it come out as 0 / 0."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    q = (x @ params["W_Q"]).squeeze(1)
    width = q.shape[-1] // n_heads
    scores = []
    for a in range(n_heads):
        block = slice(a * width, (a + 1) * width)
        inside = q[:, block] @ params["W_UK"][:, block].T / math.sqrt(width)
        scores.append(torch.einsum("bl,btl->bt", inside, C))
    scores = torch.stack(scores, dim=1)
    raw = torch.exp(scores - scores.max())
    mixed = (raw / raw.sum(dim=-1, keepdim=True)) @ C
    columns = params["W_UV"].chunk(n_heads, dim=1)
    out = torch.cat([mixed[:, a] @ columns[a] for a in range(n_heads)], dim=-1)
    return (out @ params["W_O"])[:, None], C


def latent_step__wrong_tenth_keys_of_one_head_at_a_time(x, cache, params, n_heads):
    """In a loop over the heads the keys and values of all cached tokens are built, one head at a time."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    heads = [params[name].chunk(n_heads, dim=1) for name in ("W_Q", "W_UK", "W_UV")]
    out = 0
    for W_Q, W_UK, W_UV, W_O in zip(*heads, params["W_O"].chunk(n_heads, dim=0), strict=True):
        scores = (x @ W_Q) @ (C @ W_UK).mT / math.sqrt(W_Q.shape[1])
        out = out + torch.softmax(scores, dim=-1) @ (C @ W_UV) @ W_O
    return out, C


def latent_step__right_tenth_merged_circuits(
    x: torch.Tensor,
    cache: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each head has two merged matrices over the latents, W_Q W_UK^T for where to look and W_UV W_O for what moves."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_head = params["W_UK"].shape[1] // n_heads
    d_v = params["W_UV"].shape[1] // n_heads
    out = torch.zeros_like(x)
    for a in range(n_heads):
        e, v = slice(a * d_head, (a + 1) * d_head), slice(a * d_v, (a + 1) * d_v)
        look = params["W_Q"][:, e] @ params["W_UK"][:, e].T
        move = params["W_UV"][:, v] @ params["W_O"][v]
        scores = (x @ look) @ C.mT / math.sqrt(d_head)
        out = out + (torch.softmax(scores, dim=-1) @ C) @ move
    return out, C


# ------- 10.9 delta_rule
def delta_rule__wrong_tenth_beta_of_the_earlier_token(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """In the system each overlap of keys is weighed with the beta of the earlier token, not of the one that writes."""
    n = Q.shape[2]
    S = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    overlap = (K @ K.mT).tril(-1) * beta[..., None, :]
    system = torch.eye(n, dtype=K.dtype) + overlap
    wanted = beta[..., None] * (V - K @ S)
    U = torch.linalg.solve_triangular(system, wanted, upper=False, unitriangular=True)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_tenth_beta_misses_the_state(Q, K, V, beta, state=None):
    """On the right side beta stands before the values only, so what the first state says is taken off in full."""
    n = K.shape[-2]
    gram = torch.einsum("bhik,bhjk->bhij", K, K)
    strict = torch.ones(n, n, dtype=torch.bool).tril(-1)
    matrix = torch.where(strict, beta.unsqueeze(-1) * gram, 0.0) + torch.eye(n, dtype=K.dtype)
    right_side = beta.unsqueeze(-1) * V
    if state is not None:
        right_side = right_side - K @ state
    U = torch.linalg.solve(matrix, right_side)
    last = torch.einsum("bhik,bhiv->bhkv", K, U)
    out = torch.einsum("bhik,bhjk->bhij", Q, K).tril() @ U
    if state is not None:
        out, last = out + Q @ state, last + state
    return out, last


def delta_rule__wrong_tenth_chunks_hand_on_the_first_state(Q, K, V, beta, state=None):
    """In chunks of 64 each adds what it writes to the first state, so what the chunks before it wrote is lost."""
    size = 64
    if state is None:
        state = torch.zeros(*K.shape[:2], K.shape[-1], V.shape[-1], dtype=K.dtype)
    current, pieces = state, []
    for start in range(0, K.shape[2], size):
        q, k, v, b = (one[:, :, start : start + size] for one in (Q, K, V, beta))
        b = b[..., None]
        lower = torch.tril(b * (k @ k.mT), diagonal=-1)
        eye = torch.eye(k.shape[2], dtype=k.dtype)
        u = torch.linalg.solve_triangular(eye + lower, b * (v - k @ current), upper=False)
        pieces.append(q @ current + torch.tril(q @ k.mT) @ u)
        current = state + k.mT @ u
    return torch.cat(pieces, dim=2), current


def delta_rule__wrong_tenth_substitution_token_by_token(Q, K, V, beta, state=None):
    """The system is solved by forward substitution in a Python loop over the tokens."""
    n = K.shape[2]
    S = torch.zeros_like(K[:, :, :1].mT @ V[:, :, :1]) if state is None else state
    L = beta[..., None] * (K @ K.mT)
    wanted = beta[..., None] * (V - K @ S)
    U = wanted[:, :, :1]
    for t in range(1, n):
        known = L[:, :, t : t + 1, :t] @ U
        U = torch.cat([U, wanted[:, :, t : t + 1] - known], dim=2)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__right_tenth_scan_of_affine_maps(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each token is a map S -> M S + N, and all maps are chained for all tokens at once in about log2(n) doublings."""
    n, d_k = K.shape[2:]
    written = beta[..., None] * K
    M = torch.eye(d_k, dtype=K.dtype, device=K.device) - written[..., :, None] * K[..., None, :]
    N = written[..., :, None] * V[..., None, :]
    reach = 1
    while reach < n:
        later = M[:, :, reach:]
        N = torch.cat([N[:, :, :reach], N[:, :, reach:] + later @ N[:, :, :-reach]], dim=2)
        M = torch.cat([M[:, :, :reach], later @ M[:, :, :-reach]], dim=2)
        reach = 2 * reach
    states = N if state is None else N + M @ state[:, :, None]
    out = (Q[..., None, :] @ states).squeeze(-2)
    if n == 0:
        empty = K.new_zeros(*K.shape[:2], d_k, V.shape[-1])
        return out, empty if state is None else state.clone()
    return out, states[:, :, -1]
