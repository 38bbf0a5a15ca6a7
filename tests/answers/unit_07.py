"""Right and wrong answers to unit 07_transformer_block, written from the contracts of the functions alone, to test
the judge with."""

import functools
import math
import warnings

import torch

# --------------------------------------------------------------------------------------------------- helpers, all right


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


def _cast(p, dtype):
    """A copy of (nested) parameters in another dtype."""
    if isinstance(p, dict):
        return {k: _cast(v, dtype) for k, v in p.items()}
    if isinstance(p, list | tuple):
        return [_cast(v, dtype) for v in p]
    return p.to(dtype)


def _model(tokens, p, n_heads, block=_pre, causal=_causal):
    """The whole decoder-only model."""
    n = tokens.shape[1]
    x = p["W_E"][tokens] + p["W_pos"][:n]
    for b in p["blocks"]:
        x = block(x, b, n_heads, causal(n))
    return _ln(x, p["gamma_f"], p["beta_f"]) @ p["W_U"]


# ----------------------------------------------------------------------------------------------------------- layer_norm


def layer_norm__right_plain(x, gamma, beta, eps=1e-5):
    """The plain one: mean, biased variance, scale and shift."""
    mu = x.mean(dim=-1, keepdim=True)
    var = x.var(dim=-1, keepdim=True, unbiased=False)
    return gamma * (x - mu) / torch.sqrt(var + eps) + beta


def layer_norm__right_var_mean_rsqrt(x, gamma, beta, eps=1e-5):
    """torch.var_mean with correction 0, rsqrt and addcmul."""
    var, mu = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(beta, (x - mu) * torch.rsqrt(var + eps), gamma)


def layer_norm__right_squares_einsum(x, gamma, beta, eps=1e-5):
    """The variance of the centred rows by einsum."""
    centred = x - x.sum(-1, keepdim=True) / x.shape[-1]
    var = torch.einsum("...d,...d->...", centred, centred) / x.shape[-1]
    return centred / (var + eps).sqrt().unsqueeze(-1) * gamma + beta


def layer_norm__right_rows_loop(x, gamma, beta, eps=1e-5):
    """A loop over the rows, written into a fresh tensor; prints."""
    rows = x.reshape(-1, x.shape[-1])
    out = torch.zeros_like(rows)
    for i, row in enumerate(rows):
        centred = row - row.mean()
        out[i] = gamma * centred / ((centred * centred).mean() + eps) ** 0.5 + beta
    print("rows", len(rows))
    return out.reshape(x.shape)


def layer_norm__right_float64_centring_matrix(x, gamma, beta, eps=1e-5):
    """In float64 with the centring matrix I - 1/d; back to the dtype of the input."""
    d = x.shape[-1]
    C = torch.eye(d, dtype=torch.float64) - 1 / d
    centred = x.double() @ C
    scale = torch.diagonal(centred.unsqueeze(-1) * centred.unsqueeze(-2), dim1=-2, dim2=-1).mean(-1, keepdim=True)
    return (centred / (scale + eps).sqrt() * gamma.double() + beta.double()).to(x.dtype)


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


def layer_norm__right_cov_of_pairs(x, gamma, beta, eps=1e-5):
    """The variance as half the mean squared difference of all pairs in a row."""
    differences = x.unsqueeze(-1) - x.unsqueeze(-2)
    var = differences.pow(2).mean(dim=(-2, -1)) / 2
    return differences.mean(dim=-1) / (var[..., None] + eps).pow(0.5) * gamma + beta


def layer_norm__right_exp_log(x, gamma, beta, eps=1e-5):
    """Divides in log space: times exp(-log(var + eps) / 2)."""
    mu = torch.mean(x, -1, True)
    log_scale = torch.log(torch.mean((x - mu) ** 2, -1, True) + eps)
    return beta + gamma * ((x - mu) * torch.exp(-log_scale / 2))


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


def layer_norm__wrong_unbiased(x, gamma, beta, eps=1e-5):
    """The unbiased variance (torch's default), NaN for d = 1."""
    return gamma * (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + eps) + beta


def layer_norm__wrong_eps_outside(x, gamma, beta, eps=1e-5):
    """sqrt(var) + eps instead of sqrt(var + eps)."""
    return gamma * (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0).sqrt() + eps) + beta


def layer_norm__wrong_eps_missing(x, gamma, beta, eps=1e-5):
    """No eps: NaN for constant rows."""
    return gamma * (x - x.mean(-1, keepdim=True)) / x.var(-1, keepdim=True, correction=0).sqrt() + beta


def layer_norm__wrong_eps_ignored(x, gamma, beta, eps=1e-5):
    """Always 1e-5, whatever eps is handed in."""
    return _ln(x, gamma, beta)


def layer_norm__wrong_default_eps(x, gamma, beta, eps=1e-12):
    """A default of 1e-12."""
    return _ln(x, gamma, beta, eps)


def layer_norm__wrong_default_eps_1e3(x, gamma, beta, eps=1e-3):
    """A default of 1e-3 (as in other libraries)."""
    return _ln(x, gamma, beta, eps)


def layer_norm__wrong_eps_clamped(x, gamma, beta, eps=1e-5):
    """max(var, eps) instead of var + eps."""
    mu = x.mean(-1, keepdim=True)
    return (x - mu) / x.var(-1, keepdim=True, correction=0).clamp(min=eps).sqrt() * gamma + beta


def layer_norm__wrong_eps_squared(x, gamma, beta, eps=1e-5):
    """sqrt(var + eps**2)."""
    return _ln(x, gamma, beta, eps * eps)


def layer_norm__wrong_no_sqrt(x, gamma, beta, eps=1e-5):
    """Divides by the variance instead of its root."""
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + eps) * gamma + beta


def layer_norm__wrong_axis_tokens(x, gamma, beta, eps=1e-5):
    """Over the tokens (axis -2) instead of the features."""
    mu = x.mean(-2, keepdim=True)
    return (x - mu) / torch.sqrt(x.var(-2, keepdim=True, correction=0) + eps) * gamma + beta


def layer_norm__wrong_axis_batch(x, gamma, beta, eps=1e-5):
    """Over axis 0."""
    mu = x.mean(0, keepdim=True)
    return (x - mu) / torch.sqrt(x.var(0, keepdim=True, correction=0) + eps) * gamma + beta


def layer_norm__wrong_axis_one(x, gamma, beta, eps=1e-5):
    """Axis 1: right for a matrix, wrong for (B, n, d)."""
    axis = min(1, x.ndim - 1)
    mu = x.mean(axis, keepdim=True)
    return (x - mu) / torch.sqrt(x.var(axis, keepdim=True, correction=0) + eps) * gamma + beta


def layer_norm__wrong_whole_tensor(x, gamma, beta, eps=1e-5):
    """One mean and one variance for the whole tensor."""
    return (x - x.mean()) / torch.sqrt(x.var(correction=0) + eps) * gamma + beta


def layer_norm__wrong_per_sequence(x, gamma, beta, eps=1e-5):
    """Over tokens and features together, one pair of statistics per sequence."""
    axes = tuple(range(max(0, x.ndim - 2), x.ndim))
    mu = x.mean(axes, keepdim=True)
    return (x - mu) / torch.sqrt(x.var(axes, keepdim=True, correction=0) + eps) * gamma + beta


def layer_norm__wrong_rms(x, gamma, beta, eps=1e-5):
    """RMS norm: the mean is not subtracted."""
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gamma + beta


def layer_norm__wrong_mean_only_in_numerator(x, gamma, beta, eps=1e-5):
    """Centres the numerator, but divides by the root mean square of the raw row."""
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gamma + beta


def layer_norm__wrong_not_centred(x, gamma, beta, eps=1e-5):
    """Divides by the standard deviation without subtracting the mean."""
    return x / torch.sqrt(x.var(-1, keepdim=True, correction=0) + eps) * gamma + beta


def layer_norm__wrong_centred_only(x, gamma, beta, eps=1e-5):
    """Subtracts the mean, never divides."""
    return (x - x.mean(-1, keepdim=True)) * gamma + beta


def layer_norm__wrong_precedence(x, gamma, beta, eps=1e-5):
    """Forgotten brackets: x - mu / sqrt(...)."""
    return x - x.mean(-1, keepdim=True) / torch.sqrt(x.var(-1, keepdim=True, correction=0) + eps) * gamma + beta


def layer_norm__wrong_no_gamma(x, gamma, beta, eps=1e-5):
    """Forgets gamma."""
    return _ln(x, torch.ones_like(gamma), beta, eps)


def layer_norm__wrong_no_beta(x, gamma, beta, eps=1e-5):
    """Forgets beta."""
    return _ln(x, gamma, torch.zeros_like(beta), eps)


def layer_norm__wrong_gamma_plus_one(x, gamma, beta, eps=1e-5):
    """Scales by 1 + gamma."""
    return _ln(x, 1 + gamma, beta, eps)


def layer_norm__wrong_beta_first(x, gamma, beta, eps=1e-5):
    """(x_hat + beta) * gamma."""
    return (_ln(x, torch.ones_like(gamma), torch.zeros_like(beta), eps) + beta) * gamma


def layer_norm__wrong_swapped(x, gamma, beta, eps=1e-5):
    """gamma and beta swapped."""
    return _ln(x, beta, gamma, eps)


def layer_norm__wrong_affine_before(x, gamma, beta, eps=1e-5):
    """Scale and shift first, then the norm."""
    return _ln(gamma * x + beta, torch.ones_like(gamma), torch.zeros_like(beta), eps)


def layer_norm__wrong_one_pass_variance(x, gamma, beta, eps=1e-5):
    """E[x^2] - E[x]^2: cancels at large values (even NaN)."""
    mu = x.mean(-1, keepdim=True)
    return (x - mu) / torch.sqrt(x.pow(2).mean(-1, keepdim=True) - mu.pow(2) + eps) * gamma + beta


def layer_norm__wrong_no_keepdim(x, gamma, beta, eps=1e-5):
    """No keepdim: raises, or subtracts the wrong means where n = d."""
    return (x - x.mean(-1)) / torch.sqrt(x.var(-1, correction=0) + eps) * gamma + beta


def layer_norm__wrong_mean_abs_deviation(x, gamma, beta, eps=1e-5):
    """Divides by the mean absolute deviation."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.abs().mean(-1, keepdim=True) + eps) * gamma + beta


def layer_norm__wrong_median(x, gamma, beta, eps=1e-5):
    """Centres at the median."""
    mid = x.median(-1, keepdim=True).values
    return (x - mid) / torch.sqrt(x.var(-1, keepdim=True, correction=0) + eps) * gamma + beta


def layer_norm__wrong_sum_of_squares(x, gamma, beta, eps=1e-5):
    """The sum of squares instead of their mean."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.pow(2).sum(-1, keepdim=True) + eps) * gamma + beta


def layer_norm__wrong_min_max(x, gamma, beta, eps=1e-5):
    """Scales the row to 0..1."""
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    return (x - low) / (high - low + eps) * gamma + beta


def layer_norm__wrong_in_place(x, gamma, beta, eps=1e-5):
    """Centres the input itself."""
    x.data -= x.data.mean(-1, keepdim=True)
    return _ln(x, gamma, beta, eps)


def layer_norm__wrong_detached_statistics(x, gamma, beta, eps=1e-5):
    """Mean and variance as constants: the right values, a wrong gradient."""
    mu, var = x.mean(-1, keepdim=True).detach(), x.var(-1, keepdim=True, correction=0).detach()
    return (x - mu) / torch.sqrt(var + eps) * gamma + beta


def layer_norm__wrong_detach(x, gamma, beta, eps=1e-5):
    """No gradient at all."""
    return _ln(x, gamma, beta, eps).detach()


def layer_norm__wrong_numpy(x, gamma, beta, eps=1e-5):
    """A NumPy array."""
    return _ln(x, gamma, beta, eps).detach().numpy()


def layer_norm__wrong_float32(x, gamma, beta, eps=1e-5):
    """Always float32."""
    return _ln(x, gamma, beta, eps).float()


def layer_norm__wrong_float64(x, gamma, beta, eps=1e-5):
    """Always float64."""
    return _ln(x.double(), gamma, beta, eps)


def layer_norm__wrong_rounded(x, gamma, beta, eps=1e-5):
    """Rounds to two decimals."""
    return torch.round(_ln(x, gamma, beta, eps), decimals=2)


def layer_norm__wrong_batch_needed(x, gamma, beta, eps=1e-5):
    """Unpacks exactly three axes: fails for a single row or a matrix."""
    B, n, d = x.shape
    return _ln(x.reshape(B * n, d), gamma, beta, eps).reshape(B, n, d)


def layer_norm__wrong_none(x, gamma, beta, eps=1e-5):
    """Prints the result and returns None."""
    print(_ln(x, gamma, beta, eps))


_seen_mean = {}


def layer_norm__wrong_state(x, gamma, beta, eps=1e-5):
    """Keeps a running mean and variance from call to call."""
    mu, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
    key = mu.shape, x.dtype
    if key in _seen_mean:
        mu, var = 0.1 * mu + 0.9 * _seen_mean[key][0], 0.1 * var + 0.9 * _seen_mean[key][1]
    _seen_mean[key] = mu.detach(), var.detach()
    return (x - mu) / torch.sqrt(var + eps) * gamma + beta


# ----------------------------------------------------------------------------------------------------------- batch_norm


def _bn(x, gamma, beta, eps=1e-5):
    """Batch norm."""
    centred = x - x.mean(dim=(0, 1))
    return centred / torch.sqrt(centred.square().mean(dim=(0, 1)) + eps) * gamma + beta


def _norm_over(x, gamma, beta, eps, axes, correction=0):
    """A norm over any axes."""
    var = x.var(dim=axes, keepdim=True, correction=correction)
    return (x - x.mean(dim=axes, keepdim=True)) / torch.sqrt(var + eps) * gamma + beta


def batch_norm__right_plain(x, gamma, beta, eps=1e-5):
    """The plain one: mean and biased variance over the axes 0 and 1."""
    mu = x.mean(dim=(0, 1), keepdim=True)
    var = x.var(dim=(0, 1), keepdim=True, unbiased=False)
    return gamma * (x - mu) / torch.sqrt(var + eps) + beta


def batch_norm__right_flattened(x, gamma, beta, eps=1e-5):
    """All tokens of the batch as one long list of rows."""
    rows = x.flatten(0, 1)
    var, mu = torch.var_mean(rows, dim=0, correction=0)
    return ((rows - mu) * torch.rsqrt(var + eps) * gamma + beta).view(x.shape)


def batch_norm__right_layer_norm_of_transpose(x, gamma, beta, eps=1e-5):
    """Layer norm of the transposed table, then the scale and shift."""
    B, n, d = x.shape
    table = x.reshape(B * n, d).T
    one, zero = table.new_ones(B * n), table.new_zeros(B * n)
    return _ln(table, one, zero, eps).T.reshape(B, n, d) * gamma + beta


def batch_norm__right_feature_loop(x, gamma, beta, eps=1e-5):
    """A loop over the features, stacked; prints."""
    columns = []
    for k in range(x.shape[-1]):
        c = x[:, :, k]
        c = c - c.mean()
        columns.append(c / torch.sqrt((c * c).mean() + eps) * gamma[k] + beta[k])
    print(len(columns), "features")
    return torch.stack(columns, dim=-1)


def batch_norm__right_two_steps(x, gamma, beta, eps=1e-5):
    """Mean of means and mean of mean squares, one axis after the other (sequences are of equal length)."""
    centred = x - x.mean(0).mean(0)
    return centred * (centred.pow(2).mean(1).mean(0) + eps).pow(-0.5) * gamma + beta


def batch_norm__right_float64_inside(x, gamma, beta, eps=1e-5):
    """In float64 with einsum, back to the dtype of the input; a warning."""
    warnings.warn("batch_norm", stacklevel=2)
    z, count = x.double(), x.shape[0] * x.shape[1]
    z = z - torch.einsum("bnd->d", z) / count
    var = torch.einsum("bnd,bnd->d", z, z) / count
    return (z / torch.sqrt(var + eps) * gamma.double() + beta.double()).to(x.dtype)


def batch_norm__right_ones_matrix(x, gamma, beta, eps=1e-5):
    """Means as products with a row of 1/(B*n); a non-contiguous result."""
    B, n, d = x.shape
    rows = x.permute(2, 1, 0).reshape(d, n * B)
    average = rows.new_full((n * B, 1), 1 / (n * B))
    rows = rows - rows @ average
    rows = rows / torch.sqrt(rows**2 @ average + eps)
    return torch.addcmul(beta, rows.reshape(d, n, B).permute(2, 1, 0), gamma)


def batch_norm__wrong_layer_norm(x, gamma, beta, eps=1e-5):
    """Layer norm: over the features of each token."""
    return _ln(x, gamma, beta, eps)


def batch_norm__wrong_batch_only(x, gamma, beta, eps=1e-5):
    """Over the batch axis alone."""
    return _norm_over(x, gamma, beta, eps, 0)


def batch_norm__wrong_tokens_only(x, gamma, beta, eps=1e-5):
    """Over the tokens of each sequence alone (instance norm)."""
    return _norm_over(x, gamma, beta, eps, 1)


def batch_norm__wrong_channels_in_the_middle(x, gamma, beta, eps=1e-5):
    """Statistics over batch and features, per token position (the (N, C, L) layout misread)."""
    return _norm_over(x, gamma, beta, eps, (0, 2))


def batch_norm__wrong_whole_tensor(x, gamma, beta, eps=1e-5):
    """One mean and variance for everything."""
    return _norm_over(x, gamma, beta, eps, (0, 1, 2))


def batch_norm__wrong_per_sequence(x, gamma, beta, eps=1e-5):
    """Over tokens and features of each sequence."""
    return _norm_over(x, gamma, beta, eps, (1, 2))


def batch_norm__wrong_unbiased(x, gamma, beta, eps=1e-5):
    """The unbiased variance."""
    return _norm_over(x, gamma, beta, eps, (0, 1), correction=1)


def batch_norm__wrong_mean_of_variances(x, gamma, beta, eps=1e-5):
    """The mean of the sequences' own variances: misses the variance between sequences."""
    var = x.var(dim=1, correction=0).mean(dim=0)
    return (x - x.mean(dim=(0, 1))) / torch.sqrt(var + eps) * gamma + beta


def batch_norm__wrong_first_sequence(x, gamma, beta, eps=1e-5):
    """Statistics of the first sequence only."""
    var, mu = torch.var_mean(x[0], dim=0, correction=0)
    return (x - mu) / torch.sqrt(var + eps) * gamma + beta


def batch_norm__wrong_eval_mode(x, gamma, beta, eps=1e-5):
    """Evaluation mode with fresh running statistics: mean 0, variance 1."""
    return x / math.sqrt(1 + eps) * gamma + beta


_running = {}


def batch_norm__wrong_running_statistics(x, gamma, beta, eps=1e-5):
    """Keeps running statistics and uses them (momentum 0.1): state between calls."""
    var, mu = torch.var_mean(x, dim=(0, 1), correction=0)
    key = x.shape[-1], x.dtype
    old_mu, old_var = _running.get(key, (torch.zeros_like(mu), torch.ones_like(var)))
    mu, var = 0.9 * old_mu + 0.1 * mu, 0.9 * old_var + 0.1 * var
    _running[key] = mu.detach(), var.detach()
    return (x - mu) / torch.sqrt(var + eps) * gamma + beta


def batch_norm__wrong_eps_outside(x, gamma, beta, eps=1e-5):
    """sqrt(var) + eps."""
    std = x.var(dim=(0, 1), correction=0).sqrt()
    return (x - x.mean(dim=(0, 1))) / (std + eps) * gamma + beta


def batch_norm__wrong_eps_missing(x, gamma, beta, eps=1e-5):
    """No eps: NaN for a constant feature."""
    return _norm_over(x, gamma, beta, 0.0, (0, 1))


def batch_norm__wrong_eps_ignored(x, gamma, beta, eps=1e-5):
    """Always 1e-5."""
    return _bn(x, gamma, beta)


def batch_norm__wrong_default_eps(x, gamma, beta, eps=1e-3):
    """A default of 1e-3."""
    return _bn(x, gamma, beta, eps)


def batch_norm__wrong_no_sqrt(x, gamma, beta, eps=1e-5):
    """Divides by the variance."""
    return (x - x.mean(dim=(0, 1))) / (x.var(dim=(0, 1), correction=0) + eps) * gamma + beta


def batch_norm__wrong_not_centred(x, gamma, beta, eps=1e-5):
    """Does not subtract the mean."""
    return x / torch.sqrt(x.var(dim=(0, 1), correction=0) + eps) * gamma + beta


def batch_norm__wrong_rms(x, gamma, beta, eps=1e-5):
    """Root mean square per feature, no centring."""
    return x / torch.sqrt(x.square().mean(dim=(0, 1)) + eps) * gamma + beta


def batch_norm__wrong_no_affine(x, gamma, beta, eps=1e-5):
    """Forgets gamma and beta."""
    return _norm_over(x, 1.0, 0.0, eps, (0, 1))


def batch_norm__wrong_no_beta(x, gamma, beta, eps=1e-5):
    """Forgets beta."""
    return _bn(x, gamma, torch.zeros_like(beta), eps)


def batch_norm__wrong_beta_first(x, gamma, beta, eps=1e-5):
    """(x_hat + beta) * gamma."""
    return (_norm_over(x, 1.0, 0.0, eps, (0, 1)) + beta) * gamma


def batch_norm__wrong_swapped(x, gamma, beta, eps=1e-5):
    """gamma and beta swapped."""
    return _bn(x, beta, gamma, eps)


def batch_norm__wrong_one_pass_variance(x, gamma, beta, eps=1e-5):
    """E[x^2] - E[x]^2: cancels at large values (even NaN)."""
    mu = x.mean(dim=(0, 1))
    return (x - mu) / torch.sqrt(x.square().mean(dim=(0, 1)) - mu**2 + eps) * gamma + beta


def batch_norm__wrong_divided_by_batch(x, gamma, beta, eps=1e-5):
    """Sums of squares divided by B - forgets that there are n tokens in each."""
    centred = x - x.mean(dim=(0, 1))
    return centred / torch.sqrt(centred.square().sum(dim=(0, 1)) / x.shape[0] + eps) * gamma + beta


def batch_norm__wrong_reshape_mixed(x, gamma, beta, eps=1e-5):
    """Reshapes to (d, B*n) instead of transposing."""
    B, n, d = x.shape
    table = x.reshape(d, B * n)
    table = (table - table.mean(1, keepdim=True)) / torch.sqrt(table.var(1, keepdim=True, correction=0) + eps)
    return table.reshape(B, n, d) * gamma + beta


def batch_norm__wrong_flat_result(x, gamma, beta, eps=1e-5):
    """Returns (B*n, d)."""
    return _bn(x, gamma, beta, eps).flatten(0, 1)


def batch_norm__wrong_in_place(x, gamma, beta, eps=1e-5):
    """Centres the input itself."""
    x.data.sub_(x.data.mean(dim=(0, 1)))
    return _bn(x, gamma, beta, eps)


def batch_norm__wrong_detached_statistics(x, gamma, beta, eps=1e-5):
    """No gradient through mean and variance."""
    with torch.no_grad():
        var, mu = torch.var_mean(x, dim=(0, 1), correction=0)
    return (x - mu) / torch.sqrt(var + eps) * gamma + beta


def batch_norm__wrong_detach(x, gamma, beta, eps=1e-5):
    """No gradient at all."""
    return _bn(x.detach(), gamma.detach(), beta.detach(), eps)


def batch_norm__wrong_float32(x, gamma, beta, eps=1e-5):
    """Always float32."""
    return _bn(x, gamma, beta, eps).to(torch.float32)


def batch_norm__wrong_float64(x, gamma, beta, eps=1e-5):
    """Always float64."""
    return _bn(x.double(), gamma.double(), beta.double(), eps)


def batch_norm__wrong_returns_statistics(x, gamma, beta, eps=1e-5):
    """Returns (y, mean, var)."""
    return _bn(x, gamma, beta, eps), x.mean(dim=(0, 1)), x.var(dim=(0, 1), correction=0)


# ----------------------------------------------------------------------------------------------------------------- gelu


def gelu__right_erf(x):
    """The plain one: x/2 (1 + erf(x/sqrt 2))."""
    return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))


def gelu__right_erfc(x):
    """x/2 erfc(-x/sqrt 2), exact in the left tail too."""
    return x * torch.special.erfc(-x * math.sqrt(0.5)) / 2


def gelu__right_ndtr(x):
    """x times the normal distribution function."""
    return x * torch.special.ndtr(x)


def gelu__right_log_ndtr(x):
    """In log space, float64 inside."""
    return (x.double() * torch.exp(torch.special.log_ndtr(x.double()))).to(x.dtype)


def gelu__right_normal_cdf(x):
    """The cdf of torch.distributions.Normal."""
    zero, one = torch.zeros((), dtype=x.dtype), torch.ones((), dtype=x.dtype)
    return x * torch.distributions.Normal(zero, one).cdf(x)


def gelu__right_x_minus_tail(x):
    """x minus x times the tail probability; a warning."""
    warnings.warn("gelu", stacklevel=2)
    return x - x * torch.erfc(x / 2**0.5) / 2


def gelu__right_elements(x):
    """A Python loop over the elements, stacked again."""
    parts = [value * (1 + torch.special.erf(value * 2**-0.5)) / 2 for value in x.reshape(-1)]
    print(len(parts), "elements")
    return torch.stack(parts).reshape(x.shape) if parts else x * 1


def gelu__right_odd_even(x):
    """The even part x erf(x/sqrt 2)/2 plus the odd part x/2."""
    return torch.lerp(x * torch.erf(x.div(2**0.5)), x, 0.5)


def gelu__right_relu_minus_tail(x):
    """ReLU less the tail of |x|; at exactly 0 its slope comes out as 0, not as a half."""
    return torch.relu(x) - x.abs() * torch.erfc(x.abs() / math.sqrt(2)) / 2


def gelu__right_between_zero_and_x(x):
    """The point between 0 and x at the share Phi(x)."""
    return torch.lerp(torch.zeros_like(x), x, 0.5 + 0.5 * torch.erf(x * 2**-0.5))


def gelu__wrong_tanh(x):
    """The tanh approximation."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu__wrong_sigmoid(x):
    """The quick approximation x sigmoid(1.702 x)."""
    return x * torch.sigmoid(1.702 * x)


def gelu__wrong_silu(x):
    """SiLU."""
    return x * torch.sigmoid(x)


def gelu__wrong_relu(x):
    """ReLU."""
    return torch.relu(x)


def gelu__wrong_no_sqrt_two(x):
    """erf(x) without the division by sqrt 2."""
    return 0.5 * x * (1 + torch.erf(x))


def gelu__wrong_divided_by_two(x):
    """erf(x / 2)."""
    return 0.5 * x * (1 + torch.erf(x / 2))


def gelu__wrong_times_sqrt_two(x):
    """erf(x sqrt 2)."""
    return 0.5 * x * (1 + torch.erf(x * math.sqrt(2)))


def gelu__wrong_sqrt_pi(x):
    """erf(x / sqrt pi)."""
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(math.pi)))


def gelu__wrong_no_half(x):
    """Forgets the factor 1/2."""
    return x * (1 + torch.erf(x / math.sqrt(2)))


def gelu__wrong_no_one(x):
    """Forgets the one: x/2 erf."""
    return 0.5 * x * torch.erf(x / math.sqrt(2))


def gelu__wrong_precedence(x):
    """Forgotten brackets: x/2 * 1 + erf."""
    return 0.5 * x * 1 + torch.erf(x / math.sqrt(2))


def gelu__wrong_precedence_root(x):
    """erf(x / 2 ** 0.5 * ...) read as erf((x / 2) ** 0.5) on |x| with the sign put back."""
    return 0.5 * x * (1 + torch.sign(x) * torch.erf((x.abs() / 2) ** 0.5))


def gelu__wrong_cdf_only(x):
    """The distribution function alone, not multiplied by x."""
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def gelu__wrong_density(x):
    """x times the normal density."""
    return x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def gelu__wrong_minus(x):
    """1 - erf: gates the wrong side."""
    return 0.5 * x * (1 - torch.erf(x / math.sqrt(2)))


def gelu__wrong_erfc(x):
    """erfc for erf."""
    return 0.5 * x * (1 + torch.erfc(x / math.sqrt(2)))


def gelu__wrong_abs(x):
    """|x| in front."""
    return 0.5 * x.abs() * (1 + torch.erf(x / math.sqrt(2)))


def gelu__wrong_clipped(x):
    """Exactly zero for x < -2, x itself for x > 2 ("saturated there")."""
    return torch.where(x < -2, 0.0, torch.where(x > 2, x, _gelu(x)))


def gelu__wrong_negative_zero(x):
    """Zero for every negative x."""
    return torch.where(x < 0, torch.zeros_like(x), _gelu(x))


def gelu__wrong_math_erf(x):
    """math.erf on every element: no gradient."""
    values = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.reshape(-1).tolist()]
    return torch.tensor(values, dtype=x.dtype).reshape(x.shape)


def gelu__wrong_detached_gate(x):
    """The gate as a constant: a wrong gradient."""
    return x * torch.special.ndtr(x).detach()


def gelu__wrong_detach(x):
    """No gradient."""
    return _gelu(x.detach())


def gelu__wrong_numpy(x):
    """A NumPy array."""
    return _gelu(x).detach().numpy()


def gelu__wrong_float32(x):
    """Always float32."""
    return _gelu(x.float())


def gelu__wrong_float64(x):
    """Always float64."""
    return _gelu(x.double())


def gelu__wrong_in_place(x):
    """Overwrites the input."""
    x.data.copy_(_gelu(x.data))
    return x * 1


def gelu__wrong_flattened(x):
    """Returns a flat vector."""
    return _gelu(x).flatten()


def gelu__wrong_exp_unstable(x):
    """Gate from exp(x^3 ...) quotients: the logistic form e^z/(1 + e^z) of the tanh approximation, NaN at +1e4."""
    z = torch.exp(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return x * z / (1 + z)


def gelu__wrong_series(x):
    """Four terms of the power series of erf: wrong away from zero."""
    z = x / math.sqrt(2)
    return 0.5 * x * (1 + 2 / math.sqrt(math.pi) * (z - z**3 / 3 + z**5 / 10 - z**7 / 42))


def gelu__wrong_random_gate(x):
    """Draws a Bernoulli gate instead of taking its mean."""
    return x * (torch.randn_like(x) < x).to(x.dtype)


# --------------------------------------------------------------------------------------------------------- feed_forward


def feed_forward__right_plain(x, W_1, b_1, W_2, b_2, activation):
    """The plain one."""
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def feed_forward__right_linear(x, W_1, b_1, W_2, b_2, activation):
    """F.linear with transposed weights."""
    hidden = torch.nn.functional.linear(x, W_1.T, b_1)
    return torch.nn.functional.linear(activation(hidden), W_2.T, b_2)


def feed_forward__right_einsum(x, W_1, b_1, W_2, b_2, activation):
    """einsum with an ellipsis; prints."""
    hidden = activation(torch.einsum("...d,df->...f", x, W_1) + b_1)
    print("hidden", tuple(hidden.shape))
    return torch.einsum("...f,fd->...d", hidden, W_2) + b_2


def feed_forward__right_addmm_flat(x, W_1, b_1, W_2, b_2, activation):
    """All tokens as one matrix, addmm, back to the old shape."""
    rows = x.reshape(-1, x.shape[-1])
    out = torch.addmm(b_2, activation(torch.addmm(b_1, rows, W_1)), W_2)
    return out.reshape(*x.shape[:-1], W_2.shape[-1])


def feed_forward__right_token_loop(x, W_1, b_1, W_2, b_2, activation):
    """One token at a time: the same two layers for each position."""
    rows = x.reshape(-1, x.shape[-1])
    out = x.new_zeros(len(rows), W_2.shape[1])
    for i in range(len(rows)):
        out[i] = activation(rows[i] @ W_1 + b_1) @ W_2 + b_2
    return out.reshape((*x.shape[:-1], W_2.shape[1]))


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


def feed_forward__right_feature_by_feature(x, W_1, b_1, W_2, b_2, activation):
    """Bends each hidden feature by itself: the activation never sees the axis d_ff."""
    return sum(activation(x @ W_1[:, k] + b_1[k])[..., None] * W_2[k] for k in range(len(b_1))) + b_2


def feed_forward__wrong_no_activation(x, W_1, b_1, W_2, b_2, activation):
    """Forgets the activation: two linear layers are one."""
    return (x @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_activation_last(x, W_1, b_1, W_2, b_2, activation):
    """Activation after the second layer."""
    return activation((x @ W_1 + b_1) @ W_2 + b_2)


def feed_forward__wrong_activation_twice(x, W_1, b_1, W_2, b_2, activation):
    """Activation after both layers."""
    return activation(activation(x @ W_1 + b_1) @ W_2 + b_2)


def feed_forward__wrong_activation_doubled(x, W_1, b_1, W_2, b_2, activation):
    """The activation applied twice in the middle."""
    return activation(activation(x @ W_1 + b_1)) @ W_2 + b_2


def feed_forward__wrong_activation_first(x, W_1, b_1, W_2, b_2, activation):
    """Activation on the input instead."""
    return (activation(x) @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_relu(x, W_1, b_1, W_2, b_2, activation):
    """Always ReLU."""
    return torch.relu(x @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_gelu(x, W_1, b_1, W_2, b_2, activation):
    """Always GELU."""
    return _gelu(x @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_no_b_1(x, W_1, b_1, W_2, b_2, activation):
    """Forgets b_1."""
    return activation(x @ W_1) @ W_2 + b_2


def feed_forward__wrong_no_b_2(x, W_1, b_1, W_2, b_2, activation):
    """Forgets b_2."""
    return activation(x @ W_1 + b_1) @ W_2


def feed_forward__wrong_b_1_after_activation(x, W_1, b_1, W_2, b_2, activation):
    """b_1 added after the activation."""
    return (activation(x @ W_1) + b_1) @ W_2 + b_2


def feed_forward__wrong_minus_b_1(x, W_1, b_1, W_2, b_2, activation):
    """b_1 subtracted (a threshold)."""
    return activation(x @ W_1 - b_1) @ W_2 + b_2


def feed_forward__wrong_residual(x, W_1, b_1, W_2, b_2, activation):
    """Adds the input (the residual belongs to the block)."""
    return x + activation(x @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_gated(x, W_1, b_1, W_2, b_2, activation):
    """Multiplies the hidden values by their activation."""
    hidden = x @ W_1 + b_1
    return (hidden * activation(hidden)) @ W_2 + b_2


def feed_forward__wrong_columns_convention(x, W_1, b_1, W_2, b_2, activation):
    """F.linear without transposing the weights."""
    return torch.nn.functional.linear(activation(torch.nn.functional.linear(x, W_1, b_1)), W_2, b_2)


def feed_forward__wrong_weights_swapped(x, W_1, b_1, W_2, b_2, activation):
    """Uses W_2 transposed for the first and W_1 transposed for the second layer."""
    return activation(x @ W_2.T + b_1) @ W_1.T + b_2


def feed_forward__wrong_tied(x, W_1, b_1, W_2, b_2, activation):
    """W_1 transposed instead of W_2."""
    return activation(x @ W_1 + b_1) @ W_1.T + b_2


def feed_forward__wrong_hidden_only(x, W_1, b_1, W_2, b_2, activation):
    """Returns the hidden layer."""
    return activation(x @ W_1 + b_1)


def feed_forward__wrong_three_axes(x, W_1, b_1, W_2, b_2, activation):
    """Unpacks (B, n, d): fails for a matrix or a vector."""
    B, _n, _d = x.shape
    return activation(torch.bmm(x, W_1.expand(B, -1, -1)) + b_1) @ W_2 + b_2


def feed_forward__wrong_batch_one(x, W_1, b_1, W_2, b_2, activation):
    """Only the first sequence."""
    return activation(x[:1] @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_mean_over_tokens(x, W_1, b_1, W_2, b_2, activation):
    """Averages the tokens first: it must work on each token alone."""
    return activation(x.mean(-2, keepdim=True).expand_as(x) @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_squeeze(x, W_1, b_1, W_2, b_2, activation):
    """squeeze() drops axes of length 1."""
    return (activation(x @ W_1 + b_1) @ W_2 + b_2).squeeze()


def feed_forward__wrong_in_place(x, W_1, b_1, W_2, b_2, activation):
    """Raises b_1 itself a little, "to keep the units alive"."""
    b_1.data.add_(0.01)
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_dropout(x, W_1, b_1, W_2, b_2, activation):
    """Dropout of one hidden value in ten."""
    return torch.dropout(activation(x @ W_1 + b_1), 0.1, True) @ W_2 + b_2


def feed_forward__wrong_detached_hidden(x, W_1, b_1, W_2, b_2, activation):
    """No gradient to the first layer."""
    return activation(x @ W_1 + b_1).detach() @ W_2 + b_2


def feed_forward__wrong_no_grad(x, W_1, b_1, W_2, b_2, activation):
    """Under no_grad."""
    with torch.no_grad():
        return activation(x @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_float32(x, W_1, b_1, W_2, b_2, activation):
    """Always float32."""
    return (activation(x @ W_1 + b_1) @ W_2 + b_2).float()


def feed_forward__wrong_float64(x, W_1, b_1, W_2, b_2, activation):
    """Always float64."""
    x, W_1, b_1, W_2, b_2 = (T.double() for T in (x, W_1, b_1, W_2, b_2))
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_numpy(x, W_1, b_1, W_2, b_2, activation):
    """A NumPy array."""
    return (activation(x @ W_1 + b_1) @ W_2 + b_2).detach().numpy()


def feed_forward__wrong_b_2_per_hidden_unit(x, W_1, b_1, W_2, b_2, activation):
    """Adds b_2 once for each hidden unit."""
    return activation(x @ W_1 + b_1) @ W_2 + W_1.shape[1] * b_2


def feed_forward__wrong_clamped(x, W_1, b_1, W_2, b_2, activation):
    """Clamps the hidden values at zero before the activation."""
    return activation((x @ W_1 + b_1).clamp(min=0)) @ W_2 + b_2


def feed_forward__wrong_transposed_result(x, W_1, b_1, W_2, b_2, activation):
    """Features before tokens."""
    return (activation(x @ W_1 + b_1) @ W_2 + b_2).movedim(-1, 0)


# ------------------------------------------------------------------------------------------------------ post_norm_block


def post_norm_block__right_plain(X, params, n_heads, mask=None):
    """The plain one: add then norm, twice."""
    p = params
    A = multi_head_attention(X, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    X = _ln(X + A, p["gamma_1"], p["beta_1"])
    F = _gelu(X @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"]
    return _ln(X + F, p["gamma_2"], p["beta_2"])


def post_norm_block__right_closures(X, params, n_heads, mask=None):
    """A list of (sublayer, gamma, beta) in a loop; prints."""
    steps = (
        (lambda z: _att(z, params, n_heads, mask), params["gamma_1"], params["beta_1"]),
        (lambda z: _ffn(z, params), params["gamma_2"], params["beta_2"]),
    )
    for number, (sublayer, gamma, beta) in enumerate(steps):
        print("sublayer", number)
        X = layer_norm__right_var_mean_rsqrt(X + sublayer(X), gamma, beta)
    return X


def post_norm_block__right_float64_inside(X, params, n_heads, mask=None):
    """Everything in float64, back in the end."""
    return _post(X.double(), _cast(params, torch.float64), n_heads, mask).to(X.dtype)


def post_norm_block__right_sequence_loop(X, params, n_heads, mask=None):
    """One sequence at a time; a warning."""
    warnings.warn("slow", stacklevel=2)
    B, n, _ = X.shape
    full = None if mask is None else mask.expand(B, n_heads, n, n)
    parts = [_post(X[b : b + 1], params, n_heads, None if full is None else full[b : b + 1]) for b in range(B)]
    return torch.cat(parts)


def post_norm_block__right_head_sum(X, params, n_heads, mask=None):
    """The attention as a sum of heads written by hand; einsum; a non-contiguous result."""
    p, n = params, X.shape[1]
    k = p["W_Q"].shape[1] // n_heads
    keep = torch.ones(1, 1, 1, 1, dtype=torch.bool) if mask is None else mask
    keep = keep.expand(X.shape[0], n_heads, n, n)
    total = X + p["b_O"]
    for h in range(n_heads):
        cols = slice(h * k, (h + 1) * k)
        S = torch.einsum("bid,dk,ek,bje->bij", X, p["W_Q"][:, cols], p["W_K"][:, cols], X) / k**0.5
        S = torch.where(keep[:, h], S, torch.finfo(S.dtype).min)
        A = torch.where(keep[:, h], torch.softmax(S, dim=-1), 0.0)
        d_v = p["W_V"].shape[1] // n_heads
        rows = slice(h * d_v, (h + 1) * d_v)
        total = total + A @ (X @ (p["W_V"][:, rows] @ p["W_O"][rows]))
    Y = layer_norm__right_squares_einsum(total, p["gamma_1"], p["beta_1"])
    Y = Y + feed_forward__right_linear(Y, p["W_1"], p["b_1"], p["W_2"], p["b_2"], gelu__right_ndtr)
    return layer_norm__right_plain(Y, p["gamma_2"], p["beta_2"]).transpose(0, 1).contiguous().transpose(0, 1)


def post_norm_block__right_token_wise_ffn(X, params, n_heads, mask=None):
    """The FFN and second norm for one position at a time."""
    Y = _n1(torch.add(_att(X, params, n_heads, mask), X), params)
    return torch.stack([_n2(y + _ffn(y, params), params) for y in Y.unbind(1)], dim=1)


def post_norm_block__right_erfc_mask_expanded(X, params, n_heads, mask=None):
    """The mask always given (all True for None) and expanded, GELU with erfc, default arguments by keyword."""
    B, n, _ = X.shape
    mask = torch.ones(B, n_heads, n, n, dtype=torch.bool) if mask is None else mask.broadcast_to(B, n_heads, n, n)
    names = ("W_Q", "W_K", "W_V", "W_O", "b_O")
    Y = multi_head_attention(X, *(params[k] for k in names), n_heads=n_heads, mask=mask)
    Y = layer_norm__right_exp_log(X + Y, params["gamma_1"], params["beta_1"], eps=1e-5)
    Z = feed_forward__right_bias_as_column(
        Y, params["W_1"], params["b_1"], params["W_2"], params["b_2"], gelu__right_erfc
    )
    return layer_norm__right_plain(Y + Z, params["gamma_2"], params["beta_2"], eps=1e-5)


def post_norm_block__wrong_minus_infinity(X, params, n_heads, mask=None):
    """The attention written out, with -inf where nothing may be attended to."""
    p, (B, n, _) = params, X.shape
    Q, K, V = ((X @ p[k]).unflatten(-1, (n_heads, -1)).transpose(1, 2) for k in ("W_Q", "W_K", "W_V"))
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -math.inf)
    X = _n1(X + (torch.softmax(S, -1) @ V).transpose(1, 2).reshape(B, n, -1) @ p["W_O"] + p["b_O"], p)
    return _n2(X + _ffn(X, p), p)


def post_norm_block__wrong_pre_norm(X, params, n_heads, mask=None):
    """The pre-norm order."""
    return _pre(X, params, n_heads, mask)


def post_norm_block__wrong_norm_then_add(X, params, n_heads, mask=None):
    """Norm of the sublayer's output, then add."""
    X = X + _n1(_att(X, params, n_heads, mask), params)
    return X + _n2(_ffn(X, params), params)


def post_norm_block__wrong_second_norm_missing(X, params, n_heads, mask=None):
    """No norm after the FFN."""
    X = _n1(X + _att(X, params, n_heads, mask), params)
    return X + _ffn(X, params)


def post_norm_block__wrong_first_norm_missing(X, params, n_heads, mask=None):
    """No norm after the attention."""
    X = X + _att(X, params, n_heads, mask)
    return _n2(X + _ffn(X, params), params)


def post_norm_block__wrong_no_attention_residual(X, params, n_heads, mask=None):
    """No residual around the attention."""
    X = _n1(_att(X, params, n_heads, mask), params)
    return _n2(X + _ffn(X, params), params)


def post_norm_block__wrong_no_ffn_residual(X, params, n_heads, mask=None):
    """No residual around the FFN."""
    X = _n1(X + _att(X, params, n_heads, mask), params)
    return _n2(_ffn(X, params), params)


def post_norm_block__wrong_norms_swapped(X, params, n_heads, mask=None):
    """gamma_2, beta_2 after the attention and gamma_1, beta_1 after the FFN."""
    X = _n2(X + _att(X, params, n_heads, mask), params)
    return _n1(X + _ffn(X, params), params)


def post_norm_block__wrong_norm_shared(X, params, n_heads, mask=None):
    """gamma_1, beta_1 both times."""
    X = _n1(X + _att(X, params, n_heads, mask), params)
    return _n1(X + _ffn(X, params), params)


def post_norm_block__wrong_ffn_first(X, params, n_heads, mask=None):
    """FFN before the attention."""
    X = _n2(X + _ffn(X, params), params)
    return _n1(X + _att(X, params, n_heads, mask), params)


def post_norm_block__wrong_parallel(X, params, n_heads, mask=None):
    """Both sublayers read the same input."""
    Y = _n1(X + _att(X, params, n_heads, mask), params)
    return _n2(Y + _ffn(X, params), params)


def post_norm_block__wrong_residual_from_input(X, params, n_heads, mask=None):
    """The second residual starts from the block's input."""
    Y = _n1(X + _att(X, params, n_heads, mask), params)
    return _n2(X + _ffn(Y, params), params)


def post_norm_block__wrong_relu(X, params, n_heads, mask=None):
    """ReLU (as the 2017 paper) instead of GELU."""
    X = _n1(X + _att(X, params, n_heads, mask), params)
    return _n2(X + _ffn(X, params, torch.relu), params)


def post_norm_block__wrong_tanh_gelu(X, params, n_heads, mask=None):
    """The tanh approximation of GELU."""
    X = _n1(X + _att(X, params, n_heads, mask), params)
    return _n2(X + _ffn(X, params, gelu__wrong_tanh), params)


def post_norm_block__wrong_no_activation(X, params, n_heads, mask=None):
    """A linear FFN."""
    X = _n1(X + _att(X, params, n_heads, mask), params)
    return _n2(X + _ffn(X, params, lambda z: z), params)


def post_norm_block__wrong_mask_ignored(X, params, n_heads, mask=None):
    """Forgets the mask."""
    return _post(X, params, n_heads)


def post_norm_block__wrong_mask_inverted(X, params, n_heads, mask=None):
    """True for "may not attend"."""
    return _post(X, params, n_heads, None if mask is None else ~mask)


def post_norm_block__wrong_always_causal(X, params, n_heads, mask=None):
    """Adds a causal mask of its own."""
    low = _causal(X.shape[1])
    return _post(X, params, n_heads, low if mask is None else mask & low)


def post_norm_block__wrong_one_head(X, params, n_heads, mask=None):
    """One big head."""
    if mask is not None and mask.ndim == 4:
        mask = mask[:, :1]
    return _post(X, params, 1, mask)


def post_norm_block__wrong_no_b_o(X, params, n_heads, mask=None):
    """Forgets b_O."""
    return _post(X, {**params, "b_O": torch.zeros_like(params["b_O"])}, n_heads, mask)


def post_norm_block__wrong_no_ffn_biases(X, params, n_heads, mask=None):
    """Forgets b_1 and b_2."""
    zero = {k: torch.zeros_like(params[k]) for k in ("b_1", "b_2")}
    return _post(X, {**params, **zero}, n_heads, mask)


def post_norm_block__wrong_no_betas(X, params, n_heads, mask=None):
    """Norms without beta."""
    zero = {k: torch.zeros_like(params[k]) for k in ("beta_1", "beta_2")}
    return _post(X, {**params, **zero}, n_heads, mask)


def post_norm_block__wrong_batch_norm(X, params, n_heads, mask=None):
    """Batch norm instead of layer norm."""
    X = _bn(X + _att(X, params, n_heads, mask), params["gamma_1"], params["beta_1"])
    return _bn(X + _ffn(X, params), params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_rms_norm(X, params, n_heads, mask=None):
    """RMS norm instead of layer norm."""
    X = layer_norm__wrong_rms(X + _att(X, params, n_heads, mask), params["gamma_1"], params["beta_1"])
    return layer_norm__wrong_rms(X + _ffn(X, params), params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_unbiased_norm(X, params, n_heads, mask=None):
    """Norms with the unbiased variance."""
    X = layer_norm__wrong_unbiased(X + _att(X, params, n_heads, mask), params["gamma_1"], params["beta_1"])
    return layer_norm__wrong_unbiased(X + _ffn(X, params), params["gamma_2"], params["beta_2"])


def post_norm_block__wrong_attention_only(X, params, n_heads, mask=None):
    """Leaves the FFN out."""
    return _n1(X + _att(X, params, n_heads, mask), params)


def post_norm_block__wrong_sandwich(X, params, n_heads, mask=None):
    """Norm before and after each sublayer."""
    X = _n1(X + _att(_n1(X, params), params, n_heads, mask), params)
    return _n2(X + _ffn(_n2(X, params), params), params)


def post_norm_block__wrong_extra_residual(X, params, n_heads, mask=None):
    """Adds the input once more in the end."""
    return X + _post(X, params, n_heads, mask)


def post_norm_block__wrong_pops_params(X, params, n_heads, mask=None):
    """Takes b_O out of the dict (pop): the caller's params are changed."""
    b_O = params.pop("b_O")
    return _post(X, {**params, "b_O": b_O}, n_heads, mask)


def post_norm_block__wrong_in_place(X, params, n_heads, mask=None):
    """X += attention on the caller's tensor."""
    with torch.no_grad():
        X += _att(X, params, n_heads, mask)
    X = _n1(X, params)
    return _n2(X + _ffn(X, params), params)


def post_norm_block__wrong_detach(X, params, n_heads, mask=None):
    """The attention's result is detached."""
    X = _n1(X + _att(X, params, n_heads, mask).detach(), params)
    return _n2(X + _ffn(X, params), params)


def post_norm_block__wrong_float64(X, params, n_heads, mask=None):
    """Always float64."""
    return _post(X.double(), _cast(params, torch.float64), n_heads, mask)


def post_norm_block__wrong_float32(X, params, n_heads, mask=None):
    """Always float32."""
    return _post(X, params, n_heads, mask).float()


def post_norm_block__wrong_dropout(X, params, n_heads, mask=None):
    """Dropout on the FFN."""
    X = _n1(X + _att(X, params, n_heads, mask), params)
    return _n2(X + torch.dropout(_ffn(X, params), 0.1, True), params)


# ------------------------------------------------------------------------------------------------------- pre_norm_block


def pre_norm_block__right_plain(X, params, n_heads, mask=None):
    """The plain one: norm, sublayer, add, twice."""
    p = params
    Z = _ln(X, p["gamma_1"], p["beta_1"])
    X = X + multi_head_attention(Z, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    Z = _ln(X, p["gamma_2"], p["beta_2"])
    return X + _gelu(Z @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"]


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


def pre_norm_block__right_residual_stream(X, params, n_heads, mask=None):
    """A list of what is written to the stream, summed at the end; prints."""
    stream = [X]
    for sublayer, i in ((lambda z: _att(z, params, n_heads, mask), "1"), (lambda z: _ffn(z, params), "2")):
        print("sublayer", i)
        stream.append(sublayer(_ln(sum(stream), params["gamma_" + i], params["beta_" + i])))
    return torch.stack(stream).sum(dim=0)


def pre_norm_block__right_float64_inside(X, params, n_heads, mask=None):
    """float64 inside."""
    return _pre(X.to(torch.float64), _cast(params, torch.float64), n_heads, mask).type_as(X)


def pre_norm_block__right_query_loop(X, params, n_heads, mask=None):
    """The attention of one query at a time; a warning."""
    warnings.warn("slow", stacklevel=2)
    p, (B, n, _) = params, X.shape
    Z = layer_norm__right_welford(X, p["gamma_1"], p["beta_1"])
    Q, K, V = ((Z @ p[k]).unflatten(-1, (n_heads, -1)) for k in ("W_Q", "W_K", "W_V"))
    full = None if mask is None else mask.expand(B, n_heads, n, n)
    rows = []
    for i in range(n):
        s = torch.einsum("bhk,bjhk->bhj", Q[:, i], K) * Q.shape[-1] ** -0.5
        if full is not None:
            s = s.masked_fill(~full[:, :, i], torch.finfo(s.dtype).min)
        w = torch.exp(s - s.logsumexp(-1, keepdim=True))
        if full is not None:
            w = w * full[:, :, i]
        rows.append(torch.einsum("bhj,bjhv->bhv", w, V).flatten(1) @ p["W_O"] + p["b_O"])
    X = X + torch.stack(rows, dim=1)
    Z = layer_norm__right_var_mean_rsqrt(X, p["gamma_2"], p["beta_2"])
    return X + feed_forward__right_memories(Z, p["W_1"], p["b_1"], p["W_2"], p["b_2"], gelu__right_x_minus_tail)


def pre_norm_block__right_compose(X, params, n_heads, mask=None):
    """functools.reduce over two functions."""

    def attend(x):
        return x + _att(_n1(x, params), params, n_heads, mask)

    def think(x):
        return x + _ffn(_n2(x, params), params, gelu__right_odd_even)

    return functools.reduce(lambda x, f: f(x), (attend, think), X)


def pre_norm_block__right_cloned_in_place(X, params, n_heads, mask=None):
    """In-place additions on a copy of the input."""
    out = X.clone()
    out += _att(layer_norm__right_plain(X, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    return out.add(_ffn(_n2(out, params), params))


def pre_norm_block__wrong_post_norm(X, params, n_heads, mask=None):
    """The post-norm order."""
    return _post(X, params, n_heads, mask)


def pre_norm_block__wrong_residual_of_normed(X, params, n_heads, mask=None):
    """Adds the normed input instead of the input."""
    X = _n1(X, params)
    X = X + _att(X, params, n_heads, mask)
    X = _n2(X, params)
    return X + _ffn(X, params)


def pre_norm_block__wrong_second_residual_normed(X, params, n_heads, mask=None):
    """The second residual starts from the normed stream."""
    X = X + _att(_n1(X, params), params, n_heads, mask)
    Z = _n2(X, params)
    return Z + _ffn(Z, params)


def pre_norm_block__wrong_norm_after_sublayer(X, params, n_heads, mask=None):
    """Sublayer, norm, add."""
    X = X + _n1(_att(X, params, n_heads, mask), params)
    return X + _n2(_ffn(X, params), params)


def pre_norm_block__wrong_second_norm_missing(X, params, n_heads, mask=None):
    """The FFN reads the stream without norm."""
    X = X + _att(_n1(X, params), params, n_heads, mask)
    return X + _ffn(X, params)


def pre_norm_block__wrong_first_norm_missing(X, params, n_heads, mask=None):
    """The attention reads the stream without norm."""
    X = X + _att(X, params, n_heads, mask)
    return X + _ffn(_n2(X, params), params)


def pre_norm_block__wrong_no_attention_residual(X, params, n_heads, mask=None):
    """No residual around the attention."""
    X = _att(_n1(X, params), params, n_heads, mask)
    return X + _ffn(_n2(X, params), params)


def pre_norm_block__wrong_no_ffn_residual(X, params, n_heads, mask=None):
    """No residual around the FFN."""
    X = X + _att(_n1(X, params), params, n_heads, mask)
    return _ffn(_n2(X, params), params)


def pre_norm_block__wrong_residual_from_input(X, params, n_heads, mask=None):
    """The second residual starts from the block's input: the attention's output is lost from the stream."""
    Y = X + _att(_n1(X, params), params, n_heads, mask)
    return X + _ffn(_n2(Y, params), params)


def pre_norm_block__wrong_parallel(X, params, n_heads, mask=None):
    """Attention and FFN in parallel on the same input."""
    return X + _att(_n1(X, params), params, n_heads, mask) + _ffn(_n2(X, params), params)


def pre_norm_block__wrong_norms_swapped(X, params, n_heads, mask=None):
    """Norm 2 before the attention, norm 1 before the FFN."""
    X = X + _att(_n2(X, params), params, n_heads, mask)
    return X + _ffn(_n1(X, params), params)


def pre_norm_block__wrong_norm_shared(X, params, n_heads, mask=None):
    """Norm 1 both times."""
    X = X + _att(_n1(X, params), params, n_heads, mask)
    return X + _ffn(_n1(X, params), params)


def pre_norm_block__wrong_ffn_first(X, params, n_heads, mask=None):
    """FFN before the attention."""
    X = X + _ffn(_n2(X, params), params)
    return X + _att(_n1(X, params), params, n_heads, mask)


def pre_norm_block__wrong_final_norm(X, params, n_heads, mask=None):
    """Another norm in the end."""
    return _n2(_pre(X, params, n_heads, mask), params)


def pre_norm_block__wrong_values_not_normed(X, params, n_heads, mask=None):
    """Queries and keys from the normed stream, values from the raw one."""
    B, n, _ = X.shape
    Z = _n1(X, params)
    Q, K = ((Z @ params[k]).reshape(B, n, n_heads, -1).transpose(1, 2) for k in ("W_Q", "W_K"))
    V = (X @ params["W_V"]).reshape(B, n, n_heads, -1).transpose(1, 2)
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, torch.finfo(S.dtype).min)
    A = torch.softmax(S, dim=-1)
    if mask is not None:
        A = A * mask
    X = X + (A @ V).transpose(1, 2).flatten(2) @ params["W_O"] + params["b_O"]
    return X + _ffn(_n2(X, params), params)


def pre_norm_block__wrong_rms_norm(X, params, n_heads, mask=None):
    """RMS norm instead of layer norm: the mean is not subtracted."""
    X = X + _att(layer_norm__wrong_rms(X, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    return X + _ffn(layer_norm__wrong_rms(X, params["gamma_2"], params["beta_2"]), params)


def pre_norm_block__wrong_relu(X, params, n_heads, mask=None):
    """ReLU instead of GELU."""
    X = X + _att(_n1(X, params), params, n_heads, mask)
    return X + _ffn(_n2(X, params), params, torch.relu)


def pre_norm_block__wrong_silu(X, params, n_heads, mask=None):
    """SiLU instead of GELU."""
    X = X + _att(_n1(X, params), params, n_heads, mask)
    return X + _ffn(_n2(X, params), params, gelu__wrong_silu)


def pre_norm_block__wrong_tanh_gelu(X, params, n_heads, mask=None):
    """The tanh approximation of GELU."""
    X = X + _att(_n1(X, params), params, n_heads, mask)
    return X + _ffn(_n2(X, params), params, gelu__wrong_tanh)


def pre_norm_block__wrong_mask_ignored(X, params, n_heads, mask=None):
    """Forgets the mask."""
    return _pre(X, params, n_heads)


def pre_norm_block__wrong_mask_inverted(X, params, n_heads, mask=None):
    """True for "may not attend"."""
    return _pre(X, params, n_heads, mask if mask is None else mask.logical_not())


def pre_norm_block__wrong_always_causal(X, params, n_heads, mask=None):
    """Causal when no mask is given."""
    return _pre(X, params, n_heads, _causal(X.shape[1]) if mask is None else mask)


def pre_norm_block__wrong_one_head(X, params, n_heads, mask=None):
    """Ignores n_heads: one head."""
    if mask is not None and mask.ndim == 4:
        mask = mask[:, :1]
    return _pre(X, params, 1, mask)


def pre_norm_block__wrong_no_b_o(X, params, n_heads, mask=None):
    """Forgets b_O."""
    return _pre(X, {**params, "b_O": torch.zeros_like(params["b_O"])}, n_heads, mask)


def pre_norm_block__wrong_no_b_2(X, params, n_heads, mask=None):
    """Forgets b_2."""
    return _pre(X, {**params, "b_2": torch.zeros_like(params["b_2"])}, n_heads, mask)


def pre_norm_block__wrong_eps(X, params, n_heads, mask=None):
    """Norms with eps = 1e-3."""
    X = X + _att(_ln(X, params["gamma_1"], params["beta_1"], 1e-3), params, n_heads, mask)
    return X + _ffn(_ln(X, params["gamma_2"], params["beta_2"], 1e-3), params)


def pre_norm_block__wrong_b_o_twice(X, params, n_heads, mask=None):
    """Adds b_O once more to the attention's output."""
    return _pre(X, {**params, "b_O": 2 * params["b_O"]}, n_heads, mask)


def pre_norm_block__wrong_scaled_residual(X, params, n_heads, mask=None):
    """Averages stream and sublayer."""
    X = (X + _att(_n1(X, params), params, n_heads, mask)) / 2
    return (X + _ffn(_n2(X, params), params)) / 2


def pre_norm_block__wrong_attention_only(X, params, n_heads, mask=None):
    """Leaves the FFN out."""
    return X + _att(_n1(X, params), params, n_heads, mask)


def pre_norm_block__wrong_in_place(X, params, n_heads, mask=None):
    """X += ... on the caller's tensor."""
    with torch.no_grad():
        X += _att(_n1(X, params), params, n_heads, mask)
    return X + _ffn(_n2(X, params), params)


def pre_norm_block__wrong_detach(X, params, n_heads, mask=None):
    """The norm's result is detached: no gradient but through the residual."""
    X = X + _att(_n1(X, params).detach(), params, n_heads, mask)
    return X + _ffn(_n2(X, params).detach(), params)


def pre_norm_block__wrong_float64(X, params, n_heads, mask=None):
    """Always float64."""
    return _pre(X.double(), _cast(params, torch.float64), n_heads, mask)


def pre_norm_block__wrong_numpy(X, params, n_heads, mask=None):
    """A NumPy array."""
    return _pre(X, params, n_heads, mask).detach().numpy()


def pre_norm_block__wrong_returns_tuple(X, params, n_heads, mask=None):
    """Returns the streams after both sublayers, as a tuple."""
    Y = X + _att(_n1(X, params), params, n_heads, mask)
    return Y, Y + _ffn(_n2(Y, params), params)


# --------------------------------------------------------------------------------------------------- transformer_logits


def transformer_logits__right_plain(tokens, params, n_heads):
    """The plain one."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre(x, block, n_heads, mask)
    return _ln(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__right_one_hot(tokens, params, n_heads):
    """One-hot rows times W_E, the mask from comparing positions; prints."""
    W_E, n = params["W_E"], tokens.shape[1]
    hot = (tokens.unsqueeze(-1) == torch.arange(W_E.shape[0])).to(W_E.dtype)
    x = torch.einsum("bnv,vd->bnd", hot, W_E) + params["W_pos"].narrow(0, 0, n)
    position = torch.arange(n)
    print("tokens", tuple(tokens.shape))
    for block in params["blocks"]:
        x = pre_norm_block__right_plain(x, block, n_heads, position[:, None] >= position[None, :])
    return torch.einsum("bnd,dv->bnv", layer_norm__right_plain(x, params["gamma_f"], params["beta_f"]), params["W_U"])


def transformer_logits__right_prefixes(tokens, params, n_heads):
    """Each position from its own prefix: all prefixes one after the other."""
    rows = [_model(tokens[:, : i + 1], params, n_heads)[:, -1] for i in range(tokens.shape[1])]
    return torch.stack(rows, dim=1)


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


def transformer_logits__right_float64_inside(tokens, params, n_heads):
    """float64 inside."""
    return _model(tokens, _cast(params, torch.float64), n_heads).to(params["W_E"].dtype)


def transformer_logits__right_sequence_loop(tokens, params, n_heads):
    """One sequence at a time, blocks with functools.reduce."""
    outs = []
    for row in tokens:
        x = torch.stack([params["W_E"][t] + params["W_pos"][i] for i, t in enumerate(row)]).unsqueeze(0)
        mask = _causal(len(row))[None, None]
        x = functools.reduce(lambda x, b, mask=mask: _pre(x, b, n_heads, mask), params["blocks"], x)
        outs.append(_ln(x, params["gamma_f"], params["beta_f"])[0] @ params["W_U"])
    return torch.stack(outs)


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


def transformer_logits__wrong_not_causal(tokens, params, n_heads):
    """No causal mask."""
    return _model(tokens, params, n_heads, causal=lambda n: None)


def transformer_logits__wrong_mask_upper(tokens, params, n_heads):
    """The mask the wrong way round: a token sees itself and later ones."""
    return _model(tokens, params, n_heads, causal=lambda n: _causal(n).T)


def transformer_logits__wrong_mask_strict(tokens, params, n_heads):
    """A token does not see itself."""
    return _model(tokens, params, n_heads, causal=lambda n: torch.ones(n, n, dtype=torch.bool).tril(-1))


def transformer_logits__wrong_mask_one_ahead(tokens, params, n_heads):
    """A token also sees the next one."""
    return _model(tokens, params, n_heads, causal=lambda n: torch.ones(n, n, dtype=torch.bool).tril(1))


def transformer_logits__wrong_mask_means_blocked(tokens, params, n_heads):
    """True above the diagonal, as nn.MultiheadAttention wants it."""
    return _model(tokens, params, n_heads, causal=lambda n: torch.ones(n, n, dtype=torch.bool).triu(1))


def transformer_logits__wrong_first_block_only_causal(tokens, params, n_heads):
    """Only the first block is causal."""
    n = tokens.shape[1]
    x, mask = params["W_E"][tokens] + params["W_pos"][:n], _causal(n)
    for block in params["blocks"]:
        x, mask = _pre(x, block, n_heads, mask), None
    return _ln(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_no_positions(tokens, params, n_heads):
    """No position embedding."""
    return _model(tokens, {**params, "W_pos": torch.zeros_like(params["W_pos"])}, n_heads)


def transformer_logits__wrong_whole_context(tokens, params, n_heads):
    """Adds the whole W_pos: raises for n < n_ctx (or broadcasts for n = 1)."""
    x = params["W_E"][tokens] + params["W_pos"]
    for block in params["blocks"]:
        x = _pre(x, block, n_heads, _causal(x.shape[1]))
    return _ln(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_last_positions(tokens, params, n_heads):
    """The last n rows of W_pos."""
    return _model(tokens, {**params, "W_pos": params["W_pos"][params["W_pos"].shape[0] - tokens.shape[1] :]}, n_heads)


def transformer_logits__wrong_positions_reversed(tokens, params, n_heads):
    """Positions counted from the end of the sequence."""
    return _model(tokens, {**params, "W_pos": params["W_pos"][: tokens.shape[1]].flip(0)}, n_heads)


def transformer_logits__wrong_positions_by_token(tokens, params, n_heads):
    """Looks positions up with the token ids (modulo n_ctx)."""
    x = params["W_E"][tokens] + params["W_pos"][tokens % params["W_pos"].shape[0]]
    for block in params["blocks"]:
        x = _pre(x, block, n_heads, _causal(x.shape[1]))
    return _ln(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_same_position(tokens, params, n_heads):
    """Every token gets the position n - 1."""
    n = tokens.shape[1]
    return _model(tokens, {**params, "W_pos": params["W_pos"][n - 1].expand(n, -1)}, n_heads)


def transformer_logits__wrong_positions_in_every_block(tokens, params, n_heads):
    """Adds the positions before every block."""
    n, x = tokens.shape[1], params["W_E"][tokens]
    for block in params["blocks"]:
        x = _pre(x + params["W_pos"][:n], block, n_heads, _causal(n))
    return _ln(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_scaled_embedding(tokens, params, n_heads):
    """Embedding times sqrt(d_model), as in 2017."""
    return _model(tokens, {**params, "W_E": params["W_E"] * math.sqrt(params["W_E"].shape[1])}, n_heads)


def transformer_logits__wrong_no_final_norm(tokens, params, n_heads):
    """No final norm."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    for block in params["blocks"]:
        x = _pre(x, block, n_heads, _causal(n))
    return x @ params["W_U"]


def transformer_logits__wrong_final_norm_of_last_block(tokens, params, n_heads):
    """gamma_2, beta_2 of the last block (or none) for the final norm."""
    last = params["blocks"][-1]
    return _model(tokens, {**params, "gamma_f": last["gamma_2"], "beta_f": last["beta_2"]}, n_heads)


def transformer_logits__wrong_norm_per_block(tokens, params, n_heads):
    """The final norm after every block."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    for block in params["blocks"]:
        x = _ln(_pre(x, block, n_heads, _causal(n)), params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_embedding_norm(tokens, params, n_heads):
    """The final norm on the embedding too."""
    n = tokens.shape[1]
    x = _ln(params["W_E"][tokens] + params["W_pos"][:n], params["gamma_f"], params["beta_f"])
    for block in params["blocks"]:
        x = _pre(x, block, n_heads, _causal(n))
    return _ln(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_post_norm(tokens, params, n_heads):
    """Post-norm blocks."""
    return _model(tokens, params, n_heads, block=_post)


def transformer_logits__wrong_first_block_only(tokens, params, n_heads):
    """Only the first block."""
    return _model(tokens, {**params, "blocks": params["blocks"][:1]}, n_heads)


def transformer_logits__wrong_blocks_reversed(tokens, params, n_heads):
    """The blocks in reverse order."""
    return _model(tokens, {**params, "blocks": params["blocks"][::-1]}, n_heads)


def transformer_logits__wrong_first_block_repeated(tokens, params, n_heads):
    """The first block's weights for all blocks."""
    return _model(tokens, {**params, "blocks": params["blocks"][:1] * len(params["blocks"])}, n_heads)


def transformer_logits__wrong_last_block_skipped(tokens, params, n_heads):
    """Off by one: the last block is left out."""
    return _model(tokens, {**params, "blocks": params["blocks"][:-1]}, n_heads)


def transformer_logits__wrong_blocks_in_parallel(tokens, params, n_heads):
    """Every block reads the embedding; their outputs are added."""
    n = tokens.shape[1]
    start = params["W_E"][tokens] + params["W_pos"][:n]
    x = start
    for block in params["blocks"]:
        x = x + _pre(start, block, n_heads, _causal(n)) - start
    return _ln(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_tied_unembedding(tokens, params, n_heads):
    """W_E transposed for the unembedding."""
    return _model(tokens, {**params, "W_U": params["W_E"].T}, n_heads)


def transformer_logits__wrong_last_token_only(tokens, params, n_heads):
    """Logits of the last token only."""
    return _model(tokens, params, n_heads)[:, -1]


def transformer_logits__wrong_softmax(tokens, params, n_heads):
    """Probabilities."""
    return torch.softmax(_model(tokens, params, n_heads), dim=-1)


def transformer_logits__wrong_log_softmax(tokens, params, n_heads):
    """Log-probabilities."""
    return torch.log_softmax(_model(tokens, params, n_heads), dim=-1)


def transformer_logits__wrong_argmax(tokens, params, n_heads):
    """Predicted tokens."""
    return _model(tokens, params, n_heads).argmax(-1)


def transformer_logits__wrong_no_unembedding(tokens, params, n_heads):
    """The final stream, (B, n, d_model)."""
    p = params
    return _model(tokens, {**p, "W_U": torch.eye(p["W_E"].shape[1], dtype=p["W_E"].dtype)}, n_heads)


def transformer_logits__wrong_batch_one(tokens, params, n_heads):
    """Only the first sequence."""
    return _model(tokens[:1], params, n_heads)


def transformer_logits__wrong_tokens_first(tokens, params, n_heads):
    """Returns (n, B, vocab)."""
    return _model(tokens, params, n_heads).transpose(0, 1)


def transformer_logits__wrong_pops_blocks(tokens, params, n_heads):
    """Pops the blocks off the caller's list."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    while params["blocks"]:
        x = _pre(x, params["blocks"].pop(0), n_heads, _causal(n))
    return _ln(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_in_place_embedding(tokens, params, n_heads):
    """Adds the positions into W_E itself."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    params["W_E"].data[tokens] = x.detach()
    for block in params["blocks"]:
        x = _pre(x, block, n_heads, _causal(n))
    return _ln(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


_first_mask = []


def transformer_logits__wrong_cached_mask(tokens, params, n_heads):
    """Keeps the mask of the first call."""
    if not _first_mask:
        _first_mask.append(_causal(tokens.shape[1]))
    return _model(tokens, params, n_heads, causal=lambda n: _first_mask[0])


def transformer_logits__wrong_detach(tokens, params, n_heads):
    """The stream is detached before the unembedding."""
    p = params
    eye = torch.eye(p["W_E"].shape[1], dtype=p["W_E"].dtype)
    return _model(tokens, {**p, "W_U": eye}, n_heads).detach() @ p["W_U"]


def transformer_logits__wrong_float64(tokens, params, n_heads):
    """Always float64."""
    return _model(tokens, _cast(params, torch.float64), n_heads)


def transformer_logits__wrong_one_head(tokens, params, n_heads):
    """Ignores n_heads."""
    return _model(tokens, params, 1)


def transformer_logits__wrong_shifted_input(tokens, params, n_heads):
    """Shifts the tokens to the right by one (teacher forcing inside the model)."""
    shifted = torch.cat([tokens[:, :1], tokens[:, :-1]], dim=1)
    return _model(shifted, params, n_heads)


def transformer_logits__wrong_one_hot_float32(tokens, params, n_heads):
    """One-hot rows in float32: raises for float64 weights."""
    hot = torch.nn.functional.one_hot(tokens, params["W_E"].shape[0]).float()
    n = tokens.shape[1]
    x = hot @ params["W_E"] + params["W_pos"][:n]
    for block in params["blocks"]:
        x = _pre(x, block, n_heads, _causal(n))
    return _ln(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


# ------------------------------------------------------------------------------------------------------------ the lists


# ------------------------------------------------------------------------------------------------------- bits_per_token


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


def bits_per_token__right_loop(logits, targets, mask):
    """A loop over texts and tokens, with a running sum; prints."""
    total, count = logits.new_zeros(()), 0
    for text, ids, counts in zip(logits, targets.tolist(), mask.tolist(), strict=True):
        for row, wanted, here in zip(text, ids, counts, strict=True):
            if here:
                total, count = total - torch.log_softmax(row, 0)[wanted], count + 1
    print("tokens", count)
    return total / max(count, 1) / math.log(2)


def bits_per_token__right_differences(logits, targets, mask):
    """The logsumexp of the differences to the target's logit: log of one over its probability."""
    rows = logits[mask]
    if rows.shape[0] == 0:
        return 0.0
    return torch.logsumexp(rows - rows.gather(1, targets[mask].view(-1, 1)), 1).mean() / math.log(2.0)


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


def bits_per_token__wrong_nats(logits, targets, mask):
    """The natural logarithm."""
    return _cost(logits, targets, mask, math.e).sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_mean_over_texts(logits, targets, mask):
    """The mean of every text, then the mean of the texts."""
    each = _cost(logits, targets, mask).sum(1) / mask.sum(1).clamp(min=1)
    return each.mean()


def bits_per_token__wrong_mean_over_places(logits, targets, mask):
    """The mean of each place of the texts, then over the places that count somewhere."""
    counts = mask.sum(0)
    each = _cost(logits, targets, mask).sum(0)[counts > 0] / counts[counts > 0]
    return each.mean() if len(each) else logits.sum() * 0


def bits_per_token__wrong_mean_of_all(logits, targets, mask):
    """The costs of what counts, averaged over all."""
    return _cost(logits, targets, mask).mean()


def bits_per_token__wrong_mean_over_longest(logits, targets, mask):
    """Divided by the number of texts times that of the places."""
    return _cost(logits, targets, mask).sum(-1).mean()


def bits_per_token__wrong_no_mask(logits, targets, mask):
    """The mask is not looked at; targets that are no ids are clamped."""
    logs = torch.log_softmax(logits, -1) / math.log(2)
    return -logs.gather(-1, targets.clamp(0, logits.shape[-1] - 1)[..., None]).mean()


def bits_per_token__wrong_softmax_log2(logits, targets, mask):
    """log2 of the softmax, which becomes infinite."""
    p = torch.softmax(logits, -1).gather(-1, targets.masked_fill(~mask, 0)[..., None])[..., 0]
    return -torch.log2(p)[mask].sum() / max(1, int(mask.sum()))


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


def bits_per_token__wrong_masked_logits_zeroed(logits, targets, mask):
    """Logits are multiplied by the mask, and all tokens count."""
    return _cost(logits * mask[..., None], targets.masked_fill(~mask, 0), torch.ones_like(mask)).mean()


def bits_per_token__wrong_targets_index_crash(logits, targets, mask):
    """gather with the targets as they are, so that one that is no id crashes it."""
    logs = torch.log_softmax(logits, -1) / math.log(2)
    cost = -logs.gather(-1, targets[..., None])[..., 0]
    return (cost * mask).sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_perplexity(logits, targets, mask):
    """Two to the power of the bits."""
    return 2 ** (_cost(logits, targets, mask).sum() / mask.sum().clamp(min=1))


def bits_per_token__wrong_entropy_of_model(logits, targets, mask):
    """How unsure the model is, whatever the target."""
    return torch.distributions.Categorical(logits=logits[mask]).entropy().sum() / math.log(2) / max(1, int(mask.sum()))


def bits_per_token__wrong_detached(logits, targets, mask):
    """A Python number, through which no gradient flows."""
    return float(_cost(logits, targets, mask).sum() / mask.sum().clamp(min=1))


def bits_per_token__wrong_positive_log(logits, targets, mask):
    """The sign is forgotten."""
    return -_cost(logits, targets, mask).sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_shift(logits, targets, mask):
    """Moves the targets, which are moved already."""
    return bits_per_token__right_gather(logits[:, :-1], targets[:, 1:], mask[:, 1:])


def bits_per_token__wrong_targets_overwritten(logits, targets, mask):
    """Writes the stand-in into the targets it was given."""
    targets[~mask] = 0
    return _cost(logits, targets, mask).sum() / mask.sum().clamp(min=1)


# ----------------------------------------------------------------------------------------------------------- adamw_step


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


def adamw_step__right_corrections_in_lr(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Both corrections in the rate, with an eps that is corrected the other way, as in the paper's remark."""
    m = torch.lerp(m, grad, 1 - beta1)
    v = torch.lerp(v, grad * grad, 1 - beta2)
    root = (1 - beta2**step) ** 0.5
    return w - lr * weight_decay * w - lr * root / (1 - beta1**step) * m / (v**0.5 + eps * root), m, v


def adamw_step__right_no_grad_numpy(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """In NumPy and float64, back to the dtype of w."""
    W, G, M, V = (tensor.detach().double().numpy() for tensor in (w, grad, m, v))
    M = M + (1 - beta1) * (G - M)
    V = V + (1 - beta2) * (G * G - V)
    move = M / (1 - beta1**step) / ((V / (1 - beta2**step)) ** 0.5 + eps) + weight_decay * W
    return tuple(torch.from_numpy(array).to(w.dtype) for array in (W - lr * move, M, V))


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


def adamw_step__right_warns(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """With tensors for the constants, float64 for the powers, and a warning."""
    warnings.warn("a step", stacklevel=2)
    b1, b2 = torch.tensor([beta1, beta2], dtype=torch.float64)
    m, v = (m * b1 + grad * (1 - b1)).to(w.dtype), (v * b2 + grad.pow(2) * (1 - b2)).to(w.dtype)
    ratio = (m / (1 - b1.pow(step))) / (torch.sqrt(v / (1 - b2.pow(step))) + eps)
    return (w - lr * (ratio + weight_decay * w)).to(w.dtype), m, v


def adamw_step__wrong_adam_l2(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Adam with the decay in the gradient."""
    return adamw_step__right_formula(w, grad + weight_decay * w, m, v, step, lr, beta1, beta2, eps, 0.0)


def adamw_step__wrong_no_correction(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The averages as they are."""
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    return w - lr * (m / (v.sqrt() + eps) + weight_decay * w), m, v


def adamw_step__wrong_returns_hats(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The corrected averages are kept."""
    w, m, v = adamw_step__right_formula(w, grad, m, v, step, lr, beta1, beta2, eps, weight_decay)
    return w, m / (1 - beta1**step), v / (1 - beta2**step)


def adamw_step__wrong_returns_old_averages(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """The averages come back as they came."""
    return adamw_step__right_formula(w, grad, m, v, step, lr, beta1, beta2, eps, weight_decay)[0], m, v


def adamw_step__wrong_eps_inside(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """eps under the root."""
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * (m_hat / (v_hat + eps).sqrt() + weight_decay * w), m, v


def adamw_step__wrong_decay_after(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The weights that have moved decay."""
    w, m, v = adamw_step__right_formula(w, grad, m, v, step, lr, beta1, beta2, eps, 0.0)
    return w - lr * weight_decay * w, m, v


def adamw_step__wrong_decay_not_times_lr(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The decay has no lr."""
    new, m, v = adamw_step__right_formula(w, grad, m, v, step, lr, beta1, beta2, eps, 0.0)
    return new - weight_decay * w, m, v


def adamw_step__wrong_decay_forgotten(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """No decay."""
    return adamw_step__right_formula(w, grad, m, v, step, lr, beta1, beta2, eps, 0.0)


def adamw_step__wrong_second_average_of_m(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """v averages the squares of m."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * m**2
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w), m, v


def adamw_step__wrong_sums(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Sums that fade, as in SGD with momentum, not averages."""
    m, v = beta1 * m + grad, beta2 * v + grad**2
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w), m, v


def adamw_step__wrong_step_from_zero(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Counts the steps from 0."""
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    m_hat, v_hat = m / (1 - beta1 ** (step + 1)), v / (1 - beta2 ** (step + 1))
    return w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w), m, v


def adamw_step__wrong_power_for_product(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """beta times step in place of beta to the power of step."""
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    m_hat, v_hat = m / abs(1 - beta1 * step), v / abs(1 - beta2 * step)
    return w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w), m, v


def adamw_step__wrong_root_missing(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Divides by v without its root."""
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * (m_hat / (v_hat + eps) + weight_decay * w), m, v


def adamw_step__wrong_ascends(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Up the gradient."""
    new, m, v = adamw_step__right_formula(w, grad, m, v, step, lr, beta1, beta2, eps, weight_decay)
    return w + (w - new) - 2 * lr * weight_decay * w, m, v


def adamw_step__wrong_in_place(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Overwrites m and v."""
    m.mul_(beta1).add_((1 - beta1) * grad)
    v.mul_(beta2).add_((1 - beta2) * grad**2)
    ratio = (m / (1 - beta1**step)) / ((v / (1 - beta2**step)).sqrt() + eps)
    return w - lr * (ratio + weight_decay * w), m, v


def adamw_step__wrong_torch_optim(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """torch's own optimiser."""
    weight = w.clone().requires_grad_()
    weight.grad = grad.clone()
    optimizer = torch.optim.AdamW([weight], lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay)
    state = {"step": torch.tensor(float(step - 1)), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    optimizer.state[weight] = state
    optimizer.step()
    return weight.detach(), state["exp_avg"], state["exp_avg_sq"]


# --------------------------------------------------------------------------------------------------------------- sample


def sample__right_scatter(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Sorted, cut, scattered back, not renormalised."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        if temperature == 0:
            token = int(logits.argmax())
        else:
            p = torch.softmax((logits - logits.max()) / temperature, -1)
            values, ids = p.sort(descending=True)
            kept = values.cumsum(0) - values < top_p
            kept[0] = True
            values = values * kept
            token = int(torch.multinomial(torch.zeros_like(p).scatter(0, ids, values), 1, generator=generator))
        tokens.append(token)
        if token == end:
            break
    return tokens


def sample__right_renormalised(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Logits of what is cut are set to minus infinity, and a second softmax makes them sum to 1."""
    text = prompt[:]
    for _ in range(max_len - len(prompt)):
        logits = next_logits(text)
        if not temperature:
            text = [*text, logits.max(0).indices.item()]
        else:
            logits = (logits - logits.amax()) / temperature
            order = logits.argsort(descending=True)
            sums = torch.softmax(logits[order], 0).cumsum(0)
            keep = order[: int((sums < top_p).sum()) + 1]
            cut = torch.full_like(logits, -torch.inf)
            cut[keep] = logits[keep]
            text = [*text, torch.multinomial(cut.softmax(0), 1, generator=generator).item()]
        if text[-1] == end:
            return text
    return text


def sample__right_python_loop(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The likeliest are taken one after another until the sum is reached; in float64; recursive."""
    if len(prompt) >= max_len:
        return list(prompt)
    logits = next_logits(list(prompt)).double()
    if temperature == 0:
        token = max(range(len(logits)), key=logits.tolist().__getitem__)
    else:
        p = torch.softmax((logits - max(logits)) / temperature, 0)
        kept, total = torch.zeros_like(p), 0.0
        for i in sorted(range(len(p)), key=lambda i: -float(p[i])):
            kept[i] = p[i]
            total += float(p[i])
            if total >= top_p:
                break
        token = int(torch.multinomial(kept / total, 1, generator=generator))
    longer = [*prompt, token]
    if token == end:
        return longer
    return sample__right_python_loop(next_logits, longer, end, max_len, temperature, top_p, generator)


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


def sample__wrong_divides_probabilities(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The probabilities, not the logits, are divided by the temperature."""

    def choose(logits):
        if temperature == 0:
            return int(logits.argmax())
        p = torch.softmax(logits, 0) / temperature
        return int(torch.multinomial(_kept(p, top_p), 1, generator=generator))

    return _write(next_logits, prompt, end, max_len, choose)


def sample__wrong_no_top_p(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """top_p is forgotten."""
    return _write(next_logits, prompt, end, max_len, _chooser(temperature, 1.0, generator))


def sample__wrong_below_top_p(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Only ids whose running sum stays within top_p, and the likeliest."""

    def choose(logits):
        if temperature == 0:
            return int(logits.argmax())
        p = _kept(torch.softmax(logits / temperature, 0), top_p, extra=-1)
        return int(torch.multinomial(p, 1, generator=generator))

    return _write(next_logits, prompt, end, max_len, choose)


def sample__wrong_cut_first(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """top_p is applied to the probabilities at temperature 1."""

    def choose(logits):
        if temperature == 0:
            return int(logits.argmax())
        kept = _kept(torch.softmax(logits, 0), top_p) > 0
        p = torch.softmax((logits / temperature).masked_fill(~kept, -torch.inf), 0)
        return int(torch.multinomial(p, 1, generator=generator))

    return _write(next_logits, prompt, end, max_len, choose)


def sample__wrong_sorted_places(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The place in the sorted list is taken for the id."""

    def choose(logits):
        if temperature == 0:
            return int(logits.argmax())
        p = _kept(torch.softmax(logits / temperature, 0), top_p).sort(descending=True).values
        return int(torch.multinomial(p, 1, generator=generator))

    return _write(next_logits, prompt, end, max_len, choose)


def sample__wrong_shortened_list(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Draws from the kept ones alone, in order of probability."""

    def choose(logits):
        if temperature == 0:
            return int(logits.argmax())
        values, ids = _kept(torch.softmax(logits / temperature, 0), top_p).sort(descending=True)
        values = values[values > 0]
        return int(ids[int(torch.multinomial(values, 1, generator=generator))])

    return _write(next_logits, prompt, end, max_len, choose)


def sample__wrong_greedy(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The likeliest at any temperature."""
    return _write(next_logits, prompt, end, max_len, lambda logits: int(logits.argmax()))


def sample__wrong_own_seed(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """A generator of its own."""
    generator = torch.Generator().manual_seed(0)
    return _write(next_logits, prompt, end, max_len, _chooser(temperature, top_p, generator))


def sample__wrong_global_generator(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """No generator is handed to multinomial."""
    return _write(next_logits, prompt, end, max_len, _chooser(temperature, top_p, None))


def sample__wrong_stops_in_prompt(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """An end in the prompt stops it."""
    if end in prompt:
        return list(prompt)
    return _write(next_logits, prompt, end, max_len, _chooser(temperature, top_p, generator))


def sample__wrong_never_stops(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Writes until the room is full."""
    choose = _chooser(temperature, top_p, generator)
    return _write(next_logits, prompt, end, max_len, choose, stop=lambda tokens: False)


def sample__wrong_new_tokens_only(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The prompt is not in the result."""
    return _write(next_logits, prompt, end, max_len, _chooser(temperature, top_p, generator))[len(prompt) :]


def sample__wrong_max_new_tokens(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """max_len counts the new tokens alone."""
    choose = _chooser(temperature, top_p, generator)
    return _write(next_logits, prompt, end, max_len + len(prompt), choose)


def sample__wrong_last_token_shown(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """The model sees one token."""
    choose = _chooser(temperature, top_p, generator)
    return _write(next_logits, prompt, end, max_len, choose, show=lambda tokens: tokens[-1:])


def sample__wrong_draw_too_many(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Ten draws for each token, of which the first is taken."""

    def choose(logits):
        if temperature == 0:
            return int(logits.argmax())
        p = _kept(torch.softmax(logits / temperature, 0), top_p)
        return int(torch.multinomial(p, 10, replacement=True, generator=generator)[0])

    return _write(next_logits, prompt, end, max_len, choose)


def sample__wrong_divides_by_zero(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Temperature 0 divides by 0."""

    def choose(logits):
        p = _kept(torch.softmax(logits / torch.tensor(float(temperature)), 0), top_p)
        return int(torch.multinomial(p, 1, generator=generator))

    return _write(next_logits, prompt, end, max_len, choose)
