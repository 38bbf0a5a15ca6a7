"""Unit 3, who may look at whom: masks, masked attention, pairs to train on; a leak detector, packed documents."""

from ..kit import in_order

EXERCISES = in_order(
    __name__,
    "causal_mask",
    "padding_mask",
    "masked_softmax",
    "masked_attention",
    "next_token_pairs",
    "leaks_future",
    "packed_causal_mask",
)
