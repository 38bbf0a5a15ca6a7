"""How far rounding alone can carry a right answer from the exact one, worked out from a case's own numbers.

Two things are looked at: how far the reference moves when each number that goes in moves by about its last digit, and
how far it is off when it is itself worked out in the precision of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..exercises.kit.records import Case
from ..worker.values import leaves, map_leaves

#: Directions in which the inputs are moved, and how much further the second time.
DIRECTIONS, FURTHER = 3, 64
#: Another order of operations, and sums in a loop, cost a few times what the last digits of the inputs do.
SAFE = 16
#: No tolerance is larger.
LOOSEST = 0.05


def rounding_tolerance(ask: Callable[[Case, bool], Any], case: Case, expected: Any, enough: float) -> float:
    """A relative tolerance that no right answer to `case` exceeds by rounding; 0 where rounding has no say.

    enough: the tolerance that the case has; where one look shows that it is far from needed, that is all.

    It has none where the result jumps, as where a tie was drawn on purpose: then a smaller move moves it as far.

    ask: what the reference answers to a case; the flag asks for float64 throughout. None where it raises.
    """
    digit = max((_digit(value) for value in leaves((case.args, case.kwargs))), default=0.0)
    if not digit:
        return 0.0
    steps = [digit, digit * FURTHER] if digit * FURTHER < 1e-6 else [digit / FURTHER, digit]
    rng, in_float64 = np.random.default_rng(0), steps[0] == digit
    direct = 0.0 if in_float64 else _distance(ask(case, False), expected)

    def moves(step: float, times: int) -> float:
        return max(_distance(ask(_moved(case, rng, step), True), expected) for _ in range(times))

    if 4 * SAFE * max(direct, moves(steps[1], 1)) < enough:
        return 0.0
    little, much = (moves(step, DIRECTIONS) for step in steps)
    if little > 8 * much / FURTHER:
        return 0.0
    worst = max(direct, little if in_float64 else much)
    return min(SAFE * worst, LOOSEST)


def _digit(value: Any) -> float:
    """One unit in the last digit of a floating array, relative to its numbers; 0 for all else."""
    return float(np.finfo(value.dtype).eps) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else 0.0


def _moved(case: Case, rng: np.random.Generator, step: float) -> Case:
    """The case with each floating number up or down by about `step`, relative to it."""

    def move(value: Any) -> Any:
        if not _digit(value):
            return value
        moved = np.array(value, np.float64, order="K")
        moved *= 1 + step * rng.choice((-1.0, 1.0), value.shape) * rng.uniform(0.5, 1.0, value.shape)
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
