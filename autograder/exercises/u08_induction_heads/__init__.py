"""Unit 8, induction heads: repeated sequences, head scores, circuits, ablation, an induction circuit set by hand."""

from . import (
    ablate_head,
    ablate_path,
    build_induction_circuit,
    composition_score,
    copying_score,
    find_heads,
    in_context_learning_score,
    ov_circuit,
    prefix_matching_score,
    previous_token_score,
    repeated_sequences,
)

EXERCISES = (
    repeated_sequences.EXERCISE,
    previous_token_score.EXERCISE,
    prefix_matching_score.EXERCISE,
    ov_circuit.EXERCISE,
    copying_score.EXERCISE,
    composition_score.EXERCISE,
    ablate_head.EXERCISE,
    in_context_learning_score.EXERCISE,
    build_induction_circuit.EXERCISE,
    find_heads.EXERCISE,
    ablate_path.EXERCISE,
)
