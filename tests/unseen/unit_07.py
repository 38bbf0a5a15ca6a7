import functools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn


# ---- private helpers: what the notebook gives, and right earlier answers ----
def _mha(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    batch, n, _ = X.shape
    Q, K, V = (
        (X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V)
    )
    if mask is not None:
        mask = mask.expand(batch, n_heads, n, n)
        some = mask.any(dim=-1, keepdim=True)
        heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask | ~some) * some
    else:
        heads = F.scaled_dot_product_attention(Q, K, V)
    return heads.transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def _wide(x):
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _layer_norm(x, gamma, beta, eps=1e-5):
    w = _wide(x)
    centred = w - w.mean(-1, keepdim=True)
    var = (centred**2).mean(-1, keepdim=True)
    return (gamma * (centred / torch.sqrt(var + eps)) + beta).to(x.dtype)


def _batch_norm(x, gamma, beta, eps=1e-5):
    w = _wide(x)
    centred = w - w.mean((0, 1), keepdim=True)
    var = (centred**2).mean((0, 1), keepdim=True)
    return (gamma * (centred / torch.sqrt(var + eps)) + beta).to(x.dtype)


def _gelu(x):
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


def _feed_forward(x, W_1, b_1, W_2, b_2, activation):
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def _att(x, p, n_heads, mask):
    return _mha(
        x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )


def _ffn(x, p):
    return _feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def _norm(x, p, which):
    return _layer_norm(x, p[f"gamma_{which}"], p[f"beta_{which}"])


def _post_norm_block(x, params, n_heads, mask=None):
    y = _norm(x + _att(x, params, n_heads, mask), params, 1)
    return _norm(y + _ffn(y, params), params, 2)


def _pre_norm_block(x, params, n_heads, mask=None):
    y = x + _att(_norm(x, params, 1), params, n_heads, mask)
    return y + _ffn(_norm(y, params, 2), params)


def _causal(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


def _transformer_logits(tokens, params, n_heads):
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, _causal(n))
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def _bits_per_token(logits, targets, mask):
    rows, wanted = _wide(logits[mask]), targets[mask]
    chosen = rows.log_softmax(-1).gather(1, wanted[:, None])
    return (-chosen.sum() / max(len(wanted), 1) / math.log(2)).to(logits.dtype)


def _adamw_step(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    kind = w.dtype
    w, grad, m, v = (_wide(a) for a in (w, grad, m, v))
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    mean, square = m / (1 - beta1**step), v / (1 - beta2**step)
    new = w - lr * mean / (square.sqrt() + eps) - lr * weight_decay * w
    return new.to(kind), m.to(kind), v.to(kind)


def _chances(logits, temperature):
    logits = logits.double()
    return torch.softmax((logits - logits.max()) / temperature, dim=-1)


def _nucleus(p, top_p):
    if top_p >= 1:
        return p
    order = p.argsort(descending=True)
    count = int((p[order].cumsum(0) < top_p).sum()) + 1
    kept = torch.zeros_like(p)
    kept[order[:count]] = p[order[:count]]
    return kept


def _sample(next_logits, prompt, end, max_len, temperature, top_p, generator):
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p = _nucleus(_chances(logits, temperature), top_p).to(logits.dtype)
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


# ---- layer_norm ----
def layer_norm__wrong_sixteenth_whole_sentence(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Takes one mean and variance for a whole sentence, over tokens and features."""
    axes = (-2, -1) if x.dim() > 1 else (-1,)
    mu = x.mean(dim=axes, keepdim=True)
    dev = x - mu
    sigma2 = dev.square().mean(dim=axes, keepdim=True)
    return gamma * dev * torch.rsqrt(sigma2 + eps) + beta


def layer_norm__wrong_sixteenth_eps_as_floor(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Takes eps for the least allowed standard deviation instead of adding it to the variance."""
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    std = torch.sqrt(torch.clamp(variance, min=eps**2))
    return centred / std * gamma + beta


def layer_norm__wrong_sixteenth_affine_first(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Scales and shifts first and normalises afterwards, so gamma and beta are washed out."""
    x = gamma * x + beta
    mean = torch.einsum("...c->...", x)[..., None] / x.shape[-1]
    squares = torch.einsum("...c,...c->...", x - mean, x - mean)[..., None]
    return (x - mean) / (squares / x.shape[-1] + eps).sqrt()


def layer_norm__wrong_sixteenth_beta_inside(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Brackets slip: gamma multiplies beta as well."""
    mean = x.mean(dim=-1, keepdim=True)
    var = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    return gamma * ((x - mean) / (var + eps).sqrt() + beta)


def layer_norm__wrong_sixteenth_variance_without_dim(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The second mean lacks its dim: all tokens share one variance."""
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = (centred**2).mean()
    normed = centred / torch.sqrt(variance + eps)
    return gamma * normed + beta


def layer_norm__wrong_sixteenth_eps_squared(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Squares eps under the root, as if it were a standard deviation; eps itself stands there."""
    mean = x.mean(-1, keepdim=True)
    spread = x.sub(mean).pow(2).mean(-1, keepdim=True)
    return gamma * (x - mean) / (spread + eps**2) ** 0.5 + beta


def layer_norm__wrong_sixteenth_equal_features_kept(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """A token of equal features is passed through as it is instead of becoming beta."""
    mean = x.mean(-1, keepdim=True)
    var = ((x - mean) ** 2).mean(-1, keepdim=True)
    y = gamma * (x - mean) / torch.sqrt(var + eps) + beta
    return torch.where(var == 0, x, y)


def layer_norm__wrong_sixteenth_half_becomes_float(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Works in float32 for float16 tokens, and forgets to go back: the dtype is not kept."""
    if x.dtype == torch.float16:
        x, gamma, beta = x.float(), gamma.float(), beta.float()
    mean = x.mean(-1, keepdim=True)
    var = x.var(-1, correction=0, keepdim=True)
    return gamma * (x - mean) / torch.sqrt(var + eps) + beta


def layer_norm__right_sixteenth_length_of_deviations(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Divides by the length of the deviations, times the root of d, all in float64."""
    d = x.shape[-1]
    dev = x.double() - torch.einsum("...c->...", x.double()).unsqueeze(-1) / d
    length = (torch.einsum("...c,...c->...", dev, dev) + d * eps).sqrt()
    direction = dev / length.unsqueeze(-1)
    return torch.addcmul(beta.double(), gamma.double(), math.sqrt(d) * direction).to(
        x.dtype
    )


# ---- batch_norm ----
def batch_norm__wrong_sixteenth_mean_of_sentence_variances(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Averages the variances within the sentences; what lies between the sentences is lost."""
    mean = x.mean(dim=(0, 1))
    within = x.var(dim=1, correction=0)  # (B, d)
    variance = within.mean(dim=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_sixteenth_shared_variance(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Each feature has its own mean, but all features are divided by one common deviation."""
    columns = x.reshape(-1, x.shape[-1])
    mu = columns.sum(0) / len(columns)
    sigma2 = torch.mean((columns - mu) ** 2)
    out = (columns - mu) / (sigma2 + eps).sqrt()
    return (out * gamma + beta).reshape(x.shape)


def batch_norm__wrong_sixteenth_running_averages(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Normalises with running averages (momentum 0.1, from 0 and 1), not with the batch's own."""
    momentum = 0.1
    batch_mean = x.mean((0, 1))
    batch_var = ((x - batch_mean) ** 2).mean((0, 1))
    running_mean = momentum * batch_mean
    running_var = (1 - momentum) + momentum * batch_var
    return gamma * (x - running_mean) / torch.sqrt(running_var + eps) + beta


def batch_norm__wrong_sixteenth_reshape_for_transpose(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Reshapes to (d, B*n) where a transpose is needed: the features are mixed up."""
    by_feature = x.reshape(x.shape[-1], -1)
    mean = by_feature.mean(dim=1)
    var = by_feature.var(dim=1, correction=0)
    return gamma * (x - mean) / (var + eps).sqrt() + beta


def batch_norm__wrong_sixteenth_squares_by_n(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The sum of the squares is divided by n, not by B*n."""
    B, n, d = x.shape
    mean = x.sum(dim=(0, 1)) / (B * n)
    var = ((x - mean) ** 2).sum(dim=(0, 1)) / n
    return gamma * (x - mean) / torch.sqrt(var + eps) + beta


def batch_norm__wrong_sixteenth_unbiased(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Takes the unbiased variance, divided by B*n - 1 (by 1 for a single token)."""
    tokens = x.flatten(0, 1)
    dev = tokens - tokens.mean(0)
    var = dev.pow(2).sum(0) / max(len(tokens) - 1, 1)
    return (gamma * dev / torch.sqrt(var + eps) + beta).view_as(x)


def batch_norm__wrong_sixteenth_lone_sentence_untouched(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """A batch of one sentence is not normalised: “there is nothing to compare it with”."""
    if x.shape[0] == 1:
        return gamma * x + beta
    mean = x.mean((0, 1), keepdim=True)
    var = (x - mean).square().mean((0, 1), keepdim=True)
    return gamma * (x - mean) / torch.sqrt(var + eps) + beta


def batch_norm__wrong_sixteenth_statistics_without_gradient(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Mean and variance are made under no_grad: the values are right, the gradient of x is not."""
    wide = _wide(x)
    with torch.no_grad():
        mean = wide.mean((0, 1))
        var = ((wide - mean) ** 2).mean((0, 1))
    return (gamma * ((wide - mean) / torch.sqrt(var + eps)) + beta).to(x.dtype)


def batch_norm__right_sixteenth_feature_by_feature(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Walks over the features, centres twice, and stacks the columns; in float64 inside."""
    done = []
    for column, scale, shift in zip(x.double().unbind(-1), gamma, beta, strict=True):
        column = column - column.sum() / column.numel()
        column = column - column.mean()  # a second time, for the last digits
        power = torch.dot(column.flatten(), column.flatten()) / column.numel()
        done.append(column * (power + eps) ** -0.5 * scale + shift)
    return torch.stack(done, dim=-1).to(x.dtype)


# ---- gelu ----
def gelu__wrong_sixteenth_density_for_probability(x: torch.Tensor) -> torch.Tensor:
    """Multiplies by the density of the bell curve instead of the probability below x."""
    bell = torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return x * bell


def gelu__wrong_sixteenth_two_sided(x: torch.Tensor) -> torch.Tensor:
    """Takes the probability that the normal variable lies within |x| of 0: two-sided."""
    within = torch.erf(x.abs() / math.sqrt(2))
    return x * within


def gelu__wrong_sixteenth_standardises_x(x: torch.Tensor) -> torch.Tensor:
    """“Standard normal” is taken to mean that x has to be standardised before Φ."""
    z = x - x.mean()
    z = z / torch.sqrt((z**2).mean() + 1e-5)
    phi = 0.5 * (1 + torch.erf(z / 2**0.5))
    return x * phi


def gelu__wrong_sixteenth_times_root_two(x: torch.Tensor) -> torch.Tensor:
    """Multiplies by the root of 2 inside erf where it should divide."""
    return 0.5 * x * (1.0 + torch.erf(x * math.sqrt(2.0)))


def gelu__wrong_sixteenth_lost_bracket(x: torch.Tensor) -> torch.Tensor:
    """A bracket is lost: x/2 is multiplied by 1 only, and erf added."""
    return x / 2 * 1 + torch.erf(x / math.sqrt(2))


def gelu__wrong_sixteenth_tanh_form(x: torch.Tensor) -> torch.Tensor:
    """The approximation with tanh, where the exact form is asked for."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return x * (1 + torch.tanh(inner)) / 2


def gelu__wrong_sixteenth_relu_beyond_three(x: torch.Tensor) -> torch.Tensor:
    """Beyond ±3 it returns x or 0, as if Φ were exactly 1 or 0 there already."""
    y = x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    y = torch.where(x > 3, x, y)
    return torch.where(x < -3, torch.zeros_like(x), y)


def gelu__wrong_sixteenth_gate_detached(x: torch.Tensor) -> torch.Tensor:
    """The gate Φ(x) is detached, so its share of the slope is lost; values are right."""
    gate = (1 + torch.erf(x / math.sqrt(2))) / 2
    return x * gate.detach()


def gelu__right_sixteenth_complement(x: torch.Tensor) -> torch.Tensor:
    """With the complementary error function of -x, in float64, back to x's dtype at the end."""
    wide = x.to(torch.float64)
    upper = torch.special.erfc(-wide * math.sqrt(0.5))
    return (wide * upper).div(2).to(x.dtype)


# ---- feed_forward ----
def feed_forward__wrong_sixteenth_activates_the_input(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Bends the token before the first map; between the maps nothing bends."""
    bent = activation(x)
    hidden = bent @ W_1 + b_1
    return hidden @ W_2 + b_2


def feed_forward__wrong_sixteenth_activation_as_gate(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Takes the activation for a gate and multiplies the hidden features by it."""
    scores = torch.einsum("...i,ij->...j", x, W_1) + b_1
    gates = activation(scores)
    return torch.einsum("...j,ji->...i", gates * scores, W_2) + b_2


def feed_forward__wrong_sixteenth_tied_matrices(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Thinks that going back is undoing the first map: uses W_1 transposed in place of W_2."""
    up = activation(x @ W_1 + b_1)
    down = up @ W_1.transpose(0, 1)
    return down + b_2


def feed_forward__wrong_sixteenth_bias_outside(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """A bracket closes too early: b_1 is added after the activation."""
    return (activation(x @ W_1) + b_1) @ W_2 + b_2


def feed_forward__wrong_sixteenth_activated_twice(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """The activation is applied twice in a row, which ReLU does not show."""
    hidden = activation(x @ W_1 + b_1)
    out = activation(hidden) @ W_2
    return out + b_2


def feed_forward__wrong_sixteenth_norm_inside(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Normalises the token first, although the docstring says: no norm."""
    plain = _layer_norm(x, torch.ones_like(b_2), torch.zeros_like(b_2))
    return activation(plain @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_sixteenth_squeezed(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Squeezes at the end: axes of size 1, such as a batch of one sentence, get lost."""
    rows = x.unsqueeze(-2)  # every token as a matrix of one row
    hidden = activation(rows @ W_1 + b_1)
    return (hidden @ W_2 + b_2).squeeze()


def feed_forward__wrong_sixteenth_sum_starts_in_float32(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """The sum starts from zeros of the default dtype: float16 in, float32 out."""
    hidden = activation(x @ W_1 + b_1)
    total = torch.zeros(*x.shape[:-1], W_2.shape[1])
    for k in range(W_2.shape[0]):
        total = total + hidden[..., k : k + 1] * W_2[k]
    return total + b_2


def feed_forward__right_sixteenth_bias_as_a_row(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Each bias becomes one more row of its matrix, and each token gets a feature 1."""

    def affine(token, W, b):
        one = torch.ones_like(token[..., :1])
        return torch.cat([token, one], dim=-1) @ torch.cat([W, b.unsqueeze(0)])

    return affine(activation(affine(x, W_1, b_1)), W_2, b_2)


# ---- post_norm_block ----
def post_norm_block__wrong_sixteenth_ffn_first(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The FFN comes first and attention second."""
    y = x + _ffn(x, params)
    y = _layer_norm(y, params["gamma_2"], params["beta_2"])
    z = y + _att(y, params, n_heads, mask)
    return _layer_norm(z, params["gamma_1"], params["beta_1"])


def post_norm_block__wrong_sixteenth_norms_the_sublayer(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Norms what the sublayer returns and adds that; post-norm norms the sum."""
    heard = _att(x, params, n_heads, mask)
    y = x + _layer_norm(heard, params["gamma_1"], params["beta_1"])
    thought = _ffn(y, params)
    return y + _layer_norm(thought, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_sixteenth_bypass_from_the_start(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The second residual starts at the block's input x, as if one bypass led past both."""
    residual = x
    h = _norm(residual + _att(x, params, n_heads, mask), params, 1)
    h = _ffn(h, params)
    return _norm(residual + h, params, 2)


def post_norm_block__wrong_sixteenth_same_norm_twice(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Copied line: the second norm has gamma_1 and beta_1 again."""
    y = x + _att(x, params, n_heads, mask)
    y = _layer_norm(y, params["gamma_1"], params["beta_1"])
    z = y + _ffn(y, params)
    return _layer_norm(z, params["gamma_1"], params["beta_1"])


def post_norm_block__wrong_sixteenth_query_key_swapped(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """W_K and W_Q are handed over in the wrong order."""
    names = ("W_K", "W_Q", "W_V", "W_O", "b_O")
    weights = [params[name] for name in names]
    y = _norm(x + _mha(x, *weights, n_heads, mask), params, 1)
    return _norm(y + _ffn(y, params), params, 2)


def post_norm_block__wrong_sixteenth_mask_inverted(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reads the mask as PyTorch's modules do, True = may not attend, and turns it round."""
    if mask is not None:
        mask = torch.logical_not(mask)
    attended = _att(x, params, n_heads, mask)
    y = _norm(x + attended, params, 1)
    return _norm(y + _ffn(y, params), params, 2)


def post_norm_block__wrong_sixteenth_diagonal_always_open(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Opens the diagonal of the mask “for safety”: wrong where a token may not see itself."""
    if mask is not None:
        mask = mask | torch.eye(x.shape[1], dtype=torch.bool)
    y = _norm(x + _att(x, params, n_heads, mask), params, 1)
    return _norm(y + _ffn(y, params), params, 2)


def post_norm_block__wrong_sixteenth_adds_in_place(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The first residual is added in place: the caller's x is changed."""
    x += _att(x, params, n_heads, mask)
    y = _norm(x, params, 1)
    y = y + _ffn(y, params)
    return _norm(y, params, 2)


def post_norm_block__right_sixteenth_sentence_by_sentence(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Runs every sentence of the batch by itself, in one loop over both sublayers."""
    B, n, _ = x.shape
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    out = []
    for b in range(B):
        own = None if mask is None else mask[b]
        steps = {
            1: lambda t, own=own: _att(t, params, n_heads, own),
            2: lambda t: _ffn(t, params),
        }
        stream = x[b : b + 1]
        for number, sublayer in steps.items():
            stream = _norm(sublayer(stream).add(stream), params, number)
        out.append(stream)
    return torch.cat([x[:0], *out])


# ---- pre_norm_block ----
def pre_norm_block__wrong_sixteenth_bypass_carries_normed(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The bypass starts after the norm, so it carries the normed tokens."""
    h = _layer_norm(x, params["gamma_1"], params["beta_1"])
    h = h + _att(h, params, n_heads, mask)
    h = _layer_norm(h, params["gamma_2"], params["beta_2"])
    return h + _ffn(h, params)


def pre_norm_block__wrong_sixteenth_side_by_side(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Both sublayers read the block's input: the FFN does not see what attention brought."""
    from_others = _att(_norm(x, params, 1), params, n_heads, mask)
    from_itself = _ffn(_norm(x, params, 2), params)
    return x + from_others + from_itself


def pre_norm_block__wrong_sixteenth_only_queries_normed(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Only the queries see the normed tokens; keys and values are made from x as it is."""
    B, n, _ = x.shape
    normed = _norm(x, params, 1)
    q, k, v = (
        (t @ params[name]).reshape(B, n, n_heads, -1).transpose(1, 2)
        for t, name in ((normed, "W_Q"), (x, "W_K"), (x, "W_V"))
    )
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        some = mask.any(-1, keepdim=True)
        scores = scores.masked_fill(~(mask | ~some), -math.inf)
    heads = scores.softmax(-1) @ v
    if mask is not None:
        heads = heads * some
    heads = heads.transpose(1, 2).reshape(B, n, -1)
    y = x + heads @ params["W_O"] + params["b_O"]
    return y + _ffn(_norm(y, params, 2), params)


def pre_norm_block__wrong_sixteenth_x_for_y(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Wrong variable in the last line: x is added where y should be."""
    y = x + _att(_norm(x, params, 1), params, n_heads, mask)
    hidden = _ffn(_norm(y, params, 2), params)
    return x + hidden


def pre_norm_block__wrong_sixteenth_beta_of_the_other_norm(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The norm before the FFN has gamma_2, but beta_1."""
    g1, b1, g2 = params["gamma_1"], params["beta_1"], params["gamma_2"]
    y = x + _att(_layer_norm(x, g1, b1), params, n_heads, mask)
    return y + _ffn(_layer_norm(y, g2, b1), params)


def pre_norm_block__wrong_sixteenth_sum_normed_again(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Norms the sum at the end once more, which the text leaves to the end of the stack."""
    y = x + _att(_norm(x, params, 1), params, n_heads, mask)
    z = y + _ffn(_norm(y, params, 2), params)
    return _norm(z, params, 2)


def pre_norm_block__wrong_sixteenth_three_axes_as_batch(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes a mask of three axes as (B, n, n); broadcasting makes it (h, n, n)."""
    if mask is not None and mask.dim() == 3:
        mask = mask.unsqueeze(1)
    y = x + _att(_norm(x, params, 1), params, n_heads, mask)
    return y + _ffn(_norm(y, params, 2), params)


def pre_norm_block__wrong_sixteenth_forbidden_attention(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Right values, but it calls scaled_dot_product_attention, which no answer may."""
    B, n, _ = x.shape
    t = _norm(x, params, 1)
    q, k, v = (
        (t @ params[w]).view(B, n, n_heads, -1).transpose(1, 2)
        for w in ("W_Q", "W_K", "W_V")
    )
    if mask is None:
        mask = torch.ones(n, n, dtype=torch.bool)
    some = mask.any(-1, keepdim=True)
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | ~some) * some
    y = x + heads.transpose(1, 2).flatten(2) @ params["W_O"] + params["b_O"]
    return y + _ffn(_norm(y, params, 2), params)


def pre_norm_block__right_sixteenth_head_by_head(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention is written out head by head, and each head adds its note to the stream."""
    B, n, _ = x.shape
    p = params
    seen = torch.ones(1, dtype=torch.bool) if mask is None else mask
    seen = seen.expand(B, n_heads, n, n)
    size = p["W_Q"].shape[1] // n_heads
    normed = _norm(x, p, 1)
    stream = x + p["b_O"]
    for h in range(n_heads):
        own = slice(h * size, (h + 1) * size)
        q, k, v = (normed @ p[name][:, own] for name in ("W_Q", "W_K", "W_V"))
        blind = ~seen[:, h].any(-1, keepdim=True)
        scores = torch.einsum("bid,bjd->bij", q / math.sqrt(size), k)
        weights = scores.masked_fill(~(seen[:, h] | blind), -math.inf).softmax(-1)
        stream = stream + weights.masked_fill(blind, 0) @ v @ p["W_O"][own]
    return stream + _ffn(_norm(stream, p, 2), p)


# ---- transformer_logits ----
def transformer_logits__wrong_sixteenth_positions_in_every_block(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Adds the positions anew before every block, lest they be forgotten."""
    n = tokens.shape[1]
    pos = params["W_pos"][:n]
    x = params["W_E"][tokens]
    if not params["blocks"]:
        x = x + pos
    for block in params["blocks"]:
        x = _pre_norm_block(x + pos, block, n_heads, _causal(n))
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_sixteenth_scaled_embedding(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Multiplies the embeddings by the root of d_model, as the paper of 2017 does."""
    d_model = params["W_E"].shape[1]
    n = tokens.size(1)
    x = F.embedding(tokens, params["W_E"]) * math.sqrt(d_model)
    x = x + params["W_pos"][:n]
    mask = torch.tril(torch.ones(n, n)).bool()
    for p in params["blocks"]:
        x = _pre_norm_block(x, p, n_heads, mask)
    x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_sixteenth_final_norm_after_each_block(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """The final norm stands inside the loop: it follows every block."""
    gamma, beta = params["gamma_f"], params["beta_f"]
    n = tokens.shape[-1]
    stream = params["W_E"][tokens] + params["W_pos"][torch.arange(n)]
    if len(params["blocks"]) == 0:
        stream = _layer_norm(stream, gamma, beta)
    for layer in params["blocks"]:
        stream = _pre_norm_block(stream, layer, n_heads, _causal(n))
        stream = _layer_norm(stream, gamma, beta)
    return torch.einsum("bnd,dv->bnv", stream, params["W_U"])


def transformer_logits__wrong_sixteenth_last_positions(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Slices the wrong end: a short text gets the last n rows of W_pos."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][-n:]
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, _causal(n))
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_sixteenth_each_block_gets_the_embedding(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Wrong variable in the loop: every block starts from the embedding, only the last counts."""
    n = tokens.shape[1]
    embedded = params["W_E"][tokens] + params["W_pos"][:n]
    out = embedded
    mask = _causal(n)
    for block in params["blocks"]:
        out = _pre_norm_block(embedded, block, n_heads, mask)
    out = _layer_norm(out, params["gamma_f"], params["beta_f"])
    return out @ params["W_U"]


def transformer_logits__wrong_sixteenth_tied_unembedding(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Unembeds with W_E transposed; the text leaves tied embeddings out and has W_U."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, _causal(n))
    x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_E"].T


def transformer_logits__wrong_sixteenth_no_blocks_no_norm(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """With an empty list of blocks the final norm is skipped as well."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    if params["blocks"]:
        for block in params["blocks"]:
            x = _pre_norm_block(x, block, n_heads, _causal(n))
        x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_sixteenth_frozen_embedding(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """nn.Embedding.from_pretrained freezes what it is given: no gradient reaches W_E."""
    n = tokens.shape[1]
    embed = nn.Embedding.from_pretrained(params["W_E"])
    x = embed(tokens) + params["W_pos"][:n]
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, _causal(n))
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__right_sixteenth_one_hot_products(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Embeds by products with one-hot rows, and folds the blocks with reduce."""
    W_E, W_pos = params["W_E"], params["W_pos"]
    places = torch.arange(tokens.shape[1])
    ids = F.one_hot(tokens, W_E.shape[0]).to(W_E.dtype)
    rows = F.one_hot(places, W_pos.shape[0]).to(W_pos.dtype)
    past = places.unsqueeze(1) >= places.unsqueeze(0)  # row: query, column: key
    stream = functools.reduce(
        lambda x, block: _pre_norm_block(x, block, n_heads, past[None, None]),
        params["blocks"],
        ids @ W_E + rows @ W_pos,
    )
    normed = _layer_norm(stream, params["gamma_f"], params["beta_f"])
    return torch.tensordot(normed, params["W_U"], dims=1)


# ---- bits_per_token ----
def bits_per_token__wrong_sixteenth_mean_of_rows(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Takes each text's mean first and then the mean of those: short texts weigh too much."""
    means = []
    for row, wanted, counts in zip(logits, targets, mask, strict=True):
        if counts.any():
            log_p = row[counts].log_softmax(-1)
            cost = -log_p.gather(-1, wanted[counts][:, None]) / math.log(2)
            means.append(cost.mean())
    return torch.stack(means).mean() if means else logits[mask].sum()


def bits_per_token__wrong_sixteenth_shifted_once_more(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Shifts the targets by one, though place i scores targets[:, i] already."""
    logits, targets, mask = logits[:, :-1], targets[:, 1:], mask[:, 1:] & mask[:, :-1]
    rows, wanted = logits[mask], targets[mask]
    if len(wanted) == 0:
        return rows.sum()
    log_p = torch.log_softmax(rows, dim=-1)
    return -log_p[torch.arange(len(wanted)), wanted].mean() / math.log(2)


def bits_per_token__wrong_sixteenth_distance_to_the_favourite(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Measures how far the target lies below the likeliest token, not how unlikely it is."""
    rows, wanted = logits[mask], targets[mask]
    best = rows.amax(dim=-1)
    own = rows.gather(1, wanted.unsqueeze(1)).squeeze(1)
    costs = (best - own) / math.log(2)
    return costs.sum() / max(len(costs), 1)


def bits_per_token__wrong_sixteenth_divides_by_all_places(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Divides by all places of the batch, filler included."""
    chosen = logits[mask].log_softmax(-1).gather(1, targets[mask][:, None])
    return -chosen.sum() / mask.numel() / math.log(2)


def bits_per_token__wrong_sixteenth_softmax_over_places(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Wrong axis: the softmax of the counted rows runs over the places, not the vocabulary."""
    rows, wanted = logits[mask], targets[mask]
    if not len(wanted):
        return rows.sum()
    log_p = rows.log_softmax(dim=0)
    picked = torch.stack([log_p[i, t] for i, t in enumerate(wanted.tolist())])
    return -picked.mean() / math.log(2)


def bits_per_token__wrong_sixteenth_filler_by_its_target(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Knows filler by an impossible target; filler whose target looks like an id is counted."""
    vocab = logits.shape[-1]
    counts = (targets >= 0) & (targets < vocab) & mask.any()
    rows, wanted = logits[counts], targets[counts]
    log_p = rows.log_softmax(-1).gather(1, wanted[:, None])
    return -log_p.sum() / max(len(wanted), 1) / math.log(2)


def bits_per_token__wrong_sixteenth_filler_times_zero(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Multiplies the costs by the mask: an infinity or NaN in the filler's logits survives."""
    safe = targets.masked_fill(~mask, 0)
    log_p = torch.log_softmax(logits, dim=-1)
    costs = -torch.gather(log_p, -1, safe.unsqueeze(-1)).squeeze(-1) / math.log(2)
    return (costs * mask).sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_sixteenth_nan_gradient_in_filler(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """torch.where hides wild filler from the value, but its gradient there is NaN, not 0."""
    safe = torch.where(mask, targets, 0)
    log_p = logits.log_softmax(-1).gather(-1, safe[..., None])[..., 0]
    costs = torch.where(mask, -log_p / math.log(2), torch.zeros_like(log_p))
    return costs.sum() / mask.sum().clamp(min=1)


def bits_per_token__right_sixteenth_rivals_relative_to_target(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Shifts every row so that its target is 0; the cost is then the logsumexp, in bits."""
    where = mask.nonzero(as_tuple=True)
    rows = logits[where].double()
    own = rows[torch.arange(len(rows)), targets[where]]
    nats = torch.logsumexp(rows - own.unsqueeze(-1), dim=-1)
    total = nats.sum() * math.log2(math.e)
    return (total / (len(nats) or 1)).to(logits.dtype)


# ---- adamw_step ----
def adamw_step__wrong_sixteenth_plain_mean_by_step(
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
    """Divides m and v by step * (1 - beta), as if all gradients counted in full."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad * grad
    mean = m / (step * (1 - beta1))
    square = v / (step * (1 - beta2))
    w = w - lr * mean / (torch.sqrt(square) + eps) - lr * weight_decay * w
    return w, m, v


def adamw_step__wrong_sixteenth_spread_for_size(
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
    """Takes v for a variance: it gathers squared deviations from m, not squared gradients."""
    m_new = beta1 * m + (1 - beta1) * grad
    v_new = beta2 * v + (1 - beta2) * (grad - m_new) ** 2
    m_hat = m_new / (1 - beta1**step)
    v_hat = v_new / (1 - beta2**step)
    w_new = w * (1 - lr * weight_decay) - lr * m_hat / (v_hat.sqrt() + eps)
    return w_new, m_new, v_new


def adamw_step__wrong_sixteenth_decay_measured_too(
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
    """Keeps the decay out of m, but divides it by the root mean square like the gradient."""
    m = torch.lerp(m, grad, 1 - beta1)
    v = torch.lerp(v, grad**2, 1 - beta2)
    direction = m / (1 - beta1**step) + weight_decay * w
    size = (v / (1 - beta2**step)).sqrt() + eps
    return w - lr * direction / size, m, v


def adamw_step__wrong_sixteenth_step_plus_one(
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
    """Off by one: corrects with the power step + 1, as if steps counted from 0."""
    t = step + 1
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    mean, square = m / (1 - beta1**t), v / (1 - beta2**t)
    w = w - lr * (mean / (square.sqrt() + eps) + weight_decay * w)
    return w, m, v


def adamw_step__wrong_sixteenth_beta1_for_both_corrections(
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
    """Copied factor: v, too, is corrected with beta1."""
    correction = 1 - beta1**step
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad.square()
    rms = torch.sqrt(v / correction)
    move = lr * (m / correction) / (rms + eps)
    return w - move - lr * weight_decay * w, m, v


def adamw_step__wrong_sixteenth_decays_the_moved_weight(
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
    """The decay takes its share of the weight that has moved already, not of the old w."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    mean, square = m / (1 - beta1**step), v / (1 - beta2**step)
    w = w - lr * mean / (square**0.5 + eps)
    w = w - lr * weight_decay * w
    return w, m, v


def adamw_step__wrong_sixteenth_no_decay_for_vectors(
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
    """Spares biases and gammas, tensors of fewer than two axes, from the decay."""
    decay = weight_decay if w.dim() >= 2 else 0.0
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    mean, square = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * (mean / (square.sqrt() + eps) + decay * w), m, v


def adamw_step__wrong_sixteenth_w_in_place(
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
    """Changes the caller's w in place, as an optimiser of PyTorch does; new tensors are asked for."""
    with torch.no_grad():
        m = beta1 * m + (1 - beta1) * grad
        v = beta2 * v + (1 - beta2) * grad**2
        rms = (v / (1 - beta2**step)).sqrt()
        w.mul_(1 - lr * weight_decay)
        w.addcdiv_(m / (1 - beta1**step), rms + eps, value=-lr)
    return w, m, v


def adamw_step__right_sixteenth_sum_of_the_weights(
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
    """Sums the weights of all gradients so far and divides by that sum; float64 inside."""
    kind = w.dtype
    w, grad, m, v = (a.double() for a in (w, grad, m, v))

    def updated(old, new, beta):
        weights = math.fsum((1 - beta) * beta**age for age in range(step))
        now = old + (1 - beta) * (new - old)
        return now, now / weights

    m, mean = updated(m, grad, beta1)
    v, square = updated(v, grad * grad, beta2)
    change = weight_decay * w + mean / (square.clamp(min=0).sqrt() + eps)
    return tuple(a.to(kind) for a in (w - lr * change, m, v))


# ---- sample ----
def sample__wrong_sixteenth_share_of_the_favourite(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Keeps ids with at least 1 - top_p of the favourite's probability, a threshold for each."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p = _chances(logits, temperature).to(logits.dtype)
            p = p * (p >= (1 - top_p) * p.max())
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_sixteenth_cut_before_temperature(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Cuts by the model's own probabilities and applies the temperature to what is left."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            token = int(torch.argmax(logits))
        else:
            allowed = _nucleus(_chances(logits, 1.0), top_p) > 0
            p = _chances(logits, temperature) * allowed
            token = int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))
        tokens.append(token)
        if token == end:
            return tokens
    return tokens


def sample__wrong_sixteenth_sums_in_order_of_ids(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Sums the probabilities in order of ids, not from the likeliest down, until top_p is met."""
    tokens = [*prompt]
    for _ in range(max_len - len(prompt)):
        logits = next_logits([*tokens])
        if temperature == 0:
            new = logits.argmax().item()
        else:
            p = _chances(logits, temperature)
            before = p.cumsum(0) - p
            p = torch.where((before < top_p) | (before == 0), p, torch.zeros_like(p))
            p = p.to(logits.dtype)
            new = torch.multinomial(p, 1, generator=generator).item()
        tokens.append(new)
        if new == end:
            break
    return tokens


def sample__wrong_sixteenth_stops_short_of_top_p(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Off by one: the id that carries the sum over top_p is left out (one always stays)."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p = _chances(logits, temperature)
            order = p.argsort(descending=True)
            count = max(int((p[order].cumsum(0) <= top_p).sum()), 1)
            if top_p < 1:
                p[order[count:]] = 0
            token = int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_sixteenth_end_left_out(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Leaves the loop before the end is appended, so the end is missing from the list."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p = _nucleus(_chances(logits, temperature), top_p).to(logits.dtype)
            token = int(torch.multinomial(p, 1, generator=generator))
        if token == end:
            break
        tokens.append(token)
    return tokens


def sample__wrong_sixteenth_prompt_may_end_it(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Looks at the last token whoever wrote it: a prompt that closes with the end is not continued."""
    tokens = list(prompt)
    while tokens[-1] != end and len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            tokens.append(int(logits.argmax()))
            continue
        p = _nucleus(_chances(logits, temperature), top_p).to(logits.dtype)
        tokens.append(int(torch.multinomial(p, 1, generator=generator)))
    return tokens


def sample__wrong_sixteenth_temperature_has_a_floor(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Lifts small temperatures to 0.1 against overflow: below that the odds are wrong."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            token = int(logits.argmax())
        else:
            scaled = logits / max(temperature, 0.1)
            p = _nucleus(torch.softmax(scaled, dim=-1), top_p)
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_sixteenth_draws_at_temperature_zero(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """At temperature 0 it draws from the one id that is left: right tokens, generator used up."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            p = torch.zeros_like(logits)
            p[logits.argmax()] = 1.0
        else:
            p = _nucleus(_chances(logits, temperature), top_p).to(logits.dtype)
        token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__right_sixteenth_mass_of_likelier_ids(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """No sort: an id may come if all likelier ones together have less than top_p."""
    written = []
    for _ in range(len(prompt), max_len):
        logits = next_logits([*prompt, *written])
        if temperature == 0:
            written.append(logits.argmax().tolist())
        else:
            lead = logits.double() - logits.double().max()
            p = (lead / temperature).exp()
            p = p / p.sum()
            likelier = (p.unsqueeze(0) > p.unsqueeze(1)).double() @ p
            keep = (likelier < top_p) | (p == p.max()) | (top_p >= 1)
            p = p.masked_fill(~keep, 0).to(logits.dtype)
            written += torch.multinomial(p, 1, generator=generator).tolist()
        if written[-1] == end:
            break
    return [*prompt, *written]
