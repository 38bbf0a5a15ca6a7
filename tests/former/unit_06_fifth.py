"""Answers to the exercises of unit 6, cross-attention, as students would hand them in."""

import math

import torch


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    batch, n, _ = X.shape
    Q, K, V = (
        (X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V)
    )
    scores = Q @ K.transpose(-1, -2) / math.sqrt(Q.shape[-1])
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        mask = mask.expand(batch, n_heads, n, n)
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(X.dtype).min), -1)
        weights = weights.masked_fill(~mask, 0.0)
    return (weights @ V).transpose(1, 2).reshape(batch, n, -1) @ W_O


def _cross_attention(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    B, n, _ = X.shape
    m = Y.shape[1]
    Q = (X @ W_Q).reshape(B, n, n_heads, -1).transpose(1, 2)
    K = (Y @ W_K).reshape(B, m, n_heads, -1).transpose(1, 2)
    V = (Y @ W_V).reshape(B, m, n_heads, -1).transpose(1, 2)
    scores = Q @ K.transpose(-1, -2) / math.sqrt(Q.shape[-1])
    if source_mask is not None:
        hidden = ~source_mask[:, None, None, :]
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    if source_mask is not None:
        weights = weights.masked_fill(hidden, 0.0)
    out = (weights @ V).transpose(1, 2).reshape(B, n, -1) @ W_O
    return out, weights


def _weights_of(params, kind):
    return [params[f"{kind}_W_{role}"] for role in ("Q", "K", "V", "O")]


def _decoder_layer(X, Y, params, n_heads, source_mask=None):
    n = X.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool, device=X.device).tril()
    X_1 = X + _multi_head_attention(X, *_weights_of(params, "self"), n_heads, causal)
    cross = _weights_of(params, "cross")
    return X_1 + _cross_attention(X_1, Y, *cross, n_heads, source_mask)[0]


def _drawn(seed, B, n, m, width_self, width_cross, d_model, d_source):
    """X, Y and params for a layer, float64, the weights scaled by their first size."""
    g = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    params = {}
    for kind, source, width in (
        ("self", d_model, width_self),
        ("cross", d_source, width_cross),
    ):
        params[f"{kind}_W_Q"] = normal(d_model, width) / d_model**0.5
        params[f"{kind}_W_K"] = normal(source, width) / source**0.5
        params[f"{kind}_W_V"] = normal(source, width) / source**0.5
        params[f"{kind}_W_O"] = normal(width, d_model) / width**0.5
    return normal(B, n, d_model), normal(B, m, d_source), params


# ---- cross_attention


def cross_attention__wrong_fifth_root_of_model_width(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Divides the scores by the root of d_model / n_heads, which is not the width of a head in general."""
    B, n, d_model = X.shape
    m = Y.shape[1]
    q = (X @ W_Q).view(B, n, n_heads, -1).permute(0, 2, 1, 3)
    k = (Y @ W_K).view(B, m, n_heads, -1).permute(0, 2, 1, 3)
    v = (Y @ W_V).view(B, m, n_heads, -1).permute(0, 2, 1, 3)
    scores = q @ k.mT / math.sqrt(d_model / n_heads)
    if source_mask is not None:
        scores = scores.masked_fill(~source_mask[:, None, None], -1e30)
    A = scores.softmax(-1)
    if source_mask is not None:
        A = A * source_mask[:, None, None].to(A.dtype)
    out = (A @ v).permute(0, 2, 1, 3).reshape(B, n, -1) @ W_O
    return out, A


def cross_attention__wrong_fifth_merged_without_swap(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Merges the heads by a reshape of (B, h, n, d_head) without swapping the axes back: tokens and heads get mixed up."""
    B, n, m = X.shape[0], X.shape[1], Y.shape[1]

    def split(T):
        return T.reshape(B, T.shape[1], n_heads, -1).transpose(1, 2)

    Q, K, V = split(X @ W_Q), split(Y @ W_K), split(Y @ W_V)
    S = torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5
    may = torch.ones(B, m, dtype=torch.bool) if source_mask is None else source_mask
    S = torch.where(may[:, None, None, :], S, torch.full_like(S, -1e30))
    A = torch.softmax(S, dim=-1)
    A = torch.where(may[:, None, None, :], A, torch.zeros_like(A))
    heads = A @ V
    return heads.reshape(B, n, -1) @ W_O, A


def cross_attention__wrong_fifth_masked_after_softmax(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Sets the weights of hidden tokens to 0 after the softmax and does not bring the rest to a sum of 1."""
    B, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads
    Q = torch.stack((X @ W_Q).split(d_head, dim=-1), dim=1)
    K = torch.stack((Y @ W_K).split(d_head, dim=-1), dim=1)
    V = torch.stack((Y @ W_V).split(d_head, dim=-1), dim=1)
    weights = torch.softmax(Q @ K.transpose(2, 3) / math.sqrt(d_head), dim=-1)
    if source_mask is not None:
        weights = weights * source_mask[:, None, None, :]
    merged = torch.cat((weights @ V).unbind(dim=1), dim=-1)
    return merged @ W_O, weights


def cross_attention__wrong_fifth_nothing_to_ask(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Fills hidden scores with a low number and leaves it at that: a source of padding alone gets even weights."""
    (B, n, _), m = X.shape, Y.shape[1]
    Q = (X @ W_Q).reshape(B, n, n_heads, -1).transpose(1, 2)
    K = (Y @ W_K).reshape(B, m, n_heads, -1).transpose(1, 2)
    V = (Y @ W_V).reshape(B, m, n_heads, -1).transpose(1, 2)
    scores = (Q @ K.transpose(-2, -1)) * Q.shape[-1] ** -0.5
    if source_mask is not None:
        lowest = torch.finfo(scores.dtype).min
        scores = scores.masked_fill(~source_mask.reshape(B, 1, 1, m), lowest)
    weights = scores.softmax(dim=-1)
    heads = (weights @ V).transpose(1, 2).flatten(2)
    return heads @ W_O, weights


def cross_attention__right_fifth_cut_out(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """One sequence and one head at a time: hidden source tokens are cut out, and the weights put back in their places."""
    (B, n, _), m = X.shape, Y.shape[1]
    d_head = W_Q.shape[1] // n_heads
    outs, maps = [], []
    for b in range(B):
        if source_mask is None:
            places = torch.arange(m, device=X.device)
        else:
            places = source_mask[b].nonzero().flatten()
        seen = Y[b].index_select(0, places)
        out, of_heads = X.new_zeros(n, W_O.shape[1]), []
        for r in range(n_heads):
            own = slice(r * d_head, (r + 1) * d_head)
            questions = X[b] @ W_Q[:, own] / math.sqrt(d_head)
            a = torch.softmax(questions @ (seen @ W_K[:, own]).T, dim=-1)
            out = out + a @ (seen @ W_V[:, own]) @ W_O[own]
            of_heads.append(X.new_zeros(n, m).index_copy(1, places, a))
        outs.append(out)
        maps.append(torch.stack(of_heads))
    return torch.stack(outs), torch.stack(maps)


# ---- decoder_layer


def decoder_layer__wrong_fifth_asks_with_input(X, Y, params, n_heads, source_mask=None):
    """The cross-attention asks with X, what came in, and not with X_1; the residual is X_1."""
    n = X.shape[1]
    causal = torch.tril(torch.ones(n, n, dtype=torch.bool))
    X_1 = X + _multi_head_attention(X, *_weights_of(params, "self"), n_heads, causal)
    asked, _ = _cross_attention(
        X, Y, *_weights_of(params, "cross"), n_heads, source_mask
    )
    return X_1 + asked


def decoder_layer__wrong_fifth_token_hides_itself(
    X, Y, params, n_heads, source_mask=None
):
    """Builds the causal mask with j < i, so that a token does not see itself and the first sees nothing."""
    places = torch.arange(X.shape[1])
    earlier = places[None, :] < places[:, None]
    written = _multi_head_attention(
        X,
        params["self_W_Q"],
        params["self_W_K"],
        params["self_W_V"],
        params["self_W_O"],
        n_heads,
        earlier,
    )
    X_1 = X + written
    cross = [params["cross_W_" + r] for r in "QKVO"]
    return X_1 + _cross_attention(X_1, Y, *cross, n_heads, source_mask)[0]


def decoder_layer__wrong_fifth_source_first(X, Y, params, n_heads, source_mask=None):
    """Runs the two sublayers in the other order: the source is read first, then the target."""
    n = X.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    read, _ = _cross_attention(
        X, Y, *_weights_of(params, "cross"), n_heads, source_mask
    )
    H = X + read
    return H + _multi_head_attention(H, *_weights_of(params, "self"), n_heads, causal)


def decoder_layer__wrong_fifth_causal_source_too(
    X, Y, params, n_heads, source_mask=None
):
    """Makes the cross-attention causal as well: target token t reads source tokens 0 … t alone."""
    n = X.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    X_1 = X + _multi_head_attention(X, *_weights_of(params, "self"), n_heads, causal)
    rows = []
    for t in range(n):
        part, allowed = Y[:, : t + 1], None
        if source_mask is not None:
            allowed = source_mask[:, : t + 1]
        row, _ = _cross_attention(
            X_1[:, t : t + 1], part, *_weights_of(params, "cross"), n_heads, allowed
        )
        rows.append(row)
    return X_1 + torch.cat(rows, dim=1)


def decoder_layer__right_fifth_token_by_token(X, Y, params, n_heads, source_mask=None):
    """Writes one token after another from what stands before it, head by head, so no causal mask is needed."""

    def look(question, asked, kind, allowed):  # (B, d_model), (B, l, width)
        total = 0 * question
        d_head = params[f"{kind}_W_Q"].shape[1] // n_heads
        for first in range(0, n_heads * d_head, d_head):
            own = slice(first, first + d_head)
            q = question @ params[f"{kind}_W_Q"][:, own]
            k = asked @ params[f"{kind}_W_K"][:, own]
            v = asked @ params[f"{kind}_W_V"][:, own]
            s = (k * q[:, None, :]).sum(-1) / math.sqrt(d_head)  # (B, l)
            if allowed is not None:
                s = s.masked_fill(~allowed, torch.finfo(s.dtype).min)
            a = torch.softmax(s, dim=-1)
            if allowed is not None:
                a = a.masked_fill(~allowed, 0.0)
            message = (a[:, :, None] * v).sum(1)
            total = total + message @ params[f"{kind}_W_O"][own]
        return total

    written = []
    for t in range(X.shape[1]):
        now = X[:, t] + look(X[:, t], X[:, : t + 1], "self", None)
        written.append(now + look(now, Y, "cross", source_mask))
    return torch.stack(written, dim=1)


# ---- alignment


def alignment__wrong_fifth_heads_vote(weights):
    """Every head votes for its favourite and the most frequent one wins, in place of the mean of the weights."""
    favourites = weights.argmax(dim=-1)  # (B, h, n)
    return torch.mode(favourites, dim=1).values


def alignment__wrong_fifth_largest_of_any_head(weights):
    """Takes the largest weight over the heads where their mean is due."""
    strongest = weights.amax(dim=1)
    return strongest.argmax(dim=-1)


def alignment__wrong_fifth_over_targets(weights):
    """Averages the heads and then looks for the largest along the target axis: (B, m)."""
    mean = weights.mean(1)
    return torch.argmax(mean, dim=1)


def alignment__wrong_fifth_first_head(weights):
    """Reads the map of head 0 alone, as if it stood for all the heads."""
    B, h, n, m = weights.shape
    result = torch.zeros(B, n, dtype=torch.long)
    for b in range(B):
        for i in range(n):
            result[b, i] = int(weights[b, 0, i].argmax())
    return result


# ---- greedy_decode


def greedy_decode__wrong_fifth_end_left_out(next_logits, start, end, max_len):
    """Looks for end before it appends, so a generated end is missing from the result."""
    tokens = [start]
    while len(tokens) < max_len:
        best = int(next_logits(tokens).argmax())
        if best == end:
            break
        tokens.append(best)
    return tokens


def greedy_decode__wrong_fifth_start_not_counted(next_logits, start, end, max_len):
    """Takes max_len for the number of generated tokens: the result may hold max_len + 1."""
    out = [start]
    for _ in range(max_len):
        out.append(torch.argmax(next_logits(out)).item())
        if out[-1] == end:
            return out
    return out


def greedy_decode__wrong_fifth_start_may_stop(next_logits, start, end, max_len):
    """Goes on while the last token is not end: where start and end are the same token nothing is written."""
    sequence = [start]
    while sequence[-1] != end and len(sequence) < max_len:
        logits = next_logits(sequence)
        sequence = sequence + [int(torch.argmax(logits))]
    return sequence


def greedy_decode__wrong_fifth_last_token_only(next_logits, start, end, max_len):
    """Shows the model the newest token alone, where it needs all tokens so far."""
    current, tokens = start, [start]
    for _ in range(max_len - 1):
        current = int(next_logits([current]).argmax(dim=-1))
        tokens.append(current)
        if current == end:
            break
    return tokens


def greedy_decode__right_fifth_plain_lists(next_logits, start, end, max_len):
    """Fills places 1 … max_len - 1 in turn, with the logits as a plain list and a copy of the tokens for the model."""
    tokens = [int(start)]
    for place in range(1, max_len):
        logits = next_logits(list(tokens)).tolist()
        favourite = logits.index(max(logits))
        tokens.insert(place, favourite)
        if favourite == end:
            break
    return tokens


# ---- catches_wrong_decoder


def catches_wrong_decoder__wrong_fifth_equal_to_the_bit(layer):
    """Asks for torch.equal with its own layer: a right layer that adds in another order is accused."""
    cases = [(1, 3, 6, 5, 8, 10, 7, 9, 2), (2, 2, 4, 7, 6, 6, 8, 5, 3)]
    for seed, B, n, m, w_self, w_cross, d_model, d_source, h in cases:
        X, Y, P = _drawn(seed, B, n, m, w_self, w_cross, d_model, d_source)
        mask = torch.ones(B, m, dtype=torch.bool)
        mask[0, 1] = False
        mask[-1] = False
        expected = _decoder_layer(X, Y, P, h, mask)
        try:
            got = layer(X, Y, P, h, mask)
        except ValueError:
            return True
        if not torch.equal(got, expected):
            return True
    return False


def catches_wrong_decoder__wrong_fifth_too_many_calls(layer):
    """Tries eight inputs, and takes the error of the box at call 6 for a bug: every box is accused."""
    for seed in range(8):
        B, n, m, h = 2, 3 + seed % 3, 7 - seed % 4, 1 + seed % 2
        X, Y, P = _drawn(seed, B, n, m, 4 * h, 3 * h, 6, 5)
        mask = (torch.arange(m) % 2 == seed % 2).expand(B, m).clone()
        wanted = _decoder_layer(X, Y, P, h, mask)
        try:
            result = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if result.shape != wanted.shape or result.isnan().any():
            return True
        if (result - wanted).abs().max() > 1e-6 * wanted.abs().max():
            return True
    return False


def catches_wrong_decoder__wrong_fifth_never_a_mask(layer):
    """Compares values on several sizes, and never hands over a source_mask: a layer that ignores it gets by."""
    sizes = [
        (3, 6, 5, 8, 10, 7, 9, 2),
        (1, 1, 4, 3, 3, 5, 5, 1),
        (2, 9, 3, 12, 8, 4, 6, 4),
        (4, 5, 5, 6, 6, 6, 6, 3),
    ]
    for number, (B, n, m, w_self, w_cross, d_model, d_source, h) in enumerate(sizes):
        X, Y, P = _drawn(50 + number, B, n, m, w_self, w_cross, d_model, d_source)
        right = _decoder_layer(X, Y, P, h)
        try:
            found = layer(X, Y, P, h)
        except Exception:
            return True
        if found.shape != X.shape or not torch.isfinite(found).all():
            return True
        if float((found - right).abs().max() / right.abs().max()) > 1e-6:
            return True
    return False


def catches_wrong_decoder__wrong_fifth_properties_alone(layer):
    """Checks shape, NaN, causality and the mask by nudging, and compares no number: a layer that returns X gets by."""
    X, Y, P = _drawn(7, 2, 5, 6, 8, 10, 7, 9)
    mask = torch.tensor([[1, 1, 0, 1, 0, 0], [0, 1, 1, 1, 1, 0]]).bool()
    try:
        base = layer(X, Y, P, 2, mask)
        later = X.clone()
        later[:, -1] += 1
        future = layer(later, Y, P, 2, mask)
        hidden = torch.where(mask[..., None], Y, Y + 1)
        padded = layer(X, hidden, P, 2, mask)
    except Exception:
        return True
    if base.shape != X.shape or base.isnan().any():
        return True
    leaks = (future - base)[:, :-1].abs().max() > 1e-9
    sees_padding = (padded - base).abs().max() > 1e-9
    return bool(leaks or sees_padding)


def catches_wrong_decoder__right_fifth_five_unlike_inputs(layer):
    """Compares with its own plain layer on five inputs that have as little in common as five can have."""

    def expected(X, Y, P, h, mask):
        def heads(x, y, kind, allowed):  # allowed: (B, n, m)
            total = torch.zeros_like(x)
            w = P[f"{kind}_W_Q"].shape[1] // h
            for r in range(h):
                own = slice(r * w, r * w + w)
                q, k, v = (
                    z @ P[f"{kind}_W_{name}"][:, own]
                    for z, name in ((x, "Q"), (y, "K"), (y, "V"))
                )
                s = (q @ k.mT / math.sqrt(w)).masked_fill(~allowed, -1e30)
                a = torch.softmax(s, dim=-1) * allowed
                total = total + a @ v @ P[f"{kind}_W_O"][own]
            return total

        B, n, m = X.shape[0], X.shape[1], Y.shape[1]
        causal = torch.ones(n, n, dtype=torch.bool).tril().expand(B, n, n)
        if mask is None:
            mask = torch.ones(B, m, dtype=torch.bool)
        X_1 = X + heads(X, X, "self", causal)
        return X_1 + heads(X_1, Y, "cross", mask[:, None, :].expand(B, n, m))

    g = torch.Generator().manual_seed(2024)

    def holes(B, m):
        mask = torch.rand(B, m, generator=g) < 0.6
        if B == 1:
            return torch.arange(m)[None] % 3 != 1
        mask[0] = False  # nothing at all
        mask[1] = True
        if B > 2:
            mask[2] = torch.arange(m) >= m // 2  # padding in front
        if B > 3:
            mask[3] = torch.arange(m) == m - 1  # the last alone
        if B > 4:
            mask[4] = torch.arange(m) <= m // 2  # padding at the end
        return mask

    cases = (  # seed, B, n, m, h, d_head self and cross, d_model, d_source, masked, loud
        (1, 8, 7, 12, 3, 4, 5, 9, 14, True, 1.0),
        (2, 6, 16, 16, 8, 5, 5, 40, 40, False, 1.0),
        (3, 7, 15, 4, 2, 6, 3, 12, 12, True, 1.7),
        (4, 1, 1, 9, 1, 7, 2, 5, 3, True, 1.0),
        (5, 8, 7, 12, 3, 4, 5, 9, 14, True, 1.7),
    )
    for seed, B, n, m, h, w_self, w_cross, d_model, d_source, masked, loud in cases:
        X, Y, P = _drawn(seed, B, n, m, h * w_self, h * w_cross, d_model, d_source)
        X, Y = loud * X, loud * Y
        mask = holes(B, m) if masked else None
        right = expected(X, Y, P, h, mask)
        handed = {name: W.clone() for name, W in P.items()}
        try:
            found = layer(
                X.clone(), Y.clone(), handed, h, None if mask is None else mask.clone()
            )
        except Exception:
            return True
        if not isinstance(found, torch.Tensor) or found.shape != X.shape:
            return True
        off = (found - right).abs().max()
        if not bool(off <= 1e-6 * right.abs().max()):  # NaN is not
            return True
    return False
