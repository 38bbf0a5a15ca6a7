"""Right and wrong answers to unit 06_cross_attention, written from the contracts of the functions alone, to test the judge with."""

import math
import warnings
import numpy as np
import torch


def _split(X, n_heads):
    """(B, n, h*d) -> (B, h, n, d)."""
    B, n, d = X.shape
    return X.reshape(B, n, n_heads, d // n_heads).transpose(1, 2)


def _merge(X):
    """(B, h, n, d) -> (B, n, h*d)."""
    B, h, n, d = X.shape
    return X.transpose(1, 2).reshape(B, n, h * d)


def _softmax(scores, mask=None):
    """Weights over the keys, all zero where nothing may be attended to."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1).masked_fill(~mask, 0.0)


def _source(mask):
    """(B, m) -> (B, 1, 1, m)."""
    return None if mask is None else mask[:, None, None, :]


def _weights(Q, K, mask=None):
    """Scaled scores, softmax over the keys."""
    return _softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)


def _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, mask=None, weights=_weights):
    """Attention from X to Y with a mask that broadcasts to (B, h, n, m) and exchangeable weights."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    A = weights(Q, K, mask)
    return _merge(A @ V) @ W_O, A


def cross_attention__right_plain(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Queries from X, keys and values from Y."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    if source_mask is not None:
        keep = source_mask[:, None, None, :]
        scores = scores.masked_fill(~keep, float("-inf"))
        weights = torch.nan_to_num(torch.softmax(scores, dim=-1), nan=0.0)
        weights = weights.masked_fill(~keep, 0.0)
    else:
        weights = torch.softmax(scores, dim=-1)
    return _merge(weights @ V) @ W_O, weights


def cross_attention__right_einsum(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Weights cut into heads, einsum everywhere."""
    Q = torch.einsum("bni,ihd->bhnd", X, W_Q.unflatten(1, (n_heads, -1)))
    K = torch.einsum("bmi,ihd->bhmd", Y, W_K.unflatten(1, (n_heads, -1)))
    V = torch.einsum("bmi,ihd->bhmd", Y, W_V.unflatten(1, (n_heads, -1)))
    S = torch.einsum("bhnd,bhmd->bhnm", Q, K) * Q.shape[-1] ** -0.5
    A = _softmax(S, _source(source_mask))
    return torch.einsum("bhnm,bhmd,hdo->bno", A, V, W_O.unflatten(0, (n_heads, -1))), A


def cross_attention__right_folded_qk(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The QK and OV circuits: scores X (W_Q W_K^T) Y^T, values Y (W_V W_O), per head."""
    q, k, v = (W.unflatten(1, (n_heads, -1)).transpose(0, 1) for W in (W_Q, W_K, W_V))
    QK, OV = q @ k.mT / math.sqrt(q.shape[-1]), v @ W_O.unflatten(0, (n_heads, -1))
    A = _softmax(X[:, None] @ QK @ Y[:, None].mT, _source(source_mask))
    return (A @ (Y[:, None] @ OV)).sum(dim=1), A


def cross_attention__wrong_source_detached(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """No gradient into the encoder's output."""
    return _cross(X, Y.detach(), W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))


def cross_attention__wrong_mask_ignored(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Forgets the mask."""
    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads)


def cross_attention__wrong_mask_first_sequence(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The mask of the first sequence for all."""
    return _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, None if source_mask is None else source_mask[0])


def cross_attention__wrong_library(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The output comes from scaled_dot_product_attention."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    out = torch.nn.functional.scaled_dot_product_attention(Q, K, V, attn_mask=_source(source_mask))
    return _merge(out) @ W_O, _weights(Q, K, _source(source_mask))


def cross_attention__wrong_weights_float64(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The weights come back in float64."""
    out, A = _cross(X, Y, W_Q, W_K, W_V, W_O, n_heads, _source(source_mask))
    return out, A.double()


def _causal(X):
    """(n, n), True on and under the diagonal."""
    return torch.ones(X.shape[1], X.shape[1], dtype=torch.bool, device=X.device).tril()


def _parts(params, prefix):
    """The four weights of one attention."""
    return [params[f"{prefix}_W_{c}"] for c in "QKVO"]


def _layer(X, Y, params, n_heads, source_mask=None, self_weights=_weights, cross_weights=_weights):
    """The layer with exchangeable weights of both attentions."""
    X = X + _cross(X, X, *_parts(params, "self"), n_heads, _causal(X), self_weights)[0]
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask), cross_weights)[0]


def decoder_layer__right_plain(X, Y, params, n_heads, source_mask=None):
    """Causal self-attention, then cross-attention, each added."""
    n = X.shape[1]
    causal = torch.tril(torch.ones(n, n, dtype=torch.bool))
    Q, K, V = (_split(X @ params["self_W_" + c], n_heads) for c in "QKV")
    X = X + _merge(_weights(Q, K, causal) @ V) @ params["self_W_O"]
    p = params
    out, _ = cross_attention__right_plain(
        X, Y, p["cross_W_Q"], p["cross_W_K"], p["cross_W_V"], p["cross_W_O"], n_heads, source_mask
    )
    return X + out


def decoder_layer__right_past_as_source(X, Y, params, n_heads, source_mask=None):
    """Target tokens folded into the batch: each asks the whole target, the mask of the source hides what is later."""
    B, n, d = X.shape
    own, cross = ([params[f"{kind}_W_{role}"] for role in "QKVO"] for kind in ("self", "cross"))
    past = torch.ones(n, n).tril().bool().repeat(B, 1)
    read, _ = _cross(X.reshape(B * n, 1, d), X.repeat_interleave(n, 0), *own, n_heads, _source(past))
    X_1 = X + read.reshape(B, n, d)
    return X_1 + _cross(X_1, Y, *cross, n_heads, _source(source_mask))[0]


def decoder_layer__right_head_loops(X, Y, params, n_heads, source_mask=None):
    """Loops over heads for both attentions; warns."""
    warnings.warn("slow", stacklevel=2)

    def attend(A, B, prefix, keep):
        W_Q, W_K, W_V, W_O = _parts(params, prefix)
        d = W_Q.shape[1] // n_heads
        total = torch.zeros_like(A)
        for i in range(n_heads):
            c = slice(i * d, i * d + d)
            S = torch.bmm(A @ W_Q[:, c], (B @ W_K[:, c]).transpose(1, 2)) / d**0.5
            total = total + torch.bmm(_softmax(S, keep), B @ W_V[:, c]) @ W_O[c]
        return total

    H = attend(X, X, "self", torch.ge(torch.arange(X.shape[1])[:, None], torch.arange(X.shape[1])))
    H = X + H
    return torch.add(H, attend(H, Y, "cross", None if source_mask is None else source_mask.unsqueeze(1)))


def decoder_layer__wrong_source_mask_ignored(X, Y, params, n_heads, source_mask=None):
    """Forgets the mask of the source."""
    return _layer(X, Y, params, n_heads)


def decoder_layer__wrong_no_scale_self(X, Y, params, n_heads, source_mask=None):
    """The self-attention is not scaled."""
    return _layer(X, Y, params, n_heads, source_mask, self_weights=lambda Q, K, m: _softmax(Q @ K.mT, m))


def decoder_layer__wrong_no_scale_cross(X, Y, params, n_heads, source_mask=None):
    """The cross-attention is not scaled."""
    return _layer(X, Y, params, n_heads, source_mask, cross_weights=lambda Q, K, m: _softmax(Q @ K.mT, m))


def decoder_layer__wrong_weak_mask(X, Y, params, n_heads, source_mask=None):
    """-100 on the future: too weak for big scores."""

    def weights(Q, K, m):
        return (Q @ K.mT / math.sqrt(Q.shape[-1]) - 100.0 * ~m).softmax(-1)

    return _layer(X, Y, params, n_heads, source_mask, self_weights=weights)


def decoder_layer__wrong_pops_params(X, Y, params, n_heads, source_mask=None):
    """Pops the weights from the dict: a second call with it fails."""
    ws = [params.pop(f"self_W_{c}") for c in "QKVO"]
    X = X + _cross(X, X, *ws, n_heads, _causal(X))[0]
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


def decoder_layer__wrong_detached_source(X, Y, params, n_heads, source_mask=None):
    """No gradient into the encoder."""
    return _layer(X, Y.detach(), params, n_heads, source_mask)


def decoder_layer__wrong_float32(X, Y, params, n_heads, source_mask=None):
    """Everything in float32."""
    return _layer(X.float(), Y.float(), {k: W.float() for k, W in params.items()}, n_heads, source_mask)


def decoder_layer__wrong_hard_coded_mask(X, Y, params, n_heads, source_mask=None):
    """A causal mask of 4 tokens: later tokens see everything, earlier ones are cut to size."""
    n = X.shape[1]
    keep = torch.ones(n, n, dtype=torch.bool)
    keep[:4, :4] = keep[:4, :4].tril()
    X = X + _cross(X, X, *_parts(params, "self"), n_heads, keep)[0]
    return X + _cross(X, Y, *_parts(params, "cross"), n_heads, _source(source_mask))[0]


def _layer_inputs(seed, B, n, m, h, d_self, d_cross, mask="none", dtype=torch.float64):
    """Random X, Y, params, n_heads and a mask: none, holes, padding, or holes and one empty row."""
    g = torch.Generator().manual_seed(seed)

    def rand(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype)

    d, s, params = 8, 6, {}
    for part, width, source in (("self", h * d_self, d), ("cross", h * d_cross, s)):
        for role, rows in (("Q", d), ("K", source), ("V", source)):
            params[f"{part}_W_{role}"] = rand(rows, width) / math.sqrt(rows)
        params[f"{part}_W_O"] = rand(width, d) / math.sqrt(width)
    allowed = None
    if mask == "padding":
        allowed = torch.arange(m) < torch.tensor([[m - b % m] for b in range(B)])
    elif mask != "none":
        allowed = torch.rand(B, m, generator=g) < 0.6
        allowed[:, -1] = True
        if mask == "empty":
            allowed[0] = False
    return rand(B, n, d), rand(B, m, s), params, h, allowed


def _differs(found, right, tolerance=1e-6):
    if found.shape != right.shape or not torch.isfinite(found).all():
        return True
    return bool((found - right).abs().max() > tolerance * right.abs().max())


def _sizes():
    yield 3, 7, 10, 2, 4, 3, "none"
    yield 4, 7, 5, 3, 2, 4, "holes"
    yield 3, 6, 9, 2, 3, 5, "empty"
    yield 3, 3, 3, 3, 2, 3, "holes"
    yield 2, 1, 1, 4, 3, 2, "holes"


def catches_wrong_decoder__right_numpy_loops(layer):
    """Head by head and token by token in NumPy."""

    def attend(x, rows, W_Q, W_K, W_V, W_O, h):
        out, d = np.zeros(W_O.shape[1]), W_Q.shape[1] // h
        for k in range(h if len(rows) else 0):
            c = slice(k * d, (k + 1) * d)
            s = (rows @ W_K[:, c]) @ (x @ W_Q[:, c]) / np.sqrt(d)
            e = np.exp(s - s.max())
            out += e @ (rows @ W_V[:, c]) / e.sum() @ W_O[c]
        return out

    for seed, sizes in enumerate(_sizes()):
        X, Y, params, h, mask = _layer_inputs(seed + 50, *sizes)
        P = {name: W.numpy() for name, W in params.items()}
        own, cross = ([P[f"{part}_W_{c}"] for c in "QKVO"] for part in ("self", "cross"))
        right = X.numpy().copy()
        for b, (x, y) in enumerate(zip(X.numpy(), Y.numpy(), strict=True)):
            y = y if mask is None else y[mask[b].numpy()]
            for i in range(len(x)):
                right[b, i] += attend(x[i], x[: i + 1], *own, h)
                right[b, i] += attend(right[b, i], y, *cross, h)
        try:
            found = layer(X, Y, params, h, mask).numpy()
        except ValueError:
            return np.bool_(True)
        if found.shape != right.shape or not np.allclose(found, right, rtol=1e-5, atol=1e-6):
            return np.bool_(True)
    return np.bool_(False)


def catches_wrong_decoder__right_in_one_go(layer):
    """Two rich inputs, one of them without its mask as well, and a small one; NaN fails a comparison."""
    for seed, sizes in enumerate(
        ((5, 8, 11, 3, 4, 2, "empty"), (4, 4, 4, 4, 2, 3, "holes"), (2, 1, 1, 2, 2, 3, "none"))
    ):
        X, Y, params, h, mask = _layer_inputs(seed + 9, *sizes)
        right = decoder_layer__right_head_loops(X, Y, params, h, mask)
        try:
            found = layer(X, Y, params, h, source_mask=mask)
            near = bool(((found - right).abs() <= 1e-6 * right.abs().max()).all())
        except Exception:
            near = False
        if not near:
            return True
        if seed == 0 and not torch.allclose(layer(X, Y, params, h), decoder_layer__right_head_loops(X, Y, params, h)):
            return True
    return False


def _beside(layer, all_sizes, tolerance=1e-6, **how):
    """The layer beside mine on these sizes."""
    for seed, sizes in enumerate(all_sizes):
        inputs = _layer_inputs(seed, *sizes, **how)
        try:
            if _differs(layer(*inputs), decoder_layer__right_plain(*inputs), tolerance):
                return True
        except ValueError:
            return True
    return False


def catches_wrong_decoder__wrong_square(layer):
    """As many source tokens as target tokens."""
    return _beside(layer, [(B, n, n, *rest) for B, n, _, *rest in _sizes()])


def catches_wrong_decoder__wrong_same_width(layer):
    """Both attentions have heads of one width."""
    return _beside(layer, [(B, n, m, h, d, d, mask) for B, n, m, h, d, _, mask in _sizes()])


def catches_wrong_decoder__wrong_no_single_token(layer):
    """No sequence of one token, on either side."""
    return _beside(layer, list(_sizes())[:4])


def catches_wrong_decoder__wrong_loose(layer):
    """Accepts differences of a tenth."""
    return _beside(layer, _sizes(), 0.1)


def alignment__right_stable_sort_int32(weights):
    """A stable sort, first place; int32; prints."""
    order = weights.mean(dim=1).sort(dim=-1, descending=True, stable=True).indices
    print("aligned", tuple(order.shape))
    return order[..., 0].to(torch.int32)


def alignment__right_running_best(weights):
    """Runs over the source columns and keeps the best place so far; warns."""
    warnings.warn("column by column", stacklevel=2)
    A = weights.mean(dim=1)
    best, top = torch.zeros(A.shape[:2], dtype=torch.long, device=A.device), A[..., 0]
    for j in range(1, A.shape[-1]):
        better = A[..., j] > top
        best, top = torch.where(better, j, best), torch.where(better, A[..., j], top)
    return best


def alignment__wrong_mean_over_targets(weights):
    """Averages over the targets: (B, h)."""
    return weights.mean(dim=2).argmax(dim=-1)


def alignment__wrong_median(weights):
    """The median of the heads."""
    return weights.median(dim=1).values.argmax(dim=-1)


def greedy_decode__right_python_max(next_logits, start, end, max_len):
    """Python's max with a key: first of the largest; for/break."""
    out = [start]
    for _ in range(max_len - 1):
        logits = torch.as_tensor(next_logits(out.copy())).tolist()
        out += [max(range(len(logits)), key=logits.__getitem__)]
        if out[-1] == end:
            return out
    return out


def greedy_decode__right_sorted(next_logits, start, end, max_len):
    """Sorts (minus logit, id); prints."""
    tokens, done = [start], max_len <= 1
    while not done:
        pairs = sorted((-float(v), i) for i, v in enumerate(next_logits(tokens)))
        tokens.append(pairs[0][1])
        done = tokens[-1] == end or len(tokens) == max_len
    print(tokens)
    return tokens


def _decode(next_logits, start, end, max_len, pick=None, ask=None):
    """Greedy decoding with an exchangeable choice and question."""
    tokens = [start]
    while len(tokens) < max_len:
        logits = torch.as_tensor(next_logits(list(tokens) if ask is None else ask(tokens)))
        tokens.append(int(logits.argmax()) if pick is None else int(pick(logits)))
        if tokens[-1] == end:
            break
    return tokens


def greedy_decode__wrong_at_least_one_generated(next_logits, start, end, max_len):
    """Checks the length after appending: two tokens for max_len = 1."""
    tokens = [start]
    while True:
        tokens.append(int(torch.as_tensor(next_logits(tokens)).argmax()))
        if tokens[-1] == end or len(tokens) >= max_len:
            return tokens


def greedy_decode__wrong_start_suppressed(next_logits, start, end, max_len):
    """Never chooses start again."""

    def pick(v):
        v = v.clone().double()
        if start != end and 0 <= start < len(v):
            v[start] = -math.inf
        return v.argmax()

    return _decode(next_logits, start, end, max_len, pick)


def greedy_decode__wrong_no_repeats(next_logits, start, end, max_len):
    """Stops when a token repeats itself."""
    tokens = _decode(next_logits, start, end, max_len)
    for i in range(1, len(tokens)):
        if tokens[i] == tokens[i - 1]:
            return tokens[:i]
    return tokens


def greedy_decode__wrong_never_stops(next_logits, start, end, max_len):
    """Goes on after end."""
    return _decode(next_logits, start, None, max_len)


def greedy_decode__wrong_stops_at_start(next_logits, start, end, max_len):
    """start and end swapped."""
    return _decode(next_logits, end, start, max_len)


def greedy_decode__wrong_largest_magnitude(next_logits, start, end, max_len):
    """The largest absolute value."""
    return _decode(next_logits, start, end, max_len, lambda v: v.abs().argmax())


def greedy_decode__wrong_sampling(next_logits, start, end, max_len):
    """Samples from the softmax."""
    return _decode(next_logits, start, end, max_len, lambda v: torch.multinomial(v.double().softmax(0), 1))


def greedy_decode__wrong_start_is_end(next_logits, start, end, max_len):
    """Stops at once where start == end."""
    tokens = [start]
    while tokens[-1] != end and len(tokens) < max_len:
        tokens.append(int(torch.as_tensor(next_logits(tokens)).argmax()))
    return tokens


def greedy_decode__wrong_last_is_end(next_logits, start, end, max_len):
    """Puts end in the last place when the length runs out."""
    tokens = _decode(next_logits, start, end, max_len)
    return [*tokens[:-1], end] if len(tokens) == max_len > 1 else tokens


def greedy_decode__wrong_one_short(next_logits, start, end, max_len):
    """One token short of max_len."""
    return _decode(next_logits, start, end, max(max_len - 1, 1))


def greedy_decode__wrong_start_not_counted(next_logits, start, end, max_len):
    """max_len generated tokens besides start."""
    return _decode(next_logits, start, end, max_len + 1)


def greedy_decode__wrong_last_token_only(next_logits, start, end, max_len):
    """Hands over the last token alone."""
    return _decode(next_logits, start, end, max_len, ask=lambda t: t[-1:])


def greedy_decode__wrong_argmin(next_logits, start, end, max_len):
    """The least likely token."""
    return _decode(next_logits, start, end, max_len, torch.argmin)


def greedy_decode__wrong_second_best(next_logits, start, end, max_len):
    """The second best."""
    return _decode(next_logits, start, end, max_len, lambda v: v.argsort(descending=True)[min(1, len(v) - 1)])
