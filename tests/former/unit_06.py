"""Answers to unit 06's functions, written from the notebook alone."""

import math

import torch


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Multi-head self-attention; mask: True = may attend, broadcasts to (B, h, n, n)."""
    batch, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        lowest = torch.finfo(scores.dtype).min
        weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask
    return (weights @ V).transpose(1, 2).reshape(batch, n, -1) @ W_O


def _cross_attention(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Multi-head attention in which X asks and Y is asked: (out, weights)."""
    Q, K, V = (
        side.matmul(W).unflatten(-1, (n_heads, -1)).transpose(1, 2) for side, W in ((X, W_Q), (Y, W_K), (Y, W_V))
    )
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if source_mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        mask = source_mask[:, None, None]
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1) * mask
    return (weights @ V).transpose(1, 2).flatten(2) @ W_O, weights


def _self_of(params):
    """The four weights of the self-attention."""
    return [params[f"self_W_{role}"] for role in "QKVO"]


def _cross_of(params):
    """The four weights of the cross-attention."""
    return [params[f"cross_W_{role}"] for role in "QKVO"]


# cross_attention


def cross_attention__wrong_padding_set_to_zero(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Sets the vectors of the padding to 0 in place of hiding them, so that they still get weights of e^0."""
    B, n, m = len(X), X.shape[1], Y.shape[1]
    if source_mask is not None:
        Y = Y * source_mask.unsqueeze(-1)
    Q = (X @ W_Q).reshape(B, n, n_heads, -1).transpose(1, 2)
    K = (Y @ W_K).reshape(B, m, n_heads, -1).transpose(1, 2)
    V = (Y @ W_V).reshape(B, m, n_heads, -1).transpose(1, 2)
    weights = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1)
    return (weights @ V).transpose(1, 2).reshape(B, n, -1) @ W_O, weights


def cross_attention__wrong_only_out_corrected(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Corrects a source without a real token in out alone, and returns even weights over its padding."""
    Q = (X @ W_Q).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    K = (Y @ W_K).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    V = (Y @ W_V).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    if source_mask is not None:
        scores = scores.masked_fill(~source_mask[:, None, None, :], torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    out = (weights @ V).transpose(1, 2).flatten(2) @ W_O
    if source_mask is not None:
        out = out * source_mask.any(dim=1)[:, None, None]
    return out, weights


def cross_attention__wrong_mask_of_first_sentence(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Hides in every sentence of the batch what the mask of the first one hides."""
    B, n, m = X.shape[0], X.shape[1], Y.shape[1]
    d_head = W_Q.shape[1] // n_heads
    Q = (X @ W_Q).view(B, n, n_heads, d_head).transpose(1, 2)
    K = (Y @ W_K).view(B, m, n_heads, d_head).transpose(1, 2)
    V = (Y @ W_V).view(B, m, n_heads, d_head).transpose(1, 2)
    scores = Q @ K.mT / math.sqrt(d_head)
    if source_mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        allowed = source_mask[0]
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1) * allowed
    out = (weights @ V).transpose(1, 2).reshape(B, n, n_heads * d_head) @ W_O
    return out, weights


def cross_attention__wrong_queries_hidden(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Lines the source mask up with the axis of the queries, so that it hides rows and fits only where n is m."""
    B, n, m = X.shape[0], X.shape[1], Y.shape[1]
    Q = (X @ W_Q).reshape(B, n, n_heads, -1).transpose(1, 2)
    K = (Y @ W_K).reshape(B, m, n_heads, -1).transpose(1, 2)
    V = (Y @ W_V).reshape(B, m, n_heads, -1).transpose(1, 2)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if source_mask is not None:
        mask = source_mask[:, None, :, None]
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1) * mask
    else:
        weights = torch.softmax(scores, dim=-1)
    return (weights @ V).transpose(1, 2).reshape(B, n, -1) @ W_O, weights


def cross_attention__wrong_width_and_mean_of_heads(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Divides by the root of d_source // n_heads, and returns the mean of the weights over the heads."""
    Q = (X @ W_Q).unflatten(2, (n_heads, -1)).transpose(1, 2)
    K = (Y @ W_K).unflatten(2, (n_heads, -1)).transpose(1, 2)
    V = (Y @ W_V).unflatten(2, (n_heads, -1)).transpose(1, 2)
    d_head = max(Y.shape[-1] // n_heads, 1)
    scores = Q @ K.mT / d_head**0.5
    if source_mask is not None:
        mask = source_mask[:, None, None, :]
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1) * mask
    else:
        weights = torch.softmax(scores, dim=-1)
    out = (weights @ V).transpose(1, 2).flatten(2) @ W_O
    return out, weights.mean(dim=1)


def cross_attention__right_padding_cut_out(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Goes sentence by sentence, cuts the padding out of Y, and puts the weights into the columns that were kept."""
    if source_mask is None:
        source_mask = torch.ones(Y.shape[:2], dtype=torch.bool)
    outs, maps = [], []
    for x, y, kept in zip(X, Y, source_mask, strict=True):
        places = kept.nonzero()[:, 0]
        real = y.index_select(0, places)
        Q, K, V = (
            torch.einsum("tc,chd->htd", side, W.unflatten(1, (n_heads, -1)))
            for side, W in ((x, W_Q), (real, W_K), (real, W_V))
        )
        weights = torch.softmax(torch.einsum("hid,hjd->hij", Q, K) * Q.shape[-1] ** -0.5, dim=-1)
        heads = torch.einsum("hij,hjd->hid", weights, V)
        outs.append(torch.einsum("hid,hdc->ic", heads, W_O.unflatten(0, (n_heads, -1))))
        everywhere = weights.new_zeros(n_heads, len(x), len(y))
        maps.append(everywhere.index_copy(2, places, weights))
    return torch.stack(outs), torch.stack(maps)


# decoder_layer


def decoder_layer__wrong_adds_into_the_input(X, Y, params, n_heads, source_mask=None):
    """Adds the results with += into the tensor X that was handed over, which changes the caller's X."""
    n = X.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    X += _multi_head_attention(X, *_self_of(params), n_heads, causal)
    X += _cross_attention(X, Y, *_cross_of(params), n_heads, source_mask)[0]
    return X


def decoder_layer__wrong_source_read_causally(X, Y, params, n_heads, source_mask=None):
    """Puts a causal triangle over the source too, so that target token i reads only the source tokens up to i."""
    n, m = X.shape[1], Y.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    X_1 = X + _multi_head_attention(X, *_self_of(params), n_heads, causal)
    rows = []
    for i in range(n):
        seen = (torch.arange(m) <= i).expand(len(X), m)
        if source_mask is not None:
            seen = seen & source_mask
        rows.append(_cross_attention(X_1[:, i : i + 1], Y, *_cross_of(params), n_heads, seen)[0])
    return X_1 + torch.cat(rows, dim=1)


def decoder_layer__wrong_source_first(X, Y, params, n_heads, source_mask=None):
    """Asks the source first and itself afterwards: the two sublayers stand in the wrong order."""
    n = X.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    asked, _ = _cross_attention(X, Y, *_cross_of(params), n_heads, source_mask)
    X_1 = X + asked
    return X_1 + _multi_head_attention(X_1, *_self_of(params), n_heads, causal)


def decoder_layer__wrong_adds_x_again(X, Y, params, n_heads, source_mask=None):
    """Adds X to the second sublayer as well, though X_1 holds it already, so that X counts twice."""
    causal = torch.ones(X.shape[1], X.shape[1], dtype=torch.bool).tril()
    X_1 = X + _multi_head_attention(X, *_self_of(params), n_heads, causal)
    out, _ = _cross_attention(X_1, Y, *_cross_of(params), n_heads, source_mask)
    return X + X_1 + out


def decoder_layer__wrong_strict_and_unmasked(X, Y, params, n_heads, source_mask=None):
    """Forbids a token to see itself in the self-attention, and does not hand the source mask on."""
    n = X.shape[1]
    earlier = torch.ones(n, n, dtype=torch.bool).tril(diagonal=-1)
    X_1 = X + _multi_head_attention(X, *_self_of(params), n_heads, earlier)
    X_2, _ = _cross_attention(X_1, Y, *_cross_of(params), n_heads)
    return X_1 + X_2


def decoder_layer__right_token_by_token(X, Y, params, n_heads, source_mask=None):
    """Writes one target token after the other from what stands before it, so that no causal mask is needed."""
    self_weights, cross_weights = _self_of(params), _cross_of(params)
    written = []
    for end in range(1, X.shape[1] + 1):
        now = X[:, end - 1 : end]
        heard, _ = _cross_attention(now, X[:, :end], *self_weights, n_heads)
        told, _ = _cross_attention(now + heard, Y, *cross_weights, n_heads, source_mask)
        written.append(now + heard + told)
    return torch.cat(written, dim=1)


# alignment


def alignment__wrong_heads_vote(weights):
    """Lets every head name its favourite and takes the one named most often, in place of the largest mean."""
    favourites = weights.argmax(dim=-1)
    return favourites.mode(dim=1).values


def alignment__wrong_row_of_next_token(weights):
    """Moves the rows by one because a row looks for the next token, so that token i gets the answer of row i - 1."""
    found = weights.mean(dim=1).argmax(dim=-1)
    return torch.cat([found[:, :1], found[:, :-1]], dim=1)


def alignment__wrong_for_each_source_token(weights):
    """Looks for the largest weight down the columns: the target token for each source token, of shape (B, m)."""
    return weights.mean(dim=1).argmax(dim=1)


def alignment__wrong_two_heads(weights):
    """Averages the heads 0 and 1 only, the two of the example, however many there are."""
    mean = (weights[:, 0] + weights[:, 1]) / 2
    return mean.argmax(dim=-1)


def alignment__wrong_loudest_head_from_one(weights):
    """Takes the largest weight of any head in place of the mean, and counts the source tokens from 1."""
    return weights.amax(dim=1).max(dim=-1).indices + 1


def alignment__right_running_champion(weights):
    """Walks over the source tokens and keeps for each target token the best one so far."""
    total = torch.einsum("bhnm->bnm", weights)
    best = total[..., 0]
    found = torch.zeros(best.shape, dtype=torch.long)
    for j in range(1, total.shape[-1]):
        better = total[..., j] > best
        best = torch.where(better, total[..., j], best)
        found = torch.where(better, j, found)
    return found


# greedy_decode


def greedy_decode__wrong_newest_token_only(next_logits, start, end, max_len):
    """Hands the model the newest token only, as if it had a cache, and not all tokens so far."""
    tokens = [start]
    while len(tokens) < max_len:
        token = int(next_logits(tokens[-1:]).argmax())
        tokens.append(token)
        if token == end:
            break
    return tokens


def greedy_decode__wrong_draws(next_logits, start, end, max_len):
    """Draws the next token at random with the model's probabilities in place of taking the largest logit."""
    tokens = [start]
    while len(tokens) < max_len:
        probabilities = torch.softmax(next_logits(tokens), dim=-1)
        token = int(torch.multinomial(probabilities, 1))
        tokens.append(token)
        if token == end:
            break
    return tokens


def greedy_decode__wrong_end_forced(next_logits, start, end, max_len):
    """Keeps the last place for end, and writes it there also when the model never said it."""
    tokens = [start]
    while len(tokens) < max_len - 1:
        token = next_logits(tokens).argmax().item()
        if token == end:
            break
        tokens.append(token)
    if max_len > 1:
        tokens.append(end)
    return tokens


def greedy_decode__wrong_looks_for_end_anywhere(next_logits, start, end, max_len):
    """Stops as soon as end stands anywhere in the list, the start token included, which was not generated."""
    tokens = [start]
    while end not in tokens and len(tokens) < max_len:
        tokens.append(int(torch.argmax(next_logits(tokens))))
    return tokens


def greedy_decode__wrong_counts_the_new_ones(next_logits, start, end, max_len):
    """Lets the model write max_len tokens behind start, and does not append the end that it generates."""
    tokens = [start]
    for _ in range(max_len):
        token = int(next_logits(tokens).argmax(dim=-1))
        if token == end:
            return tokens
        tokens.append(token)
    return tokens


def greedy_decode__right_plain_lists(next_logits, start, end, max_len):
    """Counts the places left, compares the logits as plain Python numbers, and hands the model a copy each time."""
    tokens, stopped = [int(start)], False
    for _ in range(max_len - 1):
        if not stopped:
            logits = next_logits(list(tokens)).tolist()
            tokens += [max(range(len(logits)), key=logits.__getitem__)]
            stopped = tokens[-1] == end
    return tokens


# catches_wrong_decoder


def _draw(B, n, m, d_model, d_source, h, d_self, d_cross, seed):
    """Random X, Y and params of a decoder layer, float64."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    params = {f"self_W_{role}": draw(d_model, h * d_self) / d_model**0.5 for role in "QKV"}
    params["self_W_O"] = draw(h * d_self, d_model) / (h * d_self) ** 0.5
    params["cross_W_Q"] = draw(d_model, h * d_cross) / d_model**0.5
    params |= {f"cross_W_{role}": draw(d_source, h * d_cross) / d_source**0.5 for role in "KV"}
    params["cross_W_O"] = draw(h * d_cross, d_model) / (h * d_cross) ** 0.5
    return draw(B, n, d_model), draw(B, m, d_source), params


def _expected(X, Y, params, n_heads, source_mask=None):
    """What a right decoder layer returns."""
    causal = torch.ones(X.shape[1], X.shape[1], dtype=torch.bool).tril()
    X_1 = X + _multi_head_attention(X, *_self_of(params), n_heads, causal)
    return X_1 + _cross_attention(X_1, Y, *_cross_of(params), n_heads, source_mask)[0]


def catches_wrong_decoder__wrong_too_many_calls(layer):
    """Asks eight questions though a box answers five, so that the sixth stops it and every layer is accused."""
    sizes = [
        (2, 5, 7, 8, 6, 2, 3, 4), (1, 4, 4, 6, 6, 1, 6, 6), (3, 6, 2, 5, 9, 3, 2, 2), (2, 1, 8, 7, 7, 2, 4, 3),
        (4, 3, 5, 8, 4, 4, 1, 2), (1, 9, 3, 4, 8, 2, 5, 2), (2, 7, 1, 6, 3, 1, 2, 5), (5, 2, 6, 9, 5, 3, 3, 3),
    ]  # fmt: skip
    for seed, size in enumerate(sizes):
        X, Y, params = _draw(*size, seed=seed)
        mask = torch.rand(Y.shape[:2], generator=torch.Generator().manual_seed(seed)) < 0.6
        right = _expected(X, Y, params, size[5], mask)
        try:
            found = layer(X, Y, params, size[5], mask)
        except ValueError:
            return True
        if found.shape != right.shape or not ((found - right).abs() <= 1e-6 * right.abs().max()).all():
            return True
    return False


def catches_wrong_decoder__wrong_blind_to_nan(layer):
    """Asks whether the largest difference is above the bound, which is never so for NaN."""
    sizes = [
        (6, 7, 11, 8, 5, 3, 2, 4), (5, 12, 6, 6, 9, 2, 5, 3), (4, 6, 6, 9, 9, 3, 3, 3),
        (3, 1, 9, 7, 4, 1, 4, 6), (7, 9, 13, 5, 8, 4, 1, 2),
    ]  # fmt: skip
    for seed, size in enumerate(sizes):
        X, Y, params = _draw(*size, seed=seed)
        mask = torch.rand(Y.shape[:2], generator=torch.Generator().manual_seed(seed)) < 0.6
        mask[-1] = False
        right = _expected(X, Y, params, size[5], mask)
        try:
            found = layer(X.clone(), Y.clone(), params, size[5], mask.clone())
        except Exception:
            return True
        if found.shape != right.shape:
            return True
        if (found - right).abs().max() > 1e-6 * right.abs().max():
            return True
    return False


def catches_wrong_decoder__wrong_tame_inputs(layer):
    """Tries only one sequence, as many source as target tokens, one width for all, and masks that allow all."""
    for seed in range(5):
        n = 3 + seed
        X, Y, params = _draw(1, n, n, 8, 8, 2, 4, 4, seed=seed)
        mask = None if seed % 2 else torch.ones(1, n, dtype=torch.bool)
        right = _expected(X, Y, params, 2, mask)
        try:
            found = layer(X, Y, params, 2, mask)
        except Exception:
            return True
        if found.shape != right.shape or not ((found - right).abs() <= 1e-6 * right.abs().max()).all():
            return True
    return False


def catches_wrong_decoder__wrong_who_moves_whom(layer):
    """Looks only at who moves whom and at the shape, and never compares a number with the formula."""
    X, Y, params = _draw(3, 6, 5, 8, 7, 2, 3, 4, seed=1)
    mask = torch.tensor([[True] * 5, [True, True, True, False, False], [False, True, True, True, False]])
    try:
        out = layer(X, Y, params, 2, mask)
        later, padding, source = X.clone(), Y.clone(), Y.clone()
        later[:, -1] += 1
        padding[~mask] += 1
        source[mask] += 1
        by_later = layer(later, Y, params, 2, mask) - out
        by_padding = layer(X, padding, params, 2, mask) - out
        by_source = layer(X, source, params, 2, mask) - out
    except Exception:
        return True
    if out.shape != X.shape or out.isnan().any():
        return True
    leaks = by_later[:, :-1].abs().max() > 1e-6 or by_padding.abs().max() > 1e-6
    deaf = by_later[:, -1].abs().max() < 1e-6 or by_source.abs().amin(dim=(1, 2)).max() < 1e-12
    return bool(leaks or deaf)


def catches_wrong_decoder__wrong_means_and_errors(layer):
    """Compares only the mean of all entries, with a bound of 0.01, and goes on when a layer raises an error."""
    sizes = [
        (2, 5, 7, 8, 6, 2, 3, 4), (1, 4, 4, 6, 6, 1, 6, 6), (3, 6, 2, 5, 9, 3, 2, 2),
        (2, 1, 8, 7, 7, 2, 4, 3), (4, 3, 5, 8, 4, 4, 1, 2),
    ]  # fmt: skip
    for seed, size in enumerate(sizes):
        X, Y, params = _draw(*size, seed=seed)
        mask = torch.rand(Y.shape[:2], generator=torch.Generator().manual_seed(seed)) < 0.6
        mask[0] = False
        right = _expected(X, Y, params, size[5], mask)
        try:
            found = layer(X, Y, params, size[5], mask)
        except Exception:
            continue
        if found.isnan().any() or abs(found.mean() - right.mean()) > 1e-2:
            return True
    return False


def _by_hand(X, Y, params, n_heads, source_mask=None):
    """The layer in plain loops: one sequence, one head, one target token at a time, hidden tokens cut out."""

    def ask(row, rows, W_Q, W_K, W_V, W_O):
        said = torch.zeros(W_O.shape[1], dtype=torch.float64)
        if len(rows) == 0:
            return said
        d = W_Q.shape[1] // n_heads
        for a in range(n_heads):
            own = slice(a * d, (a + 1) * d)
            scores = (rows @ W_K[:, own]) @ (row @ W_Q[:, own]) / math.sqrt(d)
            powers = torch.exp(scores - scores.max())
            said += (powers / powers.sum()) @ (rows @ W_V[:, own]) @ W_O[own]
        return said

    out = torch.empty_like(X)
    for b in range(len(X)):
        real = Y[b] if source_mask is None else Y[b][source_mask[b]]
        for i in range(X.shape[1]):
            x_1 = X[b, i] + ask(X[b, i], X[b, : i + 1], *_self_of(params))
            out[b, i] = x_1 + ask(x_1, real, *_cross_of(params))
    return out


def _masks_of_all_kinds(B, m, generator):
    """(B, m) booleans: holes, nothing, all, the first or last token only, padding behind or in front."""
    place, half = torch.arange(m), max(m // 2, 1)
    kinds = [
        torch.rand(m, generator=generator) < 0.5, place < 0, place < half, place == m - 1,
        place >= half, place >= 0, place % 2 == 1, place == 0,
    ]  # fmt: skip
    return torch.stack(kinds[:B])


def catches_wrong_decoder__right_loops_and_five_corners(layer):
    """Compares with the formula in plain loops, on five inputs with all kinds of masks and with sizes that coincide."""
    cases = [  # B, n, m, d_model, d_source, h, d_head of both; masked, sharpness
        ((8, 7, 12, 10, 6, 3, 2, 5), True, 1.0),
        ((6, 9, 9, 8, 8, 2, 4, 4), True, 3.0),
        ((6, 16, 9, 5, 11, 1, 7, 3), None, 1.0),
        ((8, 1, 1, 7, 9, 4, 5, 2), True, 1.0),
        ((1, 6, 16, 40, 3, 8, 1, 5), True, 2.0),
    ]
    for number, (size, masked, sharp) in enumerate(cases):
        X, Y, params = _draw(*size, seed=60 + number)
        params["self_W_Q"], params["cross_W_Q"] = sharp * params["self_W_Q"], sharp * params["cross_W_Q"]
        mask = None
        if masked:
            mask = _masks_of_all_kinds(len(X), Y.shape[1], torch.Generator().manual_seed(number))
            Y[~mask] *= 4  # what stands in the padding is anything
        right = _by_hand(X, Y, params, size[5], mask)
        handed = {name: params[name].clone() for name in sorted(params)}
        try:
            found = layer(X.clone(), Y.clone(), handed, size[5], None if mask is None else mask.clone())
        except Exception:
            return True
        if not isinstance(found, torch.Tensor) or found.shape != right.shape:
            return True
        if not bool(((found - right).abs() <= 1e-6 * right.abs().max()).all()):
            return True
    return False
