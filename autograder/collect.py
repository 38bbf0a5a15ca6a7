"""Submissions from a learning-management system: a zip file, or the folder it was unpacked to, into grading/submitted/.

Of what each student handed in the one notebook of the unit is taken, and none that can be graded is lost for it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from nbformat import NotebookNode

from .classroom import NotUsable
from .course import Course
from .downloads import File, Sender, files_in, says_student_alone, sender_of, unpacked
from .placement import NOTES
from .roster import Roster
from .submission import Unreadable, read_bytes, read_file
from .text import printable
from .transplant import transplant

#: Notebooks of one student that are read to find the right one.
NOTEBOOKS_CAP = 20


class NotTaken(Exception):
    """Why a student's hand-in was left where it is: one line."""


@dataclass
class Collected:
    """What became of the hand-ins, by students' IDs.

    taken: the notebook is new or changed. unchanged: it was there already. replaced: one that differs was there.
    problems: lines about what a person must see to. notes: lines about what was decided.
    """

    taken: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def collect(root: Path, unit: str, source: Path, roster: Roster | None = None) -> Collected:
    """Put the notebooks of one unit where `autograder grade` looks for them. Raises NotUsable."""
    place = _Place(root, unit, Course(root).release(unit))
    result = Collected()
    found = _by_sender(source, result)
    people = {sender: _known(sender, roster) for sender in found}
    strangers = {sender for sender in found if roster and sender.number and not roster.by_number(sender.number)}
    if roster and strangers and len(strangers) == len(found):
        raise NotUsable(f"{roster.path}: has none of the numbers in {source}; is it of this course and assignment?")
    times = Counter(known.id for known in people.values())
    entered = []
    for sender, known in people.items():
        if times[known.id] > 1:
            result.problems.append(f"{known.id} ({sender.number}): two students have this name; tell them by --roster")
            continue
        try:
            _take(place, known, found[sender], result)
        except (NotTaken, Unreadable) as error:
            result.problems.append(printable(str(error)))
            continue
        entered.append(known)
        if roster and sender in strangers:
            line = f"{found[sender][0].name}: number {sender.number} is not in {roster.path}; taken as {known.id}"
            result.problems.append(printable(line))
    _enter(root, entered)
    return result


def _by_sender(source: Path, result: Collected) -> dict[Sender, list[File]]:
    """The files of each student. Raises NotUsable where nothing looks like a download of submissions."""
    found: dict[Sender, list[File]] = {}
    files = list(files_in(source))
    plain = any(says_student_alone(file.name) for file in files if file.ends((".ipynb", ".zip")))
    for file in files:
        sender = sender_of(file.name, plain)
        if sender is not None:
            found.setdefault(sender, []).append(file)
        elif file.ends(".ipynb"):
            result.problems.append(f"{printable(file.name)}: its name does not say who handed it in")
    notebooks = any(file.ends((".ipynb", ".zip")) for files in found.values() for file in files)
    if not notebooks and not any(sender.number for sender in found):
        raise NotUsable(f"{source}: no notebook of a student in it; is it the download of all submissions?")
    return found


def _known(sender: Sender, roster: Roster | None) -> Sender:
    person = roster.by_number(sender.number) if roster and sender.number else None
    return Sender(person.id, sender.number, person.name, sender.lasting) if person else sender


@dataclass(frozen=True)
class _Place:
    """Where the notebooks of one unit go, and what they are to be notebooks of."""

    root: Path
    unit: str
    release: NotebookNode

    def of(self, student: str) -> Path:
        return self.root / "grading" / "submitted" / student / self.unit / f"{self.unit}.ipynb"

    def fault(self, data: bytes, name: str) -> tuple[str, bool]:
        """Why it cannot be graded, or "", and whether it is a whole notebook of something else."""
        whole = False
        try:
            cells = read_bytes(data, name)
            whole = True
            transplant(cells, self.release, self.unit, name)
        except Unreadable as error:
            return str(error), whole
        return "", False


def _take(place: _Place, student: Sender, files: Sequence[File], result: Collected) -> None:
    """Store one student's notebook. Raises NotTaken or Unreadable where what is there stays as it is."""
    file = _chosen(place, student, _notebooks(files, place.unit), result)
    content, path = file.read(), place.of(student.id)
    try:
        before = read_file(path)
    except Unreadable:
        before = None
    fault, foreign = place.fault(content, file.name)
    if fault and before != content:
        stays = before is not None and not place.fault(before, "")[0]
        if stays or foreign:
            raise NotTaken(f"{fault} (not taken{f': the earlier one of {student.id} stays' if stays else ''})")
    if before == content:
        result.unchanged.append(student.id)
    else:
        try:
            replaced = _store(place, student.id, content)
        except OSError as error:
            raise NotTaken(f"{path}: cannot be written ({error.strerror}); is the folder yours?") from None
        result.taken.append(student.id)
        if replaced:
            result.replaced.append(student.id)
    if fault:
        result.problems.append(f"{fault} (taken as it is, without points)")


def _notebooks(files: Sequence[File], unit: str) -> list[File]:
    """The student's notebooks; those in zip files where none lies outside. Raises NotTaken where there is none."""
    found = [file for file in files if file.ends(".ipynb")]
    if not found:
        zips = [file for file in files if file.ends(".zip")]
        found = [inner for file in zips for inner in unpacked(file, unit) if inner.ends(".ipynb")]
    if not found:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        raise NotTaken(f"{files[0].name}{more}: no notebook; ask for {unit}.ipynb")
    return found


def _chosen(place: _Place, student: Sender, files: Sequence[File], result: Collected) -> File:
    """The one notebook; of several the one that its name or its content shows to be the unit's. Raises NotTaken."""
    if len(files) == 1:
        return files[0]
    named = [file for file in files if place.unit in file.last.casefold()]
    if len(named) == 1:
        return named[0]
    latest = _latest(place.unit, named) if student.lasting else None
    if latest is not None:
        result.notes.append(f"{student.id}: {len(files)} notebooks; took the last, {printable(latest.name)}")
        return latest
    ours = [file for file in named or files if len(files) <= NOTEBOOKS_CAP and not place.fault(file.read(), "")[0]]
    if len(ours) == 1:
        return ours[0]
    names, more = ", ".join(file.name for file in files[:3]), f" and {len(files) - 3} more" if len(files) > 3 else ""
    right = place.of(student.id).relative_to(place.root)
    raise NotTaken(f"{student.id}: several notebooks ({names}{more}); copy the right one to {right}")


def _latest(unit: str, files: Sequence[File]) -> File | None:
    """Of files that differ only in the number that Canvas appends when a file is handed in again, the last."""
    pattern = re.compile(rf"(?:.*_)?{re.escape(unit)}(?:-(\d{{1,6}}))?\.ipynb", re.IGNORECASE)
    matches = [pattern.fullmatch(file.last) for file in files]
    numbers = [int(match[1] or 0) for match in matches if match]
    if len(files) < 2 or len(set(numbers)) < len(files):
        return None
    return files[numbers.index(max(numbers))]


def _store(place: _Place, student: str, content: bytes) -> bool:
    """Write a notebook as handed in, and move what was there to grading/replaced/; whether anything was.

    The exchange's notes about the earlier one go with it: they are not true of the new one.
    """
    path = place.of(student)
    path.parent.mkdir(parents=True, exist_ok=True)
    earlier = [old for old in (path, *map(path.with_name, NOTES)) if os.path.lexists(old)]
    replaced = _new_folder(place.root / "grading" / "replaced" / student / place.unit) if earlier else path.parent
    aside = path.with_suffix(f".{os.getpid()}.part")
    aside.write_bytes(content)
    for old in earlier:
        os.replace(old, replaced / old.name)
    os.replace(aside, path)
    return path in earlier


def _new_folder(base: Path) -> Path:
    """A folder of its own for each hand-in that was replaced: 1, 2, …"""
    folder = next(base / str(number) for number in count(1) if not (base / str(number)).exists())
    folder.mkdir(parents=True)
    return folder


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
