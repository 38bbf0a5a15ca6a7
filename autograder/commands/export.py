"""Implements `autograder export`, which writes marks for Canvas or Moodle."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..gradebook.class_run import Run
from ..grading.submitted_folder import HandedIn
from ..grading.whole_class import handed_in
from ..lms.export_marks import refusals, students, table, write
from ..lms.lms_files import read_roster
from ..reading.course_contents import Course
from ..records import NotUsable
from ..safe_text import counted, printable
from .command_helpers import GRADED, UNUSABLE, Unusable
from .command_helpers import course as course_folder


def run(options: argparse.Namespace) -> int:
    """Write the marks if they are final or --anyway is given."""
    root = course_folder(options)
    course = Course(root)
    points = {unit: sum(course.assignment(unit).points.values()) for unit in course.units() if course.has(unit)}
    roster = read_roster(options.roster) if options.roster else None
    if options.zeros and roster is None:
        raise Unusable("--zeros needs --roster, which says who is in the class")
    found = students(root, options.units)
    reasons = refusals(root, options.units, _waiting(root, options.units))
    for reason in reasons:
        print(f"autograder: {printable(reason)}", file=sys.stderr)
    if reasons and not options.anyway:
        raise Unusable("nothing was exported, for the marks are not final; --anyway exports them as they are")
    made = table(options.format, found, points, options.units, roster, options.zeros)
    path = options.out or root / "grading" / "report" / f"{options.format}.csv"
    write(made.rows, path)
    print(f"Marks of {counted(made.students, 'student')}: {path}")
    for problem in [*made.notes, *made.problems]:
        print(f"autograder: {printable(problem)}", file=sys.stderr)
    return UNUSABLE if made.problems else GRADED


def _waiting(root: Path, units: Sequence[str]) -> list[HandedIn]:
    """Return the submissions whose current version is not judged or recorded."""
    try:
        return Run(root).waiting(handed_in(root, units))
    except NotUsable:
        return []
