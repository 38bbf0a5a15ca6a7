"""How far rounding alone can carry a right answer from the exact one, worked out from a case's own numbers.

Two things are looked at: how far the reference moves when each number that goes in moves by about its last digit, and
how far it is off when it is itself worked out in the precision of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .exercise import Case
from .worker.values import leaves, map_leaves

#: Directions in which the inputs are moved.
DIRECTIONS = 4
#: Another order of operations, and sums in a loop, cost a few times what the last digits of the inputs do.
SAFE = 16
#: No tolerance is larger. A result that moves further jumps, as where a tie was drawn on purpose: that is no rounding.
JUMP = 0.01


def rounding_tolerance(ask: Callable[[Case, bool], Any], case: Case, expected: Any) -> float:
    """A relative tolerance that no right answer to `case` exceeds by rounding; 0 where rounding has no say.

    ask: what the reference answers to a case; the flag asks for float64 throughout. None where it raises.
    """
    rng = np.random.default_rng(0)
    answers = [ask(case, False), *(ask(_moved(case, rng), True) for _ in range(DIRECTIONS))]
    worst = max((_distance(answer, expected) for answer in answers), default=0.0)
    return min(SAFE * worst, JUMP) if worst <= JUMP else 0.0


def _moved(case: Case, rng: np.random.Generator) -> Case:
    """The case with each floating number up or down by about its last digit."""

    def move(value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            return value
        step = float(np.finfo(value.dtype).eps) * rng.choice((-1.0, 1.0), value.shape)
        moved = np.array(value, np.float64, order="K")
        moved *= 1 + step
        return moved

    args = tuple(map_leaves(value, move) for value in case.args)
    return replace(case, args=args, kwargs={key: map_leaves(value, move) for key, value in case.kwargs.items()})


def _distance(answer: Any, expected: Any) -> float:
    """The largest difference of two results, of each part relative to its largest entry."""
    one, other, worst = list(leaves(answer)), list(leaves(expected)), 0.0
    if len(one) != len(other):
        return 0.0
    for value, wanted in zip(one, other, strict=True):
        if not isinstance(value, (np.ndarray, float)) or not isinstance(wanted, (np.ndarray, float)):
            continue
        value, wanted = np.asarray(value), np.asarray(wanted)
        if value.dtype.kind != "f" or wanted.dtype.kind != "f" or value.shape != wanted.shape:
            continue
        scale = float(np.abs(wanted).max(initial=0.0))
        off = float(np.abs(value.astype(np.float64) - wanted).max(initial=0.0))
        if scale and np.isfinite(off):
            worst = max(worst, off / scale)
    return worst


__all__ = ["rounding_tolerance"]
