"""Lists the exercises of unit 11, on a real model: tokens, layout, logits, cache, and the circuits inside."""

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
