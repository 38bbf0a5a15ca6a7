"""Defines the exercise `composition_score`, which measures how much of a head's output a later head's keys read."""

import numpy as np
import torch
from torch.linalg import norm

from ..kit import IN_FLOAT64, OF_INPUTS, RTOL_FLOAT64, Drawn, Leaf, exercise, normal, strided


def circuit(rank, scale=1.0):
    """Draw the d_model × d_model product of two thin factors, as in a head."""

    def make(rng, shape, sizes):
        return scale * rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))

    return Drawn("d_model d_model", make)


def composition_score(W_QK: circuit(2), W_OV: circuit(3)) -> Leaf("float", "the score", exactly=OF_INPUTS):
    norms = W_QK.square().sum().sqrt() * W_OV.square().sum().sqrt()
    together = torch.einsum("qk,mk->qm", W_QK, W_OV)
    return together.square().sum().sqrt() / norms if norms > 0 else torch.zeros((), dtype=W_QK.dtype)


def plain(W_QK, W_OV):
    if not (W_QK.any() and W_OV.any()):
        return torch.zeros((), dtype=W_QK.dtype)
    together = W_QK @ W_OV.T
    score = norm(together) / (norm(W_QK) * norm(W_OV))
    return score


def cases(case):
    yield case("values", "d_model = {d_model}")
    yield case("values", "float32", dtype=np.float32, W_QK=circuit(3), W_OV=circuit(4))
    yield case("values", "large weights", W_QK=circuit(2, 300.0))
    drawn = case.draw()
    late = np.arange(drawn["d_model"]) >= drawn["d_model"] // 2
    into = drawn["W_OV"] * ~late[:, None] * late  # reads the first half of the features, writes to the second
    yield case("values", "the keys read what the head writes", W_QK=drawn["W_QK"] * late, W_OV=into)
    yield case("values", "not contiguous", layout=strided, W_QK=circuit(3), W_OV=circuit(4))
    yield case("values", "the queries read what the head writes", W_QK=drawn["W_QK"] * late[:, None], W_OV=into)
    yield case("edge cases", "d_model = 1", d_model=1)
    yield case("edge cases", "small weights", W_QK=circuit(2, 0.1), W_OV=circuit(3, 0.1))
    yield case("edge cases", "very small weights", W_QK=circuit(2, 1e-8), W_OV=circuit(3, 1e-8))
    whole = case.rng.integers(1, 9, into.shape).astype(float)
    yield case("zeros", "a circuit whose entries sum to 0, without being zero", W_QK=whole - whole.T)
    zero = np.zeros_like(into)
    yield case("zeros", "W_QK is zero", W_QK=zero)
    yield case("zeros", "W_OV is zero", W_OV=zero)
    yield case("zeros", "both are zero", W_QK=zero, W_OV=zero)
    yield case("zeros", "the keys read nothing of what the head writes", W_QK=drawn["W_QK"] * ~late, W_OV=into)
    yield case("zeros", "W_OV with entries that sum to 0, without being zero", W_OV=whole - whole.T)
    huge, tiny = (normal("d_model d_model", scale) for scale in (1e25, 1e-25))
    yield case("edge cases", "one circuit of huge weights, one of tiny ones", W_QK=huge, W_OV=tiny)
    yield case("edge cases", "two circuits of tiny weights", W_QK=tiny, W_OV=tiny)
    yield case("values", "the gradient of a score that is a tensor", gradient=True, rtol=1e-5)
    yield case("values", IN_FLOAT64, rtol=RTOL_FLOAT64)


def composed(
    W_QK, W_OV, *,
    product=lambda A, B: A @ B.T, norm=torch.linalg.norm, above=None, below=lambda a, b: a * b,
    after=lambda score, d: score,
):  # fmt: skip
    """Compute the score with an option for each slip. above: the norm of the product, if another one."""
    score = (above or norm)(product(W_QK, W_OV)) / below(norm(W_QK), norm(W_OV))
    if not (W_QK.any() and W_OV.any()):
        score = torch.zeros((), dtype=W_QK.dtype)
    return after(score, len(W_QK))


MISTAKES = (
    ("q-composition", {"product": lambda A, B: B @ A},
     "You compute Q-composition, in which the queries read the earlier head's output. In K-composition the keys do."),
    ("wrong-side-transposed", {"product": lambda A, B: A.T @ B},
     "You transpose W_QK instead of W_OV. The keys are on its right."),
    ("entry-by-entry", {"product": lambda A, B: A * B},
     "You multiply the two entry by entry. Multiply matrices."),
    ("unnormalised", {"below": lambda a, b: 1.0},
     "You don't divide the norm of the product by the two norms."),
    ("spectral-norm", {"norm": lambda W: torch.linalg.matrix_norm(W, 2)},
     "You take the largest singular value. Use the Frobenius norm."),
    ("nuclear-norm", {"norm": lambda W: torch.linalg.matrix_norm(W, "nuc")},
     "You add the singular values. Use the Frobenius norm."),
    ("sum-of-sizes", {"norm": lambda W: W.abs().sum()},
     "You add the absolute values. The Frobenius norm is the root of the summed squares."),
    ("norm-above-squared", {"above": lambda W: W.square().sum()},
     "You square the norm of the product, or leave out its root; the two norms below are right."),
    ("trace", {"above": torch.trace},
     "You take the trace of the product, which gives a cosine. Take its norm."),
    ("baseline-subtracted", {"after": lambda score, d: score - d**-0.5},
     "You subtract the score of random matrices, 1/√d_model. Return the plain quotient."),
    ("queries-and-keys", {"product": lambda A, B: B @ A @ B.T},
     "You let queries and keys both read the earlier head's output. In K-composition only the keys do."),
    ("direct-path-added", {"product": lambda A, B: A @ (torch.eye(len(B), dtype=B.dtype) + B).T},
     "You let the keys read the stream as well as the earlier head. Use only what W_OV writes."),
)  # fmt: skip

EXERCISE = exercise(
    composition_score,
    slipped=composed,
    library="torch",
    credit={"values": 0.65, "edge cases": 0.1, "zeros": 0.25},
    sizes=range(6, 11),
)
