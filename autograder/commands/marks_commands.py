"""Implements the commands that list existing marks or change what counts, and judge nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ..gradebook.class_run import Run
from ..gradebook.extensions import add_row, made, read_extensions
from ..gradebook.gradebook_writer import NoPage, Recorder, due_of
from ..gradebook.health_check import check_gradebook, load_config
from ..gradebook.marks import NoDecision, by_hand, decide, find_question, opened
from ..gradebook.marks import exclude as take_out
from ..gradebook.submission_times import zone_of
from ..grading import whole_class
from ..lms.lms_files import read_roster
from ..lms.return_feedback import send_back
from ..reading.course_contents import Course
from ..records import NotUsable
from ..safe_text import NO_ID, counted, is_student_id, printable
from .command_helpers import Unusable
from .command_helpers import course as course_folder


def feedback(options: argparse.Namespace) -> int:
    """Make the pages again, from what was judged and the current marks."""
    root = course_folder(options)
    if options.form and len(options.units) != 1:
        raise Unusable("--zip packs one unit; name it, as in `autograder feedback --zip canvas 3`")
    if (options.roster or options.out) and not options.form:
        raise Unusable("--roster and --out say where the pages of --zip go; add --zip canvas, moodle or mail")
    found = whole_class.look_through(root, options.units, options.student)
    check_gradebook(root, to_write=True)
    run, problems = Run(root), []
    left = run.settle(found.notebooks, again=True)
    with Recorder(root, run.course) as recorder:
        for item in left:
            try:
                recorder.show(item.unit, item.student)
            except NoPage as error:
                problems.append(str(error))
    pages = counted(len(found.notebooks) - len(problems), "feedback page")
    print(f"{pages}: {root / 'grading' / 'feedback'}/STUDENT/UNIT/UNIT.html")
    if left:
        are = "is" if len(left) == 1 else "are"
        remedy = "`autograder grade` judges what is new"
        problems.append(f"{counted(len(left), 'page')} {are} of what was graded before something changed; {remedy}")
    if options.form:
        (unit,) = options.units
        students = [item.student for item in found.notebooks if item.unit == unit]
        sent = send_back(
            root, unit, options.form, students, read_roster(options.roster) if options.roster else None, options.out
        )
        print(f"{counted(sent.count, 'page')} to send back: {', '.join(map(str, sent.paths))}")
        problems += sent.missing
    for line in [*run.remarks, *problems, *found.closed]:
        print(f"autograder: {printable(line)}", file=sys.stderr)
    return 2 if found.closed or (options.form and sent.missing) else 0


def extend(options: argparse.Namespace) -> int:
    """Give one student more time, and update what was graded."""
    root, student, unit = course_folder(options), options.student, options.unit
    zone = zone_of(load_config(root))
    extension = made(options.days, options.until, zone)
    if not is_student_id(student):
        raise Unusable(f"{printable(student)}: {NO_ID}")
    read_extensions(root, Course(root).find, zone)  # reports a mistake in the table before a row is added
    add_row(root, student, unit, options.days, options.until)
    _settle(root, [unit], student)
    with opened(root) as gradebook:
        due = due_of(gradebook, unit) if gradebook else None
    end = extension.end(due)
    print(
        f"{student} may hand in {unit} "
        + (f"until {end:%Y-%m-%d %H:%M} UTC." if end else f"{extension.days:g} days after it is due.")
    )
    if due is None:
        what = (
            f'{unit} has no due date yet; set it with: nbgrader db assignment add {unit} --duedate "2026-03-01 18:00"'
        )
        print(f"autograder: {what}", file=sys.stderr)
    elif not (root / "grading" / "submitted" / student / unit).is_dir():
        print(f"autograder: {student} has handed in nothing of {unit} yet; check that this is the ID", file=sys.stderr)
    return 0


def exclude(options: argparse.Namespace) -> int:
    """Exclude a question from everybody's marks, or restore it."""
    root = course_folder(options)
    unit, name = find_question(Course(root), options.question)
    if not take_out(Course(root), unit, name, options.undo):
        words = "is not out of the marks" if options.undo else "is out of the marks already"
        raise NoDecision(f"{unit}/{name} {words}")
    _settle(root, [unit])
    print(f"{unit}/{name} {'is back in' if options.undo else 'is out of'} the marks, for everybody.")
    return 0


def marks(options: argparse.Namespace) -> int:
    """List the manual marks, or decide about those that were given for another answer."""
    root = course_folder(options)
    found = list(by_hand(Course(root), options.units, options.student, options.question))
    if options.keep or options.new:
        found = [entry for entry in found if entry.mark.outdated]
        decide(root, found, options.keep)
        _settle(root, sorted({entry.unit for entry in found}))
        whose = "kept" if options.keep else "taken away; the judge's count"
        print(f"{counted(len(found), 'mark')} by hand, given for another answer: {whose}.")
        return 0
    for entry in found:
        print(printable(entry.line()))
    if not found:
        print("No mark was changed by hand.")
    return 0


def _settle(root: Path, units: Sequence[str], student: str = "") -> None:
    """Update gradebook and pages to what was decided, for submissions that have been judged."""
    for unit in units:
        try:
            handed = [item for item in whole_class.handed_in(root, [unit]) if student in ("", item.student)]
        except NotUsable:
            continue
        run = Run(root)
        left = run.settle(handed)
        new = [f"{unit}: new or changed since it was graded: {counted(len(left), 'notebook')}; run `autograder grade`"]
        for line in [*run.remarks, *(new if left else [])]:
            print(f"autograder: {printable(line)}", file=sys.stderr)
