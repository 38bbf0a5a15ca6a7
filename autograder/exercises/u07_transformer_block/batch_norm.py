"""Defines the exercise `batch_norm`, which normalises each feature over batch and tokens, then scales and shifts it."""

import torch

from ..kit import Leaf, exercise, normal, with_a_row_of_zeros
from .norms import NORM_SLIPS, edge_cases, further_cases, over_last, over_tokens, tokens, value_cases
from .parts import NO_NORM_OF_TORCH, gain


def batch_norm(x: tokens("B n d"), gamma: gain("d"), beta: normal("d", 0.7), eps: float = 1e-5) -> Leaf(
    "float array", "the result"
):
    variance, mean = torch.var_mean(x, (0, 1), correction=0)
    return torch.addcmul(beta, gamma, (x - mean) * torch.rsqrt(variance + eps))


def plain(x, gamma, beta, eps=1e-5):
    mean = x.mean(dim=(0, 1), keepdim=True)
    variance = x.var(dim=(0, 1), unbiased=False, keepdim=True)
    deviation = torch.sqrt(variance + eps)
    normalised = (x - mean) / deviation
    return gamma * normalised + beta


def cases(case):
    yield from value_cases(case, small=1e-3)
    drawn = case.draw(eps=1e-3)
    drawn["x"][:, :, 1] = 0.75
    yield case("edge cases", "a constant feature", **drawn)
    yield case("edge cases", "a single sequence (B = 1)", B=1, eps=0.1)
    yield case("edge cases", "a token of zeros", layout={"x": with_a_row_of_zeros}, eps=0.1)
    yield from edge_cases(case, along=(0, 1))
    yield case("edge cases", "a single token in all (B = n = 1)", B=1, n=1, eps=0.1)
    yield from further_cases(case, (..., 1), "a feature that is the same everywhere", "a feature that is 0 everywhere")


def reshaped(x, gamma, beta, eps=1e-5):
    return gamma * over_last(x.reshape(x.shape[-1], -1), 1.0, 0.0, eps).reshape(x.shape) + beta


def divided_by_the_batch(x, gamma, beta, eps=1e-5):
    centred = x - x.mean((0, 1))
    return gamma * centred / (centred.square().sum((0, 1)) / len(x) + eps).sqrt() + beta


MISTAKES = (
    *NORM_SLIPS,
    ("layer-norm", {"over": lambda x: (2,)},
     "You compute layer norm, with mean and variance over the features of one token."),
    ("over-batch-and-features", {"over": lambda x: (0, 2)},
     "You take mean and variance over batch and features. Take them over batch and tokens."),
    ("over-tokens-and-features", {"over": lambda x: (1, 2)},
     "You take mean and variance over tokens and features. Take them over batch and tokens."),
    ("evaluation-mode", lambda x, gamma, beta, eps=1e-5: gamma * x / (1 + eps) ** 0.5 + beta,
     "You take mean 0 and variance 1 as given. In training mode they are those of the batch."),
    ("reshaped-not-transposed", reshaped,
     "You bring the features to the front only by a reshape, so each row holds several of them."),
    ("divided-by-the-batch", divided_by_the_batch,
     "You divide the squares only by B. There are B·n numbers of each feature."),
)  # fmt: skip

EXERCISE = exercise(
    batch_norm,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    slipped=over_tokens,
    library="torch",
    forbidden=NO_NORM_OF_TORCH,
    not_from=("layer_norm",),
)
