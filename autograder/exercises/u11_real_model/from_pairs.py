"""Defines the exercise `from_pairs`, which converts weights for rotary positions from adjacent pairs to halves."""

import numpy as np
import torch

from ..kit import Leaf, by_columns, exercise, normal, size, strided


def from_pairs(W: normal("d_model h*d_head"), n_heads: size("h")) -> Leaf("float array", "the weights"):
    """Choose the source of each new column."""
    d = W.shape[1] // n_heads
    within = [*range(0, d, 2), *range(1, d, 2)]
    return W[:, [head * d + column for head in range(n_heads) for column in within]]


def plain(W, n_heads):
    d_model, width = W.shape
    d_head = width // n_heads
    pairs = W.reshape(d_model, n_heads, d_head // 2, 2)
    halves = pairs.transpose(2, 3)
    return halves.reshape(d_model, width)


def cases(case):
    yield case("values", "{h} heads of width {d_head}")
    yield case("values", "{h} heads of width {d_head}", d_head=6, h=range(3, 6))
    yield case("values", "{h} heads of width {d_head}", d_head=12, h=range(3, 6))
    yield case("values", "float32", dtype=np.float32)
    yield case("edge cases", "one head", h=1)
    yield case("edge cases", "heads of one pair (d_head = 2)", d_head=2)
    yield case("edge cases", "heads of two pairs (d_head = 4)", d_head=4)
    yield case("edge cases", "d_model = 1", d_model=1)
    yield case("edge cases", "memory that is not contiguous", layout=strided)
    yield case("edge cases", "memory in another order", layout=by_columns)
    yield case("edge cases", "as many rows as columns", d_model="h*d_head")
    mixed = case.rng.standard_normal((5, 24)) * 10.0 ** case.rng.integers(-8, 1, (5, 24))
    yield case("values", "the same numbers, digit for digit", W=mixed, h=3, d_head=8, rtol=1e-12)


def by_columns_of(order):
    """Reorder the columns of each head by `order(d_head)`."""

    def wrong(W, n_heads):
        heads = W.unflatten(1, (n_heads, -1))
        return heads[:, :, order(heads.shape[2])].flatten(1)

    return wrong


def all_heads_at_once(W, n_heads):
    return torch.cat([W[:, ::2], W[:, 1::2]], 1)


def rows(W, n_heads):
    return torch.cat([W[::2], W[1::2]])


def heads_in_turn(W, n_heads):
    """Take every h-th column as a head."""
    return from_pairs(W.unflatten(1, (-1, n_heads)).mT.flatten(1), n_heads).unflatten(1, (n_heads, -1)).mT.flatten(1)


def odd_first(d):
    return [*range(1, d, 2), *range(0, d, 2)]


def way_back(d):
    return [column for i in range(d // 2) for column in (i, i + d // 2)]


MISTAKES = (
    ("way-back", by_columns_of(way_back),
     "You go the way back, from halves to neighbours, and move column i of a half to column 2i. Here column 2i goes "
     "to place i."),
    ("all-heads-at-once", all_heads_at_once,
     "You sort the columns of all heads together, so that a head gets columns of others. Each head keeps its own."),
    ("unchanged", lambda W, n_heads: W.clone(), "You move nothing. The columns come back in the order they had."),
    ("odd-first", by_columns_of(odd_first),
     "You put the odd columns first. The first member of each pair should be in the first half."),
    ("rows", rows, "You move the rows. The features of a head are columns, because the weights act from the right."),
    ("heads-in-turn", heads_in_turn, "You take every h-th column for a head. A head owns a block of columns."),
)  # fmt: skip

EXERCISE = exercise(
    from_pairs,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    ranges={"d_head": (6, 8, 10), "h": range(2, 6), "d_model": range(5, 12)},
    least={"d_head": 2},
    library="torch",
)
