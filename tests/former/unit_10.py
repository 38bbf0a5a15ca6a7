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
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.to(torch.float64)[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x[..., :half], x[..., half:]
    return torch.cat([left * cos - right * sin, right * cos + left * sin], dim=-1)


def _rms_norm(x, gamma, eps=1e-6):
    return gamma * x / (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()


def _swiglu(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def _window_mask(n, window):
    i, j = torch.arange(n)[:, None], torch.arange(n)
    return (j <= i) & (j > i - (window or n))


# rotate


def rotate__wrong_doubled_neighbours(x, positions, base=10000.0):
    """Repeats each cosine and sine for two neighbouring columns, but swaps the halves: two conventions mixed."""
    d = x.shape[-1]
    speeds = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = (positions.double()[:, None] * speeds).repeat_interleave(2, dim=-1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    swapped = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1)
    return x * cos + swapped * sin


def rotate__wrong_one_after_the_other(x, positions, base=10000.0):
    """Makes the second half from the first half that is turned already, not from the old one."""
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.double()[:, None] * speeds
    cos, sin = torch.cos(angles).to(x.dtype), torch.sin(angles).to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    a = a * cos - b * sin
    b = b * cos + a * sin
    return torch.cat([a, b], dim=-1)


def rotate__wrong_speeds_to_the_end(x, positions, base=10000.0):
    """Spreads the exponents from 0 to 1 with both ends, so that the slowest speed is 1 / base."""
    half = x.shape[-1] // 2
    speeds = base ** -torch.linspace(0, 1, half, dtype=torch.float64)
    angles = positions.double()[:, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def rotate__wrong_from_the_first(x, positions, base=10000.0):
    """Counts the positions from that of the first row, since only distances matter, and so never turns that row."""
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half, dtype=torch.float64) / half)
    places = (positions - positions[0]).double()
    angles = torch.outer(places, speeds)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def rotate__wrong_degrees_of_neighbours(x, positions, base=10000.0):
    """Takes the angles for degrees, and pairs neighbouring columns in place of the halves."""
    d = x.shape[-1]
    speeds = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = torch.deg2rad(positions.double()[:, None] * speeds)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)


def rotate__right_complex(x, positions, base=10000.0):
    """Takes each pair as one complex number and multiplies it with a number of length 1."""
    half = x.shape[-1] // 2
    p = torch.arange(half, dtype=torch.float64)
    angles = torch.outer(positions.double(), torch.exp(-math.log(base) * p / half))
    turn = torch.polar(torch.ones_like(angles), angles)
    turn = turn.to(torch.complex64 if x.dtype == torch.float32 else torch.complex128)
    turned = torch.complex(x[..., :half].contiguous(), x[..., half:].contiguous()) * turn
    return torch.cat([turned.real, turned.imag], dim=-1)


# rms_norm


def rms_norm__wrong_axis_one(x, gamma, eps=1e-6):
    """Averages over axis 1, which is the last one only where x has two axes."""
    return gamma * x / torch.sqrt((x**2).mean(dim=1, keepdim=True) + eps)


def rms_norm__wrong_squared_mean(x, gamma, eps=1e-6):
    """Squares the mean of the entries, where the mean of the squares is asked for."""
    return gamma * x / torch.sqrt(x.mean(dim=-1, keepdim=True) ** 2 + eps)


def rms_norm__wrong_multiplied(x, gamma, eps=1e-6):
    """Multiplies by the root of the mean square and does not divide by it."""
    root = torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
    return gamma * (x * root)


def rms_norm__wrong_gain_per_token(x, gamma, eps=1e-6):
    """Makes a column of gamma, a gain for each token and not for each feature, which fits only by chance."""
    root = torch.sqrt(x.square().mean(dim=-1, keepdim=True) + eps)
    return gamma[:, None] * (x / root)


def rms_norm__wrong_outside_and_one_less(x, gamma, eps=1e-6):
    """Adds eps behind the root and not under it, and divides the sum of squares by d - 1."""
    d = x.shape[-1]
    root = torch.sqrt((x * x).sum(dim=-1, keepdim=True) / (d - 1)) + eps
    return gamma * x / root


# swiglu


def swiglu__wrong_sigmoid_of_up(x, W_gate, W_up, W_down):
    """Multiplies the gate with the sigmoid of up, where silu is the gate times its own sigmoid, times up."""
    gate, up = x @ W_gate, x @ W_up
    return (gate * torch.sigmoid(up)) @ W_down


def swiglu__wrong_silu_first(x, W_gate, W_up, W_down):
    """Sends x through silu before the product with W_gate, and not the product."""
    gate = F.silu(x) @ W_gate
    return (gate * (x @ W_up)) @ W_down


def swiglu__wrong_multiplied_behind(x, W_gate, W_up, W_down):
    """Brings gate and up down to d_model first and multiplies them there, not in the wide layer."""
    gate = F.silu(x @ W_gate) @ W_down
    up = x @ W_up @ W_down
    return gate * up


def swiglu__wrong_table_of_tokens(x, W_gate, W_up, W_down):
    """Takes the product of gate and up for a matrix product, so that token meets token and W_down rarely fits."""
    gate, up = F.silu(x @ W_gate), x @ W_up
    return gate @ up.transpose(-2, -1) @ W_down


def swiglu__wrong_relu_and_residual(x, W_gate, W_up, W_down):
    """Sends the gate through relu in place of silu, and adds x at the end, which belongs to the block."""
    gate = torch.relu(x @ W_gate)
    return x + (gate * (x @ W_up)) @ W_down


def swiglu__right_one_product(x, W_gate, W_up, W_down):
    """Makes gate and up in one product with the weights side by side, and writes the sigmoid with tanh."""
    gate, up = (x @ torch.cat([W_gate, W_up], dim=-1)).chunk(2, dim=-1)
    opened = 0.5 * gate * (1 + torch.tanh(0.5 * gate))
    return torch.einsum("...f,fd->...d", opened * up, W_down)


# sliding_window_mask


def sliding_window_mask__wrong_both_sides(n_new, n_total, window):
    """Compares the distance without its sign, so that a token sees the window - 1 tokens after it as well."""
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (i - j).abs() < window


def sliding_window_mask__wrong_chunks(n_new, n_total, window):
    """Cuts the text into fixed chunks of `window` tokens, and a token sees those of its own chunk only."""
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j <= i) & (i // window == j // window)


def sliding_window_mask__wrong_one_window_for_all(n_new, n_total, window):
    """Ends the window at the last `window` columns for all rows, so that it does not slide."""
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j <= i) & (j >= n_total - window)


def sliding_window_mask__wrong_cache_all_seen(n_new, n_total, window):
    """Applies the window among the new tokens only, and lets every row see all that stands before them."""
    i = torch.arange(n_new)[:, None]
    j = torch.arange(n_new)
    among_new = (j <= i) & (i - j < window)
    before = torch.ones(n_new, n_total - n_new, dtype=torch.bool)
    return torch.cat([before, among_new], dim=1)


def sliding_window_mask__wrong_blocked_and_wider(n_new, n_total, window):
    """Marks what must not be seen with True, and lets the window hold one token more than its own count."""
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    return (j > i) | (j < i - window)


def sliding_window_mask__right_two_triangles(n_new, n_total, window):
    """Cuts two triangles off the whole square of the text, and takes its last n_new rows."""
    square = torch.ones(n_total, n_total, dtype=torch.bool)
    return square.tril().triu(1 - window)[n_total - n_new :]


# modern_block


def modern_block__wrong_all_heads_normed_together(x, params, n_heads, n_kv_heads, positions, window=None):
    """Norms queries and keys before the split, so that all heads share one mean square, with the gains repeated."""
    z = _rms_norm(x, params["gamma_1"])
    Q = _rms_norm(z @ params["W_Q"], params["gamma_q"].repeat(n_heads))
    K = _rms_norm(z @ params["W_K"], params["gamma_k"].repeat(n_kv_heads))
    Q, K = _rotate(_split_heads(Q, n_heads), positions), _rotate(_split_heads(K, n_kv_heads), positions)
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    K, V = (one.repeat_interleave(n_heads // n_kv_heads, dim=1) for one in (K, V))
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), _window_mask(x.shape[1], window))
    y = x + _merge_heads(weights @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_adds_to_the_normed(x, params, n_heads, n_kv_heads, positions, window=None):
    """Adds the attention's result to the normed tokens z, and not to x."""
    z = _rms_norm(x, params["gamma_1"])
    Q = _rms_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"])
    K = _rms_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"])
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    Q, K = _rotate(Q, positions), _rotate(K, positions)
    K, V = (one.repeat_interleave(n_heads // n_kv_heads, dim=1) for one in (K, V))
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), _window_mask(x.shape[1], window))
    y = z + _merge_heads(weights @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_values_in_turn(x, params, n_heads, n_kv_heads, positions, window=None):
    """Shares the keys among neighbouring query heads, but the values in turn, so that the two come from other heads."""
    z = _rms_norm(x, params["gamma_1"])
    Q = _rms_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"])
    K = _rms_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"])
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    Q, K = _rotate(Q, positions), _rotate(K, positions)
    share = n_heads // n_kv_heads
    K, V = K.repeat_interleave(share, dim=1), V.repeat(1, share, 1, 1)
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), _window_mask(x.shape[1], window))
    y = x + _merge_heads(weights @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_width_of_model(x, params, n_heads, n_kv_heads, positions, window=None):
    """Divides the scores by the root of d_model / h, which need not be the width of a head here."""
    z = _rms_norm(x, params["gamma_1"])
    Q = _rms_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_q"])
    K = _rms_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_k"])
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    Q, K = _rotate(Q, positions), _rotate(K, positions)
    K, V = (one.repeat_interleave(n_heads // n_kv_heads, dim=1) for one in (K, V))
    d_head = x.shape[-1] / n_heads
    weights = _masked_softmax(Q @ K.mT / math.sqrt(d_head), _window_mask(x.shape[1], window))
    y = x + _merge_heads(weights @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_gains_and_window(x, params, n_heads, n_kv_heads, positions, window=None):
    """Uses gamma_k for the query heads and gamma_q for the key heads, and lets a window hold one token more."""
    z = _rms_norm(x, params["gamma_1"])
    Q = _rms_norm(_split_heads(z @ params["W_Q"], n_heads), params["gamma_k"])
    K = _rms_norm(_split_heads(z @ params["W_K"], n_kv_heads), params["gamma_q"])
    V = _split_heads(z @ params["W_V"], n_kv_heads)
    Q, K = _rotate(Q, positions), _rotate(K, positions)
    K, V = (one.repeat_interleave(n_heads // n_kv_heads, dim=1) for one in (K, V))
    i, j = torch.arange(x.shape[1])[:, None], torch.arange(x.shape[1])
    mask = j <= i
    if window is not None:
        mask = mask & (i - j <= window)
    y = x + _merge_heads(_masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask) @ V) @ params["W_O"]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__right_head_after_head(x, params, n_heads, n_kv_heads, positions, window=None):
    """Goes through the query heads one by one, each with its columns of the weights and its rows of W_O."""
    n = x.shape[1]
    d_head, share = params["W_Q"].shape[1] // n_heads, n_heads // n_kv_heads
    d_v = params["W_V"].shape[1] // n_kv_heads
    z = _rms_norm(x, params["gamma_1"])
    y = x
    for head in range(n_heads):
        own, shared = slice(head * d_head, (head + 1) * d_head), head // share
        q = _rotate(_rms_norm(z @ params["W_Q"][:, own], params["gamma_q"]), positions)
        k = z @ params["W_K"][:, shared * d_head : (shared + 1) * d_head]
        k = _rotate(_rms_norm(k, params["gamma_k"]), positions)
        v = z @ params["W_V"][:, shared * d_v : (shared + 1) * d_v]
        rows = []
        for i in range(n):
            first = 0 if window is None else max(0, i - window + 1)
            scores = torch.einsum("bd,bjd->bj", q[:, i], k[:, first : i + 1]) / d_head**0.5
            rows.append(torch.einsum("bj,bjd->bd", scores.softmax(dim=-1), v[:, first : i + 1]))
        y = y + torch.stack(rows, dim=1) @ params["W_O"][head * d_v : (head + 1) * d_v]
    return y + _swiglu(_rms_norm(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


# sink_attention


def sink_attention__wrong_first_column_cut(Q, K, V, sink, mask=None):
    """Puts the sink behind the scores and then cuts the first column off, so that the weights move by one key."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    column = sink.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
    weights = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)
    return weights[..., 1:] @ V


def sink_attention__wrong_sink_not_shifted(Q, K, V, sink, mask=None):
    """Subtracts the largest score from the scores but not from the sink, whose exponential then weighs too much."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    terms = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    if mask is not None:
        terms = terms * mask
    total = terms.sum(dim=-1, keepdim=True) + torch.exp(sink)[:, None, None]
    return (terms / total) @ V


def sink_attention__wrong_first_key(Q, K, V, sink, mask=None):
    """Makes key 0 the sink: adds the number to its score, always allows it, and mixes its value in."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    first = torch.arange(K.shape[2]) == 0
    scores = scores + sink[:, None, None] * first
    if mask is not None:
        scores = scores.masked_fill(~(mask | first), -torch.inf)
    return torch.softmax(scores, dim=-1) @ V


def sink_attention__wrong_per_query(Q, K, V, sink, mask=None):
    """Lays the sinks along the axis of the queries and not of the heads, which fits only where both are alike."""
    B, h, n, _ = Q.shape
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    column = sink[None, None, :, None].expand(B, h, n, 1)
    weights = torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)
    return weights[..., :-1] @ V


def sink_attention__wrong_damped_and_value_width(Q, K, V, sink, mask=None):
    """Divides a finished softmax by 1 + exp(sink), as if the scores' sum were 1, and scales by the values' width."""
    scores = Q @ K.mT / math.sqrt(V.shape[-1])
    weights = _masked_softmax(scores, mask)
    return weights @ V / (1 + torch.exp(sink))[:, None, None]


def sink_attention__right_joined_sums(Q, K, V, sink, mask=None):
    """Takes the logarithm of the whole denominator with logaddexp, and no softmax and no further column."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    keys = torch.logsumexp(scores, dim=-1, keepdim=True)
    weights = torch.exp(scores - torch.logaddexp(keys, sink[:, None, None].expand_as(keys)))
    if mask is not None:
        weights = weights * mask
    return torch.einsum("bhij,bhjd->bhid", weights, V)


# linear_attention


def linear_attention__wrong_moving_average(Q, K, V, decay=None, state=None):
    """Weighs what is written with 1 - a, as in a moving average, where the new pair comes in whole."""
    S = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    outs = []
    for t in range(Q.shape[2]):
        pair = K[:, :, t, :, None] * V[:, :, t, None, :]
        if decay is None:
            S = S + pair
        else:
            a = decay[:, :, t, None, None]
            S = a * S + (1 - a) * pair
        outs.append((Q[:, :, t, None, :] @ S).squeeze(-2))
    return torch.stack(outs, dim=2), S


def linear_attention__wrong_written_in_place(Q, K, V, decay=None, state=None):
    """Fades and writes the state in place, so that the state handed in changes as well."""
    B, h, n, d_k = K.shape
    if state is None:
        state = K.new_zeros(B, h, d_k, V.shape[-1])
    outs = []
    for t in range(n):
        if decay is not None:
            state *= decay[:, :, t, None, None]
        state += K[:, :, t, :, None] * V[:, :, t, None, :]
        outs.append((Q[:, :, t, None, :] @ state).squeeze(-2))
    return torch.stack(outs, dim=2), state


def linear_attention__wrong_fades_over_and_over(Q, K, V, decay=None, state=None):
    """Multiplies the state at every token with the product of all decays so far, and not with its own decay."""
    B, h, n, d_k = K.shape
    S = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    fades = torch.ones(B, h, n, dtype=K.dtype) if decay is None else decay.cumprod(dim=-1)
    outs = []
    for t in range(n):
        S = fades[:, :, t, None, None] * S + K[:, :, t].unsqueeze(-1) @ V[:, :, t].unsqueeze(-2)
        outs.append(torch.einsum("bhk,bhkv->bhv", Q[:, :, t], S))
    return torch.stack(outs, dim=2), S


def linear_attention__wrong_value_times_key(Q, K, V, decay=None, state=None):
    """Writes v^T k, a state of d_v rows and d_k columns, which a query fits only where both widths are alike."""
    B, h, n, d_k = K.shape
    S = K.new_zeros(B, h, V.shape[-1], d_k) if state is None else state
    outs = []
    for t in range(n):
        a = 1 if decay is None else decay[:, :, t, None, None]
        S = a * S + V[:, :, t, :, None] * K[:, :, t, None, :]
        outs.append((Q[:, :, t, None, :] @ S).squeeze(-2))
    return torch.stack(outs, dim=2), S


def linear_attention__wrong_late_decay_and_mean(Q, K, V, decay=None, state=None):
    """Fades with the decay of the token before, and divides each output by the number of tokens read."""
    B, h, n, d_k = K.shape
    S = K.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    outs = []
    for t in range(n):
        if decay is not None and t > 0:
            S = decay[:, :, t - 1, None, None] * S
        S = S + K[:, :, t, :, None] * V[:, :, t, None, :]
        outs.append((Q[:, :, t, None, :] @ S).squeeze(-2) / (t + 1))
    return torch.stack(outs, dim=2), S


def linear_attention__right_halves(Q, K, V, decay=None, state=None):
    """Cuts the text in two halves again and again, and hands the state of the first one to the second."""
    B, h, n, d_k = K.shape
    if state is None:
        state = K.new_zeros(B, h, d_k, V.shape[-1])
    if n > 1:
        cut = n // 2
        fades = (None, None) if decay is None else (decay[:, :, :cut], decay[:, :, cut:])
        first, state = linear_attention__right_halves(Q[:, :, :cut], K[:, :, :cut], V[:, :, :cut], fades[0], state)
        rest, state = linear_attention__right_halves(Q[:, :, cut:], K[:, :, cut:], V[:, :, cut:], fades[1], state)
        return torch.cat([first, rest], dim=2), state
    if decay is not None:
        state = state * decay[..., None]
    state = state + K.mT @ V
    return Q @ state, state


# latent_step


def latent_step__wrong_rows_for_heads(x, cache, params, n_heads):
    """Reshapes W_UK and W_UV to (h, d_latent, width) directly, which mixes the heads' blocks of columns."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    d_latent = C.shape[-1]
    W_UK = params["W_UK"].reshape(n_heads, d_latent, -1)
    W_UV = params["W_UV"].reshape(n_heads, d_latent, -1)
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1)).squeeze(1)
    in_latent = torch.einsum("bhd,hld->bhl", q, W_UK)
    weights = torch.softmax(in_latent @ C.mT / math.sqrt(q.shape[-1]), dim=-1)
    heads = torch.einsum("bhl,hlv->bhv", weights @ C, W_UV)
    return heads.flatten(1)[:, None] @ params["W_O"], C


def latent_step__wrong_softmax_over_heads(x, cache, params, n_heads):
    """Takes the softmax over the heads, so that they share a token among them, and not over the tokens."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    W_UK = params["W_UK"].unflatten(-1, (n_heads, -1))
    W_UV = params["W_UV"].unflatten(-1, (n_heads, -1))
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1)).squeeze(1)
    in_latent = torch.einsum("bhd,lhd->bhl", q, W_UK)
    scores = torch.einsum("bhl,btl->bht", in_latent, C) / q.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=1)
    heads = torch.einsum("bhl,lhv->bhv", torch.einsum("bht,btl->bhl", weights, C), W_UV)
    return heads.flatten(1)[:, None] @ params["W_O"], C


def latent_step__wrong_latent_asks(x, cache, params, n_heads):
    """Compares the new token's latent itself with the cached ones, the same for all heads, and uses no query."""
    new = x @ params["W_DKV"]
    C = torch.cat([cache, new], dim=1)
    d_head = params["W_UK"].shape[1] // n_heads
    weights = torch.softmax(new @ C.mT / math.sqrt(d_head), dim=-1)
    mixed = weights @ C
    return mixed @ params["W_UV"] @ params["W_O"], C


def latent_step__wrong_keys_as_values(x, cache, params, n_heads):
    """Brings the mixed latents up through W_UK again, and not through W_UV, which fits only where d_v is d_head."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    W_UK = params["W_UK"].unflatten(-1, (n_heads, -1))
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1)).squeeze(1)
    in_latent = torch.einsum("bhd,lhd->bhl", q, W_UK)
    weights = torch.softmax(in_latent @ C.mT / math.sqrt(q.shape[-1]), dim=-1)
    heads = torch.einsum("bhl,lhd->bhd", weights @ C, W_UK)
    return heads.flatten(1)[:, None] @ params["W_O"], C


def latent_step__wrong_newest_first_and_latent_root(x, cache, params, n_heads):
    """Puts the new latent in front of the cache, and divides the scores by the root of d_latent."""
    C = torch.cat([x @ params["W_DKV"], cache], dim=1)
    W_UK = params["W_UK"].unflatten(-1, (n_heads, -1))
    W_UV = params["W_UV"].unflatten(-1, (n_heads, -1))
    q = (x @ params["W_Q"]).unflatten(-1, (n_heads, -1)).squeeze(1)
    in_latent = torch.einsum("bhd,lhd->bhl", q, W_UK)
    weights = torch.softmax(in_latent @ C.mT / math.sqrt(in_latent.shape[-1]), dim=-1)
    heads = torch.einsum("bhl,lhv->bhv", weights @ C, W_UV)
    return heads.flatten(1)[:, None] @ params["W_O"], C


# delta_rule


def delta_rule__wrong_first_order(Q, K, V, beta, state=None):
    """Corrects each token by what the others would write uncorrected, one step in place of solving the system."""
    S = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    wanted = beta[..., None] * (V - K @ S)
    table = beta[..., None] * (K @ K.mT).tril(-1)
    U = wanted - table @ wanted
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_beta_twice(Q, K, V, beta, state=None):
    """Multiplies with beta in the system and once more when the solution is written."""
    n = K.shape[2]
    S = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    b = beta.unsqueeze(-1)
    system = torch.eye(n, dtype=K.dtype) + b * (K @ K.mT).tril(-1)
    U = torch.linalg.solve_triangular(system, b * (V - K @ S), upper=False)
    return Q @ S + (Q @ K.mT).tril() @ (b * U), S + K.mT @ (b * U)


def delta_rule__wrong_state_only_added(Q, K, V, beta, state=None):
    """Adds beta times the plain values to the state that comes back, and not the corrections that were solved for."""
    n = K.shape[2]
    S = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    system = torch.eye(n, dtype=K.dtype) + beta[..., None] * (K @ K.mT).tril(-1)
    U = torch.linalg.solve_triangular(system, beta[..., None] * (V - K @ S), upper=False)
    out = Q @ S + (Q @ K.mT).tril() @ U
    return out, S + K.mT @ (beta[..., None] * V)


def delta_rule__wrong_keys_read(Q, K, V, beta, state=None):
    """Uses the table of keys with keys for the reading too, so that what was written is read by the key."""
    n = K.shape[2]
    S = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    table = (K @ K.mT).tril()
    system = torch.eye(n, dtype=K.dtype) + beta[..., None] * table.tril(-1)
    U = torch.linalg.solve_triangular(system, beta[..., None] * (V - K @ S), upper=False)
    return Q @ S + table @ U, S + K.mT @ U


def delta_rule__wrong_beta_of_reader_and_state(Q, K, V, beta, state=None):
    """Gives beta to the columns of the system and not to its rows, and corrects the values without the first state."""
    n = K.shape[2]
    S = K.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state
    system = torch.eye(n, dtype=K.dtype) + (K @ K.mT).tril(-1) * beta[..., None, :]
    U = torch.linalg.solve_triangular(system, beta[..., None] * V, upper=False)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U
