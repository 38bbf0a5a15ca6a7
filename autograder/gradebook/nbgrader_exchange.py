"""Adds our steps to a plain `nbgrader collect` and `nbgrader release_feedback`; reads the inbound folder with care."""

from __future__ import annotations

import contextlib
import datetime
import glob
import os
import re
import shutil
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.exchange.default import ExchangeCollect, ExchangeReleaseFeedback
from nbgrader.utils import notebook_hash, parse_utc
from traitlets import Bool

from ..grading.submitted_folder import TIMESTAMP, fault_of, store
from ..reading.course_contents import Course
from ..reading.read_submission import FILE_CAP, read_file
from ..records import Expected, Unreadable
from ..safe_text import is_student_id, printable
from .submission_times import read_timestamp, zone_of

try:
    import pwd
except ImportError:  # Windows has no exchange
    pwd = None  # type: ignore[assignment]

#: Most entries of one submission that are looked at; nobody's own work has more.
ENTRIES_CAP = 1_000
#: Flags for opening a folder or file: follow no link, and don't wait for the other end of a pipe.
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class Refused(Expected):
    """Raised when a submission is not taken; the message is one line that ends with its owner or with the remedy."""

    def __init__(self, line: str) -> None:
        super().__init__(printable(line))


@dataclass(frozen=True)
class Arrived:
    """Describes one submission that may be read.

    when: when the folder or a notebook in it last changed, in UTC, by the clock of the file system. An owner can set a
        file's other times, but not this one.
    claimed: the time in the folder's name, which the sender wrote.
    notebooks: the names of the notebooks that may be taken.
    folder: device, number and owner of the folder that was looked at; its name may lead to another one later.
    """

    name: str
    student: str
    when: datetime.datetime
    claimed: str
    notebooks: tuple[str, ...]
    folder: tuple[int, int, int]


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Open the inbound folder. Raises OSError, also if its name is a link."""
    descriptor = os.open(path, FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def names_of(inbound: int, unit: str) -> Iterator[tuple[str, str]]:
    """Yield each entry for this unit, with the student it claims to be from."""
    with os.scandir(inbound) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        student, found, _ = name.partition(f"+{unit}+")
        if found:
            yield name, student


def look_at(inbound: int, name: str, student: str, wanted: Iterable[str], check_owner: bool = True) -> Arrived:
    """Describe a submission by its folder, without opening any file in it. Raises Refused.

    wanted: names of notebooks; if none of them is there, a single notebook of another name is taken.
    """
    if not is_student_id(student):
        raise Refused("the name before the first + is no student's ID")
    with _folder(inbound, name) as folder:
        status = os.fstat(folder)
        owner = status.st_uid
        if check_owner:
            _is_of(student, owner)
        changed = [status.st_ctime_ns]
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
    return Arrived(name, student, when, claimed, tuple(notebooks), _which(status))


def read(inbound: int, arrived: Arrived, file: str, cap: int = FILE_CAP) -> bytes | None:
    """Return the content of one file of a submission, or None if there is no such file. Raises Refused."""
    with _folder(inbound, arrived.name) as folder:
        status = os.fstat(folder)
        if _which(status) != arrived.folder:
            raise Refused("another folder took its name while it was collected; collect again")
        owner = status.st_uid
        try:
            _regular(folder, file, owner, cap)
        except FileNotFoundError:
            return None
        try:
            descriptor = os.open(file, FILE, dir_fd=folder)
        except OSError as error:
            raise Refused(f"{file} cannot be opened ({error.strerror})") from None
        with os.fdopen(descriptor, "rb") as content:
            _is_plain(os.fstat(descriptor), file, owner, cap)  # the open file: its name may have changed
            try:
                data = content.read(cap + 1)
            except OSError as error:
                raise Refused(f"{file} cannot be read ({error.strerror})") from None
    if len(data) > cap:
        raise Refused(_too_large(file, cap))
    return data


@contextmanager
def _folder(inbound: int, name: str) -> Iterator[int]:
    """Open the submission's folder. Raises Refused."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=inbound, follow_symlinks=False).st_mode):
            raise Refused("it is no folder but a link or a file")
        descriptor = os.open(name, FOLDER, dir_fd=inbound)
    except OSError as error:
        raise Refused(f"it cannot be opened ({error.strerror})") from None
    try:
        yield descriptor
    except OSError as error:
        raise Refused(f"it cannot be read ({error.strerror})") from None
    finally:
        os.close(descriptor)


def _which(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_dev, status.st_ino, status.st_uid


def _is_of(student: str, owner: int) -> None:
    try:
        if pwd.getpwnam(student).pw_uid == owner:
            return
    except KeyError:
        raise Refused(f"there is no account {student} here; it is owned by {account(owner)}") from None
    raise Refused(f"it is owned by {account(owner)}, not by {student}")


def account(owner: int) -> str:
    """Return the name of the account with this number."""
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


SECRET = "submission_secret.txt"
#: `nbgrader submit` draws 64 bytes and writes them as hexadecimal digits.
SECRET_FORM = re.compile(r"[0-9a-f]{32,256}")
SECRET_CAP = 1_000
#: How many of a student's submissions are read, the last first, to find one that can be graded.
ATTEMPTS_CAP = 20
#: Most lines about refused folders, because anybody may put any number of them there.
LINES_CAP = 50
#: Longest gap between the time in a folder's name and the folder's last change, if nobody touched it later.
A_WHILE = datetime.timedelta(minutes=10)


class Collect(ExchangeCollect):
    """Replaces `nbgrader collect`, which the formgrader's button calls too, for an exchange that strangers write to."""

    check_owner = Bool(
        True,
        help="""Whether a hand-in counts only if the account that it names owns its folder. Set it to False where all
        students share one account, as on hubs that give each a container of their own. Then nothing says whose a
        hand-in is but the name that its sender wrote: whoever can write to the exchange can hand in as anybody else,
        in the place of what that one handed in, and can fetch the feedback on it.""",
    ).tag(config=True)

    def init_src(self) -> None:
        if not self.coursedir.course_id:
            self.fail("No course id specified. Re-run with --course flag.")
        self.inbound_path = Path(self.root) / self.coursedir.course_id / "inbound"
        with Gradebook(self.coursedir.db_url, self.coursedir.course_id) as gradebook:
            try:
                self.duedate = gradebook.find_assignment(self.coursedir.assignment_id).duedate
            except MissingEntry:
                self.duedate = None

    def copy_files(self) -> None:
        unit = self.coursedir.assignment_id
        self._refused: dict[str, list[str]] = defaultdict(list)
        self._other_time: list[str] = []
        try:
            with opened(self.inbound_path) as inbound:
                self._whose(os.fstat(inbound).st_uid)
                found = self._arrived(inbound, unit)
                self.log.info("Processing hand-ins of %d students for %s", len(found), unit)
                for student, arrived in found.items():
                    try:
                        self._collect(inbound, student, arrived)
                    except OSError as error:
                        line = "%s: not collected, for it cannot be written (%s); is grading/submitted yours?"
                        self.log.error(line, student, error.strerror)
        except OSError as error:
            self.fail(f"{self.inbound_path}: cannot be opened ({error.strerror}); is the course released there?")
        self._say_refused()
        if self._other_time:
            names = _some(self._other_time)
            line = (
                "%s: the folder's name has another time than the file system, whose counts; was it copied or restored?"
            )
            self.log.warning(line, names)

    def _whose(self, owner: int) -> None:
        if owner not in (0, os.getuid()) and not self.coursedir.groupshared:
            line = "%s is owned by %s, who can rename and remove what others hand in; is it the course's?"
            self.log.warning(line, self.inbound_path, account(owner))

    def _arrived(self, inbound: int, unit: str) -> dict[str, list[Arrived]]:
        """Return the submissions of each student that may be read, in the order in which they count."""
        found: dict[str, list[Arrived]] = defaultdict(list)
        excluded = set(filter(None, self.coursedir.student_id_exclude.split(",")))
        release = Path(self.coursedir.format_path(self.coursedir.release_directory, ".", unit))
        self._wanted = list(dict.fromkeys([f"{unit}.ipynb", *sorted(path.name for path in release.glob("*.ipynb"))]))
        for name, student in names_of(inbound, unit):
            if student not in excluded and fnmatchcase(student, self.coursedir.student_id or "*"):
                try:
                    found[student].append(look_at(inbound, name, student, self._wanted, self.check_owner))
                except Refused as error:
                    self._refused[str(error)].append(name)
        return {student: self._in_order(arrived) for student, arrived in found.items() if arrived}

    def _in_order(self, arrived: list[Arrived]) -> list[Arrived]:
        """Sort the last first; if `before_duedate` is set, those that came in time precede all others."""
        due = self.duedate if self.before_duedate else None
        return sorted(arrived, key=lambda each: (due is not None and each.when <= due, each.when), reverse=True)

    def _collect(self, inbound: int, student: str, arrived: list[Arrived]) -> None:
        """Store one student's submission, unless the one that is there should stay. Raises OSError."""
        unit = self.coursedir.assignment_id
        place = Path(self.coursedir.format_path(self.coursedir.submitted_directory, student, unit))
        there = os.path.lexists(place)
        if there and not (self.update or self.before_duedate):
            self.log.info("Submission already exists, use --update to update: %s %s", student, unit)
            return
        chosen, files, fault = self._last_good(inbound, arrived, unit)
        if chosen is None:
            return  # each was refused, which is reported
        if there and not self._counts_more(chosen, files, place):
            self.log.info("No newer submission to collect: %s %s", student, unit)
            return
        if fault and self._is_good(place, unit):
            self.log.error("%s (not taken: the earlier one of %s stays)", fault, student)
            return
        if not _about(chosen.when, chosen.claimed):
            self._other_time.append(student)
        store(
            Path(self.coursedir.root), place, files | {TIMESTAMP: f"{chosen.when:%Y-%m-%d %H:%M:%S.%f} UTC\n".encode()}
        )
        self._share(place)
        self.log.info("%s submission: %s %s", "Updating" if there else "Collecting", student, unit)
        if fault:
            self.log.error("%s (taken as it is, without points)", fault)

    def _last_good(
        self, inbound: int, arrived: list[Arrived], unit: str
    ) -> tuple[Arrived | None, dict[str, bytes], str]:
        """Return the first submission that can be graded, with its files, or the first readable one and its fault."""
        first: tuple[Arrived | None, dict[str, bytes], str] = (None, {}, "")
        faults = []
        for each in arrived[:ATTEMPTS_CAP]:
            try:
                files = self._files(inbound, each, unit)
            except Refused as error:
                self._refused[str(error)].append(each.name)
                continue
            faults.append(self._fault(files, each.name, unit))
            if not faults[-1]:
                for fault in faults[:-1]:
                    self.log.error("%s (passed over for an earlier one of %s)", fault, each.student)
                return each, files, ""
            if first[0] is None:
                first = each, files, faults[-1]
        return first

    def _files(self, inbound: int, arrived: Arrived, unit: str) -> dict[str, bytes]:
        """Return the notebooks, a single one under the unit's name, and a well-formed secret. Raises Refused."""
        files = {}
        for name in arrived.notebooks:
            content = read(inbound, arrived, name)
            if content is None:
                raise Refused(f"{name} went away while it was read")
            right = name in self._wanted
            files[name if right else f"{unit}.ipynb"] = content
            if not right:
                self.log.warning("%s: its only notebook is taken as %s.ipynb", printable(arrived.name), unit)
        try:
            secret = read(inbound, arrived, SECRET, SECRET_CAP)
        except Refused as error:
            self.log.warning("%s: no feedback on the exchange, for %s", printable(arrived.name), error)
            return files
        if secret is not None and SECRET_FORM.fullmatch(secret.decode("ascii", "replace").strip()):
            files[SECRET] = secret
        else:
            self.log.warning("%s: no feedback on the exchange, for it has no %s", printable(arrived.name), SECRET)
        return files

    def _fault(self, files: dict[str, bytes], name: str, unit: str) -> str:
        release, course = None, Course(Path(self.coursedir.root))
        if unit in course.units():
            with contextlib.suppress(FileNotFoundError, Expected):  # grading reports what is wrong with the course
                release = course.release(unit)
        notebooks = {file: content for file, content in files.items() if file != SECRET}
        faults = (fault_of(data, f"{printable(name)}/{file}", unit, release)[0] for file, data in notebooks.items())
        return next(filter(None, faults), "")

    def _is_good(self, place: Path, unit: str) -> bool:
        try:
            name = f"{unit}.ipynb"
            return not self._fault({name: read_file(place / name)}, place.name, unit)
        except Unreadable:
            return False

    def _counts_more(self, chosen: Arrived, files: dict[str, bytes], place: Path) -> bool:
        """Return whether it replaces what is stored.

        It must differ from that and be newer; with `before_duedate` it may also be older.
        """
        try:
            if all(read_file(place / name) == content for name, content in files.items()):
                return False
        except Unreadable:
            pass
        try:
            before = read_timestamp(place / TIMESTAMP, zone_of(self.config))
        except ValueError:
            before = None
        newer = before is None or chosen.when > before
        return newer if not self.before_duedate else newer or chosen.when != before

    def _share(self, place: Path) -> None:
        """Let the other instructors of a course that is shared by a group write there, as nbgrader does."""
        if self.coursedir.groupshared:
            for path in (place.parent, place, *place.iterdir()):
                mode = stat.S_IMODE(os.lstat(path).st_mode)
                if not path.is_symlink():
                    os.chmod(path, mode | (0o2770 if path.is_dir() else 0o660))

    def _say_refused(self) -> None:
        for why, names in list(self._refused.items())[:LINES_CAP]:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            self.log.error("%s%s: refused, for %s", printable(names[0]), more, why)
        rest = sum(map(len, list(self._refused.values())[LINES_CAP:]))
        if rest:
            self.log.error("%d more folders are refused", rest)


def _about(when: datetime.datetime, claimed: str) -> bool:
    """Return whether the claimed time is `when`, give or take the time that handing in may need."""
    try:
        return abs(parse_utc(claimed) - when) < A_WHILE
    except Exception:  # a stranger's text can make the parser raise anything
        return False


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")


class ReleaseFeedback(ExchangeReleaseFeedback):
    """Copies each page to the exchange under a name that only its student can compute."""

    def copy_files(self) -> None:
        unit = self.coursedir.assignment_id
        excluded = set(filter(None, self.coursedir.student_id_exclude.split(",")))
        elsewhere, released = [], 0
        for page in sorted(Path(name) for name in glob.glob(os.path.join(self.src_path, "*.html"))):
            student = page.parent.parent.name
            if student in excluded:
                continue
            submitted = self.coursedir.format_path(self.coursedir.submitted_directory, student, unit)
            secret = read_secret(Path(submitted) / SECRET)
            if secret is None:
                elsewhere.append(student)
                continue
            name = f"{notebook_hash(secret=secret, notebook_id=page.stem)}.html"
            aside = Path(self.dest_path) / f".{name}.part"
            shutil.copy(page, aside)
            os.replace(aside, Path(self.dest_path) / name)
            released += 1
        self.log.info("Feedback released to %d students in %s", released, self.dest_path)
        if elsewhere:
            self.log.warning("Not handed in through the exchange, so not released there: %s", ", ".join(elsewhere))


def read_secret(path: Path) -> str | None:
    """Return a submission's secret, or None if it is missing or malformed. The file comes from a stranger."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode) or path.parent.is_symlink():
            return None
        with open(path, encoding="ascii") as file:
            text = file.read(SECRET_CAP).strip()
    except (OSError, ValueError):
        return None
    return text if SECRET_FORM.fullmatch(text) else None
