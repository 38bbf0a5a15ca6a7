"""The course's prose for a page: Markdown as HTML, with formulas as MathML, so that a page needs no script for them."""

from __future__ import annotations

import functools
import re
from html import escape, unescape

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

#: A formula within HTML that stands in the prose, which Markdown passes over.
IN_HTML = re.compile(r"\$([^$<>]+)\$")
#: What our notebooks use and latex2mathml does not know -> the same in words that it does.
UNKNOWN = (
    (r"\\arg\b", r"\\operatorname{arg}"),
    (r"\{aligned\}", "{align*}"),
    (r"\\xrightarrow\{([^{}]*)\}", r"\\overset{\1}{\\longrightarrow}"),
    (r"\\operatorname\{([^{}]*\\_[^{}]*)\}", r"\\text{\1}"),
)


def rendered(source: str) -> str:
    """Markdown of ours, or of an instructor's, as HTML: what stands there as HTML stays HTML."""
    return MarkdownWithMath(renderer=_Renderer(escape=False, exclude_anchor_links=True)).render(source)


@functools.lru_cache(2_048)
def mathml(tex: str, display: str = "inline") -> str:
    """A formula as MathML; as readable TeX where it cannot be read, or what reads it is not installed."""
    try:
        from latex2mathml.converter import convert

        for pattern, instead in UNKNOWN:
            tex = re.sub(pattern, instead, tex)
        return convert(tex, display=display).replace(r"\_", "_")
    except Exception:
        return f"<code>{escape(tex)}</code>"


def _scrolling(formula: str) -> str:
    """A formula on a line of its own, which the keyboard can scroll where it is wider than the page."""
    return formula.replace('display="block"', 'display="block" tabindex="0"', 1)


class _Renderer(IPythonRenderer):
    def block_math(self, body: str) -> str:
        return _scrolling(mathml(body.strip(), "block"))

    def inline_math(self, body: str) -> str:
        return mathml(body)

    def latex_environment(self, name: str, body: str) -> str:
        return _scrolling(mathml(f"\\begin{{{name}}}{body}\\end{{{name}}}", "block"))

    def image(self, text: str, url: str, title: str | None = None) -> str:
        # A picture that the notebook carries does not come along: its words, for those it cannot reach, do.
        if url.startswith("attachment:"):
            return f"<em>{escape(unescape(text))}</em>"
        return super().image(text, url, title)

    def table(self, text: str) -> str:
        # A wide one scrolls by itself, with the keyboard too, and leaves the page as wide as the window.
        return f'<div class="wide" role="group" aria-label="A table" tabindex="0"><table>\n{text}</table></div>\n'

    def table_cell(self, text: str, align: str | None = None, head: bool = False) -> str:
        kind = "th" if head and text.strip() else "td"  # a heading without words is none
        style = f' style="text-align:{align}"' if align else ""
        return f"<{kind}{style}>{text}</{kind}>\n"

    def block_html(self, html: str) -> str:
        return IN_HTML.sub(lambda found: mathml(unescape(found[1])), super().block_html(html))


__all__ = ["mathml", "rendered"]
