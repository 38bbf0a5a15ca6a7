"""Small random models of the kind that the unit runs: how their weights, their texts and their caches are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..kit import NOT_IN_TORCH_UNITS, Drawn, ids, normal, weights
from ..kit.named_sizes import length
from ..u07_transformer_block.parts import gain, named

Params = dict[str, Any]

#: What `exercise` is told of every function that runs a model. The numbers of heads stand in the cases, where they fit.
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
#: Sizes that cannot be 1.
LEAST = {"d_head": 2}
#: How far a right answer may be off: it may work out the angles of the rotation in float32.
LOOSE = {"rtol": 1e-4}
#: What no answer may call: torch's attention, and the model of the notebook's own tests.
NOT_HERE = (*NOT_IN_TORCH_UNITS, "model_by_torch")
#: A stream so small that the default eps counts.
FAINT = 3e-3


def model(layers: str = "n_blocks", stream: float = 1.0) -> Drawn:
    """The weights of a model, whose scores have a deviation of about 3.

    layers: a number or the name of a size.
    stream: the typical size of what stands in the residual stream.
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
    """Tokens, the last of which is the first again: only its position tells the two apart."""

    def make(rng: np.random.Generator, lengths: tuple[int, ...], sizes: dict[str, int]) -> np.ndarray:
        tokens = ids(shape, below="vocab").draw(rng, sizes)
        tokens[:, -1] = tokens[:, 0]
        return tokens

    return Drawn(shape, make, also="vocab")


def caches(layers: int) -> Drawn:
    """Keys and values of t tokens for each layer, a list of tuples."""
    shape = "B g t d_head"

    def make(rng: np.random.Generator, lengths: tuple[int, ...], sizes: dict[str, int]) -> list[Any]:
        return [(normal(shape, 1.5).draw(rng, sizes), normal(shape).draw(rng, sizes)) for _ in range(layers)]

    return Drawn("", make, also=shape)


def head_counts(rng: np.random.Generator) -> Iterator[dict[str, int]]:
    """Three different pairs of sizes h and g, with several query heads for each of several key/value heads."""
    for h, g in rng.permutation([(4, 2), (6, 2), (6, 3)]):
        yield {"h": int(h), "g": int(g)}


def other_order(params: Params) -> Params:
    """The same weights in another order, in the model and in each block: an answer goes by their names."""
    blocks = [dict(reversed(block.items())) for block in params["blocks"]]
    return {**dict(reversed(params.items())), "blocks": blocks}
