"""Answers to unit 07's functions, written from the notebook alone."""

import math

import torch
import torch.nn.functional as F


def _attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None, asks=None):
    """Multi-head self-attention; the queries come from `asks` where it is given."""
    batch, n, _ = X.shape
    asks = X if asks is None else asks
    Q, K, V = (
        (side @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for side, W in ((asks, W_Q), (X, W_K), (X, W_V))
    )
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        lowest = torch.finfo(scores.dtype).min
        weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask
    return (weights @ V).transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def _attend(x, params, n_heads, mask=None, asks=None):
    """The attention of a block's params."""
    names = ("W_Q", "W_K", "W_V", "W_O", "b_O")
    return _attention(x, *(params[name] for name in names), n_heads, mask, asks)


def _norm(x, gamma, beta, eps=1e-5):
    """Layer norm."""
    z = x - x.mean(dim=-1, keepdim=True)
    return gamma * z / torch.sqrt((z * z).mean(dim=-1, keepdim=True) + eps) + beta


def _gelu(x):
    """The exact GELU."""
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


def _ffn(x, params):
    """The feed-forward network of a block's params."""
    return _gelu(x @ params["W_1"] + params["b_1"]) @ params["W_2"] + params["b_2"]


def _norm_1(x, params):
    """The norm of attention."""
    return _norm(x, params["gamma_1"], params["beta_1"])


def _norm_2(x, params):
    """The norm of the feed-forward network."""
    return _norm(x, params["gamma_2"], params["beta_2"])


def _pre_norm(x, params, n_heads, mask=None):
    """A block in the order of GPT-2."""
    y = x + _attend(_norm_1(x, params), params, n_heads, mask)
    return y + _ffn(_norm_2(y, params), params)


# layer_norm


def layer_norm__wrong_eps_as_floor(x, gamma, beta, eps=1e-5):
    """Lifts the variance to eps where it is smaller, in place of adding eps to it."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    return gamma * (x - mean) / torch.sqrt(variance.clamp(min=eps)) + beta


def layer_norm__wrong_gamma_times_beta(x, gamma, beta, eps=1e-5):
    """Multiplies beta by gamma as well, since the brackets stand around the shifted token."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, correction=0)
    return gamma * ((x - mean) / torch.sqrt(variance + eps) + beta)


def layer_norm__wrong_third_axis(x, gamma, beta, eps=1e-5):
    """Averages over axis 2, the features of (B, n, d) only, which is another axis or none for other shapes."""
    mean = x.mean(dim=2, keepdim=True)
    variance = x.var(dim=2, keepdim=True, unbiased=False)
    return gamma * (x - mean) / (variance + eps).sqrt() + beta


def layer_norm__wrong_mean_of_squares_less_square(x, gamma, beta, eps=1e-5):
    """Computes the variance as the mean of x² less mean², which for large numbers is lost in rounding, or negative."""
    mean = x.mean(-1, keepdim=True)
    variance = (x**2).mean(-1, keepdim=True) - mean**2
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def layer_norm__wrong_std_of_torch_plus_eps(x, gamma, beta, eps=1e-5):
    """Divides the squares by d - 1, and adds eps to the root in place of what stands under it."""
    mean = torch.mean(x, dim=-1, keepdim=True)
    d = x.shape[-1]
    variance = ((x - mean) ** 2).sum(dim=-1, keepdim=True) / max(d - 1, 1)
    safe = torch.where(variance > 0, variance, torch.ones_like(variance))
    sigma = torch.where(variance > 0, safe.sqrt(), torch.zeros_like(variance))
    return gamma * (x - mean) / (sigma + eps) + beta


# batch_norm

_remembered = {}


def batch_norm__wrong_running_averages(x, gamma, beta, eps=1e-5):
    """Keeps running averages of mean and variance from call to call, and normalises with these."""
    d = x.shape[-1]
    mean, variance = x.mean(dim=(0, 1)), x.var(dim=(0, 1), correction=0)
    if d in _remembered:
        old_mean, old_variance = _remembered[d]
        mean = 0.9 * old_mean.to(x.dtype) + 0.1 * mean
        variance = 0.9 * old_variance.to(x.dtype) + 0.1 * variance
    _remembered[d] = mean.detach(), variance.detach()
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_mean_of_variances(x, gamma, beta, eps=1e-5):
    """Takes the variance within each sequence, around its own mean, and averages these over the batch."""
    mean = x.mean(dim=1).mean(dim=0)
    variance = x.var(dim=1, unbiased=False).mean(dim=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_reshaped_to_rows(x, gamma, beta, eps=1e-5):
    """Reshapes x to d rows in place of moving its axes, so that a row mixes the features of some tokens."""
    B, n, d = x.shape
    rows = x.reshape(d, B * n)
    mean = rows.mean(dim=1, keepdim=True)
    variance = ((rows - mean) ** 2).mean(dim=1, keepdim=True)
    normed = (rows - mean) / torch.sqrt(variance + eps)
    return gamma * normed.reshape(B, n, d) + beta


def batch_norm__wrong_divided_by_batch(x, gamma, beta, eps=1e-5):
    """Sums the squares over all tokens of the batch, but divides them by the number of sequences alone."""
    B = x.shape[0]
    mean = x.mean(dim=(0, 1), keepdim=True)
    variance = ((x - mean) ** 2).sum(dim=(0, 1), keepdim=True) / B
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_place_by_place(x, gamma, beta, eps=1e-5):
    """Averages over the batch alone, each position by itself, and multiplies x + beta by gamma at the end."""
    mean = x.mean(dim=0, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=0, keepdim=True)
    normed = (x - mean) / torch.sqrt(variance + eps)
    return (normed + beta) * gamma


def batch_norm__right_feature_by_feature(x, gamma, beta, eps=1e-5):
    """Goes through the features in a loop and stacks the columns behind one another."""
    columns = []
    for column, scale, shift in zip(x.unbind(-1), gamma, beta, strict=True):
        deviation = column - column.mean()
        columns.append(deviation * torch.rsqrt(deviation.square().mean() + eps) * scale + shift)
    return torch.stack(columns, dim=-1)


# gelu


def gelu__wrong_standardised_first(x):
    """Subtracts the mean of all entries and divides by their deviation, to make x a standard normal variable."""
    z = (x - x.mean()) / (x.std(correction=0) + 1e-5)
    return x * 0.5 * (1 + torch.erf(z / math.sqrt(2)))


def gelu__wrong_root_outside(x):
    """Divides the value of erf by the root of 2, and not what goes into it."""
    return x / 2 * (1 + torch.erf(x) / math.sqrt(2))


def gelu__wrong_single_numbers(x):
    """Takes erf of single Python numbers and makes a new float32 tensor of them: digits and gradient are lost."""
    values = [math.erf(value / math.sqrt(2)) for value in x.flatten().tolist()]
    phi = (1 + torch.tensor(values).reshape(x.shape)) / 2
    return x * phi


def gelu__wrong_negatives_to_zero(x):
    """Sets the result to 0 for negative numbers as ReLU does, though GELU lets a part of them through."""
    phi = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    return torch.clamp(x, min=0) * phi


def gelu__wrong_density_and_width(x):
    """Multiplies x by the bell curve's height and not by the area to the left, with exp(-x²) in place of exp(-x²/2)."""
    height = torch.exp(-(x**2)) / math.sqrt(2 * math.pi)
    return x * height


# feed_forward


def feed_forward__wrong_bias_after_activation(x, W_1, b_1, W_2, b_2, activation):
    """Adds the first bias after the activation in place of before."""
    hidden = activation(x @ W_1) + b_1
    return hidden @ W_2 + b_2


def feed_forward__wrong_bent_twice(x, W_1, b_1, W_2, b_2, activation):
    """Applies the activation to the hidden features twice, which shows with all but those like ReLU."""
    hidden = activation(x @ W_1 + b_1)
    return activation(hidden) @ W_2 + b_2


def feed_forward__wrong_three_axes(x, W_1, b_1, W_2, b_2, activation):
    """Takes B, n and d_model from the shape of x, so that only tokens with exactly three axes get through."""
    B, n, d_model = x.shape
    hidden = activation(x.reshape(B * n, d_model) @ W_1 + b_1)
    return (hidden @ W_2 + b_2).reshape(B, n, d_model)


def feed_forward__wrong_always_relu(x, W_1, b_1, W_2, b_2, activation):
    """Uses ReLU whatever activation is handed over."""
    return F.relu(x @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_way_back_and_bypass(x, W_1, b_1, W_2, b_2, activation):
    """Goes back through the transpose of W_1 in place of W_2, and adds x to the result."""
    hidden = activation(F.linear(x, W_1.T, b_1))
    return x + F.linear(hidden, W_1, b_2)


# post_norm_block


def post_norm_block__wrong_sublayers_normed(x, params, n_heads, mask=None):
    """Norms what each sublayer returns and then adds it, so that the sum itself is not normed."""
    y = x + _norm_1(_attend(x, params, n_heads, mask), params)
    return y + _norm_2(_ffn(y, params), params)


def post_norm_block__wrong_bias_twice(x, params, n_heads, mask=None):
    """Adds b_O once more to the result of the attention, which holds it already."""
    attended = _attend(x, params, n_heads, mask) + params["b_O"]
    y = _norm_1(x + attended, params)
    return _norm_2(y + _ffn(y, params), params)


def post_norm_block__wrong_mask_turned_round(x, params, n_heads, mask=None):
    """Turns the mask round before the attention gets it, as if True meant “may not attend”."""
    if mask is not None:
        mask = ~mask
    y = _norm_1(x + _attend(x, params, n_heads, mask), params)
    return _norm_2(y + _ffn(y, params), params)


def post_norm_block__wrong_ffn_before_the_norm(x, params, n_heads, mask=None):
    """Feeds the network with the sum as it is before the first norm, and adds that to the normed tokens."""
    total = x + _attend(x, params, n_heads, mask)
    y = _norm_1(total, params)
    return _norm_2(y + _ffn(total, params), params)


def post_norm_block__wrong_first_norm_and_first_x(x, params, n_heads, mask=None):
    """Uses gamma_1 and beta_1 in both norms, and adds x in place of y in the second residual."""
    gamma, beta = params["gamma_1"], params["beta_1"]
    y = _norm(x + _attend(x, params, n_heads, mask), gamma, beta)
    return _norm(x + _ffn(y, params), gamma, beta)


# pre_norm_block


def pre_norm_block__wrong_adds_into_x(x, params, n_heads, mask=None):
    """Adds what the sublayers find into the tensor x that was handed over, which changes the caller's tokens."""
    x += _attend(_norm_1(x, params), params, n_heads, mask)
    x += _ffn(_norm_2(x, params), params)
    return x


def pre_norm_block__wrong_only_queries_normed(x, params, n_heads, mask=None):
    """Makes the queries from the normed tokens, but keys and values from the tokens as they are."""
    y = x + _attend(x, params, n_heads, mask, asks=_norm_1(x, params))
    return y + _ffn(_norm_2(y, params), params)


def pre_norm_block__wrong_dropout(x, params, n_heads, mask=None):
    """Sets one in ten entries of each sublayer's output to 0 at random, though nothing may be drawn."""
    y = x + F.dropout(_attend(_norm_1(x, params), params, n_heads, mask), p=0.1)
    return y + F.dropout(_ffn(_norm_2(y, params), params), p=0.1)


def pre_norm_block__wrong_one_norm_for_both(x, params, n_heads, mask=None):
    """Norms x once and hands that to both sublayers, so that the network does not see what attention brought."""
    normed = _norm_1(x, params)
    y = x + _attend(normed, params, n_heads, mask)
    return y + _ffn(normed, params)


def pre_norm_block__wrong_no_mask_norm_behind(x, params, n_heads, mask=None):
    """Does not hand the mask on, and norms what the network returns in place of what it reads."""
    y = x + _attend(_norm_1(x, params), params, n_heads)
    return y + _norm_2(_ffn(y, params), params)


def pre_norm_block__right_sequences_and_heads_in_loops(x, params, n_heads, mask=None):
    """Adds up, in loops over sequences and heads, what each head writes into the stream through its rows of W_O."""
    B, n, _ = x.shape
    if mask is None:
        mask = torch.ones(n, n, dtype=torch.bool)
    mask = mask.broadcast_to(B, n_heads, n, n)
    width = params["W_Q"].shape[1] // n_heads
    W = {name: params[name].split(width, dim=1) for name in ("W_Q", "W_K", "W_V")}
    stream = []
    for tokens, allowed in zip(x, mask, strict=True):
        normed, y = _norm_1(tokens, params), tokens + params["b_O"]
        for a, rows in enumerate(params["W_O"].split(width)):
            scores = (normed @ W["W_Q"][a]) @ (normed @ W["W_K"][a]).T / math.sqrt(width)
            some = allowed[a].any(dim=-1, keepdim=True)
            weights = scores.masked_fill(~(allowed[a] | ~some), -torch.inf).softmax(dim=-1) * some
            y = y + weights @ (normed @ W["W_V"][a] @ rows)
        stream.append(y + _ffn(_norm_2(y, params), params))
    return torch.stack(stream)


# transformer_logits


def transformer_logits__wrong_last_positions(tokens, params, n_heads):
    """Adds the last n rows of W_pos in place of the first n."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][-n:]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm(x, block, n_heads, causal)
    return _norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_scaled_embedding(tokens, params, n_heads):
    """Multiplies the embeddings of the tokens by the root of d_model before the positions are added."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] * math.sqrt(params["W_E"].shape[1])
    x = x + params["W_pos"][:n]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm(x, block, n_heads, causal)
    return _norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_positions_in_every_block(tokens, params, n_heads):
    """Adds the positions anew before every block, so that they count once for each block."""
    n = tokens.shape[1]
    x, positions = params["W_E"][tokens], params["W_pos"][:n]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm(x + positions, block, n_heads, causal)
    return _norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_positions_by_id(tokens, params, n_heads):
    """Looks the positions up by the ids of the tokens, which also fails where an id is n_ctx or more."""
    n = tokens.shape[1]
    x = F.embedding(tokens, params["W_E"]) + F.embedding(tokens, params["W_pos"])
    causal = torch.ones(n, n).tril().bool()
    for block in params["blocks"]:
        x = _pre_norm(x, block, n_heads, causal)
    return _norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_normed_in_the_loop(tokens, params, n_heads):
    """Applies the final norm after every block, and gives the causal mask to the first block alone."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _norm(_pre_norm(x, block, n_heads, mask), params["gamma_f"], params["beta_f"])
        mask = None
    return x @ params["W_U"]


# bits_per_token


def bits_per_token__wrong_log_of_softmax(logits, targets, mask):
    """Takes the logarithm of the probability plus 1e-9, so that no token ever costs more than 30 bits."""
    logits, targets = logits[mask], targets[mask]
    probabilities = torch.softmax(logits, dim=-1)
    given = probabilities[torch.arange(len(targets)), targets]
    costs = -torch.log2(given + 1e-9)
    return costs.sum() / max(len(targets), 1)


def bits_per_token__wrong_filler_thrown_out_late(logits, targets, mask):
    """Computes the cost of the filler too and drops it with where, so that NaN there makes its gradient NaN."""
    safe = targets.clamp(0, logits.shape[-1] - 1)
    log_p = torch.log_softmax(logits, dim=-1).gather(-1, safe.unsqueeze(-1)).squeeze(-1)
    costs = torch.where(mask, -log_p / math.log(2), torch.zeros_like(log_p))
    return costs.sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_shifted_once_more(logits, targets, mask):
    """Moves the targets by one place against the logits, though place i of the logits scores targets[:, i]."""
    logits, targets, mask = logits[:, :-1], targets[:, 1:], mask[:, 1:]
    log_p = torch.log_softmax(logits[mask], dim=-1)
    costs = -log_p.gather(1, targets[mask][:, None]) / math.log(2)
    return costs.sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_entropy(logits, targets, mask):
    """Averages the entropy of the model's own probabilities, and takes no notice of which token came."""
    log_p = torch.log_softmax(logits[mask], dim=-1)
    p = log_p.exp()
    surprise = torch.where(p > 0, -log_p, torch.zeros_like(p)) / math.log(2)
    return (p * surprise).sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_mean_of_texts_in_nats(logits, targets, mask):
    """Averages within each sequence first and then over the sequences, and counts in nats in place of bits."""
    means = []
    for row, wanted, counts in zip(logits, targets, mask, strict=True):
        if counts.any():
            log_p = torch.log_softmax(row[counts], dim=-1)
            means.append(-log_p.gather(1, wanted[counts].unsqueeze(1)).mean())
    if not means:
        return logits[mask].sum()
    return torch.stack(means).mean()


# adamw_step


def adamw_step__wrong_averages_in_place(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Writes the new averages into the tensors m and v that were handed over, and returns these."""
    m.mul_(beta1).add_(grad, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w), m, v


def adamw_step__wrong_correction_times_step(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Corrects by (1 - beta) times the number of the step in place of 1 - beta to its power: right at step 1 only."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat = m / ((1 - beta1) * step)
    v_hat = v / ((1 - beta2) * step)
    w = w - lr * (m_hat / (torch.sqrt(v_hat) + eps) + weight_decay * w)
    return w, m, v


def adamw_step__wrong_decay_without_lr(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Lets w lose the whole share weight_decay at every step, not multiplied by the learning rate."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad * grad
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    w = w * (1 - weight_decay) - lr * m_hat / (v_hat.sqrt() + eps)
    return w, m, v


def adamw_step__wrong_one_v_for_all(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Takes the mean square of the whole gradient into v, one number for all weights, and not each its own square."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad.square().mean()
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w), m, v


def adamw_step__wrong_one_step_late_eps_under_root(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Corrects with step + 1 as if steps were counted from 0, and puts eps under the root."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    t = step + 1
    m_hat = m / (1 - beta1**t)
    v_hat = v / (1 - beta2**t)
    return w - lr * (m_hat / torch.sqrt(v_hat + eps) + weight_decay * w), m, v


def adamw_step__right_shrink_then_move(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Shrinks the old weight first, and leaves the corrections to the length of the step and to the root of v."""
    m = torch.lerp(m, grad, 1 - beta1)
    v = torch.addcmul(v * beta2, grad, grad, value=1 - beta2)
    root = v.sqrt() / math.sqrt(1 - beta2**step)
    return torch.addcdiv(w * (1 - lr * weight_decay), m, root + eps, value=-lr / (1 - beta1**step)), m, v


# sample


def _nucleus(p, top_p):
    """p with 0 for all but the fewest most likely ids that have top_p together."""
    order = p.argsort(descending=True, stable=True)
    before = p[order].cumsum(0) - p[order]
    kept = (before < top_p) | (top_p >= 1)
    kept[0] = True
    out = torch.zeros_like(p)
    out[order[kept]] = p[order[kept]]
    return out


def _tempered(logits, temperature):
    """softmax(logits / temperature), also for a temperature near 0."""
    gap = logits - logits.max()
    return torch.softmax(torch.where(gap == 0, gap, gap / temperature), dim=-1)


def sample__wrong_writes_into_the_prompt(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Appends the new tokens to the list of the prompt itself, which the caller finds changed."""
    tokens = prompt
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p = _nucleus(_tempered(logits, temperature), top_p)
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_nucleus_before_temperature(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Chooses the ids for top_p by the probabilities at temperature 1, and applies the temperature afterwards."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            token = logits.argmax().item()
        else:
            kept = _nucleus(torch.softmax(logits, dim=-1), top_p) > 0
            p = _tempered(logits.masked_fill(~kept, -torch.inf), temperature)
            token = torch.multinomial(p, 1, generator=generator).item()
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_draws_from_the_sorted(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Draws a rank from the sorted probabilities and looks up its id, so that a generator draws other tokens."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p, order = _tempered(logits, temperature).sort(descending=True, stable=True)
            p = _nucleus(p, top_p)
            token = int(order[torch.multinomial(p, 1, generator=generator)])
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_threshold(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Reads top_p as a bound for single tokens: keeps each whose own probability is 1 - top_p or more."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        token = int(logits.argmax())
        if temperature != 0:
            p = _tempered(logits, temperature)
            kept = p >= 1 - top_p
            kept[token] = True
            p = torch.where(kept, p, torch.zeros_like(p))
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_end_in_prompt_times_temperature(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Writes nothing where the prompt's last token is end, and multiplies the logits by the temperature."""
    tokens = list(prompt)
    while len(tokens) < max_len and tokens[-1] != end:
        logits = next_logits(list(tokens))
        if temperature == 0:
            tokens.append(int(logits.argmax()))
            continue
        p = _nucleus(torch.softmax(logits * temperature, dim=-1), top_p)
        tokens.append(int(torch.multinomial(p, 1, generator=generator)))
    return tokens


def sample__right_without_sorting(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Sorts nothing: sums for each id, in a table of all pairs, what the likelier ids have together."""
    written = []
    while len(prompt) + len(written) < max_len and written[-1:] != [end]:
        logits = next_logits([*prompt, *written])
        best = int(logits.argmax())
        if temperature == 0:
            written.append(best)
            continue
        gap = logits - logits[best]
        p = torch.softmax(torch.where(gap == 0, torch.zeros_like(gap), gap / temperature), dim=-1)
        ids = torch.arange(len(p))
        likelier = (p > p[:, None]) | ((p == p[:, None]) & (ids < ids[:, None]))
        before = (likelier * p).sum(dim=1)
        kept = (before < top_p) | (ids == best) if top_p < 1 else ids >= 0
        written.append(int(torch.multinomial(p * kept, 1, generator=generator)))
    return [int(token) for token in [*prompt, *written]]
