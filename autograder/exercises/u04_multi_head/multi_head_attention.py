"""Defines the exercise `multi_head_attention`, the whole layer from tokens to output, with b_O."""

import torch

from .. import attention_parts as parts
from ..kit import Leaf, exercise, normal, size, weights
from .bmm_attention import bmm_attention
from .bmm_attention import plain as plain_attention
from .merge_heads import plain as merge_heads
from .parts import HEAD_SLIPS, RANGES, SIZES, each_head, layer_cases
from .split_heads import plain as split_heads


def multi_head_attention(
    X: normal("B n d_model"),
    W_Q: weights("d_model h*d_head", 1.3),
    W_K: weights("d_model h*d_head", 1.3),
    W_V: weights("d_model h*d_head", 1.3),
    W_O: weights("h*d_head d_model"),
    b_O: normal("d_model"),
    n_heads: size("h"),
    mask=None,
) -> Leaf("float array", "the output"):
    out = torch.zeros(*X.shape[:2], W_O.shape[1], dtype=X.dtype) + b_O
    width = W_Q.shape[1] // n_heads
    if mask is not None:
        mask = mask.broadcast_to(X.shape[0], n_heads, X.shape[1], X.shape[1])
    for head in range(n_heads):
        own = slice(head * width, (head + 1) * width)
        of_head = None if mask is None else mask[:, head]
        out = out + bmm_attention(X @ W_Q[:, own], X @ W_K[:, own], X @ W_V[:, own], of_head) @ W_O[own]
    return out


def plain(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    Q = split_heads(X @ W_Q, n_heads)
    K = split_heads(X @ W_K, n_heads)
    V = split_heads(X @ W_V, n_heads)
    heads = plain_attention(Q, K, V, mask)
    concatenated = merge_heads(heads)
    return concatenated @ W_O + b_O


def layer(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None, *, keep=lambda heads: heads, **slips):
    """Apply the layer with slips. `keep` changes the heads' outputs (B, h, n, d_head)."""
    heads = each_head(X, W_Q, W_K, W_V, n_heads, mask, **slips)
    return parts.merge(keep(heads)) @ W_O + b_O


def bias_per_head(X, W_Q, W_K, W_V, W_O, b_O, n_heads, *mask):
    return layer(X, W_Q, W_K, W_V, W_O, n_heads * b_O, n_heads, *mask)


def last_alone(heads):
    """Return the outputs of the last head, with zeros for all others."""
    kept = torch.zeros_like(heads)
    kept[:, -1] = heads[:, -1]
    return kept


MISTAKES = (
    *HEAD_SLIPS,
    ("bias-per-head", bias_per_head, "You add b_O once per head. Add it once, to the sum."),
    ("last-head-only", {"keep": last_alone}, "Only the last head counts in your result. Do you overwrite it in a "
                                             "loop?"),
)  # fmt: skip

EXERCISE = exercise(
    multi_head_attention,
    cases=layer_cases,
    credit={"values": 0.4, "masks": 0.3, "edge cases": 0.2, "gradients": 0.1},
    sizes=SIZES,
    ranges=RANGES,
    slipped=layer,
    library="torch",
    contains=("split_heads", "merge_heads"),
)
