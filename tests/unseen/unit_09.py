import bisect
import itertools
import math
import statistics

import numpy as np
import torch
import torch.nn.functional as F


# ---------------------------------------------------------------- loop_attention


def loop_attention__wrong_sixteenth_key_asks_queries(Q, K, V):
    """Token i compares its key with all queries: the roles of Q and K are exchanged."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                s = Q[b, head] @ K[b, head, i] / math.sqrt(d)
                out[b, head, i] = torch.softmax(s, dim=0) @ V[b, head]
    return out


def loop_attention__wrong_sixteenth_softmax_over_heads(Q, K, V):
    """Serves all heads at once, but the softmax runs over the heads and not over the keys."""
    B, h, n, d = Q.shape
    sequences = []
    for q, k, v in zip(Q, K, V):
        rows = []
        for i in range(n):
            s = torch.einsum("hd,hjd->hj", q[:, i], k) / d**0.5
            a = s.softmax(dim=0)
            rows.append(torch.einsum("hj,hjd->hd", a, v))
        sequences.append(torch.stack(rows, dim=1))
    return torch.stack(sequences)


def loop_attention__wrong_sixteenth_scale_of_model_width(Q, K, V):
    """Divides by the root of the model's width h * d; each head has scores of width d."""
    B, h, n, d = Q.shape
    width = h * d
    out = torch.zeros_like(Q)
    for b, head, i in itertools.product(range(B), range(h), range(n)):
        scores = (K[b, head] * Q[b, head, i]).sum(dim=-1) / width**0.5
        weights = F.softmax(scores, dim=-1)
        out[b, head, i] = weights @ V[b, head]
    return out


def loop_attention__wrong_sixteenth_values_not_added_up(Q, K, V):
    """Slip: `=` for `+=` in the innermost loop, so only the last value remains."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for t in range(h):
            for i in range(n):
                a = torch.softmax(K[b, t] @ Q[b, t, i] / d**0.5, dim=-1)
                for j in range(n):
                    out[b, t, i] = a[j] * V[b, t, j]
    return out


def loop_attention__wrong_sixteenth_values_of_first_sequence(Q, K, V):
    """Slip: the values are always those of the first sequence of the batch."""
    B, h, n, d = Q.shape
    out = torch.empty_like(Q)
    for b in range(B):
        for head in range(h):
            keys, values = K[b, head], V[0, head]
            for i in range(n):
                scores = keys @ Q[b, head, i] / math.sqrt(d)
                out[b, head, i] = torch.softmax(scores, -1) @ values
    return out


def loop_attention__wrong_sixteenth_only_earlier_keys(Q, K, V):
    """Each query meets the keys 0 ... i only, though the docstring says all n keys and no mask."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                seen_k, seen_v = K[b, head, : i + 1], V[b, head, : i + 1]
                a = torch.softmax(seen_k @ Q[b, head, i] / d**0.5, dim=0)
                out[b, head, i] = a @ seen_v
    return out


def loop_attention__wrong_sixteenth_plain_exponentials(Q, K, V):
    """The softmax is written without subtracting the maximum: NaN for scores of 10,000."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                e = torch.exp(K[b, head] @ Q[b, head, i] / d**0.5)
                out[b, head, i] = (e / e.sum()) @ V[b, head]
    return out


def loop_attention__wrong_sixteenth_default_dtype_result(Q, K, V):
    """The result is made by torch.zeros(shape): always float32, whatever dtype comes in."""
    B, h, n, d = Q.shape
    out = torch.zeros(B, h, n, d)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                a = torch.softmax(K[b, head] @ Q[b, head, i] / d**0.5, dim=-1)
                out[b, head, i] = a @ V[b, head]
    return out


def loop_attention__right_sixteenth_flat_heads_backwards(Q, K, V):
    """Right: batch and heads flattened, the queries from last to first, rows stacked at the end."""
    n, d = Q.shape[-2:]
    flat = [x.reshape(-1, n, d) for x in (Q, K, V)]
    rows = []
    for q, k, v in zip(*flat):
        mixed = []
        for i in reversed(range(n)):
            s = torch.mv(k, q[i]).div(d**0.5)
            a = torch.exp(s - s.max())
            mixed.insert(0, torch.mv(v.t(), a / a.sum()))
        rows.append(torch.stack(mixed))
    return torch.stack(rows).reshape(Q.shape)


# ------------------------------------------------------------- batched_attention


def batched_attention__wrong_sixteenth_softmax_over_queries(Q, K, V, causal=False):
    """The softmax runs along the queries (axis -2): a key's weights sum to 1, not a query's."""
    d, n = Q.shape[-1], Q.shape[-2]
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(d)
    if causal:
        later = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    weights = torch.softmax(scores, dim=-2)
    return torch.einsum("bhij,bhjd->bhid", weights, V)


def batched_attention__wrong_sixteenth_mask_after_softmax(Q, K, V, causal=False):
    """Hides later keys after the softmax: the weights of a row no longer sum to 1."""
    A = F.softmax(Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5, dim=-1)
    if causal:
        A = torch.tril(A)
    return A @ V


def batched_attention__wrong_sixteenth_hidden_scores_zero(Q, K, V, causal=False):
    """Hidden scores become 0 by multiplying with the mask; after the softmax they still count."""
    n, d = Q.shape[-2:]
    S = torch.matmul(Q, K.mT) / d**0.5
    if causal:
        allowed = torch.tril(torch.ones(n, n, dtype=Q.dtype, device=Q.device))
        S = S * allowed
    return torch.softmax(S, dim=-1) @ V


def batched_attention__wrong_sixteenth_diagonal_hidden(Q, K, V, causal=False):
    """Slip: triu without diagonal=1, so a token does not see itself and token 0 sees nothing."""
    n = Q.shape[-2]
    scores = (Q @ K.mT) / math.sqrt(Q.shape[-1])
    if causal:
        hide = torch.triu(torch.ones(n, n, device=Q.device)).bool()
        scores = scores.masked_fill(hide, float("-inf"))
    return scores.softmax(-1) @ V


def batched_attention__wrong_sixteenth_power_before_division(Q, K, V, causal=False):
    """Slip: `d ** 1 / 2` is d / 2 and not the square root of d."""
    B, h, n, d = Q.shape
    scores = Q @ K.transpose(2, 3) / (d ** 1 / 2)
    if causal:
        mask = torch.ones(n, n, device=Q.device).tril() == 0
        scores = scores.masked_fill(mask, -math.inf)
    return torch.softmax(scores, dim=3) @ V


def batched_attention__wrong_sixteenth_sees_only_later(Q, K, V, causal=False):
    """Reads `causal` the wrong way round: token i attends to the tokens i ... n - 1."""
    n, d = Q.shape[-2:]
    scores = Q @ K.mT / d**0.5
    if causal:
        i = torch.arange(n, device=Q.device)
        scores = scores.masked_fill(i[None, :] < i[:, None], -math.inf)
    return torch.softmax(scores, -1) @ V


def batched_attention__wrong_sixteenth_mask_of_minus_thousand(Q, K, V, causal=False):
    """Hides with -1000 in place of -inf: later keys come back where the scores are lower still."""
    n, d = Q.shape[-2:]
    scores = Q @ K.mT / math.sqrt(d)
    if causal:
        later = torch.triu(torch.ones_like(scores[0, 0]), diagonal=1) > 0
        scores = torch.where(later, torch.full_like(scores, -1000.0), scores)
    return torch.softmax(scores, dim=-1) @ V


def batched_attention__wrong_sixteenth_loop_for_the_mask(Q, K, V, causal=False):
    """The values are right, but a Python loop over the rows makes the mask: no loops allowed."""
    n, d = Q.shape[-2:]
    scores = Q @ K.mT / d**0.5
    if causal:
        mask = torch.zeros(n, n, dtype=torch.bool, device=Q.device)
        for i in range(n):
            mask[i, i + 1 :] = True
        scores = scores.masked_fill(mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ V


def batched_attention__right_sixteenth_table_on_its_side(Q, K, V, causal=False):
    """Right: the table has keys as rows, the softmax runs down axis -2, and it is turned at the end."""
    n, d = K.shape[-2:]
    table = K @ (Q / math.sqrt(d)).mT
    if causal:
        barred = torch.full((n, n), -math.inf, dtype=Q.dtype, device=Q.device)
        table = table + barred.tril(-1)
    columns = torch.exp(table - table.amax(dim=-2, keepdim=True))
    columns = columns / columns.sum(dim=-2, keepdim=True)
    return (V.mT @ columns).mT


# --------------------------------------------------------------- tiled_attention


def tiled_attention__wrong_sixteenth_moving_average(Q, K, V, block_size):
    """Takes the factor for a moving average: o = factor * o + (1 - factor) * the block's own result."""
    d = Q.shape[-1]
    m = torch.full_like(Q[..., :1], -math.inf)
    o = torch.zeros_like(Q)
    for keys, values in zip(K.split(block_size, 2), V.split(block_size, 2)):
        scores = Q @ keys.mT / math.sqrt(d)
        m_new = torch.maximum(m, scores.amax(-1, keepdim=True))
        factor = torch.exp(m - m_new)
        o = factor * o + (1 - factor) * (torch.softmax(scores, -1) @ values)
        m = m_new
    return o


def tiled_attention__wrong_sixteenth_own_block_only(Q, K, V, block_size):
    """Cuts queries and keys and lets each block of queries meet its own block of keys only."""
    n, d = Q.shape[-2:]
    pieces = []
    for start in range(0, n, block_size):
        here = slice(start, start + block_size)
        s = Q[:, :, here] @ K[:, :, here].mT / d**0.5
        e = torch.exp(s - s.amax(-1, keepdim=True))
        pieces.append(e @ V[:, :, here] / e.sum(-1, keepdim=True))
    return torch.cat(pieces, dim=2)


def tiled_attention__wrong_sixteenth_merged_by_maxima_alone(Q, K, V, block_size):
    """Blocks with softmaxes of their own are merged by exp(maximum), without the sums of the blocks."""
    d = Q.shape[-1]
    m = torch.full_like(Q[..., :1], -math.inf)
    weight, o = torch.zeros_like(m), torch.zeros_like(Q)
    for start in range(0, K.shape[2], block_size):
        s = Q @ K[:, :, start : start + block_size].mT / d**0.5
        best = s.amax(dim=-1, keepdim=True)
        mixed = torch.softmax(s, dim=-1) @ V[:, :, start : start + block_size]
        new = torch.maximum(m, best)
        weight = weight * torch.exp(m - new) + torch.exp(best - new)
        o = o * torch.exp(m - new) + torch.exp(best - new) * mixed
        m = new
    return o / weight


def tiled_attention__wrong_sixteenth_old_maximum_lost(Q, K, V, block_size):
    """Slip: m is overwritten before the factor is taken, so the factor is always 1."""
    n, d = Q.shape[-2:]
    m = torch.full_like(Q[..., :1], -math.inf)
    total, mix = torch.zeros_like(m), torch.zeros_like(Q)
    for start in range(0, n, block_size):
        k, v = (x[:, :, start : start + block_size] for x in (K, V))
        scores = torch.einsum("bhid,bhjd->bhij", Q, k) / d**0.5
        m_new = torch.maximum(m, scores.amax(-1, keepdim=True))
        m = m_new
        factor = torch.exp(m - m_new)
        terms = torch.exp(scores - m_new)
        total = total * factor + terms.sum(-1, keepdim=True)
        mix = mix * factor + terms @ v
    return mix / total


def tiled_attention__wrong_sixteenth_values_stay_at_start(Q, K, V, block_size):
    """Slip: the keys go on block by block, the values are always those of the first tokens."""
    B, h, n, d = Q.shape
    m = Q.new_full((B, h, n, 1), -math.inf)
    ell, o = Q.new_zeros(B, h, n, 1), Q.new_zeros(B, h, n, d)
    for keys in K.split(block_size, dim=2):
        values = V[:, :, : keys.shape[2]]
        s = Q @ keys.mT / math.sqrt(d)
        new = torch.maximum(m, s.amax(-1, keepdim=True))
        shrink, p = torch.exp(m - new), torch.exp(s - new)
        ell = ell * shrink + p.sum(-1, keepdim=True)
        o = o * shrink + p @ values
        m = new
    return o / ell


def tiled_attention__wrong_sixteenth_number_of_blocks(Q, K, V, block_size):
    """Reads block_size as the number of blocks: with 1 all keys come at once, all scores are held."""
    d = Q.shape[-1]
    m = torch.full_like(Q[..., :1], -math.inf)
    ell, o = torch.zeros_like(m), torch.zeros_like(Q)
    for k, v in zip(K.chunk(block_size, dim=-2), V.chunk(block_size, dim=-2)):
        s = Q @ k.mT / d**0.5
        new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
        factor = torch.exp(m - new)
        p = torch.exp(s - new)
        ell = factor * ell + p.sum(dim=-1, keepdim=True)
        o = factor * o + p @ v
        m = new
    return o / ell


def tiled_attention__wrong_sixteenth_maximum_of_this_block(Q, K, V, block_size):
    """m is the maximum of the present block, not of all so far: overflow where scores fall far."""
    n, d = Q.shape[-2:]
    m = torch.full_like(Q[..., :1], -math.inf)
    ell, o = torch.zeros_like(m), torch.zeros_like(Q)
    for start in range(0, n, block_size):
        s = Q @ K[:, :, start : start + block_size].mT / d**0.5
        m_new = s.amax(dim=-1, keepdim=True)
        factor = torch.exp(m - m_new)
        terms = torch.exp(s - m_new)
        ell = ell * factor + terms.sum(dim=-1, keepdim=True)
        o = o * factor + terms @ V[:, :, start : start + block_size]
        m = m_new
    return o / ell


def tiled_attention__wrong_sixteenth_two_passes(Q, K, V, block_size):
    """The values are right, but there are two passes: one for the maximum, a second for the sums."""
    Q = Q / math.sqrt(Q.shape[-1])
    blocks = list(zip(K.split(block_size, 2), V.split(block_size, 2)))
    m = torch.full_like(Q[..., :1], -math.inf)
    for k, _ in blocks:
        m = torch.maximum(m, (Q @ k.mT).amax(-1, keepdim=True))
    ell, o = torch.zeros_like(m), torch.zeros_like(Q)
    for k, v in blocks:
        terms = torch.exp(Q @ k.mT - m)
        ell = ell + terms.sum(-1, keepdim=True)
        o = o + terms @ v
    return o / ell


def tiled_attention__right_sixteenth_ones_beside_values(Q, K, V, block_size):
    """Right: blocks from the last to the first; a column of ones beside V makes the sum part of o."""
    n, d = Q.shape[-2:]
    state, top = None, None
    for start in reversed(range(0, n, block_size)):
        v = V[..., start : start + block_size, :]
        v = torch.cat((v, torch.ones_like(v[..., :1])), dim=-1)
        s = Q @ K[..., start : start + block_size, :].mT / math.sqrt(d)
        best = s.amax(dim=-1, keepdim=True)
        if state is None:
            state, top = torch.exp(s - best) @ v, best
            continue
        new = torch.where(best > top, best, top)
        state = state * torch.exp(top - new) + torch.exp(s - new) @ v
        top = new
    return state[..., :d] / state[..., d:]


# --------------------------------------------------------------- attention_flops


def attention_flops__wrong_sixteenth_with_projections(batch, n_heads, n, d_head):
    """Counts the four projections of the layer as well, not only the two products of attention."""
    width = n_heads * d_head
    products = 2 * (2 * batch * n_heads * n * n * d_head)
    projections = 4 * (2 * batch * n * width * width)
    return products + projections


def attention_flops__wrong_sixteenth_heads_share_the_width(batch, n_heads, n, d_head):
    """Takes d_head for the width of all heads together, so that more heads cost nothing more."""
    one_product = 2 * n * d_head * n
    return batch * 2 * one_product


def attention_flops__wrong_sixteenth_weights_times_square(batch, n_heads, n, d_head):
    """Takes A V for a product of two (n, n) tables: 2 n^3 in place of 2 n^2 d."""

    def matmul(a, b, c):
        return 2 * a * b * c

    qk = matmul(n, d_head, n)
    av = matmul(n, n, n)
    return batch * n_heads * (qk + av)


def attention_flops__wrong_sixteenth_xor_for_square(batch, n_heads, n, d_head):
    """Slip: `n ^ 2` is a bitwise XOR in Python, not a square."""
    scores = n ^ 2
    qk = 2 * d_head * scores
    av = 2 * d_head * scores
    return batch * n_heads * (qk + av)


def attention_flops__wrong_sixteenth_batch_in_one_product(batch, n_heads, n, d_head):
    """Slip: missing parentheses, so the batch multiplies only the first product."""
    first = 2 * n_heads * n**2 * d_head
    second = 2 * n_heads * n**2 * d_head
    return batch * first + second


def attention_flops__wrong_sixteenth_causal_half(batch, n_heads, n, d_head):
    """Counts only the n (n + 1) / 2 pairs that a causal mask allows; the text says it saves nothing."""
    total = 0
    pairs = n * (n + 1) // 2
    for width in (d_head, d_head):
        total += 2 * pairs * width
    return total * batch * n_heads


def attention_flops__wrong_sixteenth_int64_overflow(batch, n_heads, n, d_head):
    """Multiplies in NumPy's int64, which overflows silently for very large sizes."""
    sizes = np.array([4, batch, n_heads, n, n, d_head], dtype=np.int64)
    return int(np.prod(sizes))


def attention_flops__wrong_sixteenth_float_total(batch, n_heads, n, d_head):
    """Adds up in a float: the value of small sizes is right, but it is no int and not exact."""
    total = 0.0
    for inner, columns in ((d_head, n), (n, d_head)):
        total += 2 * n * inner * columns
    return batch * n_heads * total


def attention_flops__right_sixteenth_rows_of_the_output(batch, n_heads, n, d_head):
    """Right: counts what one query costs, score by score and feature by feature, then all queries."""
    for_scores = n * (d_head + d_head)
    for_output = d_head * (n + n)
    queries = batch * n_heads * n
    return queries * for_scores + queries * for_output


# ------------------------------------------------------------ score_matrix_bytes


def score_matrix_bytes__wrong_sixteenth_one_table_for_heads(batch, n_heads, n, bytes_per_value=2):
    """All heads share one table of scores, as if the heads were summed away in the product."""
    entries = batch * n * n
    return entries * bytes_per_value


def score_matrix_bytes__wrong_sixteenth_batch_as_one_text(batch, n_heads, n, bytes_per_value=2):
    """Takes the batch for one long text: its batch * n tokens all ask each other."""
    tokens = batch * n
    return n_heads * tokens * tokens * bytes_per_value


def score_matrix_bytes__wrong_sixteenth_lower_triangle(batch, n_heads, n, bytes_per_value=2):
    """Only the scores on and below the diagonal are counted, as if there were a causal mask."""
    entries = n * (n + 1) // 2
    return batch * n_heads * entries * bytes_per_value


def score_matrix_bytes__wrong_sixteenth_always_two_bytes(batch, n_heads, n, bytes_per_value=2):
    """Slip: a helper with a constant of its own, so that the argument bytes_per_value is ignored."""

    def size(values, bytes_each=2):
        return values * bytes_each

    return size(batch * n_heads * n**2)


def score_matrix_bytes__wrong_sixteenth_power_of_the_bytes(batch, n_heads, n, bytes_per_value=2):
    """Slip: exponent and factor exchanged, n ** bytes * 2; right for two bytes only."""
    per_head = n**bytes_per_value * 2
    return batch * n_heads * per_head


def score_matrix_bytes__wrong_sixteenth_scores_and_weights(batch, n_heads, n, bytes_per_value=2):
    """Counts S and A, two tables a head; asked for are the scores, materialised once."""
    shape = (batch, n_heads, n, n)
    scores = math.prod(shape) * bytes_per_value
    weights = math.prod(shape) * bytes_per_value
    return scores + weights


def score_matrix_bytes__wrong_sixteenth_square_by_math_pow(batch, n_heads, n, bytes_per_value=2):
    """math.pow squares in floating point: an int comes back, but not exact for long texts."""
    entries = int(math.pow(n, 2))
    return batch * n_heads * entries * bytes_per_value


def score_matrix_bytes__wrong_sixteenth_bits_over_eight(batch, n_heads, n, bytes_per_value=2):
    """Counts bits and divides them by 8 with `/`: a float in place of an exact int."""
    bits = 8 * bytes_per_value
    return batch * n_heads * n * n * bits / 8


def score_matrix_bytes__right_sixteenth_pairs_and_diagonal(batch, n_heads, n, bytes_per_value=2):
    """Right: the pairs of different tokens, both ways, and the n scores of tokens with themselves."""
    pairs = math.comb(n, 2)
    one_table = (pairs + n + pairs) * bytes_per_value
    return one_table * n_heads * batch


# -------------------------------------------------------------- roofline_seconds


def roofline_seconds__wrong_sixteenth_more_work_slower_rate(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Divides the larger of the two amounts by the smaller of the two rates."""
    work = max(flops, bytes_moved)
    rate = min(peak_flops, peak_bandwidth)
    return work / rate


def roofline_seconds__wrong_sixteenth_bound_on_wrong_side(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Left of the border it takes arithmetic for the limit, right of it memory: the wrong way round."""
    border = peak_flops / peak_bandwidth
    intensity = flops / bytes_moved if bytes_moved else math.inf
    if intensity < border:
        return flops / peak_flops
    return bytes_moved / peak_bandwidth


def roofline_seconds__wrong_sixteenth_mean_of_both(flops, bytes_moved, peak_flops, peak_bandwidth):
    """At the same time is taken to mean that both share the time: the mean of the two."""
    times = np.array([flops / peak_flops, bytes_moved / peak_bandwidth])
    return float(times.mean())


def roofline_seconds__wrong_sixteenth_rates_exchanged(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Slip: the helper gets the rates in the wrong order, operations over bandwidth."""

    def slower(work, rates):
        return max(w / r for w, r in zip(work, rates))

    return slower((flops, bytes_moved), (peak_bandwidth, peak_flops))


def roofline_seconds__wrong_sixteenth_bandwidth_multiplied(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Slip: `*` for `/` in the time of the bytes."""
    computing = flops / peak_flops
    moving = bytes_moved * peak_bandwidth
    return float(computing if computing > moving else moving)


def roofline_seconds__wrong_sixteenth_height_of_the_roof(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Returns the height of the roof, operations per second, where seconds are asked for."""
    if bytes_moved == 0:
        return float(peak_flops)
    intensity = flops / bytes_moved
    return float(min(peak_flops, intensity * peak_bandwidth))


def roofline_seconds__wrong_sixteenth_copy_for_free(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Guards against 0 too eagerly: without operations it says 0 s, though bytes are moved."""
    if flops == 0:
        return 0.0
    if bytes_moved == 0:
        return flops / peak_flops
    reachable = min(peak_flops, flops / bytes_moved * peak_bandwidth)
    return flops / reachable


def roofline_seconds__wrong_sixteenth_tensor_in_single(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Returns a float32 tensor in place of a Python float."""
    work = torch.tensor([flops, bytes_moved], dtype=torch.float32)
    rates = torch.tensor([peak_flops, peak_bandwidth], dtype=torch.float32)
    return (work / rates).amax()


def roofline_seconds__right_sixteenth_cross_multiplied(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Right: compares operations with what could be done during the moving, and divides once."""
    free_operations = bytes_moved * peak_flops
    if flops * peak_bandwidth < free_operations:
        work, rate = bytes_moved, peak_bandwidth
    else:
        work, rate = flops, peak_flops
    return float(work / rate)


# ------------------------------------------------------------------- median_time


def median_time__wrong_sixteenth_all_runs_in_one_go(run, synchronize, clock, warmup, repeats):
    """Times all repeats together and divides by their count: a mean, not a median."""
    for _ in range(warmup):
        run()
    synchronize()
    start = clock()
    for _ in range(repeats):
        run()
    synchronize()
    return float((clock() - start) / repeats)


def median_time__wrong_sixteenth_mean_without_extremes(run, synchronize, clock, warmup, repeats):
    """Drops the fastest and the slowest run and takes the mean of the others, not the median."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        begin = clock()
        run()
        synchronize()
        times.append(clock() - begin)
    inner = sorted(times)[1:-1] if repeats > 2 else times
    return float(sum(inner) / len(inner))


def median_time__wrong_sixteenth_stamps_of_the_orders(run, synchronize, clock, warmup, repeats):
    """Takes a time stamp after each call and synchronises once, at the end: it times the orders."""
    for _ in range(warmup):
        run()
    synchronize()
    stamps = [clock()]
    for _ in range(repeats):
        run()
        stamps.append(clock())
    synchronize()
    gaps = [after - before for before, after in zip(stamps, stamps[1:])]
    return float(statistics.median(gaps))


def median_time__wrong_sixteenth_middle_without_sorting(run, synchronize, clock, warmup, repeats):
    """Slip: takes the middle of the list without having sorted it."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    half = repeats // 2
    if repeats % 2:
        return float(times[half])
    return float((times[half - 1] + times[half]) / 2)


def median_time__wrong_sixteenth_start_read_once(run, synchronize, clock, warmup, repeats):
    """Slip: the start is read once before the loop, so each time counts all runs before it too."""
    for _ in range(warmup):
        run()
    synchronize()
    start = clock()
    times = []
    for _ in range(repeats):
        run()
        synchronize()
        times.append(clock() - start)
    return float(np.median(times))


def median_time__wrong_sixteenth_lower_of_the_two(run, synchronize, clock, warmup, repeats):
    """torch.median takes the lower of the middle two; the text asks for their mean."""

    def once():
        synchronize()
        start = clock()
        run()
        synchronize()
        return clock() - start

    for _ in range(warmup):
        run()
    times = torch.tensor([once() for _ in range(repeats)], dtype=torch.float64)
    return times.median().item()


def median_time__wrong_sixteenth_waits_in_warmup_only(run, synchronize, clock, warmup, repeats):
    """Before the first reading it waits only in the warm-up loop: with warmup = 0 not at all."""
    for _ in range(warmup):
        run()
        synchronize()
    times = []
    for _ in range(repeats):
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    return float(statistics.median(times))


def median_time__wrong_sixteenth_one_run_to_try(run, synchronize, clock, warmup, repeats):
    """Calls run once more, to see that it works: warmup + repeats + 1 calls."""
    run()
    synchronize()
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    return float(statistics.median(times))


def median_time__right_sixteenth_one_loop_insort(run, synchronize, clock, warmup, repeats):
    """Right: one loop for warm-up and timing; each time is put into its place in a sorted list."""
    ranked = []
    for number in range(-warmup, repeats):
        synchronize()
        ticks = -clock()
        run()
        synchronize()
        ticks += clock()
        if number >= 0:
            bisect.insort(ranked, ticks)
    return float((ranked[(repeats - 1) // 2] + ranked[repeats // 2]) / 2)


# -------------------------------------------------------- tiled_causal_attention


def _fold(q, k, v, m, ell, o, hidden=None):
    """One tile into the state of a block of queries."""
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if hidden is not None:
        s = s.masked_fill(hidden, -math.inf)
    new = torch.maximum(m, s.amax(-1, keepdim=True))
    factor, p = torch.exp(m - new), torch.exp(s - new)
    return new, ell * factor + p.sum(-1, keepdim=True), o * factor + p @ v


def _fresh(q):
    """m, l and o of queries that have met no key."""
    return torch.full_like(q[..., :1], -math.inf), torch.zeros_like(q[..., :1]), torch.zeros_like(q)


def tiled_causal_attention__wrong_sixteenth_every_tile_halved(Q, K, V, block_size):
    """Puts the triangle on every tile, also on those that lie wholly in the past."""
    out = []
    for a, q in enumerate(Q.split(block_size, 2)):
        state = _fresh(q)
        for b, (k, v) in enumerate(zip(K.split(block_size, 2), V.split(block_size, 2))):
            if b > a:
                break
            shape = q.shape[2], k.shape[2]
            hidden = torch.ones(shape, dtype=torch.bool, device=Q.device).triu(1)
            state = _fold(q, k, v, *state, hidden)
        out.append(state[2] / state[1])
    return torch.cat(out, 2)


def tiled_causal_attention__wrong_sixteenth_blocks_see_blocks(Q, K, V, block_size):
    """Causal between blocks only: within a block each token sees the later ones too."""
    n, d = Q.shape[-2:]
    out = torch.zeros_like(Q)
    for q0 in range(0, n, block_size):
        q = Q[:, :, q0 : q0 + block_size]
        m, ell, o = _fresh(q)
        for k0 in range(0, q0 + 1, block_size):
            s = q @ K[:, :, k0 : k0 + block_size].mT / d**0.5
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            p, factor = torch.exp(s - new), torch.exp(m - new)
            ell = ell * factor + p.sum(-1, keepdim=True)
            o = o * factor + p @ V[:, :, k0 : k0 + block_size]
            m = new
        out[:, :, q0 : q0 + block_size] = o / ell
    return out


def tiled_causal_attention__wrong_sixteenth_state_goes_on(Q, K, V, block_size):
    """m, l and o are made once and go on into the next block of queries, which are other queries."""
    n = Q.shape[2]
    out = []
    m, ell, o = _fresh(Q[:, :, :block_size])
    for q0 in range(0, n, block_size):
        q = Q[:, :, q0 : q0 + block_size]
        rows = q.shape[2]
        m, ell, o = m[:, :, :rows], ell[:, :, :rows], o[:, :, :rows]
        for k0 in range(0, q0 + rows, block_size):
            k, v = K[:, :, k0 : k0 + block_size], V[:, :, k0 : k0 + block_size]
            i = torch.arange(q0, q0 + rows, device=Q.device)[:, None]
            j = torch.arange(k0, k0 + k.shape[2], device=Q.device)
            m, ell, o = _fold(q, k, v, m, ell, o, j > i)
        out.append(o / ell)
    return torch.cat(out, dim=2)


def tiled_causal_attention__wrong_sixteenth_short_block_forgotten(Q, K, V, block_size):
    """Slip: the loop over the queries stops before a short last block; its rows stay 0."""
    n = Q.shape[2]
    out = torch.zeros_like(Q)
    for q0 in range(0, max(n - block_size, 0) + 1, block_size):
        q = Q[:, :, q0 : q0 + block_size]
        state = _fresh(q)
        for k0 in range(0, q0 + 1, block_size):
            k, v = (x[:, :, k0 : k0 + block_size] for x in (K, V))
            hidden = None
            if k0 == q0:
                side = q.shape[2]
                hidden = torch.ones(side, side, dtype=torch.bool, device=Q.device).triu(1)
            state = _fold(q, k, v, *state, hidden)
        out[:, :, q0 : q0 + block_size] = state[2] / state[1]
    return out


def tiled_causal_attention__wrong_sixteenth_place_in_the_block(Q, K, V, block_size):
    """Slip: a query's place is counted from the start of its block, a key's from the text's."""
    n, d = Q.shape[-2:]
    out = torch.zeros_like(Q)
    for q0 in range(0, n, block_size):
        q = Q[:, :, q0 : q0 + block_size]
        m, ell, o = _fresh(q)
        places = torch.arange(q.shape[2], device=Q.device)[:, None]
        for k0 in range(0, q0 + q.shape[2], block_size):
            k = K[:, :, k0 : k0 + block_size]
            keys = torch.arange(k0, k0 + k.shape[2], device=Q.device)[None, :]
            m, ell, o = _fold(q, k, V[:, :, k0 : k0 + block_size], m, ell, o, keys > places)
        out[:, :, q0 : q0 + block_size] = o / ell
    return out


def tiled_causal_attention__wrong_sixteenth_keys_not_cut(Q, K, V, block_size):
    """Only the queries are cut; a block meets all keys up to its end in one long score tensor."""
    n, d = Q.shape[-2:]
    pieces = []
    for start in range(0, n, block_size):
        end = min(start + block_size, n)
        s = Q[:, :, start:end] @ K[:, :, :end].mT / math.sqrt(d)
        i = torch.arange(start, end, device=Q.device)
        j = torch.arange(end, device=Q.device)
        s = s.masked_fill(j[None] > i[:, None], -math.inf)
        pieces.append(torch.softmax(s, -1) @ V[:, :, :end])
    return torch.cat(pieces, dim=2)


def tiled_causal_attention__wrong_sixteenth_maximum_sees_hidden(Q, K, V, block_size):
    """The maximum is taken before the mask: a hidden large score makes all terms 0, and then NaN."""
    n, d = Q.shape[-2:]
    out = []
    for q0 in range(0, n, block_size):
        q = Q[:, :, q0 : q0 + block_size]
        m, ell, o = _fresh(q)
        for k0 in range(0, q0 + 1, block_size):
            s = q @ K[:, :, k0 : k0 + block_size].mT / math.sqrt(d)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            p = torch.exp(s - new)
            if k0 == q0:
                p = p.tril()
            factor = torch.exp(m - new)
            ell = ell * factor + p.sum(-1, keepdim=True)
            o = o * factor + p @ V[:, :, k0 : k0 + block_size]
            m = new
        out.append(o / ell)
    return torch.cat(out, dim=2)


def tiled_causal_attention__wrong_sixteenth_future_tiles_made(Q, K, V, block_size):
    """The values are right, but tiles wholly in the future are multiplied too and then hidden."""
    n = Q.shape[2]
    place = torch.arange(n, device=Q.device)
    pieces = []
    for q, i in zip(Q.split(block_size, 2), place.split(block_size)):
        state = _fresh(q)
        blocks = zip(K.split(block_size, 2), V.split(block_size, 2), place.split(block_size))
        for k, v, j in blocks:
            state = _fold(q, k, v, *state, j[None, :] > i[:, None])
        _, ell, o = state
        pieces.append(o / ell)
    return torch.cat(pieces, dim=2)


def tiled_causal_attention__right_sixteenth_keys_outside(Q, K, V, block_size):
    """Right: the outer loop goes over the keys; each block of queries keeps its state in a list."""
    queries = Q.split(block_size, dim=2)
    states = [_fresh(q) for q in queries]
    for b, (k, v) in enumerate(zip(K.split(block_size, 2), V.split(block_size, 2))):
        for a in reversed(range(b, len(queries))):
            hidden = None
            if a == b:
                side = torch.arange(k.shape[2], device=Q.device)
                hidden = side[:, None] < side
            states[a] = _fold(queries[a], k, v, *states[a], hidden)
    return torch.cat([o / ell for _, ell, o in states], dim=2)


# ------------------------------------------------------------------- flash_bytes


def flash_bytes__wrong_sixteenth_keys_for_each_query(n, d, block_q, bytes_per_value=2, causal=False):
    """Each query of a block reads its keys and values by itself, as if the block shared nothing."""
    rows = 0
    for start in range(0, n, block_q):
        for i in range(start, min(start + block_q, n)):
            seen = i + 1 if causal else n
            rows += 1 + 2 * seen + 1
    return rows * d * bytes_per_value


def flash_bytes__wrong_sixteenth_keys_stay_queries_come(n, d, block_q, bytes_per_value=2, causal=False):
    """The roles are exchanged: K and V come once, Q and the output come again for each block."""
    rows = 2 * n
    for start in range(0, n, block_q):
        queries = n - start if causal else n
        rows += 2 * queries
    return rows * d * bytes_per_value


def flash_bytes__wrong_sixteenth_mask_saves_half(n, d, block_q, bytes_per_value=2, causal=False):
    """Takes the causal mask to halve the bytes of the keys and values, whatever the blocks."""
    blocks = -(-n // block_q)
    key_rows = 2 * n * blocks
    if causal:
        key_rows //= 2
    return (2 * n + key_rows) * d * bytes_per_value


def flash_bytes__wrong_sixteenth_keys_up_to_the_start(n, d, block_q, bytes_per_value=2, causal=False):
    """Slip: with a mask the keys are counted to the first query of the block, not to the last."""
    total = 0
    for start in range(0, n, block_q):
        end = min(start + block_q, n)
        keys = start + 1 if causal else n
        total += (2 * (end - start) + 2 * keys) * d
    return total * bytes_per_value


def flash_bytes__wrong_sixteenth_values_lost_with_mask(n, d, block_q, bytes_per_value=2, causal=False):
    """Slip: a factor 2 is missing in the causal branch: keys are counted there, values are not."""
    ends = [min(start + block_q, n) for start in range(0, n, block_q)]
    if causal:
        rows = 2 * n + sum(ends)
    else:
        rows = 2 * n + 2 * n * len(ends)
    return rows * d * bytes_per_value


def flash_bytes__wrong_sixteenth_own_key_not_needed(n, d, block_q, bytes_per_value=2, causal=False):
    """Reads causal as strictly earlier: the key of a block's last query does not come."""
    rows, start = 0, 0
    while start < n:
        end = min(start + block_q, n)
        seen = end - 1 if causal else n
        rows += 2 * (end - start) + 2 * seen
        start = end
    return rows * d * bytes_per_value


def flash_bytes__wrong_sixteenth_lonely_key_spared(n, d, block_q, bytes_per_value=2, causal=False):
    """Where a query sees one key alone its weight is 1: the query and key are wrongly left out."""
    rows = 0
    for start in range(0, n, block_q):
        end = min(start + block_q, n)
        keys = end if causal else n
        if keys == 1:
            rows += 2
        else:
            rows += 2 * (end - start) + 2 * keys
    return rows * d * bytes_per_value


def flash_bytes__wrong_sixteenth_half_by_true_division(n, d, block_q, bytes_per_value=2, causal=False):
    """The sum of the key rows is halved with `/`: a float comes back where an int is asked for."""
    whole, rest = divmod(n, block_q)
    if causal:
        key_rows = block_q * whole * (whole + 1) / 2 + (n if rest else 0)
    else:
        key_rows = n * (whole + (1 if rest else 0))
    return (2 * n + 2 * key_rows) * d * bytes_per_value


def flash_bytes__right_sixteenth_from_the_keys_side(n, d, block_q, bytes_per_value=2, causal=False):
    """Right: asks for each block of keys how many blocks of queries want it."""
    blocks = (n + block_q - 1) // block_q
    visits = 0
    for place in range(blocks):
        size = min(block_q, n - place * block_q)
        visits += size * (blocks - place if causal else blocks)
    return 2 * (n + visits) * d * bytes_per_value


# ---------------------------------------------------------------- flash_backward


def flash_backward__wrong_sixteenth_row_sum_of_the_block(Q, K, V, out, logsumexp, d_out, block_size):
    """The sum of weights times their gradients runs over the block's keys, not over the whole row."""
    scale = 1 / math.sqrt(Q.shape[-1])
    dQ = torch.zeros_like(Q)
    dK, dV = [], []
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2)):
        p = torch.exp(Q @ k.mT * scale - logsumexp[..., None])
        dp = d_out @ v.mT
        ds = p * (dp - (p * dp).sum(dim=-1, keepdim=True)) * scale
        dQ = dQ + ds @ k
        dK.append(ds.mT @ Q)
        dV.append(p.mT @ d_out)
    return dQ, torch.cat(dK, 2), torch.cat(dV, 2)


def flash_backward__wrong_sixteenth_jacobian_diagonal(Q, K, V, out, logsumexp, d_out, block_size):
    """Takes the softmax for a sigmoid: a * (1 - a) only, each weight answers to its own score."""
    n, d = Q.shape[-2:]
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for start in range(0, n, block_size):
        here = slice(start, start + block_size)
        a = torch.exp(Q @ K[:, :, here].mT / d**0.5 - logsumexp.unsqueeze(-1))
        da = d_out @ V[:, :, here].mT
        ds = da * a * (1 - a)
        dQ += ds @ K[:, :, here] / d**0.5
        dK[:, :, here] = ds.mT @ Q / d**0.5
        dV[:, :, here] = a.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_sixteenth_softmax_of_the_block(Q, K, V, out, logsumexp, d_out, block_size):
    """Makes the weights by a softmax over the block's keys; the logsumexp of the row is not used."""
    root = math.sqrt(Q.shape[-1])
    delta = torch.einsum("bhid,bhid->bhi", d_out, out)[..., None]
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for j in range(0, K.shape[2], block_size):
        k, v = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
        weights = torch.softmax(torch.einsum("bhid,bhjd->bhij", Q, k) / root, dim=-1)
        d_scores = weights * (torch.einsum("bhid,bhjd->bhij", d_out, v) - delta) / root
        dQ += torch.einsum("bhij,bhjd->bhid", d_scores, k)
        dK[:, :, j : j + block_size] = torch.einsum("bhij,bhid->bhjd", d_scores, Q)
        dV[:, :, j : j + block_size] = torch.einsum("bhij,bhid->bhjd", weights, d_out)
    return dQ, dK, dV


def flash_backward__wrong_sixteenth_last_block_for_queries(Q, K, V, out, logsumexp, d_out, block_size):
    """Slip: `=` for `+=`, so dQ holds the share of the last block of keys only."""
    scale = Q.shape[-1] ** -0.5
    delta = (out * d_out).sum(-1, keepdim=True)
    dK, dV = torch.empty_like(K), torch.empty_like(V)
    for start in range(0, K.shape[2], block_size):
        end = start + block_size
        P = torch.exp(scale * (Q @ K[:, :, start:end].mT) - logsumexp[..., None])
        dS = P * (d_out @ V[:, :, start:end].mT - delta)
        dQ = scale * (dS @ K[:, :, start:end])
        dK[:, :, start:end] = scale * (dS.mT @ Q)
        dV[:, :, start:end] = P.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_sixteenth_values_from_output(Q, K, V, out, logsumexp, d_out, block_size):
    """Slip: dV takes the output where it should take the gradient d_out."""
    scale = 1 / math.sqrt(Q.shape[-1])
    delta = (d_out * out).sum(dim=-1, keepdim=True)
    dQ, parts_k, parts_v = torch.zeros_like(Q), [], []
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        p = (Q @ k.mT * scale - logsumexp.unsqueeze(-1)).exp()
        parts_v.append(p.mT @ out)
        ds = p * (d_out @ v.mT - delta) * scale
        dQ = dQ + ds @ k
        parts_k.append(ds.mT @ Q)
    return dQ, torch.cat(parts_k, dim=2), torch.cat(parts_v, dim=2)


def flash_backward__wrong_sixteenth_divides_by_the_log(Q, K, V, out, logsumexp, d_out, block_size):
    """Reads logsumexp as the sum of the exponentials itself and divides by it."""
    d = Q.shape[-1]
    delta = (d_out * out).sum(-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, K.shape[2], block_size):
        block = slice(start, start + block_size)
        k, v = K[:, :, block], V[:, :, block]
        p = torch.exp(Q @ k.mT / d**0.5) / logsumexp[..., None]
        ds = p * (d_out @ v.mT - delta) / d**0.5
        dQ += ds @ k
        dK[:, :, block] += ds.mT @ Q
        dV[:, :, block] += p.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_sixteenth_sum_made_from_its_log(Q, K, V, out, logsumexp, d_out, block_size):
    """exp(score) / exp(logsumexp) in place of exp(score - logsumexp): NaN for large scores."""
    root = Q.shape[-1] ** 0.5
    sums = torch.exp(logsumexp)[..., None]
    delta = (d_out * out).sum(-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), [], []
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2)):
        weights = torch.exp(Q @ k.mT / root) / sums
        d_scores = weights * (d_out @ v.mT - delta)
        dQ += d_scores @ k / root
        dK.append(d_scores.mT @ Q / root)
        dV.append(weights.mT @ d_out)
    return dQ, torch.cat(dK, 2), torch.cat(dV, 2)


def flash_backward__wrong_sixteenth_output_reused(Q, K, V, out, logsumexp, d_out, block_size):
    """The gradients are right, but `out` is multiplied in place: an input is changed."""
    scale = 1 / math.sqrt(Q.shape[-1])
    delta = out.mul_(d_out).sum(dim=-1, keepdim=True)
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for s in range(0, Q.shape[2], block_size):
        e = s + block_size
        p = torch.exp(Q @ K[:, :, s:e].mT * scale - logsumexp[..., None])
        ds = p * (d_out @ V[:, :, s:e].mT - delta) * scale
        dQ += ds @ K[:, :, s:e]
        dK[:, :, s:e] = ds.mT @ Q
        dV[:, :, s:e] = p.mT @ d_out
    return dQ, dK, dV


def flash_backward__right_sixteenth_delta_as_a_column(Q, K, V, out, logsumexp, d_out, block_size):
    """Right: minus the row sum stands as one more column beside d_out and meets ones beside V."""
    d = Q.shape[-1]
    row = torch.einsum("...id,...id->...i", d_out, out).unsqueeze(-1)
    asked = torch.cat((d_out, -row), dim=-1)
    dQ, dKT, dVT = torch.zeros_like(Q), [], []
    for k, v in zip(K.split(block_size, -2), V.split(block_size, -2)):
        met = torch.cat((v, torch.ones_like(v[..., :1])), dim=-1)
        turned = torch.exp(k @ Q.mT / math.sqrt(d) - logsumexp.unsqueeze(-2))
        slopes = turned * (met @ asked.mT) / math.sqrt(d)
        dQ = dQ + slopes.mT @ k
        dKT.append(slopes @ Q)
        dVT.append(turned @ d_out)
    return dQ, torch.cat(dKT, -2), torch.cat(dVT, -2)
