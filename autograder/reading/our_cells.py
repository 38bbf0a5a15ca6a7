"""What a release holds, by the marks by which its cells are known in a student's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nbformat import NotebookNode

from ..data import TESTS
from .assignment import EXCLUDED_TAG, questions_of
from .submission import Cell

#: What a cell of a student's file is. "extra" has no name; the others are named by their `grade_id`, "ours" by its id.
ANSWER, WORDS, TASK, OURS, EXTRA = "answer", "words", "task", "ours", "extra"
Role = tuple[str, str]


@dataclass
class OurCells:
    """The cells of a release.

    answers: code answers -> what they were handed out as; words: those in Markdown; tasks: the tasks.
    code: the id of every other code cell -> its source. tests: the ids of test cells among them -> their `grade_id`.
    own_tests: the `grade_id` of tests that are no exercise of the course. by_hand: answers that a person marks.
    """

    answers: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)
    tests: dict[str, str] = field(default_factory=dict)
    own_tests: frozenset[str] = frozenset()
    by_hand: frozenset[str] = frozenset()
    _marked: dict[str, Role] = field(default_factory=dict)
    _placed: dict[str, Role] = field(default_factory=dict)
    _said: dict[tuple[str, str], Role] = field(default_factory=dict)

    def role(self, cell: Cell) -> Role:
        """What a cell of a student's file is, by its mark, then its id, then its text."""
        found = self._marked.get(cell.grade_id or "")
        if found is None:
            found = self._placed.get(cell.identity or "")
            if (
                found
                and cell.grade_id is not None
                and not (found[0] in (OURS, WORDS, TASK) or found[1] in self.by_hand)
            ):
                found = None  # an answer to a function of another name; what a person marks may have been renamed
        if found is None:
            found = self._said.get((cell.kind, cell.source.strip()))
        turned = found is not None and found[0] == ANSWER and cell.kind != "code"
        return (EXTRA, "") if found is None or turned else found

    def role_of_ours(self, cell: NotebookNode) -> Role:
        """The same for a cell of the release itself."""
        return self._placed[cell.id]


def our_cells(release: NotebookNode, unit: str) -> OurCells:
    """The cells of the release of `unit`."""
    own = frozenset(q.cell for q in questions_of(unit, release) if q.kind == TESTS)
    hand = frozenset(
        _name(cell) for cell in release.cells if _marks(cell).get("solution") and _marks(cell).get("grade")
    )
    found = OurCells(own_tests=own, by_hand=hand)
    for cell in release.cells:
        name, role = _name(cell), (OURS, cell.id)
        if is_answer(cell):
            role = (ANSWER, name)
            found.answers[name] = cell.source
        elif _marks(cell).get("solution"):
            role = (WORDS, name)
            found.words[name] = cell.source
        elif _marks(cell).get("task"):
            role = (TASK, name)
            found.tasks[name] = cell.source
        elif cell.cell_type == "code":
            found.code[cell.id] = cell.source
            if is_test(cell):
                found.tests[cell.id] = name
        found._placed[cell.id] = role
        if name:
            found._marked[name] = role
        if role[0] in (OURS, TASK):
            found._said.setdefault((cell.cell_type, cell.source.strip()), role)
    return found


def is_answer(cell: NotebookNode) -> bool:
    """Whether it is a cell for code that is graded, by a test or by a person."""
    return cell.cell_type == "code" and bool(_marks(cell).get("solution"))


def is_test(cell: NotebookNode) -> bool:
    """Whether it is a test: one that is out of the marks is no less one."""
    graded = _marks(cell).get("grade") or EXCLUDED_TAG in cell.metadata.get("tags", [])
    named = _name(cell).startswith("test_")
    return cell.cell_type == "code" and not _marks(cell).get("solution") and bool(graded or named)


def _name(cell: NotebookNode) -> str:
    return str(_marks(cell).get("grade_id") or "")


def _marks(cell: NotebookNode) -> Mapping:
    return cell.metadata.get("nbgrader", {})
