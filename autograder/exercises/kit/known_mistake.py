"""Reads the known mistakes of an exercise from the rows of its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from .exercise_records import Mistake

#: (slug, how it computes, advice). How: a function with the signature of the exercise's, or a dict of keyword
#: arguments for a function that does the whole exercise with an option for each slip.
Row = tuple[str, Callable[..., Any] | Mapping[str, Any], str]


def slips(whole: Callable[..., Any], rows: Iterable[Row]) -> tuple[Row, ...]:
    """Read rows that hold a dict as slips of `whole`, for an exercise with slips of two functions."""
    return tuple((slug, partial(whole, **how), advice) for slug, how, advice in rows)


def read_rows(rows: Iterable[Row], whole: Callable[..., Any] | None) -> tuple[Mistake, ...]:
    """Return the known mistakes of one exercise. Raise TypeError for an invalid row."""
    found = []
    for slug, how, advice in rows:
        if isinstance(how, Mapping) and whole is not None:
            how = partial(whole, **how)
        if not (isinstance(slug, str) and callable(how) and isinstance(advice, str)):
            raise TypeError(f"{slug!r}: a row is (slug, how, advice), and a dict for how needs `slipped`")
        found.append(Mistake(slug, advice, how))
    return tuple(found)
