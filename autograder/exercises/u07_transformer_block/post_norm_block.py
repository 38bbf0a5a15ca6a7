"""Defines the exercise `post_norm_block`, which adds each sublayer and then normalises, as in 2017."""

from functools import partial

from ..kit import Leaf, exercise, normal, size
from .blocks import (
    BLOCK,
    BLOCK_SLIPS,
    RANGES,
    attend,
    block_cases,
    block_with,
    expand,
    multi_head_attention,
)
from .feed_forward import plain as feed_forward
from .gelu import plain as gelu
from .layer_norm import layer_norm as norm
from .layer_norm import plain as layer_norm
from .parts import NO_BLOCK_OF_TORCH


def post_norm_block(x: normal("B n d_model"), params: BLOCK, n_heads: size("h"), mask=None) -> Leaf(
    "float array", "the result"
):
    x = norm(x + attend(x, params, n_heads, mask), params["gamma_1"], params["beta_1"])
    return norm(x + expand(x, params), params["gamma_2"], params["beta_2"])


def plain(x, params, n_heads, mask=None):
    p = params
    gamma_1, beta_1, gamma_2, beta_2 = p["gamma_1"], p["beta_1"], p["gamma_2"], p["beta_2"]
    attended = multi_head_attention(x, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    between = layer_norm(x + attended, gamma_1, beta_1)
    expanded = feed_forward(between, p["W_1"], p["b_1"], p["W_2"], p["b_2"], gelu)
    return layer_norm(between + expanded, gamma_2, beta_2)


MISTAKES = (
    *BLOCK_SLIPS,
    ("pre-norm", {"order": "pre"}, "You normalise before the sublayer, which is the modern order. Here add first, "
                                   "then normalise."),
)  # fmt: skip

EXERCISE = exercise(
    post_norm_block,
    cases=block_cases,
    credit={"values": 0.5, "masks": 0.2, "edge cases": 0.2, "gradients": 0.1},
    sizes=range(2, 7),
    ranges=RANGES,
    slipped=partial(block_with, order="post"),
    library="torch",
    forbidden=NO_BLOCK_OF_TORCH,
)
