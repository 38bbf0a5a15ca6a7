"""Plain text on a page: code between backticks is shown as code, and everything is escaped."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

BETWEEN_TICKS = re.compile(r"`([^`]+)`")


def with_code(text: str) -> Markup:
    """The text as HTML. It may hold a student's words; a backtick without a second one stays as it is."""
    pieces = BETWEEN_TICKS.split(text)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(piece) if place % 2 else escape(piece) for place, piece in enumerate(pieces))
