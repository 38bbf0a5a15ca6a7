"""Finds the role of each cell in a student's file, and the version of the exercises that a notebook was made for."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from .. import __version__
from ..course_folder import own_command
from ..exercises import find_exercise, is_exercise
from ..exercises.kit.exercise_records import Exercise, Leaf
from ..records import TESTS, Expected
from .read_assignment import EXCLUDED_TAG, questions_of
from .read_submission import Cell

#: Roles of a cell in a student's file: "extra" has no name, "ours" has the cell's id, the others have a `grade_id`.
ANSWER, WORDS, TASK, OURS, EXTRA = "answer", "words", "task", "ours", "extra"
Role = tuple[str, str]


@dataclass
class OurCells:
    """Holds the cells of a release.

    answers, words, tasks: `grade_id` -> source in the release, of answers in code, answers in Markdown, and tasks.
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
        """Return the role of a cell in a student's file, found by its `grade_id`, then its id, then its text."""
        found = self._marked.get(cell.grade_id or "")
        if found is None:
            found = self._placed.get(cell.identity or "")
            if (
                found
                and cell.grade_id is not None
                and not (found[0] in (OURS, WORDS, TASK) or found[1] in self.by_hand)
            ):
                found = None  # it answers another function; only what a person marks may be renamed
        if found is None:
            found = self._said.get((cell.kind, cell.source.strip()))
        return found or (EXTRA, "")

    def role_of_ours(self, cell: NotebookNode) -> Role:
        """Return the role of a cell of the release itself."""
        return self._placed[cell.id]


def our_cells(release: NotebookNode, unit: str) -> OurCells:
    """Return the cells of the release of `unit`."""
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
    """Return whether a cell is for code that is graded, by a test or by a person."""
    return cell.cell_type == "code" and bool(_marks(cell).get("solution"))


def is_test(cell: NotebookNode) -> bool:
    """Return whether a cell is a test, even one that is excluded from the marks."""
    graded = _marks(cell).get("grade") or EXCLUDED_TAG in cell.metadata.get("tags", [])
    named = _name(cell).startswith("test_")
    return cell.cell_type == "code" and not _marks(cell).get("solution") and bool(graded or named)


def _name(cell: NotebookNode) -> str:
    return str(_marks(cell).get("grade_id") or "")


def _marks(cell: NotebookNode) -> Mapping:
    return cell.metadata.get("nbgrader", {})


#: The key in a release's metadata that says what it was made for.
KEY = "attention_course"
PACKAGE = Path(__file__).resolve().parents[1]


class OtherVersion(Expected):
    """Raised if notebooks and exercises have different versions; its one line names both, and the remedy."""


@dataclass(frozen=True)
class Stamp:
    """Says what a notebook was made for. contracts: function -> digest of what its exercise asks."""

    unit: str
    version: str
    contracts: Mapping[str, str]

    def as_metadata(self) -> dict[str, Any]:
        return {"unit": self.unit, "version": self.version, "contracts": dict(self.contracts)}


def minor_version() -> str:
    """Return the version without its last part, which changes no notebook: "0.1" for "0.1.3"."""
    return ".".join(__version__.split(".")[:2])


@cache
def contract(function: str, unit: str = "") -> str:
    """Return a short digest of what an exercise asks: name, parameters, results and credit."""
    exercise = find_exercise(function, unit)
    told = (exercise.name, _parameters(exercise), _form(exercise.returns), [*exercise.credit.items()])
    return hashlib.sha256(repr(told).encode()).hexdigest()[:10]


def _parameters(exercise: Exercise) -> list[tuple[str, bool]]:
    """Return each parameter's name, and whether it has a default."""
    parameters = inspect.signature(exercise.reference).parameters.values()
    return [(parameter.name, parameter.default is not parameter.empty) for parameter in parameters]


def _form(returns: Leaf | tuple[Any, ...]) -> Any:
    return (returns.kind, returns.exactly) if isinstance(returns, Leaf) else [_form(part) for part in returns]


def stamp_for(unit: str, notebook: NotebookNode) -> Stamp:
    """Return the stamp that a release of `unit` gets now."""
    marks = [cell.metadata.get("nbgrader", {}) for cell in notebook.cells]
    tests = [str(mark.get("grade_id")) for mark in marks if mark.get("grade") and not mark.get("solution")]
    found = sorted(name[5:] for name in tests if name.startswith("test_") and is_exercise(name[5:], unit))
    return Stamp(unit, minor_version(), {name: contract(name, unit) for name in found})


def read_stamp(metadata: Any) -> Stamp | None:
    """Return the stamp in a notebook's metadata, or None if there is none that can be read."""
    found = metadata.get(KEY) if isinstance(metadata, dict) else None
    if not isinstance(found, dict) or not isinstance(found.get("contracts"), dict):
        return None
    contracts = {str(name): str(digest) for name, digest in found["contracts"].items()}
    return Stamp(str(found.get("unit", "")), str(found.get("version", "")), contracts)


def differing(stamp: Stamp, unit: str) -> list[str]:
    """Return the functions whose exercises have changed since the notebook was made; removed exercises don't count."""
    return [
        name for name, digest in stamp.contracts.items() if is_exercise(name, unit) and contract(name, unit) != digest
    ]


def must_agree(root: Path, unit: str, release: NotebookNode) -> None:
    """Raise OtherVersion if the release of `unit` in the course folder `root` was not made for what runs here."""
    must_be_the_code_of(root)
    wanted, found = stamp_for(unit, release), read_stamp(release.metadata)
    differ = [name for name, digest in wanted.contracts.items() if not found or found.contracts.get(name) != digest]
    if not differ and (not wanted.contracts or (found and found.version == wanted.version)):
        return
    there = f"for version {found.version}" if found else "by a version that left no mark"
    about = f", and they differ in {', '.join(differ)}" if found and differ else ""
    ours = f"autograder {__version__} in {PACKAGE.parent} is what runs{about}"
    remedy = f"run `autograder release {unit}`, or the course's own {own_command(root)}"
    raise OtherVersion(f"notebooks/{unit} of {root} was made {there}; {ours}: {remedy}")


def must_be_the_code_of(root: Path) -> None:
    """Raise OtherVersion if the course folder holds an autograder of its own that is not the one running."""
    line = _other_code(root.resolve())
    if line:
        raise OtherVersion(line)


@cache
def _other_code(root: Path) -> str:
    theirs = root / "autograder"
    if not (theirs / "__init__.py").is_file() or theirs.resolve() == PACKAGE or _files(theirs) == _files(PACKAGE):
        return ""
    places = [path for path in (theirs / "version.py", theirs / "__init__.py") if path.is_file()]
    text = "\n".join(path.read_text(encoding="utf-8") for path in places)
    found = re.search(r'^__version__ = "(.+)"', text, re.MULTILINE)
    own = f"{root} has its own autograder {found[1] if found else ''}".rstrip()
    return f"{own}, and another one runs: {__version__} in {PACKAGE.parent}; run {own_command(root)}"


def _files(package: Path) -> dict[str, bytes]:
    kinds = (".py", ".html", ".toml")
    return {
        path.relative_to(package).as_posix(): path.read_bytes()
        for path in package.rglob("*")
        if path.suffix in kinds and path.is_file()
    }
