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


def from_pairs__right_matrix(W, n_heads):
    """A product with a matrix of zeros and ones."""
    width = W.shape[1]
    d = width // n_heads
    P = torch.zeros(width, width, dtype=W.dtype)
    for new in range(width):
        head, i = divmod(new, d)
        P[head * d + (2 * i if i < d // 2 else 2 * (i - d // 2) + 1), new] = 1
    return W @ P


def from_pairs__wrong_odd_first(W, n_heads):
    """Odd columns first."""
    return torch.cat([torch.cat([head[:, 1::2], head[:, ::2]], 1) for head in W.chunk(n_heads, 1)], 1)


def from_pairs__wrong_chunks(W, n_heads):
    """n_heads is taken for the width of a head."""
    d = n_heads + n_heads % 2
    return torch.cat([torch.cat([head[:, ::2], head[:, 1::2]], 1) for head in W.split(d, 1)], 1)


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


def llama_logits__wrong_default_base(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """base is not used."""
    return _model(tokens, params, n_heads, n_kv_heads, 10000.0, eps)[0]


def llama_logits__wrong_speeds(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The speeds fall half as fast."""
    return _model(tokens, params, n_heads, n_kv_heads, base**0.5, eps)[0]


def llama_logits__wrong_scale(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Scores over the root of d_model / h."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps,
                  scale=lambda Q, x: (x.shape[-1] / n_heads) ** -0.5)[0]  # fmt: skip


def llama_logits__wrong_last_row(tokens, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The last position alone."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, rows=slice(-1, None))[0]


def llama_step__right_grouped(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Query heads in groups."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, caches)


def llama_step__right_padded(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Keys and values in a buffer that is filled."""
    logits, longer = _model(tokens, params, n_heads, n_kv_heads, base, eps, caches)
    kept = []
    for K, V in longer:
        buffer = K.new_zeros(2, *K.shape)
        kept.append((buffer[0] + K, buffer[1] + V))
    return logits, kept


def llama_step__wrong_appends(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Puts the new caches into the list that came in."""
    logits, longer = _model(tokens, params, n_heads, n_kv_heads, base, eps, caches)
    caches[:] = longer
    return logits, caches


def llama_step__wrong_logits_alone(tokens, caches, params, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """No caches come back."""
    return _model(tokens, params, n_heads, n_kv_heads, base, eps, caches)[0]


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


def _small(W_E, W_V, W_O, W_U):
    return W_O @ W_U @ W_E @ W_V


def eigenvalue_copying_score__wrong_complex(W_E, W_V, W_O, W_U):
    """Complex sums."""
    z = torch.linalg.eigvals(_small(W_E, W_V, W_O, W_U))
    return z.sum() / z.abs().sum() if z.abs().sum() > 0 else torch.zeros((), dtype=z.dtype)


def eigenvalue_copying_score__wrong_vocab_by_vocab(W_E, W_V, W_O, W_U):
    """The whole circuit."""
    z = torch.linalg.eigvals((W_E @ W_V) @ (W_O @ W_U))
    return z.real.sum() / z.abs().sum() if z.abs().sum() > 0 else z.abs().sum()


def eigenvalue_copying_score__wrong_epsilon(W_E, W_V, W_O, W_U):
    """1e-6 in the denominator."""
    z = torch.linalg.eigvals(_small(W_E, W_V, W_O, W_U))
    return z.real.sum() / (z.abs().sum() + 1e-6)


def eigenvalue_copying_score__wrong_transposed_embedding(W_E, W_V, W_O, W_U):
    """The order of the product is turned round in the middle."""
    z = torch.linalg.eigvals(W_O @ W_E.T @ W_U.T @ W_V)
    return z.real.sum() / z.abs().sum() if z.abs().sum() > 0 else z.abs().sum()


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


def find_source__wrong_list(params, reader, n_heads, n_kv_heads):
    """A list in place of a tuple."""
    found = _scan(params, reader, n_heads, n_kv_heads)
    return list(max(found, key=found.get))


def find_source__wrong_divmod(params, reader, n_heads, n_kv_heads):
    """The flat place is divided by the number of layers."""
    found = _scan(params, reader, n_heads, n_kv_heads)
    place = max(range(len(found)), key=[*found.values()].__getitem__)
    return divmod(place, reader[0])


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


def cut_path__right_note_by_difference(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The same, with the reader's name looked up and a warning."""
    warnings.warn("a cut", stacklevel=2)
    names = {"query", "key", "value"} & {into}
    return _path(tokens, params, tuple(source), into, n_heads, n_kv_heads, base=base, eps=eps, which=names)


def cut_path__right_checkpointed(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Sequence after sequence."""
    rows = [_path(row[None], params, source, into, n_heads, n_kv_heads, base, eps) for row in tokens]
    return torch.cat(rows)


def cut_path__wrong_keys_and_values(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """Keys and values share what they read."""
    which = {"query"} if into == "query" else {"key", "value"}
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps, which=which)


def cut_path__wrong_always_keys(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """`into` is not looked at."""
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps, which={"key"})


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


def cut_path__wrong_last_position(tokens, params, source, into, n_heads, n_kv_heads, base=10000.0, eps=1e-5):
    """The last row alone."""
    return _path(tokens, params, source, into, n_heads, n_kv_heads, base, eps)[:, -1]


# ---------------------------------------------------------------------------------------------------------------------
# speculative_step


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


def speculative_step__wrong_quotient(draft, p_draft, p_target, generator):
    """In proportion to target over draft."""
    return _end(draft, p_draft, p_target, generator, lambda q, p: q / p.clamp_min(1e-9))


def speculative_step__wrong_smaller(draft, p_draft, p_target, generator):
    """From the smaller of both."""
    return _end(draft, p_draft, p_target, generator, torch.minimum)


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
