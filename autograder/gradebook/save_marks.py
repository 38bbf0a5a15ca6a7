"""Saves marks in the gradebook through nbgrader's own step, and notes the answer that each manual mark was given for.

When a notebook is graded again, nbgrader flags every manual mark for another look. This step flags only those whose
answer has changed since the mark was given, because only a person can decide about them (marks.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import SaveAutoGrades
from sqlalchemy import insert, select, update

from .gradebook_migration import ANSWERS


class SaveMarks(SaveAutoGrades):
    """Replaces nbgrader's SaveAutoGrades, in a plain `nbgrader autograde` and in `autograder grade`."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        told = resources["nbgrader"]
        place = told["notebook"], told["assignment"], told["student"]
        with Gradebook(told["db_url"]) as gradebook:
            grades = gradebook.find_submission_notebook(*place).grades
            waited = {grade.name: grade.needs_manual_grade for grade in grades}
        nb, resources = super().preprocess(nb, resources)
        with Gradebook(told["db_url"]) as gradebook:
            _decide(gradebook, told["assignment"], told["student"], nb, waited, place)
        return nb, resources


def _decide(
    gradebook: Gradebook, unit: str, student: str, nb: NotebookNode, waited: Mapping[str, bool], place: tuple
) -> None:
    """Set for each mark whether a person has to look at it, and note the answer that it was given for."""
    database, answers = gradebook.db, answers_of(nb)
    query = select(ANSWERS).where(ANSWERS.c.unit == unit, ANSWERS.c.student == student)
    noted = {row["cell"]: row for row in database.execute(query).mappings()}
    new = []
    for grade in gradebook.find_submission_notebook(*place).grades:
        name, answer = grade.name, answers.get(grade.name, "")
        row, marked = noted.get(name), None
        if grade.manual_score is None and grade.cell.type == "TaskCell":
            grade.auto_score = None if answer else 0.0
        if grade.manual_score is None and not grade.extra_credit:
            grade.needs_manual_grade = grade.auto_score is None
        else:
            if row is None or row["recorded"] is None:
                marked = answer
            else:
                marked = (row["marked"] or row["recorded"]) if waited.get(name) else row["recorded"]
            grade.needs_manual_grade = marked != answer
        values = {"recorded": answer, "marked": marked}
        if row is None:
            new.append({"unit": unit, "student": student, "cell": name, **values})
        elif (row["recorded"], row["marked"]) != (answer, marked):
            where = (ANSWERS.c.unit == unit, ANSWERS.c.student == student, ANSWERS.c.cell == name)
            database.execute(update(ANSWERS).where(*where).values(**values))
    if new:
        database.execute(insert(ANSWERS), new)
    database.commit()


def answers_of(nb: NotebookNode) -> dict[str, str]:
    """Return graded cell -> a digest of the answer that it marks; "" for a task without an answer.

    A test cell `test_f` marks the answer cell `f`; another test cell marks the answers since the previous graded cell.
    A manually graded answer marks itself, and a task marks the student's cells below it.
    """
    sources = {_marks(cell).get("grade_id"): cell.source for cell in nb.cells if _marks(cell).get("solution")}
    found: dict[str, str] = {}
    since: list[str] = []
    task = ""
    below: dict[str, list[str]] = {}
    for cell in nb.cells:
        marks, name = _marks(cell), str(_marks(cell).get("grade_id", ""))
        if task and not marks and str(cell.get("id", "")).startswith("extra-"):
            below[task].append(cell.source)
            continue
        task = ""
        if marks.get("solution"):
            since.append(cell.source)
        if marks.get("task"):
            task, below[name] = name, []
        elif marks.get("grade"):
            own = sources.get(name.removeprefix("test_"))
            found[name] = _digest([own] if own is not None else since)
            since = []
    return {**found, **{name: _digest(cells) if cells else "" for name, cells in below.items()}}


def _marks(cell: NotebookNode) -> Mapping:
    return cell.metadata.get("nbgrader", {})


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
