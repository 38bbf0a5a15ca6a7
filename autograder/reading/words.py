"""A student's own Markdown, carried over as text that cannot act.

The formgrader and JupyterLab show Markdown with its HTML in it, with links, pictures and formulas. In a fenced block it
is text and nothing else, for the fence is longer than any row of backticks in it.
"""

from __future__ import annotations

import re
import textwrap

#: Letters of a line from which on it is broken at a blank: a block is shown as it stands.
WIDTH = 110
SHORTEST = "```"
TICKS = re.compile("`+")


def quoted(text: str) -> str:
    """The text as Markdown that shows it letter by letter. What is quoted already stays as it is."""
    if _fence_of(text):
        return text
    lines = (line for whole in text.strip("\n").split("\n") for line in _broken(whole))
    body = "\n".join(lines)
    fence = _long_enough(body)
    return f"{fence}\n{body}\n{fence}"


def unquoted(source: str) -> str | None:
    """The text that `quoted` has put into a block; None for any other Markdown."""
    fence = _fence_of(source)
    return source[len(fence) + 1 : -len(fence) - 1] if fence else None


def _fence_of(source: str) -> str:
    """The fence of a block that nothing in it can end; "" where this is none."""
    first, _, rest = source.partition("\n")
    body, _, last = rest.rpartition("\n")
    whole = len(first) >= len(SHORTEST) and set(first) == {"`"} and first == last
    return first if whole and first == _long_enough(body) else ""


def _long_enough(body: str) -> str:
    return max([SHORTEST, *("`" * (len(row) + 1) for row in TICKS.findall(body))], key=len)


def _broken(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    options = {"break_long_words": False, "break_on_hyphens": False, "replace_whitespace": False}
    return textwrap.wrap(line, WIDTH, expand_tabs=False, **options) or [line]


__all__ = ["quoted", "unquoted"]
