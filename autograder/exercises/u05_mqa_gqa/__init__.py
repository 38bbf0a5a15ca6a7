"""Lists the exercises of unit 5, on grouped-query and multi-query attention, the KV cache, and decoding with it."""

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
