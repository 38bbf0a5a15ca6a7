"""Grades one submission: turns its transplanted cells into a verdict for every exercise of its unit."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..diagnosis.diagnose import ask_and_judge
from ..diagnosis.repair.student_program import OwnProgram
from ..judging.cases_and_expected import Posed
from ..judging.hidden_cases import Challenge
from ..judging.judge import without_answer
from ..reading.cell_syntax import Uses, bound_names, definitions, statements
from ..reading.insert_answers import GONE
from ..reading.read_assignment import Assignment
from ..records import Answer, CellOutcome, CellSource, Transplanted, Unreadable, Verdict
from ..running.sandbox import Sandbox
from ..running.sandbox_messages import Request
from ..running.submission_session import Session
from ..safe_text import listed
from .instructor_questions import own_verdicts

UNDEFINED = re.compile(r"NameError: name '(\w{1,80})' is not defined")
#: Short names that cells often use without an import -> the missing import.
CUSTOMARY = {
    "np": "import numpy as np",
    "torch": "import torch",
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
    "plt": "import matplotlib.pyplot as plt",
}


def with_circumstances(verdict: Verdict, submission: Transplanted, outcomes: Mapping[str, CellOutcome]) -> Verdict:
    """Return the verdict, with another sentence if something else in the notebook explains it."""
    words = (
        _misnamed(verdict, submission) if verdict.verdict == "missing" else _undefined(verdict, submission, outcomes)
    )
    if not words:
        return verdict
    advice = f"{verdict.advice} {words}".strip() if verdict.advice or verdict.raised else ""
    return replace(verdict, message=f"{verdict.message} {words}", advice=advice)


def _misnamed(verdict: Verdict, submission: Transplanted) -> str:
    name = verdict.function
    others = [other for other in definitions(submission.answers.get(name, "")) if other != name]
    return f"Its cell defines {others[-1]}: name it {name}." if others else ""


def _undefined(verdict: Verdict, submission: Transplanted, outcomes: Mapping[str, CellOutcome]) -> str:
    found = UNDEFINED.search(verdict.message)
    if found is None:
        return ""
    name = found[1]
    for cell in submission.cells:
        outcome = outcomes.get(cell.name)
        if cell.kind == "given" or outcome is None or outcome.status == "ran" or cell.name == verdict.function:
            continue
        if name in {bound for node in statements(cell.source) for bound in bound_names(node)}:
            return _failed(cell, outcome)
    line = CUSTOMARY.get(name) or (f"import {name}" if name in sys.stdlib_module_names else "")
    return f"Write `{line}` into the cell of {verdict.function}." if line else ""


def _failed(cell: CellSource, outcome: CellOutcome) -> str:
    whose = (
        f"The cell of {cell.name}" if cell.kind == "answer" else f"Your cell that begins `{_beginning(cell.source)}`"
    )
    why = {"timeout": "did not come to an end", "died": "ended the whole process", "skipped": "was not reached"}
    if outcome.failure is None:
        return f"{whose} {why.get(outcome.status, 'does not run')}."
    return f"{whose} does not run here: {outcome.failure.type_name}: {outcome.failure.message[:200]}."


def _beginning(source: str) -> str:
    return next(line.strip() for line in source.splitlines() if line.strip())[:60]


LEFT = "its cell is as it was handed out"
#: Verdicts that a student's own wrong or missing earlier function may have caused.
NOT_RIGHT = ("wrong", "crashed", "timeout", "missing")


def grade_submission(
    submission: Transplanted, assignment: Assignment, challenge: Challenge, sandbox: Sandbox
) -> list[Verdict]:
    """Return the verdicts on one submission, in the order of its notebook."""
    verdicts: dict[str, Verdict] = {}
    uses = Uses(cell.source for cell in submission.cells if cell.kind != "given").uses
    with sandbox.session(submission.cells) as session:
        outcomes = {outcome.name: outcome for outcome in session.cells}
        for name in assignment.exercises:
            posed = challenge.posed(name, assignment.name)
            verdict = _before_asking(posed, submission, outcomes)
            if verdict is None:
                texts = [cell.source for cell in submission.cells if cell.name == name]
                verdict = _asked(posed, challenge, session, uses, verdicts, texts[0] if texts else "")
            verdict = with_circumstances(verdict, submission, outcomes)
            note = submission.notes.get(name)
            verdicts[name] = replace(verdict, message=f"{note} {verdict.message}") if note else verdict
        # Last, so that nothing an instructor's test does to the notebook's process affects the course's exercises.
        verdicts |= own_verdicts(assignment, submission, outcomes, session)
    return [verdicts[question.name].worth(question, assignment.name) for question in assignment.questions]


def _request(
    posed: Posed, stand_ins: Mapping[str, Callable[..., Any]] | None = None, sources: Sequence[str] = ()
) -> Request:
    exercise = posed.exercise
    return Request(exercise.name, posed.cases, stand_ins, exercise.library, exercise.forbidden, sources)


def _run(session: Session, stand_ins: Mapping[str, Callable[..., Any]], sources: Sequence[str], posed: Posed) -> Answer:
    """Run other versions of a function in the process of the submission."""
    return session.ask(_request(posed, stand_ins, sources))


def nothing_to_grade(assignment: Assignment, reason: Unreadable | str) -> list[Verdict]:
    """Return the verdicts on a notebook that could not be read: every question is missing, for the same reason."""
    nothing = Verdict(assignment.name, "", 1.0, 0.0, "missing", None, str(reason))
    return [
        replace(nothing, function=question.name).worth(question, assignment.name) for question in assignment.questions
    ]


def _before_asking(posed: Posed, submission: Transplanted, outcomes: Mapping[str, CellOutcome]) -> Verdict | None:
    """Return the verdict on an exercise that is missing or didn't even define its function; None if it can be asked."""
    name = posed.exercise.name
    if name not in submission.answers:
        gone = submission.notes.get(name, "").endswith(GONE)
        left = f"Define {name} in one cell of your own." if gone else f"You have not written {name} yet."
        return without_answer(posed, "missing", left)
    outcome = outcomes.get(name)
    if outcome is None or outcome.status in ("ran", "skipped"):
        return None
    if outcome.failure is not None and outcome.failure.is_stub(name):
        return None
    if outcome.defined:
        submission.notes[name] = f"{submission.notes.get(name, '')} {_beside(name, outcome)}".strip()
        return None
    if outcome.status == "timeout":
        return without_answer(posed, "timeout", f"The cell of {name} timed out.")
    if outcome.status == "died":
        return without_answer(posed, "crashed", f"The cell of {name} ended the whole process.")
    failure = outcome.failure
    if failure is None:
        return None
    text = f"The cell of {name} does not run: {failure.described(name)}."
    if failure.type_name == "SyntaxError":  # it may be valid in a newer Python
        text += f" This is Python {sys.version_info.major}.{sys.version_info.minor}."
    return without_answer(posed, "crashed", text)


def _beside(name: str, outcome: CellOutcome) -> str:
    """Describe a cell that defines its function but also holds code that fails here."""
    if outcome.failure is None:
        return "The code below the function in its cell takes too long here. It does not count."
    words = f"raises {outcome.failure.described(name)}"
    return f"The code next to the function in its cell {words}. It does not count."


def _forbidden(verdicts: Mapping[str, Verdict]) -> list[str]:
    return [name for name, verdict in verdicts.items() if verdict.verdict == "forbidden"]


def _asked(
    posed: Posed,
    challenge: Challenge,
    session: Session,
    uses: Callable[[str, str], bool],
    earlier: Mapping[str, Verdict],
    text: str,
) -> Verdict:
    """Return the verdict on one function. If it fails and uses failed earlier ones, ask it again with the course's.

    A function that is wrong only because of earlier ones should lose no points, because those have lost theirs already.
    Forbidden code in earlier functions must neither help here nor cost points again, so forbidden functions are
    replaced from the start.
    text: the source of the function's cell.
    """
    failed = [
        name
        for name, verdict in earlier.items()
        if verdict.verdict != "right" and name not in posed.exercise.not_from and uses(posed.exercise.name, name)
    ]

    def program(stand_ins: Mapping[str, Callable[..., Any]]) -> OwnProgram | None:
        return OwnProgram.read(text, posed.exercise.name, partial(_run, session, stand_ins))

    verdict = None
    if not set(failed) & set(_forbidden(earlier)):
        own = None if failed else program({})
        verdict = ask_and_judge(posed, lambda asked: session.ask(_request(asked)), own)
        if not failed or verdict.verdict not in NOT_RIGHT:
            return verdict
    stand_ins = {name: challenge.posed(name).exercise.reference for name in failed}
    requests: list[Request] = []

    def ask(asked: Posed) -> Answer:
        requests.append(_request(asked, stand_ins))
        return session.ask(requests[-1])

    again = ask_and_judge(posed, ask, program(stand_ins))
    if verdict is not None and (again.score < verdict.score or _told(again) == _told(verdict)):
        return verdict
    called = [name for name in failed if name in requests[0].called]
    if not called:
        return again
    words = f"The grader used the course's {listed(called)} instead of yours. {again.message}"
    return replace(again, message=words, borrowed=tuple(called))


def _told(verdict: Verdict) -> tuple[float, str, str | None, str]:
    """Return the part of a verdict that changes if an earlier function was to blame."""
    return verdict.score, verdict.verdict, verdict.mistake, verdict.raised
