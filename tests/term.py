"""A term for tests: a course folder, generated students, and what each of them should have.

What is expected is kept here, by what was answered, marked and decided, and is read from none of our own files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell
from nbgrader.api import Gradebook

import warm
from autograder.cli import main
from autograder.gradebook import class_run

T = TypeVar("T")
ROOT = Path(__file__).parents[1]
UNITS = ("01_projections", "02_scaled_scores", "03_masking")
RIGHT, RUBBISH, BLANK, PARTLY = "right", "rubbish", "blank", "partly"
#: Answers that earn a part: the source, and the share of the points that the exercise's criteria give for it.
PARTS = {
    "soft_lookup": (
        "def soft_lookup(query, keys, values):\n    w = np.exp(keys @ query)\n    return w @ values / w.sum()",
        0.82,
    ),
    "softmax": (
        "def softmax(z, axis=-1):\n    e = np.exp(z)\n    return e / e.sum(axis=axis, keepdims=True)",
        0.775,
    ),
    "masked_softmax": (
        "def masked_softmax(scores, mask):\n"
        "    s = np.where(mask, scores, -np.inf)\n"
        "    w = np.exp(s - s.max(axis=-1, keepdims=True))\n"
        "    return w / w.sum(axis=-1, keepdims=True)",
        0.64,
    ),
}

#: A rule for late work, of which the penalty is to be filled in: "late_policy.Rule" where it lies in late_policy.py.
RULE = """\
from nbgrader.plugins import LateSubmissionPlugin


class Rule(LateSubmissionPlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        return {}
"""


@dataclasses.dataclass
class Asked:
    """One question: where its points stand, and how many they are. kind: exercise, tests, manual or task."""

    name: str
    cell: str
    points: float
    kind: str = "exercise"
    excluded: bool = False


@dataclasses.dataclass
class Due:
    """What one student should have of one unit: question -> (score, points), and what lateness costs."""

    marks: dict[str, tuple[float, float]]
    penalty: float = 0.0

    @property
    def score(self) -> float:
        return max(0.0, sum(score for score, _ in self.marks.values()) - self.penalty)

    @property
    def points(self) -> float:
        return sum(points for _, points in self.marks.values())


class Said(str):
    """What a command printed: all of it, and what stood on standard output alone."""

    out: str

    def __new__(cls, out: str, error: str) -> Said:
        said = super().__new__(cls, out + error)
        said.out = out
        return said


class Term:
    """The course folder of a class, and the account that the test keeps of it."""

    def __init__(self, root: Path, size: int, each_time: int, seed: int = 2026) -> None:
        """each_time: how many of the other places are compared with the gradebook after a step, in their turn."""
        self.root, self.each_time, self.draw = root, each_time, random.Random(seed)
        self.students = [f"s{number:02}" for number in range(1, size + 1)]
        self.address = f"sqlite:///{root / 'grading' / 'gradebook.db'}"
        shutil.copy(ROOT / "nbgrader_config.py", root)
        self.asked: dict[str, list[Asked]] = {}
        self.solved: dict[str, str] = {}
        #: (student, unit) -> question -> what was answered; what a person marks stays with the person.
        self.given: dict[tuple[str, str], dict[str, str]] = {}
        #: (student, unit, question) -> (score or None, extra credit)
        self.by_hand: dict[tuple[str, str, str], tuple[float | None, float]] = {}
        #: When each unit is due, when each notebook came, and what lateness costs, by the score.
        self.deadline: dict[str, str] = {}
        self.came: dict[tuple[str, str], str] = {}
        self.rule: Callable[[float], float] = nothing
        #: How often each unit's worksheet was filled in.
        self.sheets: Counter[str] = Counter()
        self.turn = 0
        #: What the last `autograder grade` judged anew.
        self.judged: list[tuple[str, str]] = []
        for unit in UNITS:
            for folder in ("solutions", "notebooks"):
                shutil.copytree(ROOT / folder / unit, root / folder / unit, ignore=shutil.ignore_patterns(".ipynb_*"))
            for cell in self.solution(unit).cells:
                marks = cell.metadata.get("nbgrader", {})
                if marks.get("solution"):
                    lines = [line for line in cell.source.splitlines() if "### " not in line]
                    self.solved[marks.grade_id] = "\n".join(lines)
                if marks.get("grade"):
                    name = marks.grade_id.removeprefix("test_")
                    self.asked.setdefault(unit, []).append(Asked(name, marks.grade_id, float(marks.points)))

    # ---- the course

    def path(self, folder: str, unit: str) -> Path:
        return self.root / folder / unit / f"{unit}.ipynb"

    def solution(self, unit: str) -> NotebookNode:
        return nbformat.read(self.path("solutions", unit), as_version=4)

    @contextmanager
    def edited(self, unit: str) -> Iterator[NotebookNode]:
        """The instructor's notebook, written back as JupyterLab does."""
        notebook = self.solution(unit)
        yield notebook
        nbformat.write(notebook, self.path("solutions", unit))

    def worth(self, unit: str, name: str, points: float) -> None:
        """Give a question other points as nbgrader's panel does: in the cell's metadata."""
        entry = self.entry(unit, name)
        with self.edited(unit) as notebook:
            cell_of(notebook, entry.cell).metadata.nbgrader.points = points
        entry.points = float(points)

    def asks(self, unit: str, name: str, cell: str, points: float, kind: str) -> None:
        """Note a question that was added at the end of a notebook."""
        self.asked.setdefault(unit, []).append(Asked(name, cell, points, kind))

    def entry(self, unit: str, name: str) -> Asked:
        return next(entry for entry in self.asked[unit] if entry.name == name)

    # ---- the class

    def generate(self, absent: float = 0.6) -> None:
        """Everybody answers: right, rubbish, nothing, and here and there a part. Some hand in no notebook of a unit."""
        for unit in UNITS:
            for place, student in enumerate(self.students):
                if place > 5 and self.draw.random() < absent:
                    continue
                answers = {}
                for entry in self.asked[unit]:
                    kinds = [RIGHT] * 5 + [RUBBISH, BLANK] + [PARTLY] * (3 * (entry.name in PARTS))
                    answers[entry.name] = self.draw.choice(kinds)
                self.hand_in(student, unit, **answers)

    def hand_in(self, student: str, unit: str, **answers: str) -> None:
        """Write a notebook; what is not named stays as it was, and is right at first."""
        before = self.given.get((student, unit), {})
        exercises = [entry.name for entry in self.asked[unit] if entry.kind == "exercise"]
        answers = {**dict.fromkeys(exercises, RIGHT), **before, **answers}
        self.given[student, unit] = answers
        notebook = nbformat.read(self.path("notebooks", unit), as_version=4)
        for cell in notebook.cells:
            marks = cell.metadata.get("nbgrader", {})
            if marks.get("solution") and marks.grade_id in answers:
                cell.source = self.written(marks.grade_id, answers[marks.grade_id]) or cell.source
        for entry in self.asked[unit]:
            if entry.kind == "task" and answers.get(entry.name, BLANK) != BLANK:
                place = notebook.cells.index(cell_of(notebook, entry.cell)) + 1
                notebook.cells.insert(place, new_markdown_cell(answers[entry.name], id="my-words"))
        path = self.root / "grading" / "submitted" / student / unit / f"{unit}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)

    def written(self, name: str, answer: str) -> str:
        """The source of an answer; "" where it is as it was handed out."""
        if answer == PARTLY:
            return PARTS[name][0]
        if answer in (RIGHT, RUBBISH):
            return self.solved[name] if answer == RIGHT else f'def {name}(*a, **k):\n    return "rubbish"'
        return "" if answer == BLANK else answer

    def stamp(self, student: str, unit: str, words: str) -> None:
        """Say when a notebook came, as in 2026-03-02 09:00 UTC."""
        self.came[student, unit] = words
        path = self.root / "grading" / "submitted" / student / unit / "timestamp.txt"
        path.write_text(words, encoding="utf-8")

    # ---- what is expected

    def in_turn(self, places: dict[str, T]) -> list[tuple[str, T]]:
        """The next places to be compared."""
        chosen = [list(places.items())[(self.turn + i) % len(places)] for i in range(min(self.each_time, len(places)))]
        self.turn += self.each_time
        return chosen

    def due(self) -> dict[tuple[str, str], Due]:
        """(unit, student) -> what should count."""
        found = {}
        for (student, unit), answers in self.given.items():
            marks = {entry.name: self._mark(student, unit, entry, answers) for entry in self.asked[unit]}
            due = Due({name: (0.0, 0.0) if mark is None else mark for name, mark in marks.items()})
            if self.came.get((student, unit), "") > self.deadline.get(unit, "9"):
                due.penalty = min(due.score, self.rule(due.score))
            found[unit, student] = due
        return found

    def _mark(self, student: str, unit: str, entry: Asked, answers: dict[str, str]) -> tuple[float, float] | None:
        if entry.excluded:
            return None
        answer = answers.get(entry.name, BLANK)
        share = PARTS[entry.name][1] if answer == PARTLY else float(answer == RIGHT)
        score = 0.0 if entry.kind in ("manual", "task") else round(share * entry.points, 2)
        manual, extra = self.by_hand.get((student, unit, entry.name), (None, 0.0))
        return (score if manual is None else manual) + extra, entry.points

    # ---- the commands

    def do(self, *words: str, status: int = 0) -> Said:
        """Run one of our commands in this process."""
        out, error = io.StringIO(), io.StringIO()
        sys.modules.pop("late_policy", None)  # each command is a process of its own
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            found = main(["--course", str(self.root), *words])
        said = Said(out.getvalue(), error.getvalue())
        assert found == status, f"autograder {' '.join(words)}: {found}\n{said[-3000:]}"
        assert "Traceback" not in said
        return said

    def grade(self, *words: str, status: int = 0) -> Said:
        """`autograder grade`; what was judged anew is in `judged`."""
        whole, self.judged = class_run.grade_class, []

        def noted(root: Path, handed: list, *rest: object) -> list:
            self.judged += [(item.student, item.unit) for item in handed]
            return whole(root, handed, *rest)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(class_run, "grade_class", noted)
            return self.do("grade", "--workers", "2", *words, status=status)

    def nbgrader(self, *words: str, status: int = 0) -> Said:
        """Run one of nbgrader's, as an instructor does in the course folder."""
        done = warm.command(self.root, "nbgrader", *words)
        assert done.returncode == status, f"nbgrader {' '.join(words)}: {done.stderr[-3000:]}"
        return Said(done.stdout, done.stderr)

    def gradebook(self) -> Gradebook:
        return Gradebook(self.address, "attention")

    def mark(self, student: str, unit: str, name: str, score: float | None, extra: float | None = None) -> None:
        """Enter a mark as the formgrader's GradeHandler does."""
        with self.gradebook() as book:
            grade = book.find_grade(self.entry(unit, name).cell, unit, unit, student)
            grade.manual_score, grade.extra_credit = score, extra
            grade.needs_manual_grade = grade.manual_score is None and grade.auto_score is None
            book.db.commit()
        self.by_hand[student, unit, name] = (score, extra or 0.0)

    def comment(self, student: str, unit: str, cell: str, words: str) -> None:
        """Enter a comment as the formgrader's CommentHandler does."""
        with self.gradebook() as book:
            book.find_comment(cell, unit, unit, student).manual_comment = words
            book.db.commit()

    def page(self, student: str, unit: str) -> str:
        return (self.root / "grading" / "feedback" / student / unit / f"{unit}.html").read_text(encoding="utf-8")


def nothing(score: float) -> float:
    return 0.0


def cell_of(notebook: NotebookNode, name: str) -> NotebookNode:
    return next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == name)
