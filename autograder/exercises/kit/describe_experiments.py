"""Says what a wrong case shows: how outputs of a black box differ, or where a list differs from the expected one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .exercise_records import Case, Sent

#: Two outputs agree if they differ by at most this share of the largest number.
SHARE = 1e-6


def named(call: Case | Sent, names: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of a case or of a call by name."""
    return dict(zip(names, call.args, strict=False)) | dict(call.kwargs)


def parted(answered: list[int], due: list[int]) -> int | None:
    """Return the first index at which two lists differ, or None if one list is the beginning of the other."""
    return next((place for place, (one, other) in enumerate(zip(answered, due, strict=False)) if one != other), None)


def lacks(answered: list[int], due: list[int], last: int) -> bool:
    """Return whether only the last expected number is missing, and is `last`."""
    return answered == due[:-1] and due[-1:] == [last]


def difference(found: np.ndarray, other: np.ndarray) -> str:
    """Say how an output (..., n, d) differs from another, as the end of a sentence; return "" if they agree."""
    if found.shape != other.shape:
        return "in shape"
    gone = np.isfinite(found) != np.isfinite(other)
    with np.errstate(all="ignore"):
        gap = np.where(np.isfinite(found) & np.isfinite(other), np.abs(found - other), 0.0)
        size = float(np.abs(other[np.isfinite(other)]).max(initial=0.0))
    apart = gap > SHARE * size
    if gone.any():
        return "also where it is NaN or infinite" if apart.any() else "only where it is NaN or infinite"
    if not apart.any():
        return ""
    words = f"by up to {gap.max() / size:.1g} times the largest entry" if size else "where it should be 0"
    return f"{words}{_where(apart)}"


def _where(apart: np.ndarray) -> str:
    """Say which rows and sequences of (..., n, d) differ, if not all do."""
    if apart.ndim < 2:
        return ""
    rows = apart.any(axis=-1).reshape(-1, apart.shape[-2])
    sequences, tokens = rows.any(axis=1), rows.any(axis=0)
    parts = []
    if len(sequences) > 1 and not sequences.all():
        parts.append(f"in {sequences.sum()} of {len(sequences)} sequences")
    if len(tokens) > 1 and not tokens[-1]:
        parts.append("not in the last token")
    elif len(tokens) > 1 and tokens.sum() == 1:
        parts.append("only in the last token")
    return f", {' and '.join(parts)}" if parts else ""
