"""What all pages share: one look, and templates that escape everything and fail on a name they do not know."""

from __future__ import annotations

from pathlib import Path

import jinja2
from markupsafe import Markup

from attention_figures import look

HERE = Path(__file__).parent


def template(name: str) -> jinja2.Template:
    """A template of this folder; it knows `style`, the page's CSS, and `emblem`, the course's mark."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    on_paper = "".join(f"--{colour}:{light};" for colour, (light, _) in look.colours().items())
    paper = f"@media print{{:root{{color-scheme:light;--on-bright:var(--ink);{on_paper}}}}}\n"
    style = look.css() + (HERE / "style.css").read_text(encoding="utf-8") + paper
    environment.globals |= {"style": Markup(style), "emblem": Markup(look.mark().strip())}
    return environment.from_string((HERE / name).read_text(encoding="utf-8"))


__all__ = ["template"]
