"""score_matrix_bytes: the memory that all scores of an attention take at once."""

from ..kit import Leaf, exercise, size


def score_matrix_bytes(batch: size("B"), n_heads: size("h"), n: int, bytes_per_value: int = 2) -> Leaf(
    "int", "the number of bytes"
):
    per_head = n * n * bytes_per_value
    return per_head * n_heads * batch


def cases(case):
    def stored(criterion, label, width, **sizes):
        return case(criterion, label, bytes_per_value=width, also={"bytes_per_value": width}, **sizes)

    default = {"also": {"bytes_per_value": 2}}
    yield stored("values", "{B}, {h}, {n} in float32", 4)
    yield stored("values", "float64", 8, B=range(25, 38))
    yield case("default", "bytes_per_value left out", n=range(17, 30), **default)
    yield case("default", "one sequence of 8,192 tokens", B=1, h=32, n=8192, **default)
    yield stored("edge cases", "all sizes 1", 1, B=1, h=1, n=1)
    yield stored("edge cases", "one byte per value", 1, n=range(35, 48))
    yield stored("edge cases", "a long context, above 2**53", 2, B=63, h=128, n=1_048_577)


MISTAKES = (
    ("linear-in-n", lambda B, h, n, b=2: B * h * n * b, "Each query has a score for each key: n comes in twice."),
    ("heads-missing", lambda B, h, n, b=2: B * n * n * b, "Each head has scores of its own."),
    ("batch-missing", lambda B, h, n, b=2: h * n * n * b, "Each sequence has scores of its own."),
    ("values-not-bytes", lambda B, h, n, b=2: B * h * n * n, "The scores are counted, not their bytes."),
    ("always-two-bytes", lambda B, h, n, b=2: 2 * B * h * n * n, "bytes_per_value is ignored."),
    ("always-four-bytes", lambda B, h, n, b=2: 4 * B * h * n * n, "bytes_per_value is ignored."),
    ("bits", lambda B, h, n, b=2: 8 * B * h * n * n * b, "Bits are returned; a byte has eight of them."),
    ("twice", lambda B, h, n, b=2: 2 * B * h * n * n * b,
     "It is twice too much: one matrix of scores, not scores and weights."),
    ("causal-half", lambda B, h, n, b=2: B * h * (n * (n + 1) // 2) * b,
     "Only half the matrix is counted. It is made whole."),
    ("heads-squared", lambda B, h, n, b=2: B * h * h * n * n * b, "The heads come in twice."),
    ("mebibytes", lambda B, h, n, b=2: B * h * n * n * b / 2**20, "Mebibytes are returned; bytes are asked for."),
    ("kibibytes", lambda B, h, n, b=2: B * h * n * n * b // 1024, "Kibibytes are returned; bytes are asked for."),
    ("default-of-four", lambda B, h, n, b=4: B * h * n * n * b,
     "The default is 2 bytes per value, as in float16 and bfloat16."),
    ("float-count", lambda B, h, n, b=2: float(B * h * n * n * b),
     "The count is a float, so large ones lose digits. Multiply ints."),
    ("cubed", lambda B, h, n, b=2: B * h * n**3 * b,
     "n comes in three times; each query has one score for each key."),
    ("bits-taken-for-bytes", lambda B, h, n, b=2: B * h * n * n * b // 8,
     "The result is divided by 8, but bytes_per_value is in bytes already."),
    ("bytes-as-power", lambda B, h, n, b=2: B * h * n**b,
     "bytes_per_value stands as the power of n. n comes in twice, and each score takes that many bytes."),
    ("caret", lambda B, h, n, b=2: B * h * (n ^ 2) * b, "In Python ^ is no power but the bitwise exclusive or."),
)  # fmt: skip

EXERCISE = exercise(
    score_matrix_bytes,
    cases,
    MISTAKES,
    credit={"values": 0.6, "default": 0.2, "edge cases": 0.2},
    core="values",
    sizes=range(5, 18),
    library="torch",
)
