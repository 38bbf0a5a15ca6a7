"""Grading one's own notebooks: no gradebook, no sandbox, but a process of its own with limits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from .challenge import Challenge
from .grading import Course, grade_submission
from .judge import Verdict
from .sandbox import Limits, open_sandbox
from .submission import CodeCell, Transplanted, Unreadable, answer_names, read, transplant
from .units import unit_names


def check_notebooks(root: Path, paths: Sequence[Path]) -> tuple[list[Verdict], list[str]]:
    """The verdicts on all notebooks that can be read, and a line for each that cannot."""
    course, challenge = Course(root), Challenge()
    verdicts, problems, ready = [], [], []
    for path in paths:
        try:
            ready.append(_open(course, path))
        except Unreadable as error:
            problems.append(str(error))
    if ready:
        with open_sandbox(Limits(), unsafe=True) as sandbox:
            for submission in ready:
                verdicts += grade_submission(submission, challenge, sandbox)
    return verdicts, problems


def _open(course: Course, path: Path) -> Transplanted:
    cells = read(Path(os.path.realpath(path)))  # one's own notebook may be a link
    unit = _unit_of(course, cells, path)
    return transplant(cells, course.release(unit), unit, str(path))


def _unit_of(course: Course, cells: list[CodeCell], path: Path) -> str:
    """The unit whose answer cells the notebook holds most of; the file's name decides a tie."""
    marks = {mark for cell in cells for mark in (cell.grade_id, cell.identity) if mark}
    counts = {
        unit: (len(marks & set(answer_names(course.release(unit)))), unit == path.stem)
        for unit in unit_names()
        if course.has(unit)
    }
    best = max(counts, key=lambda unit: counts[unit], default="")
    if not best or not any(counts[best]):
        raise Unreadable(f"{path}: holds no answer cell of this course; is it the notebook of another course?")
    return best


def print_verdicts(verdicts: Sequence[Verdict]) -> None:
    """One line per exercise, and the words for those that are not right."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    colours = {"right": "green", "missing": "dim"}
    for unit in dict.fromkeys(verdict.unit for verdict in verdicts):
        rows = [verdict for verdict in verdicts if verdict.unit == unit]
        total, points = sum(verdict.score for verdict in rows), sum(verdict.points for verdict in rows)
        console.print(f"[bold]{unit}[/bold]  {total:g} of {points:g} points")
        for verdict in rows:
            colour = colours.get(verdict.verdict, "yellow")
            named = f" ({verdict.mistake})" if verdict.mistake else ""
            head = (
                f"  [{colour}]{verdict.verdict:9}[/{colour}] {verdict.function}  {verdict.score:g}/{verdict.points:g}"
            )
            console.print(head + escape(named))
            if verdict.verdict not in ("right", "missing"):
                console.print(f"            {escape(verdict.message)}")
