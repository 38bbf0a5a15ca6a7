import functools
import math

import torch
import torch.nn.functional as F


def multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Multi-head self-attention, (B, n, d_model) -> (B, n, d_model).

    X: (B, n, d_model); W_Q, W_K, W_V: (d_model, h*d_head);
    W_O: (h*d_head, d_model); b_O: (d_model,).
    mask: boolean, True = may attend, broadcasts to (B, h, n, n).
    """
    batch, n, _ = X.shape
    Q, K, V = (
        (X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V)
    )
    if mask is not None:
        assert mask.dtype == torch.bool, (
            f"The mask should be boolean, True = may attend. Yours is {mask.dtype}."
        )
        fits = mask.ndim >= 2 and all(size in (1, n) for size in mask.shape[-2:])
        assert fits, f"The mask should be ({n}, {n}). Yours is {tuple(mask.shape)}."
        mask = mask.expand(*mask.shape[:-2], n, n)
        some = mask.any(dim=-1, keepdim=True)  # a query that sees nothing gets 0
        heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask | ~some) * some
    else:
        heads = F.scaled_dot_product_attention(Q, K, V)
    return heads.transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(dim=-1, keepdim=True)
    return gamma * centred / torch.sqrt(centred.square().mean(dim=-1, keepdim=True) + eps) + beta


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def feed_forward(x, W_1, b_1, W_2, b_2, activation):
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def pre_norm_block(x, params, n_heads, mask=None):
    p = params
    normed = layer_norm(x, p["gamma_1"], p["beta_1"])
    x = x + multi_head_attention(normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    normed = layer_norm(x, p["gamma_2"], p["beta_2"])
    return x + feed_forward(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], gelu)


# layer_norm


def layer_norm__wrong_eps_beside_the_root(x, gamma, beta, eps=1e-5):
    """eps is added to the standard deviation, not to the variance under the root."""
    mean = x.mean(dim=-1, keepdim=True)
    std = torch.std(x, dim=-1, correction=0, keepdim=True)
    return gamma * (x - mean) / (std + eps) + beta


def layer_norm__wrong_axis_one(x, gamma, beta, eps=1e-5):
    """Averages over axis 1, which holds the features only where x has two axes."""
    mu = x.mean(dim=1, keepdim=True)
    centred = x - mu
    sigma2 = (centred**2).mean(dim=1, keepdim=True)
    return centred / (sigma2 + eps).sqrt() * gamma + beta


def layer_norm__wrong_mean_square_less_mean(x, gamma, beta, eps=1e-5):
    """The variance as the mean square less the squared mean: for large float32 numbers no digits are left."""
    d = x.shape[-1]
    mean = x.sum(-1, keepdim=True) / d
    variance = (x * x).sum(-1, keepdim=True) / d - mean * mean
    variance = variance.clamp(min=0)
    return gamma * (x - mean) * torch.rsqrt(variance + eps) + beta


def layer_norm__wrong_works_in_place(x, gamma, beta, eps=1e-5):
    """The mean is subtracted from x itself, so the caller's tensor changes."""
    x -= x.mean(dim=-1, keepdim=True)
    var = x.pow(2).mean(dim=-1, keepdim=True)
    return gamma * (x / torch.sqrt(var + eps)) + beta


def layer_norm__wrong_shift_is_scaled_too(x, gamma, beta, eps=1e-5):
    """The brackets are set wrongly: gamma multiplies beta as well."""
    var, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    normed = (x - mean) / torch.sqrt(var + eps)
    return gamma * (normed + beta)


def layer_norm__right_pairwise_differences(x, gamma, beta, eps=1e-5):
    """A deviation is the mean of the differences from all features."""
    differences = x.unsqueeze(-1) - x.unsqueeze(-2)
    deviation = differences.mean(dim=-1)
    variance = deviation.square().mean(dim=-1, keepdim=True)
    return torch.addcmul(beta, deviation / torch.sqrt(variance + eps), gamma)


# batch_norm


def batch_norm__wrong_batch_axis_alone(x, gamma, beta, eps=1e-5):
    """Averages over the sequences only: each position has statistics of its own."""
    mean = torch.mean(x, dim=0, keepdim=True)
    var = torch.mean((x - mean) ** 2, dim=0, keepdim=True)
    return gamma * (x - mean) / torch.sqrt(var + eps) + beta


def batch_norm__wrong_mean_of_variances(x, gamma, beta, eps=1e-5):
    """The variance is taken within each sequence and then averaged, which loses what differs between them."""
    mean = x.mean(dim=(0, 1))
    var = x.var(dim=1, correction=0).mean(dim=0)
    return (x - mean) / (var + eps).sqrt() * gamma + beta


def batch_norm__wrong_within_each_sequence(x, gamma, beta, eps=1e-5):
    """Reuses layer_norm on turned axes, so each feature is normed within its own sequence only."""
    features_first = x.transpose(1, 2)
    ones, zeros = x.new_ones(x.shape[1]), x.new_zeros(x.shape[1])
    normed = layer_norm(features_first, ones, zeros, eps)
    return gamma * normed.transpose(1, 2) + beta


def batch_norm__wrong_features_by_reshape(x, gamma, beta, eps=1e-5):
    """A reshape to (d, B*n) is taken for a transpose: the rows mix features and tokens."""
    B, n, d = x.shape
    columns = x.reshape(d, B * n)
    mu = columns.mean(dim=1)
    sigma2 = ((columns - mu[:, None]) ** 2).mean(dim=1)
    return gamma * ((x - mu) / torch.sqrt(sigma2 + eps)) + beta


def batch_norm__wrong_unbiased_variance(x, gamma, beta, eps=1e-5):
    """torch.var divides by B*n - 1 unless told otherwise."""
    rows = x.reshape(-1, x.shape[-1])
    normed = (rows - rows.mean(dim=0)) / torch.sqrt(rows.var(dim=0) + eps)
    return (gamma * normed + beta).reshape(x.shape)


def batch_norm__right_welford(x, gamma, beta, eps=1e-5):
    """Mean and squares are updated token by token, as Welford does it."""
    mean = torch.zeros_like(gamma)
    squares = torch.zeros_like(gamma)
    count = 0
    for sequence in x:
        for token in sequence:
            count += 1
            before = token - mean
            mean = mean + before / count
            squares = squares + before * (token - mean)
    return (x - mean) * (gamma / torch.sqrt(squares / count + eps)) + beta


# gelu


def gelu__wrong_tanh_form(x):
    """The approximation with tanh, as in GPT-2's code, not the exact form."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + torch.tanh(inner))


def gelu__wrong_root_of_two_missing(x):
    """erf is taken of x, not of x divided by the root of 2."""
    probability = (torch.erf(x) + 1) / 2
    return x * probability


def gelu__wrong_sigmoid_form(x):
    """The approximation with a sigmoid of 1.702 x."""
    return x * torch.sigmoid(1.702 * x)


def gelu__wrong_density(x):
    """x times the density of the normal distribution at x, not the probability of less than x."""
    density = torch.exp(-0.5 * x.square()) / math.sqrt(2 * math.pi)
    return x * density


def gelu__wrong_number_by_number(x):
    """Goes through Python numbers, where the gradient is lost."""
    values = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.flatten().tolist()]
    return torch.tensor(values, dtype=x.dtype).reshape(x.shape)


def gelu__right_erfc(x):
    """With the complementary error function of -x."""
    return torch.erfc(-x * 0.5**0.5) * (x / 2)


# feed_forward


def feed_forward__wrong_bias_after_activation(x, W_1, b_1, W_2, b_2, activation):
    """b_1 is added behind the activation."""
    hidden = activation(x @ W_1) + b_1
    return hidden @ W_2 + b_2


def feed_forward__wrong_always_gelu(x, W_1, b_1, W_2, b_2, activation):
    """The activation that is handed in is not used."""
    hidden = torch.einsum("...d,df->...f", x, W_1) + b_1
    hidden = gelu(hidden)
    return torch.einsum("...f,fd->...d", hidden, W_2) + b_2


def feed_forward__wrong_second_bias_per_question(x, W_1, b_1, W_2, b_2, activation):
    """b_2 is added once for each hidden feature."""
    out = torch.zeros_like(x)
    for k in range(W_1.shape[1]):
        answer = activation(x @ W_1[:, k] + b_1[k])
        out = out + answer.unsqueeze(-1) * W_2[k] + b_2
    return out


def feed_forward__wrong_axes_not_restored(x, W_1, b_1, W_2, b_2, activation):
    """All tokens are put below one another and stay so: the axes in front are lost."""
    tokens = x.reshape(-1, W_1.shape[0])
    return torch.addmm(b_2, activation(torch.addmm(b_1, tokens, W_1)), W_2)


def feed_forward__wrong_dropout(x, W_1, b_1, W_2, b_2, activation):
    """A dropout stands between the maps: a tenth of the hidden features is set to 0 at random."""
    hidden = activation(F.linear(x, W_1.T, b_1))
    hidden = F.dropout(hidden, p=0.1)
    return F.linear(hidden, W_2.T, b_2)


def feed_forward__right_bias_as_a_row(x, W_1, b_1, W_2, b_2, activation):
    """Each bias is one more row of its matrix, for a feature that is always 1."""

    def affine(t, W, b):
        return F.pad(t, (0, 1), value=1.0) @ torch.cat([W, b.unsqueeze(0)])

    return affine(activation(affine(x, W_1, b_1)), W_2, b_2)


# post_norm_block


def post_norm_block__wrong_second_residual_is_x(x, params, n_heads, mask=None):
    """The second residual adds x, not y."""
    p = params
    attended = multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    y = layer_norm(x + attended, p["gamma_1"], p["beta_1"])
    worked = feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], gelu)
    return layer_norm(x + worked, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_norm_before_the_sum(x, params, n_heads, mask=None):
    """Each sublayer's output is normed and then added: the sums are not normed."""
    attention_weights = [params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O")]
    ffn_weights = [params[k] for k in ("W_1", "b_1", "W_2", "b_2")]
    y = x + layer_norm(multi_head_attention(x, *attention_weights, n_heads, mask), params["gamma_1"], params["beta_1"])
    return y + layer_norm(feed_forward(y, *ffn_weights, gelu), params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_mask_turned_round(x, params, n_heads, mask=None):
    """The mask is inverted on its way, as if True meant hidden."""
    hidden = None if mask is None else torch.logical_not(mask)
    att = multi_head_attention(
        x, params["W_Q"], params["W_K"], params["W_V"], params["W_O"], params["b_O"], n_heads, hidden
    )
    y = layer_norm(x + att, params["gamma_1"], params["beta_1"])
    ffn = feed_forward(y, params["W_1"], params["b_1"], params["W_2"], params["b_2"], gelu)
    return layer_norm(y + ffn, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_relu_of_2017(x, params, n_heads, mask=None):
    """The FFN bends with ReLU, as in 2017; the exact GELU is asked for."""

    def attention(t):
        return multi_head_attention(t, *(params[f"W_{c}"] for c in "QKVO"), params["b_O"], n_heads, mask)

    def ffn(t):
        return torch.relu(t @ params["W_1"] + params["b_1"]) @ params["W_2"] + params["b_2"]

    for number, sublayer in enumerate((attention, ffn), start=1):
        x = layer_norm(x + sublayer(x), params[f"gamma_{number}"], params[f"beta_{number}"])
    return x


def post_norm_block__wrong_ffn_reads_x(x, params, n_heads, mask=None):
    """The FFN works on x, not on what attention has brought."""
    W = params
    y = x + multi_head_attention(x, W["W_Q"], W["W_K"], W["W_V"], W["W_O"], W["b_O"], n_heads, mask=mask)
    y = layer_norm(y, W["gamma_1"], W["beta_1"])
    z = y + feed_forward(x, W["W_1"], W["b_1"], W["W_2"], W["b_2"], gelu)
    return layer_norm(z, W["gamma_2"], W["beta_2"])


def post_norm_block__right_steps_in_a_row(x, params, n_heads, mask=None):
    """The four steps are functions in a list, folded over x."""
    p = params
    steps = [
        lambda t: t + multi_head_attention(t, *(p[f"W_{c}"] for c in "QKVO"), p["b_O"], n_heads, mask),
        lambda t: layer_norm(t, p["gamma_1"], p["beta_1"]),
        lambda t: t + feed_forward(t, p["W_1"], p["b_1"], p["W_2"], p["b_2"], gelu),
        lambda t: layer_norm(t, p["gamma_2"], p["beta_2"]),
    ]
    return functools.reduce(lambda t, step: step(t), steps, x)


# pre_norm_block


def pre_norm_block__wrong_bypass_is_normed(x, params, n_heads, mask=None):
    """The normed tokens are added, not the tokens as they came."""
    p = params
    x = layer_norm(x, p["gamma_1"], p["beta_1"])
    x = x + multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    x = layer_norm(x, p["gamma_2"], p["beta_2"])
    return x + feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], gelu)


def pre_norm_block__wrong_side_by_side(x, params, n_heads, mask=None):
    """The parallel block: the FFN reads norm 2 of x, not of y."""
    att_in = layer_norm(x, params["gamma_1"], params["beta_1"])
    ffn_in = layer_norm(x, params["gamma_2"], params["beta_2"])
    att = multi_head_attention(att_in, *[params[f"W_{c}"] for c in "QKVO"], params["b_O"], n_heads, mask)
    ffn = feed_forward(ffn_in, *[params[k] for k in ("W_1", "b_1", "W_2", "b_2")], gelu)
    return x + att + ffn


def pre_norm_block__wrong_keys_not_normed(x, params, n_heads, mask=None):
    """Only the queries see the normed tokens; keys and values are made from x as it is."""
    p = params

    def heads(t, W):
        return (t @ W).unflatten(-1, (n_heads, -1)).transpose(1, 2)

    normed = layer_norm(x, p["gamma_1"], p["beta_1"])
    Q, K, V = heads(normed, p["W_Q"]), heads(x, p["W_K"]), heads(x, p["W_V"])
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(x.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask
    x = x + (weights @ V).transpose(1, 2).flatten(2) @ p["W_O"] + p["b_O"]
    normed = layer_norm(x, p["gamma_2"], p["beta_2"])
    return x + feed_forward(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], gelu)


def pre_norm_block__wrong_weights_by_order(x, params, n_heads, mask=None):
    """The weights are taken in the order of the dictionary, which means nothing."""
    W_Q, W_K, W_V, W_O, b_O, W_1, b_1, W_2, b_2, gamma_1, beta_1, gamma_2, beta_2 = params.values()
    y = x + multi_head_attention(layer_norm(x, gamma_1, beta_1), W_Q, W_K, W_V, W_O, b_O, n_heads, mask)
    return y + feed_forward(layer_norm(y, gamma_2, beta_2), W_1, b_1, W_2, b_2, gelu)


def pre_norm_block__wrong_stream_in_place(x, params, n_heads, mask=None):
    """Both sublayers add into x itself, so the caller's tensor changes."""
    P = params
    x += multi_head_attention(
        layer_norm(x, P["gamma_1"], P["beta_1"]), P["W_Q"], P["W_K"], P["W_V"], P["W_O"], P["b_O"], n_heads, mask
    )
    x += feed_forward(layer_norm(x, P["gamma_2"], P["beta_2"]), P["W_1"], P["b_1"], P["W_2"], P["b_2"], gelu)
    return x


def pre_norm_block__right_by_einsum(x, params, n_heads, mask=None):
    """Attention written out by einsum, the FFN as a sum over its hidden features; only the norm is reused."""
    p = params
    u = layer_norm(x, p["gamma_1"], p["beta_1"])
    q, k, v = (torch.einsum("bnd,dhk->bhnk", u, p[f"W_{c}"].unflatten(1, (n_heads, -1))) for c in "QKV")
    scores = torch.einsum("bhik,bhjk->bhij", q / math.sqrt(q.shape[-1]), k)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True))
    if mask is not None:
        weights = weights * mask
    y = x + p["b_O"] + torch.einsum("bhij,bhjk,hkm->bim", weights, v, p["W_O"].unflatten(0, (n_heads, -1)))
    u = layer_norm(y, p["gamma_2"], p["beta_2"])
    for column, bias, row in zip(p["W_1"].unbind(1), p["b_1"], p["W_2"]):
        y = y + gelu(u @ column + bias).unsqueeze(-1) * row
    return y + p["b_2"]


# transformer_logits


def transformer_logits__wrong_last_positions(tokens, params, n_heads):
    """A short text gets the last rows of W_pos, not the first."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][-n:]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = pre_norm_block(x, block, n_heads, mask)
    return layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_tied_embeddings(tokens, params, n_heads):
    """Unembeds with the transpose of W_E, as models with tied embeddings do."""
    W_E = params["W_E"]
    B, n = tokens.shape
    x = F.embedding(tokens, W_E) + params["W_pos"][:n]
    causal = torch.tril(torch.ones(n, n)) == 1
    for p in params["blocks"]:
        x = pre_norm_block(x, p, n_heads, causal)
    x = layer_norm(x, params["gamma_f"], params["beta_f"])
    return torch.einsum("bnd,vd->bnv", x, W_E)


def transformer_logits__wrong_blocks_used_up(tokens, params, n_heads):
    """The blocks are popped off the list in params: a second call finds none."""
    positions = torch.arange(tokens.size(1))
    stream = params["W_E"][tokens] + params["W_pos"][positions]
    mask = positions[None, :] <= positions[:, None]
    blocks = params["blocks"]
    while blocks:
        stream = pre_norm_block(stream, blocks.pop(0), n_heads, mask)
    stream = layer_norm(stream, params["gamma_f"], params["beta_f"])
    return stream @ params["W_U"]


def transformer_logits__wrong_embeddings_scaled(tokens, params, n_heads):
    """The embeddings are multiplied by the root of d_model, as in the paper of 2017."""
    n, d_model = tokens.shape[1], params["W_E"].shape[1]
    x = params["W_E"][tokens] * math.sqrt(d_model)
    x = x + params["W_pos"][:n].unsqueeze(0)
    future = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
    for i in range(len(params["blocks"])):
        x = pre_norm_block(x, params["blocks"][i], n_heads, ~future)
    x = layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_norm_after_every_block(tokens, params, n_heads):
    """The final norm stands in the loop: it follows each block, and is missing where there is none."""
    n = tokens.shape[1]
    mask = torch.ones((n, n), dtype=torch.bool).tril_()
    x = params["W_E"].index_select(0, tokens.flatten()).unflatten(0, tokens.shape)
    x = x + params["W_pos"].narrow(0, 0, n)
    for block in params["blocks"]:
        x = pre_norm_block(x, block, n_heads, mask)
        x = layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__right_one_hot_recursion(tokens, params, n_heads):
    """Embeds by a product with one-hot rows, and goes through the blocks by recursion."""
    n, vocab = tokens.shape[1], params["W_E"].shape[0]
    one_hot = F.one_hot(tokens, vocab).to(params["W_E"].dtype)
    place = torch.arange(n, device=tokens.device)
    allowed = ~(place > place[:, None])

    def through(x, blocks):
        if not blocks:
            return layer_norm(x, params["gamma_f"], params["beta_f"])
        first, *others = blocks
        return through(pre_norm_block(x, first, n_heads, allowed), others)

    return through(torch.add(one_hot @ params["W_E"], params["W_pos"][:n]), params["blocks"]) @ params["W_U"]


# bits_per_token


def bits_per_token__wrong_mean_of_means(logits, targets, mask):
    """Each text gets a mean of its own first, so a short text weighs as much as a long one."""
    costs = []
    for row, wanted, counts in zip(logits, targets, mask):
        if counts.any():
            surprise = -row[counts].log_softmax(dim=-1)
            chosen = surprise[torch.arange(int(counts.sum())), wanted[counts]]
            costs.append(chosen.mean() / math.log(2))
    if not costs:
        return (logits[mask] * 0).sum()
    return torch.stack(costs).mean()


def bits_per_token__wrong_mean_of_nothing(logits, targets, mask):
    """Where nothing counts the mean is taken of nothing: NaN, not 0."""
    log_p = torch.log_softmax(logits[mask], dim=-1)
    picked = log_p.gather(1, targets[mask].unsqueeze(1))
    return -picked.mean() / math.log(2)


def bits_per_token__wrong_probability_floored(logits, targets, mask):
    """The probability is computed first and kept above 0 by 1e-9: no token costs more than 30 bits."""
    p = torch.softmax(logits[mask], dim=-1)
    wanted = targets[mask]
    p = p[torch.arange(len(wanted)), wanted]
    bits = -torch.log2(p + 1e-9)
    return bits.sum() / max(len(wanted), 1)


def bits_per_token__wrong_filler_dropped_late(logits, targets, mask):
    """The filler goes through the logarithm and is dropped behind it: infinite logits there give NaN gradients."""
    log_p = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    safe = torch.where(mask, targets, 0)
    cost = -log_p.gather(-1, safe.unsqueeze(-1)).squeeze(-1) / math.log(2)
    cost = torch.where(mask, cost, 0.0)
    return cost.sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_one_hot_times_infinity(logits, targets, mask):
    """Picks by a product with one-hot rows: 0 times the -inf of a token that cannot come is NaN."""
    vocab = logits.shape[-1]
    kept, wanted = logits[mask], targets[mask]
    one_hot = F.one_hot(wanted, vocab).to(logits.dtype)
    log_2_p = F.log_softmax(kept, dim=-1) / math.log(2)
    total = -torch.einsum("kv,kv->", log_2_p, one_hot)
    return total / max(1, int(mask.sum()))


def bits_per_token__right_leads_over_target(logits, targets, mask):
    """What counts is picked first; a cost is the logsumexp of all leads over the target."""
    kept = logits[mask]
    target = kept.take_along_dim(targets[mask].unsqueeze(-1), dim=-1)
    nats = torch.logsumexp(kept - target, dim=-1)
    return nats.sum() / (math.log(2) * max(1, nats.numel()))


# adamw_step


def adamw_step__wrong_eps_on_uncorrected_root(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Both corrections are put into the learning rate, so eps is added to the root of v, not of the mean square."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad * grad
    rate = lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)
    w = w - rate * m / (torch.sqrt(v) + eps) - lr * weight_decay * w
    return w, m, v


def adamw_step__wrong_decays_the_new_weight(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """The move comes first and the decay takes its share of the moved weight."""
    m = m + (1 - beta1) * (grad - m)
    v = v + (1 - beta2) * (grad**2 - v)
    m_hat = m / (1 - beta1**step)
    v_hat = v / (1 - beta2**step)
    w = w - lr * m_hat / (v_hat.sqrt() + eps)
    w = w - lr * weight_decay * w
    return w, m, v


def adamw_step__wrong_averages_in_place(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """m and v are updated in place: what was handed in changes."""
    m.mul_(beta1).add_(grad, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    denominator = (v / (1 - beta2**step)).sqrt().add_(eps)
    new_w = w * (1 - lr * weight_decay) - lr / (1 - beta1**step) * m / denominator
    return new_w, m, v


def adamw_step__wrong_hands_on_the_means(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """The corrected means are returned in the place of m and v, and corrected once more in the next step."""

    def corrected(old, new, beta):
        return (beta * old + (1 - beta) * new) / (1 - beta**step)

    m = corrected(m, grad, beta1)
    v = corrected(v, grad.square(), beta2)
    decay = lr * weight_decay * w
    return w - decay - lr * m / (v.sqrt() + eps), m, v


def adamw_step__wrong_decay_in_the_gradient(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """The decay is a part of the gradient: Adam with an L2 penalty."""
    g = grad + weight_decay * w
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    mean, mean_square = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * mean / (mean_square.sqrt() + eps), m, v


def adamw_step__right_lerp_and_addcdiv(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Averages by lerp; the correction of the mean is in the rate, that of the square under the root."""
    m = torch.lerp(m, grad, 1 - beta1)
    v = torch.lerp(v, grad.square(), 1 - beta2)
    unit = torch.sqrt(v / (1 - math.pow(beta2, step))).add(eps)
    moved = torch.addcdiv(w, m, unit, value=-lr / (1 - math.pow(beta1, step)))
    return moved - (lr * weight_decay) * w, m, v


# sample


def sample__wrong_cut_before_temperature(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The nucleus is cut from the model's own probabilities, before the temperature is applied."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            token = int(logits.argmax())
        else:
            probabilities = torch.softmax(logits.double(), dim=-1)
            ordered, ids = probabilities.sort(descending=True)
            before = ordered.cumsum(0) - ordered
            outside = ids[(before >= top_p) & (torch.arange(len(ids)) > 0)]
            lead = (logits.double() - logits.max()) / temperature
            p = torch.softmax(lead, dim=-1).to(logits.dtype)
            p[outside] = 0
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_places_in_sorted_list(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """What is drawn is a place among the sorted ids, and is taken for an id."""
    out = prompt[:]
    for _ in range(max_len - len(prompt)):
        logits = next_logits(out)
        if temperature == 0:
            new = logits.argmax().item()
        else:
            p = torch.softmax((logits - logits.max()).double() / temperature, dim=0).to(logits.dtype)
            p, ids = torch.sort(p, descending=True)
            kept = p.cumsum(0) - p < top_p
            kept[0] = True
            new = torch.multinomial(p * kept, 1, generator=generator).item()
        out.append(new)
        if new == end:
            break
    return out


def sample__wrong_end_in_prompt_stops(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """A prompt that closes with the end is not written on."""

    def choose(logits):
        if temperature == 0:
            return int(torch.argmax(logits))
        p = torch.softmax((logits.double() - logits.max()) / temperature, dim=-1)
        mass, nucleus = 0.0, torch.zeros_like(p)
        for i in torch.argsort(p, descending=True).tolist():
            nucleus[i] = p[i]
            mass += float(p[i])
            if mass >= top_p and top_p < 1:
                break
        return int(torch.multinomial(nucleus.to(logits.dtype), 1, generator=generator))

    tokens = [*prompt]
    while tokens[-1] != end and len(tokens) < max_len:
        tokens.append(choose(next_logits(tokens)))
    return tokens


def sample__wrong_top_p_zero_is_off(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """top_p = 0 is taken for “no limit”: all ids may come, not the likeliest alone."""
    tokens = list(prompt)
    done = False
    while len(tokens) < max_len and not done:
        logits = next_logits(list(tokens))
        if temperature == 0:
            token = int(logits.argmax(-1))
        else:
            weights = torch.exp((logits.double() - logits.max()) / temperature)
            p = weights / weights.sum()
            if 0 < top_p < 1:
                sorted_p, order = torch.sort(p, descending=True)
                cut = int((torch.cumsum(sorted_p, 0) < top_p).sum()) + 1
                p[order[cut:]] = 0
            token = int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))
        tokens.append(token)
        done = token == end
    return tokens


def sample__wrong_tiny_temperature_overflows(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Logits are divided by the temperature as they are: for a very small one they overflow, and softmax gives NaN."""
    text = list(prompt)
    while len(text) < max_len:
        logits = next_logits(text)
        if temperature == 0:
            text.append(logits.argmax().item())
        else:
            p = F.softmax(logits / temperature, dim=-1)
            p = torch.nan_to_num(p, nan=1.0)
            likely = p.argsort(descending=True)
            total, keep = 0.0, []
            for i in likely.tolist():
                keep.append(i)
                total += p[i].item()
                if total >= top_p and top_p < 1:
                    break
            q = torch.zeros_like(p)
            q[keep] = p[keep]
            text.append(torch.multinomial(q, 1, generator=generator).item())
        if text[-1] == end:
            return text
    return text


def sample__right_python_floats(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Ids are sorted and added up in plain Python; the tensor of weights only loses what may not come."""
    text = list(prompt)
    ended = False
    while not ended and len(text) < max_len:
        logits = next_logits(list(text))
        values = logits.tolist()
        ids = sorted(range(len(values)), key=values.__getitem__, reverse=True)
        if temperature == 0:
            chosen = ids[0]
        else:
            leads = logits.double() - values[ids[0]]
            p = torch.exp(leads / temperature)
            if top_p < 1:
                weights = p.tolist()
                needed, mass, last = top_p * math.fsum(weights), weights[ids[0]], 1
                while mass < needed and last < len(ids):
                    mass += weights[ids[last]]
                    last += 1
                p[ids[last:]] = 0
            chosen = int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))
        text.append(chosen)
        ended = chosen == end
    return text
