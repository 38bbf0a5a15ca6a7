"""Defines the exercise `split_heads`, which divides the columns among the heads and gives heads their own axis."""

import numpy as np
import torch

from .. import attention_parts as parts
from ..kit import Leaf, Raises, exercise, normal, size, strided


def split_heads(X: normal("B n h*d_head"), n_heads: size("h")) -> Leaf("float array", "the result"):
    if X.shape[-1] % n_heads:
        raise ValueError(f"{n_heads} heads do not divide {X.shape[-1]}")
    return torch.stack(X.chunk(n_heads, dim=-1), dim=1)


def plain(X, n_heads):
    B, n, width = X.shape
    if width % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide {width}")
    d_head = width // n_heads
    return X.reshape(B, n, n_heads, d_head).transpose(1, 2)


def cases(case):
    for _ in range(3):
        yield case("values", "B = {B}, n = {n}, {h} heads of {d_head}")
    yield case("values", "float32", dtype=np.float32)
    yield case("values", "memory that is not contiguous", layout=strided)
    yield case("values", "float16", dtype=np.float16)
    yield case("edge cases", "as many sequences as heads", B="h")
    yield case("edge cases", "as many tokens as heads", n="h")
    yield case("edge cases", "B = 1", B=1)
    yield case("edge cases", "a single token (n = 1)", n=1)
    yield case("edge cases", "one head", h=1)
    yield case("edge cases", "heads one number wide", d_head=1)
    # Neither number contains the other's digits, because the message must name both.
    odd = [(width, h) for width in range(20, 40) for h in (3, 4, 6, 7) if width % h and str(h) not in str(width)]
    for width, h in (*case.rng.choice(odd, 2).tolist(), (12, 5), (5, 7)):  # torch.chunk cuts 12 into four equal parts
        error = Raises("ValueError", (str(width), str(h)))
        label = f"{h} heads that do not divide a width of {width}"
        yield case("errors", label, X=normal(f"2 3 {width}"), n_heads=h, raises=error)


def checked(split):
    """Return a wrong split that raises the correct error."""

    def wrong(X, n_heads):
        split_heads(X, n_heads)
        return split(X, n_heads)

    return wrong


def says_no_numbers(X, n_heads):
    if X.shape[-1] % n_heads:
        raise ValueError("the heads do not divide the width")
    return parts.split(X, n_heads)


MISTAKES = (
    ("reshape-only", checked(parts.split_reshaped), parts.RESHAPED),
    ("interleaved-heads", checked(parts.split_interleaved), parts.INTERLEAVED),
    ("silent-error", says_no_numbers,
     "You raise the ValueError, but its message does not name both numbers, X.shape[-1] and n_heads."),
)  # fmt: skip

EXERCISE = exercise(
    split_heads,
    credit={"values": 0.5, "edge cases": 0.2, "errors": 0.2, "gradients": 0.1},
    sizes=range(2, 9),
    library="torch",
)
