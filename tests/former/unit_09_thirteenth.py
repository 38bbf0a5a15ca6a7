"""Answers to the exercises of unit 9, wrong ones and right ones, as students would write them."""

import bisect
import itertools
import math
import statistics
from collections.abc import Callable
from functools import reduce

import numpy as np
import torch


def _two_sums(scores, values):
    """Of one block of scores: its largest score, the sum of its terms, and their mix of the values."""
    top = scores.amax(dim=-1, keepdim=True)
    terms = torch.exp(scores - top)
    return top, terms.sum(dim=-1, keepdim=True), terms @ values


# ------- 9.1 loop_attention


def loop_attention__wrong_thirteenth_root_of_n(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Divides the scores by the square root of the number of keys; due is the root of the width d."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                s = K[b, head] @ Q[b, head, i] / math.sqrt(n)  # n terms get mixed, so calm them by the root of n
                out[b, head, i] = torch.softmax(s, dim=0) @ V[b, head]
    return out


def loop_attention__wrong_thirteenth_keys_of_all_heads(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Lets a query meet the keys and values of all heads of its sequence; due are those of its own head alone."""
    sequences = []
    for queries, keys, values in zip(Q, K, V):
        all_keys = keys.flatten(0, 1)
        all_values = values.flatten(0, 1)
        heads = []
        for one_head in queries:
            rows = [torch.softmax(all_keys @ q / q.numel() ** 0.5, -1) @ all_values for q in one_head]
            heads.append(torch.stack(rows))
        sequences.append(torch.stack(heads))
    return torch.stack(sequences)


def loop_attention__wrong_thirteenth_softmax_over_queries(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Each key shares itself out among all queries (softmax over the queries); due is a softmax over the keys."""
    batch, heads, tokens, width = Q.shape
    result = torch.zeros_like(Q)
    for b in range(batch):
        for a in range(heads):
            total = torch.zeros_like(Q[b, a])
            for j in range(tokens):
                column = (Q[b, a] * K[b, a, j]).sum(dim=1) / width**0.5
                share = column.softmax(dim=0)
                total = total + share[:, None] * V[b, a, j][None, :]
            result[b, a] = total
    return result


def loop_attention__wrong_thirteenth_values_of_first_sequence(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Takes the values always from sequence 0 of the batch; due are those of the query's own sequence."""
    result = torch.zeros_like(Q)
    scale = 1 / math.sqrt(Q.shape[3])
    for b, head in itertools.product(range(Q.shape[0]), range(Q.shape[1])):
        k_here, v_here = K[b, head], V[0, head]
        for i, q in enumerate(Q[b, head]):
            scores = scale * torch.mv(k_here, q)
            result[b, head, i] = torch.mv(v_here.T, scores.softmax(0))
    return result


def loop_attention__wrong_thirteenth_quotient_thrown_away(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Computes the scores over the root of d but doesn't keep them, so undivided scores are used; due are
    divided ones."""
    B, h, n, d = Q.shape
    out = Q.new_zeros(B, h, n, d)
    for b in range(B):
        for i in range(n):
            scores = torch.einsum("hd,hjd->hj", Q[b, :, i], K[b])
            scores.div(d**0.5)
            weights = torch.softmax(scores, dim=1)
            out[b, :, i] = torch.einsum("hj,hjd->hd", weights, V[b])
    return out


def loop_attention__wrong_thirteenth_tokens_on_axis_one(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Reads the shape as (batch, tokens, heads, width), so heads attend to each other; due is (batch, heads,
    tokens, width)."""
    batch, tokens, heads, width = Q.shape
    out = torch.zeros_like(Q)
    for b in range(batch):
        for t in range(tokens):
            for head in range(heads):
                query = Q[b, t, head]
                keys = K[b, :, head]
                values = V[b, :, head]
                attention = torch.softmax((keys @ query) / width**0.5, dim=0)
                out[b, t, head] = attention @ values
    return out


def loop_attention__wrong_thirteenth_scores_clamped(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Cuts scores off at +-60 so that exp stays finite, so larger ones count as equal; due is to subtract the
    maximum."""
    out = torch.zeros_like(Q)
    root = math.sqrt(Q.size(-1))
    for b in range(Q.size(0)):
        for head in range(Q.size(1)):
            for i in range(Q.size(2)):
                s = (K[b, head] @ Q[b, head, i]) / root
                e = s.clamp(-60, 60).exp()  # no overflow
                out[b, head, i] = (e @ V[b, head]) / e.sum()
    return out


def loop_attention__wrong_thirteenth_weights_as_python_numbers(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Turns the weights into Python numbers by tolist, so no gradient reaches Q and K; due are gradients to all
    three."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                scores = (K[b, head] * Q[b, head, i]).sum(-1) / math.sqrt(d)
                row = 0
                for weight, value in zip(torch.softmax(scores, 0).tolist(), V[b, head]):
                    row = row + weight * value
                out[b, head, i] = row
    return out


def loop_attention__right_thirteenth_one_flat_list_of_rows(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Walks over all heads of the batch as one flat list, divides numerator by denominator at the end, and
    stacks the rows."""
    rows = []
    for queries, keys, values in zip(Q.flatten(0, 1), K.flatten(0, 1), V.flatten(0, 1)):
        for q in queries.unbind(0):
            s = torch.mv(keys, q) / math.sqrt(q.shape[0])
            e = torch.exp(s - s.amax())
            rows.append(torch.mv(values.T, e) / e.sum())
    return torch.stack(rows).reshape(Q.shape)


# ------- 9.2 batched_attention


def batched_attention__wrong_thirteenth_future_instead_of_past(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """With causal=True hides the earlier tokens, so that token i sees i and what follows; due is 0 ... i."""
    n, d = Q.shape[-2:]
    S = Q @ K.transpose(-2, -1) / d**0.5
    if causal:
        hide = torch.ones(n, n, dtype=torch.bool, device=Q.device).tril(diagonal=-1)
        S = S.masked_fill(hide, -math.inf)
    return torch.softmax(S, dim=-1) @ V


def batched_attention__wrong_thirteenth_hidden_score_zero(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Sets the scores of hidden keys to 0, believing that 0 means no attention; due is minus infinity."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(Q.shape[-1])
    if causal:
        scores = torch.tril(scores)
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhij,bhjd->bhid", weights, V)


def batched_attention__wrong_thirteenth_mask_after_softmax(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Strikes out weights after the softmax, so that those left don't sum to 1; due is to mask before the softmax."""
    width = K.size(-1)
    attention = torch.softmax(torch.matmul(Q, K.mT) * width**-0.5, dim=-1)
    if causal:
        attention = attention.tril()
    return torch.matmul(attention, V)


def batched_attention__wrong_thirteenth_one_key_too_many(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """The mask begins one place too far right, so that token i sees token i + 1 too; due is 0 ... i."""
    n = Q.shape[2]
    scores = (Q @ K.mT).div(math.sqrt(Q.shape[3]))
    if causal:
        place = torch.arange(n, device=Q.device)
        later = place.unsqueeze(0) > place.unsqueeze(1) + 1
        scores = scores.masked_fill(later, float("-inf"))
    return scores.softmax(-1).matmul(V)


def batched_attention__wrong_thirteenth_softmax_axis_of_queries(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Takes the softmax along axis 2, that of the queries; due is the last axis, that of the keys."""
    B, h, n, d = Q.shape
    scores = torch.matmul(Q / math.sqrt(d), K.permute(0, 1, 3, 2))
    if causal:
        allowed = torch.tril(torch.ones((n, n), device=Q.device)) == 1
        scores = torch.where(allowed, scores, torch.full_like(scores, -math.inf))
    weights = torch.softmax(scores, 2)
    return torch.matmul(weights, V)


def batched_attention__wrong_thirteenth_token_itself_excluded(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Reads 0 ... i like a Python range, without i itself (only token 0 may see itself); due is i included."""
    n = Q.shape[-2]
    S = Q @ K.mT / Q.shape[-1] ** 0.5
    if causal:
        sees = torch.ones(n, n, dtype=torch.bool, device=Q.device).tril(-1)
        sees[0, 0] = True  # otherwise token 0 would see nothing
        S = S.masked_fill(~sees, -torch.inf)
    A = torch.softmax(S, dim=-1)
    return A @ V


def batched_attention__wrong_thirteenth_maximum_of_hidden_scores(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Subtracts the row's maximum over hidden keys too and then zeroes terms: 0/0 where a hidden score dwarfs
    the rest."""
    scores = Q @ K.transpose(2, 3) / math.sqrt(Q.shape[-1])
    biggest = torch.amax(scores, dim=-1, keepdim=True)
    terms = torch.exp(scores - biggest)
    if causal:
        terms = torch.tril(terms)
    return (terms @ V) / terms.sum(dim=-1, keepdim=True)


def batched_attention__wrong_thirteenth_loop_over_heads(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Right numbers, but by a Python loop over sequences and heads; the exercise asks for no Python loop at all."""
    out = torch.zeros_like(Q)
    n, d = Q.shape[2], Q.shape[3]
    for b in range(Q.shape[0]):
        for head in range(Q.shape[1]):
            s = Q[b, head] @ K[b, head].T / math.sqrt(d)
            if causal:
                s = s + torch.full((n, n), -math.inf, dtype=s.dtype, device=s.device).triu(1)
            out[b, head] = torch.softmax(s, dim=1) @ V[b, head]
    return out


def batched_attention__right_thirteenth_baddbmm_with_a_bias(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Puts batch and heads on one axis, adds the mask as a bias within the product, and divides after the
    second product."""
    B, h, n, d = Q.shape
    place = torch.arange(n, device=Q.device)
    bias = Q.new_zeros(n, n)
    if causal:
        bias = bias.masked_fill(place[None, :] > place[:, None], -math.inf)
    q, k, v = (x.reshape(B * h, n, d) for x in (Q, K, V))
    s = torch.baddbmm(bias.expand(B * h, n, n), q, k.mT, alpha=1 / math.sqrt(d))
    e = torch.exp(s - s.amax(dim=2, keepdim=True))
    return (torch.bmm(e, v) / e.sum(dim=2, keepdim=True)).reshape(B, h, n, d)


# ------- 9.3 tiled_attention


def tiled_attention__wrong_thirteenth_mean_of_block_softmaxes(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Gives each block a softmax of its own and averages them by the blocks' lengths; due is one softmax over
    all keys."""
    n, d = Q.shape[-2:]
    out = torch.zeros_like(Q)
    for start in range(0, n, block_size):
        k = K[:, :, start : start + block_size]
        v = V[:, :, start : start + block_size]
        weights = torch.softmax(Q @ k.mT / math.sqrt(d), dim=-1)
        out = out + weights @ v * (k.shape[2] / n)
    return out


def tiled_attention__wrong_thirteenth_own_block_only(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Lets a block of queries meet the keys of the same block only; due is that every query meets all blocks of
    keys."""
    pieces = []
    for q, k, v in zip(Q.split(block_size, 2), K.split(block_size, 2), V.split(block_size, 2)):
        top, total, mix = _two_sums(q @ k.mT / q.shape[-1] ** 0.5, v)
        pieces.append(mix / total)
    return torch.cat(pieces, dim=2)


def tiled_attention__wrong_thirteenth_divided_in_every_block(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Keeps o as a finished mean by dividing by the running sum in each block; due is one division after the last."""
    B, h, n, d = Q.shape
    m = Q.new_full((B, h, n, 1), -math.inf)
    l = Q.new_zeros(B, h, n, 1)
    o = torch.zeros_like(Q)
    for first in range(0, n, block_size):
        last = min(n, first + block_size)
        S = Q @ K[:, :, first:last].transpose(-1, -2) / math.sqrt(d)
        m_new = torch.maximum(m, S.amax(-1, keepdim=True))
        shrink = torch.exp(m - m_new)
        P = torch.exp(S - m_new)
        l = l * shrink + P.sum(-1, keepdim=True)
        o = (o * shrink + P @ V[:, :, first:last]) / l
        m = m_new
    return o


def tiled_attention__wrong_thirteenth_maximum_renewed_too_early(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Overwrites the old maximum before making the factor, which is then always 1; due is exp(m_old - m_new)."""
    running_max = torch.full_like(Q[..., :1], -torch.inf)
    denominator = torch.zeros_like(running_max)
    numerator = torch.zeros_like(Q)
    scale = Q.shape[-1] ** -0.5
    for keys, values in zip(torch.split(K, block_size, dim=-2), torch.split(V, block_size, dim=-2)):
        scores = scale * torch.einsum("bhid,bhjd->bhij", Q, keys)
        new_max = torch.maximum(running_max, scores.amax(dim=-1, keepdim=True))
        running_max = new_max
        factor = torch.exp(running_max - new_max)
        terms = torch.exp(scores - new_max)
        denominator = factor * denominator + terms.sum(dim=-1, keepdim=True)
        numerator = factor * numerator + terms @ values
    return numerator / denominator


def tiled_attention__wrong_thirteenth_factor_only_for_o(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Mends o with the factor but forgets the sum of the terms; due is the factor for both sums."""
    d = Q.size(3)
    m, total, o = None, None, None
    start = 0
    while start < K.size(2):
        stop = start + block_size
        s = torch.matmul(Q, K[:, :, start:stop, :].mT) / d**0.5
        here = s.max(dim=-1, keepdim=True).values
        if m is None:
            e = torch.exp(s - here)
            m, total, o = here, e.sum(-1, keepdim=True), e @ V[:, :, start:stop, :]
        else:
            new = torch.maximum(m, here)
            e = torch.exp(s - new)
            o = o * torch.exp(m - new) + e @ V[:, :, start:stop, :]
            total = total + e.sum(-1, keepdim=True)
            m = new
        start = stop
    return o / total


def tiled_attention__wrong_thirteenth_queries_cut_not_keys(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Takes block_size as queries per block, each with all keys at once; due are blocks of keys (queries only
    besides)."""
    answers = []
    for some in Q.split(block_size, dim=2):
        weights = torch.softmax(some @ K.mT / math.sqrt(K.shape[-1]), dim=-1)
        answers.append(weights @ V)
    return torch.cat(answers, dim=2)


def tiled_attention__wrong_thirteenth_maximum_of_this_block(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Measures against the newest block's maximum, so the factor overflows where scores fall far; due is the
    running maximum."""
    B, h, n, d = Q.shape
    m = torch.full((B, h, n, 1), -math.inf, dtype=Q.dtype, device=Q.device)
    l = torch.zeros((B, h, n, 1), dtype=Q.dtype, device=Q.device)
    o = torch.zeros((B, h, n, d), dtype=Q.dtype, device=Q.device)
    for j in range(0, n, block_size):
        Kj, Vj = K[..., j : j + block_size, :], V[..., j : j + block_size, :]
        m_block, l_block, o_block = _two_sums(Q @ Kj.mT / d**0.5, Vj)
        alpha = torch.exp(m - m_block)
        l, o, m = alpha * l + l_block, alpha * o + o_block, m_block
    return o / l


def tiled_attention__wrong_thirteenth_two_passes(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Goes over the keys twice, first for the maximum and then for the sums; due is one pass with the online
    softmax."""

    def scores_of_blocks():
        for s in range(0, Q.shape[-2], block_size):
            yield Q @ K[..., s : s + block_size, :].mT / math.sqrt(Q.shape[-1]), V[..., s : s + block_size, :]

    top = None
    for scores, _ in scores_of_blocks():
        here = scores.amax(-1, keepdim=True)
        top = here if top is None else torch.maximum(top, here)
    below, above = 0, 0
    for scores, values in scores_of_blocks():
        e = (scores - top).exp()
        below = below + e.sum(-1, keepdim=True)
        above = above + e @ values
    return above / below


def tiled_attention__right_thirteenth_reduce_by_merging_states(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Makes of each block a state against its own maximum, and merges the states one by one, both sides mended."""
    q = Q / math.sqrt(Q.shape[-1])

    def state(pair):
        keys, values = pair
        return _two_sums(q @ keys.mT, values)

    def merge(left, right):
        m = torch.maximum(left[0], right[0])
        a, b = torch.exp(left[0] - m), torch.exp(right[0] - m)
        return m, a * left[1] + b * right[1], a * left[2] + b * right[2]

    blocks = zip(K.split(block_size, dim=2), V.split(block_size, dim=2))
    _, total, mix = reduce(merge, map(state, blocks))
    return mix / total


# ------- 9.4 attention_flops


def attention_flops__wrong_thirteenth_one_addition_less(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts b - 1 additions for a sum of b products; due are b additions, the first to 0."""
    scores = n * n * (d_head + d_head - 1)
    mixing = n * d_head * (n + n - 1)
    return batch * n_heads * (scores + mixing)


def attention_flops__wrong_thirteenth_heads_are_free(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Believes that the heads share out the width among them and cost nothing more; due is n_heads times the work."""
    per_sequence = 2 * n * n * d_head + 2 * n * n * d_head  # splitting in heads does not change the total
    return batch * per_sequence


def attention_flops__wrong_thirteenth_second_product_d_by_d(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Takes A V as if each of its n d entries summed over d; due is a sum over the n keys."""
    first = 2 * n * d_head * n
    second = 2 * n * d_head * d_head
    return batch * n_heads * (first + second)


def attention_flops__wrong_thirteenth_xor_for_square(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Writes n ^ 2, which in Python is a bitwise xor; due is n ** 2."""
    return 4 * batch * n_heads * (n ^ 2) * d_head


def attention_flops__wrong_thirteenth_first_product_overwritten(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Overwrites the count of the first product with that of the second; due is the sum of both."""
    total = 0
    for rows, inner, columns in ((n, d_head, n), (n, n, d_head)):
        total = 2 * rows * inner * columns
    return batch * n_heads * total


def attention_flops__wrong_thirteenth_half_for_causal(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts only the n (n + 1) / 2 pairs that a causal mask allows; due are all n n pairs, nothing saved."""
    pairs = n * (n + 1) // 2
    return 4 * pairs * d_head * n_heads * batch


def attention_flops__wrong_thirteenth_square_as_a_float(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Squares n by math.pow, a float, and so loses the last digits of large counts; due is an exact int at any size."""
    table = math.pow(n, 2)
    return int(batch * n_heads * 4 * table * d_head)


def attention_flops__wrong_thirteenth_mean_as_a_float(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Divides by / on the way, so that a float comes out; due is an int."""
    multiplications = 2 * n * n * d_head
    additions = 2 * n * n * d_head
    mean_per_kind = (multiplications + additions) / 2
    return 2 * mean_per_kind * n_heads * batch


def attention_flops__right_thirteenth_kinds_counted_apart(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts the multiplications of both products, takes as many additions, and multiplies by the number
    of heads in the batch."""

    def multiplications(a, b, c):
        return math.prod((a, b, c))

    one_head = multiplications(n, d_head, n) + multiplications(n, n, d_head)
    return (one_head << 1) * (n_heads * batch)


# ------- 9.5 score_matrix_bytes


def score_matrix_bytes__wrong_thirteenth_one_table_for_all_heads(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Believes that the heads of a sequence share one table of scores; due is a table for each head."""
    return batch * n**2 * bytes_per_value


def score_matrix_bytes__wrong_thirteenth_weights_counted_too(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Counts the scores and the weights that the softmax makes of them; due are the scores, once."""
    s = batch * n_heads * n * n
    a = batch * n_heads * n * n
    return (s + a) * bytes_per_value


def score_matrix_bytes__wrong_thirteenth_batch_as_one_long_text(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Lets all tokens of the batch meet each other, as one text of batch * n tokens; due is a table per sequence."""
    tokens = batch * n
    return n_heads * tokens * tokens * bytes_per_value


def score_matrix_bytes__wrong_thirteenth_twice_for_squared(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Writes n * 2 where n ** 2 was meant; due is the square of n."""
    entries = n * 2
    heads_in_all = batch * n_heads
    return heads_in_all * entries * bytes_per_value


def score_matrix_bytes__wrong_thirteenth_always_two_bytes(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Puts a fixed 2 in the product and ignores the argument; due is bytes_per_value."""
    size = 2
    for extent in (batch, n_heads, n, n):
        size *= extent
    return size


def score_matrix_bytes__wrong_thirteenth_each_pair_once(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Reads 'each pair of tokens' as pairs without order, n (n + 1) / 2 of them; due are n n, as n tokens ask n
    tokens."""
    pairs = math.comb(n, 2) + n
    return pairs * n_heads * batch * bytes_per_value


def score_matrix_bytes__wrong_thirteenth_product_in_int64(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Multiplies in NumPy's int64, which wraps around from 2 ** 63 on; due is an int that is exact at any size."""
    sizes = np.array([batch, n_heads, n, n, bytes_per_value], dtype=np.int64)
    return int(np.prod(sizes))


def score_matrix_bytes__wrong_thirteenth_bits_over_eight(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Counts bits and divides them by 8 with /, which gives a float; due is an int."""
    bits = batch * n_heads * n * n * bytes_per_value * 8
    return bits / 8


def score_matrix_bytes__right_thirteenth_two_triangles(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Takes the triangle below the diagonal twice and the diagonal once, in whole numbers."""
    below = n * (n - 1) // 2
    per_head = below + n + below
    return math.prod((batch, n_heads, per_head, bytes_per_value))


# ------- 9.6 roofline_seconds


def roofline_seconds__wrong_thirteenth_sum_of_both(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Adds the time of the moving to that of the arithmetic; due is the larger, as both happen at the same time."""
    t_move = bytes_moved / peak_bandwidth
    t_compute = flops / peak_flops
    return t_move + t_compute


def roofline_seconds__wrong_thirteenth_smaller_of_both(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Takes 'least time' for the smaller of the two times; due is the larger, for the job is done when both are."""
    return min(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_thirteenth_counts_compared(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Calls a kernel compute-bound if it has more operations than bytes; due is to compare the two times."""
    if flops > bytes_moved:
        return flops / peak_flops
    return bytes_moved / peak_bandwidth


def roofline_seconds__wrong_thirteenth_peaks_swapped(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Divides operations by the bandwidth and bytes by the rate of operations; due is the other way round."""
    work = (flops, bytes_moved)
    rates = (peak_bandwidth, peak_flops)
    return max(amount / rate for amount, rate in zip(work, rates))


def roofline_seconds__wrong_thirteenth_bytes_times_bandwidth(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Multiplies the bytes by the bandwidth; due is to divide them by it."""
    arithmetic = flops / peak_flops
    memory = bytes_moved * peak_bandwidth
    if memory > arithmetic:
        return memory
    return arithmetic


def roofline_seconds__wrong_thirteenth_milliseconds(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Returns milliseconds, as the unit's tables print them; due are seconds."""
    seconds = max(flops / peak_flops, bytes_moved / peak_bandwidth)
    return 1e3 * seconds


def roofline_seconds__wrong_thirteenth_no_bytes_no_time(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Goes by the intensity and returns 0 where no bytes move, so as not to divide by 0; due is the
    arithmetic's time."""
    if bytes_moved == 0:
        return 0.0
    intensity = flops / bytes_moved
    border = peak_flops / peak_bandwidth
    return flops / peak_flops if intensity > border else bytes_moved / peak_bandwidth


def roofline_seconds__wrong_thirteenth_rounded_to_microseconds(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Rounds to whole microseconds, which makes short kernels wrong; due is the time as it is."""
    times = [flops / peak_flops, bytes_moved / peak_bandwidth]
    times.sort()
    return round(times[-1], 6)


def roofline_seconds__right_thirteenth_infinity_norm(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Takes the two times as a vector; none is below 0, so the largest is its infinity norm."""
    times = np.array([flops / peak_flops, bytes_moved / peak_bandwidth], dtype=np.float64)
    return float(np.linalg.norm(times, ord=np.inf))


# ------- 9.7 median_time


def median_time__wrong_thirteenth_all_runs_divided(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Times all repeats in one go and divides by their number, a mean; due is each run by itself, and the median."""
    for _ in range(warmup):
        run()
    synchronize()
    before = clock()
    for _ in range(repeats):
        run()
    synchronize()
    return float((clock() - before) / repeats)


def median_time__wrong_thirteenth_order_alone_timed(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Synchronises only before a job starts and reads the clock right after run; due is to wait until the job
    is done."""
    for _ in range(warmup):
        run()
    measured = []
    for _ in range(repeats):
        synchronize()  # now nothing old is in the queue
        start = clock()
        run()
        measured.append(clock() - start)
    synchronize()
    return float(statistics.median(measured))


def median_time__wrong_thirteenth_slowest_runs_dropped(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Times all runs and drops the `warmup` slowest of them as the warm-up; due is to leave out the first ones."""
    times = []
    for _ in range(warmup + repeats):
        synchronize()
        t0 = clock()
        run()
        synchronize()
        times.append(clock() - t0)
    fastest = sorted(times)[:repeats]
    return float(statistics.median(fastest))


def median_time__wrong_thirteenth_lower_of_the_middle_two(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """For an even count returns the lower of the two times in the middle; due is their mean."""

    def one():
        synchronize()
        start = clock()
        run()
        synchronize()
        return clock() - start

    for _ in range(warmup):
        run()
    return float(statistics.median_low([one() for _ in range(repeats)]))


def median_time__wrong_thirteenth_sorted_list_not_kept(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Calls sorted but goes on with the unsorted list, whose middle it returns; due is the middle of the sorted one."""
    i = 0
    while i < warmup:
        run()
        i += 1
    ticks = []
    while len(ticks) < repeats:
        synchronize()
        begin = clock()
        run()
        synchronize()
        end = clock()
        ticks.append(end - begin)
    sorted(ticks)
    half = repeats // 2
    if repeats % 2 == 1:
        return float(ticks[half])
    return (ticks[half - 1] + ticks[half]) / 2


def median_time__wrong_thirteenth_warmup_within_repeats(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Reads repeats as the number of all runs, the warm-up among them; due are repeats runs besides the warm-up."""
    times = []
    for number in range(max(repeats, warmup + 1)):
        synchronize()
        start = clock()
        run()
        synchronize()
        stop = clock()
        if number >= warmup:
            times.append(stop - start)
    return float(np.median(times))


def median_time__wrong_thirteenth_no_wait_without_warmup(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Waits after each run only, so with warmup=0 earlier work falls into the first time; due is to wait before
    it too."""
    for _ in range(warmup):
        run()
        synchronize()
    samples = np.empty(repeats)
    for r in range(repeats):
        start = clock()
        run()
        synchronize()
        samples[r] = clock() - start
    return float(np.median(samples))


def median_time__wrong_thirteenth_one_run_more(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Runs the job once more at the start, so as to warm up in any case; due are exactly warmup + repeats calls."""
    run()
    synchronize()
    for _ in range(warmup):
        run()
    synchronize()
    differences = []
    for _ in range(repeats):
        synchronize()
        earlier = clock()
        run()
        synchronize()
        later = clock()
        differences.append(later - earlier)
    return float(statistics.median(differences))


def median_time__right_thirteenth_marks_between_runs(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Reads the clock once between two runs, always synchronised, and inserts each difference into a sorted list."""
    for _ in range(warmup):
        run()
    synchronize()
    mark = clock()
    ranked = []
    for _ in range(repeats):
        run()
        synchronize()
        mark, earlier = clock(), mark
        bisect.insort(ranked, mark - earlier)
    low, high = ranked[(repeats - 1) // 2], ranked[repeats // 2]
    return float(low + high) / 2


# ------- 9.8 tiled_causal_attention


def tiled_causal_attention__wrong_thirteenth_own_block_seen_whole(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Leaves out the later tiles and masks none, so a token sees all of its own block; due is a mask in that tile."""
    n, d = Q.shape[-2:]
    blocks = []
    for q0 in range(0, n, block_size):
        q = Q[:, :, q0 : q0 + block_size]
        m = q.new_full((*q.shape[:3], 1), -math.inf)
        l, o = torch.zeros_like(m), torch.zeros_like(q)
        for k0 in range(0, q0 + 1, block_size):
            S = q @ K[:, :, k0 : k0 + block_size].mT / math.sqrt(d)
            new = torch.maximum(m, S.amax(-1, keepdim=True))
            P, factor = torch.exp(S - new), torch.exp(m - new)
            l = factor * l + P.sum(-1, keepdim=True)
            o = factor * o + P @ V[:, :, k0 : k0 + block_size]
            m = new
        blocks.append(o / l)
    return torch.cat(blocks, dim=2)


def tiled_causal_attention__wrong_thirteenth_triangle_in_every_tile(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Cuts the triangle out of every tile, counting places within the block; due is it on the diagonal's tiles only."""
    queries, keys, values = (x.split(block_size, dim=-2) for x in (Q, K, V))
    done = []
    for a, q in enumerate(queries):
        state = None
        for k, v in zip(keys[: a + 1], values[: a + 1]):
            scores = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
            row = torch.arange(scores.shape[-2], device=Q.device)[:, None]
            column = torch.arange(scores.shape[-1], device=Q.device)[None, :]
            scores = scores.masked_fill(column > row, -torch.inf)
            here = _two_sums(scores, v)
            if state is None:
                state = here
                continue
            top = torch.maximum(state[0], here[0])
            old, new = torch.exp(state[0] - top), torch.exp(here[0] - top)
            state = top, old * state[1] + new * here[1], old * state[2] + new * here[2]
        done.append(state[2] / state[1])
    return torch.cat(done, dim=-2)


def tiled_causal_attention__wrong_thirteenth_state_handed_on(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Starts m, l and o once and hands them on from one block of queries to the next; due is a fresh start for each."""
    B, h, n, d = Q.shape
    rows = min(block_size, n)
    m = Q.new_full((B, h, rows, 1), -math.inf)
    l = Q.new_zeros((B, h, rows, 1))
    o = Q.new_zeros((B, h, rows, d))
    place = torch.arange(n, device=Q.device)
    finished = []
    for i in range(0, n, block_size):
        q = Q[:, :, i : i + block_size]
        count = q.shape[2]
        m, l, o = m[:, :, :count], l[:, :, :count], o[:, :, :count]
        for j in range(0, i + 1, block_size):
            k, v = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
            s = q @ k.mT / d**0.5
            if j == i:
                later = place[j : j + block_size][None, :] > place[i : i + block_size][:, None]
                s = s.masked_fill(later, -math.inf)
            m_next = torch.maximum(m, s.amax(3, keepdim=True))
            p = torch.exp(s - m_next)
            f = torch.exp(m - m_next)
            m, l, o = m_next, f * l + p.sum(3, keepdim=True), f * o + p @ v
        finished.append(o / l)
    return torch.cat(finished, 2)


def tiled_causal_attention__wrong_thirteenth_o_not_mended(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Mends the sum of the terms with the factor but not o; due is the factor for both."""
    n = Q.shape[2]
    result = []
    for first in range(0, n, block_size):
        last = min(first + block_size, n)
        queries = Q[:, :, first:last] * Q.shape[3] ** -0.5
        largest = torch.full_like(queries[..., :1], -math.inf)
        total = torch.zeros_like(largest)
        mixed = torch.zeros_like(queries)
        start = 0
        while start < last:
            stop = min(start + block_size, n)
            tile = queries @ K[:, :, start:stop].transpose(2, 3)
            if stop > first:
                hidden = torch.ones(last - first, stop - start, dtype=torch.bool, device=Q.device).triu(1)
                tile = tile.masked_fill(hidden, -math.inf)
            before = largest
            largest = torch.maximum(before, tile.amax(dim=-1, keepdim=True))
            terms = torch.exp(tile - largest)
            total = total * torch.exp(before - largest) + terms.sum(dim=-1, keepdim=True)
            mixed = mixed + terms @ V[:, :, start:stop]
            start = stop
        result.append(mixed / total)
    return torch.cat(result, dim=2)


def tiled_causal_attention__wrong_thirteenth_root_of_block_rows(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Divides by the root of the wrong axis, the number of queries in the block; due is the root of the width."""
    out = torch.zeros_like(Q)
    n = Q.shape[-2]
    for i in range(0, n, block_size):
        q = Q[..., i : i + block_size, :]
        states = []
        for j in range(0, i + block_size, block_size):
            if j > i:
                break
            s = q @ K[..., j : j + block_size, :].mT / math.sqrt(q.shape[-2])
            if i == j:
                s = s + torch.full_like(s, -math.inf).triu(diagonal=1)
            here = _two_sums(s, V[..., j : j + block_size, :])
            if states:
                there = states.pop()
                m = torch.maximum(there[0], here[0])
                w, u = torch.exp(there[0] - m), torch.exp(here[0] - m)
                here = (m, w * there[1] + u * here[1], w * there[2] + u * here[2])
            states.append(here)
        out[..., i : i + block_size, :] = states[0][2] / states[0][1]
    return out


def tiled_causal_attention__wrong_thirteenth_number_of_blocks(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Takes block_size for the number of blocks, so that with 1 the whole table is made; due are block_size
    tokens each."""
    qs, ks, vs = Q.chunk(block_size, 2), K.chunk(block_size, 2), V.chunk(block_size, 2)
    outputs = []
    for a, q in enumerate(qs):
        m, l, o = -math.inf, 0.0, 0.0
        for b in range(a + 1):
            s = torch.matmul(q, ks[b].mT) / math.sqrt(q.shape[-1])
            if a == b:
                future = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).triu(1)
                s = s.masked_fill(future, -math.inf)
            top = s.amax(-1, keepdim=True)
            new = top if b == 0 else torch.maximum(m, top)
            keep = torch.exp(m - new)
            e = torch.exp(s - new)
            l = keep * l + e.sum(-1, keepdim=True)
            o = keep * o + torch.matmul(e, vs[b])
            m = new
        outputs.append(o / l)
    return torch.cat(outputs, 2)


def tiled_causal_attention__wrong_thirteenth_maximum_starts_at_zero(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Starts the running maximum at 0, so scores far below 0 all vanish and 0/0 is left; due is a start at
    -infinity."""

    def serve(i):
        q = Q[:, :, i : i + block_size]
        positions = torch.arange(i, i + q.shape[2], device=Q.device).unsqueeze(1)
        m = torch.zeros(q.shape[:-1] + (1,), dtype=q.dtype, device=q.device)
        l = torch.zeros_like(m)
        o = torch.zeros_like(q)
        for j in range(0, i + 1, block_size):
            k = K[:, :, j : j + block_size]
            key_positions = torch.arange(j, j + k.shape[2], device=Q.device)
            s = q @ k.mT / math.sqrt(q.shape[-1])
            s = torch.where(key_positions <= positions, s, -math.inf)
            m_old, m = m, torch.maximum(m, s.amax(dim=-1, keepdim=True))
            e = torch.exp(s - m)
            shrink = torch.exp(m_old - m)
            l = shrink * l + e.sum(dim=-1, keepdim=True)
            o = shrink * o + e @ V[:, :, j : j + block_size]
        return o / l

    return torch.cat([serve(i) for i in range(0, Q.shape[2], block_size)], dim=2)


def tiled_causal_attention__wrong_thirteenth_later_tiles_made_too(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Makes the tiles wholly in the future as well and masks them away; due is never to multiply those blocks."""
    n, d = Q.shape[2], Q.shape[3]
    cuts = [slice(s, min(s + block_size, n)) for s in range(0, n, block_size)]
    index = torch.arange(n, device=Q.device)
    parts = []
    for rows in cuts:
        m = torch.full_like(Q[:, :, rows, :1], -math.inf)
        l = torch.zeros_like(m)
        o = torch.zeros_like(Q[:, :, rows])
        for columns in cuts:
            S = Q[:, :, rows] @ K[:, :, columns].mT / math.sqrt(d)
            S = S.masked_fill(index[columns][None] > index[rows][:, None], -math.inf)
            new = torch.maximum(m, S.amax(dim=-1, keepdim=True))
            P = torch.exp(S - new)
            c = torch.exp(m - new)
            l = c * l + P.sum(dim=-1, keepdim=True)
            o = c * o + P @ V[:, :, columns]
            m = new
        parts.append(o / l)
    return torch.cat(parts, dim=2)


def tiled_causal_attention__right_thirteenth_along_the_diagonals(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Walks the tiles diagonal by diagonal, the masked one first, with one state for each block of queries."""
    qs, ks, vs = (x.split(block_size, dim=2) for x in (Q, K, V))
    root = math.sqrt(Q.shape[-1])
    states = []
    for q, k, v in zip(qs, ks, vs):
        tile = q @ k.mT / root
        size = tile.shape[-1]
        seen = torch.ones(size, size, dtype=torch.bool, device=Q.device).tril()
        states.append(_two_sums(torch.where(seen, tile, -math.inf), v))
    for back in range(1, len(qs)):
        for a in range(back, len(qs)):
            m, l, o = states[a]
            top, total, mix = _two_sums(qs[a] @ ks[a - back].mT / root, vs[a - back])
            new = torch.maximum(m, top)
            f, g = torch.exp(m - new), torch.exp(top - new)
            states[a] = new, f * l + g * total, f * o + g * mix
    return torch.cat([o / l for _, l, o in states], dim=2)


# ------- 9.9 flash_bytes


def flash_bytes__wrong_thirteenth_mask_saves_half(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Halves the keys and values because the mask hides half of the scores; due is what each block may see."""
    blocks = -(-n // block_q)
    kv_rows = 2 * n * blocks
    if causal:
        kv_rows //= 2
    return (2 * n + kv_rows) * d * bytes_per_value


def flash_bytes__wrong_thirteenth_keys_stay_on_chip(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Reads keys and values once for all blocks, as if they stayed on the chip; due is a reading for each block."""
    read = 0
    seen = 0
    for start in range(0, n, block_q):
        stop = min(start + block_q, n)
        read += stop - start
        needed = stop if causal else n
        read += 2 * max(0, needed - seen)
        seen = max(seen, needed)
    written = n
    return (read + written) * d * bytes_per_value


def flash_bytes__wrong_thirteenth_keys_for_each_query(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Lets each query fetch its keys and values by itself; due is that the queries of a block share one reading."""
    kv = n * (n + 1) if causal else 2 * n * n
    return bytes_per_value * d * (n + kv + n)


def flash_bytes__wrong_thirteenth_short_block_forgotten(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Counts n // block_q blocks, so that a short last one reads no keys and values; due is to round up."""
    blocks = n // block_q
    rows = 2 * n
    for b in range(blocks):
        rows += 2 * ((b + 1) * block_q if causal else n)
    return rows * d * bytes_per_value


def flash_bytes__wrong_thirteenth_past_the_last_key(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """With the mask lets the last block read a whole block's keys past the end of the text; due is n at most."""
    per_row = d * bytes_per_value
    total = 0
    for start in range(0, n, block_q):
        queries = min(block_q, n - start)
        keys = start + block_q if causal else n
        total += per_row * (queries + keys + keys + queries)
    return total


def flash_bytes__wrong_thirteenth_logsumexp_written_too(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Counts one number a query more, the logsumexp, as written; due is nothing, statistics stay on the chip."""
    ends = [min(s + block_q, n) for s in range(0, n, block_q)]
    keys = sum(ends) if causal else n * len(ends)
    numbers = n * d + 2 * keys * d + n * d + n
    return numbers * bytes_per_value


def flash_bytes__wrong_thirteenth_lone_key_spared(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Leaves out query and key of a block whose one query sees one key alone (its weight is 1); due is to count
    both."""
    rows = 0
    first = 0
    while first < n:
        after = min(first + block_q, n)
        q = after - first
        k = v = after if causal else n
        if q == 1 and k == 1:
            q_read = k = 0  # the weight is 1 in any case
        else:
            q_read = q
        rows += q_read + k + v + q
        first = after
    return rows * d * bytes_per_value


def flash_bytes__wrong_thirteenth_half_in_floats(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Computes the sum over the blocks with / and makes an int at the end, inexact at large sizes; due is an
    exact count."""
    full, rest = divmod(n, block_q)
    blocks = full + (rest > 0)
    if causal:
        keys = block_q * full * (full + 1) / 2 + (n if rest else 0)
    else:
        keys = n * blocks
    return int((2 * n + 2 * keys) * d * bytes_per_value)


def flash_bytes__right_thirteenth_readers_of_each_key(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Asks for each key how many blocks read it: with the mask all but the key's place // block_q earlier ones."""
    full, rest = divmod(n, block_q)
    blocks = full + bool(rest)
    readings = n * blocks
    if causal:
        readings -= block_q * (full * (full - 1) // 2) + rest * full  # the blocks before a key's own, over all keys
    return 2 * (n + readings) * d * bytes_per_value


# ------- 9.10 flash_backward


def flash_backward__wrong_thirteenth_row_sum_of_the_block(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes the softmax's sum of weight times gradient over the block's keys only; due is the sum over the
    whole row."""
    scale = Q.shape[-1] ** -0.5
    dQ = torch.zeros_like(Q)
    dK, dV = [], []
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2)):
        P = torch.exp(Q @ k.mT * scale - logsumexp[..., None])
        dP = d_out @ v.mT
        dS = P * (dP - (P * dP).sum(dim=-1, keepdim=True))
        dQ = dQ + dS @ k * scale
        dK.append(dS.mT @ Q * scale)
        dV.append(P.mT @ d_out)
    return dQ, torch.cat(dK, dim=2), torch.cat(dV, dim=2)


def flash_backward__wrong_thirteenth_softmax_like_a_sigmoid(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Uses only the Jacobian's diagonal, a (1 - a), for the step to the scores; due are the other scores of the
    row too."""
    root = math.sqrt(Q.size(-1))
    grad_q, grad_k, grad_v = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, K.size(-2), block_size):
        here = slice(start, start + block_size)
        weights = (torch.einsum("bhid,bhjd->bhij", Q, K[:, :, here]) / root - logsumexp.unsqueeze(-1)).exp()
        d_weights = torch.einsum("bhid,bhjd->bhij", d_out, V[:, :, here])
        d_scores = d_weights * weights * (1 - weights) / root
        grad_q += torch.einsum("bhij,bhjd->bhid", d_scores, K[:, :, here])
        grad_k[:, :, here] = torch.einsum("bhij,bhid->bhjd", d_scores, Q)
        grad_v[:, :, here] = torch.einsum("bhij,bhid->bhjd", weights, d_out)
    return grad_q, grad_k, grad_v


def flash_backward__wrong_thirteenth_logsumexp_as_a_constant(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes exp(s - L) as if L were fixed, so dS = P dP; due is also what L changes: P times (dP minus the
    row's sum)."""
    width = Q.shape[-1]
    L = logsumexp.reshape(*logsumexp.shape, 1)
    dQ = 0
    dK = torch.empty_like(K)
    dV = torch.empty_like(V)
    for j in range(0, K.shape[2], block_size):
        Kj = K[:, :, j : j + block_size]
        Vj = V[:, :, j : j + block_size]
        Pj = torch.exp(Q @ Kj.transpose(2, 3) / width**0.5 - L)
        dSj = Pj * (d_out @ Vj.transpose(2, 3))  # the derivative of exp is exp
        dQ = dQ + dSj @ Kj / width**0.5
        dK[:, :, j : j + block_size] = dSj.transpose(2, 3) @ Q / width**0.5
        dV[:, :, j : j + block_size] = Pj.transpose(2, 3) @ d_out
    return dQ, dK, dV


def flash_backward__wrong_thirteenth_query_gradient_overwritten(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Overwrites dQ in each block, so that only the last block counts; due is to add up over the blocks."""
    n, d = K.shape[-2:]
    delta = torch.sum(d_out * out, dim=-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    first = 0
    while first < n:
        last = min(n, first + block_size)
        keys, values = K[..., first:last, :], V[..., first:last, :]
        a = torch.exp(Q @ keys.mT / math.sqrt(d) - logsumexp.unsqueeze(3))
        ds = a * (d_out @ values.mT - delta) / math.sqrt(d)
        dQ = ds @ keys
        dK[..., first:last, :] = ds.mT @ Q
        dV[..., first:last, :] = a.mT @ d_out
        first = last
    return dQ, dK, dV


def flash_backward__wrong_thirteenth_root_missing_for_queries(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scales Q at the start, which serves scores and dK, but forgets the root of d for dQ; due is it there too."""
    q = Q / Q.shape[-1] ** 0.5
    row = (out * d_out).sum(-1, keepdim=True)
    gq = torch.zeros_like(Q)
    gk, gv = [], []
    for k, v in zip(torch.split(K, block_size, 2), torch.split(V, block_size, 2)):
        p = torch.exp(torch.matmul(q, k.mT) - logsumexp[:, :, :, None])
        s = p * (torch.matmul(d_out, v.mT) - row)
        gv += [torch.matmul(p.mT, d_out)]
        gk += [torch.matmul(s.mT, q)]
        gq += torch.matmul(s, k)
    return gq, torch.cat(gk, 2), torch.cat(gv, 2)


def flash_backward__wrong_thirteenth_logsumexp_to_base_two(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Reads logsumexp as a logarithm to base 2, as some kernels keep it; due is the natural logarithm."""
    scale = 1 / math.sqrt(Q.shape[-1])
    log2_e = 1 / math.log(2)
    D = (d_out * out).sum(dim=-1, keepdim=True)
    dQ = torch.zeros_like(Q)
    dK = torch.zeros_like(K)
    dV = torch.zeros_like(V)
    for lo in range(0, Q.shape[2], block_size):
        hi = lo + block_size
        k, v = K[:, :, lo:hi], V[:, :, lo:hi]
        P = torch.exp2(Q @ k.mT * (scale * log2_e) - logsumexp[..., None])
        dS = P * (d_out @ v.mT - D)
        dV[:, :, lo:hi] = P.mT @ d_out
        dK[:, :, lo:hi] = dS.mT @ Q * scale
        dQ = dQ + dS @ k * scale
    return dQ, dK, dV


def flash_backward__wrong_thirteenth_quotient_of_exponentials(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Makes the weights as exp(s) / exp(L), infinity over infinity or 0/0 at large scores; due is exp(s - L)."""
    d = Q.shape[-1]
    denominators = logsumexp.exp().unsqueeze(-1)
    correction = (out * d_out).sum(-1).unsqueeze(-1)
    dQ = torch.zeros_like(Q)
    per_block = []
    for keys, values in zip(K.split(block_size, -2), V.split(block_size, -2)):
        numerators = torch.exp(Q @ keys.mT / math.sqrt(d))
        weights = numerators / denominators
        d_scores = weights * (d_out @ values.mT - correction) / math.sqrt(d)
        dQ = dQ + d_scores @ keys
        per_block.append((d_scores.mT @ Q, weights.mT @ d_out))
    dK, dV = (torch.cat(parts, dim=-2) for parts in zip(*per_block))
    return dQ, dK, dV


def flash_backward__wrong_thirteenth_shape_of_logsumexp_changed(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gives logsumexp a last axis in place, by unsqueeze_, which the caller's tensor keeps; due are untouched
    inputs."""
    logsumexp.unsqueeze_(-1)
    root = math.sqrt(Q.shape[-1])
    mean_gain = (d_out * out).sum(dim=-1, keepdim=True)
    dQ = torch.zeros_like(Q)
    dK, dV = torch.empty_like(K), torch.empty_like(V)
    for s in range(0, K.shape[-2], block_size):
        block = (slice(None), slice(None), slice(s, s + block_size))
        A = torch.exp(Q @ K[block].mT / root - logsumexp)
        G = A * (d_out @ V[block].mT - mean_gain) / root
        dQ += G @ K[block]
        dK[block] = G.mT @ Q
        dV[block] = A.mT @ d_out
    return dQ, dK, dV


def flash_backward__right_thirteenth_tiles_of_queries_too(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Cuts queries as well as keys, query blocks outside, and adds each tile's share to slices of the three
    gradients."""
    n, d = Q.shape[-2:]
    cuts = [slice(s, min(s + block_size, n)) for s in range(0, n, block_size)]
    with torch.no_grad():
        dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
        for rows in cuts:
            q, g = Q[:, :, rows], d_out[:, :, rows]
            level = logsumexp[:, :, rows].unsqueeze(-1)
            expected = torch.einsum("bhid,bhid->bhi", g, out[:, :, rows]).unsqueeze(-1)
            for columns in cuts:
                k, v = K[:, :, columns], V[:, :, columns]
                weights = torch.exp(q @ k.mT / math.sqrt(d) - level)
                slope = weights * (g @ v.mT - expected) / math.sqrt(d)
                dV[:, :, columns] += weights.mT @ g
                dK[:, :, columns] += slope.mT @ q
                dQ[:, :, rows] += slope @ k
    return dQ, dK, dV
