"""post_norm_block: add, then norm, as in 2017."""

from functools import partial

from ..kit import Leaf, exercise, normal, size
from .blocks import BLOCK, BLOCK_SLIPS, RANGES, attend, block_cases, block_with, expand, norm_missing
from .layer_norm import layer_norm
from .parts import NO_BLOCK_OF_TORCH


def post_norm_block(x: normal("B n d_model"), params: BLOCK, n_heads: size("h"), mask=None) -> Leaf(
    "float array", "the result"
):
    x = layer_norm(x + attend(x, params, n_heads, mask), params["gamma_1"], params["beta_1"])
    return layer_norm(x + expand(x, params), params["gamma_2"], params["beta_2"])


MISTAKES = (
    *norm_missing("after"),
    *BLOCK_SLIPS,
    ("pre-norm", {"order": "pre"}, "This is the modern order, norm then sublayer; here add first, then norm."),
)  # fmt: skip

EXERCISE = exercise(
    post_norm_block,
    block_cases,
    MISTAKES,
    credit={"values": 0.5, "masks": 0.2, "edge cases": 0.2, "gradients": 0.1},
    core="values",
    sizes=range(2, 7),
    ranges=RANGES,
    slipped=partial(block_with, order="post"),
    library="torch",
    forbidden=NO_BLOCK_OF_TORCH,
)
