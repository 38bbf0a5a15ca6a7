"""Relations of coverage: right in one place and wrong in another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...data import Certainty, Finding
from ...exercises.kit.arguments import Rng
from ...judging.compare import close, same, tolerance
from ...text import begun
from ...worker.values import leaves
from ..evidence import Evidence


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
            text = "Right except in rows where nothing may be attended to. There 0 is due, and other numbers stand "
            text += "there: a softmax spreads its weights even where every key is hidden. What takes them to 0, in "
            text += "each result?"
            return Finding("masked-rows", text)
        return Finding("zero-rows", "Right except in rows that are to be 0 throughout: what stands there?")
    return None


def constant_answer(evidence: Evidence) -> Finding | None:
    if any(problem is not None and problem.kind == "raised" for problem in evidence.problems):
        return None
    values = [value for _, _, value, _ in evidence.pairs(only_failing=False)]
    if len(values) > 1 and all(value.size and (value == values[0].flat[0]).all() for value in values):
        return Finding("constant", "The function gives the same number in every case that is asked.")
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
    wrong = {leaf for _, leaf, _, _ in evidence.wrong_pairs()} | evidence.misshapen()
    right = [leaf.name for index, leaf in enumerate(leaves) if index not in wrong]
    if not wrong or not right:
        return None
    bad = " and ".join(leaves[index].name for index in sorted(wrong))
    slug = "only-" + "-and-".join(leaves[index].name.removeprefix("the ").replace(" ", "-") for index in sorted(wrong))
    return Finding(f"{slug}-wrong", f"{begin(right)}: right. {begin([bad])}: not.", Certainty.PLACE)


def begin(names: Sequence[str]) -> str:
    """The names of results at the beginning of a sentence: q is not Q."""
    words = " and ".join(names)
    return words if len(words.split()[0]) == 1 else begun(words)


def first_batch_only(evidence: Evidence) -> Finding | None:
    core = next(iter(evidence.posed.exercise.credit))
    failing = [evidence.posed.cases[index] for index in evidence.failing()]
    passing = [case for case, problem in zip(evidence.posed.cases, evidence.problems, strict=False) if problem is None]
    if not any(case.sizes.get("B", 1) == 1 for case in passing):
        return None
    if any(case.sizes.get("B", 1) > 1 for case in passing if case.criterion == core):
        return None  # a batch is no hindrance: something else sets the failing cases apart
    if all(case.sizes.get("B", 1) > 1 for case in failing):
        text = "Right for one sequence alone (B = 1), wrong for a batch: what is done there that is right for one only?"
        return Finding("single-batch-only", text)
    return None


def generator_unused(evidence: Evidence) -> Finding | None:
    """Is the answer the same where nothing but the generator differs?"""
    seen: dict[str, int] = {}
    told = 0
    for index in evidence.failing():
        case, call = evidence.posed.cases[index], evidence.calls[index]
        given = [*case.args, *case.kwargs.items()]
        if call.failure is not None or not any(isinstance(value, Rng) for value in case.args):
            return None
        key = repr([None if isinstance(value, Rng) else value for value in given])
        earlier = seen.setdefault(key, index)
        if earlier != index:
            if not same(call.value, evidence.calls[earlier].value, 0.0):
                return None
            told += 1
    if told:
        text = "The result is the same whatever generator is handed in. Where do the random numbers come from?"
        return Finding("generator-unused", text, Certainty.PLACE)
    return None
