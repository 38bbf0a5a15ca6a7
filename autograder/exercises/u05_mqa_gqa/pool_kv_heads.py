"""Defines the exercise `pool_kv_heads`, which averages groups of key/value heads of a trained W_K or W_V."""

import numpy as np
import torch

from .. import attention_parts as attention
from ..kit import RTOL_FLOAT64, Leaf, by_columns, exercise, normal, size, strided


def pool_kv_heads(W: normal("d_model g*rep*d_head"), n_heads: size("g*rep"), n_kv_heads: size("g")) -> Leaf(
    "float array", "the pooled weight"
):
    width, rep = W.shape[1] // n_heads, n_heads // n_kv_heads
    columns = []
    for group in range(n_kv_heads):
        heads = [W[:, h * width : (h + 1) * width] for h in range(group * rep, (group + 1) * rep)]
        columns.append(torch.stack(heads).mean(0))
    return torch.cat(columns, 1)


def plain(W, n_heads, n_kv_heads):
    d_model = W.shape[0]
    d_head = W.shape[1] // n_heads
    n_rep = n_heads // n_kv_heads
    heads = W.reshape(d_model, n_kv_heads, n_rep, d_head)
    pooled = heads.mean(dim=2)
    return pooled.reshape(d_model, n_kv_heads * d_head)


def cases(case):
    def pooling(criterion, label, **given):
        return case(criterion, label, also={"h": "g*rep"}, **given)

    yield pooling("values", "{n_heads} heads to {g}", rep=2)
    yield pooling("values", "{n_heads} heads to {g}", rep=(3, 4))
    yield pooling("values", "float32", dtype=np.float32)
    yield pooling("values", "12 heads to 3", g=3, rep=4)
    yield pooling("edge cases", "{n_heads} heads to one", g=1, rep=(4, 6))
    yield pooling("edge cases", "as many as before (g = h)", g=(6, 8), rep=1)
    yield pooling("edge cases", "memory that is not contiguous", layout=strided)
    yield pooling("edge cases", "memory in another order", layout=by_columns)
    square = {"d_model": "g*rep*d_head", "g": 2, "rep": 8, "d_head": 2}
    yield pooling("edge cases", "{n_heads} heads to 2, d_model = h*d_head, all in float64", rtol=RTOL_FLOAT64, **square)
    yield pooling("values", "float16", dtype=np.float16, rtol=0.02)
    W = 1e-6 * case.rng.standard_normal((7, 9 * 4))
    W[:, 4 * 4 : 5 * 4] = 0.0
    yield pooling(
        "edge cases", "9 heads to 3, one of them all zeros, the others around 10^-6", W=W, g=3, rep=3, d_head=4
    )
    yield pooling("gradients", "gradients of one head to one", gradient=True, g=1, rep=1)


def mean(heads):
    """Average grouped heads, (d_model, g, rep, d_head), over rep."""
    return heads.mean(2)


def pooled(W, n_heads, n_kv_heads, *, pool=mean, interleaved=False, far_apart=False):
    width, rep = W.shape[1] // n_heads, n_heads // n_kv_heads
    heads = W.unflatten(1, (width, n_heads)).mT if interleaved else W.unflatten(1, (n_heads, width))
    if far_apart:
        return pool(heads.unflatten(1, (rep, n_kv_heads)).transpose(1, 2)).flatten(1)
    return pool(heads.unflatten(1, (n_kv_heads, rep))).flatten(1)


def of_columns(W, n_heads, n_kv_heads):
    rep = n_heads // n_kv_heads
    return W.unflatten(1, (W.shape[1] // rep, rep)).mean(2)


MISTAKES = (
    ("median-of-group", {"pool": lambda heads: heads.quantile(0.5, 2)}, "You keep the median of each group. Take the "
                                                                        "mean."),
    ("lower-median", {"pool": lambda heads: heads.median(2).values},
     "You keep the lower median of each group, which is what `torch.median` gives. Take the mean."),
    ("only-last-divided", {"pool": lambda heads: heads[:, :, :-1].sum(2) + heads[:, :, -1] / heads.shape[2]},
     "You divide only the last head of a group by its size. Check the brackets."),
    ("first-of-group", {"pool": lambda heads: heads[:, :, 0]},
     "You keep the first head of each group. Take the mean of all."),
    ("wrong-groups", {"far_apart": True}, "You pool heads that are far apart. A group is made of consecutive heads."),
    ("interleaved-heads", {"interleaved": True}, attention.INTERLEAVED),
    ("neighbouring-columns", of_columns, "You average neighbouring columns. Pool whole heads."),
    ("all-heads-averaged", lambda W, h, g: pooled(W, h, 1).repeat(1, g),
     "You average all heads and repeat the mean. Each group has a mean of its own."),
    ("first-heads", lambda W, h, g: W[:, : W.shape[1] // h * g].clone(),
     "You keep the first g heads as they are. Take the mean of each group of consecutive heads."),
)  # fmt: skip

EXERCISE = exercise(
    pool_kv_heads,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    library="torch",
    ranges={"g": range(2, 5), "rep": range(2, 5), "d_head": range(3, 8), "d_model": range(5, 12)},
    slipped=pooled,
)
