"""softmax: along any axis, and safe for large entries."""

import numpy as np
import scipy.special

from ..kit import Leaf, by_columns, exercise, normal
from .parts import stable, unstable


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
    yield ask("values", "a vector", z=normal("size", scale=2))
    yield ask("values", "a square matrix", rows="size")
    yield ask("values", "a matrix of negative numbers", z=-np.abs(matrix()) - 1)
    yield ask("axes", "axis=0 of a matrix", z=normal("size columns"), axis=0, by_name="axis")
    yield ask("axes", "axis=1 of an array of three axes", z=normal("blocks size columns"), axis=1, by_name="axis")
    turned = {"z": normal("blocks size columns"), "layout": by_columns}
    yield ask("axes", "axis=-2 of an array of three axes", **turned, axis=-2, by_name="axis")
    yield ask("axes", "the last axis of four", z=normal("2 rows 3 size"))
    yield ask("axes", "the axis given by position", z=normal("size columns"), axis=0)
    big = matrix()
    above, below = case.rng.permutation(len(big))[:2]
    big[above] += 1e4
    big[below] -= 1e4
    yield ask("stability", "rows of scores near 10,000 beside rows near -10,000", z=big)
    big = matrix()
    big += np.where(np.arange(len(big)) % 2, 1e4, -1e4)[:, None]
    yield ask("stability", "one row near 10,000, the next near -10,000", z=big)
    wide = matrix()
    wide[:, 0], wide[:, 1] = -1e4, 1e4
    yield ask("stability", "10,000 and -10,000 in one row", z=wide)
    low = matrix()
    low[:, -1] -= 1e3
    yield ask("stability", "a far smaller entry at the end of each row", z=low)
    yield ask("stability", "all entries -10,000", z=np.full((2, case.rng.integers(3, 11)), -1e4))
    extreme = np.float32([[1e4, -1e4, 0], [-1e4, -1e4, -1e4]])
    yield ask("stability", "float32 with entries of ±10,000", z=extreme)
    yield ask("edge cases", "a single entry per row", size=1)
    yield ask("edge cases", "equal entries", z=np.full_like(matrix(), 0.75))


def shifted(by):
    """A softmax from whose entries `by(z, axis)` is subtracted, not the maximum along the axis."""
    return lambda z, axis=-1: unstable(z - by(z, axis), axis)


def changed(change):
    """The softmax of other entries, `change(z, axis)`."""
    return lambda z, axis=-1: stable(change(z, axis), axis)


def powers(z, axis):
    return np.exp(z - z.max(axis=axis, keepdims=True))


def standardised(z, axis):
    centred = z - z.mean(axis=axis, keepdims=True)
    return centred / (z.std(axis=axis, keepdims=True) + 1e-12)


def over_sum(positive, guard=0.0):
    """`positive(z, axis)` over its sum."""

    def wrong(z, axis=-1):
        found = positive(z, axis)
        return found / (found.sum(axis=axis, keepdims=True) + guard)

    return wrong


MISTAKES = (
    ("no-shift", unstable,
     "The exponentials overflow or vanish for large entries. A softmax does not change when all entries of a row "
     "are shifted by the same number: which shift keeps them harmless?"),
    ("global-shift", shifted(lambda z, axis: z.max()),
     "The largest entry of the whole array was subtracted, so a row of much smaller numbers vanishes. "
     "Each row needs the maximum of its own."),
    ("shift-by-minimum", shifted(lambda z, axis: z.min(axis=axis, keepdims=True)),
     "The smallest entry was subtracted, which leaves large exponents that overflow. No exponent should be above 0."),
    ("shift-by-mean", shifted(lambda z, axis: z.mean(axis=axis, keepdims=True)),
     "The mean was subtracted, which leaves large exponents that overflow. No exponent should be above 0."),
    ("axis-ignored", lambda z, axis=-1: stable(z, -1),
     "The `axis` argument is not used: the softmax always runs over the last axis."),
    ("always-axis-0", lambda z, axis=-1: stable(z, 0),
     "The softmax always runs over the first axis. The default is the last one, and `axis` may name any."),
    ("always-axis-1", lambda z, axis=-1: stable(z, 1),
     "The softmax always runs over axis 1. The default is the last one, and `axis` may name any."),
    ("default-axis-0", lambda z, axis=0: stable(z, axis),
     "Without an `axis` the softmax runs over the first axis. The default is the last one."),
    ("over-everything", lambda z, axis=-1: np.exp(z - z.max()) / np.exp(z - z.max()).sum(),
     "The exponentials were divided by the sum of the whole array. The sum runs along one axis."),
    ("sum-without-keepdims", lambda z, axis=-1: powers(z, axis) / powers(z, axis).sum(axis=axis),
     "The sum lost its axis, and broadcasting divides by the sums of other rows, or fails: look at `keepdims`."),
    ("max-without-keepdims", shifted(lambda z, axis: z.max(axis=axis)),
     "The maximum lost its axis, and broadcasting subtracts the maxima of other rows, or fails: look at `keepdims`."),
    ("not-normalised", lambda z, axis=-1: powers(z, axis),
     "These are exponentials that were not divided by their sum."),
    ("log-softmax", lambda z, axis=-1: scipy.special.log_softmax(z, axis=axis),
     "This is the logarithm of the softmax."),
    ("linear", over_sum(lambda z, axis: z),
     "The entries were divided by their sum, without an exponential: negative weights are possible that way."),
    ("positive-part", over_sum(lambda z, axis: np.maximum(z, 0), guard=1e-30),
     "Negative entries were cut off in place of taking the exponential."),
    ("base-two", lambda z, axis=-1: stable(z, axis, np.exp2),
     "Powers of 2 were taken. The softmax takes powers of e."),
    ("base-ten", lambda z, axis=-1: stable(z, axis, lambda x: 10.0**x),
     "Powers of 10 were taken. The softmax takes powers of e."),
    ("wrong-sign", changed(lambda z, axis: -z),
     "The exponents have the wrong sign: the smallest entry weighs most."),
    ("length-one", lambda z, axis=-1: stable(z, axis) / np.linalg.norm(stable(z, axis), axis=axis, keepdims=True),
     "The weights have length 1, as a vector has. They must have the sum 1."),
    ("epsilon-added", lambda z, axis=-1: stable(z, axis, epsilon=1e-3),
     "A small number was added to the sum, so the weights no longer add up to 1. A sum that holds e⁰ needs no guard."),
    ("sigmoid", lambda z, axis=-1: scipy.special.expit(z),
     "This is the logistic function of each entry. The weights of a row depend on one another."),
    ("hard-max", lambda z, axis=-1: (z == z.max(axis=axis, keepdims=True)).astype(z.dtype),
     "The largest entry gets all the weight. The softmax gives every entry its share."),
    ("clipped", lambda z, axis=-1: unstable(np.clip(z, -20, 20), axis),
     "The entries were clipped. That avoids overflow and changes the result where entries beyond the clip differ."),
    ("nan-replaced", lambda z, axis=-1: np.nan_to_num(unstable(z, axis)),
     "Overflow was covered up: NaN was replaced by zeros afterwards. Avoid the overflow in place of its traces."),
    ("clipped-far-out", lambda z, axis=-1: unstable(np.clip(z, -500, 500), axis),
     "The entries were clipped. Beyond the clip all entries become equal, and so do their weights."),
    ("unstable-logarithm", lambda z, axis=-1: np.exp(z - np.log(np.exp(z).sum(axis=axis, keepdims=True))),
     "The logarithm of the sum was subtracted, and the sum itself overflows or vanishes for large entries."),
    ("shift-by-first", shifted(lambda z, axis: np.take(z, [0], axis=axis)),
     "The first entry of each row was subtracted. Others may be far above it: no exponent should be above 0."),
    ("shift-by-last", shifted(lambda z, axis: np.take(z, [-1], axis=axis)),
     "The last entry of each row was subtracted. Others may be far above it: no exponent should be above 0."),
    ("shift-by-size", shifted(lambda z, axis: np.abs(z).max(axis=axis, keepdims=True)),
     "The largest absolute value was subtracted. In a row of large negative entries everything vanishes."),
    ("shift-along-last-axis", shifted(lambda z, axis: z.max(axis=-1, keepdims=True)),
     "The maximum is always taken along the last axis. It belongs to the same axis as the sum."),
    ("sum-along-last-axis", lambda z, axis=-1: unstable(z - z.max(axis=axis, keepdims=True), -1),
     "The sum is always taken along the last axis. It belongs to the axis that `axis` names."),
    ("axis-by-keyword-only", lambda z, *, axis=-1: stable(z, axis),
     "`axis` cannot be given by position. Both ways are usual, and the signature allows both."),
    ("divided-by-maximum", lambda z, axis=-1: unstable(z / z.max(axis=axis, keepdims=True), axis),
     "The entries were divided by the largest one. A softmax does not change under a shift; a division changes it."),
    ("absolute", changed(lambda z, axis: np.abs(z)),
     "The signs are lost: a large negative entry gets little weight, not much."),
    ("scaled", changed(lambda z, axis: z / np.sqrt(z.shape[axis])),
     "The entries were divided by a root first. This function is the plain softmax."),
    ("halved", changed(lambda z, axis: z / 2),
     "The entries were halved first. This function is the plain softmax."),
    ("standardised", changed(standardised),
     "The entries were brought to unit variance. Only a shift leaves the softmax as it is."),
    ("twice", changed(stable),
     "The softmax was taken twice."),
    ("squares", over_sum(lambda z, axis: z**2, guard=1e-300),
     "Squares were taken in place of exponentials: a large negative entry gets much weight."),
    ("shifted-linear", over_sum(lambda z, axis: z - z.max(axis=axis, keepdims=True), guard=-1e-300),
     "The shifted entries were divided by their sum: the exponential is missing."),
    ("divided-twice", lambda z, axis=-1: stable(z, axis) / powers(z, axis).sum(axis=axis, keepdims=True),
     "The exponentials were divided by their sum twice."),
)  # fmt: skip

EXERCISE = exercise(
    softmax,
    cases,
    MISTAKES,
    credit={"values": 0.4, "axes": 0.25, "stability": 0.25, "edge cases": 0.1},
    core="values",
    plain=plain,
    sizes=range(3, 11),
)
