"""Says whether a student's one call of the black box in `diagnose` could tell two suspects apart."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..kit import Case, Sent, difference, named
from .suspects import SUSPECTS


def told_by(expected: Callable[..., torch.Tensor]) -> Callable[[Case, Any, Any, Sequence[Sent]], str]:
    """Return an `experiment`; expected(name, X, W_Q, …, n_heads, causal) is the output of the suspect `name`."""
    names = list(inspect.signature(expected).parameters)[1:]

    def experiment(case: Case, suspect: Any, answered: Any, sent: Sequence[Sent]) -> str:
        if len(sent) != 1 or not isinstance(answered, str) or answered not in SUSPECTS or answered == suspect:
            return ""
        given = named(sent[0], names)
        if sorted(given) != sorted(names):
            return ""
        inputs = [torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in (given[name] for name in names)]
        with np.errstate(all="ignore"):
            one, other = (expected(name, *inputs).numpy() for name in (suspect, answered))
        gap = difference(one, other)
        pair = f"{SUSPECTS[suspect]} from {SUSPECTS[answered]}"
        if not gap:
            return f"your call cannot tell {pair}, because both give the same output. {_of_call(*inputs)}"
        return f"your call can tell {pair}, because their outputs differ {gap}, but your code confuses them."

    return experiment


def _of_call(X: Any, W_Q: Any, W_K: Any, W_V: Any, W_O: Any, n_heads: int, causal: Any) -> str:
    """Say the sizes of a call and how large its scores are."""
    (B, n, d_model), d_head = X.shape, W_Q.shape[1] // n_heads
    Q, K = ((X @ W).unflatten(-1, (n_heads, -1)).transpose(1, 2) for W in (W_Q, W_K))
    scores = Q @ K.mT / d_head**0.5
    sizes = f"B = {B}, n = {n}, d_model = {d_model}, n_heads = {n_heads}, d_head = {d_head}"
    largest = f"the scores are between {scores.min():.2g} and {scores.max():.2g}"
    return f"In your call, {sizes}, causal is {bool(causal)}, and {largest}."
