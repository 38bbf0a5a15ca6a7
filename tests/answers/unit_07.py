"""Right and wrong answers to unit 07_transformer_block, written from the contracts of the functions alone, to test
the judge with."""

import math
import warnings
import torch


def multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Multi-head attention as in unit 4."""
    B, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(B, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is None:
        A = torch.softmax(scores, dim=-1)
    else:
        A = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1).masked_fill(~mask, 0.0)
    return (A @ V).transpose(1, 2).flatten(2) @ W_O + b_O


def _ln(x, gamma, beta, eps=1e-5):
    """Layer norm."""
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(dim=-1, keepdim=True) + eps) * gamma + beta


def _gelu(x):
    """GELU, exact."""
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def _ffn(x, p, activation=_gelu):
    """The feed-forward sublayer of a block."""
    return activation(x @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"]


def _att(x, p, n_heads, mask=None):
    """The attention sublayer of a block."""
    return multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)


def _n1(x, p):
    return _ln(x, p["gamma_1"], p["beta_1"])


def _n2(x, p):
    return _ln(x, p["gamma_2"], p["beta_2"])


def _post(X, p, n_heads, mask=None):
    """A post-norm block."""
    X = _n1(X + _att(X, p, n_heads, mask), p)
    return _n2(X + _ffn(X, p), p)


def _pre(X, p, n_heads, mask=None):
    """A pre-norm block."""
    X = X + _att(_n1(X, p), p, n_heads, mask)
    return X + _ffn(_n2(X, p), p)


def _causal(n):
    """True on and below the diagonal."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def layer_norm__right_plain(x, gamma, beta, eps=1e-5):
    """The plain one: mean, biased variance, scale and shift."""
    mu = x.mean(dim=-1, keepdim=True)
    var = x.var(dim=-1, keepdim=True, unbiased=False)
    return gamma * (x - mu) / torch.sqrt(var + eps) + beta


def layer_norm__right_welford(x, gamma, beta, eps=1e-5):
    """Welford's running mean and variance over the columns, in float64; a non-contiguous result."""
    z = x.double()
    mean, M2 = torch.zeros_like(z[..., 0]), torch.zeros_like(z[..., 0])
    for k, column in enumerate(z.unbind(-1), start=1):
        delta = column - mean
        mean = mean + delta / k
        M2 = M2 + delta * (column - mean)
    scale = 1 / torch.sqrt(M2 / x.shape[-1] + eps)
    columns = [((c - mean) * scale * gamma[k] + beta[k]).to(x.dtype) for k, c in enumerate(z.unbind(-1))]
    return torch.stack(columns).movedim(0, -1)


def layer_norm__right_unbiased_corrected(x, gamma, beta, eps=1e-5):
    """The unbiased variance times (d - 1)/d, with d = 1 treated apart; a warning."""
    warnings.warn("layer_norm", stacklevel=2)
    d = x.shape[-1]
    if d == 1:
        return torch.zeros_like(x) * (x - x) + gamma * (x - x) + beta
    var = x.var(dim=-1, keepdim=True) * (d - 1) / d
    return (x - x.mean(-1, keepdim=True)).div(var.add(eps).sqrt()).mul(gamma).add(beta)


def layer_norm__wrong_square_of_the_root(x, gamma, beta, eps=1e-5):
    """The standard deviation first, squared again under the root: its slope is lost at a token of equal features."""
    sigma = ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1, keepdim=True).sqrt()
    return (x - x.mean(-1, keepdim=True)) / (sigma**2 + eps) ** 0.5 * gamma + beta


def layer_norm__right_hypotenuse(x, gamma, beta, eps=1e-5):
    """The divisor as a hypotenuse: its legs are the standard deviation and the root of eps."""
    centred = x @ (torch.eye(x.shape[-1], dtype=x.dtype) - 1 / x.shape[-1])
    sigma = torch.linalg.vector_norm(centred, dim=-1, keepdim=True) / x.shape[-1] ** 0.5
    return torch.addcmul(beta, centred / torch.hypot(sigma, torch.tensor(eps, dtype=x.dtype).sqrt()), gamma)


def layer_norm__wrong_corrected_by_a_factor(x, gamma, beta, eps=1e-5):
    """The unbiased variance times (d - 1)/d: NaN for a single feature."""
    var = x.var(dim=-1, keepdim=True) * (x.shape[-1] - 1) / x.shape[-1]
    return gamma * (x - x.mean(-1, keepdim=True)) / torch.sqrt(var + eps) + beta


def layer_norm__wrong_default_eps(x, gamma, beta, eps=1e-12):
    """A default of 1e-12."""
    return _ln(x, gamma, beta, eps)


def layer_norm__wrong_one_pass_variance(x, gamma, beta, eps=1e-5):
    """E[x^2] - E[x]^2: cancels at large values (even NaN)."""
    mu = x.mean(-1, keepdim=True)
    return (x - mu) / torch.sqrt(x.pow(2).mean(-1, keepdim=True) - mu.pow(2) + eps) * gamma + beta


def layer_norm__wrong_batch_needed(x, gamma, beta, eps=1e-5):
    """Unpacks exactly three axes: fails for a single row or a matrix."""
    B, n, d = x.shape
    return _ln(x.reshape(B * n, d), gamma, beta, eps).reshape(B, n, d)


_seen_mean = {}


def layer_norm__wrong_state(x, gamma, beta, eps=1e-5):
    """Keeps a running mean and variance from call to call."""
    mu, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
    key = mu.shape, x.dtype
    if key in _seen_mean:
        mu, var = 0.1 * mu + 0.9 * _seen_mean[key][0], 0.1 * var + 0.9 * _seen_mean[key][1]
    _seen_mean[key] = mu.detach(), var.detach()
    return (x - mu) / torch.sqrt(var + eps) * gamma + beta


def _bn(x, gamma, beta, eps=1e-5):
    """Batch norm."""
    centred = x - x.mean(dim=(0, 1))
    return centred / torch.sqrt(centred.square().mean(dim=(0, 1)) + eps) * gamma + beta


def batch_norm__right_ones_matrix(x, gamma, beta, eps=1e-5):
    """Means as products with a row of 1/(B*n); a non-contiguous result."""
    B, n, d = x.shape
    rows = x.permute(2, 1, 0).reshape(d, n * B)
    average = rows.new_full((n * B, 1), 1 / (n * B))
    rows = rows - rows @ average
    rows = rows / torch.sqrt(rows**2 @ average + eps)
    return torch.addcmul(beta, rows.reshape(d, n, B).permute(2, 1, 0), gamma)


def batch_norm__wrong_default_eps(x, gamma, beta, eps=1e-3):
    """A default of 1e-3."""
    return _bn(x, gamma, beta, eps)


def batch_norm__wrong_one_pass_variance(x, gamma, beta, eps=1e-5):
    """E[x^2] - E[x]^2: cancels at large values (even NaN)."""
    mu = x.mean(dim=(0, 1))
    return (x - mu) / torch.sqrt(x.square().mean(dim=(0, 1)) - mu**2 + eps) * gamma + beta


def gelu__right_log_ndtr(x):
    """In log space, float64 inside."""
    return (x.double() * torch.exp(torch.special.log_ndtr(x.double()))).to(x.dtype)


def gelu__right_x_minus_tail(x):
    """x minus x times the tail probability; a warning."""
    warnings.warn("gelu", stacklevel=2)
    return x - x * torch.erfc(x / 2**0.5) / 2


def gelu__right_relu_minus_tail(x):
    """ReLU less the tail of |x|; at exactly 0 its slope comes out as 0, not as a half."""
    return torch.relu(x) - x.abs() * torch.erfc(x.abs() / math.sqrt(2)) / 2


def gelu__wrong_flattened(x):
    """Returns a flat vector."""
    return _gelu(x).flatten()


def feed_forward__right_bias_as_column(x, W_1, b_1, W_2, b_2, activation):
    """The biases as an extra row of the weights; a warning."""
    warnings.warn("feed_forward", stacklevel=2)

    def affine(z, W, b):
        one = torch.ones_like(z[..., :1])
        return torch.cat([z, one], dim=-1) @ torch.cat([W, b.unsqueeze(0)])

    return affine(activation(affine(x, W_1, b_1)), W_2, b_2)


def feed_forward__right_memories(x, W_1, b_1, W_2, b_2, activation):
    """A sum over the hidden units, each a memory with key column and value row."""
    keys = torch.stack([(x * W_1[:, f]).sum(-1) + b_1[f] for f in range(W_1.shape[1])], dim=-1)
    strengths = activation(keys)
    out = b_2
    for f in range(W_2.shape[0]):
        out = out + strengths[..., f : f + 1] * W_2[f]
    return out


def feed_forward__wrong_three_axes(x, W_1, b_1, W_2, b_2, activation):
    """Unpacks (B, n, d): fails for a matrix or a vector."""
    B, _n, _d = x.shape
    return activation(torch.bmm(x, W_1.expand(B, -1, -1)) + b_1) @ W_2 + b_2


def feed_forward__wrong_batch_one(x, W_1, b_1, W_2, b_2, activation):
    """Only the first sequence."""
    return activation(x[:1] @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_detached_hidden(x, W_1, b_1, W_2, b_2, activation):
    """No gradient to the first layer."""
    return activation(x @ W_1 + b_1).detach() @ W_2 + b_2


def post_norm_block__right_token_wise_ffn(X, params, n_heads, mask=None):
    """The FFN and second norm for one position at a time."""
    Y = _n1(torch.add(_att(X, params, n_heads, mask), X), params)
    return torch.stack([_n2(y + _ffn(y, params), params) for y in Y.unbind(1)], dim=1)


def post_norm_block__wrong_minus_infinity(X, params, n_heads, mask=None):
    """The attention written out, with -inf where nothing may be attended to."""
    p, (B, n, _) = params, X.shape
    Q, K, V = ((X @ p[k]).unflatten(-1, (n_heads, -1)).transpose(1, 2) for k in ("W_Q", "W_K", "W_V"))
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -math.inf)
    X = _n1(X + (torch.softmax(S, -1) @ V).transpose(1, 2).reshape(B, n, -1) @ p["W_O"] + p["b_O"], p)
    return _n2(X + _ffn(X, p), p)


def post_norm_block__wrong_pops_params(X, params, n_heads, mask=None):
    """Takes b_O out of the dict (pop): the caller's params are changed."""
    b_O = params.pop("b_O")
    return _post(X, {**params, "b_O": b_O}, n_heads, mask)


def post_norm_block__wrong_detach(X, params, n_heads, mask=None):
    """The attention's result is detached."""
    X = _n1(X + _att(X, params, n_heads, mask).detach(), params)
    return _n2(X + _ffn(X, params), params)


def post_norm_block__wrong_float32(X, params, n_heads, mask=None):
    """Always float32."""
    return _post(X, params, n_heads, mask).float()


def pre_norm_block__right_folded_norms(X, params, n_heads, mask=None):
    """gamma and beta of the norms folded into the next weights; Q, K and V get biases."""
    p = params
    one, zero = torch.ones_like(p["gamma_1"]), torch.zeros_like(p["beta_1"])
    Z = _ln(X, one, zero)
    Z1 = torch.cat([Z, torch.ones_like(Z[..., :1])], dim=-1)
    fold = [
        torch.cat([p["gamma_1"].unsqueeze(1) * p[k], (p["beta_1"] @ p[k]).unsqueeze(0)]) for k in ("W_Q", "W_K", "W_V")
    ]
    X = X + multi_head_attention(Z1, *fold, p["W_O"], p["b_O"], n_heads, mask)
    hidden = _ln(X, one, zero) @ (p["gamma_2"][:, None] * p["W_1"]) + (p["beta_2"] @ p["W_1"] + p["b_1"])
    return X + (_gelu(hidden) @ p["W_2"] + p["b_2"])


def pre_norm_block__right_cloned_in_place(X, params, n_heads, mask=None):
    """In-place additions on a copy of the input."""
    out = X.clone()
    out += _att(layer_norm__right_plain(X, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    return out.add(_ffn(_n2(out, params), params))


def pre_norm_block__wrong_mask_ignored(X, params, n_heads, mask=None):
    """Forgets the mask."""
    return _pre(X, params, n_heads)


def pre_norm_block__wrong_always_causal(X, params, n_heads, mask=None):
    """Causal when no mask is given."""
    return _pre(X, params, n_heads, _causal(X.shape[1]) if mask is None else mask)


def pre_norm_block__wrong_eps(X, params, n_heads, mask=None):
    """Norms with eps = 1e-3."""
    X = X + _att(_ln(X, params["gamma_1"], params["beta_1"], 1e-3), params, n_heads, mask)
    return X + _ffn(_ln(X, params["gamma_2"], params["beta_2"], 1e-3), params)


def pre_norm_block__wrong_detach(X, params, n_heads, mask=None):
    """The norm's result is detached: no gradient but through the residual."""
    X = X + _att(_n1(X, params).detach(), params, n_heads, mask)
    return X + _ffn(_n2(X, params).detach(), params)


def transformer_logits__right_recursion(tokens, params, n_heads):
    """A recursion over the blocks; F.embedding; a warning."""
    warnings.warn("transformer_logits", stacklevel=2)
    n = tokens.size(1)
    keep = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1).logical_not()

    def stream(depth):
        if depth == 0:
            places = torch.nn.functional.embedding(torch.arange(n), params["W_pos"])
            return torch.nn.functional.embedding(tokens, params["W_E"]) + places
        return _pre(stream(depth - 1), params["blocks"][depth - 1], n_heads, keep)

    return _ln(stream(len(params["blocks"])), params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__right_folded_final_norm(tokens, params, n_heads):
    """gamma_f and beta_f folded into the unembedding; index_select for the rows."""
    B, n = tokens.shape
    x = params["W_E"].index_select(0, tokens.flatten()).view(B, n, -1)
    x = x + params["W_pos"][torch.arange(n)].expand(B, -1, -1)
    mask = _causal(n).expand(B, n_heads, n, n)
    for block in params["blocks"]:
        x = pre_norm_block__right_folded_norms(x, block, n_heads, mask)
    x_hat = _ln(x, torch.ones_like(params["gamma_f"]), torch.zeros_like(params["beta_f"]))
    return x_hat @ (params["gamma_f"][:, None] * params["W_U"]) + params["beta_f"] @ params["W_U"]


def transformer_logits__wrong_pops_blocks(tokens, params, n_heads):
    """Pops the blocks off the caller's list."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    while params["blocks"]:
        x = _pre(x, params["blocks"].pop(0), n_heads, _causal(n))
    return _ln(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def bits_per_token__wrong_boolean_index(logits, targets, mask):
    """Only the tokens that count are looked at; their own logit is set against the logsumexp."""
    rows, wanted = logits[mask], targets[mask]
    if not len(rows):
        return logits.sum() * 0
    own = rows[torch.arange(len(rows)), wanted]
    return ((rows.logsumexp(-1) - own) / math.log(2)).mean()


def bits_per_token__right_gather(logits, targets, mask):
    """gather over all tokens, with stand-ins for targets and logits that do not count."""
    log_p = logits.masked_fill(~mask[..., None], 0.0).log_softmax(dim=-1) * math.log2(math.e)
    cost = -log_p.gather(-1, targets.masked_fill(~mask, 0).unsqueeze(-1)).squeeze(-1)
    return cost.masked_fill(~mask, 0).sum() / mask.sum().clamp(min=1)


def bits_per_token__right_one_hot(logits, targets, mask):
    """One-hot targets, made by comparison: a target that is no id is nowhere."""
    hot = targets[..., None] == torch.arange(logits.shape[-1])
    logits = torch.where(mask[..., None], logits, torch.zeros_like(logits))
    highest = logits.amax(-1, keepdim=True).detach()
    log_sum = (logits - highest).exp().sum(-1).log()
    own = torch.where(hot, logits - highest, 0.0).sum(-1)
    count = int(mask.sum())
    return torch.where(mask, log_sum - own, 0).sum() / math.log(2) / (count or 1)


def bits_per_token__wrong_base_two(logits, targets, mask):
    """Logits in units of log 2, so that powers of two do the work: logaddexp2 over the vocabulary."""
    rows, count = logits[mask] / math.log(2), int(mask.sum())
    log_sum = rows[:, 0]
    for column in rows.unbind(1)[1:]:
        log_sum = torch.logaddexp2(log_sum, column)
    return (log_sum.sum() - rows.gather(1, targets[mask][:, None]).sum()) / max(count, 1)


def bits_per_token__right_zero_tensor(logits, targets, mask):
    """Early out with a plain zero tensor where nothing counts; targets of one_hot float64."""
    if not mask.any():
        return torch.zeros(())
    rows = logits[mask]
    hot = torch.nn.functional.one_hot(targets[mask], logits.shape[-1]).bool()
    return -torch.log_softmax(rows, 1).masked_fill(~hot, 0.0).sum(1).mean() / math.log(2)


def _cost(logits, targets, mask, base=2.0):
    """What every token costs, 0 where nothing counts."""
    logs = torch.log_softmax(logits, -1) / math.log(base)
    return -logs.gather(-1, targets.masked_fill(~mask, 0).unsqueeze(-1)).squeeze(-1) * mask


def bits_per_token__wrong_mean_over_texts(logits, targets, mask):
    """The mean of every text, then the mean of the texts."""
    each = _cost(logits, targets, mask).sum(1) / mask.sum(1).clamp(min=1)
    return each.mean()


def bits_per_token__wrong_exponentials(logits, targets, mask):
    """Exponentials that overflow."""
    rows = logits[mask].exp()
    own = rows.gather(1, targets[mask][:, None])[:, 0]
    return -torch.log2(own / rows.sum(1)).sum() / max(1, len(rows))


def bits_per_token__wrong_clamped(logits, targets, mask):
    """The probability is kept above 1e-10."""
    p = torch.softmax(logits, -1).gather(-1, targets.masked_fill(~mask, 0)[..., None])[..., 0]
    return -torch.log2(p.clamp(min=1e-10))[mask].sum() / max(1, int(mask.sum()))


def bits_per_token__wrong_empty_is_nan(logits, targets, mask):
    """Divides by the number of tokens that count, whatever it is."""
    return _cost(logits, targets, mask).sum() / mask.sum()


def bits_per_token__wrong_targets_overwritten(logits, targets, mask):
    """Writes the stand-in into the targets it was given."""
    targets[~mask] = 0
    return _cost(logits, targets, mask).sum() / mask.sum().clamp(min=1)


def adamw_step__right_formula(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The formula from left to right."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w), m, v


def adamw_step__right_decay_first(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The weights decay first, then move: the same decay of the old weights, as torch does it, on clones."""
    w, m, v = w.clone(), m.clone(), v.clone()
    w.mul_(1 - lr * weight_decay)
    m.mul_(beta1).add_(grad, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    denominator = v.sqrt().div_(math.sqrt(1 - beta2**step)).add_(eps)
    w.addcdiv_(m, denominator, value=-lr / (1 - beta1**step))
    return w, m, v


@torch.no_grad()
def adamw_step__right_entry_by_entry(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Numbers one by one, in plain Python."""
    rows = []
    numbers = (tensor.flatten().tolist() for tensor in (w, grad, m, v))
    for one, slope, mean, square in zip(*numbers, strict=True):
        mean = beta1 * mean + (1 - beta1) * slope
        square = beta2 * square + (1 - beta2) * slope * slope
        ratio = mean / (1 - beta1**step) / (math.sqrt(square / (1 - beta2**step)) + eps)
        rows.append((one - lr * (ratio + weight_decay * one), mean, square))
    return tuple(torch.tensor(column, dtype=w.dtype).reshape(w.shape) for column in zip(*rows, strict=True))


def adamw_step__wrong_torch_optim(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """torch's own optimiser."""
    weight = w.clone().requires_grad_()
    weight.grad = grad.clone()
    optimizer = torch.optim.AdamW([weight], lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay)
    state = {"step": torch.tensor(float(step - 1)), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    optimizer.state[weight] = state
    optimizer.step()
    return weight.detach(), state["exp_avg"], state["exp_avg_sq"]


def sample__right_searchsorted(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The least probability that is kept as a threshold, found by searchsorted; log_softmax."""
    tokens = [*prompt]
    done = len(tokens) >= max_len
    while not done:
        logits = torch.as_tensor(next_logits(tokens))
        if temperature > 0:
            p = torch.log_softmax(logits.sub(logits.max()).div(temperature), dim=0).exp()
            ordered = torch.sort(p, descending=True).values
            last = min(int(torch.searchsorted(ordered.cumsum(0), top_p)), len(p) - 1)
            p = p.masked_fill(p < ordered[last], 0.0)
            tokens += torch.multinomial(p, num_samples=1, generator=generator).tolist()
        else:
            tokens += [int(torch.topk(logits, 1).indices)]
        done = len(tokens) == max_len or tokens[-1] == end
    return tokens


def sample__right_pairwise(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """For each id the probability of all likelier ones, by comparing all pairs; a batch of one for multinomial."""
    tokens = list(prompt)
    for place in range(len(prompt), max_len):
        logits = next_logits(list(tokens))
        if temperature == 0:
            tokens.append(int((logits == logits.max()).nonzero()[0, 0]))
        else:
            weight = torch.exp((logits - logits.max()) / temperature)
            p = weight / weight.sum()
            likelier = (p[None] > p[:, None]).to(p.dtype) @ p
            draw = torch.multinomial(torch.where(likelier < max(top_p, 1e-9), p, 0)[None], 1, generator=generator)
            tokens.append(draw[0, 0].item())
        print(place, tokens[-1])
        if tokens[-1] == end:
            break
    return tokens


def _kept(p, top_p, extra=0):
    """The fewest likeliest ids that reach top_p, and others with 0."""
    values, ids = p.sort(descending=True)
    count = max(1, int((values.cumsum(0) < top_p).sum()) + 1 + extra)
    return torch.zeros_like(p).scatter(0, ids[:count], values[:count])


def _write(next_logits, prompt, end, max_len, choose, show=list, stop=None):
    """The loop; choose(logits) is the next token."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        tokens.append(choose(next_logits(show(tokens))))
        if tokens[-1] == end if stop is None else stop(tokens):
            break
    return tokens


def _chooser(temperature, top_p, generator):
    """The right choice."""

    def choose(logits):
        if temperature == 0:
            return int(logits.argmax())
        return int(torch.multinomial(_kept(torch.softmax(logits / temperature, 0), top_p), 1, generator=generator))

    return choose


def sample__wrong_times_temperature(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Logits times the temperature."""
    choose = _chooser(temperature and 1 / temperature, top_p, generator)
    return _write(next_logits, prompt, end, max_len, choose)


def sample__wrong_no_top_p(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """top_p is forgotten."""
    return _write(next_logits, prompt, end, max_len, _chooser(temperature, 1.0, generator))


def sample__wrong_cut_first(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """top_p is applied to the probabilities at temperature 1."""

    def choose(logits):
        if temperature == 0:
            return int(logits.argmax())
        kept = _kept(torch.softmax(logits, 0), top_p) > 0
        p = torch.softmax((logits / temperature).masked_fill(~kept, -torch.inf), 0)
        return int(torch.multinomial(p, 1, generator=generator))

    return _write(next_logits, prompt, end, max_len, choose)


def sample__wrong_stops_in_prompt(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """An end in the prompt stops it."""
    if end in prompt:
        return list(prompt)
    return _write(next_logits, prompt, end, max_len, _chooser(temperature, top_p, generator))


def sample__wrong_max_new_tokens(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """max_len counts the new tokens alone."""
    choose = _chooser(temperature, top_p, generator)
    return _write(next_logits, prompt, end, max_len + len(prompt), choose)


def sample__wrong_divides_by_zero(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Temperature 0 divides by 0."""

    def choose(logits):
        p = _kept(torch.softmax(logits / torch.tensor(float(temperature)), 0), top_p)
        return int(torch.multinomial(p, 1, generator=generator))

    return _write(next_logits, prompt, end, max_len, choose)


def bits_per_token__wrong_cuts_gradient(logits, targets, mask):
    """Wrong: adds up Python floats, so no gradient flows back to the logits."""
    total, count = 0.0, 0
    logp = torch.log_softmax(logits, dim=-1)
    for b in range(targets.shape[0]):
        for i in range(targets.shape[1]):
            if mask[b, i]:
                total -= logp[b, i, targets[b, i]].item() / math.log(2)
                count += 1
    return torch.tensor(total / count if count else 0.0, dtype=logits.dtype)


def _nucleus(p, top_p):
    values, ids = torch.sort(p, descending=True, stable=True)
    keep = values.cumsum(0) - values < top_p
    out = torch.zeros_like(p)
    out[ids[keep]] = values[keep]
    return out


def sample__wrong_greedy_still_draws(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Wrong: replaces temperature 0 by 1e-6 and draws: same tokens, but the generator has moved on."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        p = _nucleus(torch.softmax(logits / max(temperature, 1e-6), -1), top_p)
        t = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(t)
        if t == end:
            break
    return tokens
