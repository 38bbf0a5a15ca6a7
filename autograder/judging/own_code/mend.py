"""A change of a student's program, and the words for what it changes.

They say what stands there and what kind of thing is due, and not what: that is left to whoever reads them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from ..variants.edit import Edit
from ..variants.scope import bound_at

LIKELY, POSSIBLE, ODD = range(3)
#: Changes that put something there that few forget: one of them alone may be what is missing, and hardly one of two.
ARTIFICIAL = frozenset(
    ("no-root", "no-square", "no-abs", "no-complement", "not-doubled", "not-halved", "off-by-one", "not-inverted")
)

#: A longer piece of a program is shown by a part alone.
LONGEST = 60

Parents = Mapping[ast.AST, ast.AST]


@dataclass(frozen=True)
class Mend:
    """One change. line: where it is, counted as in the cell; words: what is at fault, as the end of a sentence."""

    edit: Edit
    line: int
    words: str

    @property
    def slug(self) -> str:
        return self.edit.slug


def text_of(node: ast.AST) -> str:
    """A piece of a program in backticks, by its first line; of a chain of calls the last ones count."""
    text = ast.unparse(node).partition("\n")[0]
    if len(text) > LONGEST:
        is_chain = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        text = "…" + text[1 - LONGEST :] if is_chain else text[: LONGEST - 1] + "…"
    return f"`{text}`"


def mend(node: ast.AST, new: ast.AST | None, slug: str, words: str, rank: int = LIKELY, line: int = 0) -> Mend:
    return Mend(Edit(node.number, new, slug, words, rank), line or getattr(node, "lineno", 0), words)


def whole(node: ast.AST) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if type(value) is int else None


def bound_names(node: ast.AST, parents: Parents) -> set[str]:
    try:
        return bound_at(node, dict(parents))
    except AttributeError:  # within a lambda or a comprehension
        return set()
