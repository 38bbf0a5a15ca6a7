"""Splits and merges heads, and turns scores into weights."""

import torch


def split_heads(X, n_heads):
    """Split (B, n, h*d_head) into (B, h, n, d_head): each head is a block of columns."""
    return X.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(X):
    """Merge (B, h, n, d_head) into (B, n, h*d_head), the inverse of split_heads."""
    return X.transpose(1, 2).flatten(2)


def masked_softmax(scores, mask=None):
    """Apply the softmax over the last axis to the allowed keys; others get weight 0."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1) * mask
