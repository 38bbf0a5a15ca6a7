"""Answers to the exercises of unit 9, wrong and right, as students would write them (TAG eighth)."""

import bisect
import math
import statistics

import torch


# ---------------------------------------------------------------- 9.1 loop_attention


def loop_attention__wrong_eighth_rows_gathered_query_first(Q, K, V):
    """Collects rows in the order batch, query, head and then reshapes to (B, h, n, d), so heads and queries get mixed."""
    B, h, n, d = Q.shape
    rows = []
    for b in range(B):
        for i in range(n):
            for head in range(h):
                s = K[b, head] @ Q[b, head, i] / math.sqrt(d)
                a = torch.softmax(s, dim=0)
                rows.append(a @ V[b, head])
    return torch.stack(rows).reshape(B, h, n, d)


def loop_attention__wrong_eighth_softmax_across_heads(Q, K, V):
    """Serves all heads at once with scores (h, n), but takes softmax(dim=0), over the heads in place of the keys."""
    out = torch.zeros_like(Q)
    batch, _, tokens, width = Q.shape
    for b in range(batch):
        for i in range(tokens):
            scores = torch.einsum("hd,hnd->hn", Q[b, :, i], K[b]) / width**0.5
            weights = scores.softmax(dim=0)
            out[b, :, i] = torch.einsum("hn,hnd->hd", weights, V[b])
    return out


def loop_attention__wrong_eighth_clamps_scores(Q, K, V):
    """Clamps the scores to ±50 so that exp stays finite, in place of subtracting the maximum: large scores become equal."""
    B, h, n, d = Q.shape
    batches = []
    for b in range(B):
        heads = []
        for k in range(h):
            tokens = []
            for q in Q[b, k]:
                e = torch.exp((K[b, k] @ q / d**0.5).clamp(min=-50, max=50))
                tokens.append((e / e.sum()) @ V[b, k])
            heads.append(torch.stack(tokens))
        batches.append(torch.stack(heads))
    return torch.stack(batches)


def loop_attention__wrong_eighth_python_floats(Q, K, V):
    """Works in Python numbers from tolist() and builds a new tensor at the end, so no gradient reaches Q, K or V."""
    root = math.sqrt(Q.shape[-1])

    def one(q, keys, values):
        s = [sum(x * y for x, y in zip(q, key)) / root for key in keys]
        top = max(s)
        e = [math.exp(x - top) for x in s]
        total = sum(e)
        return [
            sum(w * v[c] for w, v in zip(e, values)) / total
            for c in range(len(values[0]))
        ]

    result = [
        [[one(q, keys, values) for q in queries] for queries, keys, values in zip(*abc)]
        for abc in zip(Q.tolist(), K.tolist(), V.tolist())
    ]
    return torch.tensor(result, dtype=Q.dtype, device=Q.device)


def loop_attention__right_eighth_unbind_and_logsumexp(Q, K, V):
    """Flattens batch and head to one axis, unbinds queries, weights as exp(s - logsumexp(s)), stacks and unflattens."""
    B, h, n, d = Q.shape
    done = []
    for queries, keys, values in zip(Q.flatten(0, 1), K.flatten(0, 1), V.flatten(0, 1)):
        for q in queries.unbind(0):
            s = (keys * q).sum(dim=1) / math.sqrt(d)
            s = s - s.amax()
            a = torch.exp(s - torch.logsumexp(s, dim=0))
            done.append((a.unsqueeze(1) * values).sum(dim=0))
    return torch.stack(done).unflatten(0, (B, h, n))


# ---------------------------------------------------------------- 9.2 batched_attention


def batched_attention__wrong_eighth_reshape_for_transpose(Q, K, V, causal=False):
    """Makes K (B, h, d, n) by reshape in place of a transpose, which keeps the numbers in their order and mixes the keys."""
    B, h, n, d = K.shape
    S = torch.matmul(Q, K.reshape(B, h, d, n)) / math.sqrt(d)
    if causal:
        later = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(1)
        S = S.masked_fill(later, float("-inf"))
    return torch.matmul(torch.softmax(S, dim=-1), V)


def batched_attention__wrong_eighth_one_maximum_for_all(Q, K, V, causal=False):
    """Subtracts scores.max() of the whole tensor before exp, not each row's: rows far below it become 0/0."""
    n = Q.size(2)
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) * Q.size(3) ** -0.5
    if causal:
        i = torch.arange(n, device=Q.device)
        scores = scores.masked_fill(i[None, :] > i[:, None], -math.inf)
    e = torch.exp(scores - scores.max())
    return torch.einsum("bhij,bhjd->bhid", e / e.sum(dim=-1, keepdim=True), V)


def batched_attention__wrong_eighth_root_of_model_width(Q, K, V, causal=False):
    """Divides the scores by the square root of h * d, the width of all heads together, in place of d."""
    _, h, n, d = Q.shape
    d_model = h * d
    S = Q @ K.transpose(-2, -1)
    S = S / d_model**0.5
    if causal:
        allowed = torch.tril(torch.ones(n, n, device=Q.device)) == 1
        S = torch.where(allowed, S, torch.full_like(S, -math.inf))
    A = torch.softmax(S, -1)
    return A @ V


def batched_attention__wrong_eighth_masks_after_softmax(Q, K, V, causal=False):
    """Softmax over all keys, then tril() and division by the row's sum: 0/0 where a hidden score dwarfs those allowed."""
    A = torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1)
    if causal:
        A = A.tril()
        A = A / A.sum(dim=-1, keepdim=True)
    return A @ V


def batched_attention__right_eighth_additive_bias_divide_last(Q, K, V, causal=False):
    """Adds a triangle of -inf, subtracts each row's maximum, and divides the mixed values by the row's sum at the end."""
    n, d = Q.shape[-2:]
    S = torch.einsum("...id,...jd->...ij", Q / math.sqrt(d), K)
    if causal:
        S = S + Q.new_full((n, n), -math.inf).triu(1)
    E = torch.exp(S - S.amax(-1, keepdim=True))
    return torch.einsum("...ij,...jd->...id", E, V) / E.sum(-1)[..., None]


# ---------------------------------------------------------------- 9.3 tiled_attention


def tiled_attention__wrong_eighth_last_block_overlaps(Q, K, V, block_size):
    """Moves the start of the short last block back so that it is whole: the keys that it shares with its neighbour count twice."""
    B, h, n, d = Q.shape
    size = min(block_size, n)
    m = Q.new_full((B, h, n, 1), -math.inf)
    total = Q.new_zeros(B, h, n, 1)
    o = torch.zeros_like(Q)
    for start in range(0, n, size):
        start = min(start, n - size)
        S = Q @ K[:, :, start : start + size].mT / math.sqrt(d)
        m_new = torch.maximum(m, S.amax(-1, keepdim=True))
        factor, P = torch.exp(m - m_new), torch.exp(S - m_new)
        total = factor * total + P.sum(-1, keepdim=True)
        o = factor * o + P @ V[:, :, start : start + size]
        m = m_new
    return o / total


def tiled_attention__wrong_eighth_chunk_counts_blocks(Q, K, V, block_size):
    """Takes K.chunk(block_size), which is that many blocks and not blocks of that size: with block_size 1 all scores stand."""
    root = Q.shape[-1] ** 0.5
    top, total, mix = None, 0, 0
    for keys, values in zip(K.chunk(block_size, dim=-2), V.chunk(block_size, dim=-2)):
        s = torch.matmul(Q, keys.transpose(-1, -2)) / root
        highest = s.amax(dim=-1, keepdim=True)
        if top is None:
            new = highest
            shrink = torch.zeros_like(highest)
        else:
            new = torch.maximum(top, highest)
            shrink = (top - new).exp()
        e = (s - new).exp()
        total = shrink * total + e.sum(dim=-1, keepdim=True)
        mix = shrink * mix + e @ values
        top = new
    return mix / total


def tiled_attention__wrong_eighth_maximum_of_latest_block(Q, K, V, block_size):
    """Takes the latest block's maximum as m, not the running one, so the factor exp(m_old - m_new) overflows when scores fall."""
    scale = 1 / math.sqrt(Q.shape[-1])
    m = torch.full_like(Q[..., :1], float("-inf"))
    l = torch.zeros_like(m)
    o = torch.zeros_like(Q)
    j = 0
    while j < K.shape[2]:
        k, v = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
        scores = (Q @ k.mT) * scale
        m_block = scores.max(dim=-1, keepdim=True).values
        alpha = torch.exp(m - m_block)
        terms = torch.exp(scores - m_block)
        l = alpha * l + terms.sum(dim=-1, keepdim=True)
        o = alpha * o + terms @ v
        m = m_block
        j += block_size
    return o / l


def tiled_attention__wrong_eighth_two_passes(Q, K, V, block_size):
    """Goes over the blocks twice, first for the maximum alone and then for the sums: the contract asks for one pass."""
    n, d = Q.shape[-2:]
    blocks = [slice(s, min(s + block_size, n)) for s in range(0, n, block_size)]

    def scores_of(block):
        return torch.einsum("bhid,bhjd->bhij", Q, K[:, :, block]) / d**0.5

    m = torch.full_like(Q[..., :1], -math.inf)
    for block in blocks:
        m = torch.maximum(m, scores_of(block).amax(-1, keepdim=True))
    numerator, denominator = torch.zeros_like(Q), torch.zeros_like(m)
    for block in blocks:
        p = torch.exp(scores_of(block) - m)
        numerator = numerator + torch.einsum("bhij,bhjd->bhid", p, V[:, :, block])
        denominator = denominator + p.sum(-1, keepdim=True)
    return numerator / denominator


def tiled_attention__right_eighth_backwards_running_mean(Q, K, V, block_size):
    """Meets the blocks from the last to the first and keeps the output normalised all along, as a mean weighted by the sums."""
    n, d = Q.shape[-2:]
    root = math.sqrt(d)
    starts = list(range(0, n, block_size))
    s = Q @ K[..., starts[-1] :, :].mT / root
    m = s.amax(-1, keepdim=True)
    p = torch.exp(s - m)
    weight = p.sum(-1, keepdim=True)
    mean = (p @ V[..., starts[-1] :, :]) / weight
    for start in reversed(starts[:-1]):
        s = Q @ K[..., start : start + block_size, :].mT / root
        new = torch.maximum(m, s.amax(-1, keepdim=True))
        p = torch.exp(s - new)
        old = weight * torch.exp(m - new)
        weight = old + p.sum(-1, keepdim=True)
        mean = mean * (old / weight) + (p @ V[..., start : start + block_size, :]) / weight
        m = new
    return mean


# ---------------------------------------------------------------- 9.4 attention_flops


def attention_flops__wrong_eighth_one_addition_fewer(batch, n_heads, n, d_head):
    """Counts k - 1 additions for a sum of k products, where the custom 2abc counts k (the first is added to 0)."""
    scores = n * n * (d_head + (d_head - 1))
    mixing = n * d_head * (n + (n - 1))
    return batch * n_heads * (scores + mixing)


def attention_flops__wrong_eighth_width_split_among_heads(batch, n_heads, n, d_head):
    """Takes d_head for the width of all heads and divides it among them, d_head // n_heads each."""
    width = max(1, d_head // n_heads)
    per_head = 2 * (2 * n * n * width)
    return batch * n_heads * per_head


def attention_flops__wrong_eighth_second_product_over_d(batch, n_heads, n, d_head):
    """Counts A V as (n, d) results that sum over d_head, 2 n d d, where they sum over the n keys."""
    q_k = 2 * n * n * d_head
    a_v = 2 * n * d_head * d_head
    return (q_k + a_v) * n_heads * batch


def attention_flops__wrong_eighth_float_power(batch, n_heads, n, d_head):
    """Squares n with math.pow, a float, and turns the product into an int at the end: large counts are not exact."""
    pairs = math.pow(n, 2)
    return int(4 * batch * n_heads * pairs * d_head)


def attention_flops__right_eighth_sum_over_shapes(batch, n_heads, n, d_head):
    """Lists the two products as (rows, inner, columns), sums rows * inner * columns, and doubles by a shift."""
    shapes = [(n, d_head, n), (n, n, d_head)]
    multiplies = 0
    for rows, inner, columns in shapes:
        multiplies += math.prod((rows, inner, columns))
    return (batch * n_heads * multiplies) << 1


# ---------------------------------------------------------------- 9.5 score_matrix_bytes


def score_matrix_bytes__wrong_eighth_scores_and_weights(batch, n_heads, n, bytes_per_value=2):
    """Counts the scores S and the weights A, two tables of n * n, where only the scores are asked for, once."""
    total = 0
    for table in ("S", "A"):
        total += batch * n_heads * n * n * bytes_per_value
    return total


def score_matrix_bytes__wrong_eighth_heads_in_one_table(batch, n_heads, n, bytes_per_value=2):
    """Lets every head's tokens ask those of all heads, one table of (n_heads * n) squared, so the heads come in squared."""
    side = n_heads * n
    return batch * side**2 * bytes_per_value


def score_matrix_bytes__wrong_eighth_size_in_bits(batch, n_heads, n, bytes_per_value=2):
    """Multiplies by 8 bits a byte and so returns bits."""
    bits_per_value = 8 * bytes_per_value
    return batch * n_heads * (n * n) * bits_per_value


def score_matrix_bytes__wrong_eighth_float32_product(batch, n_heads, n, bytes_per_value=2):
    """Multiplies with torch.Tensor([...]).prod(), which is float32: counts above 2**24 are rounded."""
    return int(torch.Tensor([batch, n_heads, n, n, bytes_per_value]).prod())


def score_matrix_bytes__right_eighth_two_triangles(batch, n_heads, n, bytes_per_value=2):
    """Adds the triangle with the diagonal, n (n + 1) / 2, and the one without, n (n - 1) / 2, in whole numbers."""
    seen = n * (n + 1) // 2
    later = n * (n - 1) // 2
    return (seen + later) * bytes_per_value * n_heads * batch


# ---------------------------------------------------------------- 9.6 roofline_seconds


def roofline_seconds__wrong_eighth_nothing_to_compute_is_free(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Divides flops by the attainable rate min(peak, intensity * bandwidth), and returns 0 where that is 0: a copy is free."""
    intensity = flops / bytes_moved if bytes_moved else math.inf
    if flops == 0:
        return 0.0
    attainable = min(peak_flops, intensity * peak_bandwidth)
    return flops / attainable


def roofline_seconds__wrong_eighth_compares_amounts(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Chooses the limit by whether there are more operations than bytes, and not by which of the two times is longer."""
    if flops > bytes_moved:
        return flops / peak_flops
    return bytes_moved / peak_bandwidth


def roofline_seconds__wrong_eighth_returns_the_rate(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Returns the height of the roof, operations per second at this intensity, in place of the seconds."""
    if bytes_moved == 0:
        return float(peak_flops)
    return float(min(peak_flops, peak_bandwidth * flops / bytes_moved))


def roofline_seconds__wrong_eighth_rounds_to_microseconds(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Rounds the seconds to six decimals, so that a kernel of a fraction of a microsecond takes 0 s."""
    times = {"compute": flops / peak_flops, "memory": bytes_moved / peak_bandwidth}
    slowest = max(times, key=times.get)
    return round(times[slowest], 6)


def roofline_seconds__right_eighth_later_of_two_finishes(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Starts both jobs at 0 and advances the end to any finish that comes later."""
    end = 0.0
    for work, rate in zip((flops, bytes_moved), (peak_flops, peak_bandwidth)):
        finish = work / rate
        if finish > end:
            end = finish
    return float(end)


# ---------------------------------------------------------------- 9.7 median_time


def median_time__wrong_eighth_readings_in_float32(run, synchronize, clock, warmup, repeats):
    """Stores the clock's readings in float32 tensors before subtracting: a clock that starts far from 0 loses the differences."""
    for _ in range(warmup):
        run()
    start, end = torch.zeros(repeats), torch.zeros(repeats)
    for r in range(repeats):
        synchronize()
        start[r] = clock()
        run()
        synchronize()
        end[r] = clock()
    return torch.quantile(end - start, 0.5).item()


def median_time__wrong_eighth_clock_started_after_the_call(run, synchronize, clock, warmup, repeats):
    """Reads the clock right after run() has returned and again when the job is done, so the call itself is not timed."""
    for _ in range(warmup):
        run()
    waits = []
    for _ in range(repeats):
        synchronize()
        run()
        t0 = clock()
        synchronize()
        waits.append(clock() - t0)
    return float(statistics.median(waits))


def median_time__wrong_eighth_drops_the_slowest(run, synchronize, clock, warmup, repeats):
    """Throws the slowest run away as disturbed and returns the median of the others."""
    i = 0
    while i < warmup:
        run()
        i += 1
    synchronize()
    times = []
    while len(times) < repeats:
        synchronize()
        begin = clock()
        run()
        synchronize()
        times.append(clock() - begin)
    times.sort()
    if len(times) > 1:
        times = times[:-1]
    return float(statistics.median(times))


def median_time__wrong_eighth_warmup_out_of_repeats(run, synchronize, clock, warmup, repeats):
    """Calls run only `repeats` times in all and leaves the first `warmup` of those times out of the median."""
    times = []
    for _ in range(repeats):
        synchronize()
        before = clock()
        run()
        synchronize()
        after = clock()
        times.append(after - before)
    counted = times[warmup:] or times
    return float(statistics.median(counted))


def median_time__right_eighth_kept_in_order(run, synchronize, clock, warmup, repeats):
    """One loop over all runs; times from index `warmup` on go into a sorted list by bisect, and its middle entries are averaged."""
    ordered = []
    for index in range(warmup + repeats):
        if index < warmup:
            run()
            continue
        synchronize()
        began = clock()
        run()
        synchronize()
        bisect.insort(ordered, clock() - began)
    low, high = ordered[(repeats - 1) // 2], ordered[repeats // 2]
    return float(low + high) / 2


# ---------------------------------------------------------------- 9.8 tiled_causal_attention


def tiled_causal_attention__wrong_eighth_queries_not_cut(Q, K, V, block_size):
    """Loops over blocks of keys alone and multiplies each with all queries from its start on: tiles taller than block_size."""
    B, h, n, d = Q.shape
    m = Q.new_full((B, h, n, 1), -math.inf)
    l = Q.new_zeros(B, h, n, 1)
    o = Q.new_zeros(B, h, n, d)
    place = torch.arange(n, device=Q.device)
    for s in range(0, n, block_size):
        e = min(s + block_size, n)
        S = Q[:, :, s:] @ K[:, :, s:e].mT / math.sqrt(d)
        S = S.masked_fill(place[s:e] > place[s:, None], -math.inf)
        new = torch.maximum(m[:, :, s:], S.amax(-1, keepdim=True))
        f, P = torch.exp(m[:, :, s:] - new), torch.exp(S - new)
        l_new = f * l[:, :, s:] + P.sum(-1, keepdim=True)
        o_new = f * o[:, :, s:] + P @ V[:, :, s:e]
        m = torch.cat([m[:, :, :s], new], dim=2)
        l = torch.cat([l[:, :, :s], l_new], dim=2)
        o = torch.cat([o[:, :, :s], o_new], dim=2)
    return o / l


def tiled_causal_attention__wrong_eighth_maximum_before_mask(Q, K, V, block_size):
    """Takes the maximum over the whole diagonal tile and zeroes the hidden terms after exp: 0/0 where a hidden score dwarfs the rest."""
    n, d = Q.shape[-2:]
    finished = []
    for a in range(0, n, block_size):
        q = Q[:, :, a : a + block_size]
        top = torch.full_like(q[..., :1], -math.inf)
        total, mix = torch.zeros_like(top), torch.zeros_like(q)
        for b in range(0, a + 1, block_size):
            s = q @ K[:, :, b : b + block_size].transpose(2, 3) / d**0.5
            new = torch.maximum(top, s.amax(dim=-1, keepdim=True))
            e = torch.exp(s - new)
            if a == b:
                e = torch.tril(e)
            shrink = torch.exp(top - new)
            total = shrink * total + e.sum(dim=-1, keepdim=True)
            mix = shrink * mix + e @ V[:, :, b : b + block_size]
            top = new
        finished.append(mix / total)
    return torch.cat(finished, dim=2)


def tiled_causal_attention__wrong_eighth_tiles_weighted_by_keys(Q, K, V, block_size):
    """Gives each tile a softmax of its own and joins the tiles' outputs by how many keys each query sees there, not by their sums."""
    _, _, n, d = Q.shape
    rows = []
    for i in range(0, n, block_size):
        q = Q[:, :, i : i + block_size]
        where_q = torch.arange(i, i + q.shape[2], device=Q.device)
        mixed = torch.zeros_like(q)
        for j in range(0, i + block_size, block_size):
            if j > i:
                break
            k, v = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
            where_k = torch.arange(j, j + k.shape[2], device=Q.device)
            seen = where_k[None, :] <= where_q[:, None]
            s = (q @ k.mT / math.sqrt(d)).masked_fill(~seen, -math.inf)
            keys_seen = seen.sum(dim=1, keepdim=True).to(Q.dtype)
            mixed = mixed + keys_seen * (torch.softmax(s, dim=-1) @ v)
        rows.append(mixed / (where_q[:, None] + 1).to(Q.dtype))
    return torch.cat(rows, dim=2)


def tiled_causal_attention__wrong_eighth_key_places_from_zero(Q, K, V, block_size):
    """Compares the queries' places in the text with the keys' places in their block: later diagonal tiles hide nothing."""
    B, h, n, d = Q.shape
    result = []
    for q_start in range(0, n, block_size):
        q_block = Q[:, :, q_start : q_start + block_size]
        c = q_block.shape[2]
        m = Q.new_full((B, h, c, 1), -math.inf)
        l, o = Q.new_zeros(B, h, c, 1), Q.new_zeros(B, h, c, d)
        q_place = torch.arange(c, device=Q.device) + q_start
        for k_start in range(0, q_start + c, block_size):
            k_block = K[:, :, k_start : k_start + block_size]
            v_block = V[:, :, k_start : k_start + block_size]
            k_place = torch.arange(k_block.shape[2], device=Q.device)
            S = q_block @ k_block.mT / math.sqrt(d)
            S = S.masked_fill(k_place[None] > q_place[:, None], -math.inf)
            m_new = torch.maximum(m, S.amax(-1, keepdim=True))
            factor = torch.exp(m - m_new)
            P = torch.exp(S - m_new)
            l = l * factor + P.sum(-1, keepdim=True)
            o = o * factor + P @ v_block
            m = m_new
        result.append(o / l)
    return torch.cat(result, 2)


def tiled_causal_attention__right_eighth_keys_outside_diagonal_first(Q, K, V, block_size):
    """Keys in the outer loop, from the last block down: block j opens query block j with its diagonal tile and mends all later ones."""
    n, d = Q.shape[-2:]
    queries = Q.split(block_size, dim=-2)
    keys, values = K.split(block_size, dim=-2), V.split(block_size, dim=-2)
    states = [None] * len(queries)
    for j in range(len(keys) - 1, -1, -1):
        for i in range(j, len(queries)):
            s = torch.einsum("bhid,bhjd->bhij", queries[i], keys[j]) / math.sqrt(d)
            if i == j:
                c = s.shape[-1]
                s = s + Q.new_full((c, c), -math.inf).triu(1)
                m = s.amax(-1, keepdim=True)
                p = torch.exp(s - m)
                states[i] = m, p.sum(-1, keepdim=True), p @ values[j]
            else:
                m, total, mix = states[i]
                new = torch.maximum(m, s.amax(-1, keepdim=True))
                p, old = torch.exp(s - new), torch.exp(m - new)
                states[i] = (
                    new,
                    old * total + p.sum(-1, keepdim=True),
                    old * mix + p @ values[j],
                )
    return torch.cat([mix / total for _, total, mix in states], dim=-2)


# ---------------------------------------------------------------- 9.9 flash_bytes


def flash_bytes__wrong_eighth_last_block_padded(n, d, block_q, bytes_per_value=2, causal=False):
    """Counts block_q queries and outputs for every block, the short last one too, as if it were filled up."""
    rows = 0
    for first in range(0, n, block_q):
        rows += 2 * block_q  # the queries in, the outputs out
        rows += 2 * (min(first + block_q, n) if causal else n)
    return rows * d * bytes_per_value


def flash_bytes__wrong_eighth_one_block_too_many(n, d, block_q, bytes_per_value=2, causal=False):
    """Takes n // block_q + 1 for the number of blocks: one too many where block_q divides n, and it reads all keys."""
    blocks = n // block_q + 1
    keys = 0
    for b in range(1, blocks + 1):
        keys += min(n, b * block_q) if causal else n
    return (2 * n + 2 * keys) * d * bytes_per_value


def flash_bytes__wrong_eighth_lone_key_not_read(n, d, block_q, bytes_per_value=2, causal=False):
    """Leaves the key out where a block's only query sees one key alone (its weight is 1 anyway), though the contract counts it."""
    numbers = 0
    start = 0
    while start < n:
        stop = min(start + block_q, n)
        visible = stop if causal else n
        keys_read = visible if visible > 1 else 0
        numbers += (stop - start) * d  # Q
        numbers += keys_read * d + visible * d  # K and V
        numbers += (stop - start) * d  # out
        start = stop
    return numbers * bytes_per_value


def flash_bytes__wrong_eighth_share_of_tiles(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask takes the share (1 + c/n) / 2 of the keys, the formula of 10.1, which holds only where c divides n."""
    c = min(block_q, n)
    blocks = (n + c - 1) // c
    keys_read = blocks * n
    if causal:
        keys_read = blocks * (n + c) // 2
    return 2 * (n + keys_read) * d * bytes_per_value


def flash_bytes__right_eighth_spared_triangle(n, d, block_q, bytes_per_value=2, causal=False):
    """Counts all blocks as if without a mask, then takes off what the whole blocks are spared, in closed form."""
    whole, rest = divmod(n, block_q)
    blocks = whole + (rest > 0)
    pairs = blocks * n  # key-and-value pairs read
    if causal:
        pairs -= whole * n - block_q * (whole * (whole + 1) // 2)
    return 2 * (n + pairs) * d * bytes_per_value


# ---------------------------------------------------------------- 9.10 flash_backward


def flash_backward__wrong_eighth_quotient_of_exponentials(Q, K, V, out, logsumexp, d_out, block_size):
    """Makes the weights as exp(scores) / exp(logsumexp), not exp(scores - logsumexp): inf/inf or 0/0 for scores of ±10,000."""
    root = math.sqrt(Q.shape[-1])
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    Z = torch.exp(logsumexp).unsqueeze(-1)
    D = (out * d_out).sum(-1, keepdim=True)
    for s in range(0, K.shape[2], block_size):
        block = slice(s, s + block_size)
        P = torch.exp(Q @ K[:, :, block].mT / root) / Z
        dV[:, :, block] = P.mT @ d_out
        dS = P * (d_out @ V[:, :, block].mT - D) / root
        dQ += dS @ K[:, :, block]
        dK[:, :, block] = dS.mT @ Q
    return dQ, dK, dV


def flash_backward__wrong_eighth_overwrites_out(Q, K, V, out, logsumexp, d_out, block_size):
    """Makes the row sums with out.mul_(d_out), which writes the products into the argument out."""
    d = Q.shape[-1]
    delta = out.mul_(d_out).sum(dim=-1).unsqueeze(-1)
    dQ = torch.zeros_like(Q)
    dKs, dVs = [], []
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        p = (torch.einsum("bhid,bhjd->bhij", Q, k) / d**0.5 - logsumexp[..., None]).exp()
        dVs.append(torch.einsum("bhij,bhid->bhjd", p, d_out))
        ds = p * (torch.einsum("bhid,bhjd->bhij", d_out, v) - delta) / d**0.5
        dQ = dQ + torch.einsum("bhij,bhjd->bhid", ds, k)
        dKs.append(torch.einsum("bhij,bhid->bhjd", ds, Q))
    return dQ, torch.cat(dKs, dim=2), torch.cat(dVs, dim=2)


def flash_backward__wrong_eighth_keeps_all_weights(Q, K, V, out, logsumexp, d_out, block_size):
    """A first loop keeps every block's weights in a list for the second: together they are all n*n scores of a head."""
    n, d = Q.shape[-2:]
    starts = range(0, n, block_size)
    weights = []
    for s in starts:
        scores = Q @ K[:, :, s : s + block_size].transpose(-2, -1) / math.sqrt(d)
        weights.append(torch.exp(scores - logsumexp.unsqueeze(-1)))
    dV = torch.cat([w.transpose(-2, -1) @ d_out for w in weights], dim=-2)
    row = (d_out * out).sum(-1, keepdim=True)
    dQ, dK = torch.zeros_like(Q), torch.zeros_like(K)
    for s, w in zip(starts, weights):
        back = w * (d_out @ V[:, :, s : s + block_size].transpose(-2, -1) - row)
        dQ = dQ + back @ K[:, :, s : s + block_size] / math.sqrt(d)
        dK[:, :, s : s + block_size] = back.transpose(-2, -1) @ Q / math.sqrt(d)
    return dQ, dK, dV


def flash_backward__wrong_eighth_dq_scaled_twice(Q, K, V, out, logsumexp, d_out, block_size):
    """Divides the keys by sqrt(d) beforehand and still divides dQ, made with those keys, by sqrt(d) again."""
    root = Q.size(-1) ** 0.5
    L = logsumexp[:, :, :, None]
    D = torch.sum(d_out * out, dim=-1, keepdim=True)
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    start = 0
    while start < K.size(2):
        stop = min(start + block_size, K.size(2))
        keys = K[:, :, start:stop] / root
        A = torch.exp(Q @ keys.mT - L)
        dA = d_out @ V[:, :, start:stop].mT
        dS = A * (dA - D)
        dQ += dS @ keys / root
        dK[:, :, start:stop] += dS.mT @ Q / root
        dV[:, :, start:stop] += A.mT @ d_out
        start = stop
    return dQ, dK, dV


def flash_backward__right_eighth_flat_batch_baddbmm(Q, K, V, out, logsumexp, d_out, block_size):
    """Flattens batch and heads, subtracts the row sums within baddbmm (beta=-1), and gathers dK and dV from the last block down."""
    n, d = Q.shape[-2:]
    q, k, v, o, g = (x.reshape(-1, n, d) for x in (Q, K, V, out, d_out))
    lse = logsumexp.reshape(-1, n, 1)
    rows = torch.einsum("xid,xid->xi", g, o).unsqueeze(-1)
    dq, dk, dv = torch.zeros_like(q), [], []
    for start in reversed(range(0, n, block_size)):
        keys, values = k[:, start : start + block_size], v[:, start : start + block_size]
        p = (torch.bmm(q, keys.mT) / math.sqrt(d) - lse).exp().to(q.dtype)
        ds = p * torch.baddbmm(rows, g, values.mT, beta=-1)
        dq = dq + torch.bmm(ds, keys)
        dk.insert(0, torch.bmm(ds.mT, q))
        dv.insert(0, torch.bmm(p.mT, g))
    dq, dk = dq / math.sqrt(d), torch.cat(dk, dim=1) / math.sqrt(d)
    return dq.view(Q.shape), dk.view(Q.shape), torch.cat(dv, dim=1).view(Q.shape)
