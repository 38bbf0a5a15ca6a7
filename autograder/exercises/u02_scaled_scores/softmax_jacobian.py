"""softmax_jacobian: how each weight of a softmax changes with each score."""

import numpy as np

from ..kit import Drawn, Leaf, distinct, exercise, strided
from .parts import stable


def softmax_jacobian(p: Drawn("n", lambda rng, shape, sizes: stable(rng.standard_normal(shape)))) -> Leaf(
    "float array", "the Jacobian"
):
    step = 1e-30j  # so small and imaginary that the difference is the derivative, with nothing rounded away
    powers = p * np.exp(step * np.eye(len(p)))  # row j: score j raised by the step
    return (powers / powers.sum(axis=1, keepdims=True)).T.imag / step.imag


def cases(case):
    for n in distinct(case.rng, 3, 3, 9):
        yield case("values", "n = {n}", n=n)
    n = int(case.rng.integers(4, 9))
    yield case("values", "float32", n=n, dtype=np.float32)
    yield case("values", "weights that are a slice", n=n, layout=strided)
    yield case("edge cases", "equal weights", p=np.full(n, 1 / n))
    yield case("edge cases", "two weights", n=2)
    yield case("edge cases", "a single weight", p=np.ones(1))
    yield case("edge cases", "one weight that has it all", p=np.eye(n)[case.rng.integers(n)])


def products(p):
    return np.outer(p, p)


def less_products(diagonal):
    """`diagonal(p)` on the diagonal, less all products."""
    return lambda p: np.diag(diagonal(p)) - products(p)


def weights_less(part):
    """The weights on the diagonal, less `part(p)`."""
    return lambda p: np.diag(p) - part(p)


def in_rows(p):
    """p in every row."""
    return np.tile(p, (len(p), 1))


MISTAKES = (
    ("squares-in-every-row", weights_less(lambda p: p * p),
     "Beside the diagonal stand squares of one weight, where two different ones meet. Is it an outer product? "
     "`p * p` and `p.T * p.T` have the shape (n,): broadcasting repeats them, or a factor p, in every row."),
    ("identity-alone", lambda p: np.eye(len(p)),
     "This is the identity matrix, as if each output were its own input. Raising one input raises one output "
     "and lowers the others, each by an amount that depends on the weights."),
    ("diagonal-only", lambda p: np.diag(p * (1 - p)),
     "Only the diagonal is there. Raising one input also lowers all other outputs."),
    ("vector", lambda p: p * (1 - p),
     "Only the derivatives of each output by its own input are there. The Jacobian is (n, n)."),
    ("wrong-sign", lambda p: products(p) - np.diag(p),
     "Every entry has the wrong sign: raising an input raises its own output."),
    ("sum-for-difference", lambda p: np.diag(p) + products(p),
     "The two parts were added. One of them is subtracted."),
    ("no-diagonal", lambda p: -products(p),
     "The part that stands on the diagonal alone is missing."),
    ("outer-only", products,
     "This is pᵢpⱼ alone: sign and diagonal are missing."),
    ("diagonal-of-squares", less_products(lambda p: -(p**2)),
     "On the diagonal stands -pᵢ². What do you get for i = j, by the quotient rule?"),
    ("off-diagonal-sign", lambda p: np.diag(p - 2 * p**2) + products(p),
     "The entries beside the diagonal have the wrong sign."),
    ("softmax-again", lambda p: np.diag(stable(p)) - products(stable(p)),
     "`p` already holds the weights. A softmax was taken of them once more."),
    ("identity", less_products(np.ones_like),
     "There is an identity matrix where the weights belong on the diagonal."),
    ("rows-scaled-once", lambda p: np.eye(len(p)) - in_rows(p),
     "The entry is missing a factor: δᵢⱼ - pⱼ must be multiplied by the weight of the output."),
    ("weights-beside-diagonal", lambda p: np.diag(p * (1 - p)) - in_rows(p) * (1 - np.eye(len(p))),
     "Beside the diagonal stands -pⱼ. The weight of the output is missing as a factor."),
    ("one-minus-everywhere", lambda p: p[:, None] * (1 - p),
     "pᵢ(1 - pⱼ) stands everywhere. The 1 belongs to the diagonal alone."),
    ("diagonal-of-weights", np.diag,
     "Only the weights stand on the diagonal. The part -pᵢpⱼ is missing."),
    ("single-number", weights_less(lambda p: p @ p),
     "p @ p was taken for the outer product: it is one number."),
    ("squared-diagonal", less_products(np.square),
     "The diagonal part was squared."),
    ("one-minus-on-diagonal", less_products(lambda p: 1 - p),
     "1 - pᵢ stands in place of pᵢ in the diagonal part."),
    ("diagonal-added", lambda p: np.diag(p * (1 - p)) + products(p),
     "p(1 - p) was put on the diagonal, and pᵢpⱼ was added everywhere. Beside the diagonal the sign is negative."),
    ("subtracted-twice", less_products(lambda p: p * (1 - p)),
     "On the diagonal pᵢ² was subtracted twice."),
    ("softmax-in-products", weights_less(lambda p: products(stable(p))),
     "A softmax of p was taken for the products. `p` already holds the weights."),
    ("row-subtracted", weights_less(in_rows),
     "p was subtracted from every row. The weight of the output is missing as a factor."),
    ("squares-multiplied", weights_less(lambda p: products(p**2)),
     "The weights were squared before they were multiplied."),
    ("roots-multiplied", weights_less(lambda p: products(np.sqrt(p))),
     "Roots of the weights were multiplied. The quotient rule gives the products themselves."),
    ("normalised-products", weights_less(lambda p: products(p) / (p @ p)),
     "The products were divided by their largest or their sum of squares. Nothing is divided."),
    ("one-size-for-all", weights_less(lambda p: in_rows(p).T / len(p)),
     "The part beside the diagonal is an average. Each entry has its own product."),
    ("single-number-returned", lambda p: np.linalg.norm(np.diag(p) - products(p)),
     "The sum or size of the Jacobian was returned. All (n, n) derivatives are asked for."),
    ("diagonal-not-reduced", less_products(lambda p: p + p**2),
     "On the diagonal stands pᵢ alone. By the quotient rule something is subtracted there too."),
    ("off-diagonal-halved", lambda p: np.diag(p - p**2 / 2) - products(p) / 2,
     "The entries beside the diagonal are half of what they should be."),
    ("log-softmax-transposed", lambda p: np.eye(len(p)) - p[:, None],
     "This is the derivative of the logarithm of the softmax, transposed."),
    ("epsilon-added", less_products(lambda p: p + 1e-3),
     "Something small was added to the diagonal. Nothing needs a guard here."),
)  # fmt: skip

EXERCISE = exercise(
    softmax_jacobian,
    cases,
    MISTAKES,
    credit={"values": 0.8, "edge cases": 0.2},
    core="values",
    sizes=range(3, 10),
)
