"""Says whether a student's calls of `attend` in `leaks_future` could show the leak."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kit import Case, DevicePart, Sent, named

NAMES = ("Q", "K", "V")
#: A row that changes by more than this share of its size leaks; rounding changes it by far less.
SHARE = 1e-6


@dataclass(frozen=True)
class Attended:
    """Records one call: its arrays by name, and its output."""

    sent: Mapping[str, np.ndarray]
    output: np.ndarray


@dataclass(frozen=True)
class RowMove:
    """Describes two calls that first differ at a position: how earlier rows change, and by what share at most."""

    first: int
    gap: np.ndarray
    share: float


def experiment(case: Case, leaks: Any, answered: Any, sent: Sequence[Sent]) -> str:
    """Say whether any two calls show a leak, and how large it is."""
    if not isinstance(answered, (bool, np.bool_)) or bool(answered) == leaks:
        return ""
    by_name = [named(each, NAMES) for each in sent]
    calls = [Attended(each, output_of(case.args[0], each)) for each in by_name if sorted(each) == sorted(NAMES)]
    moves = [move for one, other in itertools.combinations(calls, 2) if (move := moved(one, other)) is not None]
    if not moves:
        return ""
    most = max(moves, key=lambda move: move.share)
    if not leaks:
        return f"no row before a change moves by more than {most.share:.0e} of its size. That is rounding, not a leak."
    if most.share > SHARE:
        share = f"{most.share:.1g} times" if most.share < 0.01 else f"{float(f'{most.share:.1g}'):.0%} of"
        text = f"the inputs of two of your calls differ only from position {most.first} on, but an earlier row of the"
        text = f"{text} output changes by {share} its size, which is a leak. Your function returns {answered}."
        return f"{text}{_hidden(calls, moves)}"
    return f"your calls don't show the leak, because your changes move no earlier row.{_kept(calls)}"


def output_of(attend: DevicePart, sent: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the answer of the black box to a call, from a new copy of the box."""
    return np.asarray(attend.device.make()[attend.name](**sent), dtype=np.float64)


def moved(one: Attended, other: Attended) -> RowMove | None:
    """Compare two calls; return None if the queries differ, or if no row comes before the change."""
    if not np.array_equal(one.sent["Q"], other.sent["Q"]):
        return None
    changed = (one.sent["K"] != other.sent["K"]).any(axis=1) | (one.sent["V"] != other.sent["V"]).any(axis=1)
    first = int(changed.argmax())
    if not first:
        return None
    before, after = one.output[:first], other.output[:first]
    size = np.maximum(np.abs(before), np.abs(after)).max(axis=1)
    gap = after - before
    return RowMove(first, gap, float((np.abs(gap).max(axis=1) / np.where(size > 0, size, 1.0)).max()))


def _hidden(calls: Sequence[Attended], moves: Sequence[RowMove]) -> str:
    """Say what a comparison may miss: small outputs, or features that change in opposite directions."""
    largest = max(float(np.abs(each.output).max()) for each in calls)
    if largest < 1e-3:
        return f" The largest number in the outputs is only {largest:.0e}."
    shown = [move for move in moves if move.share > SHARE]
    if all(np.abs(move.gap.sum(axis=1)).max() <= SHARE * np.abs(move.gap).max() for move in shown):
        return " The features of that row change in opposite directions, so their sum stays the same."
    return f" Only {len(shown)} of your {len(moves)} pairs of calls show the leak." if len(shown) < len(moves) else ""


def _kept(calls: Sequence[Attended]) -> str:
    """Say what the changed keys and values have in common with the original ones."""
    first, *others = (each.sent for each in calls)
    words = {"K": "keys", "V": "values"}
    same = [words[name] for name in words if all(np.array_equal(each[name], first[name]) for each in others)]
    if same:
        return f" You send the same {' and '.join(same)} in all of them."
    if all(np.array_equal(np.sort(each["K"], axis=0), np.sort(first["K"], axis=0)) for each in others):
        return " You only reorder the keys and values, which changes no sum over all of them."
    return ""
