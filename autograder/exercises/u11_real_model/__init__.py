"""Unit 11, a real model: its tokens, its layout, the whole of it, its cache, and what is found in it."""

from ..kit import in_order

EXERCISES = in_order(
    __name__,
    "apply_merges",
    "from_pairs",
    "llama_logits",
    "llama_step",
    "window_and_sinks",
    "eigenvalue_copying_score",
    "find_source",
    "cut_path",
    "speculative_step",
)
