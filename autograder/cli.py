"""The commands. Each returns an exit status: 0 it worked, 2 unusable arguments or input, 1 something of ours failed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__

GRADED, FAILED, UNUSABLE = 0, 1, 2


class Unusable(Exception):
    """Arguments or input that a person must mend: one line with the remedy."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except KeyboardInterrupt:
        print("autograder: stopped; what was graded so far is kept", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return FAILED
    except Exception as error:
        if os.environ.get("AUTOGRADER_DEBUG"):
            raise
        expected = _is_expected(error)
        line = " ".join(str(error).split()) or type(error).__name__
        print(f"autograder: {line if expected else f'{type(error).__name__}: {line}'}", file=sys.stderr)
        if not expected:
            print("autograder: this is a fault of ours; AUTOGRADER_DEBUG=1 shows where", file=sys.stderr)
        return UNUSABLE if expected else FAILED


def _is_expected(error: Exception) -> bool:
    from .submission import Unreadable
    from .units import UnknownUnit

    names = {"NotUsable", "NoSandbox", "ReleaseFailed", "SchedulerLost", "BadLimits"}
    return isinstance(error, (Unusable, Unreadable, UnknownUnit, FileNotFoundError)) or type(error).__name__ in names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="autograder", description="Grades the exercises of the attention course.")
    parser.add_argument("--version", action="version", version=f"autograder {__version__}")
    parser.add_argument("--course", type=Path, help="the course folder; default: found from where you are")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    check = commands.add_parser("check", help="grade your own notebook(s); no gradebook")
    check.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    check.add_argument("--json", action="store_true", help="print a list of verdicts and nothing else")
    check.set_defaults(run=_check)

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
    report.add_argument("--json", action="store_true")
    report.set_defaults(run=_report)

    doctor = commands.add_parser("doctor", help="what this machine has, and what mends what is missing")
    doctor.set_defaults(run=_doctor)
    return parser


def _course(options: argparse.Namespace) -> Path:
    """The course folder: the one named, or the nearest above that holds nbgrader_config.py, or the package's own."""
    if options.course:
        if not (options.course / "nbgrader_config.py").is_file():
            raise Unusable(f"{options.course}: no course folder (nbgrader_config.py is not in it)")
        return options.course.resolve()
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[1]):
        if (folder / "nbgrader_config.py").is_file():
            return folder
    raise Unusable("no course folder here; go to the folder that holds nbgrader_config.py, or name it with --course")


def _check(options: argparse.Namespace) -> int:
    from .check import check_notebooks

    verdicts, problems = check_notebooks(_course(options), options.notebooks)
    if options.json:
        print(json.dumps([verdict.as_json(None) for verdict in verdicts], indent=1))
    else:
        from .check import print_verdicts

        print_verdicts(verdicts)
    for problem in problems:
        print(f"autograder: {problem}", file=sys.stderr)
    return UNUSABLE if problems else GRADED


def _grade(options: argparse.Namespace) -> int:
    from . import classroom
    from .progress import progress

    if options.workers is not None and options.workers < 1:
        raise Unusable("--workers takes a number from 1 up")
    root = _course(options)
    handed = classroom.handed_in(root, options.units, options.student)
    classroom.check_gradebook(root)
    run = classroom.Run(root, options.force, options.unsafe)
    with progress(len(handed)) as advance:
        graded = run.grade(handed, options.workers, options.scheduler, lambda item: advance(item.student))
    if options.json:
        print(json.dumps([entry for item in graded for entry in item.as_json()], indent=1))
    else:
        from .report import print_report

        print_report([item for item in graded if item.verdicts])
        if options.unsafe:
            print("Graded WITHOUT a sandbox (--unsafe).")
        if run.unchanged:
            print(
                f"{run.unchanged} of {len(graded)} were graded before and have not changed (--force grades them again)."
            )
        if any(item.recorded for item in graded):
            print(f"Feedback pages: {root / 'grading' / 'feedback'}/STUDENT/UNIT/UNIT.html")
    for item in graded:
        if item.problem:
            print(f"autograder: {item.student}: {item.problem}", file=sys.stderr)
        if item.fault:
            print(f"autograder: {item.student}: {item.fault}", file=sys.stderr)
    return FAILED if any(item.fault for item in graded) else GRADED


def _release(options: argparse.Namespace) -> int:
    from . import release
    from .units import exercises

    root = _course(options)
    for unit in options.units:
        exercises(unit)
    if options.check:
        different = release.out_of_step(root, options.units)
        for name in different:
            print(f"autograder: {name} is not what solutions/ gives; run `autograder release`", file=sys.stderr)
        return FAILED if different else GRADED
    changed = release.release(root, options.units)
    print(f"Released anew: {', '.join(changed)}." if changed else "notebooks/ is up to date.")
    return GRADED


def _report(options: argparse.Namespace) -> int:
    from . import classroom
    from .report import mistakes, print_report

    root = _course(options)
    graded = list(classroom.kept(root, options.units))
    if not graded:
        raise Unusable("nothing has been graded yet; run `autograder grade` first")
    if options.json:
        scores = [entry for item in graded for entry in item.as_json()]
        print(json.dumps({"verdicts": scores, "mistakes": mistakes(graded)}, indent=1))
    else:
        print_report(graded)
    return GRADED


def _doctor(options: argparse.Namespace) -> int:
    from .doctor import main as doctor

    return doctor()
