"""The course folder that a command acts on, and what is said of it where one does not stand in it.

options: of the command line. `alone` is set where a command changes nothing in a course and may do without, `looks_on`
where it is to say what is wrong rather than to stop at it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..course_folder import NoCourse, clone, course_of, find_course


def course(options: argparse.Namespace) -> Path:
    """The course folder: the one named, or the nearest above. Raises NoCourse or OtherVersion."""
    root = course_if_any(options)
    if root is None:
        raise NoCourse("no course folder here; go to the folder that holds nbgrader_config.py, or name it by --course")
    return root


def course_if_any(options: argparse.Namespace) -> Path | None:
    """The same, or None. A command that may do without one takes that of its first notebook, or our own clone."""
    if "root" not in options:
        root, alone = find_course(options.course, Path.cwd()), "alone" in options
        if root is None and alone:
            root = course_of(getattr(options, "notebooks", ())) or clone()
        options.root = root
        if root and "looks_on" not in options:
            from ..reading.contract import must_be_the_code_of

            must_be_the_code_of(root)
    return options.root


def which_course(options: argparse.Namespace) -> str:
    """Words for the course folder that a command acts on; "" where one stands in it."""
    root = getattr(options, "root", None)
    return "" if root is None or root in (Path.cwd(), *Path.cwd().parents) else f"course folder: {root}"


def say_which(options: argparse.Namespace) -> None:
    """Print them, once."""
    which = which_course(options)
    if which and not getattr(options, "said", False):
        print(f"autograder: {which}", file=sys.stderr)
    options.said = True
