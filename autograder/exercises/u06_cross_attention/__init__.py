"""Lists the exercises of unit 6, on cross-attention, a decoder layer, alignment, greedy decoding and a black box."""

from ..kit import in_order

EXERCISES = in_order(
    __name__,
    "cross_attention",
    "decoder_layer",
    "alignment",
    "greedy_decode",
    "catches_wrong_decoder",
)
