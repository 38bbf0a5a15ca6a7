"""The student's notebooks, made from the solutions by nbgrader itself."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .start_page import NAME, is_stale, write_start_page
from .units import unit_names


class ReleaseFailed(Exception):
    """A solution notebook that nbgrader cannot turn into a release: one line."""


def build_release(root: Path, unit: str, target: Path, database: bool = False) -> None:
    """Write the release of `unit` to `target`/`unit`, as `nbgrader generate_assignment` does.

    database: also enter the unit and its cells into the gradebook.
    """
    from nbgrader.converters import GenerateAssignment
    from nbgrader.converters.base import NbGraderException
    from nbgrader.coursedir import CourseDirectory

    from .nbgrader_plugin import load_config

    if not (root / "solutions" / unit / f"{unit}.ipynb").is_file():
        raise ReleaseFailed(f"solutions/{unit}/{unit}.ipynb is not there; the release is made from it")
    config = load_config(root)
    config.CourseDirectory.release_directory = str(target)
    config.SaveCells.enabled = database
    coursedir = CourseDirectory(config=config)
    coursedir.assignment_id = unit
    converter = GenerateAssignment(coursedir=coursedir, config=config)
    converter.no_database = not database
    converter.force = True
    converter.log = logging.getLogger("autograder.release")
    converter.log.setLevel(logging.CRITICAL if converter.log.level == logging.NOTSET else converter.log.level)
    try:
        converter.start()
    except NbGraderException as error:
        raise ReleaseFailed(f"{unit}: nbgrader cannot make the release: {error}") from error


def release(root: Path, units: Sequence[str] = ()) -> list[str]:
    """Make `notebooks/` from `solutions/` and return what changed: units, and the start page if no unit is named.

    A release is built aside first: one that fails leaves the old one as it was.
    """
    changed = []
    with tempfile.TemporaryDirectory() as aside:
        for unit in units or unit_names():
            build_release(root, unit, Path(aside))
        for unit in units or unit_names():
            if differences(root, unit, Path(aside)):
                changed.append(unit)
                shutil.rmtree(root / "notebooks" / unit, ignore_errors=True)
                shutil.copytree(Path(aside) / unit, root / "notebooks" / unit)
    if not units and write_start_page(root):
        changed.append(NAME)
    return changed


def out_of_step(root: Path, units: Sequence[str] = ()) -> list[str]:
    """The files of `notebooks/` that differ from what `solutions/` would give."""
    with tempfile.TemporaryDirectory() as aside:
        found = []
        for unit in units or unit_names():
            build_release(root, unit, Path(aside))
            found += differences(root, unit, Path(aside))
    if not units and is_stale(root):
        found.append(f"notebooks/{NAME}")
    return found


def differences(root: Path, unit: str, built: Path) -> list[str]:
    """Files of one unit that are not the same in `built` and in `notebooks/`, as paths from the course folder."""
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
