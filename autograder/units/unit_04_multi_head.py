"""Unit 4, several attentions side by side: heads split and merged, attention in batches, what each head writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..exercise import Case, Exercise, Leaf, Mistake, Raises
from . import torch_parts as parts
from .torch_parts import distinct, normal, random_mask, strided

UNIT = "04_multi_head"


def _indivisible(rng: np.random.Generator) -> tuple[int, int]:
    """A width and a number of heads that does not divide it, neither written inside the other."""
    pairs = [(width, h) for width in range(20, 40) for h in (3, 4, 6, 7) if width % h and str(h) not in str(width)]
    return pairs[int(rng.integers(len(pairs)))]


# ---------------------------------------------------------------------------------------------------------------------
# split_heads


def _split_heads(X: Tensor, n_heads: int) -> Tensor:
    if X.shape[-1] % n_heads:
        raise ValueError(f"{n_heads} heads do not divide {X.shape[-1]}")
    return torch.stack(X.chunk(n_heads, dim=-1), dim=1)


def _draw_split_heads(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, B: int, n: int, h: int, d: int, dtype: type = np.float64) -> Case:
        X = normal(rng, B, n, h * d, dtype=dtype)
        return Case(criterion, label, (X, h), sizes={"B": B, "n": n, "h": h, "d_head": d})

    cases = []
    for _ in range(3):
        B, n, h, d = distinct(rng, 4)
        cases.append(case("values", f"B = {B}, n = {n}, {h} heads of {d}", B, n, h, d))
    B, n, h, d = distinct(rng, 4)
    cases.append(case("values", "float32", B, n, h, d, np.float32))
    apart = case("values", "memory that is not contiguous", B, n, h, d)
    X = strided(apart.args[0])
    cases.append(Case("values", apart.label, (X, h), sizes=apart.sizes))
    n, h, d = distinct(rng, 3)
    cases.append(case("edge cases", "B = 1", 1, n, h, d))
    cases.append(case("edge cases", "a single token (n = 1)", B, 1, h, d))
    cases.append(case("edge cases", "one head", B, n, 1, d))
    cases.append(case("edge cases", "heads one number wide", B, n, h, 1))
    for _ in range(2):
        width, h = _indivisible(rng)
        X = normal(rng, 2, 3, width)
        error = Raises("ValueError", (str(width), str(h)))
        cases.append(Case("errors", f"{h} heads that do not divide a width of {width}", (X, h), raises=error))
    return cases


def _checked(split: Callable[[Tensor, int], Tensor]) -> Callable[[Tensor, int], Tensor]:
    """A wrong split that raises the right error."""

    def wrong(X: Tensor, n_heads: int) -> Tensor:
        if X.shape[-1] % n_heads:
            raise ValueError(f"{n_heads} heads do not divide {X.shape[-1]}")
        return split(X, n_heads)

    return wrong


def _cuts_off(X: Tensor, n_heads: int) -> Tensor:
    d = X.shape[-1] // n_heads
    return parts.split(X[..., : n_heads * d], n_heads)


def _silent_error(X: Tensor, n_heads: int) -> Tensor:
    if X.shape[-1] % n_heads:
        raise ValueError("the heads do not divide the width")
    return parts.split(X, n_heads)


def _asserts(X: Tensor, n_heads: int) -> Tensor:
    assert X.shape[-1] % n_heads == 0, f"{n_heads} heads do not divide {X.shape[-1]}"
    return parts.split(X, n_heads)


_SPLIT_HEADS = Exercise(
    name="split_heads",
    unit=UNIT,
    returns=Leaf("float array", "the result"),
    reference=_split_heads,
    draw=_draw_split_heads,
    credit={"values": 0.5, "edge cases": 0.2, "errors": 0.2, "gradients": 0.1},
    mistakes=(
        Mistake("reshape-only", parts.RESHAPED, _checked(parts.split_reshaped)),
        Mistake("interleaved-heads", parts.INTERLEAVED, _checked(parts.split_interleaved)),
        Mistake(
            "not-swapped",
            "The heads stand behind the tokens: the shape is (B, n, h, d_head). Swap the two axes in the middle.",
            _checked(lambda X, h: X.unflatten(-1, (h, X.shape[-1] // h))),
        ),
        Mistake(
            "heads-first",
            "The axis of the heads comes first; the batch belongs there.",
            _checked(lambda X, h: parts.split(X, h).transpose(0, 1)),
        ),
        Mistake(
            "axes-transposed",
            "The last two axes have changed places: each head is to be (n, d_head).",
            _checked(lambda X, h: parts.split(X, h).transpose(-1, -2)),
        ),
        Mistake(
            "heads-and-width-swapped",
            "The number of heads and the width of a head have changed places: h comes before d_head.",
            _checked(lambda X, h: parts.split(X, X.shape[-1] // h)),
        ),
        Mistake(
            "batch-and-heads-merged",
            "Batch and heads are one axis here; they are to be two.",
            _checked(lambda X, h: parts.split(X, h).flatten(0, 1)),
        ),
        Mistake("heads-reversed", "The heads come in reverse order.", _checked(parts.split_reversed)),
        Mistake(
            "first-sequence-only",
            "Every sequence of the batch gets the heads of the first one.",
            _checked(lambda X, h: parts.split(X[:1].expand_as(X), h)),
        ),
        Mistake(
            "blocks-of-rows",
            "The tokens are cut into blocks; it is the columns that the heads share out.",
            _checked(lambda X, h: X.flatten(1).unflatten(-1, (X.shape[-1] // h, h, X.shape[1])).permute(0, 2, 3, 1)),
        ),
        Mistake("no-error", "Heads that do not divide the width must raise a ValueError.", _cuts_off),
        Mistake(
            "silent-error",
            "The ValueError comes, but its message does not name both numbers: X.shape[-1] and n_heads.",
            _silent_error,
        ),
        Mistake(
            "wrong-error", "An error of another type comes: raise a ValueError yourself, before you split.", _asserts
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# merge_heads


def _merge_heads(X: Tensor) -> Tensor:
    return torch.cat(X.unbind(1), dim=-1)


def _draw_merge_heads(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, B: int, h: int, n: int, d: int, dtype: type = np.float64) -> Case:
        X = normal(rng, B, h, n, d, dtype=dtype)
        return Case(criterion, label, (X,), sizes={"B": B, "n": n, "h": h, "d_head": d})

    cases = []
    for _ in range(3):
        B, h, n, d = distinct(rng, 4)
        cases.append(case("values", f"B = {B}, {h} heads, n = {n}, d_head = {d}", B, h, n, d))
    B, h, n, d = distinct(rng, 4)
    cases.append(case("values", "float32", B, h, n, d, np.float32))
    swapped = np.ascontiguousarray(normal(rng, B, n, h, d)).transpose(0, 2, 1, 3)
    cases.append(Case("values", "as split_heads leaves it: not contiguous", (swapped,), sizes={"B": B, "n": n, "h": h}))
    cases.append(Case("values", "every second number of a larger tensor", (strided(normal(rng, B, h, n, d)),)))
    h, n, d = distinct(rng, 3)
    cases.append(case("edge cases", "B = 1", 1, h, n, d))
    cases.append(case("edge cases", "a single token (n = 1)", B, h, 1, d))
    cases.append(case("edge cases", "one head", B, 1, n, d))
    return cases


_MERGE_HEADS = Exercise(
    name="merge_heads",
    unit=UNIT,
    returns=Leaf("float array", "the result"),
    reference=_merge_heads,
    draw=_draw_merge_heads,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    mistakes=(
        Mistake("reshape-only", parts.MERGED_RESHAPED, parts.merge_reshaped),
        Mistake("interleaved-heads", parts.INTERLEAVED, parts.merge_interleaved),
        Mistake("heads-summed", "The heads are added up; they are to stand side by side.", lambda X: X.sum(1)),
        Mistake("heads-averaged", "The heads are averaged; they are to stand side by side.", lambda X: X.mean(1)),
        Mistake("one-head-only", "Only the first head is there.", lambda X: X[:, 0]),
        Mistake("heads-reversed", "The heads come in reverse order.", parts.merge_reversed),
        Mistake(
            "along-the-tokens",
            "The heads stand below each other, along the tokens. They are to stand side by side, along the features.",
            lambda X: X.flatten(1, 2),
        ),
        Mistake(
            "not-merged",
            "The axes are swapped, but the last two are not merged into one.",
            lambda X: X.transpose(1, 2),
        ),
        Mistake(
            "result-transposed", "Tokens and features have changed places.", lambda X: parts.merge(X).transpose(1, 2)
        ),
        Mistake(
            "features-before-swap",
            "Two axes are swapped, but not the right two: heads and tokens are to change places.",
            lambda X: X.transpose(2, 3).reshape(X.shape[0], X.shape[2], -1),
        ),
        Mistake("batch-lost", "The batch is merged with the tokens.", lambda X: parts.merge(X).flatten(0, 1)),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# bmm_attention


def _bmm_attention(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is None:
        return F.scaled_dot_product_attention(Q, K, V)
    mask = mask.broadcast_to(Q.shape[0], Q.shape[1], K.shape[1])
    allowed = mask.any(-1, keepdim=True)
    output = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask | ~allowed)
    return output * allowed


def _draw_bmm_attention(rng: np.random.Generator) -> list[Case]:
    def inputs(N: int, n: int, m: int, d: int, d_v: int, dtype: type = np.float64, scale: float = 1.2) -> tuple:
        return (
            normal(rng, N, n, d, scale=scale, dtype=dtype),
            normal(rng, N, m, d, scale=scale, dtype=dtype),
            normal(rng, N, m, d_v, dtype=dtype),
        )

    def case(
        criterion: str, label: str, args: tuple, mask: np.ndarray | None = None, rtol: float | None = None
    ) -> Case:
        Q, K, V = args
        sizes = {
            "N": Q.shape[0],
            "B": Q.shape[0],
            "n": Q.shape[1],
            "m": K.shape[1],
            "d_k": Q.shape[2],
            "d_v": V.shape[2],
        }
        return Case(criterion, label, args if mask is None else (*args, mask), sizes=sizes, rtol=rtol)

    N, n, m, d, d_v = distinct(rng, 5)
    cases = [case("values", "no mask", inputs(N, n, m, d, d_v))]
    N, n, m, d, d_v = distinct(rng, 5, 3, 9)
    cases.append(case("values", "no mask, float32", inputs(N, n, m, d, d_v, np.float32)))
    cases.append(
        case("masks", "a mask of its own for each attention", inputs(N, n, m, d, d_v), random_mask(rng, N, n, m))
    )
    N, n, m, d, d_v = distinct(rng, 5, 3, 9)
    cases.append(case("masks", "one mask (n, m) for all", inputs(N, n, m, d, d_v), random_mask(rng, n, m)))
    cases.append(case("masks", "a mask of keys (N, 1, m)", inputs(N, n, m, d, d_v), random_mask(rng, N, 1, m)))
    causal = np.tril(np.ones((n, n), bool))
    cases.append(case("masks", "a causal mask", inputs(N, n, n, d, d_v), causal))
    empty = random_mask(rng, N, n, m, empty_rows=True)
    cases.append(case("edge cases", "queries that may attend to nothing", inputs(N, n, m, d, d_v), empty))
    cases.append(case("edge cases", "nothing allowed at all", inputs(N, n, m, d, d_v), np.zeros((n, m), bool)))
    cases.append(case("edge cases", "one query, one key", inputs(N, 1, 1, d, d_v)))
    cases.append(case("edge cases", "a single attention (N = 1)", inputs(1, n, m, d, d_v)))
    Q, K, V = inputs(N, n, m, 4, d_v)
    Q, K = np.round(Q * 4) / 4, np.sign(K) * 5e3
    cases.append(case("edge cases", "scores around ±10,000", (Q, K, V), rtol=1e-6))
    cases.append(
        case("edge cases", "scores around ±10,000 under a mask", (Q, K, V), random_mask(rng, N, n, m), rtol=1e-6)
    )
    Q, K, V = inputs(N, n, m, d, d_v)
    apart = (Q.transpose(1, 0, 2).copy().transpose(1, 0, 2), strided(K), np.asfortranarray(V))
    cases.append(case("edge cases", "memory that is not contiguous", apart))
    mended = case("gradients", "gradients where a query may attend to nothing", inputs(N, n, m, d, d_v), empty)
    return [*cases, replace(mended, gradient=True)]


def _bmm(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None, **slips: Any) -> Tensor:
    if slips.get("scaling") == "root of d_v":
        Q, slips = Q * (Q.shape[-1] / V.shape[-1]) ** 0.5, {}
    return parts.attend(Q, K, V, mask, **slips)[0]


def _bmm_first_only(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    return parts.attend(Q, K[:1].expand_as(K), V[:1].expand_as(V), mask)[0]


def _bmm_first_mask(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is not None and mask.dim() == 3:
        mask = mask[:1]
    return parts.attend(Q, K, V, mask)[0]


def _bmm_of_weights(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    return parts.attend(Q, K, V, mask)[1]


def _bmm_without_softmax(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    return (scores if mask is None else scores.masked_fill(~mask, 0)) @ V


def _bmm_untransposed(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    return parts.weigh(torch.bmm(Q, K) / Q.shape[-1] ** 0.5, mask) @ V


def _bmm_three_axes_only(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is not None and mask.shape != (Q.shape[0], Q.shape[1], K.shape[1]):
        raise RuntimeError("the mask must be (N, n, m)")
    return parts.attend(Q, K, V, mask)[0]


def _bmm_baddbmm_bool(Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = Q @ K.mT / Q.shape[-1] ** 0.5
    return torch.softmax(scores if mask is None else scores - mask.to(scores.dtype) * 1e9, -1) @ V


_BMM_ATTENTION = Exercise(
    name="bmm_attention",
    unit=UNIT,
    returns=Leaf("float array", "the output"),
    reference=_bmm_attention,
    draw=_draw_bmm_attention,
    credit={"values": 0.4, "masks": 0.3, "edge cases": 0.2, "gradients": 0.1},
    mistakes=(
        *parts.with_slips(
            _bmm,
            (
                ("unscaled", parts.UNSCALED, {"scaling": "none"}),
                ("divides-by-d", parts.BY_D_HEAD, {"scaling": "d_head"}),
                ("multiplies-by-root-d", "The scores are multiplied by √d_k; divide by it.", {"scaling": "times"}),
                ("root-of-d-v", parts.BY_D_V, {"scaling": "root of d_v"}),
                ("root-of-n", parts.BY_N, {"scaling": "root of n"}),
                ("root-of-m", parts.BY_N, {"scaling": "root of m"}),
                ("softmax-over-queries", parts.OVER_QUERIES, {"dim": 1}),
                ("softmax-over-batch", "The softmax runs over the batch: check its `dim`.", {"dim": 0}),
                *parts.MASK_SLIPS,
                ("mild-mask", parts.MILD, {"masking": "mild"}),
                ("unstable", parts.UNSTABLE, {"stable": False}),
            ),
        ),
        Mistake("mask-subtracted", parts.INVERTED, _bmm_baddbmm_bool),
        Mistake("no-softmax", "There is no softmax: the scores themselves weigh the values.", _bmm_without_softmax),
        Mistake("first-keys-only", "Every attention reads the keys and values of the first one.", _bmm_first_only),
        Mistake("first-mask-only", "Every attention gets the mask of the first one.", _bmm_first_mask),
        Mistake("mask-not-broadcast", "A mask that must be broadcast to (N, n, m) fails.", _bmm_three_axes_only),
        Mistake("returns-weights", "The weights are returned; the values are not mixed yet.", _bmm_of_weights),
        Mistake(
            "keys-not-transposed",
            "Q and K do not fit together: K's last two axes must change places.",
            _bmm_untransposed,
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# multi_head_attention


def _multi_head_attention(
    X: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    b_O: Tensor,
    n_heads: int,
    mask: Tensor | None = None,
) -> Tensor:
    out = torch.zeros(*X.shape[:2], W_O.shape[1], dtype=X.dtype) + b_O
    width = W_Q.shape[1] // n_heads
    if mask is not None:
        mask = mask.broadcast_to(X.shape[0], n_heads, X.shape[1], X.shape[1])
    for head in range(n_heads):
        own = slice(head * width, (head + 1) * width)
        of_head = None if mask is None else mask[:, head]
        out = out + _bmm_attention(X @ W_Q[:, own], X @ W_K[:, own], X @ W_V[:, own], of_head) @ W_O[own]
    return out


def _layer(rng: np.random.Generator, B: int, n: int, d_model: int, h: int, d: int, dtype: type = np.float64) -> list:
    """X and weights such that the scores are of order 1."""
    weight = d_model**-0.5
    X = normal(rng, B, n, d_model, dtype=dtype)
    W_Q, W_K, W_V = (normal(rng, d_model, h * d, scale=1.3 * weight, dtype=dtype) for _ in range(3))
    return [X, W_Q, W_K, W_V, normal(rng, h * d, d_model, scale=(h * d) ** -0.5, dtype=dtype)]


def _layer_sizes(rng: np.random.Generator) -> tuple[int, int, int, int, int]:
    """B, n, d_model, h, d_head: all different, and h·d_head ≠ d_model."""
    while True:
        B, n, h, d = distinct(rng, 4, 2, 6)
        d_model = int(rng.integers(7, 13))
        if h * d != d_model:
            return B, n, d_model, h, d


def _draw_layer(rng: np.random.Generator, bias: bool) -> list[Case]:
    def case(
        criterion: str,
        label: str,
        sizes: tuple[int, int, int, int, int],
        mask: Callable[[int, int, int], np.ndarray] | None = None,
        dtype: type = np.float64,
        change: Callable[[list], list] | None = None,
        rtol: float | None = None,
    ) -> Case:
        B, n, d_model, h, d = sizes
        args = _layer(rng, *sizes, dtype=dtype)
        args = change(args) if change else args
        args += [normal(rng, d_model, dtype=dtype)] if bias else []
        args += [h] if mask is None else [h, mask(B, h, n)]
        named = {"B": B, "n": n, "d_model": d_model, "h": h, "d_head": d}
        return Case(criterion, label, tuple(args), sizes=named, rtol=rtol)

    def large(args: list) -> list:
        X, W_Q, W_K, W_V, W_O = args
        return [X, W_Q * 100, W_K * 100, W_V, W_O]

    def apart(args: list) -> list:
        X, W_Q, W_K, W_V, W_O = args
        return [strided(X), np.asfortranarray(W_Q), strided(W_K), W_V.T.copy().T, np.asfortranarray(W_O)]

    B, n, d_model, h, d = small = _layer_sizes(rng)
    other, third = _layer_sizes(rng), _layer_sizes(rng)
    cases = [
        case("values", f"{h} heads of {d}, d_model = {d_model}, no mask", small),
        case("values", f"{other[3]} heads of {other[4]}, d_model = {other[2]}, no mask", other),
        case("values", "float32", third, dtype=np.float32),
        case("masks", "a causal mask (n, n)", small, lambda B, h, n: np.tril(np.ones((n, n), bool))),
        case("masks", "a mask of keys (B, 1, 1, n)", other, lambda B, h, n: random_mask(rng, B, 1, 1, n)),
        case("masks", "a mask for each head (B, h, n, n)", third, lambda B, h, n: random_mask(rng, B, h, n, n)),
        case("masks", "a mask for each sequence (B, 1, n, n)", small, lambda B, h, n: random_mask(rng, B, 1, n, n)),
        case("masks", "a mask for each head (h, n, n)", third, lambda B, h, n: random_mask(rng, h, n, n)),
        case("masks", "a mask of keys for all (1, 1, 1, n)", other, lambda B, h, n: random_mask(rng, 1, 1, 1, n)),
        case(
            "edge cases",
            "queries that may attend to nothing",
            other,
            lambda B, h, n: random_mask(rng, B, h, n, n, empty_rows=True),
        ),
        case("edge cases", "nothing allowed at all", third, lambda B, h, n: np.zeros((n, n), bool)),
        case("edge cases", "a single token (n = 1)", (B, 1, d_model, h, d)),
        case("edge cases", "a single sequence (B = 1)", (1, n, d_model, h, d)),
        case("edge cases", "one head", (B, n, d_model, 1, d)),
        case("edge cases", "scores around ±10,000", small, change=large, rtol=1e-6),
        case(
            "edge cases",
            "scores around ±10,000 and a mask",
            small,
            lambda B, h, n: np.tril(np.ones((n, n), bool)),
            change=large,
            rtol=1e-6,
        ),
        case("edge cases", "memory that is not contiguous", other, change=apart),
    ]
    return cases


def _project(
    X: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    n_heads: int,
    mask: Tensor | None,
    *,
    split: parts.Split = parts.split,
    roles: str = "QKV",
    one_mask: bool = False,
    **slips: Any,
) -> Tensor:
    """(B, h, n, d_head): every head's output, before W_O, with slips."""
    weights = {"Q": W_Q, "K": W_K, "V": W_V}
    Q, K, V = (split(X @ weights[role], n_heads) for role in roles)
    if mask is not None and one_mask:
        mask = mask.broadcast_to(X.shape[0], n_heads, X.shape[1], X.shape[1])[:, :1]
    sizes = {"d_model": X.shape[-1], "h": n_heads}
    return parts.attend(Q, K, V, mask, sizes=sizes, **slips)[0]


def _layer_with(
    X: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    b_O: Tensor,
    n_heads: int,
    mask: Tensor | None = None,
    *,
    merge: parts.Merge = parts.merge,
    bias: str = "once",
    residual: bool = False,
    heads: str = "all",
    first_sequence: bool = False,
    **slips: Any,
) -> Tensor:
    if first_sequence:
        X = X[:1].expand_as(X)
    if heads == "one":
        split = slips.pop("split", parts.split)
        heads_out = _project(X, W_Q, W_K, W_V, 1, None if mask is None else mask[..., :1, :, :], split=split, **slips)
    else:
        heads_out = _project(X, W_Q, W_K, W_V, n_heads, mask, **slips)
    if heads == "last":
        heads_out = torch.cat([torch.zeros_like(heads_out[:, :-1]), heads_out[:, -1:]], 1)
    if heads == "first":
        heads_out = torch.cat([heads_out[:, :1], torch.zeros_like(heads_out[:, 1:])], 1)
    out = merge(heads_out) @ W_O
    if heads == "averaged":
        out = out / n_heads
    share = {"once": 1.0, "never": 0.0, "per head": float(n_heads), "twice": 2.0, "minus": -1.0}.get(bias, 1.0)
    out = out + share * b_O
    if bias == "lost in empty rows" and mask is not None:
        out = out * (heads_out.abs().sum((1, 3)) > 0).unsqueeze(-1)
    return out + X if residual else out


_MULTI_HEAD_SLIPS = (
    ("unscaled", parts.UNSCALED, {"scaling": "none"}),
    ("divides-by-d-head", parts.BY_D_HEAD, {"scaling": "d_head"}),
    ("root-of-d-model", parts.BY_D_MODEL, {"scaling": "root of d_model"}),
    ("root-of-all-heads", parts.BY_ALL, {"scaling": "root of all heads"}),
    ("root-of-h", "The scores are divided by √h. How long is a head's dot product?", {"scaling": "root of h"}),
    ("root-of-n", parts.BY_N, {"scaling": "root of n"}),
    ("multiplies-by-root-d", "The scores are multiplied by √d_head; divide by it.", {"scaling": "times"}),
    ("interleaved-heads", parts.INTERLEAVED, {"split": parts.split_interleaved}),
    ("reshape-only", parts.RESHAPED, {"split": parts.split_reshaped}),
    ("root-of-d-model-per-head", parts.BY_SHARE, {"scaling": "root of d_model per head, exact"}),
    ("whole-root-of-d-model-per-head", parts.BY_SHARE, {"scaling": "root of d_model per head"}),
    ("softmax-over-queries", parts.OVER_QUERIES, {"dim": -2}),
    ("softmax-over-heads", parts.OVER_HEADS, {"dim": 1}),
    *parts.MASK_SLIPS,
    ("unstable", parts.UNSTABLE, {"stable": False}),
    ("first-mask-only", "Every head gets the mask of the first head.", {"one_mask": True}),
    ("queries-and-keys-swapped", "Queries and keys have changed places: who asks, who answers?", {"roles": "KQV"}),
    ("keys-as-values", "The keys are mixed in place of the values: where is W_V used?", {"roles": "QKK"}),
    ("values-as-keys", "The values stand in place of the keys: where is W_K used?", {"roles": "QVV"}),
    ("queries-as-keys", "The queries are compared with themselves: where is W_K used?", {"roles": "QQV"}),
    ("keys-and-values-swapped", "Keys and values have changed places.", {"roles": "QVK"}),
)

_MULTI_HEAD_ATTENTION = Exercise(
    name="multi_head_attention",
    unit=UNIT,
    returns=Leaf("float array", "the output"),
    reference=_multi_head_attention,
    draw=lambda rng: _draw_layer(rng, bias=True),
    credit={"values": 0.4, "masks": 0.3, "edge cases": 0.2, "gradients": 0.1},
    mistakes=(
        *parts.with_slips(
            _layer_with,
            (
                *_MULTI_HEAD_SLIPS,
                ("no-bias", "The bias b_O is missing.", {"bias": "never"}),
                ("bias-per-head", "b_O is added once per head; it belongs to the sum, once.", {"bias": "per head"}),
                ("bias-twice", "b_O is added twice; once is enough.", {"bias": "twice"}),
                (
                    "bias-lost-in-empty-rows",
                    "Where a query may attend to nothing, the attention is 0, but the bias b_O is still added.",
                    {"bias": "lost in empty rows"},
                ),
                ("merged-by-reshape", parts.MERGED_RESHAPED, {"merge": parts.merge_reshaped}),
                (
                    "reshape-only-twice",
                    parts.RESHAPED,
                    {"split": parts.split_reshaped, "merge": parts.merge_reshaped},
                ),
                (
                    "interleaved-throughout",
                    parts.INTERLEAVED,
                    {"split": parts.split_interleaved, "merge": parts.merge_interleaved},
                ),
                ("merged-interleaved", parts.INTERLEAVED, {"merge": parts.merge_interleaved}),
                ("merged-reversed", "The heads are merged in reverse order.", {"merge": parts.merge_reversed}),
                (
                    "residual-added",
                    "X is added to the result. The residual connection is unit 7's.",
                    {"residual": True},
                ),
                ("heads-averaged", "The heads' contributions are averaged; they add up.", {"heads": "averaged"}),
                (
                    "last-head-only",
                    "Only the last head counts: is its result overwritten in a loop?",
                    {"heads": "last"},
                ),
                ("first-head-only", "Only the first head counts.", {"heads": "first"}),
                ("one-wide-head", "All columns make one wide head here. Split them into n_heads.", {"heads": "one"}),
                (
                    "first-sequence-only",
                    "Every sequence of the batch gets the result of the first one.",
                    {"first_sequence": True},
                ),
            ),
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# head_contributions


def _head_contributions(
    X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, n_heads: int, mask: Tensor | None = None
) -> Tensor:
    zero = torch.zeros(W_O.shape[1], dtype=X.dtype)
    width = W_Q.shape[1] // n_heads
    alone = []
    for head in range(n_heads):
        own = torch.zeros_like(W_O)
        own[head * width : (head + 1) * width] = W_O[head * width : (head + 1) * width]
        alone.append(_multi_head_attention(X, W_Q, W_K, W_V, own, zero, n_heads, mask))
    return torch.stack(alone, 1)


def _contributions_with(
    X: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    n_heads: int,
    mask: Tensor | None = None,
    *,
    rows: str = "blocks",
    after: Callable[[Tensor], Tensor] | None = None,
    **slips: Any,
) -> Tensor:
    heads = _project(X, W_Q, W_K, W_V, n_heads, mask, **slips)
    width = W_O.shape[0] // n_heads
    blocks = {
        "blocks": W_O.unflatten(0, (n_heads, width)),
        "interleaved": W_O.unflatten(0, (width, n_heads)).transpose(0, 1),
        "first": W_O[:width].expand(n_heads, width, -1),
        "last": W_O[-width:].expand(n_heads, width, -1),
        "reversed": W_O.unflatten(0, (n_heads, width)).flip(0),
        "averaged": W_O.unflatten(0, (n_heads, width)).mean(0, keepdim=True).expand(n_heads, width, -1),
        "summed": W_O.unflatten(0, (n_heads, width)).sum(0, keepdim=True).expand(n_heads, width, -1),
    }[rows]
    out = heads @ blocks
    return after(out) if after else out


def _even_shares(out: Tensor) -> Tensor:
    return out.mean(1, keepdim=True).expand_as(out)


def _whole_output(out: Tensor) -> Tensor:
    return out.sum(1, keepdim=True).expand_as(out)


def _not_projected(
    X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, n_heads: int, mask: Tensor | None = None
) -> Tensor:
    return _project(X, W_Q, W_K, W_V, n_heads, mask)


_CONTRIBUTION_SLIPS = tuple(slip for slip in _MULTI_HEAD_SLIPS if slip[0] != "mask-added")

_HEAD_CONTRIBUTIONS = Exercise(
    name="head_contributions",
    unit=UNIT,
    returns=Leaf("float array", "the contributions"),
    reference=_head_contributions,
    draw=lambda rng: _draw_layer(rng, bias=False),
    credit={"values": 0.4, "masks": 0.3, "edge cases": 0.2, "gradients": 0.1},
    mistakes=(
        Mistake(
            "not-projected", "The heads' outputs are not taken through W_O yet: each is d_head wide.", _not_projected
        ),
        *parts.with_slips(
            _contributions_with,
            (
                (
                    "rows-interleaved",
                    "W_O's rows are cut the wrong way: head h owns a contiguous block.",
                    {"rows": "interleaved"},
                ),
                ("first-block-for-all", "Every head writes through the first head's rows of W_O.", {"rows": "first"}),
                ("last-block-for-all", "Every head writes through the last head's rows of W_O.", {"rows": "last"}),
                ("blocks-reversed", "The heads write through each other's rows of W_O.", {"rows": "reversed"}),
                ("blocks-averaged", "W_O is averaged over the heads: each has rows of its own.", {"rows": "averaged"}),
                ("blocks-summed", "W_O is summed over the heads: each has rows of its own.", {"rows": "summed"}),
                (
                    "summed-up",
                    "The heads are already added up; keep them apart on an axis of their own.",
                    {"after": lambda o: o.sum(1)},
                ),
                (
                    "axes-swapped",
                    "The heads stand behind the tokens: (B, n, h, d_model).",
                    {"after": lambda o: o.transpose(1, 2)},
                ),
                (
                    "even-shares",
                    "Every head gets an equal share of the whole. What does this head alone write?",
                    {"after": _even_shares},
                ),
                (
                    "whole-for-each",
                    "Every head gets the whole output. What does this head alone write?",
                    {"after": _whole_output},
                ),
                ("running-sum", "Each head holds the sum of those before it, too.", {"after": lambda o: o.cumsum(1)}),
                ("heads-reversed", "The heads come in reverse order.", {"after": lambda o: o.flip(1)}),
                (
                    "divided-by-heads",
                    "Every contribution is divided by the number of heads.",
                    {"after": lambda o: o / o.shape[1]},
                ),
                *_CONTRIBUTION_SLIPS,
            ),
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# from_torch_weights


def _from_torch_weights(in_proj_weight: Tensor, out_proj_weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Read off by applying nn.Linear's own rule to the unit vectors."""
    unit = torch.eye(in_proj_weight.shape[1], dtype=in_proj_weight.dtype)
    projected = F.linear(unit, in_proj_weight)
    W_Q, W_K, W_V = projected.split(in_proj_weight.shape[1], dim=1)
    return W_Q, W_K, W_V, F.linear(unit, out_proj_weight)


def _draw_from_torch_weights(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, d: int, dtype: type = np.float64) -> Case:
        args = (normal(rng, 3 * d, d, dtype=dtype), normal(rng, d, d, dtype=dtype))
        return Case(criterion, label, args, sizes={"d_model": d})

    small, middle, large = (int(size) for size in np.sort(rng.permutation(np.arange(3, 12))[:3]))
    strange = case("edge cases", "memory that is not contiguous", middle)
    inputs, out = strange.args
    return [
        case("values", f"d_model = {middle}", middle),
        case("values", f"d_model = {small}", small),
        case("values", f"d_model = {large}", large),
        case("values", "float32", middle, np.float32),
        Case("edge cases", strange.label, (strided(inputs), np.asfortranarray(out)), sizes=strange.sizes),
        case("edge cases", "d_model = 1", 1),
    ]


def _converted(
    inputs: Tensor, out: Tensor, order: str = "QKV", turn: str = "all", cut: str = "blocks"
) -> tuple[Tensor, ...]:
    d = inputs.shape[1]
    blocks = {
        "blocks": inputs.split(d),
        "interleaved": (inputs[0::3], inputs[1::3], inputs[2::3]),
    }[cut]
    found = [blocks["QKV".index(role)] for role in order]
    found = [block.mT if turn in ("all", "in") else block for block in found]
    return (*found, out.mT if turn in ("all", "out") else out)


_FROM_TORCH_WEIGHTS = Exercise(
    name="from_torch_weights",
    unit=UNIT,
    returns=tuple(Leaf("float array", name) for name in ("W_Q", "W_K", "W_V", "W_O")),
    reference=_from_torch_weights,
    draw=_draw_from_torch_weights,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    mistakes=(
        *parts.with_slips(
            _converted,
            (
                (
                    "not-transposed",
                    "nn.Linear computes x Wᵀ: its weights map from the right only once they are transposed.",
                    {"turn": "none"},
                ),
                ("w-o-not-transposed", "W_Q, W_K and W_V are right; W_O needs the same turn.", {"turn": "in"}),
                ("only-w-o-transposed", "W_O is right; the other three need the same turn.", {"turn": "out"}),
                (
                    "keys-first",
                    "The blocks are named in the wrong order: queries come first, then keys.",
                    {"order": "KQV"},
                ),
                ("values-first", "The blocks are named in the wrong order: queries, keys, values.", {"order": "VQK"}),
                ("keys-and-values-swapped", "The blocks of keys and values are swapped.", {"order": "QVK"}),
                ("blocks-reversed", "The blocks come in reverse order: queries, keys, values.", {"order": "VKQ"}),
                (
                    "values-then-queries",
                    "The blocks are named in the wrong order: queries, keys, values.",
                    {"order": "KVQ"},
                ),
                (
                    "every-third-row",
                    "The three weights are blocks of d_model rows, not every third row.",
                    {"cut": "interleaved"},
                ),
                (
                    "queries-for-all",
                    "All three are the block of the queries: move on by d_model rows.",
                    {"order": "QQQ"},
                ),
            ),
        ),
        Mistake("without-w-o", "W_O is missing from the tuple.", lambda i, o: _converted(i, o)[:3]),
        Mistake("one-tensor", "Q, K and V come as one tensor; three are asked for.", lambda i, o: (i.mT, o.mT)),
        Mistake(
            "as-a-list",
            "The result is a list. Return a tuple: `return W_Q, W_K, W_V, W_O`.",
            lambda i, o: list(_converted(i, o)),
        ),
    ),
    library="torch",
)


EXERCISES = (
    _SPLIT_HEADS,
    _MERGE_HEADS,
    _BMM_ATTENTION,
    _MULTI_HEAD_ATTENTION,
    _HEAD_CONTRIBUTIONS,
    _FROM_TORCH_WEIGHTS,
)
