"""The cells of a submission that are run, and how each went."""

from __future__ import annotations

from dataclasses import dataclass

from ..dialogue import Failure


@dataclass(frozen=True)
class CellSource:
    """A cell to run. kind: "given" (ours), "answer" or "extra" (the student's).

    tested: the function whose test stands next in the notebook: as this cell leaves it, so it is judged.
    tests: the same for tests of the instructor's own.
    """

    name: str
    kind: str
    source: str
    tested: str = ""
    tests: tuple[str, ...] = ()


@dataclass(frozen=True)
class CellOutcome:
    """How a cell went. status: "ran", "failed", "timeout", "died", or "skipped" when it was never reached.

    defined: whether it gave its name to a function all the same, by the word of the student's process.
    """

    name: str
    status: str
    failure: Failure | None = None
    defined: bool = False
