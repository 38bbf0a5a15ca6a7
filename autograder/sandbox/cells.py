"""The cells of a submission that are run, and how each went."""

from __future__ import annotations

from dataclasses import dataclass

from ..dialogue import Failure


@dataclass(frozen=True)
class CellSource:
    """A cell to run. kind: "given" (ours), "answer" or "extra" (the student's)."""

    name: str
    kind: str
    source: str


@dataclass(frozen=True)
class CellOutcome:
    """How a cell went. status: "ran", "failed", "timeout", "died", or "skipped" when it was never reached."""

    name: str
    status: str
    failure: Failure | None = None
