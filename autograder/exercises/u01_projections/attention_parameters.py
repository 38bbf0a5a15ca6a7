"""Defines the exercise `attention_parameters`, which counts the weights of all heads with two-factor value maps."""

from ..kit import Leaf, exercise


def attention_parameters(d_model: int, d_head: int, n_heads: int, n_layers: int) -> Leaf("int", "the count"):
    shapes = [(d_model, d_head), (d_model, d_head), (d_model, d_head), (d_head, d_model)]
    return sum(rows * columns for rows, columns in shapes) * n_heads * n_layers


def plain(d_model, d_head, n_heads, n_layers):
    W_Q = d_model * d_head
    W_K = d_model * d_head
    W_V_down = d_model * d_head
    W_V_up = d_head * d_model
    head = W_Q + W_K + W_V_down + W_V_up
    layer = head * n_heads
    return layer * n_layers


def cases(case):
    primes = (13, 17, 19, 23, 29, 31, 37)  # so that d_model is no product of the other sizes
    for _ in range(4):
        yield case("values", d_model=primes)
    yield case("values", "d_model = n_heads · d_head", d_model="n_heads*d_head", n_layers=2)
    yield case("values", "GPT-3's sizes", d_model=12_288, d_head=128, n_heads=96, n_layers=96)
    yield case("edge cases", "one head, one layer", d_model=range(5, 20), d_head=3, n_heads=1, n_layers=1)
    large = range(10**6, 10**6 + 100)
    yield case("edge cases", "very large sizes", d_model=large, d_head=10**5 + 3, n_heads=1_001, n_layers=999)
    sizes = {"d_model": range(3, 6), "d_head": range(9, 13)}
    yield case("edge cases", "one head, wider than the model, in several layers", n_heads=1, n_layers=7, **sizes)
    yield case("edge cases", "one layer of several heads that are as wide as the model", d_head="d_model", n_layers=1)
    yield case("edge cases", "all sizes are 1", d_model=1, d_head=1, n_heads=1, n_layers=1)


MISTAKES = (
    ("three-matrices", lambda d, k, h, L: 3 * d * k * h * L,
     "You count three matrices. The value map has two factors, down and up, so there are four matrices in all."),
    ("two-matrices", lambda d, k, h, L: 2 * d * k * h * L,
     "You count two matrices. Each head has Q, K, V-down and V-up."),
    ("square-value-map", lambda d, k, h, L: (2 * d * k + d**2) * h * L,
     "You count the value map as one square matrix. It is factored into two thin ones."),
    ("up-shared", lambda d, k, h, L: d * k * L * (3 * h + 1),
     "You count V-up once per layer. Every head has one of its own."),
    ("keys-and-values-shared", lambda d, k, h, L: d * k * L * (2 * h + 2),
     "You count keys and values once per layer. Here every head has its own."),
    ("heads-plus-layers", lambda d, k, h, L: 4 * d * k * (h + L),
     "You add heads and layers. Every layer has all the heads, so multiply."),
    ("brackets", lambda d, k, h, L: d * k * (3 + h * L),
     "You multiply only the last matrix by the number of heads and layers. Brackets are missing."),
    ("feed-forward-too", lambda d, k, h, L: (4 * d * k * h + 8 * d**2) * L,
     "You count the feed-forward layers, too. Count only the attention."),
    ("square-per-layer", lambda d, k, h, L: 4 * d**2 * L,
     "You count four matrices of d_model × d_model per layer, which is right only where n_heads · d_head = d_model."),
    ("narrow-square", lambda d, k, h, L: 4 * k**2 * h * L,
     "You count matrices of d_head × d_head. They act on tokens of width d_model."),
    ("with-biases", lambda d, k, h, L: (4 * d * k + 3 * k + d) * h * L,
     "You count biases. Count only the weights in the matrices."),
    ("adds-sizes", lambda d, k, h, L: 4 * (d + k) * h * L,
     "You add the sizes. A matrix of a rows and b columns holds a · b weights."),
    ("int32-overflow", lambda d, k, h, L: (4 * d * k * h * L + 2**31) % 2**32 - 2**31,
     "Your count overflows 32 bits. Python's own integers have no such limit."),
)  # fmt: skip

EXERCISE = exercise(attention_parameters, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(3, 13))
