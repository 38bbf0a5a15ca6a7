"""Unit 3, who may look at whom: masks, masked attention, a leak detector and the pairs to train on."""

from . import causal_mask, leaks_future, masked_attention, masked_softmax, next_token_pairs, padding_mask

EXERCISES = (
    causal_mask.EXERCISE,
    padding_mask.EXERCISE,
    masked_softmax.EXERCISE,
    masked_attention.EXERCISE,
    leaks_future.EXERCISE,
    next_token_pairs.EXERCISE,
)
