"""Defines the exercise `bmm_attention`, which computes N attentions at once by batched matrix products."""

import math
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F

from .. import attention_parts as parts
from ..kit import Drawn, Leaf, by_columns, exercise, mask, normal, random_mask, strided, with_a_row_of_zeros

#: The error that float16 may cause in sums of a few terms.
HALF = 0.02


def bmm_attention(Q: normal("N n d_k", 1.2), K: normal("N m d_k", 1.2), V: normal("N m d_v"), mask=None) -> Leaf(
    "float array", "the output"
):
    if mask is None:
        return F.scaled_dot_product_attention(Q, K, V)
    mask = mask.broadcast_to(Q.shape[0], Q.shape[1], K.shape[1])
    allowed = mask.any(-1, keepdim=True)
    output = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask | ~allowed)
    return output * allowed


def plain(Q, K, V, mask=None):
    d_k = Q.shape[-1]
    scores = Q @ K.transpose(-1, -2) / math.sqrt(d_k)
    if mask is None:
        mask = torch.ones(scores.shape, dtype=torch.bool)
    hidden = ~mask
    scores = scores.masked_fill(hidden, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    weights = weights.masked_fill(hidden, 0.0)
    return weights @ V


def above_0(rng, shape, sizes):
    return np.abs(rng.standard_normal(shape))


def cases(case):
    pose = partial(case, also={"B": "N"})
    own, empty = mask("N n m"), mask("N n m", empty_rows=True)
    causal = Drawn("n m", lambda rng, shape, sizes: np.tri(*shape, dtype=bool))
    nothing = Drawn("n m", lambda rng, shape, sizes: np.zeros(shape, bool))
    yield pose("values", "no mask")
    yield pose("values", "no mask, float32", dtype=np.float32)
    yield pose("masks", "a mask of its own for each attention", mask=own)
    yield pose("masks", "one mask (n, m) for all", mask=mask("n m"))
    yield pose("masks", "a mask of keys (N, 1, m)", mask=mask("N 1 m"))
    yield pose("masks", "a causal mask", m="n", mask=causal)
    yield pose("masks", "one mask (1, n, m) for all", mask=mask("1 n m"))
    positive = {"Q": Drawn("N n d_k", above_0), "K": Drawn("N m d_k", above_0)}
    yield pose("masks", "a mask, and no score below 0", mask=own, **positive)
    yield pose("values", "many keys (m = {m})", m=range(35, 40))
    yield pose("edge cases", "queries that may attend to nothing", mask=empty)
    yield pose("edge cases", "nothing allowed at all", mask=nothing)
    yield pose("edge cases", "a key of zeros", layout={"K": with_a_row_of_zeros})
    yield pose("edge cases", "one query, one key", n=1, m=1)
    yield pose("edge cases", "a single attention (N = 1)", N=1)
    drawn = case.draw(d_k=4, mask=own)
    Q, K, low = drawn["Q"], drawn["K"], drawn.pop("mask")
    Q[:], K[:] = np.round(Q * 4) / 4, np.sign(K) * 5e3
    K[:, 0], low[:, 0] = -5e3 * np.sign(Q[:, 0]), np.arange(drawn["m"]) == 0  # query 0 may see only low scores
    yield pose("edge cases", "scores around ±10,000", **drawn, rtol=1e-6)
    yield pose("edge cases", "scores around ±10,000 under a mask", **drawn, mask=low, rtol=1e-6)
    apart = {"Q": queries_first, "K": strided, "V": by_columns}
    yield pose("edge cases", "memory that is not contiguous", layout=apart)
    yield pose("gradients", "gradients where a query may attend to nothing", mask=empty, gradient=True)
    yield pose("masks", "one mask (m,) for all", mask=mask("m"))
    yield pose("masks", "one mask (n, m) for all, and as many attentions as queries", N="n", mask=mask("n m"))
    by_query = mask("N n 1", empty_rows=True)
    yield pose("edge cases", "a mask (N, n, 1): all keys or none", mask=by_query)
    drawn = case.draw(mask=empty)
    yield pose("masks", "a mask, float16", **drawn, dtype=np.float16, rtol=HALF)
    drawn["mask"] = random_mask(case.rng, *drawn["mask"].shape)  # another mask of the same shape
    drawn["Q"][:, 0], drawn["mask"][:, 0] = 0.0, True
    apart = {"mask": strided}
    yield pose("edge cases", "a mask, and a query of zeros that may attend to all", **drawn, layout=apart)
    drawn = case.draw(mask=mask("N 1 m"))
    drawn["mask"][0] = False
    drawn["V"][~drawn["mask"][:, 0]] = 1e30
    yield pose("edge cases", "huge values of forbidden keys, and one attention without a key", **drawn)


def queries_first(Q):
    return Q.transpose(1, 0, 2).copy().transpose(1, 0, 2)


def attend(Q, K, V, mask=None, **slips):
    return parts.attend(Q, K, V, mask, **slips)[0]


def first_mask_only(Q, K, V, mask=None):
    return attend(Q, K, V, mask[:1] if mask is not None and mask.dim() == 3 else mask)


def three_axes_only(Q, K, V, mask=None):
    if mask is not None and mask.shape != (Q.shape[0], Q.shape[1], K.shape[1]):
        raise RuntimeError("the mask must be (N, n, m)")
    return attend(Q, K, V, mask)


def untransposed(Q, K, V, mask=None):
    return parts.weigh(torch.bmm(Q, K) / Q.shape[-1] ** 0.5, mask) @ V


MISTAKES = (
    ("keys-not-transposed", untransposed, "Q and K don't fit together. Swap K's last two axes."),
    *parts.MASK_SLIPS,
    ("unstable", {"stable": False}, parts.UNSTABLE),
    ("first-mask-only", first_mask_only, "You give every attention the mask of the first one."),
    ("mask-not-broadcast", three_axes_only, "Your function fails for a mask that must be broadcast to (N, n, m)."),
)  # fmt: skip

EXERCISE = exercise(
    bmm_attention,
    credit={"values": 0.4, "masks": 0.3, "edge cases": 0.2, "gradients": 0.1},
    sizes=range(3, 10),
    slipped=attend,
    library="torch",
)
