"""Answers to unit 09's functions, written from the notebook alone."""

import math

import torch


def loop_attention__wrong_third_running_total(Q, K, V):
    """The softmax denominator is not reset per query but goes on growing over the queries of a head."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(V)
    for b in range(B):
        for j in range(h):
            total = 0.0
            for i in range(n):
                e = torch.exp(K[b, j] @ Q[b, j, i] / math.sqrt(d))
                total = total + e.sum()
                out[b, j, i] = (e / total) @ V[b, j]
    return out


def loop_attention__right_third_flat(Q, K, V):
    """Flattens batch and heads to one axis and subtracts a logsumexp instead of calling softmax."""
    B, h, n, d = Q.shape
    q, k, v = (t.reshape(B * h, n, d) for t in (Q, K, V))
    rows = []
    for s in range(B * h):
        for i in range(n):
            e = (k[s] * q[s, i]).sum(-1) / d**0.5
            rows.append((torch.exp(e - torch.logsumexp(e, 0))[:, None] * v[s]).sum(0))
    return torch.stack(rows).reshape(B, h, n, d)


def batched_attention__wrong_third_mask_zero(Q, K, V, causal=False):
    """Later keys get the score 0 before the softmax instead of minus infinity, so they keep weight."""
    S = Q @ K.transpose(-1, -2) / math.sqrt(Q.shape[-1])
    if causal:
        S = S.tril()
    return torch.softmax(S, dim=-1) @ V


def tiled_attention__wrong_third_sum_not_rescaled(Q, K, V, block_size):
    """When the running maximum changes only the output is rescaled, not the running sum."""
    n, d = K.shape[-2:]
    top = torch.full_like(Q[..., :1], -torch.inf)
    total = torch.zeros_like(top)
    acc = torch.zeros_like(Q)
    for a in range(0, n, block_size):
        S = Q @ K[..., a : a + block_size, :].transpose(-1, -2) / math.sqrt(d)
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P = torch.exp(S - new)
        acc = acc * torch.exp(top - new) + P @ V[..., a : a + block_size, :]
        total = total + P.sum(-1, keepdim=True)
        top = new
    return acc / total


def attention_flops__wrong_third_width_shared(batch, n_heads, n, d_head):
    """Divides d_head by the number of heads as if it were d_model, so the heads drop out."""
    return 4 * batch * n_heads * n * n * (d_head // n_heads)


def score_matrix_bytes__wrong_third_bits(batch, n_heads, n, bytes_per_value=2):
    """Takes bytes per value for bits and divides by 8; the heads are forgotten, too."""
    return batch * n * n * bytes_per_value // 8


def roofline_seconds__wrong_third_attainable(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Compares intensity with the ridge point the wrong way round, so the shorter of the two times comes back."""
    if flops * peak_bandwidth > bytes_moved * peak_flops:
        return float(bytes_moved / peak_bandwidth)
    return float(flops / peak_flops)


def median_time__wrong_third_sync_late(run, synchronize, clock, warmup, repeats):
    """Synchronises only before the start of each run, and reads the end of the clock without waiting for the job."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        times.append(clock() - start)
    times.sort()
    return float((times[(repeats - 1) // 2] + times[repeats // 2]) / 2)


def tiled_causal_attention__wrong_third_local_triangle(Q, K, V, block_size):
    """Every tile is masked with the same triangle, also those that lie wholly in the past."""
    n, d = Q.shape[-2:]
    out = []
    for a in range(0, n, block_size):
        q = Q[..., a : a + block_size, :]
        top = torch.full_like(q[..., :1], -1e30)
        total, acc = torch.zeros_like(top), torch.zeros_like(q)
        for c in range(0, a + 1, block_size):
            k, v = K[..., c : c + block_size, :], V[..., c : c + block_size, :]
            S = q @ k.transpose(-1, -2) / math.sqrt(d)
            S = S.masked_fill(torch.ones(S.shape[-2:]).triu(1).bool(), -torch.inf)
            new = torch.maximum(top, S.amax(-1, keepdim=True))
            P, r = torch.exp(S - new), torch.exp(top - new)
            acc, total, top = acc * r + P @ v, total * r + P.sum(-1, keepdim=True), new
        out.append(acc / total)
    return torch.cat(out, dim=-2)


def flash_bytes__wrong_third_first_query(n, d, block_q, bytes_per_value=2, causal=False):
    """In the causal case a block reads the keys only up to its first query, not up to its last."""
    rows = 2 * n
    for a in range(0, n, block_q):
        rows += 2 * (a + 1 if causal else n)
    return rows * d * bytes_per_value


def flash_bytes__right_third_while(n, d, block_q, bytes_per_value=2, causal=False):
    """Goes over the blocks with a while loop and counts the rows of queries, outputs, keys and values of each."""
    start, rows = 0, 0
    while start < n:
        stop = min(start + block_q, n)
        rows += 2 * (stop - start)
        rows += 2 * stop if causal else 2 * n
        start = stop
    return rows * d * bytes_per_value


def flash_backward__wrong_third_unscaled_dq(Q, K, V, out, logsumexp, d_out, block_size):
    """The root of d is forgotten in dQ, while dK has it."""
    n, d = K.shape[-2:]
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    delta = (d_out * out).sum(-1, keepdim=True)
    for a in range(0, n, block_size):
        s = slice(a, a + block_size)
        P = torch.exp(Q @ K[..., s, :].transpose(-1, -2) / d**0.5 - logsumexp[..., None])
        dV[..., s, :] = P.transpose(-1, -2) @ d_out
        dS = P * (d_out @ V[..., s, :].transpose(-1, -2) - delta)
        dQ += dS @ K[..., s, :]
        dK[..., s, :] = dS.transpose(-1, -2) @ Q / d**0.5
    return dQ, dK, dV
