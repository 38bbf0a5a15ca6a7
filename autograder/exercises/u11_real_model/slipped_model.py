"""Runs a model with an option for each slip, for the known mistakes of exercises that run a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..attention_parts import Merge, Split, merge, split
from ..kit import Row
from ..u05_mqa_gqa.parts import TILED, Share, averaged, first_for_all, in_groups, tiled
from ..u10_attention_today.rms_norm import rms_norm
from ..u10_attention_today.rotate import rotate, turned
from ..u10_attention_today.swiglu import swiglu
from .small_models import Params

Norm = Callable[[Tensor, Tensor, float], Tensor]
Turn = Callable[[Tensor, Tensor, float], Tensor]


def behind(n_new: int, n_total: int) -> Tensor:
    """Return the correct mask, in which a token sees everything up to itself."""
    return torch.ones(n_new, n_total, dtype=torch.bool).tril(n_total - n_new)


def everything(n_new: int, n_total: int) -> Tensor:
    return torch.ones(n_new, n_total, dtype=torch.bool)


def layer_norm(x: Tensor, gamma: Tensor, eps: float) -> Tensor:
    return torch.nn.functional.layer_norm(x, gamma.shape, gamma, None, eps)


def neighbours(x: Tensor, positions: Tensor, base: float) -> Tensor:
    return turned(x, positions, base, neighbours=True)


def run(
    tokens: Tensor,
    params: Params,
    n_heads: int,
    n_kv_heads: int,
    base: float = 10000.0,
    eps: float = 1e-5,
    *,
    caches: list[Any] | None = None,
    embed: Callable[[Tensor, Params], Tensor] = lambda tokens, params: params["W_E"][tokens],
    norm: Norm = rms_norm,
    final: Norm | None = None,
    after_block: Callable[[Tensor, Params, float], Tensor] = lambda x, params, eps: x,
    turn: Turn = rotate,
    turns: str = "QK",
    positions: Callable[[int, int], Tensor] = lambda t, n: torch.arange(t, t + n),
    join: Callable[..., Tensor] = lambda cached, new, turn_at: torch.cat([cached, new], 2),
    share: Share = in_groups,
    share_values: Share | None = None,
    split: Split = split,
    merge: Merge = merge,
    scale: Callable[[Tensor, Params], float] = lambda Q, params: Q.shape[-1] ** -0.5,
    seen: Callable[[int, int], Tensor] = behind,
    ffn: Callable[..., Tensor] = swiglu,
    order: str = "pre",
    blocks: Callable[[list[Params]], list[Params]] = lambda blocks: blocks,
    unembed: Callable[[Tensor, Params], Tensor] = lambda x, params: x @ params["W_E"].T,
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Return (logits, caches) of a model with slips.

    final: the last norm, if another one. after_block: changes the stream after each block. turns: which of Q, K and V
    are rotated. positions: of n new tokens after t. join: joins cached and new keys or values, given a function that
    rotates keys at positions, or None for values. order: "pre", "post", "parallel" or "no residual".
    """
    n, rep = tokens.shape[1], n_heads // n_kv_heads
    x, kept = embed(tokens, params), []
    for layer, p in enumerate(blocks(params["blocks"])):
        z = x if order == "post" else norm(x, p["gamma_1"], eps)
        new = {
            role: split(z @ p[f"W_{role}"], heads)
            for role, heads in (("Q", n_heads), ("K", n_kv_heads), ("V", n_kv_heads))
        }
        empty = new["K"][:, :, :0]
        cached_keys, cached_values = caches[layer] if caches is not None else (empty, empty)
        t = cached_keys.shape[2]
        for role in turns:
            new[role] = turn(new[role], positions(t, n), base)
        K = join(cached_keys, new["K"], lambda one, at: turn(one, at, base))
        V = join(cached_values, new["V"], None)
        kept.append((K, V))
        scores = new["Q"] @ share(K, rep).mT * scale(new["Q"], params)
        scores = scores.masked_fill(~seen(n, t + n), -torch.inf)
        attended = merge(torch.softmax(scores, -1) @ (share_values or share)(V, rep)) @ p["W_O"]
        between = attended if order == "no residual" else x + attended
        if order == "post":
            between = norm(between, p["gamma_1"], eps)
        read = between if order == "post" else norm(x if order == "parallel" else between, p["gamma_2"], eps)
        x = between + ffn(read, p["W_gate"], p["W_up"], p["W_down"])
        if order == "post":
            x = norm(x, p["gamma_2"], eps)
        x = after_block(x, params, eps)
    return unembed((final or norm)(x, params["gamma_f"], eps), params), kept


def at_the_end(x: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """Skip the final norm, as in a model whose blocks end with one."""
    return x


def ungated(x: Tensor, W_gate: Tensor, W_up: Tensor, W_down: Tensor) -> Tensor:
    return torch.nn.functional.silu(x @ W_gate) @ W_down


def by_gelu(x: Tensor, W_gate: Tensor, W_up: Tensor, W_down: Tensor) -> Tensor:
    return (torch.nn.functional.gelu(x @ W_gate) * (x @ W_up)) @ W_down


#: Slips of running a model, with or without a cache.
MODEL_SLIPS: tuple[Row, ...] = (
    ("neighbouring-pairs", {"turn": neighbours},
     "You rotate neighbouring columns. These weights are for halves, so use the given `rotate`."),
    ("values-rotated", {"turns": "QKV"}, "You rotate the values, too. Rotate only queries and keys."),
    ("tiled-heads", {"share": tiled}, TILED),
    ("values-tiled", {"share_values": tiled}, f"The mistake is in your values. {TILED}"),
    ("first-kv-head-for-all", {"share": first_for_all}, "You let every query head read the first key/value head."),
    ("kv-heads-averaged", {"share": averaged}, "You let all query heads read the mean of the key/value heads."),
    ("eps-left-out", {"norm": lambda x, gamma, eps: rms_norm(x, gamma)},
     "You use the default of `rms_norm`, 1e-6. Pass on the `eps` that you get, to all norms."),
    ("layer-norm", {"norm": layer_norm}, "Your norm subtracts the mean, as LayerNorm does. This model has RMSNorm."),
    ("final-layer-norm", {"final": layer_norm}, "Your final norm subtracts the mean. It is an RMSNorm like all "
                                                "others."),
    ("embedding-scaled", {"embed": lambda tokens, params: params["W_E"][tokens] * params["W_E"].shape[1] ** 0.5},
     "You multiply the embedding by √d_model, as in Gemma. Use it as it is."),
    ("norm-after-every-block",
     {"after_block": lambda x, params, eps: rms_norm(x, params["gamma_f"], eps), "final": at_the_end},
     "You apply the final norm after every block. Apply it once, after the last one."),
    ("post-norm", {"order": "post"}, "You normalise after the sums, as in 2017. Normalise before each step."),
    ("parallel", {"order": "parallel"},
     "Your feed-forward layer reads the stream from before the attention. It should see what the attention wrote."),
    ("ungated", {"ffn": ungated}, "You leave out the product with `W_up` in the feed-forward layer. It is gated."),
    ("gelu", {"ffn": by_gelu}, "You apply GELU to the gate. This model has SiLU, so use the given `swiglu`."),
    ("first-block-for-all", {"blocks": lambda blocks: blocks[:1] * len(blocks)},
     "You use the first block's weights in every layer."),
    ("probabilities", {"unembed": lambda x, params: torch.softmax(x @ params["W_E"].T, -1)},
     "You return probabilities. Return the logits before the softmax."),
)  # fmt: skip
