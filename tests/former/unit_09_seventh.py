"""Answers to the exercises of unit 9 as students would hand them in: eight wrong and two right for each."""

import bisect
import functools
import math
import statistics

import numpy as np
import torch
import torch.nn.functional as F


# ---------------------------------------------------------------- 9.1 loop_attention


def loop_attention__wrong_seventh_softmax_over_heads(Q, K, V):
    """Serves all heads at once, so scores are (h, n), and takes the softmax along dim 0, the heads, in place of the keys."""
    out = torch.zeros_like(Q)
    root = math.sqrt(Q.shape[-1])
    for b in range(Q.shape[0]):
        for i in range(Q.shape[2]):
            scores = (K[b] @ Q[b, :, i].unsqueeze(-1)).squeeze(-1) / root  # (h, n)
            weights = scores.softmax(dim=0)
            out[b, :, i] = (weights.unsqueeze(-1) * V[b]).sum(dim=1)
    return out


def loop_attention__wrong_seventh_root_of_n(Q, K, V):
    """Takes the -2 entry of the shape for the width, so scores are divided by sqrt(n) and not by sqrt(d)."""
    batches, heads = Q.shape[:2]
    d = Q.shape[-2]
    result = torch.zeros_like(V)
    for b in range(batches):
        for head in range(heads):
            keys, values = K[b, head], V[b, head]
            for i, query in enumerate(Q[b, head]):
                s = keys @ query / d**0.5
                result[b, head, i] = torch.softmax(s, dim=0) @ values
    return result


def loop_attention__wrong_seventh_total_never_reset(Q, K, V):
    """The sum below the fraction starts at 0 once per head and not once per query, so it grows from query to query."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for k in range(h):
            total = 0
            for i in range(n):
                s = (K[b, k] * Q[b, k, i]).sum(-1) / d**0.5
                e = (s - s.max()).exp()
                total = total + e.sum()
                out[b, k, i] = (e[:, None] * V[b, k]).sum(0) / total
    return out


def loop_attention__wrong_seventh_bare_exp(Q, K, V):
    """Writes the softmax as exp(s) / exp(s).sum() without taking the largest score off: inf / inf at scores of 10,000."""
    rows = []
    for q_seq, k_seq, v_seq in zip(Q, K, V):
        for q_head, k_head, v_head in zip(q_seq, k_seq, v_seq):
            for q in q_head:
                powers = torch.exp(k_head @ q / math.sqrt(len(q)))
                rows.append(powers @ v_head / powers.sum())
    return torch.stack(rows).reshape(Q.shape)


def loop_attention__wrong_seventh_written_into_Q(Q, K, V):
    """Lets `out` be another name for Q and writes each row there: a query is not needed any more, but the input is changed."""
    out = Q
    B, h, n, d = Q.shape
    for b in range(B):
        for head in range(h):
            for i in range(n):
                a = torch.softmax(K[b, head] @ Q[b, head, i] / d**0.5, dim=-1)
                out[b, head, i] = a @ V[b, head]
    return out


def loop_attention__wrong_seventh_scores_as_python_floats(Q, K, V):
    """Makes each score a Python number with .item() and a new tensor of them: no gradient reaches Q and K."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                scores = [Q[b, head, i].dot(k).item() / d**0.5 for k in K[b, head]]
                top = max(scores)
                terms = [math.exp(s - top) for s in scores]
                weights = torch.tensor(terms, dtype=V.dtype, device=V.device) / sum(terms)
                out[b, head, i] = weights @ V[b, head]
    return out


def loop_attention__wrong_seventh_rows_reshaped(Q, K, V):
    """Loops over the queries on the outside, lists the rows, and reshapes the list to (B, h, n, d) though it is (n, B, h, d)."""
    B, h, n, d = Q.shape
    rows = []
    for i in range(n):
        for b in range(B):
            for head in range(h):
                s = K[b, head].matmul(Q[b, head, i]) * d**-0.5
                rows.append(F.softmax(s, dim=0).matmul(V[b, head]))
    return torch.cat(rows).reshape(B, h, n, d)


def loop_attention__wrong_seventh_whole_head_at_once(Q, K, V):
    """Loops over batch and head only and makes all n * n scores of a head in one product: the queries don't meet the keys one at a time."""
    sequences = []
    for q, k, v in zip(Q, K, V):
        heads = []
        for head in range(q.shape[0]):
            table = q[head] @ k[head].T / math.sqrt(q.shape[-1])
            heads.append(torch.softmax(table, dim=1) @ v[head])
        sequences.append(torch.stack(heads))
    return torch.stack(sequences)


def loop_attention__right_seventh_gate_key_by_key(Q, K, V):
    """For each query one key after the other: the mix moves towards the next value by that key's share of the sum so far; no division at the end."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for i in range(n):
            m = (Q[b, :, i] * K[b, :, 0]).sum(-1, keepdim=True) / math.sqrt(d)
            total, mix = torch.ones_like(m), V[b, :, 0]
            for j in range(1, n):
                s = (Q[b, :, i] * K[b, :, j]).sum(-1, keepdim=True) / math.sqrt(d)
                top = torch.maximum(m, s)
                term = torch.exp(s - top)
                total = total * torch.exp(m - top) + term
                mix = mix + term / total * (V[b, :, j] - mix)
                m = top
            out[b, :, i] = mix
    return out


def loop_attention__right_seventh_flat_heads(Q, K, V):
    """Flattens batch and head to one axis, divides q by the root before the product, weights as exp(log_softmax(s)), stacks the rows."""
    B, h, n, d = Q.shape
    flat_q, flat_k, flat_v = (x.reshape(B * h, n, d) for x in (Q, K, V))
    rows = []
    for t in range(B * h * n):
        head, i = divmod(t, n)
        s = torch.mv(flat_k[head], flat_q[head, i] / d**0.5)
        a = torch.exp(torch.log_softmax(s, 0))
        rows.append(torch.mv(flat_v[head].t(), a))
    return torch.stack(rows).view(B, h, n, d)


# ------------------------------------------------------------- 9.2 batched_attention


def batched_attention__wrong_seventh_hidden_scores_zero(Q, K, V, causal=False):
    """Hides later keys by tril(scores), which makes their scores 0 and not -inf, so they still get weight exp(0)."""
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.size(-1))
    if causal:
        scores = torch.tril(scores)
    return scores.softmax(dim=-1) @ V


def batched_attention__wrong_seventh_mask_after_softmax(Q, K, V, causal=False):
    """Cuts the triangle off the weights after the softmax over all keys and does not divide again: rows sum to less than 1."""
    weights = torch.softmax(Q @ K.mT / Q.shape[-1] ** 0.5, dim=-1)
    return (weights.tril() if causal else weights) @ V


def batched_attention__wrong_seventh_minus_1e4(Q, K, V, causal=False):
    """Puts -10,000 in place of -inf for later keys, which is no less than an allowed score of -10,000."""
    n, d = Q.shape[-2:]
    s = torch.einsum("bhid,bhjd->bhij", Q, K) / d**0.5
    if causal:
        later = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(1)
        s = s.masked_fill(later, -1e4)
    return torch.einsum("bhij,bhjd->bhid", s.softmax(-1), V)


def batched_attention__wrong_seventh_keys_reshaped(Q, K, V, causal=False):
    """Turns K to (B, h, d, n) by reshape, which keeps the order of the numbers, in place of a transpose."""
    B, h, n, d = K.shape
    columns = K.reshape(B, h, d, n)
    scores = torch.matmul(Q, columns) / d**0.5
    if causal:
        allowed = torch.tril(torch.ones(n, n, device=Q.device)).bool()
        scores = scores.masked_fill(~allowed, float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), V)


def batched_attention__wrong_seventh_one_maximum_for_all(Q, K, V, causal=False):
    """Writes the softmax by hand and subtracts the largest of all scores, not of each row: a row far below it becomes 0 / 0."""
    n, d = Q.shape[-2:]
    scores = Q @ K.mT / d**0.5
    if causal:
        place = torch.arange(n, device=Q.device)
        scores = torch.where(place[:, None] >= place, scores, -math.inf)
    terms = torch.exp(scores - scores.max())
    return terms @ V / terms.sum(dim=-1, keepdim=True)


def batched_attention__wrong_seventh_root_of_model_width(Q, K, V, causal=False):
    """Divides the scores by the root of h * d, the width of the model, and not of d, the width of a head."""
    _, n_heads, n, d_head = Q.shape
    d_model = n_heads * d_head
    scores = Q @ K.mT / math.sqrt(d_model)
    if causal:
        bias = torch.full((n, n), -math.inf, dtype=Q.dtype, device=Q.device).triu(1)
        scores = scores + bias
    return F.softmax(scores, dim=-1) @ V


def batched_attention__wrong_seventh_stays_float32(Q, K, V, causal=False):
    """Makes all three inputs float32 'for a stable softmax' and returns float32 whatever came in."""
    q, k, v = Q.float(), K.float(), V.float()
    logits = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
    if causal:
        size = q.shape[2]
        hidden = torch.triu(torch.ones(size, size, device=q.device), diagonal=1) == 1
        logits = logits.masked_fill(hidden, -torch.inf)
    return torch.softmax(logits, -1) @ v


def batched_attention__wrong_seventh_itself_hidden(Q, K, V, causal=False):
    """Hides the diagonal too (j >= i) and lets only token 0 see itself, against the NaN: every other token does not see itself."""
    n, d = Q.shape[-2:]
    scores = (Q / d**0.5) @ K.mT
    if causal:
        i = torch.arange(n, device=Q.device)
        hidden = i[None, :] >= i[:, None]
        hidden[0, 0] = False
        scores = scores.masked_fill(hidden, -math.inf)
    return scores.softmax(-1) @ V


def batched_attention__right_seventh_ones_column(Q, K, V, causal=False):
    """Appends a column of ones to V: one product of the shifted exponentials gives numerators and denominator, divided at the end."""
    n, d = Q.shape[-2:]
    scores = torch.matmul(Q / math.sqrt(d), K.mT)
    if causal:
        scores = scores + torch.full_like(scores[:1, :1], -math.inf).triu(1)
    terms = (scores - scores.amax(-1, keepdim=True)).exp()
    both = terms @ torch.cat([V, torch.ones_like(V[..., :1])], dim=-1)
    return both[..., :d] / both[..., d:]


def batched_attention__right_seventh_transposed_table(Q, K, V, causal=False):
    """Makes the table as keys by queries, softmax down the keys' axis by log_softmax, and transposes in the last product."""
    n, d = Q.shape[-2:]
    table = torch.einsum("bhjd,bhid->bhji", K, Q / d**0.5)
    if causal:
        place = torch.arange(n, device=Q.device)
        table = table.masked_fill(place[:, None] > place[None, :], -math.inf)
    weights = torch.log_softmax(table, dim=-2).exp()
    return torch.einsum("bhji,bhjd->bhid", weights, V)


# --------------------------------------------------------------- 9.3 tiled_attention


def tiled_attention__wrong_seventh_one_maximum_a_head(Q, K, V, block_size):
    """Keeps one running maximum for a whole head, amax over queries and keys, so a query far below it ends as 0 / 0."""
    B, h, n, d = Q.shape
    m = Q.new_full((B, h, 1, 1), -math.inf)
    total, mix = Q.new_zeros(B, h, n, 1), torch.zeros_like(Q)
    for first in range(0, n, block_size):
        s = Q @ K[:, :, first : first + block_size].mT / d**0.5
        new = torch.maximum(m, s.amax(dim=(-2, -1), keepdim=True))
        shrink, p = torch.exp(m - new), torch.exp(s - new)
        total = total * shrink + p.sum(-1, keepdim=True)
        mix = mix * shrink + p @ V[:, :, first : first + block_size]
        m = new
    return mix / total


def tiled_attention__wrong_seventh_last_block_moved_back(Q, K, V, block_size):
    """Moves the last, short block back so that it is full: the keys where it overlaps the block before count twice."""
    B, h, n, d = Q.shape
    m = torch.full((B, h, n, 1), -math.inf, dtype=Q.dtype, device=Q.device)
    l, o = torch.zeros_like(m), torch.zeros_like(Q)
    for start in range(0, n, block_size):
        start = max(0, min(start, n - block_size))
        k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        s = Q @ k.transpose(-1, -2) / math.sqrt(d)
        m_new = torch.maximum(m, s.amax(-1, keepdim=True))
        f = (m - m_new).exp()
        e = (s - m_new).exp()
        l, o, m = f * l + e.sum(-1, keepdim=True), f * o + e @ v, m_new
    return o / l


def tiled_attention__wrong_seventh_zero_rows_appended(Q, K, V, block_size):
    """Pads K and V with rows of zeros up to whole blocks and does not hide them: the zero keys get scores of 0 and count in the sum."""
    n, d = Q.shape[-2:]
    missing = -n % block_size
    K, V = (F.pad(x, (0, 0, 0, missing)) for x in (K, V))
    top = torch.full_like(Q[..., :1], -math.inf)
    below = torch.zeros_like(top)
    above = torch.zeros_like(Q)
    for b in range((n + missing) // block_size):
        here = slice(b * block_size, (b + 1) * block_size)
        scores = torch.einsum("bhid,bhjd->bhij", Q, K[:, :, here]) / d**0.5
        new_top = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
        factor, terms = torch.exp(top - new_top), torch.exp(scores - new_top)
        below = factor * below + terms.sum(dim=-1, keepdim=True)
        above = factor * above + torch.einsum("bhij,bhjd->bhid", terms, V[:, :, here])
        top = new_top
    return above / below


def tiled_attention__wrong_seventh_blocks_weighed_by_exp(Q, K, V, block_size):
    """Gives each block a softmax of its own and weighs the blocks by exp(logsumexp), not measured against any maximum: overflows at large scores."""
    above, below = 0, 0
    for keys, values in zip(K.split(block_size, 2), V.split(block_size, 2)):
        scores = Q @ keys.mT / math.sqrt(Q.shape[-1])
        weight = scores.logsumexp(dim=-1, keepdim=True).exp()
        above = above + weight * (scores.softmax(-1) @ values)
        below = below + weight
    return above / below


def tiled_attention__wrong_seventh_two_passes(Q, K, V, block_size):
    """Goes over the blocks once for the largest score of each query and a second time for the sums: two passes, every score made twice."""
    root = Q.shape[-1] ** 0.5
    starts = range(0, K.shape[2], block_size)

    def scores(start):
        return Q @ K[:, :, start : start + block_size].mT / root

    m = scores(0).amax(-1, keepdim=True)
    for start in starts[1:]:
        m = torch.maximum(m, scores(start).amax(-1, keepdim=True))
    total = mix = 0
    for start in starts:
        terms = torch.exp(scores(start) - m)
        total = total + terms.sum(-1, keepdim=True)
        mix = mix + terms @ V[:, :, start : start + block_size]
    return mix / total


def tiled_attention__wrong_seventh_chunk_for_split(Q, K, V, block_size):
    """Cuts with chunk(block_size), which makes block_size blocks and not blocks of block_size: with 1 all scores stand at once."""
    m, total, mix = -math.inf, 0.0, 0.0
    for keys, values in zip(K.chunk(block_size, dim=2), V.chunk(block_size, dim=2)):
        s = Q @ keys.mT / Q.size(-1) ** 0.5
        biggest = s.amax(-1, keepdim=True)
        new = biggest if isinstance(m, float) else torch.maximum(m, biggest)
        factor = torch.exp(m - new)
        e = torch.exp(s - new)
        total = factor * total + e.sum(-1, keepdim=True)
        mix = factor * mix + e @ values
        m = new
    return mix / total


def tiled_attention__wrong_seventh_state_detached(Q, K, V, block_size):
    """Detaches m, l and o at the start of each block 'so that old blocks are forgotten': no gradient from any but the last block."""
    B, h, n, d = Q.shape
    m = Q.new_full((B, h, n, 1), -math.inf)
    l = Q.new_zeros((B, h, n, 1))
    o = Q.new_zeros((B, h, n, d))
    for j in range(0, n, block_size):
        m, l, o = m.detach(), l.detach(), o.detach()
        S = (Q @ K[..., j : j + block_size, :].mT).div(d**0.5)
        m_new = torch.maximum(m, S.amax(-1, True))
        P = S.sub(m_new).exp()
        c = m.sub(m_new).exp()
        l = l * c + P.sum(-1, True)
        o = o * c + P @ V[..., j : j + block_size, :]
        m = m_new
    return o / l


def tiled_attention__wrong_seventh_factor_on_own_terms_too(Q, K, V, block_size):
    """Adds the block's terms first and multiplies by the factor afterwards, so the new terms shrink as well when m grows."""
    n, d = Q.shape[-2:]
    m = (Q * K[:, :, :1]).sum(-1, keepdim=True) / d**0.5  # the score with key 0
    total = torch.zeros_like(m)
    mix = torch.zeros_like(Q)
    for start in range(0, n, block_size):
        stop = start + block_size
        scores = Q @ K[:, :, start:stop].mT / d**0.5
        new_m = torch.maximum(m, scores.amax(-1, keepdim=True))
        terms = torch.exp(scores - new_m)
        total = total + terms.sum(-1, keepdim=True)
        mix = mix + terms @ V[:, :, start:stop]
        factor = torch.exp(m - new_m)
        total, mix = factor * total, factor * mix
        m = new_m
    return mix / total


def tiled_attention__right_seventh_merge_by_gate(Q, K, V, block_size):
    """The output is a finished one after each block: a block's own attention is mixed in with its share of the sum so far."""
    d = Q.shape[-1]
    out = m = total = None
    for first in range(0, K.shape[-2], block_size):
        keys, values = (x.narrow(-2, first, min(block_size, x.shape[-2] - first)) for x in (K, V))
        scores = torch.matmul(Q / math.sqrt(d), keys.transpose(-2, -1))
        block_m = scores.amax(-1, keepdim=True)
        terms = torch.exp(scores - block_m)
        block_total = terms.sum(-1, keepdim=True)
        block_out = terms @ values / block_total
        if out is None:
            out, m, total = block_out, block_m, block_total
            continue
        top = torch.maximum(m, block_m)
        old, new = total * torch.exp(m - top), block_total * torch.exp(block_m - top)
        share = new / (old + new)
        out = (1 - share) * out + share * block_out
        m, total = top, old + new
    return out


def tiled_attention__right_seventh_backwards_with_ones_column(Q, K, V, block_size):
    """Walks the blocks from the last to the first; o and l are one tensor, the mix of V with a column of ones appended."""
    B, h, n, d = Q.shape
    m = Q.new_full((B, h, n, 1), -math.inf)
    state = Q.new_zeros(B, h, n, d + 1)
    for start in reversed(range(0, n, block_size)):
        stop = min(n, start + block_size)
        values = torch.cat([V[:, :, start:stop], V.new_ones(B, h, stop - start, 1)], -1)
        s = torch.einsum("bhid,bhjd->bhij", Q / d**0.5, K[:, :, start:stop])
        higher = torch.maximum(m, s.amax(-1, keepdim=True))
        state = torch.exp(m - higher) * state + torch.exp(s - higher) @ values
        m = higher
    return state[..., :d] / state[..., d:]


# --------------------------------------------------------------- 9.4 attention_flops


def attention_flops__wrong_seventh_one_addition_less(batch, n_heads, n, d_head):
    """Counts b multiplications and only b - 1 additions for each result, so 2b - 1 and not 2b."""
    scores = n * n * (2 * d_head - 1)
    mixing = n * d_head * (2 * n - 1)
    return batch * n_heads * (scores + mixing)


def attention_flops__wrong_seventh_softmax_counted(batch, n_heads, n, d_head):
    """Adds the softmax: an exponential, an addition and a division for each score."""
    products = 2 * (2 * n * n * d_head)
    softmax = 3 * n**2
    return batch * n_heads * (products + softmax)


def attention_flops__wrong_seventh_second_product_n_d_d(batch, n_heads, n, d_head):
    """Takes the second product to be (n, d) with (d, d), so 2 n d d, where it is (n, n) with (n, d)."""
    first = 2 * n * d_head * n
    second = 2 * n * d_head * d_head
    return batch * n_heads * (first + second)


def attention_flops__wrong_seventh_projections_counted(batch, n_heads, n, d_head):
    """Adds the four projections of a layer, 8 n (h d)^2 for each sequence, which are not among the two products."""
    width = n_heads * d_head
    projections = 4 * (2 * n * width * width)
    attention = 2 * (2 * n * n * width)
    return batch * (projections + attention)


def attention_flops__wrong_seventh_half_for_causal(batch, n_heads, n, d_head):
    """Counts only the n (n + 1) / 2 pairs that a causal mask leaves, where a mask must save nothing."""
    pairs = sum((n, n * (n - 1) // 2))
    return 4 * pairs * d_head * n_heads * batch


def attention_flops__wrong_seventh_every_head_as_wide_as_model(batch, n_heads, n, d_head):
    """Lets each head work on the whole width n_heads * d_head and multiplies by the heads again: n_heads counts squared."""
    d_model = n_heads * d_head
    per_head = sum(2 * a * b * c for a, b, c in ((n, d_model, n), (n, n, d_model)))
    return batch * n_heads * per_head


def attention_flops__wrong_seventh_through_a_float(batch, n_heads, n, d_head):
    """Multiplies with 4e0 and n ** 2.0 and makes an int of the float at the end: no longer exact above 2 ** 53."""
    return int(4e0 * batch * n_heads * n**2.0 * d_head)


def attention_flops__wrong_seventh_batch_as_one_long_text(batch, n_heads, n, d_head):
    """Joins all sequences to one of batch * n tokens and squares that, so sequences attend to each other."""
    tokens = batch * n
    flops = 0
    for _ in ("Q K^T", "A V"):
        flops += 2 * tokens * tokens * d_head * n_heads
    return flops


def attention_flops__right_seventh_by_shapes(batch, n_heads, n, d_head):
    """A function for the cost of a product of two shapes, summed over both products, times the number of heads in the batch."""

    def cost(left, right):
        (rows, inner), (also_inner, columns) = left, right
        assert inner == also_inner
        return 2 * rows * inner * columns

    q, k_t, a, v = (n, d_head), (d_head, n), (n, n), (n, d_head)
    return (cost(q, k_t) + cost(a, v)) * (batch * n_heads)


def attention_flops__right_seventh_triangles_and_shift(batch, n_heads, n, d_head):
    """n squared as two triangles and a diagonal, and the factor four as a shift by two bits."""
    triangle = n * (n - 1) >> 1
    pairs = triangle + triangle + n
    return functools.reduce(int.__mul__, (int(batch), int(n_heads), int(d_head)), pairs) << 2


# ------------------------------------------------------------ 9.5 score_matrix_bytes


def score_matrix_bytes__wrong_seventh_bits(batch, n_heads, n, bytes_per_value=2):
    """Takes a byte for eight numbers of the result: returns bits."""
    scores = batch * n_heads * n**2
    return scores * bytes_per_value * 8


def score_matrix_bytes__wrong_seventh_scores_and_weights(batch, n_heads, n, bytes_per_value=2):
    """Counts S and the weights A, both n by n, where only the scores are asked for, once."""
    S = batch * n_heads * n * n
    A = S
    return bytes_per_value * (S + A)


def score_matrix_bytes__wrong_seventh_lower_triangle(batch, n_heads, n, bytes_per_value=2):
    """Counts the scores on and below the diagonal only, as if there were a causal mask."""
    per_head = n * (n + 1) // 2
    return math.prod([batch, n_heads, per_head, bytes_per_value])


def score_matrix_bytes__wrong_seventh_heads_share_one_table(batch, n_heads, n, bytes_per_value=2):
    """Leaves n_heads out, as if the heads shared one n by n table since they split the width."""
    table = n * n
    total_bytes = 0
    for _ in range(batch):
        total_bytes += table * bytes_per_value
    return total_bytes


def score_matrix_bytes__wrong_seventh_int32(batch, n_heads, n, bytes_per_value=2):
    """Multiplies with np.prod in int32, which wraps around from 2 ** 31 bytes on."""
    return int(np.prod(np.array([batch, n_heads, n, n, bytes_per_value], dtype=np.int32), dtype=np.int32))


def score_matrix_bytes__wrong_seventh_one_number_a_token(batch, n_heads, n, bytes_per_value=2):
    """Counts one number for each token and head, as of the logsumexp, and not one for each pair of tokens."""
    numbers = 0
    for _ in range(batch):
        numbers += n_heads * n
    return numbers * bytes_per_value


def score_matrix_bytes__wrong_seventh_no_score_with_itself(batch, n_heads, n, bytes_per_value=2):
    """Counts pairs of different tokens, n (n - 1), without the diagonal."""
    pairs = n * (n - 1)
    return batch * n_heads * pairs * bytes_per_value


def score_matrix_bytes__wrong_seventh_argument_unused(batch, n_heads, n, bytes_per_value=2):
    """Always takes two bytes for a number, whatever bytes_per_value says."""
    size_of_bfloat16 = torch.finfo(torch.bfloat16).bits // 8
    return size_of_bfloat16 * n * n * n_heads * batch


def score_matrix_bytes__right_seventh_row_by_row(batch, n_heads, n, bytes_per_value=2):
    """Bytes of one row of scores, rows of one head, heads of the batch, multiplied up step by step."""
    row = n * bytes_per_value
    table = n * row
    sequence = n_heads * table
    return batch * sequence


def score_matrix_bytes__right_seventh_difference_of_squares(batch, n_heads, n, bytes_per_value=2):
    """n squared as (n + 1)(n - 1) + 1, folded with the other factors by reduce."""
    pairs = (n + 1) * (n - 1) + 1
    return functools.reduce(lambda x, y: x * y, [pairs, bytes_per_value, n_heads, batch])


# -------------------------------------------------------------- 9.6 roofline_seconds


def roofline_seconds__wrong_seventh_copy_takes_no_time(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Returns 0 at once where there are no operations, though the bytes of a copy still take their time."""
    if not flops:
        return 0.0
    return max(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_seventh_no_bytes_no_time(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Goes by the intensity and, so as not to divide by 0, returns 0 where no bytes are moved, though the arithmetic takes time."""
    if bytes_moved == 0:
        return 0.0
    intensity = flops / bytes_moved
    border = peak_flops / peak_bandwidth
    if intensity > border:
        return flops / peak_flops
    return bytes_moved / peak_bandwidth


def roofline_seconds__wrong_seventh_the_rate(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Returns the height of the roof, the highest possible operations per second, and not the seconds."""
    if bytes_moved == 0:
        return float(peak_flops)
    return float(min(peak_flops, flops / bytes_moved * peak_bandwidth))


def roofline_seconds__wrong_seventh_bytes_as_bits(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Turns the bytes into bits, as if the bandwidth were in bits per second."""
    times = {"arithmetic": flops / peak_flops, "memory": 8 * bytes_moved / peak_bandwidth}
    return max(times.values())


def roofline_seconds__wrong_seventh_milliseconds(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Returns milliseconds, as the text's tables have them, and not seconds."""
    to_ms = 1e3
    compute, move = to_ms * flops / peak_flops, to_ms * bytes_moved / peak_bandwidth
    return compute if compute >= move else move


def roofline_seconds__wrong_seventh_root_of_squares(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Joins the two times as sqrt(a^2 + b^2), a smooth corner, and not as their maximum."""
    return math.hypot(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_seventh_maxima_divided(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Takes the larger of operations and bytes and divides it by the larger of the two peaks: one maximum above and one below."""
    work = max(flops, bytes_moved)
    speed = max(peak_flops, peak_bandwidth)
    return work / speed


def roofline_seconds__wrong_seventh_rounded_to_milliseconds(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Rounds the result to three places: a kernel of some microseconds takes 0."""
    seconds = max(flops / peak_flops, bytes_moved / peak_bandwidth)
    return round(seconds, 3)


def roofline_seconds__right_seventh_what_is_not_hidden(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The arithmetic's time and that part of the moving which it does not hide."""
    computing = flops / peak_flops
    moving = bytes_moved / peak_bandwidth
    if moving <= computing:
        return float(computing)
    left_over = moving - computing
    return float(moving) if computing == 0 else float(computing + left_over)


def roofline_seconds__right_seventh_products_compared(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Finds the side by comparing flops * bandwidth with bytes * peak, both without division, and divides on that side only."""
    compute_bound = flops * peak_bandwidth >= bytes_moved * peak_flops
    work, rate = (flops, peak_flops) if compute_bound else (bytes_moved, peak_bandwidth)
    return float(work / rate)


# ------------------------------------------------------------------- 9.7 median_time


def median_time__wrong_seventh_always_one_warmup(run, synchronize, clock, warmup, repeats):
    """Warms up at least once, max(warmup, 1): with warmup = 0 the job runs once too often and the first run is not timed."""
    for _ in range(max(warmup, 1)):
        run()
    taken = []
    for _ in range(repeats):
        synchronize()
        begin = clock()
        run()
        synchronize()
        taken.append(clock() - begin)
    return float(statistics.median(taken))


def median_time__wrong_seventh_outliers_thrown_out(run, synchronize, clock, warmup, repeats):
    """Throws out the runs that took more than twice the shortest 'as disturbed' and takes the median of those left."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    calm = [t for t in times if t <= 2 * min(times)] or times
    return float(np.median(calm))


def median_time__wrong_seventh_last_warmup_counted(run, synchronize, clock, warmup, repeats):
    """One loop over all runs keeps those from number warmup - 1 on, counted from 0: the last warm-up run is among the timed ones."""
    times = []
    for number in range(warmup + repeats):
        synchronize()
        t0 = clock()
        run()
        synchronize()
        t1 = clock()
        if number >= warmup - 1:
            times.append(t1 - t0)
    return float(statistics.median(times))


def median_time__wrong_seventh_order_subtracted(run, synchronize, clock, warmup, repeats):
    """Also reads the clock right after run() and takes what the call itself cost off each time: only the waiting counts."""
    for _ in range(warmup):
        run()
    durations = []
    for _ in range(repeats):
        synchronize()
        before = clock()
        run()
        overhead = clock() - before
        synchronize()
        durations.append(clock() - before - overhead)
    return float(statistics.median(durations))


def median_time__wrong_seventh_median_of_readings(run, synchronize, clock, warmup, repeats):
    """Returns the median of the ends minus the median of the starts: for an odd count the middle run in time, not in length."""
    [run() for _ in range(warmup)]
    starts, ends = [], []
    for _ in range(repeats):
        synchronize()
        starts.append(clock())
        run()
        synchronize()
        ends.append(clock())
    return float(statistics.median(ends) - statistics.median(starts))


def median_time__wrong_seventh_clock_taken_to_start_at_zero(run, synchronize, clock, warmup, repeats):
    """Never reads the clock at the start: a run's time is the reading less the times so far, so the first holds whatever the clock showed before."""
    for _ in range(warmup):
        run()
    synchronize()
    times = []
    for _ in range(repeats):
        run()
        synchronize()
        times.append(clock() - sum(times))
    return float(statistics.median(times))


def median_time__wrong_seventh_clock_before_synchronize(run, synchronize, clock, warmup, repeats):
    """Reads the clock for the start and synchronises only then: what is still in the queue counts for the first timed run."""

    def once():
        start = clock()
        synchronize()
        run()
        synchronize()
        return clock() - start

    for _ in range(warmup):
        run()
    return float(statistics.median(once() for _ in range(repeats)))


def median_time__wrong_seventh_whole_ticks(run, synchronize, clock, warmup, repeats):
    """Makes an int of each difference: fractions of a unit of the clock are lost (with seconds, everything)."""
    while warmup > 0:
        run()
        warmup -= 1
    synchronize()
    measured = torch.zeros(repeats, dtype=torch.long)
    for r in range(repeats):
        synchronize()
        started = clock()
        run()
        synchronize()
        measured[r] = int(clock() - started)
    return float(np.median(measured.numpy()))


def median_time__right_seventh_laps(run, synchronize, clock, warmup, repeats):
    """Reads the clock once per run, always synchronised: one run's end is the next one's start; the median is the middle of np.diff sorted."""
    for _ in range(warmup):
        run()
    synchronize()
    readings = [clock()]
    for _ in range(repeats):
        run()
        synchronize()
        readings.append(clock())
    laps = sorted(b - a for a, b in zip(readings, readings[1:]))
    return float((laps[(repeats - 1) // 2] + laps[repeats // 2]) / 2)


def median_time__right_seventh_all_timed_sorted_insert(run, synchronize, clock, warmup, repeats):
    """Times every run, warm-up too, but puts only the later ones into a sorted list by insort; a slice holds its one or two middle numbers."""
    ordered = []
    for number in range(warmup + repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        stop = clock()
        if number >= warmup:
            bisect.insort(ordered, stop - start)
    middle = ordered[(repeats - 1) // 2 : repeats // 2 + 1]
    return float(sum(middle) / len(middle))


# -------------------------------------------------------- 9.8 tiled_causal_attention


def tiled_causal_attention__wrong_seventh_triangle_in_every_tile(Q, K, V, block_size):
    """Cuts the upper triangle off every tile and not off those on the diagonal only: earlier blocks are half hidden as well."""
    B, h, n, d = Q.shape
    rows = []
    for a in range(0, n, block_size):
        q = Q[:, :, a : a + block_size]
        m = torch.full_like(q[..., :1], -math.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for b in range(0, a + 1, block_size):
            k, v = K[:, :, b : b + block_size], V[:, :, b : b + block_size]
            s = q @ k.mT / d**0.5
            later = torch.ones(s.shape[-2:], dtype=torch.bool, device=Q.device).triu(1)
            s = s.masked_fill(later, -math.inf)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            f, e = torch.exp(m - new), torch.exp(s - new)
            l, o, m = f * l + e.sum(-1, keepdim=True), f * o + e @ v, new
        rows.append(o / l)
    return torch.cat(rows, dim=2)


def tiled_causal_attention__wrong_seventh_causal_by_blocks_only(Q, K, V, block_size):
    """Leaves later blocks out and hides nothing in the tiles on the diagonal: a token sees its own block to the end."""
    d = Q.shape[-1]
    q_blocks, k_blocks, v_blocks = (x.split(block_size, dim=-2) for x in (Q, K, V))
    done = []
    for i, q in enumerate(q_blocks):
        m, total, mix = None, 0.0, 0.0
        for k, v in zip(k_blocks[: i + 1], v_blocks[: i + 1]):
            scores = q @ k.mT / math.sqrt(d)
            top = scores.amax(-1, keepdim=True)
            new = top if m is None else torch.maximum(m, top)
            factor = 0.0 if m is None else torch.exp(m - new)
            terms = torch.exp(scores - new)
            total = factor * total + terms.sum(-1, keepdim=True)
            mix = factor * mix + terms @ v
            m = new
        done.append(mix / total)
    return torch.cat(done, dim=-2)


def tiled_causal_attention__wrong_seventh_key_places_within_block(Q, K, V, block_size):
    """Compares the queries' places in the text with the keys' places in their block: from the second block on nothing is hidden on the diagonal."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for first in range(0, n, block_size):
        last = min(first + block_size, n)
        query_places = torch.arange(first, last, device=Q.device)
        m = Q.new_full((B, h, last - first, 1), -math.inf)
        l = torch.zeros_like(m)
        o = Q.new_zeros(B, h, last - first, d)
        for start in range(0, last, block_size):
            k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
            key_places = torch.arange(k.shape[2], device=Q.device)
            s = torch.einsum("bhid,bhjd->bhij", Q[:, :, first:last], k) / d**0.5
            s = s.masked_fill(key_places > query_places[:, None], -math.inf)
            m_new = torch.maximum(m, s.amax(-1, keepdim=True))
            p = (s - m_new).exp()
            shrink = (m - m_new).exp()
            l = shrink * l + p.sum(-1, keepdim=True)
            o = shrink * o + p @ v
            m = m_new
        out[:, :, first:last] = o / l
    return out


def tiled_causal_attention__wrong_seventh_maximum_of_hidden_scores(Q, K, V, block_size):
    """Takes the running maximum before hiding and zeroes the hidden terms after exp: where a hidden score is far higher, a query is left with 0 / 0."""
    n, d = Q.shape[-2:]
    result = []
    for i in range(0, n, block_size):
        queries = Q[:, :, i : i + block_size] / d**0.5
        top = torch.full_like(queries[..., :1], -math.inf)
        below, above = torch.zeros_like(top), torch.zeros_like(queries)
        for j in range(0, i + 1, block_size):
            table = queries @ K[:, :, j : j + block_size].mT
            new_top = torch.maximum(top, table.amax(-1, keepdim=True))
            terms = torch.exp(table - new_top)
            if i == j:
                terms = terms.tril()
            mend = torch.exp(top - new_top)
            below = mend * below + terms.sum(-1, keepdim=True)
            above = mend * above + terms @ V[:, :, j : j + block_size]
            top = new_top
        result.append(above / below)
    return torch.cat(result, dim=2)


def tiled_causal_attention__wrong_seventh_future_tiles_made(Q, K, V, block_size):
    """Meets all blocks of keys for every block of queries and fills the later ones with -inf: right numbers, but the tiles of the future are multiplied."""
    B, h, n, d = Q.shape
    places = torch.arange(n, device=Q.device)
    finished = []
    for q, rows in zip(Q.split(block_size, 2), places.split(block_size)):
        m = q.new_full((*q.shape[:3], 1), -math.inf)
        total, mix = 0 * m.exp(), q * 0
        for k, v, columns in zip(K.split(block_size, 2), V.split(block_size, 2), places.split(block_size)):
            s = (q @ k.mT / d**0.5).masked_fill(columns[None] > rows[:, None], -math.inf)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            factor = torch.exp(m - new)
            e = torch.exp(s - new)
            total = factor * total + e.sum(-1, keepdim=True)
            mix = factor * mix + e @ v
            m = new
        finished.append(mix / total)
    return torch.cat(finished, dim=2)


def tiled_causal_attention__wrong_seventh_keys_not_cut(Q, K, V, block_size):
    """Cuts the queries only: each block of them is multiplied at once with all keys up to its end, up to block_size * n scores a head."""
    n, d = Q.shape[-2:]
    parts = []
    for start in range(0, n, block_size):
        stop = min(n, start + block_size)
        scores = Q[..., start:stop, :] @ K[..., :stop, :].mT / d**0.5
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(start + 1)
        weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
        parts.append(weights @ V[..., :stop, :])
    return torch.cat(parts, -2)


def tiled_causal_attention__wrong_seventh_root_on_the_diagonal_only(Q, K, V, block_size):
    """Has a branch for the tiles on the diagonal and one for whole tiles, and divides by sqrt(d) in the first alone."""
    B, h, n, d = Q.shape
    outputs = []
    for qs in range(0, n, block_size):
        qb = Q[:, :, qs : qs + block_size]
        rows = qb.shape[2]
        m = Q.new_full((B, h, rows, 1), -math.inf)
        l = Q.new_zeros((B, h, rows, 1))
        acc = Q.new_zeros((B, h, rows, d))
        for ks in range(0, qs + 1, block_size):
            kb, vb = K[:, :, ks : ks + block_size], V[:, :, ks : ks + block_size]
            if ks < qs:
                s = qb @ kb.mT
            else:
                mask = torch.tril(torch.ones(rows, rows, dtype=torch.bool, device=Q.device))
                s = (qb @ kb.mT / math.sqrt(d)).masked_fill(~mask, float("-inf"))
            new_m = torch.maximum(m, s.amax(dim=-1, keepdim=True))
            p = torch.exp(s - new_m)
            alpha = torch.exp(m - new_m)
            l = alpha * l + p.sum(dim=-1, keepdim=True)
            acc = alpha * acc + p @ vb
            m = new_m
        outputs.append(acc / l)
    return torch.cat(outputs, dim=2)


def tiled_causal_attention__wrong_seventh_written_through_data(Q, K, V, block_size):
    """Writes finished blocks through out.data, against an error about writing in place: the result is cut off from Q, K and V."""
    n, d = Q.shape[-2:]
    out = torch.empty_like(Q)
    for i0 in range(0, n, block_size):
        i1 = min(i0 + block_size, n)
        m, l, o = -math.inf, 0, 0
        for j0 in range(0, i1, block_size):
            j1 = min(j0 + block_size, n)
            s = Q[:, :, i0:i1] @ K[:, :, j0:j1].mT * d**-0.5
            if j0 == i0:
                s = s + torch.full((i1 - i0, j1 - j0), -math.inf, dtype=s.dtype, device=s.device).triu(1)
            m_new = s.amax(-1, keepdim=True).clamp(min=m)
            p, factor = (s - m_new).exp(), (m - m_new).exp()
            l, o = factor * l + p.sum(-1, keepdim=True), factor * o + p @ V[:, :, j0:j1]
            m = m_new
        out.data[:, :, i0:i1] = o / l
    return out


def tiled_causal_attention__right_seventh_keys_outside(Q, K, V, block_size):
    """Blocks of keys in the outer loop, those of queries from the same place on in the inner one; a state waits for each block of queries."""
    n, d = Q.shape[-2:]
    starts = list(range(0, n, block_size))
    state = {}
    for j in starts:
        k, v = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
        for i in starts:
            if i < j:
                continue
            q = Q[:, :, i : i + block_size] / math.sqrt(d)
            s = q @ k.mT
            rows = torch.arange(i, i + q.shape[2], device=Q.device)
            columns = torch.arange(j, j + k.shape[2], device=Q.device)
            s = s.masked_fill(rows[:, None] < columns[None, :], -math.inf)
            top = s.amax(-1, keepdim=True)
            if i in state:
                m, total, mix = state[i]
                top = torch.maximum(m, top)
                factor = torch.exp(m - top)
            else:
                factor, total, mix = torch.zeros_like(top), 0, 0
            terms = torch.exp(s - top)
            state[i] = top, factor * total + terms.sum(-1, keepdim=True), factor * mix + terms @ v
    return torch.cat([state[i][2] / state[i][1] for i in starts], dim=2)


def tiled_causal_attention__right_seventh_diagonal_first_then_back(Q, K, V, block_size):
    """For each block of queries the tile on the diagonal first, then the earlier ones backwards; a tile's own softmax is merged in by its share."""
    d = Q.shape[-1]
    qs, ks, vs = (torch.split(x, block_size, dim=2) for x in (Q, K, V))

    def one_tile(t, e):
        scores = torch.einsum("bhid,bhjd->bhij", qs[t] / d**0.5, ks[e])
        if e == t:
            size = scores.shape[-1]
            later = torch.triu(torch.ones(size, size, dtype=torch.bool, device=Q.device), 1)
            scores = scores.masked_fill(later, -math.inf)
        top = scores.amax(-1, keepdim=True)
        return torch.softmax(scores, -1) @ vs[e], top, torch.exp(scores - top).sum(-1, keepdim=True)

    finished = []
    for t in range(len(qs)):
        out, m, total = one_tile(t, t)
        for e in range(t - 1, -1, -1):
            other, other_m, other_total = one_tile(t, e)
            top = torch.maximum(m, other_m)
            mine, theirs = total * torch.exp(m - top), other_total * torch.exp(other_m - top)
            total, m = mine + theirs, top
            out = torch.lerp(out, other, (theirs / total).expand_as(out))
        finished.append(out)
    return torch.cat(finished, 2)


# ------------------------------------------------------------------- 9.9 flash_bytes


def flash_bytes__wrong_seventh_single_key_not_read(n, d, block_q, bytes_per_value=2, causal=False):
    """Where a block sees one key alone its weight is 1 anyhow, so only the value is counted and the key is not."""
    rows = 0
    for start in range(0, n, block_q):
        stop = min(start + block_q, n)
        seen = stop if causal else n
        rows += 2 * (stop - start)
        rows += 2 * seen if seen > 1 else 1
    return rows * d * bytes_per_value


def flash_bytes__wrong_seventh_queries_padded(n, d, block_q, bytes_per_value=2, causal=False):
    """Counts block_q queries and outputs for every block, the last, short one too, as if it were filled up."""
    blocks = -(-n // block_q)
    rows = 2 * blocks * block_q
    for b in range(blocks):
        rows += 2 * (min((b + 1) * block_q, n) if causal else n)
    return rows * d * bytes_per_value


def flash_bytes__wrong_seventh_keys_kept_when_causal(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask counts only the keys and values that are new for a block, as if earlier ones were kept: everything once."""
    blocks = [range(s, min(s + block_q, n)) for s in range(0, n, block_q)]
    moved = 0
    for block in blocks:
        moved += 2 * len(block)
        moved += 2 * (len(block) if causal else n)
    return moved * d * bytes_per_value


def flash_bytes__wrong_seventh_short_block_first(n, d, block_q, bytes_per_value=2, causal=False):
    """Cuts the blocks from the end of the text, so that the first block is the short one: other ends, other keys under the mask."""
    ends = list(range(n, 0, -block_q))
    keys = sum(ends) if causal else n * len(ends)
    return (2 * n + 2 * keys) * d * bytes_per_value


def flash_bytes__wrong_seventh_own_block_not_read(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask counts the keys before the block's first token only, and not those of the block itself."""
    total = 2 * n * d
    for first in range(0, n, block_q):
        keys = first if causal else n
        total = total + 2 * keys * d
    return total * bytes_per_value


def flash_bytes__wrong_seventh_each_query_for_itself(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask lets each query read its own i + 1 keys and values, where the block's queries share one reading."""
    if causal:
        readings = n * (n + 1) // 2
    else:
        readings = n * math.ceil(n / block_q)
    return 2 * (n + readings) * d * bytes_per_value


def flash_bytes__wrong_seventh_half_of_the_readings(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask halves the readings of K and V, since half of the table is hidden."""
    n_blocks = (n + block_q - 1) // block_q
    kv = 2 * n * n_blocks
    if causal:
        kv //= 2
    return (n + n + kv) * d * bytes_per_value


def flash_bytes__wrong_seventh_output_in_float32(n, d, block_q, bytes_per_value=2, causal=False):
    """Counts four bytes for each number of the output, since sums are kept in float32, and not bytes_per_value."""
    read = n
    for start in range(0, n, block_q):
        read += 2 * (min(n, start + block_q) if causal else n)
    written = n
    return read * d * bytes_per_value + written * d * 4


def flash_bytes__right_seventh_closed_form(n, d, block_q, bytes_per_value=2, causal=False):
    """No loop: whole blocks end at 1, 2, ... times block_q, an arithmetic series, and a short one ends at n."""
    whole, rest = divmod(n, block_q)
    short = 1 if rest else 0
    if causal:
        keys = block_q * (whole * (whole + 1) // 2) + n * short
    else:
        keys = n * (whole + short)
    return 2 * d * bytes_per_value * (n + keys)


def flash_bytes__right_seventh_counted_from_the_keys(n, d, block_q, bytes_per_value=2, causal=False):
    """Asks of each block of tokens by how many blocks of queries its keys are read: by all, or under the mask by itself and the later ones."""
    how_many = (n - 1) // block_q + 1 if n else 0
    rows = 0
    for t in range(how_many):
        size = block_q if t < how_many - 1 else n - t * block_q
        readers = how_many - t if causal else how_many
        rows += size * (1 + readers + readers + 1)  # q, k and v as often as read, out
    return rows * d * bytes_per_value


# --------------------------------------------------------------- 9.10 flash_backward


def flash_backward__wrong_seventh_row_sum_over_block(Q, K, V, out, logsumexp, d_out, block_size):
    """Takes what the softmax's derivative subtracts as the sum of P * dP over the block's keys, where it runs over the whole row."""
    d = Q.shape[-1]
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, K.shape[2], block_size):
        block = slice(start, start + block_size)
        P = torch.exp(Q @ K[:, :, block].mT / d**0.5 - logsumexp[..., None])
        dP = d_out @ V[:, :, block].mT
        dS = P * (dP - (P * dP).sum(-1, keepdim=True))
        dV[:, :, block] = P.mT @ d_out
        dK[:, :, block] = dS.mT @ Q / d**0.5
        dQ += dS @ K[:, :, block] / d**0.5
    return dQ, dK, dV


def flash_backward__wrong_seventh_weights_normalised_in_block(Q, K, V, out, logsumexp, d_out, block_size):
    """Makes the weights again by a softmax over the block's keys and leaves logsumexp unused: each block's weights sum to 1."""
    root = math.sqrt(Q.shape[-1])
    delta = (out * d_out).sum(-1, keepdim=True)
    dQ, dKs, dVs = 0, [], []
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2)):
        weights = torch.softmax(Q @ k.mT / root, dim=-1)
        d_scores = weights * (d_out @ v.mT - delta) / root
        dVs.append(weights.mT @ d_out)
        dKs.append(d_scores.mT @ Q)
        dQ = dQ + d_scores @ k
    return dQ, torch.cat(dKs, 2), torch.cat(dVs, 2)


def flash_backward__wrong_seventh_quotient_of_exponentials(Q, K, V, out, logsumexp, d_out, block_size):
    """Makes the weights as exp(S) / exp(L) and not as exp(S - L): inf / inf or 0 / 0 where scores are large."""
    B, h, n, d = Q.shape
    denominator = logsumexp.exp().unsqueeze(-1)
    D = torch.einsum("bhid,bhid->bhi", d_out, out).unsqueeze(-1)
    dQ = torch.zeros_like(Q)
    dK = torch.zeros_like(K)
    dV = torch.zeros_like(V)
    for j in range(0, n, block_size):
        Kj, Vj = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
        P = torch.exp(torch.einsum("bhid,bhjd->bhij", Q, Kj) / d**0.5) / denominator
        dS = P * (torch.einsum("bhid,bhjd->bhij", d_out, Vj) - D) / d**0.5
        dQ += torch.einsum("bhij,bhjd->bhid", dS, Kj)
        dK[:, :, j : j + block_size] = torch.einsum("bhij,bhid->bhjd", dS, Q)
        dV[:, :, j : j + block_size] = torch.einsum("bhij,bhid->bhjd", P, d_out)
    return dQ, dK, dV


def flash_backward__wrong_seventh_derivative_of_the_sigmoid(Q, K, V, out, logsumexp, d_out, block_size):
    """Takes P * (1 - P) * dP for the gradient of the scores, the softmax's diagonal alone: what a score does to the other weights is left out."""
    scale = Q.shape[-1] ** -0.5
    dQ = torch.zeros_like(Q)
    dK, dV = [], []
    for start in range(0, K.shape[-2], block_size):
        keys = K[..., start : start + block_size, :]
        values = V[..., start : start + block_size, :]
        p = (Q @ keys.mT * scale - logsumexp.unsqueeze(-1)).exp()
        dp = d_out @ values.mT
        ds = p * (1 - p) * dp
        dQ = dQ + scale * (ds @ keys)
        dK.append(scale * (ds.mT @ Q))
        dV.append(p.mT @ d_out)
    return dQ, torch.cat(dK, dim=-2), torch.cat(dV, dim=-2)


def flash_backward__wrong_seventh_unsqueezed_in_place(Q, K, V, out, logsumexp, d_out, block_size):
    """Gives logsumexp its last axis with unsqueeze_, in place: the caller's tensor has another shape afterwards."""
    n, d = Q.shape[-2:]
    L = logsumexp.unsqueeze_(-1)
    D = (d_out * out).sum(dim=-1, keepdim=True)
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for a in range(0, n, block_size):
        b = min(a + block_size, n)
        P = torch.exp(Q @ K[:, :, a:b].mT / math.sqrt(d) - L)
        G = P * (d_out @ V[:, :, a:b].mT - D) / math.sqrt(d)
        dQ += G @ K[:, :, a:b]
        dK[:, :, a:b] += G.mT @ Q
        dV[:, :, a:b] += P.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_seventh_loss_is_the_sum(Q, K, V, out, logsumexp, d_out, block_size):
    """Derives for the loss of the tiny example, the sum of the outputs, and puts ones wherever d_out belongs."""
    d = Q.shape[-1]
    row_sum = out.sum(-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for s in range(0, Q.shape[2], block_size):
        e = s + block_size
        weights = torch.exp(Q @ K[:, :, s:e].mT / d**0.5 - logsumexp[..., None])
        value_sums = V[:, :, s:e].sum(-1).unsqueeze(-2)  # (B, h, 1, block)
        d_scores = weights * (value_sums - row_sum)
        dQ += d_scores @ K[:, :, s:e] / d**0.5
        dK[:, :, s:e] = d_scores.mT @ Q / d**0.5
        dV[:, :, s:e] = weights.sum(-2).unsqueeze(-1).expand_as(V[:, :, s:e])
    return dQ, dK, dV


def flash_backward__wrong_seventh_all_weights_made_before_the_loop(Q, K, V, out, logsumexp, d_out, block_size):
    """Makes all n * n weights before the loop and only cuts slices from them in it: right numbers, but the whole table is held."""
    n, d = Q.shape[-2:]
    weights = torch.exp(Q @ K.mT / d**0.5 - logsumexp[..., None])
    delta = (d_out * out).sum(-1, keepdim=True)
    dQ = torch.zeros_like(Q)
    dK = torch.zeros_like(K)
    dV = torch.zeros_like(V)
    for j in range(0, n, block_size):
        part = slice(j, j + block_size)
        p = weights[..., part]
        ds = p * (d_out @ V[:, :, part].mT - delta) / d**0.5
        dV[:, :, part] = p.mT @ d_out
        dK[:, :, part] = ds.mT @ Q
        dQ += ds @ K[:, :, part]
    return dQ, dK, dV


def flash_backward__wrong_seventh_root_lost_in_dQ(Q, K, V, out, logsumexp, d_out, block_size):
    """Divides the queries by sqrt(d) at the start, which puts the root into S and dK, and forgets that dQ is then that of the divided queries."""
    q = Q / math.sqrt(Q.shape[-1])
    L, D = logsumexp[..., None], torch.sum(out * d_out, -1)[..., None]
    dq = torch.zeros_like(q)
    dk, dv = [], []
    for k, v in zip(torch.split(K, block_size, 2), torch.split(V, block_size, 2)):
        p = torch.exp(q @ k.mT - L)
        ds = p * (d_out @ v.mT - D)
        dq = dq + ds @ k
        dk += [ds.mT @ q]
        dv += [p.mT @ d_out]
    return dq, torch.cat(dk, 2), torch.cat(dv, 2)


def flash_backward__right_seventh_delta_as_a_column(Q, K, V, out, logsumexp, d_out, block_size):
    """Appends L to q and D to d_out as a column and -1 to keys and values, so that S - L and dP - D are one product each; pieces are concatenated."""
    scale = Q.shape[-1] ** -0.5
    delta = torch.einsum("bhid,bhid->bhi", d_out, out)
    grads = torch.cat([d_out, delta[..., None]], -1)
    dQ, dK, dV = torch.zeros_like(Q), [], []
    for keys, values in zip(K.split(block_size, -2), V.split(block_size, -2)):
        minus = -torch.ones_like(values[..., :1])
        p = torch.exp(scale * (Q @ keys.mT) - logsumexp[..., None])
        ds = scale * p * (grads @ torch.cat([values, minus], -1).mT)
        dQ = dQ + ds @ keys
        dK.append(ds.mT @ Q)
        dV.append(p.mT @ d_out)
    return dQ, torch.cat(dK, -2), torch.cat(dV, -2)


def flash_backward__right_seventh_queries_cut_too(Q, K, V, out, logsumexp, d_out, block_size):
    """Cuts the queries as well, transposed tiles (keys by queries), blocks of keys outside from the last to the first."""
    n, d = Q.shape[-2:]
    root = math.sqrt(d)
    dQ, dK, dV = Q.new_zeros(Q.shape), K.new_zeros(K.shape), V.new_zeros(V.shape)
    starts = range(0, n, block_size)
    for j in reversed(starts):
        k, v = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
        for i in starts:
            here = slice(i, i + block_size)
            q, g = Q[:, :, here], d_out[:, :, here]
            delta = (g * out[:, :, here]).sum(-1).unsqueeze(-2)  # (B, h, 1, queries)
            p_t = torch.exp(k @ q.mT / root - logsumexp[:, :, here].unsqueeze(-2))
            ds_t = p_t * (v @ g.mT - delta) / root
            dV[:, :, j : j + block_size] += p_t @ g
            dK[:, :, j : j + block_size] += ds_t @ q
            dQ[:, :, here] += ds_t.mT @ k
    return dQ, dK, dV
