"""Lists the exercises of unit 9, on loop, batched and tiled attention, their costs, and timing."""

from ..kit import in_order

EXERCISES = in_order(
    __name__,
    "loop_attention",
    "batched_attention",
    "tiled_attention",
    "merge_partials",
    "attention_flops",
    "score_matrix_bytes",
    "roofline_seconds",
    "median_time",
    "tiled_causal_attention",
    "flash_bytes",
    "flash_backward",
)
