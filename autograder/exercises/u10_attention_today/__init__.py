"""Unit 10, what changed since 2020: rotary positions, windows, sinks, the block of today, latents and states."""

from ..kit import in_order

EXERCISES = in_order(
    __name__,
    "rotate",
    "rms_norm",
    "swiglu",
    "sliding_window_mask",
    "modern_block",
    "sink_attention",
    "linear_attention",
    "select_keys",
    "latent_step",
    "delta_rule",
)
