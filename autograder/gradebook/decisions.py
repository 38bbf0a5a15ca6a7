"""What instructors decide about marks: a question taken out for everybody, and a mark by hand for an earlier answer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from sqlalchemy import select, update

from ..data import Expected
from ..reading.course import EXCLUDED, Course
from ..text import composed
from .health_check import load_config
from .marks import Mark, read_marks
from .migration import ANSWERS, prepare


class NoDecision(Expected):
    """What was to be decided is not there, or not clear: one line with the remedy."""


def find_question(course: Course, name: str) -> tuple[str, str]:
    """(assignment, question) of a question by its name, or as UNIT/NAME. Raises NoDecision."""
    unit, _, short = name.rpartition("/")
    units = [course.find(unit)] if unit else [each for each in course.units() if course.has(each)]
    found = [each for each in units if short in course.assignment(each).points]
    if len(found) > 1:
        raise NoDecision(f"{short!r} is a question of {' and '.join(found)}; name it as {found[0]}/{short}")
    if not found:
        every = [question for each in units for question in course.assignment(each).points]
        raise NoDecision(f"no question is called {short!r}; there are {', '.join(every)}")
    return found[0], short


def exclude(course: Course, unit: str, name: str, undo: bool = False) -> bool:
    """Take a question out of the marks for everybody, or put it back; returns whether that changes anything."""
    excluded = course.excluded()
    names = excluded.setdefault(unit, [])
    if (name in names) != undo:
        return False
    if undo:
        names.remove(name)
    else:
        names.append(name)
    path = course.root / EXCLUDED
    path.parent.mkdir(exist_ok=True)
    aside = path.with_suffix(f".{os.getpid()}.part")
    aside.write_text(json.dumps({each: found for each, found in excluded.items() if found}, indent=1) + "\n")
    os.replace(aside, path)
    return True


@dataclass(frozen=True)
class ByHand:
    """A mark by hand: whose, where, and the mark."""

    student: str
    unit: str
    name: str
    mark: Mark

    def line(self) -> str:
        judged = "not judged" if self.mark.auto is None else f"judged {self.mark.auto:g}"
        extra = f", {self.mark.extra:+g} extra" if self.mark.extra else ""
        given = f"by hand {self.mark.manual:g}" if self.mark.manual is not None else "not marked by hand"
        words = "; given for ANOTHER answer than the one handed in now" if self.mark.outdated else ""
        return f"{self.student}, {self.unit}, {self.name}: {given}{extra}, {judged}, of {self.mark.points:g}{words}"


def by_hand(course: Course, units: Sequence[str] = (), student: str = "", name: str = "") -> Iterator[ByHand]:
    """All marks by hand, by unit and student."""
    for (unit, who), marks in read_marks(course.root).items():
        if (units and unit not in units) or (student and composed(who) != composed(student)):
            continue
        names = {q.cell: q.name for q in course.assignment(unit).questions} if unit in course.units() else {}
        for cell, mark in marks.by_cell.items():
            short = names.get(cell, cell)
            if (mark.by_hand or mark.outdated) and name in ("", short):
                yield ByHand(who, unit, short, mark)


def decide(root: Path, found: Sequence[ByHand], keep: bool) -> None:
    """Of marks by hand that were given for another answer: keep them, or let the judge's mark count."""
    settings = CourseDirectory(config=load_config(root))
    with Gradebook(settings.db_url, settings.course_id) as gradebook:
        prepare(gradebook)
        for entry in found:
            place = (
                ANSWERS.c.unit == entry.unit,
                ANSWERS.c.student == entry.student,
                ANSWERS.c.cell == entry.mark.cell,
            )
            grade = gradebook.find_grade(entry.mark.cell, entry.unit, entry.unit, entry.student)
            if keep:
                grade.needs_manual_grade = False
                recorded = gradebook.db.execute(select(ANSWERS.c.recorded).where(*place)).scalar()
                gradebook.db.execute(update(ANSWERS).where(*place).values(marked=recorded))
            else:
                grade.manual_score = grade.extra_credit = None
                grade.needs_manual_grade = grade.auto_score is None
                gradebook.db.execute(update(ANSWERS).where(*place).values(marked=None))
        gradebook.db.commit()
