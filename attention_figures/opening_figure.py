"""Makes the figure that opens the course: the words to which “it” attends, with keys and queries set by hand."""

from __future__ import annotations

import base64
import math

from . import live
from .appearance import colours

#: A key has two numbers: how well the word fits as the thing that goes in, and how well as the thing that holds it. A
#: query asks for one of the two.
DATA = {
    "words": ["the trophy", "doesn't fit in", "the suitcase", "because", "it", "is too", "big"],
    "asker": 4,
    "end": 6,
    "keys": [[1, 0.1], [0.1, 0.2], [0.2, 1], [0, 0], [0, 0], [0, 0], [0, 0]],
    "queries": {"big": [4, 0], "small": [0, 4]},
    "questions": {"big": "what goes in?", "small": "what holds the other?"},
}
ALT = (
    "The sentence: the trophy doesn't fit in the suitcase because it is too big. Arcs lead from the word it to all "
    "words; the thickest leads to the trophy, with a weight of {:.2f}. With small instead of big it leads to the "
    "suitcase, with {:.2f}."
)
CAPTION = (
    "The keys and the two queries of “it” are set by hand, to show what attention can express; the weights follow from "
    "them. In a model an earlier layer has to bring “big” or “small” to “it” first. The sentence is from the Winograd "
    "Schema Challenge (Levesque, Davis and Morgenstern, 2012)."
)


def weights(ending: str) -> list[float]:
    """Return the weights that “it” gives to the words; ending: “big” or “small”."""
    query = DATA["queries"][ending]
    powers = [math.exp(sum(q * k for q, k in zip(query, key, strict=True))) for key in DATA["keys"]]
    return [power / sum(powers) for power in powers]


def still() -> str:
    """Return the figure's first state as SVG."""
    ink, query, page = (colours()[name][0] for name in ("ink", "query", "page"))
    parts, start = [], 104 * DATA["asker"] + 52
    for j, (word, weight) in enumerate(zip(DATA["words"], weights("big"), strict=True)):
        x = 104 * j + 52
        ends = (start - 14, x + 14) if x == start else (start, x)
        path = f"M{ends[0]} 110C{ends[0]} {20 + 8 * j} {ends[1]} {20 + 8 * j} {ends[1]} 110"
        parts.append(f'<path d="{path}" fill="none" stroke="{query}" stroke-width="{1 + 9 * weight:.1f}"/>')
        parts.append(f'<text x="{x}" y="130">{word}</text><text x="{x}" y="150" font-size="12">{weight:.2f}</text>')
    look = f'font-family="sans-serif" font-size="15" text-anchor="middle" fill="{ink}"'
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 728 160" width="728" height="160" {look}>'
    return f'{frame}<rect width="728" height="160" fill="{page}"/>{"".join(parts)}</svg>'


def opening_figure() -> str:
    """Return the figure as HTML, with a still picture for readers without scripts."""
    source = base64.b64encode(still().encode()).decode()
    alt = ALT.format(max(weights("big")), max(weights("small")))
    picture = f'<img alt="{alt}" src="data:image/svg+xml;base64,{source}" style="max-width:100%">'
    return live("pronoun", DATA, picture, CAPTION)
