"""Reads what a learning-management system exports: the download of submissions, and its list of students.

The list is a CSV file. Systems and their versions differ in capitals, as in "Maximum Grade", so the names of columns
are compared without regard to case.

Canvas names a file `lovelaceada_4711_90210_03_masking.ipynb`; Moodle puts it into a folder that is named
`Ada Lovelace_4711_assignsubmission_file_`. Any other archive is read as STUDENT/…/notebook. No file is unpacked to a
path that the archive names, and everything has a limit. In a path, the first part that contains both a name and a
number was written by the system; the student chose everything after it. Systems write / between parts, so a backslash
is the student's.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import os
import re
import shutil
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from ..grading.submitted_folder import is_notebook
from ..reading.read_submission import FILE_CAP, read_file
from ..records import NotUsable, Unreadable
from ..safe_text import BLANKS, composed, decoded, delimiter_of

#: Columns whose text may serve as a student's ID in this course, the best first.
ID_COLUMNS = ("SIS Login ID", "SIS User ID", "Integration ID", "Username", "ID number", "Email address", "Email")
#: Columns with the system's own number of a student, or of a student in one assignment.
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
#: Most bytes of a folder's name; file systems take 255.
NAME_BYTES = 200
NO_PART_OF_AN_ID = re.compile(rf"(?:[^\w.@+-]|[{''.join(sorted(BLANKS))}])+")


def plain_id(text: str) -> str:
    """Return text as the name of a student's folder: letters, digits and . @ + - _; empty if nothing is left.

    The result is a student's ID that `safe_text.is_student_id` accepts.
    """
    letters = unicodedata.normalize("NFC", text).strip().casefold()
    short = NO_PART_OF_AN_ID.sub("-", letters).strip("-.").lstrip(".@+-")[:80]
    return short.encode()[:NAME_BYTES].decode(errors="ignore")


@dataclass(frozen=True)
class Person:
    """Holds one row: the cells by the name of their column in lower case."""

    cells: dict[str, str]

    def cell(self, column: str) -> str:
        return self.cells.get(column.casefold(), "")

    def first_of(self, columns: tuple[str, ...]) -> str:
        return next((self.cell(name).strip() for name in columns if self.cell(name).strip()), "")

    @property
    def number(self) -> str:
        """Return the system's own number, such as 4711, also from "Participant 4711" and "Teilnehmer/in4711".

        Programs that take the column for measurements write "4711.0".
        """
        cell = self.first_of(NUMBER_COLUMNS)
        found = re.fullmatch(r"[^0-9]*([0-9]+)(?:\.0)?", cell)
        return found[1] if found else cell

    @property
    def name(self) -> str:
        """Return the first name, then the last name."""
        full = self.first_of(NAME_COLUMNS)
        if not full:
            full = f"{self.first_of(FIRST)} {self.first_of(LAST)}".strip()
        last, comma, first = full.partition(", ")  # Canvas: "Lovelace, Ada"
        return f"{first} {last}" if comma else full

    @property
    def id(self) -> str:
        """Return the student's ID, which names the folder in grading/submitted/."""
        return plain_id(self.first_of(ID_COLUMNS)) or plain_id(self.name) or self.number

    @property
    def is_a_test(self) -> bool:
        """Return whether this is the Test Student of Canvas, who has a digest instead of a login."""
        return self.name == "Test Student" or re.fullmatch(r"[0-9a-f]{40}", self.cell("SIS Login ID")) is not None

    @property
    def extended(self) -> str:
        """Return the extended deadline from Moodle's worksheet, in Moodle's words; empty if there is none."""
        found = EXTENDED.search(self.cell(STATUS))
        return found[1] if found else ""

    @property
    def late(self) -> bool:
        """Return whether Moodle's worksheet says that the submission came late."""
        return LATE.search(self.cell(STATUS)) is not None

    @property
    def handed_in(self) -> str:
        """Return the time of the submission in the words of Moodle's worksheet; empty if the worksheet gives none."""
        return self.cell(HANDED_IN).strip().strip("-")

    def ids(self) -> list[str]:
        """Return what the system calls the student, as IDs, the best first."""
        return [name for name in dict.fromkeys(plain_id(self.cell(name)) for name in ID_COLUMNS) if name]

    def known_as(self) -> set[str]:
        """Return all IDs under which the student's work may be stored. Anybody can choose another's name."""
        names = {*self.ids(), plain_id(self.name)}
        return {name for name in names | {name.partition("@")[0] for name in names} if name}


@dataclass(frozen=True)
class Roster:
    """Holds a table of students. translated: whether it is Moodle's worksheet with titles in another language."""

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
    known = {name.casefold() for name in (*ID_COLUMNS, *NUMBER_COLUMNS, *NAME_COLUMNS, *FIRST)}
    delimiter = delimiter_of(text.partition("\n")[0], known)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))[:ROWS_CAP]
    except csv.Error as error:
        raise NotUsable(f"{path}: not a CSV file ({error})") from None
    columns = [column.strip() for column in rows[0]] if rows else []
    names = [column.casefold() for column in columns]
    titles = _by_structure(rows)
    if titles:
        names = [titles.get(place, name) for place, name in enumerate(names)]
    elif not known & set(names):
        wanted = ", ".join(("ID", "SIS Login ID", "Username", "Email address", "Full name"))
        raise NotUsable(f"{path}: no column of students in its first line, such as {wanted}")
    people = [Person(dict(zip(names, row, strict=False))) for row in rows[1:] if any(cell.strip() for cell in row)]
    return Roster(path, columns, [person for person in people if not _is_heading(person)], bool(titles))


def _by_structure(rows: list[list[str]]) -> dict[int, str]:
    """Return place -> title of the columns that identify students in a Moodle worksheet in another language.

    Each row begins with a word and a number. The name follows, unless names are hidden; then there is no address.
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
    """Return whether this is one of Canvas's own rows below the header, such as "Points Possible"."""
    return person.first_of(NAME_COLUMNS).startswith("Points Possible") or not person.id


#: Neither system writes _ into a name, so no text has both forms.
CANVAS = re.compile(
    r"(?!LATE_)(?P<name>[^_]*[^_0-9][^_]*)_(?P<late>LATE_)?(?P<number>[0-9]+)_"
    r"(?:(?P<upload>[0-9]+)_(?P<file>.+)|(?:text|link)\.html)",
    re.DOTALL,
)
MOODLE = re.compile(
    r"(?P<name>[^_]+)_(?P<number>[0-9]+)_assignsubmission_(?:file|onlinetext)(?:_(?P<file>.*))?", re.DOTALL
)
#: Names that identify no student -> why not, with the remedy. Systems write them at the top level.
NOBODY = {
    re.compile(
        r"(?:LATE_)?anon_[0-9A-Za-z]+_(?:[0-9]+_.+|(?:text|link)\.html)", re.DOTALL
    ): "Canvas left out who it was; turn off anonymous grading of the assignment, and download again",
    re.compile(
        r"[^_]+_assignsubmission_(?:file|onlinetext)(?:_.*)?", re.DOTALL
    ): "a hand-in of a group, and Moodle does not say whose; copy it to grading/submitted/STUDENT/UNIT of each member",
}
#: Canvas's older form, without a name.
NUMBERS = re.compile(r"(?P<name>)(?P<late>LATE_)?(?P<number>[0-9]+)_(?P<upload>[0-9]+)_(?P<file>.+)", re.DOTALL)
ENTRIES_CAP = 50_000
#: Compression types that zipfile unpacks in pieces. It unpacks others at once, and a kilobyte may hold gigabytes.
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: The flag of an entry whose name is in UTF-8.
UTF_8 = 0x800
#: The bytes that begin each entry of the list at the end of a zip file.
LISTED = b"PK\1\2"


@dataclass(frozen=True)
class Sender:
    """Says who handed a file in, as far as its name tells.

    lasting: whether the number is always the student's; Moodle's is different in the next assignment.
    called: the student's name there, letter by letter: two senders with different names are different people.
    nobody: why the name identifies no student, with the remedy; "" if it does identify one.
    """

    id: str
    number: str = ""
    name: str = ""
    lasting: bool = False
    called: str = ""
    nobody: str = ""


@dataclass(frozen=True)
class File:
    """Describes one file of the download: its name, with / between its parts, and what reads it or raises Unreadable.

    packed: when it was put into the download, or written to the folder, by the clock there; "" if that is not known.
    """

    name: str
    read: Callable[[], bytes]
    packed: str = ""

    @property
    def last(self) -> str:
        return PurePosixPath(self.name.replace("\\", "/")).name

    @property
    def late(self) -> bool:
        """Return whether Canvas has marked it as late, in its own part of the name."""
        found = _system(PurePosixPath(self.name).parts)
        return found is not None and bool(found.groupdict().get("late"))

    @property
    def upload(self) -> int:
        """Return Canvas's number of the submission, which is higher for a later one; 0 if there is none."""
        found = _system(PurePosixPath(self.name).parts)
        return int((found.groupdict().get("upload") if found else None) or 0)

    @property
    def entry(self) -> str:
        """Return the part of its name that the system wrote; "" if there is none."""
        found = _system(PurePosixPath(self.name).parts)
        return found[0] if found else ""

    @property
    def own(self) -> str:
        """Return what the student called the file, as far as the system's part of its name can be recognised."""
        found = _system([self.last])
        return (found.groupdict().get("file") or "") if found else self.last

    @property
    def is_notebook(self) -> bool:
        return is_notebook(self.last)

    @property
    def is_zip(self) -> bool:
        return self.name.lower().endswith(".zip")


def files_in(source: Path) -> Iterator[File]:
    """Yield each file of a folder or zip file. The path to it is trusted, with its links, but nothing below it is."""
    source = Path(os.path.realpath(source))
    if source.is_dir():
        for path in sorted(_below(source)):
            name = path.relative_to(source).as_posix()
            if not path.is_dir() and _wanted(name):
                written = datetime.datetime.fromtimestamp(os.lstat(path).st_mtime)
                yield File(name, partial(read_file, path), f"{written:%Y-%m-%d %H:%M:%S}")
        return
    try:
        found = list(_entries(source))
        if len(found) == 1 and found[0].is_zip and sender_of(found[0].name) is None:
            try:  # somebody packed the download once more
                found = list(_entries(io.BytesIO(found[0].read())))
            except Unreadable:
                raise NotUsable(f"{source}: holds one zip file, {found[0].name}; unpack it, and collect that") from None
        yield from found
    except FileNotFoundError:
        raise NotUsable(f"{source}: not there; is the path right?") from None
    except Unreadable as error:
        raise NotUsable(str(error)) from None
    except (OSError, zipfile.BadZipFile) as error:
        raise NotUsable(f"{source}: neither a folder nor a zip file that can be read ({error})") from None


def _below(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder, at any depth; follow no links, and skip folders that cannot be read."""
    waiting = [str(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    yield Path(entry.path)


def _entries(source: Path | io.BytesIO, name: str = "", packed: str | None = None) -> Iterator[File]:
    """Yield each file in a zip file. name: of a zip file that is inside another one; it prefixes the files' names.

    packed: when the inner zip file was put into the download, because the times in it come from the student's clock.
    The archive stays open as long as one of its files may be read, because opening it takes time for each entry.
    """
    archive = zipfile.ZipFile(source)
    entries = archive.infolist()
    if len(entries) > ENTRIES_CAP:
        raise Unreadable(f"{name or source}: {len(entries)} entries are more than {ENTRIES_CAP}")
    # Some programs write a backslash between the parts of a name; in a system's download, the student wrote it.
    theirs = bool(name) or not any("/" in entry.filename for entry in entries)
    for entry in entries:
        called = _name_of(entry)
        called = called.replace("\\", "/") if theirs else called
        if not called.endswith("/") and _wanted(called):
            whole = f"{name}/{called}" if name else called
            year, month, day, hour, minute, second = entry.date_time
            time = f"{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
            yield File(whole, partial(_read_entry, archive, entry, whole), packed if packed is not None else time)


def _name_of(entry: zipfile.ZipInfo) -> str:
    """Return the name of an entry. Some programs, Apple's among them, write UTF-8 and don't say so."""
    try:
        return entry.filename if entry.flag_bits & UTF_8 else entry.filename.encode("cp437").decode()
    except UnicodeError:
        return entry.filename


def _wanted(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return not any(part.startswith(".") or part == "__MACOSX" for part in parts)


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str) -> bytes:
    if entry.compress_type not in PACKED:
        raise Unreadable(f"{name}: not packed as zip files usually are; ask for it again, not packed at all")
    if entry.file_size > FILE_CAP:  # no more than that is unpacked
        raise Unreadable(f"{name}: larger than {FILE_CAP >> 20} MB; have its outputs cleared")
    data = io.BytesIO()
    try:
        with archive.open(entry) as file:
            shutil.copyfileobj(file, data)  # in pieces, so that memory doesn't hold it twice
    except Exception as error:  # a damaged, encrypted or oddly packed entry harms only its student
        raise Unreadable(f"{name}: cannot be unpacked ({error}); ask for it again") from None
    return data.getvalue()


def sender_of(name: str, plain: bool = False) -> Sender | None:
    """Return who handed the file in.

    The student chooses the end of its name, so the part that the system wrote, which comes first, decides.

    plain: whether other submissions are in folders named only STUDENT. Everything below such a folder is that student's
    choice; otherwise, a folder may have been put around the system's names.
    """
    *folders, last = PurePosixPath(composed(name)).parts
    found = _system(folders[:1] if plain and folders else [*folders, last])
    if found is None:
        return Sender(plain_id(folders[0]), called=folders[0]) if folders and plain_id(folders[0]) else None
    if found.re in NOBODY:
        return Sender("", nobody=NOBODY[found.re])
    called, number = found["name"], found["number"]
    if found.re is MOODLE:
        return Sender(plain_id(called), number, called, called=called)
    ids = (plain_id(called), number) if called else ()
    return Sender("-".join(filter(None, ids)), number, lasting=True, called=called)


def says_student_alone(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return len(parts) > 1 and _system(parts) is None


def _system(parts: Sequence[str]) -> re.Match[str] | None:
    """Match the first part of a path in which a system names the sender, or leaves the name out."""
    forms = (*NOBODY, CANVAS, MOODLE, *((NUMBERS,) if len(parts) == 1 else ()))
    matches = (form.fullmatch(part) for part in parts for form in forms)
    return next((match for match in matches if match), None)


def unpacked(file: File, unit: str) -> list[File]:
    """Return the files in a student's zip file; a zip file among them is not opened."""
    try:
        data = file.read()
        if data.count(LISTED) > ENTRIES_CAP:  # reading so long a list takes seconds
            raise Unreadable(f"{file.name}: has more than {ENTRIES_CAP} entries; ask for {unit}.ipynb")
        return list(_entries(io.BytesIO(data), file.name, file.packed))
    except Unreadable:
        raise
    except Exception as error:  # a stranger's zip file can raise anything
        raise Unreadable(f"{file.name}: cannot be unpacked ({error}); ask for {unit}.ipynb") from None
