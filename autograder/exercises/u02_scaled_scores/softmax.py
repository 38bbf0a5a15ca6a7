"""Defines the exercise `softmax`, which works along any axis and is safe for large entries."""

import numpy as np
import scipy.special

from ..kit import Leaf, by_columns, exercise, normal
from .parts import DIGITS, stable, unstable


def softmax(z: normal("rows size"), axis=-1) -> Leaf("float array", "the weights"):
    return scipy.special.softmax(z, axis=axis)


def plain(z, axis=-1):
    largest = z.max(axis=axis, keepdims=True)
    exponentials = np.exp(z - largest)
    total = exponentials.sum(axis=axis, keepdims=True)
    return exponentials / total


def cases(case):
    def ask(criterion, label, **given):
        return case(criterion, label, quiet=True, **given)

    def matrix():
        return case.draw()["z"]

    yield ask("values", "a matrix")
    yield ask("values", "a matrix of float32", dtype=np.float32)
    yield ask("values", "long rows", size=range(70, 80))
    yield ask("values", "a vector", z=normal("size", scale=2))
    yield ask("values", "a square matrix", rows="size")
    yield ask("values", "a matrix of negative numbers", z=-np.abs(matrix()) - 1)
    yield ask("axes", "axis=0 of a matrix", z=normal("size columns"), axis=0, by_name="axis")
    yield ask("axes", "axis=0 of an array of three axes", z=normal("size blocks columns"), axis=0, by_name="axis")
    yield ask("axes", "axis=1 of an array of four axes", z=normal("2 size rows 3"), axis=1, by_name="axis")
    yield ask("axes", "axis=1 of an array of three axes", z=normal("blocks size columns"), axis=1, by_name="axis")
    turned = {"z": normal("blocks size columns"), "layout": by_columns}
    yield ask("axes", "axis=-2 of an array of three axes", **turned, axis=-2, by_name="axis")
    yield ask("axes", "the last axis of four", z=normal("2 rows 3 size"))
    yield ask("axes", "the axis given by position", z=normal("size columns"), axis=0)
    big = matrix()
    above, below = case.rng.permutation(len(big))[:2]
    big[above] += 1e4
    big[below] -= 1e4
    yield ask("stability", "rows of scores near 10,000 next to rows near -10,000", z=big)
    big = matrix()
    big += np.where(np.arange(len(big)) % 2, 1e4, -1e4)[:, None]
    yield ask("stability", "one row near 10,000, the next near -10,000", z=big)
    wide = matrix()
    wide[:, 0], wide[:, 1] = -1e4, 1e4
    yield ask("stability", "10,000 and -10,000 in one row", z=wide)
    ahead = np.zeros((3, 9))
    ahead[:, 2:4] = [1e4, 1e4 - 1]
    yield ask("stability", "two entries near each other, far above all others", z=ahead)
    yield ask("stability", "entries near 709, whose exponentials are numbers and their sum is none", z=matrix() + 709)
    yield ask("stability", "entries near -745, whose exponentials have lost their digits", z=matrix() - 745)
    low = matrix()
    low[:, -1] -= 1e3
    yield ask("stability", "a far smaller entry at the end of each row", z=low)
    yield ask("stability", "all entries -10,000", z=np.full((2, case.rng.integers(3, 11)), -1e4))
    extreme = np.float32([[1e4, -1e4, 0], [-1e4, -1e4, -1e4]])
    yield ask("stability", "float32 with entries of ±10,000", z=extreme)
    yield ask("edge cases", "a single entry per row", size=1)
    yield ask("edge cases", "equal entries", z=np.full_like(matrix(), 0.75))
    narrow = np.float32(87.6 + 0.3 * case.rng.random((3, 9)))
    label = "float32 with entries near 88, whose exponentials are numbers and their sum is none"
    yield ask("stability", label, z=narrow)
    deep = case.rng.standard_normal((1, 2, 5, 3, 2))
    deep += case.rng.permuted(np.broadcast_to([[-1e4], [1e4], [0]], (1, 2, 1, 3, 1)), axis=3)
    label = "axis=-3 of five axes, entries near 10,000 next to others near -10,000"
    yield ask("stability", label, z=deep, axis=-3, by_name="axis")
    label = "the array of the case before along its first axis, which has one entry"
    yield ask("stability", label, z=deep, axis=0, by_name="axis")
    spread = np.stack([case.rng.permutation(np.linspace(-22, 0, 12)) for _ in range(3)])
    yield ask("edge cases", "0 next to entries down to -22: small weights, to many digits", z=spread, rtol=DIGITS)
    late = np.full((1, 1_100), -1e4)
    late[0, -9:-3] = case.rng.standard_normal(6)
    yield ask("stability", "1,100 entries, the last but a few far above all others", z=late, rtol=DIGITS)


def shifted(by):
    """Return a softmax that subtracts `by(z, axis)` from the entries instead of the maximum along the axis."""
    return lambda z, axis=-1: unstable(z - by(z, axis), axis)


MISTAKES = (
    ("no-shift", unstable,
     "Your exponentials overflow or vanish for large entries. A softmax does not change when all entries of a row "
     "are shifted by the same number. Which shift keeps them harmless?"),
    ("shift-by-mean", shifted(lambda z, axis: z.mean(axis=axis, keepdims=True)),
     "You subtract the mean, which leaves exponents so large that they overflow. No exponent should be above 0."),
    ("axis-ignored", lambda z, axis=-1: stable(z, -1),
     "You don't use the argument `axis`. Your softmax always runs over the last axis."),
    ("always-axis-0", lambda z, axis=-1: stable(z, 0),
     "Your softmax always runs over the first axis. The default is the last one, and `axis` may name any."),
    ("over-everything", lambda z, axis=-1: np.exp(z - z.max()) / np.exp(z - z.max()).sum(),
     "You divide the exponentials by the sum of the whole array. Sum along one axis."),
    ("log-softmax", lambda z, axis=-1: scipy.special.log_softmax(z, axis=axis),
     "You return the logarithm of the softmax."),
    ("epsilon-added", lambda z, axis=-1: stable(z, axis, epsilon=1e-3),
     "You add a small number to the sum, so the weights no longer add up to 1. A sum that holds e⁰ needs no guard."),
    ("clipped", lambda z, axis=-1: unstable(np.clip(z, -60, 60), axis),
     "You clip the entries. That avoids the overflow, but it changes the result where entries beyond the clip "
     "differ."),
    ("nan-replaced", lambda z, axis=-1: np.nan_to_num(unstable(z, axis)),
     "You replace NaN by zeros after the overflow. Avoid the overflow itself."),
    ("shift-by-size", shifted(lambda z, axis: np.abs(z).max(axis=axis, keepdims=True)),
     "You subtract the largest absolute value. In a row of large negative entries everything vanishes."),
)  # fmt: skip

EXERCISE = exercise(
    softmax, credit={"values": 0.4, "axes": 0.25, "stability": 0.25, "edge cases": 0.1}, sizes=range(3, 11)
)
