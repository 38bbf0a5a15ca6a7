"""Answers to the exercises of unit 9, wrong ones and right ones, as students would write them."""

import bisect
import itertools
import math
import statistics
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F

# ------- 9.1 loop_attention


def loop_attention__wrong_fourteenth_root_of_token_count(Q, K, V):
    """Divides the scores by the square root of n, the number of keys in the sum, where that of the width d is due."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                scores = K[b, head] @ Q[b, head, i] / n**0.5
                out[b, head, i] = torch.softmax(scores, dim=0) @ V[b, head]
    return out


def loop_attention__wrong_fourteenth_reads_only_the_past(Q, K, V):
    """Lets a query meet the keys up to its own token only, as a reader would, where all n keys are due."""
    result = []
    for q_seq, k_seq, v_seq in zip(Q, K, V):
        heads = []
        for q, k, v in zip(q_seq, k_seq, v_seq):
            rows = []
            for position, query in enumerate(q):
                past_k, past_v = k[: position + 1], v[: position + 1]
                s = past_k @ query / math.sqrt(len(query))
                rows.append(torch.softmax(s, -1) @ past_v)
            heads.append(torch.stack(rows))
        result.append(torch.stack(heads))
    return torch.stack(result)


def loop_attention__wrong_fourteenth_compares_by_cosine(Q, K, V):
    """Takes 'compare' as the cosine and brings queries and keys to length 1; the plain dot product is due."""
    width = Q.size(-1)
    unit_q = F.normalize(Q, dim=-1)
    unit_k = F.normalize(K, dim=-1)
    answer = torch.empty_like(V)
    for b, head, i in itertools.product(range(Q.size(0)), range(Q.size(1)), range(Q.size(2))):
        similarity = (unit_k[b, head] * unit_q[b, head, i]).sum(dim=-1)
        weight = (similarity / math.sqrt(width)).softmax(dim=0)
        answer[b, head, i] = (weight[:, None] * V[b, head]).sum(dim=0)
    return answer


def loop_attention__wrong_fourteenth_mixes_the_keys(Q, K, V):
    """Applies the weights to the keys of the head by a wrong variable, where its values are due."""
    B, h, n, d = Q.shape
    scale = d**-0.5

    def serve(query, keys, values):
        s = scale * torch.mv(keys, query)
        e = torch.exp(s - s.max())
        return (e / e.sum()) @ keys

    flat = [
        serve(Q[b, j, i], K[b, j], V[b, j]) for b in range(B) for j in range(h) for i in range(n)
    ]
    return torch.stack(flat).reshape(B, h, n, d)


def loop_attention__wrong_fourteenth_heads_before_batch(Q, K, V):
    """Collects the rows with the heads in the outer loop but shapes them as if the batch were outside."""
    batch, heads, tokens, width = Q.shape
    rows = []
    for head in range(heads):
        for b in range(batch):
            k, v = K[b, head], V[b, head]
            for i in range(tokens):
                s = torch.einsum("d,nd->n", Q[b, head, i], k) / math.sqrt(width)
                a = torch.softmax(s, dim=0)
                rows.append(torch.einsum("n,nd->d", a, v))
    return torch.stack(rows).view(batch, heads, tokens, width)


def loop_attention__wrong_fourteenth_tokens_on_axis_one(Q, K, V):
    """Reads the shape as (B, n, h, d), so that the heads of a token meet each other and not the tokens of a head."""
    B, n, h, d = Q.shape
    O = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            keys = K[b, :, head]
            values = V[b, :, head]
            for i in range(n):
                q_i = Q[b, i, head]
                a = torch.softmax(keys @ q_i / d**0.5, dim=-1)
                O[b, i, head] = a @ values
    return O


def loop_attention__wrong_fourteenth_mean_before_exp(Q, K, V):
    """Subtracts the mean score before exp, which overflows to NaN for scores of 10,000; the maximum is due."""
    out = torch.zeros_like(Q)
    root = Q.shape[-1] ** 0.5
    for i in range(Q.shape[2]):
        q = Q[:, :, i : i + 1]
        s = (q * K).sum(-1) / root
        e = (s - s.mean(dim=-1, keepdim=True)).exp()
        a = e / e.sum(dim=-1, keepdim=True)
        out[:, :, i] = (a[..., None] * V).sum(dim=2)
    return out


def loop_attention__wrong_fourteenth_whole_score_table_first(Q, K, V):
    """Makes the n*n scores of a head in one product and loops over its rows; each query is to meet the keys alone."""
    out = torch.zeros_like(Q)
    for b in range(Q.shape[0]):
        for head in range(Q.shape[1]):
            table = Q[b, head] @ K[b, head].T / math.sqrt(Q.shape[-1])
            for i, row in enumerate(table):
                out[b, head, i] = torch.softmax(row, dim=-1) @ V[b, head]
    return out


def loop_attention__right_fourteenth_logsumexp_all_heads(Q, K, V):
    """One loop over the queries that serves all heads by einsum, the weights as exp(score - logsumexp)."""
    rows = []
    for q in Q.unbind(dim=2):
        s = torch.einsum("bhd,bhnd->bhn", q, K) * (1 / math.sqrt(q.shape[-1]))
        a = torch.exp(s - torch.logsumexp(s, dim=-1, keepdim=True))
        rows.append(torch.einsum("bhn,bhnd->bhd", a, V))
    return torch.stack(rows, dim=2)


# ------- 9.2 batched_attention


def batched_attention__wrong_fourteenth_weights_cut_after_softmax(Q, K, V, causal=False):
    """Sets the weights of later keys to 0 after the softmax, so rows sum to less than 1; -inf before it is due."""
    d = Q.shape[-1]
    A = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(d), dim=-1)
    if causal:
        A = A.tril()
    return A @ V


def batched_attention__wrong_fourteenth_score_zero_hides(Q, K, V, causal=False):
    """Thinks that a score of 0 means 'not seen' and writes 0 on later keys, where -inf is due."""
    n = Q.size(2)
    scores = torch.matmul(Q, K.mT) * Q.size(3) ** -0.5
    if causal:
        sees = torch.ones(n, n, dtype=torch.bool, device=Q.device).tril()
        scores = torch.where(sees, scores, torch.zeros_like(scores))
    weights = scores.softmax(dim=-1)
    return torch.matmul(weights, V)


def batched_attention__wrong_fourteenth_keys_share_out_themselves(Q, K, V, causal=False):
    """Lets each key share itself out among the queries, a softmax along dim -2, where one along the keys is due."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / K.shape[-1] ** 0.5
    if causal:
        place = torch.arange(Q.shape[-2], device=Q.device)
        scores = scores.masked_fill(place[None, :] > place[:, None], -math.inf)
    share = torch.softmax(scores, dim=-2)
    return torch.einsum("bhij,bhjd->bhid", share, V)


def batched_attention__wrong_fourteenth_one_token_ahead(Q, K, V, causal=False):
    """Cuts the causal triangle one diagonal too high, so that token i sees token i + 1 as well."""
    B, h, n, d = Q.shape
    S = Q @ K.permute(0, 1, 3, 2)
    S = S / d**0.5
    if causal:
        future = torch.triu(torch.ones(n, n, device=Q.device), diagonal=2).bool()
        S = S.masked_fill(future, float("-inf"))
    return S.softmax(-1) @ V


def batched_attention__wrong_fourteenth_root_of_head_count(Q, K, V, causal=False):
    """Takes the size of axis 1, the number of heads, under the root, where the width on the last axis is due."""
    root = math.sqrt(Q.shape[1])
    logits = (Q / root) @ K.mT
    if causal:
        n = logits.shape[-1]
        bias = torch.full((n, n), -math.inf, dtype=Q.dtype, device=Q.device).triu(1)
        logits = logits + bias
    top = logits.amax(dim=-1, keepdim=True)
    powers = torch.exp(logits - top)
    return powers @ V / powers.sum(dim=-1, keepdim=True)


def batched_attention__wrong_fourteenth_excludes_token_itself(Q, K, V, causal=False):
    """Reads '0 ... i' as a Python range without its end: token i > 0 doesn't see itself, though it should."""
    n, d = Q.shape[-2:]
    S = torch.matmul(Q, K.transpose(2, 3)) / math.sqrt(d)
    if causal:
        i = torch.arange(n, device=Q.device).unsqueeze(1)
        j = torch.arange(n, device=Q.device).unsqueeze(0)
        allowed = j < i
        allowed = allowed | ((i == 0) & (j == 0))  # the first token has nobody else
        S = S.masked_fill(~allowed, -torch.inf)
    return torch.matmul(torch.softmax(S, dim=3), V)


def batched_attention__wrong_fourteenth_one_maximum_for_all(Q, K, V, causal=False):
    """Subtracts the largest score of the whole tensor; a query far below it gets 0 / 0, its own maximum is due."""
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    E = torch.exp(S - S.max())
    if causal:
        E = E * torch.ones_like(E).tril()
    return (E @ V) / E.sum(dim=-1, keepdim=True)


def batched_attention__wrong_fourteenth_loops_over_heads(Q, K, V, causal=False):
    """Right numbers, but a Python loop serves head after head, where no Python loop is allowed."""
    B, h, n, d = Q.shape
    done = []
    for q, k, v in zip(Q.reshape(B * h, n, d), K.reshape(B * h, n, d), V.reshape(B * h, n, d)):
        s = q @ k.T / d**0.5
        if causal:
            later = torch.ones_like(s, dtype=torch.bool).triu(diagonal=1)
            s = s.masked_fill(later, -math.inf)
        done.append(torch.softmax(s, dim=1) @ v)
    return torch.stack(done).reshape(B, h, n, d)


def batched_attention__right_fourteenth_keys_times_queries_transposed(Q, K, V, causal=False):
    """Makes the table with keys as rows, hides below its diagonal, with weights exp(score - logsumexp) along dim -2."""
    table = torch.einsum("...jd,...id->...ji", K, Q * Q.shape[-1] ** -0.5)
    if causal:
        place = torch.arange(Q.shape[-2], device=Q.device)
        table = table.masked_fill(place[:, None] > place, -math.inf)
    weights = torch.exp(table - torch.logsumexp(table, dim=-2, keepdim=True))
    return torch.einsum("...ji,...jd->...id", weights, V)


# ------- 9.3 tiled_attention


def tiled_attention__wrong_fourteenth_mean_of_block_softmaxes(Q, K, V, block_size):
    """Gives each block of keys a softmax of its own and averages by block length; one softmax over all keys is due."""
    n, d = Q.shape[-2:]
    out = torch.zeros_like(Q)
    for start in range(0, n, block_size):
        k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        weights = torch.softmax(Q @ k.mT / math.sqrt(d), dim=-1)
        out = out + weights @ v * (k.shape[2] / n)
    return out


def tiled_attention__wrong_fourteenth_divides_after_every_block(Q, K, V, block_size):
    """Divides o by the sum after each block and goes on with the quotient; a single division at the end is due."""
    B, h, n, d = Q.shape
    m = Q.new_full((B, h, n, 1), -math.inf)
    total = Q.new_zeros((B, h, n, 1))
    o = torch.zeros_like(Q)
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        s = Q @ k.transpose(-1, -2) / d**0.5
        m_new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
        factor = torch.exp(m - m_new)
        p = torch.exp(s - m_new)
        total = factor * total + p.sum(dim=-1, keepdim=True)
        o = (factor * o + p @ v) / total
        m = m_new
    return o


def tiled_attention__wrong_fourteenth_new_maximum_starts_afresh(Q, K, V, block_size):
    """Throws away what was summed against an old maximum when a larger score comes; it should shrink by a factor."""
    running = torch.full_like(Q[..., :1], float("-inf"))
    ell = torch.zeros_like(running)
    mix = torch.zeros_like(V)
    for first in range(0, K.size(-2), block_size):
        stripe = slice(first, first + block_size)
        scores = torch.einsum("bhid,bhjd->bhij", Q, K[:, :, stripe]) / math.sqrt(K.size(-1))
        highest = torch.maximum(running, scores.amax(-1, keepdim=True))
        still_valid = (highest == running).to(Q.dtype)
        terms = (scores - highest).exp()
        ell = still_valid * ell + terms.sum(-1, keepdim=True)
        mix = still_valid * mix + terms @ V[:, :, stripe]
        running = highest
    return mix / ell


def tiled_attention__wrong_fourteenth_sum_not_mended(Q, K, V, block_size):
    """Forgets the factor for the sum of the terms and mends only the mix; both must shrink when m grows."""
    scale = Q.shape[-1] ** -0.5
    m, l, o = None, None, None
    for start in range(0, Q.shape[2], block_size):
        kb = K.narrow(2, start, min(block_size, K.shape[2] - start))
        vb = V.narrow(2, start, min(block_size, V.shape[2] - start))
        s = (Q @ kb.mT) * scale
        top = s.amax(dim=3, keepdim=True)
        if m is None:
            p = torch.exp(s - top)
            m, l, o = top, p.sum(3, keepdim=True), p @ vb
            continue
        new = torch.maximum(m, top)
        p = torch.exp(s - new)
        shrink = torch.exp(m - new)
        l = l + p.sum(3, keepdim=True)
        o = o * shrink + p @ vb
        m = new
    return o / l


def tiled_attention__wrong_fourteenth_drops_short_last_block(Q, K, V, block_size):
    """Counts n // block_size blocks, so the keys of a short last block are never met; they should be."""
    B, h, n, d = Q.shape
    number_of_blocks = max(1, n // block_size)
    state_m = torch.full((B, h, n, 1), -math.inf, dtype=Q.dtype, device=Q.device)
    state_l = torch.zeros((B, h, n, 1), dtype=Q.dtype, device=Q.device)
    state_o = torch.zeros((B, h, n, d), dtype=Q.dtype, device=Q.device)
    for b in range(number_of_blocks):
        lo, hi = b * block_size, (b + 1) * block_size
        S = Q @ K[:, :, lo:hi].mT / math.sqrt(d)
        new_m = torch.maximum(state_m, S.max(dim=-1, keepdim=True).values)
        terms = torch.exp(S - new_m)
        factor = torch.exp(state_m - new_m)
        state_l = state_l * factor + terms.sum(dim=-1, keepdim=True)
        state_o = state_o * factor + terms @ V[:, :, lo:hi]
        state_m = new_m
    return state_o / state_l


def tiled_attention__wrong_fourteenth_block_size_as_block_count(Q, K, V, block_size):
    """Reads block_size as the number of blocks: with 1 all n*n scores are held at once, though blocks of 1 are due."""
    low = float("-inf")
    m, total, mix = torch.full_like(Q[..., :1], low), torch.zeros_like(Q[..., :1]), torch.zeros_like(Q)
    for keys, values in zip(K.chunk(block_size, dim=-2), V.chunk(block_size, dim=-2)):
        scores = Q @ keys.mT / math.sqrt(Q.shape[-1])
        old, m = m, torch.maximum(m, scores.amax(-1, keepdim=True))
        terms, factor = torch.exp(scores - m), torch.exp(old - m)
        total = factor * total + terms.sum(-1, keepdim=True)
        mix = factor * mix + terms @ values
    return mix / total


def tiled_attention__wrong_fourteenth_maximum_starts_at_zero(Q, K, V, block_size):
    """Lets the running maximum begin at 0: where all scores lie far below 0 it gives 0 / 0; -inf is due."""
    d = Q.shape[-1]
    m = torch.zeros_like(Q[..., :1])
    ell = torch.zeros_like(m)
    acc = torch.zeros_like(V)
    pos = 0
    while pos < K.shape[2]:
        k, v = K[:, :, pos : pos + block_size, :], V[:, :, pos : pos + block_size, :]
        s = torch.matmul(Q, k.transpose(2, 3)).div(math.sqrt(d))
        m_next = torch.maximum(m, s.amax(dim=-1, keepdim=True))
        e = torch.exp(s - m_next)
        c = torch.exp(m - m_next)
        ell, acc, m = c * ell + e.sum(-1, keepdim=True), c * acc + torch.matmul(e, v), m_next
        pos += block_size
    return acc / ell


def tiled_attention__wrong_fourteenth_keeps_all_score_blocks(Q, K, V, block_size):
    """Makes the scores of all blocks first and keeps them in a list until the maximum is known, so all n*n are held."""
    k_blocks = torch.split(K, block_size, dim=2)
    v_blocks = torch.split(V, block_size, dim=2)
    score_blocks = [Q @ k.mT / math.sqrt(Q.shape[-1]) for k in k_blocks]
    m = torch.stack([s.amax(dim=-1) for s in score_blocks]).amax(dim=0).unsqueeze(-1)
    total = 0
    mix = 0
    for s, v in zip(score_blocks, v_blocks):
        terms = torch.exp(s - m)
        total = total + terms.sum(dim=-1, keepdim=True)
        mix = mix + terms @ v
    return mix / total


def tiled_attention__right_fourteenth_merged_by_logsumexp(Q, K, V, block_size):
    """Holds a finished output and a logsumexp; each block is attended to by itself and merged by its share."""
    out, lse = None, None
    for k, v in zip(K.split(block_size, dim=-2), V.split(block_size, dim=-2)):
        s = Q @ k.mT / math.sqrt(Q.shape[-1])
        block_lse = s.logsumexp(dim=-1, keepdim=True)
        block_out = torch.exp(s - block_lse) @ v
        if out is None:
            out, lse = block_out, block_lse
        else:
            joint = torch.logaddexp(lse, block_lse)
            out = torch.exp(lse - joint) * out + torch.exp(block_lse - joint) * block_out
            lse = joint
    return out


# ------- 9.4 attention_flops


def attention_flops__wrong_fourteenth_multiply_add_as_one(batch, n_heads, n, d_head):
    """Counts a multiply with its add as one operation, as some data sheets do; they count as two."""
    per_product = n * n * d_head
    return 2 * per_product * n_heads * batch


def attention_flops__wrong_fourteenth_heads_share_the_cost(batch, n_heads, n, d_head):
    """Thinks that more heads only cut the same work into parts and leaves n_heads out; each costs as much again."""
    scores = 2 * n * d_head * n
    mixing = 2 * n * n * d_head
    return batch * (scores + mixing)


def attention_flops__wrong_fourteenth_mask_saves_half(batch, n_heads, n, d_head):
    """Counts only the n(n+1)/2 pairs that a causal mask leaves; nothing is to be saved by a mask."""
    pairs = sum((n, n * (n - 1) // 2))
    operations_per_pair = 2 * d_head + 2 * d_head
    return batch * n_heads * pairs * operations_per_pair


def attention_flops__wrong_fourteenth_width_squared_in_av(batch, n_heads, n, d_head):
    """Takes A V as a product over d_head instead of over the n keys, so it gets 2 n d d where 2 n n d is due."""

    def matmul_cost(a, b, c):
        return 2 * a * b * c

    one_head = matmul_cost(n, d_head, n) + matmul_cost(n, d_head, d_head)
    return one_head * n_heads * batch


def attention_flops__wrong_fourteenth_two_missing_in_av(batch, n_heads, n, d_head):
    """Forgets the 2 in the second product, so that it counts 3 n n d a head where 4 n n d is due."""
    qk = 2 * batch * n_heads * n**2 * d_head
    av = batch * n_heads * n**2 * d_head
    return qk + av


def attention_flops__wrong_fourteenth_one_addition_fewer(batch, n_heads, n, d_head):
    """Reads that b terms need b - 1 additions, where the text counts b, the first one to 0."""
    total = 0
    for rows, inner, columns in ((n, d_head, n), (n, n, d_head)):
        multiplications = rows * columns * inner
        additions = rows * columns * (inner - 1)
        total += multiplications + additions
    return batch * n_heads * total


def attention_flops__wrong_fourteenth_wraps_at_64_bits(batch, n_heads, n, d_head):
    """Multiplies in int64, which wraps around from 2 ** 63 on; the count is to be exact at any size."""
    sizes = np.array([4, batch, n_heads, n, n, d_head], dtype=np.int64)
    return int(sizes.prod())


def attention_flops__wrong_fourteenth_gives_a_float(batch, n_heads, n, d_head):
    """Multiplies by 2.0 on the way, so a float comes out, where an exact int is due."""
    entries_qk = batch * n_heads * n * n
    entries_av = batch * n_heads * n * d_head
    return 2.0 * (entries_qk * d_head + entries_av * n)


def attention_flops__right_fourteenth_shifted_by_two_bits(batch, n_heads, n, d_head):
    """The number of all multiplications of one product, times four by a shift of two bits."""
    multiplications = math.prod((batch, n_heads, d_head, n, n))
    return multiplications << 2


# ------- 9.5 score_matrix_bytes


def score_matrix_bytes__wrong_fourteenth_scores_and_weights(batch, n_heads, n, bytes_per_value=2):
    """Counts scores and weights, as both stand in memory; the scores alone, once, are due."""
    scores = batch * n_heads * n * n
    weights = batch * n_heads * n * n
    return (scores + weights) * bytes_per_value


def score_matrix_bytes__wrong_fourteenth_triangle_only(batch, n_heads, n, bytes_per_value=2):
    """Counts the pairs of a causal triangle only, where all n tokens ask all n tokens."""
    pairs = n * (n + 1) // 2
    return bytes_per_value * pairs * n_heads * batch


def score_matrix_bytes__wrong_fourteenth_one_table_for_all_heads(batch, n_heads, n, bytes_per_value=2):
    """Thinks that all heads write into one table of scores; each head has a table of its own."""
    table = (n**2) * bytes_per_value
    return sum(table for _ in range(batch))


def score_matrix_bytes__wrong_fourteenth_two_bytes_fixed(batch, n_heads, n, bytes_per_value=2):
    """Writes the 2 of 16 bits into the product and forgets the argument bytes_per_value."""
    return 2 * batch * n_heads * n**2


def score_matrix_bytes__wrong_fourteenth_caret_is_no_power(batch, n_heads, n, bytes_per_value=2):
    """Writes n ^ 2 for the square, which in Python is an exclusive or; n ** 2 is due."""
    number_of_scores = batch * n_heads * (n ^ 2)
    size = number_of_scores * bytes_per_value
    return size


def score_matrix_bytes__wrong_fourteenth_argument_in_bits(batch, n_heads, n, bytes_per_value=2):
    """Reads bytes_per_value as bits and divides by 8, rounded up; the argument is in bytes already."""
    bits = math.prod([batch, n_heads, n, n, bytes_per_value])
    whole, rest = divmod(bits, 8)
    return whole + (rest > 0)


def score_matrix_bytes__wrong_fourteenth_asks_a_meta_tensor(batch, n_heads, n, bytes_per_value=2):
    """Asks PyTorch for the size of such a tensor, which fails beyond 63 bits; exact at any size is due."""
    shape = (batch, n_heads, n, n)
    ghost = torch.empty(shape, dtype=torch.uint8, device="meta")
    return ghost.numel() * bytes_per_value


def score_matrix_bytes__wrong_fourteenth_numpy_float_product(batch, n_heads, n, bytes_per_value=2):
    """Lets NumPy multiply in float64 and returns that float, where an exact int is due."""
    factors = np.asarray([batch, n_heads, n, n, bytes_per_value], dtype=float)
    return np.prod(factors)


def score_matrix_bytes__right_fourteenth_two_triangles(batch, n_heads, n, bytes_per_value=2):
    """Adds the triangle with the diagonal to the one without it: together they are the whole table."""

    def triangle(rows):
        return rows * (rows + 1) // 2

    table = triangle(n) + triangle(n - 1)
    return table * batch * n_heads * bytes_per_value


# ------- 9.6 roofline_seconds


def roofline_seconds__wrong_fourteenth_one_after_the_other(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Adds both times, as if the machine first moved and then computed; they overlap, the larger one is due."""
    moving = bytes_moved / peak_bandwidth
    computing = flops / peak_flops
    return moving + computing


def roofline_seconds__wrong_fourteenth_quicker_part_decides(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Takes 'least time' as the smaller of the two times; a kernel is done when both are done."""
    return min(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_fourteenth_both_rates_pooled(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Pools operations and bytes over the sum of both rates; each has a rate of its own and the slower decides."""
    work = flops + bytes_moved
    rate = peak_flops + peak_bandwidth
    return float(work / rate)


def roofline_seconds__wrong_fourteenth_rates_swapped(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Divides operations by the bandwidth and bytes by the peak rate, the wrong way round."""
    times = [
        amount / rate for amount, rate in zip((flops, bytes_moved), (peak_bandwidth, peak_flops))
    ]
    return max(times)


def roofline_seconds__wrong_fourteenth_floor_division(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Divides with //, which drops the fraction of a second; / is due."""
    t_compute = flops // peak_flops
    t_memory = bytes_moved // peak_bandwidth
    return float(max(t_compute, t_memory))


def roofline_seconds__wrong_fourteenth_in_milliseconds(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Returns milliseconds, as the tables of the unit print them; seconds are asked for."""
    seconds = flops / peak_flops
    if bytes_moved / peak_bandwidth > seconds:
        seconds = bytes_moved / peak_bandwidth
    return 1e3 * seconds


def roofline_seconds__wrong_fourteenth_no_bytes_no_time(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Goes by the intensity and returns 0 where no bytes move, though the operations still take their time."""
    if bytes_moved == 0:
        return 0.0
    intensity = flops / bytes_moved
    border = peak_flops / peak_bandwidth
    if intensity > border:
        return flops / peak_flops
    return bytes_moved / peak_bandwidth


def roofline_seconds__wrong_fourteenth_returns_a_fraction(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Has the right number as an exact Fraction, where a float is asked for."""
    compute = Fraction(flops) / Fraction(peak_flops)
    memory = Fraction(bytes_moved) / Fraction(peak_bandwidth)
    return compute if compute > memory else memory


def roofline_seconds__right_fourteenth_last_to_finish(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Writes down when each part is done, sorts, and takes the one that finishes last."""
    done_at = {"arithmetic": flops / peak_flops, "memory": bytes_moved / peak_bandwidth}
    order = sorted(done_at, key=done_at.get)
    return float(done_at[order[-1]])


# ------- 9.7 median_time


def median_time__wrong_fourteenth_only_the_order_timed(run, synchronize, clock, warmup, repeats):
    """Reads the clock as soon as run returns and waits afterwards, so only the order is timed, not the job."""
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


def median_time__wrong_fourteenth_whole_series_divided(run, synchronize, clock, warmup, repeats):
    """Times all repeats in one go and divides by their count, a mean; the median of single times is due."""
    for _ in range(warmup):
        run()
    synchronize()
    begin = clock()
    for _ in range(repeats):
        run()
        synchronize()
    end = clock()
    return (end - begin) / repeats


def median_time__wrong_fourteenth_warms_up_before_each(run, synchronize, clock, warmup, repeats):
    """Warms up anew before every timed run, so run is called (warmup + 1) * repeats times; once at first is due."""

    def one_measurement():
        for _ in range(warmup):
            run()
        synchronize()
        before = clock()
        run()
        synchronize()
        return clock() - before

    return float(np.median([one_measurement() for _ in range(repeats)]))


def median_time__wrong_fourteenth_middle_without_sorting(run, synchronize, clock, warmup, repeats):
    """Takes the middle of the times in the order of the runs; they must be sorted first."""
    for _ in range(warmup):
        run()
        synchronize()
    durations = []
    for _ in range(repeats):
        synchronize()
        t0 = clock()
        run()
        synchronize()
        t1 = clock()
        durations.append(t1 - t0)
    half = repeats // 2
    if repeats % 2:
        return float(durations[half])
    return (durations[half - 1] + durations[half]) / 2


def median_time__wrong_fourteenth_lower_middle_of_two(run, synchronize, clock, warmup, repeats):
    """Uses torch.median, which takes the lower of the middle two at an even count; their mean is due."""
    stamps = []
    for number in range(warmup + repeats):
        synchronize()
        started = clock()
        run()
        synchronize()
        finished = clock()
        if number >= warmup:
            stamps.append(finished - started)
    return torch.tensor(stamps, dtype=torch.float64).median().item()


def median_time__wrong_fourteenth_repeats_include_warmup(run, synchronize, clock, warmup, repeats):
    """Reads repeats as the number of all runs, the warm-up among them; warmup + repeats runs are due."""
    all_runs = max(repeats, warmup + 1)
    times = np.zeros(all_runs)
    for i in range(all_runs):
        synchronize()
        times[i] = -clock()
        run()
        synchronize()
        times[i] += clock()
    return float(np.median(times[warmup:]))


def median_time__wrong_fourteenth_no_wait_without_warmup(run, synchronize, clock, warmup, repeats):
    """Waits only after warm-up runs: with warmup = 0 older work in the queue counts into the first timed run."""
    if warmup > 0:
        for _ in range(warmup):
            run()
        synchronize()
    laps = []
    while len(laps) < repeats:
        start = clock()
        run()
        synchronize()
        laps.append(clock() - start)
    return float(statistics.median(laps))


def median_time__wrong_fourteenth_repeats_disturbed_runs(run, synchronize, clock, warmup, repeats):
    """Runs the job once more where a time is over three times the fastest; exactly warmup + repeats runs are due."""

    def lap():
        synchronize()
        start = clock()
        run()
        synchronize()
        return clock() - start

    for _ in range(warmup):
        run()
    laps = [lap() for _ in range(repeats)]
    fastest = min(laps)
    laps = [lap() if t > 3 * fastest else t for t in laps]
    return float(statistics.median(laps))


def median_time__right_fourteenth_sorted_as_they_come(run, synchronize, clock, warmup, repeats):
    """Waits in the function that tells the time, inserts each time in its place, and averages the two middle places."""

    def settled():
        synchronize()
        return clock()

    remaining = warmup
    while remaining:
        run()
        remaining -= 1
    ordered = []
    for _ in range(repeats):
        before = settled()
        run()
        bisect.insort(ordered, settled() - before)
    return float(ordered[(repeats - 1) // 2] + ordered[repeats // 2]) / 2


# ------- 9.8 tiled_causal_attention


def tiled_causal_attention__wrong_fourteenth_diagonal_tile_unmasked(Q, K, V, block_size):
    """Thinks that leaving out later tiles is the whole mask, so a query sees later tokens of its own block."""
    B, h, n, d = Q.shape
    rows = []
    for q0 in range(0, n, block_size):
        q = Q[:, :, q0 : q0 + block_size]
        m = torch.full_like(q[..., :1], -math.inf)
        l = torch.zeros_like(m)
        o = torch.zeros_like(q)
        for k0 in range(0, q0 + 1, block_size):
            s = q @ K[:, :, k0 : k0 + block_size].mT / math.sqrt(d)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            p, f = torch.exp(s - new), torch.exp(m - new)
            l = f * l + p.sum(-1, keepdim=True)
            o = f * o + p @ V[:, :, k0 : k0 + block_size]
            m = new
        rows.append(o / l)
    return torch.cat(rows, dim=2)


def tiled_causal_attention__wrong_fourteenth_triangle_in_every_tile(Q, K, V, block_size):
    """Compares places within the blocks, so that earlier tiles get a triangle too, where they are seen as a whole."""
    q_blocks, k_blocks, v_blocks = (x.split(block_size, dim=-2) for x in (Q, K, V))
    finished = []
    for number, q in enumerate(q_blocks):
        top, ell, mix = q.new_full((*q.shape[:-1], 1), -math.inf), 0.0, 0.0
        for k, v in zip(k_blocks[: number + 1], v_blocks[: number + 1]):
            scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
            i = torch.arange(q.shape[2], device=q.device)
            j = torch.arange(k.shape[2], device=q.device)
            scores = scores.masked_fill(j > i[:, None], -math.inf)
            higher = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
            shrink = (top - higher).exp()
            terms = (scores - higher).exp()
            ell = ell * shrink + terms.sum(dim=-1, keepdim=True)
            mix = mix * shrink + torch.einsum("bhij,bhjd->bhid", terms, v)
            top = higher
        finished.append(mix / ell)
    return torch.cat(finished, dim=-2)


def tiled_causal_attention__wrong_fourteenth_hidden_scores_become_zero(Q, K, V, block_size):
    """Keeps the lower triangle of a diagonal tile by tril, so that hidden keys stay in with a score of 0, not -inf."""
    n, width = Q.shape[-2], Q.shape[-1]
    out = torch.zeros_like(Q)
    for a in range(0, n, block_size):
        e = min(a + block_size, n)
        query = Q[:, :, a:e] / math.sqrt(width)
        lse = None
        for c in range(0, e, block_size):
            stop = min(c + block_size, n)
            tile = query @ K[:, :, c:stop].transpose(-1, -2)
            if c == a:
                tile = torch.tril(tile)
            tile_lse = torch.logsumexp(tile, dim=-1, keepdim=True)
            part = torch.exp(tile - tile_lse) @ V[:, :, c:stop]
            if lse is None:
                acc, lse = part, tile_lse
            else:
                both = torch.logaddexp(lse, tile_lse)
                acc = acc * torch.exp(lse - both) + part * torch.exp(tile_lse - both)
                lse = both
        out[:, :, a:e] = acc
    return out


def tiled_causal_attention__wrong_fourteenth_mix_not_mended(Q, K, V, block_size):
    """Mends the sum by the factor when m grows but forgets the mix, which must shrink as well."""
    B, h, n, d = Q.shape
    place = torch.arange(n, device=Q.device)
    out = []
    for q_start in range(0, n, block_size):
        q_place = place[q_start : q_start + block_size]
        q = Q[:, :, q_place]
        m = Q.new_full((B, h, len(q_place), 1), -math.inf)
        total = Q.new_zeros(B, h, len(q_place), 1)
        mix = Q.new_zeros(B, h, len(q_place), d)
        for k_start in range(0, q_start + len(q_place), block_size):
            k_place = place[k_start : k_start + block_size]
            scores = q @ K[:, :, k_place].mT / d**0.5
            scores = scores.masked_fill(k_place[None, :] > q_place[:, None], -math.inf)
            m_old, m = m, torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            terms = torch.exp(scores - m)
            total = total * torch.exp(m_old - m) + terms.sum(dim=-1, keepdim=True)
            mix = mix + terms @ V[:, :, k_place]
        out.append(mix / total)
    return torch.cat(out, dim=2)


def tiled_causal_attention__wrong_fourteenth_maximum_never_moved_on(Q, K, V, block_size):
    """Forgets m = m_new at the end of a tile, so m stays -inf, the factor 0, and only the last tile counts."""
    size = Q.shape[2]

    def attend(first):
        last = min(first + block_size, size)
        q = Q[..., first:last, :]
        m = torch.full_like(q[..., :1], float("-inf"))
        ell, o = torch.zeros_like(m), torch.zeros_like(q)
        for start in range(0, last, block_size):
            end = min(start + block_size, size)
            s = q @ K[..., start:end, :].mT * Q.shape[-1] ** -0.5
            if start == first:
                hide = torch.ones(last - first, end - start, dtype=torch.bool, device=Q.device).triu(1)
                s = s.masked_fill(hide, float("-inf"))
            m_new = torch.maximum(m, s.amax(-1, keepdim=True))
            w = torch.exp(s - m_new)
            correction = torch.exp(m - m_new)
            ell = correction * ell + w.sum(-1, keepdim=True)
            o = correction * o + w @ V[..., start:end, :]
        return o / ell

    return torch.cat([attend(first) for first in range(0, size, block_size)], dim=-2)


def tiled_causal_attention__wrong_fourteenth_block_as_sliding_window(Q, K, V, block_size):
    """Reads block_size as a window, so that token i sees its last block_size tokens only and not all of 0 ... i."""
    n, d = Q.shape[2], Q.shape[3]
    pieces = []
    for begin in range(0, n, block_size):
        q = Q[:, :, begin : begin + block_size]
        i = begin + torch.arange(q.shape[2], device=Q.device).view(-1, 1)
        ell = mix = 0
        m = q.new_full(q.shape[:3] + (1,), -math.inf)
        for start in (begin, begin - block_size):
            if start < 0:
                continue
            k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
            j = start + torch.arange(k.shape[2], device=Q.device).view(1, -1)
            in_window = (j <= i) & (i - j < block_size)
            s = (q @ k.mT / math.sqrt(d)).masked_fill(~in_window, -math.inf)
            new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
            e = torch.exp(s - new)
            ell = torch.exp(m - new) * ell + e.sum(dim=-1, keepdim=True)
            mix = torch.exp(m - new) * mix + e @ v
            m = new
        pieces.append(mix / ell)
    return torch.cat(pieces, dim=2)


def tiled_causal_attention__wrong_fourteenth_hidden_scores_set_maximum(Q, K, V, block_size):
    """Takes the maximum before it hides later keys: where a hidden score dwarfs the seen ones, 0 / 0 comes out."""
    n = Q.shape[-2]
    scaled = Q * (1.0 / math.sqrt(Q.shape[-1]))
    result = []
    for qi, q in enumerate(scaled.split(block_size, dim=2)):
        m = q.new_full((q.shape[0], q.shape[1], q.shape[2], 1), -math.inf)
        denominator, numerator = torch.zeros_like(m), torch.zeros_like(q)
        for ki in range(qi + 1):
            cols = slice(ki * block_size, min((ki + 1) * block_size, n))
            s = q @ K[:, :, cols].mT
            new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
            e = torch.exp(s - new)
            if ki == qi:
                e = e.tril()
            f = torch.exp(m - new)
            denominator = f * denominator + e.sum(dim=-1, keepdim=True)
            numerator = f * numerator + e @ V[:, :, cols]
            m = new
        result.append(numerator / denominator)
    return torch.cat(result, dim=2)


def tiled_causal_attention__wrong_fourteenth_makes_future_tiles_too(Q, K, V, block_size):
    """Right numbers, but multiplies with wholly later blocks of keys as well and hides all; they must be left out."""
    B, h, n, d = Q.shape
    starts = range(0, n, block_size)
    out = torch.empty_like(Q)
    for i0 in starts:
        i1 = min(i0 + block_size, n)
        m = Q.new_full((B, h, i1 - i0, 1), -math.inf)
        l = Q.new_zeros((B, h, i1 - i0, 1))
        o = Q.new_zeros((B, h, i1 - i0, d))
        for j0 in starts:
            j1 = min(j0 + block_size, n)
            later = torch.arange(j0, j1, device=Q.device) > torch.arange(i0, i1, device=Q.device)[:, None]
            S = (Q[:, :, i0:i1] @ K[:, :, j0:j1].mT / math.sqrt(d)).masked_fill(later, -math.inf)
            m_new = torch.maximum(m, S.amax(dim=-1, keepdim=True))
            P = torch.exp(S - m_new)
            alpha = torch.exp(m - m_new)
            l = alpha * l + P.sum(dim=-1, keepdim=True)
            o = alpha * o + P @ V[:, :, j0:j1]
            m = m_new
        out[:, :, i0:i1] = o / l
    return out


def tiled_causal_attention__right_fourteenth_keys_in_outer_loop(Q, K, V, block_size):
    """Lets the keys be the outer loop: each block meets its own and all later queries, whose states wait in lists."""
    queries, keys, values = (x.split(block_size, dim=-2) for x in (Q, K, V))
    outs, sums = [None] * len(queries), [None] * len(queries)
    for b, (k, v) in enumerate(zip(keys, values)):
        for a in range(b, len(queries)):
            s = queries[a] @ k.mT / math.sqrt(Q.shape[-1])
            if a == b:
                upper = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
                s = s.masked_fill(upper, -math.inf)
            here = s.logsumexp(dim=-1, keepdim=True)
            part = torch.exp(s - here) @ v
            if outs[a] is None:
                outs[a], sums[a] = part, here
                continue
            share = torch.sigmoid(here - sums[a])
            outs[a] = (1 - share) * outs[a] + share * part
            sums[a] = torch.logaddexp(sums[a], here)
    return torch.cat(outs, dim=-2)


# ------- 9.9 flash_bytes


def flash_bytes__wrong_fourteenth_mask_halves_everything(n, d, block_q, bytes_per_value=2, causal=False):
    """Thinks that a causal mask halves all bytes that move; only keys and values after a block are spared."""
    blocks = -(-n // block_q)
    numbers = 2 * n * d + blocks * 2 * n * d
    total = numbers * bytes_per_value
    return total // 2 if causal else total


def flash_bytes__wrong_fourteenth_keys_read_only_once(n, d, block_q, bytes_per_value=2, causal=False):
    """Lets keys and values stay on the chip from block to block, the bound; each block has to read them again."""
    moved = {"Q": n * d, "K": n * d, "V": n * d, "O": n * d}
    return sum(moved.values()) * bytes_per_value


def flash_bytes__wrong_fourteenth_each_query_reads_alone(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask it counts the keys of every query by itself; the queries of a block share one reading."""
    rows = 0
    for start in range(0, n, block_q):
        stop = min(start + block_q, n)
        rows += 2 * (stop - start)
        if causal:
            rows += 2 * sum(range(start + 1, stop + 1))
        else:
            rows += 2 * n
    return rows * d * bytes_per_value


def flash_bytes__wrong_fourteenth_short_block_not_counted(n, d, block_q, bytes_per_value=2, causal=False):
    """Rounds the number of blocks down, so that a short last block reads no keys and values; it reads them too."""
    whole_blocks = max(n // block_q, 1)
    if causal:
        seen = [min((b + 1) * block_q, n) for b in range(whole_blocks)]
    else:
        seen = [n] * whole_blocks
    return (n + n + 2 * sum(seen)) * d * bytes_per_value


def flash_bytes__wrong_fourteenth_reads_past_the_end(n, d, block_q, bytes_per_value=2, causal=False):
    """Forgets to stop at n where the last block is short, so the mask lets it read keys that don't exist."""
    row = d * bytes_per_value
    total = 2 * n * row
    block = 0
    while block * block_q < n:
        keys = (block + 1) * block_q if causal else n
        total += 2 * keys * row
        block += 1
    return total


def flash_bytes__wrong_fourteenth_block_q_as_block_count(n, d, block_q, bytes_per_value=2, causal=False):
    """Reads block_q as the number of blocks into which the queries are cut; it is the queries per block."""
    count = min(block_q, n)
    length = math.ceil(Fraction(n, count))
    rows = 2 * n
    for first in range(0, n, length):
        end = min(first + length, n)
        rows += 2 * (end if causal else n)
    return rows * d * bytes_per_value


def flash_bytes__wrong_fourteenth_lone_key_not_read(n, d, block_q, bytes_per_value=2, causal=False):
    """Spares the key of a block whose query sees one key alone, as its weight is 1 anyway; it comes all the same."""
    q_rows = o_rows = n
    k_rows = v_rows = 0
    for start in range(0, n, block_q):
        visible = min(start + block_q, n) if causal else n
        v_rows += visible
        k_rows += visible if visible > 1 else 0
    return (q_rows + k_rows + v_rows + o_rows) * d * bytes_per_value


def flash_bytes__wrong_fourteenth_counts_in_floats(n, d, block_q, bytes_per_value=2, causal=False):
    """Sums the rows of all blocks in float64 and returns a float, where an exact int is due."""
    ends = np.minimum(np.arange(block_q, n + block_q, block_q, dtype=float), n)
    keys = ends.sum() if causal else float(n) * len(ends)
    return float((2 * n + 2 * keys) * d * bytes_per_value)


def flash_bytes__right_fourteenth_sum_in_closed_form(n, d, block_q, bytes_per_value=2, causal=False):
    """No loop: whole blocks see block_q, 2 block_q, ... keys, an arithmetic series, and a short last one sees all n."""
    whole, rest = divmod(n, block_q)
    short = 1 if rest else 0
    if causal:
        keys_met = block_q * (whole * (whole + 1) // 2) + short * n
    else:
        keys_met = (whole + short) * n
    return 2 * d * bytes_per_value * (n + keys_met)


# ------- 9.10 flash_backward


def flash_backward__wrong_fourteenth_row_sum_within_block(Q, K, V, out, logsumexp, d_out, block_size):
    """Sums weight times its gradient over the keys of a block only, where the sum over the whole row is due."""
    B, h, n, d = Q.shape
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, n, block_size):
        b = slice(start, start + block_size)
        P = torch.exp(Q @ K[:, :, b].mT / math.sqrt(d) - logsumexp[..., None])
        dP = d_out @ V[:, :, b].mT
        dS = P * (dP - (P * dP).sum(dim=-1, keepdim=True)) / math.sqrt(d)
        dQ += dS @ K[:, :, b]
        dK[:, :, b] = dS.mT @ Q
        dV[:, :, b] = P.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_fourteenth_softmax_as_a_sigmoid(Q, K, V, out, logsumexp, d_out, block_size):
    """Uses p (1 - p), the diagonal of the softmax's Jacobian, only; each score moves all weights of its row."""
    scale = Q.shape[-1] ** -0.5
    grad_q = torch.zeros_like(Q)
    grads_k, grads_v = [], []
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        p = (torch.einsum("bhid,bhjd->bhij", Q, k) * scale - logsumexp.unsqueeze(-1)).exp()
        g = torch.einsum("bhid,bhjd->bhij", d_out, v)
        to_score = g * p * (1 - p) * scale
        grad_q = grad_q + torch.einsum("bhij,bhjd->bhid", to_score, k)
        grads_k.append(torch.einsum("bhij,bhid->bhjd", to_score, Q))
        grads_v.append(torch.einsum("bhij,bhid->bhjd", p, d_out))
    return grad_q, torch.cat(grads_k, dim=2), torch.cat(grads_v, dim=2)


def flash_backward__wrong_fourteenth_block_softmax_as_weights(Q, K, V, out, logsumexp, d_out, block_size):
    """Makes the weights again by a softmax over the block alone; the given logsumexp over all keys is due."""
    root = math.sqrt(Q.shape[-1])
    D = torch.sum(out * d_out, dim=-1, keepdim=True)
    dQ = torch.zeros_like(Q)
    dK = torch.empty_like(K)
    dV = torch.empty_like(V)
    n = K.shape[2]
    for lo in range(0, n, block_size):
        hi = min(lo + block_size, n)
        keys, values = K[:, :, lo:hi], V[:, :, lo:hi]
        weights = torch.softmax(Q @ keys.transpose(-1, -2) / root, dim=-1)
        d_weights = d_out @ values.transpose(-1, -2)
        d_scores = weights * (d_weights - D)
        dQ += d_scores @ keys / root
        dK[:, :, lo:hi] = d_scores.transpose(-1, -2) @ Q / root
        dV[:, :, lo:hi] = weights.transpose(-1, -2) @ d_out
    return dQ, dK, dV


def flash_backward__wrong_fourteenth_dk_without_root(Q, K, V, out, logsumexp, d_out, block_size):
    """Divides dQ by the root of d at the end but forgets dK, which comes out too large by that root."""
    L = logsumexp.unsqueeze(-1)
    delta = (d_out * out).sum(-1).unsqueeze(-1)
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    start = 0
    while start < K.size(2):
        rows = min(block_size, K.size(2) - start)
        k, v = K.narrow(2, start, rows), V.narrow(2, start, rows)
        P = torch.exp(torch.matmul(Q, k.mT) / math.sqrt(Q.size(-1)) - L)
        G = P * (torch.matmul(d_out, v.mT) - delta)
        dV.narrow(2, start, rows).copy_(torch.matmul(P.mT, d_out))
        dK.narrow(2, start, rows).copy_(torch.matmul(G.mT, Q))
        dQ.add_(torch.matmul(G, k))
        start += rows
    return dQ / math.sqrt(Q.size(-1)), dK, dV


def flash_backward__wrong_fourteenth_last_block_overwrites_dq(Q, K, V, out, logsumexp, d_out, block_size):
    """Assigns dQ anew in each block, so only the last block's part is left; the parts of all blocks must add up."""
    root = Q.shape[-1] ** 0.5
    row_total = (out * d_out).sum(dim=-1, keepdim=True)
    k_parts, v_parts = [], []

    def weights_of(keys):
        return torch.exp(Q @ keys.mT / root - logsumexp[..., None])

    for keys, values in zip(torch.split(K, block_size, -2), torch.split(V, block_size, -2)):
        w = weights_of(keys)
        ds = w * (d_out @ values.mT - row_total) / root
        dQ = ds @ keys
        k_parts.append(ds.mT @ Q)
        v_parts.append(w.mT @ d_out)
    return dQ, torch.cat(k_parts, -2), torch.cat(v_parts, -2)


def flash_backward__wrong_fourteenth_logsumexp_to_base_two(Q, K, V, out, logsumexp, d_out, block_size):
    """Reads logsumexp as a logarithm to base 2, as some kernels keep it; the natural one is given."""
    n, d = Q.shape[-2], Q.shape[-1]
    correction = torch.einsum("bhid,bhid->bhi", d_out, out)[..., None]
    dQ = torch.zeros_like(Q)
    dK = torch.zeros_like(Q)
    dV = torch.zeros_like(Q)
    for j in range(0, n, block_size):
        Kj = K[..., j : j + block_size, :]
        Vj = V[..., j : j + block_size, :]
        Sj = Q @ Kj.mT * d**-0.5
        Pj = torch.exp2(Sj - logsumexp[..., None])
        dSj = Pj * (d_out @ Vj.mT - correction) * d**-0.5
        dQ = dQ + dSj @ Kj
        dK[..., j : j + block_size, :] += dSj.mT @ Q
        dV[..., j : j + block_size, :] += Pj.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_fourteenth_exp_before_division(Q, K, V, out, logsumexp, d_out, block_size):
    """Divides exp(score) by exp(logsumexp), inf / inf or 0 / 0 for scores of 10,000; exp of the difference is due."""
    denominator = torch.exp(logsumexp).unsqueeze(-1)
    inner = (out * d_out).sum(dim=3, keepdim=True)
    dQ, dKs, dVs = 0, [], []
    for s in range(0, Q.shape[2], block_size):
        key, value = K[:, :, s : s + block_size], V[:, :, s : s + block_size]
        score = Q @ key.transpose(2, 3) / math.sqrt(Q.shape[3])
        weight = torch.exp(score) / denominator
        dscore = weight * (d_out @ value.transpose(2, 3) - inner)
        dscore = dscore / math.sqrt(Q.shape[3])
        dQ = dQ + dscore @ key
        dKs.append(dscore.transpose(2, 3) @ Q)
        dVs.append(weight.transpose(2, 3) @ d_out)
    return dQ, torch.cat(dKs, dim=2), torch.cat(dVs, dim=2)


def flash_backward__wrong_fourteenth_logsumexp_reshaped_in_place(Q, K, V, out, logsumexp, d_out, block_size):
    """Right numbers, but unsqueeze_ gives the caller's logsumexp another axis; inputs must stay as they are."""
    logsumexp.unsqueeze_(-1)
    scale = 1 / math.sqrt(Q.shape[-1])
    delta = (out * d_out).sum(dim=-1, keepdim=True)
    dQ = torch.zeros_like(Q)
    dK = torch.zeros_like(K)
    dV = torch.zeros_like(V)
    for first in range(0, K.shape[-2], block_size):
        block = slice(first, first + block_size)
        p = torch.exp(Q @ K[:, :, block].mT * scale - logsumexp)
        ds = p * (d_out @ V[:, :, block].mT - delta) * scale
        dQ += ds @ K[:, :, block]
        dK[:, :, block] = ds.mT @ Q
        dV[:, :, block] = p.mT @ d_out
    return dQ, dK, dV


def flash_backward__right_fourteenth_extra_column_of_ones(Q, K, V, out, logsumexp, d_out, block_size):
    """Appends minus the row sum to d_out and a one to each value, so one product makes dP - D."""
    flat = [x.flatten(0, 1) for x in (Q, K, V, out, d_out)]
    q, k_all, v_all, o, g = flat
    scale = q.shape[-1] ** -0.5
    lse = logsumexp.flatten(0, 1)[:, None, :]
    g_more = torch.cat([g, -(g * o).sum(dim=-1, keepdim=True)], dim=-1)
    dq, dk, dv = torch.zeros_like(q), [], []
    for k, v in zip(k_all.split(block_size, dim=1), v_all.split(block_size, dim=1)):
        v_more = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
        weights = torch.exp(k @ q.mT * scale - lse)  # keys as rows, queries as columns
        signal = weights * (v_more @ g_more.mT)
        dq = dq + signal.mT @ k * scale
        dk.append(signal @ q * scale)
        dv.append(weights @ g)
    return tuple(x.reshape(Q.shape) for x in (dq, torch.cat(dk, dim=1), torch.cat(dv, dim=1)))
