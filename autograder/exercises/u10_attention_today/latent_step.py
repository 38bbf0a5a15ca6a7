"""Defines the exercise `latent_step`, one token of multi-head latent attention that builds no keys or values."""

import math

import numpy as np
import torch

from ..attention_parts import INTERLEAVED, merge, split, split_interleaved
from ..kit import (
    IN_FLOAT64,
    RTOL_FLOAT64,
    Leaf,
    exercise,
    normal,
    other_order,
    profile,
    size,
    weights,
    with_a_row_of_zeros,
)
from ..u04_multi_head.merge_heads import plain as merge_heads
from ..u04_multi_head.split_heads import plain as split_heads
from ..u07_transformer_block.parts import named

PARAMS = named(
    {
        "W_Q": weights("d_model h*d_head", 1.3),
        "W_DKV": weights("d_model d_latent", 1.2),
        "W_UK": weights("d_latent h*d_head", 1.2),
        "W_UV": weights("d_latent h*d_v", 1.2),
        "W_O": weights("h*d_v d_model"),
    }
)


def latent_step(
    x: normal("B 1 d_model"), cache: normal("B t d_latent", 1.2), params: PARAMS, n_heads: size("h")
) -> (
    Leaf("float array", "out"),
    Leaf("float array", "cache"),
):
    C = torch.cat([cache, x @ params["W_DKV"]], dim=1)
    W_Q, W_UK, W_UV = (params[name].unflatten(-1, (n_heads, -1)) for name in ("W_Q", "W_UK", "W_UV"))
    W_O = params["W_O"].unflatten(0, (n_heads, -1))
    # One call computes each sum of the definition, so that this code makes no tensor as large as keys or values.
    scores = torch.einsum("bim,mhd,lhd,btl->bhit", x, W_Q, W_UK, C) / W_Q.shape[-1] ** 0.5
    return torch.einsum("bhit,btl,lhv,hvm->bim", torch.softmax(scores, dim=-1), C, W_UV, W_O), C


def plain(x, cache, params, n_heads):
    W_UK = split_heads(params["W_UK"][None], n_heads)
    W_UV = split_heads(params["W_UV"][None], n_heads)
    new = x @ params["W_DKV"]
    C = torch.cat([cache, new], dim=1)
    Q = split_heads(x @ params["W_Q"], n_heads)
    d_head = Q.shape[-1]
    latents = C[:, None]
    latent_Q = Q @ W_UK.mT
    scores = latent_Q @ latents.mT / math.sqrt(d_head)
    weights = torch.softmax(scores, dim=-1)
    latent_heads = weights @ latents
    heads = latent_heads @ W_UV
    out = merge_heads(heads) @ params["W_O"]
    return out, C


def cases(case):
    drawn = case.draw()
    same = {name: drawn[name] for name in ("B", "d_model", "h", "d_head", "d_v", "d_latent")}
    yield case("values", "{t} tokens in the cache", **drawn)
    yield case("values", "another cache, one token longer", t=drawn["t"] + 1, **same)
    yield case("values", "float32", dtype=np.float32)
    yield case("values", "a latent wider than all heads", d_latent=range(30, 40), h=3, d_head=range(3, 6))
    yield case("edge cases", "a token of zeros in the cache", layout={"cache": with_a_row_of_zeros})
    yield case("edge cases", "an empty cache (t = 0)", t=0)
    yield case("edge cases", "one token in the cache", t=1)
    yield case("edge cases", "a single sequence (B = 1)", B=1)
    yield case("edge cases", "one head (h = 1)", h=1)
    drawn = case.draw()
    drawn["cache"] *= 1e4
    yield case("edge cases", "scores around ±10,000", rtol=1e-6, **drawn)
    yield case("edge cases", "params in another order", **other_order(case.draw()))
    for heads in case.rng.permutation(range(3, 6))[:2]:
        yield case("absorbed", "intermediate tensors with {h} heads", watch="t*d_v", h=heads, **WIDE)
    yield case("edge cases", "a long cache ({t} tokens)", t=range(530, 560), B=1, h=2, d_head=3, d_v=2)
    yield case("edge cases", f"{IN_FLOAT64} (d_head = 4)", d_head=4, rtol=RTOL_FLOAT64)
    yield case("edge cases", "all scores near −10,000, many tokens, two are equal", rtol=1e-5, **all_low(case))
    sizes = {**WIDE, "B": 1, "h": 2, "t": 6, "d_v": 7, "d_head": 9}
    yield case("absorbed", f"{{t}} tokens, {{h}} heads: {SINGLE}", watch=7, **sizes)


#: A narrow latent, wide heads and many tokens, so that keys and values are the largest of all tensors.
WIDE = {"B": 2, "d_latent": range(4, 6), "d_head": (9, 10), "d_v": (7, 8), "t": range(11, 15), "d_model": range(15, 18)}


#: The words after the sizes in the label of a case that looks for keys and values of single tokens.
SINGLE = "what is made of a single token"


def all_low(case):
    """Make the new token's keys its negated queries, and all others' keys almost the same; the values differ."""
    drawn = case.draw(B=1, t=range(60, 70))
    params, h = drawn["params"], drawn["h"]
    new, query = drawn["x"][0] @ params["W_DKV"], drawn["x"][0] @ params["W_Q"]
    heads = query.reshape(h, -1)
    keys = -1e4 * heads * heads.shape[1] ** 0.5 / (heads**2).sum(-1, keepdims=True)
    params["W_UK"] = new.T @ keys.reshape(1, -1) / (new**2).sum()
    cache = drawn["cache"][0]
    along = cache @ new.T / (new**2).sum()
    drawn["cache"] = (cache - along * new + (1 + 1e-4 * along) * new)[None]
    drawn["cache"][:, 1] = drawn["cache"][:, 0]
    return drawn


def of_single_tokens(case, arrays):
    """Return a message if a row or column of an intermediate tensor is the key or value of a cached token."""
    _, cache, params, n_heads = case.args
    for name, letter in (("W_UK", "K"), ("W_UV", "V")):
        whole = cache[0] @ params[name]
        for known in (whole, whole.reshape(len(whole) * n_heads, -1)):
            known = known / np.linalg.norm(known, axis=-1, keepdims=True)
            width = known.shape[1]
            for array in (array for array in arrays if array.dtype.kind == "f"):
                for rows in (array, np.swapaxes(array, -1, -2) if array.ndim > 1 else array):
                    rows = rows.reshape(-1, rows.shape[-1])
                    if rows.shape[-1] == width and np.isfinite(rows).all():
                        sizes = np.linalg.norm(rows, axis=-1, keepdims=True)
                        if (rows @ known.T > (1 - 1e-9) * np.maximum(sizes, 1e-12)).any():
                            return f"your code makes {letter} of cached tokens, in a tensor of shape {array.shape}"
    return None


def keys_or_values(case, arrays):
    """Return a message if an intermediate tensor holds the keys or values of the tokens, of all heads or of one."""
    if case.label.endswith(SINGLE):
        return of_single_tokens(case, arrays)
    x, cache, params, n_heads = case.args
    C = np.concatenate([cache, x @ params["W_DKV"]], axis=1)
    for name, letter in (("W_UK", "K"), ("W_UV", "V")):
        parts = [
            latents @ W for latents in (C, cache) for W in (params[name], *np.split(params[name], n_heads, axis=-1))
        ]
        known = [profile(numbers) for part in parts for numbers in (part, part[0])]
        for array in (array for array in arrays if array.dtype.kind == "f"):
            if any(array.size == one.size and np.allclose(profile(array), one, atol=1e-5) for one in known):
                return f"your code makes {letter} of the cached tokens, in a tensor of shape {array.shape}"
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Known mistakes


def step(x, cache, params, n_heads, *, explicit=False, cut=split, front=False):
    """Take a step with slips. explicit: whether keys and values are made.

    cut: how the columns of the up-projections are split into heads.
    """
    p, new = params, x @ params["W_DKV"]
    C = torch.cat([new, cache] if front else [cache, new], dim=1)
    Q = split(x @ p["W_Q"], n_heads)
    W_UK, W_UV = (cut(p[name][None], n_heads) for name in ("W_UK", "W_UV"))  # (1, h, d_latent, d)
    root = Q.shape[-1] ** 0.5
    if explicit:
        scores = Q @ split(C @ p["W_UK"], n_heads).mT
        heads = torch.softmax(scores / root, -1) @ split(C @ p["W_UV"], n_heads)
    else:
        weights = torch.softmax(Q @ W_UK.mT @ C[:, None].mT / root, -1)
        heads = weights @ C[:, None] @ W_UV
    return merge(heads) @ p["W_O"], C


MISTAKES = (
    ("keys-and-values-made", {"explicit": True},
     "Your numbers are right, but you make keys or values of all tokens from the latents, which the small cache "
     "should save. In which order can you multiply the three factors of a score?"),
    ("new-token-first", {"front": True}, "You put the new latent first in the cache; it should be last."),
    ("interleaved-heads", {"cut": split_interleaved}, INTERLEAVED),
)  # fmt: skip

EXERCISE = exercise(
    latent_step,
    credit={"values": 0.4, "edge cases": 0.2, "absorbed": 0.3, "gradients": 0.1},
    sizes=range(2, 8),
    ranges={"d_model": range(9, 14), "t": range(7, 11), "d_latent": range(5, 9)},
    slipped=step,
    library="torch",
    made=keys_or_values,
)
