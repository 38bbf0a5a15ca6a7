"""Unit 7, the transformer block: answers as students might write them, four wrong and one right per exercise."""

import heapq
import math

import torch
import torch.nn.functional as F


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    batch, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V))
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    if mask is None:
        heads = torch.softmax(scores, dim=-1) @ V
    else:
        mask = mask.expand(batch, n_heads, n, n)
        some = mask.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(some & ~mask, -math.inf)
        heads = (torch.softmax(scores, dim=-1) * some) @ V
    return heads.transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def _layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = (centred * centred).mean(dim=-1, keepdim=True)
    return gamma * centred / torch.sqrt(variance + eps) + beta


def _gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def _feed_forward(x, W_1, b_1, W_2, b_2, activation):
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def _attention_of(x, p, n_heads, mask):
    return _multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)


def _ffn_of(x, p):
    return _feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def _pre_norm_block(x, params, n_heads, mask=None):
    y = x + _attention_of(_layer_norm(x, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    return y + _ffn_of(_layer_norm(y, params["gamma_2"], params["beta_2"]), params)


def _weights_at(logits, temperature):
    gap = logits.double() - logits.double().max()
    return torch.where(gap == -math.inf, gap, gap / temperature).exp()


def _nucleus(weights, top_p):
    if top_p >= 1:
        return torch.ones_like(weights, dtype=torch.bool)
    p, ids = torch.sort(weights / weights.sum(), descending=True)
    keep_sorted = p.cumsum(0) - p < top_p
    keep_sorted[0] = True
    keep = torch.zeros_like(keep_sorted)
    keep[ids] = keep_sorted
    return keep


# ------- 7.1 layer_norm


def layer_norm__wrong_eleventh_eps_as_floor(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """eps is taken for the least value that the variance may have instead of being added to it."""
    d = x.shape[-1]
    dev = x - (x.sum(-1) / d).unsqueeze(-1)
    var = torch.einsum("...d,...d->...", dev, dev) / d
    var = var.clamp(min=eps)  # never divide by 0
    return dev * var.rsqrt().unsqueeze(-1) * gamma + beta


def layer_norm__wrong_eleventh_shift_before_scale(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """beta is added before gamma multiplies, so the shift becomes gamma * beta."""
    spread, middle = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    standard = (x - middle) / (spread + eps) ** 0.5
    return torch.einsum("...d,d->...d", standard + beta, gamma)


def layer_norm__wrong_eleventh_squares_minus_square(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The variance is the mean of squares minus the square of the mean, which has no digits left for large float32."""
    d = x.shape[-1]
    total = x.sum(dim=-1, keepdim=True)
    total_of_squares = x.pow(2).sum(dim=-1, keepdim=True)
    mu = total / d
    sigma2 = torch.relu(total_of_squares / d - mu * mu)
    return gamma * ((x - mu) / torch.sqrt(sigma2 + eps)) + beta


def layer_norm__wrong_eleventh_centres_the_argument(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The means are subtracted in place from a reshaped view of x, so the caller's x is changed."""
    tokens = x.reshape(-1, x.shape[-1])
    tokens -= tokens.mean(dim=1, keepdim=True)
    size = ((tokens**2).mean(dim=1, keepdim=True) + eps).sqrt()
    return (tokens / size * gamma + beta).reshape(x.shape)


def layer_norm__right_eleventh_pairs_of_features(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Deviations and variance come from the differences of all pairs of features, no mean of x is ever taken."""
    pairs = x.unsqueeze(-1) - x.unsqueeze(-2)
    deviation = pairs.mean(dim=-1)
    variance = pairs.square().mean(dim=(-2, -1)).unsqueeze(-1) / 2
    return torch.addcmul(beta, gamma, deviation / torch.sqrt(variance + eps))


# ------- 7.2 batch_norm


def batch_norm__wrong_eleventh_variance_within_sequences(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The variance is the mean of the sequences' own variances, so differences between sequences do not count."""
    means, variances = [], []
    for sequence in x:
        means.append(sequence.mean(0))
        variances.append(((sequence - sequence.mean(0)) ** 2).mean(0))
    mean = torch.stack(means).mean(0)
    variance = torch.stack(variances).mean(0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_eleventh_reshape_for_transpose(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The features are brought to the front by reshape instead of by a transposition, which mixes them up."""
    B, n, d = x.shape
    features = x.reshape(d, B * n)
    features = features - features.mean(1, keepdim=True)
    spread = features.square().mean(1, keepdim=True)
    features = features / (spread + eps).sqrt()
    return features.reshape(B, n, d) * gamma + beta


def batch_norm__wrong_eleventh_leaves_out_zero_tokens(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Tokens of zeros are taken for padding and left out of mean and variance."""
    real = (x != 0).any(dim=-1, keepdim=True)
    count = real.sum().clamp(min=1)
    mean = (x * real).sum(dim=(0, 1)) / count
    centred = x - mean
    variance = (centred**2 * real).sum(dim=(0, 1)) / count
    return gamma * centred / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_eleventh_statistics_as_constants(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Mean and variance are computed without gradients, so the gradient of x lacks their part."""
    rows = x.flatten(0, 1)
    with torch.no_grad():
        mean = rows.mean(dim=0)
        inverse = torch.rsqrt(rows.var(dim=0, correction=0) + eps)
    return (x - mean) * inverse * gamma + beta


def batch_norm__right_eleventh_covariance(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """All is measured from the first token, and the variances are the diagonal of the features' covariance matrix."""
    d = x.shape[-1]
    moved = (x - x[:1, :1]).permute(2, 0, 1).flatten(1)  # (d, B*n)
    variance = torch.cov(moved, correction=0).reshape(d, d).diagonal()
    centred = moved - moved.mean(dim=1, keepdim=True)
    scale = gamma / torch.sqrt(variance + eps)
    y = centred * scale[:, None] + beta[:, None]
    return y.unflatten(1, x.shape[:2]).permute(1, 2, 0)


# ------- 7.3 gelu


def gelu__wrong_eleventh_density(x: torch.Tensor) -> torch.Tensor:
    """x is multiplied by the density of the normal distribution instead of by the probability of being below x."""
    density = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return x * density


def gelu__wrong_eleventh_root_of_two_pi(x: torch.Tensor) -> torch.Tensor:
    """erf is taken of x over the root of 2 pi instead of the root of 2."""
    z = x / math.sqrt(2 * math.pi)
    return x - 0.5 * x * torch.erfc(z)


def gelu__wrong_eleventh_number_by_number(x: torch.Tensor) -> torch.Tensor:
    """The numbers go through Python one by one, which cuts the result off from x: no gradient flows."""

    def phi(value):
        return 0.5 * math.erfc(-value / math.sqrt(2))

    values = [value * phi(value) for value in x.flatten().tolist()]
    return torch.tensor(values, dtype=x.dtype).reshape(x.shape)


def gelu__wrong_eleventh_straight_far_out(x: torch.Tensor) -> torch.Tensor:
    """Beyond a distance of 2.5 from 0 the result is set to x or 0, where the true one still differs by a hundredth."""
    inside = x.clamp(-2.5, 2.5)
    middle = 0.5 * inside * (1.0 + torch.erf(inside * 0.5**0.5))
    return torch.where(x.abs() <= 2.5, middle, torch.relu(x))


def gelu__right_eleventh_lerp_by_ndtr(x: torch.Tensor) -> torch.Tensor:
    """Goes from 0 towards x by the share of the normal distribution function, torch.special.ndtr."""
    return torch.lerp(torch.zeros_like(x), x, torch.special.ndtr(x))


# ------- 7.4 feed_forward


def feed_forward__wrong_eleventh_activated_one(x, W_1, b_1, W_2, b_2, activation):
    """The biases are rows met by an extra feature 1, and the activation acts on that 1 too: b_2 counts act(1) times."""
    d_model, d_ff = W_1.shape
    first = torch.cat([W_1, b_1[None]])  # (d_model + 1, d_ff)
    first = torch.cat([first, first.new_zeros(d_model + 1, 1)], dim=1)
    one = torch.zeros_like(first)
    one[-1, -1] = 1
    second = torch.cat([W_2, b_2[None]])
    wide = torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)
    return activation(wide @ (first + one)) @ second


def feed_forward__wrong_eleventh_counts_the_wrong_width(x, W_1, b_1, W_2, b_2, activation):
    """The sum over the hidden features runs to d_model instead of d_ff, so it leaves features out."""
    hidden = activation(torch.einsum("...d,df->...f", x, W_1) + b_1)
    result = b_2
    for k in range(W_2.shape[1]):
        result = result + hidden[..., k, None] * W_2[k]
    return result


def feed_forward__wrong_eleventh_squeezed(x, W_1, b_1, W_2, b_2, activation):
    """All axes of size 1 are squeezed out of the result, not only the one that was added for a single token."""
    tokens = x.unsqueeze(0) if x.ndim == 1 else x
    hidden = torch.matmul(tokens, W_1).add(b_1)
    out = torch.matmul(activation(hidden), W_2).add(b_2)
    return out.squeeze()


def feed_forward__wrong_eleventh_turns_square_weights(x, W_1, b_1, W_2, b_2, activation):
    """Weights are also accepted as nn.Linear stores them, and square ones are mistaken for these and transposed."""

    def linear(tokens, weight, bias):
        if weight.shape == (bias.shape[0], tokens.shape[-1]):
            return F.linear(tokens, weight, bias)
        return F.linear(tokens, weight.T, bias)

    return linear(activation(linear(x, W_1, b_1)), W_2, b_2)


def feed_forward__right_eleventh_rows_added_up(x, W_1, b_1, W_2, b_2, activation):
    """F.linear on the transposed W_1, then each hidden feature times its row of W_2, summed by broadcasting."""
    answers = activation(F.linear(x, W_1.T, b_1))
    contributions = answers.unsqueeze(-1) * W_2  # (..., d_ff, d_model)
    return b_2 + contributions.sum(dim=-2)


# ------- 7.5 post_norm_block


def post_norm_block__wrong_eleventh_norm_then_add(x, params, n_heads, mask=None):
    """Each sublayer's output is normed and then added to the stream, instead of the sum being normed."""

    def norm(t, which):
        return _layer_norm(t, params[f"gamma_{which}"], params[f"beta_{which}"])

    stream = x
    sublayers = [lambda t: _attention_of(t, params, n_heads, mask), lambda t: _ffn_of(t, params)]
    for which, sublayer in enumerate(sublayers, start=1):
        stream = stream + norm(sublayer(stream), which)
    return stream


def post_norm_block__wrong_eleventh_ffn_of_x(x, params, n_heads, mask=None):
    """The feed-forward network is given x, the input of the block, instead of the normed y."""
    attended = _multi_head_attention(
        x, *(params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O")), n_heads, mask
    )
    y = _layer_norm(attended + x, params["gamma_1"], params["beta_1"])
    hidden = _gelu(torch.einsum("bnd,df->bnf", x, params["W_1"]) + params["b_1"])
    processed = torch.einsum("bnf,fd->bnd", hidden, params["W_2"]) + params["b_2"]
    return _layer_norm(processed + y, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_eleventh_three_axes_are_per_sequence(x, params, n_heads, mask=None):
    """A mask of three axes is read as one per sequence, while by broadcasting it is one per head."""
    if mask is not None and mask.ndim == 3:
        mask = mask[:, None]  # the same for all heads
    y = x + _attention_of(x, params, n_heads, mask)
    y = _layer_norm(y, params["gamma_1"], params["beta_1"])
    z = y + _ffn_of(y, params)
    return _layer_norm(z, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_eleventh_weights_by_order(x, params, n_heads, mask=None):
    """The weights are taken in the order of the dictionary instead of by their names."""
    *attention, W_1, b_1, W_2, b_2, gamma_1, beta_1, gamma_2, beta_2 = params.values()
    x = _layer_norm(x + _multi_head_attention(x, *attention, n_heads, mask=mask), gamma_1, beta_1)
    return _layer_norm(x + _feed_forward(x, W_1, b_1, W_2, b_2, _gelu), gamma_2, beta_2)


def post_norm_block__right_eleventh_one_sequence_at_a_time(x, params, n_heads, mask=None):
    """Goes through the sequences one by one, head by head, with two-dimensional products only."""
    B, n, _ = x.shape
    allowed = None if mask is None else mask.expand(B, n_heads, n, n)
    W_Q, W_K, W_V = (params[name].chunk(n_heads, dim=1) for name in ("W_Q", "W_K", "W_V"))
    W_O = params["W_O"].chunk(n_heads, dim=0)

    def normed(t, which):
        spread, middle = torch.var_mean(t, dim=1, correction=0, keepdim=True)
        return (t - middle) * torch.rsqrt(spread + 1e-5) * params["gamma_" + which] + params["beta_" + which]

    results = []
    for b in range(B):
        total = x[b] + params["b_O"]
        for h in range(n_heads):
            scores = (x[b] @ W_Q[h]) @ (x[b] @ W_K[h]).T / math.sqrt(W_Q[h].shape[1])
            if allowed is None:
                pattern = scores.softmax(1)
            else:
                blind = ~allowed[b, h].any(1, keepdim=True)
                pattern = scores.masked_fill(~(allowed[b, h] | blind), -math.inf).softmax(1)
                pattern = pattern.masked_fill(blind, 0)
            total = total + pattern @ (x[b] @ W_V[h]) @ W_O[h]
        y = normed(total, "1")
        hidden = torch.addmm(params["b_1"], y, params["W_1"])
        hidden = hidden * torch.special.ndtr(hidden)
        results.append(normed(y + torch.addmm(params["b_2"], hidden, params["W_2"]), "2"))
    return torch.stack(results)


# ------- 7.6 pre_norm_block


def pre_norm_block__wrong_eleventh_bypass_carries_the_normed(x, params, n_heads, mask=None):
    """The second bypass carries the normed y instead of y, because the name is used again."""
    normed = _layer_norm(x, params["gamma_1"], params["beta_1"])
    h = _attention_of(normed, params, n_heads, mask)
    h = h + x
    h = _layer_norm(h, params["gamma_2"], params["beta_2"])
    h = h + _ffn_of(h, params)
    return h


def pre_norm_block__wrong_eleventh_side_by_side(x, params, n_heads, mask=None):
    """The feed-forward network sees norm 2 of x, not of y: it does not hear what attention has brought."""
    updates = []
    for number in (1, 2):
        seen = _layer_norm(x, params[f"gamma_{number}"], params[f"beta_{number}"])
        if number == 1:
            updates.append(_attention_of(seen, params, n_heads, mask))
        else:
            updates.append(_ffn_of(seen, params))
    return x + sum(updates)


def pre_norm_block__wrong_eleventh_width_of_heads_guessed(x, params, n_heads, mask=None):
    """Its own attention scales by the root of d_model / n_heads, which need not be the width of a head."""
    B, n, d_model = x.shape
    seen = _layer_norm(x, params["gamma_1"], params["beta_1"])
    q, k, v = (
        torch.einsum("bnd,dhk->bhnk", seen, params[name].reshape(d_model, n_heads, -1))
        for name in ("W_Q", "W_K", "W_V")
    )
    scores = torch.einsum("bhik,bhjk->bhij", q, k) * (d_model / n_heads) ** -0.5
    if mask is None:
        pattern = torch.softmax(scores, -1)
    else:
        mask = mask.expand(B, n_heads, n, n)
        anything = mask.any(-1, keepdim=True)
        pattern = torch.softmax(scores.masked_fill(~mask & anything, -torch.inf), -1) * anything
    joined = torch.einsum("bhij,bhjk->bihk", pattern, v).flatten(2)
    y = x + joined @ params["W_O"] + params["b_O"]
    return y + _ffn_of(_layer_norm(y, params["gamma_2"], params["beta_2"]), params)


def pre_norm_block__wrong_eleventh_mask_turned_round(x, params, n_heads, mask=None):
    """The mask is turned round before it goes to the attention, as if True meant hidden."""
    hidden = None if mask is None else mask.logical_not()
    p = params
    x = x + _multi_head_attention(
        X=_layer_norm(x, p["gamma_1"], p["beta_1"]),
        W_Q=p["W_Q"],
        W_K=p["W_K"],
        W_V=p["W_V"],
        W_O=p["W_O"],
        b_O=p["b_O"],
        n_heads=n_heads,
        mask=hidden,
    )
    x = x + _feed_forward(_layer_norm(x, p["gamma_2"], p["beta_2"]), p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return x


def pre_norm_block__right_eleventh_query_by_query(x, params, n_heads, mask=None):
    """Each query picks out the tokens that it may see and takes a softmax over these alone; no score is masked."""
    B, n, _ = x.shape
    if mask is None:
        mask = torch.ones(n, n, dtype=torch.bool, device=x.device)
    mask = mask.expand(B, n_heads, n, n)
    seen = _layer_norm(x, params["gamma_1"], params["beta_1"])
    Q, K, V = ((seen @ params[name]).unflatten(-1, (n_heads, -1)) for name in ("W_Q", "W_K", "W_V"))
    sequences = []
    for b in range(B):
        tokens = []
        for i in range(n):
            found = []
            for h in range(n_heads):
                keys, values = K[b, mask[b, h, i], h], V[b, mask[b, h, i], h]
                weights = torch.softmax(keys @ Q[b, i, h] / math.sqrt(keys.shape[-1]), dim=0)
                found.append(weights @ values)
            tokens.append(torch.cat(found))
        sequences.append(torch.stack(tokens))
    y = x + (torch.stack(sequences) @ params["W_O"] + params["b_O"])
    normed = _layer_norm(y, params["gamma_2"], params["beta_2"])
    return y + F.linear(_gelu(F.linear(normed, params["W_1"].T, params["b_1"])), params["W_2"].T, params["b_2"])


# ------- 7.7 transformer_logits


def transformer_logits__wrong_eleventh_mask_in_first_block_only(tokens, params, n_heads):
    """Only the first block is given the causal mask; the later ones see the future."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, mask)
        mask = None  # from here on the future is hidden already
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_eleventh_last_positions(tokens, params, n_heads):
    """A text shorter than n_ctx gets the last rows of W_pos instead of the first."""
    W_E, W_pos = params["W_E"], params["W_pos"]
    n = tokens.size(1)
    one_hot = F.one_hot(tokens, W_E.shape[0]).to(W_E.dtype)
    stream = torch.einsum("bnv,vd->bnd", one_hot, W_E) + W_pos[-n:]
    place = torch.arange(n)
    past = place[:, None] >= place[None, :]
    for block in params["blocks"]:
        stream = _pre_norm_block(stream, block, n_heads, past)
    stream = _layer_norm(stream, params["gamma_f"], params["beta_f"])
    return torch.einsum("bnd,dv->bnv", stream, params["W_U"])


def transformer_logits__wrong_eleventh_zero_is_padding(tokens, params, n_heads):
    """Tokens with the id 0 are taken for padding and hidden from all queries."""
    B, n = tokens.shape
    x = F.embedding(tokens, params["W_E"]) + params["W_pos"][torch.arange(n)]
    mask = torch.triu(torch.ones(n, n, dtype=torch.bool), 1).logical_not()
    mask = mask & (tokens != 0).view(B, 1, 1, n)
    for p in params["blocks"]:
        x = _pre_norm_block(x, p, n_heads, mask)
    return torch.matmul(_layer_norm(x, params["gamma_f"], params["beta_f"]), params["W_U"])


def transformer_logits__wrong_eleventh_empties_the_list(tokens, params, n_heads):
    """The blocks are popped from the list in params, so the caller's model has no blocks any more."""
    _, n = tokens.shape
    mask = torch.tensor([[j <= i for j in range(n)] for i in range(n)])
    x = torch.stack([params["W_E"][row] for row in tokens])
    x = x + params["W_pos"].narrow(0, 0, n)
    blocks = params["blocks"]
    while blocks:
        x = _pre_norm_block(x, blocks.pop(0), n_heads, mask)
    x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__right_eleventh_position_by_position(tokens, params, n_heads):
    """One position after the other with kept keys and values of the past, so that no mask is needed."""
    batch, n = tokens.shape
    past = [([], []) for _ in params["blocks"]]
    scores = []
    for i in range(n):
        x = params["W_E"][tokens[:, i]] + params["W_pos"][i]  # (B, d_model)
        for p, (keys, values) in zip(params["blocks"], past, strict=True):
            seen = _layer_norm(x, p["gamma_1"], p["beta_1"])
            query, key, value = ((seen @ p[w]).reshape(batch, n_heads, -1) for w in ("W_Q", "W_K", "W_V"))
            keys.append(key)
            values.append(value)
            K, V = torch.stack(keys, dim=2), torch.stack(values, dim=2)  # (B, h, i + 1, d_head)
            weights = torch.einsum("bhk,bhjk->bhj", query, K) / math.sqrt(K.shape[-1])
            heads = torch.einsum("bhj,bhjk->bhk", weights.softmax(-1), V)
            x = x + heads.reshape(batch, -1) @ p["W_O"] + p["b_O"]
            x = x + _ffn_of(_layer_norm(x, p["gamma_2"], p["beta_2"]), p)
        scores.append(_layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"])
    return torch.stack(scores, dim=1)


# ------- 7.8 bits_per_token


def bits_per_token__wrong_eleventh_powers_of_two(logits, targets, mask):
    """The logits are taken as exponents of 2 instead of e, so the probabilities are not those of softmax."""
    scores, wanted = logits[mask], targets[mask]
    ln2 = math.log(2)
    total = torch.logsumexp(scores * ln2, dim=-1) / ln2
    cost = total - scores.gather(-1, wanted[:, None])[:, 0]
    return cost.sum() / max(len(cost), 1)


def bits_per_token__wrong_eleventh_shifted_by_one(logits, targets, mask):
    """Place i is made to score targets[:, i + 1], though the targets are shifted already."""
    counts = mask[:, 1:]
    log_p = torch.log_softmax(logits[:, :-1][counts], dim=-1)
    wanted = targets[:, 1:][counts]
    surprise = -log_p[torch.arange(len(wanted)), wanted] / math.log(2)
    return surprise.sum() / counts.sum().clamp(min=1)


def bits_per_token__wrong_eleventh_filler_replaced_at_the_end(logits, targets, mask):
    """Only the costs of filler are replaced by 0, after the softmax: NaN or infinite filler has NaN gradients."""
    safe = torch.where(mask, targets, 0)
    log_p = F.log_softmax(logits, dim=-1)
    cost = -log_p.gather(2, safe.unsqueeze(2)).squeeze(2)
    cost = torch.where(mask, cost, torch.zeros_like(cost))
    return cost.sum() / mask.sum().clamp(min=1) / math.log(2)


def bits_per_token__wrong_eleventh_filler_only_at_the_end(logits, targets, mask):
    """Takes the first tokens of each row, as many as count, as if filler stood at the end of a row only."""
    lengths = mask.sum(dim=1).tolist()
    total, count = logits[:0].sum(), 0
    for row, (ids, length) in enumerate(zip(targets, lengths, strict=True)):
        for i in range(length):
            scores = logits[row, i]
            total = total + torch.logsumexp(scores, 0) - scores[ids[i]]
            count += 1
    return total / (max(count, 1) * math.log(2))


def bits_per_token__right_eleventh_leads_over_the_target(logits, targets, mask):
    """The cost is the logarithm of the sum of the exponentials of all leads over the target's logit."""
    row, place = mask.nonzero(as_tuple=True)
    scores = logits[row, place]
    leads = scores - scores[torch.arange(len(row)), targets[row, place]].unsqueeze(-1)
    nats = torch.logsumexp(leads, dim=-1)
    return nats.sum() * (math.log2(math.e) / max(1, len(row)))


# ------- 7.9 adamw_step


def adamw_step__wrong_eleventh_eps_beside_uncorrected_root(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Both corrections are put into the learning rate, so eps is added to the root of v, not of the mean square."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad * grad
    rate = lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)
    return w - rate * m / (v.sqrt() + eps) - lr * weight_decay * w, m, v


def adamw_step__wrong_eleventh_decays_the_moved(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """The decay takes its share of the weight after the move instead of the old weight."""

    def mean(old, new, beta):
        kept = old * beta + new * (1 - beta)
        return kept, kept / (1 - beta**step)

    m_next, mean_gradient = mean(m, grad, beta1)
    v_next, mean_square = mean(v, grad.square(), beta2)
    w_next = w - lr * mean_gradient / (mean_square.sqrt() + eps)
    w_next = w_next - lr * weight_decay * w_next
    return w_next, m_next, v_next


def adamw_step__wrong_eleventh_no_fading_without_gradient(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Where the gradient is 0, m and v are left as they were instead of fading."""
    has_gradient = grad != 0
    m = torch.where(has_gradient, beta1 * m + (1 - beta1) * grad, m)
    v = torch.where(has_gradient, beta2 * v + (1 - beta2) * grad**2, v)
    mean = m / (1 - beta1**step)
    size = torch.sqrt(v / (1 - beta2**step))
    w = (1 - lr * weight_decay) * w - lr * mean / (size + eps)
    return w, m, v


def adamw_step__wrong_eleventh_decays_matrices_only(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Tensors of fewer than two axes, such as biases, are not decayed at all."""
    new_m = torch.lerp(m, grad, 1 - beta1)
    new_v = torch.lerp(v, grad * grad, 1 - beta2)
    unit = (new_v / (1 - beta2**step)) ** 0.5 + eps
    move = lr / (1 - beta1**step) * new_m / unit
    if w.ndim >= 2:
        move = move + lr * weight_decay * w
    return w - move, new_m, new_v


def adamw_step__right_eleventh_sums_of_the_weights(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Adds up what all gradients so far count in m and in v, one by one, and multiplies the fraction out."""
    new_m = torch.add(grad * (1 - beta1), m, alpha=beta1)
    new_v = torch.addcmul(v * beta2, grad, grad, value=1 - beta2)
    in_m = math.fsum((1 - beta1) * beta1**age for age in range(step))
    in_v = math.fsum((1 - beta2) * beta2**age for age in range(step))
    below = in_m * (new_v.sqrt() + eps * math.sqrt(in_v))
    change = math.sqrt(in_v) * new_m / below + weight_decay * w
    return torch.sub(w, change, alpha=lr), new_m, new_v


# ------- 7.10 sample


def sample__wrong_eleventh_nucleus_before_temperature(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The ids that may come are chosen with the probabilities at temperature 1, before the temperature acts."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            new = logits.argmax().item()
        else:
            keep = _nucleus(torch.softmax(logits.double(), dim=0), top_p)
            allowed = torch.where(keep, logits, -math.inf)
            p = _weights_at(allowed, temperature)
            new = torch.multinomial(p.to(logits.dtype), 1, generator=generator).item()
        tokens.append(new)
        if new == end:
            break
    return tokens


def sample__wrong_eleventh_end_of_the_prompt_stops(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The last token is compared with the end before anything is written, so a prompt that closes with it stops all."""

    def choose(logits):
        if temperature == 0:
            return int(torch.argmax(logits))
        p = _weights_at(logits, temperature)
        p = (p * _nucleus(p, top_p)).to(logits.dtype)
        return int(torch.multinomial(p, 1, generator=generator))

    text = [*prompt]
    while len(text) < max_len and text[-1] != end:
        text.append(choose(next_logits(text[:])))
    return text


def sample__wrong_eleventh_bars_ids_in_the_models_tensor(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """The ids left out are set to minus infinity in the very tensor that the model returned, which may be its own."""
    out = list(prompt)
    for _ in range(max_len - len(prompt)):
        scores = next_logits(list(out))
        if temperature > 0:
            keep = _nucleus(_weights_at(scores, temperature), top_p)
            scores[~keep] = -math.inf
            p = _weights_at(scores, temperature).to(scores.dtype)
            out.append(int(torch.multinomial(p, 1, generator=generator)[0]))
        else:
            out.append(int(scores.argmax()))
        if out[-1] == end:
            return out
    return out


def sample__wrong_eleventh_least_temperature(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Temperatures above 0 are raised to a hundredth at least, so small ones have the odds of 0.01."""
    written = []
    while len(prompt) + len(written) < max_len:
        logits = next_logits(prompt + written)
        if temperature == 0:
            written.append(max(range(len(logits)), key=logits.tolist().__getitem__))
        else:
            t = max(temperature, 1e-2)  # do not divide by next to nothing
            p = torch.softmax((logits.double() - logits.max()) / t, dim=-1)
            order = p.argsort(descending=True).tolist()
            chosen, mass = [], 0.0
            for i in order:
                chosen.append(i)
                mass += float(p[i])
                if mass >= top_p and top_p < 1:
                    break
            kept = torch.zeros_like(p)
            kept[chosen] = p[chosen]
            written.append(torch.multinomial(kept.to(logits.dtype), 1, generator=generator).item())
        if written[-1] == end:
            break
    return prompt + written


def sample__right_eleventh_heap_of_ids(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Recursion over the text; the ids that may come are taken from a heap until their share suffices."""

    def allowed(odds):
        total = math.fsum(odds)
        heap = [(-odd, i) for i, odd in enumerate(odds)]
        heapq.heapify(heap)
        ids, parts = [], []
        while heap:
            odd, i = heapq.heappop(heap)
            ids.append(i)
            parts.append(-odd)
            if top_p < 1 and math.fsum(parts) >= top_p * total:
                break
        return ids

    def following(logits):
        if temperature == 0:
            return int(logits.argmax())
        highest = float(logits.max())
        odds = []
        for logit in logits.tolist():
            behind = highest - logit
            odds.append(math.exp(-behind / temperature) if behind < math.inf else 0.0)
        p = torch.zeros_like(logits, requires_grad=False)
        for i in allowed(odds):
            p[i] = odds[i]
        return int(torch.multinomial(p, 1, generator=generator))

    tokens = list(prompt)
    for _ in range(len(tokens), max_len):
        tokens.append(following(next_logits(tokens.copy())))
        if tokens[-1] == end:
            break
    return tokens
