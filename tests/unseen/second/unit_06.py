import math
from collections import Counter

import torch
import torch.nn.functional as F

# ---------------------------------------------------------------- given in the notebook


def draw(shapes, seed=0, dtype=torch.float64):
    """Tensors of the given shapes, by name; W… so that products keep their size."""
    g = torch.Generator().manual_seed(seed)
    drawn = {}
    for name, shape in shapes.items():
        scale = shape[0] ** -0.5 if "W" in name else 1.0
        drawn[name] = (torch.randn(shape, generator=g).double() * scale).to(dtype)
    return drawn


def cross_shapes(B, n, m, width, d_model, d_source, of=""):
    """The shapes of cross_attention's inputs; width is h*d_head."""
    return {
        "X": (B, n, d_model),
        "Y": (B, m, d_source),
        f"{of}W_Q": (d_model, width),
        f"{of}W_K": (d_source, width),
        f"{of}W_V": (d_source, width),
        f"{of}W_O": (width, d_model),
    }


def draw_layer(B, n, m, width_self, width_cross, d_model, d_source, **how):
    """X, Y and params of the given sizes, for decoder_layer."""
    shapes = cross_shapes(B, n, n, width_self, d_model, d_model, "self_")
    shapes |= cross_shapes(B, n, m, width_cross, d_model, d_source, "cross_")
    params = draw(shapes, **how)
    return params.pop("X"), params.pop("Y"), params


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


# ---------------------------------------------------------------- earlier right answers


def _split(T, n_heads):
    """(B, length, h*d_head) -> (B, h, length, d_head)."""
    B, length, width = T.shape
    return T.reshape(B, length, n_heads, width // n_heads).transpose(1, 2)


def _merge(heads):
    """(B, h, n, d_head) -> (B, n, h*d_head)."""
    B, h, n, d_head = heads.shape
    return heads.transpose(1, 2).reshape(B, n, h * d_head)


def _masked_softmax(scores, source_mask):
    """The right weights from scores (B, h, n, m) and a mask (B, m) or None."""
    if source_mask is None:
        return torch.softmax(scores, dim=-1)
    allowed = source_mask[:, None, None, :]
    some = allowed.any(dim=-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(~allowed & some, float("-inf")), dim=-1)
    return weights * some


def cross_attention(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The right answer, which the answers to decoder_layer call."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), source_mask)
    return _merge(weights @ V) @ W_O, weights


def decoder_layer(X, Y, params, n_heads, source_mask=None):
    """The right answer, which the answers to catches_wrong_decoder call."""
    causal = torch.ones(X.shape[1], X.shape[1], dtype=torch.bool).tril()
    X_1 = X + multi_head_attention(X, *(params[f"self_W_{r}"] for r in "QKVO"), n_heads, causal)
    return X_1 + cross_attention(X_1, Y, *(params[f"cross_W_{r}"] for r in "QKVO"), n_heads, source_mask)[0]


# ---------------------------------------------------------------- cross_attention


def cross_attention__wrong_b_scale_forgotten(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The scores are not divided by the root of d_head."""
    Q, K, V = (_split(T @ W, n_heads) for T, W in ((X, W_Q), (Y, W_K), (Y, W_V)))
    A = _masked_softmax(Q @ K.mT, source_mask)
    return _merge(A @ V) @ W_O, A


def cross_attention__wrong_b_empty_source_out_only(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """For a source with nothing allowed only out is set to 0; the weights that are returned stay even."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if source_mask is None:
        weights = scores.softmax(dim=-1)
        return _merge(weights @ V) @ W_O, weights
    scores = scores.masked_fill(~source_mask[:, None, None, :], torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    out = _merge(weights @ V) @ W_O
    has_source = source_mask.any(dim=1).to(out.dtype)
    return out * has_source[:, None, None], weights


def cross_attention__wrong_b_hidden_not_low_enough(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Hidden scores are filled with -1000, which is not low enough: beside lower real scores they get the weight."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if source_mask is None:
        weights = torch.softmax(scores, dim=-1)
    else:
        allowed = source_mask[:, None, None, :]
        weights = torch.softmax(torch.where(allowed, scores, -1e3), dim=-1)
        weights = weights * allowed.any(-1, keepdim=True)
    return _merge(weights @ V) @ W_O, weights


def cross_attention__wrong_b_softmax_in_float32(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """The softmax is computed in float32 whatever comes in, so that float64 inputs lose half of their digits."""
    Q, K, V = _split(X @ W_Q, n_heads), _split(Y @ W_K, n_heads), _split(Y @ W_V, n_heads)
    scores = (Q @ K.mT / math.sqrt(Q.shape[-1])).float()
    weights = _masked_softmax(scores, source_mask).to(X.dtype)
    return _merge(weights @ V) @ W_O, weights


def cross_attention__wrong_b_source_cut_by_target_length(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Only the first n source tokens are read: the length of the target is used for the source."""
    B, n, _ = X.shape
    Q = _split(X @ W_Q, n_heads)
    K = _split((Y @ W_K)[:, :n], n_heads)
    V = _split((Y @ W_V)[:, :n], n_heads)
    mask = None if source_mask is None else source_mask[:, :n]
    weights = _masked_softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), mask)
    out = _merge(weights @ V) @ W_O
    missing = Y.shape[1] - K.shape[2]
    return out, F.pad(weights, (0, missing))


def cross_attention__right_b_cut_out_and_put_back(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    """Sequence by sequence and head by head: the hidden tokens are cut out, and their weights put back as zeros."""
    B, n, _ = X.shape
    m, d_head = Y.shape[1], W_Q.shape[1] // n_heads
    outs, maps = [], []
    for b in range(B):
        places = torch.arange(m) if source_mask is None else source_mask[b].nonzero()[:, 0]
        out_b, maps_b = X.new_zeros(n, W_O.shape[1]), []
        for c in range(0, n_heads * d_head, d_head):
            A = X.new_zeros(n, m)
            if len(places):
                y = Y[b, places]
                q, k = X[b] @ W_Q[:, c : c + d_head], y @ W_K[:, c : c + d_head]
                small = (q @ k.T / math.sqrt(d_head)).softmax(dim=1)
                A = A.index_copy(1, places, small)
                out_b = out_b + small @ (y @ W_V[:, c : c + d_head]) @ W_O[c : c + d_head]
            maps_b.append(A)
        outs.append(out_b)
        maps.append(torch.stack(maps_b))
    return torch.stack(outs), torch.stack(maps)


# ---------------------------------------------------------------- decoder_layer


def _of(params, kind):
    """The four weights of one attention."""
    return [params[f"{kind}_W_{role}"] for role in ("Q", "K", "V", "O")]


def _causal(n):
    return torch.tril(torch.ones(n, n, dtype=torch.bool))


def decoder_layer__wrong_b_token_blind_to_itself(X, Y, params, n_heads, source_mask=None):
    """The causal mask hides the token itself as well: only earlier tokens are seen."""
    n = X.shape[1]
    earlier = torch.arange(n)[None, :] < torch.arange(n)[:, None]
    X_1 = X + multi_head_attention(X, *_of(params, "self"), n_heads, earlier)
    return X_1 + cross_attention(X_1, Y, *_of(params, "cross"), n_heads, source_mask)[0]


def decoder_layer__wrong_b_one_token_ahead(X, Y, params, n_heads, source_mask=None):
    """The causal mask is shifted by one: every token sees the next one, too."""
    n = X.shape[1]
    mask = torch.tril(torch.ones(n, n), diagonal=1).bool()
    X_1 = X + multi_head_attention(X, *_of(params, "self"), n_heads, mask)
    return X_1 + cross_attention(X_1, Y, *_of(params, "cross"), n_heads, source_mask)[0]


def decoder_layer__wrong_b_self_attention_not_kept(X, Y, params, n_heads, source_mask=None):
    """The cross-attention is added to X and not to X_1, so that what the self-attention added is lost."""
    causal = _causal(X.shape[1])
    X_1 = X + multi_head_attention(X, *_of(params, "self"), n_heads, causal)
    found, _ = cross_attention(X_1, Y, *_of(params, "cross"), n_heads, source_mask)
    return X + found


def decoder_layer__wrong_b_input_counted_twice(X, Y, params, n_heads, source_mask=None):
    """X is added once more at the end, though it is already in X_1."""
    steps = [X, multi_head_attention(X, *_of(params, "self"), n_heads, _causal(X.shape[1]))]
    X_1 = sum(steps)
    steps = [X, X_1, cross_attention(X_1, Y, *_of(params, "cross"), n_heads, source_mask)[0]]
    return sum(steps)


def decoder_layer__wrong_b_one_divisor_for_both(X, Y, params, n_heads, source_mask=None):
    """Both attentions divide by the root of the self-attention's d_head, but the cross-attention has its own."""
    n = X.shape[1]
    root = (params["self_W_Q"].shape[1] / n_heads) ** 0.5

    def attend(A, B, kind, allowed):
        W_Q, W_K, W_V, W_O = _of(params, kind)
        Q, K, V = _split(A @ W_Q, n_heads), _split(B @ W_K, n_heads), _split(B @ W_V, n_heads)
        some = allowed.any(-1, keepdim=True)
        S = (Q @ K.mT / root).masked_fill(~allowed & some, -torch.inf)
        return _merge((S.softmax(-1) * some) @ V) @ W_O

    everything = torch.ones(Y.shape[:2], dtype=torch.bool) if source_mask is None else source_mask
    X_1 = X + attend(X, X, "self", _causal(n)[None, None])
    return X_1 + attend(X_1, Y, "cross", everything[:, None, None, :])


def decoder_layer__right_b_token_by_token(X, Y, params, n_heads, source_mask=None):
    """Each target token is the last of its own prefix, so that no causal mask is needed."""
    W_self, W_cross = _of(params, "self"), _of(params, "cross")
    rows = []
    for t in range(X.shape[1]):
        so_far = X[:, : t + 1]
        row = X[:, t : t + 1] + cross_attention(X[:, t : t + 1], so_far, *W_self, n_heads)[0]
        row = row + cross_attention(row, Y, *W_cross, n_heads, source_mask)[0]
        rows.append(row)
    return torch.cat(rows, dim=1)


# ---------------------------------------------------------------- alignment


def alignment__wrong_b_mean_of_favourites(weights):
    """It averages the positions that the heads like best; the weights should be averaged, then the best sought."""
    favourites = weights.argmax(dim=-1).double()  # (B, h, n)
    return favourites.mean(dim=1).round().long()


def alignment__wrong_b_first_head_alone(weights):
    """Only the first head is looked at."""
    return torch.argmax(weights[:, 0], dim=-1)


def alignment__wrong_b_heads_vote(weights):
    """The heads vote, one vote each for their favourite, however strong their weights are."""
    B, h, n, m = weights.shape
    out = torch.zeros(B, n, dtype=torch.long)
    for b in range(B):
        for t in range(n):
            votes = Counter(weights[b, k, t].argmax().item() for k in range(h))
            out[b, t] = votes.most_common(1)[0][0]
    return out


def alignment__wrong_b_heads_added_in_place(weights):
    """The heads are added up inside the first head of weights, so that the input is changed."""
    total = weights[:, 0]
    for k in range(1, weights.shape[1]):
        total += weights[:, k]
    return total.argmax(dim=-1)


def alignment__wrong_b_single_axis_squeezed(weights):
    """The squeeze removes the axis of a single sequence or of a single target token."""
    average = torch.einsum("bhnm->bnm", weights) / weights.size(1)
    return average.argmax(2).squeeze()


def alignment__right_b_sorted_sums(weights):
    """The sums over the heads are sorted downwards, and the first place is kept."""
    return weights.transpose(1, 3).sum(-1).sort(dim=1, descending=True, stable=True).indices[:, 0]


# ---------------------------------------------------------------- greedy_decode


def greedy_decode__wrong_b_only_last_token_shown(next_logits, start, end, max_len):
    """The model is shown the last token alone and not all tokens so far."""
    out = [start]
    token = start
    while len(out) < max_len:
        token = next_logits([token]).argmax().item()
        out.append(token)
        if token == end:
            return out
    return out


def greedy_decode__wrong_b_stops_at_start(next_logits, start, end, max_len):
    """A generated start stops the loop as well; only end should."""
    sequence = [start]
    while len(sequence) < max_len:
        token = next_logits(sequence).argmax().item()
        sequence.append(token)
        if token in (start, end):
            break
    return sequence


def greedy_decode__wrong_b_filled_up_with_end(next_logits, start, end, max_len):
    """After the end the list is filled up with more ends to max_len tokens; it should stop there."""
    tokens = [start]
    done = False
    while len(tokens) < max_len:
        if done:
            tokens.append(end)
            continue
        tokens.append(int(next_logits(tokens).argmax()))
        done = tokens[-1] == end
    return tokens


def greedy_decode__wrong_b_end_forced_at_limit(next_logits, start, end, max_len):
    """If no end comes, end is put in the last place, though the model did not write it."""
    tokens = [start]
    while len(tokens) < max_len:
        last_place = len(tokens) == max_len - 1
        tokens.append(end if last_place else int(next_logits(tokens).argmax()))
        if tokens[-1] == end:
            break
    return tokens


def greedy_decode__wrong_b_last_word_never_chosen(next_logits, start, end, max_len):
    """The last token of the vocabulary is cut off the logits and can never be chosen."""
    tokens = [start]
    while len(tokens) < max_len:
        logits = next_logits(tokens)
        tokens.append(max(range(len(logits) - 1), key=lambda token: logits[token].item()))
        if tokens[-1] == end:
            return tokens
    return tokens


def greedy_decode__right_b_generated_tokens(next_logits, start, end, max_len):
    """A generator yields tokens; the likeliest is found in a plain list of floats."""

    def written():
        so_far = [int(start)]
        yield so_far[0]
        for _ in range(1, max_len):
            logits = next_logits(so_far.copy()).tolist()
            so_far.append(logits.index(max(logits)))
            yield so_far[-1]
            if so_far[-1] == end:
                return

    return [*written()]


# ---------------------------------------------------------------- catches_wrong_decoder


def _questions(seed=0):
    """Five calls (X, Y, params, n_heads, mask) of many kinds, for answers whose mistake lies elsewhere."""
    g = torch.Generator().manual_seed(seed)
    some = torch.rand(8, 16, generator=g) < 0.6
    some[0], some[1], some[2] = True, False, torch.arange(16) < 5
    holes = torch.tensor([[0, 1, 1, 0, 1], [1, 0, 0, 1, 1]]).bool()
    return [
        (*draw_layer(8, 11, 16, 24, 40, 13, 17, seed=seed), 8, some),
        (*draw_layer(1, 1, 1, 3, 2, 4, 5, seed=seed + 1), 1, None),
        (*draw_layer(3, 6, 13, 12, 6, 9, 7, seed=seed + 2), 3, None),
        (*draw_layer(2, 5, 5, 8, 8, 8, 8, seed=seed + 3), 2, holes),
        (*draw_layer(4, 13, 6, 4, 20, 6, 10, seed=seed + 4), 2, some[:4, 3:9]),
    ]


def _differs(out, right):
    """Is out no tensor of the right shape, NaN, or off by more than a millionth of the largest entry?"""
    if not isinstance(out, torch.Tensor) or out.shape != right.shape or not out.isfinite().all():
        return True
    return bool((out - right).abs().max() > 1e-6 * right.abs().max())


def catches_wrong_decoder__wrong_b_empty_source_never_tried(layer):
    """Every mask allows each sequence something, so that NaN or an error where nothing is allowed stays unseen."""
    g = torch.Generator().manual_seed(1)
    for sizes, h in (((4, 6, 9, 8, 12, 7, 5), 4), ((3, 5, 5, 6, 6, 6, 6), 3), ((2, 1, 8, 4, 10, 3, 9), 2)):
        X, Y, P = draw_layer(*sizes, seed=h)
        mask = torch.rand(sizes[0], sizes[2], generator=g) < 0.5
        mask[:, 1] = True  # something has to be there
        try:
            out = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if _differs(out, decoder_layer(X, Y, P, h, mask)):
            return True
    return False


def catches_wrong_decoder__wrong_b_nan_compares_false(layer):
    """NaN is not looked for: a difference of NaN is not greater than the limit, and so a layer with NaN passes."""
    for X, Y, P, h, mask in _questions():
        right = decoder_layer(X, Y, P, h, mask)
        try:
            out = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if out.shape != right.shape:
            return True
        for got, wanted in zip(out, right, strict=True):
            if (got - wanted).abs().max() > 1e-6 * right.abs().max():
                return True
    return False


def catches_wrong_decoder__wrong_b_lengths_always_equal(layer):
    """Target and source are equally long in every call, so that errors where m is not n stay unseen."""
    g = torch.Generator().manual_seed(5)
    for n, h in ((1, 1), (3, 2), (6, 4), (16, 3)):
        X, Y, P = draw_layer(5, n, n, 3 * h, 4 * h, 7, 9, seed=n)
        mask = torch.rand(5, n, generator=g) < 0.6
        mask[2] = False
        try:
            out = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if _differs(out, decoder_layer(X, Y, P, h, mask)):
            return True
    return False


def catches_wrong_decoder__wrong_b_single_head_only(layer):
    """Every call has n_heads = 1, so that whatever goes wrong between heads stays unseen."""
    suspicious = 0
    for X, Y, P, _, mask in _questions():
        try:
            suspicious += _differs(layer(X, Y, P, 1, mask), decoder_layer(X, Y, P, 1, mask))
        except Exception:
            suspicious += 1
    return suspicious > 0


def catches_wrong_decoder__wrong_b_padding_only_at_end(layer):
    """All masks hide padding at the end, so that a layer that only counts the allowed tokens passes."""
    lengths = torch.tensor([5, 0, 3, 9, 1])
    for n, m, h in ((6, 9, 2), (9, 9, 4), (2, 12, 1), (7, 4, 2)):
        X, Y, P = draw_layer(5, n, m, 4 * h, 3 * h, 6, 8, seed=m + n)
        mask = torch.arange(m) < lengths[:, None]
        right = decoder_layer(X, Y, P, h, mask)
        try:
            if _differs(layer(X, Y, P, h, mask), right):
                return True
        except Exception:
            return True
    return False


def catches_wrong_decoder__right_b_own_loops_as_reference(layer):
    """Sizes and masks drawn with a generator of its own; the reference goes token by token and cuts padding out."""
    g = torch.Generator().manual_seed(66)

    def up_to(low, high):
        return int(torch.randint(low, high + 1, (), generator=g))

    def normal(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64) / shape[0] ** 0.5

    def lookup(x, Y, W_Q, W_K, W_V, W_O, h):  # x: (d_model,), Y: (some, d_in)
        d, found = W_Q.shape[1] // h, 0
        for c in range(0, h * d, d):
            own = slice(c, c + d)
            scores = (Y @ W_K[:, own]) @ (x @ W_Q[:, own]) / d**0.5
            found = found + (scores.softmax(0) @ Y @ W_V[:, own]) @ W_O[own]
        return found

    plans = [(8, 9, 14, 4), (5, 14, 9, 2), (3, 6, 6, 3), (1, 1, 1, 1), (2, 7, 16, 8)]  # B, n, m, h
    for number, (B, n, m, h) in enumerate(plans):
        d_model, d_source = up_to(4, 12), up_to(4, 12)
        d_self, d_cross = up_to(1, 3), up_to(4, 5)
        if number == 2:
            d_source, d_cross = d_model, d_self
        P = {}
        for kind, d_in, width in (("self", d_model, h * d_self), ("cross", d_source, h * d_cross)):
            P[f"{kind}_W_Q"], P[f"{kind}_W_K"] = normal(d_model, width), normal(d_in, width)
            P[f"{kind}_W_V"], P[f"{kind}_W_O"] = normal(d_in, width), normal(width, d_model)
        X = torch.randn(B, n, d_model, generator=g, dtype=torch.float64)
        Y = torch.randn(B, m, d_source, generator=g, dtype=torch.float64)
        mask = torch.rand(B, m, generator=g) < 0.5
        if B > 2:
            mask[1], mask[2] = False, True
        if number == 4:
            mask = None
        right = torch.zeros_like(X)
        for b in range(B):
            real = Y[b] if mask is None else Y[b][mask[b]]
            for t in range(n):
                x = X[b, t] + lookup(X[b, t], X[b, : t + 1], *_of(P, "self"), h)
                right[b, t] = x + lookup(x, real, *_of(P, "cross"), h) if len(real) else x
        try:
            out = layer(X, Y, P, h, mask)
        except Exception:
            return True
        if not isinstance(out, torch.Tensor) or out.shape != X.shape:
            return True
        near = (out - right).abs() <= 1e-6 * right.abs().max()
        if not near.all():  # NaN is not near
            return True
    return False
