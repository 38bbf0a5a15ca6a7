"""Unit 6, asking another sequence: cross-attention, a decoder layer, alignment and greedy decoding."""

from . import alignment, cross_attention, decoder_layer, greedy_decode

EXERCISES = (
    cross_attention.EXERCISE,
    decoder_layer.EXERCISE,
    alignment.EXERCISE,
    greedy_decode.EXERCISE,
)
