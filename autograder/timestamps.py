"""When a student handed in: the one other file that nbgrader reads from a submission, read as defensively."""

from __future__ import annotations

import datetime
import os
import stat
from logging import Logger
from pathlib import Path

from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import parse_utc

NAME = "timestamp.txt"
SIZE_CAP = 1_000


def read_timestamp(path: Path) -> datetime.datetime | None:
    """The time in a file, or None where there is no such file. Raises ValueError where it holds no time."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size > SIZE_CAP:
        raise ValueError("not a small regular file")
    try:
        return parse_utc(path.read_text(encoding="utf-8").strip())
    except Exception as error:
        raise ValueError("it holds no time") from error


def mistrust(coursedir: CourseDirectory, log: Logger) -> None:
    """Make nbgrader pass over timestamps that are none, rather than stop, wait or copy what they point to."""

    def existing(folder: str) -> datetime.datetime | None:
        path = Path(folder) / NAME
        try:
            return read_timestamp(path)
        except ValueError as error:
            log.warning("%s: passed over (%s)", path, error)
            return None

    coursedir.get_existing_timestamp = existing
    student = coursedir.student_id
    pattern = coursedir.format_path(coursedir.submitted_directory, student, coursedir.assignment_id)
    folders = sorted(
        Path(pattern).parent.parent.glob(f"*/{coursedir.assignment_id}") if student == "*" else [Path(pattern)]
    )
    for folder in folders:
        try:
            read_timestamp(folder / NAME)
        except ValueError:
            coursedir.ignore = [*coursedir.ignore, NAME]  # of nobody: nbgrader has one list for the whole run
            return
