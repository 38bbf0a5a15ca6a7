"""Answers to the exercises of unit 7, wrong ones and right ones, as students would write them."""

import functools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F


def _layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = (centred * centred).mean(dim=-1, keepdim=True)
    return gamma * centred / torch.sqrt(variance + eps) + beta


def _gelu(x):
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


def _feed_forward(x, W_1, b_1, W_2, b_2, activation):
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    batch, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V))
    scores = Q @ K.transpose(-1, -2) / math.sqrt(Q.shape[-1])
    if mask is not None:
        mask = mask.expand(batch, n_heads, n, n)
        some = mask.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~(mask | ~some), -math.inf)
        heads = torch.softmax(scores, dim=-1) @ V * some
    else:
        heads = torch.softmax(scores, dim=-1) @ V
    return heads.transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def _pre_norm_block(x, params, n_heads, mask=None):
    p = params
    weights = [p[name] for name in ("W_Q", "W_K", "W_V", "W_O", "b_O")]
    y = x + _multi_head_attention(_layer_norm(x, p["gamma_1"], p["beta_1"]), *weights, n_heads, mask)
    ffn = [p[name] for name in ("W_1", "b_1", "W_2", "b_2")]
    return y + _feed_forward(_layer_norm(y, p["gamma_2"], p["beta_2"]), *ffn, _gelu)


# ------- 7.1 layer_norm


def layer_norm__wrong_thirteenth_whole_sequence_at_once(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Takes one mean and variance over all axes but the first (all tokens of a sequence); each token has its own."""
    axes = tuple(range(1, x.ndim)) if x.ndim > 1 else (0,)
    centre = x.mean(dim=axes, keepdim=True)
    spread = x.var(dim=axes, correction=0, keepdim=True)
    return gamma * (x - centre) / (spread + eps).sqrt() + beta


def layer_norm__wrong_thirteenth_divides_by_vector_length(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Takes norm for the length of the vector: sums the squared deviations; due is their mean."""
    deviation = x - x.mean(-1, keepdim=True)
    length = torch.sqrt(torch.sum(deviation**2, -1, keepdim=True) + eps)
    unit_vector = deviation / length
    return gamma * unit_vector + beta


def layer_norm__wrong_thirteenth_scales_before_normalising(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Applies gamma and beta to the raw token and standardises that; due is to standardise first, then scale."""
    prepared = x * gamma + beta
    variance, mean = torch.var_mean(prepared, dim=-1, correction=0, keepdim=True)
    return (prepared - mean) * torch.rsqrt(variance + eps)


def layer_norm__wrong_thirteenth_eps_outside_the_root(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Adds eps to the standard deviation; it belongs to the variance, under the root."""
    d = x.shape[-1]
    mu = x.sum(-1, keepdim=True) / d
    sigma_squared = ((x - mu) ** 2).sum(-1, keepdim=True) / d
    return gamma * (x - mu) / (torch.sqrt(sigma_squared) + eps) + beta


def layer_norm__wrong_thirteenth_beta_inside_the_bracket(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """A bracket is set wrongly, so gamma multiplies beta as well; beta is to be added after the scaling."""
    m = x.mean(-1).unsqueeze(-1)
    s2 = (x - m).square().mean(-1).unsqueeze(-1)
    return gamma * ((x - m) / (s2 + eps) ** 0.5 + beta)


def layer_norm__wrong_thirteenth_variance_by_d_minus_one(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Reads biased variance as the one that statistics books call the sample's, divided by d - 1; due is d."""
    d = x.shape[-1]
    deviations = x - x.mean(dim=-1, keepdim=True)
    variance = deviations.pow(2).sum(dim=-1, keepdim=True) / max(d - 1, 1)
    return deviations.div((variance + eps).sqrt()).mul(gamma).add(beta)


def layer_norm__wrong_thirteenth_mean_of_squares_minus_square(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Mean of x*x minus squared mean: float32 numbers near 10,000 lose all digits; subtract the mean, then square."""
    first_moment = x.mean(-1, keepdim=True)
    second_moment = (x * x).mean(-1, keepdim=True)
    variance = (second_moment - first_moment * first_moment).clamp(min=0)
    return gamma * ((x - first_moment) / torch.sqrt(variance + eps)) + beta


def layer_norm__wrong_thirteenth_changes_x_in_place(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The result is right, but the mean is taken away from x itself; the inputs are to stay as they are."""
    x -= x.mean(-1, keepdim=True)
    power = (x**2).mean(-1, keepdim=True)
    y = x / torch.sqrt(power + eps)
    return y * gamma + beta


def layer_norm__right_thirteenth_by_shift_and_hypot(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Shifts by the first feature, which changes nothing; the root is the hypotenuse over sigma and root eps."""
    shifted = x - x[..., :1]
    deviation = shifted - shifted.mean(-1, keepdim=True)
    sigma = torch.linalg.vector_norm(deviation, dim=-1, keepdim=True) / math.sqrt(x.shape[-1])
    divisor = torch.hypot(sigma, torch.full_like(sigma, math.sqrt(eps)))
    return torch.addcmul(beta, gamma, deviation / divisor)


# ------- 7.2 batch_norm


def batch_norm__wrong_thirteenth_each_position_apart(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Averages over the batch axis only, each position by itself; due is batch and tokens together."""
    mean_over_batch = x.mean(dim=0)
    var_over_batch = ((x - mean_over_batch) ** 2).mean(dim=0)
    return gamma * (x - mean_over_batch) / torch.sqrt(var_over_batch + eps) + beta


def batch_norm__wrong_thirteenth_mean_of_sequence_variances(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Takes the mean of the sequences' variances for that of all tokens; the spread between sequences is missing."""
    per_sequence_mean = x.mean(1)  # (B, d)
    per_sequence_var = x.var(1, correction=0)  # (B, d)
    mean, var = per_sequence_mean.mean(0), per_sequence_var.mean(0)
    return gamma * (x - mean) / (var + eps).sqrt() + beta


def batch_norm__wrong_thirteenth_uses_running_averages(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Divides by averages that begin at mean 0, variance 1 and take in a tenth of the batch; due is the batch alone."""
    momentum = 0.1
    d = x.shape[-1]
    tokens = x.reshape(-1, d)
    batch_mean = tokens.mean(0)
    batch_var = tokens.var(0, correction=0)
    running_mean = (1 - momentum) * x.new_zeros(d) + momentum * batch_mean
    running_var = (1 - momentum) * x.new_ones(d) + momentum * batch_var
    z = (tokens - running_mean) / torch.sqrt(running_var + eps)
    return (z * gamma + beta).reshape(x.shape)


def batch_norm__wrong_thirteenth_reshape_for_transpose(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Gets rows of features by reshape(d, -1), which mixes features; due is a transpose."""
    B, n, d = x.shape
    rows = x.reshape(d, B * n)
    mu = rows.mean(dim=1)
    var = (rows - mu[:, None]).square().mean(dim=1)
    return gamma * (x - mu) / torch.sqrt(var + eps) + beta


def batch_norm__wrong_thirteenth_squares_over_numel(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Divides the sum of squares by the number of all entries, B*n*d; due is B*n."""
    mu = torch.einsum("bnd->d", x) / (x.shape[0] * x.shape[1])
    centred = x - mu
    sigma2 = torch.einsum("bnd,bnd->d", centred, centred) / x.numel()
    return centred / torch.sqrt(sigma2 + eps) * gamma + beta


def batch_norm__wrong_thirteenth_eps_as_a_floor(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Reads eps as the least value that the variance may have; it is to be added."""
    variance, mean = torch.var_mean(x, dim=(0, 1), correction=0)
    safe_variance = torch.clamp(variance, min=eps)
    return gamma * ((x - mean) / safe_variance.sqrt()) + beta


def batch_norm__wrong_thirteenth_single_token_not_normed(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Leaves the token as it is where the batch holds only one, scaled and shifted; the formula gives beta."""
    n_tokens = x.shape[0] * x.shape[1]
    if n_tokens == 1:  # nothing to compare with
        return gamma * x + beta
    mean = x.sum(dim=(0, 1)) / n_tokens
    variance = ((x - mean) ** 2).sum(dim=(0, 1)) / n_tokens
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_thirteenth_statistics_without_gradient(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Numbers right, but mean and variance are made under no_grad, so the gradient of x is wrong; it is to flow."""
    with torch.no_grad():
        flat = x.flatten(0, 1)
        mean = flat.mean(0)
        scale = 1 / torch.sqrt((flat - mean).square().mean(0) + eps)
    return (x - mean) * scale * gamma + beta


def batch_norm__right_thirteenth_by_merging_sequences(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Goes through the sequences one by one and merges count, mean and sum of squared deviations."""
    count, mean, squares = 0, torch.zeros_like(x[0, 0]), torch.zeros_like(x[0, 0])
    for sequence in x:
        n = len(sequence)
        its_mean = sequence.mean(0)
        gap = its_mean - mean
        both = count + n
        squares = squares + (sequence - its_mean).square().sum(0)
        if count:
            squares = squares + gap**2 * (count * n / both)
            mean = mean + gap * (n / both)
        else:
            mean = its_mean
        count = both
    return gamma * (x - mean) / torch.sqrt(squares / count + eps) + beta


# ------- 7.3 gelu


def gelu__wrong_thirteenth_density_for_probability(x: torch.Tensor) -> torch.Tensor:
    """Multiplies by the height of the bell curve at x; due is the probability to the left of x."""
    bell = torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return x * bell


def gelu__wrong_thirteenth_standardises_x_first(x: torch.Tensor) -> torch.Tensor:
    """Believes that x must be made standard normal and z-scores it over all entries; Phi takes the x that is given."""
    centre = x.mean()
    spread = torch.sqrt((x - centre).square().mean() + 1e-12)
    z = (x - centre) / spread
    phi = 0.5 * (1 + torch.erf(z / math.sqrt(2)))
    return x * phi


def gelu__wrong_thirteenth_integral_of_phi(x: torch.Tensor) -> torch.Tensor:
    """As ReLU is the integral of a step, takes the integral of Phi, x Phi(x) + bell(x); due is x Phi(x) alone."""
    root_two = math.sqrt(2.0)
    below = 0.5 + 0.5 * torch.erf(x / root_two)
    bell = (-0.5 * x * x).exp() / (root_two * math.sqrt(math.pi))
    return x * below + bell


def gelu__wrong_thirteenth_times_root_two(x: torch.Tensor) -> torch.Tensor:
    """Multiplies by the root of 2 inside erf; due is to divide by it."""
    return 0.5 * x * (1.0 + torch.erf(x * 2**0.5))


def gelu__wrong_thirteenth_one_outside_the_product(x: torch.Tensor) -> torch.Tensor:
    """Sets the bracket so that x multiplies erf only, (1 + x erf)/2; x belongs to the 1 as well."""
    e = torch.erf(torch.div(x, math.sqrt(2)))
    return torch.div(1 + x * e, 2)


def gelu__wrong_thirteenth_tanh_form(x: torch.Tensor) -> torch.Tensor:
    """Takes GELU for the formula with tanh that GPT-2 uses; the docstring asks for the exact one with erf."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3))
    return 0.5 * x * (1 + torch.tanh(inner))


def gelu__wrong_thirteenth_series_only_near_zero(x: torch.Tensor) -> torch.Tensor:
    """Sums 30 terms of the power series of erf: right near 0, but absurd or NaN far away; x may be large."""
    z = x / math.sqrt(2)
    power, total = z, z
    for k in range(1, 30):
        power = -power * z * z / k
        total = total + power / (2 * k + 1)
    erf = 2 / math.sqrt(math.pi) * total
    return x * (1 + erf) / 2


def gelu__wrong_thirteenth_math_erf_cuts_gradient(x: torch.Tensor) -> torch.Tensor:
    """Works on plain Python numbers with math.erf: right values, but no gradient flows to x any more."""
    numbers = [0.5 * value * (1 + math.erf(value / math.sqrt(2))) for value in x.flatten().tolist()]
    return torch.tensor(numbers, dtype=x.dtype).reshape(x.shape)


def gelu__right_thirteenth_by_log_of_phi(x: torch.Tensor) -> torch.Tensor:
    """Takes the logarithm of the normal distribution function and raises e to it."""
    log_phi = torch.special.log_ndtr(x)
    return x * log_phi.exp()


# ------- 7.4 feed_forward


def feed_forward__wrong_thirteenth_activation_at_the_end(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Thinks of the activation as what closes a network and puts it after the second map; it stands between them."""
    hidden = x @ W_1 + b_1
    out = hidden @ W_2 + b_2
    return activation(out)


def feed_forward__wrong_thirteenth_first_bias_after_activation(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Takes b_1 for a shift of the answers and adds it behind the activation; it belongs to the question, inside."""
    return (activation(x @ W_1) + b_1) @ W_2 + b_2


def feed_forward__wrong_thirteenth_activation_as_a_gate(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Reads the activation as a decision by which the score is multiplied; due is its value itself."""
    score = torch.matmul(x, W_1) + b_1
    decision = activation(score)
    passed = decision * score
    return torch.matmul(passed, W_2) + b_2


def feed_forward__wrong_thirteenth_activated_value_not_used(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Goes on with the wrong variable: what the activation returned is never used; it should enter the second map."""
    up = x @ W_1
    up = up + b_1
    bent = activation(up)
    down = up @ W_2
    down = down + b_2
    assert bent.shape[:-1] == down.shape[:-1]
    return down


def feed_forward__wrong_thirteenth_second_bias_in_the_sum(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Adds b_2 inside the loop, once for each hidden feature; it is due once."""
    y = torch.zeros_like(x)
    for k in range(W_1.shape[1]):
        question = (x * W_1[:, k]).sum(-1) + b_1[k]
        y = y + activation(question)[..., None] * W_2[k] + b_2
    return y


def feed_forward__wrong_thirteenth_activation_after_both_maps(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Reads that the activation follows a map and its bias, so each of the two; it follows the first only."""
    for W, b in ((W_1, b_1), (W_2, b_2)):
        x = activation(F.linear(x, W.T, b))
    return x


def feed_forward__wrong_thirteenth_single_token_gets_an_axis(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Makes a matrix of a single token and forgets to take the axis away: (1, d_model) for x of shape (d_model,)."""
    tokens = torch.atleast_2d(x)
    hidden = activation(torch.einsum("...i,ij->...j", tokens, W_1) + b_1)
    return torch.einsum("...j,ji->...i", hidden, W_2) + b_2


def feed_forward__wrong_thirteenth_returns_double(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Calculates in float64 to be exact and leaves it at that; float32 in should be float32 out."""
    x, W_1, b_1, W_2, b_2 = (t.double() for t in (x, W_1, b_1, W_2, b_2))
    h = activation(x.matmul(W_1).add(b_1))
    return h.matmul(W_2).add(b_2)


def feed_forward__right_thirteenth_by_a_feature_of_ones(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Writes each bias as one more row of its matrix, met by a feature that is always 1."""

    def with_one(t):
        return torch.cat([t, t.new_ones(*t.shape[:-1], 1)], dim=-1)

    up = torch.cat([W_1, b_1[None]])
    down = torch.cat([W_2, b_2[None]])
    return with_one(activation(with_one(x) @ up)) @ down


# ------- 7.5 post_norm_block


def post_norm_block__wrong_thirteenth_second_bypass_from_x(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Believes that both bypasses carry the block's input and adds x to the FFN; the second residual is y."""
    P = params
    heard = _multi_head_attention(x, P["W_Q"], P["W_K"], P["W_V"], P["W_O"], P["b_O"], n_heads, mask)
    y = _layer_norm(x + heard, P["gamma_1"], P["beta_1"])
    thought = _feed_forward(y, P["W_1"], P["b_1"], P["W_2"], P["b_2"], _gelu)
    return _layer_norm(x + thought, P["gamma_2"], P["beta_2"])


def post_norm_block__wrong_thirteenth_norms_before_adding(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes post for after the sublayer and norms what it returns, then adds; due is to add and then norm the sum."""

    def norm(t, which):
        return _layer_norm(t, params[f"gamma_{which}"], params[f"beta_{which}"])

    attention_weights = (params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O"))
    x = x + norm(_multi_head_attention(x, *attention_weights, n_heads, mask), 1)
    hidden = _gelu(x @ params["W_1"] + params["b_1"])
    return x + norm(hidden @ params["W_2"] + params["b_2"], 2)


def post_norm_block__wrong_thirteenth_ffn_reads_the_input(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sees the two sublayers side by side: the FFN works on x; it should work on y, what attention has brought."""
    from_attention = _multi_head_attention(
        x, params["W_Q"], params["W_K"], params["W_V"], params["W_O"], params["b_O"], n_heads=n_heads, mask=mask
    )
    from_ffn = _feed_forward(x, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu)
    y = _layer_norm(x + from_attention, params["gamma_1"], params["beta_1"])
    return _layer_norm(y + from_ffn, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_thirteenth_first_norm_used_twice(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Copies the line with the norm and leaves gamma_1, beta_1 in it; the second norm has gamma_2, beta_2."""
    a = _multi_head_attention(
        x, *[params[f"W_{letter}"] for letter in "QKVO"], params["b_O"], n_heads, mask
    )
    y = _layer_norm(x + a, params["gamma_1"], params["beta_1"])
    f = _feed_forward(y, *[params[k] for k in ("W_1", "b_1", "W_2", "b_2")], _gelu)
    z = _layer_norm(y + f, params["gamma_1"], params["beta_1"])
    return z


def post_norm_block__wrong_thirteenth_keys_for_queries(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Hands W_K over in the place of W_Q and the reverse; the signature has the queries first."""
    W_K, W_Q, W_V, W_O, b_O = (params[name] for name in ("W_K", "W_Q", "W_V", "W_O", "b_O"))
    x = _layer_norm(
        x + _multi_head_attention(x, W_K, W_Q, W_V, W_O, b_O, n_heads, mask), params["gamma_1"], params["beta_1"]
    )
    W_1, b_1, W_2, b_2 = (params[name] for name in ("W_1", "b_1", "W_2", "b_2"))
    return _layer_norm(x + _feed_forward(x, W_1, b_1, W_2, b_2, _gelu), params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_thirteenth_mask_true_means_hidden(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reads the mask as PyTorch's block does, True = hidden, and turns it round; here True = may attend."""
    p = params
    allowed = None if mask is None else torch.logical_not(mask)
    attended = _multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, allowed)
    middle = _layer_norm(attended + x, p["gamma_1"], p["beta_1"])
    fed = _feed_forward(middle, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _layer_norm(fed + middle, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_thirteenth_blind_query_gives_nan(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention by hand with -inf where hidden: a query that may attend to nothing becomes NaN; it should get 0."""
    d_head = params["W_Q"].shape[1] // n_heads
    batch, n, _ = x.shape
    if mask is not None:
        mask = mask.expand(batch, n_heads, n, n)
    parts = []
    for h in range(n_heads):
        cut = slice(h * d_head, (h + 1) * d_head)
        q, k, v = (x @ params[name][:, cut] for name in ("W_Q", "W_K", "W_V"))
        score = q @ k.mT / d_head**0.5
        if mask is not None:
            score = torch.where(mask[:, h], score, -math.inf)
        parts.append(score.softmax(-1) @ v)
    y = x + torch.cat(parts, -1) @ params["W_O"] + params["b_O"]
    y = _layer_norm(y, params["gamma_1"], params["beta_1"])
    y = y + _gelu(y @ params["W_1"] + params["b_1"]) @ params["W_2"] + params["b_2"]
    return _layer_norm(y, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_thirteenth_adds_into_x(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The result is right, but the first sum is written into x itself; the input is to stay as it is."""
    get = params.__getitem__
    x += _multi_head_attention(x, *map(get, ("W_Q", "W_K", "W_V", "W_O", "b_O")), n_heads, mask)
    x = _layer_norm(x, get("gamma_1"), get("beta_1"))
    x = x + _feed_forward(x, *map(get, ("W_1", "b_1", "W_2", "b_2")), _gelu)
    return _layer_norm(x, get("gamma_2"), get("beta_2"))


def post_norm_block__right_thirteenth_by_head_and_sequence(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Goes sequence by sequence, head by head, query by query, and softmaxes only over the keys that may be seen."""
    batch, n, _ = x.shape
    if mask is None:
        mask = torch.ones(n, n, dtype=torch.bool)
    mask = mask.expand(batch, n_heads, n, n)
    results = []
    for b, tokens in enumerate(x):
        queries, keys, values = (
            (tokens @ params[name]).chunk(n_heads, dim=-1) for name in ("W_Q", "W_K", "W_V")
        )
        rows = []
        for i in range(n):
            heard = []
            for h in range(n_heads):
                seen = mask[b, h, i]
                k, v, q = keys[h][seen], values[h][seen], queries[h][i]
                weights = torch.softmax(k @ q / math.sqrt(len(q)), dim=0)
                heard.append(weights @ v)  # zeros where nothing is seen
            rows.append(torch.cat(heard) @ params["W_O"] + params["b_O"])
        y = _layer_norm(tokens + torch.stack(rows), params["gamma_1"], params["beta_1"])
        bent = _gelu(torch.addmm(params["b_1"], y, params["W_1"]))
        z = y + torch.addmm(params["b_2"], bent, params["W_2"])
        results.append(_layer_norm(z, params["gamma_2"], params["beta_2"]))
    return torch.stack(results)


# ------- 7.6 pre_norm_block


def pre_norm_block__wrong_thirteenth_only_queries_are_normed(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Norms the token that asks and lets keys and values come from the raw x; all three come from the normed tokens."""
    B, n, _ = x.shape
    asking = _layer_norm(x, params["gamma_1"], params["beta_1"])
    Q = (asking @ params["W_Q"]).view(B, n, n_heads, -1)
    K = (x @ params["W_K"]).view(B, n, n_heads, -1)
    V = (x @ params["W_V"]).view(B, n, n_heads, -1)
    scores = torch.einsum("bqhd,bkhd->bhqk", Q, K) / math.sqrt(Q.shape[-1])
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
        nothing = ~mask.any(-1, keepdim=True)
        weights = scores.masked_fill(~mask & ~nothing, -math.inf).softmax(-1) * ~nothing
    else:
        weights = scores.softmax(-1)
    heads = torch.einsum("bhqk,bkhd->bqhd", weights, V).reshape(B, n, -1)
    y = x + heads @ params["W_O"] + params["b_O"]
    inner = _layer_norm(y, params["gamma_2"], params["beta_2"])
    return y + _feed_forward(inner, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu)


def pre_norm_block__wrong_thirteenth_bypass_carries_normed(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Norms first and goes on with that, so the bypasses carry normed tokens; they should carry them as they are."""
    x = _layer_norm(x, params["gamma_1"], params["beta_1"])
    x = x + _multi_head_attention(
        x, params["W_Q"], params["W_K"], params["W_V"], params["W_O"], params["b_O"], n_heads, mask
    )
    x = _layer_norm(x, params["gamma_2"], params["beta_2"])
    x = x + _feed_forward(x, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu)
    return x


def pre_norm_block__wrong_thirteenth_parallel_sublayers(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the block as x + att + ffn, with the FFN on norm 2 of x; the FFN should see norm 2 of y."""
    att = _multi_head_attention(
        _layer_norm(x, params["gamma_1"], params["beta_1"]),
        *(params[name] for name in "W_Q W_K W_V W_O b_O".split()),
        n_heads,
        mask,
    )
    ffn = _feed_forward(
        _layer_norm(x, params["gamma_2"], params["beta_2"]),
        *(params[name] for name in "W_1 b_1 W_2 b_2".split()),
        _gelu,
    )
    return x + att + ffn


def pre_norm_block__wrong_thirteenth_last_sum_starts_at_x(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds x instead of y at the end, so what attention brought is not in the sum; y + ffn is due."""
    p = params
    normed = _layer_norm(x, p["gamma_1"], p["beta_1"])
    y = x + _multi_head_attention(normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    normed = _layer_norm(y, p["gamma_2"], p["beta_2"])
    z = x + _feed_forward(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return z


def pre_norm_block__wrong_thirteenth_mask_not_handed_on(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Forgets to hand the mask to the attention, so every token sees all; the mask should reach it."""

    def attention(t):
        return _multi_head_attention(
            t, params["W_Q"], params["W_K"], params["W_V"], params["W_O"], params["b_O"], n_heads
        )

    def ffn(t):
        return _feed_forward(t, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu)

    y = x + attention(_layer_norm(x, params["gamma_1"], params["beta_1"]))
    return y + ffn(_layer_norm(y, params["gamma_2"], params["beta_2"]))


def pre_norm_block__wrong_thirteenth_tanh_gelu_of_gpt2(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reads "as in GPT-2" as holding for the activation too and takes the tanh form; the exact GELU is asked for."""

    def gpt2_gelu(t):
        return 0.5 * t * (1 + torch.tanh((2 / math.pi) ** 0.5 * (t + 0.044715 * t * t * t)))

    attention_keys = ["W_Q", "W_K", "W_V", "W_O", "b_O"]
    stream = x
    stream = stream + _multi_head_attention(
        _layer_norm(stream, params["gamma_1"], params["beta_1"]),
        *[params[k] for k in attention_keys],
        n_heads=n_heads,
        mask=mask,
    )
    h = _layer_norm(stream, params["gamma_2"], params["beta_2"]) @ params["W_1"] + params["b_1"]
    return stream + gpt2_gelu(h) @ params["W_2"] + params["b_2"]


def pre_norm_block__wrong_thirteenth_root_of_model_share(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Scales the scores by the root of d_model / n_heads, wrong where h*d_head is not d_model; d_head is due."""
    B, n, d_model = x.shape
    scale = 1 / math.sqrt(d_model / n_heads)
    normed = _layer_norm(x, params["gamma_1"], params["beta_1"])
    q, k, v = (
        (normed @ params[w]).reshape(B, n, n_heads, -1).permute(0, 2, 1, 3) for w in ("W_Q", "W_K", "W_V")
    )
    scores = q @ k.mT * scale
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        mask = mask.expand_as(scores)
        sees = mask.any(dim=-1, keepdim=True)
        weights = scores.masked_fill(~mask & sees, -math.inf).softmax(dim=-1) * sees
    joined = (weights @ v).permute(0, 2, 1, 3).reshape(B, n, -1)
    y = x + (joined @ params["W_O"] + params["b_O"])
    normed = _layer_norm(y, params["gamma_2"], params["beta_2"])
    return y + (_gelu(normed @ params["W_1"] + params["b_1"]) @ params["W_2"] + params["b_2"])


def pre_norm_block__wrong_thirteenth_calls_torchs_attention(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Right numbers, but the answer calls scaled_dot_product_attention itself, which is not allowed in any answer."""
    batch, n, _ = x.shape
    t = _layer_norm(x, params["gamma_1"], params["beta_1"])
    q = (t @ params["W_Q"]).reshape(batch, n, n_heads, -1).transpose(1, 2)
    k = (t @ params["W_K"]).reshape(batch, n, n_heads, -1).transpose(1, 2)
    v = (t @ params["W_V"]).reshape(batch, n, n_heads, -1).transpose(1, 2)
    if mask is None:
        out = F.scaled_dot_product_attention(q, k, v)
    else:
        mask = mask.expand(batch, n_heads, n, n)
        some = mask.any(-1, keepdim=True)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | ~some) * some
    y = x + out.transpose(1, 2).reshape(batch, n, -1) @ params["W_O"] + params["b_O"]
    t = _layer_norm(y, params["gamma_2"], params["beta_2"])
    return y + _feed_forward(t, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu)


def pre_norm_block__right_thirteenth_by_sum_over_heads(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Lets every head add its own share to the stream, with the mask as factors 0 and 1 in a softmax by hand."""
    n, p = x.shape[1], params
    if mask is None:
        mask = torch.ones(n, n, dtype=torch.bool)
    mask = mask.expand(x.shape[0], n_heads, n, n)
    a = _layer_norm(x, p["gamma_1"], p["beta_1"])
    d_head = p["W_O"].shape[0] // n_heads
    stream = x + p["b_O"]
    for h in range(n_heads):
        mine = slice(h * d_head, h * d_head + d_head)
        key_map = p["W_Q"][:, mine] @ p["W_K"][:, mine].T / math.sqrt(d_head)
        scores = torch.einsum("bic,ce,bje->bij", a, key_map, a)
        open_ = mask[:, h]
        top = torch.where(open_, scores, -math.inf).amax(-1, keepdim=True)
        top = torch.where(open_.any(-1, keepdim=True), top, 0)
        e = torch.exp(torch.where(open_, scores - top, -math.inf))
        total = e.sum(-1, keepdim=True)
        weights = e / torch.where(total > 0, total, 1)
        stream = stream + weights @ (a @ (p["W_V"][:, mine] @ p["W_O"][mine]))
    c = _layer_norm(stream, p["gamma_2"], p["beta_2"])
    return stream + p["b_2"] + _gelu(c @ p["W_1"] + p["b_1"]) @ p["W_2"]


# ------- 7.7 transformer_logits


def transformer_logits__wrong_thirteenth_token_hidden_from_itself(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Believes that causal means the past alone and leaves the diagonal out; a token sees itself and its past."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    past_only = torch.ones(n, n, dtype=torch.bool).tril(diagonal=-1)
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, past_only)
    x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_thirteenth_tied_embeddings(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Unembeds with the transpose of W_E, as GPT-2 does; this model has a W_U of its own."""
    embed, positions = params["W_E"], params["W_pos"]
    length = tokens.size(1)
    causal = torch.tril(torch.ones((length, length), dtype=torch.bool))
    stream = F.embedding(tokens, embed) + positions[torch.arange(length)]
    for layer in params["blocks"]:
        stream = _pre_norm_block(stream, layer, n_heads, mask=causal)
    final = _layer_norm(stream, params["gamma_f"], params["beta_f"])
    return torch.einsum("bnd,vd->bnv", final, embed)


def transformer_logits__wrong_thirteenth_mask_in_first_block_only(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Thinks that the first block's mask has settled what is past and gives the others none; every block needs it."""
    n = tokens.shape[-1]
    mask = torch.arange(n)[:, None] >= torch.arange(n)[None, :]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    for number, block in enumerate(params["blocks"]):
        x = _pre_norm_block(x, block, n_heads, mask if number == 0 else None)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_thirteenth_last_rows_of_positions(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Takes the last n rows of W_pos; the first n are due, which differs where n < n_ctx."""
    B, n = tokens.shape
    token_part = torch.stack([params["W_E"][row] for row in tokens])
    x = token_part + params["W_pos"][-n:]
    causal = torch.ones(n, n).tril().bool()
    for p in params["blocks"]:
        x = _pre_norm_block(x, p, n_heads, causal)
    logits = _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]
    assert logits.shape[:2] == (B, n)
    return logits


def transformer_logits__wrong_thirteenth_first_block_every_time(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """A wrong index in the loop: the first block's weights run in every round; each block should run once."""
    blocks = params["blocks"]
    n = tokens.shape[1]
    hidden = params["W_E"].index_select(0, tokens.flatten()).reshape(*tokens.shape, -1)
    hidden = hidden + params["W_pos"][:n]
    allowed = ~torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
    for i in range(len(blocks)):
        hidden = _pre_norm_block(hidden, blocks[0], n_heads, allowed)
    hidden = _layer_norm(hidden, params["gamma_f"], params["beta_f"])
    return hidden.matmul(params["W_U"])


def transformer_logits__wrong_thirteenth_log_probabilities(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Reads scores as log probabilities and closes with a log-softmax; the plain logits are asked for."""
    n = tokens.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    x = params["W_E"][tokens]
    x = x + params["W_pos"][:n].unsqueeze(0)
    for block_params in params["blocks"]:
        x = _pre_norm_block(x, block_params, n_heads, causal)
    x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    scores = x @ params["W_U"]
    return scores - torch.logsumexp(scores, dim=-1, keepdim=True)


def transformer_logits__wrong_thirteenth_no_blocks_no_final_norm(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Puts the final norm behind the last block inside the loop, so it is missing where the list of blocks is empty."""
    n = tokens.shape[1]
    see = torch.ones(n, n, dtype=torch.bool).tril()
    x = params["W_E"][tokens] + params["W_pos"][:n]
    last = len(params["blocks"]) - 1
    for k, block in enumerate(params["blocks"]):
        x = _pre_norm_block(x, block, n_heads, see)
        if k == last:
            x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_thirteenth_empties_list_of_blocks(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Right logits, but it takes the blocks out of the list with pop, so params has none left; params is to stay."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    x = params["W_E"][tokens] + params["W_pos"][:n]
    todo = params["blocks"]
    while todo:
        block = todo.pop(0)
        x = _pre_norm_block(x, block, n_heads, mask)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__right_thirteenth_by_one_hot_and_reduce(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Embeds by a product with one-hot rows, folds the blocks over the stream, and compares positions for the mask."""
    W_E, W_pos = params["W_E"], params["W_pos"]
    n, vocab = tokens.shape[1], W_E.shape[0]
    which = F.one_hot(tokens, vocab).to(W_E.dtype)
    where = torch.eye(n, W_pos.shape[0], dtype=W_pos.dtype)
    place = torch.arange(n)
    no_future = place.view(n, 1).ge(place.view(1, n))

    def through(stream, block):
        return _pre_norm_block(stream, block, n_heads, no_future)

    end = functools.reduce(through, params["blocks"], which @ W_E + where @ W_pos)
    return _layer_norm(end, params["gamma_f"], params["beta_f"]) @ params["W_U"]


# ------- 7.8 bits_per_token


def bits_per_token__wrong_thirteenth_mean_of_sequence_means(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Takes each sequence's mean and then the mean of those; every token should count as much as any other."""
    means = []
    for scores, ids, counts in zip(logits, targets, mask, strict=True):
        if counts.any():
            logp = torch.log_softmax(scores[counts], dim=-1)
            costs = -logp[torch.arange(len(logp)), ids[counts]] / math.log(2)
            means.append(costs.mean())
    return torch.stack(means).mean() if means else logits[mask].sum()


def bits_per_token__wrong_thirteenth_entropy_of_prediction(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Measures how unsure the model was, the entropy of its probabilities; due is what the tokens that came cost."""
    counted = logits[mask]
    logp = torch.log_softmax(counted, dim=-1)
    p = logp.exp()
    finite = logp.masked_fill(torch.isinf(logp), 0)
    entropy = -(p * finite).sum(-1) / math.log(2)
    return entropy.sum() / max(len(counted), 1)


def bits_per_token__wrong_thirteenth_log_of_mean_probability(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Averages the probabilities and takes one logarithm of the mean; due is the mean of the logarithms."""
    picked, wanted = logits[mask], targets[mask]
    if len(picked) == 0:
        return picked.sum()
    log_p = picked.log_softmax(-1).gather(-1, wanted[:, None]).squeeze(-1)
    log_mean = torch.logsumexp(log_p, 0) - math.log(len(log_p))
    return -log_mean / math.log(2)


def bits_per_token__wrong_thirteenth_times_ln_two(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Turns nats into bits the wrong way round, times ln 2; due is to divide by it."""
    rows = logits[mask]
    right = rows.gather(1, targets[mask].unsqueeze(1)).squeeze(1)
    nats = torch.logsumexp(rows, dim=1) - right
    bits = nats * math.log(2)
    return bits.sum() / bits.numel() if bits.numel() else bits.sum()


def bits_per_token__wrong_thirteenth_divides_by_all_places(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Sums the costs of those that count and divides by all places of the batch, filler too; due is the mask's sum."""
    clean_logits = torch.where(mask.unsqueeze(-1), logits, 0)
    clean_targets = torch.where(mask, targets, 0)
    surprise = -torch.log_softmax(clean_logits, -1) / math.log(2)
    surprise = torch.take_along_dim(surprise, clean_targets.unsqueeze(-1), -1).squeeze(-1)
    surprise = torch.where(mask, surprise, 0)
    return surprise.mean()


def bits_per_token__wrong_thirteenth_counts_by_minus_hundred(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Takes for filler what has the target -100, as PyTorch does; the mask says it, and targets may be anything."""
    vocab = logits.shape[-1]
    counts = targets != -100
    scores = logits[counts]
    ids = targets[counts].clamp(0, vocab - 1)
    log2_p = torch.log_softmax(scores, dim=-1) / math.log(2)
    cost = -log2_p.gather(-1, ids.unsqueeze(-1)).sum()
    return cost / counts.sum().clamp(min=1)


def bits_per_token__wrong_thirteenth_filler_hidden_too_late(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Throws filler out after the log-softmax: with NaN or only -inf there its gradient is NaN; it should be 0."""
    ids = targets.masked_fill(~mask, 0)
    log_p = torch.log_softmax(logits, dim=-1)
    chosen = log_p.gather(-1, ids[..., None])[..., 0]
    costs = torch.where(mask, -chosen / math.log(2), torch.zeros_like(chosen))
    return costs.sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_thirteenth_calls_cross_entropy(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Right numbers, but F.cross_entropy does the whole exercise, which is not allowed."""
    n_counted = int(mask.sum())
    nats = F.cross_entropy(logits[mask], targets[mask], reduction="sum")
    return nats / max(n_counted, 1) / math.log(2)


def bits_per_token__right_thirteenth_by_leads_over_target(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Picks what counts first; a token costs the log of the sum of e to each logit's lead over its own."""
    rows, columns = torch.nonzero(mask, as_tuple=True)
    scores = logits[rows, columns]
    own = logits[rows, columns, targets[rows, columns]]
    nats = torch.logsumexp(scores - own.unsqueeze(-1), dim=-1)
    return (nats / math.log(2)).sum() / max(len(rows), 1)


# ------- 7.9 adamw_step


def adamw_step__wrong_thirteenth_decay_in_the_gradient(
    w: torch.Tensor,
    grad: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    step: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Adds weight_decay * w to the gradient, which is Adam with an L2 penalty; the decay should stand outside."""
    g = grad + weight_decay * w
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    m_hat = m / (1 - beta1**step)
    v_hat = v / (1 - beta2**step)
    return w - lr * m_hat / (v_hat.sqrt() + eps), m, v


def adamw_step__wrong_thirteenth_hands_on_the_means(
    w: torch.Tensor,
    grad: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    step: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes the corrected means for the new m and v and returns those; the uncorrected ones are to be handed on."""
    m = (beta1 * m + (1 - beta1) * grad) / (1 - beta1**step)
    v = (beta2 * v + (1 - beta2) * grad * grad) / (1 - beta2**step)
    update = m / (torch.sqrt(v) + eps)
    new_w = w - lr * update - lr * weight_decay * w
    return new_w, m, v


def adamw_step__wrong_thirteenth_standard_deviation_for_rms(
    w: torch.Tensor,
    grad: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    step: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes the root mean square for the standard deviation and subtracts the squared mean; due is the mean square."""
    m_new = m * beta1 + grad * (1 - beta1)
    v_new = v * beta2 + grad.square() * (1 - beta2)
    mean = m_new / (1 - beta1**step)
    mean_square = v_new / (1 - beta2**step)
    variance = torch.clamp(mean_square - mean.square(), min=0)
    move = mean / (variance.sqrt() + eps)
    w_new = w - lr * (move + weight_decay * w)
    return w_new, m_new, v_new


def adamw_step__wrong_thirteenth_beta1_corrects_both(
    w: torch.Tensor,
    grad: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    step: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Corrects v with beta1 by a slip; v needs 1 - beta2 ** step."""
    m = torch.lerp(m, grad, 1 - beta1)
    v = torch.lerp(v, grad**2, 1 - beta2)
    correct_m = 1 / (1 - beta1**step)
    correct_v = 1 / (1 - beta1**step)
    decayed = w * (1 - lr * weight_decay)
    return decayed - lr * (m * correct_m) / (torch.sqrt(v * correct_v) + eps), m, v


def adamw_step__wrong_thirteenth_step_counted_from_zero(
    w: torch.Tensor,
    grad: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    step: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Adds 1 to the step as if it counted from 0, so the corrections are those of the next step; it counts from 1."""
    t = step + 1
    first = beta1 * m + (1 - beta1) * grad
    second = beta2 * v + (1 - beta2) * grad * grad
    first_mean = first / (1 - math.pow(beta1, t))
    second_mean = second / (1 - math.pow(beta2, t))
    shrink = lr * weight_decay * w
    move = lr * first_mean / (second_mean**0.5 + eps)
    return w - shrink - move, first, second


def adamw_step__wrong_thirteenth_decays_the_moved_weight(
    w: torch.Tensor,
    grad: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    step: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Reads the order of the sentences as an order of steps and decays after the move; both start from the old w."""
    m = m + (1 - beta1) * (grad - m)
    v = v + (1 - beta2) * (grad.pow(2) - v)
    direction = m.div(1 - beta1**step)
    unit = v.div(1 - beta2**step).sqrt().add(eps)
    w = w - lr * direction / unit
    w = w - lr * weight_decay * w
    return w, m, v


def adamw_step__wrong_thirteenth_eps_beside_uncorrected_root(
    w: torch.Tensor,
    grad: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    step: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draws both corrections into the learning rate, so eps is beside the root of v; harmless only for a tiny eps."""
    new_m = beta1 * m + (1 - beta1) * grad
    new_v = beta2 * v + (1 - beta2) * grad**2
    alpha = lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)
    new_w = (1 - lr * weight_decay) * w - alpha * new_m / (new_v.sqrt() + eps)
    return new_w, new_m, new_v


def adamw_step__wrong_thirteenth_averages_changed_in_place(
    w: torch.Tensor,
    grad: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    step: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Right numbers, but m and v are updated in place to save memory; new tensors are to be returned."""
    m.mul_(beta1).add_(grad, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    rms = (v / (1 - beta2**step)).sqrt()
    out = w.clone()
    out.mul_(1 - lr * weight_decay)
    out.addcdiv_(m / (1 - beta1**step), rms + eps, value=-lr)
    return out, m, v


def adamw_step__right_thirteenth_by_sum_of_weights(
    w: torch.Tensor,
    grad: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    step: int,
    lr: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Adds up how much every gradient so far counts, one by one, and divides each average by that sum."""
    averages, means = [], []
    for old, new, beta in ((m, grad, beta1), (v, grad * grad, beta2)):
        average = beta * old + (1 - beta) * new
        counted, share = 0.0, 1 - beta
        for _ in range(step):
            counted += share
            share *= beta
        averages.append(average)
        means.append(average / counted)
    step_of_gradient = means[0] / (means[1].sqrt() + eps)
    change = (step_of_gradient + weight_decay * w) * lr
    return w - change, *averages


# ------- 7.10 sample


def sample__wrong_thirteenth_temperature_on_probabilities(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Divides probabilities by the temperature, which cancels when they are normed; due is to divide the logits."""
    text = list(prompt)
    while len(text) < max_len:
        logits = next_logits(text)
        if temperature == 0:
            new = int(logits.argmax())
        else:
            p = torch.softmax(logits.double(), dim=-1) / temperature
            p = p / p.sum()
            if top_p < 1:
                values, order = p.sort(descending=True)
                before = values.cumsum(0) - values
                drop = before >= top_p
                drop[0] = False
                p[order[drop]] = 0
            new = int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))
        text.append(new)
        if new == end:
            break
    return text


def sample__wrong_thirteenth_cuts_ids_below_a_threshold(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Lets every id come whose own probability is 1 - top_p or more; due is the smallest set with top_p together."""
    out = prompt.copy()
    for _ in range(max_len - len(prompt)):
        logits = next_logits(out)
        best = int(torch.argmax(logits))
        if temperature == 0:
            out.append(best)
        else:
            lead = (logits - logits.max()).double() / temperature
            p = torch.exp(lead) / torch.exp(lead).sum()
            allowed = p >= 1 - top_p
            allowed[best] = True
            p = (p * allowed).to(logits.dtype)
            out.append(torch.multinomial(p, 1, generator=generator).item())
        if out[-1] == end:
            return out
    return out


def sample__wrong_thirteenth_top_p_before_temperature(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Chooses the set with the model's own probabilities and then applies the temperature; the temperature is first."""

    def nucleus(logits):
        p = logits.double().softmax(0).tolist()
        ranked = sorted(range(len(p)), key=lambda i: -p[i])
        if top_p == 1:
            return ranked
        inside, total = [], 0.0
        for i in ranked:
            inside.append(i)
            total += p[i]
            if total >= top_p:
                break
        return inside

    tokens = [*prompt]
    ended = False
    while not ended and len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            choice = logits.argmax().item()
        else:
            keep = nucleus(logits)
            scaled = torch.zeros(len(logits), dtype=torch.float64)
            scaled[keep] = torch.softmax((logits[keep] - logits.max()).double() / temperature, 0)
            choice = torch.multinomial(scaled.to(logits.dtype), 1, generator=generator).item()
        tokens.append(choice)
        ended = choice == end
    return tokens


def sample__wrong_thirteenth_last_id_of_set_missing(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Keeps ids while the sum with them is below top_p, so the one that reaches it is missing; it belongs in."""
    ids = list(prompt)
    while len(ids) < max_len:
        scores = next_logits(ids)
        if temperature == 0:
            ids.append(int(scores.argmax()))
        else:
            z = (scores.double() - scores.double().max()) / temperature
            p = torch.softmax(z, dim=0)
            order = torch.argsort(p, descending=True)
            running = torch.cumsum(p[order], dim=0)
            keep = torch.zeros_like(p, dtype=torch.bool)
            keep[order[running < top_p]] = True
            keep[order[0]] = True
            if top_p >= 1:
                keep[:] = True
            p = torch.where(keep, p, 0).to(scores.dtype)
            ids.append(int(torch.multinomial(p, 1, generator=generator)))
        if ids[-1] == end:
            break
    return ids


def sample__wrong_thirteenth_end_in_prompt_stops(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Asks in the loop's head whether the last token is the end, so a prompt that closes with it is not continued."""
    tokens = list(prompt)
    while tokens[-1] != end and len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            tokens.append(logits.argmax().item())
            continue
        p = torch.softmax((logits - logits.max()).double() / temperature, -1)
        if top_p < 1:
            larger = logits[None, :] > logits[:, None]  # row i: which ids are likelier than i
            likelier_mass = (larger * p).sum(-1)
            keep = (likelier_mass < top_p) | ~larger.any(-1)
            p = p * keep
        tokens.append(torch.multinomial(p.to(logits.dtype), 1, generator=generator).item())
    return tokens


def sample__wrong_thirteenth_max_len_without_prompt(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Reads max_len as the number of tokens to be generated; the prompt is counted by it."""
    written = []
    while len(written) < max_len:
        logits = next_logits(prompt + written)
        if temperature == 0:
            nxt = int(torch.argmax(logits))
        else:
            p = torch.exp((logits - logits.max()).double() / temperature)
            p /= p.sum()
            if top_p < 1:
                mass = 0.0
                allowed = set()
                for i in torch.argsort(logits, descending=True).tolist():
                    allowed.add(i)
                    mass += float(p[i])
                    if mass >= top_p:
                        break
                for i in range(len(p)):
                    if i not in allowed:
                        p[i] = 0
            nxt = int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))
        written.append(nxt)
        if nxt == end:
            break
    return prompt + written


def sample__wrong_thirteenth_small_temperature_taken_for_zero(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Takes any temperature below 0.001 for 0, without a draw; above 0, however little, odds and draw are due."""
    greedy = temperature < 1e-3
    result = list(prompt)
    room = max_len - len(result)
    for _ in range(room):
        logits = next_logits(result)
        if greedy:
            token = logits.argmax()
        else:
            p = (logits.double() / temperature).softmax(dim=-1)
            if top_p < 1:
                ordered, index = torch.sort(p, descending=True)
                size = int((ordered.cumsum(0) < top_p).sum()) + 1
                cut = torch.zeros_like(p)
                cut[index[:size]] = ordered[:size]
                p = cut
            token = torch.multinomial(p.to(logits.dtype), 1, generator=generator)
        result.append(int(token))
        if result[-1] == end:
            break
    return result


def sample__wrong_thirteenth_draws_at_temperature_zero(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Right tokens, but at temperature 0 it draws from a one-hot p, which moves the generator on; no draw is due."""

    def distribution(logits):
        if temperature == 0:
            return F.one_hot(logits.argmax(), len(logits)).to(logits.dtype)
        p = torch.softmax((logits - logits.max()).double() / temperature, 0)
        order = logits.argsort(descending=True)
        sums = p[order].cumsum(0)
        count = 1 + int((sums[:-1] < top_p).sum()) if top_p < 1 else len(p)
        return p.index_fill(0, order[count:], 0).to(logits.dtype)

    sequence = prompt[:]
    while len(sequence) < max_len:
        p = distribution(next_logits(sequence))
        drawn = torch.multinomial(p, 1, generator=generator).item()
        sequence += [drawn]
        if drawn == end:
            return sequence
    return sequence


def sample__right_thirteenth_by_mass_of_likelier_ids(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Without sorting: an id may come if the likelier ones together do not reach top_p."""
    if len(prompt) >= max_len:
        return list(prompt)
    written = []
    for _ in range(max_len - len(prompt)):
        logits = next_logits([*prompt, *written])
        best = int(logits.argmax())
        if temperature == 0:
            written.append(best)
        else:
            lead = logits.double() - logits.double()[best]
            p = torch.exp(lead / temperature)
            share = p / p.sum()
            if top_p < 1:
                for i, logit in enumerate(logits):
                    if i != best and float(share[logits > logit].sum()) >= top_p:
                        p[i] = 0
            written.append(int(torch.multinomial(p.to(logits.dtype), 1, generator=generator)))
        if written[-1] == end:
            break
    return [*prompt, *written]
