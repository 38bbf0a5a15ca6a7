"""pre_norm_block: norm, then a sublayer, then add, as today's models do it."""

from ..kit import Leaf, exercise, normal, size
from .blocks import BLOCK, BLOCK_SLIPS, RANGES, attend, block_cases, block_with, expand, norm_missing
from .layer_norm import layer_norm
from .parts import NO_BLOCK_OF_TORCH


def pre_norm_block(x: normal("B n d_model"), params: BLOCK, n_heads: size("h"), mask=None) -> Leaf(
    "float array", "the result"
):
    x = x + attend(layer_norm(x, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    return x + expand(layer_norm(x, params["gamma_2"], params["beta_2"]), params)


def normed_at_the_end(x, params, n_heads, mask=None):
    return layer_norm(pre_norm_block(x, params, n_heads, mask), params["gamma_2"], params["beta_2"])


MISTAKES = (
    *norm_missing("before"),
    *BLOCK_SLIPS,
    ("post-norm", {"order": "post"}, "This is the order of 2017, add then norm; here the norm comes first."),
    ("values-not-normed", {"raw_values": True},
     "Queries and keys come from the normed stream, the values from the raw one."),
    ("residual-of-the-norm", {"residuals": ("normed", "normed")},
     "The normalised x is added; the residual is x as it came."),
    ("residual-of-the-norm-1", {"residuals": ("normed", "x")},
     "In the first step the normalised x is added; add x as it came."),
    ("residual-of-the-norm-2", {"residuals": ("x", "normed")},
     "In the second step the normalised x is added; add x as it came."),
    ("norm-at-the-end", normed_at_the_end, "There is a third norm at the end; that belongs to the whole model."),
)  # fmt: skip

EXERCISE = exercise(
    pre_norm_block,
    block_cases,
    MISTAKES,
    credit={"values": 0.5, "masks": 0.2, "edge cases": 0.2, "gradients": 0.1},
    core="values",
    sizes=range(2, 7),
    ranges=RANGES,
    slipped=block_with,
    library="torch",
    forbidden=NO_BLOCK_OF_TORCH,
)
