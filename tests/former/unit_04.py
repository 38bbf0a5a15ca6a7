"""Answers to unit 04's functions, written from the notebook alone."""

import math

import torch
import torch.nn.functional as F


def _split(X, n_heads):
    B, n, width = X.shape
    return X.reshape(B, n, n_heads, width // n_heads).transpose(1, 2)


def _merge(X):
    B, h, n, d = X.shape
    return X.transpose(1, 2).reshape(B, n, h * d)


def _weights(scores, mask):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1) * mask


def _attend(Q, K, V, mask=None):
    return _weights(Q @ K.mT / math.sqrt(Q.shape[-1]), mask) @ V


# ---------------------------------------------------------------- split_heads


def split_heads__wrong_reshape_alone(X, n_heads):
    """A reshape alone makes (B, h, n, d_head), so a head takes whole tokens instead of its block of columns."""
    B, n, width = X.shape
    if width % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    return X.reshape(B, n_heads, n, width // n_heads)


def split_heads__wrong_every_hth_column(X, n_heads):
    """The columns are dealt out in turn: head r gets the columns r, r + h, r + 2h, … and not a contiguous block."""
    B, n, width = X.shape
    if width % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    return X.reshape(B, n, width // n_heads, n_heads).permute(0, 3, 1, 2)


def split_heads__wrong_heads_behind_tokens(X, n_heads):
    """The last axis is cut, but the heads are not moved in front of the tokens: the result is (B, n, h, d_head)."""
    B, n, width = X.shape
    if width % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    d_head = width // n_heads
    return X.reshape(B, n, n_heads, d_head)


def split_heads__wrong_remainder_dropped(X, n_heads):
    """Heads that do not divide the width raise no ValueError; the columns left over are silently dropped."""
    d_head = X.shape[-1] // n_heads
    heads = [X[:, :, r * d_head : (r + 1) * d_head] for r in range(n_heads)]
    return torch.stack(heads, dim=1)


def split_heads__wrong_count_as_width(X, n_heads):
    """The number of heads is taken for the width of a head, so that h and d_head change places."""
    B, n, width = X.shape
    if width % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    return X.reshape(B, n, -1, n_heads).transpose(1, 2)


def split_heads__wrong_keys_turned_and_half_message(X, n_heads):
    """Two slips: the last two axes are swapped, (B, h, d_head, n), and the error's message does not name the width."""
    B, n, width = X.shape
    if width % n_heads != 0:
        raise ValueError(f"the width cannot be divided by {n_heads} heads")
    return X.reshape(B, n, n_heads, width // n_heads).permute(0, 2, 3, 1)


def split_heads__right_column_table(X, n_heads):
    """Unusual: a table (h, d_head) of column numbers indexes the last axis, then the head axis is moved."""
    width = X.shape[-1]
    d_head, rest = divmod(width, n_heads)
    if rest:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    columns = torch.arange(width).reshape(n_heads, d_head)
    return X[:, :, columns].movedim(2, 1)


def split_heads__right_filled_by_loop(X, n_heads):
    """Unusual: an empty result is filled head after head and column after column."""
    B, n, width = X.shape
    if width % n_heads:
        raise ValueError(f"width {width} is no multiple of {n_heads} heads")
    d_head = width // n_heads
    heads = X.new_zeros(B, n_heads, n, d_head)
    for r in range(n_heads):
        for k in range(d_head):
            heads[:, r, :, k] = X[:, :, r * d_head + k]
    return heads


# ---------------------------------------------------------------- merge_heads


def merge_heads__wrong_reshape_alone(X):
    """The axes of heads and tokens do not change places before the reshape to (B, n, h*d_head)."""
    B, h, n, d = X.shape
    return X.reshape(B, n, h * d)


def merge_heads__wrong_heads_run_fastest(X):
    """The head axis is moved behind d_head, so column k*h + r holds entry k of head r: the heads are interleaved."""
    B, h, n, d = X.shape
    return X.permute(0, 2, 3, 1).reshape(B, n, d * h)


def merge_heads__wrong_heads_summed(X):
    """The heads are added up to (B, n, d_head) instead of being put side by side."""
    return X.sum(dim=1)


def merge_heads__wrong_last_axes_swapped(X):
    """Tokens and d_head change places before the reshape, in place of heads and tokens."""
    B, h, n, d = X.shape
    return X.transpose(2, 3).reshape(B, n, h * d)


def merge_heads__wrong_below_one_another(X):
    """The heads are concatenated along the tokens, (B, h*n, d_head), and not along the columns."""
    return torch.cat([X[:, r] for r in range(X.shape[1])], dim=1)


def merge_heads__wrong_axes_misnamed_no_swap(X):
    """Two slips: the axes 1 and 2 are read as (n, h), and they are glued without a transpose."""
    B, n, h, d_head = X.shape
    return X.contiguous().view(B, n, h * d_head)


def merge_heads__right_cat_unbind(X):
    """Unusual: the head axis is taken apart and its slices are concatenated along the columns."""
    return torch.cat(X.unbind(dim=1), dim=-1)


def merge_heads__right_one_hot_einsum(X):
    """Unusual: an einsum with a 0/1 table (h, d_head, h*d_head) sends each entry to its column."""
    h, d = X.shape[1], X.shape[3]
    place = torch.eye(h * d, dtype=X.dtype).reshape(h, d, h * d)
    return torch.einsum("brtk,rkc->btc", X, place)


# ---------------------------------------------------------------- bmm_attention


def bmm_attention__wrong_softmax_over_queries(Q, K, V, mask=None):
    """The softmax runs over axis 1, the queries, and not over the keys."""
    scores = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(Q.shape[-1])
    if mask is None:
        return torch.bmm(torch.softmax(scores, dim=1), V)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.bmm(torch.softmax(scores, dim=1) * mask, V)


def bmm_attention__wrong_scaled_by_value_width(Q, K, V, mask=None):
    """The scores are divided by the square root of d_v, the width of the values, and not of d_k."""
    scores = torch.bmm(Q, K.mT) / math.sqrt(V.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights * mask
    return torch.bmm(weights, V)


def bmm_attention__wrong_true_means_forbidden(Q, K, V, mask=None):
    """The mask is read as in nn.MultiheadAttention: where it is True, attention is forbidden."""
    scores = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is None:
        return torch.bmm(torch.softmax(scores, dim=-1), V)
    scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1).masked_fill(mask, 0.0)
    return torch.bmm(weights, V)


def bmm_attention__wrong_nan_mended_in_output(Q, K, V, mask=None):
    """Forbidden scores are -inf and the NaN of an empty row is replaced in the output only: gradients become NaN."""
    scores = torch.bmm(Q, K.mT) / Q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    output = torch.bmm(torch.softmax(scores, dim=-1), V)
    return torch.nan_to_num(output, nan=0.0)


def bmm_attention__wrong_mask_after_softmax(Q, K, V, mask=None):
    """The softmax runs over all keys and the mask then zeroes weights, so the rest no longer sums to 1."""
    weights = torch.softmax(torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1]), dim=-1)
    if mask is not None:
        weights = weights * mask
    return torch.bmm(weights, V)


def bmm_attention__wrong_keys_reshaped_and_empty_mean(Q, K, V, mask=None):
    """Two slips: the keys are reshaped to (N, d_k, m) instead of transposed; an empty row gives the mean of values."""
    N, m, d_k = K.shape
    scores = torch.bmm(Q, K.reshape(N, d_k, m)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.bmm(torch.softmax(scores, dim=-1), V)


def bmm_attention__right_one_by_one(Q, K, V, mask=None):
    """Unusual: a loop over the N attentions, each with its own slice of the stretched mask."""
    N, n, d_k = Q.shape
    m = K.shape[1]
    if mask is None:
        mask = torch.ones(N, n, m, dtype=torch.bool)
    mask = mask.expand(N, n, m)
    outputs = []
    for q, k, v, allowed in zip(Q, K, V, mask, strict=True):
        scores = torch.where(allowed, q @ k.T / d_k**0.5, torch.finfo(q.dtype).min)
        outputs.append(torch.where(allowed, torch.softmax(scores, dim=-1), 0.0) @ v)
    return torch.stack(outputs)


def bmm_attention__right_softmax_by_hand(Q, K, V, mask=None):
    """Unusual: scores by broadcasting, and the softmax written out with maximum, exp and a sum that is never 0."""
    scores = (Q[:, :, None, :] * K[:, None, :, :]).sum(dim=-1) * Q.shape[-1] ** -0.5
    allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
    scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    parts = torch.exp(scores - scores.amax(dim=-1, keepdim=True)).masked_fill(~allowed, 0.0)
    total = parts.sum(dim=-1, keepdim=True)
    return torch.einsum("snm,smv->snv", parts / (total + (total == 0)), V)


# ---------------------------------------------------------------- multi_head_attention


def multi_head_attention__wrong_scaled_by_d_model(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """The scores of a head are divided by the square root of d_model, not of d_head."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    weights = _weights(Q @ K.mT / math.sqrt(X.shape[-1]), mask)
    return _merge(weights @ V) @ W_O + b_O


def multi_head_attention__wrong_bias_for_each_head(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Each head is projected and gets b_O before the heads are summed, so the bias is added n_heads times."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    heads = _attend(Q, K, V, mask)
    d_head = heads.shape[-1]
    out = 0
    for r in range(n_heads):
        out = out + (heads[:, r] @ W_O[r * d_head : (r + 1) * d_head] + b_O)
    return out


def multi_head_attention__wrong_glued_without_transpose(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """The heads' outputs (B, h, n, d_head) are reshaped to (B, n, h*d_head) without swapping heads and tokens."""
    B, n, _ = X.shape
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    heads = _attend(Q, K, V, mask)
    return heads.reshape(B, n, -1) @ W_O + b_O


def multi_head_attention__wrong_width_from_d_model(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """d_head is taken as d_model // n_heads, which fits only where h*d_head equals d_model."""
    B, n, d_model = X.shape
    d_head = d_model // n_heads
    Q = (X @ W_Q).reshape(B, n, n_heads, d_head).transpose(1, 2)
    K = (X @ W_K).reshape(B, n, n_heads, d_head).transpose(1, 2)
    V = (X @ W_V).reshape(B, n, n_heads, d_head).transpose(1, 2)
    weights = _weights(Q @ K.transpose(-1, -2) / math.sqrt(d_head), mask)
    return (weights @ V).transpose(1, 2).reshape(B, n, d_model) @ W_O + b_O


def multi_head_attention__wrong_mask_in_other_order(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """The mask is flattened heads first, (h, B, …), the attentions sequences first: sequences get others' masks."""
    B, n, _ = X.shape
    Q, K, V = (_split(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).transpose(0, 1).flatten(0, 1)
    heads = _attend(Q, K, V, mask).unflatten(0, (B, n_heads))
    return _merge(heads) @ W_O + b_O


def multi_head_attention__wrong_keys_values_and_residual(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Two slips: keys are made with W_V and values with W_K, and the input X is added to the result."""
    Q, V, K = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    return X + _merge(_attend(Q, K, V, mask)) @ W_O + b_O


def multi_head_attention__right_sum_over_heads(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Unusual: nothing is cut into axes; a loop takes the columns of each head and sums the projected heads."""
    B, n, _ = X.shape
    d = W_Q.shape[1] // n_heads
    allowed = None if mask is None else mask.expand(B, n_heads, n, n)
    out = b_O.expand(B, n, -1)
    for r in range(n_heads):
        block = slice(r * d, (r + 1) * d)
        Q, K, V = X @ W_Q[:, block], X @ W_K[:, block], X @ W_V[:, block]
        out = out + _attend(Q, K, V, None if allowed is None else allowed[:, r]) @ W_O[block]
    return out


def multi_head_attention__right_all_einsum(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Unusual: the weights are cut into heads, not the activations, and every product is an einsum."""
    W_q, W_k, W_v = (W.unflatten(1, (n_heads, -1)) for W in (W_Q, W_K, W_V))
    W_o = W_O.unflatten(0, (n_heads, -1))
    Q, K, V = (torch.einsum("bnc,chd->bnhd", X, W) for W in (W_q, W_k, W_v))
    scores = torch.einsum("bihd,bjhd->bhij", Q, K) / math.sqrt(W_q.shape[-1])
    return torch.einsum("bhij,bjhd,hdc->bic", _weights(scores, mask), V, W_o) + b_O


# ---------------------------------------------------------------- head_contributions


def head_contributions__wrong_rows_dealt_out(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Head r is multiplied by the rows r, r + h, r + 2h, … of W_O instead of its contiguous block of rows."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    blocks = W_O.reshape(-1, n_heads, W_O.shape[1]).transpose(0, 1)
    return _attend(Q, K, V, mask) @ blocks


def head_contributions__wrong_already_summed(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The shares are summed over the heads and come back as (B, n, d_model), without the axis of heads."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    shares = _attend(Q, K, V, mask) @ W_O.unflatten(0, (n_heads, -1))
    return shares.sum(dim=1)


def head_contributions__wrong_rows_struck_out_in_place(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """For each head the other rows are set to 0 in W_O itself, not in a copy: the input changes, later heads get 0."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    merged = _merge(_attend(Q, K, V, mask))
    d_head = W_Q.shape[1] // n_heads
    shares = []
    for r in range(n_heads):
        own = W_O
        own[: r * d_head] = 0
        own[(r + 1) * d_head :] = 0
        shares.append(merged @ own)
    return torch.stack(shares, dim=1)


def head_contributions__wrong_first_mask_for_all(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Of a mask with four axes only the part of the first sequence is used, for all sequences."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    if mask is not None and mask.dim() == 4:
        mask = mask[0]
    return _attend(Q, K, V, mask) @ W_O.unflatten(0, (n_heads, -1))


def head_contributions__wrong_scaled_by_all_columns(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The scores are divided by the square root of h*d_head, all columns of W_Q, instead of d_head."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / math.sqrt(W_Q.shape[1])
    heads = _weights(scores, mask) @ V
    return heads @ W_O.unflatten(0, (n_heads, -1))


def head_contributions__wrong_axes_left_and_unscaled(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Two slips: the scores are not divided at all, and the result has the axes (B, n, h, d_model)."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    heads = _weights(Q @ K.mT, mask) @ V
    rows = W_O.unflatten(0, (n_heads, -1))
    return torch.einsum("bhnd,hdc->bnhc", heads, rows)


def head_contributions__right_other_heads_zeroed(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Unusual: the merged heads are masked by columns, one head at a time, and meet the whole W_O."""
    Q, K, V = (_split(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    merged = _merge(_attend(Q, K, V, mask))
    owner = torch.arange(W_Q.shape[1]) // (W_Q.shape[1] // n_heads)
    return torch.stack([(merged * (owner == r)) @ W_O for r in range(n_heads)], dim=1)


def head_contributions__right_value_and_output_joined(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Unusual: W_V and W_O of a head are multiplied to one (d_model, d_model) map before the weights come."""
    d = W_Q.shape[1] // n_heads
    W_VO = torch.einsum("chd,hdf->hcf", W_V.unflatten(1, (n_heads, d)), W_O.unflatten(0, (n_heads, d)))
    Q, K = _split(X @ W_Q, n_heads), _split(X @ W_K, n_heads)
    weights = _weights(torch.einsum("bhid,bhjd->bhij", Q, K) / d**0.5, mask)
    return weights @ (X[:, None] @ W_VO)


# ---------------------------------------------------------------- from_torch_weights


def from_torch_weights__wrong_not_transposed(in_proj_weight, out_proj_weight):
    """The three blocks are cut but not transposed; only the output projection is."""
    W_Q, W_K, W_V = in_proj_weight.chunk(3)
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__wrong_values_before_keys(in_proj_weight, out_proj_weight):
    """The blocks are taken in the order queries, values, keys, so W_K and W_V are exchanged."""
    W_Q, W_V, W_K = (block.T for block in in_proj_weight.chunk(3))
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__wrong_output_as_stored(in_proj_weight, out_proj_weight):
    """W_O is handed back as it is stored, (out, in), and not transposed."""
    d_model = in_proj_weight.shape[1]
    W_Q = in_proj_weight[:d_model].T
    W_K = in_proj_weight[d_model : 2 * d_model].T
    W_V = in_proj_weight[2 * d_model :].T
    return W_Q, W_K, W_V, out_proj_weight


def from_torch_weights__wrong_turned_then_reshaped(in_proj_weight, out_proj_weight):
    """The tall matrix is transposed first and then reshaped to (3, d_model, d_model), which mixes the blocks."""
    d_model = in_proj_weight.shape[1]
    W_Q, W_K, W_V = in_proj_weight.T.reshape(3, d_model, d_model)
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__wrong_every_third_row(in_proj_weight, out_proj_weight):
    """Queries, keys and values are taken to alternate row by row, instead of lying in three blocks."""
    W_Q, W_K, W_V = (in_proj_weight[start::3].T for start in range(3))
    return W_Q, W_K, W_V, out_proj_weight.T


def from_torch_weights__wrong_detached_and_swapped(in_proj_weight, out_proj_weight):
    """Two slips: the weights are detached, so no gradient reaches them, and W_Q and W_K are exchanged."""
    W_K, W_Q, W_V = in_proj_weight.detach().chunk(3, dim=0)
    return W_Q.T, W_K.T, W_V.T, out_proj_weight.detach().T


def from_torch_weights__right_applied_to_identity(in_proj_weight, out_proj_weight):
    """Unusual: each block is applied to the identity as nn.Linear does; what comes out is the matrix wanted."""
    d = out_proj_weight.shape[0]
    one = torch.eye(d, dtype=in_proj_weight.dtype)
    all_three = F.linear(one, in_proj_weight)
    W_Q, W_K, W_V = (all_three[:, start : start + d] for start in (0, d, 2 * d))
    return W_Q, W_K, W_V, F.linear(one, out_proj_weight)


def from_torch_weights__right_stacked_and_turned(in_proj_weight, out_proj_weight):
    """Unusual: all four blocks are stacked to (4, d_model, d_model), turned at once and taken apart."""
    tall = torch.cat([in_proj_weight, out_proj_weight])
    return tuple(tall.unflatten(0, (4, -1)).permute(0, 2, 1).unbind(0))


# ---------------------------------------------------------------- diagnose

_NAMES = [
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
]


def _suspect(name, X, W_Q, W_K, W_V, W_O, n_heads, causal):
    B, n, d_model = X.shape
    h = 1 if name == "one_head_for_all" else n_heads
    if name == "keys_and_values_swapped":
        W_K, W_V = W_V, W_K
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    d = Q.shape[-1] // h
    if name == "heads_not_by_columns":
        Q, K, V = (T.reshape(B, h, n, d) for T in (Q, K, V))
    else:
        Q, K, V = (_split(T, h) for T in (Q, K, V))
    by = {"not_scaled": 1.0, "scaled_by_d": float(d), "scaled_by_d_model": math.sqrt(d_model)}.get(name, math.sqrt(d))
    scores = Q @ K.mT / by
    allowed = torch.ones(n, n, dtype=torch.bool)
    if causal:
        allowed = allowed.tril(1 if name == "causal_off_by_one" else 0)
    if name == "mask_after_softmax":
        weights = torch.softmax(scores, dim=-1) * allowed
    else:
        axis = -2 if name == "softmax_over_queries" else -1
        weights = torch.softmax(scores.masked_fill(~allowed, -torch.inf), dim=axis)
    heads = weights @ V
    heads = heads.reshape(B, n, h * d) if name == "heads_not_by_columns" else _merge(heads)
    return heads @ W_O


def _draw(B, n, d_model, h, d_head, size=1.0):
    generator = torch.Generator().manual_seed(0)
    width = h * d_head
    shapes = [(B, n, d_model), (d_model, width), (d_model, width), (d_model, width), (width, d_model)]
    X, *W = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return [X, *(size * w / w.shape[0] ** 0.5 for w in W)]


def diagnose__wrong_future_never_hidden(attend):
    """The one question is asked with causal=False, where two of the bugs do the same as the right layer."""
    question = (*_draw(2, 5, 6, 3, 4, 1.5), 3, False)
    found = attend(*question)
    gaps = [(found - _suspect(name, *question)).abs().max().item() for name in _NAMES]
    return _NAMES[gaps.index(min(gaps))]


def diagnose__wrong_two_divisors_equal(attend):
    """With d_model 16 and heads 4 wide, d_head equals the root of d_model: two wrong divisors cannot be told apart."""
    question = (*_draw(2, 5, 16, 4, 4, 1.5), 4, True)
    found = attend(*question)
    for name in _NAMES:
        if torch.allclose(found, _suspect(name, *question), atol=1e-9):
            return name
    return "right"


def diagnose__wrong_compared_exactly(attend):
    """Outputs are compared with torch.equal, so a layer that rounds in another way matches no name but the last."""
    question = (*_draw(3, 6, 7, 3, 4, 1.5), 3, True)
    found = attend(*question)
    for name in _NAMES[:-1]:
        if torch.equal(found, _suspect(name, *question)):
            return name
    return "one_head_for_all"


def diagnose__wrong_asked_again_for_each_name(attend):
    """The box is asked anew for every suspect in the loop, and the third call raises a ValueError."""
    question = (*_draw(2, 5, 6, 3, 4, 1.5), 3, True)
    best, smallest = None, math.inf
    for name in _NAMES:
        gap = (attend(*question) - _suspect(name, *question)).abs().max().item()
        if gap < 1e-9:
            return name
        if gap < smallest:
            best, smallest = name, gap
    return best


def diagnose__wrong_single_head_keeps_scale(attend):
    """The expectation of one_head_for_all divides by the root of d_head, not of all columns: it is called right."""
    X, W_Q, W_K, W_V, W_O = _draw(2, 5, 6, 3, 4, 1.5)
    question = (X, W_Q, W_K, W_V, W_O, 3, True)
    found = attend(*question)
    expected = {name: _suspect(name, *question) for name in _NAMES[:-1]}
    scores = (X @ W_Q) @ (X @ W_K).mT / math.sqrt(W_Q.shape[1] // 3)
    hidden = ~torch.ones(5, 5, dtype=torch.bool).tril()
    weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), dim=-1)
    expected["one_head_for_all"] = weights @ (X @ W_V) @ W_O
    for name, output in expected.items():
        if torch.allclose(found, output):
            return name
    return "right"


def diagnose__wrong_one_head_and_labels_mixed(attend):
    """Two slips: the question has a single head, which hides two bugs, and two names of divisors are exchanged."""
    question = (*_draw(2, 5, 6, 1, 4, 1.5), 1, True)
    found = attend(*question)
    gaps = {name: (found - _suspect(name, *question)).abs().max().item() for name in _NAMES}
    name = min(gaps, key=gaps.get)
    labels = {"scaled_by_d": "scaled_by_d_model", "scaled_by_d_model": "scaled_by_d"}
    return labels.get(name, name)


def diagnose__right_nearest_of_ten(attend):
    """Unusual: one call with sizes that are all different; the nearest of ten computed expectations wins."""
    question = (*_draw(2, 5, 6, 3, 4, 1.5), 3, True)
    found = attend(*question)
    gaps = torch.stack([(found - _suspect(name, *question)).norm() for name in _NAMES])
    return _NAMES[int(gaps.argmin())]


def _alone(name, x, W_Q, W_K, W_V, W_O, h, causal):
    """One sequence, with loops over heads and queries, by plain column numbers."""
    n, d_model = x.shape
    width = W_Q.shape[1]
    Q, K, V = x @ W_Q, x @ W_K, x @ W_V
    if name == "keys_and_values_swapped":
        K, V = V, K
    if name == "one_head_for_all":
        h = 1
    d = width // h
    cells = torch.arange(n * width).reshape(n, width)
    places = [cells[:, r * d : (r + 1) * d] for r in range(h)]
    if name == "heads_not_by_columns":
        places = list(torch.arange(n * width).reshape(h, n, d))
    by = d**0.5
    if name == "not_scaled":
        by = 1
    elif name == "scaled_by_d":
        by = d
    elif name == "scaled_by_d_model":
        by = d_model**0.5
    found = torch.zeros(n * width, dtype=x.dtype)
    for place in places:
        q, k, v = Q.flatten()[place], K.flatten()[place], V.flatten()[place]
        powers = torch.exp(q @ k.T / by)
        last = [n] * n
        if causal:
            last = [min(n, i + (2 if name == "causal_off_by_one" else 1)) for i in range(n)]
        kept = torch.stack([row * (torch.arange(n) < end) for row, end in zip(powers, last, strict=True)])
        if name == "softmax_over_queries":
            weights = kept / kept.sum(dim=0)
        elif name == "mask_after_softmax":
            weights = kept / powers.sum(dim=1, keepdim=True)
        else:
            weights = kept / kept.sum(dim=1, keepdim=True)
        found[place] = weights @ v
    return found.reshape(n, width) @ W_O


def diagnose__right_two_rounds_of_elimination(attend):
    """Unusual: an open and a causal question; loops give the expectations, and who fits neither is struck out."""
    left = list(_NAMES)
    for sizes, causal in (((1, 4, 5, 2, 3), False), ((2, 6, 10, 4, 2), True)):
        weights = _draw(*sizes)
        found = attend(*weights, sizes[3], causal)
        X, *W = weights
        expected = {name: torch.stack([_alone(name, x, *W, sizes[3], causal) for x in X]) for name in left}
        left = [name for name in left if torch.allclose(found, expected[name], rtol=1e-7, atol=1e-8)]
    return left[0]
