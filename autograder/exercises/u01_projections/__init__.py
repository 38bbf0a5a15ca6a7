"""Unit 1, from words to queries, keys and values: embedding, lookup, projections in both conventions, and counting.

Its challenges: weights that point, and the best memory of a fixed size.
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
