"""Defines the exercise `causal_mask`, in which every token sees itself and all earlier tokens."""

import numpy as np

from ..kit import Leaf, distinct, exercise


def causal_mask(n: int) -> Leaf("bool array", "the mask"):
    rows, columns = np.indices((n, n))
    return columns <= rows


def plain(n):
    query = np.arange(n)[:, None]
    key = np.arange(n)
    return key <= query


def cases(case):
    for n in (*distinct(case.rng, 4, 3, 12), range(20, 40)):
        yield case("values", n=n)
    yield case("edge cases", "a single token (n = 1)", n=1)
    yield case("edge cases", "n = 2", n=2)
    yield case("edge cases", "a long text (n = 300)", n=300)
    yield case("edge cases", "a text of more than 512 tokens (n = {n})", n=700, once=True)


def where(allowed):
    """Return a mask in which query i may attend to key j if `allowed(i, j)`."""
    return lambda n: allowed(*np.indices((n, n)))


MISTAKES = (
    ("inverted", where(lambda i, j: j > i),
     "You swapped True and False. In this course True means “may attend”."),
    ("additive-mask", lambda n: np.where(causal_mask(n), 0.0, -np.inf),
     "You return an additive mask, to be added to the scores. Return booleans, True for “may attend”."),
    ("flipped", lambda n: causal_mask(n)[::-1],
     "Your staircase runs the wrong way. The first row must allow only the first column, the last row all columns."),
    ("mirrored", lambda n: causal_mask(n)[:, ::-1],
     "Your staircase starts at the last column. Row i may look at columns 0 to i, counted from the left."),
    ("only-itself", where(lambda i, j: j == i),
     "You let a token look only at itself. It may also look at all tokens before it."),
    ("only-neighbour", where(lambda i, j: (j == i) | (j == i - 1)),
     "You let a token see only itself and the token before it. It should see all earlier tokens."),
    ("all-allowed", lambda n: np.ones((n, n), bool),
     "You allow everything, so nothing hides the future."),
)  # fmt: skip

EXERCISE = exercise(causal_mask, credit={"values": 0.8, "edge cases": 0.2})
