"""Right and wrong answers to unit 06_cross_attention, written from the contracts of the functions alone, to test the judge with."""

import itertools
import math
import warnings

import numpy as np
import torch

# ------------------------------------------------------------------------------------------------ helpers, all right


def _split(X, n_heads):
    """(B, n, h*d) -> (B, h, n, d)."""
    B, n, d = X.shape
    return X.reshape(B, n, n_heads, d // n_heads).transpose(1, 2)


def _merge(X):
    """(B, h, n, d) -> (B, n, h*d)."""
    B, h, n, d = X.shape
    return X.transpose(1, 2).reshape(B, n, h * d)


def _softmax(scores, mask=None):
    """Weights over the keys, all zero where nothing may be attended to."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1).masked_fill(~mask, 0.0)


def _source(mask):
    """(B, m) -> (B, 1, 1, m)."""
    return None if mask is None else mask[:, None, None, :]


def _weights(Q, K, mask=None):
    """Scaled scores, softmax over the keys."""
    return _softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)


def _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, mask=None, weights=_weights):
    """Attention from X to Y with a mask that broadcasts to (B, h, n, m) and exchangeable weights."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    A = weights(Q, K, mask)
    return _merge(A @ V) @ W_O, A


# ------------------------------------------------------------------------------------------------------ cross_attention


def cross_attention__right_plain(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Queries from X, keys and values from Y."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    if source_mask is not None:
        keep = source_mask[:, None, None, :]
        scores = scores.masked_fill(~keep, float("-inf"))
        weights = torch.nan_to_num(torch.softmax(scores, dim=-1), nan=0.0)
        weights = weights.masked_fill(~keep, 0.0)
    else:
        weights = torch.softmax(scores, dim=-1)
    return _merge(weights @ V) @ W_O, weights


def cross_attention__right_einsum(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Weights cut into heads, einsum everywhere."""
    Q = torch.einsum("bni,ihd->bhnd", X, W_Q.unflatten(1, (n_heads, -1)))
    K = torch.einsum("bmi,ihd->bhmd", Y, W_K.unflatten(1, (n_heads, -1)))
    V = torch.einsum("bmi,ihd->bhmd", Y, W_V.unflatten(1, (n_heads, -1)))
    S = torch.einsum("bhnd,bhmd->bhnm", Q, K) * Q.shape[-1] ** -0.5
    A = _softmax(S, _source(source_mask))
    return torch.einsum("bhnm,bhmd,hdo->bno", A, V, W_O.unflatten(0, (n_heads, -1))), A


def cross_attention__right_head_loop(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """One head after the other; prints."""
    d = W_Q.shape[1] // n_heads
    out, weights = 0, []
    for i in range(n_heads):
        c = slice(i * d, (i + 1) * d)
        S = (X @ W_Q[:, c]) @ (Y @ W_K[:, c]).mT / math.sqrt(d)
        A = _softmax(S, None if source_mask is None else source_mask[:, None])
        out = out + A @ (Y @ W_V[:, c]) @ W_O[c]
        weights.append(A)
    print("heads:", len(weights))
    return out, torch.stack(weights, dim=1)


def cross_attention__right_only_real_tokens(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """For each sequence the allowed source tokens alone; their weights are put back into zeros."""
    B, m = X.shape[0], Y.shape[1]
    outs, weights = [], []
    for b in range(B):
        idx = torch.arange(m) if source_mask is None else source_mask[b].nonzero()[:, 0]
        out, A = _cross(X[b : b + 1], Y[b : b + 1, idx], W_Q, W_K, W_V, W_O, n_heads)
        outs.append(out)
        weights.append(A.new_zeros(*A.shape[:-1], m).index_copy(-1, idx, A))
    return torch.cat(outs), torch.cat(weights)


def cross_attention__right_stable_exp(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Own softmax with the largest score subtracted; empty rows are divided by 1."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    S = Q @ K.mT / math.sqrt(K.shape[-1])
    keep = torch.ones_like(S, dtype=torch.bool) if source_mask is None else _source(source_mask).expand_as(S)
    top = torch.where(keep, S, torch.full_like(S, torch.finfo(S.dtype).min)).amax(-1, keepdim=True)
    E = torch.where(keep, torch.exp(torch.where(keep, S - top, torch.zeros_like(S))), torch.zeros_like(S))
    total = E.sum(-1, keepdim=True)
    A = E / total.masked_fill(total == 0, 1.0)
    return _merge(A @ V) @ W_O, A


def cross_attention__right_bmm_float64(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """bmm over B*h, float64 inside; both results are cast back; warns."""
    warnings.warn("float64 inside", stacklevel=2)
    B, n, m = X.shape[0], X.shape[1], Y.shape[1]
    Q, K, V = (_split(T.double() @ W.double(), n_heads).flatten(0, 1) for T, W in ((X, W_Q), (Y, W_K), (Y, W_V)))
    keep = None if source_mask is None else source_mask.repeat_interleave(n_heads, dim=0)[:, None]
    A = _softmax(torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1]), keep)
    out = _merge(torch.bmm(A, V).view(B, n_heads, n, -1)) @ W_O.double()
    return out.to(X.dtype), A.view(B, n_heads, n, m).to(X.dtype)


def cross_attention__right_folded_qk(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The QK and OV circuits: scores X (W_Q W_K^T) Y^T, values Y (W_V W_O), per head."""
    q, k, v = (W.unflatten(1, (n_heads, -1)).transpose(0, 1) for W in (W_Q, W_K, W_V))
    QK, OV = q @ k.mT / math.sqrt(q.shape[-1]), v @ W_O.unflatten(0, (n_heads, -1))
    A = _softmax(X[:, None] @ QK @ Y[:, None].mT, _source(source_mask))
    return (A @ (Y[:, None] @ OV)).sum(dim=1), A


def cross_attention__right_heads_by_recursion(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The first head, and then the rest; the softmax by way of its logarithm."""
    if n_heads > 1:
        c = W_Q.shape[1] // n_heads
        call = cross_attention__right_heads_by_recursion
        one, A = call(X, Y, W_Q[:, :c], W_K[:, :c], W_V[:, :c], W_O[:c], 1, source_mask)
        rest, more = call(X, Y, W_Q[:, c:], W_K[:, c:], W_V[:, c:], W_O[c:], n_heads - 1, source_mask)
        return one + rest, torch.cat([A, more], 1)
    hide = torch.zeros(1, 1, 1).bool() if source_mask is None else ~source_mask.unsqueeze(1)
    S = (X @ W_Q) @ (Y @ W_K).mT * W_Q.shape[1] ** -0.5
    A = S.masked_fill(hide, -math.inf).log_softmax(-1).exp().masked_fill(hide, 0)
    return A @ (Y @ W_V) @ W_O, A[:, None]


def cross_attention__right_token_loop(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Each head and target token by itself: products summed, -1e30 for the hidden, divided by a total above 0."""
    d = int(W_Q.shape[-1] / n_heads)
    Q, K, V = X @ W_Q, Y @ W_K, Y @ W_V
    mask = torch.ones(Y.shape[:2]).bool() if source_mask is None else source_mask
    maps, parts = [], []
    for c in torch.arange(n_heads * d).chunk(n_heads):
        rows = []
        for i in range(X.shape[1]):
            s = ((Q[:, i, c].unsqueeze(1) * K[..., c]).sum(-1) / math.sqrt(d)).masked_fill(~mask, -1e30)
            e = torch.exp(s - s.amax(-1, keepdim=True)) * mask
            rows.append(e / e.sum(-1, keepdim=True).clamp(min=1e-30))
        maps.append(torch.stack(rows, 1))
        parts.append(maps[-1] @ V[..., c])
    return torch.cat(parts, -1) @ W_O, torch.stack(maps, 1)


def cross_attention__wrong_small_fill(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """-1e4 for hidden scores: leaks where the others are as low."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if source_mask is None:
        A = S.softmax(-1)
    else:
        keep = source_mask[:, None, None]
        A = S.masked_fill(~keep, -1e4).softmax(-1) * keep.any(-1, keepdim=True)
    return _merge(A @ V) @ W_O, A


def cross_attention__wrong_self_attention(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Keys and values from X: fails where the widths or lengths differ."""
    return _cross(X, X, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))


def cross_attention__wrong_roles_swapped(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Queries from Y, keys and values from X."""
    return _cross(Y, X, W_Q, W_K, W_V, W_O, n_heads)


def cross_attention__wrong_kv_swapped(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Keys and values swapped."""
    return _cross(X, Y, W_Q, W_V, W_K, W_O, n_heads, _source(source_mask))


def cross_attention__wrong_out_only(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Returns out alone."""
    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))[0]


def cross_attention__wrong_results_swapped(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Returns (weights, out)."""
    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))[::-1]


def cross_attention__wrong_list(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """A list."""
    return list(_cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask)))


def cross_attention__wrong_scores_returned(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The scores before the softmax instead of the weights."""
    out, _ = _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))
    Q, K = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads)
    return out, Q @ K.mT / math.sqrt(Q.shape[-1])


def cross_attention__wrong_weights_averaged(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Averages the weights over the heads, as nn.MultiheadAttention does: (B, n, m)."""
    out, A = _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))
    return out, A.mean(dim=1)


def cross_attention__wrong_weights_transposed(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Weights (B, h, m, n)."""
    out, A = _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))
    return out, A.mT


def cross_attention__wrong_weights_heads_last(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Weights (B, n, m, h)."""
    out, A = _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))
    return out, A.permute(0, 2, 3, 1)


def cross_attention__wrong_weights_detached(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The weights are detached ("only for plotting")."""
    out, A = _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))
    return out, A.detach()


def cross_attention__wrong_weights_numpy(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The weights are a NumPy array."""
    out, A = _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))
    return out, A.detach().numpy()


def cross_attention__wrong_source_detached(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """No gradient into the encoder's output."""
    return _cross(X, Y.detach(), W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))


def cross_attention__wrong_no_scale(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Does not scale."""

    def weights(Q, K, mask):
        return _softmax(Q @ K.mT, mask)

    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask), weights)


def cross_attention__wrong_sqrt_d_source(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Divides by sqrt(d_source)."""

    def weights(Q, K, mask):
        return _softmax(Q @ K.mT / math.sqrt(Y.shape[-1]), mask)

    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask), weights)


def cross_attention__wrong_sqrt_d_model(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Divides by sqrt(d_model)."""

    def weights(Q, K, mask):
        return _softmax(Q @ K.mT / math.sqrt(X.shape[-1]), mask)

    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask), weights)


def cross_attention__wrong_sqrt_all_heads(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Divides by sqrt(h*d_head)."""

    def weights(Q, K, mask):
        return _softmax(Q @ K.mT / math.sqrt(W_Q.shape[1]), mask)

    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask), weights)


def cross_attention__wrong_softmax_over_queries(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Softmax over the target tokens, masked columns zeroed."""

    def weights(Q, K, mask):
        A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-2)
        return A if mask is None else A.masked_fill(~mask, 0.0)

    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask), weights)


def cross_attention__wrong_mask_inverted(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """True means padding, as key_padding_mask has it."""
    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, None if source_mask is None else _source(~source_mask))


def cross_attention__wrong_mask_ignored(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Forgets the mask."""
    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads)


def cross_attention__wrong_mask_without_axes(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Hands (B, m) over as it is: B is taken for the queries."""
    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask)


def cross_attention__wrong_mask_on_head_axis(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """One axis too few: (1, B, 1, m), the batch is taken for the heads."""
    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, None if source_mask is None else source_mask[:, None])


def cross_attention__wrong_mask_first_sequence(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The mask of the first sequence for all."""
    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, None if source_mask is None else source_mask[0])


def cross_attention__wrong_mask_on_values(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Zeroes the masked rows of Y instead of masking the scores: they keep their weight."""
    if source_mask is not None:
        Y = Y * source_mask[..., None]
    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads)


def cross_attention__wrong_mask_as_number(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Adds the mask to the scores as 0 and 1."""

    def weights(Q, K, mask):
        S = Q @ K.mT / math.sqrt(Q.shape[-1])
        return torch.softmax(S if mask is None else S + mask.to(S.dtype), dim=-1)

    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask), weights)


def cross_attention__wrong_mask_scores_zero(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Multiplies the scores with the mask: score 0 is not weight 0."""

    def weights(Q, K, mask):
        S = Q @ K.mT / math.sqrt(Q.shape[-1])
        return torch.softmax(S if mask is None else S * mask, dim=-1)

    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask), weights)


def cross_attention__wrong_not_renormalised(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Zeroes weights after the softmax: rows don't sum to 1."""

    def weights(Q, K, mask):
        A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
        return A if mask is None else A * mask

    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask), weights)


def cross_attention__wrong_empty_source_nan(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """NaN where the whole source is masked."""

    def weights(Q, K, mask):
        S = Q @ K.mT / math.sqrt(Q.shape[-1])
        return torch.softmax(S if mask is None else S.masked_fill(~mask, -math.inf), dim=-1)

    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask), weights)


def cross_attention__wrong_empty_source_uniform(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """-1e9: uniform weights where the whole source is masked."""

    def weights(Q, K, mask):
        S = Q @ K.mT / math.sqrt(Q.shape[-1])
        return torch.softmax(S if mask is None else S.masked_fill(~mask, -1e9), dim=-1)

    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask), weights)


def cross_attention__wrong_unstable(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """exp without subtracting the maximum."""

    def weights(Q, K, mask):
        E = torch.exp(Q @ K.mT / math.sqrt(Q.shape[-1]))
        E = E if mask is None else E * mask
        return E / E.sum(dim=-1, keepdim=True).clamp_min(1e-30)

    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask), weights)


def cross_attention__wrong_causal(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """A causal mask between target and source."""
    keep = torch.ones(X.shape[1], Y.shape[1], dtype=torch.bool).tril()
    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, keep if source_mask is None else keep & _source(source_mask))


def cross_attention__wrong_residual(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Adds X already here."""
    out, A = _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))
    return X + out, A


def cross_attention__wrong_no_w_o(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """No output projection."""
    return _cross(X, Y, W_Q, W_K, W_V, torch.eye(W_O.shape[0], dtype=X.dtype), n_heads, _source(source_mask))


def cross_attention__wrong_interleaved_heads(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Head i owns the columns i, i + h, ..."""
    Q, K, V = (T.unflatten(-1, (-1, n_heads)).permute(0, 3, 1, 2) for T in (X @ W_Q, Y @ W_K, Y @ W_V))
    A = _weights(Q, K, _source(source_mask))
    return _merge(A @ V) @ W_O, A


def cross_attention__wrong_reshape_only(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Reshapes to (B, h, n, d) without a transpose."""
    Q, K, V = (T.reshape(T.shape[0], n_heads, T.shape[1], -1) for T in (X @ W_Q, Y @ W_K, Y @ W_V))
    A = _weights(Q, K, _source(source_mask))
    return _merge(A @ V) @ W_O, A


def cross_attention__wrong_merge_reshape(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Merges the heads without a transpose."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    A = _weights(Q, K, _source(source_mask))
    return (A @ V).reshape(X.shape[0], X.shape[1], -1) @ W_O, A


def cross_attention__wrong_n_is_m(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Uses the target's length for the source too: fails for n != m."""
    B, n, _ = X.shape
    d = W_Q.shape[1] // n_heads
    Q, K, V = (T.view(B, n, n_heads, d).transpose(1, 2) for T in (X @ W_Q, Y @ W_K, Y @ W_V))
    A = _weights(Q, K, _source(source_mask))
    return _merge(A @ V) @ W_O, A


def cross_attention__wrong_d_head_from_d_model(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """d_head = d_model // n_heads."""
    d = X.shape[-1] // n_heads
    Q, K, V = (T.view(*T.shape[:2], n_heads, d).transpose(1, 2) for T in (X @ W_Q, Y @ W_K, Y @ W_V))
    A = _weights(Q, K, _source(source_mask))
    return _merge(A @ V) @ W_O, A


def cross_attention__wrong_one_head(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """One big head; the weights are repeated for the shape."""
    out, A = _cross(X, Y, W_Q, W_K, W_V, W_O, 1, _source(source_mask))
    return out, A.expand(-1, n_heads, -1, -1)


def cross_attention__wrong_first_sequence(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Every target sequence asks the first source."""
    return _cross(X, Y[:1].expand_as(Y), W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))


def cross_attention__wrong_library(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The output comes from scaled_dot_product_attention."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    out = torch.nn.functional.scaled_dot_product_attention(Q, K, V, attn_mask=_source(source_mask))
    return _merge(out) @ W_O, _weights(Q, K, _source(source_mask))


def cross_attention__wrong_float32(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Everything in float32."""
    return _cross(*(T.float() for T in (X, Y, W_Q, W_K, W_V, W_O)), n_heads, _source(source_mask))


def cross_attention__wrong_weights_float64(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The weights come back in float64."""
    out, A = _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))
    return out, A.double()


def cross_attention__wrong_source_zeroed_in_place(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Writes zeros into the masked rows of Y itself."""
    if source_mask is not None:
        Y.data[~source_mask] = 0
    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))


# -------------------------------------------------------------------------------------------------------- decoder_layer


def _causal(X):
    """(n, n), True on and under the diagonal."""
    return torch.ones(X.shape[1], X.shape[1], dtype=torch.bool, device=X.device).tril()


def _parts(params, prefix):
    """The four weights of one attention."""
    return [params[f"{prefix}_W_{c}"] for c in "QKVO"]


def _layer(X, Y, params, n_heads, source_mask=None, self_weights=_weights, cross_weights=_weights):
    """The layer with exchangeable weights of both attentions."""
    X = X + _cross(X, X, *_parts(params, "self"), n_heads, _causal(X), self_weights)[0]
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask), cross_weights)[0]


def decoder_layer__right_plain(X, Y, params, n_heads, source_mask=None):
    """Causal self-attention, then cross-attention, each added."""
    n = X.shape[1]
    causal = torch.tril(torch.ones(n, n, dtype=torch.bool))
    Q, K, V = (_split(X @ params["self_W_" + c], n_heads) for c in "QKV")
    X = X + _merge(_weights(Q, K, causal) @ V) @ params["self_W_O"]
    p = params
    out, _ = cross_attention__right_plain(
        X, Y, p["cross_W_Q"], p["cross_W_K"], p["cross_W_V"], p["cross_W_O"], n_heads, source_mask
    )
    return X + out


def decoder_layer__right_prefix_loop(X, Y, params, n_heads, source_mask=None):
    """One loop over the two attentions; prints."""
    for prefix in ("self", "cross"):
        source = X if prefix == "self" else Y
        mask = _causal(X) if prefix == "self" else _source(source_mask)
        X = X + _cross(X, source, *_parts(params, prefix), n_heads, mask)[0]
        print(prefix, tuple(X.shape))
    return X


def decoder_layer__right_token_by_token(X, Y, params, n_heads, source_mask=None):
    """Self-attention one token at a time over the tokens so far: no causal mask at all."""
    rows = []
    for t in range(X.shape[1]):
        x = X[:, t : t + 1]
        x = x + _cross(x, X[:, : t + 1], *_parts(params, "self"), n_heads)[0]
        rows.append(x + _cross(x, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0])
    return torch.cat(rows, dim=1)


def decoder_layer__right_additive_mask(X, Y, params, n_heads, source_mask=None):
    """-inf added over the diagonal, scores by einsum."""
    n = X.shape[1]
    W_Q, W_K, W_V, W_O = _parts(params, "self")
    Q, K, V = ((X @ W).unflatten(-1, (n_heads, -1)) for W in (W_Q, W_K, W_V))
    S = torch.einsum("bnhd,bmhd->bhnm", Q, K) / math.sqrt(Q.shape[-1])
    S = S + torch.full((n, n), -math.inf, dtype=S.dtype).triu(1)
    H = X + torch.einsum("bhnm,bmhd->bnhd", S.softmax(-1), V).flatten(2) @ W_O
    return cross_attention__right_einsum(H, Y, *_parts(params, "cross"), n_heads, source_mask)[0] + H


def decoder_layer__right_past_as_source(X, Y, params, n_heads, source_mask=None):
    """Target tokens folded into the batch: each asks the whole target, the mask of the source hides what is later."""
    B, n, d = X.shape
    own, cross = ([params[f"{kind}_W_{role}"] for role in "QKVO"] for kind in ("self", "cross"))
    past = torch.ones(n, n).tril().bool().repeat(B, 1)
    read, _ = _cross(X.reshape(B * n, 1, d), X.repeat_interleave(n, 0), *own, n_heads, _source(past))
    X_1 = X + read.reshape(B, n, d)
    return X_1 + _cross(X_1, Y, *cross, n_heads, _source(source_mask))[0]


def decoder_layer__right_float64_inside(X, Y, params, n_heads, source_mask=None):
    """float64 inside, cast back; a new dict, the given one is untouched."""
    wide = {name: W.double() for name, W in params.items()}
    return _layer(X.double(), Y.double(), wide, n_heads, source_mask).to(X.dtype)


def decoder_layer__right_head_loops(X, Y, params, n_heads, source_mask=None):
    """Loops over heads for both attentions; warns."""
    warnings.warn("slow", stacklevel=2)

    def attend(A, B, prefix, keep):
        W_Q, W_K, W_V, W_O = _parts(params, prefix)
        d = W_Q.shape[1] // n_heads
        total = torch.zeros_like(A)
        for i in range(n_heads):
            c = slice(i * d, i * d + d)
            S = torch.bmm(A @ W_Q[:, c], (B @ W_K[:, c]).transpose(1, 2)) / d**0.5
            total = total + torch.bmm(_softmax(S, keep), B @ W_V[:, c]) @ W_O[c]
        return total

    H = attend(X, X, "self", torch.ge(torch.arange(X.shape[1])[:, None], torch.arange(X.shape[1])))
    H = X + H
    return torch.add(H, attend(H, Y, "cross", None if source_mask is None else source_mask.unsqueeze(1)))


def decoder_layer__right_batch_loop(X, Y, params, n_heads, source_mask=None):
    """One sequence at a time, stacked."""
    rows = []
    for b in range(X.shape[0]):
        keep = None if source_mask is None else source_mask[b : b + 1]
        rows.append(_layer(X[b : b + 1], Y[b : b + 1], params, n_heads, keep)[0])
    return torch.stack(rows)


def decoder_layer__wrong_not_causal(X, Y, params, n_heads, source_mask=None):
    """Self-attention sees the future."""
    X = X + _cross(X, X, *_parts(params, "self"), n_heads)[0]
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


def decoder_layer__wrong_anti_causal(X, Y, params, n_heads, source_mask=None):
    """triu: sees only the future and itself."""
    X = X + _cross(X, X, *_parts(params, "self"), n_heads, _causal(X).T)[0]
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


def decoder_layer__wrong_inverted_causal(X, Y, params, n_heads, source_mask=None):
    """The causal mask inverted: strictly the future."""
    X = X + _cross(X, X, *_parts(params, "self"), n_heads, ~_causal(X))[0]
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


def decoder_layer__wrong_strictly_causal(X, Y, params, n_heads, source_mask=None):
    """A token does not see itself (diagonal=-1)."""
    X = X + _cross(X, X, *_parts(params, "self"), n_heads, _causal(X).tril(-1))[0]
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


def decoder_layer__wrong_one_token_ahead(X, Y, params, n_heads, source_mask=None):
    """diagonal=1: sees the next token."""
    keep = torch.ones(X.shape[1], X.shape[1], dtype=torch.bool).tril(1)
    X = X + _cross(X, X, *_parts(params, "self"), n_heads, keep)[0]
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


def decoder_layer__wrong_parallel(X, Y, params, n_heads, source_mask=None):
    """Both attentions ask with X: the cross-attention does not see the result of the first."""
    a = _cross(X, X, *_parts(params, "self"), n_heads, _causal(X))[0]
    return X + a + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


def decoder_layer__wrong_no_first_residual(X, Y, params, n_heads, source_mask=None):
    """Forgets the first residual."""
    X = _cross(X, X, *_parts(params, "self"), n_heads, _causal(X))[0]
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


def decoder_layer__wrong_no_second_residual(X, Y, params, n_heads, source_mask=None):
    """Returns the cross-attention alone."""
    X = X + _cross(X, X, *_parts(params, "self"), n_heads, _causal(X))[0]
    return _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


def decoder_layer__wrong_second_residual_from_x(X, Y, params, n_heads, source_mask=None):
    """The second residual adds the X of the beginning: the self-attention's share is lost."""
    H = X + _cross(X, X, *_parts(params, "self"), n_heads, _causal(X))[0]
    return X + _cross(H, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


def decoder_layer__wrong_residual_twice(X, Y, params, n_heads, source_mask=None):
    """Adds X once more at the end."""
    return X + _layer(X, Y, params, n_heads, source_mask)


def decoder_layer__wrong_order(X, Y, params, n_heads, source_mask=None):
    """Cross-attention first."""
    X = X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]
    return X + _cross(X, X, *_parts(params, "self"), n_heads, _causal(X))[0]


def decoder_layer__wrong_source_mask_ignored(X, Y, params, n_heads, source_mask=None):
    """Forgets the mask of the source."""
    return _layer(X, Y, params, n_heads)


def decoder_layer__wrong_source_mask_inverted(X, Y, params, n_heads, source_mask=None):
    """The mask of the source the wrong way round."""
    return _layer(X, Y, params, n_heads, None if source_mask is None else ~source_mask)


def decoder_layer__wrong_source_mask_on_self(X, Y, params, n_heads, source_mask=None):
    """Masks the self-attention with the source's mask as well: fails for n != m."""
    keep = _causal(X) if source_mask is None else _causal(X) & _source(source_mask)
    X = X + _cross(X, X, *_parts(params, "self"), n_heads, keep)[0]
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


def decoder_layer__wrong_cross_causal(X, Y, params, n_heads, source_mask=None):
    """The cross-attention is causal too."""
    keep = torch.ones(X.shape[1], Y.shape[1], dtype=torch.bool).tril()
    keep = keep if source_mask is None else keep & _source(source_mask)
    X = X + _cross(X, X, *_parts(params, "self"), n_heads, _causal(X))[0]
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, keep)[0]


def decoder_layer__wrong_pair(X, Y, params, n_heads, source_mask=None):
    """Returns (out, weights)."""
    X = X + _cross(X, X, *_parts(params, "self"), n_heads, _causal(X))[0]
    out, A = _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))
    return X + out, A


def decoder_layer__wrong_same_d_head(X, Y, params, n_heads, source_mask=None):
    """Scales both attentions with the d_head of the first."""
    root = math.sqrt(params["self_W_Q"].shape[1] // n_heads)
    return _layer(X, Y, params, n_heads, source_mask, cross_weights=lambda Q, K, m: _softmax(Q @ K.mT / root, m))


def decoder_layer__wrong_same_d_head_for_split(X, Y, params, n_heads, source_mask=None):
    """Cuts the heads of both attentions with one d_head: fails where they differ."""
    d = params["self_W_Q"].shape[1] // n_heads

    def attend(A, B, prefix, mask):
        W_Q, W_K, W_V, W_O = _parts(params, prefix)
        Q, K, V = (T.view(*T.shape[:2], n_heads, d).transpose(1, 2) for T in (A @ W_Q, B @ W_K, B @ W_V))
        return _merge(_weights(Q, K, mask) @ V) @ W_O

    X = X + attend(X, X, "self", _causal(X))
    return X + attend(X, Y, "cross", _source(source_mask))


def decoder_layer__wrong_no_scale_self(X, Y, params, n_heads, source_mask=None):
    """The self-attention is not scaled."""
    return _layer(X, Y, params, n_heads, source_mask, self_weights=lambda Q, K, m: _softmax(Q @ K.mT, m))


def decoder_layer__wrong_no_scale_cross(X, Y, params, n_heads, source_mask=None):
    """The cross-attention is not scaled."""
    return _layer(X, Y, params, n_heads, source_mask, cross_weights=lambda Q, K, m: _softmax(Q @ K.mT, m))


def decoder_layer__wrong_self_twice(X, Y, params, n_heads, source_mask=None):
    """Self-attention applied twice before the cross-attention."""
    X = X + _cross(X, X, *_parts(params, "self"), n_heads, _causal(X))[0]
    return _layer(X, Y, params, n_heads, source_mask)


def decoder_layer__wrong_layer_norm(X, Y, params, n_heads, source_mask=None):
    """Normalises after each addition ("that's how a decoder is built")."""
    d = X.shape[-1:]
    X = torch.nn.functional.layer_norm(X + _cross(X, X, *_parts(params, "self"), n_heads, _causal(X))[0], d)
    out = _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]
    return torch.nn.functional.layer_norm(X + out, d)


def decoder_layer__wrong_relu(X, Y, params, n_heads, source_mask=None):
    """A ReLU at the end ("a bit of FFN")."""
    return torch.relu(_layer(X, Y, params, n_heads, source_mask))


def decoder_layer__wrong_cross_kv_swapped(X, Y, params, n_heads, source_mask=None):
    """The cross-attention mixes up K and V of the source."""
    p = params
    X = X + _cross(X, X, *_parts(params, "self"), n_heads, _causal(X))[0]
    ws = (p["cross_W_Q"], p["cross_W_V"], p["cross_W_K"], p["cross_W_O"])
    return X + _cross(X, Y, *ws, n_heads, _source(source_mask))[0]


def decoder_layer__wrong_empty_source_nan(X, Y, params, n_heads, source_mask=None):
    """NaN where the whole source is masked."""

    def weights(Q, K, m):
        S = Q @ K.mT / math.sqrt(Q.shape[-1])
        return (S if m is None else S.masked_fill(~m, -math.inf)).softmax(-1)

    return _layer(X, Y, params, n_heads, source_mask, cross_weights=weights)


def decoder_layer__wrong_empty_source_uniform(X, Y, params, n_heads, source_mask=None):
    """Uniform weights where the whole source is masked."""

    def weights(Q, K, m):
        S = Q @ K.mT / math.sqrt(Q.shape[-1])
        return (S if m is None else S.masked_fill(~m, -1e9)).softmax(-1)

    return _layer(X, Y, params, n_heads, source_mask, cross_weights=weights)


def decoder_layer__wrong_causal_after_softmax(X, Y, params, n_heads, source_mask=None):
    """The causal mask after the softmax: rows don't sum to 1."""

    def weights(Q, K, m):
        return (Q @ K.mT / math.sqrt(Q.shape[-1])).softmax(-1) * m

    return _layer(X, Y, params, n_heads, source_mask, self_weights=weights)


def decoder_layer__wrong_tril_of_scores(X, Y, params, n_heads, source_mask=None):
    """tril of the scores: the future has score 0, not weight 0."""

    def weights(Q, K, m):
        return (Q @ K.mT / math.sqrt(Q.shape[-1])).tril().softmax(-1)

    return _layer(X, Y, params, n_heads, source_mask, self_weights=weights)


def decoder_layer__wrong_weak_mask(X, Y, params, n_heads, source_mask=None):
    """-100 on the future: too weak for big scores."""

    def weights(Q, K, m):
        return (Q @ K.mT / math.sqrt(Q.shape[-1]) - 100.0 * ~m).softmax(-1)

    return _layer(X, Y, params, n_heads, source_mask, self_weights=weights)


def decoder_layer__wrong_in_place(X, Y, params, n_heads, source_mask=None):
    """X += ... on the input's memory."""
    H = X.data
    H += _cross(X, X, *_parts(params, "self"), n_heads, _causal(X))[0].detach()
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


def decoder_layer__wrong_pops_params(X, Y, params, n_heads, source_mask=None):
    """Pops the weights from the dict: a second call with it fails."""
    ws = [params.pop(f"self_W_{c}") for c in "QKVO"]
    X = X + _cross(X, X, *ws, n_heads, _causal(X))[0]
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


def decoder_layer__wrong_detached_source(X, Y, params, n_heads, source_mask=None):
    """No gradient into the encoder."""
    return _layer(X, Y.detach(), params, n_heads, source_mask)


def decoder_layer__wrong_no_grad(X, Y, params, n_heads, source_mask=None):
    """Under no_grad."""
    with torch.no_grad():
        return _layer(X, Y, params, n_heads, source_mask)


def decoder_layer__wrong_float32(X, Y, params, n_heads, source_mask=None):
    """Everything in float32."""
    return _layer(X.float(), Y.float(), {k: W.float() for k, W in params.items()}, n_heads, source_mask)


def decoder_layer__wrong_hard_coded_mask(X, Y, params, n_heads, source_mask=None):
    """A causal mask of 4 tokens: later tokens see everything, earlier ones are cut to size."""
    n = X.shape[1]
    keep = torch.ones(n, n, dtype=torch.bool)
    keep[:4, :4] = keep[:4, :4].tril()
    X = X + _cross(X, X, *_parts(params, "self"), n_heads, keep)[0]
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


# ----------------------------------------------------------------------------------------------- catches_wrong_decoder


def _layer_inputs(seed, B, n, m, h, d_self, d_cross, mask="none", dtype=torch.float64):
    """Random X, Y, params, n_heads and a mask: none, holes, padding, or holes and one empty row."""
    g = torch.Generator().manual_seed(seed)

    def rand(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype)

    d, s, params = 8, 6, {}
    for part, width, source in (("self", h * d_self, d), ("cross", h * d_cross, s)):
        for role, rows in (("Q", d), ("K", source), ("V", source)):
            params[f"{part}_W_{role}"] = rand(rows, width) / math.sqrt(rows)
        params[f"{part}_W_O"] = rand(width, d) / math.sqrt(width)
    allowed = None
    if mask == "padding":
        allowed = torch.arange(m) < torch.tensor([[m - b % m] for b in range(B)])
    elif mask != "none":
        allowed = torch.rand(B, m, generator=g) < 0.6
        allowed[:, -1] = True
        if mask == "empty":
            allowed[0] = False
    return rand(B, n, d), rand(B, m, s), params, h, allowed


def _differs(found, right, tolerance=1e-6):
    if found.shape != right.shape or not torch.isfinite(found).all():
        return True
    return bool((found - right).abs().max() > tolerance * right.abs().max())


def _sizes():
    yield 3, 7, 10, 2, 4, 3, "none"
    yield 4, 7, 5, 3, 2, 4, "holes"
    yield 3, 6, 9, 2, 3, 5, "empty"
    yield 3, 3, 3, 3, 2, 3, "holes"
    yield 2, 1, 1, 4, 3, 2, "holes"


def catches_wrong_decoder__right_beside_my_own(layer):
    """Several random inputs of every kind, compared with my own layer."""
    for seed, sizes in enumerate(_sizes()):
        inputs = _layer_inputs(seed, *sizes)
        try:
            found = layer(*inputs)
        except ValueError:
            return True
        if _differs(found, decoder_layer__right_plain(*inputs)):
            return True
    return False


def catches_wrong_decoder__right_many_sizes(layer):
    """All calls at once, and a verdict at the end; a 0-d tensor is returned."""
    wrong = torch.tensor(False)
    grid = zip(
        (1, 4, 6, 4, 1),
        (1, 7, 8, 4, 9),
        (1, 6, 11, 4, 12),
        (3, 2, 3, 4, 2),
        ("none", "holes", "empty", "holes", "none"),
    )
    for seed, (B, n, m, h, mask) in enumerate(grid):
        inputs = _layer_inputs(seed, B, n, m, h, 2 + seed % 3, 3 + seed % 2, mask)
        try:
            wrong = wrong | _differs(layer(*inputs), decoder_layer__right_prefix_loop(*inputs), 1e-7)
        except ValueError:
            wrong = wrong | True
    return wrong


def catches_wrong_decoder__right_numpy_loops(layer):
    """Head by head and token by token in NumPy."""

    def attend(x, rows, W_Q, W_K, W_V, W_O, h):
        out, d = np.zeros(W_O.shape[1]), W_Q.shape[1] // h
        for k in range(h if len(rows) else 0):
            c = slice(k * d, (k + 1) * d)
            s = (rows @ W_K[:, c]) @ (x @ W_Q[:, c]) / np.sqrt(d)
            e = np.exp(s - s.max())
            out += e @ (rows @ W_V[:, c]) / e.sum() @ W_O[c]
        return out

    for seed, sizes in enumerate(_sizes()):
        X, Y, params, h, mask = _layer_inputs(seed + 50, *sizes)
        P = {name: W.numpy() for name, W in params.items()}
        own, cross = ([P[f"{part}_W_{c}"] for c in "QKVO"] for part in ("self", "cross"))
        right = X.numpy().copy()
        for b, (x, y) in enumerate(zip(X.numpy(), Y.numpy(), strict=True)):
            y = y if mask is None else y[mask[b].numpy()]
            for i in range(len(x)):
                right[b, i] += attend(x[i], x[: i + 1], *own, h)
                right[b, i] += attend(right[b, i], y, *cross, h)
        try:
            found = layer(X, Y, params, h, mask).numpy()
        except ValueError:
            return np.bool_(True)
        if found.shape != right.shape or not np.allclose(found, right, rtol=1e-5, atol=1e-6):
            return np.bool_(True)
    return np.bool_(False)


def catches_wrong_decoder__right_token_by_token(layer):
    """No layer of my own: one head of one token at a time, where the formula is one line; sources are cut, not masked."""

    def one(x, rows, P, part, k, h):
        d = P[f"{part}_W_Q"].shape[1] // h
        c = slice(k * d, (k + 1) * d)
        W_Q, W_K, W_V = (P[f"{part}_W_{role}"][:, c] for role in "QKV")
        s = (rows @ W_K) @ (x @ W_Q) / math.sqrt(d)
        return torch.softmax(s, 0) @ (rows @ W_V) @ P[f"{part}_W_O"][c]

    for seed, sizes in enumerate(_sizes()):
        X, Y, P, h, mask = _layer_inputs(seed, *sizes)
        try:
            out = layer(X, Y, P, h, mask)
        except ValueError:
            return True
        if out.shape != X.shape:
            return True
        for b in range(len(X)):
            x, y = X[b], Y[b] if mask is None else Y[b, mask[b]]
            for i in range(len(x)):
                x_1 = x[i] + sum(one(x[i], x[: i + 1], P, "self", k, h) for k in range(h))
                right = x_1 + (sum(one(x_1, y, P, "cross", k, h) for k in range(h)) if len(y) else 0)
                if _differs(out[b, i], right, 1e-7):
                    return True
    return False


def catches_wrong_decoder__right_in_one_go(layer):
    """Two rich inputs, one of them without its mask as well, and a small one; NaN fails a comparison."""
    for seed, sizes in enumerate(
        ((5, 8, 11, 3, 4, 2, "empty"), (4, 4, 4, 4, 2, 3, "holes"), (2, 1, 1, 2, 2, 3, "none"))
    ):
        X, Y, params, h, mask = _layer_inputs(seed + 9, *sizes)
        right = decoder_layer__right_head_loops(X, Y, params, h, mask)
        try:
            found = layer(X, Y, params, h, source_mask=mask)
            near = bool(((found - right).abs() <= 1e-6 * right.abs().max()).all())
        except Exception:
            near = False
        if not near:
            return True
        if seed == 0 and not torch.allclose(layer(X, Y, params, h), decoder_layer__right_head_loops(X, Y, params, h)):
            return True
    return False


def catches_wrong_decoder__wrong_always(layer):
    """Accuses every layer."""
    return True


def catches_wrong_decoder__wrong_never(layer):
    """Accuses no layer."""
    return False


def catches_wrong_decoder__wrong_shape_and_nan(layer):
    """Looks at the shape and for NaN, and not at numbers."""
    for seed, sizes in enumerate(_sizes()):
        inputs = _layer_inputs(seed, *sizes)
        try:
            found = layer(*inputs)
        except ValueError:
            return True
        if found.shape != inputs[0].shape or found.isnan().any():
            return True
    return False


def _beside(layer, all_sizes, tolerance=1e-6, **how):
    """The layer beside mine on these sizes."""
    for seed, sizes in enumerate(all_sizes):
        inputs = _layer_inputs(seed, *sizes, **how)
        try:
            if _differs(layer(*inputs), decoder_layer__right_plain(*inputs), tolerance):
                return True
        except ValueError:
            return True
    return False


def catches_wrong_decoder__wrong_one_sequence(layer):
    """Never more than one sequence in a batch."""
    return _beside(layer, [(1, *rest) for _, *rest in _sizes()])


def catches_wrong_decoder__wrong_no_mask(layer):
    """Never hands over a mask."""
    return _beside(layer, [(*sizes, "none") for *sizes, _ in _sizes()])


def catches_wrong_decoder__wrong_padding_at_the_end(layer):
    """All masks are padding at the end, no row is empty."""
    return _beside(layer, [(*sizes, "padding") for *sizes, _ in _sizes()])


def catches_wrong_decoder__wrong_square(layer):
    """As many source tokens as target tokens."""
    return _beside(layer, [(B, n, n, *rest) for B, n, _, *rest in _sizes()])


def catches_wrong_decoder__wrong_three_tokens(layer):
    """No target longer than three tokens."""
    return _beside(layer, [(B, min(n, 3), *rest) for B, n, *rest in _sizes()])


def catches_wrong_decoder__wrong_all_sizes_differ(layer):
    """No two sizes are the same."""
    return _beside(
        layer, [sizes if sizes[1] != sizes[2] or sizes[1] == 1 else (5, 4, 6, *sizes[3:]) for sizes in _sizes()]
    )


def catches_wrong_decoder__wrong_single_head(layer):
    """One head each time."""
    return _beside(layer, [(B, n, m, 1, *rest) for B, n, m, _, *rest in _sizes()])


def catches_wrong_decoder__wrong_same_width(layer):
    """Both attentions have heads of one width."""
    return _beside(layer, [(B, n, m, h, d, d, mask) for B, n, m, h, d, _, mask in _sizes()])


def catches_wrong_decoder__wrong_one_plain_input(layer):
    """One ordinary input, without a mask."""
    return _beside(layer, [(2, 4, 4, 2, 4, 4, "none")])


def catches_wrong_decoder__wrong_no_single_token(layer):
    """No sequence of one token, on either side."""
    return _beside(layer, list(_sizes())[:4])


def catches_wrong_decoder__wrong_exact(layer):
    """Compares floating point numbers for equality."""
    for seed, sizes in enumerate(_sizes()):
        inputs = _layer_inputs(seed, *sizes)
        try:
            if not torch.equal(layer(*inputs), decoder_layer__right_plain(*inputs)):
                return True
        except ValueError:
            return True
    return False


def catches_wrong_decoder__wrong_loose(layer):
    """Accepts differences of a tenth."""
    return _beside(layer, _sizes(), 0.1)


def catches_wrong_decoder__wrong_float32(layer):
    """Hands over float32, which no box takes."""
    return _beside(layer, _sizes(), 1e-4, dtype=torch.float32)


def catches_wrong_decoder__wrong_causality_only(layer):
    """Looks for a leak of the future and for nothing else."""
    X, Y, params, h, mask = _layer_inputs(0, 3, 7, 5, 2, 3, 4, "holes")
    before = layer(X, Y, params, h, mask)
    for t in range(1, 7):
        later = X.clone()
        later[:, t:] += 1
        if (layer(later, Y, params, h, mask) - before)[:, :t].abs().max() > 1e-6:
            return True
    return False


def catches_wrong_decoder__wrong_error_escapes(layer):
    """What a layer raises is not caught."""
    for seed, sizes in enumerate(_sizes()):
        inputs = _layer_inputs(seed, *sizes)
        if _differs(layer(*inputs), decoder_layer__right_plain(*inputs)):
            return True
    return False


def catches_wrong_decoder__wrong_nan_slips_through(layer):
    """NaN is not larger than the tolerance."""
    for seed, sizes in enumerate(_sizes()):
        inputs = _layer_inputs(seed, *sizes)
        try:
            if (layer(*inputs) - decoder_layer__right_plain(*inputs)).abs().max() > 1e-6:
                return True
        except ValueError:
            return True
    return False


def catches_wrong_decoder__wrong_too_many_calls(layer):
    """Asks five hundred times, and takes the refusal for an error of the layer."""
    return _beside(layer, [sizes for _ in range(80) for sizes in _sizes()])


def catches_wrong_decoder__wrong_inverted(layer):
    """True means right."""
    return not _beside(layer, _sizes())


def catches_wrong_decoder__wrong_means(layer):
    """Compares the mean over all features and tokens, to a hundredth."""
    for seed, sizes in enumerate(_sizes()):
        inputs = _layer_inputs(seed, *sizes)
        try:
            if not (layer(*inputs).mean() - decoder_layer__right_plain(*inputs).mean()).abs() < 1e-2:
                return True
        except ValueError:
            return True
    return False


# ------------------------------------------------------------------------------------------------------------ alignment


def alignment__right_mean_argmax(weights):
    """Mean over heads, argmax over the source."""
    return weights.mean(dim=1).argmax(dim=-1)


def alignment__right_sum_argmax(weights):
    """The sum has the same argmax."""
    return torch.argmax(weights.sum(dim=1), dim=2)


def alignment__right_einsum_max(weights):
    """Einsum for the mean, .max(...).indices."""
    return (torch.einsum("bhnm->bnm", weights) / weights.shape[1]).max(dim=-1).indices


def alignment__right_numpy(weights):
    """By way of NumPy."""
    return torch.from_numpy(weights.numpy().mean(1).argmax(-1))


def alignment__right_loops(weights):
    """Plain loops with a strict comparison: the first one stays."""
    A = weights.mean(dim=1).tolist()
    rows = []
    for sequence in A:
        row = []
        for values in sequence:
            best = 0
            for j, value in enumerate(values):
                if value > values[best]:
                    best = j
            row.append(best)
        rows.append(row)
    return torch.tensor(rows)


def alignment__right_stable_sort_int32(weights):
    """A stable sort, first place; int32; prints."""
    order = weights.mean(dim=1).sort(dim=-1, descending=True, stable=True).indices
    print("aligned", tuple(order.shape))
    return order[..., 0].to(torch.int32)


def alignment__right_first_of_the_largest(weights):
    """Smallest index among the places that hold the maximum."""
    A = weights.mean(dim=1)
    m = A.shape[-1]
    index = torch.arange(m).expand_as(A)
    return torch.where(A.amax(dim=-1, keepdim=True) == A, index, torch.full_like(index, m)).amin(dim=-1)


def alignment__right_running_best(weights):
    """Runs over the source columns and keeps the best place so far; warns."""
    warnings.warn("column by column", stacklevel=2)
    A = weights.mean(dim=1)
    best, top = torch.zeros(A.shape[:2], dtype=torch.long, device=A.device), A[..., 0]
    for j in range(1, A.shape[-1]):
        better = A[..., j] > top
        best, top = torch.where(better, j, best), torch.where(better, A[..., j], top)
    return best


def alignment__right_counting_running_maximum(weights):
    """Counts how often the running maximum is still below the final one."""
    A = weights.mean(dim=1)
    return (A.cummax(dim=-1).values < A.amax(dim=-1, keepdim=True)).sum(dim=-1)


def alignment__wrong_first_head(weights):
    """The first head only."""
    return weights[:, 0].argmax(dim=-1)


def alignment__wrong_last_head(weights):
    """The last head only."""
    return weights[:, -1].argmax(dim=-1)


def alignment__wrong_max_over_heads(weights):
    """The largest weight of any head instead of the mean."""
    return weights.amax(dim=1).argmax(dim=-1)


def alignment__wrong_majority(weights):
    """A vote of the heads."""
    return weights.argmax(dim=-1).mode(dim=1).values


def alignment__wrong_mean_of_argmax(weights):
    """Averages the positions of the heads."""
    return weights.argmax(dim=-1).float().mean(dim=1).round().long()


def alignment__wrong_per_head(weights):
    """No averaging: (B, h, n)."""
    return weights.argmax(dim=-1)


def alignment__wrong_target_axis(weights):
    """argmax over the target tokens: (B, m)."""
    return weights.mean(dim=1).argmax(dim=1)


def alignment__wrong_mean_over_targets(weights):
    """Averages over the targets: (B, h)."""
    return weights.mean(dim=2).argmax(dim=-1)


def alignment__wrong_mean_over_batch(weights):
    """Averages over the batch: (h, n)."""
    return weights.mean(dim=0).argmax(dim=-1)


def alignment__wrong_best_head(weights):
    """argmax over the heads after a maximum over the source: which head, not which token."""
    return weights.amax(dim=-1).argmax(dim=1)


def alignment__wrong_argmin(weights):
    """The token with least attention."""
    return weights.mean(dim=1).argmin(dim=-1)


def alignment__wrong_values(weights):
    """The largest weight, not its place."""
    return weights.mean(dim=1).amax(dim=-1)


def alignment__wrong_max_pair(weights):
    """Values and indices."""
    return weights.mean(dim=1).max(dim=-1)


def alignment__wrong_float(weights):
    """Indices as floats."""
    return weights.mean(dim=1).argmax(dim=-1).to(weights.dtype)


def alignment__wrong_one_based(weights):
    """Counts from 1."""
    return weights.mean(dim=1).argmax(dim=-1) + 1


def alignment__wrong_flat(weights):
    """argmax without dim: one number."""
    return weights.mean(dim=1).argmax()


def alignment__wrong_flat_per_sequence(weights):
    """One number per sequence, repeated for all tokens."""
    A = weights.mean(dim=1)
    best = A.flatten(1).argmax(dim=-1) % A.shape[-1]
    return best[:, None].expand(-1, A.shape[1])


def alignment__wrong_keepdim(weights):
    """(B, n, 1)."""
    return weights.mean(dim=1).argmax(dim=-1, keepdim=True)


def alignment__wrong_transposed(weights):
    """(n, B)."""
    return weights.mean(dim=1).argmax(dim=-1).T


def alignment__wrong_batch_one(weights):
    """The first sequence alone: (n,)."""
    return weights[0].mean(dim=0).argmax(dim=-1)


def alignment__wrong_squeezed(weights):
    """squeeze(): loses the batch or the token axis where it is 1."""
    return weights.mean(dim=1).argmax(dim=-1).squeeze()


def alignment__wrong_one_hot(weights):
    """One-hot rows: (B, n, m)."""
    A = weights.mean(dim=1)
    return torch.nn.functional.one_hot(A.argmax(dim=-1), A.shape[-1])


def alignment__wrong_product(weights):
    """The product of the heads (geometric mean)."""
    return weights.prod(dim=1).argmax(dim=-1)


def alignment__wrong_median(weights):
    """The median of the heads."""
    return weights.median(dim=1).values.argmax(dim=-1)


def alignment__wrong_monotone(weights):
    """Makes the alignment monotone."""
    return weights.mean(dim=1).argmax(dim=-1).cummax(dim=-1).values


def alignment__wrong_rounded(weights):
    """Rounds the mean to one digit first: close values become ties."""
    return (weights.mean(dim=1) * 10).round().argmax(dim=-1)


def alignment__wrong_expected_position(weights):
    """The mean position instead of the most likely one."""
    m = weights.shape[-1]
    return (weights.mean(dim=1) @ torch.arange(m, dtype=weights.dtype)).round().long()


def alignment__wrong_first_token_skipped(weights):
    """Leaves source token 0 out."""
    return weights.mean(dim=1)[..., 1:].argmax(dim=-1) + 1 if weights.shape[-1] > 1 else weights.mean(1).argmax(-1)


def alignment__wrong_list(weights):
    """Nested lists."""
    return weights.mean(dim=1).argmax(dim=-1).tolist()


def alignment__wrong_squared(weights):
    """The mean of the squares."""
    return weights.square().mean(dim=1).argmax(dim=-1)


def alignment__wrong_in_place_mean(weights):
    """Collects the heads in weights[:, 0] itself."""
    total = weights.data[:, 0]
    for i in range(1, weights.shape[1]):
        total += weights.data[:, i]
    return total.argmax(dim=-1)


def alignment__wrong_none(weights):
    """Prints it."""
    print(weights.mean(dim=1).argmax(dim=-1))


# -------------------------------------------------------------------------------------------------------- greedy_decode


def greedy_decode__right_while(next_logits, start, end, max_len):
    """The plain one."""
    tokens = [start]
    while len(tokens) < max_len:
        best = int(torch.argmax(torch.as_tensor(next_logits(tokens))))
        tokens.append(best)
        if best == end:
            break
    return tokens


def greedy_decode__right_recursion(next_logits, start, end, max_len):
    """Recursion over the tokens so far, a new list for each call."""

    def grow(tokens):
        if len(tokens) >= max_len or (len(tokens) > 1 and tokens[-1] == end):
            return tokens
        logits = torch.as_tensor(next_logits(list(tokens)))
        return grow([*tokens, logits.argmax().item()])

    return grow([start])


def greedy_decode__right_python_max(next_logits, start, end, max_len):
    """Python's max with a key: first of the largest; for/break."""
    out = [start]
    for _ in range(max_len - 1):
        logits = torch.as_tensor(next_logits(out.copy())).tolist()
        out += [max(range(len(logits)), key=logits.__getitem__)]
        if out[-1] == end:
            return out
    return out


def greedy_decode__right_sorted(next_logits, start, end, max_len):
    """Sorts (minus logit, id); prints."""
    tokens, done = [start], max_len <= 1
    while not done:
        pairs = sorted((-float(v), i) for i, v in enumerate(next_logits(tokens)))
        tokens.append(pairs[0][1])
        done = tokens[-1] == end or len(tokens) == max_len
    print(tokens)
    return tokens


def greedy_decode__right_numpy_flatnonzero(next_logits, start, end, max_len):
    """NumPy: the first place that holds the maximum; warns."""
    warnings.warn("greedy", stacklevel=2)
    tokens = [int(start)]
    for _ in range(max_len - 1):
        values = np.array(torch.as_tensor(next_logits(tokens)).tolist())
        token = int(np.flatnonzero(values == values.max())[0])
        tokens.append(token)
        if token == end:
            break
    return tokens


def greedy_decode__right_iterator(next_logits, start, end, max_len):
    """A generator and islice, list in the end."""

    def stream():
        so_far = [start]
        yield start
        while True:
            logits = torch.as_tensor(next_logits(so_far))
            token = int((logits == logits.max()).nonzero()[0, 0])
            so_far.append(token)
            yield token
            if token == end:
                return

    return list(itertools.islice(stream(), max_len))


def greedy_decode__right_preallocated(next_logits, start, end, max_len):
    """Fills a list of max_len places and cuts it."""
    tokens = [start] + [0] * (max_len - 1)
    n = 1
    while n < max_len and (n == 1 or tokens[n - 1] != end):
        tokens[n] = torch.as_tensor(next_logits(tokens[:n])).argmax(dim=0).tolist()
        n += 1
    return tokens[:n]


def _decode(next_logits, start, end, max_len, pick=None, ask=None):
    """Greedy decoding with an exchangeable choice and question."""
    tokens = [start]
    while len(tokens) < max_len:
        logits = torch.as_tensor(next_logits(list(tokens) if ask is None else ask(tokens)))
        tokens.append(int(logits.argmax()) if pick is None else int(pick(logits)))
        if tokens[-1] == end:
            break
    return tokens


def greedy_decode__wrong_without_start(next_logits, start, end, max_len):
    """Leaves start out of the result."""
    return _decode(next_logits, start, end, max_len)[1:]


def greedy_decode__wrong_without_end(next_logits, start, end, max_len):
    """Leaves the generated end out."""
    tokens = _decode(next_logits, start, end, max_len)
    return tokens[:-1] if len(tokens) > 1 and tokens[-1] == end else tokens


def greedy_decode__wrong_start_not_counted(next_logits, start, end, max_len):
    """max_len generated tokens besides start."""
    return _decode(next_logits, start, end, max_len + 1)


def greedy_decode__wrong_one_short(next_logits, start, end, max_len):
    """One token short of max_len."""
    return _decode(next_logits, start, end, max(max_len - 1, 1))


def greedy_decode__wrong_at_least_one_generated(next_logits, start, end, max_len):
    """Checks the length after appending: two tokens for max_len = 1."""
    tokens = [start]
    while True:
        tokens.append(int(torch.as_tensor(next_logits(tokens)).argmax()))
        if tokens[-1] == end or len(tokens) >= max_len:
            return tokens


def greedy_decode__wrong_start_is_end(next_logits, start, end, max_len):
    """Stops at once where start == end."""
    tokens = [start]
    while tokens[-1] != end and len(tokens) < max_len:
        tokens.append(int(torch.as_tensor(next_logits(tokens)).argmax()))
    return tokens


def greedy_decode__wrong_end_in_tokens(next_logits, start, end, max_len):
    """Asks `end in tokens`: one token at most where start == end."""
    tokens = [start]
    while len(tokens) < max_len:
        tokens.append(int(torch.as_tensor(next_logits(tokens)).argmax()))
        if end in tokens:
            break
    return tokens


def greedy_decode__wrong_never_stops(next_logits, start, end, max_len):
    """Goes on after end."""
    return _decode(next_logits, start, None, max_len)


def greedy_decode__wrong_padded(next_logits, start, end, max_len):
    """Pads with end up to max_len."""
    tokens = _decode(next_logits, start, end, max_len)
    return tokens + [end] * (max_len - len(tokens))


def greedy_decode__wrong_end_appended(next_logits, start, end, max_len):
    """Always ends with end, even where it was not generated."""
    tokens = _decode(next_logits, start, end, max_len)
    return tokens if tokens[-1] == end else [*tokens, end]


def greedy_decode__wrong_last_is_end(next_logits, start, end, max_len):
    """Puts end in the last place when the length runs out."""
    tokens = _decode(next_logits, start, end, max_len)
    return [*tokens[:-1], end] if len(tokens) == max_len > 1 else tokens


def greedy_decode__wrong_stops_at_start(next_logits, start, end, max_len):
    """start and end swapped."""
    return _decode(next_logits, end, start, max_len)


def greedy_decode__wrong_argmin(next_logits, start, end, max_len):
    """The least likely token."""
    return _decode(next_logits, start, end, max_len, torch.argmin)


def greedy_decode__wrong_largest_magnitude(next_logits, start, end, max_len):
    """The largest absolute value."""
    return _decode(next_logits, start, end, max_len, lambda v: v.abs().argmax())


def greedy_decode__wrong_second_best(next_logits, start, end, max_len):
    """The second best."""
    return _decode(next_logits, start, end, max_len, lambda v: v.argsort(descending=True)[min(1, len(v) - 1)])


def greedy_decode__wrong_sampling(next_logits, start, end, max_len):
    """Samples from the softmax."""
    return _decode(next_logits, start, end, max_len, lambda v: torch.multinomial(v.double().softmax(0), 1))


def greedy_decode__wrong_rounded(next_logits, start, end, max_len):
    """Rounds the logits to integers: close values become ties."""
    return _decode(next_logits, start, end, max_len, lambda v: v.round().argmax())


def greedy_decode__wrong_softmax_overflow(next_logits, start, end, max_len):
    """exp without subtracting the maximum: overflows at 1e4, ties of inf."""
    return _decode(next_logits, start, end, max_len, lambda v: (v.exp() / v.exp().sum()).nan_to_num().argmax())


def greedy_decode__wrong_end_suppressed(next_logits, start, end, max_len):
    """Never chooses end."""

    def pick(v):
        v = v.clone().double()
        if 0 <= end < len(v):
            v[end] = -math.inf
        return v.argmax()

    return _decode(next_logits, start, end, max_len, pick)


def greedy_decode__wrong_start_suppressed(next_logits, start, end, max_len):
    """Never chooses start again."""

    def pick(v):
        v = v.clone().double()
        if start != end and 0 <= start < len(v):
            v[start] = -math.inf
        return v.argmax()

    return _decode(next_logits, start, end, max_len, pick)


def greedy_decode__wrong_no_repeats(next_logits, start, end, max_len):
    """Stops when a token repeats itself."""
    tokens = _decode(next_logits, start, end, max_len)
    for i in range(1, len(tokens)):
        if tokens[i] == tokens[i - 1]:
            return tokens[:i]
    return tokens


def greedy_decode__wrong_last_token_only(next_logits, start, end, max_len):
    """Hands over the last token alone."""
    return _decode(next_logits, start, end, max_len, ask=lambda t: t[-1:])


def greedy_decode__wrong_start_only(next_logits, start, end, max_len):
    """Asks with [start] again and again."""
    return _decode(next_logits, start, end, max_len, ask=lambda t: t[:1])


def greedy_decode__wrong_without_start_asked(next_logits, start, end, max_len):
    """Hands over the generated tokens without start."""
    return _decode(next_logits, start, end, max_len, ask=lambda t: t[1:])


def greedy_decode__wrong_tokens_as_int(next_logits, start, end, max_len):
    """Hands over the last id as an int, not a list."""
    return _decode(next_logits, start, end, max_len, ask=lambda t: t[-1])


def greedy_decode__wrong_tokens_as_tensor(next_logits, start, end, max_len):
    """Hands over a tensor (1, t), not a list."""
    return _decode(next_logits, start, end, max_len, ask=lambda t: torch.tensor([t]))


def greedy_decode__wrong_all_at_once(next_logits, start, end, max_len):
    """Asks once and takes the tokens in the order of the logits."""
    order = torch.as_tensor(next_logits([start])).argsort(descending=True, stable=True).tolist()
    tokens = [start]
    for token in order[: max_len - 1]:
        tokens.append(token)
        if token == end:
            break
    return tokens


def greedy_decode__wrong_tensor_tokens(next_logits, start, end, max_len):
    """The tokens are 0-d tensors."""
    tokens = [start]
    while len(tokens) < max_len:
        tokens.append(torch.as_tensor(next_logits([int(t) for t in tokens])).argmax())
        if tokens[-1] == end:
            break
    return tokens


def greedy_decode__wrong_numpy_tokens(next_logits, start, end, max_len):
    """The tokens are np.int64."""
    tokens = [start]
    while len(tokens) < max_len:
        tokens.append(np.argmax(torch.as_tensor(next_logits(tokens)).detach().double().numpy()))
        if tokens[-1] == end:
            break
    return tokens


def greedy_decode__wrong_float_tokens(next_logits, start, end, max_len):
    """The generated tokens are floats."""
    tokens = _decode(next_logits, start, end, max_len)
    return tokens[:1] + [float(t) for t in tokens[1:]]


def greedy_decode__wrong_tensor(next_logits, start, end, max_len):
    """A tensor."""
    return torch.tensor(_decode(next_logits, start, end, max_len))


def greedy_decode__wrong_tuple(next_logits, start, end, max_len):
    """A tuple."""
    return tuple(_decode(next_logits, start, end, max_len))


def greedy_decode__wrong_generator(next_logits, start, end, max_len):
    """A generator."""
    yield from _decode(next_logits, start, end, max_len)


def greedy_decode__wrong_text(next_logits, start, end, max_len):
    """A text of ids."""
    return " ".join(str(t) for t in _decode(next_logits, start, end, max_len))


def greedy_decode__wrong_with_scores(next_logits, start, end, max_len):
    """A pair (tokens, number of steps)."""
    tokens = _decode(next_logits, start, end, max_len)
    return tokens, len(tokens) - 1


def greedy_decode__wrong_none(next_logits, start, end, max_len):
    """Prints the tokens."""
    print(_decode(next_logits, start, end, max_len))


def greedy_decode__wrong_default_list(next_logits, start, end, max_len, tokens=[]):  # noqa: B006
    """A mutable default: the second call begins with the tokens of the first."""
    tokens.append(start)
    first = len(tokens)
    while len(tokens) < max_len:
        tokens.append(int(torch.as_tensor(next_logits(tokens)).argmax()))
        if tokens[-1] == end and len(tokens) > first:
            break
    return tokens


# ----------------------------------------------------------------------------------------------------------- the lists
