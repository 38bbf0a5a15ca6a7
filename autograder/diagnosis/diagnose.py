"""Finds the mistake that explains a wrong answer and words the message for the student. It changes no mark."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..judging.cases_and_expected import Posed
from ..judging.compare_results import Problem
from ..judging.first_difference import first_where
from ..judging.judge import Marked, compare, passed_in_words, without_answer
from ..judging.limit_diagnosis import named_in_time
from ..records import CONDUCT, Answer, Call, Certainty, Finding, Verdict
from ..safe_text import begun
from .argument_use import never_called, observed
from .finding_sentences import say
from .known_mistakes import recognise
from .repair.find_repair import with_repair
from .repair.student_program import OwnProgram
from .symptoms.types_and_forms import FAILED, beyond


def ask_and_judge(posed: Posed, ask: Callable[[Posed], Answer], program: OwnProgram | None = None) -> Verdict:
    """Run the cases, mark the answer and, if it is wrong, say which mistake explains it.

    program: the student's function, if it can be run again.
    """
    answer = ask(posed)
    with np.errstate(all="ignore"):  # a student's numbers may overflow any dtype
        try:
            marked = compare(posed, answer)
            if marked.verdict.message:
                return marked.verdict
            return named_in_time(marked, partial(_explained_by, marked, program))
        except MemoryError:
            return without_answer(posed, "crashed", say("ended/memory"))


def judge(posed: Posed, answer: Answer) -> Verdict:
    """Grade one answer to one posed exercise, as if it were worth one point."""
    return ask_and_judge(posed, lambda asked: answer if asked is posed else Answer("missing"))


def _explained_by(marked: Marked, program: OwnProgram | None, keep: Callable[[Verdict], None]) -> Verdict:
    """The verdict on a wrong answer, with the message for the student. keep: takes provisional verdicts."""
    posed, answer, verdict = marked.posed, marked.answer, marked.verdict
    calls, problems = marked.calls, marked.problems
    if answer.status != "answered":
        ended = say("ended/timeout" if answer.status == "timeout" else "ended/crashed")
        return _worded(marked, Finding(None, answer.reason or ended), None, "")
    posed.notes[FAILED] = sum(each.total - each.passed for each in verdict.criteria if each.name != CONDUCT)
    finding, seen = _diagnose(posed, calls, problems, marked.conduct)
    never = never_called(posed, answer)
    if never is not None and not any(call.failure is not None for call in calls):
        finding = never
    if never is None:
        finding = _with_observed(posed, answer, calls, problems, finding)
    if program is not None and verdict.verdict in ("wrong", "crashed"):
        keep(_worded(marked, finding, seen, _raised(posed, calls, problems)))
        finding = with_repair(program, posed, calls, problems, finding)
    return _worded(marked, finding, seen, _raised(posed, calls, problems))


@dataclass(frozen=True)
class _Seen:
    """Where a wrong answer first fails.

    case: the label of the first case. problem: what is wrong there; "" if the exception says it.
    also: the label of a later case that ends in an exception, and what is wrong there.
    """

    case: str
    problem: str = ""
    also: tuple[str, str] | None = None

    def after(self, message: str) -> str:
        """Return a sentence or two to follow a message, without repeating what it says."""
        problem = "" if _is_said(self.problem, message) else self.problem
        label = say("case", case=self.case)
        told = "" if label in message else say("seen/case", case=self.case)
        if problem:
            if any(words in message for words in MOVED):
                problem = problem.replace(" are wrong", " are out of place")
            told = say(_after(message, label), case=self.case, problem=problem)
        also = say("seen/also", case=self.also[0], problem=self.also[1]) if self.also else ""
        return f"{told} {also}".strip()


#: (what a message says, a problem that adds nothing to it).
SAID = (
    ("It returns ", "the answer is wrong"),
    ("Your function returns ", "the answer is wrong"),
    ("you return an id at index ", "your list holds the wrong tokens"),
    ("you return token ", "your list holds the wrong tokens"),
    ("(you return “", "the name is wrong"),
)
#: What a message says of NaN or infinity.
ODD = ("produces NaN or infinity", "gives NaN in the case", "becomes infinite in the case")
#: What a message says of right entries at wrong places.
MOVED = ("but in the wrong order along", "entries are in the order (")
#: What may follow a list of cases in the same breath.
ASKED = "What is different about them?"


def _is_said(problem: str, message: str) -> bool:
    """Whether a message already says what is wrong in a case."""
    words = problem.removeprefix("it raises ")
    if words in message or begun(words) in message or any(a in message and b == problem for a, b in SAID):
        return True
    if problem.startswith("the shape of "):
        return begun(problem.partition(" is ")[0]) in message
    if problem.startswith("your list has "):
        return "lacks its last" in message
    name, wrong, rest = problem.partition(" is wrong")
    if wrong and not rest and not name.count(" of ") and f"but {name} is not." in message:
        return True
    return problem.endswith(("NaN or infinity", "NaN or infinite")) and any(words in message for words in ODD)


def _after(message: str, label: str) -> str:
    """The key of the sentence on this case after a message that may have named the case."""
    one = say("cases/one", labels=label)
    if message.endswith(f"{one}."):
        return "seen/there"
    lists = (say("cases/several", labels=label), say("cases/some", count="", labels=label))
    rest = next((message.partition(each)[2] for each in lists if each in message), None)
    if rest is not None:
        is_last = rest.rpartition("”")[2].removesuffix(ASKED).strip() in (".", ").")
        return "seen/first" if is_last and rest.count("“") else "seen/case-again"
    is_alone = message.casefold().count(say("cases/one", labels="")) == message.casefold().count(one.casefold()) > 0
    return "seen/that" if is_alone and say("cases/several", labels="") not in message else "seen"


def _worded(marked: Marked, finding: Finding, seen: _Seen | None, raised: str) -> Verdict:
    verdict = marked.verdict
    told = seen.after(finding.message) if seen else ""
    if raised.removeprefix("Your function ") in finding.message:
        raised = ""
    message = " ".join(filter(None, (raised, finding.message, told, passed_in_words(verdict.criteria))))
    advice = finding.message or ("" if raised else told)
    where = first_where(marked.posed, marked.calls, marked.problems) if seen else None
    return replace(verdict, mistake=finding.slug, message=message, advice=advice, raised=raised, where=where)


def _raised(posed: Posed, calls: list[Call], problems: list[Problem | None]) -> str:
    """A sentence on the unexpected exception, if that says the most."""
    if not _raises_first(posed, problems):
        return ""
    return say("raised", failure=calls[_first_raised(posed, problems)].failure.described(posed.exercise.name))


def _raises_first(posed: Posed, problems: list[Problem | None]) -> bool:
    """Whether an unexpected exception is the first failure, or ends a case of the core."""
    at = _first_raised(posed, problems)
    return at is not None and (at == _first(problems) or posed.cases[at].criterion == posed.exercise.core)


def _first_raised(posed: Posed, problems: list[Problem | None]) -> int | None:
    ended = (index for index, problem in enumerate(problems) if problem is not None and problem.kind == "raised")
    return next((index for index in ended if posed.cases[index].raises is None), None)


def _first(problems: list[Problem | None]) -> int | None:
    return next((index for index, problem in enumerate(problems) if problem is not None), None)


def _diagnose(
    posed: Posed, calls: list[Call], problems: list[Problem | None], conduct: Finding | None
) -> tuple[Finding, _Seen | None]:
    """The mistake, and where the answer first fails."""
    first, raised = _first(problems), _first_raised(posed, problems)
    if first is None:
        return conduct or Finding(None, ""), None
    if conduct is not None and conduct.slug == "not-repeatable":
        return conduct, None  # no known mistake explains results that don't repeat
    ordinary = [p for p, case in zip(problems, posed.cases, strict=True) if p is not None and not case.gradient]
    if conduct is not None and not ordinary:
        # The gradient fails because of the side effect: torch refuses to write to an input that requires a gradient.
        return _with_raised(conduct, posed, calls, raised), None
    finding = _or_else(None, recognise, posed, calls, problems) or Finding(None, "")
    if conduct is not None:  # the message names both
        finding = _beside(finding, conduct)
    labels = [case.label for case in posed.cases]
    if _raises_first(posed, problems):
        return finding, _Seen(labels[raised])
    also = None if raised is None else (labels[raised], problems[raised].text.replace("it ", "your function ", 1))
    return finding, _Seen(labels[first], problems[first].text, also)


def _with_raised(conduct: Finding, posed: Posed, calls: list[Call], raised: int | None) -> Finding:
    """The finding on a changed input, with the exception that follows from it."""
    if raised is None or conduct.slug != "input-changed":
        return conduct
    failure = calls[raised].failure.described(posed.exercise.name)
    return replace(conduct, text=f"{conduct.text} {say('raised/gradient', failure=failure)}")


def _or_else(otherwise: Any, look: Callable[..., Any], *args: Any) -> Any:
    """Return what `look` finds, or `otherwise` if it raises: a failed diagnosis must cost nobody a mark."""
    try:
        return look(*args)
    except Exception:
        if os.environ.get("AUTOGRADER_DEBUG"):
            raise
        return otherwise


def _with_observed(
    posed: Posed, answer: Answer, calls: list[Call], problems: list[Problem | None], finding: Finding
) -> Finding:
    """The finding, with what was observed of the functions that the cases pass in."""
    wrong = [index for index, problem in enumerate(problems[: len(calls)]) if problem]
    found = _or_else(None, observed, posed, answer, calls, wrong, None if finding.is_weak else finding.slug)
    return finding if found is None else _beside(finding, found)


#: Findings that add nothing to what a student's own calls could show.
LESS = ("not-general", "stops-too-early")


def _beside(finding: Finding, seen: Finding) -> Finding:
    """The finding with the observation `seen` added, which also gives the slug if the finding is weak."""
    is_told = finding.text.startswith("It returns ") and "Your function returns " in seen.text
    if seen.slug == "experiment" and (finding.slug in LESS or is_told):
        finding = replace(finding, text="")
    if finding.is_weak:
        facts = f"{seen.text} {beyond(seen.text, finding.facts)}".strip()
        return replace(finding, slug=seen.slug, certainty=Certainty.PLACE, facts=facts)
    return replace(finding, facts=f"{seen.text} {beyond(seen.text, finding.facts)}".strip())
