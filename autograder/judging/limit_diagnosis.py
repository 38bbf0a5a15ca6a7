"""A bound on what the search for a mistake may cost. The marks are settled before, and do not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..records import FIRST_SEEN, Verdict
from ..running.grader_cpu_limit import Allowance, Overspent
from .first_difference import first_where
from .judge import Marked, passed_in_words

#: Processor time for the mistake in one answer, that of its own process included.
SECONDS = 5.0
STOPPED = "The search for the mistake took too long and was stopped."


def named_in_time(marked: Marked, explain: Callable[[Callable[[Verdict], None]], Verdict]) -> Verdict:
    """The verdict with the words that `explain` finds. Where that takes too long, the last that it had kept.

    explain: is given a function that keeps a verdict which is good enough, should there be no time for a better one.
    """
    kept: list[Verdict] = []
    try:
        return Allowance(SECONDS).run(lambda: explain(kept.append))
    except Overspent:
        return kept[-1] if kept else _unnamed(marked)


def _unnamed(marked: Marked) -> Verdict:
    """The verdict with the first case that fails."""
    failing = ((case, problem) for case, problem in zip(marked.posed.cases, marked.problems, strict=False) if problem)
    seen = next((f"{FIRST_SEEN} “{case.label}”: {problem.text}." for case, problem in failing), "")
    advice = f"{STOPPED} {seen}".strip()
    message = f"{advice} {passed_in_words(marked.verdict.criteria)}"
    where = first_where(marked.posed, marked.calls, marked.problems)
    return replace(marked.verdict, message=message, advice=advice, where=where)
