"""Judging in the same process, for one's own code: the hidden line of a test cell, and tests of the judge itself.

Nothing here is safe against a stranger. Submissions are graded by `grading.py`, through the sandbox.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from functools import lru_cache
from typing import Any

from ..data import Answer, Verdict
from ..running.dialogue import Request
from ..running.tensors import one_thread
from ..worker.calls import answer_of_host, perform
from .challenge import Challenge
from .judge import judge
from .posed import Posed


def ask_here(function: Callable[..., Any], posed: Posed) -> Answer:
    """Put the posed cases to `function` in this process, by the same route as in the sandbox."""
    request = Request(posed.exercise.name, posed.cases, library=posed.exercise.library)
    transcript = request.transcript()

    def ask(header: dict[str, Any], payload: bytes) -> Any:
        return answer_of_host(*request.reply(header, payload))

    quiet_torch = one_thread() if posed.exercise.library == "torch" else nullcontext()
    with quiet_torch, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        perform(function, request.calls, request.payload, transcript.take, ask)
    return transcript.answer


def judge_function(function: Callable[..., Any], name: str | None = None, seed: int | None = None) -> Verdict:
    """The verdict on a Python function, on cases drawn from `seed` (None: fresh ones)."""
    name = name or function.__name__
    posed = Challenge().posed(name) if seed is None else _posed(name, seed)
    return judge(posed, ask_here(function, posed))


@lru_cache(64)
def _posed(name: str, seed: int) -> Posed:
    """Cases from a known seed, drawn once however many answers are put to them."""
    return Challenge(seed).posed(name)


def judge_here(function: Callable[..., Any]) -> None:
    """Judge `function` on fresh inputs; raises AssertionError with the judge's message unless it is right."""
    verdict = judge_function(function)
    if verdict.verdict != "right":
        raise AssertionError(f"{verdict.function}: {verdict.message}")
