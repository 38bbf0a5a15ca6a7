"""Unit 10, what changed since 2020: rotary positions, windows, sinks, the block of today, latents and states."""

from . import (
    delta_rule,
    latent_step,
    linear_attention,
    modern_block,
    rms_norm,
    rotate,
    sink_attention,
    sliding_window_mask,
    swiglu,
)

EXERCISES = (
    rotate.EXERCISE,
    rms_norm.EXERCISE,
    swiglu.EXERCISE,
    sliding_window_mask.EXERCISE,
    modern_block.EXERCISE,
    sink_attention.EXERCISE,
    linear_attention.EXERCISE,
    latent_step.EXERCISE,
    delta_rule.EXERCISE,
)
