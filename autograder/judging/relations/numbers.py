"""Relations of numbers: a factor, a sign, an order, a shift, a scale between the answer and what was expected."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...data import Finding
from ...exercises.kit.records import Case
from ..compare import close, slack
from ..posed import Evidence

#: Ways of rounding -> the decimals that are left of every entry.
GRIDS = {
    "rounded": 0,
    "rounded-to-1": 1,
    "rounded-to-2": 2,
    "rounded-to-3": 3,
    "rounded-to-4": 4,
    "truncated": 0,
    "rounded-down": 0,
}
#: How far from the right number a mean over a few hundred draws or more may be, as a share of it.
NEAR = 0.3


def through_a_float(evidence: Evidence) -> Finding | None:
    """A count so large that no float holds it, wrong in its last digits."""
    told = 0
    for index in evidence.failing():
        value, expected = evidence.calls[index].value, evidence.posed.expected[index].value
        if type(expected) is not int or not isinstance(value, (int, float)) or abs(expected) <= 2**53:
            return None
        if (
            value in (float("inf"), float("-inf"))
            or value != value
            or abs(int(value) - expected) > 1e-14 * abs(expected)
        ):
            return None
        told += 1
    if not told:
        return None
    text = (
        "Only the last digits of a very large count are wrong: somewhere on the way it is a float, which holds whole "
    )
    return Finding(
        "through-a-float", text + "numbers up to 2**53. A division by `/`, a power of `math` or a mean makes one."
    )


def rounded_ids(evidence: Evidence) -> Finding | None:
    """Whole numbers that came out as the nearest ones that a float of four or of eight bytes holds."""
    pairs = evidence.wrong_pairs()
    for kind, most in ((np.float32, "2**24"), (np.float64, "2**53")):
        if pairs and all(
            value.dtype.kind in "iu" and expected.dtype.kind in "iu" and (value == expected.astype(kind)).all()
            for _, _, value, expected in pairs
        ):
            text = f"Whole numbers are rounded: on the way they are floats, which hold them up to {most}."
            return Finding("rounded-ids", text)
    return None


def wraps_around(evidence: Evidence) -> Finding | None:
    """A count that is off by a multiple of 2**64, or of 2**32."""
    off = []
    for index in evidence.failing():
        value, expected = evidence.calls[index].value, evidence.posed.expected[index].value
        if type(expected) is not int or not isinstance(value, (int, np.integer)):
            return None
        off.append((int(value) - expected, expected))
    bits = next((n for n in (64, 32) if off and all(gap % 2**n == 0 and due >= 2 ** (n - 1) for gap, due in off)), None)
    if bits is None:
        return None
    text = (
        f"A very large count is off by a multiple of 2**{bits}: whole numbers of NumPy or torch have {bits} bits there "
    )
    return Finding("wraps-around", text + "and begin again. Python's own are exact at any size.")


def constant_factor(evidence: Evidence) -> Finding | None:
    """Right up to a factor: one number everywhere, or a power of a named size."""
    wrong = {leaf for _, leaf, _, _ in evidence.wrong_pairs()}
    if len(wrong) != 1 or not evidence.all_of_kind("values"):
        return None
    seen: list[tuple[Case, float]] = []
    for case, leaf, value, expected in evidence.pairs(only_failing=False):
        if leaf not in wrong or value.dtype.kind != "f" or expected.dtype.kind != "f":
            continue
        norm = float((expected * expected).sum())
        if norm == 0:
            continue
        factor = float((value * expected).sum()) / norm
        if factor == 0 or not close(value, factor * expected, slack(case, 100)):
            return None
        seen.append((case, factor))
    if len(seen) < 2:
        return None
    for text, formula in formulas(seen[0][0]):
        if all(near(factor, formula(case)) for case, factor in seen):
            return Finding(
                "off-by-factor", f"The result is {text} times too large: is a size used or left out once too often?"
            )
    found = _power_and_number(seen)
    if found:
        return Finding("off-by-factor", f"The result is {found} times what it should be.")
    factors = np.array([factor for _, factor in seen])
    if np.abs(factors - 1).max() < 1e-4:
        return None  # right up to rounding: no factor, but too little precision
    if np.ptp(factors) < 1e-6 * abs(factors[0]):
        if near(factors[0], -1.0):
            return Finding("wrong-sign", "The result has the wrong sign everywhere.")
        return Finding("off-by-factor", f"The result is {factors[0]:.4g} times what it should be, in every case.")
    return None


def _power_and_number(seen: Sequence[tuple[Case, float]]) -> str:
    """ "2/√d_k": a small number times a power of one size, in cases where that size differs."""
    for size in seen[0][0].sizes:
        lengths = np.array([float(case.sizes.get(size, 0)) for case, _ in seen])
        if len(set(lengths)) < 3 or not lengths.all():
            continue
        for power, words in ((0.5, "·√{}"), (-0.5, "/√{}"), (1.0, "·{}"), (-1.0, "/{}"), (1.5, "·{0}·√{0}")):
            numbers = np.array([factor for _, factor in seen]) / lengths**power
            number = round(float(numbers[0]) * 12) / 12
            if number and np.abs(numbers - number).max() < 1e-5 * abs(number):
                return f"{number:.4g}{words.format(size)}"
    return ""


def formulas(case: Case) -> Iterator[tuple[str, Callable[[Case], float]]]:
    powers = ((0.5, "√{}"), (-0.5, "1/√{}"), (1.0, "{}"), (-1.0, "1/{}"), (2.0, "{}²"), (-2.0, "1/{}²"))
    for size in case.sizes:
        for power, words in powers:
            yield words.format(size), lambda c, size=size, power=power: float(c.sizes.get(size, 0) or np.nan) ** power


def near(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-4 * abs(other)


def inverted(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    # A single boolean that is wrong is always the opposite of the right one: that says nothing.
    if pairs and all(v.ndim and v.dtype.kind == e.dtype.kind == "b" and np.array_equal(v, ~e) for _, _, v, e in pairs):
        return Finding("inverted", "True and False have changed places.")
    return None


def unnormalised(evidence: Evidence) -> Finding | None:
    for _, leaf, value, expected in evidence.wrong_pairs():
        if not evidence.posed.exercise.leaves[leaf].rows_sum_to_one or value.ndim < 2:
            continue
        live = (expected != 0).any(axis=-1)
        rows, columns = value.sum(axis=-1)[live], value.sum(axis=-2)
        if np.allclose(rows, 1, atol=1e-4) or not np.isfinite(rows).all():
            continue
        if value.shape[-2] > 1 and np.allclose(columns, 1, atol=1e-4):
            return Finding("softmax-over-queries", "The columns of the weights sum to 1, not the rows.")
        return Finding("rows-not-normalised", "The rows of the weights do not sum to 1.")
    return None


def added_constant(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    if (
        not pairs
        or not evidence.all_of_kind("values")
        or any(value.dtype.kind != "f" or value.size < 2 for _, _, value, _ in pairs)
    ):
        return None
    if all(close(value - (value - expected).mean(), expected, slack(case, 100)) for case, _, value, expected in pairs):
        return Finding("added-constant", "The result is right up to one number added everywhere.")
    return None


def imprecise(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    if (
        pairs
        and evidence.all_of_kind("values")
        and all(value.dtype.kind == "f" and close(value, expected, 2e-3) for _, _, value, expected in pairs)
    ):
        text = "Close, but less exact than the inputs allow: is there an epsilon, a rounding, a "
        text += "quotient of differences or a float32 on the way?"
        return Finding("imprecise", text)
    return None


def measured_on_draws(evidence: Evidence) -> Finding | None:
    """Single numbers near the right ones, now above them and now below, as a mean over random draws is."""
    offsets = []
    if not evidence.all_of_kind("values"):
        return None
    for _, one in itertools.groupby(evidence.pairs(), key=lambda pair: id(pair[0])):
        found = [(value, expected) for _, _, value, expected in one]
        size = max(float(np.abs(expected).max()) for _, expected in found)
        for value, expected in found:
            if value.ndim or value.dtype.kind != "f":
                return None
            offsets.append(float(value - expected) / size if size else float(value))
    above, below = sum(offset > 1e-6 for offset in offsets), sum(offset < -1e-6 for offset in offsets)
    if min(above, below) >= 3 and max(map(abs, offsets)) < NEAR:
        text = "Close, now above and now below: is it measured on random draws? Each of them gives other numbers. "
        return Finding("measured-on-draws", text + "Work it out on paper, and calculate it from the arguments.")
    return None


def varying_factor(evidence: Evidence) -> Finding | None:
    """Right up to a factor in every case, but no power of one size: a rounded, fixed or mistaken divisor."""
    pairs = evidence.wrong_pairs()
    if len(pairs) < 2 or not evidence.all_of_kind("values") or len({leaf for _, leaf, _, _ in pairs}) > 1:
        return None
    for case, _, value, expected in pairs:
        norm = float((expected * expected).sum()) if expected.dtype.kind == "f" else 0.0
        if value.dtype.kind != "f" or value.size < 2 or norm == 0:
            return None
        factor = float((value * expected).sum()) / norm
        if factor == 0 or not close(value, factor * expected, slack(case, 100)):
            return None
    text = "In each case the result is right up to a factor, and the factor changes: what multiplies or divides it?"
    return Finding("off-by-factor", text)


def rows_related(evidence: Evidence) -> Finding | None:
    """Each row is right up to a factor, or up to a shift, of its own."""
    pairs = [pair for pair in evidence.wrong_pairs() if pair[2].ndim >= 1 and pair[2].shape[-1] > 1]
    if not pairs or not evidence.all_of_kind("values") or any(value.dtype.kind != "f" for _, _, value, _ in pairs):
        return None
    shifted = scaled = True
    for case, _, value, expected in pairs:
        rtol = slack(case, 100)
        shift = (value - expected).mean(axis=-1, keepdims=True)
        shifted &= close(value - shift, expected, rtol)
        norm = (expected * expected).sum(axis=-1, keepdims=True)
        factor = (value * expected).sum(axis=-1, keepdims=True) / np.where(norm == 0, 1, norm)
        scaled &= close(value, factor * expected, rtol) and bool((factor != 0).any())
    if shifted:
        return Finding("rows-shifted", "Each row is right up to one number added to all of its entries.")
    if scaled:
        text = "Each row is right up to a factor of its own: by what are rows multiplied or divided?"
        return Finding("rows-off-by-factor", text)
    return None


def wrong_temperature(evidence: Evidence) -> Finding | None:
    """Weights as if all scores had been multiplied by one number before the softmax."""
    flatter = sharper = 0
    for case, _, value, expected in evidence.wrong_pairs():
        if value.dtype.kind != "f" or value.ndim < 1 or value.shape[-1] < 3:
            continue
        sums = np.concatenate([value.sum(axis=-1).ravel(), expected.sum(axis=-1).ravel()])
        there = expected > 1e-9
        if (value[~there] > 1e-6).any():
            return None  # no scale gives weight to what is hidden
        if not (np.isclose(sums, 1, atol=1e-4) | (sums == 0)).all() or (value[there] < 1e-300).any():
            continue
        one, other = (_centred_logs(weights, there) for weights in (value, expected))
        slope = float((one * other).sum() / max((other * other).sum(), 1e-300))
        if slope <= 0 or not close(one, slope * other, max(1e-5, slack(case, 100))):
            return None
        flatter, sharper = flatter + (slope < 1), sharper + (slope > 1)
    if flatter + sharper < 2 or (flatter and sharper):
        return None
    word = "flat: the scores are divided by too much" if flatter else "sharp: the scores are divided by too little"
    return Finding("wrong-scale", f"The weights are too {word}, or by the wrong size. Which one belongs there?")


def _centred_logs(weights: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Logarithms of the weights that are there, minus their mean in each row; 0 elsewhere."""
    logs = np.log(np.where(there, weights, 1.0))
    mean = logs.sum(axis=-1, keepdims=True) / np.maximum(there.sum(axis=-1, keepdims=True), 1)
    return np.where(there, logs - mean, 0.0)


def simple_function(evidence: Evidence) -> Finding | None:
    """The right numbers, after one more step."""
    steps: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
        "absolute-values": ("The signs are lost: these are the absolute values.", np.abs),
        "rounded": ("The result was rounded.", np.round),
        "rounded-to-1": ("The result was rounded to 1 decimal.", lambda e: np.round(e, 1)),
        "rounded-to-2": ("The result was rounded to 2 decimals.", lambda e: np.round(e, 2)),
        "rounded-to-3": ("The result was rounded to 3 decimals.", lambda e: np.round(e, 3)),
        "rounded-to-4": ("The result was rounded to 4 decimals.", lambda e: np.round(e, 4)),
        "truncated": ("The result was cut to whole numbers.", np.trunc),
        "rounded-down": ("The result was rounded down to whole numbers.", np.floor),
        "squared": ("The result is the square of what was asked for.", np.square),
        "root-taken": ("The result is the root of what was asked for.", lambda e: np.sqrt(np.abs(e))),
        "signed-root": ("A root was taken of the result.", lambda e: np.sign(e) * np.sqrt(np.abs(e))),
        "negatives-cut": ("Negative entries became 0.", lambda e: np.maximum(e, 0)),
        "logarithm": ("The result is the logarithm of what was asked for.", lambda e: np.log(np.maximum(e, 1e-300))),
        "reversed": ("The result is upside down: its first axis is reversed.", lambda e: e[::-1] if e.ndim else e),
        "complement": ("The result is 1 minus what was asked for.", lambda e: 1 - e),
        "upper-half": ("Only the upper triangle is there.", lambda e: np.triu(e) if e.ndim == 2 else e),
        "lower-half": ("Only the lower triangle is there.", lambda e: np.tril(e) if e.ndim == 2 else e),
    }
    pairs = evidence.wrong_pairs()
    if not pairs or any(v.dtype.kind != "f" or e.dtype.kind != "f" for _, _, v, e in pairs):
        return None
    if not any(value.any() for _, _, value, _ in pairs):
        return None  # many steps lead to 0, so that it speaks for none of them
    for slug, (text, step) in steps.items():
        if slug in GRIDS and not all(_on_grid(value, 10.0 ** -GRIDS[slug]) for _, _, value, _ in pairs):
            continue
        if all(close(value, step(expected), slack(case, 10)) for case, _, value, expected in pairs):
            return Finding(slug, text)
    return None


def _on_grid(value: np.ndarray, step: float) -> bool:
    """Is every entry a multiple of `step`, and does that say something of numbers of this size?"""
    blur = 1e-6 * np.abs(value).max(initial=0.0)  # a float32 has no more digits
    return bool(blur < step / 20 and (np.abs(value - step * np.round(value / step)) <= blur).all())
