"""Where a result differs, in words: what a picture shows, for those who cannot see it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..data import Where
from ..text import begun, counted

#: Places that are named one by one, at most.
NAMED = 4
OFF = "xn~"


def in_words(found: Where) -> str:
    """One to four sentences."""
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
    """ "row 2", "rows 2 and 4", "5 rows"."""
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
    """Where no more is told than which rows differ."""
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


__all__ = ["in_words"]
