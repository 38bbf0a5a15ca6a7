"""Defines the exercise `decoder_layer`, which adds causal self-attention, then cross-attention, to the stream."""

import numpy as np
import torch
import torch.nn.functional as F

from .. import attention_parts as attention
from ..kit import Drawn, Leaf, exercise, mask, normal, other_order, size, strided, weights, with_a_row_of_zeros
from .cross_attention import cross_attention
from .cross_attention import plain as plain_cross_attention
from .decoder_slips import add, in_both, in_turn, layer, one_scale
from .parts import FOUR_LENGTHS, LAYER, PADDED, PADDING_ALONE, multi_head_attention


def weights_of_both(rng, shape, sizes):
    """Draw the weights of two attentions with different d_head."""
    params, own = {}, {**sizes, "d_source": sizes["d_model"], "d_head": sizes["d_head"] + int(rng.integers(1, 4))}
    for part, widths in (("self", own), ("cross", sizes)):
        for role, source in (("Q", "d_model"), ("K", "d_source"), ("V", "d_source")):
            params[f"{part}_W_{role}"] = weights(f"{source} h*d_head", 1.3).draw(rng, widths)
        params[f"{part}_W_O"] = weights("h*d_head d_model").draw(rng, widths)
    return params


def decoder_layer(
    X: normal("B n d_model"),
    Y: normal("B m d_source"),
    params: Drawn("", weights_of_both, also="d_model d_source h d_head h*d_head"),
    n_heads: size("h"),
    source_mask=None,
) -> Leaf("float array", "the result"):
    own, cross = ([params[f"{part}_W_{role}"] for role in "QKVO"] for part in ("self", "cross"))
    B, n, _ = X.shape
    Q, K, V = ((X @ W).view(B, n, n_heads, -1).transpose(1, 2) for W in own[:3])
    heads = F.scaled_dot_product_attention(Q, K, V, is_causal=True)
    X = X + heads.transpose(1, 2).reshape(B, n, -1) @ own[3]
    return X + cross_attention(X, Y, *cross, n_heads, source_mask)[0]


def plain(X, Y, params, n_heads, source_mask=None):
    n = X.shape[1]
    causal = torch.ones(n, n, dtype=torch.bool).tril(diagonal=0)
    from_target = multi_head_attention(
        X, params["self_W_Q"], params["self_W_K"], params["self_W_V"], params["self_W_O"], n_heads, causal
    )
    X_1 = X + from_target
    from_source, _ = plain_cross_attention(
        X_1, Y, params["cross_W_Q"], params["cross_W_K"], params["cross_W_V"], params["cross_W_O"], n_heads, source_mask
    )
    return X_1 + from_source


def cases(case):
    longer = range(4, 8)  # so that a causal mask has rows of every kind
    yield case("values", "n = {n}, m = {m}", n=longer)
    yield case("values", "n = {n}, m = {m}")
    yield case("values", "float32", dtype=np.float32)
    yield case("masks", "sources of different length", n=longer, source_mask=PADDED)
    yield case("masks", "holes in the source", source_mask=mask("B m"))
    yield case("edge cases", "a source of padding alone", source_mask=PADDING_ALONE)
    yield case("edge cases", "a source token of zeros", layout={"Y": with_a_row_of_zeros})
    yield case("edge cases", "a single target token (n = 1)", n=1)
    yield case("edge cases", "a single sequence (B = 1)", B=1, n=range(5, 8))
    yield case("edge cases", "as many target as source tokens", m="n", n=longer, source_mask=PADDED)
    yield case("edge cases", "memory that is not contiguous", n=longer, layout=strided)
    yield case("edge cases", "params in another order", **other_order(case.draw(n=longer)))
    for part, source in (("self", {}), ("cross", {"m": range(5, 11), "source_mask": PADDED})):
        drawn = case.draw(n=longer, **source)
        drawn["params"][f"{part}_W_Q"] *= 90
        drawn["params"][f"{part}_W_K"] *= 90
        yield case("edge cases", f"{part}-attention with scores around ±10,000", rtol=1e-6, **drawn)
    nobody = Drawn("B m", lambda rng, shape, sizes: np.zeros(shape, bool))
    yield case("gradients", "gradients, sources of different length", source_mask=PADDED, m=range(4, 8), gradient=True)
    yield case("masks", "float32, one source of padding alone", source_mask=PADDING_ALONE, dtype=np.float32)
    four = {"B": 4, "h": 4, "n": 4, "m": 4}
    yield case("masks", "four sequences, heads, target and source tokens", source_mask=FOUR_LENGTHS, **four)
    yield case("edge cases", "every source is padding alone", source_mask=nobody)
    yield case("edge cases", "a single head, and a source of a single token (h = 1, m = 1)", h=1, m=1, n=longer)


def normalised(X):
    return F.layer_norm(X, X.shape[-1:])


MISTAKES = (
    ("no-causal-mask", {"in_self": {"mask_of": lambda mask: None}},
     "Your target tokens see their own future. The self-attention needs a causal mask."),
    ("sees-the-future-only", {"in_self": {"mask_of": torch.logical_not}},
     "In your self-attention each token sees the later ones. It should see those up to itself."),
    ("parallel", {"steps": lambda X, own, cross: X + own(X) + cross(X)},
     "You make the queries of the cross-attention from the input X. Make them from the result of the first step."),
    ("cross-attention-first", {"steps": lambda X, own, cross: in_turn(X, cross, own)},
     "You do the cross-attention first. Do the self-attention first."),
    ("source-mask-after-softmax", {"in_cross": {"masking": "after"}}, attention.AFTER),
    ("nan-rows", {"in_cross": {"masking": "nan"}}, "A source that is only padding gives NaN in your layer. Its "
                                                   "attention should be 0."),
    ("uniform-rows", {"in_cross": {"masking": "uniform"}},
     "Your layer attends evenly to a source that is only padding. Its attention should be 0."),
    ("unscaled", in_both(scaling="none"), attention.UNSCALED),
    ("root-of-d-model", in_both(scaling="root of d_model"), attention.BY_D_MODEL),
    ("cross-attention-causal", {"in_cross": {"always_causal": True}},
     "You mask the cross-attention as if it were causal. The whole source may be read."),
    ("self-attention-twice", {"steps": lambda X, own, cross: add(add(add(X, own), own), cross)},
     "You apply the self-attention twice."),
    ("normalised", {"steps": lambda X, own, cross: normalised(add(normalised(add(X, own)), cross))},
     "You normalise the result. There is no norm here yet."),
    ("one-d-head-for-both", one_scale,
     "You scale both attentions with the d_head of the first. The two may differ in d_head."),
    ("self-mask-after-softmax", {"in_self": {"masking": "after"}},
     f"The mistake is in your self-attention. {attention.AFTER}"),
)  # fmt: skip

EXERCISE = exercise(
    decoder_layer, credit={"values": 0.5, "masks": 0.2, "edge cases": 0.2, "gradients": 0.1}, slipped=layer, **LAYER
)
