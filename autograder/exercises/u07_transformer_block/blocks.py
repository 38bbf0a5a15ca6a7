"""What both blocks and the model share: sublayers, how their parameters are drawn, and a block with all its slips."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..attention_parts import INVERTED
from ..kit import Case, Cases, Drawn, Row, by_columns, mask, normal, strided, weights
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


def attend(x: Tensor, p: Params, n_heads: int, mask: Tensor | None, values: Tensor | None = None) -> Tensor:
    """Multi-head attention with zero weights where nothing is allowed, by torch's own attention."""
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


def expand(x: Tensor, p: Params, activation: Callable[[Tensor], Tensor] = F.gelu) -> Tensor:
    return feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], activation)


def block_cases(case: Cases) -> Iterator[Case]:
    yield case("values", "B = {B}, n = {n}, {h} heads")
    yield case("values", "B = {B}, n = {n}, {h} heads", x=normal("B n d_model", 3.0))
    yield case("values", "float32", dtype=np.float32)
    yield case("masks", "a causal mask (n, n)", mask=CAUSAL)
    yield case("masks", "a mask of keys (B, 1, 1, n)", mask=mask("B 1 1 n"))
    yield case("masks", "a mask of each head's own (B, h, n, n)", mask=mask("B h n n"))
    yield case("edge cases", "a single token (n = 1)", n=1)
    yield case("edge cases", "a single sequence (B = 1)", B=1)
    yield case("edge cases", "one head", h=1)
    yield case("edge cases", "memory that is not contiguous", layout={"x": strided, "params": by_columns})


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
    residuals: tuple[str, str] = ("x", "x"),
    reads: str = "new",
    activation: Callable[[Tensor], Tensor] = F.gelu,
    masking: Callable[[Tensor | None, int], Tensor | None] = lambda mask, n: mask,
    norm: Callable[..., Tensor] = over_last,
    steps: str = "attention, feed forward",
    without: tuple[str, ...] = (),
    raw_values: bool = False,
    scale: float = 1.0,
    more_bias: float = 0.0,
    final: Callable[[Tensor, Tensor], Tensor] = lambda out, x: out,
    one_head: bool = False,
) -> Tensor:
    """A block, right with its order.

    order: where a norm stands, such as "pre", "post" or "sandwich".
    names: the number that each step's norm has among the parameters; a blank for none.
    residuals: what is added to each step's sublayer.
    """
    p = {name: torch.zeros_like(value) if name in without else value for name, value in params.items()}

    def normed(z: Tensor, name: str) -> Tensor:
        return z if name == " " else norm(z, p[f"gamma_{name}"], p[f"beta_{name}"])

    def attention(z: Tensor) -> Tensor:
        heads, allowed = 1 if one_head else n_heads, masking(mask, x.shape[1])
        return attend(z, p, heads, allowed, x if raw_values else z) + more_bias * p["b_O"]

    sublayers = {"attention": attention, "feed forward": lambda z: expand(z, p, activation)}
    start = x
    for sublayer, name, residual in zip(steps.split(", "), names, residuals, strict=False):
        inside = start if reads == "old" else x
        inside = normed(inside, name) if order in ("pre", "sandwich", "both") else inside
        change = sublayers[sublayer](inside)
        change = normed(change, name) if order in ("after sublayer", "sandwich") else change
        x = {"x": x, "none": 0.0, "twice": 2 * x, "normed": inside, "start": start}[residual] + change
        x = scale * (normed(x, name) if order in ("post", "both") else x)
    return final(x, start)


def tanh_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def norm_missing(where: str) -> tuple[Row, ...]:
    """Slips of `block_with`. where: the norms stand "before" the sublayers, or "after"."""
    return (
        ("norm-1-missing", {"names": " 2"}, f"The norm {where} the attention is missing."),
        ("norm-2-missing", {"names": "1 "}, f"The norm {where} the feed-forward layer is missing."),
    )


#: Slips of `block_with` in either order.
BLOCK_SLIPS: tuple[Row, ...] = (
    ("norms-missing", {"names": "  "}, "Both norms are missing."),
    ("norms-swapped", {"names": "21"}, "gamma_1, beta_1 and gamma_2, beta_2 have changed places."),
    ("first-norm-twice", {"names": "11"}, "Both norms use gamma_1 and beta_1."),
    ("second-norm-twice", {"names": "22"}, "Both norms use gamma_2 and beta_2."),
    ("no-residual-1", {"residuals": ("none", "x")}, "x is not added to the attention."),
    ("no-residual-2", {"residuals": ("x", "none")},
     "Nothing is added to the feed-forward layer: its residual is missing."),
    ("no-residuals", {"residuals": ("none", "none")}, "Both residual connections are missing."),
    ("double-residual-1", {"residuals": ("twice", "x")}, "x is added twice to the attention."),
    ("double-residual-2", {"residuals": ("x", "twice")}, "The residual of the feed-forward layer is added twice."),
    ("residual-from-the-start", {"residuals": ("x", "start")},
     "The second residual is the block's input; it is the result of the first step."),
    ("parallel", {"reads": "old"},
     "The feed-forward layer reads the block's input; it is to read the result of the first step."),
    ("feed-forward-first", {"steps": "feed forward, attention"},
     "The feed-forward layer comes first; the attention does."),
    ("relu", {"activation": torch.relu}, "The activation is ReLU; a block uses GELU."),
    ("tanh-gelu", {"activation": tanh_gelu},
     "The activation is the approximation of GELU with tanh; the exact form is asked for."),
    ("no-activation", {"activation": lambda z: z}, "The feed-forward layer has no activation."),
    ("silu", {"activation": F.silu}, "The activation is SiLU; a block uses GELU."),
    ("mask-ignored", {"masking": lambda mask, n: None}, "The mask is not handed to the attention."),
    ("mask-inverted", {"masking": lambda mask, n: None if mask is None else ~mask}, INVERTED),
    ("b-o-missing", {"without": ("b_O",)}, "The bias b_O of the attention is missing."),
    ("b-1-missing", {"without": ("b_1",)}, "b_1 of the feed-forward layer is not used."),
    ("b-2-missing", {"without": ("b_2",)}, "b_2 of the feed-forward layer is not used."),
    ("both-b-missing", {"without": ("b_1", "b_2")}, "b_1 and b_2 are not used."),
    ("b-o-twice", {"more_bias": 1.0}, "b_O is added twice: it is part of the attention already."),
    ("attention-only", {"steps": "attention"}, "The feed-forward layer is missing."),
    ("attention-missing", {"steps": "feed forward", "names": "2"}, "The attention is missing: no token sees another."),
    ("steps-and-norms-swapped", {"steps": "feed forward, attention", "names": "21"},
     "The feed-forward layer, with its own norm, comes first; the attention does."),
    ("always-causal", {"masking": causal_too},
     "Later tokens are left out even where no mask says so. The block takes the mask as it comes."),
    ("rms-norm", {"norm": partial(over_last, centre="none", spread="mean square")},
     "The norm does not subtract the mean: that is RMSNorm."),
    ("batch-norm", {"norm": over_tokens}, "The norm runs over batch and tokens; each token is normalised alone."),
    ("other-eps", {"norm": partial(over_last, fixed=1e-3)}, "The norms use another eps than layer_norm's default."),
    ("halved", {"scale": 0.5}, "Stream and sublayer are averaged; add them."),
    ("input-added-again", {"final": lambda out, x: out + x}, "The block's input is added once more in the end."),
    ("sandwich", {"order": "sandwich"}, "There is a norm before and one after each sublayer."),
    ("norm-before-and-after", {"order": "both"},
     "Each step is normed before the sublayer and once more after the addition. One norm for each is asked for."),
    ("betas-missing", {"without": ("beta_1", "beta_2")}, "The norms' beta is not used."),
    ("unbiased-variance", {"norm": partial(over_last, spread="unbiased")},
     "The norm divides by one less than the number of features."),
    ("root-missing", {"norm": partial(over_last, place="no root")},
     "The norm divides by the variance; divide by its root."),
    ("norm-over-tokens", {"norm": partial(over_last, over=lambda x: (1,))},
     "The norm runs over the tokens; each token is normalised alone."),
    ("gamma-and-beta-swapped", {"norm": partial(over_last, gain="swapped")},
     "gamma and beta of the norms have changed places."),
    ("one-head", {"one_head": True}, "n_heads is not handed to the attention."),
    ("norm-of-sublayer", {"order": "after sublayer"},
     "The norm is taken of the sublayer's result alone, and then x is added."),
)  # fmt: skip
