"""Answers to unit 9, as students would hand them in: four wrong and one right for each exercise."""

import math
import statistics

import torch


# 9.1 loop_attention


def loop_attention__wrong_fifth_only_earlier_keys(Q, K, V):
    """Each query i meets the keys 0 ... i only (K[:i + 1]), as if there were a causal mask."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for a in range(h):
            for i in range(n):
                keys, values = K[b, a, : i + 1], V[b, a, : i + 1]
                s = keys @ Q[b, a, i] / math.sqrt(d)
                out[b, a, i] = torch.softmax(s, dim=0) @ values
    return out


def loop_attention__wrong_fifth_rows_viewed_in_loop_order(Q, K, V):
    """The loops run batch, query, head, and the rows in that order are viewed as (B, h, n, d)."""
    B, h, n, d = Q.shape
    rows = []
    for b in range(B):
        for i in range(n):
            for head in range(h):
                scores = torch.mv(K[b, head], Q[b, head, i]) * d**-0.5
                rows.append(torch.softmax(scores, -1) @ V[b, head])
    return torch.stack(rows).view(B, h, n, d)


def loop_attention__wrong_fifth_zeros_of_float32(Q, K, V):
    """The outputs go into torch.zeros(B, h, n, d) of the default dtype, so float64 comes back as float32."""
    B, h, n, d = Q.shape
    result = torch.zeros(B, h, n, d)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                weights = (Q[b, head, i] @ K[b, head].T / d**0.5).softmax(-1)
                result[b, head, i] = weights @ V[b, head]
    return result


def loop_attention__wrong_fifth_softmax_across_heads(Q, K, V):
    """All heads are served at once, and the softmax of the (h, n) scores runs over the heads, dim=0."""
    B, h, n, d = Q.shape
    batch = []
    for b in range(B):
        tokens = []
        for i in range(n):
            query = Q[b, :, i, :]
            s = torch.einsum("hd,hmd->hm", query, K[b]) / math.sqrt(d)
            a = torch.softmax(s, dim=0)
            tokens.append(torch.einsum("hm,hmd->hd", a, V[b]))
        batch.append(torch.stack(tokens, dim=1))
    return torch.stack(batch)


def loop_attention__right_fifth_logsumexp_of_each_row(Q, K, V):
    """Nested comprehensions; the weights are exp(score - logsumexp), the mix is a sum of weighted rows."""
    root = math.sqrt(Q.shape[-1])

    def serve(q, keys, values):
        s = (keys * q).sum(-1) / root
        a = (s - s.logsumexp(0)).exp()
        return (a.unsqueeze(1) * values).sum(0)

    return torch.stack(
        [
            torch.stack(
                [
                    torch.stack([serve(q, keys, values) for q in queries])
                    for queries, keys, values in zip(Qb, Kb, Vb)
                ]
            )
            for Qb, Kb, Vb in zip(Q, K, V)
        ]
    )


# 9.2 batched_attention


def batched_attention__wrong_fifth_mask_after_softmax(Q, K, V, causal=False):
    """The weights of later keys are set to 0 behind the softmax, and the rest is not normalised again."""
    d = Q.shape[-1]
    A = torch.softmax(Q @ K.transpose(-2, -1) / d**0.5, dim=-1)
    if causal:
        A = torch.tril(A)
    return A @ V


def batched_attention__wrong_fifth_minus_ten_thousand(Q, K, V, causal=False):
    """Later keys get the score -1e4 in place of -inf, which real scores reach."""
    n = Q.size(2)
    S = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(Q.size(3))
    if causal:
        later = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(1)
        S = S.masked_fill(later, -1e4)
    return torch.einsum("bhij,bhjd->bhid", S.softmax(-1), V)


def batched_attention__wrong_fifth_keys_reshaped(Q, K, V, causal=False):
    """K is brought to (B, h, d, n) by reshape in place of a transpose, so its numbers are shuffled."""
    B, h, n, d = Q.shape
    scores = torch.matmul(Q, K.reshape(B, h, d, n)) / d**0.5
    if causal:
        i = torch.arange(n, device=Q.device)
        scores = scores.masked_fill(i[None, :] > i[:, None], float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), V)


def batched_attention__wrong_fifth_scales_q_in_place(Q, K, V, causal=False):
    """Q /= sqrt(d) divides the caller's own tensor."""
    Q /= math.sqrt(Q.shape[-1])
    scores = Q @ K.mT
    if causal:
        n = Q.shape[-2]
        hide = torch.triu(torch.ones(n, n, device=Q.device), diagonal=1).bool()
        scores = scores.masked_fill(hide, -torch.inf)
    return torch.softmax(scores, -1) @ V


def batched_attention__right_fifth_terms_and_allowed_table(Q, K, V, causal=False):
    """Terms exp(s - largest allowed score) by torch.where, and one division behind the product with V."""
    n, d = Q.shape[-2:]
    scores = torch.einsum("...id,...jd->...ij", Q * (1 / math.sqrt(d)), K)
    place = torch.arange(n, device=Q.device)
    seen = place[:, None] >= place if causal else place[:, None] >= 0 * place
    scores = torch.where(seen, scores, torch.full_like(scores, -math.inf))
    terms = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return (terms @ V) / terms.sum(-1, keepdim=True)


# 9.3 tiled_attention


def tiled_attention__wrong_fifth_mean_weighted_by_keys(Q, K, V, block_size):
    """Each block has a softmax of its own; the outputs are averaged with the number of keys as weight."""
    n, d = Q.shape[-2:]
    total = torch.zeros_like(Q)
    for start in range(0, n, block_size):
        keys, values = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        mine = torch.softmax(Q @ keys.mT / math.sqrt(d), dim=-1) @ values
        total = total + mine * (keys.shape[2] / n)
    return total


def tiled_attention__wrong_fifth_one_maximum_for_all_queries(Q, K, V, block_size):
    """The running maximum is taken over the queries, too (amax of the last two axes), one number per head."""
    B, h, n, d = Q.shape
    m = Q.new_full((B, h, 1, 1), -math.inf)
    l = Q.new_zeros(B, h, n, 1)
    o = torch.zeros_like(Q)
    for Kb, Vb in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        S = Q @ Kb.transpose(2, 3) / d**0.5
        new = torch.maximum(m, S.amax(dim=(-2, -1), keepdim=True))
        factor, P = torch.exp(m - new), torch.exp(S - new)
        l = l * factor + P.sum(dim=-1, keepdim=True)
        o = o * factor + P @ Vb
        m = new
    return o / l


def tiled_attention__wrong_fifth_two_passes(Q, K, V, block_size):
    """A first loop over all blocks finds the maximum, a second one makes the same scores again: two passes."""
    n, d = Q.shape[2], Q.shape[3]
    starts = range(0, n, block_size)

    def scores_of(first):
        return Q @ K[:, :, first : first + block_size].mT / math.sqrt(d)

    top = scores_of(0).amax(-1, keepdim=True)
    for first in starts:
        top = torch.maximum(top, scores_of(first).amax(-1, keepdim=True))
    below, above = 0, 0
    for first in starts:
        terms = (scores_of(first) - top).exp()
        below = below + terms.sum(-1, keepdim=True)
        above = above + terms @ V[:, :, first : first + block_size]
    return above / below


def tiled_attention__wrong_fifth_m_overwritten_before_factor(Q, K, V, block_size):
    """m is set to the new maximum before the factor exp(m - m_new) is computed, so the factor is always 1."""
    B, h, n, d = Q.shape
    m = torch.full((B, h, n, 1), -math.inf, dtype=Q.dtype, device=Q.device)
    ell, o = torch.zeros_like(m), torch.zeros_like(Q)
    start = 0
    while start < n:
        stop = min(start + block_size, n)
        s = Q @ K[:, :, start:stop].mT / math.sqrt(d)
        m_new = torch.maximum(m, s.max(dim=-1, keepdim=True).values)
        m = m_new
        factor = torch.exp(m - m_new)
        p = torch.exp(s - m)
        ell = factor * ell + p.sum(-1, keepdim=True)
        o = factor * o + torch.matmul(p, V[:, :, start:stop])
        start = stop
    return o / ell


# 9.4 attention_flops


def attention_flops__wrong_fifth_projections_too(batch, n_heads, n, d_head):
    """The four projections of the layer, 8 n d_model^2, are added to the two products."""
    d_model = n_heads * d_head
    products = 4 * batch * n_heads * n * n * d_head
    projections = 4 * (2 * batch * n * d_model * d_model)
    return products + projections


def attention_flops__wrong_fifth_one_addition_fewer(batch, n_heads, n, d_head):
    """A sum of k products is counted with k - 1 additions, so 2k - 1 for each entry and not 2k."""
    scores = n * n * (2 * d_head - 1)
    outputs = n * d_head * (2 * n - 1)
    return batch * n_heads * (scores + outputs)


def attention_flops__wrong_fifth_width_shared_among_heads(batch, n_heads, n, d_head):
    """d_head is taken for the width of the model and divided by the number of heads."""
    width = d_head // n_heads
    one_product = 2 * n * n * width
    return batch * n_heads * one_product * 2


def attention_flops__wrong_fifth_av_sums_over_d(batch, n_heads, n, d_head):
    """For A V the sum is taken to run over d_head: 2 n d d in place of 2 n n d."""
    total = 0
    for _ in range(batch):
        qk = n_heads * 2 * n * d_head * n
        av = n_heads * 2 * n * d_head * d_head
        total += qk + av
    return total


def attention_flops__right_fifth_product_rule_twice(batch, n_heads, n, d_head):
    """The rule 2abc for (a, b) times (b, c), called with the shapes of both products, times the heads."""

    def product(left, right):
        (a, b), (_, c) = left, right
        return (a * b * c) << 1

    one_head = product((n, d_head), (d_head, n)) + product((n, n), (n, d_head))
    return one_head * n_heads * batch


# 9.5 score_matrix_bytes


def score_matrix_bytes__wrong_fifth_causal_triangle(batch, n_heads, n, bytes_per_value=2):
    """Only the triangle of a causal mask is counted, n (n + 1) / 2 scores."""
    triangle = sum(range(1, n + 1)) if n < 1000 else n * (n + 1) // 2
    return batch * n_heads * triangle * bytes_per_value


def score_matrix_bytes__wrong_fifth_weights_counted_too(batch, n_heads, n, bytes_per_value=2):
    """The scores and the weights are both counted, although the scores alone are asked for."""
    scores = weights = batch * n_heads * n**2
    return (scores + weights) * bytes_per_value


def score_matrix_bytes__wrong_fifth_batch_as_one_text(batch, n_heads, n, bytes_per_value=2):
    """The sequences of the batch are laid end to end, and all their tokens meet one another."""
    tokens = batch * n
    return n_heads * tokens * tokens * bytes_per_value


def score_matrix_bytes__wrong_fifth_power_in_floats(batch, n_heads, n, bytes_per_value=2):
    """n is squared by math.pow, a float, so that large counts are not exact."""
    return int(math.pow(n, 2) * batch * n_heads * bytes_per_value)


def score_matrix_bytes__right_fifth_product_of_shape(batch, n_heads, n, bytes_per_value=2):
    """math.prod of the shape of the scores and the bytes."""
    shape = (batch, n_heads, n, n)
    return math.prod(shape, start=bytes_per_value)


# 9.6 roofline_seconds


def roofline_seconds__wrong_fifth_attainable_rate(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Returns the height of the roof, min(peak, intensity * bandwidth), a rate and no time."""
    if bytes_moved == 0:
        return float(peak_flops)
    intensity = flops / bytes_moved
    return float(min(peak_flops, intensity * peak_bandwidth))


def roofline_seconds__wrong_fifth_zero_if_either_is_zero(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Returns 0.0 as soon as operations or bytes are 0, though the other still takes time."""
    if not flops or not bytes_moved:
        return 0.0
    return max(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_fifth_floor_division(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Divides by //, so that parts of a second are cut off."""
    computing = flops // peak_flops
    moving = bytes_moved // peak_bandwidth
    return float(computing if computing > moving else moving)


def roofline_seconds__wrong_fifth_milliseconds(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Returns milliseconds: the larger time is multiplied by 1e3."""
    times = [flops / peak_flops, bytes_moved / peak_bandwidth]
    return 1e3 * max(times)


def roofline_seconds__right_fifth_last_of_sorted(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Both quotients sorted, the last one as a float."""
    pairs = ((flops, peak_flops), (bytes_moved, peak_bandwidth))
    *_, slower = sorted(float(amount / rate) for amount, rate in pairs)
    return slower


# 9.7 median_time


def median_time__wrong_fifth_fastest_dropped_as_warmup(run, synchronize, clock, warmup, repeats):
    """All runs are timed and sorted before the first `warmup` of them are dropped: the fastest go."""
    times = []
    for _ in range(warmup + repeats):
        synchronize()
        t0 = clock()
        run()
        synchronize()
        times.append(clock() - t0)
    times.sort()
    return float(statistics.median(times[warmup:]))


def median_time__wrong_fifth_start_read_once(run, synchronize, clock, warmup, repeats):
    """The start is read once before the loop, so each reading is the time of all runs so far."""
    for _ in range(warmup):
        run()
    synchronize()
    start = clock()
    durations = []
    for _ in range(repeats):
        run()
        synchronize()
        durations.append(clock() - start)
    return float(statistics.median(durations))


def median_time__wrong_fifth_trimmed_mean(run, synchronize, clock, warmup, repeats):
    """Drops the fastest and the slowest run and returns the mean of the others, not the median."""
    for _ in range(warmup):
        run()
    seen = []
    for _ in range(repeats):
        synchronize()
        before = clock()
        run()
        synchronize()
        after = clock()
        seen.append(after - before)
    seen = sorted(seen)
    if len(seen) > 2:
        seen = seen[1:-1]
    return float(sum(seen) / len(seen))


def median_time__wrong_fifth_upper_of_the_middle_two(run, synchronize, clock, warmup, repeats):
    """With an even count sorted(times)[len // 2] is the upper of the middle two, not their mean."""

    def once():
        synchronize()
        t = clock()
        run()
        synchronize()
        return clock() - t

    for _ in range(warmup):
        run()
    times = sorted(once() for _ in range(repeats))
    return float(times[len(times) // 2])


def median_time__right_fifth_insertion_and_two_places(run, synchronize, clock, warmup, repeats):
    """One end serves as the next start; durations are inserted in order, and the two middle places averaged."""
    left = warmup
    while left:
        run()
        left -= 1
    ordered = []
    synchronize()
    last = clock()
    while len(ordered) < repeats:
        run()
        synchronize()
        now = clock()
        took, last = now - last, now
        place = sum(1 for other in ordered if other <= took)
        ordered.insert(place, took)
    low, high = ordered[(repeats - 1) // 2], ordered[repeats // 2]
    return float((low + high) / 2)


# 9.8 tiled_causal_attention


def tiled_causal_attention__wrong_fifth_triangle_in_every_tile(Q, K, V, block_size):
    """The triangle of the diagonal tile is cut out of every tile, by places within the blocks."""
    n, d = Q.shape[-2:]
    rows = []
    for i0 in range(0, n, block_size):
        q = Q[:, :, i0 : i0 + block_size]
        m = torch.full_like(q[..., :1], -math.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for j0 in range(0, i0 + 1, block_size):
            k, v = K[:, :, j0 : j0 + block_size], V[:, :, j0 : j0 + block_size]
            s = q @ k.mT / math.sqrt(d)
            hidden = torch.ones(s.shape[-2:], dtype=torch.bool, device=Q.device).triu(1)
            s = s.masked_fill(hidden, -math.inf)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            shrink, p = torch.exp(m - new), torch.exp(s - new)
            l, o, m = shrink * l + p.sum(-1, keepdim=True), shrink * o + p @ v, new
        rows.append(o / l)
    return torch.cat(rows, dim=2)


def tiled_causal_attention__wrong_fifth_maximum_before_hiding(Q, K, V, block_size):
    """The maximum of the diagonal tile is taken before later keys are hidden: all terms of a row can underflow to 0/0."""
    B, h, n, d = Q.shape
    outs = []
    for a in range(0, n, block_size):
        b = min(n, a + block_size)
        m = Q.new_full((B, h, b - a, 1), -math.inf)
        total = Q.new_zeros(B, h, b - a, 1)
        mix = Q.new_zeros(B, h, b - a, d)
        for c in range(0, b, block_size):
            e = min(n, c + block_size)
            scores = Q[:, :, a:b] @ K[:, :, c:e].transpose(-1, -2) / d**0.5
            top = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            terms = torch.exp(scores - top)
            if c == a:
                terms = terms.tril()
            factor = torch.exp(m - top)
            total = total * factor + terms.sum(dim=-1, keepdim=True)
            mix = mix * factor + terms @ V[:, :, c:e]
            m = top
        outs.append(mix / total)
    return torch.cat(outs, dim=-2)


def tiled_causal_attention__wrong_fifth_hidden_terms_in_the_sum(Q, K, V, block_size):
    """The sum l takes the terms of the diagonal tile before later keys are hidden, the mix o after it."""
    n, d = Q.shape[2], Q.shape[3]
    scale = 1 / math.sqrt(d)
    Qs, Ks, Vs = (X.split(block_size, dim=2) for X in (Q, K, V))
    result = []
    for i, q in enumerate(Qs):
        m, l, o = None, None, None
        for j in range(i + 1):
            s = torch.matmul(q, Ks[j].mT) * scale
            top = s.amax(-1, keepdim=True)
            if m is not None:
                top = torch.maximum(m, top)
            p = torch.exp(s - top)
            term_sum = p.sum(-1, keepdim=True)
            if i == j:
                p = torch.tril(p)
            if m is None:
                l, o = term_sum, p @ Vs[j]
            else:
                f = torch.exp(m - top)
                l, o = f * l + term_sum, f * o + p @ Vs[j]
            m = top
        result.append(o / l)
    return torch.cat(result, 2)


def tiled_causal_attention__wrong_fifth_future_tiles_multiplied(Q, K, V, block_size):
    """Each block of queries is multiplied with all blocks of keys; the later ones are hidden only afterwards."""
    B, h, n, d = Q.shape
    place = torch.arange(n, device=Q.device)
    pieces = []
    for i in place.split(block_size):
        q = Q[:, :, i]
        m = q.new_full((*q.shape[:-1], 1), -math.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for j in place.split(block_size):
            s = (q @ K[:, :, j].mT / math.sqrt(d)).masked_fill(j > i[:, None], -math.inf)
            m_new = torch.maximum(m, s.amax(-1, keepdim=True))
            f = (m - m_new).exp()
            p = (s - m_new).exp()
            l = l * f + p.sum(-1, keepdim=True)
            o = o * f + p @ V[:, :, j]
            m = m_new
        pieces.append(o / l)
    return torch.cat(pieces, dim=2)


def tiled_causal_attention__right_fifth_keys_outer_loop(Q, K, V, block_size):
    """Keys in the outer loop, each block met by the query blocks from its own on, which keep their states in lists."""
    d = Q.shape[-1]
    queries, keys, values = (X.split(block_size, dim=-2) for X in (Q, K, V))
    tops = [torch.full_like(q[..., :1], -math.inf) for q in queries]
    sums = [torch.zeros_like(q[..., :1]) for q in queries]
    mixes = [torch.zeros_like(q) for q in queries]
    for kb, (k, v) in enumerate(zip(keys, values)):
        for qb in range(kb, len(queries)):
            s = torch.einsum("bhid,bhjd->bhij", queries[qb], k) / math.sqrt(d)
            if qb == kb:
                size = s.shape[-1]
                own = torch.arange(size, device=Q.device)
                s = torch.where(own <= own[:, None], s, torch.full_like(s, -math.inf))
            top = torch.maximum(tops[qb], s.amax(-1, keepdim=True))
            fade = torch.exp(tops[qb] - top)
            terms = torch.exp(s - top)
            sums[qb] = fade * sums[qb] + terms.sum(-1, keepdim=True)
            mixes[qb] = fade * mixes[qb] + terms @ v
            tops[qb] = top
    return torch.cat([mix / total for mix, total in zip(mixes, sums)], dim=-2)


# 9.9 flash_bytes


def flash_bytes__wrong_fifth_blocks_of_keys_outside(n, d, block_q, bytes_per_value=2, causal=False):
    """Blocks of keys have the chip in turn: K and V come once, Q and the output for each block that they can see."""
    rows = 2 * n
    for start in range(0, n, block_q):
        queries = n - start if causal else n
        rows += 2 * queries
    return rows * d * bytes_per_value


def flash_bytes__wrong_fifth_all_values_read(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask the block's keys end at its last query, but all n values are still read."""
    total = 0
    for first in range(0, n, block_q):
        stop = min(first + block_q, n)
        queries = outputs = stop - first
        keys = stop if causal else n
        values = n
        total += queries + outputs + keys + values
    return total * d * bytes_per_value


def flash_bytes__wrong_fifth_lone_query_needs_no_key(n, d, block_q, bytes_per_value=2, causal=False):
    """Where a block is one query that sees one key alone, its query and key are not counted, as the weight is 1."""
    rows = 0
    start = 0
    while start < n:
        size = min(block_q, n - start)
        seen = start + size if causal else n
        if size == 1 and seen == 1:
            rows += 2
        else:
            rows += 2 * size + 2 * seen
        start += size
    return rows * d * bytes_per_value


def flash_bytes__wrong_fifth_earlier_keys_kept(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask each block reads its own keys and values only, as if those of earlier blocks were still there."""
    blocks = [min(block_q, n - s) for s in range(0, n, block_q)]
    moved = 0
    for size in blocks:
        moved += 2 * size
        moved += 2 * (size if causal else n)
    return moved * d * bytes_per_value


def flash_bytes__right_fifth_closed_form(n, d, block_q, bytes_per_value=2, causal=False):
    """Whole blocks by the sum of 1 ... full, the short one apart; no loop."""
    full, rest = divmod(n, block_q)
    if causal:
        seen = block_q * (full * (full + 1) // 2) + (n if rest else 0)
    else:
        seen = n * (full + bool(rest))
    return 2 * (n + seen) * d * bytes_per_value


# 9.10 flash_backward


def flash_backward__wrong_fifth_bracket_of_the_jacobian(Q, K, V, out, logsumexp, d_out, block_size):
    """dS = P * dP - delta in place of P * (dP - delta): the row's sum is not weighted."""
    n, d = Q.shape[-2:]
    scale = 1 / math.sqrt(d)
    delta = (d_out * out).sum(-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for j in range(0, n, block_size):
        k, v = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
        P = torch.exp(Q @ k.mT * scale - logsumexp[..., None])
        dP = d_out @ v.mT
        dS = P * dP - delta
        dV[:, :, j : j + block_size] = P.mT @ d_out
        dK[:, :, j : j + block_size] = dS.mT @ Q * scale
        dQ += dS @ k * scale
    return dQ, dK, dV


def flash_backward__wrong_fifth_quotient_of_exponentials(Q, K, V, out, logsumexp, d_out, block_size):
    """P = exp(S) / exp(logsumexp) overflows for large scores: inf / inf is NaN."""
    root = Q.shape[-1] ** 0.5
    row = torch.einsum("bhnd,bhnd->bhn", d_out, out)
    whole = torch.exp(logsumexp).unsqueeze(-1)
    dQ, dKs, dVs = torch.zeros_like(Q), [], []
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2)):
        P = torch.exp(Q @ k.mT / root) / whole
        dS = P * (d_out @ v.mT - row[..., None]) / root
        dQ = dQ + dS @ k
        dKs.append(dS.mT @ Q)
        dVs.append(P.mT @ d_out)
    return dQ, torch.cat(dKs, 2), torch.cat(dVs, 2)


def flash_backward__wrong_fifth_dq_of_the_last_block(Q, K, V, out, logsumexp, d_out, block_size):
    """dQ is assigned anew in each block and not added up, so only the last block of keys counts."""
    B, h, n, d = Q.shape
    dK, dV = torch.empty_like(K), torch.empty_like(V)
    D = (out * d_out).sum(dim=3, keepdim=True)
    L = logsumexp.reshape(B, h, n, 1)
    for start in range(0, n, block_size):
        part = slice(start, min(start + block_size, n))
        weights = torch.exp(Q @ K[:, :, part].transpose(2, 3) / math.sqrt(d) - L)
        d_weights = d_out @ V[:, :, part].transpose(2, 3)
        d_scores = weights * (d_weights - D) / math.sqrt(d)
        dQ = d_scores @ K[:, :, part]
        dK[:, :, part] = d_scores.transpose(2, 3) @ Q
        dV[:, :, part] = weights.transpose(2, 3) @ d_out
    return dQ, dK, dV


def flash_backward__wrong_fifth_delta_as_a_mean(Q, K, V, out, logsumexp, d_out, block_size):
    """delta is the mean over the width of d_out * out, where it should be the sum."""
    d = Q.size(-1)
    delta = torch.mean(d_out * out, dim=-1).unsqueeze(-1)
    grads_k, grads_v, grad_q = [], [], 0
    for first in range(0, K.size(2), block_size):
        kb = K.narrow(2, first, min(block_size, K.size(2) - first))
        vb = V.narrow(2, first, kb.size(2))
        a = (torch.einsum("bhid,bhjd->bhij", Q, kb) / d**0.5 - logsumexp.unsqueeze(-1)).exp()
        da = torch.einsum("bhid,bhjd->bhij", d_out, vb)
        ds = a * (da - delta) / d**0.5
        grads_v.append(torch.einsum("bhij,bhid->bhjd", a, d_out))
        grads_k.append(torch.einsum("bhij,bhid->bhjd", ds, Q))
        grad_q = grad_q + torch.einsum("bhij,bhjd->bhid", ds, kb)
    return grad_q, torch.cat(grads_k, dim=2), torch.cat(grads_v, dim=2)
