"""What the steps of a function are worth while it runs: values by the numbers of their steps."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .values import Encoder

#: Of each step so many values are kept, so many in all; of so many entries each, and so many in all.
TIMES, MOST, ENTRIES, IN_ALL = 4, 1_000, 50_000, 400_000
#: What stands for an array that has more.
TOO_LARGE = "too large"
#: The same of whole numbers: places, of which one alone may be odd.
TIMES_WHOLE = 24
#: So often is an array looked at that is written into, and so large may it be.
WRITES, WRITTEN = 2_000, 5_000
#: What the changed text calls to have a value noted.
NOTED = "_noted"
#: What it calls of that after an array was written into.
STORED = "stored"
#: What it calls of that to have other numbers in the place of a value.
PUT = "put"


class Notes:
    """Takes a value down under the number of its step, and hands it on."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, Any]] = []
        self._times: dict[int, int] = {}
        self._left = IN_ALL
        self._writes = 0

    def __call__(self, number: int, value: Any) -> Any:
        times = self._times.get(number, 0)
        if times < (TIMES_WHOLE if isinstance(value, (int, np.integer)) else TIMES) and len(self.kept) < MOST:
            self._times[number] = times + 1
            copy = _copied(value, min(ENTRIES, self._left))
            if copy is None and _entries(value) > 1:
                copy = TOO_LARGE
            if copy is not None:
                self._left -= _entries(copy)
                self.kept.append((number, copy))
        return value

    def stored(self, number: int, value: Any) -> None:
        """Takes down what an array holds after it was written into: the last time counts."""
        self._writes += 1
        if self._times.pop(number, None):
            self._left += sum(_entries(held) for step, held in self.kept if step == number)
            self.kept = [each for each in self.kept if each[0] != number]
        if self._writes <= WRITES and _entries(value) <= WRITTEN:
            self(number, value)

    def put(self, value: Any, numbers: list[float]) -> Any:
        """Other numbers, as what a value is."""
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            return torch.tensor(numbers, dtype=value.dtype, device=value.device).reshape(value.shape)
        if isinstance(value, np.ndarray):
            return np.array(numbers, dtype=value.dtype).reshape(value.shape)
        return type(value)(numbers[0])

    def encoded(self, encoder: Encoder) -> list[Any]:
        """[number, tree] of each value, in the order in which they came."""
        return [[number, encoder.encode(value)] for number, value in self.kept]


def _entries(value: Any) -> int:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.numel()
    return value.size if isinstance(value, np.ndarray) else 1


def _copied(value: Any, entries: int) -> Any:
    """As it is now: later lines may write into it. None for what is no number and no array, or has more entries."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.detach().clone() if value.numel() <= entries else None
    if isinstance(value, np.ndarray):
        return value.copy() if value.size <= entries else None
    return value if isinstance(value, (bool, int, float, np.generic)) else None
