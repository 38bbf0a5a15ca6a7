"""A model solution with one change, or with one kind of change in several places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """The program with some changes.

    words: completes "It answers as if …". key: tells it from all others. part: the function of the course that is
    changed, where the program only calls it.
    """

    slug: str
    words: str
    function: Callable[..., Any]
    key: str
    part: str = ""
