"""Defines the exercise `linear_memory`, whose matrix returns each key's value as exactly as a matrix can."""

import numpy as np

from ..kit import Drawn, Leaf, by_columns, every_second_row, exercise, normal, strided

#: No answer needs to be closer than this; all known mistakes are further off.
RTOL, RTOL_FLOAT32 = 1e-5, 1e-4


def even(rng, shape, sizes):
    """Draw keys that are far from linearly dependent: their singular values are between 1 and 3."""
    n, d_k = shape
    small = min(shape)
    left, _ = np.linalg.qr(rng.standard_normal((n, small)))
    right, _ = np.linalg.qr(rng.standard_normal((d_k, small)))
    return left * rng.permutation(np.linspace(1, 3, small)) @ right.T


def linear_memory(keys: Drawn("n d_k", even), values: normal("n d_v")) -> Leaf("float array", "the memory"):
    left, strengths, right = np.linalg.svd(keys, full_matrices=False)
    kept = strengths > 1e-6 * max(strengths.max(), 1e-300)
    return right[kept].T @ ((left[:, kept].T @ values) / strengths[kept, None])


def plain(keys, values):
    inverse = np.linalg.pinv(keys, rcond=1e-6)
    memory = inverse @ values
    return memory


def cases(case):
    def ask(criterion, label, dtype=np.float64, **more):
        rtol = RTOL_FLOAT32 if dtype is np.float32 else RTOL
        return case(criterion, label, dtype=dtype, rtol=rtol, **more)

    yield ask("up to d_k pairs", "fewer pairs than features (n = {n}, d_k = {d_k})")
    yield ask("up to d_k pairs", "as many pairs as features (n = d_k = {n})", n="d_k")
    yield ask("up to d_k pairs", "values as wide as the keys (d_v = d_k)", d_v="d_k")
    layout = {"keys": by_columns, "values": every_second_row}
    yield ask("up to d_k pairs", "keys and values that are slices", layout=layout)
    yield ask("up to d_k pairs", "a single pair (n = 1)", n=1)
    yield ask("more pairs", "more pairs than features (n = {n}, d_k = {d_k})", n=range(10, 15))
    yield ask("more pairs", "many pairs, values of width 1", n=range(40, 60), d_v=1)
    yield ask("more pairs", "keys of width 1 (d_k = 1)", d_k=1)
    yield ask("more pairs", "more pairs, float32", n=range(10, 15), dtype=np.float32, layout=strided)
    for n, words in ((range(10, 14), "more pairs than features"), (6, "no more pairs than features (d_k = {d_k})")):
        drawn = case.draw(n=n, d_k=7)
        drawn["keys"] = even(case.rng, (4, 7), {})[np.arange(len(drawn["keys"])) % 4]
        yield ask("dependent keys", f"repeated keys with different values: {words}", **drawn)
    drawn = case.draw(n=14, d_k=3)
    drawn["keys"] = even(case.rng, (5, 3), {})[np.repeat(np.arange(5), (1, 2, 3, 3, 5))]
    yield ask("dependent keys", "more keys than features, some of which come more often", **drawn)
    for n, words in ((range(10, 14), "more pairs than features"), (6, "no more pairs than features (d_k = {d_k})")):
        drawn = case.draw(n=n, d_k=7)
        drawn["keys"] = rounded(case.rng, even(case.rng, (4, 7), {})[np.arange(len(drawn["keys"])) % 4])
        yield ask("rounded keys", f"keys that occur twice or more up to rounding: {words}", **drawn)
    drawn = case.draw(n=5, d_k=8)
    drawn["keys"][4] = drawn["keys"][:4].mean(axis=0)
    drawn["keys"] = rounded(case.rng, 1e3 * drawn["keys"])
    yield ask("rounded keys", "a key that is the mean of the others up to rounding, and all are long", **drawn)
    drawn = case.draw(d_k=7)
    drawn["keys"][1] = 0.0
    yield ask("dependent keys", "a key of zeros", **drawn)
    drawn = case.draw(n=range(10, 14), d_k=7)
    drawn["keys"] *= 1e-2
    yield ask("more pairs", "short keys", **drawn)
    drawn = case.draw(n=range(10, 14), d_k=7)
    drawn["keys"][:, 2] = 0.0
    yield ask("dependent keys", "a feature that is 0 in all keys", **drawn)
    drawn = case.draw(n=4, d_k=7)
    drawn["keys"] = nearly_equal(case.rng, drawn["keys"])
    label = "two keys that differ by little, but by more than rounding"
    yield case("rounded keys", label, rtol=1e-3, **drawn)
    drawn["values"] = 1e-6 * drawn["values"][::-1]
    yield case("rounded keys", "the same keys with different values", rtol=1e-3, **drawn)
    drawn["keys"] = np.zeros((4, 7))
    yield ask("dependent keys", "the same values, and all keys are zeros", **drawn)
    drawn = case.draw(n=8, d_k=7)
    drawn["keys"] = rounded(case.rng, 1e-8 * even(case.rng, (4, 7), {})[np.arange(8) % 4])
    yield ask("rounded keys", "very short keys that occur twice up to rounding", **drawn)
    drawn = case.draw(n=24, d_k=24)
    drawn["keys"] = np.eye(24)[case.rng.permutation(24)[np.arange(24) % 12]]
    drawn["keys"][5] *= 1e3
    drawn["keys"] = rounded(case.rng, drawn["keys"], 1e-8)
    label = "keys that occur twice up to rounding, and one is 1,000 times as long as the others"
    yield case("rounded keys", label, rtol=1e-3, **drawn)
    drawn = case.draw(n=8, d_k=7)
    drawn["keys"] = rounded(case.rng, -np.abs(even(case.rng, (4, 7), {}))[np.arange(8) % 4])
    yield ask("rounded keys", "keys that occur twice up to rounding, no entry above 0", **drawn)


def rounded(rng, keys, by=1e-9):
    """Add rounding errors of up to `by` times the largest entry; the default is a tenth of what the exercise allows."""
    return keys + by * np.abs(keys).max() * rng.uniform(-1, 1, keys.shape)


def nearly_equal(rng, keys):
    """Move the second key close to the first, so that the smallest singular value is 5e-5 times the largest."""
    apart = 1e-4 * rng.standard_normal(keys.shape[1])
    for _ in range(2):
        keys = np.vstack([keys[:1], keys[:1] + apart, keys[2:]])
        strengths = np.linalg.svd(keys, compute_uv=False)
        apart = apart * 5e-5 * strengths[0] / strengths[-1]
    return keys


def unit(keys):
    return keys / np.maximum(np.linalg.norm(keys, axis=1, keepdims=True), 1e-300)


def as_if_at_right_angles(keys, values):
    return (keys / np.maximum((keys**2).sum(axis=1, keepdims=True), 1e-300)).T @ values


def one_after_another(keys, values):
    S = np.zeros((keys.shape[1], values.shape[1]))
    for key, value in zip(keys.astype(float), values, strict=True):
        S += np.outer(key, value - key @ S) / max(key @ key, 1e-300)
    return S


def some_features_only(keys, values):
    """Use as many features as pairs, at most d_k, and leave the other rows at 0; exact for up to d_k pairs."""
    S, used = np.zeros((keys.shape[1], values.shape[1])), min(keys.shape)
    S[:used] = linear_memory(keys[:, :used], values)
    return S


def believing(keys, values):
    """Return the memory that would be best if the keys had no rounding errors."""
    return np.linalg.lstsq(keys, values, rcond=None)[0]


def one_value_a_key(pick):
    """Keep one value of each key that occurs more than once."""

    def memory(keys, values):
        kept = [pick(np.flatnonzero((keys == key).all(axis=1))) for key in np.unique(keys, axis=0)]
        return believing(keys[kept], values[kept])

    return memory


def by_features(keys, values):
    """Use the textbook formula for many pairs, whether or not the inverse exists."""
    return np.linalg.inv(keys.T @ keys) @ keys.T @ values


MISTAKES = (
    ("plain-sum", lambda keys, values: keys.T @ values,
     "You take the plain sum over all pairs. Keys that are not at right angles bring each other's values into the "
     "answer."),
    ("average", lambda keys, values: keys.T @ values / len(keys),
     "You take the plain sum, divided by the number of pairs. The values of other keys still come into the answer."),
    ("as-if-at-right-angles", as_if_at_right_angles,
     "You sum over the pairs, each divided by the square of its key's length. That is exact for one pair, or for "
     "keys at right angles; other keys disturb each other."),
    ("one-after-another", one_after_another,
     "You store the pairs one after another, each exactly. Storing a later one disturbs those before it. What if you "
     "take all pairs into account at once?"),
    ("some-features-only", some_features_only,
     "Your memory is exact where it can be, but it is not the one of least norm. Some features of the keys are not "
     "used."),
    ("first-pairs-only", lambda keys, values: believing(keys[: keys.shape[1]], values[: keys.shape[1]]),
     "You store only the first d_k pairs. Where there are more, all of them count equally, and the memory need not "
     "be exact for any."),
    ("latest-value", one_value_a_key(lambda places: places[-1]),
     "Where a key occurs twice, your memory knows only one of its values. Which answer has the least sum of squares "
     "for both?"),
    ("first-value", one_value_a_key(lambda places: places[0]),
     "Where a key occurs twice, your memory knows only its first value. Which answer has the least sum of squares "
     "for both?"),
    ("unit-keys-solved", lambda keys, values: linear_memory(unit(keys), values),
     "Your memory is right only for keys of length 1. It should be right for the keys as they are."),
    ("by-features", by_features,
     "You invert keys.T @ keys, which has no inverse where the keys fill fewer than d_k directions. You then get "
     "rounding errors, or an exception."),
    ("rounding-believed", believing,
     "You tell apart two keys that differ only by rounding, and so get enormous entries. Treat differences that "
     "small, relative to the keys, as 0."),
    ("held-back", lambda keys, values: np.linalg.solve(keys.T @ keys + 1e-2 * np.eye(keys.shape[1]), keys.T @ values),
     "You add a term that holds the memory back a little, as in ridge regression. However small it is, it matters "
     "for short keys."),
    ("answers", lambda keys, values: keys @ linear_memory(keys, values),
     "You return the answers to the stored keys. Return the memory itself."),
)  # fmt: skip

EXERCISE = exercise(
    linear_memory,
    credit={"up to d_k pairs": 0.4, "more pairs": 0.25, "dependent keys": 0.2, "rounded keys": 0.15},
    ranges={"n": range(3, 6), "d_k": range(6, 10), "d_v": range(2, 14)},
)
