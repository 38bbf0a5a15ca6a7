"""Defines the exercise `extend_cache`, in which new tokens see the cache and the new tokens up to themselves."""

import numpy as np
import torch
import torch.nn.functional as F

from .. import attention_parts as attention
from ..attention_parts import merge, split
from ..kit import RTOL_FLOAT64, Drawn, Leaf, exercise, normal, size, weights, with_a_row_of_zeros
from ..u04_multi_head.merge_heads import plain as merge_heads
from ..u04_multi_head.split_heads import plain as split_heads
from .decode_step import past
from .parts import FLOAT64, HALF, LAYER, TILED, groups, in_groups, tiled
from .parts import attention as plain_attention


def extend_cache(
    X_new: normal("B n_new d_model"),
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
    B, n_new, _ = X_new.shape
    Q = (X_new @ W_Q).view(B, n_new, n_heads, -1).transpose(1, 2)
    K, V = (
        torch.cat([kept, (X_new @ W).view(B, n_new, n_kv_heads, -1).transpose(1, 2)], dim=2)
        for kept, W in zip(cache, (W_K, W_V), strict=True)
    )
    seen = torch.ones(n_new, K.shape[2], dtype=torch.bool).tril(cache[0].shape[2])
    heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=seen, enable_gqa=True)
    return heads.transpose(1, 2).reshape(B, n_new, -1) @ W_O, (K, V)


def plain(X_new, cache, W_Q, W_K, W_V, W_O, n_heads, n_kv_heads):
    B, n_new, _ = X_new.shape
    n_rep = n_heads // n_kv_heads
    Q = split_heads(X_new @ W_Q, n_heads)
    K_new = split_heads(X_new @ W_K, n_kv_heads)
    V_new = split_heads(X_new @ W_V, n_kv_heads)
    K_cached, V_cached = cache
    K = torch.cat([K_cached, K_new], dim=2)
    V = torch.cat([V_cached, V_new], dim=2)
    t = K_cached.shape[2]
    causal = torch.ones(n_new, t + n_new, dtype=torch.bool).tril(diagonal=t)
    Q_in_groups = Q.reshape(B, n_kv_heads, n_rep, n_new, -1)
    heads = plain_attention(Q_in_groups, K[:, :, None], V[:, :, None], causal)
    out = merge_heads(heads.reshape(B, n_heads, n_new, -1)) @ W_O
    return out, (K, V)


#: Three or more query heads share a key/value head, so that K and V together are smaller than a copy per query head.
WIDE = ({"h": 6, "g": 2}, {"h": 8, "g": 2}, {"h": 9, "g": 3}, {"h": 5, "g": 1})


def cases(case):
    first, second, third = groups(case.rng)
    drawn = case.draw(**first)
    same = {name: drawn[name] for name in ("B", "d_model", "h", "g", "d_head", "n_new")}
    yield case("values", "{n_new} tokens after {t} in the cache", **drawn)
    yield case("values", "another cache, one token longer", t=drawn["t"] + 1, **same)
    yield case("values", "{n_new} tokens after {t} in the cache", t=range(2, 4), n_new=range(6, 9), **second)
    yield case("values", "float32", dtype=np.float32, **third)
    yield case("edge cases", "a token of zeros in the cache", layout={"cache": with_a_row_of_zeros}, **second)
    yield case("edge cases", "an empty cache (t = 0)", t=0, **first)
    yield case("edge cases", "a single new token (n_new = 1)", n_new=1, **second)
    yield case("edge cases", "a single sequence (B = 1)", B=1, **third)
    yield case("edge cases", "as many key/value heads as heads (g = h)", h=4, g=4)
    yield case("edge cases", "one key/value head (g = 1)", h=4, g=1)
    drawn = case.draw(**second)
    drawn["W_Q"] *= 90
    drawn["cache"][0][:] *= 90
    yield case("edge cases", "scores around ±10,000", rtol=1e-6, **drawn)
    drawn = case.draw(**{**first, "t": 0})
    drawn["W_Q"] *= 150
    drawn["W_K"] *= 150
    yield case("edge cases", "scores around ±20,000 and an empty cache", rtol=1e-6, **drawn)
    room = {"B": 2, "d_model": range(7, 11), "d_head": range(6, 9), "n_new": range(3, 5), "t": range(9, 13)}
    for at in case.rng.permutation(len(WIDE))[:2]:
        words = "intermediate tensors with {h} heads, {g} key/value heads"
        yield case("memory", words, watch="B*h*t*d_head", **room, **WIDE[at])
    few = {"B": 1, "h": 4, "g": 2, "d_head": range(5, 7), "n_new": range(2, 4), "t": range(90, 120)}
    yield case("a long cache", LONG, watch="t*t", **few)
    one = {"B": 1, "n_new": 1, "h": 4, "g": 1, "d_head": range(6, 9), "t": range(17, 21)}
    words = "intermediate tensors for one new token after {t}, a single sequence and one key/value head"
    yield case("memory", words, watch="B*h*t*d_head", **one)
    yield case("edge cases", FLOAT64, d_head=4, rtol=RTOL_FLOAT64, **first)
    yield case("values", "float16", dtype=np.float16, rtol=HALF, **first)
    zeros = "a token of zeros among the new ones, {h} heads, {g} key/value heads"
    yield case("edge cases", zeros, layout={"X_new": with_a_row_of_zeros}, h=10, g=5, d_head=2)
    yield case("gradients", "gradients with an empty cache and g = h", gradient=True, t=0, h=2, g=2)


LONG = "intermediate tensors for {n_new} tokens after {t}"


def too_large(case, arrays):
    """Return a message if an intermediate tensor is as large as keys copied for every query head or as a full table."""
    if case.criterion == "a long cache":
        m = case.sizes["t"] + case.sizes["n_new"]
        square = next((array for array in arrays if array.size >= m * m), None)
        return (
            None
            if square is None
            else (
                f"your code makes a tensor of shape {square.shape} for {m} tokens. A cache of 100,000 would need "
                "as many rows and columns"
            )
        )
    cached = case.args[1][0]
    B, _, t, d = cached.shape
    limit = B * case.sizes["h"] * (t + case.sizes["n_new"]) * d
    for array in arrays:
        if array.size >= limit:
            return (
                f"your code makes a tensor of shape {array.shape}, which has as many numbers as K or V with "
                f"a copy for each of the {case.sizes['h']} query heads"
            )
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Known mistakes


def below(n_new, t, shift=0):
    """Return a mask (n_new, t + n_new) in which row r sees the columns up to t + r + shift."""
    return torch.ones(n_new, t + n_new, dtype=torch.bool).tril(t + shift)


def top_left(n_new, t):
    return below(n_new, t, -t)


def last_rows(n_new, t):
    """Cut the correct mask out of the full mask of all tokens."""
    return below(t + n_new, 0)[t:]


def not_the_oldest(n_new, t):
    return below(n_new, t) & (torch.arange(t + n_new) > 0)


def not_the_past(n_new, t):
    """Let the new tokens see only new tokens."""
    return below(n_new, t) & (torch.arange(t + n_new) >= t)


def by_place_in_queue(allowed, r):
    """Return what each row would see if the queue kept the heads of a token together, not the tokens of a head."""
    rows = torch.arange(r * len(allowed)) // r
    return allowed[rows].unflatten(0, (r, -1))


def one_for_all(K, r):
    """Don't copy: return (B, g, 1, m, d), whose axis of size 1 broadcasts over the r heads of a group."""
    return K[:, :, None]


def laid_out(share):
    """Make a copy for each query head, (B, g, r, m, d)."""
    return lambda K, r: share(K, r).unflatten(1, (-1, r))


def extend(X_new, cache, W_Q, W_K, W_V, W_O, h, g, *, seen=below, share=one_for_all, mixed=False, by_queue=False,
           in_front=False, **slips):  # fmt: skip
    """Extend the cache with slips. seen: what each new token may see."""
    Q, *new = split(X_new @ W_Q, h), split(X_new @ W_K, g), split(X_new @ W_V, g)
    K, V = (torch.cat(pair[::-1] if in_front else pair, 2) for pair in zip(cache, new, strict=True))
    allowed = seen(X_new.shape[1], cache[0].shape[2])
    allowed = by_place_in_queue(allowed, h // g) if by_queue else allowed
    read = (share(one, h // g) for one in (K, V))
    sizes = {"d_model": X_new.shape[-1], "h": h}
    heads, _ = attention.attend(Q.unflatten(1, (g, -1)), *read, allowed, sizes=sizes, **slips)
    if mixed:
        heads = heads.transpose(2, 3).flatten(2, 3).unflatten(2, (h // g, -1))
    return merge(heads.flatten(1, 2)) @ W_O, (K, V)


def gives(result):
    """Return a correct extension whose result becomes `result(out, K, V, t)`."""

    def wrong(X_new, cache, *rest):
        out, kept = extend_cache(X_new, cache, *rest)
        return result(out, *kept, cache[0].shape[2])

    return wrong


MISTAKES = (
    ("top-left", {"seen": top_left},
     "Your causal mask starts at the top left, so new token r sees the columns 0 … r, as if nothing were in the "
     "cache. How many columns come before the first new token's own?"),
    ("no-mask", {"seen": lambda n_new, t: below(n_new, t, n_new)},
     "Your new tokens see the new tokens after them. Unlike in a step of one token, the cache now holds the future."),
    ("blind-to-itself", {"seen": lambda n_new, t: below(n_new, t, -1) | top_left(n_new, t) & (t == 0)},
     "Your new tokens don't see themselves. A token's own column is the last that it may see."),
    ("one-too-many", {"seen": lambda n_new, t: below(n_new, t, 1)},
     "Your new tokens see the one after them. The mask is one column too generous."),
    ("cache-not-read", {"seen": not_the_past}, "Your new tokens see only one another, so the cache is not read."),
    ("only-the-cache", {"seen": lambda n_new, t: below(n_new, t) & ((torch.arange(t + n_new) < t) | (t == 0))},
     "Your new tokens see what was in the cache before, but neither themselves nor one another."),
    ("forgets-oldest", {"seen": not_the_oldest}, "Your new tokens don't see the oldest token."),
    ("mask-in-another-order", {"by_queue": True},
     "Your mask doesn't fit the rows of your queue. In the queue all tokens of one head come first, then those of "
     "the next."),
    ("queue-taken-apart-wrongly", {"mixed": True},
     "When you take the queue apart, you mix up heads and tokens. In which order are its rows?"),
    ("copies-for-each-head", {"share": laid_out(in_groups)},
     "Your numbers are right, but you make a tensor as large as the keys or values copied for each query head. "
     "Sharing should save that memory. Section 4 shows how the heads of a group read one matrix."),
    ("mask-after-softmax", {"masking": "after"}, attention.AFTER),
    ("tiled-heads", {"share": laid_out(tiled)}, TILED),
    ("unstable", {"stable": False}, attention.UNSTABLE),
    ("table-of-all-tokens", {"seen": last_rows},
     "Your numbers are right, but you make a table of all tokens by all tokens, including the cached ones. You "
     "don't need most of it."),
    ("last-token-only", gives(lambda out, K, V, t: (out[:, -1:], (K, V))),
     "You return only the last new token's row. Each new token has a row of its own."),
    ("new-tokens-first", {"in_front": True},
     "You put the new tokens before the cached ones; they belong after them."),
)  # fmt: skip

EXERCISE = exercise(
    extend_cache,
    credit={"values": 0.4, "edge cases": 0.25, "memory": 0.15, "a long cache": 0.1, "gradients": 0.1},
    slipped=extend,
    made=too_large,
    not_from=("decode_step", "grouped_query_attention"),
    **{**LAYER, "ranges": {**LAYER["ranges"], "n_new": range(3, 6)}},
)
