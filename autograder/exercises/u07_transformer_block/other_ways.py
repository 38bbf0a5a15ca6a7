"""Unit 7: other right ways than the course's own, so that their steps are known to be right, too."""

import math

import torch
import torch.nn.functional as F

from .gelu import plain as gelu
from .layer_norm import plain as layer_norm


def _norm_1(x, params):
    """The norm of attention."""
    return _norm(x, params["gamma_1"], params["beta_1"])


def _norm(x, gamma, beta, eps=1e-05):
    """Layer norm."""
    z = x - x.mean(dim=-1, keepdim=True)
    return gamma * z / torch.sqrt((z * z).mean(dim=-1, keepdim=True) + eps) + beta


def _ffn(x, params):
    """The feed-forward network of a block's params."""
    return gelu(x @ params["W_1"] + params["b_1"]) @ params["W_2"] + params["b_2"]


def _norm_2(x, params):
    """The norm of the feed-forward network."""
    return _norm(x, params["gamma_2"], params["beta_2"])


def layer_norm__pairs_of_features(x, gamma, beta, eps=1e-05):
    apart = x.unsqueeze(-1) - x.unsqueeze(-2)
    deviation = apart.mean(dim=-1)
    variance = apart.square().mean(dim=(-2, -1)).unsqueeze(-1) / 2
    return deviation * gamma / (variance + eps).sqrt() + beta


def layer_norm__length_of_deviation(x, gamma, beta, eps=1e-05):
    deviation = x - x.mean(dim=-1, keepdim=True)
    sigma = torch.linalg.vector_norm(deviation, dim=-1, keepdim=True) / math.sqrt(x.shape[-1])
    return torch.addcmul(beta, deviation / torch.hypot(sigma, torch.full_like(sigma, eps**0.5)), gamma)


def batch_norm__feature_by_feature(x, gamma, beta, eps=1e-05):
    results = []
    for c in range(x.shape[-1]):
        values = x[:, :, c]
        rest = values - values.sum() / values.numel()
        square = (rest * rest).sum() / values.numel()
        results.append(gamma[c] * rest / (square + eps) ** 0.5 + beta[c])
    return torch.stack(results, dim=-1)


def gelu__complement(x):
    return torch.erfc(x * -math.sqrt(0.5)).mul(x).mul(0.5)


def feed_forward__bias_as_a_row(x, W_1, b_1, W_2, b_2, activation):

    def affine(tokens, W, b):
        ones = torch.ones_like(tokens[..., :1])
        return torch.cat([tokens, ones], dim=-1) @ torch.cat([W, b.unsqueeze(0)])

    return affine(activation(affine(x, W_1, b_1)), W_2, b_2)


def feed_forward__question_by_question(x, W_1, b_1, W_2, b_2, activation):
    total = b_2.expand(*x.shape[:-1], b_2.shape[0])
    for k in range(W_1.shape[1]):
        score = (x * W_1[:, k]).sum(dim=-1) + b_1[k]
        total = total + activation(score).unsqueeze(-1) * W_2[k]
    return total


def post_norm_block__all_in_einsum(x, params, n_heads, mask=None):
    B, n, _ = x.shape
    W_Q, W_K, W_V = (params[name].unflatten(1, (n_heads, -1)) for name in ("W_Q", "W_K", "W_V"))
    Q, K, V = (torch.einsum("bic,chd->hbid", x, W) for W in (W_Q, W_K, W_V))
    scores = torch.einsum("hbid,hbjd->hbij", Q, K) * W_Q.shape[-1] ** (-0.5)
    if mask is not None:
        allowed = mask.broadcast_to(B, n_heads, n, n).transpose(0, 1)
        nothing = ~allowed.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~(allowed | nothing), -torch.inf)
    A = torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True))
    if mask is not None:
        A = A.masked_fill(nothing, 0)
    attended = torch.einsum("hbij,hbjd,hdc->bic", A, V, params["W_O"].unflatten(0, (n_heads, -1))) + params["b_O"]

    def normed(tokens, number):
        z = tokens - tokens.mean(dim=-1, keepdim=True)
        scale = torch.rsqrt(z.square().mean(dim=-1, keepdim=True) + 1e-05)
        return torch.addcmul(params[f"beta_{number}"], z * scale, params[f"gamma_{number}"])

    y = normed(x + attended, 1)
    hidden = F.linear(y, params["W_1"].T, params["b_1"])
    hidden = hidden * torch.special.ndtr(hidden)
    return normed(y + F.linear(hidden, params["W_2"].T, params["b_2"]), 2)


def post_norm_block__head_by_head(x, params, n_heads, mask=None):
    B, n, _ = x.shape
    wide = params["W_Q"].shape[1]
    size = wide // n_heads
    total = x + params["b_O"]
    if mask is not None:
        mask = torch.broadcast_to(mask, (B, n_heads, n, n))
    for h in range(n_heads):
        at = slice(h * size, (h + 1) * size)
        q, k, v = (x @ params[name][:, at] for name in ("W_Q", "W_K", "W_V"))
        scores = torch.einsum("bid,bjd->bij", q, k) / size**0.5
        if mask is not None:
            may = mask[:, h]
            scores = torch.where(may, scores, torch.full_like(scores, -1e30))
            weights = torch.softmax(scores, -1) * may
        else:
            weights = torch.softmax(scores, -1)
        total = total + weights @ v @ params["W_O"][at]
    for number in ("1", "2"):
        if number == "2":
            up = total @ params["W_1"] + params["b_1"]
            bent = up * torch.erfc(-up / math.sqrt(2)) / 2
            total = total + bent @ params["W_2"] + params["b_2"]
        mean = total.mean(-1, keepdim=True)
        variance = (total - mean).square().mean(-1, keepdim=True)
        total = (total - mean) / (variance + 1e-05).sqrt()
        total = total * params["gamma_" + number] + params["beta_" + number]
    return total


def pre_norm_block__joined_projection(x, params, n_heads, mask=None):
    p, (B, n, _) = (params, x.shape)
    joined = torch.cat([p["W_Q"], p["W_K"], p["W_V"]], dim=1)
    qkv = layer_norm(x, p["gamma_1"], p["beta_1"]) @ joined
    q, k, v = qkv.view(B, n, 3, n_heads, -1).unbind(dim=2)
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / q.shape[-1] ** 0.5
    may = torch.ones_like(scores, dtype=torch.bool)
    if mask is not None:
        may = mask.expand_as(scores)
    scores = torch.where(may, scores, torch.finfo(scores.dtype).min)
    raised = torch.exp(scores - scores.amax(-1, keepdim=True)) * may
    total = raised.sum(-1, keepdim=True)
    weights = raised / torch.where(total > 0, total, torch.ones_like(total))
    mixed = torch.einsum("bhij,bjhd->bihd", weights, v).reshape(B, n, -1)
    y = torch.addcmul(x + p["b_O"], mixed.new_ones(()), mixed @ p["W_O"])
    hidden = gelu(layer_norm(y, p["gamma_2"], p["beta_2"]) @ p["W_1"] + p["b_1"])
    return y + p["b_2"] + hidden @ p["W_2"]


def pre_norm_block__einsum_all_through(x, params, n_heads, mask=None):
    p = params
    B, n, d = x.shape

    def norm(t, number):
        rest = t - t.sum(-1, keepdim=True) / d
        scale = torch.rsqrt((rest * rest).sum(-1, keepdim=True) / d + 1e-05)
        return rest * scale * p[f"gamma_{number}"] + p[f"beta_{number}"]

    a = norm(x, 1)
    W_Q, W_K, W_V = (p[k].reshape(d, n_heads, -1) for k in ("W_Q", "W_K", "W_V"))
    W_O = p["W_O"].reshape(n_heads, -1, d)
    size = W_Q.shape[-1]
    q = torch.einsum("bnd,dhe->bhne", a, W_Q)
    k = torch.einsum("bnd,dhe->bhne", a, W_K)
    v = torch.einsum("bnd,dhe->bhne", a, W_V)
    s = torch.einsum("bhie,bhje->bhij", q, k) / math.sqrt(size)
    may = torch.ones(B, n_heads, n, n, dtype=torch.bool) if mask is None else mask.expand(B, n_heads, n, n)
    s = s.masked_fill(~may, -1e30)
    s = (s - s.amax(-1, keepdim=True)).exp() * may
    total = s.sum(-1, keepdim=True)
    weights = s / torch.where(total > 0, total, torch.ones_like(total))
    y = x + torch.einsum("bhij,bhje,hed->bid", weights, v, W_O) + p["b_O"]
    up = torch.einsum("bnd,df->bnf", norm(y, 2), p["W_1"]) + p["b_1"]
    up = up * (0.5 + 0.5 * torch.erf(up / 2**0.5))
    return y + torch.einsum("bnf,fd->bnd", up, p["W_2"]) + p["b_2"]


def transformer_logits__written_with_a_cache(tokens, params, n_heads):
    ids = F.one_hot(tokens, len(params["W_E"])).to(params["W_E"].dtype)
    kept = [([], []) for _ in params["blocks"]]
    logits = []
    for i in range(tokens.shape[1]):
        x = ids[:, i] @ params["W_E"] + params["W_pos"][i]
        for p, (keys, values) in zip(params["blocks"], kept, strict=True):
            a = _norm_1(x, p)
            query, key, value = ((a @ p[name]).unflatten(1, (n_heads, -1)) for name in ("W_Q", "W_K", "W_V"))
            keys.append(key)
            values.append(value)
            scores = torch.stack([(query * old).sum(-1) for old in keys]) * query.shape[-1] ** (-0.5)
            weights = scores.softmax(dim=0).unsqueeze(-1)
            heads = (weights * torch.stack(values)).sum(0)
            x = x + heads.flatten(1) @ p["W_O"] + p["b_O"]
            x = x + _ffn(_norm_2(x, p), p)
        logits.append(_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"])
    return torch.stack(logits, dim=1)


def bits_per_token__leads_over_the_target(logits, targets, mask):
    rows = logits[mask]
    wanted = targets[mask]
    if len(rows) == 0:
        return rows.sum()
    chosen = torch.stack([row[t] for row, t in zip(rows, wanted, strict=False)])
    leads = rows - chosen[:, None]
    highest = leads.amax(dim=1, keepdim=True)
    nats = (leads - highest).exp().sum(dim=1).log() + highest[:, 0]
    return nats.sum() / (len(nats) * math.log(2))


def bits_per_token__word_by_word(logits, targets, mask):
    counted = logits[mask]
    costs = [torch.logsumexp(row, dim=0) - row[t] for row, t in zip(counted, targets[mask].tolist(), strict=True)]
    if not costs:
        return counted.sum()
    return torch.stack(costs).mean() * (1 / math.log(2))


def adamw_step__sums_of_weights(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-08, weight_decay=0.01):

    def fading(old, new, beta):
        now = (1 - beta) * new + beta * old
        weights = math.fsum((1 - beta) * beta**age for age in range(step))
        return (now, now / weights)

    new_m, mean = fading(m, grad, beta1)
    new_v, mean_square = fading(v, torch.square(grad), beta2)
    move = mean / (torch.sqrt(mean_square) + eps)
    return (w - lr * move - lr * weight_decay * w, new_m, new_v)


def adamw_step__corrections_in_the_step(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-08, weight_decay=0.01):
    w, m, v = (w.clone(), m.clone(), v.clone())
    m.mul_(beta1).add_(grad, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    root = math.sqrt(1 - beta2**step)
    w.mul_(1 - lr * weight_decay)
    w.addcdiv_(m, v.sqrt().add_(eps * root), value=-lr * root / (1 - beta1**step))
    return (w, m, v)
