"""causal_mask: every token may look at itself and at those before it."""

import numpy as np

from ..kit import Leaf, distinct, exercise


def causal_mask(n: int) -> Leaf("bool array", "the mask"):
    rows, columns = np.indices((n, n))
    return columns <= rows


def cases(case):
    for n in (*distinct(case.rng, 4, 3, 12), range(20, 40)):
        yield case("values", n=n)
    yield case("edge cases", "a single token (n = 1)", n=1)
    yield case("edge cases", "n = 2", n=2)


def where(allowed):
    """A mask in which query i may look at key j where `allowed(i, j)`."""
    return lambda n: allowed(*np.indices((n, n)))


MISTAKES = (
    ("upper-triangle", where(lambda i, j: j >= i),
     "Rows and columns have changed places: here a token may look at itself and the future. Row i belongs to the "
     "query."),
    ("inverted", where(lambda i, j: j > i),
     "True and False have changed places: in this course True means “may attend”."),
    ("excludes-itself", where(lambda i, j: j < i),
     "The diagonal is missing: a token may look at itself, and without that the first token would see nothing."),
    ("sees-next", where(lambda i, j: j <= i + 1),
     "One diagonal too many: every token sees the one after it, which is the very token it has to predict."),
    ("float-mask", lambda n: causal_mask(n).astype(float),
     "The triangle is right, but it holds floats. A mask is an array of booleans: look at its dtype."),
    ("int-mask", lambda n: causal_mask(n).astype(int),
     "The triangle is right, but it holds integers. As an index, 0 and 1 mean something else than False and True."),
    ("additive-mask", lambda n: np.where(causal_mask(n), 0.0, -np.inf),
     "This is an additive mask, to be added to the scores. The exercise asks for booleans, True for “may attend”."),
    ("additive-upside-down", lambda n: np.where(causal_mask(n), -np.inf, 0.0),
     "This mask holds -inf where the token may look. And the exercise asks for booleans, not for numbers to add."),
    ("list-of-lists", lambda n: causal_mask(n).tolist(),
     "The pattern is right, but it is a list. Return a NumPy array of booleans."),
    ("flipped", lambda n: causal_mask(n)[::-1],
     "The staircase runs the wrong way: the first row must allow the first column only, the last row all columns."),
    ("mirrored", lambda n: causal_mask(n)[:, ::-1],
     "The staircase starts at the last column. Row i may look at columns 0 to i, counted from the left."),
    ("only-itself", where(lambda i, j: j == i),
     "Here a token may look at itself alone. It may also look at all tokens before it."),
    ("only-neighbour", where(lambda i, j: (j == i) | (j == i - 1)),
     "Here a token sees itself and one token back. A causal mask lets it see all tokens before it."),
    ("both-neighbours", where(lambda i, j: np.abs(i - j) <= 1),
     "Here a token sees its two neighbours, one of them in the future. It may see all tokens before it and none "
     "after."),
    ("only-recent", where(lambda i, j: (j <= i) & (j > i - 3)),
     "Here a token sees itself and the last two before it. A causal mask lets it see all tokens before it."),
    ("all-allowed", lambda n: np.ones((n, n), bool),
     "Everything is allowed: nothing hides the future."),
    ("extra-axis", lambda n: causal_mask(n)[None],
     "The pattern is right, with an axis too many: the result is (n, n)."),
)  # fmt: skip

EXERCISE = exercise(
    causal_mask,
    cases,
    MISTAKES,
    credit={"values": 0.8, "edge cases": 0.2},
    core="values",
)
