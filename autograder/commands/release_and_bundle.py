"""Implements `autograder release` and `bundle`: notebooks/ from solutions/, and an archive for students."""

from __future__ import annotations

import argparse
import sys

from ..handout import bundle as archive
from ..handout import release as releases
from .command_helpers import FAILED, GRADED
from .command_helpers import course as course_folder


def release(options: argparse.Namespace) -> int:
    """Make the releases, or only compare them with what is there."""
    root = course_folder(options)
    if options.check:
        different = releases.out_of_step(root, options.units)
        for name in different:
            unit = name.split("/")[1]
            remedy = "run `make notebooks`" if unit.endswith(".ipynb") else f"run `make notebooks ARGS={unit}`"
            sources = "solutions/ and attention_figures/helpers/"
            print(f"autograder: {name} is not what {sources} give; {remedy}", file=sys.stderr)
        return FAILED if different else GRADED
    changed = releases.release(root, options.units, lambda line: print(f"autograder: {line}", file=sys.stderr))
    print(f"Released again: {', '.join(changed)}." if changed else "notebooks/ is up to date.")
    return GRADED


def bundle(options: argparse.Namespace) -> int:
    """Write the archive for students."""
    root = course_folder(options)
    path = archive.bundle(root, options.units, options.out or root / "grading" / "bundle" / "attention-course.zip")
    print(f"For students: {path}")
    return GRADED
