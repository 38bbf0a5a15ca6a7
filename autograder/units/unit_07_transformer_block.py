"""Unit 7, add, norm and feed forward: the parts of a transformer block, both orders of it, and a whole model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..exercise import NOT_IN_TORCH_UNITS, Activation, Case, Exercise, Leaf, Mistake
from . import torch_parts as parts
from .torch_parts import distinct, normal, random_mask, strided

UNIT = "07_transformer_block"
Params = dict[str, Any]


#: torch's norms; turned round, each does the work of the other.
_ALONG_A_TOKEN = (
    *("layer_norm", "LayerNorm", "native_layer_norm", "group_norm", "GroupNorm", "native_group_norm"),
    *("rms_norm", "RMSNorm", "_fused_rms_norm", "_normalize"),
)
_ALONG_THE_BATCH = (
    *("batch_norm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "native_batch_norm"),
    *("LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "cudnn_batch_norm", "_batch_norm_impl_index"),
    *("_native_batch_norm_legit", "_native_batch_norm_legit_functional", "_batch_norm_with_update"),
    *("instance_norm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"),
)


def _not(*calls: str) -> tuple[str, ...]:
    """What an attention may not use, and these calls of torch, however they are reached."""
    return (*NOT_IN_TORCH_UNITS, *(f"{room}.{call}" for call in calls for room in ("F", "functional", "nn", "torch")))


def _gain(rng: np.random.Generator, d: int, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """gamma, beta: neither 1 nor 0."""
    sign = np.where(rng.random(d) < 0.5, -1, 1)
    gamma = (sign * rng.uniform(0.5, 1.8, d)).astype(np.float32).astype(dtype)
    return gamma, normal(rng, d, scale=0.7, dtype=dtype)


# ---------------------------------------------------------------------------------------------------------------------
# layer_norm and batch_norm


def _layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), gamma, beta, eps)


def _batch_norm(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    variance, mean = torch.var_mean(x, (0, 1), correction=0)
    return torch.addcmul(beta, gamma, (x - mean) * torch.rsqrt(variance + eps))


def _norm_case(
    rng: np.random.Generator,
    criterion: str,
    label: str,
    shape: tuple[int, ...],
    eps: float | None = None,
    dtype: type = np.float64,
    spread: float = 1.0,
    by_name: bool = False,
) -> Case:
    size = shape[-1]
    centres = 2.0 * rng.standard_normal((*shape[:-1], 1)) + rng.standard_normal(size)
    x = (spread * (rng.standard_normal(shape) + centres)).astype(np.float32).astype(dtype)
    args = (x, *_gain(rng, size, dtype))
    sizes = dict(zip(("B", "n", "d"), shape, strict=True)) if len(shape) == 3 else {"d": size}
    if by_name:
        return Case(criterion, label, args, {"eps": eps}, sizes=sizes)
    return Case(criterion, label, args if eps is None else (*args, eps), sizes=sizes)


def _far_from_zero(rng: np.random.Generator, shape: tuple[int, ...], along: tuple[int, ...]) -> Case:
    """Here the mean of the squares less the square of the mean has no correct digit in float32.

    along: the axes of one norm; each has the same spread, so that none is all rounding.
    """
    case = _norm_case(rng, "edge cases", "float32 numbers around 1,000", shape, None, np.float32)
    x, gamma, beta = case.args
    x = x.astype(np.float64)
    even = (x - x.mean(along, keepdims=True)) / x.std(along, keepdims=True)
    return replace(case, args=((even / 4 + 1000).astype(np.float32), gamma, beta))


def _flat_gradient(rng: np.random.Generator, shape: tuple[int, ...]) -> Case:
    """Where nothing varies, the root of the bare variance has an infinite slope."""
    case = _norm_case(rng, "gradients", "gradients where nothing varies", shape, 1e-3)
    case.args[0][:] = 0.75
    return replace(case, gradient=True)


def _draw_layer_norm(rng: np.random.Generator) -> list[Case]:
    B, n, d = distinct(rng, 3, 3, 8)
    m, k, c = distinct(rng, 3, 3, 8)
    flat = _norm_case(rng, "edge cases", "a constant row", (B, n, d), 1e-3)
    flat.args[0][0, 1] = 0.75
    apart = _norm_case(rng, "edge cases", "memory that is not contiguous", (B, n, d))
    return [
        _norm_case(rng, "values", f"x of shape {(B, n, d)}, eps large beside the variance", (B, n, d), 0.6),
        _norm_case(rng, "values", f"x of shape {(m, k, c)}", (m, k, c)),
        _norm_case(rng, "values", "float32", (B, n, d), None, np.float32),
        _norm_case(rng, "values", "small numbers, so that the default eps shows", (m, k, c), None, spread=3e-3),
        _norm_case(rng, "values", "eps by name", (B, n, d), 0.05, by_name=True),
        _norm_case(rng, "shapes", "x of one axis", (d,), 0.1),
        _norm_case(rng, "shapes", "x of two axes", (n, d), 0.1),
        _norm_case(rng, "shapes", "x of four axes", (2, m, k, d), 0.1),
        flat,
        _norm_case(rng, "edge cases", "a single token (n = 1)", (B, 1, d), 0.1),
        _norm_case(rng, "edge cases", "a single feature (d = 1)", (B, n, 1), 0.1),
        Case("edge cases", apart.label, (strided(apart.args[0]), *apart.args[1:]), sizes=apart.sizes),
        _far_from_zero(rng, (B, n, d), (-1,)),
        _flat_gradient(rng, (B, n, d)),
    ]


def _draw_batch_norm(rng: np.random.Generator) -> list[Case]:
    B, n, d = distinct(rng, 3, 3, 8)
    m, k, c = distinct(rng, 3, 3, 8)
    flat = _norm_case(rng, "edge cases", "a constant feature", (B, n, d), 1e-3)
    flat.args[0][:, :, 1] = 0.75
    apart = _norm_case(rng, "edge cases", "memory that is not contiguous", (B, n, d))
    return [
        _norm_case(rng, "values", f"x of shape {(B, n, d)}, eps large beside the variance", (B, n, d), 0.6),
        _norm_case(rng, "values", f"x of shape {(m, k, c)}", (m, k, c)),
        _norm_case(rng, "values", "float32", (B, n, d), None, np.float32),
        _norm_case(rng, "values", "small numbers, so that the default eps shows", (m, k, c), None, spread=1e-3),
        _norm_case(rng, "values", "eps by name", (B, n, d), 0.05, by_name=True),
        flat,
        _norm_case(rng, "edge cases", "a single sequence (B = 1)", (1, n, d), 0.1),
        _norm_case(rng, "edge cases", "a single token (n = 1)", (B, 1, d), 0.1),
        _norm_case(rng, "edge cases", "a single feature (d = 1)", (B, n, 1), 0.1),
        Case("edge cases", apart.label, (strided(apart.args[0]), *apart.args[1:]), sizes=apart.sizes),
        _far_from_zero(rng, (B, n, d), (0, 1)),
        _flat_gradient(rng, (B, n, d)),
    ]


Axes = Callable[[Tensor], tuple[int, ...]]


def _norm_with(axes: Axes) -> Callable[..., Tensor]:
    """A normalisation over `axes` of x, with slips."""

    def norm(
        x: Tensor,
        gamma: Tensor,
        beta: Tensor,
        eps: float = 1e-5,
        *,
        over: Axes = axes,
        correction: int = 0,
        place: str = "inside",
        centre: bool | str = True,
        spread: str = "variance",
        gain: str = "right",
        fixed: float | None = None,
    ) -> Tensor:
        eps = eps if fixed is None else fixed
        dims = over(x)
        mean = x.mean(dims, keepdim=True) if centre else torch.zeros_like(x[..., :1])
        variance = x.var(dims, correction=correction, keepdim=True)
        if spread == "mean square":
            variance = (x * x).mean(dims, keepdim=True)
        if spread == "mean deviation":
            variance = (x - mean).abs().mean(dims, keepdim=True).square()
        if spread == "plain deviation":
            variance = (x - mean).abs().mean(dims, keepdim=True)
        if spread == "sum":
            variance = (x - mean).square().sum(dims, keepdim=True)
        if centre == "median":
            mean = x.median(dims[0], keepdim=True).values if len(dims) == 1 else mean
        if centre == "minimum":
            mean = x.amin(dims, keepdim=True)
        if spread == "range":
            variance = (x.amax(dims, keepdim=True) - x.amin(dims, keepdim=True)).square()
        below = {
            "inside": torch.sqrt(variance + eps),
            "outside": torch.sqrt(variance) + eps,
            "nowhere": torch.sqrt(variance),
            "squared": torch.sqrt(variance + eps * eps),
            "no root": variance + eps,
            "clamped": torch.sqrt(variance.clamp_min(eps)),
            "no division": torch.ones_like(variance),
            "both": torch.sqrt(variance + eps) + eps,
            "subtracted": torch.sqrt((variance - eps).clamp_min(1e-12)),
        }[place]
        z = (x - mean) / below
        return {
            "right": lambda: gamma * z + beta,
            "none": lambda: z,
            "no gamma": lambda: z + beta,
            "no beta": lambda: gamma * z,
            "swapped": lambda: beta * z + gamma,
            "one plus": lambda: (1 + gamma) * z + beta,
            "minus": lambda: gamma * z - beta,
            "together": lambda: gamma * (z + beta),
            "before": lambda: (gamma * x + beta - mean) / below,
            "mean scaled": lambda: x - gamma * mean / below + beta,
            "mean undivided": lambda: gamma * (x - mean / below) + beta,
            "before all": lambda: norm(
                gamma * x + beta, torch.ones_like(gamma), torch.zeros_like(beta), eps, over=over
            ),
        }[gain]()

    return norm


_NORM_SLIPS = (
    (
        "unbiased-variance",
        "The variance is divided by one less than the count; divide by the count (unbiased=False).",
        {"correction": 1},
    ),
    (
        "eps-outside-root",
        "eps is added to the standard deviation; it belongs to the variance, under the root.",
        {"place": "outside"},
    ),
    ("eps-missing", "eps is not used: it belongs to the variance, under the root.", {"place": "nowhere"}),
    ("eps-squared", "eps is squared on the way to the root.", {"place": "squared"}),
    ("eps-twice", "eps is added twice, under the root and beside it.", {"place": "both"}),
    ("eps-subtracted", "eps is subtracted; add it to the variance.", {"place": "subtracted"}),
    ("eps-fixed", "eps is a fixed number here; use the argument.", {"fixed": 1e-5}),
    ("root-missing", "The result is divided by the variance; divide by its root.", {"place": "no root"}),
    ("mean-not-subtracted", "The mean is not subtracted.", {"centre": False}),
    (
        "root-mean-square",
        "Nothing is centred, and the mean square stands for the variance: that is RMSNorm.",
        {"centre": False, "spread": "mean square"},
    ),
    ("mean-square", "The mean of x² stands for the variance: subtract the mean first.", {"spread": "mean square"}),
    ("mean-deviation", "The mean absolute deviation stands for the standard deviation.", {"spread": "mean deviation"}),
    (
        "mean-deviation-and-eps",
        "The mean absolute deviation stands for the standard deviation, with eps beside it.",
        {"spread": "mean deviation", "place": "outside"},
    ),
    (
        "range-from-zero-to-one",
        "The smallest value is subtracted and the range divides. Use the mean and the standard deviation.",
        {"centre": "minimum", "spread": "range", "place": "outside"},
    ),
    ("range", "The result is divided by the range of the values.", {"spread": "range"}),
    ("sum-of-squares", "The squares are summed; the variance is their mean.", {"spread": "sum"}),
    ("not-divided", "The mean is subtracted, but nothing is divided by the deviation.", {"place": "no division"}),
    ("eps-as-floor", "eps is a floor of the variance here; it is added to it.", {"place": "clamped"}),
    (
        "only-the-mean-divided",
        "Only the mean is divided: mind the brackets around x − mean.",
        {"gain": "mean undivided"},
    ),
    (
        "only-the-mean-scaled",
        "Only the mean is divided and multiplied by gamma: mind the brackets around x − mean.",
        {"gain": "mean scaled"},
    ),
    (
        "gain-before-everything",
        "gamma and beta come before mean and variance are taken; they come after the normalisation.",
        {"gain": "before all"},
    ),
    ("no-gain", "gamma and beta are not used.", {"gain": "none"}),
    ("gamma-missing", "gamma is not used: it multiplies what is normalised.", {"gain": "no gamma"}),
    ("beta-missing", "beta is not used: it is added in the end.", {"gain": "no beta"}),
    (
        "gamma-and-beta-swapped",
        "gamma and beta have changed places: gamma multiplies, beta is added.",
        {"gain": "swapped"},
    ),
    ("one-plus-gamma", "The result is multiplied by 1 + gamma; gamma itself is the factor.", {"gain": "one plus"}),
    ("beta-subtracted", "beta is subtracted; add it.", {"gain": "minus"}),
    ("beta-scaled", "beta is multiplied by gamma, too: multiply first, then add.", {"gain": "together"}),
    ("gain-before-norm", "gamma and beta come before the normalisation; they come after it.", {"gain": "before"}),
)


def _default_eps(norm: Callable[..., Tensor], default: float) -> Callable[..., Tensor]:
    def wrong(x: Tensor, gamma: Tensor, beta: Tensor, eps: float = default) -> Tensor:
        return norm(x, gamma, beta, eps)

    return wrong


_over_last = _norm_with(lambda x: (x.dim() - 1,))
_over_tokens = _norm_with(lambda x: (0, 1))

_LAYER_NORM = Exercise(
    name="layer_norm",
    unit=UNIT,
    returns=Leaf("float array", "the result"),
    reference=_layer_norm,
    draw=_draw_layer_norm,
    credit={"values": 0.6, "shapes": 0.15, "edge cases": 0.15, "gradients": 0.1},
    mistakes=(
        *parts.with_slips(_over_last, _NORM_SLIPS),
        *parts.with_slips(
            _over_last,
            (
                ("median", "The median is subtracted; subtract the mean.", {"centre": "median"}),
                (
                    "over-everything",
                    "All numbers share one mean and variance; each token has its own.",
                    {"over": lambda x: tuple(range(x.dim()))},
                ),
                (
                    "over-first-axis",
                    "Mean and variance run over the first axis; they run over the last.",
                    {"over": lambda x: (0,)},
                ),
                (
                    "over-tokens",
                    "Mean and variance run over the tokens; each token has its own, over its features.",
                    {"over": lambda x: (max(x.dim() - 2, 0),)},
                ),
                (
                    "over-tokens-and-features",
                    "Mean and variance run over tokens and features together; each token has its own.",
                    {"over": lambda x: tuple(range(min(1, x.dim() - 1), x.dim()))},
                ),
                (
                    "batch-norm",
                    "This is batch norm: mean and variance run over batch and tokens.",
                    {"over": lambda x: tuple(range(max(x.dim() - 1, 1)))},
                ),
            ),
        ),
        Mistake("default-eps-1e-6", "The default of eps is 1e-5.", _default_eps(_layer_norm, 1e-6)),
        Mistake("default-eps-1e-8", "The default of eps is 1e-5.", _default_eps(_layer_norm, 1e-8)),
    ),
    forbidden=_not(*_ALONG_A_TOKEN, *_ALONG_THE_BATCH),
    library="torch",
)

_BATCH_NORM = Exercise(
    name="batch_norm",
    unit=UNIT,
    not_from=("layer_norm",),
    returns=Leaf("float array", "the result"),
    reference=_batch_norm,
    draw=_draw_batch_norm,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    mistakes=(
        *parts.with_slips(_over_tokens, _NORM_SLIPS),
        *parts.with_slips(
            _over_tokens,
            (
                (
                    "layer-norm",
                    "This is layer norm: mean and variance run over the features of one token.",
                    {"over": lambda x: (2,)},
                ),
                (
                    "over-batch-only",
                    "Mean and variance run over the batch only; they run over batch and tokens.",
                    {"over": lambda x: (0,)},
                ),
                (
                    "over-tokens-only",
                    "Mean and variance run over the tokens of one sequence; they run over the batch, too.",
                    {"over": lambda x: (1,)},
                ),
                (
                    "over-everything",
                    "All numbers share one mean and variance; each feature has its own.",
                    {"over": lambda x: (0, 1, 2)},
                ),
                (
                    "over-batch-and-features",
                    "Mean and variance run over batch and features; over batch and tokens.",
                    {"over": lambda x: (0, 2)},
                ),
                (
                    "over-tokens-and-features",
                    "Mean and variance run over tokens and features; over batch and tokens.",
                    {"over": lambda x: (1, 2)},
                ),
            ),
        ),
        Mistake("default-eps-1e-8", "The default of eps is 1e-5.", _default_eps(_batch_norm, 1e-8)),
        Mistake(
            "evaluation-mode",
            "Mean 0 and variance 1 are taken as given. In training mode they are those of the batch.",
            lambda x, gamma, beta, eps=1e-5: gamma * x / (1 + eps) ** 0.5 + beta,
        ),
        Mistake(
            "reshaped-not-transposed",
            "A reshape alone does not bring the features to the front: here each row holds several of them.",
            lambda x, gamma, beta, eps=1e-5: (
                gamma * _over_last(x.reshape(x.shape[-1], -1), 1.0, 0.0, eps).reshape(x.shape) + beta
            ),
        ),
        Mistake(
            "divided-by-the-batch",
            "The squares are divided by B alone; there are B·n numbers of each feature.",
            lambda x, gamma, beta, eps=1e-5: (
                gamma * (x - (mean := x.mean((0, 1)))) / ((x - mean).square().sum((0, 1)) / len(x) + eps).sqrt() + beta
            ),
        ),
    ),
    forbidden=_not(*_ALONG_THE_BATCH, *_ALONG_A_TOKEN),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# gelu


def _gelu(x: Tensor) -> Tensor:
    return F.gelu(x)


def _draw_gelu(rng: np.random.Generator) -> list[Case]:
    B, n, d = distinct(rng, 3, 3, 8)
    sizes = {"B": B, "n": n, "d": d}
    return [
        Case("values", f"x of shape {(B, n, d)}", (normal(rng, B, n, d, scale=1.5),), sizes=sizes),
        Case("values", "a vector", (normal(rng, 17, scale=1.5),), sizes={"d": 17}),
        Case("values", "float32", (normal(rng, B, n, d, scale=1.5, dtype=np.float32),), sizes=sizes),
        Case("values", "from −5 to 5", (np.linspace(-5, 5, 33),)),
        Case("edge cases", "zero", (np.zeros((n, d)),), sizes={"n": n, "d": d}),
        Case("edge cases", "very large and very small", (np.array([[1e4, -1e4, 30.0], [-30.0, 1e-9, -1e-9]]),)),
        Case("edge cases", "large, float32", (np.array([1e4, -1e4, 12.0, -12.0], np.float32),)),
        Case("edge cases", "a single number", (np.array([0.7]),)),
        Case("edge cases", "memory that is not contiguous", (strided(normal(rng, n, d)),)),
    ]


_GELU = Exercise(
    name="gelu",
    unit=UNIT,
    returns=Leaf("float array", "the result"),
    reference=_gelu,
    draw=_draw_gelu,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    mistakes=(
        Mistake(
            "tanh-form",
            "This is the approximation with tanh; the exact form with erf is asked for.",
            lambda x: F.gelu(x, approximate="tanh"),
        ),
        Mistake(
            "sigmoid-form",
            "This is the approximation x·σ(1.702 x); the exact form is asked for.",
            lambda x: x * torch.sigmoid(1.702 * x),
        ),
        Mistake("silu", "This is SiLU, x·σ(x). GELU weighs x with the normal distribution.", F.silu),
        Mistake(
            "relu", "This is ReLU, which cuts off all below zero. GELU weighs x with the normal distribution.", F.relu
        ),
        Mistake("root-missing", "erf is taken of x, not of x/√2.", lambda x: 0.5 * x * (1 + torch.erf(x))),
        Mistake("divided-by-two", "erf is taken of x/2, not of x/√2.", lambda x: 0.5 * x * (1 + torch.erf(x / 2))),
        Mistake(
            "times-root-two",
            "erf is taken of x·√2, not of x/√2.",
            lambda x: 0.5 * x * (1 + torch.erf(x * math.sqrt(2))),
        ),
        Mistake("half-missing", "The factor ½ is missing.", lambda x: 2 * F.gelu(x)),
        Mistake(
            "share-only",
            "This is Φ(x), the share; it is still to be multiplied by x.",
            lambda x: 0.5 * (1 + torch.erf(x / math.sqrt(2))),
        ),
        Mistake("one-missing", "The 1 beside erf is missing.", lambda x: 0.5 * x * torch.erf(x / math.sqrt(2))),
        Mistake("sign-of-erf", "erf is subtracted; add it.", lambda x: 0.5 * x * (1 - torch.erf(x / math.sqrt(2)))),
        Mistake(
            "brackets",
            "The brackets are misplaced: ½·x multiplies the whole of 1 + erf.",
            lambda x: 0.5 * x * 1 + torch.erf(x / math.sqrt(2)),
        ),
        Mistake(
            "density",
            "x is multiplied by the density of the normal distribution, not by its share below x.",
            lambda x: x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi),
        ),
        Mistake("tanh-for-erf", "tanh stands in place of erf.", lambda x: 0.5 * x * (1 + torch.tanh(x / math.sqrt(2)))),
        Mistake("softplus", "This is softplus. GELU weighs x with the normal distribution.", F.softplus),
        Mistake(
            "root-of-pi",
            "erf is taken of x/√π, not of x/√2.",
            lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(math.pi))),
        ),
        Mistake(
            "erfc",
            "erfc stands in place of erf.",
            lambda x: 0.5 * x * (1 + torch.erfc(x / math.sqrt(2))),
        ),
        Mistake(
            "cut-off",
            "Beyond ±2 the curve is cut off; it only comes near 0 and x there.",
            lambda x: torch.where(x > 2, x, torch.where(x < -2, torch.zeros_like(x), F.gelu(x))),
        ),
    ),
    forbidden=_not("gelu", "gelu_", "GELU", "_get_activation_fn"),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# feed_forward


def _feed_forward(
    x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor, activation: Callable[[Tensor], Tensor]
) -> Tensor:
    return F.linear(activation(F.linear(x, W_1.T, b_1)), W_2.T, b_2)


def _ffn(rng: np.random.Generator, d_model: int, d_ff: int, dtype: type = np.float64) -> list[np.ndarray]:
    return [
        normal(rng, d_model, d_ff, scale=d_model**-0.5, dtype=dtype),
        normal(rng, d_ff, scale=0.6, dtype=dtype),
        normal(rng, d_ff, d_model, scale=d_ff**-0.5, dtype=dtype),
        normal(rng, d_model, scale=0.6, dtype=dtype),
    ]


def _draw_feed_forward(rng: np.random.Generator) -> list[Case]:
    def case(
        criterion: str, label: str, shape: tuple[int, ...], activation: Activation, dtype: type = np.float64
    ) -> Case:
        d_model, d_ff = shape[-1], shape[-1] + int(rng.integers(4, 9))
        args = (normal(rng, *shape, dtype=dtype), *_ffn(rng, d_model, d_ff, dtype), activation)
        sizes = (
            {"B": shape[0], "d_model": d_model, "d_ff": d_ff} if len(shape) == 3 else {"d_model": d_model, "d_ff": d_ff}
        )
        return Case(criterion, label, args, sizes=sizes)

    B, n, d = distinct(rng, 3, 3, 8)
    apart = case("edge cases", "memory that is not contiguous", (B, n, d), Activation("silu", 1.1))
    x, W_1, b_1, W_2, b_2, activation = apart.args
    far = (strided(x), np.asfortranarray(W_1), b_1, strided(W_2), b_2, activation)
    return [
        case("values", "a smooth activation", (B, n, d), Activation("tanh", 1.4)),
        case("values", "another activation", (n, B, d), Activation("sin", 0.8)),
        case("values", "squares", (B, n, d), Activation("square", 0.9)),
        case("values", "float32", (B, n, d), Activation("softplus", 1.2), np.float32),
        case("values", "ReLU", (B, n, d), Activation("relu")),
        case("edge cases", "one token alone, x of one axis", (d,), Activation("tanh", 0.7)),
        case("edge cases", "x of two axes", (n, d), Activation("silu")),
        case("edge cases", "x of four axes", (2, B, n, d), Activation("tanh")),
        case("edge cases", "a single sequence of a single token", (1, 1, d), Activation("tanh")),
        Case("edge cases", apart.label, far, sizes=apart.sizes),
    ]


def _ffn_with(
    x: Tensor,
    W_1: Tensor,
    b_1: Tensor,
    W_2: Tensor,
    b_2: Tensor,
    activation: Callable[[Tensor], Tensor],
    *,
    inner: Callable[..., Tensor] = lambda x, W, b, f: f(x @ W + b),
    outer: Callable[..., Tensor] = lambda h, W, b, f, x: h @ W + b,
) -> Tensor:
    return outer(inner(x, W_1, b_1, activation), W_2, b_2, activation, x)


def _tied(x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor, activation: Callable[..., Tensor]) -> Tensor:
    return activation(x @ W_1 + b_1) @ W_1.T + b_2


def _maps_swapped(
    x: Tensor, W_1: Tensor, b_1: Tensor, W_2: Tensor, b_2: Tensor, activation: Callable[..., Tensor]
) -> Tensor:
    return activation(x @ W_2.T + b_1) @ W_1.T + b_2


_FEED_FORWARD = Exercise(
    name="feed_forward",
    unit=UNIT,
    returns=Leaf("float array", "the result"),
    reference=_feed_forward,
    draw=_draw_feed_forward,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    mistakes=(
        *parts.with_slips(
            _ffn_with,
            (
                (
                    "activation-missing",
                    "No activation is applied: two linear maps in a row are one.",
                    {"inner": lambda x, W, b, f: x @ W + b},
                ),
                (
                    "always-relu",
                    "The argument `activation` is not used: ReLU is built in.",
                    {"inner": lambda x, W, b, f: torch.relu(x @ W + b)},
                ),
                (
                    "always-gelu",
                    "The argument `activation` is not used: GELU is built in.",
                    {"inner": lambda x, W, b, f: F.gelu(x @ W + b)},
                ),
                ("b-1-missing", "b_1 is not added to the first map.", {"inner": lambda x, W, b, f: f(x @ W)}),
                ("b-2-missing", "b_2 is not added to the second map.", {"outer": lambda h, W, b, f, x: h @ W}),
                (
                    "b-1-after-activation",
                    "b_1 is added after the activation; it belongs inside.",
                    {"inner": lambda x, W, b, f: f(x @ W) + b},
                ),
                (
                    "both-biases-missing",
                    "Neither bias is added.",
                    {"inner": lambda x, W, b, f: f(x @ W), "outer": lambda h, W, b, f, x: h @ W},
                ),
                ("b-1-subtracted", "b_1 is subtracted; add it.", {"inner": lambda x, W, b, f: f(x @ W - b)}),
                (
                    "activation-last",
                    "The activation comes last; it belongs between the two maps.",
                    {"inner": lambda x, W, b, f: x @ W + b, "outer": lambda h, W, b, f, x: f(h @ W + b)},
                ),
                (
                    "activation-twice",
                    "The activation is applied after both maps; once, in between, is asked for.",
                    {"outer": lambda h, W, b, f, x: f(h @ W + b)},
                ),
                (
                    "activation-of-activation",
                    "The activation is applied twice in a row.",
                    {"inner": lambda x, W, b, f: f(f(x @ W + b))},
                ),
                (
                    "activation-first",
                    "The activation is applied to x; it belongs between the two maps.",
                    {"inner": lambda x, W, b, f: f(x) @ W + b},
                ),
                (
                    "residual-added",
                    "x is added to the result; that is the block's task.",
                    {"outer": lambda h, W, b, f, x: h @ W + b + x},
                ),
                (
                    "token-mean",
                    "The tokens are averaged first. The layer treats each token alone.",
                    {
                        "inner": lambda x, W, b, f: f(
                            (x.mean(-2, keepdim=True) if x.dim() > 1 else x).expand_as(x) @ W + b
                        )
                    },
                ),
                (
                    "b-2-for-each-hidden-unit",
                    "b_2 is added once for each hidden unit; add it once.",
                    {"outer": lambda h, W, b, f, x: h @ W + h.shape[-1] * b},
                ),
                (
                    "clamped-first",
                    "Negative numbers are cut off before the activation.",
                    {"inner": lambda x, W, b, f: f((x @ W + b).clamp_min(0))},
                ),
                ("b-2-twice", "b_2 is added twice; once is enough.", {"outer": lambda h, W, b, f, x: h @ W + 2 * b}),
                (
                    "gated",
                    "The activation is multiplied with its own input: that is a gated unit.",
                    {"inner": lambda x, W, b, f: f(x @ W + b) * (x @ W + b)},
                ),
            ),
        ),
        Mistake("tied", "W_1 is used both times; the second map is W_2.", _tied),
        Mistake("maps-swapped", "W_2 comes first and W_1 second, transposed so that they fit.", _maps_swapped),
    ),
    library="torch",
)


# ---------------------------------------------------------------------------------------------------------------------
# The two orders of a block


def _attend(x: Tensor, p: Params, n_heads: int, mask: Tensor | None, values: Tensor | None = None) -> Tensor:
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


def _expand(x: Tensor, p: Params) -> Tensor:
    return _feed_forward(x, p["W_1"], p["b_1"], p["W_2"], p["b_2"], F.gelu)


def _post_norm_block(x: Tensor, params: Params, n_heads: int, mask: Tensor | None = None) -> Tensor:
    x = _layer_norm(x + _attend(x, params, n_heads, mask), params["gamma_1"], params["beta_1"])
    return _layer_norm(x + _expand(x, params), params["gamma_2"], params["beta_2"])


def _pre_norm_block(x: Tensor, params: Params, n_heads: int, mask: Tensor | None = None) -> Tensor:
    x = x + _attend(_layer_norm(x, params["gamma_1"], params["beta_1"]), params, n_heads, mask)
    return x + _expand(_layer_norm(x, params["gamma_2"], params["beta_2"]), params)


def _block_params(
    rng: np.random.Generator, d_model: int, h: int, d: int, d_ff: int, dtype: type = np.float64
) -> dict[str, np.ndarray]:
    scale = 1.2 * d_model**-0.5
    gains = [*_gain(rng, d_model, dtype), *_gain(rng, d_model, dtype)]
    W_1, b_1, W_2, b_2 = _ffn(rng, d_model, d_ff, dtype)
    return {
        **{f"W_{role}": normal(rng, d_model, h * d, scale=scale, dtype=dtype) for role in "QKV"},
        "W_O": normal(rng, h * d, d_model, scale=(h * d) ** -0.5, dtype=dtype),
        "b_O": normal(rng, d_model, scale=0.5, dtype=dtype),
        "W_1": W_1,
        "b_1": b_1,
        "W_2": W_2,
        "b_2": b_2,
        **dict(zip(("gamma_1", "beta_1", "gamma_2", "beta_2"), gains, strict=True)),
    }


def _block_sizes(rng: np.random.Generator) -> dict[str, int]:
    while True:
        B, n, h, d = distinct(rng, 4, 2, 6)
        d_model = int(rng.integers(7, 11))
        if h <= 4 and h * d != d_model:
            return {"B": B, "n": n, "h": h, "d_head": d, "d_model": d_model, "d_ff": d_model + int(rng.integers(3, 9))}


def _draw_block(rng: np.random.Generator) -> list[Case]:
    def case(
        criterion: str,
        label: str,
        s: dict[str, int],
        mask: np.ndarray | None = None,
        dtype: type = np.float64,
        apart: bool = False,
        spread: float = 1.0,
    ) -> Case:
        x = normal(rng, s["B"], s["n"], s["d_model"], scale=spread, dtype=dtype)
        params = _block_params(rng, s["d_model"], s["h"], s["d_head"], s["d_ff"], dtype)
        if apart:
            x, params = strided(x), {name: np.asfortranarray(value) for name, value in params.items()}
        args = (x, params, s["h"]) if mask is None else (x, params, s["h"], mask)
        return Case(criterion, label, args, sizes=s)

    a, b, c = _block_sizes(rng), _block_sizes(rng), _block_sizes(rng)
    causal = np.tril(np.ones((a["n"], a["n"]), bool))
    empty = random_mask(rng, b["B"], b["h"], b["n"], b["n"], empty_rows=True)
    return [
        case("values", f"B = {a['B']}, n = {a['n']}, {a['h']} heads", a),
        case("values", f"B = {b['B']}, n = {b['n']}, {b['h']} heads", b, spread=3.0),
        case("values", "float32", c, dtype=np.float32),
        case("masks", "a causal mask (n, n)", a, causal),
        case("masks", "a mask of keys (B, 1, 1, n)", c, random_mask(rng, c["B"], 1, 1, c["n"])),
        case("edge cases", "queries that may attend to nothing", b, empty),
        case("edge cases", "nothing allowed at all", c, np.zeros((c["n"], c["n"]), bool)),
        case("edge cases", "a single token (n = 1)", {**c, "n": 1}),
        case("edge cases", "a single sequence (B = 1)", {**a, "B": 1}),
        case("edge cases", "one head", {**b, "h": 1}),
        case("edge cases", "memory that is not contiguous", c, apart=True),
    ]


def _block_with(
    x: Tensor,
    params: Params,
    n_heads: int,
    mask: Tensor | None = None,
    *,
    order: str = "pre",
    norms: str = "both",
    first: str = "x",
    second: str = "x",
    reads: str = "new",
    names: tuple[str, str] = ("1", "2"),
    activation: Callable[[Tensor], Tensor] = F.gelu,
    masking: Callable[[Tensor | None], Tensor | None] | str = lambda mask: mask,
    norm: Callable[..., Tensor] = _layer_norm,
    sublayers: str = "attention first",
    without: tuple[str, ...] = (),
    raw_values: bool = False,
    scale: float = 1.0,
    more_bias: float = 0.0,
    final: Callable[[Tensor, Tensor], Tensor] = lambda out, x: out,
    one_head: bool = False,
) -> Tensor:
    if masking == "causal":
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        masking = lambda mask: causal if mask is None else mask & causal  # noqa: E731
    p = {name: torch.zeros_like(value) if name in without else value for name, value in params.items()}

    def normed(z: Tensor, index: int) -> Tensor:
        kept = norms == "both" or norms == f"only {index + 1}"
        return norm(z, p[f"gamma_{names[index]}"], p[f"beta_{names[index]}"]) if kept else z

    def attention(z: Tensor) -> Tensor:
        values = x if raw_values else z
        return _attend(z, p, 1 if one_head else n_heads, masking(mask), values) + more_bias * p["b_O"]

    def expansion(z: Tensor) -> Tensor:
        return _feed_forward(z, p["W_1"], p["b_1"], p["W_2"], p["b_2"], activation)

    steps = (expansion, attention) if sublayers.startswith("feed forward") else (attention, expansion)
    if sublayers.endswith("only"):
        steps = steps[:1]
    start = x
    for index, (sublayer, residual) in enumerate(zip(steps, (first, second), strict=False)):
        inside = start if reads == "old" and index else x
        inside = normed(inside, index) if order in ("pre", "sandwich", "both") else inside
        change = sublayer(inside)
        base = {"x": x, "none": torch.zeros_like(x), "twice": 2 * x, "normed": inside, "start": start}[residual]
        if order == "after sublayer" or order == "sandwich":
            x = base + normed(change, index)
        elif order in ("post", "both"):
            x = normed(base + change, index)
        else:
            x = base + change
        x = scale * x
    return final(x, start)


def _final_norm(x: Tensor, params: Params, n_heads: int, mask: Tensor | None = None) -> Tensor:
    return _layer_norm(_pre_norm_block(x, params, n_heads, mask), params["gamma_2"], params["beta_2"])


def _tanh_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def _block_slips(order: str) -> tuple[tuple[str, str, dict[str, Any]], ...]:
    where = "before" if order == "pre" else "after"
    rows = [
        ("norm-1-missing", f"The norm {where} the attention is missing.", {"norms": "only 2"}),
        ("norm-2-missing", f"The norm {where} the feed-forward layer is missing.", {"norms": "only 1"}),
        ("norms-missing", "Both norms are missing.", {"norms": "none"}),
        ("norms-swapped", "gamma_1, beta_1 and gamma_2, beta_2 have changed places.", {"names": ("2", "1")}),
        ("first-norm-twice", "Both norms use gamma_1 and beta_1.", {"names": ("1", "1")}),
        ("second-norm-twice", "Both norms use gamma_2 and beta_2.", {"names": ("2", "2")}),
        ("no-residual-1", "x is not added to the attention.", {"first": "none"}),
        ("no-residual-2", "Nothing is added to the feed-forward layer: its residual is missing.", {"second": "none"}),
        ("no-residuals", "Both residual connections are missing.", {"first": "none", "second": "none"}),
        ("double-residual-1", "x is added twice to the attention.", {"first": "twice"}),
        ("double-residual-2", "The residual of the feed-forward layer is added twice.", {"second": "twice"}),
        (
            "residual-from-the-start",
            "The second residual is the block's input; it is the result of the first step.",
            {"second": "start"},
        ),
        (
            "parallel",
            "The feed-forward layer reads the block's input; it is to read the result of the first step.",
            {"reads": "old"},
        ),
        (
            "feed-forward-first",
            "The feed-forward layer comes first; the attention does.",
            {"sublayers": "feed forward first"},
        ),
        ("relu", "The activation is ReLU; a block uses GELU.", {"activation": torch.relu}),
        (
            "tanh-gelu",
            "The activation is the approximation of GELU with tanh; the exact form is asked for.",
            {"activation": _tanh_gelu},
        ),
        ("no-activation", "The feed-forward layer has no activation.", {"activation": lambda z: z}),
        ("silu", "The activation is SiLU; a block uses GELU.", {"activation": F.silu}),
        ("mask-ignored", "The mask is not handed to the attention.", {"masking": lambda mask: None}),
        ("mask-inverted", parts.INVERTED, {"masking": lambda mask: None if mask is None else ~mask}),
        ("b-o-missing", "The bias b_O of the attention is missing.", {"without": ("b_O",)}),
        ("b-1-missing", "b_1 of the feed-forward layer is not used.", {"without": ("b_1",)}),
        ("b-2-missing", "b_2 of the feed-forward layer is not used.", {"without": ("b_2",)}),
        ("both-b-missing", "b_1 and b_2 are not used.", {"without": ("b_1", "b_2")}),
        ("b-o-twice", "b_O is added twice: it is part of the attention already.", {"more_bias": 1.0}),
        ("attention-only", "The feed-forward layer is missing.", {"sublayers": "attention only"}),
        (
            "attention-missing",
            "The attention is missing: no token sees another.",
            {"sublayers": "feed forward only", "names": ("2", "1")},
        ),
        (
            "steps-and-norms-swapped",
            "The feed-forward layer, with its own norm, comes first; the attention does.",
            {"sublayers": "feed forward first", "names": ("2", "1")},
        ),
        (
            "always-causal",
            "Later tokens are left out even where no mask says so. The block takes the mask as it comes.",
            {"masking": "causal"},
        ),
        (
            "rms-norm",
            "The norm does not subtract the mean: that is RMSNorm.",
            {"norm": lambda z, g, b: _over_last(z, g, b, centre=False, spread="mean square")},
        ),
        (
            "batch-norm",
            "The norm runs over batch and tokens; each token is normalised alone.",
            {"norm": lambda z, g, b: _batch_norm(z, g, b)},
        ),
        (
            "other-eps",
            "The norms use another eps than layer_norm's default.",
            {"norm": lambda z, g, b: _layer_norm(z, g, b, 1e-3)},
        ),
        ("halved", "Stream and sublayer are averaged; add them.", {"scale": 0.5}),
        ("input-added-again", "The block's input is added once more in the end.", {"final": lambda out, x: out + x}),
        ("sandwich", "There is a norm before and one after each sublayer.", {"order": "sandwich"}),
        (
            "norm-before-and-after",
            "Each step is normed before the sublayer and once more after the addition. One norm for each is asked for.",
            {"order": "both"},
        ),
        ("betas-missing", "The norms' beta is not used.", {"without": ("beta_1", "beta_2")}),
        (
            "unbiased-variance",
            "The norm divides by one less than the number of features.",
            {"norm": lambda z, g, b: _over_last(z, g, b, correction=1)},
        ),
        (
            "root-missing",
            "The norm divides by the variance; divide by its root.",
            {"norm": lambda z, g, b: _over_last(z, g, b, place="no root")},
        ),
        (
            "norm-over-tokens",
            "The norm runs over the tokens; each token is normalised alone.",
            {"norm": lambda z, g, b: _over_last(z, g, b, over=lambda x: (1,))},
        ),
        (
            "gamma-and-beta-swapped",
            "gamma and beta of the norms have changed places.",
            {"norm": lambda z, g, b: _layer_norm(z, b, g)},
        ),
        ("one-head", "n_heads is not handed to the attention.", {"one_head": True}),
        (
            "norm-of-sublayer",
            "The norm is taken of the sublayer's result alone, and then x is added.",
            {"order": "after sublayer"},
        ),
    ]
    if order == "pre":
        rows += [
            ("post-norm", "This is the order of 2017, add then norm; here the norm comes first.", {"order": "post"}),
            (
                "values-not-normed",
                "Queries and keys come from the normed stream, the values from the raw one.",
                {"raw_values": True},
            ),
            (
                "residual-of-the-norm",
                "The normalised x is added; the residual is x as it came.",
                {"first": "normed", "second": "normed"},
            ),
            (
                "residual-of-the-norm-1",
                "In the first step the normalised x is added; add x as it came.",
                {"first": "normed"},
            ),
            (
                "residual-of-the-norm-2",
                "In the second step the normalised x is added; add x as it came.",
                {"second": "normed"},
            ),
        ]
    else:
        rows.append(
            ("pre-norm", "This is the modern order, norm then sublayer; here add first, then norm.", {"order": "pre"})
        )
    return tuple((slug, advice, {"order": order, **options}) for slug, advice, options in rows)


def _block_exercise(name: str, order: str, reference: Callable[..., Tensor], more: tuple[Mistake, ...]) -> Exercise:
    return Exercise(
        name=name,
        unit=UNIT,
        returns=Leaf("float array", "the result"),
        reference=reference,
        draw=_draw_block,
        credit={"values": 0.5, "masks": 0.2, "edge cases": 0.2, "gradients": 0.1},
        mistakes=(*parts.with_slips(_block_with, _block_slips(order)), *more),
        forbidden=(*NOT_IN_TORCH_UNITS, "torchs_block"),
        library="torch",
    )


_POST_NORM_BLOCK = _block_exercise("post_norm_block", "post", _post_norm_block, ())
_PRE_NORM_BLOCK = _block_exercise(
    "pre_norm_block",
    "pre",
    _pre_norm_block,
    (Mistake("norm-at-the-end", "There is a third norm at the end; that belongs to the whole model.", _final_norm),),
)


# ---------------------------------------------------------------------------------------------------------------------
# transformer_logits


def _transformer_logits(tokens: Tensor, params: Params, n_heads: int) -> Tensor:
    n = tokens.shape[1]
    x = F.embedding(tokens, params["W_E"]) + params["W_pos"][:n]
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    for block in params["blocks"]:
        x = _pre_norm_block(x, block, n_heads, mask)
    return F.linear(_layer_norm(x, params["gamma_f"], params["beta_f"]), params["W_U"].T)


def _draw_transformer_logits(rng: np.random.Generator) -> list[Case]:
    def case(
        criterion: str, label: str, B: int, n: int, n_blocks: int, spare: int = 3, dtype: type = np.float64
    ) -> Case:
        s = _block_sizes(rng)
        d_model, vocab, n_ctx = s["d_model"], int(rng.integers(11, 16)), n + spare
        gamma_f, beta_f = _gain(rng, d_model, dtype)
        params = {
            "W_E": normal(rng, vocab, d_model, dtype=dtype),
            "W_pos": normal(rng, n_ctx, d_model, dtype=dtype),
            "blocks": [_block_params(rng, d_model, s["h"], s["d_head"], s["d_ff"], dtype) for _ in range(n_blocks)],
            "gamma_f": gamma_f,
            "beta_f": beta_f,
            "W_U": normal(rng, d_model, vocab, dtype=dtype),
        }
        tokens = rng.integers(0, vocab, (B, n))
        tokens[:, -1] = tokens[:, 0]  # a token that comes twice, at different positions
        sizes = {"B": B, "n": n, "vocab": vocab, "d_model": d_model, "h": s["h"], "n_ctx": n_ctx, "n_blocks": n_blocks}
        return Case(criterion, label, (tokens, params, s["h"]), sizes=sizes)

    B, n = distinct(rng, 2, 3, 6)
    return [
        case("values", "two blocks", B, n, 2),
        case("values", "three blocks", B, n + 1, 3),
        case("values", "float32", B, n, 2, dtype=np.float32),
        case("edge cases", "one block", B, n, 1),
        case("edge cases", "no block at all", B, n, 0),
        case("edge cases", "a single token (n = 1)", B, 1, 2),
        case("edge cases", "a single sequence (B = 1)", 1, n, 2),
        case("edge cases", "as many tokens as positions (n = n_ctx)", B, n, 2, spare=0),
    ]


def _model_with(
    tokens: Tensor,
    params: Params,
    n_heads: int,
    *,
    embed: Callable[[Tensor, Params], Tensor] = lambda tokens, p: p["W_E"][tokens] + p["W_pos"][: tokens.shape[1]],
    mask_of: Callable[[int], Tensor | None] = lambda n: torch.ones(n, n, dtype=torch.bool).tril(),
    blocks: Callable[[list[Params]], list[Params]] = lambda blocks: blocks,
    block: Callable[..., Tensor] = _pre_norm_block,
    between: Callable[[Tensor, Params], Tensor] = lambda x, p: x,
    only_first_causal: bool = False,
    parallel: bool = False,
    final: Callable[[Tensor, Params], Tensor] = lambda x, p: _layer_norm(x, p["gamma_f"], p["beta_f"]),
    unembed: Callable[[Tensor, Params], Tensor] = lambda x, p: x @ p["W_U"],
) -> Tensor:
    x = start = embed(tokens, params)
    for index, one in enumerate(blocks(params["blocks"])):
        mask = None if only_first_causal and index else mask_of(tokens.shape[1])
        reads = start if parallel else x
        x = between(x - reads + block(reads, one, n_heads, mask), params)
    return unembed(final(x, params), params)


def _slipped_block(**options: Any) -> Callable[..., Tensor]:
    def block(x: Tensor, params: Params, n_heads: int, mask: Tensor | None) -> Tensor:
        return _block_with(x, params, n_heads, mask, **options)

    return block


_TRANSFORMER_LOGITS = Exercise(
    name="transformer_logits",
    unit=UNIT,
    returns=Leaf("float array", "the logits"),
    reference=_transformer_logits,
    draw=_draw_transformer_logits,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    mistakes=parts.with_slips(
        _model_with,
        (
            ("no-positions", "The positions are not added.", {"embed": lambda t, p: p["W_E"][t]}),
            (
                "first-position-for-all",
                "Every token gets the first position.",
                {"embed": lambda t, p: p["W_E"][t] + p["W_pos"][0]},
            ),
            (
                "last-positions",
                "The tokens get the last n positions; they get the first n.",
                {"embed": lambda t, p: p["W_E"][t] + p["W_pos"][-t.shape[1] :]},
            ),
            (
                "positions-from-one",
                "Positions are counted from 1; count from 0.",
                {"embed": lambda t, p: p["W_E"][t] + p["W_pos"].roll(-1, 0)[: t.shape[1]]},
            ),
            (
                "positions-reversed",
                "The positions come in reverse order.",
                {"embed": lambda t, p: p["W_E"][t] + p["W_pos"][: t.shape[1]].flip(0)},
            ),
            (
                "positions-multiplied",
                "The positions are multiplied in; add them.",
                {"embed": lambda t, p: p["W_E"][t] * p["W_pos"][: t.shape[1]]},
            ),
            (
                "embedding-scaled",
                "The embedding is multiplied by √d_model, as in 2017; here it is not.",
                {"embed": lambda t, p: p["W_E"][t] * p["W_E"].shape[1] ** 0.5 + p["W_pos"][: t.shape[1]]},
            ),
            (
                "positions-twice",
                "The positions are added twice.",
                {"embed": lambda t, p: p["W_E"][t] + 2 * p["W_pos"][: t.shape[1]]},
            ),
            (
                "no-causal-mask",
                "The tokens see their own future: every block needs the causal mask.",
                {"mask_of": lambda n: None},
            ),
            (
                "causal-mask-transposed",
                "The causal mask is the wrong way round: row i may see columns 0 … i.",
                {"mask_of": lambda n: torch.ones(n, n, dtype=torch.bool).triu()},
            ),
            (
                "blind-to-itself",
                "The causal mask forbids the diagonal; a token may see itself.",
                {"mask_of": lambda n: torch.ones(n, n, dtype=torch.bool).tril(-1)},
            ),
            (
                "one-token-ahead",
                "Each token also sees the next one: the causal mask is off by one.",
                {"mask_of": lambda n: torch.ones(n, n, dtype=torch.bool).tril(1)},
            ),
            (
                "causal-mask-inverted",
                "The causal mask is True where it should forbid: here True means “may attend”.",
                {"mask_of": lambda n: torch.ones(n, n, dtype=torch.bool).triu(1)},
            ),
            ("only-first-block-causal", "Only the first block has the causal mask.", {"only_first_causal": True}),
            (
                "positions-by-token",
                "The positions are looked up with the tokens' ids. A token's position is where it stands.",
                {"embed": lambda t, p: p["W_E"][t] + p["W_pos"][t % len(p["W_pos"])]},
            ),
            (
                "last-position-for-all",
                "Every token gets the last token's position.",
                {"embed": lambda t, p: p["W_E"][t] + p["W_pos"][t.shape[1] - 1]},
            ),
            (
                "positions-in-every-block",
                "The positions are added before every block; once, at the start, is enough.",
                {
                    "embed": lambda t, p: p["W_E"][t] + p["W_pos"][: t.shape[1]],
                    "between": lambda x, p: x + p["W_pos"][: x.shape[1]],
                    "final": lambda x, p: _layer_norm(
                        x - (p["W_pos"][: x.shape[1]] if p["blocks"] else 0), p["gamma_f"], p["beta_f"]
                    ),
                },
            ),
            (
                "gain-of-the-last-block",
                "The final norm uses gamma_2 and beta_2 of the last block; it has its own.",
                {
                    "final": lambda x, p: _layer_norm(
                        x, *([p["blocks"][-1][k] for k in ("gamma_2", "beta_2")] if p["blocks"] else (None, None))
                    )
                },
            ),
            (
                "norm-after-every-block",
                "The final norm comes after every block; once, at the end, is asked for.",
                {
                    "between": lambda x, p: _layer_norm(x, p["gamma_f"], p["beta_f"]),
                    "final": lambda x, p: x if p["blocks"] else _layer_norm(x, p["gamma_f"], p["beta_f"]),
                },
            ),
            (
                "embedding-normed",
                "The embedding is normed, too; the final norm comes at the end only.",
                {"embed": lambda t, p: _layer_norm(p["W_E"][t] + p["W_pos"][: t.shape[1]], p["gamma_f"], p["beta_f"])},
            ),
            (
                "blocks-in-parallel",
                "Every block reads the embedding; each is to read what the one before wrote.",
                {"parallel": True},
            ),
            (
                "tokens-shifted",
                "The tokens are shifted by one inside the model. That is a matter of the training pairs.",
                {"embed": lambda t, p: p["W_E"][torch.cat([t[:, :1], t[:, :-1]], 1)] + p["W_pos"][: t.shape[1]]},
            ),
            ("one-block-missing", "The last block is missing.", {"blocks": lambda blocks: blocks[:-1]}),
            ("first-block-missing", "The first block is missing.", {"blocks": lambda blocks: blocks[1:]}),
            ("first-block-only", "Only the first block is used.", {"blocks": lambda blocks: blocks[:1]}),
            (
                "first-block-for-all",
                "Every layer uses the first block's weights.",
                {"blocks": lambda blocks: blocks[:1] * len(blocks)},
            ),
            ("blocks-reversed", "The blocks come in reverse order.", {"blocks": lambda blocks: blocks[::-1]}),
            ("no-blocks", "The blocks are not used.", {"blocks": lambda blocks: []}),
            (
                "post-norm",
                "The blocks add first and norm then; a pre-norm model is asked for.",
                {"block": _slipped_block(order="post")},
            ),
            ("relu", "The activation is ReLU; a block uses GELU.", {"block": _slipped_block(activation=torch.relu)}),
            (
                "tanh-gelu",
                "The activation is the approximation of GELU with tanh.",
                {"block": _slipped_block(activation=_tanh_gelu)},
            ),
            ("no-final-norm", "The final norm is missing.", {"final": lambda x, p: x}),
            (
                "final-gain-missing",
                "The final norm does not use gamma_f and beta_f.",
                {"final": lambda x, p: F.layer_norm(x, x.shape[-1:])},
            ),
            (
                "final-gain-swapped",
                "gamma_f and beta_f have changed places.",
                {"final": lambda x, p: _layer_norm(x, p["beta_f"], p["gamma_f"])},
            ),
            (
                "final-norm-twice",
                "The final norm is applied twice.",
                {
                    "final": lambda x, p: _layer_norm(
                        _layer_norm(x, p["gamma_f"], p["beta_f"]), p["gamma_f"], p["beta_f"]
                    )
                },
            ),
            (
                "embedding-as-unembedding",
                "The logits come from W_E; this model has a W_U of its own.",
                {"unembed": lambda x, p: x @ p["W_E"].T},
            ),
            (
                "probabilities",
                "These are probabilities; return the logits before the softmax.",
                {"unembed": lambda x, p: torch.softmax(x @ p["W_U"], -1)},
            ),
            (
                "log-probabilities",
                "These are log-probabilities; return the logits before the softmax.",
                {"unembed": lambda x, p: torch.log_softmax(x @ p["W_U"], -1)},
            ),
            (
                "last-position-only",
                "Only the last position's logits come back; every position has logits.",
                {"unembed": lambda x, p: (x @ p["W_U"])[:, -1]},
            ),
            ("stream-returned", "The normalised stream comes back; W_U is not applied.", {"unembed": lambda x, p: x}),
            (
                "tokens-returned",
                "The most likely tokens come back; return the logits.",
                {"unembed": lambda x, p: (x @ p["W_U"]).argmax(-1)},
            ),
        ),
    ),
    forbidden=(*NOT_IN_TORCH_UNITS, "torchs_block"),
    library="torch",
)


EXERCISES = (
    _LAYER_NORM,
    _BATCH_NORM,
    _GELU,
    _FEED_FORWARD,
    _POST_NORM_BLOCK,
    _PRE_NORM_BLOCK,
    _TRANSFORMER_LOGITS,
)
