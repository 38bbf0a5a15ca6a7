"""Reads an assignment's questions from its notebook, each with the cell that carries its points.

Only the notebook defines them, with the points in that cell's metadata. A question is an exercise of the course, which
the grader knows; a test of the instructor's own, which is run; or an answer that a person marks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import nbformat
from nbformat import NotebookNode

from ..exercises import is_exercise
from ..records import EXERCISE, MANUAL, TASK, TESTS, BadAssignment, Question

#: Markdown that shows a picture attached to its cell.
PICTURE = re.compile(r"!\[[^\]]*\]\(attachment:[^)]*\)\s*")
#: Tag of a cell that is excluded from the marks.
EXCLUDED_TAG = "excluded"


@dataclass(frozen=True)
class Assignment:
    """Holds the questions of one unit, or of an assignment of the instructor's own, in the order of its notebook.

    release: the student's version, in which an excluded question carries no points. text: its file as it was read.
    """

    name: str
    text: str
    release: NotebookNode
    questions: tuple[Question, ...]
    _print: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def points(self) -> dict[str, float]:
        """Return question -> points."""
        return {question.name: question.points for question in self.questions}

    @property
    def exercises(self) -> list[str]:
        """Return the functions of the course's exercises, in order."""
        return [question.name for question in self.questions if question.kind == EXERCISE]

    def of_kind(self, *kinds: str) -> list[Question]:
        return [question for question in self.questions if question.kind in kinds]

    @property
    def fingerprint(self) -> str:
        """Return a digest of all that a verdict depends on. It leaves out an exercise's points, because verdicts are
        shares, and whether a question is excluded."""
        if not self._print:
            told = [(q.name, q.cell, q.kind, q.source, q.worth if q.kind == TESTS else 0) for q in self.questions]
            cells = [
                (cell.cell_type, cell.get("id"), _marks(cell).get("grade_id"), cell.source, tags)
                for cell in self.release.cells
                for tags in [[tag for tag in _tags(cell) if tag != EXCLUDED_TAG]]
                if cell.cell_type == "code" or _marks(cell)
            ]
            self._print.append(hashlib.sha256(repr((self.name, told, cells)).encode()).hexdigest())
        return self._print[0]


def our_notebook(text: str) -> NotebookNode:
    """Read a notebook of the course. nbformat validated it when it was made, and does so here only for an older format.

    Raises ValueError if the text is no notebook.
    """
    content = json.loads(text)
    if not isinstance(content, dict) or content.get("nbformat") != 4 or not isinstance(content.get("cells"), list):
        return nbformat.reads(text, as_version=4)
    return nbformat.v4.to_notebook_json(content)


def read_assignment(
    name: str, text: str, tests: Mapping[str, str] | None = None, excluded: Collection[str] = ()
) -> Assignment:
    """Return the assignment that a release notebook holds. Raises BadAssignment.

    text: the notebook file. tests: cell -> source of an own test with its hidden part. excluded: names of questions.
    """
    try:
        release = with_ids(our_notebook(text))
    except ValueError as error:
        words = " ".join(str(error).split())[:100]
        raise BadAssignment(f"notebooks/{name} cannot be read ({words}); run `autograder release {name}`") from None
    for cell in release.cells:
        if cell.pop("attachments", None):  # a unit's picture isn't stored with everybody's answers
            cell.source = PICTURE.sub("", cell.source)
        if cell.get("outputs"):
            cell.outputs = []
    found = []
    for question in questions_of(name, release):
        out = question.name in excluded
        source = (tests or {}).get(question.cell, question.source)
        points = 0.0 if out else question.points
        found.append(replace(question, points=points, source=source, excluded=out))
    take_out(release, {question.cell for question in found if question.excluded})
    return Assignment(name, text, release, tuple(found))


def take_out(notebook: NotebookNode, cells: Collection[str]) -> None:
    """Remove the points of these cells, and tag the cells as excluded."""
    for cell in notebook.cells:
        if _marks(cell).get("grade_id") in cells:
            marks = cell.metadata.nbgrader
            marks.update(grade=False, task=False, locked=not marks.solution)
            marks.pop("points", None)
            cell.metadata["tags"] = [*_tags(cell), EXCLUDED_TAG]


def with_ids(notebook: NotebookNode) -> NotebookNode:
    """Give cells of a notebook in an older format ids, the same each time; returns the notebook."""
    for index, cell in enumerate(notebook.cells):
        if not cell.get("id"):
            cell["id"] = re.sub(r"[^\w-]", "-", str(_marks(cell).get("grade_id") or f"cell-{index}"), flags=re.ASCII)[
                :64
            ]
    notebook.nbformat_minor = max(notebook.nbformat_minor, 5)
    return notebook


def questions_of(name: str, notebook: NotebookNode) -> list[Question]:
    """Return the questions of a release or a solution. Raises BadAssignment."""
    answers = {_marks(cell).get("grade_id") for cell in notebook.cells if _marks(cell).get("solution")}
    found: list[Question] = []
    for cell in notebook.cells:
        marks = _marks(cell)
        if not (marks.get("grade") or marks.get("task")):
            continue
        place = str(marks.get("grade_id"))
        kind, short = _kind(name, cell), place.removeprefix("test_")
        asked = kind == EXERCISE or (kind == TESTS and short in answers)
        try:
            points = float(marks.get("points", 0))
        except (TypeError, ValueError):
            raise BadAssignment(f"{name}: cell {place!r} has no number of points; give it one") from None
        if not 0 <= points < 1e6:
            raise BadAssignment(f"{name}: cell {place!r} is worth {points:g} points; give it a number from 0 up")
        source = cell.source if kind == TESTS else ""
        found.append(Question(short if asked else place, place, kind, points, source, worth=points))
    for words in (_twice([question.cell for question in found]), _twice([question.name for question in found])):
        if words:
            raise BadAssignment(f"{name}: two questions are called {words!r}; rename the cell of one")
    return found


def _kind(name: str, cell: NotebookNode) -> str:
    marks = _marks(cell)
    if marks.get("task"):
        return TASK
    if marks.get("solution"):
        return MANUAL
    place = str(marks.get("grade_id"))
    return EXERCISE if place.startswith("test_") and is_exercise(place[5:], name) else TESTS


def _twice(names: list[str]) -> str:
    return next((each for each in names if names.count(each) > 1), "")


def _marks(cell: NotebookNode) -> Mapping:
    return cell.metadata.get("nbgrader", {})


def _tags(cell: NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", []))


def solution_problems(name: str, solution: NotebookNode, release: Assignment) -> Iterator[str]:
    """Yield the differences, as far as they affect grading, between the instructor's notebook and its release."""
    mine = {q.cell: (q.kind, q.points) for q in questions_of(name, solution)}
    theirs = {q.cell: (q.kind, q.points) for q in questions_of(name, our_notebook(release.text))}
    for cell in [*mine, *(cell for cell in theirs if cell not in mine)]:
        if mine.get(cell) != theirs.get(cell):
            what = "is not in it yet" if cell not in theirs else "is gone" if cell not in mine else "has other points"
            yield f"{cell} {what}"
