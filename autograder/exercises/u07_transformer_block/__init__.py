"""Unit 7, add, norm and feed forward: the parts of a transformer block, both orders, a model and its training."""

from ..kit import in_order

EXERCISES = in_order(
    __name__,
    "layer_norm",
    "batch_norm",
    "gelu",
    "feed_forward",
    "post_norm_block",
    "pre_norm_block",
    "transformer_logits",
    "bits_per_token",
    "adamw_step",
    "sample",
)
