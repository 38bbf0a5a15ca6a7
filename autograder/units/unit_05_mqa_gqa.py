"""Unit 5, sharing keys and values: grouped and multi-query attention, the cache, one step of decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..exercise import NOT_IN_TORCH_UNITS, Case, Exercise, Leaf, Mistake, Raises
from . import torch_parts as parts
from .torch_parts import distinct, normal, random_mask, strided

UNIT = "05_mqa_gqa"
TILED = (
    "The key/value heads come in turn (0, 1, 0, 1, …). Consecutive query heads share one: 0, 0, 1, 1, …; "
    "compare `repeat` with `repeat_interleave`."
)


def _groups(rng: np.random.Generator, count: int = 1) -> list[tuple[int, int]]:
    """`count` different (n_heads, n_kv_heads) with 1 < n_kv_heads < n_heads and more than one head in each group."""
    pairs = [(4, 2), (6, 2), (6, 3), (8, 2), (9, 3), (8, 4)]
    return [pairs[int(index)] for index in rng.permutation(len(pairs))[:count]]


# ---------------------------------------------------------------------------------------------------------------------
# repeat_kv


def _repeat_kv(K: Tensor, n_rep: int) -> Tensor:
    return torch.repeat_interleave(K, n_rep, dim=1)


def _draw_repeat_kv(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, shape: tuple[int, ...], n_rep: int, dtype: type = np.float64) -> Case:
        B, g, n, d = shape
        return Case(criterion, label, (normal(rng, *shape, dtype=dtype), n_rep), sizes={"B": B, "g": g, "n": n, "d": d})

    cases = []
    for _ in range(3):
        B, g, n, d = distinct(rng, 4, 2, 6)
        n_rep = int(rng.integers(2, 5))
        cases.append(case("values", f"{g} heads, each {n_rep} times", (B, g, n, d), n_rep))
    B, g, n, d = distinct(rng, 4, 2, 6)
    cases.append(case("values", "float32", (B, g, n, d), 2, np.float32))
    cases.append(Case("values", "memory that is not contiguous", (strided(normal(rng, B, g, n, d)), 3)))
    cases.append(case("edge cases", "once (n_rep = 1)", (B, g, n, d), 1))
    cases.append(case("edge cases", "one key/value head", (B, 1, n, d), 3))
    cases.append(case("edge cases", "B = 1", (1, g, n, d), 2))
    cases.append(case("edge cases", "no token yet (n = 0)", (B, g, 0, d), 2))
    return cases


def _padded(K: Tensor, n_rep: int) -> Tensor:
    return torch.cat([K, torch.zeros_like(K).repeat(1, n_rep - 1, 1, 1)], 1)


_REPEAT_KV = Exercise(
    name="repeat_kv",
    unit=UNIT,
    returns=Leaf("float array", "the result"),
    reference=_repeat_kv,
    draw=_draw_repeat_kv,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    mistakes=(
        Mistake("tiled-heads", TILED, lambda K, r: K.repeat(1, r, 1, 1)),
        Mistake(
            "repeats-batch", "The batch is repeated; it is the heads' axis.", lambda K, r: K.repeat_interleave(r, 0)
        ),
        Mistake(
            "repeats-tokens", "The tokens are repeated; it is the heads' axis.", lambda K, r: K.repeat_interleave(r, 2)
        ),
        Mistake(
            "repeats-features",
            "The features are repeated; it is the heads' axis.",
            lambda K, r: K.repeat_interleave(r, 3),
        ),
        Mistake(
            "extra-axis",
            "The copies have an axis of their own. Merge it with the heads' axis.",
            lambda K, r: K[:, :, None].expand(-1, -1, r, -1, -1),
        ),
        Mistake("not-repeated", "Nothing is repeated.", lambda K, r: K.clone()),
        Mistake(
            "first-head-only",
            "Every query head gets the first key/value head.",
            lambda K, r: K[:, :1].repeat(1, r * K.shape[1], 1, 1),
        ),
        Mistake(
            "averaged",
            "Every query head gets the mean of all key/value heads.",
            lambda K, r: K.mean(1, keepdim=True).repeat(1, r * K.shape[1], 1, 1),
        ),
        Mistake("one-too-many", "Every head is there once too often.", lambda K, r: K.repeat_interleave(r + 1, 1)),
        Mistake("heads-reversed", "The heads come in reverse order.", lambda K, r: K.repeat_interleave(r, 1).flip(1)),
        Mistake("padded", "The further copies are zeros.", _padded),
        Mistake(
            "heads-behind-tokens",
            "The heads have moved behind the tokens.",
            lambda K, r: K.repeat_interleave(r, 1).transpose(1, 2),
        ),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# grouped_query_attention


def _grouped_query_attention(
    X: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: Tensor | None = None,
) -> Tensor:
    if n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} key/value heads do not divide {n_heads}")
    B, n, _ = X.shape
    Q = (X @ W_Q).view(B, n, n_heads, -1).transpose(1, 2)
    K, V = ((X @ W).view(B, n, n_kv_heads, -1).transpose(1, 2) for W in (W_K, W_V))
    if mask is None:
        heads = F.scaled_dot_product_attention(Q, K, V, enable_gqa=True)
    else:
        mask = mask.broadcast_to(B, n_heads, n, n)
        allowed = mask.any(-1, keepdim=True)
        heads = F.scaled_dot_product_attention(Q, K, V, attn_mask=mask | ~allowed, enable_gqa=True) * allowed
    return torch.einsum("bhnd,hde->bne", heads, W_O.view(n_heads, -1, W_O.shape[1]))


def _layer(
    rng: np.random.Generator, B: int, n: int, d_model: int, h: int, g: int, d: int, dtype: type = np.float64
) -> list[np.ndarray]:
    scale = 1.3 * d_model**-0.5
    X = normal(rng, B, n, d_model, dtype=dtype)
    W_Q = normal(rng, d_model, h * d, scale=scale, dtype=dtype)
    W_K, W_V = (normal(rng, d_model, g * d, scale=scale, dtype=dtype) for _ in range(2))
    return [X, W_Q, W_K, W_V, normal(rng, h * d, d_model, scale=(h * d) ** -0.5, dtype=dtype)]


def _layer_sizes(rng: np.random.Generator, h: int, g: int) -> tuple[int, int, int, int, int, int]:
    """B, n, d_model, h, g, d_head: all different where they can be, and h·d_head ≠ d_model."""
    while True:
        B, n, d = distinct(rng, 3, 2, 5)
        d_model = int(rng.integers(7, 13))
        if len({B, n, d, h}) == 4 and h * d != d_model:
            return B, n, d_model, h, g, d


Change = Callable[[list[np.ndarray]], list[np.ndarray]]
MaskOf = Callable[[int, int, int], np.ndarray]


def _large(args: list[np.ndarray]) -> list[np.ndarray]:
    X, W_Q, W_K, W_V, W_O = args
    return [X, W_Q * 100, W_K * 100, W_V, W_O]


def _apart(args: list[np.ndarray]) -> list[np.ndarray]:
    X, W_Q, W_K, W_V, W_O = args
    return [strided(X), np.asfortranarray(W_Q), strided(W_K), W_V.T.copy().T, np.asfortranarray(W_O)]


def _causal(B: int, h: int, n: int) -> np.ndarray:
    return np.tril(np.ones((n, n), bool))


def _draw_layer(rng: np.random.Generator, pairs: list[tuple[int, int]], tell_groups: bool) -> list[Case]:
    """Cases for a layer with (n_heads, n_kv_heads) of `pairs`; `tell_groups` passes n_kv_heads on."""

    def case(
        criterion: str,
        label: str,
        sizes: tuple[int, ...],
        mask: MaskOf | None = None,
        dtype: type = np.float64,
        change: Change | None = None,
        rtol: float | None = None,
    ) -> Case:
        B, n, d_model, h, g, d = sizes
        args = _layer(rng, *sizes, dtype=dtype)
        args = [*(change(args) if change else args), h, *([g] if tell_groups else [])]
        if mask is not None:
            args.append(mask(B, h, n))
        named = {"B": B, "n": n, "d_model": d_model, "h": h, "g": g, "d_head": d}
        return Case(criterion, label, tuple(args), sizes=named, rtol=rtol)

    first, second, third = (_layer_sizes(rng, h, g) for h, g in pairs)
    B, n, d_model, h, g, d = first
    words = f"{h} heads, {g} key/value head{'s' if g > 1 else ''}"
    return [
        case("values", words, first),
        case("values", f"{second[3]} heads, {second[4]} key/value", second),
        case("values", "float32", third, dtype=np.float32),
        case("masks", "a causal mask (n, n)", first, _causal),
        case("masks", "a mask of keys (B, 1, 1, n)", second, lambda B, h, n: random_mask(rng, B, 1, 1, n)),
        case("masks", "a mask for each head (B, h, n, n)", third, lambda B, h, n: random_mask(rng, B, h, n, n)),
        case("masks", "a mask for each sequence (B, 1, n, n)", first, lambda B, h, n: random_mask(rng, B, 1, n, n)),
        case(
            "edge cases",
            "queries that may attend to nothing",
            second,
            lambda B, h, n: random_mask(rng, B, h, n, n, empty_rows=True),
        ),
        case("edge cases", "nothing allowed at all", third, lambda B, h, n: np.zeros((n, n), bool)),
        case("edge cases", "a single token (n = 1)", (B, 1, d_model, h, g, d)),
        case("edge cases", "a single sequence (B = 1)", (1, n, d_model, h, g, d)),
        case("edge cases", "scores around ±10,000", first, change=_large, rtol=1e-6),
        case("edge cases", "scores around ±10,000 and a mask", first, _causal, change=_large, rtol=1e-6),
        case("edge cases", "memory that is not contiguous", second, change=_apart),
    ]


def _draw_grouped(rng: np.random.Generator) -> list[Case]:
    cases = _draw_layer(rng, _groups(rng, 3), tell_groups=True)
    for label, h, g in (("as many key/value heads as heads (g = h)", 4, 4), ("one key/value head (g = 1)", 4, 1)):
        B, n, d_model, *_, d = _layer_sizes(rng, h, g)
        args = (*_layer(rng, B, n, d_model, h, g, d), h, g)
        cases.append(Case("edge cases", label, args, sizes={"B": B, "n": n, "h": h, "g": g, "d_head": d}))
    for h, g in ((6, 4), (8, 3)):
        args = (*_layer(rng, 2, 3, 7, h, g, 5), h, g)
        cases.append(Case("errors", f"{g} key/value heads for {h} heads", args, raises=Raises("ValueError")))
    return cases


def _tile(K: Tensor, n_rep: int) -> Tensor:
    return K.repeat(1, n_rep, 1, 1)


def _first(K: Tensor, n_rep: int) -> Tensor:
    return K[:, :1].expand(-1, K.shape[1] * n_rep, -1, -1)


def _mean(K: Tensor, n_rep: int) -> Tensor:
    return K.mean(1, keepdim=True).expand(-1, K.shape[1] * n_rep, -1, -1)


def _backwards(K: Tensor, n_rep: int) -> Tensor:
    return _repeat_kv(K, n_rep).flip(1)


def _grouped_with(
    X: Tensor,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    n_heads: int,
    n_kv_heads: int,
    mask: Tensor | None = None,
    *,
    check: bool = True,
    one_group: bool = True,
    split: parts.Split = parts.split,
    merge: parts.Merge = parts.merge,
    keys: Callable[[Tensor, int], Tensor] = _repeat_kv,
    values: Callable[[Tensor, int], Tensor] = _repeat_kv,
    roles: str = "KV",
    one_mask: bool = False,
    one_sequence: bool = False,
    always_causal: bool = False,
    queries: Callable[[Tensor, int], Tensor] = lambda Q, g: Q,
    after: Callable[[Tensor, Tensor], Tensor] | None = None,
    **slips: Any,
) -> Tensor:
    if check and n_heads % n_kv_heads:
        raise ValueError("the key/value heads do not divide the heads")
    if n_kv_heads == 1 and not one_group:
        raise ValueError("a single key/value head")
    if one_sequence:
        X = X[:1].expand_as(X)
    rep = -(-n_heads // n_kv_heads)
    weights = {"K": W_K, "V": W_V}
    Q = queries(split(X @ W_Q, n_heads), n_kv_heads)
    K, V = (split(X @ weights[role], n_kv_heads) for role in roles)
    if always_causal:
        causal = torch.ones(X.shape[1], X.shape[1], dtype=torch.bool).tril()
        mask = causal if mask is None else mask & causal
    if mask is not None and one_mask:
        mask = mask.broadcast_to(X.shape[0], n_heads, X.shape[1], X.shape[1])[:, :1]
    sizes = {"d_model": X.shape[-1], "h": n_heads, "g": n_kv_heads}
    heads, _ = parts.attend(Q, keys(K, rep)[:, :n_heads], values(V, rep)[:, :n_heads], mask, sizes=sizes, **slips)
    out = merge(heads) @ W_O
    return after(out, X) if after else out


_LAYER_SLIPS = (
    ("unscaled", parts.UNSCALED, {"scaling": "none"}),
    ("divides-by-d-head", parts.BY_D_HEAD, {"scaling": "d_head"}),
    ("root-of-d-model", parts.BY_D_MODEL, {"scaling": "root of d_model"}),
    ("root-of-all-heads", parts.BY_ALL, {"scaling": "root of all heads"}),
    ("root-of-n", parts.BY_N, {"scaling": "root of n"}),
    ("multiplies-by-root-d", "The scores are multiplied by √d_head; divide by it.", {"scaling": "times"}),
    ("interleaved-heads", parts.INTERLEAVED, {"split": parts.split_interleaved}),
    ("reshape-only", parts.RESHAPED, {"split": parts.split_reshaped}),
    ("merged-by-reshape", parts.MERGED_RESHAPED, {"merge": parts.merge_reshaped}),
    ("reshape-only-twice", parts.RESHAPED, {"split": parts.split_reshaped, "merge": parts.merge_reshaped}),
    ("interleaved-throughout", parts.INTERLEAVED, {"split": parts.split_interleaved, "merge": parts.merge_interleaved}),
    ("root-of-d-model-per-head", parts.BY_SHARE, {"scaling": "root of d_model per head, exact"}),
    ("always-causal", parts.ALWAYS_CAUSAL, {"always_causal": True}),
    (
        "queries-averaged",
        "All heads ask the same question, the mean of their queries. Only keys and values are shared.",
        {"queries": lambda Q, g: Q.mean(1, keepdim=True).expand_as(Q)},
    ),
    ("merged-interleaved", parts.INTERLEAVED, {"merge": parts.merge_interleaved}),
    ("softmax-over-queries", parts.OVER_QUERIES, {"dim": -2}),
    ("softmax-over-heads", parts.OVER_HEADS, {"dim": 1}),
    *parts.MASK_SLIPS,
    ("mask-mild", parts.MILD, {"masking": "mild"}),
    ("unstable", parts.UNSTABLE, {"stable": False}),
    ("first-mask-only", "Every head gets the mask of the first head.", {"one_mask": True}),
    ("keys-as-values", "The keys are mixed in place of the values: where is W_V used?", {"roles": "KK"}),
    ("values-as-keys", "The values stand in place of the keys: where is W_K used?", {"roles": "VV"}),
    ("keys-and-values-swapped", "Keys and values have changed places.", {"roles": "VK"}),
    ("first-sequence-only", "Every sequence of the batch gets the result of the first one.", {"one_sequence": True}),
    ("residual-added", "X is added to the result. The residual connection is unit 7's.", {"after": lambda o, X: o + X}),
)

_GROUPED_QUERY_ATTENTION = Exercise(
    name="grouped_query_attention",
    unit=UNIT,
    returns=Leaf("float array", "the output"),
    reference=_grouped_query_attention,
    draw=_draw_grouped,
    credit={"values": 0.4, "masks": 0.2, "edge cases": 0.2, "errors": 0.1, "gradients": 0.1},
    mistakes=parts.with_slips(
        _grouped_with,
        (
            ("tiled-heads", TILED, {"keys": _tile, "values": _tile}),
            (
                "root-of-width-per-key-head",
                "The scores are divided by the root of h·d_head / g. A head's dot products run over d_head entries.",
                {"scaling": "root of width per key head"},
            ),
            (
                "queries-shared",
                "The heads of a group ask the same question. Only keys and values are shared.",
                {"queries": lambda Q, g: Q[:, :: Q.shape[1] // g].repeat_interleave(Q.shape[1] // g, 1)},
            ),
            ("tiled-keys", f"The values are shared as they should be, the keys are not. {TILED}", {"keys": _tile}),
            ("tiled-values", f"The keys are shared as they should be, the values are not. {TILED}", {"values": _tile}),
            ("first-head-for-all", "Every head reads the first key/value head.", {"keys": _first, "values": _first}),
            ("averaged-heads", "The key/value heads are averaged.", {"keys": _mean, "values": _mean}),
            ("groups-reversed", "The groups are served in reverse order.", {"keys": _backwards, "values": _backwards}),
            (
                "no-error",
                "Raise a ValueError if g does not divide h, and do so first: an assertion, or an error that comes from "
                "PyTorch, is not what the docstring asks for.",
                {"check": False},
            ),
            (
                "refuses-one-group",
                "A single key/value head is refused. It is allowed: look again at which of the two counts must divide "
                "which.",
                {"one_group": False},
            ),
            (
                "root-of-key-width",
                "The scores are divided by √(g·d_head), the width of all keys. A head's dot products run over d_head "
                "entries.",
                {"scaling": "root of key width"},
            ),
            *_LAYER_SLIPS,
        ),
    ),
    forbidden=(*NOT_IN_TORCH_UNITS, "multi_head_layer", "widen"),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# multi_query_attention


def _multi_query_attention(
    X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, n_heads: int, mask: Tensor | None = None
) -> Tensor:
    return _grouped_query_attention(X, W_Q, W_K, W_V, W_O, n_heads, 1, mask)


def _draw_multi_query(rng: np.random.Generator) -> list[Case]:
    heads = [(int(h), 1) for h in 2 + rng.permutation(5)[:3]]
    cases = _draw_layer(rng, heads, tell_groups=False)
    for h, _ in heads[:2]:
        B, n, d_model, h, g, d = _layer_sizes(rng, h, 1)
        args = (*_layer(rng, B, n, d_model, h, g, d), h)
        label = f"what is kept in memory with {h} heads"
        cases.append(Case("memory", label, args, sizes={"B": B, "n": n, "h": h, "d_head": d}, watch=B * h * n * d))
    return cases


def _copies_of_keys(case: Case, arrays: list[np.ndarray]) -> str | None:
    """Does a tensor made on the way hold the numbers of K or V once for every head, in whatever order and scale?"""
    X, _, W_K, W_V = case.args[:4]
    for name, W in (("K", W_K), ("V", W_V)):
        wanted = _profile(np.repeat(X @ W, case.sizes["h"]))
        for array in arrays:
            if (
                array.dtype.kind == "f"
                and array.size == wanted.size
                and np.allclose(_profile(array), wanted, atol=1e-5)
            ):
                return f"on the way it makes a tensor that holds {name} once for each head"
    return None


def _profile(array: np.ndarray) -> np.ndarray:
    """The sizes of all numbers in order, relative to the largest."""
    ordered = np.sort(np.abs(array.ravel()))
    return ordered / max(ordered[-1], 1e-300)


def _shared(**slips: Any) -> Callable[..., Tensor]:
    """Multi-query attention that broadcasts, with slips."""

    def attention(
        X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, n_heads: int, mask: Tensor | None = None
    ) -> Tensor:
        once = {"keys": lambda K, rep: K, "values": lambda V, rep: V}
        return _grouped_with(X, W_Q, W_K, W_V, W_O, n_heads, 1, mask, **{**once, **slips})

    return attention


def _with_copies(
    X: Tensor, W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor, n_heads: int, mask: Tensor | None = None
) -> Tensor:
    return _grouped_with(X, W_Q, W_K, W_V, W_O, n_heads, 1, mask)


_MULTI_QUERY_ATTENTION = Exercise(
    name="multi_query_attention",
    unit=UNIT,
    not_from=("grouped_query_attention",),
    returns=Leaf("float array", "the output"),
    reference=_multi_query_attention,
    draw=_draw_multi_query,
    credit={"values": 0.4, "masks": 0.2, "edge cases": 0.1, "memory": 0.2, "gradients": 0.1},
    mistakes=(
        Mistake(
            "copies-for-each-head",
            "The numbers are right, but K or V is copied once for each head: that is the memory traffic which this "
            "layer saves. An axis of size 1 is broadcast without a copy.",
            _with_copies,
        ),
        *(Mistake(slug, advice, _shared(**options)) for slug, advice, options in _LAYER_SLIPS),
        Mistake(
            "one-wide-head",
            "There is one query head only. Split the queries into n_heads; keys and values stay one.",
            lambda X, W_Q, W_K, W_V, W_O, n_heads, mask=None: _shared()(
                X, W_Q[:, : W_K.shape[1]].repeat(1, n_heads), W_K, W_V, W_O, n_heads, mask
            ),
        ),
    ),
    forbidden=(*NOT_IN_TORCH_UNITS, "multi_head_layer", "widen"),
    library="torch",
    made=_copies_of_keys,
)


# ---------------------------------------------------------------------------------------------------------------------
# kv_cache_bytes


def _kv_cache_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    sizes = np.array([2, n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value], dtype=object)
    return int(np.prod(sizes))


def _draw_kv_cache_bytes(rng: np.random.Generator) -> list[Case]:
    def sizes() -> tuple[int, ...]:
        L, g, d, n = (
            int(x) for x in (rng.integers(13, 40), rng.integers(3, 12), rng.integers(50, 130), rng.integers(900, 9000))
        )
        return L, g, d, n

    cases = []
    for _ in range(3):
        L, g, d, n = sizes()
        named = {"n_layers": L, "n_kv_heads": g, "d_head": d, "n_tokens": n}
        batch, width = int(rng.integers(3, 9)), int(rng.choice([1, 4, 8]))
        cases.append(
            Case(
                "values",
                f"{L} layers, batch {batch}, {width} bytes",
                (L, g, d, n, batch, width),
                sizes={**named, "batch": batch},
            )
        )
        cases.append(Case("defaults", f"{L} layers, batch and bytes left out", (L, g, d, n), sizes=named))
        kwargs = {"bytes_per_value": 4} if rng.random() < 0.5 else {"batch": batch}
        cases.append(Case("defaults", "one of the two by name", (L, g, d, n), kwargs, sizes=named))
    cases.append(Case("edge cases", "no token yet", (12, 4, 64, 0)))
    cases.append(Case("edge cases", "more than 2^53 bytes", (10**4 + 1, 10**4 + 7, 10**4 + 9, 10**5 + 3, 3)))
    return cases


def _cache_slips(slips: tuple[tuple[str, str, Callable[..., Any]], ...]) -> tuple[Mistake, ...]:
    """A known mistake for each (slug, advice, formula), with the right signature and default values."""

    def counted(formula: Callable[..., Any]) -> Callable[..., Any]:
        def wrong(
            n_layers: int, n_kv_heads: int, d_head: int, n_tokens: int, batch: int = 1, bytes_per_value: int = 2
        ) -> Any:
            return formula(n_layers, n_kv_heads, d_head, n_tokens, batch, bytes_per_value)

        return wrong

    return tuple(Mistake(slug, advice, counted(formula)) for slug, advice, formula in slips)


def _divided_by(unit: float) -> Callable[..., float]:
    """The size of the cache in a larger unit than bytes."""
    return lambda L, g, d, n, b, w: 2 * L * g * d * n * b * w / unit


def _default_four(L: int, g: int, d: int, n: int, batch: int = 1, bytes_per_value: int = 4) -> int:
    return 2 * L * g * d * n * batch * bytes_per_value


_KV_CACHE_BYTES = Exercise(
    name="kv_cache_bytes",
    unit=UNIT,
    returns=Leaf("int", "the number of bytes"),
    reference=_kv_cache_bytes,
    draw=_draw_kv_cache_bytes,
    credit={"values": 0.6, "defaults": 0.25, "edge cases": 0.15},
    mistakes=(
        *_cache_slips(
            (
                (
                    "keys-only",
                    "Only keys or only values are counted: both are kept.",
                    lambda L, g, d, n, b, w: L * g * d * n * b * w,
                ),
                (
                    "weights-counted",
                    "The weights of the projections are counted. The cache holds keys and values of tokens.",
                    lambda L, g, d, n, b, w: 2 * L * g * d * g * d * w,
                ),
                (
                    "added-not-multiplied",
                    "Somewhere a sum stands in place of a product.",
                    lambda L, g, d, n, b, w: 2 * L * (g + d) * n * b * w,
                ),
                (
                    "bytes-of-values-only",
                    "Keys and values are not treated alike: mind the brackets.",
                    lambda L, g, d, n, b, w: L * g * d * n * b + L * g * d * n * b * w,
                ),
                (
                    "width-shared-by-heads",
                    "d_head is taken for the width of all heads together. It is that of one head.",
                    lambda L, g, d, n, b, w: 2 * L * g * (d // g) * n * b * w,
                ),
                (
                    "one-layer-only",
                    "Every layer keeps keys and values of its own.",
                    lambda L, g, d, n, b, w: 2 * g * d * n * b * w,
                ),
                (
                    "batch-forgotten",
                    "The batch is left out.",
                    lambda L, g, d, n, b, w: 2 * L * g * d * n * w,
                ),
                (
                    "values-not-bytes",
                    "These are numbers, not bytes.",
                    lambda L, g, d, n, b, w: 2 * L * g * d * n * b,
                ),
                (
                    "always-two-bytes",
                    "bytes_per_value is not used.",
                    lambda L, g, d, n, b, w: 2 * L * g * d * n * b * 2,
                ),
                (
                    "bits",
                    "These are bits, eight for each byte.",
                    lambda L, g, d, n, b, w: 16 * L * g * d * n * b * w,
                ),
                (
                    "heads-forgotten",
                    "The number of key/value heads is left out.",
                    lambda L, g, d, n, b, w: 2 * L * d * n * b * w,
                ),
                (
                    "width-forgotten",
                    "The width of a head is left out.",
                    lambda L, g, d, n, b, w: 2 * L * g * n * b * w,
                ),
                (
                    "tokens-forgotten",
                    "The number of tokens is left out.",
                    lambda L, g, d, n, b, w: 2 * L * g * d * b * w,
                ),
                (
                    "queries-too",
                    "Three tensors are counted. Queries are not kept.",
                    lambda L, g, d, n, b, w: 3 * L * g * d * n * b * w,
                ),
                (
                    "tokens-squared",
                    "The cache grows with n, not with n².",
                    lambda L, g, d, n, b, w: 2 * L * g * d * n * n * b * w,
                ),
                (
                    "kilobytes",
                    "The result is in units of 1,024 bytes.",
                    lambda L, g, d, n, b, w: 2 * L * g * d * n * b * w // 1024,
                ),
                (
                    "float-result",
                    "The result is a float; count in whole numbers.",
                    lambda L, g, d, n, b, w: float(2 * L * g * d * n * b * w),
                ),
                *(
                    (name, f"These are {name}, not bytes: return the whole number, undivided.", _divided_by(unit))
                    for name, unit in (
                        ("gigabytes", 1e9),
                        ("gibibytes", 2**30),
                        ("megabytes", 1e6),
                        ("mebibytes", 2**20),
                    )
                ),
                (
                    "added-up",
                    "Sizes are added that must be multiplied.",
                    lambda L, g, d, n, b, w: 2 * (L + g + d + n) * b * w,
                ),
            ),
        ),
        Mistake("default-four-bytes", "By default a value takes 2 bytes (half precision).", _default_four),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# decode_step


def _decode_step(
    x: Tensor,
    cache: tuple[Tensor, Tensor],
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    n_heads: int,
    n_kv_heads: int,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    B = x.shape[0]
    Q = (x @ W_Q).view(B, 1, n_heads, -1).transpose(1, 2)
    K, V = (
        torch.cat([past, (x @ W).view(B, 1, n_kv_heads, -1).transpose(1, 2)], dim=2)
        for past, W in zip(cache, (W_K, W_V), strict=True)
    )
    heads = F.scaled_dot_product_attention(Q, K, V, enable_gqa=True)
    return heads.transpose(1, 2).reshape(B, 1, -1) @ W_O, (K, V)


def _draw_decode_step(rng: np.random.Generator) -> list[Case]:
    def case(
        criterion: str, label: str, B: int, t: int, sizes: tuple[int, ...], dtype: type = np.float64, large: float = 1.0
    ) -> Case:
        _, _, d_model, h, g, d = sizes
        _, *weights = _layer(rng, 1, 1, d_model, h, g, d, dtype=dtype)
        weights[0] = (weights[0] * large).astype(dtype)
        x = normal(rng, B, 1, d_model, dtype=dtype)
        cache = (normal(rng, B, g, t, d, scale=large, dtype=dtype), normal(rng, B, g, t, d, dtype=dtype))
        named = {"B": B, "t": t, "d_model": d_model, "h": h, "g": g, "d_head": d}
        return Case(criterion, label, (x, cache, *weights, h, g), sizes=named, rtol=1e-6 if large > 1 else None)

    first, second, third = (_layer_sizes(rng, h, g) for h, g in _groups(rng, 3))
    t = int(rng.integers(6, 10))
    as_many, single = _layer_sizes(rng, 4, 4), _layer_sizes(rng, 4, 1)
    cases = [
        case("values", f"{t} tokens in the cache", first[0], t, first),
        case("values", "another sequence, one token longer", first[0], t + 1, first),
        case("values", f"{t + 3} tokens in the cache", second[0], t + 3, second),
        case("values", "float32", third[0], t, third, np.float32),
        case("edge cases", "an empty cache (t = 0)", first[0], 0, first),
        case("edge cases", "one token in the cache", second[0], 1, second),
        case("edge cases", "a single sequence (B = 1)", 1, t, third),
        case("edge cases", "as many key/value heads as heads (g = h)", as_many[0], t, as_many),
        case("edge cases", "one key/value head (g = 1)", single[0], t, single),
        case("edge cases", "scores around ±10,000", second[0], t, second, large=90.0),
    ]
    return cases


def _step_with(
    x: Tensor,
    cache: tuple[Tensor, Tensor],
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    n_heads: int,
    n_kv_heads: int,
    *,
    order: str = "last",
    seen: str = "all",
    keep: Callable[[Tensor, Tensor], Any] = lambda K, V: (K, V),
    share: Callable[[Tensor, int], Tensor] = _repeat_kv,
    split: parts.Split = parts.split,
    merge: parts.Merge = parts.merge,
    scaling: str = "root of d_head",
    stable: bool = True,
    masked: bool = False,
    swapped: bool = False,
    after: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Any:
    rep = n_heads // n_kv_heads
    Q, k, v = split(x @ W_Q, n_heads), split(x @ W_K, n_kv_heads), split(x @ W_V, n_kv_heads)
    K, V = (
        torch.cat([past, new] if order == "last" else [new, past], 2) for past, new in zip(cache, (k, v), strict=True)
    )
    read_K, read_V = (V, K) if swapped else (K, V)
    if seen == "past":
        read_K, read_V = cache
    if seen == "new":
        read_K, read_V = k, v
    if seen == "kept one too few":
        read_K, read_V = K[:, :, 1:], V[:, :, 1:]
    mask = torch.ones(1, K.shape[2], dtype=torch.bool).tril() if masked else None
    sizes = {"d_model": x.shape[-1], "h": n_heads}
    read_K, read_V = share(read_K, rep), share(read_V, rep)
    heads, _ = parts.attend(Q, read_K, read_V, mask, scaling=scaling, stable=stable, sizes=sizes)
    out = merge(heads) @ W_O
    return (after(out, x) if after else out), keep(K, V)


def _keep_past(x: Tensor, cache: tuple[Tensor, Tensor], *rest: Any) -> Any:
    return _decode_step(x, cache, *rest)[0], cache


def _keep_new(x: Tensor, cache: tuple[Tensor, Tensor], *rest: Any) -> Any:
    out, (K, V) = _decode_step(x, cache, *rest)
    return out, (K[:, :, -1:], V[:, :, -1:])


def _keeps_wide(x: Tensor, cache: tuple[Tensor, Tensor], W_Q: Any, W_K: Any, W_V: Any, W_O: Any, h: int, g: int) -> Any:
    out, (K, V) = _decode_step(x, cache, W_Q, W_K, W_V, W_O, h, g)
    return out, (_repeat_kv(K, h // g), _repeat_kv(V, h // g))


_DECODE_STEP = Exercise(
    name="decode_step",
    unit=UNIT,
    returns=(
        Leaf("float array", "out"),
        (Leaf("float array", "the cached keys"), Leaf("float array", "the cached values")),
    ),
    reference=_decode_step,
    draw=_draw_decode_step,
    credit={"values": 0.6, "edge cases": 0.3, "gradients": 0.1},
    mistakes=(
        *parts.with_slips(
            _step_with,
            (
                ("new-token-first", "The new token stands first in the cache; it comes last.", {"order": "first"}),
                (
                    "blind-to-itself",
                    "The new token does not attend to itself: extend the cache before you attend.",
                    {"seen": "past"},
                ),
                ("new-token-only", "The new token attends to itself only; the cache is not read.", {"seen": "new"}),
                ("forgets-oldest", "The oldest token is left out.", {"seen": "kept one too few"}),
                (
                    "first-token-only",
                    "A causal mask of one row lets the new token see the first key only. It may see all.",
                    {"masked": True},
                ),
                ("tiled-heads", TILED, {"share": _tile}),
                ("first-head-for-all", "Every head reads the first key/value head.", {"share": _first}),
                ("averaged-heads", "The key/value heads are averaged.", {"share": _mean}),
                ("unscaled", parts.UNSCALED, {"scaling": "none"}),
                ("divides-by-d-head", parts.BY_D_HEAD, {"scaling": "d_head"}),
                ("root-of-d-model", parts.BY_D_MODEL, {"scaling": "root of d_model"}),
                ("interleaved-heads", parts.INTERLEAVED, {"split": parts.split_interleaved}),
                ("merged-interleaved", parts.INTERLEAVED, {"merge": parts.merge_interleaved}),
                ("keys-and-values-swapped", "Keys and values have changed places.", {"swapped": True}),
                (
                    "cache-swapped",
                    "The returned cache holds values first; keys come first.",
                    {"keep": lambda K, V: (V, K)},
                ),
                (
                    "cache-as-list",
                    "The returned cache is a list; return a tuple (K, V).",
                    {"keep": lambda K, V: [K, V]},
                ),
                (
                    "cache-as-one-tensor",
                    "The returned cache is one tensor; return a tuple (K, V).",
                    {"keep": lambda K, V: torch.stack([K, V])},
                ),
                ("unstable", parts.UNSTABLE, {"stable": False}),
                (
                    "residual-added",
                    "x is added to the result. The residual connection is unit 7's.",
                    {"after": lambda o, x: o + x},
                ),
                ("token-axis-lost", "out has lost its token axis: (B, 1, d_model).", {"after": lambda o, x: o[:, 0]}),
            ),
        ),
        Mistake("cache-not-extended", "The returned cache is the old one: the new token is missing in it.", _keep_past),
        Mistake("cache-of-one", "The returned cache holds the new token only.", _keep_new),
        Mistake("cache-per-head", "The returned cache holds a copy for each query head; keep g heads.", _keeps_wide),
        Mistake("out-only", "Only out comes back; return a tuple (out, cache).", lambda *args: _decode_step(*args)[0]),
        Mistake(
            "flat-tuple",
            "Three tensors come back; the cache is a tuple of its own: (out, (K, V)).",
            lambda *args: (lambda out, cache: (out, *cache))(*_decode_step(*args)),
        ),
    ),
    forbidden=(*NOT_IN_TORCH_UNITS, "multi_head_layer", "widen"),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# pool_kv_heads


def _pool_kv_heads(W: Tensor, n_heads: int, n_kv_heads: int) -> Tensor:
    width, rep = W.shape[1] // n_heads, n_heads // n_kv_heads
    columns = []
    for group in range(n_kv_heads):
        heads = [W[:, h * width : (h + 1) * width] for h in range(group * rep, (group + 1) * rep)]
        columns.append(torch.stack(heads).mean(0))
    return torch.cat(columns, 1)


def _draw_pool_kv_heads(rng: np.random.Generator) -> list[Case]:
    def case(criterion: str, label: str, h: int, g: int, dtype: type = np.float64) -> Case:
        d = int(rng.choice([size for size in range(3, 8) if size not in (h, g, h // g)]))
        d_model = int(rng.choice([size for size in range(5, 12) if size not in (h * d, d, h)]))
        W = normal(rng, d_model, h * d, dtype=dtype)
        return Case(criterion, label, (W, h, g), sizes={"d_model": d_model, "h": h, "g": g, "rep": h // g, "d_head": d})

    (h, g), (h2, g2), (h3, g3) = _groups(rng, 3)
    strange = case("edge cases", "memory that is not contiguous", h2, g2)
    return [
        case("values", f"{h} heads to {g}", h, g),
        case("values", f"{h2} heads to {g2}", h2, g2),
        case("values", "float32", h3, g3, np.float32),
        case("values", "12 heads to 3", 12, 3),
        case("edge cases", f"{h} heads to one", h, 1),
        case("edge cases", "as many as before (g = h)", h2, h2),
        Case("edge cases", strange.label, (strided(strange.args[0]), *strange.args[1:]), sizes=strange.sizes),
    ]


def _pooled(
    W: Tensor,
    n_heads: int,
    n_kv_heads: int,
    *,
    layout: str = "blocks",
    groups: str = "consecutive",
    pool: Callable[[Tensor], Tensor] = lambda heads: heads.mean(2),
    after: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    width, rep = W.shape[1] // n_heads, n_heads // n_kv_heads
    blocks = W.unflatten(1, (n_heads, width))
    heads = blocks if layout == "blocks" else W.unflatten(1, (width, n_heads)).transpose(1, 2)
    if groups == "consecutive":
        grouped = heads.unflatten(1, (n_kv_heads, rep))
    else:
        grouped = heads.unflatten(1, (rep, n_kv_heads)).transpose(1, 2)
    out = pool(grouped).flatten(1)
    return after(out) if after else out


def _pool_columns(W: Tensor, n_heads: int, n_kv_heads: int) -> Tensor:
    rep = n_heads // n_kv_heads
    return W.unflatten(1, (W.shape[1] // rep, rep)).mean(2)


def _pool_none(W: Tensor, n_heads: int, n_kv_heads: int) -> Tensor:
    return W[:, : W.shape[1] // n_heads * n_kv_heads].clone()


def _pool_all(W: Tensor, n_heads: int, n_kv_heads: int) -> Tensor:
    return _pooled(W, n_heads, 1).repeat(1, n_kv_heads)


_POOL_KV_HEADS = Exercise(
    name="pool_kv_heads",
    unit=UNIT,
    returns=Leaf("float array", "the pooled weight"),
    reference=_pool_kv_heads,
    draw=_draw_pool_kv_heads,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    mistakes=(
        *parts.with_slips(
            _pooled,
            (
                (
                    "median-of-group",
                    "Each group keeps the median; take the mean.",
                    {"pool": lambda heads: heads.quantile(0.5, 2)},
                ),
                (
                    "lower-median",
                    "Each group keeps the lower median, which is what `torch.median` gives; take the mean.",
                    {"pool": lambda heads: heads.median(2).values},
                ),
                (
                    "only-last-divided",
                    "Only the last head of a group is divided by its size: mind the brackets.",
                    {"pool": lambda heads: heads[:, :, :-1].sum(2) + heads[:, :, -1] / heads.shape[2]},
                ),
                ("summed", "The heads of a group are added up; take their mean.", {"pool": lambda heads: heads.sum(2)}),
                (
                    "first-of-group",
                    "Each group keeps its first head; take the mean of all.",
                    {"pool": lambda heads: heads[:, :, 0]},
                ),
                (
                    "last-of-group",
                    "Each group keeps its last head; take the mean of all.",
                    {"pool": lambda heads: heads[:, :, -1]},
                ),
                (
                    "largest-of-group",
                    "Each group keeps the largest entries; take the mean.",
                    {"pool": lambda heads: heads.amax(2)},
                ),
                (
                    "wrong-groups",
                    "Heads far apart are pooled. A group is made of consecutive heads.",
                    {"groups": "strided"},
                ),
                ("interleaved-heads", parts.INTERLEAVED, {"layout": "interleaved"}),
                (
                    "interleaved-and-strided",
                    f"{parts.INTERLEAVED} A group is made of consecutive heads.",
                    {"layout": "interleaved", "groups": "strided"},
                ),
                (
                    "root-of-rep",
                    "The sum of a group is divided by the root of its size.",
                    {"pool": lambda heads: heads.sum(2) / heads.shape[2] ** 0.5},
                ),
                ("transposed-result", "The result is transposed.", {"after": lambda W: W.T}),
                (
                    "heads-as-axis",
                    "The heads are an axis of their own; the result is a matrix.",
                    {"pool": lambda heads: heads.mean(2)[:, :, None], "after": lambda W: W[:, None]},
                ),
            ),
        ),
        Mistake(
            "neighbouring-columns",
            "Neighbouring columns are averaged; it is whole heads that are pooled.",
            _pool_columns,
        ),
        Mistake(
            "all-heads-averaged",
            "All heads are averaged, and the mean repeated. Each group has a mean of its own.",
            _pool_all,
        ),
        Mistake(
            "first-heads",
            "The first g heads are kept as they are. Take the mean of each group of consecutive heads.",
            _pool_none,
        ),
        Mistake(
            "repeated",
            "The means are repeated to the old width; g heads are asked for.",
            lambda W, h, g: _pooled(W, h, g).unflatten(1, (g, -1)).repeat_interleave(h // g, 1).flatten(1),
        ),
    ),
    library="torch",
)


EXERCISES = (
    _KV_CACHE_BYTES,
    _REPEAT_KV,
    _GROUPED_QUERY_ATTENTION,
    _MULTI_QUERY_ATTENTION,
    _DECODE_STEP,
    _POOL_KV_HEADS,
)
