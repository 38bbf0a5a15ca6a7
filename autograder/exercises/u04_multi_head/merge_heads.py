"""Defines the exercise `merge_heads`, which concatenates the heads' outputs along the features."""

import numpy as np
import torch

from .. import attention_parts as parts
from ..kit import Leaf, exercise, normal, strided


def merge_heads(X: normal("B h n d_head")) -> Leaf("float array", "the result"):
    return torch.cat(X.unbind(1), dim=-1)


def plain(X):
    B, h, n, d_head = X.shape
    return X.transpose(1, 2).reshape(B, n, h * d_head)


def cases(case):
    for _ in range(3):
        yield case("values", "B = {B}, {h} heads, n = {n}, d_head = {d_head}")
    yield case("values", "float32", dtype=np.float32)
    yield case("values", "as split_heads leaves it: not contiguous", layout=heads_behind_tokens)
    yield case("values", "every second number of a larger tensor", layout=strided)
    yield case("values", "float16", dtype=np.float16)
    yield case("edge cases", "as many sequences as heads", B="h")
    yield case("edge cases", "as many tokens as heads", n="h")
    yield case("edge cases", "one head, and a single sequence of a single token", h=1, B=1, n=1)
    yield case("edge cases", "one head, one number wide", h=1, d_head=1)
    yield case("edge cases", "B = 1", B=1)
    yield case("edge cases", "a single token (n = 1)", n=1)
    yield case("edge cases", "one head", h=1)


def heads_behind_tokens(X):
    return X.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3)


MISTAKES = (
    ("reshape-only", parts.merge_reshaped, parts.MERGED_RESHAPED),
    ("features-before-swap", lambda X: X.transpose(2, 3).reshape(X.shape[0], X.shape[2], -1),
     "You swap two axes, but not the right two. Swap heads and tokens."),
)  # fmt: skip

EXERCISE = exercise(
    merge_heads, credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1}, sizes=range(2, 9), library="torch"
)
