"""Defines the exercise `gelu`, which multiplies each number by the normal distribution's probability below it."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from ..kit import Leaf, exercise, normal, strided
from .parts import full, without


def gelu(x: normal("B n d", 1.5)) -> Leaf("float array", "the result"):
    return F.gelu(x)


def plain(x):
    share = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    return x * share


def cases(case):
    yield case("values", "x of shape ({B}, {n}, {d})")
    yield case("values", "a vector", x=normal("d", 1.5), d=17)
    yield case("values", "float32", dtype=np.float32)
    yield case("values", "from −5 to 5", x=np.linspace(-5, 5, 33))
    yield case("edge cases", "zero", x=full("n d", 0.0))
    yield case("edge cases", "very large and very small", x=np.array([[1e4, -1e4, 30.0], [-30.0, 1e-9, -1e-9]]))
    yield case(
        "gradients", "gradients far from 0", x=np.array([[30.0, -30.0, 8.0], [-8.0, 200.0, -200.0]]), gradient=True
    )
    yield case("edge cases", "large, float32", x=np.array([1e4, -1e4, 12.0, -12.0], np.float32))
    yield case("edge cases", "a single number", x=np.array([0.7]))
    yield case("edge cases", "memory that is not contiguous", x=normal("n d"), layout=strided)
    near_and_far = np.array([[0.2, 1e-9, 0.4], [-0.6, 1e6, -1e6]])
    yield case("gradients", "gradients near 0 and very far from it", x=near_and_far, gradient=True)
    yield case("edge cases", "from −7 to −3, where little is left of x", x=np.linspace(-7, -3, 33))
    yield case("edge cases", "numbers of 1e-7, x of five axes", x=normal("2 1 3 2 d", 1e-7))
    yield case("edge cases", "a number without any axis", x=np.array(0.7))
    yield case("edge cases", "float16", dtype=np.float16, rtol=0.02)


MISTAKES = (
    ("tanh-form", lambda x: F.gelu(x, approximate="tanh"),
     "You use the approximation with tanh. Use the exact form with erf."),
    ("sigmoid-form", lambda x: x * torch.sigmoid(1.702 * x),
     "You use the approximation x·σ(1.702 x). Use the exact form."),
    ("silu", F.silu, "You compute SiLU, x·σ(x). GELU weighs x with the normal distribution."),
    ("relu", F.relu, "You compute ReLU, which cuts off all below zero. GELU weighs x with the normal distribution."),
    ("brackets", lambda x: 0.5 * x * 1 + torch.erf(x / math.sqrt(2)),
     "Your brackets are misplaced. ½·x should multiply the whole of 1 + erf."),
    ("density", lambda x: x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi),
     "You multiply x by the density of the normal distribution. Use the distribution's share below x."),
    ("root-of-pi", lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(math.pi))), "You take erf of x/√π. Take it of "
                                                                                "x/√2."),
    ("cut-off", lambda x: torch.where(x > 2, x, torch.where(x < -2, torch.zeros_like(x), F.gelu(x))),
     "You cut the curve off beyond ±2, where it only comes near 0 and x."),
)  # fmt: skip

EXERCISE = exercise(
    gelu,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    library="torch",
    forbidden=without("gelu", "gelu_", "GELU", "_get_activation_fn"),
)
