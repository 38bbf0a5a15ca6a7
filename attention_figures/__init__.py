"""Makes live figures, which react to the reader: plain JavaScript with data as JSON, without server or kernel.

It is a separate package because every notebook imports it, and it depends on no exercises, answers or marks.

A live figure is HTML with a still picture, its data and its caption. Where scripts run, `kit.js` and the figure's own
file replace the picture by what they draw; elsewhere it stays. Each file `NAME.js` in this folder is a figure.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from .appearance import css

FOLDER = Path(__file__).parent
#: Matches live figures in JupyterLab's dark theme; elsewhere the reader's system decides.
DARK_LAB = '[data-jp-theme-light="false"] .live'


def names() -> list[str]:
    """Return the names of all live figures."""
    return sorted(path.stem for path in FOLDER.glob("*.js") if path.stem != "kit")


def live(name: str, data: Mapping[str, Any], still: str, caption: str) -> str:
    """Return a live figure as self-contained HTML, as a notebook shows it.

    data: what the figure's file expects; it may contain arrays and tensors. still: the picture as an `img` element
    with its alternative text. Raises ValueError for an unknown name and for numbers that are not finite.
    """
    return with_code(name, figure(name, data, still, caption))


def with_code(name: str, shown: str) -> str:
    """Return the HTML of a figure with the style and the scripts that it needs."""
    scripts = "\n".join(script(part) for part in ("kit", name))
    return f"<style>{style()}</style>{shown}<script>{scripts}\nlive.start()</script>"


def figure(name: str, data: Mapping[str, Any], still: str, caption: str) -> str:
    """Return only the figure's HTML; the page supplies its scripts and style. Raises ValueError as `live` does."""
    if name not in names():
        raise ValueError(f"there is no live figure {name!r}; there are {', '.join(names())}")
    known = json.dumps(plain(data), ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<figure class="live" data-live="{name}">{still}<script type="application/json">{known}</script>'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )


def plain(value: Any) -> Any:
    """Return the value as JSON types: arrays and tensors become lists, floats get six digits. Raises ValueError."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"a live figure takes finite numbers, not {value}")
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


@cache
def script(part: str) -> str:
    """Return the source of the kit or of a figure. Raises ValueError for one that does not exist."""
    if part != "kit" and part not in names():
        raise ValueError(f"there is no live figure {part!r}; there are {', '.join(names())}")
    return (FOLDER / f"{part}.js").read_text(encoding="utf-8")


@cache
def style() -> str:
    """Return the CSS of all live figures, with the course's colours."""
    by_system, by_lab = css(".live"), css(".live", DARK_LAB)
    by_system = by_system.replace("{.live{", "{body:not([data-jp-theme-light]) .live{")
    return by_system + by_lab.split("\n", 1)[1] + (FOLDER / "kit.css").read_text(encoding="utf-8")


__all__ = ["figure", "live", "names", "script", "style", "with_code"]
