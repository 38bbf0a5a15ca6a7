"""Lists the exercises of unit 3, on masks, masked attention, training pairs, a leak detector and packed documents."""

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
