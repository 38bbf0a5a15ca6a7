"""Text from strangers made safe to show: on a terminal, in a line of a log, in a spreadsheet."""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence

#: What a spreadsheet takes for the start of a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
#: Letters that no terminal or page is to act on: controls, marks of direction, lone surrogates, line separators.
UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
#: Letters of other kinds that leave no mark, or only a gap; those that choose the form of a sign before may stay.
BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | set(map(chr, range(0xE0100, 0xE01F0)))
#: A number with its sign, as people and programs write it; a lone dash stands for "none". Neither is a formula.
PLAIN_SIGNED = re.compile(r"[-+]?[0-9]+(?:[.,][0-9]+)?(?:[eE][-+]?[0-9]+)?%?|-")
#: What a program may take for the end of a cell, or of its line.
CELL_ENDS = re.compile(r'[,;\t\r\n"|]')
#: Beside letters, marks and digits, what a student's ID may hold.
IN_AN_ID = frozenset(" .@+-_")
#: The words for a name that is_student_id does not take.
NO_ID = "no student's ID (letters, digits, blanks and . @ + - _, no sign first); rename the folder"
#: Letters by which a text may become more than text where somebody forgot to escape it.
MARKUP = re.compile(r"[<>&\"`]")
#: Letters that have to be looked at: all but ASCII's own, line ends and tabs.
ODD = re.compile(r"[^ -~\n\t]")


def printable(text: str) -> str:
    """One line without control characters: line ends and tabs become spaces, the others are spelt out, as in \\x1b."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_seen(letter) for letter in text)


def spelt(name: str) -> str:
    """A name in one line, with all that forbids it to be seen: line ends and tabs are spelt out too, as in \\n."""
    return "".join(repr(letter)[1:-1] if letter in "\n\r\t" else _seen(letter) for letter in name)


def composed(name: str) -> str:
    """A name as it is compared with others: an accent may be a letter of its own or a part of the one before."""
    return unicodedata.normalize("NFC", name)


def _seen(letter: str) -> str:
    if letter in "\n\r\t":
        return " "
    if unicodedata.category(letter) not in UNSEEN and letter not in BLANKS:
        return letter
    return letter.encode("unicode_escape", "surrogatepass").decode("ascii")


def decoded(data: bytes) -> str:
    """The text of a file in UTF-8, or in what else some editors write: UTF-16 or 32. Raises UnicodeDecodeError."""
    return data.decode(json.detect_encoding(data))


def counted(number: int, noun: str) -> str:
    """ "1 student", "2 students"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def visible(text: str) -> str:
    """Several lines without control characters: line ends and tabs stay, the others are spelt out."""
    return ODD.sub(lambda letter: _seen(letter[0]), text)


def spreadsheet_safe(text: str) -> str:
    """The text for a cell of a table: an apostrophe before what a spreadsheet would run as a formula."""
    line = printable(text)
    bare = line.strip()
    return f"'{line}" if bare.startswith(FORMULA_STARTS) and not PLAIN_SIGNED.fullmatch(bare) else line


def delimiter_of(head: str, known: Collection[str]) -> str:
    """What separates a table's titles: that which shows most of the known ones, for other titles contain commas too.

    known: titles in small letters.
    """

    def fits(delimiter: str) -> tuple[int, int]:
        titles = next(csv.reader([head], delimiter=delimiter), [])
        return len({title.strip().casefold() for title in titles}.intersection(known)), head.count(delimiter)

    return max(",;\t", key=fits)


def csv_line(cells: Iterable[str], end: str = "\r\n") -> str:
    """One line of a CSV file. Quoted is what any separator stands in, for not every program separates at commas."""
    quoted = ('"' + cell.replace('"', '""') + '"' if CELL_ENDS.search(cell) else cell for cell in cells)
    return ",".join(quoted) + end


def is_student_id(name: str) -> bool:
    """Whether a name can be a student's ID: letters, digits, blanks and . @ + - _, no sign first.

    It names folders and is shown by programs that don't escape it, nbgrader's formgrader among them.
    """
    first = name[:1]
    starts = first.isalnum() or first == "_"
    return starts and name == name.strip() and all(letter in IN_AN_ID or _is_word(letter) for letter in name)


def _is_word(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "LMN" and letter not in BLANKS


def is_plain_text(text: str) -> bool:
    """Whether a text holds no markup, and no letter that cannot be seen but the joiners of Persian and emoji."""
    seen = text.replace("\u200c", "").replace("\u200d", "")
    return not MARKUP.search(text) and printable(seen) == seen


def listed(names: Sequence[str]) -> str:
    """ "a, b and c"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def spoken(name: str) -> str:
    """The name of a result as a sentence has it: the weights, or `dQ`."""
    return name if " " in name else f"`{name}`"


def verb(name: str, one: str, several: str, many: bool = False) -> str:
    """The form of a verb after the name of a result. many: whether more than one is named."""
    head = re.split(r" (?:of|per|that) ", name)[0]
    return several if many or (head.endswith("s") and not head.endswith("ss")) else one


def begun(words: str) -> str:
    """Words as a sentence begins; a name such as dQ keeps its letters."""
    return words if words[1:2].isupper() else words[:1].upper() + words[1:]
