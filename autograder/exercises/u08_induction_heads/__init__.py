"""Lists the exercises of unit 8, on head scores, circuits, ablation, and an induction circuit made by hand."""

from ..kit import in_order

EXERCISES = in_order(
    __name__,
    "repeated_sequences",
    "previous_token_score",
    "prefix_matching_score",
    "ov_circuit",
    "copying_score",
    "composition_score",
    "ablate_head",
    "in_context_learning_score",
    "build_induction_circuit",
    "find_heads",
    "ablate_path",
)
