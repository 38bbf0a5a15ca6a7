"""Unit 9, speed: four wrong answers and a right one for each exercise, as students would write them."""

import bisect
import math
import statistics
from itertools import product

import numpy as np
import torch

# ------- 9.1 loop_attention


def loop_attention__wrong_ninth_model_width(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Divides the scores by the square root of h * d, the width of the model, instead of the width of one head."""
    B, h, n, d = Q.shape
    d_model = h * d
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                scores = K[b, head] @ Q[b, head, i] / math.sqrt(d_model)
                weights = torch.softmax(scores, dim=0)
                out[b, head, i] = weights @ V[b, head]
    return out


def loop_attention__wrong_ninth_rows_in_loop_order(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Collects the rows with the queries in the outermost loop, yet reshapes them as if batch and head came first."""
    B, h, n, d = Q.shape
    rows = []
    for i in range(n):
        for head in range(h):
            for b in range(B):
                q = Q[b, head, i]
                s = torch.stack([(q * k).sum() for k in K[b, head]]) / d**0.5
                e = torch.exp(s - s.max())
                rows.append((e[:, None] * V[b, head]).sum(dim=0) / e.sum())
    return torch.stack(rows).reshape(B, h, n, d)


def loop_attention__wrong_ninth_clamped_scores(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Keeps exp finite by clamping the scores to -60 ... 60, so that larger scores become equal to each other."""
    B, h, n, d = Q.shape
    batches = []
    for b in range(B):
        heads = []
        for head in range(h):
            rows = []
            for i in range(n):
                scores = torch.mv(K[b, head], Q[b, head, i]) / d**0.5
                terms = torch.exp(scores.clamp(-60, 60))  # exp of more would overflow
                rows.append(terms @ V[b, head] / terms.sum())
            heads.append(torch.stack(rows))
        batches.append(torch.stack(heads))
    return torch.stack(batches)


def loop_attention__wrong_ninth_sum_without_gradient(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Computes the sum of the softmax under no_grad, so that the gradients for Q and K lack what flows through it."""
    d = Q.shape[-1]
    rows = []
    for i in range(Q.shape[2]):
        q = Q[:, :, i : i + 1, :]
        s = (q * K).sum(dim=-1) / math.sqrt(d)
        e = torch.exp(s - s.amax(dim=-1, keepdim=True))
        with torch.no_grad():
            total = e.sum(dim=-1, keepdim=True)
        weights = e / total
        rows.append((weights.unsqueeze(-1) * V).sum(dim=2))
    return torch.stack(rows, dim=2)


def loop_attention__right_ninth_knockout_rounds(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Merges for each query its keys in pairs, round after round, each side with its own maximum, sum and mix."""
    B, h, n, d = Q.shape
    rows = []
    for b, head, i in product(range(B), range(h), range(n)):
        top = K[b, head].matmul(Q[b, head, i]) / math.sqrt(d)
        total = torch.exp(top - top)  # each key alone, against its own score
        mix = V[b, head]
        while top.shape[0] > 1:
            half = top.shape[0] // 2
            new = torch.maximum(top[:half], top[half : 2 * half])
            left, right = torch.exp(top[:half] - new), torch.exp(top[half : 2 * half] - new)
            rest = slice(2 * half, None)
            mix = torch.cat([left[:, None] * mix[:half] + right[:, None] * mix[half : 2 * half], mix[rest]])
            total = torch.cat([left * total[:half] + right * total[half : 2 * half], total[rest]])
            top = torch.cat([new, top[rest]])
        rows.append(mix[0] / total[0])
    return torch.stack(rows).reshape(B, h, n, d)


# ------- 9.2 batched_attention


def batched_attention__wrong_ninth_hidden_scores_zero(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Sets the scores of later keys to 0 before the softmax instead of -inf, so that they still get weight."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) * Q.shape[-1] ** -0.5
    if causal:
        scores = scores.tril()
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhij,bhjd->bhid", weights, V)


def batched_attention__wrong_ninth_width_after_transpose(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Takes the width from the last axis of the transposed K, which is n, so it divides by sqrt(n), not by sqrt(d)."""
    K = K.transpose(-2, -1)
    S = Q @ K / math.sqrt(K.shape[-1])
    if causal:
        n = Q.shape[-2]
        future = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(1)
        S = S.masked_fill(future, -math.inf)
    return torch.softmax(S, dim=-1) @ V


def batched_attention__wrong_ninth_mask_after_softmax(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Masks the weights after the softmax and divides by their sum plus 1e-12: 0 where a later score dwarfs all."""
    A = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1)
    if causal:
        A = torch.tril(A)
        A = A / (A.sum(dim=-1, keepdim=True) + 1e-12)
    return A @ V


def batched_attention__wrong_ninth_view_of_heads(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Flattens batch and heads with view, which raises for inputs that are not contiguous, as heads split off are."""
    B, h, n, d = Q.shape
    q, k, v = (x.view(B * h, n, d) for x in (Q, K, V))
    scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(d)
    if causal:
        place = torch.arange(n, device=Q.device)
        scores = torch.where(place[None, :] > place[:, None], float("-inf"), scores)
    return torch.bmm(scores.softmax(-1), v).view(B, h, n, d)


def batched_attention__right_ninth_column_of_ones(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Lets a column of ones beside the values make the sum of the terms within the second product, and divides last."""
    B, h, n, d = Q.shape
    q, k, v = (x.reshape(B * h, n, d) for x in (Q, K, V))
    bias = torch.zeros(n, n, dtype=Q.dtype, device=Q.device)
    if causal:
        place = torch.arange(n, device=Q.device)
        bias = bias.masked_fill(place.unsqueeze(0) > place.unsqueeze(1), -math.inf)
    scores = torch.baddbmm(bias.expand(B * h, n, n), q, k.transpose(1, 2), alpha=1 / math.sqrt(d))
    terms = torch.exp(scores - scores.amax(dim=2, keepdim=True))
    mixed = torch.bmm(terms, torch.cat([v, torch.ones_like(v[..., :1])], dim=2))
    return (mixed[..., :d] / mixed[..., d:]).reshape(B, h, n, d)


# ------- 9.3 tiled_attention


def tiled_attention__wrong_ninth_mean_by_count(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Gives each block a softmax of its own and averages the blocks by their number of keys, not by their terms."""
    scale = Q.shape[-1] ** -0.5
    mean, seen = torch.zeros_like(Q), 0
    for keys, values in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        here = torch.softmax(scale * Q @ keys.mT, dim=-1) @ values
        count = keys.shape[2]
        mean = mean + (here - mean) * (count / (seen + count))
        seen += count
    return mean


def tiled_attention__wrong_ninth_factor_from_block_maximum(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Takes the factor against the maximum of the block, not the running one: too large where the maximum stays."""
    B, h, n, d = Q.shape
    m = torch.full_like(Q[..., :1], -math.inf)
    l, o = torch.zeros_like(m), torch.zeros_like(Q)
    for start in range(0, n, block_size):
        Kb, Vb = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        S = Q @ Kb.transpose(-1, -2) / math.sqrt(d)
        m_block = S.amax(dim=-1, keepdim=True)
        m_new = torch.maximum(m, m_block)
        factor = torch.exp(m - m_block)
        P = torch.exp(S - m_new)
        l = factor * l + P.sum(dim=-1, keepdim=True)
        o = factor * o + P @ Vb
        m = m_new
    return o / l


def tiled_attention__wrong_ninth_maximum_of_head(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Keeps one maximum for all queries of a head: a query whose scores lie far below another's ends as 0 / 1e-30."""
    d = Q.shape[-1]
    q = Q / math.sqrt(d)
    top = torch.full_like(Q[:, :, :1, :1], -math.inf)
    below = torch.zeros_like(Q[..., :1])
    above = torch.zeros_like(Q)
    for first in range(0, K.shape[2], block_size):
        part = slice(first, first + block_size)
        scores = torch.einsum("bhid,bhjd->bhij", q, K[:, :, part])
        higher = torch.maximum(top, scores.amax(dim=(-2, -1), keepdim=True))
        shrink, terms = torch.exp(top - higher), torch.exp(scores - higher)
        below = below * shrink + terms.sum(-1, keepdim=True)
        above = above * shrink + torch.einsum("bhij,bhjd->bhid", terms, V[:, :, part])
        top = higher
    return above / (below + 1e-30)


def tiled_attention__wrong_ninth_state_in_float32(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Holds its state in tensors of the default dtype, so that float16 and bfloat16 inputs give a float32 result."""
    B, h, n, d = Q.shape
    m = torch.full((B, h, n, 1), float("-inf"), device=Q.device)
    l = torch.zeros(B, h, n, 1, device=Q.device)
    o = torch.zeros(B, h, n, d, device=Q.device)
    start = 0
    while start < n:
        stop = min(start + block_size, n)
        S = Q @ K[:, :, start:stop].mT / d**0.5
        new = torch.maximum(m, S.max(dim=-1, keepdim=True).values)
        terms, shrink = torch.exp(S - new), torch.exp(m - new)
        l = l * shrink + terms.sum(dim=-1, keepdim=True)
        o = o * shrink + terms.to(V.dtype) @ V[:, :, start:stop]
        m, start = new, stop
    return o / l


def tiled_attention__right_ninth_running_mean_from_the_end(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Walks from the last block to the first and moves a finished mean towards each block's mean by its share."""
    n, d = Q.shape[-2:]
    top, total, mean = None, None, None
    for start in reversed(range(0, n, block_size)):
        keys, values = K[..., start : start + block_size, :], V[..., start : start + block_size, :]
        scores = Q.matmul(keys.mT) / math.sqrt(d)
        top_here = scores.amax(dim=-1, keepdim=True)
        terms = torch.exp(scores - top_here)
        total_here = terms.sum(dim=-1, keepdim=True)
        mean_here = (terms / total_here).matmul(values)
        if mean is None:
            top, total, mean = top_here, total_here, mean_here
            continue
        new = torch.maximum(top, top_here)
        old_mass, mass_here = total * torch.exp(top - new), total_here * torch.exp(top_here - new)
        total = old_mass + mass_here
        mean = mean + mass_here / total * (mean_here - mean)
        top = new
    return mean


# ------- 9.4 attention_flops


def attention_flops__wrong_ninth_one_addition_less(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts b - 1 additions for a sum of b terms, where the count asked for has b multiplications and b additions."""
    scores = n * n * (d_head + (d_head - 1))
    outputs = n * d_head * (n + (n - 1))
    return batch * n_heads * (scores + outputs)


def attention_flops__wrong_ninth_second_product_outside(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Adds the product A V in the loop over the sequences, outside of the one over the heads: once for all heads."""
    total = 0
    for _ in range(batch):
        for _ in range(n_heads):
            total += 2 * n * d_head * n  # Q K^T
        total += 2 * n * n * d_head  # A V
    return total


def attention_flops__wrong_ninth_int64_product(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Multiplies in NumPy's 64-bit integers, which wrap around silently for counts from 2**63 on."""
    sizes = np.array([2, 2, batch, n_heads, n, d_head, n], dtype=np.int64)
    return int(sizes.prod())


def attention_flops__wrong_ninth_with_exponentials(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts one exponential per score as well, although the softmax is to be left out."""
    per_score = 2 * d_head + 2 * d_head + 1
    return sum(per_score * n * n for _ in range(n_heads)) * batch


def attention_flops__right_ninth_pairs_of_tokens(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts the pairs of tokens as twice the unordered ones plus each with itself, four operations a feature."""
    pairs = 2 * math.comb(n, 2) + n
    return math.prod((batch, n_heads, pairs, d_head)) << 2


# ------- 9.5 score_matrix_bytes


def score_matrix_bytes__wrong_ninth_lower_triangle(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Counts only the scores on and below the diagonal, as if a causal mask saved the others."""
    scores = sum(range(1, n + 1)) if n < 10**6 else n * (n + 1) // 2
    return batch * n_heads * scores * bytes_per_value


def score_matrix_bytes__wrong_ninth_heads_squared(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Puts the number of heads into the bracket that is squared, so that each head meets the tokens of all heads."""
    rows = n_heads * n
    return batch * rows**2 * bytes_per_value


def score_matrix_bytes__wrong_ninth_known_dtypes(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Looks for a dtype of that size and takes 2 bytes where it knows none, so for 3 or 16 bytes the count is wrong."""
    dtypes = {1: torch.int8, 2: torch.float16, 4: torch.float32, 8: torch.float64}
    dtype = dtypes.get(bytes_per_value, torch.bfloat16)
    scores = torch.empty(batch, n_heads, n, n, dtype=dtype, device="meta")
    return scores.numel() * scores.element_size()


def score_matrix_bytes__wrong_ninth_bits_divided(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Goes over bits and divides by 8 with `/`, so that a float stands on the way and large counts are not exact."""
    bits = 8 * bytes_per_value
    total_bits = batch * n_heads * n * n * bits
    return int(total_bits / 8)


def score_matrix_bytes__right_ninth_two_triangles(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Adds up the lower triangle with the diagonal and the upper one without it, each as a sum of 1 ... k."""
    with_diagonal, without = n * (n + 1) // 2, n * (n - 1) // 2
    return (with_diagonal + without) * bytes_per_value * n_heads * batch


# ------- 9.6 roofline_seconds


def roofline_seconds__wrong_ninth_sides_of_the_border(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Confuses the sides of the border: takes the arithmetic's time below it and the bytes' time above it."""
    border = peak_flops / peak_bandwidth
    intensity = flops / bytes_moved if bytes_moved else math.inf
    if bytes_moved == 0 or (flops > 0 and intensity < border):
        return flops / peak_flops
    return bytes_moved / peak_bandwidth


def roofline_seconds__wrong_ninth_one_peak_for_both(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Divides the bytes by the peak rate of the arithmetic instead of the bandwidth."""
    work = torch.tensor([flops, bytes_moved], dtype=torch.float64)
    return (work / peak_flops).max().item()


def roofline_seconds__wrong_ninth_at_least_one_byte(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Counts at least one byte to avoid a division by 0, so a small job without bytes takes 1 / bandwidth."""
    if flops == 0:
        return bytes_moved / peak_bandwidth
    intensity = flops / max(bytes_moved, 1)
    rate = min(peak_flops, intensity * peak_bandwidth)
    return flops / rate


def roofline_seconds__wrong_ninth_whole_nanoseconds(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Rounds the result to whole nanoseconds, which is far off for short kernels, and 0 for the shortest."""
    computing = flops / peak_flops
    moving = bytes_moved / peak_bandwidth
    return round(max(computing, moving), 9)


def roofline_seconds__right_ninth_infinity_norm(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Takes the infinity norm of the vector of both times, neither of which is negative."""
    times = np.array([flops / peak_flops, bytes_moved / peak_bandwidth], dtype=np.float64)
    return float(np.linalg.norm(times, ord=np.inf))


# ------- 9.7 median_time


def median_time__wrong_ninth_waits_only_before(run, synchronize, clock, warmup: int, repeats: int) -> float:
    """Synchronises before the start of each run but not before the second reading, so it times the order alone."""
    for _ in range(warmup):
        run()
    seconds = []
    for _ in range(repeats):
        synchronize()
        started = clock()
        run()
        seconds.append(clock() - started)
    synchronize()
    return float(np.median(seconds))


def median_time__wrong_ninth_sorted_not_kept(run, synchronize, clock, warmup: int, repeats: int) -> float:
    """Calls sorted without keeping its result, so it takes the middle of the runs in their order in time."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        t0 = clock()
        run()
        synchronize()
        times.append(clock() - t0)
    sorted(times)
    middle = repeats // 2
    if repeats % 2:
        return float(times[middle])
    return (times[middle - 1] + times[middle]) / 2


def median_time__wrong_ninth_without_outliers(run, synchronize, clock, warmup: int, repeats: int) -> float:
    """Throws away the runs of more than three medians and takes the median of what is left, not of all repeats."""

    def once():
        synchronize()
        before = clock()
        run()
        synchronize()
        return clock() - before

    for _ in range(warmup):
        once()
    times = [once() for _ in range(repeats)]
    typical = statistics.median(times)
    undisturbed = [t for t in times if t <= 3 * typical]
    return float(statistics.median(undisturbed))


def median_time__wrong_ninth_slowest_are_the_warmup(run, synchronize, clock, warmup: int, repeats: int) -> float:
    """Times all runs and drops as many of the slowest as there are warm-ups, instead of the first ones."""
    times = []
    while len(times) < warmup + repeats:
        synchronize()
        begin = clock()
        run()
        synchronize()
        end = clock()
        times.append(end - begin)
    times.sort()
    counted = times[:repeats]
    return float(statistics.median(counted))


def median_time__right_ninth_chain_of_stamps(run, synchronize, clock, warmup: int, repeats: int) -> float:
    """Reads the clock once between two runs, as the end of one and the start of the next, and keeps a sorted list."""

    def stamp():
        synchronize()
        return clock()

    for _ in range(warmup):
        run()
    ordered, last = [], stamp()
    for _ in range(repeats):
        run()
        now = stamp()
        bisect.insort(ordered, now - last)
        last = now
    middle = repeats // 2
    return float((ordered[middle] + ordered[~middle]) / 2)


# ------- 9.8 tiled_causal_attention


def tiled_causal_attention__wrong_ninth_triangle_in_each_tile(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Hides the upper triangle of every tile, also of the earlier ones, in which all keys may be seen."""
    n, d = Q.shape[-2:]
    done = []
    for i in range(0, n, block_size):
        q = Q[:, :, i : i + block_size]
        m = torch.full_like(q[..., :1], -math.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for j in range(0, i + 1, block_size):
            k, v = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
            S = q @ k.mT / math.sqrt(d)
            hidden = torch.ones(S.shape[-2:], dtype=torch.bool, device=Q.device).triu(1)
            S = S.masked_fill(hidden, -math.inf)
            new = torch.maximum(m, S.amax(-1, keepdim=True))
            factor, P = torch.exp(m - new), torch.exp(S - new)
            l = factor * l + P.sum(-1, keepdim=True)
            o = factor * o + P @ v
            m = new
        done.append(o / l)
    return torch.cat(done, dim=2)


def tiled_causal_attention__wrong_ninth_one_tile_too_far(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Walks one key too far, so each block of queries is also multiplied with the next block of keys, all hidden."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    place = torch.arange(n, device=Q.device)
    for first in range(0, n, block_size):
        rows = slice(first, min(first + block_size, n))
        end = min(first + block_size + 1, n)
        top = torch.full_like(Q[:, :, rows, 0], -math.inf)
        total, mix = torch.zeros_like(top), torch.zeros_like(Q[:, :, rows])
        for start in range(0, end, block_size):
            cols = slice(start, min(start + block_size, n))
            later = place[cols] > place[rows].unsqueeze(-1)
            scores = torch.einsum("bhid,bhjd->bhij", Q[:, :, rows], K[:, :, cols]) / d**0.5
            scores = scores.masked_fill(later, -math.inf)
            new = torch.maximum(top, scores.amax(dim=-1))
            terms, factor = torch.exp(scores - new[..., None]), torch.exp(top - new)
            total = total * factor + terms.sum(dim=-1)
            mix = mix * factor[..., None] + torch.einsum("bhij,bhjd->bhid", terms, V[:, :, cols])
            top = new
        out[:, :, rows] = mix / total[..., None]
    return out


def tiled_causal_attention__wrong_ninth_hidden_at_minus_10000(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Puts -10,000 in place of hidden scores, so later keys get weight where the allowed scores are as low as that."""
    n, d = Q.shape[2], Q.shape[3]
    outputs = []
    for number, q in enumerate(Q.split(block_size, dim=2)):
        m, l, o = None, None, None
        pairs = list(zip(K.split(block_size, dim=2), V.split(block_size, dim=2)))[: number + 1]
        for tile, (k, v) in enumerate(pairs):
            S = (q @ k.transpose(2, 3)) / math.sqrt(d)
            if tile == number:
                S = S.masked_fill(torch.ones_like(S[0, 0]).triu(1) > 0, -1e4)
            m_here = S.amax(dim=-1, keepdim=True)
            if m is None:
                P = torch.exp(S - m_here)
                m, l, o = m_here, P.sum(-1, keepdim=True), P @ v
            else:
                m_new = torch.maximum(m, m_here)
                P = torch.exp(S - m_new)
                shrink = torch.exp(m - m_new)
                m, l, o = m_new, l * shrink + P.sum(-1, keepdim=True), o * shrink + P @ v
        outputs.append(o / l)
    return torch.cat(outputs, dim=2)


def tiled_causal_attention__wrong_ninth_tiles_joined_to_a_stripe(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Joins the tiles of a block of queries to one stripe of scores with an ordinary softmax: larger than a tile."""
    n, d = Q.shape[-2:]
    rows = []
    for i in range(0, n, block_size):
        stop = min(i + block_size, n)
        q = Q[..., i:stop, :] / d**0.5
        tiles = [q @ K[..., j : min(j + block_size, n), :].mT for j in range(0, stop, block_size)]
        queries = torch.arange(i, stop, device=Q.device)
        tiles[-1] = torch.where(queries > queries[:, None], -math.inf, tiles[-1])
        weights = torch.softmax(torch.cat(tiles, dim=-1), dim=-1)
        rows.append(weights @ V[..., :stop, :])
    return torch.cat(rows, dim=-2)


def tiled_causal_attention__right_ninth_diagonal_tile_first(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Begins each block of queries with its diagonal tile, so the maximum is finite, and walks back to token 0."""
    d = Q.shape[-1]
    queries, keys, values = (x.split(block_size, dim=2) for x in (Q, K, V))

    def tile(a, b):
        return torch.matmul(queries[a], keys[b].mT) / math.sqrt(d)

    finished = []
    for a in range(len(queries)):
        place = torch.arange(queries[a].shape[2], device=Q.device)
        scores = tile(a, a).masked_fill(place > place.unsqueeze(1), -math.inf)
        top = scores.amax(dim=-1, keepdim=True)
        terms = torch.exp(scores - top)
        total, mix = terms.sum(dim=-1, keepdim=True), terms.matmul(values[a])
        for b in range(a - 1, -1, -1):
            scores = tile(a, b)
            old, top = top, torch.maximum(top, scores.amax(dim=-1, keepdim=True))
            shrink, terms = torch.exp(old - top), torch.exp(scores - top)
            total = torch.addcmul(terms.sum(dim=-1, keepdim=True), total, shrink)
            mix = torch.addcmul(terms.matmul(values[b]), mix, shrink)
        finished.append(mix / total)
    return torch.cat(finished, dim=2)


# ------- 9.9 flash_bytes


def flash_bytes__wrong_ninth_keys_stay_queries_pass(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Lets blocks of keys have the chip and the queries pass by: with a mask and a short last block too few rows."""
    rows = 2 * n  # keys and values
    for start in range(0, n, block_q):
        rows += 2 * (n - start if causal else n)
    return rows * d * bytes_per_value


def flash_bytes__wrong_ninth_bracket_missing(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Multiplies only the rows of keys and values by width and bytes, not those of queries and outputs: no bracket."""
    ends = [min(start + block_q, n) for start in range(0, n, block_q)]
    keys = sum(ends) if causal else n * len(ends)
    return 2 * n + 2 * keys * d * bytes_per_value


def flash_bytes__wrong_ninth_always_one_more_block(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Counts n // block_q + 1 blocks, one too many, which reads all keys again, where block_q divides n."""
    blocks = n // block_q + 1
    if causal:
        whole = blocks - 1
        keys = block_q * whole * (whole + 1) // 2 + n
    else:
        keys = blocks * n
    return (2 * n + 2 * keys) * d * bytes_per_value


def flash_bytes__wrong_ninth_lone_key_spared(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Spares query and key where a block's only query sees one key alone, since its weight is 1 in any case."""
    read = written = 0
    first = 0
    while first < n:
        last = min(first + block_q, n)
        seen = last if causal else n
        if seen == 1:
            read += 1  # the value is the output
        else:
            read += (last - first) + seen + seen
        written += last - first
        first = last
    return (read + written) * d * bytes_per_value


def flash_bytes__right_ninth_once_and_again(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Starts from all four tensors once, as for a single block, and adds what each earlier block reads besides."""
    earlier = (n - 1) // block_q
    again = block_q * (earlier * (earlier + 1) // 2) if causal else n * earlier
    return (4 * n + 2 * again) * d * bytes_per_value


# ------- 9.10 flash_backward


def flash_backward__wrong_ninth_own_score_only(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes a (1 - a) as derivative of a weight by its own score and forgets that the other weights change as well."""
    n, d = Q.shape[-2:]
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, n, block_size):
        part = slice(start, start + block_size)
        A = torch.exp(Q @ K[:, :, part].mT / math.sqrt(d) - logsumexp[..., None])
        dA = d_out @ V[:, :, part].mT
        dS = A * (1 - A) * dA / math.sqrt(d)
        dV[:, :, part] = A.mT @ d_out
        dK[:, :, part] = dS.mT @ Q
        dQ += dS @ K[:, :, part]
    return dQ, dK, dV


def flash_backward__wrong_ninth_values_for_outputs(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Forms the number per query that stands for the whole row from d_out and V instead of d_out and out."""
    scale = Q.shape[-1] ** -0.5
    delta = torch.einsum("bhid,bhid->bhi", d_out, V)
    dQ, dKs, dVs = torch.zeros_like(Q), [], []
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        P = torch.exp(scale * torch.einsum("bhid,bhjd->bhij", Q, k) - logsumexp.unsqueeze(-1))
        dP = torch.einsum("bhid,bhjd->bhij", d_out, v)
        dS = scale * P * (dP - delta.unsqueeze(-1))
        dVs.append(torch.einsum("bhij,bhid->bhjd", P, d_out))
        dKs.append(torch.einsum("bhij,bhid->bhjd", dS, Q))
        dQ = dQ + torch.einsum("bhij,bhjd->bhid", dS, k)
    return dQ, torch.cat(dKs, dim=2), torch.cat(dVs, dim=2)


def flash_backward__wrong_ninth_sum_over_the_block(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sums weight times its gradient over the keys of the block only, so it is wrong as soon as block_size < n."""

    def softmax_backward(weights, grad):
        inner = weights * grad
        return inner - weights * inner.sum(dim=-1, keepdim=True)

    q = Q / math.sqrt(Q.shape[-1])
    dq, dK, dV = torch.zeros_like(Q), torch.empty_like(K), torch.empty_like(V)
    for start in range(0, K.shape[2], block_size):
        stop = min(start + block_size, K.shape[2])
        k, v = K[:, :, start:stop], V[:, :, start:stop]
        weights = torch.exp(torch.matmul(q, k.mT) - logsumexp[..., None])
        d_scores = softmax_backward(weights, torch.matmul(d_out, v.mT))
        dV[:, :, start:stop] = torch.matmul(weights.mT, d_out)
        dK[:, :, start:stop] = torch.matmul(d_scores.mT, q)
        dq += torch.matmul(d_scores, k)
    return dq / math.sqrt(Q.shape[-1]), dK, dV


def flash_backward__wrong_ninth_at_least_sixteen_keys(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes at least 16 keys per block whatever block_size says, so up to n = 16 all n*n scores stand at once."""
    d = Q.shape[-1]
    step = max(block_size, 16)  # small blocks are slow
    D = (out * d_out).sum(dim=-1, keepdim=True)
    L = logsumexp.unsqueeze(-1)
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for j in range(0, K.shape[2], step):
        Kj, Vj = K[:, :, j : j + step], V[:, :, j : j + step]
        P = (Q @ Kj.mT).div_(math.sqrt(d)).sub_(L).exp_()
        dV[:, :, j : j + step] = P.mT @ d_out
        dS = (d_out @ Vj.mT).sub_(D).mul_(P).div_(math.sqrt(d))
        dQ += dS @ Kj
        dK[:, :, j : j + step] = dS.mT @ Q
    return dQ, dK, dV


def flash_backward__right_ninth_lying_stripes(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Works with the transposed stripes, keys as rows, so that a block's dK and dV are plain products of them."""
    root = math.sqrt(Q.shape[-1])
    per_query = torch.einsum("...d,...d->...", out, d_out).unsqueeze(-2)
    norm = logsumexp.unsqueeze(-2)
    columns, d_columns = Q.mT, d_out.mT
    dQ, parts_K, parts_V = torch.zeros_like(Q), [], []
    for keys, values in zip(torch.split(K, block_size, dim=-2), torch.split(V, block_size, dim=-2), strict=True):
        lying = torch.exp(keys @ columns / root - norm)
        parts_V.append(lying @ d_out)
        lying = lying * (values @ d_columns - per_query)
        parts_K.append(lying @ Q / root)
        dQ = dQ + lying.mT @ keys / root
    return dQ, torch.cat(parts_K, dim=-2), torch.cat(parts_V, dim=-2)
