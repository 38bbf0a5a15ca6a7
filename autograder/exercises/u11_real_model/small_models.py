"""Draws the weights, texts and caches of small random models of the kind that unit 11 runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..kit import NOT_IN_TORCH_UNITS, Drawn, ids, normal, weights
from ..kit.named_sizes import length
from ..u07_transformer_block.parts import gain, named

Params = dict[str, Any]

#: Size ranges of `exercise` for every function that runs a model. Each case gives numbers of heads that fit.
RANGES = {
    "B": range(2, 6),
    "n": range(5, 9),
    "n_new": range(4, 7),
    "t": range(7, 12),
    "d_head": (6, 8, 10),
    "d_model": range(24, 33),
    "d_ff": range(33, 49),
    "vocab": range(61, 80),
}
#: Sizes that can't be 1.
LEAST = {"d_head": 2}
#: The error allowed to a correct answer, which may compute the angles of the rotation in float32.
LOOSE = {"rtol": 1e-4}
#: Names that no answer may call: torch's attention, and the model in the notebook's own tests.
NOT_HERE = (*NOT_IN_TORCH_UNITS, "model_by_torch")
#: A stream so small that the default eps matters.
FAINT = 3e-3


def model(layers: str = "n_blocks", stream: float = 1.0) -> Drawn:
    """Draw the weights of a model whose scores have a standard deviation of about 3.

    layers: a number or the name of a size.
    stream: the typical size of numbers in the residual stream.
    """
    block = named(
        {
            "W_Q": weights("d_model h*d_head", 1.6),
            "W_K": weights("d_model g*d_head", 1.3),
            "W_V": weights("d_model g*d_head"),
            "W_O": weights("h*d_head d_model", stream),
            "W_gate": weights("d_model d_ff", 1.3),
            "W_up": weights("d_model d_ff"),
            "W_down": weights("d_ff d_model", stream),
            "gamma_1": gain("d_model"),
            "gamma_2": gain("d_model"),
        }
    )
    blocks = Drawn(
        "",
        lambda rng, shape, sizes: [block.draw(rng, sizes) for _ in range(length(layers, sizes))],
        also=f"{block.also} {layers}",
    )
    return named({"W_E": normal("vocab d_model", stream), "gamma_f": gain("d_model"), "blocks": blocks})


def text(shape: str) -> Drawn:
    """Draw tokens whose last one repeats the first, so that only their positions differ."""

    def make(rng: np.random.Generator, lengths: tuple[int, ...], sizes: dict[str, int]) -> np.ndarray:
        tokens = ids(shape, below="vocab").draw(rng, sizes)
        tokens[:, -1] = tokens[:, 0]
        return tokens

    return Drawn(shape, make, also="vocab")


def caches(layers: int) -> Drawn:
    """Draw keys and values of t tokens for each layer, as a list of tuples."""
    shape = "B g t d_head"

    def make(rng: np.random.Generator, lengths: tuple[int, ...], sizes: dict[str, int]) -> list[Any]:
        return [(normal(shape, 1.5).draw(rng, sizes), normal(shape).draw(rng, sizes)) for _ in range(layers)]

    return Drawn("", make, also=shape)


def head_counts(rng: np.random.Generator) -> Iterator[dict[str, int]]:
    """Yield three different pairs of sizes h and g, with several query heads for each of several key/value heads."""
    for h, g in rng.permutation([(4, 2), (6, 2), (6, 3)]):
        yield {"h": int(h), "g": int(g)}


def other_order(params: Params) -> Params:
    """Return the same weights in another order, because an answer should read them by name."""
    blocks = [dict(reversed(block.items())) for block in params["blocks"]]
    return {**dict(reversed(params.items())), "blocks": blocks}
