"""Defines the exercise `alignment`, which finds the source token to which each target token attends most."""

import numpy as np
import torch

from ..kit import Drawn, Leaf, exercise


def attention_map(rng, shape, sizes):
    """Draw rows that sum to 1 in steps of 1/64, which makes sums over heads exact, without ties for the first place.

    Neither the sum over all heads nor a sum in which head 0 counts four times has a tie.
    """
    B, h, n, m = shape
    maps = np.empty((B, n, h, m))
    for row in np.ndindex(B, n):
        tied = True
        while tied:
            counts = np.array([rng.multinomial(64 - m, rng.dirichlet(np.ones(m))) + 1 for _ in range(h)])
            sums = (counts.sum(0), counts.sum(0) + 3 * counts[0])
            tied = any(np.count_nonzero(total == total.max()) > 1 for total in sums)
        maps[row] = counts / 64
    return maps.transpose(0, 2, 1, 3)


def alignment(weights: Drawn("B h n m", attention_map)) -> Leaf("int array", "the alignment"):
    return weights.sum(1).sort(-1, descending=True).indices[..., 0]


def plain(weights):
    mean_weights = weights.mean(dim=1)
    return mean_weights.argmax(dim=-1)


def cases(case):
    for _ in range(2):
        yield case("values", "{h} heads, n = {n}, m = {m}")
    yield case("values", "float32", dtype=np.float32)
    strong = case.draw(m=8)["weights"]
    strong[:, 1:] = (strong[:, 1:] + 3 / 8) / 4
    yield case("values", "one head sharper than the others", weights=strong)
    yield case("edge cases", "B = 1", B=1, n=range(20, 30))  # so many rows that no other rule is correct by chance
    yield case("edge cases", "n = 1, one head", h=1, n=1)
    yield case("edge cases", "a single source token (m = 1)", weights=np.ones_like(case.draw(m=1)["weights"]))
    yield case("edge cases", "weights that differ by a few billionths", weights=nearly_tied(case.rng, 3, 4, 6, 5))
    yield case(
        "edge cases", "a long source (m = 300), most weights 0", B=2, n=3, h=3, m=300, weights=Drawn("B h n m", sparse)
    )


def nearly_tied(rng, B, h, n, m):
    """Let the token that gets the most weight lead an earlier one by only 2**-28, in one head."""
    weights = np.full((B, h, n, m), 1 / 64)
    for b, i in np.ndindex(B, n):
        earlier, most = np.sort(rng.permutation(m)[:2])
        weights[b, :, i, earlier] = weights[b, :, i, most] = (66 - m) / 128
        weights[b, 0, i, most] += 2.0**-28
    return weights


def sparse(rng, shape, sizes):
    """Let every head give 3/8 to one late token, and 5/8 to a favourite of its own."""
    B, h, n, m = shape
    weights = np.zeros(shape)
    for b, i in np.ndindex(B, n):
        late, *favourites = rng.integers(m - 40, m), *rng.permutation(m - 40)[:h]
        weights[b, :, i, late] = 3 / 8
        weights[b, range(h), i, favourites] = 5 / 8
    return weights


def of_mean(pick):
    """Apply `pick` to the weights averaged over the heads, (B, n, m)."""
    return lambda w: pick(w.mean(1))


MISTAKES = (
    ("first-head-only", lambda w: w[:, 0].argmax(-1), "You look only at the first head. Average over the heads "
                                                      "first."),
    ("last-head-only", lambda w: w[:, -1].argmax(-1), "You look only at the last head. Average over the heads first."),
    ("averaged-afterwards", lambda w: w.argmax(-1).double().mean(1).round().long(),
     "You average positions. Average the weights, then look for the largest."),
    ("vote-of-heads", lambda w: w.argmax(-1).mode(1).values,
     "You let the heads vote. Average their weights first, then look for the largest."),
    ("product-of-heads", lambda w: w.prod(1).argmax(-1), "You multiply the heads' weights. Average them."),
    ("weights-returned", of_mean(lambda w: w.amax(-1)), "You return the largest weights. Return their positions."),
    ("head-not-token", lambda w: w.amax(-1).argmax(1), "You return the head that gets most. Return the source token."),
    ("weakest", of_mean(lambda w: w.argmin(-1)), "You return the token that gets least."),
    ("mean-position", of_mean(lambda w: (w @ torch.arange(w.shape[-1], dtype=w.dtype)).round().long()),
     "You return the mean position. Return the token with the largest weight."),
    ("never-backwards", of_mean(lambda w: w.argmax(-1).cummax(-1).values),
     "You keep the alignment from going back. Each target token has its own largest weight."),
    ("rounded-first", of_mean(lambda w: (w * 10).round().argmax(-1)),
     "You round the weights first, so near ones tie. Compare them as they are."),
)  # fmt: skip

EXERCISE = exercise(alignment, credit={"values": 0.7, "edge cases": 0.3}, library="torch", sizes=range(3, 10))
