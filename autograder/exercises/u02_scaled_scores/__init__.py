"""Unit 2, why the scores are divided by √d: softmax, scores, variance, attention, saturation, the way back."""

from ..kit import in_order

EXERCISES = in_order(
    __name__,
    "attention_scores",
    "softmax",
    "derivation_terms",
    "dot_product_moments",
    "scaled_scores",
    "score_statistics",
    "attention",
    "softmax_jacobian",
    "attention_backward",
)
