"""Marks an answer: which cases are right, and what share of the points that earns.

The grader keeps the expected outcomes and never runs a student's code. Its messages name cases, shapes and indices,
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
    """Return a verdict of no points for an answer that could not or may not be called."""
    exercise = posed.exercise
    return Verdict(exercise.unit, exercise.name, 1.0, 0.0, verdict, None, message)


def mark(posed: Posed, answer: Answer) -> Verdict:
    """Return the kind of verdict, the criteria and the score of an answer, without naming a mistake."""
    with np.errstate(all="ignore"):
        return compare(posed, answer).verdict


@dataclass(frozen=True)
class Marked:
    """An answer with its verdict, and with what the diagnosis needs to explain it.

    verdict: the marks; its message is empty if the diagnosis is still to find one.
    posed, answer, calls, problems: the cases to be explained, with the calls and problems of just these cases.
    """

    verdict: Verdict
    posed: Posed
    answer: Answer
    calls: list[Call] = field(default_factory=list)
    problems: list[Problem | None] = field(default_factory=list)
    conduct: Finding | None = None


def compare(posed: Posed, answer: Answer) -> Marked:
    """Compare every case with the expected outcome and mark the answer."""
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
    """The exercise's own cases if one of them fails, else all cases.

    General cases tell less, because an axis of length 1 hides many mistakes.
    """
    count = len(posed.own.cases)
    if not any(problems[:count]):
        return posed, answer
    return posed.own, replace(answer, calls=answer.calls[:count])


def _is_whole(posed: Posed, answer: Answer) -> bool:
    """Whether every case was called, repetitions included; only then can side effects be judged."""
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
    """Return a sentence that says how many cases of each criterion passed."""
    return f"Passed: {', '.join(f'{each.name} {each.passed}/{each.total}' for each in criteria)}."


def _score(posed: Posed, criteria: tuple[Criterion, ...]) -> float:
    """The share earned, which is 0 unless the first criterion, the core, is met."""
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
