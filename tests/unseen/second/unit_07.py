"""Answers to unit 7, the transformer block: wrong ones with their cause, and right ones of unusual form."""

import functools
import math

import torch
import torch.nn.functional as F
from torch import nn


# Given in the notebook.
def multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    batch, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V))
    if mask is not None:
        assert mask.dtype == torch.bool, f"The mask should be boolean, True = may attend. Yours is {mask.dtype}."
        fits = mask.ndim >= 2 and all(size in (1, n) for size in mask.shape[-2:])
        assert fits, f"The mask should be ({n}, {n}). Yours is {tuple(mask.shape)}."
        mask = mask.expand(*mask.shape[:-2], n, n)
        some = mask.any(dim=-1, keepdim=True)  # a query that sees nothing gets 0
        heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask | ~some) * some
    else:
        heads = F.scaled_dot_product_attention(Q, K, V)
    return heads.transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


# Earlier exercises' right versions, for answers that call them.
def layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return gamma * centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + eps) + beta


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def feed_forward(x, W_1, b_1, W_2, b_2, activation):
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def _attend(x, p, n_heads, mask=None):
    return multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)


def _ffn(x, p):
    return feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], gelu)


def post_norm_block(x, params, n_heads, mask=None):
    y = layer_norm(x + _attend(x, params, n_heads, mask), params["gamma_1"], params["beta_1"])
    return layer_norm(y + _ffn(y, params), params["gamma_2"], params["beta_2"])


def pre_norm_block(x, params, n_heads, mask=None):
    y = x + _attend(layer_norm(x, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    return y + _ffn(layer_norm(y, params["gamma_2"], params["beta_2"]), params)


# ---------------------------------------------------------------------- layer_norm


def layer_norm__wrong_b_unbiased_variance(x, gamma, beta, eps=1e-5):
    """The squares are divided by d - 1, torch.var's default; the biased variance is asked for."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def layer_norm__wrong_b_eps_beside_the_root(x, gamma, beta, eps=1e-5):
    """eps is added to the standard deviation, after the root; it belongs under the root, to the variance."""
    mu = x.mean(-1, keepdim=True)
    sigma = (x - mu).pow(2).mean(-1, keepdim=True).sqrt()
    return (x - mu) / (sigma + eps) * gamma + beta


def layer_norm__wrong_b_second_axis_counted_forward(x, gamma, beta, eps=1e-5):
    """Axis 1 is normalised wherever there is one; the features are the last axis, which is axis 1 only in 2-D."""
    axis = 1 if x.ndim > 1 else 0
    mean = x.mean(axis, keepdim=True)
    variance = ((x - mean) ** 2).mean(axis, keepdim=True)
    return gamma * (x - mean) / (variance + eps).sqrt() + beta


def layer_norm__wrong_b_statistics_without_gradient(x, gamma, beta, eps=1e-5):
    """Mean and variance are taken under no_grad, so the gradient does not know that they depend on x."""
    with torch.no_grad():
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, correction=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def layer_norm__wrong_b_one_plus_gamma(x, gamma, beta, eps=1e-5):
    """The factor is 1 + gamma, as if gamma were the distance from 1; gamma itself is the scale."""
    c = x - x.mean(-1, keepdim=True)
    z = c * torch.rsqrt((c**2).mean(-1, keepdim=True) + eps)
    return z + gamma * z + beta


def layer_norm__right_b_features_moved_first(x, gamma, beta, eps=1e-5):
    """The features are made the first axis, so that nothing needs keepdim until the end."""
    first = x.movedim(-1, 0)
    variance, mean = torch.var_mean(first, dim=0, correction=0)
    z = (first - mean) * torch.rsqrt(variance + eps)
    return z.movedim(0, -1).mul(gamma).add(beta)


# ---------------------------------------------------------------------- batch_norm


def batch_norm__wrong_b_variance_within_sentences(x, gamma, beta, eps=1e-5):
    """The variance is the mean of those within each sentence: how the sentences' means differ is left out."""
    mean = x.mean((0, 1))
    variance = x.var(dim=1, correction=0).mean(dim=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_b_unbiased_variance(x, gamma, beta, eps=1e-5):
    """The squares are divided by B*n - 1 instead of by B*n: the unbiased variance."""
    B, n, d = x.shape
    flat = x.reshape(B * n, d)
    mean = flat.sum(0) / (B * n)
    variance = ((flat - mean) ** 2).sum(0) / (B * n - 1)
    return (gamma * (flat - mean) / (variance + eps).sqrt() + beta).reshape(B, n, d)


def batch_norm__wrong_b_default_eps_always(x, gamma, beta, eps=1e-5):
    """The argument eps is ignored: the number 1e-5 stands in the formula."""
    variance, mean = torch.var_mean(x, dim=(0, 1), correction=0)
    return gamma * (x - mean) * torch.rsqrt(variance + 0.00001) + beta


def batch_norm__wrong_b_reshape_mixes_features(x, gamma, beta, eps=1e-5):
    """x is reshaped to (d, B*n) instead of transposed, so a row holds numbers of several features."""
    B, n, d = x.shape
    rows = x.reshape(d, B * n)
    mean = rows.mean(1, keepdim=True)
    variance = ((rows - mean) ** 2).mean(1, keepdim=True)
    z = (rows - mean) / torch.sqrt(variance + eps)
    return gamma * z.reshape(B, n, d) + beta


def batch_norm__wrong_b_features_counted_by_tokens(x, gamma, beta, eps=1e-5):
    """The loop over the features takes their number from the token axis, x.shape[1]: the others are not normalised."""
    columns = list(x.unbind(-1))
    for f in range(x.shape[1]):
        c = columns[f]
        c = (c - c.mean()) / torch.sqrt(c.var(correction=0) + eps)
        columns[f] = gamma[f] * c + beta[f]
    return torch.stack(columns, dim=-1)


def batch_norm__right_b_slope_and_offset(x, gamma, beta, eps=1e-5):
    """Rows of features, (d, B*n), with scale and shift as columns."""
    rows = x.flatten(0, 1).T
    away = rows - rows.mean(1, keepdim=True)
    power = torch.einsum("ft,ft->f", away, away) / rows.shape[1]
    out = away * (gamma / torch.sqrt(power + eps))[:, None] + beta[:, None]
    return out.T.unflatten(0, x.shape[:2])


# ---------------------------------------------------------------------------- gelu


def gelu__wrong_b_density_for_probability(x):
    """x is multiplied by the density of the normal distribution, not by the probability of being less than x."""
    density = torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return x * density


def gelu__wrong_b_numbers_cut_from_graph(x):
    """The values are computed as Python numbers, entry by entry, so no gradient flows to x."""
    values = [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x.flatten().tolist()]
    return torch.tensor(values, dtype=x.dtype).reshape(x.shape)


def gelu__wrong_b_cut_off_at_three(x):
    """Below -3 the result is set to 0 and above 3 to x, where GELU is still a few thousandths away."""
    y = x * (1 + torch.erf(x / math.sqrt(2))) / 2
    y = torch.where(x < -3, torch.zeros_like(x), y)
    return torch.where(x > 3, x, y)


def gelu__wrong_b_five_terms_of_series(x):
    """erf is replaced by the first five terms of its series, which are right only near 0."""
    z = x / math.sqrt(2)
    erf = torch.zeros_like(x)
    for k in range(5):
        erf = erf + (-1) ** k * z ** (2 * k + 1) / (math.factorial(k) * (2 * k + 1))
    erf = erf * 2 / math.sqrt(math.pi)
    return x * (1 + erf) / 2


def gelu__wrong_b_gate_detached(x):
    """The probability is detached: the slope lacks the part in which the probability changes with x."""
    gate = torch.distributions.Normal(0.0, 1.0).cdf(x).detach()
    return x * gate


def gelu__right_b_complement_of_minus(x):
    """By the complementary error function of -x / √2."""
    return torch.special.erfc(x * -(0.5**0.5)).mul(x).mul(0.5)


# -------------------------------------------------------------------- feed_forward


def feed_forward__wrong_b_second_bias_forgotten(x, W_1, b_1, W_2, b_2, activation):
    """b_2 is not added."""
    return torch.matmul(activation(torch.matmul(x, W_1) + b_1), W_2)


def feed_forward__wrong_b_activated_twice(x, W_1, b_1, W_2, b_2, activation):
    """The activation is applied twice in a row between the maps."""
    pre = x @ W_1 + b_1
    act = activation(pre)
    return activation(act) @ W_2 + b_2


def feed_forward__wrong_b_result_always_double(x, W_1, b_1, W_2, b_2, activation):
    """Everything is converted to float64 and stays so: the result for float32 is float64."""
    x, W_1, b_1, W_2, b_2 = (t.double() for t in (x, W_1, b_1, W_2, b_2))
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_b_dropout_always_on(x, W_1, b_1, W_2, b_2, activation):
    """Dropout sets a tenth of the hidden features to 0 at random; none is asked for."""
    hidden = activation(x @ W_1 + b_1)
    hidden = F.dropout(hidden, p=0.1)
    return hidden @ W_2 + b_2


def feed_forward__wrong_b_divided_by_root(x, W_1, b_1, W_2, b_2, activation):
    """The hidden features are divided by the root of d_ff, as attention's scores are; no scaling is asked for."""
    d_ff = W_1.shape[1]
    hidden = activation(x @ W_1 + b_1) / math.sqrt(d_ff)
    return hidden @ W_2 + b_2


def feed_forward__right_b_linear_with_transposes(x, W_1, b_1, W_2, b_2, activation):
    """nn.functional's linear, which stores the weights the other way round, on a list of tokens."""
    tokens = x.reshape(-1, W_1.shape[0])
    for weight, bias, bend in ((W_1, b_1, activation), (W_2, b_2, nn.Identity())):
        tokens = bend(F.linear(tokens, weight.mT, bias))
    return tokens.view(x.shape)


# ----------------------------------------------------------------- post_norm_block


def post_norm_block__wrong_b_second_sum_adds_x(x, params, n_heads, mask=None):
    """The second residual adds the block's input x; it must add y, the output of the first norm."""
    p = params
    y = layer_norm(x + _attend(x, p, n_heads, mask), p["gamma_1"], p["beta_1"])
    return layer_norm(x + _ffn(y, p), p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_b_mask_not_passed(x, params, n_heads, mask=None):
    """The mask is not handed to the attention."""
    W_Q, W_K, W_V, W_O, b_O = (params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O"))
    heads = multi_head_attention(x, W_Q, W_K, W_V, W_O, b_O, n_heads)
    y = layer_norm(x + heads, params["gamma_1"], params["beta_1"])
    z = layer_norm(y + _ffn(y, params), params["gamma_2"], params["beta_2"])
    return z


def post_norm_block__wrong_b_residual_of_ffn_missing(x, params, n_heads, mask=None):
    """The FFN has no residual: its output is normed alone, without y being added."""
    x = layer_norm(x + _attend(x, params, n_heads, mask), params["gamma_1"], params["beta_1"])
    x = layer_norm(_ffn(x, params), params["gamma_2"], params["beta_2"])
    return x


def post_norm_block__wrong_b_bypass_around_norm(x, params, n_heads, mask=None):
    """The second residual adds the sum before the first norm; only the FFN sees the normed y."""
    s = x + _attend(x, params, n_heads, mask)
    y = layer_norm(s, params["gamma_1"], params["beta_1"])
    out = s + _ffn(y, params)
    return layer_norm(out, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_b_head_width_assumed(x, params, n_heads, mask=None):
    """The scores are divided by the root of d_model / n_heads, which is not d_head where h*d_head is not d_model."""
    B, n, d_model = x.shape
    q, k, v = ((x @ params[w]).view(B, n, n_heads, -1).transpose(1, 2) for w in ("W_Q", "W_K", "W_V"))
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_model / n_heads)
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    heads = torch.softmax(scores, dim=-1) @ v
    a = heads.transpose(1, 2).reshape(B, n, -1) @ params["W_O"] + params["b_O"]
    y = layer_norm(x + a, params["gamma_1"], params["beta_1"])
    return layer_norm(y + _ffn(y, params), params["gamma_2"], params["beta_2"])


def post_norm_block__right_b_loop_over_sublayers(x, params, n_heads, mask=None):
    """Both sublayers in a loop that adds and norms."""

    def attention(t):
        return _attend(t, params, n_heads, mask)

    def network(t):
        return F.gelu(t @ params["W_1"] + params["b_1"]) @ params["W_2"] + params["b_2"]

    for number, sublayer in enumerate((attention, network), 1):
        total = torch.add(x, sublayer(x))
        x = layer_norm(total, params[f"gamma_{number}"], params[f"beta_{number}"])
    return x


# ------------------------------------------------------------------ pre_norm_block


def pre_norm_block__wrong_b_ffn_sees_x(x, params, n_heads, mask=None):
    """The second norm is taken of x instead of y: the FFN runs beside the attention and not after it."""
    first = layer_norm(x, params["gamma_1"], params["beta_1"])
    second = layer_norm(x, params["gamma_2"], params["beta_2"])
    return x + _attend(first, params, n_heads, mask) + _ffn(second, params)


def pre_norm_block__wrong_b_heads_joined_untransposed(x, params, n_heads, mask=None):
    """The heads are joined by reshape without transposing them back, so a token gets features of other tokens."""
    B, n, _ = x.shape
    xn = layer_norm(x, params["gamma_1"], params["beta_1"])
    q, k, v = ((xn @ params[name]).view(B, n, n_heads, -1).transpose(1, 2) for name in ("W_Q", "W_K", "W_V"))
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e30)
    joined = (scores.softmax(dim=-1) @ v).reshape(B, n, -1)
    y = x + (joined @ params["W_O"] + params["b_O"])
    return y + _ffn(layer_norm(y, params["gamma_2"], params["beta_2"]), params)


def pre_norm_block__wrong_b_causal_without_mask(x, params, n_heads, mask=None):
    """Where mask is None a causal mask is made; None means that every token may attend to every other."""
    if mask is None:
        n = x.shape[1]
        mask = torch.ones(n, n, dtype=torch.bool).tril()
    y = x + _attend(layer_norm(x, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    return y + _ffn(layer_norm(y, params["gamma_2"], params["beta_2"]), params)


def pre_norm_block__wrong_b_x_added_twice(x, params, n_heads, mask=None):
    """The helper already adds its input, and the input is added once more outside."""

    def attention_sublayer(t):
        return t + _attend(layer_norm(t, params["gamma_1"], params["beta_1"]), params, n_heads, mask)

    def ffn_sublayer(t):
        return t + _ffn(layer_norm(t, params["gamma_2"], params["beta_2"]), params)

    y = x + attention_sublayer(x)
    return ffn_sublayer(y)


def pre_norm_block__wrong_b_ffn_bias_forgotten(x, params, n_heads, mask=None):
    """The first bias of the FFN, b_1, is not added."""
    y = x + _attend(layer_norm(x, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    hidden = gelu(layer_norm(y, params["gamma_2"], params["beta_2"]) @ params["W_1"])
    return y + hidden @ params["W_2"] + params["b_2"]


def pre_norm_block__right_b_recursive_residuals(x, params, n_heads, mask=None):
    """A helper wraps a sublayer into norm and residual; the two are composed."""

    def wrapped(sublayer, which):
        gamma, beta = params["gamma_" + which], params["beta_" + which]
        return lambda stream: stream + sublayer(layer_norm(stream, gamma, beta))

    parts = [
        wrapped(lambda t: _attend(t, params, n_heads, mask), "1"),
        wrapped(lambda t: _ffn(t, params), "2"),
    ]
    return functools.reduce(lambda stream, part: part(stream), parts, x)


# -------------------------------------------------------------- transformer_logits


def transformer_logits__wrong_b_positions_from_the_end(tokens, params, n_heads):
    """The last n rows of W_pos are taken instead of the first n, so a shorter text gets the places of a later one."""
    n = tokens.size(1)
    x = params["W_E"][tokens] + params["W_pos"][-n:]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = pre_norm_block(x, block, n_heads, causal)
    return layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_b_diagonal_hidden(tokens, params, n_heads):
    """The diagonal of the mask is False: no token may attend to itself."""
    n = tokens.shape[1]
    place = torch.arange(n)
    mask = place[:, None] > place[None, :]
    x = params["W_E"][tokens] + params["W_pos"][place]
    for block in params["blocks"]:
        x = pre_norm_block(x, block, n_heads, mask)
    return layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_b_every_block_reads_embedding(tokens, params, n_heads):
    """Every block gets the embedding as its input and overwrites the result of the one before: only the last counts."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    x = params["W_E"][tokens] + params["W_pos"][:n]
    y = x
    for block in params["blocks"]:
        y = pre_norm_block(x, block, n_heads, mask)
    y = layer_norm(y, params["gamma_f"], params["beta_f"])
    return y @ params["W_U"]


def transformer_logits__wrong_b_post_norm_blocks(tokens, params, n_heads):
    """The blocks are run in the order of post-norm; their params are those of pre-norm blocks."""
    seq_len = tokens.size(1)
    causal_mask = torch.tril(torch.ones((seq_len, seq_len), dtype=torch.bool))[None, None]
    hidden = params["W_E"].index_select(0, tokens.flatten()).unflatten(0, tokens.shape)
    hidden = hidden + params["W_pos"][:seq_len]
    for block_params in params["blocks"]:
        hidden = post_norm_block(hidden, block_params, n_heads, causal_mask)
    hidden = layer_norm(hidden, params["gamma_f"], params["beta_f"])
    return hidden @ params["W_U"]


def transformer_logits__wrong_b_no_blocks_forgotten(tokens, params, n_heads):
    """The result is first assigned inside the loop, so a model without blocks stops with an error."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for i, block in enumerate(params["blocks"]):
        if i == 0:
            x = params["W_E"][tokens] + params["W_pos"][:n]
        x = pre_norm_block(x, block, n_heads, mask)
        last = layer_norm(x, params["gamma_f"], params["beta_f"])
    return last @ params["W_U"]


def transformer_logits__right_b_one_hot_and_reduce(tokens, params, n_heads):
    """Embedding as a matrix product with one-hot rows, and the blocks folded by reduce."""
    W_E, W_pos = params["W_E"], params["W_pos"]
    vocab, n = W_E.shape[0], tokens.shape[1]
    words = F.one_hot(tokens, vocab).to(W_E.dtype) @ W_E
    places = torch.eye(n, W_pos.shape[0], dtype=W_pos.dtype) @ W_pos
    rows, columns = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    start, causal = words + places, columns <= rows
    end = functools.reduce(lambda x, p: pre_norm_block(x, p, n_heads, causal), params["blocks"], start)
    return layer_norm(end, params["gamma_f"], params["beta_f"]) @ params["W_U"]


# ------------------------------------------------------------------ bits_per_token


def _bits_of(logits, targets):
    """The cost of each row of logits (N, vocab), in bits."""
    return -torch.log_softmax(logits, dim=-1).gather(-1, targets[:, None])[:, 0] / math.log(2)


def bits_per_token__wrong_b_logarithm_of_softmax(logits, targets, mask):
    """The logarithm is taken of a softmax that may already be rounded to 0: an unlikely token costs infinitely much."""
    rows, ids = logits[mask], targets[mask]
    if len(ids) == 0:
        return rows.sum()
    p = torch.softmax(rows, dim=-1)[torch.arange(len(ids)), ids]
    return -torch.log2(p).mean()


def bits_per_token__wrong_b_softmax_over_places(logits, targets, mask):
    """The softmax runs over the places (axis 0 of the counted rows) instead of over the vocabulary."""
    rows = logits[mask]
    log_p = torch.log_softmax(rows, dim=0)
    costs = -log_p.gather(1, targets[mask][:, None]) / math.log(2)
    return costs.sum() / max(costs.numel(), 1)


def bits_per_token__wrong_b_exponentials_overflow(logits, targets, mask):
    """The exponentials are taken without subtracting the largest logit: large logits overflow."""
    rows = logits[mask]
    e = torch.exp(rows)
    log_sum = torch.log(e.sum(dim=-1))
    own = rows.gather(-1, targets[mask].unsqueeze(-1)).squeeze(-1)
    return ((log_sum - own) / math.log(2)).sum() / max(len(own), 1)


def bits_per_token__wrong_b_one_shift_for_batch(logits, targets, mask):
    """The largest logit of the batch is subtracted everywhere: places far below it have exponentials of 0 only."""
    rows = logits[mask]
    if rows.numel() == 0:
        return rows.sum()
    rows = rows - rows.max()
    log_sums = rows.exp().sum(-1).log()
    own = rows[torch.arange(len(rows)), targets[mask]]
    return (log_sums - own).mean() / math.log(2)


def bits_per_token__wrong_b_targets_changed(logits, targets, mask):
    """Filler among the targets is set to 0 in place: the caller's targets are changed."""
    targets[~mask] = 0
    rows = logits.masked_fill(~mask[..., None], 0.0)
    costs = -rows.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    return costs[mask].sum() / math.log(2) / mask.sum().clamp(min=1)


def bits_per_token__right_b_place_after_place(logits, targets, mask):
    """Every place that counts, one after the other, with a running mean."""
    mean = logits[mask].sum() * 0 if not mask.any() else logits.new_zeros(())
    count = 0
    for b, i in mask.nonzero().tolist():
        row = logits[b, i]
        lead = row - row[int(targets[b, i])]
        cost = torch.logsumexp(lead * 1.0, 0) / math.log(2)
        count += 1
        mean = mean + (cost - mean) / count
    return mean


# ---------------------------------------------------------------------- adamw_step


def adamw_step__wrong_b_means_not_corrected(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """m and v are not divided by the sum of their weights, so they are too small to be means in the first steps."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    w = w - lr * weight_decay * w - lr * m / (torch.sqrt(v) + eps)
    return w, m, v


def adamw_step__wrong_b_betas_swapped(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The betas have changed places: beta2 averages the gradients and beta1 their squares."""
    b1, b2 = beta2, beta1
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad**2
    m_hat = m / (1 - b1**step)
    v_hat = v / (1 - b2**step)
    return w - lr * m_hat / (v_hat.sqrt() + eps) - lr * weight_decay * w, m, v


def adamw_step__wrong_b_one_step_too_many(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The correction takes step + 1 as if steps were counted from 0; step counts from 1."""
    momentum = grad * (1 - beta1) + m * beta1
    energy = grad * grad * (1 - beta2) + v * beta2
    c1, c2 = (1 - math.pow(beta, step + 1) for beta in (beta1, beta2))
    direction = momentum.div(c1).div(energy.div(c2).sqrt().add(eps))
    shrunk = w.mul(1 - lr * weight_decay)
    return shrunk.sub(direction, alpha=lr), momentum, energy


def adamw_step__wrong_b_default_betas_in_correction(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """The correction has 0.9 and 0.999 as fixed numbers, whatever beta1 and beta2 are."""

    def corrected(average, beta):
        return average / (1 - beta**step)

    new_m = torch.add(beta1 * m, grad, alpha=1 - beta1)
    new_v = torch.addcmul(beta2 * v, grad, grad, value=1 - beta2)
    move = corrected(new_m, 0.9) / (corrected(new_v, 0.999).sqrt() + eps)
    return w - lr * (move + weight_decay * w), new_m, new_v


def adamw_step__wrong_b_one_square_for_all(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """v gathers the mean square of the whole tensor; every entry has its own."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * (grad**2).mean()
    m_hat = m / (1 - beta1**step)
    rms = torch.sqrt(v / (1 - beta2**step))
    return w - lr * m_hat / (rms + eps) - lr * weight_decay * w, m, v


def adamw_step__right_b_eps_scaled_along(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The corrections are moved into the step's length and into eps."""
    kept = {}
    for name, old, new, beta in (("m", m, grad, beta1), ("v", v, grad * grad, beta2)):
        kept[name] = new + beta * (old - new)
    root_v = (1 - beta2**step) ** 0.5
    length = lr * root_v / (1 - beta1**step)
    change = length * kept["m"] / (kept["v"].sqrt() + eps * root_v) + (lr * weight_decay) * w
    return w - change, kept["m"], kept["v"]


# -------------------------------------------------------------------------- sample


def _nucleus(p, top_p):
    """p with all ids set to 0 that are not in the smallest set of the likeliest with a probability of top_p."""
    values, order = p.sort(descending=True)
    before = values.cumsum(0) - values
    dropped = before >= top_p
    dropped[0] = False
    return p.index_fill(0, order[dropped], 0.0)


def sample__wrong_b_prompt_not_counted(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """max_len is taken as the number of new tokens; it counts those of the prompt, too."""
    tokens = list(prompt)
    for _ in range(max_len):
        logits = next_logits(tokens)
        if temperature == 0:
            tokens.append(int(logits.argmax()))
        else:
            p = _nucleus(torch.softmax(logits / temperature, -1), top_p)
            tokens.append(int(torch.multinomial(p, 1, generator=generator)))
        if tokens[-1] == end:
            break
    return tokens


def sample__wrong_b_draw_at_zero(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """At temperature 0 a tiny temperature is used and a token is drawn all the same, which moves the generator on."""
    temperature = temperature or 1e-6
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        p = _nucleus(torch.softmax((logits - logits.max()) / temperature, dim=-1), top_p)
        new = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(new)
        if new == end:
            break
    return tokens


def sample__wrong_b_tensors_in_the_list(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The list is filled with tensors of one number; Python ints are asked for."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            new = logits.argmax()
        else:
            p = _nucleus(torch.softmax(logits / temperature, dim=-1), top_p)
            new = torch.multinomial(p, 1, generator=generator)[0]
        tokens.append(new)
        if new == end:
            break
    return tokens


def sample__wrong_b_threshold_for_each_id(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Each id is kept by itself, if its probability is 1 - top_p or more; top_p is meant for the set together."""
    written = list(prompt)
    token = None
    while token != end and len(written) < max_len:
        z = next_logits(written)
        if temperature == 0:
            token = z.argmax().item()
        else:
            p = (z / temperature).softmax(-1)
            floor = min(1 - top_p, float(p.max()))
            p = torch.where(p >= floor, p, torch.zeros_like(p))
            token = torch.multinomial(p, 1, generator=generator).item()
        written.append(token)
    return written


def sample__wrong_b_new_tokens_only(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Only the generated tokens are returned; the list begins with the prompt."""
    history = list(prompt)

    def tokens():
        while len(history) < max_len:
            logits = next_logits(history)
            if temperature == 0:
                history.append(int(torch.argmax(logits)))
            else:
                p = _nucleus(torch.softmax(logits / temperature, dim=-1), top_p)
                history.append(int(torch.multinomial(p, 1, generator=generator)))
            yield history[-1]
            if history[-1] == end:
                return

    return list(tokens())


def sample__right_b_likeliest_added_one_by_one(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The set grows by the likeliest id that is left until it has top_p."""

    def choose(logits):
        if temperature == 0:
            return max(range(len(logits)), key=logits.tolist().__getitem__)
        exact = logits.double()
        odds = torch.exp((exact - exact.max()) / temperature)
        left, total = odds.clone(), float(odds.sum())
        kept, mass = [], 0.0
        while not kept or (mass < top_p * total and len(kept) < len(odds)):
            best = int(left.argmax())
            mass += float(odds[best])
            kept.append(best)
            left[best] = -1
        p = torch.zeros_like(logits)
        p[kept] = odds[kept].to(logits.dtype)
        return int(torch.multinomial(p, 1, generator=generator))

    tokens = list(prompt)
    new = None
    while len(tokens) < max_len and (new is None or new != end):
        new = choose(next_logits(list(tokens)))
        tokens.append(new)
    return tokens
