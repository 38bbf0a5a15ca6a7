"""Computes attention over blocks of keys by an online softmax, with an option for each slip."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def tiled(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    block_size: int,
    *,
    rescale_sum: bool = True,
    rescale_out: bool = True,
    upside_down: bool = False,
    maximum: str = "running",
    longer: int = 0,
    kept: Callable[[list[tuple[int, int]]], list[tuple[int, int]]] = lambda blocks: blocks,
    normalise: str = "at the end",
    scale_again: bool = False,
    first_values: bool = False,
    start: float = -math.inf,
) -> Tensor:
    """Compute the attention; every default is correct.

    maximum: "running", or that of each "block" or of the "first", or "none". start: the initial running maximum.
    longer: the number of keys by which a block is too long. kept: selects from all blocks, (first key, last key + 1).
    normalise: "at the end", "in the loop", or "every block" with their mean or "every block, added".
    """
    scale = Q.shape[-1] ** -0.5
    top = Q.new_full((*Q.shape[:-1], 1), start)
    total, out = torch.zeros_like(top), torch.zeros_like(Q)
    n = K.shape[-2]
    blocks = [(first, max(min(first + block_size + longer, n), first + 1)) for first in range(0, n, block_size)]
    blocks = kept(blocks) or [(0, n)]
    for turn, (first, end) in enumerate(blocks):
        scores = Q @ K[..., first:end, :].mT * (scale ** (turn + 1) if scale_again else scale)
        block_top = scores.amax(-1, keepdim=True)
        new_top = {
            "running": torch.maximum(top, block_top),
            "block": block_top,
            "first": top if turn else block_top,
            "none": torch.zeros_like(top),
        }[maximum]
        exponents = torch.exp(scores - new_top)
        shrink = torch.exp(new_top - top if upside_down and bool(top.isfinite().all()) else top - new_top)
        shrink = torch.nan_to_num(shrink, nan=0.0, posinf=0.0)
        total = total * (shrink if rescale_sum else 1.0) + exponents.sum(-1, keepdim=True)
        part = exponents @ (V[..., : end - first, :] if first_values else V[..., first:end, :])
        if normalise.startswith("every block"):
            part = part / exponents.sum(-1, keepdim=True)
        out = out * (shrink if rescale_out else 1.0) + part
        if normalise == "in the loop":
            out = out / total
        top = new_top
    return {"at the end": out / total, "every block": out / len(blocks)}.get(normalise, out)
