"""Reads the course folder: its units, the instructor's own assignments, and their releases and solutions."""

from __future__ import annotations

import json
import re
from pathlib import Path

from nbformat import NotebookNode

from ..exercises import find_unit, unit_names
from ..records import TESTS, BadAssignment, Transplanted
from .cell_roles import must_agree
from .insert_answers import transplant
from .predictions import Asked, asked_in
from .read_assignment import Assignment, our_notebook, questions_of, read_assignment, solution_problems
from .read_submission import read
from .solution_check import lone_notebook, refuse

#: The file next to the marks that lists the excluded questions of each assignment.
EXCLUDED = Path("grading") / "excluded.json"
#: Names that work as a folder, as a word on a command line, and as a part of a path in nbgrader's patterns.
PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,79}", re.ASCII)


class Course:
    """Reads a course folder and caches what it read; make another instance if the folder may have changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._assignments: dict[str, Assignment] = {}

    def units(self) -> list[str]:
        """Return the course's units in order, then the instructor's own assignments."""
        return [*unit_names(), *self.own()]

    def own(self) -> list[str]:
        """Return the instructor's own assignments: NAME/NAME.ipynb in solutions/ or notebooks/ if NAME is no unit."""
        found = {
            path.parent.name
            for folder in ("solutions", "notebooks")
            for path in (self.root / folder).glob("*/*.ipynb")
            if path.stem == path.parent.name and PLAIN_NAME.fullmatch(path.stem)
        }
        return sorted(found - set(unit_names()))

    def refuse_misnamed(self, *names: str) -> None:
        """Raise BadAssignment if one of these folders of solutions/ (none: any) has a bad name or another notebook."""
        for folder in sorted((self.root / "solutions").glob("*/")):
            if names and folder.name not in names:
                continue
            lone_notebook(folder)
            if not PLAIN_NAME.fullmatch(folder.name) and any(folder.glob("*.ipynb")):
                raise BadAssignment(f"{folder}: name it with letters, digits, _, - and . alone, and its notebook too")

    def find(self, name: str) -> str:
        """Return the assignment with this name, number or start of its name. Raises UnknownUnit."""
        units = self.units()
        if name not in units:
            self.refuse_misnamed(name)
        return find_unit(name, units)

    def has(self, unit: str) -> bool:
        """Return whether the release of `unit` has been made."""
        return self.path(unit).is_file()

    def path(self, unit: str) -> Path:
        """Return the path where the release of `unit` is, or will be."""
        return self.root / "notebooks" / unit / f"{unit}.ipynb"

    def release(self, unit: str) -> NotebookNode:
        """Return the student's version of a unit. Raises the errors of `assignment`."""
        return self.assignment(unit).release

    def assignment(self, unit: str) -> Assignment:
        """Return what a unit's release asks. Raises FileNotFoundError, BadAssignment or OtherVersion, with the remedy.

        The release is made from the notebook in solutions/; if that notebook asks something else by now, the release
        must be made again.
        """
        if unit not in self._assignments:
            path = self.path(unit)
            if not path.is_file():
                raise FileNotFoundError(f"{path}: not there; make it with `autograder release {unit}`")
            text, excluded = path.read_text(encoding="utf-8"), self.excluded().get(unit, [])
            solution = self._solution(unit)
            found = read_assignment(unit, text, _own_tests(unit, solution), excluded)
            must_agree(self.root, unit, found.release)
            if solution is not None:
                lone_notebook(self.root / "solutions" / unit)
                refuse(unit, solution)
            differ = next(solution_problems(unit, solution, found), "") if solution else ""
            if differ:
                remedy = f"run `autograder release {unit}`"
                raise BadAssignment(f"notebooks/{unit} is not what solutions/{unit} gives ({differ}); {remedy}")
            self._assignments[unit] = found
        return self._assignments[unit]

    def points(self, unit: str) -> dict[str, float]:
        """Return question -> points from the release, whatever its version. Raises BadAssignment."""
        text, excluded = self.path(unit).read_text(encoding="utf-8"), self.excluded().get(unit, [])
        return read_assignment(unit, text, excluded=excluded).points

    def open(self, path: Path, unit: str) -> Transplanted:
        """Read a submission and put its answers into the unit's release. Raises Unreadable."""
        return transplant(read(path), self.assignment(unit).release, unit, str(path))

    def predictions(self, unit: str) -> list[Asked]:
        """Return the predictions that a unit asks for, with the measured answers if its solution is here."""
        solution = self._solution(unit)
        try:
            return asked_in(solution if solution is not None else self.release(unit))
        except BadAssignment as error:
            raise BadAssignment(
                f"{'notebooks' if solution is None else 'solutions'}/{unit}/{unit}.ipynb: {error}"
            ) from None

    def excluded(self) -> dict[str, list[str]]:
        """Return assignment -> its questions that are excluded from the marks. Raises BadAssignment."""
        path = self.root / EXCLUDED
        if (older := path.with_name("dropped.json")).exists():
            raise BadAssignment(f"{older}: an older version of the course wrote this file; rename it to {path.name}")
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return {str(unit): [str(name) for name in names] for unit, names in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, TypeError):
            raise BadAssignment(
                f"{path}: cannot be read; repair it, or remove it and exclude the questions again"
            ) from None

    def _solution(self, unit: str) -> NotebookNode | None:
        path = self.root / "solutions" / unit / f"{unit}.ipynb"
        try:
            return our_notebook(path.read_text(encoding="utf-8")) if path.is_file() else None
        except ValueError as error:
            words = " ".join(str(error).split())[:100]
            raise BadAssignment(f"{path}: no notebook that can be read ({words}); correct it in JupyterLab") from None


def _own_tests(unit: str, solution: NotebookNode | None) -> dict[str, str]:
    """Return cell -> source, with hidden tests, of the tests that are no exercise of the course."""
    found = questions_of(unit, solution) if solution else []
    return {question.cell: question.source for question in found if question.kind == TESTS}
