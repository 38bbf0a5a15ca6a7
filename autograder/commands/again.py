"""Implements `autograder again`, which judges a disputed answer again on the inputs of its run."""

from __future__ import annotations

import argparse
import sys
import textwrap

from ..gradebook.marks import find_question
from ..grading.judge_again import judge_again
from ..grading.results_store import read_kept
from ..grading.whole_class import job_of, look_through
from ..reading.course_contents import Course
from ..running.limits import Limits
from ..safe_text import printable, visible
from .command_helpers import GRADED, Unusable
from .command_helpers import course as course_folder


def run(options: argparse.Namespace) -> int:
    """Print the old and the new verdict, and the first input that fails, for the instructor only."""
    root = course_folder(options)
    course = Course(root)
    unit, name = find_question(course, options.question)
    (item,) = look_through(root, [unit], options.student).notebooks
    if name not in course.assignment(unit).exercises:
        raise Unusable(f"{name}: is a question of your own, so it has no hidden inputs to judge again on")
    before = read_kept(root, unit, item.student)
    if before is None or not before.seed:
        raise Unusable(f"{item.student}: no run is noted that judged {unit}; run `autograder grade {unit}` first")
    job = job_of(course, item, int(before.seed), Limits.from_course(root), options.unsafe)
    if job.fingerprint != before.fingerprint:
        print("autograder: notebook, questions or judge have changed since that run", file=sys.stderr)
    again = judge_again(job, name)
    then = next((verdict for verdict in before.verdicts if verdict.function == name), None)
    for when, verdict in (("then", then), ("now", again.verdict)):
        if verdict is not None:
            print(printable(f"{when}: {verdict.verdict}, {verdict.share:.0%} of the points. {verdict.message}"))
    if again.label:
        print(
            f"\nThe first input that fails, “{printable(again.label)}” (seed {before.seed}). Students never see this:"
        )
    for label, text in again.shown:
        print(f"  {printable(label)}:\n{textwrap.indent(visible(text), '    ')}")
    return GRADED
