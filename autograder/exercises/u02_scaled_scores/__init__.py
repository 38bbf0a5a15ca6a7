"""Lists the exercises of unit 2, on softmax, scores, their variance and scale, attention and its gradients."""

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
