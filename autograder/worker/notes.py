"""What the steps of a function are worth while it runs: values by the numbers of their steps."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .values import Encoder

#: Of each step so many values are kept, so many in all; of so many entries each, and so many in all.
TIMES, MOST, ENTRIES, IN_ALL = 4, 1_000, 50_000, 400_000
#: The same of whole numbers: places, of which one alone may be odd.
TIMES_WHOLE = 24
#: What the changed text calls to have a value noted.
NOTED = "_noted"


class Notes:
    """Takes a value down under the number of its step, and hands it on."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, Any]] = []
        self._times: dict[int, int] = {}
        self._left = IN_ALL

    def __call__(self, number: int, value: Any) -> Any:
        times = self._times.get(number, 0)
        if times < (TIMES_WHOLE if isinstance(value, (int, np.integer)) else TIMES) and len(self.kept) < MOST:
            self._times[number] = times + 1
            copy = _copied(value, min(ENTRIES, self._left))
            if copy is not None:
                self._left -= copy.size if isinstance(copy, np.ndarray) else getattr(copy, "numel", lambda: 1)()
                self.kept.append((number, copy))
        return value

    def encoded(self, encoder: Encoder) -> list[Any]:
        """[number, tree] of each value, in the order in which they came."""
        return [[number, encoder.encode(value)] for number, value in self.kept]


def _copied(value: Any, entries: int) -> Any:
    """As it is now: later lines may write into it. None for what is no number and no array, or has more entries."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.detach().clone() if value.numel() <= entries else None
    if isinstance(value, np.ndarray):
        return value.copy() if value.size <= entries else None
    return value if isinstance(value, (bool, int, float, np.generic)) else None
