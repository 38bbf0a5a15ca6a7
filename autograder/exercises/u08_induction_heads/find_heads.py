"""Defines the exercise `find_heads`, which searches a model for previous-token heads and induction heads."""

import numpy as np
import torch

from ..kit import Leaf, exercise, strided
from .heads_told import experiment
from .texts_with_gaps import (
    copied,
    doubled,
    far_apart,
    matches,
    mostly_one,
    of_two,
    one_then_others,
    read_by,
    steps_back,
)


def find_heads(patterns, tokens) -> (Leaf("pair list", "previous"), Leaf("pair list", "induction")):
    return search(patterns, tokens)


def search(
    patterns,
    tokens,
    *,
    followed=lambda tokens: _followed(tokens),
    gather=lambda weights: weights.sum(-1),
    rows=lambda places: places.any(-1),
    even=lambda n: torch.ones(n, n).tril() / torch.arange(1, n + 1)[:, None],
    counts=lambda score, chance: (score - chance) / (1 - chance) > 0.5,
    told=lambda pairs: pairs,
):
    """Return both lists. Chance is the score of evenly spread causal attention."""
    n, lists = len(tokens), []
    for places in (torch.from_numpy(steps_back(n, 1)), followed(tokens)):
        used = rows(places)
        if not used.any():
            lists.append([])
            continue
        scores, chance = (
            gather(weights.double() * places)[..., used].mean(-1) for weights in (patterns, even(n).expand(1, 1, n, n))
        )
        lists.append(told([tuple(pair) for pair in counts(scores, chance).nonzero().tolist()]))
    return tuple(lists)


def _followed(tokens, shift=1):
    """Return True at (i, j) if an earlier occurrence of token i is `shift` columns before j."""
    return torch.from_numpy(matches(tokens.numpy(), shift))


def cases(case):
    rng = case.rng

    def of(text, *layers):
        return read_by(rng, text, layers)

    def pieces(n, fresh):
        return lambda: copied(rng, n, fresh)

    yield case("plain texts", "a single token", patterns=np.ones((2, 3, 1, 1)), tokens=np.array([4]))
    first = ("before", 0.85), ("same", 0.9), ("two back", 0.9)
    second = ("followed", 0.85), ("latest", 0.9), ("self", 0.9)
    yield case("plain texts", "a text that comes back in pieces", **of(pieces(22, 15), first, second))
    yield case("plain texts", "another order of heads", **of(pieces(22, 15), second, first[::-1]))
    yield case("plain texts", "float32", dtype=np.float32, **of(pieces(22, 15), first, second))
    three = (
        (("followed", 0.85), ("next", 0.9)),
        (("before", 0.9), ("before", 0.12)),
        (("followed", 0.85), ("ahead", 0.9)),
    )
    yield case("plain texts", "three layers", **of(pieces(26, 20), *three))
    neither = (("any", 0), ("self", 0.9)), (("same", 0.9), ("first", 0.95))
    yield case("plain texts", "heads that do neither", **of(pieces(20, 14), *neither))
    crossed = (("any", 0), ("before", 0.9), ("followed", 0.9)), (("before", 0.9), ("followed", 0.9), ("any", 0))
    yield case("plain texts", "the first layer's heads come first", **of(pieces(22, 15), *crossed))
    rare = (("followed", 0.9), ("before", 0.85), ("any", 0))
    yield case("few or many matches", "hardly a token comes back", **of(pieces(24, 21), rare))
    shared = (("followed", 0.85), ("before", 0.85), ("followed", 0.1)), (("same", 0.9), ("any", 0), ("earliest", 0.9))
    for vocab in (4, 5):
        text = of(lambda vocab=vocab: rng.integers(vocab, size=34), *shared)
        yield case("few or many matches", f"{vocab} kinds of tokens, and weights shared among matches", **text)
    heads = (("followed", 0.2), ("followed", 0.8)), (("any", 0), ("followed", 0.05))
    for n, share in ((32, 0.5), (30, 0.7), (36, 0.82)):
        yield case("chance", "a vocabulary of two", **of(lambda n=n, share=share: of_two(rng, n, share), *heads))
    for n in (34, 38):
        yield case("chance", "one token at most places", **of(lambda n=n: mostly_one(rng, n), *heads))
    heads = (("before", 0.24), ("before", 0.8)), (("any", 0), ("self", 0.9))
    for n in (3, 4):
        yield case("chance", f"{n} tokens, all different", **of(lambda n=n: rng.permutation(20)[:n], *heads))
    heads = (("self", 0.95), ("followed", 0.9)), (("before", 0.9), ("any", 0))
    yield case("edge cases", "each token twice in a row", **of(lambda: doubled(rng, 9), *heads))
    heads = (("before", 0.95), ("any", 0), ("self", 0.9)), (("same", 0.9), ("first", 0.95), ("any", 0))
    yield case("edge cases", "two tokens in turn", **of(lambda: np.tile(rng.permutation(9)[:2], 9), *heads))
    yield case("edge cases", "one head in each layer", **of(pieces(22, 15), first[:1], second[:1]))
    yield case("edge cases", "parts of larger arrays", layout=strided, **of(pieces(22, 15), first, second))
    apart = of(lambda: far_apart(copied(rng, 22, 15)), first, second)
    yield case("edge cases", "token ids above 65,535", **apart)
    heads = (("followed", 0.23), ("followed", 0.9)), (("first", 0.95), ("any", 0))
    yield case("chance", "one token at first, then many others", **of(lambda: one_then_others(rng), *heads))
    heads = heads[0], (("any", 0), ("self", 0.9))
    yield case("chance", "token 0 throughout", **of(lambda: np.zeros(7, int), *heads))
    many = 2 * [("any", 0)] + [("before", 0.95), ("followed", 0.95)]
    many = [*many, *4 * [("any", 0)], *many]
    yield case("chance", "twice the same token, twelve heads", **of(lambda: np.repeat(4, 2), many))


def latest(tokens):
    places = _followed(tokens)
    return places & (places.flip(-1).cumsum(-1).flip(-1) == 1)


def with_one_gap(tokens):
    """Return where the token after the match would be if all repeats had the gap of the first."""
    n = len(tokens)
    gaps = [i - j for i in range(n) for j in reversed(range(i)) if tokens[j] == tokens[i]]
    return torch.from_numpy(
        steps_back(n, max(gaps[0] - 1, 0)) & (np.arange(n) >= gaps[0])[:, None] if gaps else np.zeros((n, n), bool)
    )


def chance_for_one(patterns, tokens):
    return search(patterns, tokens, counts=RAW)[0], search(patterns, tokens)[1]


def RAW(score, chance):
    return score > 0.5


MISTAKES = (
    ("chance-not-taken-off", {"counts": RAW},
     "You compare raw scores with 0.5. In a text of only two different tokens, a head that attends evenly already "
     "gets almost half. How far above chance is a head, and how far could it be?"),
    ("chance-for-induction-alone", chance_for_one,
     "You don't subtract chance from the previous-token score. In a short text, a head that attends evenly also "
     "gives the token before a good share."),
    ("chance-not-divided", {"counts": lambda score, chance: score - chance > 0.5},
     "You subtract chance, but then even a perfect head does not reach 1. How far is it from chance to a perfect "
     "score?"),
    ("chance-not-causal", {"even": lambda n: torch.full((n, n), 1 / n)},
     "You compute chance as if a head attended evenly to all n tokens. A causal head at position i has fewer to "
     "choose from."),
    ("looks-at-the-same-token", {"followed": lambda tokens: _followed(tokens, 0)},
     "You name heads that look at earlier copies of the current token. An induction head looks at what followed."),
    ("latest-match-alone", {"followed": latest},
     "For each position, you use only one earlier occurrence of its token. Add up the weights on the "
     "tokens that followed all of them."),
    ("largest-weight-alone", {"gather": lambda weights: weights.amax(-1)},
     "Of several matches you count only the one with most weight. A head that shares its weight among them works as "
     "well."),
    ("one-gap-for-all", {"followed": with_one_gap},
     "You assume that the repeats come at one fixed distance. In these texts the distance varies, so look at the "
     "tokens."),
    ("rows-without-a-match-counted", {"rows": lambda places: places.any(-1) | True},
     "Your mean includes positions that have nothing to find, as zeros. Take it only over the others."),
    ("best-head-alone", {"told": lambda pairs: pairs[:1]},
     "You name at most one head of each kind. A model may have several, or none."),
    ("head-before-layer", {"told": lambda pairs: sorted((head, layer) for layer, head in pairs)},
     "Your pairs begin with the head. Put the layer first."),
)  # fmt: skip

EXERCISE = exercise(
    find_heads,
    slipped=search,
    experiment=experiment,
    library="torch",
    credit={"plain texts": 0.35, "few or many matches": 0.2, "chance": 0.3, "edge cases": 0.15},
)
