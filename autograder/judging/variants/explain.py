"""Does a small change of the plain program explain a wrong answer, and which results does it explain?"""

from __future__ import annotations

from collections.abc import Sequence

from ...data import Call, Finding
from ..compare import Problem
from ..posed import Posed
from .compared import asked_of
from .programs import alone
from .words import of_parts, of_whole


def explain(posed: Posed, calls: Sequence[Call], problems: Sequence[Problem | None]) -> Finding | None:
    """The change of the plain program that answers as the student does, if there is one."""
    asked = asked_of(posed, calls, problems)
    if asked is None:
        return None
    with posed.quietly():
        whole, partly = asked.first(alone(posed))
    return of_whole(whole) if whole is not None else of_parts(asked.names, asked.fine, partly)


__all__ = ["explain"]
