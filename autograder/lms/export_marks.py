"""Writes the marks in nbgrader's gradebook as a CSV file that Canvas or Moodle takes.

These are the marks that count: with changes by hand, and minus the late penalties.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..gradebook.health_check import check_gradebook, load_config
from ..gradebook.marks import by_another_rule, disagreements, read_marks, read_names
from ..gradebook.submission_times import rule_digest
from ..grading.submitted_folder import HandedIn
from ..reading.course_contents import Course
from ..records import NotUsable
from ..safe_text import composed, csv_line, spreadsheet_safe
from .lms_files import FIRST, ID_COLUMNS, LAST, NAME_COLUMNS, NUMBER_COLUMNS, Person, Roster

CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
MOODLE = ("Username", "First name", "Last name", "Email address")
ONE_OF_THEM = (
    "Keep one: move the other's folder out of grading/submitted, then `nbgrader db student remove OTHER --force`"
)

#: Unit -> mark.
Marks = dict[str, float]
#: A row of the roster, or one made up if there is no roster, with its marks.
Marked = tuple[Person, Marks]


@dataclass(frozen=True)
class Student:
    """Holds one student of the gradebook."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    number: str = ""
    marks: Marks = field(default_factory=dict)


def students(root: Path, units: Sequence[str] = ()) -> list[Student]:
    """Return all students with a mark in one of the units (none named: in any). Raises NotUsable if nobody has one."""
    check_gradebook(root)
    known = units or Course(root).units()
    marks: dict[str, Marks] = defaultdict(dict)
    for (unit, student), found in read_marks(root).items():
        if unit in known and found.by_cell:
            marks[student][unit] = round(found.score, 2)
    if not marks:
        what = f"no marks of {' or '.join(units)} in the gradebook" if units else "nothing has been graded yet"
        raise NotUsable(f"{what}; run `autograder grade` first")
    names = read_names(root)
    return [Student(student, *names.get(student, ("",) * 4), marks[student]) for student in sorted(marks)]


def refusals(root: Path, units: Sequence[str], waiting: Sequence[HandedIn]) -> list[str]:
    """Return a line with the remedy for each reason why these marks are not final yet.

    waiting: submissions whose current version is not judged or recorded.
    """
    course, marks = Course(root), read_marks(root)
    wanted = {place: found for place, found in marks.items() if not units or place[0] in units}
    lines = list(disagreements(course, marks, units))
    otherwise = by_another_rule(root, rule_digest(load_config(root))) & wanted.keys()
    for unit in sorted({unit for unit, _ in otherwise} - {item.unit for item in waiting}):
        lines.append(f"{unit}: the marks were made by another rule for late work; run `autograder grade {unit}`")
    graded = {unit for unit, _ in wanted}  # units without marks are not exported
    for unit, number in Counter(item.unit for item in waiting if item.unit in graded).items():
        remedy = f"run `autograder grade {unit}`"
        are = "notebook is" if number == 1 else "notebooks are"
        lines.append(f"{unit}: {number} {are} new, or changed or got another deadline since they were graded; {remedy}")
    remedies = {"outdated": "decide with `autograder marks`", "waiting": "mark them in nbgrader's formgrader"}
    for kind, remedy in remedies.items():
        found = [
            f"{student} ({unit}, {mark.cell})"
            for (unit, student), each in wanted.items()
            for mark in each.by_cell.values()
            if getattr(mark, kind) and (kind == "outdated" or not mark.outdated)
        ]
        if found:
            what = "given by hand for another answer" if kind == "outdated" else "waiting for a person's mark"
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            lines.append(f"{what}: {', '.join(found[:3])}{more}; {remedy}")
    for (unit, student), each in wanted.items():
        for mark in each.by_cell.values():
            if (mark.manual or 0) > mark.points + 1e-9:
                what = f"{mark.manual:g} of {mark.points:g} points by hand for {mark.cell} of {unit}"
                lines.append(f"{student}: {what}; correct it in the formgrader")
        if each.score > each.points + 1e-9:
            lines.append(f"{student}: {each.score:g} of {each.points:g} points of {unit}; correct it in the formgrader")
    return lines


@dataclass
class Table:
    """Holds what to write. rows: the header first. students: how many have marks in it.

    problems: a line for each student whose marks are not in it. notes: lines about what the system will make of it.
    """

    rows: list[list[str]]
    students: int
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def table(
    kind: str,
    found: Sequence[Student],
    points: Mapping[str, float],
    units: Sequence[str],
    roster: Roster | None,
    zeros: bool = False,
) -> Table:
    """Return the marks in the form of one system; `points` are the total points of each unit. Raises NotUsable.

    zeros: whether those in the roster who handed in nothing have a row, with 0 for each unit.
    """
    units = [unit for unit in units or points if any(unit in student.marks for student in found)]
    problems: list[str] = []
    if roster is None:
        people = [(_canvas(student) if kind == "canvas" else _moodle(student), student.marks) for student in found]
        columns = list(CANVAS if kind == "canvas" else MOODLE)
    else:
        if roster.translated:
            what = "a worksheet whose titles are not in English, so that the column of grades is not known"
            raise NotUsable(f"{roster.path}: {what}; set Moodle to English and download it again")
        people = _matched(found, roster, problems)
        if zeros:
            marked = {id(person): marks for person, marks in people}
            nothing = dict.fromkeys(units, 0.0)
            everybody = [person for person in roster.people if not person.is_a_test]
            unmarked = [person for person in everybody if person.cell("Grade").strip() in ("", "-")]
            marked = {**{id(person): nothing for person in unmarked}, **marked}  # the system's own grades stay
            people = [(person, {**nothing, **marked[id(person)]}) for person in everybody if id(person) in marked]
        if kind == "moodle" and roster.has("Identifier", "Grade"):
            filled = sum(unit in marks for _, marks in people for unit in units)
            return Table(_worksheet(people, units, points, roster), filled, problems)
        known = {*ID_COLUMNS, *NUMBER_COLUMNS, *NAME_COLUMNS, *FIRST, *LAST, "Section"}
        wanted = {column.casefold() for column in known}
        columns = [column for column in roster.columns if column.casefold() in wanted]
    heads = [_assignment(unit, roster) for unit in units]
    rows: list[list[str]] = [[*columns, *heads]]
    if kind == "canvas":
        first = ["    Points Possible", *[""] * (len(columns) - 1)]
        rows.append([*first, *(f"{points[unit]:g}" for unit in units)])
    for person, marks in people:
        shown = [f"{marks[unit]:g}" if unit in marks else "" for unit in units]
        rows.append([*map(person.cell, columns), *shown])
    notes = [_unmatched(found, heads)] if kind == "canvas" and roster is None else []
    return Table(rows, len(people), problems, notes)


def _unmatched(found: Sequence[Student], heads: Sequence[str]) -> str:
    """Say what Canvas cannot match in a table that was made without Canvas's own list."""
    unknown = [student.id for student in found if not student.number]
    names, more = ", ".join(unknown[:3]), f" and {len(unknown) - 3} more" if unknown[3:] else ""
    people = f"{names}{more} by login alone, if these are logins, and " if unknown else ""
    remedy = "give its exported gradebook by --roster"
    return f"Canvas can match {people}{', '.join(heads)} with no assignment, so it makes a new one; {remedy}"


def _canvas(student: Student) -> Person:
    name = ", ".join(filter(None, (student.last_name, student.first_name))) or student.id
    return Person({"student": name, "id": student.number, "sis login id": "" if student.number else student.id})


def _moodle(student: Student) -> Person:
    columns = (column.casefold() for column in MOODLE)
    texts = (student.id, student.first_name, student.last_name, student.email)
    return Person(dict(zip(columns, texts, strict=True)))


def _matched(found: Sequence[Student], roster: Roster, problems: list[str]) -> list[Marked]:
    """Return the roster's rows that have marks, in its order. One person's work may be stored under several IDs."""
    by_number, by_id, by_name = defaultdict(set), defaultdict(set), defaultdict(set)
    for row, person in enumerate(roster.people):
        if person.is_a_test:
            continue
        if person.cell("ID"):  # In another assignment, Moodle gives the number to another student.
            by_number[person.number].add(row)
        for name in person.ids():
            by_id[name].add(row)
        for name in person.known_as():
            by_name[name].add(row)
    sure = {
        student.id: (student.number and by_number.get(student.number))
        or by_id.get(composed(student.id).casefold(), set())
        for student in found
    }
    taken = set().union(*sure.values())
    kept: dict[int, list[Student]] = defaultdict(list)
    for student in found:
        alike = by_name.get(composed(student.id).casefold(), set())
        rows = sure[student.id] or alike - taken
        if len(rows) == 1:
            kept[next(iter(rows))].append(student)
        elif alike & taken:  # not merged, because anybody can use another's name
            who = roster.people[min(alike & taken)]
            line = f"{student.id}: named like {who.name or who.id}, who has other work; not exported. {ONE_OF_THEM}"
            problems.append(line)
        else:
            why = f"fits {len(rows)} rows of" if rows else "not in"
            problems.append(f"{student.id}: {why} {roster.path}; not exported")
    people = []
    for row, students in sorted(kept.items()):
        marks, clashes = _merged(students)
        if clashes:
            person = roster.people[row]
            who = f"{', '.join(student.id for student in students)}: one person, {person.name or person.id}"
            problems.append(f"{who}, with different marks of {', '.join(clashes)}; not exported. {ONE_OF_THEM}")
        else:
            people.append((roster.people[row], marks))
    return people


def _merged(students: Sequence[Student]) -> tuple[Marks, list[str]]:
    """Return the marks of one person, and the units with different marks."""
    marks: Marks = {}
    clashes = []
    for student in students:
        for unit, mark in student.marks.items():
            if marks.setdefault(unit, mark) != mark:
                clashes.append(unit)
    return marks, sorted(set(clashes))


def _assignment(unit: str, roster: Roster | None) -> str:
    """Return the roster's own column of a unit, such as "03_masking (4711)", or else the unit. Raises NotUsable."""
    found = [column for column in roster.columns if unit.casefold() in column.casefold()] if roster else []
    exact = [column for column in found if re.fullmatch(rf"{re.escape(unit)}(?: \([0-9]+\))?", column, re.IGNORECASE)]
    if len(exact or found) > 1:
        names = ", ".join(exact or found)
        raise NotUsable(f"{roster.path}: which column is {unit}? ({names}); leave one of them in the file")
    return next(iter(exact or found), unit)


def _worksheet(people: Sequence[Marked], units: Sequence[str], points: Marks, roster: Roster) -> list[list[str]]:
    """Return Moodle's grading worksheet of one assignment with our grades filled in, scaled to Moodle's maximum."""
    if not roster.has("Maximum grade"):
        remedy = "download it again from Moodle, or take the column Grade out of a list that is none"
        raise NotUsable(f"{roster.path}: a grading worksheet without the column Maximum Grade; {remedy}")
    if len(units) != 1:
        raise NotUsable(f"{roster.path}: is the grading worksheet of one assignment; name its unit")
    unit, rows = units[0], [list(roster.columns)]
    marked = {id(person): marks for person, marks in people}
    for person in roster.people:
        marks = marked.get(id(person), {})
        row = [person.cell(column) for column in roster.columns]
        if unit in marks:
            try:
                cell = person.cell("Maximum grade")  # the last comma or point marks the decimals
                most = float(re.sub(r"[.,](?=.*[.,])", "", cell).replace(",", "."))
            except ValueError:
                most = points[unit]
            grade = f"{marks[unit] * most / points[unit] if points[unit] else 0:.2f}"
            heads = map(str.casefold, roster.columns)
            row = [grade if head == "grade" else cell for head, cell in zip(heads, row, strict=True)]
        rows.append(row)
    return rows


def write(rows: Sequence[Sequence[str]], path: Path) -> None:
    """Write a CSV file, whole or not at all, with no cell that is a formula. Raises NotUsable."""
    # Canvas marks its own row with these blanks at the start.
    safe = ([cell if cell.startswith("    Points") else spreadsheet_safe(cell) for cell in row] for row in rows)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text("".join(map(csv_line, safe)), encoding="utf-8", newline="")
        os.replace(aside, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        remedy = "name another place with --out, or make the folder yours"
        raise NotUsable(f"{path}: cannot be written ({error.strerror}); {remedy}") from None
