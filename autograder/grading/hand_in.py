"""Where a hand-in is put, grading/submitted/STUDENT/UNIT/, and what is known of it beside the notebook.

What was there before goes to grading/replaced/: nothing that anybody handed in is lost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from nbformat import NotebookNode

from ..data import Unreadable
from ..reading.submission import read_bytes
from ..reading.transplant import transplant
from .placement import NOTES, SAID

TIMESTAMP = "timestamp.txt"


@dataclass(frozen=True)
class Said:
    """What a learning-management system itself says of a hand-in.

    late: whether it came late. time: when it came, as nbgrader writes it, in UTC; None where the system does not say.
    """

    by: str
    late: bool
    time: str | None = None


def fault_of(data: bytes, name: str, unit: str, release: NotebookNode | None) -> tuple[str, bool]:
    """Why a notebook cannot be graded, or "", and whether it is a whole notebook of something else.

    release: the unit's own notebook; where there is none it is not asked whether this one belongs to it.
    """
    whole = False
    try:
        cells = read_bytes(data, name)
        whole = True
        if release is not None:
            transplant(cells, release, unit, name)
    except Unreadable as error:
        return str(error), whole
    return "", False


def store(root: Path, place: Path, files: Mapping[str, bytes], notes: Iterable[str] = NOTES) -> bool:
    """Write the files of one hand-in into its folder; whether a file of one of these names was there before.

    notes: names of what goes away with it, for it is not true of the new hand-in. Raises OSError.
    """
    place.mkdir(parents=True, exist_ok=True)
    parts = {name: place / f".{name}.{os.getpid()}.part" for name in files}
    for name, part in parts.items():
        part.write_bytes(files[name])
    earlier = [name for name in dict.fromkeys([*files, *notes]) if os.path.lexists(place / name)]
    if earlier:
        aside = _new_folder(root / "grading" / "replaced" / place.parent.name / place.name)
        for name in earlier:
            os.replace(place / name, aside / name)
    for name, part in parts.items():
        os.replace(part, place / name)
    return not set(files).isdisjoint(earlier)


def _new_folder(base: Path) -> Path:
    """A folder of its own for each hand-in that was replaced: 1, 2, …"""
    folder = next(base / str(number) for number in count(1) if not (base / str(number)).exists())
    folder.mkdir(parents=True)
    return folder


def note(root: Path, place: Path, said: Said) -> None:
    """Keep what a system says of the hand-in in this folder; where it gives a time, nbgrader reads that.

    A timestamp that somebody changed by hand holds until the system says something else. Raises OSError.
    """
    if said == read_said(place):
        return
    if said.time is not None:
        store(root, place, {TIMESTAMP: f"{said.time}\n".encode()}, notes=())
    part = place / f".{SAID}.{os.getpid()}.part"
    part.write_text(json.dumps(asdict(said)) + "\n", encoding="utf-8")
    os.replace(part, place / SAID)


def read_said(place: Path) -> Said | None:
    """What a system said of the hand-in in this folder; None where none did. Only `autograder collect` writes it."""
    try:
        return Said(**json.loads((place / SAID).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


__all__ = ["TIMESTAMP", "Said", "fault_of", "note", "read_said", "store"]
