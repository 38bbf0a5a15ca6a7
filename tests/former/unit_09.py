"""Answers to unit 09's functions, written from the notebook alone."""

import bisect
import itertools
import math
import statistics

import torch

# loop_attention


def loop_attention__wrong_no_maximum(Q, K, V):
    """The softmax is written as exp over sum without subtracting the largest score, so large scores give NaN."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for a in range(h):
            for i in range(n):
                terms = torch.exp(K[b, a] @ Q[b, a, i] / math.sqrt(d))
                out[b, a, i] = terms @ V[b, a] / terms.sum()
    return out


def loop_attention__wrong_heads_axis(Q, K, V):
    """All heads are served at once, and the softmax runs over the heads in place of the keys."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for i in range(n):
            scores = (K[b] @ Q[b, :, i, :, None])[..., 0] / math.sqrt(d)
            weights = torch.softmax(scores, dim=0)
            out[b, :, i] = (weights[:, None] @ V[b])[:, 0]
    return out


def loop_attention__wrong_causal(Q, K, V):
    """Query i meets the keys 0 to i only, a causal mask that nobody asked for."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for a in range(h):
            for i in range(n):
                scores = K[b, a, : i + 1] @ Q[b, a, i] / math.sqrt(d)
                out[b, a, i] = torch.softmax(scores, dim=0) @ V[b, a, : i + 1]
    return out


def loop_attention__wrong_always_float32(Q, K, V):
    """The result is made by torch.zeros without a dtype, so it is float32 whatever the inputs are."""
    B, h, n, d = Q.shape
    out = torch.zeros(B, h, n, d)
    for b in range(B):
        for a in range(h):
            for i in range(n):
                scores = K[b, a] @ Q[b, a, i] / math.sqrt(d)
                out[b, a, i] = torch.softmax(scores, dim=0) @ V[b, a]
    return out


def loop_attention__wrong_first_sequence(Q, K, V):
    """The keys and values of the first sequence serve all sequences of the batch."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for a in range(h):
            for i in range(n):
                scores = K[0, a] @ Q[b, a, i] / math.sqrt(d)
                out[b, a, i] = torch.softmax(scores, dim=0) @ V[0, a]
    return out


def loop_attention__wrong_two_root_of_n_and_first_head(Q, K, V):
    """The scores are divided by the root of n in place of d, and the values are always those of head 0."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for a in range(h):
            for i in range(n):
                scores = K[b, a] @ Q[b, a, i] / math.sqrt(n)
                out[b, a, i] = torch.softmax(scores, dim=0) @ V[b, 0]
    return out


def loop_attention__right_pair_by_pair(Q, K, V):
    """Even the scores and the mix of the values are made key by key, with a Python sum."""
    B, h, n, d = Q.shape
    rows = []
    for b, a, i in itertools.product(range(B), range(h), range(n)):
        scores = torch.stack([(Q[b, a, i] * K[b, a, j]).sum() / d**0.5 for j in range(n)])
        terms = (scores - scores.max()).exp()
        mix = sum(terms[j] * V[b, a, j] for j in range(n))
        rows.append(mix / terms.sum())
    return torch.stack(rows).view(B, h, n, d)


def loop_attention__right_query_einsum(Q, K, V):
    """Nested lists of heads unbound from the tensors, one einsum for each query, stacked level by level."""
    sequences = []
    for q_b, k_b, v_b in zip(Q, K, V, strict=True):
        heads = []
        for q_h, k_h, v_h in zip(q_b, k_b, v_b, strict=True):
            scaled = k_h / math.sqrt(k_h.shape[1])
            outputs = [torch.einsum("j,jd->d", (scaled @ q).log_softmax(0).exp(), v_h) for q in q_h]
            heads.append(torch.stack(outputs))
        sequences.append(torch.stack(heads))
    return torch.stack(sequences)


# batched_attention


def batched_attention__wrong_softmax_over_queries(Q, K, V, causal=False):
    """The softmax runs along the queries, dim=-2, in place of the keys."""
    n, d = Q.shape[-2:]
    scores = Q @ K.transpose(-2, -1) / math.sqrt(d)
    if causal:
        later = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return torch.softmax(scores, dim=-2) @ V


def batched_attention__wrong_weights_cut_afterwards(Q, K, V, causal=False):
    """The causal mask is applied after the softmax, so the weights of a row no longer sum to 1."""
    n, d = Q.shape[-2:]
    weights = torch.softmax(Q @ K.mT / math.sqrt(d), dim=-1)
    if causal:
        weights = weights.tril()
    return weights @ V


def batched_attention__wrong_zero_scores(Q, K, V, causal=False):
    """The scores of later keys are set to 0 in place of minus infinity, so these keys keep a weight."""
    n, d = Q.shape[-2:]
    scores = Q @ K.mT / math.sqrt(d)
    if causal:
        scores = torch.tril(scores)
    return torch.softmax(scores, dim=-1) @ V


def batched_attention__wrong_reshaped_keys(Q, K, V, causal=False):
    """K gets its shape (B, h, d, n) by a reshape in place of a transpose, which mixes up keys and features."""
    B, h, n, d = Q.shape
    scores = Q @ K.reshape(B, h, d, n) / math.sqrt(d)
    if causal:
        later = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(diagonal=1)
        scores = scores.masked_fill(later, -math.inf)
    return torch.softmax(scores, dim=-1) @ V


def batched_attention__wrong_mask_of_width(Q, K, V, causal=False):
    """The causal mask is d by d in place of n by n, so it fits only where both are equal."""
    d = Q.shape[-1]
    scores = Q @ K.mT / math.sqrt(d)
    if causal:
        past = torch.ones(d, d, dtype=torch.bool, device=Q.device).tril()
        scores = scores.masked_fill(~past, -math.inf)
    return scores.softmax(dim=-1) @ V


def batched_attention__wrong_two_scale_and_past_hidden(Q, K, V, causal=False):
    """The scores are divided by d in place of its root, and the mask hides the earlier keys, not the later ones."""
    n, d = Q.shape[-2:]
    scores = Q @ K.mT / d
    if causal:
        mask = torch.ones(n, n, dtype=torch.bool, device=Q.device).tril(-1)
        scores = scores.masked_fill(mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ V


def batched_attention__right_keys_first(Q, K, V, causal=False):
    """The table of scores is made with the keys as rows, and an einsum takes it with the values."""
    n, d = Q.shape[-2:]
    scores = torch.einsum("bhjd,bhid->bhji", K, Q * d**-0.5)
    if causal:
        place = torch.arange(n, device=Q.device)
        scores = torch.where(place[:, None] <= place, scores, -math.inf)
    terms = torch.exp(scores - scores.amax(dim=-2, keepdim=True))
    return torch.einsum("bhji,bhjd->bhid", terms / terms.sum(dim=-2, keepdim=True), V)


def batched_attention__right_flat_bmm(Q, K, V, causal=False):
    """Batch and heads are flattened into one axis, and baddbmm adds a bias of 0 or minus infinity to the products."""
    n, d = Q.shape[-2:]
    q, k, v = (t.flatten(0, 1) for t in (Q, K, V))
    bias = torch.zeros(n, n, dtype=Q.dtype, device=Q.device)
    if causal:
        bias = torch.full_like(bias, -math.inf).triu(1)
    scores = torch.baddbmm(bias, q, k.permute(0, 2, 1), alpha=1 / math.sqrt(d))
    return torch.bmm(scores.log_softmax(2).exp(), v).unflatten(0, Q.shape[:2])


# tiled_attention


def tiled_attention__wrong_sum_not_mended(Q, K, V, block_size):
    """Only o is multiplied with the factor when the maximum grows; the sum of the terms is not."""
    n, d = Q.shape[-2:]
    m = torch.full_like(Q[..., :1], -math.inf)
    total = torch.zeros_like(m)
    o = torch.zeros_like(Q)
    for start in range(0, n, block_size):
        k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        scores = Q @ k.mT / math.sqrt(d)
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor = torch.exp(m - new)
        terms = torch.exp(scores - new)
        total = total + terms.sum(dim=-1, keepdim=True)
        o = o * factor + terms @ v
        m = new
    return o / total


def tiled_attention__wrong_short_block_left_out(Q, K, V, block_size):
    """The loop runs over n // block_size blocks, so a shorter last block of keys is never met."""
    n, d = Q.shape[-2:]
    m = torch.full_like(Q[..., :1], -math.inf)
    total = torch.zeros_like(m)
    o = torch.zeros_like(Q)
    for block in range(n // block_size):
        part = slice(block * block_size, (block + 1) * block_size)
        scores = Q @ K[:, :, part].mT / math.sqrt(d)
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor = torch.exp(m - new)
        terms = torch.exp(scores - new)
        total = total * factor + terms.sum(dim=-1, keepdim=True)
        o = o * factor + terms @ V[:, :, part]
        m = new
    return o / total


def tiled_attention__wrong_blocks_averaged(Q, K, V, block_size):
    """Each block has a softmax of its own, and the outputs of the blocks are averaged."""
    n, d = Q.shape[-2:]
    o, blocks = torch.zeros_like(Q), 0
    for start in range(0, n, block_size):
        k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        o = o + torch.softmax(Q @ k.mT / math.sqrt(d), dim=-1) @ v
        blocks += 1
    return o / blocks


def tiled_attention__wrong_all_scores_first(Q, K, V, block_size):
    """All n by n scores are made before the loop, which then only cuts them into blocks."""
    n, d = Q.shape[-2:]
    scores = Q @ K.mT / math.sqrt(d)
    m = torch.full_like(Q[..., :1], -math.inf)
    total = torch.zeros_like(m)
    o = torch.zeros_like(Q)
    for start in range(0, n, block_size):
        block = scores[..., start : start + block_size]
        new = torch.maximum(m, block.amax(dim=-1, keepdim=True))
        factor = torch.exp(m - new)
        terms = torch.exp(block - new)
        total = total * factor + terms.sum(dim=-1, keepdim=True)
        o = o * factor + terms @ V[:, :, start : start + block_size]
        m = new
    return o / total


def tiled_attention__wrong_factor_too_late(Q, K, V, block_size):
    """m is already overwritten with the new maximum when the factor is computed from it, so the factor is always 1."""
    n, d = Q.shape[-2:]
    m = torch.full_like(Q[..., :1], -math.inf)
    total = torch.zeros_like(m)
    o = torch.zeros_like(Q)
    for start in range(0, n, block_size):
        k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        scores = Q @ k.mT / math.sqrt(d)
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        m = new
        factor = torch.exp(m - new)
        terms = torch.exp(scores - m)
        total = total * factor + terms.sum(dim=-1, keepdim=True)
        o = o * factor + terms @ v
    return o / total


def tiled_attention__wrong_two_root_of_block_and_early_division(Q, K, V, block_size):
    """The scores are divided by the root of the block's size in place of d, and o is divided by the sum after each
    block."""
    n = Q.shape[-2]
    m = torch.full_like(Q[..., :1], -math.inf)
    total = torch.zeros_like(m)
    o = torch.zeros_like(Q)
    for start in range(0, n, block_size):
        k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        scores = Q @ k.mT / math.sqrt(k.shape[-2])
        new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
        factor = torch.exp(m - new)
        terms = torch.exp(scores - new)
        total = total * factor + terms.sum(dim=-1, keepdim=True)
        o = (o * factor + terms @ v) / total
        m = new
    return o


def tiled_attention__right_logsumexp(Q, K, V, block_size):
    """The state is a finished output and its logsumexp, and each block's own softmax output is blended in."""
    out, seen = torch.zeros_like(Q), torch.full_like(Q[..., :1], -math.inf)
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2), strict=True):
        scores = torch.einsum("bhid,bhjd->bhij", Q, k) * Q.shape[-1] ** -0.5
        here = torch.logsumexp(scores, dim=-1, keepdim=True)
        both = torch.logaddexp(seen, here)
        out = out * (seen - both).exp() + (scores - both).exp() @ v
        seen = both
    return out


def tiled_attention__right_queries_cut_too(Q, K, V, block_size):
    """The queries are cut into blocks as well, the blocks of keys come from the last to the first, and sum and mix
    are one product with a column of ones beside the values."""
    n, d = Q.shape[-2:]
    starts = range(0, n, block_size)
    outputs = []
    for first in starts:
        q = Q[:, :, first : first + block_size] / math.sqrt(d)
        top = state = None
        for start in reversed(starts):
            k, v = (t[:, :, start : start + block_size] for t in (K, V))
            scores = q @ k.mT
            high = scores.amax(-1, keepdim=True)
            high = high if top is None else high.maximum(top)
            new = (scores - high).exp() @ torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
            state = new if top is None else state * (top - high).exp() + new
            top = high
        outputs.append(state[..., :d] / state[..., d:])
    return torch.cat(outputs, dim=2)


# attention_flops


def attention_flops__wrong_one_product(batch, n_heads, n, d_head):
    """Only the product Q K^T is counted; A V is left out."""
    return 2 * batch * n_heads * n * n * d_head


def attention_flops__wrong_additions_one_fewer(batch, n_heads, n, d_head):
    """Each sum is counted with one addition fewer than multiplications, where a multiply and an add count as two."""
    scores = n * n * (2 * d_head - 1)
    mix = n * d_head * (2 * n - 1)
    return batch * n_heads * (scores + mix)


def attention_flops__wrong_width_squared(batch, n_heads, n, d_head):
    """n and d_head have changed places: the width is squared in place of the length."""
    return 4 * batch * n_heads * n * d_head**2


def attention_flops__wrong_softmax_counted(batch, n_heads, n, d_head):
    """Three operations of the softmax are added for each score, where only the two products count."""
    return batch * n_heads * (4 * n**2 * d_head + 3 * n**2)


def attention_flops__wrong_heads_twice(batch, n_heads, n, d_head):
    """The products are counted with d_model = n_heads * d_head as width and once more for each head."""
    d_model = n_heads * d_head
    return batch * n_heads * 4 * n * n * d_model


def attention_flops__wrong_two_one_sequence_and_fused(batch, n_heads, n, d_head):
    """The batch is left out, and a multiply and an add count as one operation."""
    return 2 * n_heads * n * n * d_head


def attention_flops__right_two_products(batch, n_heads, n, d_head):
    """A local function 2abc is called once for each product, and the heads are summed up in a loop."""

    def product(a, b, c):
        return 2 * a * b * c

    return sum(product(n, d_head, n) + product(n, n, d_head) for _ in range(batch * n_heads))


def attention_flops__right_pairs(batch, n_heads, n, d_head):
    """It counts pairs of query and key, by math.prod, and 4 d_head operations for each pair."""
    pairs = math.prod((batch, n_heads, n, n))
    return pairs * d_head << 2


# score_matrix_bytes


def score_matrix_bytes__wrong_always_two(batch, n_heads, n, bytes_per_value=2):
    """Every number counts 2 bytes; the argument is not used."""
    return batch * n_heads * n * n * 2


def score_matrix_bytes__wrong_triangle(batch, n_heads, n, bytes_per_value=2):
    """Only the scores with keys up to the query are counted, as with a causal mask."""
    return batch * n_heads * (n * (n + 1) // 2) * bytes_per_value


def score_matrix_bytes__wrong_twice(batch, n_heads, n, bytes_per_value=2):
    """Scores and weights are counted, two tables in place of one."""
    return 2 * batch * n_heads * n**2 * bytes_per_value


def score_matrix_bytes__wrong_no_heads(batch, n_heads, n, bytes_per_value=2):
    """There is one table for each sequence; the number of heads is left out."""
    return batch * n * n * bytes_per_value


def score_matrix_bytes__wrong_kibibytes(batch, n_heads, n, bytes_per_value=2):
    """The result is in units of 1024 bytes, not in bytes."""
    return batch * n_heads * n * n * bytes_per_value // 1024


def score_matrix_bytes__wrong_two_bits_and_one_sequence(batch, n_heads, n, bytes_per_value=2):
    """The result is in bits, and the batch is left out."""
    return n_heads * n * n * bytes_per_value * 8


def score_matrix_bytes__right_meta_tensor(batch, n_heads, n, bytes_per_value=2):
    """PyTorch counts the entries of a tensor on the device "meta", which takes no memory."""
    return torch.empty(batch, n_heads, n, n, device="meta").numel() * bytes_per_value


def score_matrix_bytes__right_odd_numbers(batch, n_heads, n, bytes_per_value=2):
    """The square of n is the sum of the first n odd numbers."""
    return bytes_per_value * sum(range(1, 2 * n, 2)) * n_heads * batch


# roofline_seconds


def roofline_seconds__wrong_sum(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Both times are added up, as if computing and moving came one after the other."""
    return flops / peak_flops + bytes_moved / peak_bandwidth


def roofline_seconds__wrong_faster_one(flops, bytes_moved, peak_flops, peak_bandwidth):
    """It takes the smaller of the two times in place of the larger."""
    return min(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_by_intensity(flops, bytes_moved, peak_flops, peak_bandwidth):
    """It goes by the intensity and the rate under the roof, which fails where operations or bytes are 0."""
    intensity = flops / bytes_moved
    rate = min(peak_flops, intensity * peak_bandwidth)
    return flops / rate


def roofline_seconds__wrong_peaks_exchanged(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The operations are divided by the bandwidth and the bytes by the peak rate."""
    return max(flops / peak_bandwidth, bytes_moved / peak_flops)


def roofline_seconds__wrong_milliseconds(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The result is in milliseconds, a thousand times the seconds."""
    return 1e3 * max(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_two_sum_and_bits(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The two times are added, and the bytes are turned into bits before they are divided."""
    return flops / peak_flops + 8 * bytes_moved / peak_bandwidth


def roofline_seconds__right_cross_products(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Which limit holds is decided by cross products, before any division."""
    if flops * peak_bandwidth > bytes_moved * peak_flops:
        return float(flops / peak_flops)
    return float(bytes_moved / peak_bandwidth)


def roofline_seconds__right_sorted(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The larger of two times is the last one after sorting."""
    times = [flops / peak_flops]
    bisect.insort(times, bytes_moved / peak_bandwidth)
    return float(times[-1])


# median_time


def median_time__wrong_no_wait_before(run, synchronize, clock, warmup, repeats):
    """The clock is read at the start of a run without waiting, so the warm-up's last jobs are timed with the first."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    return float(statistics.median(times))


def median_time__wrong_no_wait_after(run, synchronize, clock, warmup, repeats):
    """The clock is read at the end without waiting for the job, so only the order to start it is timed."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        times.append(clock() - start)
    synchronize()
    return float(statistics.median(times))


def median_time__wrong_lower_median(run, synchronize, clock, warmup, repeats):
    """torch.median takes the lower of the two middle times where their number is even."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    return float(torch.tensor(times, dtype=torch.float64).median())


def median_time__wrong_warmup_counted(run, synchronize, clock, warmup, repeats):
    """The warm-up runs are timed as well and go into the median."""
    times = []
    for _ in range(warmup + repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    return float(statistics.median(times))


def median_time__wrong_all_at_once(run, synchronize, clock, warmup, repeats):
    """All runs are timed together and the time is divided by their number, which is a mean."""
    for _ in range(warmup):
        run()
    synchronize()
    start = clock()
    for _ in range(repeats):
        run()
    synchronize()
    return float((clock() - start) / repeats)


def median_time__wrong_two_mean_and_one_more_run(run, synchronize, clock, warmup, repeats):
    """It returns the mean in place of the median, and makes one warm-up run more than asked for."""
    run()
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    return float(statistics.mean(times))


def median_time__right_inserted_in_order(run, synchronize, clock, warmup, repeats):
    """One loop over all runs; the times are inserted in order, and the two middle ones, perhaps the same, averaged."""
    ordered = []
    for number in range(warmup + repeats):
        synchronize()
        before = clock()
        run()
        synchronize()
        if number >= warmup:
            bisect.insort(ordered, clock() - before)
    return (ordered[(repeats - 1) // 2] + ordered[repeats // 2]) / 2.0


def median_time__right_time_stamps(run, synchronize, clock, warmup, repeats):
    """One time stamp between any two runs, and a quantile of the differences."""

    def stamp():
        synchronize()
        return clock()

    for _ in range(warmup):
        run()
    stamps = [stamp()]
    for _ in range(repeats):
        run()
        stamps.append(stamp())
    gaps = [late - early for early, late in itertools.pairwise(stamps)]
    return torch.tensor(gaps, dtype=torch.float64).quantile(0.5).item()


# tiled_causal_attention


def tiled_causal_attention__wrong_triangle_everywhere(Q, K, V, block_size):
    """The triangle within a tile is cut out of every tile, also of those that lie wholly in the past."""
    n, d = Q.shape[-2:]
    out = []
    for first in range(0, n, block_size):
        q = Q[:, :, first : first + block_size]
        m = torch.full_like(q[..., :1], -math.inf)
        total, o = torch.zeros_like(m), torch.zeros_like(q)
        for start in range(0, first + 1, block_size):
            k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
            scores = q @ k.mT / math.sqrt(d)
            rows, columns = torch.arange(q.shape[-2]), torch.arange(k.shape[-2])
            hidden = (columns > rows[:, None]).to(Q.device)
            scores = scores.masked_fill(hidden, -math.inf)
            new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            factor, terms = torch.exp(m - new), torch.exp(scores - new)
            total = total * factor + terms.sum(dim=-1, keepdim=True)
            o = o * factor + terms @ v
            m = new
        out.append(o / total)
    return torch.cat(out, dim=-2)


def tiled_causal_attention__wrong_diagonal_open(Q, K, V, block_size):
    """The tiles on the diagonal are not masked, so a token sees all of its own block."""
    n, d = Q.shape[-2:]
    out = []
    for first in range(0, n, block_size):
        q = Q[:, :, first : first + block_size]
        m = torch.full_like(q[..., :1], -math.inf)
        total, o = torch.zeros_like(m), torch.zeros_like(q)
        for start in range(0, first + 1, block_size):
            k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
            scores = q @ k.mT / math.sqrt(d)
            new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            factor, terms = torch.exp(m - new), torch.exp(scores - new)
            total = total * factor + terms.sum(dim=-1, keepdim=True)
            o = o * factor + terms @ v
            m = new
        out.append(o / total)
    return torch.cat(out, dim=-2)


def tiled_causal_attention__wrong_state_carried_on(Q, K, V, block_size):
    """m, the sum and the mix are set up once before the loops, so each block of queries goes on from the last one's."""
    n, d = Q.shape[-2:]
    place = torch.arange(n, device=Q.device)
    m = torch.full_like(Q[:, :, :block_size, :1], -math.inf)
    total, o = torch.zeros_like(m), torch.zeros_like(Q[:, :, :block_size])
    out = []
    for first in range(0, n, block_size):
        q, i = Q[:, :, first : first + block_size], place[first : first + block_size]
        for start in range(0, first + 1, block_size):
            k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
            j = place[start : start + block_size]
            scores = (q @ k.mT / math.sqrt(d)).masked_fill(j > i[:, None], -math.inf)
            new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            factor, terms = torch.exp(m - new), torch.exp(scores - new)
            total = total * factor + terms.sum(dim=-1, keepdim=True)
            o = o * factor + terms @ v
            m = new
        out.append(o / total)
    return torch.cat(out, dim=-2)


def tiled_causal_attention__wrong_all_tiles(Q, K, V, block_size):
    """Every block of queries is multiplied with all blocks of keys, and the later ones are only masked afterwards."""
    n, d = Q.shape[-2:]
    place = torch.arange(n, device=Q.device)
    out = []
    for first in range(0, n, block_size):
        q, i = Q[:, :, first : first + block_size], place[first : first + block_size]
        m = torch.full_like(q[..., :1], -math.inf)
        total, o = torch.zeros_like(m), torch.zeros_like(q)
        for start in range(0, n, block_size):
            k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
            j = place[start : start + block_size]
            scores = (q @ k.mT / math.sqrt(d)).masked_fill(j > i[:, None], -math.inf)
            new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            factor, terms = torch.exp(m - new), torch.exp(scores - new)
            total = total * factor + terms.sum(dim=-1, keepdim=True)
            o = o * factor + terms @ v
            m = new
        out.append(o / total)
    return torch.cat(out, dim=-2)


def tiled_causal_attention__wrong_full_square_mask(Q, K, V, block_size):
    """The triangle of the diagonal is always block_size square, so it does not fit a shorter last block."""
    n, d = Q.shape[-2:]
    hidden = torch.ones(block_size, block_size, dtype=torch.bool, device=Q.device).triu(1)
    out = []
    for first in range(0, n, block_size):
        q = Q[:, :, first : first + block_size]
        m = torch.full_like(q[..., :1], -math.inf)
        total, o = torch.zeros_like(m), torch.zeros_like(q)
        for start in range(0, first + 1, block_size):
            k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
            scores = q @ k.mT / math.sqrt(d)
            if start == first:
                scores = scores.masked_fill(hidden, -math.inf)
            new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            factor, terms = torch.exp(m - new), torch.exp(scores - new)
            total = total * factor + terms.sum(dim=-1, keepdim=True)
            o = o * factor + terms @ v
            m = new
        out.append(o / total)
    return torch.cat(out, dim=-2)


def tiled_causal_attention__wrong_two_unscaled_and_no_factor(Q, K, V, block_size):
    """The scores are not divided by the root of d, and neither sum is mended when the maximum grows."""
    n = Q.shape[-2]
    place = torch.arange(n, device=Q.device)
    out = []
    for first in range(0, n, block_size):
        q, i = Q[:, :, first : first + block_size], place[first : first + block_size]
        m = torch.full_like(q[..., :1], -math.inf)
        total, o = torch.zeros_like(m), torch.zeros_like(q)
        for start in range(0, first + 1, block_size):
            k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
            j = place[start : start + block_size]
            scores = (q @ k.mT).masked_fill(j > i[:, None], -math.inf)
            m = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            terms = torch.exp(scores - m)
            total = total + terms.sum(dim=-1, keepdim=True)
            o = o + terms @ v
        out.append(o / total)
    return torch.cat(out, dim=-2)


def tiled_causal_attention__right_keys_outside(Q, K, V, block_size):
    """The outer loop runs over the blocks of keys, and each block of queries keeps its state in a list meanwhile."""
    d = Q.shape[-1]
    queries = Q.split(block_size, dim=2)
    states = [None] * len(queries)
    for b, (k, v) in enumerate(zip(K.split(block_size, dim=2), V.split(block_size, dim=2), strict=True)):
        for a in range(b, len(queries)):
            scores = torch.einsum("bhid,bhjd->bhij", queries[a], k) / math.sqrt(d)
            if a == b:
                size = scores.shape[-1]
                hidden = torch.ones(size, size, dtype=torch.bool, device=Q.device).triu(1)
                scores = scores.masked_fill(hidden, -math.inf)
            top = scores.amax(dim=-1, keepdim=True)
            if states[a] is not None:
                top = torch.maximum(top, states[a][0])
            terms = (scores - top).exp()
            total, mix = terms.sum(dim=-1, keepdim=True), terms @ v
            if states[a] is not None:
                old, old_total, old_mix = states[a]
                factor = (old - top).exp()
                total, mix = total + factor * old_total, mix + factor * old_mix
            states[a] = top, total, mix
    return torch.cat([mix / total for _, total, mix in states], dim=2)


def tiled_causal_attention__right_back_from_diagonal(Q, K, V, block_size):
    """Each block of queries walks from the diagonal backwards and blends finished outputs by their logsumexp."""
    n, d = Q.shape[-2:]
    out = torch.empty_like(Q)
    for first in range(0, n, block_size):
        last = min(first + block_size, n)
        q = Q[:, :, first:last] / math.sqrt(d)
        bias = torch.full((last - first,) * 2, -math.inf, dtype=Q.dtype, device=Q.device).triu(1)
        scores = q @ K[:, :, first:last].mT + bias
        seen = scores.logsumexp(dim=-1, keepdim=True)
        o = (scores - seen).exp() @ V[:, :, first:last]
        for end in range(first, 0, -block_size):
            part = slice(end - block_size, end)
            scores = q @ K[:, :, part].mT
            both = torch.logaddexp(seen, scores.logsumexp(dim=-1, keepdim=True))
            o = o * (seen - both).exp() + (scores - both).exp() @ V[:, :, part]
            seen = both
        out[:, :, first:last] = o
    return out


# flash_bytes


def flash_bytes__wrong_whole_blocks_only(n, d, block_q, bytes_per_value=2, causal=False):
    """n // block_q blocks are counted, so a short last block never reads its keys and values."""
    rows = 2 * n
    for block in range(n // block_q):
        seen = (block + 1) * block_q if causal else n
        rows += 2 * seen
    return rows * d * bytes_per_value


def flash_bytes__wrong_half_if_causal(n, d, block_q, bytes_per_value=2, causal=False):
    """With the causal mask simply half of the keys and values are counted, whatever the blocks may see."""
    blocks = -(-n // block_q)
    keys_and_values = 2 * n * blocks
    if causal:
        keys_and_values //= 2
    return (2 * n + keys_and_values) * d * bytes_per_value


def flash_bytes__wrong_past_the_end(n, d, block_q, bytes_per_value=2, causal=False):
    """A short last block is counted as if it were full, so if causal it reads keys that the text does not have."""
    rows = 2 * n
    for start in range(0, n, block_q):
        seen = start + block_q if causal else n
        rows += 2 * seen
    return rows * d * bytes_per_value


def flash_bytes__wrong_keys_before_the_block(n, d, block_q, bytes_per_value=2, causal=False):
    """If causal a block reads only the keys before its first query, and not those of its own tokens."""
    rows = 2 * n
    for start in range(0, n, block_q):
        rows += 2 * (start if causal else n)
    return rows * d * bytes_per_value


def flash_bytes__wrong_values_left_out(n, d, block_q, bytes_per_value=2, causal=False):
    """Only the keys are counted for every block of queries; the values are left out."""
    rows = 2 * n
    for start in range(0, n, block_q):
        rows += min(start + block_q, n) if causal else n
    return rows * d * bytes_per_value


def flash_bytes__wrong_two_no_output_and_always_two(n, d, block_q, bytes_per_value=2, causal=False):
    """The outputs are not counted, and every number takes 2 bytes whatever the argument says."""
    rows = n
    for start in range(0, n, block_q):
        rows += 2 * (min(start + block_q, n) if causal else n)
    return rows * d * 2


def flash_bytes__right_closed_form(n, d, block_q, bytes_per_value=2, causal=False):
    """Without a loop: the ends of the full blocks are an arithmetic series, and a rest reads all."""
    full, rest = divmod(n, block_q)
    if causal:
        read = block_q * full * (full + 1) // 2 + (n if rest else 0)
    else:
        read = n * (full + bool(rest))
    return 2 * (n + read) * d * bytes_per_value


def flash_bytes__right_key_by_key(n, d, block_q, bytes_per_value=2, causal=False):
    """It asks for every key how many blocks of queries read it: if causal, those that end after it."""
    blocks = math.ceil(n / block_q)
    moved = 0
    for key in range(n):
        readers = blocks - key // block_q if causal else blocks
        moved += (readers + 1) * 2 * d * bytes_per_value
    return moved


# flash_backward


def flash_backward__wrong_sum_within_block(Q, K, V, out, logsumexp, d_out, block_size):
    """The sum that the softmax's derivative takes off runs over the keys of the block, not over the whole row."""
    n, d = Q.shape[-2:]
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, n, block_size):
        part = slice(start, start + block_size)
        k, v = K[:, :, part], V[:, :, part]
        P = torch.exp(Q @ k.mT / math.sqrt(d) - logsumexp[..., None])
        dP = d_out @ v.mT
        dS = P * (dP - (P * dP).sum(dim=-1, keepdim=True))
        dV[:, :, part] = P.mT @ d_out
        dK[:, :, part] = dS.mT @ Q / math.sqrt(d)
        dQ = dQ + dS @ k / math.sqrt(d)
    return dQ, dK, dV


def flash_backward__wrong_bracket(Q, K, V, out, logsumexp, d_out, block_size):
    """The weights multiply only the first term: dS is P * dP - D in place of P * (dP - D)."""
    n, d = Q.shape[-2:]
    D = (d_out * out).sum(dim=-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, n, block_size):
        part = slice(start, start + block_size)
        k, v = K[:, :, part], V[:, :, part]
        P = torch.exp(Q @ k.mT / math.sqrt(d) - logsumexp[..., None])
        dS = P * (d_out @ v.mT) - D
        dV[:, :, part] = P.mT @ d_out
        dK[:, :, part] = dS.mT @ Q / math.sqrt(d)
        dQ = dQ + dS @ k / math.sqrt(d)
    return dQ, dK, dV


def flash_backward__wrong_key_gradient_unscaled(Q, K, V, out, logsumexp, d_out, block_size):
    """dK is not divided by the root of d; dQ is."""
    n, d = Q.shape[-2:]
    D = (d_out * out).sum(dim=-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, n, block_size):
        part = slice(start, start + block_size)
        k, v = K[:, :, part], V[:, :, part]
        P = torch.exp(Q @ k.mT / math.sqrt(d) - logsumexp[..., None])
        dS = P * (d_out @ v.mT - D)
        dV[:, :, part] = P.mT @ d_out
        dK[:, :, part] = dS.mT @ Q
        dQ = dQ + dS @ k / math.sqrt(d)
    return dQ, dK, dV


def flash_backward__wrong_query_gradient_overwritten(Q, K, V, out, logsumexp, d_out, block_size):
    """dQ is set anew by every block in place of adding up, so only the last block's share is left."""
    n, d = Q.shape[-2:]
    D = (d_out * out).sum(dim=-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, n, block_size):
        part = slice(start, start + block_size)
        k, v = K[:, :, part], V[:, :, part]
        P = torch.exp(Q @ k.mT / math.sqrt(d) - logsumexp[..., None])
        dS = P * (d_out @ v.mT - D)
        dV[:, :, part] = P.mT @ d_out
        dK[:, :, part] = dS.mT @ Q / math.sqrt(d)
        dQ = dS @ k / math.sqrt(d)
    return dQ, dK, dV


def flash_backward__wrong_softmax_of_block(Q, K, V, out, logsumexp, d_out, block_size):
    """The weights are made by a softmax over the block's keys alone, and the logsumexp is not used."""
    n, d = Q.shape[-2:]
    D = (d_out * out).sum(dim=-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, n, block_size):
        part = slice(start, start + block_size)
        k, v = K[:, :, part], V[:, :, part]
        P = torch.softmax(Q @ k.mT / math.sqrt(d), dim=-1)
        dS = P * (d_out @ v.mT - D)
        dV[:, :, part] = P.mT @ d_out
        dK[:, :, part] = dS.mT @ Q / math.sqrt(d)
        dQ = dQ + dS @ k / math.sqrt(d)
    return dQ, dK, dV


def flash_backward__wrong_two_not_subtracted_and_wrong_partner(Q, K, V, out, logsumexp, d_out, block_size):
    """Nothing is subtracted from dP, as if weights were independent, and dV mixes the outputs in place of d_out."""
    n, d = Q.shape[-2:]
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, n, block_size):
        part = slice(start, start + block_size)
        k, v = K[:, :, part], V[:, :, part]
        P = torch.exp(Q @ k.mT / math.sqrt(d) - logsumexp[..., None])
        dS = P * (d_out @ v.mT)
        dV[:, :, part] = P.mT @ out
        dK[:, :, part] = dS.mT @ Q / math.sqrt(d)
        dQ = dQ + dS @ k / math.sqrt(d)
    return dQ, dK, dV


def flash_backward__right_tiles(Q, K, V, out, logsumexp, d_out, block_size):
    """Queries are cut into blocks as well, the tiles are einsums, and all three gradients add up in place."""
    scale = Q.shape[-1] ** -0.5
    offset = torch.einsum("bhid,bhid->bhi", d_out, out)
    dQ, dK, dV = (torch.zeros_like(t) for t in (Q, K, V))
    starts = range(0, Q.shape[2], block_size)
    with torch.no_grad():
        for a, b in itertools.product(starts, starts):
            i, j = slice(a, a + block_size), slice(b, b + block_size)
            scores = torch.einsum("bhid,bhjd->bhij", Q[:, :, i], K[:, :, j]) * scale
            P = (scores - logsumexp[:, :, i, None]).exp()
            dV[:, :, j] += torch.einsum("bhij,bhid->bhjd", P, d_out[:, :, i])
            dP = torch.einsum("bhid,bhjd->bhij", d_out[:, :, i], V[:, :, j])
            dS = P * (dP - offset[:, :, i, None]) * scale
            dQ[:, :, i] += torch.einsum("bhij,bhjd->bhid", dS, K[:, :, j])
            dK[:, :, j] += torch.einsum("bhij,bhid->bhjd", dS, Q[:, :, i])
    return dQ, dK, dV


def flash_backward__right_keys_as_rows(Q, K, V, out, logsumexp, d_out, block_size):
    """All tables are made with the keys as rows, and the gradients of keys and values are joined from lists."""
    d = Q.shape[-1]
    q, lse = Q.detach() / math.sqrt(d), logsumexp.detach().unsqueeze(-2)
    grad = d_out.detach()
    level = (grad * out.detach()).sum(-1).unsqueeze(-2)
    dQ, keys, values = torch.zeros_like(q), [], []
    for k, v in zip(K.detach().split(block_size, 2), V.detach().split(block_size, 2), strict=True):
        weights = torch.exp(k @ q.mT - lse)
        pull = weights * (v @ grad.mT - level)
        values.append(weights @ grad)
        keys.append(pull @ q)
        dQ += pull.mT @ k / math.sqrt(d)
    return dQ, torch.cat(keys, 2), torch.cat(values, 2)
