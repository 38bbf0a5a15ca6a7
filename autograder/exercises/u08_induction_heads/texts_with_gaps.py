"""Draws texts whose tokens recur after varying gaps, and attention patterns of known heads on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

#: No head's score, corrected for chance, is between these, so that it is clear whether a head is of the kind.
UNCLEAR = 0.28, 0.72


def copied(rng: np.random.Generator, n: int, fresh: int) -> np.ndarray:
    """Draw `fresh` distinct tokens and insert copies of earlier pieces at random places."""
    tokens = list(rng.permutation(60)[:fresh])
    while len(tokens) < n:
        length = min(int(rng.integers(2, 5)), n - len(tokens))
        start = int(rng.integers(0, len(tokens) - length))
        place = int(rng.integers(start + length + 1, len(tokens) + 1))
        tokens[place:place] = tokens[start : start + length]
    return np.array(tokens)


def of_two(rng: np.random.Generator, n: int, share: float) -> np.ndarray:
    """Draw two tokens in random order, one of them with this share."""
    ones = max(round(n * share), 1)
    return rng.permutation(np.repeat([3, 5], [n - ones, ones]))


def mostly_one(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw one token at three of four places, and six kinds at the others."""
    text = np.repeat(11, n)
    places = rng.permutation(n)[: n // 4]
    text[places] = rng.permutation(np.resize(np.arange(6), len(places)))
    return text


def doubled(rng: np.random.Generator, kinds: int) -> np.ndarray:
    """Draw distinct tokens, each twice in a row."""
    return np.repeat(rng.permutation(40)[:kinds], 2)


def far_apart(tokens: np.ndarray) -> np.ndarray:
    """Rename the tokens to ids of which five at a time have the same last 16 bits."""
    kinds = np.unique(tokens, return_inverse=True)[1]
    return kinds // 5 + 65_536 * (kinds % 5 + 2)


def one_then_others(rng: np.random.Generator) -> np.ndarray:
    """Draw five copies of one token, then others once each; one of them recurs at the end."""
    tokens = rng.permutation(60)[:31]
    return np.concatenate([tokens[:1].repeat(5), tokens[1:], tokens[8:9]])


def steps_back(n: int, steps: int) -> np.ndarray:
    return np.eye(n, k=-steps, dtype=bool)


def matches(tokens: np.ndarray, shift: int = 1) -> np.ndarray:
    """Return a matrix that is True at (i, j <= i) if an earlier occurrence of token i is `shift` columns before j."""
    n = len(tokens)
    found = np.zeros((n, n), bool)
    for i in range(n):
        for j in range(i + 1):
            found[i, j] = 0 <= j - shift <= i and j - shift != i and tokens[j - shift] == tokens[i]
    return found


def corrected(patterns: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the mean weight on `places`, over the rows that contain one.

    It is rescaled so that even attention gives 0, and all weight on `places` gives 1.
    """
    n, rows = len(places), places.any(-1)
    if not rows.any():
        return np.zeros(patterns.shape[:-2])
    even = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    score, chance = ((weights * places).sum(-1)[..., rows].mean(-1) for weights in (patterns, even))
    return (score - chance) / (1 - chance)


def read_by(
    rng: np.random.Generator, text: Callable[[], np.ndarray], kinds: Sequence[Sequence[tuple[str, float]]]
) -> dict[str, np.ndarray]:
    """Draw tokens from `text()` and patterns (layers, heads, n, n) whose scores are all clear.

    kinds: what each head of each layer does, and how strongly.
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
    """Draw a causal pattern `strength` of the way from even attention to the positions of its kind."""
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
    """Draw random weights on these places, which sum to 1 in every row that has one."""
    weights = np.where(places, rng.random(places.shape) + 0.3, 0.0)
    return weights / np.maximum(weights.sum(-1, keepdims=True), 1e-12)


def _latest(places: np.ndarray) -> np.ndarray:
    """Keep only the last place of every row."""
    later = np.cumsum(places[:, ::-1], -1)[:, ::-1]
    return places & (later == 1)
