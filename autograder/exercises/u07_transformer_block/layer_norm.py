"""Defines the exercise `layer_norm`, which normalises each token over its features, then scales and shifts it."""

import torch
import torch.nn.functional as F

from ..kit import Leaf, exercise, normal
from .norms import NORM_SLIPS, edge_cases, further_cases, over_last, tokens, value_cases
from .parts import NO_NORM_OF_TORCH, gain


def layer_norm(x: tokens("B n d"), gamma: gain("d"), beta: normal("d", 0.7), eps: float = 1e-5) -> Leaf(
    "float array", "the result"
):
    return F.layer_norm(x, (x.shape[-1],), gamma, beta, eps)


def plain(x, gamma, beta, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, unbiased=False, keepdim=True)
    deviation = torch.sqrt(variance + eps)
    normalised = (x - mean) / deviation
    return gamma * normalised + beta


def cases(case):
    yield from value_cases(case, small=3e-3)
    yield case("shapes", "x of one axis", x=tokens("d"), eps=0.1)
    yield case("shapes", "x of two axes", x=tokens("n d"), eps=0.1)
    yield case("shapes", "x of four axes", x=tokens("2 m n d"), eps=0.1)
    drawn = case.draw(eps=1e-3)
    drawn["x"][0, 1] = 0.75
    yield case("edge cases", "a constant row", **drawn)
    yield from edge_cases(case, along=(-1,))
    yield from further_cases(case, (0, 1), "a token of equal features", "a token of zeros")
    yield case("shapes", "x of five axes", x=tokens("2 1 3 n d"), eps=0.1)


MISTAKES = (
    *NORM_SLIPS,
    ("median", {"centre": "median"}, "You subtract the median. Subtract the mean."),
    ("over-tokens", {"over": lambda x: (max(x.dim() - 2, 0),)},
     "You take mean and variance over the tokens. Each token has its own, over its features."),
    ("over-tokens-and-features", {"over": lambda x: tuple(range(min(1, x.dim() - 1), x.dim()))},
     "You take mean and variance over tokens and features together. Each token has its own."),
    ("batch-norm", {"over": lambda x: tuple(range(max(x.dim() - 1, 1)))},
     "You compute batch norm, with mean and variance over batch and tokens."),
)  # fmt: skip

EXERCISE = exercise(
    layer_norm,
    credit={"values": 0.6, "shapes": 0.15, "edge cases": 0.15, "gradients": 0.1},
    slipped=over_last,
    library="torch",
    forbidden=NO_NORM_OF_TORCH,
)
