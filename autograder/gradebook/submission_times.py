"""When a student handed in, read with care, and what lateness costs."""

from __future__ import annotations

import datetime
import hashlib
import inspect
import os
import stat
from collections import defaultdict
from collections.abc import Iterable
from logging import Logger
from pathlib import Path

from dateutil import parser
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import parse_utc
from traitlets.config import Config

from ..data import Graded, PointInTime

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


def days_of_handing_in(root: Path, graded: Iterable[Graded]) -> list[PointInTime]:
    """By day how many answers were handed in, of all units, and how many are right; what has no time is left out."""
    days: dict[datetime.date, list[bool]] = defaultdict(list)
    for item in graded:
        try:
            time = read_timestamp(root / "grading" / "submitted" / item.student / item.unit / NAME)
        except ValueError:
            continue  # `autograder grade` names it
        judged = [verdict.verdict for verdict in item.verdicts]
        if time is not None:
            days[time.date()] += [name == "right" for name in judged if name not in ("missing", "waiting")]
    midnight = datetime.time(tzinfo=datetime.UTC)
    return [
        PointInTime(datetime.datetime.combine(day, midnight), {"handed in": (len(right), sum(right))})
        for day, right in sorted(days.items())
    ]


def local_time(text: str, zone: datetime.tzinfo) -> str | None:
    """A time that people of this zone wrote, in UTC and in nbgrader's form; None where text is no whole time.

    What can be read as two different days, such as 05/06/2026, is none.
    """
    blank = (datetime.datetime(2000, 1, 1), datetime.datetime(2001, 2, 2, 1, 1))  # fill in what the text leaves out
    try:
        read = [parser.parse(text[:100], default=fill, dayfirst=first) for fill in blank for first in (True, False)]
        if len({time.replace(second=0) for time in read}) > 1:
            return None
        moment = read[0] if read[0].tzinfo else read[0].replace(tzinfo=zone)
        return f"{moment.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError):
        return None


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


def rule_digest(config: Config) -> str:
    """Of the rule: its settings, and where it is a class of the instructor's own, its code."""
    plugin = AssignLatePenalties(config=config).plugin_class
    sections = [kind.__name__ for kind in (AssignLatePenalties, *plugin.__mro__)]
    told = {name: repr(config[name]) for name in sections if name in config}
    try:
        code = Path(inspect.getsourcefile(plugin) or "").read_bytes()
    except (OSError, TypeError):
        code = b""
    return hashlib.sha256(repr(sorted(told.items())).encode() + code).hexdigest()
