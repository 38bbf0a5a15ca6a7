"""What lies in the exchange's inbound folder, which every user of the machine may write to, read with care.

A hand-in is a folder USER+UNIT+TIME+RANDOM. Everything in it was put there by a stranger, its name too: folders are
opened and not named, no link is followed, and what is read belongs to whom the folder belongs to.
"""

from __future__ import annotations

import datetime
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..data import Expected
from ..reading.submission import FILE_CAP
from ..text import is_student_id, printable

try:
    import pwd
except ImportError:  # Windows has no exchange
    pwd = None  # type: ignore[assignment]

#: Entries of one hand-in that are looked at. More are no notebooks that anybody wrote.
ENTRIES_CAP = 1_000
#: What is opened: never through a link, and without waiting for whoever holds the other end.
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class Refused(Expected):
    """Why a hand-in is not taken: one line that ends with who owns it, or with the remedy."""

    def __init__(self, line: str) -> None:
        super().__init__(printable(line))


@dataclass(frozen=True)
class Arrived:
    """One hand-in that may be read.

    when: when the folder or a notebook in it last changed, in UTC, by the clock of the file system. Other times of a
        file can be set by its owner, this one cannot.
    claimed: the time in the folder's name, as far as it is one: its sender's word.
    notebooks: the names of what may be taken.
    """

    name: str
    student: str
    when: datetime.datetime
    claimed: str
    notebooks: tuple[str, ...]


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """The inbound folder, open. Raises OSError, also where its name is a link."""
    descriptor = os.open(path, FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def names_of(inbound: int, unit: str) -> Iterator[tuple[str, str]]:
    """Each entry for this unit, with the name of who it says it is from."""
    with os.scandir(inbound) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        student, found, _ = name.partition(f"+{unit}+")
        if found:
            yield name, student


def look_at(inbound: int, name: str, student: str, wanted: Iterable[str], check_owner: bool = True) -> Arrived:
    """What the hand-in holds, by its folder alone: nothing in it is opened. Raises Refused.

    wanted: names of notebooks; where there is none of them, a lone notebook is taken.
    """
    if not is_student_id(student):
        raise Refused("the name before the first + is no student's ID")
    with _folder(inbound, name) as (folder, owner):
        if check_owner:
            _is_of(student, owner)
        changed = [os.fstat(folder).st_ctime_ns]
        present = []
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number >= ENTRIES_CAP:
                    raise Refused(f"it holds more than {ENTRIES_CAP} files")
                present.append(entry.name)
        notebooks = [file for file in wanted if file in present]
        if not notebooks:
            notebooks = [file for file in present if file.lower().endswith(".ipynb") and not file.startswith(".")]
            if len(notebooks) != 1:
                raise Refused(f"it holds {'several notebooks, none' if notebooks else 'no notebook'} of the right name")
        for file in notebooks:
            changed.append(_regular(folder, file, owner, FILE_CAP).st_ctime_ns)
    when = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=max(changed) // 1_000)
    claimed = name.removeprefix(f"{student}+").split("+")[1]
    return Arrived(name, student, when, claimed, tuple(notebooks))


def read(inbound: int, arrived: Arrived, file: str, cap: int = FILE_CAP) -> bytes | None:
    """The content of one file of a hand-in, or None where there is no such file. Raises Refused."""
    with _folder(inbound, arrived.name) as (folder, owner):
        try:
            _regular(folder, file, owner, cap)
        except FileNotFoundError:
            return None
        try:
            descriptor = os.open(file, FILE, dir_fd=folder)
        except OSError as error:
            raise Refused(f"{file} cannot be opened ({error.strerror})") from None
        with os.fdopen(descriptor, "rb") as content:
            _is_plain(os.fstat(descriptor), file, owner, cap)  # of what is open: a name may have changed meanwhile
            try:
                data = content.read(cap + 1)
            except OSError as error:
                raise Refused(f"{file} cannot be read ({error.strerror})") from None
    if len(data) > cap:
        raise Refused(_too_large(file, cap))
    return data


@contextmanager
def _folder(inbound: int, name: str) -> Iterator[tuple[int, int]]:
    """The hand-in's folder, open, and the number of its owner. Raises Refused."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=inbound, follow_symlinks=False).st_mode):
            raise Refused("it is no folder but a link or a file")
        descriptor = os.open(name, FOLDER, dir_fd=inbound)
    except OSError as error:
        raise Refused(f"it cannot be opened ({error.strerror})") from None
    try:
        yield descriptor, os.fstat(descriptor).st_uid
    except OSError as error:
        raise Refused(f"it cannot be read ({error.strerror})") from None
    finally:
        os.close(descriptor)


def _is_of(student: str, owner: int) -> None:
    try:
        if pwd.getpwnam(student).pw_uid == owner:
            return
    except KeyError:
        raise Refused(f"there is no account {student} here; it is owned by {account(owner)}") from None
    raise Refused(f"it is owned by {account(owner)}, not by {student}")


def account(owner: int) -> str:
    """The name of the account with this number."""
    try:
        return pwd.getpwuid(owner).pw_name
    except (KeyError, AttributeError):
        return f"number {owner}"


def _regular(folder: int, file: str, owner: int, cap: int) -> os.stat_result:
    status = os.stat(file, dir_fd=folder, follow_symlinks=False)
    _is_plain(status, file, owner, cap)
    return status


def _is_plain(status: os.stat_result, file: str, owner: int, cap: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{file} is no regular file but a link, a folder or a device")
    if status.st_nlink != 1:
        raise Refused(f"{file} is a file with other names elsewhere (hard links)")
    if status.st_uid != owner:
        raise Refused(f"{file} is owned by {account(status.st_uid)}, and the folder by {account(owner)}")
    if status.st_size > cap:
        raise Refused(_too_large(file, cap))


def _too_large(file: str, cap: int) -> str:
    return f"{file} is larger than {f'{cap >> 20} MB' if cap >> 20 else f'{cap} bytes'}"


__all__ = ["Arrived", "Refused", "account", "look_at", "names_of", "opened", "read"]
