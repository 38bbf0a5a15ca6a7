"""Writes the README's badges and its table of units. `make notebooks` runs it."""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path

from autograder.exercises import exercises, unit_names
from autograder.handout.course_map import course_map, table

ROOT = Path(__file__).resolve().parents[1]
BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{left}: {right}">
<rect width="{width}" height="20" rx="3" fill="#0a5c91"/>
<path d="M3 0h{cut}v20H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z" fill="#3a424d"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{x_left}" y="14">{left}</text><text x="{x_right}" y="14">{right}</text></g></svg>
"""


def badges() -> dict[str, str]:
    """Return name -> SVG of each badge, with numbers from the course's own files."""
    figure = json.loads((ROOT / "tests" / "unseen" / "figure.json").read_text(encoding="utf-8"))["all"]
    told = {
        "units": ("units", str(len(unit_names()))),
        "functions": ("functions to write", str(sum(len(exercises(unit)) for unit in unit_names()))),
        "rejected": ("unseen wrong answers rejected", f"{figure['rejected']} of {figure['wrong']}"),
        "accepted": ("unseen right answers accepted", f"{figure['accepted']} of {figure['right']}"),
    }
    return {f"badge-{name}.svg": badge(*words) for name, words in told.items()}


def badge(left: str, right: str) -> str:
    """Return a badge of two parts, as wide as their words."""
    cut, rest = (round(6.9 * len(words)) + 12 for words in (left, right))
    places = {"cut": cut - 3, "x_left": cut / 2, "x_right": cut + rest / 2, "width": cut + rest}
    return BADGE.format(left=escape(left), right=escape(right), **places)


def with_table(readme: str) -> str:
    """Return the README with the table of units from the notebooks."""
    new = table(course_map(ROOT), "notebooks/")
    first, last = new.partition("\n")[0], "| **all** |"
    start = readme.index(first)
    end = readme.index("\n", readme.index(last, start))
    return readme[:start] + new + readme[end:]


def main() -> int:
    for name, text in badges().items():
        (ROOT / "docs" / "pictures" / name).write_text(text, encoding="utf-8")
    readme = ROOT / "README.md"
    readme.write_text(with_table(readme.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
