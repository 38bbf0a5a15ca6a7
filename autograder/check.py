"""Grading one's own notebooks: no gradebook, no sandbox, but a process of its own with limits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .challenge import Challenge
from .course import Course
from .grading import grade_submission
from .judge import Verdict
from .sandbox import Limits, open_sandbox
from .submission import Cell, Unreadable, read
from .text import printable
from .transplant import Transplanted, answer_names, transplant


@dataclass(frozen=True)
class Checked:
    """One notebook with its verdicts, in the order of the unit."""

    path: Path
    unit: str
    verdicts: list[Verdict]


def own_notebooks(root: Path, here: Path) -> list[Path]:
    """The units' notebooks in the folder `here` or its folders; where there is none, those of `root`/notebooks.

    Only a file with the name of its unit counts: copies and drafts beside it are left alone. Raises Unreadable.
    """
    units = Course(root).units()
    for folder in (here, root / "notebooks"):
        places = [place / f"{unit}.ipynb" for unit in units for place in (folder, folder / unit)]
        found = [path for path in places if path.is_file()]
        if found:
            return found
    raise Unreadable(f"no notebook of a unit in this folder or in {root / 'notebooks'}; name yours")


def check_notebooks(root: Path, paths: Sequence[Path]) -> tuple[list[Checked], list[str]]:
    """All notebooks that can be read with their verdicts, and a line for each that cannot."""
    course, challenge = Course(root), Challenge()
    checked, problems, ready = [], [], []
    for path in paths:
        try:
            ready.append((path, _open(course, path)))
        except Unreadable as error:
            problems.append(printable(str(error)))
    if ready:
        with open_sandbox(Limits.from_course(root), unsafe=True) as sandbox:
            for path, submission in ready:
                asked = course.assignment(submission.unit)
                verdicts = grade_submission(submission, asked, challenge, sandbox)
                checked.append(Checked(path, submission.unit, verdicts))
    return checked, problems


def _open(course: Course, path: Path) -> Transplanted:
    cells = read(Path(os.path.realpath(path)))  # one's own notebook may be a link
    unit = _unit_of(course, cells, path)
    return transplant(cells, course.release(unit), unit, str(path))


def _unit_of(course: Course, cells: list[Cell], path: Path) -> str:
    """The unit whose answer cells the notebook holds most of; the file's name decides a tie."""
    marks = {mark for cell in cells for mark in (cell.grade_id, cell.identity) if mark}
    counts = {
        unit: (len(marks & set(answer_names(course.release(unit)))), unit == path.stem)
        for unit in course.units()
        if course.has(unit)
    }
    best = max(counts, key=lambda unit: counts[unit], default="")
    if not best or not any(counts[best]):
        raise Unreadable(f"{path}: holds no answer cell of this course; is it the notebook of another course?")
    return best
