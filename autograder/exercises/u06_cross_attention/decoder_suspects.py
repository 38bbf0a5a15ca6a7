"""Makes the decoder layers that `catches_wrong_decoder` gets, correct and wrong ones, all in disguise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import attention_parts as attention
from .decoder_slips import add, in_both, in_turn, layer, one_scale
from .parts import first_mask

Layer = Callable[..., Tensor]

# ---------------------------------------------------------------------------------------------------------------------
# Wrong layers, which are slips of `layer`


def slip(**how: Any) -> Layer:
    return partial(layer, **how)


def in_order(steps: Callable[..., Tensor]) -> Layer:
    return slip(steps=steps)


def self_mask(change: Callable[[Tensor], Tensor]) -> Layer:
    """Change the causal mask (n, n)."""
    return slip(in_self={"mask_of": change})


def source(change: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]) -> Layer:
    """Apply the layer to another X, Y and mask; without a mask `change` gets one of ones."""

    def wrong(X: Tensor, Y: Tensor, params: dict[str, Tensor], h: int, source_mask: Tensor | None = None) -> Tensor:
        mask = torch.ones(Y.shape[:2], dtype=torch.bool) if source_mask is None else source_mask
        X, Y, mask = change(X, Y, mask)
        return layer(X, Y, params, h, mask)

    return wrong


def empty(answer: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Layer:
    """Change the result only for empty sources: answer(correct result, result with no source, mask of empty ones)."""

    def wrong(X: Tensor, Y: Tensor, params: dict[str, Tensor], h: int, source_mask: Tensor | None = None) -> Tensor:
        right = layer(X, Y, params, h, source_mask)
        if source_mask is None or source_mask.any(1).all():
            return right
        X_1 = layer(X, Y, params, h, torch.zeros_like(source_mask))
        return answer(right, X_1, ~source_mask.any(1)[:, None, None])

    return wrong


def refuses(right: Tensor, X_1: Tensor, gone: Tensor) -> Tensor:
    raise ValueError("there is nothing to attend to")


def skips(part: str, when: Callable[[Tensor, Tensor], bool]) -> Layer:
    """Add nothing from one attention if `when(X, Y)`."""

    def wrong(X: Tensor, Y: Tensor, params: dict[str, Tensor], *rest: Any) -> Tensor:
        gone = {f"{part}_W_O": torch.zeros_like(params[f"{part}_W_O"])} if when(X, Y) else {}
        return layer(X, Y, {**params, **gone}, *rest)

    return wrong


def masked_in_one_head(
    X: Tensor, Y: Tensor, params: dict[str, Tensor], h: int, source_mask: Tensor | None = None
) -> Tensor:
    """Apply the mask only in the first head."""
    first = (torch.arange(h) == 0)[:, None, None]
    return layer(X, Y, params, h, source_mask, in_cross={"mask_of": lambda mask: mask[:, None, None] | ~first})


def halved(X: Tensor, Y: Tensor, params: dict[str, Tensor], *rest: Any) -> Tensor:
    """Round inputs and weights to half precision."""
    X, Y, *weights = (tensor.half().double() for tensor in (X, Y, *params.values()))
    return layer(X, Y, dict(zip(params, weights, strict=True)), *rest)


def hotter(X: Tensor, Y: Tensor, params: dict[str, Tensor], *rest: Any) -> Tensor:
    """Make the scores half a percent too large."""
    return layer(X, Y, params | {name: 1.005 * params[name] for name in ("self_W_Q", "cross_W_Q")}, *rest)


def faint_leak(X: Tensor, Y: Tensor, params: dict[str, Tensor], *rest: Any) -> Tensor:
    return layer(X, Y, params, *rest) + 2e-3 * torch.tanh(X.mean(1, keepdim=True))


def windowed(width: int) -> Layer:
    return self_mask(lambda mask: mask.triu(1 - width))


def last_reaches(mask: Tensor, row: int) -> Tensor:
    """Let row `row` also see the last token."""
    mask = mask.clone()
    mask[min(row, len(mask) - 1), -1] = True
    return mask


def counted(X: Tensor, Y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Read the mask as a length."""
    return X, Y, torch.arange(mask.shape[1]) < mask.sum(1, keepdim=True)


def until_first_gap(X: Tensor, Y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return X, Y, mask.cumprod(1).bool()


def until_last(X: Tensor, Y: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return X, Y, mask.flip(1).cumsum(1).flip(1).bool()


def taken_for(same: Callable[[Tensor, Tensor, int], bool], mask_of: Callable[[Tensor], Tensor]) -> Layer:
    """Read the rows of the mask as another axis when both are equally long, which is when same(X, Y, h)."""

    def wrong(X: Tensor, Y: Tensor, params: dict[str, Tensor], h: int, source_mask: Tensor | None = None) -> Tensor:
        slips = {"in_cross": {"mask_of": mask_of}} if same(X, Y, h) else {}
        return layer(X, Y, params, h, source_mask, **slips)

    return wrong


def square(X: Tensor, Y: Tensor, params: dict[str, Tensor], *rest: Any) -> Tensor:
    """Read a source as long as the target under the target's causal mask."""
    slips = {"in_cross": {"always_causal": True}} if X.shape[1] == Y.shape[1] else {}
    return layer(X, Y, params, *rest, **slips)


def without_a_mask(cut: Callable[[Tensor, Tensor], Tensor]) -> Layer:
    """Replace the source by cut(X, Y) if no mask is given; otherwise be correct."""

    def wrong(X: Tensor, Y: Tensor, params: dict[str, Tensor], h: int, source_mask: Tensor | None = None) -> Tensor:
        return layer(X, cut(X, Y) if source_mask is None else Y, params, h, source_mask)

    return wrong


#: Rows of (criterion, the kind of bug in a student's words, slips of that kind).
WRONG: tuple[tuple[str, str, tuple[Layer, ...]], ...] = (
    ("plain", "a decoder that never reads the source", (
        in_order(lambda X, own, cross: add(X, own) + 0 * cross(X)),
        in_order(lambda X, own, cross: X + 0 * cross(add(X, own))))),
    ("plain", "a decoder that forgets a residual", (
        in_order(lambda X, own, cross: cross(add(X, own))), in_order(lambda X, own, cross: add(own(X), cross)))),
    ("plain", "a decoder that scales its scores wrongly", (
        slip(**in_both(scaling="none")), slip(**in_both(scaling="d_head")), slip(**in_both(scaling="times")))),
    ("causality", "a decoder that looks ahead in the target", (
        self_mask(lambda mask: torch.ones_like(mask)), self_mask(lambda mask: torch.ones_like(mask).tril(1)),
        self_mask(partial(last_reaches, row=0)), self_mask(partial(last_reaches, row=1)))),
    ("causality", "a decoder that forgets what was written longer ago", (windowed(3), windowed(4), windowed(5))),
    ("causality", "a decoder that reads the source only as far as it has written", (
        slip(in_cross={"always_causal": True}),)),
    ("sublayers", "a decoder whose question to the source knows less than it should", (
        in_order(lambda X, own, cross: X + own(X) + cross(X)),)),
    ("sublayers", "a decoder with its two attentions in the wrong order", (
        in_order(lambda X, own, cross: in_turn(X, cross, own)),)),
    ("sublayers", "a decoder that counts something twice, or loses it", (
        in_order(lambda X, own, cross: X + in_turn(X, own, cross)),
        in_order(lambda X, own, cross: add(add(add(X, own), own), cross)),
        in_order(lambda X, own, cross: X + cross(add(X, own))))),
    ("heads and lengths", "a decoder that mixes up its heads", (
        slip(in_cross={"n_heads": 1}), slip(in_self={"n_heads": 1}),
        slip(**in_both(split=attention.split_interleaved)), slip(**in_both(merge=attention.merge_reshaped)))),
    ("heads and lengths", "a decoder that gives both attentions one width of heads", (one_scale,)),
    ("heads and lengths", "a decoder that reads only part of a long source", (
        source(lambda X, Y, mask: (X, Y[:, : X.shape[1]], mask[:, : X.shape[1]])),)),
    ("heads and lengths", "a decoder that fails where the target is a single token, alone or in a batch", (
        skips("self", lambda X, Y: X.shape[1] == 1),)),
    ("heads and lengths", "a decoder that fails where the source is a single token, alone or in a batch", (
        skips("cross", lambda X, Y: Y.shape[1] == 1),)),
    ("alike sizes", "a decoder that takes the sequences of a mask for something else of the same number", (
        taken_for(lambda X, Y, h: X.shape[0] == X.shape[1], lambda mask: mask[None, None]),
        taken_for(lambda X, Y, h: X.shape[0] == h, lambda mask: mask[None, :, None]))),
    ("alike sizes", "a decoder that takes the source for the target where they are of one length", (square,)),
    ("padding", "a decoder that drops the end of a long source where no mask is given", (
        without_a_mask(lambda X, Y: Y[:, : X.shape[1]]),
        without_a_mask(lambda X, Y: Y[:, : max(1, Y.shape[1] - 1)]))),
    ("padding", "a decoder that forgets the padding of the source", (
        slip(in_cross={"masking": "ignored"}), slip(in_cross={"masking": "inverted"}))),
    ("padding", "a decoder that takes every mask for padding at the end", (
        source(counted), source(until_first_gap), source(until_last))),
    ("padding", "a decoder that applies the source mask halfway", (
        slip(in_cross={"masking": "after"}), slip(in_cross={"masking": "multiplied"}), masked_in_one_head)),
    ("batches", "a decoder that mixes up the masks of a batch", (
        slip(in_cross={"mask_of": first_mask}), source(lambda X, Y, mask: (X, Y, mask.roll(1, 0))))),
    ("batches", "a decoder that mixes up the sequences of a batch", (
        source(lambda X, Y, mask: (X, Y[:1].expand_as(Y), mask)), source(lambda X, Y, mask: (X, Y.roll(1, 0), mask)))),
    ("nothing allowed", "a decoder that gives NaN where nothing is allowed", (slip(in_cross={"masking": "nan"}),)),
    ("nothing allowed", "a decoder that stops with an error where nothing is allowed", (empty(refuses),)),
    ("nothing allowed", "a decoder that adds the wrong thing where nothing is allowed", (
        slip(in_cross={"masking": "uniform"}),
        empty(lambda right, X_1, gone: X_1),
        empty(lambda right, X_1, gone: right.masked_fill(gone, 0.0)))),
    ("small errors", "a decoder that is off by less than a hundredth", (halved, hotter, faint_leak)),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Disguises


def disguised(make: Layer, rng: np.random.Generator, idle: Layer = layer) -> Callable[..., np.ndarray]:
    """Disguise a layer of arrays so that neither its digits nor its time reveal it: permute heads, scale queries and
    keys by inverse factors, perturb the last digits, and compute `idle` only for its time."""
    seed, stretch = int(rng.integers(2**31)), float(rng.uniform(0.6, 1.6))

    def box(X: Any, Y: Any, params: Any, n_heads: int, source_mask: Any = None) -> np.ndarray:
        X, Y = torch.from_numpy(X), torch.from_numpy(Y)
        mask = None if source_mask is None else torch.from_numpy(source_mask)
        order = torch.from_numpy(np.random.default_rng(seed).permutation(n_heads))
        moved = {}
        for name, array in params.items():
            axis = 0 if name.endswith("O") else 1
            weight = torch.from_numpy(array).unflatten(axis, (n_heads, -1)).index_select(axis, order)
            moved[name] = weight.flatten(axis, axis + 1) * {"Q": stretch, "K": 1 / stretch}.get(name[-1], 1.0)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # on tensors as small as these, several threads would only wait for one another
        try:
            idle(X, Y, moved, n_heads, mask)
            out = make(X, Y, moved, n_heads, mask).numpy()
        finally:
            torch.set_num_threads(threads)
        ripple = np.sin(1e3 * float(X.sum() + Y.sum()) + seed + np.arange(out.size)).reshape(out.shape)
        return out * (1 + 1e-13 * ripple)

    return box


def suspects(
    right: Sequence[tuple[str, Layer]], rng: np.random.Generator
) -> Iterator[tuple[str, str, Callable[..., np.ndarray]]]:
    """Yield (criterion, kind, layer) for four correct layers and for every wrong one, so that no test passes by luck.

    A correct layer takes the time of its form, and a wrong one that of a random form.
    """
    for at in rng.permutation(len(right))[:4]:
        form, make = right[at]
        yield "plain", f"a correct decoder: {form}", disguised(make, rng)
    for criterion, kind, ways in WRONG:
        for way in ways:
            _, idle = right[int(rng.integers(len(right)))]
            yield criterion, kind, disguised(way, rng, idle)
