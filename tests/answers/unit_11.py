"""Right and wrong answers to unit 11_real_model, to test the judge with. Their author also wrote the known mistakes."""

import math
import warnings

import numpy as np
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


# ---------------------------------------------------------------------------------------------------------------------
# eigenvalue_copying_score


def eigenvalue_copying_score__right_wide(W_E, W_V, W_O, W_U):
    """Eigenvalues of a (d_model, d_model) matrix: more zeros, the same sums."""
    z = torch.linalg.eigvals(W_V @ W_O @ W_U @ W_E)
    return z.real.sum() / z.abs().sum() if z.abs().sum() > 0 else torch.zeros((), dtype=W_E.dtype)


def eigenvalue_copying_score__right_trace(W_E, W_V, W_O, W_U):
    """The sum of the real parts is the trace. A Python number comes back."""
    M = (W_O @ W_U) @ (W_E @ W_V)
    below = float(torch.linalg.eigvals(M).abs().sum())
    return float(torch.trace(M)) / below if below else 0.0


def eigenvalue_copying_score__right_numpy(W_E, W_V, W_O, W_U):
    """NumPy's eigenvalues, in float64; prints."""
    M = (W_O @ (W_U @ W_E) @ W_V).detach().numpy().astype("float64")
    z = np.linalg.eig(M)[0]
    print(z)
    total = np.abs(z).sum()
    return torch.tensor(0.0 if total == 0 else z.real.sum() / total, dtype=W_E.dtype)


def eigenvalue_copying_score__right_scaled_first(W_E, W_V, W_O, W_U):
    """Brings each factor to size 1 before the product."""
    parts = []
    for W in (W_O, W_U, W_E, W_V):
        if not W.any():
            return W_E.new_zeros(())
        parts.append(W / W.abs().max())
    z = torch.linalg.eigvals(torch.linalg.multi_dot(parts))
    return torch.real(z).sum() / torch.sqrt(z.real**2 + z.imag**2).sum()


def eigenvalue_copying_score__right_token_by_token(W_E, W_V, W_O, W_U):
    """A sum of outer products over the vocabulary, and a Schur-free loop over the eigenvalues."""
    M = sum(torch.outer(W_O @ W_U[:, t], W_E[t] @ W_V) for t in range(len(W_E)))
    above = below = 0.0
    for value in torch.linalg.eigvals(M).tolist():
        above, below = above + value.real, below + abs(value)
    return torch.tensor(above / below if below else 0.0, dtype=W_E.dtype)


def _small(W_E, W_V, W_O, W_U):
    return W_O @ W_U @ W_E @ W_V


def eigenvalue_copying_score__wrong_real_of_eigenvalue_sum_size(W_E, W_V, W_O, W_U):
    """The size of the sum in place of the sum of sizes."""
    z = torch.linalg.eigvals(_small(W_E, W_V, W_O, W_U))
    return z.real.sum() / z.sum().abs().clamp_min(1e-300)


def eigenvalue_copying_score__wrong_complex(W_E, W_V, W_O, W_U):
    """Complex sums."""
    z = torch.linalg.eigvals(_small(W_E, W_V, W_O, W_U))
    return z.sum() / z.abs().sum() if z.abs().sum() > 0 else torch.zeros((), dtype=z.dtype)


def eigenvalue_copying_score__wrong_vocab_by_vocab(W_E, W_V, W_O, W_U):
    """The whole circuit."""
    z = torch.linalg.eigvals((W_E @ W_V) @ (W_O @ W_U))
    return z.real.sum() / z.abs().sum() if z.abs().sum() > 0 else z.abs().sum()


def eigenvalue_copying_score__wrong_nan(W_E, W_V, W_O, W_U):
    """0/0 for a zero circuit."""
    z = torch.linalg.eigvals(_small(W_E, W_V, W_O, W_U))
    return z.real.sum() / z.abs().sum()


def eigenvalue_copying_score__wrong_epsilon(W_E, W_V, W_O, W_U):
    """1e-6 in the denominator."""
    z = torch.linalg.eigvals(_small(W_E, W_V, W_O, W_U))
    return z.real.sum() / (z.abs().sum() + 1e-6)


def eigenvalue_copying_score__wrong_transposed_embedding(W_E, W_V, W_O, W_U):
    """The order of the product is turned round in the middle."""
    z = torch.linalg.eigvals(W_O @ W_E.T @ W_U.T @ W_V)
    return z.real.sum() / z.abs().sum() if z.abs().sum() > 0 else z.abs().sum()


def eigenvalue_copying_score__wrong_singular_values(W_E, W_V, W_O, W_U):
    """Trace over the nuclear norm."""
    M = _small(W_E, W_V, W_O, W_U)
    return M.trace() / torch.linalg.matrix_norm(M, "nuc") if M.any() else M.sum()


def eigenvalue_copying_score__wrong_frobenius(W_E, W_V, W_O, W_U):
    """Trace over the Frobenius norm."""
    M = _small(W_E, W_V, W_O, W_U)
    return M.trace() / M.norm() if M.any() else M.sum()


def eigenvalue_copying_score__wrong_no_signs(W_E, W_V, W_O, W_U):
    """Real parts without signs."""
    z = torch.linalg.eigvals(_small(W_E, W_V, W_O, W_U))
    return z.real.abs().sum() / z.abs().sum() if z.abs().sum() > 0 else z.abs().sum()


def eigenvalue_copying_score__wrong_positive_only(W_E, W_V, W_O, W_U):
    """What lies above 0 over all."""
    z = torch.linalg.eigvals(_small(W_E, W_V, W_O, W_U))
    return z.real.clamp(min=0).sum() / z.abs().sum() if z.abs().sum() > 0 else z.abs().sum()


def eigenvalue_copying_score__wrong_mean(W_E, W_V, W_O, W_U):
    """The mean of cosines."""
    z = torch.linalg.eigvals(_small(W_E, W_V, W_O, W_U))
    return (z.real / z.abs()).mean() if z.abs().sum() > 0 else z.abs().sum()


def eigenvalue_copying_score__wrong_no_vocabulary(W_E, W_V, W_O, W_U):
    """W_V W_O alone."""
    z = torch.linalg.eigvals(W_V @ W_O)
    return z.real.sum() / z.abs().sum() if z.abs().sum() > 0 else z.abs().sum()


def eigenvalue_copying_score__wrong_symmetric(W_E, W_V, W_O, W_U):
    """eigvalsh reads one triangle."""
    z = torch.linalg.eigvalsh(_small(W_E, W_V, W_O, W_U))
    return z.sum() / z.abs().sum() if z.abs().sum() > 0 else z.abs().sum()


# ---------------------------------------------------------------------------------------------------------------------
# find_source


def _compose(W_QK, W_OV):
    return float((W_QK @ W_OV.T).norm() / (W_QK.norm() * W_OV.norm()))


def _head(W, i, h, axis):
    return W.unflatten(axis, (h, -1)).select(axis, i)


def _scan(params, reader, h, g, *, score=_compose, gain="gamma_1", key_gain=True, query_gain=True, kv=None, first=0,
          last=None, own=False, group=None):  # fmt: skip
    """Score of each candidate, with places for slips."""
    layer, head = reader
    blocks, kv = params["blocks"], kv or (lambda i: i // (h // g))
    group = group or kv
    G = blocks[layer][gain].diag()
    Q, K = _head(blocks[layer]["W_Q"], head, h, 1), _head(blocks[layer]["W_K"], kv(head), g, 1)
    W_QK = (G @ Q if query_gain else Q) @ (G @ K if key_gain else K).T
    found = {}
    for early in range(first, layer if last is None else last):
        V = blocks[early]["gamma_1"][:, None] * blocks[early]["W_V"] if own else blocks[early]["W_V"]
        for i in range(h):
            found[early, i] = score(W_QK, _head(V, group(i), g, 1) @ _head(blocks[early]["W_O"], i, h, 0))
    return found


def find_source__right_scan(params, reader, n_heads, n_kv_heads):
    """A dict of scores and max."""
    found = _scan(params, reader, n_heads, n_kv_heads)
    return max(found, key=found.get)


def find_source__right_own_gain(params, reader, n_heads, n_kv_heads):
    """Folds the candidate's own gain in, too, which changes no winner that leads clearly."""
    found = _scan(params, reader, n_heads, n_kv_heads, own=True)
    print(sorted(found.values())[-3:])
    return max(found, key=found.get)


def find_source__right_at_once(params, reader, n_heads, n_kv_heads):
    """All heads of a layer in one einsum, and argmax over a flat tensor."""
    layer, head = reader
    rep, late, scores = n_heads // n_kv_heads, params["blocks"][reader[0]], []
    Q = _head(late["W_Q"] * late["gamma_1"].unsqueeze(1), head, n_heads, 1)
    K = _head(late["W_K"] * late["gamma_1"].unsqueeze(1), head // rep, n_kv_heads, 1)
    for block in params["blocks"][:layer]:
        V = block["W_V"].unflatten(1, (n_kv_heads, -1)).repeat_interleave(rep, 1)
        OV = torch.einsum("mhd,hdk->hmk", V, block["W_O"].unflatten(0, (n_heads, -1)))
        top = torch.einsum("md,kd,hnk->hmn", Q, K, OV).flatten(1).norm(dim=1)
        scores.append(top / OV.flatten(1).norm(dim=1))
    best = int(torch.cat(scores).argmax())
    return best // n_heads, best % n_heads


def find_source__right_traces(params, reader, n_heads, n_kv_heads):
    """Traces of small matrices; the first of a sorted list."""
    (layer, head), rep = reader, n_heads // n_kv_heads
    G = params["blocks"][layer]["gamma_1"].reshape(-1, 1)
    Q = G * _head(params["blocks"][layer]["W_Q"], head, n_heads, 1)
    K = G * _head(params["blocks"][layer]["W_K"], head // rep, n_kv_heads, 1)
    ranking = []
    for early in range(layer):
        for i in range(n_heads):
            V = _head(params["blocks"][early]["W_V"], i // rep, n_kv_heads, 1)
            O = _head(params["blocks"][early]["W_O"], i, n_heads, 0)
            middle = O @ K
            ranking.append((-float((Q @ middle.T @ V.T).norm() / (V @ O).norm()), early, i))
    return min(ranking)[1:]


def find_source__right_rows_normed(params, reader, n_heads, n_kv_heads):
    """Divides by the norms first; keeps the best so far."""
    (layer, head), rep, best = reader, n_heads // n_kv_heads, (0, 0)
    blocks = [{name: W.double() for name, W in block.items()} for block in params["blocks"]]
    d, top = blocks[0]["W_O"].shape[0] // n_heads, -math.inf
    W_Q = torch.einsum("m,md->md", blocks[layer]["gamma_1"], blocks[layer]["W_Q"])[:, d * head : d * head + d]
    start = d * (head // rep)
    W_K = torch.diag(blocks[layer]["gamma_1"]) @ blocks[layer]["W_K"][:, start : start + d]
    W_QK = F.normalize((W_Q @ W_K.T).flatten(), dim=0).view(len(W_Q), -1)
    for early, block in enumerate(blocks[:layer]):
        for i in range(n_heads):
            OV = block["W_V"][:, i // rep * d : i // rep * d + d] @ block["W_O"][i * d : i * d + d]
            now = torch.linalg.norm(W_QK @ (OV / torch.linalg.norm(OV)).T).item()
            if now > top:
                top, best = now, (early, i)
    return best


def find_source__wrong_query_composition(params, reader, n_heads, n_kv_heads):
    """W_OV W_QK: the query side."""
    found = _scan(params, reader, n_heads, n_kv_heads, score=lambda A, B: float((B @ A).norm() / B.norm()))
    return max(found, key=found.get)


def find_source__wrong_no_transpose(params, reader, n_heads, n_kv_heads):
    """W_QK W_OV."""
    found = _scan(params, reader, n_heads, n_kv_heads, score=lambda A, B: float((A @ B).norm() / B.norm()))
    return max(found, key=found.get)


def find_source__wrong_no_gain(params, reader, n_heads, n_kv_heads):
    """Without the gain."""
    found = _scan(params, reader, n_heads, n_kv_heads, key_gain=False, query_gain=False)
    return max(found, key=found.get)


def find_source__wrong_key_gain_alone(params, reader, n_heads, n_kv_heads):
    """The gain for W_K alone."""
    found = _scan(params, reader, n_heads, n_kv_heads, query_gain=False)
    return max(found, key=found.get)


def find_source__wrong_gamma_2(params, reader, n_heads, n_kv_heads):
    """The gain of the other norm."""
    found = _scan(params, reader, n_heads, n_kv_heads, gain="gamma_2")
    return max(found, key=found.get)


def find_source__wrong_kv_modulo(params, reader, n_heads, n_kv_heads):
    """head % g everywhere."""
    found = _scan(params, reader, n_heads, n_kv_heads, kv=lambda i: i % n_kv_heads)
    return max(found, key=found.get)


def find_source__wrong_values_modulo(params, reader, n_heads, n_kv_heads):
    """head % g for the candidates' values."""
    found = _scan(params, reader, n_heads, n_kv_heads, group=lambda i: i % n_kv_heads)
    return max(found, key=found.get)


def find_source__wrong_own_layer(params, reader, n_heads, n_kv_heads):
    """Candidates up to the reader's layer."""
    found = _scan(params, reader, n_heads, n_kv_heads, last=reader[0] + 1)
    return max(found, key=found.get)


def find_source__wrong_every_layer(params, reader, n_heads, n_kv_heads):
    """Candidates of all layers."""
    found = _scan(params, reader, n_heads, n_kv_heads, last=len(params["blocks"]))
    return max(found, key=found.get)


def find_source__wrong_layer_before(params, reader, n_heads, n_kv_heads):
    """The layer before alone."""
    found = _scan(params, reader, n_heads, n_kv_heads, first=reader[0] - 1)
    return max(found, key=found.get)


def find_source__wrong_not_normalised(params, reader, n_heads, n_kv_heads):
    """The norm of the product."""
    found = _scan(params, reader, n_heads, n_kv_heads, score=lambda A, B: float((A @ B.T).norm()))
    return max(found, key=found.get)


def find_source__wrong_list(params, reader, n_heads, n_kv_heads):
    """A list in place of a tuple."""
    found = _scan(params, reader, n_heads, n_kv_heads)
    return list(max(found, key=found.get))


def find_source__wrong_head_first(params, reader, n_heads, n_kv_heads):
    """(head, layer)."""
    found = _scan(params, reader, n_heads, n_kv_heads)
    return max(found, key=found.get)[::-1]


def find_source__wrong_divmod(params, reader, n_heads, n_kv_heads):
    """The flat place is divided by the number of layers."""
    found = _scan(params, reader, n_heads, n_kv_heads)
    place = max(range(len(found)), key=[*found.values()].__getitem__)
    return divmod(place, reader[0])


def find_source__wrong_gain_divided(params, reader, n_heads, n_kv_heads):
    """Divides by the gain."""
    blocks = [{**block, "gamma_1": 1 / block["gamma_1"]} for block in params["blocks"]]
    found = _scan({"blocks": blocks}, reader, n_heads, n_kv_heads)
    return max(found, key=found.get)


def find_source__wrong_trace(params, reader, n_heads, n_kv_heads):
    """The trace of the product in place of its norm."""
    found = _scan(params, reader, n_heads, n_kv_heads, score=lambda A, B: float((A @ B.T).trace() / B.norm()))
    return max(found, key=found.get)


# ---------------------------------------------------------------------------------------------------------------------
# cut_path


def _path(tokens, params, source, into, h, g, base, eps, *, blind_from=lambda layer: True, which=None, off=None,
          where="stream", ffn=False, last=False, rope=_rope, keep=True, cut_eps=None):  # fmt: skip
    """The whole model with one path cut, with places for slips."""
    n = tokens.shape[1]
    x, note, at = params["W_E"][tokens], 0.0, torch.arange(n)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for layer, p in enumerate(params["blocks"]):
        now = note if blind_from(layer) else 0.0
        seen, hidden = _rms(x, p["gamma_1"], eps), _rms(x - now, p["gamma_1"], eps if cut_eps is None else cut_eps)
        if where == "normed" and layer > source[0]:
            hidden = seen - _rms(note, p["gamma_1"], eps)
        q, k, v = (hidden if reader in (which or {into}) else seen for reader in ("query", "key", "value"))
        Q, K, V = ((one @ p[name]).unflatten(-1, (heads, -1)).transpose(1, 2)
                   for one, name, heads in ((q, "W_Q", h), (k, "W_K", g), (v, "W_V", g)))  # fmt: skip
        Q, K = rope(Q, at, base), rope(K, at, base)
        K, V = K.repeat_interleave(h // g, 1), V.repeat_interleave(h // g, 1)
        A = (Q @ K.mT / math.sqrt(Q.shape[-1])).masked_fill(~mask, -math.inf).softmax(-1)
        out = A @ V
        if layer == source[0]:
            only = torch.zeros(h, 1, 1, dtype=x.dtype)
            only[source[1] if off is None else off] = 1
            note = (out * only).transpose(1, 2).flatten(2) @ p["W_O"]
        y = x + out.transpose(1, 2).flatten(2) @ p["W_O"]
        if not keep and layer == source[0]:
            y, note = y - note, 0.0
        z = _rms(y - note if ffn else y, p["gamma_2"], eps)
        x = y + (F.silu(z @ p["W_gate"]) * (z @ p["W_up"])) @ p["W_down"]
    return _rms(x - note if last else x, params["gamma_f"], eps) @ params["W_E"].T


def cut_path__right_masked_heads(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The note by all heads but one set to 0."""
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps)


def cut_path__right_doubled_stream(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Two streams in one batch: the second half lacks the note."""
    at, rep = torch.arange(tokens.shape[1]), n_heads // n_kv_heads
    x = params["W_E"][tokens].repeat(2, 1, 1)
    for layer, p in enumerate(params["blocks"]):
        z = _rms(x, p["gamma_1"], eps)
        made = {}
        for role, heads in (("query", n_heads), ("key", n_kv_heads), ("value", n_kv_heads)):
            full, blind = (z @ p["W_" + role[0].upper()]).unflatten(-1, (heads, -1)).transpose(1, 2).chunk(2)
            made[role] = blind if role == into else full
        Q, K = _rope(made["query"], at, base), _rope(made["key"], at, base).repeat_interleave(rep, 1)
        scores = (Q @ K.mT) * Q.shape[-1] ** -0.5 + torch.full((len(at), len(at)), -math.inf).triu(1).to(x.dtype)
        out = (scores.softmax(-1) @ made["value"].repeat_interleave(rep, 1)).transpose(1, 2)
        other = out
        if layer == source[0]:
            other = torch.cat([out[:, :, : source[1]], 0 * out[:, :, :1], out[:, :, source[1] + 1 :]], 2)
        x = x + torch.cat([out, other]).flatten(2) @ p["W_O"]
        z = _rms(x[: len(tokens)], p["gamma_2"], eps)
        x = x + ((F.silu(z @ p["W_gate"]) * (z @ p["W_up"])) @ p["W_down"]).repeat(2, 1, 1)
    return _rms(x[: len(tokens)], params["gamma_f"], eps) @ params["W_E"].mT


def cut_path__right_query_by_query(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """A loop over heads; the note is kept in a list."""
    notes, x, n = [], F.embedding(tokens, params["W_E"]), tokens.size(1)
    for layer, p in enumerate(params["blocks"]):
        d = p["W_O"].shape[0] // n_heads
        blind = _rms(x - sum(notes), p["gamma_1"], eps) if notes else _rms(x, p["gamma_1"], eps)
        reads = dict.fromkeys(("query", "key", "value"), _rms(x, p["gamma_1"], eps)) | {into: blind}
        written = []
        for i in range(n_heads):
            j = i // (n_heads // n_kv_heads)
            q = _rope(reads["query"] @ p["W_Q"][:, i * d : (i + 1) * d], torch.arange(n), base)
            k = _rope(reads["key"] @ p["W_K"][:, j * d : (j + 1) * d], torch.arange(n), base)
            v = reads["value"] @ p["W_V"][:, j * d : (j + 1) * d]
            s = q @ k.transpose(1, 2) / d**0.5
            later = torch.arange(n)[None, :] > torch.arange(n)[:, None]
            written.append(
                s.masked_fill(later, torch.finfo(s.dtype).min).softmax(-1) @ v @ p["W_O"][i * d : (i + 1) * d]
            )
        if layer == source[0]:
            notes.append(written[source[1]])
        x = x + sum(written)
        z = _rms(x, p["gamma_2"], eps)
        x = x + (z @ p["W_up"] * F.silu(z @ p["W_gate"])) @ p["W_down"]
    return _rms(x, params["gamma_f"], eps) @ params["W_E"].T


def cut_path__right_note_by_difference(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The same, with the reader's name looked up and a warning."""
    warnings.warn("a cut", stacklevel=2)
    names = {"query", "key", "value"} & {into}
    return _path(tokens, params, tuple(source), into, n_heads, n_kv_heads, base=base, eps=eps, which=names)


def cut_path__right_checkpointed(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Sequence after sequence."""
    rows = [_path(row[None], params, source, into, n_heads, n_kv_heads, base, eps) for row in tokens]
    return torch.cat(rows)


def cut_path__wrong_ablation(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The head is taken out altogether."""
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps, keep=False)


def cut_path__wrong_after_norm(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The normed note is taken off the normed stream."""
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps, where="normed")


def cut_path__wrong_next_layer(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The next layer alone is blind."""
    only = lambda layer: layer == source[0] + 1  # noqa: E731
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps, blind_from=only)


def cut_path__wrong_ffn(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The FFN is blind, too."""
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps, ffn=True)


def cut_path__wrong_last_norm(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The logits are blind, too."""
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps, last=True)


def cut_path__wrong_keys_and_values(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Keys and values share what they read."""
    which = {"query"} if into == "query" else {"key", "value"}
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps, which=which)


def cut_path__wrong_always_keys(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """`into` is not looked at."""
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps, which={"key"})


def cut_path__wrong_group(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The whole group is the source."""
    rep = n_heads // n_kv_heads
    start = source[1] // rep * rep
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps, off=slice(start, start + rep))


def cut_path__wrong_first_of_group(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The kv head's number is taken for the head's."""
    off = source[1] // (n_heads // n_kv_heads)
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps, off=off)


def cut_path__wrong_default_eps(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The norm of the blind reader has another eps."""
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps, cut_eps=1e-6)


def cut_path__wrong_default_base(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The base is always 10,000."""
    return _path(tokens, params, source, into, n_heads, n_kv_heads, 10000.0, eps)


def cut_path__wrong_detached(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The embedding is detached."""
    ends = {**params, "W_E": params["W_E"].detach()}
    return _path(tokens, ends, source, into, n_heads, n_kv_heads, base, eps)


def cut_path__wrong_in_place(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Sets the source's rows of W_O to 0 in the model itself, for the next call."""
    found = _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps)
    with torch.no_grad():
        params["blocks"][source[0]]["W_O"].unflatten(0, (n_heads, -1))[source[1]] = 0
    return found


def cut_path__wrong_source_as_reader(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """(head, layer) for (layer, head)."""
    turned = source[1] % len(params["blocks"]), source[0] % n_heads
    return _path(tokens, params, turned, into, n_heads, n_kv_heads, base, eps)


def cut_path__wrong_last_position(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The last row alone."""
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps)[:, -1]


# ---------------------------------------------------------------------------------------------------------------------
# speculative_step


def speculative_step__right_mask(draft, p_draft, p_target, generator):
    """All chances at once; the first False."""
    u = torch.rand(len(draft), generator=generator)
    at = torch.arange(len(draft))
    stays = u * p_draft[at, draft] < p_target[at, draft]
    if bool(stays.all()):
        return draft.tolist() + torch.multinomial(p_target[-1], 1, generator=generator).tolist()
    i = int((~stays).nonzero()[0])
    rest = torch.maximum(p_target[i] - p_draft[i], torch.zeros(()))
    return draft[:i].tolist() + [torch.multinomial(rest, num_samples=1, generator=generator).item()]


def speculative_step__right_ratio(draft, p_draft, p_target, generator):
    """Compares u with a quotient; what is left by target minus the smaller of both."""
    u, out = torch.rand((len(draft),), generator=generator).tolist(), []
    for number, token, p, q in zip(u, draft.tolist(), p_draft, p_target, strict=False):
        if number >= min(1.0, float(q[token]) / float(p[token])):
            left = q - torch.minimum(p, q)
            return [*out, int(torch.multinomial(left / left.sum(), 1, generator=generator))]
        out.append(token)
    return [*out, int(torch.multinomial(p_target[len(out)], 1, generator=generator))]


def speculative_step__right_padded(draft, p_draft, p_target, generator):
    """A row of zeros below the draft's rows makes both ends one; prints."""
    u = torch.rand(draft.shape[0], generator=generator)
    rows = F.pad(p_draft, (0, 0, 0, 1))
    m = 0
    while m < len(draft) and u[m] * p_draft[m][draft[m]] < p_target[m][draft[m]]:
        m += 1
    p = F.relu(p_target[m] - rows[m])
    print(m, "of", len(draft), "stay")
    return [int(token) for token in draft[:m]] + [int(torch.multinomial(p, 1, generator=generator)[0])]


def speculative_step__right_recursive(draft, p_draft, p_target, generator, u=None):
    """One token, and the rest by itself."""
    u = torch.rand(len(draft), generator=generator) if u is None else u
    if not len(draft):
        return [int(torch.multinomial(p_target[0], 1, generator=generator))]
    token = int(draft[0])
    if u[0] * p_draft[0, token] < p_target[0, token]:
        rest = speculative_step__right_recursive(draft[1:], p_draft[1:], p_target[1:], generator, u[1:])
        return [token, *rest]
    left = p_target[0] - p_draft[0]
    return [int(torch.multinomial(left.where(left > 0, 0.0), 1, generator=generator))]


def speculative_step__right_numbers_in_turn(draft, p_draft, p_target, generator):
    """The k numbers one by one, but all of them first."""
    u = [torch.rand(1, generator=generator) for _ in range(len(draft))]
    for i, (number, token) in enumerate(zip(u, draft, strict=True)):
        if not number * p_draft[i, token] < p_target[i, token]:
            p = torch.nn.functional.threshold(p_target[i] - p_draft[i], 0.0, 0.0)
            break
    else:
        i, p = len(draft), p_target[-1]
    return [*map(int, draft[:i]), int(torch.multinomial(p, 1, generator=generator))]


def _stays(draft, p_draft, p_target, u):
    at = torch.arange(len(draft))
    return int((u * p_draft[at, draft] < p_target[at, draft]).long().cumprod(0).sum())


def _drawn(p, generator):
    return int(torch.multinomial(p, 1, generator=generator))


def _end(draft, p_draft, p_target, generator, left, last=lambda p_target, p_draft: p_target[-1]):
    """Right but for what the token is drawn from."""
    i = _stays(draft, p_draft, p_target, torch.rand(len(draft), generator=generator))
    p = last(p_target, p_draft) if i == len(draft) else left(p_target[i], p_draft[i])
    return [*draft[:i].tolist(), _drawn(p, generator)]


def _left(q, p):
    return (q - p).clamp(min=0)


def speculative_step__wrong_target(draft, p_draft, p_target, generator):
    """After a refusal from the target."""
    return _end(draft, p_draft, p_target, generator, lambda q, p: q)


def speculative_step__wrong_absolute(draft, p_draft, p_target, generator):
    """The absolute difference."""
    return _end(draft, p_draft, p_target, generator, lambda q, p: (q - p).abs())


def speculative_step__wrong_quotient(draft, p_draft, p_target, generator):
    """In proportion to target over draft."""
    return _end(draft, p_draft, p_target, generator, lambda q, p: q / p.clamp_min(1e-9))


def speculative_step__wrong_shifted(draft, p_draft, p_target, generator):
    """The difference moved up until nothing is below 0."""
    return _end(draft, p_draft, p_target, generator, lambda q, p: q - p - (q - p).min() + 1e-12)


def speculative_step__wrong_uniform(draft, p_draft, p_target, generator):
    """Evenly among what the draft says too rarely."""
    return _end(draft, p_draft, p_target, generator, lambda q, p: (q > p).to(q.dtype) + 1e-12)


def speculative_step__wrong_smaller(draft, p_draft, p_target, generator):
    """From the smaller of both."""
    return _end(draft, p_draft, p_target, generator, torch.minimum)


def speculative_step__wrong_argmax(draft, p_draft, p_target, generator):
    """The likeliest of what is left."""
    i = _stays(draft, p_draft, p_target, torch.rand(len(draft), generator=generator))
    if i < len(draft):
        return [*draft[:i].tolist(), int(_left(p_target[i], p_draft[i]).argmax())]
    return [*draft.tolist(), _drawn(p_target[-1], generator)]


def speculative_step__wrong_no_bonus(draft, p_draft, p_target, generator):
    """Nothing follows a whole draft."""
    i = _stays(draft, p_draft, p_target, torch.rand(len(draft), generator=generator))
    return (
        draft.tolist() if i == len(draft) else [*draft[:i].tolist(), _drawn(_left(p_target[i], p_draft[i]), generator)]
    )


def speculative_step__wrong_bonus_left(draft, p_draft, p_target, generator):
    """The bonus from what is left in the last draft row."""
    return _end(draft, p_draft, p_target, generator, _left, lambda q, p: _left(q[-1], p[-1]))


def speculative_step__wrong_lenient(draft, p_draft, p_target, generator):
    """A token stays if the target gives it half of what the draft does."""
    at = torch.arange(len(draft))
    torch.rand(len(draft), generator=generator)
    i = int((p_target[at, draft] > 0.5 * p_draft[at, draft]).long().cumprod(0).sum())
    p = p_target[-1] if i == len(draft) else _left(p_target[i], p_draft[i])
    return [*draft[:i].tolist(), _drawn(p, generator)]


def speculative_step__wrong_one_number(draft, p_draft, p_target, generator):
    """One u for all tokens."""
    u = torch.rand(len(draft), generator=generator)
    i = _stays(draft, p_draft, p_target, u[:1].expand(len(draft)))
    p = p_target[-1] if i == len(draft) else _left(p_target[i], p_draft[i])
    return [*draft[:i].tolist(), _drawn(p, generator)]


def speculative_step__wrong_all_that_stay(draft, p_draft, p_target, generator):
    """Skips refused tokens and keeps the rest."""
    u, at = torch.rand(len(draft), generator=generator), torch.arange(len(draft))
    good = u * p_draft[at, draft] < p_target[at, draft]
    i = int(good.long().cumprod(0).sum())
    p = p_target[-1] if i == len(draft) else _left(p_target[i], p_draft[i])
    return [*draft[good].tolist(), _drawn(p, generator)]


def speculative_step__wrong_tensor(draft, p_draft, p_target, generator):
    """A tensor."""
    return torch.tensor(_end(draft, p_draft, p_target, generator, _left))


def speculative_step__wrong_new_token_alone(draft, p_draft, p_target, generator):
    """Only the drawn token."""
    return _end(draft, p_draft, p_target, generator, _left)[-1:]


def speculative_step__wrong_no_generator(draft, p_draft, p_target, generator):
    """Draws the last token without the generator."""
    i = _stays(draft, p_draft, p_target, torch.rand(len(draft), generator=generator))
    p = p_target[-1] if i == len(draft) else _left(p_target[i], p_draft[i])
    return [*draft[:i].tolist(), int(torch.multinomial(p, 1))]


def speculative_step__wrong_draws_first(draft, p_draft, p_target, generator):
    """Draws a token of the target for each row before u."""
    extra = torch.multinomial(p_target, 1, generator=generator)
    i = _stays(draft, p_draft, p_target, torch.rand(len(draft), generator=generator))
    p = p_target[-1] if i == len(draft) else _left(p_target[i], p_draft[i])
    return [*draft[:i].tolist(), int(extra[-1]) if i == len(draft) else _drawn(p, generator)]
