"""`autograder release`: notebooks/ from solutions/."""

from __future__ import annotations

import argparse
import sys

from ..handout import release
from .shared import FAILED, GRADED
from .shared import course as course_folder


def run(options: argparse.Namespace) -> int:
    """Make the releases, or only compare them."""
    root = course_folder(options)
    if options.check:
        different = release.out_of_step(root, options.units)
        for name in different:
            unit = name.split("/")[1]
            remedy = "run `make notebooks`" if unit.endswith(".ipynb") else f"run `make notebooks ARGS={unit}`"
            print(f"autograder: {name} is not what solutions/ gives; {remedy}", file=sys.stderr)
        return FAILED if different else GRADED
    changed = release.release(root, options.units, lambda line: print(f"autograder: {line}", file=sys.stderr))
    print(f"Released anew: {', '.join(changed)}." if changed else "notebooks/ is up to date.")
    return GRADED
