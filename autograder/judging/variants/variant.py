"""A plain program with a change or two: what it is called, what it answers, and which other changes go with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Variant:
    """The program with some changes. words completes "It answers as if …"; key tells it from all others.

    changes: where they are made (`path`) and what they are (`edit`). make: the program with other changes.
    """

    slug: str
    words: str
    function: Callable[..., Any]
    key: str
    changes: tuple[Any, ...] = ()
    make: Callable[[Sequence[Any]], Variant] | None = None

    def goes_with(self, other: Variant) -> bool:
        """Can both be made at once? Not where they change the same place, unless one keeps what stands there."""
        taken = {(change.path, change.edit.place) for change in self.changes if not change.edit.keeps}
        return not any((c.path, c.edit.place) in taken for c in other.changes if not c.edit.keeps)

    def and_(self, other: Variant) -> Variant:
        """The program with the changes of both."""
        assert self.make is not None
        return self.make((*self.changes, *other.changes))
