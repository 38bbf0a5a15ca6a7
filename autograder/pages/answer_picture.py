"""Draws a small picture of the first case that fails, and describes it in words."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from markupsafe import Markup, escape

from ..records import Where
from ..safe_text import begun, counted

#: Most places that are named one by one.
NAMED = 4
OFF = "xn~"


def in_words(found: Where) -> str:
    """Describe the picture in a few sentences."""
    if found.shape != found.asked:
        sentences = [_of_shapes(found)]
    elif any("~" in row for row in found.marks):
        sentences = [_of_rows(found)]
    else:
        sentences = [_of_entries(found)]
        odd = sum(row.count("n") for row in found.marks)
        if odd:
            sentences.append(f"{counted(odd, 'number')} shown {'is' if odd == 1 else 'are'} NaN or infinite")
    rows, columns = (1, *found.shape)[-2:]
    if (rows, columns) != (len(found.own), len(found.own[0])):
        sentences.append(f"this is a part of {rows} by {columns}")
    if len(found.shape) > 2:
        sentences.append(f"the whole has shape {_tuple(found.shape)}")
    sentences.append(f"{'places' if len(found.shape) == 1 else 'rows and columns'} are counted from 0")
    return " ".join(f"{begun(sentence)}." for sentence in sentences)


def _places(noun: str, numbers: Collection[int]) -> str:
    """Return words such as "row 2", "rows 2 and 4" or "5 rows"."""
    if len(numbers) > NAMED:
        return f"{len(numbers)} {noun}s"
    *most, last = map(str, sorted(numbers))
    return f"{noun}s {', '.join(most)} and {last}" if most else f"{noun} {last}"


def _of_shapes(found: Where) -> str:
    parts = []
    nouns = ("row", "column") if len(found.shape) > 1 else ("number",)
    for noun, own, asked in zip(nouns, found.shape[-2:], found.asked[-2:], strict=True):
        if own != asked:
            parts.append(f"{counted(abs(own - asked), noun)} {'too many' if own > asked else 'missing'}")
    return ", ".join(parts)


def _of_rows(found: Where) -> str:
    """Describe a case of which the student learns only which rows differ."""
    off = {found.start[0] + row for row, marks in enumerate(found.marks) if "~" in marks}
    if len(found.shape) == 1:
        return "some entries differ"
    if len(off) == len(found.marks):
        return "in every row shown something differs"
    return f"something differs in {_places('row', off)}; the other rows shown are right"


def _of_entries(found: Where) -> str:
    marks, (top, left) = found.marks, found.start
    off = {(row, column) for row, line in enumerate(marks) for column, letter in enumerate(line) if letter in OFF}
    height, width = len(marks), len(marks[0])
    if len(off) == height * width:
        return "every entry shown differs"
    if height == 1:
        return f"of the entries shown {_differ('place', {left + column for _, column in off})}"
    rows, columns = {row for row, _ in off}, {column for _, column in off}
    if len(off) == len(rows) * width:
        return f"{_differ('row', {top + row for row in rows})}, the other rows shown are right"
    if len(off) == len(columns) * height:
        return f"{_differ('column', {left + column for column in columns})}, the other columns shown are right"
    words = f"{len(off)} of {height * width} entries shown differ"
    if height == width and top == left:
        for place, lies in (("above", lambda r, c: c > r), ("below", lambda r, c: c < r), ("on", lambda r, c: c == r)):
            if all(lies(row, column) for row, column in off):
                return f"{words}, all {place} the diagonal"
    right = [
        _places(noun, {first + place for place in range(size)} - {first + place for place in found_in})
        for noun, first, size, found_in in (("row", top, height, rows), ("column", left, width, columns))
        if len(found_in) < size
    ]
    return f"{words}{'; ' + ' and '.join(right) + _are(right) if right else ', in all rows and columns'}"


def _are(right: Sequence[str]) -> str:
    one = len(right) == 1 and right[0].startswith(("row ", "column "))
    return " is right" if one else " are right"


def _differ(noun: str, numbers: Collection[int]) -> str:
    return f"{_places(noun, numbers)} {'differs' if len(numbers) == 1 else 'differ'}"


def _tuple(numbers: Sequence[int]) -> str:
    return f"({', '.join(map(str, numbers))}{',' if len(numbers) == 1 else ''})"


#: Most rows and columns, and most letters of a number, that are drawn.
MOST, LONGEST = 12, 8
#: Mark -> its class on the page, its sign and its words.
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
#: Least width of a cell, width that a letter adds, height, and margins for the numbers of rows and of columns.
NARROW, LETTER, HIGH, LEFT, TOP = 26, 7, 26, 26, 20


def picture(found: Where | None) -> Markup:
    """Return the picture as HTML, from a verdict's data; empty if there is nothing to draw."""
    if found is None or not _is_whole(found):
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
    """Return whether all parts are well-formed and within their bounds."""
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
    """Return whether the student learns only which rows differ."""
    return any("~" in marks for marks in found.marks)


def _numbers(found: Where) -> str:
    """Draw the student's numbers; those that differ have a corner."""
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
    """Draw the marks: a sign for each entry, or one for each row if no more is known."""
    letters = [marks[0] for marks in found.marks] if _by_rows(found) else found.marks
    texts = [
        _text(row, NARROW, [MARKS[letter][1] if MARKS[letter][0] == name else "" for letter in marks], name)
        for row, marks in enumerate(letters)
        for name in dict.fromkeys(MARKS[letter][0] for letter in marks)
    ]
    return _svg(found, letters, NARROW, in_words(found), "".join(texts))


def _text(row: int, wide: int, words: Sequence[str], name: str = "") -> str:
    """Put words in the middle of the cells of a row; return nothing if all are empty."""
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
    """Draw all cells of a kind as one shape."""
    shapes: dict[str, list[str]] = {}
    for row, letters in enumerate(marks):
        for column, letter in enumerate(letters):
            if MARKS[letter][0]:
                cell = f"M{LEFT + wide * column} {TOP + HIGH * row}h{wide}v{HIGH}h-{wide}z"
                shapes.setdefault(MARKS[letter][0], []).append(cell)
    return "".join(f'<path class="cell {name}" d="{"".join(parts)}"/>' for name, parts in shapes.items())


def _axes(found: Where, marks: Sequence[str], wide: int) -> str:
    """Draw the numbers of rows and columns: no rows for a vector, and no columns if each row has one mark."""
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
