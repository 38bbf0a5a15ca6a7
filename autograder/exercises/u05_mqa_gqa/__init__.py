"""Unit 5, sharing keys and values: grouped and multi-query attention, the cache, steps of one token and of several."""

from . import (
    decode_step,
    extend_cache,
    grouped_query_attention,
    kv_cache_bytes,
    multi_query_attention,
    pool_kv_heads,
    repeat_kv,
)

EXERCISES = (
    kv_cache_bytes.EXERCISE,
    repeat_kv.EXERCISE,
    grouped_query_attention.EXERCISE,
    multi_query_attention.EXERCISE,
    decode_step.EXERCISE,
    pool_kv_heads.EXERCISE,
    extend_cache.EXERCISE,
)
