"""Lists the exercises of unit 4, on splitting and merging heads, batched attention, and each head's contribution."""

from ..kit import in_order

EXERCISES = in_order(
    __name__,
    "split_heads",
    "merge_heads",
    "bmm_attention",
    "multi_head_attention",
    "head_contributions",
    "from_torch_weights",
    "diagnose",
)
