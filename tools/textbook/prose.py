"""Turns the cells of a notebook into HTML: Markdown, formulas, code and what a cell displayed."""

from __future__ import annotations

import base64
import html
import io
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from PIL import Image
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from .live_figures import names_in, without_code

PICTURE = re.compile(r'<img (?P<before>[^>]*)src="data:image/png;base64,(?P<data>[^"]+)"(?P<after>[^>]*)>')
PLAIN_CODE = HtmlFormatter(nowrap=True)
#: Placeholder for a formula until all are set.
MARK = re.compile(r"⟦formula (\d+)⟧")
#: TeX commands -> plain text; `sign` adds the Greek letters.
SIGNS = {
    **{"approx": "≈", "cdot": "·", "dots": "…", "downarrow": "↓", "ell": "ℓ", "ge": "≥", "infty": "∞", "le": "≤"},
    **{"ne": "≠", "partial": "∂", "sqrt": "√", "sum": "Σ", "times": "×", "to": "→", "top": "⊤", "uparrow": "↑"},
    **{"ln": "ln ", "log": "log ", "max": "max ", "varepsilon": "ε"},
}


@dataclass
class Heading:
    level: int
    anchor: str
    text: str


@dataclass
class Page:
    """Collects what rendering one notebook yields besides its HTML.

    name: the unit.
    links: a link's target in the notebook -> its target on the site; raises for one that leads nowhere.
    formulas: (TeX, whether it has its own line, cell); the HTML has a `MARK` for each.
    pictures: file name -> WebP.
    live: the names of the live figures, each once.
    """

    name: str
    links: Callable[[str, str], str]
    cell: str = ""
    headings: list[Heading] = field(default_factory=list)
    formulas: list[tuple[str, bool, str]] = field(default_factory=list)
    pictures: dict[str, bytes] = field(default_factory=dict)
    live: dict[str, None] = field(default_factory=dict)

    def formula(self, tex: str, display: bool) -> str:
        self.formulas.append((tex.strip(), display, self.cell))
        return f"⟦formula {len(self.formulas) - 1}⟧"


def fill_in(text: str, rendered: list[str]) -> str:
    """Replace the marks of `Page.formula` by the rendered formulas. A full stop stays on its formula's line."""
    text = re.sub(f"({MARK.pattern}[.,;:!?)]+)", r'<span class="whole">\1</span>', text)
    return MARK.sub(lambda found: rendered[int(found[1])], text)


class Renderer(IPythonRenderer):
    """nbconvert's renderer with readable anchors, links into the site, and a mark for each formula."""

    def __init__(self, page: Page) -> None:
        super().__init__(escape=False)
        self.page = page

    def heading(self, text: str, level: int, **attrs: object) -> str:
        words = re.sub(r"<[^>]+>", "", text)
        anchor = re.sub(r"[^a-z0-9]+", "-", html.unescape(words).lower()).strip("-")
        taken = {heading.anchor for heading in self.page.headings}
        if anchor in taken:
            anchor = f"{anchor}-{sum(other.startswith(anchor) for other in taken) + 1}"
        self.page.headings.append(Heading(level, anchor, words))
        return f'<h{level} id="{anchor}">{text}</h{level}>\n'

    def block_code(self, code: str, info: str | None = None) -> str:
        if info and info.split()[0] == "python":
            return code_block(code)
        return f"<pre><code>{html.escape(code, quote=False)}</code></pre>\n"

    def link(self, text: str, url: str, title: str | None = None) -> str:
        return super().link(text, self.page.links(url, self.page.cell), title)

    def block_html(self, html: str) -> str:
        """Find formulas in HTML blocks too, because Markdown treats a `<summary>` as HTML."""
        text = re.sub(r"(?<!\\)\$([^$\n]+)\$", lambda found: self.page.formula(found[1], False), html)
        return super().block_html(text)

    def block_math(self, body: str) -> str:
        return self.page.formula(body, True)

    def inline_math(self, body: str) -> str:
        return self.page.formula(body, False)

    def latex_environment(self, name: str, body: str) -> str:
        return self.page.formula(f"\\begin{{{name}}}{body}\\end{{{name}}}", True)


def markdown(source: str, page: Page) -> str:
    """Return a Markdown cell as HTML."""
    text = MarkdownWithMath(renderer=Renderer(page))(source)
    text = re.sub(r"<th([^>]*)>\s*</th>", r"<td\1></td>", text)  # an empty corner of a table is not a heading
    text = text.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")
    return text


def code_block(source: str) -> str:
    return f'<pre class="code"><code>{highlight(source, PythonLexer(), PLAIN_CODE).rstrip()}</code></pre>\n'


def folded(summary: str, content: str, kind: str = "fold") -> str:
    return f'<details class="{kind}"><summary>{summary}</summary>\n{content}</details>\n'


def output(item: dict, page: Page) -> str:
    """Return one output of a code cell as HTML: printed text, or a figure, whose picture becomes a file."""
    if item["output_type"] == "stream":
        text = html.escape(item["text"].rstrip("\n"), quote=False)
        return f'<pre class="output"><span class="unseen">Output: </span>{text}</pre>\n' if text else ""
    data = item.get("data", {})
    if "text/html" in data:
        page.live |= dict.fromkeys(names_in(data["text/html"]))
        return PICTURE.sub(lambda found: picture(found, page), without_code(data["text/html"])) + "\n"
    if "text/plain" in data:
        return output({"output_type": "stream", "text": data["text/plain"]}, page)
    return ""


def picture(found: re.Match[str], page: Page) -> str:
    """Return a figure's `<img>` with its data in a file, and with its size so that the page does not jump.

    The file is lossless WebP, which takes half the bytes.
    """
    image = Image.open(io.BytesIO(base64.b64decode(found["data"])))
    content = io.BytesIO()
    image.convert("RGB").save(content, "WEBP", lossless=True)
    name = page.cell
    while f"{name}.webp" in page.pictures:
        name += "-more"
    page.pictures[f"{name}.webp"] = content.getvalue()
    source = PurePosixPath("figures", page.name, f"{name}.webp")
    size = f'width="{image.width}" height="{image.height}" loading="lazy"'
    attributes = f"{found['before']}{found['after']}".replace('style="max-width:100%"', "")
    return f'<img {attributes.strip()} src="{source}" {size}>'


def words(text: str, page: Page) -> str:
    """Return the text of some HTML for the search, without tags, code and formulas that plain text cannot show."""

    def formula(found: re.Match[str]) -> str:
        return plain_formula(page.formulas[int(found[1])][0])

    text = re.sub(r"<pre.*?</pre>", " ", MARK.sub(formula, text), flags=re.DOTALL)
    text = re.sub(r"</?(a|b|i|em|strong|code|span)\b[^>]*>", "", text)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text))).strip()


def plain_formula(tex: str) -> str:
    """Return a short formula as plain text, `√d_k` for TeX's `\\sqrt{d_k}`; … if that is not possible."""
    text = re.sub(r"\\(text|operatorname|mathrm)\{([^{}]*)\}", r"\2", tex)
    text = re.sub(r"\\[td]?frac *(\{[^{}]*\}|\w) *(\{[^{}]*\}|\w)", r"\1/\2", text)
    text = re.sub(r"\\[ ,;!]", " ", re.sub(r"\\([a-zA-Z]+)", sign, text))
    for _ in range(2):  # braces may contain braces
        text = re.sub(r"\{([^{}]*)\}", group, text)
    text = re.sub(r"\s+", " ", text).replace("√ ", "√").strip()
    return text if len(text) <= 40 and not re.search(r"[\\{}&]", text) else "…"


def group(braces: re.Match[str]) -> str:
    """Return what is in braces, in parentheses if they keep it together."""
    return braces[1] if re.fullmatch(r"\w*|.|\(.*\)", braces[1]) else f"({braces[1]})"


def sign(command: re.Match[str]) -> str:
    """Return the character for a command of TeX, or the command unchanged."""
    name = command[1]
    kind = "SMALL" if name.islower() else "CAPITAL"
    try:
        return SIGNS.get(name) or unicodedata.lookup(f"GREEK {kind} LETTER {name.upper()}")
    except KeyError:
        return command[0]
