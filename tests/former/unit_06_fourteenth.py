"""Answers to the exercises of unit 6, wrong ones and right ones, as students would write them."""

import math

import torch


def _masked_softmax(scores, allowed=None):
    """The softmax over the last axis among what is allowed; zeros where nothing is."""
    if allowed is None:
        return torch.softmax(scores, dim=-1)
    allowed = allowed.expand(scores.shape)
    some = allowed.any(dim=-1, keepdim=True)
    filled = scores.masked_fill(~allowed & some, -torch.inf)
    weights = torch.softmax(filled, dim=-1)
    return torch.where(some, weights, torch.zeros_like(weights))


def _split_heads(Z, n_heads):
    """(B, t, h*d_head) -> (B, h, t, d_head)."""
    B, t, _ = Z.shape
    return Z.reshape(B, t, n_heads, -1).transpose(1, 2)


def _merge_heads(Z):
    """(B, h, t, d_head) -> (B, t, h*d_head)."""
    B, _, t, _ = Z.shape
    return Z.transpose(1, 2).reshape(B, t, -1)


def _cross_attention(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The answer to exercise 6.1."""
    Q, K, V = _split_heads(X @ W_Q, n_heads), _split_heads(Y @ W_K, n_heads), _split_heads(Y @ W_V, n_heads)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    allowed = None if source_mask is None else source_mask[:, None, None, :]
    weights = _masked_softmax(scores, allowed)
    return _merge_heads(weights @ V) @ W_O, weights


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    """The given self-attention; the mask broadcasts to (B, h, n, n)."""
    Q, K, V = (_split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    return _merge_heads(weights @ V) @ W_O


def _causal(n):
    """The causal mask, (n, n)."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def _weights_of(params, kind):
    """The four matrices of one attention, in order."""
    return [params[f"{kind}_W_{role}"] for role in "QKVO"]


def _decoder_layer(X, Y, params, n_heads, source_mask=None):
    """The answer to exercise 6.2."""
    X_1 = X + _multi_head_attention(X, *_weights_of(params, "self"), n_heads, _causal(X.shape[1]))
    return X_1 + _cross_attention(X_1, Y, *_weights_of(params, "cross"), n_heads, source_mask)[0]


def _draw_layer(B, n, m, width_self, width_cross, d_model, d_source, seed=0):
    """X, Y and params of the given sizes, float64, as the notebook draws them."""
    g = torch.Generator().manual_seed(seed)
    shapes = {"X": (B, n, d_model), "Y": (B, m, d_source)}
    for kind, width, d_in in (("self", width_self, d_model), ("cross", width_cross, d_source)):
        shapes |= {
            f"{kind}_W_Q": (d_model, width),
            f"{kind}_W_K": (d_in, width),
            f"{kind}_W_V": (d_in, width),
            f"{kind}_W_O": (width, d_model),
        }
    drawn = {}
    for name, shape in shapes.items():
        scale = shape[0] ** -0.5 if "W" in name else 1.0
        drawn[name] = torch.randn(shape, generator=g, dtype=torch.float64) * scale
    return drawn.pop("X"), drawn.pop("Y"), drawn


def _five_cases():
    """Five valid inputs with different sizes and masks: (X, Y, params, n_heads, source_mask)."""
    cases = []
    for seed, (sizes, h, rows) in enumerate(
        (
            ((4, 6, 9, 8, 12, 7, 10), 4, ("111111000", "011010110", "000000000", "000000111")),
            ((3, 5, 5, 6, 6, 6, 6), 3, None),
            ((4, 4, 4, 15, 6, 4, 5), 3, ("1111", "1100", "0000", "0101")),
            ((2, 12, 3, 4, 5, 6, 9), 1, ("101", "010")),
            ((1, 1, 1, 2, 6, 1, 3), 2, ("1",)),
        )
    ):
        X, Y, params = _draw_layer(*sizes, seed=seed)
        for name in ("self_W_Q", "cross_W_Q"):  # sharper questions
            params[name] = 2 * params[name]
        mask = None if rows is None else torch.tensor([[sign == "1" for sign in row] for row in rows])
        cases.append((X, Y, params, h, mask))
    return cases


# ------- 6.1 cross_attention


def cross_attention__wrong_fourteenth_residual_added_already(
    X: torch.Tensor,
    Y: torch.Tensor,
    W_Q: torch.Tensor,
    W_K: torch.Tensor,
    W_V: torch.Tensor,
    W_O: torch.Tensor,
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Thinks that the residual belongs to the attention and adds X to out; nothing is to be added here."""
    B, n, _ = X.shape
    m = Y.shape[1]
    d_head = W_Q.shape[1] // n_heads
    Q = (X @ W_Q).reshape(B, n, n_heads, d_head).transpose(1, 2)
    K = (Y @ W_K).reshape(B, m, n_heads, d_head).transpose(1, 2)
    V = (Y @ W_V).reshape(B, m, n_heads, d_head).transpose(1, 2)
    scores = Q @ K.transpose(-1, -2) / d_head**0.5
    weights = _masked_softmax(scores, None if source_mask is None else source_mask[:, None, None])
    out = (weights @ V).transpose(1, 2).reshape(B, n, n_heads * d_head) @ W_O
    return X + out, weights


def cross_attention__wrong_fourteenth_causal_here_too(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Hides source tokens behind the target's place, as if they were its future; all of the source may be read."""
    Q, K, V = _split_heads(X @ W_Q, n_heads), _split_heads(Y @ W_K, n_heads), _split_heads(Y @ W_V, n_heads)
    S = Q @ K.mT / Q.shape[-1] ** 0.5
    n, m = S.shape[-2:]
    allowed = torch.arange(m)[None, :] <= torch.arange(n)[:, None]
    if source_mask is not None:
        allowed = allowed & source_mask[:, None, None, :]
    A = _masked_softmax(S, allowed)
    return _merge_heads(A @ V) @ W_O, A


def cross_attention__wrong_fourteenth_pads_made_zero(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Sets hidden source vectors to zero and thinks them gone; with a score of 0 they still take weight."""
    if source_mask is not None:
        Y = Y * source_mask[..., None].to(Y.dtype)
    q, k, v = (
        torch.stack(z.chunk(n_heads, dim=-1), dim=1) for z in (X @ W_Q, Y @ W_K, Y @ W_V)
    )
    a = torch.softmax(torch.einsum("bhik,bhjk->bhij", q, k) / math.sqrt(q.size(-1)), dim=-1)
    if source_mask is not None:
        a = a * source_mask.any(1)[:, None, None, None].to(a.dtype)
    o = torch.einsum("bhij,bhjk->bihk", a, v).flatten(2)
    return o @ W_O, a


def cross_attention__wrong_fourteenth_axes_not_swapped_back(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Merges the heads with a bare reshape, without swapping heads and tokens back first."""
    B, n, _ = X.shape
    queries = _split_heads(X @ W_Q, n_heads)
    keys = _split_heads(Y @ W_K, n_heads)
    values = _split_heads(Y @ W_V, n_heads)
    scores = queries @ keys.transpose(2, 3) / math.sqrt(queries.shape[-1])
    mask = None if source_mask is None else source_mask.unsqueeze(1).unsqueeze(1)
    weights = _masked_softmax(scores, mask)
    mixed = weights @ values
    return mixed.reshape(B, n, -1) @ W_O, weights


def cross_attention__wrong_fourteenth_divides_by_full_width(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Divides by the root of the width of all heads together; the root of d_head is due."""
    scaled = (X @ W_Q) / W_Q.shape[-1] ** 0.5
    parts, maps = [], []
    for q, k, v in zip(
        scaled.chunk(n_heads, -1), (Y @ W_K).chunk(n_heads, -1), (Y @ W_V).chunk(n_heads, -1), strict=True
    ):
        one = q @ k.mT
        one = _masked_softmax(one, None if source_mask is None else source_mask[:, None, :])
        maps.append(one)
        parts.append(one @ v)
    return torch.cat(parts, dim=-1) @ W_O, torch.stack(maps, dim=1)


def cross_attention__wrong_fourteenth_heads_take_turns(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Deals the columns out to the heads in turn (0, h, 2h, ...); each should own a block of neighbours."""
    B, n, _ = X.shape
    m = Y.shape[1]

    def deal(Z, length):
        return Z.reshape(B, length, -1, n_heads).permute(0, 3, 1, 2)

    Q, K, V = deal(X @ W_Q, n), deal(Y @ W_K, m), deal(Y @ W_V, m)
    scores = Q @ K.mT * K.shape[-1] ** -0.5
    weights = _masked_softmax(scores, None if source_mask is None else source_mask.view(B, 1, 1, m))
    together = (weights @ V).permute(0, 2, 3, 1).reshape(B, n, -1)
    return together @ W_O, weights


def cross_attention__wrong_fourteenth_nothing_real_read_evenly(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Fills hidden scores with the lowest number and stops there; a source without real tokens is then read evenly."""
    Q = _split_heads(X @ W_Q, n_heads)
    K = _split_heads(Y @ W_K, n_heads)
    V = _split_heads(Y @ W_V, n_heads)
    scores = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(Q.shape[-1])
    if source_mask is not None:
        scores = scores.masked_fill(~source_mask[:, None, None, :], torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    return _merge_heads(weights @ V) @ W_O, weights


def cross_attention__wrong_fourteenth_opens_callers_mask(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Opens an empty row in the caller's mask to get round NaN, and blanks the weights later; masks should stay."""
    B = len(X)
    empty = torch.zeros(B, dtype=torch.bool)
    if source_mask is not None:
        empty = ~source_mask.any(dim=1)
        source_mask[empty] = True
    Q, K, V = _split_heads(X @ W_Q, n_heads), _split_heads(Y @ W_K, n_heads), _split_heads(Y @ W_V, n_heads)
    S = Q @ K.mT / math.sqrt(K.shape[-1])
    if source_mask is not None:
        S = S.masked_fill(~source_mask[:, None, None, :], float("-inf"))
    A = torch.softmax(S, dim=-1).masked_fill(empty[:, None, None, None], 0.0)
    return _merge_heads(A @ V) @ W_O, A


def cross_attention__right_fourteenth_einsum_without_merging(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Cuts the matrices instead of the vectors, writes the softmax out, and sums what each head writes back."""
    width = W_Q.shape[1]
    d_head = width // n_heads
    cut = (n_heads, d_head)
    q = torch.einsum("bnd,dhk->bhnk", X, W_Q.reshape(-1, *cut))
    k = torch.einsum("bmd,dhk->bhmk", Y, W_K.reshape(-1, *cut))
    v = torch.einsum("bmd,dhk->bhmk", Y, W_V.reshape(-1, *cut))
    s = torch.einsum("bhnk,bhmk->bhnm", q, k) / math.sqrt(d_head)
    seen = torch.ones(Y.shape[:2], dtype=torch.bool) if source_mask is None else source_mask
    seen = seen[:, None, None, :]
    low = torch.finfo(s.dtype).min
    top = s.masked_fill(~seen, low).amax(-1, keepdim=True)
    gap = torch.where(seen, s - torch.where(seen.any(-1, keepdim=True), top, 0), 0)
    powers = torch.where(seen, gap.exp(), 0)
    total = powers.sum(-1, keepdim=True)
    weights = powers / torch.where(total > 0, total, 1)
    out = torch.einsum("bhnm,bhmk,hkd->bnd", weights, v, W_O.reshape(*cut, -1))
    return out, weights


# ------- 6.2 decoder_layer


def decoder_layer__wrong_fourteenth_source_comes_first(
    X: torch.Tensor,
    Y: torch.Tensor,
    params: dict[str, torch.Tensor],
    n_heads: int,
    source_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Reads the source first and looks at what was written afterwards; self-attention is due first."""
    n = X.shape[1]
    read, _ = _cross_attention(X, Y, *_weights_of(params, "cross"), n_heads, source_mask)
    X_1 = X + read
    return X_1 + _multi_head_attention(X_1, *_weights_of(params, "self"), n_heads, _causal(n))


def decoder_layer__wrong_fourteenth_side_by_side(X, Y, params, n_heads, source_mask=None):
    """Takes the sublayers for parallel ones that both start from X; the second should ask with X_1."""
    past = torch.tril(torch.ones(X.size(1), X.size(1))).bool()
    written = _multi_head_attention(
        X, params["self_W_Q"], params["self_W_K"], params["self_W_V"], params["self_W_O"], n_heads, past
    )
    found = _cross_attention(
        X, Y, params["cross_W_Q"], params["cross_W_K"], params["cross_W_V"], params["cross_W_O"], n_heads, source_mask
    )[0]
    return X + written + found


def decoder_layer__wrong_fourteenth_target_seen_whole(X, Y, params, n_heads, source_mask=None):
    """Thinks that the target is all there in training and may be seen whole; self-attention should be causal."""
    p = params
    X_1 = X + _multi_head_attention(X, *(p["self_W_" + r] for r in "QKVO"), n_heads)
    out, _ = _cross_attention(X_1, Y, *(p["cross_W_" + r] for r in "QKVO"), n_heads, source_mask)
    X_2 = X_1 + out
    return X_2


def decoder_layer__wrong_fourteenth_second_residual_is_x(X, Y, params, n_heads, source_mask=None):
    """Adds the second result to X in place of X_1, so that what the self-attention gave is lost on the way."""
    n = X.shape[1]
    i = torch.arange(n)
    X1 = X + _multi_head_attention(X, *_weights_of(params, "self"), n_heads, i[:, None] >= i[None, :])
    cross, weights = _cross_attention(X1, Y, *_weights_of(params, "cross"), n_heads, source_mask)
    X2 = X + cross
    return X2


def decoder_layer__wrong_fourteenth_keys_values_exchanged(X, Y, params, n_heads, source_mask=None):
    """Hands over cross_W_V where cross_W_K belongs, and the other way round; the shapes are the same."""
    W = {name.replace("_W_", ""): matrix for name, matrix in params.items()}
    X_1 = X + _multi_head_attention(
        X, W["selfQ"], W["selfK"], W["selfV"], W["selfO"], n_heads, _causal(X.shape[1])
    )
    return X_1 + _cross_attention(
        X_1, Y, W["crossQ"], W["crossV"], W["crossK"], W["crossO"], n_heads, source_mask
    )[0]


def decoder_layer__wrong_fourteenth_source_mask_on_target(X, Y, params, n_heads, source_mask=None):
    """Lays source_mask on the self-attention as well, where the lengths agree; it is for cross-attention alone."""
    n, m = X.shape[1], Y.shape[1]
    self_mask = _causal(n)
    if source_mask is not None and n == m:
        self_mask = self_mask & source_mask[:, None, None, :]
    after_self = X + _multi_head_attention(X, *_weights_of(params, "self"), n_heads, self_mask)
    from_source = _cross_attention(after_self, Y, *_weights_of(params, "cross"), n_heads, source_mask)[0]
    return after_self + from_source


def decoder_layer__wrong_fourteenth_one_width_for_both(X, Y, params, n_heads, source_mask=None):
    """Works d_head out once, from self_W_Q, and divides the scores of both attentions by its root; they may differ."""
    d_head = params["self_W_Q"].shape[1] // n_heads
    scale = d_head**-0.5

    def attention(asking, asked, kind, allowed):
        q, k, v = (
            _split_heads(side @ params[f"{kind}_W_{r}"], n_heads)
            for r, side in zip("QKV", (asking, asked, asked), strict=True)
        )
        weights = _masked_softmax(q @ k.mT * scale, allowed)
        return _merge_heads(weights @ v) @ params[f"{kind}_W_O"]

    X_1 = X + attention(X, X, "self", _causal(X.shape[1]))
    return X_1 + attention(X_1, Y, "cross", None if source_mask is None else source_mask[:, None, None, :])


def decoder_layer__wrong_fourteenth_empties_the_dictionary(X, Y, params, n_heads, source_mask=None):
    """Pops the matrices out of params, so that the caller's dictionary is empty afterwards; inputs should stay."""
    self_W = [params.pop(f"self_W_{role}") for role in ("Q", "K", "V", "O")]
    cross_W = [params.pop(f"cross_W_{role}") for role in ("Q", "K", "V", "O")]
    X = X + _multi_head_attention(X, *self_W, n_heads, mask=_causal(X.shape[1]))
    X = X + _cross_attention(X, Y, *cross_W, n_heads, source_mask=source_mask)[0]
    return X


def decoder_layer__right_fourteenth_token_after_token(X, Y, params, n_heads, source_mask=None):
    """Goes from token to token as in writing: each asks the tokens so far, without any causal mask, then the source."""
    rows = []
    for t in range(X.shape[1]):
        last, so_far = X[:, t : t + 1], X[:, : t + 1]
        written, _ = _cross_attention(last, so_far, *_weights_of(params, "self"), n_heads)
        step = last + written
        found, _ = _cross_attention(step, Y, *_weights_of(params, "cross"), n_heads, source_mask)
        rows.append(step + found)
    return torch.cat(rows, dim=1)


# ------- 6.3 alignment


def alignment__wrong_fourteenth_mean_of_the_favourites(weights: torch.Tensor) -> torch.Tensor:
    """Looks for each head's favourite first and averages the places; the weights are to be averaged first."""
    favourites = weights.argmax(dim=-1)  # (B, h, n)
    return favourites.double().mean(dim=1).round().long()


def alignment__wrong_fourteenth_loudest_head_decides(weights):
    """Takes the largest weight of any head; the largest mean over the heads is due."""
    loudest = weights.amax(dim=1)
    return loudest.argmax(dim=-1)


def alignment__wrong_fourteenth_heads_cast_votes(weights):
    """Lets each head vote for its favourite and takes the most frequent one; the mean weights should decide."""
    m = weights.shape[-1]
    votes = torch.nn.functional.one_hot(weights.argmax(-1), num_classes=m).sum(dim=1)
    return votes.argmax(dim=-1)


def alignment__wrong_fourteenth_largest_along_targets(weights):
    """Looks for the largest along the target tokens, one axis too far left, and gives (B, m)."""
    B, h, n, m = weights.shape
    mean = sum(weights[:, r] for r in range(h)) / h
    return torch.argmax(mean, dim=1)


def alignment__wrong_fourteenth_how_much_not_where(weights):
    """Takes the first of what max returns, which is the value; its place, the second, is due."""
    best = weights.mean(1).max(dim=-1)
    return best[0]


def alignment__wrong_fourteenth_places_from_one(weights):
    """Numbers the source tokens 1 to m; 0 to m-1 is asked for."""
    B, h, n, m = weights.shape
    averaged = weights.sum(dim=1)
    places = torch.arange(1, m + 1)
    return places[averaged.argmax(dim=2)]


def alignment__wrong_fourteenth_single_axes_vanish(weights):
    """Squeezes the result, so that a batch of one sequence, or of one target token, loses its axis."""
    averaged = weights.mean(dim=1, keepdim=True)
    return averaged.argmax(dim=-1).squeeze()


def alignment__wrong_fourteenth_adds_into_input(weights):
    """Adds the heads up inside the caller's first head; the places are right, but the input is changed."""
    total = weights[:, 0]
    for r in range(1, weights.shape[1]):
        total += weights[:, r]
    return total.argmax(dim=-1)


def alignment__right_fourteenth_one_column_after_another(weights):
    """Walks over the source tokens and keeps, for each target token, the best mean so far and its place."""
    mean = torch.einsum("bhnm->bnm", weights) / weights.shape[1]
    best = mean[..., 0]
    place = torch.zeros(best.shape, dtype=torch.long)
    for j in range(1, mean.shape[-1]):
        better = mean[..., j] > best
        best = torch.where(better, mean[..., j], best)
        place = torch.where(better, j, place)
    return place


# ------- 6.4 greedy_decode


def greedy_decode__wrong_fourteenth_throws_the_dice(next_logits, start: int, end: int, max_len: int) -> list[int]:
    """Draws the next token from the softmax; the one with the largest logit is to be taken each time."""
    tokens = [start]
    while len(tokens) < max_len:
        chances = torch.softmax(next_logits(tokens), dim=-1)
        tokens.append(int(torch.multinomial(chances, 1)))
        if tokens[-1] == end:
            break
    return tokens


def greedy_decode__wrong_fourteenth_shows_last_token_only(next_logits, start, end, max_len):
    """Thinks that the model remembers what it has seen and shows it the last token alone; all of them are due."""
    written = [start]
    for _ in range(max_len - 1):
        logits = next_logits(written[-1:])
        token = int(torch.argmax(logits))
        written.append(token)
        if token == end:
            return written
    return written


def greedy_decode__wrong_fourteenth_no_token_twice(next_logits, start, end, max_len):
    """Thinks that a token is used up once it is written and takes the best of the others; words may repeat."""
    out = [start]
    done = max_len <= 1
    while not done:
        logits = next_logits(list(out)).clone()
        used = [t for t in out if t != end]
        logits[used] = float("-inf")
        new = int(logits.argmax())
        out.append(new)
        done = new == end or len(out) >= max_len
    return out


def greedy_decode__wrong_fourteenth_stops_before_appending(next_logits, start, end, max_len):
    """Breaks off before the new token is appended, so that a generated end is missing from the result."""
    tokens = [start]
    while len(tokens) < max_len:
        best = next_logits(tokens).argmax().item()
        if best == end:
            break
        tokens.append(best)
    return tokens


def greedy_decode__wrong_fourteenth_asks_only_once(next_logits, start, end, max_len):
    """Asks the model in front of the loop and never again, so that the first favourite is written throughout."""
    result = [start]
    logits = next_logits(result)
    while len(result) < max_len:
        favourite = max(range(len(logits)), key=lambda i: float(logits[i]))
        result += [favourite]
        if favourite == end:
            break
    return result


def greedy_decode__wrong_fourteenth_start_not_counted(next_logits, start, end, max_len):
    """Reads max_len as the number of generated tokens, and writes one too many; start counts too."""
    sequence = [start]
    for step in range(max_len):
        _, index = next_logits(sequence).topk(1)
        sequence.append(int(index[0]))
        if sequence[-1] == end:
            break
    return sequence


def greedy_decode__wrong_fourteenth_start_may_end_it(next_logits, start, end, max_len):
    """Looks for end in the last token, start included; where both are one token, nothing is ever written."""
    tokens = [int(start)]
    while tokens[-1] != end and len(tokens) < max_len:
        tokens.append(int(next_logits(tokens).argmax()))
    return tokens


def greedy_decode__wrong_fourteenth_tensors_in_the_list(next_logits, start, end, max_len):
    """Appends the places of the largest logits as tensors with one number; Python ints are due."""
    tokens = [start]
    while True:
        if len(tokens) == max_len:
            return tokens
        new = torch.argmax(next_logits(tokens), dim=-1)
        tokens.append(new)
        if new == end:
            return tokens


def greedy_decode__right_fourteenth_generator_of_tokens(next_logits, start, end, max_len):
    """A generator hands out one token after another, and the list is made of what it yields."""

    def tokens_one_by_one():
        so_far = (start,)
        yield start
        while len(so_far) < max_len:
            logits = torch.as_tensor(next_logits([*so_far]))
            token = int(logits.max(dim=0).indices)
            so_far += (token,)
            yield token
            if token == end:
                return

    return list(tokens_one_by_one())


# ------- 6.5 catches_wrong_decoder


def catches_wrong_decoder__wrong_fourteenth_masks_left_out(layer) -> bool:
    """Takes the mask for an extra that cannot be wrong and asks without one each time; bugs of the mask get by."""
    for X, Y, params, h, _ in _five_cases():
        right = _decoder_layer(X, Y, params, h)
        try:
            answer = layer(X, Y, params, h)
        except Exception:
            return True
        if answer.shape != X.shape or not answer.isfinite().all():
            return True
        if (answer - right).abs().max() > 1e-6 * right.abs().max():
            return True
    return False


def catches_wrong_decoder__wrong_fourteenth_asks_no_numbers(layer):
    """Thinks that shape, causality and padding say all and compares with no right result; no self-attention passes."""
    X, Y, P = _draw_layer(3, 5, 7, 6, 9, 8, 10, seed=4)
    mask = torch.arange(7) < torch.tensor([[7], [4], [2]])
    try:
        out = layer(X, Y, P, 3, mask)
        later, junk = X.clone(), Y.clone()
        later[:, 3:] += 1
        junk[~mask] = 9.0
        out_later = layer(later, Y, P, 3, mask)
        out_junk = layer(X, junk, P, 3, mask)
    except Exception:
        return True
    for tensor in (out, out_later, out_junk):
        if tensor.shape != X.shape or tensor.isnan().any():
            return True
    leaks = (out_later - out)[:, :3].abs().max() > 1e-6
    padding_read = (out_junk - out).abs().max() > 1e-6
    return bool(leaks or padding_read)


def catches_wrong_decoder__wrong_fourteenth_bit_for_bit(layer):
    """Thinks that right layers agree to the last bit; one that adds in another order is accused."""
    verdict = False
    for X, Y, params, h, mask in _five_cases():
        expected = _decoder_layer(X, Y, params, h, mask)
        try:
            verdict = verdict or not torch.equal(layer(X, Y, params, h, mask), expected)
        except Exception:
            verdict = True
    return verdict


def catches_wrong_decoder__wrong_fourteenth_verdict_after_one_case(layer):
    """Returns out of the loop after its first round, so that the other four inputs are never tried."""
    cases = sorted(_five_cases(), key=lambda case: case[0].numel())  # the small ones first
    for X, Y, params, h, mask in cases:
        try:
            out = layer(X, Y, params, h, mask)
        except Exception:
            return True
        ref = _decoder_layer(X, Y, params, h, mask)
        if out.shape != ref.shape or out.isnan().any():
            return True
        return bool((out - ref).abs().max() > 1e-6 * ref.abs().max())
    return False


def catches_wrong_decoder__wrong_fourteenth_own_scale_is_off(layer):
    """Its own "right" result divides both attentions by the root of one d_head, and so right layers are accused."""

    def expected(X, Y, P, h, mask):
        root = (P["self_W_Q"].shape[1] / h) ** 0.5

        def attend(A, B, kind, allowed):
            q = _split_heads(A @ P[kind + "_W_Q"], h)
            k = _split_heads(B @ P[kind + "_W_K"], h)
            v = _split_heads(B @ P[kind + "_W_V"], h)
            return _merge_heads(_masked_softmax(q @ k.mT / root, allowed) @ v) @ P[kind + "_W_O"]

        X_1 = X + attend(X, X, "self", _causal(X.shape[1]))
        return X_1 + attend(X_1, Y, "cross", None if mask is None else mask[:, None, None, :])

    for case in _five_cases():
        want = expected(*case)
        try:
            got = layer(*case)
        except Exception:
            return True
        if got.shape != want.shape or not bool(((got - want).abs() <= 1e-6 * want.abs().max()).all()):
            return True
    return False


def catches_wrong_decoder__wrong_fourteenth_largest_entries_compared(layer):
    """Reads the rule as one about the largest entries and compares those two alone; each entry has to agree."""
    for X, Y, params, h, mask in _five_cases():
        try:
            result = layer(X, Y, params, h, mask)
        except Exception:
            return True
        if tuple(result.shape) != tuple(X.shape) or result.isnan().any():
            return True
        top = _decoder_layer(X, Y, params, h, mask).abs().max().item()
        if abs(result.abs().max().item() - top) > 1e-6 * top:
            return True
    return False


def catches_wrong_decoder__wrong_fourteenth_nan_slips_through(layer):
    """Asks whether the largest difference is above the tolerance; with NaN that is never so, and the layer passes."""
    wrong = []
    for X, Y, params, h, mask in _five_cases():
        try:
            out = layer(X, Y, params, h, mask)
        except ValueError:
            return True
        ref = _decoder_layer(X, Y, params, h, mask)
        if out.shape != X.shape:
            return True
        wrong.append((out - ref).abs().max().item() > 1e-6 * ref.abs().max().item())
    return any(wrong)


def catches_wrong_decoder__wrong_fourteenth_draws_without_seed(layer):
    """Tells them apart, but draws its inputs from the global generator; one of its own with a fixed seed is due."""
    sizes = [
        (4, 6, 9, 8, 12, 7, 10, 4),
        (3, 5, 5, 6, 6, 6, 6, 3),
        (4, 4, 4, 15, 6, 4, 5, 3),
        (2, 12, 3, 4, 5, 6, 9, 1),
        (2, 1, 1, 2, 6, 1, 3, 2),
    ]
    for B, n, m, a, c, d, e, h in sizes:
        X, Y = torch.randn(B, n, d).double(), torch.randn(B, m, e).double()
        P = {"self_W_Q": torch.randn(d, a), "self_W_K": torch.randn(d, a), "self_W_V": torch.randn(d, a)}
        P |= {"cross_W_Q": torch.randn(d, c), "cross_W_K": torch.randn(e, c), "cross_W_V": torch.randn(e, c)}
        P |= {"self_W_O": torch.randn(a, d), "cross_W_O": torch.randn(c, d)}
        P = {name: W.double() / len(W) ** 0.5 for name, W in P.items()}
        mask = torch.rand(B, m) < 0.6
        mask[0] = False
        try:
            out = layer(X, Y, P, h, mask if n != 5 else None)
        except Exception:
            return True
        ref = _decoder_layer(X, Y, P, h, mask if n != 5 else None)
        if out.shape != ref.shape or not ((out - ref).abs() <= 1e-6 * ref.abs().max()).all():
            return True
    return False


def catches_wrong_decoder__right_fourteenth_token_by_token_oracle(layer):
    """Holds five varied inputs against a layer without any mask, which cuts the keys out for each token and head."""

    def ask(vector, asked, W_Q, W_K, W_V, W_O, h):
        """One token's attention to the rows of `asked`, head by head."""
        if len(asked) == 0:
            return torch.zeros_like(vector)
        d, found = W_Q.shape[1] // h, torch.zeros_like(vector)
        for k in range(0, h * d, d):
            own = slice(k, k + d)
            s = (asked @ W_K[:, own]) @ (vector @ W_Q[:, own]) / d**0.5
            e = (s - s.max()).exp()
            found = found + (e / e.sum()) @ (asked @ W_V[:, own]) @ W_O[own]
        return found

    def oracle(X, Y, P, h, mask):
        self_W, cross_W = ([P[f"{kind}_W_{r}"] for r in "QKVO"] for kind in ("self", "cross"))
        out = torch.empty_like(X)
        for b in range(len(X)):
            source = Y[b] if mask is None else Y[b][mask[b]]
            for t in range(X.shape[1]):
                x_1 = X[b, t] + ask(X[b, t], X[b, : t + 1], *self_W, h)
                out[b, t] = x_1 + ask(x_1, source, *cross_W, h)
        return out

    g = torch.Generator().manual_seed(14)
    plans = (  # B, n, m, widths of self and cross, d_model, d_source, heads, mask
        (5, 7, 11, 12, 20, 10, 13, 4, "holes"),
        (3, 6, 6, 6, 6, 6, 6, 3, "holes"),
        (2, 16, 5, 24, 8, 9, 4, 8, None),
        (4, 4, 4, 5, 3, 40, 7, 1, "ends"),
        (1, 1, 1, 3, 6, 2, 1, 3, "none"),
    )

    def draw(*shape, size=1.0):
        return size * torch.randn(*shape, generator=g, dtype=torch.float64)

    for B, n, m, w_self, w_cross, d_model, d_source, h, kind in plans:
        X, Y, P = draw(B, n, d_model), draw(B, m, d_source), {}
        for name, width, d_in in (("self", w_self, d_model), ("cross", w_cross, d_source)):
            P[f"{name}_W_Q"] = draw(d_model, width, size=2 * d_model**-0.5)
            P[f"{name}_W_K"] = draw(d_in, width, size=d_in**-0.5)
            P[f"{name}_W_V"] = draw(d_in, width, size=d_in**-0.5)
            P[f"{name}_W_O"] = draw(width, d_model, size=width**-0.5)
        mask = None
        if kind == "holes":  # a full one, holes, pads in front, and nothing at all in the last
            mask = torch.rand(B, m, generator=g) < 0.6
            mask[0], mask[1, 0], mask[1, -1], mask[-1] = True, False, True, False
        elif kind == "ends":
            mask = torch.arange(m) < torch.tensor([[m], [0], [2], [1]])
        elif kind == "none":
            mask = torch.zeros(B, m, dtype=torch.bool)
        wanted = oracle(X, Y, P, h, mask)
        try:
            answer = layer(X.clone(), Y.clone(), {k: W.clone() for k, W in P.items()}, h, mask)
        except Exception:
            return True
        if not isinstance(answer, torch.Tensor) or answer.shape != X.shape:
            return True
        if not bool(((answer - wanted).abs() <= 1e-6 * wanted.abs().max()).all()):
            return True
    return False
