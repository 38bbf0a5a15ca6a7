"""Answers of a class to the exercises of unit 7, the transformer block: wrong and right ones."""

import functools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F


# What the notebook gives, and right answers to earlier exercises, for the answers that call them.
def _multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """The attention that the notebook gives."""
    batch, n, _ = X.shape
    Q, K, V = (
        (X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V)
    )
    if mask is not None:
        assert mask.dtype == torch.bool
        mask = mask.expand(batch, n_heads, n, n)
        some = mask.any(dim=-1, keepdim=True)
        heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask | ~some) * some
    else:
        heads = F.scaled_dot_product_attention(Q, K, V)
    return heads.transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def _layer_norm(x, gamma, beta, eps=1e-5):
    """A right layer_norm."""
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return gamma * centred / torch.sqrt(variance + eps) + beta


def _gelu(x):
    """A right gelu."""
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


def _feed_forward(x, W_1, b_1, W_2, b_2, activation):
    """A right feed_forward."""
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def _post_norm_block(x, params, n_heads, mask=None):
    """A right post_norm_block."""
    p = params
    attended = _multi_head_attention(
        x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    y = _layer_norm(x + attended, p["gamma_1"], p["beta_1"])
    worked = _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _layer_norm(y + worked, p["gamma_2"], p["beta_2"])


def _pre_norm_block(x, params, n_heads, mask=None):
    """A right pre_norm_block."""
    p = params
    normed = _layer_norm(x, p["gamma_1"], p["beta_1"])
    y = x + _multi_head_attention(
        normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    normed = _layer_norm(y, p["gamma_2"], p["beta_2"])
    return y + _feed_forward(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


# ---------------------------------------------------------------------------
# 7.1 layer_norm
# ---------------------------------------------------------------------------
def layer_norm__wrong_sixth_all_axes_but_the_first(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Averages over every axis after the first, as nn.LayerNorm(x.shape[1:]) would, not over the last alone."""
    axes = tuple(range(1, x.ndim)) if x.ndim > 1 else (0,)
    mu = x.mean(dim=axes, keepdim=True)
    var = ((x - mu) ** 2).mean(dim=axes, keepdim=True)
    return gamma * (x - mu) / torch.sqrt(var + eps) + beta


def layer_norm__wrong_sixth_var_default(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Calls x.var with its default correction, so the squares are divided by d - 1."""
    mean = x.mean(-1, keepdim=True)
    variance = x.var(-1, keepdim=True)
    x_hat = (x - mean) * torch.rsqrt(variance + eps)
    return x_hat * gamma + beta


def layer_norm__wrong_sixth_eps_as_floor(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Takes eps as the least value of the variance (clamp) in place of adding it."""
    deviation = x - x.mean(dim=-1, keepdim=True)
    spread = deviation.pow(2).mean(dim=-1, keepdim=True).clamp(min=eps)
    return gamma * deviation / spread.sqrt() + beta


def layer_norm__wrong_sixth_beta_scaled_too(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Sets the bracket around the shift as well: gamma * (z + beta), so that beta is scaled by gamma."""
    d = x.shape[-1]
    mu = x.sum(-1, keepdim=True) / d
    sigma2 = ((x - mu) ** 2).sum(-1, keepdim=True) / d
    z = (x - mu) / (sigma2 + eps) ** 0.5
    return gamma * (z + beta)


def layer_norm__wrong_sixth_rms(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Writes RMSNorm: divides by the root mean square of x, no mean is taken away."""
    mean_square = torch.einsum("...d,...d->...", x, x) / x.size(-1)
    return x / torch.sqrt(mean_square + eps).unsqueeze(-1) * gamma + beta


def layer_norm__wrong_sixth_one_plus_gamma(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Scales by 1 + gamma, the convention of Gemma's code, where gamma starts from 0."""
    var, mu = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    normal = (x - mu) / (var + eps).sqrt()
    return normal * (1.0 + gamma) + beta


def layer_norm__wrong_sixth_statistics_without_gradient(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Computes mean and variance under torch.no_grad, so the gradient takes them for constants."""
    with torch.no_grad():
        mu = x.mean(dim=-1, keepdim=True)
        sd = torch.sqrt(((x - mu) ** 2).mean(dim=-1, keepdim=True) + eps)
    return gamma * ((x - mu) / sd) + beta


def layer_norm__wrong_sixth_affine_first(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Scales and shifts x with gamma and beta first and normalises the result of that."""
    moved = gamma * x + beta
    moved = moved - moved.mean(dim=-1, keepdim=True)
    size = torch.sqrt((moved * moved).mean(dim=-1, keepdim=True) + eps)
    return moved / size


def layer_norm__right_sixth_centring_matrix(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """In float64: times the centring matrix I - 1/d, then over the root of the mean square; cast back."""
    d = x.shape[-1]
    centring = torch.eye(d, dtype=torch.float64, device=x.device) - 1 / d
    z = x.double() @ centring
    length = torch.linalg.vecdot(z, z).div(d).add(eps).sqrt()
    return torch.addcmul(beta.double(), z / length[..., None], gamma.double()).to(x.dtype)


# ---------------------------------------------------------------------------
# 7.2 batch_norm
# ---------------------------------------------------------------------------
def batch_norm__wrong_sixth_variance_within_sequences(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Averages the variances of the single sequences: what lies between their means is left out."""
    mean = x.mean(dim=(0, 1))
    inside = ((x - x.mean(dim=1, keepdim=True)) ** 2).mean(dim=1)
    variance = inside.mean(dim=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_sixth_bessel(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Divides the sum of squares by B*n - 1 (guarded against 0), the unbiased variance."""
    rows = x.reshape(-1, x.shape[-1])
    count = rows.shape[0]
    centred = rows - rows.sum(0) / count
    variance = (centred**2).sum(0) / max(count - 1, 1)
    return (gamma * centred / (variance + eps).sqrt() + beta).reshape(x.shape)


def batch_norm__wrong_sixth_last_axis(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The layer norm of 7.1 once more: mean and variance run over the features."""
    mu = x.mean(dim=-1, keepdim=True)
    centred = x - mu
    var = centred.square().mean(dim=-1, keepdim=True)
    return gamma * centred / torch.sqrt(var + eps) + beta


def batch_norm__wrong_sixth_sentence_by_sentence(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Loops over the batch and normalises each sequence with its own statistics (instance norm)."""
    done = []
    for sentence in x:
        mu = sentence.mean(0)
        var = ((sentence - mu) ** 2).mean(0)
        done.append(gamma * (sentence - mu) / torch.sqrt(var + eps) + beta)
    return torch.stack(done)


def batch_norm__wrong_sixth_single_token_kept(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Skips the normalisation if the batch holds one token only, and returns gamma * x + beta then."""
    n_tokens = x.shape[0] * x.shape[1]
    if n_tokens == 1:
        return gamma * x + beta  # nothing to compare with
    mu = x.mean(dim=(0, 1), keepdim=True)
    var = (x - mu).pow(2).mean(dim=(0, 1), keepdim=True)
    return gamma * (x - mu) / torch.sqrt(var + eps) + beta


def batch_norm__wrong_sixth_reshape_to_features_first(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Brings the features to the front with reshape(d, -1), which mixes features where a transpose was due."""
    d = x.shape[-1]
    by_feature = x.reshape(d, -1)
    mu = by_feature.mean(dim=1)
    var = ((by_feature - mu[:, None]) ** 2).mean(dim=1)
    return gamma * (x - mu) / torch.sqrt(var + eps) + beta


def batch_norm__wrong_sixth_std_plus_eps(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Adds eps to the standard deviation, outside of the root."""
    mu = x.mean(dim=(0, 1))
    std = x.std(dim=(0, 1), correction=0)
    return gamma * ((x - mu) / (std + eps)) + beta


def batch_norm__wrong_sixth_running_averages(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Uses running statistics after one update with momentum 0.1 from mean 0 and variance 1."""
    momentum = 0.1
    running_mean, running_var = torch.zeros_like(gamma), torch.ones_like(gamma)
    mu = x.mean(dim=(0, 1))
    var = (x - mu).square().mean(dim=(0, 1))
    running_mean = (1 - momentum) * running_mean + momentum * mu
    running_var = (1 - momentum) * running_var + momentum * var
    return gamma * (x - running_mean) / (running_var + eps).sqrt() + beta


def batch_norm__right_sixth_within_and_between(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Variance as the mean of the sequences' variances plus the variance of their means (all are equally long)."""
    own = x.mean(dim=1, keepdim=True)  # (B, 1, d)
    mean = own.mean(dim=0, keepdim=True)  # (1, 1, d)
    within = (x - own).square().mean(dim=1).mean(dim=0)
    between = (own - mean).square().mean(dim=0)[0]
    return (x - mean) * (gamma * torch.rsqrt(within + between + eps)) + beta


def batch_norm__right_sixth_feature_by_feature(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """A loop over the features, each taken as one long row of B*n numbers, stacked again at the end."""
    columns = []
    for c in range(x.size(2)):
        column = x[..., c]
        row = column.flatten()
        shifted = row - row.sum() / row.numel()
        scale = (shifted.dot(shifted) / row.numel() + eps) ** 0.5
        columns.append((shifted / scale * gamma[c] + beta[c]).view(column.shape))
    return torch.stack(columns, dim=2)


# ---------------------------------------------------------------------------
# 7.3 gelu
# ---------------------------------------------------------------------------
def gelu__wrong_sixth_tanh(x: torch.Tensor) -> torch.Tensor:
    """The tanh approximation of GPT-2's code in place of the exact form."""
    c = math.sqrt(2.0 / math.pi)
    return 0.5 * x * (1.0 + torch.tanh(c * (x + 0.044715 * x * x * x)))


def gelu__wrong_sixth_quick(x: torch.Tensor) -> torch.Tensor:
    """The quick form, x times a sigmoid of 1.702 x."""
    gate = torch.sigmoid(1.702 * x)
    return gate * x


def gelu__wrong_sixth_density(x: torch.Tensor) -> torch.Tensor:
    """Multiplies by the density of the standard normal where its distribution function was due."""
    phi = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)
    return x * phi


def gelu__wrong_sixth_root_outside(x: torch.Tensor) -> torch.Tensor:
    """Divides the error function by the root of 2, not its argument: erf(x) / sqrt(2)."""
    return x / 2 * (1 + torch.erf(x) / math.sqrt(2))


def gelu__wrong_sixth_negative_side_cut(x: torch.Tensor) -> torch.Tensor:
    """Sets the negative side to 0 as ReLU does, the dip below 0 is lost."""
    soft = 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
    return torch.where(x > 0, soft, torch.zeros_like(x))


def gelu__wrong_sixth_expected_relu(x: torch.Tensor) -> torch.Tensor:
    """Adds the density to x times Phi: the mean of relu(x + Z) for a normal Z."""
    below = 0.5 * (1 + torch.erf(x / 2**0.5))
    bell = torch.exp(-0.5 * x**2) / (2 * math.pi) ** 0.5
    return x * below + bell


def gelu__wrong_sixth_upper_tail(x: torch.Tensor) -> torch.Tensor:
    """Uses erfc(x / sqrt 2) / 2, the probability of being greater than x."""
    probability = torch.erfc(x / math.sqrt(2)) / 2
    return x * probability


def gelu__wrong_sixth_standardised_input(x: torch.Tensor) -> torch.Tensor:
    """Standardises x with its own mean and deviation before Phi, to have a 'standard normal variable'."""
    centre = x.mean()
    width = ((x - centre) ** 2).mean().sqrt() + 1e-6
    z = (x - centre) / width
    return x * 0.5 * (1 + torch.erf(z / math.sqrt(2)))


def gelu__right_sixth_ndtr(x: torch.Tensor) -> torch.Tensor:
    """x times torch.special.ndtr(x), the distribution function itself."""
    return torch.special.ndtr(x).mul(x)


def gelu__right_sixth_erfc_of_minus_x(x: torch.Tensor) -> torch.Tensor:
    """Half of x times the complementary error function at -x over the root of 2."""
    return torch.erfc(x * -math.sqrt(0.5)) * x * 0.5


# ---------------------------------------------------------------------------
# 7.4 feed_forward
# ---------------------------------------------------------------------------
def feed_forward__wrong_sixth_activation_on_input(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Bends x before the first map, and nothing stands between the maps."""
    x = activation(x)
    hidden = x @ W_1 + b_1
    return hidden @ W_2 + b_2


def feed_forward__wrong_sixth_bias_after_activation(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Adds b_1 after the activation."""
    hidden = torch.einsum("...d,df->...f", x, W_1)
    hidden = activation(hidden) + b_1
    return torch.einsum("...f,fd->...d", hidden, W_2) + b_2


def feed_forward__wrong_sixth_residual(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Adds x to the result, the residual that belongs to the block."""
    up = activation(torch.matmul(x, W_1) + b_1)
    down = torch.matmul(up, W_2) + b_2
    return x + down


def feed_forward__wrong_sixth_gelu_always(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Ignores the callable that is handed over and always bends with GELU."""
    hidden = _gelu(x @ W_1 + b_1)
    return hidden @ W_2 + b_2


def feed_forward__wrong_sixth_activation_as_gate(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Takes the activation for a gate and multiplies the hidden features by it: h * activation(h)."""
    scores = x @ W_1 + b_1
    gate = activation(scores)
    return (scores * gate) @ W_2 + b_2


def feed_forward__wrong_sixth_back_through_W_1(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Goes back with the transpose of W_1, as an autoencoder with tied weights; W_2 is not used."""
    questions = W_1.T  # (d_ff, d_model)
    answers = activation(F.linear(x, questions, b_1))
    return answers @ questions + b_2


def feed_forward__wrong_sixth_dropout(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Applies a dropout of 0.1 to the hidden features, so entries are zeroed at random in each call."""
    hidden = activation(x @ W_1 + b_1)
    hidden = F.dropout(hidden, p=0.1)
    return hidden @ W_2 + b_2


def feed_forward__wrong_sixth_norms_first(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Normalises the token before the first map, as the pre-norm block does before it calls the FFN."""
    mean = x.mean(-1, keepdim=True)
    spread = torch.sqrt((x - mean).square().mean(-1, keepdim=True) + 1e-5)
    token = (x - mean) / spread
    return activation(token @ W_1 + b_1) @ W_2 + b_2


def feed_forward__right_sixth_biases_as_rows(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Each bias becomes one more row of its matrix, which a further feature of 1 picks up."""

    def affine(rows, matrix, bias):
        one = torch.ones_like(rows[..., :1])
        return torch.cat([rows, one], dim=-1) @ torch.vstack([matrix, bias])

    return affine(activation(affine(x, W_1, b_1)), W_2, b_2)


def feed_forward__right_sixth_sum_over_questions(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Scores by einsum and one call of the activation, then the rows of W_2 are added up one by one."""
    answers = activation(torch.einsum("...i,ik->...k", x, W_1) + b_1)
    out = b_2.expand(x.shape)
    for k, row in enumerate(W_2):
        out = out + answers[..., k, None] * row
    return out


# ---------------------------------------------------------------------------
# 7.5 post_norm_block
# ---------------------------------------------------------------------------
def post_norm_block__wrong_sixth_second_residual_adds_x(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The second residual adds the block's input x where y belongs."""
    weights = [params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O")]
    y = _layer_norm(
        x + _multi_head_attention(x, *weights, n_heads, mask),
        params["gamma_1"],
        params["beta_1"],
    )
    f = _feed_forward(
        y, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu
    )
    return _layer_norm(x + f, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_sixth_norms_the_sublayer_only(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Norms what each sublayer returns and adds then (OLMo 2's order): the sum itself is never normed."""
    p = params
    a = _multi_head_attention(
        x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    y = x + _layer_norm(a, p["gamma_1"], p["beta_1"])
    f = _gelu(y @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"]
    return y + _layer_norm(f, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_sixth_causal_if_no_mask(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Makes a causal mask of its own where mask is None."""
    n = x.shape[1]
    if mask is None:
        mask = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
    p = params
    y = x + _multi_head_attention(
        x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    y = _layer_norm(y, p["gamma_1"], p["beta_1"])
    z = y + _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _layer_norm(z, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_sixth_b_O_twice(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds b_O once more to what attention returns, which holds it already."""
    names = "W_Q W_K W_V W_O b_O".split()
    att = _multi_head_attention(x, *(params[name] for name in names), n_heads, mask)
    att = att + params["b_O"]
    y = _layer_norm(x + att, params["gamma_1"], params["beta_1"])
    names = "W_1 b_1 W_2 b_2".split()
    ffn = _feed_forward(y, *(params[name] for name in names), _gelu)
    return _layer_norm(y + ffn, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_sixth_keys_and_values_swapped(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Hands W_V to the attention where W_K belongs, and W_K as the values' matrix."""
    W_Q, W_V, W_K = params["W_Q"], params["W_V"], params["W_K"]
    W_O, b_O = params["W_O"], params["b_O"]
    attended = _multi_head_attention(x, W_Q, W_V, W_K, W_O, b_O, n_heads, mask)
    y = _layer_norm(x + attended, params["gamma_1"], params["beta_1"])
    hidden = _gelu(y @ params["W_1"] + params["b_1"])
    y = y + (hidden @ params["W_2"] + params["b_2"])
    return _layer_norm(y, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_sixth_relu_of_2017(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Its FFN bends with ReLU, as in the paper of 2017, where the exact GELU is asked for."""

    def sub(part, inp):
        if part == "attention":
            args = [params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O")]
            return _multi_head_attention(inp, *args, n_heads, mask)
        args = [params[k] for k in ("W_1", "b_1", "W_2", "b_2")]
        return _feed_forward(inp, *args, torch.relu)

    y = _layer_norm(x + sub("attention", x), params["gamma_1"], params["beta_1"])
    return _layer_norm(y + sub("ffn", y), params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_sixth_eps_of_bert(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Norms with BERT's eps of 1e-12 in place of the default, which faint tokens feel."""
    p, eps = params, 1e-12
    y = x + _multi_head_attention(
        x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    y = _layer_norm(y, p["gamma_1"], p["beta_1"], eps)
    z = y + _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _layer_norm(z, p["gamma_2"], p["beta_2"], eps)


def post_norm_block__wrong_sixth_mask_of_head_0(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes from a mask with a head axis the part of head 0 and gives it to all heads."""
    if mask is not None and mask.ndim == 4:
        mask = mask[:, 0].unsqueeze(1)
    args = [params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O")]
    x = _layer_norm(
        x + _multi_head_attention(x, *args, n_heads, mask),
        params["gamma_1"],
        params["beta_1"],
    )
    args = [params[k] for k in ("W_1", "b_1", "W_2", "b_2")]
    return _layer_norm(
        x + _feed_forward(x, *args, _gelu), params["gamma_2"], params["beta_2"]
    )


def post_norm_block__right_sixth_head_by_head(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention written out head by head: each adds its part through its rows of W_O; then the two norms."""
    p, (batch, n, _) = params, x.shape
    size = p["W_Q"].shape[1] // n_heads
    may = torch.ones(1, 1, dtype=torch.bool) if mask is None else mask
    may = may.expand(batch, n_heads, n, n)
    total = x + p["b_O"]
    for h, columns in enumerate(torch.arange(n_heads * size).split(size)):
        Q, K, V = (x @ p[name][:, columns] for name in ("W_Q", "W_K", "W_V"))
        scores = torch.einsum("bid,bjd->bij", Q, K) * size**-0.5
        low = torch.finfo(scores.dtype).min
        weights = scores.masked_fill(~may[:, h], low).softmax(dim=-1) * may[:, h]
        total = total + weights @ V @ p["W_O"][columns]
    y = _layer_norm(total, p["gamma_1"], p["beta_1"])
    worked = _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _layer_norm(worked + y, p["gamma_2"], p["beta_2"])


def post_norm_block__right_sixth_loop_over_sublayers(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """A loop over the two sublayers, kept as functions: stream = norm(stream + sublayer(stream))."""

    def take(names):
        return [params[name] for name in names.split()]

    sublayers = (
        lambda t: _multi_head_attention(t, *take("W_Q W_K W_V W_O b_O"), n_heads, mask),
        lambda t: _feed_forward(t, *take("W_1 b_1 W_2 b_2"), _gelu),
    )
    stream = x
    for number, sublayer in enumerate(sublayers, start=1):
        stream = _layer_norm(
            torch.add(stream, sublayer(stream)), *take(f"gamma_{number} beta_{number}")
        )
    return stream


# ---------------------------------------------------------------------------
# 7.6 pre_norm_block
# ---------------------------------------------------------------------------
def pre_norm_block__wrong_sixth_bypass_carries_normed(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Overwrites x with its norm, so that the bypass carries the normed tokens."""
    p = params
    x = _layer_norm(x, p["gamma_1"], p["beta_1"])
    x = x + _multi_head_attention(
        x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    x = _layer_norm(x, p["gamma_2"], p["beta_2"])
    return x + _feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def pre_norm_block__wrong_sixth_adds_in_place(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds with +=, which writes the sums into the caller's x (and fails for a leaf that needs gradients)."""
    p = params
    normed = _layer_norm(x, p["gamma_1"], p["beta_1"])
    x += _multi_head_attention(
        normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    normed = _layer_norm(x, p["gamma_2"], p["beta_2"])
    x += _feed_forward(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return x


def pre_norm_block__wrong_sixth_side_by_side(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Runs both sublayers from x, as in GPT-J: the FFN does not see what attention has brought."""
    heard = _multi_head_attention(
        _layer_norm(x, params["gamma_1"], params["beta_1"]),
        *[params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O")],
        n_heads,
        mask,
    )
    thought = _feed_forward(
        _layer_norm(x, params["gamma_2"], params["beta_2"]),
        *[params[k] for k in ("W_1", "b_1", "W_2", "b_2")],
        _gelu,
    )
    return x + heard + thought


def pre_norm_block__wrong_sixth_norm_at_the_end(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Norms the last sum once more with gamma_2 and beta_2 before it returns it."""

    def norm(t, which):
        return _layer_norm(t, params[f"gamma_{which}"], params[f"beta_{which}"])

    attention_weights = [params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O")]
    ffn_weights = [params[k] for k in ("W_1", "b_1", "W_2", "b_2")]
    y = x + _multi_head_attention(norm(x, 1), *attention_weights, n_heads, mask)
    z = y + _feed_forward(norm(y, 2), *ffn_weights, _gelu)
    return norm(z, 2)


def pre_norm_block__wrong_sixth_only_queries_normed(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Writes attention out and takes keys and values from the raw x; only the queries see the normed tokens."""
    p, (B, n, _) = params, x.shape
    normed = _layer_norm(x, p["gamma_1"], p["beta_1"])

    def heads(t):
        return t.reshape(B, n, n_heads, -1).transpose(1, 2)

    q, k, v = heads(normed @ p["W_Q"]), heads(x @ p["W_K"]), heads(x @ p["W_V"])
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask
    mixed = (weights @ v).transpose(1, 2).reshape(B, n, -1)
    y = x + mixed @ p["W_O"] + p["b_O"]
    normed = _layer_norm(y, p["gamma_2"], p["beta_2"])
    return y + _feed_forward(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def pre_norm_block__wrong_sixth_mask_turned_round(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Inverts the mask, in the belief that True means 'may not attend' as in nn.MultiheadAttention."""
    p = params
    allowed = None if mask is None else torch.logical_not(mask)
    y = x + _multi_head_attention(
        _layer_norm(x, p["gamma_1"], p["beta_1"]),
        p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, allowed,
    )  # fmt: skip
    normed = _layer_norm(y, p["gamma_2"], p["beta_2"])
    return y + _feed_forward(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def pre_norm_block__wrong_sixth_gpt2_gelu(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Its FFN uses the tanh approximation of GELU, as GPT-2's code does, not the exact form."""
    p = params

    def new_gelu(h):
        return 0.5 * h * (1 + torch.tanh((2 / math.pi) ** 0.5 * (h + 0.044715 * h**3)))

    y = _layer_norm(x, p["gamma_1"], p["beta_1"])
    x = x + _multi_head_attention(
        y, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    y = _layer_norm(x, p["gamma_2"], p["beta_2"])
    return x + _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], new_gelu)


def pre_norm_block__wrong_sixth_one_norm_for_both(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Uses gamma_1 and beta_1 before both sublayers; the FFN's own norm parameters stay unused."""
    norm = functools.partial(
        _layer_norm, gamma=params["gamma_1"], beta=params["beta_1"]
    )
    mixing = [params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O")]
    thinking = [params[k] for k in ("W_1", "b_1", "W_2", "b_2")]
    y = x + _multi_head_attention(norm(x), *mixing, n_heads, mask)
    return y + _feed_forward(norm(y), *thinking, _gelu)


def pre_norm_block__right_sixth_text_by_text(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Each text of the batch by itself, with its share of the mask; the results are joined again."""
    p, (B, n, _) = params, x.shape
    masks = [None] * B
    if mask is not None:
        masks = mask.expand(B, n_heads, n, n).split(1)
    texts = []
    for text, its_mask in zip(x.split(1), masks, strict=True):
        heard = _multi_head_attention(
            _layer_norm(text, p["gamma_1"], p["beta_1"]),
            p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, its_mask,
        )  # fmt: skip
        sofar = text + heard
        for_ffn = _layer_norm(sofar, p["gamma_2"], p["beta_2"])
        note = _feed_forward(for_ffn, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
        texts.append(sofar + note)
    return torch.cat(texts)


# ---------------------------------------------------------------------------
# 7.7 transformer_logits
# ---------------------------------------------------------------------------
def transformer_logits__wrong_sixth_last_positions(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Adds the last n rows of W_pos, as if the text ended at n_ctx, not its first n."""
    n = tokens.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    x = params["W_E"][tokens] + params["W_pos"][-n:]
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, causal)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_sixth_embeddings_times_root(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Multiplies the embeddings by the root of d_model, as the Transformer of 2017 does."""
    W_E, W_pos = params["W_E"], params["W_pos"]
    n, d_model = tokens.size(1), W_E.size(1)
    stream = F.embedding(tokens, W_E) * math.sqrt(d_model) + W_pos[:n]
    mask = torch.tril(torch.ones((n, n), dtype=torch.bool))
    for p in params["blocks"]:
        stream = _pre_norm_block(stream, p, n_heads, mask)
    stream = _layer_norm(stream, params["gamma_f"], params["beta_f"])
    return stream @ params["W_U"]


def transformer_logits__wrong_sixth_final_norm_in_loop(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Indents the final norm into the loop: it follows every block, and is missing with no blocks."""
    n = tokens.shape[-1]
    may = torch.arange(n)[:, None] >= torch.arange(n)
    x = params["W_E"][tokens] + params["W_pos"][:n]
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, may)
        x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_sixth_positions_for_each_block(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Adds the positions anew before every block, not once at the start."""
    n = tokens.shape[1]
    places = params["W_pos"][torch.arange(n)]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    x = params["W_E"][tokens]
    if not params["blocks"]:
        x = x + places
    for block in params["blocks"]:
        x = _pre_norm_block(x + places, block, n_heads, causal)
    x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_sixth_mask_in_first_block_only(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Gives the causal mask to block 0 alone; the later blocks see the future."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    for i, block in enumerate(params["blocks"]):
        mask = torch.ones(n, n, dtype=torch.bool).tril() if i == 0 else None
        x = _pre_norm_block(x, block, n_heads, mask)
    normed = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return torch.einsum("bnd,dv->bnv", normed, params["W_U"])


def transformer_logits__wrong_sixth_post_norm_blocks(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Stacks post-norm blocks in place of pre-norm blocks."""
    n = tokens.shape[1]
    causal = torch.tril(torch.ones(n, n)).bool()
    x = params["W_E"][tokens] + params["W_pos"][:n]
    x = functools.reduce(
        lambda t, p: _post_norm_block(t, p, n_heads, causal), params["blocks"], x
    )
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_sixth_id_0_is_padding(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Takes id 0 for padding and hides it from all queries but itself, though 0 is a token like any other."""
    n = tokens.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    real = (tokens != 0)[:, None, None, :]
    mask = (causal & real) | torch.eye(n, dtype=torch.bool)
    x = params["W_E"][tokens] + params["W_pos"][:n]
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, mask)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_sixth_residual_around_blocks(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Adds a block's result to the stream, though the block has added the stream already."""
    n = tokens.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril(diagonal=0)
    stream = params["W_E"][tokens] + params["W_pos"][:n]
    for p in params["blocks"]:
        stream = stream + _pre_norm_block(stream, p, n_heads, mask=causal)
    out = _layer_norm(stream, params["gamma_f"], params["beta_f"])
    return out @ params["W_U"]


def transformer_logits__right_sixth_one_hot(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Ids and places as one-hot rows times W_E and W_pos; the causal mask from a comparison of places."""
    W_E, W_pos = params["W_E"], params["W_pos"]
    n = tokens.shape[1]
    ids = F.one_hot(tokens, W_E.shape[0]).to(W_E.dtype)
    at = torch.eye(n, W_pos.shape[0], dtype=W_pos.dtype)
    row, column = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    start = ids @ W_E + at @ W_pos
    end = functools.reduce(
        lambda x, p: _pre_norm_block(x, p, n_heads, column <= row),
        params["blocks"],
        start,
    )
    return _layer_norm(end, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__right_sixth_prefix_by_prefix(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Every prefix of the texts is run by itself, and the logits of its last token are kept."""
    logits = []
    for length in range(1, tokens.shape[1] + 1):
        x = F.embedding(tokens[:, :length], params["W_E"])
        x = x + params["W_pos"].narrow(0, 0, length)
        causal = ~torch.ones(length, length, dtype=torch.bool).triu(1)
        for p in params["blocks"]:
            x = _pre_norm_block(x, p, n_heads, causal)
        last = _layer_norm(x[:, -1], params["gamma_f"], params["beta_f"])
        logits.append(last @ params["W_U"])
    return torch.stack(logits, dim=1)


# ---------------------------------------------------------------------------
# 7.8 bits_per_token
# ---------------------------------------------------------------------------
def bits_per_token__wrong_sixth_mean_of_means(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Takes each text's mean first and then the mean of these, so that tokens of short texts count more."""
    means = []
    for scores, wanted, counts in zip(logits, targets, mask, strict=True):
        if counts.any():
            logp = torch.log_softmax(scores[counts], dim=-1)
            picked = logp.gather(-1, wanted[counts][:, None])
            means.append(-picked.mean() / math.log(2))
    if not means:
        return logits[mask].sum()
    return torch.stack(means).mean()


def bits_per_token__wrong_sixth_small_number_in_log(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Adds 1e-9 to the probability before the logarithm, so no token ever costs more than 30 bits."""
    probabilities = torch.softmax(logits[mask], dim=-1)
    chosen = probabilities.gather(-1, targets[mask].unsqueeze(-1))
    costs = -torch.log2(chosen + 1e-9)
    return costs.sum() / max(costs.numel(), 1)


def bits_per_token__wrong_sixth_shifts_again(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Shifts once more: scores targets[:, i + 1] with place i, though place i belongs to targets[:, i]."""
    if logits.shape[1] > 1:
        logits, targets, mask = logits[:, :-1], targets[:, 1:], mask[:, 1:]
    logits = logits.masked_fill(~mask[..., None], 0.0)
    targets = targets.masked_fill(~mask, 0)
    logp = logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    total = -torch.where(mask, logp, torch.zeros_like(logp)).sum()
    return total / math.log(2) / mask.sum().clamp(min=1)


def bits_per_token__wrong_sixth_times_mask(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Silences the filler by multiplying its cost by 0, which is NaN where its logits are NaN or infinite."""
    safe = targets * mask
    safe = safe.clamp(0, logits.shape[-1] - 1)
    logp = F.log_softmax(logits, dim=-1).gather(2, safe.unsqueeze(2)).squeeze(2)
    bits = -logp / math.log(2)
    return (bits * mask).sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_sixth_nothing_is_nan(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Takes .mean() of the tokens that count, which is NaN and not 0 where none counts."""
    rows, wanted = logits[mask], targets[mask]
    nats = torch.logsumexp(rows, dim=-1) - rows[torch.arange(len(rows)), wanted]
    return (nats / math.log(2)).mean()


def bits_per_token__wrong_sixth_counts_by_targets(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Counts every place whose target is a valid id, as ignore_index would, and never asks the mask."""
    counts = (targets >= 0) & (targets < logits.shape[-1])
    chosen = torch.log_softmax(logits[counts], dim=-1)
    chosen = chosen.gather(1, targets[counts].reshape(-1, 1))
    return -(chosen / math.log(2)).sum() / counts.sum().clamp(min=1)


def bits_per_token__wrong_sixth_softmax_over_places(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Takes the softmax over axis 1, the places of a text, where the vocabulary is axis 2."""
    quiet = torch.where(mask[:, :, None], logits, torch.zeros_like(logits))
    ids = torch.where(mask, targets, torch.zeros_like(targets))
    logp = torch.log_softmax(quiet, dim=1)
    picked = torch.gather(logp, 2, ids[:, :, None])[:, :, 0]
    costs = -picked[mask] / math.log(2)
    return costs.sum() / max(1, int(mask.sum()))


def bits_per_token__wrong_sixth_perplexity(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Returns two to the power of the mean, the perplexity, where the bits themselves are asked for."""
    logp = torch.log_softmax(logits[mask], dim=-1)
    costs = -logp.gather(-1, targets[mask, None]).squeeze(-1) / math.log(2)
    if costs.numel() == 0:
        return costs.sum()
    return torch.exp2(costs.mean())


def bits_per_token__right_sixth_leads_over_the_target(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """A token costs log2 of the sum of 2 to the leads that all ids have over the target; counted rows only."""
    scores, wanted = logits[mask], targets[mask]
    leads = scores - scores.gather(1, wanted[:, None])
    costs = torch.logsumexp(leads, dim=1) / math.log(2)
    return costs.sum() / max(len(wanted), 1)


def bits_per_token__right_sixth_loop(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """A loop over the places that count, each with a softmax in logarithms of its own; the sum begins at an empty one."""
    total = logits[:0].sum()
    count = 0
    for b, i in mask.nonzero().tolist():
        row = logits[b, i]
        top = row.amax()
        log_sum = top + torch.log(torch.exp(row - top).sum())
        total = total + (log_sum - row[int(targets[b, i])])
        count += 1
    return total * math.log2(math.e) / (count or 1)


# ---------------------------------------------------------------------------
# 7.9 adamw_step
# ---------------------------------------------------------------------------
def adamw_step__wrong_sixth_v_of_deviations(
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
    """Puts the squared deviation of the gradient from m into v, as AdaBelief does, not the squared gradient."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * (grad - m) ** 2
    mean = m / (1 - beta1**step)
    spread = v / (1 - beta2**step)
    w = w - lr * weight_decay * w - lr * mean / (spread.sqrt() + eps)
    return w, m, v


def adamw_step__wrong_sixth_nesterov(
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
    """Looks one step ahead as NAdam does: mixes the corrected mean with the new gradient once more."""
    new_m = torch.lerp(grad, m, beta1)
    new_v = torch.lerp(grad * grad, v, beta2)
    m_hat = new_m / (1 - beta1 ** (step + 1))
    ahead = beta1 * m_hat + (1 - beta1) * grad / (1 - beta1**step)
    rms = torch.sqrt(new_v / (1 - beta2**step))
    new_w = w * (1 - lr * weight_decay) - lr * ahead / (rms + eps)
    return new_w, new_m, new_v


def adamw_step__wrong_sixth_hands_on_the_means(
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
    """Overwrites m and v by the corrected means and returns those, so the next step corrects twice."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad.square()
    m = m / (1 - beta1**step)
    v = v / (1 - beta2**step)
    decay = lr * weight_decay * w
    return w - decay - lr * m / (v.sqrt() + eps), m, v


def adamw_step__wrong_sixth_v_not_corrected(
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
    """Corrects m for its start at 0 and forgets to correct v."""
    first = m * beta1 + grad * (1 - beta1)
    second = v * beta2 + grad * grad * (1 - beta2)
    correction = 1 - beta1**step
    direction = (first / correction) / (torch.sqrt(second) + eps)
    return w - lr * (direction + weight_decay * w), first, second


def adamw_step__wrong_sixth_decays_the_moved_weight(
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
    """Moves the weight first and lets the moved weight decay, so that the decay takes a share of the move too."""
    m = m + (1 - beta1) * (grad - m)
    v = v + (1 - beta2) * (grad**2 - v)
    rms = (v / (1 - beta2**step)) ** 0.5
    w = w - lr * (m / (1 - beta1**step)) / (rms + eps)
    w = w - lr * weight_decay * w
    return w, m, v


def adamw_step__wrong_sixth_decay_in_units_of_rms(
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
    """Adds weight_decay * w to the mean gradient above the fraction line: the decay is divided by the RMS as well."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad * grad
    numerator = m / (1 - beta1**step) + weight_decay * w
    denominator = torch.sqrt(v / (1 - beta2**step)) + eps
    return w - lr * numerator / denominator, m, v


def adamw_step__wrong_sixth_one_rms_for_the_tensor(
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
    """Measures the move in one root mean square of the whole tensor, where each weight has its own."""
    m_new = beta1 * m + (1 - beta1) * grad
    v_new = beta2 * v + (1 - beta2) * grad.pow(2)
    mean_gradient = m_new / (1 - beta1**step)
    mean_square = v_new / (1 - beta2**step)
    unit = mean_square.mean().sqrt() + eps
    w_new = w - lr * mean_gradient / unit - lr * weight_decay * w
    return w_new, m_new, v_new


def adamw_step__wrong_sixth_decay_without_lr(
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
    """Takes the share weight_decay of w, without the learning rate (the form of the paper's schedule multiplier)."""
    m, v = (
        beta * old + (1 - beta) * new
        for beta, old, new in ((beta1, m, grad), (beta2, v, grad**2))
    )
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return (1 - weight_decay) * w - lr * m_hat / (v_hat.sqrt() + eps), m, v


# ---------------------------------------------------------------------------
# 7.10 sample
# ---------------------------------------------------------------------------
def sample__wrong_sixth_cuts_before_temperature(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Cuts by top_p on the model's own probabilities and applies the temperature only to what is left."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            token = int(logits.argmax())
        else:
            plain = torch.softmax(logits.double(), dim=-1)
            ranked, order = plain.sort(descending=True)
            before = ranked.cumsum(0) - ranked
            keep = before < top_p
            keep[0] = True
            if top_p >= 1:
                keep[:] = True
            scaled = (logits.double() - logits.max()) / temperature
            p = torch.zeros_like(plain)
            p[order[keep]] = torch.exp(scaled)[order[keep]]
            p = p / p.sum()
            token = int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_sixth_one_id_too_few(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Keeps ids as long as their sum stays at or below top_p (at least one): the id that reaches it is missing."""
    out = prompt[:]
    for _ in range(max_len - len(prompt)):
        logits = next_logits(out)
        if temperature == 0:
            nxt = logits.argmax().item()
        else:
            z = (logits - logits.max()).double() / temperature
            p = torch.softmax(z, dim=0)
            ranked, order = torch.sort(p, descending=True)
            n_kept = max(1, int((ranked.cumsum(0) <= top_p + 1e-12).sum()))
            if top_p == 1:
                n_kept = len(p)
            kept = torch.zeros_like(p)
            kept[order[:n_kept]] = ranked[:n_kept]
            kept = kept.to(logits.dtype)
            nxt = torch.multinomial(kept, 1, generator=generator).item()
        out.append(nxt)
        if nxt == end:
            break
    return out


def sample__wrong_sixth_end_in_prompt_stops(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Asks in the loop's head whether the last token is the end, so a prompt that closes with it gets nothing."""
    tokens = list(prompt)
    while len(tokens) < max_len and tokens[-1] != end:
        logits = next_logits(tokens)
        if temperature == 0:
            tokens.append(int(torch.argmax(logits)))
            continue
        p = torch.softmax((logits.double() - logits.max()) / temperature, dim=-1)
        order = torch.argsort(p, descending=True).tolist()
        kept, mass = torch.zeros_like(p), 0.0
        for i in order:
            kept[i] = p[i]
            mass += float(p[i])
            if mass >= top_p and top_p < 1:
                break
        kept = kept.to(logits.dtype)
        tokens.append(int(torch.multinomial(kept, 1, generator=generator)))
    return tokens


def sample__wrong_sixth_max_len_counts_new(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Generates up to max_len further tokens, as max_new_tokens elsewhere; the prompt is not counted."""
    tokens = [*prompt]
    for _ in range(max_len):
        logits = next_logits(tokens)
        if temperature > 0:
            z = (logits.double() - logits.double().max()) / temperature
            p = torch.exp(z)
            p = p / p.sum()
            s, idx = p.sort(descending=True)
            drop = s.cumsum(0) - s >= top_p
            drop[0] = False
            drop = drop & (top_p < 1)
            p[idx[drop]] = 0
            token = int(
                torch.multinomial(p.to(logits.dtype), 1, generator=generator)[0]
            )
        else:
            token = int(logits.argmax())
        tokens.append(token)
        if token == end:
            return tokens
    return tokens


def sample__wrong_sixth_draws_from_sorted_list(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Draws a place of the sorted list and looks its id up: right odds, but p is not in the order of ids."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p = torch.softmax((logits.double() - logits.max()) / temperature, -1)
            ranked, ids = torch.sort(p, descending=True)
            too_late = ranked.cumsum(-1) - ranked >= top_p
            too_late[0] = False
            if top_p < 1:
                ranked = ranked.masked_fill(too_late, 0)
            ranked = ranked.to(logits.dtype)
            place = torch.multinomial(ranked, 1, generator=generator)
            token = int(ids[place])
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_sixth_least_temperature(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Raises every temperature below 0.1 to 0.1 to avoid a division by 0, and draws there too."""
    tokens = list(prompt)
    heat = max(float(temperature), 0.1)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        p = torch.softmax(logits.double() / heat, dim=-1)
        ranked, order = p.sort(descending=True)
        size = 1 + int((ranked.cumsum(0)[:-1] < top_p).sum())
        if top_p == 1:
            size = p.numel()
        chosen = torch.zeros_like(p).scatter(0, order[:size], ranked[:size])
        token = torch.multinomial(chosen.to(logits.dtype), 1, generator=generator)
        tokens.append(token.item())
        if tokens[-1] == end:
            break
    return tokens


def sample__wrong_sixth_shows_the_last_token(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Shows the model nothing but the last token, as one does with a cache of keys and values."""
    tokens = list(prompt)

    def nucleus(logits):
        p = ((logits.double() - logits.max()) / temperature).softmax(-1)
        if top_p == 1:
            return p
        order = p.argsort(descending=True)
        reached = p[order].cumsum(0)
        size = min(int((reached < top_p).sum()) + 1, len(p))
        allowed = torch.zeros_like(p)
        allowed[order[:size]] = 1
        return p * allowed

    while len(tokens) < max_len:
        logits = next_logits(tokens[-1:])
        if temperature == 0:
            new = int(logits.argmax())
        else:
            p = nucleus(logits).to(logits.dtype)
            new = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(new)
        if new == end:
            break
    return tokens


def sample__wrong_sixth_softmax_twice(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Sends the kept probabilities through a second softmax to make their sum 1, which changes their odds."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p = torch.softmax((logits.double() - logits.max()) / temperature, dim=0)
            ranked, order = p.sort(descending=True)
            cut = ranked.cumsum(0) - ranked >= top_p
            cut[0] = False
            if top_p < 1:
                p = p.index_fill(0, order[cut], -math.inf)
            p = torch.softmax(p, dim=0).to(logits.dtype)
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__right_sixth_mass_of_likelier_ids(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """No sorting: an id may come if the ids with larger logits have less than top_p together; the first always may."""
    written = []
    while len(prompt) + len(written) < max_len and written[-1:] != [end]:
        logits = next_logits([*prompt, *written]).detach()
        lead = logits.double() - logits.double().max()
        if temperature == 0:
            written.append(int(lead.argmax()))
            continue
        scaled = torch.where(lead < 0, lead / temperature, torch.zeros_like(lead))
        p = scaled.exp() / scaled.exp().sum()
        likelier = (lead[None, :] > lead[:, None]).double() @ p
        may = (likelier < top_p) | (lead == 0) | (top_p >= 1)
        weights = torch.where(may, p, 0.0).to(logits.dtype)
        written.append(int(torch.multinomial(weights, 1, generator=generator)))
    return [*prompt, *written]


def sample__right_sixth_plain_python(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Plain Python floats, no softmax; ids are let in from the likeliest on until top_p is reached."""
    tokens = list(prompt)
    for _ in range(max_len - len(prompt)):
        logits = next_logits(list(tokens))
        values = logits.tolist()
        ranking = sorted(range(len(values)), key=values.__getitem__, reverse=True)
        token, top = ranking[0], values[ranking[0]]
        if temperature != 0:
            odds = [
                1.0 if x == top else math.exp((x - top) / temperature) for x in values
            ]
            total = math.fsum(odds)
            weights, inside = [0.0] * len(values), []
            for i in ranking:
                weights[i] = odds[i] / total
                inside.append(weights[i])
                if top_p < 1 and math.fsum(inside) >= top_p:
                    break
            p = torch.tensor(weights, dtype=logits.dtype)
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens
