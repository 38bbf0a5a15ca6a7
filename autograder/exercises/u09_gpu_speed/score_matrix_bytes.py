"""Defines the exercise `score_matrix_bytes`, which counts the memory of all attention scores at once."""

from ..kit import Leaf, exercise, size


def score_matrix_bytes(batch: size("B"), n_heads: size("h"), n: int, bytes_per_value: int = 2) -> Leaf(
    "int", "the number of bytes"
):
    per_head = n * n * bytes_per_value
    return per_head * n_heads * batch


def plain(batch, n_heads, n, bytes_per_value=2):
    scores = batch * n_heads * n**2
    return scores * bytes_per_value


def cases(case):
    def stored(criterion, label, width, **sizes):
        return case(criterion, label, bytes_per_value=width, also={"bytes_per_value": width}, **sizes)

    default = {"also": {"bytes_per_value": 2}}
    yield stored("values", "batch = {B}, n_heads = {h}, n = {n} in float32", 4)
    yield stored("values", "float64", 8, B=range(25, 38))
    yield case("default", "bytes_per_value left out", n=range(17, 30), **default)
    yield case("default", "one sequence of 8,192 tokens", B=1, h=32, n=8192, **default)
    yield stored("edge cases", "all sizes 1", 1, B=1, h=1, n=1)
    yield stored("edge cases", "one byte per value", 1, n=range(35, 48))
    yield stored("edge cases", "a long context, above 2**53", 2, B=3, h=5, n=30_000_001)
    yield case(
        "edge cases", "complex numbers", B=63, h=127, n=257, by_name="bytes_per_value", also={"bytes_per_value": 16},
        bytes_per_value=16,
    )  # fmt: skip


MISTAKES = (
    ("causal-half", lambda B, h, n, b=2: B * h * (n * (n + 1) // 2) * b,
     "You count only half the matrix. It is made as a whole."),
    ("bits-taken-for-bytes", lambda B, h, n, b=2: B * h * n * n * b // 8,
     "You divide the result by 8, but bytes_per_value is in bytes already."),
    ("bytes-as-power", lambda B, h, n, b=2: B * h * n**b,
     "You use bytes_per_value as the power of n. n is a factor twice, and each score takes that many bytes."),
    ("caret", lambda B, h, n, b=2: B * h * (n ^ 2) * b, "You use ^ for a power. In Python it is the bitwise "
                                                        "exclusive or."),
)  # fmt: skip

EXERCISE = exercise(
    score_matrix_bytes, credit={"values": 0.6, "default": 0.2, "edge cases": 0.2}, sizes=range(5, 18), library="torch"
)
