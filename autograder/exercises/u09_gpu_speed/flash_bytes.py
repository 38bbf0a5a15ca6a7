"""Defines the exercise `flash_bytes`, which counts the bytes that tiled attention moves for one head."""

from ..kit import Leaf, exercise


def flash_bytes(n: int, d: int, block_q: int, bytes_per_value: int = 2, causal: bool = False) -> Leaf(
    "int", "the number of bytes"
):
    rows = 0  # of Q, K, V and out, each d numbers wide
    for query in range(n):
        rows += 2  # its own row of Q and of out
        begins_a_block = query % block_q == 0
        if begins_a_block:
            rows += 2 * (min(query + block_q, n) if causal else n)
    return rows * d * bytes_per_value


def plain(n, d, block_q, bytes_per_value=2, causal=False):
    queries_and_outputs = 2 * n
    keys_and_values = 0
    for start in range(0, n, block_q):
        end = min(start + block_q, n)
        seen = end if causal else n
        keys_and_values = keys_and_values + 2 * seen
    rows = queries_and_outputs + keys_and_values
    return rows * d * bytes_per_value


def cases(case):
    def moved(criterion, label, width=0, causal=None, **sizes):
        """Make a case whose last block is short, unless `sizes` say otherwise."""
        block = int(case.rng.integers(5, 9))
        usual = {"n": int(case.rng.integers(4, 7)) * block + int(case.rng.integers(2, block)), "block_q": block}
        optional = {"bytes_per_value": width} if width else {}
        if causal is not None:
            optional["causal"] = causal
        return case(
            criterion, label, by_name="causal", also={"bytes_per_value": width or 2}, **{**usual, **optional, **sizes}
        )

    yield moved("values", "n = {n}, d = {d}, blocks of {block_q}")
    yield moved("values", "float32, n = {n}", 4)
    yield moved("values", "n = {n}, blocks of {block_q}, which divides it", 2, False, n=48, block_q=6)
    yield moved("causal", "causal, n = {n}, blocks of {block_q}", 4, True)
    yield moved("causal", "causal, n = {n}", 1, True)
    yield moved("causal", "causal, n = {n}, blocks of {block_q}, which divides it", 2, True, n=45, block_q=5)
    yield moved("edge cases", "blocks of one query", 8, False, block_q=1)
    yield moved("edge cases", "causal, blocks of one query", 2, True, block_q=1)
    yield moved("edge cases", "one block just as long as n", 4, False, n=21, block_q=21)
    yield moved("edge cases", "causal, a block longer than n", 2, True, n=21, block_q=40)
    yield moved("edge cases", "a single token (n = 1)", 2, False, n=1)
    yield moved("edge cases", "a long text", 1, True, n=100_003, d=128, block_q=128)
    yield moved("edge cases", "causal, a single token (n = 1)", 2, True, n=1)
    sizes = {"n": 1_003, "d": 129, "block_q": 64, "bytes_per_value": 16, "causal": True}
    yield case("edge cases", "causal, complex numbers", also={"bytes_per_value": 16}, **sizes)
    sizes = {"n": 1_003, "d": 10**14 + 1, "block_q": 64, "bytes_per_value": 3, "causal": True}
    yield case("edge cases", "causal, a count above 2**53", also={"bytes_per_value": 3}, **sizes)


def counted(
    n, d, block_q, bytes_per_value=2, causal=False, *, own_again=False, once=False, end="last", dropped=False,
    statistics=0,
):  # fmt: skip
    """Count with slips; every default is correct.

    own_again: Q and out are read with every block of keys. once: K and V are moved only once. end: how far a causal
    block reads them: to its "last" query, "before" its first, or "half" of everything. dropped: a short last block is
    left out.
    """
    starts = list(range(0, n, block_q))
    if dropped:
        starts = starts[: n // block_q]
    rows = 2 * n * (len(starts) if own_again else 1)
    read = 0
    for start in [0] if once else starts:
        seen = {"last": min(start + block_q, n), "before": start}.get(end, n)
        read += 2 * (seen if causal and not once else n)
    if end == "half" and causal:
        read = read // 2
    return (rows + read) * d * bytes_per_value + statistics * n * bytes_per_value


def by_fractions(n, d, block_q, bytes_per_value=2, causal=False):
    rows = 2 * n * n / block_q
    return int((2 * n + (rows / 2 if causal else rows)) * d * bytes_per_value)


MISTAKES = (
    ("causal-halved", {"end": "half"},
     "With `causal` you count just half of K and V. The saving is not a half. Look at the blocks on the diagonal."),
    ("causal-without-its-own-block", {"end": "before"},
     "With `causal`, your block of queries does not read its own block of keys. It needs that, too."),
    ("keys-once", {"once": True},
     "You read K and V only once. They do not fit on the chip, so each block of queries reads them once more."),
    ("last-block-dropped", {"dropped": True}, "You leave out a last block of queries that is not whole."),
    ("part-of-a-block", by_fractions,
     "You count a short last block of queries as a part of a block. It reads all of K and V like any other."),
    ("q-and-out-every-time", {"own_again": True},
     "You count all of Q and out again for each block of queries. Each of their rows is moved only once."),
    ("statistics-counted", {"statistics": 1},
     "You count a number per query besides Q, K, V and out. Leave the statistics out here."),
    ("scores-counted", lambda n, d, q, b=2, causal=False: counted(n, d, q, b, causal) + n * n * b,
     "You count the scores, too. They never leave the chip."),
)  # fmt: skip

EXERCISE = exercise(
    flash_bytes,
    credit={"values": 0.4, "causal": 0.35, "edge cases": 0.25},
    sizes=range(5, 18),
    slipped=counted,
    library="torch",
)
