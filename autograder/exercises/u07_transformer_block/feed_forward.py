"""Defines the exercise `feed_forward`, which applies two linear maps with an activation between to each token."""

import numpy as np
import torch
import torch.nn.functional as F

from ..kit import IN_FLOAT64, RTOL_FLOAT64, Activation, Drawn, Leaf, by_columns, exercise, normal, strided, weights
from .parts import full


def feed_forward(
    x: normal("B n d_model"),
    W_1: weights("d_model d_ff"),
    b_1: normal("d_ff", 0.6),
    W_2: weights("d_ff d_model"),
    b_2: normal("d_model", 0.6),
    activation: Drawn("", lambda rng, shape, sizes: Activation("tanh", 1.1)),
) -> Leaf("float array", "the result"):
    return F.linear(activation(F.linear(x, W_1.T, b_1)), W_2.T, b_2)


def plain(x, W_1, b_1, W_2, b_2, activation):
    hidden = activation(x @ W_1 + b_1)
    return hidden @ W_2 + b_2


def cases(case):
    tanh = Activation("tanh")
    yield case("values", "a smooth activation", activation=Activation("tanh", 1.4))
    yield case("values", "another activation", activation=Activation("sin", 0.8))
    yield case("values", "squares", activation=Activation("square", 0.9))
    yield case("values", "float32", activation=Activation("softplus", 1.2), dtype=np.float32)
    yield case("values", "many hidden columns (d_ff = {d_ff})", activation=tanh, d_ff=range(66, 80))
    yield case("values", "ReLU", activation=Activation("relu"))
    alone = {"x": normal("d_model"), "activation": Activation("tanh", 0.7)}
    yield case("edge cases", "one token alone, x of one axis", **alone)
    yield case("edge cases", "x of two axes", x=normal("n d_model"), activation=Activation("silu"))
    yield case("edge cases", "x of four axes", x=normal("2 m n d_model"), activation=tanh)
    yield case("edge cases", "a single sequence of a single token", B=1, n=1, activation=tanh)
    apart = {"x": strided, "W_1": by_columns, "W_2": strided}
    yield case(
        "edge cases", "tokens that were transposed", layout={"x": by_columns}, activation=Activation("tanh", 0.9)
    )
    yield case("edge cases", "memory that is not contiguous", layout=apart, activation=Activation("silu", 1.1))
    yield case("edge cases", "x of five axes", x=normal("2 1 3 n d_model"), activation=tanh)
    large = {"x": normal("B n d_model", 1e4), "activation": Activation("relu")}
    yield case("edge cases", "numbers of some 10,000", **large)
    drawn = case.draw(activation=Activation("softplus"), b_1=full("d_ff", 0.0))
    drawn["x"][0, 1] = 0.0
    yield case("edge cases", "float16", dtype=np.float16, rtol=0.02)
    yield case("edge cases", IN_FLOAT64, activation=Activation("relu"), rtol=RTOL_FLOAT64)
    yield case("edge cases", "a token of zeros, no bias, and an activation that is not 0 at 0", **drawn)


def mean_of_tokens(x):
    return x.mean(-2, keepdim=True).expand_as(x) if x.dim() > 1 else x


MISTAKES = (
    ("always-relu", lambda x, W_1, b_1, W_2, b_2, f: torch.relu(x @ W_1 + b_1) @ W_2 + b_2,
     "You don't use the argument `activation`, because ReLU is built in."),
    ("always-gelu", lambda x, W_1, b_1, W_2, b_2, f: F.gelu(x @ W_1 + b_1) @ W_2 + b_2,
     "You don't use the argument `activation`, because GELU is built in."),
    ("activation-last", lambda x, W_1, b_1, W_2, b_2, f: f((x @ W_1 + b_1) @ W_2 + b_2),
     "You apply the activation at the end. Apply it between the two maps."),
    ("activation-twice", lambda x, W_1, b_1, W_2, b_2, f: f(f(x @ W_1 + b_1) @ W_2 + b_2),
     "You apply the activation after both maps. Apply it once, in between."),
    ("activation-first", lambda x, W_1, b_1, W_2, b_2, f: (f(x) @ W_1 + b_1) @ W_2 + b_2,
     "You apply the activation to x. Apply it between the two maps."),
    ("residual-added", lambda x, W_1, b_1, W_2, b_2, f: f(x @ W_1 + b_1) @ W_2 + b_2 + x,
     "You add x to the result. That is the block's task."),
    ("token-mean", lambda x, W_1, b_1, W_2, b_2, f: f(mean_of_tokens(x) @ W_1 + b_1) @ W_2 + b_2,
     "You average the tokens first. The layer treats each token by itself."),
    ("b-2-for-each-hidden-unit", lambda x, W_1, b_1, W_2, b_2, f: f(x @ W_1 + b_1) @ W_2 + len(W_2) * b_2,
     "You add b_2 once for each hidden unit. Add it once."),
    ("gated", lambda x, W_1, b_1, W_2, b_2, f: (f(x @ W_1 + b_1) * (x @ W_1 + b_1)) @ W_2 + b_2,
     "You multiply the activation by its own input. That is a gated unit."),
    ("tied", lambda x, W_1, b_1, W_2, b_2, f: f(x @ W_1 + b_1) @ W_1.T + b_2,
     "You use W_1 both times. The second map is W_2."),
    ("maps-swapped", lambda x, W_1, b_1, W_2, b_2, f: f(x @ W_2.T + b_1) @ W_1.T + b_2,
     "You apply W_2 first and W_1 second, transposed so that they fit."),
)  # fmt: skip

EXERCISE = exercise(
    feed_forward,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    ranges={"d_ff": range(10, 17)},
    library="torch",
)
