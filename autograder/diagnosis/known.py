"""The exercise's known mistakes: which of them answers as the student does.

That two functions raise does not make them the same: an exception speaks for a mistake only beside other evidence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data import Call, Certainty, Finding
from ..exercises.kit.records import Case, Mistake
from ..judging.compare import RTOL_FLOAT32, Problem, same, tolerance
from ..judging.posed import Outcome, Posed
from ..worker.values import leaves
from .sentences import say

#: How a finding of a mutant begins that other cases refute.
ON_ORDINARY = "On ordinary inputs it answers"


def known_mistake(
    posed: Posed, calls: list[Call], problems: list[Problem | None], indices: list[int], strict: bool
) -> Finding | None:
    """The known mistake that agrees with the calls at `indices`: of several, the one that agrees most often elsewhere.

    Where two agree in all that was asked, nobody can tell which was made, and both are named.
    """
    found: list[tuple[int, Mistake]] = []
    for mistake in posed.exercise.mistakes:
        outcomes = posed.mistaken(mistake.slug)
        if not strict and not any(is_wrong(posed, i, outcomes[i]) for i in indices):
            continue  # a mistake that does not show in these cases cannot be what went wrong in them
        agree = all(_agree(posed.cases[i], calls[i], problems[i], outcomes[i], strict) for i in indices)
        if agree and _speaks(posed, calls, outcomes, indices):
            also = sum(_agree(posed.cases[i], calls[i], problems[i], outcomes[i], strict) for i in range(len(calls)))
            found.append((also, mistake))
    if not found:
        return None
    most = max(also for also, _ in found)
    best = [mistake for also, mistake in found if also == most]
    if len(best) == 1 or not strict:
        return Finding(best[0].slug, best[0].advice, Certainty.KNOWN)
    text = say("known/either", advice=best[0].advice, other=best[1].advice)
    return Finding(best[0].slug, text, Certainty.KNOWN)


def is_refuted(posed: Posed, calls: Sequence[Call], slug: str | None, times: int = 1) -> bool:
    """Does a known mistake answer otherwise than the student in so many cases in which both have an answer?

    Only answers of one shape are held against each other.
    """
    if slug not in {mistake.slug for mistake in posed.exercise.mistakes}:
        return False
    against = 0
    for case, call, mistaken in zip(posed.cases, calls, posed.mistaken(slug), strict=False):
        if call.failure is not None or mistaken.failure is not None or case.gradient or case.raises is not None:
            continue
        pairs = list(zip(leaves(call.value), leaves(mistaken.value), strict=False))
        if not all(np.shape(one) == np.shape(other) and _are_numbers(one, other) for one, other in pairs):
            continue  # not a number says nothing of which mistake it is
        against += not all(same(one, other, max(tolerance(case), RTOL_FLOAT32)) for one, other in pairs)
    return against >= times


def _are_numbers(*values: object) -> bool:
    floats = (value for value in values if getattr(value, "dtype", np.dtype(type(value))).kind == "f")
    return all(np.isfinite(value).all() for value in floats)


def _speaks(posed: Posed, calls: list[Call], outcomes: list[Outcome], indices: list[int]) -> bool:
    """Calls that agree with a known mistake: do they say more than that both raise?

    They do where a wrong value agrees, where both raise the same words each time, or where most cases do not raise:
    to fail in just these few tells much.
    """
    raised = [i for i in indices if calls[i].failure is not None and posed.cases[i].raises is None]
    returned = [i for i in indices if calls[i].failure is None]
    if not raised:
        return True
    if any(is_wrong(posed, i, outcomes[i]) for i in returned) or len(returned) > len(raised):
        return True
    return all(calls[i].failure.message == outcomes[i].said != "" for i in raised)


def is_wrong(posed: Posed, index: int, outcome: Outcome) -> bool:
    """Does what one of our functions did with a case differ from what was expected?"""
    case, expected = posed.cases[index], posed.expected[index]
    if outcome.made is not None:
        return True
    return outcome.failure != expected.failure or not same(outcome.value, expected.value, tolerance(case))


def _agree(case: Case, call: Call, problem: Problem | None, outcome: Outcome, strict: bool) -> bool:
    if call.failure is not None or outcome.failure is not None:
        return call.failure is not None and call.failure.type_name == outcome.failure
    if problem is not None and problem.kind == "warned" and not outcome.warned:
        return False
    # With wrong values nobody looks at what was made, and of mistakes no lines are counted.
    looked = (problem is None or problem.kind == "made") and not case.lines
    if strict and looked and (problem is not None) != (outcome.made is not None):
        return False
    if problem is not None and problem.kind == "precision" and _floats(call.value) != _floats(outcome.value):
        return False  # a mistake that keeps the precision does not explain why it was lost
    rtol = max(tolerance(case), RTOL_FLOAT32 if _is_float32(call.value) else 0.0)
    return same(call.value, outcome.value, rtol)


def _floats(value: object) -> list[np.dtype]:
    return [leaf.dtype for leaf in leaves(value) if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f"]


def _is_float32(value: object) -> bool:
    if isinstance(value, tuple):
        return any(_is_float32(item) for item in value)
    return isinstance(value, np.ndarray) and value.dtype == np.float32
