"""What a learning-management system hands over: the download of submissions, and its list of students.

The list is a CSV file. Systems and their versions differ in capitals, as in "Maximum Grade": no name of a column minds
them.

Canvas names a file `lovelaceada_4711_90210_03_masking.ipynb`; Moodle puts it into a folder that is named
`Ada Lovelace_4711_assignsubmission_file_`. Any other archive is read as STUDENT/…/notebook. Nothing is unpacked by the
names in it, and everything has a limit. The first part of a name that carries a name and a number is the system's own:
all that follows is the student's choice. Systems write / between parts, so a backslash is a letter of a student's.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from ..data import NotUsable, Unreadable
from ..reading.submission import FILE_CAP, read_file
from ..text import BLANKS

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
        """The system's own number, such as 4711; of "Participant 4711" too."""
        return self.first_of(NUMBER_COLUMNS).rpartition(" ")[2]

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
    def late(self) -> bool:
        """Whether Moodle's worksheet says that what was handed in came late."""
        return LATE.search(self.cell(STATUS)) is not None

    @property
    def handed_in(self) -> str:
        """When Moodle's worksheet says that it came, in Moodle's words; empty where it does not say."""
        return self.cell(HANDED_IN).strip().strip("-")

    def ids(self) -> set[str]:
        """What the system calls the student, as IDs."""
        return {plain_id(self.cell(name)) for name in ID_COLUMNS} - {""}

    def known_as(self) -> set[str]:
        """Further IDs under which the student's work may have been kept. Who can choose a name can choose another's."""
        names = self.ids() | {plain_id(self.name)}
        return {name for name in names | {name.partition("@")[0] for name in names} if name}


@dataclass(frozen=True)
class Roster:
    """A table of students."""

    path: Path
    columns: list[str]
    people: list[Person] = field(default_factory=list)

    def has(self, *columns: str) -> bool:
        return {name.casefold() for name in columns} <= {name.casefold() for name in self.columns}

    def by_number(self, number: str) -> Person | None:
        return next((person for person in self.people if person.number == number), None)


def read_roster(path: Path) -> Roster:
    """Read a CSV file with a header. Raises NotUsable with the remedy."""
    try:
        text = read_file(path).decode("utf-8-sig")
    except Unreadable as error:
        raise NotUsable(str(error)) from None
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
    known = (*ID_COLUMNS, *NUMBER_COLUMNS, *NAME_COLUMNS, *FIRST)
    if not {name.casefold() for name in known} & set(names):
        wanted = ", ".join(("ID", "SIS Login ID", "Username", "Email address", "Full name"))
        raise NotUsable(f"{path}: no column of students in its first line, such as {wanted}")
    people = [Person(dict(zip(names, row, strict=False))) for row in rows[1:] if any(cell.strip() for cell in row)]
    return Roster(path, columns, [person for person in people if not _is_heading(person)])


def _is_heading(person: Person) -> bool:
    """Canvas has rows of its own below the header, such as "Points Possible"."""
    return person.first_of(NAME_COLUMNS).startswith("Points Possible") or not person.id


#: Both systems write no _ into a name, so that no text is of both forms.
CANVAS = re.compile(
    r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<number>[0-9]+)_(?:[0-9]+_(?P<file>.+)|(?:text|link)\.html)", re.DOTALL
)
MOODLE = re.compile(
    r"(?P<name>[^_]+)_(?P<number>[0-9]+)_assignsubmission_(?:file|onlinetext)(?:_(?P<file>.*))?", re.DOTALL
)
ENTRIES_CAP = 50_000
#: Ways of packing that zipfile unpacks by the piece. Others it unpacks at once, and a kilobyte may hold gigabytes.
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: What stands before each name in the list at the end of a zip file.
LISTED = b"PK\1\2"


@dataclass(frozen=True)
class Sender:
    """Who handed a file in, as far as its name says.

    lasting: whether the number is the student's own; Moodle's is another one in the next assignment.
    called: what the student is called there, letter by letter: of two who are not called the same none is the other.
    """

    id: str
    number: str = ""
    name: str = ""
    lasting: bool = False
    called: str = ""


@dataclass(frozen=True)
class File:
    """One file of the download: its name, with / between its parts, and what reads it or raises Unreadable."""

    name: str
    read: Callable[[], bytes]

    @property
    def last(self) -> str:
        return PurePosixPath(self.name.replace("\\", "/")).name

    @property
    def late(self) -> bool:
        """Whether Canvas has marked it as late, in its own part of the name."""
        found = _system(PurePosixPath(self.name).parts)
        return found is not None and bool(found.groupdict().get("late"))

    @property
    def own(self) -> str:
        """What the student called the file, as far as the system's part of its name can be told."""
        found = _system([self.last])
        return (found["file"] or "") if found else self.last

    def ends(self, suffix: str | tuple[str, ...]) -> bool:
        return self.name.lower().endswith(suffix)


def files_in(source: Path) -> Iterator[File]:
    """Each file of a folder or zip file."""
    if source.is_dir():
        for path in sorted(_below(source)):
            name = path.relative_to(source).as_posix()
            if not path.is_dir() and _wanted(name):
                yield File(name, partial(read_file, path))
        return
    try:
        yield from _entries(source)
    except FileNotFoundError:
        raise NotUsable(f"{source}: not there; is the path right?") from None
    except Unreadable as error:
        raise NotUsable(str(error)) from None
    except (OSError, zipfile.BadZipFile) as error:
        raise NotUsable(f"{source}: neither a folder nor a zip file that can be read ({error})") from None


def _below(folder: Path) -> Iterator[Path]:
    """All below a folder but folders, however deep; links are not followed, and what is closed is passed over."""
    waiting = [str(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    yield Path(entry.path)


def _entries(source: Path | io.BytesIO, name: str = "") -> Iterator[File]:
    """Each file in a zip file; `name` is that of a zip file within another, and stands before the names in it.

    The archive stays open for as long as one of its files may be read: to open it takes as long as it has entries.
    """
    archive = zipfile.ZipFile(source)
    entries = archive.infolist()
    if len(entries) > ENTRIES_CAP:
        raise Unreadable(f"{name or source}: {len(entries)} entries are more than {ENTRIES_CAP}")
    for entry in entries:
        if not entry.is_dir() and _wanted(entry.filename):
            whole = f"{name}/{entry.filename}" if name else entry.filename
            yield File(whole, partial(_read_entry, archive, entry, whole))


def _wanted(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return not any(part.startswith(".") or part == "__MACOSX" for part in parts)


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> bytes:
    if entry.compress_type not in PACKED:
        raise Unreadable(f"{name}: not packed as zip files usually are; ask for it again, not packed at all")
    try:
        with archive.open(entry) as file:
            data = file.read(FILE_CAP + 1)
    except Exception as error:  # a damaged, encrypted or oddly packed entry costs its student alone
        raise Unreadable(f"{name}: cannot be unpacked ({error}); ask for it again") from None
    if len(data) > FILE_CAP:
        raise Unreadable(f"{name}: larger than {FILE_CAP >> 20} MB; have its outputs cleared")
    return data


def sender_of(name: str, plain: bool = False) -> Sender | None:
    """Who handed the file in. The end of a name is the student's own choice: what the system put first decides.

    plain: other hand-ins lie in a folder that only says STUDENT. All that stands below such a one is that student's
    choice; elsewhere a folder may have been put around the system's names.
    """
    *folders, last = PurePosixPath(name).parts
    found = _system(folders[:1] if plain and folders else [*folders, last])
    if found is None:
        return Sender(plain_id(folders[0]), called=folders[0]) if folders and plain_id(folders[0]) else None
    called, number = found["name"], found["number"]
    if found.re is MOODLE:
        return Sender(plain_id(called), number, called, called=called)
    return Sender("-".join(filter(None, (plain_id(called), number))), number, lasting=True, called=called)


def says_student_alone(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return len(parts) > 1 and _system(parts) is None


def _system(parts: Sequence[str]) -> re.Match[str] | None:
    """The first part of a path in which a learning-management system says who it was."""
    matches = (CANVAS.fullmatch(part) or MOODLE.fullmatch(part) for part in parts)
    return next((match for match in matches if match), None)


def unpacked(file: File, unit: str) -> list[File]:
    """The files in a student's zip file. A zip file among them stays shut."""
    try:
        data = file.read()
        if data.count(LISTED) > ENTRIES_CAP:  # to read so long a list takes seconds
            raise Unreadable(f"{file.name}: has more than {ENTRIES_CAP} entries; ask for {unit}.ipynb")
        return list(_entries(io.BytesIO(data), file.name))
    except Unreadable:
        raise
    except Exception as error:  # what a stranger's zip file can be is not ours to list
        raise Unreadable(f"{file.name}: cannot be unpacked ({error}); ask for {unit}.ipynb") from None
