"""Answers to the exercises of unit 7, wrong ones and right ones, as students would write them."""

import functools
import math
from collections.abc import Callable

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
    scores = Q @ K.transpose(-1, -2) / math.sqrt(Q.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        mask = mask.expand(batch, n_heads, n, n)
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1) * mask
    return (weights @ V).transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def _attention_of(x, p, n_heads, mask=None):
    return _multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)


def _ffn_of(x, p):
    return _feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def _pre_norm_block(x, params, n_heads, mask=None):
    y = x + _attention_of(_layer_norm(x, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    return y + _ffn_of(_layer_norm(y, params["gamma_2"], params["beta_2"]), params)


# ------- 7.1 layer_norm


def layer_norm__wrong_twelfth_root_mean_square(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Divides by the root mean square and never subtracts the mean."""
    size = x.square().mean(dim=-1, keepdim=True).add(eps).rsqrt()
    return x * size * gamma + beta


def layer_norm__wrong_twelfth_whole_example(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Takes one mean and one variance for each entry of the first axis, so all tokens of a sentence share them."""
    axes = tuple(range(1, x.ndim)) or (0,)
    spread, centre = torch.var_mean(x, dim=axes, correction=0, keepdim=True)
    z = (x - centre) * torch.rsqrt(spread + eps)
    return torch.addcmul(beta, gamma, z)


def layer_norm__wrong_twelfth_unit_length(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Brings the centred token to length 1 in place of variance 1: the squares are summed."""
    d = x.shape[-1]
    centred = x - x.sum(-1, keepdim=True) / d
    length = torch.sqrt(torch.einsum("...c,...c->...", centred, centred) + eps)
    return gamma * (centred / length[..., None]) + beta


def layer_norm__wrong_twelfth_sample_variance(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Divides the squares by d - 1, as torch.var does by default."""
    tokens = x.reshape(-1, x.shape[-1])
    rows = [(token - token.mean()) / torch.sqrt(token.var() + eps) * gamma + beta for token in tokens]
    return torch.stack(rows).reshape(x.shape)


def layer_norm__wrong_twelfth_argument_not_passed_on(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Never hands eps to its helper, which always uses 1e-5."""

    def standardise(t, eps=1e-5):
        deviation = t - t.mean(-1, keepdim=True)
        mean_square = (deviation * deviation).mean(-1, keepdim=True)
        return deviation / (mean_square + eps) ** 0.5

    result = standardise(x)
    result = result * gamma
    result = result + beta
    return result


def layer_norm__wrong_twelfth_outside_the_root(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Adds eps to the standard deviation, not to the variance under the root."""
    mu = torch.mean(x, -1).unsqueeze(-1)
    sigma = torch.std(x, -1, correction=0).unsqueeze(-1)
    return beta + gamma * ((x - mu) / (sigma + eps))


def layer_norm__wrong_twelfth_difference_of_squares(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Takes the variance as mean of squares minus square of the mean, which float32 cannot do near 10,000."""
    first_moment = x.mean(-1, keepdim=True)
    second_moment = (x**2).mean(-1, keepdim=True)
    variance = (second_moment - first_moment**2).clamp(min=0)
    scale = gamma / torch.sqrt(variance + eps)
    return (x - first_moment) * scale + beta


def layer_norm__wrong_twelfth_statistics_as_constants(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Cuts the gradient that flows through mean and variance."""
    with torch.no_grad():
        mean = x.mean(dim=-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def layer_norm__right_twelfth_pairs_of_features(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Takes deviations and variance from the differences of all pairs of features, with no mean at all."""
    pairs = x.unsqueeze(-1) - x.unsqueeze(-2)  # (..., d, d)
    deviation = pairs.mean(dim=-1)
    variance = pairs.pow(2).mean(dim=(-2, -1)) / 2
    return torch.addcmul(beta, gamma, deviation * torch.rsqrt(variance + eps).unsqueeze(-1))


# ------- 7.2 batch_norm


def batch_norm__wrong_twelfth_spread_within_sentences(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Takes the variance within each sentence and averages it, which leaves out how the sentences differ."""
    mu_of_sentence = x.mean(1)  # (B, d)
    var_of_sentence = x.var(1, correction=0)  # (B, d)
    mu, var = mu_of_sentence.mean(0), var_of_sentence.mean(0)
    return gamma * (x - mu) / (var + eps).sqrt() + beta


def batch_norm__wrong_twelfth_place_by_place(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Compares only tokens at the same position: averages over the batch axis alone."""
    columns = []
    for i in range(x.shape[1]):
        tokens = x[:, i]
        centred = tokens - tokens.mean(0)
        columns.append(gamma * centred / torch.sqrt(centred.square().mean(0) + eps) + beta)
    return torch.stack(columns, dim=1)


def batch_norm__wrong_twelfth_zeros_are_pads(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Takes tokens of zeros for padding and leaves them out of the statistics."""
    real = (x != 0).any(dim=-1)
    if not real.any():
        real = torch.ones_like(real)
    words = x[real]
    mean = words.mean(dim=0)
    variance = ((words - mean) ** 2).mean(dim=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_twelfth_reshaped_to_features(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Reshapes to (d, B*n) where it should move axes, so the features are mixed up."""
    B, n, d = x.shape
    features = x.reshape(d, B * n)
    mean = features.mean(1, keepdim=True)
    variance = ((features - mean) ** 2).mean(1, keepdim=True)
    z = ((features - mean) / torch.sqrt(variance + eps)).reshape(B, n, d)
    return gamma * z + beta


def batch_norm__wrong_twelfth_divided_by_length(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Divides the squares by n in place of B*n."""
    n_tokens = x.shape[1]
    result = []
    for c in range(x.shape[2]):
        feature = x[:, :, c]
        deviation = feature - feature.mean()
        variance = (deviation**2).sum() / n_tokens
        result.append(gamma[c] * deviation / torch.sqrt(variance + eps) + beta[c])
    return torch.stack(result, dim=-1)


def batch_norm__wrong_twelfth_flat_result(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Returns one long list of tokens, (B*n, d), not (B, n, d)."""
    tokens = x.flatten(0, 1)
    variance, mean = torch.var_mean(tokens, dim=0, correction=0)
    return (tokens - mean) * (gamma / torch.sqrt(variance + eps)) + beta


def batch_norm__wrong_twelfth_one_token_untouched(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Leaves the token of a batch of one as it is, where beta should come out."""
    B, n, d = x.shape
    if B * n < 2:
        z = x  # nothing to compare with
    else:
        centred = x - x.mean((0, 1), keepdim=True)
        z = centred / (centred.pow(2).mean((0, 1), keepdim=True) + eps).sqrt()
        z = z * gamma + beta
    return z.clone()


_averages = {}


def batch_norm__wrong_twelfth_running_averages(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Stores the statistics and mixes those of earlier calls in."""
    mean = x.mean((0, 1))
    variance = x.var((0, 1), correction=0)
    key = x.shape[-1], x.dtype
    if key in _averages:
        old_mean, old_variance = _averages[key]
        mean = 0.9 * old_mean + 0.1 * mean
        variance = 0.9 * old_variance + 0.1 * variance
    _averages[key] = mean.detach(), variance.detach()
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__right_twelfth_merged_sentences(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Meets one sentence after the other and merges count, mean and sum of squares, as one does with a stream."""
    count, mean, squares = 0, torch.zeros_like(x[0, 0]), torch.zeros_like(x[0, 0])
    for sentence in x:
        size = len(sentence)
        its_mean = sentence.mean(0)
        its_squares = (sentence - its_mean).square().sum(0)
        gap = its_mean - mean
        total = count + size
        squares = squares + its_squares + gap.square() * (count * size / total)
        mean = mean + gap * (size / total)
        count = total
    return torch.addcmul(beta, gamma, (x - mean) * torch.rsqrt(squares / count + eps))


# ------- 7.3 gelu


def gelu__wrong_twelfth_logistic_gate(x: torch.Tensor) -> torch.Tensor:
    """Multiplies by a sigmoid of x, which is SiLU, not by the normal probability."""
    gate = 1 / (1 + torch.exp(-x))
    return x * gate


def gelu__wrong_twelfth_tossed_switch(x: torch.Tensor) -> torch.Tensor:
    """Keeps or drops each entry at random with that probability, in place of multiplying by it."""
    chance = 0.5 * (1 + torch.erf(x / 2**0.5))
    coin = torch.rand_like(x)
    return torch.where(coin < chance, x, torch.zeros_like(x))


def gelu__wrong_twelfth_bell_curve(x: torch.Tensor) -> torch.Tensor:
    """Multiplies by the density of the normal distribution at x, not by the probability below x."""
    standard_normal = torch.distributions.Normal(torch.zeros_like(x), torch.ones_like(x))
    return x * standard_normal.log_prob(x).exp()


def gelu__wrong_twelfth_root_outside(x: torch.Tensor) -> torch.Tensor:
    """Divides erf(x) by the root of 2, where x should be divided inside of erf."""
    return x / 2 * (1 + torch.erf(x) / math.sqrt(2))


def gelu__wrong_twelfth_wide_normal(x: torch.Tensor) -> torch.Tensor:
    """Asks a normal variable of standard deviation root 2, not a standard one."""
    width = math.sqrt(2)

    def below(t):
        return torch.special.ndtr(t / width)

    return x * below(x)


def gelu__wrong_twelfth_hyperbolic_tangent(x: torch.Tensor) -> torch.Tensor:
    """Is the approximation with tanh, not the exact form."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))
    return 0.5 * x * (1.0 + torch.tanh(inner))


def gelu__wrong_twelfth_far_values_cut(x: torch.Tensor) -> torch.Tensor:
    """Clamps x itself, so everything beyond 12 becomes 12."""
    t = x.clamp(-12, 12)  # erf is flat out there
    phi = (1 + torch.erf(t * math.sqrt(0.5))) / 2
    return t * phi


def gelu__wrong_twelfth_number_by_number(x: torch.Tensor) -> torch.Tensor:
    """Computes with Python numbers, so no gradient reaches x."""
    values = [value / 2 * (1 + math.erf(value / math.sqrt(2))) for value in x.flatten().tolist()]
    return torch.tensor(values, dtype=x.dtype).reshape(x.shape)


def gelu__right_twelfth_complement(x: torch.Tensor) -> torch.Tensor:
    """Uses the complementary error function of -x, so no 1 is added."""
    return torch.erfc(x * -math.sqrt(0.5)).mul(x).div(2)


# ------- 7.4 feed_forward


def feed_forward__wrong_twelfth_bends_twice(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Applies the activation after the second map as well."""
    for W, b in ((W_1, b_1), (W_2, b_2)):
        x = activation(x @ W + b)
    return x


def feed_forward__wrong_twelfth_adds_the_token(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Adds its result to the token: a residual that does not belong here."""
    note = torch.matmul(activation(torch.matmul(x, W_1) + b_1), W_2) + b_2
    return x + note


def feed_forward__wrong_twelfth_activation_as_gate(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Multiplies the scores by their activation, as if that were a switch between 0 and 1."""
    scores = F.linear(x, W_1.T, b_1)
    decision = activation(scores)
    answers = decision * scores
    return F.linear(answers, W_2.T, b_2)


def feed_forward__wrong_twelfth_bias_after_bend(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Adds b_1 after the activation."""
    hidden = torch.einsum("...i,ij->...j", x, W_1)
    hidden = activation(hidden) + b_1
    return torch.einsum("...j,jk->...k", hidden, W_2) + b_2


def feed_forward__wrong_twelfth_bias_onto_matrix(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Adds b_2 to each row of W_2, so it counts as often as the hidden features say."""
    return activation(x @ W_1 + b_1) @ (W_2 + b_2)


def feed_forward__wrong_twelfth_always_rectified(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Uses ReLU whatever activation is handed over."""
    questions = x @ W_1 + b_1
    passed = torch.where(questions > 0, questions, torch.zeros_like(questions))
    return passed @ W_2 + b_2


def feed_forward__wrong_twelfth_lone_token_gets_axis(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Returns (1, d_model) for a single token of one axis."""
    if x.ndim == 1:
        x = x.unsqueeze(0)
    tokens = x.flatten(0, -2)
    up = torch.addmm(b_1, tokens, W_1)
    down = torch.addmm(b_2, activation(up), W_2)
    return down.unflatten(0, x.shape[:-1])


def feed_forward__wrong_twelfth_scores_pile_up(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Adds every token's scores into b_1 itself, which changes the input and the tokens after it."""
    rows = []
    for token in x.reshape(-1, x.shape[-1]):
        score = b_1
        score += token @ W_1
        rows.append(activation(score) @ W_2 + b_2)
    return torch.stack(rows).reshape(x.shape)


def feed_forward__right_twelfth_biases_as_rows(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Makes each bias one more row of its matrix and gives every token a feature that is always 1."""

    def affine(t, W, b):
        ones = t.new_ones((*t.shape[:-1], 1))
        return torch.cat([t, ones], dim=-1) @ torch.cat([W, b[None]], dim=0)

    return affine(activation(affine(x, W_1, b_1)), W_2, b_2)


# ------- 7.5 post_norm_block


def post_norm_block__wrong_twelfth_both_read_the_input(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Lets the FFN read x, so it does not see what attention has brought."""
    heard = _attention_of(x, params, n_heads, mask)
    thought = _ffn_of(x, params)
    y = _layer_norm(x + heard, params["gamma_1"], params["beta_1"])
    return _layer_norm(y + thought, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_twelfth_norm_then_add(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Norms what each sublayer returns and only then adds it."""

    def norm(t, i):
        return _layer_norm(t, params[f"gamma_{i}"], params[f"beta_{i}"])

    y = x + norm(_attention_of(x, params, n_heads, mask), 1)
    z = y + norm(_ffn_of(y, params), 2)
    return z


def post_norm_block__wrong_twelfth_attention_replaces(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Has no bypass around attention: its result replaces the token."""
    p = params
    a = _multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask=mask)
    a = _layer_norm(a, p["gamma_1"], p["beta_1"])
    f = _feed_forward(a, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _layer_norm(a + f, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_twelfth_norms_interchanged(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Gives attention's norm the second gamma and beta and the FFN's norm the first."""
    norms = [(params["gamma_1"], params["beta_1"]), (params["gamma_2"], params["beta_2"])]
    sublayers = [lambda t: _attention_of(t, params, n_heads, mask), lambda t: _ffn_of(t, params)]
    while norms:
        gamma, beta = norms.pop()
        sublayer = sublayers.pop(0)
        x = _layer_norm(x + sublayer(x), gamma, beta)
    return x


def post_norm_block__wrong_twelfth_second_bypass_from_start(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds x at the second residual, where y belongs."""
    attended = _attention_of(x, params, n_heads, mask)
    y = _layer_norm(x + attended, params["gamma_1"], params["beta_1"])
    fed = _ffn_of(y, params)
    return _layer_norm(x + fed, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_twelfth_true_means_hidden(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reads a True of the mask as hidden and turns the mask round."""
    allowed = None if mask is None else torch.logical_not(mask)
    stream = x + _attention_of(x, params, n_heads, allowed)
    stream = _layer_norm(stream, params["gamma_1"], params["beta_1"])
    stream = stream + _ffn_of(stream, params)
    stream = _layer_norm(stream, params["gamma_2"], params["beta_2"])
    return stream


def post_norm_block__wrong_twelfth_width_of_heads_assumed(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides the scores by the root of d_model / n_heads, which is wrong where h*d_head is not d_model."""
    B, n, d_model = x.shape

    def heads(name):
        return torch.stack((x @ params[name]).chunk(n_heads, dim=-1), dim=1)

    scores = heads("W_Q") @ heads("W_K").mT * (d_model / n_heads) ** -0.5
    may = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
    scores = scores.masked_fill(~may, torch.finfo(x.dtype).min)
    mixed = scores.softmax(-1) * may @ heads("W_V")
    joined = torch.cat(mixed.unbind(1), dim=-1)
    y = _layer_norm(x + joined @ params["W_O"] + params["b_O"], params["gamma_1"], params["beta_1"])
    return _layer_norm(y + _ffn_of(y, params), params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_twelfth_leaves_a_note_in_params(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Removes the norms' entries from params and puts them back under other names."""
    p = params
    if "norms" not in p:
        p["norms"] = torch.stack([p.pop("gamma_1"), p.pop("beta_1"), p.pop("gamma_2"), p.pop("beta_2")])
    g1, b1, g2, b2 = p["norms"]
    y = _layer_norm(x + _attention_of(x, p, n_heads, mask), g1, b1)
    return _layer_norm(y + _ffn_of(y, p), g2, b2)


def post_norm_block__right_twelfth_sum_over_heads(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Lets each head write into the stream through its own rows of W_O, with no joining of heads."""
    B, n, _ = x.shape
    may = x.new_ones(n, n, dtype=torch.bool) if mask is None else mask
    may = torch.broadcast_to(may, (B, n_heads, n, n))
    per_head = zip(
        *(params[name].chunk(n_heads, dim=1) for name in ("W_Q", "W_K", "W_V")),
        params["W_O"].chunk(n_heads, dim=0),
        may.unbind(1),
        strict=True,
    )
    stream = x + params["b_O"]
    for W_Q, W_K, W_V, W_O, seen in per_head:
        scores = torch.einsum("bic,bjc->bij", x @ W_Q, x @ W_K) / math.sqrt(W_Q.shape[1])
        scores = torch.where(seen, scores, torch.finfo(x.dtype).min)
        stream = stream + (torch.softmax(scores, -1) * seen) @ x @ (W_V @ W_O)

    def norm(t, i):
        t = t - t.mean(-1, keepdim=True)
        return t * torch.rsqrt(t.square().mean(-1, keepdim=True) + 1e-5) * params["gamma_" + i] + params["beta_" + i]

    y = norm(stream, "1")
    hidden = F.linear(y, params["W_1"].T, params["b_1"])
    return norm(y + F.linear(hidden * torch.special.ndtr(hidden), params["W_2"].T, params["b_2"]), "2")


# ------- 7.6 pre_norm_block


def pre_norm_block__wrong_twelfth_bypass_after_norm(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Lets the bypass carry the normed tokens."""
    h = _layer_norm(x, params["gamma_1"], params["beta_1"])
    h = h + _attention_of(h, params, n_heads, mask)
    h = _layer_norm(h, params["gamma_2"], params["beta_2"])
    return h + _ffn_of(h, params)


def pre_norm_block__wrong_twelfth_side_by_side(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Puts both sublayers side by side: the FFN sees the normed x, without what attention adds."""
    total = x
    total = total + _attention_of(_layer_norm(x, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    total = total + _ffn_of(_layer_norm(x, params["gamma_2"], params["beta_2"]), params)
    return total


def pre_norm_block__wrong_twelfth_norm_for_queries_only(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Norms the tokens that ask, and takes keys and values from the tokens as they are."""
    B, n, _ = x.shape
    asking = _layer_norm(x, params["gamma_1"], params["beta_1"])
    Q = (asking @ params["W_Q"]).view(B, n, n_heads, -1).transpose(1, 2)
    K = (x @ params["W_K"]).view(B, n, n_heads, -1).transpose(1, 2)
    V = (x @ params["W_V"]).view(B, n, n_heads, -1).transpose(1, 2)
    scores = Q @ K.transpose(2, 3) / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask
    heads = (weights @ V).transpose(1, 2).reshape(B, n, -1)
    y = x + heads @ params["W_O"] + params["b_O"]
    return y + _ffn_of(_layer_norm(y, params["gamma_2"], params["beta_2"]), params)


def pre_norm_block__wrong_twelfth_shift_of_the_other_norm(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Uses beta_1 in the second norm."""
    before_attention = functools.partial(_layer_norm, gamma=params["gamma_1"], beta=params["beta_1"])
    before_ffn = functools.partial(_layer_norm, gamma=params["gamma_2"], beta=params["beta_1"])
    y = x + _attention_of(before_attention(x), params, n_heads, mask)
    return y + _ffn_of(before_ffn(y), params)


def pre_norm_block__wrong_twelfth_weights_by_order(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the weights by their order in the dictionary, not by name."""
    W_Q, W_K, W_V, W_O, b_O, W_1, b_1, W_2, b_2, gamma_1, beta_1, gamma_2, beta_2 = params.values()
    normed = _layer_norm(x, gamma_1, beta_1)
    y = x + _multi_head_attention(normed, W_Q, W_K, W_V, W_O, b_O, n_heads, mask)
    return y + _feed_forward(_layer_norm(y, gamma_2, beta_2), W_1, b_1, W_2, b_2, _gelu)


def pre_norm_block__wrong_twelfth_bend_of_the_original(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Uses the tanh approximation in the FFN, as GPT-2 does, where the exact GELU is asked for."""
    p = params

    def gpt2_gelu(t):
        return 0.5 * t * (1 + torch.tanh(math.sqrt(2 / math.pi) * (t + 0.044715 * t**3)))

    a = _attention_of(_layer_norm(x, p["gamma_1"], p["beta_1"]), p, n_heads, mask)
    m = _layer_norm(x + a, p["gamma_2"], p["beta_2"])
    return x + a + _feed_forward(m, p["W_1"], p["b_1"], p["W_2"], p["b_2"], gpt2_gelu)


def pre_norm_block__wrong_twelfth_nobody_to_attend_to(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Gives NaN for a query whose row of the mask is all False."""
    n1 = _layer_norm(x, params["gamma_1"], params["beta_1"])
    q, k, v = [torch.stack((n1 @ params[w]).tensor_split(n_heads, -1), 1) for w in ("W_Q", "W_K", "W_V")]
    logits = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
    if mask is not None:
        logits = torch.where(mask, logits, float("-inf"))
    out = torch.einsum("bhij,bhjd->bihd", logits.softmax(-1), v).flatten(2)
    y = x + (out @ params["W_O"] + params["b_O"])
    n2 = _layer_norm(y, params["gamma_2"], params["beta_2"])
    return y + _ffn_of(n2, params)


def pre_norm_block__wrong_twelfth_stream_in_place(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds into x itself, so the caller's tokens change."""
    stream = x
    stream += _attention_of(_layer_norm(stream, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    stream += _ffn_of(_layer_norm(stream, params["gamma_2"], params["beta_2"]), params)
    return stream


def pre_norm_block__right_twelfth_folded_norms(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Folds each gamma and beta into the matrices after the norm, and runs both sublayers in one loop."""
    p = params

    def folded(i, W, bias=0):
        return p[f"gamma_{i}"][:, None] * W, p[f"beta_{i}"] @ W + bias

    def attention(z):
        q, k, v = (
            (z @ W + b).unflatten(-1, (n_heads, -1)) for W, b in (folded(1, p[w]) for w in ("W_Q", "W_K", "W_V"))
        )
        scores = torch.einsum("bihc,bjhc->bhij", q, k) * q.shape[-1] ** -0.5
        seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
        weights = scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(~seen, 0)
        return torch.einsum("bhij,bjhc->bihc", weights, v).flatten(2) @ p["W_O"] + p["b_O"]

    def network(z):
        W, b = folded(2, p["W_1"], p["b_1"])
        hidden = z @ W + b
        return torch.erfc(-hidden / math.sqrt(2)) * hidden / 2 @ p["W_2"] + p["b_2"]

    for sublayer in (attention, network):
        spread, middle = torch.var_mean(x, -1, correction=0, keepdim=True)
        x = x + sublayer((x - middle) / (spread + 1e-5).sqrt())
    return x


# ------- 7.7 transformer_logits


def transformer_logits__wrong_twelfth_past_without_self(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Lets a token see only its past, not itself."""
    n = tokens.shape[1]
    query, key = torch.arange(n)[:, None], torch.arange(n)[None, :]
    past = key < query
    x = params["W_E"][tokens] + params["W_pos"][:n]
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, past)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_twelfth_hidden_once(tokens: torch.Tensor, params: dict, n_heads: int) -> torch.Tensor:
    """Masks the future in the first block only."""
    n = tokens.size(1)
    mask = torch.tril(torch.ones(n, n)).bool()
    h = F.embedding(tokens, params["W_E"]) + params["W_pos"][None, :n]
    for block in params["blocks"]:
        h, mask = _pre_norm_block(h, block, n_heads, mask), None
    h = _layer_norm(h, params["gamma_f"], params["beta_f"])
    return torch.einsum("bnd,dv->bnv", h, params["W_U"])


def transformer_logits__wrong_twelfth_back_through_the_embedding(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Compares with the embeddings: unembeds with the transpose of W_E, not with W_U."""
    W_E, W_pos = params["W_E"], params["W_pos"]
    B, n = tokens.shape
    causal = torch.ones((n, n), dtype=torch.bool).tril()
    stream = torch.stack([W_E[row] for row in tokens]) + W_pos[torch.arange(n)]
    for p in params["blocks"]:
        stream = _pre_norm_block(stream, p, n_heads, causal)
    final = _layer_norm(stream, params["gamma_f"], params["beta_f"])
    return final @ W_E.T


def transformer_logits__wrong_twelfth_positions_from_the_end(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Takes the last n rows of W_pos, not the first n."""
    n = tokens.shape[-1]
    x = params["W_E"][tokens] + params["W_pos"][-n:]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    x = functools.reduce(lambda t, block: _pre_norm_block(t, block, n_heads, mask), params["blocks"], x)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_twelfth_each_block_from_the_start(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Feeds every block the embeddings, so only the last block counts."""
    n_tokens = tokens.shape[1]
    token_vectors = params["W_E"][tokens]
    position_vectors = params["W_pos"][:n_tokens]
    embedded = token_vectors + position_vectors
    causal_mask = torch.tril(torch.ones(n_tokens, n_tokens, dtype=torch.bool))

    output = embedded
    for block_params in params["blocks"]:
        output = _pre_norm_block(embedded, block_params, n_heads, causal_mask)

    normed = _layer_norm(output, params["gamma_f"], params["beta_f"])
    logits = normed @ params["W_U"]
    return logits


def transformer_logits__wrong_twelfth_logarithms_of_probabilities(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Returns log-probabilities, not the logits as they are."""
    n = tokens.shape[1]
    future = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)

    def run(x, blocks):
        if not blocks:
            return _layer_norm(x, params["gamma_f"], params["beta_f"])
        return run(_pre_norm_block(x, blocks[0], n_heads, ~future), blocks[1:])

    scores = run(params["W_E"][tokens] + params["W_pos"][:n], params["blocks"]) @ params["W_U"]
    return scores - scores.logsumexp(dim=-1, keepdim=True)


def transformer_logits__wrong_twelfth_norm_with_the_last_block(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Leaves the final norm out where the list of blocks is empty."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    x = params["W_E"].index_select(0, tokens.flatten()).reshape(*tokens.shape, -1)
    x = x + params["W_pos"].narrow(0, 0, n)
    last = len(params["blocks"]) - 1
    for i, block in enumerate(params["blocks"]):
        x = _pre_norm_block(x, block, n_heads, mask)
        if i == last:
            x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_twelfth_blocks_used_up(tokens: torch.Tensor, params: dict, n_heads: int) -> torch.Tensor:
    """Takes the blocks out of the caller's list, so params has none afterwards."""
    n = tokens.shape[1]
    mask = torch.arange(n).unsqueeze(1) >= torch.arange(n)
    x = params["W_E"][tokens] + params["W_pos"][:n]
    todo = params["blocks"]
    while todo:
        x = _pre_norm_block(x, todo.pop(0), n_heads, mask)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__right_twelfth_token_after_token(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Runs through the text one token at a time and keeps keys and values of the past, so it needs no mask."""

    def split(t):  # (B, h*d_head) -> (B, h, d_head)
        return t.unflatten(-1, (n_heads, -1))

    past = [([], []) for _ in params["blocks"]]
    scores = []
    for place, ids in enumerate(tokens.unbind(1)):
        x = params["W_E"][ids] + params["W_pos"][place]
        for p, (keys, values) in zip(params["blocks"], past, strict=True):
            t = _layer_norm(x, p["gamma_1"], p["beta_1"])
            query = split(t @ p["W_Q"])
            keys.append(split(t @ p["W_K"]))
            values.append(split(t @ p["W_V"]))
            K, V = torch.stack(keys, 2), torch.stack(values, 2)  # (B, h, so far, d_head)
            weights = torch.softmax((query.unsqueeze(2) * K).sum(-1) / math.sqrt(K.shape[-1]), dim=-1)
            heads = (weights.unsqueeze(-1) * V).sum(2)
            x = x + heads.flatten(1) @ p["W_O"] + p["b_O"]
            x = x + _ffn_of(_layer_norm(x, p["gamma_2"], p["beta_2"]), p)
        scores.append(_layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"])
    return torch.stack(scores, dim=1)


# ------- 7.8 bits_per_token


def bits_per_token__wrong_twelfth_how_unsure_it_was(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Measures the entropy of the model's distribution and never asks which token came."""
    rows = logits[mask]
    p = torch.softmax(rows, dim=-1)
    entropy = torch.special.entr(p).sum(dim=-1) / math.log(2)
    return entropy.sum() / max(1, len(rows))


def bits_per_token__wrong_twelfth_text_by_text(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Takes the mean of each text first, so a token of a short text weighs more."""
    costs = []
    for scores, ids, counts in zip(logits, targets, mask, strict=True):
        if counts.any():
            log_p = torch.log_softmax(scores[counts], dim=-1)
            chosen = log_p.gather(1, ids[counts].unsqueeze(1))
            costs.append(-chosen.mean() / math.log(2))
    if not costs:
        return logits[mask].sum()
    return torch.stack(costs).mean()


def bits_per_token__wrong_twelfth_mean_before_logarithm(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Takes the logarithm of the mean probability, not the mean of the logarithms."""
    if not mask.any():
        return logits[mask].sum()
    scores, came = logits[mask], targets[mask]
    log_p = scores[torch.arange(len(came)), came] - torch.logsumexp(scores, -1)
    log_mean = torch.logsumexp(log_p, 0) - math.log(len(came))
    return -log_mean / math.log(2)


def bits_per_token__wrong_twelfth_wrong_way_to_bits(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Multiplies by ln 2 where it should divide."""
    batch, place = mask.nonzero(as_tuple=True)
    rows = logits[batch, place]
    ids = targets[batch, place]
    nats = torch.logsumexp(rows, dim=1) - rows.gather(1, ids[:, None])[:, 0]
    bits = nats * math.log(2)
    return bits.sum() / max(len(bits), 1)


def bits_per_token__wrong_twelfth_safe_logarithm(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Keeps probabilities above 1e-12, so no token costs more than 40 bits."""
    probabilities = logits[mask].softmax(-1)
    given = torch.take_along_dim(probabilities, targets[mask].unsqueeze(-1), dim=-1)
    bits = -torch.log2(given.clamp_min(1e-12))
    return bits.sum() / mask.sum().clamp_min(1)


def bits_per_token__wrong_twelfth_one_place_on(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Shifts once more: compares the logits at place i with the target at i + 1."""
    logits, targets, mask = logits[:, :-1], targets[:, 1:], mask[:, 1:]
    log_p = F.log_softmax(logits[mask], dim=-1)
    surprise = -log_p.gather(-1, targets[mask][:, None]) / math.log(2)
    return surprise.sum() / max(1, surprise.numel())


def bits_per_token__wrong_twelfth_filler_chosen_away_late(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Lets filler through the softmax and chooses afterwards: its gradient is NaN if its logits are not finite."""
    ids = torch.where(mask, targets, 0)
    log2_p = torch.log_softmax(logits, dim=-1) / math.log(2)
    cost = -log2_p.gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    cost = torch.where(mask, cost, torch.zeros_like(cost))
    return cost.sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_twelfth_filler_overwritten(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Writes zeros into the caller's targets."""
    targets[~mask] = 0
    chosen = logits.gather(-1, targets[..., None])[..., 0][mask]
    total = logits[mask].logsumexp(-1)
    return (total - chosen).sum() / math.log(2) / max(1, int(mask.sum()))


def bits_per_token__right_twelfth_leads_over_the_target(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Adds up the leads of all tokens over the one that came, in powers of 2, with no softmax."""
    where = mask.flatten().nonzero().squeeze(1)
    rows = logits.flatten(0, 1).index_select(0, where)
    ids = targets.flatten().index_select(0, where)
    leads = (rows - rows.take_along_dim(ids[:, None], 1)) * math.log2(math.e)
    if len(where) == 0:
        return leads.sum()
    top = leads.amax(1, keepdim=True).detach()
    bits = torch.exp2(leads - top).sum(1).log2() + top[:, 0]
    return bits.mean()


# ------- 7.9 adamw_step


def adamw_step__wrong_twelfth_decay_in_the_gradient(
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
    """Makes the decay a part of the gradient: Adam with an L2 penalty."""
    g = grad + weight_decay * w
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    m_hat = m / (1 - beta1**step)
    v_hat = v / (1 - beta2**step)
    return w - lr * m_hat / (torch.sqrt(v_hat) + eps), m, v


def adamw_step__wrong_twelfth_means_handed_on(
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
    """Returns the corrected means as m and v, so the next step corrects them again."""

    def running_mean(old, new, beta):
        return (old * beta + new * (1 - beta)) / (1 - beta**step)

    m = running_mean(m, grad, beta1)
    v = running_mean(v, grad.square(), beta2)
    move = lr * m / (v.sqrt() + eps)
    decay = lr * weight_decay * w
    return w - move - decay, m, v


def adamw_step__wrong_twelfth_scatter_about_the_mean(
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
    """Divides by the standard deviation of the gradients, not by their root mean square."""
    new_m = torch.lerp(m, grad, 1 - beta1)
    new_v = torch.lerp(v, grad * grad, 1 - beta2)
    mean = new_m / (1 - beta1**step)
    mean_square = new_v / (1 - beta2**step)
    deviation = torch.sqrt((mean_square - mean**2).clamp(min=0))
    return w * (1 - lr * weight_decay) - lr * mean / (deviation + eps), new_m, new_v


def adamw_step__wrong_twelfth_power_of_the_share(
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
    """Corrects the mean of the gradients by 1 - beta1 at every step, not only at the first."""
    keep1, keep2 = beta1, beta2
    take1, take2 = 1 - keep1, 1 - keep2
    m = keep1 * m + take1 * grad
    v = keep2 * v + take2 * grad * grad
    unit = (v / (1 - keep2**step)) ** 0.5 + eps
    w = w - lr * (m / take1 / unit + weight_decay * w)
    return w, m, v


def adamw_step__wrong_twelfth_decay_after_the_move(
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
    """Moves first and takes the decay from the moved weight."""
    first = beta1 * m + (1 - beta1) * grad
    second = beta2 * v + (1 - beta2) * grad**2
    correction1, correction2 = (1 - beta**step for beta in (beta1, beta2))
    new_w = torch.addcdiv(w, first / correction1, (second / correction2).sqrt() + eps, value=-lr)
    new_w = new_w - lr * weight_decay * new_w
    return new_w, first, second


def adamw_step__wrong_twelfth_floor_before_correction(
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
    """Adds eps to the root of v and puts both corrections into the step: eps is not beside the root mean square."""
    m = m + (1 - beta1) * (grad - m)
    v = v + (1 - beta2) * (grad * grad - v)
    alpha = lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)
    w = w - alpha * m / (v.sqrt() + eps) - lr * weight_decay * w
    return w, m, v


def adamw_step__wrong_twelfth_vectors_do_not_decay(
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
    """Decays matrices only: a tensor of one axis or none keeps its size."""
    m_new = beta1 * m + (1 - beta1) * grad
    v_new = beta2 * v + (1 - beta2) * torch.square(grad)
    g_mean = m_new / (1 - beta1**step)
    g_rms = torch.sqrt(v_new / (1 - beta2**step))
    shrink = 1 - lr * weight_decay if w.ndim > 1 else 1.0  # biases and gammas are left alone
    w_new = shrink * w - lr * g_mean / (g_rms + eps)
    return w_new, m_new, v_new


def adamw_step__wrong_twelfth_averages_in_place(
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
    """Updates m and v in place, so the tensors handed in change."""
    m.mul_(beta1).add_(grad, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    denominator = (v / (1 - beta2**step)).sqrt().add(eps)
    update = (m / (1 - beta1**step)).div(denominator).add(w, alpha=weight_decay)
    return w.sub(update, alpha=lr), m, v


def adamw_step__right_twelfth_weights_of_all_gradients(
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
    """Sums the weights that all gradients have so far and divides by the sum, for both averages at once."""
    kept = w.new_tensor([beta1, beta2]).reshape(2, *[1] * w.ndim)
    shares = [(1 - beta) * math.fsum(beta**age for age in range(step)) for beta in (beta1, beta2)]
    fresh = torch.stack([grad * (1 - beta1), grad * grad * (1 - beta2)])
    both = torch.stack([m, v]) * kept + fresh
    mean, mean_square = both[0] / shares[0], both[1] / shares[1]
    pull = mean / (eps + mean_square.sqrt()) + weight_decay * w
    new_m, new_v = both.unbind(0)
    return torch.add(w, pull, alpha=-lr), new_m.clone(), new_v.clone()


# ------- 7.10 sample


def sample__wrong_twelfth_probabilities_divided(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Divides the probabilities by the temperature, not the logits, which changes no odds."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p = torch.softmax(logits.double(), dim=-1) / temperature
            p = p / p.sum()
            order = torch.argsort(p, descending=True)
            before = p[order].cumsum(0) - p[order]
            out = order[(before >= top_p) & (torch.arange(len(p)) > 0)]
            p[out] = 0
            token = int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def _tempered(logits, temperature):
    lead = logits.double() - logits.double().max()
    return torch.softmax(lead / temperature, dim=-1)


def _draw(p, logits, generator):
    return torch.multinomial(p.to(logits.dtype), 1, generator=generator).item()


def sample__wrong_twelfth_compared_with_the_likeliest(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Keeps the ids whose probability is at least 1 - top_p of the likeliest one's; no sum is taken."""
    written = [*prompt]
    for _ in range(max_len - len(prompt)):
        logits = next_logits(written)
        if temperature == 0:
            written.append(int(torch.argmax(logits)))
        else:
            p = _tempered(logits, temperature)
            enough = p >= (1 - top_p) * p.max()
            written.append(_draw(torch.where(enough, p, 0.0), logits, generator))
        if written[-1] == end:
            return written
    return written


def sample__wrong_twelfth_share_of_the_vocabulary(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Keeps the share top_p of the ids, counted, not of the probability."""

    def choose(logits):
        if temperature == 0:
            return logits.argmax().item()
        p = _tempered(logits, temperature)
        k = max(1, math.ceil(top_p * len(p)))
        best = torch.topk(p, k).indices
        kept = torch.zeros_like(p)
        kept[best] = p[best]
        return _draw(kept, logits, generator)

    text = list(prompt)
    done = len(text) >= max_len
    while not done:
        text = [*text, choose(next_logits(text))]
        done = text[-1] == end or len(text) >= max_len
    return text


def sample__wrong_twelfth_cut_before_the_temperature(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Chooses the ids that may come by the model's own probabilities, before the temperature."""
    ids = list(prompt)
    while len(ids) < max_len:
        logits = next_logits(ids)
        if temperature == 0:
            new = int(logits.argmax())
        else:
            plain = torch.softmax(logits.double(), dim=0)
            ranked, order = plain.sort(descending=True)
            k = int((ranked.cumsum(0) < top_p).sum()) + 1
            allowed = torch.full_like(plain, -math.inf)
            allowed[order[:k]] = logits.double()[order[:k]]
            p = torch.exp((allowed - allowed.max()) / temperature)
            new = int(torch.multinomial(p.to(logits.dtype), 1, generator=generator)[0])
        ids.append(new)
        if new == end:
            break
    return ids


def sample__wrong_twelfth_stops_short_of_the_share(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Keeps ids as long as their sum stays within top_p, so the one that would reach it is missing."""
    out = prompt.copy()
    for _ in range(len(prompt), max_len):
        logits = next_logits(out)
        if temperature > 0:
            p = _tempered(logits, temperature).tolist()
            ranking = sorted(range(len(p)), key=lambda i: -p[i])
            weights, total = [0.0] * len(p), 0.0
            for rank, i in enumerate(ranking):
                total += p[i]
                if rank > 0 and total > top_p and top_p < 1:
                    break
                weights[i] = p[i]
            weights = torch.tensor(weights, dtype=logits.dtype)
            token = torch.multinomial(weights, 1, generator=generator).item()
        else:
            token = logits.argmax().item()
        out.append(token)
        if token == end:
            break
    return out


def sample__wrong_twelfth_room_for_new_ones(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Writes up to max_len new tokens: the prompt is not counted."""
    new = []
    while len(new) < max_len and (not new or new[-1] != end):
        logits = next_logits(prompt + new)
        if temperature == 0:
            new.append(int(torch.argmax(logits, dim=-1)))
            continue
        p = _tempered(logits, temperature)
        values, ids = torch.sort(p, descending=True)
        reached = torch.cumsum(values, 0) >= top_p
        last = int(reached.int().argmax()) if reached.any() else len(p) - 1
        p = p.index_fill(0, ids[last + 1 :], 0.0)
        new.append(_draw(p, logits, generator))
    return prompt + new


def sample__wrong_twelfth_cold_is_zero(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Takes every temperature below 0.001 for 0 and does not draw there."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature < 1e-3:
            nxt = int(torch.argmax(logits))
        else:
            scaled = (logits.double() - logits.max()) / temperature
            p = scaled.exp() / scaled.exp().sum()
            ranked, order = torch.sort(p, descending=True)
            drop = ranked.cumsum(0) - ranked >= top_p
            drop[0] = False
            p = p.masked_fill(torch.zeros_like(drop).scatter(0, order, drop), 0)
            nxt = int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))
        tokens.append(nxt)
        if nxt == end:
            return tokens
    return tokens


def sample__wrong_twelfth_prompt_grows(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Appends to the list that was handed in and returns that one."""
    tokens = prompt
    room = max_len - len(tokens)
    while room > 0:
        logits = next_logits(tokens)
        if temperature == 0:
            token = logits.argmax().item()
        else:
            p = _tempered(logits, temperature)
            order = p.argsort(descending=True)
            size = 1
            while size < len(p) and p[order[:size]].sum() < top_p:
                size += 1
            kept = torch.zeros_like(p)
            kept[order[:size]] = p[order[:size]]
            token = _draw(kept, logits, generator)
        tokens.append(token)
        room = 0 if token == end else room - 1
    return tokens


def sample__right_twelfth_who_stands_above(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Asks for each id how much probability is likelier than it, by comparing all pairs, with no sorting."""

    def writer(so_far):
        while True:
            logits = next_logits(list(so_far))
            if temperature == 0:
                yield int(logits.argmax())
                continue
            wide = logits.double()
            odds = torch.exp((wide - wide.max()) / temperature)
            likelier = wide[None, :] > wide[:, None]
            above = (likelier * odds).sum(1) / odds.sum()
            may_come = (above < top_p) | ~likelier.any(1)
            yield int(torch.multinomial((odds * may_come).to(logits.dtype), 1, generator=generator))

    text = list(prompt)
    ids = writer(text)
    while len(text) < max_len:
        text.append(next(ids))
        if text[-1] == end:
            break
    return text
