"""Unit 9, attention three ways, what it costs, and how to time it honestly."""

from . import (
    attention_flops,
    batched_attention,
    flash_backward,
    flash_bytes,
    loop_attention,
    median_time,
    roofline_seconds,
    score_matrix_bytes,
    tiled_attention,
    tiled_causal_attention,
)

EXERCISES = (
    loop_attention.EXERCISE,
    batched_attention.EXERCISE,
    tiled_attention.EXERCISE,
    attention_flops.EXERCISE,
    score_matrix_bytes.EXERCISE,
    roofline_seconds.EXERCISE,
    median_time.EXERCISE,
    tiled_causal_attention.EXERCISE,
    flash_bytes.EXERCISE,
    flash_backward.EXERCISE,
)
