"""Defines the exercise `select_keys`, which selects the keys that a query reads by scores of narrow index vectors."""

import math

import numpy as np
import torch

from ..kit import Drawn, Leaf, exercise, normal, strided

#: The least gap between the last selected score and the next, with scores of about 1.
CLEAR = 0.02


def aimed(rng, shape, sizes):
    """Draw queries that mostly use one column, with either sign, so that the scores of `spread` keys are far apart."""
    queries = rng.uniform(-0.2, 0.2, shape) / (sizes["m"] * shape[-1])
    for place in np.ndindex(shape[:-1]):
        queries[place][rng.integers(shape[-1])] = rng.choice([-1.0, 1.0])
    return queries


def spread(rng, shape, sizes):
    """Draw keys whose columns each contain m whole steps in random order."""
    steps = np.arange(shape[1]) - (shape[1] - 1) / 2
    return rng.permuted(np.broadcast_to(steps[None, :, None], shape), axis=1)


def select_keys(q_index: Drawn("B n d_i", aimed, also="m"), k_index: Drawn("B m d_i", spread), k: int) -> Leaf(
    "bool array", "the keys that are read"
):
    """Select query by query from the keys that it may see."""
    B, n, _ = q_index.shape
    m = k_index.shape[1]
    read = torch.zeros(B, n, m, dtype=torch.bool)
    for b in range(B):
        for r in range(n):
            scores = k_index[b, : m - n + r + 1] @ q_index[b, r]
            read[b, r, scores.argsort(descending=True)[:k]] = True
    return read


def plain(q_index, k_index, k):
    n = q_index.shape[1]
    m = k_index.shape[1]
    scores = q_index @ k_index.transpose(-1, -2)
    allowed = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    scores = scores.masked_fill(~allowed, -math.inf)
    most = min(k, m)
    best = torch.topk(scores, most, dim=-1).indices
    nothing = torch.zeros(scores.shape, dtype=torch.bool)
    chosen = nothing.scatter(-1, best, True)
    return chosen & allowed


def clear(case, size=1.0, **sizes):
    """Draw random arguments, and each query again until the last selected key leads the next by CLEAR."""
    drawn = case.draw(q_index=normal("B n d_i"), k_index=normal("B m d_i"), **sizes)
    n, m, k, rng = drawn["n"], drawn["m"], drawn["k"], case.rng
    Q, K = (drawn[name].astype(np.float32).astype(float) for name in ("q_index", "k_index"))
    for b, r in np.ndindex(Q.shape[:2]):
        seen = m - n + r + 1
        while k < seen:
            ordered = np.sort(K[b, :seen] @ Q[b, r])[::-1]
            if ordered[k - 1] - ordered[k] > CLEAR:
                break
            Q[b, r] = rng.standard_normal(Q.shape[-1]).astype(np.float32)
    return {**drawn, "q_index": size * Q, "k_index": K}


def shifted(drawn, level):
    """Move all scores to about `level` without changing their order, by a column that is equal in all keys."""
    Q, K = drawn["q_index"], drawn["k_index"]
    Q = np.concatenate([Q, np.full((*Q.shape[:2], 1), level)], axis=-1)
    K = np.concatenate([K, np.ones((*K.shape[:2], 1))], axis=-1)
    return {**drawn, "q_index": Q, "k_index": K, "d_i": Q.shape[-1]}


def cases(case):
    words = "{n} queries, {m} keys, k = {k}"
    few = {"n": 4, "m": 11, "k": 3}
    yield case("values", words, **clear(case, **few))
    yield case("values", f"{words}, float32", dtype=np.float32, **clear(case, n=3, m=10, k=4))
    yield case("values", "as many queries as keys", **clear(case, n=9, m=9, k=3))
    yield case("values", "arrays that are slices", layout=strided, **clear(case, **few))
    yield case("values", "one query, as in decoding", **clear(case, n=1, m=12, k=5))
    yield case("edge cases", "a single key is read (k = 1)", **clear(case, n=5, m=8, k=1))
    yield case("edge cases", "as many as there are keys (k = m)", **clear(case, n=5, m=7, k=7))
    yield case("edge cases", "more than there are keys (k = {k}, m = {m})", **clear(case, n=3, m=6, k=20))
    yield case("edge cases", "early queries see fewer than k keys", **clear(case, n=8, m=8, k=5))
    yield case("edge cases", "all scores are below 0", **shifted(clear(case, n=7, m=9, k=4), -30.0))
    yield case("edge cases", "all scores are above 0", **shifted(clear(case, n=7, m=9, k=4), 30.0))
    yield case("edge cases", "scores around ±10,000", **clear(case, size=4e3, n=6, m=9, k=4))
    yield case("edge cases", "all scores are near −10,000", **shifted(clear(case, n=6, m=8, k=3), -1e4))
    yield case("edge cases", "a long text", **clear(case, n=2, m=250, k=20, B=2))
    yield case("edge cases", "index vectors of width 1 (d_i = 1)", d_i=1, n=4, m=8, k=3)


def choose(
    q_index,
    k_index,
    k,
    *,
    scored=lambda scores: scores,
    first=lambda n, m: m - n,
    hidden=-math.inf,
    masked=True,
    only_allowed=True,
    most=lambda k: k,
):
    """Select the keys with slips.

    scored: changes the scores. first: the diagonal of the mask. hidden: the score of a hidden key. masked: whether it
    gets that score. only_allowed: whether hidden keys are removed from the choice.
    """
    scores = scored(q_index @ k_index.mT)
    n, m = scores.shape[-2:]
    allowed = torch.ones(n, m, dtype=torch.bool).tril(first(n, m))
    seen = scores.masked_fill(~allowed, hidden) if masked else scores
    best = seen.topk(min(most(k), m), dim=-1).indices
    chosen = torch.zeros(scores.shape, dtype=torch.bool).scatter(-1, best, True)
    return chosen & allowed if only_allowed else chosen


def by_threshold(q_index, k_index, k):
    """Select all keys no lower than the k-th, including hidden ones where there are fewer than k."""
    scores = q_index @ k_index.mT
    n, m = scores.shape[-2:]
    scores = scores.masked_fill(~torch.ones(n, m, dtype=torch.bool).tril(m - n), -math.inf)
    return scores >= scores.topk(min(k, m), dim=-1).values[..., -1:]


def by_cosine(q_index, k_index, k):
    return choose(q_index, k_index / k_index.norm(dim=-1, keepdim=True), k)


def latest(q_index, k_index, k):
    n, m = q_index.shape[1], k_index.shape[1]
    i, j = torch.arange(m - n, m)[:, None], torch.arange(m)
    return ((i - k < j) & (j <= i)).expand(len(q_index), n, m).clone()


def and_itself(q_index, k_index, k):
    """Select the k − 1 best of the others, and the query's own token."""
    n, m = q_index.shape[1], k_index.shape[1]
    own = torch.arange(m - n, m)[:, None] == torch.arange(m)
    return choose(q_index, k_index, k, scored=lambda scores: scores.masked_fill(own, math.inf))


def choose_queries(q_index, k_index, k):
    scores = q_index @ k_index.mT
    n, m = scores.shape[-2:]
    allowed = torch.ones(n, m, dtype=torch.bool).tril(m - n)
    best = scores.masked_fill(~allowed, -math.inf).topk(min(k, n), dim=-2).indices
    return torch.zeros(scores.shape, dtype=torch.bool).scatter(-2, best, True) & allowed


def mean_over_queries(scores):
    return scores.mean(dim=1, keepdim=True).expand_as(scores)


def mean_over_batch(scores):
    return scores.mean(dim=0, keepdim=True).expand_as(scores)


MISTAKES = (
    ("future-where-few", {"only_allowed": False},
     "Where a query sees fewer than k keys, you fill the places with later ones, because topk always returns k. Such "
     "a query should read all that it sees and nothing else."),
    ("threshold-lets-all-in", by_threshold,
     "Where a query sees fewer than k keys, your k-th score is that of a hidden one, so all hidden keys reach it."),
    ("mask-after-choice", {"masked": False},
     "You choose k among all keys and remove the later ones afterwards, so fewer than k are left. Hide them first."),
    ("not-causal", {"masked": False, "only_allowed": False},
     "You let queries read keys of later tokens."),
    ("top-left", {"first": lambda n, m: 0},
     "You take row r for position r. The queries are the last n of m tokens, so row r is position m − n + r."),
    ("without-itself", {"first": lambda n, m: m - n - 1},
     "You don't let a query see its own token. It may read that one, too."),
    ("hidden-is-zero", {"hidden": 0.0},
     "You give a hidden key the score 0, which is more than a negative one. Which score is below all others?"),
    ("lowest", {"scored": torch.neg},
     "You choose the k lowest scores. Choose the highest."),
    ("absolute", {"scored": torch.abs},
     "You lose the sign of the scores, so strongly negative ones are chosen."),
    ("relu", {"scored": torch.relu},
     "You count all scores below 0 as 0, so the choice among them is arbitrary. Use plain dot products."),
    ("cosine", by_cosine,
     "You bring the keys to length 1 first. The scores are plain dot products, in which a long key counts for more."),
    ("window", latest,
     "You read the latest k keys, whatever their scores are. That is a sliding window."),
    ("itself-always", and_itself,
     "You always read a query's own token. It must be among the k best, like any other."),
    ("one-too-few", {"most": lambda k: max(k - 1, 1)},
     "You read one key too few."),
    ("one-too-many", {"most": lambda k: k + 1},
     "You read one key too many."),
    ("best-queries", choose_queries,
     "You choose the k highest along the wrong axis. Choose keys for each query, not queries for each key."),
    ("one-choice-for-all", {"scored": mean_over_queries},
     "You let all queries read the same keys. Each has scores of its own."),
    ("one-choice-per-batch", {"scored": mean_over_batch},
     "You make one choice for all sequences of the batch. Each has scores of its own."),
)  # fmt: skip

EXERCISE = exercise(
    select_keys,
    credit={"values": 0.7, "edge cases": 0.3},
    slipped=choose,
    ranges={"n": range(2, 5), "m": range(7, 12)},
    library="torch",
)
