"""What lies in a download of a learning-management system, a zip file or a folder, and who handed each file in.

Canvas names a file `lovelaceada_4711_90210_03_masking.ipynb`; Moodle puts it into a folder that is named
`Ada Lovelace_4711_assignsubmission_file_`. Any other archive is read as STUDENT/…/notebook. Nothing is unpacked by the
names in it, and everything has a limit.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from .classroom import NotUsable
from .roster import plain_id
from .submission import FILE_CAP, Unreadable, read_file

CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<number>\d+)_(?:\d+_.+|(?:text|link)\.html)")
MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)_?.*")
ENTRIES_CAP = 50_000
#: Ways of packing that zipfile unpacks by the piece. Others it unpacks at once, and a kilobyte may hold gigabytes.
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: What stands before each name in the list at the end of a zip file.
LISTED = b"PK\1\2"


@dataclass(frozen=True)
class Sender:
    """Who handed a file in, as far as its name says.

    lasting: whether the number is the student's own; Moodle's is another one in the next assignment.
    """

    id: str
    number: str = ""
    name: str = ""
    lasting: bool = False


@dataclass(frozen=True)
class File:
    """One file of the download: its name, with / between its parts, and what reads it or raises Unreadable."""

    name: str
    read: Callable[[], bytes]

    @property
    def last(self) -> str:
        return PurePosixPath(self.name.replace("\\", "/")).name

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
    folders, last = _parts(name)
    if plain and folders:
        folders, last = folders[:1], ""
    return _named(folders, last) or (Sender(plain_id(folders[0])) if folders and plain_id(folders[0]) else None)


def says_student_alone(name: str) -> bool:
    folders, last = _parts(name)
    return bool(folders) and _named(folders, last) is None


def _parts(name: str) -> tuple[list[str], str]:
    *folders, last = PurePosixPath(name.replace("\\", "/")).parts
    return folders, last


def _named(folders: Sequence[str], last: str) -> Sender | None:
    """Whom a learning-management system has named in a path."""
    for part in folders:
        match = MOODLE.fullmatch(part)
        if match:
            return Sender(plain_id(match["name"]), match["number"], match["name"])
    match = CANVAS.fullmatch(last)
    if match:
        return Sender(f"{plain_id(match['name'])}-{match['number']}", match["number"], lasting=True)
    match = MOODLE.fullmatch(last)
    if match:
        return Sender(plain_id(match["name"]), match["number"], match["name"])
    return None


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
