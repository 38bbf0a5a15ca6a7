"""Defines the exercise `packed_causal_mask`, for rows of several documents with their own past and positions."""

import numpy as np

from ..kit import Drawn, Leaf, exercise, strided
from .causal_mask import plain as causal_mask

Array = np.ndarray


def names(rng, count):
    """Draw different ids in random order, so that neither their size nor their order carries information."""
    return rng.permutation(np.arange(2, 60))[:count]


def one_behind_the_other(rng, shape, sizes):
    """Draw rows of whole documents of 1 to 4 tokens, the first of 2 or more; all rows use the same few ids."""
    n = shape[1]
    pool = names(rng, n)
    rows = np.empty(shape, np.int64)
    for row in rows:
        lengths = [*rng.integers(2, 5, 2), *rng.integers(1, 5, n)]
        row[:] = np.repeat(rng.permutation(pool), lengths[:n])[:n]
        if row[0] < row[-1]:  # so that ids fall, and a later document doesn't have the larger id
            low, high = row[0], row[-1]
            row[:] = np.select([row == low, row == high], [high, low], row)
    return rows


def interrupted(rng, shape, sizes):
    """Draw rows in which three documents alternate; the first one always continues after the second."""
    n = shape[1]
    rows = np.empty(shape, np.int64)
    for row in rows:
        a, b, c = names(rng, 3)
        row[:] = [a, a, b, a, b, *rng.choice([a, b, c], n - 5)]
    return rows


def packed_causal_mask(
    document_ids: Drawn("B n", one_behind_the_other),
) -> (
    Leaf("bool array", "the mask"),
    Leaf("int array", "the positions"),
):
    """Write a small triangle for each document into the positions that it has in its row."""
    B, n = document_ids.shape
    mask, positions = np.zeros((B, n, n), bool), np.zeros((B, n), int)
    for b, row in enumerate(document_ids):
        for document in np.unique(row):
            (own,) = np.nonzero(row == document)
            mask[b][np.ix_(own, own)] = np.tri(len(own), dtype=bool)
            positions[b, own] = np.arange(len(own))
    return mask, positions


def plain(document_ids):
    n = document_ids.shape[1]
    same = document_ids[:, :, None] == document_ids[:, None, :]
    past = causal_mask(n)
    mask = same & past
    positions = mask.sum(axis=2) - 1
    return mask, positions


def cases(case):
    yield case("values", "{B} rows of {n} tokens")
    yield case("values", "{B} rows of {n} tokens")
    drawn = case.draw()
    drawn["document_ids"] = drawn["document_ids"].astype(np.int32)
    yield case("values", "32-bit integers", **drawn)
    yield case("values", "ids that are a strided slice", layout=strided)
    drawn = case.draw()
    drawn["document_ids"][drawn["document_ids"] == drawn["document_ids"][0, 0]] = 0
    yield case("values", "one of the ids is 0", **drawn)
    drawn = case.draw()
    drawn["document_ids"] += 10**15
    yield case("values", "ids of sixteen digits", **drawn)
    yield case("interrupted documents", "documents that take turns", document_ids=Drawn("B n", interrupted))
    yield case("interrupted documents", "longer rows that take turns", document_ids=Drawn("B n", interrupted), n=17)
    long = np.full((1, 300), case.rng.integers(2, 60))
    yield case("edge cases", "one document of 300 tokens", document_ids=long, lines=100)
    drawn = case.draw()
    drawn["document_ids"][:] = drawn["document_ids"][0]
    yield case("edge cases", "all rows hold the same ids", **drawn)
    yield case("edge cases", "one document in each row", document_ids=Drawn("B n", whole_rows))
    yield case("edge cases", "every token is a document of its own", document_ids=Drawn("B n", single_tokens))
    drawn = case.draw()
    drawn["document_ids"] = 10**6 * (drawn["document_ids"] - 30)
    yield case("edge cases", "ids below 0 and of some millions", **drawn)
    around = np.array([[-1, -1, 2, -3, -1, 2], [2, 2, -3, -1, -1, -3], [-4, -1, -1, -4, 1, 0]])
    yield case("edge cases", "small ids, -1 and others below 0 among them", document_ids=around)
    yield case("edge cases", "one row (B = 1)", B=1)
    yield case("edge cases", "one token (n = 1)", document_ids=case.rng.integers(3, 9, (4, 1)))
    taking_turns = np.repeat([4, 9, 4, 7, 9, 4, 7], 90 + case.rng.permutation(7))[None]
    yield case("interrupted documents", "{n} tokens, documents that take turns", document_ids=taking_turns, lines=100)
    far, step = 2**62, 2**32
    near = np.array([[far, far, far + 1, far, far + 1], [0, step, 0, 2 * step, step], [-far, 0, far, -far, 1 - far]])
    yield case("edge cases", "ids of nineteen digits, and ids that are 2**32 apart", document_ids=near)
    tight = np.array([[255, 255, 0, 255, 1], [0, 0, 7, 255, 0]], np.uint8)
    yield case("edge cases", "ids of 8 bits (uint8), 0 and 255 among them", document_ids=tight)


def whole_rows(rng, shape, sizes):
    return np.repeat(names(rng, shape[0]), shape[1]).reshape(shape)


def single_tokens(rng, shape, sizes):
    return np.stack([names(rng, shape[1]) for _ in range(shape[0])])


# ---------------------------------------------------------------------------------------------------------------------
# The mistakes, which make a mask from pairs (i, j) and positions from a mask


def pairs(ids: Array) -> tuple[Array, Array]:
    """Return whether j is no later than i, and whether i and j have the same id."""
    i, j = np.indices((ids.shape[1],) * 2)
    return j <= i, ids[:, :, None] == ids[:, None, :]


def runs(ids: Array) -> Array:
    """Number each run of equal ids, so that an interrupted document gets a new number."""
    new = np.diff(ids, axis=1, prepend=ids[:, :1]) != 0
    return np.cumsum(new, axis=1)


def with_positions(of):
    """Return the correct mask with the positions `of(ids, mask, positions)`."""

    def wrong(ids):
        mask, positions = packed_causal_mask(ids)
        return mask, of(ids, mask, positions)

    return wrong


def in_the_row(ids: Array, *_: Array) -> Array:
    return np.broadcast_to(np.arange(ids.shape[1]), ids.shape).copy()


def since_the_first(ids: Array, mask: Array, positions: Array) -> Array:
    return in_the_row(ids) - mask.argmax(axis=2)


def over_all_rows(ids: Array, *_: Array) -> Array:
    return packed_causal_mask(ids.reshape(1, -1))[1].reshape(ids.shape)


def sorted_by_id(ids: Array, mask: Array, positions: Array) -> Array:
    return np.take_along_axis(positions, ids.argsort(axis=1, kind="stable"), axis=1)


MISTAKES = (
    ("documents-ignored", lambda ids: (pairs(ids)[0] & np.ones_like(pairs(ids)[1]), in_the_row(ids)),
     "Your mask is that of one long causal row, and the ids change nothing. Who may look across the border of two "
     "documents?"),
    ("positions-in-the-row", with_positions(in_the_row),
     "Your mask is right, but you count the positions from the beginning of the row. Each document has a token 0 of "
     "its own."),
    ("interruption-ends-it", lambda ids: packed_causal_mask(runs(ids)),
     "You treat a document that goes on after an interruption as a new one. Tokens with equal ids belong to one "
     "document, whatever comes in between."),
    ("mask-ends-at-interruption", lambda ids: (packed_causal_mask(runs(ids))[0], packed_causal_mask(ids)[1]),
     "Your positions are right, but your mask treats an interrupted document as two. Tokens with equal ids belong "
     "to one document."),
    ("positions-restart", with_positions(lambda ids, *_: packed_causal_mask(runs(ids))[1]),
     "Your mask is right, but your positions start over at 0 where a document goes on after an interruption."),
    ("counts-what-lies-between", with_positions(since_the_first),
     "Your positions count every token since the document began, those of other documents too. Count only its own."),
    ("counted-over-the-batch", with_positions(over_all_rows),
     "Your positions go on counting from one row of the batch to the next. Equal ids in different rows mean "
     "different documents."),
    ("sorted-by-document", with_positions(sorted_by_id),
     "Your positions are in the order of the sorted ids. After sorting, move each back to the place of its token."),
    ("first-row-for-all", lambda ids: packed_causal_mask(np.repeat(ids[:1], len(ids), 0)),
     "You give every row of the batch the mask of the first. Each row holds documents of its own."),
)  # fmt: skip

EXERCISE = exercise(
    packed_causal_mask,
    credit={"values": 0.5, "interrupted documents": 0.3, "edge cases": 0.2},
    ranges={"B": range(3, 6), "n": range(10, 15)},
)
