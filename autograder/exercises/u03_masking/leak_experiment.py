"""What the calls of `attend` that a `leaks_future` made could show."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kit import Case, Sent

Calls = Sequence[tuple[Sequence[np.ndarray], np.ndarray]]
#: A row that moves by more than this share of its size leaks; rounding moves it by far less.
SHARE = 1e-6


def experiment(case: Case, leaks: Any, answered: Any, sent: Sequence[Sent]) -> str:
    """Whether any two calls show a leak, and how large it is there."""
    if not isinstance(answered, (bool, np.bool_)) or bool(answered) == leaks or len(sent) < 2:
        return ""
    attend = case.args[0]
    calls = [(each.args, answer_of(attend, each)) for each in sent if len(each.args) == 3]
    moves = [move for one, other in itertools.combinations(calls, 2) if (move := moved(one, other)) is not None]
    if not moves:
        return ""
    first, share = max(moves, key=lambda move: move[1])
    if not leaks:
        return f"No row before a change moves by more than {share:.0e} of its size: that is rounding, and no leak."
    if share > SHARE:
        text = f"Two of your calls show it: they differ from position {first} on, and a row before that moves"
        return f"{text} by {share:.1g} of its size. The comparison lets it pass.{_hidden(calls)}"
    return f"No two of your calls show it: whatever they change, each row before the change stays.{_kept(calls)}"


def answer_of(attend: Any, each: Sent) -> np.ndarray:
    """The box's answer, from a box of its own."""
    return np.asarray(attend.device.make()[attend.name](*each.args, **each.kwargs), dtype=np.float64)


def moved(one: tuple[Sequence[np.ndarray], np.ndarray], other: tuple[Sequence[np.ndarray], np.ndarray]) -> Any:
    """(the first position that differs, the largest share by which a row before it moves); None if there is none."""
    (args, before), (others, after) = one, other
    if not np.array_equal(args[0], others[0]):
        return None
    changed = (args[1] != others[1]).any(axis=1) | (args[2] != others[2]).any(axis=1)
    first = int(changed.argmax())
    if not changed.any() or not first:
        return None
    size = np.maximum(np.abs(before[:first]), np.abs(after[:first])).max(axis=1)
    gap = np.abs(before[:first] - after[:first]).max(axis=1)
    return first, float((gap / np.where(size > 0, size, 1.0)).max())


def _hidden(calls: Calls) -> str:
    """What a comparison may miss: a small unit, and features that move against each other."""
    largest = max(float(np.abs(output).max()) for _, output in calls)
    if largest < 1e-3:
        return f" (The largest number there is {largest:.0e}.)"
    sums = []
    for (args, before), (others, after) in itertools.combinations(calls, 2):
        found = moved((args, before), (others, after))
        if found is not None and found[1] > SHARE:
            gap = after[: found[0]] - before[: found[0]]
            sums.append(np.abs(gap.sum(axis=1)).max() <= SHARE * np.abs(gap).max())
    if sums and all(sums):
        return " (The features of a row move against each other there: their sum stays.)"
    moves = [move for one, other in itertools.combinations(calls, 2) if (move := moved(one, other)) is not None]
    shown = [share for _, share in moves if share > SHARE]
    return f" (Of {len(moves)} such pairs of calls {len(shown)} show it.)" if len(shown) < len(moves) else ""


def _kept(calls: Calls) -> str:
    """What the changed keys and values have in common with those that came in."""
    K = calls[0][0][1]
    names = [
        name
        for name, at in (("keys", 1), ("values", 2))
        if all(np.array_equal(a[at], calls[0][0][at]) for a, _ in calls)
    ]
    if names:
        return f" The {' and '.join(names)} are the same in all of them."
    others = [args for args, _ in calls[1:]]
    if all(np.array_equal(np.sort(args[1], axis=0), np.sort(K, axis=0)) for args in others):
        return " Their keys and values are the same ones in another order, which no sum over all of them feels."
    return ""
