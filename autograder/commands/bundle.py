"""`autograder bundle`: an archive for students."""

from __future__ import annotations

import argparse

from ..handout.bundle import bundle
from .shared import GRADED
from .shared import course as course_folder


def run(options: argparse.Namespace) -> int:
    """Write it."""
    root = course_folder(options)
    path = bundle(root, options.units, options.out or root / "grading" / "bundle" / "attention-course.zip")
    print(f"For students: {path}")
    return GRADED
