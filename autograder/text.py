"""Text from strangers made safe to show: on a terminal, in a line of a log, in a spreadsheet."""

from __future__ import annotations

import re
import unicodedata

#: What a spreadsheet takes for the start of a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
#: Letters that no terminal or page is to act on: controls, marks of direction, lone surrogates, line separators.
UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
#: Letters of other kinds that leave no mark, or only a gap; those that choose the form of a sign before may stay.
BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | set(map(chr, range(0xE0100, 0xE01F0)))
#: Letters that have to be looked at: all but ASCII's own, line ends and tabs.
ODD = re.compile(r"[^ -~\n\t]")


def printable(text: str) -> str:
    """One line without control characters: line ends and tabs become spaces, the others are spelt out, as in \\x1b."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_seen(letter) for letter in text)


def _seen(letter: str) -> str:
    if letter in "\n\r\t":
        return " "
    if unicodedata.category(letter) not in UNSEEN and letter not in BLANKS:
        return letter
    return letter.encode("unicode_escape", "surrogatepass").decode("ascii")


def counted(number: int, noun: str) -> str:
    """ "1 student", "2 students"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def visible(text: str) -> str:
    """Several lines without control characters: line ends and tabs stay, the others are spelt out."""
    return ODD.sub(lambda letter: _seen(letter[0]), text)


def spreadsheet_safe(text: str) -> str:
    """The text for a cell of a table: an apostrophe before what a spreadsheet would run as a formula."""
    line = printable(text)
    return f"'{line}" if line.lstrip().startswith(FORMULA_STARTS) and not _is_number(line) else line


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
