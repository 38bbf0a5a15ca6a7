"""Finds the notebooks to grade in grading/submitted/, and stores new submissions there."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from pathlib import Path

from nbformat import NotebookNode

from ..reading.insert_answers import transplant
from ..reading.read_submission import read_bytes
from ..records import Unreadable
from ..safe_text import NO_ID, composed, is_student_id, printable, spelt

#: The end of a notebook's name. Browsers add .txt or .json, and Canvas a number before the last dot.
NOTEBOOK = re.compile(r"(?:-([0-9]{1,6}))?\.ipynb(?:(?:-([0-9]{1,6}))?\.(?:txt|json))?$", re.IGNORECASE)
#: File that `autograder collect` puts next to a notebook: what a learning-management system says of it.
SAID = "lms.json"
#: Files that may be next to a notebook: that one, and those from nbgrader's exchange.
NOTES = ("timestamp.txt", "submission_secret.txt", SAID)


@dataclass(frozen=True)
class HandedIn:
    """Describes one student's notebook of one unit.

    problem: the message if there is no such file.
    """

    student: str
    unit: str
    path: Path
    problem: str | None = None


@dataclass
class HandedInByAll:
    """Holds what was found. remarks: lines about what is skipped. closed: lines about folders that cannot be read."""

    notebooks: list[HandedIn] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)


def survey(folder: Path, known: Sequence[str], units: Sequence[str] = (), student: str | None = None) -> HandedInByAll:
    """Look through the folder of all submissions, or one student's in it. Raises OSError if it cannot be read.

    known: all assignments of the course. units: the wanted ones, if not all.
    """
    result = HandedInByAll()
    students, files = _listing(folder)
    result.remarks += [
        f"{name}: lies in no student's folder, so it is not graded; it belongs in STUDENT/UNIT/"
        for name in files
        if student is None and is_notebook(name)
    ]
    found: dict[str, list[HandedIn]] = {unit: [] for unit in units or known}
    strange: dict[str, list[str]] = defaultdict(list)
    twice = {name for name, number in Counter(map(composed, students)).items() if number > 1}
    for name in students if student is None else [student]:
        if composed(name) in twice:
            remedy = "move what belongs together into one of them"
            result.closed.append(
                f"{name}: not graded, two folders have this name, in letters that look alike; {remedy}"
            )
            continue
        if not is_student_id(name):
            if name.startswith("."):
                continue
            result.closed.append(f"{shlex.quote(spelt(name))}: not graded, {NO_ID}")
            continue
        try:
            folders, files = _listing(folder / name)
        except OSError as error:
            result.closed.append(_closed(name, folder / name, error))
            continue
        for unit in found:
            if unit in folders:
                try:
                    found[unit].append(_notebook(folder, name, unit, result.remarks))
                except OSError as error:
                    result.closed.append(_closed(f"{name}, {unit}", folder / name / unit, error))
            elif unit in files:
                place, right = folder / name / unit, f"{unit}.ipynb"
                problem = f"'{unit}' is no folder; make it one that holds {right}"
                found[unit].append(HandedIn(name, unit, place / right, problem))
        for other in folders:
            if other not in known and not other.startswith("."):
                strange[other].append(name)
        result.remarks += [
            f"{name}: {file} lies in no unit's folder, so it is not graded; it belongs in {name}/UNIT/"
            for file in files
            if is_notebook(file)
        ]
    for other, owners in strange.items():
        result.remarks.append(f"{_some(owners, '')}: '{other}' is no unit, so nothing in that folder is graded")
    result.notebooks = [item for items in found.values() for item in items]
    result.remarks, result.closed = [*map(printable, result.remarks)], [*map(printable, result.closed)]
    return result


def _closed(who: str, folder: Path, error: OSError) -> str:
    remedy = f"make it yours to read, as with: chmod -R u+rX {shlex.quote(str(folder))}"
    return f"{who}: not graded, the folder cannot be read ({error.strerror}); {remedy}"


def _notebook(folder: Path, student: str, unit: str, remarks: list[str]) -> HandedIn:
    """Return the file that counts: the one with the right name, or else the only notebook. Raises OSError."""
    place, right = folder / student / unit, f"{unit}.ipynb"
    whole = HandedIn(student, unit, place / right)
    if place.is_symlink() or place.parent.is_symlink():
        return whole  # reading it refuses the link, so nothing of its target is shown
    folders, files = _listing(place)
    others = [name for name in files if is_notebook(name) and name != right]
    if right in folders + files:
        if others:
            remarks.append(f"{student}, {unit}: only {right} is graded, not {_some(others)} beside it")
        return whole
    if len(others) == 1:
        remarks.append(f"{student}, {unit}: '{others[0]}' is graded, the only notebook there; rename it to {right}")
        return replace(whole, path=place / others[0])
    seen = [name for name in folders + files if not name.startswith(".") and name not in NOTES]
    remedy = f"rename the right one to {right}" if others else "hand in the notebook under that name"
    return replace(whole, problem=printable(f"no {right}; its folder holds {_some(seen) or 'nothing'}; {remedy}"))


def _listing(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of folders, and of everything else, in order."""
    folders, files = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                inside = entry.is_dir()
            except OSError:
                inside = False
            (folders if inside else files).append(entry.name)
    return sorted(folders), sorted(files)


def is_notebook(name: str) -> bool:
    """Return whether this is a notebook's name, or what a browser or a mail program made of one."""
    return NOTEBOOK.search(name) is not None and not name.startswith(".")


def _some(names: Sequence[str], quote: str = "'") -> str:
    """Join the first three names, and count the others."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"{quote}{name}{quote}" for name in names[:3]) + more


TIMESTAMP = "timestamp.txt"


@dataclass(frozen=True)
class Said:
    """Holds what a learning-management system itself says of a submission.

    late: whether it came late. time: when it came, as nbgrader writes it, in UTC; None if the system does not say.
    until: the student's deadline, in the same form.
    upload, packed: how new the submission is, as in `lms.lms_files.File`.
    entry: what the system called the student's file or folder in its download: feedback goes back under that name.
    """

    by: str
    late: bool
    time: str | None = None
    until: str | None = None
    upload: int = 0
    packed: str = ""
    entry: str = ""

    def is_older(self, other: Said) -> bool:
        """Return whether this is of an earlier submission than the other, or at least of an earlier download."""
        if self.upload and other.upload:
            return self.upload < other.upload
        return bool(self.packed and other.packed) and self.packed < other.packed


def fault_of(data: bytes, name: str, unit: str, release: NotebookNode | None) -> tuple[str, bool]:
    """Return why a notebook cannot be graded, or "", and whether it is an intact notebook of something else.

    release: the unit's own notebook; if None, nothing checks that this one belongs to the unit.
    """
    whole = False
    try:
        cells = read_bytes(data, name)
        whole = True
        if release is not None:
            transplant(cells, release, unit, name)
    except Unreadable as error:
        return str(error), whole
    return "", False


def store(root: Path, place: Path, files: Mapping[str, bytes], notes: Iterable[str] = NOTES) -> bool:
    """Write the files of one submission into its folder; return whether a file of one of these names was there before.

    notes: names of files to move away as well, because what they say is not true of the new submission. Raises OSError.
    """
    place.mkdir(parents=True, exist_ok=True)
    parts = {name: place / f".{name}.{os.getpid()}.part" for name in files}
    for name, part in parts.items():
        part.write_bytes(files[name])
    earlier = [name for name in dict.fromkeys([*files, *notes]) if os.path.lexists(place / name)]
    if earlier:
        aside = new_folder(root / "grading" / "replaced" / place.parent.name / place.name)
        for name in earlier:
            os.replace(place / name, aside / name)
    for name, part in parts.items():
        os.replace(part, place / name)
    return not set(files).isdisjoint(earlier)


def new_folder(base: Path) -> Path:
    """Make the next numbered folder in `base` for what is replaced: 1, 2, …"""
    folder = next(base / str(number) for number in count(1) if not (base / str(number)).exists())
    folder.mkdir(parents=True)
    return folder


def note(root: Path, place: Path, said: Said) -> None:
    """Keep what a system says of the submission in this folder; a time that it gives is put where nbgrader reads it.

    A timestamp that somebody changed by hand stays until the system gives another time. Raises OSError.
    """
    before = read_said(place)
    if said == before:
        return
    if said.time is not None and (before is None or said.time != before.time):
        store(root, place, {TIMESTAMP: f"{said.time}\n".encode()}, notes=())
    part = place / f".{SAID}.{os.getpid()}.part"
    part.write_text(json.dumps(asdict(said)) + "\n", encoding="utf-8")
    os.replace(part, place / SAID)


def read_said(place: Path) -> Said | None:
    """Return what a system said of the submission in this folder, or None. Only `autograder collect` writes it."""
    try:
        return Said(**json.loads((place / SAID).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
