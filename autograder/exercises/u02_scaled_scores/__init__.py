"""Unit 2, why the scores are divided by √d: softmax, scores, variance, attention, saturation, the way back."""

from . import (
    attention,
    attention_backward,
    attention_scores,
    derivation_terms,
    dot_product_moments,
    scaled_scores,
    score_statistics,
    softmax,
    softmax_jacobian,
)

EXERCISES = (
    attention_scores.EXERCISE,
    softmax.EXERCISE,
    derivation_terms.EXERCISE,
    dot_product_moments.EXERCISE,
    scaled_scores.EXERCISE,
    score_statistics.EXERCISE,
    attention.EXERCISE,
    softmax_jacobian.EXERCISE,
    attention_backward.EXERCISE,
)
