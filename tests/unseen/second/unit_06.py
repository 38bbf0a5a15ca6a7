import math

import torch
import torch.nn.functional as F


def multi_head_attention(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Multi-head self-attention, (B, n, d_model) -> (B, n, d_model).

    X: (B, n, d_model); W_Q, W_K, W_V: (d_model, h*d_head); W_O: (h*d_head, d_model).
    mask: boolean, True = may attend, broadcasts to (B, h, n, n).
    """
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError("the mask must be boolean, True = may attend: dtype=torch.bool")
    batch, n, _ = X.shape
    Q, K, V = (
        (X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V)
    )
    if mask is None:
        heads = F.scaled_dot_product_attention(Q, K, V)
    else:
        mask = mask.expand(batch, n_heads, n, n)
        some = mask.any(dim=-1, keepdim=True)
        # A query that may see nothing looks at all, and what it finds is dropped.
        heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask | ~some)
        heads = torch.where(some, heads, torch.zeros_like(heads))
    return heads.transpose(1, 2).reshape(batch, n, -1) @ W_O


def cross_attention(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    Q, K, V = (
        (T @ W).unflatten(-1, (n_heads, -1)).transpose(1, 2) for T, W in ((X, W_Q), (Y, W_K), (Y, W_V))
    )
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if source_mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        allowed = source_mask[:, None, None, :]
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1) * allowed
    return (weights @ V).transpose(1, 2).flatten(2) @ W_O, weights


def decoder_layer(X, Y, params, n_heads, source_mask=None):
    n = X.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    own = [params[f"self_W_{role}"] for role in "QKVO"]
    cross = [params[f"cross_W_{role}"] for role in "QKVO"]
    X_1 = X + multi_head_attention(X, *own, n_heads, causal)
    return X_1 + cross_attention(X_1, Y, *cross, n_heads, source_mask)[0]


# cross_attention


def cross_attention__wrong_weights_averaged(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The weights that come back are averaged over the heads, (B, n, m) and not (B, h, n, m)."""
    B, n, _ = X.shape
    m = Y.shape[1]
    q = (X @ W_Q).reshape(B, n, n_heads, -1).permute(0, 2, 1, 3)
    k = (Y @ W_K).reshape(B, m, n_heads, -1).permute(0, 2, 1, 3)
    v = (Y @ W_V).reshape(B, m, n_heads, -1).permute(0, 2, 1, 3)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if source_mask is not None:
        keep = source_mask.reshape(B, 1, 1, m)
        scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1) * keep
    else:
        weights = torch.softmax(scores, dim=-1)
    out = (weights @ v).permute(0, 2, 1, 3).reshape(B, n, -1) @ W_O
    return out, weights.mean(dim=1)


def cross_attention__wrong_root_of_d_source(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The divisor is the root of the width of the source, not of a head."""
    d_head = W_Q.shape[1] // n_heads
    scale = math.sqrt(W_K.shape[0])
    outs, maps = [], []
    for r in range(n_heads):
        block = slice(r * d_head, (r + 1) * d_head)
        scores = (X @ W_Q[:, block]) @ (Y @ W_K[:, block]).mT / scale
        if source_mask is None:
            w = scores.softmax(-1)
        else:
            seen = source_mask.unsqueeze(1)
            w = scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-1) * seen
        outs.append(w @ (Y @ W_V[:, block]))
        maps.append(w)
    return torch.cat(outs, dim=-1) @ W_O, torch.stack(maps, dim=1)


def cross_attention__wrong_empty_source_is_averaged(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """A source with no True in its mask gives even weights over its padding, not 0."""

    def heads(T, W):
        return (T @ W).unflatten(2, (n_heads, -1)).transpose(1, 2)

    Q, K, V = heads(X, W_Q), heads(Y, W_K), heads(Y, W_V)
    S = torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5
    if source_mask is not None:
        S = torch.where(source_mask[:, None, None], S, torch.finfo(S.dtype).min)
    A = F.softmax(S, dim=-1)
    return torch.einsum("bhij,bhjd->bihd", A, V).flatten(2) @ W_O, A


def cross_attention__wrong_mask_of_another_sequence(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The masks are repeated batch after batch, but the stack has all heads of a sequence together."""
    B, n, _ = X.shape
    m = Y.shape[1]
    Q = (X @ W_Q).reshape(B, n, n_heads, -1).transpose(1, 2).flatten(0, 1)
    K = (Y @ W_K).reshape(B, m, n_heads, -1).transpose(1, 2).flatten(0, 1)
    V = (Y @ W_V).reshape(B, m, n_heads, -1).transpose(1, 2).flatten(0, 1)
    scores = torch.bmm(Q, K.mT) / math.sqrt(Q.shape[-1])
    if source_mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        mask = source_mask.repeat(n_heads, 1).unsqueeze(1)
        weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1) * mask
    out = torch.bmm(weights, V).unflatten(0, (B, n_heads)).transpose(1, 2).flatten(2) @ W_O
    return out, weights.unflatten(0, (B, n_heads))


def cross_attention__wrong_zeroed_after_softmax(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Padding takes part in the softmax and is set to 0 afterwards: the rows sum to less than 1."""
    d_head = W_Q.shape[-1] // n_heads
    Q = (X @ W_Q).unflatten(-1, (n_heads, d_head))
    K = (Y @ W_K).unflatten(-1, (n_heads, d_head))
    V = (Y @ W_V).unflatten(-1, (n_heads, d_head))
    weights = torch.einsum("bnhd,bmhd->bhnm", Q, K).div(d_head**0.5).softmax(dim=3)
    if source_mask is not None:
        weights = weights.masked_fill(~source_mask[:, None, None, :], 0.0)
    mixed = torch.einsum("bhnm,bmhd->bnhd", weights, V)
    return mixed.reshape(*X.shape[:2], -1) @ W_O, weights


def cross_attention__right_padding_cut_out(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Sentence by sentence: hidden tokens are cut out, and their columns of the weights are filled with 0."""
    outs, maps = [], []
    for b, (x, y) in enumerate(zip(X, Y)):
        keep = torch.arange(len(y)) if source_mask is None else source_mask[b].nonzero().flatten()
        q = (x @ W_Q).unflatten(1, (n_heads, -1))
        k, v = ((y[keep] @ W).unflatten(1, (n_heads, -1)) for W in (W_K, W_V))
        few = torch.einsum("nhd,mhd->hnm", q / math.sqrt(q.shape[-1]), k).softmax(dim=-1)
        outs.append(torch.einsum("hnm,mhd->nhd", few, v).flatten(1) @ W_O)
        maps.append(few.new_zeros(n_heads, len(x), len(y)).index_copy(2, keep, few))
    return torch.stack(outs), torch.stack(maps)


# decoder_layer


def decoder_layer__wrong_asks_with_x(X, Y, params, n_heads, source_mask=None):
    """The queries of the cross-attention come from X, not from X_1."""
    self_weights = [params["self_W_" + name] for name in ("Q", "K", "V", "O")]
    cross_weights = [params["cross_W_" + name] for name in ("Q", "K", "V", "O")]
    n = X.shape[1]
    mask = torch.tril(torch.ones(n, n, dtype=torch.bool, device=X.device))
    X_1 = X + multi_head_attention(X, *self_weights, n_heads, mask)
    found, _ = cross_attention(X, Y, *cross_weights, n_heads, source_mask)
    return X_1 + found


def decoder_layer__wrong_cross_attention_first(X, Y, params, n_heads, source_mask=None):
    """The two sublayers come in the other order: cross-attention, then self-attention."""
    P = params
    out, _ = cross_attention(
        X, Y, P["cross_W_Q"], P["cross_W_K"], P["cross_W_V"], P["cross_W_O"], n_heads, source_mask
    )
    X = X + out
    i = torch.arange(X.shape[1])
    causal = i[None, :] <= i[:, None]
    return X + multi_head_attention(X, P["self_W_Q"], P["self_W_K"], P["self_W_V"], P["self_W_O"], n_heads, causal)


def decoder_layer__wrong_token_misses_itself(X, Y, params, n_heads, source_mask=None):
    """The diagonal of the causal mask is False: a token sees those before it only."""
    n = X.shape[1]
    future = torch.triu(torch.ones(n, n)).bool()
    attended = multi_head_attention(
        X,
        params["self_W_Q"],
        params["self_W_K"],
        params["self_W_V"],
        params["self_W_O"],
        n_heads,
        mask=~future,
    )
    X_1 = X + attended
    W = (params[f"cross_W_{c}"] for c in "QKVO")
    return X_1 + cross_attention(X_1, Y, *W, n_heads, source_mask)[0]


def decoder_layer__wrong_adds_into_x(X, Y, params, n_heads, source_mask=None):
    """X itself is added to, so the caller's tensor changes."""
    n = X.size(1)
    causal = torch.ones((n, n), dtype=torch.bool).tril()
    for kind in ("self", "cross"):
        W = [params[f"{kind}_W_{role}"] for role in "QKVO"]
        if kind == "self":
            X += multi_head_attention(X, *W, n_heads, causal)
        else:
            X += cross_attention(X, Y, *W, n_heads, source_mask)[0]
    return X


def decoder_layer__wrong_source_hidden_causally(X, Y, params, n_heads, source_mask=None):
    """The cross-attention is causal as well: target token i sees the source tokens 0 … i."""

    def attend(x, y, kind, mask):
        q, k, v = (
            (t @ params[f"{kind}_W_{role}"]).unflatten(-1, (n_heads, -1)).transpose(1, 2)
            for t, role in ((x, "Q"), (y, "K"), (y, "V"))
        )
        mask = mask & torch.ones(x.shape[1], y.shape[1], dtype=torch.bool).tril()
        scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, torch.finfo(q.dtype).min)
        weights = torch.softmax(scores, dim=-1) * mask
        return (weights @ v).transpose(1, 2).flatten(2) @ params[f"{kind}_W_O"]

    if source_mask is None:
        source_mask = torch.ones(Y.shape[:2], dtype=torch.bool)
    X = X + attend(X, X, "self", torch.tensor(True))
    return X + attend(X, Y, "cross", source_mask[:, None, None, :])


def decoder_layer__right_prefix_by_prefix(X, Y, params, n_heads, source_mask=None):
    """No causal mask: token t asks in the sequence that ends with it, so there is no future to hide."""
    own, cross = ([params[f"{kind}_W_{role}"] for role in "QKVO"] for kind in ("self", "cross"))
    rows = []
    for t in range(1, X.shape[1] + 1):
        row = X[:, t - 1 : t] + multi_head_attention(X[:, :t], *own, n_heads)[:, -1:]
        rows.append(row + cross_attention(row, Y, *cross, n_heads, source_mask)[0])
    return torch.cat(rows, dim=1)


# alignment


def alignment__wrong_heads_vote(weights):
    """Each head names its favourite, and the most frequent one is taken."""
    favourites = weights.argmax(dim=-1)
    return torch.mode(favourites, dim=1).values


def alignment__wrong_largest_of_any_head(weights):
    """The largest single weight of all heads decides, not the largest mean."""
    B, h, n, m = weights.shape
    flat = weights.transpose(1, 2).reshape(B, n, h * m)
    return flat.argmax(dim=-1) % m


def alignment__wrong_mean_of_favourites(weights):
    """The places of the heads' favourites are averaged."""
    places = torch.argmax(weights, dim=3).to(torch.float64)
    return places.mean(dim=1).long()


def alignment__wrong_heads_multiplied(weights):
    """The heads are multiplied, as if all of them had to agree."""
    product = weights[:, 0]
    for head in weights.unbind(dim=1)[1:]:
        product = product * head
    return product.argmax(dim=-1)


def alignment__wrong_target_axis(weights):
    """The largest is sought among the target tokens: for each source token the one that looks at it most."""
    mean = torch.einsum("bhnm->bnm", weights) / weights.shape[1]
    return mean.max(dim=1).indices


def alignment__right_running_best(weights):
    """Goes through the source tokens and keeps the best sum over heads so far."""
    totals = weights.sum(dim=1).unbind(dim=-1)
    best, place = totals[0], torch.zeros_like(totals[0], dtype=torch.long)
    for j, total in enumerate(totals[1:], start=1):
        better = total > best
        best, place = torch.where(better, total, best), place.masked_fill(better, j)
    return place


# greedy_decode


def greedy_decode__wrong_start_may_stop_it(next_logits, start, end, max_len):
    """The last token is compared before anything was generated: with start equal to end nothing is written."""
    tokens = [start]
    while tokens[-1] != end and len(tokens) < max_len:
        logits = next_logits(tokens)
        tokens.append(int(torch.argmax(logits)))
    return tokens


def greedy_decode__wrong_end_left_out(next_logits, start, end, max_len):
    """Stops before the generated end is appended."""
    sequence = [start]
    for _ in range(max_len - 1):
        best = next_logits(sequence).argmax().item()
        if best == end:
            break
        sequence.append(best)
    return sequence


def greedy_decode__wrong_start_not_counted(next_logits, start, end, max_len):
    """max_len new tokens are generated, one more in all than allowed."""
    tokens = [start]
    for _ in range(max_len):
        probabilities = torch.softmax(next_logits(tokens), dim=-1)
        token = int(probabilities.argmax())
        tokens = tokens + [token]
        if token == end:
            return tokens
    return tokens


def greedy_decode__wrong_last_token_alone(next_logits, start, end, max_len):
    """The model is shown the newest token only, not all tokens so far."""
    out, current = [start], start
    while len(out) < max_len:
        current = next_logits([current]).argmax().item()
        out.append(current)
        if current == end:
            break
    return out


def greedy_decode__wrong_list_of_tensors(next_logits, start, end, max_len):
    """The generated tokens are tensors with one number, not Python ints."""
    tokens = [start]
    done = False
    while not done and len(tokens) < max_len:
        token = next_logits(tokens).argmax(dim=-1)
        tokens.append(token)
        done = bool(token == end)
    return tokens


def greedy_decode__right_generator(next_logits, start, end, max_len):
    """A generator yields the tokens; the list is what it yields."""

    def written():
        past = [start]
        yield start
        for _ in range(1, max_len):
            values = next_logits(list(past)).tolist()
            past.append(max(range(len(values)), key=values.__getitem__))
            yield past[-1]
            if past[-1] == end:
                return

    return list(written())


# catches_wrong_decoder


def catches_wrong_decoder__wrong_exactly_equal(layer):
    """Asks for the same bits, so right layers that add in another order are accused."""
    g = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    for B, n, m, h, d_self, d_cross, d_model, d_source, masked in (
        (3, 6, 9, 2, 3, 5, 7, 8, False),
        (4, 4, 4, 4, 3, 3, 6, 6, True),
        (2, 1, 5, 2, 4, 2, 5, 9, True),
        (5, 7, 1, 3, 2, 4, 8, 6, True),
        (6, 9, 5, 3, 4, 3, 10, 7, True),
    ):
        params = {}
        for kind, d_in, d in (("self", d_model, d_self), ("cross", d_source, d_cross)):
            params[f"{kind}_W_Q"] = draw(d_model, h * d)
            params[f"{kind}_W_K"] = draw(d_in, h * d)
            params[f"{kind}_W_V"] = draw(d_in, h * d)
            params[f"{kind}_W_O"] = draw(h * d, d_model)
        X, Y = draw(B, n, d_model), draw(B, m, d_source)
        mask = None
        if masked:
            mask = torch.rand(B, m, generator=g) < 0.6
            mask[0] = False
        try:
            out = layer(X, Y, params, h, mask)
        except ValueError:
            return True
        if not torch.equal(out, decoder_layer(X, Y, params, h, mask)):
            return True
    return False


def catches_wrong_decoder__wrong_nan_gets_by(layer):
    """A comparison with NaN is False, so a layer that returns NaN is taken for right."""
    gen = torch.Generator().manual_seed(1)
    sizes = [(3, 5, 8), (4, 4, 4), (2, 1, 6), (3, 7, 1), (5, 6, 3)]
    for number, (B, n, m) in enumerate(sizes):
        h, d_model, d_source, d_s, d_c = 2 + 2 * (number == 1), 6, 7, 3, 4
        shape_of = {
            "self_W_Q": (d_model, h * d_s), "self_W_K": (d_model, h * d_s),
            "self_W_V": (d_model, h * d_s), "self_W_O": (h * d_s, d_model),
            "cross_W_Q": (d_model, h * d_c), "cross_W_K": (d_source, h * d_c),
            "cross_W_V": (d_source, h * d_c), "cross_W_O": (h * d_c, d_model),
        }
        params = {k: torch.randn(s, generator=gen, dtype=torch.float64) for k, s in shape_of.items()}
        X = torch.randn(B, n, d_model, generator=gen, dtype=torch.float64)
        Y = torch.randn(B, m, d_source, generator=gen, dtype=torch.float64)
        mask = torch.rand(B, m, generator=gen) > 0.4 if number else None
        if mask is not None:
            mask[-1, :] = False
        want = decoder_layer(X, Y, params, h, mask)
        try:
            got = layer(X, Y, params, h, mask)
        except Exception:
            return True
        if got.shape != X.shape:
            return True
        if (got - want).abs().max().item() > 1e-6 * want.abs().max().item():
            return True
    return False


def catches_wrong_decoder__wrong_errors_are_forgiven(layer):
    """A layer that raises on a valid input is skipped there, not called wrong."""
    g = torch.Generator().manual_seed(7)
    verdicts = []
    for B, n, m, h, hole in ((2, 6, 10, 3, None), (3, 3, 3, 3, "some"), (4, 5, 7, 2, "all"), (5, 1, 4, 2, "some"),
                             (2, 8, 1, 1, None)):
        d_model, d_source = 9, 5
        P = {}
        for kind, d_in, d_head in [("self", d_model, 2), ("cross", d_source, 4)]:
            for role in "QKVO":
                rows = {"Q": d_model, "K": d_in, "V": d_in, "O": h * d_head}[role]
                columns = d_model if role == "O" else h * d_head
                P[f"{kind}_W_{role}"] = torch.randn(rows, columns, generator=g).double()
        X = torch.randn(B, n, d_model, generator=g).double()
        Y = torch.randn(B, m, d_source, generator=g).double()
        mask = None
        if hole is not None:
            mask = torch.rand(B, m, generator=g) < 0.5
            if hole == "all":
                mask[1] = False
        right = decoder_layer(X, Y, P, h, mask)
        try:
            answer = layer(X, Y, P, h, mask)
        except ValueError:
            continue
        allowed = 1e-6 * float(right.abs().max())
        same = answer.shape == right.shape and torch.allclose(answer, right, rtol=0, atol=allowed)
        verdicts.append(not same)
    return any(verdicts)


def catches_wrong_decoder__wrong_properties_alone(layer):
    """Tests that the future, the padding and the batch do not matter, but never what the numbers are."""
    g = torch.Generator().manual_seed(3)
    B, n, m, d_model, d_source, h = 3, 5, 6, 7, 8, 2
    X = torch.randn(B, n, d_model, generator=g, dtype=torch.float64)
    Y = torch.randn(B, m, d_source, generator=g, dtype=torch.float64)
    P = {}
    for kind, d_in, wide in (("self", d_model, 6), ("cross", d_source, 10)):
        for role, shape in (("Q", (d_model, wide)), ("K", (d_in, wide)), ("V", (d_in, wide)), ("O", (wide, d_model))):
            P[f"{kind}_W_{role}"] = torch.randn(shape, generator=g, dtype=torch.float64) / shape[0] ** 0.5
    mask = torch.tensor([[1, 1, 0, 0, 0, 0], [1, 0, 1, 0, 1, 1], [0, 0, 0, 0, 0, 0]]).bool()

    def close(a, b):
        return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=1e-6)

    try:
        out = layer(X, Y, P, h, mask)
        later = X.clone()
        later[:, -1] += 1
        if out.shape != X.shape or not out.isfinite().all():
            return True
        if not close(layer(later, Y, P, h, mask)[:, :-1], out[:, :-1]):
            return True
        other = torch.where(mask[..., None], Y, -Y)
        if not close(layer(X, other, P, h, mask), out):
            return True
        if not close(layer(X[:1], Y[:1, :2], P, h)[0], out[0]):
            return True
        return not close(layer(X[1:], Y[1:], P, h, mask[1:]), out[1:])
    except Exception:
        return True


def catches_wrong_decoder__wrong_rough_tolerance(layer):
    """Allows differences of a hundredth, ten thousand times what the docstring allows."""
    generator = torch.Generator().manual_seed(11)

    def normal(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def one_question(B, n, m, h, d_model, d_source, d_self, d_cross, mask):
        roles = {"self": (d_model, h * d_self), "cross": (d_source, h * d_cross)}
        params = {}
        for kind, (d_in, width) in roles.items():
            params |= {f"{kind}_W_Q": normal(d_model, width), f"{kind}_W_K": normal(d_in, width)}
            params |= {f"{kind}_W_V": normal(d_in, width), f"{kind}_W_O": normal(width, d_model)}
        X, Y = normal(B, n, d_model), normal(B, m, d_source)
        expected = decoder_layer(X, Y, params, h, mask)
        try:
            found = layer(X, Y, params, h, mask)
        except Exception:
            return True
        if found.shape != expected.shape or found.isnan().any():
            return True
        return bool(((found - expected).abs() / expected.abs().max()).max() > 1e-2)

    def holes(B, m):
        mask = torch.rand(B, m, generator=generator) < 0.6
        mask[-1] = False
        return mask

    return any([
        one_question(3, 6, 9, 2, 7, 5, 3, 4, None),
        one_question(4, 4, 4, 4, 6, 6, 2, 2, holes(4, 4)),
        one_question(3, 1, 7, 3, 8, 9, 2, 5, holes(3, 7)),
        one_question(5, 8, 1, 2, 5, 7, 4, 3, None),
        one_question(6, 5, 11, 3, 9, 4, 3, 2, holes(6, 11)),
    ])


def catches_wrong_decoder__right_five_recomputed(layer):
    """Five inputs chosen for where bugs hide; the right result is worked out token by token and head by head."""
    g = torch.Generator().manual_seed(0)

    def normal(*shape, size=1.0):
        return size * torch.randn(shape, generator=g, dtype=torch.float64)

    def mix(x, y, W, h):
        """What the last rows of x get from the rows of y, head by head."""
        parts = zip(*(w.chunk(h, dim=1) for w in W[:3]), W[3].chunk(h, dim=0))
        total = torch.zeros_like(x)
        for w_q, w_k, w_v, w_o in parts:
            scores = (x @ w_q) @ (y @ w_k).T / math.sqrt(w_q.shape[1])
            total = total + torch.softmax(scores, dim=1) @ (y @ w_v) @ w_o
        return total

    def right(X, Y, P, h, mask):
        own, cross = ([P[f"{kind}_W_{role}"] for role in "QKVO"] for kind in ("self", "cross"))
        result = []
        for b, (x, y) in enumerate(zip(X, Y)):
            seen = y if mask is None else y[mask[b]]
            x_1 = torch.cat([x[t : t + 1] + mix(x[t : t + 1], x[: t + 1], own, h) for t in range(len(x))])
            result.append(x_1 + mix(x_1, seen, cross, h) if len(seen) else x_1)
        return torch.stack(result)

    # B, n, m, h, d_model, d_source, d_head of self and of cross, mask
    questions = (
        (2, 11, 16, 2, 7, 9, 3, 5, None),
        (4, 4, 4, 4, 6, 6, 3, 3, "holes"),
        (3, 1, 6, 3, 5, 8, 4, 2, "holes"),
        (5, 6, 1, 1, 8, 5, 5, 7, "holes"),
        (6, 13, 9, 8, 10, 7, 2, 4, "holes"),
    )
    for B, n, m, h, d_model, d_source, d_self, d_cross, kind in questions:
        X, Y, params = normal(B, n, d_model, size=1.5), normal(B, m, d_source, size=1.5), {}
        for name, d_in, d in (("cross", d_source, d_cross), ("self", d_model, d_self)):
            for role, rows in (("O", h * d), ("V", d_in), ("K", d_in), ("Q", d_model)):
                columns = d_model if role == "O" else h * d
                params[f"{name}_W_{role}"] = normal(rows, columns, size=1.3 / math.sqrt(rows))
        mask = None
        if kind == "holes":
            mask = torch.rand(B, m, generator=g) < 0.55
            mask[0], mask[1] = True, False
            if m > 2:
                mask[2] = torch.arange(m) == m - 1
        wanted = right(X, Y, params, h, mask)
        try:
            found = layer(X.clone(), Y.clone(), dict(params), h, None if mask is None else mask.clone())
        except Exception:
            return True
        if not isinstance(found, torch.Tensor) or found.shape != X.shape or not found.isfinite().all():
            return True
        if (found - wanted).abs().max() > 1e-6 * wanted.abs().max():
            return True
    return False
