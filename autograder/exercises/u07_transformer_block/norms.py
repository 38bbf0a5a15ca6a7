"""Provides cases and slips for `layer_norm` and `batch_norm`; the norms of a block use the slips, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..kit import IN_FLOAT64, RTOL_FLOAT64, Case, Cases, Drawn, Row, strided

Axes = Callable[[Tensor], tuple[int, ...]]


def tokens(shape: str, spread: float = 1.0) -> Drawn:
    """Draw normal numbers around centres that differ between rows and between features."""

    def make(rng, shape, sizes):
        centres = 2.0 * rng.standard_normal((*shape[:-1], 1)) + rng.standard_normal(shape[-1])
        return spread * (rng.standard_normal(shape) + centres)

    return Drawn(shape, make)


def value_cases(case: Cases, small: float, averaged: str = "the variance") -> Iterator[Case]:
    """Yield the ordinary cases. small: a spread of numbers so small that the default eps shows.

    averaged: what eps is added to.
    """
    yield case("values", f"x of shape ({{B}}, {{n}}, {{d}}), an eps that is large compared with {averaged}", eps=0.6)
    yield case("values", "x of shape ({B}, {n}, {d})")
    yield case("values", "float32", dtype=np.float32)
    yield case("values", "small numbers, so that the default eps shows", x=tokens("B n d", small))
    yield case("values", "eps by name", eps=0.05, by_name="eps")
    yield case("edge cases", "faint numbers and an eps of 1e-10", x=tokens("B n d", 1e-5), eps=1e-10)
    yield case("edge cases", "an eps of 0", x=tokens("B n d", 1e-3), eps=0.0)


def edge_cases(case: Cases, along: tuple[int, ...]) -> Iterator[Case]:
    """Yield sizes of 1, other memory layouts and few digits. along: the axes of one norm."""
    yield case("edge cases", "a single token (n = 1)", n=1, eps=0.1)
    yield case("edge cases", "a single feature (d = 1)", d=1, eps=0.1)
    yield case("edge cases", "memory that is not contiguous", layout={"x": strided})
    drawn = case.draw()
    # Here the mean of squares minus the squared mean has no correct digit in float32. All spreads are equal, so that no
    # norm consists of rounding errors only.
    x = drawn["x"]
    drawn["x"] = (x - x.mean(along, keepdims=True)) / x.std(along, keepdims=True) / 4 + 1000
    yield case("edge cases", "float32 numbers around 1,000", dtype=np.float32, **drawn)
    yield case("edge cases", "float64 numbers around 1,000", **drawn)


def further_cases(case: Cases, alike: Sequence[int | slice], equal: str, zeros: str) -> Iterator[Case]:
    """Yield the last cases. alike: the index of one norm's numbers in x; equal, zeros: their labels."""
    drawn = case.draw(eps=0.1)
    drawn["x"][alike] = 0.75
    yield case("gradients", f"gradients, {equal}", gradient=True, **drawn)
    yield case("edge cases", "numbers of 1e-8 and an eps of 0", x=tokens("B n d", 1e-8), eps=0.0)
    drawn = case.draw()
    drawn["gamma"][::2], drawn["x"][alike] = 0.0, 0.0
    yield case("edge cases", f"a gamma with zeros, and {zeros}", **drawn)
    yield case("edge cases", "float16", dtype=np.float16, rtol=0.02)
    yield case("edge cases", IN_FLOAT64, eps=0.25, rtol=RTOL_FLOAT64)
    # Here the mean of squares minus the squared mean has few correct digits, even in float64.
    yield case("edge cases", "numbers around 10,000 that differ by some 0.01", **near(case.draw(), 1e4, 0.01))


def near(drawn: dict[str, Any], middle: float, spread: float) -> dict[str, Any]:
    """Move x close to a number."""
    drawn["x"] = middle + spread * drawn["x"]
    return drawn


def norm_with(axes: Axes) -> Callable[..., Tensor]:
    """Return a normalisation over `axes` of x, correct unless a slip is named."""

    def norm(
        x: Tensor,
        gamma: Tensor,
        beta: Tensor,
        eps: float = 1e-5,
        *,
        over: Axes = axes,
        centre: str = "mean",
        spread: str = "variance",
        place: str = "inside",
        gain: str = "right",
        fixed: float | None = None,
    ) -> Tensor:
        eps, dims = eps if fixed is None else fixed, over(x)

        def mean(z: Tensor) -> Tensor:
            return z.mean(dims, keepdim=True)

        middle = {
            "mean": lambda: mean(x),
            "none": lambda: torch.zeros_like(x[..., :1]),
            "median": lambda: x.median(dims[0], keepdim=True).values,
            "minimum": lambda: x.amin(dims, keepdim=True),
        }[centre]()
        variance = {
            "variance": lambda: x.var(dims, correction=0, keepdim=True),
            "unbiased": lambda: x.var(dims, correction=1, keepdim=True),
            "mean square": lambda: mean(x * x),
            "mean deviation": lambda: mean((x - mean(x)).abs()).square(),
            "sum": lambda: (x - mean(x)).square().sum(dims, keepdim=True),
            "range": lambda: (x.amax(dims, keepdim=True) - x.amin(dims, keepdim=True)).square(),
        }[spread]()
        below = {
            "inside": lambda: torch.sqrt(variance + eps),
            "outside": lambda: torch.sqrt(variance) + eps,
            "squared": lambda: torch.sqrt(variance + eps * eps),
            "clamped": lambda: torch.sqrt(variance.clamp_min(eps)),
        }[place]()
        z = (x - middle) / below
        return {
            "right": lambda: gamma * z + beta,
            "none": lambda: z,
            "one plus": lambda: (1 + gamma) * z + beta,
            "together": lambda: gamma * (z + beta),
            "mean scaled": lambda: x - gamma * middle / below + beta,
            "before all": lambda: norm(gamma * x + beta, torch.ones_like(gamma), torch.zeros_like(beta), eps),
        }[gain]()

    return norm


over_last = norm_with(lambda x: (x.dim() - 1,))
over_tokens = norm_with(lambda x: (0, 1))

#: Slips of `norm_with`.
NORM_SLIPS: tuple[Row, ...] = (
    ("eps-squared", {"place": "squared"}, "You square eps before you take the root."),
    ("eps-fixed", {"fixed": 1e-5}, "You use a fixed number for eps. Use the argument."),
    ("root-mean-square", {"centre": "none", "spread": "mean square"},
     "You centre nothing and use the mean square as the variance. That is RMSNorm."),
    ("mean-square", {"spread": "mean square"}, "You use the mean of x² as the variance. Subtract the mean first."),
    ("mean-deviation-and-eps", {"spread": "mean deviation", "place": "outside"},
     "You divide by the mean absolute deviation plus eps. Use the standard deviation, with eps where the docstring "
     "puts it."),
    ("range-from-zero-to-one", {"centre": "minimum", "spread": "range", "place": "outside"},
     "You subtract the smallest value and divide by the range. Use the mean and the standard deviation."),
    ("sum-of-squares", {"spread": "sum"}, "You sum the squares. The variance is their mean."),
    ("eps-as-floor", {"place": "clamped"}, "You use eps as a floor of the variance. Add it to the variance."),
    ("only-the-mean-scaled", {"gain": "mean scaled"},
     "You divide only the mean and apply gamma only to it. Check the brackets around x − mean."),
    ("gain-before-everything", {"gain": "before all"},
     "You apply gamma and beta before you take mean and variance. Apply them after the normalisation."),
    ("no-gain", {"gain": "none"}, "You don't use gamma and beta."),
    ("one-plus-gamma", {"gain": "one plus"}, "You multiply the result by 1 + gamma. Multiply it by gamma itself."),
    ("beta-scaled", {"gain": "together"}, "You multiply beta by gamma, too. Multiply first, then add."),
)  # fmt: skip
