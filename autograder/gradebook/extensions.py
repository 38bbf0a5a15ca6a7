"""Reads `grading/extensions.csv`, the table of deadline extensions, to which `autograder extend` and people add rows.

Each row has a student, a unit, and either a number of days after the due date or a new deadline. The last row for a
student and a unit counts, and 0 days cancel an extension.
"""

from __future__ import annotations

import csv
import datetime
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..records import NotUsable
from ..safe_text import composed, csv_line, decoded, delimiter_of, is_student_id, printable, spreadsheet_safe
from .submission_times import local_time

COLUMNS = ("student", "unit", "days", "until")
LONGEST = 366.0


@dataclass(frozen=True)
class Extension:
    """Gives one student more time in one unit: days after the due date, or a deadline in UTC."""

    days: float | None
    until: datetime.datetime | None

    def end(self, due: datetime.datetime | None) -> datetime.datetime | None:
        """Return the student's deadline; None if days are given and the unit has no due date."""
        if self.until is not None:
            return self.until
        return due + datetime.timedelta(days=self.days or 0.0) if due else None


#: (unit, student) -> extension.
Extensions = dict[tuple[str, str], Extension]


def table_of(root: Path) -> Path:
    return root / "grading" / "extensions.csv"


def read_extensions(root: Path, find_unit: Callable[[str], str], zone: datetime.tzinfo) -> Extensions:
    """Return the extensions in the table; empty if there is none. Raises NotUsable with file, row and remedy.

    find_unit: returns a unit's full name, or raises an exception that lists the units.
    """
    path = table_of(root)
    try:
        text = decoded(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise NotUsable(f"{path}: cannot be read ({error}); save it as CSV in UTF-8") from None
    delimiter = delimiter_of(text.partition("\n")[0], COLUMNS)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    names = [cell.strip().casefold() for cell in next(rows, [])]
    if missing := [name for name in COLUMNS if name not in names]:
        raise NotUsable(f"{path}: has no column {', '.join(missing)}; its first line should be {','.join(COLUMNS)}")
    found: Extensions = {}
    for number, cells in enumerate(rows, 2):
        row = {name: cell.strip() for name, cell in zip(names, cells, strict=False)}
        if not any(row.values()):
            continue
        try:
            student, extension = row["student"], made(row.get("days", ""), row.get("until", ""), zone)
            if not is_student_id(student):
                raise NotUsable(f"{printable(student) or 'an empty cell'} is no student's ID")
            found[find_unit(row.get("unit", "")), composed(student)] = extension
        except Exception as error:  # includes those of find_unit
            raise NotUsable(f"{path}, row {number}: {error}; correct that row") from None
    return found


def made(days: str, until: str, zone: datetime.tzinfo) -> Extension:
    """Return an extension from what a person typed. Raises NotUsable."""
    if bool(days) == bool(until):
        raise NotUsable("give either the days or the time until which the student may hand in")
    if days:
        try:
            number = float(days.replace(",", "."))
        except ValueError:
            raise NotUsable(f"{printable(days)} is no number of days") from None
        if not (math.isfinite(number) and 0 <= number <= LONGEST):
            raise NotUsable(f"{printable(days)} days is not between 0 and {LONGEST:.0f}")
        return Extension(number, None)
    moment = local_time(until, zone)
    if moment is None:
        raise NotUsable(f"{printable(until)} is no time that can be read in one way; write it as 2026-03-01 18:00")
    return Extension(None, datetime.datetime.strptime(moment, "%Y-%m-%d %H:%M:%S UTC"))


def add_row(root: Path, student: str, unit: str, days: str, until: str) -> None:
    """Append one row. Raises NotUsable if the file cannot be written."""
    path = table_of(root)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        start = "" if path.is_file() else csv_line(COLUMNS)
        broken = path.is_file() and not path.read_bytes().endswith(b"\n")
        with open(path, "a", encoding="utf-8", newline="") as file:
            file.write(
                start + ("\r\n" if broken else "") + csv_line(map(spreadsheet_safe, (student, unit, days, until)))
            )
    except OSError as error:
        raise NotUsable(f"{path}: cannot be written ({error.strerror}); make it yours") from None
