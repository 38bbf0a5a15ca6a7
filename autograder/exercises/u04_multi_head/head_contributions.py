"""Defines the exercise `head_contributions`, which gives what each head by itself adds to the tokens."""

import torch

from ..kit import Leaf, exercise, normal, size, weights
from .bmm_attention import plain as bmm_attention
from .multi_head_attention import multi_head_attention
from .parts import HEAD_SLIPS, RANGES, SIZES, each_head, layer_cases
from .split_heads import plain as split_heads


def head_contributions(
    X: normal("B n d_model"),
    W_Q: weights("d_model h*d_head", 1.3),
    W_K: weights("d_model h*d_head", 1.3),
    W_V: weights("d_model h*d_head", 1.3),
    W_O: weights("h*d_head d_model"),
    n_heads: size("h"),
    mask=None,
) -> Leaf("float array", "the contributions"):
    zero = torch.zeros(W_O.shape[1], dtype=X.dtype)
    width = W_Q.shape[1] // n_heads
    alone = []
    for head in range(n_heads):
        own = torch.zeros_like(W_O)
        own[head * width : (head + 1) * width] = W_O[head * width : (head + 1) * width]
        alone.append(multi_head_attention(X, W_Q, W_K, W_V, own, zero, n_heads, mask))
    return torch.stack(alone, 1)


def plain(X, W_Q, W_K, W_V, W_O, n_heads, mask=None):
    Q = split_heads(X @ W_Q, n_heads)
    K = split_heads(X @ W_K, n_heads)
    V = split_heads(X @ W_V, n_heads)
    heads = bmm_attention(Q, K, V, mask)
    d_head = heads.shape[-1]
    contributions = []
    for head in range(n_heads):
        rows = W_O[head * d_head : (head + 1) * d_head]
        contributions.append(heads[:, head] @ rows)
    return torch.stack(contributions, dim=1)


def in_blocks(W_O, n_heads):
    return W_O.unflatten(0, (n_heads, -1))


def written(X, W_Q, W_K, W_V, W_O, n_heads, mask=None, *, cut=in_blocks, after=lambda out: out, **slips):
    """Return the contributions with slips. `cut` turns W_O into (h, d_head, d_model); `after` changes the result."""
    return after(each_head(X, W_Q, W_K, W_V, n_heads, mask, **slips) @ cut(W_O, n_heads))


MISTAKES = (
    ("rows-interleaved", {"cut": lambda W_O, h: W_O.unflatten(0, (-1, h)).transpose(0, 1)},
     "You cut W_O's rows the wrong way. A head owns a contiguous block."),
    ("first-block-for-all", {"cut": lambda W_O, h: in_blocks(W_O, h)[:1]},
     "You multiply every head by the first head's rows of W_O."),
    ("all-but-its-own", {"after": lambda out: out.sum(1, keepdim=True) - out},
     "You return for each head what the other heads write. What does the head write by itself?"),
    ("blocks-reversed", {"cut": lambda W_O, h: in_blocks(W_O, h).flip(0)},
     "You multiply each head by another head's rows of W_O."),
    ("whole-for-each", {"after": lambda out: out.sum(1, keepdim=True).expand_as(out)},
     "You return the whole output for each head. What does the head write by itself?"),
    ("running-sum", {"after": lambda out: out.cumsum(1)}, "Each of your contributions also includes those of the "
                                                          "heads before it."),
    *(row for row in HEAD_SLIPS if row[0] != "mask-added"),
)  # fmt: skip

EXERCISE = exercise(
    head_contributions,
    cases=layer_cases,
    credit={"values": 0.4, "masks": 0.3, "edge cases": 0.2, "gradients": 0.1},
    sizes=SIZES,
    ranges=RANGES,
    slipped=written,
    library="torch",
)
