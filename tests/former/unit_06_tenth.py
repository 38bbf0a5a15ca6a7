"""Answers to the exercises of unit 6, cross-attention: wrong ones and right ones."""

import itertools
import math

import torch


def _attend(X, Y, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Attention of X to Y; mask: booleans that broadcast to (B, h, n, m), a row with no True gives 0."""
    Q, K, V = (
        (S @ W).reshape(S.shape[0], S.shape[1], n_heads, -1).transpose(1, 2) for S, W in ((X, W_Q), (Y, W_K), (Y, W_V))
    )
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is None:
        A = torch.softmax(scores, dim=-1)
    else:
        A = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1) * mask
    return (A @ V).transpose(1, 2).flatten(2) @ W_O, A


def _weights_of(params, kind):
    return [params[f"{kind}_W_{role}"] for role in "QKVO"]


def _causal(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


def _decoder(X, Y, params, n_heads, source_mask=None):
    """A decoder layer to compare with."""
    X_1 = X + _attend(X, X, *_weights_of(params, "self"), n_heads, _causal(X.shape[1]))[0]
    seen = None if source_mask is None else source_mask[:, None, None, :]
    return X_1 + _attend(X_1, Y, *_weights_of(params, "cross"), n_heads, seen)[0]


def _normal(generator, *shape):
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _drawn(generator, B, n, m, h, d_self, d_cross, d_model, d_source):
    """Random X, Y and params of a decoder layer."""
    params = {}
    for kind, d_head, d_in in (("self", d_self, d_model), ("cross", d_cross, d_source)):
        params[f"{kind}_W_Q"] = _normal(generator, d_model, h * d_head) / d_model**0.5
        params[f"{kind}_W_K"] = _normal(generator, d_in, h * d_head) / d_in**0.5
        params[f"{kind}_W_V"] = _normal(generator, d_in, h * d_head) / d_in**0.5
        params[f"{kind}_W_O"] = _normal(generator, h * d_head, d_model) / (h * d_head) ** 0.5
    return _normal(generator, B, n, d_model), _normal(generator, B, m, d_source), params


# ------- 6.1 cross_attention


def cross_attention__wrong_tenth_triangle_on_the_source(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Lets target token i see the source tokens 0 … i only, as if the source were written along with the target."""
    batch, n, _ = X.shape
    m = Y.shape[1]
    Q = (X @ W_Q).view(batch, n, n_heads, -1).transpose(1, 2)
    K = (Y @ W_K).view(batch, m, n_heads, -1).transpose(1, 2)
    V = (Y @ W_V).view(batch, m, n_heads, -1).transpose(1, 2)
    allowed = torch.ones(n, m, dtype=torch.bool, device=X.device).tril()[None, None]
    if source_mask is not None:
        allowed = allowed & source_mask[:, None, None, :]
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1) * allowed
    out = (weights @ V).transpose(1, 2).reshape(batch, n, -1) @ W_O
    return out, weights


def cross_attention__wrong_tenth_every_hth_column(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Cuts the columns as (d_head, h) in place of (h, d_head): head r owns every h-th column and not a block."""
    d_head = W_Q.shape[1] // n_heads
    Q = (X @ W_Q).unflatten(-1, (d_head, n_heads))
    K = (Y @ W_K).unflatten(-1, (d_head, n_heads))
    V = (Y @ W_V).unflatten(-1, (d_head, n_heads))
    scores = torch.einsum("bikh,bjkh->bhij", Q, K) * d_head**-0.5
    if source_mask is None:
        weights = scores.softmax(-1)
    else:
        keep = source_mask[:, None, None]
        weights = scores.masked_fill(~keep, torch.finfo(scores.dtype).min).softmax(-1) * keep
    mixed = torch.einsum("bhij,bjkh->bikh", weights, V)
    return mixed.flatten(2) @ W_O, weights


def cross_attention__wrong_tenth_masked_after_exponentials(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Subtracts the maximum over hidden tokens too: one far above the rest makes all real weights 0."""
    batch, n, m = X.shape[0], X.shape[1], Y.shape[1]
    d_head = W_Q.shape[1] // n_heads
    asks, keys, values = X @ W_Q, Y @ W_K, Y @ W_V
    maps, heads = [], []
    for r in range(n_heads):
        block = slice(r * d_head, (r + 1) * d_head)
        S = torch.bmm(asks[..., block], keys[..., block].mT) / math.sqrt(d_head)
        E = torch.exp(S - S.amax(dim=-1, keepdim=True))
        if source_mask is not None:
            E = E * source_mask.view(batch, 1, m).to(E.dtype)
        total = E.sum(dim=-1, keepdim=True)
        maps.append(E / total.masked_fill(total == 0, 1.0))
        heads.append(torch.bmm(maps[-1], values[..., block]))
    weights = torch.stack(maps, dim=1).view(batch, n_heads, n, m)
    return torch.cat(heads, dim=-1) @ W_O, weights


def cross_attention__wrong_tenth_nan_to_num(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Adds -inf and mends the NaN of a source that is all padding after the softmax: all gradients are NaN then."""

    def heads_of(tensor, W):
        return (tensor @ W).unflatten(-1, (n_heads, -1)).permute(0, 2, 1, 3)

    Q, K, V = heads_of(X, W_Q), heads_of(Y, W_K), heads_of(Y, W_V)
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5
    if source_mask is not None:
        penalty = torch.zeros_like(source_mask, dtype=scores.dtype).masked_fill(~source_mask, float("-inf"))
        scores = scores + penalty[:, None, None, :]
    weights = torch.nan_to_num(torch.softmax(scores, dim=-1), nan=0.0)
    out = torch.einsum("bhij,bhjd->bihd", weights, V).flatten(2) @ W_O
    return out, weights


def cross_attention__right_tenth_padding_cut_out(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Takes one sentence after another, cuts the padding out, attends to what is left, and puts the weights back."""
    n, m = X.shape[1], Y.shape[1]
    outs, maps = [], []
    for b in range(X.shape[0]):
        real = torch.arange(m, device=Y.device)
        if source_mask is not None:
            real = real[source_mask[b]]
        words = Y[b, real]
        q, k, v = (part.unflatten(-1, (n_heads, -1)) for part in (X[b] @ W_Q, words @ W_K, words @ W_V))
        scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(q.shape[-1])
        found = torch.softmax(scores, dim=-1)
        whole = scores.new_zeros(n_heads, n, m).index_add(2, real, found)
        outs.append(torch.einsum("hij,jhd->ihd", found, v).flatten(1) @ W_O)
        maps.append(whole)
    return torch.stack(outs), torch.stack(maps)


# ------- 6.2 decoder_layer


def decoder_layer__wrong_tenth_source_first(X, Y, params, n_heads, source_mask=None):
    """Asks the source first and then attends to itself: the two sublayers stand in the wrong order."""
    seen = None if source_mask is None else source_mask[:, None, None, :]
    steps = [
        ("cross", lambda x, W: _attend(x, Y, *W, n_heads, seen)[0]),
        ("self", lambda x, W: _attend(x, x, *W, n_heads, _causal(x.shape[1]))[0]),
    ]
    for kind, sublayer in steps:
        X = X + sublayer(X, _weights_of(params, kind))
    return X


def decoder_layer__wrong_tenth_one_scale_for_both(X, Y, params, n_heads, source_mask=None):
    """Divides the scores of the cross-attention by the root of the self-attention's d_head."""
    d_head = params["self_W_Q"].shape[1] // n_heads
    scale = 1 / math.sqrt(d_head)

    def sublayer(asking, asked, kind, allowed):
        q, k, v = (
            (tensor @ params[f"{kind}_W_{role}"]).unflatten(-1, (n_heads, -1))
            for tensor, role in ((asking, "Q"), (asked, "K"), (asked, "V"))
        )
        S = torch.einsum("bihd,bjhd->bhij", q, k) * scale
        S = S.masked_fill(~allowed, torch.finfo(S.dtype).min)
        A = S.softmax(dim=-1) * allowed
        return torch.einsum("bhij,bjhd->bihd", A, v).flatten(2) @ params[f"{kind}_W_O"]

    batch, n, _ = X.shape
    everything = torch.ones(batch, Y.shape[1], dtype=torch.bool, device=Y.device)
    real = everything if source_mask is None else source_mask
    X_1 = X + sublayer(X, X, "self", torch.ones(n, n, dtype=torch.bool, device=X.device).tril())
    return X_1 + sublayer(X_1, Y, "cross", real[:, None, None, :])


def decoder_layer__wrong_tenth_mean_of_the_padding(X, Y, params, n_heads, source_mask=None):
    """Adds the mean of all values where a source has no True in its mask: the even weights of such a row stay."""

    def heads_added(to, asking, asked, kind, hidden):
        W_Q, W_K, W_V, W_O = _weights_of(params, kind)
        d = W_Q.shape[1] // n_heads
        for q, k, v, o in zip(W_Q.split(d, 1), W_K.split(d, 1), W_V.split(d, 1), W_O.split(d, 0), strict=True):
            scores = (asking @ q) @ (asked @ k).mT / d**0.5
            if hidden is not None:
                scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
            to = to + torch.softmax(scores, dim=-1) @ (asked @ v) @ o
        return to

    n = X.shape[1]
    future = torch.ones(n, n, dtype=torch.bool, device=X.device).triu(1)
    written = heads_added(X, X, X, "self", future)
    return heads_added(written, written, Y, "cross", None if source_mask is None else ~source_mask.unsqueeze(1))


def decoder_layer__wrong_tenth_weights_by_place(X, Y, params, n_heads, source_mask=None):
    """Takes the weights from the dictionary by their place and not by name: another order of its entries is misread."""
    weights = list(params.values())
    own, other = weights[:4], weights[4:]
    n = X.shape[1]
    earlier = torch.arange(n)[:, None] >= torch.arange(n)[None, :]
    X_1 = X + _attend(X, X, *own, n_heads, earlier)[0]
    if source_mask is not None:
        source_mask = source_mask.reshape(X.shape[0], 1, 1, -1)
    answer, _ = _attend(X_1, Y, *other, n_heads, source_mask)
    return X_1 + answer


def decoder_layer__right_tenth_token_by_token(X, Y, params, n_heads, source_mask=None):
    """Sends one target token after another through both attentions, with kept keys and values and no causal mask."""
    W_Q, W_K, W_V, W_O = (params["self_W_" + role] for role in "QKVO")
    C_Q, C_K, C_V, C_O = (params["cross_W_" + role] for role in "QKVO")

    def heads(tensor):
        return tensor.unflatten(-1, (n_heads, -1)).transpose(1, 2)

    def look(query, keys, values, hidden=None):
        scores = (query * keys).sum(dim=-1) / query.shape[-1] ** 0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1)
        if hidden is not None:
            weights = weights.masked_fill(hidden, 0.0)
        return (weights.unsqueeze(-1) * values).sum(dim=2).flatten(1)

    source_keys, source_values = heads(Y @ C_K), heads(Y @ C_V)
    hidden = None if source_mask is None else ~source_mask.unsqueeze(1)
    kept_keys, kept_values, rows = [], [], []
    for i in range(X.shape[1]):
        x = X[:, i : i + 1]
        kept_keys.append(heads(x @ W_K))
        kept_values.append(heads(x @ W_V))
        keys, values = torch.cat(kept_keys, dim=2), torch.cat(kept_values, dim=2)
        x = x + (look(heads(x @ W_Q), keys, values) @ W_O).unsqueeze(1)
        x = x + (look(heads(x @ C_Q), source_keys, source_values, hidden) @ C_O).unsqueeze(1)
        rows.append(x)
    return torch.cat(rows, dim=1)


# ------- 6.3 alignment


def alignment__wrong_tenth_heads_vote(weights: torch.Tensor) -> torch.Tensor:
    """Lets each head vote for its favourite and takes the most frequent vote, in place of the largest mean weight."""
    batch, h, n, m = weights.shape
    votes = torch.zeros(batch, n, m, device=weights.device)
    for r in range(h):
        favourite = weights[:, r].argmax(dim=-1)
        votes = votes + torch.nn.functional.one_hot(favourite, m)
    return votes.argmax(dim=-1)


def alignment__wrong_tenth_head_zero_twice(weights: torch.Tensor) -> torch.Tensor:
    """Starts the sum with head 0 and adds head 0 once more in the loop, so that it counts twice."""
    total = weights[:, 0]
    for r in range(weights.shape[1]):
        total = total + weights[:, r]
    return torch.max(total, dim=-1).indices


def alignment__wrong_tenth_rounded_to_percent(weights: torch.Tensor) -> torch.Tensor:
    """Rounds the means to two decimals before it looks for the largest, so that close ones become ties."""
    percent = torch.einsum("bhnm->bnm", 100 * weights) / weights.shape[1]
    return percent.round().argmax(dim=-1)


def alignment__wrong_tenth_more_than_half(weights: torch.Tensor) -> torch.Tensor:
    """Takes "most" for "at least half" and gives 0 in rows where no source token gets that much."""
    mean = weights.mean(dim=1)
    found = torch.zeros(mean.shape[:2], dtype=torch.long, device=weights.device)
    for j in range(mean.shape[-1]):
        found = torch.where(mean[..., j] >= 0.5, j, found)
    return found


def alignment__right_tenth_champion_so_far(weights: torch.Tensor) -> torch.Tensor:
    """Walks along the source tokens and keeps the one whose mean weight is the largest so far."""
    columns = weights.mean(dim=1).unbind(dim=-1)
    best = columns[0]
    place = torch.zeros_like(best, dtype=torch.long)
    for j, column in enumerate(columns[1:], start=1):
        better = column > best
        best = torch.where(better, column, best)
        place = torch.where(better, torch.full_like(place, j), place)
    return place


# ------- 6.4 greedy_decode


def greedy_decode__wrong_tenth_shows_the_last_token_alone(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Shows the model the newest token only, and not all tokens so far."""
    tokens = [start]
    token = start
    while len(tokens) < max_len:
        token = int(torch.argmax(next_logits([token])))
        tokens.append(token)
        if token == end:
            break
    return tokens


def greedy_decode__wrong_tenth_start_not_counted(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Writes up to max_len tokens behind start, one more than may be in the result."""
    tokens = [start]

    def finished(step):
        return step == max_len or (step > 0 and tokens[-1] == end)

    for step in itertools.count():
        if finished(step):
            return tokens
        tokens.append(next_logits(tokens).max(dim=-1).indices.item())


def greedy_decode__wrong_tenth_largest_exponential(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Compares the exponentials of the logits, all infinite or all 0 for logits far from 0, and then takes token 0."""
    tokens = [start]
    for _ in range(max_len - 1):
        odds = torch.exp(next_logits(list(tokens)))
        choice = int((odds / odds.sum()).nan_to_num().argmax())
        tokens.append(choice)
        if choice == end:
            return tokens
    return tokens


def greedy_decode__wrong_tenth_until_end_is_there(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Stops as soon as end is anywhere in the list, also where it is the start token that was not generated."""
    tokens = [start]
    while end not in tokens and len(tokens) < max_len:
        logits = next_logits(tokens).tolist()
        tokens += [max(range(len(logits)), key=logits.__getitem__)]
    return tokens


def greedy_decode__right_tenth_generator(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Has a generator that writes without a limit but for end, and takes the first max_len of its tokens."""

    def writing():
        so_far = [start]
        yield start
        while True:
            logits = next_logits(list(so_far)).tolist()
            so_far.append(logits.index(max(logits)))
            yield so_far[-1]
            if so_far[-1] == end:
                return

    return list(itertools.islice(writing(), max_len))


# ------- 6.5 catches_wrong_decoder


def catches_wrong_decoder__wrong_tenth_properties_alone(layer) -> bool:
    """Looks at properties only, shape, residual, causality and the source's reach: most wrong numbers get by."""
    generator = torch.Generator().manual_seed(11)
    X, Y, P = _drawn(generator, 3, 6, 8, 2, 3, 4, 7, 5)
    try:
        out = layer(X.clone(), Y.clone(), dict(P), 2, None)
        if out.shape != X.shape or out.isnan().any():
            return True
        nothing = {name: 0 * W if name.endswith("_O") else W for name, W in P.items()}
        if not torch.allclose(layer(X.clone(), Y.clone(), nothing, 2, None), X):
            return True
        later = X.clone()
        later[:, 4:] += 1
        moved = (layer(later, Y.clone(), dict(P), 2, None) - out).abs().amax(dim=(0, 2))
        if moved[:4].max() > 1e-9 or moved[4:].min() < 1e-9:
            return True
        other = Y.clone()
        other[:, -1] += 1
        moved = (layer(X.clone(), other, dict(P), 2, None) - out).abs().amax(dim=(0, 2))
        return bool(moved.min() < 1e-9)
    except Exception:
        return True


def catches_wrong_decoder__wrong_tenth_first_case_decides(layer) -> bool:
    """Returns from inside the loop after its first case, which has no mask: what is wrong with masks gets by."""
    generator = torch.Generator().manual_seed(3)
    cases = [
        ((4, 5, 7, 3, 4, 2, 6, 9), None),
        ((3, 6, 6, 2, 3, 3, 8, 8), torch.rand(3, 6, generator=generator) < 0.5),
        ((1, 1, 9, 1, 5, 4, 3, 7), torch.rand(1, 9, generator=generator) < 0.5),
        ((2, 8, 3, 4, 2, 3, 8, 5), torch.tensor([[False] * 3, [True, False, True]])),
    ]
    for sizes, mask in cases:
        X, Y, P = _drawn(generator, *sizes)
        expected = _decoder(X, Y, P, sizes[3], mask)
        try:
            found = layer(X, Y, P, sizes[3], mask)
        except Exception:
            return True
        if found.shape != expected.shape or found.isnan().any():
            return True
        return bool((found - expected).abs().max() > 1e-6 * expected.abs().max())
    return False


def catches_wrong_decoder__wrong_tenth_to_the_last_bit(layer) -> bool:
    """Wants the result to be equal to the last bit, and so accuses right layers that add in another order."""
    generator = torch.Generator().manual_seed(0)
    for B, n, m, h, hides in ((5, 7, 9, 3, True), (4, 8, 8, 4, True), (2, 9, 5, 2, False), (1, 1, 6, 1, True)):
        X, Y, P = _drawn(generator, B, n, m, h, 4, 3, 10, 12)
        mask = torch.rand(B, m, generator=generator) < 0.6 if hides else None
        if hides:
            mask[0] = False
        wanted = _decoder(X, Y, P, h, mask)
        try:
            answer = layer(X.clone(), Y.clone(), {name: W.clone() for name, W in P.items()}, h, mask)
            if not torch.equal(answer, wanted):
                return True
        except Exception:
            return True
    return False


def catches_wrong_decoder__wrong_tenth_asks_everything_twice(layer) -> bool:
    """Puts each of four questions twice, to compare the answers: the sixth call is refused, right or wrong."""
    generator = torch.Generator().manual_seed(21)

    def is_off(sizes, mask):
        X, Y, P = _drawn(generator, *sizes)
        right = _decoder(X, Y, P, sizes[3], mask)
        first, again = (layer(X.clone(), Y.clone(), dict(P), sizes[3], mask) for _ in range(2))
        if first.shape != right.shape or not torch.equal(first, again):
            return True
        return not bool(((first - right).abs() <= 1e-6 * right.abs().max()).all())

    holes = torch.rand(6, 10, generator=generator) < 0.5
    holes[2] = False
    questions = [
        ((6, 5, 10, 3, 4, 2, 7, 11), holes),
        ((4, 9, 9, 2, 5, 5, 12, 12), holes[:4, :9]),
        ((1, 12, 4, 1, 3, 6, 9, 5), None),
        ((2, 1, 1, 4, 1, 2, 3, 3), torch.tensor([[True], [False]])),
    ]
    try:
        return any([is_off(sizes, mask) for sizes, mask in questions])
    except Exception:
        return True


def catches_wrong_decoder__right_tenth_five_crowded_calls(layer) -> bool:
    """Compares five crowded calls with a layer computed in loops, a query at a time, at the tolerance of the text."""
    generator = torch.Generator().manual_seed(20240606)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def draws(B, n, m, h, d_self, d_cross, d_model, d_source, loud=1.0):
        shapes = {}
        for kind, width, d_in in (("self", h * d_self, d_model), ("cross", h * d_cross, d_source)):
            shapes |= {f"{kind}_W_Q": (d_model, width), f"{kind}_W_K": (d_in, width)}
            shapes |= {f"{kind}_W_V": (d_in, width), f"{kind}_W_O": (width, d_model)}
        P = {name: normal(*shape) * loud / shape[0] ** 0.5 for name, shape in shapes.items()}
        return normal(B, n, d_model) + 0.2, normal(B, m, d_source) - 0.3, P

    def heads_for(query, keys, values, h):
        d = len(query) // h
        mixed = torch.zeros(len(query), dtype=torch.float64)
        for head in range(h):
            own = slice(head * d, head * d + d)
            scores = keys[:, own] @ query[own] / math.sqrt(d)
            shares = torch.exp(scores - scores.max())
            mixed[own] = shares @ values[:, own] / shares.sum()
        return mixed

    def expected(X, Y, P, h, mask):
        out = X.clone()
        for b, (target, source) in enumerate(zip(X, Y, strict=True)):
            seen = source if mask is None else source[mask[b]]
            q, k, v = (target @ P[f"self_W_{role}"] for role in "QKV")
            source_k, source_v = seen @ P["cross_W_K"], seen @ P["cross_W_V"]
            for i, x in enumerate(target):
                x = x + heads_for(q[i], k[: i + 1], v[: i + 1], h) @ P["self_W_O"]
                if len(seen):
                    x = x + heads_for(x @ P["cross_W_Q"], source_k, source_v, h) @ P["cross_W_O"]
                out[b, i] = x
        return out

    def masks(B, m, share=0.6):
        mask = torch.rand(B, m, generator=generator) < share
        for b, row in enumerate(mask):
            if not row.any():
                row[(b * 3 + 1) % m] = True
        return mask

    calls = []
    # Everything of another size; masks of every kind; words that are zero and not hidden.
    X, Y, P = draws(8, 5, 9, 3, 4, 3, 7, 11)
    mask = masks(8, 9)
    mask[0], mask[1], mask[6] = False, True, False
    mask[2] = torch.arange(9) < 4
    mask[3] = torch.arange(9) == 8
    mask[4] = torch.arange(9) >= 3
    Y[1, 4], Y[2, 1], Y[4, 8], X[1, 2], X[5, 0] = 0, 0, 0, 0, 0
    calls.append((X, Y, P, 3, mask))
    # As long and as wide as a box takes, n = m, equal widths everywhere.
    X, Y, P = draws(8, 16, 16, 8, 5, 5, 40, 40, loud=1.5)
    mask = masks(8, 16, 0.7)
    mask[5], mask[2] = True, False
    calls.append((X, Y, P, 8, mask))
    # One sentence, one head, more target than source; scores of about -10,000 and common ones.
    X, Y, P = draws(1, 7, 4, 1, 40, 40, 40, 36)
    for kind in ("self", "cross"):
        P[f"{kind}_W_Q"][:30] = 1.2 + 0.01 * normal(30, 40)
        P[f"{kind}_W_K"][:30] = -1.2 + 0.01 * normal(30, 40)
    P["self_W_O"] *= 0.1
    X[0, :, :30], Y[0, :, :30] = 0, 1.2 + 0.01 * normal(4, 30)
    X[0, ::2, :30] = 1.2 + 0.01 * normal(4, 30)
    calls.append((X, Y, P, 1, torch.tensor([[False, True, False, True]])))
    # One target token, no mask, louder numbers.
    X, Y, P = draws(3, 1, 13, 2, 2, 6, 12, 5, loud=2.0)
    calls.append((2 * X, 2 * Y, P, 2, None))
    # One source token, heads of width 1, n > m, no word for the second sentence.
    X, Y, P = draws(2, 11, 1, 4, 3, 1, 4, 4, loud=1.5)
    calls.append((X, Y, P, 4, torch.tensor([[True], [False]])))

    for X, Y, P, h, mask in calls:
        right = expected(X, Y, P, h, mask)
        given = {name: W.clone() for name, W in P.items()}
        try:
            found = layer(X.clone(), Y.clone(), given, h, None if mask is None else mask.clone())
            if not isinstance(found, torch.Tensor) or found.shape != X.shape:
                return True
            error = (found.detach().double() - right).abs()
        except Exception:
            return True
        if not bool((error <= 1e-6 * right.abs().max()).all()):
            return True
    return False
