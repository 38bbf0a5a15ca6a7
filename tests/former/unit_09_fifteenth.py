import math
import statistics
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F


# ---------------------------------------------------------------- 9.1 loop_attention


def loop_attention__wrong_fifteenth_divides_by_root_of_n(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Divides the scores by the root of the number of keys; due is the root of the width d."""
    out = torch.zeros_like(Q)
    for b in range(Q.shape[0]):
        for head in range(Q.shape[1]):
            keys, values = K[b, head], V[b, head]
            for i, query in enumerate(Q[b, head]):
                scores = keys @ query / math.sqrt(len(keys))
                out[b, head, i] = torch.softmax(scores, dim=0) @ values
    return out


def loop_attention__wrong_fifteenth_each_key_shared_out_among_queries(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Takes one key at a time and a softmax over the queries; due is a softmax over the keys for each query."""
    B, h, n, d = Q.shape
    rows = []
    for b in range(B):
        for j in range(h):
            o = torch.zeros_like(Q[b, j])
            for key, value in zip(K[b, j], V[b, j], strict=True):
                a = torch.softmax(Q[b, j] @ key / d**0.5, dim=0)
                o = o + a[:, None] * value[None, :]
            rows.append(o)
    return torch.stack(rows).reshape(B, h, n, d)


def loop_attention__wrong_fifteenth_scales_after_softmax(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Divides the weights by root d, after the softmax; due is to divide the scores, before it."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                s = (K[b, head] * Q[b, head, i]).sum(dim=-1)
                a = torch.softmax(s, dim=-1) / math.sqrt(d)
                out[b, head, i] = (a.unsqueeze(-1) * V[b, head]).sum(dim=0)
    return out


def loop_attention__wrong_fifteenth_softmax_dim_zero_with_heads(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Serves all heads at once but leaves the softmax at dim 0, the heads; due is the last axis, the keys."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for i in range(n):
            scores = torch.einsum("hd,hnd->hn", Q[b, :, i], K[b]) / math.sqrt(d)
            weights = scores.softmax(0)
            out[b, :, i] = torch.einsum("hn,hnd->hd", weights, V[b])
    return out


def loop_attention__wrong_fifteenth_mix_not_reset(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Starts the mix at zero once per head, so it piles up from query to query; due is once per query."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            mix = torch.zeros_like(V[b, head, 0])
            for i in range(n):
                a = torch.softmax(K[b, head] @ Q[b, head, i] / d**0.5, dim=0)
                for j in range(n):
                    mix = mix + a[j] * V[b, head, j]
                out[b, head, i] = mix
    return out


def loop_attention__wrong_fifteenth_heads_joined(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Returns (B, n, h*d), the heads joined as before an output projection; due is (B, h, n, d)."""
    B, h, n, d = Q.shape
    texts = []
    for b in range(B):
        tokens = []
        for i in range(n):
            heads = []
            for c in range(h):
                a = torch.softmax(K[b, c] @ Q[b, c, i] / math.sqrt(d), dim=0)
                heads.append(a @ V[b, c])
            tokens.append(torch.cat(heads))
        texts.append(torch.stack(tokens))
    return torch.stack(texts)


def loop_attention__wrong_fifteenth_nan_to_num_for_large_scores(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Plain exp, and NaN replaced by 0, so scores of 10,000 give no NaN but wrong rows; due is a stable softmax."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for k in range(h):
            for i in range(n):
                e = torch.exp(K[b, k] @ Q[b, k, i] / math.sqrt(d))
                weights = torch.nan_to_num(e / e.sum(), nan=0.0)
                out[b, k, i] = weights @ V[b, k]
    return out


def loop_attention__wrong_fifteenth_half_comes_back_as_float(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Works in float32 for 16-bit inputs and returns float32 for them; due is the inputs' own dtype."""
    if Q.dtype in (torch.float16, torch.bfloat16):
        Q, K, V = Q.float(), K.float(), V.float()
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                s = K[b, head] @ Q[b, head, i] / d**0.5
                e = torch.exp(s - s.max())
                out[b, head, i] = (e / e.sum()) @ V[b, head]
    return out


def loop_attention__right_fifteenth_flat_rows_l1_normalize(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Right: all queries as one flat list of rows, the weights made of exponentials by an L1 normalisation."""
    n, d = Q.shape[-2:]
    keys, values = K.flatten(0, 1), V.flatten(0, 1)
    rows = []
    for place, query in enumerate(Q.flatten(0, 2)):
        head = place // n
        s = torch.mv(keys[head], query / math.sqrt(d))
        weights = F.normalize((s - s.amax()).exp(), p=1.0, dim=0)
        rows.append(torch.mv(values[head].mT, weights))
    return torch.stack(rows).unflatten(0, Q.shape[:-1])


# ---------------------------------------------------------------- 9.2 batched_attention


def batched_attention__wrong_fifteenth_mask_after_softmax(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Zeroes later weights after the softmax, so rows sum to less than 1; due is to mask the scores before it."""
    scores = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    weights = torch.softmax(scores, dim=-1)
    if causal:
        weights = torch.tril(weights)
    return weights @ V


def batched_attention__wrong_fifteenth_scale_of_whole_model(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Divides by the root of h*d, the width of all heads together; due is the root of d, the width of one."""
    _, h, n, d = Q.shape
    d_model = h * d
    S = torch.einsum("bhid,bhjd->bhij", Q, K) / d_model**0.5
    if causal:
        later = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(1)
        S = S.masked_fill(later, -math.inf)
    return torch.einsum("bhij,bhjd->bhid", S.softmax(-1), V)


def batched_attention__wrong_fifteenth_later_scores_become_zero(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Multiplies the scores with a triangle of ones, so later scores are 0 and still count; due is -inf."""
    n, d = Q.shape[-2:]
    scores = (Q @ K.mT) / d**0.5
    if causal:
        allowed = torch.tril(torch.ones(n, n, dtype=Q.dtype, device=Q.device))
        scores = scores * allowed
    A = torch.softmax(scores, dim=-1)
    return A @ V


def batched_attention__wrong_fifteenth_reshape_as_transpose(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Gets the shape (B, h, d, n) by a reshape, which mixes up the numbers; due is to swap the last two axes."""
    B, h, n, d = Q.shape
    scores = Q @ K.reshape(B, h, d, n) / math.sqrt(d)
    if causal:
        mask = torch.triu(torch.ones(n, n, device=Q.device), diagonal=1) == 1
        scores = scores.masked_fill(mask, float("-inf"))
    return torch.softmax(scores, dim=-1) @ V


def batched_attention__wrong_fifteenth_comparison_flipped(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Compares places the wrong way round, so token i sees i ... n-1; due is 0 ... i."""
    n, d = Q.shape[-2], Q.shape[-1]
    scores = torch.matmul(Q, K.transpose(2, 3)) * d**-0.5
    if causal:
        place = torch.arange(n, device=Q.device)
        visible = place[:, None] <= place[None, :]
        scores = torch.where(visible, scores, -torch.inf)
    return torch.matmul(scores.softmax(dim=-1), V)


def batched_attention__wrong_fifteenth_itself_not_seen(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Reads causal as earlier tokens only, and token 0 gets zeros; due is that token i sees itself too."""
    n, d = Q.shape[-2:]
    S = Q @ K.mT / math.sqrt(d)
    if not causal:
        return S.softmax(-1) @ V
    hidden = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu()
    hidden[0, 0] = False
    O = S.masked_fill(hidden, -math.inf).softmax(-1) @ V
    return torch.cat((torch.zeros_like(O[..., :1, :]), O[..., 1:, :]), dim=-2)


def batched_attention__wrong_fifteenth_maximum_of_hidden_keys_too(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Subtracts the maximum over hidden keys too, so a much larger later score gives zeros; due is the seen ones'."""
    n, d = Q.shape[-2:]
    scores = Q @ K.mT / d**0.5
    terms = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    if causal:
        terms = terms.tril()
    total = terms.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(Q.dtype).tiny)
    return (terms / total) @ V


def batched_attention__wrong_fifteenth_loop_over_heads(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Right values, made sequence by sequence and head by head in Python loops; due are whole tensors, no loop."""
    B, h, n, d = Q.shape
    mask = torch.zeros(n, n, dtype=Q.dtype, device=Q.device)
    if causal:
        mask = torch.full_like(mask, -math.inf).triu(diagonal=1)

    def one_head(q, k, v):
        return torch.softmax(q @ k.T / math.sqrt(d) + mask, dim=-1) @ v

    return torch.stack([torch.stack([one_head(Q[b, j], K[b, j], V[b, j]) for j in range(h)]) for b in range(B)])


def batched_attention__right_fifteenth_baddbmm_adds_the_mask(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Right: mask, scale and product in one baddbmm over all heads as one axis; the values by bmm."""
    n, d = Q.shape[-2:]
    q, k, v = (x.flatten(0, 1) for x in (Q, K, V))
    place = torch.arange(n, device=Q.device)
    later = place > place.unsqueeze(-1) if causal else place < 0
    offset = torch.zeros(n, n, dtype=Q.dtype, device=Q.device).masked_fill(later, -math.inf)
    scores = torch.baddbmm(offset.expand(len(q), n, n), q, k.mT, alpha=1 / math.sqrt(d))
    return torch.bmm(torch.log_softmax(scores, dim=-1).exp(), v).unflatten(0, Q.shape[:2])


# ---------------------------------------------------------------- 9.3 tiled_attention


def tiled_attention__wrong_fifteenth_blocks_weighed_by_their_maximum(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Weighs each block's own softmax output by exp of its maximum only; due is by the sum of its terms."""
    d = Q.shape[-1]
    m = Q.new_full((*Q.shape[:-1], 1), -math.inf)
    total, mix = torch.zeros_like(m), torch.zeros_like(Q)
    for k, v in zip(K.split(block_size, -2), V.split(block_size, -2), strict=True):
        s = Q @ k.mT / math.sqrt(d)
        top = s.amax(-1, keepdim=True)
        new = torch.maximum(m, top)
        old_share, own_share = torch.exp(m - new), torch.exp(top - new)
        mix = mix * old_share + own_share * (torch.softmax(s, -1) @ v)
        total = total * old_share + own_share
        m = new
    return mix / total


def tiled_attention__wrong_fifteenth_block_of_queries_meets_its_own_keys_only(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Cuts queries with the keys, and each block meets its own keys only; due is that all queries meet all blocks."""
    n, d = Q.shape[2], Q.shape[3]
    parts = []
    for start in range(0, n, block_size):
        here = slice(start, start + block_size)
        S = Q[:, :, here] @ K[:, :, here].transpose(-1, -2) / d**0.5
        m = S.amax(dim=-1, keepdim=True)
        terms = torch.exp(S - m)
        parts.append(terms @ V[:, :, here] / terms.sum(dim=-1, keepdim=True))
    return torch.cat(parts, dim=2)


def tiled_attention__wrong_fifteenth_factor_on_the_new_terms(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Shrinks what is new by the factor from the second block on; due is to shrink what was summed before."""
    B, h, n, d = Q.shape
    m = torch.full((B, h, n, 1), -math.inf, dtype=Q.dtype, device=Q.device)
    l, o = torch.zeros_like(m), torch.zeros_like(Q)
    for start in range(0, n, block_size):
        S = Q @ K[:, :, start : start + block_size].mT / math.sqrt(d)
        m_new = torch.maximum(m, S.amax(dim=-1, keepdim=True))
        factor = torch.exp(m - m_new) if start > 0 else torch.ones_like(m)
        terms = factor * torch.exp(S - m_new)
        l = l + terms.sum(dim=-1, keepdim=True)
        o = o + terms @ V[:, :, start : start + block_size]
        m = m_new
    return o / l


def tiled_attention__wrong_fifteenth_factor_against_block_maximum(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Mixes up two names: the factor is exp(m_old - maximum of the block); due is exp(m_old - new maximum)."""
    d = Q.size(-1)
    running = Q.new_full(Q.shape[:-1], -torch.inf).unsqueeze(-1)
    norm = torch.zeros_like(running)
    acc = torch.zeros_like(Q)
    for kb, vb in zip(torch.split(K, block_size, dim=2), torch.split(V, block_size, dim=2), strict=True):
        scores = torch.einsum("bhid,bhjd->bhij", Q, kb) / math.sqrt(d)
        block_max = scores.amax(dim=-1, keepdim=True)
        new_max = torch.maximum(running, block_max)
        factor = torch.exp(running - block_max)
        p = torch.exp(scores - new_max)
        norm = factor * norm + p.sum(-1, keepdim=True)
        acc = factor * acc + p @ vb
        running = new_max
    return acc / norm


def tiled_attention__wrong_fifteenth_range_ends_one_early(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Lets the range end at n - 1, so a last block of one key is left out; due is n."""
    n, d = Q.shape[-2:]
    m = Q.new_full((*Q.shape[:-1], 1), -math.inf)
    total = torch.zeros_like(m)
    o = torch.zeros_like(Q)
    for j in range(0, n - 1, block_size):
        k, v = K[..., j : j + block_size, :], V[..., j : j + block_size, :]
        s = Q @ k.mT / math.sqrt(d)
        new = torch.maximum(m, s.amax(-1, True))
        shrink, e = (m - new).exp(), (s - new).exp()
        total = total * shrink + e.sum(-1, keepdim=True)
        o = o * shrink + e @ v
        m = new
    return o / total


def tiled_attention__wrong_fifteenth_block_size_as_number_of_blocks(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Cuts the keys into block_size blocks, so 1 makes all scores at once; due are block_size keys per block."""
    d = Q.shape[-1]
    m = Q.new_full((*Q.shape[:-1], 1), -math.inf)
    ell, o = torch.zeros_like(m), torch.zeros_like(Q)
    for k, v in zip(K.chunk(block_size, dim=2), V.chunk(block_size, dim=2), strict=True):
        S = Q @ k.mT / d**0.5
        m_old, m = m, torch.maximum(m, S.amax(dim=-1, keepdim=True))
        factor = torch.exp(m_old - m)
        P = torch.exp(S - m)
        ell = ell * factor + P.sum(dim=-1, keepdim=True)
        o = o * factor + P @ v
    return o / ell


def tiled_attention__wrong_fifteenth_one_maximum_for_all_heads(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """One maximum per place for all sequences and heads: NaN where one has tiny scores; due is one per query."""
    B, h, n, d = Q.shape
    m = torch.full((n, 1), -math.inf, dtype=Q.dtype, device=Q.device)
    l = torch.zeros(B, h, n, 1, dtype=Q.dtype, device=Q.device)
    o = torch.zeros(B, h, n, d, dtype=Q.dtype, device=Q.device)
    for start in range(0, n, block_size):
        stop = min(start + block_size, n)
        S = Q @ K[:, :, start:stop].transpose(2, 3) / math.sqrt(d)
        m_new = torch.maximum(m, S.amax(dim=(0, 1, 3)).reshape(n, 1))
        factor = torch.exp(m - m_new)
        terms = torch.exp(S - m_new)
        l = l * factor + terms.sum(dim=3, keepdim=True)
        o = o * factor + terms @ V[:, :, start:stop]
        m = m_new
    return o / l


def tiled_attention__wrong_fifteenth_products_with_values_held_in_five_axes(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Right values, but holds (B, h, n, block, d) before summing, n*n and more where block*d >= n; due is a product."""
    d = Q.shape[-1]
    m = Q.new_full((*Q.shape[:-1], 1), -math.inf)
    total, o = torch.zeros_like(m), torch.zeros_like(Q)
    for k, v in zip(K.split(block_size, dim=-2), V.split(block_size, dim=-2), strict=True):
        s = Q @ k.mT / math.sqrt(d)
        new = torch.maximum(m, s.amax(dim=-1, keepdim=True))
        factor = torch.exp(m - new)
        terms = torch.exp(s - new)
        weighted = terms.unsqueeze(-1) * v.unsqueeze(-3)
        total = factor * total + terms.sum(dim=-1, keepdim=True)
        o = factor * o + weighted.sum(dim=-2)
        m = new
    return o / total


def tiled_attention__right_fifteenth_column_of_ones_from_the_last_block_on(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Right: blocks from the last to the first, the sum of terms as one more column of the mix."""
    n, d = Q.shape[-2:]
    wide = torch.promote_types(Q.dtype, torch.float32)
    q = Q.to(wide) * d**-0.5
    top, state = None, None
    for start in reversed(range(0, n, block_size)):
        keys, values = (x.narrow(2, start, min(block_size, n - start)).to(wide) for x in (K, V))
        scores = torch.einsum("...id,...jd->...ij", q, keys)
        highest = scores.amax(-1, keepdim=True)
        if top is not None:
            highest = torch.maximum(highest, top)
        added = (scores - highest).exp() @ F.pad(values, (0, 1), value=1.0)
        state = added if state is None else torch.addcmul(added, state, (top - highest).exp())
        top = highest
    return (state[..., :d] / state[..., d:]).to(Q.dtype)


# ---------------------------------------------------------------- 9.4 attention_flops


def attention_flops__wrong_fifteenth_one_addition_less_per_result(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts b multiplications and b - 1 additions per result; due are two operations for each of the b."""
    scores = n * n * (d_head + d_head - 1)
    outputs = n * d_head * (n + n - 1)
    return batch * n_heads * (scores + outputs)


def attention_flops__wrong_fifteenth_exponentials_counted(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Adds one exponential per score; due are the two products only."""
    per_score = 2 * d_head + 1 + 2 * d_head
    return batch * n_heads * per_score * n**2


def attention_flops__wrong_fifteenth_values_mixed_feature_by_feature(
    batch: int, n_heads: int, n: int, d_head: int
) -> int:
    """Counts A V as (n, d) times (d, d); due is (n, n) times (n, d)."""

    def product(a, b, c):
        return 2 * a * b * c

    total = 0
    for _ in range(batch * n_heads):
        total += product(n, d_head, n)
        total += product(n, d_head, d_head)
    return total


def attention_flops__wrong_fifteenth_caret_as_power(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Writes n ^ 2 for the square, which is a bitwise xor; due is n ** 2."""
    return 4 * batch * n_heads * d_head * (n ^ 2)


def attention_flops__wrong_fifteenth_parentheses_missing(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Multiplies only the first product with batch and heads; due is their sum in parentheses."""
    qk = 2 * n * d_head * n
    av = 2 * n * n * d_head
    return batch * n_heads * qk + av


def attention_flops__wrong_fifteenth_lower_triangle_only(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts the pairs that a causal mask leaves; due is all n*n, as the mask saves nothing."""
    pairs = n * (n + 1) // 2
    return 2 * (2 * d_head) * pairs * n_heads * batch


def attention_flops__wrong_fifteenth_numpy_product_overflows(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Multiplies in 64-bit numpy integers, which wrap from 2**63 on; due is exact at any size."""
    qk = np.prod([2, batch, n_heads, n, n, d_head])
    av = np.prod([2, batch, n_heads, n, d_head, n])
    return int(qk + av)


def attention_flops__wrong_fifteenth_float_comes_back(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Right in value for moderate sizes, but a float, since it goes by the model's width with a `/`; due is an int."""
    d_model = n_heads * d_head
    per_layer = 4 * batch * n**2 * d_model * n_heads
    return per_layer / n_heads


def attention_flops__right_fifteenth_letters_of_two_einsums(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Right: for each einsum two operations for every choice of all its letters."""
    size = {"b": batch, "h": n_heads, "q": n, "k": n, "d": d_head}
    products = ("bhqd,bhkd->bhqk", "bhqk,bhkd->bhqd")
    return sum(2 * math.prod(size[letter] for letter in set(p) if letter.isalpha()) for p in products)


# ---------------------------------------------------------------- 9.5 score_matrix_bytes


def score_matrix_bytes__wrong_fifteenth_scores_and_weights(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Counts the scores and the weights, two tables a head; due is one table, materialised once."""
    one_table = n * n * bytes_per_value
    tables = 2
    return batch * n_heads * tables * one_table


def score_matrix_bytes__wrong_fifteenth_unordered_pairs(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Counts each pair of different tokens once; due is every query with every key, itself included."""
    return math.comb(n, 2) * n_heads * batch * bytes_per_value


def score_matrix_bytes__wrong_fifteenth_heads_share_one_table(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Counts one n by n table per sequence, as if the heads shared it; due is a table for each head."""
    table = n**2 * bytes_per_value
    return batch * table


def score_matrix_bytes__wrong_fifteenth_two_bytes_written_in(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Writes 2 where the argument belongs; due is bytes_per_value."""
    entries = batch * n_heads * n * n
    size = entries * 2
    return size


def score_matrix_bytes__wrong_fifteenth_heads_squared(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Mixes up two names and squares the heads; due is n squared."""
    shape = (batch, n_heads, n, n_heads)
    total = bytes_per_value
    for s in shape:
        total *= s
    return total


def score_matrix_bytes__wrong_fifteenth_in_mebibytes(batch: int, n_heads: int, n: int, bytes_per_value: int = 2) -> int:
    """Returns whole MiB; due are bytes."""
    size = batch * n_heads * n**2 * bytes_per_value
    return size // 2**20


def score_matrix_bytes__wrong_fifteenth_int64_square_overflows(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Right until the product passes 2**63, where numpy's 64 bits wrap; due is exact at any size."""
    tokens = np.array([n], dtype=np.int64)
    scores = np.outer(tokens, tokens).sum()
    return int(scores * np.int64(batch * n_heads * bytes_per_value))


def score_matrix_bytes__wrong_fifteenth_table_really_made(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Right values, but makes one head's table to read off its size, and fails for long texts; due is arithmetic."""
    scores = np.empty((n, n), dtype=np.uint8)
    return batch * n_heads * scores.nbytes * bytes_per_value


def score_matrix_bytes__right_fifteenth_pairs_both_ways_and_diagonal(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Right: the pairs of different tokens in both directions, and each token with itself."""
    off_diagonal = 2 * math.comb(n, 2)
    return (off_diagonal + n) * math.prod((bytes_per_value, n_heads, batch))


# ---------------------------------------------------------------- 9.6 roofline_seconds


def roofline_seconds__wrong_fifteenth_compares_counts(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Decides by which count is larger, operations or bytes; due is by which time is larger."""
    if flops > bytes_moved:
        return flops / peak_flops
    return bytes_moved / peak_bandwidth


def roofline_seconds__wrong_fifteenth_multiply_add_as_one(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Halves the operations, as if the peak counted multiply-adds; due is the plain quotient."""
    fused = flops / 2
    arithmetic = fused / peak_flops
    memory = bytes_moved / peak_bandwidth
    return float(max(arithmetic, memory))


def roofline_seconds__wrong_fifteenth_difference_not_hidden(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Returns only what of the longer time the shorter one does not hide; due is the longer time."""
    t_compute = flops / peak_flops
    t_memory = bytes_moved / peak_bandwidth
    hidden = min(t_compute, t_memory)
    return max(t_compute, t_memory) - hidden


def roofline_seconds__wrong_fifteenth_peaks_crossed(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Divides each count by the other one's rate; due are operations by peak_flops and bytes by peak_bandwidth."""
    work = np.array([flops, bytes_moved], dtype=float)
    rates = np.array([peak_bandwidth, peak_flops], dtype=float)
    return float((work / rates).max())


def roofline_seconds__wrong_fifteenth_parenthesis_too_early(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Closes the parenthesis too early, and the maximum is divided by the bandwidth; due is one quotient each."""
    return max(flops / peak_flops, bytes_moved) / peak_bandwidth


def roofline_seconds__wrong_fifteenth_returns_the_rate(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Returns the height of the roof, in operations per second; due are seconds."""
    if bytes_moved == 0:
        return float(peak_flops)
    intensity = flops / bytes_moved
    return float(min(peak_flops, intensity * peak_bandwidth))


def roofline_seconds__wrong_fifteenth_rounded_to_nanoseconds(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Rounds to nine places, so jobs of picoseconds take no time; due is the quotient as it is."""
    times = [flops / peak_flops, bytes_moved / peak_bandwidth]
    times.sort()
    return round(times[1], 9)


def roofline_seconds__wrong_fifteenth_tensor_comes_back(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Right value, as a tensor without axes; due is a float."""
    work = torch.tensor([flops, bytes_moved], dtype=torch.float64)
    rate = torch.tensor([peak_flops, peak_bandwidth], dtype=torch.float64)
    return (work / rate).amax()


def roofline_seconds__right_fifteenth_compares_cross_products(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Right: which side of the border is decided by cross products, and one division is made."""
    compute_bound = flops * peak_bandwidth >= bytes_moved * peak_flops
    amount, rate = (flops, peak_flops) if compute_bound else (bytes_moved, peak_bandwidth)
    return float(amount / rate)


# ---------------------------------------------------------------- 9.7 median_time


def median_time__wrong_fifteenth_order_taken_off(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Takes the time of the order off each run; due is the whole time from before the call until the job is done."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        before = clock()
        run()
        ordered = clock()
        synchronize()
        after = clock()
        times.append((after - before) - (ordered - before))
    return float(statistics.median(times))


def median_time__wrong_fifteenth_warmup_taken_out_of_repeats(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Makes `repeats` runs in all and drops the first `warmup` of them; due are warmup runs and then repeats."""
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    counted = times[warmup:] or times[-1:]
    return float(np.median(counted))


def median_time__wrong_fifteenth_mean_without_the_extremes(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Leaves out the fastest and the slowest run and takes the mean of the rest; due is the median."""
    for _ in range(warmup):
        run()
    samples = []
    for _ in range(repeats):
        synchronize()
        t0 = clock()
        run()
        synchronize()
        t1 = clock()
        samples.append(t1 - t0)
    samples.sort()
    if len(samples) > 2:
        samples = samples[1:-1]
    return sum(samples) / len(samples)


def median_time__wrong_fifteenth_middle_of_unsorted(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Sorts a copy and takes the middle of the list as measured; due is the middle of the sorted one."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    sorted(times)
    half = repeats // 2
    if repeats % 2 == 1:
        return float(times[half])
    return (times[half - 1] + times[half]) / 2


def median_time__wrong_fifteenth_start_read_once(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Reads the start once before the loop, so times add up from run to run; due is a start for each run."""
    for _ in range(warmup):
        run()
    times = []
    synchronize()
    start = clock()
    for _ in range(repeats):
        run()
        synchronize()
        end = clock()
        times.append(end - start)
    return float(statistics.median(times))


def median_time__wrong_fifteenth_in_milliseconds(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Takes the clock for seconds and returns milliseconds; due is the clock's own unit."""

    def once():
        synchronize()
        start = clock()
        run()
        synchronize()
        return clock() - start

    for _ in range(warmup):
        run()
    return 1e3 * statistics.median(once() for _ in range(repeats))


def median_time__wrong_fifteenth_readings_in_float32(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Keeps the readings in float32, too coarse for a clock that starts at a large number; due are full floats."""
    for _ in range(warmup):
        run()
    stamps = torch.zeros(repeats, 2)
    for r in range(repeats):
        synchronize()
        stamps[r, 0] = clock()
        run()
        synchronize()
        stamps[r, 1] = clock()
    return float(np.median((stamps[:, 1] - stamps[:, 0]).numpy()))


def median_time__wrong_fifteenth_clock_read_right_after_the_order(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Right values, but reads the clock right behind `run` as well; due is to synchronise before each reading."""
    for _ in range(warmup):
        run()
    orders, waits = [], []
    for _ in range(repeats):
        synchronize()
        a = clock()
        run()
        b = clock()
        synchronize()
        c = clock()
        orders.append(b - a)
        waits.append(c - b)
    return float(statistics.median(o + w for o, w in zip(orders, waits, strict=True)))


def median_time__right_fifteenth_differences_of_time_stamps(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Right: one time stamp between each two runs, and the end of one run is the start of the next."""

    def now():
        synchronize()
        return clock()

    for _ in range(warmup):
        run()
    stamps = [now()]
    while len(stamps) <= repeats:
        run()
        stamps.append(now())
    spans = sorted(late - early for early, late in zip(stamps, stamps[1:], strict=False))
    return float((spans[(repeats - 1) // 2] + spans[repeats // 2]) / 2)


# ---------------------------------------------------------------- 9.8 tiled_causal_attention


def tiled_causal_attention__wrong_fifteenth_whole_own_block_seen(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Skips later blocks and hides nothing in the tile on the diagonal; due is a triangle there."""
    n, d = Q.shape[-2:]
    done = []
    for i in range(0, n, block_size):
        q = Q[..., i : i + block_size, :] / math.sqrt(d)
        m = q.new_full((*q.shape[:-1], 1), -math.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for j in range(0, i + 1, block_size):
            s = q @ K[..., j : j + block_size, :].mT
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            f, e = torch.exp(m - new), torch.exp(s - new)
            l = f * l + e.sum(-1, keepdim=True)
            o = f * o + e @ V[..., j : j + block_size, :]
            m = new
        done.append(o / l)
    return torch.cat(done, dim=-2)


def tiled_causal_attention__wrong_fifteenth_triangle_in_every_tile(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Hides the upper triangle in every tile, also left of the diagonal; due is on the diagonal only."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for start in range(0, n, block_size):
        stop = min(start + block_size, n)
        q = Q[:, :, start:stop]
        m = torch.full((B, h, stop - start, 1), -math.inf, dtype=Q.dtype, device=Q.device)
        total = torch.zeros_like(m)
        mix = torch.zeros_like(q)
        for first in range(0, stop, block_size):
            last = min(first + block_size, n)
            scores = q @ K[:, :, first:last].transpose(-1, -2) / d**0.5
            hide = torch.ones(stop - start, last - first, dtype=torch.bool, device=Q.device).triu(1)
            scores = scores.masked_fill(hide, -math.inf)
            m_new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
            factor = torch.exp(m - m_new)
            terms = torch.exp(scores - m_new)
            total = total * factor + terms.sum(dim=-1, keepdim=True)
            mix = mix * factor + terms @ V[:, :, first:last]
            m = m_new
        out[:, :, start:stop] = mix / total
    return out


def tiled_causal_attention__wrong_fifteenth_hidden_scores_zero(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Sets the hidden scores of the diagonal tile to 0, where exp makes them 1; due is -inf."""
    d = Q.shape[-1]
    blocks = list(zip(*(x.split(block_size, dim=2) for x in (Q, K, V)), strict=True))
    outs = []
    for i, (q, _, _) in enumerate(blocks):
        m = torch.full_like(q[..., :1], -math.inf)
        ell, o = torch.zeros_like(m), torch.zeros_like(q)
        for j, (_, k, v) in enumerate(blocks[: i + 1]):
            s = q @ k.mT / math.sqrt(d)
            if i == j:
                s = s.tril()
            m_new = torch.maximum(m, s.amax(-1, keepdim=True))
            shrink = (m - m_new).exp()
            p = (s - m_new).exp()
            ell = ell * shrink + p.sum(-1, keepdim=True)
            o = o * shrink + p @ v
            m = m_new
        outs.append(o / ell)
    return torch.cat(outs, dim=2)


def tiled_causal_attention__wrong_fifteenth_keys_counted_within_block(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Compares a query's place in the text with a key's place in its block; due are places in the text for both."""
    n, d = Q.shape[-2:]
    out = torch.zeros_like(Q)
    for a in range(0, n, block_size):
        q = Q[:, :, a : a + block_size]
        rows = a + torch.arange(q.shape[2], device=Q.device)
        m = q.new_full(q.shape[:-1] + (1,), -math.inf)
        l = torch.zeros_like(m)
        o = torch.zeros_like(q)
        for b in range(0, a + 1, block_size):
            k, v = K[:, :, b : b + block_size], V[:, :, b : b + block_size]
            cols = torch.arange(k.shape[2], device=Q.device)
            s = torch.where(rows[:, None] >= cols, q @ k.mT / d**0.5, -math.inf)
            top = torch.maximum(m, s.amax(dim=-1, keepdim=True))
            fade, t = torch.exp(m - top), torch.exp(s - top)
            l, o, m = l * fade + t.sum(-1, keepdim=True), o * fade + t @ v, top
        out[:, :, a : a + block_size] = o / l
    return out


def tiled_causal_attention__wrong_fifteenth_triangle_one_off(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Begins the hidden triangle two places above the diagonal, so each token sees the next; due is one place."""
    d = Q.shape[-1]
    keys, values = K.split(block_size, -2), V.split(block_size, -2)

    def add(state, s, v):
        m, l, o = state
        new = torch.maximum(m, s.amax(-1, keepdim=True))
        f = torch.exp(m - new)
        e = torch.exp(s - new)
        return new, f * l + e.sum(-1, keepdim=True), f * o + e @ v

    rows = []
    for i, q in enumerate(Q.split(block_size, -2)):
        column = torch.zeros_like(q[..., :1])
        state = column - math.inf, column, torch.zeros_like(q)
        for j in range(i):
            state = add(state, q @ keys[j].mT / d**0.5, values[j])
        s = q @ keys[i].mT / d**0.5
        hide = torch.triu(torch.ones_like(s[0, 0]), diagonal=2).bool()
        _, l, o = add(state, s.masked_fill(hide, -math.inf), values[i])
        rows.append(o / l)
    return torch.cat(rows, -2)


def tiled_causal_attention__wrong_fifteenth_logsumexp_comes_along(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Returns the output and each query's logsumexp, as a training kernel does; due is the output alone."""
    n, d = Q.shape[-2:]
    outs, logs = [], []
    for i in range(0, n, block_size):
        q = Q[..., i : i + block_size, :]
        m = q.new_full((*q.shape[:-1], 1), -math.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for j in range(0, i + 1, block_size):
            s = q @ K[..., j : j + block_size, :].mT / math.sqrt(d)
            if i == j:
                s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -math.inf)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            f, e = torch.exp(m - new), torch.exp(s - new)
            l = f * l + e.sum(-1, keepdim=True)
            o = f * o + e @ V[..., j : j + block_size, :]
            m = new
        outs.append(o / l)
        logs.append((m + l.log()).squeeze(-1))
    return torch.cat(outs, dim=-2), torch.cat(logs, dim=-1)


def tiled_causal_attention__wrong_fifteenth_hidden_scores_minus_ten_thousand(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Hides with -10,000, which counts where a token's own scores are as low; due is -inf."""
    B, h, n, d = Q.shape
    place = torch.arange(n, device=Q.device)
    out = torch.empty_like(Q)
    for start in range(0, n, block_size):
        here = slice(start, start + block_size)
        q = Q[:, :, here]
        m = torch.full((B, h, q.shape[2], 1), -math.inf, dtype=Q.dtype, device=Q.device)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for begin in range(0, start + 1, block_size):
            there = slice(begin, begin + block_size)
            scores = q @ K[:, :, there].mT / math.sqrt(d)
            later = place[there][None, :] > place[here][:, None]
            scores = scores.masked_fill(later, -1e4)
            m_new = torch.maximum(m, scores.amax(-1, keepdim=True))
            factor, terms = torch.exp(m - m_new), torch.exp(scores - m_new)
            l = factor * l + terms.sum(-1, keepdim=True)
            o = factor * o + terms @ V[:, :, there]
            m = m_new
        out[:, :, here] = o / l
    return out


def tiled_causal_attention__wrong_fifteenth_later_tiles_dropped_after_the_product(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Right values, but every tile is multiplied and the later ones dropped afterwards; due is not to multiply them."""
    n, d = Q.shape[-2:]
    place = torch.arange(n, device=Q.device)
    outs = []
    for q, rows in zip(Q.split(block_size, 2), place.split(block_size), strict=True):
        m = q.new_full((*q.shape[:-1], 1), -math.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        tiles = zip(K.split(block_size, 2), V.split(block_size, 2), place.split(block_size), strict=True)
        for k, v, cols in tiles:
            s = q @ k.mT / math.sqrt(d)
            visible = rows[:, None] >= cols
            if not visible.any():
                continue
            s = s.masked_fill(~visible, -math.inf)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            factor, terms = torch.exp(m - new), torch.exp(s - new)
            l = l * factor + terms.sum(-1, keepdim=True)
            o = o * factor + terms @ v
            m = new
        outs.append(o / l)
    return torch.cat(outs, 2)


def tiled_causal_attention__right_fifteenth_keys_in_the_outer_loop(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Right: one block of keys after the other visits its own and all later blocks of queries, whose states wait."""
    d = Q.shape[-1]
    wide = torch.promote_types(Q.dtype, torch.float32)
    queries, keys, values = (x.to(wide).split(block_size, dim=2) for x in (Q, K, V))
    tops, sums = {}, {}
    for j, (k, v) in enumerate(zip(keys, values, strict=True)):
        v1 = torch.cat((v, torch.ones_like(v[..., :1])), dim=-1)
        for i in range(j, len(queries)):
            s = torch.matmul(queries[i], k.transpose(2, 3)).div(math.sqrt(d))
            if i == j:
                steps = torch.arange(s.shape[-1], device=Q.device)
                s = s.where(steps <= steps[:, None], -math.inf)
            top = s.max(dim=-1, keepdim=True).values
            if i in tops:
                top = torch.maximum(top, tops[i])
                sums[i] = sums[i] * torch.exp(tops[i] - top)
            added = torch.exp(s - top) @ v1
            sums[i] = sums[i] + added if i in sums else added
            tops[i] = top
    rows = [sums[i][..., :d] / sums[i][..., d:] for i in range(len(queries))]
    return torch.cat(rows, dim=2).to(Q.dtype)


# ---------------------------------------------------------------- 9.9 flash_bytes


def flash_bytes__wrong_fifteenth_keys_read_per_query_under_the_mask(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Under the mask counts for each query the keys it sees; due is for each block the keys that some query sees."""
    blocks = -(-n // block_q)
    if causal:
        seen = n * (n + 1) // 2
        kv = 2 * seen
    else:
        kv = 2 * n * blocks
    return (2 * n + kv) * d * bytes_per_value


def flash_bytes__wrong_fifteenth_earlier_keys_stay_on_the_chip(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Lets a causal block read only the keys that no block before it read; due is all again, as nothing is kept."""
    rows, have = 0, 0
    for start in range(0, n, block_q):
        stop = min(start + block_q, n)
        rows += 2 * (stop - start)
        if causal:
            rows += 2 * (stop - have)
            have = stop
        else:
            rows += 2 * n
    return rows * d * bytes_per_value


def flash_bytes__wrong_fifteenth_keys_stay_and_queries_pass_by(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Keeps a block of keys on the chip and lets the queries and outputs pass; due is the other way round."""
    total = 0
    for first in range(0, n, block_q):
        keys = min(block_q, n - first)
        queries = n - first if causal else n
        total += 2 * keys + 2 * queries
    return total * d * bytes_per_value


def flash_bytes__wrong_fifteenth_one_block_too_many(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Counts n // block_q + 1 blocks, one too many where block_q divides n; due is to round up."""
    blocks = n // block_q + 1
    rows = 2 * n
    for b in range(blocks):
        last = min((b + 1) * block_q, n)
        rows += 2 * (last if causal else n)
    return rows * d * bytes_per_value


def flash_bytes__wrong_fifteenth_up_to_the_first_query_of_the_block(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Under the mask counts the keys up to the block's first query; due is up to its last."""
    moved = 0
    for first in range(0, n, block_q):
        size = min(block_q, n - first)
        seen = first + 1 if causal else n
        moved += (size + seen + seen + size) * d * bytes_per_value
    return moved


def flash_bytes__wrong_fifteenth_block_q_as_number_of_blocks(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Cuts the queries into block_q blocks; due are block_q queries per block."""
    size = -(-n // block_q)
    ends = [min(start + size, n) for start in range(0, n, size)]
    keys = sum(ends) if causal else n * len(ends)
    return 2 * (n + keys) * d * bytes_per_value


def flash_bytes__wrong_fifteenth_lone_key_not_read(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Spares key and query where a block sees one key alone, whose weight is 1 anyway; due is to count them too."""
    rows = 0
    for start in range(0, n, block_q):
        stop = min(start + block_q, n)
        seen = stop if causal else n
        if seen == 1:
            rows += 2
        else:
            rows += 2 * (stop - start) + 2 * seen
    return rows * d * bytes_per_value


def flash_bytes__wrong_fifteenth_float_under_the_mask(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Right in value, but with the mask a float, for the half is taken by `/`; due is an int."""
    full, rest = divmod(n, block_q)
    blocks = full + (1 if rest else 0)
    if causal:
        keys = block_q * full * (full + 1) / 2 + (n if rest else 0)
    else:
        keys = n * blocks
    return (2 * n + 2 * keys) * d * bytes_per_value


def flash_bytes__right_fifteenth_once_and_what_comes_again(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Right: everything once, and what comes again: for each pair of blocks the keys of the earlier, or of all."""
    blocks = (n + block_q - 1) // block_q
    again = math.comb(blocks, 2) * block_q if causal else (blocks - 1) * n
    return (4 * n + 2 * again) * d * bytes_per_value


# ---------------------------------------------------------------- 9.10 flash_backward


def flash_backward__wrong_fifteenth_diagonal_of_the_jacobian_only(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes a(1 - a) as the derivative of the softmax, as of a sigmoid; due is the whole Jacobian."""
    scale = 1 / math.sqrt(Q.shape[-1])
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, Q.shape[2], block_size):
        block = slice(start, start + block_size)
        A = torch.exp(Q @ K[:, :, block].mT * scale - logsumexp[..., None])
        dV[:, :, block] = A.mT @ d_out
        dA = d_out @ V[:, :, block].mT
        dS = A * (1 - A) * dA * scale
        dQ += dS @ K[:, :, block]
        dK[:, :, block] = dS.mT @ Q
    return dQ, dK, dV


def flash_backward__wrong_fifteenth_softmax_within_the_block(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Makes the weights again by a softmax over the block; due is exp(score - logsumexp), over the whole row."""
    d = Q.shape[-1]
    delta = (out * d_out).sum(-1, keepdim=True)
    dQ, dKs, dVs = torch.zeros_like(Q), [], []
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2), strict=True):
        P = torch.softmax(Q @ k.mT / d**0.5, dim=-1)
        dVs.append(P.mT @ d_out)
        dS = P * (d_out @ v.mT - delta)
        dQ = dQ + dS @ k / d**0.5
        dKs.append(dS.mT @ Q / d**0.5)
    return dQ, torch.cat(dKs, 2), torch.cat(dVs, 2)


def flash_backward__wrong_fifteenth_row_sum_over_the_block(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes the sum of weight times gradient over the keys of the block; due is over all keys, from out and d_out."""
    n, d = Q.shape[-2:]
    L = logsumexp.unsqueeze(-1)
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    for j in range(0, n, block_size):
        k, v = K[..., j : j + block_size, :], V[..., j : j + block_size, :]
        p = torch.exp(Q @ k.transpose(-1, -2) / math.sqrt(d) - L)
        dp = d_out @ v.transpose(-1, -2)
        ds = p * (dp - (p * dp).sum(dim=-1, keepdim=True))
        dQ += ds @ k / math.sqrt(d)
        dK[..., j : j + block_size, :] += ds.transpose(-1, -2) @ Q / math.sqrt(d)
        dV[..., j : j + block_size, :] += p.transpose(-1, -2) @ d_out
    return dQ, dK, dV


def flash_backward__wrong_fifteenth_scaled_twice_for_q(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scales the keys beforehand and dQ by root d once more; due is once."""
    root = math.sqrt(Q.shape[-1])
    delta = torch.einsum("bhnd,bhnd->bhn", d_out, out)[..., None]
    dQ = torch.zeros_like(Q)
    dK, dV = [], []
    for k, v in zip((K / root).split(block_size, dim=-2), V.split(block_size, dim=-2), strict=True):
        weights = torch.exp(torch.einsum("bhid,bhjd->bhij", Q, k) - logsumexp[..., None])
        d_scores = weights * (torch.einsum("bhid,bhjd->bhij", d_out, v) - delta)
        dQ += torch.einsum("bhij,bhjd->bhid", d_scores, k) / root
        dK.append(torch.einsum("bhij,bhid->bhjd", d_scores, Q) / root)
        dV.append(torch.einsum("bhij,bhid->bhjd", weights, d_out))
    return dQ, torch.cat(dK, dim=-2), torch.cat(dV, dim=-2)


def flash_backward__wrong_fifteenth_parentheses_missing_at_delta(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Writes P * dP - delta; due is P * (dP - delta)."""
    n, d = Q.shape[2:]
    delta = (d_out * out).sum(dim=-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(Q), torch.zeros_like(Q)
    for start in range(0, n, block_size):
        stop = min(start + block_size, n)
        Kj, Vj = K[:, :, start:stop], V[:, :, start:stop]
        P = torch.exp(Q @ Kj.mT / d**0.5 - logsumexp.unsqueeze(-1))
        dP = d_out @ Vj.mT
        dS = (P * dP - delta) / d**0.5
        dV[:, :, start:stop] = P.mT @ d_out
        dK[:, :, start:stop] = dS.mT @ Q
        dQ = dQ + dS @ Kj
    return dQ, dK, dV


def flash_backward__wrong_fifteenth_returned_in_the_order_made(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns (dV, dK, dQ), the order of the way back; due is (dQ, dK, dV)."""
    s = Q.shape[-1] ** -0.5
    delta = (d_out * out).sum(-1)
    grads_v, grads_k, grad_q = [], [], torch.zeros_like(Q)
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2), strict=True):
        a = (s * (Q @ k.mT) - logsumexp[..., None]).exp()
        grads_v.append(a.mT @ d_out)
        g = s * a * (d_out @ v.mT - delta[..., None])
        grads_k.append(g.mT @ Q)
        grad_q += g @ k
    return torch.cat(grads_v, 2), torch.cat(grads_k, 2), grad_q


def flash_backward__wrong_fifteenth_one_maximum_for_the_whole_block(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes out one maximum of all queries, so 0 meets inf where scores lie far apart; due is exp(score - L)."""
    n, d = Q.shape[-2:]
    delta = (out * d_out).sum(dim=-1, keepdim=True)
    L = logsumexp.unsqueeze(-1)
    dQ = torch.zeros_like(Q)
    dK = torch.zeros_like(K)
    dV = torch.zeros_like(V)
    for start in range(0, n, block_size):
        here = slice(start, min(start + block_size, n))
        S = Q @ K[:, :, here].mT / math.sqrt(d)
        top = S.max()
        P = torch.exp(S - top) * torch.exp(top - L)
        dS = P * (d_out @ V[:, :, here].mT - delta) / math.sqrt(d)
        dQ += dS @ K[:, :, here]
        dK[:, :, here] = dS.mT @ Q
        dV[:, :, here] = P.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_fifteenth_parts_of_dq_kept_in_a_list(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Right values, but keeps a dQ for each block, n*n numbers if block_size <= d; due is to add at once."""
    scale = math.sqrt(Q.shape[-1])
    delta = (d_out * out).sum(-1, keepdim=True)
    dQ, dK, dV = [], [], []
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2), strict=True):
        P = torch.exp(Q @ k.mT / scale - logsumexp.unsqueeze(-1))
        dS = P * (d_out @ v.mT - delta) / scale
        dQ.append(dS @ k)
        dK.append(dS.mT @ Q)
        dV.append(P.mT @ d_out)
    return torch.stack(dQ).sum(dim=0), torch.cat(dK, dim=2), torch.cat(dV, dim=2)


def flash_backward__right_fifteenth_column_of_minus_delta(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Right: d_out gets minus its product with out as one more column, so one product with (V, 1) gives the bracket."""
    wide = torch.promote_types(Q.dtype, torch.float32)
    shape, n, d = Q.shape, *Q.shape[-2:]
    q, k, v, o, g = (x.to(wide).flatten(0, 1) for x in (Q, K, V, out, d_out))
    level = logsumexp.to(wide).flatten(0, 1).unsqueeze(-1)
    q = q / math.sqrt(d)
    g1 = torch.cat((g, torch.linalg.vecdot(g, o).neg().unsqueeze(-1)), dim=-1)
    grad_q, grad_k, grad_v = torch.zeros_like(q), torch.empty_like(k), torch.empty_like(v)
    for at in range(0, n, block_size):
        width = min(block_size, n - at)
        keys, values = k.narrow(1, at, width), v.narrow(1, at, width)
        turned = (torch.bmm(keys, q.mT) - level.mT).exp()
        grad_v.narrow(1, at, width).copy_(torch.bmm(turned, g))
        turned = turned * torch.bmm(F.pad(values, (0, 1), value=1.0), g1.mT)
        grad_k.narrow(1, at, width).copy_(torch.bmm(turned, q))
        grad_q.baddbmm_(turned.mT, keys, alpha=1 / math.sqrt(d))
    return tuple(x.unflatten(0, shape[:2]).to(Q.dtype) for x in (grad_q, grad_k, grad_v))
