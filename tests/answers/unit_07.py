"""Right and wrong answers to unit 07_transformer_block, written from the contracts of the functions alone, to test
the judge with."""

import functools
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


def layer_norm__wrong_eps_ignored(x, gamma, beta, eps=1e-5):
    """Always 1e-5, whatever eps is handed in."""
    return _ln(x, gamma, beta)


def layer_norm__wrong_default_eps(x, gamma, beta, eps=1e-12):
    """A default of 1e-12."""
    return _ln(x, gamma, beta, eps)


def layer_norm__wrong_one_pass_variance(x, gamma, beta, eps=1e-5):
    """E[x^2] - E[x]^2: cancels at large values (even NaN)."""
    mu = x.mean(-1, keepdim=True)
    return (x - mu) / torch.sqrt(x.pow(2).mean(-1, keepdim=True) - mu.pow(2) + eps) * gamma + beta


def layer_norm__wrong_in_place(x, gamma, beta, eps=1e-5):
    """Centres the input itself."""
    x.data -= x.data.mean(-1, keepdim=True)
    return _ln(x, gamma, beta, eps)


def layer_norm__wrong_detach(x, gamma, beta, eps=1e-5):
    """No gradient at all."""
    return _ln(x, gamma, beta, eps).detach()


def layer_norm__wrong_float64(x, gamma, beta, eps=1e-5):
    """Always float64."""
    return _ln(x.double(), gamma, beta, eps)


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


def _norm_over(x, gamma, beta, eps, axes, correction=0):
    """A norm over any axes."""
    var = x.var(dim=axes, keepdim=True, correction=correction)
    return (x - x.mean(dim=axes, keepdim=True)) / torch.sqrt(var + eps) * gamma + beta


def batch_norm__right_flattened(x, gamma, beta, eps=1e-5):
    """All tokens of the batch as one long list of rows."""
    rows = x.flatten(0, 1)
    var, mu = torch.var_mean(rows, dim=0, correction=0)
    return ((rows - mu) * torch.rsqrt(var + eps) * gamma + beta).view(x.shape)


def batch_norm__right_feature_loop(x, gamma, beta, eps=1e-5):
    """A loop over the features, stacked; prints."""
    columns = []
    for k in range(x.shape[-1]):
        c = x[:, :, k]
        c = c - c.mean()
        columns.append(c / torch.sqrt((c * c).mean() + eps) * gamma[k] + beta[k])
    print(len(columns), "features")
    return torch.stack(columns, dim=-1)


def batch_norm__right_ones_matrix(x, gamma, beta, eps=1e-5):
    """Means as products with a row of 1/(B*n); a non-contiguous result."""
    B, n, d = x.shape
    rows = x.permute(2, 1, 0).reshape(d, n * B)
    average = rows.new_full((n * B, 1), 1 / (n * B))
    rows = rows - rows @ average
    rows = rows / torch.sqrt(rows**2 @ average + eps)
    return torch.addcmul(beta, rows.reshape(d, n, B).permute(2, 1, 0), gamma)


def batch_norm__wrong_eps_missing(x, gamma, beta, eps=1e-5):
    """No eps: NaN for a constant feature."""
    return _norm_over(x, gamma, beta, 0.0, (0, 1))


def batch_norm__wrong_eps_ignored(x, gamma, beta, eps=1e-5):
    """Always 1e-5."""
    return _bn(x, gamma, beta)


def batch_norm__wrong_default_eps(x, gamma, beta, eps=1e-3):
    """A default of 1e-3."""
    return _bn(x, gamma, beta, eps)


def batch_norm__wrong_one_pass_variance(x, gamma, beta, eps=1e-5):
    """E[x^2] - E[x]^2: cancels at large values (even NaN)."""
    mu = x.mean(dim=(0, 1))
    return (x - mu) / torch.sqrt(x.square().mean(dim=(0, 1)) - mu**2 + eps) * gamma + beta


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


def batch_norm__wrong_float64(x, gamma, beta, eps=1e-5):
    """Always float64."""
    return _bn(x.double(), gamma.double(), beta.double(), eps)


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


def gelu__right_relu_minus_tail(x):
    """ReLU less the tail of |x|; at exactly 0 its slope comes out as 0, not as a half."""
    return torch.relu(x) - x.abs() * torch.erfc(x.abs() / math.sqrt(2)) / 2


def gelu__wrong_tanh(x):
    """The tanh approximation."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu__wrong_clipped(x):
    """Exactly zero for x < -2, x itself for x > 2 ("saturated there")."""
    return torch.where(x < -2, 0.0, torch.where(x > 2, x, _gelu(x)))


def gelu__wrong_detached_gate(x):
    """The gate as a constant: a wrong gradient."""
    return x * torch.special.ndtr(x).detach()


def gelu__wrong_detach(x):
    """No gradient."""
    return _gelu(x.detach())


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


def feed_forward__right_linear(x, W_1, b_1, W_2, b_2, activation):
    """F.linear with transposed weights."""
    hidden = torch.nn.functional.linear(x, W_1.T, b_1)
    return torch.nn.functional.linear(activation(hidden), W_2.T, b_2)


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


def feed_forward__wrong_activation_doubled(x, W_1, b_1, W_2, b_2, activation):
    """The activation applied twice in the middle."""
    return activation(activation(x @ W_1 + b_1)) @ W_2 + b_2


def feed_forward__wrong_three_axes(x, W_1, b_1, W_2, b_2, activation):
    """Unpacks (B, n, d): fails for a matrix or a vector."""
    B, _n, _d = x.shape
    return activation(torch.bmm(x, W_1.expand(B, -1, -1)) + b_1) @ W_2 + b_2


def feed_forward__wrong_batch_one(x, W_1, b_1, W_2, b_2, activation):
    """Only the first sequence."""
    return activation(x[:1] @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_squeeze(x, W_1, b_1, W_2, b_2, activation):
    """squeeze() drops axes of length 1."""
    return (activation(x @ W_1 + b_1) @ W_2 + b_2).squeeze()


def feed_forward__wrong_in_place(x, W_1, b_1, W_2, b_2, activation):
    """Raises b_1 itself a little, "to keep the units alive"."""
    b_1.data.add_(0.01)
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_detached_hidden(x, W_1, b_1, W_2, b_2, activation):
    """No gradient to the first layer."""
    return activation(x @ W_1 + b_1).detach() @ W_2 + b_2


def feed_forward__wrong_no_grad(x, W_1, b_1, W_2, b_2, activation):
    """Under no_grad."""
    with torch.no_grad():
        return activation(x @ W_1 + b_1) @ W_2 + b_2


def feed_forward__wrong_float64(x, W_1, b_1, W_2, b_2, activation):
    """Always float64."""
    x, W_1, b_1, W_2, b_2 = (T.double() for T in (x, W_1, b_1, W_2, b_2))
    return activation(x @ W_1 + b_1) @ W_2 + b_2


def post_norm_block__right_plain(X, params, n_heads, mask=None):
    """The plain one: add then norm, twice."""
    p = params
    A = multi_head_attention(X, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    X = _ln(X + A, p["gamma_1"], p["beta_1"])
    F = _gelu(X @ p["W_1"] + p["b_1"]) @ p["W_2"] + p["b_2"]
    return _ln(X + F, p["gamma_2"], p["beta_2"])


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


def post_norm_block__wrong_minus_infinity(X, params, n_heads, mask=None):
    """The attention written out, with -inf where nothing may be attended to."""
    p, (B, n, _) = params, X.shape
    Q, K, V = ((X @ p[k]).unflatten(-1, (n_heads, -1)).transpose(1, 2) for k in ("W_Q", "W_K", "W_V"))
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, -math.inf)
    X = _n1(X + (torch.softmax(S, -1) @ V).transpose(1, 2).reshape(B, n, -1) @ p["W_O"] + p["b_O"], p)
    return _n2(X + _ffn(X, p), p)


def post_norm_block__wrong_tanh_gelu(X, params, n_heads, mask=None):
    """The tanh approximation of GELU."""
    X = _n1(X + _att(X, params, n_heads, mask), params)
    return _n2(X + _ffn(X, params, gelu__wrong_tanh), params)


def post_norm_block__wrong_mask_ignored(X, params, n_heads, mask=None):
    """Forgets the mask."""
    return _post(X, params, n_heads)


def post_norm_block__wrong_always_causal(X, params, n_heads, mask=None):
    """Adds a causal mask of its own."""
    low = _causal(X.shape[1])
    return _post(X, params, n_heads, low if mask is None else mask & low)


def post_norm_block__wrong_pops_params(X, params, n_heads, mask=None):
    """Takes b_O out of the dict (pop): the caller's params are changed."""
    b_O = params.pop("b_O")
    return _post(X, {**params, "b_O": b_O}, n_heads, mask)


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


def pre_norm_block__right_cloned_in_place(X, params, n_heads, mask=None):
    """In-place additions on a copy of the input."""
    out = X.clone()
    out += _att(layer_norm__right_plain(X, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    return out.add(_ffn(_n2(out, params), params))


def pre_norm_block__wrong_first_norm_missing(X, params, n_heads, mask=None):
    """The attention reads the stream without norm."""
    X = X + _att(X, params, n_heads, mask)
    return X + _ffn(_n2(X, params), params)


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


def transformer_logits__wrong_not_causal(tokens, params, n_heads):
    """No causal mask."""
    return _model(tokens, params, n_heads, causal=lambda n: None)


def transformer_logits__wrong_first_block_only_causal(tokens, params, n_heads):
    """Only the first block is causal."""
    n = tokens.shape[1]
    x, mask = params["W_E"][tokens] + params["W_pos"][:n], _causal(n)
    for block in params["blocks"]:
        x, mask = _pre(x, block, n_heads, mask), None
    return _ln(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_positions_in_every_block(tokens, params, n_heads):
    """Adds the positions before every block."""
    n, x = tokens.shape[1], params["W_E"][tokens]
    for block in params["blocks"]:
        x = _pre(x + params["W_pos"][:n], block, n_heads, _causal(n))
    return _ln(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_norm_per_block(tokens, params, n_heads):
    """The final norm after every block."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    for block in params["blocks"]:
        x = _ln(_pre(x, block, n_heads, _causal(n)), params["gamma_f"], params["beta_f"])
    return x @ params["W_U"]


def transformer_logits__wrong_first_block_only(tokens, params, n_heads):
    """Only the first block."""
    return _model(tokens, {**params, "blocks": params["blocks"][:1]}, n_heads)


def transformer_logits__wrong_pops_blocks(tokens, params, n_heads):
    """Pops the blocks off the caller's list."""
    n = tokens.shape[1]
    x = params["W_E"][tokens] + params["W_pos"][:n]
    while params["blocks"]:
        x = _pre(x, params["blocks"].pop(0), n_heads, _causal(n))
    return _ln(x, params["gamma_f"], params["beta_f"]) @ params["W_U"]


def transformer_logits__wrong_detach(tokens, params, n_heads):
    """The stream is detached before the unembedding."""
    p = params
    eye = torch.eye(p["W_E"].shape[1], dtype=p["W_E"].dtype)
    return _model(tokens, {**p, "W_U": eye}, n_heads).detach() @ p["W_U"]


def transformer_logits__wrong_float64(tokens, params, n_heads):
    """Always float64."""
    return _model(tokens, _cast(params, torch.float64), n_heads)


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


def adamw_step__wrong_adam_l2(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Adam with the decay in the gradient."""
    return adamw_step__right_formula(w, grad + weight_decay * w, m, v, step, lr, beta1, beta2, eps, 0.0)


def adamw_step__wrong_eps_inside(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """eps under the root."""
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * (m_hat / (v_hat + eps).sqrt() + weight_decay * w), m, v


def adamw_step__wrong_decay_after(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """The weights that have moved decay."""
    w, m, v = adamw_step__right_formula(w, grad, m, v, step, lr, beta1, beta2, eps, 0.0)
    return w - lr * weight_decay * w, m, v


def adamw_step__wrong_step_from_zero(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Counts the steps from 0."""
    m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    m_hat, v_hat = m / (1 - beta1 ** (step + 1)), v / (1 - beta2 ** (step + 1))
    return w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w), m, v


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


def adamw_step__wrong_moments_in_place(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Wrong: the numbers are right but the caller's m and v are overwritten."""
    m.mul_(beta1).add_(grad, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w), m, v


# ---------------------------------------------------------------- sample
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
