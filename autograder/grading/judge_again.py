"""Judges one answer again on the inputs of its earlier run, with all that an instructor needs in a dispute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..exercises.kit.exercise_records import Case
from ..judging.cases_and_expected import all_in_our_terms, problems_of
from ..records import Verdict
from ..running.sandbox import open_sandbox
from ..running.sandbox_messages import Request
from .one_submission import grade_submission
from .submission_jobs import Job, challenge_of, opened, read_job_assignment

#: How many entries of an array are printed at each end.
EDGE = 3


@dataclass(frozen=True)
class Rejudged:
    """Holds the new verdict and its first failing input: the label, and (name, text) pairs that describe it."""

    verdict: Verdict
    label: str = ""
    shown: tuple[tuple[str, str], ...] = ()


def judge_again(job: Job, function: str) -> Rejudged:
    """Judge one exercise of one submission again. Raises Unreadable if the notebook cannot be read."""
    submission, assignment = opened(job), read_job_assignment(job)
    challenge = challenge_of(job.seed)
    with open_sandbox(job.limits, unsafe=job.unsafe, hidden=job.hidden) as sandbox:
        verdicts = grade_submission(submission, assignment, challenge, sandbox)
        verdict = next(each for each in verdicts if each.function == function)
        if verdict.verdict in ("right", "missing", "forbidden"):
            return Rejudged(verdict)
        posed = challenge.posed(function, job.unit)
        stand_ins = {name: challenge.posed(name).exercise.reference for name in verdict.borrowed}
        exercise = posed.exercise
        request = Request(exercise.name, posed.cases, stand_ins or None, exercise.library, exercise.forbidden)
        with sandbox.session(submission.cells) as session:
            answer = session.ask(request)
    calls = all_in_our_terms(posed, answer.calls)
    problems = problems_of(posed, calls)
    index = next((index for index, problem in enumerate(problems) if problem is not None), None)
    if index is None:
        return Rejudged(verdict)
    call = calls[index] if index < len(calls) else None
    shown = [*_inputs(posed.cases[index])]
    if call is not None:
        failure = call.failure.described(function) if call.failure is not None else None
        shown.append(("returned", failure or printed(call.value)))
    outcome = posed.expected[index]
    shown.append(("expected", outcome.failure or printed(outcome.value)))
    shown.append(("what differs", problems[index].text))
    return Rejudged(verdict, posed.cases[index].label, tuple(shown))


def _inputs(case: Case) -> list[tuple[str, str]]:
    named = [(f"argument {place}", value) for place, value in enumerate(case.args, 1)] + list(case.kwargs.items())
    return [(name, printed(value)) for name, value in named]


def printed(value: Any) -> str:
    """Format a value in a few lines: arrays by shape, dtype and the numbers at their edges."""
    if isinstance(value, np.ndarray):
        text = np.array2string(value, threshold=60, edgeitems=EDGE, precision=6, separator=", ")
        return f"{value.dtype} of shape {value.shape}\n{text}"
    if isinstance(value, (tuple, list)) and any(isinstance(each, np.ndarray) for each in value):
        return "\n".join(printed(each) for each in value[:6])
    if isinstance(value, dict):
        return "\n".join(f"{name}: {printed(each)}" for name, each in list(value.items())[:12])
    text = repr(value)
    return text if len(text) <= 600 else f"{text[:600]}…"
