"""Unit 5, sharing keys and values: grouped and multi-query attention, the cache, steps of one token and of several."""

from ..kit import in_order

EXERCISES = in_order(
    __name__,
    "kv_cache_bytes",
    "repeat_kv",
    "grouped_query_attention",
    "multi_query_attention",
    "decode_step",
    "pool_kv_heads",
    "extend_cache",
)
