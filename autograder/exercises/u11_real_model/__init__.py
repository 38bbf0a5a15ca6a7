"""Unit 11, a real model: its tokens, its layout, the whole of it, its cache, and what is found in it."""

from . import (
    apply_merges,
    cut_path,
    eigenvalue_copying_score,
    find_source,
    from_pairs,
    llama_logits,
    llama_step,
    speculative_step,
    window_and_sinks,
)

EXERCISES = (
    apply_merges.EXERCISE,
    from_pairs.EXERCISE,
    llama_logits.EXERCISE,
    llama_step.EXERCISE,
    window_and_sinks.EXERCISE,
    eigenvalue_copying_score.EXERCISE,
    find_source.EXERCISE,
    cut_path.EXERCISE,
    speculative_step.EXERCISE,
)
