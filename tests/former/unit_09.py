"""Answers to unit 09's functions, written from the notebook alone."""

import bisect
import math
import statistics
import time

import torch

# loop_attention


def loop_attention__wrong_keys_of_first_head(Q, K, V):
    """Lets every head read the keys and values of head 0, as in multi-query attention, where each has its own."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        keys, values = K[b, 0], V[b, 0]
        for head in range(h):
            for i in range(n):
                scores = keys @ Q[b, head, i] / math.sqrt(d)
                out[b, head, i] = torch.softmax(scores, dim=0) @ values
    return out


def loop_attention__wrong_scaled_weights(Q, K, V):
    """Divides by the root of d behind the softmax and not before, so that the weights do not sum to 1."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                weights = torch.softmax(K[b, head] @ Q[b, head, i], dim=0) / d**0.5
                out[b, head, i] = weights @ V[b, head]
    return out


def loop_attention__wrong_keys_so_far(Q, K, V):
    """Hands each query only the keys up to its own place, a causal mask where none is asked for."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                keys, values = K[b, head, : i + 1], V[b, head, : i + 1]
                weights = torch.softmax(keys @ Q[b, head, i] / d**0.5, dim=0)
                out[b, head, i] = weights @ values
    return out


def loop_attention__wrong_default_zeros(Q, K, V):
    """Writes into torch.zeros of the default dtype, so that float64 inputs come out rounded to float32."""
    B, h, n, d = Q.shape
    out = torch.zeros(B, h, n, d)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                weights = torch.softmax(K[b, head] @ Q[b, head, i] / d**0.5, dim=0)
                out[b, head, i] = weights @ V[b, head]
    return out


def loop_attention__wrong_length_and_keys(Q, K, V):
    """Divides the scores by the root of the number of tokens, and mixes the keys in place of the values."""
    B, h, n, _ = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                weights = torch.softmax(K[b, head] @ Q[b, head, i] / n**0.5, dim=0)
                out[b, head, i] = weights @ K[b, head]
    return out


# batched_attention


def batched_attention__wrong_heads_as_tokens(Q, K, V, causal=False):
    """Swaps the axes of heads and tokens first, so that the heads of one token attend to each other."""
    Q, K, V = (x.transpose(1, 2) for x in (Q, K, V))
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    if causal:
        n = Q.shape[1]
        later = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return (torch.softmax(scores, dim=-1) @ V).transpose(1, 2)


def batched_attention__wrong_zero_times_infinity(Q, K, V, causal=False):
    """Adds a triangle of ones times -inf, which holds 0 * inf = NaN where it should hold 0."""
    n, d = Q.shape[-2:]
    scores = Q @ K.mT / math.sqrt(d)
    if causal:
        later = torch.ones(n, n, dtype=Q.dtype, device=Q.device).triu(1)
        scores = scores + later * -math.inf
    return torch.softmax(scores, dim=-1) @ V


def batched_attention__wrong_both_scaled(Q, K, V, causal=False):
    """Divides the queries and the keys by the root of d, so that the scores are divided by d."""
    n, d = Q.shape[-2:]
    scores = (Q / math.sqrt(d)) @ (K / math.sqrt(d)).mT
    if causal:
        later = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return torch.softmax(scores, dim=-1) @ V


def batched_attention__wrong_always_masked(Q, K, V, causal=False):
    """Asks whether `causal` is given at all, not whether it is True, so that it always masks."""
    n, d = Q.shape[-2:]
    mask = None
    if causal is not None:
        mask = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(diagonal=1)
    scores = torch.matmul(Q, K.transpose(-2, -1)) / d**0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -torch.inf)
    return torch.matmul(torch.softmax(scores, dim=-1), V)


def batched_attention__wrong_over_queries_one_ahead(Q, K, V, causal=False):
    """Takes the softmax over the queries and not the keys, and lets the mask leave one later token visible."""
    n, d = Q.shape[-2:]
    scores = Q @ K.mT / d**0.5
    if causal:
        later = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(2)
        scores = scores.masked_fill(later, -torch.inf)
    return torch.softmax(scores, dim=-2) @ V


# tiled_attention


def tiled_attention__wrong_padded_with_zeros(Q, K, V, block_size):
    """Fills keys and values up with zeros to whole blocks, and counts these keys, of score 0, in the softmax."""
    n, d = Q.shape[-2:]
    missing = -n % block_size
    K, V = (torch.cat([x, x.new_zeros(*x.shape[:2], missing, d)], dim=2) for x in (K, V))
    m = Q.new_full((*Q.shape[:-1], 1), -math.inf)
    total, mix = torch.zeros_like(m), torch.zeros_like(Q)
    for start in range(0, n, block_size):
        keys, values = (x[:, :, start : start + block_size] for x in (K, V))
        scores = Q @ keys.mT / math.sqrt(d)
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, terms = torch.exp(m - new), torch.exp(scores - new)
        total = factor * total + terms.sum(dim=-1, keepdim=True)
        mix = factor * mix + terms @ values
        m = new
    return mix / total


def tiled_attention__wrong_tiles_on_the_diagonal(Q, K, V, block_size):
    """Cuts the queries like the keys and lets each block of queries meet its own block of keys alone."""
    outs = []
    for q, k, v in zip(*(x.split(block_size, dim=2) for x in (Q, K, V)), strict=True):
        scores = q @ k.mT / math.sqrt(Q.shape[-1])
        m = scores.amax(dim=-1, keepdim=True)
        terms = torch.exp(scores - m)
        outs.append(terms @ v / terms.sum(dim=-1, keepdim=True))
    return torch.cat(outs, dim=2)


def tiled_attention__wrong_blocks_by_maximum(Q, K, V, block_size):
    """Mixes the outputs of the blocks by the exponential of each block's maximum, and not of its whole sum."""
    d = Q.shape[-1]
    m = Q.new_full((*Q.shape[:-1], 1), -math.inf)
    total, out = torch.zeros_like(m), torch.zeros_like(Q)
    for start in range(0, K.shape[2], block_size):
        scores = Q @ K[:, :, start : start + block_size].mT / math.sqrt(d)
        best = scores.amax(dim=-1, keepdim=True)
        new = torch.maximum(m, best)
        factor, share = torch.exp(m - new), torch.exp(best - new)
        of_block = torch.softmax(scores, dim=-1) @ V[:, :, start : start + block_size]
        total = factor * total + share
        out = factor * out + share * of_block
        m = new
    return out / total


def tiled_attention__wrong_root_of_block(Q, K, V, block_size):
    """Takes the width for the scale from the transposed block of keys, so that it divides by the root of its length."""
    m = Q.new_full((*Q.shape[:-1], 1), -math.inf)
    total, mix = torch.zeros_like(m), torch.zeros_like(Q)
    for keys, values in zip(K.split(block_size, dim=2), V.split(block_size, dim=2), strict=True):
        keys = keys.transpose(-2, -1)
        scores = Q @ keys / math.sqrt(keys.shape[-1])
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor, terms = torch.exp(m - new), torch.exp(scores - new)
        total = factor * total + terms.sum(dim=-1, keepdim=True)
        mix = factor * mix + terms @ values
        m = new
    return mix / total


def tiled_attention__wrong_whole_blocks_and_sum_unmended(Q, K, V, block_size):
    """Leaves out a last block that is short, and multiplies only the mix by the factor, not the sum of the terms."""
    n, d = Q.shape[-2:]
    m = Q.new_full((*Q.shape[:-1], 1), -math.inf)
    total, mix = torch.zeros_like(m), torch.zeros_like(Q)
    block_size = min(block_size, n)
    for block in range(n // block_size):
        keys = K[:, :, block * block_size : (block + 1) * block_size]
        values = V[:, :, block * block_size : (block + 1) * block_size]
        scores = Q @ keys.mT / d**0.5
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        terms = torch.exp(scores - new)
        total = total + terms.sum(dim=-1, keepdim=True)
        mix = torch.exp(m - new) * mix + terms @ values
        m = new
    return mix / total


# attention_flops


def attention_flops__wrong_one_addition_less(batch, n_heads, n, d_head):
    """Counts one addition fewer than multiplications in every entry, where by custom both count alike."""
    scores = n * n * (2 * d_head - 1)
    outputs = n * d_head * (2 * n - 1)
    return batch * n_heads * (scores + outputs)


def attention_flops__wrong_triangle(batch, n_heads, n, d_head):
    """Counts only the n (n + 1) / 2 pairs that a causal mask leaves, though nothing is saved by one."""
    pairs = n * (n + 1) // 2
    return batch * n_heads * 4 * pairs * d_head


def attention_flops__wrong_inner_sizes(batch, n_heads, n, d_head):
    """Takes (n, d) times (d, d) for the second product, where weights (n, n) meet values (n, d)."""
    scores = 2 * n * d_head * n
    outputs = 2 * n * d_head * d_head
    return batch * n_heads * (scores + outputs)


def attention_flops__wrong_width_shared_out(batch, n_heads, n, d_head):
    """Divides d_head by the number of heads, as if it were the width of all heads together."""
    width = d_head // n_heads
    return 4 * batch * n_heads * n**2 * width


def attention_flops__wrong_softmax_and_batch(batch, n_heads, n, d_head):
    """Adds three operations a score for the softmax, which is left out here, and counts one sequence only."""
    products = 4 * n * n * d_head
    softmax = 3 * n * n
    return n_heads * (products + softmax)


def attention_flops__right_two_products(batch, n_heads, n, d_head):
    """Counts each of the two matrix products by its own sizes, with a product over a tuple."""
    sizes = (n, d_head, n), (n, n, d_head)
    return sum(2 * math.prod((batch, n_heads, *product)) for product in sizes)


# score_matrix_bytes


def score_matrix_bytes__wrong_scores_and_weights(batch, n_heads, n, bytes_per_value=2):
    """Counts the scores and the weights, two tables of this size, where they are materialised once."""
    return 2 * batch * n_heads * n * n * bytes_per_value


def score_matrix_bytes__wrong_one_big_table(batch, n_heads, n, bytes_per_value=2):
    """Squares the number of heads together with the tokens, as if the tokens of all heads met each other."""
    rows = n_heads * n
    return batch * rows**2 * bytes_per_value


def score_matrix_bytes__wrong_cache(batch, n_heads, n, bytes_per_value=2):
    """Counts one key and one value for each token and head, as in a cache, and not one score for each pair."""
    return 2 * batch * n_heads * n * bytes_per_value


def score_matrix_bytes__wrong_bits(batch, n_heads, n, bytes_per_value=2):
    """Multiplies by 8, which gives bits and not bytes."""
    return batch * n_heads * n**2 * bytes_per_value * 8


def score_matrix_bytes__wrong_shared_in_single(batch, n_heads, n, bytes_per_value=4):
    """Counts one table for all heads of a sequence, and 4 bytes a value where nothing is said."""
    return batch * n * n * bytes_per_value


def score_matrix_bytes__right_product_of_shape(batch, n_heads, n, bytes_per_value=2):
    """Multiplies the entries of the scores' shape with math.prod."""
    shape = (batch, n_heads, n, n)
    return math.prod(shape, start=bytes_per_value)


# roofline_seconds


def roofline_seconds__wrong_rate(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Returns the highest rate at this intensity, the height of the roof, and not the time."""
    if bytes_moved == 0:
        return float(peak_flops)
    return float(min(peak_flops, flops / bytes_moved * peak_bandwidth))


def roofline_seconds__wrong_larger_by_slower(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Divides the larger of the two amounts by the smaller of the two rates, whatever their units."""
    return max(flops, bytes_moved) / min(peak_flops, peak_bandwidth)


def roofline_seconds__wrong_crossed(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Divides the operations by the bandwidth and the bytes by the peak rate of arithmetic."""
    computing = flops / peak_bandwidth
    moving = bytes_moved / peak_flops
    return max(computing, moving)


def roofline_seconds__wrong_nothing_to_do(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Returns 0 as soon as either amount is 0, though the other still takes its time."""
    if flops == 0 or bytes_moved == 0:
        return 0.0
    return max(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_sum_in_milliseconds(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Adds the two times, as if they came one after the other, and gives milliseconds."""
    return 1000 * (flops / peak_flops + bytes_moved / peak_bandwidth)


def roofline_seconds__right_cross_products(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Finds what decides by comparing two products, without a maximum, and divides once."""
    compute_bound = flops * peak_bandwidth > bytes_moved * peak_flops
    return flops / peak_flops if compute_bound else bytes_moved / peak_bandwidth


# median_time


def median_time__wrong_drops_the_fastest(run, synchronize, clock, warmup, repeats):
    """Times all runs, sorts, and drops the first `warmup` after that: the fastest ones and not the first ones."""
    times = []
    for _ in range(warmup + repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    times.sort()
    return float(statistics.median(times[warmup:]))


def median_time__wrong_warms_up_each_time(run, synchronize, clock, warmup, repeats):
    """Repeats the warm-up before every timed run, so that the job is run far too often."""
    times = []
    for _ in range(repeats):
        for _ in range(warmup):
            run()
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    return float(statistics.median(times))


def median_time__wrong_never_called(run, synchronize, clock, warmup, repeats):
    """Names `synchronize` without brackets, so that it is never called and only the order is timed."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize
        start = clock()
        run()
        synchronize
        times.append(clock() - start)
    return float(statistics.median(times))


def median_time__wrong_own_clock(run, synchronize, clock, warmup, repeats):
    """Reads the computer's own performance counter, and not the clock that is handed in."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = time.perf_counter()
        run()
        synchronize()
        times.append(time.perf_counter() - start)
    return float(statistics.median(times))


def median_time__wrong_early_start_and_upper(run, synchronize, clock, warmup, repeats):
    """Reads the clock before it waits for what is still queued, and takes the upper of the middle two."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        start = clock()
        synchronize()
        run()
        synchronize()
        times.append(clock() - start)
    return float(sorted(times)[repeats // 2])


def median_time__right_kept_in_order(run, synchronize, clock, warmup, repeats):
    """Inserts every time at its place in an ordered list, and takes the mean of its two middle places."""

    def now():
        synchronize()
        return clock()

    ordered = []
    for count in range(warmup + repeats):
        start = now()
        run()
        spent = now() - start
        if count >= warmup:
            bisect.insort(ordered, spent)
    return (ordered[(repeats - 1) // 2] + ordered[repeats // 2]) / 2.0


# tiled_causal_attention


def tiled_causal_attention__wrong_triangle_in_every_tile(Q, K, V, block_size):
    """Hides the upper triangle of every tile by places in the block, also of tiles that lie wholly earlier."""
    n, d = Q.shape[-2:]
    outs = []
    for first in range(0, n, block_size):
        q = Q[:, :, first : first + block_size]
        m = q.new_full((*q.shape[:-1], 1), -math.inf)
        total, mix = torch.zeros_like(m), torch.zeros_like(q)
        for start in range(0, first + 1, block_size):
            k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
            scores = q @ k.mT / d**0.5
            later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=Q.device).triu(1)
            scores = scores.masked_fill(later, -math.inf)
            new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            factor, terms = torch.exp(m - new), torch.exp(scores - new)
            total = factor * total + terms.sum(dim=-1, keepdim=True)
            mix = factor * mix + terms @ v
            m = new
        outs.append(mix / total)
    return torch.cat(outs, dim=2)


def tiled_causal_attention__wrong_state_handed_on(Q, K, V, block_size):
    """Begins m and both sums once for the whole text, so that a block of queries goes on with those of another."""
    B, h, n, d = Q.shape
    rows = min(block_size, n)
    m = Q.new_full((B, h, rows, 1), -math.inf)
    total, mix = Q.new_zeros(B, h, rows, 1), Q.new_zeros(B, h, rows, d)
    outs = []
    for first in range(0, n, block_size):
        q = Q[:, :, first : first + block_size]
        m, total, mix = (x[:, :, : q.shape[2]] for x in (m, total, mix))
        i = torch.arange(first, first + q.shape[2], device=Q.device)[:, None]
        for start in range(0, first + 1, block_size):
            k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
            j = torch.arange(start, start + k.shape[2], device=Q.device)
            scores = (q @ k.mT / d**0.5).masked_fill(j > i, -math.inf)
            new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            factor, terms = torch.exp(m - new), torch.exp(scores - new)
            total = factor * total + terms.sum(dim=-1, keepdim=True)
            mix = factor * mix + terms @ v
            m = new
        outs.append(mix / total)
    return torch.cat(outs, dim=2)


def tiled_causal_attention__wrong_neighbour_tiles(Q, K, V, block_size):
    """Multiplies a block of queries with its own and the previous block of keys only, and forgets all before."""
    n, d = Q.shape[-2:]
    outs = []
    for first in range(0, n, block_size):
        q = Q[:, :, first : first + block_size]
        i = torch.arange(first, first + q.shape[2], device=Q.device)[:, None]
        m = q.new_full((*q.shape[:-1], 1), -math.inf)
        total, mix = torch.zeros_like(m), torch.zeros_like(q)
        for start in range(max(first - block_size, 0), first + 1, block_size):
            k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
            j = torch.arange(start, start + k.shape[2], device=Q.device)
            scores = (q @ k.mT / d**0.5).masked_fill(j > i, -math.inf)
            new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            factor, terms = torch.exp(m - new), torch.exp(scores - new)
            total = factor * total + terms.sum(dim=-1, keepdim=True)
            mix = factor * mix + terms @ v
            m = new
        outs.append(mix / total)
    return torch.cat(outs, dim=2)


def tiled_causal_attention__wrong_mask_of_block_size(Q, K, V, block_size):
    """Makes one square mask of block_size for the tiles on the diagonal, which a last, short tile does not fit."""
    n, d = Q.shape[-2:]
    later = torch.ones(block_size, block_size, dtype=torch.bool, device=Q.device).triu(1)
    outs = []
    for first in range(0, n, block_size):
        q = Q[:, :, first : first + block_size]
        m = q.new_full((*q.shape[:-1], 1), -math.inf)
        total, mix = torch.zeros_like(m), torch.zeros_like(q)
        for start in range(0, first + 1, block_size):
            k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
            scores = q @ k.mT / d**0.5
            if start == first:
                scores = scores.masked_fill(later, -math.inf)
            new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            factor, terms = torch.exp(m - new), torch.exp(scores - new)
            total = factor * total + terms.sum(dim=-1, keepdim=True)
            mix = factor * mix + terms @ v
            m = new
        outs.append(mix / total)
    return torch.cat(outs, dim=2)


def tiled_causal_attention__wrong_zero_scores_and_unscaled(Q, K, V, block_size):
    """Sets the scores of later keys to 0, which leaves them a weight, and never divides the scores by the root of d."""
    n = Q.shape[-2]
    outs = []
    for first in range(0, n, block_size):
        q = Q[:, :, first : first + block_size]
        i = torch.arange(first, first + q.shape[2], device=Q.device)[:, None]
        m = q.new_full((*q.shape[:-1], 1), -math.inf)
        total, mix = torch.zeros_like(m), torch.zeros_like(q)
        for start in range(0, first + 1, block_size):
            k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
            j = torch.arange(start, start + k.shape[2], device=Q.device)
            scores = (q @ k.mT).masked_fill(j > i, 0.0)
            new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            factor, terms = torch.exp(m - new), torch.exp(scores - new)
            total = factor * total + terms.sum(dim=-1, keepdim=True)
            mix = factor * mix + terms @ v
            m = new
        outs.append(mix / total)
    return torch.cat(outs, dim=2)


# flash_bytes


def flash_bytes__wrong_half(n, d, block_q, bytes_per_value=2, causal=False):
    """Takes half of all readings of keys and values for a causal mask, though a block reads up to its own end."""
    blocks = -(-n // block_q)
    readings = 2 * n * blocks
    if causal:
        readings //= 2
    return (2 * n + readings) * d * bytes_per_value


def flash_bytes__wrong_without_own_keys(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask reads only the keys before a block's first query, and none of the block's own tokens."""
    rows = 2 * n
    for first in range(0, n, block_q):
        rows += 2 * first if causal else 2 * n
    return rows * d * bytes_per_value


def flash_bytes__wrong_keys_stay(n, d, block_q, bytes_per_value=2, causal=False):
    """Keeps the blocks of keys on the chip and moves the queries and outputs again for each, the wrong loop outside."""
    rows = 2 * n
    for first in range(0, n, block_q):
        rows += 2 * (n - first) if causal else 2 * n
    return rows * d * bytes_per_value


def flash_bytes__wrong_all_again(n, d, block_q, bytes_per_value=2, causal=False):
    """Moves the queries and the outputs whole for every block too, where each moves once in all."""
    rows = 0
    for first in range(0, n, block_q):
        seen = min(first + block_q, n) if causal else n
        rows += 2 * n + 2 * seen
    return rows * d * bytes_per_value


def flash_bytes__wrong_scores_and_floor(n, d, block_q, bytes_per_value=2, causal=False):
    """Adds the n*n scores, which never leave the chip, and leaves a last, short block out of the readings."""
    blocks = max(n // block_q, 1)
    rows = 2 * n
    for block in range(blocks):
        rows += 2 * min((block + 1) * block_q, n) if causal else 2 * n
    return (rows * d + n * n) * bytes_per_value


def flash_bytes__right_closed_form(n, d, block_q, bytes_per_value=2, causal=False):
    """Has no loop: whole blocks read block_q, 2 block_q, ... keys, whose sum is a triangle number, the last one n."""
    whole, rest = divmod(n, block_q)
    if causal:
        seen = block_q * (whole * (whole + 1) // 2) + (n if rest else 0)
    else:
        seen = n * (whole + (1 if rest else 0))
    return 2 * (n + seen) * d * bytes_per_value


# flash_backward


def flash_backward__wrong_each_score_alone(Q, K, V, out, logsumexp, d_out, block_size):
    """Takes A (1 - A) for the slope of the softmax, as if a score moved its own weight only."""
    root = math.sqrt(Q.shape[-1])
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for start in range(0, K.shape[2], block_size):
        part = slice(start, start + block_size)
        A = torch.exp(Q @ K[:, :, part].mT / root - logsumexp[..., None])
        dA = d_out @ V[:, :, part].mT
        dS = A * (1 - A) * dA
        dQ += dS @ K[:, :, part] / root
        dK[:, :, part] = dS.mT @ Q / root
        dV[:, :, part] = A.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_softmax_of_block(Q, K, V, out, logsumexp, d_out, block_size):
    """Makes the weights by a softmax over the block alone, and does not use the logsumexp of the whole row."""
    root = math.sqrt(Q.shape[-1])
    along = (d_out * out).sum(dim=-1, keepdim=True)
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for start in range(0, K.shape[2], block_size):
        part = slice(start, start + block_size)
        A = torch.softmax(Q @ K[:, :, part].mT / root, dim=-1)
        dS = A * (d_out @ V[:, :, part].mT - along)
        dQ += dS @ K[:, :, part] / root
        dK[:, :, part] = dS.mT @ Q / root
        dV[:, :, part] = A.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_values_for_outputs(Q, K, V, out, logsumexp, d_out, block_size):
    """Takes each query's sum of d_out times its own value, not times its output, off the gradient of the weights."""
    root = math.sqrt(Q.shape[-1])
    along = (d_out * V).sum(dim=-1, keepdim=True)
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for start in range(0, K.shape[2], block_size):
        part = slice(start, start + block_size)
        A = torch.exp(Q @ K[:, :, part].mT / root - logsumexp[..., None])
        dS = A * (d_out @ V[:, :, part].mT - along)
        dQ += dS @ K[:, :, part] / root
        dK[:, :, part] = dS.mT @ Q / root
        dV[:, :, part] = A.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_weights_not_turned(Q, K, V, out, logsumexp, d_out, block_size):
    """Multiplies the weights, not transposed, with the block's rows of d_out for dV: queries and keys mixed up."""
    root = math.sqrt(Q.shape[-1])
    along = (d_out * out).sum(dim=-1, keepdim=True)
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for start in range(0, K.shape[2], block_size):
        part = slice(start, start + block_size)
        A = torch.exp(Q @ K[:, :, part].mT / root - logsumexp[..., None])
        dS = A * (d_out @ V[:, :, part].mT - along)
        dQ += dS @ K[:, :, part] / root
        dK[:, :, part] = dS.mT @ Q / root
        dV += A @ d_out[:, :, part]
    return dQ, dK, dV


def flash_backward__wrong_no_row_sum_and_scale(Q, K, V, out, logsumexp, d_out, block_size):
    """Takes the weights times their gradient for that of the scores, with nothing taken off, and forgets the root."""
    root = math.sqrt(Q.shape[-1])
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for start in range(0, K.shape[2], block_size):
        part = slice(start, start + block_size)
        A = torch.exp(Q @ K[:, :, part].mT / root - logsumexp[..., None])
        dS = A * (d_out @ V[:, :, part].mT)
        dQ += dS @ K[:, :, part]
        dK[:, :, part] = dS.mT @ Q
        dV[:, :, part] = A.mT @ d_out
    return dQ, dK, dV
