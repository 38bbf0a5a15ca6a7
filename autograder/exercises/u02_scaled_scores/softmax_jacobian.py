"""Defines the exercise `softmax_jacobian`, the derivative of each softmax weight with respect to each score."""

import numpy as np

from ..kit import Drawn, Leaf, distinct, exercise, strided
from .parts import stable


def softmax_jacobian(p: Drawn("n", lambda rng, shape, sizes: stable(rng.standard_normal(shape)))) -> Leaf(
    "float array", "the Jacobian"
):
    step = 1e-30j  # so small and imaginary that the difference gives the derivative without rounding
    powers = p * np.exp(step * np.eye(len(p)))  # row j raises score j by the step
    return (powers / powers.sum(axis=1, keepdims=True)).T.imag / step.imag


def plain(p):
    diagonal = np.diag(p)
    products = np.outer(p, p)
    return diagonal - products


def cases(case):
    for n in distinct(case.rng, 3, 3, 9):
        yield case("values", "n = {n}", n=n)
    spread = case.rng.permutation(np.geomspace(1, 1e-4, 30))
    yield case("values", "30 weights, the least of them small", p=spread / spread.sum())
    n = int(case.rng.integers(4, 9))
    yield case("values", "float32", n=n, dtype=np.float32)
    yield case("values", "weights that are a slice", n=n, layout=strided)
    drawn = case.draw(n=n)
    drawn["p"][case.rng.integers(n)] = 0.0
    yield case("edge cases", "a weight that is exactly 0", p=drawn["p"] / drawn["p"].sum())
    yield case("edge cases", "equal weights", p=np.full(n, 1 / n))
    yield case("edge cases", "two weights", n=2)
    yield case("edge cases", "a single weight", p=np.ones(1))
    yield case("edge cases", "one weight that has it all", p=np.eye(n)[case.rng.integers(n)])
    yield case("values", "over 100 weights (n = {n})", n=range(131, 140))
    nearly = case.rng.uniform(0.5e-7, 1.5e-7, n)
    nearly[case.rng.integers(n)] = 0
    nearly[nearly == 0] = 1 - nearly.sum()
    yield case("edge cases", "one weight that has nearly all", p=nearly)


def products(p):
    return np.outer(p, p)


def less_products(diagonal):
    """Return `diagonal(p)` on the diagonal, minus all products."""
    return lambda p: np.diag(diagonal(p)) - products(p)


def weights_less(part):
    """Return the weights on the diagonal, minus `part(p)`."""
    return lambda p: np.diag(p) - part(p)


def in_rows(p):
    """Put p into every row."""
    return np.tile(p, (len(p), 1))


MISTAKES = (
    ("squares-in-every-row", weights_less(lambda p: p * p),
     "You put squares of one weight off the diagonal, but two different weights should be multiplied there. Do "
     "you compute an outer product? `p * p` and `p.T * p.T` have the shape (n,), so broadcasting repeats them in "
     "every row."),
    ("identity-alone", lambda p: np.eye(len(p)),
     "You return the identity matrix, as if each output were its own input. Raising one input raises one output and "
     "lowers the others, each by an amount that depends on the weights."),
    ("diagonal-only", lambda p: np.diag(p * (1 - p)),
     "You fill in only the diagonal. Raising one input also lowers all other outputs."),
    ("no-diagonal", lambda p: -products(p),
     "Your matrix lacks the part that exists only on the diagonal."),
    ("softmax-again", lambda p: np.diag(stable(p)) - products(stable(p)),
     "`p` already holds the weights. You take a softmax of them once more."),
    ("identity", less_products(np.ones_like),
     "You use an identity matrix, but the weights belong on its diagonal."),
    ("rows-scaled-once", lambda p: np.eye(len(p)) - in_rows(p),
     "Your entries lack a factor. Multiply δᵢⱼ − pⱼ by the weight of the output."),
    ("one-minus-everywhere", lambda p: p[:, None] * (1 - p),
     "You write pᵢ(1 − pⱼ) everywhere. The 1 belongs only on the diagonal."),
    ("single-number", weights_less(lambda p: p @ p),
     "You take p @ p for the outer product, but it is one number."),
    ("squared-diagonal", less_products(np.square),
     "You square the diagonal part."),
    ("diagonal-not-reduced", less_products(lambda p: p + p**2),
     "You put only pᵢ on the diagonal. By the quotient rule, something is subtracted there, too."),
    ("off-diagonal-halved", lambda p: np.diag(p - p**2 / 2) - products(p) / 2,
     "Your entries off the diagonal are half of what they should be."),
    ("log-softmax-transposed", lambda p: np.eye(len(p)) - p[:, None],
     "You return the derivative of the logarithm of the softmax, transposed."),
    ("epsilon-added", less_products(lambda p: p + 1e-3),
     "You add something small to the diagonal. Nothing needs a guard here."),
)  # fmt: skip

EXERCISE = exercise(softmax_jacobian, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(3, 10))
