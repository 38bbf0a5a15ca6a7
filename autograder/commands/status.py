"""What commands say when they end, and what several of them say."""

from __future__ import annotations

from collections.abc import Sequence

from ..data import Expected, Graded
from ..text import printable

GRADED, FAILED, UNUSABLE = 0, 1, 2


class Unusable(Expected):
    """Arguments or input that a person must mend: one line with the remedy."""


def outdated(graded: Sequence[Graded]) -> list[str]:
    """A line for each mark by hand that was given for another answer than the one handed in now."""
    remedy = "decide with `autograder marks --keep` or `autograder marks --new`"
    return [
        f"{printable(item.student)}: the mark by hand of {verdict.function} was given for another answer; {remedy}"
        for item in graded
        for verdict in item.verdicts
        if verdict.outdated
    ]
