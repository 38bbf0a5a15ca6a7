"""Lists the exercises of unit 1, on embeddings, soft lookups, projections in both conventions and parameter counts.

Two are challenges: `pointing_weights` and `linear_memory`.
"""

from ..kit import in_order

EXERCISES = in_order(
    __name__,
    "embed",
    "soft_lookup",
    "project_qkv",
    "project_token",
    "low_rank_value",
    "attention_parameters",
    "pointing_weights",
    "linear_memory",
)
