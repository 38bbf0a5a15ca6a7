"""Defines the exercise `flash_backward`, which computes attention's gradients in blocks, from output and logsumexp."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from ..kit import NOT_IN_TORCH_UNITS, Leaf, exercise, normal
from .parts import BLOCKS, equal_queries, other_blocks, zeros_and_twins

#: Every form of autograd, which would do the whole exercise.
NO_AUTOGRAD = ("torch.autograd", "torch.func", "torch._functorch")
NO_BACKWARD_OF_TORCH = (
    "aten._scaled_dot_product_flash_attention_for_cpu_backward",
    "aten._scaled_dot_product_flash_attention_backward",
    "aten._scaled_dot_product_efficient_attention_backward",
    "aten._scaled_dot_product_cudnn_attention_backward",
    "aten._flash_attention_backward",
    "aten._efficient_attention_backward",
)


def flash_backward(
    Q: normal("B h n d"), K: normal("B h n d"), V: normal("B h n d"), out, logsumexp, d_out: normal("B h n d"),
    block_size: int,
) -> (Leaf("float array", "dQ"), Leaf("float array", "dK"), Leaf("float array", "dV")):  # fmt: skip
    leaves = [array.detach().requires_grad_() for array in (Q, K, V)]
    with torch.enable_grad():
        return torch.autograd.grad((F.scaled_dot_product_attention(*leaves) * d_out).sum(), leaves)


def with_forward(drawn):
    """Add the output and the logsumexp of Q, K and V to the arguments."""
    Q, K, V = (drawn[name] for name in "QKV")
    scores = Q @ K.swapaxes(-1, -2) / math.sqrt(Q.shape[-1])
    top = scores.max(-1, keepdims=True)
    terms = np.exp(scores - top)
    total = terms.sum(-1, keepdims=True)
    return {**drawn, "out": terms @ V / total, "logsumexp": (top + np.log(total))[..., 0]}


def plain(Q, K, V, out, logsumexp, d_out, block_size):
    n, d = Q.shape[-2], Q.shape[-1]
    dQ, dK, dV = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V)
    row_sum = (out * d_out).sum(-1, keepdim=True)
    for start in range(0, n, block_size):
        end = start + block_size
        keys, values = K[:, :, start:end], V[:, :, start:end]
        scores = Q @ keys.mT / math.sqrt(d)
        weights = torch.exp(scores - logsumexp[..., None])
        d_weights = d_out @ values.mT
        d_scores = weights * (d_weights - row_sum)
        dQ = dQ + d_scores @ keys / math.sqrt(d)
        dK[:, :, start:end] = d_scores.mT @ Q / math.sqrt(d)
        dV[:, :, start:end] = weights.mT @ d_out
    return dQ, dK, dV


def cases(case):
    def given(criterion, label, dtype=None, watch=0, change=None, rtol=None, **sizes):
        drawn = case.draw(**sizes)
        if change is not None:
            change(drawn)
        return case(criterion, label, dtype=dtype, watch=watch, rtol=rtol, **with_forward(drawn))

    block = int(case.rng.integers(5, 8))
    rest = int(case.rng.integers(1, block - 1))
    small = int(case.rng.integers(3, 5))
    odd = {"n": 3 * small + int(case.rng.integers(1, small)), "block_size": small}
    tiled = {"n": 4 * block, "block_size": block, "watch": "B*h*n*n"}
    yield given("values in blocks", "n = {n}, blocks of {block_size}", **tiled)
    yield given("values in blocks", "one head", **{**tiled, "B": 1, "h": 1})
    yield given("values in blocks", "float32", np.float32, **tiled)
    yield given("values in blocks", "float16", np.float16, **{**tiled, "rtol": 0.05})
    yield given("values in blocks", "sharper weights", n=3 * small, block_size=small, change=sharper)
    yield given("last block", "n = {n}, blocks of {block_size}", **{**tiled, "n": 4 * block + rest})
    narrow = {"B": 1, "h": 1, "n": 12, "d": 2, "block_size": 3}
    yield given("values in blocks", "n = 12, blocks of 3", watch="n*n", **narrow)
    yield given("last block", "the last block holds one key", n=2 * small + 1, block_size=small)
    yield given("block sizes", "blocks of one key", n=odd["n"], block_size=1)
    yield given("block sizes", "one block just as long as n", n=3 * small, block_size="n")
    yield given("block sizes", "a block longer than n", n=odd["n"], block_size=2 * odd["n"] + 1)
    yield given("block sizes", "a single token (n = 1)", n=1, block_size=small)
    for words, sign in (("near 10,000", 1), ("near −10,000", -1)):
        yield given("large scores", f"all scores {words}", change=all_near(sign), **odd)
    yield given("large scores", "one query's scores near 10,000, the next one's near -10,000", change=in_turn, **odd)
    yield given("large scores", "scores of ±10,000", change=both_signs, n=4 * small, block_size=small)
    drawn = with_forward(equal_queries(case.draw(B=1, h=1, n=15, d=2, block_size=5)))
    yield case("values in blocks", f"n = {{n}}, blocks of {{block_size}}: {BLOCKS}", watch=5, **drawn)
    drawn = with_forward(zeros_and_twins(case, n=7, block_size=3))
    drawn["d_out"][..., 5, :] = 0.0
    yield case("block sizes", "two equal keys, and rows of zeros in Q, K, V and d_out", **drawn)


def sharper(drawn):
    drawn["Q"] *= 2


def all_near(sign):
    def change(drawn):
        drawn["Q"][:] = 100.0
        drawn["K"] = sign * (100 + 0.02 * drawn["K"]) / math.sqrt(drawn["d"])

    return change


def in_turn(drawn):
    """Move all scores of one query near +10,000, and those of the next near −10,000."""
    all_near(1)(drawn)
    drawn["Q"] *= np.resize([1.0, -1.0], drawn["n"])[:, None]


def both_signs(drawn):
    """Give each query several keys near +10,000, which share its weight, and others near −10,000."""
    all_near(1)(drawn)
    for name in "QK":
        drawn[name] *= np.resize([1.0, 1.0, -1.0], drawn["n"])[:, None]


def too_large(case, arrays):
    if case.label.endswith(BLOCKS):
        return other_blocks(case, arrays)
    found = next((array for array in arrays if array.dtype.kind == "f" and array.size >= case.watch), None)
    if found is None:
        return None
    n = case.sizes["n"]
    return f"your code makes a tensor of shape {found.shape}, which has as many entries per head as {n} × {n} scores"


def backward(
    Q, K, V, out, logsumexp, d_out, size, *, weights="right", row_sum="right", jacobian="right", floor=False,
):  # fmt: skip
    """Compute the gradients, block by block of keys; every default is correct.

    weights: "right", "block", "over the log" or "unstable". row_sum: "right", "block" or "queries".
    jacobian: "right", "transposed" or "diagonal".
    """
    n, root = K.shape[-2], Q.shape[-1] ** -0.5
    dQ, dK, dV = (torch.zeros_like(array) for array in (Q, K, V))
    norm = logsumexp[..., None]
    whole = (out * d_out).sum(-1, keepdim=True)
    for first in range(0, n // size * size if floor else n, size):
        block = slice(first, first + size)
        scores = Q @ K[..., block, :].mT * root
        P = {
            "right": lambda S: torch.exp(S - norm),
            "block": lambda S: torch.softmax(S, -1),
            "over the log": lambda S: torch.exp(S) / norm,
            "unstable": lambda S: torch.exp(S) / torch.exp(norm),
        }[weights](scores)
        dP = d_out @ V[..., block, :].mT
        D = {
            "right": whole,
            "block": (P * dP).sum(-1, keepdim=True),
            "queries": (P * dP).sum(-2, keepdim=True),
        }[row_sum]
        dS = P * ((1 - P) * dP if jacobian == "diagonal" else dP - D)
        if jacobian == "transposed":
            dQ[..., block, :] = dS.mT @ K * root
            dK += dS @ Q[..., block, :] * root
        else:
            dQ += dS @ K[..., block, :] * root
            dK[..., block, :] = dS.mT @ Q * root
        dV[..., block, :] = P.mT @ d_out
    return dQ, dK, dV


MISTAKES = (
    ("jacobian-transposed", {"jacobian": "transposed"},
     "You transpose the gradient of the scores. Its rows belong to queries, its columns to keys. dQ sums over keys, "
     "dK over queries."),
    ("row-sum-over-queries", {"row_sum": "queries"},
     "You subtract a sum over the queries. The softmax runs along the keys of one query, so sum along its row."),
    ("row-sum-of-the-block", {"row_sum": "block"},
     "You subtract a sum over only one block of keys. It runs over the whole row, and is known before the loop."),
    ("diagonal-only", {"jacobian": "diagonal"},
     "You treat each weight as if it depended only on its own score, by p(1 − p). It depends on all scores of its "
     "row."),
    ("logsumexp-as-sum", {"weights": "over the log"},
     "You divide the exponentials by logsumexp, as if it were their sum. It is the logarithm of the sum."),
    ("softmax-of-the-block", {"weights": "block"},
     "You take a softmax in every block of keys. A row of weights sums to 1 over all blocks together."),
    ("unstable", {"weights": "unstable"},
     "Large scores overflow, because you take the exponential of a score as it is. What can you subtract from it "
     "first?"),
    ("last-block-dropped", {"floor": True}, "You leave out a last block of keys that is not whole."),
)  # fmt: skip

EXERCISE = exercise(
    flash_backward,
    credit={"values in blocks": 0.5, "last block": 0.15, "block sizes": 0.15, "large scores": 0.2},
    sizes=range(2, 7),
    slipped=backward,
    library="torch",
    forbidden=(*NOT_IN_TORCH_UNITS, *NO_AUTOGRAD, *NO_BACKWARD_OF_TORCH),
    not_from=("loop_attention", "batched_attention", "tiled_attention"),
    made=too_large,
)
