"""Computes the correct decoder layer in several forms that differ only in rounding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .decoder_slips import layer

Layer = Callable[..., Tensor]


def softmax_by_hand(scores: Tensor, mask: Tensor | None) -> Tensor:
    seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    top = scores.masked_fill(~seen, -torch.inf).amax(-1, keepdim=True).clamp_min(-1e300)
    powers = torch.exp((scores - top).masked_fill(~seen, 0.0)) * seen
    return powers / powers.sum(-1, keepdim=True).clamp_min(1e-300)


def softmax_by_logarithm(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return scores.log_softmax(-1).exp()
    return torch.nan_to_num(scores.masked_fill(~mask, -torch.inf).log_softmax(-1)).exp() * mask


def circuits(
    X: Tensor, Y: Tensor, params: dict[str, Tensor], h: int, source_mask: Tensor | None = None, *, softmax: Any
) -> Tensor:
    """Apply the layer without queries, keys or values, by multiplying each head's weights first."""

    def read(part: str, X: Tensor, Y: Tensor, mask: Tensor | None) -> Tensor:
        W_Q, W_K, W_V = (params[f"{part}_W_{role}"].unflatten(1, (h, -1)) for role in "QKV")
        W_O = params[f"{part}_W_O"].unflatten(0, (h, -1))
        scores = torch.einsum("bid,dhk,ehk,bje->bhij", X, W_Q, W_K, Y) * W_Q.shape[-1] ** -0.5
        return torch.einsum("bhij,bje,ehk,hkd->bid", softmax(scores, mask), Y, W_V, W_O)

    later = torch.ones(X.shape[1], X.shape[1], dtype=torch.bool).triu(1)
    X_1 = X + read("self", X, X, ~later)
    return X_1 + read("cross", X_1, Y, None if source_mask is None else source_mask[:, None, None])


def by_sequence(X: Tensor, Y: Tensor, params: dict[str, Tensor], h: int, source_mask: Tensor | None = None) -> Tensor:
    each = (None,) * len(X) if source_mask is None else source_mask.split(1)
    return torch.cat([layer(x, y, params, h, seen) for x, y, seen in zip(X.split(1), Y.split(1), each, strict=True)])


def by_head(X: Tensor, Y: Tensor, params: dict[str, Tensor], h: int, source_mask: Tensor | None = None) -> Tensor:
    def blocks(part: str) -> list[dict[str, Tensor]]:
        rows = [params[f"{part}_W_O"].chunk(h)]
        columns = [params[f"{part}_W_{role}"].chunk(h, 1) for role in "QKV"]
        names = [f"{part}_W_{role}" for role in "QKVO"]
        return [dict(zip(names, weights, strict=True)) for weights in zip(*columns, *rows, strict=True)]

    none = {"self_W_O": torch.zeros_like(params["self_W_O"]), "cross_W_O": torch.zeros_like(params["cross_W_O"])}
    X_1 = X + sum(layer(X, Y, {**params, **none, **block}, 1) - X for block in blocks("self"))
    own = {**params, **none}
    return X_1 + sum(layer(X_1, Y, {**own, **block}, 1, source_mask) - X_1 for block in blocks("cross"))


RIGHT: tuple[tuple[str, Layer], ...] = (
    ("whole tensors", layer),
    ("one sequence at a time", by_sequence),
    ("one head at a time", by_head),
    ("products of weights first, and a softmax by hand", partial(circuits, softmax=softmax_by_hand)),
    ("products of weights first, and a softmax by its logarithm", partial(circuits, softmax=softmax_by_logarithm)),
)
