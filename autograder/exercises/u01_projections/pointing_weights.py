"""Defines the exercise `pointing_weights`, whose two-feature queries and keys make each token attend to its target."""

import numpy as np

from ..kit import Drawn, Leaf, exercise, ids
from .pointing_faults import examine_pointing


def spread(rng, shape, sizes):
    """Draw short tokens, far from linearly dependent, for which weights with one decimal place always suffice."""
    return tokens(rng, *shape, 3.0) / 4


def tokens(rng, n, d_model, condition):
    """Draw linearly independent rows with this condition number and random directions."""
    left, _ = np.linalg.qr(rng.standard_normal((n, n)))
    right, _ = np.linalg.qr(rng.standard_normal((d_model, n)))
    return left * np.geomspace(condition, 1, n) @ right.T


def parabola(n, target, length=50.0, step=1):
    """Return queries and keys whose scores are 2tj − j², which is largest at j = t.

    It is −(j − t)² up to a term that all keys share.
    """
    j, t = np.arange(n), np.asarray(target) * step
    return length * np.stack([2.0 * t, -np.ones(len(t))], axis=1), np.stack([j, 1.0 * j**2], axis=1)


def pointing_weights(
    X: Drawn("n d_model", spread), target: ids("n", "n")
) -> (
    Leaf("float array", "W_Q"),
    Leaf("float array", "W_K"),
):
    return made_from(X, *parabola(len(X), target))


def made_from(X, *features):
    """Return for each table of features the weights W in the row space of X with X W = features."""
    left, strengths, right = np.linalg.svd(X, full_matrices=False)
    return tuple(right.T @ (left.T @ wanted / strengths[:, None]) for wanted in features)


def cases(case):
    rng = case.rng

    def order(n):
        """Return a permutation of one cycle, which is neither its own inverse nor close to the identity."""
        around = rng.permutation(n)
        target = np.empty(n, dtype=np.int64)
        target[around] = np.roll(around, 1)
        return target

    def repeated(n):
        target = rng.integers(0, n, n)
        target[: n // 2 + 1] = rng.permutation(n)[0]
        return rng.permutation(target)

    for n in (6, 5, 8):
        yield case("each token once", "each token is pointed at once (n = {n})", n=n, target=order(n))
    for n, words in (
        (7, "some tokens are pointed at twice or more (n = {n})"),
        (9, "most point at one token (n = {n})"),
    ):
        yield case("repeats", words, n=n, target=repeated(n))
    n = int(rng.integers(5, 9))
    yield case("repeats", "all point at one token (n = {n})", n=n, target=np.full(n, rng.integers(n)))
    yield case("repeats", "each points at itself (n = {n})", n=n, target=np.arange(n))
    wide = int(rng.integers(40, 65))
    yield case("sizes", "sixteen tokens", n=16, d_model=wide, target=order(16))
    yield case("sizes", "sixteen tokens, some pointed at twice or more", n=16, d_model=20, target=repeated(16))
    yield case("sizes", "as many tokens as features (n = d_model = {n})", n=n, d_model="n", target=order(n))
    yield case("sizes", "a single token", n=1, target=np.zeros(1, dtype=np.int64))
    yield case("sizes", "two tokens, that point at each other", n=2, target=np.array([1, 0]))
    unused = np.hstack([np.zeros((5, 5)), tokens(rng, 5, 10, 3.0)])
    yield case("sizes", "features that no token has", X=unused, target=order(5))
    yield case("sizes", "tokens with small entries", X=1e-5 * tokens(rng, 6, 11, 3.0), target=order(6))
    near = tokens(rng, 12, 30, 90.0)
    yield case("sizes", "tokens that are nearly dependent", X=near, target=order(12))
    yield case("sizes", "sixteen tokens, targets of 8 bits", n=16, d_model=20, target=order(16).astype(np.int8))
    yield case("sizes", "three tokens with tiny entries", X=1e-9 * tokens(rng, 3, 7, 3.0), target=order(3))
    apart = np.zeros((4, 16))
    apart[:, 1::4] = tokens(rng, 4, 4, 3.0)  # so that no four adjacent features suffice
    yield case("sizes", "four tokens, and features between others that no token has", X=apart, target=order(4))
    target = repeated(4)
    yield case("repeats", "the same tokens with other targets", X=apart, target=target)
    yield case("repeats", "the same targets with other tokens", X=apart[::-1], target=target)


def circle(n, target, length=500.0, step=0):
    """Return queries and keys around a circle."""
    around = 2 * np.pi * np.arange(n) / n
    keys = np.stack([np.cos(around), np.sin(around)], axis=1)
    return length * keys[(np.asarray(target) + step) % n], keys


def designed(design):
    """Make mistaken weights from the queries and keys of `design(n, target)`."""
    return lambda X, target: made_from(X, *design(len(X), target))


def on_a_line(n, target):
    numbers = np.stack([np.arange(n) - (n - 1) / 2, np.ones(n)], axis=1)
    return 500 * numbers[target], numbers


def one_in_the_middle(n, target):
    """Put all keys but the last on a circle, and the last into its centre."""
    _, around = circle(max(n - 1, 1), [0])
    keys = np.concatenate([around[: n - 1], np.zeros((1, 2))])
    return 500 * keys[target], keys


def like_the_key(n, target):
    """Put the keys on a parabola, and use a copy of the target's key as each query."""
    _, keys = parabola(n, target)
    return 50 * keys[target], keys


def one_query(n, target):
    queries, keys = circle(n, target)
    return np.tile(queries[:1], (n, 1)), keys


def never_oneself(n, target):
    queries, keys = circle(n, target)
    return queries * (np.asarray(target) != np.arange(n))[:, None], keys


MISTAKES = (
    ("too-soft", designed(lambda n, target: circle(n, target, length=1.0)),
     "Each of your rows gives the right column the largest weight, but that weight is too small. What made a soft "
     "lookup nearly hard in section 2?"),
    ("transpose-for-inverse", lambda X, target: tuple(X.T @ part for part in circle(len(X), target)),
     "Your queries and keys would point as they should, but X @ W doesn't give them: X @ X.T is not the identity. "
     "Which W gives X @ W exactly what you want?"),
    ("swapped", lambda X, target: designed(circle)(X, target)[::-1],
     "In your scores, column i looks at row target[i]; row i should look at column target[i]. Did you swap queries "
     "and keys?"),
    ("wrong-sign", designed(lambda n, target: circle(n, target, length=-500.0)),
     "The right column has the smallest score of its row, so a sign is wrong."),
    ("points-at-itself", designed(lambda n, target: circle(n, np.arange(n))),
     "Every token points at itself. Where do you use `target`, in the queries or in the keys?"),
    ("neighbour", designed(lambda n, target: circle(n, target, step=1)),
     "Every row points at a neighbour of its target. Do you count something from 1?"),
    ("keys-alike", lambda X, target: (designed(circle)(X, target)[0], np.zeros((X.shape[1], 2))),
     "All tokens have the same key, so no query can tell them apart. Which features of X does W_K read, and do the "
     "tokens differ in these?"),
    ("on-a-line", designed(on_a_line),
     "As points in the plane, your keys all lie on one line, and on a line only the two ends can have the largest "
     "score. Where else in the plane could the keys lie?"),
    ("cannot-win", designed(one_in_the_middle),
     "At least one key that a token should point at can't be chosen by any query, however long the query is. Draw your "
     "keys as points in the plane, and look for a query that chooses each of them."),
    ("elsewhere", designed(like_the_key),
     "Each of your keys could be chosen by some query, but your queries choose other keys than they should. A dot "
     "product measures direction and length. Does another key win because it is longer?"),
    ("not-at-itself", designed(never_oneself),
     "Your weights fail for tokens that point at themselves. Do these get a query of their own?"),
    ("rows-alike", designed(one_query),
     "All rows point at the same column, though their targets differ. Does each token get a query of its own?"),
    ("two-at-one", designed(lambda n, target: (circle(n, np.arange(n))[0], circle(n, np.argsort(target))[0] / 500)),
     "Your weights fail where two tokens point at the same one. Can your design let them?"),
    ("features-for-weights", lambda X, target: parabola(len(X), target),
     "You return queries and keys, one row per token. Return the weights that make them from X."),
    ("wrong-shapes", lambda X, target: made_from(X, 50 * np.eye(len(X))[target], np.eye(len(X))),
     "Your weights have another shape than (d_model, 2). Two features are enough."),
    ("no-tuple", lambda X, target: list(designed(circle)(X, target)),
     "Return a tuple of two arrays: `return W_Q, W_K`."),
    ("not-finite", designed(lambda n, target: circle(n, target, length=1e308)),
     "Your scores or weights hold NaN or infinity. A long query is enough; it need not be infinite."),
)  # fmt: skip

EXERCISE = exercise(
    pointing_weights,
    credit={"each token once": 0.5, "repeats": 0.2, "sizes": 0.3},
    ranges={"n": range(5, 10), "d_model": range(11, 20)},
    examine=examine_pointing,
)
