"""Reads defensively when a student handed in, and computes a digest of the rule for late work."""

from __future__ import annotations

import datetime
import hashlib
import inspect
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable
from logging import Logger
from pathlib import Path

from dateutil import parser
from dateutil.tz import gettz
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties
from traitlets.config import Config

from ..records import Graded, PointInTime
from ..safe_text import decoded, printable

NAME = "timestamp.txt"
SIZE_CAP = 1_000


class NotClear(ValueError):
    """Raised for a text that names no time, or more than one."""


def read_timestamp(path: Path, zone: datetime.tzinfo = datetime.UTC) -> datetime.datetime | None:
    """Return the time in a file, in UTC, or None if there is no such file. Raises NotClear.

    zone: the class's own, whose abbreviations, such as CEST, may follow a time. A time without a zone is in UTC.
    """
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size > SIZE_CAP:
        raise NotClear("not a small regular file")
    try:
        text = decoded(path.read_bytes()).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotClear("it holds no time") from error
    first, _ = _readings(text, datetime.UTC, zone)
    return first


def _readings(text: str, zone: datetime.tzinfo, known: datetime.tzinfo) -> tuple[datetime.datetime, bool]:
    """Return the time that a text names, in UTC, and whether it includes the time of day. Raises NotClear.

    zone: used if the text names none. known: the only zone whose abbreviations are understood (apart from UTC, GMT and
    Z), because most abbreviations are ambiguous: CST is a time in China, too.
    """
    text = re.sub(r"\b(?:UTC|GMT)(?=[+-]\d)", "", text[:100])  # an offset follows, and + means east of Greenwich
    time, _, last = text.rpartition(" ")
    named = gettz(last) if "/" in last else None  # as in Europe/Berlin
    if named is not None:
        text, zone = time, named

    def zone_of_text(name: str | None, offset: int | None) -> datetime.tzinfo:
        if name is None:
            return zone if offset is None else datetime.timezone(datetime.timedelta(seconds=offset))
        if name in ("UTC", "GMT", "Z"):
            return datetime.UTC
        for month in (1, 7):
            day = datetime.datetime(datetime.date.today().year, month, 1, tzinfo=known)
            if offset is None and day.tzname() == name:
                return datetime.timezone(day.utcoffset() or datetime.timedelta())
        raise NotClear(f"{printable(name)} is the name of several time zones, or of none")

    blank = (datetime.datetime(2000, 1, 1), datetime.datetime(2001, 2, 2, 1, 1))  # fill in what the text leaves out
    orders = [{"dayfirst": first, "yearfirst": year} for first in (False, True) for year in (False, True)]
    if re.match(r"[0-9]{4}", text):
        orders = orders[:2]  # after a year, the month precedes the day
    try:
        read = [parser.parse(text, default=fill, tzinfos=zone_of_text, **order) for fill in blank for order in orders]
        if len({moment.date() for moment in read}) > 1:
            raise NotClear("its day is not clear")
        return read[0].astimezone(datetime.UTC).replace(tzinfo=None), len({moment.time() for moment in read}) == 1
    except NotClear:
        raise
    except Exception as error:  # odd text can make the parser raise anything
        raise NotClear("it holds no time") from error


def zone_of(config: Config) -> datetime.tzinfo:
    """Return the class's time zone, which is nbgrader's setting for times."""
    return gettz(config.Exchange.get("timezone", "UTC")) or datetime.UTC


def days_of_handing_in(root: Path, graded: Iterable[Graded], zone: datetime.tzinfo = datetime.UTC) -> list[PointInTime]:
    """Return by day how many answers of all units were handed in and how many are right; skip those without a time."""
    days: dict[datetime.date, list[bool]] = defaultdict(list)
    for item in graded:
        try:
            time = read_timestamp(root / "grading" / "submitted" / item.student / item.unit / NAME, zone)
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
    """Return a time that people of this zone wrote, in UTC and in nbgrader's form; None if it is incomplete.

    A text that can be read as two different days, such as 05/06/2026, gives None.
    """
    try:
        moment, whole = _readings(text, zone, zone)
    except ValueError:
        return None
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if whole else None


def mistrust(coursedir: CourseDirectory, log: Logger) -> None:
    """Make nbgrader skip invalid timestamps, instead of stopping, waiting or copying what they point to."""

    zone = zone_of(coursedir.config)

    def existing(folder: str) -> datetime.datetime | None:
        path = Path(folder) / NAME
        try:
            return read_timestamp(path, zone)
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
            read_timestamp(folder / NAME, zone)
        except ValueError:
            coursedir.ignore = [*coursedir.ignore, NAME]  # ignores all of them: nbgrader has one list for a run
            return


def rule_digest(config: Config) -> str:
    """Return a digest of the late-work rule: of its settings, and of the source file of its class."""
    plugin = AssignLatePenalties(config=config).plugin_class
    sections = [kind.__name__ for kind in (AssignLatePenalties, *plugin.__mro__)]
    told = {name: repr(config[name]) for name in sections if name in config}
    try:
        code = Path(inspect.getsourcefile(plugin) or "").read_bytes()
    except (OSError, TypeError):
        code = b""
    return hashlib.sha256(repr(sorted(told.items())).encode() + code).hexdigest()
