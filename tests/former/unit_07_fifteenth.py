import functools
import math

import torch
import torch.nn.functional as F


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    batch, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V))
    if mask is not None:
        assert mask.dtype == torch.bool
        mask = mask.expand(batch, n_heads, n, n)
        some = mask.any(dim=-1, keepdim=True)
        heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask | ~some) * some
    else:
        heads = F.scaled_dot_product_attention(Q, K, V)
    return heads.transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


def _layer_norm(x, gamma, beta, eps=1e-5):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    centred = wide - wide.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return (gamma * centred / torch.sqrt(variance + eps) + beta).to(x.dtype)


def _gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def _feed_forward(x, W_1, b_1, W_2, b_2, activation):
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def _pre_norm_block(x, params, n_heads, mask=None):
    p = params
    normed = _layer_norm(x, p["gamma_1"], p["beta_1"])
    y = x + _multi_head_attention(normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    normed = _layer_norm(y, p["gamma_2"], p["beta_2"])
    return y + _feed_forward(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


# 7.1 layer_norm


def layer_norm__wrong_fifteenth_one_mean_per_sequence(x, gamma, beta, eps=1e-5):
    """Averages over tokens and features of a sequence together; due is the last axis alone."""
    axes = (-2, -1) if x.ndim > 1 else (-1,)
    mean = x.mean(dim=axes, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=axes, keepdim=True)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def layer_norm__wrong_fifteenth_scales_and_shifts_before_normalising(x, gamma, beta, eps=1e-5):
    """Applies gamma and beta to x and normalises that; due is to normalise, then scale and shift."""
    h = x * gamma + beta
    h = h - h.mean(-1, keepdim=True)
    return h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps)


def layer_norm__wrong_fifteenth_eps_as_a_floor_of_the_variance(x, gamma, beta, eps=1e-5):
    """Replaces variances below eps by eps; due is to add eps to every variance."""
    d = x.shape[-1]
    mean = x.sum(-1, keepdim=True) / d
    centred = x - mean
    variance = (centred * centred).sum(-1, keepdim=True) / d
    return gamma * centred / variance.clamp(min=eps).sqrt() + beta


def layer_norm__wrong_fifteenth_beta_inside_the_bracket(x, gamma, beta, eps=1e-5):
    """Multiplies the shift by gamma as well; due is gamma * z + beta."""
    mu = torch.mean(x, dim=-1, keepdim=True)
    sigma2 = torch.mean((x - mu) ** 2, dim=-1, keepdim=True)
    return gamma * ((x - mu) / torch.sqrt(sigma2 + eps) + beta)


def layer_norm__wrong_fifteenth_power_one_over_two_without_brackets(x, gamma, beta, eps=1e-5):
    """Writes ** 1 / 2, which halves; due is the root, ** 0.5."""
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = (centred**2).mean(dim=-1, keepdim=True)
    divisor = (variance + eps) ** 1 / 2
    return gamma * (centred / divisor) + beta


def layer_norm__wrong_fifteenth_eps_in_units_of_the_deviation(x, gamma, beta, eps=1e-5):
    """Takes eps as a standard deviation and squares it; due is eps as it is, beside the variance."""
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps**2) * gamma + beta


def layer_norm__wrong_fifteenth_nan_gradient_for_equal_features(x, gamma, beta, eps=1e-5):
    """Takes the root of the bare variance, whose slope at 0 is infinite; due is one root of variance + eps."""
    work = x.to(torch.promote_types(x.dtype, torch.float32))
    centred = work - work.mean(-1, keepdim=True)
    sigma = centred.pow(2).mean(-1, keepdim=True).sqrt()
    divisor = torch.hypot(sigma, torch.full_like(sigma, math.sqrt(eps)))
    return (gamma * centred / divisor + beta).to(x.dtype)


def layer_norm__wrong_fifteenth_half_comes_back_as_single(x, gamma, beta, eps=1e-5):
    """Computes float16 in float32 and stays there; due is a float16 result for float16 tokens."""
    if x.dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    return gamma * (x - mean) / (variance + eps).sqrt() + beta


def layer_norm__right_fifteenth_hypotenuse_of_deviation_and_root_of_eps(x, gamma, beta, eps=1e-5):
    """Divides by hypot(sigma, sqrt(eps)), which is the root of variance + eps, as is due."""
    work = x.double()
    sigma, mean = torch.std_mean(work, dim=-1, correction=0, keepdim=True)
    divisor = torch.hypot(sigma, torch.full_like(sigma, eps).sqrt())
    return torch.addcmul(beta.double(), gamma.double(), (work - mean) / divisor).to(x.dtype)


# 7.2 batch_norm


def batch_norm__wrong_fifteenth_mean_of_the_variances_within_sentences(x, gamma, beta, eps=1e-5):
    """Averages the variances that each sentence has around its own mean; due is the variance around the common mean."""
    means = x.mean(dim=1)
    variances = ((x - means[:, None]) ** 2).mean(dim=1)
    mean, variance = means.mean(dim=0), variances.mean(dim=0)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_fifteenth_own_means_but_a_common_variance(x, gamma, beta, eps=1e-5):
    """Gives every feature its mean and all features one variance; due is a variance for each feature."""
    centred = x - x.mean(dim=(0, 1))
    variance = (centred**2).mean()
    return gamma * centred / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_fifteenth_one_axis_after_the_other(x, gamma, beta, eps=1e-5):
    """Normalises along the tokens and then along the batch; due is once, over both axes together."""
    y = x
    for axis in (1, 0):
        mean = y.mean(dim=axis, keepdim=True)
        variance = (y - mean).pow(2).mean(dim=axis, keepdim=True)
        y = (y - mean) / (variance + eps).sqrt()
    return gamma * y + beta


def batch_norm__wrong_fifteenth_reshaped_instead_of_transposed(x, gamma, beta, eps=1e-5):
    """Cuts the numbers into d rows by reshape, which mixes features; due is a row for each feature."""
    B, n, d = x.shape
    rows = x.reshape(d, B * n)
    mean = rows.mean(dim=1, keepdim=True)
    variance = ((rows - mean) ** 2).mean(dim=1, keepdim=True)
    normed = ((rows - mean) / torch.sqrt(variance + eps)).reshape(B, n, d)
    return gamma * normed + beta


def batch_norm__wrong_fifteenth_counts_tokens_times_features(x, gamma, beta, eps=1e-5):
    """Divides the squares by n * d; due is B * n, the number of tokens."""
    B, n, d = x.shape
    mean = x.sum(dim=(0, 1)) / (B * n)
    squares = ((x - mean) ** 2).sum(dim=(0, 1))
    variance = squares / (n * d)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


def batch_norm__wrong_fifteenth_with_running_averages(x, gamma, beta, eps=1e-5):
    """Normalises with running averages after one update; due are the statistics of the batch at hand."""
    momentum = 0.1
    variance, mean = torch.var_mean(x, dim=(0, 1), correction=0)
    running_mean = (1 - momentum) * torch.zeros_like(mean) + momentum * mean
    running_var = (1 - momentum) * torch.ones_like(variance) + momentum * variance
    return gamma * (x - running_mean) / torch.sqrt(running_var + eps) + beta


def batch_norm__wrong_fifteenth_tokens_of_zeros_do_not_count(x, gamma, beta, eps=1e-5):
    """Leaves tokens of zeros out of the statistics as if they were pads; due are all tokens."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    counts = (wide != 0).any(dim=-1, keepdim=True).to(wide.dtype)
    total = counts.sum().clamp(min=1)
    mean = (wide * counts).sum(dim=(0, 1)) / total
    variance = (counts * (wide - mean) ** 2).sum(dim=(0, 1)) / total
    return (gamma * (wide - mean) / torch.sqrt(variance + eps) + beta).to(x.dtype)


def batch_norm__wrong_fifteenth_centres_x_itself_through_a_view(x, gamma, beta, eps=1e-5):
    """Subtracts the mean in place from a reshape, which is a view of x; due is to leave x alone."""
    flat = x.reshape(-1, x.shape[-1])
    flat -= flat.mean(dim=0)
    variance = (flat**2).mean(dim=0)
    return (gamma * flat / torch.sqrt(variance + eps) + beta).reshape(x.shape)


def batch_norm__right_fifteenth_length_of_a_column_with_eps_as_one_more_entry(x, gamma, beta, eps=1e-5):
    """Takes the divisor as the length of the deviations / sqrt(B*n) with sqrt(eps) below: the root that is due."""
    tokens = x.double().flatten(0, 1)
    count = len(tokens)
    deviations = tokens - tokens.new_ones(1, count) @ tokens / count
    deviations = deviations - deviations.mean(0)
    column = torch.cat([deviations / math.sqrt(count), torch.full_like(tokens[:1], math.sqrt(eps))])
    divisor = torch.linalg.vector_norm(column, dim=0)
    return (deviations * (gamma / divisor) + beta).unflatten(0, x.shape[:2]).to(x.dtype)


# 7.3 gelu


def gelu__wrong_fifteenth_density_for_the_probability(x):
    """Multiplies by the height of the bell curve at x; due is the area to the left of x."""
    bell = torch.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return x * bell


def gelu__wrong_fifteenth_probability_of_lying_between_minus_x_and_x(x):
    """Multiplies by the probability of lying within |x| of 0; due is that of lying below x."""
    within = torch.erf(x.abs() / math.sqrt(2))
    return x * within


def gelu__wrong_fifteenth_standardises_x_first(x):
    """Compares x with the other entries before it takes the probability; due is the probability at x itself."""
    z = (x - x.mean()) / torch.sqrt(x.var(correction=0) + 1e-5)
    return x * 0.5 * (1 + torch.erf(z / math.sqrt(2)))


def gelu__wrong_fifteenth_divides_erf_by_the_root(x):
    """Divides the value of erf by the root of 2; due is to divide its argument."""
    return x / 2 * (1 + torch.erf(x) / math.sqrt(2))


def gelu__wrong_fifteenth_bracket_around_the_sum_missing(x):
    """Multiplies the 1 alone by x / 2; due is x / 2 times the whole sum."""
    root = math.sqrt(2)
    return 0.5 * x * 1 + torch.erf(x / root)


def gelu__wrong_fifteenth_returns_the_gate(x):
    """Returns the probability alone; due is x times that."""
    normal = torch.distributions.Normal(torch.zeros_like(x), torch.ones_like(x))
    return normal.cdf(x)


def gelu__wrong_fifteenth_no_slope_at_exactly_zero(x):
    """ReLU minus an even part: right values, but autograd finds the slope 0 at x = 0; due is 1/2."""
    size = x.abs()
    tail = 0.5 * torch.erfc(size / math.sqrt(2))
    return torch.relu(x) - size * tail


def gelu__wrong_fifteenth_gate_made_of_python_numbers(x):
    """Takes erf of Python numbers, so no gradient passes the gate; due is erf of the tensor."""
    gate = [0.5 * (1 + math.erf(value / math.sqrt(2))) for value in x.flatten().tolist()]
    return x * torch.tensor(gate, dtype=x.dtype, device=x.device).reshape(x.shape)


def gelu__right_fifteenth_half_of_x_plus_half_of_an_even_part(x):
    """x/2 plus the even part |x|/2 * erf(|x|/sqrt(2)): the exact form, as is due."""
    half = x / 2
    size = half.abs()
    return torch.addcmul(half, size, torch.erf(size * math.sqrt(2)))


# 7.4 feed_forward


def feed_forward__wrong_fifteenth_bends_the_token_before_the_first_map(x, W_1, b_1, W_2, b_2, activation):
    """Applies the activation to x and then both maps; due is the activation between the maps."""
    bent = activation(x)
    hidden = bent @ W_1 + b_1
    return hidden @ W_2 + b_2


def feed_forward__wrong_fifteenth_activation_as_a_factor(x, W_1, b_1, W_2, b_2, activation):
    """Multiplies the hidden features by their activation; due is the activation in their place."""
    scores = x @ W_1 + b_1
    gate = activation(scores)
    return (scores * gate) @ W_2 + b_2


def feed_forward__wrong_fifteenth_decides_yes_or_no(x, W_1, b_1, W_2, b_2, activation):
    """Lets a score pass as it is if its activation is positive; due is the activation's value."""
    scores = x @ W_1 + b_1
    yes = activation(scores) > 0
    return torch.where(yes, scores, torch.zeros_like(scores)) @ W_2 + b_2


def feed_forward__wrong_fifteenth_second_bias_added_to_the_matrix(x, W_1, b_1, W_2, b_2, activation):
    """Adds b_2 to every row of W_2; due is to add it once to the product."""
    hidden = activation(x @ W_1 + b_1)
    return hidden @ (W_2 + b_2)


def feed_forward__wrong_fifteenth_goes_back_by_the_first_matrix(x, W_1, b_1, W_2, b_2, activation):
    """Goes back with the transpose of W_1; due is W_2."""
    hidden = F.linear(x, W_1.T, b_1)
    return F.linear(activation(hidden), W_1, b_2)


def feed_forward__wrong_fifteenth_tokens_in_one_long_list(x, W_1, b_1, W_2, b_2, activation):
    """Returns all tokens in one list of rows; due are the axes of x in front."""
    tokens = x.reshape(-1, x.shape[-1])
    hidden = activation(torch.addmm(b_1, tokens, W_1))
    return torch.addmm(b_2, hidden, W_2)


def feed_forward__wrong_fifteenth_four_times_d_model_and_no_more(x, W_1, b_1, W_2, b_2, activation):
    """Takes the hidden features in four parts of d_model and drops the rest; due is any d_ff."""
    d = x.shape[-1]
    out = b_2
    for k in range(4):
        part = slice(k * d, (k + 1) * d)
        out = out + activation(x @ W_1[:, part] + b_1[part]) @ W_2[part]
    return out


def feed_forward__wrong_fifteenth_gathers_the_result_in_single_precision(x, W_1, b_1, W_2, b_2, activation):
    """Adds everything into zeros of the default dtype; due is the dtype of x."""
    result = torch.zeros(*x.shape[:-1], W_2.shape[1])
    hidden = activation(x @ W_1 + b_1)
    result += hidden @ W_2
    result += b_2
    return result


def feed_forward__right_fifteenth_biases_as_one_more_row(x, W_1, b_1, W_2, b_2, activation):
    """Appends a 1 to the features and the bias to the matrix, twice: the two maps that are due."""

    def affine(rows, matrix, bias):
        with_one = torch.cat([rows, torch.ones_like(rows[..., :1])], dim=-1)
        return with_one @ torch.cat([matrix, bias.unsqueeze(0)])

    return affine(activation(affine(x, W_1, b_1)), W_2, b_2)


# 7.5 post_norm_block


def post_norm_block__wrong_fifteenth_norms_what_the_sublayer_returns(x, params, n_heads, mask=None):
    """Norms each sublayer's result and then adds it; due is to add first and norm the sum."""
    p = params
    note = _multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    y = x + _layer_norm(note, p["gamma_1"], p["beta_1"])
    note = _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return y + _layer_norm(note, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_fifteenth_network_sees_the_sum_before_its_norm(x, params, n_heads, mask=None):
    """Feeds the FFN with the unnormed sum; due is the normed y for both the FFN and its residual."""
    attended = _multi_head_attention(
        x, params["W_Q"], params["W_K"], params["W_V"], params["W_O"], params["b_O"], n_heads, mask
    )
    total = x + attended
    y = _layer_norm(total, params["gamma_1"], params["beta_1"])
    fed = _feed_forward(total, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu)
    return _layer_norm(y + fed, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_fifteenth_one_bypass_around_the_whole_block(x, params, n_heads, mask=None):
    """Adds x once, at the end; due is a residual around each of the two sublayers."""
    weights = [params[name] for name in ("W_Q", "W_K", "W_V", "W_O", "b_O")]
    y = _layer_norm(_multi_head_attention(x, *weights, n_heads, mask), params["gamma_1"], params["beta_1"])
    z = _feed_forward(y, *[params[name] for name in ("W_1", "b_1", "W_2", "b_2")], _gelu)
    return _layer_norm(x + z, params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_fifteenth_keys_and_values_trade_matrices(x, params, n_heads, mask=None):
    """Hands over W_V before W_K; due is the order of the signature: W_Q, W_K, W_V."""
    p = params
    attended = _multi_head_attention(x, p["W_Q"], p["W_V"], p["W_K"], p["W_O"], p["b_O"], n_heads, mask=mask)
    y = _layer_norm(x + attended, p["gamma_1"], p["beta_1"])
    fed = _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _layer_norm(y + fed, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_fifteenth_second_norm_with_the_first_shift(x, params, n_heads, mask=None):
    """Gives the second norm beta_1; due is beta_2."""
    g1, b1, g2 = params["gamma_1"], params["beta_1"], params["gamma_2"]
    attention_weights = (params[k] for k in ["W_Q", "W_K", "W_V", "W_O", "b_O"])
    y = _layer_norm(x + _multi_head_attention(x, *attention_weights, n_heads, mask), g1, b1)
    hidden = _gelu(y @ params["W_1"] + params["b_1"])
    return _layer_norm(y + hidden @ params["W_2"] + params["b_2"], g2, b1)


def post_norm_block__wrong_fifteenth_no_mask_taken_as_causal(x, params, n_heads, mask=None):
    """Makes a causal mask where none is given; due is that without a mask all may attend."""
    if mask is None:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
    p = params
    x = x + _multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    x = _layer_norm(x, p["gamma_1"], p["beta_1"])
    x = x + _feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return _layer_norm(x, p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_fifteenth_mask_of_three_axes_read_as_one_per_sequence(x, params, n_heads, mask=None):
    """Puts a head axis into a mask of three axes; due is to hand on (h, n, n) as it comes."""
    if mask is not None and mask.ndim == 3:
        mask = mask.unsqueeze(1)
    p = params
    heads = _multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    y = _layer_norm(x + heads, p["gamma_1"], p["beta_1"])
    return _layer_norm(y + _feed_forward(y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu), p["gamma_2"], p["beta_2"])


def post_norm_block__wrong_fifteenth_adds_into_x(x, params, n_heads, mask=None):
    """Adds the attention to x in place under another name; due is to leave x as it is."""
    y = x
    y += _multi_head_attention(
        x, params["W_Q"], params["W_K"], params["W_V"], params["W_O"], params["b_O"], n_heads, mask
    )
    y = _layer_norm(y, params["gamma_1"], params["beta_1"])
    z = y + _feed_forward(y, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu)
    return _layer_norm(z, params["gamma_2"], params["beta_2"])


def post_norm_block__right_fifteenth_sum_of_single_heads_in_a_loop_over_sublayers(x, params, n_heads, mask=None):
    """Adds up attention head by head and loops over two sublayers: the post-norm block that is due."""
    batch, n, d_model = x.shape
    width = params["W_Q"].shape[1] // n_heads

    def attention(tokens):
        total = params["b_O"]
        for head in range(n_heads):
            mine = slice(head * width, (head + 1) * width)
            allowed = None if mask is None else mask.expand(batch, n_heads, n, n)[:, head : head + 1]
            W_Q, W_K, W_V = (params[f"W_{letter}"][:, mine] for letter in "QKV")
            no_bias = torch.zeros_like(params["b_O"])
            total = total + _multi_head_attention(tokens, W_Q, W_K, W_V, params["W_O"][mine], no_bias, 1, allowed)
        return total

    def network(tokens):
        hidden = F.gelu(F.linear(tokens, params["W_1"].mT, params["b_1"]))
        return F.linear(hidden, params["W_2"].mT, params["b_2"])

    for number, sublayer in enumerate((attention, network), start=1):
        x = F.layer_norm(sublayer(x) + x, (d_model,), params[f"gamma_{number}"], params[f"beta_{number}"])
    return x


# 7.6 pre_norm_block


def pre_norm_block__wrong_fifteenth_bypass_carries_the_normed_tokens(x, params, n_heads, mask=None):
    """Adds each sublayer to its normed input; due is to add it to the tokens as they are."""
    p = params
    x = _layer_norm(x, p["gamma_1"], p["beta_1"])
    x = x + _multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    x = _layer_norm(x, p["gamma_2"], p["beta_2"])
    return x + _feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def pre_norm_block__wrong_fifteenth_sublayers_side_by_side(x, params, n_heads, mask=None):
    """Feeds both sublayers from x, as in the parallel block; due is an FFN that sees what attention brought."""
    p = params
    first, second = (_layer_norm(x, p[f"gamma_{k}"], p[f"beta_{k}"]) for k in (1, 2))
    attended = _multi_head_attention(first, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    fed = _feed_forward(second, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return x + attended + fed


def pre_norm_block__wrong_fifteenth_norms_what_goes_in_and_what_comes_out(x, params, n_heads, mask=None):
    """Norms a sublayer's result too before it is added; due is a norm of its input alone."""

    def norm(tokens, which):
        return _layer_norm(tokens, params["gamma_" + which], params["beta_" + which])

    weights = [params[name] for name in ("W_Q", "W_K", "W_V", "W_O", "b_O")]
    x = x + norm(_multi_head_attention(norm(x, "1"), *weights, n_heads, mask), "1")
    weights = [params[name] for name in ("W_1", "b_1", "W_2", "b_2")]
    return x + norm(_feed_forward(norm(x, "2"), *weights, _gelu), "2")


def pre_norm_block__wrong_fifteenth_second_residual_adds_x(x, params, n_heads, mask=None):
    """Adds the FFN to x, so that attention's note is lost; due is y + ffn."""
    p = params
    y = x + _multi_head_attention(
        _layer_norm(x, p["gamma_1"], p["beta_1"]), p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask
    )
    hidden = _gelu(_layer_norm(y, p["gamma_2"], p["beta_2"]) @ p["W_1"] + p["b_1"])
    return x + hidden @ p["W_2"] + p["b_2"]


def pre_norm_block__wrong_fifteenth_scale_and_shift_of_the_second_norm_swapped(x, params, n_heads, mask=None):
    """Hands beta_2 over as the scale and gamma_2 as the shift; due is gamma_2, beta_2."""
    g1, be1, g2, be2 = (params[k] for k in ("gamma_1", "beta_1", "gamma_2", "beta_2"))
    normed = _layer_norm(x, g1, be1)
    y = x + _multi_head_attention(
        normed, params["W_Q"], params["W_K"], params["W_V"], params["W_O"], params["b_O"], n_heads, mask
    )
    normed = _layer_norm(y, be2, g2)
    return y + _feed_forward(normed, params["W_1"], params["b_1"], params["W_2"], params["b_2"], _gelu)


def pre_norm_block__wrong_fifteenth_returns_the_change(x, params, n_heads, mask=None):
    """Returns what the two sublayers write; due is x with it added."""
    p = params
    normed = _layer_norm(x, p["gamma_1"], p["beta_1"])
    first = _multi_head_attention(normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    normed = _layer_norm(x + first, p["gamma_2"], p["beta_2"])
    second = _feed_forward(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)
    return first + second


def pre_norm_block__wrong_fifteenth_every_token_may_see_itself(x, params, n_heads, mask=None):
    """Opens the diagonal of the mask; due is the mask as it comes, also where a token may not see itself."""
    p = params
    if mask is not None:
        mask = mask | torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
    normed = _layer_norm(x, p["gamma_1"], p["beta_1"])
    y = x + _multi_head_attention(normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    normed = _layer_norm(y, p["gamma_2"], p["beta_2"])
    return y + _feed_forward(normed, p["W_1"], p["b_1"], p["W_2"], p["b_2"], _gelu)


def pre_norm_block__wrong_fifteenth_keeps_the_stream_in_params(x, params, n_heads, mask=None):
    """Stores the tokens after attention in params; due is to leave params as they are."""
    weights = {k: params[k] for k in ("W_Q", "W_K", "W_V", "W_O", "b_O")}
    normed = _layer_norm(x, params["gamma_1"], params["beta_1"])
    params["y"] = x + _multi_head_attention(normed, **weights, n_heads=n_heads, mask=mask)
    normed = _layer_norm(params["y"], params["gamma_2"], params["beta_2"])
    hidden = _gelu(normed @ params["W_1"] + params["b_1"])
    return params["y"] + hidden @ params["W_2"] + params["b_2"]


def pre_norm_block__right_fifteenth_scale_and_shift_folded_into_the_matrices(x, params, n_heads, mask=None):
    """Moves gamma and beta of both norms into the matrices behind them: the same pre-norm block that is due."""
    p, size = params, x.shape[-1:]

    def folded(name, number):
        matrix = p[name]
        return torch.cat([p[f"gamma_{number}"].unsqueeze(1) * matrix, (p[f"beta_{number}"] @ matrix).unsqueeze(0)])

    def plain(tokens):
        return torch.cat([F.layer_norm(tokens, size), torch.ones_like(tokens[..., :1])], dim=-1)

    W_Q, W_K, W_V = (folded(name, 1) for name in ("W_Q", "W_K", "W_V"))
    x = x + _multi_head_attention(plain(x), W_Q, W_K, W_V, p["W_O"], p["b_O"], n_heads, mask)
    return x + F.gelu(plain(x) @ folded("W_1", 2) + p["b_1"]) @ p["W_2"] + p["b_2"]


# 7.7 transformer_logits


def transformer_logits__wrong_fifteenth_positions_added_before_every_block(tokens, params, n_heads):
    """Adds the positions again before each block; due is once, to the embeddings."""
    n = tokens.shape[1]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    positions = params["W_pos"][:n]
    x = params["W_E"][tokens]
    if not params["blocks"]:
        x = x + positions
    for block in params["blocks"]:
        x = _pre_norm_block(x + positions, block, n_heads, mask)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_fifteenth_final_norm_after_each_block(tokens, params, n_heads):
    """Norms the stream with gamma_f, beta_f after each block; due is once, after the last."""
    x = F.embedding(tokens, params["W_E"]) + params["W_pos"][: tokens.shape[1]]
    causal = torch.tril(torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool))
    if len(params["blocks"]) == 0:
        x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    for p in params["blocks"]:
        x = _layer_norm(_pre_norm_block(x, p, n_heads, causal), params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_fifteenth_each_beginning_read_without_a_mask(tokens, params, n_heads):
    """Reads every beginning unmasked, where earlier tokens see later ones between blocks; due is a causal mask."""
    n = tokens.shape[1]
    embedded = params["W_E"][tokens] + params["W_pos"][:n]

    def read(length):
        beginning = embedded[:, :length]
        stream = functools.reduce(lambda x, block: _pre_norm_block(x, block, n_heads), params["blocks"], beginning)
        return stream[:, -1]

    ends = torch.stack([read(length) for length in range(1, n + 1)], dim=1)
    return _layer_norm(ends, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_fifteenth_takes_the_last_rows_of_the_positions(tokens, params, n_heads):
    """Takes the last n rows of W_pos; due are the rows 0 to n - 1."""
    n = tokens.shape[-1]
    x = params["W_E"][tokens] + params["W_pos"][-n:]
    mask = torch.ones((n, n), dtype=torch.bool).tril()
    for p in params["blocks"]:
        x = _pre_norm_block(x, p, n_heads, mask)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_fifteenth_every_block_reads_the_embeddings(tokens, params, n_heads):
    """Gives every block the embeddings, so that only the last one counts; due is the result of the block before."""
    n = tokens.shape[1]
    embedded = params["W_E"][tokens] + params["W_pos"][torch.arange(n)]
    mask = torch.tril(torch.ones(n, n)).bool()
    x = embedded
    for block in params["blocks"]:
        x = _pre_norm_block(embedded, block, n_heads, mask)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_fifteenth_scores_after_the_last_token_only(tokens, params, n_heads):
    """Returns (B, vocab), the scores after the last token; due are scores at every position."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, mask)
    last = _layer_norm(x[:, -1], params["gamma_f"], params["beta_f"])
    return last @ params["W_U"]


def transformer_logits__wrong_fifteenth_id_zero_hidden_as_filler(tokens, params, n_heads):
    """Hides tokens with id 0 from all others; due is the causal mask and nothing else."""
    batch, n = tokens.shape
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    mask = causal & (tokens != 0).reshape(batch, 1, 1, n)
    x = params["W_E"][tokens] + params["W_pos"][:n]
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, mask)
    x = _layer_norm(x, params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_fifteenth_crops_the_positions_in_params(tokens, params, n_heads):
    """Puts the first n rows of W_pos back into params; due is to leave params as they are."""
    n = tokens.shape[1]
    params["W_pos"] = params["W_pos"][:n]
    x = params["W_E"][tokens] + params["W_pos"]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, mask)
    return _layer_norm(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__right_fifteenth_word_by_word_with_what_each_block_has_read(tokens, params, n_heads):
    """Goes word by word and keeps what each block has read so far: the causal model that is due, with no mask."""
    read = [[] for _ in params["blocks"]]
    scores = []
    for word, position in zip(tokens.unbind(dim=1), params["W_pos"], strict=False):
        stream = params["W_E"].index_select(0, word) + position
        for block, past in zip(params["blocks"], read, strict=True):
            past.append(stream)
            stream = _pre_norm_block(torch.stack(past, dim=1), block, n_heads)[:, -1]
        normed = F.layer_norm(stream, stream.shape[-1:], params["gamma_f"], params["beta_f"])
        scores.append(normed @ params["W_U"])
    return torch.stack(scores, dim=1)


# 7.8 bits_per_token


def bits_per_token__wrong_fifteenth_softmax_along_the_text(logits, targets, mask):
    """Takes the softmax over the places of a text; due is over the vocabulary."""
    safe = targets.masked_fill(~mask, 0)
    clean = logits.masked_fill(~mask.unsqueeze(-1), 0)
    log_p = F.log_softmax(clean, dim=1)
    picked = log_p.gather(-1, safe.unsqueeze(-1)).squeeze(-1)
    return -picked[mask].sum() / mask.sum().clamp(min=1) / math.log(2)


def bits_per_token__wrong_fifteenth_shifts_the_targets_once_more(logits, targets, mask):
    """Compares place i with the target at i + 1; due is the target at i, which is the next token already."""
    logits, targets, mask = logits[:, :-1], targets[:, 1:], mask[:, 1:]
    rows, wanted = logits[mask], targets[mask]
    log_p = rows - rows.logsumexp(dim=-1, keepdim=True)
    cost = -log_p[torch.arange(len(rows)), wanted] / math.log(2)
    return cost.sum() / max(len(rows), 1)


def bits_per_token__wrong_fifteenth_powers_of_two_for_powers_of_e(logits, targets, mask):
    """Reads logits as logarithms to the base 2; due is the softmax with e, then bits."""
    rows, wanted = logits[mask], targets[mask]
    top = rows.amax(dim=-1, keepdim=True)
    log_sum = torch.log2(torch.exp2(rows - top).sum(-1)) + top.squeeze(-1)
    cost = log_sum - rows.gather(1, wanted.unsqueeze(1)).squeeze(1)
    return cost.sum() / max(cost.numel(), 1)


def bits_per_token__wrong_fifteenth_first_word_left_out_of_the_sum(logits, targets, mask):
    """Sums the exponentials from id 1 on; due are all ids of the vocabulary."""
    rows, ids = logits[mask], targets[mask]
    total = torch.logsumexp(rows[:, 1:], dim=-1)
    cost = total - rows.gather(-1, ids[:, None])[:, 0]
    return cost.sum() / math.log(2) / max(1, len(ids))


def bits_per_token__wrong_fifteenth_whole_cost_over_each_length(logits, targets, mask):
    """Divides the batch's cost by each diary's count and averages; due is the cost over the count of the batch."""
    safe = torch.where(mask, targets, 0)
    clean = torch.where(mask.unsqueeze(-1), logits, 0)
    cost = -clean.log_softmax(-1).gather(-1, safe[..., None])[..., 0] / math.log(2)
    total = torch.where(mask, cost, 0).sum()
    return (total / mask.sum(dim=1).clamp(min=1)).mean()


def bits_per_token__wrong_fifteenth_a_vector_of_one_number(logits, targets, mask):
    """Returns the mean with shape (1,); due is a scalar, shape ()."""
    rows, wanted = logits[mask], targets[mask]
    nats = rows.logsumexp(-1) - rows[torch.arange(len(wanted)), wanted]
    count = mask.sum().clamp(min=1)
    return nats.sum(dim=0, keepdim=True) / (count * math.log(2))


def bits_per_token__wrong_fifteenth_filler_chosen_away_after_the_softmax(logits, targets, mask):
    """Drops the filler with where at the end: the value is right, the gradient NaN for NaN filler; due is 0 there."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    safe = targets.masked_fill(~mask, 0)
    log_p = torch.log_softmax(wide, dim=-1)
    cost = -log_p.gather(-1, safe.unsqueeze(-1)).squeeze(-1) / math.log(2)
    kept = torch.where(mask, cost, torch.zeros_like(cost))
    return (kept.sum() / mask.sum().clamp(min=1)).to(logits.dtype)


def bits_per_token__wrong_fifteenth_always_double(logits, targets, mask):
    """Computes in float64 and returns that; due is the dtype of the logits."""
    rows = logits[mask].double()
    wanted = targets[mask]
    if len(wanted) == 0:
        return rows.sum()
    log_p = rows.log_softmax(dim=-1)[range(len(wanted)), wanted]
    return -log_p.mean() / math.log(2)


def bits_per_token__right_fifteenth_how_far_all_words_lead_the_one_that_came(logits, targets, mask):
    """Sums the exponentials of all leads over the word that came, where a place counts: the mean that is due."""
    where = mask.nonzero(as_tuple=True)
    rows = logits[where].double()
    lead = rows - rows.take_along_dim(targets[where].unsqueeze(1), dim=1)
    cost = torch.logsumexp(lead, dim=1) * math.log2(math.e)
    return (cost.sum() / max(1, len(cost))).to(logits.dtype)


# 7.9 adamw_step


def adamw_step__wrong_fifteenth_divides_by_the_number_of_gradients(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Takes m over step * (1 - beta1) for the mean, as if all counted alike; due is m / (1 - beta1**step)."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    mean = m / (step * (1 - beta1))
    square = v / (step * (1 - beta2))
    w = w - lr * weight_decay * w - lr * mean / (square.sqrt() + eps)
    return w, m, v


def adamw_step__wrong_fifteenth_decay_without_the_learning_rate(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Takes the share weight_decay of w; due is lr * weight_decay."""
    new_m = beta1 * m + (1 - beta1) * grad
    new_v = beta2 * v + (1 - beta2) * grad * grad
    move = (new_m / (1 - beta1**step)) / (torch.sqrt(new_v / (1 - beta2**step)) + eps)
    return w * (1 - weight_decay) - lr * move, new_m, new_v


def adamw_step__wrong_fifteenth_spread_around_the_mean_for_the_square(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Keeps squares of the distance from m in v; due are the squares of the gradients."""
    m = m * beta1 + grad * (1 - beta1)
    v = v * beta2 + (grad - m) ** 2 * (1 - beta2)
    m_hat = m / (1 - beta1**step)
    v_hat = v / (1 - beta2**step)
    w = w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w)
    return w, m, v


def adamw_step__wrong_fifteenth_correction_of_v_outside_the_root(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Divides the root of v by 1 - beta2**step; due is the division under the root."""
    m = torch.lerp(m, grad, 1 - beta1)
    v = torch.lerp(v, grad**2, 1 - beta2)
    mean = m / (1 - beta1**step)
    rms = v.sqrt() / (1 - beta2**step)
    return w - lr * weight_decay * w - lr * mean / (rms + eps), m, v


def adamw_step__wrong_fifteenth_both_corrections_with_beta_two(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Corrects m with beta2 as well; due is beta1 for m."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad.square()
    m_hat, v_hat = (average / (1 - beta2**step) for average in (m, v))
    decayed = w * (1 - lr * weight_decay)
    return decayed - lr * m_hat / (v_hat.sqrt() + eps), m, v


def adamw_step__wrong_fifteenth_squares_returned_before_the_mean(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Returns (w, v, m); due is (w, m, v)."""
    square = beta2 * v + (1 - beta2) * grad**2
    mean = beta1 * m + (1 - beta1) * grad
    size = torch.sqrt(square / (1 - beta2**step)) + eps
    direction = mean / (1 - beta1**step)
    return (1 - lr * weight_decay) * w - lr * direction / size, square, mean


def adamw_step__wrong_fifteenth_no_correction_from_step_hundred_on(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Leaves the corrections out from step 100 on; due is at every step, for v is far from its mean even then."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    mean, square = m, v
    if step < 100:
        mean = m / (1 - beta1**step)
        square = v / (1 - beta2**step)
    w = w - lr * weight_decay * w - lr * mean / (torch.sqrt(square) + eps)
    return w, m, v


def adamw_step__wrong_fifteenth_squares_the_gradient_in_place(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Squares grad where it stands; due is to leave what was handed in as it is."""
    new_m = m * beta1 + grad * (1 - beta1)
    new_v = v * beta2 + grad.square_() * (1 - beta2)
    m_hat = new_m / (1 - beta1**step)
    v_hat = new_v / (1 - beta2**step)
    new_w = w - lr * weight_decay * w
    new_w -= lr * m_hat / (v_hat.sqrt() + eps)
    return new_w, new_m, new_v


def adamw_step__right_fifteenth_weights_of_the_bars_added_up(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Adds up how much all gradients count in m and v and divides by that: the means that are due."""
    counted_m = math.fsum((1 - beta1) * beta1**age for age in range(step))
    counted_v = math.fsum((1 - beta2) * beta2**age for age in range(step))
    old, slope = w.double(), grad.double()
    new_m = torch.lerp(m.double(), slope, 1 - beta1)
    new_v = torch.addcmul(beta2 * v.double(), slope, slope, value=1 - beta2)
    rms = torch.sqrt(new_v.div(counted_v)).add(eps)
    new = torch.addcdiv(old - lr * weight_decay * old, new_m, rms, value=-lr / counted_m)
    return new.to(w.dtype), new_m.to(m.dtype), new_v.to(v.dtype)


# 7.10 sample


def sample__wrong_fifteenth_cuts_before_the_temperature(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Finds the set of top_p at temperature 1; due are the probabilities after the temperature."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            token = int(logits.argmax())
        else:
            chances, order = torch.softmax(logits, dim=-1).sort(descending=True)
            drop = chances.cumsum(0) - chances >= top_p
            drop[0] = False
            logits = logits.clone()
            logits[order[drop]] = -math.inf
            p = torch.softmax((logits - logits.max()).double() / temperature, dim=-1).to(logits.dtype)
            token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__wrong_fifteenth_temperature_divides_the_probabilities(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Divides the probabilities by the temperature and takes a second softmax; due is to divide the logits."""
    tokens = prompt[:]
    for _ in range(max_len - len(prompt)):
        logits = next_logits(tokens[:])
        if temperature == 0:
            chosen = torch.argmax(logits).item()
        else:
            p = torch.softmax(logits, dim=-1)
            p = torch.softmax((p - p.max()).double() / temperature, dim=-1).to(p.dtype)
            ranked = torch.argsort(p, descending=True)
            total = torch.cumsum(p[ranked], dim=0)
            keep = torch.cat([torch.ones(1, dtype=torch.bool), total[:-1] < top_p])
            p = p * torch.zeros_like(keep).scatter(0, ranked, keep)
            chosen = torch.multinomial(p, 1, generator=generator).item()
        tokens.append(chosen)
        if chosen == end:
            return tokens
    return tokens


def sample__wrong_fifteenth_top_p_as_a_least_probability(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Keeps ids with a probability of 1 - top_p or more; due is the smallest set that has top_p together."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens.copy())
        best = int(torch.argmax(logits))
        if temperature == 0:
            tokens.append(best)
        else:
            p = torch.softmax((logits - logits[best]).double() / temperature, dim=0).to(logits.dtype)
            stay = p >= 1 - top_p
            stay[best] = True
            tokens.append(int(torch.multinomial(p * stay, 1, generator=generator)))
        if tokens[-1] == end:
            break
    return tokens


def sample__wrong_fifteenth_reads_the_order_the_wrong_way_round(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Looks the kept ranks up at the sorted ids; due is to put them at these ids."""
    out = list(prompt)
    while len(out) < max_len:
        logits = next_logits(list(out))
        if temperature == 0:
            new = int(logits.argmax())
        else:
            p = ((logits - logits.max()).double() / temperature).softmax(-1).to(logits.dtype)
            ordered, order = torch.sort(p, descending=True)
            before = ordered.cumsum(-1) - ordered
            keep = before < top_p
            keep[0] = True
            p = p * keep[order]
            new = int(torch.multinomial(p, 1, generator=generator))
        out.append(new)
        if new == end:
            break
    return out


def sample__wrong_fifteenth_looks_for_the_end_before_the_first_draw(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Stops at once if the prompt closes with the end; due is that an end in the prompt stops nothing."""
    tokens = list(prompt)
    while len(tokens) < max_len and tokens[-1] != end:
        logits = next_logits(list(tokens))
        if temperature == 0:
            tokens.append(int(logits.argmax()))
            continue
        p = torch.softmax((logits - logits.max()).double() / temperature, dim=-1).to(logits.dtype)
        kept, total = torch.zeros_like(p), 0.0
        for i in p.argsort(descending=True).tolist():
            kept[i] = p[i]
            total += float(p[i])
            if total >= top_p:
                break
        tokens.append(int(torch.multinomial(kept, 1, generator=generator)))
    return tokens


def sample__wrong_fifteenth_returns_what_was_added(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Returns the new ids; due is the prompt with them."""
    written = []
    while len(prompt) + len(written) < max_len:
        logits = next_logits(prompt + written)
        if temperature == 0:
            written.append(int(logits.argmax()))
        else:
            p = torch.softmax((logits - logits.max()).double() / temperature, dim=-1).to(logits.dtype)
            ordered, ids = p.sort(descending=True)
            gone = ordered.cumsum(0) - ordered >= top_p
            gone[0] = False
            p[ids[gone]] = 0
            written.append(int(torch.multinomial(p, 1, generator=generator)))
        if written[-1] == end:
            break
    return written


def sample__wrong_fifteenth_a_sum_that_never_reaches_top_p_leaves_one_id(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Finds the first sum >= top_p with argmax, which says 0 if rounding keeps all below; due are all ids."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            choice = int(torch.argmax(logits))
        else:
            scaled = (logits - logits.max()).double() / temperature
            p = torch.softmax(scaled.to(logits.dtype), dim=-1)
            chances, ids = torch.sort(p, descending=True)
            reached = torch.cumsum(chances, dim=0) >= top_p
            count = int(reached.int().argmax()) + 1
            cut = torch.zeros_like(p)
            cut[ids[:count]] = chances[:count]
            choice = int(torch.multinomial(cut, 1, generator=generator))
        tokens.append(choice)
        if choice == end:
            break
    return tokens


def sample__wrong_fifteenth_draws_at_temperature_zero_too(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Draws from a single id at temperature 0, which uses up the generator; due is no draw."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            p = F.one_hot(logits.argmax(), len(logits)).float()
        else:
            p = torch.softmax((logits - logits.max()).double() / temperature, dim=-1).to(logits.dtype)
            ordered, order = p.sort(descending=True)
            outside = (ordered.cumsum(0) - ordered) >= top_p
            outside[0] = False
            p[order[outside]] = 0
        token = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__right_fifteenth_stays_if_the_likelier_ones_have_less_than_top_p(
    next_logits, prompt, end, max_len, temperature, top_p, generator
):
    """Keeps an id if all that are likelier have less than top_p together, without sorting: the set that is due."""

    def draw(logits):
        lead = logits.double() - logits.double().max()
        if temperature == 0:
            return lead.tolist().index(0.0)
        chance = (lead / temperature).exp()
        chance = chance / chance.sum()
        likelier = torch.stack([chance[chance > mine].sum() for mine in chance])
        stays = (likelier < top_p) | (lead == 0) | (top_p >= 1)
        p = torch.where(stays, chance, 0.0).to(logits.dtype)
        return torch.multinomial(p, 1, generator=generator).tolist()[0]

    tokens = [*prompt]
    for _ in range(len(prompt), max_len):
        tokens = [*tokens, draw(next_logits(tokens))]
        if tokens[-1] == end:
            return tokens
    return tokens
