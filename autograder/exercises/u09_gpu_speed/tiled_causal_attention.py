"""Defines the exercise `tiled_causal_attention`, which tiles queries and keys and skips tiles that no query sees."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from ..attention_parts import UNSTABLE
from ..kit import Leaf, exercise, normal
from .parts import HALF, large_scores, last_key_on_top, low_scores, zeros_and_twins
from .tiled_attention import all_keys_at_once, is_of_block

#: Cases that check more than the size of tensors: label -> what to look for.
ALL_KEYS = "all queries are equal"
LATER = "n = {n}, blocks of {block_size}, what meets what"
TOGETHER = "n = {n}, blocks of {block_size}, queries together"
TILE = "n = {n}, blocks of {block_size}, the tiles themselves"


def tiled_causal_attention(Q: normal("B h n d"), K: normal("B h n d"), V: normal("B h n d"), block_size: int) -> Leaf(
    "float array", "the output"
):
    return F.scaled_dot_product_attention(Q, K, V, is_causal=True)


def plain(Q, K, V, block_size):
    n, d = Q.shape[-2], Q.shape[-1]
    out = torch.zeros_like(Q)
    for q_start in range(0, n, block_size):
        q_end = min(q_start + block_size, n)
        queries = Q[:, :, q_start:q_end]
        largest = torch.full_like(queries[..., :1], -math.inf)
        total = torch.zeros_like(largest)
        mix = torch.zeros_like(queries)
        for k_start in range(0, q_end, block_size):
            k_end = min(k_start + block_size, n)
            keys, values = K[:, :, k_start:k_end], V[:, :, k_start:k_end]
            scores = queries @ keys.mT / math.sqrt(d)
            i = torch.arange(q_start, q_end)[:, None]
            j = torch.arange(k_start, k_end)
            scores = scores.masked_fill(j > i, -math.inf)
            new_largest = torch.maximum(largest, scores.amax(-1, keepdim=True))
            factor = torch.exp(largest - new_largest)
            exponentials = torch.exp(scores - new_largest)
            total = total * factor + exponentials.sum(-1, keepdim=True)
            mix = mix * factor + exponentials @ values
            largest = new_largest
        out[:, :, q_start:q_end] = mix / total
    return out


def cases(case):
    block = int(case.rng.integers(12, 15))
    rest = int(case.rng.integers(3, block - 3))
    # The limit is twice a tile of scores: strips of all n queries or keys are larger, and everything else is smaller.
    inside = {"n": 4 * block, "d": 2, "block_size": block, "watch": f"2*B*h*{block * block + 1}"}
    small = int(case.rng.integers(3, 5))
    odd = {"n": 3 * small + int(case.rng.integers(1, small)), "block_size": small}
    yield case("values in tiles", "n = {n}, blocks of {block_size}", **inside)
    yield case("values in tiles", "one head", **{**inside, "B": 1, "h": 1})
    yield case("values in tiles", "float32", dtype=np.float32, **inside)
    yield case("values in tiles", "float16", dtype=np.float16, rtol=HALF, **inside)
    for words, order in (("last", 1), ("first", -1)):
        drawn = case.draw(n=3 * small, block_size=small)
        drawn["Q"] = np.abs(drawn["Q"]) + 0.5
        drawn["K"] = np.abs(drawn["K"]) * np.linspace(0.2, 4.0, 3 * small)[::order, None]
        yield case("values in tiles", f"the largest scores come {words}", **drawn)
    yield case("last block", "n = {n} is no multiple of {block_size}", **odd)
    yield case("last block", "the last block holds one token", n=2 * small + 1, block_size=small)
    yield case("block sizes", "blocks of one token", n=odd["n"], block_size=1)
    yield case("block sizes", "one block just as long as n", n=3 * small, block_size="n")
    yield case("block sizes", "a block longer than n", n=odd["n"], block_size=2 * odd["n"] + 1)
    yield case("block sizes", "a single token (n = 1)", n=1, block_size=small)
    yield case("large scores", "scores of ±10,000", **large_scores(case, n=3 * small, block_size=small))
    yield case("large scores", "all scores near −10,000", **low_scores(case, **odd))
    one_head = {"B": 1, "h": 1, "d": 2, "block_size": block}
    drawn = case.draw(**{**one_head, "n": 3 * block + rest})
    drawn["Q"][:] = drawn["Q"][:, :, :1]
    yield case("both cut", ALL_KEYS, watch="n", **drawn)
    yield case("both cut", "n = {n}, nothing as large as all scores", watch="n*n", n=3 * block + rest, **one_head)
    yield case("both cut", TOGETHER, watch=block, n=2 * block, **one_head)
    yield case("later blocks", LATER, watch=block * block, n=2 * block + rest, **one_head)
    yield case("later blocks", LATER, watch=block * block, n=3 * block, **one_head)
    yield case("later blocks", LATER, watch=block * rest, n=2 * block + rest, **one_head)
    yield case("both cut", TILE, watch=25, B=1, h=1, n=13, d=2, block_size=5)
    zeros = "two equal keys, and zeros as a key, a value and a query"
    yield case("block sizes", zeros, **zeros_and_twins(case, n=7, block_size=3))
    top = last_key_on_top(case, n=3 * small + 2, block_size=small)
    yield case("gradients", "gradients, the last key far above the others", gradient=True, **top)


def seen(case, arrays):
    """Return what is wrong with the intermediate tensors, or None."""
    label = case.label
    if label == ALL_KEYS:
        return all_keys_at_once(case, arrays)
    floats = [array for array in arrays if array.dtype.kind == "f" and np.unique(array).size > 3]  # no masks
    if label.endswith("queries together"):
        return one_by_one(case, floats)
    if label.endswith("the tiles themselves"):
        return other_tiles(case, floats)
    if label.endswith("what meets what"):
        return later_block(case, floats)
    found = next((array for array in floats if array.size >= case.watch), None)
    if found is None:
        return None
    size = case.sizes["block_size"]
    return f"your code makes a tensor of shape {found.shape}, which is more than {size} × {size} scores per head"


def one_by_one(case, arrays):
    """Return a message if scores exist for single queries with a block of keys, but never for a block of queries."""
    size, lengths = case.sizes["block_size"], {array.size for array in arrays}
    if size not in lengths or max(lengths) >= size * size:
        return None
    return (
        "your code computes no block of scores, as if it took the queries one by one. Cut the queries into blocks, too"
    )


def other_tiles(case, arrays):
    """Return a message unless one product holds exactly the second block of queries and the first block of keys."""
    (Q, K), size = (array[0, 0] for array in case.args[:2]), case.sizes["block_size"]
    tile = Q[size : 2 * size] @ K[:size].T
    if any(is_of_block(array, tile) for array in arrays):
        return None
    return f"your code never multiplies just the second {size} queries by just the first {size} keys"


def later_block(case, arrays):
    """Return a message if an array holds the products of a block of queries with a later block of keys."""
    (Q, K), size = (array[0, 0] for array in case.args[:2]), case.sizes["block_size"]
    blocks = [slice(first, first + size) for first in range(0, len(Q), size)]
    later = [Q[i] @ K[j].T for place, i in enumerate(blocks) for j in blocks[place + 1 :]]
    for array in arrays:
        for scores in (each for tile in later for each in (tile, tile.T)):
            if array.size == scores.size and np.isfinite(array).all():
                alike = np.corrcoef(array.ravel().astype(np.float64), scores.ravel())[0, 1]
                if abs(alike) > 1 - 1e-6:
                    return "your code multiplies a block of queries by a block of keys that comes entirely after it"
    return None


def tiled_causal(
    Q, K, V, size, *, by_place=False, shift=0, own_only=False, running=True, carried=False, later=False, queries=None,
    keys=None,
):  # fmt: skip
    """Compute the attention with slips; every default is correct.

    by_place: whether the mask uses positions in the block. shift: of its diagonal. own_only: whether a block of queries
    sees only its own block. later: whether later blocks are multiplied, too. carried: whether the state of a block of
    queries starts from that of the previous one. queries, keys: block lengths other than `size`.
    """
    n, scale = Q.shape[-2], Q.shape[-1] ** -0.5
    wide, long = queries or size, keys or size
    out, state = torch.zeros_like(V), None
    for first in range(0, n, wide):
        own = torch.arange(first, min(first + wide, n))
        rows = Q[..., own, :]
        if state is None or not carried:
            start = rows.new_full((*rows.shape[:-1], 1), -math.inf)
            state = start, torch.zeros_like(start), torch.zeros_like(rows)
        top, total, mix = (part[..., : len(own), :] for part in state)
        for start in range(0, n, long):
            there = torch.arange(start, min(start + long, n))
            if (start > own[-1] and not later) or (own_only and start != first):
                continue
            scores = rows @ K[..., there, :].mT * scale
            allowed = own[:, None] + shift >= there
            if by_place:
                allowed = own[:, None] - first >= there - start
            if not bool(allowed.all()):
                scores = scores.masked_fill(~allowed, -math.inf)
            new = torch.maximum(top, scores.amax(-1, keepdim=True)) if running else torch.zeros_like(top)
            terms, factor = torch.exp(scores - new), torch.exp(top - new) if running else 1.0
            total = total * factor + terms.sum(-1, keepdim=True)
            mix = mix * factor + terms @ V[..., there, :]
            top = new
        state = top, total, mix
        out[..., own, :] = mix / total
    return out


MISTAKES = (
    ("masked-by-place-in-the-block", {"by_place": True},
     "You mask every block alike, earlier ones too. A token's place in the text counts, not its place in the block."),
    ("next-key-seen", {"shift": 1}, "Your queries can still see the next key, one step into the future."),
    ("own-block-only", {"own_only": True},
     "Your queries see only their own block. They should also see all earlier blocks."),
    ("state-carried-over", {"carried": True},
     "You start a block of queries with the maximum and the sums of the block before it. Start each block of queries "
     "afresh."),
    ("no-maximum", {"running": False}, UNSTABLE),
    ("queries-not-cut", lambda Q, K, V, size: tiled_causal(Q, K, V, size, queries=Q.shape[-2]),
     "Your result is right, but all queries meet a block of keys together. Cut the queries into blocks as well."),
    ("keys-not-cut", lambda Q, K, V, size: tiled_causal(Q, K, V, size, keys=K.shape[-2]),
     "Your result is right, but a block of queries meets all keys at once. Cut the keys into blocks as well."),
    ("one-query-at-a-time", lambda Q, K, V, size: tiled_causal(Q, K, V, size, queries=1),
     "Your result is right, but you serve each query by itself. Let a block of queries meet a block of keys at once."),
    ("later-blocks-multiplied", {"later": True},
     "Your result is right, but you multiply blocks of keys that come entirely after a block of queries, though none "
     "of them is seen."),
)  # fmt: skip

EXERCISE = exercise(
    tiled_causal_attention,
    credit={
        "values in tiles": 0.3,
        "last block": 0.1,
        "block sizes": 0.1,
        "large scores": 0.1,
        "both cut": 0.15,
        "later blocks": 0.15,
        "gradients": 0.1,
    },
    sizes=range(2, 6),
    slipped=tiled_causal,
    library="torch",
    not_from=("loop_attention", "batched_attention", "tiled_attention"),
    made=seen,
)
