"""Unit 8: other right ways than the course's own, so that their steps are known to be right, too."""

import math

import torch
import torch.nn.functional as F


def _pattern(query_rows, key_rows, block, d_head=None):
    """Causal attention pattern of a block; queries and keys may be read from different streams."""
    n = query_rows.shape[-2]
    scores = query_rows @ block["W_Q"] @ (key_rows @ block["W_K"]).mT
    scores = scores / math.sqrt(d_head or block["W_Q"].shape[1])
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(dim=-1)


def repeated_sequences__index_modulo_period(batch, period, repeats, vocab_size, generator):
    block = torch.randint(vocab_size, (batch, period), generator=generator)
    return block[:, torch.arange(period * repeats) % period]


def prefix_matching_score__gather_per_row(weights, period):
    n = weights.shape[-1]
    i = torch.arange(n)
    column = (i - (period - 1)).clamp(min=0)
    index = column[:, None].expand(*weights.shape[:-1], 1)
    each = weights.gather(-1, index)[..., 0]
    each = torch.where(i >= period, each, torch.zeros_like(each))
    return each.sum(dim=-1) / max(n - period, 1)


def ov_circuit__outer_products(W_E, W_V, W_O, W_U):
    total = 0
    for k in range(W_V.shape[1]):
        fetched = W_E @ W_V[:, k]
        written = W_O[k] @ W_U
        total = total + torch.outer(fetched, written)
    return total


def composition_score__row_by_row(W_QK, W_OV):
    if not (W_QK.any() and W_OV.any()):
        return torch.zeros((), dtype=W_QK.dtype)
    reads, writes = (W_QK / W_QK.abs().max(), W_OV / W_OV.abs().max())
    reads = reads / torch.linalg.vector_norm(reads)
    writes = writes / torch.linalg.vector_norm(writes)
    seen = [reads @ row for row in writes]
    return torch.linalg.vector_norm(torch.cat(seen))


def composition_score__by_key_directions(W_QK, W_OV):
    if W_QK.count_nonzero() == 0 or W_OV.count_nonzero() == 0:
        return torch.zeros((), dtype=W_QK.dtype)
    A, B = (W_QK / W_QK.abs().max(), W_OV / W_OV.abs().max())
    product = 0
    for k in range(A.shape[1]):
        product = product + torch.outer(A[:, k], B[:, k])
    sizes = [torch.cat([*M]).norm() for M in (product, A, B)]
    return sizes[0] / sizes[1] / sizes[2]


def composition_score__grams(W_QK, W_OV):
    keys, notes = (W_QK.T @ W_QK, W_OV.T @ W_OV)
    sizes = keys.trace() * notes.trace()
    if sizes == 0:
        return sizes
    return ((keys * notes).sum().clamp(min=0) / sizes).sqrt()


def composition_score__normalised_first(W_QK, W_OV):
    tiny = torch.finfo(W_QK.dtype).tiny
    later = F.normalize(W_QK.flatten(), dim=0, eps=tiny).view_as(W_QK)
    earlier = F.normalize(W_OV.flatten(), dim=0, eps=tiny).view_as(W_OV)
    return torch.linalg.vector_norm(torch.einsum("qm,rm->qr", later, earlier))


def in_context_learning_score__text_by_text(losses, early, late):
    mean = torch.zeros((), dtype=losses.dtype)
    for count, text in enumerate(losses.unbind(0), start=1):
        change = text[late] - text[early]
        mean = mean + (change - mean) / count
    return mean
