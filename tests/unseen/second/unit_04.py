import math

import torch
from torch import nn


def one_head(X, W_Q, W_K, W_V):
    """A single attention: X (n, d_model) -> output (n, d_v) and weights (n, n)."""
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    weights = torch.softmax(Q @ K.T / math.sqrt(Q.shape[-1]), dim=-1)
    return weights @ V, weights


def split_heads(X, n_heads):
    width = X.shape[-1]
    if width % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    return X.unflatten(-1, (n_heads, width // n_heads)).transpose(1, 2)


def merge_heads(X):
    return X.transpose(1, 2).flatten(2)


def bmm_attention(Q, K, V, mask=None):
    scores = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if mask is None:
        return torch.bmm(torch.softmax(scores, dim=-1), V)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.bmm(torch.softmax(scores, dim=-1) * mask, V)


def multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    B, n, _ = X.shape
    Q, K, V = (split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).flatten(0, 1)
    return merge_heads(bmm_attention(Q, K, V, mask).unflatten(0, (B, n_heads))) @ W_O + b_O


# split_heads


def split_heads__wrong_transpose_then_reshape(X, n_heads):
    """The axes are swapped before the cut, and the reshape then mixes columns and tokens."""
    B, n, width = X.shape
    if width % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {width}")
    X = X.transpose(1, 2)
    return X.reshape(B, n_heads, n, width // n_heads)


def split_heads__wrong_pieces_of_n_heads(X, n_heads):
    """torch.split is told the number of heads, but it wants the width of a piece."""
    if X.shape[-1] % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {X.shape[-1]}")
    pieces = torch.split(X, n_heads, dim=-1)
    return torch.stack(pieces, dim=1)


def split_heads__wrong_every_hth_column(X, n_heads):
    """Head r gets the columns r, r + h, r + 2h, … in place of a block."""
    width = X.size(-1)
    if width % n_heads > 0:
        raise ValueError(f"n_heads = {n_heads} does not divide {width}")
    heads = []
    for r in range(n_heads):
        heads.append(X[:, :, r::n_heads])
    return torch.stack(heads, dim=1)


def split_heads__wrong_asserts(X, n_heads):
    """Where the heads do not divide the width an AssertionError comes, not a ValueError."""
    d_model = X.shape[2]
    assert d_model % n_heads == 0, f"{n_heads} heads do not divide a width of {d_model}"
    d_head = d_model // n_heads
    return X.reshape(X.shape[0], X.shape[1], n_heads, d_head).permute(0, 2, 1, 3)


def split_heads__wrong_drops_the_rest(X, n_heads):
    """The remainder is never looked at: the last columns are left out without an error."""
    d_head = X.shape[-1] // n_heads
    blocks = [X[..., r * d_head : (r + 1) * d_head] for r in range(n_heads)]
    return torch.stack(blocks).transpose(0, 1)


def split_heads__right_columns_first(X, n_heads):
    """The columns come to the front, are cut there, and each head is turned back."""
    width = X.shape[-1]
    d_head, rest = divmod(width, n_heads)
    if rest:
        raise ValueError(f"a width of {width} cannot be shared by {n_heads} heads")
    return X.mT.unflatten(1, (n_heads, d_head)).mT


# merge_heads


def merge_heads__wrong_reshape_only(X):
    """A reshape alone: no axis changes places, so tokens and heads are mixed up."""
    B, h, n, d_head = X.shape
    return X.reshape(B, n, h * d_head)


def merge_heads__wrong_heads_last(X):
    """The axis of the heads goes behind the columns: entry k*h + r and not r*d_head + k."""
    return X.permute(0, 2, 3, 1).flatten(start_dim=2)


def merge_heads__wrong_last_head_first(X):
    """Each head is put in front of those already glued, so the order of the heads is reversed."""
    merged = X[:, 0]
    for r in range(1, X.shape[1]):
        merged = torch.cat([X[:, r], merged], dim=-1)
    return merged


def merge_heads__wrong_glues_tokens(X):
    """The heads are concatenated along the tokens, not along the columns."""
    heads = [X[:, r] for r in range(X.shape[1])]
    return torch.cat(heads, dim=1)


def merge_heads__wrong_float32_buffer(X):
    """The buffer is made without a dtype, so float64 comes back as float32."""
    B, h, n, d_head = X.shape
    merged = torch.zeros(B, n, h * d_head)
    for r in range(h):
        merged[:, :, r * d_head : (r + 1) * d_head] = X[:, r]
    return merged


def merge_heads__right_cat_of_unbind(X):
    """The heads are unbound and concatenated along the last axis."""
    return torch.cat(X.unbind(dim=1), dim=-1)


# bmm_attention


def bmm_attention__wrong_root_of_d_v(Q, K, V, mask=None):
    """The scores are divided by the root of the width of the values."""
    d = V.shape[-1]
    scores = torch.bmm(Q, K.transpose(1, 2)) / d**0.5
    if mask is None:
        return torch.bmm(scores.softmax(dim=-1), V)
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, lowest).softmax(dim=-1)
    return torch.bmm(weights * mask, V)


def bmm_attention__wrong_blind_query_averages(Q, K, V, mask=None):
    """A query that may attend to nothing gets the mean of all values."""
    S = Q @ K.mT / math.sqrt(K.shape[-1])
    if mask is not None:
        S = torch.where(mask, S, torch.finfo(S.dtype).min)
    A = torch.softmax(S, dim=2)
    return A @ V


def bmm_attention__wrong_nan_mended_late(Q, K, V, mask=None):
    """The NaN of an empty row is replaced in the output only, so the gradients hold NaN."""
    scores = torch.einsum("snd,smd->snm", Q, K) / math.sqrt(Q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), float("-inf"))
    out = torch.einsum("snm,smd->snd", torch.softmax(scores, -1), V)
    return torch.nan_to_num(out, nan=0.0)


def bmm_attention__wrong_adds_minus_10000(Q, K, V, mask=None):
    """-10,000 is added to forbidden scores: too little where the scores are as large."""
    scores = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[2])
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    mask = mask.expand_as(scores)
    scores = scores + -10000.0 * (~mask).to(scores.dtype)
    weights = torch.softmax(scores, dim=-1)
    weights = weights * mask.any(dim=-1, keepdim=True)
    return torch.bmm(weights, V)


def bmm_attention__wrong_renormalises_after_softmax(Q, K, V, mask=None):
    """The softmax runs over all keys first: a large hidden score leaves only zeros to renormalise."""
    d_k = Q.shape[-1]
    weights = torch.softmax(torch.bmm(Q, K.transpose(-2, -1)) / math.sqrt(d_k), dim=-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-12)
    return torch.bmm(weights, V)


def bmm_attention__right_logsumexp(Q, K, V, mask=None):
    """exp(score - logsumexp of the row), by einsum."""
    scores = torch.einsum("snd,smd->snm", Q / math.sqrt(Q.shape[-1]), K)
    allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    scores = torch.where(allowed, scores, torch.finfo(scores.dtype).min)
    weights = torch.exp(scores - scores.logsumexp(dim=-1, keepdim=True))
    return torch.einsum("snm,smv->snv", torch.where(allowed, weights, 0), V)


# multi_head_attention


def multi_head_attention__wrong_mask_tiled(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """The mask is tiled with all sequences of head 0 first, but the attentions have all heads of sequence 0 first."""
    B, n = X.shape[:2]
    Q = split_heads(X @ W_Q, n_heads).flatten(0, 1)
    K = split_heads(X @ W_K, n_heads).flatten(0, 1)
    V = split_heads(X @ W_V, n_heads).flatten(0, 1)
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
        mask = torch.cat([mask[:, r] for r in range(n_heads)], dim=0)
    heads = bmm_attention(Q, K, V, mask).unflatten(0, (B, n_heads))
    return merge_heads(heads) @ W_O + b_O


def multi_head_attention__wrong_bias_in_every_head(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """b_O is added once for each head."""
    B, n, d_model = X.shape
    d_head = W_Q.shape[1] // n_heads
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    out = 0
    for r in range(n_heads):
        cols = slice(r * d_head, (r + 1) * d_head)
        Q, K, V = X @ W_Q[:, cols], X @ W_K[:, cols], X @ W_V[:, cols]
        head = bmm_attention(Q, K, V, None if mask is None else mask[:, r])
        out = out + (head @ W_O[cols] + b_O)
    return out


def multi_head_attention__wrong_glued_by_reshape(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """The stack of attentions is reshaped to (B, n, h*d_head) without swapping heads and tokens."""
    B, n, _ = X.shape
    width = W_Q.shape[1]
    Q, K, V = [split_heads(X @ W, n_heads).reshape(B * n_heads, n, -1) for W in (W_Q, W_K, W_V)]
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).reshape(-1, n, n)
    out = bmm_attention(Q, K, V, mask)
    return out.reshape(B, n, width) @ W_O + b_O


def multi_head_attention__wrong_scales_w_q_itself(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """W_Q is divided in place, so the weights that were handed in are changed."""
    d_head = W_Q.shape[1] // n_heads
    W_Q /= math.sqrt(d_head)

    def heads_of(W):
        return (X @ W).unflatten(-1, (n_heads, d_head)).transpose(1, 2)

    scores = heads_of(W_Q) @ heads_of(W_K).mT
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    mixed = torch.softmax(scores, dim=-1) @ heads_of(W_V)
    return mixed.transpose(1, 2).flatten(2) @ W_O + b_O


def multi_head_attention__wrong_output_rows_strided(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Head r meets the rows r, r + h, r + 2h, … of W_O, not its block of rows."""
    d_head = W_Q.shape[1] // n_heads
    Q, K, V = (split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / d_head**0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    heads = torch.softmax(scores, dim=-1) @ V
    blocks = W_O.reshape(d_head, n_heads, -1)
    return torch.einsum("bhik,khm->bim", heads, blocks) + b_O


def multi_head_attention__right_head_by_head(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    """Sequence by sequence and head by head; each head adds its share to b_O."""
    B, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads
    allowed = torch.ones(n, n, dtype=torch.bool, device=X.device) if mask is None else mask
    allowed = allowed.expand(B, n_heads, n, n)
    outputs = []
    for x, masks in zip(X, allowed):
        total = b_O.expand(n, -1)
        parts = zip(W_Q.split(d_head, 1), W_K.split(d_head, 1), W_V.split(d_head, 1), W_O.split(d_head, 0), masks)
        for w_q, w_k, w_v, w_o, see in parts:
            scores = (x @ w_q) @ (x @ w_k).T / math.sqrt(d_head)
            scores = scores.masked_fill(~see, float("-inf"))
            total = total + torch.softmax(scores, dim=1) @ (x @ w_v @ w_o)
        outputs.append(total)
    return torch.stack(outputs)


# head_contributions


def head_contributions__wrong_strided_rows(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """W_O is cut so that head r meets every h-th row and not a block of rows."""
    B, n, _ = X.shape
    Q, K, V = (split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).flatten(0, 1)
    heads = bmm_attention(Q, K, V, mask).unflatten(0, (B, n_heads))
    blocks = W_O.unflatten(0, (-1, n_heads)).transpose(0, 1)
    return heads @ blocks


def head_contributions__wrong_running_sum(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Each entry holds the sum of the heads so far."""
    B, n, d_model = X.shape
    d_head = W_O.shape[0] // n_heads
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n)
    total = torch.zeros_like(X)
    contributions = []
    for r in range(n_heads):
        s = slice(r * d_head, (r + 1) * d_head)
        m = mask[:, r] if mask is not None else None
        head = bmm_attention(X @ W_Q[:, s], X @ W_K[:, s], X @ W_V[:, s], m)
        total = total + head @ W_O[s]
        contributions.append(total)
    return torch.stack(contributions, dim=1)


def head_contributions__wrong_mask_forgotten(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The mask is stretched, but never handed to the attention."""
    B, n, _ = X.shape
    Q, K, V = (split_heads(X @ W, n_heads).flatten(0, 1) for W in (W_Q, W_K, W_V))
    if mask is not None:
        mask = mask.expand(B, n_heads, n, n).flatten(0, 1)
    heads = bmm_attention(Q, K, V)
    heads = heads.unflatten(0, (B, n_heads))
    W_O = W_O.unflatten(0, (n_heads, -1))
    return torch.einsum("bhnd,hdm->bhnm", heads, W_O)


def head_contributions__wrong_stacked_in_front(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The shares are stacked as (h, B, …) and reshaped to (B, h, …), which mixes sequences and heads."""
    B, n, d_model = X.shape
    d_head = W_V.shape[1] // n_heads
    Q, K, V = (split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    shares = []
    for r in range(n_heads):
        see = None if mask is None else mask.expand(B, n_heads, n, n)[:, r]
        head = bmm_attention(Q[:, r], K[:, r], V[:, r], see)
        shares.append(head @ W_O[r * d_head : (r + 1) * d_head])
    return torch.stack(shares).reshape(B, n_heads, n, d_model)


def head_contributions__wrong_layer_without_head(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Entry r is what all the other heads write: the layer with head r struck out."""
    no_bias = torch.zeros(W_O.shape[1], dtype=X.dtype, device=X.device)
    owner = torch.arange(W_O.shape[0], device=X.device) // (W_O.shape[0] // n_heads)
    out = []
    for r in range(n_heads):
        without = W_O * (owner != r).unsqueeze(1)
        out.append(multi_head_attention(X, W_Q, W_K, W_V, without, no_bias, n_heads, mask))
    return torch.stack(out, dim=1)


def head_contributions__right_values_projected_first(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The values go through W_O before they are mixed: A (X W_V W_O), head by head, by einsum."""
    w_q, w_k, w_v = (W.unflatten(1, (n_heads, -1)) for W in (W_Q, W_K, W_V))
    w_o = W_O.unflatten(0, (n_heads, -1))
    written = torch.einsum("bnd,dhk,hkm->bhnm", X, w_v, w_o)
    queries, keys = torch.einsum("bnd,dhk->bhnk", X, w_q), torch.einsum("bnd,dhk->bhnk", X, w_k)
    scores = torch.einsum("bhik,bhjk->bhij", queries, keys) / math.sqrt(queries.shape[-1])
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    return torch.softmax(scores, dim=-1) @ written


# from_torch_weights


def from_torch_weights__wrong_w_o_not_turned(in_proj_weight, out_proj_weight):
    """The output projection is handed back as PyTorch stores it, not transposed."""
    W_Q, W_K, W_V = (block.T for block in in_proj_weight.chunk(3))
    return W_Q, W_K, W_V, out_proj_weight


def from_torch_weights__wrong_reshaped_in_place_of_transposed(in_proj_weight, out_proj_weight):
    """The whole is transposed first, then cut by a reshape, which mixes the three blocks."""
    d_model = in_proj_weight.shape[1]
    blocks = in_proj_weight.T.reshape(3, d_model, d_model)
    return blocks[0], blocks[1], blocks[2], out_proj_weight.T


def from_torch_weights__wrong_every_third_row(in_proj_weight, out_proj_weight):
    """Takes every third row for each matrix, as if the rows of the three came in turn."""
    W_Q = in_proj_weight[0::3].T
    W_K = in_proj_weight[1::3].T
    W_V = in_proj_weight[2::3].T
    W_O = out_proj_weight.T
    return W_Q, W_K, W_V, W_O


def from_torch_weights__wrong_new_parameters(in_proj_weight, out_proj_weight):
    """The weights are copied into new parameters, so no gradient reaches those that were handed in."""
    d = out_proj_weight.shape[0]

    def turned(weight):
        return nn.Parameter(weight.data.t().clone())

    W_Q = turned(in_proj_weight[:d])
    W_K = turned(in_proj_weight[d : 2 * d])
    W_V = turned(in_proj_weight[2 * d :])
    return W_Q, W_K, W_V, turned(out_proj_weight)


def from_torch_weights__wrong_values_before_keys(in_proj_weight, out_proj_weight):
    """The second block is taken for the values and the third for the keys."""
    d_model = in_proj_weight.size(1)
    W_Q, W_V, W_K = in_proj_weight.split(d_model, dim=0)
    return W_Q.T, W_K.T, W_V.T, out_proj_weight.T


def from_torch_weights__right_four_blocks_at_once(in_proj_weight, out_proj_weight):
    """Glues all four matrices, cuts four blocks, turns them together."""
    d_model = out_proj_weight.shape[1]
    four = torch.cat([in_proj_weight, out_proj_weight]).unflatten(0, (4, d_model))
    return four.mT.unbind(dim=0)


# diagnose


def diagnose__wrong_six_tokens(attend):
    """Six tokens only: a window of 8 hides nothing, and looks right."""
    g = torch.Generator().manual_seed(0)
    B, n, d_model, h, d_head = 3, 6, 7, 2, 3
    X = torch.randn(B, n, d_model, generator=g, dtype=torch.float64)
    X[1] *= 60
    X[2] *= 400
    W_Q, W_K, W_V = (torch.randn(d_model, h * d_head, generator=g, dtype=torch.float64) for _ in range(3))
    W_O = torch.randn(h * d_head, d_model, generator=g, dtype=torch.float64)
    seen = torch.ones(n, n, dtype=torch.bool).tril()

    def cut(T, heads):
        return T.unflatten(-1, (heads, -1)).transpose(1, 2)

    def layer(name):
        heads = 1 if name == "one_head_for_all" else h
        Q, K, V = X @ W_Q, X @ W_K, X @ W_V
        if name == "keys_and_values_swapped":
            K, V = V, K
        if name == "heads_not_by_columns":
            Q, K, V = (T.reshape(B, h, n, d_head) for T in (Q, K, V))
        else:
            Q, K, V = (cut(T, heads) for T in (Q, K, V))
        by = math.sqrt(Q.shape[-1])
        by = {"not_scaled": 1, "scaled_by_d": d_head, "scaled_by_d_model": math.sqrt(d_model)}.get(name, by)
        S = Q @ K.mT / by
        allowed = torch.ones(n, n, dtype=torch.bool).tril(1) if name == "causal_off_by_one" else seen
        if name == "window_of_8":
            allowed = seen.triu(-7)
        if name == "softmax_over_queries":
            A = S.masked_fill(~allowed, -math.inf).softmax(dim=-2)
        elif name == "mask_after_softmax":
            A = S.softmax(dim=-1) * allowed
        elif name == "masked_by_a_number":
            A = S.masked_fill(~allowed, -10_000.0).softmax(dim=-1)
        else:
            A = S.masked_fill(~allowed, -math.inf).softmax(dim=-1)
        O = A @ V
        glued = O.reshape(B, n, -1) if name == "heads_not_by_columns" else O.transpose(1, 2).flatten(2)
        return glued @ W_O

    out = attend(X, W_Q, W_K, W_V, W_O, h, True)
    if out.isnan().any():
        return "not_stabilised"
    names = ["right", "not_scaled", "scaled_by_d", "scaled_by_d_model", "softmax_over_queries"]
    names += ["causal_off_by_one", "mask_after_softmax", "heads_not_by_columns", "keys_and_values_swapped"]
    names += ["one_head_for_all", "masked_by_a_number", "window_of_8"]
    return min(names, key=lambda name: (out - layer(name)).abs().max().item())


def diagnose__wrong_sixteen_and_four(attend):
    """d_model = 16 and d_head = 4: dividing by d_head and by the root of d_model is the same."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    n, h, d, d_model = 12, 3, 4, 16
    X = torch.cat([draw(1, n, d_model), 50 * draw(1, n, d_model), 500 * draw(1, n, d_model)])
    Wq, Wk, Wv, Wo = draw(d_model, 12) / 4, draw(d_model, 12) / 4, draw(d_model, 12), draw(12, d_model)
    low = torch.ones(n, n, dtype=torch.bool).tril()
    answer = attend(X, Wq, Wk, Wv, Wo, h, True)
    if not answer.isfinite().all():
        return "not_stabilised"

    def attention(S, V, seen):
        return torch.softmax(S.masked_fill(~seen, float("-inf")), dim=-1) @ V

    def heads(T, count=h):
        return T.reshape(3, n, count, -1).permute(0, 2, 1, 3)

    def back(T):
        return T.permute(0, 2, 1, 3).reshape(3, n, -1) @ Wo

    q, k, v = X @ Wq, X @ Wk, X @ Wv
    Q, K, V = heads(q), heads(k), heads(v)
    S = Q @ K.mT
    suspects = {
        "right": back(attention(S / d**0.5, V, low)),
        "not_scaled": back(attention(S, V, low)),
        "scaled_by_d_model": back(attention(S / d_model**0.5, V, low)),
        "scaled_by_d": back(attention(S / d, V, low)),
        "causal_off_by_one": back(attention(S / d**0.5, V, torch.ones(n, n, dtype=torch.bool).tril(1))),
        "window_of_8": back(attention(S / d**0.5, V, low.triu(-7))),
        "keys_and_values_swapped": back(attention(Q @ V.mT / d**0.5, K, low)),
        "mask_after_softmax": back((torch.softmax(S / d**0.5, -1) * low) @ V),
        "masked_by_a_number": back(torch.softmax((S / d**0.5).masked_fill(~low, -1e4), -1) @ V),
        "softmax_over_queries": back(torch.softmax((S / d**0.5).masked_fill(~low, float("-inf")), -2) @ V),
        "one_head_for_all": back(attention(heads(q, 1) @ heads(k, 1).mT / 12**0.5, heads(v, 1), low)),
    }
    q, k, v = (T.reshape(3, h, n, d) for T in (q, k, v))
    suspects["heads_not_by_columns"] = attention(q @ k.mT / d**0.5, v, low).reshape(3, n, -1) @ Wo
    best, smallest = None, math.inf
    for name, expected in suspects.items():
        distance = ((answer - expected).abs() / (1 + expected.abs())).max().item()
        if distance < smallest - 1e-6:
            best, smallest = name, distance
    return best


def diagnose__wrong_no_low_scores(attend):
    """All scores of allowed pairs are far above -10,000, so forbidden scores of -10,000 are as good as hidden."""
    gen = torch.Generator().manual_seed(0)
    n, h, d_head, d_model = 11, 2, 3, 5
    X = torch.randn(2, n, d_model, generator=gen, dtype=torch.float64)
    X[1] = 25 * X[1]
    weights = [torch.randn(d_model, h * d_head, generator=gen, dtype=torch.float64) for _ in range(3)]
    W_O = torch.randn(h * d_head, d_model, generator=gen, dtype=torch.float64)
    found = attend(X, *weights, W_O, h, True)
    if found.isnan().any() or found.isinf().any():
        return "not_stabilised"

    causal = torch.ones(n, n).tril().bool()

    def simulate(
        scale=d_head**0.5, heads=h, mask=causal, dim=-1, swapped=False, after=False, scrambled=False, low=None
    ):
        Q, K, V = (X @ W for W in weights)
        if swapped:
            K, V = V, K
        if scrambled:
            Q, K, V = (T.reshape(2, heads, n, -1) for T in (Q, K, V))
        else:
            Q, K, V = (T.reshape(2, n, heads, -1).transpose(1, 2) for T in (Q, K, V))
        S = Q @ K.transpose(-1, -2) / scale
        if after:
            A = torch.softmax(S, dim=dim) * mask
        else:
            A = torch.softmax(S.masked_fill(~mask, -torch.inf if low is None else low), dim=dim)
        out = A @ V
        out = out.reshape(2, n, -1) if scrambled else out.transpose(1, 2).reshape(2, n, -1)
        return out @ W_O

    candidates = [
        ("right", simulate()),
        ("not_scaled", simulate(scale=1)),
        ("scaled_by_d", simulate(scale=d_head)),
        ("scaled_by_d_model", simulate(scale=d_model**0.5)),
        ("softmax_over_queries", simulate(dim=-2)),
        ("causal_off_by_one", simulate(mask=torch.ones(n, n).tril(1).bool())),
        ("mask_after_softmax", simulate(after=True)),
        ("heads_not_by_columns", simulate(scrambled=True)),
        ("keys_and_values_swapped", simulate(swapped=True)),
        ("one_head_for_all", simulate(heads=1, scale=(h * d_head) ** 0.5)),
        ("masked_by_a_number", simulate(low=-10000.0)),
        ("window_of_8", simulate(mask=causal.triu(-7))),
    ]
    for name, expected in candidates:
        if torch.allclose(found, expected, rtol=1e-6, atol=1e-6):
            return name
    return "right"


def diagnose__wrong_future_not_hidden(attend):
    """The call is made with causal=False, and four of the suspects differ under the causal mask alone."""
    rng = torch.Generator().manual_seed(0)
    n, h, d, m = 10, 2, 4, 6
    X = torch.randn(2, n, m, generator=rng).double()
    X[1] *= 100
    W = torch.randn(3, m, h * d, generator=rng).double()
    W_O = torch.randn(h * d, m, generator=rng).double()
    y = attend(X, W[0], W[1], W[2], W_O, h, False)
    if torch.isnan(y).any():
        return "not_stabilised"

    def run(Q, K, V, heads, by, dim=-1):
        Q, K, V = (T.unflatten(-1, (heads, -1)).transpose(1, 2) for T in (Q, K, V))
        A = torch.softmax(Q @ K.mT / by, dim=dim)
        return (A @ V).transpose(1, 2).flatten(2) @ W_O

    Q, K, V = X @ W[0], X @ W[1], X @ W[2]
    flat = [T.reshape(2, h, n, d) for T in (Q, K, V)]
    guesses = {
        "right": run(Q, K, V, h, d**0.5),
        "not_scaled": run(Q, K, V, h, 1),
        "scaled_by_d": run(Q, K, V, h, d),
        "scaled_by_d_model": run(Q, K, V, h, m**0.5),
        "softmax_over_queries": run(Q, K, V, h, d**0.5, dim=-2),
        "keys_and_values_swapped": run(Q, V, K, h, d**0.5),
        "one_head_for_all": run(Q, K, V, 1, (h * d) ** 0.5),
        "heads_not_by_columns": (torch.softmax(flat[0] @ flat[1].mT / d**0.5, -1) @ flat[2]).reshape(2, n, -1) @ W_O,
    }
    errors = {name: (y - guess).norm().item() for name, guess in guesses.items()}
    return min(errors, key=errors.get)


def diagnose__wrong_ordinary_numbers(attend):
    """All scores are of order 1: neither an overflow nor a mask of -10,000 can show."""
    generator = torch.Generator().manual_seed(0)
    B, n, d_model, h, d_head = 2, 14, 6, 3, 2

    def layer(X, W_Q, W_K, W_V, W_O, slip):
        if slip == "keys_and_values_swapped":
            W_K, W_V = W_V, W_K
        outputs = []
        for x in X:
            q, k, v = x @ W_Q, x @ W_K, x @ W_V
            heads, count = [], (1 if slip == "one_head_for_all" else h)
            width = h * d_head // count
            for r in range(count):
                if slip == "heads_not_by_columns":
                    a, b, c = (t.reshape(h, n, d_head)[r] for t in (q, k, v))
                else:
                    a, b, c = (t[:, r * width : (r + 1) * width] for t in (q, k, v))
                scale = {"not_scaled": 1.0, "scaled_by_d": width, "scaled_by_d_model": d_model**0.5}
                s = a @ b.T / scale.get(slip, width**0.5)
                i, j = torch.arange(n)[:, None], torch.arange(n)
                see = j <= i + (1 if slip == "causal_off_by_one" else 0)
                if slip == "window_of_8":
                    see = see & (j > i - 8)
                if slip == "mask_after_softmax":
                    w = torch.softmax(s, 1) * see
                elif slip == "not_stabilised":
                    w = torch.exp(s) * see
                    w = w / w.sum(1, keepdim=True)
                elif slip == "masked_by_a_number":
                    w = torch.softmax(torch.where(see, s, -10000.0), 1)
                else:
                    axis = 0 if slip == "softmax_over_queries" else 1
                    w = torch.softmax(torch.where(see, s, -math.inf), axis)
                heads.append(w @ c)
            glued = torch.stack(heads).reshape(n, -1) if slip == "heads_not_by_columns" else torch.cat(heads, 1)
            outputs.append(glued @ W_O)
        return torch.stack(outputs)

    shapes = [(B, n, d_model), *3 * [(d_model, h * d_head)], (h * d_head, d_model)]
    inputs = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    box = attend(*inputs, h, True)
    for slip in (
        "right", "not_scaled", "scaled_by_d", "scaled_by_d_model", "softmax_over_queries", "causal_off_by_one",
        "mask_after_softmax", "heads_not_by_columns", "keys_and_values_swapped", "one_head_for_all",
        "masked_by_a_number", "window_of_8",
    ):
        if (box - layer(*inputs, slip)).abs().max() < 1e-8:
            return slip
    return "not_stabilised"


def diagnose__right_thirteen_simulated(attend):
    """One call with three sequences: ordinary, large, and very large scores; the nearest of the suspects is named."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    B, n, d_model, h, d_head = 3, 13, 7, 3, 4
    X = draw(B, n, d_model) * torch.tensor([0.6, 40, 400], dtype=torch.float64)[:, None, None]
    W_Q, W_K, W_V, W_O = (draw(*s) for s in (*[(d_model, h * d_head)] * 3, (h * d_head, d_model)))
    found = attend(X, W_Q, W_K, W_V, W_O, h, True)
    if not found.isfinite().all():
        return "not_stabilised"
    ahead = torch.arange(n) - torch.arange(n)[:, None]
    future = ahead > 0

    def by_columns(heads):
        return lambda T: T.unflatten(-1, (heads, -1)).transpose(1, 2)

    def simulate(w_k=W_K, w_v=W_V, cut=by_columns(h), glue=lambda T: T.transpose(1, 2).flatten(2), by=d_head**0.5,
                 weigh=lambda S: S.masked_fill(future, -math.inf).softmax(-1)):
        Q, K, V = cut(X @ W_Q), cut(X @ w_k), cut(X @ w_v)
        return glue(weigh(Q @ K.mT / by) @ V) @ W_O

    suspects = {
        "right": simulate(),
        "not_scaled": simulate(by=1),
        "scaled_by_d": simulate(by=d_head),
        "scaled_by_d_model": simulate(by=d_model**0.5),
        "softmax_over_queries": simulate(weigh=lambda S: S.masked_fill(future, -math.inf).softmax(-2)),
        "causal_off_by_one": simulate(weigh=lambda S: S.masked_fill(ahead > 1, -math.inf).softmax(-1)),
        "mask_after_softmax": simulate(weigh=lambda S: S.softmax(-1) * ~future),
        "heads_not_by_columns": simulate(cut=lambda T: T.reshape(B, h, n, -1), glue=lambda T: T.reshape(B, n, -1)),
        "keys_and_values_swapped": simulate(W_V, W_K),
        "one_head_for_all": simulate(cut=by_columns(1), by=(h * d_head) ** 0.5),
        "masked_by_a_number": simulate(weigh=lambda S: S.masked_fill(future, -1e4).softmax(-1)),
        "window_of_8": simulate(weigh=lambda S: S.masked_fill(future | (ahead < -7), -math.inf).softmax(-1)),
    }
    size = X.abs().amax(dim=(1, 2), keepdim=True)
    return min(suspects, key=lambda name: ((found - suspects[name]) / size).abs().max().item())
