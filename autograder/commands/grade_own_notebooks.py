"""Grades one's own notebooks without gradebook or sandbox, in a process of its own with limits.

If a notebook is in no course folder, or is the course's release itself, its own cells say what it asks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from .. import __version__
from ..course_folder import HOME, above
from ..exercises import exercises, find_unit, unit_names
from ..grading.one_submission import grade_submission
from ..judging.hidden_cases import Challenge
from ..reading.cell_roles import OtherVersion, Stamp, contract, differing, minor_version, read_stamp
from ..reading.course_contents import Course
from ..reading.insert_answers import transplant
from ..reading.read_assignment import Assignment, read_assignment
from ..reading.read_submission import Cell, bounded, read_bytes, read_file
from ..records import Expected, Transplanted, UnknownUnit, Unreadable, Verdict
from ..running.limits import Limits
from ..running.plain_process import open_for_own_work
from ..safe_text import decoded, printable

#: Tags of the course's own code cells; a cell without one, and without nbgrader's metadata, is the student's.
OURS = {"given", "demo"}
#: nbgrader's own placeholder for an answer in words.
STUB = "YOUR ANSWER HERE"


def own_release(text: str, name: str) -> str:
    """Return the text of a release, made from a notebook that somebody works in. Raises Unreadable.

    It leaves out the student's own cells and duplicates, which come with the submission. name: for messages.
    """
    try:
        notebook = nbformat.reads(text, as_version=4)
        kept, seen = [], set()
        for cell in notebook.cells:
            mark = cell.metadata.get("nbgrader", {}).get("grade_id")
            if cell.cell_type == "code" and not mark and not OURS & set(cell.metadata.get("tags", ())):
                continue
            if cell.cell_type == "markdown" and cell.metadata.get("nbgrader", {}).get("solution"):
                cell.source = STUB  # the original text is not known; any other counts as an answer
            if not mark or mark not in seen:
                kept.append(cell)
                seen.add(mark)
        notebook.cells = kept
        return nbformat.writes(notebook)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        words = " ".join(str(error).split())[:100]
        raise Unreadable(f"{name}: no notebook that can be read ({words}); open it in JupyterLab and save it") from None


@dataclass(frozen=True)
class Checked:
    """Holds one notebook with what it asks, and its verdicts in the order of the unit."""

    path: Path
    unit: str
    verdicts: list[Verdict]
    asked: Assignment


@dataclass
class Found:
    """Holds the results of some notebooks. problems: a line for each that was not judged. remarks: about others."""

    checked: list[Checked] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def chosen(root: Path | None, words: Sequence[str], here: Path) -> list[Path]:
    """Return the notebooks that are named, by file or by unit; without a name, all of one's own. Raises Unreadable."""
    found: list[Path] = []
    for word in words:
        unit = "" if os.path.lexists(word) else _unit(root, word)
        found += own_notebooks(root, here, [unit])[:1] if unit else [Path(word)]
    return list(dict.fromkeys(found)) if words else own_notebooks(root, here)


def _unit(root: Path | None, word: str) -> str:
    """Return the unit that a word means, or "" for a missing file. Raises UnknownUnit for a number of no unit."""
    try:
        return Course(root).find(word) if root else find_unit(word, unit_names())
    except UnknownUnit:
        if word.isdecimal():
            raise
        return ""


def own_notebooks(root: Path | None, here: Path, units: Sequence[str] = ()) -> list[Path]:
    """Return the units' notebooks in the folder `here` or its folders; if there is none, those of `root`/notebooks.

    Only a file with the name of its unit counts: copies and drafts next to it are ignored. Raises Unreadable.
    """
    units = units or (Course(root).units() if root else unit_names())
    folders = [here, here / "notebooks", *([root / "notebooks"] if root else [])]
    for folder in folders:
        places = [place / f"{unit}.ipynb" for unit in units for place in (folder, folder / unit)]
        found = [path for path in places if path.is_file()]
        if found:
            return found
    what = "a unit" if len(units) > 1 else units[0]
    places = "in this folder" if folders[-1].parent == here else f"in this folder or in {folders[-1]}"
    raise Unreadable(f"no notebook of {what} {places}; name yours")


def check_notebooks(root: Path | None, paths: Sequence[Path]) -> Found:
    """Judge all notebooks that can be read. root: the course folder, if there is one."""
    course, challenge = Course(root) if root else None, Challenge()
    found, ready = Found(), []
    for path in paths:
        try:
            ready.append((path, *_open(course, path, found.remarks)))
        except Expected as error:
            found.problems.append(printable(str(error)))
    if ready:
        with open_for_own_work(Limits.from_course(root) if root else Limits()) as sandbox:
            for path, submission, asked in ready:
                verdicts = grade_submission(submission, asked, challenge, sandbox)
                found.checked.append(Checked(path, submission.unit, verdicts, asked))
    return found


def whose_judge(root: Path | None, checked: Sequence[Checked]) -> str:
    """Return a line that says which autograder judged, if it is not that of the course with the notebooks; else ""."""
    places = {above(Path(os.path.realpath(item.path)).parent) for item in checked}
    if places <= {HOME}:
        return ""
    line = f"judged by autograder {__version__} in {HOME}"
    if root is None:
        line += ", which goes by the notebook itself: it lies in no course folder"
    elif root != HOME and (places - {root} or above(Path.cwd()) != root):
        line += f", by the release in the course folder {root}"
    return line


def _open(course: Course | None, path: Path, remarks: list[str]) -> tuple[Transplanted, Assignment]:
    real = Path(os.path.realpath(path))  # one's own notebook may be a link
    data = bounded(read_file(real), str(real))
    cells = read_bytes(data, str(real))
    text = decoded(data)
    metadata = json.loads(text).get("metadata")
    stamp = read_stamp(metadata)
    unit = _unit_of(course, cells, path, stamp.unit if stamp else "")
    remark = _must_be_current(stamp, unit, path)
    if remark and not (course and real.is_relative_to(course.root / "solutions")):
        remarks.append(printable(remark))
    return _against(course, unit, cells, text, path)


def _must_be_current(stamp: Stamp | None, unit: str, path: Path) -> str:
    """Return a remark on a notebook of another version. Raises OtherVersion if its exercises have changed."""
    if stamp is None:
        if unit not in unit_names():  # an instructor's own assignment has exercises of the course, or no stamp
            return ""
        return f"{path}: does not say for which version of the course it was made; judged all the same"
    differ = differing(stamp, unit)
    if differ:
        first = differ[0]
        made = f"made for version {stamp.version} of the course, where {first} is {stamp.contracts[first]}"
        here = f"in autograder {__version__} in {HOME} it is {contract(first, unit)}"
        more = f" (and {len(differ) - 1} more differ)" if len(differ) > 1 else ""
        raise OtherVersion(f"{path}: {made}; {here}{more}; get the unit again, or use the autograder that came with it")
    if stamp.version != minor_version():
        return f"{path}: made for version {stamp.version} of the course; {__version__} asks the same of it"
    return ""


def _against(
    course: Course | None, unit: str, cells: list[Cell], text: str, path: Path
) -> tuple[Transplanted, Assignment]:
    """Put the answers into the course's notebook of the unit, or into one made from their own if there is no other."""
    release = course.path(unit) if course else None
    if course and release and release.is_file() and not os.path.samefile(release, path):
        asked = course.assignment(unit)
    else:
        asked = read_assignment(unit, own_release(text, str(path)))
    return transplant(cells, asked.release, unit, str(path)), asked


def _unit_of(course: Course | None, cells: list[Cell], path: Path, stamped: str) -> str:
    """Return the unit of the stamp, or else the one with most answer cells here; the file's name decides a tie."""
    marks = {mark for cell in cells for mark in (cell.grade_id, cell.identity) if mark}
    known = course.units() if course else unit_names()
    counts = {}
    for unit in [stamped] if stamped in known and marks & _answers(course, stamped) else known:
        counts[unit] = (len(marks & _answers(course, unit)), unit == path.stem)
    best = max(counts, key=lambda unit: counts[unit], default="")
    if not best or not counts[best][0]:
        raise Unreadable(f"{path}: holds no answer cell of this course; is it the notebook of another course?")
    return best


def _answers(course: Course | None, unit: str) -> set[str]:
    """Return the names of a unit's answer cells."""
    path = course.path(unit) if course else None
    if path and path.is_file():
        cells = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4).cells
        marks = [cell.metadata.get("nbgrader", {}) for cell in cells]
        return {str(each.get("grade_id")) for each in marks if each.get("solution") or each.get("task")}
    return set(exercises(unit)) if unit in unit_names() else set()
