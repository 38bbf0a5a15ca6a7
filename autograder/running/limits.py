"""Defines what a submission may use, and reads a course's own limits from [limits] in its autograder.toml."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..records import Expected

SETTINGS = "autograder.toml"
UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9}


class BadSettings(Expected):
    """Raised when the course's settings can't be used; its one line names the file and the remedy."""


@dataclass(frozen=True)
class Limits:
    """Holds the limits of one submission. Times are seconds of processor time, which other work doesn't affect.

    wall_clock_factor: multiplies each time to give its wall-clock limit, which ends code that only sleeps.
    memory_bytes: address space of each process beyond what the libraries take; all processes together may hold one
        and a half times as much.
    processes: how many may run at a time. scratch_bytes: size of the scratch folder. file_bytes: size of one file.
    cpu_seconds, open_files: limits of each process, for cells and exercises alike.
    reply_bytes: how much one exercise may send back, all calls together.
    """

    seconds_per_exercise: float = 10.0
    seconds_per_cell: float = 10.0
    seconds_per_submission: float = 180.0
    wall_clock_factor: float = 5.0
    cpu_seconds: int = 120
    memory_bytes: int = 2 * 2**30
    processes: int = 32
    scratch_bytes: int = 64 * 2**20
    file_bytes: int = 64 * 2**20
    open_files: int = 128
    reply_bytes: int = 64 * 2**20

    @classmethod
    def from_course(cls, root: Path) -> Limits:
        """Return the limits that a course folder sets, with defaults for the others. Raises BadSettings."""
        path = root / SETTINGS
        try:
            settings = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise BadSettings(f"{path}: cannot be read ({reason}); correct it or remove it") from None
        table = settings.pop("limits", {})
        if settings or not isinstance(table, dict):
            unknown = next(iter(settings), "limits")
            raise BadSettings(f"{path}: {unknown!r} is not known here; it holds one table, [limits]")
        known = {field.name: field.default for field in fields(cls)}
        return cls(**{key: _amount(path, key, value, known) for key, value in table.items()})


def _amount(path: Path, key: str, value: Any, known: dict[str, Any]) -> float | int:
    if key not in known:
        raise BadSettings(f"{path}: there is no limit {key!r}; there are {', '.join(known)}")
    if isinstance(value, str) and key.endswith("_bytes"):
        parts = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([A-Za-z]*)\s*", value)
        if parts and parts[2] in UNITS:
            value = int(float(parts[1]) * UNITS[parts[2]])
    whole = isinstance(known[key], int)
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not 0 < value < 2**50:
        wanted = "a whole number above 0" if whole else "a number above 0"
        wanted = 'a size such as "512 MiB"' if key.endswith("_bytes") else wanted
        raise BadSettings(f"{path}: {key} = {value!r} will not do; give {wanted}")
    return value if whole else float(value)
