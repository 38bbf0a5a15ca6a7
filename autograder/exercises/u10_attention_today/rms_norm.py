"""Defines the exercise `rms_norm`, which divides every token by its root mean square without subtracting the mean."""

import torch
import torch.nn.functional as F

from ..kit import IN_FLOAT64, RTOL_FLOAT64, Leaf, exercise, strided
from ..u07_transformer_block.norms import over_last, tokens, value_cases
from ..u07_transformer_block.parts import NO_NORM_OF_TORCH, gain


def rms_norm(x: tokens("B n d"), gamma: gain("d"), eps: float = 1e-6) -> Leaf("float array", "the result"):
    return F.rms_norm(x, (x.shape[-1],), gamma, eps)


def plain(x, gamma, eps=1e-6):
    squares = x**2
    mean_square = squares.mean(dim=-1, keepdim=True)
    root = torch.sqrt(mean_square + eps)
    normalised = x / root
    return gamma * normalised


def cases(case):
    yield from value_cases(case, small=1e-3, averaged="the mean square")
    yield case("shapes", "x of one axis", x=tokens("d"), eps=0.1)
    yield case("shapes", "x of two axes", x=tokens("n d"), eps=0.1)
    yield case("shapes", "x of four axes", x=tokens("2 m n d"), eps=0.1)
    yield case("edge cases", "a single token (n = 1)", n=1, eps=0.1)
    yield case("edge cases", "a single feature (d = 1)", d=1, eps=0.1)
    yield case("edge cases", "memory that is not contiguous", layout={"x": strided})
    drawn = case.draw()
    drawn["x"][0, 1] = 0.0
    yield case("edge cases", "a row of zeros", **drawn)
    yield case("gradients", "gradients, a row of zeros", gradient=True, eps=0.1, **drawn)
    yield case("edge cases", IN_FLOAT64, eps=0.25, rtol=RTOL_FLOAT64)
    drawn = case.draw(x=tokens("2 2 m n d"))
    drawn["x"][0, 0, 0, 0] = 3.0
    drawn["gamma"][1] = 0.0
    yield case("shapes", "x of five axes, a row of equal numbers, a gamma with a 0", **drawn)


def norm(x, gamma, eps=1e-6, **slips):
    """Apply the norm of unit 7 with slips and without a shift."""
    shift = torch.zeros_like(gamma)
    return over_last(x, gamma, shift, eps, **{"centre": "none", "spread": "mean square", **slips})


MISTAKES = (
    ("variance", {"spread": "variance"},
     "You divide x by its standard deviation. The mean square has no mean subtracted."),
    ("one-plus-gamma", {"gain": "one plus"}, "You multiply the result by 1 + gamma. Multiply it by gamma itself."),
    ("gain-before-norm", lambda x, gamma, eps=1e-6: rms_norm(gamma * x, torch.ones_like(gamma), eps),
     "You apply gamma before the norm; apply it after."),
)  # fmt: skip

EXERCISE = exercise(
    rms_norm,
    credit={"values": 0.6, "shapes": 0.15, "edge cases": 0.15, "gradients": 0.1},
    slipped=norm,
    library="torch",
    forbidden=NO_NORM_OF_TORCH,
)
