"""Code in colours for a page, in time that grows with its length alone, whatever a student wrote.

Every alternative of `TOKEN` takes what it can and never gives any of it back, so no letter is read twice. Lexers made
for everybody's code look ahead and back, and a text can be written that costs them the square of its length.
"""

from __future__ import annotations

import builtins
import keyword
import re
from html import escape

from ..text import visible

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
    """The code as escaped HTML with a class for each token that has a colour; letters that cannot be seen spelt out."""
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


__all__ = ["coloured"]
