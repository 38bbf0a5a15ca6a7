import math

import torch
import torch.nn.functional as F


# ---------------------------------------------------------------- helpers


def _split(Z, n_heads):
    """(B, t, h*d) -> (B, h, t, d)."""
    B, t, _ = Z.shape
    return Z.reshape(B, t, n_heads, -1).transpose(1, 2)


def _merge(Z):
    """(B, h, t, d) -> (B, t, h*d)."""
    B, _, t, _ = Z.shape
    return Z.transpose(1, 2).reshape(B, t, -1)


def _weigh(scores, mask):
    """Masked softmax; mask None or boolean, broadcast to the scores."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    low = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, low), dim=-1) * mask


def _attend(X, Y, W_Q, W_K, W_V, W_O, n_heads, mask=None, d_head=None):
    """A right multi-head attention, X asks Y; mask broadcasts to (B, h, n, m)."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    A = _weigh(Q @ K.mT / math.sqrt(d_head or Q.shape[-1]), mask)
    return _merge(A @ V) @ W_O, A


def _columns(source_mask):
    """(B, m) -> (B, 1, 1, m)."""
    return None if source_mask is None else source_mask[:, None, None, :]


def _weights_of(params, kind):
    return [params[f"{kind}_W_{letter}"] for letter in "QKVO"]


def _past(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


# ---------------------------------------------------------------- 6.1 cross_attention


def cross_attention__wrong_sixteenth_source_tokens_share(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """The softmax runs over the target tokens: each source token shares itself out."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    scores = Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=-2)
    if source_mask is not None:
        weights = weights * source_mask[:, None, None, :]
    return _merge(weights @ V) @ W_O, weights


def cross_attention__wrong_sixteenth_heads_own_every_hth_column(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """A head owns every h-th column and not a contiguous block of columns."""
    B, n, _ = X.shape
    d_head = W_Q.shape[1] // n_heads
    cut = lambda Z: Z.reshape(B, Z.shape[1], d_head, n_heads).permute(0, 3, 1, 2)
    Q, K, V = cut(X @ W_Q), cut(Y @ W_K), cut(Y @ W_V)
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(d_head)
    weights = _weigh(scores, _columns(source_mask))
    heads = torch.einsum("bhij,bhjd->bidh", weights, V)
    return heads.reshape(B, n, -1) @ W_O, weights


def cross_attention__wrong_sixteenth_source_read_causally(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Target token i may only look at the source tokens 0 … i, as if the source came in step."""
    n, m = X.shape[1], Y.shape[1]
    allowed = torch.ones(n, m, dtype=torch.bool).tril()
    if source_mask is not None:
        allowed = allowed & source_mask[:, None, None, :]
    Q, K, V = (_split(Z @ W, n_heads) for Z, W in ((X, W_Q), (Y, W_K), (Y, W_V)))
    A = _weigh(Q @ K.mT / math.sqrt(Q.shape[-1]), allowed)
    return _merge(A @ V) @ W_O, A


def cross_attention__wrong_sixteenth_divides_by_root_of_model(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Computes d_head as d_model / n_heads for the scale; the width of W_Q decides."""
    d_head = X.shape[-1] / n_heads
    Q = _split(X @ W_Q, n_heads)
    K = _split(Y @ W_K, n_heads)
    V = _split(Y @ W_V, n_heads)
    weights = _weigh(Q @ K.mT / d_head**0.5, _columns(source_mask))
    return _merge(weights @ V) @ W_O, weights


def cross_attention__wrong_sixteenth_merged_without_swap(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """The heads are merged without swapping the axes back: tokens and heads get mixed."""
    B, n, _ = X.shape
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    scores = Q @ K.mT / Q.size(-1) ** 0.5
    weights = _weigh(scores, _columns(source_mask))
    out = (weights @ V).reshape(B, n, -1) @ W_O
    return out, weights


def cross_attention__wrong_sixteenth_empty_source_keeps_weights(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """A source with no True gives out 0, but its weights come back uniform, not 0."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if source_mask is not None:
        scores = scores.masked_fill(
            ~source_mask[:, None, None, :], torch.finfo(scores.dtype).min
        )
    weights = scores.softmax(dim=-1)
    out = _merge(weights @ V) @ W_O
    if source_mask is not None:
        out = out * source_mask.any(dim=1)[:, None, None]
    return out, weights


def cross_attention__wrong_sixteenth_hidden_scores_minus_ten_thousand(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Hidden scores become -1e4: where the allowed ones are that low, hidden tokens win."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if source_mask is None:
        source_mask = torch.ones(Y.shape[:2], dtype=torch.bool)
    scores = scores.masked_fill(~source_mask[:, None, None, :], -1e4)
    weights = torch.softmax(scores, dim=-1)
    weights = weights * source_mask.any(dim=1)[:, None, None, None]
    return _merge(weights @ V) @ W_O, weights


def cross_attention__wrong_sixteenth_nan_gradient_of_empty_source(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Right values, but a source with no True makes NaN gradients (nan_to_num comes too late)."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if source_mask is not None:
        bias = torch.zeros_like(source_mask, dtype=scores.dtype)
        bias = bias.masked_fill(~source_mask, float("-inf"))
        scores = scores + bias[:, None, None, :]
    weights = torch.nan_to_num(torch.softmax(scores, dim=-1), nan=0.0)
    return _merge(weights @ V) @ W_O, weights


def cross_attention__right_sixteenth_sum_over_heads(
    X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None
):
    """Unusual: one head after the other, each through its rows of W_O; out is their sum."""
    maps, out = [], 0
    blocks = [W.chunk(n_heads, dim=1) for W in (W_Q, W_K, W_V)]
    for A_Q, A_K, A_V, A_O in zip(*blocks, W_O.chunk(n_heads, dim=0), strict=True):
        bilinear = A_Q @ A_K.T / math.sqrt(A_Q.shape[1])
        scores = torch.einsum("bip,pq,bjq->bij", X, bilinear, Y)
        mask = None if source_mask is None else source_mask.unsqueeze(1)
        A = _weigh(scores, mask)
        maps.append(A)
        out = out + A @ (Y @ (A_V @ A_O))
    return out, torch.stack(maps, dim=1)


# ---------------------------------------------------------------- 6.2 decoder_layer


def decoder_layer__wrong_sixteenth_asks_with_x(X, Y, params, n_heads, source_mask=None):
    """Both attentions read X: the question to the source does not know what was written."""
    n = X.shape[1]
    written, _ = _attend(X, X, *_weights_of(params, "self"), n_heads, _past(n))
    read, _ = _attend(
        X, Y, *_weights_of(params, "cross"), n_heads, _columns(source_mask)
    )
    return X + written + read


def decoder_layer__wrong_sixteenth_source_first(
    X, Y, params, n_heads, source_mask=None
):
    """The order is turned round: first cross-attention, then causal self-attention."""
    out, _ = _attend(
        X, Y, *_weights_of(params, "cross"), n_heads, _columns(source_mask)
    )
    X_1 = X + out
    out, _ = _attend(
        X_1, X_1, *_weights_of(params, "self"), n_heads, _past(X.shape[1])
    )
    return X_1 + out


def decoder_layer__wrong_sixteenth_residual_is_x(
    X, Y, params, n_heads, source_mask=None
):
    """The second residual is X again: what the self-attention wrote is not carried on."""
    X_1 = X + _attend(
        X, X, *_weights_of(params, "self"), n_heads, _past(X.shape[1])
    )[0]
    cross = _attend(
        X_1, Y, *_weights_of(params, "cross"), n_heads, _columns(source_mask)
    )[0]
    return X + cross


def decoder_layer__wrong_sixteenth_triangle_upside_down(
    X, Y, params, n_heads, source_mask=None
):
    """triu in place of tril: a target token sees itself and the future, not the past."""
    n = X.size(1)
    causal = torch.triu(torch.ones(n, n, dtype=torch.bool))
    X = X + _attend(X, X, *_weights_of(params, "self"), n_heads, causal)[0]
    return (
        X
        + _attend(X, Y, *_weights_of(params, "cross"), n_heads, _columns(source_mask))[
            0
        ]
    )


def decoder_layer__wrong_sixteenth_keys_and_values_swapped(
    X, Y, params, n_heads, source_mask=None
):
    """The weights of the cross-attention are handed over in the wrong order, W_V before W_K."""
    P = params
    X_1 = X + _attend(
        X, X, P["self_W_Q"], P["self_W_K"], P["self_W_V"], P["self_W_O"],
        n_heads, _past(X.shape[1]),
    )[0]  # fmt: skip
    out, _ = _attend(
        X_1, Y, P["cross_W_Q"], P["cross_W_V"], P["cross_W_K"], P["cross_W_O"],
        n_heads, _columns(source_mask),
    )  # fmt: skip
    return X_1 + out


def decoder_layer__wrong_sixteenth_source_mask_on_target_too(
    X, Y, params, n_heads, source_mask=None
):
    """Where the lengths agree, the source mask also hides tokens in the self-attention."""
    B, n, _ = X.shape
    mask = _past(n)[None, None]
    if source_mask is not None and source_mask.shape[1] == n:
        mask = mask & source_mask[:, None, None, :]
    X_1 = X + _attend(X, X, *_weights_of(params, "self"), n_heads, mask)[0]
    return X_1 + _attend(
        X_1, Y, *_weights_of(params, "cross"), n_heads, _columns(source_mask)
    )[0]


def decoder_layer__wrong_sixteenth_one_d_head_for_both(
    X, Y, params, n_heads, source_mask=None
):
    """Computes d_head once, from self_W_Q, and scales both attentions by it."""
    d_head = params["self_W_Q"].shape[1] // n_heads
    causal = torch.ones(X.shape[1], X.shape[1], dtype=torch.bool).tril()
    a, _ = _attend(X, X, *_weights_of(params, "self"), n_heads, causal, d_head)
    X_1 = X + a
    b, _ = _attend(
        X_1, Y, *_weights_of(params, "cross"), n_heads, _columns(source_mask), d_head
    )
    return X_1 + b


def decoder_layer__wrong_sixteenth_question_detached(
    X, Y, params, n_heads, source_mask=None
):
    """Right values, but the question is detached: no gradient flows through the queries."""
    X_1 = X + _attend(
        X, X, *_weights_of(params, "self"), n_heads, _past(X.shape[1])
    )[0]
    question = X_1.detach()
    out, _ = _attend(
        question, Y, *_weights_of(params, "cross"), n_heads, _columns(source_mask)
    )
    return X_1 + out


def decoder_layer__right_sixteenth_token_by_token(
    X, Y, params, n_heads, source_mask=None
):
    """Unusual: one target token at a time, as in writing; each reads only what is there so far."""
    rows = []
    for t in range(X.shape[1]):
        now, so_far = X[:, t : t + 1], X[:, : t + 1]
        now = now + _attend(now, so_far, *_weights_of(params, "self"), n_heads)[0]
        read, _ = _attend(
            now, Y, *_weights_of(params, "cross"), n_heads, _columns(source_mask)
        )
        rows.append(now + read)
    return torch.cat(rows, dim=1)


# ---------------------------------------------------------------- 6.3 alignment


def alignment__wrong_sixteenth_mean_of_favourites(weights: torch.Tensor):
    """Looks for each head's favourite first and averages their places."""
    favourites = weights.argmax(dim=-1)
    return favourites.double().mean(dim=1).round().long()


def alignment__wrong_sixteenth_heads_vote(weights: torch.Tensor):
    """Every head has one vote: the source token with most favourites wins."""
    m = weights.shape[-1]
    votes = F.one_hot(weights.argmax(dim=-1), m).sum(dim=1)
    return votes.argmax(dim=-1)


def alignment__wrong_sixteenth_strongest_head_decides(weights: torch.Tensor):
    """Takes the largest weight of any head in place of the mean over heads."""
    strongest = weights.amax(dim=1)
    return strongest.argmax(dim=-1)


def alignment__wrong_sixteenth_averages_the_batch(weights: torch.Tensor):
    """Averages over axis 0, the sequences of the batch, and not over the heads."""
    mean = weights.mean(dim=0)
    return mean.argmax(dim=-1)


def alignment__wrong_sixteenth_best_target_for_each_source(weights: torch.Tensor):
    """The axes are miscounted: looks for the largest among the target tokens, (B, m)."""
    B, h, n, m = weights.shape
    mean = weights.sum(dim=1) / h  # (B, n, m)
    return mean.argmax(dim=1)


def alignment__wrong_sixteenth_returns_the_weight(weights: torch.Tensor):
    """Returns how much attention the best source token gets, not which one it is."""
    mean = weights.mean(dim=1)
    best, _ = mean.max(dim=-1)
    return best


def alignment__wrong_sixteenth_rounded_as_in_the_table(weights: torch.Tensor):
    """Rounds the means to two decimals, as printed: close or small weights become equal."""
    mean = torch.einsum("bhij->bij", weights) / weights.shape[1]
    return torch.round(mean, decimals=2).argmax(dim=-1)


def alignment__wrong_sixteenth_sums_into_head_zero(weights: torch.Tensor):
    """Right values, but the sum is collected in the caller's weights, in head 0."""
    total = weights[:, 0]
    for r in range(1, weights.shape[1]):
        total += weights[:, r]
    return total.argmax(dim=-1)


def alignment__right_sixteenth_challenger_by_challenger(weights: torch.Tensor):
    """Unusual: goes through the source tokens, and a larger mean takes the place of the best."""
    means = weights.mean(dim=1).unbind(dim=-1)
    best = means[0]
    place = torch.zeros(best.shape, dtype=torch.long, device=weights.device)
    for j, mean in enumerate(means):
        place = torch.where(mean > best, j, place)
        best = torch.maximum(best, mean)
    return place


# ---------------------------------------------------------------- 6.4 greedy_decode


def greedy_decode__wrong_sixteenth_shows_only_last_token(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """The model is shown the last token only, not all tokens so far."""
    tokens = [start]
    while len(tokens) < max_len:
        logits = next_logits([tokens[-1]])
        tokens.append(int(logits.argmax()))
        if tokens[-1] == end:
            break
    return tokens


def greedy_decode__wrong_sixteenth_end_is_left_out(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """Takes end for a signal only: it is not part of the result."""
    written = [start]
    for _ in range(max_len - 1):
        token = int(torch.argmax(next_logits(written)))
        if token == end:
            return written
        written = written + [token]
    return written


def greedy_decode__wrong_sixteenth_start_is_not_counted(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """max_len counts what the model writes: the start comes on top."""
    tokens = [start]
    generated = 0
    while generated < max_len:
        token = next_logits(tokens).argmax().item()
        tokens.append(token)
        generated += 1
        if token == end:
            break
    return tokens


def greedy_decode__wrong_sixteenth_one_token_too_few(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """The loop runs from 1 to max_len - 2: one token is missing where no end comes."""
    tokens = [start]
    for _ in range(1, max_len - 1):
        tokens.append(int(next_logits(tokens).argmax()))
        if tokens[-1] == end:
            break
    return tokens


def greedy_decode__wrong_sixteenth_best_starts_at_zero(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """Looks for the largest logit above 0: if all are negative, it takes token 0."""
    tokens = [start]
    while len(tokens) < max_len:
        best, best_logit = 0, 0.0
        for token, logit in enumerate(next_logits(tokens).tolist()):
            if logit > best_logit:
                best, best_logit = token, logit
        tokens.append(best)
        if best == end:
            break
    return tokens


def greedy_decode__wrong_sixteenth_always_closes_with_end(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """Where no end comes, the last place is filled with an end that was not generated."""
    tokens = [start]
    while len(tokens) < max_len:
        if len(tokens) == max_len - 1:
            tokens.append(end)
            break
        token = int(next_logits(tokens).argmax())
        tokens.append(token)
        if token == end:
            break
    return tokens


def greedy_decode__wrong_sixteenth_start_stops_it(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """If start and end are the same token, it stops before anything is written."""
    tokens = [start]
    while tokens[-1] != end and len(tokens) < max_len:
        tokens.append(int(next_logits(tokens).argmax(dim=-1)))
    return tokens


def greedy_decode__wrong_sixteenth_list_of_tensors(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """The right tokens, but they stay tensors of one number and are no Python ints."""
    tokens = [start]
    while len(tokens) < max_len:
        token = torch.argmax(next_logits(tokens))
        tokens.append(token)
        if token == end:
            break
    return tokens


def _writing(next_logits, tokens):
    """Yields one likeliest token after the other, and appends each to tokens."""
    while True:
        logits = next_logits(list(tokens)).tolist()
        tokens.append(max(range(len(logits)), key=logits.__getitem__))
        yield tokens[-1]


def greedy_decode__right_sixteenth_generator(
    next_logits, start: int, end: int, max_len: int
) -> list[int]:
    """Unusual: a generator writes on for ever, and is asked for max_len - 1 tokens at most."""
    tokens = [int(start)]
    for _, token in zip(range(max_len - 1), _writing(next_logits, tokens)):
        if token == end:
            break
    return tokens


# ---------------------------------------------------------------- 6.5 catches_wrong_decoder


def _reference(X, Y, P, n_heads, source_mask=None):
    """A right decoder layer."""
    X_1 = X + _attend(X, X, *_weights_of(P, "self"), n_heads, _past(X.shape[1]))[0]
    cross = _attend(X_1, Y, *_weights_of(P, "cross"), n_heads, _columns(source_mask))
    return X_1 + cross[0]


def _case(seed, B, n, m, h, d_self, d_cross, d_model, d_source, masked, sharp=1.0):
    """Random inputs: X, Y, params, n_heads, source_mask."""
    g = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    P = {}
    for kind, d_head, width in (("self", d_self, d_model), ("cross", d_cross, d_source)):
        P[f"{kind}_W_Q"] = sharp * draw(d_model, h * d_head) / d_model**0.5
        P[f"{kind}_W_K"] = sharp * draw(width, h * d_head) / width**0.5
        P[f"{kind}_W_V"] = draw(width, h * d_head) / width**0.5
        P[f"{kind}_W_O"] = draw(h * d_head, d_model) / (h * d_head) ** 0.5
    mask = None
    if masked:
        mask = torch.rand(B, m, generator=g) < 0.6
        mask[:, -1] |= torch.rand(B, generator=g) < 0.5
        mask[B // 2] = False
    return draw(B, n, d_model), draw(B, m, d_source), P, h, mask


def _five_cases():
    return [
        _case(1, 5, 7, 9, 2, 3, 5, 11, 8, True),
        _case(2, 4, 4, 4, 4, 2, 2, 8, 8, True, 2.0),
        _case(3, 2, 16, 6, 3, 5, 2, 7, 13, False),
        _case(4, 8, 5, 16, 8, 2, 4, 16, 5, True, 1.5),
        _case(5, 3, 1, 2, 1, 4, 4, 5, 6, True),
    ]


def catches_wrong_decoder__wrong_sixteenth_experiments_only(layer) -> bool:
    """Looks only at who can move whom: a wrong number that leaks nothing gets by."""
    X, Y, P, h, _ = _case(7, 3, 5, 6, 2, 3, 4, 7, 9, False)
    mask = torch.ones(3, 6, dtype=torch.bool)
    mask[0, 4:] = mask[2, :2] = False
    try:
        out = layer(X, Y, P, h, mask)
        X_2, Y_2 = X.clone(), Y.clone()
        X_2[:, -1] += 1
        Y_2[~mask] -= 1
        later, hidden = layer(X_2, Y, P, h, mask), layer(X, Y_2, P, h, mask)
    except Exception:
        return True
    if out.shape != X.shape or out.isnan().any():
        return True
    leak = (later - out)[:, :-1].abs().max() + (hidden - out).abs().max()
    return bool(leak > 1e-6)


def catches_wrong_decoder__wrong_sixteenth_exactly_equal(layer) -> bool:
    """Wants the very same bits: another order of a sum is taken for a bug."""
    for X, Y, P, h, mask in _five_cases():
        try:
            out = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if out.shape != X.shape or not torch.equal(out, _reference(X, Y, P, h, mask)):
            return True
    return False


def catches_wrong_decoder__wrong_sixteenth_mean_error(layer) -> bool:
    """Judges by the mean difference over all entries, within 1 %: small bugs drown."""
    for X, Y, P, h, mask in _five_cases():
        try:
            out = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if out.shape != X.shape or out.isnan().any():
            return True
        right = _reference(X, Y, P, h, mask)
        error = (out - right).abs().mean() / right.abs().mean()
        if error > 0.01:
            return True
    return False


def catches_wrong_decoder__wrong_sixteenth_last_case_decides(layer) -> bool:
    """The verdict is overwritten in the loop: only the last of the five inputs counts."""
    wrong = False
    for X, Y, P, h, mask in _five_cases():
        right = _reference(X, Y, P, h, mask)
        try:
            out = layer(X, Y, P, h, mask)
            wrong = out.shape != right.shape or not bool(
                ((out - right).abs() <= 1e-6 * right.abs().max()).all()
            )
        except Exception:
            return True
    return wrong


def catches_wrong_decoder__wrong_sixteenth_first_sequence_only(layer) -> bool:
    """An index [0] too many: only the first sequence of each batch is compared."""
    for X, Y, P, h, mask in _five_cases():
        right = _reference(X, Y, P, h, mask)
        try:
            out = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if out.shape != X.shape:
            return True
        gap = (out[0] - right[0]).abs()
        if not (gap <= 1e-6 * right.abs().max()).all():
            return True
    return False


def catches_wrong_decoder__wrong_sixteenth_error_is_no_verdict(layer) -> bool:
    """Where the layer raises, it goes on to the next input, as if its own had been invalid."""
    for X, Y, P, h, mask in _five_cases():
        try:
            out = layer(X, Y, P, h, mask)
        except ValueError:
            continue
        right = _reference(X, Y, P, h, mask)
        if out.shape != right.shape:
            return True
        if not torch.allclose(out, right, rtol=0, atol=1e-7 * right.abs().max().item()):
            return True
    return False


def catches_wrong_decoder__wrong_sixteenth_nan_slips_through(layer) -> bool:
    """Asks whether the gap is larger than the tolerance: for NaN the answer is no."""
    for X, Y, P, h, mask in _five_cases():
        right = _reference(X, Y, P, h, mask)
        try:
            out = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if out.shape != right.shape:
            return True
        gap = (out - right).abs()
        if (gap > 1e-6 * right.abs().max()).any():
            return True
    return False


def catches_wrong_decoder__wrong_sixteenth_global_random_state(layer) -> bool:
    """Right verdicts, but it draws with torch.randn and seeds everybody's random numbers."""
    torch.manual_seed(0)
    for B, n, m, h, d_s, d_c in ((4, 6, 9, 2, 3, 5), (4, 4, 4, 4, 2, 2), (3, 9, 5, 3, 4, 1), (2, 1, 7, 1, 5, 6), (8, 5, 16, 8, 2, 3)):  # fmt: skip
        X, Y = torch.randn(B, n, 8).double(), torch.randn(B, m, 8).double()
        P = {}
        for kind, w in (("self", h * d_s), ("cross", h * d_c)):
            P |= {f"{kind}_W_{r}": torch.randn(8, w).double() / 8**0.5 for r in "QKV"}
            P[f"{kind}_W_O"] = torch.randn(w, 8).double() / w**0.5
        mask = torch.rand(B, m) < 0.6
        mask[-1] = False
        mask = None if B == 3 else mask
        right = _reference(X, Y, P, h, mask)
        try:
            out = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if out.shape != right.shape:
            return True
        if not ((out - right).abs() <= 1e-6 * right.abs().max()).all():
            return True
    return False


def _slowly(X, Y, P, h, mask):
    """The layer from the formulas, one sequence, head and token at a time."""
    result = []
    for b in range(len(X)):
        states = [X[b]]
        for kind in ("self", "cross"):
            state = states[-1]
            asked = state if kind == "self" else Y[b]
            W_Q, W_K, W_V, W_O = _weights_of(P, kind)
            d = W_Q.shape[1] // h
            rows = []
            for i in range(len(state)):
                keys = torch.arange(len(asked))
                if kind == "self":
                    keys = keys[: i + 1]
                elif mask is not None:
                    keys = keys[mask[b]]
                row = state[i]
                for c in range(0, h * d, d):
                    s = (asked[keys] @ W_K[:, c : c + d]) @ (state[i] @ W_Q[:, c : c + d])
                    a = torch.softmax(s / d**0.5, dim=0)
                    row = row + a @ asked[keys] @ W_V[:, c : c + d] @ W_O[c : c + d]
                rows.append(row)
            states.append(torch.stack(rows))
        result.append(states[-1])
    return torch.stack(result)


def catches_wrong_decoder__right_sixteenth_slow_formulas(layer) -> bool:
    """Unusual: the judge is the formula itself, token by token; five inputs of mixed sizes."""

    def fine(X, Y, P, h, mask):
        copies = X.clone(), Y.clone(), {name: W.clone() for name, W in P.items()}
        right = _slowly(X, Y, P, h, mask)
        try:
            out = layer(*copies, h, None if mask is None else mask.clone())
            gap = (out - right).abs().max().item() if out.shape == X.shape else math.nan
        except Exception:
            return False
        return gap <= 1e-6 * right.abs().max().item()

    return not all(fine(*case) for case in _five_cases())
