"""Right and wrong answers to unit 08_induction_heads, written from the contracts of the functions alone, to test
the judge with."""

import math
import warnings
import torch
import torch.nn.functional as F


def repeated_sequences__right_index(batch, period, repeats, vocab_size, generator):
    """Indexes the block with i modulo period; prints."""
    block = torch.randint(high=vocab_size, size=(batch, period), generator=generator, dtype=torch.int64)
    print("block", block[0].tolist() if batch else [])
    return block[:, torch.arange(period * repeats) % period]


def repeated_sequences__wrong_generator_not_advanced(batch, period, repeats, vocab_size, generator):
    """Draws from a copy of the generator: the next call gives the same block."""
    copy = torch.Generator()
    copy.set_state(generator.get_state())
    return torch.randint(0, vocab_size, (batch, period), generator=copy).repeat(1, repeats)


def repeated_sequences__wrong_twice(batch, period, repeats, vocab_size, generator):
    """Always two repeats."""
    return torch.randint(0, vocab_size, (batch, period), generator=generator).repeat(1, 2)


def repeated_sequences__wrong_vocab_and_period_swapped(batch, period, repeats, vocab_size, generator):
    """period and vocab_size swapped."""
    return torch.randint(0, period, (batch, vocab_size), generator=generator).repeat(1, repeats)


def previous_token_score__right_loop(weights):
    """A loop over positions; prints."""
    n = weights.shape[-1]
    total = torch.zeros_like(weights[..., 0, 0])
    for i in range(1, n):
        total = total + weights[..., i, i - 1]
    print("n =", n)
    return total if n == 1 else total / (n - 1)


def previous_token_score__right_recursion(weights):
    """Unpacks the leading axes one by one, down to single patterns."""
    if weights.ndim > 2:
        return torch.stack([previous_token_score__right_recursion(pattern) for pattern in weights])
    steps = len(weights) - 1
    return weights[1:, :-1].trace() / steps if steps else weights[0, 0] * 0


def _diag(weights, offset):
    """A diagonal of the last two axes."""
    return torch.diagonal(weights, offset=offset, dim1=-2, dim2=-1)


def previous_token_score__wrong_four_axes(weights):
    """Unpacks (B, h, n, n): other shapes fail."""
    _, _, n, _ = weights.shape
    return _diag(weights, -1).sum(-1) / max(n - 1, 1)


def prefix_matching_score__right_mask(weights, period):
    """A boolean matrix of the right pairs; where and sum."""
    n = weights.shape[-1]
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    right = (i - j == period - 1) & (i >= period)
    return torch.where(right, weights, 0.0).sum(dim=(-1, -2)) / right.sum().clamp(min=1).to(weights.dtype)


def prefix_matching_score__right_gather(weights, period):
    """gather along the keys."""
    n = weights.shape[-1]
    if not n > period:
        return torch.zeros(weights.shape[:-2], dtype=weights.dtype, device=weights.device)
    where = torch.arange(1, n - period + 1).view(-1, 1).expand(*weights.shape[:-2], -1, 1)
    return weights[..., period:, :].gather(-1, where).mean(dim=(-2, -1))


def _mean_at(weights, start, back, stop=None):
    """Mean attention from start <= i < stop to i - back, 0 if there is no such position."""
    n = weights.shape[-1]
    i = torch.arange(start, n if stop is None else min(stop, n))
    i = i[(i - back >= 0) & (i - back < n)]
    return weights[..., i, i - back].sum(-1) / max(len(i), 1)


def prefix_matching_score__wrong_second_repeat_only(weights, period):
    """Only the positions of the second repeat."""
    return _mean_at(weights, period, period - 1, 2 * period)


def prefix_matching_score__wrong_whole_repeats_only(weights, period):
    """Cuts the sequence to a multiple of the period."""
    n = weights.shape[-1] // period * period
    return _mean_at(weights, period, period - 1, n)


def prefix_matching_score__wrong_nan(weights, period):
    """NaN when n <= period."""
    return _diag(weights, 1 - period)[..., 1:].mean(-1)


def ov_circuit__right_two_halves(W_E, W_V, W_O, W_U):
    """(W_E W_V)(W_O W_U); prints."""
    print("rank at most", W_V.shape[1])
    return torch.matmul(W_E @ W_V, W_O @ W_U)


def ov_circuit__right_float64_outer(W_E, W_V, W_O, W_U):
    """A sum of outer products over the width of the head, in float64."""
    left, right = W_E.double() @ W_V.double(), W_O.double() @ W_U.double()
    return sum(torch.outer(left[:, k], right[k]) for k in range(left.shape[1])).to(W_E.dtype)


def ov_circuit__wrong_rounded(W_E, W_V, W_O, W_U):
    """Rounds to two decimals."""
    return torch.round(W_E @ W_V @ W_O @ W_U, decimals=2)


def copying_score__right_mask_diagonal(ov):
    """The plain one: the diagonal against the largest of the others."""
    own = torch.diagonal(ov)
    others = ov.masked_fill(torch.eye(len(ov), dtype=torch.bool), -math.inf).amax(dim=-1)
    return (own > others).to(ov.dtype).mean()


def copying_score__right_python_loops(ov):
    """Plain Python; prints."""
    rows = ov.tolist()
    good = sum(all(row[i] > v for j, v in enumerate(row) if j != i) for i, row in enumerate(rows))
    print(good, "of", len(rows))
    return good / len(rows)


def copying_score__right_one_hot_trace(ov):
    """A one-hot row for each largest entry; the trace counts."""
    return torch.nn.functional.one_hot(ov.argmax(-1), len(ov)).trace() / len(ov)


def copying_score__wrong_rounded(ov):
    """Rounds the share to one decimal."""
    return round(float(copying_score__right_mask_diagonal(ov)), 1)


def copying_score__wrong_always_zero(ov):
    """No token copies, whatever the circuit."""
    return 0.0


def copying_score__wrong_always_one(ov):
    """All tokens copy, whatever the circuit."""
    return torch.ones((), dtype=ov.dtype)


def composition_score__right_squares(W_QK, W_OV):
    """Sums of squares and one root; prints."""
    if not W_QK.any() or not W_OV.any():
        print("zero circuit")
        return W_QK.sum() * 0 + W_OV.sum() * 0
    product = torch.einsum("ab,cb->ac", W_QK, W_OV)
    return product.square().sum().sqrt() / (W_QK.square().sum().sqrt() * W_OV.square().sum().sqrt())


def composition_score__right_flat_hypot(W_QK, W_OV):
    """Vector norms of flattened matrices; a warning."""
    warnings.warn("composition", stacklevel=2)
    norms = [torch.linalg.vector_norm(M.flatten()) for M in (W_QK @ W_OV.transpose(0, 1), W_QK, W_OV)]
    return norms[0] / norms[1] / norms[2] if norms[1] > 0 and norms[2] > 0 else torch.tensor(0, dtype=W_QK.dtype)


def ablate_head__right_clone(head_outputs, head):
    """The plain one: a copy with a zero head."""
    out = head_outputs.clone()
    out[:, head] = 0
    return out


def ablate_head__right_einsum(head_outputs, head):
    """A diagonal matrix over the heads; not contiguous."""
    h = head_outputs.shape[1]
    D = torch.diag(torch.tensor([float(i != head) for i in range(h)], dtype=head_outputs.dtype))
    return torch.einsum("bgnd,gh->nbhd", head_outputs, D).movedim(0, 2)


def ablate_head__wrong_up_to_head(head_outputs, head):
    """Zeroes all heads up to it."""
    out = head_outputs.clone()
    out[:, : head + 1] = 0
    return out


def ablate_head__wrong_rescaled_without_guard(head_outputs, head):
    """The rest times h / (h - 1), as dropout does; a single head divides by zero."""
    kept = ablate_head__right_clone(head_outputs, head)
    h = head_outputs.shape[1]
    return kept * (h / (h - 1))


def in_context_learning_score__right_loop(losses, early, late):
    """A loop over the sequences; a warning."""
    warnings.warn("loop", stacklevel=2)
    total = 0
    for row in losses:
        total = total + row[late] - row[early]
    return total / len(losses)


def in_context_learning_score__right_contrast(losses, early, late):
    """A product with a contrast vector of +1 and -1 (0 where late = early)."""
    contrast = torch.zeros(losses.shape[1], dtype=losses.dtype)
    contrast[late] += 1
    contrast[early] -= 1
    return (losses @ contrast).mean()


def _icl(losses, early, late):
    """The score, right."""
    return (losses[:, late] - losses[:, early]).mean()


def in_context_learning_score__wrong_absolute(losses, early, late):
    """The absolute value."""
    return _icl(losses, early, late).abs()


def in_context_learning_score__wrong_clamped(losses, early, late):
    """At most zero: a positive score is cut off."""
    return _icl(losses, early, late).clamp(max=0)


def in_context_learning_score__wrong_ranges(losses, early, late):
    """Everything from late on, less everything before early."""
    return losses[:, late:].mean() - losses[:, :early].mean()


def _circuit(vocab, n_ctx, *, previous=300.0, step=12.0, match=None, back=1, scale_1=True, scale_2=True):
    """The usual circuit: token, position, copied token, output in four blocks of one-hot columns.

    `previous`: score of the previous token in layer 1; `step`: what a later key is worth in layer 2 per position;
    `match`: score of a key whose copied token is the query's token; `back`: how far layer 1 looks back."""
    v, n = vocab, n_ctx
    d = 3 * v + n
    tok, pos, cop, out = slice(0, v), slice(v, v + n), slice(v + n, 2 * v + n), slice(2 * v + n, d)
    match = step * (n + 3) + 20 if match is None else match
    W_E, W_pos, W_U = torch.zeros(v, d), torch.zeros(n, d), torch.zeros(d, v)
    W_E[:, tok], W_pos[:, pos], W_U[out] = torch.eye(v), torch.eye(n), 20 * torch.eye(v)
    first = {"W_Q": torch.zeros(d, n), "W_K": torch.zeros(d, n), "W_V": torch.zeros(d, v), "W_O": torch.zeros(v, d)}
    first["W_Q"][pos] = previous * (math.sqrt(n) if scale_1 else 1) * torch.eye(n).roll(-back, 1)
    if 0 < back < n:
        first["W_Q"][v : v + back] = 0
    first["W_K"][pos] = torch.eye(n)
    first["W_V"][tok], first["W_O"][:, cop] = torch.eye(v), torch.eye(v)
    w = v + 1
    second = {"W_Q": torch.zeros(d, w), "W_K": torch.zeros(d, w), "W_V": torch.zeros(d, v), "W_O": torch.zeros(v, d)}
    root = math.sqrt(w) if scale_2 else 1.0
    second["W_Q"][tok, :v], second["W_Q"][pos, v] = match * root * torch.eye(v), step * root
    second["W_K"][cop, :v], second["W_K"][pos, v] = torch.eye(v), torch.arange(n, dtype=torch.float32)
    second["W_V"][tok], second["W_O"][:, out] = torch.eye(v), torch.eye(v)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__right_one_hot(vocab_size, n_ctx):
    """The plain one: one-hot blocks of columns, a previous-token head, a match with a preference for later keys."""
    return _circuit(vocab_size, n_ctx)


def build_induction_circuit__right_codes_and_circle(vocab_size, n_ctx):
    """Few columns: tokens as +-1 codes of their bits, positions on a half circle; prints."""
    v, n = vocab_size, n_ctx
    bits = max(1, (v - 1).bit_length())
    code = torch.tensor([[1.0 if t >> k & 1 else -1.0 for k in range(bits)] for t in range(v)])
    d = 3 * bits + 4
    tok, cop, out = slice(0, bits), slice(bits, 2 * bits), slice(2 * bits, 3 * bits)
    cos, sin, one, place = range(3 * bits, d)
    angle = math.pi / n
    W_E, W_pos, W_U = torch.zeros(v, d), torch.zeros(n, d), torch.zeros(d, v)
    W_E[:, tok], W_U[out] = code, 10 * code.T
    theta = torch.arange(n, dtype=torch.float64) * angle
    W_pos[:, cos], W_pos[:, sin] = theta.cos().float(), theta.sin().float()
    W_pos[:, one], W_pos[:, place] = 1.0, torch.arange(n, dtype=torch.float32)
    sharp = 40 / (1 - math.cos(angle))
    turn = (
        sharp * math.sqrt(2) * torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    )
    first = {
        "W_Q": torch.zeros(d, 2),
        "W_K": torch.zeros(d, 2),
        "W_V": torch.zeros(d, bits),
        "W_O": torch.zeros(bits, d),
    }
    first["W_Q"][[cos, sin]], first["W_K"][[cos, sin]] = turn, torch.eye(2)
    first["W_V"][tok], first["W_O"][:, cop] = torch.eye(bits), torch.eye(bits)
    w, step = bits + 1, 12.0
    match = (step * (n + 3) + 20) / 2
    second = {k: torch.zeros(d, w) for k in ("W_Q", "W_K")} | {"W_V": torch.zeros(d, bits), "W_O": torch.zeros(bits, d)}
    second["W_Q"][tok, :bits], second["W_Q"][one, bits] = match * math.sqrt(w) * torch.eye(bits), step * math.sqrt(w)
    second["W_K"][cop, :bits], second["W_K"][place, bits] = torch.eye(bits), 1.0
    second["W_V"][tok], second["W_O"][:, out] = torch.eye(bits), torch.eye(bits)
    print("d_model", d)
    return {"W_E": W_E, "W_pos": W_pos, "W_U": W_U, "blocks": [first, second]}


def build_induction_circuit__wrong_step_too_small(vocab_size, n_ctx):
    """A preference of 0.5 per position: too soft between neighbouring copies (and at the first position)."""
    return _circuit(vocab_size, n_ctx, step=0.5)


def build_induction_circuit__wrong_half_context(vocab_size, n_ctx):
    """Position codes for the first half of the context only; the rest share one."""
    weights = _circuit(vocab_size, n_ctx)
    weights["W_pos"][n_ctx // 2 :] = weights["W_pos"][max(n_ctx // 2 - 1, 0)].clone()
    return weights


def _random_weights(vocab_size, n_ctx, std):
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return std * torch.randn(*shape, generator=generator)

    blocks = [{"W_Q": draw(64, 16), "W_K": draw(64, 16), "W_V": draw(64, 16), "W_O": draw(16, 64)} for _ in range(2)]
    return {"W_E": draw(vocab_size, 64), "W_pos": draw(n_ctx, 64), "W_U": draw(64, vocab_size), "blocks": blocks}


def build_induction_circuit__wrong_large_random(vocab_size, n_ctx):
    """Standard normal weights, whose attention is sharp and goes anywhere."""
    return _random_weights(vocab_size, n_ctx, 1.0)


def build_induction_circuit__wrong_zeros(vocab_size, n_ctx):
    """Weights of the right shapes that were never filled in."""
    return _random_weights(vocab_size, n_ctx, 0.0)


def _places(tokens):
    """Where the token before came, and where what followed an earlier occurrence stands."""
    n = len(tokens)
    before = torch.zeros(n, n, dtype=torch.bool)
    followed = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        for j in range(1, i + 1):
            before[i, j] = j == i - 1
            followed[i, j] = bool(tokens[j - 1] == tokens[i])
    if n > 1:
        before[1, 0] = True
    return before, followed


def _above_chance(pattern, places):
    """(score - chance) / (1 - chance), or None without a row."""
    n = len(places)
    rows = [i for i in range(n) if places[i].any()]
    if not rows:
        return None
    score = sum(float(pattern[i][places[i]].sum()) for i in rows) / len(rows)
    chance = sum(int(places[i].sum()) / (i + 1) for i in rows) / len(rows)
    return (score - chance) / (1 - chance)


def find_heads__right_sorted_from_a_set(patterns, tokens):
    """Collects a set and sorts it; the threshold is put on the raw score, half way from chance to 1."""
    before, followed = _places(tokens)
    pairs = {"before": set(), "followed": set()}
    for name, places in (("before", before), ("followed", followed)):
        rows = places.any(1).nonzero().flatten().tolist()
        if rows:
            chance = sum(float(places[i, : i + 1].double().mean()) for i in rows) / len(rows)
            for layer, stack in enumerate(patterns):
                for head, pattern in enumerate(stack):
                    score = float(pattern[rows].double().mul(places[rows]).sum()) / len(rows)
                    if score > (1 + chance) / 2:
                        pairs[name].add((layer, head))
    return sorted(pairs["before"]), sorted(pairs["followed"])


def find_heads__right_gather_by_one_hot(patterns, tokens):
    """A product of one-hot rows; the pattern read through einsum."""
    n = tokens.numel()
    _, kinds = torch.unique(tokens, return_inverse=True)
    one_hot = torch.nn.functional.one_hot(kinds).double()
    shifted = torch.cat([torch.zeros_like(one_hot[:1]), one_hot[:-1]])
    followed = torch.tril(one_hot @ shifted.T)
    before = torch.diag(torch.ones(n - 1, dtype=torch.float64), -1) if n > 1 else torch.zeros(1, 1).double()
    weight = 1 / torch.arange(1, n + 1).double()
    result = []
    for places in (before, followed):
        used = (places.sum(1) > 0).double()
        total = used.sum().clamp_min(1)
        score = torch.einsum("lhij,ij->lh", patterns.double(), places) / total
        chance = (places.sum(1) * weight).sum() / total
        hit = (score - chance > 0.5 * (1 - chance)) & (used.sum() > 0)
        result.append([tuple(pair) for pair in hit.nonzero().tolist()])
    return tuple(result)


def find_heads__wrong_best_of_each_kind(patterns, tokens):
    """Names the one best head of each kind if it passes."""
    lists = []
    for wanted in _places(tokens):
        scores = {
            (layer, head): _above_chance(patterns[layer, head], wanted)
            for layer in range(patterns.shape[0])
            for head in range(patterns.shape[1])
        }
        best = max(scores, key=lambda pair: scores[pair] or 0.0)
        lists.append([best] if (scores[best] or 0) > 0.5 else [])
    return lists[0], lists[1]


def _attend(query, key, block):
    n = query.shape[1]
    scores = torch.einsum("bid,bjd->bij", query @ block["W_Q"], key @ block["W_K"]) / math.sqrt(block["W_Q"].shape[-1])
    return torch.softmax(scores + torch.full((n, n), -math.inf, dtype=query.dtype).triu(1), dim=-1)


def _streams(tokens, weights):
    start = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    block = weights["blocks"][0]
    A = _attend(start, start, block)
    return start, A, start + A @ (start @ block["W_V"] @ block["W_O"])


def _second(tokens, weights, q=None, k=None, v=None, base=None):
    """For the wrong ones: streams by hand."""
    start, A, full = _streams(tokens, weights)
    pick = {"start": start, "full": full, "note": full - start, "zero": full * 0}
    q, k, v, base = (pick[name or "full"] for name in (q, k, v, base))
    block = weights["blocks"][1]
    B = _attend(q, k, block)
    return (base + B @ v @ block["W_V"] @ block["W_O"]) @ weights["W_U"], [A, B]


def ablate_path__wrong_values_never(tokens, weights, into):
    """The value branch does nothing."""
    return _second(tokens, weights, **({} if into == "value" else {into[0]: "start"}))


def _causal_softmax(scores):
    n = scores.shape[-1]
    return torch.softmax(scores.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), float("-inf")), -1)


def _run_attention_only(tokens, weights):
    x = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    patterns = []
    for b in weights["blocks"]:
        q, k = x @ b["W_Q"], x @ b["W_K"]
        A = _causal_softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]))
        x = x + A @ x @ b["W_V"] @ b["W_O"]
        patterns.append(A)
    return x @ weights["W_U"], patterns


def ablate_path__right_subtracts_the_note(tokens, weights, into):
    """Unusual: computes the note, subtracts its contribution from the projected q, k or v; einsum."""
    one, two = weights["blocks"]
    B, n = tokens.shape
    x = F.embedding(tokens, weights["W_E"]) + weights["W_pos"][torch.arange(n)]
    A1 = _causal_softmax(torch.einsum("bid,dh,eh,bje->bij", x, one["W_Q"], one["W_K"], x) / one["W_Q"].shape[1] ** 0.5)
    note = torch.einsum("bij,bjd,dv,ve->bie", A1, x, one["W_V"], one["W_O"])
    x = x + note
    parts = {name: x @ two[W] for name, W in (("query", "W_Q"), ("key", "W_K"), ("value", "W_V"))}
    parts[into] = parts[into] - note @ two[{"query": "W_Q", "key": "W_K", "value": "W_V"}[into]]
    A2 = _causal_softmax(torch.einsum("bih,bjh->bij", parts["query"], parts["key"]) / two["W_Q"].shape[1] ** 0.5)
    out = x + torch.einsum("bij,bjv,vd->bid", A2, parts["value"], two["W_O"])
    return out @ weights["W_U"], (A1, A2)


def ablate_path__right_logits_as_sum_of_paths(tokens, weights, into):
    """Unusual: pattern 1 taken from the given run; logits as a sum of three separate paths to W_U; patterns a tuple."""
    one, two = weights["blocks"]
    A1 = _run_attention_only(tokens, weights)[1][0]
    x0 = weights["W_E"][tokens] + weights["W_pos"][None, : tokens.size(1)]
    note = A1 @ (x0 @ (one["W_V"] @ one["W_O"]))
    x1 = x0 + note
    q, k, v = (x0 if into == name else x1 for name in ("query", "key", "value"))
    scores = (q @ (two["W_Q"] @ two["W_K"].T) @ k.mT) * two["W_K"].shape[-1] ** -0.5
    n = tokens.size(1)
    A2 = (scores + torch.full((n, n), float("-inf")).triu(1)).softmax(dim=2)
    logits = x0 @ weights["W_U"] + note @ weights["W_U"] + A2 @ (v @ (two["W_V"] @ two["W_O"] @ weights["W_U"]))
    return logits, (A1, A2)
