"""Known mistakes: one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from .records import Mistake

#: (slug, how it computes, advice). How: a function with the signature of the exercise's, or a dict of keyword
#: arguments for a function that does the whole exercise with a place for every slip.
Row = tuple[str, Callable[..., Any] | Mapping[str, Any], str]


def slips(whole: Callable[..., Any], rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows with `whole` made to slip as their dicts say; rows that hold a function stay as they are."""
    return tuple(
        (slug, partial(whole, **how) if isinstance(how, Mapping) else how, advice) for slug, how, advice in rows
    )


def read_rows(rows: Iterable[Row], whole: Callable[..., Any] | None) -> tuple[Mistake, ...]:
    """The known mistakes of one exercise. Raises TypeError for a row that is none."""
    found = []
    for row in slips(whole, rows) if whole is not None else rows:
        if len(row) != 3 or not isinstance(row[0], str) or not callable(row[1]) or not isinstance(row[2], str):
            raise TypeError(f"{row!r} is no row (slug, how, advice); a dict for how needs `slipped`")
        slug, how, advice = row
        found.append(Mistake(slug, advice, how))
    return tuple(found)
