"""Defines the exercise `attention_flops`, which counts the operations of attention's two matrix products."""

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
    yield case("values", "batch = {B}, n_heads = {h}, n = {n}, d_head = {d_head}")
    yield case("values", "GPT-2 small on 1,024 tokens", B=1, h=12, n=1024, d_head=64)
    yield case("values", "other sizes", B=range(20, 35), h=range(8, 23), n=range(33, 48), d_head=range(43, 58))
    yield case("edge cases", "all sizes 1", B=1, h=1, n=1, d_head=1)
    yield case("edge cases", "a long context, above 2**53", B=63, h=127, n=1_048_577, d_head=127)


MISTAKES = (
    ("add-not-counted", lambda B, h, n, d: 2 * B * h * n * n * d,
     "You return half the count. Multiply and add are two operations, there are two matmuls, and a mask saves "
     "nothing."),
    ("one-add-less", lambda B, h, n, d: B * h * n * n * (2 * d - 1) + B * h * n * d * (2 * n - 1),
     "You count d − 1 adds in a dot product of d entries. By convention a multiply and an add count as a pair."),
    ("causal-saving", lambda B, h, n, d: 2 * B * h * n * (n + 1) * d, "You reduced the count for the causal mask. "
                                                                      "Here it saves nothing."),
    ("projections-counted", lambda B, h, n, d: 4 * B * h * n * n * d + 8 * B * n * (h * d) ** 2,
     "You count the projections, too. Count only the two matmuls of the attention."),
    ("softmax-as-three", lambda B, h, n, d: B * h * n * n * (4 * d + 3),
     "You count the softmax. Count only the two matmuls."),
    ("scaling-counted", lambda B, h, n, d: B * h * n * n * (4 * d + 1),
     "You count one more operation for each score, such as the division by √d. Count only the two matmuls."),
    ("width-divided-by-heads", lambda B, h, n, d: 4 * B * h * n * n * (d // h),
     "You divide d_head by the heads once more. It is the width of one head already."),
    ("caret", lambda B, h, n, d: 4 * B * h * (n ^ 2) * d, "You use ^ for a power. In Python it is the bitwise "
                                                          "exclusive or."),
    ("gigaflops", lambda B, h, n, d: 4 * B * h * n * n * d // 10**9,
     "You return billions of operations. Return the operations themselves."),
)  # fmt: skip

EXERCISE = exercise(attention_flops, credit={"values": 0.8, "edge cases": 0.2}, sizes=range(3, 18), library="torch")
