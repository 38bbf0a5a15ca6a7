"""Defines the course's colours and fonts for pages, live figures and Matplotlib.

`colours.json` has each colour twice, for light and for dark pages, named after its role: a query is orange everywhere,
a key blue, a value green. Readers with any kind of colour vision can tell the six of `SERIES` apart (M. Okabe, K. Ito,
2008). Text has darker shades of its own (`query-ink`), with a contrast of at least 4.5 on the page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
#: The order in which curves take their colours.
SERIES = ("key", "query", "value", "fourth", "fifth", "sixth")
FONT = 'system-ui, "Segoe UI", Roboto, sans-serif'
FONT_OF_CODE = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'


@cache
def colours() -> Mapping[str, tuple[str, str]]:
    """Return name -> (colour on a light page, colour on a dark page)."""
    table = json.loads((FOLDER / "colours.json").read_text(encoding="utf-8"))
    return {name: (light, dark) for name, (light, dark) in table.items()}


def css(selector: str = ":root", dark: str | None = None) -> str:
    """Return the colours and fonts as CSS variables of `selector`: `--ink`, `--query` and so on, light and dark.

    dark: the selector of the dark theme, where the page itself sets one; else the reader's system decides.
    """
    light, night = ("".join(f"--{name}:{pair[which]};" for name, pair in colours().items()) for which in (0, 1))
    fonts = f"--font:{FONT};--font-of-code:{FONT_OF_CODE};"
    at_night = f"{dark}{{{night}}}" if dark else f"@media (prefers-color-scheme:dark){{{selector}{{{night}}}}}"
    return f"{selector}{{{fonts}{light}}}\n{at_night}\n"


def for_matplotlib() -> dict[str, Any]:
    """Return settings for `matplotlib.rcParams`: the course's colours and sizes, on white."""
    ink, soft, line = (colours()[name][0] for name in ("ink", "soft", "line"))
    cycle = ", ".join(repr(colours()[name][0]) for name in SERIES)
    return {
        "axes.edgecolor": soft,
        "axes.labelcolor": ink,
        "axes.prop_cycle": f"cycler('color', [{cycle}])",
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 11.5,
        "figure.facecolor": "white",
        "font.size": 10.5,
        "grid.color": line,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "text.color": ink,
        "xtick.color": soft,
        "xtick.labelcolor": ink,
        "ytick.color": soft,
        "ytick.labelcolor": ink,
    }


def mark() -> str:
    """Return the course's logo, one word that looks back at another, as SVG."""
    return (FOLDER / "mark.svg").read_text(encoding="utf-8")


__all__ = ["SERIES", "colours", "css", "for_matplotlib", "mark"]
