"""Answers to the exercises of unit 6 as students would write them: per exercise four wrong ones and a right one."""

import itertools
import math

import torch


def _cross_attention(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Multi-head attention in which X asks and Y is asked: (out, weights)."""
    (B, n, _), m = X.shape, Y.shape[1]
    Q = (X @ W_Q).reshape(B, n, n_heads, -1).transpose(1, 2)
    K = (Y @ W_K).reshape(B, m, n_heads, -1).transpose(1, 2)
    V = (Y @ W_V).reshape(B, m, n_heads, -1).transpose(1, 2)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if source_mask is None:
        weights = scores.softmax(-1)
    else:
        seen = source_mask[:, None, None, :]
        weights = scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-1) * seen
    return (weights @ V).transpose(1, 2).reshape(B, n, -1) @ W_O, weights


def _self_attention(X, W_Q, W_K, W_V, W_O, n_heads, causal=True):
    """Multi-head self-attention, causal unless it is told otherwise."""
    B, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(B, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf)
    return (scores.softmax(-1) @ V).transpose(1, 2).reshape(B, n, -1) @ W_O


def _four(params, kind):
    """The four weights of one of the two attentions."""
    return [params[f"{kind}_W_{role}"] for role in "QKVO"]


def _decoder_layer(X, Y, params, n_heads, source_mask=None):
    """Causal self-attention, added, then cross-attention, added."""
    X_1 = X + _self_attention(X, *_four(params, "self"), n_heads)
    return X_1 + _cross_attention(X_1, Y, *_four(params, "cross"), n_heads, source_mask)[0]


# ------- 6.1 cross_attention
def cross_attention__wrong_eleventh_masked_after_softmax(
    X, Y, W_Q, W_K, W_V, W_O, n_heads: int, source_mask=None
):
    """Wrong: the softmax runs over hidden tokens too and is then divided by what is left, which is nothing where a
    hidden token has by far the largest score."""
    B, n, _ = X.shape
    d = W_Q.shape[1] // n_heads
    Q = (X @ W_Q).view(B, n, n_heads, d)
    K = (Y @ W_K).view(B, -1, n_heads, d)
    V = (Y @ W_V).view(B, -1, n_heads, d)
    weights = torch.einsum("bihd,bjhd->bhij", Q, K).div(math.sqrt(d)).softmax(dim=-1)
    if source_mask is not None:
        weights = weights * source_mask[:, None, None].to(weights.dtype)
        left = weights.sum(dim=-1, keepdim=True)
        weights = weights / torch.where(left > 0, left, torch.ones_like(left))
    out = torch.einsum("bhij,bjhd->bihd", weights, V).reshape(B, n, n_heads * d) @ W_O
    return out, weights


def cross_attention__wrong_eleventh_nan_in_gradients(
    X, Y, W_Q, W_K, W_V, W_O, n_heads: int, source_mask=None
):
    """Wrong: -inf is added to hidden scores and the NaN of an empty source replaced afterwards, which leaves NaN in
    the gradients of all that went into the scores."""

    def heads(Z, W):
        return torch.stack((Z @ W).chunk(n_heads, dim=-1), dim=1)

    Q, K, V = heads(X, W_Q), heads(Y, W_K), heads(Y, W_V)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if source_mask is not None:
        bias = torch.zeros_like(source_mask, dtype=scores.dtype)
        bias[~source_mask] = -torch.inf
        scores = scores + bias[:, None, None, :]
    weights = torch.nan_to_num(scores.softmax(dim=-1))
    out = torch.cat((weights @ V).unbind(dim=1), dim=-1) @ W_O
    return out, weights


def cross_attention__wrong_eleventh_mask_repaired_in_place(
    X, Y, W_Q, W_K, W_V, W_O, n_heads: int, source_mask=None
):
    """Wrong: to keep the softmax of an empty source defined it sets True in the caller's own mask."""
    B, n, _ = X.shape
    m = Y.shape[1]
    Q = (X @ W_Q).reshape(B, n, n_heads, -1).permute(0, 2, 1, 3)
    K = (Y @ W_K).reshape(B, m, n_heads, -1).permute(0, 2, 3, 1)
    V = (Y @ W_V).reshape(B, m, n_heads, -1).permute(0, 2, 1, 3)
    scores = torch.matmul(Q, K) * Q.size(-1) ** -0.5
    if source_mask is None:
        weights = torch.softmax(scores, -1)
    else:
        nothing = ~source_mask.any(dim=1)
        source_mask[nothing] = True
        scores = scores.masked_fill(source_mask.logical_not()[:, None, None], float("-inf"))
        weights = torch.softmax(scores, -1).masked_fill(nothing[:, None, None, None], 0.0)
    out = torch.matmul(weights, V).permute(0, 2, 1, 3).flatten(2)
    return out @ W_O, weights


def cross_attention__wrong_eleventh_every_hth_column(
    X, Y, W_Q, W_K, W_V, W_O, n_heads: int, source_mask=None
):
    """Wrong: head k is made of the columns k, k + h, k + 2h, … and not of a block of neighbouring ones."""
    out, maps = 0, []
    for k in range(n_heads):
        Q, K, V = X @ W_Q[:, k::n_heads], Y @ W_K[:, k::n_heads], Y @ W_V[:, k::n_heads]
        scores = Q @ K.mT / math.sqrt(Q.shape[-1])
        if source_mask is not None:
            scores = scores.masked_fill(~source_mask[:, None], torch.finfo(scores.dtype).min)
        A = scores.softmax(-1)
        if source_mask is not None:
            A = A * source_mask[:, None]
        out = out + A @ V @ W_O[k::n_heads]
        maps.append(A)
    return out, torch.stack(maps, dim=1)


def cross_attention__right_eleventh_cut_and_put_back(
    X, Y, W_Q, W_K, W_V, W_O, n_heads: int, source_mask=None
):
    """Right: sentence by sentence the hidden tokens are cut out, and the weights put back in their columns."""
    d = W_Q.shape[1] // n_heads
    outs, maps = [], []
    for b, (x, y) in enumerate(zip(X, Y, strict=True)):
        m = len(y)
        real = torch.arange(m) if source_mask is None else source_mask[b].nonzero().flatten()
        q, k, v = ((z @ W).unflatten(-1, (n_heads, d)).transpose(0, 1) for z, W in ((x, W_Q), (y, W_K), (y, W_V)))
        part = torch.softmax(q @ k[:, real].mT / math.sqrt(d), dim=-1)
        weights = part.new_zeros(n_heads, len(x), m).index_copy(2, real, part)
        outs.append((weights @ v).transpose(0, 1).flatten(1) @ W_O)
        maps.append(weights)
    return torch.stack(outs), torch.stack(maps)


# ------- 6.2 decoder_layer
def decoder_layer__wrong_eleventh_asks_with_X(X, Y, params, n_heads: int, source_mask=None):
    """Wrong: the cross-attention asks with X, as the self-attention does, and not with X_1."""
    steps = [_self_attention(X, *_four(params, "self"), n_heads)]
    steps.append(_cross_attention(X, Y, *_four(params, "cross"), n_heads, source_mask)[0])
    return torch.stack([X, *steps]).sum(dim=0)


def decoder_layer__wrong_eleventh_square_means_causal(X, Y, params, n_heads: int, source_mask=None):
    """Wrong: one helper serves both attentions and takes any square table for self-attention, so a source as long as
    the target gets a causal mask."""

    def attention(asking, asked, W_Q, W_K, W_V, W_O, seen=None):
        B, n, m = len(asking), asking.shape[1], asked.shape[1]
        if seen is None:
            seen = torch.ones(B, m, dtype=torch.bool)
        seen = seen[:, None, None, :].expand(B, 1, n, m)
        if n == m:
            seen = seen & torch.ones(n, m, dtype=torch.bool).tril()
        Q, K, V = (
            torch.stack((side @ W).tensor_split(n_heads, dim=-1), dim=1)
            for side, W in ((asking, W_Q), (asked, W_K), (asked, W_V))
        )
        scores = Q @ K.mT / math.sqrt(Q.shape[-1])
        weights = scores.masked_fill(~seen, torch.finfo(X.dtype).min).softmax(-1) * seen
        return torch.cat((weights @ V).unbind(1), dim=-1) @ W_O

    X_1 = X + attention(X, X, *_four(params, "self"))
    return X_1 + attention(X_1, Y, *_four(params, "cross"), source_mask)


def decoder_layer__wrong_eleventh_scales_params(X, Y, params, n_heads: int, source_mask=None):
    """Wrong: the divisors of the scores are worked into the query weights of the caller's dictionary, so params is
    changed and a second call gives something else."""
    for kind in ("self", "cross"):
        width = params[f"{kind}_W_Q"].shape[1] // n_heads
        params[f"{kind}_W_Q"] = params[f"{kind}_W_Q"] * width**-0.5
    B, n, _ = X.shape
    m = Y.shape[1]

    def cut(Z, name):
        return (Z @ params[name]).view(B, Z.shape[1], n_heads, -1)

    scores = torch.einsum("bihd,bjhd->bhij", cut(X, "self_W_Q"), cut(X, "self_W_K"))
    scores = scores + torch.full((n, n), -torch.inf, dtype=X.dtype).triu(1)
    heads = torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), cut(X, "self_W_V"))
    X_1 = X + heads.flatten(2) @ params["self_W_O"]
    scores = torch.einsum("bihd,bjhd->bhij", cut(X_1, "cross_W_Q"), cut(Y, "cross_W_K"))
    real = torch.ones(B, m, dtype=torch.bool) if source_mask is None else source_mask
    real = real[:, None, None]
    weights = scores.masked_fill(~real, torch.finfo(X.dtype).min).softmax(-1) * real
    heads = torch.einsum("bhij,bjhd->bihd", weights, cut(Y, "cross_W_V"))
    return X_1 + heads.flatten(2) @ params["cross_W_O"]


def decoder_layer__wrong_eleventh_one_head_width(X, Y, params, n_heads: int, source_mask=None):
    """Wrong: the blocks of both attentions are cut with the d_head of the self-attention."""
    d = params["self_W_Q"].shape[1] // n_heads
    state = X
    for kind in ("self", "cross"):
        added = torch.zeros_like(X)
        asked = state if kind == "self" else Y
        W_Q, W_K, W_V, W_O = _four(params, kind)
        for k in range(n_heads):
            own = slice(k * d, (k + 1) * d)
            if kind == "self":
                added = added + _self_attention(state, W_Q[:, own], W_K[:, own], W_V[:, own], W_O[own], 1)
            else:
                block = W_Q[:, own], W_K[:, own], W_V[:, own], W_O[own]
                if block[0].shape[1]:
                    added = added + _cross_attention(state, asked, *block, 1, source_mask)[0]
        state = state + added
    return state


def decoder_layer__right_eleventh_token_after_token(X, Y, params, n_heads: int, source_mask=None):
    """Right: goes from token to token with the keys and values so far, and needs no causal mask."""

    def cut(Z, name):
        return (Z @ params[name]).unflatten(-1, (n_heads, -1))

    K_Y, V_Y = cut(Y, "cross_W_K"), cut(Y, "cross_W_V")
    q_s, k_s, v_s = (cut(X, f"self_W_{role}") for role in "QKV")
    rows = []
    for i in range(X.shape[1]):
        scores = (q_s[:, i : i + 1] * k_s[:, : i + 1]).sum(-1) / math.sqrt(q_s.shape[-1])
        mixed = (scores.softmax(dim=1)[..., None] * v_s[:, : i + 1]).sum(dim=1)
        x_1 = X[:, i] + mixed.flatten(1) @ params["self_W_O"]
        q = cut(x_1, "cross_W_Q")
        scores = (q[:, None] * K_Y).sum(-1) / math.sqrt(q.shape[-1])
        if source_mask is not None:
            scores = torch.where(source_mask[..., None], scores, torch.finfo(X.dtype).min)
        weights = scores.softmax(dim=1)
        if source_mask is not None:
            weights = weights * source_mask[..., None]
        mixed = (weights[..., None] * V_Y).sum(dim=1)
        rows.append(x_1 + mixed.flatten(1) @ params["cross_W_O"])
    return torch.stack(rows, dim=1)


# ------- 6.3 alignment
def alignment__wrong_eleventh_keenest_head(weights: torch.Tensor) -> torch.Tensor:
    """Wrong: takes the largest weight that any head gives, in place of the mean over heads."""
    strongest = weights.amax(dim=1)
    return strongest.argmax(dim=-1)


def alignment__wrong_eleventh_last_source_unseen(weights: torch.Tensor) -> torch.Tensor:
    """Wrong: the search for the largest mean stops one source token early and never looks at the last one."""
    m = weights.shape[-1]
    mean = torch.einsum("bhij->bij", weights) / weights.shape[1]
    best = mean[..., 0]
    where = torch.zeros_like(best, dtype=torch.long)
    for j in range(1, m - 1):
        better = mean[..., j] > best
        where = torch.where(better, torch.full_like(where, j), where)
        best = torch.where(better, mean[..., j], best)
    return where


def alignment__wrong_eleventh_axes_of_one_dropped(weights: torch.Tensor) -> torch.Tensor:
    """Wrong: gets rid of the averaged axis with a squeeze of all axes of size 1, which for one sentence or one target
    token drops their axes too."""
    mean = weights.mean(dim=1, keepdim=True)
    _, places = mean.max(dim=-1)
    return places.squeeze()


def alignment__wrong_eleventh_sums_into_first_head(weights: torch.Tensor) -> torch.Tensor:
    """Wrong: adds the other heads into a view of the first one, so the argument is changed."""
    first, *others = weights.unbind(dim=1)
    for head in others:
        first += head
    return torch.argmax(first, dim=2)


def alignment__right_eleventh_first_at_the_top(weights: torch.Tensor) -> torch.Tensor:
    """Right: adds up the heads and looks for the first source token that reaches the largest sum of its row."""
    sums = weights.transpose(1, 3).sum(dim=-1)
    at_top = sums == sums.amax(dim=1, keepdim=True)
    return at_top.to(torch.int64).argmax(dim=1)


# ------- 6.4 greedy_decode
def greedy_decode__wrong_eleventh_start_can_stop(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Wrong: looks for end among all tokens, so with the same token as start and end nothing is written."""
    tokens = [start]
    while end not in tokens and len(tokens) < max_len:
        tokens += [int(next_logits(tokens).argmax())]
    return tokens


def greedy_decode__wrong_eleventh_low_logits_lose(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Wrong: the search for the largest logit begins at -100, so token 0 is written where all logits are lower."""
    written = [start]
    while len(written) != max_len:
        best, largest = 0, -100.0
        for token, logit in enumerate(next_logits(written).tolist()):
            if logit > largest:
                best, largest = token, logit
        written.append(best)
        if best == end:
            break
    return written


def greedy_decode__wrong_eleventh_repetition_stops(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Wrong: takes the same token twice in a row for an endless loop and stops there."""
    tokens = [start]
    for _ in range(max_len - 1):
        logits = next_logits(list(tokens))
        token = torch.topk(logits, 1).indices.item()
        if token == tokens[-1] and token != end:
            break
        tokens.append(token)
        if token == end:
            break
    return tokens


def greedy_decode__wrong_eleventh_forgets_beginning(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Wrong: goes on from the new token as if it were the start, so the model is not shown what came before."""

    def rest(token, room):
        if room == 0:
            return []
        following = int(torch.argmax(next_logits([token])))
        if following == end:
            return [end]
        return [following, *rest(following, room - 1)]

    return [start, *rest(start, max_len - 1)]


def greedy_decode__right_eleventh_iterator_with_sentinel(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """Right: an iterator asks the model until it says end, a slice of it keeps the limit, and end is put back."""
    tokens = [int(start)]

    def favourite():
        return int(next_logits(list(tokens)).max(dim=0).indices)

    for token in itertools.islice(iter(favourite, int(end)), max_len - 1):
        tokens.append(token)
    return tokens if len(tokens) == max_len else [*tokens, int(end)]


# ------- 6.5 catches_wrong_decoder
def _case(seed, B, n, m, h, d_self, d_cross, d_model, d_source):
    """X, Y and params of these sizes."""
    g = torch.Generator().manual_seed(seed)
    P = {}
    for kind, d, d_in in (("self", d_self, d_model), ("cross", d_cross, d_source)):
        for role, shape in zip(
            "QKVO", ((d_model, h * d), (d_in, h * d), (d_in, h * d), (h * d, d_model)), strict=True
        ):
            scale = 1.5 * shape[0] ** -0.5
            P[f"{kind}_W_{role}"] = scale * torch.randn(shape, generator=g, dtype=torch.float64)
    X = torch.randn(B, n, d_model, generator=g, dtype=torch.float64)
    return X, torch.randn(B, m, d_source, generator=g, dtype=torch.float64), P


def _mask(seed, B, m, empty=None):
    """A mask with holes, in which each sequence but `empty` has a real token."""
    g = torch.Generator().manual_seed(seed)
    mask = torch.rand(B, m, generator=g) < 0.6
    mask[torch.arange(B), torch.randint(0, m, (B,), generator=g)] = True
    if empty is not None:
        mask[empty] = False
    return mask


def _copied(inputs):
    """Copies, so that a layer cannot spoil ours."""
    return [
        {k: v.clone() for k, v in one.items()} if isinstance(one, dict) else one.clone() if torch.is_tensor(one) else one
        for one in inputs
    ]


def _questions():
    """Five calls that have little in common."""
    yield (*_case(1, 5, 16, 13, 4, 7, 9, 23, 17), 4, _mask(1, 5, 13, empty=2))
    yield (*_case(2, 3, 6, 16, 3, 8, 5, 11, 14), 3, None)
    yield (*_case(3, 8, 9, 9, 8, 4, 4, 16, 16), 8, _mask(3, 8, 9, empty=7))
    yield (*_case(4, 2, 5, 1, 1, 3, 12, 6, 3), 1, torch.tensor([[True], [False]]))
    yield (*_case(5, 1, 1, 12, 2, 13, 20, 9, 31), 2, _mask(5, 1, 12))


def catches_wrong_decoder__wrong_eleventh_properties_only(layer) -> bool:
    """Wrong: asks only whether the form, the triangle, the padding and the batch are respected, and lets by a layer
    that does something else than asked within these."""
    X, Y, P, h, mask = next(_questions())
    try:
        out = layer(X, Y, P, h, mask)
        if out.shape != X.shape or not out.isfinite().all():
            return True
        later = X.clone()
        later[:, 9:] += 1
        padding = Y.clone()
        padding[~mask] *= -2
        if (layer(later, Y, P, h, mask) - out)[:, :9].abs().max() > 1e-8:
            return True
        if (layer(X, padding, P, h, mask) - out).abs().max() > 1e-8:
            return True
        alone = layer(X[1:2], Y[1:2], P, h, mask[1:2])
        turned = layer(X.flip(0), Y.flip(0), P, h, mask.flip(0)).flip(0)
        return bool((alone - out[1:2]).abs().max() > 1e-8 or (turned - out).abs().max() > 1e-8)
    except Exception:
        return True


def catches_wrong_decoder__wrong_eleventh_nan_compares_false(layer) -> bool:
    """Wrong: looks for a difference above the tolerance, which NaN never is, so a layer that gives NaN gets by."""
    for X, Y, P, h, mask in _questions():
        right = _decoder_layer(X, Y, P, h, mask)
        try:
            found = layer(*_copied((X, Y, P)), h, None if mask is None else mask.clone())
        except Exception:
            return True
        if tuple(found.shape) != tuple(right.shape):
            return True
        too_much = (found - right).abs() > 1e-6 * right.abs().max()
        if bool(too_much.any()):
            return True
    return False


def catches_wrong_decoder__wrong_eleventh_to_the_last_bit(layer) -> bool:
    """Wrong: wants the very same numbers, so a right layer that adds in another order is accused."""

    def is_fine(question):
        X, Y, P, h, mask = question
        found = layer(*_copied(question))
        return found.shape == X.shape and torch.equal(found, _decoder_layer(X, Y, P, h, mask))

    try:
        return not all(map(is_fine, _questions()))
    except Exception:
        return True


def catches_wrong_decoder__wrong_eleventh_padding_at_the_end(layer) -> bool:
    """Wrong: all masks tried have their padding at the end and at least one real token, so what goes wrong with holes
    or with an empty source gets by."""
    sizes = [(4, 7, 5, 2, 3, 5, 8, 9), (3, 5, 8, 3, 6, 2, 10, 7), (2, 6, 6, 4, 4, 4, 12, 12), (1, 1, 4, 1, 5, 3, 4, 6)]
    for seed, (B, n, m, h, *widths) in enumerate(sizes):
        X, Y, P = _case(seed, B, n, m, h, *widths)
        lengths = torch.arange(B) % m + 1
        mask = None if seed == 1 else torch.arange(m) < lengths[:, None]
        right = _decoder_layer(X, Y, P, h, mask)
        try:
            found = layer(*_copied((X, Y, P)), h, mask)
        except Exception:
            return True
        if found.shape != X.shape or not (found - right).abs().max() <= 1e-6 * right.abs().max():
            return True
    return False


def catches_wrong_decoder__right_eleventh_five_unlike_questions(layer) -> bool:
    """Right: five calls that differ in all sizes and kinds of mask, each held against a layer of its own."""
    for question in _questions():
        right = _decoder_layer(*_copied(question))
        try:
            found = layer(*_copied(question))
        except Exception:
            return True
        if not isinstance(found, torch.Tensor) or found.shape != right.shape:
            return True
        if not bool(((found - right).abs() <= 1e-6 * right.abs().max()).all()):
            return True
    return False
