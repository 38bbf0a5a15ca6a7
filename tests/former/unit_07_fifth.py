"""Answers to unit 7, transformer block."""

import math

import torch
import torch.nn.functional as F


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
    Q, K, V = (
        (X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V)
    )
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    if mask is not None:
        mask = mask.expand(batch, n_heads, n, n)
        some = mask.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~(mask | ~some), -math.inf)
        heads = (torch.softmax(scores, dim=-1) @ V) * some
    else:
        heads = torch.softmax(scores, dim=-1) @ V
    return heads.transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def _pre_norm_block(x, p, n_heads, mask=None):
    a = _layer_norm(x, p["gamma_1"], p["beta_1"])
    y = x + _multi_head_attention(
        a, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    b = _layer_norm(y, p["gamma_2"], p["beta_2"])
    return y + _feed_forward(b, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


# 7.1 layer_norm


def layer_norm__wrong_fifth_eps_is_a_floor(x, gamma, beta, eps=1e-5):
    """Takes eps as the least variance, var.clamp(min=eps), and does not add it."""
    mu = x.mean(-1, keepdim=True)
    var = x.var(-1, correction=0, keepdim=True)
    sigma = var.clamp(min=eps).sqrt()
    return (x - mu) / sigma * gamma + beta


def layer_norm__wrong_fifth_all_axes_but_the_first(x, gamma, beta, eps=1e-5):
    """Averages over all axes but the first, so the tokens of one sentence share mean and variance."""
    axes = tuple(range(1, x.dim())) if x.dim() > 1 else (0,)
    m = x.mean(dim=axes, keepdim=True)
    d = x - m
    s2 = d.pow(2).mean(dim=axes, keepdim=True)
    return gamma * d / torch.sqrt(s2 + eps) + beta


def layer_norm__wrong_fifth_mean_absolute_deviation(x, gamma, beta, eps=1e-5):
    """Divides by the mean absolute deviation (squared and rooted with eps), not by the root mean square."""
    mean = torch.mean(x, dim=-1, keepdim=True)
    deviation = x - mean
    spread = torch.mean(torch.abs(deviation), dim=-1, keepdim=True)
    return gamma * (deviation / torch.sqrt(spread**2 + eps)) + beta


def layer_norm__wrong_fifth_centres_in_place(x, gamma, beta, eps=1e-5):
    """Subtracts the mean with -=, which changes the argument x."""
    mu = x.mean(dim=-1, keepdim=True)
    x -= mu
    var = torch.mean(x * x, dim=-1, keepdim=True)
    return x * torch.rsqrt(var + eps) * gamma + beta


def layer_norm__right_fifth_differences_of_pairs(x, gamma, beta, eps=1e-5):
    """Mean over all pairs: x_i - mean is the mean of x_i - x_j, the variance half the mean of its squares."""
    pairs = x.unsqueeze(-1) - x.unsqueeze(-2)  # (..., d, d)
    centred = pairs.mean(dim=-1)
    variance = pairs.square().mean(dim=(-2, -1)).unsqueeze(-1) / 2
    return centred / (variance + eps).sqrt() * gamma + beta


# 7.2 batch_norm


def batch_norm__wrong_fifth_statistics_without_gradient(x, gamma, beta, eps=1e-5):
    """Computes mean and variance under no_grad, so the gradient of x takes them for constants."""
    with torch.no_grad():
        mean = x.mean(dim=(0, 1))
        variance = x.var(dim=(0, 1), correction=0)
    return (x - mean) / torch.sqrt(variance + eps) * gamma + beta


def batch_norm__wrong_fifth_mean_of_the_sentences_variances(x, gamma, beta, eps=1e-5):
    """Averages each sentence's variance about its own mean; what the sentences differ by is lost."""
    mean = x.mean(dim=1).mean(dim=0)
    own = x - x.mean(dim=1, keepdim=True)
    variance = own.square().mean(dim=1).mean(dim=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_fifth_running_averages(x, gamma, beta, eps=1e-5):
    """Normalises with running averages after one update of momentum 0.1 (from 0 and 1), not the batch's own."""
    momentum = 0.1
    batch_mean = x.mean((0, 1))
    batch_var = ((x - batch_mean) ** 2).mean((0, 1))
    running_mean = (1 - momentum) * torch.zeros_like(batch_mean) + momentum * batch_mean
    running_var = (1 - momentum) * torch.ones_like(batch_var) + momentum * batch_var
    return gamma * (x - running_mean) / (running_var + eps).sqrt() + beta


def batch_norm__wrong_fifth_reshape_in_place_of_transpose(x, gamma, beta, eps=1e-5):
    """Gets one row per feature by reshape(d, B*n), which mixes the features, instead of transposing."""
    B, n, d = x.shape
    rows = x.reshape(d, B * n)
    mu = rows.mean(dim=1, keepdim=True)
    var = ((rows - mu) ** 2).mean(dim=1, keepdim=True)
    rows = (rows - mu) / torch.sqrt(var + eps)
    return rows.reshape(B, n, d) * gamma + beta


# 7.3 gelu


def gelu__wrong_fifth_density_for_probability(x):
    """Multiplies x by the density of the standard normal, not by its distribution function."""
    density = torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return x * density


def gelu__wrong_fifth_other_tail(x):
    """Takes erfc(x / sqrt 2) / 2, the probability that the variable is greater than x."""
    tail = torch.erfc(x / math.sqrt(2)) / 2
    return x * tail


def gelu__wrong_fifth_standardises_x(x):
    """Takes 'standard normal' as an order to standardise the tensor before asking for the probability."""
    z = (x - x.mean()) / torch.sqrt(x.var(correction=0) + 1e-5)
    return x * 0.5 * (1 + torch.erf(z / 2**0.5))


def gelu__wrong_fifth_writes_into_x(x):
    """Multiplies with mul_, which overwrites the argument."""
    phi = (1 + torch.erf(x / math.sqrt(2))) / 2
    return x.mul_(phi)


def gelu__right_fifth_erfc_of_minus_x(x):
    """Uses Phi(x) = erfc(-x / sqrt 2) / 2."""
    half = x / 2
    return half * torch.erfc(-x * math.sqrt(0.5))


# 7.4 feed_forward


def feed_forward__wrong_fifth_first_matrix_transposed_again(x, W_1, b_1, W_2, b_2, activation):
    """Goes back with W_1 transposed, as with tied weights; W_2 is never used."""
    hidden = activation(torch.einsum("...d,df->...f", x, W_1) + b_1)
    return torch.einsum("...f,df->...d", hidden, W_1) + b_2


def feed_forward__wrong_fifth_gates_the_hidden(x, W_1, b_1, W_2, b_2, activation):
    """Takes the activation as a gate and multiplies the hidden features by it, h * act(h)."""
    h = x @ W_1 + b_1
    gate = activation(h)
    return (h * gate) @ W_2 + b_2


def feed_forward__wrong_fifth_activation_before_the_first_map(x, W_1, b_1, W_2, b_2, activation):
    """Applies the activation to x itself; between the two maps nothing bends."""
    bent = activation(x)
    up = bent @ W_1 + b_1
    return up @ W_2 + b_2


def feed_forward__wrong_fifth_flattened_for_good(x, W_1, b_1, W_2, b_2, activation):
    """Flattens the tokens to (tokens, d_model) and returns them so, without x's leading axes."""
    tokens = x.reshape(-1, W_1.shape[0])
    hidden = activation(torch.addmm(b_1, tokens, W_1))
    return torch.addmm(b_2, hidden, W_2)


# 7.5 post_norm_block


def post_norm_block__wrong_fifth_norms_the_sublayer_alone(x, params, n_heads, mask=None):
    """Norms what the sublayer returns and adds it then (as OLMo 2), instead of norming the sum."""
    p = params
    att = _multi_head_attention(
        x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    y = x + _layer_norm(att, p["gamma_1"], p["beta_1"])
    out = _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return y + _layer_norm(out, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_fifth_hands_over_the_heads_width(x, params, n_heads, mask=None):
    """Hands d_head = h*d_head / n_heads to the attention where it wants the number of heads."""
    d_head = params["W_Q"].shape[1] // n_heads
    if mask is not None and mask.ndim == 4 and mask.shape[1] not in (1, d_head):
        mask = mask[:, :1]
    weights = [params[name] for name in ("W_Q", "W_K", "W_V", "W_O", "b_O")]
    y = x + _multi_head_attention(x, *weights, d_head, mask)
    y = _layer_norm(y, params["gamma_1"], params["beta_1"])
    z = y + _feed_forward(
        y, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu
    )
    return _layer_norm(z, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_fifth_output_bias_twice(x, params, n_heads, mask=None):
    """Adds b_O once more, although the given attention has added it already."""
    get = params.__getitem__
    attended = _multi_head_attention(
        x, get("W_Q"), get("W_K"), get("W_V"), get("W_O"), get("b_O"), n_heads, mask
    )
    attended = attended + get("b_O")
    y = _layer_norm(x + attended, get("gamma_1"), get("beta_1"))
    fed = _feed_forward(y, get("W_1"), get("b_1"), get("W_2"), get("b_2"), _gelu)
    return _layer_norm(y + fed, get("gamma_2"), get("beta_2"))


def post_norm_block__wrong_fifth_no_mask_is_causal(x, params, n_heads, mask=None):
    """Puts the causal mask in the place of mask=None, where every token may attend to all."""
    n = x.shape[1]
    if mask is None:
        mask = torch.tril(torch.ones(n, n, dtype=torch.bool))
    p = params
    y = _layer_norm(
        x
        + _multi_head_attention(
            x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask=mask
        ),
        p["gamma_1"],
        p["beta_1"],
    )
    f = _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], activation=_gelu)
    return _layer_norm(y + f, p["gamma_2"], p["beta_2"])


# 7.6 pre_norm_block


def pre_norm_block__wrong_fifth_side_by_side(x, params, n_heads, mask=None):
    """Feeds norm 2 of x, not of x + attention, to the FFN: the parallel block."""
    p = params
    first = _layer_norm(x, p["gamma_1"], p["beta_1"])
    second = _layer_norm(x, p["gamma_2"], p["beta_2"])
    a = _multi_head_attention(
        first, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    f = _feed_forward(second, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return x + a + f


def pre_norm_block__wrong_fifth_gamma_beta_one_for_both(x, params, n_heads, mask=None):
    """Uses one norm, gamma_1 and beta_1, before both sublayers."""

    def norm(t):
        return _layer_norm(t, params["gamma_1"], params["beta_1"])

    heads = [params[k] for k in ["W_Q", "W_K", "W_V", "W_O", "b_O"]]
    mlp = [params[k] for k in ["W_1", "b_1", "W_2", "b_2"]]
    x = x + _multi_head_attention(norm(x), *heads, n_heads, mask)
    return x + _feed_forward(norm(x), *mlp, _gelu)


def pre_norm_block__wrong_fifth_adds_into_x(x, params, n_heads, mask=None):
    """Adds the attention to x in place (add_), so the caller's x is changed."""
    p = params
    normed = _layer_norm(x, p["gamma_1"], p["beta_1"])
    note = _multi_head_attention(
        normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    stream = x if not x.requires_grad else x.clone()
    stream.add_(note)
    normed = _layer_norm(stream, p["gamma_2"], p["beta_2"])
    return stream + _feed_forward(
        normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu
    )


def pre_norm_block__wrong_fifth_mask_of_the_first_head(x, params, n_heads, mask=None):
    """Cuts the mask down to (n, n): that of the first sequence and the first head serves all."""
    if mask is not None and mask.dim() > 2:
        mask = mask.reshape(-1, mask.shape[-2], mask.shape[-1])[0]
    y = _layer_norm(x, params["gamma_1"], params["beta_1"])
    y = _multi_head_attention(
        y,
        params["W_Q"],
        params["W_K"],
        params["W_V"],
        params["W_O"],
        params["b_O"],
        n_heads,
        mask,
    )
    x = x + y
    y = _layer_norm(x, params["gamma_2"], params["beta_2"])
    y = _gelu(y @ params["W_1"] + params["b_1"]) @ params["W_2"] + params["b_2"]
    return x + y


# 7.7 transformer_logits


def transformer_logits__wrong_fifth_last_rows_of_the_positions(tokens, params, n_heads):
    """Takes the last n rows of W_pos, W_pos[-n:]; right only where the text fills n_ctx."""
    n = tokens.shape[-1]
    x = params["W_E"][tokens] + params["W_pos"][-n:]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, causal)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_fifth_mask_in_the_first_block_only(tokens, params, n_heads):
    """Hands the causal mask to the first block and none to the later ones."""
    n = tokens.size(1)
    mask = torch.tril(torch.ones((n, n), dtype=torch.bool))
    stream = F.embedding(tokens, params["W_E"]) + params["W_pos"][:n]
    for p in params["blocks"]:
        stream = _pre_norm_block(stream, p, n_heads, mask)
        mask = None
    stream = _layer_norm(stream, params["gamma_f"], params["beta_f"])
    return torch.einsum("bnd,dv->bnv", stream, params["W_U"])


def transformer_logits__wrong_fifth_pops_the_blocks(tokens, params, n_heads):
    """Works through the list with pop(0), so params has no blocks left after the call."""
    n = tokens.shape[1]
    rows, columns = torch.arange(n)[:, None], torch.arange(n)[None, :]
    x = params["W_E"][tokens] + params["W_pos"][rows[:, 0]]
    todo = params["blocks"]
    while todo:
        x = _pre_norm_block(x, todo.pop(0), n_heads, columns <= rows)
    x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_fifth_positions_before_every_block(tokens, params, n_heads):
    """Adds W_pos before each block anew, not once after the embedding."""
    _, n = tokens.shape
    place = params["W_pos"][:n]
    may = torch.ones(n, n).tril().bool()
    x = params["W_E"][tokens]
    if len(params["blocks"]) == 0:
        x = x + place
    for block in params["blocks"]:
        x = _pre_norm_block(x + place, block, n_heads, may)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]).matmul(params["W_U"])


def transformer_logits__right_fifth_prefix_by_prefix(tokens, params, n_heads):
    """Runs every prefix as a text of its own and keeps its last token, with no later token to hide."""
    rows = []
    for end in range(1, tokens.shape[1] + 1):
        prefix = tokens[:, :end]
        x = params["W_E"][prefix] + params["W_pos"][:end]
        past = torch.ones(end, end, dtype=torch.bool).tril()
        for block in params["blocks"]:
            x = _pre_norm_block(x, block, n_heads, past)
        last = _layer_norm(x[:, -1], params["gamma_f"], params["beta_f"])
        rows.append(last @ params["W_U"])
    return torch.stack(rows, dim=1)


# 7.8 bits_per_token


def bits_per_token__wrong_fifth_powers_of_two(logits, targets, mask):
    """Makes probabilities from powers of 2, not of e, so that log2 comes out without a factor."""
    rows = logits[mask]
    if len(rows) == 0:
        return rows.sum()
    wanted = targets[mask]
    scaled = rows * math.log(2)
    log_sum = torch.logsumexp(scaled, dim=-1) / math.log(2)
    chosen = rows.gather(-1, wanted[:, None]).squeeze(-1)
    return (log_sum - chosen).mean()


def bits_per_token__wrong_fifth_mask_as_lengths(logits, targets, mask):
    """Reads the mask as lengths: the first mask.sum(1) places of each row count, wherever the Trues stand."""
    lengths = mask.sum(dim=1)
    inside = torch.arange(mask.shape[1])[None, :] < lengths[:, None]
    rows, wanted = logits[inside], targets[inside]
    if rows.shape[0] == 0:
        return rows.sum()
    wanted = wanted.clamp(0, logits.shape[-1] - 1)
    surprise = -torch.log_softmax(rows, dim=-1)[torch.arange(len(wanted)), wanted]
    return surprise.mean() / math.log(2)


def bits_per_token__wrong_fifth_shifts_once_more(logits, targets, mask):
    """Shifts the targets by one, logits[:, :-1] against targets[:, 1:], though place i scores targets[:, i]."""
    before, after, counts = logits[:, :-1], targets[:, 1:], mask[:, 1:]
    before, after = before[counts], after[counts]
    if after.numel() == 0:
        return before.sum()
    logp = before.log_softmax(-1)
    return -logp.gather(1, after.view(-1, 1)).mean() / math.log(2)


def bits_per_token__wrong_fifth_filler_times_zero(logits, targets, mask):
    """Multiplies the filler's costs by 0, which leaves NaN where the filler's logits are infinite or NaN."""
    safe = torch.where(mask, targets, torch.zeros_like(targets))
    log_p = torch.log_softmax(logits, dim=-1)
    cost = -log_p.gather(-1, safe.unsqueeze(-1)).squeeze(-1) / math.log(2)
    counts = mask.to(logits.dtype)
    return (cost * counts).sum() / counts.sum().clamp(min=1)


# 7.9 adamw_step


def adamw_step__wrong_fifth_nesterov(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Mixes the newest gradient into the mean once more, as NAdam does."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    mean = m / (1 - beta1**step)
    ahead = beta1 * mean + (1 - beta1) * grad / (1 - beta1**step)
    root = (v / (1 - beta2**step)).sqrt()
    return w - lr * ahead / (root + eps) - lr * weight_decay * w, m, v


def adamw_step__wrong_fifth_one_root_for_the_tensor(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Averages the squares over all entries too: one root mean square for the whole tensor, not one for each weight."""
    new_m = beta1 * m + (1 - beta1) * grad
    new_v = beta2 * v + (1 - beta2) * grad.square()
    mean_gradient = new_m / (1 - beta1**step)
    rms = torch.sqrt(torch.mean(new_v / (1 - beta2**step)))
    moved = w - lr * mean_gradient / (rms + eps)
    return moved - lr * weight_decay * w, new_m, new_v


def adamw_step__wrong_fifth_times_in_place_of_power(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Divides by 1 - beta * step in place of 1 - beta ** step (abs under the root); right at step 1 only."""
    m_new = m * beta1 + grad * (1 - beta1)
    v_new = v * beta2 + grad * grad * (1 - beta2)
    m_hat = m_new / (1 - beta1 * step)
    v_hat = v_new / abs(1 - beta2 * step)
    w_new = w * (1 - lr * weight_decay)
    w_new = w_new - lr * m_hat / (torch.sqrt(v_hat) + eps)
    return w_new, m_new, v_new


def adamw_step__wrong_fifth_decay_in_the_same_units(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Divides the decay, too, by the root mean square: (mean + decay * w) / (root + eps)."""
    m2 = torch.lerp(m, grad, 1 - beta1)
    v2 = torch.lerp(v, grad.pow(2), 1 - beta2)
    mean = m2 / (1 - math.pow(beta1, step))
    unit = (v2 / (1 - math.pow(beta2, step))).sqrt() + eps
    w2 = w - lr * (mean + weight_decay * w) / unit
    return w2, m2, v2


def adamw_step__right_fifth_sums_of_proportions(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Adds up what all the gradients so far count in m and in v, one by one, and divides by these sums."""
    new_m = grad * (1 - beta1) + m * beta1
    new_v = grad * grad * (1 - beta2) + v * beta2
    counted_m = sum((1 - beta1) * beta1**age for age in range(step))
    counted_v = sum((1 - beta2) * beta2**age for age in range(step))
    unit = torch.sqrt(new_v / counted_v) + eps
    move = (new_m / counted_m) / unit * lr
    decay = w * (lr * weight_decay)
    return w - (move + decay), new_m, new_v


# 7.10 sample


def sample__wrong_fifth_small_temperature_is_zero(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Takes every temperature below 0.01 for 0, though above 0, however little, odds are asked for."""
    out = list(prompt)
    while len(out) < max_len:
        logits = next_logits(out)
        if temperature < 1e-2:
            new = int(logits.argmax())
        else:
            p = torch.softmax((logits - logits.max()) / temperature, dim=-1)
            values, ids = p.sort(descending=True)
            before = values.cumsum(0) - values
            out_of = before >= top_p
            out_of[0] = False
            p = p.clone()
            p[ids[out_of]] = 0
            new = int(torch.multinomial(p, 1, generator=generator))
        out.append(new)
        if new == end:
            break
    return out


def sample__wrong_fifth_draws_at_temperature_zero(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Draws at temperature 0 as well, from a one-hot p, so the generator moves on."""
    tokens = list(prompt)
    for _ in range(max_len - len(prompt)):
        logits = next_logits(tokens)
        if temperature == 0:
            p = torch.zeros_like(logits)
            p[logits.argmax()] = 1.0
        else:
            lead = (logits.double() - logits.max().double()) / temperature
            p = lead.softmax(-1)
            order = p.argsort(descending=True)
            total, keep = 0.0, []
            for k in order.tolist():
                keep.append(k)
                total += float(p[k])
                if total >= top_p:
                    break
            kept = torch.zeros_like(p)
            kept[keep] = p[keep]
            p = kept.to(logits.dtype)
        tokens.append(torch.multinomial(p, 1, generator=generator).item())
        if tokens[-1] == end:
            return tokens
    return tokens


def sample__wrong_fifth_top_p_zero_is_off(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Takes top_p = 0 for 'switched off' and lets all ids come; it should leave the likeliest alone."""
    text = prompt[:]
    while len(text) < max_len:
        scores = next_logits(text)
        if temperature == 0:
            choice = int(torch.argmax(scores))
        else:
            lead = (scores - scores.max()).double() / temperature
            p = lead.softmax(dim=0).to(scores.dtype)
            if 0 < top_p < 1:
                ordered, where = torch.sort(p, descending=True)
                kept = int((ordered.cumsum(0) < top_p).sum()) + 1
                nucleus = torch.zeros_like(p)
                nucleus[where[:kept]] = ordered[:kept]
                p = nucleus
            choice = int(torch.multinomial(p, 1, generator=generator)[0])
        text = text + [choice]
        if choice == end:
            break
    return text


def sample__wrong_fifth_share_of_the_largest(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Cuts with a floor of (1 - top_p) times the largest probability (min_p), not by what the kept ids add up to."""
    written = [*prompt]
    done = len(written) >= max_len
    while not done:
        logits = next_logits(written)
        if temperature > 0:
            lead = (logits - logits.max()).double() / temperature
            p = torch.softmax(lead, -1).to(logits.dtype)
            floor = (1 - top_p) * p.max()
            p = torch.where(p >= floor, p, torch.zeros_like(p))
            token = torch.multinomial(p, 1, generator=generator).item()
        else:
            token = logits.argmax().item()
        written.append(token)
        done = token == end or len(written) >= max_len
    return written


def sample__right_fifth_mass_of_the_likelier(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Keeps an id if the ids likelier than it have together less than top_p; odds in float64, drawn in the logits' dtype."""
    tokens = [int(token) for token in prompt]
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            token = max(range(len(logits)), key=lambda k: float(logits[k]))
        else:
            exact = logits.double()
            top = exact.max()
            lead = [float(x - top) for x in exact]
            odds = [math.exp(max(x / temperature, -1e6)) for x in lead]
            whole = math.fsum(odds)
            kept = []
            for k, mine in enumerate(odds):
                likelier = math.fsum(
                    odds[j] for j in range(len(odds)) if lead[j] > lead[k]
                )
                stays = lead[k] == 0 or likelier < top_p * whole or top_p >= 1
                kept.append(mine if stays else 0.0)
            p = torch.tensor(kept, dtype=logits.dtype)
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens
