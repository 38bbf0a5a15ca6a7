"""Packs feedback pages in the form in which Canvas or Moodle takes them back, or for a mail merge.

Canvas takes a zip file of files that are named as in its own download (*Upload Submissions*). It reads the numbers of
the student and of the upload from each name (instructure/canvas-lms, `infer_comment_context_from_filename` in
app/models/abstract_assignment.rb), and attaches each page to a comment under the name of the student's own file.
Moodle takes a zip file whose folders are named as in its download (*Upload multiple feedback files in a zip*;
moodle/moodle, mod/assign/feedback/file/importziplib.php).
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..gradebook.marks import Marks, read_marks, read_names
from ..grading.submitted_folder import read_said
from ..records import NotUsable
from .export_marks import write
from .lms_files import CANVAS, MOODLE, NUMBERS, Roster

FORMS = ("canvas", "moodle", "mail")
COMMENTS = "Feedback comments"


@dataclass
class SentBack:
    """Describes what was written. paths: the files, or the folder. count: pages. missing: lines about the rest."""

    paths: list[Path]
    count: int = 0
    missing: list[str] = field(default_factory=list)


def send_back(
    root: Path, unit: str, form: str, students: Sequence[str], roster: Roster | None = None, out: Path | None = None
) -> SentBack:
    """Pack one unit's feedback pages for these students. Raises NotUsable if there is nothing to pack.

    roster: Moodle's grading worksheet, whose comments are filled in. out: where to write; default: grading/report/.
    """
    target = out or root / "grading" / "report" / (f"{unit}-mail" if form == "mail" else f"{unit}-{form}.zip")
    result = SentBack([target])
    pages: dict[str, tuple[str, Path]] = {}
    for student in students:
        page = root / "grading" / "feedback" / student / unit / f"{unit}.html"
        name = f"{unit}-{student}.html" if form == "mail" else _entry(root, unit, form, student)
        if not page.is_file():
            result.missing.append(f"{student}: has no feedback page of {unit}; run `autograder grade {unit}`")
        elif not name:
            remedy = f"run `autograder collect {unit}` on the download again, or send the page yourself"
            result.missing.append(f"{student}: not in the zip file, no {form.title()} download brought it; {remedy}")
        else:
            pages[student] = (name, page)
    if not pages:
        raise NotUsable(f"{unit}: no feedback page to send back; {(result.missing or ['nobody handed in'])[0]}")
    result.count, marks = len(pages), read_marks(root)
    try:
        if form == "mail":
            result.paths.append(_mail(root, unit, target, pages, marks))
        else:
            _pack(target, list(pages.values()))
    except OSError as error:
        remedy = "name another place with --out, or make the folder yours"
        raise NotUsable(f"{target}: cannot be written ({error.strerror}); {remedy}") from None
    if form == "moodle" and roster:
        place = target.with_name(f"{unit}-moodle-comments.csv")
        write(_with_comments(root, unit, roster, {student: marks.get((unit, student)) for student in pages}), place)
        result.paths.append(place)
    return result


def _entry(root: Path, unit: str, form: str, student: str) -> str:
    """Return the page's name in the zip file, from the system's name for the student's file; "" if it has none."""
    said = read_said(root / "grading" / "submitted" / student / unit)
    if said is None or said.by.casefold() != form or not said.entry:
        return ""
    own = f"{unit}-{student}.html"
    if form == "canvas":
        found = CANVAS.fullmatch(said.entry) or NUMBERS.fullmatch(said.entry)
        return said.entry[: found.start("file")] + own if found and found["file"] else ""
    found = MOODLE.fullmatch(said.entry)
    return f"{said.entry[: found.start('file')] if found['file'] else said.entry + '/'}{own}" if found else ""


def _pack(target: Path, pages: Sequence[tuple[str, Path]]) -> None:
    """Write the zip file, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, page in pages:
            archive.write(page, name)
    os.replace(aside, target)


def _mail(root: Path, unit: str, folder: Path, pages: dict[str, tuple[str, Path]], marks: dict) -> Path:
    """Copy the pages into a folder, with a table for a mail merge; return the table's path."""
    folder.mkdir(parents=True, exist_ok=True)
    names, rows = read_names(root), [["Email", "First name", "Last name", "ID", "Unit", "Score", "Points", "File"]]
    for student, (name, page) in pages.items():
        shutil.copyfile(page, folder / name)
        first, last, email, _ = names.get(student, ("",) * 4)
        found = marks.get((unit, student))
        score = [f"{found.score:.2f}", f"{found.points:g}"] if found else ["", ""]
        rows.append([email or (student if "@" in student else ""), first, last, student, unit, *score, name])
    write(rows, folder / "mail.csv")
    return folder / "mail.csv"


def _with_comments(root: Path, unit: str, roster: Roster, marks: dict[str, Marks | None]) -> list[list[str]]:
    """Return Moodle's worksheet with a comment in each empty cell of a student who has a page."""
    if not roster.has("Identifier", COMMENTS):
        remedy = f"turn on the feedback type {COMMENTS} in the assignment, and download the grading worksheet again"
        raise NotUsable(f"{roster.path}: has no column {COMMENTS}; {remedy}")
    numbers = {}
    for student, found in marks.items():
        match = MOODLE.fullmatch(read_said(root / "grading" / "submitted" / student / unit).entry)
        numbers[match["number"]] = found
    rows = [list(roster.columns)]
    for person in roster.people:
        found = numbers.get(person.number)
        words = person.cell(COMMENTS) or (_comment(found) if found else "")
        at = [column.casefold() for column in roster.columns].index(COMMENTS.casefold())
        cells = [person.cell(column) for column in roster.columns]
        rows.append([*cells[:at], words, *cells[at + 1 :]])
    return rows


def _comment(marks: Marks) -> str:
    off = f", {marks.penalty:g} taken off for coming late" if marks.penalty else ""
    lost = [
        f"{mark.cell.removeprefix('test_')} {mark.score:.3g} of {mark.points:g}"
        for mark in marks.by_cell.values()
        if mark.score < mark.points - 1e-9
    ]
    return f"{marks.score:.4g} of {marks.points:g} points{off}. " + (f"Look at: {', '.join(lost)}." if lost else "")
