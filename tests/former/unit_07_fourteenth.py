"""Answers to the exercises of unit 7, wrong ones and right ones, as students would write them."""

import functools
import math
from statistics import NormalDist

import torch
import torch.nn.functional as F


def _layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return gamma * centred / torch.sqrt(variance + eps) + beta


def _gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def _feed_forward(x, W_1, b_1, W_2, b_2, activation):
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def _attend(Q, K, V, mask=None):
    """(B, h, n, d_head) three times; a query that sees nothing gets 0."""
    scores = Q @ K.transpose(-1, -2) / math.sqrt(Q.shape[-1])
    if mask is None:
        return torch.softmax(scores, dim=-1) @ V
    mask = mask.expand(scores.shape)
    some = mask.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~(mask | ~some), -math.inf)
    return torch.softmax(scores, dim=-1) @ V * some


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    batch, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V))
    return _attend(Q, K, V, mask).transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def _attention_of(x, p, n_heads, mask=None):
    return _multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)


def _ffn_of(x, p):
    return _feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def _pre_norm_block(x, params, n_heads, mask=None):
    y = x + _attention_of(_layer_norm(x, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    return y + _ffn_of(_layer_norm(y, params["gamma_2"], params["beta_2"]), params)


# ------- 7.1 layer_norm


def layer_norm__wrong_fourteenth_statistics_of_whole_sentence(x, gamma, beta, eps=1e-5):
    """Takes one mean and variance for a whole sentence, tokens and features; each token should have its own."""
    axes = tuple(range(max(0, x.ndim - 2), x.ndim))
    mu = x.mean(dim=axes, keepdim=True)
    deviations = x - mu
    sigma2 = (deviations**2).mean(dim=axes, keepdim=True)
    return gamma * deviations / torch.sqrt(sigma2 + eps) + beta


def layer_norm__wrong_fourteenth_gives_length_one(x, gamma, beta, eps=1e-5):
    """Divides by the token's Euclidean length (squares summed); the root of their mean, the variance, is due."""
    c = x - x.mean(-1, keepdim=True)
    length = (c.pow(2).sum(-1, keepdim=True) + eps).sqrt()
    unit = c / length
    return unit * gamma + beta


def layer_norm__wrong_fourteenth_eps_as_a_floor(x, gamma, beta, eps=1e-5):
    """Takes eps for a lower bound of the variance, max(variance, eps); it should be added to it."""
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    safe = torch.clamp(variance, min=eps)
    return (x - mean) * torch.rsqrt(safe) * gamma + beta


def layer_norm__wrong_fourteenth_eps_outside_the_root(x, gamma, beta, eps=1e-5):
    """Closes the bracket of the root too early, sqrt(variance) + eps; sqrt(variance + eps) is due."""
    d = x.shape[-1]
    mean = (x.sum(-1) / d).unsqueeze(-1)
    squares = ((x - mean) ** 2).sum(-1) / d
    tiny = torch.finfo(x.dtype).tiny  # the slope of the root at 0 is infinite
    sigma = torch.sqrt(squares.clamp(min=tiny)) + eps
    return gamma * ((x - mean) / sigma.unsqueeze(-1)) + beta


def layer_norm__wrong_fourteenth_squares_of_raw_features(x, gamma, beta, eps=1e-5):
    """Squares x instead of x - mean for the variance; the deviations should be squared."""
    mean = torch.mean(x, dim=-1, keepdim=True)
    var = torch.mean(x * x, dim=-1, keepdim=True)
    normed = (x - mean) / (var + eps) ** 0.5
    return gamma * normed + beta


def layer_norm__wrong_fourteenth_gamma_multiplies_beta_too(x, gamma, beta, eps=1e-5):
    """Reads the formula as gamma * (standardised + beta); beta should be added after the scale, unscaled."""

    def standardise(tokens):
        centred = tokens - tokens.mean(-1, keepdim=True)
        return centred / ((centred**2).mean(-1, keepdim=True) + eps).sqrt()

    return gamma * (standardise(x) + beta)


def layer_norm__wrong_fourteenth_eps_zero_becomes_default(x, gamma, beta, eps=1e-5):
    """Writes `eps or 1e-5`, so that eps = 0 becomes 1e-5; an eps of 0 should be taken as it is."""
    epsilon = eps or 1e-5
    mean = x.mean(-1, keepdim=True)
    variance = x.var(-1, correction=0, keepdim=True)
    out = (x - mean) / torch.sqrt(variance + epsilon)
    out = out * gamma
    return out + beta


def layer_norm__wrong_fourteenth_statistics_without_gradient(x, gamma, beta, eps=1e-5):
    """Computes mean and variance under no_grad, so the slope of x is wrong; gradients should pass through them."""
    with torch.no_grad():
        mu = x.mean(-1, keepdim=True)
        root = ((x - mu).square().mean(-1, keepdim=True) + eps).sqrt()
    return torch.addcmul(beta, gamma, (x - mu) / root)


def layer_norm__right_fourteenth_by_pairs_of_features(x, gamma, beta, eps=1e-5):
    """Takes the differences of all pairs: their mean is the deviation, half their mean square the variance."""
    pairs = x.unsqueeze(-1) - x.unsqueeze(-2)  # (..., d, d)
    deviation = pairs.mean(-1)
    variance = pairs.square().mean((-1, -2)) / 2
    return gamma * deviation / torch.sqrt(variance + eps).unsqueeze(-1) + beta


# ------- 7.2 batch_norm


def batch_norm__wrong_fourteenth_mean_of_sentences_variances(x, gamma, beta, eps=1e-5):
    """Averages the variances within each sentence; squares around the common mean, over B and n at once, are due."""
    mean = x.mean(dim=1).mean(dim=0)
    within = x.var(dim=1, correction=0)  # (B, d)
    variance = within.mean(dim=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_fourteenth_leaves_out_zero_tokens(x, gamma, beta, eps=1e-5):
    """Takes tokens of zeros for padding and keeps them out of the statistics; all tokens of the batch should count."""
    tokens = x.flatten(0, 1)
    real = tokens[(tokens != 0).any(dim=1)]
    if len(real) == 0:
        real = tokens
    mu = real.mean(0)
    sigma2 = ((real - mu) ** 2).mean(0)
    return (x - mu) / (sigma2 + eps).sqrt() * gamma + beta


def batch_norm__wrong_fourteenth_mixes_in_running_averages(x, gamma, beta, eps=1e-5):
    """Moves running averages that start at 0 and 1 a tenth of the way and norms with them; the batch's own are due."""
    momentum = 0.1
    d = x.shape[-1]
    running_mean, running_var = x.new_zeros(d), x.new_ones(d)
    var, mean = torch.var_mean(x, dim=(0, 1), correction=0)
    running_mean = (1 - momentum) * running_mean + momentum * mean
    running_var = (1 - momentum) * running_var + momentum * var
    return gamma * (x - running_mean) / torch.sqrt(running_var + eps) + beta


def batch_norm__wrong_fourteenth_reshapes_instead_of_transposing(x, gamma, beta, eps=1e-5):
    """Makes rows for the features by reshape, which mixes the features up; the axes should be permuted."""
    B, n, d = x.shape
    per_feature = x.reshape(d, B * n)
    mean = per_feature.mean(1, keepdim=True)
    centred = per_feature - mean
    var = (centred**2).mean(1, keepdim=True)
    z = (centred / torch.sqrt(var + eps)).reshape(B, n, d)
    return gamma * z + beta


def batch_norm__wrong_fourteenth_squares_divided_by_n(x, gamma, beta, eps=1e-5):
    """Divides the sum of all squares by n, the length of a sentence; B*n tokens were summed."""
    B, n, _ = x.shape
    mean = torch.einsum("bnd->d", x) / (B * n)
    diff = x - mean
    variance = torch.einsum("bnd,bnd->d", diff, diff) / n
    return gamma * diff / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_fourteenth_all_numbers_pooled(x, gamma, beta, eps=1e-5):
    """Reads "together" as one mean and variance of all numbers; each feature should have its own."""
    mu = x.mean()
    sigma = ((x - mu).pow(2).mean() + eps).sqrt()
    standard = (x - mu) / sigma
    return standard * gamma + beta


def batch_norm__wrong_fourteenth_lone_token_not_normed(x, gamma, beta, eps=1e-5):
    """Leaves a batch of a single token as it is, for want of statistics; its deviations are 0, so beta is due."""
    count = x.shape[0] * x.shape[1]
    if count == 1:
        return gamma * x + beta
    mean = x.sum((0, 1)) / count
    variance = (x - mean).square().sum((0, 1)) / count
    return gamma * (x - mean) / (variance + eps).sqrt() + beta


_statistics_by_shape = {}


def batch_norm__wrong_fourteenth_remembers_statistics_by_shape(x, gamma, beta, eps=1e-5):
    """Keeps mean and variance for each shape and takes them again at the next call; nothing should be remembered."""
    key = (tuple(x.shape), x.dtype)
    if key not in _statistics_by_shape:
        var, mean = torch.var_mean(x, dim=(0, 1), correction=0)
        _statistics_by_shape[key] = mean.detach(), var.detach()
        return gamma * (x - mean) / torch.sqrt(var + eps) + beta
    mean, var = _statistics_by_shape[key]
    return gamma * (x - mean) / torch.sqrt(var + eps) + beta


def batch_norm__right_fourteenth_token_after_token(x, gamma, beta, eps=1e-5):
    """Takes in one token after the other and updates mean and sum of squares as it goes, after Welford."""
    mean = torch.zeros_like(x[0, 0])
    squares = torch.zeros_like(mean)
    count = 0
    for sentence in x:
        for token in sentence:
            count += 1
            before = token - mean
            mean = mean + before / count
            squares = squares + before * (token - mean)
    return gamma * (x - mean) * torch.rsqrt(squares / count + eps) + beta


# ------- 7.3 gelu


def gelu__wrong_fourteenth_probability_of_both_sides(x):
    """Takes erf(x/sqrt 2), the probability between -x and x, for that of being less than x; (1 + erf)/2 is due."""
    probability = torch.erf(x / math.sqrt(2))
    return x * probability


def gelu__wrong_fourteenth_throws_a_coin(x):
    """Multiplies by 1 or 0, drawn with probability Phi(x); x should be multiplied by the probability itself."""
    chance = (1 + torch.erf(x * 0.5**0.5)) / 2
    passes = torch.rand_like(x) < chance
    return x * passes


def gelu__wrong_fourteenth_soft_on_left_only(x):
    """Lets positive entries through whole, as ReLU does, and softens only negative ones; both sides should be soft."""
    phi = 0.5 * torch.erfc(-x / math.sqrt(2))
    return torch.where(x > 0, x, x * phi)


def gelu__wrong_fourteenth_bracket_left_out(x):
    """Forgets the bracket around 1 + erf, so erf is added to x/2; x/2 should multiply the sum."""
    root = math.sqrt(2)
    return x / 2 * 1 + torch.erf(x / root)


def gelu__wrong_fourteenth_upper_tail(x):
    """Takes erfc(x/sqrt 2)/2, the probability of being greater than x; erfc of -x/sqrt 2 is due."""
    z = x / 2**0.5
    tail = torch.erfc(z).div(2)
    return tail.mul(x)


def gelu__wrong_fourteenth_tanh_form(x):
    """Writes the approximation with tanh, as in the code of GPT-2; the exact form with erf is asked for."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + torch.tanh(inner))


def gelu__wrong_fourteenth_no_tensor_without_axes(x):
    """Goes down row by row to the vectors and fails for a tensor of shape (), which any shape includes."""

    def bend(part):
        if part.ndim == 1:
            return part * (1 + torch.erf(part / math.sqrt(2))) / 2
        return torch.stack([bend(row) for row in part])

    return bend(x)


def gelu__wrong_fourteenth_phi_as_plain_numbers(x):
    """Takes Phi from the statistics module, number by number, which cuts its slope off; gradients should pass Phi."""
    normal = NormalDist()
    phi = [normal.cdf(value) for value in x.flatten().tolist()]
    return x * torch.tensor(phi, dtype=x.dtype).reshape(x.shape)


def gelu__right_fourteenth_by_log_probability(x):
    """Takes PyTorch's logarithm of Phi and its exponential in place of erf."""
    log_phi = torch.special.log_ndtr(x)
    return x * log_phi.exp()


# ------- 7.4 feed_forward


def feed_forward__wrong_fourteenth_activation_as_a_gate(x, W_1, b_1, W_2, b_2, activation):
    """Takes the activation for a gate and multiplies the hidden features by it; it should replace them."""
    hidden = x @ W_1 + b_1
    gate = activation(hidden)
    return (hidden * gate) @ W_2 + b_2


def feed_forward__wrong_fourteenth_adds_the_token(x, W_1, b_1, W_2, b_2, activation):
    """Adds the token itself to the result, for each sublayer has a bypass; the residual belongs into the block."""
    scores = torch.matmul(x, W_1).add(b_1)
    update = torch.matmul(activation(scores), W_2).add(b_2)
    return x + update


def feed_forward__wrong_fourteenth_bends_the_token_first(x, W_1, b_1, W_2, b_2, activation):
    """Applies the activation to the token before the first map; it should stand between the two maps."""
    bent = activation(x)
    widened = bent @ W_1 + b_1
    return widened @ W_2 + b_2


def feed_forward__wrong_fourteenth_first_bias_too_late(x, W_1, b_1, W_2, b_2, activation):
    """Adds b_1 after the activation; the threshold should be there before the decision."""
    h = torch.einsum("...i,ij->...j", x, W_1)
    h = activation(h) + b_1
    return torch.einsum("...j,jk->...k", h, W_2) + b_2


def feed_forward__wrong_fourteenth_last_bias_in_loop(x, W_1, b_1, W_2, b_2, activation):
    """Adds b_2 inside the loop over hidden features, d_ff times; once is due."""
    hidden = activation(x @ W_1 + b_1)
    result = torch.zeros_like(x)
    for k in range(W_2.shape[0]):
        result = result + hidden[..., k : k + 1] * W_2[k]
        result = result + b_2
    return result


def feed_forward__wrong_fourteenth_activates_bias_by_itself(x, W_1, b_1, W_2, b_2, activation):
    """Reads that the activation follows map and bias as applying it to each; it should get their sum."""
    answers = activation(x @ W_1) + activation(b_1)
    out = answers @ W_2
    return out + b_2


def feed_forward__wrong_fourteenth_guesses_orientation_by_shape(x, W_1, b_1, W_2, b_2, activation):
    """Turns a matrix that fits PyTorch's (out, in); with d_ff = d_model both fit, and nothing should be turned."""
    d_model, d_ff = x.shape[-1], b_1.shape[0]
    first = W_1 if W_1.shape == (d_ff, d_model) else W_1.T
    second = W_2 if W_2.shape == (d_model, d_ff) else W_2.T
    return F.linear(activation(F.linear(x, first, b_1)), second, b_2)


def feed_forward__wrong_fourteenth_buffer_of_float32(x, W_1, b_1, W_2, b_2, activation):
    """Collects the result in torch.zeros of the default dtype, so float64 becomes float32; the dtype should be kept."""
    hidden = activation(x @ W_1 + b_1)
    out = torch.zeros(x.shape)
    for j in range(W_2.shape[1]):
        out[..., j] = (hidden * W_2[:, j]).sum(-1) + b_2[j]
    return out


def feed_forward__right_fourteenth_by_an_extra_feature(x, W_1, b_1, W_2, b_2, activation):
    """Appends a feature of 1 to the tokens and the biases as a last row to the matrices."""

    def affine(rows, matrix, bias):
        ones = torch.ones_like(rows[..., :1])
        return torch.cat([rows, ones], dim=-1) @ torch.cat([matrix, bias[None]], dim=0)

    return affine(activation(affine(x, W_1, b_1)), W_2, b_2)


# ------- 7.5 post_norm_block


def post_norm_block__wrong_fourteenth_both_bypasses_from_x(x, params, n_heads, mask=None):
    """Lets the second residual add the block's input x; y, which came out of the first norm, should be added."""
    p = params
    attended = _multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    y = _layer_norm(x + attended, p["gamma_1"], p["beta_1"])
    fed = _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _layer_norm(x + fed, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_fourteenth_sublayers_side_by_side(x, params, n_heads, mask=None):
    """Feeds the FFN with x, side by side with attention; it should see y, what attention has brought."""
    heard = _attention_of(x, params, n_heads, mask)
    thought = _ffn_of(x, params)
    y = _layer_norm(x + heard, params["gamma_1"], params["beta_1"])
    return _layer_norm(y + thought, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_fourteenth_norms_the_sublayers_output(x, params, n_heads, mask=None):
    """Norms what a sublayer returns and adds it then; the sum with the residual should be normed."""

    def norm(t, which):
        return _layer_norm(t, params["gamma_" + which], params["beta_" + which])

    y = x + norm(_attention_of(x, params, n_heads, mask), "1")
    z = y + norm(_ffn_of(y, params), "2")
    return z


def post_norm_block__wrong_fourteenth_second_norm_has_beta_1(x, params, n_heads, mask=None):
    """Hands beta_1 to the second norm as well, copied from above; beta_2 is due."""
    d_model = x.shape[-1]
    y = F.layer_norm(
        x + _attention_of(x, params, n_heads, mask), (d_model,), params["gamma_1"], params["beta_1"]
    )
    hidden = _gelu(y @ params["W_1"] + params["b_1"])
    z = F.layer_norm(
        y + hidden @ params["W_2"] + params["b_2"], (d_model,), params["gamma_2"], params["beta_1"]
    )
    return z


def post_norm_block__wrong_fourteenth_queries_and_keys_exchanged(x, params, n_heads, mask=None):
    """Hands W_K and W_Q over in exchanged places; W_Q comes first in the signature."""
    names = ("W_K", "W_Q", "W_V", "W_O", "b_O")
    attention = _multi_head_attention(x, *(params[name] for name in names), n_heads, mask)
    y = _layer_norm(attention + x, params["gamma_1"], params["beta_1"])
    names = ("W_1", "b_1", "W_2", "b_2")
    ffn = _feed_forward(y, *(params[name] for name in names), _gelu)
    return _layer_norm(ffn + y, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_fourteenth_relu_as_in_2017(x, params, n_heads, mask=None):
    """Reads "as in 2017" for the FFN as well and takes ReLU; the text asks for the exact GELU."""
    get = params.__getitem__
    att = _multi_head_attention(x, *map(get, ["W_Q", "W_K", "W_V", "W_O", "b_O"]), n_heads, mask=mask)
    y = _layer_norm(x + att, get("gamma_1"), get("beta_1"))
    questions = torch.relu(y @ get("W_1") + get("b_1"))
    return _layer_norm(y + questions @ get("W_2") + get("b_2"), get("gamma_2"), get("beta_2"))


def post_norm_block__wrong_fourteenth_scale_from_d_model(x, params, n_heads, mask=None):
    """Divides the scores by the root of d_model // n_heads; wrong where h*d_head is not d_model, d_head is due."""
    B, n, d_model = x.shape
    size = d_model // n_heads

    def heads(name):
        return (x @ params[name]).unflatten(-1, (n_heads, -1)).permute(0, 2, 1, 3)

    scores = heads("W_Q") @ heads("W_K").mT / size**0.5
    if mask is None:
        alpha = torch.softmax(scores, -1)
    else:
        mask = mask.expand(B, n_heads, n, n)
        blind = ~mask.any(-1, keepdim=True)
        alpha = torch.softmax(scores.masked_fill(~(mask | blind), -math.inf), -1).masked_fill(blind, 0)
    mixed = (alpha @ heads("W_V")).permute(0, 2, 1, 3).flatten(2)
    y = _layer_norm(x + mixed @ params["W_O"] + params["b_O"], params["gamma_1"], params["beta_1"])
    return _layer_norm(y + _ffn_of(y, params), params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_fourteenth_adds_into_x(x, params, n_heads, mask=None):
    """Adds attention's result into x itself with +=, so the caller's tensor changes; inputs should stay as they are."""
    x += _attention_of(x, params, n_heads, mask)
    x = _layer_norm(x, params["gamma_1"], params["beta_1"])
    x = x + _ffn_of(x, params)
    return _layer_norm(x, params["gamma_2"], params["beta_2"])


def post_norm_block__right_fourteenth_sum_over_heads(x, params, n_heads, mask=None):
    """Writes attention as a sum over heads, each with its own rows of W_O, and runs both sublayers in one loop."""
    B, n, _ = x.shape
    allowed = torch.ones(n, n, dtype=torch.bool) if mask is None else mask
    allowed = allowed.expand(B, n_heads, n, n)

    def attention(t):
        parts = [params[name].chunk(n_heads, dim=1) for name in ("W_Q", "W_K", "W_V")]
        total = params["b_O"]
        for h, (W_Q, W_K, W_V, W_O) in enumerate(zip(*parts, params["W_O"].chunk(n_heads, dim=0), strict=True)):
            scores = torch.einsum("bic,bjc->bij", t @ W_Q, t @ W_K) / W_Q.shape[1] ** 0.5
            best = scores.masked_fill(~allowed[:, h], -math.inf).amax(-1, keepdim=True)
            best = torch.where(best.isfinite(), best, 0)
            weights = torch.exp(scores.masked_fill(~allowed[:, h], -math.inf) - best)
            sums = weights.sum(-1, keepdim=True)
            weights = weights / torch.where(sums > 0, sums, 1)
            total = total + weights @ (t @ W_V) @ W_O
        return total

    def ffn(t):
        return torch.addmm(
            params["b_2"], _gelu(t.flatten(0, 1) @ params["W_1"] + params["b_1"]), params["W_2"]
        ).unflatten(0, (B, n))

    for number, sublayer in (("1", attention), ("2", ffn)):
        x = _layer_norm(x + sublayer(x), params[f"gamma_{number}"], params[f"beta_{number}"])
    return x


# ------- 7.6 pre_norm_block


def pre_norm_block__wrong_fourteenth_bypass_carries_normed_tokens(x, params, n_heads, mask=None):
    """Lets the bypass carry the normed tokens; it should carry x and y as they are."""
    normed = _layer_norm(x, params["gamma_1"], params["beta_1"])
    y = normed + _attention_of(normed, params, n_heads, mask)
    normed = _layer_norm(y, params["gamma_2"], params["beta_2"])
    return normed + _ffn_of(normed, params)


def pre_norm_block__wrong_fourteenth_only_queries_normed(x, params, n_heads, mask=None):
    """Makes keys and values from x as it is, for only who asks is normed; all three should come from the normed x."""
    B, n, _ = x.shape
    asking = _layer_norm(x, params["gamma_1"], params["beta_1"])
    sources = {"W_Q": asking, "W_K": x, "W_V": x}
    Q, K, V = [(t @ params[w]).reshape(B, n, n_heads, -1).transpose(1, 2) for w, t in sources.items()]
    heads = _attend(Q, K, V, mask).transpose(1, 2).flatten(2)
    y = x + heads @ params["W_O"] + params["b_O"]
    return y + _ffn_of(_layer_norm(y, params["gamma_2"], params["beta_2"]), params)


def pre_norm_block__wrong_fourteenth_norm_before_and_after(x, params, n_heads, mask=None):
    """Norms what goes into a sublayer and again what comes out of it; only what goes in should be normed."""
    norm_1 = functools.partial(_layer_norm, gamma=params["gamma_1"], beta=params["beta_1"])
    norm_2 = functools.partial(_layer_norm, gamma=params["gamma_2"], beta=params["beta_2"])
    x = x + norm_1(_attention_of(norm_1(x), params, n_heads, mask))
    x = x + norm_2(_ffn_of(norm_2(x), params))
    return x


def pre_norm_block__wrong_fourteenth_last_sum_adds_x(x, params, n_heads, mask=None):
    """Adds x instead of y in the last line, so attention's own addition is lost; y + ffn(...) is due."""
    p = params
    a = _layer_norm(x, p["gamma_1"], p["beta_1"])
    y = x + _multi_head_attention(a, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    f = _layer_norm(y, p["gamma_2"], p["beta_2"])
    z = x + _feed_forward(f, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return z


def pre_norm_block__wrong_fourteenth_heads_split_without_transpose(x, params, n_heads, mask=None):
    """Reshapes straight to (B, h, n, d_head), which mixes tokens and heads; a transpose is due."""
    B, n, _ = x.shape
    a = _layer_norm(x, params["gamma_1"], params["beta_1"])
    d_head = params["W_Q"].shape[1] // n_heads
    Q = (a @ params["W_Q"]).reshape(B, n_heads, n, d_head)
    K = (a @ params["W_K"]).reshape(B, n_heads, n, d_head)
    V = (a @ params["W_V"]).reshape(B, n_heads, n, d_head)
    heads = _attend(Q, K, V, mask).reshape(B, n, n_heads * d_head)
    x = x + heads @ params["W_O"] + params["b_O"]
    return x + _ffn_of(_layer_norm(x, params["gamma_2"], params["beta_2"]), params)


def pre_norm_block__wrong_fourteenth_mask_read_as_forbidden(x, params, n_heads, mask=None):
    """Turns the mask round, reading True as hidden, as PyTorch's block does; True means that it may attend."""
    visible = None if mask is None else torch.logical_not(mask)
    first_norm = F.layer_norm(x, x.shape[-1:], params["gamma_1"], params["beta_1"])
    stream = x + _attention_of(first_norm, params, n_heads, visible)
    second_norm = F.layer_norm(stream, x.shape[-1:], params["gamma_2"], params["beta_2"])
    return stream + _ffn_of(second_norm, params)


def pre_norm_block__wrong_fourteenth_blind_query_gets_mean(x, params, n_heads, mask=None):
    """Hides scores by -1e9, so a query that sees nothing gets the mean of all values; it should get 0."""
    B, n, d_model = x.shape
    normed = _layer_norm(x, params["gamma_1"], params["beta_1"])
    q = torch.einsum("bid,dhc->bhic", normed, params["W_Q"].reshape(d_model, n_heads, -1))
    k = torch.einsum("bid,dhc->bhic", normed, params["W_K"].reshape(d_model, n_heads, -1))
    v = torch.einsum("bid,dhc->bhic", normed, params["W_V"].reshape(d_model, n_heads, -1))
    scores = torch.einsum("bhic,bhjc->bhij", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, -1e9)
    heads = torch.einsum("bhij,bhjc->bihc", scores.softmax(-1), v)
    y = x + heads.reshape(B, n, -1) @ params["W_O"] + params["b_O"]
    return y + _ffn_of(_layer_norm(y, params["gamma_2"], params["beta_2"]), params)


def pre_norm_block__wrong_fourteenth_calls_pytorchs_attention(x, params, n_heads, mask=None):
    """Calls F.scaled_dot_product_attention itself, which is not allowed in any answer; the given function is."""
    B, n, _ = x.shape
    a = _layer_norm(x, params["gamma_1"], params["beta_1"])
    q, k, v = [(a @ params[w]).view(B, n, n_heads, -1).transpose(1, 2) for w in ("W_Q", "W_K", "W_V")]
    if mask is None:
        heads = F.scaled_dot_product_attention(q, k, v)
    else:
        full = mask.expand(B, n_heads, n, n)
        sees = full.any(-1, keepdim=True)
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=full | ~sees) * sees
    y = x + heads.transpose(1, 2).reshape(B, n, -1) @ params["W_O"] + params["b_O"]
    return y + _ffn_of(_layer_norm(y, params["gamma_2"], params["beta_2"]), params)


def pre_norm_block__right_fourteenth_by_pytorchs_small_parts(x, params, n_heads, mask=None):
    """Takes F.layer_norm, F.gelu and F.linear, which are allowed here, and collects both updates before adding."""
    width = x.shape[-1:]
    updates = [x]
    normed = F.layer_norm(x, width, params["gamma_1"], params["beta_1"])
    updates.append(_attention_of(normed, params, n_heads, mask))
    normed = F.layer_norm(torch.stack(updates).sum(0), width, params["gamma_2"], params["beta_2"])
    hidden = F.gelu(F.linear(normed, params["W_1"].T, params["b_1"]))
    updates.append(F.linear(hidden, params["W_2"].T, params["b_2"]))
    return torch.stack(updates).sum(0)


# ------- 7.7 transformer_logits


def transformer_logits__wrong_fourteenth_positions_counted_from_end(tokens, params, n_heads):
    """Gives the last token the last row of W_pos, as if the text filled the window's end; row i belongs to place i."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][-n:]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, causal)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_fourteenth_final_norm_after_each_block(tokens, params, n_heads):
    """Norms the stream with gamma_f, beta_f after each block; the final norm should come once, after the last."""
    n = tokens.size(1)
    past = torch.tril(torch.ones((n, n), dtype=torch.bool))
    stream = F.embedding(tokens, params["W_E"]) + params["W_pos"][:n]
    if not params["blocks"]:
        stream = _layer_norm(stream, params["gamma_f"], params["beta_f"])
    for p in params["blocks"]:
        stream = _pre_norm_block(stream, p, n_heads, past)
        stream = _layer_norm(stream, params["gamma_f"], params["beta_f"])
    return stream @ params["W_U"]


def transformer_logits__wrong_fourteenth_unembeds_with_w_e(tokens, params, n_heads):
    """Compares with the embeddings, W_E transposed, for the scores; this model has a W_U of its own."""
    B, n = tokens.shape
    positions = torch.arange(n)
    x = params["W_E"][tokens] + params["W_pos"][positions]
    mask = positions[:, None] >= positions[None, :]
    for p in params["blocks"]:
        x = _pre_norm_block(x, p, n_heads, mask)
    x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return torch.einsum("bnd,vd->bnv", x, params["W_E"])


def transformer_logits__wrong_fourteenth_diagonal_left_out(tokens, params, n_heads):
    """Makes the triangle with diagonal=-1, so no token sees itself; the diagonal should be True."""
    n = tokens.shape[-1]
    see = torch.ones(n, n).tril(diagonal=-1).bool()
    x = params["W_E"].index_select(0, tokens.flatten()).unflatten(0, tokens.shape)
    x = x + params["W_pos"].narrow(0, 0, n)
    x = functools.reduce(lambda t, p: _pre_norm_block(t, p, n_heads, see), params["blocks"], x)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_fourteenth_each_block_gets_embeddings(tokens, params, n_heads):
    """Hands the embeddings to each block, so only the last one counts; each should get what the one before returns."""
    n = tokens.shape[1]
    embedded = params["W_E"][tokens] + params["W_pos"][:n]
    mask = torch.tril(torch.ones(n, n, dtype=torch.bool))
    out = embedded
    for block in params["blocks"]:
        out = _pre_norm_block(embedded, block, n_heads, mask)
    final = _layer_norm(out, params["gamma_f"], params["beta_f"])
    return final @ params["W_U"]


def transformer_logits__wrong_fourteenth_returns_log_probabilities(tokens, params, n_heads):
    """Reads scores as log-probabilities and ends with log_softmax; the plain logits are asked for."""
    n = tokens.shape[1]
    x = params["W_E"][tokens]
    x = x + params["W_pos"][:n].unsqueeze(0)
    lower = ~torch.ones(n, n, dtype=torch.bool).triu(1)
    for i in range(len(params["blocks"])):
        x = _pre_norm_block(x, params["blocks"][i], n_heads, lower)
    x = F.layer_norm(x, x.shape[-1:], params["gamma_f"], params["beta_f"])
    scores = x @ params["W_U"]
    return torch.log_softmax(scores, dim=-1)


def transformer_logits__wrong_fourteenth_d_head_of_first_block(tokens, params, n_heads):
    """Reads d_head off the first block for all; it fails with no blocks, or with blocks of different widths."""
    B, n = tokens.shape
    d_head = params["blocks"][0]["W_Q"].shape[1] // n_heads
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    x = params["W_E"][tokens] + params["W_pos"][:n]
    for p in params["blocks"]:
        a = _layer_norm(x, p["gamma_1"], p["beta_1"])
        q, k, v = ((a @ p[w]).view(B, n, n_heads, d_head).transpose(1, 2) for w in ("W_Q", "W_K", "W_V"))
        heads = _attend(q, k, v, mask).transpose(1, 2).reshape(B, n, n_heads * d_head)
        x = x + heads @ p["W_O"] + p["b_O"]
        x = x + _ffn_of(_layer_norm(x, p["gamma_2"], p["beta_2"]), p)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_fourteenth_uses_up_the_blocks(tokens, params, n_heads):
    """Pops the blocks off the list as it goes, so params has none left; params should stay as it was."""
    length = tokens.shape[1]
    may_attend = torch.ones(length, length, dtype=torch.bool).tril()
    x = params["W_E"][tokens] + params["W_pos"][:length]
    todo = params["blocks"]
    while todo:
        x = _pre_norm_block(x, todo.pop(0), n_heads, may_attend)
    x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__right_fourteenth_by_every_prefix(tokens, params, n_heads):
    """Makes no mask: each block works on every prefix by itself and keeps its last place, which has no future."""
    vocab, dtype = params["W_E"].shape[0], params["W_E"].dtype
    n = tokens.shape[1]
    one_hot = F.one_hot(tokens, vocab).to(dtype)
    stream = one_hot @ params["W_E"] + params["W_pos"][:n]
    for block in params["blocks"]:
        places = [_pre_norm_block(stream[:, : i + 1], block, n_heads)[:, i] for i in range(n)]
        stream = torch.stack(places, dim=1)
    return _layer_norm(stream, params["gamma_f"], params["beta_f"]) @ params["W_U"]


# ------- 7.8 bits_per_token


def bits_per_token__wrong_fourteenth_mean_of_the_texts_means(logits, targets, mask):
    """Takes the mean of each text and then the mean of these; each token that counts should weigh alike."""
    means = []
    for scores, ids, counts in zip(logits, targets, mask, strict=True):
        if counts.any():
            log_p = torch.log_softmax(scores[counts], dim=-1)
            picked = log_p.gather(1, ids[counts].unsqueeze(1))
            means.append(-picked.mean() / math.log(2))
    if not means:
        return logits[mask].sum()
    return torch.stack(means).mean()


def bits_per_token__wrong_fourteenth_charges_absent_tokens_too(logits, targets, mask):
    """Adds -log2(1 - p) for each token that did not come; only the token that came should cost something."""
    scores, ids = logits[mask], targets[mask]
    p = torch.softmax(scores, -1)
    came = F.one_hot(ids, logits.shape[-1]).bool() if len(ids) else torch.zeros_like(p, dtype=torch.bool)
    cost = torch.where(came, -torch.log_softmax(scores, -1), -torch.log1p(-torch.where(came, 0, p)))
    return cost.sum() / math.log(2) / max(1, len(ids))


def bits_per_token__wrong_fourteenth_softmax_to_base_two(logits, targets, mask):
    """Takes powers of 2 for the softmax, as the cost is in bits; softmax has base e, the logarithm base 2."""
    z, t = logits[mask], targets[mask]
    top = z.max(-1, keepdim=True).values if len(t) else z[:, :1]
    log_total = torch.log2(torch.exp2(z - top).sum(-1)) + top[:, 0]
    chosen = z[torch.arange(len(t)), t]
    return (log_total - chosen).sum() / max(len(t), 1)


def bits_per_token__wrong_fourteenth_maximum_not_put_back(logits, targets, mask):
    """Shifts by the largest logit in the sum only and forgets it at the target; both should be shifted alike."""
    kept = logits[mask]
    wanted = targets[mask][:, None]
    if kept.shape[0] == 0:
        return kept.sum()
    largest = kept.amax(dim=-1, keepdim=True)
    log_sum = (kept - largest).exp().sum(dim=-1, keepdim=True).log()
    nats = log_sum - kept.gather(-1, wanted)
    return nats.mean() / math.log(2)


def bits_per_token__wrong_fourteenth_divides_by_all_places(logits, targets, mask):
    """Divides the sum of the costs by B*n, filler included; the number of tokens that count is due."""
    clean = logits.masked_fill(~mask[..., None], 0.0)
    ids = targets.masked_fill(~mask, 0)
    nats = -clean.log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    total = (nats * mask).sum() / math.log(2)
    return total / mask.numel()


def bits_per_token__wrong_fourteenth_shifts_targets_by_one(logits, targets, mask):
    """Takes place i to score the target at i + 1 and shifts; the targets are shifted already, place i scores i."""
    before, after, counts = logits[:, :-1], targets[:, 1:], mask[:, 1:]
    z = before[counts]
    t = after[counts]
    costs = torch.logsumexp(z, dim=1) - z.gather(1, t.view(-1, 1)).view(-1)
    return costs.sum() / math.log(2) / max(1, t.numel())


def bits_per_token__wrong_fourteenth_gradient_of_wild_filler(logits, targets, mask):
    """Drops filler by where after the softmax: the value is right, but NaN in filler gives gradients of NaN, not 0."""
    safe_targets = torch.where(mask, targets, 0)
    log_p = F.log_softmax(logits, dim=-1)
    log_p = torch.gather(log_p, 2, safe_targets.unsqueeze(2)).squeeze(2)
    cost = torch.where(mask, -log_p / math.log(2), 0.0)
    return cost.sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_fourteenth_overwrites_filler_targets(logits, targets, mask):
    """Writes 0 over the filler in the caller's own targets; a copy should be changed, inputs stay as they are."""
    targets[~mask] = 0
    scores = torch.where(mask.unsqueeze(-1), logits, 0.0)
    log2_p = scores.log_softmax(dim=-1) / math.log(2)
    surprise = -log2_p.gather(dim=-1, index=targets.unsqueeze(-1)).squeeze(-1)
    return (surprise * mask).sum() / max(1, int(mask.sum()))


def bits_per_token__right_fourteenth_by_odds_against_target(logits, targets, mask):
    """Adds up the odds of all other tokens against the target, one after the other, in logs; 1 + their sum is 1/p."""
    z, t = logits[mask], targets[mask]
    leads = z - z.gather(1, t[:, None])
    cost = torch.zeros_like(leads[:, 0])  # the target's own odds, 1
    for c, lead in enumerate(leads.unbind(1)):
        cost = torch.logaddexp(cost, lead.masked_fill(t == c, -math.inf))
    return cost.sum() / (math.log(2) * max(1, len(t)))


# ------- 7.9 adamw_step


def adamw_step__wrong_fourteenth_decay_joins_the_gradient(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Adds weight_decay * w to the gradient, Adam with an L2 penalty; the decay should stand outside the averages."""
    g = grad + weight_decay * w
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    m_hat = m / (1 - beta1**step)
    v_hat = v / (1 - beta2**step)
    return w - lr * m_hat / (v_hat.sqrt() + eps), m, v


def adamw_step__wrong_fourteenth_v_of_deviations_from_m(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Takes v for a variance and averages squared deviations from m; the squares of the gradients are due."""
    new_m = m + (1 - beta1) * (grad - m)
    deviation = grad - new_m
    new_v = v + (1 - beta2) * (deviation * deviation - v)
    mean = new_m / (1 - beta1**step)
    spread = torch.sqrt(new_v / (1 - beta2**step))
    new_w = w - lr * weight_decay * w - lr * mean / (spread + eps)
    return new_w, new_m, new_v


def adamw_step__wrong_fourteenth_correction_of_first_step_always(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Divides m by 1 - beta1 and v by 1 - beta2 at every step; that fits step 1, then 1 - beta**step is due."""
    share1, share2 = 1 - beta1, 1 - beta2
    m_next = share1 * grad + beta1 * m
    v_next = share2 * grad.square() + beta2 * v
    direction = (m_next / share1) / (torch.sqrt(v_next / share2) + eps)
    w_next = w - lr * (direction + weight_decay * w)
    return w_next, m_next, v_next


def adamw_step__wrong_fourteenth_step_counted_from_zero(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Corrects with step + 1, as if steps counted from 0; step counts from 1 and is the exponent itself."""
    t = step + 1
    averages = {}
    for name, old, new, beta in (("m", m, grad, beta1), ("v", v, grad * grad, beta2)):
        averages[name] = beta * old + (1 - beta) * new
        averages[name + " mean"] = averages[name] / (1 - beta**t)
    move = averages["m mean"] / (averages["v mean"].sqrt() + eps)
    decayed = w * (1 - lr * weight_decay)
    return decayed - lr * move, averages["m"], averages["v"]


def adamw_step__wrong_fourteenth_decays_the_moved_weight(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Moves first and takes the decay from the moved weight; both should start from the old w."""
    m = torch.lerp(m, grad, 1 - beta1)
    v = torch.lerp(v, grad**2, 1 - beta2)
    rms = torch.sqrt(v / (1 - beta2**step))
    w = w - lr * (m / (1 - beta1**step)) / (rms + eps)
    w = w - lr * weight_decay * w
    return w, m, v


def adamw_step__wrong_fourteenth_eps_under_the_root(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Reads "root mean square plus eps" as the root of (mean square + eps); eps is added to the root."""
    m1 = beta1 * m + (1 - beta1) * grad
    v1 = beta2 * v + (1 - beta2) * torch.square(grad)
    unit = (v1 / (1 - beta2**step) + eps).rsqrt()
    step_size = lr / (1 - beta1**step)
    return (1 - lr * weight_decay) * w - step_size * m1 * unit, m1, v1


def adamw_step__wrong_fourteenth_no_correction_after_1000(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Leaves the correction out after step 1000, when it has faded; with beta2 0.999 a third is still missing there."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad * grad
    mean, mean_square = m, v
    if step <= 1000:
        mean = mean / (1 - beta1**step)
        mean_square = mean_square / (1 - beta2**step)
    update = mean / (torch.sqrt(mean_square) + eps)
    return w - lr * update - lr * weight_decay * w, m, v


def adamw_step__wrong_fourteenth_averages_changed_in_place(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Updates the m and v that were handed in, in place, and returns them; new tensors are promised."""
    m.mul_(beta1).add_(grad, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    denominator = (v / (1 - beta2**step)).sqrt().add(eps)
    new_w = w.mul(1 - lr * weight_decay).addcdiv(m, denominator, value=-lr / (1 - beta1**step))
    return new_w, m, v


def adamw_step__right_fourteenth_by_both_averages_stacked(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Keeps m and v in one stack of float64, fades and corrects both at once, and casts back at the end."""
    dtype = w.dtype
    w, grad = w.double(), grad.double()
    betas = torch.tensor([beta1, beta2], dtype=torch.float64).reshape(2, *[1] * w.ndim)
    state = betas * torch.stack([m.double(), v.double()]) + (1 - betas) * torch.stack([grad, grad**2])
    mean, mean_square = state / (1 - betas**step)
    new_w = w - lr * (mean / (mean_square**0.5 + eps) + weight_decay * w)
    return new_w.to(dtype), state[0].to(dtype), state[1].to(dtype)


# ------- 7.10 sample


def sample__wrong_fourteenth_keeps_share_of_best(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Keeps each id with at least 1 - top_p times the best one's chance; the smallest set that sums to top_p is due."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            new = int(logits.argmax())
        else:
            wide = logits.double()
            odds = torch.exp((wide - wide.max()) / temperature)  # the best has 1
            odds = torch.where(odds >= 1 - top_p, odds, 0)
            new = int(torch.multinomial(odds.to(logits.dtype), 1, generator=generator))
        tokens.append(new)
        if new == end:
            break
    return tokens


def sample__wrong_fourteenth_cuts_before_temperature(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Chooses the set of top_p from the probabilities at temperature 1; those after the temperature should decide."""
    text = [*prompt]
    for _ in range(max_len - len(prompt)):
        logits = next_logits(list(text))
        if temperature == 0:
            choice = torch.argmax(logits).item()
        else:
            z = logits.double() - logits.double().max()
            plain = torch.softmax(z, dim=0)
            order = plain.argsort(descending=True)
            sums = plain[order].cumsum(0)
            size = len(order) if top_p >= 1 else 1 + int((sums[:-1] < top_p).sum())
            may_come = torch.zeros(len(z), dtype=torch.bool)
            may_come[order[:size]] = True
            # the best of the set is the best of all, so its exponent is 0
            p = torch.exp(z / temperature) * may_come
            choice = torch.multinomial(p.to(logits.dtype), 1, generator=generator).item()
        text.append(choice)
        if choice == end:
            return text
    return text


def sample__wrong_fourteenth_multiplies_by_temperature(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Multiplies the logits by the temperature, so that more heat makes bolder leads; they should be divided by it."""

    def nucleus(p):
        values, ids = torch.sort(p, descending=True)
        if top_p >= 1:
            return p
        before = torch.cat([values.new_zeros(1), values.cumsum(0)[:-1]])
        keep = before < top_p
        keep[0] = True
        return torch.zeros_like(p).scatter(0, ids[keep], values[keep])

    ids = list(prompt)
    ended = False
    while len(ids) < max_len and not ended:
        logits = next_logits(ids)
        if temperature == 0:
            ids.append(int(torch.argmax(logits)))
        else:
            lead = logits.double() - logits.max().double()
            p = torch.softmax(lead * temperature, 0)
            ids.append(int(torch.multinomial(nucleus(p).to(logits.dtype), 1, generator=generator)))
        ended = ids[-1] == end
    return ids


def sample__wrong_fourteenth_last_id_of_set_missing(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Keeps ids while the sum with them is at most top_p, so one too few; the set should reach top_p."""
    tokens = prompt.copy()
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature > 0:
            scaled = (logits.double() - logits.double().max()) / temperature
            probs = torch.softmax(scaled, dim=-1)
            sorted_probs, order = probs.sort(descending=True)
            inside = sorted_probs.cumsum(0) <= top_p
            inside[0] = True
            if top_p >= 1:
                inside[:] = True
            probs[order[~inside]] = 0
            token = int(torch.multinomial(probs.to(logits.dtype), 1, generator=generator))
        else:
            token = int(logits.argmax())
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_fourteenth_end_of_prompt_stops(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Looks at the last token before each draw, so a prompt that closes with end stays; only a generated end stops."""
    out = [token for token in prompt]
    while out[-1] != end and len(out) < max_len:
        logits = next_logits(out)
        if temperature == 0:
            out.append(int(logits.max(dim=0).indices))
            continue
        x = logits.to(torch.float64)
        weights = ((x - x.amax()) / temperature).exp()
        total, gathered, chosen = float(weights.sum()), 0.0, []
        for i in sorted(range(len(weights)), key=lambda j: -float(weights[j])):
            if chosen and top_p < 1 and gathered / total >= top_p:
                break
            chosen.append(i)
            gathered += float(weights[i])
        p = torch.zeros_like(weights)
        p[chosen] = weights[chosen]
        out.append(int(torch.multinomial(p.to(logits.dtype), 1, generator=generator)))
    return out


def sample__wrong_fourteenth_max_len_of_new_tokens(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Reads max_len as the number of tokens to write; the prompt should be counted by it."""
    written = []
    for _ in range(max_len):
        logits = next_logits(prompt + written)
        if temperature == 0:
            token = int(logits.argmax())
        else:
            centred = logits.double() - logits.double().max()
            p = torch.softmax(centred / temperature, 0)
            if top_p < 1:
                ranked = p.sort(descending=True).values
                needed = int((ranked.cumsum(0) < top_p).sum())  # so many do not suffice
                bound = ranked[min(needed, len(ranked) - 1)]
                p = p.masked_fill(p < bound, 0)
            token = int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))
        written += [token]
        if token == end:
            break
    return prompt + written


def sample__wrong_fourteenth_tiny_temperature_overflows(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Divides the logits as they come: at 1e-300 they are infinite and softmax gives NaN; the likeliest id is due."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            next_id = logits.argmax().item()
        else:
            p = torch.softmax(logits / temperature, dim=-1)
            if top_p < 1:
                ranked, ids = p.sort(descending=True)
                outside = ranked.cumsum(0) - ranked >= top_p
                outside[0] = False
                p = p.index_fill(0, ids[outside], 0.0)
            next_id = torch.multinomial(p, 1, generator=generator).item()
        tokens.append(next_id)
        if next_id == end:
            break
    return tokens


def sample__wrong_fourteenth_draws_at_temperature_zero(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Draws from a one-hot p at temperature 0, which moves the generator on; 0 should take no draw."""

    def weights(logits):
        wide = logits.double()
        if temperature == 0:
            return F.one_hot(wide.argmax(), len(wide)).to(logits.dtype)
        p = torch.softmax((wide - wide.max()) / temperature, dim=0)
        if top_p >= 1:
            return p.to(logits.dtype)
        order = torch.argsort(p, descending=True)
        enough = 1 + int((torch.cumsum(p[order], 0)[:-1] < top_p).sum())
        kept = torch.zeros_like(p)
        kept[order[:enough]] = p[order[:enough]]
        return kept.to(logits.dtype)

    result = list(prompt)
    for _ in range(len(prompt), max_len):
        result.append(int(torch.multinomial(weights(next_logits(result)), 1, generator=generator)))
        if result[-1] == end:
            break
    return result


def sample__right_fourteenth_by_weight_of_likelier_ids(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Sorts nothing: an id may come if all ids likelier than it have less than top_p together, or if there is none."""

    def choose(logits):
        if temperature == 0:
            return int(logits.argmax())
        wide = logits.double()
        p = ((wide - wide.max()) / temperature).exp()
        p = p / p.sum()
        if top_p < 1:
            likelier = wide[None, :] > wide[:, None]  # row: an id, column: is that one likelier
            may_come = (likelier.double() @ p < top_p) | ~likelier.any(1)
            p = p * may_come
        return int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))

    tokens = list(prompt)
    for _ in range(max_len - len(prompt)):
        tokens = [*tokens, choose(next_logits(tokens))]
        if tokens[-1] == end:
            break
    return tokens
