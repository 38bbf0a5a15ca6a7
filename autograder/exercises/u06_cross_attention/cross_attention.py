"""Defines the exercise `cross_attention`, whose queries come from the target, and keys and values from the source."""

import numpy as np
import torch
import torch.nn.functional as F

from .. import attention_parts
from ..kit import Drawn, Leaf, by_columns, exercise, mask, normal, size, strided, weights, with_a_row_of_zeros
from ..u04_multi_head.merge_heads import plain as merge_heads
from ..u04_multi_head.split_heads import plain as split_heads
from .parts import FOUR_LENGTHS, LAYER, PADDED, PADDING_ALONE, attention, crossed


def cross_attention(
    X: normal("B n d_model"),
    Y: normal("B m d_source"),
    W_Q: weights("d_model h*d_head", 1.3),
    W_K: weights("d_source h*d_head", 1.3),
    W_V: weights("d_source h*d_head", 1.3),
    W_O: weights("h*d_head d_model"),
    n_heads: size("h"),
    source_mask=None,
) -> (Leaf("float array", "out"), Leaf("float array", "weights", rows_sum_to_one=True)):
    B, n, _ = X.shape
    m = Y.shape[1]
    Q = (X @ W_Q).view(B, n, n_heads, -1).transpose(1, 2)
    K, V = ((Y @ W).view(B, m, n_heads, -1).transpose(1, 2) for W in (W_K, W_V))
    unit = torch.eye(m, dtype=X.dtype).expand(B, n_heads, m, m)  # attention over unit vectors returns its weights
    allowed, seen = None, torch.ones(B, 1, 1, 1, dtype=torch.bool)
    if source_mask is not None:
        seen = source_mask.any(1).view(B, 1, 1, 1)
        allowed = source_mask.view(B, 1, 1, m).expand(B, n_heads, n, m) | ~seen
    maps = F.scaled_dot_product_attention(Q, K, unit, attn_mask=allowed) * seen
    heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=allowed) * seen
    return torch.einsum("bhnd,hde->bne", heads, W_O.view(n_heads, -1, W_O.shape[1])), maps


def plain(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    Q = split_heads(X @ W_Q, n_heads)
    K = split_heads(Y @ W_K, n_heads)
    V = split_heads(Y @ W_V, n_heads)
    mask = None
    if source_mask is not None:
        mask = source_mask[:, None, None, :]
    heads, weights = attention(Q, K, V, mask)
    out = merge_heads(heads) @ W_O
    return out, weights


def _few_left(rng, shape, sizes):
    """Leave one token in half of the sequences, so that a score of -10,000 competes only with hidden ones."""
    B, m = shape
    lengths = np.where(rng.permutation(B) % 2, 1, m - 1)
    return np.arange(m) < lengths[:, None]


def cases(case):
    everything = Drawn("B m", lambda rng, shape, sizes: np.ones(shape, bool))
    for _ in range(2):
        yield case("values", "{h} heads, n = {n}, m = {m}")
    yield case("values", "float32", dtype=np.float32)
    yield case("masks", "sources of different length", source_mask=PADDED)
    yield case("masks", "holes in the source", B=range(4, 8), source_mask=mask("B m"))
    yield case("masks", "everything allowed", source_mask=everything)
    yield case("edge cases", "a source of padding alone", source_mask=PADDING_ALONE)
    yield case("edge cases", "a source token of zeros", layout={"Y": with_a_row_of_zeros})
    yield case("edge cases", "a single target token (n = 1)", n=1)
    yield case("edge cases", "a single source token (m = 1)", m=1)
    yield case("edge cases", "a single sequence (B = 1)", B=1, m=range(6, 9), source_mask=mask("B m"))
    yield case("edge cases", "as many target as source tokens", n="m", source_mask=PADDED)
    few = Drawn("B m", _few_left)
    drawn = case.draw(source_mask=few, B=range(6, 9), n=range(5, 8), m=range(4, 8))
    drawn["W_Q"] *= 90
    drawn["W_K"] *= 90
    yield case("edge cases", "scores around ±10,000", rtol=1e-6, **drawn)
    places = {"X": strided, **dict.fromkeys(("Y", "W_Q", "W_K", "W_V", "W_O"), by_columns)}
    yield case("edge cases", "memory that is not contiguous", layout=places)
    nobody = Drawn("B m", lambda rng, shape, sizes: np.zeros(shape, bool))
    yield case("gradients", "gradients, sources of different length", source_mask=PADDED, m=range(4, 8), gradient=True)
    yield case("masks", "float32, one source of padding alone", source_mask=PADDING_ALONE, dtype=np.float32)
    four = {"B": 4, "h": 4, "n": 4, "m": 4}
    yield case("masks", "four sequences, heads, target and source tokens", source_mask=FOUR_LENGTHS, **four)
    yield case("edge cases", "every source is padding alone", source_mask=nobody)
    yield case("edge cases", "a single head (h = 1)", h=1)


def scores_for_weights(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask=None):
    out, _ = cross_attention(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask)
    Q, K = attention_parts.split(X @ W_Q, n_heads), attention_parts.split(Y @ W_K, n_heads)
    return out, Q @ K.mT / Q.shape[-1] ** 0.5


MISTAKES = (
    ("mask-inverted", {"masking": "inverted"}, attention_parts.INVERTED),
    *attention_parts.MASK_SLIPS,
    ("unstable", {"stable": False}, attention_parts.UNSTABLE),
    ("first-source-only", lambda X, Y, *rest: crossed(X, Y[:1].expand_as(Y), *rest),
     "You let every target read the first source of the batch."),
    ("weights-transposed", {"after": lambda out, maps, X: (out, maps.mT)},
     "You return the weights transposed. There is one row per target token, one column per source token."),
    ("scores-for-weights", scores_for_weights,
     "Your second result is the scores. Return the weights after the softmax."),
)  # fmt: skip

EXERCISE = exercise(
    cross_attention, credit={"values": 0.4, "masks": 0.3, "edge cases": 0.2, "gradients": 0.1}, slipped=crossed, **LAYER
)
