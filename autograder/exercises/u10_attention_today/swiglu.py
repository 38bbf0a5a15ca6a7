"""Defines the exercise `swiglu`, a feed-forward layer with three weights, in which a gate scales another projection."""

import numpy as np
import torch
import torch.nn.functional as F

from ..kit import IN_FLOAT64, RTOL_FLOAT64, Leaf, by_columns, exercise, normal, strided, weights


def swiglu(
    x: normal("B n d_model"),
    W_gate: weights("d_model d_ff", 1.3),
    W_up: weights("d_model d_ff"),
    W_down: weights("d_ff d_model"),
) -> Leaf("float array", "the result"):
    gate, up = F.linear(x, W_gate.T), F.linear(x, W_up.T)
    return F.linear(F.glu(torch.cat([gate * up, gate], dim=-1)), W_down.T)


def plain(x, W_gate, W_up, W_down):
    gate = F.silu(x @ W_gate)
    up = x @ W_up
    hidden = gate * up
    return hidden @ W_down


def cases(case):
    yield case("values")
    yield case("values", "larger numbers", x=normal("B n d_model", 3.0))
    yield case("values", "float32", dtype=np.float32)
    yield case("values", "many hidden columns (d_ff = {d_ff})", d_ff=range(66, 80))
    yield case("edge cases", "one token alone, x of one axis", x=normal("d_model"))
    yield case("edge cases", "x of two axes", x=normal("n d_model"))
    yield case("edge cases", "x of four axes", x=normal("2 m n d_model"))
    yield case("edge cases", "a single sequence of a single token", B=1, n=1)
    yield case("edge cases", "large numbers of both signs", x=normal("B n d_model", 3000.0))
    yield case("edge cases", "memory that is not contiguous", layout={"x": strided, "W_gate": by_columns})
    yield case("edge cases", IN_FLOAT64, rtol=RTOL_FLOAT64)
    drawn = case.draw(x=normal("2 2 m n d_model"))
    drawn["x"][0, 0, 0, 1] = 0.0
    yield case("edge cases", "x of five axes, a token of zeros", **drawn)
    large = normal("d_model", 3000.0)
    yield case("gradients", "gradients, one token alone, large numbers", x=large, d_ff=24, gradient=True)


def gated(x, W_gate, W_up, W_down, *, opens=F.silu, up=lambda z: z, join=torch.mul):
    """Apply a gated layer with slips."""
    return join(opens(x @ W_gate), up(x @ W_up)) @ W_down


MISTAKES = (
    ("activation-twice", {"up": F.silu}, "You apply SiLU to both; only the gate should go through it."),
    ("activation-last", {"opens": lambda z: z, "join": lambda one, other: F.silu(one * other)},
     "You take SiLU of the product. Take it of the gate, and then multiply."),
    ("no-gate", lambda x, W_gate, W_up, W_down: F.silu(x @ W_up) @ W_down,
     "You don't use the gate. That is a feed-forward layer of two weights."),
)  # fmt: skip

EXERCISE = exercise(swiglu, credit={"values": 0.6, "edge cases": 0.3, "gradients": 0.1}, slipped=gated, library="torch")
