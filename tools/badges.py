"""The badges of the README: numbers that the course's own files say. `tools/pictures.py badges` writes them."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from autograder.exercises import exercises, unit_names

ROOT = Path(__file__).resolve().parents[1]
BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{left}: {right}">
<rect width="{width}" height="20" rx="3" fill="#0a5c91"/>
<path d="M3 0h{cut}v20H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z" fill="#3a424d"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{x_left}" y="14">{left}</text><text x="{x_right}" y="14">{right}</text></g></svg>
"""


def badges() -> dict[str, str]:
    """Name -> SVG of each badge: numbers that the course's own files say."""
    figure = json.loads((ROOT / "tests" / "unseen" / "figure.json").read_text(encoding="utf-8"))["all"]
    told = {
        "units": ("units", str(len(unit_names()))),
        "functions": ("functions to write", str(sum(len(exercises(unit)) for unit in unit_names()))),
        "rejected": ("unseen wrong answers rejected", f"{figure['rejected']} of {figure['wrong']}"),
        "accepted": ("unseen right answers accepted", f"{figure['accepted']} of {figure['right']}"),
    }
    return {f"badge-{name}.svg": badge(*words) for name, words in told.items()}


def badge(left: str, right: str) -> str:
    """A badge of two parts, as wide as their words."""
    cut, rest = (round(6.9 * len(words)) + 12 for words in (left, right))
    places = {"cut": cut - 3, "x_left": cut / 2, "x_right": cut + rest / 2, "width": cut + rest}
    return BADGE.format(left=escape(left), right=escape(right), **places)
