"""Limits the processor time of a diagnosis. It runs after marking and changes no mark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..records import FIRST_SEEN, Verdict
from ..running.grader_cpu_limit import Allowance, Overspent
from .first_difference import first_where
from .judge import Marked, passed_in_words

#: Processor time in seconds for diagnosing one answer, including the answer's own process.
SECONDS = 5.0
STOPPED = "The search for the mistake took too long and was stopped."


def named_in_time(marked: Marked, explain: Callable[[Callable[[Verdict], None]], Verdict]) -> Verdict:
    """Return the verdict that `explain` words, or the last that it kept if the time runs out.

    explain: called with a function that keeps a provisional verdict, in case there is no time for a better one.
    """
    kept: list[Verdict] = []
    try:
        return Allowance(SECONDS).run(lambda: explain(kept.append))
    except Overspent:
        return kept[-1] if kept else _unnamed(marked)


def _unnamed(marked: Marked) -> Verdict:
    """The verdict with a message that names only the first failing case."""
    failing = ((case, problem) for case, problem in zip(marked.posed.cases, marked.problems, strict=False) if problem)
    seen = next((f"{FIRST_SEEN} “{case.label}”: {problem.text}." for case, problem in failing), "")
    advice = f"{STOPPED} {seen}".strip()
    message = f"{advice} {passed_in_words(marked.verdict.criteria)}"
    where = first_where(marked.posed, marked.calls, marked.problems)
    return replace(marked.verdict, message=message, advice=advice, where=where)
