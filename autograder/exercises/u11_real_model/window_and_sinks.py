"""Defines the exercise `window_and_sinks`, a sliding window that also keeps the first tokens of the text visible."""

import torch

from ..kit import Leaf, exercise
from ..u10_attention_today.sliding_window_mask import plain as sliding_window_mask


def window_and_sinks(n_new: int, n_total: int, window: int, n_sinks: int) -> Leaf("bool array", "the mask"):
    """Build each row from sets of positions."""
    rows = range(n_total - n_new, n_total)
    seen = [{*range(i - window + 1, i + 1), *range(n_sinks)} & {*range(i + 1)} for i in rows]
    return torch.tensor([[j in places for j in range(n_total)] for places in seen], dtype=torch.bool)


def plain(n_new, n_total, window, n_sinks):
    in_window = sliding_window_mask(n_new, n_total, window)
    i = torch.arange(n_total - n_new, n_total)[:, None]
    j = torch.arange(n_total)
    is_sink = j < n_sinks
    not_later = j <= i
    return in_window | (is_sink & not_later)


def cases(case):
    rng = case.rng
    window, sinks = int(rng.integers(3, 5)), int(rng.integers(2, 4))
    few = {"window": window, "n_sinks": sinks}
    words = "{n_new} new tokens of {n_total}, window {window}, {n_sinks} sinks"
    yield case("values", words, n_new=6, n_total=14, **few)
    yield case("values", "no cache (n_new = n_total)", n_new=12, n_total=12, **few)
    yield case("values", words, n_new=5, n_total=int(rng.integers(20, 30)), window=int(rng.integers(6, 9)), n_sinks=1)
    yield case("edge cases", "one new token", n_new=1, n_total=13, **few)
    yield case("edge cases", "the first token of all", n_new=1, n_total=1, window=2, n_sinks=1)
    yield case("edge cases", "no sinks (n_sinks = 0)", n_new=5, n_total=11, window=window, n_sinks=0)
    yield case("edge cases", "a window of 1", n_new=7, n_total=9, window=1, n_sinks=2)
    yield case("edge cases", "a window longer than the text: a causal mask", n_new=6, n_total=8, window=30, n_sinks=2)
    yield case("edge cases", "more sinks than tokens: a causal mask", n_new=7, n_total=7, window=2, n_sinks=20)
    yield case("edge cases", "sinks that some rows see in part", n_new=9, n_total=9, window=2, n_sinks=6)
    yield case("edge cases", "one new token of 600", n_new=1, n_total=600, window=500, n_sinks=4)


def seen(n_new, n_total, window, n_sinks, *, width=lambda w, s: w, sinks=lambda i, j, s: (j < s) & (j <= i)):
    """Return a mask with slips. width: the window that is used. sinks: which columns are sinks for row i."""
    i, j = torch.arange(n_total - n_new, n_total)[:, None], torch.arange(n_total)
    return (i - width(window, n_sinks) < j) & (j <= i) | sinks(i, j, n_sinks)


def sinks_of_the_rest(n_new, n_total, window, n_sinks):
    """Use the first tokens after the cache as sinks."""
    start = n_total - n_new
    return seen(n_new, n_total, window, n_sinks, sinks=lambda i, j, s: (j >= start) & (j < start + s) & (j <= i))


MISTAKES = (
    ("sinks-in-the-future", {"sinks": lambda i, j, s: j < s},
     "You let all rows see the sinks, also tokens that come before them. No token sees a later one."),
    ("sinks-within-the-window", {"width": lambda w, s: max(w - s, 1)},
     "Your window gives up a place for each sink. The sinks come on top of the full window."),
    ("no-sinks", {"sinks": lambda i, j, s: j < 0},
     "You return only the window. The first tokens should be seen as well."),
    ("sinks-behind-the-cache", sinks_of_the_rest,
     "You count the sinks from the first new token. They are the first tokens of the whole text."),
    ("only-sinks-in-the-window", lambda n_new, n_total, window, n_sinks: (
        seen(n_new, n_total, window, 0) & (torch.arange(n_total) < n_sinks)),
     "You require a column to be a sink and to be in the window. One of the two is enough."),
)  # fmt: skip

EXERCISE = exercise(
    window_and_sinks,
    credit={"values": 0.7, "edge cases": 0.3},
    slipped=seen,
    library="torch",
)
