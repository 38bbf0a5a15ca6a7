"""Answers to the exercises of unit 6, wrong ones and right ones, as students would write them."""

import itertools
import math
from collections import Counter

import torch
import torch.nn.functional as F


def _heads(X, n_heads):
    """(B, n, h*d_head) -> (B, h, n, d_head)."""
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _attend(Q, K, V, mask=None):
    """Heads (B, h, n, d_head) and weights; a row that may see nothing gets weights 0."""
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is None:
        A = S.softmax(dim=-1)
    else:
        A = S.masked_fill(~mask, torch.finfo(S.dtype).min).softmax(dim=-1) * mask
    return A @ V, A


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    out, _ = _attend(*(_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V)), mask)
    return out.transpose(1, 2).flatten(2) @ W_O


def _cross_attention(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    mask = None if source_mask is None else source_mask[:, None, None, :]
    Q, K, V = _heads(X @ W_Q, n_heads), _heads(Y @ W_K, n_heads), _heads(Y @ W_V, n_heads)
    out, weights = _attend(Q, K, V, mask)
    return out.transpose(1, 2).flatten(2) @ W_O, weights


def _causal(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


def _decoder_layer(X, Y, params, n_heads, source_mask=None):
    own = [params[f"self_W_{role}"] for role in "QKVO"]
    cross = [params[f"cross_W_{role}"] for role in "QKVO"]
    X_1 = X + _multi_head_attention(X, *own, n_heads, _causal(X.shape[1]))
    return X_1 + _cross_attention(X_1, Y, *cross, n_heads, source_mask)[0]


# ------- 6.1 cross_attention


def cross_attention__wrong_twelfth_softmax_over_those_who_ask(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Shares each source token out among the target tokens: the columns of the weights sum to 1 and not the rows."""
    B, n, _ = X.shape
    m = Y.shape[1]
    d_head = W_Q.shape[1] // n_heads
    Q = (X @ W_Q).reshape(B, n, n_heads, d_head).transpose(1, 2)
    K = (Y @ W_K).reshape(B, m, n_heads, d_head).transpose(1, 2)
    V = (Y @ W_V).reshape(B, m, n_heads, d_head).transpose(1, 2)
    scores = Q @ K.transpose(2, 3) / math.sqrt(d_head)
    weights = torch.softmax(scores, dim=2)
    if source_mask is not None:
        weights = weights * source_mask[:, None, None, :]
    out = (weights @ V).transpose(1, 2).reshape(B, n, -1) @ W_O
    return out, weights


def cross_attention__wrong_twelfth_causal_over_the_source(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lets target token i see the source tokens 0 to i alone, as if the source were the target's past."""
    n, m = X.shape[1], Y.shape[1]
    allowed = torch.arange(m) <= torch.arange(n)[:, None]
    if source_mask is not None:
        allowed = allowed & source_mask[:, None, None, :]
    q, k, v = (_heads(side @ W, n_heads) for side, W in ((X, W_Q), (Y, W_K), (Y, W_V)))
    mixed, weights = _attend(q, k, v, allowed)
    return mixed.transpose(1, 2).flatten(2) @ W_O, weights


def cross_attention__wrong_twelfth_hidden_after_the_softmax(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lets the padding take part in the softmax and sets its weights to 0 only then: the rows sum to less than 1."""
    queries, keys, values = X @ W_Q, Y @ W_K, Y @ W_V
    d = queries.shape[-1] // n_heads
    outputs, maps = [], []
    for start in range(0, n_heads * d, d):
        head = slice(start, start + d)
        A = torch.softmax(queries[..., head] @ keys[..., head].mT / d**0.5, dim=-1)
        if source_mask is not None:
            A = torch.where(source_mask[:, None, :], A, torch.zeros_like(A))
        maps.append(A)
        outputs.append(A @ values[..., head])
    return torch.cat(outputs, dim=-1) @ W_O, torch.stack(maps, dim=1)


def cross_attention__wrong_twelfth_root_of_the_whole_width(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Divides the scores by the root of the width of all heads together."""
    queries = X @ W_Q
    scale = queries.shape[-1] ** -0.5
    Q = queries.unflatten(-1, (n_heads, -1))
    K = (Y @ W_K).unflatten(-1, (n_heads, -1))
    V = (Y @ W_V).unflatten(-1, (n_heads, -1))
    S = torch.einsum("bihd,bjhd->bhij", Q, K) * scale
    if source_mask is None:
        A = S.softmax(-1)
    else:
        seen = source_mask[:, None, None]
        A = S.masked_fill(seen.logical_not(), torch.finfo(S.dtype).min).softmax(-1).mul(seen)
    return torch.einsum("bhij,bjhd->bihd", A, V).flatten(2) @ W_O, A


def cross_attention__wrong_twelfth_reshaped_without_swapping(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reshapes straight to (B, h, tokens, d_head), which mixes heads and tokens."""
    B, n, m = len(X), X.shape[1], Y.shape[1]
    d_head = W_K.shape[1] // n_heads
    Q = (X @ W_Q).reshape(B, n_heads, n, d_head)
    K = (Y @ W_K).reshape(B, n_heads, m, d_head)
    V = (Y @ W_V).reshape(B, n_heads, m, d_head)
    mask = None if source_mask is None else source_mask.reshape(B, 1, 1, m)
    heads, weights = _attend(Q, K, V, mask)
    out = heads.reshape(B, n, n_heads * d_head) @ W_O
    return out, weights


def cross_attention__wrong_twelfth_mean_map_returned(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the mean of the weights over the heads, (B, n, m), as PyTorch's own layer does by default."""
    Q, K, V = _heads(X @ W_Q, n_heads), _heads(Y @ W_K, n_heads), _heads(Y @ W_V, n_heads)
    S = torch.matmul(Q, K.mT).div(math.sqrt(K.shape[-1]))
    if source_mask is not None:
        keep = source_mask.view(len(Y), 1, 1, -1)
        S = S + torch.where(keep, 0.0, -1e30).to(S.dtype)
        A = F.softmax(S, dim=-1) * keep.any(dim=-1, keepdim=True)
    else:
        A = F.softmax(S, dim=-1)
    out = torch.matmul(A, V).permute(0, 2, 1, 3).flatten(2)
    return torch.matmul(out, W_O), A.mean(dim=1)


def cross_attention__wrong_twelfth_weights_of_an_empty_source(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sets out to 0 for a source with no True in its mask, and leaves the weights at 1/m there."""
    Q = _heads(X @ W_Q, n_heads)
    K = _heads(Y @ W_K, n_heads)
    V = _heads(Y @ W_V, n_heads)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if source_mask is not None:
        scores = scores.masked_fill(~source_mask[:, None, None, :], torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    out = (weights @ V).transpose(1, 2).flatten(2) @ W_O
    if source_mask is not None:
        something = source_mask.any(dim=1)
        out = out * something[:, None, None]
    return out, weights


def cross_attention__wrong_twelfth_mask_mended_in_place(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sets the mask of an empty source to True, in the tensor that was handed in, before it takes the result away."""
    B, n, m = X.shape[0], X.shape[1], Y.shape[1]
    if source_mask is None:
        source_mask = torch.ones(B, m, dtype=torch.bool)
    empty = ~source_mask.any(dim=1)
    source_mask[empty] = True
    d = W_Q.shape[1] // n_heads
    q = (X @ W_Q).view(B, n, n_heads, d).permute(0, 2, 1, 3)
    k = (Y @ W_K).view(B, m, n_heads, d).permute(0, 2, 3, 1)
    v = (Y @ W_V).view(B, m, n_heads, d).permute(0, 2, 1, 3)
    s = (q @ k) / math.sqrt(d)
    s = s.masked_fill(~source_mask.view(B, 1, 1, m), float("-inf"))
    a = torch.softmax(s, dim=-1).masked_fill(empty.view(B, 1, 1, 1), 0.0)
    o = (a @ v).permute(0, 2, 1, 3).reshape(B, n, n_heads * d)
    return o @ W_O, a


def cross_attention__right_twelfth_padding_cut_out(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cuts hidden tokens out, sentence by sentence and head by head, and writes the weights back to their columns."""
    n, m, d = X.shape[1], Y.shape[1], W_Q.shape[1] // n_heads
    blocks = list(zip(W_Q.split(d, 1), W_K.split(d, 1), W_V.split(d, 1), W_O.split(d, 0), strict=True))
    outs, maps = [], []
    for b, (x, y) in enumerate(zip(X, Y, strict=True)):
        real = torch.arange(m) if source_mask is None else source_mask[b].nonzero().flatten()
        y, out = y[real], torch.zeros_like(x)
        for W_q, W_k, W_v, W_o in blocks:
            S = (x @ W_q) @ (y @ W_k).T / d**0.5
            A = (S - S.logsumexp(dim=-1, keepdim=True)).exp()
            out = out + A @ (y @ W_v) @ W_o
            maps.append(A.new_zeros(n, m).index_copy(1, real, A))
        outs.append(out)
    return torch.stack(outs), torch.stack(maps).unflatten(0, (-1, n_heads))


# ------- 6.2 decoder_layer


def decoder_layer__wrong_twelfth_asks_with_the_input(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Runs both attentions side by side on X, so that the cross-attention does not ask with X_1."""
    n = X.shape[1]
    mask = torch.tril(torch.ones(n, n, dtype=torch.bool))
    own = _multi_head_attention(
        X, params["self_W_Q"], params["self_W_K"], params["self_W_V"], params["self_W_O"], n_heads, mask
    )
    read, _ = _cross_attention(
        X,
        Y,
        params["cross_W_Q"],
        params["cross_W_K"],
        params["cross_W_V"],
        params["cross_W_O"],
        n_heads,
        source_mask,
    )
    return X + own + read


def decoder_layer__wrong_twelfth_first_sum_left_behind(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds the cross-attention to X and not to X_1, so that the self-attention only shapes the question."""

    def weights(kind):
        return tuple(params[f"{kind}_W_{letter}"] for letter in ("Q", "K", "V", "O"))

    def sublayer(result):
        return X + result

    causal = _causal(X.size(1))
    X_1 = sublayer(_multi_head_attention(X, *weights("self"), n_heads, causal))
    return sublayer(_cross_attention(X_1, Y, *weights("cross"), n_heads, source_mask)[0])


def decoder_layer__wrong_twelfth_source_first(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reads the source before the target: cross-attention comes first, and then self-attention."""
    h = n_heads
    allowed = None if source_mask is None else source_mask[:, None, None, :]
    q = _heads(X @ params["cross_W_Q"], h)
    k = _heads(Y @ params["cross_W_K"], h)
    v = _heads(Y @ params["cross_W_V"], h)
    read = _attend(q, k, v, allowed)[0].transpose(1, 2).flatten(2) @ params["cross_W_O"]
    Z = X + read
    q, k, v = (_heads(Z @ params[f"self_W_{c}"], h) for c in "QKV")
    own = _attend(q, k, v, _causal(Z.shape[1]))[0].transpose(1, 2).flatten(2) @ params["self_W_O"]
    return Z + own


def decoder_layer__wrong_twelfth_one_scale_for_both(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Works d_head out from self_W_Q once and divides the scores of both attentions by its root."""
    B, n, _ = X.shape
    d_head = params["self_W_Q"].shape[1] // n_heads

    def attention(kind, asks, asked, allowed):
        Q = (asks @ params[kind + "_W_Q"]).reshape(B, asks.shape[1], n_heads, -1)
        K = (asked @ params[kind + "_W_K"]).reshape(B, asked.shape[1], n_heads, -1)
        V = (asked @ params[kind + "_W_V"]).reshape(B, asked.shape[1], n_heads, -1)
        S = torch.einsum("bihd,bjhd->bhij", Q, K) / math.sqrt(d_head)
        S = S.masked_fill(~allowed, torch.finfo(S.dtype).min)
        A = torch.softmax(S, dim=-1) * allowed
        return torch.einsum("bhij,bjhd->bihd", A, V).reshape(B, asks.shape[1], -1) @ params[kind + "_W_O"]

    if source_mask is None:
        source_mask = torch.ones(B, Y.shape[1], dtype=torch.bool)
    X_1 = X + attention("self", X, X, _causal(n))
    return X_1 + attention("cross", X_1, Y, source_mask[:, None, None, :])


def decoder_layer__wrong_twelfth_keys_and_values_swapped(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Hands the cross-attention its weights in the order Q, V, K, O."""
    causal = torch.arange(X.shape[1])[:, None] >= torch.arange(X.shape[1])[None, :]
    of_self = [params[name] for name in ("self_W_Q", "self_W_K", "self_W_V", "self_W_O")]
    of_cross = [params[name] for name in ("cross_W_Q", "cross_W_V", "cross_W_K", "cross_W_O")]
    X_1 = torch.add(X, _multi_head_attention(X, *of_self, n_heads, mask=causal))
    out, _weights = _cross_attention(X_1, Y, *of_cross, n_heads, source_mask)
    return torch.add(X_1, out)


def decoder_layer__wrong_twelfth_true_means_padding(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reads source_mask as a mask of the padding and hides the tokens at which it is True."""
    self_params = {name[5:]: W for name, W in params.items() if name.startswith("self_")}
    cross_params = {name[6:]: W for name, W in params.items() if name.startswith("cross_")}
    real = None
    if source_mask is not None:
        real = source_mask.logical_not()
    X = X + _multi_head_attention(X, **self_params, n_heads=n_heads, mask=_causal(X.shape[-2]))
    return X + _cross_attention(X, Y, **cross_params, n_heads=n_heads, source_mask=real)[0]


def decoder_layer__wrong_twelfth_empty_source_read_whole(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Lets a source with no True in its mask be read as a whole, to be safe from NaN, where it should add 0."""
    Q, K, V, last = (params["self_W_" + c] for c in "QKVO")
    X_1 = X + _multi_head_attention(X, Q, K, V, last, n_heads, _causal(X.shape[1]))
    Q, K, V, last = (params["cross_W_" + c] for c in "QKVO")
    q, k, v = _heads(X_1 @ Q, n_heads), _heads(Y @ K, n_heads), _heads(Y @ V, n_heads)
    s = q @ k.mT / q.shape[-1] ** 0.5
    if source_mask is not None:
        nothing = ~source_mask.any(dim=1, keepdim=True)
        readable = source_mask | nothing
        s = s.masked_fill(~readable[:, None, None], -torch.inf)
    a = s.softmax(-1)
    return X_1 + (a @ v).transpose(1, 2).flatten(2) @ last


def decoder_layer__wrong_twelfth_source_kept_in_params(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Keeps the source's keys and values in params, and reads them there the next time, whatever Y is then."""
    self_weights = [params[f"self_W_{role}"] for role in "QKVO"]
    X_1 = X + _multi_head_attention(X, *self_weights, n_heads, _causal(X.shape[1]))
    if "cross_K" not in params:
        params["cross_K"] = _heads(Y @ params["cross_W_K"], n_heads)
        params["cross_V"] = _heads(Y @ params["cross_W_V"], n_heads)
    Q = _heads(X_1 @ params["cross_W_Q"], n_heads)
    mask = None if source_mask is None else source_mask.unsqueeze(1).unsqueeze(1)
    heads, _ = _attend(Q, params["cross_K"], params["cross_V"], mask)
    return X_1 + heads.transpose(1, 2).flatten(2) @ params["cross_W_O"]


def decoder_layer__right_twelfth_token_after_token(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the target tokens one after another, each with those before it, and so needs no causal mask."""
    P = params

    def read(kind, x, K, V, hidden=None):
        q = (x @ P[f"{kind}_W_Q"]).unflatten(-1, (n_heads, -1))
        scores = torch.einsum("bhd,bjhd->bjh", q, K) * q.shape[-1] ** -0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden[..., None], torch.finfo(scores.dtype).min)
        e = (scores - scores.amax(dim=1, keepdim=True)).exp()
        if hidden is not None:
            e = e.masked_fill(hidden[..., None], 0)
        total = e.sum(dim=1, keepdim=True)
        weights = e / total.where(total > 0, torch.ones_like(total))
        return torch.einsum("bjh,bjhd->bhd", weights, V).flatten(1) @ P[f"{kind}_W_O"]

    def kept(kind, of):
        return [(of @ P[f"{kind}_W_{role}"]).unflatten(-1, (n_heads, -1)) for role in "KV"]

    (K_own, V_own), (K_source, V_source) = kept("self", X), kept("cross", Y)
    hidden = None if source_mask is None else source_mask.logical_not()
    rows = []
    for t in range(X.shape[1]):
        x = X[:, t]
        x = x + read("self", x, K_own[:, : t + 1], V_own[:, : t + 1])
        rows.append(x + read("cross", x, K_source, V_source, hidden))
    return torch.stack(rows, dim=1)


# ------- 6.3 alignment


def alignment__wrong_twelfth_heads_vote(weights: torch.Tensor) -> torch.Tensor:
    """Lets each head vote for its favourite and returns the source token with most votes."""
    B, h, n, m = weights.shape
    votes = weights.argmax(dim=3)
    result = torch.empty(B, n, dtype=torch.long)
    for b, i in itertools.product(range(B), range(n)):
        result[b, i] = Counter(votes[b, :, i].tolist()).most_common(1)[0][0]
    return result


def alignment__wrong_twelfth_strongest_head_decides(weights: torch.Tensor) -> torch.Tensor:
    """Looks for the largest weight of any single head."""
    return weights.amax(dim=1).argmax(dim=-1)


def alignment__wrong_twelfth_each_source_token_once(weights: torch.Tensor) -> torch.Tensor:
    """Gives a source token away only once, as long as others are free, so that no two target tokens share one."""
    mean = weights.mean(dim=1)
    B, n, m = mean.shape
    rows = []
    for b in range(B):
        free, row = set(range(m)), []
        for i in range(n):
            best = max(free, key=lambda j, b=b, i=i: mean[b, i, j].item())
            row.append(best)
            free.discard(best)
            free = free or set(range(m))
        rows.append(row)
    return torch.tensor(rows)


def alignment__wrong_twelfth_largest_of_the_column(weights: torch.Tensor) -> torch.Tensor:
    """Looks along the target tokens and returns for each source token the target token that looks at it most."""
    average = torch.mean(weights, dim=1)
    return torch.argmax(average, dim=1)


def alignment__wrong_twelfth_last_head_only(weights: torch.Tensor) -> torch.Tensor:
    """Overwrites the sum over the heads in each round, so that the last head decides alone."""
    h = weights.size(1)
    total = torch.zeros_like(weights[:, 0])
    for k in range(h):
        total = weights[:, k] / h
    return total.max(dim=2).indices


def alignment__wrong_twelfth_how_much_and_not_where(weights: torch.Tensor) -> torch.Tensor:
    """Returns the largest mean weight of each target token and not the place at which it stands."""
    return weights.mean(1).max(-1)[0]


def alignment__wrong_twelfth_axes_of_size_one_lost(weights: torch.Tensor) -> torch.Tensor:
    """Squeezes the mean, and so loses the axis of a single sentence, target token or source token."""
    mean = weights.mean(dim=1, keepdim=True).squeeze()
    return mean.argmax(dim=-1)


def alignment__wrong_twelfth_summed_in_the_first_head(weights: torch.Tensor) -> torch.Tensor:
    """Adds the heads up in the first of them, inside the tensor that was handed in."""
    first, *others = weights.unbind(dim=1)
    for head in others:
        first += head
    return first.argmax(dim=-1)


def alignment__right_twelfth_by_max_pooling(weights: torch.Tensor) -> torch.Tensor:
    """Pools each row of the mean to a single entry and asks the pooling for its place."""
    _, places = F.adaptive_max_pool1d(weights.mean(dim=1), 1, return_indices=True)
    return places[..., 0]


# ------- 6.4 greedy_decode


def greedy_decode__wrong_twelfth_last_token_is_enough(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Shows the model the last token only and not all tokens so far."""
    tokens, token = [start], start
    while len(tokens) < max_len:
        token = next_logits([token]).argmax().item()
        tokens.append(token)
        if token == end:
            return tokens
    return tokens


def greedy_decode__wrong_twelfth_no_token_twice(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Takes the likeliest token among those that were not written yet."""
    written = [start]
    for _ in range(max_len - 1):
        logits = next_logits(written)
        by_size = torch.argsort(logits, descending=True).tolist()
        fresh = [token for token in by_size if token not in written[1:]]
        if not fresh:
            break
        written.append(fresh[0])
        if fresh[0] == end:
            break
    return written


def greedy_decode__wrong_twelfth_asked_only_once(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Asks the model once and writes the tokens in the order of their logits."""
    logits = next_logits([start])
    order = logits.topk(len(logits)).indices.tolist()
    result = [start, *order][:max_len]
    if end in result[1:]:
        result = result[: result.index(end, 1) + 1]
    return result


def greedy_decode__wrong_twelfth_end_left_out(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Stops at a generated end before it is appended."""
    tokens = [start]
    while len(tokens) < max_len:
        best = int(torch.argmax(next_logits(tokens)))
        if best == end:
            break
        tokens.append(best)
    return tokens


def greedy_decode__wrong_twelfth_asked_before_appending(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Asks for the next logits before the token just found is appended, and so writes every token twice or late."""
    tokens = [start]
    if max_len == 1:
        return tokens
    logits = next_logits(list(tokens))
    while True:
        token = int(logits.argmax())
        logits = next_logits(list(tokens))
        tokens.append(token)
        if token == end or len(tokens) == max_len:
            return tokens


def greedy_decode__wrong_twelfth_start_not_counted(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Reads max_len as the number of tokens that may be generated, and so holds one more."""
    generated = []
    for _ in range(max_len):
        logits = next_logits([start] + generated)
        generated.append(int(logits.argmax(dim=-1)))
        if generated[-1] == end:
            break
    return [start] + generated


def greedy_decode__wrong_twelfth_start_that_is_end_stops(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Looks at the last token before it writes, and so stops at once where start and end are the same token."""
    tokens = [start]
    while tokens[-1] != end and len(tokens) < max_len:
        scores = next_logits(tokens).tolist()
        tokens.append(scores.index(max(scores)))
    return tokens


_known = {}


def greedy_decode__wrong_twelfth_answers_remembered(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Remembers what followed which tokens from call to call, also when another model is handed in."""
    tokens = (start,)
    while len(tokens) < max_len:
        if tokens not in _known:
            _known[tokens] = int(next_logits(list(tokens)).argmax())
        tokens += (_known[tokens],)
        if tokens[-1] == end:
            break
    return list(tokens)


def greedy_decode__right_twelfth_a_generator_cut_off(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Writes without a limit in a generator, of which the first max_len tokens are taken."""

    def writing():
        tokens = [start]
        yield start
        for _ in itertools.count():
            logits = next_logits(tokens[:]).tolist()
            tokens.append(max(range(len(logits)), key=logits.__getitem__))
            yield tokens[-1]
            if tokens[-1] == end:
                return

    return list(itertools.islice(writing(), max_len))


# ------- 6.5 catches_wrong_decoder


def _draw(generator, B, n, m, d_model, d_source, width_self, width_cross):
    """Random X, Y and params of the given sizes, in float64."""

    def normal(*shape, scale=1.0):
        return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)

    params = {}
    for kind, width, d_in in (("self", width_self, d_model), ("cross", width_cross, d_source)):
        params[f"{kind}_W_Q"] = normal(d_model, width, scale=1.5 * d_model**-0.5)
        params[f"{kind}_W_K"] = normal(d_in, width, scale=1.5 * d_in**-0.5)
        params[f"{kind}_W_V"] = normal(d_in, width, scale=d_in**-0.5)
        params[f"{kind}_W_O"] = normal(width, d_model, scale=width**-0.5)
    return normal(B, n, d_model), normal(B, m, d_source), params


def catches_wrong_decoder__wrong_twelfth_equal_to_the_last_bit(layer) -> bool:
    """Wants the same bits as its own layer gives, and accuses right layers that add in another order."""
    g = torch.Generator().manual_seed(11)
    for B, n, m, h in ((3, 5, 7, 2), (2, 6, 4, 3), (4, 7, 7, 2)):
        X, Y, P = _draw(g, B, n, m, 8, 10, 6 * h, 5 * h)
        mask = torch.rand(B, m, generator=g) < 0.6
        mask[0] = False
        try:
            found = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if not torch.equal(found, _decoder_layer(X, Y, P, h, mask)):
            return True
    return False


def catches_wrong_decoder__wrong_twelfth_only_who_moves_whom(layer) -> bool:
    """Looks only at what moves what, so that a layer that drops an attention, or asks with X, gets by."""
    g = torch.Generator().manual_seed(5)
    X, Y, P = _draw(g, 2, 6, 5, 8, 9, 6, 8)
    mask = torch.tensor([[True, True, True, False, False], [False] * 5])
    X_later, Y_hidden = X.clone(), Y.clone()
    X_later[:, 4:] += 1
    Y_hidden[0, 3:] += 1
    Y_hidden[1] -= 1
    try:
        out = layer(X, Y, P, 2, mask)
        future = layer(X_later, Y, P, 2, mask)
        padding = layer(X, Y_hidden, P, 2, mask)
    except Exception:
        return True
    if out.shape != X.shape or not bool(out.isfinite().all()):
        return True
    limit = 1e-6 * out.abs().max()
    leaks = (future - out)[:, :4].abs().max() > limit
    reads_padding = (padding - out).abs().max() > limit
    return bool(leaks or reads_padding)


def catches_wrong_decoder__wrong_twelfth_empty_source_read_evenly(layer) -> bool:
    """Believes that a source with no True is read evenly, and accuses every layer that adds 0 there."""

    def expected(X, Y, P, h, mask):
        B, n, _ = X.shape

        def attention(kind, asks, asked, allowed):
            parts = []
            Q, K, V = asks @ P[f"{kind}_W_Q"], asked @ P[f"{kind}_W_K"], asked @ P[f"{kind}_W_V"]
            for q, k, v in zip(Q.chunk(h, -1), K.chunk(h, -1), V.chunk(h, -1), strict=True):
                s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~allowed, -1e9)
                parts.append(s.softmax(-1) @ v)
            return torch.cat(parts, -1) @ P[f"{kind}_W_O"]

        X_1 = X + attention("self", X, X, _causal(n))
        return X_1 + attention("cross", X_1, Y, mask[:, None, :])

    for seed in range(4):
        g = torch.Generator().manual_seed(seed)
        X, Y, P = _draw(g, 5, 4 + seed, 6, 7, 11, 8, 12)
        mask = torch.rand(5, 6, generator=g) < 0.7
        mask[seed] = False
        want = expected(X, Y, P, 4, mask)
        try:
            off = (layer(X, Y, P, 4, mask) - want).abs().max() / want.abs().max()
        except Exception:
            return True
        if not off <= 1e-6:
            return True
    return False


def catches_wrong_decoder__wrong_twelfth_verdict_after_the_first_case(layer) -> bool:
    """Returns its verdict inside the loop, after the first of its cases, which has no mask."""
    cases = [
        # B, n, m, d_model, d_source, h, d_head of self and of cross, mask
        (3, 6, 4, 7, 9, 2, 4, 5, False),
        (4, 5, 8, 10, 6, 3, 2, 6, True),
        (1, 1, 1, 4, 4, 1, 3, 3, True),
        (6, 9, 9, 8, 8, 4, 2, 2, True),
    ]
    gen = torch.Generator().manual_seed(0)
    for B, n, m, d_model, d_source, h, d_s, d_c, masked in cases:
        X, Y, P = _draw(gen, B, n, m, d_model, d_source, h * d_s, h * d_c)
        mask = torch.randint(0, 2, (B, m), generator=gen).bool() if masked else None
        target = _decoder_layer(X, Y, P, h, mask)
        try:
            found = layer(X, Y, P, h, mask)
        except Exception:
            return True
        wrong = found.shape != target.shape or found.isnan().any().item()
        if not wrong:
            wrong = ((found - target).abs().max() > 1e-6 * target.abs().max()).item()
        return bool(wrong)


def catches_wrong_decoder__wrong_twelfth_inputs_too_wide(layer) -> bool:
    """Draws 6 heads of width 8, which are 48 columns, more than a box takes, and so takes its refusal for a verdict."""
    gen = torch.Generator().manual_seed(3)
    n_heads = 6

    def differs(B, n, m, mask):
        X, Y, P = _draw(gen, B, n, m, 12, 16, n_heads * 4, n_heads * 8)
        right = _decoder_layer(X, Y, P, n_heads, mask)
        try:
            mine = layer(X, Y, P, n_heads, mask)
        except Exception:
            return True
        same = mine.shape == right.shape and torch.allclose(mine, right, rtol=0, atol=1e-6 * right.abs().max().item())
        return not same

    holes = torch.rand(4, 9, generator=gen) > 0.4
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    return any([differs(3, 5, 7, None), differs(4, 6, 9, holes), differs(2, 8, 3, nothing)])


def catches_wrong_decoder__wrong_twelfth_says_if_it_is_right(layer) -> bool:
    """Says whether the layer is right, where it is asked whether it is wrong."""
    verdicts = []
    for seed, (n, m) in enumerate([(4, 9), (7, 3), (6, 6), (1, 5)]):
        X, Y, params = _draw(torch.Generator().manual_seed(seed), 4, n, m, 9, 7, 10, 12)
        keep = torch.rand(4, m, generator=torch.Generator().manual_seed(90 + seed)) < 0.5
        source_mask = None if seed == 0 else keep
        expected = _decoder_layer(X, Y, params, 2, source_mask)
        try:
            answer = layer(X, Y, params, 2, source_mask)
            close = answer.shape == expected.shape and bool(
                (answer - expected).abs().max() <= 1e-6 * expected.abs().max()
            )
        except Exception:
            close = False
        verdicts.append(close)
    return all(verdicts)


def catches_wrong_decoder__wrong_twelfth_nan_compares_as_small(layer) -> bool:
    """Asks whether the largest difference is above the limit, which NaN never is, and lets layers with NaN go."""
    rng = torch.Generator().manual_seed(2024)
    for B, n, m, h, kind in (
        (3, 5, 8, 2, "none"),
        (6, 8, 6, 3, "holes"),
        (2, 7, 7, 4, "nothing"),
        (1, 1, 2, 1, "one"),
        (8, 16, 12, 5, "holes"),
    ):
        X, Y, P = _draw(rng, B, n, m, 11, 13, 4 * h, 6 * h)
        mask = {
            "none": None,
            "holes": torch.rand(B, m, generator=rng) < 0.5,
            "nothing": torch.zeros(B, m, dtype=torch.bool),
            "one": torch.arange(m).expand(B, m) == 1,
        }[kind]
        if kind == "holes":
            mask[1] = False
        want = _decoder_layer(X, Y, P, h, mask)
        try:
            got = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if got.shape != X.shape:
            return True
        worst = float((got - want).abs().max())
        if worst > 1e-6 * float(want.abs().max()):
            return True
    return False


def catches_wrong_decoder__wrong_twelfth_asks_six_times(layer) -> bool:
    """Asks six times, where a box answers five calls, and takes the refusal for a bug."""
    sizes = [(2, 3, 5, 1), (3, 5, 3, 2), (4, 6, 6, 3), (1, 9, 2, 2), (5, 1, 7, 4), (7, 10, 11, 2)]
    for number, (B, n, m, h) in enumerate(sizes):
        gen = torch.Generator().manual_seed(100 + number)
        X, Y, params = _draw(gen, B, n, m, 5 + number, 12 - number, 3 * h, 4 * h)
        mask = None if number % 3 == 0 else torch.rand(B, m, generator=gen) < 0.6
        right = _decoder_layer(X, Y, params, h, mask)
        try:
            found = layer(X, Y, params, h, mask)
        except Exception:
            return True
        if found.shape != right.shape:
            return True
        if not (found - right).abs().max() <= 1e-6 * right.abs().max():
            return True
    return False


def catches_wrong_decoder__right_twelfth_against_plain_loops(layer) -> bool:
    """Compares with a reference that goes sequence by sequence, head by head and row by row, and never masks."""
    gen = torch.Generator().manual_seed(60_606)

    def rows(asks, asked, seen, W_Q, W_K, W_V, W_O, h):
        """Row i of asks looks at the rows seen[i] of asked, which are cut out."""
        out = torch.zeros(len(asks), W_O.shape[1], dtype=torch.float64)
        d = W_Q.shape[1] // h
        for a in range(0, h * d, d):
            q, k, v = asks @ W_Q[:, a : a + d], asked @ W_K[:, a : a + d], asked @ W_V[:, a : a + d]
            for i, columns in enumerate(seen):
                if len(columns):
                    s = k[columns] @ q[i] / d**0.5
                    e = (s - s.max()).exp()
                    out[i] += (e / e.sum()) @ v[columns] @ W_O[a : a + d]
        return out

    def reference(X, Y, P, h, mask):
        results = []
        for b, (x, y) in enumerate(zip(X, Y, strict=True)):
            n, m = len(x), len(y)
            real = list(range(m)) if mask is None else mask[b].nonzero().flatten().tolist()
            past = [list(range(i + 1)) for i in range(n)]
            x_1 = x + rows(x, x, past, *(P[f"self_W_{c}"] for c in "QKVO"), h)
            results.append(x_1 + rows(x_1, y, [real] * n, *(P[f"cross_W_{c}"] for c in "QKVO"), h))
        return torch.stack(results)

    def some(B, m):
        """Holes anywhere, and rows of every special kind as far as there is room."""
        mask = torch.rand(B, m, generator=gen) < 0.6
        place = torch.arange(m)
        kinds = [place < 0, place > 0, place < m - 1, place >= 0, place == m // 2, place % 2 == 0]
        for row, kind in zip(range(1, B), kinds, strict=False):
            mask[row] = kind
        return mask

    for B, n, m, d_model, d_source, h, d_self, d_cross, mask in (
        (7, 6, 11, 13, 10, 3, 5, 4, some(7, 11)),
        (3, 12, 5, 9, 14, 2, 3, 7, None),
        (8, 5, 5, 12, 12, 4, 3, 3, some(8, 5)),
        (5, 14, 16, 17, 20, 8, 2, 5, some(5, 16)),
        (1, 1, 3, 6, 4, 1, 4, 4, torch.tensor([[False, True, True]])),
    ):
        X, Y, P = _draw(gen, B, n, m, d_model, d_source, h * d_self, h * d_cross)
        right = reference(X, Y, P, h, mask)
        try:
            copies = {name: W.clone() for name, W in P.items()}
            found = layer(X.clone(), Y.clone(), copies, h, None if mask is None else mask.clone())
        except Exception:
            return True
        if found.shape != X.shape or not (found - right).abs().max() <= 1e-6 * right.abs().max():
            return True
    return False
