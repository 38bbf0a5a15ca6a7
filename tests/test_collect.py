"""Submissions from learning-management systems, and marks back to them: names, limits, and what strangers put in."""

from __future__ import annotations

import csv
import os
import shutil
import stat
import zipfile
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograder.cli import main
from autograder.collect import _sender
from autograder.export import Student, table, write
from autograder.roster import plain_id, read_roster
from autograder.units import exercises

ROOT = Path(__file__).parents[1]
UNIT = "03_masking"
FULL = sum(exercise.points for exercise in exercises(UNIT).values())
NOTEBOOK = b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
CANVAS = "Student,ID,SIS User ID,SIS Login ID,Section\n    Points Possible,,,,\n"
MOODLE = "Identifier,Full name,Email address,Grade,Maximum grade\n"


@pytest.fixture
def course(tmp_path):
    folder = tmp_path / "course"
    folder.mkdir()
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    return folder


def pack(folder: Path, **files: bytes) -> Path:
    path = folder / "submissions.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def collect(course: Path, capsys, source: Path, *words: str | Path) -> tuple[int, str, list[str]]:
    capsys.readouterr()
    status = main(["--course", str(course), "collect", UNIT, str(source), *map(str, words)])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return status, out, err.splitlines()


def handed_in(course: Path) -> dict[str, bytes]:
    return {path.parts[-3]: path.read_bytes() for path in course.glob(f"grading/submitted/*/{UNIT}/{UNIT}.ipynb")}


@pytest.mark.parametrize(
    "name, student, number",
    [
        (f"lovelaceada_4711_90210_{UNIT}.ipynb", "lovelaceada-4711", "4711"),
        (f"lovelaceada_LATE_4711_90210_{UNIT}-2.ipynb", "lovelaceada-4711", "4711"),
        (f"submissions/lovelaceada_4711_90210_{UNIT}.ipynb", "lovelaceada-4711", "4711"),
        (f"Ada Lovelace_4711_assignsubmission_file_/{UNIT}.ipynb", "ada-lovelace", "4711"),
        (f"Ada Lovelace_4711_assignsubmission_file/{UNIT}.ipynb", "ada-lovelace", "4711"),
        (f"Ada Lovelace_4711_assignsubmission_file_{UNIT}.ipynb", "ada-lovelace", "4711"),
        (f"Zoë O'Neill-Ødegård_1_assignsubmission_file_/x/{UNIT}.ipynb", "zoë-o-neill-ødegård", "1"),
        (f"李小龍_12_assignsubmission_file_/{UNIT}.ipynb", "李小龍", "12"),
        (f"anna/{UNIT}/{UNIT}.ipynb", "anna", ""),
        (f"../../etc/{UNIT}.ipynb", None, ""),
        (f"{UNIT}.ipynb", None, ""),
    ],
)
def test_names_say_who_it_was(name, student, number):
    sender = _sender(name)
    assert (sender.id if sender else None, sender.number if sender else "") == (student, number)


def test_a_zip_of_canvas(course, capsys):
    source = pack(course, **{f"b_2_9_{UNIT}.ipynb": NOTEBOOK, f"a_LATE_1_8_{UNIT}-1.ipynb": b"1", "a_1_8_x.pdf": b""})
    assert collect(course, capsys, source)[0] == 0
    assert handed_in(course) == {"a-1": b"1", "b-2": NOTEBOOK}
    with Gradebook(f"sqlite:///{course / 'grading' / 'gradebook.db'}", "attention") as book:
        assert {student.id: student.lms_user_id for student in book.students} == {"a-1": "1", "b-2": "2"}


def test_a_roster_says_who_the_numbers_are(course, capsys):
    roster = course / "roster.csv"
    roster.write_text(CANVAS + '"Byron, Ada",1,s1,ada@x.edu,A\n"Babbage, Charles",2,s2,,A\n', encoding="utf-8-sig")
    source = pack(course, **{f"byronada_1_8_{UNIT}.ipynb": b"1", f"c_2_9_{UNIT}.ipynb": b"2"})
    assert collect(course, capsys, source, "--roster", roster)[0] == 0
    assert handed_in(course) == {"ada@x.edu": b"1", "s2": b"2"}


def test_a_moodle_zip_whose_worksheet_is_the_roster(course, capsys):
    roster = course / "roster.csv"
    roster.write_text(MOODLE + "Participant 7,Ada Byron,ada@x.edu,,100\n", encoding="utf-8")
    source = pack(course, **{f"Ada Byron_7_assignsubmission_file_/{UNIT}.ipynb": b"1"})
    assert collect(course, capsys, source, "--roster", roster)[0] == 0
    assert handed_in(course) == {"ada@x.edu": b"1"}


def test_a_folder_and_a_second_time(course, capsys, tmp_path):
    place = tmp_path / "download" / "Ada Byron_7_assignsubmission_file_"
    place.mkdir(parents=True)
    (place / "my work.ipynb").write_bytes(b"1")
    (place / ".DS_Store").write_bytes(b"")
    assert "1 new or changed, 0 as before" in collect(course, capsys, tmp_path / "download")[1]
    notes = course / "grading/submitted/ada-byron" / UNIT / "timestamp.txt"
    notes.write_text("2026-01-01")
    assert "0 new or changed, 1 as before" in collect(course, capsys, tmp_path / "download")[1]
    assert notes.exists()
    (place / "my work.ipynb").write_bytes(b"2")
    assert "1 new or changed, 0 as before" in collect(course, capsys, tmp_path / "download")[1]
    assert handed_in(course) == {"ada-byron": b"2"} and not notes.exists()


def test_what_is_wrong_costs_its_student_alone(course, capsys):
    big = b"0" * (21 << 20)
    source = course / "submissions.zip"
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"good_1_1_{UNIT}.ipynb", b"1")
        archive.writestr(f"big_2_1_{UNIT}.ipynb", big)
        archive.writestr("two_3_1_a.ipynb", b"1")
        archive.writestr("two_3_1_b.ipynb", b"1")
        for number in (4, 5):
            archive.writestr(f"Same Name_{number}_assignsubmission_file_/{UNIT}.ipynb", b"1")
        archive.writestr(f"{UNIT}.ipynb", b"1")
        archive.writestr(f"damaged_6_1_{UNIT}.ipynb", b"some text")
    data = bytearray(source.read_bytes())
    at = data.index(b"damaged_6") + len(f"damaged_6_1_{UNIT}.ipynb")
    data[at : at + 4] = b"\xff\xff\xff\xff"
    source.write_bytes(data)
    status, _, lines = collect(course, capsys, source)
    assert status == 2 and set(handed_in(course)) == {"good-1"}
    for word in ("20 MB", "several notebooks", "two students have this name", "does not say who", "cannot be unpacked"):
        assert len([line for line in lines if word in line]) >= 1, word
    assert len(lines) == 6


def test_nothing_is_written_elsewhere(course, capsys, tmp_path):
    names = (f"../../x/{UNIT}.ipynb", f"/abs/{UNIT}.ipynb", f"..\\..\\win/{UNIT}.ipynb", f"a/../../../up/{UNIT}.ipynb")
    before = {path for path in tmp_path.rglob("*") if "grading" not in path.parts}
    source = pack(course, **dict.fromkeys(names, b"1"))
    collect(course, capsys, source)
    after = {path for path in tmp_path.rglob("*") if "grading" not in path.parts}
    assert after - before <= {source, course / "grading"}
    for path in (course / "grading").rglob("*"):
        assert stat.S_ISDIR(os.lstat(path).st_mode) or stat.S_ISREG(os.lstat(path).st_mode)


@pytest.mark.parametrize("what", ["none", "text", "empty", "unit", "roster", "roster-columns"])
def test_unusable_input_is_one_line(course, capsys, what):
    source = course / "submissions.zip"
    if what == "text":
        source.write_text("no zip")
    elif what != "none":
        pack(course, **({} if what == "empty" else {f"a_1_1_{UNIT}.ipynb": b"1"}))
    words: list[str | Path] = []
    if what.startswith("roster"):
        (course / "roster.csv").write_bytes(b"\xff\xfe" if what == "roster" else b"colour,taste\n1,2\n")
        words = ["--roster", course / "roster.csv"]
    capsys.readouterr()
    unit = "99_none" if what == "unit" else UNIT
    assert main(["--course", str(course), "collect", unit, str(source), *map(str, words)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("autograder: ")


# --- export ----------------------------------------------------------------------------------------------------------


def rows_of(path: Path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_plain_ids():
    assert plain_id("  Ada  Lovelace ") == "ada-lovelace"
    assert plain_id("../../etc/passwd") == "etc-passwd"
    assert plain_id("a,b;c") == "a-b-c"
    assert plain_id("…") == ""


def test_canvas_without_a_roster(tmp_path):
    found = [Student("ada-1", "Ada", "Byron", "", "1", {UNIT: 12.5}), Student("=1+1", marks={UNIT: 3.0})]
    rows, missing = table("canvas", found, [UNIT], None)
    write(rows, tmp_path / "out.csv")
    assert missing == []
    assert rows_of(tmp_path / "out.csv") == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", UNIT],
        ["    Points Possible", "", "", "", "", f"{FULL:g}"],
        ["Byron, Ada", "1", "", "", "", "12.5"],
        ["'=1+1", "", "", "'=1+1", "", "3"],
    ]


def test_a_worksheet_of_moodle_is_filled_in_and_scaled(tmp_path):
    path = tmp_path / "worksheet.csv"
    path.write_text(
        MOODLE + 'Participant 7,Ada Byron,ada@x.edu,,"100,00"\nParticipant 8,Ben,ben@x.edu,,10\n', encoding="utf-8"
    )
    found = [
        Student("ada@x.edu", marks={UNIT: FULL / 2}),
        Student("ben", marks={UNIT: FULL}),
        Student("x", marks={UNIT: 1}),
    ]
    rows, missing = table("moodle", found, [UNIT], read_roster(path))
    assert missing == ["x"]
    assert rows[1:] == [
        ["Participant 7", "Ada Byron", "ada@x.edu", "50.00", "100,00"],
        ["Participant 8", "Ben", "ben@x.edu", "10.00", "10"],
    ]


def test_a_moodle_number_is_nobody_in_particular(tmp_path):
    path = tmp_path / "worksheet.csv"
    path.write_text(MOODLE + "Participant 7,Ada Byron,ada@x.edu,,100\n", encoding="utf-8")
    _, missing = table("moodle", [Student("somebody", number="7", marks={UNIT: 1})], [UNIT], read_roster(path))
    assert missing == ["somebody"]


def test_semicolons_and_two_of_one_name(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text("Vorname;First name;Last name\n;Ada;Byron\n;Ada;Byron\n;Ben;Low\n", encoding="utf-8")
    found = [Student("ada-byron", marks={UNIT: 1}), Student("ben-low", marks={UNIT: 2})]
    rows, missing = table("moodle", found, [UNIT], read_roster(path))
    assert missing == ["ada-byron"] and rows[1:] == [["Ben", "Low", "2"]]


def test_nothing_graded_is_one_line(course, capsys):
    assert main(["--course", str(course), "export", "--format", "canvas"]) == 2
    assert capsys.readouterr().err == "autograder: nothing has been graded yet; run `autograder grade` first\n"
