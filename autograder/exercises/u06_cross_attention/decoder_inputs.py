"""Checks the inputs of a black box that contains a decoder layer, and raises its errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kit import refuse_unlike

#: Limits of a box: sequences or heads, tokens of either side, columns of a matrix, and the size of numbers.
SEQUENCES, TOKENS, WIDTH, LARGEST = 8, 16, 40, 100.0


def refuse(X: Any, Y: Any, params: Any, n_heads: Any, source_mask: Any = None) -> None:
    """Raise ValueError, with a sentence, if the inputs of a decoder layer are invalid or too large."""
    most = SEQUENCES * TOKENS * WIDTH
    refuse_unlike("X", X, (-1, -1, -1), most)
    refuse_unlike("Y", Y, (len(X), -1, -1), most)
    if type(n_heads) is not int or not 1 <= n_heads <= SEQUENCES:
        raise ValueError(f"n_heads must be an int from 1 to {SEQUENCES}")
    keys = [f"{part}_W_{role}" for part in ("self", "cross") for role in "QKVO"]
    if not isinstance(params, dict) or sorted(params) != sorted(keys):
        raise ValueError(f"params must be a dict with the keys {', '.join(keys)}")
    d_model, d_source = X.shape[-1], Y.shape[-1]
    for part, source in (("self", d_model), ("cross", d_source)):
        W_Q = params[f"{part}_W_Q"]
        refuse_unlike(f'params["{part}_W_Q"]', W_Q, (d_model, -1))
        if W_Q.shape[1] % n_heads or W_Q.shape[1] > WIDTH:
            raise ValueError(f"{part}_W_Q has {W_Q.shape[1]} columns: n_heads * d_head is due, {WIDTH} at most")
        for role in "KV":
            refuse_unlike(f'params["{part}_W_{role}"]', params[f"{part}_W_{role}"], (source, W_Q.shape[1]))
        refuse_unlike(f'params["{part}_W_O"]', params[f"{part}_W_O"], (W_Q.shape[1], d_model))
    if len(X) > SEQUENCES or max(X.shape[1], Y.shape[1]) > TOKENS or max(d_model, d_source) > WIDTH:
        raise ValueError(f"a box takes at most {SEQUENCES} sequences, {TOKENS} tokens and {WIDTH} features")
    if max(float(np.abs(array).max()) for array in (X, Y, *params.values())) > LARGEST:
        raise ValueError(f"a box takes numbers of order 1, and none beyond ±{LARGEST:.0f}")
    if source_mask is not None:
        due = (len(X), Y.shape[1])
        if not isinstance(source_mask, np.ndarray) or source_mask.dtype != bool or source_mask.shape != due:
            raise ValueError(f"source_mask must be None or boolean, of shape {due}")


refuse.__name__ = refuse.__qualname__ = "layer"  # Python names this in errors about missing arguments
