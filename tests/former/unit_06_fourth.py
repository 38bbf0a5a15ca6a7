"""Answers to unit 06's functions, written from the notebook alone."""

import itertools
import math

import torch


def _heads(X, n_heads):
    return X.reshape(X.shape[0], X.shape[1], n_heads, -1).transpose(1, 2)


def _attend(X, Y, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """Attention as the unit wants it; mask: None or booleans that broadcast to (B, h, n, m)."""
    Q, K, V = _heads(X @ W_Q, n_heads), _heads(Y @ W_K, n_heads), _heads(Y @ W_V, n_heads)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if mask is None:
        weights = scores.softmax(-1)
    else:
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1) * mask
    return (weights @ V).transpose(1, 2).flatten(2) @ W_O


def _weights_of(params, kind):
    return [params[f"{kind}_W_{letter}"] for letter in "QKVO"]


def _causal(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


def _reference(X, Y, P, n_heads, source_mask=None):
    mask = None if source_mask is None else source_mask[:, None, None, :]
    X = X + _attend(X, X, *_weights_of(P, "self"), n_heads, _causal(X.shape[1]))
    return X + _attend(X, Y, *_weights_of(P, "cross"), n_heads, mask)


def _draw(g, B, n, m, h, d_self, d_cross, d_model, d_source):
    X = torch.randn(B, n, d_model, generator=g, dtype=torch.float64)
    Y = torch.randn(B, m, d_source, generator=g, dtype=torch.float64)
    P = {}
    for kind, width, source in (("self", h * d_self, d_model), ("cross", h * d_cross, d_source)):
        shapes = {"Q": (d_model, width), "K": (source, width), "V": (source, width), "O": (width, d_model)}
        for letter, shape in shapes.items():
            P[f"{kind}_W_{letter}"] = torch.randn(shape, generator=g, dtype=torch.float64) / shape[0] ** 0.5
    return X, Y, P


# 6.1


def cross_attention__wrong_fourth_hidden_scores_lowered(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Takes 10,000 off the hidden scores, does not replace them: too little where scores are that large themselves."""
    Q, K, V = _heads(X @ W_Q, n_heads), _heads(Y @ W_K, n_heads), _heads(Y @ W_V, n_heads)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if source_mask is not None:
        scores = scores - 1e4 * (~source_mask)[:, None, None, :].to(scores.dtype)
    weights = torch.softmax(scores, dim=-1)
    if source_mask is not None:
        weights = weights * source_mask.any(dim=1)[:, None, None, None]
    return (weights @ V).transpose(1, 2).flatten(2) @ W_O, weights


def cross_attention__wrong_fourth_heads_of_every_hth_column(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Splits (and merges) with the heads as the last axis: head k owns the columns k, k + h, ... and no block."""
    (B, n, _), m = X.shape, Y.shape[1]
    d_head = W_Q.shape[1] // n_heads
    q = (X @ W_Q).reshape(B, n, d_head, n_heads)
    k = (Y @ W_K).reshape(B, m, d_head, n_heads)
    v = (Y @ W_V).reshape(B, m, d_head, n_heads)
    scores = torch.einsum("bidh,bjdh->bhij", q, k) / d_head**0.5
    if source_mask is None:
        weights = scores.softmax(dim=-1)
    else:
        seen = source_mask[:, None, None]
        weights = scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(dim=-1) * seen
    return torch.einsum("bhij,bjdh->bidh", weights, v).flatten(2) @ W_O, weights


def cross_attention__wrong_fourth_root_of_d_model_and_even_padding(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Two slips: divides by the root of d_model // h, and a source of padding alone is read evenly, not with 0."""
    d_head = X.shape[-1] // n_heads
    queries, keys, values = (_heads(A @ W, n_heads) for A, W in ((X, W_Q), (Y, W_K), (Y, W_V)))
    S = queries @ keys.transpose(2, 3) / math.sqrt(d_head)
    if source_mask is not None:
        S = torch.where(source_mask[:, None, None, :], S, torch.finfo(S.dtype).min)
    A = torch.softmax(S, -1)
    return (A @ values).transpose(1, 2).flatten(2) @ W_O, A


# 6.2


def decoder_layer__wrong_fourth_one_d_head_for_both(X, Y, params, n_heads, source_mask=None):
    """Works d_head out once, from cross_W_Q, and divides the scores of both attentions by its root."""
    root = math.sqrt(params["cross_W_Q"].shape[1] // n_heads)

    def attention(asks, asked, kind, allowed):
        W_Q, W_K, W_V, W_O = _weights_of(params, kind)
        scores = _heads(asks @ W_Q, n_heads) @ _heads(asked @ W_K, n_heads).mT / root
        scores = scores.masked_fill(~allowed, torch.finfo(X.dtype).min)
        mixed = (scores.softmax(-1) * allowed) @ _heads(asked @ W_V, n_heads)
        return mixed.transpose(1, 2).flatten(2) @ W_O

    if source_mask is None:
        source_mask = torch.ones(Y.shape[:2], dtype=torch.bool)
    X_1 = X + attention(X, X, "self", _causal(X.shape[1]))
    return X_1 + attention(X_1, Y, "cross", source_mask[:, None, None, :])


def decoder_layer__wrong_fourth_nothing_to_read_skips_the_layer(X, Y, params, n_heads, source_mask=None):
    """A sentence whose source is all padding comes back as X: the self-attention is skipped as well."""
    X_1 = X + _attend(X, X, *_weights_of(params, "self"), n_heads, _causal(X.shape[1]))
    cross = _weights_of(params, "cross")
    if source_mask is None:
        return X_1 + _attend(X_1, Y, *cross, n_heads)
    X_2 = X_1 + _attend(X_1, Y, *cross, n_heads, source_mask[:, None, None, :])
    has_source = source_mask.any(dim=1)[:, None, None]
    return torch.where(has_source, X_2, X)


# 6.3


def alignment__wrong_fourth_softmax_once_more(weights):
    """Takes the weights for scores and puts a softmax before the mean, which flatters a single head's favourite."""
    return torch.softmax(weights, dim=-1).mean(dim=1).argmax(dim=-1)


def alignment__wrong_fourth_one_map_for_the_batch(weights):
    """Averages over batch and heads together and gives every sentence that alignment: right for B = 1."""
    B, h, n, m = weights.shape
    table = weights.reshape(B * h, n, m).mean(0)
    best = [int(row.argmax()) for row in table]
    return torch.tensor([best] * B)


# 6.4


def greedy_decode__wrong_fourth_stops_at_start_as_well(next_logits, start, end, max_len):
    """A generated start is taken for the beginning of a new sentence: it stops there, too."""
    tokens = [start]
    for _ in range(max_len - 1):
        tokens.append(int(torch.argmax(next_logits(tokens))))
        if tokens[-1] in (start, end):
            break
    return tokens


def greedy_decode__wrong_fourth_tests_the_last_token_first(next_logits, start, end, max_len):
    """Asks before each step whether the last token is end: where start == end nothing is written at all."""
    tokens = [start]
    while tokens[-1] != end and len(tokens) < max_len:
        logits = next_logits(list(tokens))
        tokens += [logits.argmax().item()]
    return tokens


def greedy_decode__right_fourth_sentinel_of_iter(next_logits, start, end, max_len):
    """Right: iter(write, end) calls write until it returns end, and islice sets the limit; the loop is empty."""
    tokens = [start]

    def write():
        tokens.append(next_logits(list(tokens)).max(dim=0).indices.item())
        return tokens[-1]

    for _ in itertools.islice(iter(write, end), max_len - 1):
        pass
    return tokens


# 6.5


def catches_wrong_decoder__wrong_fourth_nan_is_not_larger(layer):
    """Compares with a reference, but a NaN is never larger than the tolerance: a layer that returns NaN passes."""
    g = torch.Generator().manual_seed(0)
    for B, n, m, h, d_self, d_cross in ((3, 6, 8, 2, 3, 4), (4, 5, 5, 3, 2, 2), (2, 7, 3, 1, 4, 3), (1, 1, 4, 2, 2, 3)):
        X, Y, P = _draw(g, B, n, m, h, d_self, d_cross, 6, 7)
        mask = torch.rand(B, m, generator=g) < 0.6
        mask[-1] = False
        right = _reference(X, Y, P, h, mask)
        try:
            found = layer(X, Y, P, h, mask)
        except ValueError:
            return True
        if found.shape != X.shape:
            return True
        if (found - right).abs().max() > 1e-6 * right.abs().max():
            return True
    return False


def catches_wrong_decoder__wrong_fourth_target_always_shorter(layer):
    """A fair comparison, but in all five calls n < m and B, h > 1: what is wrong for n >= m or for one head gets by."""
    g = torch.Generator().manual_seed(1)

    def differs(n, m, h, d_self, d_cross, how):
        X, Y, P = _draw(g, 3, n, m, h, d_self, d_cross, 5, 9)
        mask = {"all": None, "holes": torch.rand(3, m, generator=g) < 0.5}.get(how)
        if how == "empty":
            mask = torch.rand(3, m, generator=g) < 0.7
            mask[1] = False
        wanted = _reference(X, Y, P, h, mask)
        try:
            out = layer(X, Y, P, h, mask)
        except Exception:
            return True
        return out.shape != wanted.shape or not bool(((out - wanted).abs() <= 1e-6 * wanted.abs().max()).all())

    calls = [(6, 9, 2, 3, 5, "all"), (5, 8, 3, 4, 2, "holes"), (7, 11, 2, 3, 4, "empty"), (5, 7, 4, 2, 2, "holes")]
    return any(differs(*call) for call in [*calls, (9, 16, 2, 5, 3, "empty")])
