"""Answers to the exercises of unit 9, wrong ones and right ones of unusual form."""

import bisect
import math
import operator
import statistics
import time

import numpy as np
import torch

# ---------------------------------------------------------------- loop_attention


def loop_attention__wrong_b_root_of_tokens(Q, K, V):
    """The scores are divided by the square root of n, the number of tokens, instead of d."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for r in range(h):
            for i in range(n):
                scores = K[b, r] @ Q[b, r, i] / math.sqrt(len(K[b, r]))
                out[b, r, i] = torch.softmax(scores, dim=0) @ V[b, r]
    return out


def loop_attention__wrong_b_exponentials_not_shifted(Q, K, V):
    """No maximum is subtracted before the exponentials, so large scores overflow and inf / inf is NaN."""
    B, h, n, d = Q.shape
    result = torch.empty_like(V)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                e = torch.exp((K[b, head] * Q[b, head, i]).sum(dim=1) / d**0.5)
                weights = e / e.sum()
                result[b, head, i] = (weights[:, None] * V[b, head]).sum(dim=0)
    return result


def loop_attention__wrong_b_rows_in_other_order(Q, K, V):
    """The rows are made with the queries outermost, but reshaped as if sequences came first, then heads."""
    B, h, n, d = Q.shape
    rows = []
    for i in range(n):
        for b in range(B):
            for r in range(h):
                scores = K[b, r] @ Q[b, r, i] / math.sqrt(d)
                rows.append(torch.softmax(scores, dim=0) @ V[b, r])
    return torch.stack(rows).reshape(B, h, n, d)


def loop_attention__wrong_b_single_token_squeezed(Q, K, V):
    """`squeeze` removes the axis of the keys, too, when there is a single one: n = 1 crashes."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for r in range(h):
            for i in range(n):
                column = Q[b, r, i].reshape(d, 1)
                scores = (K[b, r] @ column).squeeze() / math.sqrt(d)
                out[b, r, i] = torch.softmax(scores, dim=-1) @ V[b, r]
    return out


def loop_attention__wrong_b_numbers_by_item(Q, K, V):
    """The weights are turned into plain numbers with `.item()`, so no gradient reaches Q and K."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(V)
    for b in range(B):
        for r in range(h):
            for i in range(n):
                scores = [(Q[b, r, i] @ K[b, r, j]).item() / math.sqrt(d) for j in range(n)]
                top = max(scores)
                terms = [math.exp(s - top) for s in scores]
                total = sum(terms)
                out[b, r, i] = sum(t / total * V[b, r, j] for j, t in enumerate(terms))
    return out


def loop_attention__right_b_one_index_for_all(Q, K, V):
    """One loop over all queries of all heads; the weights by logsumexp."""
    B, h, n, d = Q.shape
    rows = []
    for place in range(B * h * n):
        b, rest = divmod(place, h * n)
        r, i = divmod(rest, n)
        scores = torch.mv(K[b, r], Q[b, r, i]) * (1 / math.sqrt(d))
        rows.append(torch.mv(V[b, r].T, torch.exp(scores - torch.logsumexp(scores, 0))))
    return torch.cat(rows).reshape(Q.shape)


# ---------------------------------------------------------------- batched_attention


def batched_attention__wrong_b_past_hidden(Q, K, V, causal=False):
    """The mask is the wrong way round: a token sees itself and what comes later, and not what came before."""
    n = Q.shape[2]
    scores = torch.matmul(Q, K.mT) / math.sqrt(Q.shape[3])
    if causal:
        i = torch.arange(n).unsqueeze(1)
        j = torch.arange(n).unsqueeze(0)
        scores = torch.where(i <= j, scores, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return torch.matmul(weights, V)


def batched_attention__wrong_b_tiny_number_for_hidden(Q, K, V, causal=False):
    """Later keys get the score 1e-9 in place of -inf; its exponential is 1, so they keep their share of the weight."""
    n, d = Q.shape[2], Q.shape[3]
    scores = Q @ K.transpose(-1, -2) / math.sqrt(d)
    if causal:
        not_allowed = torch.triu(torch.ones(n, n), diagonal=1) == 1
        scores = scores.masked_fill(not_allowed, 1e-9)
    return torch.softmax(scores, dim=-1) @ V


def batched_attention__wrong_b_width_from_heads(Q, K, V, causal=False):
    """d is read from axis 1, the number of heads: the scores are divided by the root of h."""
    d = Q.shape[1]
    n = Q.shape[2]
    scores = Q @ K.mT / math.sqrt(d)
    if causal:
        scores = scores.masked_fill(torch.arange(n)[None, :] > torch.arange(n)[:, None], -math.inf)
    return torch.softmax(scores, dim=-1) @ V


def batched_attention__wrong_b_queries_scaled_in_place(Q, K, V, causal=False):
    """`mul_` scales the caller's Q: an input is changed."""
    S = Q.mul_(Q.shape[-1] ** -0.5) @ K.mT
    if causal:
        S = S.masked_fill(torch.ones_like(S, dtype=torch.bool).triu(1), -math.inf)
    return S.softmax(dim=-1) @ V


def batched_attention__wrong_b_weights_without_gradient(Q, K, V, causal=False):
    """The weights are detached before they mix the values, so Q and K get no gradient."""
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if causal:
        hide = torch.ones(Q.shape[2], Q.shape[2]).triu(1).bool()
        scores = scores.masked_fill(hide, -math.inf)
    weights = torch.softmax(scores, dim=-1).detach()
    return weights @ V


def batched_attention__right_b_flat_bmm_two_sums(Q, K, V, causal=False):
    """All heads as one axis for baddbmm, and the sum of the terms by a column of ones beside V."""
    B, h, n, d = Q.shape
    q, k, v = (x.reshape(B * h, n, d) for x in (Q, K, V))
    start = q.new_full((n, n), -math.inf).triu(1) if causal else q.new_zeros(n, n)
    scores = torch.baddbmm(start.expand(B * h, n, n), q, k.mT, alpha=1 / math.sqrt(d))
    terms = (scores - scores.amax(-1, keepdim=True)).exp()
    both = terms @ torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    return (both[..., :d] / both[..., d:]).reshape(B, h, n, d)


# ---------------------------------------------------------------- tiled_attention


def tiled_attention__wrong_b_output_not_rescaled(Q, K, V, block_size):
    """The factor is missing for o: when the maximum grows, only ℓ shrinks."""
    B, h, n, d = Q.shape
    m = Q.new_full((B, h, n, 1), -math.inf)
    l = Q.new_zeros((B, h, n, 1))
    o = torch.zeros_like(Q)
    for start in range(0, n, block_size):
        k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        s = Q @ k.mT / math.sqrt(d)
        m_new = torch.maximum(m, s.amax(-1, keepdim=True))
        p = torch.exp(s - m_new)
        factor = torch.exp(m - m_new)
        l = factor * l + p.sum(-1, keepdim=True)
        o = o + p @ v
        m = m_new
    return o / l


def tiled_attention__wrong_b_maximum_from_zero(Q, K, V, block_size):
    """m starts at 0 instead of -inf: where all scores are far below 0, all terms underflow and 0 / 0 is NaN."""
    B, h, n, d = Q.shape
    m = torch.zeros(B, h, n, 1, dtype=Q.dtype, device=Q.device)
    l, o = torch.zeros_like(m), torch.zeros_like(Q)
    for j in range(0, n, block_size):
        S = Q @ K[..., j : j + block_size, :].transpose(-2, -1) / d**0.5
        m_old, m = m, torch.maximum(m, S.amax(dim=-1, keepdim=True))
        P = torch.exp(S - m)
        shrink = torch.exp(m_old - m)
        l = shrink * l + P.sum(dim=-1, keepdim=True)
        o = shrink * o + P @ V[..., j : j + block_size, :]
    return o / l


def tiled_attention__wrong_b_blockwise_softmax_averaged(Q, K, V, block_size):
    """Each block has a softmax of its own, and the blocks' outputs are averaged; one softmax runs over all keys."""
    outputs, root = [], math.sqrt(Q.shape[-1])
    for k, v in zip(torch.split(K, block_size, 2), torch.split(V, block_size, 2)):
        outputs.append(torch.softmax(Q @ k.mT / root, dim=-1) @ v)
    return sum(outputs) / len(outputs)


def tiled_attention__wrong_b_maximum_may_fall(Q, K, V, block_size):
    """m is the maximum of the latest block, not of all so far: where it falls by far, exp(m_old - m_new) overflows."""
    B, h, n, d = Q.shape
    m = l = None
    for start in range(0, n, block_size):
        k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        s = Q @ k.mT / math.sqrt(d)
        m_new = s.amax(dim=-1, keepdim=True)
        p = torch.exp(s - m_new)
        if l is None:
            l, o = p.sum(dim=-1, keepdim=True), p @ v
        else:
            factor = torch.exp(m - m_new)
            l = factor * l + p.sum(dim=-1, keepdim=True)
            o = factor * o + p @ v
        m = m_new
    return o / l


def tiled_attention__wrong_b_queries_in_blocks(Q, K, V, block_size):
    """The queries are cut into blocks, and each meets all n keys in one softmax; the keys are to be cut."""
    root = math.sqrt(Q.shape[-1])
    out = []
    for q in Q.split(block_size, dim=2):
        out.append(torch.softmax(q @ K.mT / root, dim=-1) @ V)
    return torch.cat(out, dim=2)


def tiled_attention__right_b_finished_blocks_merged(Q, K, V, block_size):
    """Each block is finished by itself and mixed into the output by its share of all the weight so far."""
    out = m = l = None
    for k, v in zip(K.split(block_size, dim=-2), V.split(block_size, dim=-2)):
        scores = Q @ k.mT / Q.shape[-1] ** 0.5
        part, top = scores.softmax(dim=-1) @ v, scores.amax(dim=-1, keepdim=True)
        here = (scores - top).exp().sum(dim=-1, keepdim=True)
        if out is None:
            out, m, l = part, top, here
            continue
        new = torch.maximum(m, top)
        old, here = l * (m - new).exp(), here * (top - new).exp()
        out = out + here / (old + here) * (part - out)
        m, l = new, old + here
    return out


# ---------------------------------------------------------------- attention_flops


def attention_flops__wrong_b_multiply_adds_as_one(batch, n_heads, n, d_head):
    """A multiply and an add are counted as one operation together, not as two."""
    per_product = n * n * d_head
    return batch * n_heads * 2 * per_product


def attention_flops__wrong_b_one_product_only(batch, n_heads, n, d_head):
    """Only one of the two products is counted, Q K^T; A V costs as much again."""
    return 2 * batch * n_heads * n**2 * d_head


def attention_flops__wrong_b_width_squared(batch, n_heads, n, d_head):
    """n and d_head change roles: the count grows with the square of the width and not of the tokens."""
    heads = batch * n_heads
    return 4 * heads * n * d_head**2


def attention_flops__wrong_b_sixty_four_bits(batch, n_heads, n, d_head):
    """np.prod counts in 64 bits, where a large count overflows without a word."""
    return int(np.prod([4, batch, n_heads, n, n, d_head], dtype=np.int64))


def attention_flops__wrong_b_triangle_saved(batch, n_heads, n, d_head):
    """Only the n(n + 1)/2 pairs of a causal mask are counted; nothing is to be saved for a mask."""
    pairs = n * (n + 1) // 2
    return 4 * batch * n_heads * pairs * d_head


def attention_flops__right_b_shifted_product(batch, n_heads, n, d_head):
    """A shift for the four operations, math.prod for the rest."""
    return math.prod((batch, n_heads, n, n, d_head)) << 2


# ---------------------------------------------------------------- score_matrix_bytes


def score_matrix_bytes__wrong_b_default_hard_coded(batch, n_heads, n, bytes_per_value=2):
    """Two bytes are taken whatever bytes_per_value says."""
    return batch * n_heads * n * n * 2


def score_matrix_bytes__wrong_b_bits_not_bytes(batch, n_heads, n, bytes_per_value=2):
    """The result is in bits: bytes_per_value is multiplied by 8."""
    values = batch * n_heads * n**2
    bits = 8 * bytes_per_value
    return values * bits


def score_matrix_bytes__wrong_b_one_table_for_all_heads(batch, n_heads, n, bytes_per_value=2):
    """The heads are taken to share one table; each head has scores of its own."""
    return batch * n * n * bytes_per_value


def score_matrix_bytes__wrong_b_divided_at_the_end(batch, n_heads, n, bytes_per_value=2):
    """The bits are divided by 8 with `/`, so the result is a float instead of an int."""
    bits = 8 * bytes_per_value * batch * n_heads * n * n
    return bits / 8


def score_matrix_bytes__wrong_b_int64_product(batch, n_heads, n, bytes_per_value=2):
    """The product is taken by numpy in 64 bits, where large sizes overflow without a word."""
    shape = np.array([batch, n_heads, n, n, bytes_per_value], dtype=np.int64)
    return int(shape.prod())


def score_matrix_bytes__right_b_reduced_shape(batch, n_heads, n, bytes_per_value=2):
    """The entries of the shape, multiplied from an int of Python on."""
    size = bytes_per_value
    for length in (batch, n_heads, n, n):
        size = operator.mul(size, length)
    return size


# ---------------------------------------------------------------- roofline_seconds


def roofline_seconds__wrong_b_times_added(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The two times are added; computing and moving happen at the same time, so the longer one decides."""
    compute_time = flops / peak_flops
    memory_time = bytes_moved / peak_bandwidth
    return compute_time + memory_time


def roofline_seconds__wrong_b_shorter_time(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The shorter of the two times is returned; the kernel is done when both are done."""
    return min(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_b_border_upside_down(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The border is taken the wrong way round: where memory is the limit, the arithmetic's time is returned."""
    # compute-bound if flops / bytes_moved < peak_flops / peak_bandwidth
    compute_bound = flops * peak_bandwidth < bytes_moved * peak_flops
    if compute_bound:
        seconds = flops / peak_flops
    else:
        seconds = bytes_moved / peak_bandwidth
    return float(seconds)


def roofline_seconds__wrong_b_copy_takes_no_time(flops, bytes_moved, peak_flops, peak_bandwidth):
    """flops = 0 returns 0 s at once, so that a mere copy takes no time; its bytes must still be moved."""
    if not flops:
        return 0.0
    times = [flops / peak_flops]
    times.append(bytes_moved / peak_bandwidth)
    return max(times)


def roofline_seconds__wrong_b_rounded_for_reading(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The time is rounded to six digits after the point, where the times of short kernels are lost."""
    longest = max(flops / peak_flops, bytes_moved / peak_bandwidth)
    return round(longest, 6)


def roofline_seconds__right_b_sorted_times(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The last of the sorted times."""
    return float(sorted(map(operator.truediv, (flops, bytes_moved), (peak_flops, peak_bandwidth)))[-1])


# ---------------------------------------------------------------- median_time


def median_time__wrong_b_only_second_wait(run, synchronize, clock, warmup, repeats):
    """It does not synchronise before the first reading, so work still running then is counted with the first run."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    return float(statistics.median(times))


def median_time__wrong_b_upper_middle(run, synchronize, clock, warmup, repeats):
    """For an even number of runs the upper of the middle two is returned, not their mean."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    times.sort()
    return float(times[len(times) // 2])


def median_time__wrong_b_start_never_renewed(run, synchronize, clock, warmup, repeats):
    """`start` is read once before the loop, so each time includes all runs before it."""
    for _ in range(warmup):
        run()
    synchronize()
    start = clock()
    times = []
    for _ in range(repeats):
        run()
        synchronize()
        times.append(clock() - start)
    return float(statistics.median(times))


def median_time__wrong_b_warmup_part_of_repeats(run, synchronize, clock, warmup, repeats):
    """The warm-up runs are taken from the repeats: fewer than `repeats` runs are timed (one at least)."""
    times = []
    for i in range(max(repeats, warmup + 1)):
        synchronize()
        start = clock()
        run()
        synchronize()
        if i >= warmup:
            times.append(clock() - start)
    return float(statistics.median(times))


def median_time__wrong_b_warmup_at_least_one(run, synchronize, clock, warmup, repeats):
    """There is always a warm-up run, also for warmup = 0."""
    run()
    for _ in range(warmup - 1):
        run()

    def once():
        synchronize()
        start = clock()
        run()
        synchronize()
        return clock() - start

    return float(np.median([once() for _ in range(repeats)]))


def median_time__right_b_differences_of_readings(run, synchronize, clock, warmup, repeats):
    """All readings in one list, two for each run; the times inserted in order."""

    def reading():
        synchronize()
        return clock()

    for _ in range(warmup):
        run()
    readings = []
    for _ in range(repeats):
        readings.append(reading())
        run()
        readings.append(reading())
    ordered = []
    for before, after in zip(readings[::2], readings[1::2]):
        bisect.insort(ordered, after - before)
    low, high = ordered[(repeats - 1) // 2], ordered[repeats // 2]
    return float(low + high) / 2


# ---------------------------------------------------------------- tiled_causal_attention


def tiled_causal_attention__wrong_b_future_tiles_made(Q, K, V, block_size):
    """Tiles that lie wholly in the future are multiplied and then masked; they should never be made."""
    B, h, n, d = Q.shape
    place = torch.arange(n)
    out = []
    for i in range(0, n, block_size):
        q = Q[:, :, i : i + block_size]
        m = torch.full_like(q[..., :1], -math.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for j in range(0, n, block_size):
            s = q @ K[:, :, j : j + block_size].mT / math.sqrt(d)
            later = place[j : j + block_size] > place[i : i + block_size, None]
            s = s.masked_fill(later, -math.inf)
            m_new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
            p, f = torch.exp(s - m_new), torch.exp(m - m_new)
            l = f * l + p.sum(dim=-1, keepdim=True)
            o = f * o + p @ V[:, :, j : j + block_size]
            m = m_new
        out.append(o / l)
    return torch.cat(out, dim=2)


def tiled_causal_attention__wrong_b_diagonal_tile_skipped(Q, K, V, block_size):
    """The tile on the diagonal is skipped, too: tokens do not see their own block, and the first block is 0 / 0."""
    n, d = Q.shape[2:]
    rows = []
    for start in range(0, n, block_size):
        q = Q[:, :, start : start + block_size]
        top = q.new_full(q.shape[:3], -math.inf)
        total, mix = torch.zeros_like(top), torch.zeros_like(q)
        for first in range(0, start, block_size):
            keys, values = K[:, :, first : first + block_size], V[:, :, first : first + block_size]
            scores = q @ keys.mT / d**0.5
            new = torch.maximum(top, scores.amax(dim=-1))
            terms, factor = torch.exp(scores - new[..., None]), torch.exp(top - new)
            total = factor * total + terms.sum(dim=-1)
            mix = factor[..., None] * mix + terms @ values
            top = new
        rows.append(mix / total[..., None])
    return torch.cat(rows, dim=2)


def tiled_causal_attention__wrong_b_whole_rows_of_keys(Q, K, V, block_size):
    """Only the queries are cut: a block of them meets all keys up to its end at once, in a tensor wider than a tile."""
    n, d = Q.shape[2:]
    out = []
    for start in range(0, n, block_size):
        stop = min(start + block_size, n)
        scores = Q[:, :, start:stop] @ K[:, :, :stop].mT / math.sqrt(d)
        later = torch.arange(stop) > torch.arange(start, stop)[:, None]
        weights = torch.softmax(scores.masked_fill(later, -math.inf), dim=-1)
        out.append(weights @ V[:, :, :stop])
    return torch.cat(out, dim=2)


def tiled_causal_attention__wrong_b_state_not_started_anew(Q, K, V, block_size):
    """m, ℓ and o are not started anew for each block of queries, which goes on with those of other tokens."""
    B, h, n, d = Q.shape
    size = min(block_size, n)
    m = Q.new_full((B, h, size, 1), -math.inf)
    l, o = Q.new_zeros(B, h, size, 1), Q.new_zeros(B, h, size, d)
    out = []
    for i in range(0, n, size):
        q = Q[:, :, i : i + size]
        rows = q.shape[2]
        m, l, o = m[:, :, :rows], l[:, :, :rows], o[:, :, :rows]  # the last block is short
        for j in range(0, i + 1, size):
            s = q @ K[:, :, j : j + size].mT / math.sqrt(d)
            if j == i:
                s = s.masked_fill(torch.ones(rows, rows, dtype=torch.bool).triu(1), -math.inf)
            m_new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
            p, f = torch.exp(s - m_new), torch.exp(m - m_new)
            l = f * l + p.sum(dim=-1, keepdim=True)
            o = f * o + p @ V[:, :, j : j + size]
            m = m_new
        out.append(o / l)
    return torch.cat(out, dim=2)


def tiled_causal_attention__wrong_b_square_triangle_for_short_block(Q, K, V, block_size):
    """The triangle on the diagonal is always block_size wide and does not fit a short block (or block_size > n)."""
    B, h, n, d = Q.shape
    triangle = torch.tril(torch.ones(block_size, block_size, dtype=torch.bool))
    done = []
    for i, q in enumerate(Q.split(block_size, dim=2)):
        m, l, o = torch.full_like(q[..., :1], -math.inf), torch.zeros_like(q[..., :1]), torch.zeros_like(q)
        for j, (k, v) in enumerate(zip(K.split(block_size, dim=2), V.split(block_size, dim=2))):
            if j > i:
                break
            s = q @ k.mT / math.sqrt(d)
            if j == i:
                s = torch.where(triangle, s, -math.inf)
            m_new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
            p = torch.exp(s - m_new)
            l = torch.exp(m - m_new) * l + p.sum(dim=-1, keepdim=True)
            o = torch.exp(m - m_new) * o + p @ v
            m = m_new
        done.append(o / l)
    return torch.cat(done, dim=2)


def tiled_causal_attention__right_b_key_blocks_outside(Q, K, V, block_size):
    """The outer loop goes over the keys; every block of queries keeps its state in a list."""
    root = math.sqrt(Q.shape[-1])
    queries = Q.split(block_size, dim=2)
    states = []
    for q in queries:
        column = torch.zeros_like(q[..., :1])
        states.append((column - math.inf, column, torch.zeros_like(q)))
    for j, (k, v) in enumerate(zip(K.split(block_size, dim=2), V.split(block_size, dim=2))):
        for i in range(j, len(queries)):
            m, l, o = states[i]
            s = queries[i] @ k.mT / root
            if i == j:
                s = s + torch.full_like(s, -math.inf).triu(1)
            new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
            p, f = torch.exp(s - new), torch.exp(m - new)
            states[i] = new, f * l + p.sum(dim=-1, keepdim=True), f * o + p @ v
    return torch.cat([o / l for _, l, o in states], dim=2)


# ---------------------------------------------------------------- flash_bytes


def flash_bytes__wrong_b_output_not_written(n, d, block_q, bytes_per_value=2, causal=False):
    """What is written of the output is missing; only Q, K and V are counted."""
    total = 0
    for start in range(0, n, block_q):
        stop = min(start + block_q, n)
        total += (stop - start) * d  # queries
        total += 2 * (stop if causal else n) * d
    return total * bytes_per_value


def flash_bytes__wrong_b_values_forgotten(n, d, block_q, bytes_per_value=2, causal=False):
    """Each block is charged with the keys alone; it reads as many values."""
    ends = [min(start + block_q, n) for start in range(0, n, block_q)]
    read = sum(ends) if causal else n * len(ends)
    return (n + read + n) * d * bytes_per_value


def flash_bytes__wrong_b_own_block_not_read(n, d, block_q, bytes_per_value=2, causal=False):
    """With causal=True a block reads the keys before its first query only, not those of its own tokens."""
    rows = 2 * n
    for start in range(0, n, block_q):
        rows += 2 * (start if causal else n)
    return rows * d * bytes_per_value


def flash_bytes__wrong_b_last_token_never_read(n, d, block_q, bytes_per_value=2, causal=False):
    """With causal=True the last query's own key and value are left out: a token sees 0 … i, itself included."""
    rows = 0
    start = 0
    while start < n:
        stop = min(start + block_q, n)
        seen = stop - 1 if causal else n
        rows = rows + 2 * (stop - start) + 2 * seen
        start = stop
    return rows * d * bytes_per_value


def flash_bytes__wrong_b_half_of_all(n, d, block_q, bytes_per_value=2, causal=False):
    """causal=True halves the keys and values; a block reads all that any of its queries sees, in sum more than half."""
    blocks = -(-n // block_q)
    keys_and_values = 2 * blocks * n
    if causal:
        keys_and_values //= 2
    return (2 * n + keys_and_values) * d * bytes_per_value


def flash_bytes__right_b_from_the_end(n, d, block_q, bytes_per_value=2, causal=False):
    """Counts from the last block back, in rows of d numbers."""
    row, rows, stop = d * bytes_per_value, 0, n
    while stop > 0:
        start = (stop - 1) // block_q * block_q
        queries_and_outputs = 2 * (stop - start)
        rows += queries_and_outputs + 2 * (stop if causal else n)
        stop = start
    return rows * row


# ---------------------------------------------------------------- flash_backward


def flash_backward__wrong_b_root_missing_way_back(Q, K, V, out, logsumexp, d_out, block_size):
    """The gradients for Q and K are not divided by the root of d, though the scores were."""
    d = Q.shape[-1]
    delta = (d_out * out).sum(dim=-1, keepdim=True)
    dQ = torch.zeros_like(Q)
    dKs, dVs = [], []
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        p = torch.exp(Q @ k.transpose(-1, -2) / math.sqrt(d) - logsumexp.unsqueeze(-1))
        ds = p * (d_out @ v.transpose(-1, -2) - delta)
        dQ = dQ + ds @ k
        dKs.append(ds.transpose(-1, -2) @ Q)
        dVs.append(p.transpose(-1, -2) @ d_out)
    return dQ, torch.cat(dKs, dim=2), torch.cat(dVs, dim=2)


def flash_backward__wrong_b_last_block_in_queries(Q, K, V, out, logsumexp, d_out, block_size):
    """dQ is overwritten in each turn instead of added to: only the last block of keys counts for it."""
    scale = Q.shape[-1] ** -0.5
    row_sums = torch.einsum("bhid,bhid->bhi", d_out, out)[..., None]
    dK, dV = [], []
    for start in range(0, Q.shape[2], block_size):
        k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        weights = torch.exp(torch.einsum("bhid,bhjd->bhij", Q, k) * scale - logsumexp[..., None])
        d_scores = weights * (torch.einsum("bhid,bhjd->bhij", d_out, v) - row_sums) * scale
        dQ = torch.einsum("bhij,bhjd->bhid", d_scores, k)
        dK.append(torch.einsum("bhij,bhid->bhjd", d_scores, Q))
        dV.append(torch.einsum("bhij,bhid->bhjd", weights, d_out))
    return dQ, torch.cat(dK, 2), torch.cat(dV, 2)


def flash_backward__wrong_b_row_sums_of_block(Q, K, V, out, logsumexp, d_out, block_size):
    """The row sum of P * dP is taken over the block at hand; it runs over all keys, and equals that of d_out * out."""
    root = math.sqrt(Q.shape[-1])
    dQ = torch.zeros_like(Q)
    dK, dV = torch.empty_like(K), torch.empty_like(V)
    for start in range(0, Q.shape[2], block_size):
        block = slice(start, min(start + block_size, Q.shape[2]))
        P = torch.exp(Q @ K[:, :, block].mT / root - logsumexp.unsqueeze(3))
        dP = d_out @ V[:, :, block].mT
        dS = P * (dP - (P * dP).sum(dim=-1, keepdim=True)) / root
        dV[:, :, block] = P.mT @ d_out
        dK[:, :, block] = dS.mT @ Q
        dQ = dQ + dS @ K[:, :, block]
    return dQ, dK, dV


def flash_backward__wrong_b_powers_of_two(Q, K, V, out, logsumexp, d_out, block_size):
    """exp2 takes powers of 2, but logsumexp is a natural logarithm: the weights do not sum to 1."""
    scale = 1 / math.sqrt(Q.shape[-1])
    delta = torch.sum(d_out * out, dim=-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, K.shape[2], block_size):
        block = slice(start, start + block_size)
        k, v = K[:, :, block], V[:, :, block]
        P = torch.exp2(Q @ k.mT * scale - logsumexp.unsqueeze(-1))
        dS = P * (d_out @ v.mT - delta) * scale
        dQ += dS @ k
        dK[:, :, block] = dS.mT @ Q
        dV[:, :, block] = P.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_b_buffers_of_default_dtype(Q, K, V, out, logsumexp, d_out, block_size):
    """The gradients are gathered in tensors of the default dtype, so those of float64 inputs are float32."""
    B, h, n, d = Q.shape
    dQ, dK, dV = torch.zeros(3, B, h, n, d)
    delta = (d_out * out).sum(-1, keepdim=True)
    for start in range(0, n, block_size):
        stop = min(start + block_size, n)
        k, v = K[:, :, start:stop], V[:, :, start:stop]
        P = torch.exp(Q @ k.mT / math.sqrt(d) - logsumexp[..., None])
        dS = P * (d_out @ v.mT - delta) / math.sqrt(d)
        dQ += dS @ k
        dK[:, :, start:stop] = dS.mT @ Q
        dV[:, :, start:stop] = P.mT @ d_out
    return dQ, dK, dV


def flash_backward__right_b_keys_before_queries(Q, K, V, out, logsumexp, d_out, block_size):
    """Tables of (key, query), so that nothing but Q, K and V is ever transposed."""
    root = math.sqrt(Q.shape[-1])
    delta = torch.linalg.vecdot(d_out, out).unsqueeze(-2)  # (B, h, 1, n)
    dQ, parts = torch.zeros_like(Q), []
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        W = torch.exp(k @ Q.mT / root - logsumexp.unsqueeze(-2))
        G = W * (v @ d_out.mT - delta) / root
        parts.append((G @ Q, W @ d_out))
        dQ += torch.einsum("bhji,bhjd->bhid", G, k)
    return dQ, *(torch.cat(part, dim=2) for part in zip(*parts))
