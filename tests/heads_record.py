"""The record of a real model's heads, read with NumPy."""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from attention_figures.recorded_measurements import model_heads

RECORD = model_heads()


@cache
def patterns(text: int) -> np.ndarray:
    """All patterns of a text in whole per cent, (layers, heads, n, n)."""
    n = len(RECORD["texts"][text]["tokens"])
    return np.array([[decoded(written, n) for written in layer] for layer in RECORD["texts"][text]["heads"]])


def decoded(written: str, n: int) -> np.ndarray:
    """One pattern, (n, n), in whole per cent."""
    flat = []
    for part in re.findall(r"\d+|\D", written):
        flat += [0] * int(part) if part.isdigit() else [RECORD["signs"].index(part) + 1]
    pattern = np.zeros((n, n), dtype=int)
    pattern[np.tril_indices(n)] = flat
    return pattern


def scores(text: int) -> dict[str, np.ndarray]:
    """What each head gives to each kind of token on average, (layers, heads)."""
    tokens, weights = RECORD["texts"][text]["tokens"], patterns(text)
    n = len(tokens)
    same = np.array([[tokens[j - 1] == tokens[i] and 0 < j <= i for j in range(n)] for i in range(n)])
    rows = same.any(axis=1)
    followed = (weights * same).sum(axis=-1)[..., rows].mean(axis=-1) if rows.any() else np.zeros(weights.shape[:2])
    previous = weights.diagonal(-1, axis1=-2, axis2=-1).mean(axis=-1)
    return {"previous": previous, "followed": followed, "first": weights[..., 1:, 0].mean(axis=-1)}
