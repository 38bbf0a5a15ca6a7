"""Defines the exercise `grouped_query_attention`, in which consecutive query heads share one of g key/value heads."""

import torch
import torch.nn.functional as F

from .. import attention_parts
from ..kit import Leaf, Raises, exercise, normal, size, weights
from ..u04_multi_head.merge_heads import plain as merge_heads
from ..u04_multi_head.split_heads import plain as split_heads
from .parts import (
    CAUSAL,
    LAYER,
    LAYER_SLIPS,
    TILED,
    attention,
    averaged,
    first_for_all,
    grouped,
    groups,
    layer_cases,
    more_layer_cases,
    tiled,
)
from .repeat_kv import plain as repeat_kv


def grouped_query_attention(
    X: normal("B n d_model"),
    W_Q: weights("d_model h*d_head", 1.3),
    W_K: weights("d_model g*d_head", 1.3),
    W_V: weights("d_model g*d_head", 1.3),
    W_O: weights("h*d_head d_model"),
    n_heads: size("h"),
    n_kv_heads: size("g"),
    mask=None,
) -> Leaf("float array", "the output"):
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads do not divide {n_heads}")
    B, n, _ = X.shape
    Q = (X @ W_Q).view(B, n, n_heads, -1).transpose(1, 2)
    K, V = ((X @ W).view(B, n, n_kv_heads, -1).transpose(1, 2) for W in (W_K, W_V))
    mask = None if mask is None else mask.broadcast_to(B, n_heads, n, n)
    heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask, enable_gqa=True)
    return torch.einsum("bhnd,hde->bne", heads, W_O.view(n_heads, -1, W_O.shape[1]))


def plain(X, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads, mask=None):
    if n_heads % n_kv_heads != 0:
        raise ValueError(f"{n_kv_heads} key/value heads do not divide {n_heads}")
    n_rep = n_heads // n_kv_heads
    Q = split_heads(X @ W_Q, n_heads)
    K = split_heads(X @ W_K, n_kv_heads)
    V = split_heads(X @ W_V, n_kv_heads)
    heads = attention(Q, repeat_kv(K, n_rep), repeat_kv(V, n_rep), mask)
    return merge_heads(heads) @ W_O


def cases(case):
    yield from layer_cases(case, groups(case.rng), "{h} heads, {g} key/value heads")
    yield case("edge cases", "as many key/value heads as heads (g = h)", h=4, g=4)
    yield case("masks", "a causal mask, and as many key/value heads as heads", mask=CAUSAL, h=4, g=4)
    yield case("edge cases", "one key/value head (g = 1)", h=4, g=1)
    for h, g in ((6, 4), (8, 3)):
        yield case("errors", "{g} key/value heads for {h} heads", h=h, g=g, raises=Raises("ValueError"))
    yield from more_layer_cases(case, {"h": 6, "g": 2}, {"h": 1, "g": 1}, {"h": 10, "g": 5, "d_head": 2})
    yield case("errors", "more key/value heads than heads: {g} for {h}", h=2, g=4, raises=Raises("ValueError"))


def of_each_group(Q, g):
    """Use the first query head of each group for the whole group."""
    rep = Q.shape[1] // g
    return Q[:, ::rep].repeat_interleave(rep, 1)


MISTAKES = (
    ("root-of-width-per-key-head", {"scaling": "root of width per key head"},
     "You divide the scores by the root of h·d_head / g. A head's dot products run over d_head entries."),
    ("queries-shared", {"queries": of_each_group},
     "You use the same query for all heads of a group. Share only keys and values."),
    ("tiled-keys", {"keys": tiled}, f"You share the values correctly, but not the keys. {TILED}"),
    ("first-head-for-all", {"keys": first_for_all, "values": first_for_all},
     "You let every head read the first key/value head."),
    ("averaged-heads", {"keys": averaged, "values": averaged}, "You average the key/value heads. Each group of query "
                                                               "heads reads one of them."),
    ("no-error", {"refuses": lambda h, g: False},
     "Raise a ValueError if g does not divide h, before anything else. The docstring doesn't ask for an assertion, "
     "or for an error that comes from PyTorch."),
    ("refuses-one-group", {"refuses": lambda h, g: h % g > 0 or g == 1},
     "You refuse a single key/value head, which is allowed. Which of the two counts must divide which?"),
    ("reshape-only-twice", {"split": attention_parts.split_reshaped, "merge": attention_parts.merge_reshaped},
     attention_parts.RESHAPED),
    *LAYER_SLIPS,
)  # fmt: skip

EXERCISE = exercise(
    grouped_query_attention,
    credit={"values": 0.4, "masks": 0.2, "edge cases": 0.2, "errors": 0.1, "gradients": 0.1},
    slipped=grouped,
    **LAYER,
)
