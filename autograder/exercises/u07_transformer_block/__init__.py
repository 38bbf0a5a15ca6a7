"""Unit 7, add, norm and feed forward: the parts of a transformer block, both orders, a model and its training."""

from . import (
    adamw_step,
    batch_norm,
    bits_per_token,
    feed_forward,
    gelu,
    layer_norm,
    post_norm_block,
    pre_norm_block,
    sample,
    transformer_logits,
)

EXERCISES = (
    layer_norm.EXERCISE,
    batch_norm.EXERCISE,
    gelu.EXERCISE,
    feed_forward.EXERCISE,
    post_norm_block.EXERCISE,
    pre_norm_block.EXERCISE,
    transformer_logits.EXERCISE,
    bits_per_token.EXERCISE,
    adamw_step.EXERCISE,
    sample.EXERCISE,
)
