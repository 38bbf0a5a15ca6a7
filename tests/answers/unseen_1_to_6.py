"""Right and wrong answers to the challenges of units 1 to 6, written from their contracts alone: nothing was added to the judge for them."""  # noqa: E501

import math

import numpy as np
import torch
import torch.nn.functional as F


# ---------------------------------------------------------------- unit 1: pointing_weights
def _circle(n):
    angle = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def pointing_weights__wrong_endpoint_twice(X, target):
    """linspace includes 2*pi: the first and the last key share one place on the circle."""
    n = X.shape[0]
    angle = np.linspace(0, 2 * np.pi, n)
    places = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    inverse = np.linalg.pinv(X)
    return inverse @ (300 * places[target]), inverse @ places


def pointing_weights__wrong_transpose_for_inverse(X, target):
    """Uses X.T where the pseudo-inverse is needed: right only for orthonormal rows."""
    places = _circle(X.shape[0])
    return X.T @ (300 * places[target]), X.T @ places


def pointing_weights__wrong_scatter(X, target):
    """Query of token target[i] gets the place of token i: the inverse map, and repeats are lost."""
    n = X.shape[0]
    places = _circle(n)
    queries = np.zeros((n, 2))
    queries[target] = 300 * places
    inverse = np.linalg.pinv(X)
    return inverse @ queries, inverse @ places


def pointing_weights__wrong_grid(X, target):
    """Keys on a 4 x 4 grid: distinct, but an inner point never has the largest dot product."""
    n = X.shape[0]
    places = np.stack([np.arange(n) % 4, np.arange(n) // 4], axis=1) - 1.5
    inverse = np.linalg.pinv(X)
    return inverse @ (50.0 * places[target]), inverse @ places


def pointing_weights__wrong_sharp_for_few_tokens(X, target):
    """The sharpness was tuned on four tokens: too blurred on a circle of sixteen."""
    places = _circle(X.shape[0])
    inverse = np.linalg.pinv(X)
    return inverse @ (10 * places[target]), inverse @ places


def pointing_weights__wrong_keys_point(X, target):
    """The roles are exchanged: the target's place goes into the keys, the own place into the queries."""
    places = _circle(X.shape[0])
    inverse = np.linalg.pinv(X)
    return inverse @ (300 * places), inverse @ places[target]


def pointing_weights__right_parabola(X, target):
    """Keys (j, -j^2) on a parabola, queries (2t, 1): score t^2 - (j - t)^2 up to a factor; no circle."""
    j = np.arange(X.shape[0], dtype=float)
    keys = np.stack([j, -(j**2)], axis=1)
    queries = 8.0 * np.stack([2 * j[target], np.ones(len(j))], axis=1)
    inverse = np.linalg.pinv(X)
    return inverse @ queries, inverse @ keys


def pointing_weights__right_half_circle_lstsq(X, target):
    """Half a circle is enough; least-norm lstsq; queries tiny and keys huge; Fortran-ordered results."""
    n = X.shape[0]
    angle = np.pi * np.arange(n) / n
    places = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    both = np.linalg.lstsq(X, np.hstack([1e-3 * places[target], 6e5 * places]), rcond=None)[0]
    return both[:, :2], both[:, 2:]


def pointing_weights__right_gram_shifted(X, target):
    """Solves with the Gram matrix in a loop; all keys shifted by one vector, which the softmax cannot see."""
    n = X.shape[0]
    gram = X @ X.T
    W_Q = np.zeros((X.shape[1], 2))
    W_K = np.zeros((X.shape[1], 2))
    for i in range(n):
        unit = np.zeros(n)
        unit[i] = 1.0
        dual = X.T @ np.linalg.solve(gram, unit)
        at, to = 2 * np.pi * i / n + 0.3, 2 * np.pi * int(target[i]) / n + 0.3
        W_K += np.outer(dual, [math.cos(at) + 5.0, math.sin(at) - 3.0])
        W_Q += np.outer(dual, [400 * math.cos(to), 400 * math.sin(to)])
    return W_Q, W_K


def pointing_weights__right_qr_sheared(X, target):
    """QR of X.T; W_Q and W_K in two sheared bases (W_Q M, W_K M^-T), so that neither looks like a circle."""
    places = _circle(X.shape[0])
    q, r = np.linalg.qr(X.T)
    M = np.array([[2.0, 3.0], [0.5, -1.0]])
    queries, keys = 250 * places[target] @ M, places @ np.linalg.inv(M).T
    return q @ np.linalg.solve(r.T, queries), q @ np.linalg.solve(r.T, keys)


# ---------------------------------------------------------------- unit 1: linear_memory
def linear_memory__wrong_plain_sum(keys, values):
    """The plain sum of outer products: right only for orthonormal keys."""
    return keys.T @ values


def linear_memory__wrong_ridge(keys, values):
    """Adds 0.01 to the normal equations to make them solvable: recall is no longer exact."""
    d_k = keys.shape[1]
    return np.linalg.solve(keys.T @ keys + 1e-2 * np.eye(d_k), keys.T @ values)


def linear_memory__wrong_first_pairs_only(keys, values):
    """Stores the first d_k pairs exactly and drops the rest: not the least squares for n > d_k."""
    d_k = keys.shape[1]
    return np.linalg.pinv(keys[:d_k], rcond=1e-12) @ values[:d_k]


def linear_memory__wrong_one_pass_delta(keys, values):
    """The delta rule, once through the pairs: each new pair disturbs the earlier ones."""
    S = np.zeros((keys.shape[1], values.shape[1]))
    for k, v in zip(keys, values):
        S = S + np.outer(k, v - k @ S) / max(k @ k, 1e-12)
    return S


def linear_memory__wrong_keys_normalised(keys, values):
    """Stores under unit keys, although it is read with the keys as they are."""
    unit = keys / np.maximum(np.linalg.norm(keys, axis=1, keepdims=True), 1e-12)
    return np.linalg.pinv(unit, rcond=1e-12) @ values


def linear_memory__wrong_centred(keys, values):
    """Regression on centred keys and values: the intercept is then thrown away."""
    return np.linalg.pinv(keys - keys.mean(0), rcond=1e-12) @ (values - values.mean(0))


def linear_memory__right_lstsq_by_column(keys, values):
    """One lstsq per value column, stacked and returned as a transposed view."""
    return np.array([np.linalg.lstsq(keys, values[:, c], rcond=None)[0] for c in range(values.shape[1])]).T


def linear_memory__right_svd_rank_one(keys, values):
    """Sum over singular triples, skipping the numerically zero ones."""
    U, s, Vt = np.linalg.svd(keys, full_matrices=False)
    S = np.zeros((keys.shape[1], values.shape[1]))
    floor = s.max(initial=0.0) * max(keys.shape) * np.finfo(keys.dtype).eps * 4
    for r in range(len(s)):
        if s[r] > floor:
            S += np.outer(Vt[r], (U[:, r] @ values) / s[r])
    return S


def linear_memory__right_gram_eigh(keys, values):
    """Eigenvectors of the smaller Gram matrix (n x n or d_k x d_k), pseudo-inverted by hand, in float64."""
    K, V = keys.astype(np.float64), values.astype(np.float64)
    cut = max(1e-13, (max(K.shape) * np.finfo(keys.dtype).eps) ** 2)
    gram = K @ K.T if K.shape[0] <= K.shape[1] else K.T @ K
    w, E = np.linalg.eigh(gram)
    keep = w > cut * max(w[-1], 0.0)
    inverse = (E[:, keep] / w[keep]) @ E[:, keep].T
    return K.T @ (inverse @ V) if K.shape[0] <= K.shape[1] else inverse @ (K.T @ V)


def linear_memory__right_greville(keys, values):
    """Greville's recursion: the pseudo-inverse grows by one key at a time, no library solver."""
    K = keys.astype(np.float64)
    n, d_k = K.shape
    P = np.zeros((d_k, 0))
    small = 1e-9 if keys.dtype == np.float64 else 1e-5
    for i in range(n):
        k = K[i]
        d = k @ P
        c = k - d @ K[:i]
        c = c - (c @ P) @ K[:i]
        if c @ c > (small**2) * (k @ k):
            b = c / (c @ c)
        else:
            b = (P @ d) / (1.0 + d @ d)
        P = np.hstack([P - np.outer(b, d), b[:, None]])
    return P @ values


# ---------------------------------------------------------------- unit 2: attention_backward
def _np_weights(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention_backward__wrong_scale_missing_in_dK(Q, K, V, d_output):
    """The 1/sqrt(d_k) is applied to dQ and forgotten in dK."""
    s = np.sqrt(Q.shape[1])
    P = _np_weights(Q @ K.T / s)
    dP = d_output @ V.T
    dS = P * (dP - (P * dP).sum(1, keepdims=True))
    return dS @ K / s, dS.T @ Q, P.T @ d_output


def attention_backward__wrong_no_row_term(Q, K, V, d_output):
    """The softmax treated as elementwise: dS = P * dP, without the common term of the row."""
    s = np.sqrt(Q.shape[1])
    P = _np_weights(Q @ K.T / s)
    dS = P * (d_output @ V.T) / s
    return dS @ K, dS.T @ Q, P.T @ d_output


def attention_backward__wrong_sum_over_queries(Q, K, V, d_output):
    """The common term summed over the queries (axis 0), not over the keys."""
    s = np.sqrt(Q.shape[1])
    P = _np_weights(Q @ K.T / s)
    dP = d_output @ V.T
    dS = P * (dP - (P * dP).sum(0, keepdims=True)) / s
    return dS @ K, dS.T @ Q, P.T @ d_output


def attention_backward__wrong_diagonal_jacobian(Q, K, V, d_output):
    """Only the diagonal p(1-p) of the softmax Jacobian, as for a sigmoid."""
    s = np.sqrt(Q.shape[1])
    P = _np_weights(Q @ K.T / s)
    dS = P * (1 - P) * (d_output @ V.T) / s
    return dS @ K, dS.T @ Q, P.T @ d_output


def attention_backward__wrong_sqrt_of_dv(Q, K, V, d_output):
    """Forward scaled by sqrt(d_k), backward by sqrt(d_v)."""
    P = _np_weights(Q @ K.T / np.sqrt(Q.shape[1]))
    dP = d_output @ V.T
    dS = P * (dP - (P * dP).sum(1, keepdims=True)) / np.sqrt(V.shape[1])
    return dS @ K, dS.T @ Q, P.T @ d_output


def attention_backward__wrong_weights_of_plain_scores(Q, K, V, d_output):
    """The weights are recomputed from the plain scores; only the gradient is scaled."""
    P = _np_weights(Q @ K.T)
    dP = d_output @ V.T
    dS = P * (dP - (P * dP).sum(1, keepdims=True)) / np.sqrt(Q.shape[1])
    return dS @ K, dS.T @ Q, P.T @ d_output


def attention_backward__right_jacobian_per_query(Q, K, V, d_output):
    """A loop over queries with the explicit Jacobian diag(p) - p p^T."""
    root = Q.shape[1] ** 0.5
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    for i in range(len(Q)):
        z = K @ Q[i] / root
        p = np.exp(z - z.max())
        p /= p.sum()
        J = np.diag(p) - np.outer(p, p)
        dz = J @ (V @ d_output[i]) / root
        dQ[i] = dz @ K
        dK += np.outer(dz, Q[i])
        dV += np.outer(p, d_output[i])
    return dQ, dK, dV


def attention_backward__right_flash_form(Q, K, V, d_output):
    """Row term from output * d_output; weights as exp(score - logsumexp); a loop over keys; dQ as a view."""
    n, m = len(Q), len(K)
    Qs = Q / math.sqrt(Q.shape[-1])
    S = Qs @ K.T
    top = S.max(1)
    lse = top + np.log(np.exp(S - top[:, None]).sum(1))
    out = np.exp(S - lse[:, None]) @ V
    D = np.einsum("nv,nv->n", out, d_output)
    dQt = np.zeros((Q.shape[1], n))
    dK, dV = np.empty((m, K.shape[1])), np.empty((m, V.shape[1]))
    for j in range(m):
        p = np.exp(Qs @ K[j] - lse)
        ds = p * (d_output @ V[j] - D)
        dV[j] = p @ d_output
        dK[j] = ds @ Qs
        dQt += np.outer(K[j] / math.sqrt(Q.shape[-1]), ds)
    return dQt.T, dK, dV


def attention_backward__right_four_index_einsum(Q, K, V, d_output):
    """The full (n, m, m) Jacobian in one einsum each."""
    scale = Q.shape[1] ** -0.5
    P = _np_weights(scale * np.einsum("nd,md->nm", Q, K))
    J = np.einsum("na,ab->nab", P, np.eye(len(K))) - np.einsum("na,nb->nab", P, P)
    dQ = scale * np.einsum("nv,av,nab,bd->nd", d_output, V, J, K, optimize=True)
    dK = scale * np.einsum("nv,av,nab,nd->bd", d_output, V, J, Q, optimize=True)
    return dQ, dK, np.einsum("nm,nv->mv", P, d_output)


def attention_backward__right_centred_values(Q, K, V, d_output):
    """dS from values centred on each query's output: p_ij (v_j - o_i) . d_i; pairwise (n, m, d_v) array."""
    scale = 1.0 / np.sqrt(K.shape[1])
    P = _np_weights((Q * scale) @ K.T)
    centred = V[None, :, :] - (P @ V)[:, None, :]
    dS = P * (centred * d_output[:, None, :]).sum(-1) * scale
    keys_centred = K - K.mean(0)
    return dS @ keys_centred, (Q.T @ dS).T, (d_output.T @ P).T


# ---------------------------------------------------------------- unit 3: packed_causal_mask
def packed_causal_mask__wrong_positions_restart(document_ids):
    """Positions restart wherever the id changes: wrong when a document is interrupted."""
    ids = document_ids
    n = ids.shape[1]
    mask = np.tri(n, dtype=bool) & (ids[:, :, None] == ids[:, None, :])
    change = np.ones(ids.shape, bool)
    change[:, 1:] = ids[:, 1:] != ids[:, :-1]
    start = np.maximum.accumulate(np.where(change, np.arange(n), 0), axis=1)
    return mask, np.arange(n) - start


def packed_causal_mask__wrong_runs_are_documents(document_ids):
    """Every run of equal ids is taken for a document of its own, in mask and positions."""
    ids = document_ids
    n = ids.shape[1]
    change = np.zeros(ids.shape, int)
    change[:, 1:] = ids[:, 1:] != ids[:, :-1]
    run = np.cumsum(change, axis=1)
    mask = np.tri(n, dtype=bool) & (run[:, :, None] == run[:, None, :])
    return mask, mask.sum(-1) - 1


def packed_causal_mask__wrong_positions_from_one(document_ids):
    """Counts the allowed tokens and forgets to subtract the token itself: positions from 1."""
    n = document_ids.shape[1]
    mask = np.tri(n, dtype=bool) & (document_ids[:, :, None] == document_ids[:, None, :])
    return mask, mask.sum(-1)


def packed_causal_mask__wrong_distance_to_first(document_ids):
    """Position = distance to the document's first token: also counts strangers in between."""
    n = document_ids.shape[1]
    mask = np.tri(n, dtype=bool) & (document_ids[:, :, None] == document_ids[:, None, :])
    return mask, np.arange(n) - mask.argmax(-1)


def packed_causal_mask__wrong_earlier_documents_seen(document_ids):
    """Compares with >= : a document also sees all documents with smaller ids before it."""
    n = document_ids.shape[1]
    causal = np.tri(n, dtype=bool)
    mask = causal & (document_ids[:, :, None] >= document_ids[:, None, :])
    same = causal & (document_ids[:, :, None] == document_ids[:, None, :])
    return mask, same.sum(-1) - 1


def packed_causal_mask__wrong_zero_is_padding(document_ids):
    """Takes id 0 for padding that sees nothing and gets position 0."""
    n = document_ids.shape[1]
    real = document_ids != 0
    mask = np.tri(n, dtype=bool) & (document_ids[:, :, None] == document_ids[:, None, :]) & real[:, :, None]
    return mask, np.maximum(mask.sum(-1) - 1, 0)


def packed_causal_mask__right_loop_over_documents(document_ids):
    """A loop over the distinct ids (not tokens), running counts inside each; int16 positions."""
    B, n = document_ids.shape
    mask = np.zeros((B, n, n), bool)
    positions = np.zeros((B, n), np.int16)
    for one in set(document_ids.ravel().tolist()):
        member = document_ids == one
        mask |= member[:, :, None] & member[:, None, :]
        positions += ((np.cumsum(member, axis=1) - 1) * member).astype(np.int16)
    return np.tril(mask), positions


def packed_causal_mask__right_stable_sort(document_ids):
    """Positions by a stable sort: rank within the group of equal ids; mask by <= on indices."""
    B, n = document_ids.shape
    order = np.argsort(document_ids, axis=1, kind="stable")
    ranked = np.take_along_axis(document_ids, order, axis=1)
    fresh = np.concatenate([np.ones((B, 1), bool), ranked[:, 1:] != ranked[:, :-1]], axis=1)
    start = np.maximum.accumulate(np.where(fresh, np.arange(n)[None], 0), axis=1)
    positions = np.empty((B, n), np.int64)
    np.put_along_axis(positions, order, np.arange(n)[None] - start, axis=1)
    i = np.arange(n)
    mask = np.logical_and(
        i[None, :, None] >= i[None, None, :], np.equal(document_ids[..., None], document_ids[..., None, :])
    )
    return mask, positions


def packed_causal_mask__right_one_hot_views(document_ids):
    """One-hot and running counts; the mask is a transposed view, both results read-only."""
    names, index = np.unique(document_ids, return_inverse=True)
    hot = np.eye(len(names), dtype=int)[index.reshape(document_ids.shape)]
    later = np.triu(np.einsum("bik,bjk->bij", hot, hot)).astype(bool)
    positions = (np.cumsum(hot, axis=1) * hot).sum(-1) - 1
    later.flags.writeable = False
    positions.flags.writeable = False
    return later.swapaxes(1, 2), positions


def packed_causal_mask__right_stack_of_rows(document_ids):
    """Batch rows one by one in a comprehension; equality by a zero difference; positions count the earlier ones, int32."""
    n = document_ids.shape[1]
    rows, columns = np.indices((n, n))
    mask = np.array([(np.subtract.outer(row, row) == 0) & ~(columns > rows) for row in document_ids])
    positions = np.count_nonzero(mask & (rows != columns), axis=2).astype(np.int32)
    return mask, positions


# ---------------------------------------------------------------- unit 4: diagnose
_BUGS = (
    "right",
    "not_scaled",
    "scaled_by_d",
    "scaled_by_d_model",
    "softmax_over_queries",
    "causal_off_by_one",
    "mask_after_softmax",
    "heads_not_by_columns",
    "keys_and_values_swapped",
    "one_head_for_all",
)


def _attend_as(name, X, W_Q, W_K, W_V, W_O, n_heads, causal):
    if name == "keys_and_values_swapped":
        W_K, W_V = W_V, W_K
    if name == "one_head_for_all":
        n_heads = 1
    B, n, d_model = X.shape
    d = W_Q.shape[1] // n_heads

    def split(Z):
        if name == "heads_not_by_columns":
            return Z.reshape(B, n_heads, n, d)
        return Z.reshape(B, n, n_heads, d).transpose(1, 2)

    Q, K, V = split(X @ W_Q), split(X @ W_K), split(X @ W_V)
    scale = {"not_scaled": 1.0, "scaled_by_d": d, "scaled_by_d_model": math.sqrt(d_model)}.get(name, math.sqrt(d))
    scores = Q @ K.transpose(-1, -2) / scale
    allowed = torch.ones(n, n, dtype=torch.bool)
    if causal:
        allowed = torch.tril(allowed, 1 if name == "causal_off_by_one" else 0)
    if name == "mask_after_softmax":
        weights = torch.softmax(scores, -1) * allowed
    else:
        scores = scores.masked_fill(~allowed, -math.inf)
        weights = torch.softmax(scores, -2 if name == "softmax_over_queries" else -1)
    out = weights @ V
    if name == "heads_not_by_columns":
        return out.reshape(B, n, -1) @ W_O
    return out.transpose(1, 2).reshape(B, n, -1) @ W_O


def _setting(B, n, d_model, n_heads, d_head, causal=True):
    g = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    w = n_heads * d_head
    return (
        draw(B, n, d_model),
        draw(d_model, w),
        draw(d_model, w),
        draw(d_model, w),
        draw(w, d_model),
        n_heads,
        causal,
    )


def _nearest(answer, setting, rows=slice(None)):
    errors = [(answer - _attend_as(name, *setting))[:, rows].abs().max().item() for name in _BUGS]
    return _BUGS[errors.index(min(errors))]


def diagnose__wrong_never_causal(attend):
    """One random call without the causal mask: both bugs of the mask look right."""
    setting = _setting(2, 5, 7, 2, 3, causal=False)
    return _nearest(attend(*setting), setting)


def diagnose__wrong_square_trap(attend):
    """d_model = 9 = d_head^2: /d_head and /sqrt(d_model) are the same number."""
    setting = _setting(2, 5, 9, 2, 3)
    return _nearest(attend(*setting), setting)


def diagnose__wrong_single_head(attend):
    """Asks with n_heads = 1: the bugs of the heads cannot show."""
    setting = _setting(2, 5, 7, 1, 3)
    return _nearest(attend(*setting), setting)


def diagnose__wrong_identity_weights(attend):
    """Identity weights, to keep it simple: keys equal values, so a swap of the two cannot show."""
    X = _setting(2, 5, 6, 2, 3)[0]
    eye = torch.eye(6, dtype=torch.float64)
    setting = (X, eye, eye, eye, eye, 2, True)
    return _nearest(attend(*setting), setting)


def diagnose__wrong_calls_until_sure(attend):
    """Calls attend again for every suspicion: up to ten calls where two are allowed."""
    setting = _setting(2, 5, 7, 2, 3)
    for name in _BUGS:
        if torch.allclose(attend(*setting), _attend_as(name, *setting), atol=1e-9):
            return name
    return "right"


def diagnose__wrong_first_token_only(attend):
    """Looks at the first token's output alone: it sees only itself, whatever the scale."""
    setting = _setting(2, 5, 7, 2, 3)
    return _nearest(attend(*setting), setting, rows=slice(0, 1))


def diagnose__right_nearest_of_ten(attend):
    """One causal call; the nearest of ten own versions."""
    setting = _setting(2, 5, 7, 2, 3)
    return _nearest(attend(*setting), setting)


def _sines(start, *shape):
    count = math.prod(shape)
    return torch.sin(1.7 * torch.arange(start, start + count, dtype=torch.float64) ** 1.1).reshape(*shape) * 1.2


def diagnose__right_transforms_of_one(attend):
    """No random draw (sines); wrong scales are made from one right attention by rescaling W_Q. Two calls, elimination."""

    def plain(X, W_Q, W_K, W_V, W_O, h, reach, axis=-1, late=False):
        outs = 0
        d = W_Q.shape[1] // h
        n = X.shape[1]
        for a in range(h):
            c = slice(a * d, (a + 1) * d)
            s = torch.einsum("bid,bjd->bij", X @ W_Q[:, c], X @ W_K[:, c]) / d**0.5
            far = torch.arange(n)[None, :] > torch.arange(n)[:, None] + reach
            e = torch.exp(s - s.amax()) if late else torch.exp(s - s.amax()).masked_fill(far, 0.0)
            p = (e / e.sum(axis, keepdim=True)).masked_fill(far, 0.0)
            outs = outs + p @ (X @ W_V[:, c]) @ W_O[c]
        return outs

    left = None
    for B, n, h, d_model, d, causal in ((1, 4, 3, 5, 2, False), (3, 6, 2, 8, 3, True)):
        w = h * d
        X, Q, K, V, O = (
            _sines(1, B, n, d_model),
            _sines(200, d_model, w),
            _sines(300, d_model, w),
            _sines(400, d_model, w),
            _sines(500, w, d_model),
        )
        got = attend(X, Q, K, V, O, h, causal)
        reach = 0 if causal else n

        def blocks(W):
            return (X @ W).reshape(B, h, n, d)

        s = blocks(Q) @ blocks(K).transpose(2, 3) / d**0.5
        s = s.masked_fill(torch.arange(n) > torch.arange(n)[:, None] + reach, -1e300)
        table = {
            "right": plain(X, Q, K, V, O, h, reach),
            "not_scaled": plain(X, Q * d**0.5, K, V, O, h, reach),
            "scaled_by_d": plain(X, Q / d**0.5, K, V, O, h, reach),
            "scaled_by_d_model": plain(X, Q * (d / d_model) ** 0.5, K, V, O, h, reach),
            "softmax_over_queries": plain(X, Q, K, V, O, h, reach, axis=1),
            "causal_off_by_one": plain(X, Q, K, V, O, h, reach + 1),
            "mask_after_softmax": plain(X, Q, K, V, O, h, reach, late=True),
            "heads_not_by_columns": (s.softmax(-1) @ blocks(V)).reshape(B, n, w) @ O,
            "keys_and_values_swapped": plain(X, Q, V, K, O, h, reach),
            "one_head_for_all": plain(X, Q, K, V, O, 1, reach),
        }
        fits = {name for name, value in table.items() if torch.allclose(got, value, rtol=1e-7, atol=1e-9)}
        left = fits if left is None else left & fits
    (only,) = left
    return only


def diagnose__right_reads_the_weights(attend):
    """One-hot tokens and values, so that the output shows head 0's weights; then a chain of questions, no own attention."""
    g = torch.Generator().manual_seed(0)
    X = torch.eye(5, dtype=torch.float64)[None, :3]
    W_Q = torch.randn(5, 6, generator=g, dtype=torch.float64)
    W_K = torch.randn(5, 6, generator=g, dtype=torch.float64)
    W_K[0, 0] = -1.0
    W_V, W_O = torch.zeros(5, 6, dtype=torch.float64), torch.zeros(6, 5, dtype=torch.float64)
    for j in range(3):
        W_V[j, j] = W_O[j, j] = 1.0
    P = attend(X, W_Q, W_K, W_V, W_O, 2, True)[0, :, :3]
    if P[0, 0] < 0:
        return "keys_and_values_swapped"
    if P[0, 1] > 1e-9:
        return "causal_off_by_one"
    if (P.sum(0) - 1).abs().max() < 1e-9:
        return "softmax_over_queries"
    if P[0, 0] < 1 - 1e-9:
        return "mask_after_softmax"
    if P[2].sum() < 1 - 1e-9:
        return "heads_not_by_columns"
    seen = torch.log(P[2, 0] / P[2, 1])
    gap = W_Q[2, :3] @ (W_K[0, :3] - W_K[1, :3])
    for name, scale in (("right", 3**0.5), ("not_scaled", 1.0), ("scaled_by_d", 3.0), ("scaled_by_d_model", 5**0.5)):
        if abs(seen * scale - gap) < 1e-7:
            return name
    return "one_head_for_all"


def diagnose__right_loops_and_correlation(attend):
    """Candidates by loops over tokens; the least squared distance decides; inputs with odd strides."""
    g = torch.Generator().manual_seed(0)
    B, n, d_model, h, d = 2, 4, 6, 3, 2
    w = h * d
    X = torch.randn(d_model, n, B, generator=g, dtype=torch.float64).permute(2, 1, 0)
    W_Q, W_K, W_V = (torch.randn(w, d_model, generator=g, dtype=torch.float64).T for _ in range(3))
    W_O = torch.randn(w, d_model, generator=g, dtype=torch.float64)
    got = attend(X, W_Q, W_K, W_V, W_O, h, True)

    def version(name):
        A, C = (W_V, W_K) if name == "keys_and_values_swapped" else (W_K, W_V)
        Q, K, V = (X @ W_Q).contiguous(), (X @ A).contiguous(), (X @ C).contiguous()
        heads, width = (1, w) if name == "one_head_for_all" else (h, d)
        merged = torch.zeros(B, n, w, dtype=torch.float64)
        for b in range(B):
            for a in range(heads):
                if name == "heads_not_by_columns":
                    flat = slice(a * n * d, (a + 1) * n * d)
                    q, k, v = (Z[b].reshape(-1)[flat].reshape(n, d) for Z in (Q, K, V))
                else:
                    q, k, v = (Z[b, :, a * width : (a + 1) * width] for Z in (Q, K, V))
                scale = {"not_scaled": 1, "scaled_by_d": width, "scaled_by_d_model": d_model**0.5}.get(name, width**0.5)
                e = torch.exp(q @ k.T / scale)
                extra = 1 if name == "causal_off_by_one" else 0
                out = torch.zeros(n, width, dtype=torch.float64)
                for i in range(n):
                    for j in range(min(n, i + 1 + extra)):
                        if name == "softmax_over_queries":
                            total = e[j:, j].sum()
                        elif name == "mask_after_softmax":
                            total = e[i].sum()
                        else:
                            total = e[i, : i + 1 + extra].sum()
                        out[i] += e[i, j] / total * v[j]
                if name == "heads_not_by_columns":
                    merged[b].view(-1)[a * n * d : (a + 1) * n * d] = out.reshape(-1)
                else:
                    merged[b, :, a * width : (a + 1) * width] = out
        return merged @ W_O

    return max(_BUGS, key=lambda name: -float(((got - version(name)) ** 2).sum()))


# ---------------------------------------------------------------- unit 5: extend_cache
def _split(Z, heads):
    B, n, w = Z.shape
    return Z.reshape(B, n, heads, w // heads).transpose(1, 2)


def _grouped(q, K, V, allowed):
    """q (B, h, r, d), K, V (B, g, m, d), allowed (r, m) -> (B, h, r, d), keys not copied."""
    B, h, r, d = q.shape
    g, m = K.shape[1:3]
    folded = q.reshape(B, g, (h // g) * r, d)
    scores = (folded @ K.transpose(2, 3) / math.sqrt(d)).reshape(B, h, r, m)
    scores = scores.masked_fill(~allowed, -math.inf)
    weights = torch.softmax(scores, -1).reshape(B, g, (h // g) * r, m)
    return (weights @ V).reshape(B, h, r, d)


def extend_cache__wrong_top_left_mask(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """The causal triangle at the top left: new token r sees columns 0 ... r only."""
    B, r, _ = X_new.shape
    K = torch.cat([cache[0], _split(X_new @ W_K, n_kv_heads)], 2)
    V = torch.cat([cache[1], _split(X_new @ W_V, n_kv_heads)], 2)
    allowed = torch.ones(r, K.shape[2], dtype=torch.bool).tril()
    out = _grouped(_split(X_new @ W_Q, n_heads), K, V, allowed)
    return out.transpose(1, 2).reshape(B, r, -1) @ W_O, (K, V)


def extend_cache__wrong_no_mask(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """No mask, as in decode_step: a new token also sees the new ones after it."""
    B, r, _ = X_new.shape
    K = torch.cat([cache[0], _split(X_new @ W_K, n_kv_heads)], 2)
    V = torch.cat([cache[1], _split(X_new @ W_V, n_kv_heads)], 2)
    out = _grouped(_split(X_new @ W_Q, n_heads), K, V, torch.ones(r, K.shape[2], dtype=torch.bool))
    return out.transpose(1, 2).reshape(B, r, -1) @ W_O, (K, V)


def extend_cache__wrong_head_modulo_groups(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Query head a reads key/value head a % g: neighbours do not share."""
    B, r, _ = X_new.shape
    K = torch.cat([cache[0], _split(X_new @ W_K, n_kv_heads)], 2)
    V = torch.cat([cache[1], _split(X_new @ W_V, n_kv_heads)], 2)
    t = cache[0].shape[2]
    q = _split(X_new @ W_Q, n_heads)
    late = torch.arange(K.shape[2]) > t + torch.arange(r)[:, None]
    heads = []
    for a in range(n_heads):
        s = q[:, a] @ K[:, a % n_kv_heads].transpose(1, 2) / math.sqrt(q.shape[-1])
        heads.append(torch.softmax(s.masked_fill(late, -math.inf), -1) @ V[:, a % n_kv_heads])
    return torch.cat(heads, -1) @ W_O, (K, V)


def extend_cache__wrong_repeats_keys(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Right values, but keys and values are copied once per query head: the forbidden tensor."""
    B, r, _ = X_new.shape
    K = torch.cat([cache[0], _split(X_new @ W_K, n_kv_heads)], 2)
    V = torch.cat([cache[1], _split(X_new @ W_V, n_kv_heads)], 2)
    rep = n_heads // n_kv_heads
    allowed = torch.ones(r, K.shape[2], dtype=torch.bool).tril(cache[0].shape[2])
    out = _grouped(_split(X_new @ W_Q, n_heads), K.repeat_interleave(rep, 1), V.repeat_interleave(rep, 1), allowed)
    return out.transpose(1, 2).reshape(B, r, -1) @ W_O, (K, V)


def extend_cache__wrong_merge_without_transpose(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Heads merged by reshape alone: right for one new token, mixed up for more."""
    B, r, _ = X_new.shape
    K = torch.cat([cache[0], _split(X_new @ W_K, n_kv_heads)], 2)
    V = torch.cat([cache[1], _split(X_new @ W_V, n_kv_heads)], 2)
    allowed = torch.ones(r, K.shape[2], dtype=torch.bool).tril(cache[0].shape[2])
    out = _grouped(_split(X_new @ W_Q, n_heads), K, V, allowed)
    return out.reshape(B, r, -1) @ W_O, (K, V)


def extend_cache__wrong_cache_and_itself(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Every new token sees the old cache and itself, but none of the new tokens before it."""
    B, r, _ = X_new.shape
    K = torch.cat([cache[0], _split(X_new @ W_K, n_kv_heads)], 2)
    V = torch.cat([cache[1], _split(X_new @ W_V, n_kv_heads)], 2)
    allowed = torch.cat([torch.ones(r, cache[0].shape[2], dtype=torch.bool), torch.eye(r, dtype=torch.bool)], 1)
    out = _grouped(_split(X_new @ W_Q, n_heads), K, V, allowed)
    return out.transpose(1, 2).reshape(B, r, -1) @ W_O, (K, V)


def extend_cache__right_token_by_token(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """No mask at all: one decode step per new token, the cache growing by cat."""
    K, V = cache
    rows = []
    for x in X_new.split(1, dim=1):
        K = torch.cat((K, _split(x @ W_K, n_kv_heads)), dim=2)
        V = torch.cat((V, _split(x @ W_V, n_kv_heads)), dim=2)
        B, g, m, d = K.shape
        q = (x @ W_Q).reshape(B, g, n_heads // g, d)
        weights = F.softmax(torch.einsum("bgrd,bgmd->bgrm", q, K) * d**-0.5, dim=-1)
        rows.append(torch.einsum("bgrm,bgmd->bgrd", weights, V).reshape(B, 1, -1) @ W_O)
    return torch.cat(rows, dim=1), (K, V)


def extend_cache__right_old_and_new_merged(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Old and new columns attended apart, merged by a common maximum and common sum; no mask over the old ones."""
    B, r, _ = X_new.shape
    d = W_Q.shape[1] // n_heads
    rep = n_heads // n_kv_heads
    k_new, v_new = _split(X_new @ W_K, n_kv_heads), _split(X_new @ W_V, n_kv_heads)
    q = (
        (X_new @ W_Q / math.sqrt(d))
        .reshape(B, r, n_kv_heads, rep, d)
        .permute(0, 2, 3, 1, 4)
        .reshape(B, n_kv_heads, rep * r, d)
    )
    s_old = q.matmul(cache[0].mT)
    later = torch.ones(r, r, dtype=torch.bool, device=X_new.device).triu(1).repeat(rep, 1)
    s_new = q.matmul(k_new.mT).masked_fill(later, float("-inf"))
    top = s_new.amax(-1, keepdim=True)
    if s_old.shape[-1]:
        top = torch.maximum(top, s_old.amax(-1, keepdim=True))
    e_old, e_new = (s_old - top).exp(), (s_new - top).exp()
    out = (e_old @ cache[1] + e_new @ v_new) / (e_old.sum(-1, keepdim=True) + e_new.sum(-1, keepdim=True))
    out = out.reshape(B, n_kv_heads, rep, r, d).permute(0, 3, 1, 2, 4).flatten(2)
    return out @ W_O, (torch.cat([cache[0], k_new], -2), torch.cat([cache[1], v_new], -2))


def extend_cache__right_head_loop_summed(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """A loop over heads that adds each head's part through its rows of W_O; an additive 0/-inf bias as mask."""
    t, r = cache[0].size(2), X_new.size(1)
    d = W_Q.size(1) // n_heads
    keys, values, out = [], [], torch.zeros_like(X_new)
    bias = torch.full((r, t + r), float("-inf"), dtype=X_new.dtype, device=X_new.device).triu(t + 1)
    for a in range(n_heads):
        group = a // (n_heads // n_kv_heads)
        if group == len(keys):
            c = slice(group * d, (group + 1) * d)
            keys.append(torch.cat([cache[0][:, group], X_new @ W_K[:, c]], 1))
            values.append(torch.cat([cache[1][:, group], X_new @ W_V[:, c]], 1))
        q = X_new @ W_Q[:, a * d : (a + 1) * d]
        weights = torch.softmax(
            torch.baddbmm(bias.expand(len(q), r, t + r), q, keys[group].transpose(1, 2), alpha=d**-0.5), -1
        )
        out = out + (weights @ values[group]) @ W_O[a * d : (a + 1) * d]
    return out, (torch.stack(keys, 1), torch.stack(values, 1))


def extend_cache__right_buffers_as_views(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    """Token-major buffers filled by slices, the cache returned as transposed views; a loop over new rows without mask."""
    B, r, _ = X_new.shape
    t, g, d = cache[0].shape[2], n_kv_heads, W_K.shape[1] // n_kv_heads
    K, V = X_new.new_zeros(B, t + r, g, d), X_new.new_zeros(B, t + r, g, d)
    K[:, :t], K[:, t:] = cache[0].transpose(1, 2), (X_new @ W_K).unflatten(-1, (g, d))
    V[:, :t], V[:, t:] = cache[1].transpose(1, 2), (X_new @ W_V).unflatten(-1, (g, d))
    q = (X_new @ W_Q).unflatten(-1, (g, n_heads // g, d))
    rows = []
    for i in range(r):
        seen = t + i + 1
        s = torch.einsum("bgrd,bmgd->bgrm", q[:, i], K[:, :seen]).div(d**0.5)
        p = (s - torch.logsumexp(s, -1, keepdim=True)).exp()
        rows.append(torch.einsum("bgrm,bmgd->bgrd", p, V[:, :seen]).flatten(1))
    return torch.stack(rows, 1) @ W_O, (K.transpose(1, 2), V.transpose(1, 2))


# ---------------------------------------------------------------- unit 6: catches_wrong_decoder
def _heads_attend(A, C, p, kind, h, allowed):
    """Batched attention of A on C with the weights `kind`_W_*; allowed broadcasts to (B, h, n, m)."""
    q, k, v = _split(A @ p[kind + "_W_Q"], h), _split(C @ p[kind + "_W_K"], h), _split(C @ p[kind + "_W_V"], h)
    s = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).masked_fill(~allowed, -1e300)
    e = torch.exp(s - s.amax(-1, keepdim=True)) * allowed
    w = e / e.sum(-1, keepdim=True).clamp_min(1e-300)
    return (w @ v).transpose(1, 2).flatten(2) @ p[kind + "_W_O"]


def _reference(X, Y, p, h, source_mask=None):
    mask = source_mask
    n, m = X.shape[1], Y.shape[1]
    X = X + _heads_attend(X, X, p, "self", h, torch.ones(n, n, dtype=torch.bool).tril())
    if mask is None:
        mask = torch.ones(X.shape[0], m, dtype=torch.bool)
    return X + _heads_attend(X, Y, p, "cross", h, mask[:, None, None, :])


def _input(g, B, n, m, d_model, d_source, h, d_self, d_cross):
    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    p = {}
    for kind, d, source in (("self", d_self, d_model), ("cross", d_cross, d_source)):
        p[kind + "_W_Q"], p[kind + "_W_K"], p[kind + "_W_V"] = (
            draw(d_model, h * d),
            draw(source, h * d),
            draw(source, h * d),
        )
        p[kind + "_W_O"] = draw(h * d, d_model)
    return draw(B, n, d_model), draw(B, m, d_source), p, h


_SIZES = (
    (2, 4, 6, 6, 5, 2, 3, 4),
    (1, 1, 1, 4, 4, 1, 4, 4),
    (3, 7, 3, 5, 8, 3, 2, 1),
    (1, 6, 6, 8, 8, 2, 4, 4),
    (4, 1, 5, 4, 3, 2, 2, 3),
    (2, 9, 1, 3, 6, 4, 1, 2),
    (3, 3, 8, 6, 6, 3, 2, 2),
    (2, 12, 10, 4, 4, 2, 2, 2),
)


def _masks(g, B, m):
    scattered = torch.rand(B, m, generator=g) < 0.5
    empty_row = torch.rand(B, m, generator=g) < 0.6
    empty_row[-1] = False
    ragged = torch.arange(m)[None, :] < torch.arange(m, m - B, -1)[:, None].clamp(1)
    one = torch.zeros(B, m, dtype=torch.bool)
    one[:, -1] = True
    return [
        None,
        scattered,
        empty_row,
        ragged,
        ~ragged,
        one,
        torch.ones(B, m, dtype=torch.bool),
        torch.zeros(B, m, dtype=torch.bool),
    ]


def _differs(got, want):
    if not torch.is_tensor(got) or got.shape != want.shape or not bool(torch.isfinite(got).all()):
        return True
    return bool((got.double() - want).abs().max() > 1e-6 * want.abs().max())


def _copy(X, Y, p, mask):
    return X.clone(), Y.clone(), {k: v.clone() for k, v in p.items()}, None if mask is None else mask.clone()


def _changed(before, after):
    for a, b in zip(before, after):
        if isinstance(a, dict):
            if a.keys() != b.keys() or any(not torch.equal(a[k], b[k]) for k in a):
                return True
        elif a is not None and not torch.equal(a, b):
            return True
    return False


def catches_wrong_decoder__wrong_causality_only(layer):
    """Tests causality and nothing else: a later token must not change an earlier output."""
    X, Y, p, h = _input(torch.Generator().manual_seed(0), 2, 5, 4, 6, 5, 2, 3, 4)
    try:
        before = layer(X, Y, p, h)
        Z = X.clone()
        Z[:, -1] += 1.0
        after = layer(Z, Y, p, h)
        return bool((before[:, :-1] - after[:, :-1]).abs().max() > 1e-9)
    except Exception:
        return True


def catches_wrong_decoder__wrong_nan_is_not_larger(layer):
    """Compares with `error > limit` alone: NaN is never larger, so an empty row's NaN goes unseen."""
    g = torch.Generator().manual_seed(0)
    for size in _SIZES:
        X, Y, p, h = _input(g, *size)
        for mask in _masks(g, size[0], size[2]):
            given = _copy(X, Y, p, mask)
            try:
                got = layer(given[0], given[1], given[2], h, given[3])
            except Exception:
                return True
            want = _reference(X, Y, p, h, mask)
            if got.shape != want.shape or _changed((X, Y, p, mask), given):
                return True
            if (got - want).abs().max() > 1e-6 * want.abs().max():
                return True
    return False


def catches_wrong_decoder__wrong_inputs_unwatched(layer):
    """Hands out copies and never looks at them again: a layer that changes its inputs passes."""
    g = torch.Generator().manual_seed(0)
    for size in _SIZES:
        X, Y, p, h = _input(g, *size)
        for mask in _masks(g, size[0], size[2]):
            given = _copy(X, Y, p, mask)
            try:
                got = layer(given[0], given[1], given[2], h, given[3])
            except Exception:
                return True
            if _differs(got, _reference(X, Y, p, h, mask)):
                return True
    return False


def catches_wrong_decoder__wrong_bit_exact(layer):
    """Demands torch.equal with its own values: accuses right layers that only round differently."""
    g = torch.Generator().manual_seed(0)
    for size in _SIZES:
        X, Y, p, h = _input(g, *size)
        for mask in _masks(g, size[0], size[2]):
            given = _copy(X, Y, p, mask)
            try:
                got = layer(given[0], given[1], given[2], h, given[3])
            except Exception:
                return True
            if not torch.equal(got, _reference(X, Y, p, h, mask)) or _changed((X, Y, p, mask), given):
                return True
    return False


def catches_wrong_decoder__wrong_one_easy_example(layer):
    """One batch row, n = m, equal widths, no mask: most bugs have no chance to show."""
    X, Y, p, h = _input(torch.Generator().manual_seed(0), 1, 4, 4, 6, 6, 2, 3, 3)
    given = _copy(X, Y, p, None)
    try:
        got = layer(given[0], given[1], given[2], h)
    except Exception:
        return True
    return _differs(got, _reference(X, Y, p, h)) or _changed((X, Y, p, None), given)


def catches_wrong_decoder__wrong_cross_asks_with_X(layer):
    """Its own reference lets the cross-attention ask with X, not with the result of the first step."""
    g = torch.Generator().manual_seed(0)
    for size in _SIZES:
        X, Y, p, h = _input(g, *size)
        for mask in _masks(g, size[0], size[2]):
            given = _copy(X, Y, p, mask)
            try:
                got = layer(given[0], given[1], given[2], h, given[3])
            except Exception:
                return True
            allowed = torch.ones(size[0], size[2], dtype=torch.bool) if mask is None else mask
            causal = torch.ones(size[1], size[1], dtype=torch.bool).tril()
            want = (
                X
                + _heads_attend(X, X, p, "self", h, causal)
                + _heads_attend(X, Y, p, "cross", h, allowed[:, None, None, :])
            )
            if _differs(got, want) or _changed((X, Y, p, mask), given):
                return True
    return False


def catches_wrong_decoder__right_grid_of_cases(layer):
    """Eight sizes times eight masks against a batched reference of its own."""
    g = torch.Generator().manual_seed(0)
    for size in _SIZES:
        X, Y, p, h = _input(g, *size)
        for mask in _masks(g, size[0], size[2]):
            given = _copy(X, Y, p, mask)
            try:
                got = layer(given[0], given[1], given[2], h, given[3])
            except Exception:
                return True
            if _differs(got, _reference(X, Y, p, h, mask)) or _changed((X, Y, p, mask), given):
                return True
    return False


def _without_masks(X, Y, p, h, mask):
    """Token by token, with no mask anywhere: later tokens and forbidden sources are cut away."""

    def look(a, C, kind):
        out = torch.zeros_like(a)
        d = p[kind + "_W_Q"].shape[1] // h
        for k in range(h):
            c = slice(k * d, (k + 1) * d)
            z = (C @ p[kind + "_W_K"][:, c]) @ (a @ p[kind + "_W_Q"][:, c]) / d**0.5
            if len(z):
                out = out + torch.softmax(z, 0) @ (C @ p[kind + "_W_V"][:, c]) @ p[kind + "_W_O"][c]
        return out

    rows = []
    for b in range(X.shape[0]):
        source = Y[b] if mask is None else Y[b, mask[b]]
        for i in range(X.shape[1]):
            a = X[b, i] + look(X[b, i], X[b, : i + 1], "self")
            rows.append(a + look(a, source, "cross"))
    return torch.stack(rows).reshape(X.shape)


def catches_wrong_decoder__right_cut_not_masked(layer):
    """The reference cuts forbidden tokens away and loops; assertions caught as the verdict; keyword mask; sines, no draw."""
    try:
        for B, n, m, d_model, d_source, h, a, c in (
            (3, 5, 7, 4, 6, 2, 3, 1),
            (2, 6, 2, 6, 3, 3, 2, 4),
            (1, 1, 1, 2, 2, 1, 2, 2),
            (2, 4, 4, 4, 4, 2, 2, 2),
        ):
            X, Y = _sines(7, B, n, d_model), _sines(911, B, m, d_source)
            p = {}
            for at, (kind, d, source) in enumerate((("self", a, d_model), ("cross", c, d_source))):
                for nr, (name, shape) in enumerate(
                    (("Q", (d_model, h * d)), ("K", (source, h * d)), ("V", (source, h * d)), ("O", (h * d, d_model)))
                ):
                    p[f"{kind}_W_{name}"] = _sines(2000 + 1000 * at + 200 * nr, *shape)
            for pattern in range(-1, 6):
                mask = (
                    None
                    if pattern < 0
                    else torch.tensor(
                        [
                            [
                                ((b + 2) * (j + 1) * 7 + pattern * (j + 3)) % 3 > (0 if pattern < 3 else 1)
                                for j in range(m)
                            ]
                            for b in range(B)
                        ]
                    )
                )
                if pattern == 1:
                    mask[0] = False
                if pattern == 4:
                    mask[-1] = False
                given = _copy(X, Y, p, mask)
                got = (
                    layer(given[0], given[1], given[2], h, source_mask=given[3])
                    if pattern >= 0
                    else layer(given[0], given[1], given[2], h)
                )
                want = _without_masks(X, Y, p, h, mask)
                assert got.shape == want.shape
                torch.testing.assert_close(got.double(), want, rtol=0, atol=1e-6 * float(want.abs().max()))
                assert not _changed((X, Y, p, mask), given)
    except Exception:
        return True
    return False


def catches_wrong_decoder__right_einsum_low_rank(layer):
    """Reference by einsum over heads with W_Q W_K^T and W_V W_O multiplied first; one big batch that holds every mask at once, and small ones."""
    g = torch.Generator().manual_seed(0)

    def part(A, C, p, kind, h, allowed):
        d = p[kind + "_W_Q"].shape[1] // h
        q, k, v = (p[f"{kind}_W_{w}"].unflatten(1, (h, d)) for w in "QKV")
        o = p[kind + "_W_O"].unflatten(0, (h, d))
        ask, tell = torch.einsum("xhd,yhd->hxy", q, k), torch.einsum("xhd,hdy->hxy", v, o)
        s = torch.einsum("bix,hxy,bjy->hbij", A, ask, C) * d**-0.5
        logs = torch.where(allowed, s, torch.full_like(s, -math.inf))
        w = torch.nan_to_num(torch.softmax(logs, -1), nan=0.0)
        return torch.einsum("hbij,bjx,hxy->biy", w, C, tell)

    for B, n, m, d_model, d_source, h, a, c in (
        (16, 3, 4, 5, 7, 2, 2, 3),
        (16, 6, 4, 4, 4, 3, 1, 1),
        (1, 2, 9, 3, 2, 1, 3, 2),
        (2, 5, 5, 8, 8, 4, 2, 2),
    ):
        X, Y, p, h = _input(g, B, n, m, d_model, d_source, h, a, c)
        every = (torch.arange(B)[:, None] >> (torch.arange(m) % 4)) & 1
        for mask in (None, every.bool(), ~every.bool(), torch.rand(B, m, generator=g) > 0.3):
            held = _copy(X, Y, p, mask)
            allowed = torch.ones(B, 1, m, dtype=torch.bool) if mask is None else mask[:, None]
            Z = X + part(X, X, p, "self", h, torch.arange(n)[None, :] <= torch.arange(n)[:, None])
            want = Z + part(Z, Y, p, "cross", h, allowed)
            try:
                got = layer(X, Y, p, h, mask)
                if tuple(got.shape) != (B, n, d_model) or got.isnan().any() or _changed(held, (X, Y, p, mask)):
                    return True
                if not (
                    torch.linalg.vector_norm(got - want, ord=math.inf)
                    <= 1e-6 * torch.linalg.vector_norm(want, ord=math.inf)
                ):
                    return True
            except Exception:
                return True
    return False


def catches_wrong_decoder__right_properties_and_one_head(layer):
    """Metamorphic: batch rows alone, prefixes and cut sources must give what the whole call gave; only B = 1 without any mask is compared with own values."""
    g = torch.Generator().manual_seed(0)

    def ask(*given):
        X, Y, p, h, mask = given
        mine = _copy(X, Y, p, mask)
        out = layer(mine[0], mine[1], mine[2], h, mine[3])
        if out.shape != X.shape or not torch.isfinite(out).all() or _changed((X, Y, p, mask), mine):
            raise ValueError
        return out.clone()

    def agree(a, b):
        if not (a - b).abs().max() <= 2e-7 * b.abs().max():
            raise ValueError

    try:
        for size in _SIZES:
            X, Y, p, h = _input(g, *size)
            B, n, m = size[:3]
            for mask in _masks(g, B, m):
                out = ask(X, Y, p, h, mask)
                for b in range(B):
                    row = None if mask is None else mask[b : b + 1]
                    agree(ask(X[b : b + 1], Y[b : b + 1], p, h, row), out[b : b + 1])
                    for i in range(1, n + 1):
                        agree(ask(X[b : b + 1, :i], Y[b : b + 1], p, h, row)[:, -1], out[b : b + 1, i - 1])
                    kept = Y[b : b + 1] if mask is None else Y[b : b + 1, mask[b]]
                    if kept.shape[1]:
                        agree(ask(X[b : b + 1], kept, p, h, None), out[b : b + 1])
                    agree(
                        _reference(X[b : b + 1], kept, p, h) if kept.shape[1] else _self_only(X[b : b + 1], p, h),
                        out[b : b + 1],
                    )
    except Exception:
        return True
    return False


def _self_only(X, p, h):
    n = X.shape[1]
    return X + _heads_attend(X, X, p, "self", h, torch.ones(n, n, dtype=torch.bool).tril())
