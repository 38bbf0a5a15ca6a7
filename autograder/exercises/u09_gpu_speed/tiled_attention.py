"""Defines the exercise `tiled_attention`, which goes through blocks of keys, so that all scores never exist at once."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from ..attention_parts import UNSTABLE
from ..kit import Leaf, exercise, normal, strided
from .online_softmax import tiled
from .parts import BLOCKS, HALF, attention, equal_queries, large_scores, low_scores, other_blocks, zeros_and_twins

#: A case that checks tensors far smaller than n × n, because all scores of one query are n numbers.
EQUAL_QUERIES = "all queries are equal"
#: A case that checks that each block is used in only one pass.
ONE_PASS = "one pass over the blocks"


def tiled_attention(Q: normal("B h n d"), K: normal("B h n d"), V: normal("B h n d"), block_size: int) -> Leaf(
    "float array", "the output"
):
    return F.scaled_dot_product_attention(Q, K, V)


def plain(Q, K, V, block_size):
    n, d = K.shape[-2], K.shape[-1]
    largest = torch.full_like(Q[..., :1], -math.inf)
    total = torch.zeros_like(largest)
    out = torch.zeros_like(Q)
    for start in range(0, n, block_size):
        end = start + block_size
        keys, values = K[:, :, start:end], V[:, :, start:end]
        scores = Q @ keys.mT / math.sqrt(d)
        largest_of_block = scores.amax(-1, keepdim=True)
        new_largest = torch.maximum(largest, largest_of_block)
        factor = torch.exp(largest - new_largest)
        exponentials = torch.exp(scores - new_largest)
        total = total * factor + exponentials.sum(-1, keepdim=True)
        out = out * factor + exponentials @ values
        largest = new_largest
    return out / total


def cases(case):
    block = int(case.rng.integers(3, 5))
    odd, long = 3 * block + int(case.rng.integers(1, block)), int(case.rng.integers(90, 111))
    even = {"n": 3 * block, "block_size": block}
    uneven = {"n": odd, "block_size": block}
    yield case("values", "n = {n}, blocks of {block_size}", **even)
    yield case("values", "float32", dtype=np.float32, **even)
    yield case("values", "float16", dtype=np.float16, rtol=HALF, **even)
    for words, order, size in (("last", 1, block + 1), ("first", -1, block)):
        drawn = case.draw(n=odd, block_size=size)
        drawn["Q"] = np.abs(drawn["Q"]) + 0.5
        drawn["K"] = np.abs(drawn["K"]) * np.linspace(0.2, 4.0, odd)[::order, None]
        yield case("values", f"the largest scores come {words}", **drawn)
    yield case("last block", "n = {n} is no multiple of {block_size}", **uneven)
    yield case("last block", "the last block holds one key", n=2 * block + 1, block_size=block)
    yield case("block sizes", "blocks of one key", n=odd, block_size=1)
    yield case("block sizes", "one block just as long as n", n=3 * block, block_size="n")
    yield case("block sizes", "a block longer than n", n=odd, block_size=2 * odd + 1)
    yield case("block sizes", "a single token (n = 1)", n=1, block_size=block)
    yield case("block sizes", "memory that is not contiguous", layout=strided, **uneven)
    yield case("large scores", "scores of ±10,000", **large_scores(case, **even))
    yield case("large scores", "all scores near −10,000", **low_scores(case, **uneven))
    yield case("memory", "n = {n}, blocks of 7", B=1, h=2, n=long, d=3, block_size=7, watch="n*n")
    yield case("memory", "n = {n}, long blocks", B=1, h=1, n=long + 1, d=4, block_size=30, watch="n*n")
    yield case("memory", "n = {n}, blocks of 12", B=2, h=1, n=long + 3, d=2, block_size=12, watch="n*n")
    yield case("memory", "blocks of one key, n = {n}", B=1, h=1, n=long + 2, d=2, block_size=1, watch="n*n")
    yield case("memory", ONE_PASS, B=1, h=1, n=6 * block, d=2, block_size=block, watch=f"n*{block}")
    drawn = case.draw(B=1, h=1, n=long, d=3, block_size=long // 2 + 1)
    drawn["Q"][:] = drawn["Q"][:, :, :1]
    yield case("memory", EQUAL_QUERIES, watch="n", **drawn)
    drawn = equal_queries(case.draw(B=1, h=1, n=15, d=2, block_size=5))
    yield case("memory", f"n = {{n}}, blocks of {{block_size}}: {BLOCKS}", watch=5, **drawn)
    zeros = "two equal keys, and zeros as a key, a value and a query"
    yield case("block sizes", zeros, **zeros_and_twins(case, n=7, block_size=3))
    drawn = case.draw(**uneven)
    drawn["Q"][:] = 1.0
    drawn["K"] = (0.3 * drawn["K"] - 2 * np.arange(odd)[:, None]) / math.sqrt(drawn["d"])
    yield case("large scores", "scores that sink from block to block", **drawn)
    yield case("gradients", "gradients, n = {n}, blocks of {block_size}", gradient=True, **uneven)


def too_large(case, arrays):
    if case.label == EQUAL_QUERIES:
        return all_keys_at_once(case, arrays)
    if case.label == ONE_PASS:
        return met_again(case, arrays)
    if case.label.endswith(BLOCKS):
        return other_blocks(case, arrays)
    found = next((array for array in arrays if array.size >= case.watch), None)
    if found is None:
        return None
    n = case.sizes["n"]
    return f"your code makes a tensor of shape {found.shape}, which has as many entries as {n} × {n} scores"


def all_keys_at_once(case, arrays):
    """Return a message if one array holds the scores of all n keys, in any scale and shift."""
    Q, K = case.args[:2]
    scores = np.sort(K[0, 0] @ Q[0, 0, 0])
    for array in arrays:
        found = np.unique(np.round(array.astype(np.float64), 8)) if array.dtype.kind == "f" else array[:0]
        if found.size == scores.size and np.isfinite(found).all() and abs(np.corrcoef(found, scores)[0, 1]) > 1 - 1e-6:
            return "your code computes the scores of a query with all n keys at once"
    return None


def met_again(case, arrays):
    """Return a message if the scores of a block, or their exponentials, appear again after those of others."""
    Q, K, _, size = case.args
    scores = Q[0, 0] @ K[0, 0].T
    blocks = [scores[:, start : start + size] for start in range(0, scores.shape[1], size)]
    met = [at for array in arrays for at, block in enumerate(blocks) if is_of_block(array, block)]
    changes = [at for at, before in zip(met, [None, *met], strict=False) if at != before]
    if len(changes) == len(set(changes)):
        return None
    return (
        "your code computes the scores of a block of keys again after those of other blocks. One pass should be enough"
    )


def is_of_block(array, block):
    """Return whether these are a block's scores, scaled and shifted for each query, or their exponentials."""
    array = np.squeeze(array)
    if array.dtype.kind != "f" or array.shape not in (block.shape, block.T.shape) or not np.isfinite(array).all():
        return False
    ways = [array] if array.shape == block.shape else []
    ways += [array.T] if array.T.shape == block.shape else []
    block = block - block.mean(-1, keepdims=True)
    for one in [*ways, *(np.log(way) for way in ways if (way > 0).all())]:
        one = one - one.mean(-1, keepdims=True)
        scale = (one * block).sum() / (block * block).sum()
        if scale > 0 and np.allclose(one, scale * block, rtol=1e-6, atol=1e-9):
            return True
    return False


def by_query_blocks(answer):
    """Split the queries into blocks, each with `answer(Q of the block, K, V, its own tokens as a slice)`."""

    def wrong(Q, K, V, block_size):
        own = [slice(first, first + block_size) for first in range(0, Q.shape[2], block_size)]
        return torch.cat([answer(Q[:, :, block], K, V, block) for block in own], 2)

    return wrong


def blocks_so_far(Q, K, V, own):
    return tiled(Q, K[:, :, : own.stop], V[:, :, : own.stop], own.stop - own.start)


def whole_blocks(blocks):
    return [(first, end) for first, end in blocks if end - first == blocks[0][1]]


RAW = {"rescale_sum": False, "rescale_out": False}
BY_BLOCK = {**RAW, "maximum": "block"}

MISTAKES = (
    ("nothing-rescaled", RAW,
     "When a larger maximum comes, you don't rescale what you have summed so far. Which factor sets it right?"),
    ("rescaled-upside-down", {"upside_down": True},
     "Your rescaling factor is upside down. Sums shrink when the maximum grows."),
    ("maximum-of-the-block", BY_BLOCK,
     "You subtract each block's own maximum, but don't bring what is summed so far to the same one."),
    ("no-maximum", {"maximum": "none", "start": 0.0}, UNSTABLE),
    ("maximum-of-the-first-block", {"maximum": "first"},
     "You keep the first block's maximum for all blocks, but larger scores may follow."),
    ("starts-at-zero", {"start": 0.0},
     "Your running maximum begins at a number such as 0. All scores may be far below it."),
    ("last-block-lost", {"kept": whole_blocks},
     "You leave out a last block that is not whole. Where does your loop end?"),
    ("keys-shared", {"longer": 1}, "You count a key at the border of two blocks twice."),
    ("softmax-in-each-block", {**BY_BLOCK, "normalise": "every block"},
     "You take a softmax in each block and average the blocks. One softmax runs over all keys."),
    ("softmaxes-added", {**BY_BLOCK, "normalise": "every block, added"},
     "You take a softmax in each block and add the blocks. One softmax runs over all keys."),
    ("divided-in-the-loop", {"normalise": "in the loop"},
     "You divide the output by the running sum after every block. Divide once, after the last."),
    ("scaled-again-in-every-block", {"scale_again": True},
     "You apply the scale once more with every block. Does your loop change the queries?"),
    ("values-of-the-first-block", {"first_values": True},
     "You use the first block's values in every block. The values move along with the keys."),
    ("own-block-only", by_query_blocks(lambda Q, K, V, own: attention(Q, K[:, :, own], V[:, :, own])),
     "Your blocks of queries see only the keys of their own block. Every query meets every block of keys."),
    ("blocks-so-far", by_query_blocks(blocks_so_far),
     "Your blocks of queries see only the blocks of keys up to their own. Nothing is masked here, so later ones "
     "count."),
)  # fmt: skip

EXERCISE = exercise(
    tiled_attention,
    credit={
        "values": 0.4,
        "last block": 0.1,
        "block sizes": 0.1,
        "large scores": 0.15,
        "memory": 0.15,
        "gradients": 0.1,
    },
    sizes=range(2, 6),
    slipped=tiled,
    library="torch",
    not_from=("loop_attention", "batched_attention"),
    made=too_large,
)
