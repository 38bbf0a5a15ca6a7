import math

import torch
import torch.nn.functional as F


def _cross_attention(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    B, n, m = len(X), X.shape[1], Y.shape[1]
    Q = (X @ W_Q).reshape(B, n, n_heads, -1).transpose(1, 2)
    K = (Y @ W_K).reshape(B, m, n_heads, -1).transpose(1, 2)
    V = (Y @ W_V).reshape(B, m, n_heads, -1).transpose(1, 2)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if source_mask is None:
        weights = scores.softmax(-1)
    else:
        hidden = ~source_mask[:, None, None, :]
        weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(hidden, 0.0)
    return (weights @ V).transpose(1, 2).reshape(B, n, -1) @ W_O, weights


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    batch, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        hidden = ~mask.expand(batch, n_heads, n, n)
        weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(hidden, 0.0)
    else:
        weights = scores.softmax(-1)
    return (weights @ V).transpose(1, 2).reshape(batch, n, -1) @ W_O


def _decoder_layer(X, Y, params, n_heads, source_mask=None):
    n = X.shape[1]
    past = torch.ones(n, n, dtype=torch.bool).tril()
    X_1 = X + _multi_head_attention(X, *(params[f"self_W_{r}"] for r in "QKVO"), n_heads, past)
    return X_1 + _cross_attention(X_1, Y, *(params[f"cross_W_{r}"] for r in "QKVO"), n_heads, source_mask)[0]


def _draw_layer(B, n, m, width_self, width_cross, d_model, d_source, seed=0):
    g = torch.Generator().manual_seed(seed)

    def matrix(*shape):
        return torch.randn(shape, generator=g, dtype=torch.float64)

    params = {}
    for kind, width, d_in in (("self", width_self, d_model), ("cross", width_cross, d_source)):
        for role, shape in zip("QKVO", ((d_model, width), (d_in, width), (d_in, width), (width, d_model))):
            params[f"{kind}_W_{role}"] = matrix(*shape) / shape[0] ** 0.5
    return matrix(B, n, d_model), matrix(B, m, d_source), params


# ---------------------------------------------------------------- 6.1 cross_attention


def cross_attention__wrong_fifteenth_causal_over_the_source(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Target i sees source tokens 0 … i alone, as if it were a decoder's own text; due is the whole source."""
    B, n, _ = X.shape
    m = Y.shape[1]
    q = (X @ W_Q).view(B, n, n_heads, -1).transpose(1, 2)
    k, v = ((Y @ W).view(B, m, n_heads, -1).transpose(1, 2) for W in (W_K, W_V))
    allowed = torch.ones(n, m, dtype=torch.bool).tril()[None, None]
    if source_mask is not None:
        allowed = allowed & source_mask[:, None, None, :]
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~allowed, torch.finfo(X.dtype).min)
    weights = scores.softmax(dim=-1) * allowed
    return (weights @ v).transpose(1, 2).flatten(2) @ W_O, weights


def cross_attention__wrong_fifteenth_pads_become_zero_vectors(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sets the vectors of pads to zero, which leaves them a score of 0 and weight; due is hiding their scores."""
    if source_mask is not None:
        Y = Y * source_mask.unsqueeze(-1).to(Y.dtype)

    def heads(Z, W):
        return torch.stack((Z @ W).chunk(n_heads, dim=-1), dim=1)

    Q, K, V = heads(X, W_Q), heads(Y, W_K), heads(Y, W_V)
    weights = torch.softmax(Q @ K.mT / math.sqrt(Q.size(-1)), dim=-1)
    return torch.cat((weights @ V).unbind(1), dim=-1) @ W_O, weights


def cross_attention__wrong_fifteenth_one_mean_map_for_all_heads(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Every head's values are mixed with the mean of all maps; due is each head with its own."""
    B, n, m = X.shape[0], X.shape[1], Y.shape[1]
    Q = (X @ W_Q).reshape(B, n, n_heads, -1).permute(0, 2, 1, 3)
    K = (Y @ W_K).reshape(B, m, n_heads, -1).permute(0, 2, 1, 3)
    S = Q @ K.mT / Q.shape[-1] ** 0.5
    if source_mask is not None:
        S = S.masked_fill(~source_mask[:, None, None], torch.finfo(S.dtype).min)
    A = S.softmax(-1)
    if source_mask is not None:
        A = A * source_mask[:, None, None]
    return A.mean(dim=1) @ (Y @ W_V) @ W_O, A


def cross_attention__wrong_fifteenth_heads_merged_without_moving_back(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reshapes (B, h, n, d_head) straight to (B, n, h*d_head), mixing tokens; due is a transpose before."""
    B, n, m = X.shape[0], X.shape[1], Y.shape[1]
    Q = (X @ W_Q).reshape(B, n, n_heads, -1).transpose(1, 2)
    K = (Y @ W_K).reshape(B, m, n_heads, -1).transpose(1, 2)
    V = (Y @ W_V).reshape(B, m, n_heads, -1).transpose(1, 2)
    scores = torch.einsum("bhnd,bhmd->bhnm", Q, K) / math.sqrt(Q.shape[-1])
    if source_mask is not None:
        seen = source_mask[:, None, None, :]
        scores = torch.where(seen, scores, torch.finfo(scores.dtype).min)
        weights = torch.where(seen, scores.softmax(-1), 0.0)
    else:
        weights = scores.softmax(-1)
    mixed = weights @ V
    return mixed.reshape(B, n, -1) @ W_O, weights


def cross_attention__wrong_fifteenth_divisor_from_the_width_of_the_target(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Divides by the root of d_model / n_heads; due is d_head, the width of W_Q divided by n_heads."""
    B, n, d_model = X.shape
    d_head = d_model / n_heads
    Q = (X @ W_Q).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    K = (Y @ W_K).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    V = (Y @ W_V).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    scores = Q @ K.mT * d_head**-0.5
    if source_mask is None:
        source_mask = torch.ones(B, Y.shape[1], dtype=torch.bool)
    hidden = ~source_mask[:, None, None, :]
    weights = scores.masked_fill(hidden, torch.finfo(X.dtype).min).softmax(-1).masked_fill(hidden, 0)
    return (weights @ V).transpose(1, 2).flatten(-2) @ W_O, weights


def cross_attention__wrong_fifteenth_returns_the_map_averaged_over_heads(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The second result is the mean map (B, n, m), as a library gives it; due are the maps of all heads."""
    B = X.shape[0]
    Q, K, V = (Z.reshape(B, Z.shape[1], n_heads, -1).transpose(1, 2) for Z in (X @ W_Q, Y @ W_K, Y @ W_V))
    scores = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
    if source_mask is not None:
        scores = scores.masked_fill(~source_mask[:, None, None, :], torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if source_mask is not None:
        weights = weights * source_mask[:, None, None, :]
    out = (weights @ V).transpose(1, 2).reshape(B, X.shape[1], -1) @ W_O
    return out, weights.mean(dim=1)


def cross_attention__wrong_fifteenth_fill_of_minus_a_thousand(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden scores become -1000, which is above allowed ones of -10,000; due is below any score."""
    B, n, m = X.shape[0], X.shape[1], Y.shape[1]
    Q = (X @ W_Q).reshape(B, n, n_heads, -1).transpose(1, 2)
    K = (Y @ W_K).reshape(B, m, n_heads, -1).transpose(1, 2)
    V = (Y @ W_V).reshape(B, m, n_heads, -1).transpose(1, 2)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if source_mask is None:
        weights = F.softmax(scores, dim=-1)
    else:
        seen = source_mask[:, None, None, :]
        weights = F.softmax(scores.masked_fill(~seen, -1e3), dim=-1).masked_fill(~seen, 0.0)
    return (weights @ V).transpose(1, 2).reshape(B, n, -1) @ W_O, weights


def cross_attention__wrong_fifteenth_opens_empty_rows_of_the_callers_mask(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Right values, but an empty row is set to True in the caller's mask on the way; due are unchanged inputs."""
    B, n, m = X.shape[0], X.shape[1], Y.shape[1]
    Q = (X @ W_Q).reshape(B, n, n_heads, -1).transpose(1, 2)
    K = (Y @ W_K).reshape(B, m, n_heads, -1).transpose(1, 2)
    V = (Y @ W_V).reshape(B, m, n_heads, -1).transpose(1, 2)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if source_mask is not None:
        empty = ~source_mask.any(dim=1)
        source_mask[empty] = True
        scores = scores.masked_fill(~source_mask[:, None, None, :], -math.inf)
    weights = scores.softmax(dim=-1)
    if source_mask is not None:
        weights = weights.masked_fill(empty[:, None, None, None], 0.0)
    return (weights @ V).transpose(1, 2).reshape(B, n, -1) @ W_O, weights


def cross_attention__right_fifteenth_folded_matrices_head_by_head(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each head as X (W_Q W_K^T) Y^T and A Y (W_V W_O): no queries, keys or values are ever made; heads are summed."""
    d_head = W_Q.shape[1] // n_heads
    out, maps = 0, []
    for q, k, v, o in zip(W_Q.split(d_head, 1), W_K.split(d_head, 1), W_V.split(d_head, 1), W_O.split(d_head, 0)):
        scores = X @ (q @ k.T / d_head**0.5) @ Y.mT
        if source_mask is not None:
            seen = source_mask[:, None, :].to(scores.dtype)
            lowest = torch.finfo(scores.dtype).min
            top = torch.where(seen > 0, scores, lowest).amax(-1, keepdim=True)
            powers = torch.exp(torch.where(seen > 0, scores - top, -1.0)) * seen
            A = powers / powers.sum(-1, keepdim=True).clamp(min=0.5)
        else:
            A = scores.softmax(-1)
        out = out + A @ (Y @ (v @ o))
        maps.append(A)
    return out, torch.stack(maps, dim=1)


# ---------------------------------------------------------------- 6.2 decoder_layer


def decoder_layer__wrong_fifteenth_source_before_the_own_text(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Cross-attention first and self-attention of the result; due is the other order."""
    n = X.shape[1]
    own = [params["self_W_" + r] for r in "QKVO"]
    other = [params["cross_W_" + r] for r in "QKVO"]
    X_1 = X + _cross_attention(X, Y, *other, n_heads, source_mask)[0]
    return X_1 + _multi_head_attention(X_1, *own, n_heads, torch.tril(torch.ones(n, n, dtype=torch.bool)))


def decoder_layer__wrong_fifteenth_asks_with_the_bare_sublayer_output(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The question is what the self-attention returned, without X; due is X_1, their sum."""
    steps = torch.arange(X.shape[1])
    written = _multi_head_attention(
        X,
        params["self_W_Q"],
        params["self_W_K"],
        params["self_W_V"],
        params["self_W_O"],
        n_heads,
        steps[None, :] <= steps[:, None],
    )
    cross = (params[f"cross_W_{role}"] for role in ("Q", "K", "V", "O"))
    read, _ = _cross_attention(written, Y, *cross, n_heads, source_mask)
    return X + written + read


def decoder_layer__wrong_fifteenth_norm_behind_the_first_sum(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Normalises X_1 before it asks and goes on, as whole transformer blocks do; due is no norm in this layer."""
    n = X.shape[1]
    causal = torch.ones((n, n), dtype=torch.bool).tril()
    X_1 = X + _multi_head_attention(X, *[params[f"self_W_{r}"] for r in "QKVO"], n_heads, causal)
    X_1 = F.layer_norm(X_1, X_1.shape[-1:])
    out, _ = _cross_attention(X_1, Y, *[params[f"cross_W_{r}"] for r in "QKVO"], n_heads, source_mask)
    return X_1 + out


def decoder_layer__wrong_fifteenth_second_sum_adds_to_x(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """The last line adds to X, so the self-attention only shapes the question; due is a sum with X_1."""
    past = torch.ones(X.shape[1], X.shape[1]).tril().bool()
    X1 = X + _multi_head_attention(X, *(params["self_W_" + c] for c in "QKVO"), n_heads, mask=past)
    X2 = X + _cross_attention(X1, Y, *(params["cross_W_" + c] for c in "QKVO"), n_heads, source_mask)[0]
    return X2


def decoder_layer__wrong_fifteenth_keys_and_values_of_cross_exchanged(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Hands cross_W_V over as W_K and cross_W_K as W_V, of the same shape; due is the order Q, K, V, O."""
    p = params
    n = X.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    X = X + _multi_head_attention(X, p["self_W_Q"], p["self_W_K"], p["self_W_V"], p["self_W_O"], n_heads, causal)
    attended = _cross_attention(
        X, Y, p["cross_W_Q"], p["cross_W_V"], p["cross_W_K"], p["cross_W_O"], n_heads, source_mask
    )
    return X + attended[0]


def decoder_layer__wrong_fifteenth_returns_what_the_cross_attention_found(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the cross-attention of X_1 to Y and leaves its sum with X_1 to the caller; due is the sum X_2."""
    n = X.shape[1]
    own, cross = ([params[f"{kind}_W_{r}"] for r in "QKVO"] for kind in ("self", "cross"))
    X_1 = X + _multi_head_attention(X, *own, n_heads, torch.ones(n, n, dtype=torch.bool).tril())
    X_2, _ = _cross_attention(X_1, Y, *cross, n_heads, source_mask)
    return X_2


def decoder_layer__wrong_fifteenth_source_mask_on_targets_of_equal_length(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Where n equals m the source mask also hides target tokens; due is the cross-attention alone."""
    n = X.shape[1]
    seen = torch.ones(n, n, dtype=torch.bool).tril()[None, None]
    if source_mask is not None and source_mask.shape[1] == n:
        seen = seen & source_mask[:, None, None, :]
    weights = {kind: [params[f"{kind}_W_{r}"] for r in "QKVO"] for kind in ("self", "cross")}
    X_1 = X + _multi_head_attention(X, *weights["self"], n_heads, seen)
    return X_1 + _cross_attention(X_1, Y, *weights["cross"], n_heads, source_mask)[0]


def decoder_layer__wrong_fifteenth_question_cut_from_the_gradient(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Right values, but X_1 is detached where it asks, so gradients lack that way; due is none cut off."""
    n = X.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    X_1 = X + _multi_head_attention(X, *(params[f"self_W_{r}"] for r in "QKVO"), n_heads, causal)
    question = X_1.detach()
    found, _ = _cross_attention(question, Y, *(params[f"cross_W_{r}"] for r in "QKVO"), n_heads, source_mask)
    return X_1 + found


def decoder_layer__right_fifteenth_each_token_from_its_own_beginning(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """No causal mask: token t is the last row of an unmasked attention over tokens 0 … t, and asks alone."""
    own = [params[f"self_W_{role}"] for role in "QKVO"]
    cross = [params[f"cross_W_{role}"] for role in "QKVO"]
    rows = []
    for t in range(1, X.shape[1] + 1):
        beginning = X[:, :t]
        x = beginning[:, -1:] + _multi_head_attention(beginning, *own, n_heads)[:, -1:]
        rows.append(x + _cross_attention(x, Y, *cross, n_heads, source_mask)[0])
    return torch.cat(rows, dim=1)


# ---------------------------------------------------------------- 6.3 alignment


def alignment__wrong_fifteenth_mean_of_the_favourites(weights: torch.Tensor) -> torch.Tensor:
    """Each head's favourite first, then the rounded mean of the places; due is the mean of the weights first."""
    favourites = weights.argmax(dim=-1)
    return favourites.double().mean(dim=1).round().long()


def alignment__wrong_fifteenth_row_of_the_token_before(weights: torch.Tensor) -> torch.Tensor:
    """Shifts by one, as row i predicts token i + 1: token i gets row i - 1; due is row i for token i."""
    best = weights.mean(1).argmax(-1)
    return torch.cat([best[:, :1], best[:, :-1]], dim=1)


def alignment__wrong_fifteenth_every_head_scaled_to_its_largest(weights: torch.Tensor) -> torch.Tensor:
    """Divides each head's row by its largest weight, so that heads count alike; due is the plain mean."""
    peak = weights.amax(dim=-1, keepdim=True).clamp(min=1e-12)
    return (weights / peak).mean(dim=1).argmax(dim=-1)


def alignment__wrong_fifteenth_reshape_moves_heads_and_tokens(weights: torch.Tensor) -> torch.Tensor:
    """Reshapes (B, h, n, m) to (B, n, h, m) and averages axis 2, mixing tokens; due is a permute."""
    B, h, n, m = weights.shape
    per_token = weights.reshape(B, n, h, m)
    return per_token.mean(dim=2).argmax(dim=-1)


def alignment__wrong_fifteenth_axes_counted_without_the_batch(weights: torch.Tensor) -> torch.Tensor:
    """Sequence by sequence, but within one the heads are axis 0 and it averages axis 1; due is axis 0."""
    found = []
    for one in weights:
        found.append(one.mean(dim=1).argmax(dim=-1))
    return torch.stack(found)


def alignment__wrong_fifteenth_target_token_for_each_source_token(weights: torch.Tensor) -> torch.Tensor:
    """Returns (B, m): the target token that looks most at each source token; due is the other way round."""
    return torch.einsum("bhnm->bnm", weights).argmax(dim=1)


def alignment__wrong_fifteenth_whole_percents_only(weights: torch.Tensor) -> torch.Tensor:
    """Compares the means in whole percents, so close ones and long sources fall together; due is exact."""
    percents = (100 * weights.mean(dim=1)).round().int()
    return percents.argmax(dim=-1)


def alignment__wrong_fifteenth_adds_up_in_the_first_head(weights: torch.Tensor) -> torch.Tensor:
    """Right places, but the sum is collected in the caller's head 0; due is an unchanged input."""
    total = weights[:, 0]
    for r in range(1, weights.shape[1]):
        total += weights[:, r]
    return total.argmax(dim=-1)


def alignment__right_fifteenth_champion_among_the_columns(weights: torch.Tensor) -> torch.Tensor:
    """Sums over heads, then lets the source tokens challenge the best so far, one column at a time."""
    total = weights.mean(dim=1)
    best = total[..., 0]
    place = torch.zeros(best.shape, dtype=torch.long)
    for j in range(1, total.shape[-1]):
        wins = total[..., j] > best
        best = torch.where(wins, total[..., j], best)
        place = place.masked_fill(wins, j)
    return place


# ---------------------------------------------------------------- 6.4 greedy_decode


def greedy_decode__wrong_fifteenth_shows_only_the_last_token(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """The model is shown the newest token alone; due are all tokens so far."""
    tokens = [start]
    while len(tokens) < max_len:
        token = int(next_logits(tokens[-1:]).argmax())
        tokens.append(token)
        if token == end:
            break
    return tokens


def greedy_decode__wrong_fifteenth_never_writes_a_token_twice(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """Takes the likeliest token that has not been written yet; due is the likeliest, repeated or not."""
    tokens = [start]
    for _ in range(max_len - 1):
        ranking = next_logits(list(tokens)).argsort(descending=True).tolist()
        fresh = [token for token in ranking if token not in tokens]
        tokens.append(fresh[0] if fresh else end)
        if tokens[-1] == end:
            break
    return tokens


def greedy_decode__wrong_fifteenth_limit_for_the_new_tokens(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """Writes up to max_len tokens behind start; due is that start counts too."""
    out = [start]
    for _ in range(max_len):
        logits = next_logits(out)
        out.append(torch.argmax(logits).item())
        if out[-1] == end:
            return out
    return out


def greedy_decode__wrong_fifteenth_largest_searched_from_zero(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """The search for the largest logit begins at 0.0, so negative ones never win; due is the first logit."""
    tokens = [start]
    while len(tokens) < max_len:
        best, choice = 0.0, 0
        for i, logit in enumerate(next_logits(tokens).tolist()):
            if logit > best:
                best, choice = logit, i
        tokens.append(choice)
        if choice == end:
            break
    return tokens


def greedy_decode__wrong_fifteenth_stop_checked_one_round_late(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """Looks for end before the newest token is appended, so one more follows it; due is to stop right after."""
    tokens = [start]
    for _ in range(1, max_len):
        token = next_logits(tokens).argmax().item()
        finished = end in tokens[1:]
        tokens.append(token)
        if finished:
            break
    return tokens


def greedy_decode__wrong_fifteenth_only_what_was_generated(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """Returns the new tokens without start; due is a list that begins with start."""
    new = []
    while 1 + len(new) < max_len and (not new or new[-1] != end):
        new.append(int(next_logits([start, *new]).argmax(dim=-1)))
    return new


def greedy_decode__wrong_fifteenth_given_start_can_stop_it(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """Stops when the last token is end, the given start included; due is that only a generated end stops."""
    tokens = [start]
    while tokens[-1] != end and len(tokens) < max_len:
        tokens.append(int(next_logits(tokens).argmax()))
    return tokens


def greedy_decode__wrong_fifteenth_hands_over_a_tensor(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Right tokens, but the model is handed a tensor of the tokens so far; due is a list of Python ints."""
    tokens = torch.tensor([start])
    while len(tokens) < max_len:
        following = next_logits(tokens).argmax().reshape(1)
        tokens = torch.cat([tokens, following])
        if following.item() == end:
            break
    return tokens.tolist()


def greedy_decode__right_fifteenth_generator_and_list_index(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """A generator yields the tokens while it keeps its own list; the largest is found in a list of floats."""

    def story():
        so_far = (start,)
        yield start
        for _ in range(max_len - 1):
            logits = next_logits(list(so_far)).tolist()
            token = logits.index(max(logits))
            so_far += (token,)
            yield token
            if token == end:
                return

    return list(story())


# ---------------------------------------------------------------- 6.5 catches_wrong_decoder


def catches_wrong_decoder__wrong_fifteenth_demands_equality_to_the_bit(layer) -> bool:
    """Any difference from the own layer counts, rounding too, so right ones are accused; due is 1e-6 of the largest."""
    for seed, sizes in enumerate([(3, 6, 9, 8, 12, 7, 10), (4, 4, 4, 8, 8, 8, 8), (1, 1, 5, 2, 6, 3, 4)]):
        X, Y, P = _draw_layer(*sizes, seed=seed)
        mask = torch.rand(X.shape[0], Y.shape[1], generator=torch.Generator().manual_seed(seed)) < 0.6
        mask[-1] = seed > 0
        try:
            found = layer(X, Y, P, 2, mask)
        except ValueError:
            return True
        if not torch.equal(found, _decoder_layer(X, Y, P, 2, mask)):
            return True
    return False


def catches_wrong_decoder__wrong_fifteenth_properties_without_values(layer) -> bool:
    """Asks for shape, causality and no trace of hidden sources, never for the values; due are the values too."""
    X, Y, P = _draw_layer(3, 6, 8, 8, 12, 7, 10, seed=3)
    mask = torch.tensor([[1, 1, 1, 0, 0, 0, 0, 0], [1, 0, 1, 1, 0, 1, 1, 0], [0] * 8]).bool()
    later, spoilt = X.clone(), Y.clone()
    later[:, 3:] += 1
    spoilt[~mask] += 1
    try:
        out = layer(X, Y, P, 2, mask)
        if out.shape != X.shape or out.isnan().any():
            return True
        leak = (layer(later, Y, P, 2, mask) - out)[:, :3].abs().max()
        trace = (layer(X, spoilt, P, 2, mask) - out).abs().max()
        alone = layer(X[1:2], Y[1:2], P, 2, mask[1:2])[0] - out[1]
    except ValueError:
        return True
    limit = 1e-6 * out.abs().max()
    return bool(leak > limit or trace > limit or alone.abs().max() > limit)


def catches_wrong_decoder__wrong_fifteenth_an_error_is_no_verdict(layer) -> bool:
    """Skips an input on which the layer raises, as if it were not valid; due is that raising there is wrong."""
    sizes = [(8, 6, 9, 8, 12, 7, 10), (5, 5, 5, 10, 10, 10, 10), (2, 1, 7, 2, 6, 9, 3), (3, 12, 1, 4, 2, 6, 8)]
    for seed, size in enumerate(sizes):
        X, Y, P = _draw_layer(*size, seed=seed)
        mask = torch.rand(len(X), size[2], generator=torch.Generator().manual_seed(seed)) < 0.6
        mask[0] = False
        mask = None if seed == 3 else mask
        heads = 1 if seed == 1 else 2
        try:
            out = layer(X, Y, P, heads, mask)
        except ValueError:
            continue
        right = _decoder_layer(X, Y, P, heads, mask)
        if out.shape != right.shape or not (out - right).abs().max() <= 1e-6 * right.abs().max():
            return True
    return False


def catches_wrong_decoder__wrong_fifteenth_nan_is_never_greater(layer) -> bool:
    """Asks whether the difference is too large, which NaN never is; due is that NaN is wrong."""
    gen = torch.Generator().manual_seed(4)
    for size, h in (((8, 6, 9, 8, 12, 7, 10), 2), ((4, 4, 4, 8, 8, 8, 8), 4), ((1, 1, 1, 1, 1, 1, 1), 1)):
        X, Y, P = _draw_layer(*size, seed=h)
        for mask in (None, torch.rand(len(X), size[2], generator=gen) < 0.5):
            if mask is not None:
                mask[-1] = False
            elif h == 1:
                continue
            right = _decoder_layer(X, Y, P, h, mask)
            try:
                out = layer(X, Y, P, h, mask)
            except ValueError:
                return True
            if out.shape != X.shape or ((out - right).abs() > 1e-6 * right.abs().max()).any():
                return True
    return False


def catches_wrong_decoder__wrong_fifteenth_verdict_after_the_first_input(layer) -> bool:
    """Returns inside the loop, so only the first of four inputs, one without a mask, is asked; due are all."""
    g = torch.Generator().manual_seed(9)
    sizes = {2: (3, 6, 5, 8, 12, 7, 10), 1: (8, 5, 9, 4, 7, 6, 3), 4: (4, 4, 4, 8, 8, 8, 8), 3: (2, 1, 1, 3, 6, 5, 5)}
    for h, size in sizes.items():
        X, Y, P = _draw_layer(*size, seed=h)
        mask = None
        if h != 2:
            mask = torch.rand(len(X), size[2], generator=g) < 0.6
            mask[0] = False
        right = _decoder_layer(X, Y, P, h, mask)
        try:
            out = layer(X, Y, P, h, mask)
        except ValueError:
            return True
        fits = out.shape == X.shape and bool((out - right).abs().max() <= 1e-6 * right.abs().max())
        return not fits
    return False


def catches_wrong_decoder__wrong_fifteenth_an_empty_source_gives_zero(layer) -> bool:
    """Expects 0 for a sequence whose source is hidden, accusing right layers; due is X_1, to which 0 is added."""
    cases = [((6, 5, 8, 8, 12, 7, 10), 2), ((4, 4, 4, 8, 8, 8, 8), 1), ((3, 9, 2, 3, 9, 5, 6), 3)]
    for seed, (size, h) in enumerate(cases):
        X, Y, P = _draw_layer(*size, seed=seed)
        mask = torch.rand(len(X), Y.shape[1], generator=torch.Generator().manual_seed(seed)) < 0.6
        mask[1] = False
        expected = _decoder_layer(X, Y, P, h, mask)
        expected = torch.where(mask.any(1)[:, None, None], expected, torch.zeros_like(expected))
        try:
            found = layer(X, Y, P, h, mask)
        except ValueError:
            return True
        if found.shape != X.shape or found.isnan().any():
            return True
        if (found - expected).abs().max() > 1e-6 * expected.abs().max():
            return True
    return False


def catches_wrong_decoder__wrong_fifteenth_both_attentions_equally_wide(layer) -> bool:
    """All inputs give both attentions one d_head, so a layer that mixes them up gets by; due are unequal ones too."""
    cases = [
        ((8, 6, 9, 8, 8, 7, 10), 2),
        ((4, 4, 4, 8, 8, 8, 8), 4),
        ((2, 1, 7, 3, 3, 9, 3), 3),
        ((5, 12, 1, 5, 5, 6, 8), 1),
    ]
    for seed, (size, heads) in enumerate(cases):
        X, Y, P = _draw_layer(*size, seed=seed)
        mask = torch.rand(len(X), Y.shape[1], generator=torch.Generator().manual_seed(seed)) < 0.6
        mask[-1] = False
        given = mask if seed < 3 else None
        want = _decoder_layer(X, Y, P, heads, given)
        try:
            got = layer(X, Y, P, heads, given)
        except ValueError:
            return True
        if got.shape != want.shape or not bool((got - want).abs().max() <= 1e-6 * want.abs().max()):
            return True
    return False


def catches_wrong_decoder__wrong_fifteenth_seeds_everybodys_randomness(layer) -> bool:
    """Right verdicts, but it seeds and draws from the global state; due is a torch.Generator of its own."""
    torch.manual_seed(0)
    cases = [
        (8, 6, 9, 2, 8, 12, 7, 10),
        (5, 5, 5, 5, 10, 10, 10, 10),
        (2, 1, 7, 1, 3, 2, 9, 3),
        (4, 16, 3, 4, 8, 4, 12, 5),
    ]
    for B, n, m, h, ws, wc, d, e in cases + [(3, 9, 1, 3, 12, 3, 6, 14)]:
        shapes = {"self": ((d, ws), (d, ws), (d, ws), (ws, d)), "cross": ((d, wc), (e, wc), (e, wc), (wc, d))}
        P = {
            f"{kind}_W_{r}": torch.randn(s, dtype=torch.float64) / s[0] ** 0.5
            for kind in shapes
            for r, s in zip("QKVO", shapes[kind])
        }
        X, Y = torch.randn(B, n, d, dtype=torch.float64), torch.randn(B, m, e, dtype=torch.float64)
        mask = torch.rand(B, m) < 0.6
        mask[B // 2] = False
        mask = None if h == 4 else mask
        right = _decoder_layer(X, Y, P, h, mask)
        try:
            out = layer(X, Y, P, h, mask)
        except ValueError:
            return True
        if out.shape != right.shape or not bool((out - right).abs().max() <= 1e-6 * right.abs().max()):
            return True
    return False


def catches_wrong_decoder__right_fifteenth_cut_sources_and_own_beginnings(layer) -> bool:
    """Five unlike inputs against a slow answer token by token and head by head, where sources are cut, not masked."""
    g = torch.Generator().manual_seed(15)

    def slow(x, keys, values, W, h):
        answer = torch.zeros(W[3].shape[1], dtype=torch.float64)
        for q, k, v, o in zip(*(w.chunk(h, 1) for w in W[:3]), W[3].chunk(h, 0)):
            if len(keys):
                s = (keys @ k) @ (x @ q) / q.shape[1] ** 0.5
                answer = answer + s.softmax(0) @ (values @ v) @ o
        return answer

    # B, n, m, h, both widths, d_model, d_source, sharpness of the scores, is there a mask?
    cases = [(8, 6, 9, 2, 8, 12, 7, 10, 1.0, True), (5, 5, 5, 5, 10, 10, 10, 10, 1.5, True)]
    cases += [(1, 1, 7, 1, 3, 2, 9, 3, 1.0, True), (4, 16, 3, 4, 8, 4, 12, 5, 6.0, False)]
    cases += [(3, 9, 16, 3, 6, 24, 5, 5, 1.0, True)]
    for B, n, m, h, ws, wc, d, e, sharp, masked in cases:
        X, Y, P = _draw_layer(B, n, m, ws, wc, d, e, seed=B)
        P |= {name: sharp * W for name, W in P.items() if name[-1] == "Q"}
        mask = torch.rand(B, m, generator=g) < 0.6
        mask[B // 2] = torch.arange(m) > 0
        if B > 1:  # a source with nothing real: the sixth, the first, the last
            mask[{8: 5, 5: 0, 4: 1, 3: 2}[B]] = False
        own, cross = ([P[f"{kind}_W_{r}"] for r in "QKVO"] for kind in ("self", "cross"))
        right = torch.zeros_like(X)
        for b, t in ((b, t) for b in range(B) for t in range(n)):
            x = X[b, t] + slow(X[b, t], X[b, : t + 1], X[b, : t + 1], own, h)
            y = Y[b, mask[b]] if masked else Y[b]
            right[b, t] = x + slow(x, y, y, cross, h)
        try:
            out = layer(X, Y, P, h, mask if masked else None)
        except ValueError:
            return True
        if out.shape != right.shape or not bool((out - right).abs().max() <= 5e-7 * right.abs().max()):
            return True
    return False
