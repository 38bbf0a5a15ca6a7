"""Unit 1, from words to queries, keys and values: embedding, lookup, projections in both conventions, and counting."""

from . import attention_parameters, embed, low_rank_value, project_qkv, project_token, soft_lookup

EXERCISES = (
    embed.EXERCISE,
    soft_lookup.EXERCISE,
    project_qkv.EXERCISE,
    project_token.EXERCISE,
    low_rank_value.EXERCISE,
    attention_parameters.EXERCISE,
)
