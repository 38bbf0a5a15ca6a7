"""Unit 3, who may look at whom: masks, masked attention, pairs to train on; a leak detector, packed documents."""

from . import (
    causal_mask,
    leaks_future,
    masked_attention,
    masked_softmax,
    next_token_pairs,
    packed_causal_mask,
    padding_mask,
)

EXERCISES = (
    causal_mask.EXERCISE,
    padding_mask.EXERCISE,
    masked_softmax.EXERCISE,
    masked_attention.EXERCISE,
    next_token_pairs.EXERCISE,
    leaks_future.EXERCISE,
    packed_causal_mask.EXERCISE,
)
