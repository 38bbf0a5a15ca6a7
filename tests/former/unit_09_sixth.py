"""Answers of a class to the exercises of unit 9 (speed), wrong ones and right ones."""

import bisect
import math
import statistics
from fractions import Fraction

import numpy as np
import torch

# ---------------------------------------------------------------------------------------------------------------
# 9.1 loop_attention


def loop_attention__wrong_sixth_divides_by_sqrt_of_model_width(Q, K, V):
    """Divides the scores by sqrt(h * d), the width of the whole model, and not by sqrt(d) of one head."""
    B, h, n, d = Q.shape
    d_model = h * d
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                s = K[b, head] @ Q[b, head, i] / math.sqrt(d_model)
                out[b, head, i] = torch.softmax(s, dim=0) @ V[b, head]
    return out


def loop_attention__wrong_sixth_keys_of_head_zero_for_all(Q, K, V):
    """Takes the keys of head 0 for every head (MQA of unit 5 carried over); the values are each head's own."""
    B, h, n, d = Q.shape
    batches = []
    for b in range(B):
        shared = K[b, 0]
        heads = []
        for q_head, v_head in zip(Q[b], V[b]):
            rows = [torch.softmax(shared @ q / d**0.5, -1) @ v_head for q in q_head]
            heads.append(torch.stack(rows))
        batches.append(torch.stack(heads))
    return torch.stack(batches)


def loop_attention__wrong_sixth_subtracts_largest_absolute_score(Q, K, V):
    """Stabilises with the largest |score|, so a row of scores near -10,000 underflows to 0 / 0."""
    B, h, n, d = Q.shape
    result = torch.zeros_like(Q)
    for b in range(B):
        for a in range(h):
            for i in range(n):
                scores = (K[b, a] * Q[b, a, i]).sum(-1) / d**0.5
                terms = (scores - scores.abs().max()).exp()
                result[b, a, i] = (terms / terms.sum()) @ V[b, a]
    return result


def loop_attention__wrong_sixth_output_made_with_torch_zeros(Q, K, V):
    """Collects the rows in torch.zeros(B, h, n, d), which is float32 whatever the inputs are."""
    B, h, n, d = Q.shape
    out = torch.zeros(B, h, n, d)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                score = Q[b, head, i] @ K[b, head].T / math.sqrt(d)
                out[b, head, i] = torch.softmax(score, dim=-1) @ V[b, head]
    return out


def loop_attention__wrong_sixth_weights_as_python_floats(Q, K, V):
    """Computes the weights as Python numbers with .item(), so no gradient reaches Q and K."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                s = [torch.dot(Q[b, head, i], K[b, head, j]).item() / math.sqrt(d) for j in range(n)]
                top = max(s)
                e = [math.exp(x - top) for x in s]
                total = sum(e)
                row = 0
                for j in range(n):
                    row = row + e[j] / total * V[b, head, j]
                out[b, head, i] = row
    return out


def loop_attention__wrong_sixth_writes_rows_into_Q(Q, K, V):
    """Saves memory by writing each output row over its query, so the caller's Q is changed."""
    out = Q
    B, h, n, d = out.shape
    for b in range(B):
        for head in range(h):
            for i in range(n):
                weights = torch.softmax(K[b, head] @ Q[b, head, i] / d**0.5, dim=0)
                out[b, head, i] = weights @ V[b, head]
    return out


def loop_attention__wrong_sixth_softmax_across_heads(Q, K, V):
    """Serves all heads of a query at once, but takes the softmax along dim 0, the heads, instead of the keys."""
    B, h, n, d = Q.shape
    whole = []
    for b in range(B):
        rows = []
        for i in range(n):
            scores = torch.einsum("hd,hjd->hj", Q[b, :, i], K[b]) / d**0.5
            weights = torch.softmax(scores, dim=0)
            rows.append(torch.einsum("hj,hjd->hd", weights, V[b]))
        whole.append(torch.stack(rows, dim=1))
    return torch.stack(whole)


def loop_attention__wrong_sixth_one_added_to_denominator(Q, K, V):
    """Uses the softmax with an extra 1 in the denominator (exp(-max) after the shift), so weights sum to less than 1."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                s = Q[b, head, i] @ K[b, head].mT / math.sqrt(d)
                m = torch.clamp(s.max(), min=0)
                e = torch.exp(s - m)
                out[b, head, i] = (e / (torch.exp(-m) + e.sum())) @ V[b, head]
    return out


# ---------------------------------------------------------------------------------------------------------------
# 9.2 batched_attention


def batched_attention__wrong_sixth_sees_one_token_ahead(Q, K, V, causal=False):
    """Hides with triu(diagonal=2), so that token i still sees token i + 1."""
    n, d = Q.shape[-2:]
    scores = Q @ K.transpose(-2, -1) / math.sqrt(d)
    if causal:
        later = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(diagonal=2)
        scores = scores.masked_fill(later, -math.inf)
    return torch.softmax(scores, dim=-1) @ V


def batched_attention__wrong_sixth_fills_minus_ten_thousand(Q, K, V, causal=False):
    """Hidden scores become -1e4 and not -inf, so they win where the allowed scores are near -10,000."""
    n = Q.size(2)
    s = torch.matmul(Q, K.mT).div(Q.size(3) ** 0.5)
    if causal:
        allowed = torch.tril(torch.ones(n, n, device=Q.device)).bool()
        s = s.masked_fill(~allowed, -1e4)
    return s.softmax(-1).matmul(V)


def batched_attention__wrong_sixth_mask_after_softmax(Q, K, V, causal=False):
    """Sets the later weights to 0 after the softmax and does not make the rest sum to 1 again."""
    A = torch.softmax(torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5, dim=-1)
    if causal:
        A = torch.tril(A)
    return torch.einsum("bhij,bhjd->bhid", A, V)


def batched_attention__wrong_sixth_scores_times_tril(Q, K, V, causal=False):
    """Multiplies the scores by a matrix of ones and zeros, so later keys get the score 0 and not -inf."""
    B, h, n, d = Q.shape
    S = Q @ K.mT / d**0.5
    if causal:
        mask = torch.tril(torch.ones(n, n, dtype=Q.dtype, device=Q.device))
        S = S * mask
    A = torch.softmax(S, dim=-1)
    return A @ V


def batched_attention__wrong_sixth_softmax_along_queries(Q, K, V, causal=False):
    """Takes the softmax along axis -2, the queries: each key's weights sum to 1."""
    n = Q.shape[-2]
    scores = (Q / math.sqrt(Q.shape[-1])) @ K.mT
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    weights = torch.softmax(scores, dim=-2)
    return weights @ V


def batched_attention__wrong_sixth_reshape_for_transpose(Q, K, V, causal=False):
    """Makes (B, h, d, n) of K with reshape, which mixes up the entries, instead of swapping two axes."""
    B, h, n, d = K.shape
    keys = K.reshape(B, h, d, n)
    scores = Q @ keys / d**0.5
    if causal:
        i = torch.arange(n, device=Q.device)
        scores = scores.masked_fill(i[None, :] > i[:, None], float("-inf"))
    return torch.softmax(scores, -1) @ V


def batched_attention__wrong_sixth_scales_Q_in_place(Q, K, V, causal=False):
    """Scales with Q /= sqrt(d), which changes the caller's tensor."""
    n, d = Q.shape[-2], Q.shape[-1]
    Q /= math.sqrt(d)
    scores = Q @ K.mT
    if causal:
        scores = scores + torch.full((n, n), -math.inf, dtype=Q.dtype, device=Q.device).triu(1)
    return torch.softmax(scores, dim=-1) @ V


def batched_attention__wrong_sixth_row_maximum_before_mask(Q, K, V, causal=False):
    """Own softmax whose row maximum is taken before the mask: a far larger later score makes the row 0 / 0."""
    n, d = Q.shape[-2:]
    scores = Q @ K.mT / d**0.5
    terms = torch.exp(scores - scores.amax(-1, keepdim=True))
    if causal:
        terms = terms.tril()
    return (terms @ V) / terms.sum(-1, keepdim=True)


def batched_attention__right_sixth_table_lying_on_its_side(Q, K, V, causal=False):
    """Makes K Q^T with the keys as rows, softmax along the rows' axis, and V^T A transposed at the end."""
    n, d = Q.shape[-2:]
    S = K @ Q.mT / math.sqrt(d)
    if causal:
        earlier_query = torch.ones(n, n, dtype=torch.bool, device=Q.device).tril(-1)
        S = S.masked_fill(earlier_query, -math.inf)
    return (V.mT @ torch.softmax(S, dim=-2)).mT


def batched_attention__right_sixth_where_and_logsumexp(Q, K, V, causal=False):
    """Compares places from arange, hides with torch.where, weights as exp(score - logsumexp)."""
    place = torch.arange(Q.shape[2], device=Q.device)
    seen = place.unsqueeze(1) >= place if causal else (place.unsqueeze(1) >= 0) & (place >= 0)
    S = torch.einsum("bhid,bhjd->bhij", Q * Q.shape[3] ** -0.5, K)
    S = torch.where(seen, S, S.new_tensor(-math.inf))
    return torch.einsum("bhij,bhjd->bhid", torch.exp(S - torch.logsumexp(S, 3, keepdim=True)), V)


# ---------------------------------------------------------------------------------------------------------------
# 9.3 tiled_attention


def tiled_attention__wrong_sixth_pads_last_block_with_zero_keys(Q, K, V, block_size):
    """Fills K and V up with zeros to whole blocks and never hides these keys, which have the score 0."""
    B, h, n, d = Q.shape
    missing = -n % block_size
    filler = K.new_zeros(B, h, missing, d)
    keys, values = torch.cat([K, filler], 2), torch.cat([V, filler], 2)
    m = Q.new_full((B, h, n, 1), -math.inf)
    l, o = Q.new_zeros(B, h, n, 1), torch.zeros_like(Q)
    for j in range((n + missing) // block_size):
        part = slice(j * block_size, (j + 1) * block_size)
        s = Q @ keys[:, :, part].mT / d**0.5
        new = torch.maximum(m, s.amax(-1, keepdim=True))
        p, f = torch.exp(s - new), torch.exp(m - new)
        l, o, m = l * f + p.sum(-1, keepdim=True), o * f + p @ values[:, :, part], new
    return o / l


def tiled_attention__wrong_sixth_maximum_starts_at_zero(Q, K, V, block_size):
    """Starts m at 0 and not at -inf: where all scores lie far below 0, every term underflows and 0 / 0 is left."""
    scale = 1 / math.sqrt(Q.shape[-1])
    m = torch.zeros_like(Q[..., :1])
    ell = torch.zeros_like(m)
    o = torch.zeros_like(Q)
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        s = (Q @ k.mT) * scale
        m_new = torch.maximum(m, s.max(dim=-1, keepdim=True).values)
        shrink = torch.exp(m - m_new)
        p = torch.exp(s - m_new)
        ell = shrink * ell + p.sum(dim=-1, keepdim=True)
        o = shrink * o + p @ v
        m = m_new
    return o / ell


def tiled_attention__wrong_sixth_one_maximum_for_all_queries(Q, K, V, block_size):
    """The running maximum is one number per head (amax over queries and keys), so modest queries underflow to 0 / 0."""
    B, h, n, d = Q.shape
    top = torch.full((B, h, 1, 1), -math.inf, dtype=Q.dtype, device=Q.device)
    den = torch.zeros(B, h, n, 1, dtype=Q.dtype, device=Q.device)
    num = torch.zeros(B, h, n, d, dtype=Q.dtype, device=Q.device)
    start = 0
    while start < n:
        kb, vb = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        scores = torch.einsum("bhid,bhjd->bhij", Q, kb) / math.sqrt(d)
        best = torch.maximum(top, scores.amax(dim=(-2, -1), keepdim=True))
        terms = torch.exp(scores - best)
        den = den * torch.exp(top - best) + terms.sum(-1, keepdim=True)
        num = num * torch.exp(top - best) + terms @ vb
        top = best
        start += block_size
    return num / den


def tiled_attention__wrong_sixth_maximum_of_this_block_only(Q, K, V, block_size):
    """m becomes the maximum of the block at hand and may fall, so the factor overflows after a block of large scores."""
    n, d = Q.shape[-2:]
    m, l, o = None, 0, 0
    for a in range(0, n, block_size):
        S = Q @ K[..., a : a + block_size, :].mT / d**0.5
        here = S.amax(dim=-1, keepdim=True)
        P = torch.exp(S - here)
        factor = torch.zeros_like(here) if m is None else torch.exp(m - here)
        l = factor * l + P.sum(dim=-1, keepdim=True)
        o = factor * o + P @ V[..., a : a + block_size, :]
        m = here
    return o / l


def tiled_attention__wrong_sixth_two_passes_over_keys(Q, K, V, block_size):
    """Finds the logsumexp in a first loop over the keys and mixes the values in a second one: two passes, not one."""
    d = Q.shape[-1]
    lse = Q.new_full(Q.shape[:-1] + (1,), -math.inf)
    for keys in K.split(block_size, dim=-2):
        lse = torch.logaddexp(lse, (Q @ keys.mT / d**0.5).logsumexp(-1, keepdim=True))
    out = torch.zeros_like(Q)
    for keys, values in zip(K.split(block_size, dim=-2), V.split(block_size, dim=-2)):
        out = out + torch.exp(Q @ keys.mT / d**0.5 - lse) @ values
    return out


def tiled_attention__wrong_sixth_factor_under_no_grad(Q, K, V, block_size):
    """The factor is made under torch.no_grad() while the terms keep m in the graph, so gradients for Q and K are wrong."""
    B, h, n, d = Q.shape
    m = Q.new_full((B, h, n, 1), float("-inf"))
    total = Q.new_zeros((B, h, n, 1))
    mix = Q.new_zeros((B, h, n, d))
    for i in range(math.ceil(n / block_size)):
        lo, hi = i * block_size, min(n, (i + 1) * block_size)
        s = Q @ K[:, :, lo:hi].transpose(2, 3) / math.sqrt(d)
        m_next = torch.maximum(m, s.amax(3, keepdim=True))
        with torch.no_grad():
            alpha = torch.exp(m - m_next)
        e = torch.exp(s - m_next)
        total = alpha * total + e.sum(3, keepdim=True)
        mix = alpha * mix + e @ V[:, :, lo:hi]
        m = m_next
    return mix / total


def tiled_attention__wrong_sixth_root_of_block_length(Q, K, V, block_size):
    """Takes the d of sqrt(d) from the last axis of the transposed block of keys, which is the block's length."""
    m = torch.full_like(Q[..., :1], -math.inf)
    l = torch.zeros_like(m)
    o = torch.zeros_like(Q)
    for start in range(0, K.shape[2], block_size):
        kT = K[:, :, start : start + block_size].mT
        S = Q @ kT / math.sqrt(kT.shape[-1])
        m_old, m = m, torch.maximum(m, S.amax(-1, keepdim=True))
        P = (S - m).exp()
        c = (m_old - m).exp()
        l = l * c + P.sum(-1, keepdim=True)
        o = o * c + P @ V[:, :, start : start + block_size]
    return o / l


def tiled_attention__wrong_sixth_factor_shrinks_new_terms_too(Q, K, V, block_size):
    """Adds the block first and multiplies afterwards, so its own terms shrink by the factor too (not in the first block)."""
    B, h, n, d = Q.shape
    state = None
    for k, v in zip(torch.split(K, block_size, 2), torch.split(V, block_size, 2)):
        scores = Q @ k.mT / d**0.5
        block_top = scores.amax(-1, keepdim=True)
        if state is None:
            p = torch.exp(scores - block_top)
            state = block_top, p.sum(-1, keepdim=True), p @ v
            continue
        m, l, o = state
        new = torch.maximum(m, block_top)
        p = torch.exp(scores - new)
        factor = torch.exp(m - new)
        state = new, (l + p.sum(-1, keepdim=True)) * factor, (o + p @ v) * factor
    return state[2] / state[1]


# ---------------------------------------------------------------------------------------------------------------
# 9.4 attention_flops


def attention_flops__wrong_sixth_projections_counted(batch, n_heads, n, d_head):
    """Adds the four projections of the layer (8 n D^2), though only Q K^T and A V are asked for."""
    width = n_heads * d_head
    products = 4 * batch * n_heads * n * n * d_head
    projections = 4 * 2 * batch * n * width * width
    return products + projections


def attention_flops__wrong_sixth_splits_d_head_again(batch, n_heads, n, d_head):
    """Takes d_head for the model's width and divides it by the number of heads."""
    per_head = d_head // n_heads
    one_product = 2 * n * n * per_head
    return batch * n_heads * (one_product + one_product)


def attention_flops__wrong_sixth_softmax_counted(batch, n_heads, n, d_head):
    """Adds three operations of the softmax (exp, sum, division) for each score."""
    flops = 0
    flops += 2 * n * n * d_head  # Q K^T
    flops += 3 * n * n  # softmax
    flops += 2 * n * n * d_head  # A V
    return batch * n_heads * flops


def attention_flops__wrong_sixth_only_allowed_pairs(batch, n_heads, n, d_head):
    """Counts only the n (n + 1) / 2 pairs that a causal mask allows."""
    pairs = sum((n, n * n)) // 2
    return 4 * pairs * d_head * n_heads * batch


def attention_flops__wrong_sixth_goes_through_float(batch, n_heads, n, d_head):
    """Squares n as a float (n ** 2.0) and makes an int of the result, which is not exact for large n."""
    return int(2 * 2 * batch * n_heads * d_head * n**2.0)


def attention_flops__wrong_sixth_first_addition_left_out(batch, n_heads, n, d_head):
    """Counts b multiplications and b - 1 additions per entry of a product, where the course counts b of both."""
    qk = n * n * (d_head + d_head - 1)
    av = n * d_head * (n + n - 1)
    return batch * n_heads * (qk + av)


def attention_flops__wrong_sixth_one_mix_for_all_queries(batch, n_heads, n, d_head):
    """Counts A V as if A had one row: 2 n d in place of 2 n n d."""
    scores = 2 * n * d_head * n
    mixing = 2 * n * d_head
    total = 0
    for _ in range(batch):
        total += n_heads * (scores + mixing)
    return total


def attention_flops__wrong_sixth_sequences_as_one_long_text(batch, n_heads, n, d_head):
    """Lays the sequences of the batch end to end, so that batch * n tokens meet batch * n tokens."""
    tokens = batch * n
    return 4 * n_heads * tokens**2 * d_head


def attention_flops__right_sixth_cost_of_a_product(batch, n_heads, n, d_head):
    """An inner function 2abc for a product (a, b) x (b, c), called for both products of all heads laid together."""

    def product(a, b, c):
        return (a * b * c) << 1

    all_rows = batch * n_heads * n
    return product(all_rows, d_head, n) + product(all_rows, n, d_head)


def attention_flops__right_sixth_entries_times_inner_length(batch, n_heads, n, d_head):
    """For each einsum the product of all letters' sizes, twice, with math.prod."""
    size = {"b": batch, "h": n_heads, "i": n, "j": n, "d": d_head}
    equations = ("bhid,bhjd->bhij", "bhij,bhjd->bhid")
    return 2 * sum(math.prod(size[x] for x in set(e) if x in size) for e in equations)


# ---------------------------------------------------------------------------------------------------------------
# 9.5 score_matrix_bytes


def score_matrix_bytes__wrong_sixth_two_bytes_always(batch, n_heads, n, bytes_per_value=2):
    """Writes the default 2 into the formula and never looks at bytes_per_value."""
    return 2 * batch * n_heads * n**2


def score_matrix_bytes__wrong_sixth_lower_triangle_only(batch, n_heads, n, bytes_per_value=2):
    """Counts the scores on and below the diagonal only, as if a causal mask spared the others."""
    kept = sum(range(1, n + 1)) if n < 1000 else n * (n + 1) // 2
    return batch * n_heads * kept * bytes_per_value


def score_matrix_bytes__wrong_sixth_scores_and_weights(batch, n_heads, n, bytes_per_value=2):
    """Counts both tables, scores S and weights A, though the scores once are asked for."""
    table = batch * n_heads * n * n * bytes_per_value
    S, A = table, table
    return S + A


def score_matrix_bytes__wrong_sixth_own_token_not_asked(batch, n_heads, n, bytes_per_value=2):
    """Leaves out the score of each token with itself: n (n - 1) pairs."""
    others = n - 1
    return bytes_per_value * n * others * n_heads * batch


def score_matrix_bytes__wrong_sixth_batch_inside_the_square(batch, n_heads, n, bytes_per_value=2):
    """Squares batch * n, so tokens of different sequences have scores with each other."""
    side = batch * n
    return n_heads * side * side * bytes_per_value


def score_matrix_bytes__wrong_sixth_math_pow(batch, n_heads, n, bytes_per_value=2):
    """Uses math.pow, which gives a float: int() of it is not exact for large n."""
    return int(math.pow(n, 2) * batch * n_heads * bytes_per_value)


def score_matrix_bytes__wrong_sixth_heads_share_one_table(batch, n_heads, n, bytes_per_value=2):
    """Thinks that the heads split one table among them, so n_heads drops out."""
    per_head = Fraction(n * n, n_heads)
    return int(batch * n_heads * per_head * bytes_per_value)


def score_matrix_bytes__wrong_sixth_row_maxima_and_sums_too(batch, n_heads, n, bytes_per_value=2):
    """Adds a maximum and a sum for every row, which are no scores."""
    rows = batch * n_heads * n
    return rows * (n + 2) * bytes_per_value


def score_matrix_bytes__right_sixth_prod_of_shape(batch, n_heads, n, bytes_per_value=2):
    """The number of entries of the shape (B, h, n, n) by math.prod, times the size of one."""
    shape = (batch, n_heads, n, n)
    return math.prod(shape, start=bytes_per_value)


def score_matrix_bytes__right_sixth_diagonal_and_two_triangles(batch, n_heads, n, bytes_per_value=2):
    """The diagonal and twice the triangle beside it, n + 2 * C(n, 2), for each head of each sequence."""
    per_head = n + 2 * math.comb(n, 2)
    return (batch * n_heads) * (per_head * bytes_per_value)


# ---------------------------------------------------------------------------------------------------------------
# 9.6 roofline_seconds


def roofline_seconds__wrong_sixth_both_times_added(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Adds the two times, as if nothing were moved during the arithmetic."""
    computing = flops / peak_flops
    moving = bytes_moved / peak_bandwidth
    return float(computing + moving)


def roofline_seconds__wrong_sixth_no_bytes_no_time(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Avoids the division by 0 bytes by returning 0.0 there, though the arithmetic takes its time."""
    if bytes_moved == 0:
        return 0.0
    intensity = flops / bytes_moved
    border = peak_flops / peak_bandwidth
    return flops / peak_flops if intensity >= border else bytes_moved / peak_bandwidth


def roofline_seconds__wrong_sixth_attainable_rate(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Returns the height of the roof, min(peak, intensity * bandwidth), in operations per second and not seconds."""
    intensity = flops / bytes_moved if bytes_moved else math.inf
    return float(min(peak_flops, intensity * peak_bandwidth))


def roofline_seconds__wrong_sixth_border_compared_backwards(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Takes an intensity right of the border for memory-bound, and so returns the shorter of the two times."""
    memory_bound = flops * peak_bandwidth > bytes_moved * peak_flops
    if memory_bound:
        return float(bytes_moved / peak_bandwidth)
    return float(flops / peak_flops)


def roofline_seconds__wrong_sixth_rounded_to_milliseconds(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Rounds the larger time to three places, so microseconds become 0."""
    times = [flops / peak_flops, bytes_moved / peak_bandwidth]
    return round(float(max(times)), 3)


def roofline_seconds__wrong_sixth_peaks_swapped(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Divides the operations by the bandwidth and the bytes by the peak rate."""
    return max(flops / peak_bandwidth, bytes_moved / peak_flops) * 1.0


def roofline_seconds__wrong_sixth_bytes_counted_in_bits(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Turns the bytes into bits (times 8), though the bandwidth is in bytes per second."""
    bits = 8 * bytes_moved
    arithmetic, memory = flops / peak_flops, bits / peak_bandwidth
    return float(arithmetic if arithmetic > memory else memory)


def roofline_seconds__wrong_sixth_operations_over_roof(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Computes flops / min(peak, intensity * bandwidth) and returns 0.0 for 0 operations, so a copy takes no time."""
    if flops == 0:
        return 0.0
    if bytes_moved == 0:
        return float(flops / peak_flops)
    roof = min(peak_flops, flops / bytes_moved * peak_bandwidth)
    return float(flops / roof)


def roofline_seconds__right_sixth_exact_fractions(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Both quotients as exact fractions, a float only of the larger one."""
    arithmetic = Fraction(flops) / Fraction(peak_flops)
    memory = Fraction(bytes_moved) / Fraction(peak_bandwidth)
    return float(max(arithmetic, memory))


def roofline_seconds__right_sixth_longer_arithmetic_added(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Begins with the time of the bytes and adds what the arithmetic lasts longer, if it does."""
    seconds = bytes_moved / peak_bandwidth
    longer = flops / peak_flops - seconds
    if longer > 0:
        seconds = flops / peak_flops
    return float(seconds)


# ---------------------------------------------------------------------------------------------------------------
# 9.7 median_time


def median_time__wrong_sixth_old_work_in_first_run(run, synchronize, clock, warmup, repeats):
    """Synchronises after every run but not before the first reading: with warmup = 0 earlier work is timed too."""
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


def median_time__wrong_sixth_upper_of_the_middle_two(run, synchronize, clock, warmup, repeats):
    """Takes sorted[len // 2], for an even count the upper of the middle two and not their mean."""
    for _ in range(warmup):
        run()
    measured = []
    for _ in range(repeats):
        synchronize()
        before = clock()
        run()
        synchronize()
        measured.append(clock() - before)
    measured.sort()
    return float(measured[len(measured) // 2])


def median_time__wrong_sixth_drops_slowest_in_place_of_first(run, synchronize, clock, warmup, repeats):
    """Times all warmup + repeats runs and leaves out the `warmup` slowest ones, whichever they were, not the first."""
    durations = []
    for _ in range(warmup + repeats):
        synchronize()
        t0 = clock()
        run()
        synchronize()
        t1 = clock()
        durations.append(t1 - t0)
    fastest = sorted(durations)[:repeats]
    return float(statistics.median(fastest))


def median_time__wrong_sixth_all_repeats_in_one_reading(run, synchronize, clock, warmup, repeats):
    """Reads the clock once around all repeats and divides by their count, so runs are not timed by themselves."""
    for _ in range(warmup):
        run()
    synchronize()
    begin = clock()
    for _ in range(repeats):
        run()
    synchronize()
    end = clock()
    return float((end - begin) / repeats)


def median_time__wrong_sixth_mean_without_extremes(run, synchronize, clock, warmup, repeats):
    """Leaves out the fastest and the slowest run and takes the mean of the others, in place of the median."""

    def one():
        synchronize()
        start = clock()
        run()
        synchronize()
        return clock() - start

    for _ in range(warmup):
        run()
    times = sorted(one() for _ in range(repeats))
    inner = times[1:-1] if repeats > 2 else times
    return float(sum(inner) / len(inner))


def median_time__wrong_sixth_at_least_one_warmup(run, synchronize, clock, warmup, repeats):
    """Warms up at least once, also where warmup = 0 asks for none."""
    for _ in range(max(1, warmup)):
        run()
    synchronize()
    laps = np.empty(repeats)
    for i in range(repeats):
        synchronize()
        tick = clock()
        run()
        synchronize()
        laps[i] = clock() - tick
    return float(np.median(laps))


def median_time__wrong_sixth_middle_of_unsorted_list(run, synchronize, clock, warmup, repeats):
    """Takes the middle of the times in the order in which they were measured: never sorted."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        a = clock()
        run()
        synchronize()
        b = clock()
        times.append(b - a)
    half = repeats // 2
    if repeats % 2:
        return float(times[half])
    return (times[half - 1] + times[half]) / 2


def median_time__wrong_sixth_starts_clock_after_the_call(run, synchronize, clock, warmup, repeats):
    """Reads the first time after run() has returned, so what the call itself costs is left out."""
    for _ in range(warmup):
        run()
        synchronize()
    waits = []
    for _ in range(repeats):
        synchronize()
        run()
        start = clock()
        synchronize()
        waits.append(clock() - start)
    return float(statistics.median(waits))


def median_time__right_sixth_peels_both_ends(run, synchronize, clock, warmup, repeats):
    """Takes away the smallest and the largest until one or two times are left, and their mean."""
    while warmup > 0:
        run()
        warmup -= 1
    times = []
    while len(times) < repeats:
        synchronize()
        earlier = clock()
        run()
        synchronize()
        times.append(clock() - earlier)
    while len(times) > 2:
        times.remove(max(times))
        times.remove(min(times))
    return sum(times) / len(times)


# ---------------------------------------------------------------------------------------------------------------
# 9.8 tiled_causal_attention


def tiled_causal_attention__wrong_sixth_triangle_in_every_tile(Q, K, V, block_size):
    """Compares places within the tile in every tile, so tiles left of the diagonal lose their upper triangle too."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for i in range(0, n, block_size):
        q = Q[:, :, i : i + block_size]
        m, l, o = torch.full_like(q[..., :1], -math.inf), torch.zeros_like(q[..., :1]), torch.zeros_like(q)
        for j in range(0, i + 1, block_size):
            k, v = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
            s = q @ k.mT / d**0.5
            hidden = torch.ones(s.shape[-2:], dtype=torch.bool, device=Q.device).triu(1)
            s = s.masked_fill(hidden, -math.inf)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            p, f = torch.exp(s - new), torch.exp(m - new)
            l, o, m = l * f + p.sum(-1, keepdim=True), o * f + p @ v, new
        out[:, :, i : i + block_size] = o / l
    return out


def tiled_causal_attention__wrong_sixth_future_tiles_multiplied_and_hidden(Q, K, V, block_size):
    """Multiplies every block of queries with all blocks of keys and hides the later ones wholly, which are to be left out."""
    n, d = Q.shape[-2:]
    place = torch.arange(n, device=Q.device)
    done = []
    for q, rows in zip(Q.split(block_size, 2), place.split(block_size)):
        m = q.new_full((*q.shape[:-1], 1), -math.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for k, v, columns in zip(K.split(block_size, 2), V.split(block_size, 2), place.split(block_size)):
            s = (q @ k.mT / math.sqrt(d)).masked_fill(columns > rows[:, None], -math.inf)
            m_new = torch.maximum(m, s.amax(-1, keepdim=True))
            p = torch.exp(s - m_new)
            factor = torch.exp(m - m_new)
            l = factor * l + p.sum(-1, keepdim=True)
            o = factor * o + p @ v
            m = m_new
        done.append(o / l)
    return torch.cat(done, dim=2)


def tiled_causal_attention__wrong_sixth_state_handed_to_next_queries(Q, K, V, block_size):
    """Makes m, l and o once, before the loop over the queries, so each block of queries goes on from the one before."""
    B, h, n, d = Q.shape
    size = min(block_size, n)
    m = Q.new_full((B, h, size, 1), -math.inf)
    l = Q.new_zeros(B, h, size, 1)
    o = Q.new_zeros(B, h, size, d)
    pieces = []
    for a in range(0, n, block_size):
        q = Q[:, :, a : a + block_size]
        rows = q.shape[2]
        m, l, o = m[:, :, :rows], l[:, :, :rows], o[:, :, :rows]
        for b in range(0, a + 1, block_size):
            s = q @ K[:, :, b : b + block_size].mT / d**0.5
            if a == b:
                s = s + torch.full_like(s, -math.inf).triu(1)
            top = torch.maximum(m, s.amax(-1, keepdim=True))
            e, shrink = torch.exp(s - top), torch.exp(m - top)
            l = shrink * l + e.sum(-1, keepdim=True)
            o = shrink * o + e @ V[:, :, b : b + block_size]
            m = top
        pieces.append(o / l)
    return torch.cat(pieces, 2)


def tiled_causal_attention__wrong_sixth_hides_with_minus_ten_thousand(Q, K, V, block_size):
    """In the tile on the diagonal later scores become -1e4 and not -inf: with scores near -10,000 they count."""
    n, d = Q.size(-2), Q.size(-1)
    result = torch.empty_like(Q)
    for start in range(0, n, block_size):
        stop = min(start + block_size, n)
        q = Q[..., start:stop, :] / math.sqrt(d)
        m = q.new_full(q.shape[:-1], -math.inf)
        l = torch.zeros_like(m)
        o = torch.zeros_like(q)
        for left in range(0, stop, block_size):
            right = min(left + block_size, n)
            s = torch.einsum("bhid,bhjd->bhij", q, K[..., left:right, :])
            if left == start:
                later = torch.ones(stop - start, right - left, device=Q.device).triu(1).bool()
                s = s.masked_fill(later, -1e4)
            new = torch.maximum(m, s.amax(-1))
            p = torch.exp(s - new[..., None])
            f = torch.exp(m - new)
            l = l * f + p.sum(-1)
            o = o * f[..., None] + torch.einsum("bhij,bhjd->bhid", p, V[..., left:right, :])
            m = new
        result[..., start:stop, :] = o / l[..., None]
    return result


def tiled_causal_attention__wrong_sixth_keys_not_cut(Q, K, V, block_size):
    """Cuts only the queries: each block meets all keys up to its end in one product, wider than block_size."""
    B, h, n, d = Q.shape
    outputs = []
    for first in range(0, n, block_size):
        last = min(n, first + block_size)
        scores = Q[:, :, first:last] @ K[:, :, :last].mT / math.sqrt(d)
        future = torch.ones(last - first, last, dtype=torch.bool, device=Q.device).triu(first + 1)
        weights = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
        outputs.append(weights @ V[:, :, :last])
    return torch.cat(outputs, dim=2)


def tiled_causal_attention__wrong_sixth_key_blocks_rounded_down(Q, K, V, block_size):
    """Counts the key blocks as stop // block_size, so a short last block of queries never meets its own tile."""
    B, h, n, d = Q.shape
    rows = []
    for start in range(0, n, block_size):
        stop = min(n, start + block_size)
        q = Q[:, :, start:stop]
        m = torch.full((B, h, stop - start, 1), -math.inf, dtype=Q.dtype, device=Q.device)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for j in range(max(1, stop // block_size)):
            k = K[:, :, j * block_size : (j + 1) * block_size]
            v = V[:, :, j * block_size : (j + 1) * block_size]
            s = q @ k.mT / d**0.5
            if j * block_size == start:
                s = s.masked_fill(torch.ones_like(s[0, 0], dtype=torch.bool).triu(1), -math.inf)
            m_new = torch.maximum(m, s.amax(-1, keepdim=True))
            p = (s - m_new).exp()
            f = (m - m_new).exp()
            l, o, m = f * l + p.sum(-1, keepdim=True), f * o + p @ v, m_new
        rows.append(o / l)
    return torch.cat(rows, dim=2)


def tiled_causal_attention__wrong_sixth_next_token_seen_within_tile(Q, K, V, block_size):
    """Hides j > i + 1 in place of j > i, so a query sees the next token where it stands in the same tile."""
    n, scale = Q.shape[2], Q.shape[3] ** -0.5
    out = []
    for a in range(0, n, block_size):
        q = Q[:, :, a : a + block_size]
        i = torch.arange(a, a + q.shape[2], device=Q.device)[:, None]
        lse, mix = None, None
        for b in range(0, a + 1, block_size):
            k, v = K[:, :, b : b + block_size], V[:, :, b : b + block_size]
            j = torch.arange(b, b + k.shape[2], device=Q.device)[None]
            s = torch.where(j > i + 1, -math.inf, q @ k.mT * scale)
            z, y = s.logsumexp(-1, keepdim=True), s.softmax(-1) @ v
            if lse is not None:
                total = torch.logaddexp(lse, z)
                y = mix * torch.exp(lse - total) + y * torch.exp(z - total)
                z = total
            lse, mix = z, y
        out.append(mix)
    return torch.cat(out, 2)


def tiled_causal_attention__wrong_sixth_denominator_not_masked(Q, K, V, block_size):
    """On the diagonal the terms are cut to a triangle for the mix only; the sum l takes all of them, the later ones too."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for a in range(math.ceil(n / block_size)):
        rows = slice(a * block_size, (a + 1) * block_size)
        q = Q[:, :, rows]
        m = torch.full_like(q[..., :1], -math.inf)
        l = torch.zeros_like(m)
        o = torch.zeros_like(q)
        for b in range(a + 1):
            cols = slice(b * block_size, (b + 1) * block_size)
            s = q @ K[:, :, cols].mT / math.sqrt(d)
            m_old = m
            m = torch.maximum(m, s.amax(dim=-1, keepdim=True))
            p = torch.exp(s - m)
            l = l * torch.exp(m_old - m) + p.sum(dim=-1, keepdim=True)
            if a == b:
                p = p.tril()
            o = o * torch.exp(m_old - m) + p @ V[:, :, cols]
        out[:, :, rows] = o / l
    return out


def tiled_causal_attention__right_sixth_keys_in_the_outer_loop(Q, K, V, block_size):
    """The outer loop runs over the keys; every block of queries keeps its m, l and o in a list meanwhile."""
    d = Q.shape[-1]
    queries = Q.split(block_size, dim=2)
    states = [(q.new_full((*q.shape[:3], 1), -math.inf), q.new_zeros((*q.shape[:3], 1)), torch.zeros_like(q)) for q in queries]
    for b, (k, v) in enumerate(zip(K.split(block_size, dim=2), V.split(block_size, dim=2))):
        for a in range(b, len(queries)):
            m, l, o = states[a]
            s = queries[a] @ k.mT / math.sqrt(d)
            if a == b:
                s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1), -math.inf)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            p, f = torch.exp(s - new), torch.exp(m - new)
            states[a] = new, l * f + p.sum(-1, keepdim=True), o * f + p @ v
    return torch.cat([o / l for _, l, o in states], dim=2)


# ---------------------------------------------------------------------------------------------------------------
# 9.9 flash_bytes


def flash_bytes__wrong_sixth_mask_halves_the_keys(n, d, block_q, bytes_per_value=2, causal=False):
    """Halves the rows of keys and values for the causal mask, instead of counting what each block may see."""
    blocks = -(-n // block_q)
    key_rows = blocks * n
    if causal:
        key_rows = key_rows // 2
    return (2 * n + 2 * key_rows) * d * bytes_per_value


def flash_bytes__wrong_sixth_last_block_reads_past_the_text(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask block i reads (i + 1) * block_q keys, more than n of them where the last block is short."""
    rows = 2 * n
    for i in range(-(-n // block_q)):
        keys = (i + 1) * block_q if causal else n
        rows += 2 * keys
    return rows * d * bytes_per_value


def flash_bytes__wrong_sixth_keys_of_first_query_of_block(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask a block reads the keys that its first query sees, start + 1, not those of its last query."""
    total = 0
    for start in range(0, n, block_q):
        queries = min(block_q, n - start)
        seen = start + 1 if causal else n
        total += queries + 2 * seen + queries
    return total * d * bytes_per_value


def flash_bytes__wrong_sixth_queries_again_for_blocks_of_keys(n, d, block_q, bytes_per_value=2, causal=False):
    """Turns the loops round: K and V come once, in blocks of block_q, and Q and the output once for each such block."""
    rows_kv, rows_qo = 2 * n, 0
    for start in range(0, n, block_q):
        asking = n - start if causal else n
        rows_qo += 2 * asking
    return (rows_kv + rows_qo) * d * bytes_per_value


def flash_bytes__wrong_sixth_no_key_where_one_is_seen(n, d, block_q, bytes_per_value=2, causal=False):
    """Where a block sees one key alone (weight 1 anyway) only its value is read, not the key."""
    rows = 0
    for first in range(0, n, block_q):
        last = min(first + block_q, n)
        visible = last if causal else n
        rows += 2 * (last - first)
        rows += visible
        if visible > 1:
            rows += visible
    return rows * d * bytes_per_value


def flash_bytes__wrong_sixth_mask_counts_each_query_by_itself(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask every query reads its own i + 1 keys and values, so the queries of a block share nothing."""
    if causal:
        keys = n * (n + 1) // 2
    else:
        keys = n * ((n + block_q - 1) // block_q)
    return 2 * (n + keys) * d * bytes_per_value


def flash_bytes__wrong_sixth_keys_stay_on_chip_with_mask(n, d, block_q, bytes_per_value=2, causal=False):
    """With the mask a block reads only the keys that are new since the block before, as if the older ones were kept."""
    moved, known = 0, 0
    for start in range(0, n, block_q):
        stop = min(n, start + block_q)
        moved += 2 * (stop - start)
        if causal:
            moved += 2 * (stop - known)
            known = stop
        else:
            moved += 2 * n
    return moved * d * bytes_per_value


def flash_bytes__wrong_sixth_fraction_of_a_block(n, d, block_q, bytes_per_value=2, causal=False):
    """Without a mask uses section 4's 2nd + 2nd * n / c, where a short last block reads only a part of the keys."""
    if not causal:
        return (2 * n * d + 2 * n * d * n // block_q) * bytes_per_value
    keys = sum(min(n, start + block_q) for start in range(0, n, block_q))
    return (2 * n * d + 2 * keys * d) * bytes_per_value


def flash_bytes__right_sixth_closed_form(n, d, block_q, bytes_per_value=2, causal=False):
    """Closed form: with q whole blocks the causal ones read c q (q + 1) / 2 keys, a short one all n."""
    q, rest = divmod(n, block_q)
    if causal:
        keys = block_q * q * (q + 1) // 2 + (n if rest else 0)
    else:
        keys = n * (q + bool(rest))
    return 2 * d * bytes_per_value * (n + keys)


def flash_bytes__right_sixth_what_the_mask_spares(n, d, block_q, bytes_per_value=2, causal=False):
    """Counts all four tensors once, then each block after the first in full, and subtracts what the mask spares."""
    ends = [min(end, n) for end in range(block_q, n + block_q, block_q)]
    rows = 4 * n + 2 * n * (len(ends) - 1)
    if causal:
        for end in ends:
            rows -= 2 * (n - end)
    return rows * (d * bytes_per_value)


# ---------------------------------------------------------------------------------------------------------------
# 9.10 flash_backward


def flash_backward__wrong_sixth_row_sum_over_the_block(Q, K, V, out, logsumexp, d_out, block_size):
    """Subtracts the sum of P * dP over the keys of the block at hand, and not over the whole row."""
    n, d = Q.shape[-2:]
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, n, block_size):
        part = slice(start, start + block_size)
        P = torch.exp(Q @ K[:, :, part].mT / d**0.5 - logsumexp[..., None])
        dV[:, :, part] = P.mT @ d_out
        dP = d_out @ V[:, :, part].mT
        dS = P * (dP - (P * dP).sum(-1, keepdim=True)) / d**0.5
        dQ += dS @ K[:, :, part]
        dK[:, :, part] = dS.mT @ Q
    return dQ, dK, dV


def flash_backward__wrong_sixth_dQ_of_last_block_only(Q, K, V, out, logsumexp, d_out, block_size):
    """Sets dQ anew in every block in place of adding up, so only the last block of keys counts."""
    scale = 1 / math.sqrt(Q.shape[-1])
    D = (out * d_out).sum(dim=-1, keepdim=True)
    dK, dV = [], []
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        weights = torch.exp(Q @ k.mT * scale - logsumexp.unsqueeze(-1))
        d_scores = weights * (d_out @ v.mT - D)
        dQ = scale * (d_scores @ k)
        dK.append(scale * (d_scores.mT @ Q))
        dV.append(weights.mT @ d_out)
    return dQ, torch.cat(dK, dim=2), torch.cat(dV, dim=2)


def flash_backward__wrong_sixth_softmax_within_the_block(Q, K, V, out, logsumexp, d_out, block_size):
    """Makes the weights again with a softmax over the keys of the block, and so ignores logsumexp."""
    B, h, n, d = Q.shape
    D = torch.einsum("bhid,bhid->bhi", d_out, out)
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for a in range(0, n, block_size):
        z = min(n, a + block_size)
        S = torch.einsum("bhid,bhjd->bhij", Q, K[:, :, a:z]) / math.sqrt(d)
        P = torch.softmax(S, dim=-1)
        dS = P * (torch.einsum("bhid,bhjd->bhij", d_out, V[:, :, a:z]) - D[..., None]) / math.sqrt(d)
        dQ += torch.einsum("bhij,bhjd->bhid", dS, K[:, :, a:z])
        dK[:, :, a:z] = torch.einsum("bhij,bhid->bhjd", dS, Q)
        dV[:, :, a:z] = torch.einsum("bhij,bhid->bhjd", P, d_out)
    return dQ, dK, dV


def flash_backward__wrong_sixth_exp_before_division(Q, K, V, out, logsumexp, d_out, block_size):
    """Computes exp(score) / exp(logsumexp) and not exp of the difference: inf / inf or 0 / 0 for scores of 10,000."""
    d = Q.shape[-1]
    denominator = torch.exp(logsumexp).unsqueeze(-1)
    delta = (out * d_out).sum(-1, keepdim=True)
    dQ = torch.zeros_like(Q)
    dK = torch.zeros_like(K)
    dV = torch.zeros_like(V)
    for j in range(0, K.shape[2], block_size):
        k, v = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
        p = torch.exp(Q @ k.mT / math.sqrt(d)) / denominator
        ds = p * (d_out @ v.mT - delta)
        dQ += ds @ k / math.sqrt(d)
        dK[:, :, j : j + block_size] = ds.mT @ Q / math.sqrt(d)
        dV[:, :, j : j + block_size] = p.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_sixth_dK_scaled_twice(Q, K, V, out, logsumexp, d_out, block_size):
    """Divides Q by sqrt(d) beforehand and dS again, so dK = dS^T Q holds the factor twice."""
    root = math.sqrt(Q.shape[-1])
    q = Q / root
    D = (d_out * out).sum(-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), [], []
    for k, v in zip(torch.split(K, block_size, -2), torch.split(V, block_size, -2)):
        P = torch.exp(q @ k.mT - logsumexp[..., None])
        dS = P * (d_out @ v.mT - D) / root
        dQ = dQ + dS @ k
        dK += [dS.mT @ q]
        dV += [P.mT @ d_out]
    return dQ, torch.cat(dK, -2), torch.cat(dV, -2)


def flash_backward__wrong_sixth_keeps_all_blocks_for_dQ(Q, K, V, out, logsumexp, d_out, block_size):
    """Keeps the dS of every block in a list and joins them for one product with K: all n * n stand in memory."""
    d = Q.shape[-1]
    D = (d_out * out).sum(-1, keepdim=True)
    all_dS, dK, dV = [], [], []
    for start in range(0, K.shape[-2], block_size):
        k = K[..., start : start + block_size, :]
        v = V[..., start : start + block_size, :]
        P = torch.exp(Q @ k.mT / d**0.5 - logsumexp[..., None])
        dS = P * (d_out @ v.mT - D) / d**0.5
        all_dS.append(dS)
        dK.append(dS.mT @ Q)
        dV.append(P.mT @ d_out)
    dQ = torch.cat(all_dS, dim=-1) @ K
    return dQ, torch.cat(dK, dim=-2), torch.cat(dV, dim=-2)


def flash_backward__wrong_sixth_mean_over_features(Q, K, V, out, logsumexp, d_out, block_size):
    """Takes the mean of d_out * out over the features, where the row's sum of P * dP is their sum."""
    B, h, n, d = Q.shape
    row = (d_out * out).mean(dim=-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.empty_like(K), torch.empty_like(V)
    first = 0
    while first < n:
        last = min(first + block_size, n)
        k, v = K[:, :, first:last], V[:, :, first:last]
        A = (Q @ k.transpose(-1, -2) / math.sqrt(d) - logsumexp[:, :, :, None]).exp()
        dA = d_out @ v.transpose(-1, -2)
        dS = A * (dA - row)
        dQ += dS @ k / math.sqrt(d)
        dK[:, :, first:last] = dS.transpose(-1, -2) @ Q / math.sqrt(d)
        dV[:, :, first:last] = A.transpose(-1, -2) @ d_out
        first = last
    return dQ, dK, dV


def flash_backward__wrong_sixth_gradients_made_as_float32(Q, K, V, out, logsumexp, d_out, block_size):
    """Adds up in torch.zeros(Q.shape), so the gradients of float64 inputs come back as float32."""
    n, d = Q.shape[-2:]
    dQ, dK, dV = torch.zeros(Q.shape), torch.zeros(K.shape), torch.zeros(V.shape)
    delta = torch.sum(d_out * out, dim=-1, keepdim=True)
    for i in range(-(-n // block_size)):
        b = slice(i * block_size, (i + 1) * block_size)
        p = torch.exp(Q @ K[:, :, b].mT / math.sqrt(d) - logsumexp.unsqueeze(-1))
        g = p * (d_out @ V[:, :, b].mT - delta) / math.sqrt(d)
        dQ[:] += g @ K[:, :, b]
        dK[:, :, b] += g.mT @ Q
        dV[:, :, b] += p.mT @ d_out
    return dQ, dK, dV


def flash_backward__right_sixth_keys_as_rows_head_by_head(Q, K, V, out, logsumexp, d_out, block_size):
    """Head by head with tables whose rows are keys, blocks from the last to the first."""
    B, h, n, d = Q.shape
    dQ, dK, dV = torch.zeros_like(Q), torch.empty_like(K), torch.empty_like(V)
    for b in range(B):
        for a in range(h):
            q, k, v, g = Q[b, a] / math.sqrt(d), K[b, a], V[b, a], d_out[b, a]
            delta = torch.einsum("id,id->i", g, out[b, a])
            for first in reversed(range(0, n, block_size)):
                rows = slice(first, first + block_size)
                w = torch.exp(k[rows] @ q.T - logsumexp[b, a])
                t = w * (v[rows] @ g.T - delta)
                dV[b, a, rows] = w @ g
                dK[b, a, rows] = t @ q
                dQ[b, a] += t.T @ k[rows] / math.sqrt(d)
    return dQ, dK, dV


def flash_backward__right_sixth_einsum_lists(Q, K, V, out, logsumexp, d_out, block_size):
    """einsum throughout; dK and dV collected block by block and joined, dQ added up, each divided at the end."""
    root = Q.shape[-1] ** 0.5
    whole = (d_out * out).sum(-1)[..., None]
    dQ, dK, dV = 0, [], []
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2)):
        A = (torch.einsum("bhid,bhjd->bhij", Q, k) / root - logsumexp[..., None]).exp()
        G = torch.einsum("bhid,bhjd->bhij", d_out, v).sub(whole).mul(A)
        dV.append(torch.einsum("bhij,bhid->bhjd", A, d_out))
        dK.append(torch.einsum("bhij,bhid->bhjd", G, Q))
        dQ = dQ + torch.einsum("bhij,bhjd->bhid", G, k)
    return dQ / root, torch.cat(dK, 2) / root, torch.cat(dV, 2)
