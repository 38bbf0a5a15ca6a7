"""One open gradebook, lent to steps of nbgrader's that would each open their own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from nbgrader.api import (
    Assignment,
    Comment,
    Grade,
    Gradebook,
    MissingEntry,
    Notebook,
    SubmittedAssignment,
    SubmittedNotebook,
)
from sqlalchemy.orm import joinedload, selectinload, undefer

#: The modules that open a gradebook of their own.
BORROWERS = (
    "nbgrader.preprocessors.saveautogrades",
    "nbgrader.preprocessors.latesubmissions",
    "nbgrader.preprocessors.getgrades",
    "autograder.gradebook.save_marks",
)
Entry = TypeVar("Entry", Grade, Comment)


@contextmanager
def lent(gradebook: Gradebook) -> Iterator[Lender]:
    """Whoever would open a gradebook of their own is given `gradebook`, and cannot close it."""
    modules = [importlib.import_module(name) for name in BORROWERS]
    lender = Lender(gradebook)
    for module in modules:
        module.Gradebook = lambda *args, **kwargs: lender
    try:
        yield lender
    finally:
        for module in modules:
            module.Gradebook = Gradebook


class Lender:
    """The gradebook as a step sees it. A submission is read at once, with all its grades and comments."""

    def __init__(self, gradebook: Gradebook) -> None:
        self._gradebook = gradebook
        self._read: dict[tuple[str, str, str], SubmittedNotebook] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gradebook, name)

    def __enter__(self) -> Lender:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def forget(self) -> None:
        """What was changed since changes scores, which the database works out: read anew what is asked for next."""
        self._read.clear()

    def find_submission_notebook(self, notebook: str, assignment: str, student: str) -> SubmittedNotebook:
        place = (notebook, assignment, student)
        if place not in self._read:
            self._read[place] = _submission(self._gradebook, *place)
        return self._read[place]

    def find_grade(self, grade_cell: str, notebook: str, assignment: str, student: str) -> Grade:
        return self._entry(lambda found: found.grades, grade_cell, notebook, assignment, student)

    def find_comment(self, solution_cell: str, notebook: str, assignment: str, student: str) -> Comment:
        return self._entry(lambda found: found.comments, solution_cell, notebook, assignment, student)

    def _entry(self, kind: Callable[[SubmittedNotebook], list[Entry]], cell: str, *place: str) -> Entry:
        found: Mapping[str, Entry] = {entry.name: entry for entry in kind(self.find_submission_notebook(*place))}
        if cell not in found:
            raise MissingEntry(f"No such entry: {cell} of {place}")
        return found[cell]


def _submission(gradebook: Gradebook, notebook: str, assignment: str, student: str) -> SubmittedNotebook:
    database = gradebook.db
    database.flush()
    query = (
        database.query(SubmittedNotebook)
        .join(Notebook, Notebook.id == SubmittedNotebook.notebook_id)
        .join(SubmittedAssignment, SubmittedAssignment.id == SubmittedNotebook.assignment_id)
        .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
        .filter(Notebook.name == notebook, Assignment.name == assignment, SubmittedAssignment.student_id == student)
        .options(
            selectinload(SubmittedNotebook.grades).options(joinedload(Grade.cell), undefer(Grade.max_score)),
            selectinload(SubmittedNotebook.comments).joinedload(Comment.cell),
        )
        .populate_existing()
    )
    found = query.one_or_none()
    if found is None:
        raise MissingEntry(f"No such submitted notebook: {assignment}/{notebook} for {student}")
    return found
