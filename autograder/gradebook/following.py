"""What counts for whom: the verdicts that were kept, with the marks that the gradebook has for them now.

The gradebook is the one truth about marks. People change it by hand, nbgrader's own commands write it too, and whatever
is shown of a class follows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..data import Graded, Question, Verdict
from ..grading.kept import kept
from ..reading.assignment import Assignment
from ..reading.course import Course
from .marks import Mark, Marks, read_marks

Found = Mapping[tuple[str, str], Marks]


def class_now(root: Path, units: Sequence[str] = ()) -> list[Graded]:
    """Every submission that has been graded, unit by unit, with the marks that count. Raises NoGradebook."""
    course, marks = Course(root), read_marks(root)
    found: list[Graded] = []
    for unit in units or course.units():
        judged = {item.student: item for item in kept(root, [unit])}
        students = {student for name, student in marks if name == unit and marks[name, student].by_cell}
        students |= {student for student, item in judged.items() if not item.recorded}
        items = [judged.get(student) or Graded(student, unit, []) for student in sorted(students)]
        found += follow(course, items, marks) if items else []
    return found


def follow(course: Course, graded: Iterable[Graded], marks: Found) -> list[Graded]:
    """The same submissions with the marks that count."""
    return [_followed(course.assignment(item.unit), item, marks.get((item.unit, item.student))) for item in graded]


def _followed(asked: Assignment, item: Graded, marks: Marks | None) -> Graded:
    if marks is None or (item.fault and not item.verdicts):
        return item
    judged = {verdict.function: verdict for verdict in item.verdicts}
    verdicts = [
        _verdict(asked.name, each, judged.get(each.name), marks.by_cell.get(each.cell)) for each in asked.questions
    ]
    return replace(item, verdicts=verdicts, penalty=marks.penalty)


def _verdict(unit: str, question: Question, judged: Verdict | None, mark: Mark | None) -> Verdict:
    if judged is None:
        words = "Not graded yet." if mark is None or mark.waiting else "Marked in the gradebook."
        judged = Verdict(unit, question.name, 1.0, 0.0, "waiting", None, words)
    if question.excluded:
        return replace(judged.worth(question, unit), message=f"Taken out of the marks. {judged.message}")
    if mark is None:
        return replace(judged.worth(question, unit), score=0.0, verdict="waiting")
    verdict = judged.verdict
    if verdict == "waiting" and not mark.waiting:  # a person has marked it, or there was nothing to mark
        verdict = "right" if mark.score >= mark.points else "wrong"
    return replace(
        judged.worth(question, unit),
        points=mark.points,
        score=round(mark.score, 2),
        verdict=verdict,
        by_hand=mark.by_hand,
        outdated=mark.outdated,
    )


def disagreements(course: Course, marks: Found, units: Sequence[str] = ()) -> Iterator[str]:
    """Where the gradebook is not what the course asks: a line with the remedy for each unit of which that is so."""
    for unit in dict.fromkeys(unit for unit, _ in marks if not units or unit in units):
        if unit not in course.units():
            yield f"{unit}: in the gradebook, and no assignment of this course any more"
            continue
        asked = {
            question.cell: question.points for question in course.assignment(unit).questions if not question.excluded
        }
        behind = [
            student
            for (name, student), found in marks.items()
            if name == unit and {cell: mark.points for cell, mark in found.by_cell.items()} != asked
        ]
        if behind:
            remedy = f"run `autograder grade {unit}`"
            yield f"{unit}: the gradebook has other questions or points than the notebook; {remedy}"


__all__ = ["class_now", "disagreements", "follow"]
