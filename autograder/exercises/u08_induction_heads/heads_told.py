"""Says why a head is missing from, or wrong in, a list of `find_heads`, by its weight on the positions that count."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..kit import Case, Sent, named
from .texts_with_gaps import matches, steps_back

KINDS = ("previous", "induction")
#: More than this share of a head's weight on the positions that count is "most" of it.
MOST = 0.6


def experiment(case: Case, due: Any, answered: Any, sent: Sequence[Sent]) -> str:
    """Describe the first wrong list: a missing head, or one that doesn't belong there."""
    given = named(case, ("patterns", "tokens"))
    patterns, tokens = (np.asarray(given[name]) for name in ("patterns", "tokens"))
    places = steps_back(len(tokens), 1), matches(tokens)
    if not isinstance(answered, tuple) or len(answered) != len(KINDS):
        return ""
    for at, kind in enumerate(KINDS):
        if not _pairs(answered[at]):
            return ""
        missing, extra = set(due[at]) - set(answered[at]), set(answered[at]) - set(due[at])
        if missing:
            head = min(missing)
            both = (
                f" This head belongs in both lists, but you name it only in `{KINDS[1 - at]}`."
                if _in_both(head, due, answered)
                else ""
            )
            return f"head {head} is missing from `{kind}`. {_weight(patterns, head, places[at])}{both}"
        if extra:
            head = min(extra)
            if not all(0 <= number < size for number, size in zip(head, patterns.shape, strict=False)):
                return f"you name {head} in `{kind}`, but this model has no such (layer, head)."
            if not places[at].any():
                return f"you name head {head} in `{kind}`, but this text has nothing to find, so no head counts."
            return f"you name head {head} in `{kind}`, where it doesn't belong. {_weight(patterns, head, places[at])}"
    return ""


def _pairs(found: Any) -> bool:
    return isinstance(found, Iterable) and all(
        isinstance(each, tuple) and len(each) == 2 and all(type(number) is int for number in each) for each in found
    )


def _in_both(head: tuple[int, int], due: Any, answered: Any) -> bool:
    return all(head in each for each in due) and any(head in each for each in answered)


def _weight(patterns: np.ndarray, head: tuple[int, int], places: np.ndarray) -> str:
    """Say how much of a row's weight is on the positions that count, and how much even attention would put there."""
    rows, pattern = places.any(axis=1), patterns[head].astype(float)
    even = np.tri(len(places)) / np.arange(1, len(places) + 1)[:, None]
    share, chance = ((weights * places)[rows].sum(axis=1).mean() for weights in (pattern, even))
    count = rows.sum()
    where = f"At the {count} positions that have" if count > 1 else "At the only position that has"
    text = f"{where} something to find, this head puts {share:.0%} of its weight on it. A head that attends evenly"
    text = f"{text} would put {chance:.0%} on it."
    if (np.diag(pattern) * np.diag(places))[rows].sum() > MOST * (pattern * places)[rows].sum():
        return f"{text} Most of this head's weight on it is on the position itself."
    if (places.sum(axis=1)[rows] > 1).mean() > MOST:
        return f"{text} At most of these positions there are several things to find."
    return text
