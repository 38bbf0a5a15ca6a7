"""Answers to the exercises of unit 7 as students would hand them in: eight wrong and two right for each."""

import functools
import math
from fractions import Fraction

import torch
import torch.nn.functional as F

# What the notebook gives, or an earlier exercise asks for, written rightly.


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    batch, n, _ = X.shape
    Q, K, V = (
        (X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V)
    )
    if mask is not None:
        assert mask.dtype == torch.bool
        assert mask.ndim >= 2 and all(size in (1, n) for size in mask.shape[-2:])
        mask = mask.expand(batch, n_heads, n, n)
        some = mask.any(dim=-1, keepdim=True)
        heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask | ~some) * some
    else:
        heads = F.scaled_dot_product_attention(Q, K, V)
    return heads.transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def _layer_norm(x, gamma, beta, eps=1e-5):
    deviation = x - x.mean(-1, keepdim=True)
    variance = deviation.square().mean(-1, keepdim=True)
    return gamma * deviation / torch.sqrt(variance + eps) + beta


def _gelu(x):
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


def _feed_forward(x, W_1, b_1, W_2, b_2, activation):
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def _attend(x, params, n_heads, mask):
    p = params
    return _multi_head_attention(
        x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )


def _ffn(x, params):
    p = params
    return _feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def _pre_norm_block(x, params, n_heads, mask=None):
    y = x + _attend(
        _layer_norm(x, params["gamma_1"], params["beta_1"]), params, n_heads, mask
    )
    return y + _ffn(_layer_norm(y, params["gamma_2"], params["beta_2"]), params)


# ---------------------------------------------------------------- 7.1 layer_norm


def layer_norm__wrong_seventh_whole_sentence(x, gamma, beta, eps=1e-5):
    """Averages over all axes but the first, so that all tokens of a sentence share one mean and one variance."""
    axes = tuple(range(1, x.ndim)) or -1
    mu = x.mean(dim=axes, keepdim=True)
    var = x.var(dim=axes, correction=0, keepdim=True)
    return gamma * (x - mu) / torch.sqrt(var + eps) + beta


def layer_norm__wrong_seventh_eps_as_floor(x, gamma, beta, eps=1e-5):
    """Uses eps as a lower bound of the variance, `clamp(min=eps)`, in place of adding it."""
    centred = x - x.mean(-1, keepdim=True)
    var = (centred**2).mean(-1, keepdim=True)
    safe_var = torch.clamp(var, min=eps)
    return centred / safe_var.sqrt() * gamma + beta


def layer_norm__wrong_seventh_mean_absolute_deviation(x, gamma, beta, eps=1e-5):
    """Takes the mean of |x - mean| for the standard deviation, in place of the root of the mean of the squares."""
    mean = x.mean(dim=-1, keepdim=True)
    distance = torch.abs(x - mean)
    sigma = distance.mean(dim=-1, keepdim=True)
    return gamma * ((x - mean) / torch.sqrt(sigma**2 + eps)) + beta


def layer_norm__wrong_seventh_minus_equals(x, gamma, beta, eps=1e-5):
    """Subtracts the mean with `x -= mean`, which changes the x that it was handed."""
    x -= x.mean(-1, keepdim=True)
    variance = torch.mean(x * x, dim=-1, keepdim=True)
    return gamma * x / torch.sqrt(variance + eps) + beta


def layer_norm__wrong_seventh_mean_square_less_square_of_mean(
    x, gamma, beta, eps=1e-5
):
    """Takes the variance as mean of x² minus mean², which in float32 loses all digits near 10,000 and may go below 0."""
    m1 = x.mean(-1, keepdim=True)
    m2 = (x**2).mean(-1, keepdim=True)
    return gamma * (x - m1) / (m2 - m1**2 + eps) ** 0.5 + beta


def layer_norm__wrong_seventh_flat_token_gives_zeros(x, gamma, beta, eps=1e-5):
    """Guards against a division by 0 by giving a token of equal features zeros, where it should become beta."""
    tokens = x.reshape(-1, x.shape[-1])
    rows = []
    for token in tokens:
        deviation = token - token.mean()
        variance = (deviation**2).mean()
        if variance == 0:
            rows.append(torch.zeros_like(token))
        else:
            rows.append(gamma * deviation / torch.sqrt(variance + eps) + beta)
    return torch.stack(rows).reshape(x.shape)


def layer_norm__wrong_seventh_eps_on_deviations(x, gamma, beta, eps=1e-5):
    """Adds eps to the deviations before they are squared, so eps² stands under the root in place of eps."""
    mu = x.mean(dim=-1, keepdim=True)
    sigma = ((x - mu + eps) ** 2).mean(dim=-1, keepdim=True).sqrt()
    z = (x - mu) / sigma
    return gamma * z + beta


def layer_norm__wrong_seventh_gamma_first(x, gamma, beta, eps=1e-5):
    """Scales x by gamma before the norm, so mean and variance are those of gamma * x, and adds beta at the end."""
    scaled = gamma * x
    centre = scaled.mean(-1, keepdim=True)
    spread = torch.sqrt(scaled.var(-1, unbiased=False, keepdim=True) + eps)
    return (scaled - centre) / spread + beta


def layer_norm__right_seventh_running_moments(x, gamma, beta, eps=1e-5):
    """Goes through the features one by one and updates mean and sum of squares by Welford's rule."""
    mean = torch.zeros_like(x[..., 0])
    squares = torch.zeros_like(mean)
    for count, feature in enumerate(x.unbind(-1), start=1):
        before = feature - mean
        mean = mean + before / count
        squares = squares + before * (feature - mean)
    root = torch.sqrt(squares / x.shape[-1] + eps)
    return gamma * ((x - mean[..., None]) / root[..., None]) + beta


def layer_norm__right_seventh_pairs(x, gamma, beta, eps=1e-5):
    """Compares all features in pairs: the mean difference is the deviation, half the mean squared one the variance."""
    differences = x.unsqueeze(-1) - x.unsqueeze(-2)
    deviation = differences.mean(-1)
    variance = differences.square().mean((-2, -1)).unsqueeze(-1) / 2
    return torch.addcmul(beta, gamma, deviation * torch.rsqrt(variance + eps))


# ---------------------------------------------------------------- 7.2 batch_norm


def batch_norm__wrong_seventh_mean_of_variances(x, gamma, beta, eps=1e-5):
    """Averages the variances within the sentences, which leaves out how far the sentences' means lie apart."""
    mean = x.mean(dim=(0, 1))
    within = x.var(dim=1, correction=0)  # (B, d)
    variance = within.mean(dim=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_seventh_running_average(x, gamma, beta, eps=1e-5):
    """Normalises with a running average from mean 0 and variance 1 with momentum 0.1, not with the batch's own statistics."""
    momentum = 0.1
    d = x.shape[-1]
    running_mean = torch.zeros(d, dtype=x.dtype)
    running_var = torch.ones(d, dtype=x.dtype)
    batch_mean = x.mean((0, 1))
    batch_var = x.var((0, 1), correction=0)
    running_mean = (1 - momentum) * running_mean + momentum * batch_mean
    running_var = (1 - momentum) * running_var + momentum * batch_var
    return gamma * (x - running_mean) / torch.sqrt(running_var + eps) + beta


def batch_norm__wrong_seventh_zeros_are_pads(x, gamma, beta, eps=1e-5):
    """Takes tokens of zeros for padding and leaves them out of mean and variance."""
    is_word = (x != 0).any(dim=-1)
    words = x[is_word] if is_word.any() else x.flatten(0, 1)
    mu = words.mean(dim=0)
    var = ((words - mu) ** 2).mean(dim=0)
    return gamma * (x - mu) / torch.sqrt(var + eps) + beta


def batch_norm__wrong_seventh_reshaped_to_features(x, gamma, beta, eps=1e-5):
    """Brings the features to the front by `reshape(d, -1)`, which keeps the reading order and mixes the features."""
    B, n, d = x.shape
    by_feature = x.reshape(d, B * n)
    mu = by_feature.mean(dim=1, keepdim=True)
    var = by_feature.var(dim=1, correction=0, keepdim=True)
    z = ((by_feature - mu) / torch.sqrt(var + eps)).reshape(B, n, d)
    return gamma * z + beta


def batch_norm__wrong_seventh_variance_from_layer_norm(x, gamma, beta, eps=1e-5):
    """Copied layer norm and changed the axes of the mean only: the variance is still taken over the last axis."""
    mean = x.mean(dim=(0, 1), keepdim=True)
    diff = x - mean
    variance = diff.pow(2).mean(dim=-1, keepdim=True)
    return gamma * diff / (variance + eps).sqrt() + beta


def batch_norm__wrong_seventh_one_variance_for_all(x, gamma, beta, eps=1e-5):
    """Gives each feature its own mean, but takes `.mean()` of all squared deviations: one variance for all features."""
    n_tokens = x.shape[0] * x.shape[1]
    mu = x.sum(dim=0).sum(dim=0) / n_tokens
    deviation = x - mu
    variance = (deviation * deviation).mean()
    return gamma * deviation / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_seventh_lone_token_as_it_is(x, gamma, beta, eps=1e-5):
    """Returns x itself if the batch holds a single token, where the formula gives beta."""
    how_many = x.shape[0] * x.shape[1]
    if how_many == 1:
        return x.clone()
    mean = x.sum((0, 1)) / how_many
    variance = ((x - mean) ** 2).sum((0, 1)) / how_many
    return (x - mean) * torch.rsqrt(variance + eps) * gamma + beta


def batch_norm__wrong_seventh_statistics_without_gradient(x, gamma, beta, eps=1e-5):
    """Takes mean and variance under `torch.no_grad()`, so that the gradient of x treats them as constants."""
    with torch.no_grad():
        mu = x.mean((0, 1))
        var = ((x - mu) ** 2).mean((0, 1))
    x_hat = (x - mu) / torch.sqrt(var + eps)
    return gamma * x_hat + beta


def batch_norm__right_seventh_sentences_merged(x, gamma, beta, eps=1e-5):
    """Takes the statistics sentence by sentence and merges them two at a time by Chan's rule."""
    mean, seen = x[0].mean(0), x.shape[1]
    squares = (x[0] - mean).square().sum(0)
    for sentence in x[1:]:
        own_mean, size = sentence.mean(0), len(sentence)
        gap, both = own_mean - mean, seen + size
        squares = (
            squares
            + (sentence - own_mean).square().sum(0)
            + gap.square() * (seen * size / both)
        )
        mean = mean + gap * (size / both)
        seen = both
    return gamma * (x - mean) / torch.sqrt(squares / seen + eps) + beta


def batch_norm__right_seventh_feature_by_feature(x, gamma, beta, eps=1e-5):
    """Treats every feature as one long vector of B*n numbers, its variance a dot product, and stacks the results."""
    done = []
    for c in range(x.shape[2]):
        numbers = x[:, :, c].reshape(-1)
        numbers = numbers - numbers.mean()
        variance = torch.dot(numbers, numbers) / numbers.numel()
        column = numbers / torch.sqrt(variance + eps) * gamma[c] + beta[c]
        done.append(column.reshape(x.shape[:2]))
    return torch.stack(done, dim=2)


# ---------------------------------------------------------------- 7.3 gelu


def gelu__wrong_seventh_density(x):
    """Multiplies x by the density of the standard normal at x, not by the probability of being less than x."""
    bell = torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return x * bell


def gelu__wrong_seventh_probability_alone(x):
    """Returns the probability Φ(x) and forgets to multiply it by x."""
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def gelu__wrong_seventh_of_absolute_value(x):
    """Takes Φ of |x|, so that a negative x is multiplied by more than a half."""
    size = x.abs()
    phi = (1 + torch.erf(size / 2**0.5)) / 2
    return phi * x


def gelu__wrong_seventh_cut_at_three(x):
    """Replaces everything below -3 by 0 and above 3 by x, as if the curve ended there, where the exact value is still off by 0.004."""
    middle = 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
    y = torch.where(x < -3, torch.zeros_like(x), middle)
    return torch.where(x > 3, x, y)


def gelu__wrong_seventh_counted_draws(x):
    """Estimates the probability as the share of 10,000 random normal numbers below x: inexact, and drawn with no generator."""
    numbers, _ = torch.sort(torch.randn(10_000, dtype=x.dtype))
    below = torch.searchsorted(numbers, x.detach().contiguous())
    return x * (below / 10_000).to(x.dtype)


def gelu__wrong_seventh_math_erf_on_a_list(x):
    """Computes with `math.erf` over x.tolist() and builds a new tensor, through which no gradient reaches x."""
    values = [v / 2 * (1 + math.erf(v / math.sqrt(2))) for v in x.flatten().tolist()]
    return torch.tensor(values, dtype=x.dtype).reshape(x.shape)


def gelu__wrong_seventh_half_of_one_only(x):
    """Lets the factor 1/2 act on the 1 alone: x * (1/2 + erf(x / √2))."""
    s = math.sqrt(2.0)
    return x * (1 / 2 * 1 + torch.erf(x / s))


def gelu__wrong_seventh_root_outside_erf(x):
    """Divides erf(x) by √2 in place of taking erf of x/√2: a bracket in the wrong place."""
    return x / 2 * (1 + torch.erf(x) / math.sqrt(2))


def gelu__right_seventh_complement(x):
    """Uses the complementary error function: Φ(x) is erfc(-x / √2) / 2."""
    return torch.special.erfc(x * -math.sqrt(0.5)).mul(x).div(2)


def gelu__right_seventh_distribution(x):
    """Asks torch's standard normal distribution for its cumulative probability and multiplies."""
    standard = torch.distributions.Normal(x.new_tensor(0.0), x.new_tensor(1.0))
    return standard.cdf(x) * x


# ---------------------------------------------------------------- 7.4 feed_forward


def feed_forward__wrong_seventh_normed_first(x, W_1, b_1, W_2, b_2, activation):
    """Puts a layer norm without gamma and beta before the first map, as in a pre-norm block; no norm is asked for."""
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, correction=0, keepdim=True)
    normed = (x - mean) / torch.sqrt(var + 1e-5)
    return activation(normed @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_seventh_always_relu(x, W_1, b_1, W_2, b_2, activation):
    """Ignores the callable and always uses ReLU, as in the paper of 2017."""
    hidden = torch.clamp(x @ W_1 + b_1, min=0)
    return hidden @ W_2 + b_2


def feed_forward__wrong_seventh_gated(x, W_1, b_1, W_2, b_2, activation):
    """Multiplies the hidden features by their activation, like a gated unit, in place of replacing them by it."""
    hidden = x @ W_1 + b_1
    gate = activation(hidden)
    return (gate * hidden) @ W_2 + b_2


def feed_forward__wrong_seventh_back_through_first_matrix(
    x, W_1, b_1, W_2, b_2, activation
):
    """Goes back through the transpose of W_1 and never uses W_2."""
    up = activation(torch.matmul(x, W_1) + b_1)
    down = torch.matmul(up, W_1.transpose(0, 1))
    return down + b_2


def feed_forward__wrong_seventh_bias_into_matrix(x, W_1, b_1, W_2, b_2, activation):
    """Sets the brackets around W_2 + b_2, so that the second bias is multiplied by the sum of the hidden features."""
    hidden = activation((x @ W_1) + b_1)
    return hidden @ (W_2 + b_2)


def feed_forward__wrong_seventh_scaled_like_attention(
    x, W_1, b_1, W_2, b_2, activation
):
    """Divides the scores of the hidden features by √d_model before the activation, as attention does with its scores."""
    d_model = W_1.shape[0]
    scores = (x @ W_1 + b_1) / math.sqrt(d_model)
    return activation(scores) @ W_2 + b_2


def feed_forward__wrong_seventh_squeezed(x, W_1, b_1, W_2, b_2, activation):
    """Makes every token a batch of its own and squeezes at the end, which also takes away x's own axes of size 1."""
    rows = x.unsqueeze(-2)  # (..., 1, d_model)
    hidden = activation(rows @ W_1 + b_1)
    out = hidden @ W_2 + b_2
    return out.squeeze()


def feed_forward__wrong_seventh_activation_of_x(x, W_1, b_1, W_2, b_2, activation):
    """Applies the activation to the token before the first map; between the two maps nothing bends."""
    bent = activation(x)
    h = torch.einsum("...i,ij->...j", bent, W_1) + b_1
    return torch.einsum("...j,jk->...k", h, W_2) + b_2


def feed_forward__right_seventh_question_by_question(
    x, W_1, b_1, W_2, b_2, activation
):
    """Asks one hidden feature after the other and adds its row of W_2 as often as the activation says."""
    out = b_2.expand(x.shape)
    for question, bias, answer in zip(W_1.unbind(1), b_1, W_2.unbind(0), strict=True):
        score = (x * question).sum(-1, keepdim=True) + bias
        out = out + activation(score) * answer
    return out


def feed_forward__right_seventh_biases_as_rows(x, W_1, b_1, W_2, b_2, activation):
    """Gives token and hidden features one more entry, 1, and each matrix one more row, its bias."""
    one = torch.ones_like(x[..., :1])
    first = torch.cat([W_1, b_1.unsqueeze(0)], dim=0)
    second = torch.cat([W_2, b_2.unsqueeze(0)], dim=0)
    hidden = activation(torch.cat([x, one], dim=-1) @ first)
    return torch.cat([hidden, one], dim=-1) @ second


# ---------------------------------------------------------------- 7.5 post_norm_block


def post_norm_block__wrong_seventh_second_residual_from_x(
    x, params, n_heads, mask=None
):
    """The second residual adds the block's input x again, in place of y, what came out of the first norm."""
    p = params
    attended = _multi_head_attention(
        x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    y = _layer_norm(x + attended, p["gamma_1"], p["beta_1"])
    fed = _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _layer_norm(x + fed, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_seventh_sublayer_normed_before_adding(
    x, params, n_heads, mask=None
):
    """Norms what the sublayer returns and then adds it, so that the sum itself passes no norm."""
    weights = [params[name] for name in ("W_Q", "W_K", "W_V", "W_O", "b_O")]
    out = _multi_head_attention(x, *weights, n_heads, mask)
    x = x + _layer_norm(out, params["gamma_1"], params["beta_1"])
    out = _feed_forward(
        x, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu
    )
    return x + _layer_norm(out, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_seventh_causal_without_mask(x, params, n_heads, mask=None):
    """Puts in the causal mask where mask is None, though then every token may attend to all."""
    n = x.shape[1]
    if mask is None:
        mask = torch.tril(torch.ones(n, n, dtype=torch.bool))
    att = _multi_head_attention(
        x,
        params["W_Q"],
        params["W_K"],
        params["W_V"],
        params["W_O"],
        params["b_O"],
        n_heads,
        mask,
    )
    y = _layer_norm(x + att, params["gamma_1"], params["beta_1"])
    ffn = _gelu(y @ params["W_1"] + params["b_1"]) @ params["W_2"] + params["b_2"]
    return _layer_norm(y + ffn, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_seventh_popped_weights(x, params, n_heads, mask=None):
    """Takes the norms' weights out with `params.pop`, so the caller's dictionary lacks them afterwards."""
    norms = [(params.pop(f"gamma_{i}"), params.pop(f"beta_{i}")) for i in (1, 2)]
    p = params
    y = x + _multi_head_attention(
        x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    y = _layer_norm(y, *norms[0])
    z = y + _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _layer_norm(z, *norms[1])


def post_norm_block__wrong_seventh_keys_for_queries(x, params, n_heads, mask=None):
    """Hands W_K over before W_Q, so that the keys ask and the queries are asked."""
    K, Q, V, O, b = (params[k] for k in ("W_K", "W_Q", "W_V", "W_O", "b_O"))
    attention = _multi_head_attention(x, K, Q, V, O, b, n_heads, mask)
    y = _layer_norm(x + attention, params["gamma_1"], params["beta_1"])
    hidden = _gelu(y @ params["W_1"] + params["b_1"])
    feed = hidden @ params["W_2"] + params["b_2"]
    return _layer_norm(y + feed, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_seventh_ffn_of_x(x, params, n_heads, mask=None):
    """The feed-forward network gets the block's input x in place of y; the residual around it is right."""
    p = params
    a = _multi_head_attention(
        x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask=mask
    )
    f = _feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], activation=_gelu)
    y = _layer_norm(x + a, p["gamma_1"], p["beta_1"])
    z = _layer_norm(y + f, p["gamma_2"], p["beta_2"])
    return z


def post_norm_block__wrong_seventh_first_mask_for_all(x, params, n_heads, mask=None):
    """Cuts a mask of more than two axes down to its first (n, n), so all sequences and heads share that one."""
    if mask is not None and mask.ndim > 2:
        mask = mask.reshape(-1, *mask.shape[-2:])[0]

    def attention(t):
        names = "W_Q W_K W_V W_O b_O".split()
        return _multi_head_attention(t, *[params[k] for k in names], n_heads, mask)

    def ffn(t):
        return _gelu(t @ params["W_1"] + params["b_1"]) @ params["W_2"] + params["b_2"]

    y = _layer_norm(x + attention(x), params["gamma_1"], params["beta_1"])
    return _layer_norm(y + ffn(y), params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_seventh_eps_of_bert(x, params, n_heads, mask=None):
    """Runs both norms with BERT's eps of 1e-12 in place of the default 1e-5, which shows with faint tokens."""
    p, tiny = params, 1e-12
    att = _multi_head_attention(
        x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    y = _layer_norm(x + att, p["gamma_1"], p["beta_1"], tiny)
    ff = _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _layer_norm(y + ff, p["gamma_2"], p["beta_2"], tiny)


def post_norm_block__right_seventh_head_by_head(x, params, n_heads, mask=None):
    """Writes attention out: each head adds its share of rows of W_O to the residual; a query that sees nothing adds 0."""
    p = params
    B, n, _ = x.shape
    if mask is None:
        mask = torch.ones(n, n, dtype=torch.bool, device=x.device)
    mask = mask.broadcast_to(B, n_heads, n, n)
    d_head = p["W_Q"].shape[1] // n_heads
    y = x + p["b_O"]
    for h in range(n_heads):
        own = slice(h * d_head, (h + 1) * d_head)
        Q, K, V = (x @ p[name][:, own] for name in ("W_Q", "W_K", "W_V"))
        scores = torch.einsum("bid,bjd->bij", Q, K) / math.sqrt(d_head)
        sees = mask[:, h].any(-1, keepdim=True)
        scores = scores.masked_fill(sees & ~mask[:, h], -math.inf)
        weights = torch.softmax(scores, dim=-1) * sees
        y = y + weights @ V @ p["W_O"][own]
    y = _layer_norm(y, p["gamma_1"], p["beta_1"])
    hidden = _gelu(y @ p["W_1"] + p["b_1"])
    return _layer_norm(y + hidden @ p["W_2"] + p["b_2"], p["gamma_2"], p["beta_2"])


def post_norm_block__right_seventh_two_rounds(x, params, n_heads, mask=None):
    """Goes through a list of two sublayers in the same loop: add what the sublayer says, then norm by its number."""
    attention = functools.partial(
        _multi_head_attention,
        **{k: params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O")},
        n_heads=n_heads,
        mask=mask,
    )
    feed = functools.partial(
        _feed_forward,
        **{k: params[k] for k in ("W_1", "b_1", "W_2", "b_2")},
        activation=_gelu,
    )
    stream = x
    for i, sublayer in enumerate((attention, feed), start=1):
        stream = torch.add(stream, sublayer(stream))
        stream = _layer_norm(stream, params[f"gamma_{i}"], params[f"beta_{i}"])
    return stream


# ---------------------------------------------------------------- 7.6 pre_norm_block


def pre_norm_block__wrong_seventh_only_queries_normed(x, params, n_heads, mask=None):
    """Only the queries see the normed tokens; keys and values are made of x as it is."""
    p = params
    B, n, _ = x.shape
    normed = _layer_norm(x, p["gamma_1"], p["beta_1"])

    def heads(t):
        return t.reshape(B, n, n_heads, -1).transpose(1, 2)

    Q, K, V = heads(normed @ p["W_Q"]), heads(x @ p["W_K"]), heads(x @ p["W_V"])
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is None:
        weights = scores.softmax(-1)
    else:
        mask = mask.expand(scores.shape)
        sees = mask.any(-1, keepdim=True)
        weights = scores.masked_fill(~mask & sees, -math.inf).softmax(-1) * sees
    mixed = (weights @ V).transpose(1, 2).reshape(B, n, -1)
    y = x + mixed @ p["W_O"] + p["b_O"]
    fed = _layer_norm(y, p["gamma_2"], p["beta_2"])
    return y + _gelu(fed @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"]


def pre_norm_block__wrong_seventh_bypass_after_norm(x, params, n_heads, mask=None):
    """Overwrites x by its norm, so that the bypass carries the normed tokens in both sublayers."""
    p = params
    x = _layer_norm(x, p["gamma_1"], p["beta_1"])
    x = x + _multi_head_attention(
        x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    x = _layer_norm(x, p["gamma_2"], p["beta_2"])
    x = x + _feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return x


def pre_norm_block__wrong_seventh_ffn_of_attention_alone(
    x, params, n_heads, mask=None
):
    """The feed-forward network sees the norm of what attention brought, without the x that it was added to."""
    weights = (params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O"))
    normed = _layer_norm(x, params["gamma_1"], params["beta_1"])
    brought = _multi_head_attention(normed, *weights, n_heads, mask)
    y = x + brought
    normed = _layer_norm(brought, params["gamma_2"], params["beta_2"])
    return y + (
        _gelu(normed @ params["W_1"] + params["b_1"]) @ params["W_2"] + params["b_2"]
    )


def pre_norm_block__wrong_seventh_side_by_side(x, params, n_heads, mask=None):
    """Runs both sublayers side by side on the norms of x and adds both to x: the parallel block."""
    p = params
    att = _multi_head_attention(
        _layer_norm(x, p["gamma_1"], p["beta_1"]),
        p["W_Q"],
        p["W_K"],
        p["W_V"],
        p["W_O"],
        p["b_O"],
        n_heads,
        mask,
    )
    ffn = _feed_forward(
        _layer_norm(x, p["gamma_2"], p["beta_2"]),
        p["W_1"],
        p["b_1"],
        p["W_2"],
        p["b_2"],
        _gelu,
    )
    return x + att + ffn


def pre_norm_block__wrong_seventh_mask_turned_round(x, params, n_heads, mask=None):
    """Turns the mask round with ~ before it hands it on, as for PyTorch's own block, where True means “may not”."""
    hidden = None if mask is None else ~mask
    p = params
    q = _layer_norm(x, p["gamma_1"], p["beta_1"])
    y = x + _multi_head_attention(
        q, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, hidden
    )
    q = _layer_norm(y, p["gamma_2"], p["beta_2"])
    return y + _feed_forward(q, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def pre_norm_block__wrong_seventh_plus_equals(x, params, n_heads, mask=None):
    """Adds with `x +=`, which writes both sums into the tensor that the caller handed in."""
    for_attention = _layer_norm(x, params["gamma_1"], params["beta_1"])
    x += _multi_head_attention(
        for_attention,
        params["W_Q"],
        params["W_K"],
        params["W_V"],
        params["W_O"],
        params["b_O"],
        n_heads,
        mask,
    )
    for_ffn = _layer_norm(x, params["gamma_2"], params["beta_2"])
    x += _feed_forward(
        for_ffn, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu
    )
    return x


def pre_norm_block__wrong_seventh_no_output_bias(x, params, n_heads, mask=None):
    """Hands zeros to the attention in place of b_O, and never adds b_O itself."""
    zeros = torch.zeros_like(params["b_O"])
    W_Q, W_K, W_V, W_O = [params["W_" + letter] for letter in "QKVO"]
    normed = _layer_norm(x, params["gamma_1"], params["beta_1"])
    y = x + _multi_head_attention(normed, W_Q, W_K, W_V, W_O, zeros, n_heads, mask)
    normed = _layer_norm(y, params["gamma_2"], params["beta_2"])
    hidden = _gelu(normed @ params["W_1"] + params["b_1"])
    return y + hidden @ params["W_2"] + params["b_2"]


def pre_norm_block__wrong_seventh_norms_exchanged(x, params, n_heads, mask=None):
    """Norms before attention with gamma_2, beta_2 and before the feed-forward network with gamma_1, beta_1."""
    p = params
    steps = [
        (
            "2",
            lambda t: _multi_head_attention(
                t, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
            ),
        ),
        (
            "1",
            lambda t: _feed_forward(t, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu),
        ),
    ]
    for which, sublayer in steps:
        x = x + sublayer(_layer_norm(x, p["gamma_" + which], p["beta_" + which]))
    return x


def pre_norm_block__right_seventh_norm_folded_in(x, params, n_heads, mask=None):
    """Folds gamma and beta into the matrices behind them: one plain standardisation, then one product for Q, K and V."""
    p = params
    B, n, _ = x.shape

    def standard(t):
        t = t - t.mean(-1, keepdim=True)
        return t / torch.sqrt(t.square().mean(-1, keepdim=True) + 1e-5)

    joined = torch.cat([p["W_Q"], p["W_K"], p["W_V"]], dim=1)
    qkv = standard(x) @ (p["gamma_1"][:, None] * joined) + p["beta_1"] @ joined
    Q, K, V = qkv.reshape(B, n, 3, n_heads, -1).permute(2, 0, 3, 1, 4)
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(Q.shape[-1])
    if mask is not None:
        sees = mask.any(-1, keepdim=True)
        scores = torch.where(mask | ~sees, scores, -math.inf)
        weights = scores.softmax(-1) * sees
    else:
        weights = scores.softmax(-1)
    W_O = p["W_O"].reshape(n_heads, -1, x.shape[-1])
    y = x + torch.einsum("bhij,bhjd,hde->bie", weights, V, W_O) + p["b_O"]
    up = (
        standard(y) @ (p["gamma_2"][:, None] * p["W_1"])
        + p["beta_2"] @ p["W_1"]
        + p["b_1"]
    )
    return y + _gelu(up) @ p["W_2"] + p["b_2"]


def pre_norm_block__right_seventh_each_sequence_alone(x, params, n_heads, mask=None):
    """Takes the sequences one by one, each with its own part of the mask, and sums three terms: x, attention, FFN."""
    p = params
    B, n, _ = x.shape
    if mask is not None:
        mask = mask.broadcast_to(B, n_heads, n, n)
    rows = []
    for b in range(B):
        one = x[b : b + 1]
        own = None if mask is None else mask[b : b + 1]
        normed = _layer_norm(one, p["gamma_1"], p["beta_1"])
        heard = _multi_head_attention(
            normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, own
        )
        normed = _layer_norm(heard + one, p["gamma_2"], p["beta_2"])
        thought = _feed_forward(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
        rows.append(torch.stack([one, heard, thought]).sum(0))
    return torch.cat(rows)


# ---------------------------------------------------------------- 7.7 transformer_logits


def transformer_logits__wrong_seventh_embeddings_times_root(tokens, params, n_heads):
    """Multiplies the embeddings by √d_model before the positions are added, as the Transformer of 2017 does."""
    W_E = params["W_E"]
    n, d_model = tokens.shape[1], W_E.shape[1]
    x = W_E[tokens] * math.sqrt(d_model) + params["W_pos"][:n]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, causal)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_seventh_final_norm_in_the_loop(tokens, params, n_heads):
    """The line of the final norm is indented too far: it runs after each block, and not at all without blocks."""
    n = tokens.size(1)
    mask = torch.tril(torch.ones((n, n), dtype=torch.bool))
    h = F.embedding(tokens, params["W_E"]) + params["W_pos"][:n]
    for p in params["blocks"]:
        h = _pre_norm_block(h, p, n_heads, mask)
        h = _layer_norm(h, params["gamma_f"], params["beta_f"])
    return h @ params["W_U"]


def transformer_logits__wrong_seventh_mask_in_first_block_only(
    tokens, params, n_heads
):
    """Gives the causal mask to the first block alone, as if the later ones could not look ahead any more."""
    n = tokens.shape[-1]
    x = params["W_E"][tokens] + params["W_pos"][torch.arange(n)]
    mask = torch.arange(n)[:, None] >= torch.arange(n)[None, :]
    for i, block in enumerate(params["blocks"]):
        x = _pre_norm_block(x, block, n_heads, mask if i == 0 else None)
    x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_seventh_every_block_from_the_start(
    tokens, params, n_heads
):
    """Hands the embedded tokens to every block, not what the block before it returned, so only the last one counts."""
    n = tokens.shape[1]
    embedded = params["W_E"][tokens] + params["W_pos"][:n]
    causal = torch.ones(n, n).tril().bool()
    out = embedded
    for block in params["blocks"]:
        out = _pre_norm_block(embedded, block, n_heads, causal)
    out = _layer_norm(out, params["gamma_f"], params["beta_f"])
    return torch.einsum("bnd,dv->bnv", out, params["W_U"])


def transformer_logits__wrong_seventh_id_zero_is_padding(tokens, params, n_heads):
    """Takes id 0 for padding and gives it a vector of zeros in place of row 0 of W_E."""
    B, n = tokens.shape
    rows = params["W_E"][tokens]
    rows = rows * (tokens != 0).unsqueeze(-1)
    x = rows + params["W_pos"][:n]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, mask)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_seventh_shifted_right(tokens, params, n_heads):
    """Shifts the tokens one place to the right and puts id 0 in front, so row i scores token i, not the next one."""
    n = tokens.shape[1]
    start = torch.zeros_like(tokens[:, :1])
    inputs = torch.cat([start, tokens[:, :-1]], dim=1)
    x = params["W_E"][inputs] + params["W_pos"][:n]
    causal = ~torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, causal)
    final = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return final @ params["W_U"]


def transformer_logits__wrong_seventh_bypass_around_blocks(tokens, params, n_heads):
    """Adds x to what each block returns, though the block has added its input already."""
    n = tokens.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    stream = params["W_E"][tokens] + params["W_pos"][:n].unsqueeze(0)
    for weights in params["blocks"]:
        stream = stream + _pre_norm_block(stream, weights, n_heads, causal)
    normed = _layer_norm(stream, params["gamma_f"], params["beta_f"])
    return normed @ params["W_U"]


def transformer_logits__wrong_seventh_last_positions(tokens, params, n_heads):
    """Adds the last n rows of W_pos, `[-n:]`, which are not rows 0 … n-1 if the text is shorter than n_ctx."""
    B, n = tokens.shape
    emb = torch.stack([params["W_E"][row] for row in tokens])
    x = emb + params["W_pos"][-n:]
    keep = torch.tril(torch.ones(n, n)) > 0
    for p in params["blocks"]:
        x = _pre_norm_block(x, p, n_heads, mask=keep)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__right_seventh_word_by_word(tokens, params, n_heads):
    """Reads one token at a time and keeps the keys and values of all blocks, so no mask is needed."""
    B, n = tokens.shape
    kept = [([], []) for _ in params["blocks"]]
    scores = []
    for i in range(n):
        x = params["W_E"][tokens[:, i]] + params["W_pos"][i]  # (B, d_model)
        for p, (keys, values) in zip(params["blocks"], kept, strict=True):
            normed = _layer_norm(x, p["gamma_1"], p["beta_1"])
            q, k, v = (
                (normed @ p[name]).reshape(B, n_heads, -1)
                for name in ("W_Q", "W_K", "W_V")
            )
            keys.append(k)
            values.append(v)
            match = torch.einsum("bhd,bhjd->bhj", q, torch.stack(keys, 2))
            weights = torch.softmax(match / math.sqrt(q.shape[-1]), dim=-1)
            mixed = torch.einsum("bhj,bhjd->bhd", weights, torch.stack(values, 2))
            x = x + mixed.reshape(B, -1) @ p["W_O"] + p["b_O"]
            normed = _layer_norm(x, p["gamma_2"], p["beta_2"])
            x = x + _gelu(normed @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"]
        x = _layer_norm(x, params["gamma_f"], params["beta_f"])
        scores.append(x @ params["W_U"])
    return torch.stack(scores, dim=1)


def transformer_logits__right_seventh_one_hot_and_reduce(tokens, params, n_heads):
    """Embeds by a product with one-hot rows and folds the list of blocks with `functools.reduce`."""
    W_E, W_pos = params["W_E"], params["W_pos"]
    place = torch.arange(tokens.shape[1], device=tokens.device)
    which = (tokens.unsqueeze(-1) == torch.arange(len(W_E), device=tokens.device)).to(
        W_E
    )
    where = (place.unsqueeze(-1) == torch.arange(len(W_pos), device=tokens.device)).to(
        W_pos
    )
    past = place.unsqueeze(0) <= place.unsqueeze(1)
    stream = functools.reduce(
        lambda x, block: _pre_norm_block(x, block, n_heads, past),
        params["blocks"],
        which @ W_E + where @ W_pos,
    )
    return _layer_norm(stream, params["gamma_f"], params["beta_f"]) @ params["W_U"]


# ---------------------------------------------------------------- 7.8 bits_per_token


def bits_per_token__wrong_seventh_probability_plus_tiny(logits, targets, mask):
    """Takes log2 of softmax + 1e-12 against log(0), so no token can cost more than 40 bits."""
    counted = logits[mask]
    p = torch.softmax(counted, dim=-1)
    p_target = p.gather(1, targets[mask].unsqueeze(1))
    return -torch.log2(p_target + 1e-12).sum() / max(int(mask.sum()), 1)


def bits_per_token__wrong_seventh_none_counts(logits, targets, mask):
    """Takes `.mean()` over the tokens that count, which is NaN and not 0 where none does."""
    log_p = F.log_softmax(logits[mask], dim=-1)
    cost = -log_p.gather(-1, targets[mask][:, None]) / math.log(2)
    return cost.mean()


def bits_per_token__wrong_seventh_targets_shifted(logits, targets, mask):
    """Shifts once more: scores at place i are compared with targets[:, i + 1], though targets are the next tokens already."""
    scores, wanted, counts = logits[:, :-1], targets[:, 1:], mask[:, 1:]
    scores, wanted = scores[counts], wanted[counts]
    if len(wanted) == 0:
        return logits[torch.zeros_like(mask)].sum()
    surprise = torch.logsumexp(scores, -1) - scores.gather(1, wanted[:, None])[:, 0]
    return surprise.mean() / math.log(2)


def bits_per_token__wrong_seventh_filler_times_zero(logits, targets, mask):
    """Multiplies the cost of filler by 0 in place of leaving it out, which gives NaN if its logits are NaN or infinite."""
    safe = torch.where(mask, targets, torch.zeros_like(targets))
    log_p = torch.log_softmax(logits, dim=-1)
    picked = torch.gather(log_p, 2, safe.unsqueeze(2)).squeeze(2)
    weight = mask.to(logits.dtype)
    bits = -(picked * weight).sum() / math.log(2)
    return bits / weight.sum().clamp(min=1)


def bits_per_token__wrong_seventh_id_zero_left_out(logits, targets, mask):
    """Takes target 0 for padding and leaves it out of the mean, even where the mask counts it."""
    keep = mask & (targets != 0)
    if not keep.any():
        return logits[keep].sum()
    rows, ids = logits[keep], targets[keep]
    nats = rows.logsumexp(dim=1) - rows[torch.arange(len(ids)), ids]
    return (nats / math.log(2)).mean()


def bits_per_token__wrong_seventh_where_after_softmax(logits, targets, mask):
    """Puts filler aside by `torch.where` only after the log-softmax: the value is right, the gradient NaN if filler is NaN."""
    safe = targets.masked_fill(~mask, 0)
    log_p = F.log_softmax(logits, dim=-1)
    cost = -log_p.gather(-1, safe[..., None])[..., 0]
    cost = torch.where(mask, cost, torch.zeros_like(cost))
    return cost.sum() / mask.sum().clamp(min=1) / math.log(2)


def bits_per_token__wrong_seventh_place_by_place(logits, targets, mask):
    """Takes the mean of each column of the batch and then the mean of those, so places that few texts reach weigh more."""
    means = []
    for i in range(targets.shape[1]):
        here = mask[:, i]
        if here.any():
            rows, ids = logits[here, i], targets[here, i]
            log_p = torch.log_softmax(rows, dim=-1)[range(len(ids)), ids]
            means.append(-log_p.mean() / math.log(2))
    if not means:
        return logits[mask].sum()
    return torch.stack(means).mean()


def bits_per_token__wrong_seventh_bare_exponentials(logits, targets, mask):
    """Writes log(sum(exp(logits))) out without taking the maximum away, which is infinite for large logits."""
    z, t = logits[mask], targets[mask]
    total = torch.log2(torch.exp(z).sum(dim=-1))
    own = z.gather(-1, t.unsqueeze(-1)).squeeze(-1) / math.log(2)
    how_many = max(t.numel(), 1)
    return (total - own).sum() / how_many


def bits_per_token__right_seventh_leads_over_the_target(logits, targets, mask):
    """Goes token by token: the cost is the logsumexp of how far every logit lies above the target's."""
    costs = []
    for row, place in mask.nonzero().tolist():
        scores = logits[row, place]
        lead = scores - scores[targets[row, place]]
        costs.append(torch.logsumexp(lead, dim=0))
    if not costs:
        return logits[mask].sum()  # an empty sum: 0, with gradients 0
    return sum(costs) / (len(costs) * math.log(2))


def bits_per_token__right_seventh_base_two_by_hand(logits, targets, mask):
    """Leaves filler out first, takes each row's maximum away and works in base 2: log2 of the sum less the target's exponent."""
    rows = logits[mask]
    exponents = (rows - rows.amax(-1, keepdim=True)) / math.log(2)
    chosen = exponents[torch.arange(len(rows)), targets[mask]]
    costs = torch.exp2(exponents).sum(-1).log2() - chosen
    return costs.sum() / max(1, len(costs))


# ---------------------------------------------------------------- 7.9 adamw_step


def adamw_step__wrong_seventh_step_from_zero(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Takes the steps to count from 0 and corrects both averages with step + 1."""
    t = step + 1
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    w = w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w)
    return w, m, v


def adamw_step__wrong_seventh_squares_uncorrected(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Corrects m for its start at 0 and forgets to correct v."""
    new_m = torch.lerp(m, grad, 1 - beta1)
    new_v = torch.lerp(v, grad * grad, 1 - beta2)
    mean = new_m / (1 - beta1**step)
    move = mean / (torch.sqrt(new_v) + eps)
    return w - lr * move - lr * weight_decay * w, new_m, new_v


def adamw_step__wrong_seventh_decay_without_rate(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Lets the weight lose the share weight_decay at each step, without the factor lr."""
    m_new = beta1 * m + (1 - beta1) * grad
    v_new = beta2 * v + (1 - beta2) * grad.square()
    mean = m_new / (1 - beta1**step)
    rms = (v_new / (1 - beta2**step)).sqrt()
    w_new = (1 - weight_decay) * w - lr * mean / (rms + eps)
    return w_new, m_new, v_new


def adamw_step__wrong_seventh_decay_in_units_of_rms(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Adds weight_decay * w to the mean gradient after averaging, so the decay too is divided by the root mean square."""
    m1 = m * beta1 + grad * (1 - beta1)
    v1 = v * beta2 + grad * grad * (1 - beta2)
    direction = m1 / (1 - beta1**step) + weight_decay * w
    unit = torch.sqrt(v1 / (1 - beta2**step)) + eps
    return w - lr * direction / unit, m1, v1


def adamw_step__wrong_seventh_nesterov(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Looks one step ahead as NAdam does: mixes the corrected mean with the new gradient once more."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad * grad
    ahead = beta1 * m / (1 - beta1 ** (step + 1)) + (1 - beta1) * grad / (
        1 - beta1**step
    )
    v_hat = v / (1 - beta2**step)
    decayed = w * (1 - lr * weight_decay)
    return decayed - lr * ahead / (v_hat.sqrt() + eps), m, v


def adamw_step__wrong_seventh_averages_in_place(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Updates m and v with `mul_` and `add_`: the tensors that were handed in change and are returned."""
    m.mul_(beta1).add_(grad, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    mean = m / (1 - beta1**step)
    mean_square = v / (1 - beta2**step)
    update = mean / (torch.sqrt(mean_square) + eps) + weight_decay * w
    return w - lr * update, m, v


def adamw_step__wrong_seventh_one_square_per_tensor(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Feeds v with the mean of all squares of the tensor, so all entries share one root mean square."""
    square = (grad**2).mean()
    m_next = beta1 * m + (1 - beta1) * grad
    v_next = beta2 * v + (1 - beta2) * square
    m_bar, v_bar = m_next / (1 - beta1**step), v_next / (1 - beta2**step)
    step_taken = lr * m_bar / (torch.sqrt(v_bar) + eps)
    return w - step_taken - lr * weight_decay * w, m_next, v_next


def adamw_step__wrong_seventh_no_decay_of_vectors(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Decays matrices only and spares tensors of one axis, as training scripts do with biases and gammas."""
    if w.ndim < 2:
        weight_decay = 0.0
    m = m + (1 - beta1) * (grad - m)
    v = v + (1 - beta2) * (grad**2 - v)
    correction_1, correction_2 = 1 - beta1**step, 1 - beta2**step
    denominator = (v / correction_2) ** 0.5 + eps
    new_w = w - lr * weight_decay * w - lr * (m / correction_1) / denominator
    return new_w, m, v


def adamw_step__right_seventh_entry_by_entry(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Takes every entry as a Python number, with `math.sqrt`, and builds the three tensors anew."""
    lists = ([], [], [])
    flat = (a.flatten().tolist() for a in (w, grad, m, v))
    for weight, g, mean, square in zip(*flat, strict=True):
        mean = beta1 * mean + (1 - beta1) * g
        square = beta2 * square + (1 - beta2) * g * g
        root = math.sqrt(square / (1 - beta2**step))
        move = mean / (1 - beta1**step) / (root + eps)
        for place, number in zip(
            lists, (weight - lr * (move + weight_decay * weight), mean, square)
        ):
            place.append(number)
    return tuple(torch.tensor(a, dtype=w.dtype).reshape(w.shape) for a in lists)


def adamw_step__right_seventh_back_to_means(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Turns m and v back into the means of the step before, mixes those with the new gradient by its share, and makes m and v of them."""

    def total(beta, steps):  # what all gradients count together after so many steps
        return 1 - beta**steps

    def average(kept, new, beta):
        old = kept / total(beta, step - 1) if step > 1 else torch.zeros_like(kept)
        share = (1 - beta) / total(beta, step)  # of the new gradient; 1 at first
        return (1 - share) * old + share * new

    mean = average(m, grad, beta1)
    mean_square = average(v, grad.square(), beta2)
    move = mean / (mean_square.sqrt() + eps)
    return (
        w - (lr * weight_decay) * w - lr * move,
        mean * total(beta1, step),
        mean_square * total(beta2, step),
    )


# ---------------------------------------------------------------- 7.10 sample


def sample__wrong_seventh_argmax_of_nothing(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Finds the cut by argmax of `running sum >= top_p`; if by rounding the sum never reaches 1, that is place 0: one id is left."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            choice = int(logits.argmax())
        else:
            lead = (logits - logits.max()).double() / temperature
            p = torch.softmax(lead, dim=-1)
            ranked, ids = p.sort(descending=True)
            enough = ranked.cumsum(0) >= top_p
            size = int(enough.int().argmax()) + 1
            nucleus = torch.zeros_like(p)
            nucleus[ids[:size]] = ranked[:size]
            nucleus = nucleus.to(logits.dtype)
            choice = int(torch.multinomial(nucleus, 1, generator=generator))
        tokens.append(choice)
        if choice == end:
            break
    return tokens


def sample__wrong_seventh_cut_before_temperature(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Chooses the ids of top_p by the model's own probabilities and applies the temperature afterwards."""
    out = [int(t) for t in prompt]
    for _ in range(max_len - len(prompt)):
        logits = next_logits(list(out))
        if temperature == 0:
            out.append(int(torch.argmax(logits)))
        else:
            z = logits.double()
            plain, order = torch.sort(torch.softmax(z, dim=0), descending=True)
            before = torch.cumsum(plain, 0) - plain
            drop = before >= top_p
            if top_p >= 1:
                drop[:] = False
            drop[0] = False
            z = z.index_fill(0, order[drop], -math.inf)
            p = torch.softmax((z - z.max()) / temperature, dim=0).to(logits.dtype)
            out.append(torch.multinomial(p, 1, generator=generator).item())
        if out[-1] == end:
            return out
    return out


def sample__wrong_seventh_drawn_again_until_allowed(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Draws from all ids and draws again until the id is one of the nucleus: the odds are right, but it takes several draws a token."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            new = int(logits.argmax())
        else:
            p = ((logits.double() - logits.double().max()) / temperature).softmax(-1)
            order = p.argsort(descending=True).tolist()
            allowed, mass = set(), 0.0
            for i in order:
                if allowed and mass >= top_p and top_p < 1:
                    break
                allowed.add(i)
                mass += float(p[i])
            p = p.to(logits.dtype)
            new = None
            while new not in allowed:
                new = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(new)
        if new == end:
            break
    return tokens


def sample__wrong_seventh_cut_logits_set_to_zero(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Sets the logits of the ids that may not come to 0 in place of -inf, and exp(0) is 1, so they still come."""
    text = prompt[:]
    while len(text) < max_len:
        logits = next_logits(text)
        if temperature == 0:
            nxt = int(torch.argmax(logits))
        else:
            z = (logits.double() - logits.double().max()) / temperature
            p, ids = torch.softmax(z, 0).sort(descending=True)
            keep = (p.cumsum(0) - p < top_p) | torch.tensor(top_p >= 1)
            keep[0] = True
            z[ids[~keep]] = 0.0
            p = torch.softmax(z, 0).to(logits.dtype)
            nxt = int(torch.multinomial(p, 1, generator=generator))
        text.append(nxt)
        if nxt == end:
            break
    return text


def sample__wrong_seventh_top_p_zero_is_off(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Asks `if top_p and top_p < 1`, so that top_p = 0 cuts nothing, where it should leave the likeliest id alone."""
    ids = list(prompt)
    finished = len(ids) >= max_len
    while not finished:
        logits = next_logits(ids)
        if temperature > 0:
            weights = torch.exp((logits - logits.max()).double() / temperature)
            p = weights / weights.sum()
            if top_p and top_p < 1:
                order = p.argsort(descending=True)
                size = 1
                while size < len(p) and float(p[order[:size]].sum()) < top_p:
                    size += 1
                p = p.index_fill(0, order[size:], 0.0)
            new = torch.multinomial(p.to(logits.dtype), 1, generator=generator).item()
        else:
            new = logits.argmax().item()
        ids.append(new)
        finished = new == end or len(ids) == max_len
    return ids


def sample__wrong_seventh_small_temperature_is_zero(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Takes every temperature below 1e-3 for 0 and draws nothing there, though close logits still compete."""
    tokens = [*prompt]
    for _ in range(len(prompt), max_len):
        logits = next_logits(tokens)
        if temperature < 1e-3:
            token = logits.argmax()
        else:
            p = torch.softmax((logits - logits.max()).double() / temperature, dim=-1)
            best_first = torch.argsort(p, descending=True)
            running = p[best_first].cumsum(-1)
            before = torch.cat([torch.zeros(1, dtype=p.dtype), running[:-1]])
            out = before >= top_p
            out[0] = False
            if top_p < 1:
                p[best_first[out]] = 0
            token = torch.multinomial(p.to(logits.dtype), 1, generator=generator)
        tokens.append(int(token))
        if tokens[-1] == end:
            break
    return tokens


def sample__wrong_seventh_end_not_written(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Stops when the end is generated without appending it, so the text lacks its last token."""

    def choose(logits):
        if temperature == 0:
            return int(logits.argmax())
        p = torch.softmax((logits - logits.max()).double() / temperature, dim=-1)
        sorted_p, order = p.sort(descending=True)
        allowed = sorted_p.cumsum(0) - sorted_p < (top_p if top_p < 1 else math.inf)
        allowed[0] = True
        p = torch.zeros_like(p).scatter(0, order, sorted_p * allowed)
        return int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))

    tokens = list(prompt)
    while len(tokens) < max_len:
        new = choose(next_logits(tokens))
        if new == end:
            return tokens
        tokens.append(new)
    return tokens


def sample__wrong_seventh_share_of_the_likeliest(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Keeps the ids with at least top_p times the likeliest one's probability: that is min_p, another rule."""
    story = list(prompt)
    while len(story) < max_len:
        logits = next_logits(story)
        if temperature == 0:
            token = int(logits.max(dim=-1).indices)
        else:
            relative = torch.exp((logits.double() - logits.double().max()) / temperature)
            p = torch.where(relative >= top_p, relative, torch.zeros_like(relative))
            token = int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))
        story.append(token)
        if token == end:
            break
    return story


def sample__right_seventh_exact_fractions(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Adds the likeliest ids as exact fractions until they are top_p of the whole, and draws from what was added."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        values = logits.tolist()
        top = max(values)
        if temperature == 0:
            token = values.index(top)
        else:
            weights = [math.exp((value - top) / temperature) for value in values]
            exact = [Fraction(weight) for weight in weights]
            needed, mass, p = Fraction(top_p) * sum(exact), 0, [0.0] * len(values)
            for i in sorted(range(len(values)), key=values.__getitem__, reverse=True):
                p[i], mass = weights[i], mass + exact[i]
                if mass >= needed:
                    break
            p = torch.tensor(p, dtype=logits.dtype)
            token = torch.multinomial(p, 1, generator=generator).item()
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__right_seventh_least_likely_first(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Sets the least likely ids to 0, one by one, as long as those that remain have top_p without them."""
    tokens = list(prompt)
    for _ in range(max_len - len(prompt)):
        logits = next_logits(tokens[:])
        choice = torch.argmax(logits)
        if temperature > 0:
            lead = logits.double() - logits.double()[choice]
            p = torch.exp(lead / temperature)  # 1 for the likeliest, which stays
            for i in torch.argsort(logits)[:-1].tolist():
                total = math.fsum(torch.exp(lead / temperature).tolist())
                others = math.fsum(p.tolist()) - float(p[i])
                if top_p >= 1 or others < top_p * total:
                    break
                p[i] = 0
            p = p.to(logits.dtype)
            choice = torch.multinomial(p, 1, generator=generator)
        tokens.append(int(choice))
        if tokens[-1] == end:
            break
    return tokens
