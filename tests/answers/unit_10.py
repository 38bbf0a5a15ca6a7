"""Right and wrong answers to unit 10_attention_today, to test the judge with. Their author also wrote the known mistakes."""

import math
import torch
import torch.nn.functional as F


def _angles(positions, d, base):
    """(n, d/2) in float64."""
    return torch.outer(positions.double(), base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d))


def _turn(x, angles):
    """Halves, by sines and cosines."""
    one, two = x.chunk(2, dim=-1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)


def _rope(x, positions, base=10000.0):
    return _turn(x, _angles(positions, x.shape[-1], base))


def _rms(x, gamma, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gamma


def _gated(x, W_gate, W_up, W_down):
    return (F.silu(x @ W_gate) * (x @ W_up)) @ W_down


def _split(X, n_heads):
    return X.unflatten(-1, (n_heads, X.shape[-1] // n_heads)).transpose(1, 2)


def _merge(X):
    return X.transpose(1, 2).flatten(2)


def rotate__right_float32_angles(x, positions, base=10000.0):
    """The usual code: frequencies in float32, cos and sin laid out twice, rotate_half."""
    d = x.shape[-1]
    inverse = 1.0 / (base ** (torch.arange(0, d, 2).float() / d))
    angles = positions.float()[:, None] * inverse[None]
    angles = torch.cat([angles, angles], dim=-1)
    half = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1)
    return x * angles.cos().to(x.dtype) + half * angles.sin().to(x.dtype)


def rotate__right_exponentials(x, positions, base=10000.0):
    """Frequencies by exp and log; a last axis of two, turned by a 2 × 2 matrix."""
    d = x.shape[-1]
    frequency = torch.exp(-math.log(base) * 2 * torch.arange(d // 2, dtype=torch.float64) / d)
    theta = positions[:, None] * frequency
    pairs = torch.stack([x[..., : d // 2], x[..., d // 2 :]], dim=-1)
    M = torch.stack([torch.stack([theta.cos(), -theta.sin()], -1), torch.stack([theta.sin(), theta.cos()], -1)], -2)
    out = (M.to(x.dtype) @ pairs.unsqueeze(-1)).squeeze(-1)
    return torch.cat([out[..., 0], out[..., 1]], dim=-1)


def rotate__wrong_from_first_position(x, positions, base=10000.0):
    """Counts on from the first position."""
    return _rope(x, positions[0] + torch.arange(x.shape[-2]), base)


def rotate__wrong_default_base(x, positions, base=10000.0):
    """10000 written into the formula."""
    return _rope(x, positions)


def sliding_window_mask__right_last_rows(n_new, n_total, window):
    """The whole square, of which the last rows are taken."""
    whole = torch.ones(n_total, n_total).tril() - torch.ones(n_total, n_total).tril(-window)
    return (whole > 0)[n_total - n_new :]


def _scores(Q, K, mask):
    S = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
    return S if mask is None else S.masked_fill(~mask, -torch.inf)


def sink_attention__right_concatenated(Q, K, V, sink, mask=None):
    """One more column, dropped behind the softmax."""
    S = _scores(Q, K, mask)
    column = sink.view(1, -1, 1, 1).expand(S.shape[0], -1, S.shape[2], 1)
    return torch.softmax(torch.cat([S, column], dim=-1), dim=-1)[..., :-1] @ V


def sink_attention__right_gate(Q, K, V, sink, mask=None):
    """A plain softmax, times a sigmoid of how far the row's logsumexp lies above the sink."""
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        S = S.masked_fill(~mask, torch.finfo(S.dtype).min / 2)
    share = torch.sigmoid(torch.logsumexp(S, -1, keepdim=True) - sink.reshape(-1, 1, 1))
    return share * (torch.softmax(S, dim=-1) @ V)


def sink_attention__wrong_divided(Q, K, V, sink, mask=None):
    """The sink is scaled like the scores."""
    return sink_attention__right_concatenated(Q, K, V, sink / math.sqrt(Q.shape[-1]), mask)


def rms_norm__right_einsum(x, gamma, eps=1e-6):
    """einsum for the sum of squares, in float64 and back."""
    wide = x.double()
    mean = torch.einsum("...d,...d->...", wide, wide) / x.size(-1)
    return (gamma * (wide / (mean + eps).sqrt().unsqueeze(-1))).to(x.dtype)


def rms_norm__right_variance_and_mean(x, gamma, eps=1e-6):
    """Variance plus squared mean is the mean square."""
    var, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return x * (var + mean**2 + eps) ** -0.5 * gamma


def rms_norm__wrong_eps_outside(x, gamma, eps=1e-6):
    """eps beside the root."""
    return gamma * x / (x.square().mean(-1, keepdim=True).sqrt() + eps)


def rms_norm__wrong_fixed_eps(x, gamma, eps=1e-6):
    """1e-6 in the formula."""
    return _rms(x, gamma)


def swiglu__right_one_product(x, W_gate, W_up, W_down):
    """Gate and up in one wide matrix, cut in two."""
    gate, up = (x @ torch.cat([W_gate, W_up], dim=1)).chunk(2, dim=-1)
    return F.linear(F.silu(gate) * up, W_down.t())


def swiglu__right_tanh(x, W_gate, W_up, W_down):
    """sigmoid(z) = (1 + tanh(z/2)) / 2; up first."""
    up, gate = x @ W_up, x @ W_gate
    return torch.matmul(up * gate * (1 + torch.tanh(gate / 2)) / 2, W_down)


def _attention(z, p, h, g, positions, window, norm=_rms, turn=_rope, mask=None, share=None, prepare=None):
    """Causal grouped attention with exchangeable parts."""
    Q, K, V = _split(z @ p["W_Q"], h), _split(z @ p["W_K"], g), _split(z @ p["W_V"], g)
    if prepare is None:
        Q, K = turn(norm(Q, p["gamma_q"]), positions), turn(norm(K, p["gamma_k"]), positions)
    else:
        Q, K, V = prepare(Q, K, V)
    share = share or (lambda T: T.repeat_interleave(h // g, dim=1))
    i = torch.arange(z.shape[1])
    distance = i[:, None] - i if mask is None else mask
    seen = (distance >= 0) & (distance < (window or 10**9))
    S = (Q @ share(K).mT / Q.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf)
    return _merge(torch.softmax(S, dim=-1) @ share(V)) @ p["W_O"]


def _two_steps(x, p, attended, norm=_rms):
    y = x + attended(norm(x, p["gamma_1"]))
    return y + _gated(norm(y, p["gamma_2"]), p["W_gate"], p["W_up"], p["W_down"])


def modern_block__right_plain(x, params, n_heads, n_kv_heads, positions, window=None):
    """Function by function."""
    return _two_steps(x, params, lambda z: _attention(z, params, n_heads, n_kv_heads, positions, window))


def modern_block__right_grouped_axes(x, params, n_heads, n_kv_heads, positions, window=None):
    """Five axes and einsum, no copies; angles in float32; a bias in place of a mask."""
    B, n, _ = x.shape
    r = n_heads // n_kv_heads
    z = _rms(x, params["gamma_1"])
    Q = (z @ params["W_Q"]).view(B, n, n_kv_heads, r, -1).permute(0, 2, 3, 1, 4)
    K = (z @ params["W_K"]).view(B, n, n_kv_heads, -1).transpose(1, 2)
    V = (z @ params["W_V"]).view(B, n, n_kv_heads, -1).transpose(1, 2)
    Q = rotate__right_float32_angles(_rms(Q, params["gamma_q"]), positions)
    K = rotate__right_float32_angles(_rms(K, params["gamma_k"]), positions)
    S = torch.einsum("bgrid,bgjd->bgrij", Q, K) * Q.shape[-1] ** -0.5
    bias = torch.full((n, n), -torch.inf, dtype=x.dtype).triu(1)
    if window is not None:
        bias = bias + torch.full((n, n), -torch.inf, dtype=x.dtype).tril(-window)
    heads = torch.einsum("bgrij,bgjd->bigrd", (S + bias).softmax(-1), V)
    y = x + heads.flatten(2) @ params["W_O"]
    return y + swiglu__right_one_product(_rms(y, params["gamma_2"]), params["W_gate"], params["W_up"], params["W_down"])


def modern_block__wrong_window_unused(x, params, n_heads, n_kv_heads, positions, window=None):
    """No window."""
    return _two_steps(x, params, lambda z: _attention(z, params, n_heads, n_kv_heads, positions, None))


def modern_block__wrong_heads_in_turn(x, params, n_heads, n_kv_heads, positions, window=None):
    """repeat in place of repeat_interleave."""
    r = n_heads // n_kv_heads
    attended = lambda z: _attention(  # noqa: E731
        z, params, n_heads, n_kv_heads, positions, window, share=lambda T: T.repeat(1, r, 1, 1)
    )
    return _two_steps(x, params, attended)


def _parts(params, h):
    """W_UK, W_UV as (h, d_latent, d), W_O as (h, d_v, d_model)."""
    W_UK, W_UV = (params[name].unflatten(1, (h, -1)).transpose(0, 1) for name in ("W_UK", "W_UV"))
    return W_UK, W_UV, params["W_O"].unflatten(0, (h, -1))


def _absorbed(x, C, params, h, scale=None, seen=slice(None)):
    W_UK, W_UV, _ = _parts(params, h)
    q = _split(x @ params["W_Q"], h)
    absorbed = q @ W_UK.mT  # (B, h, 1, d_latent)
    L = C[:, None, seen]
    weights = torch.softmax(absorbed @ L.mT * (q.shape[-1] ** -0.5 if scale is None else scale), dim=-1)
    return _merge(weights @ L @ W_UV) @ params["W_O"]


def latent_step__right_weights_merged(x, cache, params, n_heads):
    """W_Q W_UK and W_UV W_O are multiplied beforehand, head by head."""
    C = torch.cat((cache, x @ params["W_DKV"]), 1)
    W_UK, W_UV, W_O = _parts(params, n_heads)
    W_Q = params["W_Q"].unflatten(1, (n_heads, -1)).transpose(0, 1)
    into, back = W_Q @ W_UK.mT, W_UV @ W_O
    scores = (x[:, None] @ into) @ C[:, None].mT / math.sqrt(W_Q.shape[-1])
    return (torch.softmax(scores, -1) @ C[:, None] @ back).sum(1), C


def latent_step__wrong_root_of_latent(x, cache, params, n_heads):
    """Divides by the root of the absorbed query's width."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    return _absorbed(x, C, params, n_heads, scale=C.shape[-1] ** -0.5), C


def _fold(Q, K, V, decay, state, step):
    """Token by token: step(S, q, k, v, a) -> (o, S)."""
    B, h, n, d_k = K.shape
    S = V.new_zeros(B, h, d_k, V.shape[-1]) if state is None else state
    a = torch.ones_like(K[..., 0]) if decay is None else decay
    out = []
    for t in range(n):
        o, S = step(S, Q[:, :, t, None], K[:, :, t, None], V[:, :, t, None], a[:, :, t, None, None])
        out.append(o)
    return torch.cat(out, dim=2), S


def linear_attention__right_loop(Q, K, V, decay=None, state=None):
    """The definition."""

    def step(S, q, k, v, a):
        S = a * S + k.mT @ v
        return q @ S, S

    return _fold(Q, K, V, decay, state, step)


def linear_attention__right_parallel(Q, K, V, decay=None, state=None):
    """All tokens at once: a lower triangle of products of decays."""
    logs = torch.zeros_like(K[..., 0]) if decay is None else decay.log()
    total = logs.cumsum(-1)
    D = torch.exp((total[..., :, None] - total[..., None, :]).tril()).tril()
    out, S = (Q @ K.mT * D) @ V, (K * D[..., -1, :, None]).mT @ V
    if state is None:
        return out, S
    faded = total.exp()[..., None]
    return out + faded * (Q @ state), S + faded[..., -1:, :] * state


def linear_attention__right_recursion(Q, K, V, decay=None, state=None):
    """The text in two halves, by recursion."""
    n = K.shape[2]
    if n == 1:
        return linear_attention__right_loop(Q, K, V, decay, state)
    halves = [slice(n // 2), slice(n // 2, n)]
    out = []
    for part in halves:
        a = None if decay is None else decay[..., part]
        o, state = linear_attention__right_recursion(*(T[:, :, part] for T in (Q, K, V)), a, state)
        out.append(o)
    return torch.cat(out, 2), state


def linear_attention__wrong_writes_into_state(Q, K, V, decay=None, state=None):
    """Adds in place to the state that came in."""
    out, S = linear_attention__right_loop(Q, K, V, decay, state)
    if state is not None:
        with torch.no_grad():
            state.copy_(S)
    return out, S


def _system(K, beta, diagonal=-1):
    """I + tril(beta K K^T, -1)."""
    return torch.eye(K.shape[2], dtype=K.dtype) + (beta[..., None] * (K @ K.mT)).tril(diagonal)


def _zero(K, V, state):
    return V.new_zeros(*K.shape[:2], K.shape[-1], V.shape[-1]) if state is None else state


def delta_rule__right_triangular(Q, K, V, beta, state=None):
    """solve_triangular."""
    S = _zero(K, V, state)
    right = beta.unsqueeze(-1) * (V - K @ S)
    U = torch.linalg.solve_triangular(_system(K, beta), right, upper=False)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__right_inverse(Q, K, V, beta, state=None):
    """The inverse, unitriangular; W and U apart, as in the papers; float64."""
    dtype = V.dtype
    Q, K, V, beta = (T.to(torch.float64) for T in (Q, K, V, beta))
    T = torch.linalg.inv(_system(K, beta)) * beta[..., None, :]
    W, U = T @ K, T @ V
    if state is None:
        out, S = (Q @ K.mT).tril() @ U, K.mT @ U
    else:
        S0 = state.double()
        U = U - W @ S0
        out, S = Q @ S0 + (Q @ K.mT).tril() @ U, S0 + K.mT @ U
    return out.to(dtype), S.to(dtype)


def delta_rule__right_unscaled_rows(Q, K, V, beta, state=None):
    """The system divided by beta, with beta = 0 left out of it by a floor; solve on flattened batches."""
    B, h, n, _ = K.shape
    S = _zero(K, V, state)
    left = torch.eye(n, dtype=K.dtype) + torch.tril(torch.einsum("bhi,bhik,bhjk->bhij", beta, K, K), -1)
    right = (V - torch.matmul(K, S)).mul(beta[..., None])
    U = torch.linalg.solve(left.flatten(0, 1), right.flatten(0, 1)).view(B, h, n, -1)
    seen = torch.ones(n, n, dtype=torch.bool).tril()
    return Q @ S + torch.where(seen, Q @ K.mT, 0.0) @ U, S + torch.einsum("bhnk,bhnv->bhkv", K, U)


def select_keys__right_topk(q_index, k_index, k):
    """The usual code: a causal mask, topk, scatter, and the mask once more for rows that see fewer than k."""
    n, m = q_index.shape[1], k_index.shape[1]
    seen = torch.ones(n, m, dtype=torch.bool, device=q_index.device).tril(diagonal=m - n)
    scores = (q_index @ k_index.mT).masked_fill(~seen, float("-inf"))
    chosen = torch.zeros_like(scores, dtype=torch.bool)
    chosen.scatter_(-1, scores.topk(min(k, m), dim=-1).indices, True)
    return chosen & seen


def select_keys__right_two_sorts(q_index, k_index, k):
    """Ranks by sorting twice, hidden keys last."""
    n, m = q_index.shape[1], k_index.shape[1]
    later = torch.ones(n, m).triu(m - n + 1).bool()
    scores = torch.baddbmm(torch.zeros(1, dtype=q_index.dtype), q_index, k_index.transpose(1, 2))
    ranks = scores.masked_fill(later, -math.inf).argsort(-1, descending=True).argsort(-1)
    return (ranks < k).logical_and(~later)


def select_keys__right_threshold(q_index, k_index, k):
    """All that reach the k-th score in sight; -inf reaches nothing."""
    n, m = q_index.shape[1], k_index.shape[1]
    seen = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    scores = (q_index @ k_index.mT).masked_fill(~seen, -math.inf)
    least = scores.sort(-1, descending=True).values[..., min(k, m) - 1 : min(k, m)]
    return (scores >= least) & scores.isfinite()


def select_keys__wrong_k_unbounded(q_index, k_index, k):
    """topk with a k that may exceed the number of keys."""
    n, m = q_index.shape[1], k_index.shape[1]
    seen = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    scores = (q_index @ k_index.mT).masked_fill(~seen, -math.inf)
    return torch.zeros_like(scores).scatter(-1, scores.topk(k, -1).indices, 1.0).bool() & seen


def select_keys__wrong_indices(q_index, k_index, k):
    """Which columns, and not a table of booleans."""
    n, m = q_index.shape[1], k_index.shape[1]
    seen = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    return (q_index @ k_index.mT).masked_fill(~seen, -math.inf).topk(min(k, m), -1).indices


def select_keys__wrong_past_only(q_index, k_index, k):
    """The own token is not in sight."""
    n, m = q_index.shape[1], k_index.shape[1]
    seen = torch.ones(n, m, dtype=torch.bool).tril(m - n - 1)
    scores = (q_index @ k_index.mT).masked_fill(~seen, -math.inf)
    return torch.zeros_like(scores).scatter(-1, scores.topk(min(k, m), -1).indices, 1.0).bool() & seen


def select_keys__wrong_always_k(q_index, k_index, k):
    """Where fewer than k are in sight, topk fills up with later ones."""
    n, m = q_index.shape[1], k_index.shape[1]
    scores = (q_index @ k_index.mT).masked_fill(torch.ones(n, m).triu(m - n + 1).bool(), -math.inf)
    best = scores.topk(min(k, m), dim=-1).indices
    return torch.zeros_like(scores).scatter(-1, best, 1.0).bool()


def latent_step__wrong_explicit(x, cache, params, n_heads):
    """Keys and values are made: right numbers."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    Q, K, V = (_split(T, n_heads) for T in (x @ params["W_Q"], C @ params["W_UK"], C @ params["W_UV"]))
    return _merge(torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, -1) @ V) @ params["W_O"], C


def latent_step__wrong_unscaled(x, cache, params, n_heads):
    """No scale."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    return _absorbed(x, C, params, n_heads, scale=1.0), C


def latent_step__wrong_old_cache_read(x, cache, params, n_heads):
    """Attends before the cache is extended."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    return _absorbed(x, C, params, n_heads, seen=slice(C.shape[1] - 1)), C


def latent_step__wrong_heads_interleaved(x, cache, params, n_heads):
    """Columns of the up-projections in turn."""
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    mixed = dict(params)
    for name in ("W_UK", "W_UV"):
        mixed[name] = params[name].unflatten(1, (-1, n_heads)).transpose(1, 2).flatten(1)
    return _absorbed(x, C, mixed, n_heads), C


def delta_rule__wrong_loop(Q, K, V, beta, state=None):
    """Token by token: right numbers."""
    return _delta_loop(Q, K, V, beta, state, lambda S, k, v, b: S + b * k.mT @ (v - k @ S))


def _delta_loop(Q, K, V, beta, state, change):
    S, out = _zero(K, V, state), []
    for t in range(K.shape[2]):
        q, k, v, b = Q[:, :, t, None], K[:, :, t, None], V[:, :, t, None], beta[:, :, t, None, None]
        S = change(S, k, v, b)
        out.append(q @ S)
    return torch.cat(out, dim=2), S


def delta_rule__wrong_first_state_for_all(Q, K, V, beta, state=None):
    """Corrections against the first state alone."""
    S = _zero(K, V, state)
    U = beta[..., None] * (V - K @ S)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_beta_on_columns(Q, K, V, beta, state=None):
    """beta broadcasts along the rows."""
    S = _zero(K, V, state)
    left = torch.eye(K.shape[2], dtype=K.dtype) + (beta[..., None, :] * (K @ K.mT)).tril(-1)
    U = torch.linalg.solve_triangular(left, beta[..., None] * (V - K @ S), upper=False)
    return Q @ S + (Q @ K.mT).tril() @ U, S + K.mT @ U


def delta_rule__wrong_beta_ignored(Q, K, V, beta, state=None):
    """A rate of 1."""
    return delta_rule__right_triangular(Q, K, V, torch.ones_like(beta), state)


def delta_rule__wrong_state_ignored(Q, K, V, beta, state=None):
    """Starts from zeros."""
    return delta_rule__right_triangular(Q, K, V, beta)
