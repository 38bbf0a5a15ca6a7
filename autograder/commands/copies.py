"""Implements `autograder copies`, which lists answers that are alike for a person to look at."""

from __future__ import annotations

import argparse
import sys

from ..grading.similar_answers import find_copies
from ..lms.export_marks import write
from ..safe_text import counted, printable
from .command_helpers import GRADED, Unusable
from .command_helpers import course as course_folder


def run(options: argparse.Namespace) -> int:
    """Print which students are alike, and write a table of the pairs."""
    root = course_folder(options)
    if options.before and not (options.before / "grading" / "autograded").is_dir():
        raise Unusable(f"{options.before}: holds no graded class; name a course folder with grading/autograded in it")
    found = find_copies(root, options.units, options.before)
    if not found.students:
        raise Unusable("nothing has been graded yet; run `autograder grade` first")
    rows = [["unit", "one", "other", "same", "compared", "letter by letter", "exercises"]]
    for pair in found.pairs:
        numbers = map(str, (len(pair.shared), pair.compared, pair.letters))
        rows.append([pair.unit, pair.one, pair.other, *numbers, " ".join(pair.shared)])
    path = options.out or root / "grading" / "report" / "copies.csv"
    write(rows, path)
    for unit, names in found.groups():
        pairs = [pair for pair in found.pairs if pair.unit == unit and pair.one in names]
        least, most = (which(len(pair.shared) for pair in pairs) for which in (min, max))
        many = f"{most}" if least == most else f"{least} to {most}"
        letters = max(pair.letters for pair in pairs)
        said = f"; {letters} agree letter by letter" if letters else ""
        print(printable(f"{unit}: {', '.join(names)}: {many} of {pairs[0].compared} long answers are the same{said}"))
    print(
        f"{counted(found.students, 'student')} compared: {counted(len(found.pairs), 'pair')} alike, listed in {path}."
    )
    print("Names, comments and the order of lines were ignored. Look at the notebooks before you draw a conclusion.")
    for line in found.unread:
        print(f"autograder: {printable(line)}", file=sys.stderr)
    return GRADED
