"""From what a function answered to a verdict: which cases are right, what that earns, and which mistake explains it.

The judge holds the expected outcomes and never runs a student's code. Its messages name cases, shapes and places,
never an expected number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..data import CONDUCT, FIRST_SEEN, Answer, Call, Certainty, Criterion, Finding, Verdict
from ..exercises.kit.records import CONDUCT_SHARE
from .compare import Problem
from .conduct import misconduct, miscounted, never_called, observed
from .posed import Posed
from .problems import all_in_our_terms, problems_of
from .recognise import recognise
from .where import first_where

#: Makes more of a finding, where a student's program can be run again.
Further = Callable[[Posed, Sequence[Call], Sequence[Problem | None], Finding], Finding]
#: Findings beside which it is asked whether only equal sizes are right.
OF_SIZES = (
    *(None, "shapes-do-not-fit", "wrong-shape", "index-out-of-range", "not-general", "does-not-reshape"),
    *("stacks-different-shapes", "unequal-parts"),
)


def without_answer(posed: Posed, verdict: str, message: str, mistake: str | None = None) -> Verdict:
    """A verdict of no points, for what could not or may not be asked."""
    exercise = posed.exercise
    return Verdict(exercise.unit, exercise.name, 1.0, 0.0, verdict, mistake, message)


def ask_and_judge(posed: Posed, ask: Callable[[Posed], Answer], further: Further | None = None) -> Verdict:
    """Ask the cases, mark what is answered and, where it is wrong, say which mistake explains it.

    further: makes more of a finding, where more is known than the answers.
    """
    answer = ask(posed)
    with np.errstate(all="ignore"):  # a stranger's numbers may overflow whatever they are cast to
        try:
            compared = _compared(posed, answer)
            if compared.verdict.message:
                return compared.verdict
            return _explained_by(compared, ask, further)
        except MemoryError:
            return without_answer(posed, "crashed", "What it returned takes more memory to compare than there is.")


def judge(posed: Posed, answer: Answer) -> Verdict:
    """Judge one answer against one posed exercise, as if it were worth one point."""
    return ask_and_judge(posed, lambda asked: answer if asked is posed else Answer("missing"))


def mark(posed: Posed, answer: Answer) -> Verdict:
    """Compare every case with what was expected: kind of verdict, criteria and score. No mistake is named."""
    with np.errstate(all="ignore"):
        return _compared(posed, answer).verdict


@dataclass(frozen=True)
class _Compared:
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


def _compared(posed: Posed, answer: Answer) -> _Compared:
    exercise = posed.exercise
    if answer.status == "missing":
        reason = answer.reason or f"There is no function {exercise.name} yet."
        return _Compared(without_answer(posed, "missing", reason), posed, answer)
    if answer.status == "forbidden":
        text = f"uses {answer.reason}. This exercise is to be done without it, as the notebook says."
        forbidden = without_answer(posed, "forbidden", f"The answer to {exercise.name} {text}")
        return _Compared(forbidden, posed, answer)
    calls = all_in_our_terms(posed, answer.calls)
    if calls and all(call.failure is not None and call.failure.type_name == "NotImplementedError" for call in calls):
        text = f"{exercise.name} is not written yet: it raises NotImplementedError."
        return _Compared(without_answer(posed, "missing", text), posed, answer)

    problems = problems_of(posed, calls)
    whole = _is_whole(posed, answer)
    conduct = misconduct(posed, calls) if whole else None
    if conduct is None and whole and not any(problems):
        conduct = miscounted(posed, answer, calls)
    criteria = _criteria(posed, problems, whole and conduct is None)
    if all(criterion.met for criterion in criteria) and answer.status == "answered":
        message = f"Right: all {len(calls)} hidden cases pass."
        right = Verdict(exercise.unit, exercise.name, 1.0, 1.0, "right", None, message, criteria)
        return _Compared(right, posed, answer)
    score = _score(posed, criteria)
    posed, answer = _explained(posed, answer)
    calls, problems = calls[: len(posed.cases)], problems[: len(posed.cases)]
    kind = answer.status if answer.status in ("timeout", "crashed") else "wrong"
    if kind == "wrong" and _core_raised(posed, problems):
        kind = "crashed"
    wrong = Verdict(exercise.unit, exercise.name, 1.0, score, kind, None, "", criteria)
    return _Compared(wrong, posed, answer, calls, problems, conduct)


def _explained_by(compared: _Compared, ask: Callable[[Posed], Answer], further: Further | None) -> Verdict:
    """The verdict on a wrong answer, with the words for the student."""
    posed, answer, verdict = compared.posed, compared.answer, compared.verdict
    calls, problems = compared.calls, compared.problems
    if answer.status != "answered":
        ended = "It did not come to an end." if answer.status == "timeout" else "Its process died."
        return _worded(compared, Finding(None, answer.reason or ended), "", "")
    finding, seen = _diagnose(posed, calls, problems, compared.conduct)
    never = never_called(posed, answer)
    if never is not None and not any(call.failure is not None for call in calls):
        finding = never
    elif posed.probes is not None and finding.slug in OF_SIZES:
        finding = _of_equal_sizes(posed, problems, ask(posed.probes), finding)
    if never is None:
        finding = _with_observed(posed, answer, calls, problems, finding)
    if further is not None and verdict.verdict in ("wrong", "crashed"):
        finding = further(posed, calls, problems, finding)
    return _worded(compared, finding, seen, _raised(posed, calls, problems))


def _worded(compared: _Compared, finding: Finding, seen: str, raised: str) -> Verdict:
    verdict = compared.verdict
    message = " ".join(filter(None, (raised, finding.message, seen, _passed(verdict.criteria))))
    advice = finding.message or ("" if raised else seen)
    where = first_where(compared.posed, compared.calls, compared.problems) if seen else None
    return replace(verdict, mistake=finding.slug, message=message, advice=advice, raised=raised, where=where)


def _explained(posed: Posed, answer: Answer) -> tuple[Posed, Answer]:
    """What is to be explained: the exercise's own cases, if one of them is wrong, and else all that is asked.

    An axis of one entry forgives a lot, and what it lets pass says nothing of an answer.
    """
    count = len(posed.own.cases)
    if not any(problems_of(posed.own, all_in_our_terms(posed.own, answer.calls[:count]))):
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


def _score(posed: Posed, criteria: tuple[Criterion, ...]) -> float:
    """The share earned: the first criterion is the core, and without it nothing is."""
    if not criteria[0].met:
        return 0.0
    share = sum(posed.exercise.credit[criterion.name] for criterion in criteria[:-1] if criterion.met)
    return (1 - CONDUCT_SHARE) * share + CONDUCT_SHARE * criteria[-1].met


def _core_raised(posed: Posed, problems: list[Problem | None]) -> bool:
    core = next(iter(posed.exercise.credit))
    kinds = [
        problem.kind if problem is not None else "right"
        for case, problem in zip(posed.cases, problems, strict=True)
        if case.criterion == core and case.raises is None
    ]
    return bool(kinds) and all(kind == "raised" for kind in kinds)


def _raised(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> str:
    """The exception that nobody asked for, in a sentence, if it is the first that fails or ends a case of the core."""
    at, first = _first_raised(posed, problems), _first(problems)
    core = next(iter(posed.exercise.credit))
    if at is None or (at != first and posed.cases[at].criterion != core):
        return ""
    return f"It raises {calls[at].failure.described(posed.exercise.name)}."


def _first_raised(posed: Posed, problems: list[Problem | None]) -> int | None:
    ended = (index for index, problem in enumerate(problems) if problem is not None and problem.kind == "raised")
    return next((index for index in ended if posed.cases[index].raises is None), None)


def _first(problems: list[Problem | None]) -> int | None:
    return next((index for index, problem in enumerate(problems) if problem is not None), None)


def _diagnose(
    posed: Posed, calls: list[Call], problems: list[Problem | None], conduct: Finding | None
) -> tuple[Finding, str]:
    """The mistake, and where it was first seen."""
    first, raised = _first(problems), _first_raised(posed, problems)
    if first is None:
        return conduct or Finding(None, ""), ""
    if conduct is not None and conduct.slug == "not-repeatable":
        return conduct, ""  # what differs from call to call is explained by no fixed mistake
    ordinary = [p for p, case in zip(problems, posed.cases, strict=True) if p is not None and not case.gradient]
    if conduct is not None and not ordinary:
        # An input that asks for a gradient cannot be written to: that follows from the misconduct.
        return conduct, ""
    finding = _recognised(posed, calls, problems) or Finding(None, "")
    if conduct is not None:  # both are said: what is certain first
        finding = _beside(finding, conduct)
    if _raised(posed, calls, problems):
        return finding, f"{FIRST_SEEN} “{posed.cases[raised].label}”."
    seen = f"{FIRST_SEEN} “{posed.cases[first].label}”: {problems[first].text}."
    if raised is not None:
        seen += f" In the case “{posed.cases[raised].label}” {problems[raised].text}."
    return finding, seen


def _recognised(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> Finding | None:
    """The mistake by name, if there is one: that a name cannot be found must cost nobody a mark."""
    try:
        return recognise(posed, calls, problems)
    except Exception:
        if os.environ.get("AUTOGRADER_DEBUG"):
            raise
        return None


def _with_observed(
    posed: Posed, answer: Answer, calls: list[Call], problems: list[Problem | None], finding: Finding
) -> Finding:
    """What was found, and what was seen of the functions that are handed in."""
    try:
        wrong = [index for index, problem in enumerate(problems[: len(calls)]) if problem]
        found = observed(posed, answer, calls, wrong, None if finding.is_weak else finding.slug)
    except Exception:
        if os.environ.get("AUTOGRADER_DEBUG"):
            raise
        return finding
    return finding if found is None else _beside(finding, found)


def _beside(finding: Finding, seen: Finding) -> Finding:
    """A finding, and what was seen for certain: that comes first, and gives the name where nothing else does."""
    facts = f"{seen.text} {finding.facts}".strip()
    if finding.is_weak:
        return replace(finding, slug=seen.slug, certainty=Certainty.PLACE, facts=facts)
    return replace(finding, facts=facts)


def _of_equal_sizes(posed: Posed, problems: Sequence[Problem | None], probed: Answer, finding: Finding) -> Finding:
    """What is found, where the cases of equal sizes are right and no other case of the core is."""
    calls = all_in_our_terms(posed.probes, probed.calls)
    if probed.status != "answered" or len(calls) < len(posed.probes.cases) or any(call.failure for call in calls):
        return finding
    right_ones = {case.criterion for case, wrong in zip(posed.cases, problems, strict=True) if not wrong}
    if any(problems_of(posed.probes, calls)) or posed.exercise.core in right_ones:
        return finding
    where = "Every case in which all sizes are equal is right; not every other is."
    return Finding("equal-sizes-only", finding.text if finding.slug else "", Certainty.SYMPTOM, where)


def _passed(criteria: tuple[Criterion, ...]) -> str:
    passed = ", ".join(f"{criterion.name} {criterion.passed}/{criterion.total}" for criterion in criteria)
    return f"Passed: {passed}."
