"""A change of a student's program, and the words for what it changes.

They say what stands there and what kind of thing is due, and not what: that is left to whoever reads them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..mutants.edit import Edit, bound_at

LIKELY, POSSIBLE, ODD = range(3)
#: Changes that put something there that few forget: one of them alone may be what is missing, and hardly one of two.
ARTIFICIAL = frozenset(
    ("no-root", "no-square", "no-abs", "no-complement", "not-doubled", "not-halved", "off-by-one", "not-inverted")
)

#: The same change is made in at most so many places at once.
TOGETHER = 4
#: A longer piece of a program is shown by a part alone.
LONGEST = 60

Parents = Mapping[ast.AST, ast.AST]


@dataclass(frozen=True)
class Repair:
    """One change. line: where it is, counted as in the cell; words: what is at fault, as the end of a sentence.

    more: the same change made elsewhere, too. other: another change that passes every case as well.
    """

    edit: Edit
    line: int
    words: str
    more: tuple[Edit, ...] = ()
    other: Repair | None = None

    @property
    def edits(self) -> tuple[Edit, ...]:
        return (self.edit, *self.more)

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


def repair(
    node: ast.AST,
    new: ast.AST | None,
    slug: str,
    words: str,
    rank: int = LIKELY,
    line: int = 0,
    kind: str = "",
) -> Repair:
    """kind: changes of one kind are made together, too."""
    return Repair(Edit(node.number, new, slug, words, rank, kind), line or getattr(node, "lineno", 0), words)


def together(repairs: Sequence[Repair], tree: ast.AST) -> Iterator[Repair]:
    """Changes of one kind, made wherever they can be: who counts from 1 does so everywhere."""
    holds = {node.number: node.holds for node in ast.walk(tree)}
    alike: dict[tuple[str, str], list[Repair]] = {}
    for one in repairs:
        if one.edit.kind:
            alike.setdefault((one.slug, one.edit.kind), []).append(one)
    for some in alike.values():
        places = [one.edit.place for one in some]
        apart = not any(one != other and holds[one] >> other & 1 for one in places for other in places)
        if 2 <= len(set(places)) == len(places) <= TOGETHER and apart:
            first, *others = sorted(some, key=lambda one: one.line)
            beside = [one.words if one.line == first.line else f"in line {one.line}: {one.words}" for one in others]
            words = f"{first.words}; and so {', and '.join(beside)}"
            yield replace(first, words=words, more=tuple(one.edit for one in others))


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
