"""Right and wrong answers to unit 09_gpu_speed, written from the contracts of the functions alone, to test the judge with."""

import heapq
import itertools
import math
import statistics
import warnings
from fractions import Fraction
import numpy as np
import torch


def _row(q, K, V):
    """One query (d,) against all the keys (n, d)."""
    return torch.softmax(K @ (q / math.sqrt(q.shape[0])), dim=0) @ V


def _loops(Q, K, V, row):
    """Three loops: out[b, h, i] = row(q, K, V)."""
    B, h, n, _ = Q.shape
    batch = []
    for b in range(B):
        heads = []
        for j in range(h):
            heads.append(torch.stack([row(Q[b, j, i], K[b, j], V[b, j]) for i in range(n)]))
        batch.append(torch.stack(heads))
    return torch.stack(batch)


def _online(Q, K, V, block_size):
    """Online softmax over blocks of keys."""
    Q = Q / math.sqrt(Q.shape[-1])
    top, total, out = None, None, None
    for K_b, V_b in zip(K.split(block_size, dim=-2), V.split(block_size, dim=-2), strict=True):
        S = Q @ K_b.mT
        new = S.amax(dim=-1, keepdim=True)
        if top is not None:
            new = torch.maximum(top, new)
        P = torch.exp(S - new)
        if top is None:
            total, out = P.sum(dim=-1, keepdim=True), P @ V_b
        else:
            shrink = torch.exp(top - new)
            total, out = total * shrink + P.sum(dim=-1, keepdim=True), out * shrink + P @ V_b
        top = new
    return out / total


def loop_attention__right_einsum_rows(Q, K, V):
    """Loops with an einsum per query, in float64, cast back; warns that it is slow."""
    warnings.warn("three Python loops: slow", stacklevel=2)
    q64, k64, v64 = Q.double(), K.double(), V.double()

    def row(q, k, v):
        w = torch.einsum("d,kd->k", q, k).div(len(q) ** 0.5).softmax(0)
        return torch.einsum("k,kd->d", w, v)

    return _loops(q64, k64, v64, row).to(Q.dtype)


def loop_attention__wrong_scale_sqrt_n(Q, K, V):
    """Divides by sqrt(n): the wrong axis of K."""
    return _loops(Q, K, V, lambda q, k, v: torch.softmax(k @ q / math.sqrt(k.shape[0]), dim=0) @ v)


def loop_attention__wrong_reshape_mixed(Q, K, V):
    """Collects head by head in the order (h, B, n), then reshapes to (B, h, n, d)."""
    B, h, n, _ = Q.shape
    rows = [_row(Q[b, j, i], K[b, j], V[b, j]) for j in range(h) for b in range(B) for i in range(n)]
    return torch.stack(rows).reshape(V.shape)


def loop_attention__wrong_items(Q, K, V):
    """Scores as Python numbers through .item(): no gradient reaches the queries and keys."""

    def row(q, k, v):
        s = [torch.dot(q, x).item() / math.sqrt(q.shape[0]) for x in k]
        e = [math.exp(x - max(s)) for x in s]
        return sum(x / sum(e) * y for x, y in zip(e, v, strict=True))

    return _loops(Q, K, V, row)


def loop_attention__wrong_library_call(Q, K, V):
    """Three loops around scaled_dot_product_attention, which does the exercise."""
    attend = torch.nn.functional.scaled_dot_product_attention
    return _loops(Q, K, V, lambda q, k, v: attend(q[None], k, v)[0])


def batched_attention__right_bmm_additive(Q, K, V, causal=False):
    """Batch and heads in one axis, baddbmm with an additive mask of the input's dtype."""
    B, h, n, d = Q.shape
    q, k, v = (T.reshape(B * h, n, d) for T in (Q, K, V))
    bias = Q.new_zeros(n, n)
    if causal:
        bias = torch.full_like(bias, -math.inf).triu(diagonal=1)
    A = torch.baddbmm(bias.expand(B * h, n, n), q, k.transpose(1, 2), alpha=1 / math.sqrt(d)).softmax(dim=2)
    return torch.bmm(A, v).reshape(B, h, n, d)


def batched_attention__right_logsumexp(Q, K, V, causal=False):
    """Log weights through logsumexp, exponentiated."""
    S = torch.matmul(Q, K.mT).mul(1 / math.sqrt(Q.size(-1)))
    if causal:
        S = S.masked_fill(torch.ones_like(S, dtype=torch.bool).triu(1), -math.inf)
    return torch.exp(S - S.logsumexp(dim=-1, keepdim=True)) @ V


def _masked(S, causal):
    """Causal mask on the scores where asked for: right."""
    keep = torch.ones(S.shape[-2:], dtype=torch.bool, device=S.device).tril()
    return S.masked_fill(~keep, -math.inf) if causal else S


def _scores(Q, K):
    """Scaled scores: right."""
    return Q @ K.mT / math.sqrt(Q.shape[-1])


def batched_attention__wrong_naive_exp(Q, K, V, causal=False):
    """exp without the maximum: overflows."""
    E = torch.exp(_masked(_scores(Q, K), causal))
    return E / E.sum(-1, keepdim=True) @ V


def batched_attention__wrong_epsilon(Q, K, V, causal=False):
    """One maximum for the whole tensor and 1e-9 in the denominator: rows far below it vanish."""
    S = _masked(_scores(Q, K), causal)
    E = torch.exp(S - S.max())
    return E / (E.sum(-1, keepdim=True) + 1e-9) @ V


def batched_attention__wrong_renormalised_after(Q, K, V, causal=False):
    """Masks after the softmax and divides again: 0 / 0 where the future had all the weight."""
    A = _scores(Q, K).softmax(-1)
    if causal:
        A = A.tril()
        A = A / A.sum(-1, keepdim=True)
    return A @ V


def batched_attention__wrong_mask_small_number(Q, K, V, causal=False):
    """Fills with -1e4: not below scores of that size."""
    S = _scores(Q, K)
    if causal:
        S = S.masked_fill(torch.ones_like(S, dtype=torch.bool).triu(1), -1e4)
    return S.softmax(-1) @ V


def batched_attention__wrong_mask_in_numpy(Q, K, V, causal=False):
    """The scores go through NumPy: no gradient to the queries and keys."""
    S = _scores(Q, K).detach().numpy().copy()
    if causal:
        S[..., ~np.tri(S.shape[-1], dtype=bool)] = -np.inf
    return torch.from_numpy(S).softmax(-1) @ V


def batched_attention__wrong_float64_mask(Q, K, V, causal=False):
    """A float64 mask is added: float32 becomes float64."""
    n = Q.shape[2]
    mask = torch.zeros(n, n, dtype=torch.float64)
    if causal:
        mask = mask.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -math.inf)
    return (_scores(Q, K) + mask).softmax(-1) @ V.double()


def batched_attention__wrong_library_call(Q, K, V, causal=False):
    """scaled_dot_product_attention does the exercise."""
    return torch.nn.functional.scaled_dot_product_attention(Q, K, V, is_causal=causal)


def tiled_attention__right_first_block_apart(Q, K, V, block_size):
    """split() cuts the blocks, the first one starts the running values."""
    return _online(Q, K, V, block_size)


def tiled_attention__right_padded_block(Q, K, V, block_size):
    """Pads the last block with zero keys to the full size and hides the padding."""
    B, h, n, d = Q.shape
    size = min(block_size, n)
    top = torch.full((B, h, n, 1), torch.finfo(Q.dtype).min, dtype=Q.dtype, device=Q.device)
    total, out = torch.zeros_like(top), torch.zeros_like(Q)
    for start in range(0, n, size):
        pad = max(0, start + size - n)
        k, v = (torch.nn.functional.pad(T[:, :, start : start + size], (0, 0, 0, pad)) for T in (K, V))
        real = torch.arange(start, start + size, device=Q.device) < n
        S = (Q @ k.transpose(-1, -2) / math.sqrt(d)).masked_fill(~real, -math.inf)
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ v
    return out / total


def _start(Q, V):
    """Running maximum, sum and output before the first block: right."""
    return Q.new_full((*Q.shape[:3], 1), -math.inf), Q.new_zeros(*Q.shape[:3], 1), torch.zeros_like(V)


def tiled_attention__right_column_of_ones(Q, K, V, block_size):
    """A column of ones beside the values: o and l are one tensor, mended by one factor."""
    both = torch.cat([V, torch.ones_like(V[..., :1])], dim=-1)
    top, mixed = torch.full_like(Q[..., :1], -math.inf), torch.zeros_like(both)
    for k, v in zip(K.split(block_size, dim=2), both.split(block_size, dim=2), strict=True):
        S = Q @ k.mT / Q.shape[-1] ** 0.5
        new = torch.maximum(top, S.max(dim=-1, keepdim=True).values)
        mixed, top = mixed * (top - new).exp() + (S - new).exp() @ v, new
    return mixed[..., :-1] / mixed[..., -1:]


def tiled_attention__wrong_broadcast_product(Q, K, V, block_size):
    """Dot products as a broadcast product (n, block, d): n*n entries and more once block_size * d >= n."""
    top, total, out = _start(Q, V)
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2), strict=True):
        S = (Q.unsqueeze(3) * k.unsqueeze(2)).sum(-1) / math.sqrt(Q.shape[-1])
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ v
    return out / total


def tiled_attention__wrong_library_call(Q, K, V, block_size):
    """scaled_dot_product_attention, which may well be tiled inside."""
    return torch.nn.functional.scaled_dot_product_attention(Q, K, V)


def attention_flops__right_numpy_int64(batch, n_heads, n, d_head):
    """A NumPy int64: enough below 2**63."""
    return np.prod([4, batch, n_heads, n, n, d_head], dtype=np.int64)


def attention_flops__right_zero_dim_tensor_of_64_bits(batch, n_heads, n, d_head):
    """A 0-d int64 tensor: enough below 2**63."""
    return torch.tensor(4, dtype=torch.int64) * batch * n_heads * n * n * d_head


def attention_flops__wrong_int32(batch, n_heads, n, d_head):
    """int32: overflows for ordinary sizes."""
    with np.errstate(over="ignore"):
        return np.prod(np.array([4, batch, n_heads, n, n, d_head], dtype=np.int32), dtype=np.int32)


def score_matrix_bytes__right_int64(batch, n_heads, n, bytes_per_value=2):
    """A NumPy int64 from the first product on: enough below 2**63."""
    return np.int64(batch) * n_heads * n * n * bytes_per_value


def score_matrix_bytes__wrong_default_four(batch, n_heads, n, bytes_per_value=4):
    """The default is 4 (float32)."""
    return batch * n_heads * n * n * bytes_per_value


def score_matrix_bytes__wrong_int32(batch, n_heads, n, bytes_per_value=2):
    """int32: overflows at 2 GiB."""
    with np.errstate(over="ignore"):
        return np.prod(np.array([batch, n_heads, n, n, bytes_per_value], dtype=np.int32), dtype=np.int32)


def score_matrix_bytes__wrong_no_default(batch, n_heads, n, bytes_per_value):
    """No default for bytes_per_value."""
    return batch * n_heads * n * n * bytes_per_value


def roofline_seconds__right_fraction(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Exact fractions; warns."""
    warnings.warn("exact fractions", stacklevel=2)
    compute = Fraction(float(flops)) / Fraction(float(peak_flops))
    memory = Fraction(float(bytes_moved)) / Fraction(float(peak_bandwidth))
    return float(sorted((compute, memory))[-1])


def roofline_seconds__right_half_sum(flops, bytes_moved, peak_flops, peak_bandwidth):
    """max(a, b) = b + relu(a - b)."""
    a, b = flops / peak_flops, bytes_moved / peak_bandwidth
    return a if b <= 0 else b + max(0.0, a - b)


def roofline_seconds__wrong_intensity_zero_bytes(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Through the intensity flops / bytes: ZeroDivisionError for no bytes."""
    return flops / min(peak_flops, flops / bytes_moved * peak_bandwidth)


def roofline_seconds__wrong_compares_work(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Compares flops with bytes, not the times."""
    return flops / peak_flops if flops > bytes_moved else bytes_moved / peak_bandwidth


def roofline_seconds__wrong_compares_peaks(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The slower resource binds, whatever the work."""
    return flops / peak_flops if peak_flops < peak_bandwidth else bytes_moved / peak_bandwidth


def roofline_seconds__wrong_precedence(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Divides the larger work by the larger speed: max(...) / max(...)."""
    return max(flops, bytes_moved) / max(peak_flops, peak_bandwidth)


def _seconds(run, synchronize, clock):
    """One honest measurement."""
    synchronize()
    start = clock()
    run()
    synchronize()
    return clock() - start


def median_time__right_recursive_heap(run, synchronize, clock, warmup, repeats):
    """Warm-up by recursion, the median from a heap; warns where there is no warm-up."""
    if warmup > 0:
        run()
        return median_time__right_recursive_heap(run, synchronize, clock, warmup - 1, repeats)
    warnings.warn("measuring now", stacklevel=2)
    heap = []
    for _ in range(repeats):
        heapq.heappush(heap, _seconds(run, synchronize, clock))
    smallest = heapq.nsmallest(repeats // 2 + 1, heap)
    return smallest[-1] if repeats % 2 else (smallest[-1] + smallest[-2]) / 2


def median_time__right_more_readings(run, synchronize, clock, warmup, repeats):
    """Reads the clock more often than needed: also around the whole, only for a message."""
    synchronize()
    begin = clock()
    for _ in range(warmup):
        run()
    times = []
    while len(times) < repeats:
        times.append(_seconds(run, synchronize, clock))
    synchronize()
    print("all in all", clock() - begin, "s")
    low, high = statistics.median_low(times), statistics.median_high(times)
    return (low + high) / 2


def flash_bytes__right_numpy_int(n, d, block_q, bytes_per_value=2, causal=False):
    """An array of the blocks' ends; a NumPy integer comes back."""
    ends = np.minimum(np.arange(block_q, n + block_q, block_q, dtype=np.int64), n)
    read = ends.sum() if causal else len(ends) * n
    return (2 * n * d + 2 * d * read) * bytes_per_value


def flash_bytes__right_fraction_and_ceil(n, d, block_q, bytes_per_value=2, causal=False):
    """math.ceil of an exact fraction; helpers; prints."""
    blocks = math.ceil(Fraction(n, block_q))
    print("blocks:", blocks)
    last = [n] * blocks if not causal else [min(n, block_q * (i + 1)) for i in range(blocks)]
    return sum((2 * n, *(2 * keys for keys in last))) * d * bytes_per_value


def flash_bytes__wrong_numbers(n, d, block_q, bytes_per_value=2, causal=False):
    """Numbers, not bytes."""
    ends = [min(start + block_q, n) if causal else n for start in range(0, n, block_q)]
    return 2 * n * d + 2 * d * sum(ends)


def tiled_causal_attention__right_merged_by_logsumexp(Q, K, V, block_size):
    """Each tile gets its own softmax; tiles are merged by their logs of sums."""
    out = torch.zeros_like(V)
    for b, h in itertools.product(range(Q.shape[0]), range(Q.shape[1])):
        for first in range(0, Q.shape[2], block_size):
            q = Q[b, h, first : first + block_size]
            mean, log = None, None
            for start in range(0, first + len(q), block_size):
                k, v = K[b, h, start : start + block_size], V[b, h, start : start + block_size]
                S = q @ k.T / math.sqrt(q.shape[-1])
                place = torch.arange(first, first + len(q))[:, None]
                S = torch.where(torch.arange(start, start + len(k)) <= place, S, -math.inf)
                lse = S.logsumexp(-1, keepdim=True)
                part = torch.exp(S - lse) @ v
                if mean is None:
                    mean, log = part, lse
                else:
                    both = torch.logaddexp(log, lse)
                    mean, log = mean * torch.exp(log - both) + part * torch.exp(lse - both), both
            out[b, h, first : first + block_size] = mean
    return out


def tiled_causal_attention__right_last_block_first(Q, K, V, block_size):
    """Starts with the tile on the diagonal and goes back; one large Boolean mask, of which tiles are cut."""
    n = Q.shape[2]
    forbidden = torch.arange(n)[None, :] > torch.arange(n)[:, None]
    rows = []
    for first in reversed(range(0, n, block_size)):
        own = slice(first, min(first + block_size, n))
        top = None
        for start in range(first, -1, -block_size):
            there = slice(start, min(start + block_size, n))
            S = torch.matmul(Q[:, :, own], K[:, :, there].transpose(2, 3)).div(Q.shape[-1] ** 0.5)
            S = S.masked_fill(forbidden[own, there], float("-inf"))
            if top is None:
                top = S.amax(-1, keepdim=True)
                P = torch.exp(S - top)
                total, mix = P.sum(-1, keepdim=True), P @ V[:, :, there]
                continue
            new = torch.maximum(top, S.amax(-1, keepdim=True))
            P, shrink = torch.exp(S - new), torch.exp(top - new)
            total, mix, top = total * shrink + P.sum(-1, keepdim=True), mix * shrink + P @ V[:, :, there], new
        rows.insert(0, mix / total)
    return torch.cat(rows, 2)


def _causal_tiles(Q, K, V, block_size, mask=None, seen=None, fill=-math.inf, fresh=True):
    """Tiles with places to slip: mask(rows, columns) says what may be seen, seen(first, start) which tiles are met."""
    mask = mask or (lambda rows, columns: columns <= rows)
    seen = seen or (lambda first, start: start <= first)
    n, scale = Q.shape[2], Q.shape[-1] ** -0.5
    top, rows = None, []
    for first in range(0, n, block_size):
        q = Q[:, :, first : first + block_size] * scale
        if fresh or top is None:
            top, total, mix = torch.full_like(q[..., :1], -math.inf), torch.zeros_like(q[..., :1]), torch.zeros_like(q)
        top, total, mix = (X[:, :, : q.shape[2]] for X in (top, total, mix))
        for start in range(0, n, block_size):
            if not seen(first, start):
                continue
            k, v = K[:, :, start : start + block_size], V[:, :, start : start + block_size]
            i, j = torch.arange(first, first + q.shape[2])[:, None], torch.arange(start, start + k.shape[2])
            S = (q @ k.mT).masked_fill(~mask(i, j), fill)
            new = torch.maximum(top, S.amax(-1, keepdim=True))
            P, shrink = torch.exp(S - new), torch.exp(top - new)
            total, mix, top = total * shrink + P.sum(-1, keepdim=True), mix * shrink + P @ v, new
        rows.append(mix / total)
    return torch.cat(rows, 2)


def tiled_causal_attention__wrong_filled_with_minus_hundred(Q, K, V, block_size):
    """Forbidden scores are -100, which large scores undercut."""
    return _causal_tiles(Q, K, V, block_size, fill=-100.0)


def tiled_causal_attention__wrong_stripes(Q, K, V, block_size):
    """All queries at once against each block of keys."""
    n = Q.shape[2]
    top, total, mix = torch.full_like(Q[..., :1], -math.inf), 0.0, 0.0
    for start in range(0, n, block_size):
        S = Q @ K[:, :, start : start + block_size].mT / math.sqrt(Q.shape[-1])
        S = S.masked_fill(torch.arange(start, start + S.shape[-1]) > torch.arange(n)[:, None], -math.inf)
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        total, mix = total * shrink + P.sum(-1, keepdim=True), mix * shrink + P @ V[:, :, start : start + block_size]
        top = new
    return mix / total


def tiled_causal_attention__wrong_query_by_query(Q, K, V, block_size):
    """Each query alone against blocks of keys."""
    rows = [_online(Q[:, :, i : i + 1], K[:, :, : i + 1], V[:, :, : i + 1], block_size) for i in range(Q.shape[2])]
    return torch.cat(rows, 2)


def tiled_causal_attention__wrong_blocks_must_fit(Q, K, V, block_size):
    """reshape into whole blocks: raises where block_size does not divide n."""
    B, h, n, d = Q.shape
    Q.reshape(B, h, n // block_size, block_size, d)
    return _causal_tiles(Q, K, V, block_size)


def _back(Q, K, V, out, logsumexp, d_out, block_size, weigh=None, slope=None, scales=(None, None), blocks=None):
    """The right way with places to slip: weigh(S, log), slope(P, dP, D), the scales of dQ and dK, the blocks."""
    scale = Q.shape[-1] ** -0.5
    weigh = weigh or (lambda S, log: torch.exp(S - log))
    slope = slope or (lambda P, dP, D: P * (dP - D))
    for_q, for_k = (scale if s is None else s for s in scales)
    D = (out * d_out).sum(-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    starts = range(0, K.shape[2], block_size)
    for start in starts if blocks is None else blocks(starts):
        J = slice(start, start + block_size)
        P = weigh(Q @ K[:, :, J].mT * scale, logsumexp[..., None])
        dS = slope(P, d_out @ V[:, :, J].mT, D)
        dQ += dS @ K[:, :, J] * for_q
        dK[:, :, J] = dS.mT @ Q * for_k
        dV[:, :, J] = P.mT @ d_out
    return dQ, dK, dV


def flash_backward__wrong_materialised(Q, K, V, out, logsumexp, d_out, block_size):
    """All weights at once."""
    return _back(Q, K, V, out, logsumexp, d_out, K.shape[2])


def flash_backward__wrong_autograd(Q, K, V, out, logsumexp, d_out, block_size):
    """autograd through the tiles."""
    leaves = [X.detach().requires_grad_() for X in (Q, K, V)]
    return torch.autograd.grad(_online(*leaves, block_size), leaves, d_out)


def flash_backward__wrong_backward_method(Q, K, V, out, logsumexp, d_out, block_size):
    """.backward() on the tiles."""
    leaves = [X.detach().clone().requires_grad_() for X in (Q, K, V)]
    (_online(*leaves, block_size) * d_out).sum().backward()
    return tuple(leaf.grad for leaf in leaves)


def flash_backward__wrong_vjp(Q, K, V, out, logsumexp, d_out, block_size):
    """torch.func.vjp."""
    return torch.func.vjp(lambda *x: _online(*x, block_size), Q, K, V)[1](d_out)


def flash_backward__right_transposed_scores(Q, K, V, out, logsumexp, d_out, block_size):
    """Unusual: works with the transposed weights (keys as rows), flattened to baddbmm, dK and dV by cat of splits."""
    B, h, n, d = Q.shape
    q, k, v, o, g = (T.reshape(B * h, n, d) for T in (Q, K, V, out, d_out))
    q = q / math.sqrt(d)
    lse = logsumexp.reshape(B * h, 1, n)
    row = (g * o).sum(-1).unsqueeze(1)
    dq, dk, dv = torch.zeros_like(q), [], []
    for kb, vb in zip(k.split(block_size, 1), v.split(block_size, 1)):
        pT = torch.exp(torch.baddbmm(-lse, kb, q.transpose(1, 2)))
        dsT = pT * torch.baddbmm(-row, vb, g.transpose(1, 2))
        dv.append(torch.bmm(pT, g))
        dk.append(torch.bmm(dsT, q))
        dq = dq + torch.bmm(dsT.transpose(1, 2), kb)
    shape = (B, h, n, d)
    return (dq / math.sqrt(d)).view(shape), torch.cat(dk, 1).view(shape), torch.cat(dv, 1).view(shape)


def flash_backward__right_head_by_head(Q, K, V, out, logsumexp, d_out, block_size):
    """Unusual: loops over batch and heads; results are views of one stacked tensor."""
    B, h, n, d = Q.shape
    result = Q.new_zeros(3, B, h, n, d)
    for b in range(B):
        for x in range(h):
            q, k, v, o, l, g = (T[b, x] for T in (Q, K, V, out, logsumexp, d_out))
            row = torch.linalg.vecdot(g, o)
            for a in range(0, n, block_size):
                e = min(n, a + block_size)
                P = torch.exp(torch.addmm(l[:, None], q, k[a:e].T, beta=-1, alpha=d**-0.5))
                dS = (g @ v[a:e].T).sub(row[:, None]).mul(P).mul(d**-0.5)
                result[0, b, x].addmm_(dS, k[a:e])
                result[1, b, x, a:e] = dS.T @ q
                result[2, b, x, a:e] = P.T @ g
    return tuple(result)


def flash_bytes__wrong_blocks_rounded_down(n, d, block_q, bytes_per_value=2, causal=False):
    """Wrong: n // block_q query blocks: the short last one is forgotten."""
    blocks = max(n // block_q, 1)
    keys = sum(min((a + 1) * block_q, n) if causal else n for a in range(blocks))
    return (2 * n * d + 2 * keys * d) * bytes_per_value


def merge_partials__right_difference_of_the_logs(out_1, lse_1, out_2, lse_2):
    """The first set's share is a sigmoid of the difference; queries without any key are treated apart."""
    none = torch.isneginf(lse_1) & torch.isneginf(lse_2)
    gap = torch.where(none, torch.zeros_like(lse_1), lse_1) - torch.where(none, torch.zeros_like(lse_2), lse_2)
    share = torch.sigmoid(gap).unsqueeze(-1)
    return share * out_1 + (1 - share) * out_2, torch.logaddexp(lse_1, lse_2)


def merge_partials__right_sums_against_the_larger_log(out_1, lse_1, out_2, lse_2):
    """Numerator and denominator against the larger log, as in an online softmax of two blocks."""
    top = torch.maximum(lse_1, lse_2)
    top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
    one, two = (lse_1 - top).exp(), (lse_2 - top).exp()
    total = one + two
    mix = one[..., None] * out_1 + two[..., None] * out_2
    return mix / torch.where(total == 0, torch.ones_like(total), total)[..., None], top + total.log()


def merge_partials__right_logsumexp_of_a_stack(out_1, lse_1, out_2, lse_2):
    """A softmax over the two logs; the rows without keys are filled with zeros afterwards."""
    logs = torch.stack((lse_1, lse_2))
    lse = logs.logsumexp(0)
    weights = torch.softmax(logs, 0).masked_fill(torch.isneginf(lse), 0.0)
    return torch.einsum("pbhn,pbhnd->bhnd", weights, torch.stack((out_1, out_2))), lse


def merge_partials__wrong_exponentials_as_they_are(out_1, lse_1, out_2, lse_2):
    """The sums themselves, with their overflow."""
    one, two = lse_1.exp(), lse_2.exp()
    out = (one[..., None] * out_1 + two[..., None] * out_2) / (one + two)[..., None]
    return torch.nan_to_num(out), (one + two).log()


def merge_partials__wrong_no_thought_of_two_empty_sets(out_1, lse_1, out_2, lse_2):
    """Right as long as one of the sets has a key."""
    lse = torch.logaddexp(lse_1, lse_2)
    return (lse_1 - lse).exp()[..., None] * out_1 + (lse_2 - lse).exp()[..., None] * out_2, lse


def merge_partials__wrong_large_number_for_infinity(out_1, lse_1, out_2, lse_2):
    """A very low number stands for -inf, and comes back where neither set has keys."""
    lse_1, lse_2 = lse_1.clamp_min(-1e30), lse_2.clamp_min(-1e30)
    share = torch.sigmoid(lse_1 - lse_2)[..., None]
    return share * out_1 + (1 - share) * out_2, torch.logaddexp(lse_1, lse_2)


def merge_partials__wrong_log_of_the_mean(out_1, lse_1, out_2, lse_2):
    """The mean of the two sums in place of their sum: the log is too small by ln 2."""
    out, lse = merge_partials__right_logsumexp_of_a_stack(out_1, lse_1, out_2, lse_2)
    return out, lse - math.log(2)
