"""Defines the exercise `sliding_window_mask`, a causal mask of limited length for new rows after a cache."""

import torch

from ..kit import Leaf, exercise


def sliding_window_mask(n_new: int, n_total: int, window: int) -> Leaf("bool array", "the mask"):
    rows = range(n_total - n_new, n_total)
    return torch.tensor([[j in range(i - window + 1, i + 1) for j in range(n_total)] for i in rows], dtype=torch.bool)


def plain(n_new, n_total, window):
    start = n_total - n_new
    rows = torch.arange(n_new)[:, None]
    i = start + rows
    j = torch.arange(n_total)
    distance = i - j
    not_later = distance >= 0
    in_window = distance < window
    return not_later & in_window


def cases(case):
    rng = case.rng
    window = int(rng.integers(3, 6))
    yield case("values", "{n_new} new tokens of {n_total}, window {window}", n_new=6, n_total=11, window=window)
    yield case("values", "no cache (n_new = n_total)", n_new=9, n_total=9, window=window)
    yield case("values", "a long cache", n_new=4, n_total=int(rng.integers(25, 40)), window=int(rng.integers(6, 11)))
    yield case("values", "a window that no cached token is in for the last row", n_new=7, n_total=12, window=3)
    yield case("edge cases", "a long text", n_new=3, n_total=300, window=270)
    yield case("edge cases", "one new token", n_new=1, n_total=10, window=window)
    yield case("edge cases", "the first token of all", n_new=1, n_total=1, window=2)
    yield case("edge cases", "a window of 1: each token sees itself", n_new=5, n_total=8, window=1)
    yield case("edge cases", "a window just as long as the text", n_new=6, n_total=6, window=6)
    yield case("edge cases", "a window longer than the text: a causal mask", n_new=5, n_total=7, window=30)
    yield case("edge cases", "one new token of 2,500", n_new=1, n_total=2_500, window=2_300)


def seen(n_new, n_total, window, *, allowed=lambda i, j, w: (i - w < j) & (j <= i), first=lambda new, all: all - new):
    """Return a mask with slips. allowed: for query i and key j. first: the position of the first row."""
    rows = torch.arange(n_new)[:, None] + first(n_new, n_total)
    return allowed(rows, torch.arange(n_total), window)


MISTAKES = (
    ("in-blocks", {"allowed": lambda i, j, w: (i // w == j // w) & (j <= i)},
     "You cut the text into blocks of the window's length. The window moves on with every row."),
    ("one-row-further", {"first": lambda new, all: all - new + 1},
     "Your rows are one position too far right. The last row is position n_total − 1."),
)  # fmt: skip

EXERCISE = exercise(sliding_window_mask, credit={"values": 0.7, "edge cases": 0.3}, slipped=seen, library="torch")
