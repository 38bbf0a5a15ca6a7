"""The places that say what a class has, each read in its own way, and whether they all say the same."""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Mapping
from pathlib import Path

from nbgrader.apps import ExportApp

from autograder.gradebook.health_check import load_config
from autograder.gradebook.nbgrader_plugin import SafeCsvExport
from term import Due, Term

#: (unit, student, question) -> (score, points), and (unit, student) -> (score, points) of the whole.
Single = dict[tuple[str, str, str], tuple[float, float]]
Whole = dict[tuple[str, str], tuple[float, float]]
MOST = 40.0


def agree(term: Term, anyway: bool = False) -> None:
    """All places say, to the cent, what the test's own account says.

    anyway: though the marks are not final: then `export` refuses, and gives them with --anyway.
    """
    due = term.due()
    single = {(*place, name): mark for place, each in due.items() for name, mark in each.marks.items()}
    whole = {place: (each.score, each.points) for place, each in due.items()}
    names = {(unit, entry.cell): entry.name for unit, entries in term.asked.items() for entry in entries}
    out = {(unit, entry.name) for unit, entries in term.asked.items() for entry in entries if entry.excluded}
    counted = {place: mark for place, mark in single.items() if (place[0], place[2]) not in out}
    said = term.do("report")
    assert "run `autograder grade" not in said, said

    try:
        same("gradebook", gradebook(term, names), (counted, whole))
    except AssertionError as error:  # what was said tells which case it was
        partly = [entry for entry in verdicts(term) if 0 < entry["score"] < entry["points"]]
        print(error, "what earned a part:", *partly, sep="\n")
        raise
    if anyway:
        assert "not final" in term.do("export", "--format", "canvas", status=2)
    flag = ["--anyway"] if anyway else []
    unit = min(term.asked, key=lambda unit: term.sheets[unit])  # one at a time, each in its turn
    term.sheets[unit] += 1
    scaled = {place: score * MOST / points for place, (score, points) in whole.items() if place[0] == unit}
    others = {
        "report --json": lambda: (report(term), (single, None)),
        "scores.csv": lambda: (scores(term), (single, None)),
        "scores.csv, sums": lambda: (sums(term), totals(due)),
        "feedback pages": lambda: (pages(term, names), (single, whole)),
        "nbgrader export": lambda: (exported(term), whole),
        "canvas.csv": lambda: (canvas(term, *flag), whole),
        "moodle.csv": lambda: (moodle(term, *flag), {place: score for place, (score, _) in whole.items()}),
        "Moodle's worksheet": lambda: (worksheet(term, unit, *flag), scaled),
    }
    for place, read in term.in_turn(others):
        same(place, *read())


def same(where: str, found: object, due: object) -> None:
    if isinstance(due, tuple):
        for part, other in zip(found, due, strict=True):
            if other is not None:
                same(where, part, other)
        return
    assert set(found) == set(due), f"{where}: {sorted(set(found) ^ set(due))[:5]}"
    for place, mark in due.items():
        pairs = zip(_many(found[place]), _many(mark), strict=True)
        assert all(abs(one - other) < 0.005001 for one, other in pairs), f"{where}, {place}: {found[place]}, due {mark}"


def _many(value: float | tuple[float, ...]) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,)


def totals(due: Mapping[tuple[str, str], Due]) -> dict[str, float]:
    students = {student for _, student in due}
    return {each: sum(found.score for (_, student), found in due.items() if student == each) for each in students}


def gradebook(term: Term, names: Mapping[tuple[str, str], str]) -> tuple[Single, Whole]:
    """nbgrader's own sums, in its own words."""
    single, whole = {}, {}
    with term.gradebook() as book:
        for assignment in book.assignments:
            for submission in assignment.submissions:
                place = assignment.name, submission.student.id
                penalty = submission.late_submission_penalty or 0.0
                whole[place] = max(0.0, submission.score - penalty), submission.max_score
                for grade in submission.notebooks[0].grades:
                    single[(*place, names[place[0], grade.name])] = grade.score, grade.max_score
    return single, whole


def verdicts(term: Term) -> list[dict]:
    return json.loads(term.do("report", "--json").out)["verdicts"]


def report(term: Term) -> tuple[Single, None]:
    return {(e["unit"], e["student"], e["function"]): (e["score"], e["points"]) for e in verdicts(term)}, None


def table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def scores(term: Term) -> tuple[Single, None]:
    single: Single = {}
    for row in table(term.root / "grading" / "report" / "scores.csv"):
        for column, score in row.items():
            if " /" in column and score:
                unit, name, points = re.fullmatch(r"(\S+) (\S+) /(\S+)", column).groups()
                single[unit, row["student"], name] = float(score), float(points)
    return single, None


def sums(term: Term) -> dict[str, float]:
    return {row["student"]: float(row["sum"]) for row in table(term.root / "grading" / "report" / "scores.csv")}


def pages(term: Term, names: Mapping[tuple[str, str], str]) -> tuple[Single, Whole]:
    single, whole = {}, {}
    for path in term.root.glob("grading/feedback/*/*/*.html"):
        student, unit = path.parts[-3:-1]
        text = html.unescape(path.read_text(encoding="utf-8"))
        score, points = re.search(r"Score: (\S+) of (\S+) points", text).groups()
        whole[unit, student] = float(score), float(points)
        rows = re.findall(r'<tr><td><a href="#([^"]+)"><code>.*?<td class="score">(\S+) of (\S+)</td>', text)
        for cell, score, points in rows:
            single[unit, student, names[unit, cell]] = float(score), float(points)
    return single, whole


def exported(term: Term) -> Whole:
    """`nbgrader export`, by its own plug-in. Who handed in nothing has a row of zeros there."""
    path = term.root / "grading" / "grades.csv"
    app = ExportApp(config=load_config(term.root))
    assert app.plugin_class is SafeCsvExport
    with term.gradebook() as book:
        plugin = app.plugin_class(parent=app)
        plugin.to = str(path)
        plugin.export(book)
    found = {}
    for row in table(path):
        if (row["student_id"], row["assignment"]) in term.given:
            found[row["assignment"], row["student_id"]] = float(row["score"]), float(row["max_score"])
        else:
            assert float(row["score"]) == 0
    return found


def canvas(term: Term, *flags: str) -> Whole:
    term.do("export", "--format", "canvas", *flags)
    most, *rows = table(term.root / "grading" / "report" / "canvas.csv")
    assert most["Student"].strip() == "Points Possible"
    units = [unit for unit in term.asked if unit in most]
    return {
        (unit, row["SIS Login ID"]): (float(row[unit]), float(most[unit]))
        for row in rows
        for unit in units
        if row[unit] != ""
    }


def moodle(term: Term, *flags: str) -> dict[tuple[str, str], float]:
    term.do("export", "--format", "moodle", *flags)
    rows = table(term.root / "grading" / "report" / "moodle.csv")
    units = [unit for unit in term.asked if unit in rows[0]]
    return {(unit, row["Username"]): float(row[unit]) for row in rows for unit in units if row[unit] != ""}


def worksheet(term: Term, unit: str, *flags: str) -> dict[tuple[str, str], float]:
    """A grading worksheet of one unit, in which Moodle has another maximum."""
    path, out = term.root / "grading" / "worksheet.csv", term.root / "grading" / "report" / "worksheet.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        sheet = csv.writer(file)
        sheet.writerow(["Identifier", "Full name", "Email address", "Status", "Grade", "Maximum Grade"])
        for number, student in enumerate(term.students):
            if (student, unit) in term.given:
                sheet.writerow([f"Participant {number}", student.title(), student, "Submitted", "", f"{MOST:g}"])
    term.do("export", unit, "--format", "moodle", "--roster", str(path), "--out", str(out), *flags)
    return {(unit, row["Email address"]): float(row["Grade"]) for row in table(out)}
