"""From what a function answered to its marks: which cases are right, and what that earns.

The judge holds the expected outcomes and never runs a student's code. Its messages name cases, shapes and places,
never an expected number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..exercises.kit.exercise_records import CONDUCT_SHARE
from ..records import CONDUCT, Answer, Call, Criterion, Finding, Verdict
from .cases_and_expected import Posed, all_in_our_terms, problems_of
from .compare_results import Problem
from .side_effects import misconduct, miscounted


def without_answer(posed: Posed, verdict: str, message: str) -> Verdict:
    """A verdict of no points, for what could not or may not be asked."""
    exercise = posed.exercise
    return Verdict(exercise.unit, exercise.name, 1.0, 0.0, verdict, None, message)


def mark(posed: Posed, answer: Answer) -> Verdict:
    """Compare every case with what was expected: kind of verdict, criteria and score. No mistake is named."""
    with np.errstate(all="ignore"):
        return compare(posed, answer).verdict


@dataclass(frozen=True)
class Marked:
    """An answer beside what was expected.

    verdict: its marks; its message as well, where nothing is to be explained. posed, answer: what is to be explained,
    with the calls and problems of just these cases.
    """

    verdict: Verdict
    posed: Posed
    answer: Answer
    calls: list[Call] = field(default_factory=list)
    problems: list[Problem | None] = field(default_factory=list)
    conduct: Finding | None = None


def compare(posed: Posed, answer: Answer) -> Marked:
    """Compare every case with what was expected, and mark it."""
    exercise = posed.exercise
    if answer.status == "missing":
        reason = answer.reason or f"Your notebook has no function {exercise.name} yet."
        return Marked(without_answer(posed, "missing", reason), posed, answer)
    if answer.status == "forbidden":
        text = f"Your answer to {exercise.name} uses {answer.reason}, which this exercise does not allow."
        return Marked(without_answer(posed, "forbidden", text), posed, answer)
    calls = all_in_our_terms(posed, answer.calls)
    if calls and all(call.failure is not None and call.failure.is_stub(exercise.name) for call in calls):
        text = f"You have not written {exercise.name} yet (NotImplementedError)."
        return Marked(without_answer(posed, "missing", text), posed, answer)

    problems = problems_of(posed, calls)
    whole = _is_whole(posed, answer)
    conduct = misconduct(posed, calls) if whole else None
    if conduct is None and whole and not any(problems):
        conduct = miscounted(posed, answer, calls)
    criteria = _criteria(posed, problems, whole and conduct is None)
    if all(criterion.met for criterion in criteria) and answer.status == "answered":
        message = f"Right: all {len(calls)} hidden tests pass."
        right = Verdict(exercise.unit, exercise.name, 1.0, 1.0, "right", None, message, criteria)
        return Marked(right, posed, answer)
    score = _score(posed, criteria)
    posed, answer = _explained(posed, answer, problems)
    calls, problems = calls[: len(posed.cases)], problems[: len(posed.cases)]
    kind = answer.status if answer.status in ("timeout", "crashed") else "wrong"
    if kind == "wrong" and _core_raised(posed, problems):
        kind = "crashed"
    wrong = Verdict(exercise.unit, exercise.name, 1.0, score, kind, None, "", criteria)
    return Marked(wrong, posed, answer, calls, problems, conduct)


def _explained(posed: Posed, answer: Answer, problems: list[Problem | None]) -> tuple[Posed, Answer]:
    """What is to be explained: the exercise's own cases, if one of them is wrong, and else all that is asked.

    An axis of one entry forgives a lot, and what it lets pass says nothing of an answer.
    """
    count = len(posed.own.cases)
    if not any(problems[:count]):
        return posed, answer
    return posed.own, replace(answer, calls=answer.calls[:count])


def _is_whole(posed: Posed, answer: Answer) -> bool:
    """Whether it was asked everything, repetitions included: good conduct cannot be seen sooner."""
    calls = answer.calls
    return (
        answer.status == "answered"
        and len(calls) == len(posed.cases)
        and all(call.again is not None or case.once for case, call in zip(posed.cases, calls, strict=True))
    )


def _criteria(posed: Posed, problems: list[Problem | None], well_conducted: bool) -> tuple[Criterion, ...]:
    counted = []
    for name in posed.exercise.credit:
        passed = [
            problem is None for case, problem in zip(posed.cases, problems, strict=True) if case.criterion == name
        ]
        counted.append(Criterion(name, sum(passed), len(passed)))
    return (*counted, Criterion(CONDUCT, int(well_conducted), 1))


def passed_in_words(criteria: Sequence[Criterion]) -> str:
    """How many cases of each criterion passed, in a sentence."""
    return f"Passed: {', '.join(f'{each.name} {each.passed}/{each.total}' for each in criteria)}."


def _score(posed: Posed, criteria: tuple[Criterion, ...]) -> float:
    """The share earned: the first criterion is the core, and without it nothing is."""
    if not criteria[0].met:
        return 0.0
    exercise = posed.exercise
    share = sum(
        exercise.credit[criterion.name] * (criterion.passed / criterion.total if exercise.by_case else criterion.met)
        for criterion in criteria[:-1]
    )
    return (1 - CONDUCT_SHARE) * share + CONDUCT_SHARE * criteria[-1].met


def _core_raised(posed: Posed, problems: list[Problem | None]) -> bool:
    core = next(iter(posed.exercise.credit))
    kinds = [
        problem.kind if problem is not None else "right"
        for case, problem in zip(posed.cases, problems, strict=True)
        if case.criterion == core and case.raises is None
    ]
    return bool(kinds) and all(kind == "raised" for kind in kinds)
