"""Provides sublayers, drawn parameters and a block with all slips that both blocks and the model share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..kit import Case, Cases, Drawn, Row, by_columns, mask, normal, other_order, strided, weights
from .feed_forward import feed_forward
from .norms import over_last, over_tokens
from .parts import gain, named

Params = dict[str, Any]

RANGES = {"h": range(2, 5), "d_model": range(7, 11), "d_ff": range(11, 19)}
BLOCK = named(
    {
        **{f"W_{role}": weights("d_model h*d_head", 1.2) for role in "QKV"},
        "W_O": weights("h*d_head d_model"),
        "b_O": normal("d_model", 0.5),
        "W_1": weights("d_model d_ff"),
        "b_1": normal("d_ff", 0.6),
        "W_2": weights("d_ff d_model"),
        "b_2": normal("d_model", 0.6),
        "gamma_1": gain("d_model"),
        "beta_1": normal("d_model", 0.7),
        "gamma_2": gain("d_model"),
        "beta_2": normal("d_model", 0.7),
    }
)
CAUSAL = Drawn("n n", lambda rng, shape, sizes: np.tril(np.ones(shape, bool)))
#: Every query sees only the next token, and the last query only the first token.
ONE_KEY = Drawn("n n", lambda rng, shape, sizes: np.roll(np.eye(*shape, dtype=bool), 1, axis=1))


def attend(x: Tensor, p: Params, n_heads: int, mask: Tensor | None, values: Tensor | None = None) -> Tensor:
    """Apply multi-head attention, by torch's own attention, with zero weights where nothing is allowed."""
    B, n, _ = x.shape
    inputs = {"Q": x, "K": x, "V": x if values is None else values}
    Q, K, V = ((inputs[role] @ p[f"W_{role}"]).view(B, n, n_heads, -1).transpose(1, 2) for role in "QKV")
    allowed = torch.ones(1, dtype=torch.bool)
    if mask is not None:
        mask = mask.broadcast_to(B, n_heads, n, n)
        allowed = mask.any(-1, keepdim=True)
        mask = mask | ~allowed
    heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask) * allowed
    return F.linear(heads.transpose(1, 2).reshape(B, n, -1), p["W_O"].T, p["b_O"])


def _multi_head_attention(X, W_Q, W_K, W_V, W_O, b_O, n_heads, mask=None):
    batch, n, _ = X.shape
    Q, K, V = ((X @ W).reshape(batch, n, n_heads, -1).transpose(1, 2) for W in (W_Q, W_K, W_V))
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, -1)
    if mask is not None:
        weights = weights * mask
    return (weights @ V).transpose(1, 2).reshape(batch, n, -1) @ W_O + b_O


#: Students get this function, so it has no slips; as a `partial` it isn't changed with the plain programs that call it.
multi_head_attention = partial(_multi_head_attention)


def expand(x: Tensor, p: Params, activation: Callable[[Tensor], Tensor] = F.gelu) -> Tensor:
    return feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], activation)


def block_cases(case: Cases) -> Iterator[Case]:
    yield case("values", "B = {B}, n = {n}, {h} heads")
    yield case("values", "B = {B}, n = {n}, {h} heads", x=normal("B n d_model", 3.0))
    yield case("values", "float32", dtype=np.float32)
    yield case("masks", "a causal mask (n, n)", mask=CAUSAL)
    yield case("masks", "a mask (n, n) that is not causal", mask=mask("n n"))
    yield case("masks", "a mask of keys (B, 1, 1, n)", mask=mask("B 1 1 n"))
    yield case("masks", "a mask of each head's own (B, h, n, n)", mask=mask("B h n n"))
    yield case("masks", "a mask of each head's own for all (h, n, n)", mask=mask("h n n"))
    yield case("edge cases", "a single token (n = 1)", n=1)
    yield case("edge cases", "a single sequence (B = 1)", B=1)
    yield case("edge cases", "one head", h=1)
    yield case("edge cases", "memory that is not contiguous", layout={"x": strided, "params": by_columns})
    yield case("edge cases", "params in another order", **other_order(case.draw()))
    yield case("masks", "as many texts as tokens (B = n), a mask (n, n)", B="n", mask=mask("n n"))
    yield case("masks", "as many texts as heads (B = h), a mask (h, n, n)", B="h", mask=mask("h n n"))
    yield case("masks", "a mask (B, 1, n, n), and some queries see nothing", mask=mask("B 1 n n", empty_rows=True))
    label = "gradients with a mask (n, 1): some queries see nothing, the others all"
    yield case("gradients", label, mask=mask("n 1", empty_rows=True), gradient=True)
    yield case("masks", "a mask (1, 1) that forbids everything", mask=np.zeros((1, 1), bool))
    drawn = case.draw(mask=ONE_KEY)
    drawn["x"] *= 1e4
    for name in ("W_Q", "W_K", "W_1"):
        drawn["params"][name] *= 1e5
    yield case("masks", "one key for each query, numbers and scores very large", **drawn)


def causal_too(mask: Tensor | None, n: int) -> Tensor:
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    return causal if mask is None else mask & causal


def block_with(
    x: Tensor,
    params: Params,
    n_heads: int,
    mask: Tensor | None = None,
    *,
    order: str = "pre",
    names: str = "12",
    normed_residuals: bool = False,
    activation: Callable[[Tensor], Tensor] = F.gelu,
    masking: Callable[[Tensor | None, int], Tensor | None] = lambda mask, n: mask,
    norm: Callable[..., Tensor] = over_last,
    steps: str = "attention, feed forward",
    without: tuple[str, ...] = (),
    raw_values: bool = False,
    scale: float = 1.0,
    more_bias: float = 0.0,
    final: Callable[[Tensor, Tensor], Tensor] = lambda out, x: out,
) -> Tensor:
    """Apply a block; with its order, every default is correct.

    order: the position of the norms: "pre", "post", "both" or "after sublayer".
    names: the number that each step's norm has in the parameters' names.
    """
    p = {name: torch.zeros_like(value) if name in without else value for name, value in params.items()}

    def normed(z: Tensor, name: str) -> Tensor:
        return norm(z, p[f"gamma_{name}"], p[f"beta_{name}"])

    def attention(z: Tensor) -> Tensor:
        return attend(z, p, n_heads, masking(mask, x.shape[1]), x if raw_values else z) + more_bias * p["b_O"]

    sublayers = {"attention": attention, "feed forward": lambda z: expand(z, p, activation)}
    start = x
    for sublayer, name in zip(steps.split(", "), names, strict=False):
        inside = normed(x, name) if order in ("pre", "both") else x
        change = sublayers[sublayer](inside)
        change = normed(change, name) if order == "after sublayer" else change
        x = (inside if normed_residuals else x) + change
        x = scale * (normed(x, name) if order in ("post", "both") else x)
    return final(x, start)


def tanh_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


#: Slips of `block_with` in either order.
BLOCK_SLIPS: tuple[Row, ...] = (
    ("norms-swapped", {"names": "21"}, "You swap gamma_1, beta_1 and gamma_2, beta_2."),
    ("first-norm-twice", {"names": "11"}, "You use gamma_1 and beta_1 in both norms."),
    ("feed-forward-first", {"steps": "feed forward, attention"},
     "You apply the feed-forward layer first. Apply the attention first."),
    ("relu", {"activation": torch.relu}, "You use ReLU as the activation. A block uses GELU."),
    ("tanh-gelu", {"activation": tanh_gelu},
     "You use the approximation of GELU with tanh. Use the exact form."),
    ("silu", {"activation": F.silu}, "You use SiLU as the activation. A block uses GELU."),
    ("b-o-missing", {"without": ("b_O",)}, "You leave out the bias b_O of the attention."),
    ("b-o-twice", {"more_bias": 1.0}, "You add b_O twice. It is part of the attention already."),
    ("attention-only", {"steps": "attention"}, "You leave out the feed-forward layer."),
    ("steps-and-norms-swapped", {"steps": "feed forward, attention", "names": "21"},
     "You apply the feed-forward layer, with its own norm, first. Apply the attention first."),
    ("always-causal", {"masking": causal_too},
     "You hide later tokens even where no mask says so. The block uses the mask as it gets it."),
    ("rms-norm", {"norm": partial(over_last, centre="none", spread="mean square")},
     "Your norm does not subtract the mean. That is RMSNorm."),
    ("batch-norm", {"norm": over_tokens}, "Your norm runs over batch and tokens. Normalise each token by itself."),
    ("halved", {"scale": 0.5}, "You average stream and sublayer. Add them."),
    ("input-added-again", {"final": lambda out, x: out + x}, "You add the block's input once more at the end."),
    ("norm-before-and-after", {"order": "both"},
     "You normalise before each sublayer and once more after the addition. Each step has one norm."),
    ("norm-of-sublayer", {"order": "after sublayer"},
     "You normalise only the sublayer's result and then add x."),
)  # fmt: skip
