"""Finds out why queries and keys with two features don't point at their targets; many weights are correct."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kit import Case, Symptom
from .parts import softmax

Array = np.ndarray
WANTED = 0.9


def examine_pointing(case: Case, result: Any) -> Symptom | None:
    """Return the first fault in what `pointing_weights` returned for this case, or None."""
    X, target = case.args
    problem = _form_problem(result, X)
    if problem is not None:
        return problem
    W_Q, W_K = (W.astype(np.float64) for W in result)
    Q, K = X @ W_Q, X @ W_K
    if not np.isfinite(Q @ K.T).all():
        return Symptom("not-finite", "the scores hold NaN or infinity")
    rows, weights = np.arange(len(X)), softmax(Q @ K.T)
    given = weights[rows, target]
    worst = int(given.argmin())
    if given[worst] >= WANTED - 1e-9:
        return None
    text = f"row {worst} gives the weight {given[worst]:.3f} to column {target[worst]}, not {WANTED} or more"
    return Symptom(_slip(X, target, W_Q, W_K, Q @ K.T), text)


def _form_problem(result: Any, X: Array) -> Symptom | None:
    """Return the first fault that makes the weights unusable, or None."""
    if not isinstance(result, tuple) or len(result) != 2:
        return Symptom("no-tuple", "a tuple of two arrays is expected, (W_Q, W_K)")
    d_model = X.shape[1]
    for name, W in zip(("W_Q", "W_K"), result, strict=True):
        if not isinstance(W, np.ndarray) or W.dtype.kind not in "fiu":
            return Symptom("no-tuple", f"{name} is no array of numbers")
        if W.shape != (d_model, 2):
            slug = "features-for-weights" if W.shape == (len(X), 2) else "wrong-shapes"
            return Symptom(slug, f"{name} has shape {W.shape} instead of {(d_model, 2)}")
        if not np.isfinite(W).all():
            return Symptom("not-finite", f"{name} holds NaN or infinity")
    return None


def _slip(X: Array, target: Array, W_Q: Array, W_K: Array, scores: Array) -> str:
    """Return the slug of the mistake, judging by where the weights point instead."""
    n, rows = len(X), np.arange(len(X))
    designed = [np.linalg.lstsq(X.T, W, rcond=None)[0] for W in (W_Q, W_K)]  # if W was made as X.T @ designed
    if _points(scores, target):
        return "too-soft"
    if _points(scores.T, target):
        return "swapped"
    if _points(-scores, target):
        return "wrong-sign"
    if _points(designed[0] @ designed[1].T, target):
        return "transpose-for-inverse"
    if _points(scores, rows):
        return "points-at-itself"
    if any(_points(scores, (target + step) % n) for step in (1, -1)):
        return "neighbour"
    Q, K = (part / (np.abs(part).max() or 1.0) for part in (X @ W_Q, X @ W_K))
    if n > 1 and np.abs(K - K[0]).max() <= 1e-6:
        return "keys-alike"
    if not all(_can_win(K, j) for j in target):
        return "on-a-line" if _on_a_line(K) else "cannot-win"
    if len(set(target)) > 1 and np.abs(Q - Q[0]).max() <= 1e-6:
        return "rows-alike"
    wrong = ~_rows_that_point(scores, target)
    if (target[wrong] == rows[wrong]).all():
        return "not-at-itself"
    return "two-at-one" if len(set(target)) < n else "elsewhere"


def _points(scores: Array, target: Array) -> bool:
    """Return whether every target has the largest score in its row, by more than rounding."""
    return bool(_rows_that_point(scores, target).all())


def _rows_that_point(scores: Array, target: Array) -> Array:
    others = scores.copy()
    rows = np.arange(len(scores))
    others[rows, target] = -np.inf
    return scores[rows, target] > others.max(axis=1) + 1e-6 * np.abs(scores).max()


def _can_win(K: Array, j: int) -> bool:
    """Return whether some query gives key j the largest score.

    K is of order 1. Such a query exists if the directions from key j to all others fit into less than a half-turn.
    """
    ways = np.delete(K, j, axis=0) - K[j]
    if len(ways) == 0:
        return True
    if (np.linalg.norm(ways, axis=1) <= 1e-9).any():
        return False
    angles = np.sort(np.arctan2(ways[:, 1], ways[:, 0]))
    gaps = np.append(np.diff(angles), angles[0] + 2 * np.pi - angles[-1])
    return bool(gaps.max() > np.pi + 1e-6)


def _on_a_line(K: Array) -> bool:
    strengths = np.linalg.svd(K - K.mean(axis=0), compute_uv=False)
    return bool(len(K) > 2 and strengths[1] <= 1e-6 * strengths[0])
