"""Texts whose tokens come back after varying gaps, and heads of a known kind that read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

#: No head's score, with chance taken off, lies between these: whether it counts is never a matter of taste.
UNCLEAR = 0.28, 0.72


def copied(rng: np.random.Generator, n: int, fresh: int) -> np.ndarray:
    """`fresh` distinct tokens, in which pieces of what stood before are put in again at random places."""
    tokens = list(rng.permutation(60)[:fresh])
    while len(tokens) < n:
        length = min(int(rng.integers(2, 5)), n - len(tokens))
        start = int(rng.integers(0, len(tokens) - length))
        place = int(rng.integers(start + length + 1, len(tokens) + 1))
        tokens[place:place] = tokens[start : start + length]
    return np.array(tokens)


def of_two(rng: np.random.Generator, n: int, share: float) -> np.ndarray:
    """Two tokens, one of them with this share, in a random order."""
    ones = max(round(n * share), 1)
    return rng.permutation(np.repeat([3, 5], [n - ones, ones]))


def mostly_one(rng: np.random.Generator, n: int) -> np.ndarray:
    """One token at three of four places, and six kinds at the others."""
    text = np.repeat(11, n)
    places = rng.permutation(n)[: n // 4]
    text[places] = rng.permutation(np.resize(np.arange(6), len(places)))
    return text


def doubled(rng: np.random.Generator, kinds: int) -> np.ndarray:
    """Distinct tokens, each twice in a row."""
    return np.repeat(rng.permutation(40)[:kinds], 2)


def far_apart(tokens: np.ndarray) -> np.ndarray:
    """The same text in other ids, of which five at a time have the same last 16 bits."""
    kinds = np.unique(tokens, return_inverse=True)[1]
    return kinds // 5 + 65_536 * (kinds % 5 + 2)


def one_then_others(rng: np.random.Generator) -> np.ndarray:
    """Five times the same token, then others once each, but for the last, which comes back once."""
    tokens = rng.permutation(60)[:31]
    return np.concatenate([tokens[:1].repeat(5), tokens[1:], tokens[8:9]])


def steps_back(n: int, steps: int) -> np.ndarray:
    return np.eye(n, k=-steps, dtype=bool)


def matches(tokens: np.ndarray, shift: int = 1) -> np.ndarray:
    """(i, j) is True where j <= i and the token `shift` columns before j is the one of i."""
    n = len(tokens)
    found = np.zeros((n, n), bool)
    for i in range(n):
        for j in range(i + 1):
            found[i, j] = 0 <= j - shift <= i and j - shift != i and tokens[j - shift] == tokens[i]
    return found


def corrected(patterns: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The mean weight on `places` over the rows that have one: 0 for even attention, 1 for all weight."""
    n, rows = len(places), places.any(-1)
    if not rows.any():
        return np.zeros(patterns.shape[:-2])
    even = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    score, chance = ((weights * places).sum(-1)[..., rows].mean(-1) for weights in (patterns, even))
    return (score - chance) / (1 - chance)


def read_by(
    rng: np.random.Generator, text: Callable[[], np.ndarray], kinds: Sequence[Sequence[tuple[str, float]]]
) -> dict[str, np.ndarray]:
    """Tokens from `text()` and patterns (layers, heads, n, n) none of which is near to the border.

    kinds: what each head of each layer does, and how much of it.
    """
    for _ in range(100):
        tokens = text()
        layers = [[_clear_head(rng, tokens, *kind) for kind in layer] for layer in kinds]
        if all(head is not None for layer in layers for head in layer):
            return {"patterns": np.array(layers), "tokens": tokens}
    raise ValueError(f"no text on which all of these are clear: {kinds}")


def _clear_head(rng: np.random.Generator, tokens: np.ndarray, kind: str, strength: float) -> np.ndarray | None:
    places = steps_back(len(tokens), 1), matches(tokens)
    for _ in range(20):
        pattern = _head(rng, tokens, kind, strength)
        if not any(UNCLEAR[0] < float(corrected(pattern, wanted)) < UNCLEAR[1] for wanted in places):
            return pattern
    return None


def _head(rng: np.random.Generator, tokens: np.ndarray, kind: str, strength: float) -> np.ndarray:
    """A causal pattern which stands `strength` of the way from even attention to what its kind looks at."""
    n = len(tokens)
    allowed = np.tri(n, dtype=bool)
    places = {
        "any": np.zeros((n, n), bool),
        "self": np.eye(n, dtype=bool),
        "first": np.eye(1, n, dtype=bool).repeat(n, 0),
        "before": steps_back(n, 1),
        "two back": steps_back(n, 2),
        "followed": matches(tokens),
        "latest": _latest(matches(tokens)),
        "earliest": _latest(matches(tokens)[:, ::-1])[:, ::-1],
        "same": matches(tokens, 0),
        "ahead": matches(tokens, -1),
        "next": matches(tokens, 2),
    }[kind]
    chance = (places / allowed.sum(-1, keepdims=True)).sum(-1, keepdims=True)
    aim = chance + (1 - chance) * np.clip(strength + 0.04 * rng.standard_normal((n, 1)), 0, 0.98)
    inside, outside = (_spread(rng, allowed & chosen) for chosen in (places, ~places))
    aim = np.where(inside.any(-1, keepdims=True), aim, 0.0)
    aim = np.where(outside.any(-1, keepdims=True), aim, 1.0)
    return aim * inside + (1 - aim) * outside


def _spread(rng: np.random.Generator, places: np.ndarray) -> np.ndarray:
    """Random weights on these places, which sum to 1 in every row that has one."""
    weights = np.where(places, rng.random(places.shape) + 0.3, 0.0)
    return weights / np.maximum(weights.sum(-1, keepdims=True), 1e-12)


def _latest(places: np.ndarray) -> np.ndarray:
    """The last place of every row alone."""
    later = np.cumsum(places[:, ::-1], -1)[:, ::-1]
    return places & (later == 1)
