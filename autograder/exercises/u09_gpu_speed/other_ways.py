"""Unit 9: other right ways than the course's own, so that their steps are known to be right, too."""

import bisect
import math

import torch


def loop_attention__rows_collected(Q, K, V):
    rows = []
    for queries, keys, values in zip(Q.flatten(0, 1), K.flatten(0, 1), V.flatten(0, 1), strict=True):
        for query in queries:
            scores = (keys * query).sum(dim=-1) / math.sqrt(Q.shape[-1])
            weights = (scores - scores.logsumexp(dim=0)).exp()
            rows.append((weights[:, None] * values).sum(dim=0))
    return torch.stack(rows).reshape(Q.shape)


def loop_attention__online_over_keys(Q, K, V):
    B, h, n, d = Q.shape
    rows = []
    for b in range(B):
        for head in range(h):
            for i in range(n):
                top = Q.new_tensor(-math.inf)
                total, mix = (Q.new_zeros(()), Q.new_zeros(d))
                for j in range(n):
                    s = (Q[b, head, i] * K[b, head, j]).sum() / math.sqrt(d)
                    new = torch.maximum(top, s)
                    factor, term = (torch.exp(top - new), torch.exp(s - new))
                    total = total * factor + term
                    mix = mix * factor + term * V[b, head, j]
                    top = new
                rows.append(mix / total)
    return torch.stack(rows).reshape(B, h, n, d)


def loop_attention__logsumexp_einsum(Q, K, V):
    _B, _h, n, d = Q.shape
    sequences = []
    for q, k, v in zip(Q, K, V, strict=False):
        rows = []
        for i in range(n):
            s = torch.einsum("hd,hjd->hj", q[:, i] / d**0.5, k)
            w = torch.exp(s - s.logsumexp(-1, keepdim=True))
            rows.append(torch.einsum("hj,hjd->hd", w, v))
        sequences.append(torch.stack(rows, dim=1))
    return torch.stack(sequences)


def batched_attention__einsum(Q, K, V, causal=False):
    scores = torch.einsum("bhid,bhjd->bhij", Q, K) * Q.shape[-1] ** (-0.5)
    if causal:
        place = torch.arange(Q.shape[-2], device=Q.device)
        scores = torch.where(place[:, None] >= place, scores, -torch.inf)
    weights = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))
    return torch.einsum("bhij,bhjd->bhid", weights, V)


def tiled_attention__merges_finished_blocks_by_logsumexp(Q, K, V, block_size):
    lse, out = (None, None)
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2), strict=False):
        s = Q @ k.mT / math.sqrt(Q.shape[-1])
        here, mix = (s.logsumexp(-1, keepdim=True), s.softmax(-1) @ v)
        if lse is None:
            lse, out = (here, mix)
        else:
            both = torch.logaddexp(lse, here)
            out = out * torch.exp(lse - both) + mix * torch.exp(here - both)
            lse = both
    return out


def tiled_attention__back_to_front_head_by_head(Q, K, V, block_size):
    B, h, n, d = Q.shape
    done = []
    for q, k, v in zip(Q.flatten(0, 1), K.flatten(0, 1), V.flatten(0, 1), strict=False):
        m, sums, o = (q.new_full((n,), -math.inf), q.new_zeros(n), torch.zeros_like(q))
        for first in reversed(range(0, n, block_size)):
            s = k[first : first + block_size] @ q.T / math.sqrt(d)
            new = torch.maximum(m, s.amax(0))
            p, f = (torch.exp(s - new), torch.exp(m - new))
            sums = sums * f + p.sum(0)
            o = o * f[:, None] + p.T @ v[first : first + block_size]
            m = new
        done.append(o / sums[:, None])
    return torch.stack(done).reshape(B, h, n, d)


def tiled_attention__finished_blocks_merged_backwards(Q, K, V, block_size):
    n, d = Q.shape[-2:]
    out = level = None
    for start in reversed(range(0, n, block_size)):
        stop = min(n, start + block_size)
        s = torch.einsum("bhid,bhjd->bhij", Q, K[:, :, start:stop]) / math.sqrt(d)
        lse = s.logsumexp(-1, keepdim=True)
        mine = torch.exp(s - lse) @ V[:, :, start:stop]
        if out is None:
            out, level = (mine, lse)
        else:
            share = torch.sigmoid(lse - level)
            out = share * mine + (1 - share) * out
            level = torch.logaddexp(level, lse)
    return out


def tiled_attention__running_logsumexp(Q, K, V, block_size):
    d = Q.shape[-1]
    seen, out = (None, None)
    for start in range(0, K.shape[2], block_size):
        keys, values = (K[:, :, start : start + block_size], V[:, :, start : start + block_size])
        scores = Q @ keys.mT * d ** (-0.5)
        here = scores.logsumexp(dim=-1, keepdim=True)
        if seen is None:
            seen, out = (here, torch.exp(scores - here) @ values)
        else:
            both = torch.logaddexp(seen, here)
            out = torch.exp(seen - both) * out + torch.exp(scores - both) @ values
            seen = both
    return out


def attention_flops__per_entry(batch, n_heads, n, d_head):
    scores = n * n * (d_head + d_head)
    output = n * d_head * (n + n)
    return sum(scores + output for _ in range(n_heads)) * batch


def median_time__sorted_as_it_goes(run, synchronize, clock, warmup, repeats):
    ordered = []
    for number in range(warmup + repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        lap = clock() - start
        if number >= warmup:
            bisect.insort(ordered, lap)
    k = len(ordered)
    return (ordered[(k - 1) // 2] + ordered[k // 2]) / 2


def tiled_causal_attention__from_the_diagonal_leftwards(Q, K, V, block_size):
    n, d = Q.shape[-2:]
    place = torch.arange(n, device=Q.device)
    pieces = []
    for a in range(0, n, block_size):
        q, i = (Q[:, :, a : a + block_size], place[a : a + block_size, None])
        lse = out = None
        for b in range(a, -1, -block_size):
            j = place[b : b + block_size]
            s = torch.einsum("bhid,bhjd->bhij", q, K[:, :, b : b + block_size]) / d**0.5
            s = s.masked_fill(j > i, -math.inf)
            z = s.logsumexp(-1, keepdim=True)
            y = torch.exp(s - z) @ V[:, :, b : b + block_size]
            if lse is None:
                lse, out = (z, y)
            else:
                joint = torch.logaddexp(lse, z)
                out = out * torch.exp(lse - joint) + y * torch.exp(z - joint)
                lse = joint
        pieces.append(out)
    return torch.cat(pieces, dim=2)


def tiled_causal_attention__keys_outside(Q, K, V, block_size):
    queries, keys, values = (x.split(block_size, dim=2) for x in (Q, K, V))
    states = [None] * len(queries)
    for block, (k, v) in enumerate(zip(keys, values, strict=True)):
        for number in range(block, len(queries)):
            q = queries[number]
            scores = q @ k.mT / math.sqrt(Q.shape[-1])
            if number == block:
                later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=Q.device).triu(1)
                scores = scores.masked_fill(later, -math.inf)
            here = scores.logsumexp(dim=-1, keepdim=True)
            if states[number] is None:
                states[number] = (here, torch.exp(scores - here) @ v)
            else:
                seen, out = states[number]
                both = torch.logaddexp(seen, here)
                states[number] = (both, torch.exp(seen - both) * out + torch.exp(scores - both) @ v)
    return torch.cat([out for _, out in states], dim=2)


def flash_bytes__counts_when_each_key_comes(n, d, block_q, bytes_per_value=2, causal=False):
    whole, rest = divmod(n, block_q)
    n_blocks = whole + (rest > 0)
    visits = block_q * sum(range(n_blocks - whole + 1, n_blocks + 1)) + rest if causal else n_blocks * n
    return 2 * d * bytes_per_value * (n + visits)


def flash_backward__two_walks(Q, K, V, out, logsumexp, d_out, block_size):
    scale = Q.shape[-1] ** (-0.5)
    blocks = list(zip(K.split(block_size, dim=2), V.split(block_size, dim=2), strict=True))

    def weights_of(keys):
        scores = torch.einsum("bhid,bhjd->bhij", Q, keys) * scale
        return torch.exp(scores - logsumexp.unsqueeze(-1))

    expected = 0
    for keys, values in blocks:
        slopes = torch.einsum("bhid,bhjd->bhij", d_out, values)
        expected = expected + (weights_of(keys) * slopes).sum(dim=-1, keepdim=True)
    dQ, dK, dV = (0, [], [])
    for keys, values in blocks:
        weights = weights_of(keys)
        slopes = torch.einsum("bhid,bhjd->bhij", d_out, values)
        moves = weights * (slopes - expected) * scale
        dQ = dQ + torch.einsum("bhij,bhjd->bhid", moves, keys)
        dK.append(torch.einsum("bhij,bhid->bhjd", moves, Q))
        dV.append(torch.einsum("bhij,bhid->bhjd", weights, d_out))
    return (dQ, torch.cat(dK, dim=2), torch.cat(dV, dim=2))


def flash_backward__extra_column(Q, K, V, out, logsumexp, d_out, block_size):
    n, d = Q.shape[-2:]
    scale = 1 / math.sqrt(d)
    wide = torch.cat([d_out, -(d_out * out).sum(-1, keepdim=True)], dim=-1)
    dQ = torch.zeros_like(Q)
    dK, dV = ([], [])
    for start in reversed(range(0, n, block_size)):
        k, v = (K[:, :, start : start + block_size], V[:, :, start : start + block_size])
        A_t = torch.exp(k @ Q.mT * scale - logsumexp.unsqueeze(-2))
        G_t = A_t * (torch.cat([v, torch.ones_like(v[..., :1])], -1) @ wide.mT)
        dQ = dQ + scale * torch.einsum("bhji,bhjd->bhid", G_t, k)
        dK.insert(0, scale * (G_t @ Q))
        dV.insert(0, A_t @ d_out)
    return (dQ, torch.cat(dK, dim=-2), torch.cat(dV, dim=-2))
