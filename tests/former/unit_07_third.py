"""Answers to unit 07's functions, written from the notebook alone."""

import math

import torch


def _mha(x, p, h, mask):
    B, n, _ = x.shape
    Q, K, V = ((x @ p[w]).reshape(B, n, h, -1).transpose(1, 2) for w in ("W_Q", "W_K", "W_V"))
    S = Q @ K.transpose(-1, -2) / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -torch.inf)
    return (torch.softmax(S, -1) @ V).transpose(1, 2).reshape(B, n, -1) @ p["W_O"] + p["b_O"]


def _norm(x, gamma, beta, eps=1e-5):
    c = x - x.mean(-1, keepdim=True)
    return gamma * c / torch.sqrt((c**2).mean(-1, keepdim=True) + eps) + beta


def _gelu(x):
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def _ffn(x, p):
    return _gelu(x @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"]


def _pre(x, p, h, mask):
    x = x + _mha(_norm(x, p["gamma_1"], p["beta_1"]), p, h, mask)
    return x + _ffn(_norm(x, p["gamma_2"], p["beta_2"]), p)


def layer_norm__wrong_third_uncentred_variance(x, gamma, beta, eps=1e-5):
    """Takes the mean square of the tokens for the variance, without subtracting the mean."""
    mean = x.mean(-1, keepdim=True)
    var = (x**2).mean(-1, keepdim=True)
    return gamma * (x - mean) / torch.sqrt(var + eps) + beta


def layer_norm__right_third_moments(x, gamma, beta, eps=1e-5):
    """Works on columns of flattened tokens and sums with a matrix of 1/d."""
    d = x.shape[-1]
    centre = torch.eye(d, dtype=x.dtype) - torch.full((d, d), 1 / d, dtype=x.dtype)
    c = x.reshape(-1, d) @ centre
    scale = torch.rsqrt(torch.einsum("td,td->t", c, c) / d + eps)
    return (scale[:, None] * c * gamma + beta).reshape(x.shape)


def batch_norm__wrong_third_over_batch_unbiased(x, gamma, beta, eps=1e-5):
    """Averages over the batch axis alone, so each position has statistics of its own; the variance is unbiased."""
    c = x - x.mean(0, keepdim=True)
    return gamma * c / torch.sqrt(x.var(0, keepdim=True) + eps) + beta


def gelu__wrong_third_no_root(x):
    """Calls erf with x itself, without the division by the root of 2."""
    return 0.5 * x * (1 + torch.erf(x))


def feed_forward__wrong_third_bias_after(x, W_1, b_1, W_2, b_2, activation):
    """Adds the first bias after the activation instead of before."""
    return (activation(x @ W_1) + b_1) @ W_2 + b_2


def feed_forward__right_third_augmented(x, W_1, b_1, W_2, b_2, activation):
    """Puts the biases into the matrices as a further row, which meets a column of ones."""

    def affine(z, W, b):
        return torch.cat([z, torch.ones_like(z[..., :1])], -1) @ torch.cat([W, b[None]], 0)

    return affine(activation(affine(x, W_1, b_1)), W_2, b_2)


def post_norm_block__wrong_third_second_from_x(x, params, n_heads, mask=None):
    """The FFN reads the normed tokens, but its residual adds the block's input x instead of y."""
    y = _norm(x + _mha(x, params, n_heads, mask), params["gamma_1"], params["beta_1"])
    return _norm(x + _ffn(y, params), params["gamma_2"], params["beta_2"])


def pre_norm_block__wrong_third_parallel(x, params, n_heads, mask=None):
    """The FFN reads the norm of the block's input, not of the stream behind the attention."""
    a = _mha(_norm(x, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    return x + a + _ffn(_norm(x, params["gamma_2"], params["beta_2"]), params)


def transformer_logits__wrong_third_positions_each_block(tokens, params, n_heads):
    """Adds the positional rows again before every block, not only once to the embedding."""
    n = tokens.shape[1]
    x = params["W_E"][tokens]
    causal = torch.ones(n, n).bool().tril()
    for block in params["blocks"]:
        x = _pre(x + params["W_pos"][:n], block, n_heads, causal)
    return _norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def bits_per_token__wrong_third_mean_of_rows(logits, targets, mask):
    """Averages over each sequence first and then over the sequences, so tokens of short ones count more."""
    logits = torch.where(mask[..., None], logits, torch.zeros_like(logits))
    targets = torch.where(mask, targets, torch.zeros_like(targets))
    nats = -torch.log_softmax(logits, -1).gather(-1, targets[..., None])[..., 0]
    rows = (nats * mask).sum(1) / mask.sum(1).clamp(min=1)
    return rows.mean() / math.log(2)


def adamw_step__wrong_third_l2(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Adds the decay to the gradient as in Adam with L2, so it goes through the moments."""
    grad = grad + weight_decay * w
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    mean, square = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * mean / (square.sqrt() + eps), m, v


def adamw_step__right_third_lerp(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Moves the moments with lerp and shrinks w by a factor before the move."""
    m = torch.lerp(m, grad, 1 - beta1)
    v = torch.lerp(v, grad * grad, 1 - beta2)
    rms = torch.sqrt(v / (1 - beta2**step))
    return w * (1 - lr * weight_decay) - (lr / (1 - beta1**step)) * m / (rms + eps), m, v


def sample__wrong_third_temperature_after(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Divides the probabilities by the temperature instead of the logits, so it changes nothing in the odds."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens)).double()
        if temperature == 0:
            new = int(logits.argmax())
        else:
            p = torch.softmax(logits, -1) / temperature
            p = p / p.sum()
            order = p.argsort(descending=True)
            before = p[order].cumsum(0) - p[order]
            keep = before < top_p
            keep[0] = True
            q = torch.zeros_like(p)
            q[order[keep]] = p[order[keep]]
            new = int(torch.multinomial(q, 1, generator=generator))
        tokens.append(new)
        if new == end:
            break
    return tokens
