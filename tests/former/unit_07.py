"""Answers to unit 07's functions, written from the notebook alone."""

import math
from itertools import accumulate

import torch
import torch.nn.functional as F


def _attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """The attention that the notebook gives."""
    batch, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(batch, n_heads, n, n)
        some = mask.any(dim=-1, keepdim=True)
        heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask | ~some) * some
    else:
        heads = F.scaled_dot_product_attention(Q, K, V)
    return heads.transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def _norm(x, gamma, beta, eps=1e-5):
    """Layer norm, as asked for."""
    z = x - x.mean(dim=-1, keepdim=True)
    return gamma * z / torch.sqrt((z**2).mean(dim=-1, keepdim=True) + eps) + beta


def _gelu(x):
    """The exact GELU."""
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


def _ffn(x, W_1, b_1, W_2, b_2, activation):
    """The feed-forward network, as asked for."""
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def _pre_norm_block(x, p, n_heads, mask=None):
    """The pre-norm block, as asked for."""
    n = _norm(x, p["gamma_1"], p["beta_1"])
    y = x + _attention(n, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    n = _norm(y, p["gamma_2"], p["beta_2"])
    return y + _ffn(n, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


# layer_norm


def layer_norm__wrong_unbiased(x, gamma, beta, eps=1e-5):
    """The variance is torch.var's default, divided by d - 1 in place of d."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def layer_norm__wrong_eps_beside_the_root(x, gamma, beta, eps=1e-5):
    """eps is added to the standard deviation, after the root, in place of to the variance under it."""
    mean = x.mean(dim=-1, keepdim=True)
    sigma = torch.sqrt(((x - mean) ** 2).mean(dim=-1, keepdim=True))
    return gamma * (x - mean) / (sigma + eps) + beta


def layer_norm__wrong_whole_sequence(x, gamma, beta, eps=1e-5):
    """Mean and variance are taken over the tokens and the features of a sequence together, not for each token."""
    axes = (-2, -1) if x.ndim > 1 else (-1,)
    mean = x.mean(dim=axes, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=axes, keepdim=True)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def layer_norm__wrong_third_axis(x, gamma, beta, eps=1e-5):
    """The averaged axis is number 2 counted from the front, which is the features for inputs of three axes only."""
    mean = x.mean(dim=2, keepdim=True)
    variance = x.var(dim=2, correction=0, keepdim=True)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def layer_norm__wrong_shift_before_scale(x, gamma, beta, eps=1e-5):
    """beta is added before the multiplication with gamma, so that gamma scales the shift as well."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    return gamma * ((x - mean) / (variance + eps).sqrt() + beta)


def layer_norm__wrong_two_mean_square_and_scale(x, gamma, beta, eps=1e-5):
    """The mean of x squared, not centred, stands for the variance, and the factor is 1 + gamma in place of gamma."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x**2).mean(dim=-1, keepdim=True)
    return (1 + gamma) * (x - mean) / torch.sqrt(variance + eps) + beta


def layer_norm__right_token_by_token(x, gamma, beta, eps=1e-5):
    """A Python loop over all tokens, which are flattened into rows at first and stacked at the end."""
    done = []
    for token in x.reshape(-1, x.shape[-1]):
        away = token - token.sum() / len(token)
        done.append(gamma * away / (away.square().mean() + eps).sqrt() + beta)
    return torch.stack(done).reshape(x.shape)


def layer_norm__right_einsum(x, gamma, beta, eps=1e-5):
    """The sum of squares is an einsum of the centred token with itself, and d goes under the root of the numerator."""
    d = x.shape[-1]
    away = x - torch.mean(x, -1).unsqueeze(-1)
    squares = torch.einsum("...c,...c->...", away, away).unsqueeze(-1)
    return torch.addcmul(beta, gamma, away * math.sqrt(d) * torch.rsqrt(squares + d * eps))


# batch_norm

_running = {}


def batch_norm__wrong_batch_axis_only(x, gamma, beta, eps=1e-5):
    """The statistics run over the batch axis only, so that every position of the text has its own."""
    mean = x.mean(dim=0, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=0, keepdim=True)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_mean_of_variances(x, gamma, beta, eps=1e-5):
    """The variance is the mean of the variances within the sequences, which leaves out how their means differ."""
    mean = x.mean(dim=(0, 1))
    variance = x.var(dim=1, correction=0).mean(dim=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_reshaped_features(x, gamma, beta, eps=1e-5):
    """x is reshaped to (d, B*n) in place of being transposed, so that each row mixes features of some tokens."""
    rows = x.reshape(x.shape[-1], -1)
    mean, variance = rows.mean(dim=1), rows.var(dim=1, correction=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_running_averages(x, gamma, beta, eps=1e-5):
    """It normalises with running averages that are kept from call to call, not with the statistics of this batch."""
    d = x.shape[-1]
    mean, variance = _running.get(d, (torch.zeros(d, dtype=x.dtype), torch.ones(d, dtype=x.dtype)))
    mean = 0.9 * mean + 0.1 * x.mean(dim=(0, 1))
    variance = 0.9 * variance + 0.1 * x.var(dim=(0, 1), correction=0)
    _running[d] = mean.detach(), variance.detach()
    return (gamma * (x - mean) / torch.sqrt(variance + eps) + beta).to(x.dtype)


def batch_norm__wrong_first_sequence(x, gamma, beta, eps=1e-5):
    """Mean and variance are those of the first sequence, and the others are normalised with them."""
    mean = x[0].mean(dim=0)
    variance = x[0].var(dim=0, correction=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_two_one_mean_and_shift(x, gamma, beta, eps=1e-5):
    """All features share one mean and one variance, and beta is added before gamma multiplies."""
    mean = x.mean()
    variance = ((x - mean) ** 2).mean()
    return gamma * ((x - mean) / torch.sqrt(variance + eps) + beta)


def batch_norm__right_feature_by_feature(x, gamma, beta, eps=1e-5):
    """A Python loop over the features, each a column of numbers normalised by itself and stacked at the end."""
    columns = []
    for c in range(x.shape[-1]):
        column = x[:, :, c]
        away = column - column.mean()
        columns.append(gamma[c] * away / (away.pow(2).mean() + eps) ** 0.5 + beta[c])
    return torch.stack(columns, dim=-1)


def batch_norm__right_covariance(x, gamma, beta, eps=1e-5):
    """The variances are the diagonal of torch.cov over all tokens as observations, without correction."""
    rows = x.flatten(0, 1)
    d = rows.shape[1]
    variance = torch.cov(rows.T, correction=0).reshape(d, d).diagonal()
    scale = gamma * (variance + eps).rsqrt()
    return ((rows - rows.mean(0)) * scale + beta).unflatten(0, x.shape[:2])


# gelu


def gelu__wrong_tanh(x):
    """It is the approximation with tanh, not the exact form with erf."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu__wrong_sigmoid(x):
    """The probability is approximated by sigmoid(1.702 x) in place of the exact normal distribution."""
    return x * torch.sigmoid(1.702 * x)


def gelu__wrong_bracket(x):
    """The root of 2 divides the result of erf in place of its argument."""
    return x / 2 * (1 + torch.erf(x) / math.sqrt(2))


def gelu__wrong_density(x):
    """x is multiplied by the density of the normal distribution in place of its cumulative probability."""
    return x * torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


def gelu__wrong_other_tail(x):
    """The sign before erf is a minus, so x is multiplied by the probability of being larger than x."""
    return x / 2 * (1 - torch.erf(x / math.sqrt(2)))


def gelu__wrong_two_root_and_half(x):
    """erf's argument is multiplied by the root of 2 in place of divided, and the factor one half is missing."""
    return x * (1 + torch.erf(x * math.sqrt(2)))


def gelu__right_complement(x):
    """The complementary error function erfc of -x replaces 1 + erf."""
    return torch.erfc(-x * math.sqrt(0.5)) * x * 0.5


def gelu__right_ndtr(x):
    """The normal distribution function itself, torch.special.ndtr, gives the probability."""
    return torch.special.ndtr(x).mul(x)


# feed_forward


def feed_forward__wrong_activation_last(x, W_1, b_1, W_2, b_2, activation):
    """The activation is applied to the result of the second map in place of between the two maps."""
    return activation((x @ W_1 + b_1) @ W_2 + b_2)


def feed_forward__wrong_late_bias(x, W_1, b_1, W_2, b_2, activation):
    """b_1 is added after the activation, so the activation decides without the bias."""
    hidden = activation(x @ W_1) + b_1
    return hidden @ W_2 + b_2


def feed_forward__wrong_always_relu(x, W_1, b_1, W_2, b_2, activation):
    """ReLU is built in and the handed activation is never called."""
    hidden = torch.relu(x @ W_1 + b_1)
    return hidden @ W_2 + b_2


def feed_forward__wrong_linear_layout(x, W_1, b_1, W_2, b_2, activation):
    """F.linear gets the matrices as they are though it multiplies with their transpose, so it fits for d_ff = d_model
    only, and is then wrong."""
    return F.linear(activation(F.linear(x, W_1, b_1)), W_2, b_2)


def feed_forward__wrong_three_axes(x, W_1, b_1, W_2, b_2, activation):
    """The einsum names exactly three axes, so that a single token, (n, d) or (B, h, n, d) fails."""
    hidden = activation(torch.einsum("bnd,df->bnf", x, W_1) + b_1)
    return torch.einsum("bnf,fd->bnd", hidden, W_2) + b_2


def feed_forward__wrong_two_residual_no_bias(x, W_1, b_1, W_2, b_2, activation):
    """The token itself is added as a residual, and b_2 is forgotten."""
    return x + activation(x @ W_1 + b_1) @ W_2


def feed_forward__right_unit_by_unit(x, W_1, b_1, W_2, b_2, activation):
    """A Python loop over the hidden units, each of which adds its row of W_2."""
    out = b_2.expand(x.shape)
    for question, demand, answer in zip(W_1.T, b_1, W_2, strict=True):
        decision = activation((x * question).sum(dim=-1) + demand)
        out = out + decision[..., None] * answer
    return out


def feed_forward__right_transposed_linear(x, W_1, b_1, W_2, b_2, activation):
    """F.linear with the transposed matrices for the first map, and an einsum for the second."""
    hidden = activation(F.linear(x, W_1.mT, b_1))
    return b_2 + torch.einsum("...f,fd->...d", hidden, W_2)


# post_norm_block


def post_norm_block__wrong_norm_before_add(x, params, n_heads, mask=None):
    """What a sublayer returns is normed before it is added, so the sums themselves are never normed."""
    p = params
    a = _attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    y = x + _norm(a, p["gamma_1"], p["beta_1"])
    f = _ffn(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return y + _norm(f, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_second_residual(x, params, n_heads, mask=None):
    """The second residual adds the block's input x in place of y, the result of the first half."""
    p = params
    a = _attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    y = _norm(x + a, p["gamma_1"], p["beta_1"])
    f = _ffn(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _norm(x + f, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_one_norm_twice(x, params, n_heads, mask=None):
    """Both norms use gamma_1 and beta_1, and those of the second norm are never read."""
    p = params

    def norm(t):
        return _norm(t, p["gamma_1"], p["beta_1"])

    y = norm(x + _attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask))
    return norm(y + _ffn(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu))


def post_norm_block__wrong_inverted_mask(x, params, n_heads, mask=None):
    """The mask is turned round before it is handed over, as if True meant "may not attend"."""
    p = params
    hidden = None if mask is None else ~mask
    a = _attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, hidden)
    y = _norm(x + a, p["gamma_1"], p["beta_1"])
    f = _ffn(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _norm(y + f, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_no_first_residual(x, params, n_heads, mask=None):
    """The residual around the attention is missing: its output is normed alone."""
    p = params
    a = _attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    y = _norm(a, p["gamma_1"], p["beta_1"])
    f = _ffn(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _norm(y + f, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_two_ffn_of_x_with_relu(x, params, n_heads, mask=None):
    """The FFN reads x in place of y, and its activation is ReLU in place of the exact GELU."""
    p = params
    a = _attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    y = _norm(x + a, p["gamma_1"], p["beta_1"])
    f = _ffn(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], F.relu)
    return _norm(y + f, p["gamma_2"], p["beta_2"])


def post_norm_block__right_one_sequence_at_a_time(x, params, n_heads, mask=None):
    """A Python loop over the sequences of the batch, each run by itself with its own slice of the expanded mask."""
    p = params
    batch, n, _ = x.shape
    if mask is not None:
        mask = mask.expand(batch, n_heads, n, n)
    done = []
    for b in range(batch):
        one = x[b : b + 1]
        own = None if mask is None else mask[b : b + 1]
        one = one + _attention(one, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, own)
        one = _norm(one, p["gamma_1"], p["beta_1"])
        one = one + _ffn(one, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
        done.append(_norm(one, p["gamma_2"], p["beta_2"]))
    return torch.cat(done)


def post_norm_block__right_heads_summed(x, params, n_heads, mask=None):
    """Attention is written out as a sum of the heads' contributions, each with its own stretch of W_O, by einsum."""
    p = params
    batch, n, _ = x.shape
    d_head = p["W_Q"].shape[1] // n_heads
    total = x + p["b_O"]
    allowed = torch.ones(n, n, dtype=torch.bool) if mask is None else mask
    allowed = allowed.to(x.device).expand(batch, n_heads, n, n)
    for h in range(n_heads):
        part = slice(h * d_head, (h + 1) * d_head)
        q, k, v = (x @ p[name][:, part] for name in ("W_Q", "W_K", "W_V"))
        scores = torch.einsum("bid,bjd->bij", q, k) / math.sqrt(d_head)
        may = allowed[:, h]
        weights = scores.masked_fill(~may, torch.finfo(x.dtype).min).softmax(dim=-1) * may
        total = total + torch.einsum("bij,bjd,dm->bim", weights, v, p["W_O"][part])
    y = _norm(total, p["gamma_1"], p["beta_1"])
    hidden = torch.special.ndtr(y @ p["W_1"] + p["b_1"]) * (y @ p["W_1"] + p["b_1"])
    return _norm(y + p["b_2"] + hidden @ p["W_2"], p["gamma_2"], p["beta_2"])


# pre_norm_block


def pre_norm_block__wrong_normed_bypass(x, params, n_heads, mask=None):
    """The residuals add the normed tokens in place of the tokens as they are."""
    p = params
    x = _norm(x, p["gamma_1"], p["beta_1"])
    x = x + _attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    x = _norm(x, p["gamma_2"], p["beta_2"])
    return x + _ffn(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def pre_norm_block__wrong_ffn_unnormed(x, params, n_heads, mask=None):
    """The FFN reads the stream without the second norm, so gamma_2 and beta_2 are never used."""
    p = params
    normed = _norm(x, p["gamma_1"], p["beta_1"])
    y = x + _attention(normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    return y + _ffn(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def pre_norm_block__wrong_causal_without_mask(x, params, n_heads, mask=None):
    """Where no mask is given it makes a causal one, though None means that every token may attend to all."""
    p = params
    if mask is None:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    normed = _norm(x, p["gamma_1"], p["beta_1"])
    y = x + _attention(normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    normed = _norm(y, p["gamma_2"], p["beta_2"])
    return y + _ffn(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def pre_norm_block__wrong_parallel(x, params, n_heads, mask=None):
    """Both sublayers read x side by side, so the FFN does not see what attention has brought."""
    p = params
    first = _norm(x, p["gamma_1"], p["beta_1"])
    second = _norm(x, p["gamma_2"], p["beta_2"])
    a = _attention(first, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    return x + a + _ffn(second, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def pre_norm_block__wrong_writes_into_x(x, params, n_heads, mask=None):
    """The sublayers are added with += into x itself, so the caller's tensor changes."""
    p = params
    normed = _norm(x, p["gamma_1"], p["beta_1"])
    x += _attention(normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    normed = _norm(x, p["gamma_2"], p["beta_2"])
    x += _ffn(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return x


def pre_norm_block__wrong_two_query_key_and_activation(x, params, n_heads, mask=None):
    """W_Q and W_K have changed places in the call of the attention, and the FFN uses SiLU in place of GELU."""
    p = params
    normed = _norm(x, p["gamma_1"], p["beta_1"])
    y = x + _attention(normed, p["W_K"], p["W_Q"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    normed = _norm(y, p["gamma_2"], p["beta_2"])
    return y + _ffn(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], F.silu)


def pre_norm_block__right_loop_over_sublayers(x, params, n_heads, mask=None):
    """The two halves are one loop over pairs of a norm's number and a sublayer, a lambda."""
    p = params
    sublayers = {
        "1": lambda t: _attention(t, *(p[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O")), n_heads, mask),
        "2": lambda t: _ffn(t, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu),
    }
    for number, sublayer in sublayers.items():
        x = sublayer(_norm(x, p[f"gamma_{number}"], p[f"beta_{number}"])) + x
    return x


def pre_norm_block__right_query_by_query(x, params, n_heads, mask=None):
    """Attention is written out with a loop over the queries, and the FFN token by token in the same loop."""
    p = params
    batch, n, _ = x.shape
    normed = _norm(x, p["gamma_1"], p["beta_1"])
    Q, K, V = ((normed @ p[k]).unflatten(-1, (n_heads, -1)) for k in ("W_Q", "W_K", "W_V"))
    may = torch.ones(n, n, dtype=torch.bool) if mask is None else mask
    may = may.expand(batch, n_heads, n, n)
    tokens = []
    for i in range(n):
        scores = torch.einsum("bhd,bjhd->bhj", Q[:, i], K) / Q.shape[-1] ** 0.5
        weights = scores.masked_fill(~may[:, :, i], torch.finfo(x.dtype).min).softmax(-1) * may[:, :, i]
        heads = torch.einsum("bhj,bjhd->bhd", weights, V).flatten(1)
        y = x[:, i] + (heads @ p["W_O"] + p["b_O"])
        z = _norm(y, p["gamma_2"], p["beta_2"])
        tokens.append(y + _ffn(z, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu))
    return torch.stack(tokens, dim=1)


# transformer_logits


def transformer_logits__wrong_full_length_only(tokens, params, n_heads):
    """All rows of W_pos are added, not the first n, so a text shorter than n_ctx does not fit."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, mask)
    return _norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_tied(tokens, params, n_heads):
    """It unembeds with the transpose of W_E, as with tied embeddings, and never uses W_U."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, mask)
    return _norm(x, params["gamma_f"], params["beta_f"]) @ params["W_E"].T


def transformer_logits__wrong_scaled_embedding(tokens, params, n_heads):
    """The token embeddings are multiplied by the root of d_model, as in 2017, before the positions are added."""
    n = tokens.shape[1]
    d_model = params["W_E"].shape[1]
    x = params["W_E"][tokens] * math.sqrt(d_model) + params["W_pos"][:n]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, mask)
    return _norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_final_norm_in_loop(tokens, params, n_heads):
    """The final norm stands inside the loop, so the stream is normed after every block."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, mask)
        x = _norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_not_itself(tokens, params, n_heads):
    """The triangle of the causal mask begins below the diagonal, so a token does not see itself."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    mask = torch.ones(n, n, dtype=torch.bool).tril(diagonal=-1)
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, mask)
    return _norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_two_first_block_and_softmax(tokens, params, n_heads):
    """Every round of the loop uses the first block's weights, and softmax turns the logits into probabilities."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for _ in params["blocks"]:
        x = _pre_norm_block(x, params["blocks"][0], n_heads, mask)
    return (_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]).softmax(dim=-1)


def transformer_logits__right_one_hot(tokens, params, n_heads):
    """The embedding is a product with one-hot rows, and the mask compares positions."""
    n, vocab = tokens.shape[1], params["W_E"].shape[0]
    chosen = F.one_hot(tokens, vocab).to(params["W_E"].dtype)
    x = torch.einsum("bnv,vd->bnd", chosen, params["W_E"]) + params["W_pos"].narrow(0, 0, n)
    place = torch.arange(n)
    past = place.unsqueeze(1).ge(place)
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, past[None, None])
    x = _norm(x, params["gamma_f"], params["beta_f"])
    return torch.einsum("bnd,dv->bnv", x, params["W_U"])


def transformer_logits__right_prefix_by_prefix(tokens, params, n_heads):
    """Each position's logits come from a run of their own over the text up to there, of which the last is kept."""
    last = []
    for end in range(1, tokens.shape[1] + 1):
        x = F.embedding(tokens[:, :end], params["W_E"]) + params["W_pos"][:end]
        for block in params["blocks"]:
            x = _pre_norm_block(x, block, n_heads, ~torch.ones(end, end, dtype=torch.bool).triu(1))
        last.append(_norm(x[:, -1], params["gamma_f"], params["beta_f"]) @ params["W_U"])
    return torch.stack(last, dim=1)


# bits_per_token


def bits_per_token__wrong_mean_of_texts(logits, targets, mask):
    """It takes the mean of each text and then the mean of the texts, so a short text weighs as much as a long one."""
    safe = targets.masked_fill(~mask, 0)
    cost = -logits.log_softmax(dim=-1).gather(-1, safe[..., None])[..., 0] / math.log(2)
    count = mask.sum(dim=1)
    each = (cost * mask).sum(dim=1) / count.clamp(min=1)
    return each.sum() / (count > 0).sum().clamp(min=1)


def bits_per_token__wrong_divided_by_all(logits, targets, mask):
    """The sum over the tokens that count is divided by the number of all places, filler included."""
    safe = torch.where(mask, targets, 0)
    cost = -logits.log_softmax(dim=-1).gather(-1, safe.unsqueeze(-1)).squeeze(-1) / math.log(2)
    return (cost * mask).mean()


def bits_per_token__wrong_log_of_softmax(logits, targets, mask):
    """It takes log2 of the finished softmax, where a probability too small for a float is 0 and costs infinity."""
    if not mask.any():
        return logits.sum() * 0
    probabilities = logits[mask].softmax(dim=-1)
    chosen = probabilities.gather(1, targets[mask][:, None])
    return -torch.log2(chosen).mean()


def bits_per_token__wrong_shifted(logits, targets, mask):
    """The targets are moved by one place though targets[:, i] already belongs to the logits of place i."""
    counts = mask[:, 1:]
    scores, wanted = logits[:, :-1][counts], targets[:, 1:][counts]
    cost = torch.logsumexp(scores, dim=-1) - scores.gather(1, wanted[:, None])[:, 0]
    return cost.sum() / math.log(2) / max(1, int(counts.sum()))


def bits_per_token__wrong_only_minus_100(logits, targets, mask):
    """Only -100 is taken for filler before the targets are looked up, so any other number outside the vocabulary
    fails."""
    safe = torch.where(targets == -100, 0, targets)
    cost = -logits.log_softmax(dim=-1).gather(-1, safe[..., None])[..., 0] / math.log(2)
    return (cost * mask).sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_two_axis_and_nats(logits, targets, mask):
    """The softmax runs over the places in place of the vocabulary, and the result is in nats, not bits."""
    safe = targets.masked_fill(~mask, 0)
    cost = -logits.log_softmax(dim=1).gather(-1, safe[..., None])[..., 0]
    return cost[mask].sum() / mask.sum().clamp(min=1)


def bits_per_token__right_differences(logits, targets, mask):
    """The filler is cut out first, and the cost is the log of the sum of exp of the differences to the target."""
    kept = logits[mask]
    own = kept.take_along_dim(targets[mask].unsqueeze(1), dim=1)
    nats = torch.logsumexp(kept - own, dim=1)
    return nats.sum() / (math.log(2) * max(len(kept), 1))


def bits_per_token__right_place_by_place(logits, targets, mask):
    """A Python loop over all places that sums the cost of those that count."""
    total, count = (logits[mask] * 0).sum(), 0
    for b, i in mask.nonzero().tolist():
        row = logits[b, i]
        total = total + torch.logsumexp(row, 0) / math.log(2) - row[int(targets[b, i])] * math.log2(math.e)
        count += 1
    return total / count if count else total


# adamw_step


def adamw_step__wrong_v_with_beta1(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """v is corrected for its start with beta1 in place of beta2."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**step)
    v_hat = v / (1 - beta1**step)
    return w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w), m, v


def adamw_step__wrong_decay_in_gradient(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The decay is added to the gradient and so goes through both averages, which is Adam with L2, not AdamW."""
    grad = grad + weight_decay * w
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**step)
    v_hat = v / (1 - beta2**step)
    return w - lr * m_hat / (v_hat.sqrt() + eps), m, v


def adamw_step__wrong_returns_corrected(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The corrected averages are returned in place of the uncorrected ones."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m = m / (1 - beta1**step)
    v = v / (1 - beta2**step)
    w = w - lr * (m / (torch.sqrt(v) + eps) + weight_decay * w)
    return w, m, v


def adamw_step__wrong_in_place(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """m and v are updated in place and returned, so the caller's tensors change and nothing new is made."""
    m.mul_(beta1).add_(grad, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    m_hat = m / (1 - beta1**step)
    v_hat = v / (1 - beta2**step)
    return w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w), m, v


def adamw_step__wrong_decay_without_lr(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The decay is subtracted as a whole, without the factor lr."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**step)
    v_hat = v / (1 - beta2**step)
    return w - weight_decay * w - lr * m_hat / (v_hat.sqrt() + eps), m, v


def adamw_step__wrong_two_no_m_correction_eps_in_root(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """m goes into the move without correction, and eps stands under the root in place of beside it."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    v_hat = v / (1 - beta2**step)
    return w - lr * (m / torch.sqrt(v_hat + eps) + weight_decay * w), m, v


def adamw_step__right_library_form(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The weight decays first, lerp makes the averages, and the corrections sit in the step size and the divisor."""
    with torch.no_grad():
        m = torch.lerp(m, grad, 1 - beta1)
        v = torch.lerp(v, grad.square(), 1 - beta2)
        divisor = v.sqrt() / math.sqrt(1 - beta2**step) + eps
        shrunk = w * (1 - lr * weight_decay)
        return torch.addcdiv(shrunk, m, divisor, value=-lr / (1 - beta1**step)), m, v


def adamw_step__right_number_by_number(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """A Python loop over the single numbers, as plain floats that are put back into tensors at the end."""
    rows = []
    for wi, gi, mi, vi in zip(*(t.flatten().tolist() for t in (w, grad, m, v)), strict=True):
        mi += (1 - beta1) * (gi - mi)
        vi += (1 - beta2) * (gi * gi - vi)
        move = mi / (1 - beta1**step) / (math.sqrt(vi / (1 - beta2**step)) + eps)
        rows.append((wi - lr * move - lr * weight_decay * wi, mi, vi))
    columns = torch.tensor(rows, dtype=w.dtype).reshape(-1, 3).T
    return tuple(column.reshape(w.shape).clone() for column in columns)


# sample


def sample__wrong_nucleus_one_short(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """A token is kept only while the sum with it is at most top_p, so the one that reaches top_p is cut off."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p = (logits / temperature).softmax(dim=-1)
            ordered, ids = p.sort(descending=True)
            keep = ordered.cumsum(0) <= top_p
            keep[0] = True
            p = torch.zeros_like(p).scatter(0, ids, ordered * keep)
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_draws_sorted(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """It draws from the probabilities in sorted order and looks the id up afterwards, not in the order of the ids."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p, ids = (logits / temperature).softmax(dim=-1).sort(descending=True)
            p = torch.where(p.cumsum(0) - p < top_p, p, 0)
            token = int(ids[torch.multinomial(p, 1, generator=generator)])
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_nucleus_before_temperature(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Which tokens are kept is decided by the probabilities before the temperature in place of after it."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            token = int(logits.argmax())
        else:
            plain, ids = logits.softmax(dim=-1).sort(descending=True)
            out = ids[plain.cumsum(0) - plain >= top_p]
            p = (logits / temperature).softmax(dim=-1)
            p[out] = 0
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_end_in_prompt(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """It stops as soon as the end stands anywhere in the list, so a prompt that holds it is never continued."""
    tokens = list(prompt)
    while end not in tokens and len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            tokens.append(int(logits.argmax()))
            continue
        p = (logits / temperature).softmax(dim=-1)
        ordered, ids = p.sort(descending=True)
        p = torch.zeros_like(p).scatter(0, ids, ordered * (ordered.cumsum(0) - ordered < top_p))
        tokens.append(int(torch.multinomial(p, 1, generator=generator)))
    return tokens


def sample__wrong_last_token_only(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The model is handed only the last token in place of all ids so far."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits([tokens[-1]])
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p = (logits / temperature).softmax(dim=-1)
            ordered, ids = p.sort(descending=True)
            p = torch.zeros_like(p).scatter(0, ids, ordered * (ordered.cumsum(0) - ordered < top_p))
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_two_new_tokens_and_prompt(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """max_len counts the new tokens without the prompt, and the new tokens are appended to the caller's prompt."""
    for _ in range(max_len):
        logits = next_logits(prompt)
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p = (logits / temperature).softmax(dim=-1)
            ordered, ids = p.sort(descending=True)
            p = torch.zeros_like(p).scatter(0, ids, ordered * (ordered.cumsum(0) - ordered < top_p))
            token = int(torch.multinomial(p, 1, generator=generator))
        prompt.append(token)
        if token == end:
            break
    return prompt


def sample__right_python_sorting(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The nucleus is found with Python's sorted and a running sum, and a recursion goes on from the longer prompt."""
    written = [int(token) for token in prompt]
    if len(written) >= max_len:
        return written
    logits = next_logits(list(written))
    if temperature == 0:
        token = max(range(len(logits)), key=logits.tolist().__getitem__)
    else:
        p = torch.softmax(logits / temperature, 0)
        values = p.tolist()
        order = sorted(range(len(values)), key=lambda i: -values[i])
        sums = accumulate(values[i] for i in order)
        size = 1 + sum(total < top_p for total in sums)
        kept = torch.zeros_like(p)
        kept[order[:size]] = p[order[:size]]
        token = torch.multinomial(kept, 1, generator=generator).item()
    if token == end:
        return [*written, token]
    return sample__right_python_sorting(next_logits, [*written, token], end, max_len, temperature, top_p, generator)


def sample__right_ascending(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """It sorts upwards, cuts the tail by what stands above each token, and brings the rest back to a sum of 1."""
    text = [*prompt]
    for _ in range(max_len - len(prompt)):
        logits = next_logits(text[:])
        if temperature == 0:
            token = logits.topk(1).indices.item()
        else:
            p = (logits / temperature).log_softmax(0).exp()
            order = p.argsort()
            above = p[order].flip(0).cumsum(0).roll(1)
            above[0] = 0
            below_cut = torch.empty_like(p, dtype=torch.bool)
            below_cut[order.flip(0)] = (above >= top_p) & (torch.arange(len(p)) > 0)
            p = p.masked_fill(below_cut, 0)
            token = torch.multinomial(p / p.sum(), 1, generator=generator).item()
        text += [token]
        if token == end:
            return text
    return text
