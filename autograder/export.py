"""The marks in nbgrader's gradebook as a CSV file that Canvas or Moodle takes.

The marks are those that count: with what was changed by hand, and less the penalties for coming late.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .classroom import NotUsable, check_gradebook
from .roster import FIRST, ID_COLUMNS, LAST, NAME_COLUMNS, NUMBER_COLUMNS, Person, Roster
from .text import spreadsheet_safe
from .units import exercises, unit_names

CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
MOODLE = ("Username", "First name", "Last name", "Email address")


@dataclass(frozen=True)
class Student:
    """One student of the gradebook: unit -> mark."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    number: str = ""
    marks: dict[str, float] = field(default_factory=dict)


def students(root: Path, units: Sequence[str] = ()) -> list[Student]:
    """All students who have a mark in one of the units (none named: in any). Raises NotUsable where nobody has."""
    for unit in units:
        exercises(unit)  # raises UnknownUnit
    if not (root / "grading" / "gradebook.db").exists():
        raise NotUsable("nothing has been graded yet; run `autograder grade` first")
    check_gradebook(root)
    from nbgrader.api import Gradebook
    from nbgrader.coursedir import CourseDirectory

    from .nbgrader_plugin import load_config

    course = CourseDirectory(config=load_config(root))
    found = []
    with Gradebook(course.db_url, course.course_id) as gradebook:
        for student in gradebook.students:
            marks = {
                submission.name: max(0.0, submission.score - (submission.late_submission_penalty or 0.0))
                for submission in student.submissions
                if submission.name in (units or unit_names()) and submission.notebooks
            }
            names = (student.first_name or "", student.last_name or "", student.email or "", student.lms_user_id or "")
            if marks:
                found.append(Student(student.id, *names, marks))
    if not found:
        wanted = " or ".join(units) or "any unit"
        raise NotUsable(f"no marks of {wanted} in the gradebook; run `autograder grade` first")
    return sorted(found, key=lambda student: student.id)


def table(kind: str, found: Sequence[Student], units: Sequence[str], roster: Roster | None) -> tuple[list, list[str]]:
    """The rows of the file, the header first, and the IDs of students whom the roster does not have."""
    units = [unit for unit in units or unit_names() if any(unit in student.marks for student in found)]
    points = {unit: sum(exercise.points for exercise in exercises(unit).values()) for unit in units}
    if roster is None:
        people = [(_canvas(student) if kind == "canvas" else _moodle(student), student) for student in found]
        columns, missing = list(CANVAS if kind == "canvas" else MOODLE), []
    else:
        people, missing = _matched(found, roster)
        if kind == "moodle" and {"Identifier", "Maximum grade", "Grade"} <= set(roster.columns):
            return _worksheet(people, units, points, roster), missing
        known = {*ID_COLUMNS, *NUMBER_COLUMNS, *NAME_COLUMNS, *FIRST, *LAST, "Section"}
        columns = [column for column in roster.columns if column in known]
    heads = [_assignment(unit, roster) for unit in units]
    rows: list[list[str]] = [[*columns, *heads]]
    if kind == "canvas":
        first = ["    Points Possible", *[""] * (len(columns) - 1)]
        rows.append([*first, *(f"{points[unit]:g}" for unit in units)])
    for cells, student in people:
        marks = [f"{student.marks[unit]:g}" if unit in student.marks else "" for unit in units]
        rows.append([*(cells.get(column, "") for column in columns), *marks])
    return rows, missing


def _canvas(student: Student) -> dict[str, str]:
    name = ", ".join(filter(None, (student.last_name, student.first_name))) or student.id
    return {"Student": name, "ID": student.number, "SIS Login ID": "" if student.number else student.id}


def _moodle(student: Student) -> dict[str, str]:
    return dict(zip(MOODLE, (student.id, student.first_name, student.last_name, student.email), strict=True))


def _matched(found: Sequence[Student], roster: Roster) -> tuple[list[tuple[dict[str, str], Student]], list[str]]:
    """Each student beside the roster's row, by number or by any of the names."""
    people, missing = [], []
    for student in found:
        rows = [person for person in roster.people if _is(person, student)]
        if len(rows) == 1:
            people.append((rows[0].cells, student))
        else:
            missing.append(student.id)
    return people, missing


def _is(person: Person, student: Student) -> bool:
    names = person.known_as()
    if student.id.casefold() in names:
        return True
    # Moodle's number is one of an assignment, and another student's in the next.
    return "ID" in person.cells and bool(student.number) and person.number == student.number


def _assignment(unit: str, roster: Roster | None) -> str:
    """The roster's own column of a unit, such as "03_masking (4711)", where it has one."""
    return next((column for column in roster.columns if unit in column), unit) if roster else unit


def _worksheet(people: list, units: Sequence[str], points: dict[str, float], roster: Roster) -> list[list[str]]:
    """Moodle's grading worksheet of one assignment with its grades filled in, scaled to Moodle's maximum."""
    if len(units) != 1:
        raise NotUsable(f"{roster.path}: is the grading worksheet of one assignment; name its unit")
    unit, rows = units[0], [list(roster.columns)]
    for cells, student in people:
        try:
            most = float(cells.get("Maximum grade", "").replace(",", "."))
        except ValueError:
            most = points[unit]
        grade = f"{student.marks[unit] * most / points[unit]:.2f}"
        rows.append([grade if column == "Grade" else cells.get(column, "") for column in roster.columns])
    return rows


def write(rows: Sequence[Sequence[str]], path: Path) -> None:
    """Write a CSV file, whole or not at all; no cell of it is a formula."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    for row in rows:
        # The blanks at the start are Canvas's mark of its own row.
        writer.writerow([cell if cell.startswith("    Points") else spreadsheet_safe(cell) for cell in row])
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    aside.write_text(text.getvalue(), encoding="utf-8", newline="")
    os.replace(aside, path)
