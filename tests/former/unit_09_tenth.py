"""Answers to the exercises of unit 9 (speed): per exercise four wrong ones and one right one."""

import bisect
import heapq
import math
import statistics
from collections.abc import Callable

import numpy as np
import torch


# ------- 9.1 loop_attention
def loop_attention__wrong_tenth_width_of_all_heads(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Divides the scores by the root of the width of all heads together, h * d, and not of one head."""
    B, h, n, d = Q.shape
    width = h * d
    rows = []
    for b in range(B):
        for head in range(h):
            for i in range(n):
                s = torch.stack([torch.dot(Q[b, head, i], K[b, head, j]) for j in range(n)]) / math.sqrt(width)
                rows.append(torch.softmax(s, dim=0) @ V[b, head])
    return torch.stack(rows).reshape(B, h, n, d)


def loop_attention__wrong_tenth_one_sum_for_all_heads(Q, K, V):
    """Serves all heads in one step and normalises with one sum over heads and keys together, not one sum per head."""
    out = torch.zeros_like(Q)
    d = Q.size(-1)
    for b in range(Q.size(0)):
        for i in range(Q.size(2)):
            s = torch.einsum("hd,hkd->hk", Q[b, :, i], K[b]) / d**0.5
            e = torch.exp(s - s.max())
            a = e / e.sum()
            out[b, :, i] = torch.einsum("hk,hkd->hd", a, V[b])
    return out


def loop_attention__wrong_tenth_shift_by_largest_size(Q, K, V):
    """Subtracts the largest absolute score before exp, so rows whose scores are all far below 0 end as 0 / 0 = NaN."""

    def weigh(s):
        e = (s - s.abs().max()).exp()
        return e / e.sum()

    B, h, n, d = Q.shape
    out = torch.empty_like(Q)
    for b in range(B):
        for head in range(h):
            keys, values = K[b, head], V[b, head]
            for i, q in enumerate(Q[b, head]):
                out[b, head, i] = values.T @ weigh(torch.mv(keys, q) / d**0.5)
    return out


def loop_attention__wrong_tenth_sum_without_gradient(Q, K, V):
    """The sum below the fraction is detached, so that values are right but the gradients for Q and K are wrong."""
    B, h, n, d = Q.shape
    batches = []
    for q_b, k_b, v_b in zip(Q, K, V):
        heads = []
        for q, k, v in zip(q_b, k_b, v_b):
            rows = []
            for i in range(n):
                s = (k * q[i]).sum(dim=1) / math.sqrt(d)
                top = s.max()
                e = torch.exp(s - top)
                norm = e.sum().detach()  # only a number to divide by
                rows.append((e.unsqueeze(1) * v).sum(dim=0) / norm)
            heads.append(torch.stack(rows))
        batches.append(torch.stack(heads))
    return torch.stack(batches)


def loop_attention__right_tenth_keys_sorted_by_score(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """For each query sorts the keys by their score, so that the first is the maximum, and takes the values along."""
    B, h, n, d = Q.shape
    rows = []
    for flat in range(B * h * n):
        b, rest = divmod(flat, h * n)
        head, i = divmod(rest, n)
        s, order = torch.sort(K[b, head] @ Q[b, head, i] / math.sqrt(d), descending=True)
        terms = torch.exp(s - s[0])
        rows.append(terms @ V[b, head].index_select(0, order) / terms.sum())
    return torch.stack(rows).view(B, h, n, d)


# ------- 9.2 batched_attention
def batched_attention__wrong_tenth_hidden_scores_are_zero(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """The causal mask multiplies the scores with 0 and not makes them -inf, so later tokens keep a weight of exp(0)."""
    n, d = Q.shape[-2:]
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(d)
    if causal:
        allowed = torch.ones(n, n, dtype=Q.dtype, device=Q.device).tril()
        scores = scores * allowed
    return torch.einsum("bhij,bhjd->bhid", torch.softmax(scores, dim=-1), V)


def batched_attention__wrong_tenth_keys_first_same_triangle(Q, K, V, causal=False):
    """Makes the table with keys as rows and queries as columns, but hides the triangle of the table of queries."""
    n, d = Q.shape[-2], Q.shape[-1]
    table = K @ (Q / d**0.5).transpose(2, 3)
    if causal:
        later = torch.triu(torch.ones(n, n, device=Q.device, dtype=torch.bool), diagonal=1)
        table = table.masked_fill(later, -torch.inf)
    weights = torch.softmax(table, dim=2)
    return weights.transpose(2, 3) @ V


def batched_attention__wrong_tenth_exp_before_where(Q, K, V, causal=False):
    """Takes exp of hidden scores too and drops them by where: a large later score makes the gradients NaN."""
    n, d = Q.shape[-2:]
    S = Q @ K.mT / math.sqrt(d)
    seen = torch.ones(n, n, dtype=torch.bool, device=Q.device)
    if causal:
        seen = seen.tril()
    top = torch.where(seen, S, -math.inf).amax(dim=-1, keepdim=True)
    P = torch.where(seen, torch.exp(S - top), 0.0)
    return (P @ V) / P.sum(dim=-1, keepdim=True)


def batched_attention__wrong_tenth_penalty_too_small(Q, K, V, causal=False):
    """Adds -10,000 to scores of later tokens, which is too little where a later score is 10,000 or more above."""
    B, h, n, d = Q.shape
    q, k, v = (x.reshape(B * h, n, d) for x in (Q, K, V))
    s = torch.bmm(q, k.transpose(1, 2)) * d**-0.5
    if causal:
        pos = torch.arange(n, device=Q.device)
        penalty = (pos[None, :] > pos[:, None]).to(s.dtype) * -1e4
        s = s + penalty
    e = torch.exp(s - s.amax(-1, keepdim=True))
    o = torch.bmm(e / e.sum(-1, keepdim=True), v)
    return o.reshape(B, h, n, d)


def batched_attention__right_tenth_baddbmm_and_logs(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Folds batch and heads, adds a bias of 0 or -inf within the product, and takes exp of the logarithmic softmax."""
    B, h, n, d = Q.shape
    bias = Q.new_zeros(n, n)
    if causal:
        bias = torch.full_like(bias, -math.inf).triu(diagonal=1)
    scores = torch.baddbmm(bias, Q.reshape(-1, n, d), K.reshape(-1, n, d).mT, alpha=1 / math.sqrt(d))
    weights = torch.log_softmax(scores, dim=-1).exp()
    return torch.bmm(weights, V.reshape(-1, n, d)).reshape(B, h, n, d)


# ------- 9.3 tiled_attention
def tiled_attention__wrong_tenth_blocks_weighed_by_maximum(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Merges each block's own softmax output by the blocks' maxima only, where their whole sums should weigh."""
    d = Q.shape[-1]
    level = result = None
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        s = Q @ k.mT / d**0.5
        own = torch.softmax(s, dim=-1) @ v
        top = s.amax(dim=-1, keepdim=True)
        if result is None:
            level, result = top, own
        else:
            share = torch.sigmoid(top - level)
            result = (1 - share) * result + share * own
            level = torch.logaddexp(level, top)
    return result


def tiled_attention__wrong_tenth_adds_before_it_mends(Q, K, V, block_size):
    """Adds the new block's mix to o first and applies the factor to both, where only what was there should shrink."""
    B, h, n, d = Q.shape
    m = Q.new_full((B, h, n, 1), -math.inf)
    l = Q.new_zeros(B, h, n, 1)
    o = torch.zeros_like(Q)
    j = 0
    while j < n:
        k, v = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
        s = torch.einsum("bhid,bhjd->bhij", Q, k) / math.sqrt(d)
        m_new = torch.maximum(m, s.amax(-1, keepdim=True))
        p = torch.exp(s - m_new)
        shrink = torch.exp(m - m_new) if j else torch.ones_like(m)
        l = shrink * l + p.sum(-1, keepdim=True)
        o = shrink * (o + p @ v)
        m = m_new
        j += block_size
    return o / l


def tiled_attention__wrong_tenth_one_maximum_for_a_head(Q, K, V, block_size):
    """Keeps one maximum for all queries of a head and guards the sum, so far smaller rows come out as 0."""
    B, h, n, d = Q.shape
    top = torch.full((B, h, 1, 1), -math.inf, dtype=Q.dtype, device=Q.device)
    below = torch.zeros((B, h, n, 1), dtype=Q.dtype, device=Q.device)
    above = torch.zeros((B, h, n, d), dtype=Q.dtype, device=Q.device)
    scaled = Q / math.sqrt(d)
    for first in range(0, n, block_size):
        part = slice(first, min(first + block_size, n))
        s = scaled @ K[..., part, :].transpose(-1, -2)
        new = torch.maximum(top, s.amax(dim=(-2, -1), keepdim=True))
        keep = torch.exp(top - new)
        e = torch.exp(s - new)
        below = below * keep + e.sum(dim=-1, keepdim=True)
        above = above * keep + e @ V[..., part, :]
        top = new
    return above / below.clamp(min=torch.finfo(Q.dtype).tiny)


def tiled_attention__wrong_tenth_maximum_in_a_first_walk(Q, K, V, block_size):
    """Walks over all blocks twice, first for the maximum and then for the sums, where one pass is asked for."""
    n, d = Q.shape[2], Q.shape[3]

    def scores(a, b):
        total = 0
        for f in range(d):
            total = total + Q[..., f, None] * K[..., None, a:b, f]
        return total / math.sqrt(d)

    cuts = [(a, min(n, a + block_size)) for a in range(0, n, block_size)]
    top = Q.new_full(Q.shape[:3], -torch.inf)
    for a, b in cuts:
        top = torch.maximum(top, scores(a, b).amax(-1))
    top = top[..., None]
    total, mix = 0, 0
    for a, b in cuts:
        e = torch.exp(scores(a, b) - top)
        total = total + e.sum(-1, keepdim=True)
        mix = mix + e @ V[:, :, a:b]
    return mix / total


def tiled_attention__right_tenth_running_mean_in_powers_of_two(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Keeps the weighted mean of the values so far, normalised at all times, with powers of 2 in place of e."""
    wide = torch.promote_types(Q.dtype, torch.float32)
    q = Q.to(wide) * (math.log2(math.e) / math.sqrt(Q.shape[-1]))
    top = q.new_full((*q.shape[:-1], 1), -math.inf)
    mass = torch.zeros_like(top)
    mean = torch.zeros_like(q)
    for k, v in zip(K.to(wide).split(block_size, dim=-2), V.to(wide).split(block_size, dim=-2), strict=True):
        s = q @ k.mT
        new = torch.maximum(top, s.amax(dim=-1, keepdim=True))
        old_mass = mass * torch.exp2(top - new)
        p = torch.exp2(s - new)
        mass = old_mass + p.sum(dim=-1, keepdim=True)
        mean = mean * (old_mass / mass) + (p @ v) / mass
        top = new
    return mean.to(Q.dtype)


# ------- 9.4 attention_flops
def attention_flops__wrong_tenth_only_keys_so_far(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts for each query only the keys up to its own token, as if a causal mask saved the rest."""
    pairs = n * (n + 1) // 2
    per_pair = 2 * d_head + 2 * d_head
    return batch * n_heads * pairs * per_pair


def attention_flops__wrong_tenth_inner_size_of_second_product(batch, n_heads, n, d_head):
    """In the second product the inner size is taken as d_head and not n."""

    def product(rows, inner, columns):
        return 2 * rows * inner * columns

    first = product(n, d_head, n)
    second = product(n, d_head, d_head)
    return batch * n_heads * (first + second)


def attention_flops__wrong_tenth_sixty_four_bits(batch, n_heads, n, d_head):
    """Multiplies in numpy's 64-bit integers, which overflow silently for very large counts."""
    sizes = np.array([4, batch, n_heads, n, n, d_head], dtype=np.int64)
    return int(np.prod(sizes))


def attention_flops__wrong_tenth_one_addition_less(batch, n_heads, n, d_head):
    """Counts an inner product of b terms as b multiplications and b - 1 additions, against the custom that is set."""
    total = 0
    for entries, terms in ((n * n, d_head), (n * d_head, n)):
        multiplications, additions = terms, terms - 1
        total += entries * (multiplications + additions)
    return total * batch * n_heads


def attention_flops__right_tenth_difference_of_squares(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Uses 4xy = (x + y)^2 - (x - y)^2 for x all queries of all heads and y the numbers of one head's keys."""
    queries = batch * n_heads * n
    numbers = n * d_head
    return (queries + numbers) ** 2 - (queries - numbers) ** 2


# ------- 9.5 score_matrix_bytes
def score_matrix_bytes__wrong_tenth_scores_and_weights(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Counts two tables, the scores and the weights of the softmax, where the scores once are asked for."""
    table = batch * n_heads * n * n * bytes_per_value
    scores, weights = table, table
    return scores + weights


def score_matrix_bytes__wrong_tenth_bytes_as_exponent(batch, n_heads, n, bytes_per_value=2):
    """Raises n to the power of the bytes per value and not to 2: right for two bytes only."""
    heads = batch * n_heads
    return heads * n**bytes_per_value * bytes_per_value


def score_matrix_bytes__wrong_tenth_long_floats(batch, n_heads, n, bytes_per_value=2):
    """Multiplies in extended floating point, which is no longer exact for very large counts."""
    size = np.longdouble(1)
    for factor in (batch, n_heads, n, n, bytes_per_value):
        size *= factor
    return int(size)


def score_matrix_bytes__wrong_tenth_at_least_two_bytes(batch, n_heads, n, bytes_per_value=2):
    """Takes at least two bytes for a score, although one byte per value may be asked for."""
    width = max(2, bytes_per_value)
    row = n * width
    return sum(n_heads * n * row for _ in range(batch))


def score_matrix_bytes__right_tenth_two_triangles(batch: int, n_heads: int, n: int, bytes_per_value: int = 2) -> int:
    """Adds the pairs above the diagonal and those on and below it, as binomial coefficients."""
    above, rest = math.comb(n, 2), math.comb(n + 1, 2)
    return (above + rest) * math.prod((batch, n_heads, bytes_per_value))


# ------- 9.6 roofline_seconds
def roofline_seconds__wrong_tenth_rates_in_series(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Joins both rates as if one waited for the other, which adds up the times and does not take the larger."""
    if flops == 0:
        return bytes_moved / peak_bandwidth
    bytes_per_flop = bytes_moved / flops
    rate = 1 / (1 / peak_flops + bytes_per_flop / peak_bandwidth)
    return flops / rate


def roofline_seconds__wrong_tenth_whole_intensity(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Rounds the intensity down before it is compared with the border, so it decides wrongly just above the border."""
    if bytes_moved == 0:
        return flops / peak_flops
    intensity = flops // bytes_moved
    border = peak_flops / peak_bandwidth
    if intensity >= border:
        return flops / peak_flops
    return bytes_moved / peak_bandwidth


def roofline_seconds__wrong_tenth_whole_nanoseconds(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Rounds the result to whole nanoseconds, so a very small kernel takes 0."""
    times = [flops / peak_flops, bytes_moved / peak_bandwidth]
    return round(sorted(times)[-1], 9)


def roofline_seconds__wrong_tenth_no_work_no_time(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Gives 0 seconds where no operations are done, although the bytes must still be moved."""
    if flops == 0:
        return 0.0
    intensity = flops / bytes_moved if bytes_moved else math.inf
    rate = min(peak_flops, intensity * peak_bandwidth)
    return flops / rate


def roofline_seconds__right_tenth_multiplied_crosswise(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Decides by multiplying crosswise which resource limits, and divides only once."""
    compute_bound = flops * peak_bandwidth > bytes_moved * peak_flops
    work, rate = (flops, peak_flops) if compute_bound else (bytes_moved, peak_bandwidth)
    return float(work / rate)


# ------- 9.7 median_time
def median_time__wrong_tenth_slow_runs_thrown_away(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Throws away runs that took over ten times as long as the fastest before it takes the median."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        begin = clock()
        run()
        synchronize()
        times.append(clock() - begin)
    fastest = min(times)
    undisturbed = [t for t in times if t <= 10 * fastest]
    return float(statistics.median(undisturbed))


def median_time__wrong_tenth_last_warm_up_counts(run, synchronize, clock, warmup, repeats):
    """Times all runs and cuts the warm-up off one too early, so that its last run counts."""
    marks = []
    for _ in range(warmup + repeats):
        synchronize()
        marks.append(clock())
        run()
    synchronize()
    marks.append(clock())
    lengths = [after - before for before, after in zip(marks, marks[1:])]
    first = warmup - 1 if warmup > 0 else 0
    return float(np.median(lengths[first:]))


def median_time__wrong_tenth_zero_lengths_left_out(run, synchronize, clock, warmup, repeats):
    """Leaves out runs for which the clock shows no difference, although 0 is a time like any other."""

    def once():
        synchronize()
        start = clock()
        run()
        synchronize()
        return clock() - start

    for _ in range(warmup):
        once()
    times = []
    for _ in range(repeats):
        t = once()
        if t > 0:
            bisect.insort(times, t)
    if not times:
        return 0.0
    k = len(times) // 2
    return float(times[k]) if len(times) % 2 else (times[k - 1] + times[k]) / 2


def median_time__wrong_tenth_warm_up_cut_short(run, synchronize, clock, warmup, repeats):
    """Ends the warm-up as soon as two runs take about the same, so `run` is called less often than asked."""

    def measure():
        synchronize()
        start = clock()
        run()
        synchronize()
        stop = clock()
        return stop - start

    previous = None
    for _ in range(warmup):
        now = measure()
        if previous is not None and abs(now - previous) <= 0.05 * previous:
            break
        previous = now
    return float(statistics.median(measure() for _ in range(repeats)))


def median_time__right_tenth_two_heaps(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Keeps the lower and the upper half of the times in two heaps, whose tops give the median at any moment."""
    lower, upper = [], []  # the lower half with turned signs
    for number in range(warmup + repeats):
        if number < warmup:
            run()
            continue
        synchronize()
        start = clock()
        run()
        synchronize()
        time_taken = clock() - start
        heapq.heappush(upper, -heapq.heappushpop(lower, -time_taken))
        if len(upper) > len(lower):
            heapq.heappush(lower, -heapq.heappop(upper))
    if len(lower) > len(upper):
        return float(-lower[0])
    return float((upper[0] - lower[0]) / 2)


# ------- 9.8 tiled_causal_attention
def tiled_causal_attention__wrong_tenth_tiles_weighed_by_pairs(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Takes a softmax in each tile and averages the tiles by how many keys a query sees there, not by their sums."""
    n, d = Q.shape[-2:]
    place = torch.arange(n, device=Q.device)
    finished = []
    for q, i in zip(Q.split(block_size, -2), place.split(block_size)):
        mix, seen = torch.zeros_like(q), 0
        for k, v, j in zip(K.split(block_size, -2), V.split(block_size, -2), place.split(block_size)):
            if j[0] > i[-1]:
                break
            allowed = j <= i[:, None]
            s = (q @ k.mT / math.sqrt(d)).masked_fill(~allowed, -math.inf)
            count = allowed.sum(dim=1, keepdim=True)
            mix = mix + count * (torch.softmax(s, dim=-1) @ v)
            seen = seen + count
        finished.append(mix / seen)
    return torch.cat(finished, dim=-2)


def tiled_causal_attention__wrong_tenth_diagonal_turned_round(Q, K, V, block_size):
    """The offset of the triangle in a tile has the wrong sign, so the tiles left of the diagonal are all hidden."""
    n, d = Q.size(2), Q.size(3)
    out = torch.empty_like(Q)
    for a in range(0, n, block_size):
        q = Q[:, :, a : a + block_size] / d**0.5
        m = q.new_full((*q.shape[:-1], 1), -math.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for b in range(a, -1, -block_size):
            k, v = K[:, :, b : b + block_size], V[:, :, b : b + block_size]
            s = q @ k.mT
            see = torch.ones(s.shape[-2:], dtype=torch.bool, device=Q.device).tril(diagonal=b - a)
            s = s.masked_fill(~see, -math.inf)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            p, f = torch.exp(s - new), torch.exp(m - new)
            l, o, m = f * l + p.sum(-1, keepdim=True), f * o + p @ v, new
        out[:, :, a : a + block_size] = o / l
    return out


def tiled_causal_attention__wrong_tenth_maximum_from_block_before(Q, K, V, block_size):
    """Begins each block of queries with the maxima of the block before, so far smaller scores end as 0 / 0 = NaN."""
    B, h, n, d = Q.shape
    m = Q.new_full((B, h, min(block_size, n), 1), -math.inf)
    blocks = []
    for qs in range(0, n, block_size):
        q = Q[:, :, qs : qs + block_size]
        rows = q.shape[2]
        m = m[:, :, :rows]
        l = Q.new_zeros(B, h, rows, 1)
        o = Q.new_zeros(B, h, rows, d)
        for ks in range(0, qs + rows, block_size):
            k, v = K[:, :, ks : ks + block_size], V[:, :, ks : ks + block_size]
            s = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d)
            if ks == qs:
                s = s.masked_fill(torch.ones(rows, rows, device=Q.device).triu(1).bool(), float("-inf"))
            m_new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
            c = torch.exp(m - m_new)
            p = torch.exp(s - m_new)
            l = l * c + p.sum(dim=-1, keepdim=True)
            o = o * c + torch.matmul(p, v)
            m = m_new
        blocks.append(o / l)
    return torch.cat(blocks, dim=2)


def tiled_causal_attention__wrong_tenth_state_of_default_dtype(Q, K, V, block_size):
    """Makes m and the sums in PyTorch's default dtype, so inputs of 16 bits give a result in float32."""
    B, h, n, d = Q.shape
    results = []
    for start in range(0, n, block_size):
        stop = min(start + block_size, n)
        size = stop - start
        m = torch.full((B, h, size, 1), -math.inf, device=Q.device)
        total = torch.zeros((B, h, size, 1), device=Q.device)
        mix = torch.zeros((B, h, size, d), device=Q.device)
        for left in range(0, stop, block_size):
            right = min(left + block_size, n)
            s = torch.einsum("bhqd,bhkd->bhqk", Q[:, :, start:stop], K[:, :, left:right]) / d**0.5
            if right > start:
                i = torch.arange(start, stop, device=Q.device)[:, None]
                j = torch.arange(left, right, device=Q.device)[None, :]
                s = torch.where(j > i, -math.inf, s)
            new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
            factor = torch.exp(m - new)
            terms = torch.exp(s - new)
            total = total * factor + terms.sum(dim=-1, keepdim=True)
            mix = mix * factor + torch.einsum("bhqk,bhkd->bhqd", terms, V[:, :, left:right].to(terms.dtype))
            m = new
        results.append(mix / total)
    return torch.cat(results, dim=2)


def tiled_causal_attention__right_tenth_keys_outside(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Walks over the blocks of keys outside and those of queries inside, with the state of every block in a list."""
    wide = torch.promote_types(Q.dtype, torch.float32)
    queries = (Q.to(wide) / math.sqrt(Q.shape[-1])).split(block_size, dim=2)
    state = [None] * len(queries)
    pairs = zip(K.to(wide).split(block_size, dim=2), V.to(wide).split(block_size, dim=2), strict=True)
    for column, (k, v) in enumerate(pairs):
        for row in range(column, len(queries)):
            s = queries[row] @ k.mT
            if row == column:
                size = s.shape[-1]
                later = torch.ones(size, size, dtype=torch.bool, device=s.device).triu(diagonal=1)
                s = s.masked_fill(later, -math.inf)
            top = s.amax(dim=-1, keepdim=True)
            if state[row] is not None:
                top = torch.maximum(top, state[row][0])
            p = torch.exp(s - top)
            total, mix = p.sum(dim=-1, keepdim=True), p @ v
            if state[row] is not None:
                old_top, old_total, old_mix = state[row]
                shrink = torch.exp(old_top - top)
                total, mix = total + shrink * old_total, mix + shrink * old_mix
            state[row] = top, total, mix
    return torch.cat([mix / total for _, total, mix in state], dim=2).to(Q.dtype)


# ------- 9.9 flash_bytes
def flash_bytes__wrong_tenth_keys_for_each_query(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """With the mask counts for each query of a block the keys that it sees, and not those that any of them sees."""
    rows = 0
    for first in range(0, n, block_q):
        queries = range(first, min(first + block_q, n))
        rows += 2 * len(queries)
        if causal:
            rows += sum(2 * (i + 1) for i in queries)
        else:
            rows += 2 * n
    return rows * d * bytes_per_value


def flash_bytes__wrong_tenth_always_one_more_block(n, d, block_q, bytes_per_value=2, causal=False):
    """Takes n // block_q + 1 as the number of blocks, one too many where block_q divides n."""
    blocks = n // block_q + 1
    moved = 2 * n
    for number in range(1, blocks + 1):
        keys = min(number * block_q, n) if causal else n
        moved += 2 * keys
    return moved * d * bytes_per_value


def flash_bytes__wrong_tenth_lone_key_not_read(n, d, block_q, bytes_per_value=2, causal=False):
    """Does not read the key of a block that sees one key alone, as its weight is 1 anyway; only its value is read."""

    def keys_and_values(seen):
        return 1 if seen == 1 else 2 * seen  # one key: its weight is known

    ends = [*range(block_q, n, block_q), n]
    rows = 2 * n + sum(keys_and_values(end if causal else n) for end in ends)
    return rows * (d * bytes_per_value)


def flash_bytes__wrong_tenth_output_in_four_bytes(n, d, block_q, bytes_per_value=2, causal=False):
    """Assumes that the output is written in float32, whatever bytes_per_value says."""
    read = written = 0
    start = 0
    while start < n:
        end = min(start + block_q, n)
        visible = end if causal else n
        read += (end - start) * d + 2 * visible * d
        written += (end - start) * d
        start = end
    return read * bytes_per_value + written * 4


def flash_bytes__right_tenth_how_often_keys_are_spared(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Reads all keys for each block and takes away how often the mask spares each: as often as blocks came before."""
    blocks = -(-n // block_q)
    spared = 0
    if causal:
        last = n - (blocks - 1) * block_q
        spared = block_q * math.comb(blocks - 1, 2) + (blocks - 1) * last if blocks else 0
    return 2 * (n + blocks * n - spared) * d * bytes_per_value


# ------- 9.10 flash_backward
def flash_backward__wrong_tenth_row_sum_of_the_block(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Subtracts in the softmax's backward step the weighted sum over the block's keys, not over all keys of the row."""
    root = math.sqrt(Q.shape[-1])
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for start in range(0, K.shape[2], block_size):
        part = (slice(None), slice(None), slice(start, start + block_size))
        weights = torch.exp(Q @ K[part].mT / root - logsumexp[..., None])
        d_weights = d_out @ V[part].mT
        d_scores = weights * (d_weights - (weights * d_weights).sum(dim=-1, keepdim=True))
        dQ += d_scores @ K[part] / root
        dK[part] = d_scores.mT @ Q / root
        dV[part] = weights.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_tenth_keys_scaled_twice(Q, K, V, out, logsumexp, d_out, block_size):
    """Uses queries that are divided already and divides again for dK, so dK is too small by the root of d."""
    scale = Q.shape[-1] ** -0.5
    q = Q * scale
    delta = torch.einsum("bhnd,bhnd->bhn", out, d_out)
    dQ, dKs, dVs = torch.zeros_like(Q), [], []
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2)):
        P = torch.exp(torch.einsum("bhid,bhjd->bhij", q, k) - logsumexp.unsqueeze(-1))
        dP = torch.einsum("bhid,bhjd->bhij", d_out, v)
        dS = P * (dP - delta.unsqueeze(-1)) * scale
        dQ = dQ + torch.einsum("bhij,bhjd->bhid", dS, k)
        dKs.append(torch.einsum("bhij,bhid->bhjd", dS, q))
        dVs.append(torch.einsum("bhij,bhid->bhjd", P, d_out))
    return dQ, torch.cat(dKs, 2), torch.cat(dVs, 2)


def flash_backward__wrong_tenth_one_shift_for_a_head(Q, K, V, out, logsumexp, d_out, block_size):
    """Shifts all rows of a head by its largest logsumexp before exp, so rows far below that end as 0 / 0 = NaN."""
    n, d = Q.shape[-2:]
    L = logsumexp.unsqueeze(-1)
    shift = L.amax(dim=-2, keepdim=True)
    norm = torch.exp(L - shift)
    row = (out * d_out).sum(-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for a in range(0, n, block_size):
        b = min(a + block_size, n)
        k, v = K[..., a:b, :], V[..., a:b, :]
        p = torch.exp(Q @ k.mT / d**0.5 - shift) / norm
        dV[..., a:b, :] = p.mT @ d_out
        ds = p * (d_out @ v.mT - row) / d**0.5
        dK[..., a:b, :] = ds.mT @ Q
        dQ += ds @ k
    return dQ, dK, dV


def flash_backward__wrong_tenth_sums_stay_in_float32(Q, K, V, out, logsumexp, d_out, block_size):
    """Adds up 16-bit inputs in float32 and returns the sums so, not in the dtype of the inputs."""
    dtype = torch.float64 if Q.dtype == torch.float64 else torch.float32
    q, o, g = Q.to(dtype), out.to(dtype), d_out.to(dtype)
    L = logsumexp.to(dtype)[..., None]
    root = Q.size(-1) ** 0.5
    grads = [torch.zeros(Q.shape, dtype=dtype, device=Q.device) for _ in range(3)]
    D = (o * g).sum(dim=3, keepdim=True)
    for j in range(0, Q.size(2), block_size):
        here = slice(j, j + block_size)
        k, v = K[:, :, here].to(dtype), V[:, :, here].to(dtype)
        A = (torch.matmul(q, k.transpose(2, 3)) / root - L).exp()
        T = A * (torch.matmul(g, v.transpose(2, 3)) - D)
        grads[0] += torch.matmul(T, k) / root
        grads[1][:, :, here] += torch.matmul(T.transpose(2, 3), q) / root
        grads[2][:, :, here] += torch.matmul(A.transpose(2, 3), g)
    return tuple(grads)


def flash_backward__right_tenth_ones_beside_the_values(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sets each row's constant beside d_out and a column of ones beside V, so one product gives the difference."""
    kind = torch.promote_types(Q.dtype, torch.float32)
    q, k_all, v_all, o, g = (x.to(kind).flatten(0, 1) for x in (Q, K, V, out, d_out))
    level = logsumexp.to(kind).flatten(0, 1).unsqueeze(2)
    scale = 1 / math.sqrt(Q.shape[-1])
    extended = torch.cat((g, -(o * g).sum(dim=2, keepdim=True)), dim=2)
    for_queries, for_keys, for_values = torch.zeros_like(q), [], []
    for k, v in zip(k_all.split(block_size, dim=1), v_all.split(block_size, dim=1), strict=True):
        weights = (scale * torch.bmm(q, k.mT) - level).exp()
        for_values.append(torch.bmm(weights.mT, g))
        moved = weights * torch.bmm(extended, torch.cat((v, torch.ones_like(v[..., :1])), dim=2).mT)
        for_keys.append(scale * torch.bmm(moved.mT, q))
        for_queries = torch.baddbmm(for_queries, moved, k, alpha=scale)
    grads = for_queries, torch.cat(for_keys, dim=1), torch.cat(for_values, dim=1)
    return tuple(x.reshape(Q.shape).to(Q.dtype) for x in grads)
