"""embed: every token becomes a row, the column of E that belongs to it."""

import numpy as np

from ..kit import Leaf, by_columns, exercise, ids, normal


def embed(tokens: ids("n", below="vocab"), E: normal("d_model vocab")) -> Leaf("float array", "the embeddings"):
    return np.stack([E[:, int(token)] for token in tokens])


def cases(case):
    for dtype, integer in ((float, np.int64), (float, np.int32), (np.float32, np.int64), (float, np.uint8)):
        drawn = case.draw()
        drawn["tokens"] = tokens = drawn["tokens"].astype(integer)
        tokens[0], tokens[1] = tokens[2], drawn["vocab"] - 1  # a word that occurs twice, and the last word
        yield case("values", dtype=dtype, **drawn)
    yield case("values", "an E that is stored column by column", layout={"E": by_columns})
    yield case("values", "as many features as words (d_model = vocab)", d_model="vocab")
    yield case("edge cases", "a single token (n = 1)", tokens=case.rng.integers(1, 4, 1))
    yield case("edge cases", "one feature (d_model = 1)", d_model=1)
    drawn = case.draw(n=3)
    drawn["tokens"][:] = drawn["vocab"] - 1
    yield case("edge cases", "one word said over and over", **drawn)


def shifted(by):
    """The embedding of the word that stands `by` places further in the vocabulary."""
    return lambda tokens, E: E.T[(np.asarray(tokens, np.int64) + by) % E.shape[1]]


MISTAKES = (
    ("rows-of-E", lambda tokens, E: E[tokens],
     "Rows of E were taken. E is (d_model, vocab): a word's embedding is a column."),
    ("not-transposed", lambda tokens, E: E[:, tokens],
     "The right columns were picked, and they were left standing. Tokens are rows: the result is (n, d_model)."),
    ("reshaped", lambda tokens, E: E[:, tokens].reshape(len(tokens), len(E)),
     "The columns were forced into the shape (n, d_model) by a reshape, which mixes the words."),
    ("first-rows-of-E", lambda tokens, E: E.T[np.arange(len(tokens)) % E.shape[1]],
     "The tokens are not used: the first n columns of E are returned, whatever the sentence says."),
    ("one-hot-only", lambda tokens, E: np.eye(E.shape[1])[tokens],
     "This is the one-hot matrix. It still has to be multiplied by E."),
    ("counts-from-one", shifted(-1),
     "Every word gets the embedding of the word before it in the vocabulary: tokens are counted from 0."),
    ("off-by-one", shifted(+1),
     "Every word gets the embedding of the next word in the vocabulary: tokens are counted from 0."),
    ("bag-of-words", lambda tokens, E: E.T[tokens].sum(axis=0),
     "The words were added up into one vector. Every token keeps a row of its own."),
    ("averaged", lambda tokens, E: E.T[tokens].mean(axis=0),
     "The words were averaged into one vector. Every token keeps a row of its own."),
    ("unique-words", lambda tokens, E: E.T[np.unique(tokens)],
     "Each word appears once. A word that occurs twice in the sentence needs two rows, in the sentence's order."),
    ("sorted-words", lambda tokens, E: E.T[np.sort(tokens)],
     "The rows come in the order of the vocabulary, not of the sentence."),
    ("scaled", lambda tokens, E: E.T[tokens] * np.sqrt(len(E)),
     "The embeddings are multiplied by a factor of √d_model. Some models do that; this function does not."),
    ("normalised", lambda tokens, E: E.T[tokens] / np.linalg.norm(E.T[tokens], axis=-1, keepdims=True),
     "The embeddings were brought to length 1. They are to be returned as they stand in E."),
    ("first-token-only", lambda tokens, E: E[:, tokens[0]],
     "Only the first token is embedded. There is one row for each of the n tokens."),
    ("last-token-everywhere", lambda tokens, E: np.repeat(E[:, tokens[-1]][None], len(tokens), axis=0) + 0.0,
     "All rows are equal: the loop overwrites what it wrote before."),
)  # fmt: skip

EXERCISE = exercise(
    embed,
    cases,
    MISTAKES,
    credit={"values": 0.8, "edge cases": 0.2},
    core="values",
    sizes=range(4, 10),
)
