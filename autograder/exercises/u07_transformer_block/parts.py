"""Provides forbidden names and drawn parameters that several exercises of unit 7 share."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..kit import NOT_IN_TORCH_UNITS, Drawn

#: Includes the course's own name for torch's block, which a notebook shows and no answer may call.
NO_BLOCK_OF_TORCH = (*NOT_IN_TORCH_UNITS, "torchs_block")


def without(*calls: str) -> tuple[str, ...]:
    """Return the names forbidden to an attention, and these calls of torch under every module name."""
    return (*NOT_IN_TORCH_UNITS, *(f"{room}.{call}" for call in calls for room in ("F", "functional", "nn", "torch")))


#: torch's norms along a token and along the batch; on transposed inputs, each does the work of the other.
NO_NORM_OF_TORCH = without(
    *("layer_norm", "LayerNorm", "native_layer_norm", "group_norm", "GroupNorm", "native_group_norm"),
    *("rms_norm", "RMSNorm", "_fused_rms_norm", "_normalize"),
    *("batch_norm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "native_batch_norm"),
    *("LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "cudnn_batch_norm", "_batch_norm_impl_index"),
    *("_native_batch_norm_legit", "_native_batch_norm_legit_functional", "_batch_norm_with_update"),
    *("instance_norm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"),
)


def gain(shape: str) -> Drawn:
    """Draw gamma with both signs and no value near 0."""
    return Drawn(
        shape, lambda rng, shape, sizes: np.where(rng.random(shape) < 0.5, -1, 1) * rng.uniform(0.5, 1.8, shape)
    )


def full(shape: str, value: float | bool) -> Drawn:
    """Return the same number everywhere."""
    return Drawn(shape, lambda rng, shape, sizes: np.full(shape, value))


def named(parts: Mapping[str, Drawn]) -> Drawn:
    """Draw a dict of arguments."""
    axes = [axis for part in parts.values() for axis in part.axes]
    return Drawn(
        "",
        lambda rng, shape, sizes: {name: part.draw(rng, sizes) for name, part in parts.items()},
        also=" ".join(dict.fromkeys(axes)),
    )
