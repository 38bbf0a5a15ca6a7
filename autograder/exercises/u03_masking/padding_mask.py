"""Defines the exercise `padding_mask`, which says which keys of each sequence are real tokens."""

import numpy as np

from ..kit import Drawn, Leaf, exercise, strided


def unsorted(rng, shape, sizes):
    """Draw unsorted lengths of 1 to m - 1, of which at least two differ and the first is not the longest."""
    m = sizes["m"]
    lengths = rng.integers(1, m, shape)
    lengths[:3] = rng.permutation(np.arange(1, m - 1))[:3]
    lengths[1] = m - 1
    lengths[[0, 2]] = np.sort(lengths[[0, 2]])
    return lengths


def padding_mask(lengths: Drawn("B", unsorted, also="m"), m: int) -> Leaf("bool array", "the mask"):
    _, columns = np.indices((len(lengths), m))
    return columns < np.repeat(np.asarray(lengths), m).reshape(len(lengths), m)


def plain(lengths, m):
    key = np.arange(m)
    length = lengths[:, None]
    return key < length


def cases(case):
    for integer in (np.int64, np.int64, np.int32, np.uint8):
        drawn = case.draw()
        drawn["lengths"] = drawn["lengths"].astype(integer)
        yield case("values", "B = {B}, m = {m}", **drawn)
    yield case("values", "lengths that are a strided slice", layout=strided)
    for label, length in (("an empty sequence (length 0)", 0), ("a sequence without padding (length m)", "m")):
        drawn = case.draw()
        drawn["lengths"][case.rng.integers(drawn["B"])] = drawn.get(length, length)
        yield case("edge cases", label, **drawn)
    yield case("edge cases", "long sequences (m = 300)", lengths=np.array([299, 3, 257]), m=300)
    unsigned = np.array([2, 0, 4], np.uint64)
    yield case("edge cases", "lengths without a sign, 0 among them", lengths=unsigned, m=4)
    yield case("edge cases", "all lengths 0", lengths=np.zeros(case.rng.integers(3, 9), np.int64))
    yield case("edge cases", "one sequence (B = 1)", lengths=case.rng.integers(1, 5, 1))
    yield case("edge cases", "one key (m = 1)", lengths=np.array([1, 0, 1]), m=1)
    yield case("edge cases", "as many sequences as keys (B = m)", lengths=np.array([3, 6, 0, 1, 5, 2]), m=6)
    yield case("edge cases", "more than 1,024 keys (m = 1,100)", lengths=np.array([1030, 7, 1099]), m=1100)


def where(allowed):
    """Return a mask that allows column j of a sequence if `allowed(j, length, m)`."""
    return lambda lengths, m: allowed(np.arange(m), lengths[:, None], m)


MISTAKES = (
    ("inverted", where(lambda j, length, m: j >= length),
     "You swapped True and False. True marks the real tokens, which may be attended to, not the padding."),
    ("counts-from-the-end", where(lambda j, length, m: j >= m - length),
     "You mark tokens at the end of each sequence. The real tokens come first, and the padding after them."),
    ("longest-not-m", lambda lengths, m: padding_mask(lengths, int(max(lengths))),
     "Your mask is as wide as the longest sequence. It should be m wide, however long the sequences are."),
    ("additive-mask", lambda lengths, m: np.where(padding_mask(lengths, m), 0.0, -np.inf),
     "You return an additive mask, to be added to the scores. Return booleans, True for “may attend”."),
    ("one-length-for-all", where(lambda j, length, m: j < np.full_like(length, length[0])),
     "You use the length of the first sequence in every row. Each row has a length of its own."),
    ("at-least-one", where(lambda j, length, m: j < np.maximum(length, 1)),
     "You give an empty sequence one key. A length of 0 is a row of False."),
    ("full-length", where(lambda j, length, m: j < np.minimum(length, m - 1)),
     "You hide the last key of a sequence without padding. A length of m is a row of True."),
    ("last-token-only", where(lambda j, length, m: j == length - 1),
     "You allow only one key per row, the last real one. All keys before it are real too."),
    ("sorted-lengths", where(lambda j, length, m: j < np.sort(length, axis=0)),
     "You sort the rows by length. Row b belongs to sequence b, so keep the order of `lengths`."),
)  # fmt: skip

EXERCISE = exercise(padding_mask, credit={"values": 0.75, "edge cases": 0.25}, sizes=range(5, 11))
