"""Which course folder a command acts on: the one that is named, or the one in which one stands."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from .records import Expected

#: A course folder is one that holds this file.
CONFIG = "nbgrader_config.py"
#: What an instructor sets beside it, for one class.
LOCAL = "nbgrader_config_local.py"
#: Where the running package lies: a clone of the course, or a folder of installed packages.
HOME = Path(__file__).resolve().parents[1]


class NoCourse(Expected):
    """No course folder where one is needed: one line with the remedy."""


def above(place: Path) -> Path | None:
    """The nearest course folder that is `place` or holds it."""
    return next((folder for folder in (place, *place.parents) if (folder / CONFIG).is_file()), None)


def find_course(named: Path | None, here: Path) -> Path | None:
    """The course folder that is named, or else the one that holds `here`. Raises NoCourse for a name that is none."""
    if named is None:
        return above(here)
    if not (named / CONFIG).is_file():
        raise NoCourse(f"{named}: no course folder ({CONFIG} is not in it)")
    return named.resolve()


def course_of(files: Iterable[str]) -> Path | None:
    """The course folder in which the first of these lies that is a file."""
    return next((above(Path(name).resolve().parent) for name in files if Path(name).is_file()), None)


def clone() -> Path | None:
    """The course folder that the running package is part of; None where it was installed from one."""
    return HOME if (HOME / CONFIG).is_file() else None


def own_command(root: Path) -> str:
    """How to run the autograder that belongs to a course folder."""
    command = root / ".venv" / ("Scripts/autograder.exe" if sys.platform == "win32" else "bin/autograder")
    return str(command) if command.is_file() else f"{command} (`make setup` there makes it)"
