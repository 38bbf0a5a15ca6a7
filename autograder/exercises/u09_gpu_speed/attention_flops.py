"""attention_flops: the operations of the two matmuls of an attention."""

from ..kit import Leaf, exercise, size


def attention_flops(batch: size("B"), n_heads: size("h"), n: int, d_head: int) -> Leaf("int", "the count"):
    multiplies_per_score = d_head
    scores = batch * n_heads * n**2
    return 2 * (scores * multiplies_per_score) + 2 * (scores * d_head)


def plain(batch, n_heads, n, d_head):
    scores = batch * n_heads * n**2
    per_product = 2 * scores * d_head
    return 2 * per_product


def cases(case):
    yield case("values", "{B}, {h}, {n}, {d_head}")
    yield case("values", "GPT-2 small on 1,024 tokens", B=1, h=12, n=1024, d_head=64)
    yield case("values", "other sizes", B=range(20, 35), h=range(8, 23), n=range(33, 48), d_head=range(43, 58))
    yield case("edge cases", "all sizes 1", B=1, h=1, n=1, d_head=1)
    yield case("edge cases", "a long context, above 2**53", B=63, h=127, n=1_048_577, d_head=127)


MISTAKES = (
    ("add-not-counted", lambda B, h, n, d: 2 * B * h * n * n * d,
     "It is half the count: multiply and add are two operations, there are two matmuls, and a mask saves nothing."),
    ("one-add-less", lambda B, h, n, d: B * h * n * n * (2 * d - 1) + B * h * n * d * (2 * n - 1),
     "A dot product of d entries has d − 1 adds, but by custom a multiply and an add count as a pair."),
    ("causal-saving", lambda B, h, n, d: 2 * B * h * n * (n + 1) * d, "Nothing is saved by a causal mask here."),
    ("projections-counted", lambda B, h, n, d: 4 * B * h * n * n * d + 8 * B * n * (h * d) ** 2,
     "The projections are counted too; only the two matmuls of the attention are asked for."),
    ("softmax-as-three", lambda B, h, n, d: B * h * n * n * (4 * d + 3),
     "The softmax is counted; only the two matmuls are."),
    ("scaling-counted", lambda B, h, n, d: B * h * n * n * (4 * d + 1),
     "One operation more for each score is counted, such as the division by √d; only the two matmuls are."),
    ("width-divided-by-heads", lambda B, h, n, d: 4 * B * h * n * n * (d // h),
     "d_head is divided by the heads once more. It is the width of one head already."),
    ("caret", lambda B, h, n, d: 4 * B * h * (n ^ 2) * d, "In Python ^ is no power but the bitwise exclusive or."),
    ("gigaflops", lambda B, h, n, d: 4 * B * h * n * n * d // 10**9,
     "Billions of operations are returned; the operations themselves are asked for."),
)  # fmt: skip

EXERCISE = exercise(attention_flops, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(3, 18), library="torch")
