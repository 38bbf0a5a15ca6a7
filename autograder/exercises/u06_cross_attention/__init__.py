"""Unit 6, asking another sequence: cross-attention, a decoder layer, alignment, greedy decoding, and a bug hunt."""

from . import alignment, catches_wrong_decoder, cross_attention, decoder_layer, greedy_decode

EXERCISES = (
    cross_attention.EXERCISE,
    decoder_layer.EXERCISE,
    alignment.EXERCISE,
    greedy_decode.EXERCISE,
    catches_wrong_decoder.EXERCISE,
)
