"""Answers to the exercises of unit 6 (cross-attention), as students would write them."""

import math

import torch
import torch.nn.functional as F


def _split_heads(x, h):
    """(B, n, h*d_head) -> (B, h, n, d_head)."""
    return x.reshape(x.shape[0], x.shape[1], h, -1).transpose(1, 2)


def _merge_heads(x):
    """(B, h, n, d_head) -> (B, n, h*d_head)."""
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def _attend(Q, K, V, allowed):
    """Heads and weights of attention among the allowed keys; rows that see nothing are 0."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    allowed = allowed.expand(scores.shape)
    weights = scores.masked_fill(~allowed, -1e30).softmax(dim=-1).masked_fill(~allowed, 0.0)
    return weights @ V, weights


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The self-attention that the notebook gives."""
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    if mask is None:
        mask = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    return _merge_heads(_attend(Q, K, V, mask)[0]) @ W_O


def _cross_attention(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """A right cross-attention, an earlier exercise."""
    Q, K, V = (_split_heads(side @ W, n_heads) for side, W in ((X, W_Q), (Y, W_K), (Y, W_V)))
    if source_mask is None:
        source_mask = torch.ones(Y.shape[:2], dtype=torch.bool)
    heads, weights = _attend(Q, K, V, source_mask[:, None, None, :])
    return _merge_heads(heads) @ W_O, weights


def _decoder_layer(X, Y, params, n_heads, source_mask=None):
    """A right decoder layer, an earlier exercise."""
    n = X.shape[1]
    own = [params[f"self_W_{role}"] for role in "QKVO"]
    cross = [params[f"cross_W_{role}"] for role in "QKVO"]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    X_1 = X + _multi_head_attention(X, *own, n_heads, causal)
    return X_1 + _cross_attention(X_1, Y, *cross, n_heads, source_mask)[0]


def _draw(seed, B, n, m, h, own, cross, d_model, d_source):
    """Random X, Y and params (in no special order) in float64; own and cross are the two widths of a head."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(shape, generator=g, dtype=torch.float64)

    params = {}
    for kind, width, d_in in (("self", h * own, d_model), ("cross", h * cross, d_source)):
        params[f"{kind}_W_Q"] = normal(d_model, width) / d_model**0.5
        params[f"{kind}_W_K"] = normal(d_in, width) / d_in**0.5
        params[f"{kind}_W_V"] = normal(d_in, width) / d_in**0.5
        params[f"{kind}_W_O"] = normal(width, d_model) / width**0.5
    X, Y = normal(B, n, d_model), normal(B, m, d_source)
    return X, Y, {name: params[name] for name in sorted(params, key=lambda name: name[::-1])}


# 6.1 cross_attention


def cross_attention__wrong_seventh_empty_source_keeps_weights(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """For a source with no True only out is set to 0; the weights that come back are uniform there."""
    B, n, _ = X.shape
    m = Y.shape[1]
    d_head = W_Q.shape[1] // n_heads
    Q = (X @ W_Q).reshape(B, n, n_heads, d_head).transpose(1, 2)
    K = (Y @ W_K).reshape(B, m, n_heads, d_head).transpose(1, 2)
    V = (Y @ W_V).reshape(B, m, n_heads, d_head).transpose(1, 2)
    scores = Q @ K.transpose(-1, -2) / d_head**0.5
    if source_mask is not None:
        scores = scores.masked_fill(~source_mask[:, None, None, :], -1e30)
    weights = torch.softmax(scores, dim=-1)
    out = (weights @ V).transpose(1, 2).reshape(B, n, -1) @ W_O
    if source_mask is not None:
        out = torch.where(source_mask.any(1)[:, None, None], out, torch.zeros_like(out))
    return out, weights


def cross_attention__wrong_seventh_mask_counted_as_length(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Turns the mask into lengths (its number of True) and shows the first tokens: a mask with holes hides the wrong ones."""
    B, m = Y.shape[:2]
    lengths = torch.full((B,), m) if source_mask is None else source_mask.sum(dim=1)
    seen = (torch.arange(m) < lengths[:, None])[:, None, None, :]
    q, k, v = (_split_heads(t, n_heads) for t in (X @ W_Q, Y @ W_K, Y @ W_V))
    S = torch.einsum("bhnd,bhmd->bhnm", q, k) / q.shape[-1] ** 0.5
    S = torch.where(seen, S, torch.full_like(S, -1e30))
    A = torch.where(seen, S.softmax(-1), torch.zeros_like(S))
    return torch.einsum("bhnm,bhmd->bnhd", A, v).flatten(2) @ W_O, A


def cross_attention__wrong_seventh_softmax_in_float32(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Takes the softmax in float32 and casts back, as half-precision code does: in float64 the weights are off by about 1e-7."""
    Q, K, V = _split_heads(X @ W_Q, n_heads), _split_heads(Y @ W_K, n_heads), _split_heads(Y @ W_V, n_heads)
    scores = (Q @ K.mT) * Q.shape[-1] ** -0.5
    allowed = torch.ones_like(scores, dtype=torch.bool)
    if source_mask is not None:
        allowed = allowed & source_mask[:, None, None]
    low = scores.float().masked_fill(~allowed, -1e30)
    weights = F.softmax(low, dim=-1).to(X.dtype) * allowed
    return _merge_heads(weights @ V) @ W_O, weights


def cross_attention__wrong_seventh_detached_weights(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Returns weights.detach(), as they are "only for the picture": no gradient flows from the weights."""
    B, m, _ = Y.shape
    keep = torch.ones(B, m, dtype=torch.bool) if source_mask is None else source_mask
    keep = keep.view(B, 1, 1, m)
    Q, K, V = (_split_heads(p, n_heads) for p in (X @ W_Q, Y @ W_K, Y @ W_V))
    logits = torch.matmul(Q, K.transpose(2, 3)).div(math.sqrt(Q.size(-1)))
    logits = logits.masked_fill(keep.logical_not(), -1e30)
    attn = torch.softmax(logits, dim=3).masked_fill(keep.logical_not(), 0)
    mixed = torch.matmul(attn, V)
    return _merge_heads(mixed).matmul(W_O), attn.detach()


def cross_attention__wrong_seventh_opens_empty_rows_in_place(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Against NaN it sets the empty rows of source_mask itself to True: the results are right, the caller's mask is changed."""
    q, k, v = (_split_heads(t, n_heads) for t in (X @ W_Q, Y @ W_K, Y @ W_V))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if source_mask is None:
        weights = scores.softmax(dim=-1)
    else:
        nobody = ~source_mask.any(dim=1)
        source_mask[nobody] = True
        scores = scores.masked_fill(~source_mask[:, None, None, :], float("-inf"))
        weights = scores.softmax(dim=-1).masked_fill(nobody[:, None, None, None], 0.0)
    out = (weights @ v).permute(0, 2, 1, 3).flatten(start_dim=2) @ W_O
    return out, weights


def cross_attention__wrong_seventh_mean_of_heads(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Head by head, each with its rows of W_O, and then the mean of the heads' outputs, not their sum."""
    d = W_Q.shape[1] // n_heads
    outs, maps = [], []
    for r in range(n_heads):
        own = slice(r * d, (r + 1) * d)
        S = (X @ W_Q[:, own]) @ (Y @ W_K[:, own]).mT / d**0.5
        if source_mask is not None:
            S = S.masked_fill(~source_mask[:, None], -1e30)
        A = S.softmax(dim=-1)
        if source_mask is not None:
            A = A.masked_fill(~source_mask[:, None], 0)
        maps.append(A)
        outs.append(A @ (Y @ W_V[:, own]) @ W_O[own])
    return torch.stack(outs).mean(dim=0), torch.stack(maps, dim=1)


def cross_attention__wrong_seventh_fills_with_minus_1e4(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Hidden scores become -1e4, no lower: where the allowed scores are about -10,000 hidden tokens get the weight."""
    B, n, m = X.shape[0], X.shape[1], Y.shape[1]
    Q = (X @ W_Q).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    K = (Y @ W_K).unflatten(-1, (n_heads, -1)).permute(0, 2, 3, 1)
    V = (Y @ W_V).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    scores = Q @ K / Q.shape[-1] ** 0.5
    if source_mask is not None:
        hidden = ~source_mask.reshape(B, 1, 1, m)
        scores = scores.masked_fill(hidden, -1e4)
    weights = scores.softmax(dim=-1)
    if source_mask is not None:
        weights = weights * source_mask.any(dim=1).reshape(B, 1, 1, 1)
    return (weights @ V).transpose(1, 2).reshape(B, n, -1) @ W_O, weights


def cross_attention__wrong_seventh_root_of_all_columns(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Divides by the root of h*d_head (scaled before the split), not of d_head: right with one head only."""
    width = W_Q.shape[1]
    queries = (X @ W_Q) / math.sqrt(width)
    Q, K, V = _split_heads(queries, n_heads), _split_heads(Y @ W_K, n_heads), _split_heads(Y @ W_V, n_heads)
    S = Q @ K.mT
    if source_mask is not None:
        S = S.masked_fill(~source_mask[:, None, None, :], torch.finfo(S.dtype).min)
    A = S.softmax(-1)
    if source_mask is not None:
        A = A.masked_fill(~source_mask[:, None, None, :], 0)
    return _merge_heads(A @ V) @ W_O, A


def cross_attention__right_seventh_cuts_the_source(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Sequence by sequence and head by head: hidden source tokens are cut out, and the weights put back into a table of zeros."""
    d = W_Q.shape[1] // n_heads
    outs, maps = [], []
    for b in range(len(X)):
        mask = torch.ones(Y.shape[1], dtype=torch.bool) if source_mask is None else source_mask[b]
        kept = mask.nonzero().flatten()
        total, tables = 0, []
        for r in range(n_heads):
            Q, K, V = X[b] @ W_Q[:, r * d : (r + 1) * d], Y[b] @ W_K[:, r * d : (r + 1) * d], Y[b] @ W_V[:, r * d : (r + 1) * d]
            scores = Q @ K.T / math.sqrt(d)
            some = scores[:, kept].softmax(dim=-1)
            tables.append((0 * scores).index_copy(1, kept, some))
            total = total + tables[-1] @ V @ W_O[r * d : (r + 1) * d]
        outs.append(total)
        maps.append(torch.stack(tables))
    return torch.stack(outs), torch.stack(maps)


def cross_attention__right_seventh_products_of_weights(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Multiplies W_Q W_K^T and W_V W_O of each head first, in one einsum; a softmax by hand, by the largest allowed score."""
    WQ, WK, WV = (W.reshape(W.shape[0], n_heads, -1) for W in (W_Q, W_K, W_V))
    WO = W_O.reshape(n_heads, -1, W_O.shape[1])
    asks = torch.einsum("xhd,yhd->hxy", WQ, WK) / WQ.shape[-1] ** 0.5
    writes = torch.einsum("yhd,hdx->hyx", WV, WO)
    S = torch.einsum("bnx,hxy,bmy->bhnm", X, asks, Y)
    seen = torch.ones_like(S, dtype=torch.bool)
    if source_mask is not None:
        seen = seen & source_mask[:, None, None, :]
    top = torch.where(seen, S, torch.full_like(S, -1e30)).amax(-1, keepdim=True).detach()
    powers = torch.where(seen, torch.where(seen, S - top, torch.zeros_like(S)).exp(), torch.zeros_like(S))
    total = powers.sum(-1, keepdim=True)
    A = powers / torch.where(total > 0, total, torch.ones_like(total))
    return torch.einsum("bhnm,bmy,hyx->bnx", A, Y, writes), A


# 6.2 decoder_layer


def decoder_layer__wrong_seventh_params_by_order(X, Y, params, n_heads, source_mask=None):
    """Takes the matrices by their place in the dictionary, not by name: in another order it mixes them up."""
    W = list(params.values())
    n = X.shape[1]
    causal = torch.tril(torch.ones(n, n, dtype=torch.bool))
    X_1 = X + _multi_head_attention(X, *W[:4], n_heads, causal)
    out, _ = _cross_attention(X_1, Y, *W[4:], n_heads, source_mask)
    return X_1 + out


def decoder_layer__wrong_seventh_pops_params(X, Y, params, n_heads, source_mask=None):
    """Takes the matrices out of the caller's dictionary by params.pop: it is empty afterwards."""
    position = torch.arange(X.shape[1])
    causal = position[:, None] >= position
    own = [params.pop("self_W_" + role) for role in "QKVO"]
    cross = [params.pop("cross_W_" + role) for role in "QKVO"]
    X_1 = X + _multi_head_attention(X, *own, n_heads, causal)
    return X_1 + _cross_attention(X_1, Y, *cross, n_heads, source_mask)[0]


def decoder_layer__wrong_seventh_order_q_v_k(X, Y, params, n_heads, source_mask=None):
    """Hands W_V over in the place of W_K, and W_K in that of W_V, in the self-attention."""
    n = X.shape[1]
    future = torch.ones(n, n).triu(diagonal=1).bool()
    W_Q, W_V, W_K, W_O = (params[f"self_W_{letter}"] for letter in "QVKO")
    first = X + _multi_head_attention(X, W_Q, W_V, W_K, W_O, n_heads, ~future)
    second, _ = _cross_attention(
        first, Y, params["cross_W_Q"], params["cross_W_K"], params["cross_W_V"], params["cross_W_O"], n_heads, source_mask
    )
    return first + second


def decoder_layer__wrong_seventh_source_mask_on_target_too(X, Y, params, n_heads, source_mask=None):
    """Where both sides are equally long the source mask hides target tokens in the self-attention as well."""
    B, n, _ = X.shape
    allowed = torch.tril(torch.ones(n, n, dtype=torch.bool)).expand(B, 1, n, n)
    if source_mask is not None and source_mask.shape == (B, n):
        allowed = allowed & source_mask[:, None, None, :]
    own, cross = ([params[f"{kind}_W_{r}"] for r in "QKVO"] for kind in ("self", "cross"))
    X = X + _multi_head_attention(X, *own, n_heads, allowed)
    return X + _cross_attention(X, Y, *cross, n_heads, source_mask)[0]


def decoder_layer__wrong_seventh_layer_norm_added(X, Y, params, n_heads, source_mask=None):
    """Post-norm of the 2017 paper: a layer_norm after each sum, which this unit's layer does not have."""
    n, d_model = X.shape[1:]
    P = params
    mask = torch.ones((n, n), dtype=torch.bool).tril()
    own = _multi_head_attention(X, P["self_W_Q"], P["self_W_K"], P["self_W_V"], P["self_W_O"], n_heads, mask)
    X_1 = F.layer_norm(X + own, (d_model,))
    read = _cross_attention(X_1, Y, P["cross_W_Q"], P["cross_W_K"], P["cross_W_V"], P["cross_W_O"], n_heads, source_mask)[0]
    return F.layer_norm(X_1 + read, (d_model,))


def decoder_layer__wrong_seventh_diagonal_hidden(X, Y, params, n_heads, source_mask=None):
    """The causal mask is strict, tril(diagonal=-1): no token sees itself, and the first one sees nothing."""
    n = X.size(1)
    before = torch.ones(n, n, dtype=torch.bool).tril(diagonal=-1)
    weights = {kind: [params[f"{kind}_W_{x}"] for x in ("Q", "K", "V", "O")] for kind in ("self", "cross")}
    X_1 = X + _multi_head_attention(X, *weights["self"], n_heads, mask=before)
    X_2 = X_1 + _cross_attention(X_1, Y, *weights["cross"], n_heads, source_mask=source_mask)[0]
    return X_2


def decoder_layer__wrong_seventh_self_attention_with_one_head(X, Y, params, n_heads, source_mask=None):
    """Writes the self-attention by hand and forgets its heads: n_heads reaches the cross-attention alone."""
    Q, K, V = X @ params["self_W_Q"], X @ params["self_W_K"], X @ params["self_W_V"]
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    n = scores.shape[-1]
    scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
    X_1 = X + scores.softmax(dim=-1) @ V @ params["self_W_O"]
    four = [params[f"cross_W_{role}"] for role in "QKVO"]
    return X_1 + _cross_attention(X_1, Y, *four, n_heads, source_mask)[0]


def decoder_layer__wrong_seventh_one_empty_source_stops_all(X, Y, params, n_heads, source_mask=None):
    """Returns X_1 for the whole batch as soon as one source has no True: the other sequences lose their cross-attention."""
    n = X.shape[1]
    X_1 = X + _multi_head_attention(
        X, *(params[f"self_W_{c}"] for c in "QKVO"), n_heads, torch.ones(n, n, dtype=torch.bool).tril()
    )
    if source_mask is not None and not source_mask.any(dim=-1).all():
        return X_1
    out, _ = _cross_attention(X_1, Y, *(params[f"cross_W_{c}"] for c in "QKVO"), n_heads, source_mask)
    return X_1 + out


def decoder_layer__right_seventh_beginnings(X, Y, params, n_heads, source_mask=None):
    """No causal mask: for each target token a self-attention over its beginning, of which the last row is kept."""
    own = [params[f"self_W_{role}"] for role in "QKVO"]
    cross = [params[f"cross_W_{role}"] for role in "QKVO"]
    rows = []
    for t in range(X.shape[1]):
        told = _multi_head_attention(X[:, : t + 1], *own, n_heads)[:, -1:]
        asks = X[:, t : t + 1] + told
        rows.append(asks + _cross_attention(asks, Y, *cross, n_heads, source_mask)[0])
    return torch.cat(rows, dim=1)


def decoder_layer__right_seventh_blocks_of_columns(X, Y, params, n_heads, source_mask=None):
    """One inner function for both attentions, which adds up heads as blocks of columns; softmax by logsumexp, zeros by where."""

    def added(asks, asked, kind, seen):
        W_Q, W_K, W_V, W_O = (params[f"{kind}_W_{role}"].tensor_split(n_heads, dim=int(role != "O")) for role in "QKVO")
        total = torch.zeros_like(asks)
        for q, k, v, o in zip(W_Q, W_K, W_V, W_O):
            S = torch.einsum("bnx,xd,yd,bmy->bnm", asks, q, k, asked) / math.sqrt(q.shape[1])
            low = torch.where(seen, S, torch.full_like(S, -1e30))
            A = (low - low.logsumexp(dim=-1, keepdim=True)).exp()
            total = total + torch.where(seen, A, torch.zeros_like(A)) @ asked @ (v @ o)
        return total

    (B, n, _), m = X.shape, Y.shape[1]
    past = torch.arange(n) <= torch.arange(n)[:, None]
    real = torch.ones(B, m, dtype=torch.bool) if source_mask is None else source_mask
    X_1 = X + added(X, X, "self", past.expand(B, n, n))
    return X_1 + added(X_1, Y, "cross", real[:, None, :].expand(B, n, m))


# 6.3 alignment


def alignment__wrong_seventh_squares(weights):
    """Averages the squares of the weights: a head that is sure counts more than two that agree a little."""
    energy = weights.pow(2).mean(dim=1)
    return energy.argmax(dim=-1)


def alignment__wrong_seventh_shifted_to_the_predicted(weights):
    """Moves the rows on by one, since row i predicts token i + 1: the alignment of row 0 stands in place 1, and place 0 gets the last."""
    found = torch.argmax(weights.mean(1), dim=-1)
    return torch.roll(found, shifts=1, dims=1)


def alignment__wrong_seventh_each_source_once(weights):
    """Uses each source token once: what an earlier target token has taken is no longer offered."""
    mean = weights.mean(dim=1)
    B, n, m = mean.shape
    found = torch.zeros(B, n, dtype=torch.long)
    for b in range(B):
        free = torch.ones(m, dtype=torch.bool)
        for i in range(n):
            if not free.any():
                free[:] = True
            best = mean[b, i].masked_fill(~free, -1.0).argmax()
            found[b, i] = best
            free[best] = False
    return found


def alignment__wrong_seventh_rounded_to_hundredths(weights):
    """Rounds the mean weights to two places, as they are printed, before it looks for the largest: close ones tie."""
    table = (weights.mean(dim=1) * 100).round() / 100
    return table.argmax(dim=2)


def alignment__wrong_seventh_geometric_mean(weights):
    """Averages logarithms over the heads (a geometric mean): a head that gives almost nothing is a veto."""
    logs = torch.log(weights + 1e-12)
    return logs.mean(dim=1).max(dim=-1).indices


def alignment__wrong_seventh_axes_reshaped(weights):
    """Brings the heads beside the source axis by reshape, not by transposing: rows of heads and of target tokens are mixed."""
    B, h, n, m = weights.shape
    by_token = weights.reshape(B, n, h, m)
    return by_token.mean(dim=2).argmax(dim=-1)


def alignment__wrong_seventh_median_of_heads(weights):
    """torch.median over the heads in place of the mean."""
    middle = torch.median(weights, dim=1).values
    return middle.argmax(dim=-1)


def alignment__wrong_seventh_divided_by_columns(weights):
    """Divides by what each source token gets from all target tokens before it looks for the largest in a row."""
    A = weights.mean(dim=1)
    share = A / A.sum(dim=1, keepdim=True).clamp_min(1e-12)
    return share.argmax(dim=-1)


def alignment__right_seventh_sorted_sums(weights):
    """Sums over the heads by einsum and takes the first index of a stable sort, largest first."""
    together = torch.einsum("bhnm->bnm", weights)
    return together.sort(dim=-1, descending=True, stable=True).indices[..., 0]


def alignment__right_seventh_column_after_column(weights):
    """Adds the heads in a loop and goes through the source tokens, keeping the best so far of every row."""
    B, h, n, m = weights.shape
    total = weights[:, 0].clone()
    for r in range(1, h):
        total = total + weights[:, r]
    best = total[:, :, 0].clone()
    found = torch.zeros(B, n, dtype=torch.long)
    for j in range(1, m):
        better = total[:, :, j] > best
        found[better] = j
        best = torch.where(better, total[:, :, j], best)
    return found


# 6.4 greedy_decode


def greedy_decode__wrong_seventh_best_starts_at_zero(next_logits, start, end, max_len):
    """Looks for the largest logit in a loop that begins with a best of 0.0: if all logits are negative token 0 wins."""
    tokens = [start]
    while len(tokens) < max_len:
        best, top = 0, 0.0
        for token, logit in enumerate(next_logits(tokens).tolist()):
            if logit > top:
                best, top = token, logit
        tokens.append(best)
        if best == end:
            break
    return tokens


def greedy_decode__wrong_seventh_start_never_again(next_logits, start, end, max_len):
    """Sets the logit of start to -inf, so that it is never generated; a generated start is like any token."""
    out = [start]
    for _ in range(max_len - 1):
        logits = next_logits(list(out)).clone()
        logits[start] = -float("inf")
        out.append(int(logits.argmax()))
        if out[-1] == end:
            return out
    return out


def greedy_decode__wrong_seventh_zero_is_falsy(next_logits, start, end, max_len):
    """Loops `while token and …`: a generated token 0 is appended and ends the sequence as if it were the end."""
    tokens = [start]
    token = True
    while token and len(tokens) < max_len:
        token = next_logits(tokens).argmax(dim=-1).item()
        tokens.append(token)
        if token == end:
            break
    return tokens


def greedy_decode__wrong_seventh_cut_at_first_end(next_logits, start, end, max_len):
    """Writes max_len tokens and cuts at tokens.index(end): if start is the end token, the first one is found."""
    tokens = [start]
    while len(tokens) < max_len:
        tokens += [next_logits(tokens).max(dim=0).indices.item()]
    if end in tokens:
        tokens = tokens[: tokens.index(end) + 1]
    return tokens


def greedy_decode__wrong_seventh_closes_with_end(next_logits, start, end, max_len):
    """If no end has come by max_len the last token is replaced by end, so that every sequence is closed."""
    tokens, done = [start], False
    while not done and len(tokens) < max_len:
        token = int(torch.argmax(next_logits(tokens)))
        tokens.append(token)
        done = token == end
    if not done and len(tokens) > 1:
        tokens[-1] = end
    return tokens


def greedy_decode__wrong_seventh_no_repeats(next_logits, start, end, max_len):
    """Bars tokens that were generated before (no_repeat of other libraries): a word that is due twice cannot come."""
    generated = []
    while len(generated) + 1 < max_len:
        logits = next_logits([start] + generated).clone()
        for token in generated:
            logits[token] = float("-inf")
        generated.append(logits.argmax().item())
        if generated[-1] == end:
            break
    return [start] + generated


def greedy_decode__wrong_seventh_last_token_alone(next_logits, start, end, max_len):
    """Hands over the newest token alone, as with a cache of keys and values: the model does not see what stands before."""
    newest, sequence = start, [start]
    for _ in range(1, max_len):
        newest = int(next_logits([newest]).argmax())
        sequence.append(newest)
        if newest == end:
            break
    return sequence


def greedy_decode__wrong_seventh_end_not_first(next_logits, start, end, max_len):
    """Forbids end as the first generated token, so that no sentence is empty: the second best is taken."""
    tokens = [start]
    while len(tokens) < max_len:
        order = next_logits(tokens).argsort(descending=True).tolist()
        token = order[0]
        if token == end and len(tokens) == 1:
            token = order[1]
        tokens.append(token)
        if token == end:
            break
    return tokens


def greedy_decode__right_seventh_recursion(next_logits, start, end, max_len):
    """An inner function calls itself with one token more, until there is no room or a generated end."""

    def go_on(so_far):
        if len(so_far) >= max_len:
            return so_far
        token = int(next_logits(list(so_far)).topk(1).indices[0])
        longer = [*so_far, token]
        return longer if token == end else go_on(longer)

    return go_on([int(start)])


def greedy_decode__right_seventh_generator(next_logits, start, end, max_len):
    """A generator yields the generated tokens, the largest by Python's max over the list of logits; the list is made of it."""

    def generated():
        tokens = [int(start)]
        for _ in range(max_len - 1):
            numbers = next_logits(tokens[:]).tolist()
            token = max(range(len(numbers)), key=numbers.__getitem__)
            tokens.append(token)
            yield token
            if token == end:
                return

    return [int(start), *generated()]


# 6.5 catches_wrong_decoder


def _sharp(seed):
    """Inputs of order 1 whose scores are about -10,000 in head 0 and 10,000 in head 1, in both attentions."""
    X, Y, P = _draw(seed, 2, 6, 16, 2, 20, 20, 36, 36)
    X, Y = 0.75 * X.abs() + 1.5, 0.75 * Y.abs() + 1.5
    sign = torch.ones(40, dtype=torch.float64)
    sign[:20] = -1
    for kind in ("self", "cross"):
        P[f"{kind}_W_Q"] = 0.5 + P[f"{kind}_W_Q"].abs()
        P[f"{kind}_W_K"] = (0.5 + P[f"{kind}_W_K"].abs()) * sign
    return X, Y, P


def _holes(B, m):
    """A mask for B sequences: pads behind, in front, holes, one token, all, every other, nothing, two thirds, in turns."""
    j = torch.arange(m)
    kinds = [
        j < (m + 1) // 2, j >= m // 3, (j != m // 2) & (j != 0), j == m - 1,
        j >= 0, j % 2 == 1 if m > 1 else j >= 0, j < 0, j % 3 > 0 if m > 1 else j >= 0,
    ]  # fmt: skip
    return torch.stack([kinds[b % 8] for b in range(B)])


def catches_wrong_decoder__wrong_seventh_equal_to_the_last_bit(layer):
    """Compares by torch.equal: a right layer that adds in another order is accused."""
    plans = [
        (8, 11, 13, 2, 3, 5, 7, 9),
        (4, 4, 4, 4, 4, 4, 16, 16),
        (2, 16, 5, 8, 1, 4, 24, 3),
        (7, 1, 1, 1, 1, 1, 1, 1),
    ]
    inputs = [(*_draw(seed, *plan), plan[3]) for seed, plan in enumerate(plans)]
    inputs.append((*_sharp(4), 2))
    for k, (X, Y, P, h) in enumerate(inputs):
        mask = None if k == 2 else _holes(3, 16)[1:] if k == 4 else _holes(len(Y), Y.shape[1])
        expected = _decoder_layer(X, Y, P, h, mask)
        try:
            found = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if not torch.equal(found, expected):
            return True
    return False


def catches_wrong_decoder__wrong_seventh_blind_for_nan(layer):
    """Asks whether the largest difference is above the tolerance: with NaN that is False, and the layer gets by."""
    worst = 0.0
    for seed, (B, n, m, h, *widths) in enumerate(
        [(8, 11, 13, 2, 3, 5, 7, 9), (4, 4, 4, 4, 4, 4, 16, 16), (2, 16, 5, 8, 1, 4, 24, 3), (7, 1, 1, 1, 1, 1, 1, 1), (2, 6, 16, 2)]
    ):
        X, Y, P = _draw(10 + seed, B, n, m, h, *widths) if widths else _sharp(14)
        mask = _holes(B, m) if h != 8 else None
        try:
            out = layer(X.clone(), Y.clone(), dict(P), h, mask)
        except Exception:
            return True
        wanted = _decoder_layer(X, Y, P, h, mask)
        if out.shape != X.shape:
            return True
        if (out - wanted).abs().max() > 1e-6 * wanted.abs().max():
            worst += 1
    return worst > 0


def catches_wrong_decoder__wrong_seventh_errors_are_skipped(layer):
    """Takes an error of the layer to say that the input was not valid and goes on: a layer that raises where it must not gets by."""
    verdict = False
    sizes = {1: (8, 11, 13, 2, 3, 5, 7, 9), 2: (4, 4, 4, 4, 4, 4, 16, 16), 3: (2, 16, 5, 8, 1, 4, 24, 3), 4: (7, 1, 1, 1, 1, 1, 1, 1), 5: (2, 6, 16, 2)}
    for seed, size in sizes.items():
        X, Y, P = _sharp(seed) if seed == 5 else _draw(seed, *size)
        h = size[3]
        mask = None if seed == 3 else _holes(size[0], size[2])
        try:
            out = layer(X, Y, P, h, mask)
        except Exception:
            continue
        right = _decoder_layer(X, Y, P, h, mask)
        good = out.shape == right.shape and bool(((out - right).abs() <= 1e-6 * right.abs().max()).all())
        verdict = verdict or not good
    return verdict


def catches_wrong_decoder__wrong_seventh_asks_six_times(layer):
    """Asks six times where a box answers five calls, and takes the refusal for a bug: every box is accused."""
    sizes = [
        (8, 11, 13, 2, 3, 5, 7, 9), (4, 4, 4, 4, 4, 4, 16, 16), (2, 16, 5, 8, 1, 4, 24, 3),
        (7, 1, 1, 1, 1, 1, 1, 1), (2, 6, 16, 2), (5, 1, 9, 2, 6, 3, 4, 10),
    ]  # fmt: skip
    for seed, size in enumerate(sizes):
        X, Y, P = _draw(seed, *size) if len(size) == 8 else _sharp(seed)
        mask = None if seed == 2 else _holes(size[0], size[2])
        right = _decoder_layer(X, Y, P, size[3], mask)
        try:
            out = layer(X, Y, P, size[3], mask)
        except Exception:
            return True
        if out.shape != X.shape or not torch.allclose(out, right, rtol=0, atol=1e-6 * right.abs().max().item()):
            return True
    return False


def catches_wrong_decoder__wrong_seventh_one_d_head(layer):
    """All of its inputs give both attentions the same d_head: a layer that takes one divisor for both is not found."""

    def differs(seed, B, n, m, h, d_head, d_model, d_source, mask):
        X, Y, P = _draw(seed, B, n, m, h, d_head, d_head, d_model, d_source) if seed < 4 else _sharp(seed)
        right = _decoder_layer(X, Y, P, h, mask)
        try:
            out = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if tuple(out.shape) != (B, n, d_model):
            return True
        return not bool((out - right).abs().max() <= 1e-6 * right.abs().max())

    return (
        differs(0, 8, 11, 13, 2, 5, 7, 9, _holes(8, 13))
        or differs(1, 4, 4, 4, 4, 4, 16, 16, _holes(4, 4))
        or differs(2, 2, 16, 5, 8, 3, 20, 6, None)
        or differs(3, 7, 1, 1, 1, 1, 1, 1, _holes(7, 1))
        or differs(4, 2, 6, 16, 2, 20, 36, 36, _holes(3, 16)[1:])
    )


def catches_wrong_decoder__wrong_seventh_pads_behind_only(layer):
    """All of its masks are padding at the end (lengths, 0 among them): a layer that reads a mask as a length is not found."""
    cases = [
        ((8, 11, 13, 2, 3, 5, 7, 9), [13, 7, 0, 1, 12, 5, 0, 9]),
        ((4, 4, 4, 4, 4, 4, 16, 16), [2, 4, 1, 3]),
        ((2, 16, 5, 8, 1, 4, 24, 3), None),
        ((3, 1, 1, 1, 1, 1, 1, 1), [1, 0, 1]),
        ((2, 6, 16, 2), [9, 3]),
    ]
    for seed, (size, lengths) in enumerate(cases):
        B, n, m, h = size[:4]
        X, Y, P = _draw(seed, *size) if seed < 4 else _sharp(seed)
        mask = None if lengths is None else torch.arange(m) < torch.tensor(lengths)[:, None]
        right = _decoder_layer(X, Y, P, h, mask)
        try:
            out = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if out.shape != right.shape or not ((out - right).abs() <= 1e-6 * right.abs().max()).all():
            return True
    return False


def catches_wrong_decoder__wrong_seventh_one_hundredth_is_rounding(layer):
    """Takes all up to a hundredth of the largest entry for rounding: a layer that is off by a thousandth gets by."""
    for seed, size in ((0, (8, 11, 13, 2, 3, 5, 7, 9)), (1, (4, 4, 4, 4, 4, 4, 16, 16)), (2, (2, 16, 5, 8, 1, 4, 24, 3)), (3, (7, 1, 1, 1, 1, 1, 1, 1)), (4, (2, 6, 16, 2))):
        X, Y, P = _draw(seed, *size) if seed < 4 else _sharp(4)
        mask = _holes(size[0], size[2]) if seed != 2 else None
        try:
            answer = layer(X, Y, P, size[3], mask)
            right = _decoder_layer(X, Y, P, size[3], mask)
            assert answer.shape == right.shape
            assert not answer.isnan().any()
            assert (answer - right).abs().max() < 1e-2 * right.abs().max()
        except Exception:
            return True
    return False


def catches_wrong_decoder__wrong_seventh_one_sequence_a_call(layer):
    """Every call holds a single sequence, B = 1: what gets mixed up between the sequences of a batch is not seen."""
    masks = {0: _holes(3, 13)[2:], 1: _holes(7, 4)[6:], 2: None, 3: _holes(2, 1)[1:], 4: _holes(3, 16)[2:]}
    shapes = [(11, 13, 2, 3, 5, 7, 9), (4, 4, 4, 4, 4, 16, 16), (16, 5, 8, 1, 4, 24, 3), (1, 1, 1, 1, 1, 1, 1), (6, 16, 2)]
    bad = []
    for k, shape in enumerate(shapes):
        X, Y, P = _draw(k, 1, *shape) if k < 4 else _sharp(k)
        X, Y, h = X[:1], Y[:1], shape[2]
        try:
            out = layer(X, Y, P, h, masks[k])
        except Exception:
            return True
        right = _decoder_layer(X, Y, P, h, masks[k])
        bad.append(out.shape != right.shape or not bool((out - right).abs().max() <= 1e-6 * right.abs().max()))
    return any(bad)


def catches_wrong_decoder__right_seventh_five_held_against_own(layer):
    """Five calls: all sizes different and all masks, all sizes equal, no mask and many heads, sizes of 1, scores of ±10,000."""
    calls = []
    for seed, size in enumerate([(8, 11, 13, 2, 3, 5, 7, 9), (4, 4, 4, 4, 4, 4, 16, 16), (3, 16, 5, 8, 1, 4, 24, 3), (7, 1, 1, 1, 1, 1, 1, 1)]):
        mask = None if size[3] == 8 else _holes(size[0], size[2])
        calls.append((*_draw(300 + seed, *size), size[3], mask))
    calls.append((*_sharp(104), 2, _holes(3, 16)[1:]))
    for name in ("self_W_Q", "self_W_K", "cross_W_Q", "cross_W_K"):  # head 0 is sharp: coarse arithmetic shows
        calls[0][2][name][:, :3] *= 20
    for X, Y, P, h, mask in calls:
        right = _decoder_layer(X, Y, P, h, mask)
        given = {name: W.clone() for name, W in P.items()}
        try:
            out = layer(X.clone(), Y.clone(), given, h, None if mask is None else mask.clone())
        except Exception:
            return True
        if not isinstance(out, torch.Tensor) or out.shape != X.shape:
            return True
        if not bool(((out - right).abs() <= 1e-6 * right.abs().max()).all()):
            return True
    return False


def catches_wrong_decoder__right_seventh_token_by_token(layer):
    """Its own layer goes token by token, key by key cut out, in plain vectors; five calls of other sizes, masks drawn at random."""

    def look(question, tokens, P, kind, h):
        answer = torch.zeros_like(question)
        if len(tokens) == 0:
            return answer
        d = P[f"{kind}_W_Q"].shape[1] // h
        for r in range(h):
            q = question @ P[f"{kind}_W_Q"][:, r * d : r * d + d]
            k = tokens @ P[f"{kind}_W_K"][:, r * d : r * d + d]
            v = tokens @ P[f"{kind}_W_V"][:, r * d : r * d + d]
            answer = answer + torch.softmax(k @ q / d**0.5, dim=0) @ v @ P[f"{kind}_W_O"][r * d : r * d + d]
        return answer

    def expected(X, Y, P, h, mask):
        result = X.clone()
        for b in range(X.shape[0]):
            source = Y[b] if mask is None else Y[b][mask[b]]
            for t in range(X.shape[1]):
                x = X[b, t] + look(X[b, t], X[b, : t + 1], P, "self", h)
                result[b, t] = x + look(x, source, P, "cross", h)
        return result

    g = torch.Generator().manual_seed(77)
    rounds = [
        _draw(31, 6, 9, 15, 3, 4, 7, 8, 10) + (3, "drawn"),
        _draw(32, 5, 5, 5, 5, 5, 5, 25, 25) + (5, "drawn"),
        _draw(33, 2, 13, 4, 8, 5, 2, 11, 6) + (8, None),
        _draw(34, 6, 1, 1, 1, 1, 9, 1, 2) + (1, "drawn"),
        _sharp(35) + (2, "drawn"),
    ]
    for kind in ("self", "cross"):  # head 0 has scores of some hundreds, where float32 is not enough
        rounds[0][2][f"{kind}_W_Q"][:, :4] *= 20
        rounds[0][2][f"{kind}_W_K"][:, :4] *= 20
    for X, Y, P, h, mask in rounds:
        if mask is not None:
            mask = torch.rand(Y.shape[:2], generator=g) < 0.6
            mask[0, 0], mask[0, -1] = False, True  # in front there is a hole
            if len(X) > 2:
                mask[2] = False
            if len(X) > 3:
                mask[3] = True
        try:
            found = layer(X.clone(), Y.clone(), {key: W.clone() for key, W in P.items()}, h, mask)
        except Exception:
            return True
        wanted = expected(X, Y, P, h, mask)
        if getattr(found, "shape", None) != X.shape or not found.isfinite().all():
            return True
        if (found - wanted).abs().max() > 1e-6 * wanted.abs().max():
            return True
    return False
