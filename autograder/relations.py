"""General relations between a wrong answer and the right one, for mistakes that no exercise lists.

Each relation looks at the evidence and either names what it sees or returns None. They are asked in the order of
`RELATIONS`, the most telling first. A relation must hold wherever the answer is wrong, not in one case by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .compare import close, describe, find_problem, tolerance
from .evidence import Evidence, Finding
from .exercise import Case


def no_return(evidence: Evidence) -> Finding | None:
    if evidence.all_of_kind("none"):
        return Finding("returns-none", "The function returns None. Is there a `return` at the end?")
    return None


def swapped_results(evidence: Evidence) -> Finding | None:
    exercise = evidence.posed.exercise
    if not isinstance(exercise.returns, tuple):
        return None
    for index in evidence.failing():
        value = evidence.calls[index].value
        if not isinstance(value, (tuple, list)) or len(value) != len(exercise.returns):
            return None
        expected = evidence.posed.expected[index].value
        case = evidence.posed.cases[index]
        for order in (
            range(len(value) - 1, -1, -1),
            [*range(1, len(value)), 0],
            [len(value) - 1, *range(len(value) - 1)],
        ):
            if find_problem(exercise.leaves, True, tuple(value[i] for i in order), expected, case) is None:
                break
        else:
            return None
    names = ", ".join(leaf.name for leaf in exercise.leaves)
    return Finding("swapped-results", f"The results come in another order than asked for: {names}.")


def wrong_container(evidence: Evidence) -> Finding | None:
    _, call, problem = evidence.first()
    if not evidence.all_of_kind("tuple", "type"):
        return None
    if problem.kind == "tuple" and isinstance(call.value, list):
        return Finding("list-for-tuple", "The function returns a list. Return a tuple: `return first, second`.")
    if problem.kind == "tuple":
        names = ", ".join(leaf.name for leaf in evidence.posed.exercise.leaves)
        return Finding("wrong-number-of-results", f"The function must return a tuple of {names}.")
    return Finding("wrong-type", f"The function returns {describe(call.value)}: another type than the docstring says.")


def wrong_dtype(evidence: Evidence) -> Finding | None:
    if evidence.all_of_kind("dtype"):
        return Finding("wrong-dtype", f"The result has the wrong dtype: {evidence.first()[2].text}.")
    if evidence.all_of_kind("precision"):
        return Finding("dtype-lost", "The result is less precise than the inputs. Where is float32 forced on it?")
    return None


def wrong_shape(evidence: Evidence) -> Finding | None:
    if not evidence.all_of_kind("shape"):
        return None
    verdicts = set()
    for index in evidence.failing():
        value, expected = evidence.calls[index].value, evidence.posed.expected[index].value
        if isinstance(value, tuple):
            leaf = evidence.problems[index].leaf
            value, expected = value[leaf], expected[leaf]
        value, expected = np.asarray(value), np.asarray(expected)
        rtol = tolerance(evidence.posed.cases[index])
        if value.dtype.kind not in "biuf":
            return None
        if value.ndim >= 2 and close(np.swapaxes(value, -1, -2), expected, rtol):
            verdicts.add("transposed")
        elif value.size == expected.size and close(value.ravel(), expected.ravel(), rtol):
            verdicts.add("reshaped")
        else:
            verdicts.add("other")
    if verdicts == {"transposed"}:
        return Finding("transposed", "The result is transposed: rows and columns have changed places.")
    if "other" not in verdicts:
        return Finding("wrong-shape", "The numbers are right, the shape is not. Is an axis too many or too few?")
    return Finding("wrong-shape", "The result has the wrong shape. Write down the shape of every step beside the code.")


def only_warned(evidence: Evidence) -> Finding | None:
    if evidence.all_of_kind("warned"):
        text = "The numbers are right, but NumPy warns on the way, where the docstring asks for silence."
        return Finding("warns", text)
    return None


def not_finite(evidence: Evidence) -> Finding | None:
    if evidence.all_of_kind("nan"):
        case = evidence.first()[0]
        return Finding("nan", f"The result holds NaN or infinity in the case “{case.label}”: where does it come from?")
    return None


def returns_input(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    if not pairs or any(value.ndim == 0 for _, _, value, _ in pairs):
        return None
    for case, _, value, _ in pairs:
        inputs = [v for v in (*case.args, *case.kwargs.values()) if isinstance(v, np.ndarray)]
        if not any(v.shape == value.shape and np.array_equal(v, value) for v in inputs):
            return None
    return Finding("returns-input", "The function returns one of its inputs as it came.")


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
        if factor == 0 or not close(value, factor * expected, 100 * tolerance(case)):
            return None
        seen.append((case, factor))
    if len(seen) < 2:
        return None
    for text, formula in _formulas(seen[0][0]):
        if all(_near(factor, formula(case)) for case, factor in seen):
            return Finding(
                "off-by-factor", f"The result is {text} times too large: is a size used or left out once too often?"
            )
    factors = np.array([factor for _, factor in seen])
    if np.ptp(factors) < 1e-6 * abs(factors[0]):
        if _near(factors[0], -1.0):
            return Finding("wrong-sign", "The result has the wrong sign everywhere.")
        return Finding("off-by-factor", f"The result is {factors[0]:.4g} times what it should be, in every case.")
    return None


def _formulas(case: Case) -> Iterator[tuple[str, Callable[[Case], float]]]:
    powers = ((0.5, "√{}"), (-0.5, "1/√{}"), (1.0, "{}"), (-1.0, "1/{}"), (2.0, "{}²"), (-2.0, "1/{}²"))
    for size in case.sizes:
        for power, words in powers:
            yield words.format(size), lambda c, size=size, power=power: float(c.sizes.get(size, 0) or np.nan) ** power


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-4 * abs(other)


def transposed(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    if (
        pairs
        and all(
            value.ndim >= 2 and close(np.swapaxes(value, -1, -2), expected, tolerance(case))
            for case, _, value, expected in pairs
            if value.shape[-1:] == value.shape[-2:-1] or value.ndim < 2
        )
        and all(value.ndim >= 2 and value.shape[-1] == value.shape[-2] for _, _, value, _ in pairs)
    ):
        return Finding("transposed", "The result is transposed: rows and columns have changed places.")
    return None


def inverted(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    # A single boolean that is wrong is always the opposite of the right one: that says nothing.
    if pairs and all(v.ndim and v.dtype.kind == "b" and np.array_equal(v, ~e) for _, _, v, e in pairs):
        return Finding("inverted", "True and False have changed places.")
    return None


def permuted(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    if not pairs:
        return None
    axes = [axis for axis in range(pairs[0][2].ndim) if all(_permuted_along(pair, axis) for pair in pairs)]
    if not axes:
        return None
    return Finding("permuted", f"The right entries stand in the wrong order along axis {axes[0]} of the result.")


def _permuted_along(pair: tuple[Case, int, np.ndarray, np.ndarray], axis: int) -> bool:
    case, _, value, expected = pair
    if axis >= value.ndim or value.shape[axis] < 2 or value.dtype.kind != "f":
        return False
    rows_value = np.moveaxis(value, axis, 0).reshape(value.shape[axis], -1)
    rows_expected = np.moveaxis(expected, axis, 0).reshape(value.shape[axis], -1)
    mix = np.random.default_rng(0).standard_normal(rows_value.shape[1])
    order_value, order_expected = np.argsort(rows_value @ mix), np.argsort(rows_expected @ mix)
    return close(rows_value[order_value], rows_expected[order_expected], tolerance(case))


def masked_rows(evidence: Evidence) -> Finding | None:
    """Right except where nothing is allowed, that is where the expected row is all zeros."""
    seen = False
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
    if seen:
        return Finding("masked-rows", "Right except in rows where nothing may be attended to: what stands there?")
    return None


def unnormalised(evidence: Evidence) -> Finding | None:
    for _, leaf, value, expected in evidence.wrong_pairs():
        if not evidence.posed.exercise.leaves[leaf].rows_sum_to_one or value.ndim < 2:
            continue
        live = (expected != 0).any(axis=-1)
        rows, columns = value.sum(axis=-1)[live], value.sum(axis=-2)
        if np.allclose(rows, 1, atol=1e-4):
            continue
        if value.shape[-2] > 1 and np.allclose(columns, 1, atol=1e-4):
            return Finding("softmax-over-queries", "The columns of the weights sum to 1, not the rows.")
        return Finding("rows-not-normalised", "The rows of the weights do not sum to 1.")
    return None


def first_batch_only(evidence: Evidence) -> Finding | None:
    failing = [evidence.posed.cases[index] for index in evidence.failing()]
    passing = [case for case, problem in zip(evidence.posed.cases, evidence.problems, strict=False) if problem is None]
    if not passing or not any(case.sizes.get("B", 1) == 1 for case in passing):
        return None
    if all(case.sizes.get("B", 1) > 1 for case in failing):
        return Finding("single-batch-only", "Right for one sequence, wrong for a batch: which axes move?")
    return None


def added_constant(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    if (
        not pairs
        or not evidence.all_of_kind("values")
        or any(value.dtype.kind != "f" or value.size < 2 for _, _, value, _ in pairs)
    ):
        return None
    if all(
        close(value - (value - expected).mean(), expected, 100 * tolerance(case)) for case, _, value, expected in pairs
    ):
        return Finding("added-constant", "The result is right up to one number added everywhere.")
    return None


def imprecise(evidence: Evidence) -> Finding | None:
    pairs = evidence.wrong_pairs()
    if (
        pairs
        and evidence.all_of_kind("values")
        and all(value.dtype.kind == "f" and close(value, expected, 2e-3) for _, _, value, expected in pairs)
    ):
        text = "Close, but less exact than the inputs allow: is there an epsilon, a rounding or a float32 on the way?"
        return Finding("imprecise", text)
    return None


def constant_answer(evidence: Evidence) -> Finding | None:
    values: list[Any] = [value for _, _, value, _ in evidence.pairs(only_failing=False)]
    if len(values) > 1 and all(value.size and (value == values[0].flat[0]).all() for value in values):
        return Finding("constant", "The function gives the same number whatever it is asked.")
    return None


RELATIONS: tuple[Callable[[Evidence], Finding | None], ...] = (
    no_return,
    swapped_results,
    wrong_container,
    wrong_dtype,
    wrong_shape,
    only_warned,
    constant_answer,
    returns_input,
    imprecise,
    constant_factor,
    transposed,
    inverted,
    masked_rows,
    not_finite,
    permuted,
    unnormalised,
    first_batch_only,
    added_constant,
)
