"""Answers to unit 07's functions, written from the notebook alone."""

import math

import torch
import torch.nn.functional as F


def _norm(x, gamma, beta, eps=1e-5):
    deviation = x - x.mean(-1, keepdim=True)
    return gamma * deviation / torch.sqrt((deviation**2).mean(-1, keepdim=True) + eps) + beta


def _soft_switch(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def _attention(x, p, n_heads, mask=None):
    """Multi-head self-attention, as the given one: a query that may see nothing gets b_O alone."""
    B, n, _ = x.shape
    Q, K, V = ((x @ p[name]).reshape(B, n, n_heads, -1).transpose(1, 2) for name in ("W_Q", "W_K", "W_V"))
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is None:
        weights = scores.softmax(-1)
    else:
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1) * mask
    return (weights @ V).transpose(1, 2).reshape(B, n, -1) @ p["W_O"] + p["b_O"]


def _ffn(x, p):
    return _soft_switch(x @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"]


def _pre_norm(x, p, n_heads, mask=None):
    x = x + _attention(_norm(x, p["gamma_1"], p["beta_1"]), p, n_heads, mask)
    return x + _ffn(_norm(x, p["gamma_2"], p["beta_2"]), p)


# 7.1


def layer_norm__wrong_fourth_mean_of_squares_less_square_of_mean(x, gamma, beta, eps=1e-5):
    """Takes the variance as mean(x²) - mean(x)²: in float32, near 10,000, no digit of it is left."""
    mu = x.mean(dim=-1, keepdim=True)
    variance = (x * x).mean(dim=-1, keepdim=True) - mu * mu
    variance = variance.clamp(min=0)
    return gamma * (x - mu) / torch.sqrt(variance + eps) + beta


def layer_norm__wrong_fourth_all_axes_but_the_first(x, gamma, beta, eps=1e-5):
    """Averages over every axis but the first: right for (n, d) and (d,), but (B, n, d) has whole sentences normed."""
    axes = tuple(range(1, x.ndim)) or (0,)
    var, mean = torch.var_mean(x, dim=axes, correction=0, keepdim=True)
    return (x - mean) / (var + eps).sqrt() * gamma + beta


def layer_norm__right_fourth_hypotenuse(x, gamma, beta, eps=1e-5):
    """Right: the root of variance + eps is the hypotenuse over standard deviation and root of eps."""
    deviations = x - x.mean(-1, keepdim=True)
    sigma = torch.linalg.vector_norm(deviations, dim=-1, keepdim=True) / math.sqrt(x.shape[-1])
    divisor = torch.hypot(sigma, torch.full_like(sigma, math.sqrt(eps)))
    return torch.addcmul(beta, gamma, deviations / divisor)


# 7.2


def batch_norm__wrong_fourth_mean_of_the_sentences_spreads(x, gamma, beta, eps=1e-5):
    """Two slips: the spread is the mean of each sentence's own standard deviation, and eps is added to it, no root."""
    mean = x.mean(dim=(0, 1))
    spread = x.std(dim=1, correction=0).mean(dim=0)
    return gamma * (x - mean) / (spread + eps) + beta


# 7.3


def gelu__wrong_fourth_root_outside_erf(x):
    """A bracket closed too early: erf(x) is divided by the root of 2, not x."""
    return x / 2 * (1 + torch.erf(x) / math.sqrt(2))


# 7.4


def feed_forward__wrong_fourth_stays_flat(x, W_1, b_1, W_2, b_2, activation):
    """Lays all tokens out as rows and forgets the way back: the result has two axes, whatever x had."""
    tokens = x.reshape(-1, W_1.shape[0])
    hidden = activation(torch.addmm(b_1, tokens, W_1))
    return torch.addmm(b_2, hidden, W_2)


# 7.5


def post_norm_block__wrong_fourth_second_bypass_from_x(x, params, n_heads, mask=None):
    """The second residual adds the block's input x and not y: norm_2(x + ffn(y))."""
    p = params
    after_attention = _norm(x + _attention(x, p, n_heads, mask), p["gamma_1"], p["beta_1"])
    after_ffn = _norm(x + _ffn(after_attention, p), p["gamma_2"], p["beta_2"])
    return after_ffn


def post_norm_block__wrong_fourth_gelu_with_tanh(x, params, n_heads, mask=None):
    """Everything in order, but the FFN's activation is the tanh approximation of GELU, off by some ten-thousandths."""

    def act(h):
        return 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))

    y = _norm(x + _attention(x, params, n_heads, mask), params["gamma_1"], params["beta_1"])
    f = act(y @ params["W_1"] + params["b_1"]) @ params["W_2"] + params["b_2"]
    return _norm(y + f, params["gamma_2"], params["beta_2"])


# 7.6


def pre_norm_block__wrong_fourth_one_norm_and_the_other_mask(x, params, n_heads, mask=None):
    """Two slips: both norms use gamma_1 and beta_1, and the mask is turned round as for nn.MultiheadAttention."""

    def norm(t):
        return _norm(t, params["gamma_1"], params["beta_1"])

    hidden = None if mask is None else ~mask
    y = x + _attention(norm(x), params, n_heads, hidden)
    return y + _ffn(norm(y), params)


# 7.7


def transformer_logits__wrong_fourth_last_positions(tokens, params, n_heads):
    """A text shorter than n_ctx gets the last n rows of W_pos, so that its end stands at the last position."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][-n:]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm(x, block, n_heads, causal)
    return _norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_fourth_causal_in_the_first_block(tokens, params, n_heads):
    """Only the first block gets the causal mask, since the rest is built on it: with two blocks the future leaks."""
    n = tokens.size(1)
    mask = torch.tril(torch.ones(n, n)) == 1
    stream = F.embedding(tokens, params["W_E"]) + params["W_pos"][:n]
    for number, block in enumerate(params["blocks"]):
        stream = _pre_norm(stream, block, n_heads, mask if number == 0 else None)
    return _norm(stream, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__right_fourth_one_hot_products(tokens, params, n_heads):
    """Right: tokens and positions are one-hot rows times W_E and W_pos, and the mask compares positions."""
    W_E, W_pos = params["W_E"], params["W_pos"]
    places = torch.arange(tokens.shape[1])
    x = F.one_hot(tokens, len(W_E)).to(W_E.dtype) @ W_E + torch.eye(len(W_pos), dtype=W_pos.dtype)[places] @ W_pos
    for block in params["blocks"]:
        x = _pre_norm(x, block, n_heads, places[:, None] >= places)
    return torch.einsum("bnd,dv->bnv", _norm(x, params["gamma_f"], params["beta_f"]), params["W_U"])


# 7.8


def bits_per_token__wrong_fourth_filler_times_zero(logits, targets, mask):
    """Multiplies the costs by the mask: where the filler's logits hold NaN or -inf, the product is NaN and not 0."""
    safe = targets.clamp(0, logits.shape[-1] - 1)
    log_p = torch.log_softmax(logits, dim=-1).gather(-1, safe.unsqueeze(-1)).squeeze(-1)
    cost = -log_p / math.log(2) * mask
    return cost.sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_fourth_floor_and_empty_mean(logits, targets, mask):
    """Two slips: probabilities are kept above 1e-12, so no cost exceeds 40 bits; and the mean of nothing is NaN."""
    p = torch.softmax(logits[mask], dim=-1)
    of_target = p[torch.arange(len(p)), targets[mask]]
    return -torch.log2(of_target.clamp(min=1e-12)).mean()


def bits_per_token__right_fourth_leads_over_the_target(logits, targets, mask):
    """Right: no softmax; a token costs the log of the sum of exp(lead), where a lead is a logit less the target's."""
    rows, ids = logits[mask], targets[mask]
    leads = rows - rows.gather(1, ids[:, None])
    return leads.logsumexp(dim=1).sum() / (math.log(2) * max(len(ids), 1))


# 7.9


def adamw_step__wrong_fourth_decay_after_the_move(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Moves first, and lets the moved weight decay: the decay takes its share of the new w in place of the old."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    mean = m / (1 - beta1**step)
    root = torch.sqrt(v / (1 - beta2**step))
    w = w - lr * mean / (root + eps)
    w = w * (1 - lr * weight_decay)
    return w, m, v


def adamw_step__wrong_fourth_mean_by_counting_steps(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Takes the weights in m to sum to step * (1 - beta1), as if nothing faded: right at step 1, then too small."""
    new_m = torch.lerp(grad, m, beta1)
    new_v = torch.lerp(grad.square(), v, beta2)
    mean = new_m / (step * (1 - beta1))
    mean_square = new_v / (step * (1 - beta2))
    new_w = w - lr * (mean / (mean_square.sqrt() + eps) + weight_decay * w)
    return new_w, new_m, new_v


# 7.10


def sample__wrong_fourth_nucleus_before_temperature(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Chooses the ids of top_p by the model's own probabilities, before the temperature: right at temperature 1."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens).double()
        if temperature == 0:
            new = int(logits.argmax())
        else:
            plain = torch.softmax(logits, dim=-1)
            ranked, ids = plain.sort(descending=True)
            kept = ids[ranked.cumsum(0) - ranked < top_p]
            if len(kept) == 0:
                kept = ids[:1]
            p = torch.zeros_like(plain)
            p[kept] = torch.softmax((logits - logits.max()) / temperature, dim=-1)[kept]
            new = int(torch.multinomial(p.float(), 1, generator=generator))
        tokens.append(new)
        if new == end:
            break
    return tokens


def sample__wrong_fourth_first_place_that_passes_top_p(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Seeks the first sum above top_p; at top_p = 1 there is none, argmax then says place 0, and one id is left."""
    tokens = prompt[:]
    for _ in range(max_len - len(prompt)):
        logits = next_logits(tokens).double()
        if temperature == 0:
            tokens.append(logits.argmax().item())
        else:
            p = ((logits - logits.max()) / temperature).softmax(0).float()
            order = p.argsort(descending=True)
            passed = p[order].cumsum(0) > top_p
            last = int(passed.int().argmax())
            p = p.index_fill(0, order[last + 1 :], 0.0)
            tokens.append(torch.multinomial(p, 1, generator=generator).item())
        if tokens[-1] == end:
            return tokens
    return tokens


def sample__wrong_fourth_close_to_zero_is_zero(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """A temperature below 0.01 is taken for 0: ids whose logits lie as close as that no longer share the draws."""

    def pick(logits):
        if temperature < 1e-2:
            return logits.argmax()
        scaled = (logits - logits.max()).double() / temperature
        p = scaled.softmax(-1)
        best_first = torch.argsort(p, descending=True)
        kept, mass = [], 0.0
        for i in best_first.tolist():
            kept.append(i)
            mass += p[i].item()
            if mass >= top_p:
                break
        allowed = torch.zeros_like(p)
        allowed[kept] = 1
        return torch.multinomial((p * allowed).float(), 1, generator=generator)

    text = list(prompt)
    while len(text) < max_len:
        text.append(int(pick(next_logits(text))))
        if text[-1] == end:
            break
    return text
