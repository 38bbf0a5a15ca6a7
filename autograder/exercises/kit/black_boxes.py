"""Makes black boxes, which are functions that a student's code can call but not read.

A box runs outside the student's process. It takes arrays and returns one array. Neither its running time nor the text
of an error nor an uncounted call reveals anything beyond the numbers that it returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .special_arguments import Device, DevicePart

#: Every answer takes this many seconds or a multiple of it, whatever the box computes.
PACE = 0.002
CANNOT = "the box cannot take these inputs"


def black_box(function: Callable[..., Any], check: Callable[..., None], calls: int) -> DevicePart:
    """Return an argument for a case: a function that can be called `calls` times and whose code can't be read.

    function: takes NumPy arrays, which are what the student's code sends.
    check: gets the same arguments and raises ValueError with a sentence for those that no box accepts. Only `check`
    decides what is an error: if `function` fails on arguments that `check` accepts, every box raises ValueError with
    the same sentence.
    """

    def make() -> dict[str, Callable[..., Any]]:
        asked = 0

        def box(*args: Any, **kwargs: Any) -> np.ndarray:
            nonlocal asked
            asked += 1
            if asked > calls:
                error = ValueError(f"the box answers {calls} call{'s' * (calls > 1)}, and this is one more")
                error.allowed = calls  # so that code that records the calls needn't parse the sentence
                raise error
            check(*args, **kwargs)
            try:
                return np.asarray(function(*args, **kwargs))
            except Exception:
                raise ValueError(CANNOT) from None

        return {"box": box}

    return Device(make, pace=PACE).part("box")


def refuse_unlike(name: str, value: Any, shape: tuple[int, ...], entries: int = 4_000) -> None:
    """Raise ValueError, with a sentence, unless `value` is a finite float64 array of this shape; -1 means any size."""
    if not isinstance(value, np.ndarray):
        raise ValueError(f"{name} must be a float64 array or tensor, not a {type(value).__name__}")
    fits = value.ndim == len(shape) and all(want in (-1, size) for want, size in zip(shape, value.shape, strict=True))
    if not fits or not value.size:
        due = ", ".join("any" if size == -1 else str(size) for size in shape)
        raise ValueError(f"{name} has shape {value.shape}, and ({due}) is due, with no axis of length 0")
    if value.dtype != np.float64:
        raise ValueError(f"{name} has dtype {value.dtype}, and float64 is due")
    if value.size > entries:
        raise ValueError(f"{name} has {value.size} entries; a box takes at most {entries}")
    if not np.isfinite(value).all():
        raise ValueError(f"{name} holds NaN or infinity")
