"""Relations of coverage: right in one place and wrong in another."""

from __future__ import annotations

import numpy as np

from ...data import Finding
from ...text import begun
from ...worker.values import leaves
from ..compare import close, same, tolerance
from ..posed import Evidence


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
        if any(isinstance(leaf, np.ndarray) and leaf.dtype == bool for leaf in leaves((case.args, case.kwargs))):
            return Finding("masked-rows", "Right except in rows where nothing may be attended to: what stands there?")
        return Finding("zero-rows", "Right except in rows that are to be 0 throughout: what stands there?")
    return None


def first_batch_only(evidence: Evidence) -> Finding | None:
    core = next(iter(evidence.posed.exercise.credit))
    failing = [evidence.posed.cases[index] for index in evidence.failing()]
    passing = [case for case, problem in zip(evidence.posed.cases, evidence.problems, strict=False) if problem is None]
    if not any(case.sizes.get("B", 1) == 1 for case in passing):
        return None
    if any(case.sizes.get("B", 1) > 1 for case in passing if case.criterion == core):
        return None  # a batch is no hindrance: something else sets the failing cases apart
    if all(case.sizes.get("B", 1) > 1 for case in failing):
        return Finding("single-batch-only", "Right for one sequence, wrong for a batch: which axes move?")
    return None


def constant_answer(evidence: Evidence) -> Finding | None:
    if any(problem is not None and problem.kind == "raised" for problem in evidence.problems):
        return None
    values = [value for _, _, value, _ in evidence.pairs(only_failing=False)]
    if len(values) > 1 and all(value.size and (value == values[0].flat[0]).all() for value in values):
        return Finding("constant", "The function gives the same number whatever it is asked.")
    return None


def remembers(evidence: Evidence) -> Finding | None:
    """It answers a later case with what an earlier one got."""
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
        text = "Later calls get what an earlier call returned. Does the function keep something from call to call?"
        return Finding("keeps-state", text)
    return None


def entries_missing(evidence: Evidence) -> Finding | None:
    """Where it is wrong, it is 0."""
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
    if not some_right:
        return None
    return Finding("entries-missing", "Some entries are right and the others are 0: what leaves them out?")


def right_in_part(evidence: Evidence) -> Finding | None:
    """Whole rows are right and whole rows are wrong."""
    pairs = evidence.wrong_pairs()
    if not pairs or not evidence.all_of_kind("values"):
        return None
    first_wrong, others_right, last_right, told = True, True, True, False
    for case, _, value, expected in pairs:
        if value.ndim < 1:
            return None
        if value.shape[0] < 2:
            continue
        told = True
        scale = tolerance(case) * np.abs(expected).max() + 1e-12
        near = np.abs(value.astype(float) - expected.astype(float)) <= scale
        right = near.reshape(len(value), -1).all(axis=1)
        first_wrong &= bool(right[0]) and not right[1:].any()
        others_right &= bool(right[:-1].all())
        last_right &= bool(right[1:].all())
    if not told:
        return None
    if first_wrong:
        return Finding("first-row-only", "Only the first row is right: does every row get the same treatment?")
    if others_right:
        return Finding("last-row-wrong", "All rows are right but the last: does the loop end one too early?")
    if last_right:
        return Finding("first-row-wrong", "All rows are right but the first: does the loop begin one too late?")
    return None


def same_row_everywhere(evidence: Evidence) -> Finding | None:
    """All rows of every wrong result are the same row."""
    pairs = evidence.wrong_pairs()
    told = 0
    for _, _, value, expected in pairs:
        if value.ndim < 2 or value.shape[-2] < 2:
            return None
        if not (value == value[..., :1, :]).all():
            return None
        told += not (expected == expected[..., :1, :]).all()
    if told:
        return Finding("same-row-everywhere", "All rows of the result are the same: what tells the tokens apart?")
    return None


def one_result_wrong(evidence: Evidence) -> Finding | None:
    """Of several results one is right everywhere and another is not."""
    leaves = evidence.posed.exercise.leaves
    if len(leaves) < 2 or not evidence.all_of_kind("values"):
        return None
    wrong = {leaf for _, leaf, _, _ in evidence.wrong_pairs()}
    right = [leaf.name for index, leaf in enumerate(leaves) if index not in wrong]
    if not wrong or not right:
        return None
    bad = " and ".join(leaves[index].name for index in sorted(wrong))
    slug = "only-" + "-and-".join(leaves[index].name.removeprefix("the ").replace(" ", "-") for index in sorted(wrong))
    return Finding(f"{slug}-wrong", f"{begun(' and '.join(right))}: right. {begun(bad)}: not.")


def some_cases_only(evidence: Evidence) -> Finding | None:
    """All ordinary cases are right, or some are: what tells them apart from the others?"""
    core = next(iter(evidence.posed.exercise.credit))
    cases = evidence.posed.cases
    failing = [cases[index] for index in evidence.failing()]
    passing = [case for case, problem in zip(cases, evidence.problems, strict=False) if problem is None]
    labels = "; ".join(f"“{case.label}”" for case in failing[:3])
    if not any(case.criterion == core for case in failing):
        criteria = list(dict.fromkeys(case.criterion for case in failing))
        slug = "fails-" + "-and-".join(name.replace(" ", "-") for name in criteria)
        return Finding(slug, f"Ordinary cases are right. What fails is {labels}.")
    ordinary = [case for case in passing if case.criterion == core]
    if len(ordinary) >= 2:
        return Finding("not-general", f"Some ordinary cases are right, others not: {labels}. What sets them apart?")
    return None
