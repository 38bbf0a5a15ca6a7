"""Unit 4: other right ways than the course's own, so that their steps are known to be right, too."""

import math

import torch

from .merge_heads import plain as merge_heads
from .split_heads import plain as split_heads


def _weights(scores, mask):
    """The softmax over the last axis among the allowed keys; zeros where there is none."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask


def bmm_attention__key_after_key(Q, K, V, mask=None):
    N, n, d = Q.shape
    m, lowest = (K.shape[1], torch.finfo(Q.dtype).min)
    see = torch.ones(N, n, m, dtype=torch.bool) if mask is None else mask.expand(N, n, m)
    top = Q.new_full((N, n), lowest)
    total = Q.new_zeros(N, n)
    mixture = Q.new_zeros(N, n, V.shape[-1])
    for j in range(m):
        score = (Q * K[:, j : j + 1]).sum(dim=-1) / math.sqrt(d)
        score = torch.where(see[..., j], score, lowest)
        higher = torch.maximum(top, score)
        shrink = torch.exp(top - higher)
        power = torch.exp(score - higher) * see[..., j]
        total = total * shrink + power
        mixture = mixture * shrink[..., None] + power[..., None] * V[:, j : j + 1]
        top = higher
    return mixture / torch.where(total == 0, torch.ones_like(total), total)[..., None]


def bmm_attention__running_sums(Q, K, V, mask=None):
    (N, n, d_k), m = (Q.shape, K.shape[1])
    if mask is None:
        mask = torch.ones(1, dtype=torch.bool, device=Q.device)
    mask = mask.expand(N, n, m)
    scores = (Q[:, :, None, :] * K[:, None, :, :]).sum(-1) / math.sqrt(d_k)
    lowest = torch.finfo(scores.dtype).min
    top = scores.detach().masked_fill(~mask, lowest).amax(dim=-1)
    top = torch.where(mask.any(-1), top, torch.zeros_like(top))
    mixed, total = (Q.new_zeros(N, n, V.shape[-1]), Q.new_zeros(N, n))
    for j in range(m):
        apart = (scores[:, :, j] - top).masked_fill(~mask[:, :, j], 0.0)
        power = apart.exp() * mask[:, :, j]
        mixed = mixed + power[..., None] * V[:, j, None, :]
        total = total + power
    total = torch.where(mask.any(-1), total, torch.ones_like(total))
    return mixed / total[..., None]


def multi_head_attention__two_circuits_for_each_head(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    B, n, _ = X.shape
    d = W_Q.shape[1] // n_heads
    output = b_O.expand(B, n, -1)
    for r, (q, k, v, o) in enumerate(
        zip(W_Q.split(d, 1), W_K.split(d, 1), W_V.split(d, 1), W_O.split(d, 0), strict=True)
    ):
        scores = X @ (q @ k.T / math.sqrt(d)) @ X.mT
        if mask is not None:
            scores = scores.masked_fill(~mask.expand(B, n_heads, n, n)[:, r], -math.inf)
        output = output + torch.softmax(scores, dim=-1) @ (X @ (v @ o))
    return output


def head_contributions__columns_of_others_struck_out(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    width = W_O.shape[0]
    d_head = width // n_heads
    Q, K, V = (split_heads(X @ W, n_heads) for W in (W_Q, W_K, W_V))
    merged = merge_heads(_weights(Q @ K.mT / math.sqrt(d_head), mask) @ V)
    own = torch.eye(n_heads, dtype=torch.bool).repeat_interleave(d_head, dim=1)
    alone = merged[:, None].masked_fill(~own[None, :, None, :], 0.0)
    return alone @ W_O


def head_contributions__values_already_projected(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    cut = (n_heads, W_V.shape[1] // n_heads)
    through = torch.einsum("mhd,hdo->hmo", W_V.unflatten(1, cut), W_O.unflatten(0, cut))
    written = X[:, None] @ through
    q = torch.einsum("bnm,mhd->bhnd", X, W_Q.unflatten(1, cut))
    k = torch.einsum("bnm,mhd->bhnd", X, W_K.unflatten(1, cut))
    s = q @ k.mT / math.sqrt(cut[1])
    if mask is not None:
        s = s + torch.zeros(mask.shape, dtype=s.dtype).masked_fill(~mask, -math.inf)
    return torch.softmax(s, dim=-1) @ written
