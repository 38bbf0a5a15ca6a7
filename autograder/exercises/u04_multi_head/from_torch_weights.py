"""from_torch_weights: the weights of nn.MultiheadAttention in the convention of this course."""

import numpy as np
import torch
import torch.nn.functional as F

from ..kit import Leaf, by_columns, distinct, exercise, normal, strided


def from_torch_weights(
    in_proj_weight: normal("3*d_model d_model"), out_proj_weight: normal("d_model d_model")
) -> tuple(Leaf("float array", name) for name in ("W_Q", "W_K", "W_V", "W_O")):
    """Read off by applying nn.Linear's own rule to the unit vectors."""
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


def converted(inputs, out, *, order="QKV", turn="all", every_third=False):
    """The weights in `order`, from blocks or every third row; `turn`: "all" are transposed, "in", "out" or "none"."""
    blocks = [inputs[at::3] for at in range(3)] if every_third else inputs.split(inputs.shape[1])
    found = [blocks["QKV".index(role)] for role in order]
    found = [block.mT if turn in ("all", "in") else block for block in found]
    return (*found, out.mT if turn in ("all", "out") else out)


MISTAKES = (
    ("not-transposed", {"turn": "none"},
     "nn.Linear computes x Wᵀ: its weights map from the right only once they are transposed."),
    ("w-o-not-transposed", {"turn": "in"}, "W_Q, W_K and W_V are right; W_O needs the same turn."),
    ("only-w-o-transposed", {"turn": "out"}, "W_O is right; the other three need the same turn."),
    ("keys-first", {"order": "KQV"}, "The blocks are named in the wrong order: queries come first, then keys."),
    ("values-first", {"order": "VQK"}, "The blocks are named in the wrong order: queries, keys, values."),
    ("keys-and-values-swapped", {"order": "QVK"}, "The blocks of keys and values are swapped."),
    ("blocks-reversed", {"order": "VKQ"}, "The blocks come in reverse order: queries, keys, values."),
    ("values-then-queries", {"order": "KVQ"}, "The blocks are named in the wrong order: queries, keys, values."),
    ("every-third-row", {"every_third": True}, "The three weights are blocks of d_model rows, not every third row."),
    ("queries-for-all", {"order": "QQQ"}, "All three are the block of the queries: move on by d_model rows."),
    ("without-w-o", lambda inputs, out: converted(inputs, out)[:3], "W_O is missing from the tuple."),
    ("one-tensor", lambda inputs, out: (inputs.mT, out.mT), "Q, K and V come as one tensor; three are asked for."),
    ("as-a-list", lambda inputs, out: list(converted(inputs, out)),
     "The result is a list. Return a tuple: `return W_Q, W_K, W_V, W_O`."),
)  # fmt: skip

EXERCISE = exercise(
    from_torch_weights,
    cases,
    MISTAKES,
    credit={"values": 0.7, "edge cases": 0.2, "gradients": 0.1},
    core="values",
    plain=plain,
    sizes=range(3, 12),
    slipped=converted,
    library="torch",
)
