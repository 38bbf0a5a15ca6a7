"""A list of students as a learning-management system writes it: a CSV file whose columns we know by their names.

Systems and their versions differ in capitals, as in "Maximum Grade": no name of a column minds them.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from ..data import NotUsable
from ..text import BLANKS, decoded

#: Columns whose text may serve as a student's ID in this course, the best first.
ID_COLUMNS = ("SIS Login ID", "SIS User ID", "Integration ID", "Username", "ID number", "Email address", "Email")
#: Columns that hold the system's own number of a student, or of a student's place in one assignment.
NUMBER_COLUMNS = ("ID", "Identifier")
NAME_COLUMNS = ("Student", "Full name")
FIRST, LAST = ("First name",), ("Last name", "Surname")
#: Columns of Moodle's grading worksheet that say whether and when somebody handed in.
STATUS, HANDED_IN = "Status", "Last modified (submission)"
#: As in "Submitted for grading - 2 days 3 hours late".
LATE = re.compile(r"[0-9] \w+ late")
#: As in "Submitted for grading - Extension granted until: Friday, 6 March 2026, 5:00 PM".
EXTENDED = re.compile(r"Extension granted until: (.+?)(?: - |$)")
ROWS_CAP = 100_000
#: Of a folder's name; file systems take 255.
NAME_BYTES = 200
NO_PART_OF_AN_ID = re.compile(rf"(?:[^\w.@+-]|[{''.join(sorted(BLANKS))}])+")


def plain_id(text: str) -> str:
    """Text as the name of a student's folder: letters, digits and . @ + - _; empty where nothing is left.

    What it gives is a student's ID as `text.is_student_id` takes it.
    """
    letters = unicodedata.normalize("NFC", text).strip().casefold()
    short = NO_PART_OF_AN_ID.sub("-", letters).strip("-.").lstrip(".@+-")[:80]
    return short.encode()[:NAME_BYTES].decode(errors="ignore")


@dataclass(frozen=True)
class Person:
    """One row: the cells by their column, whose name is in small letters."""

    cells: dict[str, str]

    def cell(self, column: str) -> str:
        return self.cells.get(column.casefold(), "")

    def first_of(self, columns: tuple[str, ...]) -> str:
        return next((self.cell(name).strip() for name in columns if self.cell(name).strip()), "")

    @property
    def number(self) -> str:
        """The system's own number, such as 4711; of "Participant 4711" and "Teilnehmer/in4711" too."""
        cell = self.first_of(NUMBER_COLUMNS)
        found = re.search(r"[0-9]+$", cell)
        return found[0] if found else cell

    @property
    def name(self) -> str:
        """First name, then last name."""
        full = self.first_of(NAME_COLUMNS)
        if not full:
            full = f"{self.first_of(FIRST)} {self.first_of(LAST)}".strip()
        last, comma, first = full.partition(", ")  # Canvas: "Lovelace, Ada"
        return f"{first} {last}" if comma else full

    @property
    def id(self) -> str:
        """What the student is called in grading/submitted/."""
        return plain_id(self.first_of(ID_COLUMNS)) or plain_id(self.name) or self.number

    @property
    def is_a_test(self) -> bool:
        """Whether this is the Test Student of Canvas, who has a digest in the place of a login."""
        return self.name == "Test Student" or re.fullmatch(r"[0-9a-f]{40}", self.cell("SIS Login ID")) is not None

    @property
    def extended(self) -> str:
        """Until when Moodle's worksheet gives more time, in Moodle's words; empty where it gives none."""
        found = EXTENDED.search(self.cell(STATUS))
        return found[1] if found else ""

    @property
    def late(self) -> bool:
        """Whether Moodle's worksheet says that what was handed in came late."""
        return LATE.search(self.cell(STATUS)) is not None

    @property
    def handed_in(self) -> str:
        """When Moodle's worksheet says that it came, in Moodle's words; empty where it does not say."""
        return self.cell(HANDED_IN).strip().strip("-")

    def ids(self) -> list[str]:
        """What the system calls the student, as IDs, the best first."""
        return [name for name in dict.fromkeys(plain_id(self.cell(name)) for name in ID_COLUMNS) if name]

    def known_as(self) -> set[str]:
        """Further IDs under which the student's work may have been kept. Who can choose a name can choose another's."""
        names = {*self.ids(), plain_id(self.name)}
        return {name for name in names | {name.partition("@")[0] for name in names} if name}


@dataclass(frozen=True)
class Roster:
    """A table of students. translated: whether it is Moodle's worksheet with titles in another language."""

    path: Path
    columns: list[str]
    people: list[Person] = field(default_factory=list)
    translated: bool = False

    def has(self, *columns: str) -> bool:
        return {name.casefold() for name in columns} <= {name.casefold() for name in self.columns}

    def by_number(self, number: str) -> Person | None:
        return next((person for person in self.people if person.number == number), None)


def read_roster(path: Path) -> Roster:
    """Read a CSV file with a header. Raises NotUsable with the remedy."""
    try:
        text = decoded(path.read_bytes())
    except OSError as error:
        raise NotUsable(f"{path}: cannot be read ({error.strerror}); is the path right, and is it yours?") from None
    except UnicodeDecodeError:
        raise NotUsable(f"{path}: not a text file in UTF-8; export it again as CSV (UTF-8)") from None
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))[:ROWS_CAP]
    except csv.Error as error:
        raise NotUsable(f"{path}: not a CSV file ({error})") from None
    columns = [column.strip() for column in rows[0]] if rows else []
    names = [column.casefold() for column in columns]
    titles = _by_structure(rows)
    known = (*ID_COLUMNS, *NUMBER_COLUMNS, *NAME_COLUMNS, *FIRST)
    if titles:
        names = [titles.get(place, name) for place, name in enumerate(names)]
    elif not {name.casefold() for name in known} & set(names):
        wanted = ", ".join(("ID", "SIS Login ID", "Username", "Email address", "Full name"))
        raise NotUsable(f"{path}: no column of students in its first line, such as {wanted}")
    people = [Person(dict(zip(names, row, strict=False))) for row in rows[1:] if any(cell.strip() for cell in row)]
    return Roster(path, columns, [person for person in people if not _is_heading(person)], bool(titles))


def _by_structure(rows: list[list[str]]) -> dict[int, str]:
    """Place -> title of the columns that tell students in Moodle's worksheet where its titles are in another language.

    Each row begins with a word and a number; the name follows, unless names are hidden, and then there is no address.
    """
    head, people = [column.strip().casefold() for column in rows[0]] if rows else [], [row for row in rows[1:] if row]
    told = {name.casefold() for name in (*ID_COLUMNS, *NAME_COLUMNS, *FIRST, *LAST, "Identifier")}
    if not people or told & set(head) or not all(re.fullmatch(r"\D+[0-9]+", row[0]) for row in people):
        return {}
    columns = list(zip(*(row[: len(head)] for row in people), strict=False))
    address = [any(cells) and all("@" in cell for cell in cells if cell) for cells in columns].index
    try:
        place = address(True)
    except ValueError:
        return {0: "identifier"}
    return {0: "identifier", place: "email address", **({1: "full name"} if place > 1 else {})}


def _is_heading(person: Person) -> bool:
    """Canvas has rows of its own below the header, such as "Points Possible"."""
    return person.first_of(NAME_COLUMNS).startswith("Points Possible") or not person.id


__all__ = ["Person", "Roster", "plain_id", "read_roster"]
