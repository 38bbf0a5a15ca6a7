import heapq
import math
import statistics
from functools import reduce

import numpy as np
import torch
import torch.nn.functional as F


# ---- 9.1 loop_attention


def loop_attention__wrong_single_precision_result(Q, K, V):
    """The result is a tensor of zeros of the default dtype, so float64 inputs come back as float32."""
    B, h, n, d = Q.shape
    out = torch.zeros(B, h, n, d)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                scores = K[b, head] @ Q[b, head, i] / math.sqrt(d)
                weights = torch.softmax(scores, dim=0)
                out[b, head, i] = weights @ V[b, head]
    return out


def loop_attention__wrong_keys_of_first_head(Q, K, V):
    """Every head meets the keys of head 0, as if keys were shared."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        keys = K[b][0]
        for head in range(h):
            for i in range(n):
                a = torch.softmax(keys @ Q[b, head, i] / d**0.5, dim=-1)
                out[b, head, i] = (a[:, None] * V[b, head]).sum(dim=0)
    return out


def loop_attention__wrong_root_of_length(Q, K, V):
    """len of a head's keys is the number of tokens n, and its root divides the scores in place of that of d."""
    heads = []
    for q_b, k_b, v_b in zip(Q, K, V):
        for q, k, v in zip(q_b, k_b, v_b):
            rows = [torch.softmax(k @ query / math.sqrt(len(k)), 0) @ v for query in q]
            heads.append(torch.stack(rows))
    return torch.stack(heads).reshape(Q.shape)


def loop_attention__wrong_written_into_queries(Q, K, V):
    """The outputs are written over the caller's Q, so an input changes."""
    out = Q
    B, h, n, d = out.shape
    for b in range(B):
        for head in range(h):
            for i in range(n):
                s = K[b, head] @ Q[b, head, i] / d**0.5
                out[b, head, i] = torch.softmax(s, dim=-1) @ V[b, head]
    return out


def loop_attention__wrong_plain_exponentials(Q, K, V):
    """Takes the exponentials of the scores without a shift: scores of 10,000 give NaN."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                powers = torch.exp((Q[b, head, i] * K[b, head]).sum(dim=1) / d**0.5)
                out[b, head, i] = powers @ V[b, head] / powers.sum()
    return out


def loop_attention__right_key_after_key(Q, K, V):
    """For each query the shifted powers of the scores are added up in a loop over the keys as well."""

    def served(query, keys, values):
        scores = [query @ key / math.sqrt(len(query)) for key in keys]
        top = reduce(torch.maximum, scores)
        powers = [torch.exp(score - top) for score in scores]
        return sum(p * v for p, v in zip(powers, values)) / sum(powers)

    out = []
    for b in range(Q.shape[0]):
        for head in range(Q.shape[1]):
            out += [served(q, K[b, head], V[b, head]) for q in Q[b, head]]
    return torch.stack(out).view(Q.shape)


# ---- 9.2 batched_attention


def batched_attention__wrong_heads_merged(Q, K, V, causal=False):
    """Puts the features of all heads side by side and attends once: all heads share one table of weights."""
    B, h, n, d = Q.shape
    q, k, v = (x.transpose(1, 2).reshape(B, n, h * d) for x in (Q, K, V))
    scores = q @ k.mT / math.sqrt(d)
    if causal:
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(1), -math.inf)
    out = torch.softmax(scores, dim=-1) @ v
    return out.reshape(B, n, h, d).transpose(1, 2)


def batched_attention__wrong_reshaped_keys(Q, K, V, causal=False):
    """A reshape of K to (B, h, d, n) stands where its last two axes should change places."""
    B, h, n, d = K.shape
    scores = torch.matmul(Q, K.reshape(B, h, d, n)) / d**0.5
    if causal:
        future = torch.triu(torch.ones(n, n, device=Q.device), diagonal=1).bool()
        scores = scores.masked_fill(future, float("-inf"))
    return torch.matmul(scores.softmax(dim=-1), V)


def batched_attention__wrong_past_hidden(Q, K, V, causal=False):
    """Hides the lower triangle: a token sees itself and the future, and not the past."""
    d, n = Q.shape[-1], Q.shape[-2]
    S = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(d)
    if causal:
        hidden = torch.ones((n, n), dtype=torch.bool, device=S.device).tril(-1)
        S = S.masked_fill(hidden, -torch.inf)
    A = F.softmax(S, dim=-1)
    return torch.einsum("bhij,bhjd->bhid", A, V)


def batched_attention__wrong_future_at_minus_10000(Q, K, V, causal=False):
    """Future scores become -10,000, which competes with allowed scores as low as that."""
    n, d = Q.shape[-2:]
    scores = Q @ K.transpose(-2, -1) / math.sqrt(d)
    if causal:
        place = torch.arange(n, device=Q.device)
        seen = place[None, :] <= place[:, None]
        scores = torch.where(seen, scores, torch.full_like(scores, -1e4))
    return torch.softmax(scores, dim=-1) @ V


def batched_attention__wrong_mask_after_softmax(Q, K, V, causal=False):
    """Cuts the future out of the finished weights, which then no longer sum to 1."""
    weights = torch.softmax(Q @ K.mT * Q.shape[-1] ** -0.5, dim=-1)
    if causal:
        weights = torch.tril(weights)
    return weights @ V


def batched_attention__right_folded_heads(Q, K, V, causal=False):
    """Batch and heads are folded into one axis for bmm, and the softmax is written out."""
    B, h, n, d = Q.shape
    q, k, v = (x.reshape(B * h, n, d) for x in (Q, K, V))
    scores = torch.bmm(q, k.permute(0, 2, 1)) / math.sqrt(d)
    if causal:
        place = torch.arange(n, device=Q.device)
        scores = scores.masked_fill(place.unsqueeze(0) > place.unsqueeze(1), -math.inf)
    powers = (scores - scores.amax(dim=2, keepdim=True)).exp()
    mixed = torch.bmm(powers / powers.sum(dim=2, keepdim=True), v)
    return mixed.view(B, h, n, d)


# ---- 9.3 tiled_attention


def tiled_attention__wrong_short_block_dropped(Q, K, V, block_size):
    """Counts whole blocks only, so the keys of a last, short block are left out."""
    B, h, n, d = Q.shape
    block_size = min(block_size, n)
    m = Q.new_full((B, h, n, 1), -math.inf)
    total = Q.new_zeros((B, h, n, 1))
    out = torch.zeros_like(Q)
    for block in range(n // block_size):
        keys = slice(block * block_size, (block + 1) * block_size)
        S = Q @ K[:, :, keys].mT / math.sqrt(d)
        m_new = torch.maximum(m, S.amax(dim=-1, keepdim=True))
        factor = torch.exp(m - m_new)
        terms = torch.exp(S - m_new)
        total = total * factor + terms.sum(dim=-1, keepdim=True)
        out = out * factor + terms @ V[:, :, keys]
        m = m_new
    return out / total


def tiled_attention__wrong_maximum_from_zero(Q, K, V, block_size):
    """The running maximum begins at 0, so scores that are all far below 0 underflow."""
    root = Q.shape[-1] ** 0.5
    m = torch.zeros_like(Q[..., :1])
    ell = torch.zeros_like(m)
    o = torch.zeros_like(Q)
    for K_block, V_block in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        scores = Q @ K_block.transpose(-1, -2) / root
        new = torch.maximum(m, scores.amax(-1, keepdim=True))
        shrink = (m - new).exp()
        p = (scores - new).exp()
        ell = shrink * ell + p.sum(-1, keepdim=True)
        o = shrink * o + p @ V_block
        m = new
    return o / ell


def tiled_attention__wrong_sum_not_rescaled(Q, K, V, block_size):
    """Only the mix is multiplied by the factor, and the sum stays against the old maximum."""
    B, h, n, d = Q.shape
    state = (Q.new_full((B, h, n, 1), -math.inf), Q.new_zeros(B, h, n, 1), torch.zeros_like(Q))

    def add_block(state, start):
        m, total, mix = state
        k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        s = torch.einsum("bhid,bhjd->bhij", Q, k) / math.sqrt(d)
        top = torch.maximum(m, s.amax(dim=-1, keepdim=True))
        terms = torch.exp(s - top)
        total = total + terms.sum(dim=-1, keepdim=True)
        mix = torch.exp(m - top) * mix + torch.einsum("bhij,bhjd->bhid", terms, v)
        return top, total, mix

    for start in range(0, n, block_size):
        state = add_block(state, start)
    return state[2] / state[1]


def tiled_attention__wrong_blocks_averaged(Q, K, V, block_size):
    """Each block of keys gets a softmax of its own, and the results are averaged by the lengths of the blocks."""
    n, d = Q.shape[-2:]
    result = torch.zeros_like(Q)
    start = 0
    while start < n:
        k = K[..., start : start + block_size, :]
        v = V[..., start : start + block_size, :]
        attended = torch.softmax(Q @ k.mT / d**0.5, dim=-1) @ v
        result = result + attended * (k.shape[-2] / n)
        start += block_size
    return result


def tiled_attention__wrong_maximum_of_block(Q, K, V, block_size):
    """Goes over to the maximum of each block, even a lower one: the factor grows beyond all bounds."""
    B, h, n, d = Q.shape
    m = torch.full((B, h, n, 1), -math.inf, dtype=Q.dtype, device=Q.device)
    l = torch.zeros_like(m)
    o = torch.zeros_like(Q)
    for start in range(0, n, block_size):
        stop = min(start + block_size, n)
        S = Q @ K[:, :, start:stop].mT / math.sqrt(d)
        m_block = S.amax(dim=-1, keepdim=True)
        alpha = torch.exp(m - m_block)
        P = torch.exp(S - m_block)
        l = alpha * l + P.sum(dim=-1, keepdim=True)
        o = alpha * o + P @ V[:, :, start:stop]
        m = m_block
    return o / l


def tiled_attention__right_states_merged(Q, K, V, block_size):
    """Every block becomes a state of maximum, sum and mix; a function merges two states, and reduce does the rest."""

    def state_of(block):
        keys, values = block
        scores = Q @ keys.mT / math.sqrt(Q.shape[-1])
        top = scores.amax(dim=-1, keepdim=True)
        powers = torch.exp(scores - top)
        return top, powers.sum(dim=-1, keepdim=True), powers @ values

    def merged(one, other):
        top = torch.maximum(one[0], other[0])
        left, right = torch.exp(one[0] - top), torch.exp(other[0] - top)
        return top, left * one[1] + right * other[1], left * one[2] + right * other[2]

    blocks = zip(K.split(block_size, dim=-2), V.split(block_size, dim=-2))
    _, total, mix = reduce(merged, map(state_of, blocks))
    return mix / total


# ---- 9.4 attention_flops


def attention_flops__wrong_first_addition_free(batch, n_heads, n, d_head):
    """A sum of k products is given k - 1 additions, where the first addition (to 0) counts as well."""
    scores = n * n * (2 * d_head - 1)
    mixtures = n * d_head * (2 * n - 1)
    return batch * n_heads * (scores + mixtures)


def attention_flops__wrong_future_not_counted(batch, n_heads, n, d_head):
    """Counts only the pairs that a causal mask lets through."""
    pairs = n * (n + 1) // 2
    return batch * n_heads * 4 * pairs * d_head


def attention_flops__wrong_softmax_counted(batch, n_heads, n, d_head):
    """Adds an exponential, an addition and a division for each score: the softmax is not to be counted."""
    products = 2 * (2 * n * n * d_head)
    softmax = 3 * n * n
    return (products + softmax) * n_heads * batch


def attention_flops__wrong_heads_counted_twice(batch, n_heads, n, d_head):
    """Takes the width of the model for that of a head and multiplies by the number of heads again."""
    d_model = n_heads * d_head
    total = 0
    for _ in ("Q K^T", "A V"):
        total += 2 * n * d_model * n
    return batch * n_heads * total


def attention_flops__wrong_rounded_by_float(batch, n_heads, n, d_head):
    """Computes with floats and converts at the end, so large counts are not exact."""
    flops = 4.0 * batch * n_heads * n**2 * d_head
    return int(flops)


def attention_flops__right_products_by_shape(batch, n_heads, n, d_head):
    """A helper counts one product by its shapes; the two products of a head are added up."""

    def product(rows, inner, columns):
        multiplications = additions = rows * inner * columns
        return multiplications + additions

    make_scores = product(n, d_head, n)
    mix_values = product(n, n, d_head)
    return (make_scores + mix_values) * n_heads * batch


# ---- 9.5 score_matrix_bytes


def score_matrix_bytes__wrong_lower_triangle(batch, n_heads, n, bytes_per_value=2):
    """Counts the scores at and below the diagonal only."""
    scores = n * (n + 1) // 2
    return batch * n_heads * scores * bytes_per_value


def score_matrix_bytes__wrong_weights_as_well(batch, n_heads, n, bytes_per_value=2):
    """Counts the scores and the weights that are made of them, two tables a head."""
    tables = {"scores": n * n, "weights": n * n}
    return sum(tables.values()) * batch * n_heads * bytes_per_value


def score_matrix_bytes__wrong_always_two_bytes(batch, n_heads, n, bytes_per_value=2):
    """Takes two bytes for each score, whatever bytes_per_value says."""
    shape = (batch, n_heads, n, n)
    return 2 * math.prod(shape)


def score_matrix_bytes__wrong_float_root(batch, n_heads, n, bytes_per_value=2):
    """math.pow gives a float, so large counts lose their last digits."""
    scores = math.pow(n, 2) * batch * n_heads
    return int(scores * bytes_per_value)


def score_matrix_bytes__wrong_bits(batch, n_heads, n, bytes_per_value=2):
    """Counts bits: eight times as many as bytes."""
    bits_per_value = 8 * bytes_per_value
    numbers = batch * n_heads * n * n
    return numbers * bits_per_value


def score_matrix_bytes__right_two_triangles(batch, n_heads, n, bytes_per_value=2):
    """The pairs of different tokens, counted once and doubled, and the diagonal."""
    pairs = n * (n - 1) // 2
    scores = 2 * pairs + n
    return scores * bytes_per_value * n_heads * batch


# ---- 9.6 roofline_seconds


def roofline_seconds__wrong_times_added(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Adds both times, as if computing and moving took turns."""
    computing = flops / peak_flops
    moving = bytes_moved / peak_bandwidth
    return computing + moving


def roofline_seconds__wrong_border_crossed(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Compares the intensity with the border the wrong way round, and so returns the smaller time."""
    border = peak_flops / peak_bandwidth
    intensity = flops / bytes_moved if bytes_moved else math.inf
    if intensity > border:
        return bytes_moved / peak_bandwidth
    return flops / peak_flops


def roofline_seconds__wrong_nothing_moved(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Guards the division by the bytes with a return of 0, although arithmetic without bytes takes time too."""
    if bytes_moved == 0:
        return 0.0
    intensity = flops / bytes_moved
    rate = min(peak_flops, intensity * peak_bandwidth)
    return flops / rate if flops else bytes_moved / peak_bandwidth


def roofline_seconds__wrong_peaks_exchanged(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Divides the operations by the bandwidth and the bytes by the peak rate."""
    times = [work / rate for work, rate in zip((flops, bytes_moved), (peak_bandwidth, peak_flops))]
    return max(times)


def roofline_seconds__wrong_rounded(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Rounds the result to milliseconds, so short kernels take no time at all."""
    seconds = max(flops / peak_flops, bytes_moved / peak_bandwidth)
    return round(seconds, 3)


def roofline_seconds__right_compared_without_dividing(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Finds the slower side by cross-multiplication, and divides only there."""
    compute_bound = flops * peak_bandwidth > bytes_moved * peak_flops
    work, rate = (flops, peak_flops) if compute_bound else (bytes_moved, peak_bandwidth)
    return float(work / rate)


# ---- 9.7 median_time


def median_time__wrong_queue_not_emptied(run, synchronize, clock, warmup, repeats):
    """The clock starts without waiting for the warm-up or for earlier work, which the first run then pays for."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


def median_time__wrong_upper_middle(run, synchronize, clock, warmup, repeats):
    """Takes the element at len // 2 of the sorted times: for an even count the upper of the middle two."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        before = clock()
        run()
        synchronize()
        after = clock()
        times.append(after - before)
    times.sort()
    return float(times[len(times) // 2])


def median_time__wrong_one_warmup_always(run, synchronize, clock, warmup, repeats):
    """Makes at least one run that is not counted, even where warmup is 0."""
    run()
    for _ in range(warmup - 1):
        run()

    def measure():
        synchronize()
        start = clock()
        run()
        synchronize()
        return clock() - start

    return float(np.median([measure() for _ in range(repeats)]))


def median_time__wrong_all_at_once(run, synchronize, clock, warmup, repeats):
    """Times all the runs together and divides by their number: that is the mean."""
    for _ in range(warmup):
        run()
    synchronize()
    start = clock()
    for _ in range(repeats):
        run()
    synchronize()
    return (clock() - start) / repeats


def median_time__wrong_clock_before_waiting(run, synchronize, clock, warmup, repeats):
    """Reads the clock right after the order and waits only then, so the job itself is not in the time."""
    times = []
    for i in range(warmup + repeats):
        synchronize()
        start = clock()
        run()
        end = clock()
        synchronize()
        if i >= warmup:
            times.append(end - start)
    return statistics.median(times)


def median_time__right_chain_of_readings(run, synchronize, clock, warmup, repeats):
    """One reading between any two runs; the middle of the differences comes from a heap."""
    while warmup > 0:
        run()
        warmup -= 1

    def settled():
        synchronize()
        return clock()

    last, times = settled(), []
    for _ in range(repeats):
        run()
        now = settled()
        heapq.heappush(times, now - last)
        last = now
    lower, upper = (len(times) - 1) // 2, len(times) // 2
    in_order = heapq.nsmallest(upper + 1, times)
    return float((in_order[lower] + in_order[upper]) / 2)


# ---- 9.8 tiled_causal_attention


def tiled_causal_attention__wrong_diagonal_tiles_open(Q, K, V, block_size):
    """Leaves out the later blocks of keys but masks nothing within a block: a token sees the rest of its own block."""
    B, h, n, d = Q.shape
    blocks = []
    for first in range(0, n, block_size):
        q = Q[:, :, first : first + block_size]
        m = torch.full_like(q[..., :1], -math.inf)
        total, mix = torch.zeros_like(m), torch.zeros_like(q)
        for start in range(0, first + 1, block_size):
            s = q @ K[:, :, start : start + block_size].mT / math.sqrt(d)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            factor, terms = torch.exp(m - new), torch.exp(s - new)
            total = factor * total + terms.sum(-1, keepdim=True)
            mix = factor * mix + terms @ V[:, :, start : start + block_size]
            m = new
        blocks.append(mix / total)
    return torch.cat(blocks, dim=2)


def tiled_causal_attention__wrong_triangle_in_every_tile(Q, K, V, block_size):
    """Cuts the upper triangle out of every tile, also of those that lie wholly in the past."""
    root = Q.shape[-1] ** 0.5
    queries, keys, values = (x.split(block_size, dim=-2) for x in (Q, K, V))
    out = []
    for i, q in enumerate(queries):
        m = q.new_full(q.shape[:-1] + (1,), -math.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for j in range(i + 1):
            s = q @ keys[j].transpose(-1, -2) / root
            later = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
            s = s.masked_fill(later, -math.inf)
            m_new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
            p = torch.exp(s - m_new)
            shrink = torch.exp(m - m_new)
            l = l * shrink + p.sum(dim=-1, keepdim=True)
            o = o * shrink + p @ values[j]
            m = m_new
        out.append(o / l)
    return torch.cat(out, dim=-2)


def tiled_causal_attention__wrong_maximum_of_hidden(Q, K, V, block_size):
    """The running maximum looks at hidden scores too; where they are huge, all allowed terms underflow."""
    B, h, n, d = Q.shape
    out = torch.empty_like(Q)
    for a in range(0, n, block_size):
        q = Q[:, :, a : a + block_size]
        rows = torch.arange(a, a + q.shape[2], device=Q.device)[:, None]
        m = Q.new_full((B, h, q.shape[2], 1), -math.inf)
        l = torch.zeros_like(m)
        o = torch.zeros_like(q)
        for c in range(0, a + 1, block_size):
            k, v = K[:, :, c : c + block_size], V[:, :, c : c + block_size]
            columns = torch.arange(c, c + k.shape[2], device=Q.device)[None, :]
            S = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(d)
            new = torch.maximum(m, S.amax(dim=-1, keepdim=True))
            P = torch.exp(S - new) * (columns <= rows)
            alpha = torch.exp(m - new)
            l = alpha * l + P.sum(dim=-1, keepdim=True)
            o = alpha * o + torch.einsum("bhij,bhjd->bhid", P, v)
            m = new
        out[:, :, a : a + block_size] = o / l
    return out


def tiled_causal_attention__wrong_places_within_block(Q, K, V, block_size):
    """Compares places in the text for queries with places in the block for keys: only the first block is masked."""
    n, d = Q.shape[-2:]

    def serve(begin):
        q = Q[..., begin : begin + block_size, :] / d**0.5
        query_place = begin + torch.arange(q.shape[-2], device=Q.device).unsqueeze(1)
        m, l, o = None, None, None
        for start in range(0, begin + block_size, block_size):
            k = K[..., start : start + block_size, :]
            v = V[..., start : start + block_size, :]
            key_place = torch.arange(k.shape[-2], device=Q.device).unsqueeze(0)
            s = (q @ k.mT).masked_fill(key_place > query_place, -math.inf)
            top = s.amax(-1, keepdim=True)
            if m is None:
                m, terms = top, torch.exp(s - top)
                l, o = terms.sum(-1, keepdim=True), terms @ v
            else:
                new = torch.maximum(m, top)
                terms, factor = torch.exp(s - new), torch.exp(m - new)
                l, o, m = factor * l + terms.sum(-1, keepdim=True), factor * o + terms @ v, new
        return o / l

    return torch.cat([serve(begin) for begin in range(0, n, block_size)], dim=-2)


def tiled_causal_attention__wrong_last_queries_unserved(Q, K, V, block_size):
    """Serves whole blocks of queries only; the tokens of a last, short block stay 0."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for i in range(n // block_size):
        rows = slice(i * block_size, (i + 1) * block_size)
        q = Q[:, :, rows]
        m = torch.full((B, h, block_size, 1), -math.inf, dtype=Q.dtype, device=Q.device)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for j in range(i + 1):
            columns = slice(j * block_size, (j + 1) * block_size)
            s = q @ K[:, :, columns].mT / math.sqrt(d)
            if j == i:
                seen = torch.ones(block_size, block_size, dtype=torch.bool, device=Q.device).tril()
                s = s.masked_fill(~seen, -math.inf)
            new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
            p = torch.exp(s - new)
            l = torch.exp(m - new) * l + p.sum(dim=-1, keepdim=True)
            o = torch.exp(m - new) * o + p @ V[:, :, columns]
            m = new
        out[:, :, rows] = o / l
    return out


def tiled_causal_attention__right_own_block_first(Q, K, V, block_size):
    """Each block of queries begins with its own keys, masked, and then walks back into the past, unmasked."""
    queries, keys, values = (x.split(block_size, dim=-2) for x in (Q, K, V))

    def powers_of(scores, top):
        powers = torch.exp(scores - top)
        return powers, powers.sum(dim=-1, keepdim=True)

    results = []
    for i, q in enumerate(queries):
        q = q / math.sqrt(Q.shape[-1])
        place = torch.arange(q.shape[-2], device=Q.device)
        own = (q @ keys[i].mT).masked_fill(place > place[:, None], -math.inf)
        top = own.amax(dim=-1, keepdim=True)
        powers, total = powers_of(own, top)
        mix = powers @ values[i]
        for j in reversed(range(i)):
            scores = q @ keys[j].mT
            higher = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
            factor = torch.exp(top - higher)
            powers, added = powers_of(scores, higher)
            total, mix, top = factor * total + added, factor * mix + powers @ values[j], higher
        results.append(mix / total)
    return torch.cat(results, dim=-2)


# ---- 9.9 flash_bytes


def flash_bytes__wrong_short_block_in_part(n, d, block_q, bytes_per_value=2, causal=False):
    """The last, short block counts as a part of a block, though it reads all its keys and values."""
    blocks = max(1, n / block_q)
    share_seen = (1 + 1 / blocks) / 2 if causal else 1
    keys_read = blocks * n * share_seen
    return int(round((2 * n + 2 * keys_read) * d * bytes_per_value))


def flash_bytes__wrong_mask_saves_half(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask just half of the keys and values are read, though a block needs all up to its last query."""
    blocks = -(-n // block_q)
    keys_and_values = blocks * 2 * n * d
    if causal:
        keys_and_values //= 2
    return (2 * n * d + keys_and_values) * bytes_per_value


def flash_bytes__wrong_keys_beyond_end(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask the last, short block reads keys up to the end of a whole block, beyond the text."""
    rows = 0
    blocks = math.ceil(n / block_q)
    for block in range(1, blocks + 1):
        keys = block * block_q if causal else n
        rows += 2 * keys
    rows += 2 * n
    return rows * d * bytes_per_value


def flash_bytes__wrong_whole_blocks_moved(n, d, block_q, bytes_per_value=2, causal=False):
    """Every block moves block_q queries and outputs, the last, short one too."""
    total = 0
    for start in range(0, n, block_q):
        last_key = min(start + block_q, n) if causal else n
        total += 2 * block_q * d
        total += 2 * last_key * d
    return total * bytes_per_value


def flash_bytes__wrong_earlier_keys_kept(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask a block reads only the keys that are new to it, as if the earlier ones had stayed on the chip."""
    numbers, seen = 0, 0
    for start in range(0, n, block_q):
        queries = min(block_q, n - start)
        if causal:
            keys = start + queries - seen
            seen += keys
        else:
            keys = n
        numbers += d * (2 * queries + 2 * keys)
    return numbers * bytes_per_value


def flash_bytes__right_what_is_spared(n, d, block_q, bytes_per_value=2, causal=False):
    """All blocks read everything, less what the mask spares: block b does without the keys behind its own end."""
    blocks = (n + block_q - 1) // block_q
    key_rows = blocks * n
    if causal:
        others = blocks - 1
        key_rows -= others * n - block_q * (others * (others + 1) // 2)
    return 2 * (n + key_rows) * d * bytes_per_value


# ---- 9.10 flash_backward


def flash_backward__wrong_mean_over_block(Q, K, V, out, logsumexp, d_out, block_size):
    """The weighted mean of the slopes is summed over the keys of the block, where the whole row is due."""
    d = Q.shape[-1]
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, Q.shape[2], block_size):
        block = slice(start, start + block_size)
        P = torch.exp(Q @ K[:, :, block].mT / math.sqrt(d) - logsumexp[..., None])
        dP = d_out @ V[:, :, block].mT
        dS = P * (dP - (P * dP).sum(dim=-1, keepdim=True)) / math.sqrt(d)
        dQ += dS @ K[:, :, block]
        dK[:, :, block] = dS.mT @ Q
        dV[:, :, block] = P.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_queries_overwritten(Q, K, V, out, logsumexp, d_out, block_size):
    """dQ is written anew in each block, where the shares of all blocks add up."""
    root = Q.shape[-1] ** 0.5
    delta = (out * d_out).sum(-1).unsqueeze(-1)
    dK_parts, dV_parts = [], []
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2)):
        weights = torch.exp(torch.einsum("bhid,bhjd->bhij", Q, k) / root - logsumexp.unsqueeze(-1))
        d_weights = torch.einsum("bhid,bhjd->bhij", d_out, v)
        d_scores = weights * (d_weights - delta) / root
        dQ = torch.einsum("bhij,bhjd->bhid", d_scores, k)
        dK_parts.append(torch.einsum("bhij,bhid->bhjd", d_scores, Q))
        dV_parts.append(torch.einsum("bhij,bhid->bhjd", weights, d_out))
    return dQ, torch.cat(dK_parts, 2), torch.cat(dV_parts, 2)


def flash_backward__wrong_softmax_of_block(Q, K, V, out, logsumexp, d_out, block_size):
    """The weights are made by a softmax over the block alone; the logsumexp of the row is not used."""
    B, h, n, d = Q.shape
    scale = 1 / math.sqrt(d)
    delta = torch.sum(out * d_out, dim=-1, keepdim=True)
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for a in range(0, n, block_size):
        b = min(a + block_size, n)
        P = torch.softmax(Q @ K[:, :, a:b].transpose(-2, -1) * scale, dim=-1)
        dV[:, :, a:b] += P.transpose(-2, -1) @ d_out
        dS = P * (d_out @ V[:, :, a:b].transpose(-2, -1) - delta) * scale
        dK[:, :, a:b] += dS.transpose(-2, -1) @ Q
        dQ += dS @ K[:, :, a:b]
    return dQ, dK, dV


def flash_backward__wrong_powers_divided(Q, K, V, out, logsumexp, d_out, block_size):
    """Divides exp(score) by exp(logsumexp), both of which overflow or become 0 for large scores."""
    root = math.sqrt(Q.shape[-1])
    total = logsumexp.exp().unsqueeze(-1)
    dot = (d_out * out).sum(dim=-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, K.shape[-2], block_size):
        keys = K[..., start : start + block_size, :]
        weights = torch.exp(Q @ keys.mT / root) / total
        slopes = weights * (d_out @ V[..., start : start + block_size, :].mT - dot)
        dQ += slopes @ keys / root
        dK[..., start : start + block_size, :] = slopes.mT @ Q / root
        dV[..., start : start + block_size, :] = weights.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_keys_scaled_twice(Q, K, V, out, logsumexp, d_out, block_size):
    """The queries are scaled at the beginning, and dK, which is made from them, is scaled once more at the end."""
    scale = Q.shape[-1] ** -0.5
    q = Q * scale
    correction = torch.einsum("bhid,bhid->bhi", out, d_out)[..., None]
    dq, dk, dv = torch.zeros_like(q), [], []
    for k, v in zip(torch.split(K, block_size, dim=2), torch.split(V, block_size, dim=2)):
        p = (q @ k.mT - logsumexp[..., None]).exp()
        ds = p * (d_out @ v.mT - correction)
        dq = dq + ds @ k
        dk.append(ds.mT @ q)
        dv.append(p.mT @ d_out)
    return scale * dq, scale * torch.cat(dk, dim=2), torch.cat(dv, dim=2)


def flash_backward__right_differences_from_output(Q, K, V, out, logsumexp, d_out, block_size):
    """The slope of a score is the weight times how the value differs from the output, asked by d_out; back to front."""
    n, d = K.shape[-2:]
    # The output is the mean of all values, so d_out with it is what a block must know of the others.
    own = torch.einsum("bhid,bhid->bhi", d_out, out)
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for start in reversed(range(0, n, block_size)):
        k, v, to_k, to_v = (x.narrow(2, start, min(block_size, n - start)) for x in (K, V, dK, dV))
        weights = torch.einsum("bhjd,bhid->bhji", k, Q).div_(math.sqrt(d)).sub_(logsumexp[:, :, None, :]).exp_()
        to_v += weights @ d_out
        slopes = (torch.einsum("bhjd,bhid->bhji", v, d_out) - own[:, :, None, :]) * weights / math.sqrt(d)
        to_k += slopes @ Q
        dQ += torch.einsum("bhji,bhjd->bhid", slopes, k)
    return dQ, dK, dV
