"""Right and wrong answers to unit 09_gpu_speed, written from the contracts of the functions alone, to test the judge with."""

import heapq
import itertools
import math
import statistics
import time
import warnings
from fractions import Fraction

import numpy as np
import torch

# ------------------------------------------------------------------------------------------------- helpers, all right


def _attend(Q, K, V):
    """Scaled attention over the last two axes, not masked."""
    return torch.softmax(Q @ K.mT / math.sqrt(Q.shape[-1]), dim=-1) @ V


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


# ------------------------------------------------------------------------------------------------------- loop_attention


def loop_attention__right_buffer(Q, K, V):
    """Three loops, rows written into a fresh tensor."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(V)
    for b in range(B):
        for j in range(h):
            for i in range(n):
                scores = K[b, j] @ Q[b, j, i] / math.sqrt(d)
                out[b, j, i] = torch.softmax(scores, dim=-1) @ V[b, j]
    return out


def loop_attention__right_nested_stacks(Q, K, V):
    """Nested lists of rows, stacked from the inside out; its own softmax with the maximum taken off."""
    batch = []
    for Q_b, K_b, V_b in zip(Q, K, V, strict=True):
        heads = []
        for q_h, k_h, v_h in zip(Q_b, K_b, V_b, strict=True):
            rows = []
            for q in q_h:
                s = (k_h * (q * q.shape[0] ** -0.5)).sum(dim=1)
                e = (s - s.max()).exp()
                rows.append((e / e.sum()).unsqueeze(0) @ v_h)
            heads.append(torch.cat(rows))
        batch.append(torch.stack(heads))
    return torch.stack(batch)


def loop_attention__right_product_reshape(Q, K, V):
    """itertools.product over all three indices, one stack, one reshape."""
    B, h, n, _ = Q.shape
    rows = [_row(Q[b, j, i], K[b, j], V[b, j]) for b, j, i in itertools.product(range(B), range(h), range(n))]
    return torch.stack(rows).reshape(V.shape)


def loop_attention__right_four_loops(Q, K, V):
    """A fourth loop over the keys: dot products and the weighted sum by hand."""
    B, h, n, d = Q.shape
    print("loops:", B * h * n * n)
    out = []
    for b, j, i in itertools.product(range(B), range(h), range(n)):
        s = torch.stack([torch.dot(Q[b, j, i] / math.sqrt(d), K[b, j, k]) for k in range(n)])
        w = torch.exp(s - torch.logsumexp(s, dim=0))
        row = torch.zeros_like(V[b, j, i])
        for k in range(n):
            row = row + w[k] * V[b, j, k]
        out.append(row)
    return torch.stack(out).view(B, h, n, d)


def loop_attention__right_einsum_rows(Q, K, V):
    """Loops with an einsum per query, in float64, cast back; warns that it is slow."""
    warnings.warn("three Python loops: slow", stacklevel=2)
    q64, k64, v64 = Q.double(), K.double(), V.double()

    def row(q, k, v):
        w = torch.einsum("d,kd->k", q, k).div(len(q) ** 0.5).softmax(0)
        return torch.einsum("k,kd->d", w, v)

    return _loops(q64, k64, v64, row).to(Q.dtype)


def loop_attention__right_queries_outermost(Q, K, V):
    """The query loop on the outside; a transposed stack, so the result is not contiguous."""
    B, h, n, _ = Q.shape
    columns = []
    for i in range(n):
        columns.append(
            torch.stack([torch.stack([_row(Q[b, j, i], K[b, j], V[b, j]) for j in range(h)]) for b in range(B)])
        )
    return torch.stack(columns).permute(1, 2, 0, 3)


def loop_attention__right_while_online(Q, K, V):
    """while loops; the softmax is kept up to date key by key (online)."""
    B, h, n, d = Q.shape
    out = torch.empty_like(V)
    b = 0
    while b < B:
        for j in range(h):
            for i in range(n):
                q = Q[b, j, i] / d**0.5
                top = q @ K[b, j, 0]
                total = torch.exp(top - top)
                mean = total * V[b, j, 0]
                k = 1
                while k < n:
                    s = q @ K[b, j, k]
                    new = torch.maximum(top, s)
                    old, fresh = torch.exp(top - new), torch.exp(s - new)
                    share = fresh / (total * old + fresh)
                    mean = mean + share * (V[b, j, k] - mean)
                    total, top, k = total * old + fresh, new, k + 1
                out[b, j, i] = mean
        b += 1
    return out


def loop_attention__right_heads_at_once(Q, K, V):
    """One loop over the queries, which serves all heads of all sequences at once."""
    rows = []
    for i in range(Q.shape[2]):
        s = torch.einsum("bhd,bhjd->bhj", Q[:, :, i] * Q.shape[-1] ** -0.5, K)
        rows.append(torch.einsum("bhj,bhjd->bhd", (s - s.logsumexp(-1, keepdim=True)).exp(), V))
    return torch.stack(rows, dim=2)


def loop_attention__wrong_no_scale(Q, K, V):
    """Forgets to divide by sqrt(d)."""
    return _loops(Q, K, V, lambda q, k, v: torch.softmax(k @ q, dim=0) @ v)


def loop_attention__wrong_scale_by_d(Q, K, V):
    """Divides by d instead of sqrt(d)."""
    return _loops(Q, K, V, lambda q, k, v: torch.softmax(k @ q / q.shape[0], dim=0) @ v)


def loop_attention__wrong_scale_sqrt_n(Q, K, V):
    """Divides by sqrt(n): the wrong axis of K."""
    return _loops(Q, K, V, lambda q, k, v: torch.softmax(k @ q / math.sqrt(k.shape[0]), dim=0) @ v)


def loop_attention__wrong_multiplied(Q, K, V):
    """Multiplies with sqrt(d)."""
    return _loops(Q, K, V, lambda q, k, v: torch.softmax(k @ q * math.sqrt(q.shape[0]), dim=0) @ v)


def loop_attention__wrong_scale_after_softmax(Q, K, V):
    """Divides the weights, not the scores, by sqrt(d)."""
    return _loops(Q, K, V, lambda q, k, v: torch.softmax(k @ q, dim=0) / math.sqrt(q.shape[0]) @ v)


def loop_attention__wrong_naive_exp(Q, K, V):
    """exp without taking the maximum off: inf / inf at large scores."""

    def row(q, k, v):
        e = torch.exp(k @ q / math.sqrt(q.shape[0]))
        return e / e.sum() @ v

    return _loops(Q, K, V, row)


def loop_attention__wrong_clamped_exp(Q, K, V):
    """Clamps the scores to ±50 against overflow: large scores become equal."""
    return _loops(Q, K, V, lambda q, k, v: torch.softmax((k @ q / math.sqrt(q.shape[0])).clamp(-50, 50), 0) @ v)


def loop_attention__wrong_no_softmax(Q, K, V):
    """The scores themselves as weights."""
    return _loops(Q, K, V, lambda q, k, v: k @ q / math.sqrt(q.shape[0]) @ v)


def loop_attention__wrong_argmax(Q, K, V):
    """Hard attention: the value of the best key."""
    return _loops(Q, K, V, lambda q, k, v: v[torch.argmax(k @ q)])


def loop_attention__wrong_weights_not_output(Q, K, V):
    """Returns the weights (B, h, n, n) without the values."""
    return _loops(Q, K, V, lambda q, k, v: torch.softmax(k @ q / math.sqrt(q.shape[0]), dim=0))


def loop_attention__wrong_causal(Q, K, V):
    """Sees only the keys up to the query: nobody asked for a causal mask."""
    B, h, n, _ = Q.shape
    out = torch.zeros_like(V)
    for b, j, i in itertools.product(range(B), range(h), range(n)):
        out[b, j, i] = _row(Q[b, j, i], K[b, j, : i + 1], V[b, j, : i + 1])
    return out


def loop_attention__wrong_last_query_lost(Q, K, V):
    """Off by one: the last query's row stays zero."""
    B, h, n, _ = Q.shape
    out = torch.zeros_like(V)
    for b, j, i in itertools.product(range(B), range(h), range(n - 1)):
        out[b, j, i] = _row(Q[b, j, i], K[b, j], V[b, j])
    return out


def loop_attention__wrong_last_key_lost(Q, K, V):
    """Off by one in the inner loop: never looks at the last key (for n > 1)."""
    m = max(1, K.shape[2] - 1)
    return _loops(Q, K[:, :, :m], V[:, :, :m], _row)


def loop_attention__wrong_first_sequence_only(Q, K, V):
    """No loop over the batch: every sequence reads the keys and values of the first."""
    return _loops(Q, K[:1].expand_as(K), V[:1].expand_as(V), _row)


def loop_attention__wrong_first_head_keys(Q, K, V):
    """All heads read the keys and values of head 0."""
    return _loops(Q, K[:, :1].expand_as(K), V[:, :1].expand_as(V), _row)


def loop_attention__wrong_query_key_swapped(Q, K, V):
    """Loops over the keys and looks at the queries: the scores are transposed."""
    return _loops(K, Q, V, _row)


def loop_attention__wrong_keys_as_values(Q, K, V):
    """Mixes the keys instead of the values."""
    return _loops(Q, K, K, _row)


def loop_attention__wrong_softmax_over_queries(Q, K, V):
    """Each column (over the queries) adds up to one."""
    B, h, n, d = Q.shape
    out = torch.zeros_like(V)
    for b, j in itertools.product(range(B), range(h)):
        A = torch.softmax(Q[b, j] @ K[b, j].T / math.sqrt(d), dim=0)
        for i in range(n):
            out[b, j, i] = A[i] @ V[b, j]
    return out


def loop_attention__wrong_overwritten(Q, K, V):
    """The result of each head overwrites the one before: all heads show the last."""
    B, h, n, _ = Q.shape
    out = torch.zeros_like(V)
    for b, j, i in itertools.product(range(B), range(h), range(n)):
        out[b, :, i] = _row(Q[b, j, i], K[b, j], V[b, j])
    return out


def loop_attention__wrong_added_heads(Q, K, V):
    """Adds the heads up: (B, n, d)."""
    return _loops(Q, K, V, _row).sum(dim=1)


def loop_attention__wrong_flat_list(Q, K, V):
    """One flat stack of rows, (B*h*n, d): the axes are lost."""
    B, h, n, _ = Q.shape
    return torch.stack(
        [_row(Q[b, j, i], K[b, j], V[b, j]) for b in range(B) for j in range(h) for i in range(n)],
    )


def loop_attention__wrong_reshape_mixed(Q, K, V):
    """Collects head by head in the order (h, B, n), then reshapes to (B, h, n, d)."""
    B, h, n, _ = Q.shape
    rows = [_row(Q[b, j, i], K[b, j], V[b, j]) for j in range(h) for b in range(B) for i in range(n)]
    return torch.stack(rows).reshape(V.shape)


def loop_attention__wrong_axes_read_as_bnhd(Q, K, V):
    """Reads the inputs as (B, n, h, d): attends over the heads."""
    return _loops(Q.transpose(1, 2), K.transpose(1, 2), V.transpose(1, 2), _row).transpose(1, 2)


def loop_attention__wrong_float32_buffer(Q, K, V):
    """The buffer has the default dtype: float64 comes back as float32."""
    out = torch.zeros(V.shape)
    for b, j, i in itertools.product(*map(range, Q.shape[:3])):
        out[b, j, i] = _row(Q[b, j, i], K[b, j], V[b, j])
    return out


def loop_attention__wrong_float64(Q, K, V):
    """Computes in float64 and stays there."""
    return _loops(Q.double(), K.double(), V.double(), _row)


def loop_attention__wrong_items(Q, K, V):
    """Scores as Python numbers through .item(): no gradient reaches the queries and keys."""

    def row(q, k, v):
        s = [torch.dot(q, x).item() / math.sqrt(q.shape[0]) for x in k]
        e = [math.exp(x - max(s)) for x in s]
        return sum(x / sum(e) * y for x, y in zip(e, v, strict=True))

    return _loops(Q, K, V, row)


def loop_attention__wrong_numpy(Q, K, V):
    """Returns a NumPy array."""
    return _loops(Q.detach(), K.detach(), V.detach(), _row).numpy()


def loop_attention__wrong_no_grad(Q, K, V):
    """Everything under no_grad: "it is only a benchmark"."""
    with torch.no_grad():
        return _loops(Q, K, V, _row)


def loop_attention__wrong_in_place_scale(Q, K, V):
    """Scales the queries in place, in the caller's tensor."""
    with torch.no_grad():
        Q.div_(math.sqrt(Q.shape[-1]))
    return _loops(Q, K, V, lambda q, k, v: torch.softmax(k @ q, dim=0) @ v)


def loop_attention__wrong_writes_into_v(Q, K, V):
    """No buffer of its own: writes the rows into V, which the next queries then read."""
    for b, j, i in itertools.product(*map(range, Q.shape[:3])):
        V.data[b, j, i] = _row(Q[b, j, i], K[b, j], V[b, j]).data
    return V


def loop_attention__wrong_nested_lists(Q, K, V):
    """Nested lists of tensors instead of a tensor."""
    return [[[_row(q, K[b, j], V[b, j]) for q in Q[b, j]] for j in range(Q.shape[1])] for b in range(Q.shape[0])]


def loop_attention__wrong_return_in_the_loop(Q, K, V):
    """`return` indented too far: comes back after the first head."""
    out = torch.zeros_like(V)
    for b in range(Q.shape[0]):
        for j in range(Q.shape[1]):
            for i in range(Q.shape[2]):
                out[b, j, i] = _row(Q[b, j, i], K[b, j], V[b, j])
            return out


def loop_attention__wrong_square_only(Q, K, V):
    """Runs the query loop over d instead of n: right only where n = d."""
    B, h, _, d = Q.shape
    out = torch.zeros_like(V)
    for b, j, i in itertools.product(range(B), range(h), range(d)):
        out[b, j, i] = _row(Q[b, j, i], K[b, j], V[b, j])
    return out


def loop_attention__wrong_squeeze(Q, K, V):
    """squeeze() in the end drops every axis of length 1."""
    return _loops(Q, K, V, _row).squeeze()


def loop_attention__wrong_library_call(Q, K, V):
    """Three loops around scaled_dot_product_attention, which does the exercise."""
    attend = torch.nn.functional.scaled_dot_product_attention
    return _loops(Q, K, V, lambda q, k, v: attend(q[None], k, v)[0])


# ---------------------------------------------------------------------------------------------------- batched_attention


def batched_attention__right_tril_masked_fill(Q, K, V, causal=False):
    """The plain one."""
    S = Q @ K.transpose(-2, -1) / math.sqrt(Q.shape[-1])
    if causal:
        n = S.shape[-1]
        keep = torch.tril(torch.ones(n, n, dtype=torch.bool, device=S.device))
        S = S.masked_fill(~keep, float("-inf"))
    return torch.softmax(S, dim=-1) @ V


def batched_attention__right_einsum_where(Q, K, V, causal=False):
    """Einsum, positions compared, torch.where."""
    S = torch.einsum("bhid,bhjd->bhij", Q / Q.shape[-1] ** 0.5, K)
    if causal:
        t = torch.arange(Q.shape[2], device=Q.device)
        S = torch.where(t[:, None] >= t, S, -torch.inf)
    return torch.einsum("bhij,bhjd->bhid", S.softmax(-1), V)


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


def batched_attention__right_float64_by_hand(Q, K, V, causal=False):
    """exp and sum by hand in float64, masked weights multiplied by zero, cast back; prints."""
    S = Q.double() @ K.double().mT / math.sqrt(Q.shape[-1])
    keep = torch.ones(S.shape[-2:], dtype=torch.bool, device=S.device)
    if causal:
        keep = keep.tril()
    S = S.masked_fill(~keep, -torch.inf)
    E = torch.exp(S - S.max(dim=-1, keepdim=True).values) * keep
    print("weights", tuple(E.shape))
    return ((E @ V.double()) / E.sum(dim=-1, keepdim=True)).to(V.dtype)


def batched_attention__right_transposed_scores(Q, K, V, causal=False):
    """Everything transposed: keys in rows, softmax over axis -2, result not contiguous."""
    S = K @ Q.mT * Q.shape[-1] ** -0.5
    if causal:
        t = torch.arange(S.shape[-1], device=S.device)
        S = S.masked_fill(t.unsqueeze(1) > t.unsqueeze(0), float("-inf"))
    return (V.mT @ S.softmax(dim=-2)).mT


def batched_attention__right_finfo_min(Q, K, V, causal=False):
    """Fills with the dtype's smallest number, by index, in a clone; warns."""
    S = (Q @ K.mT / math.sqrt(Q.shape[-1])).clone()
    if causal:
        warnings.warn("causal", stacklevel=2)
        i, j = torch.triu_indices(S.shape[-2], S.shape[-1], offset=1, device=S.device)
        S[..., i, j] = torch.finfo(S.dtype).min
    return torch.nn.functional.softmax(S, dim=3).matmul(V)


def _masked(S, causal):
    """Causal mask on the scores where asked for: right."""
    keep = torch.ones(S.shape[-2:], dtype=torch.bool, device=S.device).tril()
    return S.masked_fill(~keep, -math.inf) if causal else S


def _scores(Q, K):
    """Scaled scores: right."""
    return Q @ K.mT / math.sqrt(Q.shape[-1])


def batched_attention__wrong_no_scale(Q, K, V, causal=False):
    """Forgets to divide by sqrt(d)."""
    return _masked(Q @ K.mT, causal).softmax(-1) @ V


def batched_attention__wrong_scale_d(Q, K, V, causal=False):
    """Divides by d."""
    return _masked(Q @ K.mT / Q.shape[-1], causal).softmax(-1) @ V


def batched_attention__wrong_scale_n(Q, K, V, causal=False):
    """Divides by sqrt(n): takes axis 2 for d."""
    return _masked(Q @ K.mT / math.sqrt(Q.shape[2]), causal).softmax(-1) @ V


def batched_attention__wrong_scale_d_model(Q, K, V, causal=False):
    """Divides by sqrt(h*d), the width of the model."""
    return _masked(Q @ K.mT / math.sqrt(Q.shape[1] * Q.shape[3]), causal).softmax(-1) @ V


def batched_attention__wrong_scaled_twice(Q, K, V, causal=False):
    """Queries and keys are both divided by sqrt(d)."""
    s = math.sqrt(Q.shape[-1])
    return _masked((Q / s) @ (K / s).mT, causal).softmax(-1) @ V


def batched_attention__wrong_naive_exp(Q, K, V, causal=False):
    """exp without the maximum: overflows."""
    E = torch.exp(_masked(_scores(Q, K), causal))
    return E / E.sum(-1, keepdim=True) @ V


def batched_attention__wrong_epsilon(Q, K, V, causal=False):
    """One maximum for the whole tensor and 1e-9 in the denominator: rows far below it vanish."""
    S = _masked(_scores(Q, K), causal)
    E = torch.exp(S - S.max())
    return E / (E.sum(-1, keepdim=True) + 1e-9) @ V


def batched_attention__wrong_axis_queries(Q, K, V, causal=False):
    """Softmax over the queries; masked weights set to zero."""
    A = torch.softmax(_scores(Q, K), dim=-2)
    return (A.tril() if causal else A) @ V


def batched_attention__wrong_axis_heads(Q, K, V, causal=False):
    """Softmax over the heads (dim=1); masked weights set to zero."""
    A = torch.softmax(_scores(Q, K), dim=1)
    return (A.tril() if causal else A) @ V


def batched_attention__wrong_transposed_scores(Q, K, V, causal=False):
    """K @ Qᵀ, softmax over the last axis: queries and keys swapped."""
    return _masked(_scores(K, Q), causal).softmax(-1) @ V


def batched_attention__wrong_reshape_for_transpose(Q, K, V, causal=False):
    """Reshapes K to (B, h, d, n) instead of transposing."""
    B, h, n, d = K.shape
    return _masked(Q @ K.reshape(B, h, d, n) / math.sqrt(d), causal).softmax(-1) @ V


def batched_attention__wrong_mask_upside_down(Q, K, V, causal=False):
    """triu: each query sees itself and the future."""
    S = _scores(Q, K)
    if causal:
        S = S.masked_fill(torch.ones_like(S, dtype=torch.bool).tril(-1), -math.inf)
    return S.softmax(-1) @ V


def batched_attention__wrong_mask_true_hides(Q, K, V, causal=False):
    """Takes the mask "may attend" for "hide": hides the allowed keys, then cleans the NaN."""
    S = _scores(Q, K)
    if causal:
        S = S.masked_fill(torch.ones_like(S, dtype=torch.bool).tril(), -math.inf)
    return S.softmax(-1).nan_to_num() @ V


def batched_attention__wrong_mask_strict(Q, K, V, causal=False):
    """The diagonal is hidden as well: no query sees itself, the first gives 0."""
    S = _scores(Q, K)
    if causal:
        S = S.masked_fill(torch.ones_like(S, dtype=torch.bool).triu(0), -math.inf)
    return S.softmax(-1).nan_to_num() @ V


def batched_attention__wrong_mask_one_too_many(Q, K, V, causal=False):
    """triu(2): each query sees the next token, too."""
    S = _scores(Q, K)
    if causal:
        S = S.masked_fill(torch.ones_like(S, dtype=torch.bool).triu(2), -math.inf)
    return S.softmax(-1) @ V


def batched_attention__wrong_mask_zero_scores(Q, K, V, causal=False):
    """Masked scores become 0 (tril of the scores) before the softmax."""
    S = _scores(Q, K)
    return (S.tril() if causal else S).softmax(-1) @ V


def batched_attention__wrong_mask_after_softmax(Q, K, V, causal=False):
    """Masks the weights after the softmax and does not normalise again."""
    A = _scores(Q, K).softmax(-1)
    return (A.tril() if causal else A) @ V


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


def batched_attention__wrong_causal_ignored(Q, K, V, causal=False):
    """Ignores `causal`."""
    return _attend(Q, K, V)


def batched_attention__wrong_causal_by_default(Q, K, V, causal=True):
    """The default is True."""
    return _masked(_scores(Q, K), causal).softmax(-1) @ V


def batched_attention__wrong_causal_inverted(Q, K, V, causal=False):
    """`if not causal`: masks exactly when nobody asked."""
    return _masked(_scores(Q, K), not causal).softmax(-1) @ V


def batched_attention__wrong_causal_cumsum(Q, K, V, causal=False):
    """Causal means prefix sums of the values: the scores stay unmasked."""
    A = _scores(Q, K).softmax(-1)
    return A @ (V.cumsum(dim=2) if causal else V)


def batched_attention__wrong_mask_in_numpy(Q, K, V, causal=False):
    """The scores go through NumPy: no gradient to the queries and keys."""
    S = _scores(Q, K).detach().numpy().copy()
    if causal:
        S[..., ~np.tri(S.shape[-1], dtype=bool)] = -np.inf
    return torch.from_numpy(S).softmax(-1) @ V


def batched_attention__wrong_float32(Q, K, V, causal=False):
    """Always float32."""
    return _masked(_scores(Q.float(), K.float()), causal).softmax(-1) @ V.float()


def batched_attention__wrong_float64_mask(Q, K, V, causal=False):
    """A float64 mask is added: float32 becomes float64."""
    n = Q.shape[2]
    mask = torch.zeros(n, n, dtype=torch.float64)
    if causal:
        mask = mask.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -math.inf)
    return (_scores(Q, K) + mask).softmax(-1) @ V.double()


def batched_attention__wrong_in_place_scale(Q, K, V, causal=False):
    """Scales the caller's queries in place."""
    Q.data.mul_(Q.shape[-1] ** -0.5)
    return _masked(Q @ K.mT, causal).softmax(-1) @ V


def batched_attention__wrong_tuple(Q, K, V, causal=False):
    """Returns the output and the weights."""
    A = _masked(_scores(Q, K), causal).softmax(-1)
    return A @ V, A


def batched_attention__wrong_weights(Q, K, V, causal=False):
    """Returns the weights alone."""
    return _masked(_scores(Q, K), causal).softmax(-1)


def batched_attention__wrong_merged_heads(Q, K, V, causal=False):
    """Puts the heads next to each other: (B, n, h*d)."""
    return (_masked(_scores(Q, K), causal).softmax(-1) @ V).transpose(1, 2).flatten(2)


def batched_attention__wrong_reads_bnhd(Q, K, V, causal=False):
    """Takes the inputs for (B, n, h, d) and attends over the heads."""
    q, k, v = (T.transpose(1, 2) for T in (Q, K, V))
    return (_masked(_scores(q, k), causal).softmax(-1) @ v).transpose(1, 2)


def batched_attention__wrong_heads_joined(Q, K, V, causal=False):
    """Heads and tokens in one long axis: the heads see each other."""
    B, h, n, d = Q.shape
    q, k, v = (T.reshape(B, 1, h * n, d) for T in (Q, K, V))
    return (_masked(_scores(q, k), causal).softmax(-1) @ v).reshape(B, h, n, d)


def batched_attention__wrong_batch_one(Q, K, V, causal=False):
    """Keys of the first sequence for all."""
    return _masked(_scores(Q, K[:1]), causal).softmax(-1) @ V


def batched_attention__wrong_residual(Q, K, V, causal=False):
    """Adds the queries to the output, as a block does."""
    return Q + _masked(_scores(Q, K), causal).softmax(-1) @ V


_mask_cache = {}


def batched_attention__wrong_mask_cached(Q, K, V, causal=False):
    """Keeps the first mask it made: fails for another length in a later call."""
    if causal and "mask" not in _mask_cache:
        _mask_cache["mask"] = torch.ones(Q.shape[2], Q.shape[2], dtype=torch.bool).triu(1)
    S = _scores(Q, K)
    return (S.masked_fill(_mask_cache["mask"], -math.inf) if causal else S).softmax(-1) @ V


def batched_attention__wrong_library_call(Q, K, V, causal=False):
    """scaled_dot_product_attention does the exercise."""
    return torch.nn.functional.scaled_dot_product_attention(Q, K, V, is_causal=causal)


# ------------------------------------------------------------------------------------------------------ tiled_attention


def tiled_attention__right_plain(Q, K, V, block_size):
    """Running maximum from -inf, sum and output, corrected at every block."""
    B, h, n, d = Q.shape
    top = Q.new_full((B, h, n, 1), -math.inf)
    total = Q.new_zeros(B, h, n, 1)
    out = torch.zeros_like(V)
    for start in range(0, n, block_size):
        S = Q @ K[:, :, start : start + block_size].mT / math.sqrt(d)
        new = torch.maximum(top, S.amax(dim=-1, keepdim=True))
        P = torch.exp(S - new)
        shrink = torch.exp(top - new)
        total = total * shrink + P.sum(dim=-1, keepdim=True)
        out = out * shrink + P @ V[:, :, start : start + block_size]
        top = new
    return out / total


def tiled_attention__right_first_block_apart(Q, K, V, block_size):
    """split() cuts the blocks, the first one starts the running values."""
    return _online(Q, K, V, block_size)


def tiled_attention__right_logsumexp_merge(Q, K, V, block_size):
    """Ordinary attention in every block; the outputs are merged by their log sums (sigmoid of the difference)."""
    out, lse = None, None
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2), strict=True):
        S = torch.einsum("bhid,bhjd->bhij", Q, k) / Q.shape[-1] ** 0.5
        z = torch.logsumexp(S, dim=-1, keepdim=True)
        o = torch.softmax(S, dim=-1) @ v
        if out is None:
            out, lse = o, z
        else:
            out = out + torch.sigmoid(z - lse) * (o - out)
            lse = torch.logaddexp(lse, z)
    return out


def tiled_attention__right_two_level_tiles(Q, K, V, block_size):
    """Keys outside, query tiles inside, as in the first FlashAttention; tiles of block_size x block_size."""
    q_tiles = (Q * Q.shape[-1] ** -0.5).split(block_size, dim=2)
    state = [None] * len(q_tiles)
    for k, v in zip(K.split(block_size, dim=2), V.split(block_size, dim=2), strict=True):
        for t, q in enumerate(q_tiles):
            S = q @ k.mT
            high = S.amax(-1, keepdim=True)
            if state[t] is None:
                P = (S - high).exp()
                state[t] = high, P.sum(-1, keepdim=True), P @ v
                continue
            top, total, out = state[t]
            new = torch.max(top, high)
            P, shrink = (S - new).exp(), (top - new).exp()
            state[t] = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ v
    return torch.cat([out / total for _, total, out in state], dim=2)


def tiled_attention__right_per_head_loops(Q, K, V, block_size):
    """Loops over batch and heads around the blocks; prints the number of blocks."""
    B, h, n, d = Q.shape
    print(-(-n // block_size), "blocks")
    rows = []
    for b, j in itertools.product(range(B), range(h)):
        top, total, out = torch.full_like(Q[b, j, :, 0], -math.inf), 0, 0
        lo = 0
        while lo < n:
            hi = min(lo + block_size, n)
            S = Q[b, j] / math.sqrt(d) @ K[b, j, lo:hi].T
            new = torch.maximum(top, S.max(dim=1).values)
            P, shrink = torch.exp(S - new[:, None]), torch.exp(top - new)
            total, out, top, lo = shrink * total + P.sum(1), shrink[:, None] * out + P @ V[b, j, lo:hi], new, hi
        rows.append(out / total[:, None])
    return torch.stack(rows).unflatten(0, (B, h))


def tiled_attention__right_running_mean(Q, K, V, block_size):
    """Keeps the normalised output: moves it towards the block's mean by the block's share; float64 inside."""
    q, n = Q.double() / math.sqrt(Q.shape[3]), Q.shape[2]
    out, log_total = None, None
    for start in range(0, n, min(block_size, n)):
        block = slice(start, start + block_size)
        S = q @ K[:, :, block].double().mT
        log_block = S.logsumexp(-1, keepdim=True)
        log_total = log_block if log_total is None else torch.logaddexp(log_total, log_block)
        part = torch.exp(S - log_total) @ V[:, :, block].double()
        out = part if out is None else out * (1 - torch.exp(log_block - log_total)) + part
    return out.to(V.dtype)


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


class _Flash(torch.autograd.Function):
    """Forward block by block; backward computes the weights again from the log sums. Right."""

    @staticmethod
    def forward(ctx, Q, K, V, block_size):
        scale = 1 / math.sqrt(Q.shape[-1])
        top, total, out = None, None, None
        for k, v in zip(K.split(block_size, 2), V.split(block_size, 2), strict=True):
            S = Q @ k.mT * scale
            new = S.amax(-1, keepdim=True) if top is None else torch.maximum(top, S.amax(-1, keepdim=True))
            P = torch.exp(S - new)
            if top is None:
                total, out = P.sum(-1, keepdim=True), P @ v
            else:
                shrink = torch.exp(top - new)
                total, out = total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ v
            top = new
        out = out / total
        ctx.save_for_backward(Q, K, V, out, top, total)
        ctx.block_size, ctx.scale = block_size, scale
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        Q, K, V, out, top, total = ctx.saved_tensors
        mean = (grad * out).sum(-1, keepdim=True)
        grad_q, grad_k, grad_v = torch.zeros_like(Q), [], []
        for k, v in zip(K.split(ctx.block_size, 2), V.split(ctx.block_size, 2), strict=True):
            P = torch.exp(Q @ k.mT * ctx.scale - top) / total
            grad_v.append(P.mT @ grad)
            dS = P * (grad @ v.mT - mean) * ctx.scale
            grad_k.append(dS.mT @ Q)
            grad_q = grad_q + dS @ k
        return grad_q, torch.cat(grad_k, 2), torch.cat(grad_v, 2), None


def tiled_attention__right_own_backward(Q, K, V, block_size):
    """An autograd.Function with its own backward, which recomputes the weights block by block."""
    return _Flash.apply(Q, K, V, block_size)


def _tiles(Q, K, V, block_size):
    """(scores, values) of one block of keys after the other: right."""
    for start in range(0, K.shape[2], block_size):
        yield Q @ K[:, :, start : start + block_size].mT / math.sqrt(Q.shape[-1]), V[:, :, start : start + block_size]


def _start(Q, V):
    """Running maximum, sum and output before the first block: right."""
    return Q.new_full((*Q.shape[:3], 1), -math.inf), Q.new_zeros(*Q.shape[:3], 1), torch.zeros_like(V)


def tiled_attention__right_tree_of_blocks(Q, K, V, block_size):
    """Halves the blocks by recursion and merges two states at a time: no block comes last."""

    def state(first, last):
        if last - first <= block_size:
            S = Q @ K[:, :, first:last].mT / Q.shape[-1] ** 0.5
            top = S.amax(-1, keepdim=True)
            P = (S - top).exp()
            return top, P.sum(-1, keepdim=True), P @ V[:, :, first:last]
        middle = first + -(-(last - first) // block_size) // 2 * block_size
        left, right = state(first, middle), state(middle, last)
        top = torch.maximum(left[0], right[0])
        total, out = (sum(side[part] * (side[0] - top).exp() for side in (left, right)) for part in (1, 2))
        return top, total, out

    _, total, out = state(0, K.shape[2])
    return out / total


def tiled_attention__right_column_of_ones(Q, K, V, block_size):
    """A column of ones beside the values: o and l are one tensor, mended by one factor."""
    both = torch.cat([V, torch.ones_like(V[..., :1])], dim=-1)
    top, mixed = torch.full_like(Q[..., :1], -math.inf), torch.zeros_like(both)
    for k, v in zip(K.split(block_size, dim=2), both.split(block_size, dim=2), strict=True):
        S = Q @ k.mT / Q.shape[-1] ** 0.5
        new = torch.maximum(top, S.max(dim=-1, keepdim=True).values)
        mixed, top = mixed * (top - new).exp() + (S - new).exp() @ v, new
    return mixed[..., :-1] / mixed[..., -1:]


def tiled_attention__wrong_not_tiled(Q, K, V, block_size):
    """Ignores block_size: the whole score matrix."""
    return _attend(Q, K, V)


def tiled_attention__wrong_scores_first(Q, K, V, block_size):
    """Makes the whole score matrix, then goes through it in blocks of columns."""
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    top, total, out = _start(Q, V)
    for s, v in zip(S.split(block_size, -1), V.split(block_size, 2), strict=True):
        new = torch.maximum(top, s.amax(-1, keepdim=True))
        P, shrink = torch.exp(s - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ v
    return out / total


def tiled_attention__wrong_fills_matrix(Q, K, V, block_size):
    """Computes the scores in blocks, but writes them into an (n, n) buffer for one softmax."""
    n = Q.shape[2]
    S = Q.new_zeros(*Q.shape[:2], n, n)
    for start in range(0, n, block_size):
        S[..., start : start + block_size] = Q @ K[:, :, start : start + block_size].mT / math.sqrt(Q.shape[-1])
    return S.softmax(-1) @ V


def tiled_attention__wrong_cat_tiles(Q, K, V, block_size):
    """Collects the tiles and concatenates them before the softmax."""
    return torch.cat([S for S, _ in _tiles(Q, K, V, block_size)], dim=-1).softmax(-1) @ V


def tiled_attention__wrong_weights_kept(Q, K, V, block_size):
    """Online sum, but the weights of all blocks are put together in the end."""
    lse = None
    for S, _ in _tiles(Q, K, V, block_size):
        z = S.logsumexp(-1, keepdim=True)
        lse = z if lse is None else torch.logaddexp(lse, z)
    return torch.cat([torch.exp(S - lse) for S, _ in _tiles(Q, K, V, block_size)], dim=-1) @ V


def tiled_attention__wrong_full_size_mask(Q, K, V, block_size):
    """Zeroes the other keys with masks (n, n) per block instead of cutting."""
    top, total, out = _start(Q, V)
    at = torch.arange(K.shape[2]) // block_size
    for i in range(int(at.max()) + 1):
        S = (Q @ K.mT / math.sqrt(Q.shape[-1])).masked_fill(at != i, -math.inf)
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ V
    return out / total


def tiled_attention__wrong_broadcast_product(Q, K, V, block_size):
    """Dot products as a broadcast product (n, block, d): n*n entries and more once block_size * d >= n."""
    top, total, out = _start(Q, V)
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2), strict=True):
        S = (Q.unsqueeze(3) * k.unsqueeze(2)).sum(-1) / math.sqrt(Q.shape[-1])
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ v
    return out / total


def tiled_attention__wrong_no_correction(Q, K, V, block_size):
    """Running maximum, but the old sum and output are never corrected."""
    top, total, out = _start(Q, V)
    for S, v in _tiles(Q, K, V, block_size):
        top = torch.maximum(top, S.amax(-1, keepdim=True))
        P = torch.exp(S - top)
        total, out = total + P.sum(-1, keepdim=True), out + P @ v
    return out / total


def tiled_attention__wrong_output_not_corrected(Q, K, V, block_size):
    """Corrects the sum, forgets the output."""
    top, total, out = _start(Q, V)
    for S, v in _tiles(Q, K, V, block_size):
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P = torch.exp(S - new)
        total = total * torch.exp(top - new) + P.sum(-1, keepdim=True)
        out, top = out + P @ v, new
    return out / total


def tiled_attention__wrong_sum_not_corrected(Q, K, V, block_size):
    """Corrects the output, forgets the sum."""
    top, total, out = _start(Q, V)
    for S, v in _tiles(Q, K, V, block_size):
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P = torch.exp(S - new)
        out = out * torch.exp(top - new) + P @ v
        total, top = total + P.sum(-1, keepdim=True), new
    return out / total


def tiled_attention__wrong_correction_inverted(Q, K, V, block_size):
    """exp(new - old) instead of exp(old - new)."""
    top = total = out = None
    for S, v in _tiles(Q, K, V, block_size):
        high = S.amax(-1, keepdim=True)
        new = high if top is None else torch.maximum(top, high)
        P = torch.exp(S - new)
        a, b = P.sum(-1, keepdim=True), P @ v
        if top is None:
            total, out = a, b
        else:
            grow = torch.exp(new - top)
            total, out = total * grow + a, out * grow + b
        top = new
    return out / total


def tiled_attention__wrong_correction_too_late(Q, K, V, block_size):
    """Overwrites the old maximum before the correction is computed: it is always exp(0) = 1."""
    _, total, out = _start(Q, V)
    top = Q.new_full((*Q.shape[:3], 1), -math.inf)
    for S, v in _tiles(Q, K, V, block_size):
        top = torch.maximum(top, S.amax(-1, keepdim=True))
        new = top
        shrink = torch.exp(top - new)
        P = torch.exp(S - new)
        total, out = total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ v
    return out / total


def tiled_attention__wrong_block_maximum(Q, K, V, block_size):
    """Takes each block's own maximum off, not the running one."""
    _, total, out = _start(Q, V)
    for S, v in _tiles(Q, K, V, block_size):
        P = torch.exp(S - S.amax(-1, keepdim=True))
        total, out = total + P.sum(-1, keepdim=True), out + P @ v
    return out / total


def tiled_attention__wrong_last_block_maximum(Q, K, V, block_size):
    """The new maximum is the block's, even where the old one is larger: the correction can overflow."""
    top, total, out = _start(Q, V)
    for S, v in _tiles(Q, K, V, block_size):
        new = S.amax(-1, keepdim=True)
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ v
    return out / total


def tiled_attention__wrong_first_block_maximum(Q, K, V, block_size):
    """Takes off the maximum of the first block for good: later blocks overflow."""
    top, (_, total, out) = None, _start(Q, V)
    for S, v in _tiles(Q, K, V, block_size):
        top = S.amax(-1, keepdim=True) if top is None else top
        P = torch.exp(S - top)
        total, out = total + P.sum(-1, keepdim=True), out + P @ v
    return out / total


def tiled_attention__wrong_no_maximum(Q, K, V, block_size):
    """No maximum at all: exp overflows."""
    _, total, out = _start(Q, V)
    for S, v in _tiles(Q, K, V, block_size):
        P = torch.exp(S)
        total, out = total + P.sum(-1, keepdim=True), out + P @ v
    return out / total


def tiled_attention__wrong_maximum_from_zero(Q, K, V, block_size):
    """The running maximum starts at 0: very negative scores all vanish, 0 / 0."""
    _, total, out = _start(Q, V)
    top = torch.zeros_like(total)
    for S, v in _tiles(Q, K, V, block_size):
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ v
    return out / total


def tiled_attention__wrong_one_maximum_for_all(Q, K, V, block_size):
    """One maximum for all queries together: rows far below it become 0 / 0."""
    top, total, out = Q.new_full((), -math.inf), *_start(Q, V)[1:]
    for S, v in _tiles(Q, K, V, block_size):
        new = torch.maximum(top, S.max())
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ v
    return out / total


def tiled_attention__wrong_maximum_from_minus_thousand(Q, K, V, block_size):
    """The running maximum starts at -1000, not at -inf."""
    top, total, out = _start(Q, V)
    top = torch.full_like(top, -1000.0)
    for S, v in _tiles(Q, K, V, block_size):
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ v
    return out / total


def tiled_attention__wrong_mean_of_blocks(Q, K, V, block_size):
    """Attention within each block of keys, then the plain mean of the results."""
    parts = [S.softmax(-1) @ v for S, v in _tiles(Q, K, V, block_size)]
    return sum(parts) / len(parts)


def tiled_attention__wrong_sum_of_blocks(Q, K, V, block_size):
    """Adds up the softmaxes of the blocks: the weights add up to the number of blocks."""
    return sum(S.softmax(-1) @ v for S, v in _tiles(Q, K, V, block_size))


def tiled_attention__wrong_local_attention(Q, K, V, block_size):
    """Blocks of queries see the keys of their own block only."""
    parts = zip(Q.split(block_size, 2), K.split(block_size, 2), V.split(block_size, 2), strict=True)
    return torch.cat([_attend(q, k, v) for q, k, v in parts], dim=2)


def tiled_attention__wrong_blocks_so_far(Q, K, V, block_size):
    """Block-causal: each block of queries sees the blocks of keys up to its own."""
    out = []
    for start in range(0, Q.shape[2], block_size):
        end = start + block_size
        out.append(_online(Q[:, :, start:end], K[:, :, :end], V[:, :, :end], block_size))
    return torch.cat(out, dim=2)


def tiled_attention__wrong_not_divided(Q, K, V, block_size):
    """Forgets to divide by the sum in the end."""
    top, _, out = _start(Q, V)
    for S, v in _tiles(Q, K, V, block_size):
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        out, top = out * torch.exp(top - new) + torch.exp(S - new) @ v, new
    return out


def tiled_attention__wrong_divided_in_the_loop(Q, K, V, block_size):
    """Divides the output by the running sum after every block."""
    top, total, out = _start(Q, V)
    for S, v in _tiles(Q, K, V, block_size):
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        total = total * shrink + P.sum(-1, keepdim=True)
        out, top = (out * shrink + P @ v) / total, new
    return out


def tiled_attention__wrong_sum_from_one(Q, K, V, block_size):
    """The running sum starts at 1 together with a maximum of the first block."""
    top = (Q @ K[:, :, :1].mT) / math.sqrt(Q.shape[-1])
    total, out = torch.ones_like(top), torch.zeros_like(V)
    for S, v in _tiles(Q, K, V, block_size):
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ v
    return out / total


def tiled_attention__wrong_rest_dropped(Q, K, V, block_size):
    """Whole blocks only: the keys left over are dropped (one block at least)."""
    m = max(K.shape[2] // block_size * block_size, min(block_size, K.shape[2]))
    return _online(Q, K[:, :, :m], V[:, :, :m], block_size)


def tiled_attention__wrong_must_divide(Q, K, V, block_size):
    """Raises where block_size does not divide n."""
    if Q.shape[2] % block_size:
        raise ValueError("block_size must divide n")
    return _online(Q, K, V, block_size)


def tiled_attention__wrong_larger_block_fails(Q, K, V, block_size):
    """A block_size above n leaves the loop without a round: 0 / 0."""
    top, total, out = _start(Q, V)
    n = K.shape[2]
    stops = [*range(block_size, n, block_size), n] if block_size <= n else []
    lo = 0
    for hi in stops:
        S = Q @ K[:, :, lo:hi].mT / math.sqrt(Q.shape[-1])
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out, lo = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ V[:, :, lo:hi], hi
    return out / total


def tiled_attention__wrong_one_block_too_many(Q, K, V, block_size):
    """n // block_size + 1 rounds: the last block is empty where block_size divides n, and amax raises."""
    top, total, out = _start(Q, V)
    for i in range(K.shape[2] // block_size + 1):
        part = slice(i * block_size, (i + 1) * block_size)
        S = Q @ K[:, :, part].mT / math.sqrt(Q.shape[-1])
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ V[:, :, part]
    return out / total


def tiled_attention__wrong_overlap(Q, K, V, block_size):
    """Slices up to and including start + block_size: the keys on the borders count twice."""
    top, total, out = _start(Q, V)
    for start in range(0, K.shape[2], block_size):
        part = slice(start, start + block_size + 1)
        S = Q @ K[:, :, part].mT / math.sqrt(Q.shape[-1])
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ V[:, :, part]
    return out / total


def tiled_attention__wrong_hard_coded_block(Q, K, V, block_size):
    """A fixed block of 128 keys, whatever block_size says: the whole matrix for n <= 128."""
    return _online(Q, K, V, 128)


def tiled_attention__wrong_scale_block(Q, K, V, block_size):
    """Divides by sqrt(block_size) instead of sqrt(d)."""
    return _online(Q * math.sqrt(Q.shape[-1] / block_size), K, V, block_size)


def tiled_attention__wrong_no_scale(Q, K, V, block_size):
    """Does not scale the scores."""
    return _online(Q * math.sqrt(Q.shape[-1]), K, V, block_size)


def tiled_attention__wrong_scaled_in_every_block(Q, K, V, block_size):
    """Q = Q / sqrt(d) stands inside the loop: later blocks are scaled again and again."""
    top, total, out = _start(Q, V)
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2), strict=True):
        Q = Q / math.sqrt(Q.shape[-1])
        S = Q @ k.mT
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ v
    return out / total


def tiled_attention__wrong_values_of_first_block(Q, K, V, block_size):
    """The values are always those of the first keys."""
    top, total, out = _start(Q, V)
    for S, v in _tiles(Q, K, V, block_size):
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ V[:, :, : v.shape[2]]
    return out / total


def tiled_attention__wrong_float32_state(Q, K, V, block_size):
    """Sum and output of the default dtype: float64 comes back as float32."""
    return _online(Q.float(), K.float(), V.float(), block_size)


def tiled_attention__wrong_float64(Q, K, V, block_size):
    """Accumulates in float64 and does not cast back."""
    return _online(Q.double(), K.double(), V.double(), block_size)


def tiled_attention__wrong_no_grad(Q, K, V, block_size):
    """The loop runs under no_grad to save memory."""
    with torch.no_grad():
        return _online(Q, K, V, block_size)


def tiled_attention__wrong_detached_weights(Q, K, V, block_size):
    """Detaches the scores of each tile: only the values get a gradient."""
    top, total, out = _start(Q, V)
    for S, v in _tiles(Q.detach(), K.detach(), V, block_size):
        new = torch.maximum(top, S.amax(-1, keepdim=True))
        P, shrink = torch.exp(S - new), torch.exp(top - new)
        top, total, out = new, total * shrink + P.sum(-1, keepdim=True), out * shrink + P @ v
    return out / total


def tiled_attention__wrong_in_place(Q, K, V, block_size):
    """Scales the caller's queries in place."""
    Q.data /= math.sqrt(Q.shape[-1])
    return _online(Q * math.sqrt(Q.shape[-1]), K, V, block_size)


def tiled_attention__wrong_tuple(Q, K, V, block_size):
    """Returns the log sums as well, as the kernel does."""
    lse = torch.cat([S.logsumexp(-1, keepdim=True) for S, _ in _tiles(Q, K, V, block_size)], -1).logsumexp(-1)
    return _online(Q, K, V, block_size), lse


def tiled_attention__wrong_none(Q, K, V, block_size):
    """Prints, returns nothing."""
    print(_online(Q, K, V, block_size))


def tiled_attention__wrong_first_head_keys(Q, K, V, block_size):
    """The blocks are cut from head 0 for all heads."""
    return _online(Q, K[:, :1], V[:, :1], block_size)


def tiled_attention__wrong_library_call(Q, K, V, block_size):
    """scaled_dot_product_attention, which may well be tiled inside."""
    return torch.nn.functional.scaled_dot_product_attention(Q, K, V)


# ------------------------------------------------------------------------------------------------------ attention_flops


def attention_flops__right_formula(batch, n_heads, n, d_head):
    """The plain one: 4 B h n² d."""
    return 4 * batch * n_heads * n**2 * d_head


def attention_flops__right_two_matmuls(batch, n_heads, n, d_head):
    """Both matmuls by name."""
    scores = 2 * n * d_head * n
    output = 2 * n * n * d_head
    return batch * n_heads * (scores + output)


def attention_flops__right_helper_matmul(batch, n_heads, n, d_head):
    """A helper counts multiplies and adds of one matmul; prints."""

    def matmul(rows, inner, columns):
        multiplies = adds = rows * inner * columns
        return multiplies + adds

    one = matmul(n, d_head, n) + matmul(n, n, d_head)
    print("per head:", one)
    return one * n_heads * batch


def attention_flops__right_prod(batch, n_heads, n, d_head):
    """math.prod."""
    return math.prod((2, 2, batch, n_heads, n, n, d_head))


def attention_flops__right_loop_over_heads(batch, n_heads, n, d_head):
    """Adds head by head."""
    total = 0
    for _ in range(n_heads):
        total += batch * n * n * d_head * 2  # Q Kᵀ
        total += batch * n * n * d_head * 2  # A V
    return total


def attention_flops__wrong_numpy_int64(batch, n_heads, n, d_head):
    """A NumPy int64, which begins again at 2**63."""
    return np.prod([4, batch, n_heads, n, n, d_head], dtype=np.int64)


def attention_flops__right_shift(batch, n_heads, n, d_head):
    """Shifts instead of the factor 4; warns."""
    warnings.warn("softmax left out", stacklevel=2)
    return (int(batch) * int(n_heads) * int(d_head) * pow(int(n), 2)) << 2


def attention_flops__wrong_zero_dim_tensor_of_64_bits(batch, n_heads, n, d_head):
    """A 0-d int64 tensor, which begins again at 2**63."""
    return torch.tensor(4, dtype=torch.int64) * batch * n_heads * n * n * d_head


def attention_flops__wrong_multiply_add_is_one(batch, n_heads, n, d_head):
    """Counts a multiply and an add as one."""
    return 2 * batch * n_heads * n * n * d_head


def attention_flops__wrong_no_factor(batch, n_heads, n, d_head):
    """One matmul, multiplies only."""
    return batch * n_heads * n * n * d_head


def attention_flops__wrong_factor_three(batch, n_heads, n, d_head):
    """A multiply and an add in the scores, multiplies only in the output."""
    return 3 * batch * n_heads * n * n * d_head


def attention_flops__wrong_factor_eight(batch, n_heads, n, d_head):
    """Counts the factor two twice."""
    return 8 * batch * n_heads * n * n * d_head


def attention_flops__wrong_exact_adds(batch, n_heads, n, d_head):
    """d - 1 adds per dot product and n - 1 per output instead of d and n."""
    return batch * n_heads * (n * n * (2 * d_head - 1) + n * d_head * (2 * n - 1))


def attention_flops__wrong_with_softmax(batch, n_heads, n, d_head):
    """Adds the softmax: exp, sum and division per score."""
    return batch * n_heads * (4 * n * n * d_head + 3 * n * n)


def attention_flops__wrong_with_scaling(batch, n_heads, n, d_head):
    """Adds one division by sqrt(d) per score."""
    return batch * n_heads * n * n * (4 * d_head + 1)


def attention_flops__wrong_causal_half(batch, n_heads, n, d_head):
    """Halves for the causal mask."""
    return 4 * batch * n_heads * n * n * d_head // 2


def attention_flops__wrong_causal_triangle(batch, n_heads, n, d_head):
    """n (n + 1) / 2 pairs only."""
    return 4 * batch * n_heads * (n * (n + 1) // 2) * d_head


def attention_flops__wrong_with_projections(batch, n_heads, n, d_head):
    """Adds the four projections of the layer."""
    d_model = n_heads * d_head
    return 4 * batch * n_heads * n * n * d_head + 8 * batch * n * d_model * d_model


def attention_flops__wrong_heads_forgotten(batch, n_heads, n, d_head):
    """Forgets the number of heads."""
    return 4 * batch * n * n * d_head


def attention_flops__wrong_batch_forgotten(batch, n_heads, n, d_head):
    """Forgets the batch."""
    return 4 * n_heads * n * n * d_head


def attention_flops__wrong_head_divided(batch, n_heads, n, d_head):
    """Takes d_head for the width of the model and divides by the heads."""
    return 4 * batch * n_heads * n * n * (d_head // n_heads)


def attention_flops__wrong_linear(batch, n_heads, n, d_head):
    """Linear in n."""
    return 4 * batch * n_heads * n * d_head


def attention_flops__wrong_d_squared(batch, n_heads, n, d_head):
    """d² instead of n²."""
    return 4 * batch * n_heads * n * d_head**2


def attention_flops__wrong_precedence(batch, n_heads, n, d_head):
    """(n * d)² instead of n² * d."""
    return 4 * batch * n_heads * (n * d_head) ** 2


def attention_flops__wrong_operator_xor(batch, n_heads, n, d_head):
    """n ^ 2: that is xor in Python."""
    return 4 * batch * n_heads * (n ^ 2) * d_head


def attention_flops__wrong_int32(batch, n_heads, n, d_head):
    """int32: overflows for ordinary sizes."""
    with np.errstate(over="ignore"):
        return np.prod(np.array([4, batch, n_heads, n, n, d_head], dtype=np.int32), dtype=np.int32)


def attention_flops__wrong_float(batch, n_heads, n, d_head):
    """A float."""
    return 4.0 * batch * n_heads * n * n * d_head


def attention_flops__wrong_gigaflops(batch, n_heads, n, d_head):
    """In units of 1e9."""
    return 4 * batch * n_heads * n * n * d_head // 10**9


def attention_flops__wrong_string(batch, n_heads, n, d_head):
    """Text with thousands separators."""
    return f"{4 * batch * n_heads * n * n * d_head:,}"


def attention_flops__wrong_print(batch, n_heads, n, d_head):
    """Prints, returns nothing."""
    print(4 * batch * n_heads * n * n * d_head)


def attention_flops__wrong_tuple(batch, n_heads, n, d_head):
    """Both matmuls apart."""
    one = 2 * batch * n_heads * n * n * d_head
    return one, one


# --------------------------------------------------------------------------------------------------- score_matrix_bytes


def score_matrix_bytes__right_formula(batch, n_heads, n, bytes_per_value=2):
    """The plain one."""
    return batch * n_heads * n * n * bytes_per_value


def score_matrix_bytes__right_power(batch, n_heads, n, bytes_per_value=2):
    """n ** 2, with a name for every step; prints the GiB."""
    values = batch * n_heads * n**2
    print(f"{values * bytes_per_value / 2**30:.2f} GiB")
    return values * bytes_per_value


def score_matrix_bytes__right_prod(batch, n_heads, n, bytes_per_value=2):
    """math.prod over the shape."""
    shape = (batch, n_heads, n, n)
    return math.prod(shape) * bytes_per_value


def score_matrix_bytes__wrong_meta_tensor_of_64_bits(batch, n_heads, n, bytes_per_value=2):
    """Asks an expanded tensor without memory for its number of entries, which must be below 2**63."""
    return torch.empty(1).expand(batch, n_heads, n, n).numel() * bytes_per_value


def score_matrix_bytes__wrong_int64(batch, n_heads, n, bytes_per_value=2):
    """A NumPy int64 from the first product on, which begins again at 2**63."""
    return np.int64(batch) * n_heads * n * n * bytes_per_value


def score_matrix_bytes__right_sum_of_rows(batch, n_heads, n, bytes_per_value=2):
    """Row after row; warns."""
    warnings.warn("quadratic", stacklevel=2)
    row = n * bytes_per_value
    return sum(row * n for _ in range(n_heads)) * batch


def score_matrix_bytes__right_bits(batch, n_heads, n, bytes_per_value=2):
    """Counts bits, then divides by 8 without a rest."""
    bits = batch * n_heads * n * n * (8 * bytes_per_value)
    return bits // 8


def score_matrix_bytes__wrong_default_four(batch, n_heads, n, bytes_per_value=4):
    """The default is 4 (float32)."""
    return batch * n_heads * n * n * bytes_per_value


def score_matrix_bytes__wrong_hard_coded_two(batch, n_heads, n, bytes_per_value=2):
    """Always two bytes."""
    return batch * n_heads * n * n * 2


def score_matrix_bytes__wrong_values_not_bytes(batch, n_heads, n, bytes_per_value=2):
    """The number of values."""
    return batch * n_heads * n * n


def score_matrix_bytes__wrong_bits(batch, n_heads, n, bytes_per_value=2):
    """Bits."""
    return batch * n_heads * n * n * bytes_per_value * 8


def score_matrix_bytes__wrong_bytes_read_as_bits(batch, n_heads, n, bytes_per_value=2):
    """Divides by 8, as if bytes_per_value were bits."""
    return batch * n_heads * n * n * bytes_per_value // 8


def score_matrix_bytes__wrong_linear(batch, n_heads, n, bytes_per_value=2):
    """Linear in n."""
    return batch * n_heads * n * bytes_per_value


def score_matrix_bytes__wrong_twice_n(batch, n_heads, n, bytes_per_value=2):
    """2 n for n²."""
    return batch * n_heads * (2 * n) * bytes_per_value


def score_matrix_bytes__wrong_heads_forgotten(batch, n_heads, n, bytes_per_value=2):
    """One matrix for all heads."""
    return batch * n * n * bytes_per_value


def score_matrix_bytes__wrong_batch_forgotten(batch, n_heads, n, bytes_per_value=2):
    """One sequence only."""
    return n_heads * n * n * bytes_per_value


def score_matrix_bytes__wrong_scores_and_weights(batch, n_heads, n, bytes_per_value=2):
    """Counts scores and weights: twice as much."""
    return 2 * batch * n_heads * n * n * bytes_per_value


def score_matrix_bytes__wrong_triangle(batch, n_heads, n, bytes_per_value=2):
    """Only the causal triangle."""
    return batch * n_heads * n * (n + 1) // 2 * bytes_per_value


def score_matrix_bytes__wrong_precedence(batch, n_heads, n, bytes_per_value=2):
    """(n * bytes)²."""
    return batch * n_heads * (n * bytes_per_value) ** 2


def score_matrix_bytes__wrong_bytes_as_exponent(batch, n_heads, n, bytes_per_value=2):
    """n ** bytes_per_value instead of n² times bytes_per_value."""
    return batch * n_heads * n**bytes_per_value


def score_matrix_bytes__wrong_head_squared(batch, n_heads, n, bytes_per_value=2):
    """h² n instead of h n²."""
    return batch * n_heads**2 * n * bytes_per_value


def score_matrix_bytes__wrong_xor(batch, n_heads, n, bytes_per_value=2):
    """n ^ 2 is xor."""
    return batch * n_heads * (n ^ 2) * bytes_per_value


def score_matrix_bytes__wrong_gib(batch, n_heads, n, bytes_per_value=2):
    """In GiB, a float."""
    return batch * n_heads * n * n * bytes_per_value / 2**30


def score_matrix_bytes__wrong_float(batch, n_heads, n, bytes_per_value=2):
    """A float number of bytes."""
    return float(batch * n_heads * n * n * bytes_per_value)


def score_matrix_bytes__wrong_int32(batch, n_heads, n, bytes_per_value=2):
    """int32: overflows at 2 GiB."""
    with np.errstate(over="ignore"):
        return np.prod(np.array([batch, n_heads, n, n, bytes_per_value], dtype=np.int32), dtype=np.int32)


def score_matrix_bytes__wrong_print(batch, n_heads, n, bytes_per_value=2):
    """Prints, returns nothing."""
    print(batch * n_heads * n * n * bytes_per_value, "bytes")


def score_matrix_bytes__wrong_string(batch, n_heads, n, bytes_per_value=2):
    """Text with a unit."""
    return f"{batch * n_heads * n * n * bytes_per_value} B"


def score_matrix_bytes__wrong_no_default(batch, n_heads, n, bytes_per_value):
    """No default for bytes_per_value."""
    return batch * n_heads * n * n * bytes_per_value


def score_matrix_bytes__wrong_sum_of_axes(batch, n_heads, n, bytes_per_value=2):
    """Adds the axes instead of multiplying."""
    return (batch + n_heads + n + n) * bytes_per_value


# ----------------------------------------------------------------------------------------------------- roofline_seconds


def roofline_seconds__right_max(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The plain one."""
    return max(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__right_if(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Two times and an if; prints which one binds."""
    compute, memory = flops / peak_flops, bytes_moved / peak_bandwidth
    if compute > memory:
        print("compute bound")
        return compute
    print("memory bound")
    return memory


def roofline_seconds__right_numpy_maximum(flops, bytes_moved, peak_flops, peak_bandwidth):
    """A NumPy scalar."""
    return np.maximum(np.float64(flops) / peak_flops, np.float64(bytes_moved) / peak_bandwidth)


def roofline_seconds__right_intensity(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Through the attainable flops at this arithmetic intensity; both zeros apart."""
    if bytes_moved == 0:
        return flops / peak_flops
    if flops == 0:
        return bytes_moved / peak_bandwidth
    attainable = min(peak_flops, flops / bytes_moved * peak_bandwidth)
    return flops / attainable


def roofline_seconds__right_ridge(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Cross-multiplied comparison, no division before it is known which time binds."""
    if float(flops) * peak_bandwidth >= float(bytes_moved) * peak_flops:
        return flops / peak_flops
    return bytes_moved / peak_bandwidth


def roofline_seconds__right_fraction(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Exact fractions; warns."""
    warnings.warn("exact fractions", stacklevel=2)
    compute = Fraction(float(flops)) / Fraction(float(peak_flops))
    memory = Fraction(float(bytes_moved)) / Fraction(float(peak_bandwidth))
    return float(sorted((compute, memory))[-1])


def roofline_seconds__right_zero_dim_tensor(flops, bytes_moved, peak_flops, peak_bandwidth):
    """A 0-d float64 tensor."""
    work = torch.tensor([flops, bytes_moved], dtype=torch.float64)
    speed = torch.tensor([peak_flops, peak_bandwidth], dtype=torch.float64)
    return (work / speed).max()


def roofline_seconds__right_half_sum(flops, bytes_moved, peak_flops, peak_bandwidth):
    """max(a, b) = b + relu(a - b)."""
    a, b = flops / peak_flops, bytes_moved / peak_bandwidth
    return a if b <= 0 else b + max(0.0, a - b)


def roofline_seconds__wrong_sum(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Adds the two times: no overlap."""
    return flops / peak_flops + bytes_moved / peak_bandwidth


def roofline_seconds__wrong_min(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The smaller time."""
    return min(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_mean(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The mean of both times."""
    return (flops / peak_flops + bytes_moved / peak_bandwidth) / 2


def roofline_seconds__wrong_root_of_squares(flops, bytes_moved, peak_flops, peak_bandwidth):
    """hypot: a smooth roof."""
    return math.hypot(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_compute_only(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Leaves the memory out."""
    return flops / peak_flops


def roofline_seconds__wrong_memory_only(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Leaves the computing out."""
    return bytes_moved / peak_bandwidth


def roofline_seconds__wrong_inverted(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Speed over work: upside down (0 for no work)."""
    return max(peak_flops / flops if flops else 0.0, peak_bandwidth / bytes_moved if bytes_moved else 0.0)


def roofline_seconds__wrong_peaks_swapped(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Flops over bandwidth, bytes over peak flops."""
    return max(flops / peak_bandwidth, bytes_moved / peak_flops)


def roofline_seconds__wrong_multiplied(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Multiplies work and speed."""
    return max(flops * peak_flops, bytes_moved * peak_bandwidth)


def roofline_seconds__wrong_attainable_flops(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The classic roofline's height, attainable flops per second, not a time."""
    return min(peak_flops, flops / max(bytes_moved, 1e-30) * peak_bandwidth)


def roofline_seconds__wrong_intensity_zero_bytes(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Through the intensity flops / bytes: ZeroDivisionError for no bytes."""
    return flops / min(peak_flops, flops / bytes_moved * peak_bandwidth)


def roofline_seconds__wrong_intensity_zero_flops(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Through the intensity: 0 seconds as soon as there are no flops."""
    if flops == 0:
        return 0.0
    if bytes_moved == 0:
        return flops / peak_flops
    return flops / min(peak_flops, flops / bytes_moved * peak_bandwidth)


def roofline_seconds__wrong_bytes_zero_is_zero(flops, bytes_moved, peak_flops, peak_bandwidth):
    """0 as soon as either is zero."""
    if not flops or not bytes_moved:
        return 0.0
    return max(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_zero_raises(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Insists on positive work."""
    if flops <= 0 or bytes_moved <= 0:
        raise ValueError("nothing to do")
    return max(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_compares_work(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Compares flops with bytes, not the times."""
    return flops / peak_flops if flops > bytes_moved else bytes_moved / peak_bandwidth


def roofline_seconds__wrong_compares_peaks(flops, bytes_moved, peak_flops, peak_bandwidth):
    """The slower resource binds, whatever the work."""
    return flops / peak_flops if peak_flops < peak_bandwidth else bytes_moved / peak_bandwidth


def roofline_seconds__wrong_ridge_inverted(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Finds the ridge, then takes the wrong branch."""
    if flops * peak_bandwidth >= bytes_moved * peak_flops:
        return bytes_moved / peak_bandwidth
    return flops / peak_flops


def roofline_seconds__wrong_floor_division(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Floor division: 0 for everything below a second."""
    return max(flops // peak_flops, bytes_moved // peak_bandwidth)


def roofline_seconds__wrong_milliseconds(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Milliseconds."""
    return 1e3 * max(flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_rounded(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Rounded to microseconds."""
    return round(max(flops / peak_flops, bytes_moved / peak_bandwidth), 6)


def roofline_seconds__wrong_bits(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Takes the bandwidth for bits per second."""
    return max(flops / peak_flops, 8 * bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_two_flops(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Doubles the flops once more for multiply and add."""
    return max(2 * flops / peak_flops, bytes_moved / peak_bandwidth)


def roofline_seconds__wrong_epsilon(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Adds 1e-3 "against zero"."""
    return max(flops / peak_flops, bytes_moved / peak_bandwidth) + 1e-3


def roofline_seconds__wrong_precedence(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Divides the larger work by the larger speed: max(...) / max(...)."""
    return max(flops, bytes_moved) / max(peak_flops, peak_bandwidth)


def roofline_seconds__wrong_name(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Says which limit binds instead of the seconds."""
    return "compute" if flops / peak_flops > bytes_moved / peak_bandwidth else "memory"


def roofline_seconds__wrong_tuple(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Both times."""
    return flops / peak_flops, bytes_moved / peak_bandwidth


def roofline_seconds__wrong_print(flops, bytes_moved, peak_flops, peak_bandwidth):
    """Prints, returns nothing."""
    print(max(flops / peak_flops, bytes_moved / peak_bandwidth))


# ---------------------------------------------------------------------------------------------------------- median_time


def _seconds(run, synchronize, clock):
    """One honest measurement."""
    synchronize()
    start = clock()
    run()
    synchronize()
    return clock() - start


def _middle(values):
    """The median by hand: right."""
    values = sorted(values)
    k = len(values) // 2
    return values[k] if len(values) % 2 else (values[k - 1] + values[k]) / 2


def median_time__right_plain(run, synchronize, clock, warmup, repeats):
    """The plain one, with statistics.median."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        end = clock()
        times.append(end - start)
    return statistics.median(times)


def median_time__right_sorted_by_hand(run, synchronize, clock, warmup, repeats):
    """One loop for warm-up and repeats, the median by hand."""
    times = []
    for i in range(-warmup, repeats):
        seconds = _seconds(run, synchronize, clock)
        if i >= 0:
            times.append(seconds)
    times.sort()
    return 0.5 * (times[(repeats - 1) // 2] + times[repeats // 2])


def median_time__right_numpy_sync_everywhere(run, synchronize, clock, warmup, repeats):
    """Synchronises after every warm-up run as well, fills an array; a NumPy scalar; prints."""
    for _ in range(warmup):
        run()
        synchronize()
    times = np.zeros(repeats)
    for i in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times[i] = clock() - start
    print(f"{times.min():.3g} .. {times.max():.3g} s")
    return np.median(times)


def median_time__right_discard_warmup(run, synchronize, clock, warmup, repeats):
    """Measures everything and cuts the warm-up off."""
    times = [_seconds(run, synchronize, clock) for _ in range(warmup + repeats)][warmup:]
    return _middle(times)


def median_time__right_chained_readings(run, synchronize, clock, warmup, repeats):
    """repeats + 1 readings: the end of one run is the start of the next."""
    for _ in range(warmup):
        run()
    synchronize()
    readings = [clock()]
    for _ in range(repeats):
        run()
        synchronize()
        readings.append(clock())
    return float(np.percentile(np.diff(readings), 50))


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


def median_time__right_torch_quantile(run, synchronize, clock, warmup, repeats):
    """A 0-d float64 tensor: torch.quantile interpolates between the middle two."""
    for _ in itertools.repeat(None, warmup):
        run()
    synchronize()
    times = torch.zeros(repeats, dtype=torch.float64)
    for i in range(repeats):
        synchronize()
        start = clock()
        run()
        synchronize()
        times[i] = float(clock() - start)
    return times.quantile(0.5)


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


def median_time__wrong_no_synchronize(run, synchronize, clock, warmup, repeats):
    """Never synchronises: measures the launch."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        start = clock()
        run()
        times.append(clock() - start)
    return statistics.median(times)


def median_time__wrong_synchronize_before_only(run, synchronize, clock, warmup, repeats):
    """Synchronises before the start, not before the end."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        times.append(clock() - start)
    return statistics.median(times)


def median_time__wrong_synchronize_after_only(run, synchronize, clock, warmup, repeats):
    """Synchronises before the end, not before the start: the first repeat pays for the warm-up's queue."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        start = clock()
        run()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


def median_time__wrong_synchronize_after_start(run, synchronize, clock, warmup, repeats):
    """Reads the clock first and synchronises then: the waiting for earlier work is counted."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        start = clock()
        synchronize()
        run()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


def median_time__wrong_synchronize_after_end(run, synchronize, clock, warmup, repeats):
    """Reads the end before the synchronisation."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        end = clock()
        synchronize()
        times.append(end - start)
    return statistics.median(times)


def median_time__wrong_start_after_run(run, synchronize, clock, warmup, repeats):
    """Starts the clock after the launch: measures the waiting only."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        run()
        start = clock()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


def median_time__wrong_synchronize_once(run, synchronize, clock, warmup, repeats):
    """Launches all repeats, reads the clock after each launch, synchronises at the very end."""
    for _ in range(warmup):
        run()
    synchronize()
    readings = [clock()]
    for _ in range(repeats):
        run()
        readings.append(clock())
    synchronize()
    readings[-1] = clock()
    return float(np.median(np.diff(readings)))


def median_time__wrong_synchronize_named(run, synchronize, clock, warmup, repeats):
    """`synchronize` without brackets: it is never called."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize  # noqa: B018
        start = clock()
        run()
        synchronize  # noqa: B018
        times.append(clock() - start)
    return statistics.median(times)


def median_time__wrong_total_over_repeats(run, synchronize, clock, warmup, repeats):
    """Total time divided by the repeats: the mean."""
    for _ in range(warmup):
        run()
    synchronize()
    start = clock()
    for _ in range(repeats):
        run()
    synchronize()
    return (clock() - start) / repeats


def median_time__wrong_mean(run, synchronize, clock, warmup, repeats):
    """The mean of the repeats."""
    for _ in range(warmup):
        run()
    return statistics.fmean([_seconds(run, synchronize, clock) for _ in range(repeats)])


def median_time__wrong_minimum(run, synchronize, clock, warmup, repeats):
    """The fastest repeat."""
    for _ in range(warmup):
        run()
    return min(_seconds(run, synchronize, clock) for _ in range(repeats))


def median_time__wrong_maximum(run, synchronize, clock, warmup, repeats):
    """The slowest repeat."""
    for _ in range(warmup):
        run()
    return max(_seconds(run, synchronize, clock) for _ in range(repeats))


def median_time__wrong_upper_median(run, synchronize, clock, warmup, repeats):
    """sorted(times)[repeats // 2]: the upper of the middle two."""
    for _ in range(warmup):
        run()
    return sorted(_seconds(run, synchronize, clock) for _ in range(repeats))[repeats // 2]


def median_time__wrong_lower_median(run, synchronize, clock, warmup, repeats):
    """torch.median: the lower of the middle two."""
    for _ in range(warmup):
        run()
    times = [_seconds(run, synchronize, clock) for _ in range(repeats)]
    return torch.tensor(times, dtype=torch.float64).median().item()


def median_time__wrong_not_sorted(run, synchronize, clock, warmup, repeats):
    """The repeat in the middle of the list, which is not sorted."""
    for _ in range(warmup):
        run()
    times = [_seconds(run, synchronize, clock) for _ in range(repeats)]
    return (times[(repeats - 1) // 2] + times[repeats // 2]) / 2


def median_time__wrong_median_precedence(run, synchronize, clock, warmup, repeats):
    """a + b / 2 instead of (a + b) / 2 for an even count."""
    for _ in range(warmup):
        run()
    times = sorted(_seconds(run, synchronize, clock) for _ in range(repeats))
    k = repeats // 2
    return times[k] if repeats % 2 else times[k - 1] + times[k] / 2


def median_time__wrong_midrange(run, synchronize, clock, warmup, repeats):
    """The middle between the fastest and the slowest."""
    for _ in range(warmup):
        run()
    times = [_seconds(run, synchronize, clock) for _ in range(repeats)]
    return (min(times) + max(times)) / 2


def median_time__wrong_trimmed_mean(run, synchronize, clock, warmup, repeats):
    """The mean without the fastest and the slowest."""
    for _ in range(warmup):
        run()
    times = sorted(_seconds(run, synchronize, clock) for _ in range(repeats))
    times = times[1:-1] or times
    return sum(times) / len(times)


def median_time__wrong_warmup_counted(run, synchronize, clock, warmup, repeats):
    """The warm-up runs are in the list."""
    return statistics.median([_seconds(run, synchronize, clock) for _ in range(warmup + repeats)])


def median_time__wrong_no_warmup(run, synchronize, clock, warmup, repeats):
    """Ignores the warm-up."""
    return statistics.median([_seconds(run, synchronize, clock) for _ in range(repeats)])


def median_time__wrong_one_warmup(run, synchronize, clock, warmup, repeats):
    """One warm-up run, whatever was asked for."""
    run()
    return statistics.median([_seconds(run, synchronize, clock) for _ in range(repeats)])


def median_time__wrong_warmup_out_of_repeats(run, synchronize, clock, warmup, repeats):
    """Takes the warm-up runs out of the repeats (all of them if nothing would be left)."""
    times = [_seconds(run, synchronize, clock) for _ in range(repeats)]
    return statistics.median(times[warmup:] or times)


def median_time__wrong_warmup_before_each(run, synchronize, clock, warmup, repeats):
    """Warms up again before each repeat: warmup * repeats runs too many."""
    times = []
    for _ in range(repeats):
        for _ in range(warmup):
            run()
        times.append(_seconds(run, synchronize, clock))
    return statistics.median(times)


def median_time__wrong_warmup_synchronizes_only(run, synchronize, clock, warmup, repeats):
    """A "warm-up" that only synchronises: no run."""
    for _ in range(warmup):
        synchronize()
    return statistics.median([_seconds(run, synchronize, clock) for _ in range(repeats)])


def median_time__wrong_warmup_repeats_swapped(run, synchronize, clock, warmup, repeats):
    """Swaps the two counts (one repeat at least)."""
    for _ in range(repeats):
        run()
    return statistics.median([_seconds(run, synchronize, clock) for _ in range(max(1, warmup))])


def median_time__wrong_one_repeat_less(run, synchronize, clock, warmup, repeats):
    """range(1, repeats): one repeat less, and an empty list for one repeat."""
    for _ in range(warmup):
        run()
    return statistics.median([_seconds(run, synchronize, clock) for _ in range(1, repeats)])


def median_time__wrong_one_repeat_more(run, synchronize, clock, warmup, repeats):
    """range(repeats + 1): one repeat too many."""
    for _ in range(warmup):
        run()
    return statistics.median([_seconds(run, synchronize, clock) for _ in range(repeats + 1)])


def median_time__wrong_two_runs_per_reading(run, synchronize, clock, warmup, repeats):
    """Launches twice between the two readings."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        start = clock()
        run()
        run()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


def median_time__wrong_own_clock(run, synchronize, clock, warmup, repeats):
    """Reads time.perf_counter instead of the clock it was given."""
    for _ in range(warmup):
        run()
    return statistics.median([_seconds(run, synchronize, time.perf_counter) for _ in range(repeats)])


def median_time__wrong_cuda_synchronize(run, synchronize, clock, warmup, repeats):
    """Waits with torch.cuda.synchronize (where there is CUDA) instead of the callable it was given."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else (lambda: None)
    for _ in range(warmup):
        run()
    return statistics.median([_seconds(run, wait, clock) for _ in range(repeats)])


def median_time__wrong_milliseconds(run, synchronize, clock, warmup, repeats):
    """Milliseconds."""
    for _ in range(warmup):
        run()
    return 1e3 * statistics.median([_seconds(run, synchronize, clock) for _ in range(repeats)])


def median_time__wrong_negative(run, synchronize, clock, warmup, repeats):
    """start - end."""
    for _ in range(warmup):
        run()
    return statistics.median([-_seconds(run, synchronize, clock) for _ in range(repeats)])


def median_time__wrong_end_reading(run, synchronize, clock, warmup, repeats):
    """Collects the end readings, not the differences."""
    for _ in range(warmup):
        run()
    times = []
    for _ in range(repeats):
        synchronize()
        run()
        synchronize()
        times.append(clock())
    return statistics.median(times)


def median_time__wrong_start_read_once(run, synchronize, clock, warmup, repeats):
    """Reads the start once, before the loop: the times add up."""
    for _ in range(warmup):
        run()
    synchronize()
    start = clock()
    times = []
    for _ in range(repeats):
        run()
        synchronize()
        times.append(clock() - start)
    return statistics.median(times)


def median_time__wrong_clock_started_before_warmup(run, synchronize, clock, warmup, repeats):
    """The first reading stands before the warm-up, whose runs then count into the first repeat."""
    synchronize()
    readings = [clock()]
    for _ in range(warmup):
        run()
    for _ in range(repeats):
        run()
        synchronize()
        readings.append(clock())
    return float(np.median(np.diff(readings)))


def median_time__wrong_list(run, synchronize, clock, warmup, repeats):
    """All the times."""
    for _ in range(warmup):
        run()
    return [_seconds(run, synchronize, clock) for _ in range(repeats)]


def median_time__wrong_tuple(run, synchronize, clock, warmup, repeats):
    """Median and spread."""
    for _ in range(warmup):
        run()
    times = [_seconds(run, synchronize, clock) for _ in range(repeats)]
    return statistics.median(times), statistics.pstdev(times)


def median_time__wrong_print(run, synchronize, clock, warmup, repeats):
    """Prints, returns nothing."""
    for _ in range(warmup):
        run()
    print(statistics.median([_seconds(run, synchronize, clock) for _ in range(repeats)]))


_all_times = []


def median_time__wrong_times_kept(run, synchronize, clock, warmup, repeats):
    """Appends to a list of the module: a second call still sees the times of the first."""
    for _ in range(warmup):
        run()
    for _ in range(repeats):
        _all_times.append(_seconds(run, synchronize, clock))
    return statistics.median(_all_times)


def median_time__wrong_integer(run, synchronize, clock, warmup, repeats):
    """Whole seconds: int() of each difference."""
    for _ in range(warmup):
        run()
    return statistics.median([int(_seconds(run, synchronize, clock)) for _ in range(repeats)])


def median_time__wrong_per_run(run, synchronize, clock, warmup, repeats):
    """Divides the median by the repeats once more."""
    for _ in range(warmup):
        run()
    return statistics.median([_seconds(run, synchronize, clock) for _ in range(repeats)]) / repeats


# ------------------------------------------------------------------------------------------------------------ the lists


# --------------------------------------------------------------------------------------------------------- flash_bytes


def flash_bytes__right_formula(n, d, block_q, bytes_per_value=2, causal=False):
    """Blocks by ceiling division; causal by the ends of all blocks."""
    blocks = -(-n // block_q)
    rows = sum(min((i + 1) * block_q, n) for i in range(blocks)) if causal else blocks * n
    return 2 * d * bytes_per_value * (n + rows)


def flash_bytes__right_closed_form(n, d, block_q, bytes_per_value=2, causal=False):
    """No loop at all: the full blocks are an arithmetic series."""
    full, rest = divmod(n, block_q)
    if causal:
        rows = block_q * full * (full + 1) // 2 + (n if rest else 0)
    else:
        rows = n * (full + bool(rest))
    return (rows + n) * d * 2 * bytes_per_value


def flash_bytes__right_numpy_int(n, d, block_q, bytes_per_value=2, causal=False):
    """An array of the blocks' ends; a NumPy integer comes back."""
    ends = np.minimum(np.arange(block_q, n + block_q, block_q, dtype=np.int64), n)
    read = ends.sum() if causal else len(ends) * n
    return (2 * n * d + 2 * d * read) * bytes_per_value


def flash_bytes__right_walks_the_loop(n, d, block_q, bytes_per_value=2, causal=False):
    """Walks the loops of the kernel and adds up what each load and store moves."""
    moved, row, start = 0, d * bytes_per_value, 0
    while start < n:
        end = min(start + block_q, n)
        moved += (end - start) * row  # Q
        for _ in ("K", "V"):
            moved += (end if causal else n) * row
        moved += (end - start) * row  # out
        start = end
    return moved


def flash_bytes__right_fraction_and_ceil(n, d, block_q, bytes_per_value=2, causal=False):
    """math.ceil of an exact fraction; helpers; prints."""
    blocks = math.ceil(Fraction(n, block_q))
    print("blocks:", blocks)
    last = [n] * blocks if not causal else [min(n, block_q * (i + 1)) for i in range(blocks)]
    return sum((2 * n, *(2 * keys for keys in last))) * d * bytes_per_value


def flash_bytes__wrong_keys_once(n, d, block_q, bytes_per_value=2, causal=False):
    """The bound: everything once."""
    return 4 * n * d * bytes_per_value


def flash_bytes__wrong_floor_division(n, d, block_q, bytes_per_value=2, causal=False):
    """n // block_q blocks: the short one is lost."""
    blocks = n // block_q
    rows = sum((i + 1) * block_q for i in range(blocks)) if causal else blocks * n
    return 2 * d * bytes_per_value * (n + rows)


def flash_bytes__wrong_true_division(n, d, block_q, bytes_per_value=2, causal=False):
    """n / block_q blocks, a part of one for the short one."""
    rows = n * n / block_q
    return int((2 * n * d + 2 * d * (rows / 2 if causal else rows)) * bytes_per_value)


def flash_bytes__wrong_causal_half(n, d, block_q, bytes_per_value=2, causal=False):
    """Half of K and V with the causal mask."""
    read = 2 * n * d * -(-n // block_q)
    return (2 * n * d + (read // 2 if causal else read)) * bytes_per_value


def flash_bytes__wrong_no_causal(n, d, block_q, bytes_per_value=2, causal=False):
    """causal is ignored."""
    return 2 * d * bytes_per_value * (n + n * -(-n // block_q))


def flash_bytes__wrong_past_the_end(n, d, block_q, bytes_per_value=2, causal=False):
    """The last block reads up to where it would end if it were whole."""
    blocks = -(-n // block_q)
    rows = sum((i + 1) * block_q for i in range(blocks)) if causal else blocks * n
    return 2 * d * bytes_per_value * (n + rows)


def flash_bytes__wrong_only_earlier_blocks(n, d, block_q, bytes_per_value=2, causal=False):
    """A causal block reads what lies before it."""
    starts = range(0, n, block_q)
    rows = sum(starts) if causal else len(starts) * n
    return 2 * d * bytes_per_value * (n + rows)


def flash_bytes__wrong_no_output(n, d, block_q, bytes_per_value=2, causal=False):
    """out is not counted."""
    ends = [min(start + block_q, n) for start in range(0, n, block_q)]
    return (n * d + 2 * d * (sum(ends) if causal else n * len(ends))) * bytes_per_value


def flash_bytes__wrong_numbers(n, d, block_q, bytes_per_value=2, causal=False):
    """Numbers, not bytes."""
    ends = [min(start + block_q, n) if causal else n for start in range(0, n, block_q)]
    return 2 * n * d + 2 * d * sum(ends)


def flash_bytes__wrong_statistics_too(n, d, block_q, bytes_per_value=2, causal=False):
    """The logsumexp is written as well."""
    ends = [min(start + block_q, n) if causal else n for start in range(0, n, block_q)]
    return (2 * n * d + 2 * d * sum(ends) + n) * bytes_per_value


def flash_bytes__wrong_q_with_every_block(n, d, block_q, bytes_per_value=2, causal=False):
    """Q, K, V and out whole for every block of queries."""
    ends = [min(start + block_q, n) if causal else n for start in range(0, n, block_q)]
    return sum(2 * n * d + 2 * d * end for end in ends) * bytes_per_value


# ---------------------------------------------------------------------------------------------- tiled_causal_attention


def tiled_causal_attention__right_queries_outside(Q, K, V, block_size):
    """Blocks of queries outside, keys inside up to the diagonal; only the tile on it is masked."""
    n, d = Q.shape[-2:]
    rows = []
    for first in range(0, n, block_size):
        q = Q[:, :, first : first + block_size] / math.sqrt(d)
        top = torch.full_like(q[..., :1], -math.inf)
        total, mix = torch.zeros_like(top), torch.zeros_like(q)
        for start in range(0, first + 1, block_size):
            S = q @ K[:, :, start : start + block_size].mT
            if start == first:
                S = S.masked_fill(torch.ones_like(S, dtype=torch.bool).triu(1), -math.inf)
            new = torch.maximum(top, S.amax(-1, keepdim=True))
            P, shrink = torch.exp(S - new), torch.exp(top - new)
            total, mix = (
                total * shrink + P.sum(-1, keepdim=True),
                mix * shrink + P @ V[:, :, start : start + block_size],
            )
            top = new
        rows.append(mix / total)
    return torch.cat(rows, dim=2)


def tiled_causal_attention__right_keys_outside(Q, K, V, block_size):
    """Blocks of keys outside; the state of all queries stands in lists, block by block."""
    qs, ks, vs = (X.split(block_size, dim=2) for X in (Q * Q.shape[-1] ** -0.5, K, V))
    tops, totals, mixes = [None] * len(qs), [0.0] * len(qs), [0.0] * len(qs)
    for j, (k, v) in enumerate(zip(ks, vs, strict=True)):
        for i in range(j, len(qs)):
            S = torch.einsum("bhid,bhjd->bhij", qs[i], k)
            if i == j:
                size = k.shape[2]
                S = S + torch.full((size, size), -math.inf, dtype=S.dtype).triu(1)
            new = S.max(-1, keepdim=True).values
            if tops[i] is not None:
                new = torch.maximum(new, tops[i])
                shrink = (tops[i] - new).exp()
                totals[i], mixes[i] = totals[i] * shrink, mixes[i] * shrink
            P = (S - new).exp()
            totals[i], mixes[i], tops[i] = totals[i] + P.sum(-1, keepdim=True), mixes[i] + P @ v, new
    return torch.cat([mix / total for mix, total in zip(mixes, totals, strict=True)], dim=2)


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


def tiled_causal_attention__right_keys_as_rows(Q, K, V, block_size):
    """Tiles stand on their side, keys as rows; values carry a column of ones, so that sum and mix are one product."""
    n, d = Q.shape[2:]
    V1 = torch.cat([V, torch.ones_like(V[..., :1])], -1)
    out = []
    for q0 in range(0, n, block_size):
        q1 = min(q0 + block_size, n)
        top, mix = Q.new_full((*Q.shape[:2], 1, q1 - q0), -math.inf), 0
        for k0 in range(0, q1, block_size):
            k1 = min(k0 + block_size, n)
            S = K[:, :, k0:k1] @ Q[:, :, q0:q1].mT * d**-0.5
            seen = torch.arange(k0, k1)[:, None] <= torch.arange(q0, q1)
            S = S.masked_fill(~seen, -math.inf)
            new = torch.maximum(top, S.amax(2, keepdim=True))
            mix = mix * torch.exp(top - new).mT + torch.exp(S - new).mT @ V1[:, :, k0:k1]
            top = new
        out.append(mix[..., :d] / mix[..., d:])
    return torch.cat(out, 2)


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


def tiled_causal_attention__wrong_whole_blocks_seen(Q, K, V, block_size):
    """Blocks are causal, tokens within a block are not."""
    return _causal_tiles(Q, K, V, block_size, mask=lambda i, j: (j <= i) | True)


def tiled_causal_attention__wrong_triangle_in_every_tile(Q, K, V, block_size):
    """The same triangle in every tile."""
    return _causal_tiles(Q, K, V, block_size, mask=lambda i, j: j - j.min() <= i - i.min())


def tiled_causal_attention__wrong_strictly_earlier(Q, K, V, block_size):
    """A token does not see itself: the first row is 0 / 0."""
    return _causal_tiles(Q, K, V, block_size, mask=lambda i, j: j < i)


def tiled_causal_attention__wrong_one_ahead(Q, K, V, block_size):
    """triu(2): one token too many."""
    return _causal_tiles(Q, K, V, block_size, mask=lambda i, j: j <= i + 1)


def tiled_causal_attention__wrong_filled_with_zero(Q, K, V, block_size):
    """Forbidden scores are 0."""
    return _causal_tiles(Q, K, V, block_size, fill=0.0)


def tiled_causal_attention__wrong_filled_with_minus_hundred(Q, K, V, block_size):
    """Forbidden scores are -100, which large scores undercut."""
    return _causal_tiles(Q, K, V, block_size, fill=-100.0)


def tiled_causal_attention__wrong_all_tiles_met(Q, K, V, block_size):
    """Right values, but every tile is multiplied."""
    return _causal_tiles(Q, K, V, block_size, seen=lambda first, start: True)


def tiled_causal_attention__wrong_diagonal_skipped(Q, K, V, block_size):
    """Tiles before the diagonal only."""
    return _causal_tiles(Q, K, V, block_size, seen=lambda first, start: start < first)


def tiled_causal_attention__wrong_local(Q, K, V, block_size):
    """The tile on the diagonal only."""
    return _causal_tiles(Q, K, V, block_size, seen=lambda first, start: start == first)


def tiled_causal_attention__wrong_anticausal(Q, K, V, block_size):
    """Later keys in place of earlier ones."""
    return _causal_tiles(Q, K, V, block_size, lambda i, j: j >= i, lambda first, start: start >= first)


def tiled_causal_attention__wrong_state_not_begun_anew(Q, K, V, block_size):
    """The sums go on from one block of queries to the next."""
    return _causal_tiles(Q, K, V, block_size, fresh=False)


def tiled_causal_attention__wrong_materialised(Q, K, V, block_size):
    """All scores at once."""
    S = Q @ K.mT / math.sqrt(Q.shape[-1])
    return torch.softmax(S.masked_fill(torch.ones_like(S, dtype=torch.bool).triu(1), -math.inf), -1) @ V


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


def tiled_causal_attention__wrong_rows_of_tiles(Q, K, V, block_size):
    """A block of queries against all keys that it may see, at once."""
    rows = []
    for first in range(0, Q.shape[2], block_size):
        end = min(first + block_size, Q.shape[2])
        S = Q[:, :, first:end] @ K[:, :, :end].mT / math.sqrt(Q.shape[-1])
        S = S.masked_fill(torch.arange(end) > torch.arange(first, end)[:, None], -math.inf)
        rows.append(S.softmax(-1) @ V[:, :, :end])
    return torch.cat(rows, 2)


def tiled_causal_attention__wrong_query_by_query(Q, K, V, block_size):
    """Each query alone against blocks of keys."""
    rows = [_online(Q[:, :, i : i + 1], K[:, :, : i + 1], V[:, :, : i + 1], block_size) for i in range(Q.shape[2])]
    return torch.cat(rows, 2)


def tiled_causal_attention__wrong_blocks_must_fit(Q, K, V, block_size):
    """reshape into whole blocks: raises where block_size does not divide n."""
    B, h, n, d = Q.shape
    Q.reshape(B, h, n // block_size, block_size, d)
    return _causal_tiles(Q, K, V, block_size)


# ------------------------------------------------------------------------------------------------------ flash_backward


def flash_backward__right_key_blocks(Q, K, V, out, logsumexp, d_out, block_size):
    """A loop over blocks of keys."""
    scale = Q.shape[-1] ** -0.5
    D = (out * d_out).sum(-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), [], []
    for k, v in zip(K.split(block_size, 2), V.split(block_size, 2), strict=True):
        P = torch.exp(Q @ k.mT * scale - logsumexp.unsqueeze(-1))
        dS = P * (d_out @ v.mT - D)
        dQ += dS @ k * scale
        dK.append(dS.mT @ Q * scale)
        dV.append(P.mT @ d_out)
    return dQ, torch.cat(dK, 2), torch.cat(dV, 2)


def flash_backward__right_tiles_by_head(Q, K, V, out, logsumexp, d_out, block_size):
    """Head by head, tile by tile, in place; float64 inside."""
    grads = [torch.zeros_like(X, dtype=torch.float64) for X in (Q, K, V)]
    scale = 1 / math.sqrt(Q.shape[-1])
    n = Q.shape[2]
    for b, h in itertools.product(range(Q.shape[0]), range(Q.shape[1])):
        q_, k_, v_, o_, g_ = (X[b, h].double() for X in (Q, K, V, out, d_out))
        dq, dk, dv = (X[b, h] for X in grads)
        for i in range(0, n, block_size):
            I = slice(i, i + block_size)  # noqa: E741
            for j in range(0, n, block_size):
                J = slice(j, j + block_size)
                P = (q_[I] @ k_[J].T * scale - logsumexp[b, h, I, None].double()).exp()
                dS = P * (g_[I] @ v_[J].T - torch.linalg.vecdot(o_[I], g_[I])[:, None])
                dv[J] += P.T @ g_[I]
                dq[I] += dS @ k_[J] * scale
                dk[J] += dS.T @ q_[I] * scale
    return tuple(X.to(Q.dtype) for X in grads)


def flash_backward__right_statistics_of_its_own(Q, K, V, out, logsumexp, d_out, block_size):
    """Makes both row statistics again in two passes of its own; einsum throughout."""
    scale = Q.shape[-1] ** -0.5
    blocks = [slice(start, start + block_size) for start in range(0, K.shape[2], block_size)]

    def scores(J):
        return torch.einsum("bhid,bhjd->bhij", Q, K[:, :, J]).mul(scale)

    log = None
    for J in blocks:
        part = scores(J).logsumexp(-1, keepdim=True)
        log = part if log is None else torch.logaddexp(log, part)
    D = sum((torch.exp(scores(J) - log) * (d_out @ V[:, :, J].mT)).sum(-1, keepdim=True) for J in blocks)
    dQ, dK, dV = (torch.empty_like(X).fill_(0) for X in (Q, K, V))
    for J in blocks:
        P = torch.exp(scores(J) - log)
        dS = P * (torch.einsum("bhid,bhjd->bhij", d_out, V[:, :, J]) - D)
        dQ += torch.einsum("bhij,bhjd->bhid", dS, K[:, :, J]) * scale
        dK[:, :, J] = torch.einsum("bhij,bhid->bhjd", dS, Q) * scale
        dV[:, :, J] = torch.einsum("bhij,bhid->bhjd", P, d_out)
    return dQ, dK, dV


def flash_backward__right_scaled_first(Q, K, V, out, logsumexp, d_out, block_size):
    """The scale goes into the queries at first, so dK needs none; the statistic goes into an extra column."""
    root = math.sqrt(Q.shape[-1])
    q = Q / root
    D = torch.einsum("bhid,bhid->bhi", out, d_out)[..., None]
    g = torch.cat([d_out, -D], -1)
    v1 = torch.cat([V, torch.ones_like(V[..., :1])], -1)
    parts = []
    dQ = 0
    for start in range(0, K.shape[2], block_size):
        k, v = K.narrow(2, start, min(block_size, K.shape[2] - start)), v1[:, :, start : start + block_size]
        P = torch.baddbmm(
            -logsumexp.reshape(-1, q.shape[2], 1), q.flatten(0, 1), k.flatten(0, 1).mT
        ).exp().unflatten(0, q.shape[:2])  # fmt: skip
        dS = P * (g @ v.mT)
        dQ = dQ + dS @ k
        parts.append((dS.mT @ q, P.mT @ d_out))
    dK, dV = (torch.cat(part, 2) for part in zip(*parts, strict=True))
    return dQ / root, dK, dV


def flash_backward__right_blocks_of_queries(Q, K, V, out, logsumexp, d_out, block_size):
    """Blocks of queries inside blocks of keys, and no gradients noted."""
    with torch.no_grad():
        s = Q.size(-1) ** -0.5
        dQ, dK, dV = Q * 0, K * 0, V * 0
        for j in range(math.ceil(K.size(2) / block_size)):
            J = range(K.size(2))[j * block_size : (j + 1) * block_size]
            for i in range(math.ceil(Q.size(2) / block_size)):
                I = range(Q.size(2))[i * block_size : (i + 1) * block_size]  # noqa: E741
                I, J = list(I), list(J)  # noqa: E741
                g = d_out[:, :, I]
                P = torch.exp(s * Q[:, :, I] @ K[:, :, J].mT - logsumexp[:, :, I, None])
                dP = g @ V[:, :, J].mT
                dS = s * P * (dP - (g * out[:, :, I]).sum(-1, True))
                dV[:, :, J] += P.mT @ g
                dK[:, :, J] += dS.mT @ Q[:, :, I]
                dQ[:, :, I] += dS @ K[:, :, J]
        return dQ, dK, dV


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


def flash_backward__wrong_no_row_sum(Q, K, V, out, logsumexp, d_out, block_size):
    """dS = P * dP."""
    return _back(Q, K, V, out, logsumexp, d_out, block_size, slope=lambda P, dP, D: P * dP)


def flash_backward__wrong_row_sum_of_block(Q, K, V, out, logsumexp, d_out, block_size):
    """The row sum of one block only."""
    return _back(
        Q, K, V, out, logsumexp, d_out, block_size, slope=lambda P, dP, D: P * (dP - (P * dP).sum(-1, keepdim=True))
    )


def flash_backward__wrong_sum_over_queries(Q, K, V, out, logsumexp, d_out, block_size):
    """The Jacobian the other way round: sums down the columns."""
    return _back(
        Q, K, V, out, logsumexp, d_out, block_size, slope=lambda P, dP, D: P * (dP - (P * dP).sum(-2, keepdim=True))
    )


def flash_backward__wrong_diagonal(Q, K, V, out, logsumexp, d_out, block_size):
    """p (1 - p), as of a sigmoid."""
    return _back(Q, K, V, out, logsumexp, d_out, block_size, slope=lambda P, dP, D: P * (1 - P) * dP)


def flash_backward__wrong_plus(Q, K, V, out, logsumexp, d_out, block_size):
    """The row sum is added."""
    return _back(Q, K, V, out, logsumexp, d_out, block_size, slope=lambda P, dP, D: P * (dP + D))


def flash_backward__wrong_sign(Q, K, V, out, logsumexp, d_out, block_size):
    """D - dP."""
    return _back(Q, K, V, out, logsumexp, d_out, block_size, slope=lambda P, dP, D: P * (D - dP))


def flash_backward__wrong_scale_forgotten(Q, K, V, out, logsumexp, d_out, block_size):
    """dQ and dK lack the scale."""
    return _back(Q, K, V, out, logsumexp, d_out, block_size, scales=(1, 1))


def flash_backward__wrong_scale_in_dk_only(Q, K, V, out, logsumexp, d_out, block_size):
    """dQ lacks the scale."""
    return _back(Q, K, V, out, logsumexp, d_out, block_size, scales=(1, None))


def flash_backward__wrong_scaled_by_d(Q, K, V, out, logsumexp, d_out, block_size):
    """The scale twice."""
    return _back(Q, K, V, out, logsumexp, d_out, block_size, scales=(1 / Q.shape[-1], 1 / Q.shape[-1]))


def flash_backward__wrong_bare_exponentials(Q, K, V, out, logsumexp, d_out, block_size):
    """exp of the scores, no logsumexp."""
    return _back(Q, K, V, out, logsumexp, d_out, block_size, weigh=lambda S, log: torch.exp(S))


def flash_backward__wrong_softmax_of_block(Q, K, V, out, logsumexp, d_out, block_size):
    """A softmax of each block."""
    return _back(Q, K, V, out, logsumexp, d_out, block_size, weigh=lambda S, log: torch.softmax(S, -1))


def flash_backward__wrong_divides_late(Q, K, V, out, logsumexp, d_out, block_size):
    """exp(S) / exp(logsumexp): inf / inf."""
    return _back(Q, K, V, out, logsumexp, d_out, block_size, weigh=lambda S, log: torch.exp(S) / torch.exp(log))


def flash_backward__wrong_divides_by_log(Q, K, V, out, logsumexp, d_out, block_size):
    """Takes the logsumexp for the sum."""
    return _back(Q, K, V, out, logsumexp, d_out, block_size, weigh=lambda S, log: torch.exp(S) / log)


def flash_backward__wrong_unscaled_scores(Q, K, V, out, logsumexp, d_out, block_size):
    """The scores are made again without the scale."""
    root = Q.shape[-1] ** 0.5
    return _back(Q, K, V, out, logsumexp, d_out, block_size, weigh=lambda S, log: torch.exp(S * root - log))


def flash_backward__wrong_whole_blocks_only(Q, K, V, out, logsumexp, d_out, block_size):
    """The short block is dropped."""
    n = K.shape[2]
    return _back(
        Q, K, V, out, logsumexp, d_out, block_size, blocks=lambda starts: [s for s in starts if s + block_size <= n]
    )


def flash_backward__wrong_last_dq_only(Q, K, V, out, logsumexp, d_out, block_size):
    """dQ is overwritten by every block."""
    _, dK, dV = _back(Q, K, V, out, logsumexp, d_out, block_size)
    last = (K.shape[2] - 1) // block_size * block_size
    dQ, _, _ = _back(Q, K, V, out, logsumexp, d_out, block_size, blocks=lambda starts: [last])
    return dQ, dK, dV


def flash_backward__wrong_transposed(Q, K, V, out, logsumexp, d_out, block_size):
    """dS turned over in both products."""
    scale = Q.shape[-1] ** -0.5
    D = (out * d_out).sum(-1, keepdim=True)
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    for start in range(0, K.shape[2], block_size):
        J = slice(start, start + block_size)
        P = torch.exp(Q @ K[:, :, J].mT * scale - logsumexp[..., None])
        dS = P * (d_out @ V[:, :, J].mT - D) * scale
        dQ[:, :, J] = dS.mT @ K
        dK += dS @ Q[:, :, J]
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


def flash_backward__wrong_swapped(Q, K, V, out, logsumexp, d_out, block_size):
    """dK comes first."""
    dQ, dK, dV = _back(Q, K, V, out, logsumexp, d_out, block_size)
    return dK, dQ, dV


def flash_backward__wrong_sees_no_future(Q, K, V, out, logsumexp, d_out, block_size):
    """A causal mask that nobody asked for."""
    place = torch.arange(Q.shape[2])
    starts = iter(range(0, K.shape[2], block_size))

    def weigh(S, log):
        start = next(starts)
        keys = torch.arange(start, start + S.shape[-1])
        return torch.exp(S - log) * (keys <= place[:, None])

    return _back(Q, K, V, out, logsumexp, d_out, block_size, weigh=weigh)
