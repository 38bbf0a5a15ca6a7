"""Diagnoses wrong values: a factor, a sign, an order or a missing part."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...exercises.kit.exercise_records import Case
from ...judging.compare_results import close, same, slack, tolerance
from ...records import Certainty, Finding
from ...safe_text import listed, spoken, verb
from ...worker.encode_values import leaves
from ..calls_and_expected import Evidence
from ..finding_sentences import named, of_results
from . import shapes

#: How far a mean over a few hundred random draws may be from the right value, relative to it.
NEAR = 0.3
#: A result that is right up to this relative error is computed correctly but rounded on the way.
COARSE = 2e-3


def through_a_float(evidence: Evidence) -> Finding | None:
    """Return a finding if only the last digits are wrong in an integer that is too large for a float."""
    for index in evidence.failing():
        value, expected = evidence.calls[index].value, evidence.posed.expected[index].value
        if type(expected) is not int or not isinstance(value, (int, float)) or abs(expected) <= 2**53:
            return None
        if not abs(value) < 2**1000 or abs(int(value) - expected) > 1e-14 * abs(expected):  # infinite, NaN or far off
            return None
    return named("through-a-float")


def constant_factor(evidence: Evidence) -> Finding | None:
    """Return a finding if the result is right up to a factor: one number everywhere, or a power of a size."""
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
            return named("off-by-factor/size", factor=text)
    found = _power_and_number(seen)
    if found:
        return named("off-by-factor", factor=found)
    factors = np.array([factor for _, factor in seen])
    if np.abs(factors - 1).max() < 1e-4:
        return None  # only too imprecise, not off by a factor
    if np.ptp(factors) < 1e-6 * abs(factors[0]):
        if near(factors[0], -1.0):
            return named("wrong-sign")
        return named("off-by-factor/number", factor=f"{factors[0]:.4g}")
    return None


def _power_and_number(seen: Sequence[tuple[Case, float]]) -> str:
    """A factor such as "2/√d_k": a small number times a power of one size, in cases where that size differs."""
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


def unnormalised(evidence: Evidence) -> Finding | None:
    for _, leaf, value, expected in evidence.wrong_pairs():
        if not evidence.posed.exercise.leaves[leaf].rows_sum_to_one or value.ndim < 2:
            continue
        live = (expected != 0).any(axis=-1)
        rows, columns = value.sum(axis=-1)[live], value.sum(axis=-2)
        if np.allclose(rows, 1, atol=1e-4) or not np.isfinite(rows).all():
            continue
        if value.shape[-2] > 1 and np.allclose(columns, 1, atol=1e-4):
            return named("softmax-over-queries")
        return named("rows-not-normalised")
    return None


def imprecise(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    if (
        pairs
        and evidence.all_of_kind("values")
        and all(value.dtype.kind == "f" and close(value, expected, COARSE) for _, _, value, expected in pairs)
    ):
        return named("imprecise")
    return None


def measured_on_draws(evidence: Evidence) -> Finding | None:
    """Return a finding if single numbers are close, some too large and some too small, like means of draws."""
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
        return named("measured-on-draws")
    return None


def rows_related(evidence: Evidence) -> Finding | None:
    """Return a finding if each row is right up to a factor or a shift of its own."""
    pairs = [pair for pair in evidence.wrong_pairs() if pair[2].ndim >= 1 and pair[2].shape[-1] > 1]
    if not pairs or not evidence.all_of_kind("values") or any(value.dtype.kind != "f" for _, _, value, _ in pairs):
        return None
    if all(close(value, expected, max(COARSE, slack(case, 100))) for case, _, value, expected in pairs):
        return None  # a nearly right result fits any shift and any factor
    shifted = scaled = True
    for case, _, value, expected in pairs:
        rtol = slack(case, 100)
        shift = (value - expected).mean(axis=-1, keepdims=True)
        shifted &= close(value - shift, expected, rtol)
        norm = (expected * expected).sum(axis=-1, keepdims=True)
        factor = (value * expected).sum(axis=-1, keepdims=True) / np.where(norm == 0, 1, norm)
        scaled &= close(value, factor * expected, rtol) and bool((factor != 0).any())
    if shifted:
        return named("rows-shifted")
    return named("rows-off-by-factor") if scaled else None


Pair = tuple[Case, int, np.ndarray, np.ndarray]


def transposed(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    if pairs and all(
        value.ndim >= 2
        and value.shape[-1] == value.shape[-2]
        and close(np.swapaxes(value, -1, -2), expected, tolerance(case))
        for case, _, value, expected in pairs
    ):
        leaves, wrong = evidence.posed.exercise.leaves, {leaf for _, leaf, _, _ in pairs}
        if len(leaves) == 1 or len(wrong) > 1:
            return named("transposed")
        return named("transposed/one", result=spoken(leaves[wrong.pop()].name))
    return None


def permuted(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    if not pairs:
        return None
    for axis in range(pairs[0][2].ndim):
        if all(_permuted_along(pair, axis) for pair in pairs):
            size = shapes.name_of([(case, value.shape[axis]) for case, _, value, _ in pairs])
            if size and not size.isdigit():
                return named("permuted", size=size)
            return named("permuted/axis", axis=axis)
    return None


def _permuted_along(pair: Pair, axis: int) -> bool:
    case, _, value, expected = pair
    if axis >= value.ndim or value.shape[axis] < 2 or value.dtype.kind != "f":
        return False
    rows_value = np.moveaxis(value, axis, 0).reshape(value.shape[axis], -1)
    rows_expected = np.moveaxis(expected, axis, 0).reshape(value.shape[axis], -1)
    mix = np.random.default_rng(0).standard_normal(rows_value.shape[1])
    order_value, order_expected = np.argsort(rows_value @ mix), np.argsort(rows_expected @ mix)
    return close(rows_value[order_value], rows_expected[order_expected], tolerance(case))


def read_in_another_order(evidence: Evidence) -> Finding | None:
    """Return a finding if a reshape without the needed transpose explains the order of the entries."""
    pairs = evidence.wrong_pairs()
    if len(pairs) < 2 or len({value.ndim for _, _, value, _ in pairs}) != 1:
        return None
    if any(value.dtype.kind != "f" or not value.size for _, _, value, _ in pairs):
        return None
    for parts in _split_axes(pairs):
        if len(parts) > 5:
            continue
        for order in itertools.permutations(range(len(parts))):
            if list(order) != sorted(order) and all(_read(pair, parts, order) for pair in pairs):
                there, due = (", ".join(parts[i] for i in some) for some in (order, range(len(parts))))
                return named("read-in-another-order", there=there, due=due)
    return None


def _split_axes(pairs: Sequence[Pair]) -> Iterator[list[str]]:
    """Yield the sizes of all axes one by one, with each order of the factors of a product."""
    names = []
    for axis in range(pairs[0][3].ndim):
        name = shapes.name_of([(case, expected.shape[axis]) for case, _, _, expected in pairs])
        if not name or not all(part.isidentifier() for part in name.split("·")):
            return
        names.append(name.split("·"))
    if sum(map(len, names)) < 2:
        return
    for chosen in itertools.product(*(list(itertools.permutations(name)) for name in names)):
        yield [part for name in chosen for part in name]


def _read(pair: Pair, parts: Sequence[str], order: Sequence[int]) -> bool:
    case, _, value, expected = pair
    lengths = [case.sizes.get(part, 0) for part in parts]
    if int(np.prod(lengths)) != expected.size:
        return False
    return close(expected.reshape(lengths).transpose(order).reshape(value.shape), value, tolerance(case))


def masked_rows(evidence: Evidence) -> Finding | None:
    """Return a finding if only rows that should be all 0 are wrong, such as those in which every key is masked."""
    seen = finite = False
    for index in evidence.failing():
        call = evidence.calls[index]
        if call.failure is not None or evidence.problems[index].kind not in ("values", "nan"):
            return None
    for case, _, value, expected in evidence.pairs():
        if value.ndim < 1 or value.dtype.kind != "f":
            return None
        empty = (expected == 0).all(axis=-1)
        if not close(value[~empty], expected[~empty], tolerance(case)):
            return None
        seen = seen or not close(value, expected, tolerance(case))
        finite = finite or bool((np.isfinite(value[empty]) & (value[empty] != 0)).any())
    if not seen:
        return None
    masks = any(isinstance(leaf, np.ndarray) and leaf.dtype == bool for leaf in leaves((case.args, case.kwargs)))
    return named(("masked-rows" if finite else "masked-rows/nan") if masks else "zero-rows")


def constant_answer(evidence: Evidence) -> Finding | None:
    if any(problem is not None and problem.kind == "raised" for problem in evidence.problems):
        return None
    values = [value for _, _, value, _ in evidence.pairs(only_failing=False)]
    if len(values) > 1 and all(value.size and (value == values[0].flat[0]).all() for value in values):
        return named("constant")
    return None


def remembers(evidence: Evidence) -> Finding | None:
    """Return a finding if every failing case returned the result of an earlier passing case."""
    values = [call.value if call.failure is None else None for call in evidence.calls]
    for index in evidence.failing():
        value = values[index]
        if value is None or not any(
            earlier is not None and problem is None and same(value, earlier, 0.0)
            for earlier, problem in zip(values[:index], evidence.problems[:index], strict=True)
        ):
            return None
    told = [values[index] for index in evidence.failing()]
    if any(leaf.size > 1 and leaf.any() for value in told for leaf in leaves(value) if isinstance(leaf, np.ndarray)):
        return named("keeps-state")
    return None


def entries_missing(evidence: Evidence) -> Finding | None:
    """Return a finding if every wrong entry is 0."""
    pairs = evidence.wrong_pairs()
    if not pairs or not evidence.all_of_kind("values"):
        return None
    some_right = False
    for case, _, value, expected in pairs:
        if value.dtype.kind != "f":
            return None
        off = np.abs(value - expected) > tolerance(case) * np.abs(expected).max() + 1e-12
        if (value[off] != 0).any():
            return None
        some_right = some_right or not off.all()
    return named("entries-missing") if some_right else None


def one_result_wrong(evidence: Evidence) -> Finding | None:
    """Return a finding if some of several results are right everywhere and others are not."""
    leaves = evidence.posed.exercise.leaves
    if len(leaves) < 2 or not evidence.all_of_kind("values"):
        return None
    wrong = {leaf for _, leaf, _, _ in evidence.wrong_pairs()} | evidence.misshapen()
    right = [leaf.name for index, leaf in enumerate(leaves) if index not in wrong]
    if not wrong or not right:
        return None
    slug = "only-" + "-and-".join(leaves[index].name.removeprefix("the ").replace(" ", "-") for index in sorted(wrong))
    others = listed([spoken(leaves[index].name) for index in sorted(wrong)])
    text = of_results("results/both", right, wrong=others, are_wrong=verb(others, "is", "are", len(wrong) > 1))
    return Finding(f"{slug}-wrong", text, Certainty.PLACE)


def first_batch_only(evidence: Evidence) -> Finding | None:
    core = next(iter(evidence.posed.exercise.credit))
    failing = [evidence.posed.cases[index] for index in evidence.failing()]
    passing = [case for case, problem in zip(evidence.posed.cases, evidence.problems, strict=False) if problem is None]
    if sum(case.sizes.get("B", 1) == 1 for case in passing) < 2:
        return None  # a single case may pass by chance
    if any(case.sizes.get("B", 1) > 1 for case in passing if case.criterion == core):
        return None  # a batch passes, so the failing cases differ in something else
    return named("single-batch-only") if all(case.sizes.get("B", 1) > 1 for case in failing) else None
