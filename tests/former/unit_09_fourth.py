"""Answers to unit 9's functions, written from the notebook alone."""

import math
import statistics

import torch

# 9.1


def loop_attention__wrong_fourth_heads_meet_each_other(Q, K, V):
    """Takes the axes for (B, n, h, d): for each token the heads attend to one another, not the tokens."""
    B, n, h, d = Q.shape
    out = torch.zeros_like(Q)
    for b in range(B):
        for head in range(h):
            for i in range(n):
                scores = K[b, :, head] @ Q[b, i, head] / math.sqrt(d)
                out[b, i, head] = torch.softmax(scores, dim=0) @ V[b, :, head]
    return out


# 9.2


def batched_attention__wrong_fourth_zeroes_weights_afterwards(Q, K, V, causal=False):
    """The later weights are set to zero after the softmax: what is left of a row no longer sums to 1."""
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) / Q.shape[-1] ** 0.5
    weights = scores.softmax(dim=-1)
    if causal:
        weights = weights.tril()
    return torch.einsum("bhij,bhjd->bhid", weights, V)


def batched_attention__wrong_fourth_fills_with_minus_ten_thousand(Q, K, V, causal=False):
    """Later scores become -10,000, not minus infinity: where true scores are as low, later tokens are seen."""
    n, d = Q.shape[-2:]
    scores = Q @ K.transpose(-2, -1) / math.sqrt(d)
    if causal:
        later = torch.triu(torch.ones(n, n, dtype=torch.bool, device=Q.device), diagonal=1)
        scores = scores.masked_fill(later, -1e4)
    return torch.softmax(scores, dim=-1) @ V


# 9.3


def tiled_attention__wrong_fourth_whole_blocks_only(Q, K, V, block_size):
    """Loops over n // block_size blocks: the keys of a last, shorter block are left out."""
    *_, n, d = Q.shape
    block_size = min(block_size, n)
    m = Q.new_full((*Q.shape[:-1], 1), -math.inf)
    total = torch.zeros_like(m)
    o = torch.zeros_like(Q)
    for number in range(n // block_size):
        part = slice(number * block_size, (number + 1) * block_size)
        S = Q @ K[:, :, part].mT / math.sqrt(d)
        m_new = torch.maximum(m, S.amax(dim=-1, keepdim=True))
        factor, P = torch.exp(m - m_new), torch.exp(S - m_new)
        total = factor * total + P.sum(dim=-1, keepdim=True)
        o = factor * o + P @ V[:, :, part]
        m = m_new
    return o / total


def tiled_attention__wrong_fourth_one_maximum_for_all(Q, K, V, block_size):
    """One running maximum for all queries and heads: with scores of ±10,000 rows far below it become 0 / 0."""
    scale = Q.shape[-1] ** -0.5
    highest, ell, acc = torch.tensor(-math.inf, dtype=Q.dtype, device=Q.device), 0, 0
    for keys, values in zip(K.split(block_size, dim=2), V.split(block_size, dim=2), strict=True):
        s = scale * (Q @ keys.transpose(2, 3))
        higher = torch.maximum(highest, s.max())
        shrink = (highest - higher).exp()
        p = (s - higher).exp()
        ell = shrink * ell + p.sum(-1, keepdim=True)
        acc = shrink * acc + p @ values
        highest = higher
    return acc / ell


def tiled_attention__right_fourth_blends_finished_blocks(Q, K, V, block_size):
    """Right: each block's attention is finished by itself, and two results are blended by their logsumexps."""
    out = seen = None
    for keys, values in zip(K.split(block_size, dim=2), V.split(block_size, dim=2), strict=True):
        scores = Q @ keys.mT / math.sqrt(Q.shape[-1])
        here, size = torch.softmax(scores, dim=-1) @ values, torch.logsumexp(scores, dim=-1, keepdim=True)
        if out is None:
            out, seen = here, size
        else:
            out = torch.lerp(out, here, torch.sigmoid(size - seen))
            seen = torch.logaddexp(seen, size)
    return out


# 9.4


def attention_flops__wrong_fourth_one_addition_less(batch, n_heads, n, d_head):
    """Counts d - 1 additions for a sum of d terms: the custom is a multiply and an add for each, 2abc."""
    scores = n * n * (d_head + d_head - 1)
    mixing = n * d_head * (n + n - 1)
    return batch * n_heads * (scores + mixing)


# 9.5


def score_matrix_bytes__wrong_fourth_four_bytes_by_default(batch, n_heads, n, bytes_per_value=4):
    """The default is 4 bytes, as of float32; it should be 2."""
    values = batch * n_heads * n**2
    return values * bytes_per_value


# 9.6


def roofline_seconds__wrong_fourth_nothing_to_do(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Goes by the intensity, and takes a job without operations or without bytes for one that needs no time."""
    if flops == 0 or bytes_moved == 0:
        return 0.0
    intensity, border = flops / bytes_moved, peak_flops / peak_bandwidth
    return flops / peak_flops if intensity > border else bytes_moved / peak_bandwidth


# 9.7


def median_time__wrong_fourth_upper_of_the_middle_two(run, synchronize, clock, warmup, repeats):
    """With an even count of runs the upper one of the middle two is returned, not their mean."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    return float(sorted(times)[len(times) // 2])


def median_time__wrong_fourth_waits_after_warm_up_only(run, synchronize, clock, warmup, repeats):
    """Waits at the start only if there is a warm-up: with warmup = 0 earlier work counts in the first timed run."""
    if warmup > 0:
        for _ in range(warmup):
            run()
        synchronize()
    durations = []
    while len(durations) < repeats:
        before = clock()
        run()
        synchronize()
        durations.append(clock() - before)
    return float(statistics.median(durations))


def median_time__right_fourth_one_stamp_between_two_runs(run, synchronize, clock, warmup, repeats):
    """Right: one time stamp ends a run and starts the next one, so the clock is read repeats + 1 times."""
    for _ in range(warmup):
        run()
    stamps = []
    for started in range(repeats + 1):
        synchronize()
        stamps.append(clock())
        if started < repeats:
            run()
    ordered = sorted(b - a for a, b in zip(stamps, stamps[1:], strict=False))
    return (ordered[(repeats - 1) // 2] + ordered[repeats // 2]) / 2


# 9.8


def tiled_causal_attention__wrong_fourth_triangle_in_every_tile(Q, K, V, block_size):
    """The triangle is cut out of every tile, also of those wholly in the past: keys with a later place in
    their block than the query in its own are not seen.
    """
    n, d = Q.shape[-2:]
    rows = []
    for q0 in range(0, n, block_size):
        q = Q[:, :, q0 : q0 + block_size]
        m = q.new_full((*q.shape[:-1], 1), -math.inf)
        ell, o = torch.zeros_like(m), torch.zeros_like(q)
        for k0 in range(0, q0 + 1, block_size):
            k, v = K[:, :, k0 : k0 + block_size], V[:, :, k0 : k0 + block_size]
            S = q @ k.mT / math.sqrt(d)
            S = S.masked_fill(torch.ones_like(S, dtype=torch.bool).triu(1), -math.inf)
            new = torch.maximum(m, S.amax(-1, keepdim=True))
            fade, P = torch.exp(m - new), torch.exp(S - new)
            ell, o, m = fade * ell + P.sum(-1, keepdim=True), fade * o + P @ v, new
        rows.append(o / ell)
    return torch.cat(rows, dim=2)


def tiled_causal_attention__wrong_fourth_makes_all_tiles(Q, K, V, block_size):
    """Right numbers, but each block of queries is multiplied with all blocks of keys, the wholly later ones too;
    these are masked as a whole, and nothing is saved.
    """
    n, d = Q.shape[2], Q.shape[3]
    place = torch.arange(n, device=Q.device)
    blocks = []
    for q, i in zip(Q.split(block_size, 2), place.split(block_size), strict=True):
        top = None
        for k, v, j in zip(K.split(block_size, 2), V.split(block_size, 2), place.split(block_size), strict=True):
            s = (q @ k.transpose(-1, -2) / d**0.5).masked_fill(j > i[:, None], -torch.inf)
            if top is None:
                top = s.amax(-1, keepdim=True)
                e = (s - top).exp()
                bottom, mix = e.sum(-1, keepdim=True), e @ v
                continue
            higher = torch.maximum(top, s.amax(-1, keepdim=True))
            e, old = (s - higher).exp(), (top - higher).exp()
            bottom, mix, top = old * bottom + e.sum(-1, keepdim=True), old * mix + e @ v, higher
        blocks.append(mix / bottom)
    return torch.cat(blocks, 2)


# 9.9


def flash_bytes__wrong_fourth_a_lone_key_is_not_read(n, d, block_q, bytes_per_value=2, causal=False):
    """Where a block's only query sees itself alone, its key is not read (its weight is 1 anyway); it should be."""
    rows = 0
    for start in range(0, n, block_q):
        stop = min(start + block_q, n)
        keys = stop if causal else n
        rows += 2 * (stop - start)
        rows += 1 if keys == 1 else 2 * keys
    return rows * d * bytes_per_value


def flash_bytes__wrong_fourth_extra_block_and_no_output(n, d, block_q, bytes_per_value=2, causal=False):
    """Two slips: n // block_q + 1 blocks, one too many where block_q divides n, and the output isn't counted."""
    n_blocks = n // block_q + 1
    if causal:
        keys = sum(min((b + 1) * block_q, n) for b in range(n_blocks))
    else:
        keys = n_blocks * n
    return (n + 2 * keys) * d * bytes_per_value


# 9.10


def flash_backward__wrong_fourth_two_exponentials(Q, K, V, out, logsumexp, d_out, block_size):
    """The weights are exp(score) / exp(logsumexp), two numbers that overflow or vanish for scores of ±10,000: NaN."""
    d = Q.shape[-1]
    correction = torch.einsum("bhid,bhid->bhi", out, d_out)[..., None]
    norm = torch.exp(logsumexp)[..., None]
    dQ, dKs, dVs = 0, [], []
    for k, v in zip(K.split(block_size, -2), V.split(block_size, -2), strict=True):
        weights = torch.exp(Q @ k.mT / d**0.5) / norm
        d_scores = weights * (d_out @ v.mT - correction) / d**0.5
        dQ = dQ + d_scores @ k
        dKs.append(d_scores.mT @ Q)
        dVs.append(weights.mT @ d_out)
    return dQ, torch.cat(dKs, -2), torch.cat(dVs, -2)


def flash_backward__wrong_fourth_last_block_and_scale_of_keys(Q, K, V, out, logsumexp, d_out, block_size):
    """Two slips: dQ is written anew by each block, not added up, and dK lacks the division by the root of d."""
    root = math.sqrt(Q.shape[-1])
    delta = (out * d_out).sum(-1, keepdim=True)
    dK, dV = torch.empty_like(K), torch.empty_like(V)
    for j in range(0, K.shape[-2], block_size):
        keys, values = K[..., j : j + block_size, :], V[..., j : j + block_size, :]
        A = torch.exp(Q @ keys.transpose(-1, -2) / root - logsumexp[..., None])
        G = A * (d_out @ values.transpose(-1, -2) - delta)
        dQ = G @ keys / root
        dK[..., j : j + block_size, :] = G.transpose(-1, -2) @ Q
        dV[..., j : j + block_size, :] = A.transpose(-1, -2) @ d_out
    return dQ, dK, dV
