"""Defines the exercise `embed`, which turns each token into its column of E, as a row."""

import numpy as np

from ..kit import Leaf, by_columns, exercise, ids, normal


def embed(tokens: ids("n", below="vocab"), E: normal("d_model vocab")) -> Leaf("float array", "the embeddings"):
    return np.stack([E[:, int(token)] for token in tokens])


def plain(tokens, E):
    embeddings = E.T
    return embeddings[tokens]


def cases(case):
    for dtype, integer in ((float, np.int64), (float, np.int32), (np.float32, np.int64), (float, np.uint8)):
        drawn = case.draw()
        drawn["tokens"] = tokens = drawn["tokens"].astype(integer)
        tokens[0], tokens[1] = tokens[2], drawn["vocab"] - 1  # a word that occurs twice, and the last word
        yield case("values", dtype=dtype, **drawn)
    drawn = case.draw(vocab=range(100, 120), n=range(9, 13))
    drawn["tokens"] = drawn["tokens"].astype(np.int8)
    yield case("values", "tokens of 8 bits, and more entries in E than these can count", **drawn)
    drawn = case.draw()
    drawn["tokens"] %= drawn["vocab"] - 1  # the last word does not occur
    yield case("values", "an E that is stored column by column", layout={"E": by_columns}, **drawn)
    yield case("values", "as many features as words (d_model = vocab)", d_model="vocab")
    yield case("edge cases", "a single token (n = 1)", tokens=case.rng.integers(1, 4, 1))
    yield case("edge cases", "one feature (d_model = 1)", d_model=1)
    drawn = case.draw(n=3)
    drawn["tokens"][:] = drawn["vocab"] - 1
    yield case("edge cases", "one word said over and over", **drawn)
    drawn = case.draw(n=range(70, 80), vocab=range(300, 320), d_model=3, E=normal("d_model vocab", 1e4))
    drawn["tokens"][-1] = drawn["vocab"] - 1
    yield case("edge cases", "many tokens, some above 255, and large entries in E", **drawn)
    drawn["E"] = 1e-10 * drawn["E"][::-1]
    drawn["E"][:, drawn["tokens"][1]] = 0.0
    yield case("edge cases", "the same tokens with another E: small entries, and a word whose column is 0", **drawn)
    drawn["tokens"] = (drawn["tokens"] + 1) % drawn["vocab"]
    yield case("edge cases", "the same E with other tokens", **drawn)


def shifted(by):
    """Look up the embedding of the word `by` places later in the vocabulary."""
    return lambda tokens, E: E.T[(np.asarray(tokens, np.int64) + by) % E.shape[1]]


MISTAKES = (
    ("rows-of-E", lambda tokens, E: E[tokens],
     "You take rows of E. E is (d_model, vocab), so a word's embedding is a column."),
    ("reshaped", lambda tokens, E: E[:, tokens].reshape(len(tokens), len(E)),
     "You force the columns into the shape (n, d_model) by a reshape, which mixes the words."),
    ("first-rows-of-E", lambda tokens, E: E.T[np.arange(len(tokens)) % E.shape[1]],
     "You don't use the tokens. You return the first n columns of E, whatever the sentence says."),
    ("counts-from-one", shifted(-1),
     "You give every word the embedding of the word before it in the vocabulary. Tokens are counted from 0."),
    ("unique-words", lambda tokens, E: E.T[np.unique(tokens)],
     "You keep each word only once. A word that occurs twice in the sentence needs two rows, in the sentence's "
     "order."),
)  # fmt: skip

EXERCISE = exercise(embed, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(4, 10))
