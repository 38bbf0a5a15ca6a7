"""Right and wrong answers to the challenges of units 7 to 9, written from their contracts alone: nothing was added to the judge for them."""  # noqa: E501

import math
from functools import reduce
import torch
import torch.nn.functional as F


# ---------------------------------------------------------------- bits_per_token
def bits_per_token__wrong_mean_of_row_means(logits, targets, mask):
    """Wrong: averages each sequence first, then the sequences, so short ones weigh as much as long ones."""
    logp = torch.log_softmax(logits, dim=-1)
    safe = torch.where(mask, targets, torch.zeros_like(targets))
    bits = -logp.gather(-1, safe.unsqueeze(-1)).squeeze(-1) / math.log(2)
    per_row = (bits * mask).sum(-1) / mask.sum(-1).clamp(min=1)
    return per_row.mean()


def bits_per_token__wrong_divides_by_all(logits, targets, mask):
    """Wrong: the sum runs over counted tokens, the division over all B*n."""
    logp = torch.log_softmax(logits, dim=-1)
    safe = targets.masked_fill(~mask, 0)
    bits = -logp.gather(-1, safe[..., None])[..., 0] / math.log(2)
    return torch.where(mask, bits, torch.zeros_like(bits)).mean()


def bits_per_token__wrong_shifts_targets_again(logits, targets, mask):
    """Wrong: targets are already the next tokens, here they are shifted a second time."""
    logits, targets, mask = logits[:, :-1], targets[:, 1:], mask[:, 1:]
    if not mask.any():
        return logits.sum() * 0
    logp = torch.log_softmax(logits[mask], dim=-1)
    picked = logp.gather(1, targets[mask][:, None])
    return -picked.mean() / math.log(2)


def bits_per_token__wrong_cuts_gradient(logits, targets, mask):
    """Wrong: adds up Python floats, so no gradient flows back to the logits."""
    total, count = 0.0, 0
    logp = torch.log_softmax(logits, dim=-1)
    for b in range(targets.shape[0]):
        for i in range(targets.shape[1]):
            if mask[b, i]:
                total -= logp[b, i, targets[b, i]].item() / math.log(2)
                count += 1
    return torch.tensor(total / count if count else 0.0, dtype=logits.dtype)


def bits_per_token__wrong_clamps_probability(logits, targets, mask):
    """Wrong: log2 of the probability clamped at 1e-9: a confident mistake costs at most 30 bits."""
    p = torch.softmax(logits, dim=-1)
    safe = targets.masked_fill(~mask, 0)
    picked = p.gather(-1, safe[..., None])[..., 0].clamp(min=1e-9)
    return -(torch.log2(picked) * mask).sum() / mask.sum().clamp(min=1)


def bits_per_token__wrong_skips_target_zero(logits, targets, mask):
    """Wrong: takes token 0 for padding, although mask alone says what counts."""
    counts = mask & (targets != 0)
    safe = targets.masked_fill(~counts, 0)
    logp = torch.log_softmax(logits, dim=-1) / math.log(2)
    bits = -logp.gather(-1, safe[..., None])[..., 0]
    return (bits * counts).sum() / counts.sum().clamp(min=1)


def bits_per_token__right_boolean_indexing(logits, targets, mask):
    """Unusual: picks the counted rows first; surprise as logsumexp minus own logit."""
    rows, wanted = logits[mask], targets[mask]
    own = rows[torch.arange(len(wanted), device=rows.device), wanted]
    nats = torch.logsumexp(rows, dim=-1) - own
    return nats.sum() / max(len(wanted), 1) / math.log(2)


def bits_per_token__right_one_hot_by_comparison(logits, targets, mask):
    """Unusual: no index at all, compares the targets with an arange (masked ones match nothing)."""
    ids = torch.arange(logits.shape[-1], device=logits.device)
    hit = (targets[..., None] == ids) & mask[..., None]
    logp = F.log_softmax(logits, dim=-1)
    total = torch.where(hit, logp, torch.zeros_like(logp)).sum()
    return total / (-math.log(2) * mask.sum().clamp(min=1))


def bits_per_token__right_nll_loss(logits, targets, mask):
    """Unusual: F.nll_loss (not F.cross_entropy) with ignore_index, sum, then divided by the count."""
    labels = torch.where(mask, targets, torch.full_like(targets, -100))
    logp = torch.log_softmax(logits, dim=-1)
    total = F.nll_loss(logp.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
    n = mask.sum()
    return total * math.log2(math.e) / n if n > 0 else total


def bits_per_token__right_loop_of_gaps(logits, targets, mask):
    """Unusual: Python loop, each surprise the logsumexp of the gaps to the target; running mean."""
    mean, count = logits.sum() * 0.0, 0
    for b, i in mask.nonzero().tolist():
        gaps = logits[b, i] - logits[b, i, targets[b, i]]
        bits = gaps.logsumexp(0) * (1 / math.log(2))
        count += 1
        mean = mean + (bits - mean) / count
    return mean


# ---------------------------------------------------------------- adamw_step
def adamw_step__wrong_l2_in_gradient(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Wrong: Adam with L2: the decay is added to the gradient and gets into m and v."""
    g = grad + weight_decay * w
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * m_hat / (v_hat.sqrt() + eps), m, v


def adamw_step__wrong_decay_without_lr(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Wrong: the decay is not multiplied by the learning rate."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return (1 - weight_decay) * w - lr * m_hat / (v_hat.sqrt() + eps), m, v


def adamw_step__wrong_returns_corrected_moments(
    w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01
):
    """Wrong: returns the bias-corrected moments, which the next step would average and correct again."""
    m = (beta1 * m + (1 - beta1) * grad) / (1 - beta1**step)
    v = (beta2 * v + (1 - beta2) * grad**2) / (1 - beta2**step)
    return w - lr * (m / (v.sqrt() + eps) + weight_decay * w), m, v


def adamw_step__wrong_moments_in_place(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Wrong: the numbers are right but the caller's m and v are overwritten."""
    m.mul_(beta1).add_(grad, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w), m, v


def adamw_step__wrong_eps_inside_root(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Wrong: sqrt(v_hat + eps) as in layer_norm, instead of sqrt(v_hat) + eps."""
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return w - lr * (m_hat / torch.sqrt(v_hat + eps) + weight_decay * w), m, v


def adamw_step__wrong_step_from_zero(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Wrong: corrects with step + 1, as if the first step were number 0."""
    t = step + 1
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad**2
    m_hat, v_hat = m / (1 - beta1**t), v / (1 - beta2**t)
    return w - lr * (m_hat / (v_hat.sqrt() + eps) + weight_decay * w), m, v


def adamw_step__right_torch_order(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Unusual: decay first by a factor, lerp, addcmul, addcdiv, as the library's own code does."""
    new_m = torch.lerp(m, grad, 1 - beta1)
    new_v = torch.addcmul(v * beta2, grad, grad, value=1 - beta2)
    denominator = new_v.sqrt() / math.sqrt(1 - beta2**step) + eps
    new_w = torch.addcdiv(w * (1 - lr * weight_decay), new_m, denominator, value=-lr / (1 - beta1**step))
    return new_w, new_m, new_v


def adamw_step__right_corrections_in_lr(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Unusual: both corrections moved into the step size, eps scaled along so that nothing changes."""
    c1, c2 = 1 - beta1**step, math.sqrt(1 - beta2**step)
    m = m - (1 - beta1) * (m - grad)
    v = v - (1 - beta2) * (v - grad.square())
    rate = lr * c2 / c1
    return w - lr * weight_decay * w - rate * m / (v.sqrt() + eps * c2), m, v


def adamw_step__right_scalar_loop(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Unusual: number by number in Python floats (gradients need not flow), rebuilt in w's dtype."""
    new_w, new_m, new_v = [], [], []
    for a, g, p, q in zip(*(t.flatten().tolist() for t in (w, grad, m, v))):
        p = beta1 * p + (1 - beta1) * g
        q = beta2 * q + (1 - beta2) * g * g
        direction = p / (1 - beta1**step) / ((q / (1 - beta2**step)) ** 0.5 + eps)
        new_w.append(a - lr * (direction + weight_decay * a))
        new_m.append(p)
        new_v.append(q)
    return tuple(torch.tensor(x, dtype=w.dtype, device=w.device).reshape(w.shape) for x in (new_w, new_m, new_v))


def adamw_step__right_stacked_in_double(w, grad, m, v, step, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """Unusual: both moments as one stacked tensor in float64; results are views, cast back."""
    beta = torch.tensor([beta1, beta2], dtype=torch.float64).reshape(2, *[1] * w.dim())
    g = grad.double()
    moments = beta * torch.stack((m, v)).double() + (1 - beta) * torch.stack((g, g * g))
    first, second = moments / (1 - beta**step)
    new_w = w.double() - lr * (first / (second**0.5 + eps) + weight_decay * w.double())
    new_m, new_v = moments.to(w.dtype)
    return new_w.to(w.dtype), new_m, new_v


# ---------------------------------------------------------------- sample
def _nucleus(p, top_p):
    values, ids = torch.sort(p, descending=True, stable=True)
    keep = values.cumsum(0) - values < top_p
    out = torch.zeros_like(p)
    out[ids[keep]] = values[keep]
    return out


def sample__wrong_draws_in_rank_order(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Wrong: draws over the sorted probabilities and maps back, so the generator picks other tokens."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            t = int(logits.argmax())
        else:
            values, ids = torch.sort(torch.softmax(logits / temperature, -1), descending=True)
            values = torch.where(values.cumsum(0) - values < top_p, values, torch.zeros_like(values))
            t = int(ids[torch.multinomial(values, 1, generator=generator)])
        tokens.append(t)
        if t == end:
            break
    return tokens


def sample__wrong_drops_crossing_token(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Wrong: keeps ids while the running sum stays <= top_p, so the one that reaches it is lost (the first always stays)."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            t = int(logits.argmax())
        else:
            p = torch.softmax(logits / temperature, -1)
            values, ids = torch.sort(p, descending=True)
            keep = values.cumsum(0) <= top_p
            keep[0] = True
            p[ids[~keep]] = 0
            t = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(t)
        if t == end:
            break
    return tokens


def sample__wrong_nucleus_before_temperature(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Wrong: chooses the nucleus at temperature 1 and applies the temperature only afterwards."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            t = int(logits.argmax())
        else:
            inside = _nucleus(torch.softmax(logits, -1), top_p) > 0
            p = torch.softmax((logits / temperature).masked_fill(~inside, float("-inf")), -1)
            t = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(t)
        if t == end:
            break
    return tokens


def sample__wrong_stops_at_end_in_prompt(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Wrong: tests the last token before generating, so a prompt that finishes with `end` stops at once."""
    tokens = list(prompt)
    while len(tokens) < max_len and tokens[-1:] != [end]:
        logits = next_logits(list(tokens))
        if temperature == 0:
            tokens.append(int(logits.argmax()))
        else:
            p = _nucleus(torch.softmax(logits / temperature, -1), top_p)
            tokens.append(int(torch.multinomial(p, 1, generator=generator)))
    return tokens


def sample__wrong_max_len_counts_new_only(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Wrong: generates up to max_len tokens on top of the prompt."""
    tokens = list(prompt)
    for _ in range(max_len):
        logits = next_logits(list(tokens))
        if temperature == 0:
            t = int(logits.argmax())
        else:
            p = _nucleus(torch.softmax(logits / temperature, -1), top_p)
            t = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(t)
        if t == end:
            break
    return tokens


def sample__wrong_greedy_still_draws(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Wrong: replaces temperature 0 by 1e-6 and draws: same tokens, but the generator has moved on."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        p = _nucleus(torch.softmax(logits / max(temperature, 1e-6), -1), top_p)
        t = int(torch.multinomial(p, 1, generator=generator))
        tokens.append(t)
        if t == end:
            break
    return tokens


def sample__right_recursive(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Unusual: one token, then itself with a longer prompt; p not normalised again (multinomial does it)."""
    if len(prompt) >= max_len:
        return list(prompt)
    logits = next_logits(list(prompt))
    if temperature == 0:
        t = int(torch.argmax(logits))
    else:
        p = _nucleus(torch.softmax(logits / temperature, 0), top_p)
        t = torch.multinomial(p, 1, generator=generator).item()
    longer = [*prompt, t]
    return (
        longer
        if t == end
        else sample__right_recursive(next_logits, longer, end, max_len, temperature, top_p, generator)
    )


def sample__right_python_nucleus(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Unusual: nucleus by a Python loop over sorted(), renormalised, for-else style."""
    tokens = prompt[:]
    for _ in range(max_len - len(prompt)):
        logits = next_logits(tokens[:])
        if not temperature:
            best = max(range(len(logits)), key=lambda i: (float(logits[i]), -i))
        else:
            p = F.softmax(logits / temperature, dim=-1)
            probabilities, total = p.tolist(), 0.0
            kept = []
            for i in sorted(range(len(probabilities)), key=lambda i: -probabilities[i]):
                if total >= top_p:
                    break
                kept.append(i)
                total += probabilities[i]
            q = torch.zeros_like(p)
            q[kept] = p[kept] / p[kept].sum()
            best = int(torch.multinomial(q, 1, generator=generator)[0])
        tokens += [best]
        if best == end:
            break
    return tokens


def sample__right_pairwise_comparison(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Unusual: an id stays if the ids before it in rank (by a vocab x vocab comparison) sum to less than top_p; no sort."""
    tokens = list(prompt)
    done = False
    while not done and len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature == 0:
            t = int((logits == logits.max()).nonzero()[0])
        else:
            p = (logits / temperature).softmax(-1)
            ids = torch.arange(len(p))
            before = (p[None, :] > p[:, None]) | ((p[None, :] == p[:, None]) & (ids[None, :] < ids[:, None]))
            mass_before = (before * p).sum(1)
            t = int(torch.multinomial(p * (mass_before < top_p), 1, generator=generator))
        tokens.append(t)
        done = t == end
    return tokens


def sample__right_masked_logits(next_logits, prompt, end, max_len, temperature, top_p, generator):
    """Unusual: logits outside the nucleus become -inf and a second softmax renormalises; cut by searchsorted."""
    tokens = list(prompt)
    while len(tokens) < max_len:
        logits = next_logits(list(tokens))
        if temperature > 0:
            scaled = (logits - logits.max()) / temperature
            order = torch.argsort(scaled, descending=True)
            running = torch.softmax(scaled, 0)[order].cumsum(0)
            size = int((running < top_p).sum()) + 1
            scaled = scaled.index_fill(0, order[size:], float("-inf"))
            t = torch.multinomial(torch.softmax(scaled, 0), 1, generator=generator).tolist()[0]
        else:
            t = logits.argmax().tolist()
        tokens.append(t)
        if t == end:
            return tokens
    return tokens


# ---------------------------------------------------------------- find_heads
def _targets_of_induction(tokens):
    n = len(tokens)
    hit = torch.zeros(n, n, dtype=torch.bool)
    hit[:, 1:] = tokens[:, None] == tokens[None, :-1]
    return hit & torch.ones(n, n).tril().bool()


def _even(n):
    return torch.ones(n, n, dtype=torch.float64).tril() / torch.arange(1, n + 1)[:, None]


def _previous_mean(A):
    d = torch.diagonal(A, offset=-1, dim1=-2, dim2=-1)
    return float(d.mean()) if d.numel() else 0.0


def _induction_mean(A, hit):
    rows = hit.any(1)
    return float((A * hit).sum(-1)[rows].mean()) if rows.any() else 0.0


def _search(patterns, tokens, is_previous, is_induction):
    previous, induction = [], []
    for l in range(patterns.shape[0]):
        for h in range(patterns.shape[1]):
            if is_previous(patterns[l, h].double()):
                previous.append((l, h))
            if is_induction(patterns[l, h].double()):
                induction.append((l, h))
    return previous, induction


def find_heads__wrong_no_base_rate(patterns, tokens):
    """Wrong: compares the raw score with 0.5, without taking off what even attention gets."""
    hit = _targets_of_induction(tokens)
    return _search(patterns, tokens, lambda A: _previous_mean(A) > 0.5, lambda A: _induction_mean(A, hit) > 0.5)


def find_heads__wrong_difference_not_share(patterns, tokens):
    """Wrong: score - chance > 0.5, not divided by 1 - chance: a perfect head fails where chance is high."""
    n = patterns.shape[-1]
    hit, even = _targets_of_induction(tokens), _even(patterns.shape[-1])
    return _search(
        patterns,
        tokens,
        lambda A: _previous_mean(A) - _previous_mean(even) > 0.5,
        lambda A: _induction_mean(A, hit) - _induction_mean(even, hit) > 0.5,
    )


def find_heads__wrong_nearest_match_only(patterns, tokens):
    """Wrong: counts the weight on the most recent match only, not the sum over all."""
    n = len(tokens)
    hit = _targets_of_induction(tokens)
    last = torch.zeros_like(hit)
    for i in range(n):
        js = hit[i].nonzero().flatten()
        if len(js):
            last[i, js[-1]] = True
    even = _even(n)

    def share(score, chance):
        return (score - chance) / (1 - chance) > 0.5

    return _search(
        patterns,
        tokens,
        lambda A: share(_previous_mean(A), _previous_mean(even)),
        lambda A: share(_induction_mean(A, last), _induction_mean(even, last)),
    )


def find_heads__wrong_duplicate_token_head(patterns, tokens):
    """Wrong: looks at earlier copies of the token itself (tokens[j] == tokens[i], j < i), not at what followed them."""
    n = len(tokens)
    hit = (tokens[:, None] == tokens[None, :]) & torch.ones(n, n).tril(-1).bool()
    even = _even(n)

    def share(score, chance):
        return (score - chance) / (1 - chance) > 0.5

    return _search(
        patterns,
        tokens,
        lambda A: share(_previous_mean(A), _previous_mean(even)),
        lambda A: share(_induction_mean(A, hit), _induction_mean(even, hit)),
    )


def find_heads__wrong_rows_without_match_count(patterns, tokens):
    """Wrong: rows without any match count as zeros in the score, so a rare-repeat text hides its induction head."""
    n = len(tokens)
    hit, even = _targets_of_induction(tokens), _even(len(tokens))

    def score(A):
        return float((A * hit).sum(-1).mean())

    def share(s, chance):
        return (s - chance) / (1 - chance) > 0.5

    return _search(
        patterns,
        tokens,
        lambda A: share(_previous_mean(A), _previous_mean(even)),
        lambda A: share(score(A), score(even)),
    )


def find_heads__wrong_head_first(patterns, tokens):
    """Wrong: the tuples are (head, layer)."""
    previous, induction = find_heads__right_python_sums(patterns, tokens)
    return sorted((h, l) for l, h in previous), sorted((h, l) for l, h in induction)


def find_heads__right_python_sums(patterns, tokens):
    """Unusual: plain Python lists and loops, chance counted row by row."""
    A, t = patterns.tolist(), tokens.tolist()
    n = len(t)
    where = {i: [j for j in range(1, i + 1) if t[j - 1] == t[i]] for i in range(n)}
    where = {i: js for i, js in where.items() if js}
    found = [], []
    for l, layer in enumerate(A):
        for h, head in enumerate(layer):
            for out, places in zip(found, ({i: [i - 1] for i in range(1, n)}, where)):
                if not places:
                    continue
                score = sum(head[i][j] for i, js in places.items() for j in js) / len(places)
                chance = sum(len(js) / (i + 1) for i, js in places.items()) / len(places)
                if score - chance > 0.5 * (1 - chance):
                    out.append((l, h))
    return found


def find_heads__right_einsum_with_even_head(patterns, tokens):
    """Unusual: even attention is appended as one more layer and scored by the same einsum, then read off."""
    L, H, n, _ = patterns.shape
    even = torch.ones(n, n, dtype=patterns.dtype).tril()
    even = (even / even.sum(1, keepdim=True)).expand(1, H, n, n)
    P = torch.cat([patterns, even])
    hit = torch.zeros(2, n, n, dtype=P.dtype)
    hit[0] = torch.diag(torch.ones(max(n - 1, 0)), -1)
    hit[1, :, 1:] = (tokens[:, None] == tokens[None, :-1]).to(P.dtype)
    hit[1] = hit[1].tril()
    rows = hit.amax(-1).sum(-1).clamp(min=1)
    s = torch.einsum("lhij,kij->klh", P, hit) / rows[:, None, None]
    chance = s[:, -1:, :]
    good = (s[:, :-1] - chance) / (1 - chance) > 0.5
    return tuple([tuple(x) for x in g.nonzero().tolist()] for g in good)


def find_heads__right_history_dictionary(patterns, tokens):
    """Unusual: one walk over the text with a dictionary token -> columns that followed it; all heads at once."""
    L, H, n, _ = patterns.shape
    followers, rows, gain, total = {}, 0, torch.zeros(L, H, dtype=torch.float64), 0.0
    prev_gain, prev_total = torch.zeros(L, H, dtype=torch.float64), 0.0
    for i, token in enumerate(tokens.tolist()):
        if i:
            followers.setdefault(int(tokens[i - 1]), []).append(i)
            prev_gain += patterns[:, :, i, i - 1].double() - 1 / (i + 1)
            prev_total += 1 - 1 / (i + 1)
        columns = followers.get(token, [])
        if columns:
            base = len(columns) / (i + 1)
            gain += patterns[:, :, i, columns].double().sum(-1) - base
            total += 1 - base
    pairs = [(l, h) for l in range(L) for h in range(H)]
    return (
        [p for p in pairs if prev_total and prev_gain[p] / prev_total > 0.5],
        [p for p in pairs if total and gain[p] / total > 0.5],
    )


def find_heads__right_matmul_shift(patterns, tokens):
    """Unusual: matches by one-hot products, shifted right by a roll; heads flattened, divmod brings the pair back."""
    L, H, n, _ = patterns.shape
    heads = patterns.reshape(L * H, n * n).double()
    ids = torch.unique(tokens, return_inverse=True)[1]
    hot = F.one_hot(ids).double()
    same = hot @ hot.T
    shifted = torch.roll(same, 1, dims=1)
    shifted[:, 0] = 0
    shifted = shifted.tril()
    before = torch.roll(torch.eye(n, dtype=torch.float64), -1, dims=1).tril(-1)
    even = torch.tril(torch.ones(n, n, dtype=torch.float64))
    even = (even / even.sum(-1, keepdim=True)).reshape(-1)
    answer = []
    for where in (before, shifted):
        count = int((where.sum(1) > 0).sum())
        if count == 0:
            answer.append([])
            continue
        weight = where.reshape(-1) / count
        chance = even @ weight
        share = (heads @ weight - chance) / (1 - chance)
        answer.append([divmod(k, H) for k in (share > 0.5).nonzero().flatten().tolist()])
    return tuple(answer)


# ---------------------------------------------------------------- ablate_path
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


def _layer(q_from, k_from, v_from, b):
    q, k = q_from @ b["W_Q"], k_from @ b["W_K"]
    A = _causal_softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]))
    return A @ (v_from @ b["W_V"]) @ b["W_O"], A


def ablate_path__wrong_drops_note_everywhere(tokens, weights, into):
    """Wrong: zeroes layer 1's W_O, so query, key, value and the residual all lose the note."""
    first, second = weights["blocks"]
    silent = dict(first, W_O=torch.zeros_like(first["W_O"]))
    logits, patterns = _run_attention_only(tokens, dict(weights, blocks=[silent, second]))
    return logits, patterns


def ablate_path__wrong_residual_from_embedding(tokens, weights, into):
    """Wrong: layer 2 adds its output to the embedding, so the residual stream loses the note too."""
    first, second = weights["blocks"]
    x0 = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    d, A1 = _layer(x0, x0, x0, first)
    x1 = x0 + d
    source = {"query": x1, "key": x1, "value": x1, into: x0}
    d, A2 = _layer(source["query"], source["key"], source["value"], second)
    return (x0 + d) @ weights["W_U"], [A1, A2]


def ablate_path__wrong_forgets_positions(tokens, weights, into):
    """Wrong: the replaced input is W_E[tokens] alone, without W_pos."""
    first, second = weights["blocks"]
    word = weights["W_E"][tokens]
    x0 = word + weights["W_pos"][: tokens.shape[1]]
    d, A1 = _layer(x0, x0, x0, first)
    x1 = x0 + d
    source = {"query": x1, "key": x1, "value": x1, into: word}
    d, A2 = _layer(source["query"], source["key"], source["value"], second)
    return (x1 + d) @ weights["W_U"], [A1, A2]


def ablate_path__wrong_only_path_kept(tokens, weights, into):
    """Wrong: the other way round: `into` keeps the note and the other two lose it."""
    first, second = weights["blocks"]
    x0 = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    d, A1 = _layer(x0, x0, x0, first)
    x1 = x0 + d
    source = {"query": x0, "key": x0, "value": x0, into: x1}
    d, A2 = _layer(source["query"], source["key"], source["value"], second)
    return (x1 + d) @ weights["W_U"], [A1, A2]


def ablate_path__wrong_zero_instead(tokens, weights, into):
    """Wrong: the chosen input is set to zero instead of to the embedding."""
    first, second = weights["blocks"]
    x0 = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    d, A1 = _layer(x0, x0, x0, first)
    x1 = x0 + d
    source = {"query": x1, "key": x1, "value": x1, into: torch.zeros_like(x1)}
    d, A2 = _layer(source["query"], source["key"], source["value"], second)
    return (x1 + d) @ weights["W_U"], [A1, A2]


def ablate_path__wrong_query_and_key_swapped(tokens, weights, into):
    """Wrong: "query" takes the note from what W_K reads and "key" from what W_Q reads."""
    first, second = weights["blocks"]
    x0 = weights["W_E"][tokens] + weights["W_pos"][: tokens.shape[1]]
    d, A1 = _layer(x0, x0, x0, first)
    x1 = x0 + d
    q_in = x0 if into == "key" else x1
    k_in = x0 if into == "query" else x1
    v_in = x0 if into == "value" else x1
    d, A2 = _layer(q_in, k_in, v_in, second)
    return (x1 + d) @ weights["W_U"], [A1, A2]


def ablate_path__right_doubled_stream(tokens, weights, into):
    """Unusual: calls the given run on doubled weights: one half of the stream stays the embedding, layer 2 reads there."""
    first, second = weights["blocks"]

    def low(W):
        return torch.cat([torch.zeros_like(W), W], 0)

    def high(W):
        return torch.cat([W, torch.zeros_like(W)], 0)

    def write(W):
        return torch.cat([torch.zeros_like(W), W], 1)

    b1 = {"W_Q": high(first["W_Q"]), "W_K": high(first["W_K"]), "W_V": high(first["W_V"]), "W_O": write(first["W_O"])}
    b2 = {
        name: (high if into == word else low)(second[name])
        for name, word in (("W_Q", "query"), ("W_K", "key"), ("W_V", "value"))
    }
    b2["W_O"] = write(second["W_O"])
    return _run_attention_only(
        tokens,
        {
            "W_E": torch.cat([weights["W_E"]] * 2, 1),
            "W_pos": torch.cat([weights["W_pos"]] * 2, 1),
            "W_U": low(weights["W_U"]),
            "blocks": [b1, b2],
        },
    )


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


def ablate_path__right_row_by_row(tokens, weights, into):
    """Unusual: a Python loop over batch and query positions, growing prefixes instead of a mask."""
    one, two = weights["blocks"]
    logits, first, second = [], [], []
    for row in tokens:
        n = len(row)
        x0 = weights["W_E"][row] + weights["W_pos"][:n]

        def attend(q, k, v, b):
            weight, out = [], []
            for i in range(n):
                s = (k[: i + 1] @ b["W_K"]) @ (q[i] @ b["W_Q"]) / math.sqrt(b["W_Q"].shape[1])
                a = torch.softmax(s, 0)
                weight.append(F.pad(a, (0, n - i - 1)))
                out.append(a @ v[: i + 1] @ b["W_V"] @ b["W_O"])
            return torch.stack(out), torch.stack(weight)

        note, A1 = attend(x0, x0, x0, one)
        x1 = x0 + note
        inputs = [x0 if name == into else x1 for name in ("query", "key", "value")]
        change, A2 = attend(*inputs, two)
        logits.append((x1 + change) @ weights["W_U"])
        first.append(A1)
        second.append(A2)
    return torch.stack(logits), [torch.stack(first), torch.stack(second)]


# ---------------------------------------------------------------- tiled_causal_attention
def tiled_causal_attention__wrong_output_not_rescaled(Q, K, V, block_size):
    """Wrong: when the maximum grows the sum is rescaled but not the output collected so far."""
    n, d = Q.shape[-2:]
    outs = []
    for i in range(0, n, block_size):
        q = Q[..., i : i + block_size, :]
        rows = torch.arange(i, i + q.shape[-2])[:, None]
        m = torch.full(q.shape[:-1] + (1,), float("-inf"), dtype=Q.dtype)
        s, o = torch.zeros_like(m), torch.zeros_like(q)
        for j in range(0, i + q.shape[-2], block_size):
            k, v = K[..., j : j + block_size, :], V[..., j : j + block_size, :]
            z = q @ k.transpose(-1, -2) / math.sqrt(d)
            z = z.masked_fill(torch.arange(j, j + k.shape[-2]) > rows, float("-inf"))
            new = torch.maximum(m, z.amax(-1, keepdim=True))
            p = torch.exp(z - new)
            s = s * torch.exp(m - new) + p.sum(-1, keepdim=True)
            o = o + p @ v
            m = new
        outs.append(o / s)
    return torch.cat(outs, -2)


def tiled_causal_attention__wrong_all_key_blocks_then_mask(Q, K, V, block_size):
    """Wrong: right values, but wholly later key blocks are multiplied too and then masked away."""
    n, d = Q.shape[-2:]
    outs = []
    for i in range(0, n, block_size):
        q = Q[..., i : i + block_size, :]
        rows = torch.arange(i, i + q.shape[-2])[:, None]
        m = torch.full(q.shape[:-1] + (1,), float("-inf"), dtype=Q.dtype)
        s, o = torch.zeros_like(m), torch.zeros_like(q)
        for j in range(0, n, block_size):
            k, v = K[..., j : j + block_size, :], V[..., j : j + block_size, :]
            z = q @ k.transpose(-1, -2) / math.sqrt(d)
            z = z.masked_fill(torch.arange(j, j + k.shape[-2]) > rows, float("-inf"))
            new = torch.maximum(m, z.amax(-1, keepdim=True))
            p, shrink = torch.exp(z - new), torch.exp(m - new)
            s, o, m = s * shrink + p.sum(-1, keepdim=True), o * shrink + p @ v, new
        outs.append(o / s)
    return torch.cat(outs, -2)


def tiled_causal_attention__wrong_diagonal_block_open(Q, K, V, block_size):
    """Wrong: later blocks are skipped, but within the diagonal block every query sees every key."""
    n, d = Q.shape[-2:]
    outs = []
    for i in range(0, n, block_size):
        q = Q[..., i : i + block_size, :]
        m = torch.full(q.shape[:-1] + (1,), float("-inf"), dtype=Q.dtype)
        s, o = torch.zeros_like(m), torch.zeros_like(q)
        for j in range(0, i + 1, block_size):
            k, v = K[..., j : j + block_size, :], V[..., j : j + block_size, :]
            z = q @ k.transpose(-1, -2) / math.sqrt(d)
            new = torch.maximum(m, z.amax(-1, keepdim=True))
            p, shrink = torch.exp(z - new), torch.exp(m - new)
            s, o, m = s * shrink + p.sum(-1, keepdim=True), o * shrink + p @ v, new
        outs.append(o / s)
    return torch.cat(outs, -2)


def tiled_causal_attention__wrong_queries_in_blocks_only(Q, K, V, block_size):
    """Wrong: only the queries are tiled: each block's scores against all its keys at once (block x i)."""
    n, d = Q.shape[-2:]
    outs = []
    for i in range(0, n, block_size):
        stop = min(i + block_size, n)
        z = Q[..., i:stop, :] @ K[..., :stop, :].transpose(-1, -2) / math.sqrt(d)
        later = torch.arange(stop)[None, :] > torch.arange(i, stop)[:, None]
        outs.append(torch.softmax(z.masked_fill(later, float("-inf")), -1) @ V[..., :stop, :])
    return torch.cat(outs, -2)


def tiled_causal_attention__wrong_maximum_starts_at_zero(Q, K, V, block_size):
    """Wrong: the running maximum begins at 0, so rows of very negative scores underflow to 0/0."""
    n, d = Q.shape[-2:]
    outs = []
    for i in range(0, n, block_size):
        q = Q[..., i : i + block_size, :]
        rows = torch.arange(i, i + q.shape[-2])[:, None]
        m = torch.zeros(q.shape[:-1] + (1,), dtype=Q.dtype)
        s, o = torch.zeros_like(m), torch.zeros_like(q)
        for j in range(0, i + q.shape[-2], block_size):
            k, v = K[..., j : j + block_size, :], V[..., j : j + block_size, :]
            z = q @ k.transpose(-1, -2) / math.sqrt(d)
            z = z.masked_fill(torch.arange(j, j + k.shape[-2]) > rows, float("-inf"))
            new = torch.maximum(m, z.amax(-1, keepdim=True))
            p, shrink = torch.exp(z - new), torch.exp(m - new)
            s, o, m = s * shrink + p.sum(-1, keepdim=True), o * shrink + p @ v, new
        outs.append(o / s)
    return torch.cat(outs, -2)


def tiled_causal_attention__wrong_short_block_left_zero(Q, K, V, block_size):
    """Wrong: n // block_size blocks (at least one): the short last block of queries stays zero."""
    n, d = Q.shape[-2:]
    block_size = min(block_size, n)
    outs = []
    tri = torch.ones(block_size, block_size, dtype=torch.bool).tril()
    for a in range(n // block_size):
        q = Q[..., a * block_size : (a + 1) * block_size, :]
        m = torch.full(q.shape[:-1] + (1,), float("-inf"), dtype=Q.dtype)
        s, o = torch.zeros_like(m), torch.zeros_like(q)
        for c in range(a + 1):
            k, v = (T[..., c * block_size : (c + 1) * block_size, :] for T in (K, V))
            z = q @ k.transpose(-1, -2) / math.sqrt(d)
            if c == a:
                z = z.masked_fill(~tri, float("-inf"))
            new = torch.maximum(m, z.amax(-1, keepdim=True))
            p, shrink = torch.exp(z - new), torch.exp(m - new)
            s, o, m = s * shrink + p.sum(-1, keepdim=True), o * shrink + p @ v, new
        outs.append(o / s)
    out = torch.cat(outs, -2)
    return F.pad(out, (0, 0, 0, n - out.shape[-2]))


def tiled_causal_attention__right_logaddexp_from_diagonal(Q, K, V, block_size):
    """Unusual: starts at the diagonal and walks left, merging finished softmax pieces by logaddexp."""
    n, d = Q.shape[-2:]
    starts = range(0, n, block_size)
    pieces = []
    for i in starts:
        q = Q[..., i : i + block_size, :] * d**-0.5
        log_sum = out = None
        for j in reversed(range(0, i + 1, block_size)):
            z = q @ K[..., j : j + block_size, :].mT
            if j == i:
                z = z.masked_fill(torch.ones_like(z, dtype=torch.bool).triu(1), float("-inf"))
            piece_sum = z.logsumexp(-1, keepdim=True)
            piece = torch.exp(z - piece_sum) @ V[..., j : j + block_size, :]
            if out is None:
                log_sum, out = piece_sum, piece
            else:
                both = torch.logaddexp(log_sum, piece_sum)
                out = out * torch.exp(log_sum - both) + piece * torch.exp(piece_sum - both)
                log_sum = both
        pieces.append(out)
    return torch.cat(pieces, dim=-2)


def tiled_causal_attention__right_keys_outside(Q, K, V, block_size):
    """Unusual: the outer loop runs over key blocks, the states of all query blocks wait in lists; split views."""
    scale = 1 / math.sqrt(Q.shape[-1])
    qs, ks, vs = (T.split(block_size, dim=2) for T in (Q, K, V))
    top = [q.new_full((*q.shape[:3], 1), -float("inf")) for q in qs]
    total = [torch.zeros_like(t) for t in top]
    out = [torch.zeros_like(q) for q in qs]
    for c, (k, v) in enumerate(zip(ks, vs)):
        for a in range(c, len(qs)):
            z = torch.einsum("bhid,bhjd->bhij", qs[a], k) * scale
            if a == c:
                r = torch.arange(z.shape[-1])
                z = torch.where(r[:, None] >= r, z, z.new_tensor(-float("inf")))
            new = torch.maximum(top[a], z.max(dim=-1, keepdim=True).values)
            p = (z - new).exp()
            old = (top[a] - new).exp()
            total[a] = total[a] * old + p.sum(-1, keepdim=True)
            out[a] = out[a] * old + torch.einsum("bhij,bhjd->bhid", p, v)
            top[a] = new
    return torch.cat([o / t for o, t in zip(out, total)], dim=2)


def tiled_causal_attention__right_column_of_ones(Q, K, V, block_size):
    """Unusual: a column of ones beside V carries the sum; diagonal tile split off into single queries; bmm per tile."""
    B, h, n, d = Q.shape
    q_all, k_all = Q.reshape(B * h, n, d) / math.sqrt(d), K.reshape(B * h, n, d)
    v_all = torch.cat([V.reshape(B * h, n, d), V.new_ones(B * h, n, 1)], -1)
    rows = []
    for i in range(n):
        q = q_all[:, i : i + 1]
        acc, top = None, None
        for j in range(0, i + 1, block_size):
            stop = min(j + block_size, i + 1)
            z = torch.bmm(q, k_all[:, j:stop].transpose(1, 2))
            new = z.amax(-1, keepdim=True) if top is None else torch.maximum(top, z.amax(-1, keepdim=True))
            here = torch.bmm(torch.exp(z - new), v_all[:, j:stop])
            acc = here if acc is None else acc * torch.exp(top - new) + here
            top = new
        rows.append(acc[..., :d] / acc[..., d:])
    return torch.cat(rows, 1).view(B, h, n, d)


def tiled_causal_attention__right_two_passes_per_tile(Q, K, V, block_size):
    """Unusual: per head in Python; first folds (max, sum, out) triples with reduce, an associative merge in tree-like order."""

    def merge(a, b):
        m = torch.maximum(a[0], b[0])
        x, y = torch.exp(a[0] - m), torch.exp(b[0] - m)
        return m, a[1] * x + b[1] * y, a[2] * x[:, None] + b[2] * y[:, None]

    def tile(q, k, v, diagonal):
        z = (q @ k.T) / q.shape[-1] ** 0.5
        if diagonal:
            z = z + torch.full_like(z, float("-inf")).triu(1)
        m = z.amax(1)
        e = torch.exp(z - m[:, None])
        return m, e.sum(1), e @ v

    n = Q.shape[2]
    cuts = [slice(a, min(a + block_size, n)) for a in range(0, n, block_size)]

    def one_head(q, k, v):
        out = []
        for a, rows in enumerate(cuts):
            tiles = [tile(q[rows], k[c], v[c], c is rows) for c in cuts[: a + 1]]
            m, s, o = reduce(merge, reversed(tiles))
            out.append(o / s[:, None])
        return torch.cat(out)

    return torch.stack(
        [torch.stack([one_head(Q[b, x], K[b, x], V[b, x]) for x in range(Q.shape[1])]) for b in range(Q.shape[0])]
    )


# ---------------------------------------------------------------- flash_backward
def flash_backward__wrong_row_term_per_block(Q, K, V, out, logsumexp, d_out, block_size):
    """Wrong: the row term sum_j P dP is taken over the block alone, not over the whole row (d_out . out)."""
    scale = 1 / math.sqrt(Q.shape[-1])
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for j in range(0, Q.shape[2], block_size):
        b = slice(j, j + block_size)
        P = torch.exp(Q @ K[:, :, b].mT * scale - logsumexp[..., None])
        dV[:, :, b] = P.mT @ d_out
        dP = d_out @ V[:, :, b].mT
        dS = P * (dP - (P * dP).sum(-1, keepdim=True)) * scale
        dQ += dS @ K[:, :, b]
        dK[:, :, b] = dS.mT @ Q
    return dQ, dK, dV


def flash_backward__wrong_block_softmax(Q, K, V, out, logsumexp, d_out, block_size):
    """Wrong: recomputes the weights by a softmax over the block, ignoring logsumexp."""
    scale = 1 / math.sqrt(Q.shape[-1])
    D = (d_out * out).sum(-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for j in range(0, Q.shape[2], block_size):
        b = slice(j, j + block_size)
        P = torch.softmax(Q @ K[:, :, b].mT * scale, -1)
        dV[:, :, b] = P.mT @ d_out
        dS = P * (d_out @ V[:, :, b].mT - D) * scale
        dQ += dS @ K[:, :, b]
        dK[:, :, b] = dS.mT @ Q
    return dQ, dK, dV


def flash_backward__wrong_dq_last_block_only(Q, K, V, out, logsumexp, d_out, block_size):
    """Wrong: dQ is assigned in each key block instead of added up."""
    scale = 1 / math.sqrt(Q.shape[-1])
    D = (d_out * out).sum(-1, keepdim=True)
    dKs, dVs = [], []
    for j in range(0, Q.shape[2], block_size):
        k, v = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
        P = torch.exp(Q @ k.mT * scale - logsumexp[..., None])
        dS = P * (d_out @ v.mT - D) * scale
        dQ = dS @ k
        dKs.append(dS.mT @ Q)
        dVs.append(P.mT @ d_out)
    return dQ, torch.cat(dKs, 2), torch.cat(dVs, 2)


def flash_backward__wrong_exp_then_divide(Q, K, V, out, logsumexp, d_out, block_size):
    """Wrong: exp(scores) / exp(logsumexp) instead of exp(scores - logsumexp): overflows for large scores."""
    scale = 1 / math.sqrt(Q.shape[-1])
    D = (d_out * out).sum(-1, keepdim=True)
    total = torch.exp(logsumexp)[..., None]
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for j in range(0, Q.shape[2], block_size):
        b = slice(j, j + block_size)
        P = torch.exp(Q @ K[:, :, b].mT * scale) / total
        dV[:, :, b] = P.mT @ d_out
        dS = P * (d_out @ V[:, :, b].mT - D) * scale
        dQ += dS @ K[:, :, b]
        dK[:, :, b] = dS.mT @ Q
    return dQ, dK, dV


def flash_backward__wrong_scale_only_in_dq(Q, K, V, out, logsumexp, d_out, block_size):
    """Wrong: dK misses the factor 1/sqrt(d)."""
    scale = 1 / math.sqrt(Q.shape[-1])
    D = (d_out * out).sum(-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for j in range(0, Q.shape[2], block_size):
        b = slice(j, j + block_size)
        P = torch.exp(Q @ K[:, :, b].mT * scale - logsumexp[..., None])
        dV[:, :, b] = P.mT @ d_out
        dS = P * (d_out @ V[:, :, b].mT - D)
        dQ += dS @ K[:, :, b] * scale
        dK[:, :, b] = dS.mT @ Q
    return dQ, dK, dV


def flash_backward__wrong_all_scores_at_once(Q, K, V, out, logsumexp, d_out, block_size):
    """Wrong: right gradients, but the whole (n, n) weights are rebuilt first and then only sliced."""
    scale = 1 / math.sqrt(Q.shape[-1])
    D = (d_out * out).sum(-1, keepdim=True)
    weights = torch.exp(Q @ K.mT * scale - logsumexp[..., None])
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for j in range(0, Q.shape[2], block_size):
        b = slice(j, j + block_size)
        P = weights[..., b]
        dV[:, :, b] = P.mT @ d_out
        dS = P * (d_out @ V[:, :, b].mT - D) * scale
        dQ += dS @ K[:, :, b]
        dK[:, :, b] = dS.mT @ Q
    return dQ, dK, dV


def flash_backward__right_tiles_both_ways(Q, K, V, out, logsumexp, d_out, block_size):
    """Unusual: query blocks too, einsum, key blocks from the right; accumulates in place in its own tensors."""
    n, d = Q.shape[-2:]
    row = torch.einsum("bhid,bhid->bhi", d_out, out)
    grads = tuple(torch.zeros(T.shape, dtype=T.dtype, device=T.device) for T in (Q, K, V))
    for j in reversed(range(0, n, block_size)):
        for i in range(0, n, block_size):
            r, c = slice(i, i + block_size), slice(j, j + block_size)
            z = torch.einsum("bhid,bhjd->bhij", Q[:, :, r], K[:, :, c]) / d**0.5
            p = (z - logsumexp[:, :, r, None]).exp()
            ds = (torch.einsum("bhid,bhjd->bhij", d_out[:, :, r], V[:, :, c]) - row[:, :, r, None]) * p / d**0.5
            grads[0][:, :, r].add_(torch.einsum("bhij,bhjd->bhid", ds, K[:, :, c]))
            grads[1][:, :, c].add_(torch.einsum("bhij,bhid->bhjd", ds, Q[:, :, r]))
            grads[2][:, :, c].add_(torch.einsum("bhij,bhid->bhjd", p, d_out[:, :, r]))
    return grads


def flash_backward__right_transposed_scores(Q, K, V, out, logsumexp, d_out, block_size):
    """Unusual: works with the transposed weights (keys as rows), flattened to baddbmm, dK and dV by cat of splits."""
    B, h, n, d = Q.shape
    q, k, v, o, g = (T.reshape(B * h, n, d) for T in (Q, K, V, out, d_out))
    q = q / math.sqrt(d)
    lse = logsumexp.reshape(B * h, 1, n)
    row = (g * o).sum(-1).unsqueeze(1)
    dq, dk, dv = torch.zeros_like(q), [], []
    for kb, vb in zip(k.split(block_size, 1), v.split(block_size, 1)):
        pT = torch.exp(torch.baddbmm(-lse, kb, q.transpose(1, 2)))
        dsT = pT * torch.baddbmm(-row, vb, g.transpose(1, 2))
        dv.append(torch.bmm(pT, g))
        dk.append(torch.bmm(dsT, q))
        dq = dq + torch.bmm(dsT.transpose(1, 2), kb)
    shape = (B, h, n, d)
    return (dq / math.sqrt(d)).view(shape), torch.cat(dk, 1).view(shape), torch.cat(dv, 1).view(shape)


def flash_backward__right_row_term_as_sum(Q, K, V, out, logsumexp, d_out, block_size):
    """Unusual: two passes over the key blocks, the first sums P dP itself over all blocks, so `out` is not needed."""
    n, d = Q.shape[-2:]
    blocks = [slice(a, a + block_size) for a in range(0, n, block_size)]

    def pieces(b):
        P = torch.exp(torch.matmul(Q, K[..., b, :].transpose(-2, -1)).div(math.sqrt(d)) - logsumexp.unsqueeze(-1))
        return P, torch.matmul(d_out, V[..., b, :].transpose(-2, -1))

    row = sum((P * dP).sum(-1, keepdim=True) for P, dP in map(pieces, blocks))
    dQ, dK, dV = 0, [], []
    for b in blocks:
        P, dP = pieces(b)
        dS = P * dP - P * row
        dQ = dQ + dS @ K[..., b, :]
        dK.append(dS.transpose(-2, -1) @ Q)
        dV.append(P.transpose(-2, -1) @ d_out)
    return dQ / math.sqrt(d), torch.cat(dK, -2) / math.sqrt(d), torch.cat(dV, -2)


def flash_backward__right_head_by_head(Q, K, V, out, logsumexp, d_out, block_size):
    """Unusual: loops over batch and heads; results are views of one stacked tensor."""
    B, h, n, d = Q.shape
    result = Q.new_zeros(3, B, h, n, d)
    for b in range(B):
        for x in range(h):
            q, k, v, o, l, g = (T[b, x] for T in (Q, K, V, out, logsumexp, d_out))
            row = torch.linalg.vecdot(g, o)
            for a in range(0, n, block_size):
                e = min(n, a + block_size)
                P = torch.exp(torch.addmm(l[:, None], q, k[a:e].T, beta=-1, alpha=d**-0.5))
                dS = (g @ v[a:e].T).sub(row[:, None]).mul(P).mul(d**-0.5)
                result[0, b, x].addmm_(dS, k[a:e])
                result[1, b, x, a:e] = dS.T @ q
                result[2, b, x, a:e] = P.T @ g
    return tuple(result)


# ---------------------------------------------------------------- flash_bytes
def flash_bytes__wrong_short_block_counted_full(n, d, block_q, bytes_per_value=2, causal=False):
    """Wrong: the last query block counts as full, so causal reads keys beyond n."""
    blocks = -(-n // block_q)
    keys = sum((a + 1) * block_q if causal else n for a in range(blocks))
    return (2 * n * d + 2 * keys * d) * bytes_per_value


def flash_bytes__wrong_blocks_rounded_down(n, d, block_q, bytes_per_value=2, causal=False):
    """Wrong: n // block_q query blocks: the short last one is forgotten."""
    blocks = max(n // block_q, 1)
    keys = sum(min((a + 1) * block_q, n) if causal else n for a in range(blocks))
    return (2 * n * d + 2 * keys * d) * bytes_per_value


def flash_bytes__wrong_causal_is_half(n, d, block_q, bytes_per_value=2, causal=False):
    """Wrong: takes causal for exactly half of the key and value traffic."""
    blocks = math.ceil(n / block_q)
    kv = 2 * blocks * n * d * bytes_per_value
    return 2 * n * d * bytes_per_value + (kv // 2 if causal else kv)


def flash_bytes__wrong_causal_without_own_block(n, d, block_q, bytes_per_value=2, causal=False):
    """Wrong: causal reads K and V only up to the block's first query, leaving its own block out."""
    keys = sum(start if causal else n for start in range(0, n, block_q))
    return (2 * n * d + 2 * keys * d) * bytes_per_value


def flash_bytes__wrong_output_forgotten(n, d, block_q, bytes_per_value=2, causal=False):
    """Wrong: counts what is read (Q, K, V) and forgets that out is written."""
    keys = sum(min(start + block_q, n) if causal else n for start in range(0, n, block_q))
    return (n * d + 2 * keys * d) * bytes_per_value


def flash_bytes__wrong_output_moved_per_key_block(n, d, block_q, bytes_per_value=2, causal=False):
    """Wrong: thinks Q and out travel once for every key block as well, not once."""
    starts = range(0, n, block_q)
    total = 0
    for i in starts:
        rows = min(block_q, n - i)
        for j in starts:
            if causal and j > i:
                break
            columns = min(block_q, n - j)
            total += 2 * rows * d + 2 * columns * d
    return total * bytes_per_value


def flash_bytes__right_closed_form(n, d, block_q, bytes_per_value=2, causal=False):
    """Unusual: closed form with divmod and a triangular number, no loop."""
    full, rest = divmod(n, block_q)
    blocks = full + bool(rest)
    keys = block_q * full * (full + 1) // 2 + (n if rest else 0) if causal else blocks * n
    return 2 * d * bytes_per_value * (n + keys)


def flash_bytes__right_tensor_arange(n, d, block_q, bytes_per_value=2, causal=False):
    """Unusual: the ends of the blocks as a torch.arange, result a 0-d int64 tensor."""
    ends = (torch.arange(0, n, block_q) + block_q).clamp(max=n)
    keys = ends.sum() if causal else torch.full_like(ends, n).sum()
    return (keys + n) * 2 * d * bytes_per_value


def flash_bytes__right_recursive_last_block(n, d, block_q, bytes_per_value=2, causal=False):
    """Unusual: takes off the last query block and recurses through a private helper on the number of queries."""

    def kv_rows(queries):
        if queries <= 0:
            return 0
        last = (queries - 1) % block_q + 1
        return (queries if causal else n) + kv_rows(queries - last)

    return (n + n + 2 * kv_rows(n)) * d * bytes_per_value


def flash_bytes__right_key_by_key(n, d, block_q, bytes_per_value=2, causal=False):
    """Unusual: counts per key, how many query blocks read it, instead of per block how many keys."""
    blocks = math.ceil(n / block_q)
    row = d * bytes_per_value
    total = 0
    for j in range(n):
        readers = blocks - j // block_q if causal else blocks
        total += row + row + readers * (row + row)
    return total
