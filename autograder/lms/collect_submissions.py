"""Collects submissions from a learning-management system's zip file, or its unpacked folder, into grading/submitted/.

It takes each student's one notebook of the unit, and never replaces one that can be graded by one that cannot.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from pathlib import Path

from nbformat import NotebookNode
from traitlets.config import Config

from ..gradebook.submission_times import local_time, zone_of
from ..grading.submitted_folder import NOTEBOOK, Said, fault_of, note, read_said, store
from ..reading.course_contents import Course
from ..reading.read_submission import read_file
from ..records import NotUsable, Unreadable
from ..running.grader_cpu_limit import Allowance, Overspent, undisturbed
from ..safe_text import composed, is_plain_text, printable, spelt
from .lms_files import (
    HANDED_IN,
    File,
    Person,
    Roster,
    Sender,
    files_in,
    plain_id,
    says_student_alone,
    sender_of,
    unpacked,
)

#: How many of a student's notebooks are read to find the right one.
NOTEBOOKS_CAP = 20
#: Canvas puts the number of a resubmitted file before the first dot of its name.
FIRST_DOT = re.compile(r"^([^.]*)-([0-9]{1,6})(?=\.)")
#: CPU time to find the right one: a notebook of the largest size takes a few seconds.
SECONDS_FOR_ONE = 15.0


class NotTaken(Exception):
    """Raised when a student's submission is not taken; the message is one line with the reason."""


@dataclass
class Collected:
    """Holds what became of the submissions, by students' IDs.

    taken: the notebook is new or changed. unchanged: it was there already. replaced: a different one was there.
    problems: lines about what a person must look at. notes: lines about what was decided.
    """

    taken: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    timeless: list[str] = field(default_factory=list)


def collect(root: Path, unit: str, source: Path, roster: Roster | None = None) -> Collected:
    """Put the notebooks of one unit where `autograder grade` looks for them. Raises NotUsable."""
    from ..gradebook.health_check import load_config

    config = load_config(root)
    place = _Place(root, unit, Course(root).release(unit), roster, zone_of(config))
    result = Collected()
    found = _by_sender(source, roster, result)
    there = _Class.of(root)
    people = {sender: _known(sender, roster, there) for sender in found}
    strangers = {sender for sender in found if roster and sender.number and not roster.by_number(sender.number)}
    if roster and strangers and len(strangers) == len(found):
        what = "is it of this course and assignment, and is that not of groups?"
        raise NotUsable(f"{roster.path}: has none of the numbers in {source}; {what}")
    for sender in [sender for sender in people if _is_a_test(sender, place.person(sender))]:
        people.pop(sender)
        result.notes.append(f"{printable(found[sender][0].name)}: not taken, it is of Canvas's Test Student")
    for sender in [sender for sender in people if (person := place.person(sender)) and _another(sender, person)]:
        who, remedy = people.pop(sender).name, f"if it is a group's, copy it to {place.of('MEMBER')} of each member"
        line = f"{found[sender][0].name}: not taken, number {sender.number} is {who} in {roster.path}; {remedy}"
        result.problems.append(printable(line))
    times = Counter(known.id for known in people.values())
    entered = []
    for sender, known in people.items():
        if times[known.id] > 1:
            result.problems.append(printable(f"{known.id} ({sender.number or sender.called}): {_two(sender)}"))
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
    _say_times(result)
    if roster and roster.translated:
        result.notes.append(f"{roster.path}: its titles are not in English, so that nobody's time or lateness is read")
    _enter(config, entered, result)
    return result


def _is_a_test(sender: Sender, person: Person | None) -> bool:
    return sender.lasting and (person.is_a_test if person else plain_id(sender.called) == "studenttest")


def _another(sender: Sender, person: Person) -> bool:
    """Return whether Moodle's file and worksheet name two people.

    They may, because a number may be a group's or come from another assignment. Moodle's older versions put the group's
    name before the student's. Canvas's number is always one person's.
    """
    called, name = _letters(sender.name), _letters(person.name)
    if sender.lasting or not called or not name:
        return False
    return not called.endswith(name) and sorted(called) != sorted(name)


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", name).casefold()))


def _two(sender: Sender) -> str:
    remedy = "tell them by --roster" if sender.number else "rename one of their folders"
    return f"two students have this name; {remedy}"


def _by_sender(source: Path, roster: Roster | None, result: Collected) -> dict[Sender, list[File]]:
    """Return the files of each student. Raises NotUsable if nothing looks like a download of submissions."""
    found: dict[Sender, list[File]] = {}
    files = list(files_in(source))
    plain = any(says_student_alone(file.name) for file in files if (file.is_notebook or file.is_zip))
    nameless: dict[Sender, list[File]] = {}
    for file in files:
        sender = sender_of(file.name, plain)
        if sender is None or not _can_be_called(sender, roster):
            if sender is not None:
                nameless.setdefault(sender, []).append(file)
            elif file.is_notebook:
                result.problems.append(f"{printable(file.name)}: its name does not say who handed it in")
        else:
            found.setdefault(sender, []).append(file)
    for sender, theirs in nameless.items():
        more = f" and {len(theirs) - 1} more" if sender.nobody and len(theirs) > 1 else ""
        result.problems.append(f"{spelt(theirs[0].name)}{more}: not taken, {_no_id(sender, roster)}")
    notebooks = any((file.is_notebook or file.is_zip) for files in found.values() for file in files)
    if not notebooks and not nameless and not any(sender.number for sender in found):
        raise NotUsable(f"{source}: no notebook of a student in it; is it the download of all submissions?")
    return found


def _can_be_called(sender: Sender, roster: Roster | None) -> bool:
    return is_plain_text(sender.called) and bool(_known(sender, roster, _Class()).id)


def _no_id(sender: Sender, roster: Roster | None) -> str:
    if sender.nobody:
        return sender.nobody
    if not is_plain_text(sender.called):
        return "the sender's name holds markup or letters that cannot be seen; rename it"
    if roster and sender.number:
        return f"the number {sender.number} alone says who it is, and {printable(str(roster.path))} does not have it"
    remedy = "give --roster, which says who it is" if sender.number else "rename the folder"
    return f"the sender's name has no letter to make an ID of; {remedy}"


@dataclass(frozen=True)
class _Class:
    """Holds who has handed in before. ids: all IDs, by their composed form. by_number: the IDs, by Canvas's numbers."""

    ids: Mapping[str, str] = field(default_factory=dict)
    by_number: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path) -> _Class:
        from ..gradebook.marks import read_names

        names, folder = read_names(root), root / "grading" / "submitted"
        ids = [*names, *(os.listdir(folder) if folder.is_dir() else ())]
        return cls(
            {composed(name): name for name in ids},
            {number: student for student, (*_, number) in names.items() if number},
        )


def _known(sender: Sender, roster: Roster | None, there: _Class) -> Sender:
    """Return the sender with the ID under which this person's work is already stored, or else the best one known."""
    person = roster.by_number(sender.number) if roster and sender.number else None
    kept = there.by_number.get(sender.number, "") if sender.lasting else ""
    if person is None:
        return replace(sender, id=kept or there.ids.get(sender.id, sender.id))
    kept = kept or next((there.ids[name] for name in person.ids() if name in there.ids), "")
    return replace(sender, id=kept or person.id, name=person.name)


@dataclass(frozen=True)
class _Place:
    """Says where the notebooks of one unit go, which release they belong to, and who is in the roster."""

    root: Path
    unit: str
    release: NotebookNode
    roster: Roster | None = None
    zone: tzinfo = UTC

    def person(self, student: Sender) -> Person | None:
        return self.roster.by_number(student.number) if self.roster and student.number else None

    def of(self, student: str) -> Path:
        return self.root / "grading" / "submitted" / student / self.unit / f"{self.unit}.ipynb"

    def fault(self, data: bytes, name: str) -> tuple[str, bool]:
        """Return why a file cannot be graded, or "", and whether it is an intact notebook of something else."""
        with undisturbed():  # another process reads the cells, and its message must not be interrupted
            return fault_of(data, name, self.unit, self.release)


def _take(place: _Place, student: Sender, files: Sequence[File], result: Collected) -> None:
    """Store one student's notebook. Raises NotTaken or Unreadable if the existing one stays as it is."""

    def chosen() -> tuple[File, bytes, str, bool]:
        file = _chosen(place, student, _notebooks(files, place.unit), result)
        content = file.read()
        return file, content, *place.fault(content, file.name)

    try:
        file, content, fault, foreign = Allowance(SECONDS_FOR_ONE).run(chosen)
    except Overspent:
        raise NotTaken(f"{files[0].name}: takes too long to read; ask for {place.unit}.ipynb alone") from None
    path = place.of(student.id)
    said, known = _said(place, student, file, result), read_said(path.parent)
    try:
        before = read_file(path)
    except Unreadable:
        before = None
    if fault and before != content:
        stays = before is not None and not place.fault(before, "")[0]
        if stays or foreign:
            raise NotTaken(f"{fault} (not taken{f': the earlier one of {student.id} stays' if stays else ''})")
    if known and before is not None and before != content and said.is_older(known):
        remedy = f"to have it all the same, copy it to {path.relative_to(place.root)}"
        raise NotTaken(f"{file.name}: not taken, it is older than what {student.id} has; {remedy}")
    if before == content:
        if known and said.is_older(known):
            said = replace(said, upload=known.upload, packed=known.packed)
        result.unchanged.append(student.id)
    else:
        try:
            replaced = store(place.root, path.parent, {path.name: content})
        except OSError as error:
            raise NotTaken(f"{path}: cannot be written ({error.strerror}); is the folder yours?") from None
        result.taken.append(student.id)
        if replaced:
            result.replaced.append(student.id)
    _note(place, student, said, result)
    if fault:
        result.problems.append(f"{fault} (taken as it is, without points)")


def _notebooks(files: Sequence[File], unit: str) -> list[File]:
    """Return the student's notebooks, or those in zip files if there are no others. Raises NotTaken without any."""
    found = [file for file in files if file.is_notebook]
    if found:
        return found
    inner = [each for file in files if file.is_zip for each in unpacked(file, unit)]
    found = [file for file in inner if file.is_notebook]
    if not found:
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        what = "a zip file in a zip file" if any(file.is_zip for file in inner) else "no notebook"
        raise NotTaken(f"{files[0].name}{more}: {what}; ask for {unit}.ipynb")
    return found


def _chosen(place: _Place, student: Sender, files: Sequence[File], result: Collected) -> File:
    """Return the one notebook, or the only one whose name or content is that of the unit. Raises NotTaken."""
    if len(files) == 1:
        return files[0]
    named = [file for file in files if place.unit in file.last.casefold()]
    if len(named) == 1:
        return named[0]
    attempts = _attempts(named or files) if student.lasting else []
    if attempts:
        return _last_good(place, student, attempts, result)
    ours = [file for file in named or files if len(files) <= NOTEBOOKS_CAP and not place.fault(file.read(), "")[0]]
    if len(ours) == 1:
        return ours[0]
    names, more = ", ".join(file.name for file in files[:3]), f" and {len(files) - 3} more" if len(files) > 3 else ""
    right = place.of(student.id).relative_to(place.root)
    raise NotTaken(f"{student.id}: several notebooks ({names}{more}); copy the right one to {right}")


def _attempts(files: Sequence[File]) -> list[File]:
    """Return the files, the last first, if their names differ only in the number that Canvas adds to a resubmission."""
    names, numbers = set(), []
    for file in files:
        end = NOTEBOOK.search(file.own)
        name = file.own[: end.start()].casefold() if end else ""
        inner = FIRST_DOT.search(name)
        names.add(inner[1] + name[inner.end() :] if inner else name)
        numbers.append(int((end and (end[1] or end[2])) or (inner and inner[2]) or 0))
    if len(names) > 1 or len(set(numbers)) < len(files):
        return []
    return [file for _, file in sorted(zip(numbers, files, strict=True), key=lambda pair: -pair[0])]


def _last_good(place: _Place, student: Sender, attempts: Sequence[File], result: Collected) -> File:
    """Return the last attempt that can be graded, or the last if none can, and note what was decided."""
    faults = []
    for file in attempts[:NOTEBOOKS_CAP]:
        try:
            fault, _ = place.fault(file.read(), file.name)
        except Unreadable as error:
            fault = str(error)
        if not fault:
            which = "the last that can be graded" if faults else "the last"
            result.problems += [f"{fault} (passed over for an earlier one of {student.id})" for fault in faults]
            result.notes.append(f"{student.id}: {len(attempts)} notebooks; took {which}, {printable(file.name)}")
            return file
        faults.append(fault)
    return attempts[0]


def _said(place: _Place, student: Sender, file: File, result: Collected) -> Said:
    """Return what the system itself says about when the submission came."""
    person = place.person(student)
    told = {"upload": file.upload, "packed": file.packed, "entry": file.entry}
    if student.lasting or person is None:
        by = "Canvas" if student.lasting else "Moodle" if student.number else ""
        return Said(by, file.late, **told)
    time, until = (local_time(words, place.zone) for words in (person.handed_in, person.extended))
    for words, read in ((person.handed_in, time), (person.extended, until)):
        result.timeless += [words] if words and not read else []
    return Said("Moodle", person.late, time, until, **told)


def _note(place: _Place, student: Sender, said: Said, result: Collected) -> None:
    """Store what the system said, and note who is late. Raises NotTaken."""
    folder = place.of(student.id).parent
    try:
        note(place.root, folder, said)
    except OSError as error:
        raise NotTaken(f"{folder}: when it came cannot be noted there ({error.strerror}); is it yours?") from None
    if said.late:
        result.late.append(student.id)


def _say_times(result: Collected) -> None:
    if result.late:
        names, more = ", ".join(result.late[:10]), f" and {len(result.late) - 10} more" if result.late[10:] else ""
        result.notes.append(f"late, as the system itself says: {names}{more}; lms.json beside the notebook keeps it")
    if result.timeless:
        words, what = printable(result.timeless[0]), f"{HANDED_IN} of {len(result.timeless)}"
        result.problems.append(f"{what} is no time that can be read, such as '{words}'; get the worksheet in English")


def _enter(config: Config, senders: list[Sender], result: Collected) -> None:
    """Note in the gradebook which number and name belong to an ID, because `autograder export` needs them."""
    from nbgrader.api import Gradebook
    from nbgrader.coursedir import CourseDirectory

    course = CourseDirectory(config=config)
    with Gradebook(course.db_url, course.course_id) as gradebook:
        for sender in senders:
            called = sender.name.replace('"', "”")  # as in: James "Jim" Anderson
            name = called if is_plain_text(called) else ""  # nbgrader's pages show it unescaped
            if name != called:
                result.problems.append(f"{sender.id}: the name in the roster holds markup; not entered as a name")
            first, _, last = name.rpartition(" ")
            number = sender.number if sender.lasting else ""
            known = {"lms_user_id": number, "first_name": first, "last_name": last}
            gradebook.update_or_create_student(sender.id, **{key: value for key, value in known.items() if value})
