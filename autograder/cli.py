"""The commands. Each returns an exit status: 0 it worked, 2 unusable arguments or input, 1 something of ours failed."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import __version__
from .command_course import course as _course
from .command_course import course_if_any, say_which, which_course
from .expected import Expected
from .text import counted, printable
from .trouble import explained

if TYPE_CHECKING:
    from .course import Course
    from .jobs import Graded

GRADED, FAILED, UNUSABLE = 0, 1, 2


class Unusable(Expected):
    """Arguments or input that a person must mend: one line with the remedy."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        if arguments is None and options.run in (_grade, _doctor):
            with contextlib.suppress(ImportError):  # `doctor` says what is missing, and `grade` cannot go on
                from .sandbox import claim

                claim()  # not when called from within a program, which it might start again
        _name_units(options)
        status = options.run(options)
        say_which(options)
        return status
    except KeyboardInterrupt:
        kept = "; what was graded so far is kept" if options.run is _grade else ""
        print(f"autograder: stopped{kept}", file=sys.stderr)
        say_which(options)
        return 130
    except BrokenPipeError:
        return FAILED
    except Exception as error:
        if os.environ.get("AUTOGRADER_DEBUG"):
            raise
        line, fault = explained(error), None
        if line is None:
            line = f"{type(error).__name__}: {' '.join(str(error).split())}"
            fault = "this is a fault of ours; AUTOGRADER_DEBUG=1 shows where"
        else:
            which = which_course(options)
            line += f" ({which})" if which and str(options.root) not in line else ""
        for said in filter(None, (line, fault)):
            print(f"autograder: {said}", file=sys.stderr)
        return FAILED if fault else UNUSABLE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="autograder", description="Grades the exercises of the attention course.")
    parser.add_argument("--version", action="version", version=f"autograder {__version__}")
    parser.add_argument("--course", type=Path, help="the course folder; default: found from where you are")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    check = commands.add_parser("check", help="grade your own notebook(s), and say what is next; no gradebook")
    none = "a file, or a unit's name or number; default: all units in this folder, or else in notebooks/"
    check.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help=none)
    check.add_argument("--json", action="store_true", help="print a list of verdicts and nothing else")
    check.set_defaults(run=_check, alone=True)

    grade = commands.add_parser("grade", help="grade grading/submitted/ in the sandbox")
    grade.add_argument("units", nargs="*", metavar="UNIT")
    grade.add_argument("--student", metavar="ID", help="only this student")
    grade.add_argument("--workers", type=int, metavar="N", help="how many submissions at a time; default: the cores")
    grade.add_argument("--scheduler", metavar="ADDRESS", help="have the work done by the workers of a Dask scheduler")
    again = "grade again what has not changed since it was graded"
    grade.add_argument("--force", action="store_true", help=again)
    grade.add_argument("--unsafe", action="store_true", help="without a sandbox: only for people you trust")
    grade.add_argument("--json", action="store_true", help="print a list of verdicts and nothing else")
    grade.set_defaults(run=_grade)

    release = commands.add_parser("release", help="make notebooks/ from solutions/")
    release.add_argument("units", nargs="*", metavar="UNIT")
    release.add_argument("--check", action="store_true", help="only say whether they agree")
    release.set_defaults(run=_release)

    report = commands.add_parser("report", help="the class at a glance")
    report.add_argument("units", nargs="*", metavar="UNIT")
    report.add_argument("--json", action="store_true", help="print it as JSON, and write no files")
    report.add_argument("--out", type=Path, metavar="FOLDER", help="for the page and its tables; grading/report/")
    report.set_defaults(run=_report)

    collect = commands.add_parser("collect", help="submissions from Canvas, Moodle or a folder")
    collect.add_argument("unit", metavar="UNIT")
    collect.add_argument("source", type=Path, metavar="ZIP", help="the download of all submissions, or a folder")
    collect.add_argument("--roster", type=Path, metavar="CSV", help="the system's list of students, for their IDs")
    collect.set_defaults(run=_collect)

    bundle = commands.add_parser("bundle", help="an archive for students: notebooks and what starts them")
    bundle.add_argument("units", nargs="*", metavar="UNIT")
    bundle.add_argument("--out", type=Path, metavar="FILE", help=".zip or .tar.gz; default: in grading/bundle/")
    bundle.set_defaults(run=_bundle, alone=True)

    export = commands.add_parser("export", help="the gradebook's marks as a CSV file for Canvas or Moodle")
    export.add_argument("units", nargs="*", metavar="UNIT")
    export.add_argument("--format", required=True, choices=("canvas", "moodle"))
    export.add_argument("--roster", type=Path, metavar="CSV", help="the system's list of students, to be filled in")
    export.add_argument("--out", type=Path, metavar="FILE", help="default: grading/report/FORMAT.csv")
    export.add_argument("--anyway", action="store_true", help="though marks are waiting, too high or out of date")
    export.set_defaults(run=_export)

    feedback = commands.add_parser("feedback", help="make the feedback pages anew, without judging")
    feedback.add_argument("units", nargs="*", metavar="UNIT")
    feedback.add_argument("--student", metavar="ID", help="only this student")
    feedback.set_defaults(run=_on_marks("feedback"))

    drop = commands.add_parser("drop", help="take a question out of the marks, for everybody")
    drop.add_argument("question", metavar="NAME", help="its name, or UNIT/NAME")
    drop.add_argument("--back", action="store_true", help="put it back, with the marks that it had")
    drop.set_defaults(run=_on_marks("drop"))

    marks = commands.add_parser("marks", help="marks by hand, and what to do where the answer has changed since")
    marks.add_argument("units", nargs="*", metavar="UNIT")
    marks.add_argument("--student", metavar="ID", default="", help="only this student's")
    marks.add_argument("--question", metavar="NAME", default="", help="only those of this question")
    decided = marks.add_mutually_exclusive_group()
    decided.add_argument("--keep", action="store_true", help="of those given for another answer: they count")
    decided.add_argument("--new", action="store_true", help="of those given for another answer: the judge's count")
    marks.set_defaults(run=_on_marks("marks"))

    doctor = commands.add_parser("doctor", help="what this machine has, and what mends what is missing")
    doctor.set_defaults(run=_doctor, alone=True, looks_on=True)
    return parser


def _name_units(options: argparse.Namespace) -> None:
    """Give units their whole names where a part was typed."""
    if getattr(options, "units", None):
        find = _known(options).find
        options.units = list(dict.fromkeys(map(find, options.units)))
    if "unit" in options:
        options.unit = _known(options).find(options.unit)


def _known(options: argparse.Namespace) -> Course:
    from .course import Course

    return Course(_course(options))


def _check(options: argparse.Namespace) -> int:
    from .check import check_notebooks, chosen, whose_judge

    root = course_if_any(options)
    found = check_notebooks(root, chosen(root, options.notebooks, Path.cwd()))
    if options.json:
        print(json.dumps([verdict.as_json(None) for item in found.checked for verdict in item.verdicts], indent=1))
    else:
        from .standing import print_standing

        print_standing(root, found.checked)
    judge = whose_judge(root, found.checked)
    options.said = bool(judge) or not found.checked  # what is refused names its file
    for line in [*found.problems, *found.remarks, *filter(None, [judge])]:
        print(f"autograder: {line}", file=sys.stderr)
    return UNUSABLE if found.problems else GRADED


def _grade(options: argparse.Namespace) -> int:
    from . import classroom
    from .following import follow
    from .marks import read_marks
    from .progress import progress
    from .report import MOST, print_report, problem_lines

    if options.workers is not None and options.workers < 1:
        raise Unusable("--workers takes a number from 1 up")
    root = _course(options)
    found = classroom.look_through(root, options.units, options.student)
    classroom.check_gradebook(root, to_write=True)
    run = classroom.Run(root, options.force, options.unsafe)
    with progress(len(found.notebooks)) as advance:
        graded = run.grade(found.notebooks, options.workers, options.scheduler, lambda item: advance(item.student))
    graded = follow(run.course, graded, read_marks(root))
    if options.json:
        print(json.dumps([entry for item in graded for entry in item.as_json()], indent=1))
    else:
        print_report([item for item in graded if item.verdicts], most=MOST)
        if options.unsafe:
            print("Graded WITHOUT a sandbox (--unsafe).")
        if run.unchanged:
            print(
                f"{run.unchanged} of {len(graded)} were graded before and have not changed (--force grades them again)."
            )
        if any(item.recorded for item in graded):
            print(f"Feedback pages: {root / 'grading' / 'feedback'}/STUDENT/UNIT/UNIT.html")
    for line in [*run.remarks, *problem_lines(graded), *_outdated(graded), *found.remarks, *found.closed]:
        print(f"autograder: {line}", file=sys.stderr)
    if any(item.fault for item in graded):
        return FAILED
    return UNUSABLE if found.closed else GRADED


def _outdated(graded: Sequence[Graded]) -> list[str]:
    """A line for each mark by hand that was given for another answer than the one handed in now."""
    remedy = "decide with `autograder marks --keep` or `autograder marks --new`"
    return [
        f"{printable(item.student)}: the mark by hand of {verdict.function} was given for another answer; {remedy}"
        for item in graded
        for verdict in item.verdicts
        if verdict.outdated
    ]


def _release(options: argparse.Namespace) -> int:
    from . import release

    root = _course(options)
    if options.check:
        different = release.out_of_step(root, options.units)
        for name in different:
            unit = name.split("/")[1]
            remedy = "run `make notebooks`" if unit.endswith(".ipynb") else f"run `make notebooks ARGS={unit}`"
            print(f"autograder: {name} is not what solutions/ gives; {remedy}", file=sys.stderr)
        return FAILED if different else GRADED
    changed = release.release(root, options.units)
    print(f"Released anew: {', '.join(changed)}." if changed else "notebooks/ is up to date.")
    return GRADED


def _report(options: argparse.Namespace) -> int:
    from .course import Course
    from .following import class_now, disagreements
    from .marks import read_marks
    from .report import mistakes, print_report, problem_lines

    root = _course(options)
    graded = class_now(root, options.units)
    if not graded:
        which = " ".join(options.units)
        what, command = (f"nothing of {which}", f" {which}") if which else ("nothing", "")
        raise Unusable(f"{what} has been graded yet; run `autograder grade{command}` first")
    if options.json:
        scores = [entry for item in graded for entry in item.as_json()]
        print(json.dumps({"verdicts": scores, "mistakes": mistakes(graded)}, indent=1))
    else:
        from .report_page import write_report
        from .summary import summarise

        print_report(graded)
        written = write_report(summarise(root, graded), options.out or root / "grading" / "report", root)
        print(f"The report as a page, and as tables: {', '.join(map(str, written))}")
        apart = disagreements(Course(root), read_marks(root), options.units)
        for line in [*problem_lines(graded), *_outdated(graded), *apart]:
            print(f"autograder: {line}", file=sys.stderr)
    return GRADED


def _collect(options: argparse.Namespace) -> int:
    from .collect import collect
    from .roster import read_roster

    root = _course(options)
    found = collect(root, options.unit, options.source, read_roster(options.roster) if options.roster else None)
    counts = f"{len(found.taken)} new or changed, {len(found.unchanged)} as before"
    print(f"{options.unit}: notebooks of {counted(len(found.taken) + len(found.unchanged), 'student')}: {counts}.")
    if found.replaced:
        print(f"What {counted(len(found.replaced), 'student')} had there before: {root / 'grading' / 'replaced'}")
    for line in [*found.notes, *found.problems]:
        print(f"autograder: {line}", file=sys.stderr)
    return UNUSABLE if found.problems else GRADED


def _bundle(options: argparse.Namespace) -> int:
    from .bundle import bundle

    root = _course(options)
    path = bundle(root, options.units, options.out or root / "grading" / "bundle" / "attention-course.zip")
    print(f"For students: {path}")
    return GRADED


def _export(options: argparse.Namespace) -> int:
    from .course import Course
    from .export import refusals, students, table, write
    from .roster import read_roster

    root = _course(options)
    course = Course(root)
    points = {unit: sum(course.assignment(unit).points.values()) for unit in course.units() if course.has(unit)}
    roster = read_roster(options.roster) if options.roster else None
    found = students(root, options.units)
    reasons = refusals(root, options.units)
    for reason in reasons:
        print(f"autograder: {printable(reason)}", file=sys.stderr)
    if reasons and not options.anyway:
        raise Unusable("nothing was exported, for the marks are not final; --anyway exports them as they are")
    made = table(options.format, found, points, options.units, roster)
    path = options.out or root / "grading" / "report" / f"{options.format}.csv"
    write(made.rows, path)
    print(f"Marks of {counted(made.students, 'student')}: {path}")
    for problem in [*made.notes, *made.problems]:
        print(f"autograder: {printable(problem)}", file=sys.stderr)
    return UNUSABLE if made.problems else GRADED


def _on_marks(name: str) -> Callable[[argparse.Namespace], int]:
    """A command on marks that are there: none of them judges."""

    def run(options: argparse.Namespace) -> int:
        from . import commands_on_marks

        return getattr(commands_on_marks, name)(_course(options), options)

    return run


def _doctor(options: argparse.Namespace) -> int:
    from .doctor import main as doctor

    return doctor(course_if_any(options))
