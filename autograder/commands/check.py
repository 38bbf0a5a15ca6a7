"""`autograder check`: one's own notebooks, without a gradebook."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ..text import printable
from .own_notebooks import check_notebooks, chosen, whose_judge
from .shared import GRADED, UNUSABLE, course_if_any


def run(options: argparse.Namespace) -> int:
    """Judge, and say what is next."""
    root = course_if_any(options)
    paths = chosen(root, options.notebooks, Path.cwd())
    if sys.stderr.isatty():  # a terminal, or a cell of a notebook: somebody is waiting
        what = paths[0].stem if len(paths) == 1 else f"{len(paths)} notebooks"
        print(f"autograder: judging {printable(what)} …", file=sys.stderr, flush=True)
    found = check_notebooks(root, paths)
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
