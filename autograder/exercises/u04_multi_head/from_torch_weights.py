"""Defines the exercise `from_torch_weights`, which converts nn.MultiheadAttention's weights to this course's layout."""

import numpy as np
import torch
import torch.nn.functional as F

from ..kit import Leaf, by_columns, distinct, exercise, normal, strided


def from_torch_weights(
    in_proj_weight: normal("3*d_model d_model"), out_proj_weight: normal("d_model d_model")
) -> tuple(Leaf("float array", name) for name in ("W_Q", "W_K", "W_V", "W_O")):
    """Apply nn.Linear's own rule to the unit vectors."""
    unit = torch.eye(in_proj_weight.shape[1], dtype=in_proj_weight.dtype)
    projected = F.linear(unit, in_proj_weight)
    W_Q, W_K, W_V = projected.split(in_proj_weight.shape[1], dim=1)
    return W_Q, W_K, W_V, F.linear(unit, out_proj_weight)


def plain(in_proj_weight, out_proj_weight):
    d_model = out_proj_weight.shape[0]
    W_Q = in_proj_weight[:d_model].T
    W_K = in_proj_weight[d_model : 2 * d_model].T
    W_V = in_proj_weight[2 * d_model :].T
    W_O = out_proj_weight.T
    return W_Q, W_K, W_V, W_O


def cases(case):
    for d_model in distinct(case.rng, 3, 3, 11):
        yield case("values", d_model=d_model)
    yield case("values", "float32", dtype=np.float32)
    apart = {"in_proj_weight": strided, "out_proj_weight": by_columns}
    yield case("edge cases", "memory that is not contiguous", layout=apart)
    yield case("edge cases", "d_model = 1", d_model=1)
    yield case("values", "float16", dtype=np.float16)


def untransposed(inputs, out):
    return (*inputs.split(inputs.shape[1]), out)


def every_third(inputs, out):
    return inputs[0::3].mT, inputs[1::3].mT, inputs[2::3].mT, out.mT


MISTAKES = (
    ("not-transposed", untransposed,
     "nn.Linear computes x Wᵀ, so its weights map from the right only after you transpose them."),
    ("every-third-row", every_third, "You take every third row. The three weights are blocks of d_model rows."),
)  # fmt: skip

EXERCISE = exercise(
    from_torch_weights, credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1}, sizes=range(3, 12), library="torch"
)
