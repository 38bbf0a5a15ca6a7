"""Unit 4, several attentions side by side: heads split and merged, attention in batches, what each head writes."""

from . import (
    bmm_attention,
    diagnose,
    from_torch_weights,
    head_contributions,
    merge_heads,
    multi_head_attention,
    split_heads,
)

EXERCISES = (
    split_heads.EXERCISE,
    merge_heads.EXERCISE,
    bmm_attention.EXERCISE,
    multi_head_attention.EXERCISE,
    head_contributions.EXERCISE,
    from_torch_weights.EXERCISE,
    diagnose.EXERCISE,
)
