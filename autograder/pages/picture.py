"""A small picture of the first case that fails: the student's own numbers, and beside them where they differ.

It says where by colour, by signs and in words, and holds no number but the student's own. Everything
in it comes from a verdict that has bounds of its own; what has not the form of one gives no picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from ..data import Where
from .in_words import in_words

#: Rows and columns, and letters of a number, beyond which nothing is drawn.
MOST, LONGEST = 12, 8
#: What a mark says: its class on the page, its sign, the words for it.
MARKS = {
    "=": ("same", "✓", "right"),
    "x": ("off", "✗", "differs"),
    "n": ("nan", "!", "NaN or infinite"),
    "~": ("off", "✗", "something in this row differs"),
    "-": ("lack", "−", "missing"),
    "+": ("more", "+", "too many"),
    ".": ("open", "", ""),
    " ": ("", "", ""),
}
#: Least width of a cell, and by how much a letter adds to it; its height; room for the numbers of rows and columns.
NARROW, LETTER, HIGH, LEFT, TOP = 26, 7, 26, 26, 20


def picture(told: Any) -> Markup:
    """The picture as HTML, from what a verdict says; empty where it says nothing that can be drawn."""
    try:
        found = Where.read(told)
        if found is None or not _is_whole(found):
            return Markup("")
    except (KeyError, TypeError, ValueError, AttributeError):
        return Markup("")
    place = f"{', '.join(found.at)} of {found.name}" if found.at else found.name
    title = "Which rows differ" if _by_rows(found) else "Where it differs"
    used = dict.fromkeys(letter for row in found.marks for letter in row if MARKS[letter][2])
    key = " · ".join(f"{MARKS[letter][1]} {MARKS[letter][2]}" for letter in used)
    return Markup(
        '<figure class="picture"><figcaption>The first case that fails, “{}”: {}</figcaption><div class="pair">'
        '<div tabindex="0" role="group" aria-label="What you return"><p>What you return</p>{}</div>'
        "<div><p>{}</p>{}<p>{}</p></div></div><p>{}</p></figure>\n"
    ).format(found.case, place, Markup(_numbers(found)), title, Markup(_signs(found)), key, in_words(found))


def _is_whole(found: Where) -> bool:
    """Whether all parts have the form and the bounds that they are to have."""
    rows, columns = len(found.marks), len(found.marks[0]) if found.marks else 0
    texts = (found.case, found.name, *found.at, *found.marks, *(entry for row in found.own for entry in row))
    numbers = (*found.shape, *found.asked, *found.start)
    return (
        all(isinstance(text, str) for text in texts)
        and all(type(number) is int for number in numbers)
        and 0 < rows <= MOST
        and 0 < columns <= MOST
        and len(found.start) == 2
        and len(found.shape) == len(found.asked) > 0
        and all(len(row) == columns and set(row) <= set(MARKS) for row in found.marks)
        and 0 < len(found.own) <= rows
        and all(0 < len(row) <= columns and all(len(entry) <= LONGEST for entry in row) for row in found.own)
    )


def _by_rows(found: Where) -> bool:
    """Whether no more is said than which rows differ."""
    return any("~" in marks for marks in found.marks)


def _numbers(found: Where) -> str:
    """The student's numbers; those that differ have a corner."""
    letters = [row[: len(own)] for row, own in zip(found.marks, found.own, strict=False)]
    if _by_rows(found):
        letters = ["=" * len(row) for row in letters]
    wide = max(NARROW, 8 + LETTER * max(len(entry) for row in found.own for entry in row))
    texts = [_text(row, wide, entries) for row, entries in enumerate(found.own)]
    label = f"Your {found.name}: {len(found.own)} by {max(map(len, found.own))} entries"
    corners = "".join(
        f"M{LEFT + wide * (column + 1) - 8} {TOP + HIGH * row}h8v8z"
        for row, marks in enumerate(letters)
        for column, letter in enumerate(marks)
        if letter in "xn"
    )
    return _svg(found, letters, wide, label, f'<path class="corner" d="{corners}"/>{"".join(texts)}')


def _signs(found: Where) -> str:
    """The marks: a sign for each entry, or one for a row where no more is said."""
    letters = [marks[0] for marks in found.marks] if _by_rows(found) else found.marks
    texts = [
        _text(row, NARROW, [MARKS[letter][1] if MARKS[letter][0] == name else "" for letter in marks], name)
        for row, marks in enumerate(letters)
        for name in dict.fromkeys(MARKS[letter][0] for letter in marks)
    ]
    return _svg(found, letters, NARROW, in_words(found), "".join(texts))


def _text(row: int, wide: int, words: Sequence[str], name: str = "") -> str:
    """Words in the middle of the cells of a row; nothing where all are empty."""
    pieces = "".join(
        f'<tspan x="{LEFT + wide * column + wide // 2}">{escape(word)}</tspan>'
        for column, word in enumerate(words)
        if word
    )
    return f'<text y="{_middle(row)}" class="{name}">{pieces}</text>' if pieces else ""


def _svg(found: Where, marks: Sequence[str], wide: int, label: str, inside: str) -> str:
    width, height = LEFT + wide * max(map(len, marks)) + 1, TOP + HIGH * len(marks) + 1
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}">{_cells(marks, wide)}{_axes(found, marks, wide)}{inside}</svg>'
    )


def _cells(marks: Sequence[str], wide: int) -> str:
    """One shape for all cells of a kind."""
    shapes: dict[str, list[str]] = {}
    for row, letters in enumerate(marks):
        for column, letter in enumerate(letters):
            if MARKS[letter][0]:
                cell = f"M{LEFT + wide * column} {TOP + HIGH * row}h{wide}v{HIGH}h-{wide}z"
                shapes.setdefault(MARKS[letter][0], []).append(cell)
    return "".join(f'<path class="cell {name}" d="{"".join(parts)}"/>' for name, parts in shapes.items())


def _axes(found: Where, marks: Sequence[str], wide: int) -> str:
    """The numbers of rows and columns; a vector has no rows, and one mark for a row no column."""
    width = max(map(len, marks))
    columns = "".join(
        f'<tspan x="{LEFT + wide * column + wide // 2}">{found.start[1] + column}</tspan>' for column in range(width)
    )
    rows = "".join(
        f'<tspan x="{LEFT // 2 - 2}" y="{_middle(row)}">{found.start[0] + row}</tspan>' for row in range(len(marks))
    )
    columns = columns if width == len(found.marks[0]) or width == len(found.own[0]) else ""
    rows = rows if len(found.shape) > 1 else ""
    return f'<text y="{TOP - 6}" class="axis">{columns}</text><text class="axis">{rows}</text>'


def _middle(row: int) -> int:
    return TOP + HIGH * row + HIGH // 2 + 4


__all__ = ["picture"]
