"""Lists the exercises of unit 7, on a transformer block's parts, pre- and post-norm, a whole model and training."""

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
