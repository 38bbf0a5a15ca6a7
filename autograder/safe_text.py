"""Makes untrusted text safe to show in a terminal, a log line or a spreadsheet."""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence

#: Characters that a spreadsheet takes for the start of a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
#: Unicode categories that no terminal or page should act on: controls, formats, lone surrogates, separators.
UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
#: Characters of other categories that show nothing or only a gap; common variation selectors are not among them.
BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | set(map(chr, range(0xE0100, 0xE01F0)))
#: A signed number as people and programs write it, or a lone dash for "none"; neither is a formula.
PLAIN_SIGNED = re.compile(r"[-+]?[0-9]+(?:[.,][0-9]+)?(?:[eE][-+]?[0-9]+)?%?|-")
#: Characters that a program may take for the end of a cell or a line.
CELL_ENDS = re.compile(r'[,;\t\r\n"|]')
#: Characters allowed in a student's ID besides letters, marks and digits.
IN_AN_ID = frozenset(" .@+-_")
#: The message about a name that `is_student_id` rejects.
NO_ID = "no student's ID (letters, digits, blanks and . @ + - _, no sign first); rename the folder"
#: Characters by which text may become markup if somebody forgets to escape it.
MARKUP = re.compile(r"[<>&\"`]")
#: Characters that need a check: all but printable ASCII, line ends and tabs.
ODD = re.compile(r"[^ -~\n\t]")


def printable(text: str) -> str:
    """Return text in one line: line ends and tabs become spaces, control characters are escaped, as in \\x1b."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_seen(letter) for letter in text)


def spelt(name: str) -> str:
    """Return a name in one line with everything invisible escaped, line ends and tabs too, as in \\n."""
    return "".join(repr(letter)[1:-1] if letter in "\n\r\t" else _seen(letter) for letter in name)


def composed(name: str) -> str:
    """Return a name in Unicode's composed form (NFC), so that names compare equal however accents are encoded."""
    return unicodedata.normalize("NFC", name)


def _seen(letter: str) -> str:
    if letter in "\n\r\t":
        return " "
    if unicodedata.category(letter) not in UNSEEN and letter not in BLANKS:
        return letter
    return letter.encode("unicode_escape", "surrogatepass").decode("ascii")


def decoded(data: bytes) -> str:
    """Return the text of a file in UTF-8, UTF-16 or UTF-32. Raises UnicodeDecodeError."""
    return data.decode(json.detect_encoding(data))


def counted(number: int, noun: str) -> str:
    """Return "1 student", "2 students"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def visible(text: str) -> str:
    """Return text with control characters escaped, except line ends and tabs."""
    return ODD.sub(lambda letter: _seen(letter[0]), text)


def spreadsheet_safe(text: str) -> str:
    """Return text for a table cell, with an apostrophe before what a spreadsheet would run as a formula."""
    line = printable(text)
    bare = line.strip()
    return f"'{line}" if bare.startswith(FORMULA_STARTS) and not PLAIN_SIGNED.fullmatch(bare) else line


def delimiter_of(head: str, known: Collection[str]) -> str:
    """Return the delimiter of a table's head: the one that yields most known titles, because titles may contain commas.

    known: titles in lower case.
    """

    def fits(delimiter: str) -> tuple[int, int]:
        titles = next(csv.reader([head], delimiter=delimiter), [])
        return len({title.strip().casefold() for title in titles}.intersection(known)), head.count(delimiter)

    return max(",;\t", key=fits)


def csv_line(cells: Iterable[str], end: str = "\r\n") -> str:
    """Return one line of a CSV file; it quotes a cell that holds any common separator, not only a comma."""
    quoted = ('"' + cell.replace('"', '""') + '"' if CELL_ENDS.search(cell) else cell for cell in cells)
    return ",".join(quoted) + end


def is_student_id(name: str) -> bool:
    """Return whether a name can be a student's ID: letters, digits, blanks and . @ + - _, no sign first.

    It names folders, and programs such as nbgrader's formgrader show it without escaping it.
    """
    first = name[:1]
    starts = first.isalnum() or first == "_"
    return starts and name == name.strip() and all(letter in IN_AN_ID or _is_word(letter) for letter in name)


def _is_word(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "LMN" and letter not in BLANKS


def is_plain_text(text: str) -> bool:
    """Return whether text holds no markup and no invisible character except the joiners of Persian and emoji."""
    seen = text.replace("\u200c", "").replace("\u200d", "")
    return not MARKUP.search(text) and printable(seen) == seen


def listed(names: Sequence[str]) -> str:
    """Return "a, b and c"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def spoken(name: str) -> str:
    """Return the name of a result as a sentence shows it: the weights, or `dQ`."""
    return name if " " in name else f"`{name}`"


def returned(name: str) -> str:
    """Return the same for a sentence that a variable of the student's could be meant by: the returned `dQ`."""
    return name if " " in name else f"the returned `{name}`"


def verb(name: str, one: str, several: str, many: bool = False) -> str:
    """Return the form of a verb after the name of a result. many: whether there are several names."""
    head = re.split(r" (?:of|per|that) ", name)[0]
    return several if many or (head.endswith("s") and not head.endswith("ss")) else one


def begun(words: str) -> str:
    """Return words with a capital first letter; a name such as dQ keeps its letters."""
    return words if words[1:2].isupper() else words[:1].upper() + words[1:]
