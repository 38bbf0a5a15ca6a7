"""Answers to the exercises of unit 9, wrong ones and right ones, as students would write them."""

import functools
import itertools
import math
import operator
import statistics
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import torch

# ------- 9.1 loop_attention


def loop_attention__wrong_twelfth_only_the_past(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Lets each query see only the keys up to its own place, though no mask is asked for."""
    B, h, n, d = Q.shape
    result = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                scores = K[b, head, : i + 1] @ Q[b, head, i] / math.sqrt(d)
                weights = torch.softmax(scores, dim=0)
                result[b, head, i] = weights @ V[b, head, : i + 1]
    return result


def loop_attention__wrong_twelfth_best_key_takes_all(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Hands each query the value of its best key alone, in place of a mix by softmax weights."""
    root = Q.shape[-1] ** 0.5

    def answer(query, keys, values):
        similarity = (keys * query).sum(-1) / root
        best = torch.argmax(similarity)
        return values[best]

    batches = []
    for queries_b, keys_b, values_b in zip(Q, K, V, strict=True):
        heads = []
        for queries, keys, values in zip(queries_b, keys_b, values_b, strict=True):
            heads.append(torch.stack([answer(query, keys, values) for query in queries]))
        batches.append(torch.stack(heads))
    return torch.stack(batches)


def loop_attention__wrong_twelfth_keys_share_themselves_out(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Loops over the keys and takes the softmax over the queries, so that a key's weights sum to 1, not a query's."""
    B, h, n, d = Q.shape
    rows = []
    for b, head in itertools.product(range(B), range(h)):
        q, k, v = Q[b, head], K[b, head], V[b, head]
        mixed = 0
        for j in range(n):
            share = torch.softmax((q @ k[j]) / d**0.5, dim=0)
            mixed = mixed + share[:, None] * v[j]
        rows.append(mixed)
    return torch.stack(rows).reshape(B, h, n, d)


def loop_attention__wrong_twelfth_keys_of_the_first_sequence(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Reads the keys of the first sequence for every sequence of the batch."""
    n_batch, n_heads, n_tokens, width = Q.shape
    out = torch.zeros_like(Q)
    for b in range(n_batch):
        for a in range(n_heads):
            for i in range(n_tokens):
                q = Q[b, a, i]
                s = torch.stack([q.dot(key) for key in K[0, a]]) / width**0.5
                p = s.softmax(-1)
                out[b, a, i] = (p.unsqueeze(-1) * V[b, a]).sum(0)
    return out


def loop_attention__wrong_twelfth_root_of_the_tokens(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Divides the scores by the root of the number of tokens, not of the width."""
    batch, heads, d, n = Q.shape
    scale = 1.0 / math.sqrt(d)
    out = Q.new_zeros(V.shape)
    for b in range(batch):
        for i in range(Q.shape[2]):
            scores = torch.einsum("hd,hnd->hn", Q[b, :, i], K[b]) * scale
            out[b, :, i] = torch.einsum("hn,hnd->hd", scores.softmax(-1), V[b])
    return out


def loop_attention__wrong_twelfth_tokens_before_heads(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor
) -> torch.Tensor:
    """Returns (B, n, h, d), with the axes of heads and tokens in the other order."""
    B, h, n, d = Q.shape
    return torch.stack(
        [
            torch.stack(
                [
                    torch.stack([(K[b, a] @ Q[b, a, i] / d**0.5).softmax(0) @ V[b, a] for a in range(h)])
                    for i in range(n)
                ]
            )
            for b in range(B)
        ]
    )


def loop_attention__wrong_twelfth_bare_exponentials(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Takes the exponentials of the scores as they are, so that very large or very small scores give NaN."""
    B, h, n, d = Q.shape
    O = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                numerator, denominator = 0, 0
                for j in range(n):
                    e = torch.exp((Q[b, head, i] * K[b, head, j]).sum() / math.sqrt(d))
                    numerator = numerator + e * V[b, head, j]
                    denominator = denominator + e
                O[b, head, i] = numerator / denominator
    return O


def loop_attention__wrong_twelfth_plain_numbers(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Calculates with Python's own numbers, so that no gradient reaches the inputs."""
    q, k, v = Q.tolist(), K.tolist(), V.tolist()
    d = Q.shape[-1]

    def one(query, keys, values):
        s = [sum(x * y for x, y in zip(query, key, strict=True)) / math.sqrt(d) for key in keys]
        top = max(s)
        e = [math.exp(x - top) for x in s]
        return [sum(w * value[c] for w, value in zip(e, values, strict=True)) / sum(e) for c in range(d)]

    out = [
        [[one(query, keys, values) for query in queries] for queries, keys, values in zip(*heads, strict=True)]
        for heads in zip(q, k, v, strict=True)
    ]
    return torch.tensor(out, dtype=Q.dtype, device=Q.device)


def loop_attention__right_twelfth_moving_mean(Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Moves a mean from value to value, by the sigmoid of each score against the logsumexp of those before."""
    B, h, n, d = Q.shape
    outputs = []
    for b in range(B):
        for a in range(h):
            for i in range(n):
                scores = K[b, a].mv(Q[b, a, i]) / d**0.5
                mean, level = V[b, a, 0], scores[0]
                for j in range(1, n):
                    mean = mean + torch.sigmoid(scores[j] - level) * (V[b, a, j] - mean)
                    level = torch.logaddexp(level, scores[j])
                outputs.append(mean)
    return torch.stack(outputs).view(B, h, n, d)


# ------- 9.2 batched_attention


def batched_attention__wrong_twelfth_weights_cut_afterwards(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Sets later weights to 0 after the softmax, so that the rest of a row does not sum to 1."""
    d = Q.size(-1)
    weights = torch.softmax(Q @ K.transpose(-2, -1) / math.sqrt(d), dim=-1)
    if causal:
        weights = torch.tril(weights)
    return weights @ V


def batched_attention__wrong_twelfth_later_scores_become_zero(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Hides later keys by a score of 0, which still takes a weight."""
    n, d = Q.shape[-2:]
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / d**0.5
    if causal:
        seen = torch.ones(n, n, dtype=Q.dtype, device=Q.device).tril()
        scores = scores * seen
    return torch.einsum("bhij,bhjd->bhid", scores.softmax(dim=-1), V)


def batched_attention__wrong_twelfth_heads_in_one(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Joins the heads to one wide vector per token, so that all heads share one table of weights."""
    B, h, n, d = Q.shape

    def joined(X):
        return X.permute(0, 2, 1, 3).reshape(B, n, h * d)

    scores = torch.bmm(joined(Q), joined(K).mT) / math.sqrt(d)
    if causal:
        future = torch.triu(torch.ones(n, n, dtype=torch.bool, device=Q.device), diagonal=1)
        scores = scores.masked_fill(future, -torch.inf)
    mixed = torch.bmm(torch.softmax(scores, -1), joined(V))
    return mixed.reshape(B, n, h, d).permute(0, 2, 1, 3)


def batched_attention__wrong_twelfth_one_token_ahead(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Lets token i see token i + 1 as well where the attention is causal."""
    place = torch.arange(Q.shape[2], device=Q.device)
    S = Q @ K.mT / Q.shape[3] ** 0.5
    if causal:
        allowed = place[:, None] + 1 >= place[None, :]
        S = torch.where(allowed, S, float("-inf"))
    A = torch.softmax(S, dim=3)
    return A @ V


def batched_attention__wrong_twelfth_keys_reshaped(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Brings the keys to (B, h, d, n) by a reshape, which does not transpose."""
    B, h, n, d = K.shape
    keys = K.reshape(B, h, d, n)
    logits = torch.matmul(Q, keys) * d**-0.5
    if causal:
        logits = logits + torch.full((n, n), -torch.inf, dtype=Q.dtype, device=Q.device).triu(1)
    return torch.matmul(torch.softmax(logits, dim=-1), V)


def batched_attention__wrong_twelfth_weights_as_well(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Returns a pair, the output and the weights, and not the output alone."""
    scores = (Q / math.sqrt(Q.shape[-1])) @ K.mT
    if causal:
        n = scores.shape[-1]
        mask = ~torch.tril(torch.ones((n, n), dtype=torch.bool, device=scores.device))
        scores = scores.masked_fill(mask, float("-inf"))
    attention = scores.softmax(dim=-1)
    output = attention @ V
    return output, attention


def batched_attention__wrong_twelfth_a_very_low_score(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Fills later scores with -10,000, which hides nothing where the allowed scores are as low."""
    length, width = Q.shape[-2], Q.shape[-1]
    scores = torch.matmul(Q, K.transpose(2, 3)).div(math.sqrt(width))
    if causal:
        rows = torch.arange(length, device=Q.device).unsqueeze(1)
        columns = torch.arange(length, device=Q.device).unsqueeze(0)
        scores = scores.masked_fill(columns > rows, -1e4)
    top = scores.max(dim=-1, keepdim=True).values
    e = (scores - top).exp()
    return (e / e.sum(dim=-1, keepdim=True)).matmul(V)


def batched_attention__wrong_twelfth_head_after_head(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Works through the heads in a Python loop, where none is allowed."""
    n, d = Q.shape[-2:]
    hidden = torch.ones(n, n, dtype=torch.bool, device=Q.device).triu(1)
    outputs = []
    for q, k, v in zip(Q.unbind(1), K.unbind(1), V.unbind(1), strict=True):
        s = q @ k.mT / math.sqrt(d)
        s = s.masked_fill(hidden, -math.inf) if causal else s
        outputs.append(s.softmax(-1) @ v)
    return torch.stack(outputs, dim=1)


def batched_attention__right_twelfth_bias_in_the_product(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, causal: bool = False
) -> torch.Tensor:
    """Has mask, product and scale done by one `baddbmm`, and makes the weights by the logsumexp."""
    B, h, n, d = Q.shape
    q, k, v = (X.reshape(B * h, n, d) for X in (Q, K, V))
    bias = torch.zeros(n, n, dtype=Q.dtype, device=Q.device)
    if causal:
        order = torch.arange(n, device=Q.device)
        bias = torch.where(torch.ge(*torch.meshgrid(order, order, indexing="ij")), bias, -torch.inf)
    scores = torch.baddbmm(bias.expand(B * h, n, n), q, k.mT, alpha=d**-0.5)
    weights = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))
    return torch.bmm(weights, v).reshape(B, h, n, d)


# ------- 9.3 tiled_attention


def tiled_attention__wrong_twelfth_blocks_weighed_by_their_maximum(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Gives each block a softmax of its own and weighs the blocks by exp of their maximum, not of their logsumexp."""
    d = Q.shape[-1]
    top = torch.full_like(Q[..., :1], -math.inf)
    total, mixed = torch.zeros_like(top), torch.zeros_like(Q)
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2), strict=True):
        s = Q @ k.mT / d**0.5
        best = s.amax(-1, keepdim=True)
        new = torch.maximum(top, best)
        old, own = torch.exp(top - new), torch.exp(best - new)
        total = total * old + own
        mixed = mixed * old + own * (s.softmax(-1) @ v)
        top = new
    return mixed / total


def tiled_attention__wrong_twelfth_only_the_sum_is_mended(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Shrinks the sum when the maximum grows, but not the mix of values."""
    B, h, n, d = Q.shape
    m = Q.new_full((B, h, n, 1), -torch.inf)
    l = Q.new_zeros((B, h, n, 1))
    o = Q.new_zeros((B, h, n, d))
    for start in range(0, n, block_size):
        stop = min(start + block_size, n)
        S = Q @ K[:, :, start:stop].transpose(-1, -2) / math.sqrt(d)
        m_new = torch.maximum(m, S.amax(dim=-1, keepdim=True))
        factor = torch.exp(m - m_new)
        P = torch.exp(S - m_new)
        l = factor * l + P.sum(dim=-1, keepdim=True)
        o = o + P @ V[:, :, start:stop]
        m = m_new
    return o / l


def tiled_attention__wrong_twelfth_divided_in_every_round(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Divides the mix by the sum after every block and goes on with the quotient as if it were the sum's mix."""
    scale = Q.size(-1) ** -0.5
    state = None
    begin = 0
    while begin < K.size(2):
        keys = K.narrow(2, begin, min(block_size, K.size(2) - begin))
        values = V.narrow(2, begin, keys.size(2))
        scores = torch.einsum("bhid,bhjd->bhij", Q, keys) * scale
        peak = scores.amax(3, keepdim=True)
        if state is None:
            e = torch.exp(scores - peak)
            norm = e.sum(3, keepdim=True)
            mix = e @ values / norm
        else:
            before, norm, mix = state
            peak = torch.maximum(before, peak)
            e = torch.exp(scores - peak)
            shrink = torch.exp(before - peak)
            norm = norm * shrink + e.sum(3, keepdim=True)
            mix = (mix * shrink + e @ values) / norm
        state = peak, norm, mix
        begin += block_size
    return state[2]


def tiled_attention__wrong_twelfth_factor_against_the_block(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Takes the factor against the block's own maximum, not against the new running one."""
    running = torch.full(Q.shape[:-1], -math.inf, dtype=Q.dtype, device=Q.device)
    denominator = torch.zeros_like(running)
    numerator = torch.zeros_like(Q)
    for j in range(0, Q.shape[2], block_size):
        piece = slice(j, j + block_size)
        scores = Q @ K[..., piece, :].mT / math.sqrt(Q.shape[-1])
        highest = scores.max(dim=-1).values
        updated = torch.maximum(running, highest)
        correction = torch.exp(running - highest)
        terms = torch.exp(scores - updated[..., None])
        denominator = correction * denominator + terms.sum(-1)
        numerator = correction[..., None] * numerator + terms @ V[..., piece, :]
        running = updated
    return numerator / denominator[..., None]


def tiled_attention__wrong_twelfth_whole_blocks_only(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Counts the blocks by whole division, so that a short last block is left out."""
    n, d = Q.shape[-2], Q.shape[-1]
    m = torch.full((*Q.shape[:-1], 1), float("-inf"), dtype=Q.dtype, device=Q.device)
    ell = torch.zeros_like(m)
    acc = torch.zeros_like(Q)
    for b in range(max(1, n // block_size)):
        Kb = K[:, :, b * block_size : (b + 1) * block_size]
        Vb = V[:, :, b * block_size : (b + 1) * block_size]
        Sb = torch.matmul(Q, Kb.transpose(2, 3)) / d**0.5
        m_old, m = m, torch.maximum(m, torch.amax(Sb, dim=3, keepdim=True))
        Pb = (Sb - m).exp()
        c = (m_old - m).exp()
        ell, acc = c * ell + Pb.sum(3, keepdim=True), c * acc + Pb.matmul(Vb)
    return acc / ell


def tiled_attention__wrong_twelfth_as_many_blocks(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Cuts the keys into `block_size` blocks, so that a size of 1 makes all scores at once."""
    root = math.sqrt(Q.shape[-1])
    pairs = list(zip(K.chunk(block_size, dim=2), V.chunk(block_size, dim=2), strict=True))

    def absorb(state, pair):
        m, total, mix = state
        keys, values = pair
        S = Q @ keys.mT / root
        top = torch.maximum(m, S.amax(-1, keepdim=True))
        E = torch.exp(S - top)
        f = torch.exp(m - top)
        return top, f * total + E.sum(-1, keepdim=True), f * mix + E @ values

    empty = torch.zeros_like(Q[..., :1])
    _, total, mix = functools.reduce(absorb, pairs, (empty - math.inf, empty, torch.zeros_like(Q)))
    return mix / total


def tiled_attention__wrong_twelfth_heads_share_a_maximum(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Keeps one maximum for all heads, so that a head whose scores are far lower loses all its terms."""
    B, h, n, d = Q.shape
    m = torch.full((B, 1, n, 1), -math.inf, dtype=Q.dtype, device=Q.device)
    l = torch.zeros(B, h, n, 1, dtype=Q.dtype, device=Q.device)
    o = torch.zeros_like(Q)
    for start in range(0, n, block_size):
        k = K[:, :, start : start + block_size]
        v = V[:, :, start : start + block_size]
        s = (Q @ k.mT) / math.sqrt(d)
        m_next = torch.maximum(m, s.amax(dim=(1, 3), keepdim=True))
        alpha = torch.exp(m - m_next)
        p = torch.exp(s - m_next)
        l = l * alpha + p.sum(-1, keepdim=True)
        o = o * alpha + p @ v
        m = m_next
    return o / l


def tiled_attention__wrong_twelfth_first_the_maximum_then_the_rest(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Goes over the keys twice, for the maximum and for the sums, where one pass is asked for."""
    scaled = Q / math.sqrt(Q.shape[-1])
    cuts = range(0, K.shape[2], block_size)

    def scores(c):
        return scaled @ K[:, :, c : c + block_size].mT

    largest = scores(0).amax(-1, keepdim=True)
    for c in cuts:
        largest = torch.maximum(largest, scores(c).amax(-1, keepdim=True))
    numerator, denominator = 0, 0
    for c in cuts:
        e = torch.exp(scores(c) - largest)
        numerator = numerator + e @ V[:, :, c : c + block_size]
        denominator = denominator + e.sum(-1, keepdim=True)
    return numerator / denominator


def tiled_attention__right_twelfth_lerp_by_logsumexp(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Keeps a finished output and a logsumexp, and moves towards each block's own attention by a sigmoid."""
    q = Q * Q.shape[-1] ** -0.5
    level, out = None, None
    for k, v in zip(K.split(block_size, dim=-2), V.split(block_size, dim=-2), strict=True):
        s = q @ k.mT
        own = s.logsumexp(-1, keepdim=True)
        mine = torch.softmax(s, -1) @ v
        if out is None:
            level, out = own, mine
        else:
            out = torch.lerp(out, mine, torch.sigmoid(own - level).expand_as(out))
            level = torch.logaddexp(level, own)
    return out


# ------- 9.4 attention_flops


def attention_flops__wrong_twelfth_a_pair_is_one(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts a multiply with its add as one operation."""
    scores = n * n * d_head
    mixing = n * d_head * n
    return batch * n_heads * (scores + mixing)


def attention_flops__wrong_twelfth_below_the_diagonal(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts only the pairs that a causal mask allows."""
    pairs = 0
    pairs += n * (n + 1) // 2
    per_pair = 2 * d_head + 2 * d_head
    return per_pair * pairs * n_heads * batch


def attention_flops__wrong_twelfth_softmax_too(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Adds three operations a score for the softmax, which is not to be counted."""

    def product(a, b, c):
        return 2 * a * b * c

    softmax = 3 * n * n
    one_head = product(n, d_head, n) + softmax + product(n, n, d_head)
    return one_head * n_heads * batch


def attention_flops__wrong_twelfth_one_sequence(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Leaves the batch out."""
    d_model = n_heads * d_head
    return 2 * 2 * n**2 * d_model


def attention_flops__wrong_twelfth_values_from_the_width(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts the second product as (n, d) with (d, d), so with d where n is summed over."""
    qk = 2 * n * d_head * n
    av = 2 * n * d_head * d_head
    return batch * n_heads * qk + batch * n_heads * av


def attention_flops__wrong_twelfth_additions_one_fewer(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Counts one addition fewer than multiplications for each entry, where the custom is as many."""
    entries_scores, entries_out = n * n, n * d_head
    work = entries_scores * (d_head + d_head - 1) + entries_out * (n + n - 1)
    return work * batch * n_heads


def attention_flops__wrong_twelfth_square_in_float(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Squares in floating point, so that the count of a very long text is not exact."""
    return int(4 * math.pow(n, 2) * d_head * n_heads * batch)


def attention_flops__wrong_twelfth_from_a_mean(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Returns a float, where counts are whole numbers."""
    sizes = [(n, d_head, n), (n, n, d_head)]
    total = sum(2 * a * b * c for a, b, c in sizes)
    mean = total / len(sizes)
    return mean * len(sizes) * n_heads * batch


def attention_flops__right_twelfth_shapes_multiplied(batch: int, n_heads: int, n: int, d_head: int) -> int:
    """Multiplies out the index letters of two einsums, and shifts a bit for the factor 2."""
    size = {"b": batch, "h": n_heads, "i": n, "j": n, "d": d_head}
    formulas = ("bhid,bhjd->bhij", "bhij,bhjd->bhid")
    return sum(math.prod(size[letter] for letter in set(f) & set(size)) << 1 for f in formulas)


# ------- 9.5 score_matrix_bytes


def score_matrix_bytes__wrong_twelfth_triangle(batch: int, n_heads: int, n: int, bytes_per_value: int = 2) -> int:
    """Counts the triangle of a causal mask, where all n*n scores stand in memory."""
    kept = sum((n, n * (n - 1) // 2))
    return batch * n_heads * kept * bytes_per_value


def score_matrix_bytes__wrong_twelfth_scores_and_weights(
    batch: int, n_heads: int, n: int, bytes_per_value: int = 2
) -> int:
    """Counts the weights beside the scores, so everything twice."""
    scores = batch * n_heads * n * n
    weights = batch * n_heads * n * n
    return (scores + weights) * bytes_per_value


def score_matrix_bytes__wrong_twelfth_all_journeys(batch: int, n_heads: int, n: int, bytes_per_value: int = 2) -> int:
    """Counts what the six journeys of the scores move, not what they take."""
    journeys = {"write": 1, "divide": 2, "softmax": 2, "product": 1}
    table = n**2 * bytes_per_value
    return table * n_heads * batch * sum(journeys.values())


def score_matrix_bytes__wrong_twelfth_batch_in_a_row(batch: int, n_heads: int, n: int, bytes_per_value: int = 2) -> int:
    """Squares all tokens of the batch, so that sequences ask each other."""
    tokens = batch * n
    return tokens * tokens * n_heads * bytes_per_value


def score_matrix_bytes__wrong_twelfth_always_two(batch: int, n_heads: int, n: int, bytes_per_value: int = 2) -> int:
    """Multiplies by 2 whatever `bytes_per_value` says."""
    return math.prod([batch, n_heads, n, n]) * 2


def score_matrix_bytes__wrong_twelfth_how_many(batch: int, n_heads: int, n: int, bytes_per_value: int = 2) -> int:
    """Returns the number of scores, not their bytes."""
    shape = torch.Size((batch, n_heads, n, n))
    return shape.numel()


def score_matrix_bytes__wrong_twelfth_through_numpy(batch: int, n_heads: int, n: int, bytes_per_value: int = 2) -> int:
    """Takes numpy's product as floats, which is not exact for very long texts."""
    return int(np.prod([float(batch), n_heads, n, n, bytes_per_value]))


def score_matrix_bytes__wrong_twelfth_caret(batch: int, n_heads: int, n: int, bytes_per_value: int = 2) -> int:
    """Writes `^`, exclusive or, for a square."""
    n_scores = n ^ 2
    return n_scores * bytes_per_value * n_heads * batch


def score_matrix_bytes__right_twelfth_two_triangles(batch: int, n_heads: int, n: int, bytes_per_value: int = 2) -> int:
    """Adds the two triangles of the table, with and without the diagonal."""
    lower = math.comb(n + 1, 2)
    upper = math.comb(n, 2)
    return functools.reduce(operator.mul, (batch, n_heads, bytes_per_value), lower + upper)


# ------- 9.6 roofline_seconds


def roofline_seconds__wrong_twelfth_one_after_the_other(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Adds both times, as if nothing moved while the machine computes."""
    compute = flops / peak_flops
    move = bytes_moved / peak_bandwidth
    return compute + move


def roofline_seconds__wrong_twelfth_the_faster_one(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Returns the smaller of both times, since it is to be the least."""
    times = [flops / peak_flops, bytes_moved / peak_bandwidth]
    least = times[0]
    for t in times[1:]:
        if t < least:
            least = t
    return least


def roofline_seconds__wrong_twelfth_larger_count_decides(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Looks at which count is larger, operations or bytes, and takes the time of that one."""
    compute_bound = flops > bytes_moved
    return flops / peak_flops if compute_bound else bytes_moved / peak_bandwidth


def roofline_seconds__wrong_twelfth_rates_swapped(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Divides operations by the bandwidth and bytes by the peak rate."""
    work, rate = (bytes_moved, flops), (peak_flops, peak_bandwidth)
    return float(max(w / r for w, r in zip(work, rate, strict=True)))


def roofline_seconds__wrong_twelfth_border_upside_down(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Compares the intensity with bandwidth / peak rate, the border upside down."""
    border = peak_bandwidth / peak_flops
    if flops >= border * bytes_moved:
        return flops / peak_flops
    return bytes_moved / peak_bandwidth


def roofline_seconds__wrong_twelfth_highest_rate(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Returns the highest rate, in operations per second, and not seconds."""
    if bytes_moved == 0:
        return float(peak_flops)
    intensity = flops / bytes_moved
    return float(min(peak_flops, intensity * peak_bandwidth))


def roofline_seconds__wrong_twelfth_nothing_to_compute(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Takes no time where one of the two counts is 0, though the other still needs its own."""
    if not (flops and bytes_moved):
        return 0.0
    intensity = flops / bytes_moved
    attainable = min(peak_flops, intensity * peak_bandwidth)
    return flops / attainable


def roofline_seconds__wrong_twelfth_whole_seconds(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Uses `//`, which cuts fractions of a second off."""
    return float(max(flops // peak_flops, bytes_moved // peak_bandwidth))


def roofline_seconds__right_twelfth_exact_fractions(
    flops: float, bytes_moved: float, peak_flops: float, peak_bandwidth: float
) -> float:
    """Sorts two exact fractions and takes the last."""
    quotients = {
        "compute-bound": Fraction(flops) / Fraction(peak_flops),
        "memory-bound": Fraction(bytes_moved) / Fraction(peak_bandwidth),
    }
    limit = sorted(quotients, key=quotients.get)[-1]
    return float(quotients[limit])


# ------- 9.7 median_time


def median_time__wrong_twelfth_one_long_measurement(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Times all repeats together and divides by their number, so returns a mean."""
    for _ in range(warmup):
        run()
    synchronize()
    begin = clock()
    for _ in range(repeats):
        run()
        synchronize()
    return (clock() - begin) / repeats


def median_time__wrong_twelfth_warm_up_each_time(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Warms up before each of the timed runs, not once at first."""
    seconds = []
    while len(seconds) < repeats:
        for _ in range(warmup):
            run()
        synchronize()
        t = clock()
        run()
        synchronize()
        seconds.append(clock() - t)
    return float(statistics.median(seconds))


def median_time__wrong_twelfth_best_run(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Returns the fastest run, taking every delay for a disturbance."""

    def once():
        synchronize()
        start = clock()
        run()
        synchronize()
        return clock() - start

    [once() for _ in range(warmup)]
    return float(min(once() for _ in range(repeats)))


def median_time__wrong_twelfth_warm_up_still_queued(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Does not synchronise before the first reading, so the first timed run waits for what is still queued."""
    for _ in range(warmup):
        run()
    measured = []
    for _ in range(repeats):
        before = clock()
        run()
        synchronize()
        after = clock()
        measured.append(after - before)
    return float(np.median(measured))


def median_time__wrong_twelfth_middle_in_time(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Takes the middle of the list as it was measured, without sorting it."""
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
    if repeats % 2 == 1:
        return float(times[half])
    return (times[half - 1] + times[half]) / 2


def median_time__wrong_twelfth_warm_up_among_the_repeats(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Takes the warm-up for a part of the repeats, so calls `run` only `repeats` times where it can."""
    record = []
    for _ in range(max(repeats, warmup + 1)):
        synchronize()
        t0 = clock()
        run()
        synchronize()
        t1 = clock()
        record += [t1 - t0]
    return float(statistics.median(record[warmup:]))


def median_time__wrong_twelfth_lower_middle(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Takes the lower of the middle two where the count is even."""
    ticks = torch.zeros(repeats, dtype=torch.float64)
    for k in range(-warmup, repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        stop = clock()
        if k >= 0:
            ticks[k] = stop - start
    return ticks.median().item()


def median_time__wrong_twelfth_one_run_to_try(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Calls `run` once more than it may, to see whether it works at all."""
    run()
    synchronize()
    durations = []
    for number in range(warmup + repeats):
        start = clock()
        run()
        synchronize()
        end = clock()
        if number >= warmup:
            durations.append(end - start)
    durations.sort()
    return float((durations[(repeats - 1) // 2] + durations[repeats // 2]) / 2)


def median_time__right_twelfth_differences_of_stamps(
    run: Callable[[], object],
    synchronize: Callable[[], object],
    clock: Callable[[], float],
    warmup: int,
    repeats: int,
) -> float:
    """Stamps the time behind every run, and takes the half quantile of the stamps' differences."""

    def stamp():
        synchronize()
        return clock()

    stamps = [stamp()]
    for _ in itertools.repeat(None, warmup + repeats):
        run()
        stamps.append(stamp())
    return float(np.quantile(np.diff(stamps)[warmup:], 0.5))


# ------- 9.8 tiled_causal_attention


def tiled_causal_attention__wrong_twelfth_whole_blocks_see_each_other(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Leaves later tiles out but hides nothing in the tile on the diagonal."""
    B, h, n, d = Q.shape
    done = []
    for i in range(0, n, block_size):
        q = Q[:, :, i : i + block_size]
        m = torch.full_like(q[..., :1], -math.inf)
        l = torch.zeros_like(m)
        o = torch.zeros_like(q)
        for j in range(0, i + 1, block_size):
            s = q @ K[:, :, j : j + block_size].mT / math.sqrt(d)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            p = torch.exp(s - new)
            f = torch.exp(m - new)
            l = f * l + p.sum(-1, keepdim=True)
            o = f * o + p @ V[:, :, j : j + block_size]
            m = new
        done.append(o / l)
    return torch.cat(done, dim=2)


def tiled_causal_attention__wrong_twelfth_a_triangle_in_every_tile(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Cuts a triangle out of every tile, those left of the diagonal as well."""
    scale = Q.shape[-1] ** -0.5
    blocks = list(zip(K.split(block_size, 2), V.split(block_size, 2), strict=True))
    outputs = []
    for number, q in enumerate(Q.split(block_size, 2)):
        top = q.new_full((*q.shape[:3], 1), -torch.inf)
        total, mix = torch.zeros_like(top), torch.zeros_like(q)
        for k, v in blocks[: number + 1]:
            scores = q @ k.mT * scale
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(hidden, -torch.inf)
            new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
            factor, terms = torch.exp(top - new_top), torch.exp(scores - new_top)
            total = total * factor + terms.sum(-1, keepdim=True)
            mix = mix * factor + terms @ v
            top = new_top
        outputs.append(mix / total)
    return torch.cat(outputs, 2)


def tiled_causal_attention__wrong_twelfth_own_block_alone(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Lets each block of queries meet its own keys only, and none before."""
    parts = []
    for q, k, v in zip(*(X.split(block_size, dim=-2) for X in (Q, K, V)), strict=True):
        c = q.shape[-2]
        S = torch.einsum("...id,...jd->...ij", q, k) / math.sqrt(q.shape[-1])
        later = torch.arange(c, device=Q.device) > torch.arange(c, device=Q.device)[:, None]
        A = torch.softmax(S.masked_fill(later, float("-inf")), dim=-1)
        parts.append(torch.einsum("...ij,...jd->...id", A, v))
    return torch.cat(parts, dim=-2)


def tiled_causal_attention__wrong_twelfth_sum_not_mended(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Forgets the factor for the sum, and mends the mix alone."""
    n, d = Q.shape[-2:]
    place = torch.arange(n, device=Q.device)
    rows = []
    for q0 in range(0, n, block_size):
        q1 = min(n, q0 + block_size)
        best = Q.new_full((*Q.shape[:2], q1 - q0, 1), -torch.inf)
        norm, acc = 0, 0
        for k0 in range(0, q1, block_size):
            k1 = min(n, k0 + block_size)
            tile = Q[:, :, q0:q1] @ K[:, :, k0:k1].mT / d**0.5
            tile = torch.where(place[k0:k1] <= place[q0:q1, None], tile, -torch.inf)
            better = torch.maximum(best, tile.amax(-1, keepdim=True))
            e = torch.exp(tile - better)
            acc = acc * torch.exp(best - better) + e @ V[:, :, k0:k1]
            norm = norm + e.sum(-1, keepdim=True)
            best = better
        rows.append(acc / norm)
    return torch.cat(rows, dim=-2)


def tiled_causal_attention__wrong_twelfth_keys_in_the_text_queries_in_the_block(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Compares a key's place in the text with a query's place in its block."""
    n, d = Q.shape[2], Q.shape[3]

    def tile(q, start):
        keys, values = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        query_place = torch.arange(q.shape[2], device=q.device)[:, None]
        key_place = start + torch.arange(keys.shape[2], device=q.device)[None, :]
        scores = (q @ keys.mT / math.sqrt(d)).masked_fill(key_place > query_place, -math.inf)
        return scores, values

    pieces = []
    for first in range(0, n, block_size):
        q = Q[:, :, first : first + block_size]
        scores, values = tile(q, 0)
        m = scores.amax(-1, keepdim=True)
        p = (scores - m).exp()
        l, o = p.sum(-1, keepdim=True), p @ values
        for start in range(block_size, first + 1, block_size):
            scores, values = tile(q, start)
            m_new = torch.maximum(m, scores.amax(-1, keepdim=True))
            p, a = (scores - m_new).exp(), (m - m_new).exp()
            l, o, m = a * l + p.sum(-1, keepdim=True), a * o + p @ values, m_new
        pieces.append(o / l)
    return torch.cat(pieces, dim=2)


def tiled_causal_attention__wrong_twelfth_own_block_and_the_one_before(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Reads `block_size` as how far a block may look back, so that keys before the block before are not met."""
    n = Q.shape[-2]
    scaled = Q / math.sqrt(Q.shape[-1])
    out = torch.empty_like(Q)
    for a in range(0, n, block_size):
        b = min(a + block_size, n)
        logsum, mixed = None, None
        for c in (a - block_size, a):
            if c < 0:
                continue
            e = min(c + block_size, n)
            s = scaled[:, :, a:b] @ K[:, :, c:e].mT
            if c == a:
                s = s + torch.full(s.shape[-2:], -torch.inf, dtype=s.dtype, device=s.device).triu(1)
            own = s.logsumexp(-1, keepdim=True)
            part = torch.exp(s - own) @ V[:, :, c:e]
            if logsum is None:
                logsum, mixed = own, part
            else:
                both = torch.logaddexp(logsum, own)
                mixed = mixed * torch.exp(logsum - both) + part * torch.exp(own - both)
                logsum = both
        out[:, :, a:b] = mixed
    return out


def tiled_causal_attention__wrong_twelfth_maximum_from_zero(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Begins with a maximum of 0, so that a query whose scores all lie far below gets 0 / 0."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(Q)
    for i in range(0, n, block_size):
        queries = Q[:, :, i : i + block_size]
        c = queries.shape[2]
        maximum = torch.zeros(B, h, c, 1, dtype=Q.dtype, device=Q.device)
        summed = torch.zeros_like(maximum)
        mixed = torch.zeros_like(queries)
        j = 0
        while j <= i:
            keys, values = K[:, :, j : j + block_size], V[:, :, j : j + block_size]
            scores = queries @ keys.transpose(-1, -2) / math.sqrt(d)
            if j == i:
                scores = scores.masked_fill(~torch.ones(c, c, device=Q.device).tril().bool(), -math.inf)
            before = maximum
            maximum = torch.maximum(before, scores.amax(dim=-1, keepdim=True))
            shrink = torch.exp(before - maximum)
            terms = torch.exp(scores - maximum)
            summed = summed * shrink + terms.sum(dim=-1, keepdim=True)
            mixed = mixed * shrink + terms @ values
            j += block_size
        out[:, :, i : i + block_size] = mixed / summed
    return out


def tiled_causal_attention__wrong_twelfth_one_tile_too_many(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Goes one block too far, so that queries are multiplied with a block of keys wholly after them."""
    n, d = Q.shape[2:]
    finished = []
    for q_start in range(0, n, block_size):
        q_end = min(q_start + block_size, n)
        q = Q[:, :, q_start:q_end]
        i = torch.arange(q_start, q_end, device=Q.device)[:, None]
        m = q.new_full(q.shape[:3] + (1,), -torch.inf)
        ell = torch.zeros_like(m)
        o = torch.zeros_like(q)
        for k_start in range(0, min(q_end + 1, n), block_size):
            k_end = min(k_start + block_size, n)
            j = torch.arange(k_start, k_end, device=Q.device)[None, :]
            S = (q @ K[:, :, k_start:k_end].mT / d**0.5).masked_fill(j > i, -torch.inf)
            m_new = torch.maximum(m, S.amax(dim=-1, keepdim=True))
            alpha, P = torch.exp(m - m_new), torch.exp(S - m_new)
            ell = alpha * ell + P.sum(dim=-1, keepdim=True)
            o = alpha * o + P @ V[:, :, k_start:k_end]
            m = m_new
        finished.append(o / ell)
    return torch.cat(finished, dim=2)


def tiled_causal_attention__right_twelfth_keys_outside(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, block_size: int
) -> torch.Tensor:
    """Loops over the keys outside and keeps an output and a logsumexp for each block of queries meanwhile."""
    queries, keys, values = (X.split(block_size, dim=2) for X in (Q, K, V))
    outs, levels = [None] * len(queries), [None] * len(queries)
    for b, (k, v) in enumerate(zip(keys, values, strict=True)):
        for a in range(b, len(queries)):
            s = torch.einsum("bhid,bhjd->bhij", queries[a], k) / Q.shape[-1] ** 0.5
            if a == b:
                c = s.shape[-1]
                s = torch.where(torch.ones(c, c, device=s.device).tril() > 0, s, -torch.inf)
            level = torch.logsumexp(s, dim=-1, keepdim=True)
            mine = torch.exp(s - level) @ v
            if outs[a] is None:
                outs[a], levels[a] = mine, level
            else:
                share = torch.sigmoid(level - levels[a])
                outs[a] = outs[a] + share * (mine - outs[a])
                levels[a] = torch.logaddexp(levels[a], level)
    return torch.cat(outs, dim=2)


# ------- 9.9 flash_bytes


def flash_bytes__wrong_twelfth_everything_once(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Reads keys and values once for the whole text, not once for each block of queries."""
    read = 3 * n
    written = n
    return (read + written) * d * bytes_per_value


def flash_bytes__wrong_twelfth_mask_saves_half(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Halves the readings of keys and values where there is a mask."""
    blocks = (n + block_q - 1) // block_q
    kv_rows = 2 * n * blocks
    if causal:
        kv_rows //= 2
    return (2 * n + kv_rows) * d * bytes_per_value


def flash_bytes__wrong_twelfth_each_query_reads_its_own(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Where there is a mask, lets each query read its own keys, though a block of queries shares them."""
    if causal:
        kv = sum(i + 1 for i in range(n))
    else:
        kv = sum(n for _ in range(0, n, block_q))
    rows = n + 2 * kv + n
    return rows * d * bytes_per_value


def flash_bytes__wrong_twelfth_short_block_reads_nothing(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Counts whole blocks only, so that a short last one reads no keys (one block there is in any case)."""
    count = max(1, n // block_q)
    rows = 2 * n
    for block in range(count):
        rows += 2 * (min(n, (block + 1) * block_q) if causal else n)
    return rows * d * bytes_per_value


def flash_bytes__wrong_twelfth_past_the_end(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Lets a short last block read as many keys as a whole one where there is a mask, past the end of the text."""
    blocks = -(-n // block_q)
    seen = block_q * blocks * (blocks + 1) // 2 if causal else n * blocks
    return 2 * (n + seen) * d * bytes_per_value


def flash_bytes__wrong_twelfth_only_the_reading(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Returns what is read, without the output that is written."""
    total = 0
    for start in range(0, n, block_q):
        end = min(start + block_q, n)
        queries = end - start
        keys = end if causal else n
        total += (queries + keys + keys) * d
    return total * bytes_per_value


def flash_bytes__wrong_twelfth_one_key_needs_no_key(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Spares the key where a block sees one alone, since its weight is 1 whatever it says."""
    ends = [min(start + block_q, n) for start in range(0, n, block_q)]
    seen = [end if causal else n for end in ends]
    values = sum(seen)
    keys = sum(s for s in seen if s > 1)
    return (2 * n + keys + values) * d * bytes_per_value


def flash_bytes__wrong_twelfth_values_left_out(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Takes keys and values for one thing, and counts a row where there are two."""
    row = d * bytes_per_value
    moved = 0
    i = 0
    while i < n:
        last = min(n, i + block_q)
        moved += 2 * (last - i) * row
        moved += (last if causal else n) * row
        i = last
    return moved


def flash_bytes__right_twelfth_closed_form(
    n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False
) -> int:
    """Has a closed form for both cases: a triangular number of whole blocks, and the rest."""
    whole, rest = divmod(n, block_q)
    some = int(rest > 0)
    met = n * (whole + some)
    if causal:
        met = block_q * math.comb(whole + 1, 2) + some * n
    return (n + met) * d * bytes_per_value << 1


# ------- 9.10 flash_backward


def flash_backward__wrong_twelfth_each_weight_for_itself(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lets a score move its own weight only, so that the row's common part is never subtracted."""
    d = Q.shape[-1]
    dQ = torch.zeros_like(Q)
    dK, dV = [], []
    for start in range(0, K.shape[2], block_size):
        k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
        P = torch.exp(Q @ k.mT / math.sqrt(d) - logsumexp[..., None])
        dP = d_out @ v.mT
        dS = P * dP / math.sqrt(d)
        dQ = dQ + dS @ k
        dK.append(dS.mT @ Q)
        dV.append(P.mT @ d_out)
    return dQ, torch.cat(dK, dim=2), torch.cat(dV, dim=2)


def flash_backward__wrong_twelfth_row_sum_within_the_block(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sums weight times gradient over the keys of the block only, where the whole row is needed."""
    scale = 1 / Q.shape[-1] ** 0.5
    grad_q, grad_k, grad_v = (torch.zeros_like(X) for X in (Q, K, V))
    for j in range(0, Q.shape[2], block_size):
        part = slice(j, j + block_size)
        weights = (torch.einsum("bhid,bhjd->bhij", Q, K[:, :, part]) * scale - logsumexp.unsqueeze(-1)).exp()
        grad_v[:, :, part] = torch.einsum("bhij,bhid->bhjd", weights, d_out)
        grad_w = torch.einsum("bhid,bhjd->bhij", d_out, V[:, :, part])
        common = (weights * grad_w).sum(dim=-1, keepdim=True)
        grad_s = weights * (grad_w - common) * scale
        grad_q += torch.einsum("bhij,bhjd->bhid", grad_s, K[:, :, part])
        grad_k[:, :, part] = torch.einsum("bhij,bhid->bhjd", grad_s, Q)
    return grad_q, grad_k, grad_v


def flash_backward__wrong_twelfth_like_a_sigmoid(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes the diagonal a (1 - a) of the softmax's Jacobian for all of it."""
    q = Q / math.sqrt(Q.shape[-1])
    dq = 0
    dks, dvs = [], []
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2), strict=True):
        a = (q @ k.mT - logsumexp[:, :, :, None]).exp()
        slope = a * (1 - a)
        ds = slope * (d_out @ v.mT)
        dq = dq + ds @ k / math.sqrt(Q.shape[-1])
        dks += [ds.mT @ q]
        dvs += [a.mT @ d_out]
    return dq, torch.cat(dks, 2), torch.cat(dvs, 2)


def flash_backward__wrong_twelfth_scale_for_the_queries_only(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Divides the queries' gradient by the root of d and forgets the keys'."""
    B, h, n, d = Q.shape
    row_term = torch.sum(out * d_out, dim=-1, keepdim=True)
    dQ = torch.zeros_like(Q)
    dK = torch.zeros_like(K)
    dV = torch.zeros_like(V)
    for start in range(0, n, block_size):
        stop = min(n, start + block_size)
        Kb, Vb = K[:, :, start:stop], V[:, :, start:stop]
        S = Q @ Kb.transpose(-2, -1) / math.sqrt(d)
        P = torch.exp(S - logsumexp.unsqueeze(-1))
        dS = P * (d_out @ Vb.transpose(-2, -1) - row_term)
        dQ += dS @ Kb
        dK[:, :, start:stop] = dS.transpose(-2, -1) @ Q
        dV[:, :, start:stop] = P.transpose(-2, -1) @ d_out
    dQ /= math.sqrt(d)
    return dQ, dK, dV


def flash_backward__wrong_twelfth_last_block_stays(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Overwrites the queries' gradient with each block, where the blocks add up."""
    scale = Q.shape[-1] ** -0.5
    delta = torch.einsum("bhid,bhid->bhi", out, d_out)

    def one_block(k, v):
        p = torch.exp(scale * (Q @ k.mT) - logsumexp[..., None])
        ds = scale * p * (d_out @ v.mT - delta[..., None])
        return ds @ k, ds.mT @ Q, p.mT @ d_out

    dK, dV = [], []
    for start in range(0, K.shape[-2], block_size):
        dQ, for_k, for_v = one_block(K[..., start : start + block_size, :], V[..., start : start + block_size, :])
        dK.append(for_k)
        dV.append(for_v)
    return dQ, torch.cat(dK, dim=-2), torch.cat(dV, dim=-2)


def flash_backward__wrong_twelfth_logsumexp_as_the_sum(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Reads `logsumexp` as the sum of the exponentials and divides by it."""
    root = Q.shape[-1] ** 0.5
    total = logsumexp.unsqueeze(-1)
    delta = (out * d_out).sum(-1, keepdim=True)
    results = {"Q": torch.zeros_like(Q), "K": torch.zeros_like(K), "V": torch.zeros_like(V)}
    for low in range(0, Q.shape[-2], block_size):
        k = K[:, :, low : low + block_size]
        v = V[:, :, low : low + block_size]
        p = torch.exp(Q @ k.mT / root) / total
        g = p * (d_out @ v.mT - delta) / root
        results["Q"] += g @ k
        results["K"][:, :, low : low + block_size] += g.mT @ Q
        results["V"][:, :, low : low + block_size] += p.mT @ d_out
    return results["Q"], results["K"], results["V"]


def flash_backward__wrong_twelfth_exponentials_divided(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Divides exp(score) by exp(logsumexp), which overflows for large scores."""
    d = Q.shape[-1]
    denominators = torch.exp(logsumexp)[..., None]
    dots = (d_out * out).sum(dim=-1)[..., None]
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    n_blocks = math.ceil(Q.shape[2] / block_size)
    for b in range(n_blocks):
        cols = slice(b * block_size, (b + 1) * block_size)
        weights = torch.exp(Q @ K[:, :, cols].mT / math.sqrt(d)) / denominators
        dscores = weights * (d_out @ V[:, :, cols].mT - dots) / math.sqrt(d)
        dV[:, :, cols] = weights.mT @ d_out
        dK[:, :, cols] = dscores.mT @ Q
        dQ = dQ + dscores @ K[:, :, cols]
    return dQ, dK, dV


def flash_backward__wrong_twelfth_output_used_up(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Multiplies the given output in place, so that an input is changed."""
    row = out.mul_(d_out).sum(dim=-1, keepdim=True)
    q = Q * Q.shape[-1] ** -0.5
    dq = torch.zeros_like(Q)
    collected = []
    for k, v in zip(torch.split(K, block_size, -2), torch.split(V, block_size, -2), strict=True):
        p = torch.exp(torch.matmul(q, k.mT) - logsumexp[..., None])
        ds = p * (torch.matmul(d_out, v.mT) - row)
        dq.add_(torch.matmul(ds, k))
        collected.append((torch.matmul(ds.mT, q), torch.matmul(p.mT, d_out)))
    dk, dv = (torch.cat(list(parts), dim=-2) for parts in zip(*collected, strict=True))
    return dq * Q.shape[-1] ** -0.5, dk, dv


def flash_backward__right_twelfth_one_more_column(
    Q: torch.Tensor,
    K: torch.Tensor,
    V: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    d_out: torch.Tensor,
    block_size: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Hangs logsumexp and row sums on the matrices as one more column, so that the products subtract them."""
    scale = Q.shape[-1] ** -0.5
    one = torch.ones_like(K[..., :1])
    row = torch.linalg.vecdot(out, d_out)
    wide_q = torch.cat([Q * scale, -logsumexp[..., None]], -1)
    wide_g = torch.cat([d_out, -row[..., None]], -1)
    wide_k, wide_v = torch.cat([K, one], -1), torch.cat([V, one], -1)
    dQ, dK, dV = torch.zeros_like(Q), torch.empty_like(K), torch.empty_like(V)
    for rows in torch.arange(K.shape[2], device=K.device).split(block_size):
        a = torch.einsum("bhix,bhjx->bhij", wide_q, wide_k[:, :, rows]).exp_()
        dV[:, :, rows] = torch.einsum("bhij,bhid->bhjd", a, d_out)
        a = a * torch.einsum("bhix,bhjx->bhij", wide_g, wide_v[:, :, rows])
        dQ += torch.einsum("bhij,bhjd->bhid", a, K[:, :, rows]) * scale
        dK[:, :, rows] = torch.einsum("bhij,bhid->bhjd", a, wide_q[..., :-1])
    return dQ, dK, dV
