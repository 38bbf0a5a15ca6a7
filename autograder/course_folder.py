"""Finds the course folder that a command acts on: the one that is given, or the one around the current folder."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from .records import Expected

#: A folder is a course folder if it holds this file.
CONFIG = "nbgrader_config.py"
#: An instructor's own settings for one class, next to CONFIG.
LOCAL = "nbgrader_config_local.py"
#: The folder of the running package: a clone of the course, or a folder of installed packages.
HOME = Path(__file__).resolve().parents[1]


class NoCourse(Expected):
    """No course folder where one is needed: one line gives the remedy."""


def above(place: Path) -> Path | None:
    """Return the nearest course folder: `place` itself or a folder above it."""
    return next((folder for folder in (place, *place.parents) if (folder / CONFIG).is_file()), None)


def find_course(named: Path | None, here: Path) -> Path | None:
    """Return the course folder `named`, or else the one around `here`. Raises NoCourse if `named` is none."""
    if named is None:
        return above(here)
    if not (named / CONFIG).is_file():
        raise NoCourse(f"{named}: no course folder ({CONFIG} is not in it)")
    return named.resolve()


def course_of(files: Iterable[str]) -> Path | None:
    """Return the course folder of the first of these paths that is a file."""
    return next((above(Path(name).resolve().parent) for name in files if Path(name).is_file()), None)


def clone() -> Path | None:
    """Return the course folder that the running package belongs to, or None if it was installed elsewhere."""
    return HOME if (HOME / CONFIG).is_file() else None


def own_command(root: Path) -> str:
    """Return the command that runs a course folder's own autograder."""
    command = root / ".venv" / ("Scripts/autograder.exe" if sys.platform == "win32" else "bin/autograder")
    return str(command) if command.is_file() else f"{command} (`make setup` there makes it)"
