"""Fills the templates of the pages and of their parts, in `tools/web/`."""

from __future__ import annotations

from pathlib import Path

import jinja2
from markupsafe import Markup

from attention_figures import appearance

WEB = Path(__file__).resolve().parents[1] / "web"
ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(WEB), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
)
ENVIRONMENT.globals["mark"] = Markup(appearance.mark())


def filled(template: str, **values: object) -> str:
    """Fill a template of `tools/web/`; values that are not HTML yet are escaped."""
    return ENVIRONMENT.get_template(template).render(**values)


def style() -> str:
    """Return the site's CSS: the course's colours and fonts (on paper the light ones), then the rules."""
    on_paper = "".join(f"--{name}:{light};" for name, (light, _) in appearance.colours().items())
    rules = (WEB / "style.css").read_text(encoding="utf-8")
    return f"{appearance.css()}@media print{{:root{{{on_paper}}}}}\n{rules}"
