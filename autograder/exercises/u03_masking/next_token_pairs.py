"""next_token_pairs: every token but the last, with the token that follows it."""

import numpy as np

from ..kit import Drawn, Leaf, by_columns, exercise


def different(rng, shape, sizes):
    """Rows of different tokens, so that no shift looks like another."""
    return np.stack([rng.permutation(50)[: shape[1]] for _ in range(shape[0])])


def next_token_pairs(
    tokens: Drawn("B n", different),
) -> (
    Leaf("int array", "the inputs"),
    Leaf("int array", "the targets"),
):
    pairs = np.lib.stride_tricks.sliding_window_view(tokens, 2, axis=1)
    return pairs[..., 0].copy(), pairs[..., 1].copy()


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


MISTAKES = (
    ("swapped", lambda tokens: (tokens[:, 1:], tokens[:, :-1]),
     "Inputs and targets have changed places: the target is the token that comes after the input."),
    ("wraps-around", lambda tokens: (tokens, np.roll(tokens, -1, axis=1)),
     "The last token is asked to predict the first one of the sequence. The last token has no next one: leave it out."),
    ("wraps-backwards", lambda tokens: (tokens, np.roll(tokens, 1, axis=1)),
     "The targets are the previous tokens, and the first one comes from the end. The target is the token after the "
     "input."),
    ("previous-token", lambda tokens: (tokens[:, :-1], np.roll(tokens, 1, axis=1)[:, :-1]),
     "The targets are the tokens before the inputs, the first of them from the end of the sequence."),
    ("shifts-the-batch", lambda tokens: (tokens[:-1], tokens[1:]),
     "The shift runs along the batch: each sequence gets another sequence as target. Shift along the tokens."),
    ("inputs-too-long", lambda tokens: (tokens, tokens[:, 1:]),
     "The inputs still hold the last token, which has no target."),
    ("two-steps", lambda tokens: (tokens[:, :-2], tokens[:, 2:]),
     "The targets lie two steps ahead. The next token is one step ahead."),
    ("padded", lambda tokens: (tokens, np.pad(tokens[:, 1:], ((0, 0), (0, 1)))),
     "The targets are filled up to length n. Both results have n - 1 tokens per sequence."),
    ("same-twice", lambda tokens: (tokens[:, :-1], tokens[:, :-1]),
     "Inputs and targets are the same tokens: a model would only learn to copy."),
    ("last-target-only", lambda tokens: (tokens[:, :-1], tokens[:, -1:]),
     "Only the last token of each sequence is a target. Every position has a next token to predict."),
    ("last-target-only-flat", lambda tokens: (tokens[:, :-1], tokens[:, -1]),
     "Only the last token of each sequence is a target. Every position has a next token to predict."),
    ("flattened", lambda tokens: (tokens.ravel()[:-1], tokens.ravel()[1:]),
     "The sequences are strung together, so that the last token of one predicts the first of the next."),
    ("adds-one-to-ids", lambda tokens: (tokens[:, :-1], tokens[:, :-1] + 1),
     "One is added to the ids. The next token is the one at the next place, not the next id."),
    ("reversed", lambda tokens: next_token_pairs(tokens[:, ::-1]),
     "The order of the tokens is reversed."),
    ("stacked", lambda tokens: np.stack(next_token_pairs(tokens)),
     "Return a tuple of two arrays, not one array that holds both."),
    ("list-for-tuple", lambda tokens: [*next_token_pairs(tokens)],
     "Return a tuple, `return inputs, targets`, not a list."),
    ("floats", lambda tokens: tuple(part * 1.0 for part in next_token_pairs(tokens)),
     "The ids have become floats. Tokens are integers."),
)  # fmt: skip

EXERCISE = exercise(
    next_token_pairs,
    cases,
    MISTAKES,
    credit={"values": 0.8, "edge cases": 0.2},
    core="values",
    sizes=range(4, 10),
)
