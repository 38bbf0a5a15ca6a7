"""Defines the exercise `decode_step`, in which one new token attends to the cached keys and values and to its own."""

import numpy as np
import torch
import torch.nn.functional as F

from .. import attention_parts
from ..attention_parts import merge, split
from ..kit import RTOL_FLOAT64, Drawn, Leaf, exercise, normal, size, strided, weights, with_a_row_of_zeros
from ..u04_multi_head.merge_heads import plain as merge_heads
from ..u04_multi_head.split_heads import plain as split_heads
from .parts import FLOAT64, HALF, LAYER, attention, first_for_all, groups, in_groups
from .repeat_kv import plain as repeat_kv


def past(rng, shape, sizes):
    B, g, t, d = (sizes[name] for name in ("B", "g", "t", "d_head"))
    return rng.standard_normal((B, g, t, d)), rng.standard_normal((B, g, t, d))


def decode_step(
    x: normal("B 1 d_model"),
    cache: Drawn("", past, also="B g t d_head"),
    W_Q: weights("d_model h*d_head", 1.3),
    W_K: weights("d_model g*d_head", 1.3),
    W_V: weights("d_model g*d_head", 1.3),
    W_O: weights("h*d_head d_model"),
    n_heads: size("h"),
    n_kv_heads: size("g"),
) -> (
    Leaf("float array", "out"),
    (Leaf("float array", "the cached keys"), Leaf("float array", "the cached values")),
):
    B = x.shape[0]
    Q = (x @ W_Q).view(B, 1, n_heads, -1).transpose(1, 2)
    K, V = (
        torch.cat([kept, (x @ W).view(B, 1, n_kv_heads, -1).transpose(1, 2)], dim=2)
        for kept, W in zip(cache, (W_K, W_V), strict=True)
    )
    heads = F.scaled_dot_product_attention(Q, K, V, enable_gqa=True)
    return heads.transpose(1, 2).reshape(B, 1, -1) @ W_O, (K, V)


def plain(x, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    n_rep = n_heads // n_kv_heads
    Q = split_heads(x @ W_Q, n_heads)
    K_new = split_heads(x @ W_K, n_kv_heads)
    V_new = split_heads(x @ W_V, n_kv_heads)
    K_cached, V_cached = cache
    K = torch.cat([K_cached, K_new], dim=2)
    V = torch.cat([V_cached, V_new], dim=2)
    heads = attention(Q, repeat_kv(K, n_rep), repeat_kv(V, n_rep))
    out = merge_heads(heads) @ W_O
    return out, (K, V)


def cases(case):
    first, second, third = groups(case.rng)
    drawn = case.draw(**first)
    same = {name: drawn[name] for name in ("B", "d_model", "h", "g", "d_head")}
    yield case("values", "{t} tokens in the cache", **drawn)
    yield case("values", "another sequence, one token longer", t=drawn["t"] + 1, **same)
    yield case("values", "{t} tokens in the cache", t=range(10, 14), **second)
    yield case("values", "float32", dtype=np.float32, **third)
    yield case("edge cases", "a token of zeros in the cache", layout={"cache": with_a_row_of_zeros}, **second)
    yield case("edge cases", "an empty cache (t = 0)", t=0, **first)
    yield case("edge cases", "one token in the cache", t=1, **second)
    yield case("edge cases", "a single sequence (B = 1)", B=1, **third)
    yield case("edge cases", "as many key/value heads as heads (g = h)", h=4, g=4)
    yield case("edge cases", "one key/value head (g = 1)", h=4, g=1)
    yield case("edge cases", "memory that is not contiguous", layout=strided, **third)
    drawn = case.draw(**second)
    drawn["W_Q"] *= 90
    drawn["cache"][0][:] *= 90
    yield case("edge cases", "scores around ±10,000", rtol=1e-6, **drawn)
    yield case("edge cases", FLOAT64, d_head=4, rtol=RTOL_FLOAT64, **first)
    yield case("values", "float16", dtype=np.float16, rtol=HALF, **first)
    zeros = "a new token of zeros, {h} heads, {g} key/value heads"
    yield case("edge cases", zeros, layout={"x": with_a_row_of_zeros}, h=10, g=5, d_head=2)
    yield case("gradients", "gradients with g = h", gradient=True, h=2, g=2)


ALL, NEW = slice(None), slice(-1, None)


def step(x, cache, W_Q, W_K, W_V, W_O, h, g, *, seen=ALL, share=in_groups, **slips):
    """Take a step with slips. seen: the tokens that the new token attends to."""
    Q, *new = split(x @ W_Q, h), split(x @ W_K, g), split(x @ W_V, g)
    K, V = (torch.cat(pair, 2) for pair in zip(cache, new, strict=True))
    read = (share(one[:, :, seen], h // g) for one in (K, V))
    heads, _ = attention_parts.attend(Q, *read, sizes={"d_model": x.shape[-1], "h": h}, **slips)
    return merge(heads) @ W_O, (K, V)


def gives(result):
    """Return a correct step whose result becomes `result(x, out, K, V)`."""

    def wrong(x, cache, *rest):
        out, kept = decode_step(x, cache, *rest)
        return result(x, out, *kept)

    return wrong


def keeps_wide(*args):
    out, kept = decode_step(*args)
    return out, tuple(in_groups(one, args[-2] // args[-1]) for one in kept)


MISTAKES = (
    ("new-token-first", gives(lambda x, out, K, V: (out, (K.roll(1, 2), V.roll(1, 2)))),
     "You put the new token first in the cache; it should be last."),
    ("blind-to-itself", {"seen": slice(-1)},
     "Your new token does not attend to itself. Extend the cache before you attend."),
    ("new-token-only", {"seen": NEW}, "Your new token attends only to itself, so the cache is not read."),
    ("forgets-oldest", {"seen": slice(1, None)}, "You leave out the oldest token."),
    ("first-token-only", {"seen": slice(1)},
     "Your causal mask has one row, so the new token sees only the first key. It should see all keys."),
    ("first-head-for-all", {"share": first_for_all}, "You let every head read the first key/value head."),
    ("cache-as-list", gives(lambda x, out, K, V: (out, [K, V])),
     "You return the cache as a list. Return a tuple (K, V)."),
    ("cache-as-one-tensor", gives(lambda x, out, K, V: (out, torch.stack([K, V]))),
     "You return the cache as one tensor. Return a tuple (K, V)."),
    ("unstable", {"stable": False}, attention_parts.UNSTABLE),
    ("cache-per-head", keeps_wide, "You return a cache with a copy for each query head. Keep g heads."),
    ("flat-tuple", gives(lambda x, out, K, V: (out, K, V)),
     "You return three tensors. The cache is a tuple of its own: (out, (K, V))."),
)  # fmt: skip

EXERCISE = exercise(decode_step, credit={"values": 0.6, "edge cases": 0.3, "gradients": 0.1}, slipped=step, **LAYER)
