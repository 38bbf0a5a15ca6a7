"""nbgrader's table of scores, written so that no spreadsheet runs what a name holds and no comma breaks a row."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from nbgrader.api import Assignment, Gradebook, MissingEntry, Student
from nbgrader.plugins import CsvExportPlugin

from ..text import csv_line, spreadsheet_safe

COLUMNS = (
    "assignment",
    "duedate",
    "timestamp",
    "student_id",
    "last_name",
    "first_name",
    "email",
    "raw_score",
    "late_submission_penalty",
    "score",
    "max_score",
)


class SafeCsvExport(CsvExportPlugin):
    """`nbgrader export` with the same columns and numbers; texts are quoted, and never begin as a formula does."""

    def export(self, gradebook: Gradebook) -> None:
        path = self.to or "grades.csv"
        rows = (COLUMNS, *self._rows(gradebook))
        safe = ([spreadsheet_safe("" if cell is None else str(cell)) for cell in row] for row in rows)
        try:
            with open(path, "w", newline="", encoding="utf-8") as file:
                file.writelines(csv_line(row, "\n") for row in safe)
        except OSError as error:
            self.log.error("%s: cannot be written (%s); name another place with --to", path, error.strerror)
            sys.exit(1)

    def _rows(self, gradebook: Gradebook) -> Iterator[tuple[Any, ...]]:
        wanted, units = {str(student) for student in self.student}, set(map(str, self.assignment))
        for assignment in gradebook.assignments:
            for student in gradebook.students:
                if (not units or assignment.name in units) and (not wanted or student.id in wanted):
                    yield _row(gradebook, assignment, student)


def _row(gradebook: Gradebook, assignment: Assignment, student: Student) -> tuple[Any, ...]:
    timestamp, raw, penalty = "", 0.0, 0.0
    try:
        submission = gradebook.find_submission(assignment.name, student.id)
        timestamp, raw, penalty = submission.timestamp, submission.score, submission.late_submission_penalty or 0.0
    except MissingEntry:
        pass
    person = (student.id, student.last_name, student.first_name, student.email)
    marks = (raw, penalty, max(0.0, raw - penalty), assignment.max_score)
    return (assignment.name, assignment.duedate, timestamp, *person, *marks)
