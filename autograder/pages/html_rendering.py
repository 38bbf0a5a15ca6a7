"""Renders prose and code as HTML, with formulas as MathML, and loads templates that escape everything."""

from __future__ import annotations

import builtins
import functools
import keyword
import re
from html import escape, unescape
from pathlib import Path

import jinja2
import markupsafe
from markupsafe import Markup
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from attention_figures import appearance

from ..safe_text import visible

HERE = Path(__file__).parent


def template(name: str) -> jinja2.Template:
    """Return a template of this folder, with `style`, the page's CSS, and `emblem`, the course's mark."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    on_paper = "".join(f"--{colour}:{light};" for colour, (light, _) in appearance.colours().items())
    paper = f"@media print{{:root{{color-scheme:light;--on-bright:var(--ink);{on_paper}}}}}\n"
    style = appearance.css() + (HERE / "style.css").read_text(encoding="utf-8") + paper
    environment.globals |= {"style": Markup(style), "emblem": Markup(appearance.mark().strip())}
    return environment.from_string((HERE / name).read_text(encoding="utf-8"))


BETWEEN_TICKS = re.compile(r"`([^`]+)`")


def with_code(text: str) -> Markup:
    """Return text as HTML, with code between backticks; a backtick without a partner is kept.

    It escapes everything, because the text may contain a student's words.
    """
    pieces = BETWEEN_TICKS.split(text)
    code = Markup("<code>{}</code>")
    return Markup("").join(
        code.format(piece) if place % 2 else markupsafe.escape(piece) for place, piece in enumerate(pieces)
    )


#: A formula within HTML in the prose, which Markdown skips.
IN_HTML = re.compile(r"\$([^$<>]+)\$")
#: TeX in our notebooks that latex2mathml does not know -> the same in TeX that it does.
UNKNOWN = (
    (r"\\arg\b", r"\\operatorname{arg}"),
    (r"\{aligned\}", "{align*}"),
    (r"\\xrightarrow\{([^{}]*)\}", r"\\overset{\1}{\\longrightarrow}"),
    (r"\\operatorname\{([^{}]*\\_[^{}]*)\}", r"\\text{\1}"),
)


def rendered(source: str) -> str:
    """Return Markdown of ours, or of an instructor's, as HTML; HTML in it stays HTML."""
    return MarkdownWithMath(renderer=_Renderer(escape=False, exclude_anchor_links=True)).render(source)


@functools.lru_cache(2_048)
def mathml(tex: str, display: str = "inline") -> str:
    """Return a formula as MathML, or as readable TeX if it cannot be read or latex2mathml is not installed."""
    try:
        from latex2mathml.converter import convert

        for pattern, instead in UNKNOWN:
            tex = re.sub(pattern, instead, tex)
        return convert(tex, display=display).replace(r"\_", "_")
    except Exception:
        return f"<code>{escape(tex)}</code>"


def _scrolling(formula: str) -> str:
    """Let the keyboard scroll a formula on a line of its own that is wider than the page."""
    return formula.replace('display="block"', 'display="block" tabindex="0"', 1)


class _Renderer(IPythonRenderer):
    def block_math(self, body: str) -> str:
        return _scrolling(mathml(body.strip(), "block"))

    def inline_math(self, body: str) -> str:
        return mathml(body)

    def latex_environment(self, name: str, body: str) -> str:
        return _scrolling(mathml(f"\\begin{{{name}}}{body}\\end{{{name}}}", "block"))

    def image(self, text: str, url: str, title: str | None = None) -> str:
        # A picture attached to the notebook is not on the page, but its alternative text is.
        if url.startswith("attachment:"):
            return f"<em>{escape(unescape(text))}</em>"
        return super().image(text, url, title)

    def table(self, text: str) -> str:
        # A wide table scrolls by itself, also by keyboard, so that the page stays as wide as the window.
        return f'<div class="wide" role="group" aria-label="A table" tabindex="0"><table>\n{text}</table></div>\n'

    def table_cell(self, text: str, align: str | None = None, head: bool = False) -> str:
        kind = "th" if head and text.strip() else "td"  # an empty heading is an ordinary cell
        style = f' style="text-align:{align}"' if align else ""
        return f"<{kind}{style}>{text}</{kind}>\n"

    def block_html(self, html: str) -> str:
        return IN_HTML.sub(lambda found: mathml(unescape(found[1])), super().block_html(html))


TOKEN = re.compile(
    r"""
    (?P<comment> \#[^\n]*+ )
  | (?P<string> [rRbBuUfF]{0,2}+
        (?: \"\"\" (?: [^"\\]++ | \\. | "(?!"") )*+ (?: \"\"\" )?
          | ''' (?: [^'\\]++ | \\. | '(?!'') )*+ (?: ''' )?
          | " (?: [^"\\\n]++ | \\. )*+ "?
          | ' (?: [^'\\\n]++ | \\. )*+ '? ) )
  | (?P<number> \d[\w.]*+ )
  | (?P<name> \w++ )
    """,
    re.VERBOSE | re.DOTALL,
)
CONSTANTS = {"True", "False", "None"}
BUILTINS = {name for name in dir(builtins) if not name.startswith("_")} - CONSTANTS
#: Kind of token -> its class on a page.
CLASSES = {"comment": "c", "string": "s", "number": "m", "keyword": "k", "constant": "m", "builtin": "nb"}


def coloured(source: str) -> str:
    """Return code as escaped HTML with a class for each coloured token; letters that cannot be seen are spelt out."""
    text, parts, end = visible(source), [], 0
    for token in TOKEN.finditer(text):
        kind = _kind(token)
        if kind in CLASSES:
            span = f'<span class="{CLASSES[kind]}">{escape(token[0])}</span>'
            parts += [escape(text[end : token.start()]), span]
            end = token.end()
    return "".join([*parts, escape(text[end:])])


def _kind(token: re.Match[str]) -> str:
    if token.lastgroup != "name":
        return token.lastgroup or ""
    if token[0] in CONSTANTS:
        return "constant"
    if keyword.iskeyword(token[0]):
        return "keyword"
    return "builtin" if token[0] in BUILTINS else "name"
