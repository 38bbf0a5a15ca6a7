"""Black boxes: functions that a student's code may ask and never see.

A box runs outside the student's process. Arrays go in and one array comes out, and no answer tells more than its
numbers: not in its time, nor in the words of an error, nor by a call that nobody counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .special_arguments import Device, DevicePart

#: An answer comes after so many seconds, or a multiple of them, whatever had to be computed.
PACE = 0.002
CANNOT = "the box cannot take these inputs"


def black_box(function: Callable[..., Any], check: Callable[..., None], calls: int) -> DevicePart:
    """An argument of a case: a function that may be called so many times, and not looked into.

    function: of NumPy arrays; it is handed what the student's code sends.
    check: called on the same arguments; raises ValueError with a sentence for those that no box takes. It decides alone
        what is an error: should the function stumble over what was let through, the sentence is the same for every box.
    """

    def make() -> dict[str, Callable[..., Any]]:
        asked = 0

        def box(*args: Any, **kwargs: Any) -> np.ndarray:
            nonlocal asked
            asked += 1
            if asked > calls:
                error = ValueError(f"the box answers {calls} call{'s' * (calls > 1)}, and this is one more")
                error.allowed = calls  # for whoever notes the calls: a sentence is no place to look for a number
                raise error
            check(*args, **kwargs)
            try:
                return np.asarray(function(*args, **kwargs))
            except Exception:
                raise ValueError(CANNOT) from None

        return {"box": box}

    return Device(make, pace=PACE).part("box")


def refuse_unlike(name: str, value: Any, shape: tuple[int, ...], entries: int = 4_000) -> None:
    """Raises ValueError, with a sentence, where `value` is no finite float64 array of this shape; -1 is any size."""
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
