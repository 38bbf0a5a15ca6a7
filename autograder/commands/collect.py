"""Implements `autograder collect`, which takes submissions from a learning-management system."""

from __future__ import annotations

import argparse
import sys

from ..lms.collect_submissions import collect
from ..lms.lms_files import read_roster
from ..safe_text import counted
from .command_helpers import GRADED, UNUSABLE
from .command_helpers import course as course_folder


def run(options: argparse.Namespace) -> int:
    """Put the submissions where `grade` finds them."""
    root = course_folder(options)
    found = collect(root, options.unit, options.source, read_roster(options.roster) if options.roster else None)
    counts = f"{len(found.taken)} new or changed, {len(found.unchanged)} as before"
    print(f"{options.unit}: notebooks of {counted(len(found.taken) + len(found.unchanged), 'student')}: {counts}.")
    if found.replaced:
        print(f"What {counted(len(found.replaced), 'student')} had there before: {root / 'grading' / 'replaced'}")
    for line in [*found.notes, *found.problems]:
        print(f"autograder: {line}", file=sys.stderr)
    return UNUSABLE if found.problems else GRADED
