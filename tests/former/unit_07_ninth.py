"""Answers to the exercises of unit 7, the transformer block: for each function four wrong ones and a right one."""

import functools
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F


# ------- helpers: right versions of what the notebook gives or lets one use
def _layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = (centred**2).mean(dim=-1, keepdim=True)
    return gamma * centred / torch.sqrt(variance + eps) + beta


def _gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


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
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
        weights = weights * mask.any(dim=-1, keepdim=True)
    return (weights @ V).transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def _attend(x, p, n_heads, mask):
    return _multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)


def _ffn(x, p):
    return _feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def _pre_norm_block(x, p, n_heads, mask=None):
    y = x + _attend(_layer_norm(x, p["gamma_1"], p["beta_1"]), p, n_heads, mask)
    return y + _ffn(_layer_norm(y, p["gamma_2"], p["beta_2"]), p)


def _tempered(logits, temperature):
    scaled = (logits.double() - logits.double().max()) / temperature
    return torch.softmax(scaled, dim=-1)


def _nucleus(p, top_p):
    if top_p >= 1:
        return torch.ones_like(p, dtype=torch.bool)
    order = p.argsort(descending=True)
    before = p[order].cumsum(0) - p[order]
    kept = before < top_p
    kept[0] = True
    allowed = torch.zeros_like(p, dtype=torch.bool)
    allowed[order] = kept
    return allowed


# ------- 7.1 layer_norm
def layer_norm__wrong_ninth_all_axes_of_a_sample(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """The statistics run over all axes but the first, so that the tokens of a sequence share one mean and variance."""
    axes = tuple(range(1, x.ndim)) if x.ndim > 1 else (0,)
    spread, centre = torch.var_mean(x, dim=axes, correction=0, keepdim=True)
    z = (x - centre) * torch.rsqrt(spread + eps)
    return z * gamma + beta


def layer_norm__wrong_ninth_len_of_x(x, gamma, beta, eps=1e-5):
    """The summed squares are divided by len(x), the size of the first axis, which is d only for a single token."""
    ones = torch.ones_like(gamma) / gamma.shape[0]
    mean = torch.einsum("...c,c->...", x, ones)
    deviation = x - mean.unsqueeze(-1)
    variance = torch.einsum("...c,...c->...", deviation, deviation) / len(x)
    return deviation / (variance + eps).sqrt().unsqueeze(-1) * gamma + beta


def layer_norm__wrong_ninth_floor_under_eps(x, gamma, beta, eps=1e-5):
    """An eps below 1e-5 is replaced by 1e-5, so that a smaller one, or 0, has no effect on faint tokens."""
    eps = max(eps, 1e-5)  # never divide by something too small
    mu = x.mean(-1, keepdim=True)
    sigma = ((x - mu).square().mean(-1, keepdim=True) + eps) ** 0.5
    return gamma * ((x - mu) / sigma) + beta


def layer_norm__wrong_ninth_rows_share_memory(x, gamma, beta, eps=1e-5):
    """The mean is subtracted in place from a reshaped view, which writes into x."""
    width = x.shape[-1]
    rows = x.reshape(-1, width)
    rows -= rows.mean(dim=1, keepdim=True)
    size = torch.sqrt(rows.pow(2).sum(dim=1, keepdim=True) / width + eps)
    return (rows / size * gamma + beta).reshape(x.shape)


def layer_norm__right_ninth_norm_with_an_extra_entry(x, gamma, beta, eps=1e-5):
    """The root is the Euclidean length of the deviations and one more entry, sqrt(d * eps), divided by sqrt(d)."""
    d = x.shape[-1]
    away = x - x.mean(dim=-1, keepdim=True)
    extra = away.new_full((*x.shape[:-1], 1), math.sqrt(d * eps))
    length = torch.linalg.vector_norm(torch.cat([away, extra], dim=-1), dim=-1, keepdim=True)
    return torch.addcmul(beta, gamma, away * (math.sqrt(d) / length))


# ------- 7.2 batch_norm
def batch_norm__wrong_ninth_compared_with_the_others_only(
    x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    """Each token is left out of the mean and variance that it is normed with."""
    tokens = x.reshape(-1, x.shape[-1])
    results = []
    for k in range(len(tokens)):
        others = torch.cat([tokens[:k], tokens[k + 1 :]])
        mean = others.mean(0)
        variance = ((others - mean) ** 2).mean(0)
        results.append(gamma * (tokens[k] - mean) / torch.sqrt(variance + eps) + beta)
    return torch.stack(results).reshape(x.shape)


def batch_norm__wrong_ninth_put_back_in_another_order(x, gamma, beta, eps=1e-5):
    """The columns are brought back as (d, n, B) though they were laid out as (d, B, n), so results change places."""
    B, n, d = x.shape
    columns = x.permute(2, 0, 1).reshape(d, B * n)
    var, mean = torch.var_mean(columns, dim=1, correction=0, keepdim=True)
    columns = (columns - mean) / torch.sqrt(var + eps)
    columns = columns * gamma[:, None] + beta[:, None]
    return columns.reshape(d, n, B).permute(2, 1, 0)


def batch_norm__wrong_ninth_statistics_in_single_precision(x, gamma, beta, eps=1e-5):
    """Mean and variance are computed in float32 whatever x is, so float64 input loses its digits."""
    flat = x.float().flatten(0, 1)
    mean = flat.sum(0) / flat.shape[0]
    variance = (flat - mean).square().sum(0) / flat.shape[0]
    scale = gamma / (variance.to(x.dtype) + eps).sqrt()
    return (x - mean.to(x.dtype)) * scale + beta


def batch_norm__wrong_ninth_statistics_without_gradient(x, gamma, beta, eps=1e-5):
    """Mean and variance are taken without gradients, so the gradient of x misses the way through them."""
    count = x.shape[0] * x.shape[1]
    with torch.no_grad():
        mean = torch.einsum("bnd->d", x) / count
        deviation = x - mean
        variance = torch.einsum("bnd,bnd->d", deviation, deviation) / count
    return torch.addcmul(beta, x - mean, gamma * torch.rsqrt(variance + eps))


def batch_norm__right_ninth_feature_by_feature(x, gamma, beta, eps=1e-5):
    """It takes one feature at a time as a long vector, norms it with a dot product, and stacks the features again."""
    done = []
    for column, scale, shift in zip(x.unbind(-1), gamma.unbind(), beta.unbind(), strict=True):
        values = column.reshape(-1)
        values = values - values.mean()
        root = torch.sqrt(torch.dot(values, values) / values.numel() + eps)
        done.append((scale / root * values + shift).reshape(column.shape))
    return torch.stack(done, dim=-1)


# ------- 7.3 gelu
def gelu__wrong_ninth_relu_under_noise(x: torch.Tensor) -> torch.Tensor:
    """It returns the expected ReLU of x plus standard normal noise, which has the density at x as a further term."""
    below = 0.5 * torch.erfc(-x / math.sqrt(2))
    density = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return x * below + density


def gelu__wrong_ninth_upper_tail(x):
    """erfc is taken of x / sqrt(2) and not of its negative, which gives the probability of being greater than x."""
    return x * torch.erfc(x * math.sqrt(0.5)) * 0.5


def gelu__wrong_ninth_series_in_both_branches(x):
    """The values are right, but the series overflows far from 0 in the branch not taken, and the gradient is NaN."""
    square = x * x
    term = x / math.sqrt(2)
    total = term
    for k in range(1, 120):
        term = term * square / (2 * k + 1)
        total = total + term
    erf = total * torch.exp(-square / 2) * (2 / math.sqrt(math.pi))
    erf = torch.where(x.abs() < 6, erf, torch.sign(x))
    return x / 2 * (1 + erf)


def gelu__wrong_ninth_tossed_gate(x):
    """The gate is drawn, 1 with probability Phi(x) and else 0, from PyTorch's global generator."""
    with torch.no_grad():
        probability = torch.special.ndtr(x)
        gate = torch.bernoulli(probability)
    return gate * x


def gelu__right_ninth_distribution_object(x):
    """It asks a standard normal distribution of torch.distributions for the probability of being less than x."""
    standard = torch.distributions.Normal(x.new_zeros(()), x.new_ones(()))
    return x * standard.cdf(x)


# ------- 7.4 feed_forward
def feed_forward__wrong_ninth_activation_as_a_switch(
    x: torch.Tensor,
    W_1: torch.Tensor,
    b_1: torch.Tensor,
    W_2: torch.Tensor,
    b_2: torch.Tensor,
    activation: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """The activation only decides which hidden features pass, and those pass as they are, which is right for ReLU."""
    questions = x @ W_1 + b_1
    yes = activation(questions) > 0
    answers = torch.where(yes, questions, torch.zeros_like(questions))
    return answers @ W_2 + b_2


def feed_forward__wrong_ninth_columns_by_reshape(x, W_1, b_1, W_2, b_2, activation):
    """Tokens become columns by a reshape to (d_model, tokens), not by a transpose, which mixes features of tokens."""
    columns = x.reshape(x.shape[-1], -1)
    hidden = activation(W_1.T @ columns + b_1[:, None])
    out = W_2.T @ hidden + b_2[:, None]
    return out.reshape(x.shape)


def feed_forward__wrong_ninth_view_of_strided_tokens(x, W_1, b_1, W_2, b_2, activation):
    """The tokens are flattened with view, which fails for an x that is transposed or sliced in memory."""
    rows = x.view(-1, W_1.size(0))
    rows = torch.addmm(b_1, rows, W_1)
    rows = torch.addmm(b_2, activation(rows), W_2)
    return rows.view(x.shape)


def feed_forward__wrong_ninth_collected_in_float32(x, W_1, b_1, W_2, b_2, activation):
    """The results are gathered in a tensor of the default dtype, so float64 tokens come back as float32."""
    result = torch.zeros(x.reshape(-1, x.shape[-1]).shape)
    for i, token in enumerate(x.reshape(-1, x.shape[-1])):
        hidden = activation(token @ W_1 + b_1)
        result[i] = hidden @ W_2 + b_2
    return result.reshape(x.shape)


def feed_forward__right_ninth_biases_as_weights_of_a_one(x, W_1, b_1, W_2, b_2, activation):
    """Each bias becomes one more row of its matrix, and a 1 is appended to the token and to the hidden features."""

    def affine(rows, matrix, bias):
        together = torch.cat([matrix, bias.unsqueeze(0)])
        with_one = torch.cat([rows, rows.new_ones(*rows.shape[:-1], 1)], dim=-1)
        return torch.einsum("...i,ij->...j", with_one, together)

    return affine(activation(affine(x, W_1, b_1)), W_2, b_2)


# ------- 7.5 post_norm_block
def post_norm_block__wrong_ninth_norm_before_the_sum(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Each norm is applied to what the sublayer returns, before it is added, and not to the sum."""
    heard = _attend(x, params, n_heads, mask)
    y = x + _layer_norm(heard, params["gamma_1"], params["beta_1"])
    thought = _ffn(y, params)
    return y + _layer_norm(thought, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_ninth_shift_of_the_first_norm(x, params, n_heads, mask=None):
    """Both norms take beta_1 as their shift."""

    def add_and_norm(stream, change, number):
        total = stream + change
        var, mean = torch.var_mean(total, -1, correction=0, keepdim=True)
        return (total - mean) / (var + 1e-5).sqrt() * params[f"gamma_{number}"] + params["beta_1"]

    stream = add_and_norm(x, _attend(x, params, n_heads, mask), 1)
    return add_and_norm(stream, _ffn(stream, params), 2)


def post_norm_block__wrong_ninth_blind_query(x, params, n_heads, mask=None):
    """An attention of its own gives NaN for a query that may attend to nothing, where the given one gives 0."""
    B, n, _ = x.shape
    scores_of, values_of = [], []
    W_Q, W_K, W_V = (params[name].chunk(n_heads, dim=1) for name in ("W_Q", "W_K", "W_V"))
    for q, k, v in zip(W_Q, W_K, W_V, strict=True):
        scores_of.append((x @ q) @ (x @ k).mT / q.shape[1] ** 0.5)
        values_of.append(x @ v)
    scores = torch.stack(scores_of, dim=1)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    mixed = scores.softmax(-1) @ torch.stack(values_of, dim=1)
    heard = mixed.transpose(1, 2).reshape(B, n, -1) @ params["W_O"] + params["b_O"]
    y = _layer_norm(x + heard, params["gamma_1"], params["beta_1"])
    return _layer_norm(y + _ffn(y, params), params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_ninth_with_dropout(x, params, n_heads, mask=None):
    """A dropout of one in ten is applied to both sublayers' outputs, drawn at random in each call."""
    p = params
    attended = F.dropout(_attend(x, p, n_heads, mask), 0.1)
    y = F.layer_norm(x + attended, x.shape[-1:], p["gamma_1"], p["beta_1"])
    hidden = F.gelu(y @ p["W_1"] + p["b_1"])
    fed = F.dropout(hidden @ p["W_2"] + p["b_2"], 0.1)
    return F.layer_norm(y + fed, x.shape[-1:], p["gamma_2"], p["beta_2"])


def post_norm_block__right_ninth_fold_over_sublayers(x, params, n_heads, mask=None):
    """It folds a list of sublayers over the tokens, the attention as a sum of what each head writes."""
    p = params
    slices = {name: p[name].tensor_split(n_heads, dim=1) for name in ("W_Q", "W_K", "W_V")}
    slices["W_O"] = p["W_O"].tensor_split(n_heads, dim=0)

    def attention(t):
        B, n, _ = t.shape
        allowed = None if mask is None else mask.expand(B, n_heads, n, n)
        total = p["b_O"].expand(t.shape)
        for h in range(n_heads):
            q, k, v = (torch.einsum("bnd,de->bne", t, slices[name][h]) for name in ("W_Q", "W_K", "W_V"))
            scores = torch.einsum("bie,bje->bij", q, k) / math.sqrt(q.shape[-1])
            if allowed is not None:
                scores = scores.masked_fill(~allowed[:, h], torch.finfo(scores.dtype).min)
            weights = torch.softmax(scores, dim=-1)
            if allowed is not None:
                weights = weights.masked_fill(~allowed[:, h], 0)
            total = total + weights @ v @ slices["W_O"][h]
        return total

    def network(t):
        return _ffn(t, p)

    def step(t, part):
        number, sublayer = part
        return F.layer_norm(t + sublayer(t), t.shape[-1:], p[f"gamma_{number}"], p[f"beta_{number}"])

    return functools.reduce(step, enumerate((attention, network), start=1), x)


# ------- 7.6 pre_norm_block
def pre_norm_block__wrong_ninth_side_by_side(
    x: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The FFN works on the norm of x beside the attention, so it does not see what the attention has brought."""
    normed = [_layer_norm(x, params[f"gamma_{i}"], params[f"beta_{i}"]) for i in (1, 2)]
    notes = [_attend(normed[0], params, n_heads, mask), _ffn(normed[1], params)]
    return x + torch.stack(notes).sum(dim=0)


def pre_norm_block__wrong_ninth_heads_interleaved(x, params, n_heads, mask=None):
    """The columns are split as (d_head, h), not as (h, d_head), so each head gets the columns of several."""
    t = _layer_norm(x, params["gamma_1"], params["beta_1"])
    Q, K, V = (
        torch.einsum("bnd,dw->bnw", t, params[name]).unflatten(-1, (-1, n_heads)) for name in ("W_Q", "W_K", "W_V")
    )
    scores = torch.einsum("bqdh,bkdh->bhqk", Q, K) / math.sqrt(Q.shape[2])
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
        weights = weights * mask
    heard = torch.einsum("bhqk,bkdh->bqdh", weights, V).flatten(2)
    y = x + heard @ params["W_O"] + params["b_O"]
    return y + _ffn(_layer_norm(y, params["gamma_2"], params["beta_2"]), params)


def pre_norm_block__wrong_ninth_three_axes_are_the_batch(x, params, n_heads, mask=None):
    """A mask of three axes is read as (B, n, n), though by broadcasting its first axis is that of the heads."""
    if mask is not None and mask.ndim == 3:
        mask = mask.unsqueeze(1)  # room for the heads

    def norm(t, gamma, beta):
        return F.layer_norm(t, (t.shape[-1],), gamma, beta)

    get = params.__getitem__
    weights = map(get, ("W_Q", "W_K", "W_V", "W_O", "b_O"))
    y = x + _multi_head_attention(norm(x, get("gamma_1"), get("beta_1")), *weights, n_heads, mask)
    weights = map(get, ("W_1", "b_1", "W_2", "b_2"))
    return y + _feed_forward(norm(y, get("gamma_2"), get("beta_2")), *weights, F.gelu)


def pre_norm_block__wrong_ninth_always_itself(x, params, n_heads, mask=None):
    """A token is always allowed to attend to itself, also where the mask forbids it."""
    n = x.shape[1]
    if mask is None:
        allowed = torch.ones(n, n, dtype=torch.bool)
    else:
        allowed = mask | torch.eye(n, dtype=torch.bool)
    stream = x
    normed = _layer_norm(stream, params["gamma_1"], params["beta_1"])
    stream = stream + _attend(normed, params, n_heads, allowed)
    normed = _layer_norm(stream, params["gamma_2"], params["beta_2"])
    return stream + _ffn(normed, params)


def pre_norm_block__right_ninth_one_product_for_all_heads(x, params, n_heads, mask=None):
    """Queries, keys and values come from one product, and the softmax is written out with exponentials and a sum."""
    B, n, _ = x.shape
    seen = _layer_norm(x, params["gamma_1"], params["beta_1"])
    joint = torch.cat([params[name] for name in ("W_Q", "W_K", "W_V")], dim=1)
    Q, K, V = (seen @ joint).reshape(B, n, 3, n_heads, -1).unbind(dim=2)
    scores = torch.einsum("bqhd,bkhd->bhqk", Q / math.sqrt(Q.shape[-1]), K)
    if mask is None:
        mask = torch.ones(n, n, dtype=torch.bool, device=x.device)
    scores = torch.where(mask, scores, torch.full_like(scores, torch.finfo(scores.dtype).min))
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True)) * mask
    total = powers.sum(dim=-1, keepdim=True)
    weights = powers / torch.where(total == 0, torch.ones_like(total), total)
    heard = torch.einsum("bhqk,bkhd->bqhd", weights, V).reshape(B, n, -1)
    y = torch.addmm(params["b_O"], heard.flatten(0, 1), params["W_O"]).reshape(x.shape) + x
    return y + _ffn(_layer_norm(y, params["gamma_2"], params["beta_2"]), params)


# ------- 7.7 transformer_logits
def transformer_logits__wrong_ninth_prefixes_without_a_mask(
    tokens: torch.Tensor, params: dict, n_heads: int
) -> torch.Tensor:
    """Each prefix runs through unmasked blocks, so from the second block on a token knows of those after it."""
    rows = []
    for stop in range(1, tokens.shape[1] + 1):
        x = params["W_E"][tokens[:, :stop]] + params["W_pos"][:stop]
        for block in params["blocks"]:
            x = _pre_norm_block(x, block, n_heads)
        rows.append(_layer_norm(x[:, -1], params["gamma_f"], params["beta_f"]) @ params["W_U"])
    return torch.stack(rows, dim=1)


def transformer_logits__wrong_ninth_last_positions(tokens, params, n_heads):
    """A text shorter than n_ctx gets the last rows of W_pos, not the first."""
    n = tokens.shape[-1]
    past = torch.ones(n, n, dtype=torch.bool).tril()
    x = F.embedding(tokens, params["W_E"]) + params["W_pos"][-n:]
    x = functools.reduce(lambda t, block: _pre_norm_block(t, block, n_heads, past), params["blocks"], x)
    x = F.layer_norm(x, x.shape[-1:], params["gamma_f"], params["beta_f"])
    return torch.einsum("bnd,dv->bnv", x, params["W_U"])


def transformer_logits__wrong_ninth_minus_ten_thousand(tokens, params, n_heads):
    """The mask takes only 10,000 from the scores of later tokens, so these leak in where scores are larger still."""
    B, n = tokens.shape
    x = params["W_E"][tokens] + params["W_pos"][torch.arange(n)]
    later = torch.arange(n)[None, :] > torch.arange(n)[:, None]
    penalty = -10000.0 * later.to(x.dtype)
    for p in params["blocks"]:
        t = _layer_norm(x, p["gamma_1"], p["beta_1"])
        Q, K, V = (
            (t @ p[name]).unflatten(-1, (n_heads, -1)).permute(0, 2, 1, 3) for name in ("W_Q", "W_K", "W_V")
        )
        scores = Q @ K.mT / math.sqrt(Q.shape[-1]) + penalty
        heads = torch.softmax(scores, dim=-1) @ V
        x = x + heads.permute(0, 2, 1, 3).flatten(2) @ p["W_O"] + p["b_O"]
        x = x + _ffn(_layer_norm(x, p["gamma_2"], p["beta_2"]), p)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_ninth_takes_blocks_off_the_list(tokens, params, n_heads):
    """The blocks are popped off the list in params, which is empty afterwards."""
    n = tokens.shape[1]
    mask = torch.tril(torch.ones((n, n))) == 1
    stream = params["W_E"].index_select(0, tokens.flatten()).reshape(*tokens.shape, -1)
    stream = stream + params["W_pos"].narrow(0, 0, n)
    todo = params["blocks"]
    while todo:
        stream = _pre_norm_block(stream, todo.pop(0), n_heads, mask)
    return _layer_norm(stream, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__right_ninth_token_by_token_with_memory(tokens, params, n_heads):
    """It reads one token after the other and keeps the keys and values of the past for each block, with no mask."""
    B, n = tokens.shape
    keys = [[] for _ in params["blocks"]]
    values = [[] for _ in params["blocks"]]
    logits = []
    for i in range(n):
        x = params["W_E"][tokens[:, i]] + params["W_pos"][i]  # (B, d_model)
        for p, ks, vs in zip(params["blocks"], keys, values, strict=True):
            t = _layer_norm(x, p["gamma_1"], p["beta_1"])
            q, k, v = ((t @ p[name]).reshape(B, n_heads, -1) for name in ("W_Q", "W_K", "W_V"))
            ks.append(k)
            vs.append(v)
            scores = torch.einsum("bhd,mbhd->bhm", q, torch.stack(ks)) / math.sqrt(q.shape[-1])
            heads = torch.einsum("bhm,mbhd->bhd", torch.softmax(scores, dim=-1), torch.stack(vs))
            x = x + heads.reshape(B, -1) @ p["W_O"] + p["b_O"]
            x = x + _ffn(_layer_norm(x, p["gamma_2"], p["beta_2"]), p)
        logits.append(_layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"])
    return torch.stack(logits, dim=1)


# ------- 7.8 bits_per_token
def bits_per_token__wrong_ninth_shifted_once_more(
    logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """The targets are shifted by one place against the logits, though place i already scores targets[:, i]."""
    predictions, wanted, counts = logits[:, :-1], targets[:, 1:], mask[:, 1:]
    chosen = predictions[counts]
    log_p = torch.log_softmax(chosen, dim=-1)
    surprise = -log_p.gather(1, wanted[counts][:, None]) / math.log(2)
    return surprise.sum() / max(len(chosen), 1)


def bits_per_token__wrong_ninth_half_in_nats(logits, targets, mask):
    """Only the logarithm of the sum is turned into bits, while the logit of the target stays in nats."""
    scores = logits[mask]
    came = scores[torch.arange(scores.shape[0]), targets[mask]]
    cost = torch.logsumexp(scores, dim=-1) / math.log(2) - came
    return cost.sum() / max(cost.numel(), 1)


def bits_per_token__wrong_ninth_filler_left_in_the_graph(logits, targets, mask):
    """Filler is set to 0 only after its softmax, so infinite or NaN logits there give NaN gradients."""
    ids = targets.masked_fill(~mask, 0).unsqueeze(-1)
    log_p = logits - logits.logsumexp(dim=-1, keepdim=True)
    cost = -log_p.gather(-1, ids).squeeze(-1) / math.log(2)
    cost = torch.where(mask, cost, torch.zeros_like(cost))
    return cost.sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_ninth_filler_at_the_end(logits, targets, mask):
    """Each row's count of True is taken as its length, so filler is mistaken where it does not stand at the end."""
    total, count = logits[:0].sum(), 0
    for row, ids, length in zip(logits, targets, mask.sum(dim=1).tolist(), strict=True):
        for place in range(length):
            total = total + torch.logsumexp(row[place], 0) - row[place, ids[place]]
        count += length
    return total / (max(count, 1) * math.log(2))


def bits_per_token__right_ninth_lead_over_the_target(logits, targets, mask):
    """It takes the logarithm of the sum of exponentials of each logit's lead over that of the target."""
    scores = logits[mask]  # (tokens that count, vocab)
    lead = scores - scores.gather(1, targets[mask].unsqueeze(1))
    surprises = lead.logsumexp(dim=1) * math.log2(math.e)
    return surprises.sum() / max(surprises.shape[0], 1)


# ------- 7.9 adamw_step
def adamw_step__wrong_ninth_spread_for_root_mean_square(
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
    """The unit is the standard deviation of the gradients (mean square less squared mean), not the root mean square."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    mean = m / (1 - beta1**step)
    mean_square = v / (1 - beta2**step)
    usual = (mean_square - mean**2).clamp(min=0).sqrt()
    return w - lr * mean / (usual + eps) - lr * weight_decay * w, m, v


def adamw_step__wrong_ninth_moved_then_decayed(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """The decay takes its share of the weight after the move, not of the old weight."""
    averages = []
    for old, new, beta in ((m, grad, beta1), (v, grad.square(), beta2)):
        averages.append(torch.lerp(new, old, beta))
    mean, square = (a / (1 - beta**step) for a, beta in zip(averages, (beta1, beta2), strict=True))
    moved = torch.addcdiv(w, mean, square.sqrt() + eps, value=-lr)
    return moved - lr * weight_decay * moved, *averages


def adamw_step__wrong_ninth_rests_where_the_gradient_is_zero(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Where a gradient is 0 the averages do not fade and the weight does not move, though older gradients count."""
    active = grad != 0
    m_new = torch.where(active, m * beta1 + grad * (1 - beta1), m)
    v_new = torch.where(active, v * beta2 + grad * grad * (1 - beta2), v)
    rms = (v_new / (1 - beta2**step)).sqrt()
    move = torch.where(active, m_new / (1 - beta1**step) / (rms + eps), torch.zeros_like(w))
    return w * (1 - lr * weight_decay) - lr * move, m_new, v_new


def adamw_step__wrong_ninth_squares_written_into_v(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """The new average of squares is written into the v that was handed in."""
    first = m + (1 - beta1) * (grad - m)
    second = torch.add(v, grad * grad - v, alpha=1 - beta2, out=v)
    share_1, share_2 = 1 - math.pow(beta1, step), 1 - math.pow(beta2, step)
    unit = torch.sqrt(second / share_2) + eps
    change = first / share_1 / unit + weight_decay * w
    return w - lr * change, first, second


def adamw_step__right_ninth_corrections_in_the_step_size(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Both corrections go into the step size, with eps scaled to match, and m and v stay uncorrected throughout."""
    first = torch.lerp(grad, m, beta1)
    second = torch.addcmul(beta2 * v, grad, grad, value=1 - beta2)
    held_1, held_2 = 1 - beta1**step, math.sqrt(1 - beta2**step)
    pace = lr * held_2 / held_1
    kept = (1 - lr * weight_decay) * w
    return torch.addcdiv(kept, first, second.sqrt() + held_2 * eps, value=-pace), first, second


# ------- 7.10 sample
def sample__wrong_ninth_cut_before_the_temperature(
    next_logits: Callable[[list[int]], torch.Tensor],
    prompt: list[int],
    end: int,
    max_len: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> list[int]:
    """top_p cuts by the probabilities at temperature 1, not by those after the temperature."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            token = int(logits.argmax())
        else:
            may_come = _nucleus(torch.softmax(logits.double(), dim=-1), top_p)
            p = _tempered(logits.masked_fill(~may_come, -math.inf), temperature)
            token = int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_ninth_sorted_again(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The sorted probabilities are indexed with the sorting order once more, not with its inverse."""
    written = [*prompt]
    for _ in range(max_len - len(prompt)):
        logits = next_logits(list(written))
        if temperature == 0:
            written.append(logits.argmax().item())
        else:
            ranked, order = _tempered(logits, temperature).sort(descending=True)
            if top_p < 1:
                before = ranked.cumsum(0) - ranked
                before[0] = -1
                ranked = ranked.masked_fill(before >= top_p, 0)
            p = ranked[order].to(logits.dtype)
            written.append(torch.multinomial(p, 1, generator=generator).item())
        if written[-1] == end:
            return written
    return written


def sample__wrong_ninth_plain_division(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The logits are divided by the temperature as they are, so a tiny one gives infinities and NaN."""

    def choose(logits):
        if temperature == 0:
            return int(torch.argmax(logits))
        p = torch.softmax(logits / temperature, dim=0)
        p = p * _nucleus(p, top_p)
        return int(torch.multinomial(p, 1, generator=generator))

    ids = prompt.copy()
    finished = len(ids) >= max_len
    while not finished:
        ids.append(choose(next_logits(ids.copy())))
        finished = ids[-1] == end or len(ids) >= max_len
    return ids


def sample__wrong_ninth_draw_at_temperature_zero(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """At temperature 0 the sure token is drawn all the same, which moves the generator on."""
    out = list(prompt)
    while len(out) < max_len:
        logits = next_logits(out[:])
        if temperature > 0:
            p = _tempered(logits, temperature)
            p = torch.where(_nucleus(p, top_p), p, torch.zeros_like(p))
        else:
            p = F.one_hot(logits.argmax(), logits.shape[0])
        drawn = torch.multinomial(p.to(logits.dtype), 1, generator=generator)
        out += drawn.tolist()
        if out[-1] == end:
            break
    return out


def sample__right_ninth_likeliest_first_until_enough(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """It lets in one id after the other, each time the likeliest of the rest, until their exact sum is enough."""

    def letting_in(p):
        if top_p >= 1:
            return p
        chances = p.tolist()
        rest, inside = sorted(range(len(chances)), key=chances.__getitem__), [0.0] * len(chances)
        while rest and (sum(inside) == 0 or math.fsum(inside) < top_p):
            likeliest = rest.pop()
            inside[likeliest] = chances[likeliest]
        return torch.tensor(inside, dtype=p.dtype, device=p.device)

    def following(ids):
        logits = next_logits(list(ids))
        if temperature == 0:
            return int(logits.argmax())
        lead = logits.to(torch.float64)
        odds = torch.exp((lead - lead.max()) / temperature)
        p = letting_in(odds / odds.sum())
        return int(torch.multinomial(p.to(logits.dtype), 1, generator=generator))

    ids = list(prompt)
    while len(ids) < max_len:
        ids.append(following(ids))
        if ids[-1] == end:
            break
    return ids
