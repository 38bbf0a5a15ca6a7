"""What lies in grading/submitted/: the notebooks to be graded, and what stands where nothing is graded.

Students rename files and instructors make folders by hand: whatever is passed over is said, one line each.
"""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..text import NO_ID, is_student_id, printable

#: What `autograder collect` puts beside a notebook: the words of a learning-management system.
SAID = "lms.json"
#: What may stand beside a notebook: that, and what nbgrader's exchange puts there.
NOTES = ("timestamp.txt", "submission_secret.txt", SAID)


@dataclass(frozen=True)
class HandedIn:
    """One student's notebook of one unit.

    problem: what to say where there is no such file.
    """

    student: str
    unit: str
    path: Path
    problem: str | None = None


@dataclass
class HandedInByAll:
    """What was found. remarks: lines about what is passed over. closed: lines about folders that cannot be read."""

    notebooks: list[HandedIn] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)


def survey(folder: Path, known: Sequence[str], units: Sequence[str] = (), student: str | None = None) -> HandedInByAll:
    """Look through the folder of all submissions, or one student's in it. Raises OSError where it cannot be read.

    known: all assignments of the course. units: those that are wanted, if not all.
    """
    result = HandedInByAll()
    students, files = _listing(folder)
    result.remarks += [
        f"{name}: lies in no student's folder, so it is not graded; it belongs in STUDENT/UNIT/"
        for name in files
        if student is None and _is_notebook(name)
    ]
    found: dict[str, list[HandedIn]] = {unit: [] for unit in units or known}
    strange: dict[str, list[str]] = defaultdict(list)
    for name in students if student is None else [student]:
        if not is_student_id(name):
            if name.startswith("."):
                continue
            result.closed.append(f"{shlex.quote(name)}: not graded, {NO_ID}")
            continue
        try:
            folders, files = _listing(folder / name)
        except OSError as error:
            result.closed.append(_closed(name, folder / name, error))
            continue
        for unit in found:
            if unit in folders:
                try:
                    found[unit].append(_notebook(folder, name, unit, result.remarks))
                except OSError as error:
                    result.closed.append(_closed(f"{name}, {unit}", folder / name / unit, error))
            elif unit in files:
                place, right = folder / name / unit, f"{unit}.ipynb"
                problem = f"'{unit}' is no folder; make it one that holds {right}"
                found[unit].append(HandedIn(name, unit, place / right, problem))
        for other in folders:
            if other not in known and not other.startswith("."):
                strange[other].append(name)
        result.remarks += [
            f"{name}: {file} lies in no unit's folder, so it is not graded; it belongs in {name}/UNIT/"
            for file in files
            if _is_notebook(file)
        ]
    for other, owners in strange.items():
        result.remarks.append(f"{_some(owners, '')}: '{other}' is no unit, so nothing in that folder is graded")
    result.notebooks = [item for items in found.values() for item in items]
    result.remarks, result.closed = [*map(printable, result.remarks)], [*map(printable, result.closed)]
    return result


def _closed(who: str, folder: Path, error: OSError) -> str:
    remedy = f"make it yours to read, as with: chmod -R u+rX {shlex.quote(str(folder))}"
    return f"{who}: not graded, the folder cannot be read ({error.strerror}); {remedy}"


def _notebook(folder: Path, student: str, unit: str, remarks: list[str]) -> HandedIn:
    """The file that counts: the one with the right name, or else the only notebook. Raises OSError."""
    place, right = folder / student / unit, f"{unit}.ipynb"
    whole = HandedIn(student, unit, place / right)
    if place.is_symlink() or place.parent.is_symlink():
        return whole  # what a link leads to is refused by whoever reads it, and nothing of it is shown
    folders, files = _listing(place)
    others = [name for name in files if _is_notebook(name) and name != right]
    if right in folders + files:
        if others:
            remarks.append(f"{student}, {unit}: only {right} is graded, not {_some(others)} beside it")
        return whole
    if len(others) == 1:
        remarks.append(f"{student}, {unit}: '{others[0]}' is graded, the only notebook there; rename it to {right}")
        return replace(whole, path=place / others[0])
    seen = [name for name in folders + files if not name.startswith(".") and name not in NOTES]
    remedy = f"rename the right one to {right}" if others else "hand in the notebook under that name"
    return replace(whole, problem=printable(f"no {right}; its folder holds {_some(seen) or 'nothing'}; {remedy}"))


def _listing(folder: Path) -> tuple[list[str], list[str]]:
    """The names of folders, and of all else, in order."""
    folders, files = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                inside = entry.is_dir()
            except OSError:
                inside = False
            (folders if inside else files).append(entry.name)
    return sorted(folders), sorted(files)


def _is_notebook(name: str) -> bool:
    return name.lower().endswith(".ipynb") and not name.startswith(".")


def _some(names: Sequence[str], quote: str = "'") -> str:
    """The first three names."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"{quote}{name}{quote}" for name in names[:3]) + more


__all__ = ["NOTES", "SAID", "HandedIn", "HandedInByAll", "survey"]
