"""Relations of numbers: a factor, a sign, an order, a shift, a scale between the answer and what was expected."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...data import Finding
from ...exercises.kit.records import Case
from ...judging.compare import close, slack
from ..evidence import Evidence

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
