"""Defines the exercise `ov_circuit`, which gives what a head adds to every logit for every token that it attends to."""

import numpy as np
import torch

from ..kit import IN_FLOAT64, RTOL_FLOAT64, Leaf, exercise, normal, strided


def ov_circuit(
    W_E: normal("vocab d_model"), W_V: normal("d_model d_v"), W_O: normal("d_v d_model"), W_U: normal("d_model vocab")
) -> Leaf("float array", "the circuit"):
    return torch.einsum("tm,mv,vk,ku->tu", W_E, W_V, W_O, W_U)


def plain(W_E, W_V, W_O, W_U):
    values = W_E @ W_V
    written = values @ W_O
    circuit = written @ W_U
    return circuit


def cases(case):
    falling = {"vocab": range(9, 13), "d_model": range(6, 9), "d_v": range(3, 6)}
    yield case("values", "vocab = {vocab}, d_model = {d_model}, d_v = {d_v}", **falling)
    yield case("values", "other sizes")
    yield case("values", "float32", dtype=np.float32, vocab=range(6, 9), d_model=range(9, 13))
    yield case("values", "not contiguous", layout=strided, d_model=range(3, 6), d_v=range(6, 9))
    yield case("edge cases", "all sizes equal", vocab=5, d_model=5, d_v=5)
    yield case("edge cases", "one value feature (d_v = 1)", d_v=1)
    yield case("edge cases", "a single token", vocab=1)
    yield case("edge cases", "large weights", W_U=normal("d_model vocab", 1e6))
    yield case("edge cases", "small weights", W_U=normal("d_model vocab", 1e-8))
    model = case.draw()
    yield case("values", "one head of a model", **model)
    ends = {name: model[name] for name in ("W_E", "W_U")}
    yield case("values", "another head of the same model", **ends)
    yield case("values", "float16", dtype=np.float16, rtol=0.02)
    yield case("edge cases", IN_FLOAT64, rtol=RTOL_FLOAT64)


MISTAKES = (
    ("transposed-circuit", lambda E, V, out, U: (E @ V @ out @ U).T,
     "You swap rows and columns. A row belongs to the token attended to, a column to a logit."),
    ("values-transposed", lambda E, V, out, U: E @ out.T @ V.T @ U,
     "You transpose W_V and W_O. Tokens are rows here, so weights act from the right as they are."),
    ("direct-path-added", lambda E, V, out, U: E @ U + E @ V @ out @ U,
     "You add the direct path W_E W_U. Return only what the head writes."),
    ("softmax-applied", lambda E, V, out, U: (E @ V @ out @ U).softmax(-1),
     "You take a softmax. The circuit is the effect on the logits themselves."),
)  # fmt: skip

EXERCISE = exercise(
    ov_circuit, library="torch", credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1}, sizes=range(3, 13)
)
