"""Makes the student's notebooks from the solutions, by nbgrader itself."""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import nbformat

from ..exercises import unit_names
from ..reading.course_contents import Course
from ..reading.read_assignment import questions_of
from ..reading.solution_check import lone_notebook, refuse
from ..records import Expected
from .course_map import START_PAGE, is_stale, unit_of_map, write_start_page
from .insert_helpers import put_helpers
from .keep_learner_work import NOTED, digests, keep_work, read_note, write_note

#: Words after BEGIN or END, the metadata of a cell that may hold such a line, and nbgrader's name for that cell.
MARKS = (("SOLUTION", "solution", "Autograded answer"), ("HIDDEN TESTS", "grade", "Autograder tests"))


class ReleaseFailed(Expected):
    """Raised when nbgrader cannot turn a solution notebook into a release; the message is one line."""


class _Reason(logging.Handler):
    """Remembers the first exception that nbgrader logs, because the one that it raises does not name the reason."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.error = self.error or sys.exc_info()[1]


def build_release(root: Path, unit: str, target: Path) -> None:
    """Write the release of `unit` to `target`/`unit`, as `nbgrader generate_assignment --no-db` does."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.converters.base import NbGraderException
    from nbgrader.coursedir import CourseDirectory

    from ..gradebook.health_check import load_config

    if not (root / "solutions" / unit / f"{unit}.ipynb").is_file():
        raise ReleaseFailed(f"solutions/{unit}/{unit}.ipynb is not there; the release is made from it")
    _refuse(root, unit)
    config = load_config(root)
    config.CourseDirectory.release_directory = str(target)
    config.SaveCells.enabled = False
    coursedir = CourseDirectory(config=config)
    coursedir.assignment_id = unit
    converter = GenerateAssignment(coursedir=coursedir, config=config)
    converter.no_database = True
    converter.force = True
    converter.log, reason = logging.getLogger("autograder.handout.release"), _Reason()
    converter.log.setLevel(logging.ERROR)
    converter.log.propagate = False
    converter.log.handlers = [reason]
    try:
        converter.start()
    except NbGraderException as error:
        said = re.split(r"[;\n]", str(reason.error or error).strip())[0].rstrip(".")
        path = f"solutions/{unit}/{unit}.ipynb"
        where = "".join(f"; {doubt}" for doubt in _doubts(root / path))
        raise ReleaseFailed(f"{path}: nbgrader cannot make the release: {said}{where}") from error


def _refuse(root: Path, unit: str) -> None:
    """Refuse in our own words what must be fixed in the instructor's questions; nbgrader says what it cannot read."""
    lone_notebook(root / "solutions" / unit)
    with contextlib.suppress(OSError, ValueError, RecursionError):
        solution = nbformat.read(root / "solutions" / unit / f"{unit}.ipynb", as_version=4)
        refuse(unit, solution)
        put_helpers(unit, solution)


def _doubts(path: Path) -> Iterator[str]:
    """Yield what seems wrong with the marks of cells, because nbgrader's own messages name no cell."""
    try:
        cells = nbformat.read(path, as_version=4).cells
    except Exception:
        return  # nbgrader has reported it
    for cell in cells:
        marks = cell.metadata.get("nbgrader", {})
        for what, mark, name in MARKS:
            begun, ended = (cell.source.count(f"### {word} {what}") for word in ("BEGIN", "END"))
            if begun != ended:
                yield f"cell {cell.get('id')} has {begun} lines BEGIN {what} and {ended} lines END {what}"
            elif begun and not marks.get(mark):
                yield f"is the cell {cell.get('id')}, with BEGIN {what}, not marked as *{name}*?"


def release(root: Path, units: Sequence[str] = (), say: Callable[[str], object] = str) -> list[str]:
    """Make `notebooks/` from `solutions/` and return what changed: units, and the start page if no unit is named.

    Each release is first built in a temporary folder: one that fails, or that the map of the course cannot read, leaves
    the old one as it was. say: called with a line for each unit in which somebody has worked, with the copy's place.
    """
    changed = []
    with tempfile.TemporaryDirectory() as aside:
        for unit in units or _all(root):
            build_release(root, unit, Path(aside))
            release = nbformat.read(Path(aside) / unit / f"{unit}.ipynb", as_version=4)
            if unit in unit_names():
                unit_of_map(unit, release)
            else:
                questions_of(unit, release)
        for unit in units or _all(root):
            if differences(root, unit, Path(aside)):
                changed.append(unit)
                if kept := keep_work(root, unit, root / "notebooks" / unit, Path(aside) / unit):
                    say(kept)
                shutil.rmtree(root / "notebooks" / unit, ignore_errors=True)
                shutil.copytree(Path(aside) / unit, root / "notebooks" / unit)
    if not units and write_start_page(root):
        changed.append(START_PAGE)
    write_note(root, units or _handed_out(root))
    return changed


def out_of_step(root: Path, units: Sequence[str] = ()) -> list[str]:
    """Return the files of `notebooks/` that differ from what `solutions/` would give."""
    with tempfile.TemporaryDirectory() as aside:
        found = []
        for unit in units or _all(root):
            build_release(root, unit, Path(aside))
            found += differences(root, unit, Path(aside))
    if not units and is_stale(root):
        found.append(f"notebooks/{START_PAGE}")
    if not units and not found and read_note(root) != digests(root / "notebooks", _handed_out(root)):
        found.append(f"notebooks/{NOTED}")
    return found


def _handed_out(root: Path) -> list[str]:
    return [*_all(root), START_PAGE]


def _all(root: Path) -> list[str]:
    Course(root).refuse_misnamed()
    return [unit for unit in Course(root).units() if (root / "solutions" / unit).is_dir()]


def differences(root: Path, unit: str, built: Path) -> list[str]:
    """Return the files of one unit that differ between `built` and `notebooks/`, as paths from the course folder."""
    old, new = root / "notebooks" / unit, built / unit
    names = {
        path.relative_to(base)
        for base in (old, new)
        for path in base.rglob("*")
        if path.is_file() and ".ipynb_checkpoints" not in path.parts
    }

    def content(path: Path) -> bytes | None:
        return path.read_bytes() if path.is_file() else None

    return sorted(f"notebooks/{unit}/{name}" for name in names if content(old / name) != content(new / name))
