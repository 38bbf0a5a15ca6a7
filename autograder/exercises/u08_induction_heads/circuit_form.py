"""Checks that a student's weights form a circuit that can be run: keys, dtypes and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kit import Symptom
from .hand_made_circuit import WIDTH_CAP

END_KEYS = ("W_E", "W_pos", "W_U")
BLOCK_KEYS = ("W_Q", "W_K", "W_V", "W_O")


def form_problem(weights: Any, vocab: int, n_ctx: int) -> Symptom | None:
    """Return the first fault that makes the weights impossible to run, or None."""
    if not isinstance(weights, dict) or not {*END_KEYS, "blocks"} <= set(weights):
        return Symptom("keys-missing", f"a dict with {', '.join(END_KEYS)}, blocks is expected")
    blocks = weights["blocks"]
    if not isinstance(blocks, (list, tuple)) or len(blocks) != 2 or not all(isinstance(b, dict) for b in blocks):
        return Symptom("keys-missing", "`blocks` must be a list of two dicts, the first layer first")
    if not all(set(BLOCK_KEYS) <= set(block) for block in blocks):
        return Symptom("keys-missing", f"each block must hold {', '.join(BLOCK_KEYS)}")
    named = {key: weights[key] for key in END_KEYS}
    named |= {f'blocks[{i}]["{key}"]': block[key] for i, block in enumerate(blocks) for key in BLOCK_KEYS}
    for name, value in named.items():
        if not isinstance(value, np.ndarray):
            return Symptom("not-tensors", f"{name} is no tensor")
        if value.dtype != np.float32:
            return Symptom("not-float32", f"{name} has dtype {value.dtype} instead of float32")
        if value.ndim != 2 or max(value.shape) > WIDTH_CAP or 0 in value.shape:
            return Symptom("wrong-shapes", f"{name} has shape {value.shape}")
        if not np.isfinite(value).all():
            return Symptom("not-finite", f"{name} holds NaN or infinity")
    for name, shape in _fitting(weights, vocab, n_ctx).items():
        if named[name].shape != shape:
            return Symptom("wrong-shapes", f"{name} has shape {named[name].shape} where {shape} would fit the others")
    return None


def _fitting(weights: dict[str, Any], vocab: int, n_ctx: int) -> dict[str, tuple[int, int]]:
    """Return each weight's required shape by name; W_E sets d_model, and a block's W_Q and W_V its d_head and d_v."""
    d_model = weights["W_E"].shape[1]
    shapes = {"W_E": (vocab, d_model), "W_pos": (n_ctx, d_model), "W_U": (d_model, vocab)}
    for i, block in enumerate(weights["blocks"]):
        d_head, d_v = block["W_Q"].shape[1], block["W_V"].shape[1]
        fitting = (d_model, d_head), (d_model, d_head), (d_model, d_v), (d_v, d_model)
        shapes |= {f'blocks[{i}]["{key}"]': shape for key, shape in zip(BLOCK_KEYS, fitting, strict=True)}
    return shapes
