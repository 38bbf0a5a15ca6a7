"""Unit 5, sharing keys and values: grouped and multi-query attention, the cache, one step of decoding."""

from . import decode_step, grouped_query_attention, kv_cache_bytes, multi_query_attention, pool_kv_heads, repeat_kv

EXERCISES = (
    kv_cache_bytes.EXERCISE,
    repeat_kv.EXERCISE,
    grouped_query_attention.EXERCISE,
    multi_query_attention.EXERCISE,
    decode_step.EXERCISE,
    pool_kv_heads.EXERCISE,
)
