"""Implements `autograder report`, which summarises the class."""

from __future__ import annotations

import argparse
import json
import sys

from ..gradebook.health_check import load_config
from ..gradebook.marks import class_now, disagreements, read_marks
from ..gradebook.submission_times import days_of_handing_in, zone_of
from ..grading.results_store import past
from ..pages.class_predictions import beliefs
from ..pages.class_summary import items, summarise
from ..pages.report import mistakes, print_report, problem_lines, write_report
from ..reading.course_contents import Course
from .command_helpers import GRADED, Unusable, outdated
from .command_helpers import course as course_folder


def run(options: argparse.Namespace) -> int:
    """Print the report, and write it as a page and as tables."""
    root = course_folder(options)
    graded = class_now(root, options.units)
    if not graded:
        which = " ".join(options.units)
        what, command = (f"nothing of {which}", f" {which}") if which else ("nothing", "")
        raise Unusable(f"{what} has been graded yet; run `autograder grade{command}` first")
    if options.json:
        scores = [entry for item in graded for entry in item.as_json()]
        believed = [belief.as_json() for belief in beliefs(root, graded)]
        analysed = [item.as_json() for item in items(summarise(root, graded))]
        told = {"verdicts": scores, "mistakes": mistakes(graded), "items": analysed, "predictions": believed}
        print(json.dumps(told, indent=1))
    else:
        print_report(graded)
        folder, runs = options.out or root / "grading" / "report", list(past(root))
        days = days_of_handing_in(root, graded, zone_of(load_config(root)))
        written = write_report(summarise(root, graded), folder, root, beliefs(root, graded), runs, days)
        print(f"The report as a page, and as tables: {', '.join(map(str, written))}")
        apart = disagreements(Course(root), read_marks(root), options.units)
        for line in [*problem_lines(graded), *outdated(graded), *apart]:
            print(f"autograder: {line}", file=sys.stderr)
    return GRADED
