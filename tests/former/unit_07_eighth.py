"""Unit 7, the transformer block: answers as students would hand them in (tag: eighth)."""

import functools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F


# What the notebook gives, and right answers of earlier exercises.
def _multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
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
        mask = mask.expand(batch, n_heads, n, n)
        some = mask.any(dim=-1, keepdim=True)
        heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask | ~some) * some
    else:
        heads = F.scaled_dot_product_attention(Q, K, V)
    return heads.transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def _layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred**2).mean(-1, keepdim=True)
    return gamma * centred / torch.sqrt(variance + eps) + beta


def _gelu(x):
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


def _feed_forward(x, W_1, b_1, W_2, b_2, activation):
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def _pre_norm_block(x, params, n_heads, mask=None):
    p = params
    normed = _layer_norm(x, p["gamma_1"], p["beta_1"])
    y = x + _multi_head_attention(
        normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    normed = _layer_norm(y, p["gamma_2"], p["beta_2"])
    return y + _feed_forward(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


# ------------------------------------------------------------------ 7.1 layer_norm
def layer_norm__wrong_eighth_mean_absolute_deviation(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The spread is the mean of |x - mean|, squared, in place of the mean of (x - mean) squared."""
    mu = x.mean(dim=-1, keepdim=True)
    deviations = x - mu
    sigma = deviations.abs().mean(dim=-1, keepdim=True)
    return gamma * deviations / torch.sqrt(sigma**2 + eps) + beta


def layer_norm__wrong_eighth_eps_as_a_floor(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """eps is a lower bound of the variance, clamp(min=eps), and is not added to it."""
    var, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    safe = var.clamp(min=eps)
    return (x - mean) * safe.rsqrt() * gamma + beta


def layer_norm__wrong_eighth_shift_before_scale(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """beta is added before gamma multiplies, so that the shift is scaled as well."""

    def standardise(t):
        t = t - t.mean(-1, keepdim=True)
        return t / (t.square().mean(-1, keepdim=True) + eps).sqrt()

    return (standardise(x) + beta) * gamma


def layer_norm__wrong_eighth_whole_sequence(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Mean and variance run over the last two axes, tokens and features of a sequence together."""
    axes = (-1,) if x.ndim == 1 else (-2, -1)
    m = x.mean(axes, keepdim=True)
    v = ((x - m) ** 2).mean(axes, keepdim=True)
    normed = (x - m) / (v + eps) ** 0.5
    return gamma * normed + beta


def layer_norm__right_eighth_feature_by_feature(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The features are taken apart along the last axis, summed by Python, and stacked again."""
    features = x.unbind(-1)
    d = len(features)
    mean = sum(features) / d
    deviations = [feature - mean for feature in features]
    divisor = (sum(dev * dev for dev in deviations) / d + eps).sqrt()
    return torch.stack(
        [g * dev / divisor + b for g, dev, b in zip(gamma, deviations, beta)], dim=-1
    )


# ------------------------------------------------------------------ 7.2 batch_norm
def batch_norm__wrong_eighth_reshape_for_transpose(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """reshape(d, -1) stands for a transpose, so each row mixes features of a few tokens."""
    B, n, d = x.shape
    rows = x.reshape(d, B * n)  # one row for each feature
    mu = rows.mean(dim=1)
    var = rows.var(dim=1, correction=0)
    return gamma * (x - mu) / torch.sqrt(var + eps) + beta


def batch_norm__wrong_eighth_mean_of_sequence_variances(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The variance is the mean over the batch of each sequence's own variance: what lies between sequences is lost."""
    per_sequence_mean = x.mean(dim=1)
    per_sequence_var = ((x - per_sequence_mean.unsqueeze(1)) ** 2).mean(dim=1)
    mean = per_sequence_mean.mean(dim=0)
    var = per_sequence_var.mean(dim=0)
    return (x - mean) / torch.sqrt(var + eps) * gamma + beta


def batch_norm__wrong_eighth_pads_do_not_count(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Tokens of zeros are taken for <pad> and left out of mean and variance."""
    real = (x != 0).any(dim=-1)  # (B, n)
    words = x[real] if real.any() else x.flatten(0, 1)
    mu = words.mean(0)
    sigma2 = (words - mu).square().mean(0)
    return gamma * ((x - mu) / (sigma2 + eps).sqrt()) + beta


def batch_norm__wrong_eighth_single_token_passes(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """A batch of one token has no statistics for this author: it is scaled and shifted, but not normalised."""
    if x.shape[0] * x.shape[1] == 1:
        return gamma * x + beta
    centred = x - x.mean((0, 1))
    variance = torch.einsum("bnd,bnd->d", centred, centred) / (x.shape[0] * x.shape[1])
    return gamma * centred / torch.sqrt(variance + eps) + beta


def batch_norm__right_eighth_covariance_diagonal(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The variances are the diagonal of torch.cov over the tokens, all in one list, with correction 0."""
    features = x.flatten(0, 1).T  # (d, B*n)
    spread = torch.cov(features, correction=0).reshape(len(features), len(features))
    scale = gamma * torch.rsqrt(spread.diagonal() + eps)
    centred = features - features.mean(1, keepdim=True)
    return (scale[:, None] * centred + beta[:, None]).T.reshape(x.shape)


# ------------------------------------------------------------------ 7.3 gelu
def gelu__wrong_eighth_density(x: torch.Tensor) -> torch.Tensor:
    """x is multiplied by the density of the normal distribution, not by the probability Φ(x)."""
    bell = torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return x * bell


def gelu__wrong_eighth_draws_the_gate(x: torch.Tensor) -> torch.Tensor:
    """A standard normal number is drawn for each entry, and x passes where it is larger, at random."""
    z = torch.randn_like(x)
    return torch.where(z < x, x, torch.zeros_like(x))


def gelu__wrong_eighth_standardises_x(x: torch.Tensor) -> torch.Tensor:
    """x is standardised by the tensor's own mean and deviation before Φ, so the entries depend on each other."""
    mu, sigma = x.mean(), x.std(correction=0)
    z = (x - mu) / (sigma + 1e-5)
    cdf = 0.5 * (1 + torch.erf(z / math.sqrt(2)))
    return x * cdf


def gelu__wrong_eighth_erf_of_math(x: torch.Tensor) -> torch.Tensor:
    """Φ is made number by number with math.erf: the values are right, the gradient lacks the part through Φ."""
    phi = [0.5 * (1 + math.erf(value / 2**0.5)) for value in x.flatten().tolist()]
    phi = torch.tensor(phi, dtype=x.dtype).reshape(x.shape)
    return x * phi


def gelu__right_eighth_complement(x: torch.Tensor) -> torch.Tensor:
    """Φ(x) as half of the complementary error function of -x / √2."""
    return torch.special.erfc(x * -math.sqrt(0.5)) * x * 0.5


# ------------------------------------------------------------------ 7.4 feed_forward
def feed_forward__wrong_eighth_activation_on_input(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """The activation bends the token before the first map; nothing bends between the maps."""
    bent = activation(x)
    up = bent @ W_1 + b_1
    down = up @ W_2 + b_2
    return down


def feed_forward__wrong_eighth_gates_itself(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """The activation is taken for a gate: hidden * activation(hidden) goes into the second map."""
    hidden = torch.einsum("...m,mf->...f", x, W_1) + b_1
    gate = activation(hidden)
    return torch.einsum("...f,fm->...m", gate * hidden, W_2) + b_2


def feed_forward__wrong_eighth_dropout(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Dropout of a tenth of the hidden features, as in many implementations: the result is random."""
    h = activation(F.linear(x, W_1.T, b_1))
    h = F.dropout(h, p=0.1)
    return F.linear(h, W_2.T, b_2)


def feed_forward__wrong_eighth_stays_flat(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """All tokens are put into one list, and the result stays one: (tokens, d_model), whatever the axes of x."""
    tokens = x.reshape(-1, W_1.shape[0])
    hidden = activation(torch.addmm(b_1, tokens, W_1))
    return torch.addmm(b_2, hidden, W_2)


def feed_forward__right_eighth_biases_as_rows(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """Each bias is one more row of its matrix, met by a feature that is always 1."""

    def affine(t, W, b):
        one = torch.ones_like(t[..., :1])
        return torch.cat([t, one], -1) @ torch.cat([W, b.unsqueeze(0)])

    return affine(activation(affine(x, W_1, b_1)), W_2, b_2)


# ------------------------------------------------------------------ 7.5 post_norm_block
def post_norm_block__wrong_eighth_causal_by_default(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Without a mask the block makes itself a causal one, where all may attend to all."""
    n = x.shape[1]
    if mask is None:
        mask = torch.ones(n, n, dtype=torch.bool).tril()
    weights = [params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O")]
    y = x + _multi_head_attention(x, *weights, n_heads, mask)
    y = _layer_norm(y, params["gamma_1"], params["beta_1"])
    weights = [params[k] for k in ("W_1", "b_1", "W_2", "b_2")]
    z = y + _feed_forward(y, *weights, _gelu)
    return _layer_norm(z, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_eighth_first_head_s_mask(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """A mask of more than two axes is reduced to that of the first sequence and head, for all."""
    while mask is not None and mask.ndim > 2:
        mask = mask[0]  # the attention wants (n, n)
    p = params
    attended = _multi_head_attention(
        x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    y = _layer_norm(x + attended, p["gamma_1"], p["beta_1"])
    fed = _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _layer_norm(y + fed, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_eighth_b_O_twice(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """b_O is handed to the attention, which adds it, and is added to the attention's output again."""
    W_Q, W_K, W_V = params["W_Q"], params["W_K"], params["W_V"]
    W_O, b_O = params["W_O"], params["b_O"]
    att = _multi_head_attention(x, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=mask) + b_O
    y = _layer_norm(x + att, params["gamma_1"], params["beta_1"])
    hidden = _gelu(y @ params["W_1"] + params["b_1"])
    ffn = hidden @ params["W_2"] + params["b_2"]
    return _layer_norm(y + ffn, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_eighth_ffn_sees_unnormed_sum(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The FFN works on x + attention(x) before norm 1; only the residual takes the normed y."""
    attention_weights = {k: params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O")}
    ffn_weights = {k: params[k] for k in ("W_1", "b_1", "W_2", "b_2")}
    total = x + _multi_head_attention(
        x, **attention_weights, n_heads=n_heads, mask=mask
    )
    y = _layer_norm(total, params["gamma_1"], params["beta_1"])
    z = y + _feed_forward(total, **ffn_weights, activation=_gelu)
    return _layer_norm(z, params["gamma_2"], params["beta_2"])


def post_norm_block__right_eighth_head_by_head(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The given attention runs once for each head, with its columns and its rows of W_O; the results are summed."""
    batch, n, _ = x.shape
    columns = [params[k].chunk(n_heads, dim=1) for k in ("W_Q", "W_K", "W_V")]
    rows = params["W_O"].chunk(n_heads, dim=0)
    if mask is not None:
        mask = mask.expand(batch, n_heads, n, n)
    total = x + params["b_O"]
    for h, (q, k, v, o) in enumerate(zip(*columns, rows, strict=True)):
        own = None if mask is None else mask[:, h : h + 1]
        nothing = torch.zeros_like(params["b_O"])
        total = total + _multi_head_attention(x, q, k, v, o, nothing, 1, own)
    y = _layer_norm(total, params["gamma_1"], params["beta_1"])
    up, down = params["W_1"], params["W_2"]
    half = up.shape[1] // 2  # the hidden features in two parts
    z = y + params["b_2"]
    for part in (slice(None, half), slice(half, None)):
        z = z + _gelu(y @ up[:, part] + params["b_1"][part]) @ down[part]
    return _layer_norm(z, params["gamma_2"], params["beta_2"])


# ------------------------------------------------------------------ 7.6 pre_norm_block
def pre_norm_block__wrong_eighth_adds_in_place(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """`stream` is x itself, and += writes into it: the caller's x is changed."""
    p = params
    stream = x
    normed = _layer_norm(stream, p["gamma_1"], p["beta_1"])
    stream += _multi_head_attention(
        normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    normed = _layer_norm(stream, p["gamma_2"], p["beta_2"])
    stream += _feed_forward(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return stream


def pre_norm_block__wrong_eighth_mask_transposed(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The mask is transposed on its way to the attention, as if its rows were the keys."""
    keys_by_queries = None if mask is None else mask.transpose(-2, -1)

    def attention(t):
        W = (params[name] for name in ("W_Q", "W_K", "W_V", "W_O", "b_O"))
        return _multi_head_attention(t, *W, n_heads, keys_by_queries)

    def ffn(t):
        W = (params[name] for name in ("W_1", "b_1", "W_2", "b_2"))
        return _feed_forward(t, *W, _gelu)

    y = x + attention(_layer_norm(x, params["gamma_1"], params["beta_1"]))
    return y + ffn(_layer_norm(y, params["gamma_2"], params["beta_2"]))


def pre_norm_block__wrong_eighth_root_half(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Each sum is multiplied by 1/√2, to keep the variance of the stream, which no formula asks for."""
    scale = 1 / math.sqrt(2)
    p = params
    a = _layer_norm(x, p["gamma_1"], p["beta_1"])
    a = _multi_head_attention(
        a, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    y = (x + a) * scale
    f = _layer_norm(y, p["gamma_2"], p["beta_2"])
    f = _feed_forward(f, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return (y + f) * scale


def pre_norm_block__wrong_eighth_eps_of_bert(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Both norms are called with BERT's eps of 1e-12 in place of the default: faint tokens come out in full size."""
    eps = 1e-12
    norm_1 = _layer_norm(x, params["gamma_1"], params["beta_1"], eps)
    names = ["W_Q", "W_K", "W_V", "W_O", "b_O"]
    x = x + _multi_head_attention(norm_1, *map(params.get, names), n_heads, mask)
    norm_2 = _layer_norm(x, params["gamma_2"], params["beta_2"], eps)
    names = ["W_1", "b_1", "W_2", "b_2"]
    x = x + _feed_forward(norm_2, *map(params.get, names), _gelu)
    return x


def pre_norm_block__right_eighth_sequence_by_sequence(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Each sequence goes through the block by itself, with its own part of the mask; the FFN takes token by token."""
    batch, n, _ = x.shape
    masks = [None] * batch
    if mask is not None:
        masks = mask.expand(batch, n_heads, n, n).split(1)
    done = []
    for sequence, own in zip(x.split(1), masks, strict=True):
        shaped = _layer_norm(sequence, params["gamma_1"], params["beta_1"])
        weights = {name: params[name] for name in ("W_Q", "W_K", "W_V", "W_O", "b_O")}
        y = sequence + _multi_head_attention(
            shaped, n_heads=n_heads, mask=own, **weights
        )
        tokens = []
        for token in y[0]:
            t = _layer_norm(token, params["gamma_2"], params["beta_2"])
            hidden = _gelu(params["W_1"].T @ t + params["b_1"])
            tokens.append(token + (params["W_2"].T @ hidden + params["b_2"]))
        done.append(torch.stack(tokens))
    return torch.stack(done)


# ------------------------------------------------------------------ 7.7 transformer_logits
def transformer_logits__wrong_eighth_embeddings_times_root_d(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """The token embeddings are multiplied by √d_model before the positions are added, as in the paper of 2017."""
    n = tokens.shape[1]
    d_model = params["W_E"].shape[1]
    x = params["W_E"][tokens] * math.sqrt(d_model) + params["W_pos"][:n]
    causal = torch.tril(torch.ones(n, n, dtype=torch.bool))
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, causal)
    x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_eighth_id_0_is_padding(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Tokens of id 0 are taken for padding, and the mask hides them from all queries."""
    batch, n = tokens.shape
    real = (tokens != 0)[:, None, None, :]  # (B, 1, 1, n)
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    mask = causal & real
    x = F.embedding(tokens, params["W_E"]) + params["W_pos"][:n].expand(batch, -1, -1)
    for p in params["blocks"]:
        x = _pre_norm_block(x, p, n_heads, mask=mask)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_eighth_shifted_right(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """The input is shifted right behind a start token of id 0, as in a decoder's training: row i never sees token i."""
    start = torch.zeros_like(tokens[:, :1])
    shifted = torch.cat([start, tokens[:, :-1]], dim=1)
    i = torch.arange(tokens.shape[1])
    x = params["W_E"][shifted] + params["W_pos"][i]
    for p in params["blocks"]:
        x = _pre_norm_block(x, p, n_heads, i[:, None] >= i)
    x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return torch.einsum("bnd,dv->bnv", x, params["W_U"])


def transformer_logits__wrong_eighth_no_norm_without_blocks(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """The final norm stands inside the loop, after the last block, so a model of no blocks has none."""
    n = tokens.size(1)
    x = params["W_E"][tokens] + params["W_pos"][:n]
    mask = torch.ones((n, n), dtype=torch.bool).tril()
    last = len(params["blocks"]) - 1
    for number, block in enumerate(params["blocks"]):
        x = _pre_norm_block(x, block, n_heads, mask)
        if number == last:
            x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__right_eighth_two_hot_rows(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Token and position are two ones in a row that meets W_E on top of W_pos; the blocks are folded with reduce."""
    batch, n = tokens.shape
    table = torch.cat([params["W_E"], params["W_pos"]])
    here = torch.arange(n)
    rows = torch.zeros(batch, n, len(table), dtype=table.dtype)
    rows.scatter_(2, tokens[..., None], 1.0)
    rows[:, here, len(params["W_E"]) + here] = 1.0
    causal = here.unsqueeze(0) <= here.unsqueeze(1)
    end = functools.reduce(
        lambda x, block: _pre_norm_block(x, block, n_heads, causal),
        params["blocks"],
        rows @ table,
    )
    return _layer_norm(end, params["gamma_f"], params["beta_f"]).matmul(params["W_U"])


# ------------------------------------------------------------------ 7.8 bits_per_token
def bits_per_token__wrong_eighth_shifts_again(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Logits and targets are shifted against each other once more: place i is judged by targets[:, i + 1]."""
    logits, targets, mask = logits[:, :-1], targets[:, 1:], mask[:, 1:]
    rows, ids = logits[mask], targets[mask]
    log_p = torch.log_softmax(rows, dim=-1)
    surprise = -log_p.gather(1, ids[:, None]) / math.log(2)
    return surprise.sum() / max(len(ids), 1)


def bits_per_token__wrong_eighth_base_vocab(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """The logarithm is taken to the base vocab, so that guessing costs 1, not to the base 2."""
    vocab = logits.shape[-1]
    kept = logits[mask].log_softmax(-1)
    chosen = kept[torch.arange(len(kept)), targets[mask]]
    total = -chosen.sum() / math.log(vocab)
    count = int(mask.sum())
    return total / count if count else total


def bits_per_token__wrong_eighth_filler_in_the_gradient(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """The filler is dropped only after log_softmax, with where: infinite or NaN logits there give NaN gradients."""
    log_p = F.log_softmax(logits, dim=-1)
    ids = targets.masked_fill(~mask, 0)
    picked = torch.gather(log_p, 2, ids.unsqueeze(-1)).squeeze(-1)
    cost = torch.where(mask, -picked / math.log(2), torch.zeros_like(picked))
    return cost.sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_eighth_probability_floor(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Probabilities are kept above 1e-9 before log2, so no token costs more than about 30 bits."""
    probs = logits[mask].softmax(dim=-1)  # (tokens that count, vocab)
    p = probs.gather(-1, targets[mask].unsqueeze(-1)).squeeze(-1)
    bits = -torch.log2(p.clamp(min=1e-9))
    if bits.numel() == 0:
        return bits.sum()
    return bits.mean()


def bits_per_token__right_eighth_leads_over_target(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """A token's cost is the logsumexp of all logits' leads over that of the target, of the chosen places alone."""
    places = mask.nonzero(as_tuple=True)
    rows = logits[places]
    own = rows.take_along_dim(targets[places].unsqueeze(-1), dim=-1)
    nats = torch.logsumexp(rows - own, dim=-1)
    return nats.sum() / (math.log(2) * max(1, nats.numel()))


# ------------------------------------------------------------------ 7.9 adamw_step
def adamw_step__wrong_eighth_no_decay_for_vectors(
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
    """Only tensors of two axes or more decay; biases and gains are spared, as in GPT-2's training code."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / (1 - beta1**step)
    v_hat = v / (1 - beta2**step)
    decay = weight_decay if w.ndim >= 2 else 0.0
    w = w - lr * decay * w - lr * m_hat / (v_hat.sqrt() + eps)
    return w, m, v


def adamw_step__wrong_eighth_square_of_deviation(
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
    """v collects (grad - m) squared, a variance as in AdaBelief, and not the squares of the gradients."""
    new_m = m * beta1 + grad * (1 - beta1)
    surprise = grad - new_m
    new_v = v * beta2 + surprise * surprise * (1 - beta2)
    mean = new_m / (1 - beta1**step)
    root = (new_v / (1 - beta2**step)).sqrt()
    new_w = w * (1 - lr * weight_decay) - lr * mean / (root + eps)
    return new_w, new_m, new_v


def adamw_step__wrong_eighth_clips_the_gradient(
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
    """A gradient longer than 1 is clipped to length 1 first, as the training cell of section 8 does."""
    length = grad.norm()
    g = grad / length if length > 1 else grad
    m = torch.add(beta1 * m, g, alpha=1 - beta1)
    v = torch.addcmul(beta2 * v, g, g, value=1 - beta2)
    c1, c2 = 1 - beta1**step, 1 - beta2**step
    move = (m / c1) / (torch.sqrt(v / c2) + eps)
    return w - lr * (move + weight_decay * w), m, v


def adamw_step__wrong_eighth_one_mean_square_for_all(
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
    """The square that goes into v is averaged over the whole tensor, so all its weights share one root mean square."""
    mean_square = (grad**2).mean()
    m_new = beta1 * m + (1 - beta1) * grad
    v_new = beta2 * v + (1 - beta2) * mean_square
    unit = torch.sqrt(v_new / (1 - beta2**step)) + eps
    decayed = w - lr * weight_decay * w
    return decayed - lr * (m_new / (1 - beta1**step)) / unit, m_new, v_new


def adamw_step__right_eighth_weights_summed(
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
    """Averages by lerp; each is divided by the sum of the weights that the gradients so far have in it, added up."""
    m = torch.lerp(m, grad, 1 - beta1)
    v = torch.lerp(v, grad.square(), 1 - beta2)
    share_m = math.fsum((1 - beta1) * beta1**age for age in range(step))
    share_v = math.fsum((1 - beta2) * beta2**age for age in range(step))
    unit = v.div(share_v).sqrt() + eps
    change = m.div(share_m).div(unit) + w * weight_decay
    return torch.sub(w, change, alpha=lr), m, v


# ------------------------------------------------------------------ 7.10 sample
def sample__wrong_eighth_nucleus_made_once(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Which ids may come is worked out for the first new token and kept for all that follow."""
    tokens, allowed = list(prompt), None
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            token = int(logits.argmax())
        else:
            lead = (logits - logits.max()).double() / temperature
            p = torch.softmax(lead, -1)
            if allowed is None:
                ids = logits.argsort(descending=True)
                ordered = p[ids]
                before = ordered.cumsum(0) - ordered
                keep = before < top_p
                keep[0] = True
                allowed = torch.zeros_like(p, dtype=torch.bool)
                allowed[ids[keep]] = True
            p = (p * allowed).to(logits.dtype)
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_eighth_temperature_floor(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """A temperature between 0 and 0.1 is raised to 0.1, so that the division is harmless."""
    out = prompt.copy()
    greedy = temperature == 0
    T = max(temperature, 0.1)
    for _ in range(max_len - len(prompt)):
        z = next_logits(list(out))
        if greedy:
            choice = z.argmax().item()
        else:
            q = torch.softmax(z.double() / T, dim=0)
            by_size = z.argsort(descending=True)
            kept, mass = [], 0.0
            for i in by_size.tolist():
                if kept and mass >= top_p and top_p < 1:
                    break
                kept.append(i)
                mass += float(q[i])
            p = torch.zeros_like(z)
            p[kept] = q[kept].to(z.dtype)
            choice = torch.multinomial(p, 1, generator=generator).item()
        out.append(choice)
        if choice == end:
            return out
    return out


def sample__wrong_eighth_min_p(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """Ids may come whose probability is at least 1 - top_p times the largest: the rule of min_p, not of top_p."""
    written = [*prompt]
    while len(written) < max_len:
        logits = next_logits(written)
        if temperature == 0:
            new = int(torch.argmax(logits))
        else:
            leads = (logits - logits.amax()).double() / temperature
            p = leads.exp()  # the likeliest has 1
            p[p < 1 - top_p] = 0
            new = int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))
        written.append(new)
        if new == end:
            break
    return written


def sample__wrong_eighth_softmax_of_probabilities(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """The kept probabilities go through softmax again to make their sum 1, which evens out their odds."""

    def choose(logits):
        if temperature == 0:
            return int(logits.argmax())
        p = ((logits - logits.max()).double() / temperature).softmax(-1)
        order = torch.argsort(logits, descending=True)
        sizes = p[order]
        removed = sizes.cumsum(-1) - sizes >= top_p
        removed[0] = False
        p[order[removed]] = -math.inf
        p = torch.softmax(p, dim=-1)
        return int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))

    tokens = prompt[:]
    while len(tokens) < max_len:
        tokens.append(choose(next_logits(tokens)))
        if tokens[-1] == end:
            break
    return tokens


def sample__right_eighth_mass_of_the_likelier(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """No sorting: an id may come if the ids likelier than it have less than top_p together, by a table of comparisons."""
    tokens = list(prompt)
    for _ in range(len(prompt), max_len):
        logits = next_logits(list(tokens)).detach()
        best = int(logits.argmax())
        if temperature == 0:
            new = best
        else:
            leads = logits.double() - logits[best].double()  # before the division
            p = (leads / temperature).exp()
            p = p / p.sum()
            likelier = (logits.unsqueeze(0) > logits.unsqueeze(1)).double() @ p
            may = (likelier < top_p) | torch.tensor(top_p >= 1)
            may[best] = True
            weights = torch.where(may, p, 0.0).to(logits.dtype)
            new = int(torch.multinomial(weights, 1, generator=generator))
        tokens.append(new)
        if new == end:
            return tokens
    return tokens
