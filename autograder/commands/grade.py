"""Implements `autograder grade`, which grades the class in the sandbox."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path

from ..running.limits import Limits
from ..running.sandbox import Sandbox, launched
from .command_helpers import FAILED, GRADED, UNUSABLE, Unusable, outdated, progress
from .command_helpers import course as course_folder


def run(options: argparse.Namespace) -> int:
    """Grade new and changed submissions."""
    if options.workers is not None and options.workers < 1:
        raise Unusable("--workers takes a number from 1 up")
    root = course_folder(options)
    with ExitStack() as stack:
        sandbox = None
        if options.scheduler is None and any((root / "grading" / "submitted").glob("*/*/")):
            sandbox = launched(root, options.units, Limits.from_course(root), options.unsafe)
            stack.callback(sandbox.stop)
        return _grade(options, root, sandbox)


def _grade(options: argparse.Namespace, root: Path, sandbox: Sandbox | None) -> int:
    # Import these only now, while the sandbox imports what it needs.
    from ..gradebook.class_run import Run
    from ..gradebook.health_check import check_gradebook
    from ..gradebook.marks import follow, read_marks
    from ..grading import whole_class
    from ..pages.report import MOST, print_report, problem_lines

    found = whole_class.look_through(root, options.units, options.student)
    check_gradebook(root, to_write=True)
    run = Run(root, options.force, options.unsafe)
    with progress(len(found.notebooks)) as advance:
        graded = run.grade(
            found.notebooks, options.workers, options.scheduler, lambda item: advance(item.student), sandbox
        )
    graded = follow(run.course, graded, read_marks(root))
    if options.json:
        print(json.dumps([entry for item in graded for entry in item.as_json()], indent=1))
    else:
        print_report([item for item in graded if item.verdicts], most=MOST)
        if options.unsafe:
            print("Graded WITHOUT a sandbox (--no-sandbox).")
        if run.unchanged:
            print(
                f"{run.unchanged} of {len(graded)} were graded before and have not changed (--force grades them again)."
            )
        if any(item.recorded for item in graded):
            print(f"Feedback pages: {root / 'grading' / 'feedback'}/STUDENT/UNIT/UNIT.html")
    for line in [*run.remarks, *problem_lines(graded), *outdated(graded), *found.remarks, *found.closed]:
        print(f"autograder: {line}", file=sys.stderr)
    if any(item.fault for item in graded):
        return FAILED
    return UNUSABLE if found.closed else GRADED
