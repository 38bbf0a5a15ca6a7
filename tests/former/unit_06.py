"""Answers to unit 06's functions, written from the notebook alone."""

import itertools
import math

import torch


def _split(X, n_heads):
    B, n, width = X.shape
    return X.reshape(B, n, n_heads, width // n_heads).transpose(1, 2)


def _merge(X):
    return X.transpose(1, 2).flatten(2)


def _weights(scores, mask=None):
    if mask is None:
        return torch.softmax(scores, dim=-1)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1) * mask


def _attend(X, Y, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Attention from X to Y with a mask that broadcasts to (B, h, n, m): the output and the weights."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    weights = _weights(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge(weights @ V) @ W_O, weights


def _of_keys(source_mask):
    return None if source_mask is None else source_mask[:, None, None, :]


def _four(params, name):
    return [params[f"{name}_W_{role}"] for role in "QKVO"]


def _causal(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


# ---------------------------------------------------------------- cross_attention


def cross_attention__wrong_source_asks(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The roles are exchanged: the queries are made from Y, the keys and values from X."""
    Q, K, V = _split(Y @ W_Q, n_heads), _split(X @ W_K, n_heads), _split(X @ W_V, n_heads)
    weights = _weights(Q @ K.mT / math.sqrt(Q.shape[-1]), _of_keys(source_mask))
    return _merge(weights @ V) @ W_O, weights


def cross_attention__wrong_scaled_from_d_model(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The scores are divided by the root of d_model / h, which is not the width of a head in general."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    scores = Q @ K.mT / math.sqrt(X.shape[-1] / n_heads)
    weights = _weights(scores, _of_keys(source_mask))
    return _merge(weights @ V) @ W_O, weights


def cross_attention__wrong_empty_source_even(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The weights are not corrected after the softmax: a source with nothing allowed gets even weights, not 0."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if source_mask is not None:
        scores = scores.masked_fill(~source_mask[:, None, None, :], torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    return _merge(weights @ V) @ W_O, weights


def cross_attention__wrong_mask_on_queries(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The source mask is lined up with the queries, (B, 1, m, 1), which fits for n = m only and hides rows."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    mask = None if source_mask is None else source_mask[:, None, :, None]
    weights = _weights(scores, mask)
    return _merge(weights @ V) @ W_O, weights


def cross_attention__wrong_weights_averaged(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The weights come back as their mean over the heads, (B, n, m), and not per head."""
    out, weights = _attend(X, Y, W_Q, W_K, W_V, W_O, n_heads, _of_keys(source_mask))
    return out, weights.mean(dim=1)


def cross_attention__wrong_residual_and_scores(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Two slips: X is added to the output, and the scores before the softmax are returned as weights."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    heads = _weights(scores, _of_keys(source_mask)) @ V
    return X + _merge(heads) @ W_O, scores


def cross_attention__right_head_after_head(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Unusual: a loop over heads on blocks of columns; outputs are summed, weights stacked."""
    d = W_Q.shape[1] // n_heads
    allowed = torch.ones(Y.shape[:2], dtype=torch.bool) if source_mask is None else source_mask
    allowed = allowed[:, None, :]
    out, maps = 0, []
    for r in range(n_heads):
        block = slice(r * d, (r + 1) * d)
        scores = torch.bmm(X @ W_Q[:, block] / d**0.5, (Y @ W_K[:, block]).transpose(1, 2))
        A = torch.where(allowed, scores, torch.finfo(scores.dtype).min).softmax(dim=2)
        A = torch.where(allowed, A, torch.zeros_like(A))
        out = out + A @ (Y @ W_V[:, block]) @ W_O[block]
        maps.append(A)
    return out, torch.stack(maps, dim=1)


def cross_attention__right_einsum_and_exp(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Unusual: einsum throughout, and the softmax by hand with a sum that is 1 where nothing is allowed."""
    W_q, W_k, W_v = (W.unflatten(1, (n_heads, -1)) for W in (W_Q, W_K, W_V))
    Q = torch.einsum("bic,chd->bihd", X, W_q)
    K, V = (torch.einsum("bjc,chd->bjhd", Y, W) for W in (W_k, W_v))
    scores = torch.einsum("bihd,bjhd->bhij", Q, K) * W_q.shape[-1] ** -0.5
    if source_mask is not None:
        hidden = ~source_mask[:, None, None, :]
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    if source_mask is not None:
        powers = powers.masked_fill(hidden, 0)
    total = powers.sum(dim=-1, keepdim=True)
    weights = powers / torch.where(total == 0, torch.ones_like(total), total)
    out = torch.einsum("bhij,bjhd,hdc->bic", weights, V, W_O.unflatten(0, (n_heads, -1)))
    return out, weights


# ---------------------------------------------------------------- decoder_layer


def decoder_layer__wrong_asks_with_X(X, Y, params, n_heads, source_mask=None):
    """The cross-attention asks with X, the input of the layer, and not with X_1."""
    X_1 = X + _attend(X, X, *_four(params, "self"), n_heads, _causal(X.shape[1]))[0]
    return X_1 + _attend(X, Y, *_four(params, "cross"), n_heads, _of_keys(source_mask))[0]


def decoder_layer__wrong_second_residual_X(X, Y, params, n_heads, source_mask=None):
    """The second residual is X and not X_1, so that what the self-attention found is not passed on."""
    X_1 = X + _attend(X, X, *_four(params, "self"), n_heads, _causal(X.shape[1]))[0]
    return X + _attend(X_1, Y, *_four(params, "cross"), n_heads, _of_keys(source_mask))[0]


def decoder_layer__wrong_not_causal(X, Y, params, n_heads, source_mask=None):
    """The self-attention has no causal mask, so that every target token sees those that come later."""
    X_1 = X + _attend(X, X, *_four(params, "self"), n_heads)[0]
    return X_1 + _attend(X_1, Y, *_four(params, "cross"), n_heads, _of_keys(source_mask))[0]


def decoder_layer__wrong_source_mask_for_self(X, Y, params, n_heads, source_mask=None):
    """The source mask hides target tokens in the self-attention too, which fits only for n = m."""
    mask = _causal(X.shape[1])
    if source_mask is not None:
        mask = mask & source_mask[:, None, None, :]
    X_1 = X + _attend(X, X, *_four(params, "self"), n_heads, mask)[0]
    return X_1 + _attend(X_1, Y, *_four(params, "cross"), n_heads, _of_keys(source_mask))[0]


def decoder_layer__wrong_input_changed(X, Y, params, n_heads, source_mask=None):
    """The results are added with +=, in place, so that the caller's X is overwritten."""
    X += _attend(X, X, *_four(params, "self"), n_heads, _causal(X.shape[1]))[0]
    X += _attend(X, Y, *_four(params, "cross"), n_heads, _of_keys(source_mask))[0]
    return X


def decoder_layer__wrong_no_first_residual_causal_cross(X, Y, params, n_heads, source_mask=None):
    """Two slips: X is not added to the self-attention, and source tokens j > i are hidden from target token i."""
    n, m = X.shape[1], Y.shape[1]
    X_1, _ = _attend(X, X, *_four(params, "self"), n_heads, _causal(n))
    mask = torch.ones(n, m, dtype=torch.bool).tril()
    if source_mask is not None:
        mask = mask & source_mask[:, None, None, :]
    return X_1 + _attend(X_1, Y, *_four(params, "cross"), n_heads, mask)[0]


def decoder_layer__right_prefix_by_prefix(X, Y, params, n_heads, source_mask=None):
    """Unusual: no causal mask; for each target token the last row of an attention over its beginning is taken."""
    W_self, W_cross = _four(params, "self"), _four(params, "cross")
    rows = []
    for i in range(X.shape[1]):
        last = X[:, i : i + 1]
        last = last + _attend(last, X[:, : i + 1], *W_self, n_heads)[0]
        rows.append(last + _attend(last, Y, *W_cross, n_heads, _of_keys(source_mask))[0])
    return torch.cat(rows, dim=1)


def _einsum_attention(X, Y, W_Q, W_K, W_V, W_O, h, hidden):
    Q, K, V = (torch.einsum("btc,chd->bhtd", T, W.unflatten(1, (h, -1))) for T, W in ((X, W_Q), (Y, W_K), (Y, W_V)))
    scores = torch.einsum("bhid,bhjd->bhij", Q, K).div(Q.shape[-1] ** 0.5)
    A = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(hidden, 0.0)
    return torch.einsum("bhij,bhjd,hdc->bic", A, V, W_O.unflatten(0, (h, -1)))


def decoder_layer__right_hidden_by_places(X, Y, params, n_heads, source_mask=None):
    """Unusual: masks that say what is hidden, made by comparing places, and the two shares kept apart to the end."""
    (B, n, _), m = X.shape, Y.shape[1]
    place = torch.arange(n)
    future = place[None, :] > place[:, None]
    padding = torch.zeros(B, m, dtype=torch.bool) if source_mask is None else source_mask.logical_not()
    P = {name: W for name, W in params.items()}
    first = _einsum_attention(X, X, *(P["self_W_" + c] for c in "QKVO"), n_heads, future)
    second = _einsum_attention(first + X, Y, *(P["cross_W_" + c] for c in "QKVO"), n_heads, padding[:, None, None])
    return second + (first + X)


# ---------------------------------------------------------------- alignment


def alignment__wrong_favourites_averaged(weights):
    """The favourite of each head is taken first, and then the mean of these places."""
    return weights.argmax(dim=-1).double().mean(dim=1).round().long()


def alignment__wrong_largest_target(weights):
    """The largest weight is looked for along the target tokens, so that (B, m) comes out."""
    return weights.mean(dim=1).argmax(dim=1)


def alignment__wrong_head_0(weights):
    """Only head 0 is read, which is right only where there is a single head."""
    return weights[:, 0].argmax(dim=-1)


def alignment__wrong_loudest_head(weights):
    """The largest weight of any head counts, not the mean over the heads."""
    return weights.amax(dim=1).argmax(dim=-1)


def alignment__wrong_weight_not_place(weights):
    """What comes back are the largest mean weights themselves and not their places."""
    return weights.mean(dim=1).max(dim=-1).values


def alignment__wrong_one_based_first_sequence(weights):
    """Two slips: only the first sequence is read, and the source tokens are counted from 1."""
    return weights[0].mean(dim=0).argmax(dim=-1) + 1


def alignment__right_python_loops(weights):
    """Unusual: plain loops over sentences, target tokens and source tokens keep the best sum so far."""
    B, h, n, m = weights.shape
    found = torch.zeros(B, n, dtype=torch.long)
    for b in range(B):
        for i in range(n):
            sums = [sum(weights[b, r, i, j].item() for r in range(h)) for j in range(m)]
            found[b, i] = max(range(m), key=sums.__getitem__)
    return found


def alignment__right_sum_and_max_indices(weights):
    """Unusual: an einsum adds the heads, without dividing, and `max` tells the place beside the value."""
    return torch.einsum("bhij->bij", weights).max(dim=2).indices


# ---------------------------------------------------------------- greedy_decode


def greedy_decode__wrong_end_left_out(next_logits, start, end, max_len):
    """It stops before a generated end is appended, so that the end is missing."""
    tokens = [start]
    while len(tokens) < max_len:
        token = int(next_logits(tokens).argmax())
        if token == end:
            break
        tokens.append(token)
    return tokens


def greedy_decode__wrong_start_not_counted(next_logits, start, end, max_len):
    """max_len new tokens are generated, without counting start, so the result may be one too long."""
    tokens = [start]
    for _ in range(max_len):
        token = int(torch.argmax(next_logits(tokens)))
        tokens.append(token)
        if token == end:
            break
    return tokens


def greedy_decode__wrong_start_may_stop(next_logits, start, end, max_len):
    """The loop asks whether the last token is end before anything is generated: start == end stops at once."""
    tokens = [start]
    while tokens[-1] != end and len(tokens) < max_len:
        tokens.append(int(next_logits(tokens).argmax()))
    return tokens


def greedy_decode__wrong_last_token_only(next_logits, start, end, max_len):
    """The model is handed the last token alone and not all tokens so far."""
    tokens = [start]
    while len(tokens) < max_len:
        token = int(next_logits(tokens[-1:]).argmax())
        tokens.append(token)
        if token == end:
            break
    return tokens


def greedy_decode__wrong_tensors_in_list(next_logits, start, end, max_len):
    """The generated tokens are appended as tensors with one number, not as Python ints."""
    tokens = [start]
    while len(tokens) < max_len:
        token = torch.argmax(next_logits(tokens), dim=-1)
        tokens.append(token)
        if token == end:
            break
    return tokens


def greedy_decode__wrong_sampled_and_no_start(next_logits, start, end, max_len):
    """Two slips: the next token is drawn at random by its probability, and the result is returned without start."""
    tokens = [start]
    while len(tokens) < max_len:
        probabilities = torch.softmax(next_logits(tokens), dim=-1)
        token = int(torch.multinomial(probabilities, 1))
        tokens.append(token)
        if token == end:
            break
    return tokens[1:]


def _generated(next_logits, start, end):
    tokens = [start]
    while True:
        logits = next_logits(list(tokens)).tolist()
        tokens.append(logits.index(max(logits)))
        yield tokens[-1]
        if tokens[-1] == end:
            return


def greedy_decode__right_generator(next_logits, start, end, max_len):
    """Unusual: a generator writes one token after another, and islice takes as many as there is room for."""
    return [start, *itertools.islice(_generated(next_logits, start, end), max_len - 1)]


def greedy_decode__right_for_and_sort(next_logits, start, end, max_len):
    """Unusual: a counted loop, new lists by addition, and the favourite from a stable sort of the logits."""
    tokens = [start]
    for _ in range(1, max_len):
        order = torch.sort(next_logits(tokens[:]), descending=True, stable=True).indices
        tokens = tokens + [order[0].item()]
        if tokens[-1] == end:
            return tokens
    return tokens


# ---------------------------------------------------------------- catches_wrong_decoder


def _expected(X, Y, params, n_heads, source_mask=None):
    X_1 = X + _attend(X, X, *_four(params, "self"), n_heads, _causal(X.shape[1]))[0]
    return X_1 + _attend(X_1, Y, *_four(params, "cross"), n_heads, _of_keys(source_mask))[0]


def _inputs(generator, B, n, m, d_model, d_source, h, d_self, d_cross, size=1.0):
    def normal(*shape, by=1.0):
        return by * torch.randn(*shape, generator=generator, dtype=torch.float64)

    X, Y = normal(B, n, d_model), normal(B, m, d_source)
    params = {}
    for name, d, width in (("self", d_self, d_model), ("cross", d_cross, d_source)):
        params[f"{name}_W_Q"] = normal(d_model, h * d, by=size * d_model**-0.5)
        params[f"{name}_W_K"] = normal(width, h * d, by=size * width**-0.5)
        params[f"{name}_W_V"] = normal(width, h * d, by=width**-0.5)
        params[f"{name}_W_O"] = normal(h * d, d_model, by=(h * d) ** -0.5)
    return X, Y, params, h


def _random_mask(generator, B, m, kind):
    if kind == "none":
        return None
    if kind == "all":
        return torch.ones(B, m, dtype=torch.bool)
    if kind == "end":
        lengths = torch.randint(1, m + 1, (B, 1), generator=generator)
        return torch.arange(m) < lengths
    mask = torch.rand(B, m, generator=generator) < 0.6
    if kind == "empty":
        mask[torch.randint(B, (1,), generator=generator)] = False
    else:
        mask[:, torch.randint(m, (1,), generator=generator)] = True
    return mask


def _is_off(out, right, tolerance=1e-6):
    if not isinstance(out, torch.Tensor) or out.shape != right.shape or not out.isfinite().all():
        return True
    return bool((out - right).abs().max() > tolerance * right.abs().max())


def catches_wrong_decoder__wrong_square_inputs(layer):
    """Every input has n = m, one width for both sides and all heads, and no source mask: other bugs stay hidden."""
    generator = torch.Generator().manual_seed(1)
    for B in range(1, 6):
        for n in (3, 5, 8):
            X, Y, params, h = _inputs(generator, B, n, n, 8, 8, 2, 4, 4)
            right = _expected(X, Y, params, h)
            try:
                out = layer(X, Y, params, h)
            except ValueError:
                return True
            if _is_off(out, right):
                return True
    return False


def catches_wrong_decoder__wrong_exact_equality(layer):
    """The outputs have to be equal to the last bit, so a right layer that adds in another order is accused."""
    generator = torch.Generator().manual_seed(2)
    for kind in ("none", "all", "end", "holes", "empty"):
        for B, n, m, h in ((1, 1, 1, 1), (2, 5, 3, 2), (3, 4, 7, 3), (4, 6, 6, 4), (8, 16, 11, 2)):
            X, Y, params, h = _inputs(generator, B, n, m, 6, 9, h, 3, 4)
            mask = _random_mask(generator, B, m, kind)
            try:
                out = layer(X, Y, params, h, mask)
            except Exception:
                return True
            if not torch.equal(out, _expected(X, Y, params, h, mask)):
                return True
    return False


def catches_wrong_decoder__wrong_padding_at_end_only(layer):
    """All masks are padding at the end with at least one real token: no holes, and no source without any token."""
    generator = torch.Generator().manual_seed(3)
    for round_ in range(60):
        B, n, m, h, d_self, d_cross = (int(torch.randint(1, 6, (), generator=generator)) for _ in range(6))
        X, Y, params, h = _inputs(generator, B, n + 2, m + 2, 7, 5, h, d_self, d_cross, 2.0)
        mask = _random_mask(generator, B, m + 2, "end")
        right = _expected(X, Y, params, h, mask)
        try:
            if _is_off(layer(X, Y, params, h, mask), right):
                return True
        except Exception:
            return True
    return False


def catches_wrong_decoder__wrong_nan_not_seen(layer):
    """A NaN in the output goes unnoticed, since a comparison of NaN with the tolerance is False."""
    generator = torch.Generator().manual_seed(4)
    kinds = ["none", "all", "end", "holes", "empty"]
    for number in range(80):
        B, n, m, h, d_self, d_cross = (int(torch.randint(1, 6, (), generator=generator)) for _ in range(6))
        X, Y, params, h = _inputs(generator, B, n + number % 4, m + number % 7, 6, 8, h, d_self, d_cross, 2.0)
        mask = _random_mask(generator, B, Y.shape[1], kinds[number % 5])
        right = _expected(X, Y, params, h, mask)
        try:
            out = layer(X, Y, params, h, mask)
        except Exception:
            return True
        if out.shape != right.shape:
            return True
        if (out - right).abs().max() > 1e-6 * right.abs().max():
            return True
    return False


def catches_wrong_decoder__wrong_more_than_100_calls(layer):
    """It asks more than 100 questions, and takes the box's refusal of call 101 for a bug of the layer."""
    generator = torch.Generator().manual_seed(5)
    for kind in ("none", "all", "end", "holes", "empty"):
        for n in (1, 3, 4, 7, 16):
            for m in (1, 4, 5, 9, 16):
                X, Y, params, h = _inputs(generator, 3, n, m, 8, 6, 2, 3, 5)
                mask = _random_mask(generator, 3, m, kind)
                right = _expected(X, Y, params, h, mask)
                try:
                    out = layer(X, Y, params, h, mask)
                except ValueError:
                    return True
                if _is_off(out, right):
                    return True
    return False


def catches_wrong_decoder__wrong_one_width_and_not_caught(layer):
    """Two slips: both attentions always have the same d_head, and an error of the layer is not caught as a verdict."""
    generator = torch.Generator().manual_seed(6)
    kinds = ["none", "all", "end", "holes", "empty"]
    for number in range(75):
        B, n, m, h, d_head = (int(torch.randint(1, 6, (), generator=generator)) for _ in range(5))
        X, Y, params, h = _inputs(generator, B, n + number % 5, m + number % 6, 6, 9, h, d_head, d_head, 2.0)
        mask = _random_mask(generator, B, Y.shape[1], kinds[number % 5])
        if _is_off(layer(X, Y, params, h, mask), _expected(X, Y, params, h, mask)):
            return True
    return False


def catches_wrong_decoder__right_many_draws(layer):
    """Unusual: 100 draws of all sizes, strengths and kinds of mask, each compared with a reference of its own."""
    generator = torch.Generator().manual_seed(7)

    def number(low, high):
        return int(torch.randint(low, high + 1, (), generator=generator))

    kinds = ["none", "all", "end", "holes", "empty"]
    for k in range(100):
        B, n, m, h = number(1, 8), number(1, 16), number(1, 16), number(1, 8)
        d_self = number(1, 40 // h)
        d_cross = d_self if k % 4 == 0 else number(1, 40 // h)
        d_model = number(1, 40)
        d_source = d_model if k % 5 == 1 else number(1, 40)
        if k % 6 == 2:
            m = n
        if k % 9 == 3:
            h, d_self, d_cross = 1, number(1, 16), number(1, 16)
        if k in (10, 20):
            B = n = m = 1
        if k in (11, 33, 55, 77):
            B, n, m, h, d_self, d_cross = 8, 16, 16, 8, 5, 3
        size = (1.0, 2.0, 4.0, 8.0, 1.5, 3.0, 0.5)[k % 7]
        X, Y, params, h = _inputs(generator, B, n, m, d_model, d_source, h, d_self, d_cross, size)
        mask = _random_mask(generator, B, m, kinds[k % 5])
        if k % 15 == 4:
            mask = torch.zeros(B, m, dtype=torch.bool)
        right = _expected(X, Y, params, h, mask)
        try:
            if _is_off(layer(X, Y, params, h, mask), right):
                return True
        except Exception:
            return True
    return False


def _by_definition(X, Y, P, h, mask):
    """The two formulas, token by token and head by head."""

    def one(x, seen, name):
        d = P[f"{name}_W_Q"].shape[1] // h
        total = torch.zeros_like(x)
        if len(seen) == 0:
            return total
        for r in range(h):
            W_Q, W_K, W_V = (P[f"{name}_W_{role}"][:, r * d : (r + 1) * d] for role in "QKV")
            scores = (seen @ W_K) @ (x @ W_Q) / math.sqrt(d)
            A = torch.softmax(scores, dim=0)
            total = total + (A @ (seen @ W_V)) @ P[f"{name}_W_O"][r * d : (r + 1) * d]
        return total

    found = torch.empty_like(X)
    for b in range(len(X)):
        source = Y[b] if mask is None else Y[b][mask[b]]
        for i in range(X.shape[1]):
            x_1 = X[b, i] + one(X[b, i], X[b, : i + 1], "self")
            found[b, i] = x_1 + one(x_1, source, "cross")
    return found


def catches_wrong_decoder__right_planned_questions(layer):
    """Unusual: a planned table of sizes times masks, and a reference that goes token by token without any mask."""
    generator = torch.Generator().manual_seed(8)
    sizes = [
        (1, 1, 1, 5, 4, 1, 3, 2),
        (1, 6, 4, 8, 8, 2, 4, 4),
        (2, 4, 4, 6, 6, 3, 2, 5),
        (3, 5, 9, 7, 11, 2, 5, 2),
        (4, 9, 5, 12, 3, 4, 3, 3),
        (2, 1, 7, 4, 10, 2, 1, 6),
        (5, 8, 1, 10, 5, 5, 2, 1),
        (2, 16, 16, 40, 40, 8, 5, 2),
        (8, 7, 13, 9, 1, 1, 4, 8),
        (3, 12, 16, 1, 6, 6, 1, 4),
        (6, 3, 10, 16, 24, 4, 10, 6),
        (2, 14, 6, 24, 16, 7, 4, 5),
    ]
    for number, (B, n, m, d_model, d_source, h, d_self, d_cross) in enumerate(sizes):
        size = (1.0, 3.0, 8.0, 1.5)[number % 4]
        X, Y, params, h = _inputs(generator, B, n, m, d_model, d_source, h, d_self, d_cross, size)
        scattered = torch.rand(B, m, generator=generator) < 0.5
        some_empty = scattered & (torch.arange(B) % 2 == 1)[:, None]
        at_front = torch.arange(m) >= torch.randint(0, m, (B, 1), generator=generator)
        at_end = torch.arange(m) < torch.randint(1, m + 1, (B, 1), generator=generator)
        nothing = torch.zeros(B, m, dtype=torch.bool)
        for mask in (None, ~nothing, scattered, some_empty, at_front, at_end, nothing):
            try:
                out = layer(X, Y, params, h, mask)
            except Exception:
                return True
            if _is_off(out, _by_definition(X, Y, params, h, mask)):
                return True
    return False
