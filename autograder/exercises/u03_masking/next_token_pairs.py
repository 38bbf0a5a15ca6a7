"""Defines the exercise `next_token_pairs`, which pairs every token but the last with the next token."""

import numpy as np

from ..kit import Drawn, Leaf, by_columns, exercise


def different(rng, shape, sizes):
    """Draw rows of different tokens, so that no two shifts look alike."""
    return np.stack([rng.permutation(50)[: shape[1]] for _ in range(shape[0])])


def next_token_pairs(
    tokens: Drawn("B n", different),
) -> (
    Leaf("int array", "the inputs"),
    Leaf("int array", "the targets"),
):
    pairs = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    return pairs[..., 0].copy(), pairs[..., 1].copy()


def plain(tokens):
    inputs = tokens[:, :-1]
    targets = tokens[:, 1:]
    return inputs, targets


def cases(case):
    for integer in (np.int64, np.int64, np.int32):
        drawn = case.draw()
        drawn["tokens"] = drawn["tokens"].astype(integer)
        yield case("values", "tokens of shape ({B}, {n})", **drawn)
    yield case("values", "tokens in column order", layout=by_columns)
    repeated = Drawn("B n", lambda rng, shape, sizes: rng.integers(0, 3, shape))
    yield case("values", "tokens that repeat", tokens=repeated)
    large = Drawn("B n", lambda rng, shape, sizes: 300 + 997 * different(rng, shape, sizes))
    yield case("values", "ids of a large vocabulary", tokens=large)
    yield case("edge cases", "two tokens (n = 2)", n=2)
    yield case("edge cases", "one sequence (B = 1)", B=1)
    yield case("values", "token ids above 65,535", tokens=case.rng.integers(65_536, 128_256, (3, 6)))
    signed = case.rng.choice([-1, 1], (4, 6)) * (2**61 + case.rng.integers(1000, size=(4, 6)))
    yield case("edge cases", "any integers: below 0, and of nineteen digits", tokens=signed)
    pads = np.array([[7, 3, 0, 0, 0], [4, 9, 2, 0, 0], [7, 3, 0, 0, 0]])
    yield case("edge cases", "two equal sequences, and pads (0) at the end of all", tokens=pads)
    yield case("edge cases", "long sequences (n = {n})", B=2, tokens=case.rng.integers(1, 999, (2, 1100)))


MISTAKES = (
    ("swapped", lambda tokens: (tokens[:, 1:], tokens[:, :-1]),
     "You swap inputs and targets. The target is the token that comes after the input."),
    ("wraps-around", lambda tokens: (tokens, np.roll(tokens, -1, axis=1)),
     "You ask the last token to predict the first one of the sequence. The last token has no next one, so leave it "
     "out."),
    ("padded", lambda tokens: (tokens, np.pad(tokens[:, 1:], ((0, 0), (0, 1)))),
     "You fill the targets up to length n. Both results have n − 1 tokens per sequence."),
    ("flattened", lambda tokens: (tokens.ravel()[:-1], tokens.ravel()[1:]),
     "You string the sequences together, so that the last token of one predicts the first of the next."),
)  # fmt: skip

EXERCISE = exercise(next_token_pairs, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(4, 10))
