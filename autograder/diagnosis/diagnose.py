"""From a wrong answer to the mistake that explains it, and the words for the student. No mark changes here."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ..data import FIRST_SEEN, Answer, Call, Certainty, Criterion, Finding, Verdict
from ..judging.compare import Problem
from ..judging.judge import Marked, compare, without_answer
from ..judging.naming import named_in_time
from ..judging.posed import Posed, all_in_our_terms, problems_of
from ..judging.where import first_where
from .observed import never_called, observed
from .recognise import recognise
from .repair.program import OwnProgram
from .repair.search import with_repair

#: For these findings the cases of equal sizes are asked, too: are they the only ones that are right?
OF_SIZES = (
    *(None, "shapes-do-not-fit", "wrong-shape", "index-out-of-range", "not-general", "does-not-reshape"),
    *("stacks-different-shapes", "unequal-parts"),
)


def ask_and_judge(posed: Posed, ask: Callable[[Posed], Answer], program: OwnProgram | None = None) -> Verdict:
    """Ask the cases, mark what is answered and, where it is wrong, say which mistake explains it.

    program: the student's own, where it can be run again.
    """
    answer = ask(posed)
    with np.errstate(all="ignore"):  # a stranger's numbers may overflow whatever they are cast to
        try:
            marked = compare(posed, answer)
            if marked.verdict.message:
                return marked.verdict
            return named_in_time(marked, partial(_explained_by, marked, ask, program))
        except MemoryError:
            return without_answer(posed, "crashed", "What it returned takes more memory to compare than there is.")


def judge(posed: Posed, answer: Answer) -> Verdict:
    """Judge one answer against one posed exercise, as if it were worth one point."""
    return ask_and_judge(posed, lambda asked: answer if asked is posed else Answer("missing"))


def _explained_by(
    marked: Marked, ask: Callable[[Posed], Answer], program: OwnProgram | None, keep: Callable[[Verdict], None]
) -> Verdict:
    """The verdict on a wrong answer, with the words for the student. keep: takes what is good enough on the way."""
    posed, answer, verdict = marked.posed, marked.answer, marked.verdict
    calls, problems = marked.calls, marked.problems
    if answer.status != "answered":
        ended = "It did not come to an end." if answer.status == "timeout" else "Its process died."
        return _worded(marked, Finding(None, answer.reason or ended), "", "")
    finding, seen = _diagnose(posed, calls, problems, marked.conduct)
    never = never_called(posed, answer)
    if never is not None and not any(call.failure is not None for call in calls):
        finding = never
    elif posed.probes is not None and finding.slug in OF_SIZES:
        finding = _of_equal_sizes(posed, problems, ask(posed.probes), finding)
    if never is None:
        finding = _with_observed(posed, answer, calls, problems, finding)
    if program is not None and verdict.verdict in ("wrong", "crashed"):
        keep(_worded(marked, finding, seen, _raised(posed, calls, problems)))
        finding = with_repair(program, posed, calls, problems, finding)
    return _worded(marked, finding, seen, _raised(posed, calls, problems))


def _worded(marked: Marked, finding: Finding, seen: str, raised: str) -> Verdict:
    verdict = marked.verdict
    message = " ".join(filter(None, (raised, finding.message, seen, _passed(verdict.criteria))))
    advice = finding.message or ("" if raised else seen)
    where = first_where(marked.posed, marked.calls, marked.problems) if seen else None
    return replace(verdict, mistake=finding.slug, message=message, advice=advice, raised=raised, where=where)


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
    """What was found, and what was seen of the functions that the cases pass in."""
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
