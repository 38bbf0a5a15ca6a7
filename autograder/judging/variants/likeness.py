"""How like two results are."""

from __future__ import annotations

import numpy as np

#: A number of entries that two arrays share is chance below this share of all.
CHANCE = 0.04


def near(answer: object, found: object) -> float:
    """How like two results are, from 0 to 2: of one shape, in their entries, and in how the entries go together."""
    if isinstance(answer, (list, tuple)) or isinstance(found, (list, tuple)):
        if not isinstance(answer, (list, tuple)) or not isinstance(found, (list, tuple)):
            return 0.0
        shared = sum(one == other for one, other in zip(answer, found, strict=False))
        return 2 * shared / max(len(answer), len(found), 1)
    if not isinstance(answer, (np.ndarray, int, float)) or not isinstance(found, (np.ndarray, int, float)):
        return 0.0
    one, other = np.asarray(answer), np.asarray(found)
    if one.shape != other.shape or one.dtype.kind not in "fiub" or other.dtype.kind not in "fiub" or not one.size:
        return 0.0
    one, other = one.astype(float).ravel(), other.astype(float).ravel()
    with np.errstate(all="ignore"):
        equal = float((np.abs(one - other) <= 1e-5 * np.abs(one).max()).mean())
        if one.size == 1:
            return 0.2 + 1.8 * equal
        one, other = one - one.mean(), other - other.mean()
        size = float(np.sqrt((one @ one) * (other @ other)))
        alike = float(one @ other) / size if size and np.isfinite(size) else 0.0
    return 0.2 + (equal if equal > CHANCE else 0.0) + 0.8 * alike**2
