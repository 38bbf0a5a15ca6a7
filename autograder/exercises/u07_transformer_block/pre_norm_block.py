"""Defines the exercise `pre_norm_block`, which normalises before each sublayer and then adds, as today's models do."""

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


def pre_norm_block(x: normal("B n d_model"), params: BLOCK, n_heads: size("h"), mask=None) -> Leaf(
    "float array", "the result"
):
    x = x + attend(norm(x, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    return x + expand(norm(x, params["gamma_2"], params["beta_2"]), params)


def plain(x, params, n_heads, mask=None):
    p = params
    gamma_1, beta_1, gamma_2, beta_2 = p["gamma_1"], p["beta_1"], p["gamma_2"], p["beta_2"]
    normed = layer_norm(x, gamma_1, beta_1)
    attended = multi_head_attention(normed, p["W_Q"], p["W_K"], p["W_V"], p["W_O"], p["b_O"], n_heads, mask)
    between = x + attended
    normed_again = layer_norm(between, gamma_2, beta_2)
    expanded = feed_forward(normed_again, p["W_1"], p["b_1"], p["W_2"], p["b_2"], gelu)
    return between + expanded


def normed_at_the_end(x, params, n_heads, mask=None):
    return norm(pre_norm_block(x, params, n_heads, mask), params["gamma_2"], params["beta_2"])


MISTAKES = (
    *BLOCK_SLIPS,
    ("post-norm", {"order": "post"}, "You add first and then normalise, which is the order of 2017. Here the norm "
                                     "comes first."),
    ("values-not-normed", {"raw_values": True},
     "You take queries and keys from the normalised stream, but the values from the raw one."),
    ("residual-of-the-norm", {"normed_residuals": True},
     "You add the normalised x. The residual is x as it came."),
    ("norm-at-the-end", normed_at_the_end, "You add a third norm at the end. That belongs to the whole model."),
)  # fmt: skip

EXERCISE = exercise(
    pre_norm_block,
    cases=block_cases,
    credit={"values": 0.5, "masks": 0.2, "edge cases": 0.2, "gradients": 0.1},
    sizes=range(2, 7),
    ranges=RANGES,
    slipped=block_with,
    library="torch",
    forbidden=NO_BLOCK_OF_TORCH,
)
