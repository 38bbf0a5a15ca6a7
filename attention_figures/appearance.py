"""How everything in the course looks: one file of colours, for pages, live figures and Matplotlib alike.

`colours.json` has each colour twice, for light and for dark, named for what it stands for: a query is orange
everywhere, a key blue, a value green. The first six of `SERIES` can be told apart by all kinds of colour vision
(M. Okabe, K. Ito, 2008); text has darker shades of its own (`query-ink`), with a contrast of 4.5 and more on the page.
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
    """Name -> (colour on a light page, colour on a dark page)."""
    table = json.loads((FOLDER / "colours.json").read_text(encoding="utf-8"))
    return {name: (light, dark) for name, (light, dark) in table.items()}


def css(selector: str = ":root", dark: str | None = None) -> str:
    """The colours and fonts as CSS variables of `selector`: `--ink`, `--query` and so on, light and dark.

    dark: the selector for dark, where the page itself says which it is; else the reader's system decides.
    """
    light, night = ("".join(f"--{name}:{pair[which]};" for name, pair in colours().items()) for which in (0, 1))
    fonts = f"--font:{FONT};--font-of-code:{FONT_OF_CODE};"
    at_night = f"{dark}{{{night}}}" if dark else f"@media (prefers-color-scheme:dark){{{selector}{{{night}}}}}"
    return f"{selector}{{{fonts}{light}}}\n{at_night}\n"


def for_matplotlib() -> dict[str, Any]:
    """Settings for `matplotlib.rcParams`: the same colours and sizes, on white."""
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
    """The course's mark, one word that looks back at another, as SVG."""
    return (FOLDER / "mark.svg").read_text(encoding="utf-8")


__all__ = ["SERIES", "colours", "css", "for_matplotlib", "mark"]
