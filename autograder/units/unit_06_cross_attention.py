"""Unit 6, asking another sequence: cross-attention, a decoder layer, alignment and greedy decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..exercise import Case, Exercise, HostFunction, Leaf, Mistake
from . import torch_parts as parts
from .torch_parts import distinct, normal, random_mask, strided

UNIT = "06_cross_attention"


# ---------------------------------------------------------------------------------------------------------------------
# cross_attention


def _cross_attention(
    X: Tensor,
    Y: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    n_heads: int,
    source_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    B, n, _ = X.shape
    m = Y.shape[1]
    Q = (X @ W_Q).view(B, n, n_heads, -1).transpose(1, 2)
    K, V = ((Y @ W).view(B, m, n_heads, -1).transpose(1, 2) for W in (W_K, W_V))
    unit = torch.eye(m, dtype=X.dtype).expand(B, n_heads, m, m)  # attention over unit vectors returns its weights
    mask, seen = None, torch.ones(B, 1, 1, 1, dtype=torch.bool)
    if source_mask is not None:
        mask = source_mask.view(B, 1, 1, m).expand(B, n_heads, n, m)
        seen = source_mask.any(1).view(B, 1, 1, 1)
        mask = mask | ~seen
    weights = F.scaled_dot_product_attention(Q, K, unit, attn_mask=mask) * seen
    heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask) * seen
    return torch.einsum("bhnd,hde->bne", heads, W_O.view(n_heads, -1, W_O.shape[1])), weights


def _weights(
    rng: np.random.Generator, d_model: int, d_source: int, h: int, d: int, dtype: type = np.float64
) -> list[np.ndarray]:
    return [
        normal(rng, d_model, h * d, scale=1.3 * d_model**-0.5, dtype=dtype),
        normal(rng, d_source, h * d, scale=1.3 * d_source**-0.5, dtype=dtype),
        normal(rng, d_source, h * d, scale=1.3 * d_source**-0.5, dtype=dtype),
        normal(rng, h * d, d_model, scale=(h * d) ** -0.5, dtype=dtype),
    ]


def _sizes(rng: np.random.Generator) -> dict[str, int]:
    """All different, and neither d_model nor d_source is h·d_head."""
    while True:
        B, n, m, h, d = distinct(rng, 5, 2, 7)
        d_model, d_source = distinct(rng, 2, 8, 13)
        if h <= 4 and h * d not in (d_model, d_source):
            return {"B": B, "n": n, "m": m, "h": h, "d_head": d, "d_model": d_model, "d_source": d_source}


def _source_mask(rng: np.random.Generator, B: int, m: int) -> np.ndarray:
    """Padding at the end, of different length in each sequence; the first sequence loses at least one token."""
    lengths = 1 + rng.permutation(max(m, B))[:B] % m
    lengths[0] = max(1, m - 2)
    return np.arange(m) < lengths[:, None]


def _draw_cross_attention(rng: np.random.Generator) -> list[Case]:
    def case(
        criterion: str,
        label: str,
        s: dict[str, int],
        mask: np.ndarray | None = None,
        dtype: type = np.float64,
        large: float = 1.0,
        change: Callable[[list], list] = list,
    ) -> Case:
        X = normal(rng, s["B"], s["n"], s["d_model"], dtype=dtype)
        Y = normal(rng, s["B"], s["m"], s["d_source"], dtype=dtype)
        weights = _weights(rng, s["d_model"], s["d_source"], s["h"], s["d_head"], dtype)
        weights[0], weights[1] = weights[0] * large, weights[1] * large
        args = [*change([X, Y, *weights]), s["h"]]
        args += [] if mask is None else [mask]
        return Case(criterion, label, tuple(args), sizes=s, rtol=1e-6 if large > 1 else None)

    def apart(args: list) -> list:
        X, Y, *weights = args
        return [strided(X), Y.transpose(1, 0, 2).copy().transpose(1, 0, 2), *(np.asfortranarray(W) for W in weights)]

    a, b, c = _sizes(rng), _sizes(rng), _sizes(rng)
    nothing = _source_mask(rng, b["B"], b["m"])
    nothing[-1] = False
    return [
        case("values", f"{a['h']} heads, n = {a['n']}, m = {a['m']}", a),
        case("values", f"{b['h']} heads, n = {b['n']}, m = {b['m']}", b),
        case("values", "float32", c, dtype=np.float32),
        case("masks", "sources of different length", a, _source_mask(rng, a["B"], a["m"])),
        case("masks", "holes in the source", c, random_mask(rng, c["B"], c["m"])),
        case("masks", "everything allowed", b, np.ones((b["B"], b["m"]), bool)),
        case("edge cases", "a source of padding alone", b, nothing),
        case("edge cases", "a single target token (n = 1)", {**a, "n": 1}),
        case("edge cases", "a single source token (m = 1)", {**b, "m": 1}),
        case("edge cases", "a single sequence (B = 1)", {**c, "B": 1}, random_mask(rng, 1, c["m"])),
        case("edge cases", "as many target as source tokens", {**a, "n": a["m"]}, _source_mask(rng, a["B"], a["m"])),
        case("edge cases", "scores around ±10,000", b, _source_mask(rng, b["B"], b["m"]), large=90.0),
        case("edge cases", "memory that is not contiguous", c, change=apart),
    ]


def _cross_with(
    X: Tensor,
    Y: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    n_heads: int,
    source_mask: Tensor | None = None,
    *,
    split: parts.Split = parts.split,
    merge: parts.Merge = parts.merge,
    roles: str = "KV",
    mask_of: Callable[[Tensor, int], Tensor] = lambda mask, n: mask[:, None, None, :],
    after: Callable[[Tensor, Tensor, Tensor], Any] = lambda out, weights, X: (out, weights),
    one_source: bool = False,
    always_causal: bool = False,
    **slips: Any,
) -> Any:
    if one_source:
        Y = Y[:1].expand_as(Y)
    weight = {"K": W_K, "V": W_V}
    Q = split(X @ W_Q, n_heads)
    K, V = (split(Y @ weight[role], n_heads) for role in roles)
    mask = None if source_mask is None else mask_of(source_mask, X.shape[1])
    if always_causal:
        causal = torch.ones(X.shape[1], Y.shape[1], dtype=torch.bool).tril()
        mask = causal if mask is None else mask & causal
    heads, weights = parts.attend(Q, K, V, mask, sizes={"d_model": X.shape[-1], "h": n_heads}, **slips)
    return after(merge(heads) @ W_O, weights, X)


def _weights_as_scores(
    X: Tensor, Y: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, n_heads: int, source_mask: Any = None
) -> Any:
    out, _ = _cross_attention(X, Y, W_Q, W_K, W_V, W_O, n_heads, source_mask)
    Q, K = parts.split(X @ W_Q, n_heads), parts.split(Y @ W_K, n_heads)
    return out, Q @ K.mT / Q.shape[-1] ** 0.5


_SLIPS = (
    ("unscaled", parts.UNSCALED, {"scaling": "none"}),
    ("divides-by-d-head", parts.BY_D_HEAD, {"scaling": "d_head"}),
    ("root-of-d-model", parts.BY_D_MODEL, {"scaling": "root of d_model"}),
    ("root-of-all-heads", parts.BY_ALL, {"scaling": "root of all heads"}),
    ("root-of-m", parts.BY_N, {"scaling": "root of m"}),
    ("root-of-n", parts.BY_N, {"scaling": "root of n"}),
    ("multiplies-by-root-d", "The scores are multiplied by √d_head; divide by it.", {"scaling": "times"}),
    ("interleaved-heads", parts.INTERLEAVED, {"split": parts.split_interleaved}),
    ("reshape-only", parts.RESHAPED, {"split": parts.split_reshaped}),
    ("merged-by-reshape", parts.MERGED_RESHAPED, {"merge": parts.merge_reshaped}),
    ("merged-interleaved", parts.INTERLEAVED, {"merge": parts.merge_interleaved}),
    ("softmax-over-queries", parts.OVER_QUERIES, {"dim": -2}),
    ("softmax-over-heads", parts.OVER_HEADS, {"dim": 1}),
    *parts.MASK_SLIPS,
    ("unstable", parts.UNSTABLE, {"stable": False}),
    ("keys-as-values", "The keys are mixed in place of the values: where is W_V used?", {"roles": "KK"}),
    ("values-as-keys", "The values stand in place of the keys: where is W_K used?", {"roles": "VV"}),
    ("keys-and-values-swapped", "Keys and values have changed places.", {"roles": "VK"}),
    ("first-source-only", "Every target reads the first source of the batch.", {"one_source": True}),
    (
        "first-mask-only",
        "Every sequence gets the padding of the first one.",
        {"mask_of": lambda mask, n: mask[:1, None, None, :]},
    ),
)

_CROSS_ATTENTION = Exercise(
    name="cross_attention",
    unit=UNIT,
    returns=(Leaf("float array", "out"), Leaf("float array", "weights", rows_sum_to_one=True)),
    reference=_cross_attention,
    draw=_draw_cross_attention,
    credit={"values": 0.4, "masks": 0.3, "edge cases": 0.2, "gradients": 0.1},
    mistakes=(
        *parts.with_slips(
            _cross_with,
            (
                *_SLIPS,
                (
                    "weights-averaged",
                    "The weights are averaged over the heads; keep one map per head: (B, h, n, m).",
                    {"after": lambda out, weights, X: (out, weights.mean(1))},
                ),
                (
                    "weights-transposed",
                    "The weights are transposed: one row per target token, one column per source token.",
                    {"after": lambda out, weights, X: (out, weights.mT)},
                ),
                (
                    "residual-added",
                    "X is added to the result; that is decoder_layer's task.",
                    {"after": lambda o, w, X: (o + X, w)},
                ),
                (
                    "out-only",
                    "Only the output comes back; return a tuple (out, weights).",
                    {"after": lambda o, w, X: o},
                ),
                (
                    "results-swapped",
                    "The weights come first; return (out, weights).",
                    {"after": lambda o, w, X: (w, o)},
                ),
                (
                    "as-a-list",
                    "The result is a list; return a tuple (out, weights).",
                    {"after": lambda o, w, X: [o, w]},
                ),
            ),
        ),
        Mistake(
            "scores-for-weights",
            "The second result is the scores; return the weights after the softmax.",
            _weights_as_scores,
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# decoder_layer


def _decoder_layer(
    X: Tensor, Y: Tensor, params: dict[str, Tensor], n_heads: int, source_mask: Tensor | None = None
) -> Tensor:
    own = [params[f"self_W_{role}"] for role in "QKVO"]
    cross = [params[f"cross_W_{role}"] for role in "QKVO"]
    B, n, _ = X.shape
    Q, K, V = ((X @ W).view(B, n, n_heads, -1).transpose(1, 2) for W in own[:3])
    heads = F.scaled_dot_product_attention(Q, K, V, is_causal=True)
    X = X + heads.transpose(1, 2).reshape(B, n, -1) @ own[3]
    return X + _cross_attention(X, Y, *cross, n_heads, source_mask)[0]


def _draw_decoder_layer(rng: np.random.Generator) -> list[Case]:
    def case(
        criterion: str,
        label: str,
        s: dict[str, int],
        mask: np.ndarray | None = None,
        dtype: type = np.float64,
        change: Callable[[np.ndarray], np.ndarray] = np.asarray,
        large: tuple[float, float] = (1.0, 1.0),
    ) -> Case:
        own_width = s["d_head"] + int(rng.integers(1, 4))
        own = _weights(rng, s["d_model"], s["d_model"], s["h"], own_width, dtype)
        cross = _weights(rng, s["d_model"], s["d_source"], s["h"], s["d_head"], dtype)
        for layer, factor in zip((own, cross), large, strict=True):
            layer[0], layer[1] = layer[0] * factor, layer[1] * factor
        params = {f"self_W_{role}": change(W) for role, W in zip("QKVO", own, strict=True)}
        params |= {f"cross_W_{role}": change(W) for role, W in zip("QKVO", cross, strict=True)}
        X = change(normal(rng, s["B"], s["n"], s["d_model"], dtype=dtype))
        Y = change(normal(rng, s["B"], s["m"], s["d_source"], dtype=dtype))
        args = (X, Y, params, s["h"]) if mask is None else (X, Y, params, s["h"], mask)
        return Case(criterion, label, args, sizes=s, rtol=1e-6 if max(large) > 1 else None)

    a, b, c = _sizes(rng), _sizes(rng), _sizes(rng)
    a["n"] = max(a["n"], 4) if a["m"] != 4 else 5
    nothing = _source_mask(rng, b["B"], b["m"])
    nothing[-1] = False
    return [
        case("values", f"n = {a['n']}, m = {a['m']}", a),
        case("values", f"n = {b['n']}, m = {b['m']}", b),
        case("values", "float32", c, dtype=np.float32),
        case("masks", "sources of different length", a, _source_mask(rng, a["B"], a["m"])),
        case("masks", "holes in the source", c, random_mask(rng, c["B"], c["m"])),
        case("edge cases", "a source of padding alone", b, nothing),
        case("edge cases", "a single target token (n = 1)", {**b, "n": 1}),
        case("edge cases", "a single sequence (B = 1)", {**c, "B": 1}),
        case("edge cases", "as many target as source tokens", {**a, "m": a["n"]}, _source_mask(rng, a["B"], a["n"])),
        case("edge cases", "memory that is not contiguous", a, change=strided),
        case("edge cases", "self-attention with scores around ±10,000", a, large=(90.0, 1.0)),
        case(
            "edge cases",
            "cross-attention with scores around ±10,000",
            {**a, "m": a["m"] + 3},
            _source_mask(rng, a["B"], a["m"] + 3),
            large=(1.0, 90.0),
        ),
    ]


def _layer_with(
    X: Tensor,
    Y: Tensor,
    params: dict[str, Tensor],
    n_heads: int,
    source_mask: Tensor | None = None,
    *,
    causal: Callable[[int], Tensor | None] = lambda n: torch.ones(n, n, dtype=torch.bool).tril(),
    first_residual: float = 1.0,
    second_residual: str = "X1",
    asks: str = "X1",
    order: str = "self first",
    norm: bool = False,
    one_scale: bool = False,
    cross_heads: int | None = None,
    self_slips: dict[str, Any] | None = None,
    cross_slips: dict[str, Any] | None = None,
) -> Tensor:
    own = [params[f"self_W_{role}"] for role in "QKVO"]
    cross = [params[f"cross_W_{role}"] for role in "QKVO"]

    if one_scale:
        cross[0] = cross[0] * (cross[0].shape[1] / own[0].shape[1]) ** 0.5

    def myself(X: Tensor) -> Tensor:
        mask = causal(X.shape[1])
        options = {"mask_of": lambda mask, n: mask, **(self_slips or {})}
        return _cross_with(X, X, *own, n_heads, mask, **options)[0]

    def other(X: Tensor) -> Tensor:
        return _cross_with(X, Y, *cross, cross_heads or n_heads, source_mask, **(cross_slips or {}))[0]

    if order == "cross first":
        X = X + other(X)
        return X + myself(X)
    X1 = first_residual * X + myself(X)
    if order == "self twice":
        X1 = X1 + myself(X1)
    if norm:
        X1 = F.layer_norm(X1, X1.shape[-1:])
    base = {"X1": X1, "X": X, "none": torch.zeros_like(X), "both": X + X1}[second_residual]
    out = base + other({"X1": X1, "X": X}[asks])
    return F.layer_norm(out, out.shape[-1:]) if norm else out


def _strict(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril(-1)


def _upper(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).triu()


def _both(slips: dict[str, Any]) -> dict[str, Any]:
    return {"self_slips": slips, "cross_slips": slips}


_DECODER_LAYER = Exercise(
    name="decoder_layer",
    unit=UNIT,
    returns=Leaf("float array", "the result"),
    reference=_decoder_layer,
    draw=_draw_decoder_layer,
    credit={"values": 0.5, "masks": 0.2, "edge cases": 0.2, "gradients": 0.1},
    mistakes=parts.with_slips(
        _layer_with,
        (
            (
                "no-causal-mask",
                "The target tokens see their own future: the self-attention needs a causal mask.",
                {"causal": lambda n: None},
            ),
            (
                "causal-mask-transposed",
                "The causal mask is the wrong way round: row i may see columns 0 … i.",
                {"causal": _upper},
            ),
            ("blind-to-itself", "The causal mask forbids the diagonal; a token may see itself.", {"causal": _strict}),
            ("no-first-residual", "X is not added to the self-attention.", {"first_residual": 0.0}),
            ("double-residual", "X is added twice to the self-attention.", {"first_residual": 2.0}),
            (
                "no-second-residual",
                "The cross-attention is not added to what came before it: its result stands alone.",
                {"second_residual": "none"},
            ),
            (
                "residual-from-the-start",
                "The cross-attention is added to the input X, and the self-attention is lost.",
                {"second_residual": "X"},
            ),
            ("residual-counted-twice", "X is added once more at the second step.", {"second_residual": "both"}),
            (
                "parallel",
                "The cross-attention asks with the input X. It is to ask with the result of the first step.",
                {"asks": "X"},
            ),
            (
                "both-from-the-start",
                "The second step works on the input X; the first step is not used.",
                {"asks": "X", "second_residual": "X"},
            ),
            (
                "cross-attention-first",
                "The cross-attention comes first; the self-attention does.",
                {"order": "cross first"},
            ),
            ("source-mask-ignored", "The source mask changes nothing.", {"cross_slips": {"masking": "ignored"}}),
            (
                "source-mask-inverted",
                "The source mask is read the wrong way round: True means “may attend”.",
                {"cross_slips": {"masking": "inverted"}},
            ),
            ("source-mask-after-softmax", parts.AFTER, {"cross_slips": {"masking": "after"}}),
            (
                "nan-rows",
                "A source of padding alone gives NaN; its attention is to be 0.",
                {"cross_slips": {"masking": "nan"}},
            ),
            (
                "uniform-rows",
                "A source of padding alone is read evenly; its attention is to be 0.",
                {"cross_slips": {"masking": "uniform"}},
            ),
            (
                "first-mask-only",
                "Every sequence gets the padding of the first one.",
                {"cross_slips": {"mask_of": lambda mask, n: mask[:1, None, None, :]}},
            ),
            ("unscaled", parts.UNSCALED, _both({"scaling": "none"})),
            ("divides-by-d-head", parts.BY_D_HEAD, _both({"scaling": "d_head"})),
            ("root-of-d-model", parts.BY_D_MODEL, _both({"scaling": "root of d_model"})),
            ("interleaved-heads", parts.INTERLEAVED, _both({"split": parts.split_interleaved})),
            ("merged-by-reshape", parts.MERGED_RESHAPED, _both({"merge": parts.merge_reshaped})),
            ("softmax-over-queries", parts.OVER_QUERIES, _both({"dim": -2})),
            (
                "sees-the-future-only",
                "In the self-attention each token sees the later ones, not those up to itself.",
                {"causal": lambda n: ~torch.ones(n, n, dtype=torch.bool).tril()},
            ),
            (
                "one-token-ahead",
                "In the self-attention each token also sees the next one.",
                {"causal": lambda n: torch.ones(n, n, dtype=torch.bool).tril(1)},
            ),
            (
                "cross-attention-causal",
                "The cross-attention is masked as if it were causal. The whole source may be read.",
                {"cross_slips": {"always_causal": True}},
            ),
            ("self-unscaled", f"In the self-attention: {parts.UNSCALED}", {"self_slips": {"scaling": "none"}}),
            ("cross-unscaled", f"In the cross-attention: {parts.UNSCALED}", {"cross_slips": {"scaling": "none"}}),
            ("self-attention-twice", "The self-attention is applied twice.", {"order": "self twice"}),
            ("normalised", "The result is normalised. There is no norm here yet.", {"norm": True}),
            (
                "cross-keys-and-values-swapped",
                "In the cross-attention keys and values have changed places.",
                {"cross_slips": {"roles": "VK"}},
            ),
            (
                "one-d-head-for-both",
                "Both attentions are scaled with the d_head of the first. The two may differ in d_head.",
                {"one_scale": True},
            ),
            ("one-cross-head", "The cross-attention has one head. It has n_heads of them.", {"cross_heads": 1}),
            ("self-mask-after-softmax", f"In the self-attention: {parts.AFTER}", {"self_slips": {"masking": "after"}}),
            (
                "self-mask-multiplied",
                f"In the self-attention: {parts.MULTIPLIED}",
                {"self_slips": {"masking": "multiplied"}},
            ),
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# alignment


def _alignment(weights: Tensor) -> Tensor:
    summed = weights.sum(1)
    highest = summed.amax(-1, keepdim=True)
    return (summed == highest).to(torch.int64).cummax(-1).values.eq(0).sum(-1)


def _attention_map(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Rows that sum to 1, in steps of 1/64, so that sums over heads are exact."""
    m = shape[-1]
    counts = np.array([rng.multinomial(64 - m, rng.dirichlet(np.ones(m))) + 1 for _ in range(int(np.prod(shape[:-1])))])
    return (counts / 64).reshape(shape)


def _draw_alignment(rng: np.random.Generator) -> list[Case]:
    cases = []
    for dtype in (np.float64, np.float64, np.float32):
        B, h, n, m = distinct(rng, 4, 3, 9)
        sizes = {"B": B, "h": h, "n": n, "m": m}
        label = "float32" if dtype is np.float32 else f"{h} heads, n = {n}, m = {m}"
        cases.append(Case("values", label, (_attention_map(rng, B, h, n, m).astype(dtype),), sizes=sizes))
    B, h, n, m = distinct(rng, 4, 3, 8)
    strong = _attention_map(rng, B, h, n, m)
    strong[:, 1:] = (strong[:, 1:] + 3 / m) / 4
    cases.append(Case("values", "one head sharper than the others", (np.round(strong * 4096) / 4096,), sizes={"h": h}))
    tied = np.zeros((B, 2, n, m))
    tied[..., 1] = tied[..., -1] = 0.5
    cases.append(Case("ties", "two source tokens get the same", (tied,), sizes={"B": B, "h": 2, "n": n, "m": m}))
    cases.append(
        Case("ties", "all source tokens get the same", (np.full((B, 4, n, 8), 0.125),), sizes={"B": B, "h": 4})
    )
    split = np.zeros((B, 2, n, m))
    split[:, 0, :, m - 1] = split[:, 1, :, m - 2] = 1.0
    cases.append(Case("ties", "two heads of different opinion", (split,), sizes={"B": B, "h": 2, "n": n, "m": m}))
    silent = np.round(_attention_map(rng, B, h, n, m) * 64) / 64
    silent[0], silent[-1, :, 0] = 0.0, 0.0
    cases.append(Case("ties", "a source of padding alone: no weight anywhere", (silent,), sizes={"B": B, "h": h}))
    cases.append(
        Case("edge cases", "B = 1", (_attention_map(rng, 1, h, n, m),), sizes={"B": 1, "h": h, "n": n, "m": m})
    )
    cases.append(Case("edge cases", "n = 1, one head", (_attention_map(rng, B, 1, 1, m),), sizes={"B": B, "h": 1}))
    cases.append(Case("edge cases", "a single source token (m = 1)", (np.ones((B, h, n, 1)),), sizes={"B": B, "h": h}))
    return cases


def _last_of_ties(weights: Tensor) -> Tensor:
    return weights.shape[-1] - 1 - weights.mean(1).flip(-1).argmax(-1)


_ALIGNMENT = Exercise(
    name="alignment",
    unit=UNIT,
    returns=Leaf("int array", "the alignment"),
    reference=_alignment,
    draw=_draw_alignment,
    credit={"values": 0.6, "ties": 0.2, "edge cases": 0.2},
    mistakes=(
        Mistake(
            "over-targets",
            "The largest weight is sought among the target tokens; seek it among the source tokens.",
            lambda w: w.mean(1).argmax(-2),
        ),
        Mistake(
            "first-head-only",
            "Only the first head is asked; average over the heads first.",
            lambda w: w[:, 0].argmax(-1),
        ),
        Mistake(
            "last-head-only",
            "Only the last head is asked; average over the heads first.",
            lambda w: w[:, -1].argmax(-1),
        ),
        Mistake(
            "strongest-head",
            "The strongest head decides; average over the heads first.",
            lambda w: w.amax(1).argmax(-1),
        ),
        Mistake("weakest", "The token that gets least is returned.", lambda w: w.mean(1).argmin(-1)),
        Mistake(
            "not-averaged", "There is one alignment per head; average over the heads first.", lambda w: w.argmax(-1)
        ),
        Mistake(
            "averaged-afterwards",
            "Positions are averaged; average the weights, then look for the largest.",
            lambda w: w.argmax(-1).double().mean(1).round().long(),
        ),
        Mistake(
            "vote-of-heads",
            "The heads vote. Average their weights first, then look for the largest.",
            lambda w: w.argmax(-1).mode(1).values,
        ),
        Mistake("product-of-heads", "The heads' weights are multiplied; average them.", lambda w: w.prod(1).argmax(-1)),
        Mistake(
            "weights-returned", "The largest weights are returned, not their positions.", lambda w: w.mean(1).amax(-1)
        ),
        Mistake(
            "batch-averaged", "The batch is averaged away; average over the heads.", lambda w: w.mean(0).argmax(-1)
        ),
        Mistake(
            "median-of-heads",
            "The median of the heads is taken; average them.",
            lambda w: w.quantile(0.5, 1).argmax(-1),
        ),
        Mistake(
            "head-not-token",
            "The head that gets most is returned, not the source token.",
            lambda w: w.amax(-1).argmax(1),
        ),
        Mistake(
            "mean-position",
            "The mean position is returned. The token with the largest weight is asked for.",
            lambda w: (w.mean(1) @ torch.arange(w.shape[-1], dtype=w.dtype)).round().long(),
        ),
        Mistake(
            "never-backwards",
            "The alignment is made never to go back. Each target token has its own largest weight.",
            lambda w: w.mean(1).argmax(-1).cummax(-1).values,
        ),
        Mistake(
            "one-for-all-targets",
            "All target tokens get the same source token.",
            lambda w: w.mean((1, 2)).argmax(-1, keepdim=True).expand(-1, w.shape[2]),
        ),
        Mistake(
            "rounded-first",
            "The weights are rounded first, so near ones tie. Compare them as they are.",
            lambda w: (w.mean(1) * 10).round().argmax(-1),
        ),
        Mistake("first-two-heads", "Only two heads are averaged; average all.", lambda w: w[:, :2].mean(1).argmax(-1)),
        Mistake(
            "targets-averaged",
            "The target tokens are averaged; average over the heads.",
            lambda w: w.mean(2).argmax(-1),
        ),
        Mistake("counted-from-one", "Positions are counted from 1; count from 0.", lambda w: w.mean(1).argmax(-1) + 1),
        Mistake("last-of-ties", "Of equal weights the last is taken; take the first.", _last_of_ties),
        Mistake(
            "float-positions",
            "The positions are floating numbers; return whole ones.",
            lambda w: w.mean(1).argmax(-1).double(),
        ),
        Mistake(
            "one-hot",
            "The result is one-hot; return positions.",
            lambda w: F.one_hot(w.mean(1).argmax(-1), w.shape[-1]),
        ),
        Mistake("heads-as-answer", "The largest weight is sought among the heads.", lambda w: w.argmax(1)),
        Mistake("tokens-then-batch", "Batch and target tokens have changed places.", lambda w: w.mean(1).argmax(-1).T),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# greedy_decode


def _greedy_decode(next_logits: Callable[[list[int]], Tensor], start: int, end: int, max_len: int) -> list[int]:
    tokens = [start]
    while len(tokens) < max_len and not (len(tokens) > 1 and tokens[-1] == end):
        tokens.append(int(next_logits(list(tokens)).argmax()))
    return tokens


def _model(
    seed: int, vocab: int, plan: list[int], tied: bool = False, lead: float | None = None, large: bool = False
) -> HostFunction:
    """A model that follows `plan` as long as it is shown all tokens so far; other contexts get other random logits.

    lead: by how much the best logit is ahead; None: by 2 or more. large: logits of several thousand.
    """

    def next_logits(tokens: list[int]) -> np.ndarray:
        if not isinstance(tokens, list) or not tokens:
            raise TypeError("next_logits takes the list of all tokens so far")
        tokens = [int(token) for token in tokens]
        logits = np.random.default_rng([seed, *tokens]).standard_normal(vocab) - 3.0
        if tokens == plan[: len(tokens)] and len(tokens) < len(plan):
            best = plan[len(tokens)]
            logits[best] = np.ceil(logits.max()) + 2.0
            if lead is not None:
                others = np.delete(logits, best)
                logits[best] = np.floor(others.max() * 64) / 64 + lead + 1 / 64
            if tied:
                logits[best + 1 :: 2] = logits[best]
        return 1000.0 * (logits + 8.0) if large else logits

    return HostFunction(next_logits)


def _draw_greedy_decode(rng: np.random.Generator) -> list[Case]:
    def case(
        criterion: str,
        label: str,
        steps: int,
        max_len: int,
        ends: bool,
        same: bool = False,
        starts_again: bool = False,
        **model: Any,
    ) -> Case:
        vocab = int(rng.integers(9, 15))
        start, end = (int(token) for token in rng.permutation(vocab)[:2])
        start = end if same else start
        words = [token for token in range(vocab - 3) if token not in (start, end)]
        middle = [int(word) for word in rng.choice(words, steps)]
        if starts_again:
            middle[steps // 2] = start
        plan = [start, *middle, *([end] if ends else [int(rng.choice(words))]), *(int(w) for w in rng.choice(words, 6))]
        args = (_model(int(rng.integers(2**31)), vocab, plan, **model), start, end, max_len)
        return Case(criterion, label, args, sizes={"vocab": vocab, "max_len": max_len})

    long = int(rng.integers(5, 9))
    return [
        case("values", f"the end comes after {long} tokens", long, long + 6, True),
        case("values", "the end comes after 3 tokens", 3, 12, True),
        case("values", f"the end does not come within {long} tokens", long + 3, long, False),
        case("values", "a longer sentence", 12, 30, True),
        case("edge cases", "room for start alone (max_len = 1)", 3, 1, True),
        case("edge cases", "room for two tokens (max_len = 2)", 3, 2, True),
        case("edge cases", "the end comes at once", 0, 8, True),
        case("edge cases", "the end is the last token that fits", 4, 6, True),
        case("edge cases", "start and end are the same token", 4, 12, True, same=True),
        case("edge cases", "the start token comes again", 5, 12, True, starts_again=True),
        case("edge cases", "logits that differ by little", 6, 12, True, lead=0.02),
        case("edge cases", "logits of about 10,000", 5, 12, True, large=True),
        case("ties", "two tokens with the same logit", 5, 12, True, tied=True),
        case("ties", "the same again", 3, 9, True, tied=True),
    ]


def _decoded(
    next_logits: Callable[[list[int]], Tensor],
    start: int,
    end: int,
    max_len: int,
    *,
    pick: Callable[[Tensor], Any] = lambda logits: int(logits.argmax()),
    context: Callable[[list[int]], list[int]] = list,
    extra: int = 0,
    stop: bool = True,
    stop_at_start: bool = False,
    keep_end: bool = True,
    after: Callable[[list[int]], Any] = lambda tokens: tokens,
) -> Any:
    tokens = [start]
    if stop_at_start and start == end:
        return tokens
    while len(tokens) < max_len + extra:
        found = pick(next_logits(context(tokens)))
        if stop and found == end and not keep_end:
            break
        tokens.append(found)
        if stop and found == end:
            break
    return after(tokens)


def _last_maximum(logits: Tensor) -> int:
    return len(logits) - 1 - int(logits.flip(0).argmax())


def _sampled(logits: Tensor) -> int:
    generator = torch.Generator().manual_seed(0)
    return int(torch.multinomial(torch.softmax(logits / 4, 0), 1, generator=generator))


_GREEDY_DECODE = Exercise(
    name="greedy_decode",
    unit=UNIT,
    returns=Leaf("int list", "the tokens"),
    reference=_greedy_decode,
    draw=_draw_greedy_decode,
    credit={"values": 0.6, "edge cases": 0.25, "ties": 0.15},
    mistakes=parts.with_slips(
        _decoded,
        (
            ("start-missing", "The start token is missing at the front.", {"after": lambda tokens: tokens[1:]}),
            (
                "end-missing",
                "The end token is missing: it belongs to the result when it is generated.",
                {"keep_end": False},
            ),
            (
                "both-missing",
                "The start token and the end token are missing.",
                {"keep_end": False, "after": lambda tokens: tokens[1:]},
            ),
            ("end-ignored", "It goes on after the end token.", {"stop": False}),
            ("one-too-many", "There is one token too many: max_len counts all tokens, start included.", {"extra": 1}),
            (
                "one-too-few",
                "There is one token too few: max_len counts all tokens, and all of them may be used.",
                {"extra": -1},
            ),
            (
                "last-token-only",
                "The model is shown the last token only; show it all tokens so far.",
                {"context": lambda tokens: tokens[-1:]},
            ),
            (
                "start-only",
                "The model is shown the first token only; show it all tokens so far.",
                {"context": lambda tokens: tokens[:1]},
            ),
            (
                "start-not-shown",
                "The model is not shown the start token.",
                {"context": lambda tokens: tokens[1:] or tokens},
            ),
            (
                "context-reversed",
                "The model is shown the tokens in reverse order.",
                {"context": lambda tokens: tokens[::-1]},
            ),
            (
                "two-tokens-only",
                "The model is shown the last two tokens only; show it all.",
                {"context": lambda tokens: tokens[-2:]},
            ),
            (
                "lowest-logit",
                "The token with the lowest logit is taken.",
                {"pick": lambda logits: int(logits.argmin())},
            ),
            (
                "second-best",
                "The second best token is taken.",
                {"pick": lambda logits: int(logits.argsort(descending=True)[1])},
            ),
            (
                "last-of-ties",
                "Of tokens with the same logit the highest id is taken; take the lowest.",
                {"pick": _last_maximum},
            ),
            (
                "rounded-logits",
                "The logits are rounded, so near ones tie. Compare them as they are.",
                {"pick": lambda logits: int(logits.round().argmax())},
            ),
            (
                "overflowing-exponentials",
                "Large logits overflow in the exponential. The largest logit needs no softmax.",
                {"pick": lambda logits: int(logits.float().exp().argmax())},
            ),
            ("sampled", "The next token is drawn at random; take the most likely one.", {"pick": _sampled}),
            (
                "stops-at-start",
                "It stops before it begins where start and end are the same. Only a generated end stops it.",
                {"stop_at_start": True},
            ),
            (
                "tensor-tokens",
                "The list holds tensors. Make Python ints of them.",
                {"pick": lambda logits: logits.argmax()},
            ),
            ("tensor-result", "The result is a tensor; return a list of ints.", {"after": torch.tensor}),
            ("tuple-result", "The result is a tuple; return a list.", {"after": tuple}),
            ("length-returned", "The number of tokens is returned, not the tokens.", {"after": len}),
            ("reversed-result", "The tokens come in reverse order.", {"after": lambda tokens: tokens[::-1]}),
        ),
    ),
    library="torch",
)


EXERCISES = (_CROSS_ATTENTION, _DECODER_LAYER, _ALIGNMENT, _GREEDY_DECODE)
