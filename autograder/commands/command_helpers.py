"""Holds what several commands share: the course folder they act on, a progress bar, exit statuses."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..course_folder import NoCourse, clone, course_of, find_course
from ..records import Expected, Graded
from ..safe_text import printable

GRADED, FAILED, UNUSABLE = 0, 1, 2


class Unusable(Expected):
    """Raised for arguments or input that a person must fix; the message is one line with the remedy."""


def outdated(graded: Sequence[Graded]) -> list[str]:
    """Return a line for each manual mark that was given for another answer than the one handed in now."""
    remedy = "decide with `autograder marks --keep` or `autograder marks --new`"
    return [
        f"{printable(item.student)}: the mark by hand of {verdict.function} was given for another answer; {remedy}"
        for item in graded
        for verdict in item.verdicts
        if verdict.outdated
    ]


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call with a name whenever one more is done. Shows nothing unless stderr is a terminal."""
    from tqdm import tqdm

    with tqdm(total=total, desc="grading", unit="notebook", file=sys.stderr, disable=not sys.stderr.isatty()) as bar:

        def advance(name: str) -> None:
            bar.set_postfix_str(printable(name)[:20], refresh=False)
            bar.update()

        yield advance


def course(options: argparse.Namespace) -> Path:
    """Return the course folder: the one named, or the nearest above. Raises NoCourse or OtherVersion."""
    root = course_if_any(options)
    if root is None:
        raise NoCourse("no course folder here; go to the folder that holds nbgrader_config.py, or name it by --course")
    return root


def course_if_any(options: argparse.Namespace) -> Path | None:
    """Return the same, or None.

    A command that doesn't need a course folder takes its first notebook's, or our own clone.
    """
    if "root" not in options:
        root, alone = find_course(options.course, Path.cwd()), "alone" in options
        if root is None and alone:
            root = course_of(getattr(options, "notebooks", ())) or clone()
        options.root = root
        if root and "looks_on" not in options:
            from ..reading.cell_roles import must_be_the_code_of

            must_be_the_code_of(root)
    return options.root


def which_course(options: argparse.Namespace) -> str:
    """Return words for the course folder that a command acts on; "" if the current folder is in it."""
    root = getattr(options, "root", None)
    return "" if root is None or root in (Path.cwd(), *Path.cwd().parents) else f"course folder: {root}"


def say_which(options: argparse.Namespace) -> None:
    """Print those words, once."""
    which = which_course(options)
    if which and not getattr(options, "said", False):
        print(f"autograder: {which}", file=sys.stderr)
    options.said = True
