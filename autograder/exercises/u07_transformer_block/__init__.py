"""Unit 7, add, norm and feed forward: the parts of a transformer block, both orders of it, and a whole model."""

from . import batch_norm, feed_forward, gelu, layer_norm, post_norm_block, pre_norm_block, transformer_logits

EXERCISES = (
    layer_norm.EXERCISE,
    batch_norm.EXERCISE,
    gelu.EXERCISE,
    feed_forward.EXERCISE,
    post_norm_block.EXERCISE,
    pre_norm_block.EXERCISE,
    transformer_logits.EXERCISE,
)
