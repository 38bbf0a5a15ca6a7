"""Answers to the exercises of unit 6, wrong ones and right ones, as students would write them."""

import itertools
import math

import torch


def _masked_softmax(scores, mask=None):
    """The softmax over the last axis among the allowed keys, zeros where nothing is allowed (unit 3)."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    low = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(low, dim=-1).masked_fill(~mask, 0.0)


def _split_heads(T, n_heads):
    """(B, n, h*d_head) -> (B, h, n, d_head), heads are contiguous blocks of columns (unit 4)."""
    return T.reshape(T.shape[0], T.shape[1], n_heads, T.shape[2] // n_heads).transpose(1, 2)


def _merge_heads(T):
    """(B, h, n, d_head) -> (B, n, h*d_head) (unit 4)."""
    B, h, n, d_head = T.shape
    return T.transpose(1, 2).reshape(B, n, h * d_head)


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The self-attention that the notebook gives, written by hand."""
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    A = _masked_softmax(Q @ K.mT / Q.shape[-1] ** 0.5, mask)
    return _merge_heads(A @ V) @ W_O


def _cross_attention(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """A right answer to exercise 6.1, for the later ones."""
    Q, K, V = _split_heads(X @ W_Q, n_heads), _split_heads(Y @ W_K, n_heads), _split_heads(Y @ W_V, n_heads)
    mask = None if source_mask is None else source_mask[:, None, None, :]
    A = _masked_softmax(Q @ K.mT / Q.shape[-1] ** 0.5, mask)
    return _merge_heads(A @ V) @ W_O, A


def _decoder_layer(X, Y, params, n_heads, source_mask=None):
    """A right answer to exercise 6.2, for the last one."""
    own = [params[f"self_W_{role}"] for role in "QKVO"]
    cross = [params[f"cross_W_{role}"] for role in "QKVO"]
    causal = torch.ones(X.shape[1], X.shape[1], dtype=torch.bool).tril()
    X_1 = X + _multi_head_attention(X, *own, n_heads, causal)
    return X_1 + _cross_attention(X_1, Y, *cross, n_heads, source_mask)[0]


# ------- 6.1 cross_attention


def cross_attention__wrong_thirteenth_causal_over_the_source(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Thinks a decoder is causal everywhere: target token i sees source tokens 0 to i alone; due is all of it."""
    n, m = X.shape[1], Y.shape[1]
    q = _split_heads(X @ W_Q, n_heads)
    k = _split_heads(Y @ W_K, n_heads)
    v = _split_heads(Y @ W_V, n_heads)
    may = torch.ones(n, m, dtype=torch.bool).tril()[None, None]
    if source_mask is not None:
        may = may & source_mask[:, None, None, :]
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    weights = _masked_softmax(scores, may)
    return _merge_heads(weights @ v) @ W_O, weights


def cross_attention__wrong_thirteenth_residual_inside(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes the residual for a part of the attention and adds X to out; nothing is added here."""
    B, n, _ = X.shape
    m, h = Y.shape[1], n_heads
    Q = (X @ W_Q).view(B, n, h, -1)
    K = (Y @ W_K).view(B, m, h, -1)
    V = (Y @ W_V).view(B, m, h, -1)
    S = torch.einsum("bnhd,bmhd->bhnm", Q, K) / Q.shape[-1] ** 0.5
    if source_mask is None:
        A = S.softmax(-1)
    else:
        hidden = ~source_mask.view(B, 1, 1, m)
        A = S.masked_fill(hidden, torch.finfo(S.dtype).min).softmax(-1).masked_fill(hidden, 0)
    heads = torch.einsum("bhnm,bmhd->bnhd", A, V)
    return X + heads.reshape(B, n, -1) @ W_O, A


def cross_attention__wrong_thirteenth_padding_vectors_set_to_zero(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Hides source tokens by making their vectors 0: their score is 0 then, and they keep weight; due is weight 0."""
    if source_mask is not None:
        Y = Y * source_mask[:, :, None].to(Y.dtype)  # a vector of zeros says nothing
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(Y @ W_K, n_heads)
    V = _split_heads(Y @ W_V, n_heads)
    d_head = Q.size(-1)
    weights = torch.softmax(torch.matmul(Q, K.transpose(2, 3)) / d_head**0.5, dim=3)
    return torch.matmul(_merge_heads(torch.matmul(weights, V)), W_O), weights


def cross_attention__wrong_thirteenth_root_of_all_heads(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Divides the scores by the root of the width of all heads together, h*d_head, in place of d_head."""
    width = W_Q.shape[1]
    queries, keys, values = X @ W_Q, Y @ W_K, Y @ W_V
    queries, keys, values = (_split_heads(t, n_heads) for t in (queries, keys, values))
    scores = queries @ keys.mT
    scores = scores / math.sqrt(width)
    allowed = None
    if source_mask is not None:
        allowed = source_mask.unsqueeze(1).unsqueeze(1)
    weights = _masked_softmax(scores, allowed)
    out = _merge_heads(weights @ values) @ W_O
    return out, weights


def cross_attention__wrong_thirteenth_merged_without_swapping(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Forgets to swap heads and tokens back before merging: rows of several tokens and heads get mixed up."""
    B, n = X.shape[:2]
    m = Y.shape[1]
    d_head = W_Q.shape[1] // n_heads
    Q = (X @ W_Q).reshape(B, n, n_heads, d_head).permute(0, 2, 1, 3)
    K = (Y @ W_K).reshape(B, m, n_heads, d_head).permute(0, 2, 3, 1)
    V = (Y @ W_V).reshape(B, m, n_heads, d_head).permute(0, 2, 1, 3)
    S = Q @ K / d_head**0.5
    A = _masked_softmax(S, None if source_mask is None else source_mask[:, None, None])
    mixed = A @ V  # (B, h, n, d_head)
    return mixed.reshape(B, n, n_heads * d_head) @ W_O, A


def cross_attention__wrong_thirteenth_heads_own_every_hth_column(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads the layout wrongly: head r takes columns r, r + h, r + 2h and so on; due are contiguous blocks."""
    maps, out = [], 0
    for r in range(n_heads):
        q, k, v = X @ W_Q[:, r::n_heads], Y @ W_K[:, r::n_heads], Y @ W_V[:, r::n_heads]
        score = torch.einsum("bnd,bmd->bnm", q, k) / math.sqrt(q.shape[2])
        A = _masked_softmax(score, None if source_mask is None else source_mask[:, None, :])
        out = out + A @ v @ W_O[r::n_heads]
        maps.append(A)
    return out, torch.stack(maps, dim=1)


def cross_attention__wrong_thirteenth_empty_source_read_evenly(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fills with the lowest number and leaves it at that: a source of padding alone gets 1/m each; due are zeros."""

    def heads_of(projected):
        return torch.stack(projected.chunk(n_heads, dim=-1), dim=1)

    Q, K, V = heads_of(X @ W_Q), heads_of(Y @ W_K), heads_of(Y @ W_V)
    scores = Q @ K.mT * Q.shape[-1] ** -0.5
    if source_mask is not None:
        lowest = torch.finfo(scores.dtype).min
        scores = scores.masked_fill(source_mask[:, None, None, :].logical_not(), lowest)
    weights = scores.softmax(dim=-1)
    out = torch.cat((weights @ V).unbind(1), dim=-1) @ W_O
    return out, weights


def cross_attention__wrong_thirteenth_weights_cut_from_graph(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the weights detached, since they are only to be looked at: no gradient flows from them, as is due."""
    B, n, m = X.shape[0], X.shape[1], Y.shape[1]
    mask = torch.ones(B, m, dtype=torch.bool) if source_mask is None else source_mask
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(Y @ W_K, n_heads)
    V = _split_heads(Y @ W_V, n_heads)
    A = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask[:, None, None, :].expand(B, n_heads, n, m))
    out = _merge_heads(A @ V) @ W_O
    return out, A.detach()


def cross_attention__right_thirteenth_sentence_by_sentence_cut(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Goes through sentences and heads, cuts hidden source tokens out and puts the weights back in their places."""
    B, m = Y.shape[:2]
    d_head = W_Q.shape[1] // n_heads
    outs, maps = [], []
    for b in range(B):
        kept = torch.arange(m) if source_mask is None else source_mask[b].nonzero().flatten()
        back = torch.eye(m, dtype=Y.dtype)[kept]  # (kept, m): where each kept token stood
        y = Y[b, kept]
        out, head_maps = X[b] * 0, []
        for r in range(n_heads):
            own = slice(r * d_head, (r + 1) * d_head)
            score = (X[b] @ W_Q[:, own]) @ (y @ W_K[:, own]).T / d_head**0.5  # (n, kept)
            if len(kept) > 0:
                score = score - score.amax(dim=1, keepdim=True)
            power = score.exp()
            share = power / power.sum(dim=1, keepdim=True) if len(kept) > 0 else power
            out = out + share @ (y @ W_V[:, own]) @ W_O[own]
            head_maps.append(share @ back)
        outs.append(out)
        maps.append(torch.stack(head_maps))
    return torch.stack(outs), torch.stack(maps)


# ------- 6.2 decoder_layer


def decoder_layer__wrong_thirteenth_asks_with_old_x(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Thinks that both attentions read the layer's input: cross-attention asks with X; due is X_1."""
    n = X.shape[1]
    p = params
    past = torch.tril(torch.ones(n, n)).bool()
    written = _multi_head_attention(
        X, p["self_W_Q"], p["self_W_K"], p["self_W_V"], p["self_W_O"], n_heads, past
    )
    read, _ = _cross_attention(
        X, Y, p["cross_W_Q"], p["cross_W_K"], p["cross_W_V"], p["cross_W_O"], n_heads, source_mask
    )
    return X + written + read


def decoder_layer__wrong_thirteenth_self_attention_sees_all(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Thinks that the source keeps the order and the target needs no mask: the self-attention sees the future."""
    own = [params["self_W_" + role] for role in "QKVO"]
    cross = [params["cross_W_" + role] for role in "QKVO"]
    X_1 = X + _multi_head_attention(X, *own, n_heads)
    out, _ = _cross_attention(X_1, Y, *cross, n_heads, source_mask)
    return X_1 + out


def decoder_layer__wrong_thirteenth_source_read_first(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Thinks one reads before one writes: cross-attention first, then self-attention; due is the other order."""

    def weights_of(which):
        return tuple(params[f"{which}_W_{letter}"] for letter in ("Q", "K", "V", "O"))

    after_source = X + _cross_attention(X, Y, *weights_of("cross"), n_heads, source_mask)[0]
    steps = torch.arange(X.shape[1])
    causal = steps[None, :] <= steps[:, None]
    return after_source + _multi_head_attention(after_source, *weights_of("self"), n_heads, causal)


def decoder_layer__wrong_thirteenth_second_residual_from_x(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the wrong variable in the second sum, X + cross(X_1): what the self-attention brought is not passed on."""
    size = X.shape[1]
    mask = torch.ones((size, size), dtype=torch.bool).tril()
    s_Q, s_K, s_V, s_O = (params[k] for k in ("self_W_Q", "self_W_K", "self_W_V", "self_W_O"))
    c_Q, c_K, c_V, c_O = (params[k] for k in ("cross_W_Q", "cross_W_K", "cross_W_V", "cross_W_O"))
    X_1 = X + _multi_head_attention(X, s_Q, s_K, s_V, s_O, n_heads, mask)
    X_2 = X + _cross_attention(X_1, Y, c_Q, c_K, c_V, c_O, n_heads, source_mask)[0]
    return X_2


def decoder_layer__wrong_thirteenth_cross_keys_values_exchanged(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Hands cross-attention W_V in the place of W_K and the reverse: keys and values are made with each other's."""
    X_1 = X + _multi_head_attention(
        X,
        params["self_W_Q"],
        params["self_W_K"],
        params["self_W_V"],
        params["self_W_O"],
        n_heads,
        mask=torch.ones(X.shape[1], X.shape[1]).tril() == 1,
    )
    crossed, weights = _cross_attention(
        X_1,
        Y,
        params["cross_W_Q"],
        params["cross_W_V"],
        params["cross_W_K"],
        params["cross_W_O"],
        n_heads,
        source_mask,
    )
    return X_1 + crossed


def decoder_layer__wrong_thirteenth_true_read_as_hidden(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Marks the future with True in the causal mask, as if True meant hidden: each token sees the future alone."""
    n = X.shape[1]
    future = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
    own, cross = ([params[f"{kind}_W_{r}"] for r in "QKVO"] for kind in ("self", "cross"))
    H = X + _multi_head_attention(X, *own, n_heads, mask=future)
    H = H + _cross_attention(H, Y, *cross, n_heads, source_mask=source_mask)[0]
    return H


def decoder_layer__wrong_thirteenth_one_divisor_for_both(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Divides both attentions' scores by the root of the self-attention's d_head: wrong where the two differ."""
    root = (params["self_W_Q"].shape[1] // n_heads) ** 0.5

    def attention(asks, asked, kind, mask):
        Q = _split_heads(asks @ params[kind + "_W_Q"], n_heads)
        K = _split_heads(asked @ params[kind + "_W_K"], n_heads)
        V = _split_heads(asked @ params[kind + "_W_V"], n_heads)
        return _merge_heads(_masked_softmax(Q @ K.mT / root, mask) @ V) @ params[kind + "_W_O"]

    n = X.shape[1]
    triangle = torch.ones(n, n, dtype=torch.bool).tril()
    real = None if source_mask is None else source_mask[:, None, None, :]
    X_1 = X + attention(X, X, "self", triangle)
    return X_1 + attention(X_1, Y, "cross", real)


def decoder_layer__wrong_thirteenth_params_used_up(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the weights out of params with pop: the result is right, but the caller's dictionary is empty after it."""
    self_weights = [params.pop(f"self_W_{role}") for role in "QKVO"]
    cross_weights = [params.pop(f"cross_W_{role}") for role in "QKVO"]
    n = X.shape[1]
    causal = torch.tril(torch.ones(n, n, dtype=torch.bool))
    X_1 = X + _multi_head_attention(X, *self_weights, n_heads, causal)
    X_2 = X_1 + _cross_attention(X_1, Y, *cross_weights, n_heads, source_mask)[0]
    return X_2


def decoder_layer__right_thirteenth_one_token_per_step(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Works as when it writes: token after token, the past cut off behind it, so that no causal mask is needed."""
    h = n_heads
    Q_all = _split_heads(X @ params["self_W_Q"], h)
    K_all = _split_heads(X @ params["self_W_K"], h)
    V_all = _split_heads(X @ params["self_W_V"], h)
    root = Q_all.shape[-1] ** 0.5
    rows = []
    for t in range(X.shape[1]):
        q = Q_all[:, :, t : t + 1]
        K, V = K_all[:, :, : t + 1], V_all[:, :, : t + 1]
        found = torch.softmax((q * K).sum(-1) / root, dim=-1)[:, :, None] @ V  # (B, h, 1, d_head)
        x_1 = X[:, t : t + 1] + _merge_heads(found) @ params["self_W_O"]
        asked = [params["cross_W_" + role] for role in "QKVO"]
        rows.append(x_1 + _cross_attention(x_1, Y, *asked, h, source_mask)[0])
    return torch.cat(rows, dim=1)


# ------- 6.3 alignment


def alignment__wrong_thirteenth_heads_take_a_vote(weights: torch.Tensor) -> torch.Tensor:
    """Lets each head name its favourite and takes the most frequent name; due is the largest mean weight."""
    favourites = weights.argmax(dim=-1)  # (B, h, n)
    return favourites.mode(dim=1).values


def alignment__wrong_thirteenth_mean_of_favourite_places(weights: torch.Tensor) -> torch.Tensor:
    """Looks for the largest first and then averages the places of the heads: a mean of indices says nothing."""
    per_head = torch.argmax(weights, dim=3)
    mean_place = per_head.double().mean(dim=1)
    return mean_place.round().long()


def alignment__wrong_thirteenth_strongest_head_decides(weights: torch.Tensor) -> torch.Tensor:
    """Takes for each pair the largest weight that any head gives, and the largest of those; due is the mean."""
    strongest = weights.amax(dim=1)
    return strongest.argmax(dim=-1)


def alignment__wrong_thirteenth_values_in_place_of_indices(weights: torch.Tensor) -> torch.Tensor:
    """Takes the wrong one of the two results of max: how large the mean weight is, not where it lies."""
    mean_map = weights.mean(dim=1)
    largest = mean_map.max(dim=-1)
    return largest[0]


def alignment__wrong_thirteenth_first_head_left_out(weights: torch.Tensor) -> torch.Tensor:
    """Begins the loop over the heads at 1, so that head 0 is not in the mean."""
    h = weights.shape[1]
    together = torch.zeros_like(weights[:, 0])
    for r in range(1, h):
        together = together + weights[:, r] / h
    return together.argmax(-1)


def alignment__wrong_thirteenth_target_for_each_source(weights: torch.Tensor) -> torch.Tensor:
    """Reads it the other way round: for each source token the target token that looks at it most, shape (B, m)."""
    averaged = torch.einsum("bhnm->bnm", weights) / weights.size(1)
    return averaged.argmax(dim=1)


def alignment__wrong_thirteenth_axes_of_one_squeezed(weights: torch.Tensor) -> torch.Tensor:
    """Squeezes the result, so that a single sentence or a single target token loses its axis; due is (B, n)."""
    B, h, n, m = weights.shape
    mean = weights.sum(1) / h
    return torch.topk(mean, k=1, dim=-1).indices.squeeze()


def alignment__wrong_thirteenth_sums_into_the_input(weights: torch.Tensor) -> torch.Tensor:
    """Adds up the heads in place, in a view of head 0: the alignment is right, but the caller's weights change."""
    total = weights[:, 0]
    for k in range(1, weights.shape[1]):
        total += weights[:, k]
    return total.argmax(dim=-1)


def alignment__right_thirteenth_champion_column_by_column(weights: torch.Tensor) -> torch.Tensor:
    """Goes through the source tokens and keeps for each target token the best mean so far and its place."""
    mean = weights.mean(dim=1)
    best = mean[:, :, 0]
    where = torch.zeros(mean.shape[:2], dtype=torch.long)
    for j in range(1, mean.shape[2]):
        challenger = mean[:, :, j]
        wins = challenger > best
        where = torch.where(wins, j, where)
        best = torch.where(wins, challenger, best)
    return where


# ------- 6.4 greedy_decode


def greedy_decode__wrong_thirteenth_model_sees_last_token(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Thinks that the model remembers and hands it the newest token alone; due is the list of all so far."""
    tokens = [start]
    while len(tokens) < max_len:
        new = int(next_logits([tokens[-1]]).argmax())
        tokens.append(new)
        if new == end:
            break
    return tokens


def greedy_decode__wrong_thirteenth_draws_the_next_token(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Draws the next token with the probabilities of the softmax; greedy is to take the likeliest each time."""
    generator = torch.Generator().manual_seed(12)
    tokens = [start]
    for _ in range(max_len - 1):
        probabilities = torch.softmax(next_logits(tokens).double(), dim=-1)
        tokens.append(int(torch.multinomial(probabilities, 1, generator=generator)))
        if tokens[-1] == end:
            return tokens
    return tokens


def greedy_decode__wrong_thirteenth_end_not_written(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Takes end for a signal, no token, and stops before it is appended; a generated end belongs to the result."""
    written = [start]
    while len(written) < max_len:
        best = next_logits(written).argmax().item()
        if best == end:
            return written
        written = written + [best]
    return written


def greedy_decode__wrong_thirteenth_one_token_short(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Stops one token too early where no end comes: the bound of the loop is off by one."""
    sequence = [start]
    for position in range(1, max_len - 1):
        logits = next_logits(sequence)
        token = torch.argmax(logits).item()
        sequence.append(token)
        if token == end:
            break
    return sequence


def greedy_decode__wrong_thirteenth_stops_at_start_token(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Compares the new token with start in place of end: a generated start stops it, and a generated end does not."""
    result, finished = [start], False
    while not finished and len(result) < max_len:
        next_token = next_logits(result).argmax(dim=0).tolist()
        result.append(next_token)
        finished = next_token == start
    return result


def greedy_decode__wrong_thirteenth_start_not_counted(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Reads max_len as the number of generated tokens, so the result may hold max_len + 1; start counts too."""
    generated = []
    while len(generated) < max_len:
        token = int(next_logits([start] + generated).argmax())
        generated.append(token)
        if token == end:
            break
    return [start, *generated]


def greedy_decode__wrong_thirteenth_start_equal_end_stops(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Asks before each step whether the last token is end: if start and end are the same token, nothing is written."""
    tokens = [start]
    while tokens[-1] != end and len(tokens) < max_len:
        tokens.append(int(torch.argmax(next_logits(tokens))))
    return tokens


def greedy_decode__wrong_thirteenth_list_of_tensors(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Appends the argmax as it comes: the numbers are right, but tensors stand in the list, not Python ints."""
    tokens = [start]
    while len(tokens) < max_len:
        favourite = next_logits(tokens).argmax()
        tokens.append(favourite)
        if favourite == end:
            break
    return tokens


def greedy_decode__right_thirteenth_stream_cut_by_islice(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Makes the tokens as an endless stream that dries up after end, and takes at most max_len of it."""

    def stream():
        so_far = [start]
        yield start
        while True:
            logits = next_logits(list(so_far)).tolist()
            token = max(range(len(logits)), key=logits.__getitem__)
            so_far.append(token)
            yield token
            if token == end:
                return

    return list(itertools.islice(stream(), max_len))


# ------- 6.5 catches_wrong_decoder


def _random_inputs(generator, B, n, m, h, self_head, cross_head, d_model, d_source):
    """X, Y and params of the given sizes in float64, weights scaled so that products keep their size."""

    def draw(*shape, scale=1.0):
        return torch.randn(*shape, generator=generator, dtype=torch.float64) * scale

    params = {}
    for kind, d_in, width in (("self", d_model, h * self_head), ("cross", d_source, h * cross_head)):
        params[f"{kind}_W_Q"] = draw(d_model, width, scale=d_model**-0.5)
        params[f"{kind}_W_K"] = draw(d_in, width, scale=d_in**-0.5)
        params[f"{kind}_W_V"] = draw(d_in, width, scale=d_in**-0.5)
        params[f"{kind}_W_O"] = draw(width, d_model, scale=width**-0.5)
    return draw(B, n, d_model), draw(B, m, d_source), params


def _copies(X, Y, params):
    """Copies that a box may spoil."""
    return X.clone(), Y.clone(), {name: W.clone() for name, W in params.items()}


def catches_wrong_decoder__wrong_thirteenth_right_means_identical(layer) -> bool:
    """Thinks that two right programs give the same bits and compares with equal: right layers are accused."""
    g = torch.Generator().manual_seed(1)
    tries = [
        (3, 6, 9, 2, 4, 5, 7, 8),
        (4, 4, 4, 4, 2, 2, 8, 8),
        (1, 1, 3, 1, 3, 2, 5, 4),
        (2, 12, 7, 3, 2, 5, 6, 9),
    ]
    for sizes in tries:
        X, Y, P = _random_inputs(g, *sizes)
        mask = torch.rand(sizes[0], sizes[2], generator=g) < 0.6
        mask[-1] = False
        right = _decoder_layer(X, Y, P, sizes[3], mask)
        try:
            answer = layer(*_copies(X, Y, P), sizes[3], mask.clone())
        except Exception:
            return True
        if not torch.equal(answer, right):
            return True
    return False


def catches_wrong_decoder__wrong_thirteenth_properties_without_reference(layer) -> bool:
    """Thinks that a test needs no right result, only what must not move: a layer that returns X passes."""
    g = torch.Generator().manual_seed(2)
    X, Y, P = _random_inputs(g, 3, 5, 7, 2, 3, 4, 6, 8)
    mask = torch.tensor([[1, 1, 1, 1, 1, 0, 0], [0, 1, 0, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1, 1]]).bool()
    try:
        plain = layer(X, Y, P, 2, mask)
        later = X.clone()
        later[:, 3:] += 1
        future = layer(later, Y, P, 2, mask)
        padding = layer(X, torch.where(mask[:, :, None], Y, Y + 1), P, 2, mask)
        turned = layer(X.flip(0), Y.flip(0), P, 2, mask.flip(0))
        nothing = layer(X, Y, P, 2, mask & False)
    except Exception:
        return True
    if plain.shape != X.shape or not plain.isfinite().all() or not nothing.isfinite().all():
        return True
    near = 1e-6 * plain.abs().max()
    leaks = (future - plain)[:, :3].abs().max() > near
    reads_padding = (padding - plain).abs().max() > near
    mixes_batch = (turned.flip(0) - plain).abs().max() > near
    return bool(leaks or reads_padding or mixes_batch)


def catches_wrong_decoder__wrong_thirteenth_refusal_counts_as_innocent(layer) -> bool:
    """Takes an error for no answer and goes on: a box that raises on valid input is wrong, and is not caught."""
    generator = torch.Generator().manual_seed(33)
    plans = [
        {"sizes": (5, 9, 14, 2, 3, 5, 7, 11), "mask": "some"},
        {"sizes": (3, 3, 3, 3, 2, 2, 6, 6), "mask": "some"},
        {"sizes": (1, 1, 1, 1, 1, 2, 1, 3), "mask": None},
        {"sizes": (4, 16, 5, 8, 2, 1, 12, 4), "mask": "empty"},
    ]
    for plan in plans:
        B, n, m, h = plan["sizes"][:4]
        X, Y, P = _random_inputs(generator, *plan["sizes"])
        mask = None
        if plan["mask"] == "some":
            mask = torch.rand(B, m, generator=generator) > 0.4
        elif plan["mask"] == "empty":
            mask = torch.rand(B, m, generator=generator) > 0.4
            mask[1] = False
        expected = _decoder_layer(X, Y, P, h, mask)
        try:
            got = layer(X.clone(), Y.clone(), dict(P), h, mask)
        except ValueError:
            continue  # the box did not take it; nothing is known
        if got.shape != expected.shape or got.isnan().any():
            return True
        if (got - expected).abs().max() > 1e-6 * expected.abs().max():
            return True
    return False


def catches_wrong_decoder__wrong_thirteenth_not_a_number_passes(layer) -> bool:
    """Compares with > alone, which is False for NaN: a box that returns NaN is not caught."""

    def asked(seed, sizes, empty):
        g = torch.Generator().manual_seed(seed)
        X, Y, P = _random_inputs(g, *sizes)
        B, m, h = sizes[0], sizes[2], sizes[3]
        mask = torch.rand(B, m, generator=g) < 0.7
        if empty:
            mask[0] = False
        right = _decoder_layer(X, Y, P, h, mask)
        found = layer(*_copies(X, Y, P), h, mask.clone())
        if found.shape != right.shape:
            return True
        gap = (found - right).abs().max().item()
        return gap > 1e-6 * right.abs().max().item()

    try:
        return (
            asked(1, (4, 7, 11, 2, 4, 3, 9, 6), False)
            or asked(2, (3, 8, 5, 3, 1, 4, 5, 7), True)
            or asked(3, (5, 5, 5, 5, 2, 2, 10, 10), True)
            or asked(4, (2, 1, 1, 1, 2, 3, 1, 1), False)
        )
    except Exception:
        return True


def catches_wrong_decoder__wrong_thirteenth_last_call_decides(layer) -> bool:
    """Overwrites the verdict in each round, so only the last input counts; one fault on any of them is enough."""
    g = torch.Generator().manual_seed(4)
    wrong = False
    shapes = [(4, 6, 10, 2, 3, 6, 7, 5), (6, 6, 6, 6, 2, 2, 12, 12), (2, 9, 4, 4, 1, 3, 8, 6), (2, 4, 3, 1, 3, 3, 5, 5)]
    for number, sizes in enumerate(shapes):
        X, Y, P = _random_inputs(g, *sizes)
        mask = None
        if number < 3:
            mask = torch.rand(sizes[0], sizes[2], generator=g) < 0.6
            mask[0] = False
        right = _decoder_layer(X, Y, P, sizes[3], mask)
        try:
            answer = layer(X, Y, P, sizes[3], mask)
            same = answer.shape == right.shape and bool(
                ((answer - right).abs() <= 1e-6 * right.abs().max()).all()
            )
        except Exception:
            same = False
        wrong = not same
    return wrong


def catches_wrong_decoder__wrong_thirteenth_five_inputs_asked_twice(layer) -> bool:
    """Reads "5 calls" as 5 inputs and asks each twice: call 6 is refused, and that is taken for a fault of the box."""
    g = torch.Generator().manual_seed(5)
    for B, n, m, h in ((3, 5, 8, 2), (4, 4, 4, 4), (1, 1, 1, 1), (2, 10, 3, 5), (6, 7, 16, 3)):
        X, Y, P = _random_inputs(g, B, n, m, h, 2, 3, 6, 7)
        mask = torch.rand(B, m, generator=g) < 0.7
        mask[0] = False
        right = _decoder_layer(X, Y, P, h, mask)
        for _ in range(2):  # does it say the same again?
            try:
                found = layer(*_copies(X, Y, P), h, mask.clone())
            except Exception:
                return True
            if found.shape != right.shape or not ((found - right).abs() <= 1e-6 * right.abs().max()).all():
                return True
    return False


def catches_wrong_decoder__wrong_thirteenth_both_widths_always_equal(layer) -> bool:
    """Gives both attentions the same d_head in every input: who takes one for the other is not caught."""
    g = torch.Generator().manual_seed(66)
    verdicts = []
    for B, n, m, h, d_head in ((5, 9, 14, 2, 3), (4, 4, 4, 4, 2), (1, 1, 5, 1, 7), (3, 13, 6, 3, 4), (2, 1, 1, 2, 1)):
        X, Y, P = _random_inputs(g, B, n, m, h, d_head, d_head, 7, 10)
        mask = None if B == 1 else torch.rand(B, m, generator=g) < 0.65
        if B > 2:
            mask[B - 1] = False
        want = _decoder_layer(X, Y, P, h, mask)
        try:
            have = layer(*_copies(X, Y, P), h, mask)
            far = have.shape != want.shape or not bool(
                ((have - want).abs().amax() <= 1e-6 * want.abs().amax()).item()
            )
        except Exception:
            far = True
        verdicts.append(far)
    return any(verdicts)


def catches_wrong_decoder__wrong_thirteenth_draws_without_a_seed(layer) -> bool:
    """Draws its inputs with torch.randn and no generator: other inputs each time, where a fixed seed is asked for."""

    def weights(d_x, d_y, width):
        return [torch.randn(d, width).double() / d**0.5 for d in (d_x, d_y, d_y)] + [
            torch.randn(width, d_x).double() / width**0.5
        ]

    for B, n, m, h, own, other in ((5, 8, 13, 2, 3, 5), (3, 3, 3, 3, 2, 2), (1, 1, 1, 1, 4, 3), (4, 15, 6, 4, 5, 2)):
        d_model, d_source = 7, 9
        if B == 3:
            d_source = d_model = 6
        X, Y = torch.randn(B, n, d_model).double(), torch.randn(B, m, d_source).double()
        P = dict(zip((f"self_W_{r}" for r in "QKVO"), weights(d_model, d_model, h * own), strict=True))
        P |= dict(zip((f"cross_W_{r}" for r in "QKVO"), weights(d_model, d_source, h * other), strict=True))
        mask = torch.rand(B, m) < 0.6
        if B > 3:
            mask[2] = False
        expected = _decoder_layer(X, Y, P, h, mask)
        try:
            result = layer(*_copies(X, Y, P), h, mask.clone())
        except Exception:
            return True
        if result.shape != expected.shape:
            return True
        if not ((result - expected).abs() <= 1e-6 * expected.abs().max()).all():
            return True
    return False


def catches_wrong_decoder__right_thirteenth_against_slow_loops(layer) -> bool:
    """Holds five very different inputs against a decoder that is written out token by token and head by head."""

    def one_query(x, others, W_Q, W_K, W_V, W_O, h):
        """What the vector x reads from a list of vectors; nothing from none."""
        result = torch.zeros(W_O.shape[1], dtype=torch.float64)
        width = W_Q.shape[1] // h
        for r in range(h):
            if not others:
                continue
            own = slice(r * width, (r + 1) * width)
            q = x @ W_Q[:, own]
            scores = torch.stack([q @ (y @ W_K[:, own]) for y in others]) / math.sqrt(width)
            shares = torch.softmax(scores, dim=0)
            read = sum(share * (y @ W_V[:, own]) for share, y in zip(shares, others, strict=True))
            result = result + read @ W_O[own]
        return result

    def slowly(X, Y, P, h, mask):
        own, cross = ([P[f"{kind}_W_{role}"] for role in "QKVO"] for kind in ("self", "cross"))
        rows = []
        for b in range(X.shape[0]):
            source = [Y[b, j] for j in range(Y.shape[1]) if mask is None or bool(mask[b, j])]
            for t in range(X.shape[1]):
                x_1 = X[b, t] + one_query(X[b, t], list(X[b, : t + 1]), *own, h)
                rows.append(x_1 + one_query(x_1, source, *cross, h))
        return torch.stack(rows).reshape(X.shape)

    g = torch.Generator().manual_seed(2024)
    plans = (  # B, n, m, h, d_head twice, d_model, d_source; share of real tokens; an empty source
        ((5, 6, 9, 2, 3, 5, 7, 11), 0.6, 3),
        ((4, 4, 4, 4, 2, 2, 8, 8), 0.6, 0),
        ((2, 11, 5, 3, 4, 1, 6, 5), None, None),
        ((1, 1, 1, 1, 1, 2, 1, 3), 1.0, None),
        ((3, 16, 16, 5, 2, 7, 10, 6), 0.5, 1),
    )
    for sizes, share, empty in plans:
        X, Y, P = _random_inputs(g, *sizes)
        B, m, h = sizes[0], sizes[2], sizes[3]
        P = {name: W * (1.7 if name[-1] in "QK" else 1.0) for name, W in P.items()}
        mask = None if share is None else torch.rand(B, m, generator=g) < share
        if empty is not None:
            mask[empty] = False
        right = slowly(X, Y, P, h, mask)
        try:
            found = layer(*_copies(X, Y, P), h, None if mask is None else mask.clone())
            if tuple(found.shape) != tuple(right.shape):
                return True
            near = (found - right).abs() <= 1e-6 * right.abs().max()
        except Exception:
            return True
        if not bool(near.all()):
            return True
    return False
