"""Answers to the exercises of unit 7, the transformer block: four wrong ones and a right one for each."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F


def _layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = (centred**2).mean(dim=-1, keepdim=True)
    return gamma * centred / torch.sqrt(variance + eps) + beta


def _gelu(x):
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


def _feed_forward(x, W_1, b_1, W_2, b_2, activation):
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    batch, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V))
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    if mask is None:
        heads = torch.softmax(scores, dim=-1) @ V
    else:
        mask = mask.expand(batch, n_heads, n, n)
        some = mask.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~(mask | ~some), -math.inf)
        heads = torch.softmax(scores, dim=-1) @ V * some
    return heads.transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def _pre_norm_block(x, params, n_heads, mask=None):
    p = params
    normed = _layer_norm(x, p["gamma_1"], p["beta_1"])
    y = x + _multi_head_attention(normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    normed = _layer_norm(y, p["gamma_2"], p["beta_2"])
    return y + _feed_forward(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


# ------- 7.1 layer_norm
def layer_norm__wrong_tenth_eps_as_floor(x, gamma, beta, eps=1e-5):
    """Takes eps for a floor of the variance, max(variance, eps), instead of adding it."""
    mean = x.mean(-1, keepdim=True)
    spread = torch.var(x, dim=-1, correction=0, keepdim=True)
    safe = spread.clamp(min=eps)  # never divide by 0
    return torch.addcmul(beta, gamma, (x - mean) * safe.rsqrt())


def layer_norm__wrong_tenth_eps_beside_the_sum(x, gamma, beta, eps=1e-5):
    """Adds eps to the sum of the squares, before the division by d, so that it counts only eps / d."""
    d = x.shape[-1]
    deviation = x - x.sum(-1, keepdim=True) / d
    length = torch.sqrt(torch.einsum("...c,...c->...", deviation, deviation) + eps)
    unit = deviation / length.unsqueeze(-1)
    return unit * math.sqrt(d) * gamma + beta


def layer_norm__wrong_tenth_axis_two(x, gamma, beta, eps=1e-5):
    """Normalises over axis 2 wherever there are three axes or more, so with (B, h, n, d) over the tokens."""

    def features_of(t):
        if t.ndim == 1:
            return 0
        if t.ndim == 2:
            return 1
        return 2

    axis = features_of(x)
    variance, mean = torch.var_mean(x, dim=axis, correction=0, keepdim=True)
    return (x - mean).div((variance + eps).sqrt()).mul(gamma).add(beta)


def layer_norm__wrong_tenth_rows_in_place(x, gamma, beta, eps=1e-5):
    """Subtracts the means in place in a reshaped view, so that the argument x is overwritten."""
    rows = x.reshape(-1, x.shape[-1])
    rows -= rows.mean(dim=1, keepdim=True)
    scale = 1 / torch.sqrt(rows.pow(2).mean(dim=1, keepdim=True) + eps)
    result = rows * scale * gamma + beta
    return result.reshape(x.shape)


def layer_norm__right_tenth_projection_matrix(x, gamma, beta, eps=1e-5):
    """Centres by a matrix product with I - 1/d, after a shift by the first feature, and divides by a hypotenuse."""
    d = x.shape[-1]
    eye = torch.eye(d, dtype=x.dtype, device=x.device)
    shifted = x - x[..., :1]  # keeps the products small; the mean takes any shift away
    centred = shifted @ (eye - 1 / d)
    squares = (centred * centred) @ torch.full((d, 1), 1 / d, dtype=x.dtype, device=x.device)
    return centred * gamma * (squares + eps) ** -0.5 + beta


# ------- 7.2 batch_norm
def batch_norm__wrong_tenth_mean_of_variances(x, gamma, beta, eps=1e-5):
    """Takes the mean of the sentences' own variances for that of the batch, leaving out how their means differ."""
    mean = x.mean(dim=1).mean(dim=0)
    each = [sentence.var(dim=0, correction=0) for sentence in x]
    variance = torch.stack(each).mean(dim=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_tenth_reshape_for_transpose(x, gamma, beta, eps=1e-5):
    """Reshapes (B, n, d) to (d, B*n) without moving the axis, so that each row mixes features."""
    d = x.size(-1)
    columns = x.reshape(d, -1)
    mean = columns.mean(1)
    variance = (columns - mean[:, None]).square().mean(1)
    scale = gamma * torch.rsqrt(variance + eps)
    return x * scale + (beta - mean * scale)


def batch_norm__wrong_tenth_lone_token_kept(x, gamma, beta, eps=1e-5):
    """Leaves a batch of a single token as it is, scaled and shifted, where the result should be beta."""
    B, n, d = x.shape
    count = B * n
    if count == 1:
        return gamma * x + beta  # one token has no statistics
    tokens = x.flatten(0, 1)
    centred = tokens - tokens.sum(0) / count
    variance = torch.einsum("tc,tc->c", centred, centred) / count
    return (centred / (variance + eps).sqrt() * gamma + beta).unflatten(0, (B, n))


def batch_norm__wrong_tenth_constant_statistics(x, gamma, beta, eps=1e-5):
    """Computes mean and variance under no_grad, so that the gradient of x misses the way through them."""
    with torch.no_grad():
        variance, mean = torch.var_mean(x, dim=(0, 1), correction=0)
        inverse = (variance + eps).rsqrt()
    return torch.addcmul(beta, gamma * inverse, x - mean)


def batch_norm__right_tenth_feature_by_feature(x, gamma, beta, eps=1e-5):
    """Takes one feature after the other as a flat list of numbers and stacks the results on the last axis."""
    finished = []
    for values, scale, shift in zip(x.unbind(-1), gamma, beta, strict=True):
        flat = values.flatten()
        flat = flat - flat[0]  # small numbers have more digits left
        flat = flat - flat.mean()
        root = torch.sqrt(flat.dot(flat) / flat.numel() + eps)
        finished.append((scale * (flat / root) + shift).reshape(values.shape))
    return torch.stack(finished, dim=-1)


# ------- 7.3 gelu
def gelu__wrong_tenth_normal_of_the_tensor(x):
    """Standardises by the tensor's own mean and deviation first, so that an entry's result hangs on the others."""
    deviation, mean = torch.std_mean(x, correction=0)
    standard = (x - mean) / (deviation + 1e-12)
    return x * torch.special.ndtr(standard)


def gelu__wrong_tenth_root_of_two_twice(x):
    """Divides by the root of 2 although ndtr is the normal distribution itself, which does so already."""
    root = math.sqrt(2)
    return x.mul(torch.special.ndtr(x / root))


def gelu__wrong_tenth_cut_at_three(x):
    """Sets everything beyond -3 and 3 to 0 and x, where the difference is still 0.004."""
    inside = x.abs() < 3
    near = 0.5 * x * (1.0 + torch.erf(x * 2**-0.5))
    return torch.where(inside, near, torch.relu(x))


def gelu__wrong_tenth_number_by_number(x):
    """Computes each entry with math.erf from a list of floats, which cuts the gradient off."""
    out = []
    for value in x.flatten().tolist():
        phi = (1 + math.erf(value / math.sqrt(2))) / 2
        out.append(value * phi)
    return torch.tensor(out, dtype=x.dtype, device=x.device).reshape(x.shape)


def gelu__right_tenth_complement(x):
    """Uses the complementary error function of -x / sqrt(2), which is twice the normal probability."""
    twice = torch.special.erfc(-x / math.sqrt(2.0))
    return torch.mul(x, twice) / 2


# ------- 7.4 feed_forward
def feed_forward__wrong_tenth_activation_as_gate(x, W_1, b_1, W_2, b_2, activation):
    """Takes the activation for a gate and multiplies the hidden features by what it returns."""
    score = torch.matmul(x, W_1) + b_1
    hidden = score * activation(score)
    return torch.matmul(hidden, W_2) + b_2


def feed_forward__wrong_tenth_both_layers_bend(x, W_1, b_1, W_2, b_2, activation):
    """Runs both maps through the same loop, so that the activation also follows the second."""
    layers = ((W_1, b_1), (W_2, b_2))
    for W, b in layers:
        x = activation(F.linear(x, W.T, b))
    return x


def feed_forward__wrong_tenth_last_chunk_dropped(x, W_1, b_1, W_2, b_2, activation):
    """Works through the hidden features in chunks of 4 and drops the last ones where 4 does not divide d_ff."""
    d_ff = W_1.shape[1]
    size = min(4, d_ff)
    total = 0
    for c in range(d_ff // size):
        part = slice(c * size, (c + 1) * size)
        hidden = activation(x @ W_1[:, part] + b_1[part])
        total = total + hidden @ W_2[part]
    return total + b_2


def feed_forward__wrong_tenth_bias_collects(x, W_1, b_1, W_2, b_2, activation):
    """Begins each token's sum with b_2 itself and adds in place, so that b_2 is overwritten from token to token."""
    results = []
    for token in x.reshape(-1, x.shape[-1]):
        hidden = activation(token @ W_1 + b_1)
        out = b_2
        for k, value in enumerate(hidden):
            out += value * W_2[k]
        results.append(out.clone())
    return torch.stack(results).reshape(x.shape)


def feed_forward__right_tenth_bias_as_a_row(x, W_1, b_1, W_2, b_2, activation):
    """Appends a feature 1 to the tokens and the bias as a last row to each matrix."""

    def affine(t, W, b):
        one = torch.ones_like(t[..., :1])
        extended = torch.cat((t, one), dim=-1)
        return torch.einsum("...i,io->...o", extended, torch.cat((W, b[None]), dim=0))

    return affine(activation(affine(x, W_1, b_1)), W_2, b_2)


# ------- 7.5 post_norm_block
def post_norm_block__wrong_tenth_norm_before_add(x, params, n_heads, mask=None):
    """Norms what each sublayer returns and adds afterwards, so that the sum itself is never normed."""
    p = params
    heard = _multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    y = x + _layer_norm(heard, p["gamma_1"], p["beta_1"])
    thought = _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return y + _layer_norm(thought, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_tenth_shift_of_the_first(x, params, n_heads, mask=None):
    """Norms the second time with gamma_2 but with beta_1."""
    names = ("W_Q", "W_K", "W_V", "W_O", "b_O")
    W_1, b_1, W_2, b_2 = (params[name] for name in ("W_1", "b_1", "W_2", "b_2"))
    stream = x + _multi_head_attention(x, *(params[name] for name in names), n_heads, mask)
    stream = _layer_norm(stream, gamma=params["gamma_1"], beta=params["beta_1"])
    stream = stream + (_gelu(stream @ W_1 + b_1) @ W_2 + b_2)
    return _layer_norm(stream, gamma=params["gamma_2"], beta=params["beta_1"])


def post_norm_block__wrong_tenth_blind_query_averages(x, params, n_heads, mask=None):
    """Fills hidden scores with -1e9, so that a query that may attend to nothing averages all values instead of 0."""
    B, n, _ = x.shape

    def split(W):
        return torch.einsum("bnd,dhe->bhne", x, W.unflatten(1, (n_heads, -1)))

    Q, K, V = split(params["W_Q"]), split(params["W_K"]), split(params["W_V"])
    scores = torch.einsum("bhie,bhje->bhij", Q, K) / Q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    heads = torch.einsum("bhij,bhje->bihe", scores.softmax(-1), V).flatten(2)
    y = _layer_norm(x + heads @ params["W_O"] + params["b_O"], params["gamma_1"], params["beta_1"])
    f = _feed_forward(y, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu)
    return _layer_norm(y + f, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_tenth_width_of_a_head(x, params, n_heads, mask=None):
    """Scales the scores by the root of d_model / n_heads, which is not d_head where h*d_head differs from d_model."""
    batch, n, d_model = x.shape
    d_head = d_model / n_heads
    Q = (x @ params["W_Q"]).view(batch, n, n_heads, -1).permute(0, 2, 1, 3)
    K = (x @ params["W_K"]).view(batch, n, n_heads, -1).permute(0, 2, 3, 1)
    V = (x @ params["W_V"]).view(batch, n, n_heads, -1).permute(0, 2, 1, 3)
    scores = (Q @ K) * d_head**-0.5
    if mask is None:
        mask = torch.ones(n, n, dtype=torch.bool, device=x.device)
    anything = mask.any(-1, keepdim=True)
    scores = scores.masked_fill(~mask & anything, float("-inf"))
    heads = (scores.softmax(dim=-1) @ V).masked_fill(~anything, 0.0)
    attended = heads.permute(0, 2, 1, 3).flatten(2) @ params["W_O"] + params["b_O"]
    y = _layer_norm(x + attended, params["gamma_1"], params["beta_1"])
    z = y + _gelu(y @ params["W_1"] + params["b_1"]) @ params["W_2"] + params["b_2"]
    return _layer_norm(z, params["gamma_2"], params["beta_2"])


def post_norm_block__right_tenth_head_by_head(x, params, n_heads, mask=None):
    """Adds the heads one after the other to the stream, each through its own rows of W_O, then norms as in the text."""
    batch, n, _ = x.shape
    d_head = params["W_Q"].shape[1] // n_heads
    seen = None if mask is None else mask.expand(batch, n_heads, n, n)
    stream = x + params["b_O"]
    for head in range(n_heads):
        own = slice(head * d_head, (head + 1) * d_head)
        q, k, v = (x @ params[name][:, own] for name in ("W_Q", "W_K", "W_V"))
        scores = torch.einsum("bie,bje->bij", q, k) / math.sqrt(d_head)
        if seen is None:
            weights = torch.softmax(scores, dim=-1)
        else:
            blind = ~seen[:, head].any(dim=-1, keepdim=True)
            scores = torch.where(seen[:, head] | blind, scores, torch.full_like(scores, -math.inf))
            weights = torch.softmax(scores, dim=-1).masked_fill(blind, 0.0)
        stream = stream + weights @ (v @ params["W_O"][own])
    y = _layer_norm(stream, params["gamma_1"], params["beta_1"])
    hidden = y @ params["W_1"] + params["b_1"]
    hidden = hidden * torch.special.erfc(-hidden / math.sqrt(2)) / 2
    return _layer_norm(hidden @ params["W_2"] + params["b_2"] + y, params["gamma_2"], params["beta_2"])


# ------- 7.6 pre_norm_block
def pre_norm_block__wrong_tenth_normed_bypass(x, params, n_heads, mask=None):
    """Lets the bypass carry the normed tokens: each residual adds norm(x) where it should add x."""
    sublayers = (
        lambda t: _multi_head_attention(
            t, params["W_Q"], params["W_K"], params["W_V"], params["W_O"], params["b_O"], n_heads, mask
        ),
        lambda t: _feed_forward(t, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu),
    )
    for number, sublayer in enumerate(sublayers, start=1):
        x = _layer_norm(x, params[f"gamma_{number}"], params[f"beta_{number}"])
        x = x + sublayer(x)
    return x


def pre_norm_block__wrong_tenth_values_unnormed(x, params, n_heads, mask=None):
    """Takes the values from x itself, and only queries and keys from the normed tokens."""
    p = params
    B, n, _ = x.shape
    normed = _layer_norm(x, p["gamma_1"], p["beta_1"])
    Q, K = ((normed @ p[name]).reshape(B, n, n_heads, -1).transpose(1, 2) for name in ("W_Q", "W_K"))
    V = (x @ p["W_V"]).reshape(B, n, n_heads, -1).transpose(1, 2)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        none = ~mask.any(-1, keepdim=True)
        scores = scores.masked_fill(~(mask | none), -math.inf)
        weights = scores.softmax(-1).masked_fill(none, 0)
    else:
        weights = scores.softmax(-1)
    y = x + (weights @ V).transpose(1, 2).flatten(2) @ p["W_O"] + p["b_O"]
    return y + _feed_forward(_layer_norm(y, p["gamma_2"], p["beta_2"]), p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def pre_norm_block__wrong_tenth_one_mask_for_all(x, params, n_heads, mask=None):
    """Reduces a mask of more than two axes to its first (n, n) slice, so that all sequences and heads share it."""
    if mask is not None and mask.ndim > 2:
        mask = mask.reshape(-1, *mask.shape[-2:])[0]
    weights = {name: params[name] for name in ("W_Q", "W_K", "W_V", "W_O", "b_O")}
    normed = _layer_norm(x, params["gamma_1"], params["beta_1"])
    a = _multi_head_attention(normed, **weights, n_heads=n_heads, mask=mask)
    y = torch.add(x, a)
    h = _gelu(_layer_norm(y, params["gamma_2"], params["beta_2"]) @ params["W_1"] + params["b_1"])
    return torch.add(y, h @ params["W_2"] + params["b_2"])


def pre_norm_block__wrong_tenth_stream_is_x(x, params, n_heads, mask=None):
    """Adds each sublayer's result in place to a second name of x, so that the argument x is overwritten."""
    stream = x
    attention_weights = [params[name] for name in ("W_Q", "W_K", "W_V", "W_O", "b_O")]
    note = _layer_norm(stream, params["gamma_1"], params["beta_1"])
    stream += _multi_head_attention(note, *attention_weights, n_heads, mask)
    note = _layer_norm(stream, params["gamma_2"], params["beta_2"])
    stream += _feed_forward(note, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu)
    return stream


def pre_norm_block__right_tenth_norms_folded_into_weights(x, params, n_heads, mask=None):
    """Only standardises the tokens, and folds gamma and beta of both norms into the matrices that follow."""

    def standard(t):
        variance, mean = torch.var_mean(t, dim=-1, correction=0, keepdim=True)
        return (t - mean) * torch.rsqrt(variance + 1e-5)

    def folded(t, W, number):
        return t @ (params[f"gamma_{number}"].unsqueeze(1) * W) + params[f"beta_{number}"] @ W

    batch, n, _ = x.shape
    t = standard(x)
    q, k, v = (folded(t, params[name], 1).unflatten(-1, (n_heads, -1)) for name in ("W_Q", "W_K", "W_V"))
    scores = torch.einsum("bihe,bjhe->bhij", q, k) / math.sqrt(q.shape[-1])
    if mask is not None:
        mask = mask.expand(batch, n_heads, n, n)
        sighted = mask.any(-1, keepdim=True)
        scores = scores.masked_fill(sighted & ~mask, -math.inf)
        weights = torch.softmax(scores, -1) * sighted.to(x.dtype)
    else:
        weights = torch.softmax(scores, -1)
    heads = torch.einsum("bhij,bjhe->bihe", weights, v)
    y = x + torch.einsum("bihe,hed->bid", heads, params["W_O"].unflatten(0, (n_heads, -1))) + params["b_O"]
    hidden = folded(standard(y), params["W_1"], 2) + params["b_1"]
    return y + (hidden * torch.special.ndtr(hidden)) @ params["W_2"] + params["b_2"]


# ------- 7.7 transformer_logits
def transformer_logits__wrong_tenth_mask_in_first_block_only(tokens, params, n_heads):
    """Gives the causal mask to the first block alone, as if the future were hidden from then on."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    x = F.embedding(tokens, params["W_E"]) + params["W_pos"][:n]
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, mask)
        mask = None
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_tenth_strictly_earlier(tokens, params, n_heads):
    """Lets a token attend to the tokens before it but not to itself."""
    place = torch.arange(tokens.shape[1], device=tokens.device)
    earlier = place[:, None] > place[None, :]
    stream = params["W_E"][tokens] + params["W_pos"][place]
    for p in params["blocks"]:
        stream = _pre_norm_block(stream, p, n_heads, earlier)
    final = _layer_norm(stream, params["gamma_f"], params["beta_f"])
    return torch.einsum("bnd,dv->bnv", final, params["W_U"])


def transformer_logits__wrong_tenth_last_positions(tokens, params, n_heads):
    """Lines a short text up with the end of W_pos, so that it is right only where n is n_ctx."""
    batch, n = tokens.shape
    W_E, W_pos = params["W_E"], params["W_pos"]
    rows = [W_E[tokens[b]] + W_pos[-n:] for b in range(batch)]
    x = torch.stack(rows)
    causal = ~torch.triu(torch.ones((n, n), dtype=torch.bool), diagonal=1)
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, mask=causal)
    x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x.matmul(params["W_U"])


def transformer_logits__wrong_tenth_blocks_used_up(tokens, params, n_heads):
    """Pops the blocks off the list in params, so that the next call finds none."""
    n = tokens.size(1)
    x = params["W_E"].index_select(0, tokens.reshape(-1)).reshape(*tokens.shape, -1)
    x = x + params["W_pos"].narrow(0, 0, n)
    mask = torch.tril(torch.ones(n, n)).bool()
    todo = params["blocks"]
    while todo:
        x = _pre_norm_block(x, todo.pop(0), n_heads, mask)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__right_tenth_token_by_token_with_cache(tokens, params, n_heads):
    """Needs no mask: runs one position after the other through all blocks, keeping keys and values of the past."""
    batch, n = tokens.shape
    keys = [[] for _ in params["blocks"]]
    values = [[] for _ in params["blocks"]]
    ends = []
    for i in range(n):
        x = params["W_E"][tokens[:, i]] + params["W_pos"][i]
        for level, p in enumerate(params["blocks"]):
            t = _layer_norm(x, p["gamma_1"], p["beta_1"])
            q = (t @ p["W_Q"]).reshape(batch, n_heads, -1)
            keys[level].append((t @ p["W_K"]).reshape(batch, n_heads, -1))
            values[level].append((t @ p["W_V"]).reshape(batch, n_heads, -1))
            past_k, past_v = torch.stack(keys[level], 2), torch.stack(values[level], 2)
            scores = torch.einsum("bhe,bhje->bhj", q, past_k) / math.sqrt(q.shape[-1])
            heads = torch.einsum("bhj,bhje->bhe", torch.softmax(scores, -1), past_v)
            x = x + heads.flatten(1) @ p["W_O"] + p["b_O"]
            t = _layer_norm(x, p["gamma_2"], p["beta_2"])
            x = x + _feed_forward(t, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
        ends.append(_layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"])
    return torch.stack(ends, dim=1)


# ------- 7.8 bits_per_token
def bits_per_token__wrong_tenth_softmax_to_base_two(logits, targets, mask):
    """Takes the softmax with powers of 2 instead of powers of e, as if the logits were bits already."""
    rows, wanted = logits[mask], targets[mask]
    if rows.shape[0] == 0:
        return rows.sum()
    top = rows.amax(dim=-1, keepdim=True)
    total = torch.exp2(rows - top).sum(-1).log2() + top.squeeze(-1)
    score = rows.gather(-1, wanted.unsqueeze(-1)).squeeze(-1)
    return (total - score).mean()


def bits_per_token__wrong_tenth_shifted_once_more(logits, targets, mask):
    """Shifts the targets by one place, although place i already scores targets[:, i]."""
    scores, following, counts = logits[:, :-1], targets[:, 1:], mask[:, 1:]
    lp = torch.log_softmax(scores[counts], dim=-1)
    ids = following[counts]
    surprise = -lp[torch.arange(len(ids)), ids] / math.log(2)
    return surprise.sum() / max(1, len(ids))


def bits_per_token__wrong_tenth_filler_sorted_out_too_late(logits, targets, mask):
    """Sends filler through the softmax and drops its costs afterwards, so that NaN or inf in it makes gradients NaN."""
    ids = torch.where(mask, targets, torch.zeros_like(targets))
    logp = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    cost = -torch.take_along_dim(logp, ids[..., None], dim=-1)[..., 0] * math.log2(math.e)
    cost = torch.where(mask, cost, torch.zeros_like(cost))
    return cost.sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_tenth_targets_cleaned_in_place(logits, targets, mask):
    """Sets the targets of filler to 0 in the tensor that was handed in."""
    targets[~mask] = 0
    picked = logits.masked_fill(~mask.unsqueeze(-1), 0.0)
    nats = picked.logsumexp(-1) - picked.gather(2, targets[:, :, None])[:, :, 0]
    nats = nats.masked_fill(~mask, 0.0)
    return nats.sum() / (math.log(2) * max(int(mask.sum()), 1))


def bits_per_token__right_tenth_leads_over_the_target(logits, targets, mask):
    """Sums the exponentials of each logit's lead over the target's, row by row of what counts."""
    where = mask.flatten().nonzero().squeeze(1)
    rows = logits.flatten(0, 1).index_select(0, where)
    ids = targets.flatten().index_select(0, where)
    lead = rows - torch.take_along_dim(rows, ids.unsqueeze(1), dim=1)
    nats = torch.logsumexp(lead, dim=1)
    return nats.sum() / (max(where.numel(), 1) * math.log(2.0))


# ------- 7.9 adamw_step
def adamw_step__wrong_tenth_correction_that_stays(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Divides by 1 - beta at every step, instead of by 1 - beta**step, so that only the first is right."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    mean, square = m / (1 - beta1), v / (1 - beta2)
    return w - lr * weight_decay * w - lr * mean / (square.sqrt() + eps), m, v


def adamw_step__wrong_tenth_root_before_correction(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Takes the root of v first and divides the root by 1 - beta2**step, instead of the square."""

    def mean_of(average, beta):
        return average / (1 - beta**step)

    new_m = torch.lerp(m, grad, 1 - beta1)
    new_v = torch.lerp(v, grad.square(), 1 - beta2)
    unit = mean_of(torch.sqrt(new_v), beta2) + eps
    kept = w * (1 - lr * weight_decay)
    return kept - lr * mean_of(new_m, beta1) / unit, new_m, new_v


def adamw_step__wrong_tenth_zero_gradient_rests(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Leaves a weight where its gradient is 0 just now, though the past gradients should still move it."""
    new_m = m + (grad - m) * (1 - beta1)
    new_v = v + (grad * grad - v) * (1 - beta2)
    bias1, bias2 = 1 - math.pow(beta1, step), 1 - math.pow(beta2, step)
    direction = (new_m / bias1) / ((new_v / bias2) ** 0.5 + eps)
    direction = torch.where(grad == 0, torch.zeros_like(direction), direction)
    return w - lr * (direction + weight_decay * w), new_m, new_v


def adamw_step__wrong_tenth_averages_in_place(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Updates m and v in place and returns the very tensors that were handed in."""
    m.mul_(beta1).add_(grad, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    root = v.div(1 - beta2**step).sqrt().add(eps)
    w = w.mul(1 - lr * weight_decay).addcdiv(m, root, value=-lr / (1 - beta1**step))
    return w, m, v


def adamw_step__right_tenth_stacked_with_rescaled_eps(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Updates both averages in one stacked tensor and puts the corrections into the length of the step and into eps."""
    old, new = torch.stack((m, v)), torch.stack((grad, grad * grad))
    keep = torch.tensor((beta1, beta2), dtype=torch.float64).reshape(2, *[1] * grad.ndim)
    state = old * keep.to(grad) + new * (1 - keep).to(grad)
    lacking_1, lacking_2 = (1 - beta**step for beta in (beta1, beta2))
    root = math.sqrt(lacking_2)
    unit = torch.sqrt(state[1]) + eps * root
    move = state[0] * (lr * root / lacking_1) / torch.where(unit > 0, unit, torch.ones_like(unit))
    return w - (move + lr * weight_decay * w), state[0].clone(), state[1].clone()


# ------- 7.10 sample
def sample__wrong_tenth_nucleus_before_temperature(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Chooses the set of top_p with the model's own probabilities, and applies the temperature only to the draw."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p = torch.softmax(logits, dim=-1).tolist()
            ranked = sorted(range(len(p)), key=lambda i: -p[i])
            allowed, total = [], 0.0
            for i in ranked:
                allowed.append(i)
                total += p[i]
                if total >= top_p and top_p < 1:
                    break
            cut = torch.full_like(logits, -math.inf)
            cut[allowed] = logits[allowed]
            gap = (cut.double() - cut.max().double()) / temperature
            token = int(torch.multinomial(gap.exp().to(logits.dtype), 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_tenth_draw_in_sorted_order(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Draws over the sorted probabilities and looks the id up afterwards, so that p is not in the order of ids."""
    out = prompt[:]
    for _ in range(max_len - len(prompt)):
        logits = next_logits(out[:])
        if temperature == 0:
            out.append(logits.argmax().item())
        else:
            scaled = (logits.double() - logits.max()) / temperature
            p, ids = torch.softmax(scaled, -1).sort(descending=True)
            before = p.cumsum(0) - p
            keep = (before < top_p) | (top_p >= 1)
            keep[0] = True
            place = torch.multinomial((p * keep).to(logits.dtype), 1, generator=generator)
            out.append(ids[place].item())
        if out[-1] == end:
            return out
    return out


def sample__wrong_tenth_floor_under_temperature(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Raises every temperature between 0 and 0.01 to 0.01, so that close logits are drawn from too evenly."""

    def kept(p):
        values, order = torch.sort(p, descending=True)
        chosen, total = torch.zeros_like(p), 0.0
        for value, i in zip(values.tolist(), order.tolist()):
            chosen[i], total = value, total + value
            if total >= top_p and top_p < 1:
                break
        return chosen

    greedy = temperature == 0
    temperature = max(temperature, 0.01)  # never divide by nearly nothing
    tokens = [*prompt]
    while len(tokens) < max_len:
        logits = next_logits([*tokens])
        if greedy:
            tokens.append(int(torch.argmax(logits)))
        else:
            p = kept(torch.softmax(logits.double() / temperature, dim=0)).to(logits.dtype)
            tokens.append(int(torch.multinomial(p, 1, generator=generator)))
        if tokens[-1] == end:
            break
    return tokens


def sample__wrong_tenth_prompt_may_end_it(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Stops whenever the last token is the end, also where it is the prompt that closes with it."""
    text = list(prompt)
    while text[-1] != end and len(text) < max_len:
        logits = next_logits(list(text))
        best = int(logits.argmax())
        if temperature == 0:
            text.append(best)
            continue
        weight = torch.exp((logits.double() - logits[best].double()) / temperature)
        share = weight / weight.sum()
        likelier = share[None, :] > share[:, None]
        mass = (likelier * share[None, :]).sum(1)
        allowed = (mass < top_p) | (top_p >= 1)
        allowed[best] = True
        drawn = torch.multinomial(torch.where(allowed, weight, 0.0).to(logits.dtype), 1, generator=generator)
        text.append(int(drawn))
    return text


def sample__right_tenth_sums_from_the_unlikely_end(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Leaves out ids from the unlikely end, as long as those left out have 1 - top_p together or less."""

    def choose(logits):
        best = int(torch.argmax(logits))
        if temperature == 0:
            return best
        wide = logits.double()
        weights = torch.exp((wide - wide[best]) / temperature)  # the best one gets 1
        rising = torch.argsort(weights)
        up_to_here = torch.cumsum(weights[rising], dim=0)
        left_out = rising[up_to_here <= (1 - top_p) * up_to_here[-1]]
        weights = weights.index_fill(0, left_out, 0.0)
        weights[best] = 1.0
        return int(torch.multinomial(weights.to(logits.dtype), 1, generator=generator))

    written = []
    while len(prompt) + len(written) < max_len:
        written.append(choose(next_logits(list(prompt) + written)))
        if written[-1] == end:
            break
    return list(prompt) + written
