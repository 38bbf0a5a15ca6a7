"""Unit 1, from words to queries, keys and values: embedding, lookup, projections in both conventions, and counting.

Its challenges: weights that point, and the best memory of a fixed size.
"""

from . import (
    attention_parameters,
    embed,
    linear_memory,
    low_rank_value,
    pointing_weights,
    project_qkv,
    project_token,
    soft_lookup,
)

EXERCISES = (
    embed.EXERCISE,
    soft_lookup.EXERCISE,
    project_qkv.EXERCISE,
    project_token.EXERCISE,
    low_rank_value.EXERCISE,
    attention_parameters.EXERCISE,
    pointing_weights.EXERCISE,
    linear_memory.EXERCISE,
)
