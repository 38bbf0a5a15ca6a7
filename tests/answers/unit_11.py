"""Right and wrong answers to unit 11_real_model, to test the judge with. Their author also wrote the known mistakes."""

import math

import torch
import torch.nn.functional as F

# ---------------------------------------------------------------------------------------------------------------------
# apply_merges


def apply_merges__right_by_rank(symbols, ranks):
    """Each pair once, in the order of the ranks."""
    text = list(symbols)
    for left, right in sorted(ranks, key=lambda pair: ranks[pair]):
        i = 0
        while i < len(text) - 1:
            if text[i] == left and text[i + 1] == right:
                text[i : i + 2] = [left + right]
            i += 1
    return text


def apply_merges__right_one_place_a_round(symbols, ranks):
    """Joins the leftmost place of the best pair, then looks again."""
    text = [*symbols]
    while True:
        scored = [(ranks[text[i], text[i + 1]], i) for i in range(len(text) - 1) if (text[i], text[i + 1]) in ranks]
        if not scored:
            return text
        _, i = min(scored)
        text = text[:i] + [text[i] + text[i + 1]] + text[i + 2 :]


def apply_merges__right_recursive(symbols, ranks):
    """Calls itself; infinite ranks for pairs that are not known."""
    pairs = [*zip(symbols, symbols[1:], strict=False)]
    best = min(pairs, key=lambda pair: ranks.get(pair, math.inf), default=None)
    if best is None or best not in ranks:
        return list(symbols)
    out, i = [], 0
    while i < len(symbols):
        take = 2 if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == best else 1
        out.append("".join(symbols[i : i + take]))
        i += take
    return apply_merges__right_recursive(out, ranks)


def apply_merges__wrong_leftmost(symbols, ranks):
    """The leftmost known pair first."""
    text, i = list(symbols), 0
    while i < len(text) - 1:
        if (text[i], text[i + 1]) in ranks:
            text[i : i + 2] = [text[i] + text[i + 1]]
            i = 0
        else:
            i += 1
    return text


def apply_merges__wrong_highest(symbols, ranks):
    """The highest rank first."""
    text = list(symbols)
    while known := [pair for pair in zip(text, text[1:], strict=False) if pair in ranks]:
        text = apply_merges__right_by_rank(text, {max(known, key=ranks.get): 0})
    return text


def apply_merges__wrong_dict_order(symbols, ranks):
    """The dict's own order."""
    text = list(symbols)
    for pair in ranks:
        text = apply_merges__right_by_rank(text, {pair: 0})
    return text


def apply_merges__wrong_once(symbols, ranks):
    """One pair alone is joined."""
    known = [pair for pair in zip(symbols, symbols[1:], strict=False) if pair in ranks]
    return apply_merges__right_by_rank(symbols, {min(known, key=ranks.get): 0}) if known else list(symbols)


def apply_merges__wrong_skips(symbols, ranks):
    """After a join the next symbol is passed over."""
    text = list(symbols)
    for left, right in sorted(ranks, key=ranks.get):
        i = 0
        while i < len(text) - 1:
            if (text[i], text[i + 1]) == (left, right):
                text[i : i + 2] = [left + right]
                i += 1
            i += 1
    return text


def apply_merges__wrong_in_place(symbols, ranks):
    """Works on the list that came in."""
    merged = apply_merges__right_by_rank(symbols, ranks)
    symbols[:] = merged
    return merged


def apply_merges__wrong_text(symbols, ranks):
    """One string with spaces."""
    return " ".join(apply_merges__right_by_rank(symbols, ranks))


def apply_merges__wrong_tuple(symbols, ranks):
    """A tuple."""
    return tuple(apply_merges__right_by_rank(symbols, ranks))


def apply_merges__wrong_letters(symbols, ranks):
    """Begins from letters, whatever the symbols are."""
    return apply_merges__right_by_rank(list("".join(symbols)), ranks)


def apply_merges__wrong_replaces_text(symbols, ranks):
    """Joins by replacing in one text, so that ends of other symbols count."""
    text = " ".join(symbols)
    for left, right in sorted(ranks, key=ranks.get):
        text = text.replace(f"{left} {right}", left + right)
    return text.split()


def apply_merges__wrong_empty(symbols, ranks):
    """No symbols: raises an IndexError."""
    found = [symbols[0]]
    return apply_merges__right_by_rank(found + symbols[1:], ranks)


# ---------------------------------------------------------------------------------------------------------------------
# from_pairs


def from_pairs__right_index(W, n_heads):
    """A list of columns."""
    d = W.shape[1] // n_heads
    order = torch.cat([torch.arange(0, d, 2), torch.arange(1, d, 2)])
    return W[:, (torch.arange(n_heads)[:, None] * d + order).flatten()]


def from_pairs__right_slices(W, n_heads):
    """Even and odd columns, head by head."""
    return torch.cat([torch.cat([head[:, ::2], head[:, 1::2]], 1) for head in W.chunk(n_heads, 1)], 1)


def from_pairs__right_matrix(W, n_heads):
    """A product with a matrix of zeros and ones."""
    width = W.shape[1]
    d = width // n_heads
    P = torch.zeros(width, width, dtype=W.dtype)
    for new in range(width):
        head, i = divmod(new, d)
        P[head * d + (2 * i if i < d // 2 else 2 * (i - d // 2) + 1), new] = 1
    return W @ P


def from_pairs__wrong_back(W, n_heads):
    """From halves to pairs."""
    return W.unflatten(1, (n_heads, 2, -1)).mT.flatten(1)


def from_pairs__wrong_all_heads(W, n_heads):
    """Even and odd columns of all heads."""
    return torch.cat([W[:, ::2], W[:, 1::2]], 1)


def from_pairs__wrong_rows(W, n_heads):
    """The rows, as in the layout of nn.Linear."""
    return W.T.unflatten(1, (1, -1)).flatten(1).T.clone()


def from_pairs__wrong_odd_first(W, n_heads):
    """Odd columns first."""
    return torch.cat([torch.cat([head[:, 1::2], head[:, ::2]], 1) for head in W.chunk(n_heads, 1)], 1)


def from_pairs__wrong_reversed(W, n_heads):
    """The second half in reverse order."""
    return torch.cat([torch.cat([head[:, ::2], head[:, 1::2].flip(1)], 1) for head in W.chunk(n_heads, 1)], 1)


def from_pairs__wrong_chunks(W, n_heads):
    """n_heads is taken for the width of a head."""
    d = n_heads + n_heads % 2
    return torch.cat([torch.cat([head[:, ::2], head[:, 1::2]], 1) for head in W.split(d, 1)], 1)


def from_pairs__wrong_detached(W, n_heads):
    """No gradient."""
    return from_pairs__right_index(W.detach(), n_heads)


def from_pairs__wrong_in_place(W, n_heads):
    """Writes into W."""
    W[:] = from_pairs__right_index(W.clone(), n_heads)
    return W


def from_pairs__wrong_linear_layout(W, n_heads):
    """Transposed, as checkpoints have it."""
    return from_pairs__right_index(W, n_heads).T


# ---------------------------------------------------------------------------------------------------------------------
# llama_logits and llama_step


def _rms(x, gamma, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gamma


def _rope(x, positions, base):
    half = x.shape[-1] // 2
    angles = torch.outer(positions.double(), base ** (-torch.arange(half, dtype=torch.float64) / half))
    cos, sin = (torch.cat([one, one], -1).to(x.dtype) for one in (angles.cos(), angles.sin()))
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def _model(tokens, params, h, g, base, eps, caches=None, *, final_eps=None, turn=_rope, mask=None, norm=_rms,
           start=None, stored=lambda K, turned: turned, rows=slice(None), gate=F.silu, scale=None):  # fmt: skip
    """Right unless it is told otherwise."""
    x, kept, n = params["W_E"][tokens], [], tokens.shape[1]
    for i, p in enumerate(params["blocks"]):
        old = caches[i] if caches is not None else None
        t = old[0].shape[2] if old is not None else 0
        positions = torch.arange(n) + (t if start is None else start(t))
        z = norm(x, p["gamma_1"], eps)
        Q, K, V = (
            (z @ p[name]).unflatten(-1, (heads, -1)).transpose(1, 2)
            for name, heads in (("W_Q", h), ("W_K", g), ("W_V", g))
        )
        Q, K = turn(Q, positions, base), stored(K, turn(K, positions, base))
        if old is not None:
            K, V = torch.cat([old[0], K], 2), torch.cat([old[1], V], 2)
        kept.append((K, V))
        Q = Q.unflatten(1, (g, -1))
        scores = Q @ K[:, :, None].mT * (scale(Q, x) if scale else Q.shape[-1] ** -0.5)
        seen = torch.ones(n, t + n, dtype=torch.bool).tril(t) if mask is None else mask(n, t)
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        x = x + (weights @ V[:, :, None]).flatten(1, 2).transpose(1, 2).flatten(2) @ p["W_O"]
        z = norm(x, p["gamma_2"], eps)
        x = x + (gate(z @ p["W_gate"]) * (z @ p["W_up"])) @ p["W_down"]
    x = norm(x, params["gamma_f"], eps if final_eps is None else final_eps)
    return (x @ params["W_E"].T)[:, rows], kept


def llama_logits__right_grouped(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Query heads in groups, no copy of the keys."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps)[0]


def llama_logits__right_einsum(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Head by head, with einsum and an additive mask."""
    n, x = tokens.shape[1], F.embedding(tokens, params["W_E"])
    above = torch.full((n, n), -torch.inf, dtype=x.dtype).triu(1)
    for p in params["blocks"]:
        z = _rms(x, p["gamma_1"], eps)
        d = p["W_Q"].shape[1] // n_heads
        written = 0
        for head in range(n_heads):
            own, shared = slice(head * d, head * d + d), head // (n_heads // n_kv_heads)
            group = slice(shared * d, shared * d + d)
            q = _rope(z @ p["W_Q"][:, own], torch.arange(n), base)
            k = _rope(z @ p["W_K"][:, group], torch.arange(n), base)
            A = torch.softmax(torch.einsum("bid,bjd->bij", q, k) / math.sqrt(d) + above, -1)
            written = written + torch.einsum("bij,bjd,dm->bim", A, z @ p["W_V"][:, group], p["W_O"][own])
        y = x + written
        z = _rms(y, p["gamma_2"], eps)
        up = torch.einsum("bnm,mf->bnf", z, p["W_up"])
        gate = z @ p["W_gate"]
        x = y + (gate * torch.sigmoid(gate) * up) @ p["W_down"]
    return torch.einsum("bnm,vm->bnv", _rms(x, params["gamma_f"], eps), params["W_E"])


def llama_logits__right_token_by_token(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """One token after the other, with a cache, as in decoding."""
    d = params["blocks"][0]["W_K"].shape[1] // n_kv_heads if params["blocks"] else 2
    caches = [(params["W_E"].new_zeros(len(tokens), n_kv_heads, 0, d),) * 2 for _ in params["blocks"]]
    rows = []
    for i in range(tokens.shape[1]):
        logits, caches = _model(tokens[:, i : i + 1], params, n_heads, n_kv_heads, base, eps, caches)
        rows.append(logits)
    return torch.cat(rows, 1)


def llama_logits__right_positions_from_five(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Distances alone count, so it may begin at any position."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, start=lambda t: 5)[0]


def llama_logits__wrong_final_eps(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The final norm has an eps of its own."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, final_eps=1e-6)[0]


def llama_logits__wrong_eps_outside(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """eps is added to the root."""

    def norm(x, gamma, eps):
        return gamma * x / (x.pow(2).mean(-1, keepdim=True).sqrt() + eps)

    return _model(tokens, params, n_heads, n_kv_heads, base, eps, norm=norm)[0]


def llama_logits__wrong_default_base(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """base is not used."""
    return _model(tokens, params, n_heads, n_kv_heads, 10000.0, eps)[0]


def llama_logits__wrong_default_eps(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """eps is not used."""
    return _model(tokens, params, n_heads, n_kv_heads, base, 1e-6)[0]


def llama_logits__wrong_other_way(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Queries turn one way and keys the other."""
    turns = iter([1, -1] * len(params["blocks"]))
    return _model(tokens, params, n_heads, n_kv_heads, base, eps,
                  turn=lambda x, positions, base: _rope(x, next(turns) * positions, base))[0]  # fmt: skip


def llama_logits__wrong_speeds(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The speeds fall half as fast."""
    return _model(tokens, params, n_heads, n_kv_heads, base**0.5, eps)[0]


def llama_logits__wrong_mask_strict(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """A token does not see itself, but for the first one."""

    def mask(n, t):
        below = torch.ones(n, t + n, dtype=torch.bool).tril(t - 1)
        below[0, 0] = True
        return below

    return _model(tokens, params, n_heads, n_kv_heads, base, eps, mask=mask)[0]


def llama_logits__wrong_scale(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Scores over the root of d_model / h."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps,
                  scale=lambda Q, x: (x.shape[-1] / n_heads) ** -0.5)[0]  # fmt: skip


def llama_logits__wrong_relu(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """ReLU in the gate."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, gate=torch.relu)[0]


def llama_logits__wrong_last_row(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The last position alone."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, rows=slice(-1, None))[0]


def llama_logits__wrong_one_plus_gain(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Gains of 1 + gamma, as in Gemma."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps,
                  norm=lambda x, gamma, eps: _rms(x, 1 + gamma, eps))[0]  # fmt: skip


def llama_logits__wrong_heads_in_turn(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Query head i reads key/value head i modulo g."""
    rep = n_heads // n_kv_heads

    def in_turn(p):
        d = p["W_Q"].shape[1] // n_heads
        order = torch.arange(n_heads).view(rep, n_kv_heads).T.flatten()
        columns = (order[:, None] * d + torch.arange(d)).flatten()
        return {**p, "W_Q": p["W_Q"][:, columns], "W_O": p["W_O"][columns]}

    params = {**params, "blocks": [in_turn(p) for p in params["blocks"]]}
    return _model(tokens, params, n_heads, n_kv_heads, base, eps)[0]


def llama_step__right_grouped(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Query heads in groups."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, caches)


def llama_step__right_token_by_token(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The chunk, one token after the other."""
    rows = []
    for token in tokens.unbind(1):
        logits, caches = _model(token[:, None], params, n_heads, n_kv_heads, base, eps, caches)
        rows.append(logits)
    return torch.cat(rows, 1), caches


def llama_step__right_padded(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Keys and values in a buffer that is filled."""
    logits, longer = _model(tokens, params, n_heads, n_kv_heads, base, eps, caches)
    kept = []
    for K, V in longer:
        buffer = K.new_zeros(2, *K.shape)
        kept.append((buffer[0] + K, buffer[1] + V))
    return logits, kept


def llama_step__wrong_positions(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Positions from 0."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, caches, start=lambda t: 0)


def llama_step__wrong_one_back(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """One position too early, but for the first token."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, caches, start=lambda t: max(t - 1, 0))


def llama_step__wrong_mask(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """A mask from the top left."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, caches,
                  mask=lambda n, t: torch.ones(n, t + n, dtype=torch.bool).tril())  # fmt: skip


def llama_step__wrong_sees_all(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """No mask within the chunk."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, caches,
                  mask=lambda n, t: torch.ones(n, t + n, dtype=torch.bool))  # fmt: skip


def llama_step__wrong_unturned(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """New keys are stored as they are."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, caches, stored=lambda K, turned: K)


def llama_step__wrong_appends(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Puts the new caches into the list that came in."""
    logits, longer = _model(tokens, params, n_heads, n_kv_heads, base, eps, caches)
    caches[:] = longer
    return logits, caches


def llama_step__wrong_logits_alone(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """No caches come back."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, caches)[0]


def llama_step__wrong_last_row(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The logits of the last token alone."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, caches, rows=slice(-1, None))


def llama_step__wrong_wide(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Keeps a copy for each query head."""
    logits, longer = _model(tokens, params, n_heads, n_kv_heads, base, eps, caches)
    return logits, [tuple(one.repeat_interleave(n_heads // n_kv_heads, 1) for one in pair) for pair in longer]


def llama_step__wrong_default_base(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """base is not used."""
    return _model(tokens, params, n_heads, n_kv_heads, 10000.0, eps, caches)


def llama_step__wrong_final_eps(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The final norm has another eps."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, caches, final_eps=1e-6)


def llama_step__wrong_first_cache(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Every layer reads the first layer's cache."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, [caches[0]] * len(caches))


def llama_step__wrong_tuples_flat(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """One flat list of tensors."""
    logits, longer = _model(tokens, params, n_heads, n_kv_heads, base, eps, caches)
    return logits, [one for pair in longer for one in pair]


# ---------------------------------------------------------------------------------------------------------------------
# window_and_sinks


def window_and_sinks__right_loops(n_new, n_total, window, n_sinks):
    """Entry by entry."""
    mask = torch.zeros(n_new, n_total, dtype=torch.bool)
    for row in range(n_new):
        i = n_total - n_new + row
        for j in range(i + 1):
            mask[row, j] = i - j < window or j < n_sinks
    return mask


def window_and_sinks__right_columns(n_new, n_total, window, n_sinks):
    """Writes into the first columns of a band."""
    whole = torch.ones(n_total, n_total, dtype=torch.bool).tril()
    mask = whole.triu(1 - window)
    mask[:, :n_sinks] = whole[:, :n_sinks]
    return mask[n_total - n_new :]


def window_and_sinks__wrong_future(n_new, n_total, window, n_sinks):
    """Sinks of the future are seen."""
    return window_and_sinks__right_loops(n_new, n_total, window, 0) | (torch.arange(n_total) < n_sinks)


def window_and_sinks__wrong_part_of_window(n_new, n_total, window, n_sinks):
    """The sinks take places of the window."""
    return window_and_sinks__right_loops(n_new, n_total, max(window - n_sinks, 1), n_sinks)


def window_and_sinks__wrong_one_more(n_new, n_total, window, n_sinks):
    """One sink too many."""
    return window_and_sinks__right_loops(n_new, n_total, window, n_sinks + 1)


def window_and_sinks__wrong_top_left(n_new, n_total, window, n_sinks):
    """The first rows in place of the last."""
    return window_and_sinks__right_loops(n_total, n_total, window, n_sinks)[:n_new]


def window_and_sinks__wrong_wider(n_new, n_total, window, n_sinks):
    """One token too many in the window."""
    return window_and_sinks__right_loops(n_new, n_total, window + 1, n_sinks)


def window_and_sinks__wrong_floats(n_new, n_total, window, n_sinks):
    """Ones and zeros."""
    return window_and_sinks__right_loops(n_new, n_total, window, n_sinks).double()


def window_and_sinks__wrong_inverted(n_new, n_total, window, n_sinks):
    """True where it forbids."""
    return ~window_and_sinks__right_loops(n_new, n_total, window, n_sinks)


def window_and_sinks__wrong_always_one(n_new, n_total, window, n_sinks):
    """There is always a sink."""
    return window_and_sinks__right_loops(n_new, n_total, window, max(n_sinks, 1))
