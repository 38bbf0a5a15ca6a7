"""Answers to the exercises of unit 6, cross-attention: wrong and right ones."""

import torch
import torch.nn.functional as F


def _cross_attention(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """A right cross_attention (exercise 6.1)."""
    B, n, _ = X.shape
    m = Y.shape[1]
    Q = (X @ W_Q).reshape(B, n, n_heads, -1).transpose(1, 2)
    K = (Y @ W_K).reshape(B, m, n_heads, -1).transpose(1, 2)
    V = (Y @ W_V).reshape(B, m, n_heads, -1).transpose(1, 2)
    scores = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
    if source_mask is not None:
        seen = source_mask[:, None, None, :]
        scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    if source_mask is not None:
        weights = weights.masked_fill(~seen, 0.0)
    out = (weights @ V).transpose(1, 2).reshape(B, n, -1) @ W_O
    return out, weights


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """What the notebook gives: multi-head self-attention, the mask broadcasts to (B, h, n, n)."""
    B, n, _ = X.shape
    Q, K, V = (
        (X @ W).reshape(B, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V)
    )
    scores = Q @ K.transpose(-1, -2) / Q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return (weights @ V).transpose(1, 2).reshape(B, n, -1) @ W_O


def _decoder_layer(X, Y, params, n_heads, source_mask=None):
    """A right decoder_layer (exercise 6.2)."""
    n = X.shape[1]
    past = torch.ones(n, n, dtype=torch.bool).tril()
    own = [params[f"self_W_{r}"] for r in "QKVO"]
    cross = [params[f"cross_W_{r}"] for r in "QKVO"]
    X_1 = X + _multi_head_attention(X, *own, n_heads, past)
    return X_1 + _cross_attention(X_1, Y, *cross, n_heads, source_mask)[0]


def _draw_layer(B, n, m, width_self, width_cross, d_model, d_source, seed=0):
    """What the notebook gives: X, Y and params of the given sizes, float64."""
    g = torch.Generator().manual_seed(seed)
    shapes = {"X": (B, n, d_model), "Y": (B, m, d_source)}
    for kind, width, d_in in (("self", width_self, d_model), ("cross", width_cross, d_source)):
        shapes[f"{kind}_W_Q"] = (d_model, width)
        shapes[f"{kind}_W_K"] = shapes[f"{kind}_W_V"] = (d_in, width)
        shapes[f"{kind}_W_O"] = (width, d_model)
    params = {
        name: torch.randn(shape, generator=g).double()
        * (shape[0] ** -0.5 if "W" in name else 1.0)
        for name, shape in shapes.items()
    }
    return params.pop("X"), params.pop("Y"), params


# ---------------------------------------------------------------- 6.1 cross_attention


def cross_attention__wrong_eighth_interleaved_heads(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reshapes to (B, tokens, d_head, h), so head k owns the columns k, k + h, k + 2h, … in place of a contiguous block."""
    B, n, _ = X.shape
    m, d_head = Y.shape[1], W_Q.shape[1] // n_heads
    Q = (X @ W_Q).reshape(B, n, d_head, n_heads)
    K = (Y @ W_K).reshape(B, m, d_head, n_heads)
    V = (Y @ W_V).reshape(B, m, d_head, n_heads)
    scores = torch.einsum("bndh,bmdh->bhnm", Q, K) / d_head**0.5
    if source_mask is None:
        weights = scores.softmax(-1)
    else:
        seen = source_mask[:, None, None]
        weights = scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-1)
        weights = weights * seen
    mixed = torch.einsum("bhnm,bmdh->bndh", weights, V)
    return mixed.reshape(B, n, d_head * n_heads) @ W_O, weights


def cross_attention__wrong_eighth_opens_the_callers_mask(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Against NaN, sets the rows of the caller's own mask that allow nothing to True, and never back: the mask is changed."""
    B, n = X.shape[:2]
    m = Y.shape[1]

    def heads(Z, W):
        return (Z @ W).view(B, Z.shape[1], n_heads, -1).permute(0, 2, 1, 3)

    Q, K, V = heads(X, W_Q), heads(Y, W_K), heads(Y, W_V)
    if source_mask is None:
        source_mask = torch.ones(B, m, dtype=torch.bool)
    nothing = ~source_mask.any(dim=1)  # (B,)
    source_mask[nothing] = True
    scores = Q.matmul(K.mT) / Q.shape[-1] ** 0.5
    scores = scores.masked_fill(~source_mask[:, None, None, :], float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    weights = weights.masked_fill(nothing[:, None, None, None], 0)
    out = weights.matmul(V).permute(0, 2, 1, 3).reshape(B, n, -1).matmul(W_O)
    return out, weights


def cross_attention__wrong_eighth_largest_score_of_the_batch(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Subtracts the largest score of the whole batch in place of that of each row: rows far below it get weights of 0."""
    d_head = W_Q.shape[1] // n_heads
    split = lambda T: T.unflatten(-1, (n_heads, d_head)).transpose(1, 2)
    q, k, v = split(X @ W_Q), split(Y @ W_K), split(Y @ W_V)
    logits = q @ k.transpose(2, 3) / d_head**0.5
    powers = torch.exp(logits - logits.detach().max())
    if source_mask is not None:
        powers = powers * source_mask[:, None, None, :]
    below = powers.sum(-1, keepdim=True)
    weights = powers / torch.where(below == 0, torch.ones_like(below), below)
    out = (weights @ v).transpose(1, 2).flatten(2) @ W_O
    return out, weights


def cross_attention__wrong_eighth_counts_the_mask(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Turns the mask into lengths, mask.sum(1), and lets the first so many tokens be seen: holes in the mask are misread."""
    batch, m = Y.shape[:2]
    width = W_Q.shape[1] // n_heads
    if source_mask is None:
        lengths = [m] * batch
    else:
        lengths = source_mask.sum(dim=1).tolist()
    outs, maps = [], []
    for b in range(batch):
        length = lengths[b]
        Y_real = Y[b, :length]
        Q, K, V = X[b] @ W_Q, Y_real @ W_K, Y_real @ W_V
        rows, heads = [], []
        for k in range(n_heads):
            own = slice(k * width, (k + 1) * width)
            A = torch.softmax(Q[:, own] @ K[:, own].T / width**0.5, dim=-1)
            heads.append(A @ V[:, own])
            rows.append(F.pad(A, (0, m - length)))
        outs.append(torch.cat(heads, dim=-1) @ W_O)
        maps.append(torch.stack(rows))
    return torch.stack(outs), torch.stack(maps)


def cross_attention__right_eighth_head_by_head_folded_values(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Head by head: the values are multiplied by the head's rows of W_O before they are mixed, and the heads are summed."""
    B, m = Y.shape[:2]
    if source_mask is None:
        source_mask = torch.ones(B, m, dtype=torch.bool, device=Y.device)
    seen = source_mask.unsqueeze(1)  # (B, 1, m)
    out, maps = torch.zeros_like(X), []
    for q, k, v, o in zip(
        W_Q.chunk(n_heads, 1),
        W_K.chunk(n_heads, 1),
        W_V.chunk(n_heads, 1),
        W_O.chunk(n_heads, 0),
        strict=True,
    ):
        scores = torch.einsum("bnd,bmd->bnm", X @ q, Y @ k) / q.shape[1] ** 0.5
        low = torch.full_like(scores, torch.finfo(scores.dtype).min)
        top = torch.where(seen, scores, low).amax(dim=-1, keepdim=True).detach()
        gap = torch.where(seen, scores - top, torch.zeros_like(scores))
        powers = torch.where(seen, gap.exp(), torch.zeros_like(gap))
        total = powers.sum(dim=-1, keepdim=True)
        A = powers / torch.where(total > 0, total, torch.ones_like(total))
        maps.append(A)
        out = out + A @ (Y @ v @ o)
    return out, torch.stack(maps, dim=1)


# ---------------------------------------------------------------- 6.2 decoder_layer


def decoder_layer__wrong_eighth_source_mask_in_self_attention(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Where the source is as long as the target, lays the source mask over the self-attention too, on top of the causal one."""
    n, m = X.shape[1], Y.shape[1]
    causal = torch.tril(torch.ones(n, n, dtype=torch.bool))
    if source_mask is not None and n == m:
        causal = causal & source_mask[:, None, None, :]
    W = params
    X_1 = X + _multi_head_attention(
        X, W["self_W_Q"], W["self_W_K"], W["self_W_V"], W["self_W_O"], n_heads, causal
    )
    read, _ = _cross_attention(
        X_1, Y, W["cross_W_Q"], W["cross_W_K"], W["cross_W_V"], W["cross_W_O"], n_heads, source_mask
    )
    return X_1 + read


def decoder_layer__wrong_eighth_pops_the_params(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Takes the weights out of the caller's dictionary with params.pop, so that it is empty after the first call."""
    self_weights = [params.pop(f"self_W_{role}") for role in ("Q", "K", "V", "O")]
    cross_weights = [params.pop(f"cross_W_{role}") for role in ("Q", "K", "V", "O")]
    place = torch.arange(X.size(1))
    allowed = place[:, None] >= place[None, :]
    hidden = X + _multi_head_attention(X, *self_weights, n_heads, mask=allowed)
    answer = _cross_attention(hidden, Y, *cross_weights, n_heads, source_mask)
    return hidden + answer[0]


def decoder_layer__wrong_eighth_post_norm(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Adds the layer norm of Vaswani et al. behind each sum, LayerNorm(x + Sublayer(x)), which this layer does not have."""
    d_model = X.shape[-1]
    look_back = torch.ones(X.shape[1], X.shape[1]).tril().bool()
    weights = {kind: [params[f"{kind}_W_{r}"] for r in "QKVO"] for kind in ("self", "cross")}
    X_1 = X + _multi_head_attention(X, *weights["self"], n_heads, look_back)
    X_1 = F.layer_norm(X_1, (d_model,))
    X_2 = X_1 + _cross_attention(X_1, Y, *weights["cross"], n_heads, source_mask)[0]
    return F.layer_norm(X_2, (d_model,))


def decoder_layer__wrong_eighth_empty_source_returns_X(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Hands X through unchanged where the mask allows nothing of the source: there the self-attention is lost too."""

    def weights_of(kind):
        return tuple(params[kind + "_W_" + letter] for letter in "QKVO")

    n = X.shape[1]
    triangle = ~torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
    X_1 = X + _multi_head_attention(X, *weights_of("self"), n_heads, triangle)
    X_2 = X_1 + _cross_attention(X_1, Y, *weights_of("cross"), n_heads, source_mask)[0]
    if source_mask is None:
        return X_2
    has_source = source_mask.any(dim=1)[:, None, None]
    return torch.where(has_source, X_2, X)


def decoder_layer__right_eighth_token_by_token(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Makes the target one token after another: token t asks the tokens 0 … t, cut out, and then the source; no causal mask."""
    own = [params[f"self_W_{r}"] for r in "QKVO"]
    cross = [params[f"cross_W_{r}"] for r in "QKVO"]
    made = []
    for t in range(X.shape[1]):
        token, so_far = X[:, t : t + 1], X[:, : t + 1]
        token = token + _cross_attention(token, so_far, *own, n_heads)[0]
        token = token + _cross_attention(token, Y, *cross, n_heads, source_mask)[0]
        made.append(token)
    return torch.cat(made, dim=1)


# ---------------------------------------------------------------- 6.3 alignment


def alignment__wrong_eighth_shifted_by_one(weights: torch.Tensor) -> torch.Tensor:
    """Moves the rows down by one, since row i predicts token i + 1: token i gets the source token of row i - 1."""
    best = weights.mean(dim=1).argmax(dim=-1)  # (B, n)
    first = best[:, :1]
    return torch.cat([first, best[:, :-1]], dim=1)


def alignment__wrong_eighth_rounded_first(weights: torch.Tensor) -> torch.Tensor:
    """Rounds the mean weights to two decimals, as they are printed, before it looks for the largest: near ones become ties."""
    mean = weights.mean(1)
    mean = (mean * 100).round() / 100
    return torch.argmax(mean, dim=2)


def alignment__wrong_eighth_mean_position(weights: torch.Tensor) -> torch.Tensor:
    """Takes the mean position, sum of j times weight, rounded, in place of the position of the largest mean weight."""
    m = weights.shape[-1]
    j = torch.arange(m, dtype=weights.dtype)
    per_head = (weights * j).sum(dim=-1)  # (B, h, n)
    return per_head.mean(dim=1).round().long().clamp(0, m - 1)


def alignment__wrong_eighth_each_source_token_once(weights: torch.Tensor) -> torch.Tensor:
    """Gives away each source token only once: one that an earlier target token has taken is struck out for the later ones."""
    mean = weights.mean(dim=1)
    B, n, m = mean.shape
    taken = torch.zeros(B, m, dtype=torch.bool)
    found = torch.zeros(B, n, dtype=torch.long)
    for i in range(n):
        row = mean[:, i].masked_fill(taken, -1.0)
        found[:, i] = row.argmax(dim=-1)
        taken[torch.arange(B), found[:, i]] = True
    return found


def alignment__right_eighth_running_best(weights: torch.Tensor) -> torch.Tensor:
    """Averages the heads, then goes through the source tokens and keeps the best so far and its place; no argmax."""
    mean = weights.mean(dim=1)  # (B, n, m)
    best = mean[..., 0]
    place = torch.zeros(best.shape, dtype=torch.long, device=weights.device)
    for j in range(1, mean.shape[-1]):
        better = mean[..., j] > best
        best = torch.where(better, mean[..., j], best)
        place = torch.where(better, torch.full_like(place, j), place)
    return place


# ---------------------------------------------------------------- 6.4 greedy_decode


def greedy_decode__wrong_eighth_cut_afterwards(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """Writes max_len tokens and then cuts behind the first end in the list, which is the start itself where start == end."""
    tokens = [start]
    for _ in range(max_len - 1):
        tokens.append(int(torch.argmax(next_logits(tokens))))
    if end in tokens:
        tokens = tokens[: tokens.index(end) + 1]
    return tokens


def greedy_decode__wrong_eighth_limit_asked_too_late(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """Asks for the limit only after a token was appended, so that max_len = 1 gives two tokens."""
    tokens = [start]
    while True:
        scores = next_logits(list(tokens))
        token = scores.argmax(dim=-1).item()
        tokens.append(token)
        if token == end or len(tokens) >= max_len:
            break
    return tokens


def greedy_decode__wrong_eighth_never_writes_token_0(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """Takes token 0 for <pad> and never lets it win: the largest is looked for among logits[1:] alone."""
    out = [start]
    finished = False
    while len(out) < max_len and not finished:
        logits = next_logits(out.copy())
        token = 1 + int(logits[1:].argmax())
        out.append(token)
        finished = token == end
    return out


def greedy_decode__wrong_eighth_forces_end_at_the_limit(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """Where max_len is reached without an end, writes end over the last generated token, so that every result is finished."""
    sequence = [int(start)]
    for _ in range(1, max_len):
        _, winner = next_logits(sequence[:]).max(dim=0)
        sequence.append(winner.item())
        if sequence[-1] == end:
            return sequence
    if len(sequence) > 1:
        sequence[-1] = int(end)
    return sequence


def greedy_decode__right_eighth_generator(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """An inner generator yields the new tokens, each found by Python's max over the list of logits; the model gets a copy."""

    def written():
        so_far = [int(start)]
        yield so_far[0]
        while len(so_far) < max_len:
            logits = next_logits(so_far[:]).tolist()
            token = max(range(len(logits)), key=logits.__getitem__)
            so_far.append(token)
            yield token
            if token == end:
                return

    return list(written())


# ---------------------------------------------------------------- 6.5 catches_wrong_decoder


def catches_wrong_decoder__wrong_eighth_nan_compares_false(layer) -> bool:
    """Asks whether the largest difference is greater than the tolerance: with NaN in the answer it is not, and NaN gets by."""
    cases = [  # B, n, m, width_self, width_cross, d_model, d_source, h
        (4, 6, 16, 24, 16, 7, 10, 8),
        (3, 16, 5, 12, 12, 9, 4, 3),
        (4, 4, 4, 8, 8, 8, 8, 4),
        (1, 1, 6, 3, 5, 4, 6, 1),
        (5, 8, 1, 6, 10, 5, 3, 2),
    ]
    for number, (B, n, m, w_self, w_cross, d_model, d_source, h) in enumerate(cases):
        X, Y, P = _draw_layer(B, n, m, w_self, w_cross, d_model, d_source, seed=number)
        g = torch.Generator().manual_seed(100 + number)
        mask = torch.rand(B, m, generator=g) < 0.6
        if B > 1:
            mask[1] = False
        mask = None if number in (1, 3) else mask
        try:
            out = layer(X, Y, P, h, mask)
        except Exception:
            return True
        right = _decoder_layer(X, Y, P, h, mask)
        if out.shape != right.shape:
            return True
        if (out - right).abs().max().item() > 1e-6 * right.abs().max().item():
            return True
    return False


def catches_wrong_decoder__wrong_eighth_a_sixth_call(layer) -> bool:
    """Asks six times though a box answers five calls, and takes the refusal of the sixth for a bug: right layers are accused."""
    sizes = {
        "all differ": (3, 6, 9, 8, 10, 7, 5, 2),
        "more heads": (2, 9, 6, 20, 25, 6, 11, 5),
        "all equal": (4, 4, 4, 4, 4, 4, 4, 4),
        "one token asks": (2, 1, 7, 6, 9, 5, 8, 3),
        "one token is asked": (3, 5, 1, 4, 2, 8, 6, 2),
        "one sequence": (1, 8, 8, 12, 6, 9, 9, 1),
    }
    wrong = False
    for name, (*shape, heads) in sizes.items():
        X, Y, params = _draw_layer(*shape, seed=len(name))
        mask = torch.rand(shape[0], shape[2], generator=torch.Generator().manual_seed(5)) < 0.7
        mask[-1] &= name != "all differ"
        expected = _decoder_layer(X, Y, params, heads, mask)
        try:
            got = layer(X, Y, params, heads, mask)
            fine = got.shape == X.shape and bool(
                ((got - expected).abs() <= 1e-6 * expected.abs().max()).all()
            )
        except ValueError:
            fine = False
        wrong = wrong or not fine
    return wrong


def catches_wrong_decoder__wrong_eighth_looks_at_the_last_token(layer) -> bool:
    """Compares the output of the last target token alone, the one that predicts: what is wrong in the rows before is not seen."""
    plans = [
        ((3, 6, 16, 8, 10, 7, 5), 2, "holes"),
        ((2, 16, 8, 12, 12, 6, 6), 3, None),
        ((4, 4, 4, 4, 8, 8, 8), 4, "holes"),
        ((1, 1, 3, 5, 7, 4, 9), 1, "empty"),
        ((5, 9, 1, 8, 16, 9, 4), 8, None),
    ]
    for at, (shape, h, kind) in enumerate(plans):
        X, Y, P = _draw_layer(*shape, seed=40 + at)
        B, m = shape[0], shape[2]
        mask = None
        if kind:
            mask = (torch.arange(B)[:, None] + torch.arange(m)) % 3 != 0
        if kind == "empty" or kind == "holes" and at == 0:
            mask[B // 2] = False
        want = _decoder_layer(X, Y, P, h, mask)
        try:
            got = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if got.shape != want.shape:
            return True
        gap = (got[:, -1] - want[:, -1]).abs().max()
        if not gap <= 1e-6 * want.abs().max():
            return True
    return False


def catches_wrong_decoder__wrong_eighth_only_who_moves_whom(layer) -> bool:
    """Checks only shape, NaN and who can move whom (future, hidden source, other sequences), never a number: wrong scales and a lost self-attention get by."""
    X, Y, P = _draw_layer(3, 6, 8, 8, 10, 7, 9, seed=21)
    mask = torch.tensor(
        [[1, 0, 1, 1, 0, 1, 0, 0], [0] * 8, [0, 1, 1, 0, 1, 1, 1, 1]], dtype=torch.bool
    )
    try:
        out = layer(X, Y, P, 2, mask)
        if out.shape != X.shape or not out.isfinite().all():
            return True
        size = 1e-6 * out.abs().max()

        later = X.clone()  # the future of the target must not act on its past
        later[:, 3:] = later[:, 3:].flip(0) + 0.5
        if ((layer(later, Y, P, 2, mask) - out)[:, :3].abs() > size).any():
            return True

        noise = torch.where(mask[..., None], Y, Y.flip(1) - 1.5)  # nor hidden tokens
        if ((layer(X, noise, P, 2, mask) - out).abs() > size).any():
            return True

        other_X, other_Y = X.clone(), Y.clone()  # nor another sequence
        other_X[0], other_Y[0] = X[2] * 2, Y[1] - 1
        if ((layer(other_X, other_Y, P, 2, mask) - out)[1:].abs() > size).any():
            return True

        seen = Y.clone()  # but the real source must act on everybody
        seen[:, 5] += 1
        moved = (layer(X, seen, P, 2, mask) - out).abs().amax(-1)
        return bool((moved[[0, 2]] <= size).any())
    except ValueError:
        return True


def catches_wrong_decoder__right_eighth_five_varied_questions(layer) -> bool:
    """Computes what is right head by head and sequence by sequence, with hidden tokens cut out, and compares all entries in five calls: large, small, equal and unequal sizes, all sorts of masks."""

    def look(x, y, W, h, causal):
        """One sequence: x (n, d) asks y, what may not be seen is cut out."""
        d_head = W[0].shape[1] // h
        rows = []
        for i in range(len(x)):
            given = y[: i + 1] if causal else y
            found = torch.zeros(W[3].shape[1], dtype=x.dtype)
            for k in range(0, h * d_head, d_head) if len(given) else ():
                q, keys, values = (
                    z @ w[:, k : k + d_head]
                    for z, w in zip((x[i], given, given), W[:3], strict=True)
                )
                a = torch.softmax(keys @ q / d_head**0.5, dim=0)
                found = found + a @ values @ W[3][k : k + d_head]
            rows.append(found)
        return torch.stack(rows)

    def expected(X, Y, P, h, mask):
        own, cross = ([P[f"{kind}_W_{r}"] for r in "QKVO"] for kind in ("self", "cross"))
        results = []
        for b in range(len(X)):
            x_1 = X[b] + look(X[b], X[b], own, h, True)
            y = Y[b] if mask is None else Y[b][mask[b]]
            results.append(x_1 + look(x_1, y, cross, h, False))
        return torch.stack(results)

    g = torch.Generator().manual_seed(2024)

    def normal(*shape):
        return torch.randn(shape, generator=g, dtype=torch.float64)

    def question(B, n, m, h, head_self, head_cross, d_model, d_source, sharp, masked):
        X, Y, P = normal(B, n, d_model), normal(B, m, d_source), {}
        for kind, head, d in (("self", head_self, d_model), ("cross", head_cross, d_source)):
            P[f"{kind}_W_Q"] = sharp * normal(d_model, h * head) / d_model**0.5
            P[f"{kind}_W_K"] = normal(d, h * head) / d**0.5
            P[f"{kind}_W_V"] = normal(d, h * head) / d**0.5
            P[f"{kind}_W_O"] = normal(h * head, d_model) / (h * head) ** 0.5
        mask = None
        if masked == "mixed":  # holes, nothing, all, first hidden, last alone
            mask = torch.rand(B, m, generator=g) < 0.6
            mask[:, 0] = torch.arange(B) % 2 == 0
            for b, row in ((1, False), (2, True), (3, torch.arange(m) == m - 1)):
                if b < B:
                    mask[b] = row
        elif masked == "none seen":
            mask = torch.zeros(B, m, dtype=torch.bool)
        return X, Y, P, h, mask

    for question_of in (
        (6, 16, 13, 8, 3, 5, 11, 7, 2.0, "mixed"),
        (5, 5, 5, 5, 1, 1, 5, 5, 1.5, "mixed"),
        (2, 6, 16, 3, 4, 4, 13, 20, 3.0, None),
        (4, 9, 12, 1, 6, 2, 4, 9, 1.0, "mixed"),
        (1, 1, 1, 2, 2, 3, 1, 1, 1.0, "none seen"),
    ):
        X, Y, P, h, mask = question(*question_of)
        want = expected(X, Y, P, h, mask)
        try:
            got = layer(
                X.clone(),
                Y.clone(),
                {name: W.clone() for name, W in P.items()},
                h,
                None if mask is None else mask.clone(),
            )
        except Exception:
            return True
        if not isinstance(got, torch.Tensor) or got.shape != X.shape:
            return True
        if not bool(((got - want).abs() <= 1e-6 * want.abs().max()).all()):
            return True
    return False
