"""Judges functions in the same process, for the hidden line of a test cell and for tests of the judge itself.

Nothing here is safe against a stranger's code. Submissions are graded by `one_submission.py`, through the sandbox.
"""

from __future__ import annotations

import inspect
import io
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, redirect_stderr, redirect_stdout, suppress
from functools import lru_cache, partial
from types import FunctionType
from typing import Any

import numpy as np

from ..diagnosis.diagnose import ask_and_judge
from ..diagnosis.repair.student_program import OwnProgram
from ..exercises import exercises, find_exercise
from ..judging.cases_and_expected import Posed, latest_is_off
from ..judging.hidden_cases import Challenge
from ..judging.judge import mark
from ..records import Answer, Verdict
from ..running.grader_cpu_limit import undisturbed
from ..running.sandbox_messages import Request
from ..running.torch_functions import finite_eigenvalues, one_thread
from ..worker.call_function import answer_of_host, perform
from ..worker.call_monitor import Lookout
from ..worker.run_rewritten import perform_rewritten

#: This package is loaded in this process anyway, so no answer is blamed for using it.
PACKAGE = "autograder"


class _Enough(Exception):
    """Raised when the answers so far decide the verdict."""


def ask_here(
    function: Callable[..., Any],
    posed: Posed,
    watched: bool = False,
    given: Mapping[str, Any] | None = None,
    until_wrong: bool = False,
) -> Answer:
    """Call `function` with the posed cases in this process, by the same route as in the sandbox.

    watched: whether to look for what the exercise forbids. given: the notebook's own functions by name.
    until_wrong: whether to stop after the first wrong answer.
    """
    request = Request(posed.exercise.name, posed.cases, library=posed.exercise.library)
    transcript = request.transcript()
    forbidden = [name for name in posed.exercise.forbidden if name != PACKAGE] if watched else []
    lookout = Lookout(forbidden, lambda used: transcript.take({"event": "forbidden", "name": used}, b""), given)

    def ask(header: dict[str, Any], payload: bytes) -> Any:
        with lookout.resting():
            return answer_of_host(*request.reply(header, payload))

    def hear(header: dict[str, Any], payload: bytes) -> None:
        transcript.take(header, payload)
        if until_wrong and header["event"] == "call":
            with lookout.resting(), np.errstate(all="ignore"):
                if latest_is_off(posed, transcript.answer.calls):
                    raise _Enough

    quiet_torch = one_thread() if posed.exercise.library == "torch" else nullcontext()
    with quiet_torch, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), undisturbed(), suppress(_Enough):
        perform(function, request.calls, request.payload, hear, ask, lookout)
    return transcript.answer


def run_here(function: Callable[..., Any], sources: Sequence[str], posed: Posed) -> Answer:
    """Call other versions of `function`, given as source, with the posed cases in this process and its global names."""
    request = Request(posed.exercise.name, posed.cases, library=posed.exercise.library, sources=sources)
    transcript = request.transcript()

    def ask(header: dict[str, Any], payload: bytes) -> Any:
        return answer_of_host(*request.reply(header, payload))

    space = {**function.__globals__}
    with ExitStack() as stack:
        if posed.exercise.library == "torch":
            stack.enter_context(one_thread())
            stack.enter_context(finite_eigenvalues())
        for inside in (redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), undisturbed()):
            stack.enter_context(inside)
        perform_rewritten(list(sources), function.__name__, space, request.calls, request.payload, transcript.take, ask)
    return transcript.answer


def program_of(function: Callable[..., Any]) -> OwnProgram | None:
    """Return a function as a program to run again; None without source, for a closure, or off the main thread."""
    if type(function) is not FunctionType or function.__closure__:  # the source lacks the closure's variables
        return None
    if threading.current_thread() is not threading.main_thread():
        return None
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return None
    return OwnProgram.read(source, function.__name__, partial(run_here, function))


def judge_function(
    function: Callable[..., Any],
    name: str | None = None,
    seed: int | None = None,
    watched: bool = True,
    given: Mapping[str, Any] | None = None,
    reread: bool = True,
    named: bool = True,
) -> Verdict:
    """Return the verdict on a Python function, on cases drawn from `seed` (None: fresh ones).

    reread: whether other versions of its source may be run here, with alarms that may end this process.
    named: whether to look for the mistake in a wrong answer, on which the mark does not depend.
    """
    name = name or function.__name__
    posed = Challenge().posed(name) if seed is None else _posed(name, seed)
    if not named:
        return mark(posed, ask_here(function, posed, watched, given))
    program = program_of(function) if reread else None
    return ask_and_judge(posed, lambda asked: ask_here(function, asked, watched, given), program)


def is_right(function: Callable[..., Any], name: str, seed: int, watched: bool = True) -> bool:
    """Return whether a function is right on the cases of `seed`; stop at the first wrong answer."""
    posed = _posed(name, seed)
    return mark(posed, ask_here(function, posed, watched, until_wrong=True)).verdict == "right"


@lru_cache(64)
def _posed(name: str, seed: int) -> Posed:
    """Draw the cases of a known seed, once for any number of answers."""
    return Challenge(seed).posed(name)


def judge_here(function: Callable[..., Any]) -> None:
    """Judge `function` on fresh inputs. Raises AssertionError with the judge's message unless it is right."""
    names, space = exercises(find_exercise(function.__name__).unit), getattr(function, "__globals__", {})
    given = {name: value for name, value in space.items() if type(value) is FunctionType and name not in names}
    given = {name: value for name, value in given.items() if value.__globals__ is space}
    verdict = judge_function(function, given=given, reread=False)
    if verdict.verdict != "right":
        raise AssertionError(f"{verdict.function}: {verdict.message}")
