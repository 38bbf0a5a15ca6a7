"""Lists the exercises of unit 10, on rotary positions, windows, sinks, a modern block, latents and linear attention."""

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
