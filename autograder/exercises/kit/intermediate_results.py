"""What an answer made on the way: are these the same numbers, whatever their order and scale?"""

from __future__ import annotations

import numpy as np


def profile(array: np.ndarray) -> np.ndarray:
    """The sizes of all numbers in order, relative to the largest."""
    ordered = np.sort(np.abs(array.ravel()))
    return ordered / max(ordered[-1], 1e-300)
