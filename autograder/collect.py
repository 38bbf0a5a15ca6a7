"""Submissions from a learning-management system: a zip file, or the folder it was unpacked to, into grading/submitted/.

Canvas names a file `lovelaceada_4711_90210_03_masking.ipynb`; Moodle puts it into a folder that is named
`Ada Lovelace_4711_assignsubmission_file_`. Any other archive is read as STUDENT/…/notebook. Nothing is unpacked by the
names in it, and everything has a limit.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from .classroom import NotUsable
from .roster import Roster, plain_id
from .submission import SIZE_CAP, Unreadable, read_file
from .text import printable
from .units import exercises

CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<number>\d+)_(?P<attachment>\d+)_(?P<file>.+)")
MOODLE = re.compile(r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_file_?(?P<file>.*)")
ENTRIES_CAP = 50_000
#: What nbgrader's exchange left beside an earlier submission, and what is not true of a new one.
NOTES = ("timestamp.txt", "submission_secret.txt")


@dataclass(frozen=True)
class Sender:
    """Who handed a file in, as far as its name says.

    lasting: whether the number is the student's own; Moodle's is another one in the next assignment.
    """

    id: str
    number: str = ""
    name: str = ""
    lasting: bool = False


@dataclass
class Collected:
    """taken: students whose notebook is new or changed. unchanged: those who have it already. problems: lines."""

    taken: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ignored: int = 0


def collect(root: Path, unit: str, source: Path, roster: Roster | None = None) -> Collected:
    """Put the notebooks of one unit where `autograder grade` looks for them. Raises NotUsable."""
    exercises(unit)  # raises UnknownUnit
    result = Collected()
    found: dict[Sender, list[tuple[str, Callable[[], bytes]]]] = {}
    for name, read in _files(source):
        if not name.lower().endswith(".ipynb"):
            result.ignored += 1
            continue
        sender = _sender(name)
        if sender is None:
            result.problems.append(f"{printable(name)}: its name does not say who handed it in")
            continue
        found.setdefault(sender, []).append((name, read))
    if not found:
        raise NotUsable(f"{source}: no notebook of a student in it; is it the download of all submissions?")
    senders = {sender: _known(sender, roster) for sender in found}
    ids = [sender.id for sender in senders.values()]
    for sender, known in senders.items():
        if ids.count(known.id) > 1:
            result.problems.append(f"{known.id} ({sender.number}): two students have this name; tell them by --roster")
            continue
        try:
            content = _chosen(unit, known.id, found[sender])()
        except Unreadable as error:
            result.problems.append(str(error))
            continue
        (result.taken if _store(root, unit, known.id, content) else result.unchanged).append(known.id)
    _enter(root, [known for known in senders.values() if known.id in {*result.taken, *result.unchanged}])
    return result


def _files(source: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Each file's name, with / between its parts, and what reads it."""
    if source.is_dir():
        for path in sorted(source.rglob("*")):
            name = path.relative_to(source).as_posix()
            if not path.is_dir() and _wanted(name):
                yield name, lambda path=path: read_file(path)
        return
    try:
        archive = zipfile.ZipFile(source)
    except FileNotFoundError:
        raise
    except (OSError, zipfile.BadZipFile) as error:
        raise NotUsable(f"{source}: neither a folder nor a zip file that can be read ({error})") from None
    with archive:
        entries = archive.infolist()
        if len(entries) > ENTRIES_CAP:
            raise NotUsable(f"{source}: {len(entries)} entries are more than {ENTRIES_CAP}")
        for entry in entries:
            if not entry.is_dir() and _wanted(entry.filename):
                yield entry.filename, lambda entry=entry: _read_entry(source, entry)


def _wanted(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return not any(part.startswith(".") or part == "__MACOSX" for part in parts)


def _read_entry(source: Path, entry: zipfile.ZipInfo) -> bytes:
    try:
        with zipfile.ZipFile(source) as archive, archive.open(entry) as file:
            data = file.read(SIZE_CAP + 1)
    except Exception as error:  # a damaged, encrypted or oddly packed entry costs its student alone
        raise Unreadable(f"{entry.filename}: cannot be unpacked ({error}); ask for it again") from None
    if len(data) > SIZE_CAP:
        raise Unreadable(f"{entry.filename}: larger than {SIZE_CAP >> 20} MB; have its outputs cleared")
    return data


def _sender(name: str) -> Sender | None:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    for part in parts:
        match = MOODLE.fullmatch(part)
        if match:
            return Sender(plain_id(match["name"]), match["number"], match["name"])
    match = CANVAS.fullmatch(parts[-1])
    if match:
        return Sender(f"{plain_id(match['name'])}-{match['number']}", match["number"], lasting=True)
    student = plain_id(parts[0]) if len(parts) > 1 else ""
    return Sender(student) if student else None


def _known(sender: Sender, roster: Roster | None) -> Sender:
    person = roster.by_number(sender.number) if roster and sender.number else None
    return Sender(person.id, sender.number, person.name, sender.lasting) if person else sender


def _chosen(unit: str, student: str, files: list[tuple[str, Callable[[], bytes]]]) -> Callable[[], bytes]:
    """The one notebook, or the one whose name holds the unit's. Raises Unreadable."""
    if len(files) > 1:
        files = [item for item in files if unit in item[0].rpartition("/")[2]]
    if len(files) != 1:
        raise Unreadable(f"{student}: several notebooks, and not one alone is named {unit}; choose one by hand")
    return files[0][1]


def _store(root: Path, unit: str, student: str, content: bytes) -> bool:
    """Write a notebook as handed in; False where the very same is there already."""
    path = root / "grading" / "submitted" / student / unit / f"{unit}.ipynb"
    try:
        if read_file(path) == content:
            return False
    except Unreadable:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{os.getpid()}.part")
    aside.write_bytes(content)
    os.replace(aside, path)
    for note in NOTES:
        (path.parent / note).unlink(missing_ok=True)
    return True


def _enter(root: Path, senders: list[Sender]) -> None:
    """Note in the gradebook which number and name belong to an ID: `autograder export` needs them."""
    from nbgrader.api import Gradebook
    from nbgrader.coursedir import CourseDirectory

    from .nbgrader_plugin import load_config

    course = CourseDirectory(config=load_config(root))
    with Gradebook(course.db_url, course.course_id) as gradebook:
        for sender in senders:
            first, _, last = sender.name.rpartition(" ")
            number = sender.number if sender.lasting else ""
            known = {"lms_user_id": number, "first_name": first, "last_name": last}
            gradebook.update_or_create_student(sender.id, **{key: value for key, value in known.items() if value})
