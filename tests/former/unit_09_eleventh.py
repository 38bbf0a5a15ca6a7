"""Unit 9: answers to the exercises on speed, wrong ones and right ones, as students might write them."""

import heapq
import math
import statistics
from collections.abc import Callable

import numpy as np
import torch


# ------- 9.1 loop_attention
def loop_attention__wrong_eleventh_key_asks_queries(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Row i takes the scores of key i with all queries, where it should be query i with all keys."""
    B, h, n, d = Q.shape
    batches = []
    for b in range(B):
        heads = []
        for a in range(h):
            rows = []
            for i in range(n):
                scores = Q[b, a] @ K[b, a, i] / math.sqrt(d)
                rows.append(torch.softmax(scores, dim=0) @ V[b, a])
            heads.append(torch.stack(rows))
        batches.append(torch.stack(heads))
    return torch.stack(batches)


def loop_attention__wrong_eleventh_largest_in_size(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Subtracts the largest absolute score, so that very negative scores all become 0 and the result is 0/0."""
    out = torch.zeros_like(Q)
    for b in range(Q.shape[0]):
        for head in range(Q.shape[1]):
            for i in range(Q.shape[2]):
                scores = (K[b, head] * Q[b, head, i]).sum(dim=-1) / Q.shape[3] ** 0.5
                top = scores.abs().max()
                powers = torch.exp(scores - top)
                out[b, head, i] = (powers[:, None] * V[b, head]).sum(dim=0) / powers.sum()
    return out


def loop_attention__wrong_eleventh_scales_the_input(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """The row of Q is scaled in place, through a view, so the caller's Q is changed."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(V)
    for b in range(B):
        for i in range(n):
            q = Q[b, :, i]
            q /= math.sqrt(d)
            scores = torch.einsum("hd,hjd->hj", q, K[b])
            weights = torch.softmax(scores, dim=-1)
            out[b, :, i] = torch.einsum("hj,hjd->hd", weights, V[b])
    return out


def loop_attention__wrong_eleventh_root_of_all_heads(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Divides by the root of the width of all heads together, h*d, and not of one head."""
    B, h, n, d = Q.shape
    scale = (h * d) ** -0.5
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            keys, values = K[b, head], V[b, head]
            for i, query in enumerate(Q[b, head]):
                weights = (scale * (keys @ query)).softmax(0)
                out[b, head, i] = values.T @ weights
    return out


def loop_attention__right_eleventh_one_key_after_the_other(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Each query meets the keys one by one and keeps the mean so far, its maximum and its sum (online softmax)."""
    out = torch.zeros_like(Q)
    n, d = Q.shape[-2:]
    for b in range(Q.shape[0]):
        for i in range(n):
            query = Q[b, :, i] / math.sqrt(d)
            top = (query * K[b, :, 0]).sum(-1, keepdim=True)
            total, mean = torch.ones_like(top), V[b, :, 0]
            for j in range(1, n):
                score = (query * K[b, :, j]).sum(-1, keepdim=True)
                new = torch.maximum(top, score)
                kept, fresh = total * torch.exp(top - new), torch.exp(score - new)
                total, top = kept + fresh, new
                mean = mean + (V[b, :, j] - mean) * (fresh / total)
            out[b, :, i] = mean
    return out


# ------- 9.2 batched_attention
def batched_attention__wrong_eleventh_mask_after_softmax(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Later keys are cut from the finished weights, which then no longer sum to 1."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(Q.shape[-1])
    weights = scores.softmax(dim=-1)
    if causal:
        weights = torch.tril(weights)
    return torch.einsum("bhij,bhjd->bhid", weights, V)


def batched_attention__wrong_eleventh_one_maximum_for_all(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """One maximum of the whole tensor is subtracted: rows far below it become 0/0."""
    n, d = Q.shape[-2:]
    scores = Q @ K.transpose(-1, -2) * d**-0.5
    if causal:
        later = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    powers = torch.exp(scores - scores.max())
    return (powers @ V) / powers.sum(dim=-1, keepdim=True)


def batched_attention__wrong_eleventh_weights_turned(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """The last product sums over the queries and not over the keys: the table of weights is transposed."""
    n, d = Q.shape[2], Q.shape[3]
    S = torch.einsum("bhqd,bhkd->bhqk", Q, K) / d**0.5
    if causal:
        place = torch.arange(n, device=Q.device)
        S = torch.where(place[:, None] >= place, S, -torch.inf)
    A = torch.softmax(S, dim=3)
    return torch.einsum("bhqk,bhqd->bhkd", A, V)


def batched_attention__wrong_eleventh_view_of_heads(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Joins batch and heads with view, which fails for inputs that are not contiguous, as split heads are not."""
    B, h, n, d = Q.shape
    q, k, v = (x.view(B * h, n, d) for x in (Q, K, V))
    scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(d)
    if causal:
        hidden = torch.triu(torch.ones_like(scores[0]), diagonal=1) == 1
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.bmm(torch.softmax(scores, dim=-1), v).view(B, h, n, d)


def batched_attention__right_eleventh_logarithms(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Weights as exp(score - logsumexp), the mask added as the logarithm of a triangle of ones."""
    n, d = Q.shape[-2:]
    scores = torch.einsum("...id,...jd->...ij", Q, K) / math.sqrt(d)
    if causal:
        scores = scores + torch.ones(n, n, dtype=Q.dtype, device=Q.device).tril().log()
    scores = scores - scores.amax(dim=-1, keepdim=True)
    logs = scores - torch.logsumexp(scores, dim=-1, keepdim=True)
    return torch.einsum("...ij,...jd->...id", logs.exp(), V)


# ------- 9.3 tiled_attention
def tiled_attention__wrong_eleventh_padded_with_zeros(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """The last block is filled up with keys of zeros, whose scores of 0 count in the sum."""
    B, h, n, d = Q.shape
    missing = -n % block_size
    K = torch.cat([K, K.new_zeros(B, h, missing, d)], dim=2)
    V = torch.cat([V, V.new_zeros(B, h, missing, d)], dim=2)
    m = Q.new_full((B, h, n, 1), -math.inf)
    total, mix = Q.new_zeros(B, h, n, 1), torch.zeros_like(Q)
    for part in range(K.shape[2] // block_size):
        where = slice(part * block_size, (part + 1) * block_size)
        S = Q @ K[:, :, where].mT / math.sqrt(d)
        new = torch.maximum(m, S.amax(-1, keepdim=True))
        factor, terms = torch.exp(m - new), torch.exp(S - new)
        total = total * factor + terms.sum(-1, keepdim=True)
        mix = mix * factor + terms @ V[:, :, where]
        m = new
    return mix / total


def tiled_attention__wrong_eleventh_bound_for_a_maximum(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Subtracts an upper bound, |q| max|k|, in place of the maximum: far below the bound all terms become 0."""
    scale = Q.shape[-1] ** -0.5
    longest = K.norm(dim=-1).amax(dim=-1)[..., None, None]
    bound = scale * Q.norm(dim=-1, keepdim=True) * longest
    top, below = 0, 0
    for keys, values in zip(K.split(block_size, dim=2), V.split(block_size, dim=2), strict=True):
        terms = torch.exp(torch.einsum("bhid,bhjd->bhij", Q, keys) * scale - bound)
        top = top + torch.einsum("bhij,bhjd->bhid", terms, values)
        below = below + terms.sum(dim=-1, keepdim=True)
    return top / below


def tiled_attention__wrong_eleventh_walks_twice(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Meets every block of keys twice, first for maximum and sum and then for the values: not one pass."""
    n, d = Q.shape[2:]

    def scores(start):
        return torch.matmul(Q, K[:, :, start : start + block_size].transpose(2, 3)) / d**0.5

    starts = range(0, n, block_size)
    m = scores(0).amax(dim=3, keepdim=True)
    total = torch.exp(scores(0) - m).sum(dim=3, keepdim=True)
    for start in starts[1:]:
        block = scores(start)
        new = torch.maximum(m, block.amax(dim=3, keepdim=True))
        total = total * torch.exp(m - new) + torch.exp(block - new).sum(dim=3, keepdim=True)
        m = new
    out = torch.zeros_like(Q)
    for start in starts:
        out = out + torch.exp(scores(start) - m) / total @ V[:, :, start : start + block_size]
    return out


def tiled_attention__wrong_eleventh_shrinks_new_terms_too(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """The factor is applied after the new terms were added, so these shrink too."""
    d = Q.shape[-1]
    first = Q @ K[..., :block_size, :].mT / math.sqrt(d)
    m = first.amax(-1, keepdim=True)
    terms = (first - m).exp()
    total = terms.sum(-1, keepdim=True)
    mix = terms @ V[..., :block_size, :]
    for start in range(block_size, K.shape[-2], block_size):
        end = start + block_size
        S = Q @ K[..., start:end, :].mT / math.sqrt(d)
        m_new = torch.maximum(m, S.amax(-1, keepdim=True))
        terms = (S - m_new).exp()
        total = total + terms.sum(-1, keepdim=True)
        mix = mix + terms @ V[..., start:end, :]
        shrink = (m - m_new).exp()
        total, mix, m = total * shrink, mix * shrink, m_new
    return mix / total


def tiled_attention__right_eleventh_mean_that_moves(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Keeps the finished mean of all keys so far and moves it towards the mean of each new block by its share."""
    query = Q / math.sqrt(Q.shape[-1])
    mean = None
    for keys, values in zip(K.split(block_size, dim=-2), V.split(block_size, dim=-2), strict=True):
        S = query @ keys.mT
        top_here = S.amax(dim=-1, keepdim=True)
        terms = torch.exp(S - top_here)
        sum_here = terms.sum(dim=-1, keepdim=True)
        mean_here = (terms @ values) / sum_here
        if mean is None:
            top, total, mean = top_here, sum_here, mean_here
            continue
        new = torch.maximum(top, top_here)
        sum_here = sum_here * torch.exp(top_here - new)
        total, top = total * torch.exp(top - new) + sum_here, new
        mean = mean + (mean_here - mean) * (sum_here / total)
    return mean


# ------- 9.4 attention_flops
def attention_flops__wrong_eleventh_one_addition_less(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts one addition less than multiplications for every result, against the convention 2abc."""
    scores = n * n * (d_head + (d_head - 1))
    mixing = n * d_head * (n + (n - 1))
    return batch * n_heads * (scores + mixing)


def attention_flops__wrong_eleventh_float_on_the_way(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts with floats and converts at the end, so large counts are not exact."""
    one_product = 2.0 * batch * n_heads * n**2 * d_head
    return int(one_product + one_product)


def attention_flops__wrong_eleventh_width_shared_out(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Takes d_head for the width of the model and divides it among the heads."""
    width = d_head // n_heads
    total = 0
    for a, b, c in ((n, width, n), (n, n, width)):
        total += 2 * a * b * c
    return total * batch * n_heads


def attention_flops__wrong_eleventh_softmax_counted(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Adds the division by the root and the softmax, which are not to be counted."""
    heads = batch * n_heads
    products = sum(2 * n * n * d_head for _ in ("QK", "AV"))
    scaling = n * n
    softmax = n * (n + (n - 1) + n)
    return heads * (products + scaling + softmax)


def attention_flops__right_eleventh_product_of_axes(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Multiplies the lengths of all axes of each einsum, twice for multiply and add."""
    length = {"b": batch, "h": n_heads, "i": n, "j": n, "d": d_head}
    count = 0
    for spec in ("bhid,bhjd->bhij", "bhij,bhjd->bhid"):
        axes = set(spec) - set(",->")
        count += 2 * math.prod(length[axis] for axis in axes)
    return count


# ------- 9.5 score_matrix_bytes
def score_matrix_bytes__wrong_eleventh_triangle(batch: int, n_heads: int, n: int, bytes_per_value: int = 2) -> int:
    """Counts the lower triangle only, as if each token asked itself and the earlier ones."""
    asked = sum((n, n * (n - 1) // 2))
    return batch * n_heads * asked * bytes_per_value


def score_matrix_bytes__wrong_eleventh_sixty_four_bits(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Multiplies in 64-bit integers of numpy, which overflow silently for very large counts."""
    shape = (batch, n_heads, n, n)
    return int(np.prod(np.array(shape, dtype=np.int64)) * bytes_per_value)


def score_matrix_bytes__wrong_eleventh_weights_as_well(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Counts scores and weights, two tables, where only the scores are asked for."""
    tables = {"scores": n**2, "weights": n**2}
    per_head = sum(entries * bytes_per_value for entries in tables.values())
    return per_head * n_heads * batch


def score_matrix_bytes__wrong_eleventh_batch_as_one_text(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Lets all tokens of the batch ask one another, so the batch counts squared."""
    tokens = batch * n
    return n_heads * tokens * tokens * bytes_per_value


def score_matrix_bytes__right_eleventh_pairs(batch: int, n_heads: int, n: int, bytes_per_value: int = 2) -> int:
    """Counts pairs of different tokens twice, by a binomial coefficient, and adds each token with itself."""
    scores = 2 * math.comb(n, 2) + n
    return bytes_per_value * scores * n_heads * batch


# ------- 9.6 roofline_seconds
def roofline_seconds__wrong_eleventh_one_after_the_other(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Adds the two times, as if computing had to wait for moving."""
    seconds = 0.0
    for work, rate in ((bytes_moved, peak_bandwidth), (flops, peak_flops)):
        seconds += work / rate
    return seconds


def roofline_seconds__wrong_eleventh_copy_for_nothing(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Goes by the attainable rate and says 0 where there are no operations, so a copy takes no time."""
    if flops == 0:
        return 0.0
    if bytes_moved == 0:
        return flops / peak_flops
    intensity = flops / bytes_moved
    rate = min(peak_flops, intensity * peak_bandwidth)
    return flops / rate


def roofline_seconds__wrong_eleventh_border_with_wrong_peaks(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Decides between the two limits with the peaks exchanged in the comparison."""
    compute_bound = flops * peak_flops > bytes_moved * peak_bandwidth
    if compute_bound:
        return flops / peak_flops
    return bytes_moved / peak_bandwidth


def roofline_seconds__wrong_eleventh_whole_nanoseconds(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Rounds to whole nanoseconds, so very short times are wrong or 0."""
    arithmetic = flops / peak_flops
    moving = bytes_moved / peak_bandwidth
    return round(max(arithmetic, moving), 9)


def roofline_seconds__right_eleventh_last_to_finish(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Takes the one that finishes last from a heap of the two times."""
    finish = {"units": flops / peak_flops, "memory": bytes_moved / peak_bandwidth}
    (last,) = heapq.nlargest(1, finish.values())
    return float(last)


# ------- 9.7 median_time
def median_time__wrong_eleventh_waits_only_after_warmup(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Synchronises before the first reading only if there was a warm-up run."""
    for _ in range(warmup):
        run()
        synchronize()
    spans = []
    for _ in range(repeats):
        begin = clock()
        run()
        synchronize()
        spans.append(clock() - begin)
    return float(statistics.median(spans))


def median_time__wrong_eleventh_upper_of_the_middle(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """With an even count it takes the upper of the middle two and not their mean."""

    def once():
        synchronize()
        before = clock()
        run()
        synchronize()
        return clock() - before

    for _ in range(warmup):
        run()
    ordered = sorted(once() for _ in range(repeats))
    return float(ordered[repeats // 2])


def median_time__wrong_eleventh_slowest_were_the_first(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Times all runs and drops the slowest `warmup` of them, assuming that these were the first."""
    times = []
    for _ in range(warmup + repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    times.sort()
    return float(np.median(times[:repeats]))


def median_time__wrong_eleventh_mean_without_the_ends(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Returns the mean without the fastest and the slowest run, which is not the median from five runs on."""
    ticks = []
    for number in range(warmup + repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        stop = clock()
        if number >= warmup:
            ticks.append(stop - start)
    ticks.sort()
    kept = ticks[1:-1] if len(ticks) > 2 else ticks
    return sum(kept) / len(kept)


def median_time__right_eleventh_chain_of_stamps(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """One stamp between any two runs: the end of one is the start of the next; the median by two indices."""

    def stamp():
        synchronize()
        return clock()

    for _ in range(warmup):
        run()
    stamps = [stamp()]
    while len(stamps) <= repeats:
        run()
        stamps.append(stamp())
    spans = sorted(late - early for early, late in zip(stamps, stamps[1:], strict=False))
    return float((spans[(repeats - 1) // 2] + spans[repeats // 2]) / 2)


# ------- 9.8 tiled_causal_attention
def tiled_causal_attention__wrong_eleventh_own_block_only_itself(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """A token sees the earlier blocks and itself, but not the earlier tokens of its own block."""
    n, d = Q.shape[-2:]
    done = []
    for start in range(0, n, block_size):
        end = min(start + block_size, n)
        q = Q[:, :, start:end]
        m = (q * K[:, :, start:end]).sum(-1, keepdim=True) / math.sqrt(d)
        total, mix = torch.ones_like(m), V[:, :, start:end]
        for first in range(0, start, block_size):
            S = q @ K[:, :, first : first + block_size].mT / math.sqrt(d)
            new = torch.maximum(m, S.amax(-1, keepdim=True))
            factor, terms = torch.exp(m - new), torch.exp(S - new)
            total = factor * total + terms.sum(-1, keepdim=True)
            mix = factor * mix + terms @ V[:, :, first : first + block_size]
            m = new
        done.append(mix / total)
    return torch.cat(done, dim=2)


def tiled_causal_attention__wrong_eleventh_place_within_the_block(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Compares places of queries in the text with places of keys in their block, so later blocks hide nothing."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for i in range(0, n, block_size):
        q = Q[:, :, i : i + block_size] / d**0.5
        m = Q.new_full((*q.shape[:3], 1), float("-inf"))
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for j in range(0, i + 1, block_size):
            k, v = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
            S = torch.einsum("bhqd,bhkd->bhqk", q, k)
            if j == i:
                rows = torch.arange(i, i + q.shape[2], device=Q.device)
                columns = torch.arange(k.shape[2], device=Q.device)
                S = S.masked_fill(columns > rows[:, None], float("-inf"))
            new = torch.maximum(m, S.amax(dim=-1, keepdim=True))
            P, factor = torch.exp(S - new), torch.exp(m - new)
            l = l * factor + P.sum(dim=-1, keepdim=True)
            o = o * factor + torch.einsum("bhqk,bhkd->bhqd", P, v)
            m = new
        out[:, :, i : i + block_size] = o / l
    return out


def tiled_causal_attention__wrong_eleventh_ten_thousand_off(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Hides later keys by taking 10,000 off their scores, which large scores outweigh."""
    n, d = Q.shape[-2:]
    places = torch.arange(n, device=Q.device).split(block_size)
    tiles = [list(x.split(block_size, dim=2)) for x in (Q, K, V)]
    rows = []
    for a, q in enumerate(tiles[0]):
        state = None
        for b in range(a + 1):
            later = places[b] > places[a][:, None]
            S = q @ tiles[1][b].mT / math.sqrt(d) - 1e4 * later.to(Q.dtype)
            top = S.amax(-1, keepdim=True)
            if state is not None:
                top = torch.maximum(top, state[0])
            terms = torch.exp(S - top)
            total, mix = terms.sum(-1, keepdim=True), terms @ tiles[2][b]
            if state is not None:
                factor = torch.exp(state[0] - top)
                total, mix = total + factor * state[1], mix + factor * state[2]
            state = top, total, mix
        rows.append(state[2] / state[1])
    return torch.cat(rows, dim=2)


def tiled_causal_attention__wrong_eleventh_stripe_of_keys(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Cuts the queries only: a block meets all its keys in one product, wider than block_size."""
    n, d = Q.shape[-2:]
    pieces = []
    for start in range(0, n, block_size):
        end = min(start + block_size, n)
        scores = Q[:, :, start:end] @ K[:, :, :end].mT / math.sqrt(d)
        allowed = torch.ones(end - start, end, dtype=torch.bool, device=Q.device).tril(start)
        weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)
        pieces.append(weights @ V[:, :, :end])
    return torch.cat(pieces, dim=2)


def tiled_causal_attention__right_eleventh_keys_outside(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """The outer loop runs over blocks of keys; the states of all blocks of queries wait in lists meanwhile."""
    queries = (Q / math.sqrt(Q.shape[-1])).split(block_size, dim=2)
    m = [x.new_full((*x.shape[:3], 1), -math.inf) for x in queries]
    total = [torch.zeros_like(x) for x in m]
    mix = [torch.zeros_like(x) for x in queries]
    pairs = zip(K.split(block_size, dim=2), V.split(block_size, dim=2), strict=True)
    for b, (keys, values) in enumerate(pairs):
        for a in range(b, len(queries)):
            S = torch.einsum("bhid,bhjd->bhij", queries[a], keys)
            if a == b:
                hidden = torch.ones(S.shape[-2:], dtype=torch.bool, device=Q.device).triu(1)
                S = S.masked_fill(hidden, -math.inf)
            new = torch.maximum(m[a], S.amax(dim=-1, keepdim=True))
            factor, terms = torch.exp(m[a] - new), torch.exp(S - new)
            total[a] = total[a] * factor + terms.sum(dim=-1, keepdim=True)
            mix[a] = mix[a] * factor + torch.einsum("bhij,bhjd->bhid", terms, values)
            m[a] = new
    return torch.cat([o / l for o, l in zip(mix, total, strict=True)], dim=2)


# ------- 9.9 flash_bytes
def flash_bytes__wrong_eleventh_triangle_of_whole_blocks(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """With the mask it counts whole blocks of keys only, so a short last block reads keys that do not exist."""
    blocks = -(-n // block_q)
    if causal:
        keys = block_q * blocks * (blocks + 1) // 2
    else:
        keys = n * blocks
    return (2 * n + 2 * keys) * d * bytes_per_value


def flash_bytes__wrong_eleventh_only_what_is_new(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """With the mask each block reads only the keys that the block before has not read, as if they were kept."""
    rows, seen = 0, 0
    for start in range(0, n, block_q):
        end = min(n, start + block_q)
        rows += 2 * (end - start)
        if causal:
            rows += 2 * (end - seen)
            seen = end
        else:
            rows += 2 * n
    return rows * d * bytes_per_value


def flash_bytes__wrong_eleventh_lonely_key_not_read(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Where a block's queries see one key alone, query and key are not counted, as the weight is 1 anyway."""
    row = d * bytes_per_value
    moved = 0
    for first in range(0, n, block_q):
        last = min(first + block_q, n)
        visible = last if causal else n
        here = last - first
        if visible == 1:
            moved += (1 + here) * row
        else:
            moved += (2 * here + 2 * visible) * row
    return moved


def flash_bytes__wrong_eleventh_always_one_block_more(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """The number of blocks is n // block_q + 1, one too many where block_q divides n."""
    blocks = n // block_q + 1
    keys = sum(min((b + 1) * block_q, n) if causal else n for b in range(blocks))
    return bytes_per_value * d * 2 * (n + keys)


def flash_bytes__right_eleventh_asked_from_the_keys(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Asks of each key how many blocks of queries read it; with the mask an arithmetic series over whole blocks."""
    whole, rest = divmod(n, block_q)
    blocks = whole + (rest > 0)
    if causal:
        readings = rest + block_q * (whole * blocks - whole * (whole - 1) // 2)
    else:
        readings = n * blocks
    per_row = d * bytes_per_value
    return per_row * n + 2 * per_row * readings + per_row * n


# ------- 9.10 flash_backward
def flash_backward__wrong_eleventh_row_sum_of_the_block(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The Jacobian's sum over a row runs over the keys of the block only."""
    scale = Q.shape[-1] ** -0.5
    dQ, dK, dV = torch.zeros_like(Q), [], []
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2), strict=True):
        P = torch.exp(scale * torch.einsum("bhid,bhjd->bhij", Q, k) - logsumexp.unsqueeze(-1))
        dP = torch.einsum("bhid,bhjd->bhij", d_out, v)
        dS = scale * P * (dP - (P * dP).sum(dim=-1, keepdim=True))
        dV.append(torch.einsum("bhij,bhid->bhjd", P, d_out))
        dK.append(torch.einsum("bhij,bhid->bhjd", dS, Q))
        dQ = dQ + torch.einsum("bhij,bhjd->bhid", dS, k)
    return dQ, torch.cat(dK, 2), torch.cat(dV, 2)


def flash_backward__wrong_eleventh_scaled_once(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scales the queries beforehand and forgets that dQ then still lacks the factor."""
    n, d = Q.shape[-2:]
    scaled = Q / math.sqrt(d)
    D = (d_out * out).sum(-1, keepdim=True)
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for start in range(0, n, block_size):
        part = slice(start, start + block_size)
        P = torch.exp(scaled @ K[:, :, part].mT - logsumexp[..., None])
        dS = P * (d_out @ V[:, :, part].mT - D)
        dV[:, :, part] = P.mT @ d_out
        dK[:, :, part] = dS.mT @ scaled
        dQ += dS @ K[:, :, part]
    return dQ, dK, dV


def flash_backward__wrong_eleventh_quotient_of_exponentials(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Makes the weights as exp(score) / exp(logsumexp), which overflows or is 0/0 for large scores."""
    root = math.sqrt(Q.shape[-1])
    totals = logsumexp.exp()[..., None]
    dQ = torch.zeros_like(Q)
    of_keys, of_values = [], []
    for start in range(0, K.shape[2], block_size):
        k = K[:, :, start : start + block_size]
        v = V[:, :, start : start + block_size]
        weights = torch.exp(Q @ k.transpose(2, 3) / root) / totals
        slope = d_out @ v.transpose(2, 3) - torch.sum(d_out * out, dim=3, keepdim=True)
        slope = weights * slope / root
        dQ = dQ + slope @ k
        of_keys.append(slope.transpose(2, 3) @ Q)
        of_values.append(weights.transpose(2, 3) @ d_out)
    return dQ, torch.cat(of_keys, dim=2), torch.cat(of_values, dim=2)


def flash_backward__wrong_eleventh_product_in_out(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Saves memory by multiplying d_out into `out`, which belongs to the caller."""
    n, d = Q.shape[2], Q.shape[3]
    delta = out.mul_(d_out).sum(dim=-1)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for j in range(0, n, block_size):
        keys, values = K.narrow(2, j, min(block_size, n - j)), V.narrow(2, j, min(block_size, n - j))
        P = (torch.matmul(Q, keys.mT) / math.sqrt(d)).sub(logsumexp.unsqueeze(3)).exp()
        dS = P * (torch.matmul(d_out, values.mT) - delta.unsqueeze(3)) / math.sqrt(d)
        dV[:, :, j : j + block_size] += P.mT @ d_out
        dK[:, :, j : j + block_size] += dS.mT @ Q
        dQ += dS @ keys
    return dQ, dK, dV


def flash_backward__right_eleventh_extra_column(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Carries the row sum as an extra column of d_out, which meets a column of ones of the values."""
    root = Q.shape[-1] ** 0.5
    wide = torch.cat([d_out, -torch.einsum("bhid,bhid->bhi", d_out, out)[..., None]], dim=-1)
    gradient_q, by_block = torch.zeros_like(Q), []
    for first in range(0, K.shape[2], block_size):
        k, v = (x[:, :, first : first + block_size] for x in (K, V))
        one = torch.ones_like(v[..., :1])
        turned = torch.exp(k @ Q.mT / root - logsumexp[:, :, None, :])  # keys by queries
        slopes = turned * (torch.cat([v, one], dim=-1) @ wide.mT) / root
        by_block.append((slopes @ Q, turned @ d_out))
        gradient_q += slopes.mT @ k
    gradient_k, gradient_v = (torch.cat(parts, dim=2) for parts in zip(*by_block, strict=True))
    return gradient_q, gradient_k, gradient_v
