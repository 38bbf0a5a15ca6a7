"""Feedback pages that go back to a learning-management system under the names of its own download."""

from __future__ import annotations

import csv
import io
import re
import zipfile

import pytest

from autograder.cli import main
from autograder.gradebook.gradebook_writer import Gradebook
from autograder.lms.collect_submissions import collect
from autograder.lms.lms_files import read_roster
from autograder.lms.return_feedback import send_back
from autograder.records import NotUsable
from lms.test_collect_and_export import ONE, TWO, UNIT, WORKSHEET, course, gradebook, pack  # noqa: F401 (fixtures)

CANVAS = {
    f"lovelaceada_4711_90210_{UNIT}-1.ipynb": ONE,
    f"boole42george_LATE_4712_90211_{UNIT}.ipynb": TWO,
    f"4713_90212_{UNIT}.ipynb": TWO,
}
MOODLE = {
    f"Ada Lovelace_4711_assignsubmission_file_/{UNIT}.ipynb": ONE,
    f"Émile Borel_4712_assignsubmission_file_{UNIT}.ipynb": TWO,
}


def taken(course, files, roster=None):  # noqa: F811
    """Collect a download, and give each student a page; returns the students."""
    collect(course, UNIT, pack(course, **files), roster)
    students = sorted(path.parts[-3] for path in course.glob(f"grading/submitted/*/{UNIT}/{UNIT}.ipynb"))
    for student in students:
        page = course / "grading" / "feedback" / student / UNIT / f"{UNIT}.html"
        page.parent.mkdir(parents=True)
        page.write_text(f"page of {student}", encoding="utf-8")
    return students


def contents(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def as_canvas_reads(name):
    """The student's number and that of the upload: the first two parts of the name that are numbers."""
    return [part for part in name.rpartition("/")[2].split("_") if re.fullmatch("[0-9]+", part)][:2]


def as_moodle_reads(path):
    """The participant's number and the page's name, from the first part of a path that has four parts or more."""
    parts = path.split("/")
    while parts:
        info = parts.pop(0).split("_", 4)
        if len(info) >= 4 and info[1].isdigit():
            return info[1], info[2:4], "/".join([*info[4:5], *parts]).strip("/")
    return None


def test_canvas_reads_whose_page_it_is(course):  # noqa: F811
    (course / "roster.csv").write_text("Student,ID,SIS Login ID,Section\nBabbage,4713,babbage,\n", encoding="utf-8")
    students = taken(course, CANVAS, read_roster(course / "roster.csv"))
    sent = send_back(course, UNIT, "canvas", students)
    found = {tuple(as_canvas_reads(name)): text for name, text in contents(sent.paths[0]).items()}
    assert found == {
        ("4711", "90210"): "page of lovelaceada-4711",
        ("4712", "90211"): "page of boole42george-4712",
        ("4713", "90212"): "page of babbage",
    }
    assert (sent.count, sent.missing) == (3, [])


def test_moodle_reads_whose_page_it_is(course):  # noqa: F811
    sent = send_back(course, UNIT, "moodle", taken(course, MOODLE))
    found = {
        as_moodle_reads(name)[0]: (as_moodle_reads(name)[1:], text) for name, text in contents(sent.paths[0]).items()
    }
    plugin = ["assignsubmission", "file"]
    assert found == {
        "4711": ((plugin, f"{UNIT}-ada-lovelace.html"), "page of ada-lovelace"),
        "4712": ((plugin, f"{UNIT}-émile-borel.html"), "page of émile-borel"),
    }


def test_moodles_worksheet_gets_comments_where_there_are_none(course):  # noqa: F811
    rows = [
        "Participant 4711,Ada Lovelace,ada@x.edu,Submitted,,100,Yes,-,-,\n",
        "Participant 4712,Émile Borel,emile@x.edu,Submitted,,100,Yes,-,-,Well done\n",
        "Participant 4713,Nobody Else,else@x.edu,No submission,,100,Yes,-,-,\n",
    ]
    (course / "roster.csv").write_text(WORKSHEET + "".join(rows), encoding="utf-8")
    roster = read_roster(course / "roster.csv")
    students = taken(course, MOODLE, roster)
    with Gradebook(f"sqlite:///{course}/grading/gradebook.db", "attention") as book:
        book.add_assignment(UNIT)
        book.add_notebook(UNIT, UNIT)
        for name, points in (("test_causal_mask", 1.0), ("test_padding_mask", 2.0)):
            book.add_grade_cell(name, UNIT, UNIT, max_score=points, cell_type="code")
        for student in students:
            book.add_submission(UNIT, student)
            book.find_grade("test_causal_mask", UNIT, UNIT, student).auto_score = 1.0
            book.find_grade("test_padding_mask", UNIT, UNIT, student).auto_score = 0.5
        book.db.commit()
    sent = send_back(course, UNIT, "moodle", students, roster)
    table = list(csv.DictReader(io.StringIO(sent.paths[1].read_text(encoding="utf-8"))))
    told = "1.5 of 3 points. Look at: padding_mask 0.5 of 2."
    assert [row["Feedback comments"] for row in table] == [told, "Well done", ""]
    assert [row["Identifier"] for row in table] == ["Participant 4711", "Participant 4712", "Participant 4713"]
    with pytest.raises(NotUsable, match="has no column Feedback comments; turn on"):
        (course / "roster.csv").write_text("Identifier,Full name\nParticipant 4711,Ada Lovelace\n", encoding="utf-8")
        send_back(course, UNIT, "moodle", students, read_roster(course / "roster.csv"))


def test_a_mail_merge_has_a_page_and_an_address_for_each(course):  # noqa: F811
    students = [*taken(course, MOODLE), "grace@x.edu"]
    sent = send_back(course, UNIT, "mail", students)
    assert sent.missing == [f"grace@x.edu: has no feedback page of {UNIT}; run `autograder grade {UNIT}`"]
    folder, table = sent.paths
    rows = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    assert [(row["ID"], (folder / row["File"]).read_text(encoding="utf-8")) for row in rows] == [
        (student, f"page of {student}") for student in students[:-1]
    ]


def test_who_came_another_way_is_named_and_the_others_are_packed(course):  # noqa: F811
    students = [*taken(course, CANVAS), "grace"]
    page = course / "grading" / "feedback" / "grace" / UNIT / f"{UNIT}.html"
    page.parent.mkdir(parents=True)
    page.write_text("page of grace", encoding="utf-8")
    sent = send_back(course, UNIT, "canvas", students)
    assert sent.count == 2 and len(sent.missing) == 1
    assert sent.missing[0].startswith(
        "grace: not in the zip file, no Canvas download brought it; run `autograder collect"
    )
    with pytest.raises(NotUsable, match="no feedback page to send back"):
        send_back(course, UNIT, "moodle", students)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--zip", "canvas"], "--zip packs one unit; name it"),
        (["--zip", "canvas", "1", "3"], "--zip packs one unit; name it"),
        (["3", "--roster", "a.csv"], "say where the pages of --zip go"),
    ],
)
def test_what_is_missing_is_one_line(course, capsys, words, line):  # noqa: F811
    assert main(["--course", str(course), "feedback", *words]) == 2
    assert line in capsys.readouterr().err
