"""Unit 4, several attentions side by side: heads split and merged, attention in batches, what each head writes."""

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
