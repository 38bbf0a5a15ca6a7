"""What is known of a program that was run through step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...data import Finding

STOPS = "stops-there"
MISSHAPES = "own-shape"
MISPRECISE = "own-dtype"
RAISES = "own-raise"
#: What is told of two changes that may both be due.
TWO_THINGS = "Two things"
#: What is told where it is not known of all that goes into a step that it is right.
GOES_IN = ", and at what goes into it"
#: What is told where a step was given other numbers, and all was right.
TRIED = "is right"


@dataclass(frozen=True)
class Traced:
    """One case run through with its steps noted. steps: how many there were; finding: where it leaves the way.

    noted: the steps, by their numbers, with their values; index: of the case; number: of the step at which it is left.
    line: of the step at which it is left, 0 where it is not.
    vouched: whether it is known of what goes in there that it occurs on the way. sure: that, or no counts are due.
    """

    steps: int
    finding: Finding | None = None
    vouched: bool = False
    sure: bool = True
    noted: Sequence[tuple[int, object]] = ()
    index: int = -1
    number: int = -1
    line: int = 0
